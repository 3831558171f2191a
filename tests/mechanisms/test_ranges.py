"""Ranges: what they take, how wide they are, and that nothing outside goes through."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symdebias.mechanisms import GaussianMechanism, LaplaceMechanism, RandomizedResponse
from symdebias.mechanisms.clipping import in_ball
from symdebias.mechanisms.input_perturbation import Halves
from symdebias.mechanisms.ranges import Ball, Grid, Labels, Numbers, rounded_up

# range, bound, width, sensitivity (None where nothing is declared), the farthest values
RANGES = [
    (Numbers((-3, 2)), 3.0, 1, Fraction(5), (-3.0, 2.0)),
    (Numbers(), None, None, None, None),
    (Ball(0.1), 0.1, None, 2 * Fraction(0.1), (-0.1, 0.1)),
    (Ball(0.1, order=1), 0.1, None, 2 * Fraction(0.1), (-0.1, 0.1)),
    (Ball(), None, None, None, None),
    (Grid((-0.3, 0.1), 0.1), 0.3, 1, 4 * Fraction(0.1), (-0.3, 0.1)),
    (Grid(None, 2), None, None, None, None),
    (Labels((-2.0, 1.0)), 2.0, 1, None, None),
    (Labels(("n", "e", "s")), 2.0, 1, None, None),
]


@pytest.mark.parametrize(("inside", "bound", "width", "sensitivity", "farthest"), RANGES, ids=repr)
def test_what_a_range_says(inside, bound, width, sensitivity, farthest):
    assert (inside.bound, inside.width, inside.farthest) == (bound, width, farthest)
    if sensitivity is not None:
        assert inside.sensitivity == sensitivity
        apart = np.subtract(*inside.farthest)
        assert abs(apart) == pytest.approx(float(sensitivity), rel=1e-15)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20), st.sampled_from([one[0] for one in RANGES[:6]]))
def test_what_is_clipped_is_inside_and_a_copy(numbers, inside):
    values = np.array(numbers)
    if isinstance(inside, Grid):
        values = np.rint(np.clip(values, -1e9, 1e9)) * inside.step
    before = values.copy()
    clipped, outside = inside.clip(values)
    assert clipped is not values
    np.testing.assert_array_equal(values, before)
    if inside.bound is not None:
        assert np.all(np.abs(clipped) <= inside.bound)
    np.testing.assert_array_equal(clipped[~outside], values[~outside])


def test_halves_lie_in_a_ball_each():
    inside = Halves(1, 1.0, 2.0)
    clipped, outside = inside.clip(np.array([[3.0, 1.0], [0.5, -9.0], [0.5, 2.0]]))
    np.testing.assert_allclose(clipped, [[1.0, 1.0], [0.5, -2.0], [0.5, 2.0]], rtol=1e-12)
    assert outside.tolist() == [True, True, False]
    assert (inside.width, inside.bound) == (2, pytest.approx(math.sqrt(5)))
    np.testing.assert_array_equal(inside.farthest, [[1.0, 2.0], [-1.0, -2.0]])


@given(st.fractions(0, 100, max_denominator=10**9))
def test_rounding_is_to_the_safe_side_and_no_further(exact):
    found = rounded_up(exact)
    assert Fraction(found) >= exact
    assert Fraction(math.nextafter(found, -math.inf)) < exact


def test_labels_have_codes_in_the_order_given():
    assert Labels((3.0, 1.0, 2.0)).codes(np.array([1.0, 3.0])).tolist() == [1, 0]
    assert Labels.declared(("b", "a"), "categories").numbers == (0.0, 1.0)
    assert [Labels(values).is_number_pair for values in ((0.0, 1.0), ("a", "b"), (0.0, 1.0, 2.0))] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Labels.declared(("a", "a"), "inputs"), "inputs=.* does not list two or more different values"),
    (lambda: Labels.declared(("a", 1), "inputs"), "not a number"),
    (lambda: Labels.declared(("a", ""), "inputs"), "not a number"),
    (lambda: Labels((0.0, 1.0)).clip(np.zeros((2, 2))), "one label per record"),
    (lambda: Labels((0.0, 1.0)).clip(np.array([0.5])), "labels must be 0 or 1"),
    (lambda: Grid((0, 1e-13), 1), "no multiple|one point"),
    (lambda: Grid((1, 1 + 1e-13), 1), "one point of the grid"),
    (lambda: Grid((0, 2**53), 1), "more than 2\\^52 steps"),
    (lambda: Numbers((0, 1)).clip(np.zeros((2, 2))), "mechanism of its own"),
    (lambda: Ball(-1.0), "radius"),
])  # fmt: skip
def test_what_is_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", ["all inside", "all outside", "half", "on the sphere"])
def test_every_row_passes_through_the_same_arithmetic(order, kind, monkeypatch):
    """How often NumPy is called, and on how many numbers, does not depend on which rows are clipped."""
    work = {}
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(64, 3))
    rows /= np.linalg.norm(rows, axis=1, ord=order, keepdims=True)
    factors = {"all inside": 0.5, "all outside": 7.0, "half": np.where(np.arange(64) % 2, 0.5, 7.0)[:, None]}
    for which in ("all inside", kind):
        seen = []

        class Watched(np.ndarray):
            def __array_ufunc__(self, ufunc, method, *inputs, seen=seen, **options):
                plain = [np.asarray(value) if isinstance(value, Watched) else value for value in inputs]
                out = options.get("out")
                if out is not None:
                    options["out"] = tuple(np.asarray(value) for value in out)
                options = {
                    key: np.asarray(value) if isinstance(value, Watched) else value for key, value in options.items()
                }
                seen.append((ufunc.__name__, method, max(np.size(value) for value in plain)))
                found = getattr(ufunc, method)(*plain, **options)
                return found.view(Watched) if isinstance(found, np.ndarray) else found

        ball = Ball(1.0, order)
        values = rows * factors.get(which, 1.0)
        clipped, _ = in_ball(values.view(Watched), 1.0, order=order)
        ball.multiples(np.asarray(clipped).view(Watched), 2.0**-12)
        work[which] = seen
    assert len(work[kind]) > 5
    assert work[kind] == work["all inside"]


@pytest.mark.parametrize("shape", [(50,), (50, 1), (50, 3), (4, 200)])
def test_values_that_are_given_up_are_clipped_as_others_and_in_their_place(shape, monkeypatch):
    """Some rows at a time: of whole blocks, so that each row passes through the same arithmetic."""
    monkeypatch.setattr("symdebias.mechanisms.clipping._NUMBERS", 8)
    monkeypatch.setattr("symdebias.mechanisms.clipping.draws.MANY", 10_000)
    mechanisms = [GaussianMechanism(1.0, 1e-5, radius=1.0), LaplaceMechanism(1.0, radius=0.5)]
    if np.prod(shape) == shape[0]:
        mechanisms.append(LaplaceMechanism(1.0, bounds=(-0.2, 0.3)))
    given = np.random.default_rng(0).normal(size=shape)
    given[1] *= 1e-200
    given[-1] *= 1e180  # its squares overflow
    for mechanism in mechanisms:
        expected = mechanism.clip(given)
        # After `clip`: chunks of 8 numbers or so.
        with monkeypatch.context() as patched:
            patched.setattr("symdebias.mechanisms.clipping._rows_in_place", lambda columns: max(1, 8 // columns))
            own = given.copy()
            found = mechanism.clip_in_place(own)
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.outside, expected.outside)
        assert found.values is own
        assert not own.flags.writeable
        for bad in (np.nan, np.inf):
            own = given.copy()
            own[2] = bad
            with monkeypatch.context() as patched:
                patched.setattr("symdebias.mechanisms.clipping._rows_in_place", lambda columns: 1)
                with pytest.raises(ValueError, match=r"in row 2\b"):
                    mechanism.clip_in_place(own)


def test_labels_that_are_given_up_are_clipped_as_others():
    """Their check names a row of all: no rows are taken apart."""
    own = np.array([-1.0, 1.0, 1.0])
    assert RandomizedResponse(1.0).clip_in_place(own).values is not own
