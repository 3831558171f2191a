"""A summary says what a fit is, in the units that are asked for."""

import copy
import pickle
import time

import numpy as np
import pytest
import sympy as sp
from pages import HOSTILE, Reader

import symdebias as sd
from symdebias.inference import Inference
from symdebias.solvers.coefficients import Coefficients

LEAST_SQUARES = sd.losses.least_squares()


def made(release, theta, inference=None, *, loss=LEAST_SQUARES, **options):
    """A fit by hand: no kernel is needed to read one."""
    corrected = sd.debias(loss, release)
    return sd.Fit.of(
        corrected, np.array(theta, dtype=float), solver="by hand", records=100, steps=3, began=time.perf_counter(),
        inference=inference, **options,
    )  # fmt: skip


def standardised(**options):
    return sd.Release(
        {("age", "hours"): sd.GaussianMechanism(4.0, 1e-5, radius=2.0)}, fit_intercept=True,
        center={"age": 40.0, "hours": 38.0}, scale={"age": 20.0, "hours": 5.0}, **options,
    )  # fmt: skip


COVARIANCE = np.array([[4.0, 1.0, -0.5], [1.0, 9.0, 0.3], [-0.5, 0.3, 1.0]]) / 100


def test_original_units_follow_the_delta_rule():
    """By hand: age in years has theta/20, and the intercept takes up both shifts."""
    bias = np.array([0.02, 0.0, 0.01])
    fit = made(standardised(), [2.0, -3.0, 0.5], Inference(COVARIANCE, "sandwich", bias=bias))
    frame = fit.summary_frame(0.9, original_units=True)
    rows = np.array([[1 / 20, 0, 0], [0, 1 / 5, 0], [-40 / 20, -38 / 5, 1]])
    np.testing.assert_allclose(frame["coefficient"], rows @ fit.theta, rtol=1e-13)
    np.testing.assert_allclose(frame["coefficient"], fit.coefficients, rtol=1e-13)
    np.testing.assert_allclose(frame["standard_error"], np.sqrt(np.diag(rows @ COVARIANCE @ rows.T)), rtol=1e-13)
    np.testing.assert_allclose(frame["bias_bound"], [0.001, 0.0, 2 * 0.02 + 0.01], rtol=1e-13, atol=1e-18)
    released = fit.summary_frame(0.9)
    # A column's z does not depend on its unit; that of the intercept does.
    np.testing.assert_allclose(frame["z"].iloc[:2], released["z"].iloc[:2], rtol=1e-13)
    np.testing.assert_allclose(frame["p_value"].iloc[:2], released["p_value"].iloc[:2], rtol=1e-9)
    np.testing.assert_allclose(released[["lower", "upper"]], fit.confidence_interval(0.9), rtol=1e-15)
    original = fit.confidence_interval(0.9, original_units=True)
    np.testing.assert_allclose(frame[["lower", "upper"]], original, rtol=1e-15)
    assert list(frame.index) == ["age", "hours", "intercept"]
    assert "coefficient" in fit.summary(original_units=True)
    assert "original columns" in fit.summary(original_units=True)
    assert "original_units=True undoes that" in fit.summary()


def test_standard_errors_in_original_units_are_those_of_a_fit_in_these_units():
    rng = np.random.default_rng(0)
    X = rng.normal([40.0, 38.0], [12.0, 4.0], size=(500, 2))
    y = X @ [0.1, -0.3] + rng.normal(size=500)
    names = {"noiseless": ("age", "hours"), "fit_intercept": True}
    shifts = {"center": {"age": 40.0, "hours": 38.0}, "scale": {"age": 20.0, "hours": 5.0}}
    frames = []
    for release, original in ((sd.Release(**names), False), (sd.Release(**names, **shifts), True)):
        noised = release.privatize(X, y, random_state=0)
        fit = sd.m_estimate(sd.debias(LEAST_SQUARES, noised.release), noised.X, noised.y)
        frames.append(fit.summary_frame(original_units=original))
    np.testing.assert_allclose(frames[1], frames[0], rtol=1e-7, atol=1e-12)


def test_scores_have_their_units_undone_one_by_one():
    release = sd.Release(
        noiseless=("age", "hours"), fit_intercept=True, center=(40.0, 38.0), scale={"age": 20.0, "hours": 5.0}
    )
    inference = Inference(np.diag(np.arange(1.0, 7.0)), "sandwich")
    fit = made(release, np.arange(6.0), inference, loss=sd.losses.softmax(2))
    both = Coefficients.of(fit, 0.95, original_units=True)
    rows = np.array([[1 / 20, 0, 0], [0, 1 / 5, 0], [-2, -38 / 5, 1]])
    np.testing.assert_allclose(both.values, (fit.theta @ rows.T).ravel())
    expected = [np.diag(rows @ np.diag(block) @ rows.T) for block in np.arange(1.0, 7.0).reshape(2, 3)]
    np.testing.assert_allclose(both.errors**2, np.ravel(expected))
    assert both.names[0] == "u0: age"


def test_scores_have_the_names_of_labels_of_text():
    """Where each stands for one: a score is that of the label which is predicted where it alone is large."""
    labels = sd.RandomizedResponse(epsilon=2.0, categories=("car", "bus", "walk"))
    release = sd.Release(target=labels, noiseless=("age",))
    fit = made(release, np.arange(3.0), loss=sd.losses.softmax(3))
    assert Coefficients.of(fit, 0.95, original_units=False).names == ("car: age", "bus: age", "walk: age")
    assert "bus: age" in fit.summary()
    scores, y = sp.symbols("u:3", real=True), sp.Symbol("y", real=True)
    turned = sp.Piecewise((scores[1], sp.Eq(y, 0)), (scores[2], sp.Eq(y, 1)), (scores[0], True))
    loss = sd.Loss(sp.log(sp.Add(*map(sp.exp, scores))) - turned, score=scores, target=y, target_values=(0, 1, 2))
    names = Coefficients.of(made(release, np.arange(3.0), loss=loss), 0.95, original_units=False).names
    assert names == ("u0: age", "u1: age", "u2: age")


def test_where_there_is_no_unit_to_go_back_to_it_is_said():
    without = sd.Release({"age": sd.GaussianMechanism.from_scale(0.5)}, center={"age": 40.0})
    with pytest.raises(ValueError, match="without an intercept no coefficients"):
        made(without, [1.0]).summary(original_units=True)
    x, t, y = sp.symbols("x t y", real=True)
    loss = sd.Loss.of_features((t * x**2 - y) ** 2, features=[x], parameters=[t], target=y)
    free = made(sd.Release({"x": sd.GaussianMechanism.from_scale(0.5)}), [1.0], loss=loss)
    with pytest.raises(ValueError, match="no linear coefficients"):
        free.summary_frame(original_units=True)
    assert "parameter" in free.summary_frame().index.name


def test_the_head_says_what_was_fitted_and_what_it_is_worth():
    fit = made(standardised(noiseless=("year",)), [2.0, -3.0, 1.0, 0.5])
    text = " ".join(fit.summary().split())
    for words in (
        "by hand: least_squares", "loss (u - y)**2/2", "records 100", "age, hours: Gaussian (epsilon 4, delta 1e-05)",
        "year: released as it is", "(4, 1e-05)-differential privacy (local", "right at most 98.3% of the time",
        "Not protected, and released as they are: year, target.", "none, by derivation; not certified",
    ):  # fmt: skip
        assert words in text
    assert "std err" not in text
    assert list(fit.summary_frame().columns) == ["coefficient"]
    # A certificate is measured when it is asked for, and shown from then on.
    assert fit.known_certificate is None
    measured = fit.certificate
    assert fit.known_certificate is measured is fit.certificate
    assert "variance finite" in fit.summary()


def test_a_certificate_beside_noise_of_the_records_own_says_what_it_is_for():
    for own in (False, True):
        release = sd.Release({"age": sd.GaussianMechanism.from_scale(0.3)})
        fit = made(release, [1.0], diagnostics={"noise_scale": True} if own else {})
        assert fit.certificate.noise_variance == pytest.approx(0.09)
        assert ("for the noise which the release declares, and these records have scales" in fit.summary()) == own


def test_codes_of_labels_of_text_are_said():
    """Else nobody knows which of them a positive coefficient speaks for."""
    labelled = made(
        standardised(target=sd.RandomizedResponse(1.0, ("rich", "poor"))), [0.1, 0.2, 0.3],
        loss=sd.losses.logistic().recoded((0, 1)),
    )  # fmt: skip
    assert "labels       rich is 0, poor is 1\n" in labelled.summary()
    assert "labels " not in made(standardised(), [0.1, 0.2, 0.3]).summary()
    numbers = made(
        standardised(target=sd.RandomizedResponse(1.0, (0, 1))), [0.1, 0.2, 0.3],
        loss=sd.losses.logistic().recoded((0, 1)),
    )  # fmt: skip
    assert "labels " not in numbers.summary()


def test_parameters_are_tested_by_their_names():
    columns = {"age": sd.LaplaceMechanism.from_scale(0.1), "place": sd.RandomizedResponse(1.0, ("n", "e", "s"))}
    release = sd.Release(columns, fit_intercept=True)
    fit = made(release, [2.0, 0.1, -0.2, 1.0], Inference(np.diag([4.0, 1.0, 9.0, 1.0]) / 100, "sandwich"))
    assert fit.names == ("age", "place=e", "place=s", "intercept")
    for names, rows in (("age", [0]), (["place=s", "age"], [2, 0]), (("place",), [1, 2]), ("place", [1, 2])):
        assert fit.wald_test(names).pvalue == fit.wald_test(np.eye(4)[rows]).pvalue
    assert fit.wald_test("age", 2.0).statistic == 0.0
    with pytest.raises(ValueError, match=r"'Age' is no parameter of this fit; these are age, place=e, .*Name some of"):
        fit.wald_test("Age")


def test_ends_of_an_interval_are_told_apart_however_large_the_parameter_is():
    """An intercept of 1e8 had 1e+08 at both ends, and its z value moved the columns after it."""
    fit = made(standardised(), [1.0, -0.3, 1e8], Inference(np.diag([0.01, 0.04, 1e-4]), "sandwich"))
    lines = [line for line in fit.summary().splitlines() if not line.startswith(("-", "="))]
    head, age, hours, intercept = lines[-4:]
    assert intercept.split() == ["intercept", "100000000", "0.01", "1e+10", "0.000", "99999999.9804", "100000000.0196"]
    assert age.split()[1:] == ["1", "0.1", "10.000", "0.000", "0.804", "1.196"]
    assert len({len(line) for line in (head, age, hours, intercept)}) == 1


def test_warnings_stand_below_the_table():
    known = {"noise_inflation": 250.0, "on_ball": True, "safeguards": ("theta lies on the ball of radius=",)}
    fit = made(standardised(), [1.0, 1.0, 1.0], Inference(COVARIANCE, "sandwich", refusal="held"), diagnostics=known)
    below = fit.summary().split("intercept")[-1]
    for words in ("1/250 of the records", "lies on the ball of radius=", "safeguard: theta", "no intervals: held"):
        assert words in below
    assert list(fit.summary_frame().columns) == ["coefficient", "standard_error"]


def test_names_are_text_in_notebooks():
    release = sd.Release({HOSTILE: sd.GaussianMechanism.from_scale(0.5)})
    page = Reader(made(release, [1.0], Inference(np.eye(1), "sandwich"), notes=(HOSTILE,))._repr_html_())
    assert page.tags == {"div", "p", "strong", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.text.count(HOSTILE) >= 2
    assert "P>|z|" in page.text


@pytest.mark.parametrize(("names", "original", "drawn"), [
    (("a", "b", "intercept"), True, 2), (("a", "b", "intercept"), False, 3), (("a", "b"), True, 2),
    (("intercept",), True, 1),
])  # fmt: skip
def test_pictures_in_original_units_leave_out_the_intercept(names, original, drawn):
    assert Coefficients(names, np.zeros(len(names)), 0.95, original, None).drawn == range(drawn)


def test_a_fit_is_shown_in_a_line_and_names_of_other_libraries_lead_to_ours():
    fit = made(standardised(), [2.0, -3.0, 0.5])
    assert repr(fit) == "Fit(by hand: least_squares, 100 records, theta=[ 2.  -3.   0.5])"
    assert len(repr(made(sd.Release(sd.GaussianMechanism.from_scale(0.1)), np.zeros(1000)))) < 200
    for name, own in (("coef_", "coefficients"), ("params", "theta"), ("bse", "standard_errors"), ("pvalues", "frame")):
        with pytest.raises(AttributeError, match=rf"a Fit has no attribute '{name}'. Use .*{own}"):
            getattr(fit, name)
    with pytest.raises(AttributeError, match=r"a Fit has no attribute 'thta'$"):
        _ = fit.thta
    assert not hasattr(fit, "__array__")
    assert repr(pickle.loads(pickle.dumps(fit))) == repr(copy.deepcopy(fit)) == repr(fit)


def test_a_surrogate_of_a_polynomial_has_no_bias_to_tell():
    """Nothing of least squares is replaced: the fit is that of the exact correction."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1))
    noised = release.privatize(X, X @ [1.0, -0.5] + rng.normal(size=80), random_state=1)
    corrected = sd.debias(LEAST_SQUARES, release, method="surrogate")
    fit = sd.m_estimate(corrected, noised.X, noised.y)
    assert "bias of the loss at most 0" in fit.summary()
    assert fit.certificate.loss_bias == 0.0
    exact = sd.m_estimate(sd.debias(LEAST_SQUARES, release), noised.X, noised.y)
    np.testing.assert_allclose(fit.theta, exact.theta, rtol=1e-9)


@pytest.mark.in_turn
@pytest.mark.parametrize("width", [0.05, 0.5, 4.0])
def test_a_summary_tells_how_a_quantile_is_smoothed(width):
    """The fit is the quantile of the target plus a logistic error, within five standard errors (alarms below 1e-6)."""
    rng = np.random.default_rng(0)
    x, error = rng.normal(size=(4_000, 1)), rng.normal(size=4_000)
    release = sd.Release(None, noiseless=("x",), fit_intercept=True)
    fit = sd.m_estimate(sd.debias(sd.losses.quantile(0.9, width), release), x, x[:, 0] + error)
    deviation = width * np.pi / np.sqrt(3)
    assert f"smoothed over a width of {width:.3g}" in fit.summary()
    assert f"a logistic error of standard deviation {deviation:.3g}" in fit.summary()
    expected = np.quantile(np.tile(error, 100) + rng.logistic(scale=width, size=400_000), 0.9)
    assert abs(fit.theta[1] - expected) < 5 * fit.standard_errors[1]


def test_a_loss_of_ones_own_that_is_called_quantile_is_not_told_to_be_smoothed():
    u, y = sp.symbols("u y", real=True)
    own = sd.Loss((u - y) ** 2, score=u, target=y, name="quantile")
    x = np.random.default_rng(0).normal(size=(100, 1))
    release = sd.Release(None, noiseless=("x",))
    assert "smoothed" not in sd.m_estimate(sd.debias(own, release), x, x[:, 0]).summary()
