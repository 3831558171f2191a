"""Columns of categories in a plan: the ball that holds their indicators, and the release that makes them."""

import itertools
import math

import numpy as np
import pytest

import symdebias as sd
from symdebias.planning import Population
from symdebias.planning.layout import Layout

CATEGORIES = {"place": ("n", "e", "s", "w"), "sex": ("f", "m")}
COLUMNS = ("age", "place", "hours", "sex")


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, n), rng.integers(0, 2, n)
    X = np.column_stack([rng.uniform(-1, 1, n), codes[0], rng.uniform(-1, 1, n), codes[1]])
    score = X[:, 0] + 0.4 * (codes[0] == 3) - 0.3 * X[:, 2] + 0.5 * codes[1]
    return Population(X, np.where(rng.random(n) < 1 / (1 + np.exp(-score)), 1.0, -1.0))


@pytest.mark.parametrize("sizes", [(2,), (3,), (4, 2), (7, 3, 2)])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_ball_holds_all_records_and_no_smaller_one_does(sizes, intercept):
    """Over all categories and both ends of a number, in both norms."""
    categories = {f"c{place}": tuple(f"v{code}" for code in range(size)) for place, size in enumerate(sizes)}
    rows = [(end, *codes) for end in (-1.0, 1.0) for codes in itertools.product(*map(range, sizes))]
    layout = Layout.of(Population(np.array(rows), np.ones(len(rows))), ("x", *categories), categories, None, intercept)
    for order, bound in ((2, layout.radius), (1, layout.taxicab)):
        longest = np.linalg.norm(layout.vectors.X, ord=order, axis=1).max()
        assert longest <= bound <= longest * (1 + 1e-12)
    known = sd.SphericalLaplaceMechanism(1.0, layout.radius)
    release = sd.Release({layout.columns: known}, fit_intercept=intercept, **layout.options())
    assert release.bind(layout.columns).columns == layout.vector_names


def test_without_categories_a_layout_is_the_ball_of_the_numbers():
    population = Population(np.array([[0.5, -1.0], [1.0, 1.0]]), np.array([1.0, -1.0]))
    layout = Layout.of(population, None, None, None, True)
    assert (layout.columns, layout.radius, layout.taxicab) == (("x0", "x1"), math.sqrt(2), 2.0)
    assert Layout.of(population, None, None, 0.5, True).radius == 0.5
    assert layout.options() == {}


def plan(**options):
    defaults = {"epsilon": 6.0, "n": 1e5, "columns": COLUMNS, "categories": CATEGORIES, "fit_intercept": True}
    return sd.plan(sd.losses.squared_margin(), people(), **defaults | options)


@pytest.mark.in_turn
def test_a_plan_of_one_vector_returns_the_release_of_the_table():
    """Its release takes codes and clips nobody, and its errors are those of the indicators as numbers."""
    found = plan(mechanisms=["spherical cap"], target="margin").best.expected
    release = found.release
    assert release.columns == ("age", "place=e", "place=s", "place=w", "hours", "sex=m")
    assert dict(release.center)["place=e"] == pytest.approx(1 / 3)
    assert release.guarantee.epsilon == 6.0
    assert found.standard_errors.shape == (7,)
    population = people(2_000, seed=1)
    # A warning of clipping would be an error here.
    noised = release.privatize(population.X, population.y, random_state=0)
    assert noised.X.shape == (2_000, 6)
    layout = Layout.of(people(), COLUMNS, CATEGORIES, None, True)
    as_numbers = sd.Release(
        {layout.vector_names: release.groups[0][1]}, target="margin", fit_intercept=True,
        target_scale=release.coupling.scale,
    )  # fmt: skip
    same = sd.planning.expected_fit(sd.losses.squared_margin(), as_numbers, layout.vectors, n=1e5)
    np.testing.assert_allclose(found.standard_errors, same.standard_errors, rtol=1e-9)


@pytest.mark.in_turn
def test_a_release_of_indicators_is_planned_and_tried_out_with_records_as_they_are_collected():
    """A mean of 12 fits is within 4.5 of its standard errors: false alarms 5e-5, and 1.3 of those of a fit are seen."""
    loss, own = sd.losses.squared_margin(), people(2_000, seed=1)
    found = plan(target="margin", mechanisms=["spherical cap"], n=1e5).best.expected
    release = found.release
    again = sd.planning.expected_fit(loss, release, people(), n=1e5)
    np.testing.assert_allclose(again.standard_errors, found.standard_errors, rtol=1e-6)
    assert again.release == release
    needed = sd.planning.records_needed(loss, release, people(), standard_error=float(found.standard_errors.max()))
    assert needed.records == pytest.approx(1e5, rel=1e-3)
    tried = sd.planning.rehearse(loss, release, own, n=50_000, fits=12)
    assert tried.names == ("age", "place=e", "place=s", "place=w", "hours", "sex=m", "intercept")
    assert (tried.refused, tried.clipped) == (0, 0)
    away = (tried.thetas.mean(axis=0) - tried.theta) / np.median(tried.standard_errors, axis=0) * math.sqrt(12)
    assert np.abs(away).max() < 4.5


UNITS = {"center": {"age": 54.0, "hours": 40.0}, "scale": {"age": 36.0, "hours": 40.0}}


def in_years_and_hours():
    population = people()
    own = population.X * [36.0, 1.0, 40.0, 1.0] + [54.0, 0.0, 40.0, 0.0]
    return Population(own, population.y)


@pytest.mark.in_turn
@pytest.mark.parametrize("target", ["noised", pytest.param("margin", marks=pytest.mark.exhaustive)])
def test_columns_in_their_own_units_are_planned_as_they_are_released(target):
    """The same errors as for columns in [-1, 1], and a release that takes years, hours and codes."""
    own = in_years_and_hours()
    options = {"mechanisms": ["laplace"], "target": target}
    found = sd.plan(
        sd.losses.squared_margin(), own, epsilon=6.0, n=1e5, columns=COLUMNS, categories=CATEGORIES,
        fit_intercept=True, **UNITS, **options,
    ).best  # fmt: skip
    same = plan(**options).best
    np.testing.assert_allclose(found.expected.covariance, same.expected.covariance, rtol=1e-9)
    for expected in filter(None, (found.expected, found.half)):
        release = expected.release
        assert dict(release.center) == UNITS["center"] | {
            "place=e": 1 / 3, "place=s": 1 / 3, "place=w": 1 / 3, "sex=m": 0.5,
        }  # fmt: skip
        assert dict(release.scale) == UNITS["scale"]
        # A warning of clipping would be an error here.
        assert release.privatize(own.X, own.y, random_state=0).X.shape == (400, 6)


def test_numbers_alone_have_centres_and_scales_in_their_order():
    population = Population(np.array([[20.0, -3.0], [30.0, 5.0]]), np.array([1.0, -1.0]))
    layout = Layout.of(population, None, None, None, True, [25, 1], np.array([5.0, 4.0]))
    np.testing.assert_allclose(layout.vectors.X, [[-1, -1], [1, 1]])
    assert (layout.radius, layout.is_released) == (math.sqrt(2), False)
    assert layout.options() == {"center": {"x0": 25.0, "x1": 1.0}, "scale": {"x0": 5.0, "x1": 4.0}}


@pytest.mark.exhaustive
def test_all_mechanisms_are_compared_by_default():
    """And with a mechanism per column categories are noised by randomized response, in the order of the table."""
    found = plan(target="public", n=1e6)
    options = {option.title: option for option in found.options}
    assert set(options) == {"gaussian", "laplace", "spherical laplace", "spherical cap", "laplace per column"}
    assert found.best.title == "spherical cap"
    by_column = options["laplace per column"]
    kinds = [mechanism.kind for _, mechanism in by_column.expected.release.groups]
    assert kinds == ["laplace", "randomized_response", "laplace", "randomized_response"]
    assert sum(by_column.budgets) <= 6.0


BAD = {
    "no names": ({"columns": None}, ValueError, r"columns were not given\. Give columns=, the names of the 4 columns"),
    "too few names": (
        {"columns": ("age", "place", "sex")},
        ValueError,
        "3 columns were named, and the population has 4",
    ),
    "another column": ({"categories": {"town": ("a", "b")}}, ValueError, "categories names town, which is no column"),
    "codes beyond": ({"categories": {"place": ("n", "e")}}, ValueError, "no codes of its categories. Give .* 0 to 1"),
    "one category": ({"categories": {"sex": ("f",)}}, ValueError, "two or more|does not list"),
    "numbers beyond": ({"categories": {"sex": ("f", "m")}}, ValueError, r"features outside \[-1, 1\]"),
    "a centre of categories": ({"center": {"place": 1.0}}, ValueError, "center names 'place', a column of categories"),
    "a scale of none": ({"scale": {"years": 2.0}}, ValueError, "scale names years, which is no column"),
    "a scale of 0": ({"scale": {"age": 0.0}}, ValueError, r"scale\['age'\]=0\.0 is too small"),
    "too few centres": ({"center": [1.0, 2.0]}, ValueError, "center has 2 entries"),
    "a small scale": ({"scale": {"age": 0.5}}, ValueError, r"'age' reaches 1\.9\d+ in size when it is centred and"),
    "no mapping": ({"categories": ("place",)}, TypeError, "must map column names"),
}


@pytest.mark.parametrize("case", BAD)
def test_layouts_that_are_refused(case):
    options, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        plan(mechanisms=["spherical cap"], target="margin", **options)
