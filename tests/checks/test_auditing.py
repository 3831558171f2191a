"""Audits of the solvers that add noise themselves: none refutes its claim, and each does when noise is missing.

Bounds hold with probability 1 - 1e-6 each, and seeds are fixed: a bound above a claim is a defect.
"""

import functools
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

import symdebias as sd
from symdebias.checks.auditing import sampled_epsilon
from symdebias.exceptions import PrivacyError
from symdebias.privacy import analytic_gaussian_delta

pytestmark = pytest.mark.newest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "audit.py"))
CONFIDENCE = 1 - 1e-6
# The others of the benchmark take ten times as long, or as long.
NAMES = ["input, of a contributor"]
MORE = [
    "dp_lssgd, one step", "dp_lssgd, six sampled steps", "dp_lssgd, smoothed", "output, Laplace-type", "output, normal",
    "objective",
]  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize("name", [*NAMES, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in MORE)])
def test_solvers_keep_their_claim_and_lose_it_with_less_noise(name):
    pytest.importorskip("dp_accounting")
    case = cases()[name]

    def audit():
        run = lambda X, y, rng: case.fit(X, y, random_state=rng)  # noqa: E731
        return sd.checks.audit(run, SCRIPT["FIRST"], SCRIPT["SECOND"], runs=2500, confidence=CONFIDENCE, random_state=2)

    check = audit()
    assert check.claimed.epsilon <= 1.0
    assert check.holds
    share = SCRIPT["share_that_leaves"](case, 3.05)
    assert case.epsilon_at(share) > 3.0 * check.claimed.epsilon
    with SCRIPT["cut"](case.draw, share):
        less = audit()
    assert not less.holds
    assert "REFUTED" in str(less)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", MORE)
def test_few_runs_leave_solvers_alone_and_see_noise_that_is_missing(name):
    """A quick form of the table: 200 runs a side, and a hundredth of the noise."""
    pytest.importorskip("dp_accounting")
    case = cases()[name]
    run = lambda X, y, rng: case.fit(X, y, random_state=rng)  # noqa: E731
    options = {"runs": 200, "confidence": CONFIDENCE, "random_state": 0}
    assert sd.checks.audit(run, SCRIPT["FIRST"], SCRIPT["SECOND"], **options).holds
    with SCRIPT["cut"](case.draw, 0.01):
        assert not sd.checks.audit(run, SCRIPT["FIRST"], SCRIPT["SECOND"], **options).holds


@functools.cache
def cases():
    return SCRIPT["audited"](1.0)


def test_the_bound_of_two_normals_is_below_their_curve_and_near_it():
    rng = np.random.default_rng(0)
    shift = 1.5
    exact = optimize.brentq(lambda epsilon: analytic_gaussian_delta(epsilon, 1.0, shift) - 1e-3, 0.1, 20)
    found = sampled_epsilon(rng.normal(size=200_000), shift + rng.normal(size=200_000), 1e-3, CONFIDENCE)
    assert 0.6 * exact < found < exact


def test_equal_samples_tell_nothing():
    rng = np.random.default_rng(0)
    assert sampled_epsilon(rng.normal(size=5000), rng.normal(size=5000), 0.0, CONFIDENCE) < 0.05


def test_the_direction_is_the_one_that_separates():
    """Means differ in a coordinate of little spread, beside one of a thousandfold spread."""
    spread = np.array([1000.0, 1.0, 0.0])

    class Found:
        guarantee = sd.Guarantee(0.1, 0.0, "central", "replace-one")

        def __init__(self, shift, rng):
            self.theta = spread * rng.normal(size=3) + [0.0, shift, 0.0]

    check = sd.checks.audit(lambda X, y, rng: Found(X, rng), (0.0, None), (6.0, None), runs=400, random_state=0)
    assert check.sampled_epsilon > 2.5
    assert not check.holds


class Unclaimed:
    theta = np.zeros(2)
    guarantee = None


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(PrivacyError, match="no privacy claim"):
        sd.checks.audit(lambda *_: Unclaimed(), (0, 0), (0, 0), runs=200)
    budgets = iter(np.linspace(0.1, 1.0, 400))

    class Varying:
        theta = np.zeros(1)

        def __init__(self):
            self.guarantee = sd.Guarantee(next(budgets), 0.0, "central", "replace-one")

    with pytest.raises(PrivacyError, match="different guarantees"):
        sd.checks.audit(lambda *_: Varying(), (0, 0), (0, 0), runs=200)
    for change, message in (
        ({"runs": 10}, "runs"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": math.nan}, "c"),
    ):
        with pytest.raises(ValueError, match=message):
            sd.checks.audit(lambda *_: Unclaimed(), (0, 0), (0, 0), **change)
