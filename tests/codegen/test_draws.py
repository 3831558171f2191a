"""Kernels that draw and clip on all cores: the same numbers as without them, for any number of threads."""

import math

import mpmath
import numba
import numpy as np
import pytest

import symdebias as sd
from symdebias.codegen import draws
from symdebias.mechanisms import clipping, rounded, sampling
from symdebias.mechanisms.clipping import in_ball
from symdebias.mechanisms.ranges import Ball, Numbers

MECHANISMS = {
    "normal": (sd.GaussianMechanism(1.0, 1e-5, radius=1.0), 3),
    "normal, one column": (sd.GaussianMechanism(1.0, 1e-5, radius=1.0), 1),
    "normal, hardly any noise": (sd.GaussianMechanism(700.0, 0.5, radius=1e-3), 2),
    "laplace in a ball": (sd.LaplaceMechanism(2.0, radius=1.5), 3),
    "laplace": (sd.LaplaceMechanism(2.0, bounds=(-1, 1)), 1),
    "laplace, bounds far out": (sd.LaplaceMechanism(2.0, bounds=(1e9, 1e9 + 1)), 1),
    "staircase": (sd.StaircaseMechanism(1.0, bounds=(0, 1)), 1),
    "spherical Laplace": (sd.SphericalLaplaceMechanism(2.0, 1.0), 4),
    "input perturbation": (
        sd.InputPerturbation(2, q_scale=4.0, p_scale=8.0, q_bound=1.0, p_bound=1.0, delta=1e-5),
        4,
    ),
    "spherical cap": (sd.SphericalCapMechanism(2.0, 1.0), 2),
    "discrete Laplace": (sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 9)), 0),
    "discrete staircase": (sd.DiscreteStaircaseMechanism(1.0, bounds=(0, 9)), 0),
    "labels, codes": (sd.RandomizedResponse(1.0, categories=(0, 1, 2)), 0),
    "labels, numbers": (sd.RandomizedResponse(1.0, categories=(0.5, 1, 7)), 0),
    "channel": (sd.mechanisms.FiniteChannel([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]], (0, 1), (0, 1, 2)), 0),
    "randomized response": (sd.RandomizedResponse(1.0), 0),
    "randomized response, small": (sd.RandomizedResponse(1e-3, categories=(0, 1)), 0),
}


def records(mechanism, columns, n=3_001):
    rng = np.random.default_rng(7)
    if mechanism.kind.startswith("discrete"):
        return rng.integers(-3, 13, n).astype(float)
    if not columns and len(mechanism.range.numbers) > 2:
        return np.array(mechanism.range.numbers)[rng.integers(0, 3, n)]
    if not columns:
        return np.array(mechanism.range.numbers)[rng.integers(0, 2, n)] * np.where(rng.random(n) < 0.5, 1.0, 1 + 0.0)
    centre = mechanism.bounds[0] if getattr(mechanism, "bounds", None) else 0.0
    found = centre + rng.normal(size=(n, columns)) * rng.choice([0.1, 1.0, 5.0], (n, 1))
    return found[:, 0] if columns == 1 else found


@pytest.mark.in_turn
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("noise", ["plain", "hardened"])
def test_kernels_draw_and_clip_what_is_drawn_and_clipped_without_them(name, noise, monkeypatch):
    mechanism, columns = MECHANISMS[name]
    values = records(mechanism, columns)
    without = mechanism.privatize(values, random_state=3, noise=noise), mechanism.clip(values).outside
    monkeypatch.setattr(draws, "MANY", 1)
    given = values.copy()
    compiled = mechanism.privatize(values, random_state=3, noise=noise), mechanism.clip(values).outside
    assert np.array_equal(without[0], compiled[0])
    assert np.array_equal(without[1], compiled[1])
    assert np.array_equal(values, given)


@pytest.mark.parametrize("draw", [rounded.normal, rounded.laplace])
@pytest.mark.parametrize("scale", [1.0, 2.0**20, 2.0**38])
def test_numbers_in_doubt_are_settled_as_without_kernels(draw, scale, monkeypatch):
    # At 2^38 steps most numbers are in doubt, more than there is room for at first.
    count = 201
    without = draw(scale, (count,), sampling.source(1, noise="hardened"))
    monkeypatch.setattr(draws, "MANY", 1)
    assert np.array_equal(draw(scale, (count,), sampling.source(1, noise="hardened")), without)


@pytest.mark.parametrize("draw", [rounded.normal, rounded.laplace])
def test_a_seeded_stream_is_that_without_kernels_where_they_find_others_in_doubt(draw, monkeypatch):
    # At this scale a draw in 10^6 or so is in doubt for a kernel and not for NumPy, or the other way round: further
    # words are taken for such a draw, and all that follows would be another stream.
    count, scale, seed = 40_001, 2.0**36.2, 5
    without = draw(scale, (count,), sampling.source(seed, noise="hardened"))
    monkeypatch.setattr(draws, "MANY", 1)
    assert np.array_equal(draw(scale, (count,), sampling.source(seed, noise="hardened")), without)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -2.0])
def test_a_kernel_places_no_numbers_that_were_not_clipped(bad):
    values = np.array([0.25, bad, 0.5, -1.0])
    with pytest.raises(ValueError, match="Clip first"):
        Numbers((-1.0, 1.0)).multiples(values, 2.0**-10, out=np.empty(4, dtype=np.int64))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("columns", [1, 2, 3, 10, 700])
@pytest.mark.parametrize("steps", [5.3, 2.0**20, 2.0**30.6])
def test_a_kernel_places_rows_as_without(order, columns, steps):
    """Also rows as long as the radius, and of so many steps that squares might overflow."""
    rng, ball = np.random.default_rng(columns), Ball(steps, order)
    rows = ball.clip(rng.normal(size=(400, columns)) * rng.choice([1e-3, 1.0, 1e9], (400, 1)) * steps)[0]
    given = rows.copy()
    found = ball.multiples(rows, 1.0, out=rows.view(np.int64))
    assert np.array_equal(found, ball.multiples(given, 1.0))
    for bad in (np.nan, np.inf, 2.0 * steps + 9.0, 2.0**60):
        wrong = given.copy()
        wrong[399, -1] = bad
        with pytest.raises(ValueError, match="Clip first"):
            ball.multiples(wrong, 1.0, out=np.empty(wrong.shape, dtype=np.int64))


@pytest.mark.parametrize("order", [1, 2])
def test_as_much_is_done_for_rows_outside_of_a_ball_as_inside(order, monkeypatch):
    rows, looked, kernel = np.random.default_rng(0).normal(size=(40_000, 2)), [], draws.compiled("clip_rows")

    def counted(*arguments):
        looked[-1].append([np.shape(one) for one in arguments])
        return kernel(*arguments)

    in_ball(np.tile(rows, (10, 1)), 1.0, order=order)  # what is found out once
    monkeypatch.setattr(draws, "MANY", 1)
    monkeypatch.setattr(draws, "compiled", lambda name: counted)
    monkeypatch.setattr(clipping, "_in_ball", None)
    for radius in (1e3, 1.0, 1e-3):
        looked.append([])
        in_ball(rows, radius, order=order)
    assert sum(shapes[0][0] for shapes in looked[0]) == len(rows)
    assert sorted(looked[0]) == sorted(looked[1]) == sorted(looked[2])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [sd.GaussianMechanism(1.0, 1e-5, radius=1.0), sd.LaplaceMechanism(1.0, bounds=(0, 1))])
def test_a_kernel_refuses_what_is_not_finite_while_it_clips(bad, make, monkeypatch):
    monkeypatch.setattr(draws, "MANY", 1)
    values = np.full((2_001, 2), 1e300) if make.width is None else np.zeros(2_001)
    values[1_999, ...] = bad
    with pytest.raises(ValueError, match=f"values has {'NaN' if np.isnan(bad) else 'infinity'} in row 1999"):
        make.clip(values)


def test_squares_that_numpy_adds_in_another_order_are_added_by_numpy(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(300, 11))
    without = in_ball(rows, 1.0)
    monkeypatch.setattr(draws, "MANY", 1)
    monkeypatch.setattr(clipping, "_adds_as_numpy", lambda columns: False)
    for one, other in zip(without, in_ball(rows, 1.0), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("columns", [8_192, 8_193, 70_001])
def test_long_rows_are_clipped_to_the_last_bit(columns, monkeypatch):
    """NumPy adds the squares of a single row in another order than those of several."""
    rows = np.random.default_rng(columns).normal(size=(7, columns))
    without = in_ball(rows, 1.0)
    monkeypatch.setattr(draws, "MANY", 1)
    for one, other in zip(without, in_ball(rows, 1.0), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("columns", [1, 2, 5, 12, 33])
def test_a_kernel_clips_rows_to_the_last_bit(order, columns, monkeypatch):
    rng = np.random.default_rng(columns)
    rows = rng.normal(size=(4_000, columns)) * 10.0 ** rng.integers(-3, 4, (4_000, 1))
    lengths = np.abs(rows[:50]).sum(axis=1) if order == 1 else np.linalg.norm(rows[:50], axis=1)
    rows[:50] /= lengths[:, None]
    for far in (1.0, 1e250, 1e-300):
        rows[100] *= far
        without = in_ball(rows, 1.0, order=order)
        with monkeypatch.context() as patched:
            patched.setattr(draws, "MANY", 1)
            compiled = in_ball(rows, 1.0, order=order)
        assert np.array_equal(without[0], compiled[0])
        assert np.array_equal(without[1], compiled[1])


def test_the_logarithm_is_right_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    words = [*rng.integers(0, 2**63 - 1, 300), *(2**k for k in range(46, 63))]
    words += [
        *(2**63 - 1 - 2**k for k in range(9, 62)),
        *(int(2**63 * math.sqrt(0.5)) + 2**11 * k for k in range(-5, 6)),
    ]
    with mpmath.workdps(40):
        for word in words:
            # The sum is rounded: what is computed is the logarithm of that.
            number = float(np.float64(int(word)) + 0.5)
            exact = -mpmath.log(mpmath.mpf(number) / 2**63)
            if exact:
                assert abs(draws.exponential(np.int64(word)) / exact - 1) < 2.0**-52


def test_hardened_noise_of_many_records_has_its_law_and_no_bits_twice():
    # A mean is seen to .0042 scales, a standard deviation to .003 of itself, at z = 6; a part drawn twice at once.
    count = 2**21
    mechanism = sd.GaussianMechanism(1.0, 1e-5, radius=1.0)
    noise = mechanism.privatize(np.zeros(count)) / mechanism.scale
    assert abs(noise.mean()) < 6 / math.sqrt(count)
    assert abs(noise.std() - 1) < 6 / math.sqrt(2 * count)
    assert abs((noise**4).mean() - 3) < 6 * math.sqrt(96 / count)
    # Noise of 2^20 steps takes a value twice now and then; a whole part would be many times that.
    parts = noise.reshape(-1, 2**17)[:, :1_000]
    assert all(len(np.intersect1d(one, two)) < 30 for k, one in enumerate(parts) for two in parts[:k])
    assert not np.array_equal(noise[:1_000], mechanism.privatize(np.zeros(count))[:1_000] / mechanism.scale)


def test_many_labels_are_exchanged_as_often_as_stated():
    # A probability is seen to .0015 at z = 6.
    count, mechanism = 2**21, sd.RandomizedResponse(1.0)
    labels = np.where(np.arange(count) % 3 == 0, 1.0, -1.0)
    changed = (mechanism.privatize(labels) != labels).mean()
    p = 1 - mechanism.keep_probability
    assert abs(changed - p) < 6 * math.sqrt(p * (1 - p) / count)


def test_results_do_not_depend_on_the_number_of_threads():
    count = 600_000
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.7, 0.7, (count // 2, 2)), rng.choice([-1.0, 1.0], count // 2)
    release = sd.Release(sd.GaussianMechanism(1.0, 1e-5, radius=1.0), target=sd.RandomizedResponse(1.0))
    before, found = numba.get_num_threads(), []
    try:
        for threads in (1, before):
            numba.set_num_threads(threads)
            for noise in ("plain", "hardened"):
                noised = release.privatize(X, y, random_state=1, noise=noise)
                found.append((noised.X, noised.y))
    finally:
        numba.set_num_threads(before)
    for one, other in ((0, 2), (1, 3)):
        assert np.array_equal(found[one][0], found[other][0])
        assert np.array_equal(found[one][1], found[other][1])


@pytest.mark.in_turn
@pytest.mark.parametrize("name", MECHANISMS)
def test_nothing_half_written_leaves_where_bits_run_out(name, monkeypatch):
    mechanism, columns = MECHANISMS[name]
    values = np.concatenate([records(mechanism, columns)] * 60)
    monkeypatch.setattr(draws, "MANY", 2**16)
    true, left = sampling._secret_octets, [1]

    def failing(out):
        left[0] -= 1
        if left[0] < 0:
            raise OSError("no bits")
        return true(out)

    given, clipped = values.copy(), mechanism.clip(values)
    with monkeypatch.context() as patched:
        patched.setattr(sampling, "_secret_octets", failing)
        with pytest.raises(OSError, match="no bits"):
            mechanism.noise_in_place(clipped, sampling.source(None))
    assert np.array_equal(values, given)
    if clipped.values.flags.writeable:
        with pytest.raises(ValueError, match="given up"):
            mechanism.add_noise(clipped, sampling.source(None))
    else:
        assert np.array_equal(clipped.values, mechanism.clip(values).values)


def test_many_labels_of_three_have_the_law_of_their_channel():
    # In several parts; a probability is seen to .004 at z = 6.
    count, mechanism = 2**19, sd.RandomizedResponse(1.0, categories=(0, 1, 2))
    sent = mechanism.privatize(np.arange(count) % 3)
    table = np.histogram2d(np.arange(count) % 3, sent, bins=3)[0] / (count / 3)
    expected = np.array(mechanism.noise.matrix)
    assert np.all(np.abs(table - expected) < 6 * np.sqrt(expected * (1 - expected) / (count / 3)))


def test_a_generator_without_bits_is_refused(monkeypatch):
    monkeypatch.setattr(sampling, "_filler", lambda: lambda place, count: 0)
    with pytest.raises(OSError, match="has no bits"):
        sampling.source(None).words(10_000)


def test_bits_come_from_the_module_of_python_where_the_library_is_not_found(monkeypatch):
    monkeypatch.setattr(sampling, "_filler", lambda: None)
    words = sampling.source(None).words(10_000)
    assert len(np.unique(words)) == 10_000
