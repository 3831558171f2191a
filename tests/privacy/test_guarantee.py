import dataclasses
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symdebias.exceptions import PrivacyError
from symdebias.privacy import Guarantee, compose

guarantees = st.builds(
    Guarantee,
    st.floats(0, 1e6),
    st.floats(0, 0.01),
    unprotected=st.lists(st.sampled_from("abc"), unique=True).map(tuple),
)


@given(st.lists(guarantees, min_size=1, max_size=12))
def test_budgets_add_and_are_rounded_up(parts):
    total = compose(parts)
    for field in ("epsilon", "delta"):
        exact = sum(Fraction(getattr(part, field)) for part in parts)
        found = getattr(total, field)
        assert exact <= Fraction(found)
        assert Fraction(math.nextafter(found, -1.0)) < exact
    assert set(total.unprotected) == {name for part in parts for name in part.unprotected}


@given(guarantees, guarantees)
def test_a_composition_is_implied_and_no_stronger_than_its_parts(first, second):
    total = compose([first, second])
    assert compose([second, first]).epsilon == total.epsilon
    assert dataclasses.replace(first, unprotected=()).implies(total)
    assert compose([first]) == first


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


CENTRAL = Guarantee(1.0, 0.0, model="central")
BAD_COMPOSITIONS = [
    ([], PrivacyError, "got none"),
    ([Guarantee(1.0, 0.0), CENTRAL], PrivacyError, "one model and adjacency"),
    ([CENTRAL, dataclasses.replace(CENTRAL, adjacency="add-remove")], PrivacyError, "central add-remove"),
    ([Guarantee(1.0, 0.5)] * 2, PrivacyError, "promises nothing"),
    ([Guarantee(1e308, 0.0)] * 2, PrivacyError, "promises nothing"),
    ([Guarantee(1.0, 0.0), 1.0], TypeError, "only guarantees compose; got float"),
    ([Guarantee(1.0, 0.0), None], TypeError, "only guarantees compose; got NoneType"),
]


@pytest.mark.parametrize(("parts", "error", "message"), BAD_COMPOSITIONS)
def test_compositions_that_are_refused(parts, error, message):
    with pytest.raises(error, match=message):
        compose(parts)


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
    ({"unprotected": (1,)}, TypeError, "sequence of names"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_guarantees_that_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        Guarantee(**{"epsilon": 1.0, "delta": 0.0, **change})
