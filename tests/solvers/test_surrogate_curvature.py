"""The curvature at a minimum is the loss's, and not that of the surrogate's waves where the loss has levelled out."""

import numpy as np
import pytest

import symdebias as sd
from symdebias.solvers.scores import known_scores
from symdebias.solvers.surrogate_curvature import ExcessCurvature, ReleasedGrid

pytestmark = pytest.mark.newest


def parted(loss, slope, seed, *, unit=1.0, count=100_000):
    """Return records of a category of one in a hundred, whose labels are all but one where the slope is large."""
    rng = np.random.default_rng(seed)
    own, usual = (rng.random(count) < 0.01) * 1.0, rng.normal(size=count)
    y = np.where(rng.random(count) < 1 / (1 + np.exp(-usual - slope * own + 0.5)), 1.0, -1.0)
    noise = sd.GaussianMechanism.from_covariance(np.diag([0.25, (0.04 * unit) ** 2]))
    release = sd.Release({("usual", "own"): noise}, fit_intercept=True)
    noised = release.privatize(np.column_stack([usual, unit * own]), y, random_state=seed)
    return sd.debias(getattr(sd.losses, loss)(), release), noised.X, noised.y


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("loss", "slope", "seed", "unit"),
    [
        ("logistic", -5.0, 1, 1.0),
        ("probit", -16.0, 0, 1.0),
        ("probit", -16.0, 0, 1e-4),
        ("squared_hinge", -16.0, 3, 1.0),
        ("squared_hinge", -16.0, 10, 1e-4),
    ],
)
def test_a_category_with_one_label_is_refused(loss, slope, seed, unit):
    """Waves have minima at -78, -26 and -11 there, in all certainty, where the loss is level from -5 on."""
    corrected, X, y = parted(loss, slope, seed, unit=unit)
    with pytest.raises(sd.exceptions.DivergenceError, match=r"% of the curvature in own is the surrogate's own"):
        sd.m_estimate(corrected, X, y)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("loss", "most"), [("logistic", 0.02), ("probit", 0.02), ("squared_hinge", 0.1), ("hinge", 0.1)]
)
def test_the_curvature_of_a_fit_that_stands_is_the_loss_s(loss, most):
    corrected, X, y = parted(loss, -1.0, 1)
    fit = sd.m_estimate(corrected, X, y)
    records = fit.corrected.records(X, y)
    hessian = records.derivatives()(fit.theta).hessian
    excess = ExcessCurvature.of(known_scores(fit.corrected, records), records.correction, fit.theta)
    share, error, _ = excess.share(hessian)
    assert share <= excess.most(hessian)
    # Of a loss with kinks more is taken for its own curvature than it has.
    assert (share if loss == "hinge" else abs(share)) < most
    assert 0 <= error < 0.05


def test_the_curvature_of_a_level_loss_is_the_surrogate_s():
    """All records have one score and one label there: what the Hessian has more than the log loss is its share."""
    corrected, X, y = parted("logistic", -5.0, 3)
    resolved = corrected.resolve(radius=3.0, score_variance=0.3, n=len(y))
    records = resolved.records(X, np.full(len(y), -1.0))
    known, derivatives = known_scores(resolved, records), records.derivatives()
    of_the_surrogate = []
    for intercept in np.linspace(-9, -2, 25):
        theta = np.array([0.0, 0.0, intercept])
        size = float(derivatives(theta).hessian[2, 2])
        loss = np.exp(intercept) / (1 + np.exp(intercept)) ** 2
        # Whatever else there is, the direction of the intercept is asked for.
        whole = np.diag([1e9, 1e9, abs(size)])
        excess = ExcessCurvature.of(known, records.correction, theta)
        share, _, direction = excess.share(whole)
        if size > loss:
            assert np.argmax(np.abs(direction)) == 2
            assert share <= excess.most(whole)
            np.testing.assert_allclose(share, (size - loss) / size, atol=1e-4)
            of_the_surrogate.append(share)
    assert max(of_the_surrogate) > 0.5


def test_labels_that_were_noised_change_the_share_by_their_error_alone():
    """Of the hinge loss where a category has one label: two unequal parts make it, one of which goes with the label."""
    rng = np.random.default_rng(0)
    own, usual = (rng.random(50_000) < 0.05) * 1.0, rng.normal(size=50_000)
    y = np.where(rng.random(50_000) < 1 / (1 + np.exp(-usual + 8 * own)), 1.0, -1.0)
    noise = sd.GaussianMechanism.from_covariance(np.diag([0.25, 0.0016]))
    found, theta, design = [], np.array([0.5, -3.0, 0.0]), None
    for target in (None, sd.RandomizedResponse(1.0)):
        release = sd.Release({("usual", "own"): noise}, target, fit_intercept=True)
        noised = release.privatize(np.column_stack([usual, own]), y, random_state=1)
        corrected = sd.debias(sd.losses.hinge(), release)
        # One surrogate and one Hessian for both, so that what labels tell is all that differs.
        design = corrected.resolve(radius=4.0, score_variance=0.1, n=len(y)).design if design is None else design
        records = corrected.with_design(design).records(noised.X, noised.y)
        known = known_scores(corrected, records)
        found.append(ExcessCurvature.of(known, records.correction, theta).share(known.positive_gram()))
    (plain, _, _), (share, error, _) = found
    assert abs(share - plain) < 4 * error


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_hinge_loss_that_a_slow_surrogate_rounds_off_is_fitted(seed):
    """Slow waves bend far beside the kinks, and half of the curvature where scores are many is not the loss's there."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 3))
    y = np.where(rng.random(3000) < 1 / (1 + np.exp(-X @ [1.0, -0.7, 0.4] + 0.5)), 1.0, -1.0)
    release = sd.Release(
        {("a", "b", "c"): sd.GaussianMechanism.from_scale(0.3)}, sd.RandomizedResponse(1.5), fit_intercept=True
    )
    noised = release.privatize(X, y, random_state=seed)
    fit = sd.m_estimate(sd.debias(sd.losses.hinge(), release), noised.X, noised.y)
    np.testing.assert_allclose(fit.theta, [1.0, -0.7, 0.4, -0.5], atol=5 * fit.standard_errors.max())


def beside_heavy_tails(slope, seed):
    """Return records of a category of one in a hundred beside columns whose far values make the curvature uncertain."""
    rng = np.random.default_rng([seed, 4])
    own = (rng.random(60_000) < 0.01) * 1.0
    others = rng.standard_t(3, (60_000, 2))
    y = np.where(rng.random(60_000) < 1 / (1 + np.exp(-others @ [0.6, -0.4] - slope * own - 0.2)), 1.0, -1.0)
    noises = {("a", "b"): sd.GaussianMechanism.from_scale(0.5), "own": sd.GaussianMechanism.from_scale(0.03)}
    release = sd.Release(noises, fit_intercept=True)
    noised = release.privatize(np.column_stack([others, own]), y, random_state=seed)
    return sd.debias(sd.losses.logistic(), release), noised.X, noised.y


@pytest.mark.exhaustive
def test_a_minimum_that_the_noise_has_made_is_refused():
    """It lies far out, where the loss is level: neither the surrogate's waves nor the loss have curvature there."""
    corrected, X, y = beside_heavy_tails(-12.0, 24)
    with pytest.raises(sd.exceptions.DivergenceError, match=r"% of the curvature in own is that of the noise"):
        sd.m_estimate(corrected, X, y)


@pytest.mark.in_turn
def test_the_share_of_the_loss_is_all_in_a_fit_that_stands():
    corrected, X, y = beside_heavy_tails(-1.0, 1)
    fit = sd.m_estimate(corrected, X, y)
    records = fit.corrected.records(X, y)
    excess = ExcessCurvature.of(known_scores(fit.corrected, records), records.correction, fit.theta)
    hessian = records.derivatives()(fit.theta).hessian
    none = np.zeros(len(fit.theta))
    share, error, _ = excess.of_the_loss(hessian, none)
    assert 0.8 < share + 2 * error < 1.2
    # Of twice the curvature it is half.
    half, *_ = excess.of_the_loss(2 * hessian, none)
    np.testing.assert_allclose(half, share / 2, rtol=1e-12)
    # What a penalty has of it is neither the noise's nor the surrogate's.
    penalty = np.array([3.0, 3.0, 3.0, 0.0]) * np.trace(hessian)
    share, error, _ = excess.of_the_loss(hessian + np.diag(penalty), penalty)
    assert 0.8 < share + 2 * error < 1.2


@pytest.mark.in_turn
def test_a_penalty_that_is_most_of_the_curvature_is_no_sign_of_a_lost_fit():
    """A penalty of 0.1 was told as the surrogate's own: beside it counts have little curvature in a rare column."""
    rng = np.random.default_rng(0)
    true, rare = rng.uniform(-1, 1, 1_000), (rng.random(1_000) < 0.3).astype(float)
    X = np.column_stack([true + 0.3 * rng.normal(size=1_000), rare])
    release = sd.Release({"x": sd.GaussianMechanism.from_scale(0.3)}, noiseless=("rare",), fit_intercept=True)
    corrected = sd.debias(sd.losses.negative_binomial(0.5), release)
    y = rng.poisson(np.exp(0.4 * true))
    fit = sd.m_estimate(corrected, X, y, l2=0.1)
    assert np.all(np.abs(fit.theta) < np.abs(sd.m_estimate(corrected, X, y).theta) + fit.standard_errors)


def skewed(seed, count):
    """Return records of lognormal columns, of which a few are twenty times and more as far out as most."""
    rng = np.random.default_rng(seed)
    X = np.exp(1.5 * rng.normal(size=(count, 2)) - 1.5**2 / 2)
    y = np.where(rng.random(count) < 1 / (1 + np.exp(-X @ [0.5, -0.3] - 0.2)), 1, -1)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), fit_intercept=True)
    noised = release.privatize(X, y, random_state=rng)
    return sd.debias(sd.losses.logistic(), release), noised.X, noised.y


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [1006, 1061, 1096])
def test_curvature_that_a_surrogate_has_in_few_far_records_is_refused(seed):
    """Estimates were five of their standard errors from the truth, which are a quarter of those of other draws."""
    corrected, X, y = skewed(seed, 10_000)
    with pytest.raises(sd.exceptions.DivergenceError, match="is the surrogate's own in few records far from the rest"):
        sd.m_estimate(corrected, X, y)


@pytest.mark.parametrize("seed", [1001, 1002, 1004])
def test_records_that_are_far_out_are_fitted_where_the_curvature_is_the_loss_s(seed):
    fit = sd.m_estimate(*skewed(seed, 10_000))
    low, high = fit.confidence_interval(0.99).T
    assert np.all((low < [0.5, -0.3, 0.2]) & ([0.5, -0.3, 0.2] < high))


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_numbers_at_released_scores_are_read_off_lines_between_those_of_the_grid(scale):
    released = scale * np.random.default_rng(0).standard_t(2, 2_000)
    grid = ReleasedGrid.of(released)
    numbers = np.sin(grid.values / scale)
    found = grid.between(numbers, grid.places(released))
    np.testing.assert_allclose(found, np.interp(released, grid.values, numbers), rtol=0, atol=1e-9)


def test_released_scores_that_are_all_one_have_one_number():
    released = np.full(5, 0.3)
    grid = ReleasedGrid.of(released)
    np.testing.assert_array_equal(grid.between(np.full(len(grid.values), 2.0), grid.places(released)), np.full(5, 2.0))
