import math

import pytest

from symdebias.privacy import Guarantee


def test_implication_needs_the_same_model_and_adjacency():
    local, central = Guarantee(1.0, 0.0), Guarantee(1.0, 0.0, model="central")
    assert local.implies(local)
    assert not local.implies(central)
    assert not central.implies(Guarantee(1.0, 0.0, model="central", adjacency="add-remove"))
    assert not Guarantee(1.0, 1e-9).implies(local)
    assert not Guarantee(1.0, 0.0, unprotected=("year",)).implies(local)


def test_a_guarantee_reads_as_a_sentence():
    text = str(Guarantee(1.5, 1e-5, unprotected=("year", "target")))
    assert text == "(1.5, 1e-05)-differential privacy (local, replace-one); not protected: year, target"


BAD = [
    ({"epsilon": -1.0}, ValueError, "epsilon=-1.0 is too small"),
    ({"epsilon": math.nan}, ValueError, "epsilon=nan"),
    ({"epsilon": math.inf}, ValueError, "epsilon=inf"),
    ({"epsilon": "1"}, TypeError, "epsilon"),
    ({"epsilon": True}, TypeError, "epsilon"),
    ({"delta": -1e-9}, ValueError, "delta"),
    ({"delta": 1.0}, ValueError, "delta=1.0 is too large"),
    ({"delta": math.nan}, ValueError, "delta"),
    ({"model": "shuffled"}, ValueError, "Choose one of local, central"),
    ({"adjacency": "swap"}, ValueError, "Choose one of replace-one, add-remove"),
    ({"adjacency": "add-remove"}, ValueError, "which is replace-one"),
    ({"unprotected": "year"}, TypeError, "sequence of names"),
    ({"multiplier": 0.0}, ValueError, "multiplier=0.0 is too small"),
    ({"multiplier": math.inf}, ValueError, "multiplier=inf"),
    ({"unprotected": (1,)}, TypeError, "sequence of names"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_guarantees_that_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        Guarantee(**{"epsilon": 1.0, "delta": 0.0, **change})
