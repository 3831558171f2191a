"""Settings of the whole test session: a cache folder, no machine-dependent Hypothesis, a tenth of the longest tests."""

import gc
import os
import tempfile

import browser
import numpy as np
import pytest
import tiers
import turns
from hypothesis import settings

import symdebias as sd
from symdebias.codegen import cache
from symdebias.mechanisms import sampling

# Before any kernel is compiled; workers of one run share the folder of the first process.
os.environ.setdefault("SYMDEBIAS_CACHE", tempfile.mkdtemp(prefix="symdebias-tests-"))

TENTH = turns.chosen()

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


@pytest.fixture(autouse=True)
def compile_at_once(request, monkeypatch):
    """Tests of the compilation itself compile: those below `tests/codegen`, and those that are marked."""
    if request.node.get_closest_marker("compiled") or "codegen" in request.path.parts:
        monkeypatch.setattr(tiers, "RECORDS", 0)
        monkeypatch.setattr(cache, "_compile", tiers.COMPILE)


@pytest.fixture
def silent(monkeypatch):
    """No noise: what comes out is what the noise is added to."""
    monkeypatch.setattr(sampling, "normal_noise", lambda scale, shape, source: np.zeros(shape))
    monkeypatch.setattr(sampling, "laplace_noise", lambda scale, shape, source: np.zeros(shape))
    monkeypatch.setattr(sampling, "radial_noise_rows", lambda scale, rows, width, source: np.zeros((rows, width)))


@pytest.fixture
def data_folder():
    """The folder with real data, where there is one."""
    folder = os.environ.get("SYMDEBIAS_DATA")
    if not folder:
        pytest.skip("SYMDEBIAS_DATA is not set")
    return folder


def pytest_addoption(parser):
    parser.addoption(
        "--files-in-turn", type=int, default=1, metavar="N", help="only one in N files of tests: those of this tenth"
    )


def pytest_ignore_collect(collection_path, config):
    """Leave out files whose turn it is not, before they are imported."""
    share = config.getoption("--files-in-turn")
    if share > 1 and collection_path.name.startswith("test_"):
        return not turns.is_files_turn(str(collection_path.relative_to(config.rootpath)), TENTH, share) or None
    return None


def pytest_report_header():
    return f"exhaustive tests: part {TENTH} of 0 to {turns.PARTS - 1} ({turns.VARIABLE} chooses another)"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the exhaustive tests whose turn it is, before `-m` selects by marks; leave out what no program here runs."""
    for item in items:
        if item.get_closest_marker("exhaustive") and turns.part_of(item.nodeid) == TENTH:
            item.add_marker("turn")
    if browser.FOUND is None:
        left_out = [item for item in items if item.get_closest_marker("browser")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("browser")]
