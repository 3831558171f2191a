"""Passes over design rows: compiled ones say what NumPy's say, whatever columns and weights."""

import numpy as np
import pytest
from instances import records

import symdebias as sd
from symdebias._rows import spread
from symdebias.codegen import rows
from symdebias.solvers import moments
from symdebias.solvers.curvature import least_curvature
from symdebias.solvers.health import Examination
from symdebias.solvers.metric import inverse_root
from symdebias.solvers.moments import moments_of_records, most_leverage, released_moments
from symdebias.solvers.step_sizes import learned_steps

pytestmark = pytest.mark.newest

MIXED = sd.Release(
    {("a", "b"): sd.GaussianMechanism.from_scale(0.5), "c": sd.RandomizedResponse(2.0, categories=("x", "y", "z"))},
    fit_intercept=True,
)
PLAIN = sd.Release({("a", "b", "c"): sd.GaussianMechanism.from_scale(0.5)})


def released(release, n=40_000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    X[:, 2] = rng.integers(0, 3, n)
    return sd.debias(sd.losses.least_squares(), release), X, X[:, 0] + rng.normal(size=n), rng.uniform(0.1, 2.0, n)


@pytest.mark.parametrize("release", [MIXED, PLAIN], ids=["categories", "numbers"])
@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_passes_say_what_numpy_says(monkeypatch, release, weighted):
    corrected, X, y, weights = released(release)
    chosen = []
    for least in (2**40, 1):
        monkeypatch.setattr(moments, "_COMPILED_FROM", least)
        monkeypatch.setattr(rows, "FEW_COLUMNS", 0)
        checked = corrected.records(X, y, sample_weight=weights if weighted else None)
        found = moments_of_records(checked, checked.correction.noise_covariance())
        metric = released_moments(checked)
        assert "corner" in checked.seen
        root = inverse_root(metric)
        far = moments.leverages(checked.correction.design, checked.matrix, root, compiled=least == 1)
        chosen.append((found.gram[0], found.mean[0], found.cross, found.target_square, metric, far))
        chosen[-1] += (most_leverage(checked, root),)
    for one, other in zip(*chosen, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("columns", "compiled"), [(4, False), (5, True)])
def test_leverages_of_few_columns_compile_nothing(monkeypatch, columns, compiled):
    """The pass for many records is worth its compilation where rows are long."""
    asked = []
    monkeypatch.setattr(rows, "compiled", lambda **options: lambda *given: asked.append(options["with_leverages"]))
    release = sd.Release({f"x{j}": sd.GaussianMechanism.from_scale(0.5) for j in range(columns)})
    design = sd.debias(sd.losses.least_squares(), release).at(columns).design
    moments.leverages(design, np.ones((10, columns)), np.eye(columns), compiled=True)
    assert bool(asked) is compiled


def test_other_records_have_another_corner(monkeypatch):
    """What was seen of all records is not taken for what a part of them has."""
    monkeypatch.setattr(moments, "_COMPILED_FROM", 1)
    corrected, X, y, _ = released(PLAIN)
    X[1] = 1e3
    checked = corrected.records(X, y)
    root = inverse_root(released_moments(checked))
    assert most_leverage(checked.thinned(2), root) < 1e-3 * most_leverage(checked, root)
    assert "corner" in checked.under(checked.correction.uncorrected).seen


def test_curvatures_by_second_derivatives_and_by_differences_of_first_ones():
    loss, release = sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(0.3))
    corrected = sd.debias(loss, release)
    X, y = records(3_000, 3)
    checked = corrected.records(X, y)
    theta, penalty, metric = np.array([0.3, -0.2, 0.1]), np.full(3, 0.1), released_moments(checked)
    one, other = (
        least_curvature(checked, theta, penalty, metric, by_derivatives=by_derivatives)
        for by_derivatives in (False, True)
    )
    np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-5, atol=1e-7)
    steps = [
        learned_steps(checked, theta, penalty, metric, 128, 24, in_units=False, by_derivatives=by_derivatives)[0]
        for by_derivatives in (False, True)
    ]
    np.testing.assert_allclose(*(steps_of(np.array([1.0, 9.0])) for steps_of in steps), rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_what_a_standstill_is_compared_with_takes_no_other_pass(weighted, monkeypatch):
    corrected = sd.debias(sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    X, y = records(3_000, 2)
    X[:, 0] += y
    checked = corrected.records(X, y, sample_weight=np.where(y > 0, 1.0, 0.1) if weighted else None)
    start, theta, nothing = np.zeros(2), np.array([1e-3, 0.0]), np.zeros(2)
    said = []
    for by_derivatives in (False, True):
        examination = Examination(checked, released_moments(checked), by_derivatives=by_derivatives)
        examination.of(theta, nothing, with_curvature=False)
        if by_derivatives:
            monkeypatch.setattr(type(checked), "mean_gradient", lambda *_: pytest.fail("another kernel"))
        said.append(examination.standstill(start, theta, nothing))
    assert "the mean gradient is 1 times that at the start" in said[0]
    assert said[1] == said[0]


@pytest.mark.parametrize("count", [1_000, 5_000, 100_000, 123_457])
@pytest.mark.parametrize("weighted", [False, True])
def test_records_that_are_looked_at_are_every_so_many_of_those_with_weight(count, weighted):
    X = np.arange(2.0 * count).reshape(-1, 2)
    weights = np.where(np.arange(count) % 3 == 0, 0.0, 1.0) if weighted else None
    corrected = sd.debias(sd.losses.least_squares(), sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.5)}))
    checked = corrected.records(X, X[:, 0], sample_weight=weights)
    places = np.flatnonzero(weights) if weighted else np.arange(count)
    near, far = (max(1, len(places) // most) for most in (10_000, 2_000))
    tested = places[spread(len(places), near)]
    # They are among those, where the strides say so.
    looked_at = places[spread(len(places), far)] if far % near else tested[spread(len(tested), far // near)]
    for found, expected in ((checked.tested, tested), (checked.looked_at, looked_at)):
        np.testing.assert_array_equal(found.matrix, X[expected])
        assert found.matrix.flags.c_contiguous
