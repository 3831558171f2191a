"""A plan tried out: records of a population are released and fitted as those to come will be, many times over."""

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray
from symdebias._domains import COUNT, OPEN_UNIT, check_flag, shown
from symdebias._progress import progress_bar
from symdebias._randomness import generator
from symdebias.driver import debias
from symdebias.exceptions import InferenceError, SymdebiasError
from symdebias.losses import Loss
from symdebias.mechanisms import sampling
from symdebias.planning.expected_fit import Study, in_released_units, sample_size
from symdebias.planning.population import MOST_NUMBERS, Population
from symdebias.release import Release
from symdebias.release.groups import Outside
from symdebias.release.matrices import bound_to
from symdebias.release.noising import noised_records
from symdebias.solvers import Fit, m_estimate
from symdebias.solvers.noise_estimates import estimated_anew

# Kinds of refusals and of warnings that are printed, and letters of each.
_KINDS, _SHOWN = 3, 300


@dataclass(frozen=True)
class Rehearsal:
    """What became of the fits that `rehearse` has tried, a row of each array for each of them.

    Attributes
    ----------
    release : Release
        How records were released each time.
    names : tuple of q str
        The parameters.
    records : int
        n.
    theta : array of shape (q,), float64
        The parameters that the population has.
    thetas : array of shape (fits, q), float64
        The estimates; NaN where a fit was refused.
    standard_errors : array of shape (fits, q), float64
        Theirs; NaN where a fit was refused, or has no covariance.
    intervals : array of shape (fits, q, 2), float64
        Their intervals, whose ends may be infinite; NaN where there are none.
    refusals : mapping from int to SymdebiasError
        The error of each fit that was refused.
    warned : mapping from int to tuple of str
        What a fit has warned of, for each that has.
    clipped : float
        The share of the drawn records that lay outside the bounds of the release, and were clipped: no correction
        undoes that, and fits are biased by it.
    level : float
        That of the intervals.

    Examples
    --------
    >>> import symdebias as sd
    >>> population = sd.planning.Population.guess([1.0], size=2_000)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    >>> tried = sd.planning.rehearse(sd.losses.squared_margin(), release, population, n=5_000, fits=10)
    >>> tried.refused, bool(tried.coverage[0] >= 0.5)
    (0, True)
    """

    release: Release
    names: tuple[str, ...]
    records: int
    theta: FloatArray
    thetas: FloatArray
    standard_errors: FloatArray
    intervals: FloatArray
    refusals: Mapping[int, SymdebiasError]
    warned: Mapping[int, tuple[str, ...]]
    clipped: float
    level: float

    @property
    def refused(self) -> int:
        """How many of the fits were refused."""
        return len(self.refusals)

    @property
    def coverage(self) -> FloatArray:
        """The share of the intervals that contain the population's parameter, shape (q,); NaN where there are none."""
        low, high = np.moveaxis(self.intervals[self._has_intervals], -1, 0)
        with np.errstate(invalid="ignore"):
            return np.asarray(((low <= self.theta) & (self.theta <= high)).sum(axis=0) / np.float64(len(low)))

    @property
    def _fitted(self) -> list[int]:
        """The numbers of the fits that were not refused."""
        return [row for row in range(len(self.thetas)) if row not in self.refusals]

    @property
    def _has_intervals(self) -> BooleanArray:
        return np.asarray(~np.isnan(self.intervals).any(axis=(1, 2)))

    def as_json(self) -> dict[str, Any]:
        """Return what was found as JSON has it."""
        return {
            "records": self.records,
            "fits": len(self.thetas),
            "refused": self.refused,
            "clipped": self.clipped,
            "with_intervals": int(self._has_intervals.sum()),
            "level": self.level,
            "parameters": [
                {"name": name, "true": true, "estimates": own, "covered": share}
                for name, true, own, share in zip(
                    self.names,
                    self.theta.tolist(),
                    self.thetas[self._fitted].T.tolist(),
                    self.coverage.tolist(),
                    strict=True,
                )
            ],
            "refusals": [str(error) for error in self.refusals.values()],
            "warnings": [said for messages in self.warned.values() for said in messages],
        }

    def __str__(self) -> str:
        count, fitted, coverage = len(self.thetas), self._fitted, self.coverage
        with_intervals = int(self._has_intervals.sum())
        lines = [
            f"{count} releases of {self.records:,} records, each fitted: {self.refused} refused, "
            f"{len(fitted) - with_intervals} without intervals"
        ]
        if fitted:
            width = max(9, *map(len, self.names))
            lines += ["", f"  {'parameter':<{width}}  {'true':>9}  {'mean':>9}  {'spread':>9}  {'std err':>9}  covered"]
            found, errors = self.thetas[fitted], self.standard_errors[fitted]
            spread = found.std(axis=0, ddof=1) if len(fitted) > 1 else np.full(len(self.theta), math.nan)
            for place, name in enumerate(self.names):
                own = errors[:, place][~np.isnan(errors[:, place])]
                error = f"{np.median(own):>9.3g}" if len(own) else f"{'none':>9}"
                covered = f"{coverage[place] * with_intervals:.0f} of {with_intervals}" if with_intervals else "none"
                lines.append(
                    f"  {name:<{width}}  {self.theta[place]:>9.3g}  {found[:, place].mean():>9.3g}  "
                    f"{spread[place]:>9.3g}  {error}  {covered}"
                )
            lines += ["", f"std err is the median of the fits; intervals have the level {self.level:g}"]
        if self.clipped > 0:
            lines.append(
                f"{self.clipped:.2g} of the drawn records lay outside the bounds and were clipped, which biases fits"
            )
        refusals = [(row, str(error)) for row, error in self.refusals.items()]
        told = [(row, said) for row, messages in self.warned.items() for said in messages]
        for what, messages in (("refused", refusals), ("warned", told)):
            lines += [f"{what}, {times} of {count}, such as: {said}" for times, said in _kinds(messages)]
        return "\n".join(lines)


def rehearse(
    loss: Loss,
    release: Release,
    population: Population,
    *,
    n: float,
    fits: int = 20,
    method: str = "auto",
    l2: float = 0.0,
    start: Any = None,
    level: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
    progress: bool = False,
) -> Rehearsal:
    """Release and fit n records of a population, again and again: whether a plan works is seen, and not computed.

    `expected_fit` is right to first order, and knows of the curvature alone whether a fit will be refused. Here each
    fit draws n records of the population, with replacement, releases them and runs `m_estimate` as it will be run.

    Parameters
    ----------
    loss, release, population, l2, start
        As for `expected_fit`.
    n : float
        How many records there will be, at least 2; rounded up, as ``plan.best.expected.records`` is a float.
    fits : int
        How many times, at least 1. Of 20 fits, one in ten of which is refused, none is with a probability of .12.
    method : str
        The correction, as for `debias`: that of ``plan.best.expected.method``, for example.
    level : float
        That of the intervals, in (0, 1).
    random_state : int, numpy.random.Generator or None
        Of the records and their noise; 0 by default, so that rehearsals repeat. Nothing is released.
    progress : bool
        Show a progress bar (needs the extra ``progress``).

    Returns
    -------
    Rehearsal
        Estimates, standard errors, intervals, and which fits were refused; printed, a table.

    Raises
    ------
    InferenceError
        The population does not tell the parameters apart.
    NoExactCorrectionError
        The release cannot be corrected for this loss.
    ValueError, TypeError
        An argument does not fit.

    Notes
    -----
    Where the noise was estimated, it is what the estimate says, and each fit has another estimate of it, as other
    repeated measurements would give.

    The time is that of so many fits. Estimates are compared with the parameters of the population itself, the penalised
    ones where there is a penalty, which is what fits estimate.

    Examples
    --------
    Much noise for the exponential loss: the fits are refused.

    >>> import symdebias as sd
    >>> population = sd.planning.Population.guess([1.0, -0.5], size=2_000)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(1.5))
    >>> sd.planning.rehearse(sd.losses.exponential(), release, population, n=1_000, fits=5).refused
    5
    """
    progress = check_flag("progress", progress)
    count, times = math.ceil(sample_size(n)), COUNT.check("fits", fits)
    level = OPEN_UNIT.check("level", level)
    released, population = in_released_units(release, population)
    if count < 2 or count * population.X.shape[1] > MOST_NUMBERS:
        raise ValueError(
            f"n={shown(n)} is out of range for {population.X.shape[1]} columns. Give at least 2 records, and at most "
            f"{MOST_NUMBERS:,} numbers: expected_fit plans for more."
        )
    rng = generator(random_state)
    study = Study.of(loss, released, population, l2, 0, start)
    theta = study.theta
    bound, source = bound_to(released, population.X), sampling.source(rng)
    seen: list[Outside] = []
    thetas, errors = np.full((2, times, len(theta)), math.nan)
    intervals = np.full((times, len(theta), 2), math.nan)
    refusals: dict[int, SymdebiasError] = {}
    warned: dict[int, tuple[str, ...]] = {}
    names: tuple[str, ...] = ()
    with progress_bar(progress, times, "fit") as advance:
        for row in range(times):
            drawn = rng.integers(len(population.y), size=count)
            noised = noised_records(bound, population.X[drawn], population.y[drawn], source, seen.append)
            corrected = debias(loss, estimated_anew(noised.release, rng), method=method)
            names = names or _names(corrected.parameter_names, len(theta))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    fit = m_estimate(corrected, noised.X, noised.y, l2=l2, start=start)
                except SymdebiasError as error:
                    refusals[row] = error
                else:
                    thetas[row] = fit.theta.ravel()
                    errors[row], intervals[row] = _told(fit, level)
            if caught:
                warned[row] = tuple(str(one.message) for one in caught)
            advance(1)
    clipped = sum(one.count for one in seen) / (times * count)
    return Rehearsal(release, names, count, theta, thetas, errors, intervals, refusals, warned, clipped, level)


def _told(fit: Fit, level: float) -> tuple[FloatArray | float, FloatArray | float]:
    """Return standard errors and intervals of a fit; NaN where there are none."""
    try:
        errors = fit.standard_errors.ravel()
    except InferenceError:
        return math.nan, math.nan
    try:
        return errors, fit.confidence_interval(level).reshape(-1, 2)
    except InferenceError:
        return errors, math.nan


def _names(own: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the names of the parameters, those of several scores by their number."""
    scores = count // len(own)
    return own if scores == 1 else tuple(f"{name}[{score}]" for score in range(scores) for name in own)


def _kinds(messages: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Return for the commonest kinds of messages how many fits have them, and one of them, shortened."""
    # Figures differ from fit to fit.
    rows: dict[str, dict[int, str]] = {}
    for row, said in messages:
        rows.setdefault(re.sub(r"\d[\d.,]*(e[-+]?\d+)?", "0", said), {})[row] = said
    for alike in sorted(rows.values(), key=len, reverse=True)[:_KINDS]:
        said = next(iter(alike.values()))
        yield len(alike), said if len(said) <= _SHOWN else f"{said[: _SHOWN - 3]}..."
