"""The harnesses accuse broken mechanisms and leave sound ones alone."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.checks.sampler import check_sampler
from symdebias.exceptions import NoExactCorrectionError, PrivacyError
from symdebias.mechanisms import (
    DiscreteLaplaceMechanism,
    FiniteChannel,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponse,
    StaircaseMechanism,
    UniformMechanism,
    sampling,
)
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise
from symdebias.privacy import Guarantee

pytestmark = pytest.mark.newest

SOUND = {
    f"{name} at {epsilon:g}": mechanism
    for epsilon in (0.1, 1.0, 4.0)
    for name, mechanism in {
        "Gaussian": GaussianMechanism(epsilon, 1e-5, 1.0),
        "Laplace": LaplaceMechanism(epsilon, bounds=(-1.0, 3.0)),
        "Laplace ball": LaplaceMechanism(epsilon, radius=2.0),
        "discrete Laplace": DiscreteLaplaceMechanism(epsilon, bounds=(0, 7)),
        "staircase": StaircaseMechanism(epsilon, bounds=(0.0, 1.0)),
        "discrete staircase": sd.DiscreteStaircaseMechanism(epsilon, bounds=(0, 7)),
        "randomized response": RandomizedResponse(epsilon),
        "four categories": RandomizedResponse(epsilon, ("n", "e", "s", "w")),
    }.items()
}


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (1, 2))])
@pytest.mark.parametrize("name", SOUND)
def test_sound_mechanisms_are_left_alone(name, seed):
    """False-alarm rate: 1e-9 for each of the 72 checks."""
    check = sd.checks.check_guarantee(SOUND[name], samples=20_000, confidence=1 - 1e-9, random_state=seed)
    assert check.holds, str(check)
    assert check.exact_delta is not None


@pytest.mark.parametrize("name", SOUND)
def test_the_exact_loss_is_the_claim(name):
    """Calibration is tight: a tenth less noise would break it."""
    mechanism = SOUND[name]
    check = sd.checks.check_guarantee(mechanism, method="exact")
    if mechanism.guarantee.delta == 0:
        assert check.exact_epsilon == pytest.approx(mechanism.epsilon, rel=1e-9)
        assert check.exact_delta < 1e-12
    else:
        assert check.exact_delta == pytest.approx(mechanism.delta, rel=1e-6)


class HalfScale(LaplaceMechanism):
    """Draws half of the noise that it declares."""

    def _add_noise(self, values, source):
        return values + (super()._add_noise(values, source) - values) / 2


class HalfBudget(LaplaceMechanism):
    """Claims half of the budget that it spends."""

    @property
    def guarantee(self):
        return Guarantee(self.epsilon / 2, 0.0)


class Silent(GaussianMechanism):
    """Leaves the noise out."""

    def _add_noise(self, values, source):
        return values.copy()


class Biased(RandomizedResponse):
    """Keeps too often."""

    def _add_noise(self, values, source):
        return np.where(source.generator.random(len(values)) < 0.9, values, -values)


DEFECTS = {
    "half of the noise is drawn": (HalfScale(1.0, bounds=(0.0, 1.0)), "samples"),
    "half of the budget is claimed, exactly": (HalfBudget(1.0, bounds=(0.0, 1.0)), "exact"),
    "half of the budget is claimed, sampled": (HalfBudget(1.0, bounds=(0.0, 1.0)), "samples"),
    "the noise is left out": (Silent(1.0, 1e-5, 1.0), "samples"),
    "a coin of the wrong probability": (Biased(1.0), "samples"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_refuted(name):
    """Factors of two at epsilon 1, with 1e5 samples."""
    mechanism, method = DEFECTS[name]
    check = sd.checks.check_guarantee(mechanism, method=method, random_state=0)
    assert not check.holds, str(check)
    assert "REFUTED" in str(check)


def test_a_channel_that_rules_an_input_out_has_no_claim():
    channel = FiniteChannel([[1.0, 0.0], [0.5, 0.5]], (0, 1))
    assert channel.guarantee is None
    with pytest.raises(PrivacyError, match="makes no privacy claim"):
        sd.checks.check_guarantee(channel)

    class Claiming(FiniteChannel):
        guarantee = Guarantee(1.0, 0.0)

    check = sd.checks.check_guarantee(Claiming([[1.0, 0.0], [0.5, 0.5]], (0, 1)), method="exact")
    assert check.exact_epsilon == math.inf
    assert not check.holds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 10}, "samples"), ({"samples": 1e5}, "samples"), ({"confidence": 1.0}, "confidence"),
        ({"confidence": math.nan}, "confidence"), ({"method": "guess"}, "method"), ({"values": 3}, "pair"),
        ({"values": (1, 2, 3)}, "pair"), ({"values": (math.nan, 1.0)}, "NaN"), ({"random_state": -1}, "random_state"),
        ({"mechanism": "laplace"}, "must be a symdebias Mechanism.*; got str. Pass one, such as"),
        ({"mechanism": sd.LaplaceMechanism}, "got the class LaplaceMechanism, which is to be called. Pass one"),
        ({"mechanism": LaplaceMechanism.from_scale(1.0)}, "makes no privacy claim"),
    ],
)  # fmt: skip
def test_arguments_that_are_refused(change, message):
    arguments = {"mechanism": LaplaceMechanism(1.0, bounds=(0, 1)), **change}
    with pytest.raises((TypeError, ValueError, PrivacyError), match=message):
        sd.checks.check_guarantee(arguments.pop("mechanism"), **arguments)


# ---- unbiasedness ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TwoLaplaces(LaplaceMechanism):
    """A mechanism of one's own: the sum of two Laplace numbers, 1/phi = (1 + b^2 w^2)^2."""

    @property
    def noise(self):
        b = sp.Float(self.scale, 17)
        size = sp.Abs(VALUE) / b
        return AdditiveNoise(
            4 * self.scale**2, 1 / (1 + b**2 * FREQUENCY**2) ** 2, (1 + size) * sp.exp(-size) / (4 * b),
            tail_rate=1 / self.scale,
        )  # fmt: skip

    def _add_noise(self, values, source):
        return super()._add_noise(values, source) + sampling.laplace_noise(self.scale, values.shape, source)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "name",
    ["exponential", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("squared_margin", "logistic"))],
)
def test_a_mechanism_of_ones_own_gets_its_correction_unasked(name):
    loss = getattr(sd.losses, name)()
    mechanism = TwoLaplaces(8.0, bounds=(0.0, 1.0))
    check = sd.checks.check_unbiased(mechanism, loss, random_state=0)
    assert check.unbiased, str(check)
    assert check.mean == pytest.approx(0.0, abs=1e-12)
    assert check.variance == pytest.approx(1.0, rel=1e-9)


@pytest.mark.in_turn
def test_a_density_that_is_not_that_of_the_characteristic_function_is_seen():
    class Wrong(TwoLaplaces):
        @property
        def noise(self):
            right = super().noise
            density = right.density.subs(VALUE, VALUE * sp.Rational(101, 100))
            return AdditiveNoise(right.variance, right.characteristic_function, density, tail_rate=right.tail_rate)

    check = sd.checks.check_unbiased(Wrong(8.0, bounds=(0.0, 1.0)), sd.losses.squared_margin())
    assert not check.unbiased
    assert "NOT unbiased" in str(check)


B = sp.Float(0.5, 17)
DENSITIES = {
    "Laplace, a scale of .55 for .5": (LaplaceMechanism, sp.exp(-sp.Abs(VALUE) / 0.55) / 1.1),
    "Laplace, shifted by .1": (LaplaceMechanism, sp.exp(-sp.Abs(VALUE - sp.Rational(1, 10)) / B)),
    "Laplace, too little mass": (LaplaceMechanism, sp.exp(-sp.Abs(VALUE) / B) / 1.1),
    "normal, a scale of .55 for .5": (
        GaussianMechanism,
        sp.exp(-((VALUE / 0.55) ** 2) / 2) / sp.sqrt(2 * sp.pi) / 0.55,
    ),
    "normal, shifted by .1": (GaussianMechanism, sp.exp(-(((VALUE - 0.1) / 0.5) ** 2) / 2) / sp.sqrt(2 * sp.pi) / 0.5),
    "Laplace, the moments of the normal": (GaussianMechanism, sp.exp(-sp.Abs(VALUE) * sp.sqrt(8)) * sp.sqrt(2)),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", DENSITIES)
def test_a_wrong_density_is_seen_whatever_the_family(name):
    family, density = DENSITIES[name]

    class Wrong(family):
        @property
        def noise(self):
            right = super().noise
            return AdditiveNoise(right.variance, right.characteristic_function, density, tail_rate=right.tail_rate)

    check = sd.checks.check_unbiased(Wrong.from_scale(0.5), sd.losses.squared_margin(), random_state=0)
    assert not check.density_holds
    assert not check.unbiased
    assert "the density is NOT that of the characteristic function" in str(check)
    assert check.sampler.holds


@pytest.mark.parametrize("family", [LaplaceMechanism, GaussianMechanism])
@pytest.mark.parametrize(("stretch", "shift"), [(1.1, 0.0), (1.0, 0.1), (0.95, 0.0), (math.nan, 0.0)])
def test_a_wrong_sampler_is_seen(family, stretch, shift):
    class Wrong(family):
        def _add_noise(self, values, source):
            return values + shift + stretch * (super()._add_noise(values, source) - values)

    check = sd.checks.check_unbiased(Wrong.from_scale(0.5), sd.losses.squared_margin(), random_state=0)
    assert check.density_holds
    assert not check.sampler.holds
    assert not check.unbiased
    assert "the sampler does NOT draw what is declared" in str(check)


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", SOUND)
def test_sound_mechanisms_draw_what_they_declare(name, seed):
    """False-alarm rate: 1e-6 for each of the checks."""
    loss = sd.losses.logistic() if "response" in name or "categories" in name else sd.losses.squared_margin()
    check = sd.checks.check_unbiased(SOUND[name], loss, random_state=seed)
    assert check.unbiased, str(check)
    assert "draws what is declared" in str(check)


def test_noise_on_vectors_and_coins_of_a_wrong_sampler_are_seen():
    sound = GaussianMechanism.from_covariance([[0.3, 0.1], [0.1, 0.2]])
    assert sd.checks.check_unbiased(sound, sd.losses.exponential(), random_state=0).unbiased

    class Independent(GaussianMechanism):
        def _add_noise(self, values, source):
            noise = super()._add_noise(np.zeros_like(values), source)
            return values + np.column_stack([noise[:, 0], np.roll(noise[:, 1], 1)])

    check = sd.checks.check_unbiased(
        Independent.from_covariance([[0.3, 0.1], [0.1, 0.2]]), sd.losses.exponential(), random_state=0
    )
    assert not check.sampler.holds
    assert not sd.checks.check_unbiased(Biased(1.0), sd.losses.logistic(), random_state=0).unbiased


def test_false_alarms_of_a_sampler_are_as_rare_as_stated():
    """Rare and far noise, whose mean is not normal at this size: 200 checks, and none fails."""
    mechanism = DiscreteLaplaceMechanism(9.0, bounds=(0, 1))
    rng = np.random.default_rng(0)
    assert all(check_sampler(mechanism, samples=2_000, rng=rng).holds for _ in range(200))


def test_channels_are_checked_on_the_target_or_on_a_feature():
    coin = RandomizedResponse(1.0)
    assert sd.checks.check_unbiased(coin, sd.losses.logistic()).release.target == coin
    four = RandomizedResponse(1.0, ("n", "e", "s", "w"))
    check = sd.checks.check_unbiased(four, sd.losses.logistic())
    assert check.release.groups[0][1] == four
    assert check.unbiased
    odd = FiniteChannel([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], (-1, 1), (-1, 0, 1))
    assert sd.checks.check_unbiased(odd, sd.losses.exponential()).unbiased


@pytest.mark.in_turn
def test_what_cannot_be_checked_says_so():
    with pytest.raises(NoExactCorrectionError, match="a finite sum of waves"):
        sd.checks.check_unbiased(UniformMechanism(0.5), sd.losses.logistic())
    assert sd.checks.check_unbiased(UniformMechanism(0.5), sd.losses.least_squares()).unbiased
    assert sd.checks.check_unbiased(StaircaseMechanism(2.0, bounds=(0, 1)), sd.losses.squared_margin()).unbiased
    with pytest.raises(TypeError, match="must be a symdebias Mechanism"):
        sd.checks.check_unbiased("laplace", sd.losses.logistic())
    with pytest.raises(TypeError, match=r"must be a symdebias\.Loss"):
        sd.checks.check_unbiased(RandomizedResponse(1.0), "logistic")
