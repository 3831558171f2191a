"""Cards are text from anybody: read exactly, or refused with the reason."""

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import symdebias as sd
from symdebias.mechanisms import GaussianMechanism, RandomizedResponse
from symdebias.release import Release

UNIT = GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0)
COIN = RandomizedResponse(epsilon=1.0)
GROUPS = Release(
    {("age", "hours"): UNIT, "income": GaussianMechanism(epsilon=0.5, delta=1e-6, radius=3.0)},
    COIN,
    noiseless=("year",),
    fit_intercept=True,
)
CARD = json.loads(GROUPS.to_json())
SHARED = {"columns": ["age", "hours"], "kind": "gaussian", "radius": None}
CODED = {"kind": "randomized_response", "epsilon": 1.0}
GROUP = CARD["features"][0]


def changed(**entries):
    return json.dumps({**CARD, **entries})


BAD_CARDS = [
    ("", "not a release card"),
    ("null", "it is not a JSON object"),
    ("[]", "it is not a JSON object"),
    ("{}", "its format is None"),
    (changed(format="symdebias-release-2"), "its format is 'symdebias-release-2'"),
    (changed(format=1), "its format is 1"),
    (changed(note="hello"), "exactly the entries"),
    (json.dumps({key: value for key, value in CARD.items() if key != "target"}), "exactly the entries"),
    (GROUPS.to_json().replace("{", '{"format": "symdebias-release-1",', 1), "an entry stands twice"),
    (changed(features={}), "must be lists"),
    (changed(features=None), "must be lists"),
    (changed(features=[GROUP, GROUP]), "groups of columns repeat"),
    (changed(features=[GROUP, {**GROUP, "columns": ["age"]}]), "age is named more than once"),
    (changed(features=[GROUP, {**GROUP, "columns": None}]), "has no names"),
    (changed(features=[{**GROUP, "columns": "age"}]), "sequence of column names"),
    (changed(features=[{**GROUP, "columns": [[]]}]), "not a column name"),
    (changed(features=[{**GROUP, "kind": "os.system"}]), "kind of mechanism 'os.system' is not one of"),
    (changed(features=[{**GROUP, "kind": ["gaussian"]}]), "not a release card"),
    (changed(features=[{**GROUP, "kind": "randomized_response"}]), "not a release card"),
    (changed(features=[{**GROUP, "seed": 1}]), "has the entries epsilon, delta"),
    (changed(features=[{**GROUP, "epsilon": "1"}]), "epsilon has the type str"),
    (changed(features=[{**GROUP, "epsilon": True}]), "epsilon has the type bool"),
    (changed(features=[{**GROUP, "epsilon": 2.0}]), "noise and guarantee disagree"),
    (changed(features=[{**GROUP, "radius": -1.0}]), "radius=-1.0 is too small"),
    (changed(features=[{"columns": ["a"]}]), "kind"),
    (changed(features=[1]), "not a release card"),
    (changed(target="coin"), "not a release card"),
    (changed(target={"kind": "randomized_response", "epsilon": 1.0, "categories": [1]}), "two or more are needed"),
    (changed(noiseless="year"), "must be lists"),
    (changed(noiseless=[1]), "not a column name"),
    (changed(fit_intercept=1), "fit_intercept must be True or False"),
    (changed(center={"age": "1"}), "center"),
    (changed(center=3), "center must map"),
    (changed(center={"planet": 1.0}), "center names planet"),
    (changed(center={"age": math.nan}), "NaN is not a finite number"),
    (changed(center={"age": math.inf}), "Infinity is not a finite number"),
    (changed(center={"age": 0}).replace('"age": 0}', '"age": 1e999}'), "inf"),
    (changed(center={"age": 10**400}), "center"),
    (changed()[:-1], "not a release card"),
    (changed() + "x", "not a release card"),
    ("[" * 100_000, "not a release card"),
    ("9" * 10_000, "not a release card"),
    (" " * 10_000_001, "at most 10,000,000 characters"),
    (changed(features=[{"kind": "gaussian", "scale": 1.0}]), r"features\[0\] is no object"),
    (changed(features=[{**SHARED, "covariance": [[1, 2], [2, 1]]}]), "not positive semidefinite"),
    (changed(features=[{**SHARED, "covariance": [[1, 0.2], [0.3, 1]]}]), "not symmetric"),
    (changed(features=[{**SHARED, "covariance": [[True, 0], [0, 1]]}]), "True or False"),
    (changed(features=[{**SHARED, "covariance": [[1e308, 1e308], [1e308, 1e308]]}]), r"beyond 1e\+250"),
    (changed(features=["gaussian"]), r"features\[0\] is no object with the entry columns"),
    (changed(features=[{**GROUP, "columns": [f"c{index}"]} for index in range(4_001)]), "4,001 groups"),
    (changed(noiseless=[f"c{index}" for index in range(100_001)]), "columns or more, and may have 100,000"),
    (changed(target={**CODED, "categories": list(range(10_001))}), "may be 10,000"),
    (changed(target={**CODED, "categories": list(range(300_000))}), "may be 10,000"),
    (changed(target={"kind": "finite_channel", "matrix": [[1.0]], "inputs": list(range(1_001)), "outputs": [0, 1]}),
     "may have 1,000"),
]  # fmt: skip


# Of control, of direction, of no width, a lone surrogate, line separators.
UNSEEN = [
    "\x00", "\t", "\n", "\x1b[31m", "\x7f", "\x85", "\xad", "\u061c", "\u200b", "\u200e", "\u2028", "\u202e", "\u2066",
    "\ufeff", "\ud800", "\U000e0001",
]  # fmt: skip


@pytest.mark.parametrize("character", UNSEEN, ids=ascii)
def test_names_that_are_not_seen_as_they_are_are_refused(character):
    name, code = f"a{character}b", f"U\\+{ord(character[0]):04X}"
    for text in (
        changed(features=[{**GROUP, "columns": [name]}]),
        changed(noiseless=[name]),
        changed(center={name: 1.0}),
        changed(target={**CODED, "categories": ["n", name]}),
    ):
        with pytest.raises(sd.FormatError, match=code) as refusal:
            Release.from_json(text)
        assert str(refusal.value).isprintable()
    with pytest.raises(ValueError, match=code):
        Release(features={name: sd.LaplaceMechanism.from_scale(1.0)})


@pytest.mark.parametrize("name", ['ä "quoted"', "年", "e\u0301", "🙂", "x" * 1_000])
def test_names_of_every_alphabet_are_read(name):
    release = Release(features={name: sd.LaplaceMechanism.from_scale(1.0)})
    assert Release.from_json(release.to_json()) == release


@pytest.mark.parametrize("name", ["", "  ", "x" * 1_001])
def test_names_are_neither_blank_nor_endless(name):
    with pytest.raises(sd.FormatError, match="name"):
        Release.from_json(changed(noiseless=[name]))


def test_a_feature_of_thousands_of_categories_is_read_at_once():
    release = Release(features={"place": sd.RandomizedResponse(1.0, categories=[f"c{code}" for code in range(4_000)])})
    text = release.to_json()
    began = time.process_time()
    assert Release.from_json(text) == release
    assert time.process_time() - began < 1


@pytest.mark.parametrize(("text", "message"), BAD_CARDS, ids=lambda value: str(value)[:60])
def test_cards_that_are_refused(text, message):
    with pytest.raises(sd.FormatError, match=message) as refusal:
        Release.from_json(text)
    assert isinstance(refusal.value, ValueError)
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("text", [None, b"{}", {}, 1])
def test_a_card_is_text(text):
    with pytest.raises(TypeError, match="a release card is text"):
        Release.from_json(text)


@pytest.mark.in_turn
@given(st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*CARD, *GROUP]), inner, max_size=4),
    max_leaves=8,
), st.sampled_from(list(CARD)), st.sampled_from([None, *GROUP]))  # fmt: skip
def test_a_card_from_a_stranger_is_read_or_refused_and_nothing_else(value, key, inner):
    card = {**CARD, key: value} if inner is None else {**CARD, "features": [{**GROUP, inner: value}]}
    try:
        release = Release.from_json(json.dumps(card))
    except ValueError:
        return
    assert Release.from_json(release.to_json()) == release


def test_a_card_says_nothing_about_the_data():
    X = np.array([[0.31415, 0.27182], [0.57721, 0.14142]])
    noised = Release(UNIT, COIN).privatize(X, [1, -1])
    other = Release(UNIT, COIN).privatize(-X[:1], [1])
    assert noised.release.to_json() == other.release.to_json()


def test_a_card_reads_byte_for_byte():
    release = Release({"age": UNIT}, COIN, scale={"age": 20})
    assert json.loads(release.to_json()) == {
        "format": "symdebias-release-1",
        "features": [
            {
                "columns": ["age"], "kind": "gaussian", "epsilon": 1.0, "delta": 1e-5, "calibration": "analytic",
                "scale": UNIT.scale, "radius": 1.0,
            },
        ],
        "target": {"kind": "randomized_response", "epsilon": 1.0, "categories": [-1.0, 1.0]},
        "noiseless": [],
        "fit_intercept": False,
        "center": {},
        "scale": {"age": 20.0},
    }  # fmt: skip
    assert list(json.loads(release.to_json())["features"][0]) == [
        "columns", "kind", "epsilon", "delta", "calibration", "scale", "radius",
    ]  # fmt: skip


def test_the_name_of_a_card_is_told_from_a_card():
    with pytest.raises(sd.FormatError, match=r"the name of a file, and no release card\. Pass the text in it"):
        Release.from_json("released/card.json")
