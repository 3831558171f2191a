import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from symdebias._domains import DELTA, EPSILON
from symdebias.privacy import (
    analytic_gaussian_delta,
    analytic_gaussian_scale,
    classical_gaussian_scale,
    keep_probability,
)

DELTAS = ("1e-3", "1e-5", "1e-10")
# Scales at sensitivity 1, by bisection in 60-digit arithmetic.
GOLDEN = {
    0.1: ("17.404396203031167", "30.74956613197745", "54.206295836901269"),
    0.5: ("4.6101279507281402", "7.0318266755824914", "11.436239995092029"),
    1.0: ("2.5746570186372061", "3.7306316348159418", "5.8677777496305264"),
    2.0: ("1.4452391609297835", "1.9938124456435367", "3.0257935440946646"),
    5.0: ("0.68984232700035757", "0.89186826495151803", "1.2807779778932222"),
    10.0: ("0.40605955802413852", "0.49988861970900851", "0.68304396722748118"),
    50.0: ("0.13412430797038182", "0.14976060756083602", "0.18029422294241373"),
}
CASES = [
    (epsilon, float(delta), value) for epsilon, row in GOLDEN.items() for delta, value in zip(DELTAS, row, strict=True)
]
budgets = st.floats(math.log(1e-6), math.log(700)).map(lambda x: min(max(math.exp(x), 1e-6), 700.0))
deltas = st.one_of(st.floats(-300, -0.01).map(lambda x: 10**x), st.floats(5e-324, 1 - 2**-53))


def exact_delta(epsilon, multiplier):
    """The curve from its definition, with 90 digits."""
    with mpmath.workdps(90):
        epsilon, multiplier = mpmath.mpf(epsilon), mpmath.mpf(multiplier)
        half, shift = 1 / (2 * multiplier), epsilon * multiplier
        return mpmath.ncdf(half - shift) - mpmath.exp(epsilon) * mpmath.ncdf(-half - shift)


@pytest.mark.parametrize(("epsilon", "delta", "golden"), CASES)
def test_golden_scales_are_met_from_above(epsilon, delta, golden):
    scale = analytic_gaussian_scale(epsilon, delta, 1.0)
    # The table is rounded to the nearest in its last digit.
    last_digit = Fraction(1, 10 ** len(golden.partition(".")[2]))
    excess = Fraction(scale) - Fraction(golden)
    assert -last_digit / 2 <= excess <= 2 * Fraction(math.ulp(scale))


@given(budgets, deltas)
def test_the_scale_is_the_least_float_that_keeps_delta(epsilon, delta):
    scale = analytic_gaussian_scale(epsilon, delta, 1.0)
    assert exact_delta(epsilon, scale) <= delta
    assert exact_delta(epsilon, math.nextafter(scale, 0.0)) > delta


@given(budgets, deltas, st.floats(-100, 100).map(lambda x: 10**x))
def test_the_scale_is_proportional_to_the_sensitivity(epsilon, delta, sensitivity):
    scale = analytic_gaussian_scale(epsilon, delta, sensitivity)
    # 90 digits hold products of floats exactly.
    with mpmath.workdps(90):
        assert exact_delta(epsilon, mpmath.mpf(scale) / mpmath.mpf(sensitivity)) <= delta
    assert scale == pytest.approx(analytic_gaussian_scale(epsilon, delta, 1.0) * sensitivity, rel=1e-15)


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 36.0, 700.0])
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 0.5, 1 - 2**-53])
def test_the_corners_of_the_domain_are_calibrated(epsilon, delta):
    scale = analytic_gaussian_scale(epsilon, delta, 1.0)
    assert exact_delta(epsilon, scale) <= delta < exact_delta(epsilon, math.nextafter(scale, 0.0))


def test_the_curve_is_the_largest_gap_between_neighbours():
    # delta(eps) = sup over events of P(A) - e^eps Q(A), attained where the density ratio exceeds e^eps.
    epsilon, scale = 0.7, 1.3
    first, second = stats.norm(1.0, scale), stats.norm(0.0, scale)
    grid = np.linspace(-20, 20, 400_001)
    gap = np.maximum(first.pdf(grid) - math.exp(epsilon) * second.pdf(grid), 0.0)
    assert analytic_gaussian_delta(epsilon, scale, 1.0) == pytest.approx(integrate.trapezoid(gap, grid), rel=1e-7)


@given(budgets, st.floats(-3, 3).map(lambda x: 10**x))
def test_delta_is_rounded_up_by_at_most_one_unit(epsilon, scale):
    delta, exact = analytic_gaussian_delta(epsilon, scale, 1.0), exact_delta(epsilon, scale)
    assert exact <= delta
    assert math.nextafter(delta, 0.0) < exact


def test_delta_at_the_ends_stays_a_probability():
    assert analytic_gaussian_delta(700.0, 1e120, 1e-100) == 5e-324
    assert analytic_gaussian_delta(1e-6, 1e-100, 2e100) == 1.0


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.1, 0.999])
def test_the_classical_scale_is_never_below_the_exact_one(epsilon, delta):
    scale = classical_gaussian_scale(epsilon, delta, 3.0)
    assert scale >= analytic_gaussian_scale(epsilon, delta, 3.0)
    with mpmath.workdps(60):
        exact = 3 * mpmath.sqrt(2 * mpmath.log(mpmath.mpf("1.25") / delta)) / mpmath.mpf(epsilon)
        assert math.nextafter(scale, 0.0) < exact <= scale


def test_the_classical_scale_would_break_its_promise_at_large_budgets():
    scale = math.sqrt(2 * math.log(1.25 / 1e-5)) / 8.42
    assert analytic_gaussian_delta(8.42, scale, 1.0) > 1e-5


@pytest.mark.parametrize("epsilon", [math.nextafter(1.0, 2.0), 2.0, 50.0])
def test_the_classical_calibration_is_refused_where_it_has_no_proof(epsilon):
    with pytest.raises(ValueError, match=r'exceeds 1, where .* no proof\. Use calibration="analytic"'):
        classical_gaussian_scale(epsilon, 1e-5, 1.0)


@given(budgets)
def test_the_odds_of_keeping_are_within_the_budget(epsilon):
    keep = keep_probability(epsilon)
    assert 0.5 < keep < 1.0
    assert (keep * 2**53).is_integer()
    with mpmath.workdps(400):
        exact = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        assert keep <= exact
        assert mpmath.mpf(keep) / (1 - mpmath.mpf(keep)) <= mpmath.exp(epsilon)
        assert keep == 1 - 2**-53 or keep + mpmath.mpf(2) ** -53 > exact


CALLS = {
    "analytic scale": (analytic_gaussian_scale, (1.0, 1e-5, 1.0), ("epsilon", "delta", "sensitivity")),
    "classical scale": (classical_gaussian_scale, (1.0, 1e-5, 1.0), ("epsilon", "delta", "sensitivity")),
    "analytic delta": (analytic_gaussian_delta, (1.0, 1.0, 1.0), ("epsilon", "scale", "sensitivity")),
    "keep": (keep_probability, (1.0,), ("epsilon",)),
}
OUTSIDE = {
    "epsilon": EPSILON.outside(),
    "delta": DELTA.outside(),
    "scale": (0.0, -1.0, math.nan, math.inf, "1", True, None, np.array(1.0)),
    "sensitivity": (0.0, -1.0, 1e101, math.nan, math.inf, "1", True, None, np.array(1.0)),
}


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [
        (name, position, value)
        for name, (_, _, arguments) in CALLS.items()
        for position, argument in enumerate(arguments)
        for value in OUTSIDE[argument]
    ],
    ids=str,
)
def test_arguments_outside_their_domain_are_refused(name, position, value):
    function, arguments, names = CALLS[name]
    changed = [*arguments[:position], value, *arguments[position + 1 :]]
    with pytest.raises((TypeError, ValueError), match=names[position]):
        function(*changed)
