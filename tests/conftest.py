"""Settings of the whole test session: a cache folder of its own, and no machine-dependent Hypothesis."""

import gc
import os
import tempfile

import pytest
from hypothesis import settings

# Before any kernel is compiled; workers of one run share the folder of the first process.
os.environ.setdefault("SYMDEBIAS_CACHE", tempfile.mkdtemp(prefix="symdebias-tests-"))

# Compilation and symbolic mathematics make millions of objects that live: the collector's default pace is a fifth of
# the time.
gc.set_threshold(100_000, 20, 50)

settings.register_profile("symdebias", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("symdebias")


@pytest.fixture
def data_folder():
    """The folder with real data, where there is one."""
    folder = os.environ.get("SYMDEBIAS_DATA")
    if not folder:
        pytest.skip("SYMDEBIAS_DATA is not set")
    return folder
