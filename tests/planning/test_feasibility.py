"""Plans of a schema: columns of numbers that are released in their own units."""

import numpy as np
import pytest

from symdebias.planning import feasibility


def of_bounds(low, high):
    columns = {"age": {"bounds": [18, 90]}, "pay": {"bounds": [low, high], "outcome": True}}
    target = {"name": "spent", "bounds": [0, 10]}
    return feasibility({"epsilon": 8.0, "loss": "least_squares", "columns": columns, "target": target}, n=50_000)


def test_a_column_that_may_be_a_target_is_planned_in_its_own_units():
    """Its unit moves its coefficient and nothing else."""
    own, unit = of_bounds(20.0, 100.0), of_bounds(-1.0, 1.0)
    assert own.names == unit.names == ("age", "pay", "intercept")
    age, pay, _ = unit.expected.standard_errors
    np.testing.assert_allclose(own.expected.standard_errors[:2], [age, pay / 40], rtol=1e-6)
    assert own.units.tolist() == [36.0, 1.0, 1.0]
    assert own.needed == pytest.approx(unit.needed, abs=1)
    assert own.is_feasible
