"""What true residuals tell of the columns: second moments of the mean column given the residual.

The bias that a surrogate of a residual loss leaves is a mean of columns times a function of the true residual, so that
of the columns only their mean given the residual matters. Where residuals tell little of the columns the bias is small.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.noise import AdditiveNoise
from symdebias.release.design import ColumnDesign
from symdebias.solvers.scores import ReleasedRecords

# Waves in the residual that a column's mean given the residual is made of: the first has twice the range of nearly all
# residuals for a period. No wave costs more than the first of these factors, but for the first wave of all.
_WAVES, _DEAREST, _DEAREST_OF_FIRST = 6, 8.0, 1e3
# What is nearly all residuals: all but so many at either end.
_TAIL = 0.02
# The share of a column's second moments that finer functions of the residual are taken to tell.
_FINER = 0.02
# What is added to the moments of the waves, which are 1/2 or more where residuals are spread out.
_RIDGE = 1e-3


def moments_told(known: ReleasedRecords, design: ColumnDesign, theta: FloatArray) -> FloatArray | None:
    """Return a bound on the second moments of E[x|r], x a design row and r the true residual, shape (q, q).

    They are those of the projection of x on 1, cos(w_l r) and sin(w_l r) of few slow waves, with twice their sampling
    error, and a fiftieth of the second moments of x for finer functions. The moments of x with a wave are unbiased: for
    normal noise, of the variance s in the residual and the covariance c of a row's noise with it,

        E x e^{iwr} = e^{s w^2/2} (E x^ e^{iwr^} - i w c E e^{iwr^})

    with hats for what was released (the derivative of the characteristic function of the noise by theta). Those of
    waves with one another come from the estimated distribution of residuals.

    Parameters
    ----------
    known : ReleasedRecords
        Of the records.
    design : ColumnDesign
        How columns enter the score.
    theta : array of shape (q,), float64
        The parameters.

    Returns
    -------
    array of shape (q, q), float64, or None
        None where the noise is not normal and the same for all records, the loss is not one of the residual, or the
        noise hides all waves of the size of the residuals.
    """
    if not (known.parts.is_residual and _is_normal(known, design)):
        return None
    residuals = known.scores(theta)
    low, middle, high = quantiles(residuals.values, residuals.chances, [_TAIL, 0.5, 1 - _TAIL])
    if not high > low:
        return None
    noise = known.score_variance(theta) + known.target_noise
    waves = math.pi / (high - low) * np.arange(1.0, _WAVES + 1)
    with np.errstate(over="ignore"):
        gains = np.exp(noise * waves**2 / 2)
    if not gains[0] <= _DEAREST_OF_FIRST:
        return None
    some = max(1, int(np.count_nonzero(gains <= _DEAREST)))
    waves, gains = waves[:some], gains[:some]
    sample, shared = known.sample_of(), known.noise @ theta
    dear = np.concatenate([[1.0], gains, gains])
    plain, _ = _functions(residuals.values - middle, waves)
    inverse = np.linalg.inv((plain.T * residuals.chances) @ plain + _RIDGE * np.eye(len(dear)))
    crossed, error = np.zeros((len(theta), len(dear))), np.zeros((len(theta), len(theta)))
    for part in sample.parts(len(dear)):
        rows, chances = sample.rows[part], sample.chances[part]
        values, slopes = (dear * each for each in _functions(rows @ theta - sample.target[part] - middle, waves))
        crossed += (rows.T * chances) @ values - np.multiply.outer(shared, chances @ slopes)
        # The sampling error of these moments, as they enter: from each record's x^ p(r^) - c p'(r^).
        turned, squares = values @ inverse, chances**2
        both = rows.T @ (squares * np.einsum("ij,ij->i", turned, slopes))
        error += (rows.T * (squares * np.einsum("ij,ij->i", turned, values))) @ rows
        error -= np.multiply.outer(both, shared) + np.multiply.outer(shared, both)
        error += np.multiply.outer(shared, shared) * float(squares @ np.einsum("ij,ij->i", slopes @ inverse, slopes))
    # The square of an estimate has its sampling error in it once.
    return np.asarray(crossed @ inverse @ crossed.T + error + _FINER * known.positive_gram())


def _is_normal(known: ReleasedRecords, design: ColumnDesign) -> bool:
    """Whether the noise of the residual is normal, and the same for all records."""
    target = known.parts.target_noise
    if target is not None and not (isinstance(target, AdditiveNoise) and target.is_gaussian):
        return False
    if design.categorical or design.spherical or known.zonal is not None or known.sample_of().own_variances is not None:
        return False
    return all(
        one.noise is None or (isinstance(one.noise, AdditiveNoise) and one.noise.is_gaussian) for one in design.linear
    )


def quantiles(values: FloatArray, chances: FloatArray, shares: Sequence[float]) -> list[float]:
    """Return quantiles of numbers, each of them one of these; chances sum to 1."""
    order = np.argsort(values)
    places = np.searchsorted(np.cumsum(chances[order]), shares)
    found: list[float] = values[order[np.minimum(places, len(order) - 1)]].tolist()
    return found


def _functions(residuals: FloatArray, waves: Any) -> tuple[FloatArray, FloatArray]:
    """Return 1, cosines and sines of residuals, shape (m, 2k + 1), and their derivatives."""
    at = np.multiply.outer(residuals, waves)
    cosines, sines = np.cos(at), np.sin(at)
    one = np.ones((len(residuals), 1))
    return np.hstack([one, cosines, sines]), np.hstack([0 * one, -waves * sines, waves * cosines])
