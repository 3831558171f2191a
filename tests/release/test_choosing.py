"""Several outcomes in one release: each column with noise of its own can be the target of a fit."""

from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import symdebias as sd
from symdebias.release.choosing import with_target

SCHEMA = {
    "epsilon": 8.0,
    "columns": {
        "age": {"bounds": [18, 90]},
        "height": {"bounds": [100, 220]},
        "pay": {"bounds": [0, 100], "outcome": True},
        "sick": {"categories": ["no", "yes"], "outcome": True},
        "place": {"categories": ["n", "e", "s"], "public": True},
    },
}
RELEASE = sd.Release.from_schema(SCHEMA)


def records(n=60, seed=0):
    rng = np.random.default_rng(seed)
    age, height = rng.uniform(18, 90, n), rng.uniform(140, 200, n)
    columns = {"age": age, "height": height, "pay": 20 + age / 2 + rng.uniform(0, 9, n)}
    columns |= {"sick": np.resize(["no", "yes", "yes"], n), "place": np.resize(["n", "e", "s"], n)}
    return pd.DataFrame(columns)


def noised(n=60, seed=0):
    X, _ = sd.Schema(SCHEMA).collect(records(n, seed))
    return RELEASE.privatize(X, random_state=seed)


def test_outcomes_have_mechanisms_of_their_own_and_a_part_of_the_budget_each():
    names = [own for own, _ in RELEASE.groups]
    assert names == [("age", "height"), ("pay",), ("sick",)]
    assert [mechanism.epsilon for _, mechanism in RELEASE.groups] == [4.0, 2.0, 2.0]
    assert sum(Fraction(mechanism.epsilon) for _, mechanism in RELEASE.groups) <= 8
    assert RELEASE.guarantee.epsilon <= 8
    # Outcomes stay in their own units.
    assert set(dict(RELEASE.center)) == {"age", "height"}


def test_the_target_is_the_column_with_its_noise():
    release = with_target(RELEASE, "pay")
    assert release.target == dict(RELEASE.groups)["pay",]
    assert release.columns == ("age", "height", "sick", "place=e", "place=s")
    assert release.guarantee.epsilon == 8.0
    few = with_target(RELEASE, "sick", ["place", "pay"])
    assert few.columns == ("pay", "place=e", "place=s")
    assert few.guarantee.epsilon == 4.0
    assert not few.center
    public = sd.Release({"a": sd.LaplaceMechanism(1.0, bounds=(0, 1))}, noiseless=("b",))
    assert with_target(public, "b").target is None


@pytest.mark.parametrize("kind", ["own", "pandas", "polars", "pyarrow", "array"])
def test_records_of_all_kinds_are_taken_apart(kind):
    given = noised()
    if kind == "array":
        release = sd.Release(
            {"a": sd.LaplaceMechanism(1.0, bounds=(0, 1)), "b": sd.LaplaceMechanism(2.0, bounds=(0, 1))}
        )
        plain = release.privatize(np.full((4, 2), 0.5), random_state=0)
        chosen = plain.with_target("a")
        np.testing.assert_array_equal(chosen.X, plain.X[:, 1:])
        np.testing.assert_array_equal(chosen.y, plain.X[:, 0])
        return
    columns = given.X.to_dict()
    made = {
        "own": lambda: given.X,
        "pandas": lambda: pd.DataFrame(columns),
        "polars": lambda: pl.DataFrame(columns),
        "pyarrow": lambda: pytest.importorskip("pyarrow").table(columns),
    }[kind]()
    held = type(given)(made, None, given.release, seeded=True, hardened=False)
    chosen = held.with_target("pay", features=["age", "height"])
    np.testing.assert_array_equal(np.asarray(chosen.y), columns["pay"])
    assert chosen.target_name == "pay"
    matrix = chosen.release.design_matrix(chosen.X)
    np.testing.assert_allclose(matrix, np.column_stack([columns["age"], columns["height"]]))


def test_fits_of_each_outcome_are_those_by_hand(tmp_path):
    given = noised()
    pay = given.with_target("pay", features=["age", "height"])
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), pay.release), pay.X, pay.y, l2=1.0)
    columns = given.X.to_dict()
    by_hand = sd.Release({("age", "height"): RELEASE.groups[0][1]}, RELEASE.groups[1][1], fit_intercept=True)
    same = sd.m_estimate(
        sd.debias(sd.losses.least_squares(), by_hand),
        np.column_stack([columns["age"], columns["height"]]),
        columns["pay"],
        l2=1.0,
    )
    np.testing.assert_allclose(fit.theta, same.theta)
    assert fit.guarantee.epsilon == 6.0
    given.save(tmp_path / "released")
    again = sd.load(tmp_path / "released").with_target("pay", features=["age", "height"])
    assert again.release == pay.release


def test_formulas_take_any_outcome():
    pytest.importorskip("formulaic")
    plain = sd.Release(
        {
            "age": sd.GaussianMechanism.from_scale(0.1),
            "pay": sd.GaussianMechanism.from_scale(0.2),
            "sick": sd.RandomizedResponse(4.0, categories=("no", "yes")),
        },
    )
    rng = np.random.default_rng(0)
    age = rng.normal(size=90)
    table = pd.DataFrame(
        {"age": age, "pay": 2 * age + rng.normal(size=90), "sick": np.resize(["no", "yes", "yes"], 90)}
    )
    fit = sd.fit("pay ~ age + sick", table, plain, l2=0.1)
    assert fit.names == ("age", "sick=yes", "intercept")
    assert fit.corrected.release.target == dict(plain.groups)["pay",]
    label = sd.fit("sick ~ age + pay", table, plain, loss="squared_margin", l2=0.5)
    assert label.corrected.release.columns == ("age", "pay")
    assert list(label.predict(pd.DataFrame({"age": [0.0], "pay": [0.0]}))) == ["yes"]


def test_multi_output_estimators_fit_a_copy_for_each_column():
    multioutput = pytest.importorskip("sklearn.multioutput")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    Y = X @ [[1.0, 0.0], [0.0, 2.0]] + 0.1 * rng.normal(size=(80, 2))
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1), sd.GaussianMechanism.from_scale(0.2))
    model = multioutput.MultiOutputRegressor(sd.DebiasedRegressor(release=release)).fit(X, Y)
    for place, one in enumerate(model.estimators_):
        alone = sd.DebiasedRegressor(release=release).fit(X, Y[:, place])
        np.testing.assert_allclose(one.coef_, alone.coef_)


TWO = sd.Release(
    {("a", "b"): sd.GaussianMechanism(1.0, 1e-5, radius=1.0), "c": sd.LaplaceMechanism(1.0, bounds=(0, 1))}
)
REFUSED = {
    "no column": (RELEASE, "q", None, "'q' is no column"),
    "itself as a feature": (RELEASE, "pay", ["pay"], "features names pay"),
    "an unknown feature": (RELEASE, "pay", ["q"], "features names q"),
    "a vector": (TWO, "a", None, r"noised together, in one vector, and a would be taken out"),
    "a part of a vector": (TWO, "c", ["a"], "features leaves columns out"),
    "an indicator": (RELEASE, "place=e", None, "stay together, as features"),
    "a part of indicators": (RELEASE, "pay", ["place=e"], "stay together, as features"),
    "scaled": (sd.Release({"a": TWO.groups[1][1]}, scale={"a": 2.0}), "a", None, "released with scale="),
    "no names": (sd.Release(sd.GaussianMechanism.from_scale(1.0)), "x0", None, "does not name its columns"),
    "one vector": (
        sd.Release({("a", "b"): TWO.groups[0][1]}, target="margin"), "a", None, "for that target alone"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_chosen(name):
    release, column, features, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        with_target(release, column, features)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"bounds": [0, 1], "outcome": "x"}, "must be true or false"),
        ({"bounds": [0, 1], "outcome": True, "public": True}, "must be true or false, and a public column"),
    ],
)
def test_schemas_that_do_not_fit(entry, message):
    with pytest.raises(ValueError, match=message):
        sd.Schema({"epsilon": 1.0, "columns": {"a": entry}})


def test_outcomes_are_released_apart():
    given = {**SCHEMA, "loss": "least_squares", "target": {"name": "y", "bounds": [0, 1]}}
    assert sd.Schema(given).design == "apart"
    with pytest.raises(ValueError, match=r"pay, sick may be the target, too"):
        sd.Schema({**given, "design": "joint"})


@pytest.mark.parametrize(
    "name", [pd.NA, pd.Series([1, 2]), pd.DataFrame({"pay": [1]}), np.array(["pay", "age"]), 3, None]
)
def test_what_is_no_name_is_no_column(name):
    with pytest.raises(ValueError, match=r"(?s)is no column of the release; these are age, height, pay, sick"):
        with_target(RELEASE, name)
