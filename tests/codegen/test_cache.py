import contextlib
import dataclasses
import json
import math
import os
import stat
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest
import sympy as sp
from instances import U, Y

from symdebias.codegen import cache
from symdebias.codegen.folder import cache_folder, kept, own_key, signed, sweep
from symdebias.codegen.kernels import Kernels
from symdebias.codegen.printed import digest, kept_statements
from symdebias.codegen.score import program as program_module
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.constants import Constants, Tails
from symdebias.codegen.score.normal import NormalNoise
from symdebias.codegen.score.program import ScoreProgram
from symdebias.exceptions import CacheWarning

S, T, C = sp.symbols("s t c", positive=True)
PROGRAM = ScoreProgram(
    U * Y + U**2 - S, Y, ScoreColumns((U,), (0,), 1, None), (NormalNoise((S,)), Tails(), Constants("target", (T, C)))
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder, and a process that has compiled nothing."""
    path = tmp_path / "cache"
    monkeypatch.setenv("SYMDEBIAS_CACHE", str(path))
    monkeypatch.setattr(cache, "_compiled", {})
    return path


@pytest.fixture
def source():
    return Kernels(PROGRAM).source("mean_loss")


def forget():
    cache._compiled.clear()


def from_disk(kernel):
    return bool(kernel.stats.cache_hits)


def test_a_second_look_up_compiles_nothing(folder, source):
    first = cache.compile_kernel(source)
    forget()
    second = cache.compile_kernel(source)
    assert not from_disk(first)
    assert from_disk(second)
    assert len(second.signatures) == 1
    assert source.probe(first) == source.probe(second)


def test_where_another_process_was_faster_its_entry_stays(folder, source):
    """Both have built the kernel, the other one first: a quick form of two processes on one cache."""
    theirs = cache.compile_kernel(source)
    manifest = (folder / source.key / "manifest.json").read_bytes()
    ours = cache._build(folder, folder / source.key, source, own_key(folder))
    assert source.probe(ours) == source.probe(theirs)
    assert (folder / source.key / "manifest.json").read_bytes() == manifest
    assert {path.name for path in folder.iterdir()} == {"key", source.key}
    forget()
    assert from_disk(cache.compile_kernel(source))


def test_one_process_keeps_one_kernel(folder, source):
    assert cache.compile_kernel(source) is cache.compile_kernel(source)


def test_the_folder_is_the_users_own(folder, source):
    cache.compile_kernel(source)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def entry_file(folder, ending):
    (path,) = folder.rglob(f"*{ending}")
    return path


def truncate(folder):
    path = entry_file(folder, ".nbc")
    path.write_bytes(path.read_bytes()[:100])


def flip(folder):
    path = entry_file(folder, ".nbc")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def plant_index(folder):
    entry_file(folder, ".nbi").write_bytes(b"cos\nsystem\n(S'echo pwned > /tmp/pwned'\ntR.")


def plant_file(folder):
    (entry_file(folder, ".nbi").parent / "kernel.cpython-311.pyc").write_bytes(b"foreign")


def change_source(folder):
    path = entry_file(folder, "kernel.py")
    path.write_text(path.read_text() + "\nraise SystemExit('foreign code ran')\n")


def break_manifest(folder):
    entry_file(folder, "manifest.json").write_text("{")


def change_answer(folder):
    path = entry_file(folder, "manifest.json")
    signed = json.loads(path.read_text())
    signed["manifest"]["answer"] = ["0x1.0p+0"]
    path.write_text(json.dumps(signed))


def from_another_user(folder):
    # Whole, with right digests: signed with another key.
    path = entry_file(folder, "manifest.json")
    manifest = json.loads(path.read_text())["manifest"]
    signature = signed(manifest, path.parent.name, b"another key".ljust(32))["signature"]
    path.write_text(json.dumps({"manifest": manifest, "signature": signature}))


def unsigned(folder):
    path = entry_file(folder, "manifest.json")
    path.write_text(json.dumps(json.loads(path.read_text())["manifest"]))


def remove_index(folder):
    entry_file(folder, ".nbi").unlink()


def link_file(folder):
    path = entry_file(folder, ".nbc")
    other = folder.parent / "elsewhere"
    other.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(other)


def link_entry(folder):
    entry = entry_file(folder, "manifest.json").parent
    moved = entry.rename(folder.parent / "moved")
    entry.symlink_to(moved)


def replace_by_file(folder):
    entry = entry_file(folder, "manifest.json").parent
    entry.rename(folder.parent / "moved")
    entry.write_text("not a folder")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "damage",
    [truncate, flip, plant_index, plant_file, change_source, break_manifest, change_answer, from_another_user,
     unsigned, remove_index, link_file, link_entry, replace_by_file],
)  # fmt: skip
def test_a_damaged_or_foreign_entry_is_rebuilt_never_executed(folder, source, damage):
    expected = source.probe(cache.compile_kernel(source))
    damage(folder)
    forget()
    with pytest.warns(CacheWarning, match="damaged or foreign"):
        kernel = cache.compile_kernel(source)
    assert source.probe(kernel) == expected
    assert not Path("/tmp/pwned").exists()
    forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_disk(cache.compile_kernel(source))


def test_off_keeps_nothing_on_disk(tmp_path, source, monkeypatch):
    monkeypatch.setenv("SYMDEBIAS_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cache, "_compiled", {})
    assert cache_folder() is None
    cache.compile_kernel(source)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_others_can_write_to_is_not_used(folder, source):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(CacheWarning, match="other users can write to it"):
        cache.compile_kernel(source)
    assert list(folder.iterdir()) == []


def test_a_linked_folder_is_not_used(folder, source, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    with pytest.warns(CacheWarning, match="symbolic link"):
        cache.compile_kernel(source)


def test_a_foreign_folder_is_not_used(folder, source, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 123456)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        cache.compile_kernel(source)


def test_a_folder_that_cannot_be_made_never_fails_the_job(tmp_path, source, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SYMDEBIAS_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(cache, "_compiled", {})
    with pytest.warns(CacheWarning, match="is not used"):
        kernel = cache.compile_kernel(source)
    assert len(kernel.signatures) == 1


def test_an_unwritable_folder_never_fails_the_job(folder, source, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.warns(CacheWarning, match="cannot be written to"):
        cache.compile_kernel(source)


def test_a_full_disk_never_fails_the_job(folder, source, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.tempfile, "mkdtemp", full)
    with pytest.warns(CacheWarning, match="No space left on device"):
        cache.compile_kernel(source)


def test_a_disk_that_fills_up_while_an_entry_is_built_leaves_none(folder, source, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(cache.os, "fsync", full)
        with pytest.warns(CacheWarning, match="No space left on device"):
            kernel = cache.compile_kernel(source)
    assert len(kernel.signatures) == 1
    assert not (folder / source.key).exists()
    assert list(folder.glob("build-*")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is a folder for all")
def test_a_user_without_a_home_folder_compiles_in_memory(folder, source, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("SYMDEBIAS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cache.Path, "home", homeless)
    with pytest.warns(CacheWarning, match="no home folder"):
        kernel = cache.compile_kernel(source)
    assert len(kernel.signatures) == 1


def test_numbas_own_settings_do_not_move_the_cache(folder, source, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    cache.compile_kernel(source)
    assert not (tmp_path / "numba").exists()
    assert numba.config.CACHE_DIR == str(tmp_path / "numba")


def test_the_key_depends_on_all_that_decides_the_code(source):
    others = [
        Kernels(dataclasses.replace(PROGRAM, columns=ScoreColumns((U,), (0, 1), 2, None))).source("mean_loss"),
        Kernels(PROGRAM).source("mean_loss", weighted=True),
        Kernels(dataclasses.replace(PROGRAM, expression=U * Y + U**2 - 2 * S)).source("mean_loss"),
    ]
    assert len({source.key, *(other.key for other in others)}) == 4


def test_what_an_older_layout_has_kept_is_left_alone(folder, source, monkeypatch):
    cache.compile_kernel(source)
    forget()
    monkeypatch.setattr(cache, "_LAYOUT", 0)
    older = dataclasses.replace(source)
    assert not from_disk(cache.compile_kernel(older))
    assert {path.name for path in folder.iterdir()} == {"key", source.key, older.key}


def test_machine_is_part_of_the_key(source, monkeypatch):
    before = source.key
    monkeypatch.setattr(cache, "_machine", lambda: ("another machine",))
    assert dataclasses.replace(source).key != before


def test_threads_share_one_compilation(folder, source):
    kernels = []
    threads = [threading.Thread(target=lambda: kernels.append(cache.compile_kernel(source))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(kernel) for kernel in kernels}) == 1


SCRIPT = textwrap.dedent(
    """
    import numpy as np, symdebias as sd
    release = sd.Release(features=sd.GaussianMechanism.from_scale(0.3), target=sd.RandomizedResponse(epsilon=1.0))
    corrected = sd.debias(sd.losses.exponential(), release)
    X = np.linspace(-1, 1, 200).reshape(-1, 2)
    y = np.where(np.arange(100) % 3 == 0, -1, 1)
    gradient = corrected.mean_gradient(np.array([0.3, -0.2]), X, y)
    kernels = corrected.at(2).kernels
    kernel = kernels.mean_gradient(weighted=False).compiled
    names = ("loss", "mean_loss", "mean_gradient", "mean_derivatives", "sgd_pass")
    keys = [kernels.source(name).key for name in names]
    print(sum(kernel.stats.cache_hits.values()), len(kernel.signatures), gradient.tolist(), keys)
    """
)


def run_script(folder, hash_seed, packages=None):
    environment = {**os.environ, "SYMDEBIAS_CACHE": str(folder), "PYTHONHASHSEED": hash_seed}
    if packages is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(packages), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    hits, signatures, gradient_and_keys = done.stdout.split(maxsplit=2)
    return int(hits), int(signatures), gradient_and_keys


FIT = """
import warnings
import numpy as np, symdebias as sd
warnings.simplefilter("ignore", sd.exceptions.ConvergenceWarning)
release = sd.Release(sd.GaussianMechanism.from_scale(0.3))
X = np.random.default_rng(0).normal(size=(200, 2))
corrected = sd.debias(sd.losses.least_squares(), release)
how = {"order": "given", "batch_size": 10, "epochs": 5}
print([sd.m_estimate(corrected, X, X[:, 0]).theta.tolist(), sd.sgd(corrected, X, X[:, 0], **how).theta.tolist()])
"""


@pytest.mark.in_turn
def test_fits_run_where_numba_compiles_nothing_and_leave_the_folder_alone(tmp_path):
    def fitted(**more):
        environment = {**os.environ, "SYMDEBIAS_CACHE": str(tmp_path), **more}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", FIT], env=environment, capture_output=True, text=True, check=True
        )
        files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
        return np.array(json.loads(done.stdout)), files

    compiled, entries = fitted()
    plain, left = fitted(NUMBA_DISABLE_JIT="1")
    # Steps are learned from differences of gradients, which multiply rounding.
    np.testing.assert_allclose(plain, compiled, rtol=1e-6)
    assert entries
    assert left == entries


def test_a_second_process_compiles_nothing_whatever_its_hash_seed_and_environment(tmp_path):
    """Where packages of equal versions are installed is no part of what a kernel is."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    installed = Path(np.__file__).parent
    for path in (installed, installed.with_name("numpy.libs")):
        # Links need rights on Windows.
        if path.exists() and sys.platform != "win32":
            (elsewhere / path.name).symlink_to(path)
    first = run_script(tmp_path / "cache", "1")
    second = run_script(tmp_path / "cache", "2", packages=elsewhere)
    assert first[:2] == (0, 1)
    assert second[:2] == (1, 1)
    assert first[2] == second[2]


def test_answers_agree_to_rounding_and_no_further():
    def answer(*values):
        return [float(value).hex() for value in values]

    assert cache._agree(answer(1.0, -0.25, math.inf, math.nan), answer(1.0 + 2e-16, -0.25, math.inf, math.nan))
    assert cache._agree(answer(1.0, 1e-17), answer(1.0, 0.0))
    for other in ((1.0 + 1e-11, -0.25), (1.0,), (1.0, math.inf), (1.0, math.nan), (1.0, 0.25)):
        assert not cache._agree(answer(1.0, -0.25), answer(*other))
    with pytest.raises(ValueError, match="hexadecimal"):
        cache._agree(answer(1.0), ["nothing"])


def test_what_has_no_lasting_name_is_no_part_of_a_kernel():
    assert cache._identity(math, "") == ("math",)
    with pytest.raises(TypeError, match="no lasting name"):
        cache._identity(object(), "")


@pytest.mark.exhaustive
def test_two_processes_on_one_cache(tmp_path):
    results = []
    threads = [threading.Thread(target=lambda: results.append(run_script(tmp_path / "cache", "0"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0][2] == results[1][2]
    assert not list((tmp_path / "cache").glob("build-*"))


def test_the_key_is_the_users_alone_and_another_is_drawn_where_it_is_not(folder, source):
    cache.compile_kernel(source)
    key = folder / "key"
    first = key.read_bytes()
    assert len(first) == 32
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert own_key(folder) == first
    key.chmod(0o644)
    second = own_key(folder)
    assert second != first
    key.unlink()
    key.symlink_to(folder.parent / "elsewhere")
    (folder.parent / "elsewhere").write_bytes(first)
    assert own_key(folder) not in (first, second)
    assert not key.is_symlink()
    key.write_bytes(b"short")
    assert len(own_key(folder)) == 32
    assert not list(folder.glob("build-*"))


def test_what_killed_processes_left_is_swept_and_builds_under_way_are_not(folder, source, tmp_path):
    folder.mkdir(mode=0o700, exist_ok=True)
    left, new, linked = folder / "build-left", folder / "build-new", folder / "build-linked"
    for path in (left, new, tmp_path / "precious"):
        path.mkdir()
        (path / "kernel.py").write_text("1")
    linked.symlink_to(tmp_path / "precious")
    (folder / "other").mkdir()
    old = time.time() - 7_200
    for path in (left, folder / "other", tmp_path / "precious"):
        os.utime(path, (old, old))
    sweep.cache_clear()
    cache.compile_kernel(source)
    assert not left.exists()
    assert new.exists()
    assert (folder / "other").exists()
    assert (tmp_path / "precious" / "kernel.py").exists()


class Terminal:
    """A stream that somebody looks at."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


@pytest.fixture
def terminal(monkeypatch):
    """A terminal, whose user is patient for a hundredth of a second."""
    stream = Terminal()
    monkeypatch.setattr(cache, "_PATIENCE", 0.01)
    return stream


def wait(waiting, stream, *, kept=True, seconds=0.05):
    with contextlib.redirect_stderr(stream), waiting.compiling(kept=kept):
        time.sleep(seconds)


def test_who_waits_is_told_once(terminal, monkeypatch):
    waiting = cache._Waiting()
    wait(waiting, terminal)
    wait(waiting, terminal)
    assert terminal.text == "symdebias: compiling, once for this loss, its noise and this number of columns ...\n"
    # What is compiled later is another fit.
    monkeypatch.setattr(cache, "_PAUSE", 0.0)
    wait(waiting, terminal, kept=False)
    assert terminal.text.endswith("symdebias: compiling, for this process alone ...\n")
    assert waiting.built == 3


def test_short_compilations_are_told_once_they_are_long_together(terminal, monkeypatch):
    monkeypatch.setattr(cache, "_PATIENCE", 0.5)
    waiting = cache._Waiting()
    wait(waiting, terminal, seconds=0.0)
    assert terminal.text == ""
    waiting.spent = 0.49
    wait(waiting, terminal, seconds=0.3)
    assert terminal.text


@pytest.mark.parametrize("quiet", ["variable", "pipe", "no stream"])
def test_nobody_is_told_who_does_not_look(terminal, monkeypatch, quiet):
    if quiet == "variable":
        monkeypatch.setenv("SYMDEBIAS_PROGRESS", "off")
    elif quiet == "pipe":
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    wait(cache._Waiting(), None if quiet == "no stream" else terminal)
    assert terminal.text == ""


# ---- derivations that are kept -----------------------------------------------------------------------------

NAME = "0123456789abcdef0123456789abcdef"
MADE = {"setup": ["h0 = 1.0"], "record": [], "results": ["h0"], "functions": ["exp"]}


@pytest.fixture
def slow(folder, monkeypatch):
    """Every derivation is worth keeping; the list counts them."""
    monkeypatch.setattr("symdebias.codegen.folder._WORTH_KEEPING", -1.0)
    return []


def derive(slow):
    slow.append(1)
    return MADE


def test_a_derivation_is_kept_for_other_processes_of_this_user(folder, slow, monkeypatch):
    assert [kept(NAME, lambda: derive(slow)) for _ in range(3)] == [MADE] * 3
    assert slow == [1]
    path = folder / f"{NAME}.json"
    assert {one.name for one in folder.iterdir()} == {"key", path.name}
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600
    # Under another name it is another's.
    assert kept("f" * 32, lambda: derive(slow)) == MADE
    assert slow == [1, 1]
    # What takes no time is not kept, and nothing is where the cache is off.
    monkeypatch.setattr("symdebias.codegen.folder._WORTH_KEEPING", 1e9)
    kept("e" * 32, lambda: derive(slow))
    monkeypatch.setenv("SYMDEBIAS_CACHE", "off")
    assert kept(NAME, lambda: derive(slow)) == MADE
    assert len(slow) == 4
    assert len(list(folder.iterdir())) == 3


def _other_text(path):
    signed = json.loads(path.read_text())
    signed["manifest"]["results"] = ["__import__('os').abort()"]
    path.write_text(json.dumps(signed))


def _of_another_name(path):
    path.write_bytes((path.parent / f"{'f' * 32}.json").read_bytes())


def _linked(path):
    aside = path.parent / "aside"
    path.rename(aside)
    path.symlink_to(aside)


@pytest.mark.parametrize(
    "damage",
    [
        _other_text, _of_another_name, _linked,
        lambda path: path.write_bytes(path.read_bytes()[:-20]), lambda path: path.write_text("[]"),
        lambda path: path.write_text("{}"), lambda path: path.write_text('{"manifest": 1, "signature": 2}'),
        lambda path: path.write_bytes(b"\xff"), lambda path: path.write_text("[" * 100_000),
        lambda path: (path.parent / "key").write_bytes(bytes(32)),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)  # fmt: skip
def test_a_derivation_that_is_damaged_or_foreign_is_done_again(folder, slow, damage):
    for name in (NAME, "f" * 32):
        kept(name, lambda: derive(slow))
    damage(folder / f"{NAME}.json")
    with pytest.warns(CacheWarning, match="damaged or foreign; it was deleted and is done again"):
        assert kept(NAME, lambda: derive(slow)) == MADE
    assert len(slow) == 3
    assert kept(NAME, lambda: derive(slow)) == MADE
    assert len(slow) == 3


def test_a_full_disk_never_fails_a_derivation(folder, slow, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("symdebias.codegen.folder._keep", full)
    assert kept(NAME, lambda: derive(slow)) == MADE
    monkeypatch.setattr("symdebias.codegen.folder.own_key", full)
    with pytest.warns(CacheWarning, match="could not be used"):
        assert kept(NAME, lambda: derive(slow)) == MADE


def test_a_derivation_is_known_by_all_that_decides_it(folder, slow, monkeypatch):
    def kept(texts, decides, make):
        return kept_statements(texts, decides, lambda: (slow.append(1), make())[1])

    monkeypatch.setattr(program_module, "kept_statements", kept)

    def printed(what="loss", **changes):
        # What this process knows of equal programs is forgotten.
        ScoreProgram._statements.cache_clear()
        program = dataclasses.replace(PROGRAM, **changes)
        found = program._statements(what)
        assert found == program._printed(what)
        return len(slow)

    positive = sp.Symbol("u", positive=True)
    assert [printed(), printed()] == [1, 1]
    assert printed("gradient") == 2
    assert printed(expression=PROGRAM.expression + U) == 3
    # Constants stand elsewhere in what kernels are told of the noise.
    assert printed(columns=ScoreColumns((U,), (0, 1), 2, None)) == 4
    assert printed(statistics=PROGRAM.statistics[:2], expression=U * Y - S) == 5
    assert (
        printed(expression=PROGRAM.expression.xreplace({U: positive}), columns=ScoreColumns((positive,), (0,), 1, None))
        == 6
    )
    assert [printed(), printed("gradient")] == [6, 6]
    assert digest(sp.Float(0.1)) != digest(sp.Float(0.1, 30))
    assert digest(sp.sin(U)) != digest(sp.cos(U))
    assert digest(U - Y) != digest(Y - U)
