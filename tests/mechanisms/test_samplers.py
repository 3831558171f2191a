"""Every mechanism draws the noise that it declares, and the tests that say so see what can go wrong with a draw."""

import math
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sympy as sp
from instances import MECHANISMS, values_within
from sampling_statistics import (
    RECORDS,
    Law,
    cap_faults,
    category_faults,
    coin_faults,
    faults,
    law_of,
    normal_faults,
    spherical_normals,
)
from scipy import stats

import symdebias as sd
from symdebias.mechanisms import KINDS, GaussianMechanism, RandomizedResponse, sampling
from symdebias.noise import VALUE, AdditiveNoise, ChannelNoise, ClippedNoise, SphericalNoise
from symdebias.zonal import ZonalNoise

every = pytest.mark.parametrize("name", MECHANISMS)


def sampler_faults(mechanism, random_state, *, records=RECORDS):
    """The tests that fail of what a mechanism sends, by the noise that it declares."""
    noise, width = mechanism.noise, mechanism.width or 4
    if isinstance(noise, ClippedNoise):
        # The draw is that of the mechanism inside, and clipped: its law is tested by itself.
        values = values_within(mechanism, 1000)
        plain = mechanism.mechanism.privatize(values, random_state=0)
        same = np.array_equal(mechanism.privatize(values, random_state=0), np.clip(plain, noise.low, noise.high))
        return sampler_faults(mechanism.mechanism, random_state) if same else ["clipped"]
    if isinstance(noise, ZonalNoise):
        return cap_faults(mechanism, records=records // 2, random_state=random_state)
    values = values_within(mechanism, records if mechanism.width == 1 else records // width)
    if mechanism.width is None:
        values = np.tile(values[:, None], width)
    sent = mechanism.privatize(values, random_state=random_state)
    if isinstance(noise, ChannelNoise):
        rows, places = (
            (column[:, None] == np.array(known)).argmax(axis=1)
            for column, known in ((values, noise.inputs), (sent, noise.outputs))
        )
        assert np.isin(sent, noise.outputs).all()
        return category_faults(places, rows, noise.matrix)
    drawn = sent - values
    if isinstance(mechanism.noise_on(width), SphericalNoise):
        return normal_faults(spherical_normals(drawn, mechanism.noise_on(width)), 1.0)
    if noise.covariance is None:
        return faults(drawn, law_of(noise))
    variances, vectors = np.linalg.eigh(np.array(noise.covariance))
    assert np.all((drawn @ vectors)[:, variances <= 0] == 0)
    return normal_faults((drawn @ vectors)[:, variances > 0] / np.sqrt(variances[variances > 0]), 1.0)


@pytest.mark.in_turn
@every
@pytest.mark.parametrize("random_state", [1, None], ids=["seeded", "fresh"])
def test_noise_has_the_law_that_is_declared(name, random_state):
    assert sampler_faults(MECHANISMS[name], random_state) == []


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [
        (GaussianMechanism.from_scale(0.7), stats.norm(scale=0.7).pdf),
        (sd.LaplaceMechanism.from_scale(0.7), stats.laplace(scale=0.7).pdf),
        (sd.UniformMechanism(0.7), stats.uniform(-0.7, 1.4).pdf),
        (sd.DiscreteLaplaceMechanism.from_scale(0.7), stats.dlaplace(1 / 0.7).pmf),
    ],
    ids=["normal", "Laplace", "uniform", "discrete Laplace"],
)
def test_the_laws_are_those_of_scipy(mechanism, law):
    """Those that SciPy has; staircases are written down a second time in files of their own."""
    density = sp.lambdify(VALUE, mechanism.noise.density, "numpy")
    points = np.arange(-5, 6) if mechanism.noise.step else np.linspace(-5, 5, 1000)
    np.testing.assert_allclose(density(points), law(points), rtol=1e-12)


FURTHER = [
    *(GaussianMechanism.from_scale(scale) for scale in (1e-6, 0.05, 7.5, 1e9)),
    *(sd.LaplaceMechanism.from_scale(scale) for scale in (1e-9, 0.7, 7.5, 1e9)),
    *(sd.DiscreteLaplaceMechanism.from_scale(scale) for scale in (0.25, 1.0, 400.0, 1e6, 2.0**32)),
    *(sd.DiscreteLaplaceMechanism(2.0, bounds=(-3 * step, 5 * step), step=step) for step in (0.1, 3.0, 1e-50)),
    *(
        sd.StaircaseMechanism(epsilon, bounds=(-1.0, 1.0), gamma=gamma)
        for epsilon in (0.05, 0.5, 2.0, 8.0)
        for gamma in (None, 0.2, 0.9)
    ),
    *(sd.StaircaseMechanism(1.0, bounds=(0.0, high)) for high in (1e-9, 1e9)),
    *(
        sd.DiscreteStaircaseMechanism(epsilon, bounds=(0, steps), r=r)
        for epsilon, steps, r in ((0.5, 1, 1), (0.5, 4, 2), (2.0, 5, 5), (5.0, 3, 1))
    ),
    *(sd.UniformMechanism(half_width) for half_width in (1e-9, 0.3, 1e9)),
    *(RandomizedResponse(epsilon, range(k)) for epsilon in (1e-3, 0.1, 3.0, 8.0) for k in (2, 4)),
]


@pytest.mark.newest
@pytest.mark.in_turn
@pytest.mark.parametrize("mechanism", FURTHER, ids=repr)
def test_noise_of_other_scales_and_budgets_has_its_law(mechanism):
    assert sampler_faults(mechanism, 2) == []


@every
def test_a_seed_repeats_its_absence_does_not_and_a_generator_moves_on(name):
    mechanism = MECHANISMS[name]
    values = values_within(mechanism, 200)
    first = mechanism.privatize(values, random_state=3)
    assert np.array_equal(first, mechanism.privatize(values, random_state=3))
    assert not np.array_equal(mechanism.privatize(values), mechanism.privatize(values))
    generator = np.random.default_rng(3)
    mechanism.privatize(values, random_state=generator)
    assert not np.array_equal(first, mechanism.privatize(values, random_state=generator))


# ---- planted defects -------------------------------------------------------------------------------------

# The first of each kind with additive noise; what columns share has planted defects in a file of its own.
SOUND = {
    kind: next(m for m in MECHANISMS.values() if m.kind == kind)
    for kind in KINDS
    if isinstance(next(m for m in MECHANISMS.values() if m.kind == kind).noise_on(2), AdditiveNoise)
}
# One coordinate is like another; and of few steps, where rounded continuous noise is not the same.
SOUND |= {
    "input_perturbation": GaussianMechanism.from_scale(4.0),
    "discrete_laplace": sd.DiscreteLaplaceMechanism.from_scale(3.0),
}
ANY = {
    "last coordinate without noise": lambda x, law: x * [1, 1, 1, 0],
    "one number for two coordinates": lambda x, law: x[:, [0, 1, 2, 2]],
    "opposite numbers for two coordinates": lambda x, law: x[:, [0, 1, 2, 2]] * [1, 1, 1, -1],
    "each record's noise used twice": lambda x, law: np.repeat(x[::2], 2, axis=0),
    "same seed for every record": lambda x, law: np.tile(x[:1], (len(x), 1)),
    "shifted": lambda x, law: x + (law.step or 0.05 * law.deviation),
    "one sign": lambda x, law: np.abs(x),
    "more of one sign": lambda x, law: np.where(np.random.default_rng(4).random(x.shape) < 0.04, np.abs(x), x),
    "no tails": lambda x, law: np.clip(x, *np.quantile(x, [0.02, 0.98])),
    "NaN": lambda x, law: np.full_like(x, np.nan),
    "no noise": lambda x, law: np.zeros_like(x),
}
CONTINUOUS = {
    "scale x1.05": lambda x, law: 1.05 * x,
    "scale /1.05": lambda x, law: x / 1.05,
    "sensitivity halved": lambda x, law: x / 2,
    "first coordinate at half the noise": lambda x, law: x * [0.5, 1, 1, 1],
    "rounded to a tenth": lambda x, law: np.round(x / law.deviation, 1) * law.deviation,
    "normal of the same variance": lambda x, law: np.random.default_rng(5).normal(scale=law.deviation, size=x.shape),
}
ON_A_GRID = {
    "half a step": lambda x, law: x + law.step / 2,
    "even numbers only": lambda x, law: 2 * law.step * np.rint(x / (2 * law.step)),
    "rounded Laplace": lambda x, law: np.rint(
        np.random.default_rng(6).laplace(scale=law.deviation / 2**0.5, size=x.shape)
    ),
}


def drawn_otherwise(mechanism):
    """Numbers of the law of another mechanism."""
    return lambda x, law: law_of(mechanism.noise).sample(np.random.default_rng(7))


def geometric(scale):
    return np.random.default_rng(8).geometric(-math.expm1(-1 / scale), (RECORDS // 4, 4)) - 1


def low_steps(share):
    """Staircase noise of epsilon 2 and sensitivity 1, a share of which is on the lower step."""

    def draw(x, law):
        rng, gamma = np.random.default_rng(9), SOUND["staircase"].gamma
        inside = rng.random(x.shape)
        place = np.where(rng.random(x.shape) < share, gamma + (1 - gamma) * inside, gamma * inside)
        return rng.choice([-1.0, 1.0], x.shape) * (np.floor(np.log(rng.random(x.shape)) / -2.0) + place)

    return draw


GAMMA = SOUND["staircase"].gamma
SCALE = SOUND["gaussian"].scale
OF_A_KIND = {
    "gaussian": {
        "sensitivity of add-remove for the joint pair": lambda x, law: x / np.sqrt(2),
        "Laplace of the same variance": drawn_otherwise(sd.LaplaceMechanism.from_scale(SCALE / 2**0.5)),
        "uniform of the same variance": drawn_otherwise(sd.UniformMechanism(SCALE * 3**0.5)),
        "sum of four uniforms": lambda x, law: np.random.default_rng(6).uniform(-1, 1, (4, *x.shape)).sum(0) * SCALE
        * 0.75**0.5,
    },
    "laplace": {"standard deviation taken for the scale": lambda x, law: x / np.sqrt(2)},
    "uniform": {
        "from 0 on": lambda x, law: x / 2 + 0.25,
        "triangular": lambda x, law: np.random.default_rng(5).triangular(-0.5, 0, 0.5, x.shape),
    },
    "staircase": {
        "epsilon x1.05": drawn_otherwise(sd.StaircaseMechanism(2.1, bounds=(0, 1))),
        "wrong gamma": drawn_otherwise(sd.StaircaseMechanism(2.0, bounds=(0, 1), gamma=GAMMA + 0.02)),
        "gamma of epsilon instead of its half": drawn_otherwise(
            sd.StaircaseMechanism(2.0, bounds=(0, 1), gamma=1 / (1 + math.exp(2.0)))
        ),
        "gamma and 1 - gamma exchanged": drawn_otherwise(sd.StaircaseMechanism(2.0, bounds=(0, 1), gamma=1 - GAMMA)),
        "Laplace of the same budget": drawn_otherwise(sd.LaplaceMechanism(2.0, bounds=(0, 1))),
        "low and high exchanged": low_steps(GAMMA / (GAMMA + (1 - GAMMA) * math.exp(-2.0))),
        "no low steps": low_steps(0.0),
        "low steps without their factor": low_steps(1 - GAMMA),
        "stairs counted from one": lambda x, law: x + np.sign(x),
        "stairs without what is inside": lambda x, law: np.trunc(x),
    },
    "discrete_laplace": {
        "scale x1.05": drawn_otherwise(sd.DiscreteLaplaceMechanism.from_scale(3.15)),
        "scale /1.05": drawn_otherwise(sd.DiscreteLaplaceMechanism.from_scale(3 / 1.05)),
        "sensitivity halved": drawn_otherwise(sd.DiscreteLaplaceMechanism.from_scale(1.5)),
        "one geometric number with a sign": lambda x, law: geometric(3.0)
        * np.random.default_rng(5).choice([-1, 1], x.shape),
        "one-sided": lambda x, law: geometric(3.0),
    },
    "discrete_staircase": {
        "epsilon x1.05": drawn_otherwise(sd.DiscreteStaircaseMechanism(2.1, bounds=(0, 10), r=4)),
        "sensitivity one less": drawn_otherwise(sd.DiscreteStaircaseMechanism(2.0, bounds=(0, 9), r=4)),
        "r one more": drawn_otherwise(sd.DiscreteStaircaseMechanism(2.0, bounds=(0, 10), r=5)),
        "r one less": drawn_otherwise(sd.DiscreteStaircaseMechanism(2.0, bounds=(0, 10), r=3)),
        "zero twice as likely": lambda x, law: np.where(
            np.random.default_rng(4).random(x.shape) < np.mean(x == 0), 0.0, x
        ),
    },
}  # fmt: skip


def defects(kind):
    return ANY | (CONTINUOUS if SOUND[kind].noise.step is None else ON_A_GRID) | OF_A_KIND.get(kind, {})


@pytest.mark.parametrize("kind", SOUND)
def test_the_planted_defects_start_from_a_sound_sample(kind):
    law = law_of(SOUND[kind].noise)
    assert faults(law.sample(np.random.default_rng(3)), law) == []


@pytest.mark.newest
@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("kind", "defect"),
    [
        (kind, defect)
        for kind in SOUND
        for defect in defects(kind)
        # Squares of normal numbers of the same variance are normal numbers.
        if (SOUND[kind].noise.is_gaussian, defect) != (True, "normal of the same variance")
    ],
)
def test_a_defect_of_a_sampler_is_seen(kind, defect):
    law = law_of(SOUND[kind].noise)
    assert faults(defects(kind)[defect](law.sample(np.random.default_rng(3)), law), law)


def test_cut_off_and_coarse_draws_of_a_large_scale_are_seen():
    law = Law(sd.DiscreteLaplaceMechanism.from_scale(1e6).noise)
    sound = law.sample(np.random.default_rng(3))
    assert faults(sound, law) == []
    assert faults(2 * (sound // 2), law)
    assert faults(np.clip(sound, -(2**22), 2**22), law)


# ---- coins and categories --------------------------------------------------------------------------------


def labels_of(count, seed=0):
    return np.where(np.random.default_rng(seed).random(count) < 0.3, -1.0, 1.0)


UNIFORM = np.random.default_rng(7).random(RECORDS)
KEEP = RandomizedResponse(epsilon=1.0).keep_probability
COIN_DEFECTS = {
    "rate .012 too high": UNIFORM < KEEP + 0.012,
    "rate .012 too low": UNIFORM < KEEP - 0.012,
    "epsilon 2.55 for 1": UNIFORM < 1 / (1 + np.exp(-2.55)),
    "keep or draw anew": UNIFORM < KEEP + (1 - KEEP) / 2,
    "always kept": UNIFORM < 2,
    "never kept": UNIFORM < 0,
    "keep and flip exchanged": UNIFORM >= KEEP,
    "only one label is noised": (labels_of(RECORDS) < 0) | (UNIFORM < KEEP),
    "rates differ by label": np.where(labels_of(RECORDS) < 0, UNIFORM < KEEP + 0.02, UNIFORM < KEEP - 0.02 * 3 / 7),
    "each coin used twice": np.repeat(UNIFORM[::2], 2) < KEEP,
}


def as_categories(kept):
    """The same coins as draws from a channel: the place of each label's own output, or the other one's."""
    rows = (labels_of(RECORDS) > 0).astype(int)
    return category_faults(np.where(kept, rows, 1 - rows), rows, [[KEEP, 1 - KEEP], [1 - KEEP, KEEP]])


def test_the_planted_coins_start_from_a_sound_sample():
    assert coin_faults(UNIFORM < KEEP, labels_of(RECORDS), KEEP) == []
    assert as_categories(UNIFORM < KEEP) == []


@pytest.mark.parametrize("defect", COIN_DEFECTS)
def test_a_defect_of_the_coin_is_seen(defect):
    assert coin_faults(COIN_DEFECTS[defect], labels_of(RECORDS), KEEP)
    assert as_categories(COIN_DEFECTS[defect])


@pytest.mark.parametrize("count", [1, 2, 7, 70])
def test_every_label_can_flip(count):
    mechanism = RandomizedResponse(epsilon=1e-6)
    rng = np.random.default_rng(count)
    # A coin of 1/2 that never falls in 200 throws: 70 labels, false-alarm rate below 1e-55.
    flipped = sum(mechanism.privatize(np.ones(count), random_state=rng) < 0 for _ in range(200))
    assert np.all(flipped > 0)
    assert np.all(flipped < 200)


MATRIX = np.array([[0.7, 0.2, 0.1], [0.0, 0.3, 0.7], [1.0, 0.0, 0.0]])


def test_categories_have_the_probabilities_of_their_rows():
    rows = np.random.default_rng(0).integers(0, 3, RECORDS)
    places = sampling.categories(MATRIX, rows, sampling.source(1))
    assert category_faults(places, rows, MATRIX) == []
    assert category_faults(places, rows, MATRIX[[0, 1, 0]])
    assert category_faults(places, rows, MATRIX[[0, 1, 1]]) == ["row 2"]
    assert category_faults(places, rows, MATRIX + np.array([[0.012, -0.012, 0], [0, 0, 0], [0, 0, 0]])) == ["row 0"]


def test_no_draw_falls_off_the_end_or_on_an_output_without_probability():
    class Largest:
        def random(self, count):
            return np.full(count, 1 - 2.0**-53)

    class Least:
        def random(self, count):
            return np.zeros(count)

    source = sampling.Source(Largest(), seeded=True, hardened=False)
    tenths = np.array([[0.1] * 10 + [0.0], [0.5, 0.5] + [0.0] * 9])
    assert tenths[0].cumsum()[-1] < 1
    assert sampling.categories(tenths, np.array([0, 1, 0]), source).tolist() == [9, 1, 9]
    assert sampling.categories(
        MATRIX, np.arange(3), sampling.Source(Least(), seeded=True, hardened=False)
    ).tolist() == [0, 1, 0]


def test_no_records_and_one_row():
    source = sampling.source(0)
    assert sampling.categories(MATRIX, np.array([], dtype=np.int64), source).shape == (0,)
    assert sampling.categories(np.ones((1, 1)), np.zeros(5, dtype=np.int64), source).tolist() == [0] * 5


def test_the_coin_is_exact_at_multiples_of_its_unit():
    class Uniform:
        def random(self, count):
            return np.arange(count) / 8

    coins = sampling.flips(0.375, 8, sampling.Source(Uniform(), seeded=True, hardened=False))
    assert coins.tolist() == [True] * 3 + [False] * 5


# ---- streams ---------------------------------------------------------------------------------------------


# ---- coins -----------------------------------------------------------------------------------------------


class Counted(sampling.Source):
    """Bits that were written down before."""

    def __init__(self, octets, words):
        super().__init__(np.random.default_rng(0), seeded=False, hardened=True)
        object.__setattr__(self, "given", (octets, words))

    def octets(self, count):
        return np.array(self.given[0], dtype=np.uint8)

    def words(self, count):
        assert count == len(self.given[1])
        return np.array(self.given[1], dtype=np.uint64).view(np.int64)


@pytest.mark.parametrize("units", [1, 2**45 - 1, 2**45, 2**45 + 1, 3 * 2**50 + 12345, 2**53 - 1])
def test_a_coin_is_a_comparison_of_53_bits(units):
    """All octets, and the words about the threshold: what is below it in 53 bits is True, and nothing else."""
    first, rest = divmod(units, 2**45)
    for low in {0, max(rest - 1, 0), rest, min(rest + 1, 2**45 - 1), 2**45 - 1}:
        source = Counted(range(256), [low << 19 | 12345])
        found = sampling.flips(units / 2**53, 256, source)
        # The other 45 bits are only asked for where the first eight tie.
        exact = [(octet << 45 | (low if octet == first else 0)) < units for octet in range(256)]
        np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("probability", [0.0, 2.0**-60, 0.25, 0.2689, 1 - 2.0**-53, 1.0])
def test_coins_have_their_probability(probability):
    """4 million coins at a level of 1e-7: a probability wrong by .0013 at a half is seen, and a correlation of .003."""
    coins = sampling.flips(probability, 4_000_000, sampling.source(None))
    expected = math.ceil(probability * 2**53) / 2**53
    if expected in (0.0, 1.0):
        assert np.all(coins == bool(expected))
    elif 1e-6 < expected < 1 - 1e-6:
        assert coin_faults(coins, np.arange(len(coins)) % 7, expected) == []
    else:
        assert np.sum(coins) in ({0, 1} if expected < 0.5 else {len(coins) - 1, len(coins)})


@pytest.mark.parametrize("pair", [(-1.0, 1.0), (0.0, 1.0), (-0.0, 7.3), (-1e-300, 1e300)])
def test_two_values_are_exchanged_to_the_last_bit(pair):
    values = np.tile([*pair, -pair[0] if pair[0] == 0 else pair[0]], 30_000)
    changed = sampling.swapped(values, pair, 1.0, sampling.source(None))
    np.testing.assert_array_equal(changed, np.where(values == pair[0], pair[1], pair[0]))
    np.testing.assert_array_equal(sampling.swapped(values, pair, 0.0, sampling.source(None)), values)
    assert not np.any(np.signbit(changed[changed == 0]))
    mixed = sampling.swapped(values, pair, 0.3, sampling.source(None))
    assert set(mixed) <= set(pair)
    assert coin_faults(mixed != values, (values == pair[0]).astype(int), 0.3) == []


def test_bits_are_used_once():
    source = sampling.source(None)
    drawn = np.concatenate([source.words(1_000_000), source.words(10), sampling.source(None).words(10)])
    assert len(np.unique(drawn)) == len(drawn)


FORKED_WORDS = """
import os, sys
from symdebias.mechanisms import sampling
before = sampling.source(None)
before.words(10)
for _ in range(4):
    if os.fork() == 0:
        os.write(1, (" ".join(map(str, before.words(500).tolist())) + "\\n").encode())
        os._exit(0)
    os.wait()
os.write(1, (" ".join(map(str, before.words(500).tolist())) + "\\n").encode())
"""


def test_no_bits_are_shared_by_forked_processes_or_threads():
    """A source that was made and used before the fork: 2,500 words of five processes, and 40,000 of eight threads."""
    output = subprocess.run([sys.executable, "-c", FORKED_WORDS], capture_output=True, text=True, check=True).stdout
    words = output.split()
    assert (len(words), len(set(words))) == (2500, 2500)
    source = sampling.source(None)
    with ThreadPoolExecutor(8) as pool:
        drawn = np.concatenate(list(pool.map(lambda _: source.words(5000), range(8))))
    assert len(np.unique(drawn)) == 40_000


@pytest.mark.parametrize("noise", ["hardened", "plain"])
def test_all_orders_are_alike(noise):
    source = sampling.source(0, noise=noise)
    counts = Counter(tuple(sampling.permutation(4, source).tolist()) for _ in range(24_000))
    assert len(counts) == math.factorial(4)
    assert stats.chisquare(list(counts.values())).pvalue > 1e-6
    assert sorted(sampling.permutation(1000, sampling.source(None, noise=noise)).tolist()) == list(range(1000))
