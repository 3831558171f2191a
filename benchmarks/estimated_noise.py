"""Do 95% intervals cover where the noise was estimated from few records? Least squares, Poisson and the log loss.

    python benchmarks/estimated_noise.py [--draws 1000]

A record has a column x that is measured with normal error of standard deviation 0.8 (0.6 for the log loss), a column z
of correlation 0.5 with it that is known, and an intercept; both have variance 1. The noise is estimated from
* replicates: m of the n records were measured twice, the others once; fitted are the means, with a scale per record;
* means of 2: all n records were measured twice, and the noise is that of the mean;
* validation: true x of m records, which stand in the fit without noise;
* reliability: the ratio is known, and times the variance of the measurements of the same records.
Columns: coverage for x and z by intervals that take the estimated noise as known, and by `confidence_interval`, in
percent; the largest share of a variance that is due to the estimate; and the draws without intervals, refused by a test
of the validation records (one in 500) or by the fit.
"""

import argparse

import numpy as np
from scipy.special import expit

import symdebias as sd
from symdebias.exceptions import SymdebiasError

THETA = np.array([0.7, -0.4, 0.2])
CASES = [
    *(("least_squares", "replicates", 2_000, m) for m in (10, 30, 100, 200)),
    ("least_squares", "means of 2", 200, 200),
    *(("least_squares", "validation", 2_000, m) for m in (30, 200)),
    ("least_squares", "reliability", 2_000, 2_000),
    *(("poisson", "replicates", 2_000, m) for m in (30, 200)),
    ("poisson", "validation", 2_000, 200),
    *(("logistic", "replicates", 5_000, m) for m in (30, 200)),
    ("logistic", "validation", 5_000, 200),
]


def draw(rng, loss, n):
    """Return true columns and targets."""
    x = rng.normal(size=n)
    z = 0.5 * x + 0.75**0.5 * rng.normal(size=n)
    score = np.column_stack([x, z, np.ones(n)]) @ THETA
    if loss == "poisson":
        return x, z, rng.poisson(np.exp(score)).astype(float)
    if loss == "logistic":
        return x, z, np.where(rng.random(n) < expit(2 * score), 1.0, -1.0)
    return x, z, score + 0.5 * rng.normal(size=n)


def measured(rng, x, source, m, scale):
    """Return the column that is fitted, the mechanism of its noise, and noise scales of the records or None."""
    error = sd.GaussianMechanism
    if source == "validation":
        w = x + scale * rng.normal(size=len(x))
        found = error.from_validation(w[:m], x[:m])
        known = np.arange(len(x)) < m
        return np.where(known, x, w), found, np.where(known, 0.0, found.scale)
    if source == "reliability":
        w = x + scale * rng.normal(size=len(x))
        return w, error.from_reliability(1 / (1 + scale**2), variance=w.var(ddof=1)), None
    twice = x[:, None] + scale * rng.normal(size=(len(x), 2))
    twice[m:, 1] = np.nan
    found, counts = error.from_replicates(twice), np.isfinite(twice).sum(axis=1)
    if source == "means of 2":
        return twice.mean(axis=1), found.of_mean(2), None
    return np.nanmean(twice, axis=1), found, found.scale / np.sqrt(counts)


def coverage(loss, source, n, m, draws, seed=0):
    """Return coverage by noise as known and as stated, each of shape (2,), the mean share, and the rate of refusals."""
    rng = np.random.default_rng(seed)
    covered, shares, fitted = np.zeros((2, 2)), [], 0
    truth = THETA[:2] * (2.0 if loss == "logistic" else 1.0)
    scale = 0.6 if loss == "logistic" else 0.8
    for _ in range(draws):
        x, z, y = draw(rng, loss, n)
        try:
            w, error, scales = measured(rng, x, source, m, scale)
            both = []
            for one in (sd.GaussianMechanism.from_scale(error.scale), error):
                release = sd.Release({"x": one}, noiseless=("z",), fit_intercept=True)
                corrected = sd.debias(getattr(sd.losses, loss)(), release)
                fit = sd.m_estimate(corrected, np.column_stack([w, z]), y, noise_scale=scales)
                low, high = fit.confidence_interval()[:2].T
                both.append(((low <= truth) & (truth <= high), np.diag(fit.covariance)))
        except (SymdebiasError, ValueError):
            continue
        fitted += 1
        covered += [both[0][0], both[1][0]]
        shares.append(np.max(1 - both[0][1] / both[1][1]))
    return *(covered / max(fitted, 1)), float(np.mean(shares or 0.0)), 1 - fitted / draws


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    print(f"{'loss':<15}{'noise from':<14}{'n':>6}{'m':>6}{'as known':>14}{'stated':>14}{'share':>8}{'refused':>9}")
    for loss, source, n, m in CASES:
        known, stated, share, refused = coverage(loss, source, n, m, draws)
        print(
            f"{loss:<15}{source:<14}{n:>6}{m:>6}{''.join(f'{100 * one:>7.1f}' for one in known)}"
            f"{''.join(f'{100 * one:>7.1f}' for one in stated)}{share:>8.2f}{100 * refused:>9.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
