"""Of many records each kind says what contiguous float64 says: the passes that a few thousand records do not take.

From 200,000 on fits begin with a part of the records, pilots and tests take samples, and what few records decide is
searched for and read anew; each depends on whether a record is at hand. Populations, losses, noise, weights, clusters
and offsets are drawn; a run of the whole table takes all kinds through all of them.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import symdebias as sd
from symdebias._rows import Rows

pytestmark = [pytest.mark.exhaustive, pytest.mark.newest]

NAMES = ("a", "b", "c")
COUNTS = (205_000, 333_333)
TABLES = ("pandas", "polars", "pyarrow")
KINDS = ("float32", "Fortran", "strided", "memory map", "at hand", "in order", *TABLES)
LOSSES = ("exponential", "logistic", "least_squares", "poisson", "probit", "huber", "squared_hinge", "squared_margin")
OF_NUMBERS = ("least_squares", "huber", "poisson")
POPULATIONS = {
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "normal": lambda rng, shape: rng.normal(size=shape),
    "t4": lambda rng, shape: 0.7 * rng.standard_t(4, shape),
    "lognormal": lambda rng, shape: np.exp(0.7 * rng.normal(size=shape)) - 1,
}
NOISE = {
    "one vector": lambda scale: {NAMES: sd.GaussianMechanism.from_scale(scale)},
    "each column": lambda scale: {
        name: sd.GaussianMechanism.from_scale(scale * (1 + place) / 2) for place, name in enumerate(NAMES)
    },
    "Laplace": lambda scale: {name: sd.LaplaceMechanism.from_scale(scale / 3) for name in NAMES},
    "categories": lambda scale: {
        "a": sd.RandomizedResponse(2.0, categories=(0.0, 1.0, 2.0)),
        NAMES[1:]: sd.GaussianMechanism.from_scale(scale),
    },
}
# What a refusal of a drawn problem may be; any other is a defect.
REFUSALS = (sd.DivergenceError, sd.InfiniteVarianceError, sd.NoExactCorrectionError, sd.InferenceError)


def as_kind(kind, X, y, folder):
    """Return the records as something else that holds the same numbers."""
    if kind in TABLES:
        columns = dict(zip(NAMES, np.ascontiguousarray(X.T), strict=True))
        return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](columns), y
    if kind == "memory map":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r"), y
    if kind == "in order":
        return tuple(Rows(part.shape, lambda rows, part=part: np.array(part[rows])) for part in (X, y))
    made = {
        "float32": lambda: X.astype(np.float32),
        "Fortran": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(X, 2, axis=1)[:, ::2],
        "at hand": lambda: Rows.of_array(X),
    }
    return made[kind](), y


def drawn(draw):
    """Return a corrected loss, noised records and options of fits; numbers are those of float32."""
    rng = np.random.default_rng([21, draw])
    count, loss = int(rng.choice(COUNTS)), LOSSES[draw % len(LOSSES)]
    X = POPULATIONS[str(rng.choice(list(POPULATIONS)))](rng, (count, len(NAMES)))
    noise, scale = str(rng.choice(list(NOISE))), float(rng.choice([0.05, 0.2, 0.4]))
    if noise == "categories":
        X[:, 0] = np.digitize(X[:, 0], [-0.3, 0.4])
    theta = rng.normal(size=len(NAMES))
    score = X @ theta * (float(rng.choice([0.5, 1.0, 2.0])) / np.linalg.norm(theta)) + float(rng.choice([0.0, -1.5]))
    if loss == "poisson":
        y = rng.poisson(np.exp(np.clip(score, -20, 4))).astype(float)
    elif loss in OF_NUMBERS:
        y = score + 0.5 * rng.normal(size=count)
    else:
        y = np.where(rng.random(count) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    target = sd.RandomizedResponse(3.0) if loss not in OF_NUMBERS and rng.random() < 0.5 else None
    release = sd.Release(NOISE[noise](scale), target, fit_intercept=bool(rng.random() < 0.5))
    noised = release.privatize(pd.DataFrame(X, columns=NAMES), y, random_state=draw)
    options = {}
    beside = rng.random()
    if beside < 0.4:
        weights = rng.exponential(size=count)
        weights[rng.random(count) < 0.3] = 0.0
        options["sample_weight"] = weights
    elif beside < 0.6:
        options["clusters"] = rng.integers(0, rng.choice([30, 5_000]), count)
    elif beside < 0.75 and loss in ("poisson", "least_squares", "logistic", "exponential"):
        options["offset"] = 0.3 * rng.normal(size=count)
    corrected = sd.debias(getattr(sd.losses, loss)(), release)
    return corrected, np.asarray(noised.X, dtype=np.float32).astype(float), np.asarray(noised.y, dtype=float), options


def outcome(ask):
    """Return what comes out, or the refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ask()
        except REFUSALS as refusal:
            return refusal


def agree(found, expected, numbers, tolerance):
    """Assert that both are the same refusal, or the same numbers but for rounding."""
    assert type(found) is type(expected), (found, expected)
    if isinstance(expected, Exception):
        assert str(found) == str(expected)
        return
    for of_found, of_expected in zip(numbers(found), numbers(expected), strict=True):
        # Ends of an interval may be infinite.
        size = float(np.abs(of_expected, where=np.isfinite(of_expected), out=np.zeros(np.shape(of_expected))).max())
        np.testing.assert_allclose(of_found, of_expected, rtol=tolerance, atol=tolerance * size)


@pytest.mark.in_turn
@pytest.mark.parametrize("draw", range(5 * len(KINDS)))
def test_every_kind_of_many_records_says_the_same(draw, tmp_path):
    corrected, X, y, options = drawn(draw)
    kind = KINDS[draw % len(KINDS)]
    given = as_kind(kind, X, y, tmp_path)

    def fit(of_X, of_y):
        return sd.m_estimate(corrected, of_X, of_y, **options)

    expected, found = (outcome(lambda records=records: fit(*records)) for records in ((X, y), given))
    agree(found, expected, lambda one: (one.theta, one.standard_errors), 1e-6)
    if not isinstance(expected, Exception):
        agree(*(outcome(one.confidence_interval) for one in (found, expected)), lambda ends: (ends,), 1e-6)

    alone = {name: value for name, value in options.items() if name != "clusters"}
    order = "given" if kind == "in order" else ("given", "shuffled")[draw % 2]

    def descend(of_X, of_y):
        return sd.sgd(corrected, of_X, of_y, order=order, random_state=1, **alone)

    agree(
        *(outcome(lambda records=records: descend(*records)) for records in (given, (X, y))),
        lambda one: (one.theta,),
        1e-7,
    )

    if isinstance(expected, Exception) or "offset" in options or corrected.declared.target_values is None:
        return
    weights = {name: value for name, value in options.items() if name == "sample_weight"}
    for metric in ("accuracy", "roc_auc"):

        def judge(of_X, of_y, metric=metric):
            release = corrected.release
            return sd.evaluation.evaluate(expected.theta, of_X, of_y, metric=metric, release=release, **weights)

        both = (outcome(lambda records=records: judge(*records)) for records in (given, (X, y)))
        agree(*both, lambda one: (one.value, one.standard_error), 1e-6)
