"""Plans: ordered, explicit about what they assume, and on the command line."""

import re
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.exceptions import InferenceError, NoExactCorrectionError
from symdebias.interfaces import cli
from symdebias.planning import Option, Plan, Population

pytestmark = pytest.mark.newest

EXPONENTIAL = sd.losses.exponential()
POPULATION = Population.guess([2.0, -1.0])


@pytest.mark.exhaustive
def test_a_plan_orders_its_options_and_says_what_it_assumes():
    population = Population.guess([1.0, -0.5], family="normal")
    loss = sd.losses.least_squares()
    plan = sd.plan(loss, population, epsilon=8.0, standard_error=0.01, target_bounds=(-6.0, 6.0))
    records = [option.expected.records for option in plan.options]
    assert records == sorted(records)
    assert plan.best is plan.options[0]
    for option in plan.options:
        assert option.expected.release.guarantee.epsilon <= 8.0
        assert option.half.criterion("worst") >= 0.98 * option.expected.criterion("worst")
    text = str(plan)
    for part in ("gaussian", "laplace", "half-half", "one is worth", "epsilon 8 in all"):
        assert part in text


def test_a_plan_without_an_option_says_why():
    plan = Plan((Option("gaussian", None, refusal="too much noise"),), "worst", None, 1.0)
    assert "refused" in str(plan)
    with pytest.raises(NoExactCorrectionError, match="too much noise"):
        _ = plan.best


@pytest.mark.in_turn
def test_a_plan_beyond_the_budgets_of_a_cap_compares_the_others():
    plan = sd.plan(sd.losses.squared_margin(), POPULATION, epsilon=40.0, n=1e5, target="margin")
    assert [option.mechanism for option in plan.options if option.expected is None] == ["spherical cap"]
    assert "epsilon=40.0 is too large" in plan.options[-1].refusal
    (alone,) = sd.plan(
        sd.losses.squared_margin(), POPULATION, epsilon=40.0, n=1e5, target="margin", mechanisms=["spherical cap"]
    ).options
    assert alone.expected is None


def test_a_plan_of_margins_compares_noise_that_is_alike_in_all_directions():
    plan = sd.plan(sd.losses.squared_margin(), POPULATION, epsilon=4.0, n=1e5, target="margin")
    options = {option.mechanism: option.expected for option in plan.options}
    assert set(options) == {"gaussian", "laplace", "spherical laplace", "spherical cap"}
    for name in ("spherical laplace", "spherical cap"):
        assert (options[name].release.guarantee.epsilon, options[name].release.guarantee.delta) == (4.0, 0.0)
    # Pure, and of two columns in the square: noise variances 6, 8 and 13 times (1/2)^2, and .35 of a cap.
    assert [option.mechanism for option in plan.options] == [
        "spherical cap",
        "spherical laplace",
        "laplace",
        "gaussian",
    ]


@pytest.mark.exhaustive
def test_a_free_form_loss_in_its_own_units_is_planned_column_by_column():
    x1, x2, a, b, y = sp.symbols("x1 x2 a b y", real=True)
    loss = sd.Loss.of_features((y - a * x1**2 - b * x2) ** 2 / 2, features=[x1, x2], parameters=[a, b], target=y)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2_000, 2))
    population = Population(X * [5, 10] + [10, 20], 1.5 * X[:, 0] ** 2 - X[:, 1] + rng.normal(size=2_000))
    plan = sd.plan(
        loss, population, epsilon=12.0, n=1e6, target="public", mechanisms=["laplace per column", "spherical laplace"],
        center=[10, 20], scale=[5, 10],
    )  # fmt: skip
    best = plan.best
    assert best.mechanism == "laplace per column"
    # Undoing the noise of a square costs more.
    assert best.budgets[0] > 2 * best.budgets[1]
    assert dict(best.expected.release.center) == {"x0": 10.0, "x1": 20.0}
    assert "this loss is in features by name" in plan.options[1].refusal


@pytest.mark.exhaustive
def test_a_plan_of_any_target_compares_what_the_loss_allows():
    plan = sd.plan(
        sd.losses.squared_margin(), POPULATION, epsilon=4.0, n=1e5, target="any", mechanisms=["gaussian", "laplace"]
    )
    assert {option.title for option in plan.options} == {"gaussian", "laplace", "margin, gaussian", "margin, laplace"}
    assert plan.best.title == "margin, laplace"
    assert plan.best.expected.release.coupling is not None
    assert "margin, laplace" in str(plan)
    counts = Population.guess([1.0, -0.5], family="count")
    only = sd.plan(
        sd.losses.poisson(), counts, epsilon=20.0, n=1e6, target="any", target_bounds=(0, 10), mechanisms=["gaussian"]
    )
    assert [option.target for option in only.options] == ["noised"]


@pytest.mark.exhaustive
def test_the_weight_of_the_target_under_spherical_noise_is_chosen():
    """A weight four times as large or as small has larger errors; R/B and the root of R are in the middle."""
    population = sd.planning.Population(POPULATION.X, POPULATION.X @ [1.0, -0.5] + 0.2)
    for loss, of, options in (
        (sd.losses.squared_margin(), POPULATION, {"target": "margin", "fit_intercept": True}),
        (sd.losses.least_squares(), population, {"target": "joint", "target_bounds": (-4, 4)}),
    ):
        plan = sd.plan(loss, of, epsilon=4.0, n=1e6, **options)
        assert {option.mechanism for option in plan.options} == {
            "gaussian", "laplace", "spherical laplace", "spherical cap",
        }  # fmt: skip
        assert plan.best.mechanism == "spherical cap"
        best = next(option for option in plan.options if option.mechanism == "spherical laplace")
        release = best.expected.release
        weight = release.coupling.scale
        assert any(f"the weight of the target is {weight:.3g}" in note for note in best.expected.notes)
        for other in (weight / 4, 4 * weight):
            declared = {**options, "target_scale": other}
            worse = sd.Release(dict(release.groups), **declared)
            expected = sd.planning.expected_fit(loss, worse, of, n=1e6)
            assert expected.standard_errors.max() > best.expected.standard_errors.max()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=4.0), ValueError, "neither"),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=4.0, n=10, standard_error=1.0), ValueError, "both"),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=10, mechanisms="gaussian"), ValueError, "list"),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=10, target="secret"), ValueError, "target"),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=10, criterion="best"), ValueError, "criterion"),
        (
            lambda: sd.plan(sd.losses.least_squares(), POPULATION, epsilon=1.0, n=10),
            ValueError,
            "no public bounds",
        ),
        (
            lambda: sd.plan(sd.losses.least_squares(), POPULATION, epsilon=1.0, n=10, target_bounds=(1, -1)),
            ValueError,
            r"target_bounds=\(1\.0, -1\.0\) are not in order",
        ),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=10, random_state="a"), TypeError, "random_state must"),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=10, random_state=-1), ValueError, "random_state=-1"),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=1e308), ValueError, r"n=1e\+308 is too large"),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=0.5), ValueError, r"n=0\.5 is no number of records"),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=10, columns=2), TypeError, "must be a sequence"),
        (lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=10, columns="ab"), TypeError, "must be a sequence"),
        (
            lambda: sd.plan(EXPONENTIAL, POPULATION, epsilon=1.0, n=10, mechanisms=np.array("laplace")),
            ValueError,
            "must be a list with some of",
        ),
        (
            lambda: sd.planning.records_needed(
                EXPONENTIAL, sd.Release(sd.GaussianMechanism.from_scale(0.1)), POPULATION, standard_error=1e-320
            ),
            InferenceError,
            r"1e\+18 records still leave an error of .*e-[0-9]+, of which up to 0 is a bias.*Ask for less",
        ),
        (
            lambda: sd.planning.expected_fit(
                EXPONENTIAL, sd.Release(sd.GaussianMechanism.from_scale(0.1)), POPULATION, n=10, start=[1e200, 1.0]
            ),
            ValueError,
            r"start has an entry of size 1e\+200, and squares of scores overflow",
        ),
    ],
)  # fmt: skip
def test_bad_plans_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_penalty_is_any_kind_of_number():
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1))
    found = [sd.planning.expected_fit(EXPONENTIAL, release, POPULATION, n=10, l2=l2) for l2 in (Fraction(1, 2), 0.5)]
    np.testing.assert_array_equal(found[0].covariance, found[1].covariance)


def test_the_command_answers_a_collectors_question(capsys, tmp_path):
    words = "plan --loss least-squares --theta 1,-0.5 --epsilon 8 --records 100000 --mechanisms gaussian".split()
    words.append("--public-target")
    picture = tmp_path / "plan.png"
    assert cli.main([*words, "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "best: gaussian" in text
    assert re.search(r"gaussian\s+100,000", text)
    assert picture.stat().st_size > 5_000
    assert cli.main([*words, "--columns", "2"]) == 1
    assert "not both" in capsys.readouterr().err
    assert cli.main([*words, "--plot", str(tmp_path / "missing" / "plan.png")]) == 1
    assert "is not there. Make it, or name another place" in capsys.readouterr().err


@pytest.mark.in_turn
def test_a_polynomial_stands_for_itself_under_a_cap():
    """Least squares has nothing that a surrogate would replace: exact and by surrogate are one fit."""
    population = sd.planning.Population(POPULATION.X, POPULATION.X @ [1.0, -0.5])
    options = {"target": "joint", "target_bounds": (-4, 4)}
    plan = sd.plan(sd.losses.least_squares(), population, epsilon=4.0, n=1e6, mechanisms=["spherical cap"], **options)
    release = plan.best.expected.release
    exact, other = (
        sd.planning.expected_fit(sd.losses.least_squares(), release, population, n=1e6, method=method)
        for method in ("exact", "surrogate")
    )
    np.testing.assert_allclose(exact.standard_errors, other.standard_errors, rtol=1e-9)
    assert not np.any(other.bias)
