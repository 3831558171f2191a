import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import symdebias as sd
from symdebias import _domains
from symdebias._domains import DELTA, EPSILON, RADIUS, Integer, Interval, LabelSet, check_choice

DOMAINS = {name: value for name, value in vars(_domains).items() if isinstance(value, Interval | Integer)}
DOMAINS |= {f"{closed} of (-2, 3)": Interval(-2.0, 3.0, closed) for closed in ("neither", "left", "right", "both")} | {
    "reals": Interval(-math.inf, math.inf),
    "labels": LabelSet((-1.0, 0.5, 2.0)),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_takes_its_inside_and_refuses_its_outside(name):
    domain = DOMAINS[name]
    for value in domain.inside():
        assert domain.check("argument", value) == value
    for value in domain.outside():
        with pytest.raises((TypeError, ValueError), match=r"^argument"):
            domain.check("argument", value)


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("value", [np.array(1.0), np.array([1.0]), np.bool_(True), np.complex128(1), object()])
def test_what_is_no_number_is_a_type_error(name, value):
    with pytest.raises(TypeError, match="argument"):
        DOMAINS[name].check("argument", value)


@given(st.floats(), st.sampled_from(["neither", "left", "right", "both"]))
def test_check_agrees_with_membership(value, closed):
    domain = Interval(-1.5, 2.0, closed)
    if value in domain:
        assert domain.check("x", value) == value
    else:
        with pytest.raises(ValueError, match="It must be a number in"):
            domain.check("x", value)


@pytest.mark.parametrize("number", [1, 1.0, np.float64(1), np.float32(1), np.int8(1), np.uint64(1)])
def test_numbers_of_every_kind_become_float(number):
    checked = EPSILON.check("epsilon", number)
    assert type(checked) is float
    assert checked == 1.0


MESSAGES = [
    (EPSILON, 0, "epsilon=0 is too small. It must be a number in [1e-06, 700]. Give the privacy budget"),
    (EPSILON, 1e-320, "epsilon=1e-320 is too small"),
    (EPSILON, math.inf, "epsilon=inf is too large. It must be a number in [1e-06, 700]. No budget of this size"),
    (EPSILON, 10**400, "with from_scale"),
    (EPSILON, 701, "epsilon=701 is too large"),
    (EPSILON, math.nan, "epsilon=nan is not a number"),
    (DELTA, 0, "epsilon=0 is too small. It must be a number in (0, 1). Give a probability"),
    (DELTA, 1, "epsilon=1 is too large"),
    (RADIUS, -1, "epsilon=-1 is too small. It must be a number in [1e-100, 1e+100]. Give a public bound"),
]


@pytest.mark.parametrize(("domain", "value", "message"), MESSAGES, ids=str)
def test_messages_say_what_is_wrong_what_is_allowed_and_what_to_do(domain, value, message):
    with pytest.raises(ValueError, match="epsilon") as caught:
        domain.check("epsilon", value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ("ab", TypeError, "not a sequence of numbers"),
        (3, TypeError, "not a sequence of numbers"),
        (["a", "b"], TypeError, "which is not a number"),
        ([True, False], TypeError, "which is not a number"),
        ([1j, 2], TypeError, "which is not a number"),
        ([1, 1], ValueError, "repeats a value"),
        ([0.0, -0.0], ValueError, "repeats a value"),
        ([1, math.nan], ValueError, "not a finite number"),
        ([1, math.inf], ValueError, "not a finite number"),
        ([1, 10**400], ValueError, "not a finite number"),
        ([1], ValueError, "has 1 values; two are needed"),
        ([], ValueError, "has 0 values; two are needed"),
        ([1, 2, 3], ValueError, "has 3 values; two are needed"),
    ],
)
def test_label_sets_that_are_refused(values, error, message):
    with pytest.raises(error, match=message):
        LabelSet.declare("categories", values, count=2)


def test_label_sets_are_sorted_and_spelled_with_signs():
    assert LabelSet.declare("categories", [1, -1]).values == (-1.0, 1.0)
    assert str(LabelSet((-1.0, 1.0))) == "-1 or +1"
    assert str(LabelSet((0.0, 0.25, 7.0))) == "0 or 0.25 or 7"


def test_numbers_that_stand_for_no_limit_are_refused_before_memory_is_asked_for():
    """The softmax loss of so many classes took all memory of the machine."""
    with pytest.raises(ValueError, match=r"classes=1000000000000 is too many\. There may be 200"):
        sd.losses.softmax(10**12)
    with pytest.raises(ValueError, match=r"classes=.* is too large\. It may be 1,000,000,000,000,000"):
        sd.losses.softmax(10**400)
    with pytest.raises(ValueError, match=r"order=.* is too large\. It may be 100"):
        sd.debias(sd.losses.logistic(), sd.Release(), method="series", order=10**6)
    with pytest.raises(ValueError, match=r"mechanisms=3 must be a list"):
        sd.plan(sd.losses.logistic(), sd.planning.Population.guess([1.0]), epsilon=4.0, n=100, mechanisms=3)
    with pytest.raises(TypeError, match="prior has the type int"):
        sd.optimal_unbiased_randomizer(labels=[0, 1, 2], prior=10**400, epsilon=1.0)


@pytest.mark.parametrize("word", [pd.NA, np.array(["clip", "refuse"]), ["clip"], None, 3])
def test_what_is_no_word_is_no_choice(word):
    """What == says of pandas.NA and of arrays is no answer, and a list is no key."""
    population = sd.planning.Population.guess([1.0], size=100)
    release = sd.Release(sd.LaplaceMechanism(1.0, bounds=(0, 1)))
    for name, ask in {
        "outside": lambda: release.privatize([[0.5]], outside=word),
        "format": lambda: release.privatize([[0.5]]).save("never", format=word),
        "method": lambda: sd.debias(sd.losses.poisson(), release, method=word),
        "criterion": lambda: sd.plan(sd.losses.logistic(), population, epsilon=1.0, n=10, criterion=word),
        "adjacency": lambda: sd.Guarantee(1.0, 0.0, "central", word),
    }.items():
        with pytest.raises(ValueError, match=rf"(?s)^{name}=.* is not known\. Choose "):
            ask()


@pytest.mark.parametrize("records", [np.array([41.5, 63.25]), pd.DataFrame({"age": [41.5]}), [41.5], {"age": 41.5}])
def test_records_in_the_place_of_a_word_are_not_shown(records):
    with pytest.raises(
        ValueError, match=rf"^order={type(records).__name__} is not known\. Choose one of shuffled, given\.$"
    ):
        check_choice("order", records, ("shuffled", "given"))


def test_a_word_that_is_nearly_one_is_named():
    with pytest.raises(ValueError, match=r"^method='exakt' is not known\. Is exact meant\? Choose one of auto, exact"):
        sd.debias(sd.losses.exponential(), sd.Release(), method="exakt")
    with pytest.raises(ValueError, match=r"^adjacency='Replace_One' is not known\. Is replace-one meant\? Choose "):
        sd.Guarantee(1.0, 0.0, "central", "Replace_One")
