"""Noise that is rounded exactly: the law, the exactness of the rounding, the grid, and what released values tell."""

import functools
import math
import os
from dataclasses import replace
from fractions import Fraction

import children
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gammainc

import symdebias as sd
from symdebias.mechanisms import rounded, sampling, word_bits
from symdebias.mechanisms.ranges import Ball, Numbers
from symdebias.privacy import precise

FINE = 1.3 * 2.0**20


def hardened(seed):
    return sampling.source(seed, "hardened")


# ---- the law --------------------------------------------------------------------------------------------------------


@pytest.mark.in_turn
@pytest.mark.parametrize("dimension", [2, 3, 7])
def test_the_law_of_spherical_noise(dimension):
    """Norms have a gamma law, directions no preference: false-alarm rate 1e-6 each; norms off by 3% are seen."""
    drawn = rounded.radial(FINE, 200_000, dimension, dimension, hardened(3)) / FINE
    norms = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(norms, functools.partial(gammainc, dimension)).pvalue > 1e-6
    assert stats.kstest(1.03 * norms, functools.partial(gammainc, dimension)).pvalue < 1e-6
    unit = drawn / norms[:, None]
    share = stats.beta(dimension / 2 - 0.5, 0.5) if dimension > 1 else None
    for coordinate in unit.T:
        assert stats.kstest(1 - coordinate**2, share.cdf).pvalue > 1e-6
        assert abs(np.mean(coordinate > 0) - 0.5) < 5 * 0.5 / math.sqrt(len(unit))
    products = unit.T @ unit / len(unit) - np.eye(dimension) / dimension
    assert np.abs(products).max() < 6 / math.sqrt(len(unit)) / dimension


# ---- exactly rounded ------------------------------------------------------------------------------------------------


class TwoStreams(sampling.Source):
    """A seeded source whose bits for completing words are a stream of their own."""

    def __init__(self):
        super().__init__(np.random.default_rng(5), seeded=True, hardened=True)
        object.__setattr__(self, "completing", np.random.default_rng(6))

    def words(self, count):
        generator = self.completing if count == word_bits.MORE else self.generator
        return generator.integers(-(2**63), 2**63 - 1, size=count, dtype=np.int64, endpoint=True)


@pytest.mark.parametrize(
    "draw",
    [
        functools.partial(rounded.laplace, FINE, (600,)),
        functools.partial(rounded.normal, FINE, (601,)),
        functools.partial(rounded.discrete_laplace, 3.5, (600,)),
        functools.partial(rounded.discrete_staircase, 0.5, 7, 3, (600,)),
        functools.partial(rounded.staircase, 1.0, 0.4, FINE, (600,)),
        functools.partial(rounded.radial, FINE, 150, 3, 3),
        functools.partial(rounded.radial, FINE, 150, 4, 2),
    ],
    ids=["Laplace", "normal", "discrete Laplace", "discrete staircase", "staircase", "radial, odd", "radial, even"],
)
def test_what_many_digits_give_is_what_float64_gives(draw, monkeypatch):
    """Where float64 is sure, 70 digits and any further bits give the same integers."""
    fast = draw(TwoStreams())
    monkeypatch.setattr(rounded, "_FEW", 2**63)
    monkeypatch.setattr(rounded, "_ROUNDING", 1.0)
    assert np.array_equal(fast, draw(TwoStreams()))


class Words(sampling.Source):
    """A source of given words, and of ones after them."""

    def __init__(self, *words):
        super().__init__(np.random.default_rng(0), seeded=True, hardened=True)
        object.__setattr__(self, "left", list(words))

    def words(self, count):
        taken = [self.left.pop(0) if self.left else -1 for _ in range(count)]
        return np.array(taken, dtype=np.uint64).view(np.int64) if min(taken) >= 0 else np.array(taken, dtype=np.int64)


def test_a_word_of_few_bits_is_completed():
    """The word is 5 of 2^63, the next bits ones: u = 6 2^-63, up to 2^-255."""
    mp = precise.context()
    exact = -FINE * mp.log(mp.ldexp(6, -63))
    assert rounded.laplace(FINE, (1,), Words(5)).tolist() == [int(mp.nint(exact))]


def test_leading_zeros_are_no_bits():
    """After a word of zeros and 128 more of them the search goes on: no draw is infinite."""
    mp = precise.context()
    exact = -FINE * mp.log(mp.ldexp(1, -63 - 128))
    assert rounded.laplace(FINE, (1,), Words(0, 0, 0)).tolist() == [int(mp.nint(exact))]


def test_a_value_between_two_integers_is_decided_by_more_bits():
    """u is where scale * -log u = 1000.5, so that float64 cannot tell; what follows the word does."""
    mp = precise.context()
    scale = 2.0**20
    place = int(mp.floor(mp.exp(-mp.mpf(1000.5) / mp.mpf(scale)) * mp.ldexp(1, 63)))
    found = {rounded.laplace(scale, (1,), Words(place, *tail)).item() for tail in ((0, 0, 0), (-1, -1, -1))}
    assert found == {1000, 1001}


@pytest.mark.parametrize(
    "draw",
    [
        *(functools.partial(rounded.discrete_laplace, scale, (5_000,)) for scale in (0.2, 3.5, 1e5)),
        functools.partial(rounded.discrete_staircase, 0.5, 7, 3, (5_000,)),
        functools.partial(rounded.discrete_staircase, 3.0, 20, 9, (5_000,)),
        functools.partial(rounded.staircase, 1.0, 0.4, FINE, (5_000,)),
    ],
    ids=["of few steps", "of steps", "of many steps", "staircase", "steep staircase", "real staircase"],
)
def test_kernels_of_many_numbers_take_the_same_words_for_the_same_integers(draw):
    by_numpy, by_kernel = (replace(hardened(3), many=many) for many in (False, True))
    assert np.array_equal(draw(by_numpy), draw(by_kernel))
    assert np.array_equal(by_numpy.words(3), by_kernel.words(3))


def following_ones(mp, word):
    """The number of a word, not 0, with ones after it, of 192 bits."""
    return mp.ldexp(mp.mpf(2 * (((word & (2**63 - 1)) << 192) + 2**192 - 1) + 1), -256)


def beside(mp, exponential):
    """Words whose -log u lie on both sides of a number."""
    place = int(mp.floor(mp.exp(-exponential) * mp.ldexp(1, 63)))
    return [min(max(place + off, 1), 2**63 - 1) for off in (-1, 0, 1)]


def many_words(words, by_kernel):
    """A source of words, of which kernels draw as for many numbers."""
    source = Words(*words)
    object.__setattr__(source, "many", by_kernel)
    return source


@pytest.mark.parametrize("by_kernel", [False, True], ids=["NumPy", "kernel"])
@pytest.mark.parametrize("scale", [1.0, 3.7, 1.37 * FINE, 1.1 * 2.0**33])
def test_numbers_beside_the_edges_of_their_rounding(scale, by_kernel):
    """Words next to where an integer ends, against 70 digits of the definition: no doubt is overlooked.

    Above 2^33 steps float64 tells nothing for sure. One integer that is off would fail.
    """
    mp, rng = precise.context(), np.random.default_rng(8)
    halves = [mp.mpf(int(size * scale)) + mp.mpf(0.5) for size in rng.exponential(size=20)]
    words = [word for half in halves for word in beside(mp, half / scale)]
    exact = [int(mp.nint(-scale * mp.log(following_ones(mp, word)))) for word in words]
    assert rounded.laplace(scale, (len(words),), many_words(words, by_kernel)).tolist() == exact
    # The first coordinate of a pair whose turn is a sixth of a circle: cos(pi/3) = 1/2, but for the last bits.
    turn = 2**63 // 3
    angle = mp.pi * mp.ldexp(mp.mpf(2 * ((turn << 192) + 2**192 - 1) + 1), -256)
    lengths = [word for half in halves for word in beside(mp, (half / (scale * mp.cos(angle))) ** 2 / 2)]
    radii = [scale * mp.sqrt(-2 * mp.log(following_ones(mp, word))) for word in lengths]
    exact = [int(mp.nint(radius * of(angle))) for of in (mp.cos, mp.sin) for radius in radii]
    source = many_words([*lengths, *[turn] * len(lengths)], by_kernel)
    assert rounded.normal(scale, (2 * len(lengths),), source).tolist() == exact


@pytest.mark.parametrize("by_kernel", [False, True], ids=["NumPy", "kernel"])
@pytest.mark.parametrize("scale", [10 / 3, 1e6, 2.0**32])
def test_whole_parts_beside_whole_numbers(scale, by_kernel):
    """As above, for discrete Laplace noise. Words of ones, whose whole part is 0, are what is subtracted."""
    mp, rng = precise.context(), np.random.default_rng(9)
    wholes = [mp.mpf(1 + int(size * scale)) for size in rng.exponential(size=40)]
    words = [word for whole in wholes for word in beside(mp, whole / scale)]
    exact = [int(mp.floor(-scale * mp.log(following_ones(mp, word)))) for word in words]
    assert rounded.discrete_laplace(scale, (len(words),), many_words(words, by_kernel)).tolist() == exact


@pytest.mark.parametrize("name", ["log", "cos", "sin"])
def test_elementary_functions_are_as_good_as_assumed(name):
    """32 units in the last place are assumed; a few are seen."""
    mp = precise.context()
    numbers = np.random.default_rng(6).random(4_000)
    numbers = numbers if name == "log" else (2 * numbers - 1) * math.pi
    found = getattr(np, name)(numbers)
    exact = [getattr(mp, name)(mp.mpf(number)) for number in numbers.tolist()]
    off = [abs(mp.mpf(value) - true) for value, true in zip(found.tolist(), exact, strict=True)]
    assert max(error / np.spacing(max(abs(value), 0.1)) for error, value in zip(off, found, strict=True)) < 8


# ---- the grid -------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=5),
    st.floats(0.01, 100),
    st.integers(1, 2),
    st.integers(-30, -3),
)
@settings(max_examples=200, deadline=None)
def test_rows_on_the_grid_stay_in_the_ball(row, radius, order, power):
    """In exact arithmetic, also for rows as long as the radius, and no coordinate moves by more than a step."""
    ball = Ball(radius, order)
    step = math.ldexp(1.0, max(power, math.frexp(radius)[1] - 31))
    rows = ball.clip(radius * np.array([row, [2.0] * len(row)]))[0]
    places = ball.multiples(rows, step)
    for place, given_row in zip(places.tolist(), rows.tolist(), strict=True):
        assert sum(abs(k) ** order for k in place) * Fraction(step) ** order <= Fraction(radius) ** order
        assert all(abs(k * step - x) <= step for k, x in zip(place, given_row, strict=True))


@given(st.floats(-50, 50), st.floats(0.01, 50), st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_numbers_on_the_grid_stay_within_the_bounds(low, width, share):
    numbers = Numbers((low, low + width))
    step = rounded.step_for(width, numbers.sensitivity)
    inside = numbers.clip(np.array([low + share * width, low, low + width]))[0]
    for place, value in zip(numbers.multiples(inside, step).tolist(), inside.tolist(), strict=True):
        assert Fraction(low) <= place * Fraction(step) <= Fraction(low + width)
        assert abs(place * step - value) <= step


@pytest.mark.parametrize(
    ("inside", "values"),
    [
        pytest.param(Numbers((0.0, 1.0)), [0.5, 1.1], id="a number"),
        pytest.param(Ball(1.0), [0.5, -1.1], id="a number in a ball"),
        pytest.param(Ball(1.0), [[0.8, 0.7]], id="a row"),
        pytest.param(Ball(1.0, 1), [[0.6, 0.6]], id="a row, L1"),
        pytest.param(Ball(1.0), [[0.5, math.nan]], id="NaN"),
    ],
)
def test_values_that_were_not_clipped_are_refused(inside, values):
    with pytest.raises(ValueError, match="outside of the bounds cannot be noised"), np.errstate(invalid="ignore"):
        inside.multiples(np.array(values), 2.0**-20)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_steps_are_fine_for_noise_and_for_values(scale, sensitivity):
    step = rounded.step_for(scale, Fraction(sensitivity))
    assert math.frexp(step)[0] == 0.5
    assert step <= min(scale * 2.0**-20, sensitivity * 2.0**-12)
    assert 2 * step > scale * 2.0**-20 or 2 * step > sensitivity * 2.0**-12


MECHANISMS = {
    "Laplace": (sd.LaplaceMechanism(1.0, bounds=(0.0, 1.0)), ()),
    "Laplace, small budget": (sd.LaplaceMechanism(1e-6, bounds=(0.3, 0.4)), ()),
    "Laplace, large budget": (sd.LaplaceMechanism(700.0, radius=1.0), (3,)),
    "Gaussian": (sd.GaussianMechanism(5.0, 1e-5, 1.0), (2,)),
    "Gaussian, small budget": (sd.GaussianMechanism(1e-4, 1e-9, 1.0), (2,)),
    "spherical Laplace": (sd.SphericalLaplaceMechanism(2.0, 1.0), (3,)),
    "staircase": (sd.StaircaseMechanism(1.0, bounds=(-1.0, 1.0)), ()),
    "input perturbation": (
        sd.InputPerturbation(2, q_scale=4.0, p_scale=8.0, q_bound=1.0, p_bound=1.0, delta=1e-5), (4,),
    ),
}  # fmt: skip


def step_of(mechanism, part, place):
    if isinstance(mechanism, sd.InputPerturbation):
        return rounded.step_for((mechanism.q_scale, mechanism.p_scale)[place], Fraction(2))
    if isinstance(mechanism, sd.SphericalLaplaceMechanism):
        return rounded.step_for(mechanism.scale * math.sqrt(part.shape[1] + 1), mechanism.range.sensitivity)
    scale = mechanism.sensitivity if isinstance(mechanism, sd.StaircaseMechanism) else mechanism.scale
    return rounded.step_for(scale, mechanism.range.sensitivity)


@pytest.mark.parametrize("power", range(20, 61, 8))
@pytest.mark.parametrize("kind", [sd.LaplaceMechanism, sd.StaircaseMechanism])
def test_bounds_far_from_zero(kind, power):
    """Places are counted from the bounds, so that none overflows; the mean is right within 6 standard errors."""
    low = -(2.0**power)
    width = max(1.0, 16 * math.ulp(low))
    mechanism = kind(2.0, bounds=(low, low + width))
    noise = mechanism.privatize(np.full(20_000, low + width / 2)) - (low + width / 2)
    assert abs(noise.mean()) < 6 * noise.std() / math.sqrt(len(noise))
    assert noise.var() == pytest.approx(mechanism.noise.variance + 0.0, rel=0.15, abs=width**2)
    places = mechanism.range.multiples(np.array([low, low + width]), rounded.step_for(width, Fraction(width)))
    assert np.abs(places).max() < 2**53


@pytest.mark.parametrize("name", MECHANISMS)
def test_released_values_are_whole_steps_about_the_true_ones(name):
    """Of all, whatever the value: and their mean square about it is the variance, within 6 standard errors."""
    mechanism, tail = MECHANISMS[name]
    values = mechanism.clip(np.random.default_rng(7).uniform(-1, 1, (40_000, *tail))).values
    released = mechanism.privatize(values)
    for place, part in enumerate(np.split(released, 2, axis=1) if name == "input perturbation" else [released]):
        unit = step_of(mechanism, part, place)
        assert np.all(part == np.rint(part / unit) * unit)
        assert not np.all(part == np.rint(part / (2 * unit)) * 2 * unit)
    noise = (released - values).reshape(len(values), -1)
    known = mechanism.noise_on(noise.shape[1])
    expected = np.diag(known.covariance) if getattr(known, "covariance", None) is not None else known.variance
    square = noise**2
    assert np.all(np.abs(square.mean(axis=0) - expected) < 6 * square.std(axis=0) / math.sqrt(len(noise)))
    assert np.all(np.abs(noise.mean(axis=0)) < 6 * np.sqrt(expected / len(noise)))


# ---- what one released value tells ----------------------------------------------------------------------------------


def excluded(released, other):
    """Which released values no noise at all, added to the other value in float64, gives."""
    noise = released - other
    near = [noise, np.nextafter(noise, np.inf), np.nextafter(noise, -np.inf)]
    return ~np.any([other + one == released for one in near], axis=0)


ATTACKED = {
    "Laplace": sd.LaplaceMechanism(1.0, bounds=(0.0, 1.0)),
    "Gaussian": sd.GaussianMechanism(5.0, 1e-5, 1.0),
    "spherical Laplace": sd.SphericalLaplaceMechanism(5.0, 1.0),
    "staircase": sd.StaircaseMechanism(2.0, bounds=(0.0, 1.0)),
}


@pytest.mark.parametrize("name", ATTACKED)
def test_plain_noise_rules_values_out_and_hardened_noise_none(name):
    """Mironov's attack: 0 is released, and whether it can have been the other end is read from the low bits."""
    mechanism = ATTACKED[name]
    zeros = np.zeros((200_000, 2)) if name == "spherical Laplace" else np.zeros(200_000)
    plain = mechanism.privatize(zeros, random_state=0).ravel()
    assert np.mean(excluded(plain, 1.0)) > 0.05
    assert not excluded(mechanism.privatize(zeros).ravel(), 1.0).any()
    assert not excluded(mechanism.privatize(zeros, random_state=0, noise="hardened").ravel(), 1.0).any()


# ---- where the bits come from ---------------------------------------------------------------------------------------


def test_each_call_has_bits_of_its_own_and_so_has_each_process():
    mechanism = sd.LaplaceMechanism(1.0, bounds=(0.0, 1.0))
    first, second = (mechanism.privatize(np.zeros(50)) for _ in range(2))
    assert len(set(first) & set(second)) < 3
    reading, writing = os.pipe()
    assert children.status(children.start(lambda: os.write(writing, mechanism.privatize(np.zeros(50)).tobytes()))) == 0
    apart = np.frombuffer(os.read(reading, 400))
    os.close(reading)
    os.close(writing)
    assert len(apart) == 50
    assert len(set(apart) & set(mechanism.privatize(np.zeros(50)))) < 3


def test_uniform_integers_of_hardened_sources():
    """Chi-square with a false-alarm rate of 1e-6, and words beyond the last multiple are drawn again."""
    drawn = sampling.integers(1, 8, 200_000, hardened(8))
    assert stats.chisquare(np.bincount(drawn)[1:]).pvalue > 1e-6
    assert sampling.integers(0, 3, 1, Words(2**64 - 1, 4)).tolist() == [1]


def test_words_for_plain_and_for_hardened_noise():
    mechanism = sd.LaplaceMechanism(1.0, bounds=(0.0, 1.0))
    with pytest.raises(ValueError, match=r"noise='soft' is not known\. Choose one of hardened, plain\."):
        mechanism.privatize([0.5], noise="soft")
    same = [mechanism.privatize(np.zeros(3), random_state=1, noise=noise) for noise in (None, "plain")]
    assert np.array_equal(*same)


@pytest.mark.parametrize("shape", [(4_000,), (1_000, 4)])
def test_few_numbers_are_noised_in_parts_on_two_threads(shape, monkeypatch):
    """A mean and a spread at z = 6; parts that shared their bits would repeat one another's noise."""
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: 2)
    monkeypatch.setattr(rounded, "_BLOCK", 64)
    mechanism = sd.GaussianMechanism(1.0, 1e-5, radius=1.0)
    noise = mechanism.privatize(np.zeros(shape)).ravel() / mechanism.scale
    assert abs(noise.mean()) < 6 / math.sqrt(noise.size)
    assert abs((noise**2).mean() - 1) < 6 * math.sqrt(2 / noise.size)
    assert len(np.unique(noise)) > noise.size - 40
    seeded = mechanism.privatize(np.zeros(shape), random_state=0, noise="hardened")
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: 1)
    np.testing.assert_array_equal(seeded, mechanism.privatize(np.zeros(shape), random_state=0, noise="hardened"))
