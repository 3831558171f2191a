"""What several releases about one record cost together: exactly where normal noise is among them.

Normal noise of the multiplier m = sigma/Delta has the privacy loss of N(1/m, 1) against N(0, 1), so that several such
parts are one part with 1/m^2 = sum 1/m_i^2. What is epsilon-private is dominated by randomized response, whose privacy
loss is +-epsilon. The curves multiply as distributions do: delta(epsilon) is a mean of Gaussian curves over the signs.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from mpmath import fp

from symdebias.exceptions import PrivacyError
from symdebias.privacy import precise
from symdebias.privacy.calibration import gaussian_curve
from symdebias.privacy.guarantee import Guarantee
from symdebias.privacy.search import least_epsilon

# Pure parts beyond so many count as one that spends their sum: signs double with each.
_MOST_PURE = 3
_PRECISION, _LARGEST_EPSILON = 1e-9, 1e7


def compose(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return the guarantee of several releases about the same record.

    Budgets add, and deltas do. Where a part is normal noise whose multiplier is known, epsilon is the least that holds
    at the sum of the deltas for it, further such parts and all that is pure.

    Parameters
    ----------
    guarantees : iterable of Guarantee
        At least one, all of one model and adjacency.

    Returns
    -------
    Guarantee
        Its ``basis`` says where it is more than the sum. Rounded up where float64 does not have a number exactly.

    Raises
    ------
    TypeError
        Something is not a guarantee.
    PrivacyError
        There is none, they are of different models or adjacencies, or they promise nothing together: the deltas add up
        to 1 or more, or the budgets to more than float64 has numbers for.

    Notes
    -----
    Parts that are neither pure nor normal noise add their epsilon to that of the others. So do, among each other, the
    smallest of more than three pure parts.

    References
    ----------
    Dwork & Roth 2014, Theorem 3.16 (basic composition); Kairouz, Oh & Viswanath 2015, Theorem 3.3 (randomized response
    dominates); Dong, Roth & Su 2022, Corollary 3.3 (normal noise); Zhu, Dong & Wang 2022, Theorem 10 (products of
    dominating pairs).

    Examples
    --------
    >>> print(compose([Guarantee(1.0, 1e-5), Guarantee(0.5, 0.0)]))
    (1.5, 1e-05)-differential privacy (local, replace-one)
    >>> normal = Guarantee(1.0, 1e-5, multiplier=3.7306316)
    >>> print(compose([normal, normal]))
    (1.40016, 2e-05)-differential privacy (local, replace-one); by exact composition of 2 parts
    """
    parts = list(guarantees)
    for part in parts:
        if not isinstance(part, Guarantee):
            raise TypeError(f"only guarantees compose; got {type(part).__name__}. Pass Guarantee objects.")
    kinds = {(part.model, part.adjacency) for part in parts}
    if len(kinds) != 1:
        given = ", ".join(f"{model} {adjacency}" for model, adjacency in sorted(kinds)) or "none"
        raise PrivacyError(
            f"guarantees compose within one model and adjacency; got {given}. Compose each kind by itself."
        )
    epsilon = _sum_rounded_up([part.epsilon for part in parts])
    delta = _sum_rounded_up([part.delta for part in parts])
    if not (epsilon < math.inf and delta < 1):
        raise PrivacyError(
            f"epsilon adds up to {epsilon:g} and delta to {delta:g}, which promises nothing. Spend smaller budgets."
        )
    bases = [part.basis for part in parts if part.basis]
    normal = tuple(sorted(part.multiplier for part in parts if part.multiplier is not None))
    pure = tuple(sorted((part.epsilon for part in parts if part.multiplier is None and part.delta == 0), reverse=True))
    if normal and len(normal) + len(pure) > 1:
        others = [part for part in parts if part.multiplier is None and part.delta > 0]
        own = Fraction(delta) - sum((Fraction(part.delta) for part in others), Fraction(0))
        exact = _sum_rounded_up([_least_epsilon(normal, pure, own), *(part.epsilon for part in others)])
        if exact < epsilon:
            epsilon = exact
            bases.append(f"exact composition of {len(normal) + len(pure)} parts")
    together = None
    if len(normal) == len(parts):
        together = math.nextafter(float(_together(precise.context(), normal)), 0.0)
    ((model, adjacency),) = kinds
    unprotected = tuple(dict.fromkeys(name for part in parts for name in part.unprotected))
    return Guarantee(epsilon, delta, model, adjacency, unprotected, "; ".join(dict.fromkeys(bases)), together)


def split_budget(total: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Return a budget in parts proportional to shares, each rounded down: their exact sum is at most the budget.

    Examples
    --------
    >>> split_budget(3.0, [1, 2])
    (1.0, 2.0)
    """
    whole = sum(map(Fraction, shares))
    return tuple(_rounded_down(Fraction(total) * Fraction(share) / whole) for share in shares)


def composed_delta(epsilon: float, multipliers: Iterable[float], pure: Iterable[float] = ()) -> float:
    """Return the least delta of normal noise and pure parts together, rounded up.

    Parameters
    ----------
    epsilon : float
        The budget of all parts, zero or more.
    multipliers : iterable of float
        sigma/Delta of the parts with normal noise, at least one.
    pure : iterable of float
        The epsilons of the other parts, few: the time doubles with each.

    Returns
    -------
    float
        At most 1. It is attained where all pure parts are randomized responses of two values.

    Examples
    --------
    >>> composed_delta(2.0, [3.65977280], [1.0]) <= 1e-5
    True
    """
    context = precise.context()
    return precise.rounded_up(context, _curve(context, epsilon, _together(context, tuple(multipliers)), tuple(pure)))


@functools.lru_cache(maxsize=1024)
def _least_epsilon(multipliers: tuple[float, ...], pure: tuple[float, ...], delta: Fraction) -> float:
    """Return the least epsilon at delta, rounded up; pure epsilons fall."""
    context = precise.context()
    several = pure[_MOST_PURE - 1 :]
    kept = pure[: _MOST_PURE - 1] + ((_sum_rounded_up(list(several)),) if several else ())
    multiplier = _together(context, multipliers)
    # What the quotient is not exactly is some 70 digits away.
    least = context.mpf(delta.numerator) / delta.denominator * (1 - context.mpf(10) ** (5 - precise.DIGITS))

    def is_kept(epsilon: float) -> bool:
        return bool(_curve(context, epsilon, multiplier, kept) <= least)

    # Float64 says about where; what is returned was seen to hold with all digits.
    with contextlib.suppress(OverflowError):
        near = least_epsilon(
            lambda epsilon: bool(_curve(fp, epsilon, float(multiplier), kept) <= float(least)),
            precision=_PRECISION,
            largest=_LARGEST_EPSILON,
        )
        for high in (near * (1 + 2 * _PRECISION), near * (1 + 20 * _PRECISION)):
            if 0 < high < math.inf and is_kept(high) and not is_kept(near * (1 - 20 * _PRECISION)):
                return high
    return least_epsilon(is_kept, precision=_PRECISION, largest=_LARGEST_EPSILON)


def _together(context: Any, multipliers: tuple[float, ...]) -> Any:
    """Return the multiplier of several parts with normal noise."""
    return 1 / context.sqrt(sum(1 / context.mpf(multiplier) ** 2 for multiplier in multipliers))


def _curve(context: Any, epsilon: float, multiplier: Any, pure: tuple[float, ...]) -> Any:
    """Return the mean of Gaussian curves at epsilon less the privacy losses of the pure parts."""
    total = context.mpf(0)
    for signs in itertools.product((1, -1), repeat=len(pure)):
        chance, loss = context.mpf(1), context.mpf(0)
        for sign, own in zip(signs, pure, strict=True):
            chance /= 1 + context.exp(-sign * context.mpf(own))
            loss += sign * context.mpf(own)
        total += chance * gaussian_curve(context, context.mpf(epsilon) - loss, multiplier)
    return total


def _sum_rounded_up(values: list[float]) -> float:
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        total = float(exact)
    except OverflowError:
        return math.inf
    return math.nextafter(total, math.inf) if Fraction(total) < exact else total


def _rounded_down(exact: Fraction) -> float:
    nearest = float(exact)
    return math.nextafter(nearest, 0.0) if Fraction(nearest) > exact else nearest
