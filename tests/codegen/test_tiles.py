"""Tiles: eight rows are turned into columns, whatever their width."""

import numpy as np
import pytest
from numba import njit
from numba.extending import intrinsic

from symdebias.codegen import vectors
from symdebias.codegen.program import BLOCK


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 13])
def test_rows_are_turned_into_columns_by_both_twins(columns):
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(50, columns)), rng.permutation(50)[:8]
    turn = intrinsic(vectors.turning(columns, BLOCK))

    @njit
    def turned(tile, place, X, rows):
        turn(tile, place, X, rows)

    wanted = np.zeros((columns, BLOCK))
    wanted[:, 16:24] = X[rows].T
    for function in (turned, vectors.plainly_turning(columns, BLOCK)):
        tile = np.zeros((columns, BLOCK))
        function(tile, 16, X, rows)
        np.testing.assert_array_equal(tile, wanted)
