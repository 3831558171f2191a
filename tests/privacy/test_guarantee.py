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
    ({"model": "shuffled"}, ValueError, "Choose one of local, central"),
    ({"adjacency": "swap"}, ValueError, "Choose one of replace-one, add-remove"),
    ({"adjacency": "add-remove"}, ValueError, "which is replace-one"),
    ({"multiplier": 0.0}, ValueError, "multiplier=0.0 is too small"),
    ({"unprotected": (1,)}, TypeError, "sequence of names"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_guarantees_that_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        Guarantee(**{"epsilon": 1.0, "delta": 0.0, **change})
