"""Copies of records that are read in order: the same bits, in files that nobody finds and that stay for nobody."""

import errno
import functools
import gc
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sources import in_order, on_disk

import symdebias as sd
from symdebias import _copies
from symdebias._copies import at_hand
from symdebias._rows import TOGETHER, Rows

COUNT = 3_000
COPYING = ["dp_lssgd", "cross_validate", "sgd", "sgd_replicates"]
PRIVATE = {
    "epsilon": 1.0, "delta": 1e-6, "adjacency": "replace-one", "epochs": 2, "record_radius": 1.0, "accountant": "rdp",
    "random_state": 3,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder for temporary files, where nothing is but what is copied."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    return found


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, size=(COUNT, 2))
    return X, np.where(rng.random(COUNT) < 1 / (1 + np.exp(-3 * X[:, 0])), 1.0, -1.0)


def open_in(folder):
    """Return the files in a folder that this process has open or mapped, without a name too; None elsewhere."""
    if not Path("/proc/self/maps").exists():
        return None
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]
    links = []
    for one in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(one.readlink()))
        except FileNotFoundError:  # That of the folder itself.
            continue
    return [*mapped, *(link for link in links if link.startswith(str(folder)))]


def stream(X, y, *, size=1_000, change=lambda blocks, times: blocks):
    """Return records that a function yields, changed in each pass by how many there were before."""
    passes = []

    def blocks():
        passes.append(None)
        return change([(X[start : start + size], y[start : start + size]) for start in range(0, len(X), size)],
                      len(passes) - 1)  # fmt: skip

    return *sd.blocks.from_iterator(blocks), passes


def test_a_copy_has_the_same_bits_and_is_made_by_one_pass(people, folder):
    X, y, passes = stream(*people)
    copied = at_hand(X, y)
    assert len(passes) == 2  # The first one tells the shape.
    for found, expected in zip(copied, people, strict=True):
        assert type(found) is np.memmap
        np.testing.assert_array_equal(found, expected)
        assert not found.flags.writeable
    # What has any row at hand is the same object.
    rows = Rows.of_array(people[0])
    assert at_hand(rows, people[1])[0] is rows
    X, found = at_hand(in_order(people[0]), people[1])
    assert type(X) is np.memmap
    assert found is people[1]
    assert at_hand(in_order(people[0]), None)[1] is None


def test_a_copy_has_no_name_and_is_gone_with_the_arrays(people, folder):
    copied = at_hand(in_order(people[0]), in_order(people[1]))
    if sys.platform != "win32":
        assert not any(folder.iterdir())
    assert open_in(folder) != []
    del copied
    assert not any(folder.iterdir())
    assert not open_in(folder)


def test_others_cannot_open_it(people, folder, monkeypatch):
    modes = []
    made = tempfile.TemporaryFile

    def seen(*args, **options):
        file = made(*args, **options)
        modes.append(os.fstat(file.fileno()).st_mode & 0o777)
        return file

    monkeypatch.setattr(_copies.tempfile, "TemporaryFile", seen)
    at_hand(in_order(people[0]), in_order(people[1]))
    assert modes == [0o600, 0o600] or sys.platform == "win32"


def solved(what, X, y):
    if what == "dp_lssgd":
        return sd.dp_lssgd(sd.losses.logistic(), X, y, **PRIVATE).theta
    release = sd.Release()
    if what.startswith("sgd"):
        corrected = sd.debias(sd.losses.logistic(), release)
        if what == "sgd":
            return sd.sgd(corrected, X, y, epochs=2, random_state=3).theta
        found = sd.sgd_replicates(corrected, X, y, [{"l2": 0.1}, {"l2": 1.0}], random_state=3)
        return [*found[0].theta, *found[1].theta]
    fits = {"fit": functools.partial(sd.m_estimate, sd.debias(sd.losses.logistic(), release))}
    found = sd.evaluation.cross_validate(fits, X, y, release=release, metric="accuracy", random_state=0)
    return [*found.fold_values["fit"], found.estimates["fit"].standard_error]


@pytest.mark.in_turn
@pytest.mark.parametrize("what", COPYING)
def test_results_are_those_of_a_memory_map_and_leave_nothing(what, people, folder, tmp_path):
    expected = solved(what, on_disk(people[0], tmp_path), people[1])
    X, y, _ = stream(*people)
    gc.collect()
    gc.disable()
    try:
        found = solved(what, X, y)
        assert not any(folder.iterdir())
        # Without a search for garbage.
        assert not open_in(folder)
    finally:
        gc.enable()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("what", COPYING)
def test_an_error_leaves_nothing(what, people, folder):
    X, y = people[0].copy(), people[1]
    X[COUNT // 2, 1] = np.nan
    with pytest.raises(ValueError, match=f"NaN in row {COUNT // 2}"):
        solved(what, in_order(X), in_order(y))
    gc.collect()
    assert not any(folder.iterdir())
    assert not open_in(folder)


def test_nothing_is_copied_for_records_in_the_given_order(people, monkeypatch):
    monkeypatch.setattr(_copies, "write_rows", None)
    X, y, _ = stream(*people)
    found, expected = (
        sd.sgd(sd.debias(sd.losses.logistic(), sd.Release()), *given, order="given", random_state=3).theta
        for given in ((X, y), people)
    )
    np.testing.assert_array_equal(found, expected)


def test_columns_that_are_copied_were_read_in_the_order_of_the_release(people, folder):
    """A copy has no names any more: parameters would be exchanged, and no word."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": people[0][:, 0], "b": people[0][:, 1], "y": people[1]})
    release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.1), "b": sd.GaussianMechanism.from_scale(0.1)})
    corrected = sd.debias(sd.losses.exponential(), release)
    X, y = sd.blocks.from_iterator(lambda: [table], columns=["b", "a"], target="y")
    with pytest.raises(ValueError, match="read as the columns b, a, and those of the release are a, b"):
        sd.sgd(corrected, X, y, random_state=3)
    X, y = sd.blocks.from_iterator(lambda: [table], columns=["a", "b"], target="y")
    found, expected = (sd.sgd(corrected, *given, random_state=3) for given in ((X, y), (table[["a", "b"]], people[1])))
    np.testing.assert_array_equal(found.theta, expected.theta)
    assert found.names == expected.names == ("a", "b")


def shorter(blocks, times):
    return blocks[:-1] if times else blocks


def longer(blocks, times):
    return blocks + blocks[:1] if times else blocks


def other(blocks, times):
    return [(X + times, y) for X, y in blocks]


def broken(blocks, times):
    if times:
        raise RuntimeError("the source is gone")
    return blocks


@pytest.mark.parametrize("what", COPYING)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (shorter, ValueError, "blocks yielded 2,000 records, and 3,000 before"),
        (longer, ValueError, "blocks yielded more than 3,000 records, and 3,000 before"),
        (other, ValueError, "blocks yielded another record in row 0 than before"),
        (broken, RuntimeError, "the source is gone"),
    ],
)
def test_a_stream_that_is_another_when_it_is_copied_is_refused(what, change, error, message, people, folder):
    X, y, _ = stream(*people, change=change)
    with pytest.raises(error, match=message):
        solved(what, X, y)
    assert not any(folder.iterdir())
    assert not open_in(folder)


def test_a_file_of_ones_own_is_not_written_from_a_stream_that_grows(people, tmp_path):
    X, _, _ = stream(*people, change=longer)
    with pytest.raises(ValueError, match="more than 3,000 records"):
        sd.blocks.to_memory_map(X, tmp_path / "X.npy")
    assert not any(tmp_path.iterdir())


def test_a_stream_is_read_again_after_its_end_was_looked_at(people):
    X, y, passes = stream(*people)
    at_hand(X, y)
    np.testing.assert_array_equal(X[2_500:], people[0][2_500:])
    assert len(passes) == 3


@pytest.mark.parametrize("what", COPYING)
def test_no_room_is_said_before_records_are_read(what, people, folder, monkeypatch):
    X, y, passes = stream(*people)
    monkeypatch.setattr(_copies.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 71_999}))
    with pytest.raises(OSError, match=rf"takes 72,000 bytes in {folder}\. .*TMPDIR.*to_memory_map") as caught:
        solved(what, X, y)
    assert caught.value.errno == errno.ENOSPC
    assert len(passes) == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_disk_that_gets_full_is_said_in_words(number, people, folder, monkeypatch):
    """As where others write to it, or a user has a share of it."""
    made = tempfile.TemporaryFile

    class Full:
        def __init__(self, file):
            self.file, self.left = file, 20_000

        def write(self, more):
            if self.left <= 0:
                raise OSError(number, os.strerror(number))
            self.left -= len(more[:9_000])
            return self.file.write(more[:9_000])

        def __enter__(self):
            self.file.__enter__()
            return self

        def __exit__(self, *error):
            self.file.__exit__(*error)

    monkeypatch.setattr(_copies.tempfile, "TemporaryFile", lambda **options: Full(made(**options)))
    with pytest.raises(OSError, match=r"no room for a copy.*takes 72,000 bytes") as caught:
        solved("dp_lssgd", in_order(people[0]), in_order(people[1]))
    assert caught.value.errno == errno.ENOSPC
    del caught
    gc.collect()
    assert not any(folder.iterdir())
    assert not open_in(folder)


def test_other_errors_of_a_disk_are_what_they_are(people, folder, monkeypatch):
    class Broken:
        def __init__(self, file, needed, place):
            self.file = _copies_room(type("File", (), {"write": self.fails})(), needed, place)

        def fails(self, more):
            raise OSError(errno.EIO, "the disk is broken")

        def write(self, more):
            return self.file.write(more)

    _copies_room = _copies._Room
    monkeypatch.setattr(_copies, "_Room", Broken)
    with pytest.raises(OSError, match="the disk is broken"):
        at_hand(in_order(people[0]), None)


def test_files_are_written_whole_by_a_stream_that_takes_a_part(people, tmp_path):
    class Slow:
        def __init__(self):
            self.found = b""

        def write(self, more):
            self.found += bytes(more[:7_777])
            return min(len(more), 7_777)

    slow = Slow()
    X = np.random.default_rng(0).normal(size=(TOGETHER + 3, 1))
    _copies.write_rows([in_order(X)], [slow])
    assert slow.found == X.tobytes()


@pytest.mark.in_turn
@pytest.mark.skipif(sys.platform == "win32", reason="It is there until the file is closed.")
def test_a_process_that_is_killed_leaves_nothing(folder):
    program = """
        import os, signal
        import numpy as np, symdebias as sd
        X, y = sd.blocks.from_iterator(lambda: ((np.full((1_000, 2), k / 9), np.ones(1_000)) for k in range(9)))
        release = sd.Release()
        def killed(X, y):
            os.kill(os.getpid(), signal.SIGKILL)
        sd.evaluation.cross_validate({"fit": killed}, X, y, release=release, metric="squared_error", random_state=0)
        """
    environment = os.environ | {"TMPDIR": str(folder)}
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert not any(folder.iterdir())
