"""The covariance of measurement error, estimated from repeated measurements or from records with known true values.

An estimate is a covariance with its degrees of freedom f: f times the estimate has Wishart's law for normal errors.
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import stdtr

from symdebias._arrays import BooleanArray, FloatArray, column_names, frame, is_table, real_array

# How rarely a test refuses measurements that are as they should be.
_LEVEL = 1e-3
# Where measurements are sorted, those side by side differ in the mean by up to 1.41 times the spread of that (two with
# uniform errors), which m records tell to within so many over the root of m; by more where shifted ones never overlap.
_SORTED, _TOLD = 1.5, 8.0
# Measurements that two records need in common to be held against each other.
_FEWEST = 8


def within_records(replicates: ArrayLike) -> tuple[FloatArray, int]:
    """Return the covariance of the error of one measurement, pooled within records, with its degrees of freedom.

    It is sum_i sum_j (w_ij - w_i)(w_ij - w_i)' / f with w_i the mean of the k_i measurements of record i and f = sum_i
    (k_i - 1), at least p. Replicates have the shape (n, k) or (n, k, p), NaN where there are fewer than k.

    Raises
    ------
    ValueError, TypeError
        They are no measurements, too few of them are repeated, or those of each record are equal. Or they are shifted
        against each other, by a test that refuses one of a thousand good samples.

    References
    ----------
    Carroll, Ruppert, Stefanski & Crainiceanu 2006 (Measurement Error in Nonlinear Models), equation (4.3).

    Examples
    --------
    >>> within_records([[1.0, 3.0], [2.0, 2.0], [5.0, float("nan")]])
    (array([[1.]]), 2)
    """
    if is_table(replicates):
        names, table = column_names(replicates), frame(replicates)
        replicates = np.stack([real_array(table[name], f"column {name}", check_finite=False) for name in names], axis=1)
    values = real_array(replicates, "replicates", check_finite=False)
    if values.ndim not in (2, 3):
        raise ValueError(
            f"replicates have the shape {values.shape}; it must be (n, k), k measurements of each of n records, or "
            "(n, k, p) for p columns. Fill up with NaN where a record has fewer."
        )
    values = values[..., None] if values.ndim == 2 else values
    if np.isinf(values).any():
        row = int(np.argwhere(np.isinf(values))[0, 0])
        raise ValueError(f"replicates have infinity in row {row}. Give NaN for what was not measured.")
    missing = np.isnan(values)
    if np.any(missing.any(axis=2) != missing.all(axis=2)):
        row = int(np.argwhere(missing.any(axis=2) != missing.all(axis=2))[0, 0])
        raise ValueError(
            f"row {row} of replicates has a measurement of some columns only. Give NaN for all columns of it, or "
            "estimate the error of each column by itself where instruments are independent."
        )
    measured, width = np.logical_not(missing.any(axis=2)), values.shape[2]
    counts = measured.sum(axis=1)
    freedom = int(np.maximum(counts - 1, 0).sum())
    if freedom < width:
        raise ValueError(
            f"replicates leave {freedom} degrees of freedom for the error of {width} column{'s' * (width != 1)}; there "
            f"must be {width} or more. Measure more records twice."
        )
    _refuse_turned_over(values, np.asarray(measured))
    _refuse_shifted(values)
    filled = np.where(missing, 0.0, values)
    means = filled.sum(axis=1) / np.maximum(counts, 1)[:, None]
    away = np.where(missing, 0.0, values - means[:, None, :]).reshape(-1, width)
    covariance = np.asarray(away.T @ away / freedom)
    _require_errors(covariance, values[measured], "replicates of each record are equal")
    return covariance, freedom


def _refuse_turned_over(values: FloatArray, measured: BooleanArray) -> None:
    """Raise ValueError where measurements of two records go with each other, as those of two measurements do.

    A list of two columns of measurements is read as two records, each measured as often as there are records. Only
    where there are more measurements than records it is looked at, and by measurements of the first two.
    """
    if not 2 <= len(values) < values.shape[1]:
        return
    both = measured[0] & measured[1]
    for place in range(values.shape[2]):
        pair = values[:2, both, place]
        if both.sum() < _FEWEST or not np.all(np.ptp(pair, axis=1) > 0):
            continue
        found = scipy.stats.pearsonr(*pair)
        if found.pvalue < _LEVEL / values.shape[2]:
            raise ValueError(
                f"the measurements of the first record go with those of the second (a correlation of "
                f"{found.statistic:.2g} over {both.sum():,}), and errors of records are independent: these look like "
                f"{len(values)} measurements of {values.shape[1]:,} records. Give a row for each record: "
                "numpy.stack(replicates, axis=1)."
            )


def _refuse_shifted(values: FloatArray) -> None:
    """Raise ValueError where measurements differ from those before them in the mean, and are not sorted.

    A shift is no error, and its square would count as variance.
    """
    count = (values.shape[1] - 1) * values.shape[2]
    for place, column in np.ndindex(values.shape[1] - 1, values.shape[2]):
        apart = values[:, place + 1, column] - values[:, place, column]
        apart = apart[np.isfinite(apart)]
        if len(apart) < _FEWEST or not apart.any():
            continue
        mean, spread, root = float(apart.mean()), float(apart.std(ddof=1)), len(apart) ** 0.5
        away = mean / spread * root if spread > 0 else math.copysign(math.inf, mean)
        is_sorted = abs(mean) < (_SORTED + _TOLD / root) * spread and (np.all(apart >= 0) or np.all(apart <= 0))
        if 2 * stdtr(len(apart) - 1, -abs(away)) < _LEVEL / count and not is_sorted:
            raise ValueError(
                f"measurement {place + 1} of column {column} is {mean:.3g} above measurement {place} in the mean, "
                f"{abs(away):.3g} of its standard errors: measurements are shifted against each other, or are of "
                "different columns. Of one column, take the mean difference off the later ones, and pass these."
            )


def beside_true(noised: ArrayLike, true: ArrayLike) -> tuple[FloatArray, int]:
    """Return the covariance of the error w - x about its mean, with its degrees of freedom m - 1.

    Measurements and true values have the shape (m,) or (m, p), the covariance (p, p).

    Raises
    ------
    ValueError, TypeError
        They do not fit, or there are too few; or they are not the true values with an independent error of mean 0. Each
        of the two tests refuses one of a thousand good samples.

    Examples
    --------
    >>> covariance, freedom = beside_true([1.5, 1.5, 3.5, 3.5], [1.0, 2.0, 3.0, 4.0])
    >>> covariance.round(4), freedom
    (array([[0.3333]]), 3)
    """
    names = column_names(noised) if is_table(noised) else None
    measured, known = _columns(noised, "noised"), _columns(true, "true", names)
    if measured.shape != known.shape:
        raise ValueError(
            f"noised has the shape {np.shape(noised)} and true {np.shape(true)}. Give both for the same records."
        )
    count, width = measured.shape
    if count < width + 3:
        raise ValueError(
            f"{count} record{'s' * (count != 1)} with true values do not tell the error of {width} "
            f"column{'s' * (width != 1)}; there must be {width + 3} or more. Validate more records."
        )
    error = measured - known
    mean = error.mean(axis=0)
    covariance = np.asarray((error - mean).T @ (error - mean) / (count - 1))
    _require_errors(covariance, measured, "noised and true values differ by a constant")
    deviations = np.sqrt(np.diag(covariance))
    for place in np.flatnonzero(deviations):
        away = float(mean[place] / deviations[place]) * count**0.5
        if 2 * stdtr(count - 1, -abs(away)) < _LEVEL / width:
            raise ValueError(
                f"the mean of noised - true in column {place} is {away:.3g} of its standard errors from 0: "
                "measurements are shifted. Subtract that mean from all measurements, and pass these."
            )
        found = scipy.stats.linregress(known[:, place], error[:, place]) if np.ptp(known[:, place]) > 0 else None
        if found is not None and found.pvalue < _LEVEL / width:
            raise ValueError(
                f"noised - true in column {place} goes with the true value, by {found.slope:.3g} a unit: measurements "
                "are on another scale, or true values scatter about them (Berkson's error), and neither is noise added "
                "to true values. Calibrate the measurements first, or fit those of Berkson's error as they are; where "
                "the two were exchanged, the measurements come first."
            )
    return covariance, count - 1


def _columns(values: ArrayLike, name: str, order: Sequence[str] | None = None) -> FloatArray:
    """Return columns of finite numbers, shape (m, p); those of a table with the names of another in its order."""
    if is_table(values):
        names, table = column_names(values), frame(values)
        if order is not None and set(names) == set(order):
            names = tuple(order)
        values = np.stack([real_array(table[one], f"column {one} of {name}") for one in names], axis=1)
    array = real_array(values, name)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} has the shape {array.shape}; it must be (m,) or (m, p). Give one row per record.")
    return array.reshape(len(array), -1)


def _require_errors(covariance: FloatArray, values: FloatArray, otherwise: str) -> None:
    """Raise ValueError where there is no error beyond rounding."""
    rounding = np.square(4 * np.finfo(float).eps * np.abs(values).max(axis=0))
    if not np.all(np.diag(covariance) > rounding):
        place = int(np.argmin(np.diag(covariance) > rounding))
        raise ValueError(
            f"column {place} has no error: {otherwise}. List it in noiseless, or check that these are measurements of "
            "their own and no copies."
        )
