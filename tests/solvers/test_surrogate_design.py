"""Designs of surrogates over distributions of true scores."""

import numpy as np
import pytest

import symdebias as sd
from symdebias.exceptions import DivergenceError
from symdebias.solvers import m_estimation
from symdebias.solvers.scores import known_scores
from symdebias.solvers.surrogate_design import _Judge, designed, rms_error
from symdebias.transforms.surrogate import Scores


def exponential_over(radius):
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    corrected = sd.debias(sd.losses.exponential(), release, method="surrogate")
    scores, variances = Scores.within(radius), np.array([0.25])
    return designed(corrected.surrogate_parts, scores, variances, 1000.0, (-1.0, 1.0), share_of_noise=0.2, quick=True)


@pytest.mark.parametrize("radius", [400.0, 800.0])
def test_scores_over_which_squares_overflow_are_refused(radius):
    """Of exp(u) at 400 the square of the square is not finite, at 800 exp(u) itself."""
    with pytest.raises(DivergenceError, match=f"scores of up to {radius:g} the loss has slopes"):
        exponential_over(radius)


def test_a_steep_loss_has_a_design_while_its_squares_are_finite():
    assert exponential_over(100.0).score_variance == 0.25


def test_a_curvature_whose_square_overflows_tells_nothing():
    corrected = sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    judge = _Judge(corrected.surrogate_parts, Scores.within(1.0), (-1.0, 1.0))
    bends = [np.full(len(judge.chances), 1e200) for _ in corrected.surrogate_parts.replaced]
    assert judge.relative(1.0, bends) == np.inf


@pytest.mark.parametrize("loss", [sd.losses.probit(), sd.losses.hinge(), sd.losses.logistic()], ids=str)
def test_an_error_is_that_of_whatever_target_goes_with_a_score(loss):
    """Of two labels the one may err at low scores and the other at high ones."""
    release = sd.Release(sd.GaussianMechanism.from_scale(0.8))
    corrected = sd.debias(loss, release, method="surrogate", radius=2.0, score_variance=0.64, n=5_000)
    parts, surrogates = corrected.surrogate_parts, corrected.design.surrogates
    scores = Scores.within(2.0)
    found = rms_error(parts, surrogates, scores, (-1.0, 1.0))
    errors = _Judge(parts, scores, (-1.0, 1.0)).errors([one.slope(scores.values) for one in surrogates])
    for rule in (scores.values > 0, scores.values < 0, np.abs(errors[1]) > np.abs(errors[0])):
        own = np.where(rule, errors[1], errors[0])
        assert np.sqrt(scores.chances @ own**2) <= found * (1 + 1e-12)
    # As some labels may be, and no larger.
    assert np.sqrt(scores.chances @ own**2) == pytest.approx(found)


@pytest.mark.in_turn
def test_a_surrogate_without_a_minimum_gives_way_to_one_for_more_noise(monkeypatch):
    """A quarter of such fits was refused; of 24 that have another surrogate instead all intervals covered."""
    rng, true = np.random.default_rng(14), np.array([1.5, -1.0, -2.0])
    X = rng.uniform(-1, 1, (20_000, 2))
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-(X @ true[:2] + true[2]))), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(1.0), sd.RandomizedResponse(epsilon=2.0), fit_intercept=True)
    released, corrected = release.privatize(X, y, random_state=14), sd.debias(sd.losses.logistic(), release)
    fit = sd.m_estimate(corrected, released.X, released.y)
    # The noise of the score at the pilot, where the surrogate is designed.
    assert fit.corrected.design.score_variance > 1.4 * np.sum(fit.diagnostics["pilot"]["theta"][:2] ** 2)
    low, high = fit.confidence_interval().T
    assert np.all((low < true) & (true < high))
    assert np.all(fit.standard_errors < 0.2)
    monkeypatch.setattr(m_estimation, "_GROWTHS", ())
    with pytest.raises(DivergenceError, match="did not settle"):
        sd.m_estimate(corrected, released.X, released.y)


@pytest.mark.in_turn
@pytest.mark.parametrize("in_one_vector", [False, True])
def test_a_design_like_another_one_has_its_sizes_for_other_scores(in_one_vector):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 2)) * 0.4
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12))
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-X @ [2.0, -1.0])), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3))
    if in_one_vector:
        release = sd.Release(sd.SphericalCapMechanism(6.0, 1.0), target="margin")
    noised = release.privatize(X, y, random_state=1)
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y)
    records = fit.corrected.records(noised.X, noised.y)
    known, design = known_scores(fit.corrected, records), fit.corrected.design
    u = np.linspace(-1.5, 1.5, 31)

    def error(of, theta):
        return float(np.sum(known.bias_factor(of.at(2), theta, np.eye(2))[0] ** 2))

    growth = design.score_variance / float(np.mean(known.variances(fit.theta)))
    same = known.resolved_like(fit.theta, design, growth=max(1.0, growth) if in_one_vector else 1.0)
    for ours, theirs in zip(same.design.surrogates, design.surrogates, strict=True):
        assert len(ours.cosines) == len(theirs.cosines)
        assert len(ours.polynomial) == len(theirs.polynomial)
        np.testing.assert_allclose(ours.slope(u), theirs.slope(u), atol=0.01)
    longer = known.resolved_like(4 * fit.theta, design)
    assert error(longer, 4 * fit.theta) < 0.5 * error(fit.corrected, 4 * fit.theta)
    if not in_one_vector:
        assert longer.design.surrogates[0].frequency < 0.8 * design.surrogates[0].frequency


@pytest.mark.parametrize("records", [300, 1000])
def test_a_surrogate_for_scores_that_are_all_the_same_has_the_curvature_of_the_loss(records):
    """A penalty holds the slopes, and the intercept is that of the labels alone, log(p/(1 - p)).

    Its standard error is 1/sqrt(n p (1 - p)). By a surrogate for the one score that all records have it was half of
    that, and the intercept was as much as one of them away, or nowhere.
    """
    rng = np.random.default_rng(0)
    X = 1e-3 * rng.normal(size=(records, 2))
    y = np.where(rng.random(records) < 1 / (1 + np.exp(-0.45)), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5e-3), fit_intercept=True)
    noised = release.privatize(X, y, random_state=rng)
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), release), noised.X, noised.y, l2=1.0)
    share = np.mean(y > 0)
    error = 1 / np.sqrt(records * share * (1 - share))
    assert fit.standard_errors[-1] == pytest.approx(error, rel=1e-3)
    assert fit.theta[-1] == pytest.approx(np.log(share / (1 - share)), abs=1e-3 * error)


# Five records of three columns and an intercept, y x and y, as a spherical cap released them.
FEW = [
    [0.7427829967527708, 0.334659768469974, 0.48014848015285766, -0.83512091],
    [0.3455832770329606, 0.5657178235333934, -0.6797813241672064, -0.73433965],
    [0.30410229953229573, 0.6916071995140576, -0.6384446899303, -0.97965108],
    [0.8006141696546957, -0.49247628041933056, 0.5806771874618981, 0.90647492],
    [-0.05419319133031301, 0.6401463464679588, -0.3424366938830249, 1.12949617],
]


@pytest.mark.in_turn
@pytest.mark.parametrize("digits", [8, 5, 3])
def test_a_loss_that_has_no_curvature_over_the_scores_of_few_records_has_a_design(digits):
    """Parameters run away to where the hinge is next to linear: a curvature of 1e-170 was divided by its square."""
    records = np.round(FEW, digits)
    release = sd.Release(
        sd.SphericalCapMechanism(epsilon=12.0, radius=np.sqrt(1.5)),
        target="margin", fit_intercept=True, target_scale=0.841,
    )  # fmt: skip
    corrected = sd.debias(sd.losses.hinge(), release)
    try:
        found = sd.m_estimate(corrected, records[:, :3], records[:, 3]).theta
    except DivergenceError:
        found = np.zeros(4)
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("seed", [8, 44])
def test_a_little_more_variance_is_spent_where_intervals_become_half_as_long(seed):
    """A quadratic has a bias of 2.7 and 3.1 standard errors here; one of degree 4 takes a tenth more of these."""
    rng = np.random.default_rng([3, seed])
    X = np.sqrt(3) * (np.sqrt(0.75) * rng.uniform(-1, 1, (800, 1)) + 0.5 * rng.uniform(-1, 1, (800, 1)))
    y = np.where(rng.random(800) < 1 / (1 + np.exp(1.4 * X[:, 0])), 1.0, -1.0)
    release = sd.Release({("x",): sd.SphericalCapMechanism(10.0, 2.4)})
    noised = release.privatize(X, y, random_state=seed)
    fit = sd.m_estimate(sd.debias(sd.losses.exponential(), release), noised.X, noised.y)
    low, high = fit.confidence_interval()[0]
    assert low < -0.7 < high
    assert high - low < 2 * 1.3 * 1.96 * fit.standard_errors[0]
