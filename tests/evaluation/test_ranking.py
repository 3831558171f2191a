"""The area under the ROC curve from released records: by all pairs, by enumeration and by simulation."""

import itertools
import math

import numpy as np
import pytest
from released_records import COIN, NORMAL, THETA, TRUE, X4, Y4, every_outcome, records, release_of
from scipy import stats
from scipy.special import expit
from sklearn.metrics import roc_auc_score

import symdebias as sd
from symdebias.evaluation import evaluate, roc_curve
from symdebias.evaluation.error_law import ErrorLaw
from symdebias.evaluation.ranking import area_under_curve
from symdebias.evaluation.records import Records
from symdebias.evaluation.sums import Sums
from symdebias.exceptions import InferenceError

pytestmark = pytest.mark.newest


def by_pairs(theta, X, y, release, weights):
    """Return the area as the sum over all pairs of different records, and what each left out would leave."""
    checked = Records.checked(None, X, y, release, sample_weight=weights)
    metric = area_under_curve(checked, [theta], radius=None, label_model="any")
    a, b, n = metric.positives, 1 - metric.positives, len(X)
    signs = np.zeros((n, n))
    unit = np.zeros((2, n))
    for j in range(n):
        unit[:] = 0.0
        unit[:, j] = 1.0
        signs[:, j] = metric.pairs.against(theta, slice(None), metric.pairs.totals(theta, slice(None), unit))[0]
    weights = checked.weights
    pairs = np.multiply.outer(weights, weights) * (1 - np.eye(n))

    def area(kept):
        own = pairs[np.ix_(kept, kept)] * np.multiply.outer(a, b)[np.ix_(kept, kept)]
        return 0.5 + np.sum(own * signs[np.ix_(kept, kept)]) / (2 * own.sum())

    every = np.arange(n)
    return signs, area(every), np.array([area(np.delete(every, i)) for i in every])


KINDS = {
    "labels": release_of(None, COIN),
    "categories": release_of(sd.RandomizedResponse(epsilon=1.5), COIN),
    "a grid": release_of(sd.DiscreteLaplaceMechanism.from_scale(0.4, step=0.5), COIN),
    "normal": release_of(NORMAL, COIN),
    "a cap": sd.Release(sd.SphericalCapMechanism(epsilon=8.0, radius=2.0), COIN, fit_intercept=True),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_area_is_the_mean_over_pairs(name):
    """And its standard error that of the jackknife over records, to 10%."""
    X, y = records(n=100)
    # Ties of scores, which count half; within the ball of the cap.
    X = np.clip(np.round(X, 0), -1, 1)
    if name == "categories":
        X[:, 0] = np.where(X[:, 0] > 0, 1, -1)
    noised = KINDS[name].privatize(X, y, random_state=3)
    weights = np.random.default_rng(0).exponential(size=100)
    signs, wanted, left_out = by_pairs(THETA, noised.X, noised.y, KINDS[name], weights)
    np.testing.assert_allclose(signs, -signs.T, atol=1e-9)
    found = evaluate(THETA, noised.X, noised.y, metric="roc_auc", release=KINDS[name], sample_weight=weights)
    assert found.value == pytest.approx(wanted, rel=1e-9)
    plain = evaluate(THETA, noised.X, noised.y, metric="roc_auc", release=KINDS[name])
    _, _, left_out = by_pairs(THETA, noised.X, noised.y, KINDS[name], None)
    jackknife = math.sqrt(99 / 100 * np.sum((left_out - left_out.mean()) ** 2))
    assert plain.standard_error == pytest.approx(jackknife, rel=0.1)


@pytest.mark.parametrize("name", ["labels", "categories", "a grid", "normal", "Laplace"])
def test_the_area_has_the_true_mean_over_the_noise(name):
    """Sums over pairs of all outcomes, in which the pairs of one record with itself cancel."""
    release = {**KINDS, "Laplace": release_of(sd.LaplaceMechanism.from_scale(0.4), COIN)}[name]
    X, y = records(n=25 if name in KINDS and name != "normal" else 60)
    if name == "categories":
        X[:, 0] = np.where(X[:, 0] > 0, 1, -1)
    released = every_outcome(release, X, y)
    found = evaluate(THETA, *released[:2], metric="roc_auc", release=release, sample_weight=released[2])
    modelled = evaluate(
        THETA, *released[:2], metric="roc_auc", release=release, sample_weight=released[2], label_model="logistic"
    )
    wanted = roc_auc_score(y, np.round(X @ THETA[:2] + THETA[2], 12))
    # Outcomes are weighted records, whose pairs with themselves are left out of the number of pairs.
    share, mass = released[2] / released[2].sum(), np.mean(y > 0)
    gain = 1 / math.tanh(0.75)
    itself = np.sum(share**2) * (1 - gain**2) / 4
    value = 0.5 + (found.value - 0.5) * (mass * (1 - mass) - itself) / (mass * (1 - mass))
    if found.method == "exact":
        assert found.bias == 0
        assert value == pytest.approx(wanted, abs=1e-9)
    else:
        assert abs(value - wanted) < found.bias < 0.27
        assert modelled.bias < found.bias / 5
        # Of a model; what is left is the draw of 60 records.
        assert abs(value - wanted) < modelled.bias + 0.01
    naive = evaluate(THETA, released[0], np.sign(released[1]), metric="roc_auc", release=TRUE,
                     sample_weight=released[2])  # fmt: skip
    assert abs(naive.value - wanted) > 0.04


SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=n)) - math.exp(0.5),
    "t3": lambda rng, n: rng.standard_t(3, n),
    "rare": lambda rng, n: rng.normal(size=n),
}


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "shape", [pytest.param(name, marks=[] if name == "rare" else pytest.mark.exhaustive) for name in SHAPES]
)
def test_the_area_has_the_error_that_it_states(shape):
    """40 draws of 1,500 records, normal noise and flipped labels: standard errors 40% off and a bias of .7 standard
    errors are seen, with false alarms below 2e-4. With labels that are rare, strongly flipped, and a noise of half the
    size of the columns the second order of pairs counts.
    """
    theta = np.array([1.0, -1.0, -2.0 if shape == "rare" else 0.3])
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(epsilon=2.0), fit_intercept=True)
    rng = np.random.default_rng(8)

    def drawn(n):
        X = np.column_stack([SHAPES[shape](rng, n), rng.normal(size=n)])
        return X, np.where(rng.random(n) < expit(1.5 * (X @ theta[:2] + theta[2])), 1.0, -1.0)

    X, y = drawn(200_000)
    wanted = roc_auc_score(y, X @ theta[:2])
    found = []
    for _ in range(40):
        noised = release.privatize(*drawn(1_500), random_state=int(rng.integers(2**31)))
        found.append(evaluate(theta, noised.X, noised.y, metric="roc_auc", release=release, label_model="logistic"))
    z = np.array([(one.value - wanted) / one.standard_error for one in found])
    assert abs(z.mean()) < 0.7 + np.mean([one.bias / one.standard_error for one in found])
    assert stats.chi2(39).ppf(1e-4) < 39 * np.var(z, ddof=1) < stats.chi2(39).isf(1e-4)
    covered = np.mean([low <= wanted <= high for low, high in (one.confidence_interval() for one in found)])
    assert covered >= 0.85


@pytest.mark.in_turn
@pytest.mark.parametrize("metric", ["roc_auc", "f1", "accuracy", "brier"])
def test_a_cap_with_labels_apart_tells_all_metrics(metric):
    """40 draws of 3,000 records: a bias of .02 beyond the stated one and standard errors 40% off are seen; the naive
    metric is off by .05 and more.
    """
    rng = np.random.default_rng(6)
    theta = np.array([3.0, -2.0, 1.0, 0.4])
    release = sd.Release(
        sd.SphericalCapMechanism(epsilon=6.0, radius=1.0), sd.RandomizedResponse(epsilon=2.0), fit_intercept=True
    )
    X = rng.normal(size=(3_000, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True) / rng.random((3_000, 1)) ** (1 / 3)
    u = X @ theta[:3] + theta[3]
    y = np.where(rng.random(3_000) < expit(u), 1.0, -1.0)
    wanted = evaluate(theta, X, y, metric=metric, release=TRUE)
    found = []
    for draw in range(40):
        noised = release.privatize(X, y, random_state=draw + 50)
        found.append(evaluate(theta, noised.X, noised.y, metric=metric, release=release, label_model="logistic"))
    off = np.array([one.value - wanted.value for one in found])
    error = np.mean([one.standard_error for one in found])
    bias = np.mean([one.bias for one in found])
    assert found[0].method == "surrogate"
    assert abs(off.mean()) < bias + 4.5 * off.std() / math.sqrt(40)
    assert abs(off.mean()) < 0.02
    # The records stay the same: their part of the variance is that without noise.
    expected = math.sqrt(error**2 - wanted.standard_error**2)
    assert stats.chi2(39).ppf(1e-4) < 39 * off.var(ddof=1) / expected**2 < stats.chi2(39).isf(1e-4)
    naive = evaluate(theta, noised.X, noised.y, metric=metric, release=TRUE)
    assert abs(naive.value - wanted.value) > 0.05


def test_parameters_of_zero_rank_nothing():
    for release in (release_of(NORMAL, COIN), KINDS["a cap"]):
        noised = release.privatize(np.tile(X4, (50, 1)), np.tile(Y4, 50), random_state=1)
        assert evaluate(np.zeros(3), noised.X, noised.y, metric="roc_auc", release=release).value == 0.5
        constant = evaluate(np.array([0.0, 0.0, 0.4]), noised.X, noised.y, metric="brier", release=release)
        gain = 1 / math.tanh(0.75)
        share = (1 + gain * np.mean(noised.y)) / 2
        wanted = share * expit(-0.4) ** 2 + (1 - share) * expit(0.4) ** 2
        assert constant.value == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("metric", ["roc_auc", "accuracy", "recall"])
def test_noise_that_hides_how_far_scores_are_apart_is_refused(metric):
    """Signs would be judged at scores that are wider than the true ones, and their bias be understated."""
    rng = np.random.default_rng(0)
    X = np.array([0.7, 0.6]) + 0.02 * rng.normal(size=(2_000, 2))
    y = np.where(rng.random(2_000) < 0.5, 1.0, -1.0)
    for mechanism in (sd.GaussianMechanism.from_scale(1.0), sd.SphericalCapMechanism(epsilon=3.0, radius=1.0)):
        noised = sd.Release(mechanism, COIN).privatize(X, y, random_state=1)
        with pytest.raises(InferenceError, match="how far they are apart is hidden"):
            evaluate([1.0, -1.0], noised.X, noised.y, metric=metric, release=noised.release)


def test_more_scores_than_can_be_sorted_are_refused(monkeypatch):
    monkeypatch.setattr("symdebias.evaluation.ranking._MOST_ATOMS", 100)
    noised = KINDS["categories"].privatize(np.sign(np.tile(X4, (100, 1))), np.tile(Y4, 100), random_state=1)
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match=r"sorts 2 scores for each record.* 800 in all"):
        evaluate(THETA, noised.X, noised.y, metric="roc_auc", release=noised.release)


def test_one_label_has_no_area():
    for label, which in ((1.0, "smaller"), (-1.0, "larger")):
        with pytest.raises(InferenceError, match=f"the {which} label is 0"):
            evaluate(THETA, X4, np.full(4, label), metric="roc_auc", release=TRUE)


def test_a_score_of_more_than_the_noised_vector_is_refused():
    release = sd.Release(
        {("a", "b"): sd.SphericalCapMechanism(epsilon=4.0, radius=2.0)}, COIN, noiseless=("c",), fit_intercept=True
    )
    X = np.column_stack([X4, np.arange(4.0)])
    noised = release.privatize(X, Y4, random_state=1)
    for metric, message in (
        ("roc_auc", "other columns are in this score"),
        ("accuracy", "other columns are in this score"),
        ("brier", "No method corrects"),
    ):
        with pytest.raises(sd.exceptions.NoExactCorrectionError, match=message):
            evaluate([1.0, -1.0, 0.5, 0.1], noised.X, noised.y, metric=metric, release=release)
    # A column with the parameter 0 is not in it.
    many = [np.tile(part, (400, 1)[: part.ndim]) for part in (X, Y4)]
    noised = release.privatize(*many, random_state=1)
    assert evaluate([1.0, -1.0, 0.0, 0.1], noised.X, noised.y, metric="accuracy", release=release).standard_error > 0


def test_pairs_of_scores_by_hand():
    X, y = np.array([[0.0], [1.0], [1.0], [2.0]]), np.array([-1, -1, 1, 1])
    wins = [1.0 if u > v else 0.5 if u == v else 0.0 for u, v in itertools.product((1.0, 2.0), (0.0, 1.0))]
    assert evaluate([1.0], X, y, metric="roc_auc", release=sd.Release()).value == np.mean(wins)


@pytest.mark.parametrize("clusters", [None, np.arange(300) // 2])
@pytest.mark.parametrize("which", ["positives", "negatives"])
@pytest.mark.parametrize("count", [1, 4])
def test_few_records_of_a_label_have_no_interval_of_the_area(count, which, clusters):
    """The area moves with one positive, which adds nothing to its standard error: intervals covered 12 to 21%.

    Of two to four positives 31 to 88% of those intervals covered that were not refused for another reason (300 draws of
    300 normal scores, those of positives 0, 1 or 2 standard deviations higher).
    """
    X = np.random.default_rng(4).normal(size=(300, 1))
    options = {"metric": "roc_auc", "release": sd.Release(), "clusters": clusters}
    y = np.where((np.arange(300) < count) == (which == "positives"), 1.0, -1.0)
    found = evaluate([1.0], X, y, **options)
    if count == 4 and clusters is not None:
        # Two clusters have one degree of freedom.
        assert found.degrees_of_freedom == pytest.approx(1.0)
        assert found.interval_or_none() is not None
    else:
        with pytest.raises(InferenceError, match=r"few .* decide .*, or carry what the metric is a share of"):
            found.confidence_interval()


@pytest.mark.parametrize("clusters", [None, np.arange(300) // 2])
def test_five_records_or_clusters_of_a_label_are_left_alone(clusters):
    labels = Sums.of(np.repeat([[1.0], [0.0]], [10, 290], axis=0), np.full(300, 0.1), clusters)
    assert labels.carriers(0) == pytest.approx(10 if clusters is None else 5)
    for law in (ErrorLaw(), ErrorLaw(3.0, 0.5)):
        assert law.carried_by(5 - 1e-12) == law
        assert law.carried_by(4.0).freedom == 3.0
        assert law.carried_by(1.0).freedom == 0.5


def test_one_record_of_a_label_has_no_interval_of_a_rate():
    """Under noise in the score a rate of one record lies between 0 and 1, with a standard error of 0 to rounding."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(300, 1)), np.where(np.arange(300) < 1, 1.0, -1.0)
    options = {"release": sd.Release(sd.GaussianMechanism.from_scale(0.3))}
    rate = evaluate([1.0], X, y, metric="recall", **options)
    assert 0 < rate.value < 1
    assert rate.standard_error < 1e-6
    with pytest.raises(InferenceError, match="carry what the metric is a share of"):
        rate.confidence_interval()
    curve = roc_curve([1.0], X, y, thresholds=[0.3], **options)
    true, false = curve.confidence_intervals()
    assert np.isnan(true).all()
    assert np.isfinite(false).all()


@pytest.mark.parametrize("in_blocks", [False, True], ids=["in memory", "in blocks"])
@pytest.mark.parametrize(("slope", "constant"), [(0.1, -0.3), (0.1, -0.7), (0.7, -2.1), (1 / 3, -7 / 3)])
def test_scores_at_a_threshold_are_there_whatever_they_are_computed_from(slope, constant, in_blocks):
    """Of 0.1 * 3 - 0.3 rounding leaves 5.6e-17, and of 0.1 * 4 - 0.3 - 0.1 something else, with weights that cancel.

    The accuracy was .11 off, 15 of its standard errors, and the area one.
    """
    rng = np.random.default_rng(0)
    release = sd.Release(
        {"age": sd.DiscreteLaplaceMechanism(epsilon=8.0, bounds=(0, 10))}, target=sd.RandomizedResponse(3.0),
        fit_intercept=True,
    )  # fmt: skip
    age = rng.integers(0, 11, 4_000).astype(float)
    y = np.where(rng.random(len(age)) < 1 / (1 + np.exp(5 - age)), 1, -1)
    noised = release.privatize(age[:, None], y, random_state=rng)
    X, labels = noised.X, noised.y
    if in_blocks:
        X, labels = sd.blocks.from_iterator(lambda: zip(np.split(noised.X, 4), np.split(noised.y, 4), strict=True))
    # The same model in a unit of which scores are whole numbers.
    whole = [1.0, float(round(constant / slope))]
    for metric in ("accuracy", "precision", "recall", "f1", "roc_auc"):
        found, wanted = (
            sd.evaluation.evaluate(theta, *records, metric=metric, release=release)
            for theta, records in (([slope, constant], (X, labels)), (whole, (noised.X, noised.y)))
        )
        assert found.value == pytest.approx(wanted.value, abs=1e-9)
        assert found.standard_error == pytest.approx(wanted.standard_error, rel=1e-6)
        assert found.bias == pytest.approx(wanted.bias, abs=1e-12)
    found, wanted = (
        sd.evaluation.roc_curve(theta, noised.X, noised.y, release=release, thresholds=thresholds)
        for theta, thresholds in (([slope, constant], [2 * slope, -slope]), (whole, [2.0, -1.0]))
    )
    assert found.true_positive_rates == pytest.approx(wanted.true_positive_rates, abs=1e-9)
    assert found.false_positive_rates == pytest.approx(wanted.false_positive_rates, abs=1e-9)
    truth = np.mean((age > -whole[1]) * (y > 0) + (age < -whole[1]) * (y < 0) + 0.5 * (age == -whole[1]))
    accuracy = sd.evaluation.evaluate([slope, constant], noised.X, noised.y, metric="accuracy", release=release)
    assert abs(accuracy.value - truth) < 4.5 * accuracy.standard_error
