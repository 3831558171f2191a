import errno
import os
import stat
import threading
import time

import children
import numpy as np
import pytest

import symdebias as sd
from symdebias import _files
from symdebias.solvers import archive, checkpoint

OLD, NEW = b"old " * 40_000, b"new!" * 50_000
POSIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "kept"
    path.write_bytes(OLD)
    return path


def in_pieces(stream):
    for start in range(0, len(NEW), 1000):
        stream.write(NEW[start : start + 1000])


@POSIX
def test_a_kill_leaves_the_old_file_or_the_new_one(place):
    """Written again and again and killed at random moments, old and new in turn."""

    def work():
        while True:
            for content in (NEW, OLD):
                _files.write_whole(
                    place, lambda stream, content=content: stream.writelines([content[:70_000], content[70_000:]])
                )

    for _ in range(20):
        children.kill_while(work, 1, longest=0.03)
        assert place.read_bytes() in (OLD, NEW)


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_what_fails_leaves_the_old_file_and_nothing_beside_it(place, monkeypatch, name):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if name == "write":
        broken = fail
    else:
        monkeypatch.setattr(os, name, fail)
        broken = in_pieces
    with pytest.raises(OSError, match="No space left"):
        _files.write_whole(place, broken)
    assert place.read_bytes() == OLD
    assert list(place.parent.iterdir()) == [place]


def test_an_interrupt_leaves_the_old_file(place):
    def stopped(stream):
        stream.write(NEW[:100_000])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _files.write_whole(place, stopped)
    assert place.read_bytes() == OLD
    assert list(place.parent.iterdir()) == [place]


@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="files have no permissions here")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_others_may_not_read_stays_one(place, mode):
    """Also while it is written: what is beside it is looked at from within."""
    place.chmod(mode)
    seen = []

    def write(stream):
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in place.parent.iterdir())
        stream.write(NEW)

    _files.write_whole(place, write)
    assert place.read_bytes() == NEW
    assert [*seen, stat.S_IMODE(place.stat().st_mode)] == [mode] * 3


def test_links_stay_links(place, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(place)
    _files.write_whole(link, in_pieces)
    assert link.is_symlink()
    assert place.read_bytes() == NEW


def test_what_is_no_file_is_written_to():
    """A device would be replaced by a file otherwise."""
    reader, writer = os.pipe()
    _files.write_whole(f"/dev/fd/{writer}", lambda stream: stream.write(b"picture"))
    assert os.read(reader, 100) == b"picture"
    os.close(reader)
    os.close(writer)


def test_a_folder_is_no_place(tmp_path):
    with pytest.raises(OSError, match=r"is a folder\. Name a file"):
        _files.write_whole(tmp_path, in_pieces)
    assert list(tmp_path.iterdir()) == []


def test_threads_write_one_file(place):
    def write(number):
        for _ in range(10):
            _files.write_whole(place, lambda stream: stream.write(bytes([number]) * 10_000))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = np.frombuffer(place.read_bytes(), dtype=np.uint8)
    assert len(content) == 10_000
    assert np.ptp(content) == 0


@POSIX
def test_a_forked_child_does_not_wait_for_a_thread_that_it_does_not_have(tmp_path):
    path = tmp_path / "grows"
    path.write_bytes(b"")
    held, done = threading.Event(), threading.Event()

    def hold():
        with _files._THREADS.lock:
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)

    def work():
        with _files.locked(path, writing=True) as descriptor:
            _files.grow(descriptor, b"line\n")

    child = children.start(work)
    deadline = time.monotonic() + 20
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    done.set()
    thread.join()
    assert path.read_bytes() == b"line\n"


def test_a_file_that_was_replaced_while_it_was_opened_is_not_written(tmp_path, monkeypatch):
    path, other = tmp_path / "grows", tmp_path / "other"
    path.write_bytes(b"")
    other.write_bytes(b"theirs")
    flock = _files.fcntl.flock

    def late(descriptor, operation):
        flock(descriptor, operation)
        if other.exists():
            other.replace(path)

    monkeypatch.setattr(_files.fcntl, "flock", late)
    with pytest.raises(OSError, match="was replaced"), _files.locked(path, writing=True):
        pass
    with _files.locked(path, writing=True) as descriptor:
        assert _files.content(descriptor) == b"theirs"


def test_what_is_read_is_all(tmp_path):
    path = tmp_path / "grows"
    path.write_bytes(NEW * 20)
    with _files.locked(path, writing=False) as descriptor:
        assert _files.content(descriptor) == NEW * 20
        with pytest.raises(OSError, match=r"Bad file descriptor|not open|Permission"):
            _files.grow(descriptor, b"more")
    assert path.stat().st_size == len(NEW) * 20


def test_a_file_without_a_folder_is_refused_by_the_name_of_the_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none is not there\. Make it"):
        _files.write_whole(tmp_path / "none" / "fit.npz", in_pieces)


def files_come(place):
    place.mkdir()
    (place / "theirs").write_bytes(OLD)


def a_file_comes(place):
    place.write_bytes(OLD)


@pytest.mark.parametrize("before", ["rmdir", "rename"])
@pytest.mark.parametrize("come", [files_come, a_file_comes])
def test_what_comes_to_the_place_of_a_folder_meanwhile_is_kept(before, come, tmp_path, monkeypatch):
    place, act = tmp_path / "out", getattr(os, before)

    def late(*arguments, **options):
        monkeypatch.setattr(os, before, act)
        come(place)
        return act(*arguments, **options)

    monkeypatch.setattr(os, before, late)
    with pytest.raises(FileExistsError, match=r"has come to .*out while the folder was written.* Name a folder"):
        _files.write_folder(place, {"a": in_pieces})
    assert list(tmp_path.iterdir()) == [place]
    assert (place / "theirs" if come is files_come else place).read_bytes() == OLD


def test_a_folder_that_cannot_be_moved_says_why(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="Input/output error") as failed:
        _files.write_folder(tmp_path / "out", {"a": in_pieces})
    assert not isinstance(failed.value, FileExistsError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["age,pay\nsecret,2\n", "age,pay\r\nsecret,2\r\n" * 500, "secret" * 50, "a/" * 2_500])
@pytest.mark.parametrize(
    "read",
    [
        sd.load,
        sd.Schema,
        sd.Release.from_schema,
        sd.NoiseDescription,
        sd.Fit.load,
        lambda text: sd.Schema({"epsilon": 1.0, "columns": {"age": {"bounds": [0, 9]}}}).collect(text),
        lambda text: sd.blocks.from_parquet(text, columns=["a"]),
        lambda text: sd.Ledger(text, "panel", total=sd.Guarantee(1.0, 0.0)),
    ],
)
def test_a_text_in_place_of_a_path_is_refused_without_it(text, read):
    """It may be the records: a system that finds it too long for a name would show all of it."""
    with pytest.raises(ValueError, match=r"a file is named by its path, and what was given is .* characters") as caught:
        read(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("path", [None, 3, 0.5, ["fit.npz"]])
def test_what_is_no_path_is_refused_in_the_librarys_own_words(path):
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1))
    X = np.random.default_rng(0).normal(size=(50, 1))
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), X, X[:, 0])
    for call in (
        lambda: fit.save(path),
        lambda: sd.Fit.load(path),
        lambda: fit.report(path, certify=False),
        lambda: sd.Ledger(path, "people", total=sd.Guarantee(1.0, 0.0)),
    ):
        with pytest.raises(TypeError, match=r"a file is named by its path; got \w+\. Pass text or a pathlib\.Path"):
            call()


# ---- files of another kind -------------------------------------------------------------------------------

SQUARES = sd.debias(sd.losses.least_squares(), sd.Release(fit_intercept=True))
FIT = sd.m_estimate(SQUARES, np.eye(6)[:, :2], np.arange(6.0))
ROWS = sd.blocks.from_iterator(lambda: [np.ones((3, 2))])[0]
WRITES = {
    "a saved fit": FIT.save,
    "a page of HTML": lambda path: FIT.report(path, certify=False),
    "an array in NumPy's format": lambda path: sd.blocks.to_memory_map(ROWS, path),
}


@pytest.mark.parametrize("kind", WRITES)
def test_a_file_of_another_kind_is_not_replaced(kind, tmp_path):
    place, write = tmp_path / "place", WRITES[kind]
    write(place)
    written = place.read_bytes()
    write(place)
    assert place.read_bytes() == written
    place.write_bytes(b"")
    write(place)
    assert place.read_bytes() == written
    others = [one for name, one in WRITES.items() if name != kind]
    for other in (lambda path: path.write_text("age,income\n39,low\n"), *others):
        place.unlink()
        other(place)
        before = place.read_bytes()
        with pytest.raises(FileExistsError, match=f"is a file, and is not {kind}: nothing else is overwritten. Name"):
            write(place)
        assert place.read_bytes() == before
    assert list(tmp_path.iterdir()) == [place]


def test_a_checkpoint_is_not_replaced_by_a_fit_nor_the_other_way_round(tmp_path):
    archive.write(tmp_path / "run", "checkpoint.json", "{}", {}, checkpoint._KIND)
    FIT.save(tmp_path / "fit")
    with pytest.raises(FileExistsError, match="is not a saved fit"):
        FIT.save(tmp_path / "run")
    with pytest.raises(FileExistsError, match="is not a checkpoint"):
        archive.write(tmp_path / "fit", "checkpoint.json", "{}", {}, checkpoint._KIND)
