"""Are weights made of the noised labels, categories or numbers that they weigh? Noise in weights is not undone."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from symdebias._arrays import FloatArray, IntegerArray, places_among
from symdebias._rows import Rows
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.release import Release

# So many records are looked at, or as many fewer as there are columns, but no fewer than the second number; and so
# unlikely it must be that noise leaves weights a function of what it made.
_LOOKED_AT, _FEWEST, _NUMBERS, _FALSE_ALARM = 10_000, 1_000, 400_000, 1e-9
# Channels of more pairs of values are not looked at together; so many records are looked at first.
_MOST_PAIRS, _FIRST = 2_000, 300
# Numbers within this share of the standard deviation of their noise are next to each other. Each of them makes an order
# this many times as likely, at most, as where it were chance: that takes true values which on average are four standard
# deviations apart, and such do not come to be so close.
_NEXT, _LIKELIER = 0.1, math.exp(0.1)
# The share of such groups of numbers in which weights of a function may turn. Groups are made from two places on, so
# that a step of the weights stands within one.
_TURNS, _FROM = 0.3, (0.0, 0.5)


def refuse_weights_of_noise(
    release: Release,
    matrix: FloatArray | Rows,
    target: FloatArray | Rows,
    weights: FloatArray | Rows,
    *,
    has_offset: bool = False,
) -> None:
    """Refuse weights that are a function of what was noised.

    The mean of a weighted corrected loss is that of the weighted loss where the weights do not depend on the noise.
    Classes that are weighed by their released labels make it another loss, which may have no minimum. They are
    refused where they are one number for each released label, for each released category of a column or for two of
    these together, and where they rise or fall with released numbers, wherever these are next to one another. Weights
    that do not depend on the noise are refused with a probability below 1e-9 for each of these.

    Parameters
    ----------
    release : Release
        How the records were noised.
    matrix, target : array of shape (n, p) and (n,), float64, or Rows
        Released records, checked.
    weights : array of shape (n,) or (0,), float64, or Rows
        Their weights; empty where all are the same.
    has_offset : bool
        Whether an offset was put into targets and weights: these go together then, and are not held together.

    Raises
    ------
    ValueError
        The weights are such ones; the message says of which label or column.
    """
    if release.coupling is not None or not len(weights):
        return
    width = matrix.shape[1]
    # Rows are read from their beginning; of arrays some are taken from everywhere.
    looked_at = min(_LOOKED_AT, max(_FEWEST, _NUMBERS // max(width, 1)))
    step = max(1, len(weights) // looked_at) if isinstance(matrix, np.ndarray) else 1
    rows = slice(0, step * looked_at, step)
    given = np.asarray(weights[rows])
    if given.min() == given.max():
        return
    spreads = np.sqrt(release.feature_variances(width))
    channels = list(_channels(release, width))
    seen: Any = matrix[rows] if channels or spreads.any() else np.zeros((len(given), 0))
    of_target, released = release.target_noise, []
    if isinstance(of_target, ChannelNoise):
        released.append(_Released("label", places_among(of_target.outputs, np.asarray(target[rows])), of_target))
    elif isinstance(of_target, AdditiveNoise) and not has_offset:
        if _goes_with(np.asarray(target[rows]), given, math.sqrt(of_target.variance)):
            raise _made_of("a function of the released target")
    released += [
        _Released(f"category of column {_name(release, column)}", seen[:, column].astype(np.int64), noise)
        for column, noise in channels
    ]
    _, of_weights = np.unique(given, return_inverse=True)
    for one in released:
        if not _is_of(one.codes, of_weights, one.chances):
            continue
        if one.what == "label":
            raise ValueError(
                "sample_weight is one number for each released label. Labels were noised, and the noise is not undone "
                "in weights that are made of them. Write the weight into the loss as a function of its label, which is "
                "corrected with it: (3 + 2*y)*log(1 + exp(-u*y)) weighs the label +1 five times as much as -1."
            )
        raise _made_of(f"one number for each released {one.what}")
    for one, other in itertools.combinations(released, 2):
        count = len(other.noise.outputs)
        if len(one.noise.outputs) * count > _MOST_PAIRS:
            continue
        codes = one.codes * count + other.codes
        if _is_of(codes, of_weights, functools.partial(one.chances_with, other)):
            raise _made_of(f"one number for each released {one.what} and {other.what}")
    for column in np.flatnonzero(spreads).tolist():
        if _goes_with(seen[:, column], given, float(spreads[column])):
            raise _made_of(f"a function of the released numbers of column {_name(release, column)}")


@dataclass(frozen=True)
class _Released:
    """What was released of a few values."""

    what: str
    codes: IntegerArray  # Their places among the values.
    noise: ChannelNoise

    def chances(self) -> FloatArray:
        """Return the probabilities of released values in a row for each true one."""
        return np.array(self.noise.matrix)

    def chances_with(self, other: "_Released") -> FloatArray:
        """Return those of pairs of values with another's."""
        return np.asarray(np.kron(self.chances(), other.chances()), dtype=np.float64)


def _channels(release: Release, width: int) -> Iterator[tuple[int, ChannelNoise]]:
    """Return the places of columns of categories among so many columns, with their noise."""
    for place, mechanism in release.placed(width):
        if isinstance(mechanism.noise, ChannelNoise):
            yield place.start, mechanism.noise


def _name(release: Release, column: int) -> str | int:
    return column if release.columns is None else release.columns[column]


def _made_of(what: str) -> ValueError:
    return ValueError(
        f"sample_weight is {what}. It was noised, and the noise is not undone in weights that are made of it. Leave "
        "them out, or make weights of what is released as it is."
    )


def _is_of(codes: IntegerArray, of_weights: IntegerArray, chances: Callable[[], FloatArray]) -> bool:
    """Whether weights are a function of released values, both given by their places, and would not be by chance.

    There are as many functions as powers of the number of different weights. Whatever went in, a record gets a value
    of its own weight with at most the largest probability of these values; those that do not occur may have any weight.
    `chances` returns the probabilities of released values in a row for each true one.
    """
    counts = np.bincount(of_weights)
    # Most weights are told by a few records.
    if not _is_function(np.unique(codes[:_FIRST] * len(counts) + of_weights[:_FIRST]) // len(counts)):
        return False
    pairs = np.unique(codes * len(counts) + of_weights)
    own_codes, own_weights = np.divmod(pairs, len(counts))
    if len(pairs) < 2 or not _is_function(own_codes):
        return False
    rows = chances()
    free = rows.sum(axis=1) - rows[:, own_codes].sum(axis=1)
    likelihood = len(pairs) * math.log(len(counts))
    for size, count in enumerate(counts):
        chance = free + rows[:, own_codes[own_weights == size]].sum(axis=1)
        likelihood += count * math.log(min(1.0, float(chance.max())))
    return likelihood < math.log(_FALSE_ALARM)


def _is_function(own_codes: IntegerArray) -> bool:
    """Whether each value, of the ordered ones of different pairs with a weight, has one weight."""
    return bool(np.all(np.diff(own_codes) > 0))


def _goes_with(values: FloatArray, weights: FloatArray, spread: float) -> bool:
    """Whether weights rise or fall with released numbers that are next to one another, and would not by chance.

    Noise puts true values that are its standard deviation apart next to one another in any order, so that weights which
    are made of true values, or of anything else, go up and down there. k numbers of a group go one way by chance with a
    probability of 2 / k! where all their weights differ, times the factorials of how often weights occur.

    Parameters
    ----------
    values, weights : array of shape (n,), float64
        Released numbers of a column and weights.
    spread : float
        The standard deviation of the noise.
    """
    is_number = np.isfinite(values)
    values, weights = values[is_number].astype(np.float64), weights[is_number]
    order = np.lexsort((weights, values))
    values, weights = values[order], weights[order]
    # Records of the same number and weight are one.
    is_new = np.append(True, (np.diff(values) > 0) | (np.diff(weights) > 0))[: len(values)]
    values, weights = values[is_new], weights[is_new]
    return any(_goes_one_way(np.floor(values / (_NEXT * spread) + begin), values, weights) for begin in _FROM)


def _goes_one_way(group: FloatArray, values: FloatArray, weights: FloatArray) -> bool:
    """Whether weights go one way in most groups of ordered numbers, and would not by chance."""
    steps, is_within = np.sign(np.diff(weights)), np.diff(group) == 0
    turns = is_within[1:] & is_within[:-1] & (steps[1:] * steps[:-1] < 0)
    # Other weights turn in most groups, which need no closer look then.
    if len(np.unique(group[1:-1][turns])) > _TURNS * len(np.unique(group)):
        return False
    likelihood, turned, counted = 0.0, 0, 0
    begins = np.flatnonzero(np.diff(group)) + 1
    for some, numbers in zip(np.split(weights, begins), np.split(values, begins), strict=True):
        often = np.unique(some, return_counts=True)[1]
        if len(often) < 2:
            continue
        counted += 1
        steps = np.diff(some)
        # A function has one weight for each number.
        if np.all(np.diff(numbers) > 0) and (np.all(steps >= 0) or np.all(steps <= 0)):
            chance = math.log(2) + float(gammaln(often + 1).sum()) - math.lgamma(len(some) + 1)
            likelihood += min(0.0, chance + len(some) * math.log(_LIKELIER))
        else:
            turned += 1
    # Groups that turn may be any of those counted.
    ways = math.lgamma(counted + 1) - math.lgamma(turned + 1) - math.lgamma(counted - turned + 1)
    return turned <= _TURNS * counted and likelihood + ways < math.log(_FALSE_ALARM / len(_FROM))
