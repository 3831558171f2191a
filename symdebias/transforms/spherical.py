"""The inverse of noise that is alike in all directions, on functions of scores.

Noise of a vector with this property acts on a function of u = theta'x through u and s = theta'D theta alone. Its
inverse takes u^j to sum_i e_ji s^((j - i)/2) u^i, multiplies exponentials and waves by a factor in s z^2, or is a
finite operator sum_k c_k s^k d^(2k): what the noise has of these decides. Normal noise is an instance (Hermite
polynomials, exp(-s z^2/2), the heat flow), which has rules of its own in `heat`.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import sympy as sp

from symdebias import _limits
from symdebias.codegen import stable
from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import SphericalNoise
from symdebias.transforms.exponential import ExponentialSum, exponential_sum
from symdebias.transforms.heat import require_low_power
from symdebias.transforms.series import require_smooth

# An operator of a higher order loses all digits and has no use: the variance explodes long before.
_HIGHEST_ORDER = 24


def second_derivative(expression: sp.Expr, variable: sp.Symbol) -> sp.Expr:
    """Return a second derivative, kept short: powers of expit are polynomials."""
    for _ in range(2):  # of sums, term by term: the derivative of a Horner form is long
        expression = _limits.expand_around_forms(_limits.diff(_limits.expand_around_forms(expression), variable))
    return stable.in_logistic_density(expression)


def inverse_spherical(
    expression: sp.Expr, variables: Sequence[sp.Symbol], covariance: sp.Matrix, noise: SphericalNoise
) -> sp.Expr:
    """Return the inverse of spherical noise on a function of scores, whose growth the noise allows.

    The covariance of the scores is Theta D Theta', s alone for one score; what else stands in the expression is
    constant.

    Raises
    ------
    NoExactCorrectionError
        The noise has no inverse on such functions; the message says why.

    Examples
    --------
    >>> from symdebias.mechanisms import SphericalLaplaceMechanism
    >>> u, s = sp.symbols("u s", positive=True)
    >>> three = SphericalLaplaceMechanism.from_scale(1.0).noise_on(3)
    >>> inverse_spherical(u**4, (u,), sp.Matrix([[s]]), three)
    3*s**2/2 - 6*s*u**2 + u**4
    >>> inverse_spherical(sp.exp(u), (u,), sp.Matrix([[s]]), three)
    (s**2/16 - s/2 + 1)*exp(u)
    """
    if len(variables) == 1:
        found = _of_terms(expression, variables[0], covariance[0, 0], noise)
        if found is not None:
            return found
    terms = noise.operator
    polynomial = _limits.expand(expression).is_polynomial(*variables)
    if terms is None and polynomial:
        # What is beyond the degree does nothing.
        degree = sp.Poly(_limits.expand(expression), *variables).total_degree()
        require_low_power(int(degree), f"{' and '.join(map(str, variables))}, under noise of a whole vector,")
        terms = operator_terms(noise, degree // 2)
    if terms is None:
        raise NoExactCorrectionError(
            f"the inverse of spherical noise on {noise.dimension} columns is no finite operator: only powers, "
            "exponentials, sines and cosines of one score are corrected exactly under it. Pass padded=True to a "
            'SphericalLaplaceMechanism, or method="surrogate".'
        )
    if len(terms) - 1 > _HIGHEST_ORDER:
        raise NoExactCorrectionError(
            f"the inverse of spherical noise on {noise.dimension} columns is an operator of order "
            f"{2 * len(terms) - 2}; at most order {2 * _HIGHEST_ORDER} is derived. Its variance would be enormous. Use "
            'method="surrogate", or a loss of powers, exponentials, sines and cosines.'
        )
    require_smooth(expression, variables, "the noise is undone by derivatives, and ")
    return sp.Add(*(term for term, _ in derivative_terms(stable.rewrite(expression), variables, covariance, terms)))


def operator_terms(noise: SphericalNoise, order: int) -> tuple[sp.Expr, ...]:
    """Return c_0, ..., c_K of the inverse sum_k c_k s^k d^(2k) up to an order, read off the images of powers."""
    # Of u^(2k) only c_k s^k (2k)! has no u.
    return tuple(noise.monomial(2 * k)[0] / math.factorial(2 * k) for k in range(order + 1))


def derivative_terms(
    expression: sp.Expr, variables: Sequence[sp.Symbol], covariance: sp.Matrix, terms: Sequence[sp.Expr]
) -> Iterator[tuple[sp.Expr, int]]:
    """Yield c_k L^k f and k, L = sum_ab S_ab d_a d_b, of a smooth f; S is the covariance, and the c_k are the terms."""
    for k, coefficient in enumerate(terms):
        if k > 0:
            if len(variables) == 1:
                expression = second_derivative(expression, variables[0])
            else:
                expression = _limits.expand_around_forms(_laplacian(expression, variables, covariance))
            if expression == 0:
                return
        scale = covariance[0, 0] ** k if len(variables) == 1 else sp.Integer(1)
        yield coefficient * scale * expression, k


def _laplacian(expression: sp.Expr, variables: Sequence[sp.Symbol], covariance: sp.Matrix) -> sp.Expr:
    total = sp.Integer(0)
    for a, first in enumerate(variables):
        slope = _limits.diff(expression, first)
        for b in range(a, len(variables)):
            times = 1 if a == b else 2
            total += times * covariance[a, b] * _limits.diff(slope, variables[b])
    return total


def _jet(noise: SphericalNoise, square: sp.Expr, at: sp.Expr, order: int, *, imaginary: bool) -> list[sp.Expr]:
    """Return the Taylor coefficients of the factor of exp(z u) around a rate or i times a frequency; `square` is s."""
    if at == 0:
        # The image of u^k is k! times the jet's product with exp(z u): of it the constant part.
        sign = -1 if imaginary else 1
        return [
            sign ** (k // 2) * noise.monomial(k)[0] * square ** (k // 2) / math.factorial(k)
            if k % 2 == 0
            else sp.Integer(0)
            for k in range(order + 1)
        ]
    z = sp.Dummy("z", real=True)
    whole = noise.factor((-square if imaginary else square) * z**2)
    assert whole is not None
    jet = []
    for k in range(order + 1):
        jet.append((whole / math.factorial(k)).subs(z, at))
        whole = _limits.diff(whole, z)
    return jet


def _of_terms(expression: sp.Expr, variable: sp.Symbol, square: sp.Expr, noise: SphericalNoise) -> sp.Expr | None:
    """Return the inverse of a sum of powers times exponentials and waves, or None where it is none."""
    expanded = _limits.expand(expression)
    if expanded.is_polynomial(variable):
        total = sp.Integer(0)
        require_low_power(int(sp.degree(expanded, variable)), f"{variable}, under noise of a whole vector,")
        for (power,), coefficient in sp.Poly(expanded, variable).terms():
            images = noise.monomial(power)
            total += coefficient * sp.Add(
                *(e * square ** ((power - i) // 2) * variable**i for i, e in enumerate(images) if e != 0)
            )
        return _limits.expand(total)
    if noise.factor(square) is None:
        return None
    try:
        terms = exponential_sum(stable.plain(expression), variable)
    except NoExactCorrectionError:
        return None
    require_low_power(max(mode.order for mode in terms.modes), f"{variable}, under noise of a whole vector,")
    return terms.times([spherical_factor(terms, square, noise)])


def spherical_factor(terms: ExponentialSum, square: sp.Expr, noise: SphericalNoise) -> Callable[[int, int], sp.Expr]:
    """Return what the noise makes of the modes of a sum: the k-th Taylor coefficient at the mode of an index.

    Parameters
    ----------
    terms : ExponentialSum
        The sum.
    square : sympy.Expr
        s.
    noise : SphericalNoise
        The noise, whose `factor` exists.
    """
    jets = [_jet(noise, square, mode.value, mode.order, imaginary=mode.imaginary) for mode in terms.modes]
    return lambda index, k: jets[index][k]
