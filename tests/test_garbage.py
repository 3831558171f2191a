"""The collector of garbage is paused and comes back."""

import gc

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
