"""Sums of released vectors: streamed, merged, solved; and the estimate corrected for the noise, unbiased exactly."""

import copy
import itertools
import math

import gradient_moments
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import symdebias as sd
from symdebias.exceptions import DivergenceError, InferenceError
from symdebias.solvers import quadratic_statistics
from symdebias.solvers.quadratic_statistics import released_vectors


def released(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, d))


def filled(q, p, **options):
    statistics = sd.quadratic.QuadraticStatistics(q.shape[1], **options)
    statistics.add(q, p)
    return statistics


def state(statistics):
    return statistics.n, statistics.gram, statistics.linear, statistics._moments


@pytest.mark.parametrize("products", [False, True])
def test_any_order_and_any_blocks_give_the_same_sums(products, monkeypatch):
    q, p = released(1000, 3)
    whole = filled(q, p, products=products)
    monkeypatch.setattr(quadratic_statistics, "_BLOCK", 7)
    monkeypatch.setattr(quadratic_statistics, "_PRODUCT_BLOCK", 7)
    parts = sd.quadratic.QuadraticStatistics(3, products=products)
    for rows in (slice(600, None), slice(0, 1), slice(1, 600)):
        parts.add(q[rows], p[rows])
    left, right = filled(q[:300], p[:300], products=products), filled(q[300:], p[300:], products=products)
    left.merge(right)
    for other in (parts, left):
        for a, b in zip(state(whole), state(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(whole.gram, sum(np.outer(row, row) for row in q), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(whole.linear, p.sum(axis=0), rtol=1e-12, atol=1e-12)
    assert right.n == 700


@pytest.mark.parametrize("kind", ["list", "Fortran", "float32", "integers", "strided", "read-only"])
def test_arrays_of_any_kind(kind):
    q, p = np.arange(12.0).reshape(6, 2), np.ones((6, 2))
    wanted = state(filled(q, p))
    given_q = {
        "list": q.tolist(), "Fortran": np.asfortranarray(q), "float32": q.astype(np.float32),
        "integers": q.astype(int), "strided": np.repeat(q, 2, axis=0)[::2], "read-only": q.copy(),
    }[kind]  # fmt: skip
    if kind == "read-only":
        given_q.flags.writeable = False
    for a, b in zip(state(filled_of(given_q, p)), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def filled_of(q, p):
    statistics = sd.quadratic.QuadraticStatistics(2)
    statistics.add(q, p)
    return statistics


def test_the_server_minimises_what_it_says():
    """Against the explicit sum over records, at the minimum and around it."""
    q, p = released(50, 3, seed=1)
    statistics = filled(q, p)
    for radius, ridge in ((0.05, 0.0), (10.0, 0.0), (10.0, 25.0), (0.1, 3.0)):
        found = statistics.solve(radius=radius, regularisation=ridge)

        def objective(w, ridge=ridge):
            return np.mean((q @ w) ** 2 / 2 - p @ w) + ridge / 100 * w @ w

        assert np.linalg.norm(found.w) <= radius * (1 + 1e-12)
        assert found.on_ball == (radius < 0.2)
        rng = np.random.default_rng(0)
        for step in rng.normal(size=(200, 3)) * 10.0 ** rng.uniform(-6, 0, size=(200, 1)):
            other = found.w + step
            other *= min(1.0, radius / np.linalg.norm(other))
            assert objective(found.w) <= objective(other) + 1e-15


# ---- corrected -------------------------------------------------------------------------------------------


@pytest.mark.in_turn
@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3.0), st.floats(0.1, 3.0))
def test_exactly_unbiased_sums(seed, noise_q, noise_p):
    """Signs +-s have the mean and covariance of noise N(0, s^2), and all combinations of them its exact expectation.

    The sums are of degree two in q and one in p: with every combination added, the corrected estimate is the true
    minimum, and the plain one is that of a loss with the ridge s^2 more.
    """
    rng = np.random.default_rng(seed)
    q, p = rng.normal(size=(4, 2)), rng.normal(size=(4, 2))
    statistics = sd.quadratic.QuadraticStatistics(2)
    for signs in itertools.product([-1.0, 1.0], repeat=4):
        statistics.add(q + noise_q * np.array(signs[:2]), p + noise_p * np.array(signs[2:]))
    np.testing.assert_allclose(statistics.gram / 16 - 4 * noise_q**2 * np.eye(2), q.T @ q, atol=1e-9)
    true = np.linalg.solve(q.T @ q, p.sum(axis=0))
    condition = np.linalg.cond(q.T @ q)
    # Powers of two of the same records, which change no digit, make the curvature certain.
    for _ in range(50):
        statistics.merge(copy.deepcopy(statistics))
    np.testing.assert_allclose(statistics.corrected(noise_q**2).theta, true, rtol=1e-11 * condition, atol=1e-11)
    plain = statistics.solve(radius=1e6).w
    np.testing.assert_allclose(plain, np.linalg.solve(q.T @ q + 4 * noise_q**2 * np.eye(2), p.sum(axis=0)), rtol=1e-9)


def test_it_is_what_m_estimate_finds():
    """The debiased free-form loss on the released records: the same parameters and the same sandwich covariance."""
    rng = np.random.default_rng(3)
    q = rng.normal(size=(3000, 2)) * [1.0, 0.6]
    mechanism = sd.InputPerturbation(2, 0.5, 0.8, 20.0, 20.0, 0.01)
    sent = mechanism.privatize(np.concatenate([q, q * (q @ [[0.7], [-0.4]])], axis=1), random_state=0)
    corrected = sd.debias(sd.quadratic.released_loss(2), sd.Release({mechanism.columns: mechanism}))
    fit = sd.m_estimate(corrected, sent, np.zeros(len(sent)), radius=10.0)
    estimate = filled(*released_vectors(sent, 2), products=True).corrected(mechanism.q_scale**2)
    np.testing.assert_allclose(estimate.theta, fit.theta, rtol=1e-7)
    np.testing.assert_allclose(estimate.covariance, fit.covariance, rtol=1e-6)
    np.testing.assert_allclose(estimate.standard_errors, fit.standard_errors, rtol=1e-6)
    assert np.all(np.abs(estimate.theta - [0.7, -0.4]) < 5 * estimate.standard_errors)


def test_its_standard_errors_are_those_of_the_closed_form():
    """From draw to draw of the noise of 100,000 records they vary by .5%: 2.5% off is seen (false alarms 1e-6)."""
    rng = np.random.default_rng(4)
    q = rng.normal(size=(100_000, 2)) * [1.0, 0.7]
    p = q * (q @ [[0.7], [-0.4]] + 0.3 * rng.normal(size=(100_000, 1)))
    statistics = sd.quadratic.QuadraticStatistics(2, products=True)
    statistics.add(q + 0.4 * rng.normal(size=q.shape), p + rng.normal(size=p.shape))
    best = np.linalg.solve(q.T @ q, p.sum(axis=0))
    moments = gradient_moments.quadratic(q, p, np.full(len(q), 1 / len(q)), best, 0.16, 1.0)
    exact = np.sqrt(np.diag(gradient_moments.covariance(moments, best)) / len(q))
    np.testing.assert_allclose(statistics.corrected(0.16).standard_errors, exact, rtol=0.025)


def test_its_errors_are_the_spread_over_releases():
    """1,000 releases of 1,000 records: standardised errors have mean 0 and variance 1.

    Each of four tests at 1e-6: a standard error off by 12%, or a bias of .16 standard errors, is seen.
    """
    rng = np.random.default_rng(5)
    errors = []
    for _ in range(1_000):
        q = rng.normal(size=(1_000, 2)) * [1.0, 0.7]
        p = q * (q @ [[0.7], [-0.4]] + 0.3 * rng.normal(size=(1_000, 1)))
        statistics = sd.quadratic.QuadraticStatistics(2, products=True)
        statistics.add(q + 0.4 * rng.normal(size=q.shape), p + rng.normal(size=p.shape))
        estimate = statistics.corrected(0.16)
        errors.append((estimate.theta - [0.7, -0.4]) / estimate.standard_errors)
    errors = np.array(errors)
    assert np.all(np.abs(errors.mean(axis=0)) * math.sqrt(1_000) < 4.9)
    law, squares = stats.chi2(1_000), np.sum(errors**2, axis=0)
    assert np.all((squares > law.ppf(5e-7)) & (squares < law.isf(5e-7)))


def test_few_records_have_errors_as_of_leaving_each_out():
    """Standard errors are those of HC3, by second moments alone; the plain sandwich is 8% below them here."""
    rng = np.random.default_rng(3)
    q = rng.normal(size=(60, 3)) * [1.0, 1e3, 1e-2]
    p = q * (q @ [[1.0], [-5e-4], [20.0]] + rng.normal(size=(60, 1)))
    estimate = filled(q, p, products=True).corrected(0.0)
    inverse = np.linalg.inv(q.T @ q)
    left = 1 - np.einsum("ij,jk,ik->i", q, inverse, q)
    moves = (p - q * (q @ estimate.theta)[:, None]) @ inverse
    np.testing.assert_allclose(
        estimate.standard_errors, np.sqrt(np.sum((moves / left[:, None]) ** 2, axis=0)), rtol=0.03
    )
    # Of normal rows and residuals a ninth decides, of 60 next to 7, and twice as many are the degrees of freedom.
    assert estimate.inference.degrees_of_freedom.min() == pytest.approx(2 * 60 / 9, abs=4)
    assert "decide the variance" in estimate.inference.notes[0]


def test_intervals_of_few_records_cover():
    """500 data sets of 60 records and six parameters: 96.7% of intervals cover, and 92% of the plain sandwich's.

    Their mean has a standard error of .34%: below 95% are 3e-7 of such means, and next to all of the plain ones.
    """
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(500):
        q = rng.normal(size=(60, 6))
        estimate = filled(q, q * rng.normal(size=(60, 1)), products=True).corrected(0.0)
        if not estimate.inference.refusal:
            low, high = estimate.inference.interval(estimate.theta, 0.95).T
            covered.append((low <= 0) & (high >= 0))
    assert len(covered) > 490
    assert np.mean(covered) > 0.95


def test_records_that_decide_by_themselves_have_no_intervals():
    rng = np.random.default_rng(0)
    q = rng.normal(size=(10, 2))
    few = filled(q, q * rng.normal(size=(10, 1)), products=True).corrected(0.0)
    with pytest.raises(InferenceError, match=r"is decided by .* of 10 records alone"):
        few.inference.interval(few.theta, 0.95)
    many = rng.normal(size=(2_000, 2))
    many[0, 1] = 100.0
    one = filled(many, many * rng.normal(size=(2_000, 1)), products=True).corrected(0.0)
    with pytest.raises(InferenceError, match="a parameter is decided by"):
        one.inference.interval(one.theta, 0.95)
    # An exact fit has no scatter, and what rounding leaves of one may be negative.
    exact = filled(many, many * (many @ [[1.0], [-0.5]]), products=True).corrected(0.0)
    with pytest.raises(InferenceError, match="cancel to their last digits"):
        _ = exact.standard_errors
    # Fourth powers below the least float64 say nothing.
    tiny = filled(1e-90 * many, 1e-90 * many * rng.normal(size=many.shape), products=True).corrected(0.0)
    with pytest.raises(InferenceError, match=r"Change units|last digits"):
        _ = tiny.standard_errors


@pytest.mark.parametrize("shift", [0.0, 100.0, 1e3, 3e3, 1e4, 2e4])
def test_columns_far_from_zero_have_right_errors_or_none(shift):
    """Sums of fourth powers lose what a column varies by beside its mean: errors come from records or not at all."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        q = np.column_stack([rng.normal(size=2_000) + shift, np.ones(2_000)])
        p = q * (q @ [[1.0], [2.0]] + rng.normal(size=(2_000, 1)))
        estimate = filled(q, p, products=True).corrected(0.0)
        moves = (p - q * (q @ estimate.theta)[:, None]) @ np.linalg.inv(q.T @ q)
        if shift <= 1e3:
            np.testing.assert_allclose(estimate.standard_errors, np.sqrt(np.sum(moves**2, axis=0)), rtol=0.01)
        else:
            with pytest.raises(InferenceError, match="centre the columns"):
                _ = estimate.standard_errors


def test_an_uncertain_curvature_is_that_of_m_estimate():
    """Of 400 records under noise of 1.5 times a column: Fieller's intervals, to what HC3 and leaving out differ by."""
    rng = np.random.default_rng(3)
    q = rng.normal(size=(400, 2)) * [1.0, 0.6]
    mechanism = sd.InputPerturbation(2, 0.9, 0.8, 20.0, 20.0, 0.01)
    sent = mechanism.privatize(np.concatenate([q, q * (q @ [[0.7], [-0.4]])], axis=1), random_state=0)
    corrected = sd.debias(sd.quadratic.released_loss(2), sd.Release({mechanism.columns: mechanism}))
    fit = sd.m_estimate(corrected, sent, np.zeros(len(sent)), radius=10.0)
    found = filled(*released_vectors(sent, 2), products=True).corrected(mechanism.q_scale**2).inference
    np.testing.assert_allclose(found.curving, fit.inference.curving, rtol=0.15)
    np.testing.assert_allclose(
        found.interval(fit.theta, 0.95), fit.confidence_interval(), atol=0.3 * fit.standard_errors.max()
    )
    assert any("Fieller" in note for note in found.notes)
    assert filled(q, q, products=True).corrected(0.0).inference.curving is None


def test_more_records_help_the_corrected_estimate_only():
    """At the same noise per record the plain minimum stays shrunk by E q^2/(E q^2 + v), whatever n is."""
    rng = np.random.default_rng(6)
    gaps = {}
    for n in (10_000, 1_000_000):
        q = rng.normal(size=(n, 1))
        statistics = filled(q + rng.normal(size=q.shape), 0.8 * q * q + rng.normal(size=q.shape))
        gaps[n] = abs(statistics.solve(radius=10.0).w[0] - 0.8), abs(statistics.corrected(1.0).theta[0] - 0.8)
    assert gaps[1_000_000][0] == pytest.approx(0.4, abs=0.01)
    # Six standard errors, of about sqrt(6/n).
    assert gaps[1_000_000][1] < 6 * math.sqrt(6 / 1e6)


def test_refusals_of_the_corrected_estimate():
    q, p = released(500, 2)
    with pytest.raises(DivergenceError, match="positive definite"):
        filled(q, p).corrected(2.0)
    with pytest.raises(DivergenceError, match="positive definite"):
        filled(q[:, :1] * [1.0, 1.0], p).corrected(0.0)
    estimate = filled(q, p).corrected(0.1)
    assert estimate.inference is None
    with pytest.raises(InferenceError, match="products=True"):
        _ = estimate.standard_errors
    nearly = filled(np.diag([1.0, 2e-5]), np.eye(2), products=True).corrected(0.0)
    assert np.all(np.isfinite(nearly.theta))


@pytest.mark.parametrize("products", [False, True])
def test_an_estimate_whose_curvature_the_noise_may_have_made_is_refused(products):
    """Where a positive curvature was enough, 48 of these were refused, and errors of the others reached 535."""
    rng = np.random.default_rng(7)
    errors, refused = [], 0
    for _ in range(400):
        q = rng.normal(size=(1_000, 2)) * [1.0, 0.5]
        p = q * (q @ [[0.7], [-0.4]])
        statistics = filled(q + 2 * rng.normal(size=q.shape), p + rng.normal(size=p.shape), products=products)
        try:
            errors.append(np.abs(statistics.corrected(4.0).theta - [0.7, -0.4]).max())
        except DivergenceError:
            refused += 1
    assert 350 < refused < 400
    assert max(errors) < 1


def test_curvatures_are_refused_where_they_are_less_than_their_errors():
    """Of one component: c = 1 - v/mean q^2, and an error of sqrt(2 (1 - c^2)/n) where the noise is normal."""
    for curvature, message in ((0.36, "2.4 of its own"), (0.40, "")):
        # Two values of q^2, so that records by themselves tell a smaller error.
        q = np.sqrt(1 / (1 - curvature)) * np.resize([1.0, -1.0], 75)[:, None]
        for products in (False, True):
            statistics = filled(q, q, products=products)
            if message:
                with pytest.raises(DivergenceError, match=message):
                    statistics.corrected(1.0)
            else:
                assert np.isfinite(statistics.corrected(1.0).theta).all()
    # Products tell of heavy tails: one record has most of the curvature.
    tail = np.append(np.resize([1.0, -1.0], 999), 40.0)[:, None]
    assert np.isfinite(filled(tail, tail).corrected(1.0).theta).all()
    with pytest.raises(DivergenceError, match="its own standard errors"):
        filled(tail, tail, products=True).corrected(1.0)
    # Without noise a curvature is positive whatever the records.
    assert filled(tail, tail**2, products=True).corrected(0.0).theta == pytest.approx([1.0])


# ---- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "p", "message"),
    [
        (np.zeros((3, 2)), np.zeros((2, 2)), "p has the shape"),
        (np.zeros((3, 3)), np.zeros((3, 3)), "q has the shape"),
        (np.zeros(2), np.zeros(2), "q has the shape"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "q has the shape"),
        ([[1.0, math.nan]], [[0.0, 0.0]], "q has an entry in row 0"),
        ([[0.0, 0.0], [1.0, math.inf]], [[0.0, 0.0]] * 2, "q has an entry in row 1"),
        ([[0.0, 0.0]] * 2, [[0.0, 0.0], [-math.inf, 1.0]], "p has an entry in row 1"),
        ([[1e200, 0.0]], [[0.0, 0.0]], "overflow"),
        ([["a", "b"]], [[0.0, 0.0]], "q"),
        ([[1j, 0.0]], [[0.0, 0.0]], "q"),
    ],
)
@pytest.mark.parametrize("products", [False, True])
def test_vectors_that_are_refused_change_nothing(q, p, message, products):
    statistics = filled(*released(5, 2), products=products)
    before = state(statistics)
    with pytest.raises((TypeError, ValueError), match=message):
        statistics.add(q, p)
    for a, b in zip(before, state(statistics), strict=True):
        np.testing.assert_array_equal(a, b)


def test_other_refusals():
    statistics = filled(*released(5, 2))
    for value in (0, -1, 2.0, "2", None, True):
        with pytest.raises((TypeError, ValueError), match="dimension"):
            sd.quadratic.QuadraticStatistics(value)
    with pytest.raises(ValueError, match="too many to keep"):
        sd.quadratic.QuadraticStatistics(65, products=True)
    with pytest.raises(TypeError, match="only QuadraticStatistics merge"):
        statistics.merge([1])
    for other in (sd.quadratic.QuadraticStatistics(3), sd.quadratic.QuadraticStatistics(2, products=True)):
        with pytest.raises(ValueError, match="does not merge into"):
            statistics.merge(other)
    with pytest.raises(ValueError, match="do not merge into themselves"):
        statistics.merge(statistics)
    assert statistics.n == 5
    with pytest.raises(TypeError, match="products must be True or False; got 'yes'"):
        sd.quadratic.QuadraticStatistics(2, products="yes")
    empty = sd.quadratic.QuadraticStatistics(2)
    with pytest.raises(ValueError, match="no records were added"):
        empty.solve(radius=1.0)
    with pytest.raises(ValueError, match="no records were added"):
        empty.corrected(0.0)
    for value in (-1.0, math.nan, math.inf, "1", None):
        with pytest.raises((TypeError, ValueError), match="q_variance"):
            statistics.corrected(value)
        with pytest.raises((TypeError, ValueError), match="regularisation"):
            statistics.solve(radius=1.0, regularisation=value)
    with pytest.raises(ValueError, match="sent has the shape"):
        released_vectors(np.zeros((2, 3)), 2)
