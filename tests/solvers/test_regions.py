"""The minimum of a quadratic over a ball: convex, singular, indefinite and hard, by its conditions and by search."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from symdebias._domains import POSITIVE
from symdebias.solvers import minimise_in_ball, regions


def value(G, b, w):
    return w @ G @ w / 2 - b @ w


def conditions(G, b, radius, found):
    """What characterises the global minimum, in units of its terms."""
    unit = max(np.abs(G).max(), np.abs(b).max() / radius, 1e-300)
    G, b, w, mu = G / unit, b / unit, found.w, found.multiplier / unit
    size = np.linalg.norm(G @ w) + mu * np.linalg.norm(w) + np.linalg.norm(b) + 1e-300
    assert np.linalg.norm(G @ w + mu * w - b) <= 1e-9 * size
    assert np.linalg.norm(w) <= radius * (1 + 1e-12)
    assert mu >= 0
    assert np.linalg.eigvalsh(G)[0] + mu >= -1e-9 * max(1e-300, np.abs(G).max())
    assert mu == 0 or np.linalg.norm(w) == pytest.approx(radius, rel=1e-12)
    assert found.on_ball == (np.linalg.norm(w) >= radius * (1 - 1e-10))


# Name: matrix, vector, radius, minimiser (None where only the conditions are checked), multiplier.
CASES = {
    "inside": ([[2, 0], [0, 1]], [2, 1], 5.0, [1, 1], 0.0),
    "on the sphere": ([[1, 0], [0, 1]], [3, 4], 1.0, [0.6, 0.8], 4.0),
    "just reaching it": ([[1, 0], [0, 1]], [0.6, 0.8], 1.0, [0.6, 0.8], 0.0),
    "singular, solvable": ([[1, 0], [0, 0]], [0.5, 0], 1.0, [0.5, 0], 0.0),
    "singular, not solvable": ([[1, 0], [0, 0]], [0, 3], 2.0, [0, 2], 1.5),
    "singular, hardly not solvable": ([[1, 0], [0, 0]], [0, 1e-20], 2.0, [0, 2], 5e-21),
    "zero matrix": ([[0, 0], [0, 0]], [3, 4], 10.0, [6, 8], 0.5),
    "zero vector": ([[1, 0], [0, 2]], [0, 0], 1.0, [0, 0], 0.0),
    "nothing": ([[0, 0], [0, 0]], [0, 0], 1.0, [0, 0], 0.0),
    "indefinite": ([[-1, 0], [0, 1]], [1, 0], 2.0, [2, 0], 1.5),
    "negative": ([[-3]], [0], 2.0, None, 3.0),
    "hard": ([[-1, 0], [0, 1]], [0, 2], 2.0, None, 1.0),
    "hard, of two equal eigenvalues": ([[-2, 0, 0], [0, -2, 0], [0, 0, 2]], [0, 0, 2], 1.0, None, 2.0),
    "hard, with the vector too long": ([[-1, 0], [0, 1]], [0, 9], 2.0, [0, 2], 3.5),
    "hardly hard": ([[-1, 0], [0, 1]], [1e-13, 2], 2.0, None, 1.0),
    "far apart": ([[1e6, 0], [0, 1e-4]], [1e6, 1e-4], 10.0, [1, 1], 0.0),
    "tiny": ([[2e-200, 0], [0, 1e-200]], [2e-200, 1e-200], 5.0, [1, 1], 0.0),
    "huge": ([[2e200, 0], [0, 1e200]], [2e200, 1e200], 5.0, [1, 1], 0.0),
    "one": ([[4]], [2], 1.0, [0.5], 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_by_hand(name):
    matrix, vector, radius, wanted, multiplier = CASES[name]
    G, b = np.array(matrix, dtype=float), np.array(vector, dtype=float)
    found = minimise_in_ball(G, b, radius)
    conditions(G, b, radius, found)
    assert found.multiplier == pytest.approx(multiplier, rel=1e-9, abs=1e-12 if multiplier > 1e-9 else 1e-300)
    if wanted is not None:
        np.testing.assert_allclose(found.w, wanted, rtol=1e-9, atol=1e-12)
    if name.startswith("hard"):
        assert found.on_ball


@pytest.mark.parametrize("seed", range(12))
def test_in_the_plane_no_point_of_a_fine_mesh_is_better(seed):
    """The circle at 40,001 angles and the disc at 250 radii of 500 of them."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    G = turn @ np.diag([[1, 3], [-1, 2], [-2, -1], [0, 1]][seed % 4]) @ turn.T
    b = rng.normal(size=2) * 10.0 ** rng.uniform(-2, 1)
    if seed % 3 == 0:
        # The hard case, or a solvable singular one.
        b = turn[:, 1] * (turn[:, 1] @ b)
    found = minimise_in_ball(G, b, 1.3)
    conditions(G, b, 1.3, found)
    angles = np.linspace(0, 2 * np.pi, 40_001)
    circle = 1.3 * np.stack([np.cos(angles), np.sin(angles)])
    disc = np.concatenate([circle] + [circle[:, ::80] * share for share in np.linspace(0, 1, 250)], axis=1)
    values = np.einsum("ij,ik,kj->j", disc, G, disc) / 2 - b @ disc
    best = value(G, b, found.w)
    assert best <= values.min() + 1e-12
    assert best >= values.min() - 1e-4 * (1 + abs(best))


@pytest.mark.in_turn
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(-6, 6), st.floats(-3, 3))
def test_laws(seed, d, spread, size):
    """The conditions hold, turning turns, scaling scales, and random points are no better."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    values = rng.choice([-1.0, 0.0, 1.0, 1.0], size=d) * 10.0 ** (spread * rng.random(d))
    G = turn @ np.diag(values) @ turn.T
    G = (G + G.T) / 2
    b = turn @ (rng.normal(size=d) * rng.choice([0.0, 1.0], size=d)) * 10.0**size
    radius = 10.0 ** rng.uniform(-2, 2)
    found = minimise_in_ball(G, b, radius)
    conditions(G, b, radius, found)
    best = value(G, b, found.w)
    points = rng.normal(size=(200, d))
    points *= radius * rng.random((200, 1)) ** (1 / d) / np.linalg.norm(points, axis=1, keepdims=True)
    scale = np.abs(G).max() * radius**2 + np.abs(b).max() * radius
    assert all(best <= value(G, b, point) + 1e-9 * scale for point in points)
    again = minimise_in_ball(turn.T @ G @ turn, turn.T @ b, radius)
    assert value(turn.T @ G @ turn, turn.T @ b, again.w) == pytest.approx(best, abs=1e-8 * scale)
    twice = minimise_in_ball(2 * G, 2 * b, radius)
    assert twice.multiplier == pytest.approx(2 * found.multiplier, rel=1e-6, abs=1e-9 * np.abs(G).max())
    shorter = minimise_in_ball(G, b, radius / 2)
    assert value(G, b, shorter.w) >= best - 1e-9 * scale


@pytest.mark.parametrize("reach", [0.01, 0.5, 100.0])
@pytest.mark.parametrize("spread", [3, 6, 8])
def test_mixed_units_have_the_minimum_of_exact_arithmetic(spread, reach):
    """Parameters 10^(2 spread) apart in size, with 60 digits: inside the ball and on it, in units of each."""
    rng = np.random.default_rng(spread)
    sizes = 10.0 ** np.linspace(-spread, spread, 3)
    root = rng.normal(size=(20, 3))
    G = root.T @ root / 20 * np.outer(sizes, sizes)
    G = (G + G.T) / 2
    b = G @ (rng.normal(size=3) / sizes)
    with mpmath.workdps(60):
        matrix, vector = mpmath.matrix(G.tolist()), mpmath.matrix(b.tolist())
        free = mpmath.lu_solve(matrix, vector)
        radius = float(reach * mpmath.norm(free))
        low, high = mpmath.mpf(0), mpmath.norm(vector) / radius
        for _ in range(250 if reach < 1 else 0):
            middle = (low + high) / 2
            longer = mpmath.norm(mpmath.lu_solve(matrix + middle * mpmath.eye(3), vector)) > radius
            low, high = (middle, high) if longer else (low, middle)
        multiplier = low if reach < 1 else mpmath.mpf(0)
        wanted = np.array([float(x) for x in mpmath.lu_solve(matrix + multiplier * mpmath.eye(3), vector)])
    found = minimise_in_ball(G, b, radius)
    np.testing.assert_allclose(found.w, wanted, rtol=1e-7)
    assert found.multiplier == pytest.approx(float(multiplier), rel=1e-7)
    assert found.on_ball == (reach < 1)


def test_a_wrong_minimum_is_never_returned(monkeypatch):
    """The conditions are what is returned, not hoped for: planted errors of one way leave the other, or raise."""
    matrices = {"_by_components": [[1.0, 0.0], [0.0, 2.0]], "_solve": [[1.0, 0.0], [0.0, 0.0]]}
    for (name, matrix), linear in itertools.product(matrices.items(), ([3.0, 4.0], [0.3, 0.4])):
        solve, right = getattr(regions, name), minimise_in_ball(matrix, linear, 1.0).w
        for change in (lambda w, mu: (w * 1.001, mu), lambda w, mu: (w, mu + 0.1), lambda w, mu: (-w, mu)):
            monkeypatch.setattr(regions, name, lambda *given, solve=solve, change=change: change(*solve(*given)))
            if name == "_by_components":
                np.testing.assert_allclose(minimise_in_ball(matrix, linear, 1.0).w, right, rtol=1e-12)
                continue
            with pytest.raises(ArithmeticError, match="minimum over the ball was not found"):
                minimise_in_ball(matrix, linear, 1.0)
        monkeypatch.setattr(regions, name, solve)


GOOD = {"matrix": [[1.0, 0.0], [0.0, 1.0]], "linear": [1.0, 1.0], "radius": 1.0}
BAD = [
    ({"matrix": [[1.0, 0.5], [0.0, 1.0]]}, "not symmetric"),
    ({"matrix": [[1.0]]}, "must be"),
    ({"matrix": [[math.nan, 0.0], [0.0, 1.0]]}, "matrix"),
    ({"linear": [math.inf, 0.0]}, "linear"),
    ({"linear": [[1.0, 1.0]]}, "must be"),
    ({"linear": ["a", "b"]}, "linear"),
    ({"linear": []}, "linear"),
    *[({"radius": radius}, "radius") for radius in POSITIVE.outside()],
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        minimise_in_ball(**{**GOOD, **change})


@pytest.mark.parametrize("unit", [1.0, 1e8, 1e16, 1e24])
def test_bounds_hold_the_minimum_in_columns_of_units_far_apart(unit):
    rng = np.random.default_rng(0)
    rows, units = rng.normal(size=(50, 3)), np.array([unit, 1.0, 1 / unit])
    rows[:, 1] += 0.8 * rows[:, 0]
    wanted = rows @ [1.0, -0.5, 0.2] + rng.normal(size=50)
    bounds = np.full(3, 0.3)
    inside = optimize.lsq_linear(rows, wanted, (-bounds, bounds), tol=1e-14).x
    scaled = rows * units
    box = regions.Box(-bounds / units, bounds / units)
    found = box.minimiser(np.zeros(3), -scaled.T @ wanted, scaled.T @ scaled)
    # Without bounds the first and the second are beyond them.
    np.testing.assert_allclose(found * units, inside, atol=1e-9)
    assert box.on_boundary(found)
