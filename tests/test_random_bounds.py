"""Random losses whose bounds are held against what they take, and that a bound below that is seen."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import random_bounds

pytestmark = pytest.mark.newest


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [5, 13])
def test_bounds_of_random_losses_hold_what_these_take(seed):
    assert random_bounds.outcome(seed) == "held"


@pytest.mark.parametrize("what", ["slope_ranges", "curvature_range"])
def test_a_bound_that_is_a_hundredth_short_is_seen(what, monkeypatch):
    true = getattr(random_bounds, what)

    def short(*arguments, **options):
        found = true(*arguments, **options)
        if what == "curvature_range":
            return tuple(0.99 * end for end in found)
        return tuple(tuple(0.99 * end for end in pair) for pair in found)

    monkeypatch.setattr(random_bounds, what, short)
    assert random_bounds.outcome(5).startswith(what.split("_")[0])
