"""One label of several against another: a loss of one score that finds a multinomial logit model's parameters."""

import re

import numpy as np
import pytest
from instances import U, Y

import symdebias as sd
from symdebias.bounds.slopes import slope_bound
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses.meaning import meaning_of

LABELS = (0, 1, 2)
TRUTH = np.array([[1.0, 0.5], [-1.0, 0.5], [0.0, -1.0]])
NOISE = sd.GaussianMechanism.from_scale(0.5)


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X @ TRUTH.T + rng.gumbel(size=(n, 3))).argmax(axis=1)


def against(label, baseline):
    return sd.losses.logistic().against(label, baseline, of=LABELS)


@pytest.mark.parametrize(
    "of_two", [sd.losses.logistic(), sd.losses.logistic().recoded((0, 1)), sd.losses.hinge()], ids=str
)
def test_it_is_the_loss_of_both_labels_and_nothing_for_the_rest(of_two):
    loss, (lower, upper) = of_two.against(2, 0, of=LABELS), of_two.target_values
    assert loss.target_values == LABELS
    at = [float(loss.expression.subs({U: 0.3, Y: value})) for value in LABELS]
    assert at == pytest.approx(
        [float(of_two.expression.subs({U: 0.3, Y: lower})), 0, float(of_two.expression.subs({U: 0.3, Y: upper}))]
    )


def test_it_says_nothing_of_other_labels():
    meaning = meaning_of(against(2, 0))
    assert (meaning.values, meaning.is_likelihood, meaning.sign) == ((0, 2), True, 1)


@pytest.mark.parametrize(("loss", "label", "baseline", "of", "message"), [
    (sd.losses.poisson(), 0, 1, LABELS, "is no loss of two labels"),
    (sd.losses.softmax(3), 0, 1, LABELS, "is no loss of two labels"),
    (sd.losses.logistic(), 1, 1, LABELS, "are not two of the values"),
    (sd.losses.logistic(), 0, 3, LABELS, "are not two of the values"),
    (sd.losses.logistic(), "car", "bus", LABELS, "label='car' and baseline='bus' are not two of the values"),
    (sd.losses.logistic(), 0, 1, (0, 0), "two or more values"),
    (sd.losses.logistic(), True, 0, LABELS, "label=True and baseline=0 are not two of the values"),
    (sd.losses.logistic(), [1], 0, LABELS, "are not two of the values"),
    (sd.losses.logistic(), 0.1, 0.3, (0.1, 0.2, 0.3), r"at y = 0.1 depends on the last digit.*in steps of one"),
])  # fmt: skip
def test_what_is_not_two_labels_is_refused(loss, label, baseline, of, message):
    with pytest.raises(ValueError, match=message):
        loss.against(label, baseline, of=of)


@pytest.mark.parametrize(("label", "baseline", "of"), [(1, 2, (0.1 + 0.2, 1, 2)), (-0.5, 0.75, (3, 0.75, -0.5))])
def test_bounds_for_central_solvers_are_those_of_both_labels(label, baseline, of):
    assert slope_bound(sd.losses.logistic().against(label, baseline, of=of)) == pytest.approx(1.0)


def test_noise_of_labels_is_undone_for_those_that_count_nothing_too():
    """The mean over what a label comes out as is the loss of the label."""
    channel = sd.RandomizedResponse(epsilon=1.0, categories=LABELS)
    chances = (np.ones((3, 3)) + (np.e - 1) * np.eye(3)) / (np.e + 2)
    smooth = sd.LaplaceMechanism.from_scale(0.3)
    noised = sd.debias(against(0, 2), sd.Release(smooth, channel), method="exact")
    known = sd.debias(against(0, 2), sd.Release(smooth), method="exact")
    X = np.array([[0.3, -1.0], [1.5, 0.2]])
    for label in LABELS:
        outcomes = [noised.loss(TRUTH[0], X, np.full(2, float(out))) for out in LABELS]
        mean = chances[label] @ outcomes
        assert mean == pytest.approx(known.loss(TRUTH[0], X, np.full(2, float(label))), abs=1e-12)


@pytest.mark.in_turn
def test_without_noise_it_is_the_fit_to_the_records_of_both():
    X, y = records(4_000)
    release = sd.Release(noiseless=("x0", "x1"))
    fit = sd.m_estimate(sd.debias(against(0, 2), release), X, y.astype(float))
    both = y != 1
    alone = sd.m_estimate(sd.debias(sd.losses.logistic(), release), X[both], np.where(y[both] == 0, 1.0, -1.0))
    np.testing.assert_allclose(fit.theta, alone.theta, rtol=1e-6)
    np.testing.assert_allclose(fit.standard_errors, alone.standard_errors, rtol=1e-2)


@pytest.mark.in_turn
@pytest.mark.parametrize(("label", "baseline"), [(0, 2), (1, 0)])
def test_differences_of_a_multinomial_logit_model_are_found(label, baseline):
    """Of 8 draws: a mean of z beyond 4/sqrt(8) has a chance below 1e-4 for each parameter, and biases of 1.4 standard
    errors are seen; choosing records by their noised labels is off by 10 and more."""
    release = sd.Release(NOISE, sd.RandomizedResponse(epsilon=2.0, categories=("car", "bus", "walk")))
    corrected, z = sd.debias(against(label, baseline), release), []
    for seed in range(8):
        X, y = records(20_000, seed)
        noised = release.privatize(X, np.array(["car", "bus", "walk"])[y], random_state=seed + 100)
        fit = sd.m_estimate(corrected, noised.X, noised.y)
        z.append((fit.theta - (TRUTH[label] - TRUTH[baseline])) / fit.standard_errors)
    assert np.all(np.abs(np.mean(z, axis=0)) < 4 / np.sqrt(8))


@pytest.mark.in_turn
def test_predictions_are_of_both_labels_and_others_are_refused():
    X, y = records(20_000)
    names = np.array(["car", "bus", "walk"])[y]
    release = sd.Release(NOISE, sd.RandomizedResponse(epsilon=4.0, categories=("car", "bus", "walk")))
    noised = release.privatize(X, names, random_state=1)
    fit = sd.m_estimate(sd.debias(against(0, 2), release), noised.X, noised.y)
    assert fit.predict([[2.0, 1.0], [-2.0, -1.0]]).tolist() == ["car", "walk"]
    chances = fit.predict_proba([[2.0, 1.0]])
    assert chances.shape == (1, 2)
    assert chances.sum() == pytest.approx(1.0)
    both = y != 1
    right = np.where(X[both] @ (TRUTH[0] - TRUTH[2]) > 0, "car", "walk") == names[both]
    assert fit.score(X[both], names[both]) == pytest.approx(right.mean(), abs=0.01)
    with pytest.raises(ValueError, match="does not tell apart: it is one of car, walk"):
        fit.score(X, names)


@pytest.mark.in_turn
def test_other_labels_that_are_numbers_are_refused_by_name():
    X, y = records(2_000)
    fit = sd.m_estimate(sd.debias(against(0, 2), sd.Release(NOISE)), X, y.astype(float))
    with pytest.raises(ValueError, match="does not tell apart: it is one of 0, 2"):
        fit.score(X, y)
    with pytest.raises(ValueError, match="labels must be 0 or 1 or 2"):
        fit.score(X, y + 1)


@pytest.mark.parametrize("names_labels", [True, False])
def test_a_classifier_wants_a_loss_of_all_labels(names_labels):
    X, y = records(500)
    release = sd.Release(NOISE, sd.RandomizedResponse(epsilon=4.0, categories=LABELS) if names_labels else None)
    with pytest.raises(ValueError, match="tells 0 and 2 apart, and no other labels"):
        sd.DebiasedClassifier(against(0, 2), release=release).fit(X, y)


@pytest.mark.in_turn
def test_softmax_under_normal_noise_proposes_it():
    release = sd.Release(NOISE, sd.RandomizedResponse(epsilon=2.0, categories=LABELS))
    with pytest.raises(NoExactCorrectionError) as refusal:
        sd.debias(sd.losses.softmax(3), release)
    proposed = re.search(
        r"symdebias\.losses\.logistic\(\)\.against\(label, baseline, of=\((.*?)\)\)", str(refusal.value)
    )
    of = tuple(map(float, proposed[1].split(",")))
    assert sd.debias(sd.losses.logistic().against(1, 0, of=of), release).method == "surrogate"
