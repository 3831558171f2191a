"""Points of small caps: the exact ratio, what float64 is off by, the same points from many digits, the law, the time.

Statistical tests stand at 1e-7 each, 5.3 standard deviations: what they would see is said with each.
"""

import math
import random

import mpmath
import numpy as np
import pytest
from sampling_statistics import cap_faults, rate_p_value, two_sided
from scipy import stats

import symdebias as sd
from symdebias.mechanisms import cap_cosines, sampling, word_bits
from symdebias.mechanisms.cap_law import CapLaw
from symdebias.mechanisms.ranges import Ball
from symdebias.mechanisms.spherical_cap import by_cosine, chance_of_cap
from symdebias.mechanisms.word_bits import MORE
from symdebias.privacy import precise

LAWS = [
    *((epsilon, None, dimension) for epsilon in (6.0, 9.0, 14.0, 20.0, 30.0) for dimension in (2, 3, 4, 11, 60, 300)),
    (12.0, 0.3, 7),
    (29.0, 0.15, 41),
    (30.0, 1 - 1e-9, 3),
]
CAPS = [
    (6.0, None, 1),
    (30.0, None, 1),
    (8.0, None, 2),
    (20.0, None, 3),
    (12.0, None, 10),
    (29.0, 0.15, 40),
    (20.0, None, 500),
]


def cap_of(epsilon, gamma, width):
    law, dimension = CapLaw(epsilon, gamma), width + 1
    return cap_cosines._Cap(law.rim(dimension), dimension, chance_of_cap(law, dimension))


# ---- the ratio -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "gamma", "dimension"), LAWS)
def test_the_ratio_of_densities_is_at_most_that_of_the_budget(epsilon, gamma, dimension):
    """With the share of the cap by quadrature at 60 digits: and one more unit of 2^-64 would be too much."""
    law = CapLaw(epsilon, gamma)
    chance = chance_of_cap(law, dimension)
    with mpmath.workdps(60):
        edge, half = mpmath.acos(mpmath.mpf(law.rim(dimension))), mpmath.mpf(dimension - 1) / 2
        constant = mpmath.gamma(half + 0.5) / (mpmath.sqrt(mpmath.pi) * mpmath.gamma(half))
        # Most of it lies within a few 1/D of the edge.
        parts = [0, *(edge * (1 - mpmath.mpf(4) ** -place) for place in range(1, 5)), edge]
        share = constant * mpmath.quad(lambda angle: mpmath.sin(angle) ** (dimension - 2), parts)

        def loss(units):
            p = mpmath.mpf(units) / 2**64
            return mpmath.log1p(p / (share * (1 - p)))

        assert loss(chance) <= epsilon < loss(chance + 1)


def test_a_cap_that_tells_nothing_is_refused():
    for mechanism, width in (
        (sd.SphericalCapMechanism(25.0, 1.0, gamma=1 - 1e-9), 5),
        (sd.SphericalCapMechanism(30.0, 1.0, gamma=0.99), 300),
    ):
        with pytest.raises(ValueError, match=r"too thin.*Give a smaller gamma, or leave it out"):
            mechanism.privatize(np.zeros((2, width)))


# ---- from words to points ----------------------------------------------------------------------------------------


def records_of(width, count, seed=0):
    """Places of records in the ball and at its edge, some of them of a few coordinates."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, width))
    rows[::3] *= np.maximum(2.0 ** -np.arange(width), 1e-9)
    rows *= (np.where(np.arange(count) % 2, 1.0, rng.random(count)) / np.linalg.norm(rows, axis=1))[:, None]
    return Ball(1.0).multiples(rows * (1 - 2.0**-51), 2.0**-30)


@pytest.mark.parametrize(("epsilon", "gamma", "width"), CAPS)
def test_the_same_points_come_from_many_digits(epsilon, gamma, width, monkeypatch):
    """All records as if in doubt, with more bits of every number: those that float64 settles are the same."""
    count = 60 if width < 100 else 4
    cap, places, asked = cap_of(epsilon, gamma, width), records_of(width, count), []

    def tail(source):
        asked.append(source)
        return int.from_bytes(random.Random(len(asked)).randbytes(8 * MORE))

    monkeypatch.setattr(word_bits, "tail", tail)
    fast = cap_cosines._drawn(places, cap, sampling.source(5))
    few = len(asked)
    monkeypatch.setattr(cap_cosines, "few_bits", lambda words: np.ones(words.shape, dtype=bool))
    np.testing.assert_array_equal(cap_cosines._drawn(places, cap, sampling.source(5)), fast)
    assert few < 20 * (width + 2)
    assert len(asked) - few > count * (width + 1)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(("epsilon", "gamma", "width"), CAPS)
def test_points_are_as_close_as_is_said(epsilon, gamma, width, inside):
    """The middles of words against 70 digits: within a quarter of what is allowed for all that may follow them."""
    cap, count, source = cap_of(epsilon, gamma, width), 40 if width < 100 else 3, sampling.source(7)
    places, pairs = records_of(width, count), (width + 2) // 2
    lengths, angles = source.words(2 * pairs * count).reshape(2, pairs, count)
    falls, _ = cap_cosines._falls(count if inside else 0, cap, source)
    points, off, unclear = cap_cosines._points(places, np.full(count, inside), falls, lengths, angles, cap)
    mp = precise.context()

    def number(word):
        return (mp.mpf(int(word) & (2**63 - 1)) + 0.5) / 2**63

    for record in np.flatnonzero(~unclear):
        normal = exact_normals(mp, [number(word) for word in lengths[:, record]], angles[:, record].tolist())
        if inside:
            fall = number(falls[record])
            exact = cap_cosines._exact_point(mp, places[record].tolist(), fall, normal, cap)
            check_cosine(mp, places[record].tolist(), exact, fall, cap)
        else:
            norm = mp.sqrt(sum(one**2 for one in normal[: width + 1]))
            exact = [one / norm for one in normal[:width]]
        for one, found, allowed in zip(exact, points[:, record], off[:, record], strict=True):
            assert abs(one - mp.mpf(float(found)) * cap.step) <= allowed / 4
    # Hardly any is in doubt.
    assert off.max() < cap.step / 32


@pytest.mark.parametrize("inside", [True, False])
def test_few_records_of_many_columns_are_in_doubt(inside):
    """By what a coordinate may be off by: by what the longest may, it was one in eight inside of the cap."""
    cap, count, source = cap_of(20.0, None, 1_000), 500, sampling.source(11)
    lengths, angles = source.words(2 * 501 * count).reshape(2, 501, count)
    falls, _ = cap_cosines._falls(count if inside else 0, cap, source)
    steps, off, _ = cap_cosines._points(records_of(1_000, count), np.full(count, inside), falls, lengths, angles, cap)
    doubts = (np.abs(steps - np.rint(steps)) > 0.5 - off / cap.step).any(axis=0)
    assert np.mean(doubts) < 0.015


def exact_normals(mp, uniform, angles):
    radius = [mp.sqrt(-2 * mp.log(one)) for one in uniform]
    turns = [mp.pi * (mp.mpf(one) + 0.5) / 2**63 for one in angles]
    pairs = list(zip(radius, turns, strict=True))
    return [long * mp.cos(turn) for long, turn in pairs] + [long * mp.sin(turn) for long, turn in pairs]


def check_cosine(mp, places, point, fall, cap):
    """The point is one of the sphere, its last coordinate of either sign, and has the cosine of the number u."""
    record = [mp.mpf(place) / 2**30 for place in places]
    height, last = (mp.sqrt(1 - sum(one**2 for one in numbers)) for numbers in (record, point))
    along = sum(one * other for one, other in zip(record, point, strict=True))
    cosine = mp.sqrt(1 - (1 - mp.mpf(cap.rim) ** 2) * fall ** (mp.mpf(2) / len(record)))
    assert min(abs(along + sign * height * last - cosine) for sign in (-1, 1)) < 1e-30


@pytest.mark.parametrize("beside", [2**34, 2**20, 2**4])
def test_the_sign_of_zero_says_nothing(beside):
    """Of points less than half a step from 0, on either side, by float64 and by many digits."""
    cap = cap_of(10.0, None, 1)

    class Words:
        def __init__(self, angle):
            # Not in the cap, and an angle next to a right one.
            self.given = [np.array([-1, 2**61, angle])]

        def words(self, count):
            return self.given.pop() if self.given else np.zeros(count, dtype=np.int64)

    for sign in (1, -1):
        sent = cap_cosines._drawn(np.array([[2**29]]), cap, Words(2**62 + sign * beside))
        assert sent[0, 0] == 0
        assert not np.signbit(sent[0, 0])


def test_points_stand_on_the_grid_and_in_the_ball():
    for epsilon, width in ((8.0, 2), (20.0, 3), (30.0, 1), (12.0, 30)):
        cap = cap_of(epsilon, None, width)
        found = cap_cosines._drawn(records_of(width, 2_000), cap, sampling.source(None))
        np.testing.assert_array_equal(found, np.rint(found))
        assert np.einsum("ij,ij->j", found, found).max() <= cap.step**-2
        sent = sd.SphericalCapMechanism(epsilon, 3.0).privatize(np.full((500, width), 9.0))
        np.testing.assert_array_equal(np.rint(sent / 3.0 / cap.step) * cap.step * 3.0, sent)


def test_a_record_whose_quotients_round_up_is_drawn_as_others_are():
    """|x| is at most R exactly, and the computed x/R may be longer than 1 by a rounding, on the grid of places.

    A point is outside of its cap with a probability of 3e-7: false alarms are 1 in 16,000.
    """
    radius = 3.0
    rows = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0], [np.nextafter(1.0, 0), 1e-9]]) * radius
    sent = sd.SphericalCapMechanism(30.0, radius).privatize(np.repeat(rows, 50, axis=0))
    assert np.abs(sent - np.repeat(rows, 50, axis=0)).max() < radius / 4


# ---- the law -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "width"), [(9.0, 1), (7.0, 2), (8.0, 4), (8.0, 10)])
def test_the_cosine_and_the_angle_have_their_law_by_cosine(epsilon, width):
    """On a record that is on the grid of places; as the same test of caps that trials draw."""
    mechanism = sd.SphericalCapMechanism(epsilon, 1.5)
    assert by_cosine(mechanism.law, width + 1)
    direction = np.full(4, 0.5) if width == 4 else np.eye(width)[0]
    assert cap_faults(mechanism, records=60_000, random_state=None, width=width, direction=direction) == []


def small_cap_faults(sent, law, width):
    """Faults of points sent of the first axis, most of which lie in a small cap, against their law.

    With 100,000 points Kolmogorov's distance is seen from .01 on: a 1 - gamma that is too small by 1% puts it to .03 at
    D = 7, where ranks go as its third power. A share outside of .02 is seen to .0024.
    """
    dimension, half = width + 1, width / 2
    cosine = sent[:, 0]
    inside = cosine >= law.rim(dimension)
    share = stats.beta.sf((1 + cosine) / 2, half, half)
    across = sent[inside, 1] / np.sqrt(1 - cosine[inside] ** 2)
    rank = stats.beta.cdf((1 + across) / 2, half - 0.5, half - 0.5)
    ranks = share[inside] / law.share(dimension)
    p_values = {
        "inside": rate_p_value(inside, law.chance_inside(dimension)),
        "cosine": stats.kstest(ranks, "uniform").pvalue,
        "across": stats.kstest(rank, "uniform").pvalue,
        "independent": two_sided(np.corrcoef(ranks, rank)[0, 1] * math.sqrt(len(rank))),
        "next": two_sided(np.corrcoef(ranks[1:], ranks[:-1])[0, 1] * math.sqrt(len(rank))),
    }
    return [name for name, p_value in p_values.items() if not p_value > 1e-7]


@pytest.mark.parametrize(("epsilon", "width"), [(14.0, 2), (20.0, 3), (25.0, 6)])
def test_small_caps_have_their_law(epsilon, width):
    mechanism, record = sd.SphericalCapMechanism(epsilon, 1.0), np.eye(width)[:1]
    sent = mechanism.privatize(np.repeat(record, 60_000, axis=0))
    assert small_cap_faults(sent, mechanism.law, width) == []


def test_other_laws_of_small_caps_are_seen():
    """Of another gamma, of another budget, and of one sign across."""
    epsilon, width = 12.0, 6
    law, rim = CapLaw(epsilon), CapLaw(epsilon).rim(width + 1)
    narrow = sd.SphericalCapMechanism(epsilon, 1.0, gamma=1 - 0.98 * (1 - rim))
    loose = sd.SphericalCapMechanism(epsilon - 1.0, 1.0, gamma=rim)
    record = np.repeat(np.eye(width)[:1], 100_000, axis=0)
    right = sd.SphericalCapMechanism(epsilon, 1.0).privatize(record)
    assert small_cap_faults(right, law, width) == []
    assert "cosine" in small_cap_faults(narrow.privatize(record), law, width)
    assert "inside" in small_cap_faults(loose.privatize(record), law, width)
    assert "across" in small_cap_faults(np.c_[right[:, :1], np.abs(right[:, 1:])], law, width)


def test_cosines_that_are_not_rejected_are_seen():
    epsilon, width = 9.0, 40
    law, cap = CapLaw(epsilon), cap_of(epsilon, None, width)
    words = cap_cosines._falls(100_000, cap, sampling.source(None))[0]
    unkept = sampling.source(None).words(100_000)
    p_values = []
    for falls in (words, unkept):
        share = stats.beta.sf((1 + cap_cosines._cosines(falls, cap)[1]) / 2, width / 2, width / 2)
        p_values.append(stats.kstest(share / law.share(width + 1), "uniform").pvalue)
    assert p_values[0] > 1e-7 > p_values[1]


def test_means_inside_the_ball_are_the_record_times_the_first_factor():
    """6 standard errors, of 5e-5 and below: false alarm below 1e-8."""
    record = np.array([0.3, -1.0, 0.4, 0.2])
    mechanism = sd.SphericalCapMechanism(16.0, 2.0)
    sent = mechanism.privatize(np.tile(record, (40_000, 1)))
    wanted = mechanism.noise_on(4).gain * record
    assert np.all(np.abs(sent.mean(axis=0) - wanted) < 6 * sent.std(axis=0) / math.sqrt(len(sent)))
    assert sent.std(axis=0).max() < 0.35


# ---- the time ----------------------------------------------------------------------------------------------------


def test_a_record_takes_as_many_words_at_every_budget():
    """Where trials would be 100 to 10 million for a record."""
    counts = []
    for epsilon in (9.0, 14.0, 20.0, 30.0):
        source = Counting()
        cap = cap_of(epsilon, None, 3)
        cap_cosines.draw_rounded_cap_points(np.full((2_000, 3), 0.3), cap.rim, cap.chance, source)
        counts.append(source.count / 2_000)
    assert max(counts) < 1.1 * min(counts) < 10


class Counting:
    """A source that counts words."""

    seeded = True

    def __init__(self):
        self.count, self.source = 0, sampling.source(3)

    def words(self, count):
        self.count += count
        return self.source.words(count)
