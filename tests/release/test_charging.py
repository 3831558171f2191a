import hashlib
import secrets
from dataclasses import replace

import numpy as np
import pytest

import symdebias as sd
from symdebias.mechanisms import sampling
from symdebias.privacy import compose
from symdebias.privacy import ledger as ledger_module
from symdebias.release.charging import parts_of

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.4, 0.4, (30, 3))
Y = np.where(RNG.random(30) < 0.5, 1, -1)
NORMAL = sd.GaussianMechanism(1.0, 1e-5, 1.0)
APART = sd.Release(
    {("age", "hours"): NORMAL, "sex": sd.RandomizedResponse(0.5)}, sd.RandomizedResponse(1.0), noiseless=("year",)
)
JOINT = sd.Release({("age", "hours", "year"): NORMAL}, target="joint", target_bounds=(-1, 1))
MARGIN = sd.Release(NORMAL, target="margin", fit_intercept=True)
ONE_HOT = sd.Release(
    {("age", "place"): NORMAL.with_radius(2.0)}, categories={"place": ("n", "e", "s")}, noiseless=("year",)
)


def records(release):
    if release is APART:
        return np.column_stack([X[:, :2], np.sign(X[:, 2]), X[:, 2]]), Y
    if release is ONE_HOT:
        return np.column_stack([X[:, 0], RNG.integers(0, 3, 30), X[:, 2]]), Y
    return X, Y


@pytest.fixture
def book(tmp_path):
    return sd.Ledger(tmp_path / "spent.jsonl", "people", total=sd.Guarantee(100.0, 1e-3))


@pytest.mark.parametrize(
    ("release", "columns", "unprotected"),
    [
        (APART, [("age", "hours"), ("sex",), ("target",)], ("year",)),
        (JOINT, [("age", "hours", "target", "year")], ()),
        (MARGIN, [("target", "x0", "x1", "x2")], ()),
        (ONE_HOT, [("age", "place")], ("year", "target")),
    ],
)
def test_a_release_is_counted_by_its_groups_of_columns(book, release, columns, unprotected):
    noised = release.privatize(*records(release), ledger=book)
    (entry,) = book.entries
    assert [names for names, _ in entry.parts] == columns
    assert entry.unprotected == unprotected
    assert (entry.records, entry.hardened) == (30, True)
    assert entry.card == hashlib.sha256(noised.release.to_json().encode()).hexdigest()
    assert entry.guarantee == noised.guarantee == book.spent
    # What was released may be handed out again; what is drawn anew costs again.
    release.privatize(*records(release), ledger=book)
    assert book.spent.epsilon == min(
        compose([noised.guarantee] * 2).epsilon, compose([one for _, one in entry.parts] * 2).epsilon
    )


CALLED_TARGET = {
    "laplace": (sd.Release({"target": sd.LaplaceMechanism(5.0, bounds=(-1, 1))}, sd.RandomizedResponse(1.0)), 1),
    "normal": (sd.Release({"target": NORMAL}, sd.GaussianMechanism(0.5, 1e-6, 1.0)), 1),
    "normal and pure": (sd.Release({"target": NORMAL, "age": NORMAL}, sd.RandomizedResponse(1.0)), 2),
    "responses": (sd.Release({"target": sd.RandomizedResponse(0.5), "age": NORMAL}, sd.RandomizedResponse(1.0)), 2),
    "staircase": (sd.Release({"target": sd.StaircaseMechanism(2.0, bounds=(-1, 1))}, sd.RandomizedResponse(1.0)), 1),
    "one-hot": (sd.Release({"target": NORMAL}, sd.RandomizedResponse(1.0), categories={"target": ("n", "e", "s")}), 1),
    "in a group": (sd.Release({("age", "target"): NORMAL}, sd.RandomizedResponse(1.0)), 2),
    "in one vector": (sd.Release({("age", "target"): NORMAL}, target="joint", target_bounds=(-1, 1)), 1),
}


@pytest.mark.parametrize("kind", CALLED_TARGET)
def test_a_feature_called_target_is_counted_with_the_target(book, kind):
    release, parts = CALLED_TARGET[kind]
    columns = len(release.categories.collected(release.columns))
    signs = np.sign(RNG.normal(size=(30, columns)))
    X = {"one-hot": RNG.integers(0, 3, (30, 1)), "responses": signs * [1, 0.5][:columns]}.get(kind, signs / 2)
    noised = release.privatize(X, Y, ledger=book)
    (entry,) = book.entries
    assert len(entry.parts) == parts
    spent = noised.guarantee
    assert book.spent.epsilon >= spent.epsilon * (1 - 1e-12)
    assert book.spent.delta >= spent.delta * (1 - 1e-12)
    # No more than the sum of what its mechanisms cost.
    mechanisms = [one for _, one in release.groups] + ([] if release.target is None else [release.target])
    basic = spent if release.coupling else compose([replace(one.guarantee, multiplier=None) for one in mechanisms])
    assert book.spent.epsilon <= basic.epsilon * (1 + 1e-12)
    if parts == 1:
        assert book.spent_on("target").epsilon == book.spent.epsilon


def test_a_total_holds_for_a_feature_called_target(tmp_path, draws):
    book = sd.Ledger(tmp_path / "spent.jsonl", "people", total=sd.Guarantee(1.5, 0.0))
    release = sd.Release({"target": sd.LaplaceMechanism(5.0, bounds=(-1, 1))}, sd.RandomizedResponse(1.0))
    with pytest.raises(sd.PrivacyError, match=r"this release would be epsilon 6, of a total of epsilon 1\.5"):
        release.privatize(X[:, :1], Y, ledger=book)
    assert draws == []


PLACE = sd.Release(
    {"age": sd.LaplaceMechanism(1.0, bounds=(-1, 1))}, categories={"place": ("n", "e", "s")}, noiseless=("place",)
)


@pytest.mark.parametrize(
    ("release", "X", "column"),
    [(APART, records(APART)[0], "year"), (PLACE, np.abs(np.sign(X)), "place"), (ONE_HOT, None, "target")],
)
def test_a_column_with_a_total_is_not_sent_as_it_is(tmp_path, draws, release, X, column):
    X = records(ONE_HOT)[0] if X is None else X[:, : len(release.categories.collected(release.columns))]
    wide = sd.Guarantee(100.0, 1e-3)
    book = sd.Ledger(tmp_path / "spent.jsonl", "people", total=wide, columns={column: sd.Guarantee(99.0, 1e-3)})
    with pytest.raises(sd.PrivacyError, match=f"this release sends {column} without noise"):
        release.privatize(X, Y, ledger=book)
    assert draws == []
    assert book.entries == ()


def test_a_target_that_is_not_there_is_not_released(tmp_path):
    total = sd.Guarantee(100.0, 1e-3)
    book = sd.Ledger(tmp_path / "spent.jsonl", "people", total=total, columns={"target": sd.Guarantee(1.0, 0.0)})
    ONE_HOT.privatize(records(ONE_HOT)[0], ledger=book)
    assert book.spent.unprotected == ("year",)
    assert book.spent_on("target") is None


def test_row_labels_that_are_kept_are_unprotected(book):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["age", "hours", "year"], index=range(100, 130))
    noised = JOINT.privatize(table, pandas.Series(Y, index=table.index), ledger=book, keep_index=True)
    assert book.spent.unprotected == noised.guarantee.unprotected == ("row labels",)


@pytest.fixture
def draws(monkeypatch):
    """The numbers of random words that were drawn."""
    found = []
    for name in ("words", "halves", "uniform"):
        draw = getattr(sampling.Source, name)
        monkeypatch.setattr(
            sampling.Source, name, lambda self, count, draw=draw: found.append(count) or draw(self, count)
        )
    return found


@pytest.mark.parametrize("release", [APART, JOINT, MARGIN, ONE_HOT])
def test_nothing_is_drawn_beyond_the_total(tmp_path, draws, release):
    X, y = records(release)
    bound = release if release.columns else release.bind(["x0", "x1", "x2"])
    book = sd.Ledger(tmp_path / "spent.jsonl", "people", total=bound.guarantee)
    release.privatize(X, y, ledger=book)
    assert draws
    draws.clear()
    with pytest.raises(sd.PrivacyError, match="Nothing was released"):
        release.privatize(X, y, ledger=book)
    assert draws == []
    assert len(book.entries) == 1


@pytest.mark.parametrize("release", [APART, MARGIN])
def test_the_line_is_on_the_disk_before_anything_is_drawn(book, monkeypatch, release):
    seen = []
    for name in ("words", "halves"):
        draw = getattr(sampling.Source, name)

        def looking(self, count, draw=draw):
            seen.append(len(sd.Ledger(book.path, "people").entries))
            return draw(self, count)

        monkeypatch.setattr(sampling.Source, name, looking)
    release.privatize(*records(release), ledger=book)
    assert set(seen) == {1}


def test_a_ledger_that_cannot_be_written_draws_nothing(book, draws, monkeypatch):
    def full(descriptor, more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledger_module.ledger_lines._files, "grow", full)
    with pytest.raises(OSError, match="No space left"):
        APART.privatize(*records(APART), ledger=book)
    assert draws == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"random_state": 0}, sd.PrivacyError, "asks for a seed"),
        ({"random_state": 0, "noise": "hardened"}, sd.PrivacyError, "asks for a seed"),
        ({"noise": "plain"}, sd.PrivacyError, "asks for plain noise"),
        ({"ledger": "spent.jsonl"}, TypeError, "ledger must be a Ledger; got str"),
        ({"X": X[:, :2]}, ValueError, "columns"),
        ({"y": None}, ValueError, "y was not given"),
        ({"y": np.full(30, 0.5)}, ValueError, "labels"),
        ({"X": np.column_stack([9 * X[:, :2], np.sign(X[:, 2]), X[:, 2]]), "outside": "refuse"}, ValueError, "outside"),
        ({"X": np.full((30, 4), np.nan)}, ValueError, "finite|NaN|not a number"),
    ],
)
def test_what_is_refused_is_not_counted(book, arguments, error, message):
    true, labels = records(APART)
    given = {"X": true, "y": labels, "ledger": book, **arguments}
    with pytest.raises(error, match=message):
        APART.privatize(**given)
    assert book.entries == ()


@pytest.mark.parametrize(
    "release",
    [sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(1.0)), sd.Release()],
)
def test_a_release_without_a_guarantee_is_not_counted(book, release):
    with pytest.raises(sd.PrivacyError, match="no guarantee to count"):
        release.privatize(X, Y, ledger=book)
    assert book.entries == ()


def test_without_entropy_nothing_is_drawn_or_counted(book, monkeypatch):
    """The generator of the operating system is asked before the release is counted."""

    def none(*_):
        raise NotImplementedError("no source of randomness")

    monkeypatch.setattr(secrets, "randbits", none)
    monkeypatch.setattr(sampling.os, "urandom", none)
    with pytest.raises(NotImplementedError, match="no source of randomness"):
        APART.privatize(*records(APART), ledger=book)
    assert book.entries == ()


@pytest.mark.parametrize(
    "features",
    [
        {"target": sd.LaplaceMechanism(5.0, bounds=(-1, 1))},
        {"target": NORMAL, "age": sd.LaplaceMechanism(0.5, bounds=(-1, 1))},
        {"target": sd.RandomizedResponse(2.0)},
    ],
)
def test_a_column_called_target_costs_beside_the_target(book, features):
    release = sd.Release(features, sd.RandomizedResponse(1.0))
    table = np.tile(Y[:, None], len(features)) if len(features) == 1 else X[:, :2]
    release.privatize(table, Y, ledger=book)
    (entry,) = book.entries
    assert ("target",) in dict(entry.parts)
    assert book.spent.epsilon >= release.guarantee.epsilon * (1 - 1e-12)
    assert book.spent.delta >= release.guarantee.delta


def test_parts_are_never_less_than_the_release():
    for release in (APART, ONE_HOT, sd.Release({"target": NORMAL}, sd.RandomizedResponse(1.0))):
        whole = compose(parts_of(release).values())
        assert whole.epsilon >= release.guarantee.epsilon * (1 - 1e-12)
