"""The inverse Weierstrass transform by quadrature in the complex plane: W_s^-1 f(u) = E Re f(u + i sqrt(s) Z).

Stefanski's formula holds for entire functions that grow no faster than exp(a |y|^2) along the imaginary axis, for
s < 1/(2a). It needs no closed form: f is written at u + i sqrt(s) t_k for the nodes t_k of a Gauss-Hermite rule, as a
real expression.
"""

import math

import numpy as np
import sympy as sp

from symdebias import _limits
from symdebias.codegen.functions import erf_imag, erf_real
from symdebias.codegen.stable import plain
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms.heat import singularity
from symdebias.transforms.kinds import Transformed
from symdebias.transforms.quadrature import hermite

# Entire functions of an entire argument.
_ENTIRE = (sp.exp, sp.sin, sp.cos, sp.sinh, sp.cosh, sp.erf, sp.erfc)
# A variance of 0 has no derivative of its root: what is added to it is far below rounding.
_LEAST_VARIANCE = 1e-12
# Where growth along the imaginary axis is looked at.
_FAR, _FARTHER = 40, 80


def inverse_by_quadrature(expression: sp.Expr, variable: sp.Symbol, variance: sp.Expr, *, nodes: int) -> Transformed:
    """Return W_s^-1 f by a Gauss-Hermite rule in the complex plane.

    Parameters
    ----------
    expression : sympy.Expr
        An entire function f, real on the real axis.
    variable : sympy.Symbol
        u.
    variance : sympy.Expr
        s.
    nodes : int
        The number of nodes; e^{-u} needs 16 at s = 4 and 32 at s = 16 for twelve digits.

    Returns
    -------
    Transformed
        A real expression, with the condition on s where f grows like the exponential of a square.

    Raises
    ------
    NoExactCorrectionError
        f has a pole, a branch point or a kink, or grows too fast along the imaginary axis for any s.

    References
    ----------
    Stefanski 1989; Novick & Stefanski 2002, Section 2 (with random in place of fixed nodes).

    Examples
    --------
    >>> u, s = sp.symbols("u s", real=True)
    >>> found = inverse_by_quadrature(sp.exp(u), u, sp.Float(1), nodes=16).expression
    >>> abs(float(found.subs(u, 0)) - math.exp(-0.5)) < 1e-12
    True
    """
    expression = plain(expression)
    if not _is_entire(expression, variable):
        found = (singularity(node, variable) for node in sp.preorder_traversal(expression))
        where = next((f" ({what})" for what in found if what is not None), "")
        raise NoExactCorrectionError(
            f"{expression} is not known to be entire{where}, and a mean over complex scores passes by singularities. "
            "Write it with polynomials, exponentials, sines, cosines and error functions."
        )
    conditions = _growth_conditions(expression, variable, variance)
    shift = sp.Dummy("v", real=True)
    real, _ = _parts(expression, variable, shift)
    t, weights = hermite(nodes)
    root = sp.sqrt(variance + _LEAST_VARIANCE)
    total = sp.Integer(0)
    for point, weight in zip(t, weights, strict=True):
        # f is real on the real axis, so that Re f(u + iv) is even in v.
        if point < -1e-12:
            continue
        share = sp.Float(weight * (2 if point > 1e-12 else 1), 17)
        total += share * real.xreplace({shift: sp.Float(point, 17) * root if point > 1e-12 else sp.Integer(0)})
    return Transformed(total, conditions, ())


def _is_entire(expression: sp.Expr, variable: sp.Symbol) -> bool:
    if variable not in expression.free_symbols:
        return True
    if expression == variable:
        return True
    if expression.is_Add or expression.is_Mul or isinstance(expression, _ENTIRE):
        return all(_is_entire(part, variable) for part in expression.args)
    if expression.is_Pow:
        base, exponent = expression.args
        if exponent.is_Integer and exponent.is_nonnegative:
            return _is_entire(base, variable)
        return bool(variable not in base.free_symbols and base.is_positive and _is_entire(exponent, variable))
    return False


def _growth_conditions(expression: sp.Expr, variable: sp.Symbol, variance: sp.Expr) -> tuple[sp.Rel, ...]:
    """Return s < 1/(2a) where f grows like exp(a y^2) along the imaginary axis; nothing where it grows less."""
    rays = [complex(math.cos(angle), math.sin(angle)) for angle in np.linspace(0, math.pi, 9)]
    grown = [(_rate(expression, variable, _FAR * ray), _rate(expression, variable, _FARTHER * ray)) for ray in rays]
    # Of an order above two in any direction its Fourier transform falls off too slowly.
    if any(not farther <= 1.3 * max(far, 1e-3) for far, farther in grown):
        raise NoExactCorrectionError(
            f"{expression} grows too fast in the complex plane for normal noise of any variance to be undone."
        )
    far, farther = (max(_rate(expression, variable, complex(x, y)) for x in (0.0, 0.9, -1.3)) for y in (_FAR, _FARTHER))
    if farther < 0.8 * far or farther <= 1e-3:
        return ()
    # Rounded to two digits, to the safe side of what was seen.
    return (sp.Lt(variance, sp.Float(math.floor(98 / (2 * farther)) / 100)),)


def _rate(expression: sp.Expr, variable: sp.Symbol, at: complex) -> float:
    """Return log|f(z)|/|z|^2, the largest of a few values of the other symbols; infinite where it overflows."""
    others = sorted(expression.free_symbols - {variable}, key=lambda symbol: symbol.name)
    sizes = []
    for value in (0.7, -1.1, 1.0):
        point = {symbol: sp.Float(value) for symbol in others}
        point[variable] = sp.Float(at.real) + sp.I * sp.Float(at.imag)
        try:
            found = sp.N(sp.log(sp.Abs(sp.N(expression.xreplace(point)))))
            sizes.append(float(found) if found.is_finite else -math.inf)
        except (OverflowError, ValueError, TypeError, MemoryError):
            sizes.append(math.inf)
    return max(sizes) / abs(at) ** 2


def _parts(expression: sp.Expr, variable: sp.Symbol, shift: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    """Return the real and imaginary part of f(u + iv) as real expressions."""
    if variable not in expression.free_symbols:
        return expression, sp.Integer(0)
    if expression == variable:
        return variable, shift
    arguments = [_parts(part, variable, shift) for part in expression.args]
    if expression.is_Add:
        return sp.Add(*(real for real, _ in arguments)), sp.Add(*(imaginary for _, imaginary in arguments))
    if expression.is_Mul:
        product = (sp.Integer(1), sp.Integer(0))
        for factor in arguments:
            product = _times(product, factor)
        return product
    if expression.is_Pow and expression.exp.is_Integer:
        product = (sp.Integer(1), sp.Integer(0))
        for _ in range(int(expression.exp)):
            product = _times(product, arguments[0])
            _limits.check(*product)
        return product
    if expression.is_Pow and not isinstance(expression, sp.exp):
        rate = sp.log(expression.base)
        a, b = arguments[1]
        return sp.exp(rate * a) * sp.cos(rate * b), sp.exp(rate * a) * sp.sin(rate * b)
    a, b = arguments[0]
    forms = {
        sp.exp: lambda: (sp.exp(a) * sp.cos(b), sp.exp(a) * sp.sin(b)),
        sp.sin: lambda: (sp.sin(a) * sp.cosh(b), sp.cos(a) * sp.sinh(b)),
        sp.cos: lambda: (sp.cos(a) * sp.cosh(b), -sp.sin(a) * sp.sinh(b)),
        sp.sinh: lambda: (sp.sinh(a) * sp.cos(b), sp.cosh(a) * sp.sin(b)),
        sp.cosh: lambda: (sp.cosh(a) * sp.cos(b), sp.sinh(a) * sp.sin(b)),
        sp.erf: lambda: (erf_real(a, b), erf_imag(a, b)),
        sp.erfc: lambda: (1 - erf_real(a, b), -erf_imag(a, b)),
    }
    found: tuple[sp.Expr, sp.Expr] = forms[expression.func]()  # type: ignore[no-untyped-call]
    return found


def _times(first: tuple[sp.Expr, sp.Expr], second: tuple[sp.Expr, sp.Expr]) -> tuple[sp.Expr, sp.Expr]:
    return first[0] * second[0] - first[1] * second[1], first[0] * second[1] + first[1] * second[0]
