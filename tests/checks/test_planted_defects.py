"""Defects that others have shipped are refuted, by the probe that is there for them; what is sound is left alone."""

import functools
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import symdebias as sd

pytestmark = pytest.mark.newest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "planted_defects.py"))
DEFECTS, SOUND = SCRIPT["DEFECTS"], SCRIPT["SOUND"]
CHECK = sd.checks.check_guarantee

# The probe that has to refute each, with few draws: the others of the table are audited in the exhaustive tests.
QUICK = {
    "Gaussian, noise x 0.6": "law of the noise",
    "Gaussian, noise x 0.8": "law of the noise",
    "Laplace, noise x 0.5": "events of the two inputs",
    "Laplace, sensitivity halved": "declared noise",
    "Gaussian, claimed for added records": "claim",
    "coin, epsilon claimed half": "events of the two inputs",
    "undeclared labels let through": "records outside",
    "seed reused by every call": "repeated streams",
    "coin, seed reused by every call": "repeated streams",
    "generator shared after a fork": "repeated streams",
    "noise from a pool of 1,000 rows": "repeated streams",
    "one noise for two records": "repeated streams",
    "noise and its mirror image for two records": "independence",
    "one noise for all columns": "repeated streams",
    "no clipping of vectors": "records outside",
    "clipping at twice the radius": "every pair of records",
    "clipping computed and not used": "records outside",
    "last coordinate without noise": "law of the noise",
    "plain Laplace noise": "low bits",
    "discrete Laplace, zero twice": "law of the noise",
    "input perturbation, scales swapped": "law of the noise",
    "margin release, calibrated without the label": "declared noise",
    "release, target sent as it is": "law of the noise",
    "release, columns share their noise": "independence",
    "release, a raw column not named": "claim",
}


def test_at_least_thirty_kinds_are_planted():
    assert len(DEFECTS) >= 30
    assert set(QUICK) <= set(DEFECTS)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_defect_is_refuted_by_few_draws(name):
    with SCRIPT["planted"](name) as subject:
        check = CHECK(subject, samples=20_000)
    assert not check.holds
    assert QUICK[name] in check.refuted_by


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_refuted_by_default(name):
    with SCRIPT["planted"](name) as subject:
        check = CHECK(subject)
    assert not check.holds, check.table()
    assert "REFUTED" in check.table()


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "name", [*(one for one in SOUND if one != "cap"), pytest.param("cap", marks=pytest.mark.exhaustive)]
)
def test_what_is_sound_is_left_alone(name):
    """The rate of false alarms is 1e-6 each; fresh bits in every run."""
    check = CHECK(SOUND[name], samples=10_000)
    assert check.holds, check.table()
    assert check.sampled_epsilon <= check.claimed.epsilon


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(10))
def test_two_hundred_sound_audits_have_no_false_alarm(part):
    """The rate is 1e-6 each, 2e-4 for all."""
    names = list(SOUND)
    for turn in range(20):
        check = CHECK(SOUND[names[(20 * part + turn) % len(names)]])
        assert check.holds, check.table()


@pytest.mark.in_turn
def test_false_alarms_are_as_rare_as_any_rate_that_is_stated():
    """Audits at a rate of 1 in 2: those of 12 that refute what is sound are fewer than a fair coin's, at 1e-3."""
    names = ["Laplace", "Gaussian", "coin", "discrete Laplace"]
    refuted = sum(not CHECK(SOUND[names[turn % 4]], samples=2000, confidence=0.5001).holds for turn in range(12))
    assert stats.binom.sf(refuted - 1, 12, 0.5) > 1e-3


@functools.cache
def audited(name):
    return CHECK(SOUND[name], samples=10_000, random_state=0)


@pytest.mark.parametrize("name", ["Gaussian", "four labels", "columns and a label"])
def test_each_probe_says_what_it_did(name):
    check = audited(name)
    names = [probe.name for probe in check.probes]
    assert len(names) == len(set(names)) >= 8
    random = [probe for probe in check.probes if probe.false_alarm]
    assert sum(probe.false_alarm for probe in random) <= (1 - check.confidence) * (1 + 1e-9)
    assert all(probe.draws > 0 for probe in random)
    for probe in check.probes:
        assert probe.tested
        assert probe.found
        assert probe.sees
        assert probe.name in str(check)
        assert probe.sees in check.table()
        assert str(probe).startswith("passed")
    answer = check.as_json()
    assert answer["holds"] is True
    assert len(answer["probes"]) == len(check.probes)


@pytest.mark.in_turn
def test_a_doubtful_answer_draws_more_and_a_clear_one_does_not():
    """Noise x .985 is in doubt at 20,000 draws, and refuted at sixteen times as many (power .999)."""
    clear = audited("Gaussian")
    less = SCRIPT["scaled"](SCRIPT["GAUSSIAN"], 0.985)
    check = CHECK(less, samples=20_000, random_state=6)
    (law,) = (probe for probe in check.probes if probe.name == "law of the noise")
    assert not check.holds
    assert law.draws > 2 * 20_000
    assert {probe.draws for probe in clear.probes if probe.name == "law of the noise"} == {20_000}


def test_the_stated_factor_is_seen():
    """The law of normal noise: audits at the factor that is said to be seen in 95 of 100: 3 of 5 refute it (1e-3)."""
    law = next(probe for probe in audited("Gaussian").probes if probe.name == "law of the noise")
    factor = float(law.sees.removeprefix("noise x "))
    less = SCRIPT["scaled"](SCRIPT["GAUSSIAN"], factor)
    assert 0.85 < factor < 0.97
    assert sum(not CHECK(less, samples=10_000, random_state=seed).holds for seed in range(5)) >= 3


def test_noise_without_a_density_says_that_its_law_was_not_tested():
    class Undeclared(sd.LaplaceMechanism):
        kind = "undeclared"

        @property
        def noise(self):
            right = super().noise
            return sd.noise.AdditiveNoise(right.variance, right.characteristic_function, tail_rate=right.tail_rate)

    check = CHECK(Undeclared(1.0, bounds=(0, 1)), samples=5000, random_state=0)
    words = {probe.name: probe.found for probe in check.probes}
    assert words["law of the noise"] == "not tested: the noise states no density"
    assert words["declared noise"] == "not known exactly"
    assert check.holds
    with pytest.raises(ValueError, match="neither a matrix nor a density"):
        CHECK(Undeclared(1.0, bounds=(0, 1)), method="exact")


def test_the_audit_leaves_seeded_draws_to_their_seed():
    first, second = (CHECK(SOUND["Laplace"], samples=5000, random_state=4) for _ in range(2))
    assert first.sampled_epsilon == second.sampled_epsilon
    other = CHECK(SOUND["Laplace"], samples=5000)
    assert other.sampled_epsilon != first.sampled_epsilon


def test_a_solver_whose_coordinate_never_varies_is_refuted():
    """A parameter without noise tells two data sets apart, whatever noise the others have."""

    class Found:
        guarantee = sd.Guarantee(1.0, 0.0, "central", "replace-one")

        def __init__(self, X, rng):
            self.theta = np.array([rng.normal(), X])

    check = sd.checks.audit(lambda X, y, rng: Found(X, rng), (0.0, None), (1e-9, None), runs=400, random_state=0)
    assert not check.holds
