"""Compositions: budgets that add, and normal noise with what is pure, exactly."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

import symdebias as sd
from symdebias.exceptions import PrivacyError
from symdebias.privacy import Guarantee, analytic_gaussian_delta, compose, composed_delta
from symdebias.privacy.composition import split_budget

guarantees = st.builds(
    Guarantee,
    st.floats(0, 1e6),
    st.floats(0, 0.01),
    unprotected=st.lists(st.sampled_from("abc"), unique=True).map(tuple),
)


def normal(epsilon, delta=1e-5):
    return sd.GaussianMechanism(epsilon=epsilon, delta=delta, radius=1.7).guarantee


def response(epsilon):
    return Guarantee(epsilon, 0.0)


# ---- budgets that add ------------------------------------------------------------------------------------


@given(st.lists(guarantees, min_size=1, max_size=12))
def test_budgets_add_and_are_rounded_up(parts):
    total = compose(parts)
    for field in ("epsilon", "delta"):
        exact = sum(Fraction(getattr(part, field)) for part in parts)
        found = getattr(total, field)
        assert exact <= Fraction(found)
        assert Fraction(math.nextafter(found, -1.0)) < exact
    assert set(total.unprotected) == {name for part in parts for name in part.unprotected}


@given(guarantees, guarantees)
def test_a_composition_is_implied_and_no_stronger_than_its_parts(first, second):
    total = compose([first, second])
    assert compose([second, first]).epsilon == total.epsilon
    assert dataclasses.replace(first, unprotected=()).implies(total)
    assert compose([first]) == first


CENTRAL = Guarantee(1.0, 0.0, model="central")
REFUSED = {
    "nothing": ([], PrivacyError, "got none"),
    "two models": ([Guarantee(1.0, 0.0), CENTRAL], PrivacyError, "one model and adjacency"),
    "two adjacencies": (
        [CENTRAL, dataclasses.replace(CENTRAL, adjacency="add-remove")], PrivacyError, "central add-remove",
    ),
    "deltas of 1": ([Guarantee(1.0, 0.5)] * 2, PrivacyError, "promises nothing"),
    "infinite epsilon": ([Guarantee(1e308, 0.0)] * 2, PrivacyError, "promises nothing"),
    "a number": ([Guarantee(1.0, 0.0), 1.0], TypeError, "only guarantees compose; got float"),
    "None": ([Guarantee(1.0, 0.0), None], TypeError, "only guarantees compose; got NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_compositions_that_are_refused(case):
    parts, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        compose(parts)


# ---- normal noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "epsilon"), [(2, 1.400), (5, 2.20), (10, 3.13)])
def test_golden_values_of_several_groups_with_normal_noise(count, epsilon):
    total = compose([normal(1.0)] * count)
    assert total.epsilon == pytest.approx(epsilon, abs=0.006)
    assert total.delta == pytest.approx(count * 1e-5)
    assert f"exact composition of {count} parts" in str(total)


@pytest.mark.parametrize(("epsilon", "label", "multiplier"), [(2.0, 1.0, 3.65977279), (5.0, 2.5, 1.62732915)])
def test_golden_values_of_normal_noise_beside_randomized_response(epsilon, label, multiplier):
    assert composed_delta(epsilon, [multiplier + 5e-9], [label]) <= 1e-5 < composed_delta(
        epsilon, [multiplier - 5e-9], [label]
    )  # fmt: skip
    part = Guarantee(1.5, 1e-5, multiplier=multiplier)
    assert compose([part, response(label)]).epsilon == pytest.approx(min(epsilon, 1.5 + label), rel=1e-8)


def privacy_losses(multiplier, epsilon, points):
    """The privacy loss of normal noise beside randomized response: masses and losses on a grid, by brute force."""
    z = (np.arange(points) + 0.5) / points * 80 - 40
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * 80 / points
    loss = z / multiplier + 0.5 / multiplier**2
    keep = 1 / (1 + math.exp(-epsilon))
    return np.concatenate([keep * density, (1 - keep) * density]), np.concatenate([loss + epsilon, loss - epsilon])


@pytest.mark.parametrize(("multiplier", "label", "epsilon"), [(3.0, 0.7, 1.1), (0.8, 2.0, 3.0), (5.0, 1.0, 0.2)])
def test_the_curve_is_the_mean_of_the_privacy_losses(multiplier, label, epsilon):
    """An independent computation: delta is the mean of (1 - e^(epsilon - loss))+ over the law of the losses."""
    mass, loss = privacy_losses(multiplier, label, 400_000)
    delta = float(mass @ np.maximum(-np.expm1(epsilon - loss), 0.0))
    assert composed_delta(epsilon, [multiplier], [label]) == pytest.approx(delta, rel=1e-6)


def test_one_part_has_the_curve_of_normal_noise():
    assert composed_delta(1.3, [2.0]) == analytic_gaussian_delta(1.3, 2.0, 1.0)
    half, third = math.sqrt(2) * 2.0, math.sqrt(3) * 2.0
    assert composed_delta(1.3, [half, half]) == pytest.approx(analytic_gaussian_delta(1.3, 2.0, 1.0), rel=1e-13)
    assert composed_delta(1.3, [third] * 3) == pytest.approx(analytic_gaussian_delta(1.3, 2.0, 1.0), rel=1e-13)


@settings(max_examples=15)
@given(st.lists(st.floats(0.05, 8.0), min_size=1, max_size=3), st.lists(st.floats(0.01, 8.0), max_size=5))
def test_what_composes_exactly_holds_and_is_no_more_than_the_sum(normals, pures):
    parts = [normal(epsilon) for epsilon in normals] + [response(epsilon) for epsilon in pures]
    total = compose(parts)
    assert total.epsilon <= sum(normals + pures) * (1 + 1e-12)
    if total.epsilon < sum(normals + pures):
        # In float64 by another formula, with pure parts as one: no more than what is promised.
        together = 1 / math.sqrt(sum(part.multiplier**-2 for part in parts[: len(normals)]))
        if len(pures) <= 3:
            assert composed_delta(total.epsilon, [together], pures) <= total.delta * (1 + 1e-9)

        def curve(epsilon):
            half, shift = 0.5 / together, epsilon * together
            return math.exp(log_ndtr(half - shift)) - math.exp(epsilon + log_ndtr(-half - shift))

        assert curve(total.epsilon) <= total.delta * (1 + 1e-6)


def test_the_order_of_parts_does_not_matter():
    parts = [normal(1.0), response(0.5), normal(2.0, 1e-6), response(1.0)]
    assert compose(parts) == compose(parts[::-1])


def test_compositions_of_normal_noise_compose_again():
    once = compose([normal(0.5)] * 4)
    again = compose([compose([normal(0.5)] * 2), compose([normal(0.5)] * 2)])
    assert again.epsilon == pytest.approx(once.epsilon, rel=1e-8)


def test_what_is_neither_pure_nor_normal_adds_up():
    total = compose([normal(1.0), normal(1.0), Guarantee(0.5, 1e-6)])
    assert total.epsilon == pytest.approx(compose([normal(1.0)] * 2).epsilon + 0.5, rel=1e-8)
    assert total.delta == pytest.approx(2.1e-5)


def test_a_release_says_how_its_guarantee_was_composed():
    release = sd.Release(
        {"a": sd.GaussianMechanism(1.0, 1e-5, 1.0), "b": sd.GaussianMechanism(1.0, 1e-5, 3.0)},
        sd.RandomizedResponse(epsilon=1.0),
    )
    total = release.guarantee
    assert total.epsilon < 2.4 < 3.0
    assert "exact composition of 3 parts" in str(total)
    pure = sd.Release({"a": sd.LaplaceMechanism(1.0, (0.0, 1.0))}, sd.RandomizedResponse(epsilon=1.0)).guarantee
    assert (pure.epsilon, pure.basis) == (2.0, "")


@given(
    total=st.floats(1e-6, 700.0),
    shares=st.lists(st.one_of(st.integers(1, 50), st.floats(1e-4, 1.0)), min_size=1, max_size=30),
)
def test_parts_of_a_budget_are_rounded_to_the_safe_side(total, shares):
    parts = split_budget(total, shares)
    assert sum(map(Fraction, parts)) <= Fraction(total)
    assert parts == pytest.approx([total * share / sum(shares) for share in shares], rel=1e-14)
