"""Bound epsilon from below by what comes out: of a solver that runs many times on two neighbouring data sets.

A bound above the claim refutes it; one below says no more than that these two data sets and this many runs do not.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from symdebias._arrays import FloatArray
from symdebias._domains import Integer, Interval
from symdebias._randomness import generator
from symdebias.exceptions import PrivacyError
from symdebias.privacy import Guarantee

CONFIDENCE = Interval(0.5, 1.0, "neither", "Give a probability close to 1, such as 0.999.")
_ROUNDING = 1e-9
# Thresholds that are tried on one half of the sample.
_THRESHOLDS = 200


@dataclass(frozen=True)
class GuaranteeCheck:
    """The answer of `check_guarantee` or `audit`.

    Attributes
    ----------
    claimed : Guarantee
        What the mechanism or the solver claims.
    exact_epsilon : float or None
        The largest log ratio of densities or probabilities of the two inputs, for a claim with delta = 0; infinite
        where one of them rules the other out.
    exact_delta : float or None
        The exact delta at the claimed epsilon.
    sampled_epsilon : float or None
        A lower bound on epsilon (at the claimed delta) from samples, which holds with the stated confidence.
    confidence : float
        The probability that the sampled bound is right, for any one mechanism or solver.
    samples : int
        How many values were drawn of each input.
    """

    claimed: Guarantee
    exact_epsilon: float | None
    exact_delta: float | None
    sampled_epsilon: float | None
    confidence: float
    samples: int

    @property
    def holds(self) -> bool:
        """False where the exact privacy loss exceeds the claim, or the sampled lower bound on epsilon does."""
        claimed = self.claimed
        checks = [
            (self.exact_epsilon, claimed.epsilon * (1 + _ROUNDING) + _ROUNDING),
            (self.exact_delta, claimed.delta * (1 + 1e-6) + 1e-12),
            (self.sampled_epsilon, claimed.epsilon),
        ]
        # Written so that NaN does not hold.
        return all(measured is None or measured <= limit for measured, limit in checks)

    def __str__(self) -> str:
        lines = [f"{'holds' if self.holds else 'REFUTED'}: {self.claimed}"]
        if self.exact_epsilon is not None:
            lines.append(f"  exact epsilon of the two inputs  {self.exact_epsilon:.6g}")
        if self.exact_delta is not None:
            lines.append(f"  exact delta at that epsilon      {self.exact_delta:.6g}")
        if self.sampled_epsilon is not None:
            lines.append(
                f"  epsilon is at least              {self.sampled_epsilon:.6g} "
                f"({self.samples:,} samples of each input, confidence {self.confidence:g})"
            )
        return "\n".join(lines)


def audit(
    fit: Callable[[Any, Any, np.random.Generator], Any],
    first: tuple[Any, Any],
    second: tuple[Any, Any],
    *,
    runs: int = 2000,
    confidence: float = 0.999,
    random_state: int | np.random.Generator | None = None,
) -> GuaranteeCheck:
    """Audit the guarantee of a solver: run it many times on two neighbouring data sets, and try to tell them apart.

    Parameters
    ----------
    fit : callable
        ``fit(X, y, random_state)``, which returns a `Fit` with a guarantee: a solver whose other arguments are fixed.
    first, second : pair
        Two data sets (X, y) that are neighbours under the guarantee's adjacency; whether they are is not checked. The
        bound is sharp where they differ as much as neighbours can, and where few other records hide it.
    runs : int
        On each data set, at least 200; half of them choose an event and the other half test it.
    confidence : float
        Of the bound, in (0.5, 1).
    random_state : int, numpy.random.Generator or None
        For all runs.

    Returns
    -------
    GuaranteeCheck
        With the claim of the fits, ``sampled_epsilon``, the lower bound, and ``holds``.

    Raises
    ------
    PrivacyError
        The fits have no guarantee, or not all the same.
    TypeError, ValueError
        An argument is outside its range.

    Notes
    -----
    The parameters are projected on the direction that separates the means of the two halves that choose, in units of
    their spread (Fisher's discriminant); events are intervals of that projection. The bound is
    log((p - delta)/q), p and q the Clopper-Pearson bounds of an event's probabilities.

    References
    ----------
    Jagielski, Ullman & Oprea 2020 (arXiv 2006.07709), Section 4; Tramer, Terzis, Steinke, Song, Jagielski & Carlini
    2022 (arXiv 2202.12219); Clopper & Pearson 1934.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> def fit(X, y, random_state):
    ...     return sd.dp_lssgd(
    ...         sd.losses.logistic(), X, y, epsilon=4.0, delta=1e-2, adjacency="replace-one", smoothing=0.0, clip=0.5,
    ...         batch_size=2, epochs=1, accountant="rdp", random_state=random_state,
    ...     )
    >>> X = np.ones((2, 1))
    >>> check = audit(fit, (X, [1.0, 1.0]), (X, [1.0, -1.0]), runs=300, random_state=0)
    >>> check.holds, check.sampled_epsilon > 0
    (True, True)
    """
    runs = Integer(200).check("runs", runs)
    share = CONFIDENCE.check("confidence", confidence)
    rng = generator(random_state)
    claims: set[Guarantee] = set()
    results: list[FloatArray] = []
    for X, y in (first, second):
        rows = []
        for _ in range(runs):
            fitted = fit(X, y, rng)
            # Audited fits may be seeded; what they promise is that of fresh entropy.
            claims.add(getattr(fitted, "own_guarantee", None) or fitted.guarantee)
            rows.append(np.ravel(fitted.theta))
        results.append(np.array(rows))
    if len(claims) > 1:
        raise PrivacyError(
            f"the fits claim different guarantees: {', '.join(sorted(map(str, claims)))}. Audit one budget at a time."
        )
    (claimed,) = claims
    if claimed is None:
        raise PrivacyError("the fits make no privacy claim, so that there is nothing to audit. Give them a budget.")
    axis = _separating(results[0][: runs // 2], results[1][: runs // 2])
    bound = sampled_epsilon(results[0] @ axis, results[1] @ axis, claimed.delta, share)
    return GuaranteeCheck(claimed, None, None, bound, share, runs)


def _separating(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the direction in which two samples differ most beside their spread."""
    spread = np.atleast_2d(np.cov(first, rowvar=False) + np.cov(second, rowvar=False))
    # Parameters that do not vary, or vary together, do not stand in the way.
    direction: FloatArray = np.linalg.pinv(spread, rcond=1e-8, hermitian=True) @ (
        second.mean(axis=0) - first.mean(axis=0)
    )
    return direction if direction.any() else np.ones(len(direction))


def sampled_epsilon(first: FloatArray, second: FloatArray, delta: float, confidence: float) -> float:
    """Return a lower bound on epsilon: the best event of one half of two samples, bounded by the other half.

    Parameters
    ----------
    first, second : array of shape (n,), float64
        What came out for either input; the first halves choose the event.
    delta : float
        At which epsilon is bounded, in [0, 1).
    confidence : float
        The probability that the bound is right.
    """
    lines = (first, second)
    half = len(first) // 2
    choose, test = [line[:half] for line in lines], [line[half:] for line in lines]
    best = 0.0
    # Two inputs, each against the other, and one event for each: the error is shared out over both.
    level = (1 - confidence) / 4
    for one, other in ((0, 1), (1, 0)):
        event = _best_event(choose[one], choose[other], delta, float(stats.norm.isf(level)))
        hits = [int(np.count_nonzero(event(test[place]))) for place in (one, other)]
        trials = len(first) - half
        lower = stats.beta.ppf(level, hits[0], trials - hits[0] + 1) if hits[0] > 0 else 0.0
        upper = stats.beta.ppf(1 - level, hits[1] + 1, trials - hits[1]) if hits[1] < trials else 1.0
        if lower > delta:
            best = max(best, math.log((lower - delta) / upper))
    return best


def _best_event(first: FloatArray, second: FloatArray, delta: float, errors: float) -> Any:
    """Return the event {value <= t}, {value >= t} or {value = t} that promises the largest bound.

    An event is judged as many standard errors down as its bounds will be.
    """
    pooled = np.concatenate([first, second])
    values = np.unique(pooled)
    finite = len(values) <= _THRESHOLDS
    thresholds = values if finite else np.quantile(pooled, np.linspace(0.001, 0.999, _THRESHOLDS))
    events: list[Any] = []
    for threshold in thresholds:
        events.append(lambda x, t=threshold: x <= t)
        events.append(lambda x, t=threshold: x >= t)
        if finite:
            events.append(lambda x, t=threshold: x == t)
    total = len(first)

    def apparent(event: Any) -> float:
        p, q = np.count_nonzero(event(first)), np.count_nonzero(event(second))
        low, high = (
            count + sign * errors * math.sqrt(count * (1 - count / total) + 1) for count, sign in ((p, -1), (q, 1))
        )
        low -= delta * total
        return math.log(low / high) if low > 0 else -math.inf

    return max(events, key=apparent)
