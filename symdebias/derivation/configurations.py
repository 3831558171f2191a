"""Categories, labels and noise on a grid: sums over all combinations, each with the weight that undoes the noise."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.derivation.problem import Build, ScoreProblem
from symdebias.exceptions import NoExactCorrectionError
from symdebias.release.design import Linear

# Combinations of categories that a kernel sums over for each record.
_MOST_CONFIGURATIONS = 512
_MOST_WEIGHTS = 2**18


def sum_over_configurations(problem: ScoreProblem, build: Build, shifts: Sequence[Linear]) -> None:
    """Sum over the combinations of categories, of shifts on a grid and of labels, which vary fastest.

    Raises
    ------
    NoExactCorrectionError
        There are too many, or categories that cannot be told apart.
    """
    inverses = [column.weights for column in problem.design.categorical]
    differences = [part.own_noise.inverse_differences or () for part in shifts if part.own_noise is not None]
    count = math.prod(inverse.shape[1] for inverse in inverses) * math.prod(map(len, differences))
    observed = math.prod(inverse.shape[0] for inverse in inverses)
    labelled = problem.labelled
    table = labelled.table if labelled.levels and labelled.table is not None else np.ones((1, 1))
    codes, labels = table.shape
    if count * labels > _MOST_CONFIGURATIONS or count * labels * observed * codes > _MOST_WEIGHTS:
        raise NoExactCorrectionError(
            f"the columns of categories or on a grid have {count} combinations"
            f"{f', with {labels} labels each,' if labels > 1 else ''} to sum over for each record; at most "
            f"{_MOST_CONFIGURATIONS} are derived. A loss of polynomials, exponentials, sines and cosines of one score "
            "is corrected column by column, however many there are: declare such a loss, or noise fewer columns so."
        )
    parameters = len(problem.design.parameters)
    weights: Any = np.ones((1, 1))
    offsets: FloatArray = np.zeros((1, parameters))
    for column in problem.design.categorical:
        weights = np.kron(weights, column.weights)
        offsets = (offsets[:, None] + column.rows(parameters)).reshape(-1, parameters)
    for part, pairs in zip(shifts, differences, strict=True):
        moves = np.zeros((len(pairs), parameters))
        moves[:, part.parameter] = [offset for offset, _ in pairs]
        weights = np.kron(weights, [[weight for _, weight in pairs]])
        offsets = (offsets[:, None] + moves).reshape(-1, parameters)
    weights = np.asarray(np.kron(weights, table), dtype=np.float64)
    offsets = np.repeat(offsets, labels, axis=0)
    build.configurations, build.observations = weights.shape[1], weights.shape[0]
    build.constants["weights"], build.constants["offsets"] = weights, offsets
