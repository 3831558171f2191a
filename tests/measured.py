"""Records with measurement error, for the methods of the literature."""

import numpy as np

import symdebias as sd

LINEAR, LOGISTIC, POISSON = sd.losses.least_squares(), sd.losses.logistic(), sd.losses.poisson()
CORRELATED = sd.GaussianMechanism.from_covariance([[0.5, 0.2], [0.2, 0.3]])
# Two noised columns, one without noise, and an intercept.
MIXED = sd.Release({("a", "b"): CORRELATED}, noiseless=("c",), fit_intercept=True)
LABELLED = sd.Release(
    {("a", "b"): CORRELATED}, sd.RandomizedResponse(epsilon=1.5), noiseless=("c",), fit_intercept=True
)  # fmt: skip
THETA = np.array([0.8, -0.5, 0.4, 0.3])


def records(family, n, seed=0, theta=THETA):
    """Return true records of three dependent columns, and their targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (n, 3))
    X[:, 2] += 0.5 * X[:, 0]
    score = X @ theta[:3] + theta[3]
    if family == "logistic":
        return X, np.where(rng.random(n) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    if family == "poisson":
        return X, rng.poisson(np.exp(score)).astype(float)
    return X, score + rng.normal(size=n)


def noised(family, release, n, seed=0):
    return release.privatize(*records(family, n, seed), random_state=seed + 1)


def one_column(n, signal, noise, seed=0):
    """Return released records of one column, y = 2x + e."""
    rng = np.random.default_rng(seed)
    x = np.sqrt(signal) * rng.normal(size=(n, 1))
    return sd.Release(sd.GaussianMechanism.from_scale(np.sqrt(noise))).privatize(
        x, 2 * x[:, 0] + 0.5 * rng.normal(size=n), random_state=seed + 1
    )
