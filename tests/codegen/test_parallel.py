"""Work on several threads: it is done there as it is where it was asked for."""

import numpy as np
import pytest

from symdebias.codegen import parallel


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: 2)


@pytest.mark.filterwarnings("error")
def test_sums_that_overflow_on_other_threads_warn_nobody():
    """What a warning would say of the records is told nobody; for the array is finite."""
    assert not parallel.all_finite(np.full(2 * parallel.NUMBERS, 1e308))


def over_chunks(count, work):
    return parallel.over_chunks(count, work, 1)


def over_parts(count, work):
    return parallel.over_parts(count, 1, work)


@pytest.mark.parametrize("over", [over_chunks, over_parts])
def test_other_threads_meet_overflow_as_this_one_does(over):
    def work(part):
        np.array([1e308]) * 10.0

    for errors, expected in (("raise", FloatingPointError), ("call", ZeroDivisionError)):
        with np.errstate(over=errors, call=lambda *_: 1 / 0), pytest.raises(expected):
            over(4, work)
    with np.errstate(over="ignore"):
        over(4, work)
