"""One over E exp(z e), by which the inverse of a noise multiplies exp(z x), as an expression that kernels compute.

What is printed holds for all noise of a formula: numbers in it are constants of a column. About 0, where quotients of
sines and the like are 0/0, it is a series.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp

from symdebias.noise import FREQUENCY, AdditiveNoise, exactly
from symdebias.privacy import precise

ARGUMENT = sp.Symbol("z", real=True)
# Whole numbers up to this one are left in a formula.
_WHOLE = 64
# What kernels compute at all arguments.
_PRINTED = (sp.exp, sp.log, sp.sin, sp.cos, sp.sinh, sp.cosh, sp.tanh)
# The largest E exp(z e) within whose radius the series is found: E exp(z e) has no zero there, and one over it is at
# most 1/(2 - that).
_MOST = 1.9
# Terms of the series, and the share of that radius up to which it is taken: what is left out is below 1e-15.
_TERMS, _SHARE = 12, 0.25
# Points of a circle that its coefficients are means over, at half of the radius.
_POINTS = 64
_HALVINGS = 60


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


@functools.lru_cache(maxsize=256)
def inverse_moments(noise: AdditiveNoise) -> InverseMoments | None:
    """Return one over E exp(z e) for real z within the tail rate, or None where it is nothing that kernels compute.

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
    moments = sp.factor_terms(noise.characteristic_function.xreplace({FREQUENCY: -sp.I * ARGUMENT}))
    functions = moments.atoms(sp.Function)
    if moments.has(sp.I, FREQUENCY) or not all(isinstance(one, _PRINTED) for one in functions):
        return None
    numbers: list[float] = []
    constants: list[sp.Symbol] = []

    def constant(number: Any) -> sp.Symbol:
        numbers.append(float(number))
        constants.append(sp.Symbol(f"w{len(constants)}", real=True))
        return constants[-1]

    direct = _in_constants(1 / moments, constant)
    radius, series = _series(noise)
    within = constant(_SHARE * radius)
    near = 1 + sp.Add(*(constant(number) * ARGUMENT ** (2 * k) for k, number in enumerate(series, start=1)))
    expression = sp.Piecewise((near, sp.Abs(ARGUMENT) < within), (direct, True))
    return InverseMoments(expression, tuple(constants), tuple(numbers))


def _in_constants(expression: sp.Expr, constant: Callable[[Any], sp.Symbol]) -> sp.Expr:
    """Return an expression with symbols for its numbers, but for small whole ones and exponents."""
    if expression.is_Number and not (expression.is_Integer and abs(expression) <= _WHOLE):
        return constant(expression)
    if expression.is_Pow:
        return sp.Pow(_in_constants(expression.base, constant), expression.exp)
    if not expression.args:
        return expression
    return expression.func(*(_in_constants(one, constant) for one in expression.args))


def _series(noise: AdditiveNoise) -> tuple[float, tuple[float, ...]]:
    """Return a radius within which E exp(z e) is not 0, and coefficients of even powers of z of one over it.

    Within the radius abs(E exp(z e) - 1) <= E exp(abs(z e)) - 1 < 1, so that the coefficient of z^n is at most
    10/radius^n (Cauchy).
    """
    mp = precise.context()
    exact = exactly(noise.characteristic_function)
    moments = sp.lambdify(ARGUMENT, exact.xreplace({FREQUENCY: -sp.I * ARGUMENT}), modules=mp)
    low, high = mp.mpf(0), 1 / mp.sqrt(noise.variance)
    high = min(high, mp.mpf(noise.tail_rate) / 2)
    if mp.re(moments(high)) > _MOST:
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if mp.re(moments(middle)) > _MOST else (middle, high)
        high = low
    turns = [mp.expjpi(mp.mpf(2 * k + 1) / _POINTS) for k in range(_POINTS)]
    values = [1 / moments(high / 2 * turn) for turn in turns]
    found = (
        mp.re(sum(value / turn ** (2 * k) for value, turn in zip(values, turns, strict=True)))
        / _POINTS
        / (high / 2) ** (2 * k)
        for k in range(1, _TERMS + 1)
    )
    return float(high), tuple(map(float, found))
