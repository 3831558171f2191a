import math

import mpmath
import numba
import numpy as np
import pytest
from scipy import special

from symdebias.codegen import elementary

GRID = np.concatenate([np.linspace(-40, 40, 1601), np.linspace(-708, 709.7, 401), [0.0, -0.0, 1e-300]])


def test_exp_to_one_and_a_half_ulp():
    compiled = numba.njit(elementary.exp)
    for x in GRID:
        assert compiled(x) == pytest.approx(math.exp(x), rel=3.4e-16)


@pytest.mark.parametrize(
    ("x", "value"), [(math.inf, math.inf), (-math.inf, 0.0), (710.0, math.inf), (1e300, math.inf), (-800.0, 0.0)]
)
def test_exp_at_the_ends(x, value):
    assert numba.njit(elementary.exp)(x) == value


def test_exp_down_to_its_last_normal_result():
    """By multiples of the last place of x, which move e^x by 1e-13: the exponents -1021 and -1022 are in it."""
    compiled = numba.njit(elementary.exp)
    last = -708.3964185322641
    for x in np.concatenate([np.linspace(last, -707.3, 400), last + 1.2e-13 * np.arange(20)]):
        found = compiled(x)
        assert found >= 2.2250738585072014e-308
        assert abs(mpmath.mpf(found) / mpmath.exp(mpmath.mpf(float(x))) - 1) < 3.4e-16
    assert compiled(np.nextafter(last, -np.inf)) == 0.0


POSITIVE = np.concatenate(
    [
        np.geomspace(5e-324, 1.7e308, 801),
        np.linspace(0.5, 2.0, 401),
        [1 + 2**-52, 1 - 2**-53, math.sqrt(2), math.sqrt(0.5), 2.2250738585072014e-308],
    ]
)


def off(found, exact):
    """The relative error of a number, in 60 digits."""
    with mpmath.workdps(60):
        return float(abs(mpmath.mpf(float(found)) - exact) / max(abs(exact), mpmath.mpf(2) ** -1060))


def test_log_to_one_ulp():
    """Of 1 it is 0, beside 1 it keeps all digits, and below the least normal number as well."""
    compiled = numba.njit(elementary.log)
    for x in POSITIVE:
        with mpmath.workdps(60):
            assert off(compiled(x), mpmath.log(mpmath.mpf(x))) < 2.3e-16
    assert compiled(1.0) == 0.0


@pytest.mark.parametrize(
    ("x", "value"), [(0.0, -math.inf), (-0.0, -math.inf), (math.inf, math.inf), (-1.0, math.nan), (-math.inf, math.nan)]
)
@np.errstate(all="ignore")
def test_log_at_the_ends(x, value):
    for log in (elementary.log, numba.njit(elementary.log)):
        np.testing.assert_equal(float(log(x)), value)


def test_inverse_hyperbolic_tangents_near_zero():
    compiled = numba.njit(elementary.small_artanh)
    for s in np.concatenate([np.linspace(-1 / 3, 1 / 3, 401), np.geomspace(1e-300, 0.3, 101)]):
        with mpmath.workdps(60):
            assert off(compiled(s), mpmath.atanh(mpmath.mpf(s))) < 4.5e-16


def test_hazards_of_the_normal_law():
    compiled = numba.njit(elementary.tail_excess)
    for a in np.concatenate([np.linspace(0, 30, 601), np.geomspace(1e-12, 1e3, 101)]):
        with mpmath.workdps(60):
            x = mpmath.mpf(a)
            # Far out the difference of hazard and score is told by its expansion.
            exact = mpmath.npdf(x) / (mpmath.erfc(x / mpmath.sqrt(2)) / 2) - x if a < 30 else None
            if exact is None:
                exact = mpmath.mpf(0)
                for k in range(200, 0, -1):
                    exact = k / (x + exact)
            assert off(compiled(a), exact) < 1e-15
    assert compiled(math.inf) == 0.0


@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "sign",
        "log",
        "softplus",
        "small_artanh",
        "tail_excess",
        "mills_excess",
        "inverse_mills",
        "log_normal_cdf",
    ],
)
@np.errstate(all="ignore")
def test_nan_stays_nan(name):
    assert math.isnan(getattr(elementary, name)(math.nan))


@pytest.mark.parametrize("name", ["exp", "log"])
def test_compiled_nan_stays_nan(name):
    assert math.isnan(numba.njit(getattr(elementary, name))(math.nan))


@np.errstate(all="ignore")
def test_plain_python_is_the_twin_of_the_compiled_function():
    for name, grid in (("exp", GRID), ("log", POSITIVE), ("small_artanh", np.linspace(-0.3, 0.3, 70))):
        function = getattr(elementary, name)
        compiled = numba.njit(function)
        for x in grid[::7]:
            assert function(x) == compiled(x)


@pytest.mark.parametrize(("name", "oracle"), [("expit", special.expit), ("softplus", lambda x: np.logaddexp(0, x))])
@np.errstate(all="ignore")
def test_against_scipy(name, oracle):
    for x in GRID:
        assert getattr(elementary, name)(x) == pytest.approx(float(oracle(x)), rel=1e-14, abs=1e-307)


def test_steps():
    assert [elementary.sign(x) for x in (-2.0, 0.0, 3.0)] == [-1.0, 0.0, 1.0]
    assert [elementary.step(x) for x in (-2.0, 0.0, 3.0)] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("x", [-4.0, -1.1, -1e-9, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("y", [-5.0, -0.7, 0.0, 1e-9, 1.3, 4.0])
def test_complex_error_function_against_scipy(x, y):
    value = complex(elementary.erf_real(x, y), elementary.erf_imag(x, y))
    oracle = special.erf(x + 1j * y)
    assert abs(value - oracle) <= 2e-14 * max(1.0, abs(oracle))


ANGLES = np.concatenate(
    [np.linspace(-50, 50, 4001), np.pi / 4 * np.arange(-60, 61), [0.0, 1e-300, 1e5 + 0.3, -7e6 - 0.2]]
)


QUARTERS = {"sin": 0.0, "cos": 1.0}


def compiled_wave(name):
    wave = numba.njit(elementary.wave)
    return lambda x: wave(x, QUARTERS[name])


@pytest.mark.parametrize(("name", "oracle"), [("sin", np.sin), ("cos", np.cos)])
def test_sine_and_cosine(name, oracle):
    compiled = compiled_wave(name)
    for x in ANGLES:
        assert compiled(x) == pytest.approx(float(oracle(x)), rel=4e-16, abs=2.5e-16)
        assert abs(elementary.wave(x, QUARTERS[name]) - compiled(x)) <= 2.5e-16


@pytest.mark.parametrize("name", ["sin", "cos"])
@np.errstate(all="ignore")
def test_waves_far_out_stay_bounded_and_infinity_is_no_number(name):
    compiled = compiled_wave(name)
    assert all(abs(compiled(x)) <= 1.1 for x in (1e9, 1e12, -1e15, 1e18, 1e300))
    assert all(math.isnan(compiled(x)) for x in (math.inf, -math.inf, math.nan))


@pytest.mark.parametrize("degree", [9, 45, 59, 120])
def test_hermite_polynomials_lose_no_digits_of_the_values_nearby(degree):
    """Written out, that of degree 45 is off by 3e-7 of its largest values nearby."""
    scores = np.linspace(-12, 12, 97)
    found = np.array([elementary.heat_power(degree, w, 0.81) for w in scores])
    with mpmath.workdps(80):
        exact = [
            mpmath.mpf(0.81) ** (mpmath.mpf(degree) / 2)
            * mpmath.hermite(degree, mpmath.mpf(w) / mpmath.sqrt(2 * mpmath.mpf(0.81)))
            / mpmath.mpf(2) ** (mpmath.mpf(degree) / 2)
            for w in scores
        ]
        errors = np.array([float(abs(a - b)) for a, b in zip(found, exact, strict=True)])
        sizes = np.array([float(abs(value)) for value in exact])
    nearby = np.max(np.lib.stride_tricks.sliding_window_view(np.pad(sizes, 2, mode="edge"), 5), axis=1)
    assert np.max(errors / nearby) < 1e-12
