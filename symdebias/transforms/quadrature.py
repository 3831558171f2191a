"""Quadrature over noise: points and weights of each noise, and products of them over the columns of a record.

Normal noise has Gauss-Hermite rules, Laplace-like tails two-sided Gauss-Laguerre rules, bounded and stepped densities
composite Gauss-Legendre rules, noise on a grid and finite channels their sums; noise without a density has the rule of
its moments. Nothing here knows a correction.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._gauss import gauss_rule
from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import VALUE, AdditiveNoise, ChannelNoise, SphericalNoise
from symdebias.transforms.moment_rule import moment_rule
from symdebias.zonal import ZonalNoise

# A sum over a grid ends where the rest is below rounding.
_NEGLIGIBLE = 1e-22
_MOST_STEPS = 4000
# How many times further it goes for high powers.
_FAR = 2.6
# What a rule of Laplace noise for what grows may leave of exponentials that fall twice as fast as the noise, and how
# far out it goes in tail scales: exponentials and their weights are numbers up to there. With fewer nodes it ends
# earlier, by so much for each, so that two rules differ where what lies beyond counts.
_LEFT, _FARTHEST, _PER_NODE = 1e-9, 690.0, 10.8


@dataclass(frozen=True)
class Rule:
    """Points and weights: the mean of f is the weighted sum of f at the points."""

    points: FloatArray  # Of shape (m, k): values of the noise of k columns (of the codes of a channel's outputs).
    weights: FloatArray  # Of shape (m,): their weights, which sum to 1.


def rule(noise: AdditiveNoise | SphericalNoise, width: int, nodes: int, *, far: bool = False) -> Rule:
    """Return a rule for additive noise on so many columns.

    Spherical noise is that of any columns of its group together, which are alike; it takes one dimension more, of the
    norm. `nodes` is the number per column, of each side for Laplace noise; `far` has sums over a grid go as far out as
    powers of 32 need for 16 digits, and Laplace noise have a rule for what grows nearly as fast as it falls.

    Raises
    ------
    NoExactCorrectionError
        The noise states no density, nor moments of all orders.
    """
    if isinstance(noise, SphericalNoise):
        return _in_all_directions(noise, width, nodes)
    if noise.is_gaussian:
        t, weights = hermite(nodes)
        one = Rule(t[:, None], weights)
        whole = product([one] * width)
        if noise.covariance is None:
            return Rule(math.sqrt(noise.variance) * whole.points, whole.weights)
        values, vectors = np.linalg.eigh(np.array(noise.covariance))
        return Rule(whole.points @ (vectors * np.sqrt(np.maximum(values, 0.0))).T, whole.weights)
    points, weights = one_dimensional(noise, nodes, far=far)
    return product([Rule(points[:, None], weights)] * width)


def _in_all_directions(noise: SphericalNoise, width: int, nodes: int) -> Rule:
    """Return the rule of the norm times that of the first coordinates of a direction, uniform on the sphere."""
    lengths, shares = noise.radii(nodes)
    direction = _direction(noise.ambient, width, nodes)
    moved = np.multiply.outer(lengths, direction.points).reshape(-1, width)
    return Rule(moved, np.multiply.outer(shares, direction.weights).ravel())


def _direction(dimension: int, width: int, nodes: int) -> Rule:
    """Return the rule of the first coordinates of a uniform direction."""
    points, weights = np.zeros((1, 0)), np.ones(1)
    left = np.ones(1)
    for place in range(width):
        t, own = coordinate_of_direction(dimension - place, nodes)
        points = np.concatenate(
            [np.repeat(points, len(t), axis=0), (np.multiply.outer(np.sqrt(left), t)).reshape(-1, 1)], axis=1
        )
        weights = np.multiply.outer(weights, own).ravel()
        left = np.multiply.outer(left, 1 - t**2).ravel()
    return Rule(points, weights)


def added(noise: SphericalNoise | ZonalNoise, vector: FloatArray, directions: FloatArray, nodes: int) -> Rule:
    """Return a rule for what the noise of a vector adds to what is estimated of it in k directions of any length.

    Zonal noise depends on the true vector. Nodes are as for `rule`.
    """
    if isinstance(noise, ZonalNoise):
        whole = around(noise, vector, directions, nodes)
        return Rule(whole.points - directions @ vector, whole.weights)
    left, sizes, _ = np.linalg.svd(directions, full_matrices=False)
    kept = sizes > 1e-14 * max(float(sizes.max(initial=0.0)), 1e-300)
    if not kept.any():
        return Rule(np.zeros((1, len(directions))), np.ones(1))
    whole = rule(noise, int(kept.sum()), nodes)
    return Rule(whole.points @ (left[:, kept] * sizes[kept]).T, whole.weights)


def around(noise: ZonalNoise, record: FloatArray, directions: FloatArray, nodes: int) -> Rule:
    """Return a rule for what is estimated of a true record under zonal noise: its coordinates in k directions.

    A released point is t a + sqrt(1 - t^2) w, a the lifted record and w uniform on the sphere across it. Each
    coordinate of w has so many nodes; t has a rule of its own.
    """
    unit = record / noise.radius
    lifted = np.append(unit, math.sqrt(max(1 - float(unit @ unit), 0.0)))
    rows = np.column_stack([directions, np.zeros(len(directions))])
    along = rows @ lifted
    left, sizes, _ = np.linalg.svd(rows - np.multiply.outer(along, lifted), full_matrices=False)
    kept = sizes > 1e-14 * max(1.0, float(np.abs(rows).max(initial=0.0)))
    across = _direction(noise.dimension, int(kept.sum()), nodes)
    t, mass = noise.law.rule(noise.dimension + 1)
    moved = across.points @ (left[:, kept] * sizes[kept]).T
    points = np.multiply.outer(t, along)[:, None, :] + np.sqrt(np.maximum(1 - t**2, 0.0))[:, None, None] * moved
    scale = noise.radius / noise.gain
    return Rule(scale * points.reshape(-1, len(rows)), np.multiply.outer(mass, across.weights).ravel())


@functools.lru_cache(maxsize=256)
def coordinate_of_direction(dimension: int, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return the Gauss rule of one coordinate of a uniform direction: of density (1 - t^2)^((dimension - 3)/2).

    Parameters
    ----------
    dimension : int
        Of the space that the direction lies in.
    nodes : int
        How many points; in one dimension there are two.
    """
    if dimension == 1:
        return np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    # The recurrence of Gegenbauer polynomials: beside the diagonal of zeros their coefficients.
    order = np.arange(1, nodes)
    a = (dimension - 2) / 2
    if dimension == 2:
        squares = np.where(order == 1, 0.5, 0.25)
    else:
        squares = order * (order + 2 * a - 1) / (4 * (order + a) * (order + a - 1))
    return gauss_rule(np.zeros(nodes), np.sqrt(squares))


def size(noise: AdditiveNoise | SphericalNoise | ZonalNoise, width: int, nodes: int) -> int:
    """Return how many points `rule`, or `around`, has at most."""
    if isinstance(noise, AdditiveNoise):
        return int(len(one_dimensional(noise, nodes)[1]) ** width)
    dimension = noise.dimension if isinstance(noise, ZonalNoise) else noise.ambient
    radial = len(noise.law.rule(dimension + 1)[0]) if isinstance(noise, ZonalNoise) else nodes
    return radial * math.prod(2 if dimension - place == 1 else nodes for place in range(width)) if width else 1


@functools.lru_cache(maxsize=64)
def hermite(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of the standard normal law: a search takes the same thousands of times."""
    t, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return _kept(t, weights / weights.sum())


@functools.lru_cache(maxsize=64)
def laguerre(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of the law exp(-t) of t >= 0."""
    t, weights = np.polynomial.laguerre.laggauss(nodes)
    return _kept(t, weights / weights.sum())


@functools.lru_cache(maxsize=64)
def tilted_laguerre(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of the law exp(-t) of t >= 0 for functions that grow nearly as fast as it falls.

    A Gauss-Laguerre rule of n points for the weight exp(-r t) integrates exp(-d t) with a relative error of the order
    of (abs(r - d)/(r + d))^(2 n). Functions that grow like exp(c t) have d = 1 - c: the usual rule, with r = 1, fails
    where d is small. Here r is as small as keeps d = 2 within 1e-9, and the last point where weights are numbers.

    Examples
    --------
    >>> t, weights = tilted_laguerre(64)
    >>> [round(float(weights @ np.exp(rate * t)) * (1 - rate), 5) for rate in (-1.0, 0.0, 0.9, 0.98)]
    [1.0, 1.0, 1.0, 1.0]
    """
    x, weights = gauss_rule(2.0 * np.arange(nodes, dtype=np.float64) + 1, np.arange(1, nodes, dtype=np.float64))
    left = _LEFT ** (1 / (2 * nodes))
    rate = min(1.0, max(2 * (1 - left) / (1 + left), float(x[-1]) / min(_FARTHEST, _PER_NODE * nodes)))
    t = x / rate
    tilted = weights * np.exp((rate - 1) * t)
    return _kept(t, tilted / tilted.sum())


def _kept(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return points and weights that all callers share."""
    points.flags.writeable = weights.flags.writeable = False
    return points, weights


@functools.lru_cache(maxsize=256)
def one_dimensional(noise: AdditiveNoise, nodes: int, *, far: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of one coordinate, read-only; they go further out where `far`.

    Raises
    ------
    NoExactCorrectionError
        The noise states no density, nor moments of all orders.
    """
    return _kept(*_of_coordinate(noise, nodes, far=far))


def _of_coordinate(noise: AdditiveNoise, nodes: int, *, far: bool) -> tuple[FloatArray, FloatArray]:
    """Return what `one_dimensional` keeps."""
    if noise.is_gaussian:
        t, weights = hermite(nodes)
        return math.sqrt(noise.variance) * t, weights
    if noise.density is None:
        found = moment_rule(noise, nodes)
        if found is None:
            raise NoExactCorrectionError(
                f"the noise states no density, and its characteristic function {noise.formula} no moments of all "
                "orders, so that nothing can be integrated over it. Give AdditiveNoise its density."
            )
        return found
    density = sp.lambdify(VALUE, noise.density, "numpy")
    if noise.step is not None:
        return _on_grid(noise, density, far=far)
    if noise.inverse_polynomial is not None and len(noise.inverse_polynomial) == 2:
        # Laplace noise, by its characteristic function.
        scale = math.sqrt(noise.inverse_polynomial[1])
        t, weights = tilted_laguerre(nodes) if far else laguerre(nodes)
        return np.concatenate([-scale * t[::-1], scale * t]), np.concatenate([weights[::-1], weights]) / 2
    return _by_pieces(noise, density, nodes)


def of_density(noise: AdditiveNoise) -> tuple[FloatArray, FloatArray]:
    """Return points of one coordinate, and weights of the declared density as they are: their sum is its mass.

    Unlike `one_dimensional` this asks the density, whatever the family of the characteristic function.

    Raises
    ------
    NoExactCorrectionError
        The noise states no density.
    """
    if noise.density is None:
        raise NoExactCorrectionError(
            "the noise states no density, so that nothing can be integrated over it. Give AdditiveNoise its density."
        )
    density = sp.lambdify(VALUE, noise.density, "numpy")
    return (
        _on_grid(noise, density, scaled=False)
        if noise.step is not None
        else _by_pieces(noise, density, 64, scaled=False)
    )


def _on_grid(
    noise: AdditiveNoise, density: Any, *, scaled: bool = True, far: bool = False
) -> tuple[FloatArray, FloatArray]:
    assert noise.step is not None
    reach = math.sqrt(noise.variance) / noise.step
    # Part of the tail rate is left for what grows: two-sided sums up to where both are negligible.
    if noise.tail_rate < math.inf:
        reach = -math.log(_NEGLIGIBLE) / (noise.tail_rate * noise.step) * (_FAR if far else 1.3)
    steps = min(_MOST_STEPS, math.ceil(max(reach, 8.0)))
    points: FloatArray = noise.step * np.arange(-steps, steps + 1, dtype=float)
    weights: FloatArray = np.array(np.broadcast_to(np.asarray(density(points), dtype=float), points.shape))
    return points, weights / weights.sum() if scaled else weights


def _by_pieces(noise: AdditiveNoise, density: Any, nodes: int, *, scaled: bool = True) -> tuple[FloatArray, FloatArray]:
    """Return a composite rule whose pieces end where the density jumps."""
    reach = 12.0 * math.sqrt(noise.variance)
    if noise.tail_rate < math.inf:
        reach = -math.log(_NEGLIGIBLE) / noise.tail_rate
    edges = {0.0, reach}
    for size in _jumps(noise):
        edges |= set(itertools.takewhile(lambda v: v < reach, (size[0] + k * size[1] for k in range(2000))))
    ordered = sorted(edges)
    t, w = np.polynomial.legendre.leggauss(max(nodes // 2, 6))
    points, weights = [], []
    for low, high in itertools.pairwise(ordered):
        points.append((low + high) / 2 + (high - low) / 2 * t)
        weights.append((high - low) / 2 * w)
    positive, measure = np.concatenate(points), np.concatenate(weights)
    points_all = np.concatenate([-positive[::-1], positive])
    weights_all = np.concatenate([measure[::-1], measure]) * np.asarray(density(points_all), dtype=float)
    return points_all, weights_all / weights_all.sum() if scaled else weights_all


def _jumps(noise: AdditiveNoise) -> list[tuple[float, float]]:
    """Return (first, period) of the places where a density jumps: read off its expression."""
    assert noise.density is not None
    found = []
    density = noise.density
    periods = [1 / float(node.args[0].coeff(sp.Abs(VALUE))) for node in density.atoms(sp.floor)]
    period = periods[0] if periods else math.inf
    for relation in density.atoms(sp.Rel):
        inside = (relation.lhs - relation.rhs).replace(sp.floor, lambda _: sp.Integer(0))
        slope = inside.coeff(sp.Abs(VALUE))
        if slope != 0:
            first = float(-inside.xreplace({sp.Abs(VALUE): sp.Integer(0)}) / slope)
            found.append((first, period if period < math.inf else 1e300))
    if period < math.inf:
        found.append((period, period))
    if not density.has(sp.floor) and not density.has(sp.Piecewise):
        scale = float(sp.sqrt(noise.variance))
        found.append((scale, scale))
    return found


def product(rules: Sequence[Rule]) -> Rule:
    """Return the rule of independent noises beside one another."""
    if not rules:
        return Rule(np.zeros((1, 0)), np.ones(1))
    if len(rules) == 1:
        return rules[0]
    places = np.indices([len(part.weights) for part in rules]).reshape(len(rules), -1)
    columns = np.concatenate([part.points[place] for part, place in zip(rules, places, strict=True)], axis=1)
    weights = np.prod([part.weights[place] for part, place in zip(rules, places, strict=True)], axis=0)
    return Rule(columns, weights)


def channel_rule(noise: ChannelNoise, code: int) -> Rule:
    """Return the codes of the outputs of a channel with their probabilities for one input."""
    return Rule(np.arange(len(noise.outputs), dtype=float)[:, None], np.array(noise.matrix[code]))
