"""The privacy loss of two inputs from the declared noise: exactly, and as the statistic that tells them apart best."""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.mechanisms.base import Noise
from symdebias.noise import VALUE, AdditiveNoise, ChannelNoise, ClippedNoise, CoordinateNoise, SphericalNoise
from symdebias.privacy import Guarantee, analytic_gaussian_delta, composed_delta, spherical_laplace_delta
from symdebias.transforms import quadrature
from symdebias.zonal import ZonalNoise

Exact = tuple[float | None, float | None]
# All pairs of so many rows of a channel are looked at.
_MANY_ROWS = 64


def largest_ratio(first: FloatArray, second: FloatArray) -> float:
    """Return the largest log ratio of two rows of probabilities or densities."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(first > 0, np.log(first) - np.log(second), -math.inf)
    return float(ratios.max())


def worst_inputs(noise: ChannelNoise) -> tuple[float, float]:
    """Return the two inputs of a channel whose log ratio is largest, the likelier one first."""
    matrix = np.array(noise.matrix)
    # The largest ratio of a pair is that of the extreme entries of some column.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(matrix.max(axis=0) > 0, np.log(matrix.max(axis=0)) - np.log(matrix.min(axis=0)), -math.inf)
    column = int(np.argmax(ratios))
    first, second = int(np.argmax(matrix[:, column])), int(np.argmin(matrix[:, column]))
    return noise.inputs[first], noise.inputs[second if second != first else (first + 1) % len(matrix)]


# ---- exactly -------------------------------------------------------------------------------------------------------


def exact_loss(noise: Noise, pair: tuple[FloatArray, FloatArray], claimed: Guarantee) -> Exact | None:
    """Return (epsilon for a pure claim, delta at the claimed epsilon) of two inputs, or None where it is not known.

    Parameters
    ----------
    noise : noise
        That of vectors of this width.
    pair : two arrays of shape (k,), float64
        The inputs, within the bounds.
    claimed : Guarantee
        The claim.
    """
    if isinstance(noise, ChannelNoise):
        rows = np.array(noise.matrix)
        return _of_probabilities(rows, claimed)
    if isinstance(noise, ClippedNoise):
        # What is done to noised values afterwards makes nothing less private.
        noise = noise.noise
    if isinstance(noise, ZonalNoise):
        return _of_zonal(noise, pair), None
    difference = pair[1] - pair[0]
    if isinstance(noise, CoordinateNoise):
        return None
    if isinstance(noise, SphericalNoise):
        return _of_spherical(noise, float(np.linalg.norm(difference)), claimed)
    if noise.is_gaussian:
        scale, distance = 1.0, whitened_distance(noise, difference)
        if distance == 0:
            return (0.0 if claimed.delta == 0 else None), 0.0
        delta = float(analytic_gaussian_delta(claimed.epsilon, scale, distance)) if math.isfinite(distance) else 1.0
        return (math.inf if claimed.delta == 0 else None), delta
    if noise.density is None:
        return None
    shifts = np.abs(difference[difference != 0])
    if len(shifts) == 0:
        return (0.0 if claimed.delta == 0 else None), 0.0
    if len(shifts) > 1:
        # Independent coordinates: suprema of log ratios add.
        if claimed.delta > 0:
            return None
        return sum(_of_density(noise, float(shift), claimed)[0] or 0.0 for shift in shifts), None
    return _of_density(noise, float(shifts[0]), claimed)


def whitened_distance(noise: AdditiveNoise, difference: FloatArray) -> float:
    """Return the length of a difference in standard deviations of normal noise; infinite where a part has none."""
    if noise.covariance is None:
        return float(np.linalg.norm(difference)) / math.sqrt(noise.variance)
    covariance = np.array(noise.covariance)
    inverse = np.linalg.pinv(covariance)
    if np.abs(covariance @ inverse @ difference - difference).max() > 1e-9 * np.abs(difference).max():
        return math.inf
    return math.sqrt(float(difference @ inverse @ difference))


def composed_loss(
    parts: Sequence[tuple[Noise, tuple[FloatArray, FloatArray], Guarantee]], claimed: Guarantee
) -> Exact | None:
    """Return the loss of parts that are noised independently, from that of each.

    Pure parts add up. Normal noise composes with them exactly (`symdebias.privacy.composed_delta`, an upper bound that
    randomized responses attain).

    Parameters
    ----------
    parts : sequence of (noise, pair, claim)
        Of each part.
    claimed : Guarantee
        The claim of all.
    """
    if len(parts) == 1:
        noise, pair, _ = parts[0]
        return exact_loss(noise, pair, claimed)
    pure, multipliers = [], []
    for noise, pair, claim in parts:
        if isinstance(noise, AdditiveNoise) and noise.is_gaussian:
            multipliers.append(1 / whitened_distance(noise, pair[1] - pair[0]))
            continue
        found = exact_loss(noise, pair, Guarantee(claim.epsilon, 0.0))
        if claim.delta > 0 or found is None or found[0] is None:
            return None
        pure.append(found[0])
    if multipliers:
        if claimed.delta == 0:
            return math.inf, None
        return None, composed_delta(claimed.epsilon, multipliers, pure) if len(pure) <= 8 else None
    return (math.fsum(pure) if claimed.delta == 0 else None), None


def _of_zonal(noise: ZonalNoise, pair: tuple[FloatArray, FloatArray]) -> float:
    """Return the largest log ratio of densities on the great circle through two records, which passes all cosines."""
    unit = np.array([value.ravel() for value in pair]) / noise.radius
    lifts = np.concatenate([unit, np.sqrt(np.maximum(1 - np.sum(unit**2, axis=1), 0.0))[:, None]], axis=1)
    between = math.acos(min(max(float(lifts[0] @ lifts[1]), -1.0), 1.0))
    angles = np.linspace(-math.pi, math.pi, 20_001)
    first, second = (noise.law.density(lifts.shape[1], np.cos(angles - shift)) for shift in (0.0, between))
    return max(largest_ratio(first, second), largest_ratio(second, first))


def _of_spherical(noise: SphericalNoise, distance: float, claimed: Guarantee) -> Exact | None:
    """Return the loss of a density proportional to exp(-||v||/b): at most distance/b, which points far out attain."""
    scale = noise.radial_scale
    if scale is None:
        return None
    if distance == 0:
        return (0.0 if claimed.delta == 0 else None), 0.0
    if claimed.delta == 0:
        return distance / scale, None
    return None, spherical_laplace_delta(claimed.epsilon, scale, distance, noise.ambient)


def _of_probabilities(rows: FloatArray, claimed: Guarantee) -> Exact:
    epsilon, delta = 0.0, 0.0
    pairs: Iterable[tuple[FloatArray, FloatArray]] = itertools.product(rows, rows)
    if len(rows) > _MANY_ROWS:
        # Of many labels those that are extreme in some column.
        extreme = {(int(np.argmax(column)), int(np.argmin(column))) for column in rows.T}
        pairs = [(rows[first], rows[second]) for first, second in sorted(extreme)]
    for p, q in pairs:
        epsilon = max(epsilon, largest_ratio(p, q))
        delta = max(delta, float(np.maximum(p - math.exp(claimed.epsilon) * (1 + 4e-16) * q, 0.0).sum()))
    return (epsilon if claimed.delta == 0 else None), delta


def _of_density(noise: AdditiveNoise, shift: float, claimed: Guarantee) -> Exact:
    assert noise.density is not None
    density = sp.lambdify(VALUE, noise.density, "numpy")

    def at(points: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.asarray(density(points), dtype=float), points.shape)

    bound = math.exp(min(claimed.epsilon, 700.0)) * (1 + 1e-13)
    if noise.step is not None:
        points, _ = quadrature.one_dimensional(noise, 2)
        points = np.concatenate([points, points[-1] + noise.step * np.arange(1, round(shift / noise.step) + 1)])
        p, q = at(points), at(points - shift)
        return _pure(p, q, claimed), max(_excess(p, q, bound), _excess(q, p, bound))
    nodes, _ = quadrature.one_dimensional(noise, 48)
    edges = np.unique(np.concatenate([nodes, nodes + shift, [0.0, shift]]))
    # A midpoint rule between all nodes of both: jumps fall between cells of vanishing width.
    fine = np.unique(np.concatenate([edges, *(edges[:-1] + k / 8 * np.diff(edges) for k in range(1, 8))]))
    middle, width = (fine[1:] + fine[:-1]) / 2, np.diff(fine)
    p, q = at(middle), at(middle - shift)
    excess = max(
        float(np.sum(width * np.maximum(p - bound * q, 0.0))), float(np.sum(width * np.maximum(q - bound * p, 0.0)))
    )
    return _pure(p, q, claimed), excess


def _pure(p: FloatArray, q: FloatArray, claimed: Guarantee) -> float | None:
    if claimed.delta > 0:
        return None
    # Where both have underflowed nothing is seen.
    seen = np.maximum(p, q) > 1e-290
    return max(largest_ratio(p[seen], q[seen]), largest_ratio(q[seen], p[seen]))


def _excess(p: FloatArray, q: FloatArray, bound: float) -> float:
    return float(np.maximum(p - bound * q, 0.0).sum())


# ---- the statistic that tells two inputs apart ---------------------------------------------------------------------


def log_ratio(noise: Noise, pair: tuple[FloatArray, FloatArray], sent: FloatArray) -> FloatArray:
    """Return the log ratio of the densities of two inputs at what was sent, shape (n,): sets of it are the best events.

    By Neyman and Pearson's lemma the sets {log ratio > t} have the largest probability under the first input for their
    probability under the second. Where no density is known it is the projection on the difference of the inputs.

    Parameters
    ----------
    noise : noise
        That of vectors of this width.
    pair : two arrays of shape (k,), float64
        The inputs.
    sent : array of shape (n, k), float64
        What came out.
    """
    if isinstance(noise, ChannelNoise):
        return _ratio_of_channel(noise, pair, sent[:, 0])
    if isinstance(noise, ClippedNoise):
        noise = noise.noise
    first, second = pair
    if isinstance(noise, ZonalNoise):
        return _ratio_of_zonal(noise, pair, sent)
    if isinstance(noise, SphericalNoise) and noise.radial_scale is not None:
        far, near = (np.linalg.norm(sent - center, axis=1) for center in (second, first))
        return np.asarray((far - near) / noise.radial_scale)
    if isinstance(noise, AdditiveNoise) and noise.is_gaussian:
        if noise.covariance is None:
            weight = (first - second) / noise.variance
        else:
            weight = np.linalg.pinv(np.array(noise.covariance)) @ (first - second)
        return np.asarray((sent - (first + second) / 2) @ weight)
    if isinstance(noise, AdditiveNoise) and noise.density is not None:
        return _ratio_of_density(noise, pair, sent)
    return np.asarray(sent @ (first - second))


def _ratio_of_channel(noise: ChannelNoise, pair: tuple[FloatArray, FloatArray], sent: FloatArray) -> FloatArray:
    outputs, matrix = np.array(noise.outputs), np.array(noise.matrix)
    rows = [matrix[noise.inputs.index(float(value[0]))] for value in pair]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(np.log(rows[0]) - np.log(rows[1]), nan=0.0, posinf=1e300, neginf=-1e300)
    order = np.argsort(outputs)
    places = order[np.minimum(np.searchsorted(outputs[order], sent), len(outputs) - 1)]
    return np.asarray(ratios[places])


def _ratio_of_zonal(noise: ZonalNoise, pair: tuple[FloatArray, FloatArray], sent: FloatArray) -> FloatArray:
    dimension = sent.shape[1] + 1
    lifts = [np.append(v, math.sqrt(max(noise.radius**2 - float(v @ v), 0.0))) / noise.radius for v in pair]
    points = sent / noise.radius
    # The sign of the last coordinate is not sent: it is 0 in records on the sphere, which the worst ones are.
    last = np.sqrt(np.maximum(1 - np.einsum("ij,ij->i", points, points), 0.0))
    densities = []
    for lift in lifts:
        cosines = (np.clip(points @ lift[:-1] + sign * last * lift[-1], -1, 1) for sign in (1, -1))
        densities.append(sum(noise.law.density(dimension, cosine) for cosine in cosines))
    return np.asarray(np.log(densities[0]) - np.log(densities[1]))


def _ratio_of_density(noise: AdditiveNoise, pair: tuple[FloatArray, FloatArray], sent: FloatArray) -> FloatArray:
    assert noise.density is not None
    density = sp.lambdify(VALUE, noise.density, "numpy")
    total = np.zeros(len(sent))
    reach = 200 * math.sqrt(noise.variance)
    for column, first, second in zip(sent.T, *pair, strict=True):
        if first == second:
            continue
        # Beyond where densities underflow their ratio is what it is there.
        low, high = min(first, second) - reach, max(first, second) + reach
        inside = np.clip(column, low, high)
        logs = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for center in (first, second):
                there = inside - center
                if noise.step is not None:
                    there = noise.step * np.rint(there / noise.step)
                logs.append(np.log(np.broadcast_to(np.asarray(density(there), dtype=float), column.shape)))
            total += np.nan_to_num(logs[0] - logs[1], nan=0.0, posinf=1e300, neginf=-1e300)
    # Where tails are exponential the ratio is constant but for rounding.
    return np.asarray(np.where(np.abs(total) < 1e6, np.round(np.clip(total, -1e6, 1e6), 9), total))
