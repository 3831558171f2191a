"""Normal noise on (q, p) with two scales: its guarantee, its bounds, its law, and what is undone in a release."""

import dataclasses
import itertools
import json
import math
import pickle
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_statistics import RECORDS, normal_faults

import symdebias as sd
from symdebias._domains import DELTA, EPSILON, OPEN_UNIT, RADIUS, SCALE
from symdebias.mechanisms import KINDS, sampling
from symdebias.privacy import Guarantee, analytic_gaussian_delta

MECHANISM = sd.InputPerturbation(2, q_scale=4.0, p_scale=8.0, q_bound=1.0, p_bound=3.0, delta=1e-5)


def curve(epsilon, mean):
    """delta of N(0, 1) against N(mean, 1), by 50-digit quadrature of the positive part of p - e^epsilon q."""
    with mpmath.workdps(50):
        mean, epsilon = mpmath.mpf(mean), mpmath.mpf(epsilon)
        # p(x) > e^eps q(x), with p around the mean, from here on.
        edge = mean / 2 + epsilon / mean
        positive = lambda x: mpmath.npdf(x - mean) - mpmath.exp(epsilon) * mpmath.npdf(x)  # noqa: E731
        return mpmath.quad(positive, [edge, edge + 2, edge + 5, edge + 10, edge + 40])


def ratio(mechanism):
    with mpmath.workdps(50):
        q, p = mpmath.mpf(mechanism.q_bound), mpmath.mpf(mechanism.p_bound)
        return mpmath.sqrt((2 * q / mechanism.q_scale) ** 2 + (2 * p / mechanism.p_scale) ** 2)


@pytest.mark.parametrize(
    "mechanism",
    [MECHANISM, sd.InputPerturbation(1, 1.0, 1.0, 1.0, 1.0, 0.01), sd.InputPerturbation(5, 9.0, 2.0, 1.0, 0.1, 1e-6),
     sd.InputPerturbation(3, 0.3, 0.4, 1.0, 1.0, 0.01)],
    ids=repr,
)  # fmt: skip
def test_epsilon_is_the_least_one_by_quadrature(mechanism):
    mean = ratio(mechanism)
    assert curve(mechanism.epsilon, mean) <= mechanism.delta
    assert curve(mechanism.epsilon * (1 - 1e-9), mean) > mechanism.delta
    assert mechanism.guarantee == Guarantee(mechanism.epsilon, mechanism.delta, "local", "replace-one")
    assert "analytic curve" in mechanism.guarantee.basis


def test_a_factor_of_two_would_be_seen():
    """Half the sensitivity, or the sum of the two in place of the root of squares, gives another epsilon."""
    mean = ratio(MECHANISM)
    assert curve(MECHANISM.epsilon, mean / 2) < MECHANISM.delta / 100
    assert curve(MECHANISM.epsilon, 2 * mean) > MECHANISM.delta * 100
    for only in ({"q_bound": 1e-9}, {"p_bound": 1e-9}):
        assert dataclasses.replace(MECHANISM, **only).epsilon < MECHANISM.epsilon * 0.9


def test_neighbours_change_by_at_most_what_is_declared():
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-2, 20, size=(60, 1))
    records = rng.normal(size=(60, 4)) * sizes
    records = np.concatenate([records, -records, [[3.0, 4.0, 1e9, 0.0], [-3.0, -4.0, -1e9, 0.0]]])
    clipped = MECHANISM.clip(records).values
    scales = [Fraction(4), Fraction(4), Fraction(8), Fraction(8)]
    exact = [[Fraction(float(v)) / s for v, s in zip(row, scales, strict=True)] for row in clipped]
    changes = [sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) for pair in itertools.combinations(exact, 2)]
    declared = Fraction(2, 4) ** 2 + Fraction(6, 8) ** 2
    assert max(changes) <= declared
    assert max(changes) >= declared * Fraction(999_999, 1_000_000)


def test_each_half_is_clipped_to_its_own_bound():
    clipped = MECHANISM.clip([[3.0, 4.0, 0.0, 2.0], [0.3, 0.4, 30.0, 40.0], [0.6, 0.0, 1.0, 0.0]])
    np.testing.assert_allclose(
        clipped.values, [[0.6, 0.8, 0.0, 2.0], [0.3, 0.4, 1.8, 2.4], [0.6, 0.0, 1.0, 0.0]], rtol=1e-13
    )
    assert clipped.outside.tolist() == [True, True, False]
    assert math.hypot(1.0, 3.0) <= MECHANISM.bound <= math.hypot(1.0, 3.0) * (1 + 1e-15)


def test_the_sampler():
    """Independent normal noise of both scales: false-alarm rate 1e-6 per half, bias seen .024 standard deviations."""
    true = np.tile([[0.6, -0.2, 1.0, 2.0]], (RECORDS // 2, 1))
    noise = MECHANISM.privatize(true) - true
    assert not normal_faults(noise[:, :2], 4.0)
    assert not normal_faults(noise[:, 2:], 8.0)
    assert not normal_faults(noise / [4.0, 4.0, 8.0, 8.0], 1.0)


def test_the_check_of_guarantees_agrees():
    check = sd.checks.check_guarantee(MECHANISM, samples=20_000, random_state=0)
    assert check.holds
    assert check.exact_delta == pytest.approx(MECHANISM.delta, rel=1e-6)
    weak = dataclasses.replace(MECHANISM, q_scale=2.0, p_scale=4.0)
    assert analytic_gaussian_delta(MECHANISM.epsilon, 1.0, float(ratio(weak))) > 100 * MECHANISM.delta


@settings(max_examples=25)
@given(
    st.floats(0.01, 50), st.sampled_from([1e-9, 1e-5, 0.1]), st.floats(0.01, 100), st.floats(0.01, 100),
    st.floats(0.05, 0.95),
)  # fmt: skip
def test_scales_of_a_budget(epsilon, delta, q_bound, p_bound, share):
    options = {"epsilon": epsilon, "delta": delta, "q_bound": q_bound, "p_bound": p_bound, "p_share": share}
    mechanism = sd.InputPerturbation.from_budget(3, **options)
    assert epsilon * (1 - 1e-9) <= mechanism.epsilon <= epsilon
    parts = (mechanism.q_bound / mechanism.q_scale) ** 2, (mechanism.p_bound / mechanism.p_scale) ** 2
    assert parts[1] / sum(parts) == pytest.approx(share, rel=1e-9)


def test_the_noise_is_that_of_two_scales():
    noise = MECHANISM.noise
    assert noise.is_gaussian
    np.testing.assert_array_equal(np.array(noise.covariance), np.diag([16.0, 16.0, 64.0, 64.0]))
    assert (MECHANISM.width, MECHANISM.columns) == (4, ("q0", "q1", "p0", "p1"))


def test_the_corrected_loss_is_the_true_one_on_average():
    """By Gauss-Hermite quadrature over the noise of q and p, to 1e-9: exact for a polynomial of degree two."""
    mechanism = sd.InputPerturbation(1, 0.7, 1.3, 2.0, 2.0, 0.01)
    release = sd.Release({mechanism.columns: mechanism})
    corrected = sd.debias(sd.quadratic.released_loss(1), release)
    assert corrected.is_exact
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    weights = weights / weights.sum()
    points = np.array(list(itertools.product(nodes, repeat=2)))
    chances = np.prod(np.array(list(itertools.product(weights, repeat=2))), axis=1)
    zeros = np.zeros(len(points))
    for q, p, w in [(0.5, 1.0, 0.8), (0.0, -1.2, 0.8), (-1.5, 0.3, -1.7)]:
        sent = [q, p] + points * [0.7, 1.3]
        mean = chances @ corrected.loss([w], sent, zeros)
        assert mean == pytest.approx((w * q) ** 2 / 2 - w * p, abs=1e-9)
        assert chances @ corrected.gradient([w], sent, zeros) == pytest.approx([q * q * w - p], abs=1e-9)


def test_a_release_of_it_goes_onto_a_card_and_back():
    release = sd.Release({MECHANISM.columns: MECHANISM})
    assert sd.Release.from_json(release.to_json()) == release
    assert release.guarantee.epsilon == MECHANISM.epsilon
    noised = release.privatize(np.zeros((5, 4)), random_state=0)
    assert noised.X.shape == (5, 4)
    with pytest.raises(ValueError, match="noises 4 columns together; got 3"):
        sd.Release({("a", "b", "c"): MECHANISM})


def test_it_is_a_value():
    twin = sd.InputPerturbation(2, 4, 8, 1, 3, 1e-5)
    assert twin == MECHANISM
    assert hash(twin) == hash(MECHANISM)
    assert eval(repr(MECHANISM), {"InputPerturbation": sd.InputPerturbation}) == MECHANISM
    assert pickle.loads(pickle.dumps(MECHANISM)) == MECHANISM
    assert KINDS["input_perturbation"].from_card(json.loads(json.dumps(MECHANISM.to_card()))) == MECHANISM
    noiseless = sd.InputPerturbation(2, 1e9, 1e9, 1.0, 1.0, 0.4)
    assert noiseless.epsilon == 0.0
    assert KINDS["input_perturbation"].from_card(noiseless.to_card()) == noiseless


ARGUMENTS = {"dimension": 2, "q_scale": 4.0, "p_scale": 8.0, "q_bound": 1.0, "p_bound": 3.0, "delta": 1e-5}
BAD = [
    *[({"dimension": value}, "dimension") for value in (0, -1, 1.0, "2", None, True)],
    *[({name: value}, name) for name in ("q_scale", "p_scale") for value in SCALE.outside()],
    *[({name: value}, name) for name in ("q_bound", "p_bound") for value in RADIUS.outside()],
    *[({"delta": value}, "delta") for value in DELTA.outside()],
    ({"q_bound": 1e100, "q_scale": 1e-100}, "differ by a factor"),
    ({"q_bound": 1e-100, "q_scale": 1e120, "p_bound": 1e-100, "p_scale": 1e120}, "differ by a factor"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=str)
def test_arguments_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.InputPerturbation(**{**ARGUMENTS, **change})


BUDGET = {"epsilon": 1.0, "delta": 1e-5, "q_bound": 1.0, "p_bound": 1.0}
BAD_BUDGETS = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"delta": value}, "delta") for value in DELTA.outside()],
    *[({"p_share": value}, "p_share") for value in OPEN_UNIT.outside()],
    *[({"q_bound": value}, "q_bound") for value in RADIUS.outside()],
    *[({"p_bound": value}, "p_bound") for value in RADIUS.outside()],
]


@pytest.mark.parametrize(("change", "message"), BAD_BUDGETS, ids=str)
def test_budgets_that_are_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.InputPerturbation.from_budget(2, **{**BUDGET, **change})


CARD = MECHANISM.to_card()
BAD_CARDS = [
    ({}, "entries"),
    ({**CARD, "seed": 1}, "entries"),
    ({name: value for name, value in CARD.items() if name != "epsilon"}, "entries"),
    ({**CARD, "epsilon": 0.1}, "noise and guarantee disagree"),
    ({**CARD, "epsilon": math.nan}, "epsilon"),
    ({**CARD, "epsilon": None}, "epsilon"),
    ({**CARD, "q_scale": 2.0}, "noise and guarantee disagree"),
    ({**CARD, "dimension": "2"}, "dimension"),
]


@pytest.mark.parametrize(("card", "message"), BAD_CARDS)
def test_cards_that_are_refused(card, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.InputPerturbation.from_card(card)


@pytest.mark.parametrize("values", [np.zeros(4), np.zeros((1, 3)), np.zeros((1, 1, 4)), [[math.nan] * 4], [["a"] * 4]])
def test_values_that_are_refused(values):
    with pytest.raises((TypeError, ValueError), match="values"):
        MECHANISM.privatize(values, random_state=0)


def test_only_values_that_it_clipped_are_noised():
    other = dataclasses.replace(MECHANISM, q_bound=2.0)
    with pytest.raises(ValueError, match="clipped for"):
        MECHANISM.add_noise(other.clip(np.ones((1, 4))), sampling.source(0))
