"""What all methods of the literature have in common: refusals, bad input, fits, and the table of them."""

import numpy as np
import pytest
from measured import CORRELATED, LABELLED, LINEAR, LOGISTIC, MIXED, POISSON, noised, records

import symdebias as sd
from symdebias.exceptions import InferenceError, NoExactCorrectionError
from symdebias.solvers.literature.comparison import METHODS

pytestmark = pytest.mark.newest


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


@pytest.mark.exhaustive
@pytest.mark.newest
def test_a_comparison_has_a_row_for_each_method_and_says_who_refused():
    theta = np.array([0.5, -0.3, 0.2, 0.0])
    release = sd.Release({("a", "b"): CORRELATED}, noiseless=("c",))
    released = release.privatize(*records("poisson", 20_000, seed=4, theta=theta), random_state=5)
    arguments = (POISSON, released.release, released.X, released.y)
    found = sd.literature.compare_methods(*arguments, true_theta=theta[:3], random_state=0)
    assert [row.method for row in found.rows] == list(METHODS)
    naive = found["naive"].distance
    assert all(found[row].distance < naive / 2 for row in ("conditional_score", "monte_carlo_score", "corrected"))
    assert all(row.standard_errors.shape == (3,) for row in found.rows)
    text = str(found)
    assert "20,000 records" in text
    assert all(name in text for name in ("a", "b", "c", "distance", *METHODS))
    with pytest.raises(KeyError, match="was not compared"):
        found["magic"]
    few = sd.literature.compare_methods(*arguments, methods=("simex",), random_state=0)
    np.testing.assert_array_equal(few["simex"].theta, found["simex"].theta)
    assert few["simex"].distance is None
    refused = sd.literature.compare_methods(LINEAR, *arguments[1:], methods=("conditional_score",))
    assert refused["conditional_score"].theta is None
    assert "refused: the conditional score" in str(refused)


COVERS = {
    sd.literature.conditional_score: True,
    sd.literature.naive: False,
    sd.literature.regression_calibration: False,
    sd.literature.simex: False,
}


@pytest.mark.parametrize("method", COVERS, ids=lambda method: method.__name__)
def test_fits_are_saved_and_have_intervals_where_these_would_cover(method, tmp_path):
    released = noised("logistic", LABELLED, 2_000)
    options = {"repeats": 1, "random_state": 0} if method is sd.literature.simex else {}
    fit = method(LOGISTIC, released.release, released.X, released.y, **options)
    fit.save(tmp_path / "fit")
    again = sd.Fit.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.theta, fit.theta)
    np.testing.assert_array_equal(again.covariance, fit.covariance)
    assert again.summary() == fit.summary()
    assert (again.method, again.names, again.notes) == (method.__name__, ("a", "b", "c", "intercept"), fit.notes)
    assert fit.description in fit.summary()
    assert fit.guarantee == released.release.guarantee
    assert fit.diagnostics["records"] == 2_000
    if COVERS[method]:
        centre = fit.confidence_interval(0.95).mean(axis=1)
        np.testing.assert_allclose(centre, fit.theta)
        assert "no intervals" not in fit.summary()
    else:
        with pytest.raises(InferenceError, match="leaves a bias in theta"):
            fit.confidence_interval()
        assert "no intervals" in fit.summary()


def test_intervals_of_calibration_are_those_of_an_unbiased_estimate_for_least_squares_only():
    released = noised("linear", MIXED, 2_000)
    fit = sd.literature.regression_calibration(LINEAR, released.release, released.X, released.y)
    assert fit.confidence_interval().shape == (4, 2)
    assert not fit.bias_bound.any()
    squared = sd.literature.regression_calibration(sd.losses.squared_margin(), MIXED, released.X, np.sign(released.y))
    assert not squared.inference.refusal
    assert sd.literature.regression_calibration(POISSON, MIXED, released.X, np.floor(released.y**2)).inference.refusal


def test_a_loaded_folder_is_compared_in_its_own_units(tmp_path):
    """Parameters and errors are those of each fit in original units; the cells of the table stand apart."""
    release = sd.Release(
        {("age", "hours"): sd.GaussianMechanism.from_scale(0.3, radius=2.0)}, fit_intercept=True,
        center={"age": 40, "hours": 40}, scale={"age": 20, "hours": 40},
    )  # fmt: skip
    X = np.random.default_rng(0).uniform([20, 0], [60, 80], size=(100, 2))
    release.privatize(X, X @ [0.05, -0.02] + 2, random_state=1).save(tmp_path / "released")
    noised = sd.load(tmp_path / "released")
    arguments = (sd.losses.least_squares(), noised.release, noised.X, noised.y)
    found = sd.literature.compare_methods(
        *arguments, methods=("naive", "corrected"), original_units=True, true_theta=[0.05, -0.02, 2.0]
    )
    fit = sd.m_estimate(sd.debias(*arguments[:2]), *arguments[2:])
    np.testing.assert_allclose(found["corrected"].theta, fit.coefficients, rtol=1e-12)
    errors = fit.summary_frame(original_units=True)["standard_error"]
    np.testing.assert_allclose(found["corrected"].standard_errors, errors, rtol=1e-12)
    assert found["corrected"].distance == pytest.approx(np.linalg.norm(fit.coefficients - [0.05, -0.02, 2.0]))
    assert found["naive"].theta[0] != pytest.approx(found["corrected"].theta[0], rel=1e-3)
    assert all(len(line.split(") ")) == 4 for line in str(found).splitlines() if line.startswith(("naive", "corr")))
