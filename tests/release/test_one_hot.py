"""Declared categories as coordinates of one noised vector: names, records, sensitivity, means over the noise, cards."""

import copy
import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

import symdebias as sd
from symdebias.exceptions import ClippingWarning
from symdebias.release.one_hot import OneHot

PLACES, SEXES = ("n", "e", "s", "w"), ("f", "m")
CATEGORIES = {"place": PLACES, "sex": SEXES}
R, C = 2.0, 0.7
NAMED = ("age", "place=e", "place=s", "place=w", "sex=m")
EVERY = ("age", "place=n", "place=e", "place=s", "place=w", "sex=m")
MECHANISMS = {
    "Gaussian": sd.GaussianMechanism(epsilon=2.0, delta=1e-5, radius=R),
    "Laplace": sd.LaplaceMechanism(epsilon=2.0, radius=R),
    "spherical Laplace": sd.SphericalLaplaceMechanism(epsilon=2.0, radius=R),
    "spherical cap": sd.SphericalCapMechanism(epsilon=2.0, radius=R),
}
TARGETS = {
    "apart": {"target": sd.RandomizedResponse(epsilon=1.0)},
    "margin": {"target": "margin", "target_scale": C},
    "joint": {"target": "joint", "target_bounds": (-1, 1), "target_scale": C},
}
CROSSED = list(itertools.product(MECHANISMS, TARGETS))
PUBLIC = {"center": {"age": 0.1, "sex": 0.5}, "scale": {"place": 2.0, "age": 1.5}}


def release_of(mechanism, target, **options):
    return sd.Release(MECHANISMS[mechanism], fit_intercept=True, categories=CATEGORIES, **TARGETS[target], **options)


def people(rows=40, seed=3):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"age": rng.uniform(-1, 1, rows), "place": rng.choice(PLACES, rows), "sex": rng.choice(SEXES, rows)},
        index=np.arange(rows)[::-1],
    )
    table.loc[[3, 4, 5, 6], "place"] = PLACES
    return table, pd.Series(np.where(rng.random(rows) < 0.5, -1.0, 1.0), index=table.index, name="y")


def dummies(table, names=NAMED):
    """The numbers of the released columns, by pandas."""
    return pd.get_dummies(table, columns=["place", "sex"], prefix_sep="=").astype(float)[list(names)]


# ---- names -----------------------------------------------------------------------------------------------


def test_columns_of_categories_become_indicator_columns_in_their_place():
    release = release_of("Gaussian", "apart")
    assert (release.columns, release.number_of_columns) == (None, None)
    bound = release.bind(("age", "place", "sex"))
    assert bound.columns == NAMED
    assert bound.number_of_columns == 5
    assert release.bind(NAMED) == bound == bound.bind(("sex", "age", "place")) == bound.bind(NAMED[::-1])
    assert release.bind(("sex", "age", "place")).columns == ("sex=m", "age", "place=e", "place=s", "place=w")
    corrected = sd.debias(sd.losses.squared_margin(), bound)
    assert corrected.parameter_names == (*NAMED, "intercept")


@pytest.mark.parametrize(("categories", "intercept", "names"), [
    ({"c": ("a", "b", "d")}, True, ("c=b", "c=d")),
    ({"c": ("a", "b", "d")}, False, ("c=a", "c=b", "c=d")),
    ({"c": ("a", "b")}, False, ("c=b",)),
    ({"c": (3, 1, 2.5)}, False, ("c=3", "c=1", "c=2.5")),
    ({"c": (0, 1)}, True, ("c=1",)),
    ({"c": np.array([0, 1, 2])}, True, ("c=1", "c=2")),
])  # fmt: skip
def test_the_names_are_those_of_randomized_response(categories, intercept, names):
    ours = sd.Release({("c",): sd.GaussianMechanism.from_scale(1.0)}, categories=categories, fit_intercept=intercept)
    assert ours.columns == names
    (values,) = categories.values()
    if len(values) == 2 and not isinstance(values[0], str):
        return  # there two numbers enter as the number
    theirs = sd.Release({"c": sd.RandomizedResponse(1.0, values)}, fit_intercept=intercept)
    assert ours.design(len(names)).parameters == theirs.design(1).parameters


def test_columns_of_a_group_and_without_noise():
    mechanism = sd.SphericalLaplaceMechanism(2.0, 2.0)
    release = sd.Release(
        {("age", "place"): mechanism, "region": sd.RandomizedResponse(1.0, ("a", "b", "c"))},
        noiseless=("sex",), categories=CATEGORIES, fit_intercept=True,
    )  # fmt: skip
    assert release.columns == ("age", "place=e", "place=s", "place=w", "region", "sex=m")
    assert release.guarantee.unprotected == ("sex=m", "target")
    table = people()[0].assign(region="b")
    noised = release.privatize(table, random_state=0)
    assert tuple(noised.X.columns) == release.columns
    np.testing.assert_array_equal(noised.X["sex=m"], table["sex"] == "m")
    np.testing.assert_array_equal(release.true_matrix(table)[:, 4], 1)


# ---- records ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [NAMED, EVERY])
def test_true_tables_and_arrays_of_codes_are_expanded(names):
    release = sd.Release(MECHANISMS["Gaussian"], categories=CATEGORIES, fit_intercept=names == NAMED)
    table, _ = people()
    bound = release.bind(list(table.columns))
    assert bound.columns == names
    wanted = dummies(table, names)
    np.testing.assert_array_equal(release.true_matrix(table), wanted)
    np.testing.assert_array_equal(bound.true_matrix(table[["sex", "place", "age"]]), wanted)
    codes = np.column_stack([table["age"], table["place"].map(PLACES.index), table["sex"].map(SEXES.index)])
    np.testing.assert_array_equal(bound.true_matrix(codes), wanted)
    np.testing.assert_array_equal(bound.true_matrix(table.astype({"place": "category"})), wanted)
    # The same noise for the same records, in whatever form.
    noised, other = bound.privatize(table, random_state=1), bound.privatize(codes, random_state=1)
    np.testing.assert_array_equal(noised.X.to_numpy(), other.X)
    assert bound.privatize(table, random_state=1, keep_index=True).X.index.equals(table.index)


def test_tables_of_polars_are_expanded():
    polars = pytest.importorskip("polars")
    table, _ = people()
    noised = release_of("Gaussian", "apart").privatize(polars.DataFrame(dict(table)), np.ones(40), random_state=0)
    assert isinstance(noised.X, polars.DataFrame)
    assert tuple(noised.X.columns) == NAMED


@pytest.mark.parametrize(("mechanism", "target"), CROSSED)
def test_a_release_is_that_of_the_indicators_as_numbers(mechanism, target):
    """To the last bit: the vector, its noise, the guarantee, and what corrections see of it."""
    table, y = people()
    release = release_of(mechanism, target, **PUBLIC)
    numbers = sd.Release(
        {NAMED: MECHANISMS[mechanism]}, fit_intercept=True, **TARGETS[target], center={"age": 0.1, "sex=m": 0.5},
        scale={"place=e": 2.0, "place=s": 2.0, "place=w": 2.0, "age": 1.5},
    )  # fmt: skip
    noised = release.privatize(table, y, random_state=7)
    plain = numbers.privatize(dummies(table), y, random_state=7)
    pd.testing.assert_frame_equal(noised.X, plain.X)
    if target != "apart":
        pd.testing.assert_series_equal(noised.y, plain.y)
    assert noised.release.columns == NAMED
    assert release.guarantee == noised.release.guarantee == numbers.guarantee
    np.testing.assert_array_equal(release.design_matrix(noised.X), numbers.design_matrix(plain.X))
    assert noised.release.in_columns(5).groups == numbers.in_columns(5).groups


def test_true_numbers_come_scaled_and_categories_as_they_are():
    table, _ = people()
    release = release_of("Gaussian", "apart", **PUBLIC)
    wanted = dummies(table)
    wanted[["place=e", "place=s", "place=w"]] /= 2.0
    wanted["sex=m"] -= 0.5
    for one in (release, release.bind(list(table.columns))):
        np.testing.assert_array_equal(one.true_matrix(table), wanted)


def test_coefficients_in_original_units_are_those_of_the_indicators():
    table, _ = people()
    release = release_of("Gaussian", "apart", **PUBLIC).bind(list(table.columns))
    theta = np.array([1.0, -0.4, 0.3, 0.8, -1.1, 0.2])
    scaled = dummies(table)
    scaled["age"] = (scaled["age"] - 0.1) / 1.5
    scaled[["place=e", "place=s", "place=w"]] /= 2.0
    scaled["sex=m"] -= 0.5
    found = release.original_units(theta)
    np.testing.assert_allclose(
        dummies(table).to_numpy() @ found[:-1] + found[-1], scaled.to_numpy() @ theta[:-1] + theta[-1], atol=1e-14
    )


def everybody(ages):
    """Every combination of the categories with numbers, at and beyond the bounds."""
    return pd.DataFrame(list(itertools.product(ages, PLACES, SEXES)), columns=["age", "place", "sex"])


@pytest.mark.parametrize("public", [{}, PUBLIC])
@pytest.mark.parametrize(("mechanism", "order"), [("Gaussian", 2), ("spherical Laplace", 2), ("Laplace", 1)])
def test_the_sensitivity_is_attained_and_not_exceeded(mechanism, order, public, silent):
    """Over all categories with numbers at and beyond the bounds, and both labels: 2 sqrt(R^2 + c^2), or 2 (R + c)."""
    table = everybody((-1e9, -R, -0.3, 0.0, 1.0, R, 1e9))
    both = pd.concat([table, table], ignore_index=True)
    y = np.repeat([-1.0, 1.0], len(table))
    with pytest.warns(ClippingWarning):
        noised = release_of(mechanism, "margin", **public).privatize(both, y, random_state=0)
    vectors = np.column_stack([noised.X, C * noised.y])
    farthest = max(np.linalg.norm(vectors - row, ord=order, axis=1).max() for row in vectors)
    whole = 2 * math.sqrt(R**2 + C**2) if order == 2 else 2 * (R + C)
    assert farthest == pytest.approx(whole, rel=1e-12)
    # And the noise is that of this sensitivity, by the definition of each.
    mechanism = noised.release.coupling.released(MECHANISMS[mechanism])
    if mechanism.guarantee.delta == 0:
        assert mechanism.scale == pytest.approx(whole / 2.0, rel=1e-12)
    else:
        assert mechanism.guarantee.multiplier == pytest.approx(mechanism.scale / whole, rel=1e-12)


def test_records_beyond_the_radius_are_shortened_as_whole_vectors(silent):
    table = everybody((0.0, 1.0))
    release = sd.Release(sd.GaussianMechanism(1.0, 1e-5, radius=1.0), fit_intercept=True, categories=CATEGORIES)
    norms = np.linalg.norm(dummies(table), axis=1)
    with pytest.warns(ClippingWarning, match=f"{(norms > 1).sum()} of 16 records"):
        noised = release.privatize(table, random_state=0)
    np.testing.assert_allclose(noised.X, dummies(table).div(np.maximum(norms, 1.0), axis=0), atol=1e-12)
    with pytest.raises(ValueError, match="of 16 records lie outside the declared bounds"):
        release.privatize(table, outside="refuse")


# ---- corrections -----------------------------------------------------------------------------------------


def test_the_corrected_loss_has_the_declared_one_as_its_mean_over_the_noise(silent):
    """By quadrature over Laplace noise of the scale 2 (R + c)/epsilon, worked out here, on each coordinate."""
    categories, theta = {"sex": SEXES}, np.array([0.8, -0.6, 0.3])
    release = sd.Release(
        {("age", "sex"): sd.LaplaceMechanism(epsilon=3.0, radius=R)}, target="margin", fit_intercept=True,
        target_scale=C, categories=categories, center={"sex": 0.5}, scale={"sex": 0.8},
    )  # fmt: skip
    corrected = sd.debias(sd.losses.squared_margin(), release, method="exact")
    table = pd.DataFrame(list(itertools.product((-0.5, 0.2), SEXES)), columns=["age", "sex"])
    y = np.array([1.0, -1.0, -1.0, 1.0])
    noised = release.privatize(table, y, random_state=0)
    nodes, weights = np.polynomial.laguerre.laggauss(4)
    b = 2 * (R + C) / 3.0
    points, masses = b * np.r_[-nodes, nodes], np.r_[weights, weights] / 2
    shifts = np.array(list(itertools.product(points, repeat=3)))
    mass = np.prod(list(itertools.product(masses, repeat=3)), axis=1)
    means = []
    for row, label in zip(noised.X.to_numpy(), noised.y, strict=True):
        losses = corrected.loss(theta, row + shifts[:, :2], label + shifts[:, 2] / C)
        means.append(mass @ losses)
    scores = table["age"] * theta[0] + ((table["sex"] == "m") - 0.5) / 0.8 * theta[1] + theta[2]
    np.testing.assert_allclose(means, (1 - y * scores) ** 2 / 2, rtol=1e-10)


def test_a_fit_of_noised_categories_finds_the_fit_of_true_ones(tmp_path):
    """Within five standard errors in each of six parameters (false-alarm rate 4e-6), which see an effect of 0.3."""
    rng = np.random.default_rng(11)
    rows = 60_000
    table = pd.DataFrame(
        {"age": rng.uniform(-1, 1, rows), "place": rng.choice(PLACES, rows), "sex": rng.choice(SEXES, rows)}
    )
    score = 0.5 * table["age"] + 0.6 * (table["place"] == "w") - 0.4 * (table["sex"] == "m")
    y = np.where(rng.uniform(-1, 1, rows) < score, 1.0, -1.0)
    wanted = np.linalg.lstsq(np.column_stack([dummies(table), np.ones(rows)]), y, rcond=None)[0]
    release = sd.Release(
        sd.SphericalCapMechanism(epsilon=12.0, radius=1.8), target="margin", fit_intercept=True,
        categories=CATEGORIES, scale={"sex": 1.25}, center={"sex": 0.5},
    )  # fmt: skip
    noised = release.privatize(table, y, random_state=5)
    fit = sd.m_estimate(sd.debias(sd.losses.squared_margin(), noised.release), noised.X, noised.y)
    assert fit.names == (*NAMED, "intercept")
    errors = fit.standard_errors / [1, 1, 1, 1, 1.25, 1]
    assert errors.max() < 0.06
    away = fit.coefficients - wanted
    assert np.abs(away[:-1] / errors[:-1]).max() < 5
    assert abs(away[-1]) < 5 * (errors[-1] + errors[-2] / 2)
    fit.save(tmp_path / "fit")
    again = sd.Fit.load(tmp_path / "fit")
    assert again.corrected.release == noised.release
    # True records are expanded likewise, by a release that noises nothing.
    true = sd.Release(fit_intercept=True, categories=CATEGORIES, scale={"sex": 1.25}, center={"sex": 0.5})
    held = true.privatize(table, y)
    assert held.release.columns == NAMED
    found = sd.evaluation.evaluate(fit, held.X, held.y, metric="accuracy", release=held.release)
    rows_of = np.column_stack([noised.release.true_matrix(table), np.ones(rows)])
    assert found.value == pytest.approx(np.mean(y * (rows_of @ fit.theta) > 0), abs=1e-12)


@pytest.mark.parametrize("mechanism", ["Laplace", "spherical cap"])
def test_the_guarantee_of_a_release_can_be_checked(mechanism):
    release = release_of(mechanism, "margin", **PUBLIC).bind(("age", "place", "sex"))
    assert sd.checks.check_guarantee(release, samples=20_000, random_state=0).holds


def test_plans_for_columns_without_names_are_refused():
    """How indicators and numbers are scaled goes by the names of columns."""
    population = sd.planning.Population(np.eye(5), np.array([1.0, -1, 1, -1, 1]))
    with pytest.raises(ValueError, match=r"columns without names, and the population has 5\. Name the columns"):
        sd.planning.expected_fit(sd.losses.squared_margin(), release_of("Gaussian", "margin"), population, n=1e5)


# ---- values ----------------------------------------------------------------------------------------------


def test_releases_with_other_categories_are_others():
    given = [None, {"place": PLACES}, {"place": PLACES[::-1]}, CATEGORIES, {"sex": (0, 1)}]
    assert len({sd.Release(MECHANISMS["Gaussian"], categories=categories) for categories in given}) == len(given)
    assert sd.Release(categories={}) == sd.Release()
    assert "categories" not in json.loads(sd.Release().to_json())
    flipped = {"sex": SEXES, "place": PLACES}
    assert sd.Release(categories=flipped) == sd.Release(categories=CATEGORIES)


CARD = json.loads(release_of("Laplace", "margin", **PUBLIC).bind(("age", "place", "sex")).to_json())


@pytest.mark.parametrize(("categories", "message"), [
    (None, "exactly the entries"),
    ({}, "exactly the entries"),
    ([], "must map column names"),
    ("place", "must map column names"),
    (1, "must map column names"),
    ({"place": PLACES, "sex": ["f"]}, "two or more"),
    ({"place": PLACES, "sex": ["f", "f"]}, "different values"),
    ({"place": PLACES, "sex": ["f", "x"]}, "sex"),
    ({"place": PLACES, "sex": "fm"}, "is one text"),
    ({"place": PLACES, "sex": [1, "m"]}, "sex"),
    ({"place": PLACES, "sex": [0, True]}, "sex"),
    ({"place": PLACES, "sex": None}, "sex"),
    ({"place": PLACES, "planet": SEXES}, "categories names planet, which is no column"),
    ({"place": (*PLACES, "x"), "sex": SEXES}, "are released together"),
    ({"": PLACES}, "not a column name"),
])  # fmt: skip
def test_cards_with_other_categories_are_refused(categories, message):
    text = json.dumps({**CARD, "categories": categories})
    with pytest.raises(ValueError, match=f"not a release card.*{message}"):
        sd.Release.from_json(text)


def test_a_card_states_the_categories():
    assert CARD["categories"] == {"place": list(PLACES), "sex": list(SEXES)}
    assert CARD["features"][0]["columns"] == list(NAMED)


# ---- what does not fit -----------------------------------------------------------------------------------

GAUSS = MECHANISMS["Gaussian"]


@pytest.mark.parametrize(("arguments", "message"), [
    ({"categories": ["place"]}, "categories must map column names to their categories; got list"),
    ({"categories": {1: PLACES}}, "not a column name"),
    ({"categories": {"place": ("n",)}}, r"categories\['place'\].*two or more different values"),
    ({"categories": {"place": ("n", "e", "n")}}, "two or more different values"),
    ({"categories": {"place": "nesw"}}, "is one text"),
    ({"categories": {"place": ("n", 1)}}, "place"),
    ({"categories": {"place": (1, 1.0)}}, "place"),
    ({"categories": {"place": (0, 1, math.nan)}}, "place"),
    ({"categories": {"a": ("x", "b=c"), "a=b": ("x", "c")}}, "make two columns named a=b=c"),
    ({"categories": {"a": ("x", "b"), "a=b": ("x", "c")}}, "make two columns named a=b"),
    ({"features": {("age", "place"): GAUSS}}, "categories names sex, which is no column.*Its columns are age, place"),
    ({"features": {("age", "place", "sex", "place=e"): GAUSS}}, "place=e is named more than once"),
    ({"features": {("age", "place", "sex"): GAUSS, "place=w": GAUSS}}, "place=w is named more than once"),
    ({"features": {("age", "place=e", "place=s", "sex"): GAUSS}}, "place are the columns .* released together"),
    ({"features": {("place=e", "sex"): GAUSS, ("place=s", "place=w"): GAUSS}}, "Name place once, in one group"),
    ({"features": {("age", "sex"): GAUSS, "place": sd.RandomizedResponse(1.0, PLACES)}}, "categories of its own"),
    ({"features": {"place": sd.LaplaceMechanism(1.0, bounds=(0, 1)), "sex": GAUSS}}, "noises 1 column together; got 3"),
    ({"scale": {"place=e": 0.0}}, r"scale\['place=e'\]=0"),
    ({"scale": {"place=e": math.nan}}, "scale"),
    ({"scale": {"place": -1.0}}, "scale"),
    ({"scale": {"place": math.inf}}, "scale"),
    ({"center": {"sex": math.nan}}, "center"),
    ({"scale": {"place": 1.0, "place=e": 1.0}}, "scale names place and place=e"),
])  # fmt: skip
def test_declarations_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sd.Release(**{"features": GAUSS, "categories": CATEGORIES, "fit_intercept": True, **arguments})


@pytest.mark.parametrize(("columns", "message"), [
    (("age", "sex"), "categories names place, which is no column of this release"),
    (("age", "place", "place=e", "sex"), "repeat a name"),
    (("age", "place=e", "sex"), "are released together"),
])  # fmt: skip
def test_names_that_do_not_fit_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        release_of("Gaussian", "apart").bind(columns)


def test_a_column_that_is_half_noiseless_is_refused():
    release = sd.Release(GAUSS, noiseless=("place=e",), categories=CATEGORIES, fit_intercept=True)
    with pytest.raises(ValueError, match="are released together"):
        release.bind(("age", "place=e", "place=s", "place=w", "sex"))
    with pytest.raises(ValueError, match="center names planet, which is no column"):
        release_of("Gaussian", "apart", center={"planet": 1.0}).bind(("age", "place", "sex"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("change", "message"), [
    (lambda table: table.assign(place=["x", *table["place"][1:]]), "column place of X has a value in row 0"),
    (lambda table: table.assign(place=[*table["place"][:-1], None]), "place of X has no value in row 39"),
    (lambda table: table.assign(place=[*table["place"][:-1], math.nan]), "place of X has no value in row 39"),
    (lambda table: table.assign(place=0), "column place of X has a value in row 0"),
    (lambda table: table.drop(columns="place"), "place"),
    (lambda table: table.assign(city="x"), "column city of X must hold real numbers.*declare its categories"),
    (lambda table: table.assign(age=math.nan), "NaN"),
    (lambda table: table.to_numpy(), "array without names"),
    (lambda table: np.zeros((40, 3)), "array without names, and the release has categories for place, sex"),
])  # fmt: skip
def test_records_that_do_not_fit_are_refused_before_anything_is_noised(target, change, message):
    table, y = people()
    rng = np.random.default_rng(0)
    state = copy.deepcopy(rng.bit_generator.state)
    release = release_of("Gaussian", target)
    with pytest.raises((TypeError, ValueError), match=message) as refusal:
        release.privatize(change(table), y, random_state=rng)
    assert rng.bit_generator.state == state
    assert "'x'" not in str(refusal.value)
    with pytest.raises((TypeError, ValueError), match=message):
        release.true_matrix(change(table))


def test_codes_that_do_not_fit_are_refused():
    release = release_of("Gaussian", "apart").bind(("age", "place", "sex"))
    for row, message in (([0, 4, 0], "column place of X has an entry in row 0"), ([0, 0, 0.5], "column sex")):
        with pytest.raises(ValueError, match=message):
            release.privatize(np.array([row], dtype=float), [1.0])
    with pytest.raises(ValueError, match="X has 5 columns, but the release has 3: age, place, sex"):
        release.privatize(np.zeros((2, 5)), [1.0, 1.0])
    with pytest.raises(ValueError, match="X has 3 columns, but the release has 5"):
        release.design_matrix(np.zeros((2, 3)))


def test_no_categories_are_nothing():
    nothing = OneHot.declared(None, intercept=True)
    assert not nothing
    assert nothing.released(("a", "b")) == nothing.collected(("a", "b")) == ("a", "b")
