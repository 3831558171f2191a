import itertools
import math
import warnings

import mpmath
import numpy as np
import pytest
from instances import U, Y, clipped_records
from scipy import optimize
from scipy.special import expit

import symdebias as sd
from symdebias.mechanisms import sampling
from symdebias.privacy import objective_noise_delta

pytestmark = pytest.mark.newest

LOGISTIC = sd.losses.logistic()
ADJACENCIES = ["replace-one", "add-remove"]


def fitted(loss=LOGISTIC, data=None, **options):
    X, y = clipped_records() if data is None else data
    arguments = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one", "record_radius": 1.0, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.exceptions.ClippingWarning)
        return sd.objective_perturbation(loss, X, y, **arguments | options)


@pytest.mark.in_turn
def test_labels_that_count_nothing_do_not_change_the_noise():
    """The loss of a third label is 0, whose gradients are those of rows of zeros."""
    X, y = clipped_records()
    against = LOGISTIC.against(1, -1, of=(-1, 0, 1))
    two, three = fitted(data=(X, y)), fitted(against, data=(X, y))
    assert three.diagnostics["noise_scale"] == pytest.approx(two.diagnostics["noise_scale"], rel=1e-9)
    np.testing.assert_allclose(three.theta, two.theta, rtol=1e-6)
    some = np.where(np.arange(len(y)) % 3 == 0, 0.0, y)
    alone = fitted(data=(X[some != 0], y[some != 0]))
    np.testing.assert_allclose(fitted(against, data=(X, some)).theta, alone.theta, rtol=1e-6)


# ---- the minimiser ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [None, 0.6])
@pytest.mark.parametrize("intercept", [False, True])
def test_theta_minimises_the_perturbed_objective(radius, intercept):
    X, y = clipped_records()
    fit = fitted(radius=radius, fit_intercept=intercept)
    design = np.column_stack([X, np.ones(len(X))]) if intercept else X
    d, penalty = design.shape[1], fit.diagnostics["penalty"]
    b = sampling.normal_noise(fit.diagnostics["noise_scale"], (d,), sampling.source(0))
    gradient = -design.T @ (y * expit(-y * (design @ fit.theta))) + penalty * fit.theta + b
    if radius is None:
        assert np.abs(gradient).max() < 1e-8
        assert fit.diagnostics["on_ball"] is False
    else:
        # On the sphere: the gradient points inwards, and along the radius.
        assert np.linalg.norm(fit.theta) == pytest.approx(radius, rel=1e-15)
        multiplier = -gradient @ fit.theta / radius**2
        assert multiplier > 0
        assert np.abs(gradient + multiplier * fit.theta).max() < 1e-8
        assert fit.diagnostics["on_ball"] is True


def test_least_squares_in_closed_form():
    """theta = (X'X + Delta I)^{-1} (X'y - b) inside the ball."""
    X, _ = clipped_records(seed=2)
    y = np.clip(X @ [0.3, -0.2], -1, 1)
    fit = fitted(sd.losses.least_squares(), (X, y), radius=30.0, target_bounds=(-1, 1), epsilon=50.0)
    b = sampling.normal_noise(fit.diagnostics["noise_scale"], (2,), sampling.source(0))
    wanted = np.linalg.solve(X.T @ X + fit.diagnostics["penalty"] * np.eye(2), X.T @ y - b)
    assert np.linalg.norm(wanted) < 30
    np.testing.assert_allclose(fit.theta, wanted, atol=1e-9)
    # By hand: |slope| <= 30 + 1 times a row of norm 1, and a curvature of 1.
    assert fit.diagnostics["slope"] == pytest.approx(31, rel=1e-9)
    assert fit.diagnostics["curvature"] == pytest.approx(1, rel=1e-9)
    assert fit.diagnostics["penalty"] == pytest.approx(2 / 50, rel=1e-9)


# ---- calibration -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_noise_and_penalty_by_hand(adjacency):
    """The log loss has lambda = 1/4 and zeta = 1: Delta = 1/(2 epsilon), epsilon_1 = log(1 + epsilon/2)."""
    fit = fitted(adjacency=adjacency)
    found = fit.diagnostics
    assert found["penalty"] == pytest.approx(0.5, rel=1e-12)
    assert found["curvature"] == pytest.approx(0.25, rel=1e-12)
    assert found["jacobian_epsilon"] == pytest.approx(math.log(1.5), rel=1e-12)
    left, scale = 1 - math.log(1.5), found["noise_scale"]
    # Independently, by mpmath: one fixed shift of 1, or the vertices 2, 1 and 1 of a parallelogram.
    lengths = [1] if adjacency == "add-remove" else [2, 1, 1]
    with mpmath.workdps(40):
        s = [mpmath.mpf(length) / scale for length in lengths]
        curve = sum(mpmath.ncdf(v / 2 - left / v) - mpmath.exp(left) * mpmath.ncdf(-v / 2 - left / v) for v in s)
    assert float(curve) == pytest.approx(1e-5, rel=1e-9)


def test_more_penalty_leaves_more_of_the_budget():
    scales = [fitted(penalty=penalty).diagnostics["noise_scale"] for penalty in (0.2, 0.5, 5.0, 500.0)]
    assert scales == sorted(scales, reverse=True)
    # In the limit the whole budget is the noise's.
    assert fitted(penalty=1e9).diagnostics["noise_scale"] == pytest.approx(7.461263, rel=1e-5)


def test_the_published_noise_and_what_it_guarantees():
    """sigma^2 = zeta^2 (8 log(2/delta) + 4 epsilon)/epsilon^2 keeps its budget for one record more or less only."""
    scale = math.sqrt(8 * math.log(2e5) + 4)
    exchanged = fitted(calibration="published")
    assert exchanged.diagnostics["noise_scale"] == pytest.approx(scale, rel=1e-12)
    assert exchanged.claim == sd.Guarantee(1.0, 1e-5, "central", "replace-one")
    assert exchanged.own_guarantee.epsilon == pytest.approx(1.12453, abs=1e-5)
    left = exchanged.own_guarantee.epsilon - exchanged.diagnostics["jacobian_epsilon"]
    slopes = [(0.0, 1.0)]
    assert objective_noise_delta(left, scale, slopes, adjacency="replace-one") == pytest.approx(1e-5, rel=1e-9)
    added = fitted(calibration="published", adjacency="add-remove")
    assert added.claim is None
    assert added.own_guarantee.epsilon == pytest.approx(0.743114, abs=1e-6)
    assert "(1, 1e-05)-differential privacy (central, replace-one)" in exchanged.summary()
    assert "by the source; not proved" in exchanged.summary()


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_determinants_change_by_what_the_budget_pays_for(adjacency):
    """By brute force over records of three parameters; one of the largest curvature, away from others, reaches it."""
    penalty = 0.3
    bound = math.exp(fitted(penalty=penalty, adjacency=adjacency).diagnostics["jacobian_epsilon"])
    rng = np.random.default_rng(0)

    def determinant(rows, w):
        hessian = penalty * np.eye(3)
        for x in rows:
            hessian = hessian + expit(w @ x) * expit(-w @ x) * np.outer(x, x)
        return np.linalg.det(hessian)

    # At w = 0 the curvature is 1/4; far out it is next to nothing, which is what an exchanged record needs.
    far, still = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    ratios = []
    for w in (np.zeros(3), np.array([0.0, 0.0, 40.0]), *rng.normal(size=(30, 3))):
        rows = rng.normal(size=(6, 3))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        for others in ([], [rows[0]], list(rows[:4])):
            for one, two in ((rows[4], rows[5]), (still, far)):
                left = determinant([*others, one], w)
                right = determinant(others if adjacency == "add-remove" else [*others, two], w)
                ratios += [left / right, right / left]
    assert max(ratios) <= bound * (1 + 1e-12)
    assert max(ratios) == pytest.approx(bound, rel=1e-9)


# ---- the privacy of the output, exactly -------------------------------------------------------------------


def density(w, data, slope, curvature, penalty, sigma):
    """The density of the minimiser of one parameter, by change of variables: phi(b(w)) |b'(w)|."""
    gradient = sum(x * slope(w * x, y) for x, y in data) + penalty * w
    hessian = sum(x * x * curvature(w * x, y) for x, y in data) + penalty
    return np.exp(-0.5 * (gradient / sigma) ** 2) / (math.sqrt(2 * math.pi) * sigma) * hessian


def spent(first, second, slope, curvature, penalty, sigma, epsilon):
    """Delta at epsilon between the outputs of two data sets, the larger one of both directions."""
    reach = (14 * sigma + 2 * len(first) + 5) / penalty
    # Where data curve the loss, w moves slowly: a grid that is fine around 0.
    w = np.sinh(np.linspace(-1, 1, 8_001) * math.asinh(50 * reach)) / 50
    p, q = (density(w, data, slope, curvature, penalty, sigma) for data in (first, second))
    assert np.trapezoid(p, w) == pytest.approx(1, abs=1e-3)
    return max(
        float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), w)),
        float(np.trapezoid(np.maximum(q - math.exp(epsilon) * p, 0), w)),
    )


# Slope and curvature by hand, the kinds of records, and how the loss is declared.
AUDITED = {
    "logistic": (LOGISTIC, {}, lambda u, y: -y * expit(-y * u), lambda u, y: expit(u) * expit(-u), (-1.0, 1.0)),
    "huber": (
        sd.losses.huber(0.5), {"target_bounds": (-40.0, 40.0)}, lambda u, y: np.clip(u - y, -0.5, 0.5),
        lambda u, y: 1.0 * (np.abs(u - y) < 0.5), (-40.0, 0.0, 40.0),
    ),
    "quantile": (
        sd.losses.quantile(0.9, 0.5), {"target_bounds": (-40.0, 40.0)}, lambda u, y: expit(2 * (u - y)) - 0.9,
        lambda u, y: 2 * expit(2 * (u - y)) * expit(2 * (y - u)), (-40.0, 0.0, 40.0),
    ),
}  # fmt: skip
BUDGETS = [(1.0, 1e-5), (3.0, 1e-3), (0.2, 1e-4)]


def neighbours(adjacency, targets):
    """Pairs of data sets: a record exchanged for another one, or left out, beside none or some others."""
    kinds = [(x, y) for x in (1.0, -1.0, 0.4) for y in targets]
    for others in ([], [(1.0, targets[0]), (-0.7, targets[-1]), (0.3, targets[0])]):
        if adjacency == "add-remove":
            yield from ((others, [*others, kind]) for kind in kinds)
        else:
            yield from (([*others, one], [*others, two]) for one, two in itertools.combinations(kinds, 2))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name == "quantile")) for name in AUDITED]
)
def test_no_pair_of_neighbours_spends_more_than_the_budget(name, adjacency):
    loss, options, slope, curvature, targets = AUDITED[name]
    for epsilon, delta in BUDGETS:
        data = np.array([[0.5], [-0.5]]), np.array([targets[0], targets[-1]])
        found = fitted(loss, data, epsilon=epsilon, delta=delta, adjacency=adjacency, **options).diagnostics
        arguments = (slope, curvature, found["penalty"])
        pairs = list(neighbours(adjacency, targets))
        worst = max(spent(*pair, *arguments, found["noise_scale"], epsilon) for pair in pairs)
        assert worst <= delta * (1 + 1e-3)
        # With much less noise some pair spends more: the audit can see it. On a line, no two records of the log loss
        # have gradients of norm 1 in opposite directions.
        assert max(spent(*pair, *arguments, found["noise_scale"] / 5, epsilon) for pair in pairs) > delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_with_a_large_penalty_the_calibration_is_tight(epsilon, delta):
    """The penalty takes nothing, and slopes at their bounds: half of the noise, or .9 of it, is not enough."""
    loss, options, slope, curvature, _ = AUDITED["huber"]
    data = np.array([[1.0], [1.0]]), np.array([40.0, -40.0])
    found = fitted(loss, data, epsilon=epsilon, delta=delta, penalty=1e4, **options).diagnostics
    pair = [(1.0, 40.0)], [(1.0, -40.0)]
    arguments = (slope, curvature, 1e4)
    worst = spent(*pair, *arguments, found["noise_scale"], epsilon)
    # Twice the fixed shift's delta, as signs are not known beforehand.
    assert 0.4 * delta <= worst <= delta * (1 + 1e-3)
    assert spent(*pair, *arguments, 0.9 * found["noise_scale"], epsilon) > delta
    assert spent(*pair, *arguments, 0.5 * found["noise_scale"], epsilon) > 10 * delta


def test_two_parameters_by_quadrature():
    """The density of two parameters on a grid, for an exchanged record at several angles."""
    epsilon, delta = 1.0, 1e-3
    found = fitted(epsilon=epsilon, delta=delta).diagnostics
    penalty = found["penalty"]

    def logarithm(data, sigma, w):
        gradient, hessian = penalty * w, np.zeros((*w.shape[:-1], 2, 2)) + penalty * np.eye(2)
        for x, y in data:
            z = y * np.asarray(x)
            margin = w @ z
            gradient = gradient - expit(-margin)[..., None] * z
            hessian = hessian + (expit(margin) * expit(-margin))[..., None, None] * np.outer(z, z)
        return -0.5 * (gradient**2).sum(axis=-1) / sigma**2 + np.log(np.linalg.det(hessian)) - 2 * math.log(sigma)

    def spent_by(first, second, sigma):
        side = np.linspace(-(5.5 * sigma + 4) / penalty, (5.5 * sigma + 4) / penalty, 321)
        w = np.stack(np.meshgrid(side, side), axis=-1)
        cell = (side[1] - side[0]) ** 2 / (2 * math.pi)
        p, q = (np.exp(logarithm(data, sigma, w)) * cell for data in (first, second))
        assert p.sum() == pytest.approx(1, abs=1e-4)
        return max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum())

    pairs = [
        ([(x, 1.0)], [((math.cos(angle), math.sin(angle)), target)])
        for x in [(1.0, 0.0)]
        for angle in (0.3, 1.5, 3.0)
        for target in (-1.0, 1.0)
    ]
    worst = max(spent_by(*pair, found["noise_scale"]) for pair in pairs)
    assert worst <= delta
    assert max(spent_by(*pair, found["noise_scale"] / 4) for pair in pairs) > delta


# ---- what is stated, and what is refused -------------------------------------------------------------------


def test_the_guarantee_is_stated():
    X, y = clipped_records()
    fit = sd.objective_perturbation(
        LOGISTIC, X, y, epsilon=1.0, delta=1e-5, adjacency="add-remove", record_radius=1.0
    )  # fmt: skip
    assert fit.guarantee == sd.Guarantee(1.0, 1e-5, "central", "add-remove")
    assert "objective perturbation: normal noise of" in fit.guarantee.basis
    assert "exact minimiser, our own calibration" in fit.guarantee.basis
    assert fit.claim is None
    assert fit.diagnostics["records"] is None
    assert "records      private\n" in fit.summary()
    assert fit.diagnostics["seeded"] is False
    assert fitted().diagnostics["records"] == 400
    assert set(fit.diagnostics) == {
        "records", "steps", "seconds", "on_ball", "noise_scale", "penalty", "slope", "curvature", "jacobian_epsilon",
        "calibration", "seeded", "hardened",
    }  # fmt: skip
    assert not np.array_equal(fitted(random_state=None).theta, fitted(random_state=None).theta)
    np.testing.assert_array_equal(fitted(random_state=5).theta, fitted(random_state=5).theta)


def test_every_parameter_is_noised():
    """Of 30 parameters none is that of another seed."""
    X, y = clipped_records(200, 30)
    first, second = (fitted(data=(X, y), random_state=seed).theta for seed in (1, 2))
    assert (np.abs(first - second) > 1e-6).all()


@pytest.mark.exhaustive
def test_the_bounds_of_a_loss_that_needs_a_ball():
    X, _ = clipped_records()
    counts = np.random.default_rng(0).poisson(1.0, len(X)).astype(float)
    fit = fitted(sd.losses.poisson(), (X, counts), radius=1.0, target_bounds=(0, 3))
    # Slopes from e^-1 - 3 to e, curvature up to e.
    assert fit.diagnostics["slope"] == pytest.approx(math.e, rel=1e-9)
    assert fit.diagnostics["curvature"] == pytest.approx(math.e, rel=1e-9)
    assert np.linalg.norm(fit.theta) <= 1 + 1e-12


BAD = [
    ({"penalty": 0.0}, ValueError, "penalty=0.0 is too small.*Leave it out"),
    ({"penalty": math.nan}, ValueError, "penalty=nan"),
    ({"penalty": 0.1}, ValueError, r"leaves nothing for the noise. It must be above 0.1454"),
    ({"penalty": 0.4, "calibration": "published"}, ValueError, "which the published calibration needs"),
    ({"calibration": "guessed"}, ValueError, "calibration='guessed' is not known"),
    ({"loss": sd.losses.softmax(3)}, ValueError, "not of rank one"),
    ({"loss": sd.losses.exponential()}, ValueError, "no Lipschitz constant on the whole line"),
    ({"loss": sd.losses.hinge()}, ValueError, "has a kink"),
    ({"loss": sd.Loss(-U * Y, score=U, target=Y, target_values=(-1, 1))}, ValueError, "no curvature"),
    ({"loss": sd.losses.poisson(), "radius": 1.0}, ValueError, "target_bounds="),
]  # fmt: skip


@pytest.mark.parametrize(("change", "error", "message"), BAD, ids=lambda value: str(value)[:30])
def test_what_is_refused(change, error, message):
    change = dict(change)
    with pytest.raises(error, match=message):
        fitted(change.pop("loss", LOGISTIC), clipped_records(4), **change)


def test_the_least_penalty_is_the_one_that_is_named():
    """lambda/(e^epsilon - 1)."""
    least = 0.25 / math.expm1(1.0)
    with pytest.raises(ValueError, match="leaves nothing"):
        fitted(penalty=least * (1 - 1e-9))
    assert fitted(penalty=least * 1.001).diagnostics["noise_scale"] > 100


@pytest.mark.exhaustive
def test_an_independent_solver_finds_the_same_minimum():
    X, y = clipped_records(60, 3, seed=9)
    fit = fitted(data=(X, y))
    b = sampling.normal_noise(fit.diagnostics["noise_scale"], (3,), sampling.source(0))

    def value(t):
        return np.logaddexp(0, -y * (X @ t)).sum() + 0.5 * fit.diagnostics["penalty"] * t @ t + b @ t

    found = optimize.minimize(value, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(fit.theta, found.x, rtol=1e-4)
