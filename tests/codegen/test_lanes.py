"""Rows of tables and records side by side: what is made for rows does what its plain twins do."""

import numpy as np
import pytest
from numba import njit
from numba.extending import intrinsic

from symdebias.codegen import lanes

# Powers and waves: vectors of 8, 4, 2 and 1 numbers, rows without either, and a line of the cache that is full.
SIZES = [(2, 12), (0, 5), (1, 8), (9, 3), (7, 0), (5, 24)]
APART = 16


def filled(powers, waves, rows, rng):
    """Return rows with numbers in their lanes, and with none between and behind these."""
    found, own = np.full((rows, lanes.row_length(powers, waves)), np.nan), lanes.lanes_of_row(powers, waves)
    found[:, own] = rng.normal(size=(rows, len(own)))
    return found


@pytest.mark.parametrize(("powers", "waves"), SIZES)
def test_vectors_of_a_row_have_all_lanes_once(powers, waves):
    first = lanes.first_wave(powers)
    assert sorted(lanes.lanes_of_row(powers, waves)) == [*range(powers), *range(first, first + 2 * waves)]
    assert first % 8 == 0
    assert lanes.row_length(powers, waves) % 8 == 0


@pytest.mark.parametrize(("powers", "waves"), SIZES)
def test_rows_are_multiplied_added_and_summed_by_both_twins(powers, waves):
    rng = np.random.default_rng(0)
    table, length = filled(powers, waves, 5, rng), lanes.row_length(powers, waves)
    multiply, add, dot = (intrinsic(made(powers, waves)) for made in (lanes.multiplying, lanes.adding, lanes.dotting))

    @njit
    def compiled(into, table, length):
        multiply(into, length, table, 2 * length, table, 4 * length)
        add(into, 0, table, length, 0.75)
        return dot(into, length, table, 3 * length)

    def plain(into, table, length):
        lanes.plainly_multiplying(powers, waves)(into, length, table, 2 * length, table, 4 * length)
        lanes.plainly_adding(powers, waves)(into, 0, table, length, 0.75)
        return lanes.plainly_dotting(powers, waves)(into, length, table, 3 * length)

    begin = filled(powers, waves, 2, rng)
    found, wanted = begin.copy(), begin.copy()
    sums = compiled(found, table, length), plain(wanted, table, length)
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(*sums, rtol=1e-12)
    np.testing.assert_allclose(wanted[0], begin[0] + 0.75 * table[1])
    np.testing.assert_allclose(sums[1], np.nansum(wanted[1] * table[3]))
    # Of series the product is that of polynomials, and of complex numbers one by one.
    series = np.polynomial.polynomial.polymul(np.append(1.0, table[2, :powers]), np.append(1.0, table[4, :powers]))
    np.testing.assert_allclose(wanted[1, :powers], series[1 : powers + 1])
    first = lanes.first_wave(powers)
    waved = table[:, first : first + waves] + 1j * table[:, first + waves : first + 2 * waves]
    np.testing.assert_allclose(wanted[1, first : first + waves], (waved[2] * waved[4]).real)
    np.testing.assert_allclose(wanted[1, first + waves : first + 2 * waves], (waved[2] * waved[4]).imag)


def test_a_row_may_take_the_place_of_a_factor():
    table = filled(3, 12, 2, np.random.default_rng(0))
    multiply, length = intrinsic(lanes.multiplying(3, 12)), lanes.row_length(3, 12)

    @njit
    def compiled(table, length):
        multiply(table, 0, table, 0, table, length)

    wanted = table.copy()
    compiled(table, length)
    lanes.plainly_multiplying(3, 12)(wanted, 0, wanted, 0, wanted, length)
    np.testing.assert_allclose(table, wanted, rtol=1e-13)


@pytest.mark.parametrize(("powers", "waves"), SIZES)
def test_rows_are_turned_into_lanes_and_back_by_both_twins(powers, waves):
    rng = np.random.default_rng(0)
    table, length = filled(powers, waves, 20, rng), lanes.row_length(powers, waves)
    places = rng.permutation(20)[:8] * length
    out, back = (intrinsic(made(powers, waves, APART)) for made in (lanes.to_lanes, lanes.to_rows))

    @njit
    def compiled(kept, rows, table, places):
        out(kept, 8, table, places)
        back(rows, 0, kept, 8)

    def plain(kept, rows, table, places):
        lanes.plainly_to_lanes(powers, waves, APART)(kept, 8, table, places)
        lanes.plainly_to_rows(powers, waves, APART)(rows, 0, kept, 8)

    wanted = np.full((length, APART), np.nan)
    wanted[:, 8:] = table[places // length].T
    for function in (compiled, plain):
        kept, rows = np.full(length * APART, np.nan), np.full(8 * length, np.nan)
        function(kept, rows, table, places)
        np.testing.assert_array_equal(kept.reshape(length, APART), wanted)
        np.testing.assert_array_equal(rows.reshape(8, length), wanted[:, 8:].T)
