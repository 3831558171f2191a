"""Settings of the whole test session: a cache folder, no machine-dependent Hypothesis, a part of the longest tests.

What a test needs and this machine does not have, a browser, a package in no extra of the tests, a folder of real data,
leaves it out: nothing is skipped, and the head of the report names what was not there.
"""

import doctest
import faulthandler
import gc
import importlib.util
import os
import tempfile

import browser
import numpy as np
import pytest
import tiers
import turns
from hypothesis import settings

import symdebias as sd
from symdebias.codegen import cache, kernels, replicates
from symdebias.codegen.kernels import Kernels
from symdebias.mechanisms import sampling

# Before any kernel is compiled; workers of one run share the folder of the first process.
os.environ.setdefault("SYMDEBIAS_CACHE", tempfile.mkdtemp(prefix="symdebias-tests-"))
# Workers have a core each. Threads that share out a small product wait for one another in a loop and are lost to forks.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

PART = turns.chosen()

# In seconds, some ten times what the longest test takes on a busy machine.
LONGEST = 900.0
DATA = "SYMDEBIAS_DATA"
# What a test may need that not every machine has, and whether it is here.
HERE = {
    "chromium": browser.FOUND is not None,
    DATA: bool(os.environ.get(DATA)),
    **{name: importlib.util.find_spec(name) is not None for name in ("opacus", "opendp", "torch")},
}
DATA_FOLDER = "data_folder"
# Files that import it at once.
NEEDED_BY_FILES = {"test_torch_steps.py": "torch"}

# Compilation and symbolic mathematics make millions of objects that live: the collector's default pace is a fifth of
# the time.
gc.set_threshold(100_000, 20, 50)

tiers.install()

settings.register_profile("symdebias", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("symdebias")


@pytest.fixture(autouse=True, scope="session")
def patience():
    """No test depends on how busy the machine is: a derivation is given up for its size, not for its seconds."""
    with sd.derivation_limits(seconds=900.0):
        yield


@pytest.fixture(autouse=True, scope="module")
def kernels_of_the_file():
    """A kernel answers every call of a file, and of what the file's tests share, in one form."""
    tiers.begin_file()


@pytest.fixture(autouse=True)
def compile_at_once(request, monkeypatch):
    """Tests of the compilation itself compile: those below `tests/codegen`, and those that are marked."""
    if request.node.get_closest_marker("compiled") or "codegen" in request.path.parts:
        monkeypatch.setattr(tiers, "RECORDS", 0)
        monkeypatch.setattr(cache, "_compile", tiers.COMPILE)


@pytest.fixture
def in_python(monkeypatch):
    """Kernels run as plain Python: they are one text with the compiled ones, which few records are not worth."""
    cached = (Kernels.sgd_pass, Kernels.mean_gradient, Kernels.mean_derivatives, replicates.replicates_pass)
    for module in (kernels, replicates):
        monkeypatch.setattr(module, "compile_kernel", cache.plain_kernel)
    for one in cached:
        one.cache_clear()
    yield
    for one in cached:
        one.cache_clear()


@pytest.fixture
def silent(monkeypatch):
    """No noise: what comes out is what the noise is added to."""
    monkeypatch.setattr(sampling, "normal_noise", lambda scale, shape, source: np.zeros(shape))
    monkeypatch.setattr(sampling, "laplace_noise", lambda scale, shape, source: np.zeros(shape))
    monkeypatch.setattr(sampling, "radial_noise_rows", lambda scale, rows, width, source: np.zeros((rows, width)))


@pytest.fixture
def data_folder():
    """The folder with real data; where there is none, tests that ask for it are left out."""
    return os.environ[DATA]


STDERR = pytest.StashKey[int]()


def pytest_configure(config):
    # That of the process: while a test runs, what it writes is caught.
    config.stash[STDERR] = os.dup(2)


def pytest_unconfigure(config):
    os.close(config.stash[STDERR])


def pytest_addoption(parser):
    parser.addoption(
        "--files-in-turn", type=int, default=1, metavar="N", help="only one in N files of tests: those of this part"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Say where a test hangs and end the process, whatever holds Python's lock: nobody waits for a run without end."""
    faulthandler.dump_traceback_later(LONGEST, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_ignore_collect(collection_path, config):
    """Leave out files whose turn it is not, or that need what is not here, before they are imported."""
    if not HERE.get(NEEDED_BY_FILES.get(collection_path.name), True):
        return True
    share = config.getoption("--files-in-turn")
    if share > 1 and collection_path.name.startswith("test_"):
        return not turns.is_files_turn(str(collection_path.relative_to(config.rootpath)), PART, share) or None
    return None


def pytest_make_parametrize_id(val, argname):
    """Bytes are numbered: a packed file may hold the time, and workers would name a test after two times."""
    return argname if isinstance(val, bytes) else None


def pytest_report_header():
    absent = ", ".join(name for name, is_here in HERE.items() if not is_here)
    return [
        f"exhaustive tests: part {PART} of 0 to {turns.PARTS - 1} ({turns.VARIABLE} chooses another)",
        f"left out: tests of what is not here: {absent}" if absent else "all is here that a test may need",
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the exhaustive tests whose turn it is, before `-m` selects by marks; leave out what no program here runs."""
    for item in items:
        if item.get_closest_marker("in_turn") and not turns.is_cases_turn(item.nodeid, PART):
            item.add_marker("exhaustive")
        if item.get_closest_marker("exhaustive") and turns.part_of(item.nodeid) == PART:
            item.add_marker("turn")
    left_out = [item for item in items if lacks(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def lacks(item):
    """Whether a test needs what is not here, or is an example that is written to be read alone."""
    if isinstance(item, pytest.DoctestItem):
        return all(example.options.get(doctest.SKIP) for example in item.dtest.examples)
    needed = [name for mark in item.iter_markers("needs") for name in mark.args]
    if DATA_FOLDER in item.fixturenames:
        needed.append(DATA)
    return not all(HERE[name] for name in needed)
