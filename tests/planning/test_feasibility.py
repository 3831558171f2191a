"""Plans of a schema: columns of numbers that are released in their own units."""

import numpy as np
import pytest

from symdebias.planning import feasibility


def of_bounds(low, high):
    columns = {"age": {"bounds": [18, 90]}, "pay": {"bounds": [low, high], "outcome": True}}
    target = {"name": "spent", "bounds": [0, 10]}
    return feasibility({"epsilon": 8.0, "loss": "least_squares", "columns": columns, "target": target}, n=50_000)


@pytest.mark.in_turn
def test_a_column_that_may_be_a_target_is_planned_in_its_own_units():
    """Its unit moves its coefficient and nothing else."""
    own, unit = of_bounds(20.0, 100.0), of_bounds(-1.0, 1.0)
    assert own.names == unit.names == ("age", "pay", "intercept")
    age, pay, _ = unit.expected.standard_errors
    np.testing.assert_allclose(own.expected.standard_errors[:2], [age, pay / 40], rtol=1e-6)
    assert own.units.tolist() == [36.0, 1.0, 1.0]
    assert own.needed == pytest.approx(unit.needed, abs=1)
    assert own.is_feasible


@pytest.mark.in_turn
def test_outcomes_without_a_target_are_named():
    """A plan is for one of them, where it is the target; the other one is a feature then, as it is in a fit."""
    pay, sick = {"bounds": [0, 9], "outcome": True}, {"categories": ["no", "yes"], "outcome": True}
    schema = {"epsilon": 8.0, "loss": "least_squares", "columns": {"pay": pay, "sick": sick}}
    with pytest.raises(ValueError, match=r"has the outcomes pay, sick and no target of its own, and a plan is for one"):
        feasibility(schema, n=1000)
    copy = {**schema, "columns": {"sick": sick}, "target": {"name": "pay", "bounds": [0, 9]}}
    assert feasibility(copy, n=1000).names == ("sick=yes", "intercept")


LABELS = {
    "epsilon": 3.0,
    "loss": "squared_margin",
    "design": "apart",
    "columns": {"age": {"bounds": [18, 90]}},
    "target": {"name": "income", "categories": ["low", "high"]},
}


def test_what_is_feasible_is_hardly_ever_refused():
    """Of 10,000 records errors are small enough, and the curvature is not told from its sampling error for certain."""
    found = feasibility(LABELS, n=10_000)
    assert found.expected.standard_errors[0] < 1 / 2.8
    assert 2.5 < found.expected.curvature < 5
    (note,) = (note for note in found.expected.notes if "may well be refused" in note)
    assert not found.is_feasible
    assert "not feasible: a fit may well be refused, as the note says. What would help: some " in str(found)
    # Both say the same number of records.
    assert f"About {found.needed:,.2g} records would do" in note
    assert feasibility(LABELS, n=1.01 * found.needed).is_feasible


@pytest.mark.in_turn
def test_gradients_with_heavy_tails_are_not_feasible():
    """Of ten fits to 200,000 such counts six are refused, though expected errors are a sixth of what they may be."""
    counts = {**LABELS, "epsilon": 8.0, "loss": "poisson", "target": {"name": "visits", "bounds": [0, 8]}}
    found = feasibility(counts, n=200_000)
    assert found.needed < 200_000
    assert found.expected.deciding < 100
    assert not found.is_feasible
    assert found.as_json()["feasible"] is False
    text = str(found)
    assert "not feasible: gradients have heavy tails, as the note says, and a fit is often refused" in text
    assert "decide an expected standard error" in text


def test_a_schema_without_a_loss_is_asked_for_one():
    with pytest.raises(ValueError, match=r"the schema names no loss, .*Pass loss= \(--loss on the command line\)"):
        feasibility({**LABELS, "loss": None}, n=10_000)


def test_more_categories_than_guessed_records_tell_of_are_refused():
    """Of 900 some had records of one label alone, and the plan was refused for that, or took an hour."""
    schema = {**LABELS, "columns": {"place": {"categories": [f"c{k}" for k in range(900)]}, "age": {"bounds": [0, 9]}}}
    message = r"901 numbers and categories, of which 'place' has 900, and a plan guesses 20,000 .* enough for 400\."
    with pytest.raises(ValueError, match=message):
        feasibility(schema, n=50_000)


@pytest.mark.parametrize(
    ("target", "loss", "message"),
    [
        ({"categories": ["low", "high"]}, "poisson", "is one of counts or amounts"),
        ({"bounds": [0, 9]}, "hinge", "is one of labels, and the target 'income' has bounds"),
    ],
)
def test_another_loss_than_that_of_a_schema_is_one_of_its_target(target, loss, message):
    schema = {"epsilon": 4.0, "columns": {"age": {"bounds": [18, 90]}}, "target": {"name": "income", **target}}
    with pytest.raises(ValueError, match=message):
        feasibility(schema, n=5_000, loss=loss)


@pytest.mark.in_turn
def test_a_guess_counts_indicators_where_a_column_is_released_as_categories():
    """With several outcomes a column of categories is released by itself, as codes; parameters are 1 all the same."""
    schema = {
        "epsilon": 30.0, "columns": {
            "region": {"categories": ["a", "b", "c", "d"]}, "visits": {"bounds": [0, 9], "outcome": True},
        },
        "target": {"name": "pay", "bounds": [-5, 5]},
    }  # fmt: skip
    found = feasibility(schema, n=100_000, loss="least_squares")
    codes = found.population.X[:, list(found.release.columns).index("region")]
    means = [found.population.y[codes == code].mean() for code in range(4)]
    # Of a score of 1 the guess moves the target by 1.5, but for its bounds.
    assert np.ptp(means[1:]) < 0.1
    assert means[1] - means[0] == pytest.approx(1.4, abs=0.2)


def test_a_schema_whose_columns_are_public_is_planned():
    schema = {
        "epsilon": 2.0, "columns": {"age": {"bounds": [18, 90], "public": True}},
        "target": {"name": "income", "categories": ["low", "high"]},
    }  # fmt: skip
    assert feasibility(schema, n=100_000, loss="logistic").is_feasible
