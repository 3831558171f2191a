"""The split of a budget between the parts of a record, by the smallest standard errors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, EPSILON, shown
from symdebias.exceptions import SymdebiasError
from symdebias.losses import Loss
from symdebias.planning.expected_fit import (
    Criterion,
    ExpectedFit,
    Study,
    check_criterion,
    in_released_units,
    sample_size,
    without_units,
)
from symdebias.planning.population import Population
from symdebias.privacy.composition import split_budget
from symdebias.release import Release

Build = Callable[[Sequence[float]], Release]
# The logarithm of what is minimised, and the method of the correction: of shares, by a method or by the best one.
Price = Callable[..., tuple[float, str]]

# Shares of the budget between which the best split of two is sought, and to what accuracy. A grid comes first: where a
# part of the range cannot be corrected, or the method changes, the curve has jumps.
_LEAST_PART, _SHARE_ACCURACY = 0.01, 2e-3
_GRID = (0.02, 0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.98)
# What is kept back of a budget that is stretched, relative to it, at most; and the rounds of the search.
_KEPT_BACK, _ROUNDS = 1e-4, 12


@dataclass(frozen=True)
class Split:
    """A budget in parts.

    Attributes
    ----------
    budgets : tuple of float
        The parts.
    expected : ExpectedFit
        What to expect of them.
    equal : ExpectedFit or None
        What to expect of equal parts; None where they cannot be corrected.

    Examples
    --------
    >>> import symdebias as sd
    >>> def build(epsilons):
    ...     return sd.Release(sd.LaplaceMechanism(epsilons[0], bounds=(-1, 1)), sd.RandomizedResponse(epsilons[1]))
    >>> population = sd.planning.Population.guess([1.0], size=500)
    >>> split = sd.planning.best_split(sd.losses.squared_margin(), build, population, epsilon=4.0, n=100_000)
    >>> len(split.budgets), split.expected.standard_errors.shape
    (2, (1,))
    """

    budgets: tuple[float, ...]
    expected: ExpectedFit
    equal: ExpectedFit | None


def best_split(
    loss: Loss,
    build: Callable[[Sequence[float]], Release],
    population: Population,
    *,
    epsilon: float,
    n: float,
    parts: int = 2,
    l2: float = 0.0,
    criterion: Criterion = "worst",
    start: Any = None,
    random_state: int = 0,
) -> Split:
    """Find the split of a budget with the smallest standard errors.

    Parameters
    ----------
    loss, population, n, l2, start, random_state
        As for `expected_fit`.
    build : callable
        Takes the parts of the budget and returns the release that spends them. They sum to epsilon, or to more where
        the guarantee of that release composes to less than their sum: what is handed out composes to epsilon.
    epsilon : float
        The whole budget, in [1e-6, 700].
    parts : int
        How many parts, at least 2.
    criterion : {"worst", "mean", "risk"}
        What is minimised: the largest error of a parameter, their root mean square, or the excess risk.

    Returns
    -------
    Split
        The best parts, with what to expect of them and of equal ones.

    Raises
    ------
    InferenceError, NoExactCorrectionError, InfiniteVarianceError, ValueError, TypeError
        As for `expected_fit`, where no split can be corrected.

    Notes
    -----
    All splits see the same noise before it is scaled, on one copy of the population, so that the curve is smooth: a
    search of one share by Brent's method, of several by that of Nelder and Mead, with the correction that is best where
    it begins.

    Examples
    --------
    >>> import symdebias as sd
    >>> def build(epsilons):
    ...     return sd.Release(sd.LaplaceMechanism(epsilons[0], bounds=(-1, 1)), sd.RandomizedResponse(epsilons[1]))
    >>> population = sd.planning.Population.guess([1.0], size=500)
    >>> split = best_split(sd.losses.squared_margin(), build, population, epsilon=4.0, n=100_000)
    >>> split.budgets[0] > split.budgets[1], split.expected.release.guarantee.epsilon <= 4.0
    (True, True)
    """
    whole, count = EPSILON.check("epsilon", epsilon), COUNT.check("parts", parts)
    if count < 2:
        raise ValueError(f"parts={shown(parts)} is no split. Give 2 or more.")
    check_criterion(criterion)
    if not callable(build):
        raise TypeError(
            f"build must be a function of the budgets that returns a Release; got {type(build).__name__}. Pass "
            "lambda budgets: Release(...), for instance."
        )
    records = sample_size(n)
    equal = split_budget(whole, (1,) * count)
    release, studied = in_released_units(build(equal), population)
    study = Study.of(loss, release, studied, l2, random_state, start)
    if studied is population:
        return split_of(study, build, whole, count, records, criterion)
    split = split_of(study, lambda parts: without_units(build(parts)), whole, count, records, criterion)
    expected = replace(split.expected, release=build(split.budgets))
    return replace(
        split, expected=expected, equal=None if split.equal is None else replace(split.equal, release=build(equal))
    )


def split_of(study: Study, build: Build, whole: float, count: int, n: float, criterion: Criterion) -> Split:
    """Return the best split of a checked budget; see `best_split`."""
    refusals: list[SymdebiasError] = []

    def expected(shares: Sequence[float], method: str = "best", *, quick: bool = False) -> ExpectedFit | None:
        try:
            return study.expected(build(spent(build, whole, shares)), n, method, quick=quick)
        except SymdebiasError as error:
            refusals.append(error)
            return None

    def price(shares: Sequence[float], method: str = "best") -> tuple[float, str]:
        fit = expected(shares, method, quick=True)
        return (math.inf, method) if fit is None else (math.log(fit.criterion(criterion)), fit.method)

    shares = _of_two(price) if count == 2 else _of_several(price, count)
    best = None if shares is None else expected(shares)
    if shares is None or best is None:
        raise refusals[0]
    return Split(spent(build, whole, shares), best, expected((1,) * count))


def _of_two(price: Price) -> tuple[float, ...] | None:
    """Return the two shares of the least price; None where all are refused."""
    prices = [price((1 - share, share)) for share in _GRID]
    place = min(range(len(_GRID)), key=lambda one: prices[one][0])
    value, method = prices[place]
    if not math.isfinite(value):
        return None
    ends = (_LEAST_PART, *_GRID, 1 - _LEAST_PART)
    least = minimize_scalar(
        lambda share: price((1 - share, share), method)[0], bounds=(ends[place], ends[place + 2]), method="bounded",
        options={"xatol": _SHARE_ACCURACY},
    )  # fmt: skip
    share = float(least.x if least.fun <= value else _GRID[place])
    return 1 - share, share


def _of_several(price: Price, count: int) -> tuple[float, ...] | None:
    """Return shares of the least price near equal ones; None where equal ones are refused."""

    def shares(logits: FloatArray) -> tuple[float, ...]:
        weights = np.exp(np.append(logits, 0.0) - max(0.0, float(logits.max())))
        return tuple(np.maximum(weights / weights.sum(), 1e-4).tolist())

    start = np.zeros(count - 1)
    value, method = price(shares(start))
    if not math.isfinite(value):
        return None
    least = minimize(
        lambda logits: price(shares(logits), method)[0], start, method="Nelder-Mead",
        options={"xatol": 0.02, "fatol": 1e-4, "maxfev": 30 * count,
                 "initial_simplex": np.vstack([start, start + 0.5 * np.eye(count - 1)])},
    )  # fmt: skip
    best = shares(least.x)
    return tuple(share / sum(best) for share in best)


def spent(build: Build, whole: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Return parts of a budget, in given shares, whose release composes to it and no more.

    Where the parts add up this is `split_budget`. Normal noise beside other parts composes to less, and all parts are
    stretched by one factor. Where the release does not spend all parts itself, nothing is: the rest is for something
    else.
    """
    parts = split_budget(whole, shares)
    release = build(parts)
    guarantee, own = release.guarantee, [mechanism.guarantee for _, mechanism in release.groups]
    own += [] if release.target is None else [release.target.guarantee]
    spends_all = math.isclose(sum(one.epsilon for one in own if one is not None), sum(parts), rel_tol=1e-9)
    if guarantee is None or not spends_all or not 0 < guarantee.epsilon < whole * (1 - _KEPT_BACK):
        return parts
    factor, composed = 1.0, guarantee.epsilon
    for _ in range(_ROUNDS):
        # The composed epsilon is next to proportional to the factor.
        factor *= (1 - _KEPT_BACK / 2) * whole / composed
        stretched = tuple(factor * part for part in parts)
        guarantee = build(stretched).guarantee
        assert guarantee is not None
        composed = guarantee.epsilon
        if whole * (1 - _KEPT_BACK) <= composed <= whole:
            return stretched
    return parts
