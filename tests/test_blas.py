"""The threads of the library of linear algebra: one while the library works, as many as before afterwards."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from symdebias import _blas


class Copy:
    """One copy of OpenBLAS, and what was asked of it."""

    def __init__(self, threads):
        self.threads, self.asked = threads, []

    def put(self, threads):
        self.threads = threads
        self.asked.append(threads)


@pytest.fixture
def copies(monkeypatch):
    """Two copies, the second of which has one thread anyway."""
    found = Copy(4), Copy(1)
    monkeypatch.setattr(_blas, "_threads", _blas._Threads())
    monkeypatch.setattr(_blas, "_copies", lambda: [(lambda one=one: one.threads, one.put) for one in found])
    return found


def test_there_is_one_thread_within_and_as_many_as_before_afterwards(copies):
    first, second = copies
    with _blas.one_thread():
        assert first.threads == 1
        with _blas.one_thread():
            pass
        assert first.threads == 1
    assert (first.asked, second.asked) == ([1, 4], [])


def test_an_error_gives_threads_back(copies):
    with pytest.raises(KeyboardInterrupt), _blas.one_thread():
        raise KeyboardInterrupt
    assert copies[0].threads == 4


def test_the_last_of_several_threads_to_leave_gives_them_back(copies):
    entered, leave = threading.Barrier(2), threading.Event()

    @_blas.one_thread()
    def work():
        entered.wait(30)
        leave.wait(30)

    other = threading.Thread(target=work)
    with _blas.one_thread():
        other.start()
        entered.wait(30)
    assert copies[0].threads == 1
    leave.set()
    other.join()
    assert copies[0].asked == [1, 4]


SCRIPT = """
import hashlib
import numpy as np, symdebias as sd
from symdebias import _blas

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (20_000, 3))
y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-X @ [2.0, -1.0, 0.5])), 1.0, -1.0)
noised = sd.Release(sd.GaussianMechanism.from_scale(0.3), sd.RandomizedResponse(3.0)).privatize(X, y, random_state=1)
before = [get() for get, _ in _blas._copies()]
fit = sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y)
area = sd.evaluation.evaluate(fit, noised.X, noised.y, metric="roc_auc")
numbers = np.concatenate([fit.theta, fit.confidence_interval().ravel(), [area.value, area.standard_error]])
print(before == [get() for get, _ in _blas._copies()], max(before, default=1), hashlib.sha256(numbers).hexdigest())
"""


@pytest.mark.in_turn
def test_no_bit_of_a_fit_depends_on_the_number_of_threads():
    """Without the limit they do on two cores: the products of a surrogate's design and of the scores' spread."""

    def started(threads):
        how = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
        return subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, env=how, text=True)

    processes = [started(threads) for threads in (1, 2)]
    (first, second) = (process.communicate(timeout=300)[0].split() for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert first[0] == second[0] == "True"
    assert first[2] == second[2]
    is_known = "openblas" in np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    if is_known and sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1:
        # Copies are found, so that the test says something.
        assert (first[1], second[1]) == ("1", "2")
