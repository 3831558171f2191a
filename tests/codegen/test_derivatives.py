"""The fused pass of loss, gradient, Hessian and outer products against the kernels that do one thing each."""

import numba
import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.exceptions import NoExactCorrectionError

pytestmark = pytest.mark.newest

RNG = np.random.default_rng(0)
N = 600
X = 0.3 * RNG.normal(size=(N, 3))
Y = np.where(RNG.random(N) < 0.5, -1.0, 1.0)
WEIGHTS = RNG.uniform(0.5, 2.0, N)
THETA = np.array([0.4, -0.3, 0.2, 0.1])
KNOWN = sd.GaussianMechanism.from_scale(0.3)
LABEL = sd.RandomizedResponse(epsilon=1.0)


def normal(**options):
    return sd.Release({("a", "b", "c"): KNOWN}, LABEL, fit_intercept=True, **options)


def free_form():
    x1, x2, t1, t2, y = sp.symbols("x1 x2 t1 t2 y", real=True)
    loss = sd.Loss.of_features((t1 * x1**2 + t2 * x2 - y) ** 2, features=[x1, x2], parameters=[t1, t2], target=y)
    return sd.debias(loss, sd.Release({("x1", "x2"): KNOWN}))


CASES = {
    "normal noise": lambda: (sd.debias(sd.losses.exponential(), normal()), X, THETA, WEIGHTS),
    "free-form": lambda: (free_form(), X[:, :2], THETA[:2], None),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("case", CASES)
def test_one_pass_gives_what_four_give(case):
    """Compiled; `score/test_program.py` has all statistics, uncompiled."""
    corrected, data, theta, weights = CASES[case]()
    w = np.ones(N) if weights is None else weights
    derivatives = corrected.records(data, Y, sample_weight=weights).derivatives()
    fused = derivatives(theta, True)
    gradients = corrected.gradient(theta, data, Y) * w[:, None]
    assert fused.loss == pytest.approx(corrected.mean_loss(theta, data, Y, sample_weight=w), rel=1e-13)
    np.testing.assert_allclose(fused.gradient, gradients.sum(axis=0) / w.sum(), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(fused.meat, gradients.T @ gradients / w.sum(), rtol=1e-11, atol=1e-14)
    h = 1e-5
    moved = [derivatives(theta + h * e).gradient - derivatives(theta - h * e).gradient for e in np.eye(len(theta))]
    np.testing.assert_allclose(fused.hessian, np.array(moved) / (2 * h), rtol=1e-7, atol=1e-8)
    assert derivatives(theta).meat.shape == (0, 0)


def test_results_do_not_depend_on_the_number_of_threads():
    rows = 100_000
    data, target = np.tile(X, (rows // N + 1, 1))[:rows], np.tile(Y, rows // N + 1)[:rows]
    corrected = sd.debias(sd.losses.exponential(), normal())
    theta = np.zeros(4) + 0.1
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = corrected.mean_hessian(theta, data, target)
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(one, corrected.mean_hessian(theta, data, target))


@pytest.mark.in_turn
def test_a_hessian_of_too_many_terms_is_refused():
    release = sd.Release({("a", "b", "c"): sd.LaplaceMechanism.from_scale(0.1)})
    # A busy machine may take longer than the usual limit.
    with sd.derivation_limits(seconds=120):
        corrected = sd.debias(sd.losses.softmax(3), release)
        with pytest.raises(NoExactCorrectionError, match="too many terms"):
            corrected.mean_hessian(np.zeros((3, 3)), X, np.zeros(N))


@pytest.mark.exhaustive
def test_twenty_columns_have_an_exact_hessian():
    """Compiled, in two chunks and in one; the sum over combinations would be of a million."""
    release = sd.Release({f"c{j}": LABEL for j in range(20)}, LABEL)
    corrected = sd.debias(sd.losses.logistic(), release, method="surrogate", radius=3.0, score_variance=0.3, n=1000)
    rng = np.random.default_rng(0)
    rows = 40_000
    X, y = rng.choice([-1.0, 1.0], (rows, 20)), rng.choice([-1.0, 1.0], rows)
    theta = rng.uniform(-0.3, 0.3, 20)
    records = corrected.records(X, y)
    derivatives, how = records.derivatives_or_differences(np.eye(20))
    assert how == "exact"
    found = derivatives(theta, True)
    part = corrected.records(X[:500], y[:500])
    own = part.derivatives()(theta, True)
    np.testing.assert_allclose(own.hessian, part.differenced(theta, np.eye(20), 1e-5), rtol=1e-5, atol=1e-5)
    halves = [corrected.records(X[s], y[s]).derivatives()(theta, True) for s in (slice(15_000), slice(15_000, None))]
    for name in ("gradient", "hessian", "meat"):
        both = (3 * getattr(halves[0], name) + 5 * getattr(halves[1], name)) / 8
        np.testing.assert_allclose(getattr(found, name), both, rtol=1e-10, atol=1e-12)
    gradients = records.gradients(theta, slice(0, 500), by_derivatives=True)
    np.testing.assert_allclose(gradients, part.gradients(theta, slice(None)), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradients.T @ gradients / 500, own.meat, rtol=1e-11, atol=1e-13)
    assert records.factored_gradients(theta, by_derivatives=True) is None
