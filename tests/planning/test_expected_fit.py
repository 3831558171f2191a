"""Expected standard errors: those of closed forms and of simulated fits."""

import contextlib
import importlib

import gradient_moments
import numpy as np
import pytest
import sympy as sp
from scipy import stats

import symdebias as sd
from symdebias.exceptions import InferenceError, InfiniteVarianceError, NoExactCorrectionError
from symdebias.planning import Population, expected_fit, records_needed

pytestmark = pytest.mark.newest

EXPONENTIAL = sd.losses.exponential()
POPULATION = Population.guess([2.0, -1.0])


def release(epsilon=2.0, scale=1.0):
    return sd.Release({("x0", "x1"): sd.GaussianMechanism.from_scale(scale)}, sd.RandomizedResponse(epsilon=epsilon))


def test_the_check_of_the_literature():
    found = expected_fit(EXPONENTIAL, release(), POPULATION, n=20_000, l2=1.0)
    assert 20_000 * np.trace(found.covariance) == pytest.approx(2.59, rel=0.03)
    assert np.all(found.bias == 0)
    assert found.worth < 1


@pytest.mark.parametrize("method", ["none", "quadrature", "Exact", None, ["exact"]])
def test_other_corrections_are_refused(method):
    """An uncorrected fit has another limit than the population's parameters, and no bias of 0."""
    message = r'is none whose fits are expected. Choose "auto", "exact", "surrogate" or "best".'
    for ask, wanted in ((expected_fit, {"n": 20_000}), (records_needed, {"standard_error": 0.1})):
        with pytest.raises(ValueError, match=message):
            ask(EXPONENTIAL, release(), POPULATION, method=method, **wanted)


def least_squares_population():
    return Population.guess([1.0, -0.5], family="normal", residual=0.7)


SETTINGS = {
    "exponential, noise 1, labels 2": (EXPONENTIAL, gradient_moments.exponential, POPULATION, 1.0, 2.0, 1.0),
    "exponential, noise 0.5, labels 6": (EXPONENTIAL, gradient_moments.exponential, POPULATION, 0.5, 6.0, 0.1),
    "least squares, noise 0.6": (
        sd.losses.least_squares(), gradient_moments.least_squares, least_squares_population(), 0.6, None, 0.0,
    ),
    "least squares, noise 1.5": (
        sd.losses.least_squares(), gradient_moments.least_squares, least_squares_population(), 1.5, None, 0.0,
    ),
    "Poisson, noise 0.4": (
        sd.losses.poisson(), gradient_moments.poisson, Population.guess([0.8, -0.5], family="count"), 0.4, None, 0.0,
    ),
    "Poisson, noise 0.6": (
        sd.losses.poisson(), gradient_moments.poisson, Population.guess([0.8, -0.5], family="count"), 0.6, None, 0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] if "Poisson" in name else []) for name in SETTINGS]
)
def test_expected_covariances_are_those_of_the_closed_form(name):
    """Of the population itself, the noise integrated out: an error of 3% in a standard error is seen.

    The planner draws the noise of 100,000 records. From draw to draw its standard errors vary by .3 to 1.3%, and the
    mean of four draws by half of that: 3% are 4.5 of its standard deviations at the least (false alarms 1e-5).
    """
    loss, moments, population, sigma, epsilon, l2 = SETTINGS[name]
    target = None if epsilon is None else sd.RandomizedResponse(epsilon=epsilon)
    noised = sd.Release({("x0", "x1"): sd.GaussianMechanism.from_scale(sigma)}, target)
    found = [expected_fit(loss, noised, population, n=1_000, l2=l2, random_state=seed) for seed in range(4)]
    theta, share = found[0].theta, np.full(len(population.y), 1 / len(population.y))
    keep = {} if target is None else {"keep": target.keep_probability}
    exact = gradient_moments.covariance(
        moments(population.X, population.y, share, theta, sigma**2 * np.eye(2), **keep), theta, l2
    )
    errors = np.sqrt(np.diag(exact) / 1_000)
    np.testing.assert_allclose(np.mean([one.standard_errors for one in found], axis=0), errors, rtol=0.03)
    # A correlation of 100,000 records is known to .01 at these tails.
    mean = np.mean([one.covariance for one in found], axis=0)
    np.testing.assert_allclose(mean / np.outer(errors, errors), exact / 1_000 / np.outer(errors, errors), atol=0.06)


def test_least_squares_in_closed_form():
    """The trace of one record's covariance over the noise: s2 ||r I + x theta'||_F^2 + (p + 1) s4 ||theta||^2."""
    population = least_squares_population()
    X, y = population.X, population.y
    theta = np.linalg.lstsq(X, y, rcond=None)[0]
    residuals = X @ theta - y
    inner = np.sum((residuals[:, None, None] * np.eye(2) + X[:, :, None] * theta) ** 2, axis=(1, 2))
    noise = 0.36 * inner + 3 * 0.36**2 * theta @ theta
    truth = (X * residuals[:, None]).T @ (X * residuals[:, None]) / len(X)
    share = np.full(len(y), 1 / len(y))
    hessian, second = gradient_moments.least_squares(X, y, share, theta, 0.36 * np.eye(2))
    np.testing.assert_allclose(hessian, X.T @ X / len(X), rtol=1e-12)
    assert np.trace(second) == pytest.approx(np.trace(truth) + noise.mean(), rel=1e-12)


@pytest.mark.in_turn
@pytest.mark.parametrize("draws", [20, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_predicted_errors_are_those_of_simulated_fits(draws):
    """An error of 4% is seen: 200 fits know a standard error to .5%, and the planner's draw of the noise to .5%.

    Fewer fits see an error that is larger by the root of how many fewer they are.

    Beside each fit stands its linearisation at the truth, -H^-1 times the mean corrected gradient, whose mean square is
    known: only how far the two differ is estimated. The planner is of first order, and 1.5% off at this n; what is left
    of 4% is 3.5 standard deviations (false alarms 1e-3).
    """
    n, theta, sigma = 5_000, np.array([0.8, -0.5]), 0.4
    noised = sd.Release({("x0", "x1"): sd.GaussianMechanism.from_scale(sigma)})
    loss = sd.losses.poisson()
    population = Population.guess(theta, family="count", size=100_000)
    found = expected_fit(loss, noised, population, n=n)
    share = np.full(len(population.y), 1 / len(population.y))
    moments = gradient_moments.poisson(population.X, population.y, share, theta, sigma**2 * np.eye(2))
    exact = np.diag(gradient_moments.covariance(moments, theta)) / n
    corrected = sd.debias(loss, noised)
    gained, fits = [], []
    for seed in range(draws):
        rng = np.random.default_rng([3, seed])
        X = rng.uniform(-1, 1, (n, 2))
        released = noised.privatize(X, rng.poisson(np.exp(X @ theta)).astype(float), random_state=rng)
        error = sd.m_estimate(corrected, released.X, released.y).theta - theta
        rate = np.exp(released.X @ theta - sigma**2 * theta @ theta / 2)
        gradient = rate @ (released.X - sigma**2 * theta) - released.y @ released.X
        linear = -np.linalg.solve(moments[0], gradient / n)
        gained.append(error**2 - linear**2)
        fits.append(linear)
    spread, more = np.std(gained, axis=0) / np.sqrt(draws), np.sqrt(200 / draws)
    assert np.all(spread < 0.015 * more * exact)
    np.testing.assert_allclose(np.sqrt(exact + np.mean(gained, axis=0)), found.standard_errors, rtol=0.04 * more)
    # The linearisations do have that mean square: chi-squared with as many degrees of freedom, at 1e-4 on either side.
    ratio = np.sum(np.square(fits), axis=0) / exact
    assert np.all((ratio > stats.chi2(draws).ppf(1e-4)) & (ratio < stats.chi2(draws).isf(1e-4)))


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", [sd.losses.huber(), sd.losses.squared_hinge()], ids=["huber", "squared_hinge"])
def test_expected_errors_are_those_in_other_units(loss):
    """A column in thousands took the errors to ten times as much, or had the plan refused for its long gradients."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(3_000, 2))
    y = X @ [0.8, -0.6] + rng.normal(size=3_000)
    target = None if loss.target_values is None else sd.RandomizedResponse(epsilon=2.0)
    open_release = sd.Release(None, target, noiseless=("a", "b"))
    found = []
    # Powers of two leave all numbers as they are.
    for units in (np.array([1.0, 1.0]), np.array([2.0**14, 2.0**-14])):
        population = Population(X * units, y if target is None else np.where(y > 0, 1.0, -1.0))
        expected = expected_fit(loss, open_release, population, n=10_000)
        found.append(np.concatenate([expected.standard_errors * units, expected.without_noise * units]))
    np.testing.assert_allclose(*found, rtol=1e-3)


def test_the_records_needed_give_what_was_wanted():
    found = records_needed(EXPONENTIAL, release(), POPULATION, standard_error=0.004, l2=1.0)
    assert found.standard_errors.max() == pytest.approx(0.004, rel=1e-3)
    again = expected_fit(EXPONENTIAL, release(), POPULATION, n=found.records, l2=1.0)
    np.testing.assert_array_equal(again.covariance, found.covariance)


def test_noise_beyond_any_approximation_is_refused():
    with pytest.raises(InferenceError, match="carries the corrected gradient"):
        expected_fit(EXPONENTIAL, release(scale=8.0), Population.guess([3.0, -1.0]), n=1e6, l2=0.01)


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore::symdebias.exceptions.VarianceWarning")
def test_a_plan_says_where_fits_are_refused():
    """Of 10 fits to so few records most are refused, and hardly any to twice as many as the plan asks for."""
    population = sd.planning.Population.guess([1.0, 0.2, 0.3, 0.0, 0.2], size=5_000, random_state=0)
    loss, release = sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(1.2))
    short = sd.planning.expected_fit(loss, release, population, n=500)
    assert 0 < short.curvature < 2.5
    (note,) = (note for note in short.notes if "may well be refused" in note)
    enough = float(note.split("About ")[1].split()[0])
    long = sd.planning.expected_fit(loss, release, population, n=enough)
    assert long.curvature == pytest.approx(5, rel=0.05)
    assert not any("refused" in note for note in long.notes)

    def refused(n):
        count = 0
        for seed in range(10):
            rng = np.random.default_rng(seed)
            chosen = rng.integers(len(population.y), size=int(n))
            noised = release.privatize(population.X[chosen], population.y[chosen], random_state=seed)
            try:
                sd.m_estimate(sd.debias(loss, noised.release), noised.X, noised.y)
            except sd.DivergenceError:
                count += 1
        return count

    assert refused(500) >= 8
    assert refused(2 * enough) <= 1


def test_noise_and_population_do_not_share_a_stream():
    first = expected_fit(EXPONENTIAL, release(), POPULATION, n=1e4, l2=1.0, random_state=0)
    other = expected_fit(EXPONENTIAL, release(), POPULATION, n=1e4, l2=1.0, random_state=17)
    np.testing.assert_allclose(first.standard_errors, other.standard_errors, rtol=0.03)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: expected_fit(EXPONENTIAL, release(), POPULATION, n=0), ValueError, "n="),
        (lambda: expected_fit(EXPONENTIAL, release(), POPULATION, n=0.5), ValueError, "no number of records"),
        (
            lambda: expected_fit(
                EXPONENTIAL, sd.Release(sd.GaussianMechanism.from_scale(1.0), center=[1.0]),
                Population.guess([1.0]), n=10,
            ),
            ValueError,
            "columns without names, and the population has 1",
        ),
        (
            lambda: expected_fit(
                EXPONENTIAL, sd.Release({"x0": sd.GaussianMechanism.from_scale(1.0)}, center={"x0": 1.0}),
                Population.guess([1.0, 2.0]), n=10,
            ),
            ValueError,
            "takes the columns x0, and the population has 2",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.exhaustive
def test_a_surrogate_is_planned_for_one_hot_columns():
    """A column of categories without noise is the same as its one-hot columns."""
    rng = np.random.default_rng(0)
    x, region = rng.uniform(-0.5, 0.5, 1_000), rng.integers(0, 3, 1_000).astype(float)
    y = np.where(rng.random(1_000) < 0.5 + 0.3 * x + 0.1 * region - 0.1, 1.0, -1.0)
    one_hot = np.eye(3)[region.astype(int)][:, 1:]
    still = sd.FiniteChannel(np.eye(3), ("n", "e", "s"))
    noise = sd.GaussianMechanism.from_scale(0.5)
    coded = sd.Release({"x": noise, "region": still}, fit_intercept=True)
    plain = sd.Release({"x": noise}, noiseless=("e", "s"), fit_intercept=True)
    options = {"n": 20_000, "method": "surrogate", "l2": 0.1}
    first, second = (
        sd.planning.expected_fit(
            sd.losses.logistic(), one, sd.planning.Population(np.column_stack(columns), y), **options
        )
        for one, columns in ((coded, (x, region)), (plain, (x, one_hot)))
    )
    np.testing.assert_allclose(first.theta, second.theta, atol=1e-7)
    assert np.any(first.bias != 0)
    np.testing.assert_allclose(first.bias, second.bias, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(first.standard_errors, second.standard_errors, rtol=0.02)


def test_a_release_with_centre_and_scale_takes_records_in_their_own_units():
    rng = np.random.default_rng(0)
    units = rng.normal(size=(2_000, 2))
    y = units @ [1.0, -0.5] + rng.normal(size=2_000)
    own = units * [12.0, 3.0] + [40.0, 7.0]
    mechanism = sd.GaussianMechanism.from_scale(0.5)
    release = sd.Release(
        {("a", "b"): mechanism}, fit_intercept=True, center={"a": 40.0, "b": 7.0}, scale={"a": 12.0, "b": 3.0}
    )
    found = expected_fit(sd.losses.least_squares(), release, Population(own, y), n=5_000)
    by_hand = sd.Release({("a", "b"): mechanism}, fit_intercept=True)
    same = expected_fit(sd.losses.least_squares(), by_hand, Population(units, y), n=5_000)
    np.testing.assert_allclose(found.standard_errors, same.standard_errors, rtol=1e-9)
    needed = records_needed(sd.losses.least_squares(), release, Population(own, y), standard_error=0.05)
    assert needed.standard_errors.max() == pytest.approx(0.05, rel=0.01)


@pytest.mark.exhaustive
def test_expected_errors_under_centre_and_scale_are_those_of_simulated_fits():
    """200 fits: a standard error that is a fifth off would be four of its own standard errors."""
    rng = np.random.default_rng(1)
    release = sd.Release(
        {"age": sd.GaussianMechanism.from_scale(0.4)}, fit_intercept=True, center={"age": 54.0}, scale={"age": 36.0}
    )

    def drawn(n):
        age = rng.uniform(18, 90, (n, 1))
        return age, 3 + 0.1 * age[:, 0] + rng.normal(size=n)

    expected = expected_fit(sd.losses.least_squares(), release, Population(*drawn(20_000)), n=1_000)
    corrected, thetas = sd.debias(sd.losses.least_squares(), release), []
    for _ in range(200):
        noised = release.privatize(*drawn(1_000), random_state=int(rng.integers(2**31)))
        thetas.append(sd.m_estimate(corrected, noised.X, noised.y).theta)
    np.testing.assert_allclose(np.std(thetas, axis=0), expected.standard_errors, rtol=0.2)


# ---- free-form losses ------------------------------------------------------------------------------------

x1, x2, a, b, y = sp.symbols("x1 x2 a b y", real=True)
CURVE = sd.Loss.of_features((y - a * sp.exp(b * x1)) ** 2 / 2, features=[x1], parameters=[a, b], target=y)


def curve_population(n, rng):
    X = rng.uniform(-1, 1, (n, 1))
    return X, 1.5 * np.exp(0.8 * X[:, 0]) + 0.5 * rng.normal(size=n)


@pytest.mark.in_turn
def test_a_free_form_loss_is_planned_as_that_of_its_score():
    """A column without noise may stand in it squared; the noise that the planner draws is the same."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (2_000, 2))
    target = -0.7 * X[:, 0] + 1.5 * X[:, 1] ** 2 + 0.5 * rng.normal(size=2_000)
    quadratic = sd.Loss.of_features(
        (y - a * x1 - b * x2**2) ** 2 / 2, features=[x1, x2], parameters=[a, b], target=y
    )  # fmt: skip
    noised = sd.Release({"x1": sd.GaussianMechanism.from_scale(0.4)}, noiseless=("x2",))
    found = expected_fit(quadratic, noised, Population(X, target), n=5_000)
    squared = Population(np.column_stack([X[:, 0], X[:, 1] ** 2]), target)
    same = expected_fit(sd.losses.least_squares(), noised, squared, n=5_000)
    np.testing.assert_allclose(found.theta, same.theta, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, same.covariance, rtol=1e-9)
    assert np.isnan(found.score_variance)
    assert found.method == "exact"


@pytest.mark.in_turn
@pytest.mark.parametrize("draws", [25, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_expected_errors_of_a_curve_are_those_of_simulated_fits(draws):
    """200 fits: a standard error that is a quarter off would be five of its own standard errors; 25: two thirds off."""
    noised = sd.Release({"x1": sd.LaplaceMechanism.from_scale(0.1)})
    population = Population(*curve_population(20_000, np.random.default_rng(6)))
    expected = expected_fit(CURVE, noised, population, n=5_000, start=[1.0, 0.5])
    corrected, found = sd.debias(CURVE, noised), []
    for seed in range(draws):
        rng = np.random.default_rng([4, seed])
        released = noised.privatize(*curve_population(5_000, rng), random_state=rng)
        found.append(sd.m_estimate(corrected, released.X, released.y, start=[1.5, 0.8]).theta)
    more = np.sqrt(200 / draws)
    np.testing.assert_allclose(np.std(found, axis=0), expected.standard_errors, rtol=0.25 * more)
    np.testing.assert_allclose(np.mean(found, axis=0), expected.theta, atol=4 * expected.standard_errors.max() / 5)


@pytest.mark.in_turn
def test_free_form_losses_that_are_refused_or_noted():
    population = Population(*curve_population(5_000, np.random.default_rng(6)))
    heavy = expected_fit(CURVE, sd.Release(sd.LaplaceMechanism.from_scale(0.24)), population, n=1e5, start=[1.5, 0.8])
    assert "drawn records decide an expected standard error" in heavy.notes[-1]
    with pytest.raises(InfiniteVarianceError, match="a finite one needs"):
        expected_fit(CURVE, sd.Release(sd.LaplaceMechanism.from_scale(0.35)), population, n=1e5, start=[1.5, 0.8])
    with pytest.raises(ValueError, match="NaN in entry 0"):
        expected_fit(CURVE, sd.Release(sd.LaplaceMechanism.from_scale(0.1)), population, n=1e5, start=[np.nan, 0.8])
    labels = np.where(population.X[:, 0] > 0, 1.0, -1.0)
    logistic = sd.Loss.of_features(
        sp.log(1 + sp.exp(-y * a * x1)), features=[x1], parameters=[a], target=y, target_values=(-1, 1)
    )
    noised = sd.Release(sd.GaussianMechanism.from_scale(0.4), sd.RandomizedResponse(2.0))
    with pytest.raises(NoExactCorrectionError, match="a surrogate is planned for losses of a score"):
        expected_fit(logistic, noised, Population(population.X, labels), n=1e5, l2=0.1)


@pytest.mark.exhaustive
def test_the_exact_correction_is_taken_where_a_surrogate_gains_little():
    """A twentieth of the excess risk here, and pilots of surrogates of counts do not settle on all records."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.uniform(-1, 1, 5_000), rng.normal(0, 1 / 3, 5_000).clip(-1, 1)])
    population = Population(X, rng.poisson(np.exp(0.6 * X[:, 0] + 0.48 * X[:, 1])))
    noised = sd.Release({"x0": sd.LaplaceMechanism.from_scale(0.35), "x1": sd.LaplaceMechanism.from_scale(0.18)})
    best, surrogate = (
        expected_fit(sd.losses.poisson(), noised, population, n=50_000, method=method)
        for method in ("best", "surrogate")
    )
    assert best.method == "exact"
    assert 0.9 < surrogate.excess_risk / best.excess_risk < 1


@pytest.mark.in_turn
def test_losses_that_grow_exponentially_are_planned_by_their_exact_corrections():
    """Pilots of their surrogates often do not settle, of which the expected errors say nothing: a note does."""
    population = Population.guess([0.5, -0.3], family="count")
    release = sd.Release(sd.LaplaceMechanism(epsilon=8.0, radius=2.0))
    best, surrogate = (
        expected_fit(sd.losses.poisson(), release, population, n=5_000, method=method)
        for method in ("best", "surrogate")
    )
    # By excess risk alone the surrogate would be taken.
    assert surrogate.excess_risk < 0.9 * best.excess_risk
    assert (best.method, best.notes) == ("exact", ())
    assert any("the loss grows exponentially in the score" in note for note in surrogate.notes)
    # Other surrogates, and those of a point of a sphere, whose pilots are exact, have no such note.
    logistic = expected_fit(sd.losses.logistic(), release, Population.guess([0.5, -0.3]), n=5_000, method="surrogate")
    cap = sd.Release(sd.SphericalCapMechanism(epsilon=8.0, radius=2**0.5))
    for other in (logistic, expected_fit(sd.losses.poisson(), cap, population, n=5_000, method="best")):
        assert not any("grows" in note for note in other.notes)


@pytest.mark.parametrize(
    ("loss", "wanted"),
    [
        (sd.losses.exponential(), True),
        (sd.losses.tweedie(), True),
        (sd.losses.gamma(), True),
        (sd.losses.probit(), False),
        (sd.losses.squared_hinge(), False),
        (sd.losses.negative_binomial(), False),
        (sd.losses.softmax(3), False),
        (sd.Loss((1 - y * a) ** 8, score=a, target=y), False),
        (sd.Loss(sp.log(sp.cosh(a - y)), score=a, target=y), False),
    ],
    ids=str,
)
def test_growth_is_told_from_powers(loss, wanted):
    assert importlib.import_module("symdebias.planning.expected_fit")._grows(loss) == wanted


@pytest.mark.in_turn
def test_softmax_with_intercepts_is_planned_as_it_is_fitted():
    """No penalty holds what all classes have in common, and fits have parameters that sum to 0 over them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 2))
    scores = X @ [[1.0, 0.0, -1.0], [0.0, 1.0, 0.0]] + [0.0, 0.3, -0.3]
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    release = sd.Release(dict.fromkeys("ab", sd.LaplaceMechanism.from_scale(0.2)), fit_intercept=True)
    loss = sd.losses.softmax(3)
    expected = sd.planning.expected_fit(loss, release, sd.planning.Population(X, y), n=20_000)
    noised = release.privatize(X, y, random_state=1)
    fit = sd.m_estimate(sd.debias(loss, release), noised.X, noised.y)
    np.testing.assert_allclose(expected.theta.reshape(3, 3).sum(axis=0), 0.0, atol=1e-9)
    # The population is that of the fit, and its standard errors are told to 1/sqrt(n) of it.
    np.testing.assert_allclose(expected.standard_errors, fit.standard_errors.ravel(), rtol=0.05)
    needed = sd.planning.records_needed(loss, release, sd.planning.Population(X, y), standard_error=0.05)
    assert needed.standard_errors.max() <= 0.05


def clipped_population():
    """Lognormal columns: bounds of -2 and 3 clip some 8% of the records."""
    rng = np.random.default_rng(3)
    X = np.exp(0.8 * rng.normal(size=(10_000, 2))) - 1.2
    return Population(X, X @ [1.0, -0.5] + 0.3 * rng.normal(size=len(X)))


def test_records_that_are_clipped_are_planned_as_such():
    """In closed form: the root of least squares on clipped features, and the scatter of its gradient with noise."""
    population, sigma, n = clipped_population(), 0.5, 5_000
    release = sd.Release(
        {(name,): sd.LaplaceMechanism.from_scale(sigma / np.sqrt(2), bounds=(-2.0, 3.0)) for name in ("x0", "x1")}
    )
    found = expected_fit(sd.losses.least_squares(), release, population, n=n)
    own, clipped = population.X, np.clip(population.X, -2.0, 3.0)
    y, root = population.y, np.linalg.lstsq(clipped, population.y, rcond=None)[0]
    truth = np.linalg.lstsq(own, y, rcond=None)[0]
    np.testing.assert_allclose(found.theta, truth, rtol=1e-6)
    np.testing.assert_allclose(found.bias, root - truth, rtol=1e-4)
    noised = clipped + np.random.default_rng(9).laplace(scale=sigma / np.sqrt(2), size=(50, *clipped.shape))
    gradients = noised * (noised @ root - y)[..., None] - sigma**2 * root
    hessian = clipped.T @ clipped / len(clipped)
    covariance = np.linalg.inv(hessian) @ np.cov(gradients.reshape(-1, 2).T) @ np.linalg.inv(hessian) / n
    # The planner draws 100,000 records, and this 500,000: each knows a standard error to 1%. Those of records that
    # are not clipped are 38% smaller.
    np.testing.assert_allclose(found.standard_errors, np.sqrt(np.diag(covariance)), rtol=0.05)
    risk = own.T @ own / len(own)
    assert found.excess_risk == pytest.approx(
        (np.trace(risk @ found.covariance) + found.bias @ risk @ found.bias) / 2, rel=1e-3
    )
    plain = np.linalg.inv(risk)
    scatter = own * (own @ truth - y)[:, None]
    np.testing.assert_allclose(
        found.without_noise, np.sqrt(np.diag(plain @ (scatter.T @ scatter / len(own)) @ plain) / n), rtol=1e-3
    )
    share = np.mean(np.any((own < -2) | (own > 3), axis=1))
    assert f"{share:.2g} of the population's records lie outside the bounds and are clipped" in found.notes[0]
    assert np.all(found.criterion("worst") > np.abs(found.bias))


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", ["noised", "margin", "joint"])
def test_clipped_targets_and_vectors_are_planned_as_such(kind):
    """What is expected of a population is, but for its bias, what is expected of its clipped records."""
    population = clipped_population()
    mechanism = sd.GaussianMechanism.from_scale(0.4, radius=2.0)
    X, y, loss = population.X, population.y, sd.losses.least_squares()
    target = np.clip(y, -1.5, 1.5)
    if kind == "noised":
        release = sd.Release(mechanism, sd.LaplaceMechanism.from_scale(0.5, bounds=(-1.5, 1.5)))
    elif kind == "joint":
        release = sd.Release(mechanism, "joint", target_bounds=(-1.5, 1.5), target_scale=1.0)
    else:
        release, loss = sd.Release(mechanism, "margin", target_values=(-1, 1)), sd.losses.squared_margin()
        y = target = np.where(y > 0, 1.0, -1.0)
    shorter = X * np.minimum(1.0, 2.0 / np.linalg.norm(X, axis=1))[:, None] * (1 - 1e-12)
    found = expected_fit(loss, release, Population(X, y), n=2_000)
    clipped = expected_fit(loss, release, Population(shorter, target), n=2_000)
    np.testing.assert_allclose(found.standard_errors, clipped.standard_errors, rtol=1e-6)
    np.testing.assert_allclose(found.theta + found.bias, clipped.theta, rtol=1e-6)
    assert "are clipped" in found.notes[0]
    assert not clipped.notes
    assert np.abs(found.bias).max() > 3 * found.standard_errors.max()


@pytest.mark.in_turn
def test_more_records_do_not_undo_clipping():
    release = sd.Release(sd.LaplaceMechanism.from_scale(0.3, bounds=(-2.0, 3.0)))
    population = Population(clipped_population().X[:, :1], clipped_population().y)
    with pytest.raises(InferenceError, match="a bias, of the surrogate or of records that are clipped"):
        records_needed(sd.losses.least_squares(), release, population, standard_error=0.01)


@pytest.mark.in_turn
def test_gradients_of_waves_of_categories_go_by_blocks(monkeypatch):
    """The kernel of gradients takes records of 250 categories one by one: a hundred times as long."""
    rng, ways = np.random.default_rng(0), []
    kernel = sd.records.Records.gradients

    def watched(records, theta, rows, *, by_derivatives=False):
        ways.append(by_derivatives and records.has_slopes)
        return kernel(records, theta, rows, by_derivatives=by_derivatives)

    features = {"a": sd.LaplaceMechanism.from_scale(0.4), "k": sd.RandomizedResponse(epsilon=4.0, categories=(0, 1, 2))}
    X = np.column_stack([rng.uniform(-1, 1, 2_000), rng.integers(0, 3, 2_000)])
    population = Population(X, np.where(rng.random(2_000) < 0.5 + 0.2 * X[:, 0], 1, -1))
    monkeypatch.setattr(sd.records.Records, "gradients", watched)
    expected_fit(sd.losses.logistic(), sd.Release(features), population, n=20_000, method="surrogate")
    assert all(ways)


@pytest.mark.parametrize("names", [None, ("age", "hours")], ids=["without names", "beside other columns"])
@pytest.mark.parametrize("radius", [2**0.5, 0.8], ids=["all inside", "some clipped"])
def test_true_records_of_a_cap_are_taken_as_they_are(names, radius):
    """Released points of a sphere are divided by the gain, .79 here: theta was 21% short and its errors by a third."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4_000, 2 if names is None else 3))
    y = np.where(rng.random(4_000) < 1 / (1 + np.exp(-X @ [1.5, -1.0, 0.5][: X.shape[1]] - 0.3)), 1, -1)
    cap = sd.SphericalCapMechanism(epsilon=4.0, radius=radius)
    features = cap if names is None else {names: cap, "dose": sd.LaplaceMechanism(epsilon=8.0, bounds=(-1, 1))}
    by_cap = sd.Release(features, target=sd.RandomizedResponse(epsilon=4.0), fit_intercept=True)
    loss = sd.losses.squared_margin()
    found = expected_fit(loss, by_cap, Population(X, y), n=100_000)
    design = np.column_stack([X, np.ones(len(X))])
    assert found.theta == pytest.approx(np.linalg.lstsq(design, y, rcond=None)[0])

    drawn = rng.integers(len(X), size=100_000)
    with pytest.warns(sd.ClippingWarning) if radius < 1 else contextlib.nullcontext():
        noised = by_cap.privatize(X[drawn], y[drawn], random_state=rng)
    fit = sd.m_estimate(sd.debias(loss, noised.release), noised.X, noised.y)
    # Either is known to some 2%.
    assert found.standard_errors == pytest.approx(fit.standard_errors, rel=0.1)
    assert np.all(np.abs(fit.theta - found.theta - found.bias) < 4.5 * found.standard_errors)
    assert np.any(found.bias != 0) == (radius < 1)


ESTIMATED = {
    "one scale": sd.GaussianMechanism.from_estimate(0.5, 25),
    "a scale for each column": sd.GaussianMechanism.from_estimate([[0.25, 0.0], [0.0, 0.2]], 25),
    "a covariance": sd.GaussianMechanism.from_estimate([[0.25, 0.1], [0.1, 0.2]], 25),
}


@pytest.mark.parametrize("target", [None, sd.GaussianMechanism.from_estimate(0.4, 30)], ids=["true target", "noised"])
@pytest.mark.parametrize("noise", ESTIMATED)
def test_the_error_of_an_estimated_noise_is_expected(noise, target):
    """It is four times the rest. The fit to 100,000 records knows what it adds to a twentieth, a median to as much."""
    population = Population.guess([1.0, -0.5], family="normal", residual=0.7, size=20_000)
    own = sd.Release(ESTIMATED[noise], target)
    found = expected_fit(sd.losses.least_squares(), own, population, n=100_000)
    rows = np.resize(np.arange(20_000), 100_000)
    noised = own.privatize(population.X[rows], population.y[rows], random_state=0)
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), noised.release), noised.X, noised.y)
    np.testing.assert_allclose(found.standard_errors, fit.standard_errors, rtol=0.1)
    assert np.diag(found.of_estimate).max() > 0.9 * np.diag(found.covariance).max()


def test_the_error_of_an_estimated_noise_does_not_fall_with_the_number_of_records():
    population = Population.guess([1.0, -0.5], family="normal", residual=0.7)
    for noise in (sd.GaussianMechanism.from_estimate(0.5, 500), sd.GaussianMechanism.from_scale(0.5)):
        few, many = (expected_fit(sd.losses.least_squares(), sd.Release(noise), population, n=n) for n in (1e3, 1e9))
        np.testing.assert_allclose(few.of_estimate, many.of_estimate)
        falling = few.covariance - few.of_estimate
        np.testing.assert_allclose(many.covariance - many.of_estimate, falling / 1e6, atol=1e-12)
    assert np.all(many.of_estimate == 0)


@pytest.mark.parametrize("criterion", ["worst", "mean", "risk"])
def test_records_are_needed_for_what_an_estimated_noise_leaves(criterion):
    """Close to what the estimate leaves a search by the ratio of squares would not arrive."""
    population = Population.guess([1.0, -0.5], family="normal", residual=0.7)
    own = sd.Release(sd.GaussianMechanism.from_estimate(0.5, 500))
    ask = {"population": population, "criterion": criterion}
    stays = expected_fit(sd.losses.least_squares(), own, population, n=1e9).criterion(criterion)
    wanted = 1.05 * stays
    found = records_needed(sd.losses.least_squares(), own, standard_error=wanted, **ask)
    assert found.criterion(criterion) == pytest.approx(wanted, rel=1e-3)
    with pytest.raises(InferenceError, match="the noise is an estimate, whose error alone leaves"):
        records_needed(sd.losses.least_squares(), own, standard_error=0.95 * stays, **ask)
