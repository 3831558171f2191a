"""Moments of records: unbiased ones of true records, the noise taken out, and plain ones of released records."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._rows import Rows
from symdebias.codegen.parallel import CHUNK, over_chunks
from symdebias.exceptions import NoExactCorrectionError
from symdebias.records import Records
from symdebias.release.design import ColumnDesign
from symdebias.zonal import ZonalNoise

# Rows that leverages are computed for at a time.
_ROWS = 2048


@dataclass(frozen=True)
class Moments:
    """Unbiased moments of true records: plain ones first, then one entry for each multiplier.

    Attributes
    ----------
    gram : list of arrays of shape (q, q), float64
        mean(M x x').
    mean : list of arrays of shape (q,), float64
        mean(M x).
    cross : array of shape (q,), float64
        mean(x y).
    target_square : float
        mean(y^2) of the released target.
    records : float
        The sample size; with weights (sum w)^2/(sum w^2).
    """

    gram: list[FloatArray]
    mean: list[FloatArray]
    cross: FloatArray
    target_square: float
    records: float


def moments_of(
    design: ColumnDesign,
    matrix: FloatArray | Rows,
    target: FloatArray | Rows,
    weights: FloatArray,
    covariance: FloatArray,
    multipliers: Sequence[FloatArray | None] = (),
    bent: Sequence[bool] = (),
) -> Moments:
    """Return unbiased estimates of mean(M x x'), mean(M x) and mean(x y) over true records.

    Parameters
    ----------
    design : symdebias.release.design.ColumnDesign
        How columns enter the score.
    matrix : array of shape (n, p), float64, or Rows
        Released records.
    target : array of shape (n,), float64, or Rows
        Released targets.
    weights : array of shape (n,) or (0,), float64
        Weights; empty where all records weigh the same.
    covariance : array of shape (p, p), float64
        Of the additive noise.
    multipliers : sequence of arrays of shape (n,) or None
        M; None stands for 1.
    bent : sequence of bool
        Whether mean(M x x') is wanted; zeros stand for it where it is not.
    """
    size = len(design.parameters)
    total = float(weights.sum()) if len(weights) else float(len(matrix))
    wanted = [(None, True), *zip(multipliers, bent, strict=True)]
    grams = [np.zeros((size, size)) for _ in wanted]
    means = [np.zeros(size) for _ in wanted]
    masses = [0.0 for _ in wanted]
    cross, square = np.zeros(size), 0.0
    for start in range(0, len(matrix), CHUNK):
        rows = slice(start, start + CHUNK)
        block, released = matrix[rows], target[rows]
        estimated = design.estimated_rows(block)
        weight = weights[rows] if len(weights) else None
        weighted = released if weight is None else weight * released
        # Both sums in one pass.
        plain, crossed = np.stack([np.ones(len(estimated)) if weight is None else weight, weighted]) @ estimated
        cross += crossed
        square += float(weighted @ released)
        for place, (multiplier, curved) in enumerate(wanted):
            if multiplier is None and place > 0:
                continue
            share = _times(weight, None if multiplier is None else multiplier[rows])
            means[place] += plain if share is None or share is weight else share @ estimated
            masses[place] += float(len(estimated) if share is None else share.sum())
            if curved:
                grams[place] += _product(design, block, estimated, share)
    for place, (multiplier, _) in enumerate(wanted):
        if multiplier is None and place > 0:
            grams[place], means[place], masses[place] = grams[0], means[0], masses[0]
    noise = design.additive_covariance(covariance)
    found = [(gram - noise * mass) / total for gram, mass in zip(grams, masses, strict=True)]
    for group in design.spherical:
        if isinstance(group.noise, ZonalNoise):
            places = [design.linear_parameters[column] for column in group.columns]
            for gram in found:
                gram[np.ix_(places, places)] /= group.noise.square_gain
            if group.constant > 0:
                # The target is a coordinate of the vector.
                cross[places] /= group.noise.square_gain
    records = total**2 / float(weights @ weights) if len(weights) else total
    return Moments(found, [mean / total for mean in means], cross / total, square / total, records)


def debiased_moments(records: Records) -> tuple[FloatArray, FloatArray]:
    """Return unbiased estimates of mean(x) and mean(x x') over true records, intercept included.

    Parameters
    ----------
    records : Records
        Released records.

    Raises
    ------
    NoExactCorrectionError
        There are columns of categories, which have no normal moments.
    """
    design = records.correction.design
    if design.categorical:
        raise NoExactCorrectionError(
            "columns of categories are not drawn from their moments. Guess a population, and give it to Population."
        )
    covariance = records.correction.noise_covariance()
    moments = moments_of(design, records.matrix, records.target, records.weights, covariance)
    return moments.mean[0], moments.gram[0]


def _times(left: FloatArray | None, right: FloatArray | None) -> FloatArray | None:
    if left is None or right is None:
        return right if left is None else left
    return np.asarray(left * right)


def _product(design: ColumnDesign, matrix: FloatArray, estimated: FloatArray, share: FloatArray | None) -> FloatArray:
    """Return the sum of share x x', an unbiased one within a column of categories as well."""
    product: FloatArray = (estimated if share is None else estimated * share[:, None]).T @ estimated
    for column in design.categorical:
        # Products of estimates from one draw of the noise are not unbiased; those of the entries are.
        places = sorted({place for place in column.parameters if place >= 0})
        own = column.rows(len(design.parameters))[:, places]
        outer = np.einsum("ai,aj->aij", own, own).reshape(len(own), -1)
        counts = np.bincount(matrix[:, column.column].astype(int), share, minlength=len(column.noise.outputs))
        block = counts @ column.weights @ outer
        product[np.ix_(places, places)] = block.reshape(len(places), -1)
    return product


def leverages(design: ColumnDesign, matrix: FloatArray, root: FloatArray) -> FloatArray:
    """Return x'M^-1 x of released records, shape (n,), from the `inverse_root` of their mean second moments M."""
    found = np.empty(len(matrix))
    # What a few rows need stays in the cache: half of the time.
    for start in range(0, len(matrix), _ROWS):
        turned = design.estimated_rows(matrix[start : start + _ROWS]) @ root
        np.einsum("ij,ij->i", turned, turned, out=found[start : start + _ROWS])
    return found


def released_moments(records: Records) -> FloatArray:
    """Return the second moments of released design rows, scores after one another; ones for a free-form loss.

    Parameters
    ----------
    records : Records
        The records.
    """
    correction, matrix = records.correction, records.matrix
    if not correction.loss.scores:
        return np.eye(correction.number_of_parameters)
    design = correction.design

    def products(rows: slice) -> FloatArray:
        estimated = design.estimated_rows(matrix[rows])
        return np.asarray(estimated.T @ estimated)

    one = records.remembered(
        "released moments", lambda: sum(over_chunks(len(matrix), products), np.zeros(())) / len(matrix)
    )
    return np.asarray(np.kron(np.eye(len(correction.loss.scores)), one), dtype=np.float64)
