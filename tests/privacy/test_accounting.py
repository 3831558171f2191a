import importlib
import math
import warnings
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from symdebias.exceptions import MissingDependencyError, PrivacyError
from symdebias.privacy import (
    accounting,
    analytic_gaussian_delta,
    analytic_gaussian_scale,
    calibrate_noise_multiplier,
    subsampled_gaussian_guarantee,
)
from symdebias.privacy.accounting import ACCOUNTANTS, step_divergence
from symdebias.privacy.guarantee import ADJACENCIES

dp_accounting = pytest.importorskip("dp_accounting")
CASES = [(1.0, 0.01, 1000), (11.0, 128 / 60_000, 23_437), (0.5, 0.01, 100), (5.0, 0.1, 100)]
multipliers = st.floats(math.log(0.4), math.log(100)).map(math.exp)
probabilities = st.one_of(st.just(1.0), st.floats(-4, -0.01).map(lambda x: 10**x))
counts = st.integers(0, 10).map(lambda x: 2**x)
deltas = st.floats(-8, -2).map(lambda x: 10**x)
relations = {
    "add-remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
}


def epsilon(multiplier, probability, steps, delta=1e-5, *, adjacency="add-remove", accountant="pld"):
    return subsampled_gaussian_guarantee(
        multiplier, probability, steps, delta, adjacency=adjacency, accountant=accountant
    ).epsilon


def sampled(multiplier, probability):
    return dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(multiplier))


@pytest.mark.in_turn
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_loss_distribution_is_that_of_dp_accounting(case, adjacency):
    """On a grid eight times finer, theirs is at most 0.1% below ours, and ours is never the smaller by rounding."""
    multiplier, probability, steps = case
    module = importlib.import_module("dp_accounting.pld")
    interval = accounting._grid(*case) / 8
    accountant = module.PLDAccountant(relations[adjacency], interval)
    accountant.compose(sampled(multiplier, probability), steps)
    theirs = accountant.get_epsilon(1e-5)
    assert theirs * (1 - 1e-6) <= epsilon(*case, adjacency=adjacency) <= theirs * (1 + 1e-3)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_renyi_divergences_are_those_of_dp_accounting(case):
    """At whole orders, where theirs are sums; some of their fractional orders do not converge and are left out."""
    multiplier, probability, steps = case
    module = importlib.import_module("dp_accounting.rdp")
    for order in (2, 5, 16, 64):
        accountant = module.RdpAccountant([order])
        accountant.compose(sampled(multiplier, probability), steps)
        ours = steps * step_divergence(order, multiplier, probability, "add-remove")
        assert module.compute_epsilon([order], [ours], 1e-5)[0] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)
    accountant = module.RdpAccountant(accounting._ORDERS)
    accountant.compose(sampled(multiplier, probability), steps)
    theirs = accountant.get_epsilon(1e-5)
    assert 0.999 * theirs <= epsilon(*case, accountant="rdp") <= theirs * (1 + 1e-6)


STEPS = [
    (2, 0.3, 0.7),
    (7, 0.1, 0.4),
    (64, 1.0, 0.3),
    (300, 5.0, 0.01),
    (3, 1e3, 1e-3),
    (8, 2.0, 0.999),
    (2, 0.03, 1e-6),
]


@pytest.mark.parametrize(("order", "multiplier", "probability"), STEPS)
def test_the_divergence_of_a_step_at_whole_orders(order, multiplier, probability):
    """Under add-remove, by the binomial sum of Mironov, Talwar & Zhang in 60 digits."""
    with mpmath.workdps(60):
        q, z = mpmath.mpf(probability), mpmath.mpf(multiplier)
        terms = (
            mpmath.binomial(order, k) * (1 - q) ** (order - k) * q**k * mpmath.exp((k * k - k) / (2 * z**2))
            for k in range(order + 1)
        )
        wanted = float(mpmath.log(sum(terms)) / (order - 1))
    assert step_divergence(float(order), multiplier, probability, "add-remove") == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("order", "multiplier", "probability"), [(1.1, 1.0, 0.01), (2.5, 0.5, 0.7), (7.3, 1.0, 0.4), (16, 3.0, 0.99)]
)
def test_the_divergence_of_a_replacement_by_adaptive_quadrature(order, multiplier, probability):
    def integrand(x):
        up, down = (
            (1 - probability) * stats.norm.pdf(x, 0, multiplier) + probability * stats.norm.pdf(x, sign, multiplier)
            for sign in (1, -1)
        )
        return up * (up / down) ** (order - 1)

    ends = np.linspace(-12 * multiplier, 2 * order + 12 * multiplier, 30)
    wanted = sum(integrate.quad(integrand, *pair, epsrel=1e-12)[0] for pair in pairwise(ends))
    found = step_divergence(order, multiplier, probability, "replace-one")
    assert math.exp((order - 1) * found) == pytest.approx(wanted, rel=1e-9)


@given(multipliers, st.floats(-6, 0).map(lambda x: math.exp(x)))
def test_without_sampling_the_divergence_is_that_of_two_normals(multiplier, epsilon):
    order = 1 + 60 * epsilon
    near = math.nextafter(1.0, 0.0)
    for adjacency, distance in (("add-remove", 1.0), ("replace-one", 2.0)):
        exact = order * distance**2 / (2 * multiplier**2)
        assert step_divergence(order, multiplier, 1.0, adjacency) == pytest.approx(exact, rel=1e-15)
    assert step_divergence(order, multiplier, near, "add-remove") == pytest.approx(exact / 4, rel=1e-9)


@given(multipliers, counts, deltas)
@settings(max_examples=6)
def test_steps_on_all_records_are_one_gaussian(multiplier, steps, delta):
    """By the exact curve, with the doubled sensitivity under replace-one: never below, and next to it."""
    scale = multiplier / math.sqrt(steps)
    for adjacency, sensitivity in (("add-remove", 1.0), ("replace-one", 2.0)):
        found = epsilon(multiplier, 1.0, steps, delta, adjacency=adjacency)
        if found == 0.0:
            assert 2 * stats.norm.cdf(sensitivity / (2 * scale)) - 1 <= delta
        elif 1e-6 < found < 690:
            assert analytic_gaussian_delta(found, scale, sensitivity) <= delta
            least = max(found * (1 - 2e-3) - 1e-5, 1e-6)
            assert analytic_gaussian_delta(least, scale, sensitivity) > delta * (1 - 1e-6) or least == 1e-6
        assert epsilon(multiplier, 1.0, steps, delta, adjacency=adjacency, accountant="rdp") >= found * (1 - 1e-9)


@given(multipliers, probabilities, counts, deltas)
@settings(max_examples=12)
def test_replacing_costs_more_than_adding_by_renyi_divergences(multiplier, probability, steps, delta):
    added, replaced = (
        epsilon(multiplier, probability, steps, delta, adjacency=adjacency, accountant="rdp")
        for adjacency in ("add-remove", "replace-one")
    )
    assert added <= replaced * (1 + 1e-9)


@pytest.mark.parametrize("case", [*CASES, (3.0, 1.0, 20)], ids=str)
def test_replacing_costs_more_than_adding_and_no_more_than_both(case):
    """A replacement is a removal and an addition: twice epsilon, at (1 + e^epsilon) times delta."""
    added = epsilon(*case)
    assert added < epsilon(*case, adjacency="replace-one")
    assert epsilon(*case, (1 + math.exp(added)) * 1e-5, adjacency="replace-one") < 2 * added


def assert_monotone(multiplier, probability, steps, factor, slack, **options):
    """More noise, fewer steps, rarer draws and a larger delta cost no more, to the accuracy of the accountant."""
    here = epsilon(multiplier, probability, steps, **options) * (1 + slack) + slack * 1e-4
    assert epsilon(multiplier * factor, probability, steps, **options) <= here
    assert epsilon(multiplier, probability / factor, steps, **options) <= here
    assert epsilon(multiplier, probability, max(int(steps / factor), 1), **options) <= here
    assert epsilon(multiplier, probability, steps, 1e-5 * factor, **options) <= here


@given(multipliers, probabilities, counts, st.floats(1.01, 3), st.sampled_from(ADJACENCIES))
@settings(max_examples=10)
def test_epsilon_by_renyi_divergences_is_monotone(multiplier, probability, steps, factor, adjacency):
    assert_monotone(multiplier, probability, steps, factor, 1e-9, adjacency=adjacency, accountant="rdp")


@pytest.mark.parametrize("case", [CASES[1], CASES[3]], ids=str)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_epsilon_by_loss_distributions_is_monotone(case, adjacency):
    assert_monotone(*case, 1.05, 1e-3, adjacency=adjacency)


def divergence(q, gamma, first, second, scale):
    """The divergence of order gamma of (1-q) N(0) + q N(first) from the same with `second`, on a plane grid."""
    axis = np.linspace(-8, 8, 321)
    x, y = np.meshgrid(axis, axis)

    def density(centre):
        return stats.norm.pdf(x, centre[0], scale) * stats.norm.pdf(y, centre[1], scale)

    p, r = ((1 - q) * density((0, 0)) + q * density(centre) for centre in (first, second))
    return np.maximum(p - gamma * r, 0).sum() * (axis[1] - axis[0]) ** 2


@pytest.mark.parametrize("seed", range(6))
def test_opposite_contributions_of_full_norm_are_the_worst(seed):
    """The dominating pair of replace-one, against contributions in the plane with norms up to 1."""
    rng = np.random.default_rng(seed)
    q, scale, gamma = rng.uniform(0.05, 0.95), rng.uniform(0.6, 1.2), math.exp(rng.uniform(-0.5, 1))
    worst = divergence(q, gamma, (1, 0), (-1, 0), scale)
    for _ in range(12):
        first, second = (rng.uniform(0, 1) ** 0.3 * np.array([math.cos(a), math.sin(a)]) for a in rng.uniform(0, 7, 2))
        assert divergence(q, gamma, first, second, scale) <= worst + 1e-5


def assert_calibrated(budget, delta, probability, steps, **options):
    """The budget is kept, and by a ten-thousandth less noise it is not."""
    found = calibrate_noise_multiplier(budget, delta, probability, steps, **options)
    assert epsilon(found, probability, steps, delta, **options) <= budget
    if found > 0.03:
        assert epsilon(max(found * (1 - 1e-4), 0.03), probability, steps, delta, **options) > budget


budgets = st.floats(math.log(0.05), math.log(20)).map(math.exp)


@given(budgets, deltas, probabilities, counts, st.sampled_from(ADJACENCIES))
@settings(max_examples=5)
def test_calibration_by_renyi_divergences(budget, delta, probability, steps, adjacency):
    assert_calibrated(budget, delta, probability, steps, adjacency=adjacency, accountant="rdp")


@pytest.mark.parametrize(("budget", "case"), [(2.0, CASES[3]), (1.0, (0, 1.0, 10))])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_calibration_by_loss_distributions(budget, case, adjacency):
    assert_calibrated(budget, 1e-5, *case[1:], adjacency=adjacency)


@pytest.mark.parametrize(("adjacency", "sensitivity"), [("add-remove", 1.0), ("replace-one", 2.0)])
@pytest.mark.parametrize("budget", [0.1, 1.0, 10.0])
def test_one_step_on_all_records_is_the_analytic_calibration(budget, adjacency, sensitivity):
    exact = analytic_gaussian_scale(budget, 1e-5, sensitivity)
    assert exact <= calibrate_noise_multiplier(budget, 1e-5, 1.0, 1, adjacency=adjacency) <= exact * 1.002


def test_the_kind_of_guarantee():
    guarantee = subsampled_gaussian_guarantee(2.0, 0.5, 3, 1e-6, adjacency="replace-one", accountant="rdp")
    assert (guarantee.model, guarantee.adjacency, guarantee.delta) == ("central", "replace-one", 1e-6)


def test_much_noise_is_not_taken_for_perfect_privacy():
    """Rényi divergences of 1e-12 must not drown in rounding: quadratic in q/z, they are 1e-4 times the one at z/100."""
    small, large = (step_divergence(16.0, z, 1e-3, "add-remove") for z in (1e5, 1e3))
    assert small == pytest.approx(1e-4 * large, rel=1e-4)
    assert small > 0


GOOD = {"noise_multiplier": 1.0, "epsilon": 1.0, "sampling_probability": 0.1, "steps": 10, "delta": 1e-5}
BAD = [
    *[("noise_multiplier", value) for value in (0.0, -1.0, math.nan, math.inf, 0.029, "1", True, None)],
    *[("epsilon", value) for value in (0.0, -1.0, math.nan, math.inf, 701.0, "1", True, None)],
    *[("sampling_probability", value) for value in (0.0, -0.1, math.nan, 1.0000001, math.inf, "1", True, None)],
    *[("steps", value) for value in (0, -1, 1.5, math.nan, "1", True, None)],
    *[("delta", value) for value in (0.0, -1e-5, math.nan, 1.0, 1e-11, "1", True, None)],
    *[(name, value) for name in ("adjacency", "accountant") for value in ("", "replace", None, 1)],
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=str)
def test_bad_input_is_refused(name, value):
    for function, left_out in (
        (subsampled_gaussian_guarantee, "epsilon"),
        (calibrate_noise_multiplier, "noise_multiplier"),
    ):
        if name != left_out:
            arguments = {**GOOD, "adjacency": "add-remove", "accountant": "pld", name: value}
            del arguments[left_out]
            with pytest.raises((TypeError, ValueError), match=name):
                function(**arguments)


def test_the_adjacency_has_no_default():
    with pytest.raises(TypeError, match="adjacency"):
        subsampled_gaussian_guarantee(1.0, 0.1, 10, 1e-5)
    with pytest.raises(TypeError, match="adjacency"):
        calibrate_noise_multiplier(1.0, 1e-5, 0.1, 10)


@pytest.mark.parametrize(("steps", "delta"), [(10**6 + 1, 1e-5), (10**6, 5e-10)])
def test_more_steps_than_the_convolution_resolves_are_refused(steps, delta):
    with pytest.raises(ValueError, match=r'are too many for the convolution in float64.* Use accountant="rdp"'):
        epsilon(1.0, 0.1, steps, delta)
    assert epsilon(1.0, 0.1, steps, delta, accountant="rdp") > 0


def test_what_no_noise_can_keep_is_refused():
    with pytest.raises(PrivacyError, match=r"no noise multiplier up to 1e\+08 keeps epsilon=1e-06 at delta=1e-300"):
        calibrate_noise_multiplier(1e-6, 1e-300, 1.0, 10**9, adjacency="add-remove", accountant="rdp")


def test_the_missing_package_is_named(monkeypatch):
    def missing(module):
        raise ImportError(module)

    monkeypatch.setattr(importlib, "import_module", missing)
    for accountant in ACCOUNTANTS:
        with pytest.raises(MissingDependencyError, match=r'dp_accounting.* pip install "symdebias\[accounting\]"'):
            epsilon(1.0, 0.1, 10, accountant=accountant)


def test_nothing_is_logged_or_warned(caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epsilon(0.3, 0.5, 100, accountant="rdp")
        epsilon(1e8, 0.5, 10, accountant="rdp")
        epsilon(0.1, 0.01, 20)
    assert not caplog.records


def test_next_to_no_noise_over_many_steps_is_refused():
    pytest.importorskip("dp_accounting")
    with pytest.raises(PrivacyError, match="no finite epsilon"):
        subsampled_gaussian_guarantee(0.1, 1.0, 600_000, 1e-5, adjacency="replace-one")
