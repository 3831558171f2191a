"""One over E exp(z e), by which the inverse of a noise multiplies exp(z x), as an expression that kernels compute.

What is printed holds for all noise of a formula: numbers in it are constants of a column. Where quotients of sines and
the like are 0/0 at 0, it is a series about it.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp

from symdebias.noise import FREQUENCY, NO_WAVES, AdditiveNoise, exactly
from symdebias.privacy import precise

ARGUMENT = sp.Symbol("z", real=True)
# Whole numbers up to this one are left in a formula.
_WHOLE = 64
# What kernels compute at all arguments.
_PRINTED = (sp.exp, sp.log, sp.sin, sp.cos, sp.tan, sp.sinh, sp.cosh, sp.tanh)
# The largest E exp(z e) within whose radius the series is found: E exp(z e) has no zero there, and one over it is at
# most 1/(2 - that).
_MOST = 1.9
# The shares of that radius up to which a series is taken, and its terms: what is left out of a value is below 1e-13.
# The first is taken where the formula is right from there on, with its derivatives by the argument in radii.
_SERIES = ((sp.Rational(1, 4), 12), (sp.Rational(1, 2), 26))
_RIGHT = (1e-12, 1e-10, 1e-8)
# How large E exp(z e) is where formulas end, so that its fifteenth power is in the range of float64: derivatives are
# divided by powers. How often the way there is doubled at most.
_LARGEST, _DOUBLINGS = 1e20, 40
# Points of a circle that its coefficients are means over, at half of the radius, and how many are found.
_POINTS, _COEFFICIENTS = 128, 48
_HALVINGS = 60


# Of one that is nowhere 0, where `inverse_moments` has nothing.
_NO_KERNEL = (
    "is nowhere 0, but kernels compute it at imaginary arguments, with all digits next to 0, from exponentials, "
    "logarithms, sines, cosines, tangents and their hyperbolic forms alone: write it in these if it can be"
)


@dataclass(frozen=True)
class InverseMoments:
    """One over E exp(z e) of a noise that is symmetric about 0.

    Attributes
    ----------
    expression : sympy.Expr
        Of `ARGUMENT` and the constants.
    constants : tuple of sympy.Symbol
        What stands for numbers.
    numbers : tuple of float
        The numbers.
    """

    expression: sp.Expr
    constants: tuple[sp.Symbol, ...]
    numbers: tuple[float, ...]


def constant_of_column(place: int) -> sp.Symbol:
    """Return what stands for a number of a column in an expression that all columns of its kind share."""
    return sp.Symbol(f"w{place}", real=True)


@functools.lru_cache(maxsize=256)
def inverse_moments(noise: AdditiveNoise) -> InverseMoments | None:
    """Return one over E exp(z e) for real z within the tail rate, or None where it is nothing that kernels compute.

    Where E exp(z e) is beyond 1e20 it is no number: derivatives of a quotient would be 0 there, and are not.

    For z = i w it is one over the characteristic function at w, where that is nowhere 0.

    Examples
    --------
    >>> w = FREQUENCY
    >>> uniform = AdditiveNoise(1 / 3, sp.sin(w) / w)
    >>> found = inverse_moments(uniform)
    >>> found.expression.args[-1].expr
    z/sinh(z)
    >>> found.expression.xreplace(dict(zip(found.constants, found.numbers))).subs(ARGUMENT, 0)
    1
    """
    formula = sp.factor_terms(noise.inverse_factor(ARGUMENT))
    if formula.has(sp.I) or not all(isinstance(one, _PRINTED) for one in formula.atoms(sp.Function)):
        return None
    numbers: list[float] = []
    constants: list[sp.Symbol] = []

    def constant(number: Any) -> sp.Symbol:
        numbers.append(float(number))
        constants.append(constant_of_column(len(constants)))
        return constants[-1]

    direct = _in_constants(formula, constant)
    radius, series = _series(noise)
    formulas = [
        sp.lambdify((ARGUMENT, *constants), direct.diff(ARGUMENT, order), "math") for order in range(len(_RIGHT))
    ]
    if _is_right(formulas, numbers, radius, series, 0.0):
        expression = direct if noise.tail_rate < math.inf else sp.Piecewise((direct, _is_within(noise, constant)))
        return InverseMoments(expression, tuple(constants), tuple(numbers))
    known = (one for one in _SERIES if _is_right(formulas, numbers, radius, series, float(one[0])))
    share, terms = next(known, (None, 0))
    if share is None:
        return None
    # In units of the radius, and term by term: powers of the argument alone may not be finite.
    unit = constant(1 / radius)
    square, near = ARGUMENT**2 * unit**2, sp.Integer(0)
    for number in map(constant, reversed(series[:terms])):
        near = square * (number + near)
    within = True if noise.tail_rate < math.inf else _is_within(noise, constant)
    expression = sp.Piecewise((1 + near, sp.Abs(ARGUMENT) * unit < share), (direct, within))
    return InverseMoments(expression, tuple(constants), tuple(numbers))


def no_factor_of_waves(noise: AdditiveNoise) -> str:
    """Return why waves have no factor that kernels compute, as what is said of the characteristic function."""
    return _NO_KERNEL if noise.undoes_waves else NO_WAVES


def _is_right(
    formulas: list[Callable[..., Any]], numbers: list[float], radius: float, series: tuple[Any, ...], share: float
) -> bool:
    """Whether a formula and two derivatives of it are right where a series may end: quotients cancel next to 0."""
    for order, (formula, off) in enumerate(zip(formulas, _RIGHT, strict=True)):
        # Of one in radii; coefficients beyond those that are kept fall off like 2^-n there.
        powers = enumerate(series, start=1)
        wanted = (order == 0) + sum(
            c * math.perm(2 * k, order) * share ** (2 * k - order) for k, c in powers if 2 * k >= order
        )
        try:
            found = float(formula(share * radius, *numbers)) * radius**order
        except (ArithmeticError, ValueError):
            return False
        if not abs(found - float(wanted)) <= off:
            return False
    return True


def _is_within(noise: AdditiveNoise, constant: Callable[[Any], sp.Symbol]) -> Any:
    """Return that E exp(z e), which is finite for all z, is not too large."""
    mp = precise.context()
    moments = moment_function(noise, mp)
    low = high = moment_radius(noise, moments, mp)
    for _ in range(_DOUBLINGS):
        if mp.re(moments(high)) < _LARGEST:
            low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if mp.re(moments(middle)) < _LARGEST else (low, middle)
    return sp.Abs(ARGUMENT) * constant(1 / low) < 1


def _in_constants(expression: sp.Expr, constant: Callable[[Any], sp.Symbol]) -> sp.Expr:
    """Return an expression with symbols for its numbers, but for small whole ones and exponents."""
    if expression.is_Number and not (expression.is_Integer and abs(expression) <= _WHOLE):
        return constant(expression)
    if expression.is_Pow:
        return sp.Pow(_in_constants(expression.base, constant), expression.exp)
    if not expression.args:
        return expression
    return expression.func(*(_in_constants(one, constant) for one in expression.args))


def _series(noise: AdditiveNoise) -> tuple[float, tuple[Any, ...]]:
    """Return a radius within which E exp(z e) is not 0, and coefficients of even powers of z/radius of one over it.

    Within the radius abs(E exp(z e) - 1) <= E exp(abs(z e)) - 1 < 1, so that none is above 10 (Cauchy).
    """
    mp = precise.context()
    moments = moment_function(noise, mp)
    # The same radius as kernels have.
    radius = float(moment_radius(noise, moments, mp))
    found = even_coefficients(lambda z: 1 / moments(z), mp.mpf(radius) / 2, _COEFFICIENTS, _POINTS, mp)
    return radius, tuple(coefficient * 4**k for k, coefficient in enumerate(found, start=1))


def moment_function(noise: AdditiveNoise, mp: Any) -> Callable[[Any], Any]:
    """Return E exp(z e) of a complex z, to the digits of an mpmath context."""
    exact = exactly(noise.characteristic_function).xreplace({FREQUENCY: -sp.I * ARGUMENT})
    # Printed as they are, fractions would be divided in float64.
    fractions = sorted((one for one in exact.atoms(sp.Rational) if not one.is_Integer), key=sp.default_sort_key)
    names = sp.symbols(f"q:{len(fractions)}", cls=sp.Dummy)
    # All that the context has: of itself a context names only some, and others would be those of float64.
    functions = {name: getattr(mp, name) for name in dir(mp) if not name.startswith("_")}
    found = sp.lambdify((ARGUMENT, *names), exact.xreplace(dict(zip(fractions, names, strict=True))), functions)
    numbers = [mp.mpf(one.p) / one.q for one in fractions]
    return lambda z: found(z, *numbers)


def moment_radius(noise: AdditiveNoise, moments: Callable[[Any], Any], mp: Any) -> Any:
    """Return a radius within which E exp(z e), which is given as `moments`, is within 0.9 of 1, or next to it."""
    low, high = mp.mpf(0), min(1 / mp.sqrt(noise.variance), mp.mpf(noise.tail_rate) / 2)
    if mp.re(moments(high)) > _MOST:
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if mp.re(moments(middle)) > _MOST else (middle, high)
        high = low
    return high


def even_coefficients(function: Callable[[Any], Any], radius: Any, count: int, points: int, mp: Any) -> tuple[Any, ...]:
    """Return the coefficients of (z/radius)^2, (z/radius)^4, ... of an even function that is real on the real line.

    They are means over points of the circle, a multiple of four, of which 0 is none; those of a quarter do.
    """
    turns = [mp.expjpi(mp.mpf(2 * k + 1) / points) for k in range(points // 4)]
    terms, squares = [function(radius * turn) for turn in turns], [1 / turn**2 for turn in turns]
    found = []
    for _ in range(count):
        terms = [term * square for term, square in zip(terms, squares, strict=True)]
        found.append(mp.re(mp.fsum(terms)) / len(turns))
    return tuple(found)
