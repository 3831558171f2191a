"""Are released columns in the units of their release? The noise of its scale is in them, and no more than that."""

import math
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._rows import Rows, has_any_row
from symdebias.checks.records import (
    fourth_moment,
    least_chance_outside,
    log_p_of_spread,
    middle_and_reach,
    peak,
    rounded,
)
from symdebias.checks.scaled import FEWEST, columns_with_noise
from symdebias.corrected import CorrectedLoss
from symdebias.mechanisms import Mechanism

# So many records are looked at; each kind of alarm is as rare as this for each column.
_LOOKED_AT, _FALSE_ALARMS = 4096, 1e-7
# Noise of a smaller share of a value may be lost in its last digits.
_ROUNDING = 1e-9
# Noise is rarely so many standard deviations long: at most once in the square of it (Chebyshev).
_LONG = 3.0
# The largest chance that is not rounded to 1, and how many values show whether a column may be on a grid.
_SURE, _FEW = 1 - 1e-12, 8


def refuse_other_units(corrected: CorrectedLoss, matrix: FloatArray | Rows, weights: Any = ()) -> None:
    """Refuse records whose noised columns are in other units than those of their release.

    Some thousand records are looked at, spread over all, as they may be sorted: none of a source that is read from its
    beginning to its end (see `symdebias.checks.mismatch.refuse_mismatch_of_some`). Whatever the true values are, within
    the declared range, a column

    * varies at least as the noise alone does: sample variances are means over pairs of records, to which the test
      ``spread`` of `symdebias.checks.check_records` applies;
    * is farther outside of its range than three standard deviations of the noise with a probability of at most 1/9 for
      each record (Chebyshev), and for a share f of n records of at most exp(-n KL(f, 1/9)) (Chernoff);
    * is outside of its range with the probability `least_chance_outside` at least, and within it in all of n records
      with (1 - p)^n at most: so are true records, and noised ones that were clipped. Whole numbers, of which there are
      few different ones, are told by the test ``rounded`` of `symdebias.checks.check_records` instead.

    Columns are those that `symdebias.checks.scaled.refuse_scaled` looks at. Of all columns with noise of a continuous
    law, those of a known error included, none is the same in all records: such a column was not noised.

    Parameters
    ----------
    corrected : CorrectedLoss
        The loss that they are fitted to. One without correction undoes no noise, and takes records of any kind.
    matrix : array of shape (n, p), float64, or Rows
        Released records, checked.
    weights : array of shape (n,) or (0,), float64, or Rows
        Their weights: records without weight are not looked at, where these are an array.

    Raises
    ------
    ValueError
        A column is in other units; the message says how that shows.
    """
    noised = columns_with_noise(corrected, matrix)
    if not noised or not has_any_row(matrix):
        return
    if isinstance(weights, np.ndarray) and len(weights) and not weights.all():
        present = np.flatnonzero(weights)
        looked_at = matrix[present[:: -(-len(present) // _LOOKED_AT)]]
    else:
        looked_at = matrix[:: -(-len(matrix) // _LOOKED_AT)]
    _refuse_constants(looked_at, noised)
    private = [one for one in noised if one[1].guarantee is not None]
    limit = math.log(_FALSE_ALARMS)
    for place, mechanism, noise in private:
        width = place.stop - place.start
        divisors = mechanism.divisors_on(width)
        variances = noise.coordinate_variances(width) / divisors**2
        middle, reach = middle_and_reach(mechanism)
        columns = looked_at[:, place]
        with np.errstate(over="ignore", invalid="ignore"):
            away = np.abs(columns - middle)
        for index in _suspects(columns, variances, away, reach):
            # What was noised once and stands in several records counts once.
            column = np.unique(columns[:, index])
            n, divisor, variance = len(column), float(divisors[index]), float(variances[index])
            if n < FEWEST or not variance > 0:
                continue
            # Comparisons are such that what is not finite passes: it is refused by itself.
            with np.errstate(over="ignore", invalid="ignore"):
                how, found = "", float(np.var(column, ddof=1))
            if found < variance:
                fourth = fourth_moment(noise, divisor, variance)
                if log_p_of_spread(noise, divisor, variance, fourth, found, n // 2) < limit:
                    how = "varies less than its noise alone does"
            if reach is not None:
                outside = float(np.mean(np.abs(column - middle) > reach + _LONG * math.sqrt(variance)))
                if -n * _divergence(outside, 1 / _LONG**2) < limit:
                    how = "lies outside of its declared range, farther than the noise takes it"
            if how:
                raise ValueError(_refusal(place.start + index, how, mechanism))
        if reach is None:
            continue
        for index in map(int, np.flatnonzero(away.max(axis=0) <= reach)):
            column, divisor, variance = columns[:, index], float(divisors[index]), float(variances[index])
            chance = least_chance_outside(mechanism, noise, divisor, variance, reach) if variance > 0 else 0.0
            if _log_p_of_staying(column, chance, math.sqrt(variance), peak(noise)) < limit:
                how = "lies within its declared range in all records, where noise takes many out of it"
                raise ValueError(_refusal(place.start + index, how, mechanism))


def _refuse_constants(looked_at: FloatArray, noised: list[tuple[slice, Mechanism, Any]]) -> None:
    """Raise ValueError where a column with noise has one value, as an intercept that was added by hand has."""
    first = looked_at[:1]
    # Most columns are told apart by two records.
    if len(looked_at) < FEWEST or not (looked_at[1:2] == first).any():
        return
    same = (looked_at == first).all(axis=0)
    for place, mechanism, noise in noised:
        width = place.stop - place.start
        scales = np.sqrt(noise.coordinate_variances(width)) / mechanism.divisors_on(width)
        for index in np.flatnonzero(same[place] & (scales > _ROUNDING * np.abs(first[0, place]))):
            raise ValueError(
                f"column {place.start + int(index)} of X is the same in all records, and the release declares the "
                f"noise of {mechanism!r} on it, which leaves no two alike. Pass noised.X as privatize returned it; "
                "declare a column that has no noise by noiseless=, and an intercept by fit_intercept=True."
            )


def _refusal(column: int, how: str, mechanism: Mechanism) -> str:
    return (
        f"column {column} of X {how}: it is in other units than those of the release, or {mechanism!r} did not noise "
        "it, or it was changed afterwards. Pass noised.X as privatize returned it; what symdebias.ReleaseScaler "
        "returned goes with its scaled_release."
    )


def _suspects(columns: FloatArray, variances: FloatArray, away: FloatArray, reach: float | None) -> list[int]:
    """Return the columns that vary less than their noise, or are outside more often than it makes likely.

    ``away`` is how far numbers are from the middle of their range. Fewer records than are judged have none.
    """
    if len(columns) < FEWEST:
        return []
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = columns.var(axis=0, ddof=1) < variances
        if reach is not None:
            suspect |= (away > reach + _LONG * np.sqrt(variances)).mean(axis=0) > 1 / _LONG**2
    return [int(place) for place in np.flatnonzero(suspect)]


def _log_p_of_staying(column: FloatArray, chance: float, sigma: float, likelier: float) -> float:
    """Return a bound on the log probability that noise leaves a column within its range, and whole where it is so."""
    stays = math.log1p(-min(chance, _SURE))
    # Most columns are not on a grid, as few values tell, and what is left costs more than these looks.
    is_whole = sigma > 0 and rounded(sigma, "", column[:_FEW], likelier).log_p < 0
    if not is_whole and len(column) * stays >= math.log(_FALSE_ALARMS):
        return 0.0
    # What was noised once and stands in several records counts once; so do true values that are whole numbers.
    different = np.unique(column)
    return min(len(different) * stays, rounded(sigma, "", different, likelier).log_p if is_whole else 0.0)


def _divergence(share: float, chance: float) -> float:
    """Return the divergence of Kullback and Leibler of a share from a smaller chance, 0 from a larger one."""
    if not share > chance:
        return 0.0
    rest = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return share * math.log(share / chance) + rest
