"""The bias of any corrected loss by its kernels: means over the noise of every column, at points over the domain.

The compiled kernels themselves stand on one side, and the declared loss on the other.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray, IntegerArray
from symdebias.assessment.score_bias import Biases, default_targets
from symdebias.correction import Correction
from symdebias.declared import DeclaredLoss
from symdebias.derivation import is_affine
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.losses.meaning import is_residual_loss
from symdebias.mechanisms.base import ChannelMechanism
from symdebias.mechanisms.clipping import in_ball
from symdebias.noise import AdditiveNoise, ChannelNoise, CoordinateNoise, SphericalNoise
from symdebias.release import Release
from symdebias.release.design import SphericalGroup
from symdebias.transforms import quadrature, sums
from symdebias.transforms.quadrature import Rule
from symdebias.zonal import ZonalNoise

_POINTS = 24
# What rules and sums in float64 leave of an exact correction, relative to the values that they add up.
ROUNDING = 1e-9
# Columns with additive noise that are integrated over at once; the other columns have parameter 0 at that point. All
# that add to one score together count as one.
_MOST_DIMENSIONS = 3
_MOST_FEATURES = 5
_MOST_NODES = 400_000
# Where a bias is not that of rounding its largest value is searched for: from so many points at the edge of the domain,
# by rules of so many nodes. From the best of them it goes uphill in heats: so many go on, for so many steps. Few steps
# from many points tell hills apart that are as high where they begin.
_STARTS = 192
# A search by few nodes finds where these are off, not the bias, if that is small: where the finest rule has another
# size than they by more than a share of the largest, the search is made again by more.
_SEARCH_NODES, _SAME = (4_000, 32_000), 0.05
_HEATS = ((32, 15), (12, 50), (5, 150))
# Nodes per column with additive noise, from the finest rule on: the first whose product is not too large is taken.
NODES = (64, 48, 40, 32, 28, 24, 20, 18, 16, 14, 12, 10)
# Released records that one true record is integrated over, of all its columns at once.
MOST_AT_ONCE = 300_000


@dataclass(frozen=True)
class SeenRecord:
    """One true record seen through the noise: released records with their probabilities."""

    X: FloatArray  # Of shape (m, p): released columns, codes of categories.
    y: FloatArray  # Of shape (m,): released targets (codes of a channel's outputs).
    weights: FloatArray  # Of shape (m,): their weights, which sum to 1.


def released_records(
    release: Release,
    record: FloatArray,
    target: float,
    *,
    nodes: int,
    active: BooleanArray | None = None,
    scales: FloatArray | None = None,
    noise_on: tuple[bool, bool] = (True, True),
    far: bool = False,
    along: FloatArray | None = None,
) -> SeenRecord:
    """Return what a true record may look like once released.

    Columns hold codes for categories, and the target its value, or its code for a channel. `nodes` is the number for
    each column with additive noise; `active`, shape (p,), the columns to integrate over, where the others keep their
    true value; `scales`, shape (p,), standard deviations of this record's own for columns with normal noise; `noise_on`
    whether the features and whether the target are noised; `far` whether sums over a grid go as far out as high powers
    need. `along`, shape (p + 1,), are the coefficients of the columns and of the target in a sum on which what is
    integrated depends, being linear in the columns besides: normal and Laplace noise of columns, and of the target
    where its coefficient is not 0, is then integrated over together (see `symdebias.transforms.sums`).
    """
    count = len(record)
    parts: list[Rule] = []
    places: list[tuple[Any, bool]] = []
    if along is not None:
        added, summed = _together(release, along, active, nodes)
        parts.append(added)
        places.append((summed, False))
    for place, noise in release.noises(count) if noise_on[0] else ():
        if along is not None and sums.is_summable(noise):
            continue
        if isinstance(noise, ChannelNoise):
            parts.append(quadrature.channel_rule(noise, int(record[place.start])))
            places.append((place, True))
            continue
        columns = range(place.start, place.stop)
        if isinstance(noise, (SphericalNoise, ZonalNoise)):
            factors = group_at(release, count, place.start).factors
            vector = np.append(record[place], target)[: len(factors)] / factors
            rows = [index for index, column in enumerate(columns) if active is None or active[column]]
            if len(factors) > len(columns) and noise_on[1]:
                rows.append(len(columns))
            if rows:
                parts.append(quadrature.added(noise, vector, np.diag(factors)[rows], nodes))
                places.append((np.array([*columns, count])[rows], False))
            continue
        if noise.covariance is not None and scales is None:
            parts.append(quadrature.rule(noise, place.stop - place.start, nodes))
            places.append((place, False))
            continue
        for column in columns:
            if active is not None and not active[column]:
                continue
            one = quadrature.rule(single(noise), 1, nodes, far=far)
            if scales is not None and noise.is_gaussian:
                one = Rule(one.points * (scales[column] / math.sqrt(noise.variance)), one.weights)
            parts.append(one)
            places.append((slice(column, column + 1), False))
    target_noise = release.target_noise if noise_on[1] else None
    if isinstance(target_noise, ChannelNoise):
        parts.append(quadrature.channel_rule(target_noise, int(target)))
        places.append((slice(count, count + 1), True))
    elif isinstance(target_noise, AdditiveNoise) and not (along is not None and along[-1] != 0):
        parts.append(quadrature.rule(target_noise, 1, nodes, far=far))
        places.append((slice(count, count + 1), False))
    whole = quadrature.product(parts)
    # The target stands beside the columns.
    seen = np.tile(np.append(record, target), (len(whole.weights), 1))
    position = 0
    for place, replaced in places:
        width = place.stop - place.start if isinstance(place, slice) else len(place)
        values = whole.points[:, position : position + width]
        seen[:, place] = values if replaced else seen[:, place] + values
        position += width
    return SeenRecord(np.ascontiguousarray(seen[:, :-1]), seen[:, -1].copy(), whole.weights)


def _together(
    release: Release, along: FloatArray, active: BooleanArray | None, nodes: int
) -> tuple[Rule, IntegerArray]:
    """Return the rule of the noise that is summed, and the columns that it is of; the target is one after the last."""
    count = len(along) - 1
    rows: list[int] = []
    scales, covariance = np.zeros(count + 1), np.zeros((count + 1, count + 1))
    summed = [(place, noise) for place, noise in release.noises(count) if sums.is_summable(noise)]
    if along[-1] != 0:
        summed.append((slice(count, count + 1), release.target_noise))  # type: ignore[arg-type]
    for place, noise in summed:
        assert isinstance(noise, AdditiveNoise)
        rows += [row for row in range(place.start, place.stop) if row == count or active is None or active[row]]
        scales[place] = sums.laplace_scale(noise)
        if noise.is_gaussian:
            block = np.eye(place.stop - place.start) * noise.variance
            covariance[place, place] = block if noise.covariance is None else np.array(noise.covariance)
    kept = np.array(rows, dtype=int)
    return sums.of_sum(along[kept], covariance[np.ix_(kept, kept)], scales[kept], nodes), kept


def nodes_for(release: Release, columns: int, *, with_target: bool = True) -> int | None:
    """Return the nodes of the finest rule over the noise of all columns that is not too large; None where all are.

    `columns` is their number, and `with_target` whether the noise of the target is integrated over as well.
    """
    return next((nodes for nodes in NODES if _whole_size(release, columns, nodes, with_target) <= MOST_AT_ONCE), None)


def _whole_size(release: Release, columns: int, nodes: int, with_target: bool) -> int:
    size = 1
    for place, noise in release.noises(columns):
        if isinstance(noise, ChannelNoise):
            size *= len(noise.outputs)
        else:
            one = noise if isinstance(noise, ZonalNoise) else single(noise)
            width = place.stop - place.start + (with_target and shares_target(release, noise))
            size *= quadrature.size(one, width, nodes)
    target = release.target_noise if with_target else None
    if isinstance(target, ChannelNoise):
        size *= len(target.outputs)
    elif isinstance(target, AdditiveNoise):
        size *= len(quadrature.one_dimensional(target, nodes)[1])
    return size


def group_at(release: Release, columns: int, start: int) -> SphericalGroup:
    """Return the group with spherical noise whose first column is at a place among so many."""
    design = release.design(columns)
    return next(group for group in design.spherical if design.linear[group.columns[0]].column == start)


def single(noise: AdditiveNoise | SphericalNoise) -> AdditiveNoise | SphericalNoise:
    """Return the noise of one column of several."""
    if isinstance(noise, SphericalNoise) or noise.covariance is None:
        return noise
    return AdditiveNoise(noise.variance, noise.characteristic_function)


def encoded(correction: Correction, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return released columns and targets as kernels take them, the targets from codes of a channel's outputs."""
    return correction.encode(X, correction.targets_of_codes(y))


def true_codes(declared: Loss, release: Release) -> tuple[float, ...]:
    """Return the targets to try, as codes where a channel noises them."""
    noise = release.target_noise
    if isinstance(noise, ChannelNoise):
        return tuple(float(code) for code in range(len(noise.inputs)))
    return default_targets(declared.target_values, release.target_radius)


@dataclass(frozen=True)
class _Point:
    """A point of the domain."""

    record: FloatArray  # Of shape (p,).
    theta: FloatArray  # Of shape (Q,).
    active: BooleanArray  # Of shape (p,): whether a column's noise is integrated over.
    targets: FloatArray  # The targets that are tried there, or their codes.


@dataclass(frozen=True)
class _Seen:
    """Means of a corrected loss and its gradient at a point by two rules, a row for each target."""

    coarse: FloatArray
    fine: FloatArray
    seen: SeenRecord  # What the fine rule takes them over.

    @property
    def moved(self) -> float:
        """By how much the rules differ at most; infinity where it is no number."""
        moved = float(np.abs(self.fine - self.coarse).max())
        return moved if math.isfinite(moved) else math.inf


@dataclass(frozen=True)
class _Summing:
    """How the noise of columns, and of a target in a residual, adds to the one score of a loss."""

    places: tuple[tuple[int, int], ...]  # Of each such column, with that of its parameter.
    columns: int
    target: float  # The coefficient of the target's noise: -1 in a residual, and 0 where it stands apart.
    with_target: bool  # Whether the mean depends on the target's noise; not where the loss is affine in the target.

    @classmethod
    def of(cls, correction: Correction) -> "_Summing":
        """Return it for a loss of one score."""
        release, count = correction.release, correction.columns
        places = tuple(
            (part.column, part.parameter) for part in release.design(count).linear if sums.is_summable(part.noise)
        )
        own = None if release.clips_target else release.target_noise
        joins = sums.is_summable(own) and is_residual_loss(correction.loss)
        alone = isinstance(own, AdditiveNoise) and has_affine_target(correction)
        return cls(places, count, -1.0 if joins else 0.0, not alone)

    def size(self, nodes: int) -> int:
        """Return how many points the rule of what is summed has at most."""
        return sums.size_of_sum(nodes) if self.places or self.target else 1

    @property
    def marks(self) -> BooleanArray:
        """Which columns it takes, shape (p,)."""
        marks = np.zeros(self.columns, dtype=bool)
        marks[[column for column, _ in self.places]] = True
        return marks

    def along(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients of the columns and of the target in the sum."""
        found = np.zeros(self.columns + 1)
        for column, parameter in self.places:
            found[column] = theta[parameter]
        found[-1] = self.target
        return found


@dataclass
class _Climb:
    """A point on its way uphill."""

    point: _Point
    size: float  # Of the bias there.
    reach: float = 0.3  # How far the next step goes, beside the size of the domain.

    def take(self, moved: _Point, size: float) -> None:
        """Take a step that leads uphill, and the next ones longer; or the next ones shorter."""
        if size > self.size:
            self.point, self.size, self.reach = moved, size, 1.5 * self.reach
        else:
            self.reach *= 0.8


@dataclass(frozen=True)
class _Edge:
    """Points at the edge of the domain, and uphill from them."""

    rng: np.random.Generator
    correction: Correction
    record_radius: float
    theta_radius: float
    targets: tuple[float, ...]
    has_channel: bool  # Whether a channel noises the target, so that all of them are tried together.
    summing: _Summing | None  # The noise that is integrated over together.

    def largest(self, size_of: Callable[[_Point], tuple[float, float]]) -> Iterator[_Point]:
        """Yield points where the bias of the loss, or of the gradient, is about the largest.

        `size_of` returns both at a point.
        """
        points = [self._start(number) for number in range(_STARTS)]
        sizes = np.array([size_of(point) for point in points])
        for which in (0, 1):
            climbs = [_Climb(point, size) for point, size in zip(points, sizes[:, which], strict=True)]
            for count, steps in _HEATS:
                climbs = sorted(climbs, key=lambda climb: -climb.size)[:count]
                for climb in climbs:
                    for _ in range(steps):
                        moved = self._moved(climb.point, climb.reach)
                        climb.take(moved, size_of(moved)[which])
            yield from (climb.point for climb in climbs)

    def _start(self, number: int) -> _Point:
        release, columns, rng = self.correction.release, self.correction.columns, self.rng
        scored = bool(self.correction.loss.scores)
        noisiest = number % 2 == 0
        active = _active(rng, release, columns, every=not scored, noisiest=noisiest, summing=self.summing)
        theta, record = rng.normal(size=self.correction.number_of_parameters), rng.normal(size=columns)
        if scored:
            if number % 3 == 0:
                # Noise with heavy tails has more of them in one column than in a sum.
                active = self._only_one_of(active)
            _silence(theta, active, self.correction.loss, release, columns)
            # A score of every size, by a record as long as may be.
            share, rows = rng.uniform(-1, 1), theta.reshape(len(self.correction.loss.scores), -1)
            along = np.zeros(columns)
            for part in release.design(columns).linear:
                along[part.column] = rows[0, part.parameter]
            if (length := float(np.linalg.norm(along))) > 0:
                along /= length
                across = record - float(record @ along) * along
                across /= max(float(np.linalg.norm(across)), 1e-300)
                record = self.record_radius * (share * along + math.sqrt(1 - share**2) * across)
        targets = self.targets if self.has_channel else [self.targets[number % len(self.targets)]]
        far = (True, number % 8 < 4)
        start = self._within(theta, record, active, np.array(targets, dtype=float), far)
        # Losses of the residual have their kinks at 0.
        return self._with_residual(start, 0.0) if self.is_of_residual and number % 4 < 2 else start

    def _moved(self, point: _Point, reach: float) -> _Point:
        theta = point.theta + reach * self.theta_radius * self.rng.normal(size=len(point.theta)) * (point.theta != 0)
        record = point.record + reach * self.record_radius * self.rng.normal(size=len(point.record))
        targets, end = point.targets, max(map(abs, self.targets))
        if self.is_continuous:
            targets = np.clip(targets + reach * end * self.rng.normal(size=len(targets)), -end, end)
        held = point.record.copy()
        if self.categories and self.rng.random() < 0.25:
            column = self.rng.choice(list(self.categories))
            held[column] = float(self.rng.integers(self.categories[column]))
        far = bool(self.rng.random() < 0.5), bool(self.rng.random() < 0.25)
        moved = self._within(theta, record, point.active, targets, far, held=held)
        is_held = self.is_of_residual and self.rng.random() < 0.5
        return self._with_residual(moved, self._score(point) - point.targets[0]) if is_held else moved

    @property
    def is_continuous(self) -> bool:
        """Whether the target is any number of a range."""
        return not self.has_channel and self.correction.loss.target_values is None

    @functools.cached_property
    def is_of_residual(self) -> bool:
        """Whether the loss is one of the residual of such a target."""
        return self.is_continuous and is_residual_loss(self.correction.loss)

    def _score(self, point: _Point) -> float:
        rows = self.correction.release.design(len(point.record)).rows(point.record[None, :])
        return float(rows[0] @ point.theta)

    def _with_residual(self, point: _Point, residual: float) -> _Point:
        """Return a point with another target: with a residual, as far as targets go."""
        end = max(map(abs, self.targets))
        return replace(point, targets=np.clip([self._score(point) - residual], -end, end))

    @functools.cached_property
    def categories(self) -> dict[int, int]:
        """The columns of categories, with the number of these."""
        noises = self.correction.release.noises(self.correction.columns)
        return {place.start: len(noise.inputs) for place, noise in noises if isinstance(noise, ChannelNoise)}

    def _only_one_of(self, active: BooleanArray) -> BooleanArray:
        """Return marks of the columns that take part, with one of those left that may be taken out."""
        choice = [
            part.column
            for part in self.correction.release.design(len(active)).linear
            if active[part.column] and not (isinstance(part.noise, AdditiveNoise) and part.noise.covariance is not None)
        ]
        left = active.copy()
        left[choice] = False
        if choice:
            left[self.rng.choice(choice)] = True
        return left

    def _within(
        self, theta: FloatArray, record: FloatArray, active: BooleanArray, targets: FloatArray, far: tuple[bool, bool],
        *, held: FloatArray | None = None,
    ) -> _Point:  # fmt: skip
        """Return a point of the domain; `held` has the codes of categories, or none.

        `far` is whether the parameters and whether the record are stretched to the edge of their ball, and the record
        then brought within the bounds of its columns.
        """
        moved = []
        for vector, radius, stretched in (
            (theta, self.theta_radius, far[0]),
            (record, self.record_radius, far[1]),
        ):
            length = float(np.linalg.norm(vector))
            moved.append(vector * (radius / length) if length > radius or (stretched and length > 0) else vector)
        theta, record = moved
        return _Point(_allowed(self.rng, self.correction.release, record, held), theta, active, targets)


def has_affine_target(correction: Correction) -> bool:
    """Whether a target stands alone, in the loss and in its correction: noise of it then has no part in a mean."""
    pairs = (
        (correction.loss.expression, correction.loss.target),
        (correction.program.expression, correction.program.target),
    )
    return all(is_affine(*pair) for pair in pairs)


def _is_searched(correction: Correction) -> bool:
    """Whether there are biases to be found, as of a truncated series or of no correction."""
    return not correction.is_exact and correction.surrogates is None


def _sums(correction: Correction) -> bool:
    """Whether the noise of columns is integrated over by what it does to the one score of a loss."""
    return _is_searched(correction) and len(correction.loss.scores) == 1


def columns_at_once(correction: Correction) -> int | None:
    """Return how many columns with additive noise take part at a point, or None where all of them do."""
    if not correction.loss.scores:
        return None
    apart, together = 0, 0
    for place, noise in correction.release.noises(correction.columns):
        width = place.stop - place.start
        if isinstance(noise, ChannelNoise):
            continue
        if _sums(correction) and sums.is_summable(noise):
            together += width
        elif isinstance(noise, AdditiveNoise) and noise.covariance is not None:
            together += width
        else:
            apart += width
    room = _MOST_DIMENSIONS - (bool(together) if _sums(correction) else together)
    return None if apart <= max(0, room) else together + max(0, room)


# What overflows counts as infinite, and so do differences of such.
@np.errstate(over="ignore", invalid="ignore")
def kernel_biases(
    correction: Correction, *, record_radius: float, theta_radius: float, residual_radius: float | None = None
) -> Biases:
    """Return the largest biases of a corrected loss at points of the domain, ||x|| and ||theta|| within bounds.

    With `residual_radius`, for a loss of the residual, targets are those with a residual up to this, in place of the
    declared ones. Biases of a truncated series, or of no correction, are largest where parameters are long and scores
    have one size: they are searched for.
    """
    declared, release, columns = correction.loss, correction.release, correction.columns
    kernels, noise, size = correction.kernels, correction.noise, correction.number_of_parameters
    truth = DeclaredLoss(declared, release)
    function, slopes = truth.functions()
    # The points are the same every time: a certificate is a statement about them.
    rng = np.random.default_rng(0)
    worst = Biases()
    mean_loss, mean_gradient = kernels.mean_loss(weighted=True), kernels.mean_gradient(weighted=True)
    targets = true_codes(declared, release)
    channel = release.target_noise if isinstance(release.target_noise, ChannelNoise) else None
    shares = np.ones((1, 1)) if channel is None else np.array(channel.matrix)
    # Where there are biases to be found.
    is_searched = _is_searched(correction)
    summing = _Summing.of(correction) if _sums(correction) else None
    # What is exact is seen by the noise of each column, and by their sum only where that does not settle.
    of_score = _Summing.of(correction) if correction.is_exact and len(declared.scores) == 1 else None

    def wanted_at(point: _Point) -> FloatArray:
        """Return the declared loss and its gradient, a row for each target."""
        values = np.array([truth.target(target) for target in point.targets])
        records = np.tile(point.record, (len(values), 1))
        arguments = truth.arguments(point.theta, records, values)
        wanted = np.broadcast_to(function(*arguments), values.shape)
        return np.column_stack([wanted, truth.gradient([slope(*arguments) for slope in slopes], records)])

    def means(
        point: _Point, nodes: int, *, far: bool = False, summing: _Summing | None = summing
    ) -> tuple[FloatArray, SeenRecord]:
        """Return the means of the corrected loss and its gradient over the noise, a row for each target."""
        counts = channel is None and (summing is None or summing.with_target)
        seen = released_records(
            release, point.record, float(point.targets[0]), nodes=nodes, active=point.active,
            noise_on=(True, counts), far=far, along=None if summing is None else summing.along(point.theta),
        )  # fmt: skip
        found = []
        for code in range(shares.shape[1]):
            y = seen.y if channel is None else np.full(len(seen.y), float(code))
            X, y = encoded(correction, seen.X, y)
            out = np.zeros(size)
            total = float(seen.weights.sum())
            mean = float(mean_loss(point.theta, X, y, seen.weights, total, noise))
            mean_gradient(point.theta, X, y, seen.weights, total, noise, out)
            found.append(np.append(mean, out))
        return shares @ np.array(found), seen

    def settled(point: _Point, first: _Seen) -> _Seen:
        """Return the means by those rules whose last two differ least, of which the usual ones are the first.

        Others go farther out, or take the noise of all columns by what it does to the score: one dimension has points
        enough for noise that is wide against where the loss bends.
        """
        found = [first]
        for far, together in ((True, None), (False, of_score)):
            if far or (together is not None and together.size(1) > 1):
                coarse_nodes, nodes = _nodes(release, point.active, columns, together)
                coarse, _ = means(point, coarse_nodes, far=far, summing=together)
                found.append(_Seen(coarse, *means(point, nodes, far=far, summing=together)))
        return min(found, key=lambda one: one.moved)

    def look(point: _Point) -> tuple[float, float]:
        """Include the biases of loss and gradient at a point of the domain, and return the largest of all targets."""
        wanted = wanted_at(point)
        coarse_nodes, nodes = _nodes(release, point.active, columns, summing)
        found = _Seen(means(point, coarse_nodes)[0], *means(point, nodes))
        scales = _scales(found.fine, wanted[:, 0], wanted[:, 1:])
        large = correction.is_exact and bool(np.any(np.abs(found.fine - wanted).max(axis=1) > ROUNDING * scales))
        # Where large values cancel, their tails count, and rounding is relative to them.
        found = settled(point, found) if large else found
        coarse, fine, seen = found.coarse, found.fine, found.seen
        outcomes = shares.shape[1] if channel is not None else None
        sizes = _sizes(correction, point.theta, seen, outcomes) if large else (0, 0)
        for index, scale in enumerate(_scales(fine, wanted[:, 0], wanted[:, 1:]).tolist()):
            worst.include(
                loss_scale=max(scale, sizes[0]),
                gradient_scale=max(scale, sizes[1]),
                loss_bias=abs(float(fine[index, 0] - wanted[index, 0])),
                gradient_bias=float(np.linalg.norm(fine[index, 1:] - wanted[index, 1:])),
                quadrature_error=float(np.max(np.abs(fine[index] - coarse[index]) / scale)),
            )
        return sizes_of(fine - wanted)

    def sizes_of(off: FloatArray) -> tuple[float, float]:
        sizes = np.abs(off[:, 0]).max(), np.linalg.norm(off[:, 1:], axis=1).max()
        return tuple(float(size) if math.isfinite(size) else 0.0 for size in sizes)  # type: ignore[return-value]

    for point in range(_POINTS):
        record = _record(rng, release, columns, record_radius)
        theta = _into_ball(rng.uniform(-1, 1, size), theta_radius)
        active = _active(rng, release, columns, every=not declared.scores, summing=summing)
        _silence(theta, active, declared, release, columns)
        # One target of a continuum; where a channel noises it, all of them by what it gives out.
        tried = np.array(targets if channel is not None else [targets[point % len(targets)]], dtype=float)
        if residual_radius is not None:
            (score,) = truth.arguments(theta, record[None, :], tried)[0]
            tried = score - residual_radius * np.linspace(-1, 1, _POINTS)[[point]]
        look(_Point(record, theta, active, tried))
    if is_searched:

        def size_of(point: _Point, most: int) -> tuple[float, float]:
            _, nodes = _nodes(release, point.active, columns, summing, most=most)
            return sizes_of(means(point, nodes)[0] - wanted_at(point))

        edge = _Edge(rng, correction, record_radius, theta_radius, targets, channel is not None, summing)
        for most in _SEARCH_NODES:
            by_few = functools.partial(size_of, most=most)
            off = np.abs([np.subtract(look(point), by_few(point)) for point in edge.largest(by_few)]).max(axis=0)
            allowed = np.maximum(_SAME * np.array([worst.loss_bias, worst.gradient_bias]), ROUNDING)
            if np.all(off <= allowed):
                break
    return worst


def _scales(means: FloatArray, wanted: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the largest of 1 and the sizes of means and of what they should be, for each target."""
    every = np.column_stack([np.ones(len(wanted)), means, wanted, gradient])
    return np.asarray(np.abs(every).max(axis=1))


def _sizes(correction: Correction, theta: FloatArray, seen: SeenRecord, outcomes: int | None) -> tuple[float, float]:
    """Return the means of the sizes of a corrected loss and its gradient, the largest of any outcome of a channel."""
    kernels, noise, largest = correction.kernels, correction.noise, [0.0, 0.0]
    for code in range(outcomes or 1):
        X, y = encoded(correction, seen.X, seen.y if outcomes is None else np.full(len(seen.y), float(code)))
        values, gradients = np.empty(len(y)), np.empty((len(y), len(theta)))
        kernels.loss(theta, X, y, noise, values)
        kernels.gradient(theta, X, y, noise, gradients)
        sizes = np.abs(values), np.linalg.norm(gradients, axis=1)
        largest = [max(before, float(seen.weights @ size)) for before, size in zip(largest, sizes, strict=True)]
    return largest[0], largest[1]


def _record(rng: np.random.Generator, release: Release, columns: int, radius: float) -> FloatArray:
    """Return a true record within the bounds: numbers in the ball, codes, steps of a grid."""
    return _allowed(rng, release, _into_ball(rng.uniform(-1, 1, columns), radius))


def _allowed(
    rng: np.random.Generator, release: Release, record: FloatArray, held: FloatArray | None = None
) -> FloatArray:
    """Return a record within declared bounds, and the unit ball where there are none.

    Columns of categories have codes, drawn or those that are held, and others steps of a grid where they have one.
    """
    placed = release.placed(len(record))
    for (place, noise), (_, mechanism) in zip(release.noises(len(record)), placed, strict=True):
        if isinstance(mechanism, ChannelMechanism):
            assert isinstance(noise, ChannelNoise)
            record[place] = float(rng.integers(len(noise.inputs))) if held is None else held[place]
            continue
        if isinstance(noise, AdditiveNoise) and noise.step is not None:
            record[place] = np.round(record[place] / noise.step) * noise.step
        group = record[None, place]
        record[place] = (in_ball(group, 1.0) if mechanism.bound is None else mechanism.range.clip(group))[0]
    noised = sum(place.stop - place.start for place, _ in placed)
    record[noised:] = np.clip(record[noised:], -1.0, 1.0)
    return record


def _into_ball(point: FloatArray, radius: float) -> FloatArray:
    """Map a point of [-1, 1]^d into the ball along its ray."""
    norm = float(np.linalg.norm(point))
    result: FloatArray = point * (radius * float(np.abs(point).max()) / norm) if norm > 0 else point
    return result


def _active(
    rng: np.random.Generator,
    release: Release,
    columns: int,
    *,
    every: bool,
    noisiest: bool = False,
    summing: _Summing | None = None,
) -> BooleanArray:
    """Return which columns with additive noise take part at a point: few enough for a product rule.

    They are drawn, or those with the most noise.

    Raises
    ------
    NoExactCorrectionError
        Every column must take part, and there are too many.
    """
    active = np.zeros(columns, dtype=bool) if summing is None else summing.marks
    candidates: list[int] = []
    for place, noise in release.noises(columns):
        if not isinstance(noise, ChannelNoise) and not (summing is not None and sums.is_summable(noise)):
            if isinstance(noise, AdditiveNoise) and noise.covariance is not None:
                active[place] = True
            else:
                candidates += range(place.start, place.stop)
    if every:
        if len(candidates) + int(active.sum()) > _MOST_FEATURES:
            raise NoExactCorrectionError(
                f"the certificate integrates over {len(candidates)} noised columns at once, which its product rule "
                f"does not reach. It covers up to {_MOST_FEATURES}; write the loss in scores if it depends on the "
                "features through linear predictors."
            )
        active[candidates] = True
        return active
    chosen = rng.permutation(candidates).astype(int)
    if noisiest:
        chosen = chosen[np.argsort(-release.feature_variances(columns)[chosen], kind="stable")]
    room = max(0, _MOST_DIMENSIONS - (int(active.sum()) if summing is None else bool(summing.places)))
    while room > 1 and _size(release, chosen[:room], columns, summing) > _MOST_NODES / 4:
        room -= 1
    active[chosen[:room]] = True
    return active


def _size(release: Release, chosen: FloatArray, columns: int, summing: _Summing | None) -> int:
    """Return how many points a rule of moderate accuracy has over some columns."""
    size = 1 if summing is None else summing.size(16)
    for place, noise in release.noises(columns):
        if summing is not None and sums.is_summable(noise):
            continue
        if isinstance(noise, ChannelNoise):
            size *= len(noise.outputs)
        else:
            inside = int(np.count_nonzero((chosen >= place.start) & (chosen < place.stop)))
            together = isinstance(noise, AdditiveNoise) and noise.covariance is not None
            size *= 1 if together else quadrature.size(noise, inside + shares_target(release, noise), 16)
    return size


def shares_target(release: Release, noise: AdditiveNoise | SphericalNoise | ZonalNoise) -> bool:
    """Whether the target of a release is a coordinate of the vector of a noise: of its only one."""
    return isinstance(noise, (SphericalNoise, ZonalNoise)) and isinstance(release.target_noise, CoordinateNoise)


def _silence(theta: FloatArray, active: BooleanArray, declared: Loss, release: Release, columns: int) -> None:
    """Set the parameters of columns that are not integrated over to 0, of a loss in scores."""
    if not declared.scores:
        return
    rows = theta.reshape(len(declared.scores), -1)
    for part in release.design(columns).linear:
        if part.noise is not None and not active[part.column]:
            rows[:, part.parameter] = 0.0


def _nodes(
    release: Release, active: BooleanArray, columns: int, summing: _Summing | None, *, most: int = _MOST_NODES
) -> tuple[int, int]:
    """Return the nodes of a coarse and of a fine rule that keep the product within bounds."""
    fixed = 1
    dimensions: list[tuple[AdditiveNoise | SphericalNoise | ZonalNoise, int]] = []
    for place, noise in release.noises(columns):
        if isinstance(noise, ChannelNoise):
            fixed *= len(noise.outputs)
        elif not (summing is not None and sums.is_summable(noise)):
            dimensions.append((noise, int(active[place].sum()) + shares_target(release, noise)))
    target = release.target_noise
    if isinstance(target, ChannelNoise):
        fixed *= len(target.outputs)
    elif isinstance(target, AdditiveNoise) and (summing is None or (summing.target == 0 and summing.with_target)):
        dimensions.append((target, 1))
    for nodes in (*NODES, 8, 7):
        size = fixed * (1 if summing is None else summing.size(nodes))
        size *= math.prod(quadrature.size(noise, width, nodes) for noise, width in dimensions)
        if size <= most:
            break
    return nodes - max(1, nodes // 10), nodes
