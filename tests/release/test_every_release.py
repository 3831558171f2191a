"""What holds for every release of the table: values, cards, tables, arrays, seeds, and what all of them refuse."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from instances import RELEASES, true_table

import symdebias as sd
from symdebias.exceptions import PrivacyError

every = pytest.mark.parametrize("name", RELEASES)
# Arrays hold the codes of categories, and tables the categories themselves.
IN_NUMBERS = [
    name
    for name, release in RELEASES.items()
    if not release.categories and not any(hasattr(part.noise, "matrix") for _, part in release.groups)
]
NAMES = vars(sd) | {"Release": sd.Release}
CONSTRUCTIONS = {
    "card": lambda release: sd.Release.from_json(release.to_json()),
    "pickle": lambda release: pickle.loads(pickle.dumps(release)),
    "copy": copy.deepcopy,
    "call": lambda release: eval(repr(release), NAMES),  # what it says of itself beside the call is a comment
}


def records(name, rows=6):
    """A true table, its target and the release, with its columns bound to the table's."""
    release = RELEASES[name]
    table, target = true_table(release, rows)
    return pd.DataFrame(table), target, release


def numeric(name):
    """The table as an array, and the release of its columns."""
    table, target, release = records(name)
    return table.to_numpy(dtype=float), target, release if release.columns else release.bind(list(table.columns))


# ---- values ----------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("how", CONSTRUCTIONS)
def test_releases_are_values(name, how):
    release = RELEASES[name]
    if how == "call" and "correlated" in name:
        return  # a covariance is described
    again = CONSTRUCTIONS[how](release)
    assert again == release
    assert hash(again) == hash(release)
    assert again.to_json() == release.to_json()
    assert (again.columns, again.guarantee) == (release.columns, release.guarantee)


def test_releases_differ_where_they_differ():
    assert len(set(RELEASES.values())) == len(RELEASES)
    with pytest.raises(AttributeError):
        RELEASES["bound"].target = None


# ---- tables and arrays -----------------------------------------------------------------------------------


@every
def test_a_table_comes_back_as_a_table(name):
    table, target, release = records(name)
    before = table.copy(deep=True)
    table.index = before.index = [f"row {place}" for place in range(len(table))]
    noised = release.privatize(table, target, random_state=0)
    pd.testing.assert_frame_equal(table, before)
    assert list(noised.X.columns) == list(noised.release.columns)
    assert list(noised.X.index) == list(range(len(table)))
    assert noised.X.shape[0] == len(table)
    # Columns that are noised differ from what was given; the others are as they were, in released units.
    assert noised.release == sd.Release.from_json(noised.release.to_json())
    other = release.privatize(table[table.columns[::-1]], target, random_state=0)
    if release.columns is not None:
        pd.testing.assert_frame_equal(other.X, noised.X)


@pytest.mark.parametrize("name", IN_NUMBERS)
def test_kinds_of_arrays(name):
    X, target, release = numeric(name)
    plain = release.privatize(X, target, random_state=0)
    kinds = [np.repeat(X, 2, axis=0)[::2], np.asfortranarray(X), X.tolist(), X.astype(">f8"), X[::-1][::-1]]
    kinds += [X.astype("f4")] if np.array_equal(X.astype("f4"), X) else []
    for array in kinds:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        sent = release.privatize(array, target, random_state=0)
        np.testing.assert_array_equal(sent.X, plain.X)
        np.testing.assert_array_equal(np.asarray(sent.y), np.asarray(plain.y))


# ---- noise and seeds -------------------------------------------------------------------------------------


@every
def test_seeds_repeat_and_fresh_entropy_does_not(name):
    table, target, release = records(name, rows=40)
    first, second = (release.privatize(table, target, random_state=3) for _ in range(2))
    pd.testing.assert_frame_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    fresh = [release.privatize(table, target) for _ in range(2)]
    # Something is noised where anything is declared to be.
    differ = not fresh[0].X.equals(fresh[1].X) or not np.array_equal(fresh[0].y, fresh[1].y)
    assert differ == bool(release.groups or release.target_noise)


@every
def test_a_guarantee_is_that_of_hardened_noise_without_a_seed(name):
    table, target, release = records(name)
    private = release.privatize(table, target)
    stated = private.release.guarantee
    if target is None and stated is not None and release.target is None and release.coupling is None:
        # The release speaks of any target without a mechanism, and none was released.
        stated = replace(stated, unprotected=stated.unprotected[:-1])
    assert private.guarantee == stated
    assert (private.guarantee is None) == (release.guarantee is None)
    assert not private.seeded
    assert private.hardened == (release.guarantee is not None)
    for random_state in (0, np.random.default_rng(0)):
        seeded = release.privatize(table, target, random_state=random_state)
        assert seeded.seeded
        assert not hasattr(seeded, "random_state")
        if release.guarantee is not None:
            with pytest.raises(PrivacyError, match=r"noised from a seed.*Call privatize without"):
                _ = seeded.guarantee


# ---- refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IN_NUMBERS)
def test_records_that_are_refused(name):
    X, target, release = numeric(name)
    bad = {
        "NaN": np.where(np.arange(X.size).reshape(X.shape) == 0, math.nan, X),
        "infinity": np.where(np.arange(X.size).reshape(X.shape) == 0, math.inf, X),
        "no rows": X[:0],
        "no columns": X[:, :0],
        "one dimension": X[:, 0],
        "three dimensions": X[None],
        "another column": np.hstack([X, X[:, :1]]),
        "a column less": X[:, 1:],
        "text": X.astype(str),
        "complex": X.astype(complex),
        "objects": X.astype(object),
        "truth values": X > 0,
        "nothing": None,
    }
    for what, array in bad.items():
        rows = target if target is None or what != "no rows" else target[:0]
        with pytest.raises((TypeError, ValueError)) as caught:
            release.privatize(array, rows, random_state=0)
        assert isinstance(caught.value, (TypeError, ValueError)), what
        assert "X" in str(caught.value) or "column" in str(caught.value), what


@every
def test_targets_that_are_refused(name):
    table, target, release = records(name)
    if target is None:
        return
    for bad in (None, target[:-1], np.append(target, target[0]), np.array([target, target]).T, [math.nan] * len(table)):
        with pytest.raises((TypeError, ValueError), match=r"y\b|target|column y|labels"):
            release.privatize(table, bad, random_state=0)
