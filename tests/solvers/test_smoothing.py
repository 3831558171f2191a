import dataclasses
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import symdebias as sd
from symdebias.codegen import smoothing
from symdebias.codegen.cache import compile_kernel
from symdebias.solvers import smoothing_beta, smoothing_gamma
from symdebias.solvers.smoothing import SIGMA, _coefficients

SIGMAS = [5e-324, 1e-12, 1e-3, 0.5, 1.0, 3.0, 100.0, 1e4]
# Around the number of segments, around where segments are shortened, primes and powers of two up to a million.
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 64, 101, 128, 1000, 1009, 4096, 10_007, 16_391, 2**15, 10**5]
LARGE = [2**17, 216_091, 10**6, 2**20]
sigmas = st.one_of(st.just(0.0), st.floats(-12, 8).map(lambda x: 10**x))


def spectrum(d, sigma):
    """1 - sigma times the transform of [-2, 1, 0, ..., 1], in the form that does not cancel."""
    return 1 + 4 * sigma * np.sin(np.pi * np.arange(d) / d) ** 2


def by_fourier(v, sigma):
    return np.fft.ifft(np.fft.fft(v) / spectrum(len(v), sigma)).real


def matrix(d, sigma):
    """I - sigma L from its definition."""
    forward = np.roll(np.eye(d), 1, axis=1)
    return np.eye(d) - sigma * (forward - 2 * np.eye(d) + forward.T)


def vector(d):
    return 0.3 + np.random.default_rng(d).normal(size=d)


def relative(found, wanted):
    return abs(found - wanted).max() / abs(wanted).max()


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_recursion_is_the_fourier_formula(sigma):
    for d in SIZES:
        v = vector(d)
        assert relative(sd.laplacian_smoothing(v, sigma), by_fourier(v, sigma)) < 1e-13, d


@pytest.mark.parametrize("d", LARGE)
@pytest.mark.parametrize("sigma", [3.0, 1e4])
def test_so_it_is_of_long_vectors(d, sigma):
    v = vector(d)
    assert relative(sd.laplacian_smoothing(v, sigma), by_fourier(v, sigma)) < 1e-13


@pytest.mark.parametrize(("sigma", "bound"), [(1e8, 1e-12), (1e12, 1e-10)])
def test_at_very_large_sigma_the_error_is_below_its_root_times_rounding(sigma, bound):
    for d in [*SIZES, *LARGE]:
        v = vector(d)
        assert relative(sd.laplacian_smoothing(v, sigma), by_fourier(v, sigma)) < bound, d


@pytest.mark.in_turn
@given(st.integers(1, 40), sigmas, st.integers(0, 2**32 - 1))
def test_it_solves_the_equations(d, sigma, seed):
    v = np.random.default_rng(seed).normal(size=d)
    x = sd.laplacian_smoothing(v, sigma)
    assert abs(matrix(d, sigma) @ x - v).max() < 1e-14 * (1 + 4 * sigma) + 1e-14


def test_exact_small_solutions():
    """Solved by hand: with d = 2 the second difference is [-2, 2], so that the difference is divided by 1 + 4 sigma."""
    mean, half = 2.0, 1.0
    sigma = 3.0
    found = sd.laplacian_smoothing([mean + half, mean - half], sigma)
    np.testing.assert_allclose(found, [mean + half / 13, mean - half / 13], rtol=1e-15)
    v = [5.0]
    assert sd.laplacian_smoothing(v, 1e12) == v


@pytest.mark.parametrize("sigma", [0.5, 3.0, 300.0])
@pytest.mark.parametrize("d", [2, 9, 23])
def test_the_recursion_in_many_digits(d, sigma):
    """Against a linear solver with 40 digits, the entries of which are as given."""
    v = vector(d)
    with mpmath.workdps(40):
        wanted = mpmath.lu_solve(mpmath.matrix(matrix(d, sigma).tolist()), mpmath.matrix(v.tolist()))
        wanted = np.array([float(value) for value in wanted])
    np.testing.assert_allclose(sd.laplacian_smoothing(v, sigma), wanted, rtol=0, atol=4e-15 * abs(v).max())


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
def test_sigma_zero_is_the_identity(shape):
    v = np.random.default_rng(0).normal(size=shape)
    found = sd.laplacian_smoothing(v, 0.0)
    np.testing.assert_array_equal(found, v)
    assert not np.shares_memory(found, v)


@given(st.integers(1, 300), sigmas, st.integers(0, 2**32 - 1))
def test_the_mean_stays_and_the_range_shrinks(d, sigma, seed):
    """The kernel is a probability distribution: the maximum principle, and the mean is kept."""
    v = np.random.default_rng(seed).normal(size=d)
    x = sd.laplacian_smoothing(v, sigma)
    assert x.mean() == pytest.approx(v.mean(), abs=1e-12)
    assert v.min() - 1e-12 <= x.min() <= x.max() <= v.max() + 1e-12


@given(st.integers(2, 200), st.integers(0, 199), sigmas)
def test_it_commutes_with_shifts_and_reversal(d, shift, sigma):
    v = vector(d)
    x = sd.laplacian_smoothing(v, sigma)
    np.testing.assert_allclose(sd.laplacian_smoothing(np.roll(v, shift), sigma), np.roll(x, shift), atol=1e-12)
    np.testing.assert_allclose(sd.laplacian_smoothing(v[::-1], sigma), x[::-1], atol=1e-12)


def test_flat_takes_the_entries_in_c_order():
    v = vector(24).reshape(2, 3, 4)
    wanted = by_fourier(v.ravel(), 3.0).reshape(v.shape)
    np.testing.assert_allclose(sd.laplacian_smoothing(v), wanted, atol=1e-14)
    np.testing.assert_allclose(sd.laplacian_smoothing(np.asfortranarray(v)), wanted, atol=1e-14)


def test_rows_are_smoothed_by_themselves():
    v = vector(60).reshape(3, 20)
    wanted = np.stack([by_fourier(row, 3.0) for row in v])
    np.testing.assert_allclose(sd.laplacian_smoothing(v, mode="rows"), wanted, atol=1e-14)


@pytest.mark.parametrize("shape", [(6, 11), (11, 1), (1, 11), (1, 1)])
def test_two_dimensions_are_the_product_of_one_by_one(shape):
    v, sigma = vector(math.prod(shape)).reshape(shape), 3.0
    wanted = np.linalg.solve(matrix(shape[0], sigma), v) @ np.linalg.inv(matrix(shape[1], sigma)).T
    found = sd.laplacian_smoothing(v, sigma, mode="2d")
    np.testing.assert_allclose(found, wanted, atol=1e-14)
    assert found.flags.c_contiguous


V = np.arange(1.0, 25.0)


@pytest.mark.parametrize(
    "given_as",
    [
        V.astype(np.float32),
        V.astype(np.int8),
        V.astype(np.uint64),
        V.astype(">f8"),
        list(V),
        np.repeat(V, 3)[::3],
        V[::-1][::-1],
        np.broadcast_to(V, (4, 24))[2],
        np.frombuffer(V.tobytes(), dtype=float),
    ],
    ids=["float32", "int8", "uint64", "big endian", "list", "strided", "twice reversed", "broadcast", "read-only"],
)
def test_every_layout_gives_the_same(given_as):
    before = np.array(given_as)
    found = sd.laplacian_smoothing(given_as, 3.0)
    np.testing.assert_array_equal(found, sd.laplacian_smoothing(V, 3.0))
    np.testing.assert_array_equal(np.asarray(given_as), before)
    assert found.dtype == np.float64


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("sigma", [0.0, 5e-324, 3.0, 1e12])
@pytest.mark.parametrize("mode", ["flat", "rows", "2d"])
def test_what_is_not_finite_is_found_wherever_it_stands(value, sigma, mode):
    for place in range(20):
        v = np.zeros((20, 1)) if place % 2 else np.zeros((1, 20))
        v.flat[place] = value
        with pytest.raises(ValueError, match=r"v has (NaN|infinity) in row \d+, column \d+\."):
            sd.laplacian_smoothing(v, sigma, mode=mode)
    with pytest.raises(ValueError, match=r"v has NaN in entry 2\."):
        sd.laplacian_smoothing([0.0, 1.0, math.nan], sigma)


def test_the_largest_floats_are_taken():
    v = np.full(64, 1.7e308)
    np.testing.assert_allclose(sd.laplacian_smoothing(v, 3.0), v, rtol=1e-14)


@pytest.mark.parametrize("sigma", SIGMA.outside(), ids=repr)
@pytest.mark.parametrize(
    "function", [lambda sigma: sd.laplacian_smoothing([1.0], sigma), lambda sigma: smoothing_gamma(5, sigma),
                 lambda sigma: smoothing_beta(5, sigma)], ids=["smoothing", "gamma", "beta"]
)  # fmt: skip
def test_sigma_outside_its_range_is_refused(function, sigma):
    with pytest.raises((TypeError, ValueError), match="sigma"):
        function(sigma)


@pytest.mark.parametrize(
    ("v", "options", "message"),
    [
        ([], {}, r"v has the shape \(0,\)\. Pass an array with at least one entry\."),
        (1.0, {}, r"v has the shape \(\)\."),
        (np.float64(1.0), {}, r"v has the shape \(\)\."),
        (["a"], {}, "v must hold real numbers"),
        ([True], {}, "v must hold real numbers"),
        ([1j], {}, "v must hold real numbers"),
        ([[1.0], [1.0, 2.0]], {}, "rows of different lengths"),
        ([1.0], {"mode": "rows"}, 'mode="rows" smooths a matrix; v has 1 dimensions'),
        (np.ones((2, 2, 2)), {"mode": "2d"}, 'mode="2d" smooths a matrix; v has 3 dimensions'),
        ([1.0], {"mode": "columns"}, "mode='columns' is not known. Choose one of flat, rows, 2d."),
    ],
)
def test_bad_input_is_refused(v, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.laplacian_smoothing(v, **options)


@pytest.mark.parametrize("d", [0, -1, 1.5, True, math.nan])
@pytest.mark.parametrize("function", [smoothing_gamma, smoothing_beta])
def test_a_number_of_coordinates_below_one_is_refused(function, d):
    with pytest.raises((TypeError, ValueError), match="d"):
        function(d, 3.0)


@pytest.mark.parametrize(
    ("sigma", "gamma", "beta"), [(1, 0.447, 0.268), (2, 0.333, 0.185), (3, 0.277, 0.149), (4, 0.243, 0.128),
                                 (5, 0.218, 0.114)]
)  # fmt: skip
def test_golden_shares_of_the_noise(sigma, gamma, beta):
    assert round(smoothing_gamma(1000, sigma), 3) == gamma
    assert round(smoothing_beta(1000, sigma), 3) == beta


@pytest.mark.parametrize("sigma", [0.0, *SIGMAS, 1e8, 1e12])
@pytest.mark.parametrize("d", [1, 2, 3, 10, 1000, 99_991])
def test_closed_forms_are_means_over_the_spectrum(d, sigma):
    values = 1 / spectrum(d, sigma)
    assert smoothing_gamma(d, sigma) == pytest.approx(math.fsum(values) / d, rel=1e-12)
    assert smoothing_beta(d, sigma) == pytest.approx(math.fsum(values**2) / d, rel=1e-12)


@given(st.integers(1, 10**12), sigmas, st.floats(1.0, 10.0))
def test_more_smoothing_leaves_less_noise(d, sigma, factor):
    rounding = 1 + 1e-14
    for share in (smoothing_gamma, smoothing_beta):
        assert share(d, sigma * factor) <= share(d, sigma) * rounding
        assert 1 / d <= share(d, sigma) * rounding
        assert share(d, sigma) <= rounding
    assert smoothing_gamma(d, sigma) ** 2 <= smoothing_beta(d, sigma) * rounding
    assert smoothing_beta(d, sigma) <= smoothing_gamma(d, sigma) * rounding


def test_the_share_of_the_variance_is_that_of_the_operator():
    """beta is the mean square of the columns of the inverse, that is of its first column times d."""
    unit = np.zeros(50)
    unit[0] = 1.0
    column = sd.laplacian_smoothing(unit, 3.0)
    assert column @ column == pytest.approx(smoothing_beta(50, 3.0), rel=1e-14)
    assert column[0] == pytest.approx(smoothing_gamma(50, 3.0), rel=1e-14)


@pytest.mark.parametrize("d", [2, 7, 8, 20, 203])
def test_plain_python_is_the_twin_of_the_kernel(d):
    """The one rounds between multiply and add, the other does not."""
    lines = vector(2 * d).reshape(2, d)
    found, wanted = np.empty_like(lines), np.empty_like(lines)
    arguments = _coefficients(3.0)[:3]
    total = smoothing.smoothing_kernel()(lines, *arguments, found)
    assert total == pytest.approx(smoothing.kernel(lines, *arguments, wanted), abs=1e-14)
    np.testing.assert_allclose(found, wanted, atol=1e-14)


def test_the_kernel_is_compiled_once_and_cached(tmp_path, monkeypatch):
    assert len(smoothing.smoothing_kernel().signatures) == 1
    monkeypatch.setenv("SYMDEBIAS_CACHE", str(tmp_path / "cache"))
    source = smoothing.smoothing_source()
    other = dataclasses.replace(source, text=source.text + "\n")
    fresh = compile_kernel(other)
    assert not fresh.stats.cache_hits
    assert other.probe(fresh) == source.probe(smoothing.smoothing_kernel())
    # Entries are found by what they say, so that this one stands beside its twin.
    assert (tmp_path / "cache" / other.key).is_dir()
