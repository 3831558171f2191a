"""Check the guarantee of a mechanism: exactly from its density or matrix, and from below by what it sends."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias._domains import Integer
from symdebias._randomness import generator
from symdebias.checks.audit import CONFIDENCE, GuaranteeCheck, sampled_epsilon
from symdebias.exceptions import PrivacyError
from symdebias.mechanisms import Mechanism
from symdebias.noise import VALUE, AdditiveNoise, ChannelNoise, ClippedNoise, CoordinateNoise, SphericalNoise
from symdebias.privacy import Guarantee, analytic_gaussian_delta
from symdebias.release import Release
from symdebias.transforms import quadrature
from symdebias.zonal import ZonalNoise

_METHODS = ("auto", "exact", "samples")


def check_guarantee(
    mechanism: Mechanism | Release,
    *,
    values: Sequence[Any] | None = None,
    samples: int = 100_000,
    confidence: float = 0.999,
    method: str = "auto",
    random_state: int | np.random.Generator | None = None,
) -> GuaranteeCheck:
    """Check the local guarantee of a mechanism on two inputs that differ as much as its bounds allow.

    Parameters
    ----------
    mechanism : Mechanism or Release
        Any mechanism with a guarantee, of one's own too; or a margin or joint release, which is checked on two opposite
        records at its bounds, as it clips, joins and noises them.
    values : pair, optional
        The two inputs: numbers, or vectors of shape (k,). By default its pair ``farthest``, or the two inputs of its
        channel that differ most.
    samples : int
        Values drawn of each input, at least 1,000; half of them choose an event and the other half test it.
    confidence : float
        Of the sampled bound, in (0.5, 1).
    method : {"auto", "exact", "samples"}
        ``"exact"`` needs a channel or a density; ``"auto"`` does it where it can, and samples besides, because what is
        drawn may not be what is declared.
    random_state : int, numpy.random.Generator or None
        For the draws.

    Returns
    -------
    GuaranteeCheck
        With ``holds``.

    Raises
    ------
    PrivacyError
        The mechanism makes no claim.
    ValueError, TypeError
        An argument is outside its range, or the inputs are not known.

    Notes
    -----
    A check of two inputs can refute a guarantee and not prove it: the two must be the worst ones, as they are for noise
    that is added to bounded values. With the default 1e5 samples a scale that is too small by half is refuted at
    epsilon 1.

    References
    ----------
    Dwork & Roth 2014, Definition 2.4; Balle & Wang 2018, Theorem 5 (delta as an integral); Bichsel, Steffen,
    Bogunovic & Vechev 2021 (events by thresholds); Clopper & Pearson 1934.

    Examples
    --------
    >>> import symdebias as sd
    >>> check = check_guarantee(sd.LaplaceMechanism(epsilon=1.0, bounds=(0, 1)), random_state=0)
    >>> check.holds, round(check.exact_epsilon, 6), check.sampled_epsilon > 0.8
    (True, 1.0, True)
    """
    if isinstance(mechanism, Release) and mechanism.coupling is None:
        raise TypeError(
            "this release noises columns apart, and its guarantee composes those of its mechanisms. Check these one by "
            "one."
        )
    if not isinstance(mechanism, (Mechanism, Release)):
        raise TypeError(f"mechanism must be a symdebias Mechanism; got {type(mechanism).__name__}.")
    if method not in _METHODS:
        raise ValueError(f"method={method!r:.60} is not known. Choose one of {', '.join(_METHODS)}.")
    count = Integer(1000).check("samples", samples)
    share = CONFIDENCE.check("confidence", confidence)
    rng = generator(random_state)
    claimed = mechanism.guarantee
    if claimed is None:
        raise PrivacyError(
            f"{mechanism!r} makes no privacy claim, so that there is nothing to check. Declare it with a budget."
        )
    release, records = None, None
    if isinstance(mechanism, Release):
        if values is not None:
            raise ValueError("a release is checked on opposite records at its bounds. Leave values out.")
        release = _of_released_numbers(mechanism)
        records = _opposite_records(release)
        mechanism, pair = _vectors(release, records)
    else:
        pair = _inputs(mechanism, values)
    exact_epsilon = exact_delta = sampled = None
    if method != "samples":
        found = _exactly(mechanism, claimed, pair)
        if found is None and method == "exact":
            raise ValueError(
                "the noise has neither a matrix nor a density of one number, so that nothing is known exactly. Give "
                'AdditiveNoise its density, or pass method="samples".'
            )
        if found is not None:
            exact_epsilon, exact_delta = found
    if method != "exact":
        if release is not None and records is not None:
            drawn = [_drawn(release, *record, count, rng) for record in records]
        else:
            drawn = [
                mechanism.privatize(np.repeat(value, count, axis=0), random_state=rng, noise="hardened")
                for value in pair
            ]
        sampled = _from_samples(drawn, claimed, pair, share)
    return GuaranteeCheck(claimed, exact_epsilon, exact_delta, sampled, share, count if sampled is not None else 0)


def _inputs(mechanism: Mechanism, values: Any) -> tuple[FloatArray, FloatArray]:
    """Return the two inputs as arrays of shape (1,) or (1, k), within the bounds."""
    if values is None:
        noise = mechanism.noise
        if isinstance(noise, ChannelNoise):
            matrix = np.array(noise.matrix)
            pairs = itertools.permutations(range(len(matrix)), 2)
            worst = max(pairs, key=lambda pair: _largest_ratio(matrix[pair[0]], matrix[pair[1]]))
            values = [noise.inputs[worst[0]], noise.inputs[worst[1]]]
        elif mechanism.farthest is not None:
            values = list(mechanism.farthest)
        else:
            raise ValueError(
                f"{mechanism!r} states no bounds, so that its farthest inputs are not known. Pass "
                "values=(first, second)."
            )
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__") or len(values) != 2:
        raise ValueError("values must be a pair of inputs. Pass values=(first, second).")
    found = []
    for value in values:
        array: ArrayLike = np.asarray(value)
        array = np.reshape(array, (1,)) if np.ndim(array) == 0 else np.reshape(array, (1, -1))
        found.append(mechanism.clip(array).values)
    return found[0], found[1]


def _largest_ratio(first: FloatArray, second: FloatArray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(first > 0, np.log(first) - np.log(second), -math.inf)
    return float(ratios.max())


# ---- exactly ---------------------------------------------------------------------------------------------


def _exactly(
    mechanism: Mechanism, claimed: Guarantee, pair: tuple[FloatArray, FloatArray]
) -> tuple[float | None, float | None] | None:
    """Return (epsilon for a pure claim, delta at the claimed epsilon), or None where it is not known."""
    noise = mechanism.noise
    if isinstance(noise, ChannelNoise):
        rows = np.array(noise.matrix)
        return _of_probabilities(rows, rows, claimed, every=True)
    if isinstance(noise, ClippedNoise):
        # What is done to noised values afterwards makes nothing less private.
        noise = noise.noise
    if isinstance(noise, ZonalNoise):
        return _of_zonal(noise, pair), None
    shift = np.abs(pair[1] - pair[0]).ravel()
    if isinstance(noise, (CoordinateNoise, SphericalNoise)):
        return None
    if noise.is_gaussian:
        # Rotated into one dimension; a covariance changes lengths.
        if noise.covariance is None:
            distance, scale = float(np.linalg.norm(shift)), math.sqrt(noise.variance)
        else:
            inverse = np.linalg.pinv(np.array(noise.covariance))
            difference = (pair[1] - pair[0]).ravel()
            distance, scale = math.sqrt(float(difference @ inverse @ difference)), 1.0
        delta = float(analytic_gaussian_delta(claimed.epsilon, scale, distance))
        return (math.inf if claimed.delta == 0 else None), delta
    if noise.density is None:
        return None
    if len(shift) > 1 and np.count_nonzero(shift) > 1:
        return None
    return _of_density(noise, float(shift.max()), claimed)


def _of_zonal(noise: ZonalNoise, pair: tuple[FloatArray, FloatArray]) -> float:
    """Return the largest log ratio of densities on the great circle through two records, which passes all cosines."""
    unit = np.array([value.ravel() for value in pair]) / noise.radius
    lifts = np.concatenate([unit, np.sqrt(np.maximum(1 - np.sum(unit**2, axis=1), 0.0))[:, None]], axis=1)
    between = math.acos(min(max(float(lifts[0] @ lifts[1]), -1.0), 1.0))
    angles = np.linspace(-math.pi, math.pi, 20_001)
    first, second = (noise.law.density(lifts.shape[1], np.cos(angles - shift)) for shift in (0.0, between))
    return max(_largest_ratio(first, second), _largest_ratio(second, first))


def _of_probabilities(
    first: FloatArray, second: FloatArray, claimed: Guarantee, *, every: bool
) -> tuple[float | None, float]:
    pairs = itertools.product(first, second) if every else zip(first, second, strict=True)
    epsilon, delta = 0.0, 0.0
    for p, q in pairs:
        epsilon = max(epsilon, _largest_ratio(p, q))
        delta = max(delta, float(np.maximum(p - math.exp(claimed.epsilon) * (1 + 4e-16) * q, 0.0).sum()))
    return (epsilon if claimed.delta == 0 else None), delta


def _of_density(noise: AdditiveNoise, shift: float, claimed: Guarantee) -> tuple[float | None, float]:
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
    return max(_largest_ratio(p[seen], q[seen]), _largest_ratio(q[seen], p[seen]))


def _excess(p: FloatArray, q: FloatArray, bound: float) -> float:
    return float(np.maximum(p - bound * q, 0.0).sum())


# ---- from samples ----------------------------------------------------------------------------------------


def _from_samples(
    drawn: Sequence[FloatArray], claimed: Guarantee, pair: tuple[FloatArray, FloatArray], confidence: float
) -> float:
    axis = (pair[1] - pair[0]).ravel()
    first, second = (sent.reshape(len(sent), -1) @ axis if sent.ndim > 1 else sent for sent in drawn)
    return sampled_epsilon(first, second, claimed.delta, confidence)


# ---- releases of one vector ------------------------------------------------------------------------------

_Record = tuple[FloatArray, FloatArray]


def _of_released_numbers(release: Release) -> Release:
    """Return the release of records whose columns are the released ones, centred and scaled."""
    ((names, mechanism),) = release.groups
    assert release.coupling is not None
    features: Any = mechanism if names is None else {names: mechanism}
    return Release(features, fit_intercept=release.fit_intercept, **release.coupling.arguments)


def _opposite_records(release: Release) -> tuple[_Record, _Record]:
    """Return two records (X, y) at the bounds whose vectors are opposite, or as far apart as the target allows."""
    coupling, ((_, mechanism),) = release.coupling, release.groups
    assert coupling is not None
    assert mechanism.bound is not None
    features = np.zeros((1, release.number_of_columns or 1))
    features[0, 0] = mechanism.bound
    low, high = coupling.bounds or coupling.values or (0.0, 0.0)
    away = features if coupling.kind == "margin" else -features
    return (features, np.array([high])), (away, np.array([low]))


def _vectors(release: Release, records: tuple[_Record, _Record]) -> tuple[Mechanism, tuple[FloatArray, FloatArray]]:
    """Return what noises the vectors of a release, and those of two records."""
    coupling, ((_, mechanism),) = release.coupling, release.groups
    assert coupling is not None
    first, second = (coupling.vectors(X, coupling.checked_target(y, rows=1)) for X, y in records)
    return coupling.released(mechanism), (first, second)


def _drawn(release: Release, X: FloatArray, y: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Return so many released vectors of one record."""
    coupling = release.coupling
    assert coupling is not None
    noised = release.privatize(np.repeat(X, count, axis=0), np.repeat(y, count), random_state=rng, noise="hardened")
    return np.asarray(noised.X if noised.y is None else np.column_stack([noised.X, coupling.scale * noised.y]))
