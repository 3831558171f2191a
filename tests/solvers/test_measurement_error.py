"""The methods of the literature: against closed forms, other programs, and the equations that define them."""

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, margin_loss
from scipy.special import gammaln

import symdebias as sd
from symdebias.exceptions import DivergenceError, NoExactCorrectionError
from symdebias.solvers import measurement_error as methods

pytestmark = pytest.mark.newest

LINEAR, LOGISTIC, POISSON = sd.losses.least_squares(), sd.losses.logistic(), sd.losses.poisson()
CORRELATED = sd.GaussianMechanism.from_covariance([[0.5, 0.2], [0.2, 0.3]])
# Two noised columns, one without noise, and an intercept.
MIXED = sd.Release({("a", "b"): CORRELATED}, noiseless=("c",), fit_intercept=True)
LABELLED = sd.Release(
    {("a", "b"): CORRELATED}, sd.RandomizedResponse(epsilon=1.5), noiseless=("c",), fit_intercept=True
)  # fmt: skip
THETA = np.array([0.8, -0.5, 0.4, 0.3])


def records(family, n, seed=0, theta=THETA):
    """Return true records of three dependent columns, and their targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (n, 3))
    X[:, 2] += 0.5 * X[:, 0]
    score = X @ theta[:3] + theta[3]
    if family == "logistic":
        return X, np.where(rng.random(n) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    if family == "poisson":
        return X, rng.poisson(np.exp(score)).astype(float)
    return X, score + rng.normal(size=n)


def noised(family, release, n, seed=0):
    return release.privatize(*records(family, n, seed), random_state=seed + 1)


def one_column(n, signal, noise, seed=0):
    """Return released records of one column, y = 2x + e."""
    rng = np.random.default_rng(seed)
    x = np.sqrt(signal) * rng.normal(size=(n, 1))
    return sd.Release(sd.GaussianMechanism.from_scale(np.sqrt(noise))).privatize(
        x, 2 * x[:, 0] + 0.5 * rng.normal(size=n), random_state=seed + 1
    )


# ---- without noise: another program ----------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "family"), [(LINEAR, "OLS"), (LOGISTIC, "Logit"), (POISSON, "Poisson")])
def test_naive_is_statsmodels_where_there_is_no_noise(loss, family):
    api = pytest.importorskip("statsmodels.api")
    X, y = records(loss.name, 1_000)
    release = sd.Release(noiseless=("a", "b", "c"), fit_intercept=True)
    found = sd.literature.naive(loss, release, X, y)
    options = {} if family == "OLS" else {"disp": 0, "tol": 1e-12}
    expected = getattr(api, family)((y + 1) / 2 if family == "Logit" else y, np.column_stack([X, np.ones(len(X))]))
    expected = expected.fit(cov_type="HC0", **options)
    np.testing.assert_allclose(found.theta, expected.params, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.standard_errors, expected.bse, rtol=1e-5)
    # Without noise every method is this fit.
    for method in (
        sd.literature.regression_calibration,
        sd.literature.simex,
        sd.literature.conditional_score,
        sd.literature.monte_carlo_score,
    ):
        if method is not sd.literature.conditional_score or loss is not LINEAR:
            np.testing.assert_allclose(method(loss, release, X, y).theta, found.theta, rtol=1e-6, atol=1e-8)


# ---- least squares: closed forms -------------------------------------------------------------------------


def test_linear_regression_is_attenuated_and_calibration_is_the_method_of_moments():
    released = noised("linear", MIXED, 2_000)
    X, y = np.column_stack([released.X, np.ones(len(released.X))]), released.y
    naive = sd.literature.naive(LINEAR, released.release, released.X, y)
    np.testing.assert_allclose(naive.theta, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-9)
    D = np.zeros((4, 4))
    D[:2, :2] = CORRELATED.covariance
    found = sd.literature.regression_calibration(LINEAR, released.release, released.X, y)
    np.testing.assert_allclose(found.theta, np.linalg.solve(X.T @ X / len(X) - D, X.T @ y / len(X)), rtol=1e-7)


def test_covariance_of_calibration_is_the_jackknife_of_the_method_of_moments():
    """The estimation of mu and S changes standard errors by a factor of up to 1.4 here; they agree to 2%."""
    released = noised("linear", MIXED, 2_000)
    X, y = np.column_stack([released.X, np.ones(len(released.X))]), released.y
    n = len(X)
    D = np.zeros((4, 4))
    D[:2, :2] = CORRELATED.covariance
    gram, cross = X.T @ X, X.T @ y
    left_out = np.array(
        [
            np.linalg.solve((gram - np.outer(x, x)) / (n - 1) - D, (cross - x * t) / (n - 1))
            for x, t in zip(X, y, strict=True)
        ]
    )
    expected = np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean(axis=0)) ** 2, axis=0))
    found = sd.literature.regression_calibration(LINEAR, released.release, released.X, y)
    np.testing.assert_allclose(found.standard_errors, expected, rtol=0.02)


def test_influence_of_a_record_on_calibration_is_what_leaving_it_out_does():
    """For a loss that is not quadratic; to 5% of each record's effect, the order of 1/n."""
    released = noised("poisson", MIXED, 400)
    fit = methods._calibrated_fit(
        methods._Records.of(POISSON, released.release, released.X, released.y), 0.0, errors=True
    )
    for row in (0, 7, 99):
        X, y = np.delete(released.X, row, axis=0), np.delete(released.y, row)
        without = sd.literature.regression_calibration(POISSON, released.release, X, y).theta
        np.testing.assert_allclose(
            fit[0] - without, fit[1][row] / 400, rtol=0.05, atol=0.05 * np.abs(fit[1]).mean() / 400
        )


@pytest.mark.parametrize("extrapolant", ["linear", "quadratic", "rational-linear"])
def test_simex_has_the_bias_of_its_extrapolant(extrapolant):
    """With signal and noise of variances 1 and 0.4 the slope at lambda is 2/(1 + 0.4 (1 + lambda)).

    Of the extrapolation from lambda = 0, 1, 2 by a line and a parabola the bias is known (Cook & Stefanski 1994,
    Section 3); the rational one has none. Five and a half standard errors, false alarms 4e-8 per case, are a bias of
    0.1 or less; those of the line and the parabola are 0.41 and 0.13.
    """
    released = one_column(100_000, 1.0, 0.4)
    found = sd.literature.simex(
        LINEAR, released.release, released.X, released.y,
        extrapolant=extrapolant, levels=(1.0, 2.0), repeats=3, random_state=5,
    )  # fmt: skip
    slopes = 2 / (1 + 0.4 * (1 + np.arange(3.0)))
    expected = {
        "linear": np.polyval(np.polyfit([0, 1, 2], slopes, 1), -1),
        "quadratic": 3 * slopes[0] - 3 * slopes[1] + slopes[2],
        "rational-linear": 2.0,
    }[extrapolant]
    assert 5.5 * found.standard_errors[0] < 0.1
    assert abs(found.theta[0] - expected) < 5.5 * found.standard_errors[0]
    if extrapolant != "rational-linear":
        assert abs(found.theta[0] - 2.0) > 10 * found.standard_errors[0]


def simex_slopes(X, y, noises):
    """The slope of one column that `simex` finds with one remeasurement at lambda 1 and 2; records on the last axis."""
    fits = []
    for level, noise in enumerate(noises):
        moved = X + np.sqrt(level) * noise
        fits.append((moved * y).sum(axis=-1) / (moved**2).sum(axis=-1))
    return 3 * fits[0] - 3 * fits[1] + fits[2]


def test_standard_errors_of_simex_are_those_of_replicates():
    """6% off is seen: 40 fits know the mean standard error to .9%, 10,000 replicates the deviation to .8%.

    Replicates are of the closed form, which is held to the fits themselves first. 5% are 4 standard deviations
    (false alarms 6e-5).
    """
    n, noise, errors = 400, np.sqrt(0.4), []
    for seed in range(40):
        released = one_column(n, 1.0, 0.4, seed=2 * seed)
        fit = sd.literature.simex(
            LINEAR, released.release, released.X, released.y, repeats=1, levels=(1, 2), random_state=seed
        )
        rng = np.random.default_rng(seed)
        added = [0.0, *(noise * rng.normal(size=(n, 1))[:, 0] for _ in range(2))]
        assert fit.theta[0] == pytest.approx(simex_slopes(released.X[:, 0], released.y, added), rel=1e-5)
        errors.append(fit.standard_errors[0])
    rng, thetas = np.random.default_rng(1), []
    for _ in range(40):
        x, *normal = rng.normal(size=(5, 250, n))
        added = (0.0, noise * normal[2], noise * normal[3])
        thetas.append(simex_slopes(x + noise * normal[0], 2 * x + 0.5 * normal[1], added))
    assert np.mean(errors) == pytest.approx(np.std(thetas), rel=0.05)


def test_extrapolation_of_functions_of_its_form_is_exact():
    at = np.array([0.0, 0.5, 1.0, 2.0])
    curves = np.column_stack([1 + at / (1 + 0.6 * at), 2 - 3 * at / (1 + 0.1 * at)])
    found, shares = methods._extrapolated(at, curves, "rational-linear")
    np.testing.assert_allclose(found, [1 - 1 / 0.4, 2 + 3 / 0.9], rtol=1e-6)
    moved = curves.copy()
    moved[1] += 1e-4
    there = methods._extrapolated(at, moved, "rational-linear")[0]
    np.testing.assert_allclose((there - found) / 1e-4, shares[1], rtol=0.02)
    np.testing.assert_allclose(methods._extrapolated(at, curves**0 + at[:, None] ** 2, "quadratic")[0], 2.0)


# ---- scores: the equations -------------------------------------------------------------------------------


@pytest.mark.parametrize("release", [MIXED, LABELLED], ids=["true labels", "noised labels"])
def test_conditional_score_of_labels_has_mean_zero_given_every_record(release):
    """By quadrature over the noise of two dependent columns and enumeration of both labels: to 1e-10."""
    t, w = np.polynomial.hermite_e.hermegauss(40)
    nodes = np.array(np.meshgrid(t, t)).reshape(2, -1).T @ np.linalg.cholesky(np.array(CORRELATED.covariance)).T
    weights = np.outer(w, w).ravel() / w.sum() ** 2
    for x in ([0.3, -1.0, 0.5], [2.0, 1.0, -1.0]):
        chance = 1 / (1 + np.exp(-(np.array(x) @ THETA[:3] + THETA[3])))
        X = np.repeat(np.array(x)[None, :], 2 * len(nodes), axis=0)
        X[:, :2] += np.tile(nodes, (2, 1))
        y = np.repeat([-1.0, 1.0], len(nodes))
        keep = 1.0 if release.target is None else release.target.keep_probability
        chance = keep * chance + (1 - keep) * (1 - chance)
        chances = np.concatenate([(1 - chance) * weights, chance * weights])
        rows = methods._logistic_score(methods._Records.of(LOGISTIC, release, X, y))
        assert np.abs(chances @ rows(THETA)).max() < 1e-10
        assert np.abs(chances @ rows(1.2 * THETA)).max() > 1e-3


def test_conditional_score_of_counts_has_mean_zero_given_every_record():
    t, w = np.polynomial.hermite_e.hermegauss(40)
    nodes = np.array(np.meshgrid(t, t)).reshape(2, -1).T @ np.linalg.cholesky(np.array(CORRELATED.covariance)).T
    weights = np.outer(w, w).ravel() / w.sum() ** 2
    x = np.array([0.5, -1.0, 0.5])
    rate = np.exp(x @ THETA[:3] + THETA[3])
    counts = np.arange(40)
    chances = np.exp(counts * np.log(rate) - rate - gammaln(counts + 1))
    X = np.repeat(x[None, :], len(nodes) * len(counts), axis=0)
    X[:, :2] += np.tile(nodes, (len(counts), 1))
    y = np.repeat(counts.astype(float), len(nodes))
    rows = methods._poisson_score(methods._Records.of(POISSON, MIXED, X, y))
    assert np.abs(np.outer(chances, weights).ravel() @ rows(THETA)).max() < 1e-9


def test_expected_counts_are_sums_over_all_counts():
    level = np.array([-30.0, -2.0, 0.0, 3.0, 40.0, 400.0])
    for variance in (1e-3, 0.5, 4.0):
        counts = np.arange(3_000.0)
        known = level * variance < 40 * variance + 1
        log = np.outer(level[known], counts) - counts**2 * variance / 2 - gammaln(counts + 1)
        weights = np.exp(log - log.max(axis=1, keepdims=True))
        direct = weights @ counts / weights.sum(axis=1)
        inside = direct < 2_000
        found = methods._expected_count(level[known], variance)
        np.testing.assert_allclose(found[inside], direct[inside], rtol=1e-9)
    many = np.linspace(-3.0, 6.0, 5_000)
    np.testing.assert_allclose(methods._expected_count(many, 0.5), methods._count_moments(many, 0.5)[0], rtol=1e-9)
    np.testing.assert_allclose(methods._expected_count(level[:4], 0.0), np.exp(level[:4]))
    np.testing.assert_allclose(methods._expected_count(level[:4], 1e-12), np.exp(level[:4]), rtol=1e-6)
    assert np.isnan(methods._expected_count(np.array([1e3]), 1e-6)).all()


@pytest.mark.parametrize(
    ("loss", "release"), [(LOGISTIC, MIXED), (LOGISTIC, LABELLED), (POISSON, MIXED)], ids=["labels", "noised", "counts"]
)
def test_conditional_score_finds_the_true_parameters(loss, release):
    """Within 5.5 of its standard errors, false alarms 2e-7 per case; these are a bias of 0.2 or less."""
    released = noised(loss.name, release, 100_000, seed=3)
    found = sd.literature.conditional_score(loss, released.release, released.X, released.y)
    off = np.abs(found.theta - THETA)
    assert 5.5 * found.standard_errors.max() < 0.2
    assert np.all(off < 5.5 * found.standard_errors)
    naive = sd.literature.naive(loss, released.release, released.X, released.y)
    assert np.abs((naive.theta - THETA) / naive.standard_errors).max() > 15


def test_complex_scores_average_to_the_corrected_gradient():
    """2,000 draws at 40 records: within 6 standard errors of the draws, an error of 0.1 in the gradient at most."""
    released = noised("poisson", MIXED, 40)
    X, y = np.tile(released.X, (2_000, 1)), np.tile(released.y, 2_000)
    rows = methods._complex_score(methods._Records.of(POISSON, released.release, X, y), [1])(THETA)
    draws = rows.reshape(2_000, 40, 4).mean(axis=1)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    exact = sd.debias(POISSON, released.release).mean_gradient(THETA, released.X, released.y)
    assert error.max() < 0.1 / 6
    assert np.all(np.abs(draws.mean(axis=0) - exact) < 6 * error + 1e-12)


def test_monte_carlo_score_of_noised_labels_and_targets():
    """Within 5.5 standard errors of the truth (false alarms 2e-7); these are a bias of 0.3 or less."""
    noisy = sd.Release(
        {("a", "b"): CORRELATED}, sd.GaussianMechanism.from_scale(0.5), noiseless=("c",), fit_intercept=True
    )
    quartic = sd.Loss((U - Y) ** 4 / 4 + (U - Y) ** 2 / 2, score=U, target=Y)
    released = noised("linear", noisy, 20_000)
    found = sd.literature.monte_carlo_score(quartic, released.release, released.X, released.y, draws=2, random_state=1)
    assert 5.5 * found.standard_errors.max() < 0.3
    assert np.all(np.abs(found.theta - THETA) < 5.5 * found.standard_errors)
    released = noised("logistic", LABELLED, 20_000)
    squared = sd.losses.squared_margin()
    found = sd.literature.monte_carlo_score(squared, released.release, released.X, released.y, draws=2, random_state=1)
    moments = sd.literature.regression_calibration(squared, released.release, released.X, released.y)
    # The loss is quadratic, for which calibration is exact: two estimates of the same parameters.
    assert np.all(np.abs(found.theta - moments.theta) < 3 * found.standard_errors)


def test_monte_carlo_score_passes_poles_by_only_when_told():
    released = noised("logistic", MIXED, 5_000)
    arguments = (LOGISTIC, released.release, released.X, released.y)
    with pytest.raises(NoExactCorrectionError, match="not known to be entire"):
        sd.literature.monte_carlo_score(*arguments)
    found = sd.literature.monte_carlo_score(*arguments, poles="ignore", draws=2, random_state=0)
    assert "singularities" in str(found)
    again = sd.literature.monte_carlo_score(*arguments, poles="ignore", draws=2, random_state=0)
    np.testing.assert_array_equal(found.theta, again.theta)


# ---- which losses and releases ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "family"),
    [
        (LOGISTIC, "logistic"),
        (sd.Loss(sp.log(1 + sp.exp(U)) - Y * U, score=U, target=Y, target_values=(0, 1)), "logistic"),
        (sd.Loss(-sp.log(1 / (1 + sp.exp(-Y * U))), score=U, target=Y, target_values=(-1, 1)), "logistic"),
        (POISSON, "poisson"),
        (sd.Loss(sp.exp(U) - Y * U + Y**2, score=U, target=Y), "poisson"),
        (sd.losses.probit(), None),
        (sd.losses.exponential(), None),
        (margin_loss(sp.log(1 + sp.exp(-2 * Y * U))), None),
        (LINEAR, None),
        (sd.losses.softmax(3), None),
    ],
)
def test_losses_with_a_conditional_score_are_known_by_their_form(loss, family):
    assert methods._family(loss) == family


LAPLACE = sd.Release(sd.LaplaceMechanism.from_scale(0.3)).bind(("a", "b"))
GAUSSIAN = sd.Release(sd.GaussianMechanism.from_scale(0.5)).bind(("a", "b"))
CATEGORIES = sd.Release({"a": sd.GaussianMechanism.from_scale(0.5), "b": sd.RandomizedResponse(epsilon=1.0)})
OTHER_VALUES = sd.FiniteChannel([[0.8, 0.2], [0.3, 0.7]], inputs=(-1, 1), outputs=(0, 1))
EVERY = (
    sd.literature.regression_calibration,
    sd.literature.simex,
    sd.literature.conditional_score,
    sd.literature.monte_carlo_score,
)


@pytest.mark.parametrize(
    ("method", "loss", "release", "message"),
    [
        *((method, LOGISTIC, CATEGORIES, "a column of categories") for method in EVERY),
        (sd.literature.naive, LOGISTIC, sd.Release(GAUSSIAN.groups[0][1], OTHER_VALUES), "other values"),
        (sd.literature.conditional_score, LOGISTIC, LAPLACE, "normal noise"),
        (sd.literature.monte_carlo_score, sd.losses.squared_margin(), LAPLACE, "normal noise"),
        (sd.literature.conditional_score, LINEAR, GAUSSIAN, "the log loss of two labels"),
        (sd.literature.conditional_score, sd.losses.exponential(), GAUSSIAN, "the log loss of two labels"),
        (sd.literature.conditional_score, POISSON, GAUSSIAN, "no non-negative integers"),
        (
            sd.literature.conditional_score,
            POISSON,
            sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.GaussianMechanism.from_scale(0.5)),
            "counts needs them as they are",
        ),
        (sd.literature.monte_carlo_score, sd.losses.softmax(2), GAUSSIAN, "one score"),
        (
            sd.literature.regression_calibration,
            LINEAR,
            sd.Release(sd.GaussianMechanism.from_scale(50.0)),
            "hides all variation",
        ),
    ],
)
def test_a_method_refuses_what_it_is_not_for(method, loss, release, message):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.where(rng.random(30) < 0.5, -1.0, 1.0)
    if loss.target_values == (0, 1):
        y = (y + 1) / 2
    if release is CATEGORIES:
        X[:, 1] = y
    if "other" in message:
        y = (y + 1) / 2
    with pytest.raises(NoExactCorrectionError, match=message):
        method(loss, release, X, y)


def test_no_root_is_no_fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    clean = sd.Release(noiseless=("a", "b"))
    separated = np.where(X[:, 0] > 0, 1.0, -1.0)
    with pytest.raises(DivergenceError, match=r"has no root|does not decide"):
        sd.literature.naive(LOGISTIC, clean, X, separated)
    twice = np.column_stack([X[:, 0], X[:, 0]])
    with pytest.raises(DivergenceError, match="does not decide theta"):
        sd.literature.naive(LINEAR, clean, twice, separated)
    assert np.isfinite(sd.literature.naive(LINEAR, clean, twice, separated, l2=0.1).theta).all()
    t, x, y = sp.symbols("t x y", real=True)
    valley = sd.Loss.of_features((t**2 - 1) ** 2 + x * t * y / 100, features=[x], parameters=[t], target=y)
    with pytest.raises(DivergenceError, match="no minimum"):
        sd.literature.naive(valley, sd.Release(noiseless=("x",)), X[:, :1], np.zeros(200))
    with pytest.raises(DivergenceError, match="pole"):
        methods._rational(np.array([0.0, 0.5, 1.0, 2.0]), np.array([100.0, 5.0, 2.0, 1.0]))


BAD = np.array([[np.nan, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"loss": sd.losses.logistic}, TypeError, "loss must be"),
        ({"release": "none"}, TypeError, "release must be"),
        ({"X": BAD}, ValueError, "NaN"),
        ({"X": np.ones((2, 3))}, ValueError, "columns"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, ValueError, "empty"),
        ({"y": np.array([0.0, 1.0])}, ValueError, "labels|must be -1"),
        ({"y": np.ones(3)}, ValueError, "entries"),
        ({"l2": -1.0}, ValueError, "l2"),
        ({"l2": "much"}, TypeError, "l2"),
    ],
)
@pytest.mark.parametrize(
    "method", [sd.literature.naive, *EVERY, sd.literature.compare_methods], ids=lambda method: method.__name__
)
def test_bad_records_are_errors_and_no_refusals(method, options, error, message):
    known = {"loss": LOGISTIC, "release": GAUSSIAN, "X": np.eye(2), "y": np.array([-1.0, 1.0])} | options
    rest = {name: known.pop(name) for name in ("l2",) if name in known}
    with pytest.raises(error, match=message):
        method(*known.values(), **rest)


@pytest.mark.parametrize(
    ("method", "options", "error", "message"),
    [
        (sd.literature.simex, {"extrapolant": "cubic"}, ValueError, "extrapolant='cubic'"),
        (sd.literature.simex, {"levels": (1.0,)}, ValueError, "needs 2"),
        (sd.literature.simex, {"levels": (1.0, 1.0, 2.0)}, ValueError, "repeats a value"),
        (sd.literature.simex, {"levels": (-1.0, 1.0, 2.0)}, ValueError, "levels"),
        (sd.literature.simex, {"levels": "many"}, TypeError, "sequence"),
        (sd.literature.simex, {"levels": 2.0}, TypeError, "sequence"),
        (sd.literature.simex, {"repeats": 0}, ValueError, "repeats"),
        (sd.literature.simex, {"random_state": "seed"}, TypeError, "random_state"),
        (sd.literature.monte_carlo_score, {"draws": 0}, ValueError, "draws"),
        (sd.literature.monte_carlo_score, {"poles": True}, ValueError, "poles"),
        (sd.literature.compare_methods, {"methods": ("naive", "magic")}, ValueError, "'magic'"),
        (sd.literature.compare_methods, {"methods": ()}, ValueError, "empty"),
        (sd.literature.compare_methods, {"methods": ("naive", "naive")}, ValueError, "repeats"),
        (sd.literature.compare_methods, {"methods": "naive"}, TypeError, "sequence"),
        (sd.literature.compare_methods, {"true_theta": [1.0]}, ValueError, "theta"),
        (sd.literature.compare_methods, {"true_theta": [1.0, np.nan]}, ValueError, "NaN"),
    ],
)
def test_bad_options_are_errors(method, options, error, message):
    with pytest.raises(error, match=message):
        method(LOGISTIC, GAUSSIAN, np.eye(2), np.array([-1.0, 1.0]), **options)


# ---- the comparison --------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.newest
def test_a_comparison_has_a_row_for_each_method_and_says_who_refused():
    theta = np.array([0.5, -0.3, 0.2, 0.0])
    release = sd.Release({("a", "b"): CORRELATED}, noiseless=("c",))
    released = release.privatize(*records("poisson", 20_000, seed=4, theta=theta), random_state=5)
    arguments = (POISSON, released.release, released.X, released.y)
    found = sd.literature.compare_methods(*arguments, true_theta=theta[:3], random_state=0)
    assert [row.method for row in found.rows] == list(methods.METHODS)
    naive = found["naive"].distance
    assert all(found[row].distance < naive / 2 for row in ("conditional_score", "monte_carlo_score", "corrected"))
    assert all(row.standard_errors.shape == (3,) for row in found.rows)
    text = str(found)
    assert "20,000 records" in text
    assert all(name in text for name in ("a", "b", "c", "distance", *methods.METHODS))
    with pytest.raises(KeyError, match="was not compared"):
        found["magic"]
    few = sd.literature.compare_methods(*arguments, methods=("simex",), random_state=0)
    np.testing.assert_array_equal(few["simex"].theta, found["simex"].theta)
    assert few["simex"].distance is None
    refused = sd.literature.compare_methods(LINEAR, *arguments[1:], methods=("conditional_score",))
    assert refused["conditional_score"].theta is None
    assert "refused: the conditional score" in str(refused)


def test_results_are_read_only_and_print_as_tables():
    released = noised("linear", MIXED, 500)
    found = sd.literature.naive(LINEAR, released.release, released.X, released.y)
    for array in (found.theta, found.covariance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    assert all(name in str(found) for name in ("naive", "intercept", "std. error"))
    three = sd.literature.naive(
        sd.losses.softmax(3), sd.Release(noiseless=("a",)), released.X[:, :1], np.arange(500) % 3, l2=0.1
    )
    assert three.theta.shape == three.standard_errors.shape == (3, 1)
    assert "2: a" in str(three)
