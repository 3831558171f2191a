"""Heat-flow rule R5: sines and cosines of a square, the real parts of u^n exp(a u + b u^2) with a complex b."""

from collections.abc import Mapping

import sympy as sp

from symdebias import _limits
from symdebias.transforms.kinds import Kind, Transformed, positive


def chirps(kind: Kind, coefficients: Mapping[int, sp.Expr], variable: sp.Symbol, time: sp.Expr) -> Transformed | None:
    """Return the real part of W_s^-1 of terms c_n u^n exp(i phase + a u + b u^2), or None for a real b or an erf.

    R3 holds for complex b. With w = 1 + 2 b s and v = (u - a s)/w it gives

        W_s^-1[u^n e^{au + bu^2}] = w^{-1/2} exp((b u^2 + a u - a^2 s/2)/w) P_n(v),
        P_0 = 1,  P_{n+1} = v P_n - (s/w) P_n'

    As Re(2 s b/w) < 1 exactly where 1 + 2 s Re(b) > 0, it exists there; its square has a mean where 2 s |b| < 1.

    Examples
    --------
    >>> from symdebias.transforms import inverse_heat
    >>> u, s = sp.symbols("u s", positive=True)
    >>> inverse_heat(sp.cos(u**2), u, s).variance_conditions
    (s < 1/2,)
    """
    a, b = kind.linear, kind.quadratic
    if sp.im(b) == 0 or kind.erf is not None:
        return None
    real, imaginary = 1 + 2 * sp.re(b) * time, 2 * sp.im(b) * time
    square = _limits.expand(real**2 + imaginary**2)
    # w^{-1/2} without an angle: the real part of w is positive.
    size = sp.sqrt(square)
    root = sp.sqrt((size + real) / 2)
    # 1/w = p - iq and w^{-1/2} = f - ig; written out only at the end.
    p, q, f, g = symbols = sp.symbols("p q f g", cls=sp.Dummy, real=True)
    values = dict(
        zip(symbols, (real / square, imaginary / square, root / size, imaginary / (2 * root * size)), strict=True)
    )
    inner, inverse = sp.Dummy("v"), p - sp.I * q
    polynomial = sp.Integer(0)
    for power in range(max(coefficients), -1, -1):
        raised = inner * polynomial - time * inverse * sp.diff(polynomial, inner)
        polynomial = _limits.expand(raised + coefficients.get(power, sp.Integer(0)))
    polynomial = (f - sp.I * g) * polynomial.xreplace({inner: (variable - a * time) * inverse})
    cosine, sine = (part.xreplace(values) for part in _limits.expand(polynomial).as_real_imag())
    exponent = sp.I * kind.phase + inverse * (b * variable**2 + a * variable - a**2 * time / 2)
    growth, phase = (part.xreplace(values) for part in _limits.expand(exponent).as_real_imag())
    expression = sp.exp(growth) * (cosine * sp.cos(phase) - sine * sp.sin(phase))
    exists, has_variance = positive(_limits.expand(real)), positive(1 - 2 * sp.Abs(b) * time)
    return Transformed(expression, (exists,), (has_variance,))
