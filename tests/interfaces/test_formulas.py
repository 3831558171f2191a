"""Formulas over released tables: columns with noise stand by themselves, others as formulaic expands them."""

import dataclasses
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sources import in_order

import symdebias as sd
from symdebias.exceptions import MissingDependencyError

pytest.importorskip("formulaic")

RELEASE = sd.Release(
    {
        "age": sd.GaussianMechanism.from_scale(0.5),
        ("a", "b"): sd.GaussianMechanism.from_covariance([[0.3, 0.1], [0.1, 0.2]]),
        "sex": sd.RandomizedResponse(3.0, categories=("f", "m")),
    },
    noiseless=("year", "region", "my col", "time"),
    scale={"age": 10.0, "time": 2.0},
)


def table(n=90, seed=0):
    rng = np.random.default_rng(seed)
    columns = {name: rng.normal(size=n) for name in ("age", "a", "b", "my col", "time")}
    columns |= {"year": rng.uniform(1, 9, n), "region": np.resize(["n", "e", "s"], n), "sex": np.resize(["f", "m"], n)}
    found = pd.DataFrame(columns)
    return found.assign(pay=found.age + (found.region == "s") + 3.0 + rng.uniform(size=n))


def test_a_formula_is_the_release_of_its_columns():
    made = sd.Formula("log(pay) ~ age + sex + C(region) + poly(year, 2):region + `my col`", table(), RELEASE)
    by_region = [f"poly(year, 2)[{power}]:region[{place}]" for power in (1, 2) for place in "ens"]
    assert set(made.release.columns) == {"age", "sex", "C(region)[T.n]", "C(region)[T.s]", "my col", *by_region}
    assert made.release.fit_intercept
    assert made.release.groups == (RELEASE.groups[0], RELEASE.groups[2])
    assert dict(made.release.scale) == {"age": 10.0}
    np.testing.assert_array_equal(made.X["age"], table()["age"])
    np.testing.assert_allclose(made.y, np.log(table()["pay"]))
    np.testing.assert_array_equal(made.X["C(region)[T.s]"], table()["region"] == "s")


def test_without_an_intercept_all_categories_have_a_column():
    made = sd.Formula("pay ~ region + age - 1", table(), RELEASE)
    assert (made.release.columns, made.release.fit_intercept) == (
        ("age", "region[e]", "region[n]", "region[s]"),
        False,
    )


def test_a_fit_is_that_of_the_columns_by_hand():
    data = table()
    by_hand = sd.Release({"age": RELEASE.groups[0][1]}, noiseless=("north", "south", "log"), fit_intercept=True)
    X = np.column_stack([data.age, data.region == "n", data.region == "s", np.log(data["my col"] ** 2 + 1)])
    expected = sd.m_estimate(sd.debias(sd.losses.least_squares(), by_hand), X.astype(float), data.pay)
    found = sd.fit("pay ~ age + C(region) + log(I(`my col`**2) + 1)".replace("`my col`", "col"), data.rename(
        columns={"my col": "col"}), sd.Release({"age": RELEASE.groups[0][1]}, noiseless=("region", "col")))  # fmt: skip
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-9)
    assert found.names[:3] == ("age", "C(region)[T.n]", "C(region)[T.s]")
    assert "C(region)[T.s]" in found.summary()


@pytest.mark.in_turn
def test_losses_solvers_and_options_go_through():
    data = table().assign(events=lambda rows: np.arange(len(rows)) % 4, label=lambda rows: 2 * (rows.sex == "m") - 1.0)
    counts = sd.fit("events ~ age + C(region)", data, RELEASE, loss="poisson", offset=np.log(data.year), l2=0.1)
    assert counts.diagnostics["offset"]
    assert counts.corrected.declared == sd.losses.poisson()
    own = sd.fit("label ~ age", data, RELEASE, loss=sd.losses.squared_margin(), solver="sgd", random_state=0, l2=0.1)
    assert own.solver == "sgd"
    uncorrected = sd.fit("pay ~ age", data, RELEASE, method="none")
    assert uncorrected.corrected.method == "none"


@pytest.mark.in_turn
@pytest.mark.parametrize("other", [None, ("f", "m"), ("a", "b", "c", "d")])
def test_the_classes_of_softmax_are_those_of_the_outcome(other):
    target = None if other is None else sd.RandomizedResponse(3.0, categories=other)
    place = sd.RandomizedResponse(6.0, categories=("n", "e", "s"))
    release = sd.Release({"age": sd.LaplaceMechanism.from_scale(0.1), "region": place}, target)
    data = table(900)
    found = sd.fit("region ~ age", data, release, loss="softmax", l2=0.1)
    by_hand = sd.Release({"age": release.groups[0][1]}, place, fit_intercept=True)
    corrected = sd.debias(sd.losses.softmax(3), by_hand)
    expected = sd.m_estimate(corrected, data[["age"]], data.region, l2=0.1)
    assert found.theta.shape == (3, 2)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)


def test_predictions_are_for_the_columns_of_new_records():
    data = table()
    made = sd.Formula("pay ~ age + C(region) + center(b2)", data.assign(b2=data["my col"]), RELEASE_OF_B2)
    fit = sd.fit("pay ~ age + C(region) + center(b2)", data.assign(b2=data["my col"]), RELEASE_OF_B2)
    new = pd.DataFrame({"age": [1.0, 2.0], "region": ["s", "e"], "b2": [0.0, 1.0]})
    middle = data["my col"].mean()
    scores = [
        fit.theta @ [1.0, 0.0, 1.0, 0.0 - middle, 1.0],
        fit.theta @ [2.0, 0.0, 0.0, 1.0 - middle, 1.0],
    ]
    np.testing.assert_allclose(fit.predict(made.columns(new)), scores)
    for wrong in (new.assign(region=["s", "plague"]), new.drop(columns="b2"), new.drop(columns="age")):
        with pytest.raises(ValueError, match=r"do not fit the formula|do not have the columns age") as caught:
            made.columns(wrong)
        assert "plague" not in str(caught.value)


RELEASE_OF_B2 = sd.Release({"age": RELEASE.groups[0][1]}, noiseless=("region", "b2"))


def test_tables_of_polars_are_taken():
    data = table()
    plain, other = (sd.Formula("pay ~ age + C(region)", one, RELEASE) for one in (data, pl.from_pandas(data)))
    pd.testing.assert_frame_equal(plain.X, other.X, check_dtype=False)
    np.testing.assert_array_equal(plain.y, other.y)


REFUSED = {
    # ---- columns with noise
    "pay ~ log(age)": r"log\(age\) is refused: it transforms age after its noise",
    "pay ~ bs(age, df=4)": "transforms age",
    "pay ~ I(age**2)": "transforms age",
    "pay ~ C(age)": "transforms age",
    "pay ~ {age*2}": "transforms age",
    "pay ~ age:year": "age:year is refused: a product with a column that has noise",
    "pay ~ age*sex": "age:sex is refused: a product of two columns with noise",
    "pay ~ (age + year)**2": "age:year is refused",
    "pay ~ log(age + year)": "transforms age",
    "pay ~ a": "a, b are noised together, and the formula leaves b out",
    "pay ~ exp(time)": "time was centred or scaled by the release",
    # ---- names
    "pay ~ age + z": "z, which the release does not have; its columns are age, a, b, sex, year",
    "debt ~ age": "the data do not have the target debt",
    "age ~ year": "age was released with scale=, which a target has not",
    "a ~ year": "noised together, in one vector, and a would be taken out of it",
    "pay:year ~ age": "is no target",
    # ---- text
    "pay ~ np.log(year)": r"more than a function of columns. Write log\(...\), without the name of a module. A formula",
    "pay ~ year.mean()": "more than a function of columns",
    "pay ~ hashed(region)": "calls hashed. A formula may call C, I, bs",
    "pay ~ C(region, __import__)": "more than a function|names __import__",
    "pay ~ (lambda: year)()": "names lambda, which the release does not have",
    "pay ~ [year for year in region]": "more than a function|is no formula|names",
    "pay ~ age +": "is no formula",
    "pay ~ .": r"a point does not stand for all columns here.* Name those of the score: age \+ a \+ b",
    "pay ~ age + age^2": r"age\^2 is age itself in a formula, .* Write I\(age\*\*2\)",
    "pay ~ (year + age ** 3) + 1": r"age \*\* 3 is age itself",
    "~ age": "does not have one target and one score",
    "age + year": "does not have one target",
    "pay + sex ~ age": "does not have one target",
    "pay ~ age | year": "does not have one target and one score",
    "": "does not have one target",
    "pay ~ age + my col": "is no formula: .* between backquotes: `my col`",
    "pay ~ 1": "names no column. Name one on the right",
    "pay ~ age + year - offset(year)": r"takes an offset out of the score, in which it is not. Write offset\(-name\)",
    "pay ~ age + 0*year": "a number does not multiply a column here",
    "pay ~ age + year*0": "a number does not multiply a column here",
    # Its column is called year, and has not the coefficient of year.
    "pay ~ age + 3:year": r"3:year is a column times a number .* or the product as I\(3 \* year\)",
    # Another category would pass for the first level.
    "pay ~ age + C(region, levels=['n', 'e'])": "a category is not among the levels that are named",
    "pay ~ age + I(year & 1)": "is more than a function of columns",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_what_a_formula_may_not_say(formula):
    with pytest.raises(ValueError, match=REFUSED[formula]):
        sd.Formula(formula, table(), RELEASE)


WHOLE = ["int8", "uint8", "int64", "Int8", "int8[pyarrow]"]


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", WHOLE)
def test_whole_numbers_are_real_numbers_whatever_their_type(kind):
    rng = np.random.default_rng(0)
    plain = table().assign(year=rng.integers(0, 120, 90), time=rng.integers(0, 2, 90) == 1)
    narrow = plain.assign(year=plain.year.astype(kind))
    real = plain.assign(year=plain.year.astype(float), time=plain.time.astype(float))
    release = sd.Release({"age": RELEASE.groups[0][1]}, noiseless=("year", "region", "time"))
    text = "pay ~ age + year + I(year**2 - 200) + I(year**20) + I(time + time) + offset(10*year) + region:year"
    made, expected = sd.Formula(text, narrow, release), sd.Formula(text, real, release)
    pd.testing.assert_frame_equal(made.X, expected.X)
    np.testing.assert_array_equal(made.offset, expected.offset)
    pd.testing.assert_frame_equal(made.columns(narrow[:9]), expected.columns(real[:9]))
    np.testing.assert_array_equal(made.offsets(narrow[:9]), expected.offsets(real[:9]))
    np.testing.assert_array_equal(
        sd.Formula("I(year * 10) ~ age", narrow.rename(columns={"year": "z", "time": "year"}).assign(year=narrow.year),
                   sd.Release({"age": RELEASE.groups[0][1]})).y, plain.year * 10,
    )  # fmt: skip


@pytest.mark.parametrize("kind", WHOLE)
def test_categories_of_whole_numbers_keep_their_names(kind):
    data = table().assign(year=np.resize([1, 2, 3], 90), time=np.resize([True, False], 90))
    narrow = data.assign(year=data.year.astype(kind))
    release = sd.Release({"age": RELEASE.groups[0][1]}, noiseless=("year", "time"))
    made = sd.Formula("pay ~ age + C(year) + I(year**100) + C(time)", narrow, release)
    assert made.release.columns == ("age", "C(year)[T.2]", "C(year)[T.3]", "I(year ** 100)", "C(time)[T.True]")
    np.testing.assert_array_equal(made.X["C(year)[T.3]"], data.year == 3)
    np.testing.assert_array_equal(made.X["I(year ** 100)"], data.year.astype(float) ** 100)
    # Other records may have them as real numbers.
    other = narrow.assign(year=data.year.astype(float))[:9]
    pd.testing.assert_frame_equal(made.columns(other), made.columns(narrow[:9]))


@pytest.mark.parametrize("kind", ["object", "string", "category", "string[pyarrow]", "large_string[pyarrow]"])
def test_texts_are_categories_whatever_their_type(kind):
    data = table()
    kept = sd.Formula("pay ~ age + region", data, RELEASE)
    other = data.assign(region=data.region.astype(kind))
    pd.testing.assert_frame_equal(sd.Formula("pay ~ age + region", other, RELEASE).X, kept.X)
    gone = other.assign(region=other.region.where(np.arange(90) != 5))
    with pytest.raises(ValueError, match="a value is missing"):
        sd.Formula("pay ~ age + region", gone, RELEASE)


def test_a_table_in_the_place_of_the_formula_is_not_shown():
    data = table().assign(region="plague")
    with pytest.raises(TypeError, match=r'got DataFrame\. Write it as "y ~ age') as raised:
        sd.fit(data, "pay ~ age", RELEASE)
    assert "plague" not in str(raised.value)


def test_noised_records_stand_for_their_table_and_its_release(tmp_path):
    release = sd.Release({"age": sd.GaussianMechanism.from_scale(0.1)}, fit_intercept=True)
    noised = release.privatize(table()[["age"]], table()["pay"], random_state=0)
    expected = sd.fit("pay ~ age", noised.X.assign(pay=noised.y), noised.release)
    noised.save(tmp_path / "folder", target_name="wage")
    for one, target in ((noised, "pay"), (noised, "target"), (sd.load(tmp_path / "folder"), "wage")):
        for given in ((), (one.release,)):
            found = sd.fit(f"{target} ~ age", one, *given)
            assert found.names == ("age", "intercept")
            np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    with pytest.raises(ValueError, match="do not have the target tenure"):
        sd.fit("tenure ~ age", noised)
    with pytest.raises(TypeError, match=r"release was not given.*Pass release=noised\.release, or the Noised itself"):
        sd.fit("pay ~ age", table())


def test_noised_arrays_stand_for_a_table():
    release = sd.Release({("age", "hours"): sd.GaussianMechanism.from_scale(0.1)}, fit_intercept=True)
    values = np.random.default_rng(0).normal(size=(1_000, 2))
    noised = release.privatize(values, values @ [1.0, -1.0], random_state=0)
    assert sd.fit("target ~ age + hours", noised).names == ("age", "hours", "intercept")
    coded = sd.Release({"place": sd.RandomizedResponse(1.0, ("n", "s"))}, fit_intercept=True)
    noised = coded.privatize(np.zeros((10, 1)), np.zeros(10), random_state=0)
    with pytest.raises(TypeError, match=r"hold codes, and a formula takes tables\. Release a table"):
        sd.fit("target ~ place", noised)
    by_blocks = dataclasses.replace(noised, X=in_order(noised.X), y=in_order(noised.y))
    for data in (by_blocks, by_blocks.X):
        with pytest.raises(TypeError, match=r"read by blocks, and a formula takes a table in memory\. Load them"):
            sd.fit("target ~ place", data, coded)


def test_labels_of_text_ask_for_a_loss_of_labels():
    data = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "pay": ["low", "high", "low", "high"]})
    for categories, loss in ((("low", "high"), "logistic"), (("low", "high", "top"), "softmax")):
        release = sd.Release({"age": sd.GaussianMechanism.from_scale(0.1)}, sd.RandomizedResponse(2.0, categories))
        with pytest.raises(
            ValueError, match=f'labels low, high.*least_squares is a loss of a number. Pass loss="{loss}"'
        ):
            sd.fit("pay ~ age", data, release)


def test_names_with_signs_are_said_to_need_backquotes():
    data, release = with_odd_names()
    with pytest.raises(ValueError, match=r"names hours, which .* stands between backquotes: `hours-per-week`"):
        sd.Formula("pay ~ age + hours-per-week", data, release)


MOVED = {"hours-per-week": 10.0, "s": 2.0}


def with_odd_names():
    data = table().assign(**{"hours-per-week": np.linspace(1, 9, 90), "s": np.linspace(-1, 1, 90)})
    # Names of functions and of the contrasts of formulaic.
    data = data.assign(contr=data["my col"], log=data["my col"], center=data.year)
    noised = dict.fromkeys(("age", "contr", "log"), RELEASE.groups[0][1])
    return data, sd.Release(noised, noiseless=(*MOVED, "year", "region", "center"), center=MOVED, scale=MOVED)


@pytest.mark.parametrize(
    ("terms", "name", "term"),
    [
        ("`hours-per-week`:year", "hours-per-week", "hours-per-week:year"),
        ("year:`hours-per-week`", "hours-per-week", "year:hours-per-week"),
        # The column by itself besides is another term, and a number times it is another column of the same name.
        ("s + s:year", "s", "s:year"),
        ("2:s", "s", "2:s"),
        ("C(region):s", "s", r"C\(region\):s"),
        ("I(s)", "s", r"I\(s\)"),
    ],
)
def test_columns_that_the_release_moves_stand_by_themselves(terms, name, term):
    data, release = with_odd_names()
    with pytest.raises(ValueError, match=f"^{name} was centred or scaled by the release, and {term} transforms it"):
        sd.Formula(f"pay ~ age + {terms}", data, release)


def test_categories_and_functions_called_like_columns_are_none():
    data, release = with_odd_names()
    made = sd.Formula("pay ~ age + C(region) + `hours-per-week` + {s}", data, release)
    assert set(made.release.columns) == {"age", "C(region)[T.n]", "C(region)[T.s]", *MOVED}
    assert dict(made.release.scale) == MOVED
    np.testing.assert_array_equal(sd.Formula("pay ~ age + offset(center)", data, release).offset, data.year)
    for call, name in (("exp(contr)", "contr"), ("log(log)", "log")):
        with pytest.raises(ValueError, match=f"it transforms {name} after its noise"):
            sd.Formula(f"pay ~ age + {call}", data, release)


@pytest.mark.parametrize("others", [("scale",), ("scale", "log", "poly", "center", "C", "contr")])
def test_a_column_called_like_a_function_does_not_hide_it(others):
    data = table().assign(**{name: np.arange(90.0) for name in others})
    release = sd.Release({"age": RELEASE.groups[0][1]}, noiseless=("year", "region", *others))
    text = "log(pay) ~ age + scale(year) + poly(year, 2) + C(region, contr.helmert)"
    made, plain = sd.Formula(text, data, release), sd.Formula(text, table(), release)
    pd.testing.assert_frame_equal(made.X, plain.X)
    np.testing.assert_array_equal(made.y, plain.y)
    # So it is for other records, which need not have the columns that the formula leaves out.
    pd.testing.assert_frame_equal(made.columns(data[:9]), plain.columns(table()[:9]))
    pd.testing.assert_frame_equal(made.columns(table()[:9]), plain.columns(table()[:9]))
    # By itself it is a column.
    np.testing.assert_array_equal(sd.Formula("pay ~ age + scale", data, release).X["scale"], data["scale"])
    for both in ("pay ~ age + scale(year) + scale", "pay ~ age + scale(scale)", "pay ~ age + scale(year):scale"):
        with pytest.raises(ValueError, match=r"^scale is a column and a function in .*another name in the table and"):
            sd.Formula(both, data, release)


def test_a_target_with_noise_is_not_transformed():
    noisy = sd.Release({"age": RELEASE.groups[0][1]}, sd.GaussianMechanism.from_scale(0.1))
    assert sd.Formula("pay ~ age", table(), noisy).release.target == noisy.target
    with pytest.raises(ValueError, match=r"log\(pay\) would transform the target, which has noise"):
        sd.Formula("log(pay) ~ age", table(), noisy)
    with pytest.raises(ValueError, match="makes 3 columns of the target"):
        sd.Formula("C(region) ~ age", table(), sd.Release({"age": RELEASE.groups[0][1]}))


def test_data_and_releases_that_do_not_fit():
    data = table()
    missing = data.assign(year=np.where(data.index == 3, np.nan, data.year))
    with pytest.raises(ValueError, match=r"cannot be computed \(ValueError\): a value is missing"):
        sd.Formula("pay ~ age + year", missing, RELEASE)
    with pytest.raises(ValueError, match="needs the column region, which the data do not have"):
        sd.Formula("pay ~ age + region", data.drop(columns="region"), RELEASE)
    with pytest.raises(TypeError, match="data must be a table with named columns; got ndarray"):
        sd.Formula("pay ~ age", data[["age", "pay"]].to_numpy(), RELEASE)
    with pytest.raises(TypeError, match="a formula is text"):
        sd.Formula(3, data, RELEASE)
    with pytest.raises(TypeError, match=r"release must be a symdebias.Release; got dict"):
        sd.Formula("pay ~ age", data, {})
    margin = sd.Release(sd.LaplaceMechanism(epsilon=2.0, radius=1.0), target="margin")
    for release, message in (
        (margin, "features and target in one vector"),
        (sd.Release(RELEASE.groups[0][1]), "does not name its columns"),
        (sd.Release({("a", "b"): RELEASE.groups[0][1]}, categories={"a": ("x", "y", "z")}), "has categories="),
    ):
        with pytest.raises(ValueError, match=message):
            sd.Formula("pay ~ age", data, release)
    for options, message in (({"loss": "cubic"}, "not in the catalogue"), ({"solver": "newton"}, "is not known")):
        with pytest.raises(ValueError, match=message):
            sd.fit("pay ~ age", data, RELEASE, **options)
    with pytest.raises(TypeError, match="a formula is a score"):
        sd.fit("pay ~ age", data, RELEASE, loss=None)


OPEN = sd.Release({"age": RELEASE.groups[0][1]}, noiseless=("year", "region", "my col"))


@pytest.mark.in_turn
def test_offsets_and_exposure_are_those_by_hand():
    data = table().assign(events=np.arange(90) % 4)
    given = {"data": data, "release": OPEN, "loss": "poisson"}
    expected = sd.fit("events ~ age", offset=np.log(data.year), **given)
    for formula, options in (
        ("events ~ age + offset(log(year))", {}),
        ("events ~ age", {"exposure": "year"}),
        ("events ~ age", {"exposure": data.year}),
        ("events ~ age + offset(log(year) - 0.5)", {"offset": np.full(90, 0.5)}),
        ("events ~ age + offset(log(year) / 2)", {"exposure": np.sqrt(data.year)}),
    ):
        found = sd.fit(formula, **given, **options)
        np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-12)
        assert found.names == ("age", "intercept")
    made = sd.Formula("events ~ age + offset(log(year))", data, OPEN)
    np.testing.assert_allclose(made.offsets(data[:3]), np.log(data.year[:3]))
    assert expected.predict(made.columns(data[:3]), offset=made.offsets(data[:3])).shape == (3,)
    assert sd.Formula("events ~ age", data, OPEN).offset is None


@pytest.mark.parametrize(
    ("formula", "release", "message"),
    [
        ("pay ~ age + offset(age)", OPEN, "known function of columns without noise; these are year"),
        ("pay ~ age + offset(other)", OPEN, "names other"),
        ("pay ~ age + offset(1)", OPEN, "names no column"),
        ("pay ~ age:offset(year)", OPEN, "it stands by itself"),
        ("pay ~ age + offset()", OPEN, "it stands by itself"),
        ("pay ~ age + offset(year, 2)", OPEN, "it stands by itself"),
        ("pay ~ age + offset(scale(year))", OPEN, "calls scale, which learns from all records"),
        ("pay ~ age + offset(region)", OPEN, "An offset is one number"),
        ("pay ~ age + offset(np.log(year))", OPEN, "more than a function of columns"),
        ("pay ~ age + log(offset(year))", OPEN, "calls offset"),
        ("pay ~ offset(year)", OPEN, "names no column. Name one on the right"),
        ("pay ~ age + offset(`my col`)", OPEN, "is no function of columns. Rename columns whose names are no words"),
        ("pay ~ age + offset(time)", RELEASE, "time, which was centred or scaled by the release"),
    ],
)
def test_what_is_no_offset(formula, release, message):
    with pytest.raises(ValueError, match=message):
        sd.fit(formula, table(), release)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exposure": "age"}, "no column without noise"),
        ({"exposure": np.zeros(90)}, "one positive number per record"),
        ({"exposure": np.ones(5)}, r"shape \(5,\)"),
        ({"exposure": "year", "loss": "least_squares"}, "predicts another mean"),
    ],
)
def test_what_is_no_exposure(options, message):
    with pytest.raises(ValueError, match=message):
        sd.fit("pay ~ age", table(), OPEN, **{"loss": "poisson", **options})


@pytest.mark.parametrize("moved", [{"scale": {"year": 10.0}}, {"center": {"year": -1.0}}])
def test_an_exposure_that_the_release_moves_is_passed_in_its_own_units(moved):
    data, release = table(), sd.Release({"age": RELEASE.groups[0][1]}, noiseless=("year",), **moved)
    with pytest.raises(
        ValueError, match=r"exposure='year' was centred or scaled by the release\. .* in their own units"
    ):
        sd.fit("pay ~ age", data, release, loss="poisson", exposure="year")
    found = sd.fit("pay ~ age", data, release, loss="poisson", exposure=data.year)
    expected = sd.fit("pay ~ age", data, OPEN, loss="poisson", exposure="year")
    np.testing.assert_array_equal(found.theta, expected.theta)


def test_without_formulaic_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(MissingDependencyError, match=r"symdebias\[formulas\]"):
        sd.Formula("pay ~ age", table(), RELEASE)


def test_cox_is_answered_with_what_to_do():
    for ask in (
        lambda: sd.fit("pay ~ age", table(), OPEN, loss="cox"),
        lambda: sd.DebiasedRegressor("CoxPH").fit([[1.0], [2.0]], [1.0, 2.0]),
        lambda: sd.losses.cox,
    ):
        with pytest.raises((ValueError, AttributeError), match=r"partial likelihood is no sum .* exposure="):
            ask()
    with pytest.raises(AttributeError, match=r"has no attribute 'cubic'. Take one of cauchy, "):
        _ = sd.losses.cubic


@pytest.mark.in_turn
def test_tables_of_folders_and_schemas_are_taken():
    """As a folder has its records: to be fitted, and true ones of a schema to be predicted for."""
    rng = np.random.default_rng(0)
    people = {"age": rng.uniform(18, 90, 2_000), "place": rng.choice(["n", "e"], 2_000)}
    people["pay"] = np.clip(people["age"] / 90, 0, 1)
    schema = sd.Schema({
        "epsilon": 60.0,
        "columns": {
            "age": {"bounds": [18, 90], "outcome": True},
            "place": {"categories": ["n", "e"], "outcome": True},
            "pay": {"bounds": [0, 1], "outcome": True},
        },
    })  # fmt: skip
    X, _ = schema.collect(people)
    noised = sd.Release.from_schema(schema).privatize(X, random_state=1)
    fit, expected = (
        sd.fit("pay ~ age + place", one, noised.release) for one in (noised.X, pd.DataFrame(noised.X.to_dict()))
    )
    np.testing.assert_array_equal(fit.theta, expected.theta)
    made = sd.Formula("pay ~ age + place", noised.X, noised.release)
    pd.testing.assert_frame_equal(made.columns(X[:5]), made.columns(pd.DataFrame(people)[:5]))


# ---- categories without noise, which records have as indicators --------------------------------------------

PLACES = ("s", "n", "e")


def described(categories=PLACES, **entries):
    """Records that another program noised, with a column of categories without noise, and their true table."""
    data = table(400).assign(region=np.resize(np.array(categories), 400))
    entries |= {"region": {"noise": "none", "categories": list(categories)}, "year": {"noise": "none"}}
    entries["age"] = {"noise": "gaussian", "scale": 0.5}
    description = {"columns": entries, "target": {"name": "pay", "noise": "none"}}
    return sd.NoiseDescription(description).read(data), data


def test_a_column_of_public_categories_stands_by_its_name():
    """The fit is that of all columns as they are, and that of the same release written by hand."""
    noised, data = described()
    assert {"region=n", "region=e"} < set(noised.release.columns)
    expected = sd.m_estimate(sd.debias(sd.losses.least_squares(), noised.release), noised.X, noised.y)
    found = sd.fit("pay ~ age + year + region", noised)
    assert found.names == ("age", "year", "region[T.n]", "region[T.e]", "intercept")
    of = [expected.names.index(name) for name in ("age", "year", "region=n", "region=e", "intercept")]
    np.testing.assert_allclose(found.theta, expected.theta[of], rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors[of], rtol=1e-9)
    by_hand = sd.Release({"age": sd.GaussianMechanism.from_scale(0.5)}, noiseless=("region", "year"))
    data["region"] = pd.Categorical(data["region"], categories=PLACES)
    for formula in ("pay ~ age + C(region):year", "pay ~ age + C(region, contr.sum) - 1"):
        one, other = sd.fit(formula, noised), sd.fit(formula, data, by_hand)
        assert one.names == other.names
        np.testing.assert_array_equal(one.theta, other.theta)
    assert sd.fit("pay ~ age", noised).names == ("age", "intercept")
    # A table of one's own that has the indicators, or the column itself.
    again = pd.DataFrame(noised.X.to_dict()).assign(pay=noised.y)
    for own in (again, data.astype({"region": object})):
        np.testing.assert_array_equal(sd.fit("pay ~ age + year + region", own, noised.release).theta, found.theta)


def test_predictions_take_public_categories_as_they_were_collected():
    noised, _ = described()
    formula = "pay ~ age + year + region"
    made, fit = sd.Formula(formula, noised), sd.fit(formula, noised)
    whole = sd.m_estimate(sd.debias(sd.losses.least_squares(), noised.release), noised.X, noised.y)
    true = pd.DataFrame({"age": [0.5, -1.0], "year": [2.0, 3.0], "region": ["e", "s"]})
    np.testing.assert_allclose(fit.predict(made.columns(true)), whole.predict(true), rtol=1e-9)
    with pytest.raises(ValueError, match="a category that the first records do not have"):
        made.columns(true.assign(region="w"))


@pytest.mark.parametrize(("categories", "formula", "names"), [
    ((10.0, 20.0, 30.0), "pay ~ age + region", ("age", "region[T.20]", "region[T.30]", "intercept")),
    ((0, 1), "pay ~ age + C(region) - 1", ("age", "C(region)[0]", "C(region)[1]")),
])  # fmt: skip
def test_public_categories_that_are_numbers_are_categories(categories, formula, names):
    noised, data = described(categories)
    assert sd.fit(formula, noised).names == names
    assert sd.fit(formula, data, noised.release).names == names


def test_public_categories_of_a_schema_without_an_intercept():
    schema = {
        "epsilon": 60.0, "intercept": False,
        "columns": {"age": {"bounds": [-9, 9]}, "region": {"categories": list(PLACES), "public": True}},
        "target": {"name": "pay", "bounds": [-9, 12]},
    }  # fmt: skip
    data = table(400).assign(region=np.resize(np.array(PLACES), 400))
    release = sd.Release.from_schema(schema)
    noised = release.privatize(*sd.Schema(schema).collect(data), random_state=0)
    own = pd.DataFrame(noised.X.to_dict()).assign(target=np.asarray(noised.y))
    found = sd.fit("target ~ age + region - 1", own, noised.release)
    assert found.names == ("age", "region[s]", "region[n]", "region[e]")
    expected = sd.m_estimate(sd.debias(sd.losses.least_squares(), noised.release), noised.X, noised.y)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)


def test_indicators_of_no_category_are_refused():
    noised, _ = described()
    own = pd.DataFrame(noised.X.to_dict()).assign(pay=noised.y)
    own.loc[7, ["region=n", "region=e"]] = 1.0
    with pytest.raises(ValueError, match="the indicators of region are those of no category in row 7"):
        sd.fit("pay ~ age + region", own, noised.release)


def test_centred_indicators_are_those_of_their_category():
    noise = sd.GaussianMechanism.from_scale(0.5)
    release = sd.Release(
        {"age": noise}, noiseless=("region",), fit_intercept=True, categories={"region": PLACES},
        center={"region": 0.3}, scale={"region": 0.7},
    )  # fmt: skip
    data = table(400)
    noised = release.privatize(data[["age", "region"]], data["pay"], random_state=0)
    found, expected = (
        sd.fit("pay ~ age + region", noised),
        sd.m_estimate(sd.debias(sd.losses.least_squares(), release), noised.X, noised.y),
    )
    np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=1e-9)
