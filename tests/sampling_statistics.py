"""Named statistical tests of noise, with stated false-alarm rates and what they can see.

Each function returns the names of the tests that fail. A test fails when its p-value is below `LEVEL`, so
that a right sampler is accused with probability below 1e-6 per call (at most eight tests each).

With 200,000 numbers the power exceeds 1 - 1e-6 for: a shift of .024 standard deviations; a scale wrong by
1.7%; a probability wrong by .012; a correlation of .027; a coordinate out of 70 without noise.
"""

import numpy as np
from scipy import stats

LEVEL = 1e-7
RECORDS = 200_000


def normal_faults(noise, scale):
    """Test noise of shape (n, k) against independent N(0, scale^2)."""
    noise = np.asarray(noise, dtype=float).reshape(len(noise), -1)
    if not np.isfinite(noise).all():
        return ["finite"]
    standard = noise / scale
    flat = standard.ravel()
    p_values = {
        "mean": two_sided(np.sqrt(flat.size) * flat.mean()),
        "variance": both_tails(stats.chi2(flat.size), np.sum(flat**2)),
        "distribution": stats.kstest(flat, "norm", method="asymp").pvalue,
        "bins": bins_p_value(flat),
        "coordinates": coordinates_p_value(standard),
        "next record": correlation_p_value(standard[1:].ravel(), standard[:-1].ravel()),
    }
    if standard.shape[1] > 1:
        left, right = standard[:, 1:].ravel(), standard[:, :-1].ravel()
        p_values["next coordinate"] = correlation_p_value(left, right)
        p_values["next coordinate's size"] = correlation_p_value(np.abs(left), np.abs(right))
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


def correlation_p_value(first, second):
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return two_sided(np.sqrt(len(first)) * np.corrcoef(first, second)[0, 1])


def bins_p_value(flat):
    """Chi-square over 38 bins of probability 1/40 and four in the tails."""
    probabilities = np.r_[0.0, 0.001, np.arange(1, 40) / 40, 0.999, 1.0]
    counts, _ = np.histogram(flat, bins=stats.norm.ppf(probabilities))
    return stats.chisquare(counts, flat.size * np.diff(probabilities)).pvalue


def coordinates_p_value(standard):
    """Each coordinate's sum of squares by itself, with Bonferroni's correction."""
    squares = np.sum(standard**2, axis=0)
    distribution = stats.chi2(len(standard))
    return min(1.0, standard.shape[1] * min(both_tails(distribution, square) for square in squares))
