"""The pilot on a ladder of distances, and training in two stages."""

import sys

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, logistic_records

import symdebias as sd
from symdebias.exceptions import DivergenceError
from symdebias.records import Records
from symdebias.solvers.pilot import pilot_of
from symdebias.solvers.regions import region_of
from symdebias.solvers.scores import known_scores

pytestmark = pytest.mark.newest

MEASURED = sd.GaussianMechanism.from_scale(0.8)
LABELS = sd.RandomizedResponse(2.0)


def test_labels_that_a_hyperplane_separates_leave_no_pilot():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    corrected = sd.debias(sd.losses.logistic(), sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.05)}))
    with pytest.raises(sd.exceptions.SymdebiasError, match=r"[Rr]aise l2"):
        sd.sgd(corrected, X, np.sign(X[:, 0]), random_state=0)


DESIGNS = {
    "normal": (lambda rng, n: rng.normal(size=(n, 2)), [1.0, -0.5], 0.0),
    "strong": (lambda rng, n: rng.uniform(-1, 1, (n, 2)), [6.4, -4.8], 0.0),
    "leverage": (
        lambda rng, n: rng.normal(size=(n, 2)) * np.where(rng.random(n) < 0.03, 10, 1)[:, None],
        [1.0, -0.7],
        0.0,
    ),
    "rare class": (lambda rng, n: rng.normal(size=(n, 2)), [1.0, -0.5], -4.0),
    "heavy tails": (lambda rng, n: rng.standard_t(3, size=(n, 2)), [0.8, -0.4], 0.5),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_the_pilot_holds(design):
    """Within six times its own uncertainty of the truth, whatever the distribution of scores."""
    draw, slopes, intercept = DESIGNS[design]
    rng = np.random.default_rng(11)
    X = draw(rng, 20_000)
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-X @ slopes - intercept)), 1.0, -1.0)
    data = sd.Release(sd.GaussianMechanism.from_scale(0.25), fit_intercept=True).privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    records = corrected.records(data.X, data.y)
    known = known_scores(corrected, records)
    found = pilot_of(known, records, np.zeros(3), region_of(None, None))
    truth = np.array([*slopes, intercept])
    assert known.size(found.theta - truth) < 6 * found.uncertainty + 0.05 * known.size(truth)
    again = pilot_of(known, records, np.zeros(3), region_of(None, None), start=truth)
    assert known.size(again.theta - found.theta) < 0.1 * known.size(truth)


def test_the_noisiest_records_are_among_those_that_a_design_rests_on():
    """A sample of 50,000 is looked at; one record lies amid the rest and has a hundred times their noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 2))
    y, scales = np.where(rng.random(len(X)) < 0.5, 1.0, -1.0), np.full(X.shape, 0.1)
    X[33_335], scales[33_335] = 0.0, 10.0
    corrected = sd.debias(sd.losses.logistic(), sd.Release(MEASURED))
    known = known_scores(corrected, corrected.records(X, y, noise_scale=scales))
    assert known.sample_of().own_variances.max() == 100.0
    assert known.variances(np.array([1.0, 0.0])).max() > 50


def test_a_free_form_loss_has_no_pilot():
    x1, a = sp.symbols("x1 a", real=True)
    loss = sd.Loss.of_features(
        sp.log(1 + sp.exp(-Y * a * x1)), features=[x1], parameters=[a], target=Y, target_values=(-1, 1)
    )
    corrected = sd.debias(loss, sd.Release({"x1": MEASURED}))
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match="no pilot estimate"):
        sd.sgd(corrected, np.zeros((5, 1)), np.ones(5))


# ---- two stages --------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("loss", ["logistic", pytest.param("squared_hinge", marks=pytest.mark.exhaustive)])
def test_training_resolves_the_surrogate(loss):
    """Logistic regression under feature and label noise: within 5 standard errors, the naive fit far off."""
    theta = np.array([2.0, -1.0])
    X, y = logistic_records(200_000, theta)
    data = sd.Release(MEASURED, sd.RandomizedResponse(epsilon=2.0)).privatize(X, y, random_state=1)
    corrected = sd.debias(getattr(sd.losses, loss)(), data.release)
    options = {"step_size": 0.5, "batch_size": 10_000, "epochs": 30, "average": 0.5, "random_state": 0}
    fit = sd.sgd(corrected, data.X, data.y, **options)
    assert fit.corrected.is_resolved
    assert not corrected.is_resolved
    assert fit.diagnostics["stages"] >= 1
    assert fit.diagnostics["pilot"]["theta"].shape == (2,)
    reference = theta
    if loss == "squared_hinge":
        clean = sd.debias(sd.losses.squared_hinge(), sd.Release(noiseless=("a", "b")), method="none")
        reference = sd.sgd(clean, X, y, **options).theta
    assert np.linalg.norm(fit.theta - reference) < 0.12 * np.linalg.norm(reference)
    plain = sd.debias(getattr(sd.losses, loss)(), data.release, method="none")
    naive = sd.sgd(plain, data.X, data.y, **options)
    assert np.linalg.norm(naive.theta - reference) > 0.4 * np.linalg.norm(reference)
    assert fit.certificate.loss_bias < 0.1
    assert "surrogate (biased)" in fit.summary()
    assert "surrogate    for |score| <= " in fit.summary()


@pytest.mark.in_turn
def test_a_resolved_surrogate_is_trained_as_it_is():
    X, y = logistic_records(2_000, [1.0, 0.5])
    data = sd.Release(MEASURED, sd.RandomizedResponse(epsilon=2.0)).privatize(X, y, random_state=1)
    resolved = sd.debias(sd.losses.logistic(), data.release, radius=2.0, score_variance=0.8, n=2_000)
    fit = sd.sgd(resolved, data.X, data.y, step_size=0.1, epochs=5, random_state=0)
    assert fit.corrected is resolved
    assert "pilot" not in fit.diagnostics


def test_start_and_radius_are_the_users():
    X, y = logistic_records(2_000, [1.0, 0.5])
    data = sd.Release(MEASURED, sd.RandomizedResponse(epsilon=2.0)).privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    fit = sd.sgd(corrected, data.X, data.y, step_size=0.1, radius=0.3, start=[0.1, 0.1], record=1, random_state=0)
    np.testing.assert_allclose(fit.history.theta[0], [0.1, 0.1])
    assert np.linalg.norm(fit.theta) <= 0.3 + 1e-9
    again = sd.sgd(corrected, data.X, data.y, step_size=0.1, radius=0.3, start=[0.1, 0.1], record=1, random_state=0)
    np.testing.assert_array_equal(fit.theta, again.theta)


@pytest.mark.exhaustive
def test_a_fit_with_an_intercept_and_mixed_columns():
    rng = np.random.default_rng(5)
    n = 100_000
    theta = np.array([1.0, -1.0, 0.8, 0.4])
    X = np.column_stack([rng.uniform(-1, 1, (n, 2)), rng.choice([-1.0, 1.0], n)])
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ theta[:3] - theta[3])), 1.0, -1.0)
    release = sd.Release(
        {"a": sd.GaussianMechanism.from_scale(0.5), "b": sd.LaplaceMechanism.from_scale(0.4),
         "c": sd.RandomizedResponse(epsilon=2.0)},
        sd.RandomizedResponse(epsilon=2.0), fit_intercept=True,
    )  # fmt: skip
    data = release.privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.logistic(), data.release, method="surrogate")
    fit = sd.sgd(corrected, data.X, data.y, step_size=0.5, batch_size=5_000, epochs=20, average=0.5, random_state=0)
    # One standard error is about .03.
    np.testing.assert_allclose(fit.theta, theta, atol=0.15)


def test_a_warning_points_at_the_caller(monkeypatch):
    monkeypatch.setattr(sys.modules["symdebias.solvers.health"], "MUCH_INFLATION", 1.01)
    X, y = logistic_records(20_000, [1.0, 0.5])
    data = sd.Release(MEASURED, sd.RandomizedResponse(epsilon=2.0)).privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.logistic(), data.release)
    with pytest.warns(sd.exceptions.VarianceWarning) as caught:
        sd.sgd(corrected, data.X, data.y, random_state=0)
    assert caught[0].filename == __file__
    assert len(caught) == 1


@pytest.mark.exhaustive
def test_residual_losses_train_in_two_stages():
    rng = np.random.default_rng(0)
    n, theta = 50_000, np.array([1.0, -0.5])
    X = rng.uniform(-1, 1, (n, 2))
    y = X @ theta + 0.3 * rng.standard_t(3, size=n)
    data = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.GaussianMechanism.from_scale(0.3)).privatize(
        X, y, random_state=1
    )
    corrected = sd.debias(sd.losses.huber(0.5), data.release)
    fit = sd.sgd(corrected, data.X, data.y, step_size=0.3, batch_size=5_000, epochs=30, average=0.5, random_state=0)
    np.testing.assert_allclose(fit.theta, theta, atol=0.06)
    assert fit.corrected.surrogate_parts.variable != U


def test_rough_hessians_are_those_of_a_part_of_the_records(monkeypatch):
    """Where a Hessian takes two passes for each parameter; loss and gradient are those of all."""
    corrected = sd.debias(sd.losses.squared_hinge(), sd.Release(target=LABELS, noiseless=("a", "b")))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9_000, 2))
    records = corrected.records(X, np.where(X[:, 0] + rng.normal(size=9_000) > 0, 1.0, -1.0))
    theta, passes = np.array([0.3, -0.2]), []

    def counted(of):
        return lambda one, at: passes.extend([len(one)] * len(np.atleast_2d(at))) or of(one, at)

    for name in ("mean_gradient", "_mean_gradients"):
        monkeypatch.setattr(Records, name, counted(getattr(Records, name)))
    (whole, how), (rough, _) = (records.derivatives_or_differences(np.eye(2), roughly=rough) for rough in (False, True))
    assert how == "central differences"
    exact = whole(theta)
    assert passes == [9_000] * 5
    del passes[:]
    found = rough(theta)
    assert passes == [9_000, *[len(records.looked_at)] * 4]
    assert found.loss == exact.loss
    np.testing.assert_array_equal(found.gradient, exact.gradient)
    assert 0 < np.abs(found.hessian - exact.hessian).max() < 0.3 * np.abs(exact.hessian).max()


def test_a_pilot_that_runs_away_from_a_start_names_the_start():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 2))
    y = np.where(rng.random(3_000) < 1 / (1 + np.exp(-X @ [1.0, -0.5])), 1, -1)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    noised = release.privatize(X, y, random_state=1)
    with pytest.raises(sd.DivergenceError, match="It began at start=: leave that out, or begin nearer to 0"):
        sd.m_estimate(sd.debias(sd.losses.logistic(), release), noised.X, noised.y, start=[50.0, 50.0])


@pytest.mark.in_turn
def test_a_quantile_smoothed_beyond_the_targets_is_told_its_width():
    """The quantile of the target plus an error far wider than it lies outside of all targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 2))
    y = 1e-3 * (X @ [1.0, -0.5] + rng.normal(size=3_000))
    release = sd.Release(sd.GaussianMechanism.from_scale(0.4), fit_intercept=True)
    noised = release.privatize(X, y, random_state=1)
    with pytest.raises(sd.DivergenceError, match=r"smoothed over a width of 0\.5, and targets are of the size 0\.0015"):
        sd.m_estimate(sd.debias(sd.losses.quantile(0.8), release), noised.X, noised.y)
    fit = sd.m_estimate(sd.debias(sd.losses.quantile(0.8, width=1e-4), release), noised.X, noised.y)
    assert abs(fit.theta[2] / 1e-3 - 0.84) < 0.2


def test_a_single_count_leaves_no_pilot_and_no_warning_of_numpy():
    """Its first steps are so long that the squares of their lengths are beyond the largest number."""
    corrected = sd.debias(sd.losses.poisson(), sd.Release(sd.GaussianMechanism.from_scale(0.4)))
    with pytest.raises(sd.DivergenceError, match="the pilot estimate runs away"):
        sd.m_estimate(corrected, [[0.1]], [3.0])


def test_a_pilot_that_runs_away_counts_the_records_with_weight():
    """Read by blocks those without are there, and in memory they are left out: the message is the same."""
    # Of these records a last bit does not decide whether the search runs away or never settles.
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y, weights = np.sign(X[:, 0]), np.arange(60) % 3 / 2.0
    corrected = sd.debias(sd.losses.logistic(), sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.8)}))
    for read in ((X, y), sd.blocks.from_iterator(lambda: [(X, y)])):
        with pytest.raises(sd.DivergenceError, match="nothing in 40 records"):
            sd.m_estimate(corrected, *read, sample_weight=weights)
    with pytest.raises(sd.DivergenceError, match="nothing in 40 records"):
        sd.quadratic.quadratic_pilot(corrected, X, y, sample_weight=weights)


def test_a_search_that_comes_to_scores_beyond_the_loss_is_refused():
    """The slope of a surrogate's loss is not finite there, which is no argument of the user's."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    release = sd.Release(sd.LaplaceMechanism.from_scale(0.3))
    corrected = sd.debias(sd.losses.poisson(), release, method="surrogate")
    records = corrected.records(X, np.ones(len(X)))
    known = known_scores(corrected, records)
    with pytest.raises(DivergenceError, match="on which the loss is not finite"):
        known.resolved(np.array([1e3, 0.0]))
