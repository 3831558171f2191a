"""Whether a rule of quadrature reaches the tails of the noise that decide a moment.

Noise with exponential tails has a mean of exp(c abs(e)) for rates c below that of its tails. A rule ends somewhere, and
has a number for all c: of a moment that is infinite it is that of its last points.
"""

import math
from collections.abc import Callable

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.assessment.kernel_bias import SeenRecord, group_at
from symdebias.noise import AdditiveNoise, ChannelNoise, CoordinateNoise, SphericalNoise
from symdebias.release import Release
from symdebias.zonal import ZonalNoise

# The outer tenth of a rule may add this share. What lies beyond the rule adds less, where the sizes fall exponentially.
_INSIDE, _MOST = 0.9, 1e-3
# Where it adds less than this, no rule that goes farther out tells more.
_LITTLE = 1e-9
# The last points of a rule of normal noise are then 12 standard deviations out, where powers count for nothing.
_TELLING = 48


def is_reached(tails: FloatArray, parts: FloatArray) -> bool:
    """Whether the points of a rule that are farthest out add next to nothing to a moment.

    Parameters
    ----------
    tails : array of shape (m, k), float64
        The noise with tails at the points, 0 at its middle.
    parts : array of shape (m,), float64
        What each point adds to the moment.

    Examples
    --------
    >>> from symdebias.mechanisms import LaplaceMechanism
    >>> from symdebias.transforms import quadrature
    >>> points, weights = quadrature.one_dimensional(LaplaceMechanism.from_scale(1.0).noise, 64)
    >>> [is_reached(points[:, None], weights * np.exp(rate * points)) for rate in (0.5, 0.9, 0.99, 1.1)]
    [True, True, False, False]
    """
    return share_outside(tails, parts) <= _MOST


def share_outside(tails: FloatArray, parts: FloatArray) -> float:
    """Return the share of a moment that the points add that are farthest out; infinity where it is no number."""
    sizes = np.abs(tails)
    outside = np.any((sizes > _INSIDE * sizes.max(axis=0, initial=0.0)) & (sizes > 0), axis=1)
    found = np.abs(parts)
    if not outside.any() or not found.any():
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        share = float(found[outside].sum() / found.sum())
    return share if math.isfinite(share) else math.inf


def reached(moment: Callable[[bool], tuple[FloatArray, list[FloatArray]]]) -> list[float] | None:
    """Return moments over noise by the rule that reaches its tails best, or None where none does.

    `moment` takes whether the rule is that for what grows nearly as fast as the noise falls, and returns the noise at
    its points, as for `is_reached`, and what each of these adds to each moment. Without growth the usual rule has more
    digits.
    """
    found: dict[float, list[FloatArray]] = {}
    for far in (False, True):
        tails, several = moment(far)
        share = max(share_outside(tails, parts) for parts in several)
        found.setdefault(share, several)
        if share <= _LITTLE:
            break
    least = min(found)
    return [float(np.sum(parts)) for parts in found[least]] if least <= _MOST else None


def has_tails(
    noise: AdditiveNoise | SphericalNoise | ZonalNoise | ChannelNoise | CoordinateNoise | None, nodes: int = 0
) -> bool:
    """Whether noise has exponential tails, or is normal and has a rule of so many nodes that its end tells of growth.

    Few nodes are exact for powers which the last of them decide.
    """
    if isinstance(noise, AdditiveNoise) and noise.is_gaussian:
        return nodes >= _TELLING
    return isinstance(noise, (AdditiveNoise, SphericalNoise)) and noise.tail_rate < math.inf


def tails_of(release: Release, record: FloatArray, target: float, seen: SeenRecord, *, nodes: int) -> FloatArray:
    """Return the noise of the columns with `has_tails` in what a true record is seen as; shape (m, k).

    Of a vector with spherical noise it is the length.
    """
    tails = []
    for place, noise in release.noises(len(record)):
        if has_tails(noise, nodes):
            found = seen.X[:, place] - record[place]
            if isinstance(noise, SphericalNoise):
                factors = group_at(release, len(record), place.start).factors[: found.shape[1]]
                found = np.linalg.norm(found / factors, axis=1)[:, None]
            tails.append(found)
    if has_tails(None if release.clips_target else release.target_noise, nodes):
        tails.append((seen.y - target)[:, None])
    return np.concatenate([np.zeros((len(seen.weights), 0)), *tails], axis=1)
