"""Categories, labels and noise on a grid: sums over all combinations, each with the weight that undoes the noise."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symdebias.derivation.problem import Build, ScoreProblem
from symdebias.exceptions import NoExactCorrectionError
from symdebias.release import Categorical, Design, Linear

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

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
    categorical = problem.design.categorical
    inverses = [weights_of(column) for column in categorical]
    sizes = [inverse.shape[1] for inverse in inverses]
    differences = [part.noise.inverse_differences or () for part in shifts if part.noise is not None]
    count = math.prod(sizes) * math.prod(len(found) for found in differences)
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
    offsets = np.zeros((count, parameters))
    weights = np.ones((observed, count))
    choices = [range(size) for size in sizes] + [range(len(found)) for found in differences]
    seen = list(itertools.product(*(range(inverse.shape[0]) for inverse in inverses)))
    for a, choice in enumerate(itertools.product(*choices)):
        for column, category in zip(categorical, choice, strict=False):
            for place, value in column.entries[category]:
                offsets[a, place] += value
        for part, found, k in zip(shifts, differences, choice[len(sizes) :], strict=True):
            offsets[a, part.parameter] += found[k][0]
            weights[:, a] *= found[k][1]
        for c, observation in enumerate(seen):
            for inverse, code, category in zip(inverses, observation, choice, strict=False):
                weights[c, a] *= inverse[code, category]
    weights = np.asarray(np.kron(weights, table), dtype=np.float64)
    offsets = np.repeat(offsets, labels, axis=0)
    build.configurations, build.observations = weights.shape[1], weights.shape[0]
    build.constants["weights"], build.constants["offsets"] = weights, offsets


def weights_of(column: Categorical) -> FloatArray:
    """Return the weights that undo the channel of a column, shape (outputs, inputs).

    Raises
    ------
    NoExactCorrectionError
        Its categories cannot be told apart.
    """
    return column.noise.exact_weights(f"column {column.column}")


def entry_rows(column: Categorical, size: int) -> FloatArray:
    """Return the design rows that the categories of a column make, shape (categories, size), zeros elsewhere."""
    rows = np.zeros((len(column.entries), size))
    for code, entries in enumerate(column.entries):
        for place, value in entries:
            rows[code, place] = value
    return rows


def released_covariance(design: Design, covariance: FloatArray, *, as_released: bool = False) -> FloatArray:
    """Return the matrix N with theta'N theta the variance of a record's estimated score over the noise of its columns.

    For columns of categories it is the mean over the true category, each as likely.

    Parameters
    ----------
    design : symdebias.release.Design
        How columns enter the score.
    covariance : array of shape (p, p), float64
        Of the additive noise of X's columns.
    as_released : bool
        Whether released categories enter the score as they are, with no estimate of the true one.
    """
    size = len(design.parameters)
    found = np.zeros((size, size))
    at = [part.parameter for part in design.linear]
    places = [part.column for part in design.linear]
    found[np.ix_(at, at)] = covariance[np.ix_(places, places)]
    for column in design.categorical:
        matrix = np.array(column.noise.matrix)
        rows = entry_rows(column, size)
        estimates = rows if as_released and len(rows) == matrix.shape[1] else weights_of(column) @ rows
        means = matrix @ estimates
        found += estimates.T @ (matrix.mean(axis=0)[:, None] * estimates) - means.T @ means / len(means)
    return found
