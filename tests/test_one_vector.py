"""Losses under releases of features and target in one vector: which qualify, and what fits make of them."""

import functools
import math

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, logistic_records
from scipy import stats

import symdebias as sd
from symdebias.derivation import is_margin_loss
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses.meaning import is_residual_loss

SIGMA, C = 0.6, 0.7
MARGIN = sd.Release(sd.GaussianMechanism.from_scale(SIGMA), target="margin")
WITH_INTERCEPT = sd.Release(sd.GaussianMechanism.from_scale(SIGMA), target="margin", fit_intercept=True, target_scale=C)
JOINT = sd.Release(
    sd.GaussianMechanism.from_scale(SIGMA), target="joint", target_bounds=(-5, 5), target_scale=C, fit_intercept=True
)


def of_labels(expression, values=(-1, 1)):
    return sd.Loss(expression, score=U, target=Y, target_values=values)


# ---- which losses qualify --------------------------------------------------------------------------------

MARGIN_LOSSES = {
    "logistic": sd.losses.logistic(),
    "logistic, written for labels 0 and 1": of_labels(sp.log(1 + sp.exp(U)) - (1 + Y) / 2 * U),
    "exponential": sd.losses.exponential(),
    "hinge": sd.losses.hinge(),
    "squared hinge": sd.losses.squared_hinge(),
    "squared margin": sd.losses.squared_margin(),
    "probit": sd.losses.probit(),
    "least squares, no values declared": sd.losses.least_squares(),
    "absolute residual": of_labels(sp.Abs(U - Y)),
    "quartic": of_labels((U * Y) ** 4 - U * Y**3),
}
OTHERS = {
    "Poisson": sd.losses.poisson(),
    "negative binomial": sd.losses.negative_binomial(),
    "weighted by class": of_labels((2 + Y) * sp.log(1 + sp.exp(-Y * U))),
    "skewed quantile": sd.losses.quantile(0.3),
    "a shifted margin": of_labels(sp.exp(-Y * U) + U / 100),
    "off by a little": of_labels(sp.log(1 + sp.exp(-Y * U)) + Y * sp.Rational(1, 10**5)),
    "several scores": sd.losses.softmax(3),
}


@pytest.mark.parametrize("name", MARGIN_LOSSES)
def test_margin_losses(name):
    assert is_margin_loss(MARGIN_LOSSES[name])
    assert sd.debias(MARGIN_LOSSES[name], MARGIN, method="none").method == "none"


@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_are_refused_by_margin_releases(name):
    assert not is_margin_loss(OTHERS[name])
    with pytest.raises((NoExactCorrectionError, ValueError), match=r"no margin loss|target values"):
        sd.debias(OTHERS[name], MARGIN, method="none")


def test_the_refusal_names_losses_that_qualify():
    with pytest.raises(NoExactCorrectionError, match=r"exponential, hinge, huber, .*logistic, probit.* squared_margin"):
        sd.debias(sd.losses.poisson(), MARGIN)
    with pytest.raises(NoExactCorrectionError, match="huber, least_squares and quantile"):
        sd.debias(sd.losses.logistic(), JOINT)


def test_labels_0_and_1():
    release = sd.Release(sd.GaussianMechanism.from_scale(1.0), target="margin", target_values=(0, 1))
    logistic = of_labels(sp.log(1 + sp.exp(U)) - Y * U, (0, 1))
    assert is_margin_loss(logistic, (0, 1))
    assert not is_margin_loss(of_labels((U - Y) ** 2, (0, 1)), (0, 1))
    shown = sd.debias(logistic, release, method="none").expression
    assert sp.simplify(sp.diff(shown, U) + 1 / (1 + sp.exp(U))) == 0
    with pytest.raises(ValueError, match="Declare the same values on both"):
        sd.debias(sd.losses.logistic(), release)


@pytest.mark.parametrize(
    ("loss", "is_one"),
    [
        (sd.losses.least_squares(), True),
        (sd.losses.huber(), True),
        (sd.losses.quantile(0.3), True),
        (sd.Loss((Y - U) ** 4 + sp.cos(U - Y), score=U, target=Y), True),
        (sd.Loss(sp.Max(0, sp.Abs(Y - U) - 1), score=U, target=Y), True),
        (sd.losses.poisson(), False),
        (sd.losses.logistic(), False),
        (sd.Loss((Y - 2 * U) ** 2, score=U, target=Y), False),
        (sd.Loss((Y - U) ** 2 + U**2 / 1000, score=U, target=Y), False),
        (sd.Loss(U**2, score=U, target=Y), False),
    ],
)
def test_residual_losses(loss, is_one):
    assert is_residual_loss(loss) is is_one
    if is_one:
        assert sd.debias(loss, JOINT, method="none").method == "none"
    else:
        with pytest.raises(NoExactCorrectionError, match="no function of the residual"):
            sd.debias(loss, JOINT)


def test_losses_of_features_by_name_are_refused():
    x, t = sp.symbols("x t", real=True)
    loss = sd.Loss.of_features((t * x - Y) ** 2, features=[x], parameters=[t], target=Y)
    for release in (MARGIN, JOINT):
        with pytest.raises(NoExactCorrectionError, match="Declare the loss in its score"):
            sd.debias(loss, release)


# ---- unbiased, by quadrature over the vector --------------------------------------------------------------

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
FIRST, SECOND = (grid.ravel() for grid in np.meshgrid(NODES, NODES, indexing="ij"))
CHANCES = np.outer(WEIGHTS, WEIGHTS).ravel()


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", [sd.losses.exponential(), sd.losses.squared_margin()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_loss_and_gradient_of_a_margin_release_are_unbiased(loss, label):
    """The noised vector is (y x, c y) + sigma e; its last coordinate over c is the released target."""
    x, theta = 0.8, np.array([0.9, -0.4])
    corrected = sd.debias(loss, WITH_INTERCEPT, method="exact")
    X = (label * x + SIGMA * FIRST)[:, None]
    y = (C * label + SIGMA * SECOND) / C
    u, t = theta @ [x, 1.0], sp.Symbol("u", real=True)
    of_label = loss.expression.xreplace({loss.target: sp.Integer(int(label)), loss.scores[0]: t})
    value, slope = (float(part.xreplace({t: sp.Float(u, 30)})) for part in (of_label, sp.diff(of_label, t)))
    assert CHANCES @ corrected.loss(theta, X, y) == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(CHANCES @ corrected.gradient(theta, X, y), slope * np.array([x, 1.0]), rtol=1e-10)
    # Without the 1/c of its noise the intercept would be off: the quadrature sees a tenth of it.
    off = sd.debias(loss, sd.Release(sd.GaussianMechanism.from_scale(SIGMA), target="margin", fit_intercept=True))
    assert abs(CHANCES @ off.loss(theta, X, y) - value) > 0.01


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "loss", [sd.losses.least_squares(), sd.Loss((Y - U) ** 4 / 4, score=U, target=Y)], ids=["square", "fourth power"]
)
def test_loss_and_gradient_of_a_joint_release_are_unbiased(loss):
    x, y, theta = 0.8, -1.3, np.array([0.9, -0.4])
    corrected = sd.debias(loss, JOINT, method="exact")
    X = (x + SIGMA * FIRST)[:, None]
    sent = (C * y + SIGMA * SECOND) / C
    u = theta @ [x, 1.0]
    at = {loss.scores[0]: sp.Float(u, 30), loss.target: sp.Float(y, 30)}
    value = float(loss.expression.xreplace(at))
    slope = float(sp.diff(loss.expression, loss.scores[0]).xreplace(at))
    assert CHANCES @ corrected.loss(theta, X, sent) == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(CHANCES @ corrected.gradient(theta, X, sent), slope * np.array([x, 1.0]), rtol=1e-10)


def test_loss_and_gradient_under_laplace_noise_of_a_vector_are_unbiased():
    release = sd.Release(sd.LaplaceMechanism.from_scale(0.3), target="margin", fit_intercept=True, target_scale=C)
    corrected = sd.debias(sd.losses.logistic(), release, method="exact")
    nodes, weights = np.polynomial.laguerre.laggauss(80)
    points, chances = np.concatenate([-nodes, nodes]) * 0.3, np.concatenate([weights, weights]) / 2
    first, second = (grid.ravel() for grid in np.meshgrid(points, points, indexing="ij"))
    both = np.outer(chances, chances).ravel()
    x, theta = 0.8, np.array([0.5, -0.3])
    for label in (-1.0, 1.0):
        margin = label * (theta @ [x, 1.0])
        found = both @ corrected.loss(theta, (label * x + first)[:, None], (C * label + second) / C)
        assert found == pytest.approx(math.log1p(math.exp(-margin)), rel=1e-9)


def test_certificates_variances_and_biases_are_of_true_records():
    corrected = sd.debias(sd.losses.exponential(), WITH_INTERCEPT)
    assert corrected.certificate.loss_bias < 1e-12
    theta, X, y = np.array([0.9, -0.4]), np.array([[0.8], [0.2]]), np.array([1.0, -1.0])
    np.testing.assert_array_equal(corrected.bias(theta, X, y), 0.0)
    # Var exp(-u~ - s/2) = F^2 (e^s - 1), s = sigma^2 (theta_1^2 + theta_0^2 / c^2).
    s = SIGMA**2 * (0.9**2 + (0.4 / C) ** 2)
    losses = np.exp(-y * (X[:, 0] * 0.9 - 0.4))
    np.testing.assert_allclose(corrected.variance(theta, X, y), losses**2 * math.expm1(s), rtol=1e-9)
    assert corrected.score_variance(theta) == pytest.approx(s)
    ignored = sd.debias(sd.losses.exponential(), WITH_INTERCEPT, method="none")
    np.testing.assert_allclose(ignored.bias(theta, X, y), losses * math.expm1(s / 2), rtol=1e-9)


# ---- the same as by hand ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exponential", pytest.param("logistic", marks=pytest.mark.exhaustive)])
def test_a_margin_release_is_the_loss_at_label_1_on_z_by_hand(name):
    loss = getattr(sd.losses, name)()
    X, y = logistic_records(20_000, [1.0, -0.5], 0, intercept=0.3)
    noised = WITH_INTERCEPT.privatize(X, y, random_state=np.random.default_rng(1))
    fit = sd.m_estimate(sd.debias(loss, noised.release), noised.X, noised.y)
    by_hand = sd.Release(
        {("x0", "x1"): sd.GaussianMechanism.from_scale(SIGMA), "y": sd.GaussianMechanism.from_scale(SIGMA / C)}
    )
    z = np.column_stack([noised.X, noised.y])
    hand = sd.m_estimate(sd.debias(loss, by_hand), z, np.ones(len(z)))
    np.testing.assert_allclose(fit.theta, hand.theta, rtol=1e-6)
    np.testing.assert_allclose(fit.covariance, hand.covariance, rtol=1e-4)
    assert fit.names == ("x0", "x1", "intercept")


def test_a_joint_release_is_features_and_target_apart_by_hand():
    X, _ = logistic_records(5_000, [1.0, -0.5], 0, intercept=0.3)
    y = X @ [1.0, -0.5] + 0.3 + np.random.default_rng(1).normal(size=5_000)
    noised = JOINT.privatize(X, y, random_state=1)
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), noised.release), noised.X, noised.y)
    apart = sd.Release(
        sd.GaussianMechanism.from_scale(SIGMA), sd.GaussianMechanism.from_scale(SIGMA / C), fit_intercept=True
    )
    hand = sd.m_estimate(sd.debias(sd.losses.least_squares(), apart), noised.X, noised.y)
    np.testing.assert_allclose(fit.theta, hand.theta, rtol=1e-9)
    np.testing.assert_allclose(fit.covariance, hand.covariance, rtol=1e-9)


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore:training has not arrived:symdebias.exceptions.ConvergenceWarning")
def test_the_intercept_of_a_margin_release_is_not_penalised():
    X, y = logistic_records(20_000, [0.0], 0, intercept=1.0)
    noised = sd.Release(sd.GaussianMechanism.from_scale(0.3), target="margin", fit_intercept=True).privatize(
        X, y, random_state=1
    )
    corrected = sd.debias(sd.losses.squared_margin(), noised.release)
    for fit in (
        sd.m_estimate(corrected, noised.X, noised.y, l2=100.0),
        sd.sgd(corrected, noised.X, noised.y, l2=100.0, epochs=4, step_size=0.002, random_state=0),
    ):
        assert abs(fit.theta[0]) < 0.01
        assert fit.theta[1] > 0.25  # 0.46 without a penalty, 0.005 with it


# ---- fits -------------------------------------------------------------------------------------------------


def least_squares_of(X, rows):
    return np.linalg.lstsq(X, rows, rcond=None)[0]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "kind",
    [
        "margin",
        *(
            pytest.param(kind, marks=pytest.mark.exhaustive)
            for kind in ("margin, intercept", "margin, intercept, spherical", "joint", "joint, spherical")
        ),
    ],
)
def test_intervals_cover(kind):
    """Of the intervals of 200 fits at 95%, 363 to 393 of 400 hold the truth at false alarms of 1e-3."""
    theta, hits, repeats, n = np.array([0.8, -0.5]), 0, 200, 2_000
    joint, intercept = "joint" in kind, "intercept" in kind
    mechanism = sd.GaussianMechanism.from_scale(SIGMA)
    if "spherical" in kind:
        # Three coordinates of the same variance: (3 + 1) b^2.
        mechanism = sd.SphericalLaplaceMechanism.from_scale(SIGMA / 2)
    loss = sd.losses.least_squares() if joint else sd.losses.squared_margin()
    release = MARGIN
    if joint:
        release = sd.Release(mechanism, target="joint", target_bounds=(-9, 9), target_scale=C)
    elif intercept:
        release = sd.Release(mechanism, target="margin", fit_intercept=True, target_scale=C)
    corrected = sd.debias(loss, release.bind(["a", "b"]))
    rng = np.random.default_rng(7)
    # The truth is that of the population that records are drawn from.
    X, y = logistic_records(200_000, theta, 5, intercept=0.4 * intercept)
    y = X @ theta + rng.normal(size=len(X)) if joint else y
    truth = least_squares_of(np.column_stack([X, np.ones(len(X))]) if intercept else X, y)
    for _ in range(repeats):
        rows = rng.integers(len(X), size=n)
        noised = release.privatize(X[rows], y[rows], random_state=rng)
        ends = sd.m_estimate(corrected, noised.X, noised.y).confidence_interval()
        hits += int(np.sum((ends[:2, 0] <= truth[:2]) & (truth[:2] <= ends[:2, 1])))
    # Two parameters of one fit are close to independent here: the columns are.
    assert stats.binom.ppf(5e-4, 2 * repeats, 0.95) <= hits <= stats.binom.ppf(1 - 5e-4, 2 * repeats, 0.95)


@pytest.mark.parametrize(
    ("release", "y", "message"),
    [
        (MARGIN, np.ones(3), "the label is within X"),
        (WITH_INTERCEPT, None, "y was not given"),
        (JOINT, None, "y was not given"),
        (WITH_INTERCEPT, np.ones(2), "y has"),
    ],
)
def test_released_targets_that_do_not_fit(release, y, message):
    loss = sd.losses.least_squares()
    with pytest.raises(ValueError, match=message):
        sd.debias(loss, release).mean_loss(np.zeros(2 + release.fit_intercept), np.zeros((3, 2)), y)


def test_true_labels_in_place_of_the_released_column_are_refused():
    """They would be read as the column of the intercept, and give plausible numbers."""
    X, y = np.array([[0.5, 0.1], [0.2, -0.3]]), np.array([1.0, -1.0])
    noised = WITH_INTERCEPT.privatize(X, y, random_state=0)
    corrected = sd.debias(sd.losses.squared_margin(), noised.release)
    assert np.isfinite(corrected.mean_loss([0.1, 0.2, 0.3], noised.X, noised.y))
    with pytest.raises(ValueError, match=r"no released number is a label\. Pass noised\.y"):
        corrected.mean_loss([0.1, 0.2, 0.3], noised.X, y)


def test_noise_scales_of_records_are_refused():
    with pytest.raises(ValueError, match="features and target in one vector"):
        sd.debias(sd.losses.squared_margin(), MARGIN).loss([1.0], [[0.5]], None, noise_scale=[0.1])


@pytest.mark.in_turn
@pytest.mark.parametrize("method", ["naive", "regression_calibration", "simex", "monte_carlo_score"])
@pytest.mark.parametrize("kind", ["margin", "joint"])
def test_methods_for_measurement_error(method, kind):
    """On least squares regression calibration and the Monte-Carlo score agree with the corrected fit."""
    X, y = logistic_records(20_000, [1.0, -0.5], 0, intercept=0.3)
    release = WITH_INTERCEPT if kind == "margin" else JOINT
    noised = release.privatize(X, y, random_state=1)
    loss = sd.losses.least_squares()
    wanted = sd.m_estimate(sd.debias(loss, noised.release), noised.X, noised.y)
    options = {"random_state": 0} if method in ("simex", "monte_carlo_score") else {}
    if (method, kind) == ("regression_calibration", "margin"):
        with pytest.raises(NoExactCorrectionError, match="without a target"):
            sd.literature.regression_calibration(loss, noised.release, noised.X, noised.y)
        return
    found = getattr(sd.literature, method)(loss, noised.release, noised.X, noised.y, **options)
    away = np.abs(found.theta - wanted.theta).max()
    if method == "naive":
        assert away > 0.1
    else:
        assert away < {"regression_calibration": 0.02, "monte_carlo_score": 0.03, "simex": 0.2}[method]
    if kind == "margin":
        with pytest.raises(NoExactCorrectionError):
            sd.literature.conditional_score(sd.losses.logistic(), noised.release, noised.X, noised.y)


# ---- evaluation -------------------------------------------------------------------------------------------


@pytest.mark.in_turn
@pytest.mark.parametrize("metric", ["log_loss", "squared_error", "accuracy"])
def test_metrics_of_margins_are_estimated(metric):
    """Within 4.5 standard errors of the value on the true records, and the bound on the bias."""
    theta = np.array([1.0, -0.5, 0.3])
    X, y = logistic_records(40_000, theta[:2], 0, intercept=theta[2])
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3), target="margin", fit_intercept=True, target_scale=C)
    noised = release.privatize(X, y, random_state=1)
    u = X @ theta[:2] + theta[2]
    truth = {"log_loss": np.log1p(np.exp(-y * u)), "squared_error": (y - u) ** 2, "accuracy": y * u > 0}[metric].mean()
    found = sd.evaluation.evaluate(theta, noised.X, noised.y, metric=metric, release=noised.release)
    assert abs(found.value - truth) < 4.5 * found.standard_error + found.bias
    assert found.standard_error < 0.03


def test_the_squared_error_of_a_joint_release():
    X, _ = logistic_records(40_000, [0.0, 0.0], 0)
    theta = np.array([1.0, -0.5, 0.3])
    y = X @ theta[:2] + 0.3 + np.random.default_rng(1).uniform(-3, 3, size=len(X))
    noised = JOINT.privatize(X, y, random_state=1)
    found = sd.evaluation.evaluate(theta, noised.X, noised.y, metric="squared_error", release=noised.release)
    assert abs(found.value - 3.0) < 4.5 * found.standard_error
    assert found.method == "exact"
    curve = sd.evaluation.calibration_curve(theta, noised.X, noised.y, release=noised.release, link="identity")
    assert np.isfinite(curve.observed).all()


def test_what_a_margin_release_cannot_answer_is_said():
    X, y = logistic_records(2_000, [1.0], 0)
    noised = MARGIN.privatize(X, y, random_state=1)
    with pytest.raises(NoExactCorrectionError, match="no margin loss"):
        sd.evaluation.evaluate([1.0], noised.X, noised.y, metric="poisson", release=noised.release)
    with pytest.raises(NoExactCorrectionError, match="no prediction is known"):
        sd.evaluation.calibration_curve([1.0], noised.X, noised.y, release=noised.release)
    with pytest.raises(NoExactCorrectionError, match="their product alone"):
        sd.evaluation.evaluate(
            [1.0], noised.X, noised.y, metric="accuracy", release=noised.release, label_model="logistic"
        )
    with pytest.raises(ValueError, match="are not the labels"):
        sd.evaluation.evaluate(
            [1.0], noised.X, noised.y, metric="accuracy", release=noised.release, target_values=(0, 1)
        )


@pytest.mark.in_turn
def test_cross_validation_takes_records_without_a_target():
    X, y = logistic_records(5_000, [1.0, -0.5], 0)
    noised = MARGIN.privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.squared_margin(), noised.release)
    table = sd.evaluation.cross_validate(
        {str(l2): functools.partial(sd.m_estimate, corrected, l2=l2) for l2 in (0.0, 100.0)},
        noised.X, noised.y, release=noised.release, metric="squared_error", random_state=0,
    )  # fmt: skip
    assert table.best == "0.0"


# ---- planning ---------------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_expected_standard_errors_are_those_of_fits():
    """Over 150 fits a standard deviation has an error of 6%: a factor within 25% of 1 (false alarms 1e-4)."""
    population = sd.planning.Population.guess([0.8, -0.5, 0.3], intercept=True)
    loss, n = sd.losses.squared_margin(), 4_000
    release = WITH_INTERCEPT.bind(["x0", "x1"])
    expected = sd.planning.expected_fit(loss, release, population, n=n)
    corrected, rng, fits = sd.debias(loss, release), np.random.default_rng(3), []
    for _ in range(150):
        rows = rng.integers(len(population.y), size=n)
        noised = release.privatize(population.X[rows], population.y[rows], random_state=rng)
        fits.append(sd.m_estimate(corrected, noised.X, noised.y).theta)
    ratio = np.std(fits, axis=0) / expected.standard_errors
    assert np.all(np.abs(ratio - 1) < 0.25)
    assert np.all(np.abs(np.mean(fits, axis=0) - expected.theta) < 5 * expected.standard_errors / math.sqrt(150))


@pytest.mark.in_turn
@pytest.mark.newest
def test_the_planner_weighs_the_target_and_says_so():
    population = sd.planning.Population.guess([1.0, -0.5, 0.3], intercept=True)
    options = {"epsilon": 4.0, "n": 1e6, "l2": 1.0, "fit_intercept": True, "mechanisms": ["gaussian"]}
    one = sd.plan(sd.losses.squared_margin(), population, target="margin", **options).best
    release = one.expected.release
    assert release.guarantee.epsilon == 4.0
    assert one.budgets == (4.0,)
    weight = release.coupling.scale
    assert any(f"the weight of the target is {weight:.3g}" in note for note in one.expected.notes)
    for other in (weight / 4, 4 * weight):
        worse = sd.Release(
            {release.columns: release.groups[0][1]}, target="margin", fit_intercept=True, target_scale=other
        )
        found = sd.planning.expected_fit(sd.losses.squared_margin(), worse, population, n=1e6, l2=1.0)
        assert found.criterion("worst") > one.expected.criterion("worst")
    with pytest.raises(ValueError, match="one for each column"):
        sd.plan(
            sd.losses.squared_margin(), population, target="margin",
            **{**options, "mechanisms": ["laplace per column"]},
        )  # fmt: skip
    with pytest.raises(ValueError, match="needs target_bounds"):
        sd.plan(sd.losses.least_squares(), population, target="joint", **options)


def test_a_pilot_of_one_vector():
    X, y = logistic_records(20_000, [1.0, -0.5], 0, intercept=0.3)
    noised = WITH_INTERCEPT.privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.squared_margin(), noised.release)
    with pytest.raises(NoExactCorrectionError, match="needs the mean of the features"):
        sd.planning.Population.from_pilot(corrected, noised.X, noised.y, theta=[1.0, -0.5, 0.3])
    noised = JOINT.privatize(X, X @ [1.0, -0.5], random_state=1)
    corrected = sd.debias(sd.losses.least_squares(), noised.release)
    pilot = sd.planning.Population.from_pilot(corrected, noised.X, noised.y, theta=[1.0, -0.5, 0.0], family="normal")
    np.testing.assert_allclose(pilot.X.std(axis=0), X.std(axis=0), atol=0.15)  # drawn again within [-1, 1]


def test_what_ignoring_the_noise_does_has_no_parts():
    with pytest.raises(NoExactCorrectionError, match="features and target apart"):
        sd.bias(sd.losses.squared_margin(), MARGIN)
