"""Train on noised records of known parameters, and see whether they are found.

    python examples/known_parameters.py [--records 400000]

Three models with known parameters, three kinds of release: a Poisson regression under Gaussian noise, a linear
regression on a mixed release (Gaussian, Laplace, two kinds of categories, a noised target), and a softmax of three
classes under Laplace noise with noised labels. Each is trained by averaged SGD on the released records, with and
without correction. The table shows each parameter, its estimate, its standard error (sandwich), and how many
standard errors both fits are off.
"""

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

import symdebias as sd

OPTIONS: dict[str, Any] = {"batch_size": 256, "epochs": 8, "average": 0.5, "random_state": 1}


@dataclass(frozen=True)
class Model:
    """Records made from known parameters, and how they are released."""

    name: str
    loss: sd.Loss
    release: sd.Release
    theta: np.ndarray
    X: np.ndarray
    y: np.ndarray
    step_size: float


def poisson(n: int) -> Model:
    """Return counts with a log link, features under Gaussian noise of a known scale."""
    rng = np.random.default_rng(0)
    theta = np.array([0.6, -0.4, 0.3])
    X = rng.uniform(-1, 1, size=(n, 2))
    y = rng.poisson(np.exp(X @ theta[:2] + theta[2])).astype(float)
    release = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.5)}, fit_intercept=True)
    return Model("Poisson", sd.losses.poisson(), release, theta, X, y, 0.05)


def least_squares(n: int) -> Model:
    """Return a linear model on a mixed release with a noised target."""
    rng = np.random.default_rng(1)
    theta = np.array([0.8, -0.5, 0.4, 0.3, -0.6, 0.2, 0.1])
    X = rng.uniform(-1, 1, size=(n, 4))
    X[:, 2], X[:, 3] = rng.choice([-1.0, 1.0], n), rng.integers(0, 4, n)
    one_hot = np.eye(4)[X[:, 3].astype(int)][:, 1:]
    design = np.column_stack([X[:, :3], one_hot, np.ones(n)])
    y = design @ theta + 0.3 * rng.normal(size=n)
    release = sd.Release(
        {
            "a": sd.GaussianMechanism.from_scale(0.5),
            "b": sd.LaplaceMechanism(epsilon=4.0, bounds=(-1.0, 1.0)),
            "sex": sd.RandomizedResponse(epsilon=2.0),
            "region": sd.RandomizedResponse(epsilon=2.0, categories=("n", "e", "s", "w")),
        },
        sd.LaplaceMechanism.from_scale(0.5),
        fit_intercept=True,
    )
    return Model("least squares", sd.losses.least_squares(), release, theta, X, y, 0.02)


def softmax(n: int) -> Model:
    """Return three classes, features under Laplace noise and labels under randomized response."""
    rng = np.random.default_rng(2)
    theta = np.array([[1.0, -0.5, 0.2], [-0.6, 0.8, 0.1], [-0.4, -0.3, -0.3]])
    X = rng.uniform(-1, 1, size=(n, 2))
    scores = np.column_stack([X, np.ones(n)]) @ theta.T
    y = np.argmax(scores + rng.gumbel(size=(n, 3)), axis=1).astype(float)
    release = sd.Release(
        {("a", "b"): sd.LaplaceMechanism.from_scale(0.4)},
        sd.RandomizedResponse(epsilon=2.0, categories=(0, 1, 2)),
        fit_intercept=True,
    )
    return Model("softmax", sd.losses.softmax(3), release, theta, X, y, 0.05)


def report(model: Model) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the table, and the deviations of both fits in standard errors."""
    noised = model.release.privatize(model.X, model.y, random_state=3)
    corrected = sd.debias(model.loss, noised.release)
    plain = sd.debias(model.loss, noised.release, method="none")
    fit = sd.sgd(corrected, noised.X, noised.y, step_size=model.step_size, covariance="plug-in", **OPTIONS)
    naive = sd.sgd(plain, noised.X, noised.y, step_size=model.step_size, **OPTIONS)
    errors = fit.standard_errors
    off, naive_off = (fit.theta - model.theta) / errors, (naive.theta - model.theta) / errors
    names = corrected.parameter_names
    if model.theta.ndim > 1:
        names = tuple(f"{k}: {name}" for k in range(len(model.theta)) for name in names)
    lines = [f"{model.name}, n = {len(model.y):,}: {corrected.method}; {'; '.join(corrected.notes) or 'no notes'}"]
    lines.append(f"  {'parameter':<14}{'true':>9}{'estimate':>11}{'+-':>9}{'z':>7}{'uncorrected':>13}{'z':>8}")
    values = (model.theta, fit.theta, errors, off, naive.theta, naive_off)
    for name, true, estimate, error, z, other, other_z in zip(names, *(np.ravel(v) for v in values), strict=True):
        lines.append(f"  {name:<14}{true:>9.3f}{estimate:>11.4f}{error:>9.4f}{z:>7.1f}{other:>13.4f}{other_z:>8.1f}")
    return "\n".join(lines), np.ravel(off), np.ravel(naive_off)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=400_000)
    options = parser.parse_args()
    for make in (poisson, least_squares, softmax):
        print(report(make(options.records))[0], flush=True)


if __name__ == "__main__":
    main()
