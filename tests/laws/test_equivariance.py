"""A change of unit of the released numbers, together with their noise, changes theta with them and nothing else.

Nor does a change of origin, with an intercept. Every solver that promises it is crossed with losses, exact and by
surrogate, and with mechanisms; l2 is 0, and no radius, start or step is given.
"""

import re
import warnings

import numpy as np
import pytest
import sympy as sp
from scipy.special import expit

import symdebias as sd

pytestmark = pytest.mark.newest

N = 4_000
SCALES = np.array([250.0, 0.004])
SHIFTS = np.array([900.0, -0.03])
SCORE, TARGET = sp.symbols("u y", real=True)


def records():
    rng = np.random.default_rng(7)
    X = np.stack([rng.gamma(4.0, 0.4, N) - 1.6, rng.uniform(-1.5, 1.5, N)], axis=1)
    score = X @ [0.9, -0.6] + 0.3
    return {
        "label": (X, np.where(rng.random(N) < expit(score), 1.0, -1.0)),
        "number": (X, score + 0.4 * rng.standard_t(4, N)),
        "count": (X, rng.poisson(np.exp(0.5 * score)).astype(float)),
    }


RECORDS = records()
LOSSES = {
    "logistic": (sd.losses.logistic(), "label"),
    "exponential": (sd.losses.exponential(), "label"),
    "squared margin": (sd.losses.squared_margin(), "label"),
    "squared hinge": (sd.losses.squared_hinge(), "label"),
    "huber": (sd.losses.huber(1.0), "number"),
    "least squares": (sd.losses.least_squares(), "number"),
    "poisson": (sd.losses.poisson(), "count"),
}
GAUSSIAN = lambda scale: sd.GaussianMechanism.from_scale(0.4 * scale)  # noqa: E731
LAPLACE = lambda scale: sd.LaplaceMechanism.from_scale(0.2 * scale)  # noqa: E731
MECHANISMS = {"Gaussian": (GAUSSIAN, GAUSSIAN), "Laplace": (LAPLACE, LAPLACE), "mixed": (GAUSSIAN, LAPLACE)}
SOLVERS = {
    "m_estimate": lambda corrected, X, y: sd.m_estimate(corrected, X, y),
    "sgd": lambda corrected, X, y: sd.sgd(corrected, X, y, average=0.5, batch_size=50, random_state=0),
}
# Pairs that share kernels with others, so that the table costs little; all others are left to the exhaustive run.
USUAL = {
    ("logistic", "Gaussian", "m_estimate"), ("logistic", "Gaussian", "sgd"), ("logistic", "Laplace", "m_estimate"),
    ("exponential", "Gaussian", "m_estimate"), ("huber", "Gaussian", "m_estimate"),
}  # fmt: skip
TABLE = [
    pytest.param(*key, marks=() if key in USUAL else pytest.mark.exhaustive)
    for key in ((loss, mechanism, solver) for loss in LOSSES for mechanism in MECHANISMS for solver in SOLVERS)
]


def fitted(loss, mechanism, solver, scales, shifts):
    """Return slopes and intercept in the first unit and origin, the fit, and what was warned of."""
    declared, kind = LOSSES[loss]
    X, y = RECORDS[kind]
    first, second = MECHANISMS[mechanism]
    release = sd.Release({"a": first(scales[0]), "b": second(scales[1])}, fit_intercept=True)
    # The noise is the same in other units: what is drawn is scaled, not drawn anew.
    noised = sd.Release({"a": first(1.0), "b": second(1.0)}).privatize(X, y, random_state=3)
    with warnings.catch_warnings(record=True) as said:
        # One short pass may hardly leave its start, and says so in every unit.
        warnings.simplefilter("always", sd.ConvergenceWarning)
        fit = SOLVERS[solver](sd.debias(declared, release), np.asarray(noised.X) * scales + shifts, y)
    slopes = fit.theta[:2] * scales
    return np.append(slopes, fit.theta[2] + fit.theta[:2] @ shifts), fit, [one.category for one in said]


@pytest.mark.in_turn
@pytest.mark.parametrize(("loss", "mechanism", "solver"), TABLE)
def test_units_and_origins_change_nothing(loss, mechanism, solver):
    plain, first, warned = fitted(loss, mechanism, solver, np.ones(2), np.zeros(2))
    scaled, second, warned_scaled = fitted(loss, mechanism, solver, SCALES, np.zeros(2))
    np.testing.assert_allclose(scaled, plain, rtol=1e-8, atol=1e-8)
    shifted, third, warned_shifted = fitted(loss, mechanism, solver, SCALES, SHIFTS)
    # A mean of 900 beside a spread of 250 costs digits.
    np.testing.assert_allclose(shifted, plain, rtol=1e-6, atol=1e-6)
    assert warned == warned_scaled == warned_shifted
    for fit in (second, third):
        assert fit.corrected.method == first.corrected.method
        for name in ("safeguards", "stages", "steps"):
            assert fit.diagnostics.get(name) == first.diagnostics.get(name)
        for name in ("carrying_share", "noise_inflation", "curvature"):
            assert fit.diagnostics[name] == pytest.approx(first.diagnostics[name], rel=1e-4)
        if solver == "m_estimate":
            np.testing.assert_allclose(fit.standard_errors[:2] * SCALES, first.standard_errors[:2], rtol=1e-5)
            np.testing.assert_allclose(fit.bias_bound[:2] * SCALES, first.bias_bound[:2], rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("scales", [[1e-6, 1e6], [1e12, 1e-12]])
def test_units_as_far_apart_as_numbers_go_change_nothing(scales):
    """Where rounding is that of the largest column, a share of noise is lost, or a Hessian seems to be indefinite."""
    plain, first, _ = fitted("logistic", "Gaussian", "m_estimate", np.ones(2), np.zeros(2))
    scaled, second, _ = fitted("logistic", "Gaussian", "m_estimate", np.array(scales), np.zeros(2))
    np.testing.assert_allclose(scaled, plain, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(second.standard_errors[:2] * scales, first.standard_errors[:2], rtol=1e-5)
    np.testing.assert_allclose(second.bias_bound[:2] * scales, first.bias_bound[:2], rtol=1e-4)


@pytest.mark.parametrize("scales", [[1e5, 1e-5], [1.0, 1e-3]])
def test_units_change_nothing_for_a_free_form_loss(scales):
    """Measured as they stand, curvatures of 1e20 and 1e-10 left the second parameter at 0, 30 standard errors off."""
    a, b, s, t, y = sp.symbols("a b s t y", real=True)
    loss = sd.Loss.of_features((s * a**2 + t * b - y) ** 2, features=[a, b], parameters=[s, t], target=y)
    X, y = RECORDS["number"]
    noised = sd.Release(GAUSSIAN(1.0)).privatize(X, y, random_state=3).X
    found = []
    for units in (np.ones(2), np.array(scales)):
        release = sd.Release(sd.GaussianMechanism.from_scale((0.4 * units).tolist()))
        fit = sd.m_estimate(sd.debias(loss, release), noised * units, 100 * y)
        found.append(np.stack([fit.theta, fit.standard_errors]) * [units[0] ** 2, units[1]])
        assert fit.diagnostics["curvature"] > 5
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6)


def test_the_unit_of_the_target_changes_no_interval_of_a_free_form_loss():
    """Steps of differences were long beside a loss of 1e-8: the curvature seemed certain, and ends were nearer."""
    x, a, b, y = sp.symbols("x a b y", real=True)
    rng = np.random.default_rng(4)
    X = rng.normal(size=300)
    target = 2 * np.exp(-0.5 * X) + 0.7 * rng.normal(size=300)
    noised = (X + 0.3 * rng.normal(size=300))[:, None]
    loss = sd.Loss.of_features((y - a * sp.exp(-b * x)) ** 2 / 2, features=[x], parameters=[a, b], target=y)
    corrected = sd.debias(loss, sd.Release({"x": sd.GaussianMechanism.from_scale(0.3)}))
    plain = sd.m_estimate(corrected, noised, target)
    fit = sd.m_estimate(corrected, noised, 1e-4 * target)
    assert fit.diagnostics["curvature"] == pytest.approx(plain.diagnostics["curvature"], rel=1e-6)
    ends = fit.confidence_interval() * [[1e4], [1.0]]
    np.testing.assert_allclose(ends, plain.confidence_interval(), rtol=1e-6)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "method", ["naive", "regression_calibration", "simex", "conditional_score", "monte_carlo_score"]
)
@pytest.mark.parametrize("scales", [[250.0, 0.004], [1e6, 1e-6]])
def test_units_change_nothing_for_methods_of_the_literature(method, scales):
    """Beside a column in units 1e6 times as large the noise was left as it was, and draws went to other columns."""
    X, y = RECORDS["count"]
    noised = sd.Release(GAUSSIAN(1.0)).privatize(X, y, random_state=3).X
    fit = getattr(sd.literature, method)
    options = {"random_state": 0} if method in ("simex", "monte_carlo_score") else {}
    found = []
    for units in (np.ones(2), np.array(scales)):
        noise = np.diag(0.16 * units**2)
        noise[0, 1] = noise[1, 0] = 0.05 * units[0] * units[1]
        release = sd.Release(sd.GaussianMechanism.from_covariance(noise), fit_intercept=True)
        one = fit(sd.losses.poisson(), release, noised * units, y, **options)
        found.append(np.stack([one.theta, one.standard_errors]) * np.append(units, 1.0))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-7, atol=1e-9)


QUARTIC = lambda unit: sd.Loss(  # noqa: E731
    (SCORE - TARGET) ** 4 / 4 + sp.nsimplify(unit, rational=True) ** 2 * (SCORE - TARGET) ** 2 / 2,
    score=SCORE, target=TARGET,
)  # fmt: skip
SCORE_FITS = {
    "least squares": (lambda unit: sd.losses.least_squares(), "number", sd.literature.monte_carlo_score),
    "quartic": (QUARTIC, "number", sd.literature.monte_carlo_score),
    "exponential": (lambda unit: sd.losses.exponential(), "label", sd.literature.monte_carlo_score),
    "logistic": (lambda unit: sd.losses.logistic(), "label", sd.literature.conditional_score),
    "poisson": (lambda unit: sd.losses.poisson(), "count", sd.literature.conditional_score),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [1, 5])
@pytest.mark.parametrize("loss", list(SCORE_FITS))
def test_units_decide_no_root_of_a_score(loss, seed):
    """How far a root lies is told in the target's unit, and how far first steps of a search go in the gradient's."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    score = X @ [0.9, -0.6] + 0.3
    targets = {
        "number": score + 0.5 * rng.normal(size=40),
        "label": np.where(rng.random(40) < expit(score), 1.0, -1.0),
        "count": rng.poisson(np.exp(0.5 * score)).astype(float),
    }
    noised = X + 1.2 * rng.normal(size=X.shape)
    declared, kind, fit = SCORE_FITS[loss]
    options = {} if fit is sd.literature.conditional_score else {"random_state": 0}
    found = []
    for unit in (1.0, 1e-6, 1e6) if kind == "number" else (1.0,):
        for units in (np.ones(2), np.full(2, 1e-6), np.full(2, 1e6), np.array([1e6, 1e-6])):
            release = sd.Release({name: GAUSSIAN(3 * scale) for name, scale in zip("ab", units, strict=True)})
            try:
                one = fit(declared(unit), release, noised * units, unit * targets[kind], **options)
                found.append(np.stack([one.theta, one.standard_errors]) * units / unit)
            except sd.DivergenceError as error:
                # What is said of numbers in the units of the data is compared without them.
                found.append(re.sub(r"[\d.e+-]+", "", str(error)))
    for other in found[1:]:
        if isinstance(found[0], str):
            assert other == found[0]
        else:
            np.testing.assert_allclose(other, found[0], rtol=1e-6, atol=1e-9)


def of_labels(low, high):
    """Return the log loss of labels of two values."""
    margin = (2 * TARGET - (low + high)) / (high - low)
    return sd.Loss(sp.log(1 + sp.exp(-margin * SCORE)), score=SCORE, target=TARGET, target_values=(low, high))


@pytest.mark.in_turn
@pytest.mark.parametrize("epsilon", [None, 2.0])
@pytest.mark.parametrize("draw", ["normal", "heavy tails", "weights"])
def test_codes_of_labels_change_nothing_under_a_surrogate(draw, epsilon):
    """Labels 0 and 1 had a surrogate for the loss of the one, not for what both have in common: it counted for steeper,
    took another dial, and estimates were up to .17 standard errors apart, ends of intervals .3.
    """
    rng = np.random.default_rng(1)
    X = rng.standard_t(2.5, size=(800, 2)) if draw == "heavy tails" else rng.normal(size=(800, 2))
    noised = X + rng.normal(size=X.shape)
    y = np.where(rng.random(800) < expit(X @ [0.9, -0.6] + 0.3), 1.0, 0.0)
    weights = rng.exponential(size=800) if draw == "weights" else None
    if epsilon:
        y = np.where(rng.random(800) < expit(-epsilon), 1 - y, y)
    found = []
    for low, high in ((-1, 1), (0, 1), (1, 2)):
        mechanism = sd.RandomizedResponse(epsilon=epsilon, categories=(low, high)) if epsilon else None
        release = sd.Release({"a": GAUSSIAN(2.5), "b": GAUSSIAN(2.5)}, mechanism, fit_intercept=True)
        corrected = sd.debias(of_labels(low, high), release)
        fit = sd.m_estimate(corrected, noised, low + (high - low) * y, sample_weight=weights)
        found.append(np.column_stack([fit.theta, fit.standard_errors, fit.bias_bound, fit.confidence_interval()]))
        assert fit.corrected.method == "surrogate"
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-5, atol=1e-6)


LOCATION, LOG_SCALE = sp.symbols("m s", real=True)
HETEROSCEDASTIC = sd.Loss(
    LOG_SCALE + (TARGET - LOCATION) ** 2 * sp.exp(-2 * LOG_SCALE) / 2, score=(LOCATION, LOG_SCALE), target=TARGET
)


@pytest.mark.in_turn
@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_units_of_the_target_change_nothing_for_a_location_and_a_log_scale(scale):
    """With one metric for both scores the curvature of the one hid that of the other: with targets of 1e-8 steps of the
    log scale came out as short, and a fit three off was taken, or the curvature was said to be noise.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000, 2))
    y = X @ [0.9, -0.6] + 0.3 + np.exp(X @ [0.2, -0.3] - 0.5) * rng.normal(size=1_000)
    noised, found = X + scale * rng.normal(size=X.shape), []
    for unit, units in [
        (1.0, [1.0, 1.0]),
        (1e-4, [1.0, 1.0]),
        (1e-8, [1.0, 1.0]),
        (1e8, [1.0, 1.0]),
        (1e8, [1e8, 1e-8]),
    ]:
        mechanisms = (
            {name: sd.GaussianMechanism.from_scale(scale * of) for name, of in zip("ab", units, strict=True)}
            if scale
            else None
        )
        release = sd.Release(mechanisms, noiseless=() if scale else ("a", "b"), fit_intercept=True)
        fit = sd.m_estimate(sd.debias(HETEROSCEDASTIC, release), noised * units, unit * y)
        own = np.array([1 / unit, 1.0])[:, None] * np.append(units, 1.0)
        theta = fit.theta * own - [[0, 0, 0], [0, 0, np.log(unit)]]
        found.append((np.stack([theta, fit.standard_errors * own]), fit.diagnostics["curvature"]))
    for other, curvature in found[1:]:
        np.testing.assert_allclose(other, found[0][0], rtol=1e-5, atol=1e-7)
        assert curvature == pytest.approx(found[0][1], rel=1e-3)


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [12, 31])
def test_a_location_that_varies_by_much_leads_to_its_log_scale_in_every_unit(seed):
    """From the best constants at once Newton's steps found nothing, so that targets in millionths were refused."""
    rng, found = np.random.default_rng(seed), []
    X = rng.uniform(-1.7, 1.7, (5_000, 2))
    y = X @ [2.5, -1.5] + 1 + np.exp(X @ [0.4, -0.5] - 0.3) * rng.normal(size=5_000)
    noised = X + 0.5 * rng.normal(size=X.shape)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), fit_intercept=True)
    for unit, start in [(1.0, "zero"), (1e-6, "score by score")]:
        fit = sd.m_estimate(sd.debias(HETEROSCEDASTIC, release), noised, unit * y)
        assert fit.diagnostics["start"] == start
        found.append(fit.theta * [[1 / unit], [1]] - [[0, 0, 0], [0, 0, np.log(unit)]])
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


def test_what_classes_have_in_common_is_0_in_all_units():
    """Equations in mixed units left it to the rounding of large columns: of the small one it was .004."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000, 2))
    y = rng.integers(0, 3, 1_000)
    units = np.array([1e8, 1e-8])
    release = sd.Release(None, noiseless=("a", "b"))
    plain, fit = (sd.m_estimate(sd.debias(sd.losses.softmax(3), release), X * of, y) for of in (np.ones(2), units))
    np.testing.assert_allclose(fit.theta * units, plain.theta, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose((fit.theta * units).sum(axis=0), 0, atol=1e-9)


@pytest.mark.in_turn
def test_what_the_table_would_see():
    """A start, a tolerance or a step in the units of the data breaks it: a step of one size does."""
    X, y = RECORDS["label"]
    release = sd.Release({"a": GAUSSIAN(1.0), "b": GAUSSIAN(1.0)}, fit_intercept=True)
    wide = sd.Release({"a": GAUSSIAN(2.0), "b": GAUSSIAN(1.0)}, fit_intercept=True)
    options = {"step_size": 0.1, "batch_size": 50, "random_state": 0}
    first = sd.sgd(sd.debias(sd.losses.exponential(), release), X, y, **options).theta
    second = sd.sgd(sd.debias(sd.losses.exponential(), wide), X * [2.0, 1.0], y, **options).theta
    assert abs(2 * second[0] - first[0]) > 1e-3


@pytest.mark.in_turn
@pytest.mark.parametrize("solver", list(SOLVERS))
@pytest.mark.parametrize(
    ("loss", "is_noised"),
    [
        ("huber", True),
        *(
            pytest.param(loss, is_noised, marks=pytest.mark.exhaustive)
            for loss in ("huber", "cauchy", "quantile", "expectile", "declared", "without slope about 0")
            for is_noised in (True, False)
            if (loss, is_noised) != ("huber", True)
        ),
    ],
)
def test_units_of_the_target_change_nothing(loss, is_noised, solver):
    """A target in thousandths or in ten thousands, its loss and its noise with it: all else in the same proportion."""
    u, y = sp.symbols("u y", real=True)
    losses = {
        "huber": sd.losses.huber,
        "cauchy": sd.losses.cauchy,
        "quantile": lambda width: sd.losses.quantile(0.7, width),
        "expectile": lambda width: sd.losses.expectile(0.7),
        "declared": lambda width: sd.Loss(
            sp.nsimplify(width, rational=True) * sp.sqrt((y - u) ** 2 + sp.nsimplify(width, rational=True) ** 2),
            score=u, target=y,
        ),
        "without slope about 0": lambda width: sd.Loss(
            sp.Max(0, sp.Abs(y - u) - sp.nsimplify(width, rational=True)), score=u, target=y
        ),
    }  # fmt: skip
    X, target = RECORDS["number"]
    found = []
    for unit in (1.0, 1e4, 1e-3):
        noise = sd.GaussianMechanism.from_scale(0.5 * unit) if is_noised else None
        noised = sd.Release(GAUSSIAN(1.0), noise).privatize(X, unit * target, random_state=3)
        corrected = sd.debias(losses[loss](0.7 * unit), noised.release)
        fit = SOLVERS[solver](corrected, noised.X, noised.y)
        sizes = [fit.theta / unit]
        if solver == "m_estimate":
            sizes += [fit.standard_errors / unit, fit.bias_bound / unit, [fit.corrected.design.waves]]
        found.append(np.concatenate(sizes))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-5, atol=1e-7)


RESIDUAL = sd.Loss((SCORE - TARGET) ** 4 / 4, score=SCORE, target=TARGET)


@pytest.mark.in_turn
@pytest.mark.parametrize("covariance", [[0.16, 0.03, 0.09], [0.16, 0.0, 0.09], [0.16, 0.0, 0.0]])
@pytest.mark.parametrize("loss", [sd.losses.poisson(), RESIDUAL])
def test_units_of_a_group_do_not_choose_the_correction_of_a_metric(covariance, loss):
    """Each column was looked at with the noise of that in the largest units, and one without noise with infinitely
    much: the Poisson loss had a surrogate there, where it has an exact correction.
    """
    first, both, second = covariance
    noise = np.array([[first, both], [both, second]])
    theta, kind = np.array([0.5, -0.3]), "count" if loss.name == "poisson" else "number"
    X, y = RECORDS[kind]
    noised = X + np.random.default_rng(1).multivariate_normal([0.0, 0.0], noise, size=len(X))
    found = []
    for units in (np.ones(2), SCALES, np.array([30.0, 1.0])):
        release = sd.Release(sd.GaussianMechanism.from_covariance(noise * np.multiply.outer(units, units)))
        found.append(sd.evaluation.evaluate(theta / units, noised * units, y, metric=loss, release=release))
    assert {one.method for one in found} == {"exact"}
    for one in found[1:]:
        assert one.value == pytest.approx(found[0].value, rel=1e-9)
        assert one.standard_error == pytest.approx(found[0].standard_error, rel=1e-9)
