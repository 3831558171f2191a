"""Ranges of functions with branches, and the largest errors that rest on them."""

import numpy as np
import pytest
import sympy as sp

from symdebias.codegen.numeric import numeric
from symdebias.derivation.enclosures import enclosed, enclosure, largest
from symdebias.derivation.intervals import Range

U = sp.Symbol("u", real=True)
BRANCHED = [
    sp.Max(0, 1 - U, U / 2), sp.Min(U, 1), sp.Abs(U) * U, sp.sign(U - 1) * U**2, sp.Heaviside(U) + sp.exp(U),
    sp.Piecewise((U**2, sp.Abs(U) <= 1), (2 * sp.Abs(U) - 1, True)),
    sp.Piecewise((0, U < -1), (U + 1, (U >= -1) & (U < 1)), (2, True)),
    sp.Piecewise((1, sp.Or(U < -1, U > 1)), (U**2, True)), sp.Max(0, 1 - U) ** 2 / 2,
]  # fmt: skip


@pytest.mark.parametrize("expression", BRANCHED, ids=str)
def test_enclosures_hold_the_values(expression):
    rng = np.random.default_rng(0)
    low = rng.uniform(-3, 3, 400)
    high = low + 10.0 ** rng.uniform(-6, 0, 400)
    found, kinks = enclosure(expression, U, Range(low, high))
    values = numeric(expression, (U,))(low[:, None] + (high - low)[:, None] * np.linspace(0, 1, 50))
    assert np.all(values.min(axis=1) >= found.low - 1e-12)
    assert np.all(values.max(axis=1) <= found.high + 1e-12)
    assert kinks.any()
    assert not kinks.all()


def test_a_cell_that_shrinks_around_a_step_keeps_both_sides():
    found, kinks = enclosure(-sp.Heaviside(1 - U), U, Range(np.array([1 - 1e-12]), np.array([1 + 1e-12])))
    assert -1.0 - 1e-15 <= found.low.item() <= -1.0
    assert 0.0 <= found.high.item() <= 1e-15
    assert kinks.item()


def test_functions_and_conditions_without_interval_arithmetic_are_refused():
    assert enclosed(sp.gamma(U + 9), U) is None
    with pytest.raises(ValueError, match="condition"):
        enclosure(sp.Piecewise((U, sp.Eq(sp.sin(U), 0)), (1, True)), U, Range(np.zeros(1), np.ones(1)))


def test_jumps_are_seen_and_kinks_are_not():
    jumping = sp.Piecewise((0, U < sp.Rational(1, 3)), (sp.Rational(1, 1000), True))
    assert enclosed(jumping, U).jumps(numeric(jumping, (U,)), -2.0, 2.0)
    for expression in (sp.Abs(U), BRANCHED[5], BRANCHED[6]):
        assert not enclosed(expression, U).jumps(numeric(expression, (U,)), -2.0, 2.0)


@pytest.mark.parametrize(
    "expression",
    [
        sp.Max(0, 1 - U),
        sp.sin(40 * U),
        sp.exp(-((U - sp.Rational(1, 3)) ** 2) * 10**7),
        sp.Abs(U) - U**2,
        sp.log(U + 3),
    ],
    ids=str,
)
def test_the_largest_size_is_bounded_closely(expression):
    function = enclosed(expression, U)
    value, slope = numeric(expression, (U,)), numeric(sp.diff(expression, U), (U,))
    found = largest(
        lambda u: (value(u), slope(u), np.full(len(u), 1e-15)),
        lambda cells: (function.slopes(cells), function.curvatures(cells)),
        -2.0,
        2.0,
    )
    points = np.concatenate([np.linspace(-2, 2, 400_001), 1 / 3 + np.linspace(-1e-3, 1e-3, 10_001)])
    assert found.proved
    assert np.abs(value(points)).max() <= found.value <= 1.01 * np.abs(value(points)).max()
    assert np.abs(slope(points)).max() <= found.slope <= 1.01 * np.abs(slope(points)).max()


def test_without_ranges_the_largest_size_is_searched_for():
    found = largest(lambda u: (np.sin(u), np.cos(u), np.zeros(len(u))), None, -1.0, 3.0)
    assert not found.proved
    assert found.value == pytest.approx(1.0, abs=1e-9)
