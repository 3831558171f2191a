"""Do stated 95% intervals cover, whatever the records are? One verdict for each of many designs, and one for all.

    python benchmarks/interval_coverage.py [--designs "logistic*" ...] [--replicates 1000] [--most-records 100000]
                                           [--workers 2] [--output coverage] [--list]

Each replicate draws new records, releases them, and calls `sd.m_estimate(sd.debias(loss, release), ...)` as a user
would, without hints. A design passes where

* the intervals of its worst parameter cover at least 94% of the time, as far as the replicates tell (a one-sided
  binomial test at level .0025: 178 of 200, 918 of 1,000), or at least 80% of the replicates were refused a fit or
  intervals and the design is one of those that may be (`HARD`: records with too little information by construction);
* at most 1% of the returned fits are more than 5 standard errors from the target in any parameter;
* intervals are at most 1.5 times as long as those of a fit whose surrogate was designed for the true scores at the
  target (medians over the same replicates, the worst parameter), where a surrogate is used at all;
* nothing but an error of the library's own family was raised.

The target is the parameter that made the records where the model is correctly specified, and otherwise the minimiser
of the risk of true records, by scipy on a large sample of them with labels integrated out.

With --output, replicates are kept as lines of JSON in a file for each design, and those found there are not run again.
Every replicate has a seed of its own, so that figures do not depend on the number of workers or on the order.
"""

import argparse
import fnmatch
import functools
import json
import math
import multiprocessing
import os
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from scipy import optimize, stats
from scipy.special import expit, ndtr, ndtri

import symdebias as sd
from symdebias.exceptions import InferenceError, SymdebiasError
from symdebias.solvers.scores import known_scores
from symdebias.transforms.surrogate import Scores

# What a design is held to.
LEVEL, LEAST, SIGNIFICANCE = 0.95, 0.94, 0.0025
REFUSED, FAR, MOST_FAR, LONGEST = 0.8, 5.0, 0.01, 1.5
# Replicates of designs with at most so many records, and of those with more.
MANY, REPLICATES, FEWER = 100_000, 1000, 200
# Replicates that a surrogate is designed at the truth for, and that a worker runs before it reports.
REFERENCES, CHUNK = 20, 10
# True records that a target is computed from.
POPULATION = 4_000_000


# ---- records -----------------------------------------------------------------------------------------------


def normal(rng, n, p):
    return rng.normal(size=(n, p))


def uniform(rng, n, p):
    return rng.uniform(-math.sqrt(3), math.sqrt(3), (n, p))


def lognormal(rng, n, p):
    """Skewed to the right: mean 0, variance 1, skewness 3.7."""
    spread = 0.8
    middle = math.exp(spread**2 / 2)
    return (np.exp(spread * rng.normal(size=(n, p))) - middle) / (middle * math.sqrt(math.expm1(spread**2)))


def student(freedom):
    def drawn(rng, n, p):
        return rng.standard_t(freedom, (n, p)) / math.sqrt(freedom / (freedom - 2))

    return drawn


def signs(rng, n, p):
    return rng.choice([-1.0, 1.0], (n, p))


def leverage(share, spread):
    """Return a normal law of which a share is several times as wide."""

    def drawn(rng, n, p):
        return rng.normal(size=(n, p)) * np.where(rng.random(n) < share, spread, 1.0)[:, None]

    return drawn


def collinear(rng, n, p):
    """Any two columns have a correlation of 0.95."""
    return math.sqrt(0.95) * rng.normal(size=(n, 1)) + math.sqrt(0.05) * rng.normal(size=(n, p))


def spread(p, norm):
    """Return parameters of a given norm, none of them alike."""
    theta = (-1.0) ** np.arange(p) * np.linspace(1.0, 0.5, p)
    return norm * theta / np.linalg.norm(theta)


@dataclass(frozen=True)
class Drawn:
    """True records.

    Attributes
    ----------
    X : array of shape (n, p)
        What is released.
    rows : array of shape (n, q)
        What multiplies theta in the score.
    y : array of shape (n,)
        True targets.
    chance : array of shape (n,), optional
        The probability of +1 where targets are -1 or +1.
    options : dict
        Of `m_estimate`: weights, clusters, noise scales.
    """

    X: np.ndarray
    rows: np.ndarray
    y: np.ndarray
    chance: np.ndarray | None
    options: dict[str, np.ndarray]


# ---- models: how targets come about from scores, and what is fitted ------------------------------------------


def of_chance(link):
    """Return labels -1 and +1 with the chance of a link, as a function of scores and ranks in (0, 1)."""

    def labels(score, ranks):
        chance = link(score)
        return np.where(ranks < chance, 1.0, -1.0), chance

    return labels


def plus(quantile):
    """Return scores plus errors with a quantile function."""
    return lambda score, ranks: (score + quantile(ranks), None)


def poisson_counts(score, ranks):
    return stats.poisson.ppf(ranks, np.exp(score)), None


def negative_binomial_counts(score, ranks):
    return stats.nbinom.ppf(ranks, 2.0, 2.0 / (2.0 + np.exp(score))), None


def brier():
    """Return the squared error of a probability, declared by its formula: no loss of the catalogue."""
    u, y = sp.symbols("u y", real=True)
    return sd.Loss(1 / (1 + sp.exp(y * u)) ** 2, score=u, target=y, target_values=(-1, 1))


@dataclass(frozen=True)
class Model:
    """What is fitted to what.

    Attributes
    ----------
    loss : callable
        Returns the loss.
    target : callable
        Takes true scores and ranks; returns targets, and the chance of +1 where they are labels.
    risk : pair of callables, optional
        The loss and its derivative by the score, of score and target, where its minimiser is not what made the
        records.
    """

    loss: Callable[[], sd.Loss]
    target: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
    risk: tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]] | None = None


HINGE = (lambda u, y: np.maximum(0, 1 - y * u), lambda u, y: np.where(y * u < 1, -y, 0.0))
SQUARED_HINGE = (lambda u, y: np.maximum(0, 1 - y * u) ** 2 / 2, lambda u, y: -y * np.maximum(0, 1 - y * u))
SQUARED_MARGIN = (lambda u, y: (y * u - 1) ** 2 / 2, lambda u, y: y * (y * u - 1))
LOGISTIC = (lambda u, y: np.logaddexp(0, -y * u), lambda u, y: -y * expit(-y * u))
QUANTILE = (
    lambda u, y: 0.9 * (y - u) + 0.5 * np.logaddexp(0, -(y - u) / 0.5),
    lambda u, y: expit(-(y - u) / 0.5) - 0.9,
)

MODELS = {
    "logistic": Model(sd.losses.logistic, of_chance(expit)),
    # Every tenth label is a coin's: the log loss is that of no model of these records.
    "misspecified": Model(sd.losses.logistic, of_chance(lambda u: 0.05 + 0.9 * ndtr(u)), LOGISTIC),
    "probit": Model(sd.losses.probit, of_chance(ndtr)),
    # Its minimiser is half the log odds.
    "exponential": Model(sd.losses.exponential, of_chance(lambda u: expit(2 * u))),
    "hinge": Model(sd.losses.hinge, of_chance(expit), HINGE),
    "squared hinge": Model(sd.losses.squared_hinge, of_chance(expit), SQUARED_HINGE),
    "squared margin": Model(sd.losses.squared_margin, of_chance(expit), SQUARED_MARGIN),
    "brier": Model(brier, of_chance(expit)),
    "least squares": Model(sd.losses.least_squares, plus(ndtri)),
    # Targets that public bounds hold.
    "bounded errors": Model(sd.losses.least_squares, plus(lambda ranks: 2 * ranks - 1)),
    # Symmetric errors: the centre is what made the records.
    "huber": Model(sd.losses.huber, plus(lambda ranks: stats.t.ppf(ranks, 3))),
    "median": Model(sd.losses.quantile, plus(lambda ranks: stats.laplace.ppf(ranks))),
    "quantile": Model(functools.partial(sd.losses.quantile, 0.9), plus(ndtri), QUANTILE),
    "poisson": Model(sd.losses.poisson, poisson_counts),
    "negative binomial": Model(functools.partial(sd.losses.negative_binomial, 2.0), negative_binomial_counts),
}


# ---- designs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Design:
    """One line of the table.

    Attributes
    ----------
    model : Model
        What is fitted.
    release : sd.Release
        How records are noised.
    draw : callable
        Takes a generator and n, returns `Drawn`.
    n : int
        Records.
    theta : array of shape (q,)
        What made the records.
    says : str
        What else to know of it.
    """

    model: Model
    release: sd.Release
    draw: Callable[[np.random.Generator, int], Drawn]
    n: int
    theta: np.ndarray
    says: str = ""


def dependent(rng, n, size):
    """Return ranks in (0, 1), uniform each, that go together within households of a size."""
    common = np.repeat(rng.normal(size=(n // size, 1)), size, axis=0)[:, 0]
    return ndtr(math.sqrt(0.6) * common + math.sqrt(0.4) * rng.normal(size=n))


def simple(
    model: str,
    law: Callable[..., np.ndarray],
    *,
    p: int,
    norm: float,
    s: float,
    n: int,
    intercept: float | None = None,
    epsilon: float | None = None,
    noise: str = "normal",
    target_scale: float | None = None,
    households: int = 0,
    weighted: bool = False,
    own_scales: bool = False,
) -> Design:
    """Return a design with noise of one scale on all columns.

    Parameters
    ----------
    model : str
        A key of `MODELS`.
    law : callable
        Takes a generator, n and p, and returns columns.
    p : int
        The number of columns.
    norm : float
        ||theta|| without the intercept.
    s : float
        The noise variance of the score.
    n : int
        Records.
    intercept : float, optional
        The intercept, or none.
    epsilon : float, optional
        Of randomized response on the label.
    noise : {"normal", "laplace"}
        Of the columns.
    target_scale : float, optional
        The standard deviation of normal noise on the target.
    households : int
        Records of a household, which have a part of their columns and of their errors in common; 0 for none.
    weighted : bool
        Whether records with a positive target were drawn more often, with the inverse probabilities as weights.
    own_scales : bool
        Whether records have noise scales of their own, uniform, with the mean square that `s` says.
    """
    theta = spread(p, norm)
    scale = math.sqrt(s) / norm
    feature = (
        sd.GaussianMechanism.from_scale(scale)
        if noise == "normal"
        else sd.LaplaceMechanism.from_scale(scale / math.sqrt(2))
    )
    target = None
    if epsilon is not None:
        target = sd.RandomizedResponse(epsilon=epsilon)
    elif target_scale is not None:
        target = sd.GaussianMechanism.from_scale(target_scale)
    release = sd.Release(feature, target, fit_intercept=intercept is not None)
    if intercept is not None:
        theta = np.append(theta, intercept)

    def draw(rng, n):
        many = 4 * n if weighted else n
        X = law(rng, many, p)
        ranks = rng.random(many)
        if households:
            X = (X + np.repeat(law(rng, many // households, p), households, axis=0)) / math.sqrt(2)
            ranks = dependent(rng, many, households)
        rows = X if intercept is None else np.column_stack([X, np.ones(many)])
        y, chance = MODELS[model].target(rows @ theta, ranks)
        options = {}
        if weighted:
            kept_with = np.where(y > 0, 1.0, 0.3)
            kept = np.flatnonzero(rng.random(many) < kept_with)[:n]
            X, rows, y, chance = X[kept], rows[kept], y[kept], None
            options["sample_weight"] = 1 / kept_with[kept]
        if households:
            options["clusters"] = np.repeat(np.arange(n // households), households)
        if own_scales:
            options["noise_scale"] = scale * math.sqrt(12 / 7) * rng.uniform(0.5, 1.0, len(y))
        return Drawn(X, rows, y, chance, options)

    says = [f"||theta|| {norm:g}, s {s:g}, p {p}"]
    says += [] if intercept is None else [f"intercept {intercept:g}"]
    says += [] if epsilon is None else [f"labels at epsilon {epsilon:g}"]
    says += [] if target_scale is None else [f"target noise {target_scale:g}"]
    return Design(MODELS[model], release, draw, n, theta, ", ".join(says))


def raw_units(model: str, n: int, theta: Sequence[float], scales: Sequence[float], **release: Any) -> Design:
    """Return a design on age in years, income in dollars and children."""

    def draw(rng, n):
        age = np.clip(rng.normal(45, 15, n), 18, 90)
        X = np.column_stack([age, np.exp(rng.normal(10.3, 0.6, n)), rng.poisson(1.5, n)])
        rows = np.column_stack([X, np.ones(n)])
        y, chance = MODELS[model].target(rows @ np.array(theta), rng.random(n))
        return Drawn(X, rows, y, chance, {})

    released = sd.Release(sd.GaussianMechanism.from_scale(scales), fit_intercept=True, **release)
    s = float(np.sum((np.array(theta[:3]) * scales) ** 2))
    return Design(MODELS[model], released, draw, n, np.array(theta), f"years, dollars and children, s {s:.2g}")


def mixed(model: str, n: int, epsilon: float | None) -> Design:
    """Return a design with two noised columns, a noised sign, and four noised categories."""
    release = sd.Release(
        features={
            ("a", "b"): sd.GaussianMechanism.from_scale(0.5),
            "sign": sd.RandomizedResponse(epsilon=2.5),
            "place": sd.RandomizedResponse(epsilon=3.0, categories=("n", "e", "s", "w")),
        },
        target=None if epsilon is None else sd.RandomizedResponse(epsilon=epsilon),
        fit_intercept=True,
    )
    theta = np.array([1.0, -0.5, 0.5, 1.0, -1.0, 0.5, -0.5])

    def draw(rng, n):
        codes = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
        X = np.column_stack([normal(rng, n, 2), rng.choice([-1.0, 1.0], n), codes])
        rows = np.column_stack([X[:, :3], codes == 1, codes == 2, codes == 3, np.ones(n)]).astype(float)
        y, chance = MODELS[model].target(rows @ theta, rng.random(n))
        return Drawn(X, rows, y, chance, {})

    return Design(MODELS[model], release, draw, n, theta, "two columns, a sign, four categories")


def private(model: str, n: int, epsilon: float, norm: float) -> Design:
    """Return a design with calibrated noise on the vector and on the label."""
    release = sd.Release(
        sd.GaussianMechanism(epsilon=epsilon, delta=1e-6, radius=1.0), sd.RandomizedResponse(epsilon=epsilon)
    )
    theta = spread(2, norm)

    def draw(rng, n):
        angle = rng.uniform(0, 2 * math.pi, n)
        X = np.sqrt(rng.random(n))[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        y, chance = MODELS[model].target(X @ theta, rng.random(n))
        return Drawn(X, X, y, chance, {})

    scale = release.groups[0][1].scale  # type: ignore[attr-defined]
    return Design(MODELS[model], release, draw, n, theta, f"epsilon {epsilon:g} twice, s {(scale * norm) ** 2:.2g}")


def in_ball(law: Callable[..., np.ndarray], width: float) -> Callable[..., np.ndarray]:
    """Return columns of a law times a width, with the vectors beyond the unit ball drawn in to it."""

    def drawn(rng, n, p):
        X = width * law(rng, n, p)
        return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12))

    return drawn


def one_vector(
    model: str,
    mechanism: sd.mechanisms.Mechanism,
    law: Callable[..., np.ndarray],
    *,
    theta: Sequence[float],
    n: int,
    target: str = "margin",
    intercept: bool = False,
    **release: Any,
) -> Design:
    """Return a design on vectors in the unit ball that are released together with the target.

    Parameters
    ----------
    model : str
        A key of `MODELS`.
    mechanism : Mechanism
        What noises the vector.
    law : callable
        Takes a generator, n and p, and returns columns in the unit ball.
    theta : sequence of float
        The parameters, an intercept last.
    n : int
        Records.
    target, **release
        As for `symdebias.Release`.
    """

    def draw(rng, n):
        X = law(rng, n, len(theta) - intercept)
        rows = np.column_stack([X, np.ones(n)]) if intercept else X
        y, chance = MODELS[model].target(rows @ np.array(theta), rng.random(n))
        return Drawn(X, rows, y, chance, {})

    released = sd.Release(mechanism, target=target, fit_intercept=intercept, **release)
    return Design(MODELS[model], released, draw, n, np.array(theta), f"{target} release, {mechanism!r}")


def designed_for_loss(*given: Any, **options: Any) -> Callable[[], Design]:
    return functools.partial(one_vector, *given, **options)


def one(*given: Any, **options: Any) -> Callable[[], Design]:
    return functools.partial(simple, *given, **options)


t3, t4 = student(3), student(4)

DESIGNS: dict[str, Callable[[], Design]] = {
    # log loss
    "logistic, 500 records": one("logistic", normal, p=2, norm=1, s=0.1, n=500),
    "logistic, normal": one("logistic", normal, p=3, norm=2, s=1, n=20_000, epsilon=2.0),
    "logistic, uniform": one("logistic", uniform, p=3, norm=2, s=1, n=20_000, epsilon=2.0),
    "logistic, lognormal": one("logistic", lognormal, p=3, norm=1.5, s=0.5, n=20_000),
    "logistic, t3": one("logistic", t3, p=3, norm=1.5, s=1, n=20_000),
    "logistic, t4": one("logistic", t4, p=3, norm=2, s=1, n=50_000),
    "logistic, signs": one("logistic", signs, p=5, norm=1.5, s=1, n=20_000, intercept=0.5),
    "logistic, 1% leverage": one("logistic", leverage(0.01, 8.0), p=3, norm=1.5, s=0.5, n=20_000),
    "logistic, 5% leverage": one("logistic", leverage(0.05, 5.0), p=3, norm=1.5, s=0.5, n=20_000),
    "logistic, rare 1%": one("logistic", normal, p=3, norm=1, s=0.5, n=100_000, intercept=-5.0),
    "logistic, collinear": one("logistic", collinear, p=3, norm=1.5, s=0.1, n=50_000),
    "logistic, raw units": functools.partial(
        raw_units, "logistic", 50_000, (0.04, 3e-5, -0.5, -2.0), (5.0, 15_000.0, 0.7)
    ),
    "logistic, theta 4": one("logistic", normal, p=3, norm=4, s=4, n=100_000),
    "logistic, theta 8": one("logistic", normal, p=3, norm=8, s=8, n=100_000),
    "logistic, theta 8, uniform": one("logistic", uniform, p=2, norm=8, s=4, n=50_000),
    "logistic, intercept 4": one("logistic", normal, p=3, norm=2, s=1, n=50_000, intercept=4.0),
    "logistic, intercept -4": one("logistic", uniform, p=3, norm=2, s=2, n=50_000, intercept=-4.0, epsilon=4.0),
    "logistic, households": one("logistic", normal, p=3, norm=2, s=1, n=20_000, households=4),
    "logistic, weights": one("logistic", normal, p=3, norm=2, s=1, n=20_000, weighted=True, intercept=-1.0),
    "logistic, Laplace noise": one("logistic", uniform, p=2, norm=1.5, s=0.5, n=20_000, noise="laplace"),
    "logistic, mixed release": functools.partial(mixed, "logistic", 50_000, 2.0),
    "logistic, own noise scales": one("logistic", normal, p=3, norm=2, s=1, n=20_000, own_scales=True),
    "logistic, ten columns": one("logistic", normal, p=10, norm=2, s=2, n=50_000),
    "logistic, misspecified": one("misspecified", lognormal, p=2, norm=1.5, s=0.5, n=50_000, intercept=0.5),
    "logistic, strong noise": one("logistic", uniform, p=2, norm=1, s=2, n=100_000),
    "logistic, million": one("logistic", normal, p=3, norm=2, s=1, n=1_000_000),
    "logistic, million, s 10": one("logistic", normal, p=2, norm=2, s=10, n=1_000_000),
    "logistic, million, s 30": one("logistic", normal, p=2, norm=6, s=30, n=1_000_000),
    "logistic, million, lognormal": one("logistic", lognormal, p=3, norm=1.5, s=0.5, n=1_000_000),
    "logistic, private": functools.partial(private, "logistic", 1_000_000, 6.0, 2.0),
    # probit
    "probit, normal": one("probit", normal, p=3, norm=1, s=0.5, n=20_000),
    "probit, uniform": one("probit", uniform, p=2, norm=2, s=1, n=50_000, epsilon=3.0),
    "probit, t4": one("probit", t4, p=2, norm=1, s=0.5, n=50_000),
    # exponential loss
    "exponential, normal": one("exponential", normal, p=3, norm=0.7, s=0.5, n=20_000),
    "exponential, uniform": one("exponential", uniform, p=2, norm=1, s=1, n=50_000, epsilon=3.0),
    "exponential, s 3": one("exponential", signs, p=2, norm=1, s=3, n=100_000),
    "exponential, t4": one("exponential", t4, p=2, norm=0.7, s=0.3, n=50_000),
    # losses with kinks
    "hinge, normal": one("hinge", normal, p=2, norm=2, s=0.3, n=50_000),
    "hinge, uniform": one("hinge", uniform, p=2, norm=2, s=0.5, n=50_000, intercept=0.5),
    "squared hinge, normal": one("squared hinge", normal, p=3, norm=2, s=0.5, n=20_000),
    "squared hinge, lognormal": one("squared hinge", lognormal, p=3, norm=1.5, s=0.3, n=50_000, intercept=0.0),
    "squared margin, t4": one("squared margin", t4, p=3, norm=1.5, s=1, n=20_000, epsilon=2.0),
    # squared error of a probability
    "brier, normal": one("brier", normal, p=2, norm=2, s=1, n=50_000),
    "brier, uniform": one("brier", uniform, p=2, norm=1.5, s=0.5, n=50_000, intercept=-1.0),
    # residuals
    "least squares, ten columns": one("least squares", normal, p=10, norm=1, s=1, n=10_000),
    "least squares, 500 records": one("least squares", uniform, p=2, norm=1, s=0.3, n=500),
    "least squares, t3": one("least squares", t3, p=3, norm=1, s=1, n=20_000),
    "least squares, lognormal": one("least squares", lognormal, p=3, norm=1, s=0.5, n=20_000, target_scale=1.0),
    "least squares, 1% leverage": one("least squares", leverage(0.01, 8.0), p=3, norm=1, s=0.5, n=20_000),
    "least squares, collinear": one("least squares", collinear, p=3, norm=1, s=0.05, n=50_000),
    "least squares, raw units": functools.partial(
        raw_units, "least squares", 50_000, (0.04, 3e-5, -0.5, 2.0), (5.0, 15_000.0, 0.7)
    ),
    "least squares, theta 8": one("least squares", normal, p=3, norm=8, s=30, n=20_000),
    "least squares, households": one("least squares", normal, p=3, norm=1, s=0.5, n=10_000, households=5),
    "least squares, weights": one("least squares", normal, p=3, norm=1, s=0.5, n=10_000, weighted=True, intercept=1.0),
    "huber, normal": one("huber", normal, p=2, norm=1, s=0.3, n=20_000),
    "huber, lognormal, target noise": one("huber", lognormal, p=2, norm=1, s=0.2, n=50_000, target_scale=0.5),
    "huber, 5% leverage": one("huber", leverage(0.05, 5.0), p=2, norm=1, s=0.3, n=50_000),
    "median, uniform": one("median", uniform, p=2, norm=1, s=0.2, n=20_000),
    "quantile .9, normal": one("quantile", normal, p=2, norm=1, s=0.2, n=20_000, intercept=1.0),
    # counts
    "poisson, normal": one("poisson", normal, p=3, norm=0.7, s=0.3, n=20_000),
    "poisson, uniform": one("poisson", uniform, p=2, norm=1, s=0.5, n=20_000, intercept=-2.0),
    "poisson, signs, target noise": one("poisson", signs, p=3, norm=1, s=1, n=20_000, target_scale=1.0, intercept=1.0),
    "poisson, 5% leverage": one("poisson", leverage(0.05, 3.0), p=2, norm=0.5, s=0.2, n=20_000),
    "poisson, households": one("poisson", uniform, p=2, norm=0.7, s=0.3, n=20_000, households=4, intercept=1.0),
    "negative binomial, normal": one("negative binomial", normal, p=2, norm=1, s=0.5, n=50_000),
    "negative binomial, uniform": one("negative binomial", uniform, p=2, norm=1, s=0.5, n=50_000, intercept=1.0),
}

# Releases of features and target in one vector: the whole budget goes to what the loss needs.
DESIGNS |= {
    "margins, cap, logistic": designed_for_loss(
        "logistic", sd.SphericalCapMechanism(4.0, 1.0), in_ball(normal, 0.5), theta=(2.0, -1.5, 1.0), n=20_000
    ),
    "margins, cap, logistic, skewed, intercept": designed_for_loss(
        "logistic", sd.SphericalCapMechanism(6.0, 1.0), in_ball(lognormal, 0.3), theta=(2.0, -1.0, -1.0), n=50_000,
        intercept=True, target_scale=0.5,
    ),
    "margins, cap, logistic, eight columns": designed_for_loss(
        "logistic", sd.SphericalCapMechanism(6.0, 1.0), in_ball(uniform, 0.3), theta=spread(8, 3.0), n=50_000
    ),
    "margins, cap, exponential": designed_for_loss(
        "exponential", sd.SphericalCapMechanism(5.0, 1.0), in_ball(t4, 0.4), theta=(1.0, -0.5), n=50_000
    ),
    "margins, cap, squared hinge": designed_for_loss(
        "squared hinge", sd.SphericalCapMechanism(6.0, 1.0), in_ball(signs, 0.5), theta=(1.5, -1.0, 0.5), n=50_000
    ),
    "margins, spherical Laplace, logistic": designed_for_loss(
        "logistic", sd.SphericalLaplaceMechanism(6.0, 1.0), in_ball(normal, 0.5), theta=(1.5, -1.0, 0.5), n=50_000
    ),
    "margins, Gaussian, probit, intercept": designed_for_loss(
        "probit", sd.GaussianMechanism(8.0, 1e-6, 1.0), in_ball(uniform, 0.4), theta=(1.0, -0.5, 0.3), n=100_000,
        intercept=True,
    ),
    "joint, cap, least squares": designed_for_loss(
        "bounded errors", sd.SphericalCapMechanism(5.0, 1.0), in_ball(lognormal, 0.3), theta=(1.0, -0.5, 0.3),
        n=20_000, target="joint", intercept=True, target_bounds=(-3.0, 3.0), target_scale=0.3,
    ),
    "joint, spherical Laplace, least squares": designed_for_loss(
        "bounded errors", sd.SphericalLaplaceMechanism(6.0, 1.0), in_ball(normal, 0.5), theta=(1.0, -0.5),
        n=20_000, target="joint", target_bounds=(-3.0, 3.0), target_scale=0.3,
    ),
}  # fmt: skip

# Where refusing is the right answer: the records say too little of the curvature at the target.
HARD = (
    "exponential, s 3",
    "logistic, theta 8",
    "logistic, theta 8, uniform",
    "logistic, million, s 30",
    "logistic, private",
)


@functools.cache
def design_of(name: str) -> Design:
    return DESIGNS[name]()


def replicates_of(name: str, given: int | None) -> int:
    """Return how many replicates a design gets."""
    if given is not None:
        return given
    return REPLICATES if design_of(name).n <= MANY else FEWER


# ---- targets -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """What intervals are to cover, with the standard errors of its own computation."""

    theta: np.ndarray
    errors: np.ndarray


def target_of(name: str, population: int) -> Target:
    """Return the target of a design: what made the records, or the minimiser of the risk of true ones."""
    design = design_of(name)
    if design.model.risk is None:
        return Target(design.theta, np.zeros(len(design.theta)))
    drawn = design.draw(np.random.default_rng([zlib.crc32(name.encode()), 2**32 - 1]), population)
    value, slope = design.model.risk
    labels = [(drawn.y, np.ones(population))]
    if drawn.chance is not None:
        labels = [(np.ones(population), drawn.chance), (-np.ones(population), 1 - drawn.chance)]

    def risk(theta):
        u = drawn.rows @ theta
        return sum(float(np.mean(share * value(u, y))) for y, share in labels)

    def gradients(theta):
        u = drawn.rows @ theta
        return sum(share * slope(u, y) for y, share in labels)

    def gradient(theta):
        return gradients(theta) @ drawn.rows / population

    found = optimize.minimize(risk, design.theta, jac=gradient, method="BFGS", options={"gtol": 1e-9}).x
    # BFGS stops a little early where a kink's steps are seen: Newton's method with differences goes on.
    for _ in range(3):
        hessian = np.stack([gradient(found + step) - gradient(found - step) for step in 1e-3 * np.eye(len(found))])
        hessian = (hessian + hessian.T) / 4e-3
        found = found - np.linalg.solve(hessian, gradient(found))
    terms = gradients(found)[:, None] * drawn.rows
    inverse = np.linalg.inv(hessian)
    return Target(found, np.sqrt(np.diag(inverse @ (terms.T @ terms / population) @ inverse) / population))


# ---- replicates --------------------------------------------------------------------------------------------


def released(design: Design, rng: np.random.Generator) -> tuple[Drawn, Any]:
    """Return true records and what is sent of them."""
    drawn = design.draw(rng, design.n)
    noised = design.release.privatize(drawn.X, drawn.y, random_state=rng)
    if "noise_scale" in drawn.options:
        own = drawn.X + drawn.options["noise_scale"][:, None] * rng.normal(size=drawn.X.shape)
        noised = replace(noised, X=own)
    return drawn, noised


def designed_at(corrected: sd.CorrectedLoss, drawn: Drawn, noised: Any, theta: np.ndarray) -> sd.CorrectedLoss:
    """Return the surrogate designed for the true scores at theta and their noise."""
    weights = drawn.options.get("sample_weight")
    scales = drawn.options.get("noise_scale")
    known = known_scores(corrected, corrected.records(noised.X, noised.y, sample_weight=weights, noise_scale=scales))
    assert known is not None
    values = drawn.rows @ theta
    coupling = corrected.release.coupling
    if known.parts.is_residual:
        values = values - drawn.y
    elif coupling is not None and coupling.kind == "margin":
        values = values * drawn.y
    chances = np.full(len(values), 1 / len(values)) if weights is None else weights / weights.sum()
    order = np.argsort(values)
    # The ends one by one, what is between them by its means over cells.
    values, chances = values[order], chances[order]
    cells = np.unique(np.concatenate([np.arange(50), np.linspace(50, len(values) - 50, 400), -np.arange(50, 0, -1)]))
    starts = np.unique(np.where(cells < 0, len(values) + cells, cells).astype(int))
    masses = np.add.reduceat(chances, starts)
    scores = Scores(np.add.reduceat(values * chances, starts) / masses, masses)
    return known.designed_for(scores, known.variances(theta))


def first_words(error: BaseException) -> str:
    return " ".join(str(error).split())[:160]


def replicate(name: str, number: int, target: np.ndarray, with_reference: bool) -> dict[str, Any]:
    """Return what one replicate came to: a line of the record."""
    design = design_of(name)
    rng = np.random.default_rng([zlib.crc32(name.encode()), number])
    line: dict[str, Any] = {"design": name, "replicate": number}
    try:
        drawn, noised = released(design, rng)
        corrected = sd.debias(design.model.loss(), noised.release)
        line["method"] = corrected.method
        began = time.perf_counter()
        try:
            fit = sd.m_estimate(corrected, noised.X, noised.y, **drawn.options)
        except SymdebiasError as error:
            line |= {"outcome": "refused", "reason": f"{type(error).__name__}: {first_words(error)}"}
            line["seconds"] = time.perf_counter() - began
            return line
        line["seconds"] = time.perf_counter() - began
        line |= {"outcome": "fit", "error": (fit.theta - target).tolist(), "stages": fit.diagnostics["stages"]}
        try:
            line["standard_error"] = fit.standard_errors.tolist()
            ends = fit.confidence_interval(LEVEL)
            line |= {"lower": (ends[:, 0] - target).tolist(), "upper": (ends[:, 1] - target).tolist()}
        except InferenceError as error:
            line |= {"outcome": "no interval", "reason": f"{type(error).__name__}: {first_words(error)}"}
        if with_reference and corrected.method == "surrogate" and not corrected.is_resolved:
            line["reference"] = reference(corrected, drawn, noised, target)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line |= {"outcome": "crash", "reason": f"{type(error).__name__} at {where.name}: {first_words(error)}"}
    return line


def reference(corrected: sd.CorrectedLoss, drawn: Drawn, noised: Any, target: np.ndarray) -> dict[str, Any]:
    """Return the lengths of the intervals of a fit with the surrogate designed at the truth, or why there are none."""
    try:
        best = designed_at(corrected, drawn, noised, target)
        fit = sd.m_estimate(best, noised.X, noised.y, start=target, **drawn.options)
        ends = fit.confidence_interval(LEVEL)
    except SymdebiasError as error:
        return {"reason": f"{type(error).__name__}: {first_words(error)}"}
    return {"error": (fit.theta - target).tolist(), "length": (ends[:, 1] - ends[:, 0]).tolist()}


def several(name: str, numbers: Sequence[int], target: np.ndarray, references: int) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [replicate(name, number, target, number < references) for number in numbers]


# ---- what is kept ------------------------------------------------------------------------------------------


def file_of(folder: Path, name: str) -> Path:
    return folder / ("".join(letter if letter.isalnum() else "-" for letter in name) + ".jsonl")


def kept_lines(folder: Path, name: str) -> dict[int, dict[str, Any]]:
    """Return the replicates in a folder; a last line that was cut short is left out."""
    path, found = file_of(folder, name), {}
    if path.exists():
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            found[line["replicate"]] = line
    return found


def keep(folder: Path, lines: Iterable[dict[str, Any]]) -> None:
    for line in lines:
        path = file_of(folder, line["design"])
        cut = path.exists() and not path.read_bytes().endswith(b"\n")
        with path.open("a") as out:
            out.write(("\n" if cut else "") + json.dumps(line) + "\n")


def kept_target(folder: Path | None, name: str, population: int) -> Target:
    """Return the target of a design, from the folder where it was computed before."""
    if folder is None or design_of(name).model.risk is None:
        return target_of(name, population)
    path = file_of(folder, name).with_suffix(".target.json")
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["population"] == population:
            return Target(np.array(kept["theta"]), np.array(kept["errors"]))
    found = target_of(name, population)
    content = {"population": population, "theta": found.theta.tolist(), "errors": found.errors.tolist()}
    path.write_text(json.dumps(content))
    return found


# ---- the table ---------------------------------------------------------------------------------------------


def least_covered(fits: int) -> int:
    """Return the least number of covering intervals that does not reject a coverage of at least 94%."""
    return int(stats.binom.ppf(SIGNIFICANCE, fits, LEAST)) if fits else 0


@dataclass(frozen=True)
class Summary:
    """One line of the table; see `COLUMNS`."""

    cells: tuple[str, ...]
    failures: tuple[str, ...]
    reasons: tuple[tuple[str, int], ...]


COLUMNS = (
    "design", "n", "method", "draws", "refused", "no interval", "cover", "worst", "needed", "off/se", "sd/se",
    "bound/se", "max z", "beyond 5", "length", "seconds", "verdict",
)  # fmt: skip

LEGEND = """\
refused: no fit; no interval: a fit without intervals. cover: per cent of intervals that cover, all parameters, and of
the worst one (its place); needed: the least that does not reject 94%. off/se: the mean error of the parameter with the
largest one, sd/se: the standard deviation of errors, of the parameter that is worst, both in mean standard errors;
bound/se: how much wider than 1.96 standard errors intervals are, the median. max z: the largest error of a returned fit
in standard errors; beyond 5: per cent of fits. length: of intervals over those with the surrogate designed at the
truth, the worst parameter."""


def stacked(lines: Sequence[dict[str, Any]], key: str) -> np.ndarray:
    return np.array([line[key] for line in lines])


def summary(name: str, lines: Sequence[dict[str, Any]], target: Target) -> Summary:
    """Return what the replicates of a design say, and what speaks against it."""
    design = design_of(name)
    outcomes = Counter(line["outcome"] for line in lines)
    reasons = Counter(line["reason"] for line in lines if "reason" in line)
    method = next((line["method"] for line in lines if "method" in line), "-")
    draws = len(lines)
    failures: list[str] = []
    if outcomes["crash"]:
        failures.append(f"{outcomes['crash']} crashed")
    given = [line for line in lines if line["outcome"] == "fit"]
    returned = [line for line in lines if "standard_error" in line]
    refused = outcomes["refused"] + outcomes["no interval"]
    mostly_refused = draws > 0 and refused >= REFUSED * draws
    if mostly_refused and name not in HARD:
        failures.append("refused without need")
    cover = worst = needed = off = spread_ratio = bound = largest = beyond = "-"
    if returned:
        z = np.abs(stacked(returned, "error")) / stacked(returned, "standard_error")
        far = np.mean(z.max(axis=1) > FAR)
        largest, beyond = f"{z.max():.1f}", f"{100 * far:.1f}"
        if far > MOST_FAR:
            failures.append(f"{round(far * len(returned))} beyond 5 standard errors")
    if given:
        error, deviation = stacked(given, "error"), stacked(given, "standard_error")
        lower, upper = stacked(given, "lower"), stacked(given, "upper")
        inside = (lower <= 0) & (upper >= 0)
        counts = inside.sum(axis=0)
        place = int(np.argmin(counts))
        cover, worst = f"{100 * inside.mean():.1f}", f"{100 * counts[place] / len(given):.1f} ({place})"
        needed = f"{100 * least_covered(len(given)) / len(given):.1f}"
        mean = error.mean(axis=0) / deviation.mean(axis=0)
        off = f"{mean[np.argmax(np.abs(mean))]:.2f}"
        if len(given) > 1:
            ratio = error.std(axis=0, ddof=1) / deviation.mean(axis=0)
            spread_ratio = f"{ratio[np.argmax(np.abs(np.log(np.maximum(ratio, 1e-300))))]:.2f}"
        bound = f"{np.median((upper - lower) / (2 * stats.norm.ppf((1 + LEVEL) / 2) * deviation)):.2f}"
        if counts[place] < least_covered(len(given)) and not mostly_refused:
            failures.append(f"covers {counts[place]} of {len(given)}")
        if np.any(target.errors > 0.1 * deviation.mean(axis=0)):
            failures.append("its target is not known well enough: raise --population")
    length = length_ratio(given)
    if length is not None and length > LONGEST:
        failures.append(f"intervals {length:.2f} times as long")
    seconds = np.median([line["seconds"] for line in lines if "seconds" in line] or [math.nan])
    verdict = "; ".join(failures) or ("refused" if mostly_refused else "passes")
    cells = (
        name, f"{design.n:,}", method, str(draws), str(outcomes["refused"]), str(outcomes["no interval"]), cover, worst,
        needed, off, spread_ratio, bound, largest, beyond, "-" if length is None else f"{length:.2f}", f"{seconds:.2f}",
        verdict,
    )  # fmt: skip
    return Summary(cells, tuple(failures), tuple(reasons.most_common(3)))


def length_ratio(given: Sequence[dict[str, Any]]) -> float | None:
    """Return the worst parameter's ratio of the median length of intervals to that of the reference."""
    both = [line for line in given if "length" in line.get("reference", {})]
    if not both:
        return None
    own = stacked(both, "upper") - stacked(both, "lower")
    best = np.array([line["reference"]["length"] for line in both])
    return float(np.max(np.median(own, axis=0) / np.median(best, axis=0)))


def table(summaries: Sequence[Summary]) -> str:
    """Return all that is known as markdown."""
    rows = [COLUMNS, *(summary.cells for summary in summaries)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    text += ["", LEGEND, ""]
    for one_summary in summaries:
        text += [f"{one_summary.cells[0]}: {count} x {reason}" for reason, count in one_summary.reasons]
    failed = [one_summary.cells[0] for one_summary in summaries if one_summary.failures]
    text.append("")
    if failed:
        text.append(f"verdict: {len(failed)} of {len(summaries)} designs fail: {'; '.join(failed)}")
    else:
        text.append(f"verdict: all {len(summaries)} designs pass")
    return "\n".join(text)


# ---- work --------------------------------------------------------------------------------------------------


def selected(patterns: Sequence[str] | None, most: int | None) -> list[str]:
    """Return the designs that match a pattern and have at most so many records."""
    names = [name for name in DESIGNS if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    if patterns and not names:
        raise SystemExit(f"no design matches {', '.join(patterns)}. --list shows their names.")
    return [name for name in names if most is None or design_of(name).n <= most]


def missing_work(names: Sequence[str], wanted: dict[str, int], done: dict[str, dict[int, Any]]) -> list[Any]:
    """Return chunks of replicates to run, a few of every design before more of any."""
    chunks: list[tuple[int, str, list[int]]] = []
    for name in names:
        left = [number for number in range(wanted[name]) if number not in done[name]]
        chunks += [(left[start], name, left[start : start + CHUNK]) for start in range(0, len(left), CHUNK)]
    return [(name, numbers) for _, name, numbers in sorted(chunks, key=lambda chunk: chunk[0] // CHUNK)]


def run(
    names: Sequence[str], replicates: int | None, workers: int, folder: Path | None, references: int, population: int
) -> list[Summary]:
    """Run what is missing and return what there is then."""
    wanted = {name: replicates_of(name, replicates) for name in names}
    done = {name: kept_lines(folder, name) if folder else {} for name in names}
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[variable] = "1"  # of the processes that are started: each has one core to itself
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        targets = dict(
            zip(names, pool.map(functools.partial(kept_target, folder, population=population), names), strict=True)
        )
        work = missing_work(names, wanted, done)
        running = {pool.submit(several, name, numbers, targets[name].theta, references) for name, numbers in work}
        for count, future in enumerate(as_completed(running), 1):
            lines = future.result()
            if folder:
                keep(folder, lines)
            done[lines[0]["design"]] |= {line["replicate"]: line for line in lines}
            print(f"{count} of {len(work)}: {lines[0]['design']}", flush=True)
    return [
        summary(name, [done[name][number] for number in sorted(done[name]) if number < wanted[name]], targets[name])
        for name in names
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", nargs="+", metavar="PATTERN", help="patterns of names, as of files")
    parser.add_argument("--most-records", type=int, help="leave out designs with more records")
    parser.add_argument("--replicates", type=int, help=f"by default {REPLICATES}, or {FEWER} beyond {MANY:,} records")
    parser.add_argument("--references", type=int, default=REFERENCES, help="replicates designed at the truth as well")
    parser.add_argument("--population", type=int, default=POPULATION, help="true records that a target comes from")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=Path, help="a folder that keeps replicates")
    parser.add_argument("--list", action="store_true", help="show the designs and stop")
    options = parser.parse_args()
    names = selected(options.designs, options.most_records)
    if options.list:
        for name in names:
            print(f"{name:<34}{design_of(name).n:>10,}   {design_of(name).says}")
        return
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
    summaries = run(names, options.replicates, options.workers, options.output, options.references, options.population)
    print(table(summaries))


if __name__ == "__main__":
    main()
