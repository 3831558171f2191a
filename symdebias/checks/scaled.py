"""Were released columns scaled by their own moments or extremes? What a scaler leaves exactly noise does not."""

import math

import numpy as np

from symdebias._arrays import FloatArray, sums_and_minima
from symdebias._rows import Rows, over_blocks
from symdebias.corrected import CorrectedLoss
from symdebias.mechanisms import ChannelMechanism, Mechanism
from symdebias.mechanisms.ranges import Grid
from symdebias.noise import AdditiveNoise, SphericalNoise

# Fewer records tell nothing.
FEWEST = 20
# Sample moments count as exactly 0 or 1 within this, and extremes, which scalers meet to the last digits.
_EXACT, _END = 1e-9, 1e-12
_OF_MOMENTS = "a mean of 0 and a standard deviation of 1"


def refuse_scaled(corrected: CorrectedLoss, matrix: FloatArray | Rows) -> None:
    """Refuse records whose noised columns went through a scaler that was fitted to them.

    Noise with a guarantee is that of the declared bounds, in their units: a column that was standardised by its own
    moments has another. Noise of a known scale may be that of standardised columns, and is left alone. So are columns
    on a grid, whose extremes may well be 0 and 1. A false alarm has a probability below 1e-7 for each column.

    Parameters
    ----------
    corrected : CorrectedLoss
        The loss that they are fitted to. One without correction undoes no noise, and takes records of any kind.
    matrix : array of shape (n, p), float64, or Rows
        Released records, checked.

    Raises
    ------
    ValueError
        A column was scaled; the message says how.
    """
    private = [one for one in columns_with_noise(corrected, matrix) if one[1].guarantee is not None]
    if not private:
        return
    n = len(matrix)
    means, lows = _means_and_minima(matrix)
    suspects = (np.abs(means) <= _EXACT) | (np.abs(lows) <= _END) | (np.abs(lows + 1) <= _END)
    for place, mechanism, noise in private:
        for index in place.start + np.flatnonzero(suspects[place]):
            how = scaled_how(matrix, int(index), float(means[index]), float(lows[index]))
            if how and log_p_of_scaling(how, math.sqrt(noise.variance), n) < math.log(1e-7):
                raise ValueError(
                    f"column {index} of X has {how}, to nine digits and more: a scaler was fitted to the released "
                    f"records, and their noise is no longer that of {mechanism!r}. Pass noised.X as privatize returned "
                    "it; for other units declare center and scale on the release, or use symdebias.ReleaseScaler."
                )


def columns_with_noise(
    corrected: CorrectedLoss, matrix: FloatArray | Rows
) -> list[tuple[slice, Mechanism, AdditiveNoise | SphericalNoise]]:
    """Return the places of columns with noise off a grid, with what noised them and their noise.

    There are none where no noise is undone, or records are too few to tell anything.
    """
    release = corrected.release
    if corrected.method == "none" or len(matrix) < FEWEST or release.coupling is not None:
        return []
    noised: list[tuple[slice, Mechanism, AdditiveNoise | SphericalNoise]] = []
    for place, mechanism in release.placed(matrix.shape[1]):
        if isinstance(mechanism, ChannelMechanism) or isinstance(mechanism.range, Grid):
            continue
        noise = mechanism.noise_on(place.stop - place.start)
        if isinstance(noise, (AdditiveNoise, SphericalNoise)):
            noised.append((place, mechanism, noise))
    return noised


def _means_and_minima(matrix: FloatArray | Rows) -> tuple[FloatArray, FloatArray]:
    """Return the means and the minima of all columns, in one pass where they have not been looked at."""
    if isinstance(matrix, Rows) and matrix.ends is not None:
        return matrix.ends
    parts = over_blocks(matrix, sums_and_minima)
    return np.sum([sums for sums, _ in parts], axis=0) / len(matrix), np.min([lows for _, lows in parts], axis=0)


def scaled_how(matrix: FloatArray | Rows, column: int, mean: float, low: float) -> str:
    """Return what a scaler would have made of a column so, or nothing where no scaler has been there."""
    high = max(over_blocks(matrix, lambda block: float(block[:, column].max())))
    if not high > low:
        return ""
    if abs(mean) <= _EXACT:
        squares = sum(over_blocks(matrix, lambda block: float(np.sum((block[:, column] - mean) ** 2))))
        if any(abs(math.sqrt(squares / (len(matrix) - less)) - 1) <= _EXACT for less in (0, 1)):
            return _OF_MOMENTS
    if min(abs(low), abs(low + 1)) <= _END and abs(high - 1) <= _END:
        return f"a minimum of {round(low)} and a maximum of 1"
    return ""


def log_p_of_scaling(how: str, sigma: float, n: int) -> float:
    """Return a bound on the log probability that noise makes a column look scaled so.

    The mean of n numbers whose noise has a density of at most M has one of at most sqrt(e n) M (Bobkov & Chistyakov
    2014), and M is below 1.8 over the scale of the noise; their variance has one of as much over the scale squared.
    Each of two extremes has a density of at most n over the scale.
    """
    least = min(sigma, 1.0)
    if how == _OF_MOMENTS:
        densities = 3 * math.sqrt(n) / least, 3 * math.sqrt(n) / least**2
        return sum(math.log(min(1.0, 2 * _EXACT * density)) for density in densities)
    return math.log(2) + 2 * math.log(min(1.0, 2 * _END * n / least))
