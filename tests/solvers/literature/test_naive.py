"""No correction: another program where there is no noise, and no fit where there is no minimum."""

import numpy as np
import pytest
import sympy as sp
from measured import LINEAR, LOGISTIC, MIXED, POISSON, noised, records

import symdebias as sd
from symdebias.exceptions import DivergenceError

pytestmark = pytest.mark.newest


@pytest.mark.in_turn
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


def test_estimates_that_few_records_decide_are_as_skewed_as_those_of_m_estimate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X @ [1.0, -0.5] + np.exp(rng.normal(size=200))
    release = sd.Release(noiseless=("a", "b"), fit_intercept=True)
    wanted = sd.m_estimate(sd.debias(LINEAR, release), X, y).inference
    assert wanted.skewness[2, 1] > 0.1
    np.testing.assert_allclose(
        sd.literature.naive(LINEAR, release, X, y).inference.skewness, wanted.skewness, rtol=1e-6
    )


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


def test_results_are_read_only_and_print_as_tables():
    released = noised("linear", MIXED, 500)
    found = sd.literature.naive(LINEAR, released.release, released.X, released.y)
    for array in (found.theta, found.covariance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    assert all(name in str(found) for name in ("naive", "intercept", "std err"))
    three = sd.literature.naive(
        sd.losses.softmax(3), sd.Release(noiseless=("a",)), released.X[:, :1], np.arange(500) % 3, l2=0.1
    )
    assert three.theta.shape == three.standard_errors.shape == (3, 1)
    assert "2: a" in str(three)


@pytest.mark.in_turn
@pytest.mark.parametrize("method", ["naive", "regression_calibration", "simex"])
def test_softmax_with_intercepts_sums_to_0_over_the_classes(method):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4_000, 2))
    scores = X @ [[1.0, 0.0, -1.0], [0.0, 1.0, 0.0]] + [0.0, 0.3, -0.3]
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    # In units far from 1, which what is held at 0 knows nothing of.
    release = sd.Release(sd.GaussianMechanism.from_scale([200.0, 0.0003]), fit_intercept=True)
    noised = release.privatize(X * [1e3, 1e-3], y, random_state=1)
    loss = sd.losses.softmax(3)
    fit = getattr(sd.literature, method)(loss, release, noised.X, noised.y)
    np.testing.assert_allclose(fit.theta.sum(axis=0) * [1e3, 1e-3, 1.0], 0.0, atol=1e-7)
    if method == "naive":
        plain = sd.m_estimate(sd.debias(loss, release, method="none"), noised.X, noised.y)
        np.testing.assert_allclose(fit.theta, plain.theta, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(fit.standard_errors, plain.standard_errors, rtol=1e-5)


@pytest.mark.parametrize("unit", [1e-100, 1e12, 1e120])
@pytest.mark.parametrize("method", ["naive", "regression_calibration", "simex", "monte_carlo_score"])
def test_units_of_the_target_do_not_matter(method, unit):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 2))
    y = X @ [1.0, -0.5] + 3 + rng.normal(size=300)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3), fit_intercept=True)
    options = {} if method in ("naive", "regression_calibration") else {"random_state": 0}
    fit = getattr(sd.literature, method)
    one, other = fit(LINEAR, release, X, y, **options), fit(LINEAR, release, X, y * unit, **options)
    np.testing.assert_allclose(other.theta / unit, one.theta, rtol=1e-7)
    np.testing.assert_allclose(other.standard_errors / unit, one.standard_errors, rtol=1e-6)


def test_numbers_whose_squares_are_none_are_refused():
    rng = np.random.default_rng(3)
    X, clean = rng.normal(size=(200, 2)), sd.Release(noiseless=("a", "b"))
    for unit, said in ((1e-85, "the numbers of b are too small"), (1e85, "the numbers of b are too large")):
        with pytest.raises(ValueError, match=said):
            sd.literature.naive(LINEAR, clean, X * [1, unit], X[:, 0])
