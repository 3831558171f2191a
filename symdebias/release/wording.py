"""What a release does to each column, in the words of a reader."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.mechanisms import Mechanism
from symdebias.noise import AdditiveNoise, ChannelNoise, ClippedNoise, CoordinateNoise, SymmetricChannel
from symdebias.privacy import Guarantee

if TYPE_CHECKING:
    from symdebias.release.release import Release

# Of so many columns all are named.
_NAMED = 8


def noise_in_words(
    release: "Release", number_of_columns: int | None = None, *, has_scales: bool = False
) -> list[tuple[str, str]]:
    """Return names of columns that share a mechanism, and it with its budget and scale, in order, the target last.

    The number p of columns is given where the release does not know it: scales of some vectors depend on it.
    `has_scales` says that records had scales of their own in place of those of normal noise of features.
    """
    count = release.number_of_columns if number_of_columns is None else number_of_columns
    if release.coupling is not None:
        ((names, mechanism),) = release.groups
        vector = release.coupling.released(mechanism)
        width = vector.width or (None if count is None else count + release.coupling.has_column)
        return [(_listed(names), f"{_noised(vector, width)}; {release.coupling.statement}")]
    said = []
    for names, mechanism in release.groups:
        rest = None if count is None else count - len(release.noiseless)
        width = len(names) if names is not None else rest
        said.append((_listed(names), _noised(mechanism, width, has_scales=has_scales)))
    if release.noiseless:
        which = "it is" if len(release.noiseless) == 1 else "they are"
        said.append((_listed(release.noiseless), f"released as {which}"))
    elif not release.groups:
        said.append(("features", "released as they are"))
    said.append(("target", "released as it is" if release.target is None else _noised(release.target, 1)))
    return said


def budget_in_words(guarantee: Guarantee) -> str:
    """Return a budget as it stands beside a mechanism."""
    return f"epsilon {guarantee.epsilon:.4g}" + (f", delta {guarantee.delta:.3g}" if guarantee.delta else "")


def _listed(names: Sequence[str] | None) -> str:
    if names is None:
        return "features"
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ..., {names[-1]} ({len(names)} columns)"


def _noised(mechanism: Mechanism, width: int | None, *, has_scales: bool = False) -> str:
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(mechanism).__name__.removesuffix("Mechanism"))
    guarantee = mechanism.guarantee
    claim = "no privacy claim" if guarantee is None else budget_in_words(guarantee)
    noise = mechanism.noise
    if has_scales and guarantee is None and isinstance(noise, AdditiveNoise) and noise.is_gaussian:
        return f"{kind} ({claim}), standard deviations of each record's own{_estimated(mechanism)}"
    scale = _scale(mechanism, width)
    return f"{kind} ({claim})" + (f", {scale}" if scale else "")


def _scale(mechanism: Mechanism, width: int | None) -> str:
    if isinstance(mechanism.noise, SymmetricChannel):
        return f"{len(mechanism.noise.inputs)} values, sent as they are with probability {mechanism.noise.keep:.4g}"
    if isinstance(mechanism.noise, ChannelNoise):
        return f"{len(mechanism.noise.inputs)} values, sent as one of {len(mechanism.noise.outputs)} outputs"
    if isinstance(mechanism.noise, ClippedNoise):
        low, high = mechanism.noise.low, mechanism.noise.high
        return f"{_deviations(mechanism.noise.noise.coordinate_variances(1))}, then clipped to [{low:g}, {high:g}]"
    if width is None and mechanism.width is None and mechanism.noise_on(1) != mechanism.noise_on(2):
        return ""
    places = width or mechanism.width or 1
    noise = mechanism.noise_on(places)
    if isinstance(noise, (ChannelNoise, ClippedNoise, CoordinateNoise)):
        return ""
    variances = noise.coordinate_variances(places) / mechanism.divisors_on(places) ** 2
    return _deviations(np.asarray(variances)) + _estimated(mechanism)


def _estimated(mechanism: Mechanism) -> str:
    freedom = getattr(mechanism, "degrees_of_freedom", None)
    return "" if freedom is None else f", estimated with {freedom:.4g} degrees of freedom"


def _deviations(variances: FloatArray | Sequence[float]) -> str:
    sizes = np.sqrt(np.asarray(variances, dtype=float))
    low, high = f"{sizes.min():.4g}", f"{sizes.max():.4g}"
    return f"standard deviation {low}" if low == high else f"standard deviations {low} to {high}"
