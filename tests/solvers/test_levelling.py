"""Intervals of scores that level off reach as far as score tests."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, ndtr, softmax

import symdebias as sd
from symdebias.exceptions import SymdebiasError
from symdebias.inference import Inference, critical_value
from symdebias.solvers.levelling import _Designs, _Shape, _Test, levelling_of
from symdebias.solvers.scores import known_scores

TRUTH = np.array([3.4, -1.5])
SAID = "levels off"


def rare_labels(seed, n=20_000, epsilon=1.5):
    """Labels of which 1.7% are rare, and 18% turned over."""
    rng = np.random.default_rng([seed, 31])
    X = 1.63 + 0.9 * rng.normal(size=(n, 1))
    y = np.where(rng.random(n) < expit(X @ TRUTH[:1] + TRUTH[1]), 1.0, -1.0)
    release = sd.Release(None, target=sd.RandomizedResponse(epsilon), noiseless=("x",), fit_intercept=True)
    return release.privatize(X, y, random_state=seed)


def fitted(noised, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.VarianceWarning)
        return sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y, **how)


def profile_test(records, labels, place, value, begin=None, *, epsilon=1.5):
    """Return the score test of one of some parameters, the others at their minimum, from its formula."""
    X = np.column_stack([np.asarray(records), np.ones(len(records))])
    keep = 1 / (1 + np.exp(-epsilon))
    label = np.asarray(labels) / (2 * keep - 1)
    theta = np.zeros(X.shape[1]) if begin is None else begin.copy()
    others = np.delete(np.arange(len(theta)), place)
    theta[place] = value
    for _ in range(200):
        chance = expit(X @ theta)
        slopes = chance - (1 + label) / 2
        curvature = (X * (chance * (1 - chance))[:, None]).T @ X
        step = np.linalg.solve(curvature[np.ix_(others, others)], slopes @ X[:, others])
        theta[others] -= step / max(1.0, np.abs(step).max())
    pulled = np.linalg.solve(curvature[np.ix_(others, others)], curvature[others, place])
    own = X[:, place] - X[:, others] @ pulled
    return (slopes @ own) / np.sqrt((slopes**2) @ own**2)


def test_ends_are_those_of_score_tests():
    noised = rare_labels(3)
    fit = fitted(noised)
    assert SAID in fit.summary()
    plain = replace(fit.inference, levelling=None).interval(fit.theta, 0.95)
    ends = fit.confidence_interval(0.95)
    bounded = 0
    for place, side in ((0, 1), (1, 0)):
        end, sign = ends[place, side], 2 * side - 1
        assert sign * (end - plain[place, side]) > 0
        if np.isfinite(end):
            bounded += 1
            assert abs(profile_test(noised.X, noised.y, place, end)) == pytest.approx(1.96, abs=0.3)
        else:
            assert (
                abs(profile_test(noised.X, noised.y, place, fit.theta[place] + sign * 16 * fit.standard_errors[place]))
                < 2.1
            )
        assert abs(profile_test(noised.X, noised.y, place, plain[place, side])) < 1.8
    assert fit.inference.levelling.shape == (2, 2)


def test_ends_are_the_same_whatever_all_records_weigh():
    """By the summed loss of tiny weights the others are at their minimum wherever they are, and do not follow."""
    noised = rare_labels(5, n=2_000)
    ends = [fitted(noised, sample_weight=np.full(2_000, weight)).confidence_interval() for weight in (1.0, 2.0**-20)]
    assert np.isfinite(ends[0][1]).all()
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-9)


def test_others_follow_where_their_way_is_no_straight_line():
    """Columns of rare values that nearly agree: along the line of the covariance the score does not level off."""
    rng = np.random.default_rng([0, 3])
    n = 10_000
    rare = (rng.random((n, 3)) < 0.1) / 0.3
    X = 0.31 * rare + 0.95 * (rng.random((n, 1)) < 0.1) / 0.3 + 3
    slopes = rng.normal(size=3)
    truth = np.append(3 * slopes / np.linalg.norm(slopes), -1.5)
    y = np.where(rng.random(n) < expit(X @ truth[:3] - 1.5), 1.0, -1.0)
    release = sd.Release(None, target=sd.RandomizedResponse(1.5), noiseless=("a", "b", "c"), fit_intercept=True)
    noised = release.privatize(X, y, random_state=0)
    fit = fitted(noised)
    ends = fit.confidence_interval(0.95)
    plain = replace(fit.inference, levelling=None).interval(fit.theta, 0.95)
    assert truth[3] < plain[3, 0] - fit.standard_errors[3]
    assert abs(profile_test(noised.X, noised.y, 3, truth[3], fit.theta)) < 1.9
    assert np.all((ends[:, 0] < truth) & (truth < ends[:, 1]))
    assert np.isfinite(ends[3, 1])
    assert abs(profile_test(noised.X, noised.y, 3, ends[3, 1], fit.theta)) == pytest.approx(1.96, abs=0.05)


@pytest.mark.in_turn
def test_they_cover_where_standard_errors_do_not():
    """Of 60 draws some 45 have a fit: 95% is held to 84, which the 75 to 80% of standard errors alone miss."""
    hits, alone = [], []
    for seed in range(100, 160):
        try:
            fit = fitted(rare_labels(seed))
        except SymdebiasError:
            continue
        for found, inference in ((hits, fit.inference), (alone, replace(fit.inference, levelling=None))):
            low, high = inference.interval(fit.theta, 0.95).T
            found.append((low <= TRUTH) & (TRUTH <= high))
    assert len(hits) > 20
    assert np.mean(hits) > 0.88
    assert np.mean(hits) > np.mean(alone) + 0.03


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", ["logistic", "least_squares", "exponential"])
def test_nothing_is_said_of_scores_that_are_straight_within_an_interval(loss):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20_000, 3))
    y = np.where(rng.random(len(X)) < expit(X @ [1.0, -0.5, 0.0]), 1.0, -1.0)
    target = None if loss == "least_squares" else sd.RandomizedResponse(2.0)
    release = sd.Release(None, target=target, noiseless=("a", "b", "c"))
    if loss == "least_squares":
        release = sd.Release(sd.GaussianMechanism.from_scale(0.3), noiseless=())
    noised = release.privatize(X, y, random_state=1)
    fit = sd.m_estimate(sd.debias(getattr(sd.losses, loss)(), noised.release), noised.X, noised.y)
    assert fit.inference.levelling is None


def test_other_units_change_nothing():
    noised = rare_labels(3)
    records = np.asarray(noised.X)
    corrected = sd.debias(sd.losses.logistic(), noised.release)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.VarianceWarning)
        plain, scaled = (sd.m_estimate(corrected, unit * records, noised.y) for unit in (1.0, -1e4))
    one, other = plain.confidence_interval(), scaled.confidence_interval()
    np.testing.assert_allclose(other[0, ::-1] * -1e4, one[0], rtol=1e-3)
    np.testing.assert_allclose(other[1], one[1], rtol=1e-3)


def test_many_parameters_take_no_second_derivatives(monkeypatch):
    noised = rare_labels(3)
    fit = fitted(noised)
    records = fit.corrected.records(noised.X, noised.y)
    monkeypatch.setattr("symdebias.solvers.levelling._MOST_PARAMETERS", 1)
    found = levelling_of(records, fit.theta, np.zeros(2), fit.covariance, None)
    # Along a line the other parameter does not give way: ends are nearer.
    assert 0 < found[0, 1] <= fit.inference.levelling[0, 1] + 1e-9


@pytest.mark.parametrize("seed", [0, 2])
def test_few_records_for_each_of_many_parameters_are_not_asked_how_straight_scores_are(seed, monkeypatch):
    """By chance alone two records for each of 90 parameters bend scores that all 6,000 find straight."""
    for module in ("symdebias.records", "symdebias.solvers.levelling"):
        monkeypatch.setattr(f"{module}.LOOKED_AT", 200)
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (6_000, 90))
    y = np.where(rng.random(6_000) < expit(X @ np.resize([1.0, -1.0, 0.5, -0.5], 90) / np.sqrt(90 / 4)), 1.0, -1.0)
    noised = sd.Release(sd.GaussianMechanism.from_scale(0.2)).privatize(X, y, random_state=seed)
    fit = sd.m_estimate(sd.debias(sd.losses.exponential(), noised.release), noised.X, noised.y)
    assert fit.inference.levelling is None


def a_group_of_one_label(seed):
    """A group of 300 has one label, and the noise of labels hides it; another column is noised."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=20_000), (rng.random(20_000) < 0.015) * 1.0
    y = np.where(rng.random(20_000) < expit(0.8 * a + 0.3 - 8.0 * b), 1.0, -1.0)
    noise = sd.GaussianMechanism.from_scale(0.5)
    release = sd.Release({"a": noise}, noiseless=("b",), target=sd.RandomizedResponse(2.0), fit_intercept=True)
    records = np.column_stack([a, b])
    return records, release.privatize(records, y, random_state=seed)


@pytest.mark.parametrize("seed", [1, 8, 13])
def test_a_surrogate_levels_off_where_its_loss_does(seed):
    """By the waves of the surrogate of the estimate ends were at -7.3, -7.7 and -7.8; -8 is the truth."""
    records, noised = a_group_of_one_label(seed)
    fit = fitted(noised)
    assert SAID in fit.summary()
    assert fit.confidence_interval()[1, 0] == -np.inf
    # True columns rule out nothing below either.
    for place in (-8.0, -12.0, -20.0):
        assert abs(profile_test(records, noised.y, 1, place, fit.theta, epsilon=2.0)) < 1.0


def test_a_score_test_far_out_is_that_of_true_columns():
    """Ten standard errors away the surrogate of the estimate had a statistic of 42 where true columns have 0.7."""
    records, noised = a_group_of_one_label(13)
    fit = fitted(noised)
    under = fit.corrected.records(noised.X, noised.y)
    designs = _Designs.of(under, fit.theta, known_scores(fit.corrected, under))
    shape = _Shape(under, fit.theta, np.zeros(3))
    move = -fit.covariance[:, 1] / fit.standard_errors[1]
    told = _Test(shape, designs, move, 1, None)
    for t in (1.0, 3.0, 10.0):
        away = fit.theta[1] - t * fit.standard_errors[1]
        expected = abs(profile_test(records, noised.y, 1, away, fit.theta, epsilon=2.0))
        assert told.statistic(t) == pytest.approx(expected, abs=0.08)
    assert _Test(shape, None, move, 1, None).statistic(10.0) > 10


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [124, 171, 173])
def test_a_wave_that_is_steeper_than_a_straight_line_ends_no_interval(seed):
    """By a wave of the surrogate of the estimate ends were at 6.7, 7.5 and 5.9; all of a group may have the label."""
    rng = np.random.default_rng(seed)
    X = 1.0 * (rng.random((20_000, 2)) < 0.04)
    y = np.where(rng.random(20_000) < ndtr(X @ [3.57, -1.78] + 0.2), 1.0, -1.0)
    noises = {"a": sd.GaussianMechanism.from_scale(0.08), "b": sd.LaplaceMechanism.from_scale(0.055)}
    told = sd.RandomizedResponse(2.0)
    noised = sd.Release(noises, told, fit_intercept=True).privatize(X, y, random_state=rng)
    fit = sd.m_estimate(sd.debias(sd.losses.probit(), noised.release), noised.X, noised.y)
    assert fit.confidence_interval()[0, 1] == np.inf
    group, kept = X[:, 0] == 1.0, expit(2.0)
    share = (np.mean(noised.y[group] > 0) - 1 + kept) / (2 * kept - 1)
    assert share + 1.96 * np.sqrt(kept * (1 - kept) / group.sum()) / (2 * kept - 1) > 1


@pytest.mark.parametrize("seed", [3, 14])
def test_a_surrogate_of_strong_signals_does_not_level_off_of_itself(seed):
    """Longer parameters have more noise than its waves are for: an end was infinite, or 18 standard errors away."""
    rng = np.random.default_rng([seed, 4])
    theta = np.array([2.97, -2.23, 1.49])
    X = rng.normal(size=(100_000, 3))
    y = np.where(rng.random(len(X)) < expit(X @ theta), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    fit = fitted(release.privatize(X, y, random_state=seed))
    assert fit.inference.levelling is None
    low, high = fit.confidence_interval().T
    assert np.all((low <= theta) & (theta <= high) & (high - low < 10 * fit.standard_errors))


LEVELLING = np.array([[0.0, 0.2], [critical_value(0.95) ** -2, 0.0]])
KNOWN = Inference(np.diag([0.04, 0.09]), "sandwich", levelling=LEVELLING)


def test_sides_have_ends_of_their_own_and_p_values_agree():
    theta = np.array([1.0, -2.0])
    (below, above), (far, near) = KNOWN.interval(theta, 0.95)
    z = critical_value(0.95)
    assert below == pytest.approx(1 - 0.2 * z)
    assert above == pytest.approx(1 + 0.2 * z / np.sqrt(1 - 0.2 * z * z))
    assert far == -np.inf
    assert near == pytest.approx(-2 + 0.3 * z)
    assert np.isfinite(KNOWN.interval(theta, 0.9)).all()
    for level in (0.8, 0.95):
        end = KNOWN.interval(theta, level)[0, 1]
        assert KNOWN.test(theta, [1.0, 0.0], end).pvalue == pytest.approx(1 - level, abs=1e-8)
    moved = np.array([1.0 - KNOWN.interval(theta, 0.9)[0, 1], 0.0])
    assert KNOWN.pvalues(moved)[0] == pytest.approx(0.1, abs=1e-8)


def test_a_bias_stays_what_it_is_where_a_score_levels_off():
    """The score of the truth is off by the bias, whatever the slope is there; a larger variance makes less of it.

    Beyond it there is less to be told than without a bias, and as much less of a score that levels off tells it.
    """
    bias, covariance, c = np.array([1.5]), np.eye(1), 0.02
    for curving in (None, np.array([[0.0, 0.01]])):
        bend = 0.0 if curving is None else curving[0, 1]
        inference = Inference(covariance, "sandwich", bias=bias, curving=curving, levelling=np.array([[c, 0.0]]))
        ((low, high),) = inference.interval(np.zeros(1), 0.95)
        for end, own in ((-low, c), (high, 0.0)):
            variance = 1 + bend * end**2
            ratio = 1.5 / np.sqrt(variance)
            reach, beyond = critical_value(0.95, ratio) - ratio, end - 1.5
            levels = own * (critical_value(0.95) / reach) ** 2
            assert beyond / np.sqrt(variance + levels * beyond**2) == pytest.approx(reach, rel=1e-6)
        assert inference.pvalues(np.array([-low]))[0] == pytest.approx(0.05, rel=1e-4)
        assert inference.test(np.array([-low]), [1.0], 0.0).pvalue == pytest.approx(0.05, rel=1e-4)
    # A score that levels off below what there is to be told ends nowhere, whatever the bias is.
    for some in (bias, 0 * bias, 100 * bias):
        flat = Inference(covariance, "sandwich", bias=some, levelling=np.array([[critical_value(0.95) ** -2, 0.0]]))
        assert np.isinf(flat.interval(np.zeros(1), 0.95)).tolist() == [[True, False]]
        assert np.isinf(flat.mapped(np.array([[-2.0]])).interval(np.zeros(1), 0.95)).tolist() == [[False, True]]


def test_a_bias_is_added_where_score_tests_end():
    """With a bias of three standard errors the statistic is 4.64 - 3 three standard errors before an end."""
    noised = rare_labels(3)
    fit = fitted(noised)
    records = fit.corrected.records(noised.X, noised.y)
    bias = 3.0 * fit.standard_errors
    found = levelling_of(records, fit.theta, np.zeros(2), fit.covariance, None, bias=bias)
    end = Inference(fit.covariance, "sandwich", bias=bias, levelling=found).interval(fit.theta, 0.95)[0, 1]
    assert end > fit.theta[0] + 1.05 * critical_value(0.95, 3.0) * fit.standard_errors[0]
    statistic = abs(profile_test(noised.X, noised.y, 0, end - bias[0]))
    assert statistic == pytest.approx(critical_value(0.95, 3.0) - 3, abs=0.05)


def test_units_and_signs_change_sides():
    theta, matrix = np.array([1.0, -2.0]), np.diag([-2.0, 3.0])
    expected = KNOWN.interval(theta, 0.9) * np.diag(matrix)[:, None]
    expected[0] = expected[0, ::-1]
    np.testing.assert_allclose(KNOWN.mapped(matrix).interval(matrix @ theta, 0.9), expected, rtol=1e-9)
    mixed = KNOWN.mapped(np.array([[1.0, 1.0]]))
    assert (mixed.levelling == LEVELLING.max()).all()


def test_a_saved_fit_keeps_them(tmp_path):
    fit = fitted(rare_labels(3))
    fit.save(tmp_path / "fit.npz")
    again = sd.Fit.load(tmp_path / "fit.npz")
    np.testing.assert_array_equal(again.confidence_interval(), fit.confidence_interval())


def test_a_large_bias_of_one_parameter_hides_no_score_that_levels_off_from_combinations():
    """Biases that cancel leave a combination without any, and it ends where the score does that takes part."""
    covariance, row = np.array([[1.0, -0.9], [-0.9, 1.0]]), np.array([[1.0, 1.0]])
    factors = np.array([[[300.0], [-300.0]]])
    known = Inference(
        covariance, "sandwich", bias=np.array([300.0, 300.0]), bias_factors=factors,
        levelling=np.array([[0.0, critical_value(0.95) ** -2], [0.0, 0.0]]),
    )  # fmt: skip
    both = known.mapped(row)
    assert both.bias[0] < 1e-9
    assert np.isinf(known.interval(np.zeros(2), 0.95)).tolist() == [[False, True], [False, False]]
    assert np.isinf(both.interval(np.zeros(1), 0.95)).all()
    some = replace(known, levelling=0.5 * known.levelling)
    expected = critical_value(0.95) / np.sqrt(0.5) * np.sqrt(0.2)
    np.testing.assert_allclose(some.mapped(row).interval(np.zeros(1), 0.95), [[-expected, expected]], rtol=1e-6)
    for end in (-expected, expected):
        assert some.test(np.zeros(2), row, end).pvalue == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize("l2", [0.0, 1e-4])
def test_softmax_of_two_labels_has_the_ends_of_the_logistic_loss(l2):
    """Were a parameter alone tested, all scores would follow it, and the test never reject: all ends were infinite."""
    noised = rare_labels(3)
    codes = np.where(np.asarray(noised.y) > 0, 1, 0)
    release = sd.Release(None, sd.RandomizedResponse(1.5, categories=(0, 1)), noiseless=("x",), fit_intercept=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.VarianceWarning)
        fit = sd.m_estimate(sd.debias(sd.losses.softmax(2), release), noised.X, codes, l2=l2)
    expected = fitted(noised, l2=l2 / 2)
    np.testing.assert_allclose(2 * fit.theta[1], expected.theta, rtol=1e-6)
    assert np.isfinite(expected.confidence_interval()).all()
    np.testing.assert_allclose(2 * fit.confidence_interval()[1], expected.confidence_interval(), rtol=1e-4)
    assert expected.inference.levelling.max() > 0.05


@pytest.mark.in_turn
def test_ends_of_softmax_are_those_of_score_tests():
    """Parameters of a sum of 0 over the labels, the others at their minimum by a search that knows nothing of ours."""
    rng, kept = np.random.default_rng(1), np.exp(2.0) / (np.exp(2.0) + 2)
    X = np.column_stack([rng.normal(size=4_000), np.ones(4_000)])
    truth = np.array([[1.0, 0.5], [-1.0, 0.8], [0.0, -2.6]])
    chances = softmax(X @ truth.T, axis=1)
    y = np.sum(rng.random((4_000, 1)) > np.cumsum(chances, axis=1), axis=1)
    release = sd.Release(None, sd.RandomizedResponse(2.0, categories=(0, 1, 2)), noiseless=("x",), fit_intercept=True)
    noised = release.privatize(X[:, :1], y, random_state=1)
    fit = sd.m_estimate(sd.debias(sd.losses.softmax(3), release), noised.X, noised.y)
    # Of the released label the chance given the true one is kept or the half of what is left.
    is_released = np.asarray(noised.y)[:, None] == np.arange(3)
    labels = (is_released - (1 - kept) / 2) / (kept - (1 - kept) / 2)

    def statistic(place, value):
        """By the parameters of two labels, that of the third what is left of 0; the one that is tested among them."""
        left = np.delete(np.arange(3), place[0])[0]
        used = np.delete(np.arange(3), left)
        whole = np.zeros((6, 4))
        for at, label in enumerate(used):
            whole[2 * label : 2 * label + 2, 2 * at : 2 * at + 2] = np.eye(2)
            whole[2 * left : 2 * left + 2, 2 * at : 2 * at + 2] = -np.eye(2)
        tested = 2 * list(used).index(place[0]) + place[1]
        others = np.delete(np.arange(4), tested)

        def at(free):
            phi = np.insert(free, tested, value)
            scores = X @ (whole @ phi).reshape(3, 2).T
            slopes = softmax(scores, axis=1) - labels
            gradients = (slopes[:, :, None] * X[:, None, :]).reshape(len(X), -1) @ whole
            return np.mean(logsumexp(scores, axis=1) - np.sum(labels * scores, axis=1)), gradients, scores

        begin = fit.theta[used].ravel()[others]
        found = minimize(lambda free: (at(free)[0], at(free)[1].mean(axis=0)[others]), begin, jac=True, tol=1e-12).x
        _, gradients, scores = at(found)
        weights = softmax(scores, axis=1)
        bends = np.einsum("nk,kl->nkl", weights, np.eye(3)) - weights[:, :, None] * weights[:, None, :]
        hessian = whole.T @ np.einsum("nkl,ni,nj->kilj", bends, X, X).reshape(6, 6) @ whole / len(X)
        own = gradients @ np.linalg.inv(hessian)[tested]
        return own.sum() / np.sqrt(own @ own)

    ends, sides = fit.confidence_interval(), fit.inference.levelling.reshape(3, 2, 2)
    assert np.isfinite(ends).sum() > 8
    looked = [(k, column, side) for k, column, side in np.argwhere(sides > 0) if np.isfinite(ends[k, column, side])]
    assert len(looked) > 2
    for k, column, side in looked:
        assert abs(statistic((k, column), ends[k, column, side])) == pytest.approx(1.96, abs=0.1)


@pytest.mark.parametrize("seed", [7, 8])
def test_the_variance_of_a_score_is_the_one_where_the_test_is(seed):
    """An indicator of 5% of the records, a probit, labels at a budget of 0.7: a wrong label weighs more farther out.

    With the variance at the estimate intervals ended 2.2 standard errors above it, and a test rejects at 3.2.
    """
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.random(4000) < 0.05, rng.normal(size=4000)]).astype(float)
    y = np.where(rng.random(4000) < ndtr(X @ [1.0, 0.7] + 0.3), 1.0, -1.0)
    release = sd.Release(None, target=sd.RandomizedResponse(0.7), noiseless=("group", "x"), fit_intercept=True)
    noised = release.privatize(X, y, random_state=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.VarianceWarning)
        fit = sd.m_estimate(sd.debias(sd.losses.probit(), release), noised.X, noised.y)
    columns, flipped = np.column_stack([X, np.ones(4000)]), 1 / (1 + np.exp(0.7))

    def slopes(theta):
        u = columns @ theta
        density = np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi)
        own, other = (-one * density / ndtr(one * u) for one in (noised.y, -noised.y))
        return ((1 - flipped) * own - flipped * other) / (1 - 2 * flipped)

    def tested(value):
        theta = fit.theta.copy()
        theta[0] = value
        for _ in range(10):
            hessian = np.stack([(slopes(theta + e) - slopes(theta - e)) @ columns / 2e-5 for e in 1e-5 * np.eye(3)])
            theta[1:] -= np.linalg.solve(hessian[1:, 1:], columns[:, 1:].T @ slopes(theta))
        own = columns[:, 0] - columns[:, 1:] @ np.linalg.solve(hessian[1:, 1:], hessian[1:, 0])
        return (slopes(theta) @ own) / np.sqrt(slopes(theta) ** 2 @ own**2)

    low, high = fit.confidence_interval()[0]
    assert high - fit.theta[0] > 3 * fit.standard_errors[0]
    if seed == 7:
        assert tested(high) == pytest.approx(1.96, abs=0.06)
    else:
        # It rejects and levels off: of records of such parameters few have a fit, and those a statistic like that.
        assert high == np.inf
        assert 1.96 < tested(fit.theta[0] + 8 * fit.standard_errors[0]) < 1.3 * 1.96
    assert tested(fit.theta[0] + 2.2 * fit.standard_errors[0]) < 1.75
    # On the other side the score is steeper, and standard errors have the end.
    assert low == pytest.approx(fit.theta[0] - 1.96 * fit.standard_errors[0], rel=1e-3)


@pytest.mark.in_turn
def test_nothing_is_said_of_other_parameters_beside_categories_that_are_not_rare():
    rng = np.random.default_rng(47)
    X = np.column_stack([rng.random(2_000) > 0.4, rng.normal(size=2_000)]).astype(float)
    y = np.where(rng.random(2_000) < expit(X @ [1.0, 0.7] - 0.4), 1.0, -1.0)
    release = sd.Release({"group": sd.RandomizedResponse(2.0, (0, 1))}, noiseless=("x",), fit_intercept=True)
    fit = fitted(release.privatize(X, y, random_state=0))
    assert np.all(np.isfinite(fit.confidence_interval()))
    assert "intervals of the other parameters" not in " ".join(fit.summary().split())


@pytest.mark.in_turn
@pytest.mark.parametrize(("seed", "end"), [(20, 2.0), (44, np.inf), (51, np.inf)])
def test_the_variance_under_noised_categories_is_the_one_where_the_test_is(seed, end):
    """Randomized response of a category of 8% that all but decides the label, a probit of 500 records.

    With the variance at the estimate intervals ended where a test comes to 1.5, 1.6 and 1.2 standard errors.
    """
    rng = np.random.default_rng([seed, 43])
    X = np.column_stack([rng.random(500) > 0.08, rng.normal(size=500)]).astype(float)
    y = np.where(rng.random(500) < ndtr(X @ [3.0, 1.5] - 2.5), 1.0, -1.0)
    columns = {"group": sd.RandomizedResponse(3.0, (0, 1))}
    release = sd.Release(columns, noiseless=("x",), fit_intercept=True)
    noised = release.privatize(X, y, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.VarianceWarning)
        fit = sd.m_estimate(sd.debias(sd.losses.probit(), release), noised.X, noised.y)
    derivatives = fit.corrected.records(noised.X, noised.y).derivatives()

    def tested(value):
        theta = fit.theta.copy()
        for place in np.linspace(theta[0], value, 12)[1:]:
            theta[2] -= place - theta[0]
            theta[0] = place
            for _ in range(20):
                found = derivatives(theta, True)
                step = np.linalg.solve(found.hessian[1:, 1:], found.gradient[1:])
                theta[1:] -= step / max(1.0, np.abs(step).max())
        found = derivatives(theta, True)
        own = np.append(1.0, -np.linalg.solve(found.hessian[1:, 1:], found.hessian[1:, 0]))
        return own @ found.gradient / np.sqrt(own @ found.meat @ own / 500)

    high = fit.confidence_interval()[0, 1]
    # Most such records have no fit, and other intervals of those that have one cover less: the summary says so.
    assert "intervals of the other parameters may cover less" in " ".join(fit.summary().split())
    if np.isfinite(end):
        assert tested(high) == pytest.approx(end, abs=0.1)
    else:
        assert high == np.inf
        assert tested(fit.theta[0] + 2 * fit.standard_errors[0]) < 1.75
        farthest = tested(fit.theta[0] + 16 * fit.standard_errors[0])
        assert 1.96 < farthest < 1.3 * 1.96 if seed == 44 else farthest < 1.75


def test_polynomials_have_no_end_where_a_loss_has_parted_the_records():
    """By the bias at the estimate the interval of -8 would be (-4.0, -2.7): all records of a group have one label."""
    rng = np.random.default_rng(7)
    X = (rng.random((5_000, 1)) < 0.2).astype(float)
    y = np.where(rng.random(5_000) < ndtr(-8 * X[:, 0]), 1, -1)
    release = sd.Release(sd.SphericalCapMechanism(8.0, radius=1.0), target="margin", fit_intercept=True)
    noised = release.privatize(X, y, random_state=7)
    fit = sd.m_estimate(sd.debias(sd.losses.probit(), release), noised.X, noised.y)
    low, high = fit.confidence_interval()[0]
    assert low == -np.inf
    assert high < 0


@pytest.mark.in_turn
@pytest.mark.parametrize("times", [1.0, 0.125])
def test_polynomials_of_a_loss_that_keeps_its_curvature_add_the_bias_of_the_estimate(times, monkeypatch):
    """A bound on the bias where a test is would leave an end of theta = 1 of most draws nowhere."""
    rng = np.random.default_rng(2)
    X = times * rng.uniform(-0.7, 0.7, size=(5_000, 2))
    y = np.where(rng.random(5_000) < 1 / (1 + np.exp(-X @ np.array([1.0, -1.0]) / times)), 1, -1)
    release = sd.Release(sd.SphericalCapMechanism(4.0, radius=times), target="margin")
    noised = release.privatize(X, y, random_state=2)
    asked = []
    monkeypatch.setattr(_Designs, "bias", lambda *arguments: asked.append(arguments) or 0.0)
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), release), noised.X, noised.y)
    assert np.isfinite(fit.confidence_interval()).all()
    assert not asked
