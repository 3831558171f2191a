"""Interval arithmetic on arrays, rounded outwards, and the natural range of a SymPy expression on boxes.

A bound that a proof of privacy rests on is not left to a grid of points: whatever is computed here contains the truth.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from scipy import special

from symdebias._arrays import BooleanArray, FloatArray
from symdebias.codegen.functions import (
    expit,
    inverse_mills,
    log_normal_cdf,
    logistic_density,
    mills_excess,
    softmax_part,
    softplus,
)

# What functions of the library may be wrong by, in units of the last place: an ample margin for each of them.
_ULPS = 16.0
_LARGEST = float(np.finfo(np.float64).max)
_LEAST = 5e-324
# Above whatever underflows in the functions of erfc, and below all that matters.
_TINY = 1e-300
_DIGITS = 60


@dataclass(frozen=True)
class Range:
    """Closed intervals of real numbers."""

    # The ends. An infinite one stands for all numbers on that side.
    low: FloatArray
    high: FloatArray

    def __add__(self, other: "Range") -> "Range":
        with np.errstate(invalid="ignore", over="ignore"):
            found = _outward(self.low + other.low, self.high + other.high)
        return _where(self._is(0.0), other, _where(other._is(0.0), self, found))

    def __neg__(self) -> "Range":
        return Range(-self.high, -self.low)

    def __sub__(self, other: "Range") -> "Range":
        return self + (-other)

    def __mul__(self, other: "Range") -> "Range":
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            products = np.array(
                np.broadcast_arrays(
                    self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high
                )
            )
        # Zero times all numbers is zero.
        products[np.isnan(products)] = 0.0
        found = _outward(products.min(axis=0), products.max(axis=0))
        # A sign that is known stays, whatever was lost below the least float.
        same = (self.low >= 0) & (other.low >= 0) | (self.high <= 0) & (other.high <= 0)
        opposite = (self.low >= 0) & (other.high <= 0) | (self.high <= 0) & (other.low >= 0)
        found = Range(
            np.where(same, np.maximum(found.low, 0.0), found.low),
            np.where(opposite, np.minimum(found.high, 0.0), found.high),
        )
        return _where(self._is(1.0), other, _where(other._is(1.0), self, found))

    def reciprocal(self) -> "Range":
        """Return 1/x; all numbers where zero is inside."""
        with np.errstate(divide="ignore", over="ignore"):
            found = _outward(1.0 / self.high, 1.0 / self.low)
        positive, negative = self.low >= 0, self.high <= 0
        low = np.where(positive, np.maximum(found.low, 0.0), np.where(negative & (self.high < 0), found.low, -math.inf))
        high = np.where(
            negative, np.minimum(found.high, 0.0), np.where(positive & (self.low > 0), found.high, math.inf)
        )
        return Range(np.asarray(low), np.asarray(high))

    def power(self, exponent: int) -> "Range":
        """Return x^exponent for a positive integer."""
        if exponent % 2 == 0:
            return _size(self).rising(lambda x: x**exponent, floor=0.0)
        found = self.rising(lambda x: x**exponent)
        return Range(np.where(self.low >= 0, np.maximum(found.low, 0.0), found.low),
                     np.where(self.high <= 0, np.minimum(found.high, 0.0), found.high))  # fmt: skip

    def rising(
        self, function: Callable[[FloatArray], FloatArray], *, floor: float = -math.inf, ceiling: float = math.inf
    ) -> "Range":
        """Return the range of a rising function that the library computes, within bounds that it keeps."""
        with np.errstate(all="ignore"):
            found = _outward(function(self.low), function(self.high), _ULPS)
        return Range(np.asarray(np.maximum(found.low, floor)), np.asarray(np.minimum(found.high, ceiling)))

    def within(self, other: "Range") -> "Range":
        """Return the intersection with another range of the same numbers."""
        return Range(np.asarray(np.maximum(self.low, other.low)), np.asarray(np.minimum(self.high, other.high)))

    def _is(self, value: float) -> BooleanArray:
        return np.asarray((self.low == value) & (self.high == value))


@functools.lru_cache(maxsize=1024)
def number(value: sp.Expr) -> Range:
    """Return the least range around a number, a point where float64 has it."""
    if value in (sp.oo, -sp.oo):
        end = np.array(math.inf if value is sp.oo else -math.inf)
        return Range(end, end)
    nearest = np.array(float(sp.N(value, _DIGITS)))
    exact = bool(value.is_Rational) and sp.Rational(float(nearest)) == value
    return Range(nearest, nearest) if exact else _outward(nearest, nearest)


def natural_range(expression: sp.Expr, box: Mapping[sp.Basic, Range]) -> Range:
    """Return a range that an expression keeps on boxes of equal shapes, operation by operation.

    It is made of sums, products, powers, exponentials, logarithms, error functions and the functions of `codegen` and
    of this module. The boxes may be those of subexpressions too, whose ranges are known already.

    Raises
    ------
    ValueError
        The expression has another function.
    """
    known: dict[sp.Basic, Range] = dict(box)

    def of(node: sp.Expr) -> Range:
        if node not in known:
            known[node] = _of_node(node, of)
        return known[node]

    return of(expression)


def _of_node(node: sp.Expr, of: Callable[[sp.Expr], Range]) -> Range:
    if node.is_number:
        return number(node)
    if node.is_Add or node.is_Mul:
        parts = [of(part) for part in node.args]
        return functools.reduce(Range.__add__ if node.is_Add else Range.__mul__, parts)
    if node.is_Pow:
        return _of_power(node, of)
    if type(node) in _RISING:
        function, floor, ceiling = _RISING[type(node)]
        return of(node.args[0]).rising(function, floor=floor, ceiling=ceiling)
    if isinstance(node, sp.Abs):
        return _size(of(node.args[0]))
    if isinstance(node, (sp.sin, sp.cos)):
        angle = of(node.args[0])
        return _of_cosine(angle - number(sp.pi / 2) if isinstance(node, sp.sin) else angle)
    if isinstance(node, sp.erfc):
        return (-of(node.args[0])).rising(lambda x: special.erfc(-x), floor=0.0, ceiling=2.0)
    if isinstance(node, log_normal_cdf):
        return _of_log_normal_cdf(of(node.args[0]))
    if isinstance(node, inverse_mills):
        return _falling(_inverse_mills_bounds, of(node.args[0]))
    if isinstance(node, mills_excess):
        inside = of(node.args[0])
        return Range(_mills_excess_bounds(inside.low)[0], _mills_excess_bounds(inside.high)[1])
    if isinstance(node, mills_product):
        return _falling(_mills_product_bounds, of(node.args[0]))
    if isinstance(node, logistic_density):
        return _of_logistic_density(of(node.args[0]))
    if isinstance(node, softmax_part):
        place, *arguments = node.args
        # In differences of exponents, what tends to infinity stands alone.
        others = [sp.exp(sp.expand(other - arguments[int(place)])) for other in arguments]
        return of(sp.Add(*others)).reciprocal()
    raise ValueError(
        f"{node.func.__name__} in {node} has no interval arithmetic here. Bounds are proved for sums, products, "
        "powers, exp, log, sin, cos, the hyperbolic functions, erf and erfc, absolute values, and for maxima and "
        "branches of one variable. Write the loss with these."
    )


def _of_power(node: sp.Expr, of: Callable[[sp.Expr], Range]) -> Range:
    base, exponent = node.as_base_exp()
    if base.is_number and base.is_positive and not exponent.is_number:
        return of(sp.exp(sp.log(base) * exponent, evaluate=False))
    if not (exponent.is_number and exponent.is_real):
        raise ValueError(
            f"the power {node} has no interval arithmetic here. Its exponent must be a number, or its base a positive "
            "one. Write it with exp and log."
        )
    if exponent.is_negative:
        return of(sp.Pow(base, -exponent)).reciprocal() if base != 1 else number(base)
    if exponent.is_Integer:
        return of(base).power(int(exponent))
    inside, size = of(base), float(exponent)
    if base.is_nonnegative:
        # What is below zero is there by rounding, or because a box is too wide for its operations.
        inside = inside.within(Range(np.array(0.0), np.array(math.inf)))
    # A base that is not known to be positive may only be so by rounding: then nothing is known.
    found = inside.rising(lambda x: np.maximum(x, 0.0) ** size, floor=0.0)
    unknown = inside.low < 0
    return Range(np.where(unknown, -math.inf, found.low), np.where(unknown, math.inf, found.high))


def _outward(low: FloatArray, high: FloatArray, ulps: float = 1.0) -> Range:
    """Return ranges with rounding errors added; an end that is no number is infinite."""
    low = np.where(np.isnan(low), -math.inf, np.minimum(low, _LARGEST))
    high = np.where(np.isnan(high), math.inf, np.maximum(high, -_LARGEST))
    if ulps == 1.0:
        return Range(np.nextafter(low, -math.inf), np.nextafter(high, math.inf))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        share, least = ulps * 2.0**-52, ulps * _LEAST
        low = np.where(np.isinf(low), low, low - (np.abs(low) * share + least))
        high = np.where(np.isinf(high), high, high + (np.abs(high) * share + least))
    return Range(np.asarray(low), np.asarray(high))


def _where(condition: BooleanArray, first: Range, second: Range) -> Range:
    return Range(np.where(condition, first.low, second.low), np.where(condition, first.high, second.high))


# ---- functions with tight ranges ------------------------------------------------------------------------------------


class mills_product(sp.Function):
    """inverse_mills(x) mills_excess(x), the curvature of -log Phi: within (0, 1), and falling (Sampford 1953)."""

    nargs = 1
    is_extended_real = True
    is_extended_nonnegative = True

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        """Return the derivative."""
        x = self.args[0]
        return inverse_mills(x) * (1 - self) - self * mills_excess(x)

    def _eval_evalf(self, prec: int) -> sp.Expr:
        x = self.args[0]
        return (inverse_mills(x)._eval_evalf(prec + 8) * mills_excess(x)._eval_evalf(prec + 8))._eval_evalf(prec)


def _falling(bounds: Callable[[FloatArray], tuple[FloatArray, FloatArray]], x: Range) -> Range:
    return Range(bounds(x.high)[0], bounds(x.low)[1])


def _of_log_normal_cdf(x: Range) -> Range:
    with np.errstate(all="ignore"):
        low, high = special.log_ndtr(x.low), special.log_ndtr(x.high)
        low, high = low - _rounding(x.low) * np.abs(low) - _TINY, high + _rounding(x.high) * np.abs(high) + _TINY
    low = np.where(np.isnan(low), np.where(x.low > 0, -_TINY, -math.inf), low)
    high = np.where(np.isnan(high), np.where(x.high > 0, 0.0, -_LARGEST), high)
    return Range(np.asarray(low), np.asarray(np.minimum(high, 0.0)))


def _rounding(x: FloatArray) -> FloatArray:
    """Return a bound on the relative error of a normal tail: that of x^2/2 is magnified in its exponential."""
    return np.asarray((_ULPS + 2 * np.maximum(x, 0.0) ** 2) * 2.0**-52)


def _inverse_mills_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on phi(x)/Phi(x) from below and above."""
    with np.errstate(all="ignore"):
        value = math.sqrt(2 / math.pi) / special.erfcx(-x / math.sqrt(2))
        error = _rounding(x) * value + _TINY
        known = np.isfinite(value) & np.isfinite(error)
        low = np.where(known, value - error, np.where(x < 0, _LARGEST, 0.0))
        high = np.where(known, value + error, np.where(x < 0, math.inf, _TINY))
    return np.asarray(np.maximum(low, 0.0)), np.asarray(high)


def _mills_excess_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on x + phi(x)/Phi(x) from below and above."""
    below, above = _inverse_mills_bounds(x)
    t = np.where(x < 0, -x, 0.0)
    with np.errstate(all="ignore"):
        low, high = np.nextafter(below + x, -math.inf), np.nextafter(above + x, math.inf)
        # Far left the sum cancels. There (3t + sqrt(t^2 + 8))/4 < phi/Phi (Sampford 1953) < (t + sqrt(t^2 + 4))/2
        # (Birnbaum 1942) at -t.
        far = [2 / (t + np.hypot(t, root)) for root in (math.sqrt(8), 2.0)]
    share = _ULPS * 2.0**-52
    low = np.where(x < 0, np.fmax(low, far[0] * (1 - share) - _TINY), low)
    high = np.where(x < 0, np.fmin(high, far[1] * (1 + share) + _TINY), high)
    return np.asarray(np.maximum(low, 0.0)), np.asarray(high)


def _mills_product_bounds(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on (phi/Phi) (x + phi/Phi) from below and above."""
    ratio, excess = _inverse_mills_bounds(x), _mills_excess_bounds(x)
    share = _ULPS * 2.0**-52
    with np.errstate(all="ignore"):
        low, high = ratio[0] * excess[0] * (1 - share), ratio[1] * excess[1] * (1 + share) + _TINY
        # Sampford's bound in both factors, t = -x.
        t = np.where(x < 0, -x, 1.0)
        far = np.where(x < 0, (0.5 + 1 / (1 + np.sqrt(1 + 8 / (t * t)))) * (1 - share), 0.0)
    low = np.fmax(np.where(np.isfinite(low), low, 0.0), far)
    high = np.where(np.isnan(high), np.where(x < 0, 1.0, _TINY), np.minimum(high, 1.0))
    return np.asarray(low), np.asarray(high)


def _of_logistic_density(x: Range) -> Range:
    return (-_size(x)).rising(_density_values, floor=0.0, ceiling=0.25)


def _size(x: Range) -> Range:
    """Return |x|."""
    least = np.where((x.low <= 0) & (x.high >= 0), 0.0, np.minimum(np.abs(x.low), np.abs(x.high)))
    return Range(least, np.maximum(np.abs(x.low), np.abs(x.high)))


def _of_cosine(x: Range) -> Range:
    with np.errstate(all="ignore"):
        slack = 1e-12 * (1 + np.maximum(np.abs(x.low), np.abs(x.high)))
        # The next multiple of 2 pi, where the cosine is 1, and the next odd one of pi, where it is -1.
        peak, trough = (
            2 * np.pi * (np.ceil((x.low - slack) / (2 * np.pi) - shift) + shift) <= x.high + slack
            for shift in (0.0, 0.5)
        )
        ends = np.cos(x.low), np.cos(x.high)
        # Far out, and over infinite boxes, nothing is known but the bounds.
        known = slack < 1e-6
        high = np.where(known & ~peak, np.minimum(np.maximum(*ends) + _ULPS * 2.0**-52, 1.0), 1.0)
        low = np.where(known & ~trough, np.maximum(np.minimum(*ends) - _ULPS * 2.0**-52, -1.0), -1.0)
    return Range(low, high)


def _density_values(x: FloatArray) -> FloatArray:
    falling = np.exp(-np.abs(x))
    return np.asarray(falling / (1 + falling) ** 2)


# Function, and what it never falls below and never exceeds.
_RISING: dict[Any, tuple[Callable[[FloatArray], FloatArray], float, float]] = {
    sp.exp: (np.exp, 0.0, math.inf),
    sp.log: (lambda x: np.log(np.maximum(x, 0.0)), -math.inf, math.inf),
    sp.tanh: (np.tanh, -1.0, 1.0),
    sp.erf: (special.erf, -1.0, 1.0),
    expit: (special.expit, 0.0, 1.0),
    softplus: (lambda x: np.logaddexp(0.0, x), 0.0, math.inf),
}
