"""Schemas: the release that they make is one as written by hand, within its budget, and every mistake is named."""

import bz2
import gzip
import inspect
import io
import lzma
import math
import unicodedata
import zipfile
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import symdebias as sd
from symdebias import _loss_names, losses
from symdebias._columns import Table
from symdebias.derivation import is_margin_loss
from symdebias.exceptions import PrivacyError
from symdebias.losses.meaning import is_residual_loss, meaning_of
from symdebias.release import Schema, collecting
from symdebias.release.allocation import arguments_of, centre_and_scale, has_better_design, require_within

AGE, HOURS = {"bounds": [17, 90]}, {"bounds": [1, 99], "fill": 40}
PLACE, SEX = {"categories": ["n", "e", "s"], "fill": "n"}, {"categories": ["f", "m"], "other": "f"}
COLUMNS = {"age": AGE, "hours": HOURS, "place": PLACE, "sex": SEX}
INCOME = {"name": "income", "categories": ["low", "high"]}
WEEKS = {"name": "weeks", "bounds": [-2, 52]}


def declared(**change):
    entries = {"epsilon": 4.0, "columns": COLUMNS, "target": INCOME, "missing": ["?"]} | change
    return {name: entry for name, entry in entries.items() if entry is not None}


# ---- the release -----------------------------------------------------------------------------------------

CENTER, SCALE = {"age": 53.5, "hours": 50.0}, {"age": 36.5, "hours": 49.0}
CATEGORIES = {"place": ("n", "e", "s"), "sex": ("f", "m")}
# Two numbers in [-1, 1], three categories at 1 - 1/2, two at 1/4.
RADIUS = math.sqrt(2 + 0.5 + 0.25)
PART = 4.0 / 5


@pytest.mark.parametrize(("change", "release"), [
    ({}, sd.Release(
        {("age", "hours"): sd.SphericalLaplaceMechanism(2 * PART, radius=math.sqrt(2)),
         "place": sd.RandomizedResponse(PART, ("n", "e", "s")), "sex": sd.RandomizedResponse(PART, ("f", "m"))},
        sd.RandomizedResponse(PART), fit_intercept=True, center=CENTER, scale=SCALE)),
    ({"delta": 1e-6, "intercept": False}, sd.Release(
        {("age", "hours"): sd.GaussianMechanism(2 * PART, 1e-6, radius=math.sqrt(2)),
         "place": sd.RandomizedResponse(PART, ("n", "e", "s")), "sex": sd.RandomizedResponse(PART, ("f", "m"))},
        sd.RandomizedResponse(PART), center=CENTER, scale=SCALE)),
    ({"loss": "logistic"}, sd.Release(
        {("age", "hours", "place", "sex"): sd.SphericalCapMechanism(4.0, radius=RADIUS)}, "margin", fit_intercept=True,
        center={**CENTER, "place": 0.5, "sex": 0.5}, scale=SCALE, categories=CATEGORIES,
        target_scale=float(f"{math.sqrt(RADIUS / math.sqrt(5)):.3g}"))),
    ({"loss": "logistic", "norm": 0.5}, sd.Release(
        {("age", "hours", "place", "sex"): sd.SphericalCapMechanism(4.0, radius=1.0)}, "margin", fit_intercept=True,
        center={**CENTER, "place": 0.5, "sex": 0.5}, scale=SCALE, categories=CATEGORIES,
        target_scale=float(f"{5**-0.25:.3g}"))),
    ({"norm": 9.0, "columns": {"age": AGE, "hours": HOURS}, "target": None}, sd.Release(
        {("age", "hours"): sd.SphericalLaplaceMechanism(4.0, radius=math.sqrt(2))}, fit_intercept=True,
        center=CENTER, scale=SCALE)),
    ({"norm": 0.5, "columns": {"age": AGE}, "target": None}, sd.Release(
        {("age",): sd.LaplaceMechanism(4.0, bounds=(-0.5, 0.5))}, fit_intercept=True, center={"age": 53.5},
        scale={"age": 36.5})),
    ({"loss": "squared-hinge", "delta": 1e-6}, sd.Release(
        {("age", "hours", "place", "sex"): sd.GaussianMechanism(4.0, 1e-6, radius=RADIUS)}, "margin",
        fit_intercept=True, center={**CENTER, "place": 0.5, "sex": 0.5}, scale=SCALE, categories=CATEGORIES,
        target_scale=float(f"{math.sqrt(RADIUS / math.sqrt(5)):.3g}"))),
    ({"loss": "logistic", "intercept": False, "columns": {"age": AGE, "hours": HOURS}}, sd.Release(
        {("age", "hours"): sd.SphericalCapMechanism(4.0, radius=math.sqrt(2))}, "margin", center=CENTER, scale=SCALE)),
    ({"loss": "huber", "target": WEEKS, "columns": {"age": AGE, "hours": HOURS}}, sd.Release(
        {("age", "hours"): sd.SphericalLaplaceMechanism(4.0, radius=math.sqrt(2))}, "joint", fit_intercept=True,
        center=CENTER, scale=SCALE, target_bounds=(-2, 52), target_scale=float(f"{52**-0.5:.3g}"))),
    ({"target": WEEKS, "columns": {"age": AGE, "year": {"public": True}}, "delta": None}, sd.Release(
        {("age",): sd.LaplaceMechanism(2.0, bounds=(-1, 1))}, sd.LaplaceMechanism(2.0, bounds=(-2, 52)),
        noiseless=("year",), fit_intercept=True, center={"age": 53.5}, scale={"age": 36.5})),
    ({"target": None, "columns": {"place": PLACE, "sex": SEX | {"public": True}}}, sd.Release(
        {"place": sd.RandomizedResponse(4.0, ("n", "e", "s"))}, noiseless=("sex",), fit_intercept=True,
        categories={"sex": ("f", "m")})),
    ({"target": {"name": "kind", "categories": ["a", "b", "c"]}, "columns": {"age": AGE}}, sd.Release(
        {("age",): sd.LaplaceMechanism(2.0, bounds=(-1, 1))}, sd.RandomizedResponse(2.0, ("a", "b", "c")),
        fit_intercept=True, center={"age": 53.5}, scale={"age": 36.5})),
])  # fmt: skip
def test_the_release_is_one_as_written_by_hand(change, release):
    made = sd.Release.from_schema(declared(**change))
    assert sd.Release.from_json(made.to_json()) == made
    # Budgets are rounded down and radii up: by the last bit, which a card shows.
    assert made.columns == release.columns
    assert made.guarantee.unprotected == release.guarantee.unprotected
    assert made.guarantee.epsilon == pytest.approx(release.guarantee.epsilon, rel=1e-12)
    assert (made.coupling is None) == (release.coupling is None)
    assert (made.center, made.scale, made.noiseless) == (release.center, release.scale, release.noiseless)
    assert (made.categories, made.fit_intercept) == (release.categories, release.fit_intercept)
    for (names, one), (others, other) in zip(made.groups, release.groups, strict=True):
        assert names == others
        assert type(one) is type(other)
        assert one.guarantee.epsilon == pytest.approx(other.guarantee.epsilon, rel=1e-12)
        assert one.bound == pytest.approx(other.bound, rel=1e-12)
    if made.coupling is None:
        assert type(made.target) is type(release.target)
    else:
        assert made.coupling == release.coupling


def test_a_file_and_a_dict_make_one_release(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(
        'epsilon = 4.0\nloss = "logistic"\nmissing = ["?"]\n'
        '[columns]\nage = { bounds = [17, 90] }\nsex = { categories = ["f", "m"] }\n'
        '[target]\nname = "income"\ncategories = ["low", "high"]\n'
    )
    by_hand = declared(loss="logistic", columns={"age": AGE, "sex": {"categories": ["f", "m"]}})
    assert sd.Release.from_schema(path) == sd.Release.from_schema(str(path)) == sd.Release.from_schema(by_hand)
    assert Schema(path) == Schema(by_hand)


@given(
    epsilon=st.floats(1e-3, 20.0),
    delta=st.sampled_from([0.0, 1e-9, 1e-5]),
    numbers=st.integers(1, 4),
    categories=st.lists(st.integers(2, 6), max_size=3),
    target=st.sampled_from([INCOME, WEEKS, None]),
)
def test_what_is_spent_is_at_most_the_budget(epsilon, delta, numbers, categories, target):
    """Against an exact sum of the parts' own epsilons, which composition never exceeds; nothing is lost."""
    columns = {f"x{j}": {"bounds": [-j - 1, 2 * j + 0.3]} for j in range(numbers)}
    columns |= {f"c{j}": {"categories": [f"v{i}" for i in range(k)]} for j, k in enumerate(categories)}
    entries = {"epsilon": epsilon, "delta": delta, "columns": columns} | ({} if target is None else {"target": target})
    release = sd.Release.from_schema(entries)
    parts = [one for _, one in release.groups] + ([release.target] if target else [])
    spent = sum((Fraction(one.guarantee.epsilon) for one in parts), Fraction(0))
    assert spent <= Fraction(epsilon)
    assert float(spent) == pytest.approx(epsilon, rel=1e-14)
    assert sum(one.guarantee.delta for one in parts) == delta
    assert release.guarantee.epsilon <= epsilon


def test_a_release_beyond_the_budget_would_be_refused():
    made = Schema(declared(epsilon=1.0))
    for spent in (None, sd.Guarantee(math.nextafter(1.0, 2.0), 0.0), sd.Guarantee(1.0, 1e-300)):
        with pytest.raises(PrivacyError, match="the budget is epsilon 1"):
            require_within(spent, made)
    require_within(sd.Guarantee(1.0, 0.0), made)


@given(low=st.floats(-1e9, 1e9), width=st.floats(1e-6, 1e9), shares=st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_numbers_within_their_bounds_are_released_within_one(low, width, shares):
    high = low + width
    if not low < high:
        return
    centre, scale = centre_and_scale(low, high)
    inside = np.clip([low, high, *(low + share * width for share in shares)], low, high)
    released = (inside - centre) / scale
    assert np.abs(released).max() <= 1
    assert np.abs(released).max() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_no_record_within_the_bounds_is_shortened(intercept):
    """The longest records of all, by trying every corner, are as long as the radius and count as inside."""
    entries = declared(loss="logistic", intercept=intercept, columns={**COLUMNS, "kind": {"categories": [*"abcd"]}})
    release = sd.Release.from_schema(entries)
    corners = [
        (age, hours, place, sex, kind)
        for age in (17, 90) for hours in (1, 99) for place in "nes" for sex in "fm" for kind in "abcd"
    ]  # fmt: skip
    table = pd.DataFrame(corners, columns=["age", "hours", "place", "sex", "kind"])
    release.privatize(table, np.ones(len(table)), outside="refuse", random_state=0)
    matrix = release.categories.expanded(
        np.column_stack([table.age, table.hours, *(table[c].map({v: float(i) for i, v in enumerate(values)})
                         for c, values in (("place", "nes"), ("sex", "fm"), ("kind", "abcd")))]), release.columns
    )  # fmt: skip
    centre = np.array([dict(release.center).get(name, 0.0) for name in release.columns])
    scale = np.array([dict(release.scale).get(name, 1.0) for name in release.columns])
    longest = np.linalg.norm((matrix - centre) / scale, axis=1).max()
    ((_, mechanism),) = release.groups
    assert longest == pytest.approx(mechanism.radius, rel=1e-12)


def test_the_table_of_losses_is_what_their_expressions_say():
    """By name, what is asked for, what of a record is read, and the target: at negative numbers, as a count is none."""
    assert list(_loss_names.CATALOGUE) == list(losses.__all__)
    for name, entry in _loss_names.CATALOGUE.items():
        needed = [
            one.name
            for one in inspect.signature(getattr(losses, name)).parameters.values()
            if one.default is inspect.Parameter.empty
        ]
        assert needed == ([entry.needs] if entry.needs else [])
        loss = getattr(losses, name)(*{"level": [0.9], "classes": [3]}.get(entry.needs, []))
        assert len(loss.target_values or ()) == {"label": 2, "labels": 3}.get(entry.target, 0)
        assert is_residual_loss(loss) == (entry.reads == "residual"), name
        assert (name in _loss_names.MARGIN) == (is_margin_loss(loss) and not entry.needs), name
        if entry.target in ("number", "count"):
            number = meaning_of(loss).number
            assert (number != loss.scores[0]) == (entry.target == "count"), name


# ---- mistakes --------------------------------------------------------------------------------------------


def column(**entries):
    return {"columns": {"age": entries}}


@pytest.mark.parametrize(("change", "message"), [
    ({"epsilon": None}, "no entry epsilon. Give the budget"),
    ({"epsilon": 0}, "epsilon=0 "),
    ({"epsilon": -1.0}, "epsilon=-1.0 "),
    ({"epsilon": "4"}, "epsilon has the type str"),
    ({"epsilon": 701}, "epsilon=701 is too large"),
    ({"delta": -1e-5}, "delta=-1e-05"),
    ({"delta": 1.0}, "delta=1.0"),
    ({"delta": False}, "delta has the type bool"),
    ({"delta": 1e-5, "columns": {"sex": SEX}}, "delta=1e-05 is of no use"),
    ({"epslion": 1.0}, "unknown entry 'epslion'. Its entries are epsilon, delta"),
    ({"columns": None}, "no entry columns"),
    ({"columns": {}}, "names no columns"),
    ({"columns": ["age"]}, "names no columns"),
    ({"columns": {"age": [1, 2]}}, "columns.age=.* is no table"),
    ({"columns": {3: AGE}}, "3"),
    (column(bound=[1, 2]), "columns.age has the unknown entry 'bound'. Its entries are bounds"),
    (column(), "columns.age has neither bounds nor categories.*not computed from the data"),
    (column(bounds=[1, 2], categories=["a", "b"]), "columns.age has bounds and categories"),
    (column(bounds=[90, 17]), r"columns.age.bounds=\(90.0, 17.0\) are not in order"),
    (column(bounds=[1, 1]), "not in order"),
    (column(bounds=[1]), "columns.age.bounds=.* is no pair"),
    (column(bounds=[1, math.inf]), "columns.age.bounds"),
    (column(categories=["a"]), "columns.age.categories has 1 category, and a column needs two"),
    (column(categories=[]), "columns.age.categories has 0 categories"),
    (column(categories=["a", "a"]), "columns.age.categories=.*different"),
    (column(categories=["a", 1]), "columns.age.categories"),
    (column(bounds=[1, 2], public=1), "columns.age.public=1 must be true or false"),
    (column(bounds=[1, 2], fill=3), r"columns.age.fill=3 is not allowed. Give a number within \(1.0, 2.0\)"),
    (column(bounds=[1, 2], fill="a"), "columns.age.fill='a'"),
    (column(bounds=[1, 2], other="a"), "columns.age.other belongs to a column of categories"),
    (column(categories=["a", "b"], fill="c"), "columns.age.fill='c' is none of its categories"),
    (column(categories=["a", "b"], fill=pd.NA), "columns.age.fill=.* is none of its categories"),
    (column(categories=["a", "b"], other=pd.Series(["a", "b"])), "(?s)columns.age.other=.* is none of its categories"),
    (column(categories=["a", "b"], other="c"), "columns.age.other='c'"),
    ({"target": "income"}, "target='income' is no table"),
    ({"target": {"categories": ["a", "b"]}}, "target.name=None names no column"),
    ({"target": {"name": "income"}}, "target has neither bounds nor categories"),
    ({"target": INCOME | {"fill": "low"}}, "target has the unknown entry 'fill'"),
    ({"target": INCOME | {"name": "age"}}, "target.name='age' is also one of the columns"),
    ({"target": {"name": "t", "categories": ["a", "b", "c"], "public": True}}, "target.public is for numbers and two"),
    ({"columns": {"age": {"public": True}}, "target": INCOME | {"public": True}}, "every column is public"),
    ({"intercept": 1}, "intercept=1 must be true or false"),
    ({"loss": "cubic"}, "loss='cubic' is not in the catalogue. Choose one of cauchy"),
    ({"loss": "logit"}, "loss='logit' is not in the catalogue, where it is called logistic. Choose one of cauchy"),
    ({"design": "marginal"}, r"design='marginal' is not known. Is margin meant\? Choose one of apart"),
    ({"design": "margin", "target": WEEKS}, 'design="margin" needs a target of two categories'),
    ({"design": "joint"}, 'design="joint" needs a target with bounds'),
    ({"design": "margin", "loss": "softmax"}, "loss='softmax' cannot be fitted on"),
    ({"loss": "poisson"}, "loss='poisson' is one of counts or amounts"),
    ({"loss": "logistic", "target": WEEKS}, "loss='logistic' is one of labels, and the target 'weeks' has bounds"),
    ({"design": "margin", "columns": {"age": AGE | {"public": True}, "sex": SEX}}, "age is public"),
    ({"norm": 0}, "norm=0 is too small"),
    ({"missing": "?"}, r"missing='\?' is no list of words"),
])  # fmt: skip
def test_mistakes_in_a_schema_are_named(change, message):
    with pytest.raises((ValueError, TypeError), match=message) as raised:
        sd.Release.from_schema(declared(**change))
    assert ". " in str(raised.value)


def test_files_that_are_none_are_said(tmp_path):
    path = tmp_path / "schema.toml"
    with pytest.raises(FileNotFoundError, match=r"schema.toml is not there\. Name a TOML file"):
        Schema(path)
    for text, message in (("epsilon = ", "is not a TOML file: Invalid value"), ("[a]\n[a]", "is not a TOML file")):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            Schema(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="it is not UTF-8"):
        Schema(path)
    with pytest.raises(TypeError, match="got list"):
        Schema([1])


# ---- records ---------------------------------------------------------------------------------------------

TABLE = {
    "age": [39, 50, 38, 17],
    "hours": ["40", " ?", None, "13.5"],
    "place": ["n", "?", "s", float("nan")],
    "sex": ["m", "f", "unknown", "m"],
    "income": ["low", "high", "high", "low"],
    "name": ["Ann", "Bob", "Cid", "Dee"],
}


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, Table])
def test_records_are_recoded_as_the_schema_says(kind):
    X, y = Schema(declared()).collect(kind(TABLE))
    assert X.columns == ("age", "hours", "place", "sex")
    assert X["age"].tolist() == [39, 50, 38, 17]
    assert X["hours"].tolist() == [40, 40, 40, 13.5]
    assert X["place"].tolist() == ["n", "n", "s", "n"]
    assert X["sex"].tolist() == ["m", "f", "f", "m"]
    assert y.tolist() == [-1, 1, 1, -1]


def test_a_file_gives_what_a_table_gives(tmp_path):
    path = tmp_path / "people.csv"
    rows = [
        "age, hours ,place,sex,income,name",
        "39,40,n,m,low,A",
        '50, ?,?,f,high,"B, ""the"" b"',
        "",
        "38,,s,x,high,C",
    ]
    rows.append("17,13.5,,m,low,D")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8-sig")
    X, y = Schema(declared()).collect(path)
    again, same = Schema(declared()).collect(TABLE)
    assert all((X[name] == again[name]).all() for name in X.columns)
    assert (y == same).all()
    release = sd.Release.from_schema(declared())
    assert release.privatize(X, y, random_state=0).X.shape == (4, 4)


SECRET = "plague"


@pytest.mark.parametrize(("change", "message"), [
    ({"age": [39, "?", 38, 17]}, "age is missing in row 1"),
    ({"age": [39, None, 38, 17]}, "age is missing in row 1"),
    ({"age": [39, 50, 38, float("nan")]}, "age is missing in row 3"),
    ({"age": [39, 50, 38, pd.NA]}, "age is missing in row 3"),
    ({"age": [39, "", 38, 17]}, "age is missing in row 1.*fill"),
    ({"age": [39, 50, SECRET, 17]}, "age is no finite number in row 2"),
    ({"age": [39, 50, "1_0", 17]}, "age is no finite number in row 2"),
    ({"age": [39, 50, "inf", 17]}, "age is no finite number in row 2"),
    ({"place": ["n", SECRET, "s", "e"]}, "place has a value in row 1 that was not declared. Its categories are n, e"),
    ({"income": ["low", "?", "high", "low"]}, "income is missing in row 1"),
    ({"income": ["low", SECRET, "high", "low"]}, "income has a value in row 1 that was not declared"),
    ({"age": [39]}, "1 to 4 records"),
    ({"age": None}, "no column named age"),
])  # fmt: skip
def test_records_that_do_not_fit_are_refused_without_a_value(change, message):
    table = {name: values for name, values in {**TABLE, **change}.items() if values is not None}
    with pytest.raises(ValueError, match=message) as raised:
        Schema(declared()).collect(table)
    assert SECRET not in str(raised.value)
    assert raised.value.__context__ is None


def test_equal_values_of_other_types_mean_what_they_are():
    """True is 1 to a dictionary, and so is 1.0."""
    columns = {"smokes": {"categories": ["False", "True", "1"]}, "age": AGE}
    schema = Schema({"epsilon": 1.0, "columns": columns})
    X, _ = schema.collect({"smokes": [1, True, "1", "True", np.True_], "age": [39, "39", 39.0, " 39", np.int8(39)]})
    assert X["smokes"].tolist() == ["1", "True", "1", "True", "True"]
    assert X["age"].tolist() == [39.0] * 5
    with pytest.raises(ValueError, match=r"age is no finite number in row 1.*true or false"):
        schema.collect({"smokes": ["1", "1"], "age": [1, True]})


@pytest.mark.parametrize("values", [
    [-0.0, 0.0, 1.0], [0.0, -0.0, 1.0], np.array([-0.0, 0.0, 1.0]), [Decimal("1"), Decimal("1.0"), "1.0"],
    [1, 1.0, True], ["0.0", 0.0, -0.0],
], ids=str)  # fmt: skip
def test_what_a_value_means_does_not_depend_on_the_others(values):
    schema = Schema({"epsilon": 1.0, "columns": {"c": {"categories": ["0.0", "1.0", "else"], "other": "else"}}})
    alone = [schema.collect({"c": values[place : place + 1]})[0]["c"][0] for place in range(len(values))]
    assert schema.collect({"c": values})[0]["c"].tolist() == alone
    assert schema.collect({"c": values[::-1]})[0]["c"].tolist() == alone[::-1]


@pytest.mark.parametrize("values", [["f", "x", SECRET], ["f", ["m"], SECRET], ["f", {}, SECRET]])
def test_the_first_record_that_does_not_fit_is_named(values):
    with pytest.raises(ValueError, match="sex has a value in row 1 that was not declared") as raised:
        Schema(SMALL).collect({"sex": values, "age": [39, 40, 41]})
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(("values", "message"), [
    ([2001, 2002, SECRET, 2004], "year is no finite number in row 2, and is declared without categories"),
    ([SECRET, 2002, 2003, 2004], "year is no finite number in row 0"),
    (pd.to_datetime(["2001-01-01"] * 4), "It is a date: convert the column to a number"),
    ([True, False, True, True], "It is true or false"),
])  # fmt: skip
def test_public_columns_of_text_or_dates_are_refused_in_words(values, message):
    schema = Schema(declared(columns={"age": AGE, "year": {"public": True}}))
    with pytest.raises(ValueError, match=message) as raised:
        schema.collect({**TABLE, "year": values})
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(("text", "message"), [
    ("", "people.csv is empty"),
    ("age,sex\n", "no record"),
    (f"39,{SECRET}\n50,m\n", "no column named age, sex; it has 2 columns. The first line"),
    (f"age;sex\n39;{SECRET}\n", "not divided by commas"),
    (f"age,sex\n39,m,{SECRET}\n", "line 2 of people.csv has 3 values, and the first line names 2"),
    ("age,age,sex\n1,2,m\n", "two columns named age"),
    ("age,sex\n39,m\nNA,f\n", "age is no finite number in row 1 .*It is a word for a missing value: declare it, as mi"),
    (f"age,sex\n39,m\n{SECRET},f\n", r"age is no finite number in row 1 \(line 3 of people.csv\)"),
])  # fmt: skip
def test_files_that_do_not_fit_are_refused_without_a_value(text, message, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(text)
    small = {"epsilon": 1.0, "columns": {"age": AGE, "sex": {"categories": ["f", "m"]}}}
    with pytest.raises(ValueError, match=message) as raised:
        Schema(small).collect(path)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(("last", "message"), [
    ("m,x", r"age is no finite number in row 25000 \(line 25003 of people.csv\)"),
    ("m,1,2", "line 25003 of people.csv has 3 values"),
    ('"m\n",1\nm,x', r"age is no finite number in row 25001 \(line 25005"),
    (f'm,"{"1" * 100_001}"', "lines 25003 to 25003 of people.csv have a value of more than 100,000 characters"),
])  # fmt: skip
def test_lines_of_long_files_are_counted(last, message, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("sex,age\n\n" + "f,39\n" * 25_000 + last + "\n")
    with pytest.raises(ValueError, match=message):
        Schema(SMALL).collect(path)


def test_other_things_than_tables_are_refused(tmp_path):
    with pytest.raises(TypeError, match="got list"):
        Schema(declared()).collect([1])
    with pytest.raises(FileNotFoundError, match="is not there"):
        Schema(declared()).collect(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes("age,sex\n39,größe\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not text in UTF-8"):
        Schema(declared()).collect(tmp_path / "latin.csv")


SMALL = {"epsilon": 1.0, "columns": {"age": AGE, "sex": {"categories": ["f", "m"]}}}
AGES_AND_SEXES = "age,sex\n39,f\n50,m\n"


def zipped(**files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


@pytest.mark.parametrize("pack", [
    gzip.compress, bz2.compress, lzma.compress, lambda text: zipped(people=text),
    lambda text: text.decode().encode("utf-16"), lambda text: gzip.compress(text.decode().encode("utf-8-sig")),
], ids=["gzip", "bzip2", "xz", "zip", "UTF-16", "gzip with a mark"])  # fmt: skip
def test_files_are_unpacked_by_what_they_begin_with(pack, tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(pack(AGES_AND_SEXES.encode()))
    X, _ = Schema(SMALL).collect(path)
    assert [X[name].tolist() for name in ("age", "sex")] == [[39, 50], ["f", "m"]]


@pytest.mark.parametrize(("content", "message"), [
    (gzip.compress(b"age,sex\n39,f\n")[:-9], "is compressed, and could not be unpacked: it is cut short"),
    (zipped(one="age,sex\n39,f", two=""), "zip archive of 2 files. Unpack it, and name the one"),
    (zipped(**{"[Content_Types].xml": "", "sheet.xml": ""}), "is a workbook of Excel. Save its sheet as CSV"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1", "is a workbook of Excel. Save"),
    (b"\x28\xb5\x2f\xfd\xff", "is compressed by zstd. Unpack"),
    (AGES_AND_SEXES.encode("utf-16-le"), "It is text in UTF-16 that does not say so"),
    (AGES_AND_SEXES.encode("utf-16")[:-1], "it is text in UTF-16, and ends within a character"),
    (AGES_AND_SEXES.replace(",", "\t").encode(), r'not divided by commas but by tabs: .*sep="\\t", decimal=","'),
])  # fmt: skip
def test_files_of_other_kinds_are_named(content, message, tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Schema(SMALL).collect(path)


def test_files_of_parquet_are_read_as_tables(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "people.csv"
    sexes = arrow.array(["f", "m", None]).dictionary_encode()
    parquet.write_table(arrow.table({"sex": sexes, "age": [39, 50, None], "name": list("abc")}), path, row_group_size=2)
    filled = {"age": {**AGE, "fill": 40}, "sex": {"categories": ["f", "m"], "fill": "f"}}
    X, _ = Schema({**SMALL, "columns": filled}).collect(path)
    assert [X[name].tolist() for name in ("age", "sex")] == [[39, 50, 40], ["f", "m", "f"]]
    with pytest.raises(ValueError, match="no column named place"):
        Schema({**SMALL, "columns": {"age": AGE, "place": {"categories": ["n", "e"]}}}).collect(path)


# ---- all records outside ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "column"), [
    (sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 1)), "sex": sd.RandomizedResponse(1.0)}), "age"),
    (sd.Release({("age", "sex"): sd.GaussianMechanism(1.0, 1e-5, radius=1.0)}), "age, sex"),
    (sd.Release({("age", "sex"): sd.SphericalCapMechanism(1.0, radius=1.0)}, "margin"), "age, sex"),
    (sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90)), "sex": sd.RandomizedResponse(1.0)},
                sd.LaplaceMechanism(1.0, bounds=(5, 6))), "the target"),
])  # fmt: skip
def test_clipping_of_all_records_is_refused_before_the_budget_is_spent(release, column, tmp_path):
    ledger = sd.Ledger(tmp_path / "spent.jsonl", "panel", total=sd.Guarantee(10.0, 1e-4))
    table = pd.DataFrame({"age": np.linspace(20, 60, 40), "sex": np.tile([-1.0, 1.0], 20)})
    y = np.ones(40)
    message = f"all 40 records lie outside the declared bounds of {column}, .*public center and scale"
    with pytest.raises(ValueError, match=message):
        release.privatize(table, y, ledger=ledger)
    assert ledger.entries == ()
    # One that is inside, or few records as on the device of a person, are no mistake in the units.
    with pytest.warns(sd.ClippingWarning, match="9 of 9"):
        release.privatize(table[:9], y[:9], random_state=0)
    with pytest.warns(sd.ClippingWarning, match="40 of 40"):
        release.privatize(table, y, outside="clip-all", random_state=0)


def test_the_arguments_of_a_release_come_from_the_schema_alone():
    assert set(arguments_of(Schema(declared()))) == {
        "features", "target", "noiseless", "fit_intercept", "center", "scale",
    }  # fmt: skip


KINDS = {
    "a number": {"age": AGE},
    "numbers": {"age": AGE, "size": {"bounds": [0, 3]}},
    "number and categories": {"age": AGE, "place": {"categories": ["n", "e", "s"]}},
    "categories": {"place": {"categories": ["n", "e", "s"]}},
    "one is public": {"age": AGE, "size": {"bounds": [0, 3], "public": True}},
}
TARGETS = {
    "bounds": {"name": "y", "bounds": [0, 10]},
    "two": {"name": "y", "categories": ["a", "b"]},
    "three": {"name": "y", "categories": ["a", "b", "c"]},
}


@pytest.mark.in_turn
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "columns",
    [pytest.param(one, marks=[] if one == "numbers" else pytest.mark.exhaustive) for one in KINDS],
)
def test_a_loss_that_is_named_can_be_fitted_to_the_release(columns, target):
    """Or the schema is refused: a budget that was spent on another release is gone."""
    accepted = set()
    for loss in sd.losses.__all__:
        for delta, intercept in ((0.0, True), (0.0, False), (1e-6, True)):
            entries = {
                "epsilon": 6.0, "delta": delta, "loss": loss, "intercept": intercept, "columns": KINDS[columns],
                "target": TARGETS[target],
            }  # fmt: skip
            try:
                release = sd.Release.from_schema(entries)
            except ValueError:
                continue
            made = (
                sd.losses.softmax(len(TARGETS[target]["categories"]))
                if loss == "softmax"
                else getattr(sd.losses, loss)()
            )
            labels = {"two": (-1, 1), "three": (0, 1, 2), "bounds": None}[target]
            if labels is not None:
                made = made.with_target_values(labels) if made.target_values is None else made.recoded(labels)
            assert sd.debias(made, release).method in {"exact", "surrogate"}, entries
            accepted.add(loss)
    wanted = {
        "bounds": {"least_squares", "huber", "poisson"},
        "two": {"logistic", "least_squares"},
        "three": {"softmax"},
    }
    assert wanted[target] <= accepted


def test_a_better_design_is_named_where_there_is_one():
    """What a schema makes of the same columns says whether naming a loss would change the release."""
    number, labels = {"name": "weeks", "bounds": [0, 52]}, {"name": "income", "categories": ["low", "high"]}
    for target in (number, labels, labels | {"categories": ["low", "middle", "high"]}, number | {"public": True}):
        for columns in ({"age": AGE}, {"age": AGE, "sex": SEX}, {"age": AGE, "year": AGE | {"public": True}}):
            entries = {"epsilon": 4.0, "columns": columns, "target": target}
            apart = sd.Release.from_schema(entries)
            for loss in _loss_names.BY_NAME:
                try:
                    designed = sd.Release.from_schema(entries | {"loss": loss}).coupling is not None
                except ValueError:
                    continue
                assert has_better_design(apart, loss) == designed
                assert not has_better_design(sd.Release.from_schema(entries | {"loss": loss}), loss)


def test_a_folder_without_parquet_is_no_table(tmp_path):
    schema = sd.Schema({"epsilon": 4.0, "columns": {"age": {"bounds": [18, 90]}}})
    with pytest.raises(FileNotFoundError, match=r"is a folder without files that end with \.parquet\. Name a file"):
        schema.collect(tmp_path)


BIG = 2**53


@pytest.mark.parametrize(
    "person",
    [
        [10**17, 2 * 10**17, 10**17 + 1],
        np.array([BIG, 1, BIG + 1]),
        np.array([BIG, 1, BIG + 1], dtype=np.uint64),
        ["9007199254740992", "7", "9007199254740993.0"],
        [Decimal(BIG), Decimal(1), Decimal(BIG + 1)],
    ],
)
def test_public_numbers_that_floats_do_not_tell_apart_are_refused(person, tmp_path):
    """Of 18 digits 3,000 persons would be 188."""
    schema = sd.Schema({"epsilon": 4.0, "columns": {"age": {"bounds": [0, 99]}, "person": {"public": True}}})
    path = tmp_path / "people.csv"
    path.write_text("age,person\n" + "".join(f"30,{one}\n" for one in person))
    for source in (path, {"age": [30.0, 40.0, 50.0], "person": person}):
        with pytest.raises(ValueError, match=r"person has two whole numbers beyond 2\^53 .*tell apart.* in row 2"):
            schema.collect(source)


@pytest.mark.parametrize("package", ["pyarrow", "polars", "pandas", "pandas of pyarrow"])
def test_missing_values_beside_large_public_numbers_hide_none_that_is_merged(package):
    """NumPy's array of whole numbers with a missing one is of floats."""
    schema = sd.Schema({"epsilon": 4.0, "columns": {"age": {"bounds": [0, 99]}, "person": {"public": True, "fill": 0}}})

    def table(person):
        if package == "pyarrow":
            arrow = pytest.importorskip("pyarrow")
            return arrow.table({"age": [30.0] * 4, "person": arrow.array(person, arrow.int64())})
        if package == "polars":
            return pytest.importorskip("polars").DataFrame({"age": [30.0] * 4, "person": person})
        dtype = "Int64" if package == "pandas" else "int64[pyarrow]"
        pandas = pytest.importorskip("pandas")
        if "pyarrow" in dtype:
            pytest.importorskip("pyarrow")
        return pandas.DataFrame({"age": [30.0] * 4, "person": pandas.array(person, dtype=dtype)})

    assert schema.collect(table([5, None, BIG, 7]))[0]["person"].tolist() == [5.0, 0.0, BIG, 7.0]
    with pytest.raises(ValueError, match=r"person has two whole numbers beyond 2\^53 .*tell apart.* in row 3"):
        schema.collect(table([BIG, None, 7, BIG + 1]))


@pytest.mark.parametrize("kind", [list, np.array, lambda person: list(map(str, person))])
def test_large_public_numbers_that_floats_tell_apart_are_rounded(kind):
    """Times in nanoseconds to the millisecond, and persons whose numbers end in zeros."""
    person = [1_700_000_000_123_000_000, 1_700_000_000_124_000_000, 10**17, 10**17]
    schema = sd.Schema({"epsilon": 4.0, "columns": {"age": {"bounds": [0, 99]}, "person": {"public": True}}})
    found, _ = schema.collect({"age": [30.0, 40.0, 50.0, 60.0], "person": kind(person)})
    assert found["person"].tolist() == list(map(float, person))


def test_a_budget_beyond_that_of_a_cap_is_told_in_the_words_of_a_schema():
    schema = {
        "epsilon": 40.0, "loss": "logistic", "columns": {"age": {"bounds": [0, 99]}},
        "target": {"name": "sick", "categories": ["no", "yes"]},
    }  # fmt: skip
    with pytest.raises(ValueError, match=r'epsilon=40 is more than the 30 of one vector.*or design = "apart"'):
        sd.Release.from_schema(schema)
    for other in ({"delta": 1e-6}, {"design": "apart"}, {"epsilon": 30.0}):
        assert sd.Release.from_schema(schema | other).guarantee.epsilon > 29


def test_undeclared_texts_are_composed_once_each(monkeypatch):
    """Not once for each declared category, of which there may be hundreds."""
    composed = []
    monkeypatch.setattr(collecting, "composed", lambda text: composed.append(text) or text)
    places = [f"place {number}" for number in range(50)]
    schema = sd.Schema({"epsilon": 1.0, "columns": {"place": {"categories": places, "other": places[0]}}})
    found, _ = schema.collect({"place": ["elsewhere", places[7], "nowhere", "elsewhere"]})
    assert found["place"].tolist() == [places[0], places[7], places[0], places[0]]
    assert composed == ["elsewhere", "nowhere"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_that_are_composed_otherwise_are_the_same_text(form):
    """They counted as another category."""
    declared, given = (["Zürich", "Genève", "rest"], ["Zürich", "Genève", "Bern"])
    names = [unicodedata.normalize(form, one) for one in declared]
    table = {"place": [unicodedata.normalize("NFD" if form == "NFC" else "NFC", one) for one in given]}
    schema = Schema({"epsilon": 1.0, "columns": {"place": {"categories": names, "other": "rest"}}})
    X, _ = schema.collect(table)
    assert list(X["place"]) == names
    strict = Schema({"epsilon": 1.0, "columns": {"place": {"categories": names}}})
    with pytest.raises(ValueError, match=r"row 2.* was not declared"):
        strict.collect(table)
    release = sd.Release({"place": sd.RandomizedResponse(1.0, tuple(names))})
    with pytest.raises(ValueError, match=r"row 0 .* write letters with accents as there"):
        release.privatize(pd.DataFrame(table))
