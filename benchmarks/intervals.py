"""Do 95% intervals cover, and does the sandwich predict the mean squared error? Many draws of records and noise.

    python benchmarks/intervals.py [--replicates 10000] [--part exponential] ... [--processes 2]

Each replicate draws new records and new noise, fits, and asks whether the intervals hold the true optimum. A part has
these columns: coverage of the plain intervals theta +- 1.96 standard errors, as a mean over the parameters and of the
worst one, with the Monte-Carlo error of one parameter's coverage; n times the mean squared error as predicted by the
covariance (trace) and as measured, with its Monte-Carlo error; the largest mean error of a parameter in standard errors
of one fit; the replicates that were refused an interval, which are left out; and coverage of the stated
`confidence_interval`, which reaches further for surrogates and batch means (the mean over the parameters, and the
least). Surrogates have one more: the largest bound on the bias in standard errors.

The true optimum is the parameter that made the records wherever the model is correctly specified (log loss, least
squares, Poisson). The exponential loss under l2 has none such: its optimum comes from Gauss-Legendre quadrature over
the square, to rounding.

--replicates is for the part `exponential`; others take a fifth of it. Every replicate has a seed of its own, so that
figures do not depend on the number of processes.
"""

import argparse
import functools
import math
import multiprocessing
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
from scipy import optimize, stats
from scipy.special import expit

import symdebias as sd
from symdebias.exceptions import SymdebiasError

PLAIN = float(stats.norm.ppf(0.975))
# Replicates that a process runs before it reports.
CHUNK = 50


@dataclass(frozen=True)
class Case:
    """One line of a table.

    Attributes
    ----------
    corrected : sd.CorrectedLoss
        What is fitted.
    truth : array of shape (q,)
        The optimum that intervals are to cover.
    draw : callable
        Takes a generator and n, and returns true records and targets.
    n : int
        Records.
    fit : callable
        The solver.
    options : dict
        Its options.
    releases : int
        How often every person is released; they are n/releases persons.
    clustered : bool
        Whether the solver is told who is who.
    share : float
        Of the replicates that are asked for.
    """

    corrected: sd.CorrectedLoss
    truth: np.ndarray
    draw: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
    n: int
    fit: Callable[..., sd.Fit] = sd.m_estimate
    options: dict[str, Any] = field(default_factory=dict)
    releases: int = 1
    clustered: bool = False
    share: float = 0.2


# ---- records -----------------------------------------------------------------------------------------------


def uniform(rng, n, p):
    return rng.uniform(-1, 1, (n, p))


def logistic_records(theta, rng, n):
    X = uniform(rng, n, len(theta))
    return X, np.where(rng.random(n) < expit(X @ theta), 1.0, -1.0)


def linear_records(theta, rng, n):
    X = uniform(rng, n, len(theta))
    return X, X @ theta + 0.5 * rng.normal(size=n)


def poisson_records(theta, rng, n):
    X = uniform(rng, n, len(theta))
    return X, rng.poisson(np.exp(X @ theta)).astype(float)


def spread(p, norm):
    """Return parameters of a given norm, none of them alike."""
    theta = (-1.0) ** np.arange(p) * np.linspace(1.0, 0.5, p)
    return norm * theta / np.linalg.norm(theta)


@functools.cache
def exponential_optimum(l2):
    """Return the minimiser of E exp(-y theta'x) + l2/2 ||theta||^2, x uniform on the square, by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    X = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    mass = np.multiply.outer(weights, weights).ravel() / 4
    chance = expit(2 * X[:, 0] - X[:, 1])

    def gradient(theta):
        z = X @ theta
        return (mass * ((1 - chance) * np.exp(z) - chance * np.exp(-z))) @ X + l2 * theta

    return optimize.root(gradient, np.zeros(2), tol=1e-14).x


# ---- cases -------------------------------------------------------------------------------------------------


def labels():
    return sd.RandomizedResponse(epsilon=2.0)


def exponential(n=20_000, noise=1.0, budget=2.0, **changes):
    release = sd.Release(sd.GaussianMechanism.from_scale(noise), sd.RandomizedResponse(epsilon=budget))
    corrected = sd.debias(sd.losses.exponential(), release)
    options = {"l2": 1.0, **changes.pop("options", {})}
    draw = functools.partial(logistic_records, np.array([2.0, -1.0]))
    return Case(corrected, exponential_optimum(1.0), draw, n, options=options, **changes)


def averaged(epochs, covariance="plug-in"):
    options = {
        "step_size": sd.step_sizes.StepSize(0.5, power=0.6),
        "batch_size": 4,
        "epochs": epochs,
        "average": True if epochs == 1 else 0.5,
        "covariance": covariance,
    }
    return exponential(fit=sd.sgd, options=options)


def surrogate(p, noise, n=20_000, norm=2.0, share=0.2):
    release = sd.Release(sd.GaussianMechanism.from_scale(noise), labels())
    theta = spread(p, norm)
    return Case(
        sd.debias(sd.losses.logistic(), release), theta, functools.partial(logistic_records, theta), n, share=share
    )


def poisson(p):
    theta = spread(p, 1.0)
    corrected = sd.debias(sd.losses.poisson(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    return Case(corrected, theta, functools.partial(poisson_records, theta), 10_000)


def least_squares(target):
    theta = spread(10, 1.0)
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5), target))
    return Case(corrected, theta, functools.partial(linear_records, theta), 10_000)


def laplace():
    theta = np.array([1.0, -0.5])
    corrected = sd.debias(
        sd.losses.logistic(), sd.Release(sd.LaplaceMechanism.from_scale(0.4), labels()), method="exact"
    )
    return Case(corrected, theta, functools.partial(logistic_records, theta), 20_000)


PARTS: dict[str, dict[str, Callable[[], Case]]] = {
    "exponential": {"m_estimate": functools.partial(exponential, share=1.0)},
    "sgd": {
        "one pass, plug-in": functools.partial(averaged, 1),
        "five passes, plug-in": functools.partial(averaged, 5),
        "one pass, batch means": functools.partial(averaged, 1, "batch means"),
    },
    "logistic": {
        f"p {p}, noise {noise:g}, n {n:,}": functools.partial(surrogate, p, noise, n, share=share)
        for p, n, share in ((2, 20_000, 0.2), (2, 200_000, 0.04), (10, 20_000, 0.2))
        for noise in (0.3, 0.6, 1.0)
    },
    "poisson": {f"p {p}": functools.partial(poisson, p) for p in (2, 5)},
    "least squares": {
        "p 10": functools.partial(least_squares, None),
        "p 10, target noise 1": functools.partial(least_squares, sd.GaussianMechanism.from_scale(1.0)),
    },
    "laplace": {"exact log loss, p 2": laplace},
    "clusters": {
        f"twice, noise {noise:g}, {'clusters=' if told else 'untold'}": functools.partial(
            exponential, noise=noise, budget=budget, releases=2, clustered=told
        )
        for noise, budget in ((1.0, 2.0), (0.3, 6.0))
        for told in (True, False)
    },
}


# ---- replicates --------------------------------------------------------------------------------------------


@functools.cache
def case_of(part: str, name: str) -> Case:
    return PARTS[part][name]()


def replicate(part: str, name: str, number: int) -> np.ndarray | None:
    """Return error, standard error, bias bound and whether the stated interval covers, or None if refused."""
    case = case_of(part, name)
    rng = np.random.default_rng([zlib.crc32(f"{part}: {name}".encode()), number])
    X, y = case.draw(rng, case.n // case.releases)
    options = dict(case.options)
    if case.releases > 1:
        people = np.tile(np.arange(len(y)), case.releases)
        X, y = X[people], y[people]
        if case.clustered:
            options["clusters"] = people
    noised = case.corrected.release.privatize(X, y, random_state=rng)
    if case.fit is sd.sgd:
        options["random_state"] = rng
    try:
        fit = case.fit(case.corrected, noised.X, noised.y, **options)
        ends = fit.confidence_interval(0.95)
    except SymdebiasError:
        return None
    bias = np.zeros(len(case.truth)) if fit.inference.bias is None else fit.bias_bound
    covered = (ends[:, 0] <= case.truth) & (case.truth <= ends[:, 1])
    return np.stack([fit.theta - case.truth, fit.standard_errors, bias, covered])


def chunk(task: tuple[str, str, int, int]) -> list[np.ndarray | None]:
    part, name, start, stop = task
    return [replicate(part, name, number) for number in range(start, stop)]


def line(part: str, name: str, found: list[np.ndarray | None]) -> str:
    """Return what a case came to."""
    case = case_of(part, name)
    kept = [one for one in found if one is not None]
    label = f"{name:<28}{len(found):>7}"
    if not kept:
        return f"{label}   all were refused an interval"
    error, deviation, bias, aware = np.stack(kept, axis=1)
    plain = np.mean(np.abs(error) <= PLAIN * deviation, axis=0)
    worst = plain[np.argmax(np.abs(plain - 0.95))]
    squares = case.n * np.sum(error**2, axis=1)
    predicted = case.n * np.sum(deviation**2, axis=1)
    noise = math.sqrt(0.95 * 0.05 / len(kept))
    off = error.mean(axis=0) / deviation.mean(axis=0)
    text = f"{label}{100 * plain.mean():>8.2f}{100 * worst:>8.2f}{100 * noise:>7.2f}"
    text += f"{predicted.mean():>10.4g}{squares.mean():>10.4g}{squares.std() / math.sqrt(len(kept)):>8.2g}"
    text += f"{off[np.argmax(np.abs(off))]:>8.3f}{len(found) - len(kept):>9}"
    text += f"{100 * aware.mean():>9.2f}{100 * aware.mean(axis=0).min():>8.2f}"
    text += f"{np.max(bias.mean(axis=0) / deviation.mean(axis=0)):>9.3f}" if np.any(bias > 0) else f"{'-':>9}"
    return text


def head() -> str:
    return (
        f"{'':<28}{'draws':>7}{'cover':>8}{'worst':>8}{'+-':>7}{'pred.':>10}{'n MSE':>10}{'+-':>8}{'off/se':>8}"
        f"{'refused':>9}{'stated':>9}{'worst':>8}{'bound/se':>9}"
    )


def one_thread() -> None:
    """Let every process have one core to itself."""
    numba.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=10_000)
    parser.add_argument("--part", choices=tuple(PARTS), action="append")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that are started
    print(head(), flush=True)
    with multiprocessing.get_context("spawn").Pool(options.processes, one_thread) as pool:
        for part in options.part or PARTS:
            for name in PARTS[part]:
                began = time.perf_counter()
                count = max(2, round(options.replicates * case_of(part, name).share))
                # The first replicate compiles; the processes then find its kernels on disk.
                found = chunk((part, name, 0, 1))
                tasks = [(part, name, start, min(start + CHUNK, count)) for start in range(1, count, CHUNK)]
                for several in pool.imap(chunk, tasks):
                    found.extend(several)
                if name == next(iter(PARTS[part])):
                    print(part)
                print(f"{'  ' + line(part, name, found)}   {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
