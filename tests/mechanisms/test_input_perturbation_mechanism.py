"""Normal noise on (q, p) with two scales: its guarantee, its bounds, its law, and what is undone in a release."""

import dataclasses
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import symdebias as sd
from symdebias.mechanisms import KINDS, rounded
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


def test_each_half_is_clipped_to_its_own_bound():
    clipped = MECHANISM.clip([[3.0, 4.0, 0.0, 2.0], [0.3, 0.4, 30.0, 40.0], [0.6, 0.0, 1.0, 0.0]])
    np.testing.assert_allclose(
        clipped.values, [[0.6, 0.8, 0.0, 2.0], [0.3, 0.4, 1.8, 2.4], [0.6, 0.0, 1.0, 0.0]], rtol=1e-13
    )
    assert clipped.outside.tolist() == [True, True, False]
    assert math.hypot(1.0, 3.0) <= MECHANISM.bound <= math.hypot(1.0, 3.0) * (1 + 1e-15)


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


def test_scales_and_bounds_too_far_apart_are_refused():
    with pytest.raises(ValueError, match="differ by a factor"):
        dataclasses.replace(MECHANISM, q_bound=1e100, q_scale=1e-100)
    with pytest.raises(ValueError, match=r"p_scale=4e\+10 is more than 1e\+10 times p_bound=3"):
        dataclasses.replace(MECHANISM, p_scale=4e10)


def test_the_largest_noise_does_not_tell_odd_places_from_even_ones():
    """Beyond 2^53 steps a sum with noise is rounded to even places, and the last bit of the value is read off.

    Of 2,000 numbers none would be odd; 136 are 7 standard deviations of a quarter of them.
    """
    mechanism = sd.InputPerturbation(1, q_scale=1e10, p_scale=3e10, q_bound=1.0, p_bound=3.0, delta=1e-5)
    for column, (scale, bound) in enumerate(((1e10, 1.0), (3e10, 3.0))):
        step = rounded.step_for(scale, Fraction(2 * bound))
        odd, even = (mechanism.privatize(np.full((2_000, 2), place * step))[:, column] / step for place in (3, 4))
        assert max(np.abs(odd).max(), np.abs(even).max()) < 2**52
        for released in (odd, even):
            assert np.bincount((released % 4).astype(int), minlength=4) == pytest.approx(np.full(4, 500), abs=136)


def test_a_budget_of_nothing_has_a_card():
    noiseless = sd.InputPerturbation(2, 1e9, 1e9, 1.0, 1.0, 0.4)
    assert noiseless.epsilon == 0.0
    assert KINDS["input_perturbation"].from_card(noiseless.to_card()) == noiseless
