"""Work on several threads: it is done there as it is where it was asked for."""

import contextlib
import gc
import threading
import time
import weakref

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


@pytest.mark.parametrize("over", [over_chunks, over_parts])
def test_who_asks_takes_part_and_one_other_thread_with_it(over):
    threads, meet = set(), threading.Barrier(2)

    def work(part):
        threads.add(threading.get_ident())
        if part.start < 2:
            # Two parts at once: neither goes on before the other has begun.
            meet.wait(30)

    over(2, work)
    assert len(threads) == 2
    assert threading.get_ident() in threads


def test_a_thread_that_does_not_come_is_not_waited_for(monkeypatch):
    """Where the other core is busy, its part of the work is done here."""
    pool, held = parallel.ThreadPoolExecutor(1), threading.Event()
    pool.submit(held.wait, 30)
    monkeypatch.setattr(parallel, "_pool", lambda threads, process: pool)
    try:
        assert over_chunks(5, lambda part: part.start) == [0, 1, 2, 3, 4]
        assert not held.is_set()
    finally:
        held.set()
        pool.shutdown()


def test_work_within_work_starts_no_threads():
    inner = over_chunks(4, lambda part: set(over_chunks(3, lambda _: threading.get_ident())))
    assert [len(one) for one in inner] == [1, 1, 1, 1]
    # And what comes after goes on several threads again.
    assert over_chunks(3, lambda part: part.stop) == [1, 2, 3]


def test_of_several_errors_that_of_the_first_part_is_raised():
    begun = threading.Barrier(2)

    def work(part):
        if part.start < 2:
            begun.wait(30)
        raise ValueError(str(part.start))

    for _ in range(20):
        with pytest.raises(ValueError, match=r"^0$"):
            over_chunks(6, work)


def test_an_interruption_comes_before_errors():
    """Who handles the error of a part, as of a row that is refused, would lose the interruption."""
    begun = threading.Barrier(2)

    def work(part):
        begun.wait(30)
        raise KeyboardInterrupt if part.start else ValueError

    with pytest.raises(KeyboardInterrupt):
        over_chunks(2, work)


def test_an_interruption_while_this_thread_waits_is_raised_when_nobody_works_any_more(monkeypatch):
    pool, here = parallel.ThreadPoolExecutor(1), threading.get_ident()
    begun, go_on, written = threading.Event(), threading.Event(), []

    class Interrupted:
        """Work of another thread: who waits for it is interrupted once."""

        def __init__(self, work, part):
            self.future, self.asked = pool.submit(work, part), False

        def cancel(self):
            return self.future.cancel()

        def result(self):
            if not self.asked:
                self.asked = True
                raise KeyboardInterrupt
            go_on.set()
            return self.future.result()

    def work(part):
        if threading.get_ident() == here:
            begun.wait(30)
        else:
            begun.set()
            go_on.wait(30)
            written.append(part)

    monkeypatch.setattr(
        parallel, "_pool", lambda threads, process: type("Pool", (), {"submit": staticmethod(Interrupted)})
    )
    try:
        with pytest.raises(KeyboardInterrupt):
            over_chunks(2, work)
        assert len(written) == 1
        # And what comes after goes on several threads again.
        assert not parallel._own.works
    finally:
        go_on.set()
        pool.shutdown()


def test_nothing_refers_to_records_of_a_failed_pass():
    def fail():
        records = np.zeros(3)
        seen = weakref.ref(records)

        def work(part):
            raise ValueError(str(records[part].sum()))

        with contextlib.suppress(ValueError):
            over_chunks(4, work)
        return seen

    gc.disable()
    try:
        seen, end = fail(), time.monotonic() + 30
        # The other thread may be about to let go of what it was given.
        while seen() is not None and time.monotonic() < end:
            time.sleep(0.001)
        assert seen() is None
    finally:
        gc.enable()


def test_items_are_worked_on_in_order_as_many_at_a_time_as_there_are_threads():
    """The next ones are not taken before: what waits takes room."""
    taken, meet = [], threading.Barrier(2)

    def items():
        for item in range(5):
            taken.append(item)
            yield item

    def work(item):
        if item < 4:
            # Two of them at once.
            meet.wait(30)
        return item**2

    found = []
    for one in parallel.over_items(items(), work):
        found.append(one)
        assert len(taken) <= 2 * -(-len(found) // 2)
    assert found == [0, 1, 4, 9, 16]
    assert list(parallel.over_items([], work)) == []


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_errors_of_items_come_after_those_of_work_on_what_came_before(threads, monkeypatch):
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: threads)

    def items():
        yield from range(4)
        raise OSError("no more")

    def work(item):
        if item == 3:
            raise ValueError("three")
        return item

    with pytest.raises(ValueError, match="three"):
        list(parallel.over_items(items(), work))
    said = parallel.over_items(items(), abs)
    assert [next(said) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(OSError, match="no more"):
        next(said)


def test_no_thread_gets_far_ahead_of_one_that_is_late(monkeypatch):
    """What is read in order would have left behind what the late one asks for."""
    monkeypatch.setattr("numba.get_num_threads", lambda: 3)
    begun, is_late, ahead = [], threading.Event(), []

    def work(rows):
        begun.append(rows.start)
        if rows.start == 5:
            # The others go on until they have to wait.
            time.sleep(0.2)
            ahead.append(max(begun))
            is_late.set()
        return rows.start

    assert parallel.over_chunks(100, work, 1) == list(range(100))
    assert is_late.is_set()
    assert ahead[0] < 5 + 2 * 3


@pytest.mark.parametrize("fails", [0, 5, 50])
def test_who_waits_for_a_late_one_is_let_go_where_that_fails(fails, monkeypatch):
    monkeypatch.setattr("numba.get_num_threads", lambda: 3)

    def work(rows):
        if rows.start == fails:
            time.sleep(0.1)
            raise ValueError(f"part {rows.start}")
        return rows.start

    with pytest.raises(ValueError, match=f"part {fails}"):
        parallel.over_chunks(100, work, 1)
    assert parallel.over_chunks(4, lambda rows: rows.start, 1) == [0, 1, 2, 3]
