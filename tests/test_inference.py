"""Tests of restrictions on arrays, and of how far intervals reach, apart from any fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symdebias.exceptions import InferenceError
from symdebias.inference import skewed_reaches, wald_test


def test_what_has_no_variance_is_not_tested():
    """Parameters of softmax sum to 0 over the classes, and a parameter that is held does not vary."""
    apart = np.eye(3) - 1 / 3
    for rows in (np.eye(3), np.ones(3)):
        with pytest.raises(InferenceError, match="has no variance, and cannot be tested"):
            wald_test(np.array([1.0, 2.0, -3.0]), 0.01 * apart, rows)
    assert wald_test(np.array([1.0, 2.0, -3.0]), 0.01 * apart, np.eye(3)[:2]).degrees_of_freedom == 2
    with pytest.raises(InferenceError, match="a parameter is held"):
        wald_test(np.array([1.0, 2.0]), np.diag([0.0, 1.0]), [1.0, 0.0])
    # Other units are no reason.
    units = np.array([1e-9, 1.0, 1e9])
    assert wald_test(units, np.diag(units**2), np.eye(3)).statistic == pytest.approx(3)


@given(st.floats(0.0, 60.0), st.floats(-0.7, 0.7))
def test_the_far_end_of_a_skewed_estimate_is_that_of_the_transformed_error(reach, skewness):
    """g as of 2 records that decide is at most .71. The polynomial is solved to rounding, next to 0 as well."""
    below, above = skewed_reaches(reach, skewness)
    near, far = (below, above) if skewness >= 0 else (above, below)
    assert near == reach
    assert far >= reach
    g = abs(skewness)
    moved = -far + g * far**2 / 3 - g**2 * far**3 / 27 + g / 6
    # Far out the cube brings it nearer than without: at the usual levels, never.
    assert moved == pytest.approx(-reach, rel=1e-9, abs=1e-9) or (far == reach > 8 and moved < -reach)
