import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, clipped_records
from sampling_statistics import LEVEL, both_tails, two_sided
from scipy import optimize, stats
from scipy.special import expit

import symdebias as sd
from symdebias.exceptions import ClippingWarning
from symdebias.mechanisms import sampling
from symdebias.privacy import analytic_gaussian_delta
from symdebias.solvers import regions
from symdebias.solvers.central import convex, grids
from symdebias.solvers.central.convex import convex_problem, minimiser

pytestmark = pytest.mark.newest

LOGISTIC = sd.losses.logistic()
SIGMOID = sd.Loss(sp.tanh(-U * Y), score=U, target=Y, target_values=(-1, 1))


def problem(loss, X, y, *, radius=None, target_bounds=None, fit_intercept=False):
    return convex_problem(
        loss, X, y, record_radius=1.0, target_bounds=target_bounds, fit_intercept=fit_intercept,
        adjacency="replace-one", radius=radius, why="",
    )  # fmt: skip


def reference(value, gradient, length, radius=None):
    """The minimiser by SciPy, within a ball by its trust region of constraints."""
    if radius is None:
        return optimize.minimize(value, np.zeros(length), jac=gradient, method="BFGS", options={"gtol": 1e-11}).x
    ball = {"type": "ineq", "fun": lambda t: radius**2 - t @ t, "jac": lambda t: -2 * t}
    found = optimize.minimize(
        value,
        np.zeros(length),
        jac=gradient,
        constraints=[ball],
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 500},
    )
    return found.x


# ---- the minimiser ---------------------------------------------------------------------------------------


@pytest.mark.in_turn
@pytest.mark.parametrize("radius", [None, 0.7])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_minimiser_is_that_of_an_independent_solver(radius, intercept):
    X, y = clipped_records()
    found = minimiser(
        problem(LOGISTIC, X, y, radius=radius, fit_intercept=intercept), ridge=0.05, linear=None, tolerance=1e-13
    )
    design = np.column_stack([X, np.ones(len(X))]) if intercept else X

    def value(t):
        return np.logaddexp(0, -y * (design @ t)).mean() + 0.025 * t @ t

    def gradient(t):
        return design.T @ (-y * expit(-y * (design @ t))) / len(y) + 0.05 * t

    np.testing.assert_allclose(found, reference(value, gradient, design.shape[1], radius), atol=1e-6)
    assert radius is None or np.linalg.norm(found) == pytest.approx(radius, rel=1e-15)


def test_least_squares_in_a_ball_in_closed_form():
    """(X'X/n + (l2 + mu) I) theta = X'y/n with mu >= 0 such that theta is on the sphere."""
    X, _ = clipped_records(seed=3)
    y = np.clip(X @ [2.0, -1.0], -1, 1)
    found = minimiser(
        problem(sd.losses.least_squares(), X, y, radius=0.5, target_bounds=(-1, 1)),
        ridge=0.1,
        linear=None,
        tolerance=1e-14,
    )
    gram, moment = X.T @ X / len(X), X.T @ y / len(X)

    def solved(mu):
        return np.linalg.solve(gram + (0.1 + mu) * np.eye(2), moment)

    mu = optimize.brentq(lambda mu: np.linalg.norm(solved(mu)) - 0.5, 0, 100, xtol=1e-14)
    np.testing.assert_allclose(found, solved(mu), atol=1e-11)


@pytest.mark.parametrize(
    "loss",
    [sd.losses.huber(0.3), pytest.param(sd.losses.quantile(0.8, 0.1), marks=pytest.mark.exhaustive)],
    ids=lambda loss: loss.name,
)
def test_the_minimiser_of_a_loss_with_jumps_in_its_curvature(loss):
    X, _ = clipped_records(seed=4)
    y = np.clip(X @ [2.0, -1.0], -1, 1)
    whole = problem(loss, X, y)
    found = minimiser(whole, ridge=1e-3, linear=np.array([0.02, -0.05]), tolerance=1e-13)
    gradient = whole.records.mean_gradient(found) + 1e-3 * found + [0.02, -0.05]
    assert np.abs(gradient).max() < 1e-12


def test_the_minimiser_of_squared_hinge():
    X, y = clipped_records(seed=5)
    found = minimiser(problem(sd.losses.squared_hinge(), X, y, radius=9.0), ridge=1e-3, linear=None, tolerance=1e-12)
    slack = np.maximum(0, 1 - y * (X @ found))
    assert np.abs(-(X * (y * slack)[:, None]).mean(axis=0) + 1e-3 * found).max() < 1e-11


@pytest.mark.parametrize(("inside", "left"), [(0.0, 0.0), (1e-12, 2.0)])
def test_a_point_within_the_ball_is_no_minimum_because_the_sphere_is_near(inside, left):
    """The noise covers what a gradient leaves: only on the sphere does an outward normal cancel a part of it."""
    theta = np.array([0.5 * (1 - inside), 0.0])
    assert convex._residual(theta, np.array([-2.0, 0.0]), regions.Ball(0.5)) == pytest.approx(left, abs=1e-15)


# ---- the sensitivity -------------------------------------------------------------------------------------


def exact_change(loss, rows, others, l2, *, radius=None, target_bounds=None):
    """How far the minimiser moves when the first of two rows is exchanged for the second."""
    X, y = others
    thetas = []
    for x, target in rows:
        stacked = problem(
            loss, np.vstack([X, [x]]), np.append(y, target), radius=radius, target_bounds=target_bounds
        )  # fmt: skip
        thetas.append(minimiser(stacked, ridge=l2, linear=None, tolerance=1e-13))
    return float(np.linalg.norm(thetas[0] - thetas[1]))


@pytest.mark.parametrize("radius", [None, 0.5, 1e3])
def test_the_bound_is_reached(radius):
    """Targets far off keep the slopes of the Huber loss at both thresholds, whatever theta: 2 G/(n l2) exactly."""
    n, l2, threshold = 8, 0.5, 0.25
    X, y = np.tile([[1.0], [-1.0]], (4, 1))[: n - 1], np.full(n - 1, 50.0)
    change = exact_change(
        sd.losses.huber(threshold), [([1.0], 50.0), ([1.0], -50.0)], (X, y), l2, radius=radius, target_bounds=(-50, 50)
    )
    assert change == pytest.approx(2 * threshold / (n * l2), rel=1e-9)
    fit = sd.output_perturbation(
        sd.losses.huber(threshold), np.vstack([X, [[1.0]]]), np.append(y, 50.0), epsilon=1.0, adjacency="replace-one",
        l2=l2, radius=radius, record_radius=1.0, target_bounds=(-50, 50), random_state=0,
    )  # fmt: skip
    assert change <= fit.diagnostics["sensitivity"] <= change * (1 + 1.1e-4)


def test_log_loss_comes_within_five_percent_of_the_bound():
    """Records (cos, -sin) and (-cos, -sin) beside a crowd at (0, 1), which has the weight of n - 1 rows.

    Both records are on the wrong side of the crowd's theta, so that their slopes are near 1, and their gradients are
    nearly opposite.
    """
    n, l2, angle = 1e12, 1e-11, 0.25

    def solved(x):
        def gradient(t):
            crowd = np.array([0, -expit(-t[1])]) * (n - 1) / n
            return (crowd - x * expit(-x @ t) / n + l2 * t) / l2

        return optimize.root(gradient, [0.0, 20.0], tol=1e-14).x

    moved = solved(np.array([math.cos(angle), -math.sin(angle)])) - solved(
        np.array([-math.cos(angle), -math.sin(angle)])
    )
    assert 0.95 < np.linalg.norm(moved) / (2 / (n * l2)) <= 1


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("loss", "bounds", "slope"),
    [
        (LOGISTIC, None, 1.0),
        (sd.losses.huber(0.4), (-1.0, 1.0), 0.4),
        (sd.losses.softmax(3), None, math.sqrt(2)),
    ],
    ids=["logistic", "huber", "softmax"],
)
@pytest.mark.parametrize("radius", [None, 0.3])
def test_no_exchanged_record_moves_the_minimiser_further(loss, bounds, slope, radius):
    rng = np.random.default_rng(7)
    n, l2 = 5, 0.1
    most = 0.0
    for _ in range(12):
        X = rng.normal(size=(n + 1, 2))
        X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.0001
        values = loss.target_values or bounds
        y = rng.choice(values, size=n + 1)
        rows = [(X[n - 1], y[n - 1]), (X[n], y[n])]
        change = exact_change(loss, rows, (X[: n - 1], y[: n - 1]), l2, radius=radius, target_bounds=bounds)
        assert change <= 2 * slope / (n * l2) * (1 + 1e-9)
        most = max(most, change / (2 * slope / (n * l2)))
    # They are no artificial records, and still come near.
    assert most > 0.05


# ---- the noise -------------------------------------------------------------------------------------------


def test_the_law_of_radial_noise():
    """Norm and direction by tests of a false-alarm rate of 1e-7 each.

    With 60,000 draws the norm's test sees a scale wrong by 1.5%, or a shape of 2 or 4 in place of 3; those of the
    direction a mean of .02, and a second moment wrong by 2%.
    """
    source = sampling.source(0)
    drawn = np.array([sampling.radial_noise(2.0, 3, source) for _ in range(60_000)])
    norms = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(norms, stats.gamma(3, scale=2.0).cdf).pvalue > LEVEL
    # Archimedes: a coordinate of a uniform point of the sphere is uniform.
    directions = drawn / norms[:, None]
    for coordinate in directions.T:
        assert stats.kstest(coordinate, stats.uniform(-1, 2).cdf).pvalue > LEVEL
    corr = [
        np.mean(directions[:, i] * directions[:, j]) * math.sqrt(15 * len(drawn)) for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    assert min(map(two_sided, corr)) > LEVEL
    assert two_sided(np.corrcoef(norms, directions[:, 0])[0, 1] * math.sqrt(len(drawn))) > LEVEL
    assert both_tails(stats.gamma(3 * len(drawn), scale=2.0), norms.sum()) > LEVEL


def test_radial_noise_of_one_parameter_is_laplace():
    source = sampling.source(1)
    drawn = np.array([sampling.radial_noise(0.5, 1, source)[0] for _ in range(60_000)])
    assert stats.kstest(drawn, stats.laplace(scale=0.5).cdf).pvalue > LEVEL


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_theta_is_the_minimiser_plus_the_stated_noise(delta):
    X, y = clipped_records()
    arguments = {"epsilon": 0.7, "delta": delta, "adjacency": "replace-one", "l2": 0.05, "record_radius": 1.0}
    fit = sd.output_perturbation(LOGISTIC, X, y, random_state=3, **arguments)
    scale, source = fit.diagnostics["noise_scale"], sampling.source(3)
    noise = sampling.normal_noise(scale, (2,), source) if delta else sampling.radial_noise(scale, 2, source)
    found = minimiser(problem(LOGISTIC, X, y), ridge=0.05, linear=None, tolerance=1e-13)
    np.testing.assert_allclose(fit.theta - noise, found, atol=1e-4 / (400 * 0.05))
    # By hand: G = 1, n = 400, l2 = 0.05, and 1e-4 for the accuracy.
    apart = 2 * 1.0001 / (400 * 0.05)
    # And two minimisers, each rounded by half a step of the grid per coordinate.
    sensitivity = apart + math.sqrt(2) * 2.0 ** math.floor(math.log2(apart / (2**20 * math.sqrt(2))))
    assert sensitivity <= fit.diagnostics["sensitivity"] <= sensitivity * (1 + 1e-12)
    if delta:
        assert analytic_gaussian_delta(0.7, scale, fit.diagnostics["sensitivity"]) <= delta
        assert analytic_gaussian_delta(0.7, scale * (1 - 1e-9), sensitivity) > delta
    else:
        assert scale == pytest.approx(sensitivity / 0.7, rel=1e-12)
        assert scale >= fit.diagnostics["sensitivity"] / 0.7
    assert fit.diagnostics["seeded"] is True
    assert not np.array_equal(sd.output_perturbation(LOGISTIC, X, y, **arguments).theta, fit.theta)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_hardened_noise_leaves_whole_steps_of_a_public_grid(delta):
    X, y = clipped_records(40)
    arguments = {"epsilon": 0.7, "delta": delta, "adjacency": "replace-one", "l2": 0.5, "record_radius": 1.0}
    step = 2.0 ** math.floor(math.log2(2 * 1.0001 / (40 * 0.5) / (2**20 * math.sqrt(2))))
    for noise in (None, "plain"):
        places = sd.output_perturbation(LOGISTIC, X, y, noise=noise, **arguments).theta / step
        assert np.array_equal(places, np.rint(places)) == (noise is None)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_law_of_hardened_noise(delta):
    """2,000 fits at a level of 1e-7 for each test: a scale wrong by 20% (radial) or 10% (normal) would be seen."""
    minimum, step, scale = np.array([0.123456, -0.2, 0.7]), 2.0**-20, 0.5
    source = sampling.source(None)
    drawn = np.array([grids.noised(minimum, step, scale, source, radial=delta == 0) for _ in range(2000)])
    places = drawn / step
    np.testing.assert_array_equal(places, np.rint(places))
    drawn -= step * np.rint(minimum / step)
    if delta:
        assert stats.kstest(drawn.ravel() / scale, stats.norm.cdf).pvalue > LEVEL
        assert both_tails(stats.chi2(drawn.size), float(np.sum((drawn / scale) ** 2))) > LEVEL
    else:
        norms = np.linalg.norm(drawn, axis=1)
        assert stats.kstest(norms, stats.gamma(3, scale=scale).cdf).pvalue > LEVEL
        assert stats.kstest((drawn / norms[:, None]).ravel()[::3], stats.uniform(-1, 2).cdf).pvalue > LEVEL


@pytest.mark.parametrize("width", [1, 3, 1000])
def test_rounding_moves_neighbours_by_no_more_than_is_counted(width):
    """In exact arithmetic, and nearly reached: each coordinate of one is rounded up, of the other down."""
    apart = 0.1
    step = grids.step_for(apart, width, reach=10.0)
    assert step * math.sqrt(width) <= apart * 2.0**-20
    below = np.full(width, 0.7)
    below = step * (np.floor(below / step) + 0.499)
    above = below + step * 0.002
    moved = step * (np.rint(above / step) - np.rint(below / step))
    square = sum(Fraction(float(part)) ** 2 for part in moved)
    exact = sum(Fraction(float(a)) ** 2 for a in above - below)
    assert square > Fraction(0.99 * step) ** 2 * width
    assert square <= Fraction(grids.widened(math.sqrt(exact), step, width)) ** 2
    # The reach decides where it must: places stay whole numbers of float64.
    assert 1e9 / grids.step_for(1e-9, width, reach=1e9) < 2**53


def test_what_lies_beyond_the_grid_is_refused():
    with pytest.raises(ArithmeticError, match=r"beyond 2\^53 steps"):
        grids.noised(np.array([2.0**60]), 1.0, 3.0, sampling.source(0), radial=False)


def test_an_intercept_is_penalised_and_counted_in():
    X, y = clipped_records()
    fit = sd.output_perturbation(
        LOGISTIC,
        X,
        y,
        epsilon=1.0,
        adjacency="replace-one",
        l2=0.1,
        record_radius=2.0,
        fit_intercept=True,
        random_state=0,
    )
    assert fit.diagnostics["slope"] == pytest.approx(math.sqrt(5), rel=1e-12)
    assert fit.theta.shape == (3,)
    # All targets alike: without a penalty on it the intercept would run away.
    tame = sd.output_perturbation(
        LOGISTIC, X, np.ones(len(X)), epsilon=700.0, adjacency="replace-one", l2=0.1, record_radius=1.0,
        fit_intercept=True, random_state=0,
    )  # fmt: skip
    assert np.linalg.norm(tame.theta) < 3


def test_parameters_stay_in_the_ball():
    X, y = clipped_records(50)
    fit = sd.output_perturbation(
        LOGISTIC, X, y, epsilon=0.1, adjacency="replace-one", l2=0.1, radius=0.5, record_radius=1.0, random_state=0
    )
    assert np.linalg.norm(fit.theta) <= 0.5 * (1 + 1e-15)
    assert fit.diagnostics["on_ball"] is True


def test_several_scores_are_noised_together():
    X, _ = clipped_records(300, 2)
    y = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    fit = sd.output_perturbation(
        sd.losses.softmax(3), X, y, epsilon=1.0, adjacency="replace-one", l2=0.1, record_radius=1.0, random_state=0
    )
    assert fit.theta.shape == (3, 2)
    assert fit.diagnostics["slope"] == pytest.approx(math.sqrt(2), rel=1e-9)


def test_the_guarantee_is_stated():
    X, y = clipped_records()
    fit = sd.output_perturbation(LOGISTIC, X, y, epsilon=1.0, adjacency="replace-one", l2=0.1, record_radius=1.0)
    assert fit.guarantee == sd.Guarantee(1.0, 0.0, "central", "replace-one")
    assert "output perturbation: noise of a density proportional to exp(-||b||/" in fit.guarantee.basis
    assert fit.claim is None
    assert fit.inference is None
    assert fit.diagnostics["seeded"] is False
    assert set(fit.diagnostics) == {
        "records", "steps", "seconds", "on_ball", "sensitivity", "noise_scale", "slope", "l2", "seeded", "hardened",
    }  # fmt: skip
    assert "(1, 0)-differential privacy (central, replace-one)" in fit.summary()
    with pytest.raises(ValueError, match="read-only"):
        fit.theta[0] = 0.0


def test_rows_are_shortened_before_anything_else():
    X, y = clipped_records()
    with pytest.warns(ClippingWarning):
        long = sd.output_perturbation(
            LOGISTIC, 100 * X, y, epsilon=1.0, adjacency="replace-one", l2=0.1, record_radius=0.5, random_state=0
        )
    assert long.diagnostics["slope"] == pytest.approx(0.5, rel=1e-12)


BAD = [
    ({"delta": -1e-9}, ValueError, "delta"),
    ({"l2": 0.0}, ValueError, "l2=0.0 is too small.*give a positive one"),
    ({"l2": math.nan}, ValueError, "l2=nan"),
    ({"l2": math.inf}, ValueError, "l2=inf"),
    ({"adjacency": "add-remove"}, ValueError, "would give it away"),
    ({"record_radius": None}, TypeError, "record_radius"),
    ({"loss": sd.losses.exponential()}, ValueError, "no Lipschitz constant on the whole line"),
    ({"loss": sd.losses.hinge()}, ValueError, "has a kink"),
    ({"loss": SIGMOID}, ValueError, "not proved to be convex"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "error", "message"), BAD, ids=lambda value: str(value)[:30])
def test_what_is_refused(change, error, message):
    X, y = clipped_records(4)
    given = {"loss": LOGISTIC, "epsilon": 1.0, "adjacency": "replace-one", "l2": 0.1, "record_radius": 1.0} | change
    with pytest.raises(error, match=message):
        sd.output_perturbation(given.pop("loss"), X, y, **given)
