"""Are weights made of the noised labels or categories that they weigh? No correction undoes the noise in them."""

import math
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray, places_among
from symdebias._rows import Rows
from symdebias.noise import ChannelNoise
from symdebias.release import Release

# So many records are looked at, and so unlikely it must be that noise leaves weights a function of what it made.
_LOOKED_AT, _FALSE_ALARM = 10_000, 1e-9


def refuse_weights_of_noise(
    release: Release, matrix: FloatArray | Rows, target: FloatArray | Rows, weights: FloatArray | Rows
) -> None:
    """Refuse weights that are one number for each released label, or for each released category of a column.

    The mean of a weighted corrected loss is that of the weighted loss where the weights do not depend on the noise.
    Classes that are weighed by their released labels make it another loss, which may have no minimum. Weights that do
    not depend on the noise are refused with a probability below 1e-9.

    Parameters
    ----------
    release : Release
        How the records were noised.
    matrix, target : array of shape (n, p) and (n,), float64, or Rows
        Released records, checked.
    weights : array of shape (n,) or (0,), float64, or Rows
        Their weights; empty where all are the same.

    Raises
    ------
    ValueError
        The weights are such ones; the message says of which label or column.
    """
    if release.coupling is not None or not len(weights):
        return
    columns, noises = [], []
    for place, mechanism in release.placed(matrix.shape[1]):
        if isinstance(mechanism.noise, ChannelNoise):
            columns.append(place.start)
            noises.append(mechanism.noise)
    of_target = release.target_noise
    if not (noises or isinstance(of_target, ChannelNoise)):
        return
    # Rows are read from their beginning; of arrays some are taken from everywhere.
    step = max(1, len(weights) // _LOOKED_AT) if isinstance(matrix, np.ndarray) else 1
    rows = slice(0, step * _LOOKED_AT, step)
    given = np.asarray(weights[rows])
    if given.min() == given.max():
        return
    if isinstance(of_target, ChannelNoise):
        labels = places_among(of_target.outputs, np.asarray(target[rows]))
        if _is_of(labels, given, of_target):
            raise ValueError(
                "sample_weight is one number for each released label. Labels were noised, and the noise is not undone "
                "in weights that are made of them. Write the weight into the loss as a function of its label, which is "
                "corrected with it: (3 + 2*y)*log(1 + exp(-u*y)) weighs the label +1 five times as much as -1."
            )
    seen: Any = matrix[rows] if noises else None
    for column, noise in zip(columns, noises, strict=True):
        if _is_of(seen[:, column].astype(np.int64), given, noise):
            name = column if release.columns is None else release.columns[column]
            raise ValueError(
                f"sample_weight is one number for each released category of column {name}. It was noised, and the "
                "noise is not undone in weights that are made of it. Leave them out, or make weights of what is "
                "released as it is."
            )


def _is_of(codes: IntegerArray, weights: FloatArray, noise: ChannelNoise) -> bool:
    """Whether weights are a function of released values, given by their places, and would not be by chance.

    There are as many functions as powers of the number of different weights. Whatever went in, a record gets a value
    of its own weight with at most the largest probability of these values; those that do not occur may have any weight.
    """
    sizes, of_weights = np.unique(weights, return_inverse=True)
    pairs = np.unique(codes * len(sizes) + of_weights)
    own_codes, own_weights = np.divmod(pairs, len(sizes))
    if not 1 < len(np.unique(own_codes)) == len(pairs):
        return False
    chances = np.array(noise.matrix)
    free = chances.sum(axis=1) - chances[:, own_codes].sum(axis=1)
    likelihood = len(pairs) * math.log(len(sizes))
    for size, count in enumerate(np.bincount(of_weights)):
        chance = free + chances[:, own_codes[own_weights == size]].sum(axis=1)
        likelihood += count * math.log(min(1.0, float(chance.max())))
    return likelihood < math.log(_FALSE_ALARM)
