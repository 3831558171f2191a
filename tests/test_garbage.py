"""The collector of garbage is paused and comes back."""

import gc
import weakref

import pytest

from symdebias._garbage import uncollected


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_as_it_was(was_on):
    before = gc.isenabled()
    try:
        (gc.enable if was_on else gc.disable)()
        with uncollected(), uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() == was_on
        with pytest.raises(ZeroDivisionError), uncollected():
            1 / 0  # noqa: B018
        assert gc.isenabled() == was_on
    finally:
        (gc.enable if before else gc.disable)()


def test_what_was_made_is_old_at_once():
    with uncollected():
        made = [[] for _ in range(10)]
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation)}
    assert not young & {id(one) for one in made}
    assert any(one is made for one in gc.get_objects(2))


def test_garbage_of_that_time_is_collected_later():
    class Knot:
        pass

    with uncollected():
        knot = Knot()
        knot.itself = knot  # type: ignore[attr-defined]
        left = weakref.ref(knot)
        del knot
    assert left() is not None
    gc.collect()
    assert left() is None


def test_what_others_keep_from_the_collector_stays_kept():
    kept: list[object] = [[]]
    gc.collect()
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with uncollected():
            pass
        assert gc.get_freeze_count() == count > 0
        assert not any(one is kept for one in gc.get_objects())
    finally:
        gc.unfreeze()
