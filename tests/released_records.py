"""Records of a known model, true and released: single draws, and all outcomes of the noise with their probabilities."""

import itertools
import math

import numpy as np
from scipy.special import expit

import symdebias as sd
from symdebias.noise import AdditiveNoise, ChannelNoise

THETA = np.array([1.3, -0.8, 0.2])
COIN = sd.RandomizedResponse(epsilon=1.5)
NORMAL = sd.GaussianMechanism.from_scale(0.5)
TRUE = sd.Release(fit_intercept=True)


def release_of(first, target=None, **options):
    """Return a release whose first column is noised and whose second is not; or neither."""
    features = {} if first is None else {"first": first}
    noiseless = ("second",) if features else ("first", "second")
    return sd.Release(features or None, target, noiseless=noiseless, fit_intercept=True, **options)


def records(n=400, seed=0, labels=(-1, 1)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(rng.random(n) < expit(X @ THETA[:2] + THETA[2]), labels[1], labels[0]).astype(float)


def outcomes(noise, value):
    """Return the released values of a true one with their probabilities."""
    if noise is None:
        return np.array([value]), np.ones(1)
    if isinstance(noise, ChannelNoise):
        return np.array(noise.outputs), np.array(noise.matrix)[noise.inputs.index(value)]
    assert isinstance(noise, AdditiveNoise)
    scale = math.sqrt(noise.variance)
    if noise.is_gaussian:
        nodes, weights = np.polynomial.hermite_e.hermegauss(80)
        kept = weights > 1e-16
        return value + scale * nodes[kept], weights[kept] / weights[kept].sum()
    if noise.step is not None:
        steps = np.arange(-400, 401) * noise.step
        weights = np.exp(-np.abs(steps) * noise.tail_rate)
        kept = weights > 1e-17
        return value + steps[kept], weights[kept] / weights.sum()
    nodes, weights = np.polynomial.laguerre.laggauss(64)
    kept = weights > 1e-16
    ends = nodes[kept] / noise.tail_rate
    return value + np.r_[ends, -ends], np.r_[weights[kept], weights[kept]] / 2


def every_outcome(release, X, y):
    """Return all released records of true ones, each with its probability as weight."""
    first = release.groups[0][1].noise if release.groups else None
    rows, targets, weights = [], [], []
    for record, target in zip(X, y, strict=True):
        values = outcomes(first, record[0])
        labels = outcomes(release.target_noise, target)
        for (value, p), (label, q) in itertools.product(zip(*values, strict=True), zip(*labels, strict=True)):
            rows.append((value, record[1]))
            targets.append(label)
            weights.append(p * q)
    return np.array(rows), np.array(targets), np.array(weights)


def truth(metric, X, y):
    u = X @ THETA[:2] + THETA[2]
    return {
        "accuracy": np.mean(y * u > 0),
        "log_loss": np.mean(np.logaddexp(0, -y * u)),
        "brier": np.mean(expit(-y * u) ** 2),
        "squared_error": np.mean((y - u) ** 2),
        "poisson": np.mean(np.exp(u) - y * u),
    }[metric]


# Four records for what is refused.
X4, Y4 = np.array([[1.0, 0.5], [-1.0, 0.3], [0.2, -0.7], [0.9, 0.1]]), np.array([1.0, -1.0, 1.0, 1.0])
