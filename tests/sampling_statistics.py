"""Named statistical tests of noise, with stated false-alarm rates and what they can see.

Each function returns the names of the tests that fail. A test fails when its p-value is below `LEVEL`, so
that a right sampler is accused with probability below 1.5e-6 per call (at most twelve tests each).

With 200,000 numbers the power exceeds 1 - 1e-6 for: a shift of .024 standard deviations; a scale wrong by
1.7% where the law is normal, by 3% where its tails are exponential; a probability wrong by .012; a correlation of
.027; a coordinate out of 70 without noise.
"""

import functools
import math

import numpy as np
import sympy as sp
from scipy import stats

import symdebias as sd
from symdebias.noise import VALUE

LEVEL = 1e-7
RECORDS = 200_000
# Bins of probability 1/40, the outer ones cut again at 1/1000.
BINS = np.r_[0.001, np.arange(1, 40) / 40, 0.999]
# Of numbers and their ranks; means of them are held against those of the law.
STATISTICS = {
    "mean": lambda numbers, ranks: numbers,
    "size": lambda numbers, ranks: np.abs(numbers),
    "variance": lambda numbers, ranks: np.square(numbers),
    "coordinates": lambda numbers, ranks: np.square(ranks),
}


class Law:
    """The distribution of a coordinate of additive noise, tabled from the density that it declares and nothing else.

    Noise on a grid is tabled point by point; continuous noise, and noise of more than a thousand steps, by the cells of
    a mesh that reaches to 200 standard deviations.
    """

    def __init__(self, noise):
        density = sp.lambdify(VALUE, noise.density, "numpy")
        self.step, self.deviation = noise.step, math.sqrt(noise.variance)
        self.tabled = self.step is not None and self.deviation < 1000 * self.step
        if self.tabled:
            last = math.ceil(60 * self.deviation / self.step) + 2
            self.points = self.step * np.arange(-last, last + 1.0)
            masses = density(self.points)
        else:
            edges = self.deviation * np.sinh(np.linspace(-6, 6, 100_001))
            self.points = (edges[1:] + edges[:-1]) / 2
            masses = density(self.points) * np.diff(edges) / (self.step or 1.0)
        assert abs(masses.sum() - 1) < 1e-4
        self.masses = masses / masses.sum()
        self.below = np.cumsum(self.masses)
        self.middle = self.below - self.masses / 2

    def ranks(self, numbers):
        """Chances, from -1 to 1, of smaller numbers less those of larger ones: uniform where noise is continuous."""
        return 2 * np.interp(numbers, self.points, self.middle) - 1

    @functools.cached_property
    def moments(self):
        """The mean and the standard deviation of each statistic under the law."""
        moments = {}
        for name, statistic in STATISTICS.items():
            values = statistic(self.points, 2 * self.middle - 1)
            mean = self.masses @ values
            moments[name] = float(mean), math.sqrt(self.masses @ (values - mean) ** 2)
        return moments

    @functools.cached_property
    def bins(self):
        """The probability of each bin."""
        return np.bincount(np.searchsorted(BINS, self.middle), weights=self.masses, minlength=len(BINS) + 1)

    def sample(self, rng, shape=(RECORDS // 4, 4)):
        """Numbers of this law by its quantiles: another way than any sampler's."""
        uniform = rng.random(shape)
        if self.tabled:
            return self.points[np.minimum(np.searchsorted(self.below, uniform), len(self.points) - 1)]
        numbers = np.interp(uniform, self.middle, self.points)
        return numbers if self.step is None else self.step * np.rint(numbers / self.step)

    @functools.cached_property
    def odd(self):
        return float(self.masses[np.rint(self.points / self.step) % 2 == 1].sum()) if self.tabled else 0.5


law_of = functools.lru_cache(Law)


def faults(noise, law):
    """Test noise of shape (n, k) against independent numbers of a law."""
    noise = np.asarray(noise, dtype=float).reshape(len(noise), -1)
    if not np.isfinite(noise).all():
        return ["finite"]
    flat = noise.ravel()
    ranks = law.ranks(noise)
    p_values = {name: mean_p_value(flat, ranks.ravel(), law, name) for name in ("mean", "size", "variance")}
    columns = [mean_p_value(*pair, law, "coordinates") for pair in zip(noise.T, ranks.T, strict=True)]
    p_values |= {
        "bins": bins_p_value(ranks.ravel(), law),
        "coordinates": min(1.0, len(columns) * min(columns)),
        "next record": correlation_p_value(ranks[1:].ravel(), ranks[:-1].ravel()),
        "next record's size": correlation_p_value(np.abs(ranks[1:]).ravel(), np.abs(ranks[:-1]).ravel()),
    }
    if law.step is None:
        p_values["distribution"] = stats.kstest(ranks.ravel(), "uniform", args=(-1, 2), method="asymp").pvalue
    else:
        places = np.rint(flat / law.step)
        if not np.all(np.abs(flat / law.step - places) <= 1e-9 * np.maximum(1, np.abs(places))):
            return ["grid"]
        # The last bit, which coarse draws leave out.
        p_values["odd"] = rate_p_value(places % 2 == 1, law.odd)
    if noise.shape[1] > 1:
        left, right = ranks[:, 1:].ravel(), ranks[:, :-1].ravel()
        p_values["next coordinate"] = correlation_p_value(left, right)
        p_values["next coordinate's size"] = correlation_p_value(np.abs(left), np.abs(right))
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


def cap_faults(mechanism, *, records, random_state, width=4, claimed=None, direction=None):
    """Test what a spherical cap mechanism sends of one record on the sphere against its density.

    Cosines with the record, in bins of probability about 1/30 on either side of the rim, are crossed with six bins of
    the direction across it. With 100,000 records the power exceeds 1 - 1e-6 for an epsilon that is wrong by 5% at
    epsilon 2 and for a gamma that is wrong by 2%, which move the probability of a bin or of the cap by .01.

    Parameters
    ----------
    claimed : symdebias.mechanisms.cap_law.CapLaw, optional
        The law that is tested; that of the mechanism by default.
    direction : array of shape (width,), optional
        Where the record is, a vector of norm 1.
    """
    law, dimension = claimed or mechanism.law, width + 1
    if direction is None:
        direction = np.linspace(-1, 1, width) if width > 1 else np.ones(1)
        direction /= np.linalg.norm(direction)
    sent = mechanism.privatize(np.tile(mechanism.radius * direction, (records, 1)), random_state=random_state)
    half = (dimension - 1) / 2
    # The share of points with a larger cosine, and so the probability of such points.
    cosine = np.clip(sent @ direction / mechanism.radius, -1, 1)
    share, rim = stats.beta.cdf((1 - cosine) / 2, half, half), law.share(dimension)
    edges = np.r_[rim * np.arange(16) / 15, rim + (1 - rim) * np.arange(1, 16) / 15]
    chances = np.diff(edges) * law.density(dimension, np.r_[np.ones(15), -np.ones(15)])
    places = np.clip(np.searchsorted(edges, share) - 1, 0, 29)
    p_values = {"cap": stats.chisquare(np.bincount(places, minlength=30), records * chances / chances.sum()).pvalue}
    numbers = [share]
    if width > 1:
        across = np.linspace(1, 2, width) ** 2
        across -= (across @ direction) * direction
        across /= np.linalg.norm(across)
        # A coordinate of a uniform point on the sphere in R^(D - 1).
        angle = sent @ across / mechanism.radius / np.sqrt(np.maximum(1 - cosine**2, 1e-12))
        rank = stats.beta.cdf((1 + np.clip(angle, -1, 1)) / 2, half - 0.5, half - 0.5)
        cells = 6 * places + np.minimum((6 * rank).astype(int), 5)
        expected = records * np.repeat(chances / chances.sum(), 6) / 6
        p_values["cap and angle"] = stats.chisquare(np.bincount(cells, minlength=180), expected).pvalue
        numbers.append(rank)
    for place, line in enumerate(numbers):
        p_values[f"next record, {place}"] = correlation_p_value(line[1:], line[:-1])
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


def normal_faults(noise, scale):
    """Test noise of shape (n, k) against independent N(0, scale^2)."""
    return faults(np.asarray(noise) / scale, law_of(sd.GaussianMechanism.from_scale(1.0).noise))


def spherical_normals(noise, law):
    """Independent standard normal numbers made of vectors of spherical Laplace noise.

    The norm of the first d coordinates of a vector in D dimensions is that of the vector times the root of a number
    of the Beta law of d/2 and (D - d)/2. Of a uniform direction one coordinate over the norm of those that are left
    has the Beta law, scaled to [-1, 1], and the angle of the last two is uniform.
    """
    width, dimension = noise.shape[1], law.ambient
    norms = np.linalg.norm(noise, axis=1) / law.scale
    if dimension == width:
        uniform = [stats.gamma(dimension).cdf(norms)]
    else:
        shares = stats.beta(width / 2, (dimension - width) / 2).ppf((np.arange(20_000) + 0.5) / 20_000)
        # Close together in the tails, whose bins are narrow.
        places = np.quantile(norms, np.sin(np.linspace(0, np.pi / 2, 400)) ** 2)
        below = [stats.gamma(dimension).cdf(place / np.sqrt(shares)).mean() for place in places]
        uniform = [np.interp(norms, places, below)]
    for column in range(width - 2):
        left = np.linalg.norm(noise[:, column:], axis=1)
        beta = stats.beta((width - column - 1) / 2, (width - column - 1) / 2)
        uniform.append(beta.cdf((1 + noise[:, column] / left) / 2))
    uniform.append((np.arctan2(noise[:, -1], noise[:, -2]) / np.pi + 1) / 2)
    return stats.norm.ppf(np.clip(np.transpose(uniform), 1e-16, 1 - 1e-16))


def category_faults(places, rows, matrix):
    """Test places of outputs, of shape (n,), against independent draws from the rows of a matrix of probabilities."""
    p_values = {}
    for row, probabilities in enumerate(np.asarray(matrix)):
        drawn = places[rows == row]
        counts = np.bincount(drawn, minlength=len(probabilities))
        possible = probabilities > 0
        if counts[~possible].any():
            return [f"row {row}"]
        if possible.sum() > 1 and len(drawn):
            p_values[f"row {row}"] = stats.chisquare(counts[possible], probabilities[possible] * len(drawn)).pvalue
            drawn = drawn.astype(float)
            p_values[f"next of row {row}"] = correlation_p_value(drawn[1:], drawn[:-1])
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


def coin_faults(kept, labels, probability):
    """Test which labels were kept, of shape (n,), against independent coins."""
    p_values = {"rate": rate_p_value(kept, probability)}
    for value in np.unique(labels):
        p_values[f"rate of {value:g}"] = rate_p_value(kept[labels == value], probability)
    kept = kept.astype(float)
    if kept.std() > 0:
        p_values["next record"] = correlation_p_value(kept[1:], kept[:-1])
    return [name for name, p_value in p_values.items() if not p_value > LEVEL]


def two_sided(z):
    return 2 * stats.norm.sf(abs(z))


def both_tails(distribution, value):
    return 2 * min(distribution.cdf(value), distribution.sf(value))


def rate_p_value(kept, probability):
    return stats.binomtest(int(kept.sum()), len(kept), probability).pvalue


def mean_p_value(numbers, ranks, law, statistic):
    """The mean of a statistic against its mean and variance under the law."""
    expected, deviation = law.moments[statistic]
    mean = STATISTICS[statistic](numbers, ranks).mean()
    return two_sided((mean - expected) / deviation * math.sqrt(len(numbers)))


def correlation_p_value(first, second):
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return two_sided(np.sqrt(len(first)) * np.corrcoef(first, second)[0, 1])


def bins_p_value(ranks, law):
    """Chi-square over the bins; those that expect fewer than 20 numbers are one."""
    expected = len(ranks) * law.bins
    counts = np.bincount(np.searchsorted(BINS, (ranks + 1) / 2), minlength=len(BINS) + 1)
    rare = expected < 20
    if rare.any() and expected[rare].sum() > 0:
        expected, counts = (np.r_[cells[~rare], cells[rare].sum()] for cells in (expected, counts))
    elif rare.any():
        expected, counts = expected[~rare], counts[~rare]
    if counts.sum() != len(ranks):
        return 0.0
    if expected[-1] < 1:
        # Chi-square has no say over a cell that hardly expects one; Poisson's law has.
        rest = stats.poisson.sf(counts[-1] - 1, expected[-1])
        expected, counts = expected[:-1], counts[:-1]
        return min(1.0, 2 * min(rest, stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue))
    return stats.chisquare(counts, expected).pvalue
