"""The spherical cap: bits, the bound on normalisers, the law against planted defects, the guarantee, refusals."""

import json
import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from sampling_statistics import cap_faults
from scipy import stats

import symdebias as sd
from symdebias.codegen import draws
from symdebias.mechanisms import cap_points, directions, sampling
from symdebias.mechanisms.cap_law import CapLaw
from symdebias.mechanisms.spherical_cap import by_cosine, chance_outside, lifted, normaliser_loss

LAWS = [
    (epsilon, dimension)
    for epsilon in (1e-5, 0.3, 2.0, 5.0, 12.0)
    for dimension in (2, 3, 4, 5, 11, 51, 200)
    if not by_cosine(CapLaw(epsilon), dimension)
]


class Words:
    """A source of given words, which may be halves."""

    seeded = True

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.int64)

    def halves(self, count):
        return self.words(count).astype(np.int32)


def halves(*words):
    """The upper halves of words, and the lower ones as signed integers."""
    return [word >> 32 for word in words], [(word & (2**32 - 1)) - ((word & 2**31) << 1) for word in words]


# ---- bits ------------------------------------------------------------------------------------------------


def test_words_of_the_operating_system_and_of_a_seed():
    fresh, seeded = sampling.source(None), sampling.source(3)
    for source in (fresh, seeded):
        words = source.words(100_000)
        assert words.dtype == np.int64
        # Each of 64 bits: 5.5 standard deviations, false alarm below 64 * 4e-8.
        bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).mean(axis=0)
        assert np.abs(bits - 0.5).max() < 5.5 * 0.5 / math.sqrt(len(words))
    np.testing.assert_array_equal(sampling.source(3).words(5), sampling.source(3).words(5))
    assert not np.array_equal(fresh.words(5), fresh.words(5))
    for source in (fresh, seeded):
        words = source.halves(100_000)
        assert words.dtype == np.int32
        bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 32).mean(axis=0)
        assert np.abs(bits - 0.5).max() < 5.5 * 0.5 / math.sqrt(len(words))


def test_lengths_keep_their_relative_precision():
    """Against the integers: k + a fraction over 2^64, where the fraction matters."""
    words = np.array([2**62, -(2**62) - 1, 2**52, 2**51 + 7, -(2**51) - 8, 3, -4, 0, -1], dtype=np.int64)
    fractions = [2**63 - 1, -(2**63), 12345, 2**62, 2**50, -1]
    found = cap_points.length_numbers(words, Words(*fractions))
    places = [2**62, 2**62, 2**52, 2**51 + 7, 2**51 + 7, 3, 3, 0, 0]
    with mpmath.workdps(40):
        for value, word, place, fraction in zip(found, words, places, [0, 0, 0, *fractions], strict=True):
            exact = (place + (mpmath.mpf(fraction % 2**64) + 0.5) / 2**64) / mpmath.mpf(2) ** 64
            assert (value < 0) == (word < 0)
            assert abs(abs(value) - exact) <= 2.0**-50 * exact
    assert 0 < np.abs(found).min()
    assert abs(cap_points.length_numbers(np.array([-(2**63)]), Words())[0]) == 0.5


def test_normal_vectors_at_high_precision():
    """Each pair within ERROR of the exact function of its bits, a thirtieth of it allowed, edges included."""
    rng = np.random.default_rng(0)
    lengths = np.r_[rng.uniform(-0.5, 0.5, 2000), 0.5, -0.5, 2.0**-12, -(2.0**-12), 2.0**-75, -(2.0**-75)]
    angles = rng.integers(-(2**63), 2**63 - 1, len(lengths))
    angles[-4:] = -(2**63), 2**63 - 1, 0, 1
    first, second = directions.normal_vectors(lengths[None], angles[None], 2)
    with mpmath.workdps(30):
        for x, y, length, angle in zip(first, second, lengths.tolist(), angles.tolist(), strict=True):
            exact = exact_pair(length, angle)
            assert mpmath.hypot(x - exact[0], y - exact[1]) <= directions.ERROR / 30 * mpmath.hypot(*exact)


def exact_pair(length, angle):
    """The point of the plane that a number and a word stand for, at the precision of mpmath."""
    u = mpmath.mpf(abs(length))
    phi = mpmath.pi * mpmath.mpf((angle + 2**62) % 2**63 - 2**62) / 2**63
    radius = mpmath.sqrt(-mpmath.log(u) if length < 0 else -mpmath.log1p(-u)) * (-1 if angle < 0 else 1)
    return radius * mpmath.cos(phi), radius * mpmath.sin(phi)


def rough_pairs(lengths, angles):
    """What a kernel makes of upper halves, one pair after the other."""
    with np.errstate(over="ignore"):
        pairs = [draws.rough_pair(*pair) for pair in zip(lengths[0], angles[0], strict=True)]
    return np.array(pairs).T


@pytest.mark.parametrize("rough_vectors", [directions.rough_vectors, rough_pairs])
def test_the_upper_halves_say_where_a_vector_is(rough_vectors):
    """With the lower halves at their extremes, edges of what is not coarse included; half of ROUGH_ERROR is allowed."""
    rng = np.random.default_rng(1)
    edge = 2**20
    lengths = np.r_[rng.integers(-(2**31), 2**31, 500), edge, edge + 1, -edge - 1, -edge - 2, 2**31 - 1, -(2**31)]
    lengths = lengths[(lengths >= edge) | (lengths < -edge)]
    angles = rng.integers(-(2**31), 2**31, len(lengths))
    angles[:6] = -(2**31), 2**31 - 1, 0, -1, 2**30, 2**30 - 1
    first, second = rough_vectors(lengths.astype(np.int32)[None], angles.astype(np.int32)[None])
    assert first.dtype == second.dtype == np.float32
    with mpmath.workdps(30):
        for x, y, length, angle in zip(first, second, lengths.tolist(), angles.tolist(), strict=True):
            for low in (0, 2**32 - 1):
                number = mpmath.mpf((length << 32) + low + 0.5) / 2**64
                exact = exact_pair(number, (angle << 32) + low)
                off = mpmath.hypot(float(x) - exact[0], float(y) - exact[1])
                assert off <= directions.ROUGH_ERROR / 2 * mpmath.hypot(*exact)
    coarse = rough_vectors(np.array([[0, -1, 1, -2, edge - 1, -edge]], dtype=np.int32), np.zeros((1, 6), np.int32))
    assert np.isfinite(coarse).all()


def test_a_kernel_knows_logarithms_and_angles_as_well_as_it_says():
    """-log U to 2^-20 of itself, the point of the circle to 2^-19; both to half of that."""
    rng = np.random.default_rng(2)
    lengths = np.r_[rng.integers(-(2**31), 2**31, 1_000), 2**20 * np.arange(1, 40), -(2**31) + np.arange(1, 40)]
    angles = np.r_[rng.integers(-(2**31), 2**31, len(lengths) - 3), -(2**31), 2**31 - 1, 2**30]
    found = rough_pairs(lengths.astype(np.int32)[None], angles.astype(np.int32)[None]).astype(float)
    with mpmath.workdps(30):
        for x, y, length, angle in zip(*found, lengths.tolist(), angles.tolist(), strict=True):
            number = max(float(np.float32((2**32 - 1 if length >= 0 else -1) - length) / 2**32), 2.0**-12)
            radius = mpmath.sqrt(-mpmath.log(number)) * (-1 if angle < 0 else 1)
            phi = mpmath.pi * mpmath.mpf((angle + 2**30) % 2**31 - 2**30) / 2**31
            if number < 1:
                assert mpmath.hypot(x / radius - mpmath.cos(phi), y / radius - mpmath.sin(phi)) < 2.0**-20 + 2.0**-22
                assert abs((x**2 + y**2) / radius**2 - 1) < 2.0**-20 + 2.0**-19


@pytest.mark.parametrize("by_kernel", [False, True], ids=["NumPy", "kernel"])
@pytest.mark.parametrize("dimension", [2, 3, 11, 40])
def test_no_trial_is_lost_by_its_upper_halves_that_the_test_would_keep(dimension, by_kernel):
    """Rims are laid through the points themselves, at the edge of the test; a thousandth further out they are lost."""
    rng = np.random.default_rng(dimension)
    count, pairs = 4_000 if by_kernel else 20_000, (dimension + 1) // 2
    words = rng.integers(-(2**63), 2**63 - 1, (2 * pairs, count))
    lengths = cap_points.length_numbers(words[:pairs], sampling.source(0))
    vectors = directions.normal_vectors(lengths, words[pairs:], dimension)
    size = directions.norms(vectors)
    whole = directions.norms(directions.normal_vectors(lengths, words[pairs:], 2 * pairs))
    lift = lifted(rng.uniform(-1, 1, (1, dimension - 1)) / dimension)
    cosines = sum(number * vector for number, vector in zip(lift[0], vectors, strict=True)) / size
    upper = np.concatenate([words >> 32, np.full((1, count), 2**31 - 1)]).astype(np.int32)[:, None]
    short = whole / size

    def open_ones(rims):
        """For a rim of each trial's own."""
        if by_kernel:
            found = np.array([[open_to_kernel(*one) for one in zip(upper[:, 0].T, rims, strict=True)]])
        else:
            found = cap_points._may_be_kept(lift.T.astype(np.float32), upper, rims, np.int32(-(2**31)))
        return found[0, (rims > 0.05) & (rims < 1)]

    def open_to_kernel(trial, rim):
        """Whether the first of equal trials is."""
        slack, places = np.float32(directions.rough_deviation(dimension)), np.full(1, -1)
        trials = np.repeat(trial[:, None], draws.TRIALS, axis=1)
        options = np.float32(rim), slack, np.int32(-(2**31)), int(directions.COARSE * 2.0**32), places
        return draws.compiled("cap")(lift.astype(np.float32), trials, *options) == 1 and places[0] == 0

    assert open_ones(cosines).all()
    assert open_ones(cosines - 1e-6).all()
    # Beyond twice what is allowed for, only sizes that are coarse leave a trial open.
    beyond = open_ones(cosines + 2 * directions.rough_deviation(dimension) * short)
    assert beyond.mean() < 4 * pairs * directions.COARSE + 0.01


def test_odd_dimensions_leave_one_coordinate_out():
    lengths, angles = np.full((2, 5), 0.3), np.arange(10).reshape(2, 5) * 2**59
    whole, part = directions.normal_vectors(lengths, angles, 4), directions.normal_vectors(lengths, angles, 3)
    np.testing.assert_array_equal(part, whole[:3])
    np.testing.assert_allclose(directions.norms(part), np.linalg.norm(part, axis=0), rtol=1e-15)


@pytest.mark.parametrize("dimension", [3, 5, 11, 31, 201])
def test_short_remainders_are_as_rare_as_is_said(dimension):
    shortness = math.ceil(43 / (dimension + 1))
    with mpmath.workdps(40):
        rare = mpmath.betainc(dimension / 2, 0.5, 0, mpmath.mpf(4) ** -shortness, regularized=True)
        assert rare <= directions.deviation(dimension).failure
    assert directions.deviation(dimension).cosine >= 2.0 ** (shortness + 1) * directions.ERROR


# ---- the normalisers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "dimension"), LAWS)
def test_the_privacy_loss_of_the_realised_sampler_is_within_epsilon(epsilon, dimension):
    """-log q and the log ratio of normalisers, at 40 digits, with the worst p that the deviation allows."""
    law = CapLaw(epsilon)
    chance, off = chance_outside(law, dimension), directions.deviation(dimension)
    assert 1 <= chance < 2**64
    with mpmath.workdps(40):
        q, rim, half = mpmath.mpf(chance) / 2**64, mpmath.mpf(law.rim(dimension)), mpmath.mpf(dimension - 1) / 2

        def share(cosine):
            return mpmath.betainc(half, half, 0, (1 - cosine) / 2, regularized=True)

        most, least = share(rim - off.cosine) + off.failure, max(share(rim + off.cosine) - off.failure, 0)
        ratio = mpmath.log((most + (1 - most) * q) / (least + (1 - least) * q))
        assert ratio <= normaliser_loss(law, dimension)
        assert -mpmath.log(q) + ratio <= epsilon
        # And hardly anything is given away.
        assert -mpmath.log(q) + ratio >= epsilon * (1 - mpmath.mpf(10) ** -4)


def test_the_loss_is_small_where_it_is_used():
    assert normaliser_loss(CapLaw(5.0), 11) < 1e-9
    assert normaliser_loss(CapLaw(2.0), 3) < 1e-8
    mechanism = sd.SphericalCapMechanism(5.0, 1.0)
    assert mechanism.normaliser_loss(10) == normaliser_loss(CapLaw(5.0), 11)
    assert mechanism.trials(10) == pytest.approx(21.828215, abs=1e-6)
    assert mechanism.rim(10) == CapLaw(5.0).rim(11)


def test_what_rounding_costs_is_next_to_nothing_wherever_trials_are_drawn():
    worst, seen = 0.0, 0
    for dimension in (2, 3, 4, 5, 8, 11, 31, 101, 1001, 5001):
        for epsilon in (1e-5, 1e-2, 0.5, 2.0, 2.7, 3.5, 5.0, 9.0):
            for gamma in (None, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-8, 1 - 2.0**-53):
                law = CapLaw(epsilon, gamma)
                if not by_cosine(law, dimension):
                    worst, seen = max(worst, normaliser_loss(law, dimension) / epsilon), seen + 1
    assert seen > 400
    assert worst < 1e-5


def test_what_comes_out_is_a_function_of_the_bits():
    """When all that is drawn is kept, records leave no trace."""
    rng = np.random.default_rng(1)
    lifts = [lifted(0.5 * rng.uniform(-1, 1, (300, 3)) / 2) for _ in range(2)]
    points = [cap_points.cap_points(lift, 0.999, 2**64 - 1, 1.0, sampling.source(5)) for lift in lifts]
    np.testing.assert_array_equal(*points)
    np.testing.assert_allclose(np.linalg.norm(points[0], axis=1), 1.0, rtol=1e-14)


def test_the_chance_outside_is_realised_exactly():
    """One record, a cap that is never met: a point is kept where the last word is among the lowest 2^64 q."""
    chance = 2**63 + 5
    words = [1 << 61, 1 << 60]
    kept = [half for part in halves(*words, -(2**63)) for half in part]
    # Its upper half decides, or the lower one: then both are drawn.
    for last, drawn in ((4, 6), (5, 6), (2**32, 3), (-5, 6)):
        source = Words(*[half for part in halves(*words, last) for half in part][:drawn], *kept)
        cap_points.cap_points(np.array([[-1.0, 0.0]]), 0.9999, chance, 1.0, source)
        assert len(source.left) == (6 if last < 5 else 0)


def test_a_kernel_hands_out_trials_in_their_order():
    """Each record takes the first of those left that NumPy finds open to it; the others go to nobody or to the next."""
    mechanism, records = sd.SphericalCapMechanism(3.0, 1.0), 300
    rng = np.random.default_rng(3)
    lifts = lifted(rng.uniform(-1, 1, (records, 4)) / 2).astype(np.float32)
    rim, below = mechanism.rim(4), np.int32((chance_outside(mechanism.law, 5) - 2**63) >> 32)
    upper = rng.integers(-(2**31), 2**31, (7, 20 * draws.TRIALS), dtype=np.int32)
    places, slack = np.empty(records, dtype=np.int64), np.float32(directions.rough_deviation(5))
    count = draws.compiled("cap")(lifts, upper, np.float32(rim), slack, below, 2**20, places)
    assert 100 < count < records
    begin = 0
    for lift, place in zip(lifts, places[:count], strict=False):
        found = cap_points._may_be_kept(lift[:, None], upper[:, None, begin : place + 1], rim, below)[0]
        assert found[-1]
        assert not found[:-1].any()
        begin = place + 1
    left = cap_points._may_be_kept(lifts[count][:, None], upper[:, None, begin:], rim, below)
    assert not left.any()


# ---- the law ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "width", "records"), [(2.0, 2, 60_000), (5.0, 10, 20_000), (0.5, 1, 60_000), (3.0, 7, 40_000)]
)
@pytest.mark.parametrize("random_state", [2, None, "kernel"], ids=["seeded", "fresh", "by a kernel"])
def test_the_cosine_and_the_angle_have_their_law(epsilon, width, records, random_state, monkeypatch):
    mechanism = sd.SphericalCapMechanism(epsilon, 1.5)
    if random_state == "kernel":
        monkeypatch.setattr(draws, "MANY", 1)
        random_state = None
    assert cap_faults(mechanism, records=records, random_state=random_state, width=width) == []


@pytest.mark.in_turn
@pytest.mark.parametrize("random_state", [2, None], ids=["seeded", "fresh"])
@pytest.mark.parametrize("wrong", [CapLaw(2.1), CapLaw(1.9), CapLaw(2.0, 1.02 * CapLaw(2.0).rim(5)), CapLaw(2.0, 0.3)])
def test_a_wrong_epsilon_or_gamma_is_seen(wrong, random_state):
    mechanism = sd.SphericalCapMechanism(2.0, 1.0)
    assert "cap" in cap_faults(mechanism, records=100_000, random_state=random_state, claimed=wrong)


class Planted(sd.SphericalCapMechanism):
    """A cap whose draws are changed."""

    kind = "planted"

    def __init__(self, change, **arguments):
        super().__init__(**arguments)
        self._declare(change=change)

    def _add_noise(self, values, source):
        return self.change(super()._add_noise(values, source), values)


@pytest.mark.parametrize(
    "change",
    [
        lambda sent, values: sent + 0.02 * values,
        lambda sent, values: np.repeat(sent[::2], 2, axis=0),
        lambda sent, values: sent + 0.02 * np.abs(sent[:, ::-1]),
        lambda sent, values: np.abs(sent),
    ],
    ids=["the record shines through", "each point used twice", "turned", "one sign"],
)
def test_other_defects_are_seen(change):
    mechanism = Planted(change, epsilon=2.0, radius=1.0)
    assert cap_faults(mechanism, records=100_000, random_state=1) != []


def test_the_mean_is_the_record_times_the_first_factor():
    """At records inside the ball, too; 6 standard errors, false alarm below 1e-8 for ten numbers."""
    mechanism = sd.SphericalCapMechanism(3.0, 2.0)
    record = np.array([0.3, -1.0, 0.4, 0.2, 0.0])
    for random_state, records in ((0, 200_000), (None, 40_000)):
        sent = mechanism.privatize(np.tile(record, (records, 1)), random_state=random_state)
        wanted = mechanism.noise_on(5).gain * record
        assert np.all(np.abs(sent.mean(axis=0) - wanted) < 6 * sent.std(axis=0) / math.sqrt(records))
        assert np.linalg.norm(sent, axis=1).max() <= 2.0 * (1 + 1e-14)


def test_powers_are_unbiased_in_what_is_sent():
    """The whole chain from record to corrected power, 6 standard errors each."""
    mechanism, theta = sd.SphericalCapMechanism(4.0, 1.2), np.array([0.7, -0.2, 0.5])
    record = np.array([0.5, 0.6, -0.4])
    noise = mechanism.noise_on(3)
    s = noise.variance * float(theta @ theta)
    for random_state, records in ((0, 400_000), (None, 60_000)):
        sent = mechanism.privatize(np.tile(record, (records, 1)), random_state=random_state)
        u = sent @ theta / noise.gain
        for j in (1, 2, 3):
            values = sum(noise.table(3)[j, i] * s ** ((j - i) / 2) * u**i for i in range(j, -1, -2))
            assert abs(values.mean() - (theta @ record) ** j) < 6 * values.std() / math.sqrt(records)


def test_many_records_in_blocks_and_few():
    mechanism = sd.SphericalCapMechanism(1.0, 1.0)
    for records in (1, 2, 2048, 2049, 5000):
        sent = mechanism.privatize(np.full((records, 2), 0.5))
        assert sent.shape == (records, 2)
        assert len(np.unique(sent)) == sent.size


# ---- the guarantee ---------------------------------------------------------------------------------------


class WrongGamma(sd.SphericalCapMechanism):
    """The probability of the right cap on points of one that is a fifth smaller."""

    kind = "wrong gamma"

    def _add_noise(self, values, source):
        lifts = lifted(values.reshape(len(values), -1) / self.radius)
        dimension, law = lifts.shape[1], self.law
        wrong = CapLaw(self.epsilon, 1.2 * law.rim(dimension))
        share = wrong.share(dimension)
        points = sampling.simulated_cap_points(lifts, wrong.rim(dimension), share, law.chance_inside(dimension), source)
        return (self.radius * points[:, :-1]).reshape(values.shape)


class WrongEpsilon(sd.SphericalCapMechanism):
    """A claim of a fifth less than what is drawn."""

    kind = "wrong epsilon"

    @property
    def guarantee(self):
        return sd.Guarantee(self.epsilon / 1.2, 0.0)


@pytest.mark.parametrize("pair", [None, ([0.5, 0.2], [-0.3, 0.7]), ([0.0, 0.0], [1.0, 0.0])])
def test_the_exact_ratio_is_epsilon_for_any_two_records(pair):
    mechanism = sd.SphericalCapMechanism(2.0, 1.0)
    check = sd.checks.check_guarantee(mechanism, values=pair, method="exact")
    assert check.holds
    assert check.exact_epsilon == pytest.approx(2.0, rel=1e-12)


def test_a_wrong_epsilon_is_refuted_exactly():
    check = sd.checks.check_guarantee(WrongEpsilon(2.0, 1.0), method="exact")
    assert not check.holds


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", [WrongEpsilon, WrongGamma])
def test_a_cap_that_is_wrong_by_a_fifth_is_refuted_by_samples(kind):
    """At epsilon 2 and 1e5 samples of each; the right cap holds with confidence .999."""
    pair = ([1.0, 0.0], [-1.0, 0.0])
    wrong = sd.checks.check_guarantee(kind(2.0, 1.0), values=pair, samples=100_000, method="samples", random_state=0)
    assert not wrong.holds, str(wrong)
    right = sd.checks.check_guarantee(
        sd.SphericalCapMechanism(2.0, 1.0), values=pair, samples=100_000, method="samples", random_state=0
    )
    assert right.holds
    assert right.sampled_epsilon > 1.9


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("kind", "holds"), [(sd.SphericalCapMechanism, True), (WrongEpsilon, False), (WrongGamma, False)]
)
def test_the_audit_of_a_release_refutes_a_cap_that_is_wrong_by_a_fifth(kind, holds):
    """`audit` runs a program many times: here the release of one record, at epsilon 2 and 40,000 runs."""
    mechanism = kind(2.0, 1.0)
    runs = 40_000
    drawn = {
        sign: iter(mechanism.privatize(np.tile([sign, 0.0], (runs, 1)), random_state=int(2 + sign)))
        for sign in (1.0, -1.0)
    }

    def released(X, y, rng):
        return SimpleNamespace(theta=next(drawn[X[0][0]]), guarantee=mechanism.guarantee)

    check = sd.checks.audit(released, ([[1.0, 0.0]], None), ([[-1.0, 0.0]], None), runs=runs, random_state=0)
    assert check.holds == holds, str(check)


def test_no_point_is_ruled_out():
    """Points far outside the cap come at the rate that epsilon promises: binomial, false alarm 1e-7."""
    mechanism = sd.SphericalCapMechanism(3.0, 1.0)
    sent = mechanism.privatize(np.tile([1.0, 0.0], (50_000, 1)))
    law = mechanism.law
    opposite = np.count_nonzero(sent[:, 0] <= -law.rim(3))
    chance = law.share(3) * law.trials(3) * math.exp(-3.0)
    assert stats.binomtest(int(opposite), 50_000, chance).pvalue > 1e-7


# ---- cards, releases, refusals -------------------------------------------------------------------------------


def test_cards_and_releases():
    mechanism = sd.SphericalCapMechanism(epsilon=2.0, radius=1.5, gamma=0.5)
    assert mechanism.to_card() == {"epsilon": 2.0, "radius": 1.5, "gamma": 0.5}
    release = sd.Release(mechanism, sd.RandomizedResponse(1.0))
    noised = release.privatize([[0.3, 0.4], [0.1, 0.2]], [1, -1], random_state=0)
    assert noised.X.shape == (2, 2)
    again = sd.Release.from_json(noised.release.to_json())
    assert again == noised.release
    assert again.guarantee.epsilon == pytest.approx(3.0)
    assert json.loads(release.to_json())
    with pytest.raises(sd.exceptions.PrivacyError, match="seed"):
        _ = noised.guarantee
    assert "rounding included" in mechanism.guarantee.basis


def test_its_density_is_not_held_against_moments():
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match="point of a sphere"):
        sd.checks.check_unbiased(sd.SphericalCapMechanism(2.0, 1.0), sd.losses.logistic())
