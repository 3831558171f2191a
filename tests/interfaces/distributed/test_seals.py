"""Partitions are computed anew in each pass, and are held to what they were in the first."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import symdebias as sd
from symdebias.interfaces.distributed.seals import Seal

RELEASE = sd.Release(sd.GaussianMechanism.from_scale(0.5))
ROWS = 3_000


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def records():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=ROWS) > 0, 1.0, -1.0)


def collections(changed):
    """Return X, y and weights of two partitions, one of which is other numbers each time that it is computed."""
    X, y = records()
    given = {"X": X, "y": y, "sample_weight": np.ones(ROWS)}
    rng = np.random.default_rng(1)

    def computed(values, is_drawn):
        return values[rng.permutation(len(values))] if is_drawn else values

    def collection(name, values):
        halves = [
            da.from_delayed(dask.delayed(computed, pure=False)(half, name == changed and place), half.shape, float)
            for place, half in enumerate(np.split(values, 2))
        ]
        return da.concatenate(halves)

    return {name: collection(name, values + (rng.random(ROWS) if name == changed == "sample_weight" else 0.0))
            for name, values in given.items()}  # fmt: skip


CALLS = {
    "m_estimate": lambda given: sd.distributed.m_estimate(sd.debias(sd.losses.exponential(), RELEASE), **given, l2=0.1),
    "sgd": lambda given: sd.distributed.sgd(
        sd.debias(sd.losses.exponential(), RELEASE), **given, l2=0.1, epochs=20, random_state=0
    ),
    "evaluate": lambda given: sd.distributed.evaluate([1.0, 0.0], **given, release=RELEASE, metric="accuracy"),
}


@pytest.mark.parametrize("changed", ["X", "y", "sample_weight"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_drawn_anew_in_each_pass_is_refused(call, changed):
    """Rows in another order have the same moments: sums of a pass over them would look like those of the first."""
    with pytest.raises(ValueError, match=rf"^in partition 1, .*{changed} is not what it was .*{changed}\.persist\(\)"):
        call(collections(changed))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_stays_is_taken(call):
    call(collections(None))


def test_kept_partitions_are_drawn_once():
    given = collections("X")
    kept = {name: values.persist() for name, values in given.items()}
    assert np.isfinite(CALLS["m_estimate"](kept).theta).all()


def test_a_release_of_records_that_change_leaves_nothing(tmp_path):
    given = collections("X")
    with pytest.raises(ValueError, match="X is not what it was"):
        sd.distributed.privatize(
            RELEASE.bind(["x0", "x1"]), given["X"], given["y"], folder=tmp_path / "noised", random_state=0
        )
    assert not list(tmp_path.iterdir())


def test_partitions_of_words_are_sealed_as_well():
    X, _ = records()
    frame = pd.DataFrame(X, columns=["x0", "x1"]).assign(group=np.where(X[:, 1] > 0, "high", "low"))
    schema = {"x0": float, "x1": float, "group": object}
    rng = np.random.default_rng(2)

    def computed(part):
        words = part["group"].to_numpy(dtype=object).copy()
        words[rng.integers(len(words))] = "middle"
        return part.assign(group=words)

    changing = dd.from_pandas(frame, npartitions=2).map_partitions(computed, meta=schema)
    first, second = (changing.partitions[0].compute(scheduler="synchronous") for _ in range(2))
    assert Seal.of(first).is_of(first)
    assert not Seal.of(first).is_of(second)


VALUES = {
    "float64": np.linspace(-3, 5, 5_000).reshape(1_000, 5),
    "float32": np.linspace(-3, 5, 5_000, dtype=np.float32).reshape(1_000, 5),
    "Fortran order": np.asfortranarray(np.linspace(-3, 5, 5_000).reshape(1_000, 5)),
    "integers": np.arange(1_000),
    "truth": np.arange(1_000) % 3 == 0,
    "words": np.array(["a", "b", "a", "ä"] * 250),
    "objects": np.array(["a", 1.0, None, True] * 250, dtype=object),
    "series": pd.Series(np.arange(1_000.0)),
    "words in a series": pd.Series(["a", "b", "a", None] * 250),
    "categories": pd.Series(["a", "b"] * 500, dtype="category"),
    "numbers that may be missing": pd.Series([1, 2, None, 4] * 250, dtype="Int64"),
    "frame": pd.DataFrame({"a": np.arange(1_000.0), "b": np.arange(1_000.0) ** 2}),
    "mixed frame": pd.DataFrame({"a": np.arange(1_000), "b": ["u", "v"] * 500, "c": [True, False] * 500}),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_one_row_more_or_two_that_change_places_are_seen(values):
    """Of any type that a partition may have, and nothing else is: not a copy, nor another layout."""
    seal = Seal.of(values)
    assert seal.is_of(values.copy())
    take = values.iloc if hasattr(values, "iloc") else values
    order = np.arange(1_000)
    assert not seal.is_of(take[order[:-1]])
    order[[500, 501]] = order[[501, 500]]
    assert not seal.is_of(take[order])
    if isinstance(values, np.ndarray) and values.ndim == 2:
        assert seal.is_of(np.ascontiguousarray(values))


def test_last_bits_are_not_looked_at_and_any_change_that_counts_is():
    """Another processor may sum features in another order; a small column is not hidden by a large one."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100_000, 2)) * [1e-6, 1e6]
    seal = Seal.of(X)
    assert seal.is_of(X * (1 + 1e-15 * rng.normal(size=X.shape)))
    X[77_777, 0] *= -1
    assert not seal.is_of(X)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_later_is_seen(value):
    X = np.ones((10, 2))
    seal = Seal.of(X)
    X[3, 1] = value
    assert not seal.is_of(X)


def test_empty_partitions_have_a_seal():
    assert Seal.of(np.zeros((0, 3))).is_of(np.zeros((0, 3)))
    assert not Seal.of(np.zeros((0, 3))).is_of(np.zeros((1, 3)))
