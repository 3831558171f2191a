"""Records in files and from functions: read by blocks, released by blocks, and the same as in memory."""

import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numba
import numpy as np
import pytest
from scipy import sparse

import symdebias as sd
from symdebias._randomness import generator

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COUNT = 30_000
RELEASE = sd.Release(
    {
        ("age", "hours"): sd.GaussianMechanism.from_scale(0.4),
        "place": sd.RandomizedResponse(3.0, categories=("n", "e", "s")),
    },
    sd.RandomizedResponse(3.0),
    fit_intercept=True,
)


def people():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-0.6, 0.6, (COUNT, 2)), rng.integers(0, 3, COUNT)])
    y = np.where(rng.random(COUNT) < 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1] - X[:, 2] + 1)), 1.0, -1.0)
    return X, y


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Return records that were released by blocks, in memory and by blocks."""
    X, y = people()
    folder = tmp_path_factory.mktemp("released") / "folder"
    blocks = ((X[start : start + 7_000], y[start : start + 7_000]) for start in range(0, COUNT, 7_000))
    assert sd.blocks.privatize(RELEASE, blocks, folder, target_name="rich", random_state=3) == COUNT
    return folder, sd.load(folder), sd.load(folder, in_memory=False)


@pytest.mark.in_turn
def test_a_folder_that_was_released_by_blocks_is_fitted_as_in_memory(stored):
    folder, whole, read = stored
    assert read.release == whole.release == RELEASE
    assert (
        (read.seeded, read.hardened, read.target_name)
        == (whole.seeded, whole.hardened, "rich")
        == (True, False, "rich")
    )
    assert pq.ParquetFile(folder / "records.parquet").metadata.num_row_groups == 5
    # Text is read as codes of the declared categories.
    assert set(whole.X["place"]) == {"n", "e", "s"}
    np.testing.assert_array_equal(read.X[:], RELEASE.design_matrix(whole.X))
    np.testing.assert_array_equal(read.y[:], whole.y)
    corrected = sd.debias(sd.losses.exponential(), RELEASE)
    expected, found = (sd.m_estimate(corrected, noised.X, noised.y) for noised in (whole, read))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-8)
    logistic = sd.debias(sd.losses.logistic(), RELEASE)
    expected, found = (sd.m_estimate(logistic, noised.X, noised.y) for noised in (whole, read))
    np.testing.assert_allclose(found.inference.bias_factors, expected.inference.bias_factors, rtol=1e-6, atol=1e-9)
    how = {"order": "given", "random_state": 0}
    expected, found = (sd.sgd(corrected, noised.X, noised.y, **how) for noised in (whole, read))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-8)


def test_categories_that_are_numbers_are_read_as_their_codes(tmp_path):
    release = sd.Release({"rooms": sd.RandomizedResponse(2.0, categories=(10.0, 30.0, 20.0))})
    blocks = [np.arange(30.0)[:, None] % 3] * 2
    sd.blocks.privatize(release, blocks, tmp_path / "out", random_state=0)
    whole, read = (sd.load(tmp_path / "out", in_memory=in_memory) for in_memory in (True, False))
    assert set(whole.X["rooms"]) == {10.0, 20.0, 30.0}
    np.testing.assert_array_equal(read.X[:], release.design_matrix(whole.X))


@pytest.mark.in_turn
@pytest.mark.parametrize("pair", [(-1, 1), (1, 2), (3, 0)])
def test_two_numbers_are_read_as_themselves(pair, tmp_path):
    """They stand for themselves in arrays: as codes 0 and 1 no solver would take them."""
    release = sd.Release(
        {"age": sd.GaussianMechanism.from_scale(0.3), "sex": sd.RandomizedResponse(2.0, categories=pair)}
    )
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), rng.choice(pair, 500)])
    sd.blocks.privatize(release, [(X, X @ [1.0, 0.5])], tmp_path / "out", target_name="rent", random_state=0)
    whole, read = (sd.load(tmp_path / "out", in_memory=in_memory) for in_memory in (True, False))
    assert set(read.X[:][:, 1]) == set(pair)
    corrected = sd.debias(sd.losses.least_squares(), release)
    expected = sd.m_estimate(corrected, whole.X, whole.y).theta
    tables = sd.blocks.from_iterator(lambda: [(whole.X, whole.y)], release=release)
    for source in ((read.X, read.y), tables):
        np.testing.assert_allclose(sd.m_estimate(corrected, *source).theta, expected, rtol=1e-10)


def test_noise_of_blocks_is_that_of_the_mechanism_and_independent(stored):
    """Equal true records in two blocks have other noise; the share of flipped labels has a 5-sigma test."""
    X, y = people()
    _, whole, _ = stored
    noise = np.asarray(whole.X["age"]) - X[:, 0]
    assert len(np.unique(noise)) == COUNT
    assert abs(noise.std() / 0.4 - 1) < 5 / np.sqrt(2 * COUNT)
    flipped = float(np.mean(np.asarray(whole.y) != y))
    chance = 1 / (1 + np.exp(3.0))
    assert abs(flipped - chance) < 5 * np.sqrt(chance / COUNT)


def test_blocks_without_a_seed_are_hardened(tmp_path):
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    blocks = [np.full((50, 1), 40.0)] * 2
    assert sd.blocks.privatize(release, blocks, tmp_path / "out") == 100
    noised = sd.load(tmp_path / "out")
    assert (noised.seeded, noised.hardened) == (False, True)
    assert noised.guarantee.epsilon == 1.0
    assert len(set(noised.X["age"])) == 100


@pytest.mark.parametrize("blocks", [[], [(np.zeros((5, 2)), np.ones(5))], [(np.zeros((5, 3)), np.ones(4))]])
def test_blocks_that_do_not_fit_leave_no_folder(blocks, tmp_path):
    with pytest.raises(ValueError, match=r"yielded nothing|columns|entries"):
        sd.blocks.privatize(RELEASE, blocks, tmp_path / "out")
    good = (np.zeros((20, 3)), np.ones(20))
    with pytest.raises(ValueError, match="NaN"):
        sd.blocks.privatize(RELEASE, [good, (np.full((20, 3), np.nan), np.ones(20))], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="does not name its columns"):
        sd.blocks.privatize(sd.Release(sd.LaplaceMechanism(1.0, radius=1.0)), [good], tmp_path / "out")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: X.__setitem__((7, 1), np.nan), r"^block 2: X has NaN in row 207, column 1"),
        (lambda X, y: X.__setitem__((7, 0), np.inf), r"^block 2: X has infinity in row 207, column 0"),
        (lambda X, y: y.__setitem__(7, np.nan), r"^block 2: y has NaN in row 207"),
        (lambda X, y: y.__setitem__(7, 3), r"^block 2: labels must be.*is in row 207"),
    ],
)
def test_a_bad_record_is_named_with_its_block_and_its_row_of_all(spoil, message, tmp_path):
    def blocks():
        for place in range(3):
            X, y = np.full((100, 2), 0.5), np.ones(100)
            if place == 2:
                spoil(X, y)
            yield X, y

    release = sd.Release({name: sd.LaplaceMechanism(1.0, bounds=(0, 1)) for name in "ab"}, sd.RandomizedResponse(1.0))
    with pytest.raises(ValueError, match=message):
        sd.blocks.privatize(release, blocks(), tmp_path / "out", random_state=0)


def test_damaged_and_foreign_folders_are_refused(stored, tmp_path):
    folder = stored[0]
    for damaged in folder.iterdir():
        copy = tmp_path / damaged.name
        copy.mkdir()
        for one in folder.iterdir():
            content = one.read_bytes()
            (copy / one.name).write_bytes(content[:-1] if one == damaged else content)
        with pytest.raises(sd.FormatError):
            sd.load(copy, in_memory=False)
    sd.Release({"a": sd.LaplaceMechanism(1.0, bounds=(0, 1))}).privatize([[0.5]] * 3).save(tmp_path / "csv")
    with pytest.raises(
        sd.FormatError, match=r"csv has its records in CSV, and only Parquet is read by blocks\. Leave out"
    ):
        sd.load(tmp_path / "csv", in_memory=False)


def test_parquet_files_are_one_table(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5_000, 2)), rng.normal(size=5_000)
    for number, rows in enumerate((slice(0, 1_200), slice(1_200, 5_000))):
        table = pa.table({"b": X[rows, 1], "y": y[rows], "a": X[rows, 0], "text": ["t"] * len(y[rows])})
        pq.write_table(table, tmp_path / f"part-{number}.parquet", row_group_size=500)
    for source in (tmp_path, str(tmp_path), sorted(tmp_path.glob("*.parquet"))):
        read, target = sd.blocks.from_parquet(source, columns=("a", "b"), target="y")
        np.testing.assert_array_equal(read[:], X)
        np.testing.assert_array_equal(target[1_100:1_300], y[1_100:1_300])
        np.testing.assert_array_equal(read[::700], X[::700])
    assert sd.blocks.from_parquet(tmp_path / "part-0.parquet", columns="a")[1] is None
    for how, message in (
        ({"columns": ["a", "c"]}, "no column 'c'; it has b, y, a, text"),
        ({"columns": ["a"], "target": "z"}, "no column 'z'"),
        ({}, "Give one of them"),
        ({"columns": ["a"], "release": RELEASE}, "Give one of them"),
        ({"release": sd.Release(sd.LaplaceMechanism(1.0, radius=1.0))}, "does not name its columns"),
    ):
        with pytest.raises(ValueError, match=message):
            sd.blocks.from_parquet(tmp_path, **how)
    with pytest.raises(TypeError, match=r"release must be a symdebias.Release; got LaplaceMechanism"):
        sd.blocks.from_parquet(tmp_path, release=sd.LaplaceMechanism(1.0, radius=1.0))
    with pytest.raises(TypeError, match="'text' has no numbers"):
        sd.blocks.from_parquet(tmp_path, columns=["text"])
    (tmp_path / "other.parquet").write_bytes(b"not one")
    with pytest.raises(ValueError, match=r"is no file of Parquet, or is damaged: .*Copy it anew"):
        sd.blocks.from_parquet(tmp_path, columns=["a"])
    with pytest.raises(FileNotFoundError, match="is no file of Parquet"):
        sd.blocks.from_parquet(tmp_path / "none", columns=["a"])
    for path, name in ((b"x.parquet", "bytes"), ([1], "int"), (np.array(1.0), "ndarray")):
        with pytest.raises(TypeError, match=f"a file is named by its path; got {name}"):
            sd.blocks.from_parquet(path, columns=["a"])
    (tmp_path / "other.parquet").unlink()
    with pytest.raises(ValueError, match=r"no column .*1\.0"):
        sd.blocks.from_parquet(tmp_path, columns=np.array(1.0))


def chunks(X, y, size):
    return lambda: ((X[start : start + size], y[start : start + size]) for start in range(0, len(X), size))


@pytest.mark.parametrize("size", [900, 40_000])
def test_blocks_of_a_function_are_fitted_as_in_memory(size):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(70_000, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=len(X))
    X += 0.5 * rng.normal(size=X.shape)
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    read, target = sd.blocks.from_iterator(chunks(X, y, size))
    expected, found = sd.m_estimate(corrected, X, y), sd.m_estimate(corrected, read, target)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-10)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-9)


def test_functions_that_yield_something_else_are_refused():
    for blocks, error, message in (
        (iter([]), TypeError, "Pass a function without arguments"),
        (lambda: iter([]), ValueError, "yielded nothing"),
        (lambda: [np.zeros((3, 2)), np.zeros((3, 3))], ValueError, "has 3 columns and no target, and the first 2"),
        (
            lambda: [(np.zeros((3, 2)), np.zeros(3)), np.zeros((3, 2))],
            ValueError,
            "no target, and the first 2 columns and a target",
        ),
        (lambda: [(np.zeros((3, 2)), np.zeros(4))], ValueError, "3 records and targets of shape"),
        (lambda: [{"a": [1.0]}], TypeError, "real numbers"),
        (lambda: [(np.zeros((3, 2)), np.zeros(3), np.ones(3))], TypeError, "a tuple of 3"),
        (lambda: [(np.zeros((2, 2)), np.array(["a", "b"]))], TypeError, "y must hold real numbers"),
        (lambda: [(np.zeros((2, 2)), np.array([1j, 1.0]))], TypeError, "y must hold real numbers"),
        (lambda: [(np.array(3.0), np.array(1.0))], ValueError, "X must have two dimensions"),
        (lambda: [(sparse.csr_matrix(np.ones((2, 2))), np.ones(2))], TypeError, "X is a sparse matrix"),
        (lambda: None, TypeError, "blocks returned a NoneType.*Write yield"),
        (lambda: pa.table({"a": [1.0]}), TypeError, "blocks returned a Table"),
        (lambda: (np.zeros((3, 2)), np.zeros(3)), TypeError, "blocks returned a tuple"),
    ):
        with pytest.raises(error, match=message):
            sd.blocks.from_iterator(blocks)
    lengths = iter([10, 5])
    read, _ = sd.blocks.from_iterator(lambda: [np.zeros((next(lengths), 2))])
    with pytest.raises(ValueError, match="yielded 5 records, and 10 before"):
        read[:]


def other_blocks(what, X, y):
    """Return blocks of other records than X and y."""
    changed = X.copy()
    changed[:, 1] += 1e-9
    but_one, without_one, but_one_target = X.copy(), X.copy(), y.copy()
    but_one[2_017, 1] *= 1 + 2**-50
    without_one[2_017, 1] = np.nan
    but_one_target[2_017] *= -1
    low, high = 1_200 + np.argmin(y[1_200:2_000]), 1_200 + np.argmax(y[1_200:2_000])
    exchanged, order = y.copy(), np.arange(3_000)
    order[[5, 6]] = 6, 5
    exchanged[[low, high]] = y[[high, low]]
    return {
        "fewer columns": [(X[:, :1], y)],
        "more columns": [(np.column_stack([X, X]), y)],
        "fewer columns in the end": [(X[:900], y[:900]), (X[900:, :1], y[900:])],
        "no target": [X],
        "more records": [(X[:2_000], y[:2_000]), (X[2_000:], y[2_000:]), (X, y)],
        "fewer records": [(X[:-1], y[:-1])],
        "another order": [(X[::-1], y[::-1])],
        "other features": [(changed, y)],
        "other targets": [(X, -y)],
        "a row twice": [(X[:1], y[:1]), (X[:-1], y[:-1])],
        "one number": by_hundreds(but_one, y),
        "one target": by_hundreds(X, but_one_target),
        "two targets of opposite signs": by_hundreds(X, exchanged),
        "one number is missing": by_hundreds(without_one, y),
        "rows of features": by_hundreds(X[order], y),
        "columns of a row": by_hundreds(np.where(np.arange(3_000)[:, None] == 5, X[:, ::-1], X), y),
        "one number, by blocks of other lengths": [(but_one[:999], y[:999]), (but_one[999:], y[999:])],
    }[what]


def by_hundreds(X, y):
    return [(X[start : start + 100], y[start : start + 100]) for start in range(0, 3_000, 100)]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("fewer columns", "the block from record 0 on has 1 column and a target, and the first 2 columns and a target"),
        ("more columns", "the block from record 0 on has 4 columns and a target, and the first 2 columns"),
        ("fewer columns in the end", "the block from record 900 on has 1 column and a target, and the first 2"),
        ("no target", "the block from record 0 on has 2 columns and no target, and the first 2 columns and a target"),
        ("more records", "more than 3,000 records, and 3,000 before"),
        ("fewer records", "2,999 records, and 3,000 before"),
        ("another order", "another record in row 0 than before.*in the same order"),
        ("other features", "another record in row 0 than before"),
        ("other targets", "another record in row 0 than before"),
        ("a row twice", "another record in row 1024 than before"),
        ("one number", "other records in rows 1100 to 2199 than before"),
        ("two targets of opposite signs", "other records in rows 1100 to 2199 than before"),
        ("one target", "other records in rows 1100 to 2199 than before"),
        ("one number is missing", "other records in rows 1100 to 2199 than before"),
        ("rows of features", "other records in rows 0 to 1099 than before"),
        ("columns of a row", "other records in rows 0 to 1099 than before"),
        ("one number, by blocks of other lengths", "other records in rows 0 to 2999 than before"),
    ],
)
@pytest.mark.parametrize("changes_in", [2, 3])
def test_blocks_of_a_later_pass_are_those_of_the_first(what, message, changes_in, monkeypatch):
    """Rows of another width, or targets that are not there, would be read beyond their end."""
    monkeypatch.setattr(sd.blocks, "WINDOW", 16)
    monkeypatch.setattr(sd.blocks, "_BEHIND", 16)
    monkeypatch.setattr(sd.blocks, "_SMALL", 0)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3_000, 2))
    y, passes = X[:, 0] + rng.normal(size=3_000), []

    def blocks():
        passes.append(1)
        if len(passes) >= changes_in:
            return iter(other_blocks(what, X, y))
        return by_hundreds(X, y)

    read, _ = sd.blocks.from_iterator(blocks)
    if changes_in == 3:
        assert np.array_equal(read[1_000:], X[1_000:])
    with pytest.raises(ValueError, match=message):
        # A pass that has come to the last record is asked for more when the next one begins.
        _ = read[:1], read[2_900:], read[:1]


@pytest.mark.parametrize(("small", "passes"), [(2**22, 2), (0, 4)])
def test_few_records_are_asked_for_once_more_and_never_again(small, passes, monkeypatch):
    monkeypatch.setattr(sd.blocks, "WINDOW", 16)
    monkeypatch.setattr(sd.blocks, "_BEHIND", 16)
    monkeypatch.setattr(sd.blocks, "_SMALL", small)
    X, asked = np.random.default_rng(5).normal(size=(3_000, 2)), []

    def blocks():
        asked.append(1)
        return by_hundreds(X, X[:, 0])

    read, _ = sd.blocks.from_iterator(blocks)
    for _ in range(3):
        for start in range(0, 3_000, 64):
            np.testing.assert_array_equal(read[start : start + 64], X[start : start + 64])
    assert len(asked) == passes


PASSES = {
    "m_estimate": (lambda X, y: sd.m_estimate(corrected_by("exponential"), X, y, l2=1.0), 3),
    "m_estimate, surrogate": (lambda X, y: sd.m_estimate(corrected_by("logistic"), X, y), 4),
    "sgd": (lambda X, y: sd.sgd(corrected_by("exponential"), X, y, order="given"), 2),
    "sgd, surrogate": (lambda X, y: sd.sgd(corrected_by("logistic"), X, y, order="given"), 3),
    "log_loss": (lambda X, y: evaluated("log_loss", X, y), 3),
    "accuracy": (lambda X, y: evaluated("accuracy", X, y), 4),
    "r2": (lambda X, y: evaluated("r2", X, y), 4),
}
NORMAL_NOISE = sd.Release(sd.GaussianMechanism.from_scale(0.3))


def corrected_by(loss):
    return sd.debias(getattr(sd.losses, loss)(), NORMAL_NOISE)


def evaluated(metric, X, y):
    return sd.evaluation.evaluate([1.0, 0.1], X, y, metric=metric, release=NORMAL_NOISE)


@pytest.mark.parametrize("what", PASSES)
def test_no_more_passes_are_made_than_need_be(what, monkeypatch):
    """Each may take hours. Samples are taken while records are checked, and where scores lie is told at once.

    A thread that is late, as where all processors are busy, does not have them read again.
    """
    monkeypatch.setattr(sd.blocks, "_SMALL", 0)
    monkeypatch.setattr(numba, "get_num_threads", lambda: 3)
    work, passes = PASSES[what]
    rng, asked = np.random.default_rng(5), []
    X = rng.normal(size=(450_000, 2))
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-X[:, 0])), 1.0, -1.0)

    def blocks():
        asked.append(1)
        for start in range(0, len(X), 30_000):
            yield X[start : start + 30_000], y[start : start + 30_000]

    found = work(*sd.blocks.from_iterator(blocks))
    # One more counts them.
    assert len(asked) == 1 + passes
    expected = work(X, y)
    if hasattr(found, "theta"):
        np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    else:
        assert found.value == pytest.approx(expected.value, rel=1e-9)


def test_blocks_of_other_lengths_are_the_same_records_and_are_read_to_their_end(monkeypatch):
    monkeypatch.setattr(sd.blocks, "WINDOW", 16)
    monkeypatch.setattr(sd.blocks, "_BEHIND", 16)
    monkeypatch.setattr(sd.blocks, "_SMALL", 0)
    X = np.random.default_rng(6).normal(size=(5_000, 2))
    sizes, ended = iter([700, 1_500, 300, 1]), []

    def blocks():
        size = next(sizes)
        for start in range(0, len(X), size):
            yield X[start : start + size]
        ended.append(size)

    read, _ = sd.blocks.from_iterator(blocks)
    for start in (4_000, 2_000, 0):
        assert np.array_equal(read[start:], X[start:])
    # The last of a pass is there until the next one begins.
    assert ended == [700, 1_500, 300]


@pytest.mark.parametrize("size", [1_000, 2_500])
def test_the_last_block_is_read_before_a_function_wipes_it_at_its_end(size):
    X = np.random.default_rng(6).normal(size=(2_500, 3))

    def blocks():
        for start in range(0, len(X), size):
            own = X[start : start + size].copy()
            yield own
        own.fill(0)

    read, _ = sd.blocks.from_iterator(blocks)
    for _ in range(2):
        assert np.array_equal(read[:], X)


def test_rows_that_a_source_names_are_not_counted_again(tmp_path, monkeypatch):
    """What reads records from the middle on counts rows of a part; a source has counted them already."""
    monkeypatch.setattr("symdebias._rows.WINDOW", 500)
    monkeypatch.setattr("symdebias.reading.at_once", lambda *_: 500)
    monkeypatch.setattr(sd.blocks, "WINDOW", 16)
    monkeypatch.setattr(sd.blocks, "_BEHIND", 16)
    monkeypatch.setattr(sd.blocks, "_SMALL", 0)
    release = sd.Release({"place": sd.RandomizedResponse(2.0, categories=("n", "e"))}, fit_intercept=True)
    corrected = sd.debias(sd.losses.least_squares(), release)
    places = np.where(np.arange(3_000) % 3 > 0, "n", "e").astype(object)
    income, wrong = np.arange(3_000.0), places.copy()
    wrong[2_017] = "x"
    pq.write_table(pa.table({"place": list(wrong), "income": income}), tmp_path / "records.parquet")
    monkeypatch.setattr("symdebias._parquet.WINDOW", 500)
    with pytest.raises(ValueError, match="in row 2017 that was not declared"):
        sd.m_estimate(corrected, *sd.blocks.from_parquet(tmp_path, release=release, target="income"))
    passes = []

    def tables():
        passes.append(1)
        own = places if len(passes) == 1 else wrong
        for start in range(0, 3_000, 100):
            rows = slice(start, start + 100)
            yield pa.table({"place": list(own[rows]), "income": income[rows]})

    X, y = sd.blocks.from_iterator(tables, release=release, target="income")
    with pytest.raises(ValueError, match="in row 2017 that was not declared"):
        sd.m_estimate(corrected, X, y)


def test_what_a_function_of_blocks_raises_says_where():
    def blocks():
        yield np.ones((3, 1))
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone") as caught:
        sd.blocks.from_iterator(blocks)
    assert caught.value.__notes__ == ["It was raised by what yields blocks of records, where block 1 was asked for."]


def test_targets_of_records_that_are_not_there_are_refused(tmp_path):
    blocks = [(np.ones((3, 1)), np.ones(3)), (np.ones((0, 1)), np.ones(2)), (np.ones((0, 1)), np.ones(0))]
    release = sd.Release({"a": sd.LaplaceMechanism(1.0, bounds=(0, 1))}, sd.RandomizedResponse(1.0))
    with pytest.raises(ValueError, match="block 1: X is empty"):
        sd.blocks.from_iterator(lambda: blocks)
    with pytest.raises(ValueError, match="block 1: X is empty"):
        sd.blocks.privatize(release, blocks, tmp_path / "released")
    assert sd.blocks.privatize(release, [blocks[0], blocks[2]], tmp_path / "released") == 3


def written(place, values, **options):
    pq.write_table(pa.table({"x": values, "y": values}), place, row_group_size=1_000, **options)


def test_a_file_that_is_written_to_while_it_is_read_is_refused(tmp_path):
    """One that is removed, or replaced by another, stays as it was for who has it open."""
    place, values = tmp_path / "a.parquet", np.random.default_rng(0).normal(size=3_000)
    for change in ("removed", "replaced", "written to", "cut"):
        written(place, values)
        X, _ = sd.blocks.from_parquet(place, columns=["x"])
        if change == "removed":
            place.unlink()
        elif change == "replaced":
            written(tmp_path / "b.parquet", values + 1)
            (tmp_path / "b.parquet").replace(place)
        elif change == "written to":
            written(place, values + 1)
        else:
            with place.open("r+b") as stream:
                stream.truncate(20_000)
        if change in ("removed", "replaced"):
            assert np.array_equal(X[:][:, 0], values)
        else:
            with pytest.raises(ValueError, match=r"a\.parquet was written to while it was read. Open it again"):
                _ = X[:]


def test_damage_that_checksums_of_pages_find_names_the_row_group(tmp_path):
    place = tmp_path / "a.parquet"
    written(place, np.random.default_rng(0).random(3_000), write_page_checksum=True)
    content = bytearray(place.read_bytes())
    page = pq.ParquetFile(place).metadata.row_group(1).column(0).data_page_offset
    content[page + 200 : page + 300] = bytes(100)
    place.write_bytes(content)
    release = sd.Release({"x": sd.LaplaceMechanism(1.0, bounds=(0, 1))})
    message = r"row group 1 of a\.parquet, with the rows 1000 to 1999 of all, cannot be read: .*The file is damaged"
    with pytest.raises(sd.FormatError, match=message):
        _ = sd.blocks.from_parquet(place, columns=["x"], target="y")[0][:]
    with pytest.raises(sd.FormatError, match=message):
        sd.blocks.privatize(release, place, tmp_path / "released")
    assert list(tmp_path.iterdir()) == [place]


def test_zeros_of_either_sign_are_the_same_record():
    signs = iter([0.0, -0.0])
    read, _ = sd.blocks.from_iterator(lambda: [np.full((3, 3), next(signs))])
    assert not read[:].any()


def test_a_copy_is_a_memory_map_that_is_shuffled(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40_000, 2)), rng.normal(size=40_000)
    read, target = sd.blocks.from_iterator(chunks(X, y, 3_000))
    copied, labels = (
        sd.blocks.to_memory_map(read, tmp_path / "X.npy"),
        sd.blocks.to_memory_map(target, tmp_path / "y.npy"),
    )
    assert isinstance(copied, np.memmap)
    np.testing.assert_array_equal(copied, X)
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    expected, found = (sd.sgd(corrected, *data, random_state=2) for data in ((X, y), (copied, labels)))
    np.testing.assert_array_equal(found.theta, expected.theta)
    with pytest.raises(TypeError, match="Pass what from_parquet or from_iterator returned"):
        sd.blocks.to_memory_map(X, tmp_path / "X.npy")


@pytest.mark.in_turn
def test_memory_is_that_of_some_blocks():
    """The records take 64 MB, and are never there at once."""

    def blocks(count=40):
        rng = np.random.default_rng(0)
        for _ in range(count):
            X = rng.normal(size=(20_000, 10))
            yield X, X[:, 0]

    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    # What a compilation takes is not counted.
    sd.m_estimate(corrected, *sd.blocks.from_iterator(blocks))
    tracemalloc.start()
    try:
        sd.m_estimate(corrected, *sd.blocks.from_iterator(blocks))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6


@pytest.mark.parametrize(("small", "times"), [(2**20, 2), (10**5, 6)])
def test_a_small_file_is_decoded_once(small, times, tmp_path, monkeypatch):
    """All rows take 320,160 bytes; as many pieces as short as the last one would take 3,360."""
    monkeypatch.setattr("symdebias._parquet.WINDOW", 1_000)
    monkeypatch.setattr("symdebias._parquet._SMALL", small)
    X = np.random.default_rng(0).normal(size=(20_010, 2))
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "one.parquet", row_group_size=10_005)
    opened, plain = [], pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda *given, **named: opened.append(1) or plain(*given, **named)
    )
    read, _ = sd.blocks.from_parquet(tmp_path / "one.parquet", columns=["a", "b"])
    for _ in range(3):
        for start in range(0, 20_010, 700):
            np.testing.assert_array_equal(read[start : start + 700], X[start : start + 700])
    assert len(opened) == times


def test_a_long_row_group_is_decoded_piece_by_piece(tmp_path, monkeypatch):
    """Reading the group of 800,000 numbers as a whole would take 6.4 MB twice: for its columns, and turned."""
    monkeypatch.setattr("symdebias._parquet.WINDOW", 5_000)
    monkeypatch.setattr("symdebias._parquet._SMALL", 6e6)
    X = np.random.default_rng(0).normal(size=(100_000, 8))
    names = [f"x{place}" for place in range(8)]
    table = pa.table({**dict(zip(names, X.T, strict=True)), "place": np.array(["n", "e"])[(X[:, 0] > 0).astype(int)]})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=100_000)
    del table
    read, _ = sd.blocks.from_parquet(tmp_path / "one.parquet", columns=names)
    tracemalloc.start()
    try:
        for start in range(0, 100_000, 3_000):
            np.testing.assert_array_equal(read[start : start + 3_000], X[start : start + 3_000])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e6
    # Back to what is no longer kept, and ahead over pieces that are skipped.
    for rows in (slice(10, 20), slice(70_000, 70_010), slice(4_990, 5_010), slice(99_990, 100_000)):
        np.testing.assert_array_equal(read[rows], X[rows])
    release = sd.Release({"place": sd.RandomizedResponse(1.0, categories=("n", "w"))})
    with pytest.raises(ValueError, match=f"in row {int(np.argmax(X[:, 0] > 0))} that was not declared"):
        sd.blocks.from_parquet(tmp_path / "one.parquet", release=release)


def tables_of(kind, table):
    """Return a function that yields a table of pyarrow in parts, as tables of a package."""
    parts = table.to_batches(max_chunksize=7_000)
    if kind == "pyarrow":
        return lambda: iter(parts)
    if kind == "polars":
        polars = pytest.importorskip("polars")
        return lambda: (polars.from_arrow(part) for part in parts)
    frame = pytest.importorskip("pandas").DataFrame(table.to_pandas())
    return lambda: (frame.iloc[start : start + 7_000] for start in range(0, len(frame), 7_000))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_tables_of_a_function_are_read_as_the_file_is(stored, kind):
    folder, _, read = stored
    table = pq.read_table(folder / "records.parquet").append_column("other", pa.array(np.zeros(COUNT)))
    X, y = sd.blocks.from_iterator(tables_of(kind, table), release=RELEASE, target="rich")
    np.testing.assert_array_equal(X[5_000:9_000], read.X[5_000:9_000])
    np.testing.assert_array_equal(y[:], read.y[:])
    X, y = sd.blocks.from_iterator(tables_of(kind, table), columns=["hours", "age"])
    assert y is None
    np.testing.assert_array_equal(X[:], read.X[:][:, 1::-1])


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "file", "folder", "blocks", "reader"])
def test_a_table_or_a_file_is_released_by_blocks(kind, tmp_path, monkeypatch):
    """The seed tells the noise: each kind is released alike, part by part."""
    monkeypatch.setattr("symdebias.blocks.WINDOW", 7_000)
    X, y = people()
    columns = {"y": y, "age": X[:, 0], "other": y, "place": np.array(["n", "e", "s"])[X[:, 2].astype(int)]}
    table = pa.table({**columns, "hours": X[:, 1]})
    if kind in ("file", "folder"):
        (tmp_path / "true").mkdir()
        pq.write_table(table, tmp_path / "true" / "records.parquet", row_group_size=7_000)
        true = tmp_path / "true" if kind == "folder" else str(tmp_path / "true" / "records.parquet")
    elif kind == "blocks":
        true = tables_of("pandas", table)()
    elif kind == "reader":
        true = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7_000))
    elif kind == "polars":
        true = pytest.importorskip("polars").from_arrow(table)
    else:
        true = table.to_pandas() if kind == "pandas" else table
    folder = tmp_path / "released"
    assert sd.blocks.privatize(RELEASE, true, folder, target="y", random_state=3) == COUNT
    assert pq.ParquetFile(folder / "records.parquet").metadata.num_row_groups == 5
    released, codes = sd.load(folder), np.array(["n", "e", "s"])
    assert released.target_name == "y"
    blocks = ((X[start : start + 7_000], y[start : start + 7_000]) for start in range(0, COUNT, 7_000))
    sd.blocks.privatize(RELEASE, blocks, tmp_path / "same", random_state=3)
    same = sd.load(tmp_path / "same")
    for name in ("age", "hours", "place"):
        np.testing.assert_array_equal(released.X[name], same.X[name])
    np.testing.assert_array_equal(released.y, same.y)
    assert np.mean(released.X["place"] == codes[X[:, 2].astype(int)]) > 0.8


@pytest.mark.parametrize(
    ("records", "options", "error", "message"),
    [
        (np.zeros((3, 2)), {}, TypeError, r"blocks is a ndarray.*release\.privatize\(X, y\) takes arrays as a whole"),
        (3, {}, TypeError, "blocks is a int"),
        ("nothing.parquet", {}, FileNotFoundError, "nothing.parquet is no file of Parquet"),
        (
            [np.zeros((3, 3))],
            {"target": "y"},
            ValueError,
            "target='y' names a column of tables, and a block is an array",
        ),
        ([(np.zeros((3, 3)), np.ones(3))], {"target": "y"}, ValueError, r"a block is a pair \(X, y\)"),
        (pa.table({"age": [1.0]}), {"target": "y"}, ValueError, "a block has no column 'y'; it has age"),
        (pa.table({"age": [1.0], "y": [1.0]}), {"target": "y"}, ValueError, "missing: hours, place"),
        ([], {"target": "age"}, ValueError, "target='age' is a feature of the release"),
        ([], {"target": 3}, TypeError, "target has 3, which is not a column name"),
        ({"age": [1.0]}, {}, TypeError, "blocks is a dict"),
    ],
)
def test_records_that_are_not_those_of_the_release_leave_no_folder(records, options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        sd.blocks.privatize(RELEASE, records, tmp_path / "released", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, TypeError, "nothing names its features. Give release=, or columns="),
        ({"release": RELEASE, "columns": ["age"]}, ValueError, "two ways to name the features"),
        ({"release": sd.Release(sd.GaussianMechanism.from_scale(1.0))}, ValueError, "does not name its columns yet"),
        ({"columns": ["agee"]}, ValueError, "missing: agee"),
        ({"columns": []}, ValueError, "columns names nothing"),
        ({"release": "age"}, TypeError, "release must be a symdebias.Release; got str"),
        ({"columns": "age", "target": "poor"}, ValueError, "a block has no column 'poor'"),
    ],
)
def test_tables_whose_columns_are_not_named_are_refused(options, error, message):
    table = pa.table({"age": [1.0, 2.0], "rich": [1.0, -1.0]})
    with pytest.raises(error, match=message):
        sd.blocks.from_iterator(lambda: [table], **options)


def test_rows_of_a_pair_with_other_labels_are_refused():
    """Records are matched by position: a target in another order would be another person's."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"age": [1.0, 2.0]})
    target = pd.Series([1.0, -1.0], index=[1, 0])
    with pytest.raises(ValueError, match="different row labels"):
        sd.blocks.from_iterator(lambda: [(table, target)], columns="age")


def test_a_data_set_of_pyarrow_and_empty_blocks_are_read(tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    release = sd.Release({"age": sd.GaussianMechanism.from_scale(1.0)})
    table = pa.table({"age": [float(age) for age in range(20)]})
    pq.write_table(table, tmp_path / "true.parquet")
    assert (
        sd.blocks.privatize(release, dataset.dataset(tmp_path / "true.parquet"), tmp_path / "a", random_state=0) == 20
    )
    blocks = [table[:0], table[:5], table[5:5], table[5:]]
    assert sd.blocks.privatize(release, blocks, tmp_path / "b", random_state=0) == 20
    X, _ = sd.blocks.from_iterator(lambda: blocks, columns="age")
    assert X[:].ravel().tolist() == list(range(20))
    with pytest.raises(TypeError, match=r"release must be a symdebias\.Release"):
        sd.blocks.privatize("release", blocks, tmp_path / "c")


def test_a_thread_that_is_late_does_not_begin_anew(monkeypatch):
    """Of many threads one may lag by as many chunks: what was read just before is kept for it."""
    X, y = np.zeros((2**20, 1)), np.zeros(2**20)
    begun = []

    def blocks():
        begun.append(1)
        return chunks(X, y, 2**15)()

    read, _ = sd.blocks.from_iterator(blocks)
    begun.clear()
    monkeypatch.setattr(numba, "get_num_threads", lambda: 8)
    for start in (0, 2**18, 2**19, 2**19 - 2**17, 2**19 + 2**15):
        read[start : start + 2**15]
    assert len(begun) == 1


def test_after_an_interruption_blocks_are_read_from_the_beginning():
    passes, X, y = [], np.arange(40.0).reshape(-1, 2), np.arange(20.0)

    def blocks():
        passes.append(1)
        for start in range(0, 20, 5):
            if start == 10 and len(passes) == 2:
                raise KeyboardInterrupt
            yield X[start : start + 5], y[start : start + 5]

    rows, target = sd.blocks.from_iterator(blocks)
    with pytest.raises(KeyboardInterrupt):
        rows[:20]
    assert np.array_equal(rows[:20], X)
    assert np.array_equal(target[3:20], y[3:])


@pytest.mark.parametrize("buffers", [1, 2])
def test_blocks_may_be_written_over_one_another(buffers):
    X, y = np.arange(40.0).reshape(-1, 2), np.arange(20.0)
    own = [(np.empty((5, 2)), np.empty(5)) for _ in range(buffers)]

    def blocks():
        for place, start in enumerate(range(0, 20, 5)):
            features, target = own[place % buffers]
            features[:], target[:] = X[start : start + 5], y[start : start + 5]
            yield features, target

    rows, target = sd.blocks.from_iterator(blocks)
    assert np.array_equal(rows[2:18], X[2:18])
    assert np.array_equal(target[2:18], y[2:18])


SCHEMA = {
    "epsilon": 12.0,
    "columns": {
        "age": {"bounds": [18, 90], "fill": 50}, "rent": {"bounds": [0, 100]},
        "place": {"categories": ["n", "s"], "fill": "n"},
    },
    "target": {"name": "income", "categories": ["low", "high"]},
}  # fmt: skip


@pytest.fixture
def survey(tmp_path):
    """Files of Parquet with columns in other orders and of other types, missing values, decimal numbers and texts."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "true"
    folder.mkdir()
    for place in range(3):
        columns = {
            "age": pa.array([20, None if place == 1 else 30, 40], [pa.int16(), pa.float32(), pa.int64()][place]),
            "rent": pa.array([Decimal("10.25"), Decimal("20.50"), Decimal("99.99")], pa.decimal128(9, 2)),
            "place": pa.array(["n", "s", None if place == 2 else "s"]),
            "income": pa.array(["low", "high", "low"]).dictionary_encode() if place else ["low", "high", "low"],
            "day": pa.array([1, 2, 3], pa.date32()),
        }
        names = sorted(columns) if place == 1 else list(columns)
        parquet.write_table(pa.table({name: columns[name] for name in names}), folder / f"{place}.parquet")
    return folder


@pytest.mark.parametrize("given", ["a folder", "paths", "a generator of paths", "batches", "frames"])
def test_records_are_collected_block_by_block_as_a_schema_says(given, survey, tmp_path):
    parquet, pd = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pandas")
    paths = sorted(survey.glob("*.parquet"))
    records = {
        "a folder": lambda: survey,
        "paths": lambda: list(map(str, paths)),
        "a generator of paths": lambda: (path for path in paths),
        "batches": lambda: (batch for path in paths for batch in parquet.ParquetFile(path).iter_batches(2)),
        "frames": lambda: map(pd.read_parquet, paths),
    }[given]()
    schema = sd.Schema(SCHEMA)
    assert sd.blocks.privatize(schema, records, tmp_path / "released", random_state=0) == 9
    noised = sd.load(tmp_path / "released")
    assert noised.labels == ("low", "high")
    assert noised.release == sd.Release.from_schema(schema)
    if given != "batches":
        source = generator(0)
        wanted = [noised.release.privatize(*schema.collect(path), random_state=source) for path in paths]
        np.testing.assert_array_equal(noised.X["age"], np.concatenate([one.X["age"] for one in wanted]))
        np.testing.assert_array_equal(noised.y, np.concatenate([one.y for one in wanted]))
    np.testing.assert_array_equal(schema.collect(survey)[0]["age"][[0, 4, 8]], [20.0, 50.0, 40.0])
    np.testing.assert_array_equal(schema.collect(survey)[0]["rent"][:3], [10.25, 20.5, 99.99])


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        (lambda: [({"age": [1.0]}, [1.0])], {}, r"block 0 is a tuple, and a schema collects tables"),
        (lambda: [], {"target": "income"}, r"target= and labels= stand in the schema"),
        (lambda: [{**GOOD}, {**GOOD, "age": [None, "x"]}], {}, r"block 1: age is no finite number in row 3,"),
        (lambda: [{**GOOD}, {**GOOD, "income": ["low", "no"]}], {}, r"block 1: income has a value in row 3 that"),
    ],
)  # fmt: skip
def test_blocks_that_do_not_fit_a_schema_leave_no_folder(records, options, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.blocks.privatize(sd.Schema(SCHEMA), records(), tmp_path / "released", **options)
    assert not list(tmp_path.iterdir())


GOOD = {"age": [30.0, 40.0], "rent": [1.0, 2.0], "place": ["n", "s"], "income": ["low", "high"]}


def test_columns_that_stand_twice_are_refused_in_words_of_ones_own(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    twice = pa.table([[1.0, 2.0], [1.0, 2.0]], names=["age", "age"])
    release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    with pytest.raises(ValueError, match="more than one column named age"):
        sd.blocks.privatize(release, twice, tmp_path / "released")
    parquet.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(ValueError, match="more than one column named 'age'"):
        sd.blocks.privatize(release, tmp_path / "twice.parquet", tmp_path / "released")


@pytest.mark.parametrize("kind", ["pyarrow", "polars", "pandas", "Parquet"])
def test_decimal_numbers_are_the_numbers_of_float64_next_to_them(kind, survey):
    parquet = pytest.importorskip("pyarrow.parquet")
    table, wanted = parquet.read_table(survey / "0.parquet").select(["rent"]), [10.25, 20.5, 99.99]
    if kind == "Parquet":
        X, _ = sd.blocks.from_parquet(survey / "0.parquet", columns=["rent"])
        np.testing.assert_array_equal(X[:][:, 0], wanted)
        return
    X = {
        "pyarrow": lambda: table, "polars": lambda: pytest.importorskip("polars").from_arrow(table),
        "pandas": table.to_pandas,
    }[kind]()  # fmt: skip
    release = sd.Release({"rent": sd.LaplaceMechanism(1.0, bounds=(0, 100))})
    noised = release.privatize(X, random_state=0).X["rent"]
    np.testing.assert_array_equal(noised, release.privatize(np.array(wanted)[:, None], random_state=0).X[:, 0])


def test_decimal_numbers_that_are_none_are_named_by_their_row():
    release = sd.Release({"rent": sd.LaplaceMechanism(1.0, bounds=(0, 100))})
    for value in (None, Decimal("NaN"), Decimal("Infinity"), Decimal("1e400")):
        values = np.array([[Decimal(1)], [value]], dtype=object)
        with pytest.raises(ValueError, match=r"X has (NaN|inf).* in row 1"):
            release.privatize(values)
    halves = release.privatize(np.array([[Fraction(1, 2)], [3]], dtype=object), random_state=0).X
    np.testing.assert_array_equal(halves, release.privatize([[0.5], [3.0]], random_state=0).X)
    with pytest.raises(TypeError, match="its type is str"):
        release.privatize(np.array([[Decimal(1)], ["1"]], dtype=object))


@pytest.mark.parametrize("what", ["a file", "tables"])
def test_columns_that_were_read_by_name_stand_where_the_release_has_them(tmp_path, what):
    """Rows have no names for a kernel: in another order they would be a fit with parameters exchanged, and no word."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    table = pa.table({"age": X[:, 0], "hours": X[:, 1], "y": X @ [1.0, -1.0]})
    pq.write_table(table, tmp_path / "one.parquet")

    def read(names):
        if what == "tables":
            return sd.blocks.from_iterator(lambda: [table], columns=names, target="y")
        return sd.blocks.from_parquet(tmp_path / "one.parquet", columns=names, target="y")

    release = sd.Release({name: sd.GaussianMechanism.from_scale(0.1) for name in ("age", "hours")})
    corrected = sd.debias(sd.losses.least_squares(), release)
    fit = sd.m_estimate(corrected, *read(["age", "hours"]))
    for use in (
        lambda *given: sd.m_estimate(corrected, *given),
        lambda *given: sd.sgd(corrected, *given, order="given"),
        lambda *given: sd.evaluation.evaluate(fit, *given, metric="squared_error"),
        lambda *given: sd.evaluation.evaluate(fit.theta, *given, metric="squared_error", release=release),
    ):
        with pytest.raises(
            ValueError, match=r"read as the columns hours, age, and those of the release are age, hours"
        ):
            use(*read(["hours", "age"]))
    # Names of another hand are matched by their places, as columns of an array are.
    other = sd.Release({name: sd.GaussianMechanism.from_scale(0.1) for name in ("x0", "x1")})
    found = sd.m_estimate(sd.debias(sd.losses.least_squares(), other), *read(["age", "hours"]))
    np.testing.assert_array_equal(found.theta, fit.theta)
    for names, message in ((["age", "age"], "columns names 'age' twice"), ([], "columns names nothing")):
        with pytest.raises(ValueError, match=message):
            read(names)


def test_privatize_says_where_blocks_are_noised():
    release = sd.Release(sd.LaplaceMechanism(1.0, bounds=(0, 1)), sd.RandomizedResponse(1.0))
    X, y = np.ones((10, 1)), np.ones(10)
    rows = sd.blocks.Rows.of_array
    for given in ((rows(X), y), (X, rows(y)), (iter([(X, y)]), None), (((X, y) for _ in (1, 2)), None)):
        with pytest.raises(TypeError, match=r"come block by block.*symdebias\.blocks\.privatize\(release, blocks"):
            release.privatize(*given)
