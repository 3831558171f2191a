"""Samplers of hardened noise against their exact discrete laws: chi-square and Kolmogorov-Smirnov, at 1e7 draws.

The laws are worked out here from distribution functions of SciPy and the published densities, not by the package. A
cell is a run of integers of about 1/200 of the mass, the outer ones are cut again at 1/20,000. Chi-square fails below
`LEVEL`; Kolmogorov-Smirnov where 2 exp(-2 n D^2), which holds for every discrete law (Dvoretzky, Kiefer and Wolfowitz;
Massart), is below it. Each test has a false-alarm rate of 2e-9, the 34 of the long run together one below 1e-7. At 1e7
draws they see, with a probability above .95, a scale or a shift of .48% of the scale, 1 number of 2,800 that is 0,
noise cut off where 1/20,000 lies beyond, and a label's probability that is off by .6%; at the 2.5e5 draws of the quick
form 3.4%, 1 in 400, 1/200 and 4.5%, and at the 2.4e6 of coarse grids a scale that is off by 1%. These follow from chi-
square's noncentrality of 208; `test_defects_are_seen` plants them.
"""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

import symdebias as sd
from symdebias.checks import streams
from symdebias.mechanisms import rounded, sampling

LEVEL = 1e-9
QUICK, COARSE, LONG = 250_000, 2_400_000, 10_000_000
_BLOCK = 1_000_000
EPSILON, GAMMA = 1.0, 0.4


def staircase_cdf(x):
    """Distribution function of staircase noise of sensitivity 1: stairs of widths GAMMA and 1 - GAMMA."""
    b, size = math.exp(-EPSILON), np.abs(x)
    stair = GAMMA + b * (1 - GAMMA)
    level = (1 - b) / (2 * stair)
    whole = np.floor(size)
    part = size - whole
    mass = level * (
        stair * (1 - b**whole) / (1 - b) + b**whole * (np.minimum(part, GAMMA) + b * np.maximum(part - GAMMA, 0))
    )
    return 0.5 + np.sign(x) * mass


def staircase_quantile(chance):
    grid = np.linspace(-60, 60, 600_001)
    return np.interp(chance, staircase_cdf(grid), grid)


def geometric_cdf(scale, edges):
    """P(k <= x) of P(k) = (1 - q)/(1 + q) q^|k|, q = exp(-1/scale), at half-integers x."""
    q = math.exp(-1 / scale)
    k = np.floor(edges)
    return np.where(k >= 0, 1 - q ** (np.abs(k) + 1) / (1 + q), q ** np.maximum(-k, 0) / (1 + q))


# Name -> (draw of a scale, distribution function at half-integers, quantile); scales are in steps.
LAWS = {
    "Laplace": (rounded.laplace, lambda s, x: stats.laplace.cdf(x / s), lambda s, p: s * stats.laplace.ppf(p)),
    "normal": (rounded.normal, lambda s, x: special.ndtr(x / s), lambda s, p: s * special.ndtri(p)),
    "discrete Laplace": (rounded.discrete_laplace, geometric_cdf, lambda s, p: s * stats.laplace.ppf(p)),
    "staircase": (
        functools.partial(rounded.staircase, EPSILON, GAMMA), lambda s, x: staircase_cdf(x / s),
        lambda s, p: s * staircase_quantile(p),
    ),
    "spherical Laplace": (
        lambda s, shape, source: rounded.radial(s, shape[0], 3, 1, source)[:, 0],
        # In three dimensions a coordinate has the density (1 + |x|) exp(-|x|)/4: its tail is (2 + |x|) exp(-|x|)/4.
        lambda s, x: np.where(x < 0, 0, 1) - np.sign(x) * (2 + np.abs(x / s)) * np.exp(-np.abs(x / s)) / 4,
        lambda s, p: np.interp(p, _GRID_CDF, s * _GRID),
    ),
}  # fmt: skip
_GRID = np.linspace(-40, 40, 800_001)
_GRID_CDF = np.where(_GRID < 0, 0, 1) - np.where(_GRID < 0, -1, 1) * (2 + np.abs(_GRID)) * np.exp(-np.abs(_GRID)) / 4
SCALES = (1.0, 2.7, 40.0, 2.0**20, 1.7 * 2.0**21, 2.0**33 / 3)
CHANCES = np.r_[1 / 20_000, np.arange(1, 200) / 200, 1 - 1 / 20_000]


def cells(name, scale):
    """Ends of cells at half-integers, and the chance of each cell."""
    _, cdf, quantile = LAWS[name]
    edges = np.unique(np.floor(quantile(scale, CHANCES)) + 0.5)
    chances = np.diff(np.r_[0.0, cdf(scale, edges), 1.0])
    assert chances.min() >= 0
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    return edges, chances


def p_values(draw, edges, chances, draws):
    """Chi-square's p-value, and the bound on that of Kolmogorov and Smirnov."""
    counts = np.zeros(len(chances), dtype=np.int64)
    for start in range(0, draws, _BLOCK):
        drawn = draw(min(_BLOCK, draws - start))
        counts += np.bincount(np.searchsorted(edges, drawn), minlength=len(chances))
    expected = draws * chances
    enough = expected >= 5
    seen, wanted = (np.r_[line[enough], line[~enough].sum()] for line in (counts, expected))
    if wanted[-1] == 0:
        seen, wanted = seen[:-1], wanted[:-1]
    distance = np.abs(np.cumsum(counts) / draws - np.cumsum(chances)).max()
    return stats.chisquare(seen, wanted).pvalue, min(1.0, 2 * math.exp(-2 * draws * distance**2))


def check(name, scale, draws, source):
    draw = LAWS[name][0]
    found = p_values(lambda count: draw(scale, (count,), source), *cells(name, scale), draws)
    assert min(found) > LEVEL, found


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "scale", "draws"),
    [
        *((name, 2.7, COARSE) for name in LAWS),
        *((name, 1.7 * 2.0**21, QUICK) for name in LAWS),
        ("discrete Laplace", 0.2, COARSE),
    ],
)
def test_the_exact_law(name, scale, draws):
    """The quick form: false-alarm rate 2e-9 each; fresh bits, so that every run looks at another stream."""
    check(name, scale, draws, sampling.source(None))


@pytest.mark.exhaustive
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", LAWS)
def test_the_exact_law_at_ten_million_draws(name, scale):
    check(name, scale, LONG, sampling.source(None))


def test_the_exact_law_of_a_discrete_staircase():
    of_discrete_staircase(QUICK)


@pytest.mark.exhaustive
def test_the_exact_law_of_a_discrete_staircase_at_ten_million_draws():
    of_discrete_staircase(LONG)


def of_discrete_staircase(draws):
    """Places 0 to high - 1 of each stair of `steps` places are e^epsilon times as likely as those of the next one."""
    steps, high = 5, 2
    b = math.exp(-EPSILON)
    places = np.arange(-60, 61)
    level = (1 - b) / (2 * high - 1 + b * (2 * (steps - high) + 1))
    stair, place = np.divmod(np.abs(places), steps)
    chances = level * b ** (stair + (place >= high))
    edges = places + 0.5
    beyond = (1 - chances.sum()) / 2
    source = sampling.source(None)

    def found(begins):
        return p_values(
            lambda count: rounded.discrete_staircase(EPSILON, steps, begins, (count,), source),
            edges, np.r_[chances[0] + beyond, chances[1:], beyond], draws,
        )  # fmt: skip

    assert min(found(high)) > LEVEL
    assert min(found(high + 1)) < LEVEL


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["coin", "letters", "randomizer"])
def test_the_exact_law_of_labels_at_ten_million_draws(kind):
    of_labels(kind, LONG)


@pytest.mark.parametrize("kind", ["coin", "letters", "randomizer"])
def test_the_exact_law_of_labels(kind):
    of_labels(kind, QUICK)


def of_labels(kind, draws):
    """Chi-square of what is sent for the first label against e^epsilon/(e^epsilon + k - 1), or the realised row."""
    mechanism = {
        "coin": sd.RandomizedResponse(1.0),
        "letters": sd.RandomizedResponse(2.0, ("n", "e", "s", "w")),
        "randomizer": sd.labels.debiased_randomized_response(labels=(0, 1, 2), epsilon=1.0),
    }[kind]
    row = np.array(mechanism.noise.matrix[0])
    if kind != "randomizer":
        k, epsilon = len(row), mechanism.epsilon
        keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
        row = np.r_[keep, np.full(k - 1, (1 - keep) / (k - 1))]
    outputs = np.array(mechanism.noise.outputs)
    counts = np.zeros(len(row), dtype=np.int64)
    for _ in range(0, draws, QUICK):
        sent = mechanism.privatize(np.full(QUICK, mechanism.noise.inputs[0]))
        counts += np.array([np.count_nonzero(sent == output) for output in outputs])
    assert counts.sum() == draws
    assert stats.chisquare(counts, draws * row).pvalue > LEVEL
    # More than the .6% and 4.5% that are seen in 95 of 100 runs, so that none fails by chance.
    wrong = row * np.r_[1.05 if draws == QUICK else 1.008, np.ones(len(row) - 1)]
    assert stats.chisquare(counts, draws * wrong / wrong.sum()).pvalue < LEVEL


# What is planted, as a function of noise in steps and its scale, with the size at QUICK and at LONG.
DEFECTS = {
    "scale": (lambda noise, scale, size: np.rint(noise * (1 + size)), (0.034, 0.0048)),
    "less noise": (lambda noise, scale, size: np.rint(noise * (1 - size)), (0.034, 0.0048)),
    "shift": (lambda noise, scale, size: noise + np.rint(size * scale), (0.034, 0.0048)),
    "zeros": (
        lambda noise, scale, size: np.where(np.arange(len(noise)) % round(1 / size), noise, 0), (1 / 400, 1 / 2800),
    ),
    "cut off": (lambda noise, scale, size: np.clip(noise, -size * scale, size * scale), (5.3, 9.2)),
}  # fmt: skip


def seen(name, defect, draws):
    change, sizes = DEFECTS[defect]
    size = sizes[draws == LONG]
    scale = 1.7 * 2.0**21
    if defect == "cut off":
        # The quantile of the outermost cell, so that this cell is empty; 1e7 draws leave 500 in it.
        size = float(LAWS[name][2](1.0, 1 - 1 / 20_000 if draws == LONG else 1 - 1 / 200)) * 0.999
    source, draw = sampling.source(None), LAWS[name][0]
    wrong = lambda count: change(draw(scale, (count,), source), scale, size)  # noqa: E731
    return min(p_values(wrong, *cells(name, scale), draws)) < LEVEL


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("name", ["Laplace", "normal"])
def test_defects_are_seen(name, defect):
    """The tests can fail: each planted defect of the size stated above is seen at the quick form's draws."""
    assert seen(name, defect, QUICK)


@pytest.mark.exhaustive
@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("name", ["Laplace", "normal", "discrete Laplace"])
def test_smaller_defects_are_seen_at_ten_million_draws(name, defect):
    assert seen(name, defect, LONG)


# ---- streams --------------------------------------------------------------------------------------------------------


def of_streams(rows, mechanism=sd.LaplaceMechanism(1.0, bounds=(0.0, 1.0))):  # noqa: B008
    """Streams of calls, threads, a fork and this process after it: no run of numbers comes twice, signs are fair.

    Two runs of 4 numbers on a grid of 2^-20 of the scale agree with a probability of 2^-80 or so; with 1.2e6 numbers
    the false-alarm rate is below 1e-11, and one run of 4 that is used twice is seen for certain. Signs of two streams
    agree by a fair coin, at a rate of 1e-9: a correlation of .03 is seen with 20,000 numbers, of .004 with a million.
    """
    found = streams.collect(lambda: mechanism.privatize(np.zeros(rows))[:, None])
    assert found.forked
    lines = {name: sent[:, 0] for name, sent in found.sent.items()}
    assert len(lines) == 6
    assert streams.repeated_windows(list(lines.values()), 4) == 0
    for one, other in itertools.combinations(lines, 2):
        agree = int(np.count_nonzero(lines[one] * lines[other] > 0))
        apart = int(np.count_nonzero(lines[one] * lines[other] != 0))
        assert stats.binomtest(agree, apart, 0.5).pvalue > 1e-9, (one, other)


def test_threads_and_processes_draw_independently():
    of_streams(20_000)
    of_streams(20_000, sd.GaussianMechanism.from_scale(1.0))  # plain noise


@pytest.mark.exhaustive
def test_threads_and_processes_draw_independently_a_million_times():
    of_streams(1_000_000)


@pytest.mark.parametrize("rows", [3, 5000])
def test_no_bits_are_used_again_after_a_fork(rows):
    """Draws before the fork may leave bits behind: neither process uses them, nor the same ones (rate 2^-40)."""
    mechanism = sd.GaussianMechanism(1.0, 1e-5, 1.0)
    before = mechanism.privatize(np.zeros((rows, 2)))
    found = streams.collect(lambda: mechanism.privatize(np.zeros((1000, 2))))
    child, parent = found.sent["a forked process"], found.sent["this process after the fork"]
    lines = [before.ravel(), child.ravel(), parent.ravel()]
    assert streams.repeated_windows(lines, 4) == 0
    assert np.count_nonzero(child == parent) < 3
