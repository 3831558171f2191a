"""Groups of columns, each with the mechanism that noises it."""

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray
from symdebias.exceptions import ClippingWarning, NoExactCorrectionError
from symdebias.mechanisms import ChannelMechanism, ClippedMechanism, Mechanism
from symdebias.mechanisms.base import Noise
from symdebias.mechanisms.coordinates import Coordinates, TargetCoordinate
from symdebias.mechanisms.making import kind_of
from symdebias.mechanisms.ranges import Labels
from symdebias.noise import AdditiveNoise, ChannelNoise, ClippedNoise, CoordinateNoise, SphericalNoise
from symdebias.release.columns import checked_names
from symdebias.release.one_hot import OneHot
from symdebias.zonal import ZonalNoise

# Of fewer records all may lie outside; of so many that is a mistake in the units.
_MANY = 10
# By how much released numbers may have grown because they were rounded, for a file or to 32 bits.
_ROUNDED = 0.01

Undoable = AdditiveNoise | ChannelNoise | SphericalNoise | ZonalNoise
Groups = tuple[tuple[tuple[str, ...] | None, Mechanism], ...]


def checked_groups(features: Any, target: Any, one_hot: OneHot) -> Groups:
    """Return declared features as groups of released columns, each with its mechanism.

    Raises
    ------
    TypeError, ValueError
        They are no mechanisms, or one does not fit its columns; or the target is a coordinate of a vector whose others
        are elsewhere.
    """
    groups = _groups(features, one_hot)
    if isinstance(target, Mechanism):
        target.require_stated()
    together = [mechanism.target for _, mechanism in groups if isinstance(mechanism, Coordinates)]
    shared = [part for part in together if part is not None]
    if shared != ([target] if isinstance(target, TargetCoordinate) else []):
        raise ValueError(
            "a target that is a coordinate of the vector of the features is released with these, and they with it. "
            'Take both from one release with target="joint".'
        )
    return groups


def _groups(features: Any, one_hot: OneHot) -> Groups:
    if features is None:
        return ()
    if isinstance(features, Mechanism):
        features.require_stated()
        _refuse_clipped(features)
        if isinstance(features, ChannelMechanism):
            raise TypeError(
                f"{type(features).__name__} noises one column of categories. Name it: features={{name: mechanism}}."
            )
        return ((None, features),)
    is_mapping = isinstance(features, Mapping)
    if not (is_mapping and features):
        raise TypeError(
            "features must be a mechanism, a mapping from columns to mechanisms, or None; got "
            f"{kind_of(features)}{' without entries' if is_mapping else ''}. "
            "Pass a mechanism, such as GaussianMechanism(epsilon, delta, radius)."
        )
    groups = []
    for key, mechanism in features.items():
        names = checked_names((key,) if isinstance(key, str) else key, "features")
        if not names:
            raise ValueError("features has a group without columns. Name at least one.")
        if not isinstance(mechanism, Mechanism):
            raise TypeError(
                f"features are noised by mechanisms; got {kind_of(mechanism)}. Pass a mechanism, such as "
                "GaussianMechanism or RandomizedResponse."
            )
        mechanism.require_stated()
        _refuse_clipped(mechanism)
        if isinstance(mechanism, ChannelMechanism) and (declared := set(names) & set(one_hot.indicators)):
            raise ValueError(
                f"{', '.join(sorted(declared))} is noised by {mechanism!r}, which has categories of its own. Leave it "
                "out of categories, or noise it in one vector with other columns."
            )
        names = one_hot.released(names)
        if mechanism.width not in (None, len(names)):
            raise ValueError(
                f"{mechanism!r} noises {mechanism.width} column{'s' if mechanism.width != 1 else ''} together; got "
                f"{len(names)}. Name each group with as many columns as its mechanism takes."
            )
        groups.append((names, mechanism))
    return tuple(groups)


def _refuse_clipped(mechanism: Mechanism) -> None:
    # Not by its noise, which is not made for this question: it takes time, and code, which no reader of cards needs.
    if isinstance(mechanism, ClippedMechanism):
        raise ValueError(
            f"{mechanism!r} clips what comes out, and features cannot be corrected after that. Only a target "
            "may be clipped after its noise: give features the mechanism without clipping."
        )


def labels_of(groups: Groups, side: str) -> dict[str, Labels]:
    """Return the labels that go in ("range") or come out ("sent") of the columns of categories, by name."""
    return {
        names[0]: getattr(mechanism, side)
        for names, mechanism in groups
        if isinstance(mechanism, ChannelMechanism) and names
    }


def labels_of_target(mechanism: Mechanism | None, side: str) -> Labels | None:
    """Return the labels that go in or come out of a target, or None where it is no category."""
    return getattr(mechanism, side) if isinstance(mechanism, ChannelMechanism) else None


def undoable(noise: Noise) -> Undoable:
    """Return noise that a correction can undo.

    Raises
    ------
    NoExactCorrectionError
        It is not: whoever asks for the noise wants to undo or to integrate it.
    """
    if isinstance(noise, (ClippedNoise, CoordinateNoise)):
        raise NoExactCorrectionError(noise.refusal)
    return noise


def undoable_target(mechanism: Mechanism) -> AdditiveNoise | ChannelNoise | CoordinateNoise:
    """Return the noise of a target that a correction can undo.

    Raises
    ------
    NoExactCorrectionError
        It is not.
    """
    if isinstance(mechanism, TargetCoordinate):
        return mechanism.noise
    noise = undoable(mechanism.noise_on(1))
    # One number has a direction of either sign, and noise of one coordinate.
    assert not isinstance(noise, SphericalNoise)
    if isinstance(noise, ZonalNoise):
        raise NoExactCorrectionError(
            f"{mechanism!r} releases vectors, and the target is one number. Use a LaplaceMechanism or "
            'RandomizedResponse for it, or target="margin" for features and target in one vector.'
        )
    return noise


def without_gain(matrix: FloatArray, groups: Sequence[tuple[slice, Mechanism]]) -> FloatArray:
    """Return released columns, shape (n, p), as estimates without bias: those of zonal noise divided by its gain.

    Raises
    ------
    ValueError
        A vector is longer than any that its mechanism releases.
    NoExactCorrectionError
        The noise hides the columns.
    """
    for place, mechanism in groups:
        width = place.stop - place.start
        noise = mechanism.noise_on(width)
        if isinstance(noise, ZonalNoise):
            divisors = mechanism.divisors_on(width)
            vectors = matrix[:, place]
            _require_released(vectors if np.all(divisors == 1) else vectors * divisors, noise)
            matrix = matrix.copy()
            matrix[:, place] /= noise.gain
    return matrix


def _require_released(vectors: FloatArray, noise: ZonalNoise) -> None:
    """Raise where a vector has no place in the ball that points of the sphere come from.

    Numbers that are not finite are left to whoever looks for them.
    """
    # Not the norm of `linalg`, which writes down all squares: three times as long.
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    outside = np.isfinite(norms) & (norms > noise.radius * (1 + _ROUNDED))
    if outside.any():
        raise ValueError(
            f"the released vector in row {int(np.argmax(outside))} is longer than {noise.radius:g}, the radius of a "
            "SphericalCapMechanism, which releases none that is. Pass noised.X and noised.y as privatize returned "
            "them, in their units, with the card of their release."
        )


def gain_of(mechanism: Mechanism | None, width: int) -> float:
    """Return what the mean of a released value is times the true one: 1, but for points of a sphere."""
    if isinstance(mechanism, TargetCoordinate):
        mechanism = mechanism.columns
    noise = None if mechanism is None else mechanism.noise_on(width)
    return noise.gain if isinstance(noise, ZonalNoise) else 1.0


def squared_radius(groups: Groups, noiseless: int) -> float:
    """Return a bound on the squared norm of a record; see `symdebias.Release.record_radius`."""
    total = float(noiseless)
    for _, mechanism in groups:
        one_hot = isinstance(mechanism, ChannelMechanism) and not mechanism.range.is_number_pair
        total += 1.0 if mechanism.bound is None or one_hot else mechanism.bound**2
    return total


@dataclass(frozen=True)
class Outside:
    """Records outside the bounds, counted.

    Attributes
    ----------
    records, count : int
        The number of records, and that of those outside in some part.
    first : int
        The first of the latter.
    parts : tuple of (str, int)
        What parts of a record are called, with the numbers of records outside in them.
    """

    records: int
    count: int
    first: int
    parts: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, flags: Sequence[tuple[str, BooleanArray]], records: int) -> "Outside":
        """Return the counts of flags: whether each record lies outside in a part, by the part's name."""
        rows = np.zeros(records, dtype=bool)
        for _, flag in flags:
            rows |= flag
        parts = tuple((name, int(np.count_nonzero(flag))) for name, flag in flags)
        return cls(records, int(np.count_nonzero(rows)), int(np.argmax(rows)), parts)

    @classmethod
    def together(cls, each: Sequence["Outside"]) -> "Outside":
        """Return the counts of consecutive records as those of all of them."""
        starts = itertools.accumulate((one.records for one in each), initial=0)
        first = next((start + one.first for start, one in zip(starts, each, strict=False) if one.count), 0)
        counts = zip(*([own for _, own in one.parts] for one in each), strict=True)
        parts = tuple((name, sum(own)) for (name, _), own in zip(each[0].parts, counts, strict=True))
        return cls(sum(one.records for one in each), sum(one.count for one in each), first, parts)


def report_outside(found: Outside, outside: str, *, stacklevel: int = 3) -> None:
    """Refuse records outside the bounds, or warn the collector of them.

    Parameters
    ----------
    found : Outside
        How many there are.
    outside : {"clip", "clip-all", "refuse"}
        As for `symdebias.Release.privatize`.
    stacklevel : int
        Of the warning.

    Raises
    ------
    ValueError
        They are to be refused, or all lie outside, which no clipping mends.

    Warns
    -----
    ClippingWarning
        Some were clipped.
    """
    records, count = found.records, found.count
    for name, own in found.parts:
        if outside == "clip" and records >= _MANY and own == records:
            raise ValueError(
                f"all {records} records lie outside the declared bounds of {name}, so that clipping would leave little "
                "of it; nothing was noised or counted. Bounds are those of (x - center)/scale: declare public ones in "
                'the units of the data, or a public center and scale, or pass outside="clip-all" where that is meant.'
            )
    if count and outside == "refuse":
        raise ValueError(
            f"{count} of {records} records lie outside the declared bounds, the first in row "
            f"{found.first}. "
            'Declare wider public bounds, or pass outside="clip".'
        )
    if count:
        warnings.warn(
            f"{count} of {records} records lay outside the declared bounds and were clipped. This count is a "
            "statistic of the true data: do not pass it on.",
            ClippingWarning,
            stacklevel=stacklevel,
        )
