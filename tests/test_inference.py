"""Tests of restrictions on arrays, apart from any fit."""

import numpy as np
import pytest

from symdebias.exceptions import InferenceError
from symdebias.inference import wald_test


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
