"""What is audited: a mechanism or a whole release, as rows of numbers that go in and rows that come out.

A row in holds what each part takes, after centre and scale: coordinates, a label's number, or the features and the
target of a vector that is released whole. A row out holds what each part sends.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias.checks.privacy_loss import worst_inputs
from symdebias.exceptions import ClippingWarning
from symdebias.mechanisms import ChannelMechanism, Mechanism
from symdebias.mechanisms.base import Noise
from symdebias.mechanisms.ranges import Ball, Grid, Labels, Numbers
from symdebias.noise import ChannelNoise
from symdebias.privacy import Guarantee
from symdebias.release import Release
from symdebias.release.columns import in_order

# Columns that are tried where a mechanism takes any number of them.
_COLUMNS = 3
# How far outside records are that have to be clipped, in distances of the farthest ones inside.
_OUTSIDE = 1000.0
_CORNERS = "corners far outside"


@dataclass(frozen=True, eq=False)
class Case:
    """A record that goes in, and what the noise is added to when it is clipped as declared."""

    name: str  # What it is.
    raw: FloatArray  # Of shape (m,): what goes in.
    center: FloatArray  # Of shape (k,): what the declared bounds make of it.


@dataclass(frozen=True)
class Part:
    """What is noised by one mechanism."""

    name: str  # Its columns.
    mechanism: Mechanism  # The mechanism of the vector.
    place: slice  # Where it stands in what is sent.

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return int(self.place.stop - self.place.start)

    @property
    def noise(self) -> Noise:
        """The noise on so many coordinates."""
        return self.mechanism.noise_on(self.width)


@dataclass(frozen=True, eq=False)
class Subject(ABC):
    """What is audited."""

    claimed: Guarantee  # The claim.
    parts: tuple[Part, ...]  # What is noised, independently of each other.
    pair: tuple[Case, Case]  # Two records that the declared noise tells apart best.
    outside: tuple[Case, ...]  # Records far outside, with what they must be clipped to.
    # Other pairs of records, inside and outside, that neighbours may be.
    farther: tuple[tuple[str, FloatArray, FloatArray], ...]
    resting: Case  # A record whose vectors lie at 0, where they can.

    @abstractmethod
    def send(self, rows: FloatArray, random_state: Any) -> FloatArray:
        """Return what is sent for rows, by the call that users make."""

    @abstractmethod
    def clipped(self, rows: FloatArray) -> FloatArray:
        """Return what the noise is added to."""

    @abstractmethod
    def anywhere(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return records anywhere inside the declared bounds, on their edge and outside."""

    def draw(self, raw: FloatArray, count: int, random_state: Any) -> FloatArray:
        """Return what is sent for so many records that are alike."""
        with warnings.catch_warnings():
            # Records outside the bounds are the point.
            warnings.simplefilter("ignore", ClippingWarning)
            return self.send(np.tile(raw, (count, 1)), random_state)


@dataclass(frozen=True, eq=False)
class MechanismSubject(Subject):
    """One mechanism."""

    mechanism: Mechanism
    flat: bool  # Whether it noises numbers, of shape (n,).

    @classmethod
    def of(cls, mechanism: Mechanism, claimed: Guarantee, values: Any = None) -> "MechanismSubject":
        """Return the subject, on two given inputs or on the farthest ones.

        Raises
        ------
        ValueError
            The inputs are no pair, or not known.
        """
        ends = _given(mechanism, values) if values is not None else _farthest(mechanism, None)
        flat = isinstance(mechanism, ChannelMechanism) or (len(ends[0]) == 1 and not _takes_rows(mechanism, values))
        place = slice(0, len(ends[0]))
        pair = Case("one end", ends[0], ends[0]), Case("the other end", ends[1], ends[1])
        outside, farther, resting = _around(mechanism, ends)
        return cls(claimed, (Part("values", mechanism, place),), pair, outside, farther, resting, mechanism, flat)

    def send(self, rows: FloatArray, random_state: Any) -> FloatArray:
        """Return what `privatize` sends."""
        values = rows[:, 0] if self.flat else rows
        sent = self.mechanism.privatize(values, random_state=random_state, noise="hardened")
        return np.asarray(sent, dtype=float).reshape(len(rows), -1)

    def clipped(self, rows: FloatArray) -> FloatArray:
        """Return what `clip` returns."""
        return self.mechanism.clip(rows[:, 0] if self.flat else rows).values.reshape(len(rows), -1)

    def anywhere(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return records inside, on the edge and outside."""
        return _anywhere(self.mechanism, self.parts[0].width, count, rng)


@dataclass(frozen=True, eq=False)
class ReleaseSubject(Subject):
    """A whole release: columns by their mechanisms, or one vector."""

    release: Release  # With names.

    @classmethod
    def of(cls, release: Release, claimed: Guarantee) -> "ReleaseSubject":
        """Return the subject, on two records that differ in all columns as far as they can."""
        bound = _named(release)
        return _coupled(bound, claimed, cls) if bound.coupling is not None else _apart(bound, claimed, cls)

    def send(self, rows: FloatArray, random_state: Any) -> FloatArray:
        """Return what `privatize` sends, categories as the numbers that stand for them."""
        X, y = self._records(rows)
        noised = self.release.privatize(X, y, random_state=random_state, noise="hardened", outside="clip-all")
        coupling, sent = self.release.coupling, np.array(noised.X, dtype=float)
        if coupling is not None:
            return sent if noised.y is None else np.column_stack([sent, coupling.scale * noised.y])
        for place, mechanism in self._placed():
            if isinstance(mechanism, ChannelMechanism) and not _stands_for_itself(mechanism.sent):
                sent[:, place] = np.array(mechanism.sent.numbers)[sent[:, place].astype(int)]
        sent = sent[:, : sent.shape[1] - len(self.release.noiseless)]
        return sent if self.release.target is None else np.column_stack([sent, np.asarray(noised.y, dtype=float)])

    def clipped(self, rows: FloatArray) -> FloatArray:
        """Return what the mechanisms clip to, joined where they are."""
        release = self.release
        if release.coupling is not None:
            coupling, ((_, mechanism),) = release.coupling, release.groups
            target, _ = coupling.clipped_target(coupling.checked_target(rows[:, -1], rows=len(rows)))
            vectors = coupling.vectors(mechanism.clip(rows[:, :-1]).values, target)
            return coupling.released(mechanism).clip(vectors).values
        found = rows.copy()
        for part in self.parts:
            values = rows[:, part.place]
            taken = values[:, 0] if isinstance(part.mechanism, ChannelMechanism) else values
            found[:, part.place] = part.mechanism.clip(taken).values.reshape(values.shape)
        return found

    def anywhere(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return records inside, on the edge and outside, in all parts."""
        coupling = self.release.coupling
        if coupling is None:
            parts = [_anywhere(part.mechanism, part.width, count, rng) for part in self.parts]
            return np.concatenate(parts, axis=1)
        ((names, mechanism),) = self.release.groups
        features = _anywhere(mechanism, len(names or ()), count, rng)
        if coupling.bounds is None:
            return np.column_stack([features, rng.choice(coupling.values or (), size=count)])
        return np.column_stack([features, _numbers_about(coupling.bounds, count, rng)])

    def _placed(self) -> tuple[tuple[slice, Mechanism], ...]:
        return self.release.placed(len(self.release.columns or ()))

    def _records(self, rows: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return X in its own units, with codes for categories, and y."""
        release, columns = self.release, self.release.columns or ()
        if release.coupling is not None:
            X = rows[:, :-1]
            y: FloatArray | None = rows[:, -1]
        else:
            width = len(columns) - len(release.noiseless)
            X = np.column_stack([rows[:, :width], np.zeros((len(rows), len(release.noiseless)))])
            y = rows[:, width] if release.target is not None else None
            for place, mechanism in self._placed():
                if isinstance(mechanism, ChannelMechanism) and not mechanism.range.is_number_pair:
                    X[:, place] = mechanism.range.codes(X[:, place])
        center = in_order(release.center, columns, absent=0.0)
        moved = X * in_order(release.scale, columns, absent=1.0) + center
        return moved, y


def subject_of(audited: Mechanism | Release, claimed: Guarantee, values: Any) -> Subject:
    """Return what is audited as a subject.

    Raises
    ------
    ValueError
        Inputs were given for a release, or are not known.
    """
    if isinstance(audited, Mechanism):
        return MechanismSubject.of(audited, claimed, values)
    if values is not None:
        raise ValueError("a release is checked on records at its bounds. Leave values out.")
    return ReleaseSubject.of(audited, claimed)


# ---- records of one mechanism --------------------------------------------------------------------------------------


def _takes_rows(mechanism: Mechanism, values: Any) -> bool:
    return mechanism.width is not None and np.ndim(values[0] if values is not None else 0.0) > 0


def _given(mechanism: Mechanism, values: Any) -> tuple[FloatArray, FloatArray]:
    """Return the two inputs as arrays of shape (k,), within the bounds."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__") or len(values) != 2:
        raise ValueError("values must be a pair of inputs. Pass values=(first, second).")
    found = []
    for value in values:
        array: ArrayLike = np.asarray(value)
        array = np.reshape(array, (1,)) if np.ndim(array) == 0 else np.reshape(array, (1, -1))
        found.append(mechanism.clip(array).values.ravel())
    return found[0], found[1]


def _farthest(mechanism: Mechanism, width: int | None) -> tuple[FloatArray, FloatArray]:
    """Return the two inputs that the noise tells apart best; of a ball the ends of a diameter along the first axis."""
    if isinstance(mechanism.noise, ChannelNoise):
        first, second = worst_inputs(mechanism.noise)
        return np.array([first]), np.array([second])
    ends = mechanism.farthest
    if ends is None:
        raise ValueError(
            f"{mechanism!r} states no bounds, so that its farthest inputs are not known. Pass values=(first, second)."
        )
    arrays = [np.asarray(end, dtype=float).ravel() for end in ends]
    if len(arrays[0]) == 1 and isinstance(mechanism.range, Ball):
        width = width or mechanism.width or _COLUMNS
        arrays = [np.r_[array, np.zeros(width - 1)] for array in arrays]
    return arrays[0], arrays[1]


def _around(
    mechanism: Mechanism, ends: tuple[FloatArray, FloatArray]
) -> tuple[tuple[Case, ...], tuple[tuple[str, FloatArray, FloatArray], ...], Case]:
    """Return records far outside, other pairs, and a record at rest, for one mechanism."""
    noise, first = mechanism.noise, ends[0]
    if isinstance(noise, ChannelNoise):
        others = tuple(
            (f"the labels {one:g} and {other:g}", np.array([one]), np.array([other]))
            for one, other in zip(noise.inputs[:4], noise.inputs[1:5], strict=False)
        )
        return (), others, Case("a label", first, first)
    if mechanism.farthest is None:
        return (), (), Case("one end", first, first)
    known = _farthest(mechanism, len(first))
    outside = tuple(
        Case(f"far beyond {name}", _beyond(mechanism, end, other), end)
        for name, end, other in (("one end", *known), ("the other end", known[1], known[0]))
    )
    farther = [("records far outside", outside[0].raw, outside[1].raw)]
    if len(first) > 1:
        diagonal = _OUTSIDE * np.abs(known[0]).max() * np.ones(len(first))
        farther.append((_CORNERS, diagonal, -diagonal))
        lengths = np.linspace(1.0, 2.0, len(first)) * np.abs(known[0]).max()
        farther.append(("records along another line", lengths, -lengths))
    rest = np.zeros(len(first)) if len(first) > 1 or isinstance(mechanism.range, Ball) else known[0]
    return outside, tuple(farther), Case("a record at rest", rest, rest)


def _anywhere(mechanism: Mechanism, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return inputs of one mechanism inside, on the edge and outside of its range."""
    inside = mechanism.range
    if isinstance(mechanism.noise, ChannelNoise):
        return rng.choice(mechanism.noise.inputs, size=(count, 1))
    if isinstance(inside, Numbers) and inside.bounds is not None:
        found = _numbers_about(inside.bounds, count, rng)
        return (inside.step * inside.places(found) if isinstance(inside, Grid) else found)[:, None]
    if mechanism.bound is None:
        return np.zeros((count, width))
    directions = rng.normal(size=(count, width))
    # Along axes, through corners and anywhere.
    directions[::3] = np.eye(width)[rng.integers(width, size=len(directions[::3]))]
    directions[1::3] = rng.choice([-1.0, 1.0], size=directions[1::3].shape)
    directions *= rng.choice([-1.0, 1.0], size=(count, 1))
    lengths = rng.choice([0.0, 0.5, 1.0, 1 + 1e-9, 1.05, 2.0, _OUTSIDE], size=(count, 1))
    return np.asarray(mechanism.bound * lengths * directions / np.linalg.norm(directions, axis=1, keepdims=True))


def _numbers_about(bounds: tuple[float, float], count: int, rng: np.random.Generator) -> FloatArray:
    low, high = bounds
    places = rng.choice([0.0, 0.5, 1.0, 1 + 1e-9, 1.1, 2.0, -1e-9, -0.1, -1.0, _OUTSIDE, -_OUTSIDE], size=count)
    return np.asarray(low + (high - low) * places)


def _beyond(mechanism: Mechanism, end: FloatArray, other: FloatArray) -> FloatArray:
    """Return what must be clipped to an end."""
    far = end + _OUTSIDE * (end - other)
    inside = mechanism.range
    return inside.step * inside.places(far) if isinstance(inside, Grid) else np.asarray(far)


# ---- records of releases -------------------------------------------------------------------------------------------


def _named(release: Release) -> Release:
    """Return the release with names for its columns, and without categories of indicator columns.

    How categories become indicators is public and done before anything is clipped.
    """
    if release.categories:
        named = release.columns is not None
        features: Any = dict(release.groups) if named else release.groups[0][1]
        of_target = {"target": release.target} if release.coupling is None else release.coupling.arguments
        release = Release(features, noiseless=release.noiseless, fit_intercept=release.fit_intercept, **of_target)
    if release.columns is not None:
        return release
    count = release.number_of_columns or _COLUMNS + len(release.noiseless) - (release.coupling is not None)
    names = [f"x{index}" for index in range(count - len(release.noiseless))]
    return release.bind((*names, *release.noiseless))


def _coupled(release: Release, claimed: Guarantee, cls: type[ReleaseSubject]) -> ReleaseSubject:
    """Return a release of one vector: opposite records at the bounds, or as far apart as the target allows."""
    coupling, ((names, mechanism),) = release.coupling, release.groups
    assert coupling is not None
    assert mechanism.bound is not None
    width = len(names or ())
    low, high = coupling.bounds or coupling.values or (0.0, 0.0)
    axis, margin = np.r_[mechanism.bound, np.zeros(width - 1)], coupling.kind == "margin"

    def case(name: str, features: FloatArray, y: float, raw: tuple[FloatArray, float] | None = None) -> Case:
        target = coupling.checked_target(np.array([y]), rows=1)
        (center,) = coupling.vectors(features[None], target)
        return Case(name, np.r_[raw or (features, y)], center)

    away = axis if margin else -axis
    ends = case("one end", axis, high), case("the other end", away, low)
    far = 0.0 if margin else _OUTSIDE * (high - low)
    outside = (
        case("far beyond one end", axis, high, (_OUTSIDE * axis, high + far)),
        case("far beyond the other end", away, low, (_OUTSIDE * away, low - far)),
    )
    diagonal = np.ones(width) * mechanism.bound * _OUTSIDE
    corners = np.r_[diagonal, high + far], np.r_[diagonal if margin else -diagonal, low - far]
    vector = coupling.released(mechanism)
    rest = case("a record at rest", np.zeros(width), high)
    farther = (("records far outside", outside[0].raw, outside[1].raw), (_CORNERS, *corners))
    parts = (Part(f"the {coupling.kind} vector", vector, slice(0, len(rest.center))),)
    return cls(claimed, parts, ends, outside, farther, rest, release)


def _apart(release: Release, claimed: Guarantee, cls: type[ReleaseSubject]) -> ReleaseSubject:
    """Return a release whose columns are noised apart: records that differ as far as they can in all of them."""
    placed = release.placed(len(release.columns or ()))
    named = [
        (", ".join(names or ()), mechanism, place)
        for (names, mechanism), (place, _) in zip(release.groups, placed, strict=True)
    ]
    if release.target is not None:
        start = named[-1][2].stop if named else 0
        named.append(("target", release.target, slice(start, start + 1)))
    parts, firsts, seconds, around = [], [], [], []
    for name, mechanism, place in named:
        part = Part(name, mechanism, place)
        ends = _farthest(mechanism, part.width)
        parts.append(part)
        firsts.append(ends[0])
        seconds.append(ends[1])
        around.append(_around(mechanism, ends))
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    pair = Case("one end", first, first), Case("the other end", second, second)
    # Far records of each part, or those at its ends where none lie outside.
    far = [
        tuple(case.raw for case in cases) or (one, other)
        for (cases, _, _), one, other in zip(around, firsts, seconds, strict=True)
    ]
    outside = tuple(
        Case(f"far beyond {end.name}", np.concatenate([ends[place] for ends in far]), end.center)
        for place, end in enumerate(pair)
    )
    farther = [("records far outside", outside[0].raw, outside[1].raw)]
    corners = [
        next(((one, other) for name, one, other in others if name == _CORNERS), own)
        for (_, others, _), own in zip(around, far, strict=True)
    ]
    if any(len(one) > 1 for one in firsts):
        one, other = (np.concatenate([found[place] for found in corners]) for place in (0, 1))
        farther.append((_CORNERS, one, other))
    rest = np.concatenate([found.center for _, _, found in around])
    return cls(claimed, tuple(parts), pair, outside, tuple(farther), Case("a record at rest", rest, rest), release)


def _stands_for_itself(labels: Labels) -> bool:
    """Whether an array of released labels holds their numbers, and not their codes; text has its codes as numbers."""
    return labels.is_number_pair or labels.is_text
