"""Inject faults into all that writes, draws and trains, and count what is lost.

    python benchmarks/faults.py [--times 20] [--only WORDS]

Each kind of fault is injected so many times, in children of this process. Lost is: a file that is neither the old nor
the new one, a release that went out and is not counted, a budget that was overspent, noise that was drawn twice, a
wrong number, or an error that is not the stated one. Prints a table.
"""

import argparse
import contextlib
import errno
import importlib
import importlib.util
import multiprocessing
import os
import random
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numba
import numpy as np

import symdebias as sd
from symdebias import _files
from symdebias.codegen import cache
from symdebias.mechanisms import sampling
from symdebias.privacy import ledger_lines
from symdebias.solvers.descent import Descent

NOBODY = 65534
PURE = sd.Guarantee(0.5, 0.0)
RELEASE = sd.Release(sd.LaplaceMechanism(1.0, radius=1.0), sd.RandomizedResponse(1.0))
X, Y = np.full((50, 2), 0.1), np.ones(50)
KINDS: dict[str, Callable[["Trial"], str]] = {}


class LostError(Exception):
    """Something was lost."""


class NotTriedError(Exception):
    """The fault cannot be injected here."""


@dataclass
class Trial:
    """One injection: an empty folder, random numbers, and a fit to write."""

    folder: Path
    random: random.Random
    number: int
    fits: tuple[sd.Fit, sd.Fit]
    contents: tuple[bytes, bytes]

    @property
    def place(self) -> Path:
        """The file that is written."""
        return self.folder / "file"


def kind(name: str) -> Callable[[Callable[[Trial], str]], Callable[[Trial], str]]:
    """List a kind of fault; its function returns what came out, or raises."""

    def listed(inject: Callable[[Trial], str]) -> Callable[[Trial], str]:
        KINDS[name] = inject
        return inject

    return listed


def require(holds: object, what: str) -> None:
    if not holds:
        raise LostError(what)


@contextlib.contextmanager
def refused(*errors: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except errors:
        return
    raise LostError("it was not refused")


# ---- children ------------------------------------------------------------------------------------------------------


def start(work: Callable[[], object]) -> int:
    """Fork a child that does some work; it ends with 0, with 1 where it fails and with 2 where something is lost."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        # Newer versions of Python warn of every fork while there are threads, which libraries leave.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except LostError:
            traceback.print_exc()
            status = 2
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def status(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(work: Callable[[], object]) -> None:
    """Do some work in a child, and raise where it fails."""
    require(status(start(work)) == 0, "the child failed")


def kill(work: Callable[[], object], seconds: float) -> None:
    """Kill a child so many seconds after its work has begun."""
    begun, told = os.pipe()
    child = start(lambda: [os.write(told, b"."), work()])
    os.read(begun, 1)
    for end in (begun, told):
        os.close(end)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    require(status(child) == -signal.SIGKILL, "the work ended by itself")


def require_root() -> None:
    if os.getuid() != 0:
        raise NotTriedError("not tried: only root becomes another user")


def interrupt(child: int) -> int:
    """Press Ctrl-C, again where a finaliser has swallowed it, and return how the child ended."""
    while True:
        os.kill(child, signal.SIGINT)
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            done, end = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(end)
            time.sleep(0.01)


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def fill_disk(room: int) -> None:
    """Let no file of this process grow beyond so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


def leave_folder(trial: Trial) -> None:
    gone = trial.folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()


# ---- files that are replaced ---------------------------------------------------------------------------------------


def old_file(trial: Trial) -> None:
    trial.place.write_bytes(trial.contents[0])


def save_in_turn(trial: Trial) -> None:
    while True:
        for fit in trial.fits:
            fit.save(trial.place)


def require_whole(trial: Trial) -> str:
    content = trial.place.read_bytes()
    require(content in trial.contents, "the file is neither the old nor the new one")
    begun = len(list(trial.folder.iterdir())) > 1
    return "whole, while the next one was written" if begun else "whole"


@kind("fit.save: kill -9")
def _(trial: Trial) -> str:
    old_file(trial)
    kill(lambda: save_in_turn(trial), 0.03 * trial.random.random())
    return require_whole(trial)


@kind("fit.save: full disk")
def _(trial: Trial) -> str:
    old_file(trial)

    def work() -> None:
        fill_disk(trial.random.randrange(len(trial.contents[1])))
        with refused(OSError):
            trial.fits[1].save(trial.place)

    run(work)
    require(trial.place.read_bytes() == trial.contents[0], "the old file is gone")
    require(list(trial.folder.iterdir()) == [trial.place], "something is left beside it")
    return "OSError, the old file"


@kind("fit.save: no confirmation by the disk")
def _(trial: Trial) -> str:
    old_file(trial)

    def work() -> None:
        def fail(_: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        os.fsync = fail  # type: ignore[assignment]
        with refused(OSError):
            trial.fits[1].save(trial.place)

    run(work)
    require(trial.place.read_bytes() == trial.contents[0], "the old file is gone")
    return "OSError, the old file"


@kind("fit.save: read-only folder")
def _(trial: Trial) -> str:
    require_root()
    old_file(trial)
    trial.folder.chmod(0o555)

    def work() -> None:
        become_nobody()
        with refused(PermissionError):
            trial.fits[1].save(trial.place)

    run(work)
    require(trial.place.read_bytes() == trial.contents[0], "the old file is gone")
    return "PermissionError, the old file"


@kind("fit.save: Ctrl-C")
def _(trial: Trial) -> str:
    old_file(trial)
    begun, told = os.pipe()

    def work() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            os.write(told, b".")
            save_in_turn(trial)

    child = start(work)
    os.read(begun, 1)
    for end in (begun, told):
        os.close(end)
    time.sleep(0.03 * trial.random.random())
    require(interrupt(child) == 0, "the child failed")
    require(list(trial.folder.iterdir()) == [trial.place], "something is left beside it")
    return require_whole(trial)


@kind("fit.save: two processes, one file")
def _(trial: Trial) -> str:
    children = [start(lambda fit=fit: [fit.save(trial.place) for _ in range(10)]) for fit in trial.fits]  # type: ignore[misc]
    require([status(child) for child in children] == [0, 0], "a child failed")
    return require_whole(trial)


# Files of another kind are not replaced.
OLD_PICTURE = b"\x89PNG old"


@kind("figure: kill -9")
def _(trial: Trial) -> str:
    trial.place.write_bytes(OLD_PICTURE)
    figure, plotting = figure_and_save()
    first = trial.folder / "first"
    plotting.save(figure, first)

    def work() -> None:
        while True:
            plotting.save(figure, trial.place)

    kill(work, 0.3 * trial.random.random())
    require(trial.place.read_bytes() in (OLD_PICTURE, first.read_bytes()), "the picture is torn")
    begun = len(list(trial.folder.iterdir())) > 2
    return "whole, while the next one was written" if begun else "whole"


@kind("figure: full disk")
def _(trial: Trial) -> str:
    trial.place.write_bytes(OLD_PICTURE)
    figure, plotting = figure_and_save()

    def work() -> None:
        fill_disk(trial.random.randrange(100, 1000))
        with refused(OSError):
            plotting.save(figure, trial.place)

    run(work)
    require(trial.place.read_bytes() == OLD_PICTURE, "the old file is gone")
    return "OSError, the old file"


def figure_and_save():  # type: ignore[no-untyped-def]
    if importlib.util.find_spec("matplotlib") is None:
        raise NotTriedError("not tried: Matplotlib is not installed")
    figure = importlib.import_module("matplotlib.figure").Figure((2, 2))
    figure.subplots().plot([0, 1])
    return figure, importlib.import_module("symdebias.interfaces.plotting")


# ---- the kernel cache ----------------------------------------------------------------------------------------------


def source(number: int = 0) -> cache.KernelSource:
    text = f"def kernel(x):\n    return 2.0 * x + {float(number)}\n"
    return cache.KernelSource("line", text, numba.float64(numba.float64), (), lambda kernel: [kernel(1.0)])


def compiled(folder: Path | str, *, warned: bool = False) -> None:
    """Compile, or read from a folder, and hold the kernel against what it computes."""
    os.environ["SYMDEBIAS_CACHE"] = str(folder)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kernel = cache.compile_kernel(source())
    require(kernel(3.0) == 6.0, "the kernel is wrong")
    require(bool(told) == warned, f"{len(told)} warnings")
    require(all(one.category is sd.CacheWarning for one in told), "another warning")


def entry(folder: Path) -> Path:
    return folder / source().key


def import_compiler() -> None:
    """Compile a kernel in this process: another user may not read the modules that Numba imports only then."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SYMDEBIAS_CACHE"] = folder
        cache.compile_kernel(source(1))


@kind("kernel cache: kill -9")
def _(trial: Trial) -> str:
    folder = trial.folder / "cache"
    kill(lambda: [compiled(folder), time.sleep(60)], 0.2 * trial.random.random())
    require(not folder.exists() or not entry(folder).exists() or (entry(folder) / "manifest.json").exists(), "half")
    whole = entry(folder).exists()
    run(lambda: compiled(folder))
    return "a whole entry" if whole else "no entry, compiled again"


@kind("kernel cache: full disk")
def _(trial: Trial) -> str:
    folder = trial.folder / "cache"

    def work() -> None:
        fill_disk(trial.random.randrange(2000))
        compiled(folder, warned=True)

    run(work)
    require(not entry(folder).exists(), "an entry is there")
    run(lambda: compiled(folder))
    return "compiled in memory, one warning"


@kind("kernel cache: read-only home")
def _(trial: Trial) -> str:
    require_root()
    import_compiler()
    trial.folder.chmod(0o555)

    def work() -> None:
        become_nobody()
        os.environ["HOME"] = str(trial.folder)
        os.environ.pop("XDG_CACHE_HOME", None)
        compiled("", warned=True)

    run(work)
    require(list(trial.folder.iterdir()) == [], "something was written")
    return "compiled in memory, one warning"


@kind("kernel cache: no home folder")
def _(trial: Trial) -> str:
    require_root()
    import_compiler()

    def work() -> None:
        os.environ.pop("HOME", None)
        os.environ.pop("XDG_CACHE_HOME", None)
        os.setuid(1_234_567)
        compiled("", warned=True)

    run(work)
    return "compiled in memory, one warning"


@kind("kernel cache: Ctrl-C")
def _(trial: Trial) -> str:
    folder = trial.folder / "cache"
    with silent():
        child = start(lambda: [compiled(folder), time.sleep(0.3)])
        time.sleep(0.2 * trial.random.random())
        require(interrupt(child) >= 0, "the child was killed")
    require(not list(folder.glob("build-*")), "a folder is left")
    whole = entry(folder).exists()
    run(lambda: compiled(folder))
    return "a whole entry" if whole else "no entry, compiled again"


@kind("kernel cache: two processes at once")
def _(trial: Trial) -> str:
    folder = trial.folder / "cache"
    children = [start(lambda: compiled(folder)) for _ in range(2)]
    require([status(child) for child in children] == [0, 0], "a child failed")
    require(entry(folder).exists() and not list(folder.glob("build-*")), "there is no entry, or a folder is left")
    run(lambda: compiled(folder))
    return "one entry, two right kernels"


def damage(trial: Trial, change: Callable[[Path], object]) -> str:
    folder = trial.folder / "cache"
    run(lambda: compiled(folder))
    change(entry(folder))
    run(lambda: compiled(folder, warned=True))
    run(lambda: compiled(folder))
    return "compiled again, one warning"


def some_file(trial: Trial, entry: Path) -> Path:
    return trial.random.choice(sorted(path for path in entry.rglob("*") if path.is_file()))


@kind("kernel cache: truncated file")
def _(trial: Trial) -> str:
    def change(entry: Path) -> None:
        path = some_file(trial, entry)
        os.truncate(path, trial.random.randrange(path.stat().st_size))

    return damage(trial, change)


@kind("kernel cache: flipped bit")
def _(trial: Trial) -> str:
    def change(entry: Path) -> None:
        # A bit of the manifest may be one of its spaces or digits beyond all that is compared.
        path = entry / "kernel.py" if trial.number % 2 else next(entry.rglob("*.nbc"))
        content = bytearray(path.read_bytes())
        content[trial.random.randrange(len(content))] ^= 1 << trial.random.randrange(8)
        path.write_bytes(bytes(content))

    return damage(trial, change)


@kind("kernel cache: a folder that others may write to")
def _(trial: Trial) -> str:
    folder = trial.folder / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    run(lambda: compiled(folder, warned=True))
    require(list(folder.iterdir()) == [], "it was used")
    return "not used, one warning"


@kind("kernel cache: working folder deleted, TMPDIR missing")
def _(trial: Trial) -> str:
    def work() -> None:
        leave_folder(trial)
        os.environ["TMPDIR"] = tempfile.tempdir = str(trial.folder / "none")
        compiled("relative", warned=True)

    run(work)
    return "compiled in memory, one warning"


# ---- the ledger and privatize --------------------------------------------------------------------------------------


def begun(trial: Trial, epsilon: float) -> sd.Ledger:
    return sd.Ledger(trial.place, "people", total=sd.Guarantee(epsilon, 0.0))


def counted(trial: Trial) -> int:
    return sum(line.kind == "release" for line in ledger_lines.read(trial.place).lines)


def send(trial: Trial, sent: bytes) -> None:
    with (trial.folder / "sent").open("ab", buffering=0) as stream:
        stream.write(sent)


def require_counted(trial: Trial, length: int) -> str:
    path = trial.folder / "sent"
    released = path.stat().st_size // length if path.exists() else 0
    require(released <= counted(trial) <= released + 1, "a release went out that is not counted")
    more = counted(trial) > released
    sd.Ledger(trial.place, "people").charge(PURE)
    return "all is counted, and one that did not go out" if more else "all is counted"


@kind("ledger: kill -9")
def _(trial: Trial) -> str:
    book = begun(trial, 1e9)

    def work() -> None:
        while True:
            book.charge(PURE)
            send(trial, b".")

    kill(work, 0.05 * trial.random.random())
    return require_counted(trial, 1)


@kind("privatize with a ledger: kill -9")
def _(trial: Trial) -> str:
    book = begun(trial, 1e9)

    def work() -> None:
        while True:
            send(trial, RELEASE.privatize(X, Y, ledger=book).X.tobytes()[:8])

    kill(work, 0.05 * trial.random.random())
    return require_counted(trial, 8)


@kind("ledger: full disk")
def _(trial: Trial) -> str:
    book = begun(trial, 9.0)
    before = trial.place.read_bytes()

    def work() -> None:
        fill_disk(len(before) + trial.random.randrange(200))
        with refused(OSError):
            RELEASE.privatize(X, Y, ledger=book)

    run(work)
    require(trial.place.read_bytes() == before, "something is left")
    return "OSError, nothing counted, nothing drawn"


@kind("ledger: a line cut short")
def _(trial: Trial) -> str:
    book = begun(trial, 1.0)
    before = trial.place.stat().st_size
    book.charge(PURE)
    os.truncate(trial.place, trial.random.randrange(before, trial.place.stat().st_size - 1))
    again = sd.Ledger(trial.place, "people")
    for _ in range(2):
        again.charge(PURE)
    with refused(sd.PrivacyError):
        again.charge(PURE)
    return "recognised; not counted"


@kind("ledger: two processes, the last of a budget")
def _(trial: Trial) -> str:
    book = begun(trial, 0.5)
    content = _files.content
    gate, key = os.pipe()

    def work() -> None:
        _files.content = lambda descriptor: (content(descriptor), time.sleep(0.01))[0]
        os.close(key)
        os.read(gate, 1)
        book.charge(PURE)

    with silent():
        children = [start(work) for _ in range(2)]
        os.close(key)
        os.close(gate)
        require(sorted(status(child) for child in children) == [0, 1], "both or none got it")
    require(counted(trial) == 1, "it was spent twice")
    return "one gets it, one is refused"


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Send what children say of refusals nowhere."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@kind("ledger: threads, the last of a budget")
def _(trial: Trial) -> str:
    book = begun(trial, 1.0)
    refusals = []

    def work() -> None:
        try:
            book.charge(PURE)
        except sd.PrivacyError as error:
            refusals.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    require((counted(trial), len(refusals)) == (2, 6), "the budget was not kept")
    return "two get it, six are refused"


@kind("ledger: another user, read-only folder")
def _(trial: Trial) -> str:
    require_root()
    book = begun(trial, 1.0)
    book.charge(PURE)
    trial.place.chmod(0o644)
    trial.folder.chmod(0o755)
    # What the first draw imports may be where nobody else may read.
    RELEASE.privatize(X, Y)

    def work() -> None:
        become_nobody()
        theirs = sd.Ledger(trial.place, "people")
        require(len(theirs.entries) == 1, "it is not readable")
        with refused(PermissionError):
            RELEASE.privatize(X, Y, ledger=theirs)
        with refused(PermissionError):
            sd.Ledger(trial.folder / "new", "people", total=PURE)

    run(work)
    require(counted(trial) == 1, "they wrote")
    return "they read; PermissionError, nothing drawn"


@kind("ledger: a changed bit")
def _(trial: Trial) -> str:
    book = begun(trial, 9.0)
    for _ in range(3):
        book.charge(PURE)
    content = bytearray(trial.place.read_bytes())
    # A changed end of the last line looks like a crash; it is noticed by its digest.
    content[trial.random.randrange(len(content) - 3)] ^= 1 << trial.random.randrange(7)
    trial.place.write_bytes(bytes(content))
    with refused(sd.PrivacyError):
        RELEASE.privatize(X, Y, ledger=book)
    require(trial.place.read_bytes() == bytes(content), "it was written to")
    return "PrivacyError, nothing drawn"


@kind("ledger: an older copy put back")
def _(trial: Trial) -> str:
    book = begun(trial, 9.0)
    kept = trial.place.read_bytes()
    for _ in range(1 + trial.number % 3):
        book.charge(PURE)
    digest = book.digest
    trial.place.write_bytes(kept)
    with refused(sd.PrivacyError):
        RELEASE.privatize(X, Y, ledger=book)
    with refused(sd.PrivacyError):
        sd.Ledger(trial.place, "people").verify(digest)
    return "PrivacyError, nothing drawn"


@kind("ledger: clock goes backwards")
def _(trial: Trial) -> str:
    def work() -> None:
        now = ledger_lines.datetime.now(ledger_lines.UTC)

        class Clock(ledger_lines.datetime):  # type: ignore[misc, valid-type]
            @classmethod
            def now(cls, tz=None):  # type: ignore[no-untyped-def]
                return now - ledger_lines.datetime.resolution * trial.random.randrange(10**15)

        ledger_lines.datetime = Clock
        book = begun(trial, 1.0)
        for _ in range(2):
            book.charge(PURE)
        with refused(sd.PrivacyError):
            book.charge(PURE)

    run(work)
    require(counted(trial) == 2, "a line is missing")
    return "the order is that of the lines"


@kind("ledger: working folder deleted")
def _(trial: Trial) -> str:
    book = begun(trial, 1.0)

    def work() -> None:
        leave_folder(trial)
        book.charge(PURE)

    run(work)
    require(counted(trial) == 1, "a line is missing")
    return "counted"


@kind("privatize: no entropy")
def _(trial: Trial) -> str:
    book = begun(trial, 9.0)

    def work() -> None:
        def none(*_: object) -> bytes:
            raise NotImplementedError("no source of randomness")

        secrets.randbits = none  # type: ignore[assignment]
        sampling.os.urandom = none  # type: ignore[attr-defined]
        with refused(NotImplementedError):
            RELEASE.privatize(X, Y, ledger=book)

    run(work)
    require(counted(trial) == 0, "it was counted")
    return "refused; nothing drawn, nothing counted"


def require_different(noises: list[bytes]) -> str:
    require(len(set(noises)) == len(noises), "the same noise was drawn twice")
    return "all noise differs"


@kind("privatize: forked processes")
def _(trial: Trial) -> str:
    RELEASE.privatize(X, Y)
    for child in [start(lambda: send(trial, RELEASE.privatize(X, Y).X.tobytes())) for _ in range(4)]:
        require(status(child) == 0, "the child failed")
    content = (trial.folder / "sent").read_bytes() + RELEASE.privatize(X, Y).X.tobytes()
    return require_different([content[start : start + 8] for start in range(0, len(content), X.nbytes)])


@kind("privatize: threads")
def _(trial: Trial) -> str:
    noises: list[bytes] = []
    threads = [threading.Thread(target=lambda: noises.append(noise_of(0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return require_different(noises)


def noise_of(_: int) -> bytes:
    return bytes(RELEASE.privatize(X, Y).X.tobytes())


@kind("privatize: spawned processes")
def _(trial: Trial) -> str:
    if not SPAWNED:
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            SPAWNED.extend(pool.map(noise_of, range(80), chunksize=1))
    return require_different([*SPAWNED[4 * trial.number : 4 * trial.number + 4], noise_of(0)])


SPAWNED: list[bytes] = []


# ---- training and words --------------------------------------------------------------------------------------------


@kind("sgd: Ctrl-C")
def _(trial: Trial) -> str:
    corrected = trial.fits[0].corrected
    rng = np.random.default_rng(trial.number)
    records, targets = rng.normal(size=(3000, 2)), rng.normal(size=3000)

    begun, told = os.pipe()

    def work() -> None:
        take = Descent.take

        def first(self: Descent, *arguments: object) -> bool:
            os.write(told, b".")
            Descent.take = take  # type: ignore[method-assign]
            return take(self, *arguments)  # type: ignore[arg-type]

        Descent.take = first  # type: ignore[method-assign, assignment]
        options = {"step_size": 1e-4, "batch_size": 1, "epochs": 5000, "random_state": 0}
        try:
            sd.sgd(corrected, records, targets, **options)
        except sd.FitInterrupted as stop:
            stop.fit.save(trial.place)

    with silent():
        child = start(work)
        os.close(told)
        os.read(begun, 1)
        os.close(begun)
        time.sleep(0.3 * trial.random.random())
        end = interrupt(child)
    if not trial.place.exists():
        require(end in (0, 1), "the child was killed")
        return "trained to the end" if end == 0 else "KeyboardInterrupt before there is a fit"
    fit = sd.Fit.load(trial.place)
    require(fit.diagnostics["interrupted"] and np.isfinite(fit.theta).all(), "there is no fit so far")
    return "the fit so far"


LOCALES = (("C", "0"), ("POSIX", "0"), ("C.UTF-8", "0"), ("C", "1"))
WORDS = """
import sys, tempfile, pathlib
import symdebias as sd
for number in range(int(sys.argv[1])):
    folder = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[2]))
    name = "Gr\\u00f6\\u00dfe"
    release = sd.Release({name: sd.LaplaceMechanism(1.0, bounds=(0.0, 1.5))}, fit_intercept=True)
    assert sd.Release.from_json(release.to_json()) == release
    book = sd.Ledger(folder / "spent", name, total=sd.Guarantee(1.5, 0.0), columns={name: sd.Guarantee(1.5, 0.0)})
    release.privatize([[0.5]] * 50, ledger=book)
    assert sd.Ledger(folder / "spent", name).spent_on(name).epsilon == 1.0
    corrected = sd.debias(sd.losses.least_squares(), release)
    noised = release.privatize([[0.01 * k] for k in range(50)], random_state=number)
    fit = sd.m_estimate(corrected, noised.X, [0.5 + 0.01 * k for k in range(50)], l2=10.0)
    fit.save(folder / "fit")
    again = sd.Fit.load(folder / "fit")
    assert (again.theta == fit.theta).all() and again.names == fit.names and again.summary() == fit.summary()
print("ok", float(fit.theta[0]))
"""


@kind("other locales: card, ledger, kernel, fit")
def _(trial: Trial) -> str:
    locale, utf8 = spoken = LOCALES[trial.number % len(LOCALES)]
    if spoken not in SPOKEN:
        words = {"LC_ALL": locale, "PYTHONUTF8": utf8, "PYTHONCOERCECLOCALE": "0", "SYMDEBIAS_CACHE": str(trial.folder)}
        command = [sys.executable, "-W", "ignore", "-c", WORDS, "5", str(trial.folder)]
        done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True, check=False)
        SPOKEN[spoken] = done.stdout if done.returncode == 0 else done.stderr
    require(SPOKEN[spoken].startswith("ok"), SPOKEN[spoken])
    require(len(set(SPOKEN.values())) == 1, "another number in another locale")
    return "the same files and numbers"


SPOKEN: dict[tuple[str, str], str] = {}


# ---- all of them ---------------------------------------------------------------------------------------------------


def two_fits() -> tuple[sd.Fit, sd.Fit]:
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3)).bind(["a", "b"])
    rng = np.random.default_rng(0)
    records = rng.normal(size=(2000, 2))
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), records, records @ [1.0, 2.0])
    # Its kernel, before children need it.
    sd.sgd(fit.corrected, records, records @ [1.0, 2.0], step_size=1e-4, batch_size=1, random_state=0)
    return fit, replace(fit, diagnostics={**fit.diagnostics, "seconds": 7.0})


def report(times: int, only: str = "") -> tuple[str, int]:
    """Return the table, and how often something was lost."""
    fits = two_fits()
    lines = [f"| {'fault':<56} | {'times':>5} | {'lost':>4} | outcome |", f"|{'-' * 58}|{'-' * 6}:|{'-' * 5}:|---|"]
    total = lost_in_all = 0
    with tempfile.TemporaryDirectory() as above:
        root = Path(above)
        root.chmod(0o755)
        contents = []
        for fit in fits:
            fit.save(root / "fit")
            contents.append((root / "fit").read_bytes())
        for name, inject in KINDS.items():
            if only not in name:
                continue
            outcomes, lost = [], 0
            for number in range(times):
                folder = root / f"{number}"
                folder.mkdir()
                trial = Trial(folder, random.Random(f"{name} {number}"), number, fits, (contents[0], contents[1]))
                try:
                    outcomes.append(inject(trial))
                except NotTriedError as reason:
                    outcomes.append(str(reason))
                except Exception:
                    traceback.print_exc()
                    lost += 1
                finally:
                    folder.chmod(0o755)
                    shutil.rmtree(folder)
            total, lost_in_all = total + times, lost_in_all + lost
            counts = Counter(outcomes).most_common()
            told = "; ".join(f"{outcome} ({count})" if len(counts) > 1 else outcome for outcome, count in counts)
            lines.append(f"| {name:<56} | {times:>5} | {lost:>4} | {told} |")
            print(lines[-1], file=sys.stderr, flush=True)
    kinds = len(lines) - 2
    lines.append(f"\n{kinds} kinds, {total:,} faults, {lost_in_all} with a loss")
    return "\n".join(lines), lost_in_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default="", help="only kinds with these words")
    options = parser.parse_args()
    # A shell lets jobs in the background ignore Ctrl-C, and their children with them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    text, lost = report(options.times, options.only)
    print(text)
    if lost:
        sys.exit(1)


if __name__ == "__main__":
    main()
