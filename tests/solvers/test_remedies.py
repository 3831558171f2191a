"""A refusal ends with what would do, and what it names does where it is followed."""

import dataclasses
import re

import numpy as np
import pytest
from instances import MECHANISMS

import symdebias as sd
from symdebias.solvers.remedies import Signal, _rounded

THETA = np.array([3.0, -2.0])


def labelled(n, seed, *, width=0.5):
    rng = np.random.default_rng(seed)
    X = np.clip(width * rng.normal(size=(n, 2)), -1, 1) / np.sqrt(2)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ THETA)), 1.0, -1.0)


def refused(loss, release, X, y, seed):
    noised = release.privatize(X, y, random_state=seed)
    corrected = sd.debias(loss, noised.release)
    with pytest.raises(sd.DivergenceError) as caught:
        sd.m_estimate(corrected, noised.X, noised.y)
    return str(caught.value), corrected, noised


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return float(found[1].replace(",", ""))


def fits(loss, release, X, y, seed):
    noised = release.privatize(X, y, random_state=seed)
    return sd.m_estimate(sd.debias(loss, noised.release), noised.X, noised.y)


@pytest.mark.in_turn
def test_what_a_refusal_names_does():
    """20,000 labels under noise of 50 times the features' variance: each way out, followed."""
    loss = sd.losses.logistic()

    def release(epsilon):
        return sd.Release(sd.GaussianMechanism(epsilon, 1e-5, radius=1.0), sd.RandomizedResponse(2.0))

    text, corrected, noised = refused(loss, release(4.0), *labelled(20_000, 1), 102)
    penalty = number(r"On these records l2=([0-9.e+-]+) gives a fit", text)
    assert np.isfinite(sd.m_estimate(corrected, noised.X, noised.y, l2=penalty).theta).all()
    needed = number(r"about ([0-9,]+) records, or", text)
    assert 100_000 < needed < 2_000_000
    epsilon = number(r"an epsilon of ([0-9.]+) in place of 4 for the features would do", text)
    assert 6 < epsilon < 20
    found = fits(loss, release(4.0), *labelled(int(needed), 2), 102)
    assert np.linalg.norm(found.theta - THETA) < 1.5
    assert np.linalg.norm(fits(loss, release(epsilon), *labelled(20_000, 2), 102).theta - THETA) < 1.5
    # One vector, with both budgets: 4 and 2.
    whole = number(r'target="margin" with the whole epsilon of ([0-9.]+), would do', text)
    assert whole == pytest.approx(release(4.0).guarantee.epsilon, abs=0.01)
    fewer = number(r"would do with about ([0-9,]+) records; sd.plan", text)
    assert fewer < needed / 2
    together = sd.Release(sd.GaussianMechanism(whole, 1e-5, radius=1.0), target="margin")
    assert np.linalg.norm(fits(loss, together, *labelled(int(fewer), 2), 102).theta - THETA) < 1.5


@pytest.mark.in_turn
def test_noise_without_a_budget_is_told_by_its_scale():
    loss = sd.losses.exponential()

    def release(scale):
        return sd.Release(sd.GaussianMechanism.from_scale(scale), sd.RandomizedResponse(2.0))

    text, *_ = refused(loss, release(0.5), *labelled(3_000, 0, width=0.15), 100)
    factor = number(r"noise of 1/([0-9.]+) of its standard deviation would do", text)
    assert 2 < factor < 6
    for seed in range(3):
        assert fits(loss, release(0.5 / factor), *labelled(3_000, seed, width=0.15), seed).standard_errors.all()
    assert "margin" not in text


def test_labels_alone_are_told_by_their_budget():
    """50 labels at epsilon .3: the corrected ones are separated."""
    loss = sd.losses.logistic()

    def people(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2))
        return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ [1.0, -0.5])), 1, -1)

    text, *_ = refused(loss, sd.Release(target=sd.RandomizedResponse(0.3)), *people(50, 1), 102)
    assert "The noise is that of the label alone" in text
    needed = int(number(r"about ([0-9,]+) records, or", text))
    # 20 records for each of two parameters, over the square of the gain tanh(.15).
    assert needed == pytest.approx(40 / np.tanh(0.15) ** 2, rel=0.06)
    epsilon = number(r"an epsilon of ([0-9.]+) in place of 0.3 for the label would do", text)
    assert 40 / np.tanh(epsilon / 2) ** 2 <= 50.5
    for budget, count in ((0.3, needed), (epsilon, 50)):
        fit = fits(loss, sd.Release(target=sd.RandomizedResponse(budget)), *people(count, 2), 2)
        assert np.isfinite(fit.theta).all()


def test_what_the_noise_hides_is_not_guessed():
    text, *_ = refused(
        sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(2.0)),
        *labelled(200, 0, width=0.1), 100,
    )  # fmt: skip
    assert "cannot be read off them" in text
    assert "records would do" in text
    assert "epsilon" not in text.split("less noise.")[1]


def test_descent_says_it_too():
    X, y = labelled(4_000, 0, width=0.1)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(2.0))
    noised = release.privatize(X, y, random_state=1)
    with pytest.raises(sd.DivergenceError, match=r"smaller step_size, .*(would do|cannot be read off them)"):
        sd.sgd(sd.debias(sd.losses.exponential(), release), noised.X, noised.y, step_size=0.5, random_state=0)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_share_of_signal_is_that_of_the_records(scale):
    """Features of variance 1/3, by hand: 1/3 over 1/3 + scale^2, within 4 standard errors (1 in 15,000)."""
    X = np.random.default_rng(0).uniform(-1, 1, size=(40_000, 2))
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(scale), "b": sd.GaussianMechanism.from_scale(scale)},
                         noiseless=("c",), fit_intercept=True)  # fmt: skip
    noised = release.privatize(np.column_stack([X, X[:, 0] + 1]), X[:, 0], random_state=0)
    signal = Signal.of(sd.debias(sd.losses.least_squares(), release).records(noised.X, noised.y))
    # What the noiseless column tells of the first one does not count.
    first = 1 - scale**2 / (scale**2 + 0.0)
    share = np.mean([first, (1 / 3) / (1 / 3 + scale**2)])
    assert signal.error == pytest.approx(np.sqrt(2 / 80_000))
    assert abs(signal.share - share) < 4 * signal.error
    assert (signal.parameters, signal.gain, signal.records) == (4, 1.0, 40_000)


def test_more_noise_needs_more_records():
    signal = Signal(0.2, 0.0, 3, 2.0, 1_000.0)
    assert signal.needed == pytest.approx(4 * (60 + 128 * 0.8 / 0.04))
    # A quarter of the variance: .2 of signal to .8/4 of noise.
    assert signal.with_noise(0.25).share == pytest.approx(0.5)
    assert _rounded(123_456) == "130,000"
    assert _rounded(7.2) == "8"


def test_where_nothing_is_noised_there_is_no_advice_on_noise():
    X = np.column_stack([np.ones(30), np.arange(30.0)])
    text, *_ = refused(sd.losses.logistic(), sd.Release(noiseless=("a", "b")), X, np.where(X[:, 1] > 14, 1, -1), 0)
    assert "would do" not in text
    assert "l2=" in text


@pytest.mark.parametrize("name", MECHANISMS)
def test_another_budget_makes_a_mechanism_of_it(name):
    mechanism = MECHANISMS[name]
    entries = {entry.name for entry in dataclasses.fields(mechanism)}
    # Input perturbation is made from its scales, and a channel that is written down from its matrix.
    if mechanism.guarantee is None or "epsilon" not in entries or {"matrix", "q_scale"} & entries:
        with pytest.raises(ValueError, match="is not made from its epsilon"):
            mechanism.with_epsilon(0.7)
        return
    assert mechanism.with_epsilon(mechanism.epsilon) == mechanism
    other = mechanism.with_epsilon(0.7)
    assert other.guarantee.epsilon <= 0.7 * (1 + 1e-9)
    assert other.bound == mechanism.bound


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("further", "told"),
    [
        (lambda X: np.ones((len(X), 1)), "do not tell that x2 and intercept vary apart from each other beyond"),
        (lambda X: X[:, :1], "do not tell that x0 and x2 vary apart from each other beyond"),
        (lambda X: np.zeros((len(X), 1)), "do not tell that x2 varies beyond its noise: leave it out"),
    ],
    ids=["constant", "twice", "zero"],
)
def test_columns_that_true_records_do_not_tell_apart_are_named(further, told):
    """More records would not help; 3,000 of columns apart are fitted, whatever the third column is."""
    X, y = labelled(3_000, 0)
    loss, release = sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(0.1), fit_intercept=True)
    text, *_ = refused(loss, release, np.column_stack([X, further(X)]), y, 1)
    assert told in text
    assert "records would do" not in text
    together = sd.Release(sd.SphericalCapMechanism(6.0, radius=2.0), "margin", fit_intercept=True)
    if further(X)[0] == 1:
        assert "x2 and intercept" in refused(sd.losses.logistic(), together, np.column_stack([X, further(X)]), y, 1)[0]
    apart = np.column_stack([X, 0.3 * np.random.default_rng(3).normal(size=len(X))])
    assert fits(loss, release, apart, y, 1).standard_errors.all()


@pytest.mark.in_turn
def test_a_combination_of_many_columns_is_told_of_without_their_names():
    """Fourteen columns of sum 0 have .27 each in it; such a refusal ended in an IndexError."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2_000, 14))
    X -= X.mean(axis=1, keepdims=True)
    y = np.where(rng.random(2_000) < 1 / (1 + np.exp(-3 * X[:, 0])), 1.0, -1.0)
    text, *_ = refused(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.3)), X, y, 1)
    assert "do not tell that each combination of many columns varies beyond its noise: leave some of them out" in text


def test_labels_that_are_all_the_same_are_named():
    """Scores then differ by rounding alone, for which a surrogate is designed as for one score."""
    X, _ = labelled(3_000, 0)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1), fit_intercept=True)
    text, *_ = refused(sd.losses.logistic(), release, X, np.ones(len(X)), 1)
    assert "All 3,000 labels are the same, and no finite parameters fit one label best: check the target." in text


@pytest.mark.parametrize("scale", [0.5, 5.0])
def test_noise_that_is_declared_too_large_is_named(scale):
    """A variance in place of a scale: by chance released columns vary so little in one of a million draws."""
    X, y = labelled(3_000, 0)
    noised = np.column_stack([X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=len(X)), X[:, 1]])
    release = sd.Release(
        {"age": sd.GaussianMechanism.from_scale(scale), "hours": sd.GaussianMechanism.from_scale(0.01)},
        fit_intercept=True,
    )
    with pytest.raises(sd.DivergenceError) as refusal:
        sd.m_estimate(sd.debias(sd.losses.squared_margin(), release), noised, y)
    text = str(refusal.value)
    if scale == 0.5:
        assert "declared too large" not in text
        return
    varies = f"age varies by {noised[:, 0].std():.3g}, and its declared noise alone by 5 (standard deviations)"
    assert f"{varies}: the noise is declared too large" in text
    assert "hours" not in text


def test_true_records_that_are_taken_as_they_are_are_not_held_against_the_noise():
    """As a plan's population: without a correction they have none of the declared noise in them."""
    X, _ = labelled(500, 0)
    release = sd.Release(sd.GaussianMechanism.from_scale(5.0), fit_intercept=True)
    plain = sd.debias(sd.losses.exponential(), release, method="none")
    with pytest.raises(sd.DivergenceError) as refusal:  # labels that a score tells without error
        sd.m_estimate(plain, X, np.where(X[:, 0] > 0, 1, -1))
    assert "noise" not in str(refusal.value).replace("or release with less noise", "")


def test_the_last_column_is_named_too_where_there_is_no_intercept():
    X, y = labelled(3_000, 0)
    noised = X[:, :1] + 0.3 * np.random.default_rng(1).normal(size=(len(X), 1))
    release = sd.Release({"age": sd.GaussianMechanism.from_scale(5.0)})
    with pytest.raises(sd.DivergenceError, match=r"age varies by .*: the noise is declared too large"):
        sd.m_estimate(sd.debias(sd.losses.squared_margin(), release), noised, y)


@pytest.mark.in_turn
def test_released_labels_that_are_all_the_same_are_named():
    X, _ = labelled(3_000, 0)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1), sd.RandomizedResponse(2.0), fit_intercept=True)
    with pytest.raises(sd.DivergenceError, match="All 3,000 labels are the same"):
        sd.m_estimate(sd.debias(sd.losses.exponential(), release), X, np.ones(len(X)))


@pytest.mark.in_turn
@pytest.mark.parametrize(("edge", "n"), [(0.0, 500), (0.3, 500), (0.0, 40_000)])
def test_labels_that_a_score_separates_are_told(edge, n):
    """Along a combination of two columns, and with a record of either label on the edge."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    side = x @ [1.0, -2.0] > edge
    x[:2], side[:2] = [[edge, 0.0], [edge, 0.0]], [True, False]
    corrected = sd.debias(sd.losses.logistic(), sd.Release(None, noiseless=("a", "b"), fit_intercept=True))
    with pytest.raises(sd.DivergenceError, match="A score separates the two labels of these records"):
        sd.m_estimate(corrected, x, np.where(side, 1.0, -1.0))
    flipped = np.where(rng.random(n) < 0.1, ~side, side)
    assert np.isfinite(sd.m_estimate(corrected, x, np.where(flipped, 1.0, -1.0)).theta).all()
