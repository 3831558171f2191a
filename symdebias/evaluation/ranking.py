"""The area under the ROC curve: how often a record of the larger label has the larger score.

It is a mean over pairs of records, whose noises are independent: the sign of a difference of two scores is undone for
the noise of both. In waves, sin(w (u - v)) is the imaginary part of a product of one wave of each score, and over atoms
of signed weight signs are counted along the sorted scores, so that no sum goes over all pairs.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.evaluation.error_law import ErrorLaw
from symdebias.evaluation.metric import Judged, Metric
from symdebias.evaluation.ratios import bent_by, error_bound, positive_mean, require_labels_apart, require_positive
from symdebias.evaluation.records import Records
from symdebias.evaluation.scores import TIED, ReleasedScores, Spread, quantiles
from symdebias.evaluation.signs import (
    Signs,
    SmoothSigns,
    ZonalSigns,
    least_squares,
    sign_surrogate,
    signs_of,
    usual_size,
)
from symdebias.evaluation.sums import Sums
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms.surrogate import Surrogate

# What the squared error counts beside the variance: pairs of scores lie smoothly, and most of the error averages out.
_SQUARED_ERROR = 1.0
# Likely scores of which all pairs are taken for the bound on the bias, and those that polynomials are fitted to.
_NODES, _PAIRED = 200, 48
# Scores that are sorted at most, which takes some 60 bytes each; cells that they are sorted into where not all records
# are at hand; and scores that are held at a time.
_MOST_ATOMS, _CELLS, _HELD = 20_000_000, 2**16, 2**20
# Scores of one cell that are equal but for rounding, as a share of their terms.
_SAME = 1e-11
LARGER = "the share of records that have the larger label"
SMALLER = "the share of records that have the smaller label"


@dataclass(frozen=True)
class Cells:
    """Scores in cells along the line, with two masses in each.

    Attributes
    ----------
    masses : array of shape (2, k), float64
        The masses.
    low, high : array of shape (k,), float64
        The least and the largest score in each cell; infinite where there is none.
    sizes : array of shape (k,), float64
        The largest size of the terms of a score in each cell.
    """

    masses: FloatArray
    low: FloatArray
    high: FloatArray
    sizes: FloatArray

    @classmethod
    def together(cls, *parts: "Cells") -> "Cells":
        """Return the same cells with the scores of all."""
        return cls(
            np.sum([part.masses for part in parts], axis=0),
            np.min([part.low for part in parts], axis=0),
            np.max([part.high for part in parts], axis=0),
            np.max([part.sizes for part in parts], axis=0),
        )


@dataclass(frozen=True)
class PairSigns:
    """Exactly unbiased estimates of the signs of differences of true scores.

    Attributes
    ----------
    signs : Signs
        Of the scores themselves.
    ends : mapping from bytes to array of shape (k - 1,), float64
        What parts the line into cells, by the bytes of theta: each has one score where all records are in memory, and
        otherwise so few that their order hardly counts.
    """

    signs: Signs
    ends: Mapping[bytes, FloatArray] = field(default_factory=dict)

    def on(self, part: Records) -> Self:
        """Return those of some other records."""
        return replace(self, signs=self.signs.on(part))

    def totals(self, theta: FloatArray, rows: Any, masses: FloatArray) -> Any:
        """Return what others are held against of some records with two masses each, shape (2, m)."""
        cells = len(self.ends[theta.tobytes()]) + 1
        low, high, largest = np.full(cells, np.inf), np.full(cells, -np.inf), np.zeros(cells)
        inside = np.zeros((2, cells))
        present = np.asarray(masses.any(axis=0))
        for own, places, weights, sizes, cell in self._atoms(theta, rows):
            seen, at = np.compress(present[own], places, axis=1), np.compress(present[own], cell, axis=1)
            np.minimum.at(low, at, seen)
            np.maximum.at(high, at, seen)
            np.maximum.at(largest, at, np.compress(present[own], sizes, axis=1))
            for place, mass in enumerate(masses):
                inside[place] += np.bincount(cell.ravel(), (weights * mass[own]).ravel(), cells)
        return Cells(inside, low, high, largest)

    def added(self, *parts: Any) -> Any:
        """Return the totals of several parts of the records together."""
        return Cells.together(*parts)

    def against(self, theta: FloatArray, rows: Any, totals: Any) -> FloatArray:
        """Return the sums over all records j of m_j sign(u_i - u_j), shape (2, m).

        A score less itself has the sign 0 in them, also by its estimate: no pair of a record with itself counts.

        Parameters
        ----------
        theta, rows
            The parameters, and the m records i.
        totals
            Those of all records j.
        """
        upto = np.cumsum(totals.masses, axis=1)
        signs = 2 * upto - totals.masses - upto[:, -1:]
        atoms = self._atoms(theta, rows)
        return np.concatenate([np.sum(weights * signs[:, cell], axis=1) for _, _, weights, _, cell in atoms], axis=1)

    def within(self, totals: Any) -> float:
        """Return the mass of pairs whose scores stand in one cell and have an order there."""
        with np.errstate(invalid="ignore"):
            mixed = totals.high - totals.low > _SAME * totals.sizes
        return float(np.abs(totals.masses[0] * totals.masses[1])[mixed].sum())

    def _atoms(
        self, theta: FloatArray, rows: Any
    ) -> Iterator[tuple[slice, FloatArray, FloatArray, FloatArray, IntegerArray]]:
        """Yield atoms of some records at a time: which records, then places, weights, sizes of terms, cells: (a, m)."""
        scores = self.signs.scores[theta.tobytes()].taken(rows)
        step = max(1, _HELD // scores.combinations)
        for start in range(0, len(scores.linear), step):
            own = slice(start, start + step)
            atoms = zip(*scores.taken(own).atoms(), strict=True)
            places, weights, sizes = (np.stack(columns) for columns in atoms)
            yield own, places, weights, sizes, np.searchsorted(self.ends[theta.tobytes()], places)

    def errors(self, theta: FloatArray, nodes: FloatArray) -> FloatArray:
        """Return what signs of u - v are off at pairs of scores, shape (k, k)."""
        return np.zeros((len(nodes), len(nodes)))


@dataclass(frozen=True)
class SmoothPairSigns(PairSigns):
    """The same with the slope of a surrogate of the size of a difference for its sign.

    Attributes
    ----------
    smooth : Surrogate
        What stands for the size.
    """

    smooth: Surrogate = field(kw_only=True)

    def totals(self, theta: FloatArray, rows: Any, masses: FloatArray) -> Any:
        """Return the sums of masses, of masses times scores, and of masses times waves."""
        scores = self.signs.scores[theta.tobytes()].taken(rows)
        waves = scores.sums_over_records(self.smooth.frequency, len(self.smooth.cosines), masses)
        return masses.sum(axis=1), masses @ scores.estimates, waves

    def added(self, *parts: Any) -> Any:
        """Return the totals of several parts of the records together."""
        return tuple(sum(one[1:], one[0]) for one in zip(*parts, strict=True))

    def against(self, theta: FloatArray, rows: Any, totals: Any) -> FloatArray:
        """Return the same sums of slopes."""
        scores, (_, _, square) = self.signs.scores[theta.tobytes()].taken(rows), self.smooth.polynomial
        whole, middle, sums = totals
        w = self.smooth.frequency * np.arange(1, len(self.smooth.cosines) + 1)
        # sin(k h (u_i - u_j)) = Im(e_i conj(e_j)), summed over j; -Im(z) is the real part of i z.
        coefficients = np.zeros((len(whole), len(w) + 1), dtype=complex)
        coefficients[:, 1:] = 1j * w * np.array(self.smooth.cosines) * np.conj(sums)
        found = scores.sums_of_waves(self.smooth.frequency, coefficients, 0.0).T
        found += 2 * square * (np.multiply.outer(whole, scores.estimates) - middle[:, None])
        return found

    def errors(self, theta: FloatArray, nodes: FloatArray) -> FloatArray:
        """Return slopes less signs."""
        apart = _apart(nodes)
        return np.asarray(self.smooth.slope(apart) - np.sign(apart))


@dataclass(frozen=True)
class ZonalPairSigns(PairSigns):
    """The same under noise on a sphere: sum_km c_km P_k(s) P_m(t) for sign(s - t), with c_mk = -c_km."""

    signs: ZonalSigns
    _found: dict[bytes, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def totals(self, theta: FloatArray, rows: Any, masses: FloatArray) -> Any:
        """Return the sums of masses times polynomials."""
        scores = self.signs.scores[theta.tobytes()].taken(rows)
        if scores.zonal is None:
            return super().totals(theta, rows, masses)
        return masses @ self.signs.legendre(theta, scores.estimates, released=True)

    def added(self, *parts: Any) -> Any:
        """Return the totals of several parts of the records together."""
        return super().added(*parts) if isinstance(parts[0], Cells) else sum(parts[1:], parts[0])

    def against(self, theta: FloatArray, rows: Any, totals: Any) -> FloatArray:
        """Return the same sums of polynomials."""
        scores = self.signs.scores[theta.tobytes()].taken(rows)
        if scores.zonal is None:
            return super().against(theta, rows, totals)
        released = self.signs.legendre(theta, scores.estimates, released=True)
        return np.asarray(totals @ self.coefficients(theta).T @ released.T)

    def errors(self, theta: FloatArray, nodes: FloatArray) -> FloatArray:
        """Return polynomials less signs."""
        if self.signs.scores[theta.tobytes()].zonal is None:
            return super().errors(theta, nodes)
        values = self.signs.legendre(theta, nodes)
        return np.asarray(values @ self.coefficients(theta) @ values.T - np.sign(_apart(nodes)))

    def coefficients(self, theta: FloatArray) -> FloatArray:
        """Return c, of least mean squared error over pairs of likely scores, the variance as ridge."""
        if theta.tobytes() not in self._found:
            nodes = self.signs.likely_scores(theta, _PAIRED)
            at, chances = self.signs.released_rule(theta, _PAIRED)
            first, second = np.triu_indices(_PAIRED, 1)
            values, released = self.signs.legendre(theta, nodes), self.signs.legendre(theta, at, released=True)
            k, m = np.triu_indices(values.shape[1], 1)

            def between(polynomials: FloatArray) -> FloatArray:
                one, other = polynomials[first], polynomials[second]
                return np.asarray(one[:, k] * other[:, m] - one[:, m] * other[:, k])

            records = max(1.0, _SQUARED_ERROR * self.signs.records.effective)
            price = np.sqrt(chances[first] * chances[second] / records)
            scale = 1 / _PAIRED
            upper = least_squares(
                between(values) * scale,
                between(released) * price[:, None],
                np.sign(nodes[first] - nodes[second]) * scale,
            )
            found = np.zeros((values.shape[1], values.shape[1]))
            found[k, m], found[m, k] = upper, -upper
            self._found[theta.tobytes()] = found
        return self._found[theta.tobytes()]


@dataclass(frozen=True)
class AreaUnderCurve(Metric):
    """P(u > v) + P(u = v)/2 for the scores u of a record with the larger label and v of one with the smaller.

    Attributes
    ----------
    positives : array of shape (n,), float64
        Unbiased estimates of 1 for the larger label and 0 for the other.
    pairs : PairSigns
        Of differences of scores.
    label_model : {"any", "logistic"}
        What the bound on the bias assumes of labels.
    every : Pairs, optional
        What the pairs among all records are told by.
    """

    positives: FloatArray
    pairs: PairSigns
    label_model: str
    every: "Pairs | None" = None
    _found: dict[bytes, "Pairs"] = field(default_factory=dict, repr=False, compare=False)
    higher_is_better: ClassVar[bool] = True

    def on(self, part: Records) -> Self:
        """Return the metric of some other records."""
        positives = part.positives()
        return replace(self, records=part, positives=positives, pairs=self.pairs.on(part))

    def values(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return the pseudo-values of some records, of all pairs among them."""
        weights, positives = self.records.weights[rows], self.positives[rows]
        share = weights / weights.sum()
        require_positive(positives, share, LARGER)
        require_positive(1 - positives, share, SMALLER)
        wins, count = replace(self, every=self.among(theta, rows)).columns(theta, rows).T
        ratio = float(share @ wins)
        return np.asarray(0.5 + ratio / 2 + wins - ratio * count)

    def carriers(self, theta: FloatArray, rows: Any) -> float:
        """Return how many of some records the area of these is a share of: of those with the label that fewer have."""
        positives = self.positives[rows]
        return min(self._carried(labels, rows) for labels in (positives, 1 - positives))

    def columns(self, theta: FloatArray, rows: Any) -> FloatArray:
        """Return by how much each record wins more pairs than it loses, and how many it is in, relative to all.

        They are derivatives of sum_ij s_i s_j a_i b_j sign(u_i - u_j), and of sum_(i != j) s_i s_j a_i b_j, in s_i.
        """
        whole = self.every
        assert whole is not None
        positives, weights = self.positives[rows], self.records.weights[rows]
        negatives = 1 - positives
        against_positives, against_negatives = self.pairs.against(theta, rows, whole.totals)
        wins = positives * against_negatives - negatives * against_positives
        count = positives * whole.opposite + negatives * whole.mass - 2 * weights * positives * negatives
        return np.stack([wins, count], axis=1) * (whole.weight / (2 * whole.count))

    def among(self, theta: FloatArray, rows: Any) -> "Pairs":
        """Return what the pairs among some records are told by."""
        weights, positives = self.records.weights[rows], self.positives[rows]
        masses = weights * np.stack([positives, 1 - positives])
        mass, opposite = masses.sum(axis=1).tolist()
        totals = self.pairs.totals(theta, rows, masses)
        return Pairs(float(weights.sum()), mass, opposite, float(masses[0] @ masses[1]), totals)

    def among_all(self, theta: FloatArray) -> "Pairs":
        """Return what the pairs among all records are told by, from a pass over them."""
        if theta.tobytes() not in self._found:
            light = self.light
            look = functools.partial(_among, judge=light, theta=theta)
            self._found[theta.tobytes()] = self.records.reduced(look, functools.partial(_together, pairs=light.pairs))
        return self._found[theta.tobytes()]

    def judged(self, theta: FloatArray) -> Judged:
        """Return the area of all records and its standard error."""
        labels = Sums.together(self.records.over_parts(functools.partial(_labels, judge=self.light)))
        for place, what in enumerate((LARGER, SMALLER)):
            positive_mean(labels, place, what)
        sums = replace(self, every=self.among_all(theta)).sums(theta)
        ratio = sums.mean(sums.only(0))
        of = sums.only(0) - ratio * sums.only(1)
        # The number of pairs is of second order in the weights, and goes by twice what each record has of it.
        bending = bent_by(sums, of, 2 * sums.only(1)) if labels.low.min() < 0 else (0.0, 0.0)
        return Judged(0.5 + ratio / 2, sums.error(of), sums, of, min(map(labels.carriers, (0, 1))), bending)

    def with_other_labels(self, thetas: Sequence[FloatArray], value: float) -> float:
        """Return what labels may change that so few records have as to be in none: by others, scores win as they lose.

        An estimate beyond 0 or 1 is that of a model which wins or loses all pairs.
        """
        unseen, possible = self.unseen_share, min(max(value, 0.0), 1.0)
        known = float(np.clip(self.records.share @ self.positives, unseen, 1 - unseen))
        odds = known / (1 - known)
        return possible - value - unseen * (odds + 1 / odds) * (possible - 0.5)

    def error_law(self, theta: FloatArray, found: Judged) -> ErrorLaw:
        """Return the law of the area in its standard errors."""
        if self.every is None:
            return replace(self, every=self.among_all(theta)).error_law(theta, found)
        return super().error_law(theta, found)

    def bias(self, theta: FloatArray, sums: Sums | None = None) -> tuple[float, bool]:
        """Return a bound on the mean error of signs over pairs of likely scores, by the labels that are possible."""
        signs, whole = self.pairs.signs, self.among_all(theta)
        if signs.method == "exact":
            # Pairs in one cell count half.
            within = self.pairs.within(whole.totals) / (2 * whole.count)
            return within, within == 0
        # The closer scores lie together, the less are signs of their differences resolved.
        nodes = signs.likely_scores(theta, _NODES, narrow=True)
        errors = self.pairs.errors(theta, nodes)
        narrow = signs.cases(theta, self.label_model)[-1]
        (labels,) = narrow.labels
        if labels is not None:
            means = (1 + np.interp(nodes, narrow.scores, labels)) / 2
            mass = float(np.mean(means))
            return abs(float(means @ errors @ (1 - means))) / len(nodes) ** 2 / (2 * mass * (1 - mass)), False
        # A pair of a positive and a negative is one of 2 p (1 - p) of all pairs.
        mass = float(np.clip(whole.mass / whole.weight, 0.0, 1.0))
        mixed = 2 * mass * (1 - mass)
        if mixed == 0:
            return 1.0, False
        return min(1.0, error_bound(np.abs(errors).ravel() / 2, mixed, mixed)), False


@dataclass(frozen=True)
class Pairs:
    """What pairs of records are told by: sums over records of weight w, with unbiased a of the larger label, b = 1 - a.

    Attributes
    ----------
    weight, mass, opposite, same : float
        The sums of w, w a, w b, and w^2 a b.
    totals
        What a record is held against.
    """

    weight: float
    mass: float
    opposite: float
    same: float
    totals: Any

    @property
    def count(self) -> float:
        """The weight of all pairs of two records with different labels."""
        return self.mass * self.opposite - self.same


def _apart(nodes: FloatArray) -> FloatArray:
    """Return the differences of scores, shape (k, k): none of those that only rounding parts."""
    apart = nodes[:, None] - nodes
    return np.where(np.abs(apart) > _SAME * np.abs(nodes).max(), apart, 0.0)


def _among(part: Records, *, judge: AreaUnderCurve, theta: FloatArray) -> Pairs:
    own = judge if part is judge.records else judge.on(part)
    pieces = part.over_pieces(functools.partial(own.among, theta))
    found: Pairs = functools.reduce(functools.partial(_together, pairs=own.pairs), pieces)
    return found


def _together(*parts: Pairs, pairs: PairSigns) -> Pairs:
    return Pairs(
        sum(part.weight for part in parts),
        sum(part.mass for part in parts),
        sum(part.opposite for part in parts),
        sum(part.same for part in parts),
        pairs.added(*(part.totals for part in parts)),
    )


def _labels(part: Records, *, judge: AreaUnderCurve) -> Sums:
    positives = judge.positives if part is judge.records else part.positives()

    def summed(rows: slice) -> Sums:
        return Sums.of(np.stack([positives[rows], 1 - positives[rows]], axis=1), *part.counted_by(rows))

    return Sums.together(part.over_pieces(summed))


def area_under_curve(
    records: Records, thetas: Sequence[FloatArray], *, radius: float | None, label_model: str
) -> AreaUnderCurve:
    """Return the area under the ROC curve, corrected for all thetas; other arguments as for `evaluate`."""
    name = "roc_auc"
    require_labels_apart(name, records)
    signs = signs_of(name, records, thetas, radius=radius)
    pairs = pair_signs(signs, radius=radius)
    positives = records.positives()
    return AreaUnderCurve(name, signs.method, records, positives, pairs, label_model)


def pair_signs(signs: Signs, *, radius: float | None) -> PairSigns:
    """Return the signs of differences of scores."""
    if not isinstance(signs, SmoothSigns):
        told = {theta: scores for theta, scores in signs.scores.items() if scores.zonal is None}
        ends = {theta: _ends(scores, signs.records) for theta, scores in told.items()}
        if not isinstance(signs, ZonalSigns):
            return PairSigns(signs, ends)
        found = ZonalPairSigns(signs, ends)
        for theta in signs.scores.keys() - told.keys():
            # Parts of the records take what all of them tell.
            found.coefficients(np.frombuffer(theta))
        return found
    between = [_of_differences(spread) for spread in signs.spreads.values()]
    some = [scores.taken(signs.records.some).estimates for scores in signs.scores.values()]
    weights = signs.records.weights[signs.records.some]
    smooth = sign_surrogate(
        max(spread.radius for spread in between) if radius is None else 2 * radius,
        max(spread.noise for spread in between),
        _SQUARED_ERROR * signs.records.effective,
        math.sqrt(2) * usual_size([scores - quantiles(scores, weights, 0.5) for scores in some], weights),
    )
    return SmoothPairSigns(signs, smooth=smooth)


def _ends(scores: ReleasedScores, records: Records) -> FloatArray:
    """Return what parts the line into cells with one score each, or into few where not all records are at hand."""
    count, in_memory = len(scores.linear) * scores.combinations, records.light is records
    if count > _MOST_ATOMS:
        if in_memory:
            raise NoExactCorrectionError(
                f"the area under the ROC curve sorts {scores.combinations} scores for each record under this noise, "
                f"{count:,} in all; at most {_MOST_ATOMS:,} are sorted. Evaluate on fewer records, or on records that "
                "are read by blocks, whose scores are sorted into cells."
            )
        scores = scores.taken(slice(None, None, -(-count // _MOST_ATOMS)))
    at, sizes = (np.concatenate(one) for one in zip(*((at, size) for at, _, size in scores.atoms()), strict=True))
    order = np.argsort(at)
    at, sizes = at[order], sizes[order]
    # Scores that are equal in exact arithmetic are not to be told apart by rounding.
    apart = np.diff(at) > TIED * np.maximum(sizes[1:], sizes[:-1])
    ends: FloatArray = (at[:-1][apart] + at[1:][apart]) / 2
    return ends if in_memory else ends[:: max(1, -(-len(ends) // _CELLS))]


def _of_differences(spread: Spread) -> Spread:
    """Return the spread of differences of two true scores."""
    width = spread.highest - spread.lowest
    return Spread(
        0.0, 2 * spread.variance, 2 * spread.noise, 2 * spread.bound, -width, width,
        2 * spread.debiased, 2 * spread.hidden,
    )  # fmt: skip
