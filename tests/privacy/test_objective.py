"""The curve of noise in an objective, against quadrature over the worst shift that a record can choose."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from scipy import integrate

from symdebias.exceptions import PrivacyError
from symdebias.privacy import (
    analytic_gaussian_delta,
    objective_noise_delta,
    objective_noise_epsilon,
    objective_noise_scale,
)

pytestmark = pytest.mark.newest

ONE_SIDED, TWO_SIDED, SKEWED = [(0.0, 1.0)], [(-1.0, 1.0)], [(-0.9, 0.1)]
ADJACENCIES = ["add-remove", "replace-one"]


def on_a_line(epsilon, scale, low, high):
    """E max(0, 1 - e^(epsilon - max A(d))) over d between two ends on a line, by quadrature with 30 digits."""
    with mp.workdps(30):
        down, up = mpmath.mpf(-low) / scale, mpmath.mpf(high) / scale

        def integrand(t):
            largest = max(mpmath.mpf(0), t * up + up**2 / 2, -t * down + down**2 / 2)
            return mpmath.npdf(t) * max(mpmath.mpf(0), 1 - mpmath.exp(epsilon - largest))

        kinks = {(down - up) / 2, mpmath.mpf(0)}
        kinks |= {sign * (epsilon / way - way / 2) for way, sign in ((up, 1), (down, -1)) if way}
        points = [-40, *sorted(point for point in kinks if abs(point) < 40), 40]
        return float(mpmath.quad(integrand, points))


def in_a_plane(epsilon, scale, first, second, angle):
    """E max(0, 1 - e^(epsilon - max A(d))) over all d = c x - c'x' with rows of norm 1 at an angle, by quadrature.

    The largest A is sought on a grid of c and c', not at the vertices alone.
    """
    c, k = np.meshgrid(np.linspace(*first, 3), np.linspace(*second, 3))
    shifts = np.stack([c - k * math.cos(angle), -k * math.sin(angle)], axis=-1).reshape(-1, 2) / scale
    half = 0.5 * (shifts**2).sum(axis=1)
    grid = np.linspace(-8, 8, 321)
    s, t = np.meshgrid(grid, grid)
    largest = np.max([s * v[0] + t * v[1] + h for v, h in zip(shifts, half, strict=True)], axis=0)
    weights = np.exp(-(s**2 + t**2) / 2) / (2 * math.pi) * (grid[1] - grid[0]) ** 2
    return float((weights * -np.minimum(np.expm1(epsilon - largest), 0)).sum())


@pytest.mark.in_turn
@pytest.mark.parametrize("slopes", [ONE_SIDED, TWO_SIDED, SKEWED, [(-0.3, 2.0)]], ids=str)
@pytest.mark.parametrize(("epsilon", "scale"), [(1.0, 4.0), (0.1, 1.0), (0.0, 0.5), (3.0, 0.4), (20.0, 0.2)])
def test_a_record_more_or_less_is_exact(slopes, epsilon, scale):
    found = objective_noise_delta(epsilon, scale, slopes, adjacency="add-remove")
    assert found == pytest.approx(on_a_line(epsilon, scale, *slopes[0]), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "scale"), [(1.0, 4.0), (2.0, 1.0), (0.0, 1.0), (4.0, 0.5)])
@pytest.mark.parametrize("kinds", [[(0.0, 1.0)], [(-1.0, 1.0)], [(-0.9, 0.1)], [(0.0, 1.0), (-0.5, 0.5)]], ids=str)
def test_an_exchanged_record_is_covered_at_every_angle(kinds, epsilon, scale):
    found = objective_noise_delta(epsilon, scale, kinds, adjacency="replace-one")
    worst = max(
        in_a_plane(epsilon, scale, first, second, angle)
        for first in kinds
        for second in kinds
        for angle in np.linspace(0, math.pi, 5)
    )
    # The grid's own error is some 1e-3.
    assert worst <= found * (1 + 2e-3)
    # A sum in place of a maximum: no more than that is lost, and little where delta is small.
    assert found <= 2.1 * worst


def test_the_bound_is_the_gaussian_mechanism_where_slopes_have_one_sign_and_budgets_are_small():
    for epsilon, scale in ((1.0, 4.0), (0.3, 10.0), (4.0, 1.2)):
        fixed = analytic_gaussian_delta(epsilon, scale, 1.0)
        assert objective_noise_delta(epsilon, scale, ONE_SIDED, adjacency="add-remove") == pytest.approx(
            fixed, rel=1e-12
        )
        assert objective_noise_delta(epsilon, scale, TWO_SIDED, adjacency="add-remove") == pytest.approx(
            2 * fixed, rel=1e-12
        )
        doubled = analytic_gaussian_delta(epsilon, 2 * scale, 2.0)
        exchanged = objective_noise_delta(epsilon, 2 * scale, ONE_SIDED, adjacency="replace-one")
        assert doubled < exchanged < 1.02 * doubled


def test_the_length_in_a_plane_has_rayleighs_law():
    """Where delta is large the bound by the length is the smaller one; with ranges that fill the disc it is reached."""
    epsilon, scale, s = 0.2, 1.0, 2.0
    by_quadrature, _ = integrate.quad(
        lambda r: r * math.exp(-r * r / 2) * max(0.0, 1 - math.exp(epsilon - r * s - s * s / 2)), 0, 12, epsabs=1e-13
    )
    assert objective_noise_delta(epsilon, scale, TWO_SIDED, adjacency="replace-one") == pytest.approx(
        by_quadrature, rel=1e-10
    )


@pytest.mark.in_turn
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("slopes", [ONE_SIDED, TWO_SIDED, [(0.0, 1e-3), (-2e-3, 1e-3)]], ids=str)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.0, 0.3), (200.0, 1e-9)])
def test_the_scale_is_the_least(epsilon, delta, slopes, adjacency):
    scale = objective_noise_scale(epsilon, delta, slopes, adjacency=adjacency)
    assert objective_noise_delta(epsilon, scale, slopes, adjacency=adjacency) <= delta
    assert objective_noise_delta(epsilon, math.nextafter(scale, 0), slopes, adjacency=adjacency) > delta
    again = objective_noise_epsilon(delta, scale, slopes, adjacency=adjacency)
    assert again == pytest.approx(epsilon, rel=1e-9, abs=1e-11)
    assert objective_noise_delta(again, scale, slopes, adjacency=adjacency) <= delta


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_shifts_beyond_all_bounds(adjacency):
    assert objective_noise_delta(1.0, 1e-100, [(-1.0, 1.0)], adjacency=adjacency) == 1.0
    assert objective_noise_delta(1.0, 1e100, [(-1e-100, 1e-100)], adjacency=adjacency) < 1e-300
    one = objective_noise_delta(1.0, 4.0, [(0.0, 1.0)], adjacency=adjacency)
    assert objective_noise_delta(1.0, 4.0, [(-1e-310, 1.0)], adjacency=adjacency) == pytest.approx(one, rel=1e-12)


def test_golden_scales():
    """The first is the Gaussian mechanism's, by Balle & Wang; the second solves on_a_line(...) = 1e-5."""
    assert objective_noise_scale(1.0, 1e-5, ONE_SIDED, adjacency="add-remove") == 3.730631634815942
    scale = objective_noise_scale(1.0, 1e-5, TWO_SIDED, adjacency="add-remove")
    assert on_a_line(1.0, scale, -1, 1) == pytest.approx(1e-5, rel=1e-9)
    assert analytic_gaussian_delta(1.0, scale, 1.0) == pytest.approx(5e-6, rel=1e-9)


@given(
    epsilon=st.floats(0, 5),
    scale=st.floats(0.2, 20),
    low=st.floats(-2, 0),
    high=st.floats(0.01, 2),
    adjacency=st.sampled_from(ADJACENCIES),
)
@settings(max_examples=20)
def test_wider_slopes_less_noise_and_a_smaller_epsilon_cost_more(epsilon, scale, low, high, adjacency):
    at = objective_noise_delta(epsilon, scale, [(low, high)], adjacency=adjacency)
    assert at <= objective_noise_delta(epsilon, scale, [(1.1 * low - 0.01, 1.1 * high)], adjacency=adjacency)
    assert at <= objective_noise_delta(epsilon, scale / 1.1, [(low, high)], adjacency=adjacency)
    assert at <= objective_noise_delta(epsilon / 1.1, scale, [(low, high)], adjacency=adjacency)
    assert at <= objective_noise_delta(epsilon, scale, [(low, high), (-0.1, 0.1)], adjacency=adjacency)
    # An exchanged record is a removed and an added one, and more.
    if adjacency == "add-remove":
        assert at <= objective_noise_delta(epsilon, scale, [(low, high)], adjacency="replace-one") * (1 + 1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 701.0}, "epsilon"),
        ({"scale": 0.0}, "scale"),
        ({"scale": math.nan}, "scale"),
        ({"slopes": []}, "no pairs"),
        ({"slopes": [(0.5, 1.0)]}, "leave out 0"),
        ({"slopes": [(math.nan, 1.0)]}, "leave out 0"),
        ({"slopes": [(0.0, 0.0)]}, "the largest slope"),
        ({"slopes": [(0.0, math.inf)]}, "the largest slope"),
        ({"adjacency": "swap"}, "adjacency='swap'"),
    ],
)
def test_what_is_refused(change, message):
    arguments = {"epsilon": 1.0, "scale": 1.0, "slopes": ONE_SIDED, "adjacency": "add-remove"} | change
    with pytest.raises(ValueError, match=message):
        objective_noise_delta(**arguments)


def test_too_little_noise_has_no_epsilon():
    with pytest.raises(PrivacyError, match="no epsilon up to 700"):
        objective_noise_epsilon(1e-5, 1e-3, ONE_SIDED, adjacency="add-remove")
