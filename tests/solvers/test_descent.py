"""The shell of descents: every step once, whatever is kept; means of the steps that are averaged."""

import numpy as np
import pytest

from symdebias.exceptions import DivergenceError
from symdebias.solvers.descent import Descent


def steps_of_one(theta, count, average, averaged, report):
    """A kernel that adds 1 to theta with each of `count` steps, and keeps the running mean as compiled ones do."""
    for taken in range(count):
        if theta[0] == 90:
            report[0] = 1
            return taken
        theta += 1
        if averaged >= 0:
            average += (theta - average) / (averaged + taken + 1)
    return count


def run(begin, end, longest=None, **options):
    descent = Descent(np.zeros(1), end, **options)
    segments = list(descent.segments(begin, end, longest))
    whole = all(descent.take(steps_of_one, lower, upper, upper - lower) for lower, upper in segments)
    return descent, segments, whole


def test_segments_cover_every_step_once_and_end_where_iterates_are_kept():
    descent, segments, whole = run(0, 60, 16, share=0.5, record=[0, 7, 50], sums_at=[40, 60])
    assert whole
    assert [lower for lower, _ in segments] == [0, *(upper for _, upper in segments[:-1])]
    assert {7, 30, 40, 50, 60} <= {upper for _, upper in segments}
    assert max(upper - lower for lower, upper in segments) == 16
    assert descent.result == pytest.approx(np.arange(31, 61).mean())
    assert descent.sums == {30: [0.0], 40: pytest.approx(sum(range(31, 41))), 60: pytest.approx(sum(range(31, 61)))}


def test_a_kernel_that_stops_is_told_of_with_its_step():
    descent, _, whole = run(0, 100, record=4)
    assert not whole
    assert (descent.done, descent.stopped) == (90, 1)
    with pytest.raises(DivergenceError, match=r"diverged at step 91 \(\|\|theta\|\| = 90, step size 0.5\): why"):
        raise descent.diverged(0.5, ": why")
