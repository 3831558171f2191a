"""Many digits: one context for each thread, at the precision that is asked for."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from symdebias.privacy import precise

pytestmark = pytest.mark.newest


def test_a_thread_has_one_context_and_no_other_threads():
    mine = precise.context()
    assert mine.dps == precise.DIGITS
    assert precise.context() is mine
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(precise.context).result() is not mine


def test_who_asks_while_mpmath_takes_more_digits_is_given_another_one():
    outer = precise.context()
    with outer.workdps(2 * precise.DIGITS):
        inner = precise.context()
        assert inner is not outer
        assert inner.dps == precise.DIGITS
        assert outer.dps == 2 * precise.DIGITS
    assert outer.dps == precise.DIGITS
