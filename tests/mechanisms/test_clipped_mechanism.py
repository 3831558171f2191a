"""Clipping after the noise: drawn, described and trained on as it stands, and corrected nowhere."""

import json
import math

import numpy as np
import pytest
from sampling_statistics import LEVEL, RECORDS
from scipy import stats

import symdebias as sd
from symdebias.exceptions import ClippingWarning, NoExactCorrectionError
from symdebias.noise import ClippedNoise

LAPLACE = sd.LaplaceMechanism(epsilon=1.0, bounds=(0.0, 1.0))
CLIPPED = sd.ClippedMechanism(LAPLACE, 0.0, 1.0)
BASES = [
    LAPLACE,
    sd.LaplaceMechanism.from_scale(0.5),
    sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 5)),
    sd.DiscreteStaircaseMechanism(1.0, bounds=(0, 5)),
    sd.StaircaseMechanism(1.0, bounds=(0, 1)),
    sd.GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0),
    sd.GaussianMechanism.from_scale(0.3),
    sd.UniformMechanism(1.0),
]
RELEASE = sd.Release(target=CLIPPED, noiseless=("a", "b"))


@pytest.mark.parametrize("base", BASES, ids=repr)
def test_what_comes_out_is_that_of_the_mechanism_clipped(base):
    mechanism = sd.ClippedMechanism(base, 0, 0.5)
    values = np.resize([0.0, 1.0], 2000)
    np.testing.assert_array_equal(
        mechanism.privatize(values, random_state=3), np.clip(base.privatize(values, random_state=3), 0, 0.5)
    )
    assert mechanism.guarantee == base.guarantee
    assert mechanism.bound == base.bound
    assert isinstance(mechanism.noise, ClippedNoise)
    assert mechanism.noise.noise == base.noise
    assert sd.ClippedMechanism.from_card(json.loads(json.dumps(mechanism.to_card()))) == mechanism


def test_the_law_of_clipped_laplace_noise():
    """Both atoms and what is between them, each at a false-alarm rate of 1e-7."""
    sent = CLIPPED.privatize(np.full(RECORDS, 0.25))
    low, high = math.exp(-0.25) / 2, math.exp(-0.75) / 2
    for share, edge in ((low, 0.0), (high, 1.0)):
        assert stats.binomtest(int((sent == edge).sum()), RECORDS, share).pvalue > LEVEL
    inside = sent[(sent > 0) & (sent < 1)]
    law = stats.laplace(loc=0.25)
    cdf = (law.cdf(np.sort(inside)) - law.cdf(0)) / (law.cdf(1) - law.cdf(0))
    assert stats.kstest(cdf, "uniform", method="asymp").pvalue > LEVEL


def test_labels_outside_are_reported_by_the_bounds_of_the_mechanism():
    with pytest.warns(ClippingWarning, match="1 of 3 records"):
        noised = RELEASE.privatize(np.zeros((3, 2)), [0.0, 1.0, 7.0], random_state=0)
    assert ((noised.y >= 0) & (noised.y <= 1)).all()


def test_the_release_keeps_its_guarantee_and_its_card():
    assert RELEASE.guarantee.epsilon == 1.0
    assert RELEASE.guarantee.delta == 0.0
    assert sd.Release.from_json(RELEASE.to_json()) == RELEASE
    assert RELEASE.clips_target
    assert not sd.Release(target=LAPLACE, noiseless=("a",)).clips_target


# ---- training as it stands -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noised():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 2)) / math.sqrt(2)
    y = 0.5 + 0.5 * X[:, 0]
    return X, RELEASE.privatize(X, y, random_state=1)


def test_training_without_a_correction_works_and_is_biased(noised):
    X, records = noised
    plain = sd.debias(sd.losses.least_squares(), RELEASE, method="none")
    fit = sd.m_estimate(plain, records.X, records.y)
    wanted = np.linalg.lstsq(X, records.y, rcond=None)[0]
    np.testing.assert_allclose(fit.theta, wanted, rtol=1e-6, atol=1e-8)
    assert fit.covariance is not None
    with pytest.raises(sd.exceptions.InferenceError, match="bias of the noise"):
        fit.confidence_interval()
    assert "uncorrected" in fit.summary()
    assert plain.at(2).uncorrected is not None
    np.testing.assert_allclose(
        sd.literature.naive(sd.losses.least_squares(), RELEASE, records.X, records.y).theta, fit.theta
    )
    descended = sd.sgd(plain, records.X, records.y, epochs=2, random_state=0)
    assert np.isfinite(descended.theta).all()


def test_two_declared_values_train_as_numbers():
    release = sd.Release(
        target=sd.ClippedMechanism(sd.LaplaceMechanism(epsilon=1.0, bounds=(-1, 1)), -1, 1), noiseless=("a",)
    )
    plain = sd.debias(sd.losses.logistic(), release, method="none")
    y = np.array([-1.0, -0.3, 0.9])
    scores = 0.7 * np.array([1.0, 2.0, -1.0])
    low, high = np.log1p(np.exp(scores)), np.log1p(np.exp(-scores))
    wanted = low + (y + 1) / 2 * (high - low)
    found = plain.loss([0.7], np.array([[1.0], [2.0], [-1.0]]), y)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


# ---- refused everywhere else -----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [sd.losses.least_squares(), sd.losses.poisson(), sd.losses.logistic()], ids=str)
@pytest.mark.parametrize("method", ["auto", "exact", "surrogate", "quadrature", "series"])
def test_no_method_corrects_it(loss, method):
    options = {"order": 1} if method == "series" else {}
    with pytest.raises(NoExactCorrectionError, match=r"clipping destroyed unbiasedness.*without clipping"):
        sd.debias(loss, RELEASE, method=method, **options)


def refused_calls():
    loss = sd.losses.least_squares()
    X, y = np.zeros((50, 2)), np.linspace(0, 1, 50)
    plain = sd.debias(loss, RELEASE, method="none")
    noisy = sd.Release({"a": sd.GaussianMechanism.from_scale(0.5)}, CLIPPED, noiseless=("b",))
    return {
        "certify": lambda: plain.certify(),
        "certificate": lambda: plain.certificate,
        "bias of the loss": lambda: plain.bias(np.ones(2), np.zeros((1, 2)), [0.0]),
        "sd.bias": lambda: sd.bias(loss, RELEASE),
        "evaluate": lambda: sd.evaluation.evaluate(np.ones(2), X, y, release=RELEASE, metric="squared_error"),
        "evaluate a loss": lambda: sd.evaluation.evaluate(np.ones(2), X, y, release=RELEASE, metric=loss),
        "accuracy": lambda: sd.evaluation.evaluate(np.ones(2), X, y, release=RELEASE, metric="accuracy"),
        "check_unbiased": lambda: sd.checks.check_unbiased(CLIPPED, loss),
        "regression calibration": lambda: sd.literature.regression_calibration(loss, noisy, X, y),
        "simex": lambda: sd.literature.simex(loss, noisy, X, y),
        "conditional score": lambda: sd.literature.conditional_score(sd.losses.logistic(), noisy, X, y),
        "Monte-Carlo score": lambda: sd.literature.monte_carlo_score(loss, noisy, X, y),
        "target noise": lambda: RELEASE.target_noise,
    }


@pytest.mark.parametrize("name", refused_calls())
def test_nothing_takes_it_for_noiseless(name):
    with pytest.raises(NoExactCorrectionError, match="clipping destroyed unbiasedness"):
        refused_calls()[name]()


def test_vectors_are_not_clipped():
    mechanism = sd.ClippedMechanism(sd.GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0), 0, 1)
    with pytest.raises(ValueError, match=r"the shape \(1, 2\), and what is clipped to \[0, 1\] is one number"):
        mechanism.privatize([[0.1, 0.2]])
    assert mechanism.privatize([[0.1], [0.2]], random_state=0).shape == (2, 1)


def test_features_are_never_clipped_after_their_noise():
    with pytest.raises(ValueError, match=r"clips what comes out.*without clipping"):
        sd.Release(CLIPPED)
    with pytest.raises(ValueError, match="clips what comes out"):
        sd.Release({"a": CLIPPED})


INNER = CLIPPED.to_card()["mechanism"]
BAD_CARDS = {
    "no card inside": ("laplace", "mechanism"),
    "clipped twice": ({**INNER, "kind": "clipped"}, "clipped"),
    "a kind that is no text": ({**INNER, "kind": ["laplace"]}, "kind"),
    "a bad card inside": ({**INNER, "epsilon": -1.0}, "epsilon"),
}


@pytest.mark.parametrize("case", BAD_CARDS)
def test_cards_that_are_refused(case):
    inner, message = BAD_CARDS[case]
    with pytest.raises((TypeError, ValueError), match=message):
        sd.ClippedMechanism.from_card({**CLIPPED.to_card(), "mechanism": inner})
    with pytest.raises(ValueError, match="not in order"):
        sd.ClippedMechanism.from_card({**CLIPPED.to_card(), "low": 1.0})


@pytest.mark.parametrize("ends", [(0, math.nan), (1, 0), (0, "1")])
def test_clipped_noise_is_checked_by_itself(ends):
    with pytest.raises((TypeError, ValueError)):
        ClippedNoise(LAPLACE.noise, *ends)
    with pytest.raises(TypeError, match="AdditiveNoise"):
        ClippedNoise(CLIPPED.noise, 0.0, 1.0)
