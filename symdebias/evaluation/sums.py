"""Numbers per record as sums over parts of the records: what means and their standard errors are made of.

Sums are centred in each part, so that nothing is lost to rounding where parts are put together.
"""

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._tails import LongTails, farthest
from symdebias.evaluation.error_law import ErrorLaw
from symdebias.evaluation.records import pull_of, without_each
from symdebias.inference import MANY_DECIDE

# Parts whose clusters are put together at a time.
_TOGETHER = 64
# Squares below this share of what all records could have are those of rounding.
_ROUNDING = 4 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Powers:
    """Of weighted deviations from means of r combinations: sums of powers, and the farthest on both sides.

    Attributes
    ----------
    thirds, fourths : array of shape (r,), float64
        Sums of third and of fourth powers.
    far : array of shape (2, m, r), float64
        As `farthest` returns them.
    """

    thirds: FloatArray
    fourths: FloatArray
    far: FloatArray

    @classmethod
    def of(cls, values: FloatArray, weights: FloatArray, *, of: FloatArray, mean: FloatArray, most: int) -> "Powers":
        """Return those of some records: of combinations (k, r) of values (n, k), and so many on each side."""
        away = weights[:, None] * (values @ of - mean)
        squares = away**2
        thirds, fourths = (np.einsum("ij,ij->j", squares, other) for other in (away, squares))
        return cls(thirds, fourths, farthest(away[weights > 0], most))

    @classmethod
    def together(cls, parts: Iterable["Powers"], most: int) -> "Powers":
        """Return those of all records of some parts, one at least."""
        found, *others = parts
        for part in others:
            far = -np.sort(-np.concatenate([found.far, part.far], axis=1), axis=1)[:, :most]
            found = cls(found.thirds + part.thirds, found.fourths + part.fourths, far)
        return found


@dataclass(frozen=True)
class Sums:
    """Numbers per record, several for each: their weighted means, and sums about these.

    Attributes
    ----------
    records : int
        How many records with weight.
    weight, square : float
        The sums of their weights w, and of w^2.
    means : array of shape (k,), float64
        The weighted means m.
    first : array of shape (k,), float64
        The sums of w^2 (v - m).
    second : array of shape (k, k), float64
        The sums of w^2 (v - m)(v - m)'.
    low, high : array of shape (k,), float64
        The smallest and the largest numbers of records with weight.
    heaviest : float
        The largest weight.
    clusters : tuple of arrays of shapes (G,), (G,) and (G, k), or None
        The clusters, and the sums of w and of w v of each.
    """

    records: int
    weight: float
    square: float
    means: FloatArray
    first: FloatArray
    second: FloatArray
    low: FloatArray
    high: FloatArray
    heaviest: float
    clusters: tuple[Any, FloatArray, FloatArray] | None = None

    @classmethod
    def of(cls, values: FloatArray, weights: FloatArray, clusters: Any = None) -> "Sums":
        """Return those of values of shape (n, k), with the cluster of each record where there are any."""
        total = float(weights.sum())
        own = values if weights.all() else values[weights > 0]
        # A part whose records have no weight has no mean.
        means = weights @ values / total if total > 0 else np.zeros(values.shape[1])
        centred, squares = values - means, weights**2
        by_cluster = None
        if clusters is not None:
            by_cluster = _grouped(clusters, weights, values * weights[:, None])
        return cls(
            len(own), total, float(squares.sum()), means, squares @ centred,
            (centred * squares[:, None]).T @ centred, own.min(axis=0, initial=math.inf),
            own.max(axis=0, initial=-math.inf), float(weights.max()), by_cluster,
        )  # fmt: skip

    @classmethod
    def together(cls, parts: Iterable["Sums"]) -> "Sums":
        """Return those of all records of some parts, one at least."""
        whole: Sums | None = None
        waiting: list[Sums] = []
        for part in parts:
            waiting.append(part)
            if len(waiting) == _TOGETHER:
                whole, waiting = cls._added(waiting if whole is None else [whole, *waiting]), []
        found = [*([] if whole is None else [whole]), *waiting]
        return found[0] if len(found) == 1 else cls._added(found)

    @classmethod
    def _added(cls, parts: list["Sums"]) -> "Sums":
        weight = sum(part.weight for part in parts)
        means = sum((part.weight * part.means for part in parts), np.zeros(()))
        means = means / weight if weight > 0 else np.asarray(means)
        first, second = np.zeros(()), np.zeros(())
        for part in parts:
            move = part.means - means
            crossed = np.multiply.outer(part.first, move)
            first = first + part.first + part.square * move
            second = second + part.second + crossed + crossed.T + part.square * np.multiply.outer(move, move)
        grouped = [part.clusters for part in parts if part.clusters is not None]
        return cls(
            sum(part.records for part in parts), weight, sum(part.square for part in parts), means, first, second,
            np.min([part.low for part in parts], axis=0), np.max([part.high for part in parts], axis=0),
            max(part.heaviest for part in parts),
            _grouped(*(np.concatenate(one) for one in zip(*grouped, strict=True))) if grouped else None,
        )  # fmt: skip

    @property
    def count_of_clusters(self) -> int | None:
        """The number of clusters with weight; None where there are none."""
        return None if self.clusters is None else int(np.count_nonzero(self.clusters[1]))

    @property
    def independent(self) -> float:
        """How many records count, (sum w)^2/(sum w^2); of clusters no more than there are."""
        effective = self.weight**2 / self.square
        return effective if self.clusters is None else min(effective, float(self.count_of_clusters or 0))

    def mean(self, of: FloatArray) -> float:
        """Return the mean of a combination of the numbers."""
        return float(of @ self.means)

    def error(self, of: FloatArray) -> float:
        """Return its standard error over records, or over clusters: with clusters left out one by one.

        Raises
        ------
        InferenceError
            Only one cluster has weight.
        """
        if self.clusters is not None:
            moves = self._without_each(of)
            return math.sqrt((len(moves) - 1) / len(moves) * float(moves @ moves))
        error = math.sqrt(self.records / (self.records - 1) * self.squared_error(of))
        return error * pull_of(self.heaviest / self.weight)

    def _without_each(self, of: FloatArray) -> FloatArray:
        """Return what leaving out each cluster with weight does to the mean of a combination."""
        assert self.clusters is not None
        _, weights, sums = self.clusters
        return without_each((sums @ of - weights * self.mean(of)) / self.weight, weights / self.weight)

    def squared_error(self, of: FloatArray) -> float:
        """Return the weighted sum of squares about the mean of the combination, over the squared sum of weights."""
        return max(float(of @ self.second @ of), 0.0) / self.weight**2

    def carriers(self, place: int) -> float:
        """Return how many records or clusters a mean of numbers that are none below 0 rests on, (sum v)^2/sum v^2.

        Numbers below 0 are so by their noise, which all records have: it is infinite then.
        """
        if self.low[place] < 0:
            return math.inf
        mean, squares = float(self.means[place]), float(self.second[place, place])
        squares += 2 * mean * float(self.first[place]) + mean**2 * self.square
        if self.clusters is not None:
            squares = float(np.sum(self.clusters[2][:, place] ** 2))
        return (mean * self.weight) ** 2 / squares if squares > 0 else 0.0

    def largest_square(self, of: FloatArray) -> float:
        """Return what the part of one record in `squared_error` is at most."""
        away = np.maximum(self.high - self.means, self.means - self.low)
        return float(self.heaviest / self.weight * (np.abs(of) @ away)) ** 2

    def is_rounding(self, of: FloatArray) -> bool:
        """Whether a combination is the same for all records, but for rounding."""
        return self.squared_error(of) <= _ROUNDING * self.records * self.largest_square(of)

    def error_law(self, of: FloatArray, powers: Callable[[], Powers], place: int = 0) -> ErrorLaw:
        """Return the law of the mean of a combination in its standard errors, as few records or clusters make it.

        Parameters
        ----------
        of : array of shape (k,), float64
            The combination.
        powers : callable
            Returns the powers of all records, where it takes these to tell.
        place : int
            Which of the combinations there it is.

        Raises
        ------
        InferenceError
            Only one cluster has weight.
        """
        if self.clusters is not None:
            return ErrorLaw.by_clusters(self._without_each(of))
        # No fewer decide it than so many as large as the largest could be; and what cancels to rounding nobody decides.
        squares = self.squared_error(of)
        if squares >= MANY_DECIDE * self.largest_square(of) or self.is_rounding(of):
            return ErrorLaw()
        found, weight = powers(), self.weight
        fourths, (above, below) = float(found.fourths[place]) / weight**4, found.far[:, :, place] / weight
        tails = functools.partial(LongTails, self.records, squares, fourths, above, below)
        return ErrorLaw.by_records(squares, float(found.thirds[place]) / weight**3, fourths, tails)

    def only(self, place: int) -> FloatArray:
        """Return the combination that is one of the numbers."""
        found = np.zeros(len(self.means))
        found[place] = 1.0
        return found


def _grouped(clusters: Any, weights: FloatArray, sums: FloatArray) -> tuple[Any, FloatArray, FloatArray]:
    """Return clusters, each once, and the sums of what belongs to each."""
    found, codes = np.unique(clusters, return_inverse=True)
    codes = codes.reshape(-1)
    columns = [np.bincount(codes, column, len(found)).astype(np.float64) for column in (weights, *sums.T)]
    return found, columns[0], np.stack(columns[1:], axis=1)
