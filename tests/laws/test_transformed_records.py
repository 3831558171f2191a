"""Fits of records in other units, other origins and another order are those of the records, for every loss."""

import functools

import numpy as np
import pytest
from instances import LOSSES, NON_NEGATIVE

import symdebias as sd

pytestmark = [pytest.mark.newest, pytest.mark.in_turn]

SCALAR = [name for name, loss in LOSSES.items() if len(loss.scores) == 1]
COUNTS = {"poisson", "negative_binomial", *NON_NEGATIVE}
SCALES = np.array([1e3, 1e-2, 7.0])
OTHER_ORDER = [2, 0, 1]
ROWS = 1_500


def release_of(names=("a", "b", "c"), scales=(1.0, 1.0, 1.0)):
    """Normal noise on column a, none on the others, and an intercept."""
    noise = sd.GaussianMechanism.from_scale(0.3 * scales[0])
    return sd.Release({"a": noise}, noiseless=[name for name in names if name != "a"], fit_intercept=True)


@functools.cache
def records(name):
    loss, rng = LOSSES[name], np.random.default_rng(7)
    X = rng.normal(size=(ROWS, 3))
    u = X @ [0.6, -0.4, 0.3] + 0.2
    if loss.target_values:
        low, high = loss.target_values
        y = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-1.5 * u)), high, low)
    elif name in COUNTS:
        y = rng.poisson(np.exp(0.5 * u)) + (name == "gamma")
    else:
        y = u + rng.normal(size=ROWS)
    noised = release_of().privatize(X, y, random_state=8)
    return noised.X, np.asarray(noised.y, dtype=float)


@functools.cache
def fitted(name):
    return sd.m_estimate(sd.debias(LOSSES[name], release_of()), *records(name))


def same(name, release, X, y, matrix, *, tolerance=1e-5, **options):
    """Hold a fit against that of the records as they are, parameters taken back to theirs by a matrix."""
    one, other = fitted(name), sd.m_estimate(sd.debias(LOSSES[name], release), X, y, **options)
    errors = one.standard_errors
    assert np.max(np.abs(matrix @ other.theta - one.theta) / errors) < tolerance
    back = np.sqrt(np.diag(matrix @ other.covariance @ matrix.T))
    np.testing.assert_allclose(back, errors, rtol=tolerance)
    assert other.inference.refusal == one.inference.refusal
    return one, other


@pytest.mark.in_turn
@pytest.mark.parametrize("name", SCALAR)
def test_fits_go_with_units_origins_and_order(name):
    X, y = records(name)
    same(name, release_of(scales=SCALES), X * SCALES, y, np.diag([*SCALES, 1.0]))
    order = [0, 2, 1]
    places = np.eye(4)[[*order, 3]].T
    same(name, release_of(("a", "c", "b")), X[:, order], y, places)
    far = np.array([0.0, 3e4, -2e3])
    origin = np.eye(4)
    origin[3, :3] = far
    # The larger the numbers, the fewer digits are left of how they vary.
    same(name, release_of(), X + far, y, origin, tolerance=1e-3)
    same(name, release_of(), X, y, np.eye(4), sample_weight=np.full(ROWS, 3.7))
    wide = np.zeros((2 * ROWS, 6), order="F")
    wide[::-2, ::2] = X
    same(name, release_of(), wide[::-2, ::2], y, np.eye(4), tolerance=1e-9)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", [name for name in SCALAR if LOSSES[name].target_values == (-1.0, 1.0)])
def test_fits_of_swapped_labels_have_the_other_sign(name):
    X, y = records(name)
    one, other = same(name, release_of(), X, -y, -np.eye(4))
    if not one.inference.refusal:
        np.testing.assert_allclose(
            -other.confidence_interval()[:, ::-1], one.confidence_interval(), atol=1e-2 * one.standard_errors.min()
        )


RESIDUALS = ["cauchy", "expectile", "huber", "least_squares", "quantile"]


@pytest.mark.in_turn
@pytest.mark.parametrize("name", RESIDUALS)
@pytest.mark.parametrize("far", [-40.0, 1e6])
def test_targets_may_be_far_from_0(name, far):
    """The Huber loss has no curvature there, and surrogates for residuals of a million have no use."""
    X, y = records(name)
    one, other = fitted(name), sd.m_estimate(sd.debias(LOSSES[name], release_of()), X, y + far)
    moved = other.theta - [0.0, 0.0, 0.0, far]
    assert np.max(np.abs(moved - one.theta) / one.standard_errors) < 1e-5
    np.testing.assert_allclose(other.standard_errors, one.standard_errors, rtol=1e-5)
    if other.diagnostics["pilot"] is not None:
        assert other.diagnostics["pilot"]["theta"][-1] == pytest.approx(far, abs=2.0)


KINKED = {
    "huber": lambda unit: sd.losses.huber(1.3 * unit),
    "cauchy": lambda unit: sd.losses.cauchy(2.0 * unit),
    "expectile": lambda unit: sd.losses.expectile(0.75),
}


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("is_noised", [False, True])
def test_targets_and_losses_may_be_in_another_unit(name, is_noised):
    """Steps of differences of one size took standard errors to five times as much in millionths."""
    X, y = records(name)
    release = release_of() if is_noised else sd.Release(noiseless=("a", "b", "c"), fit_intercept=True)
    one, *others = (sd.m_estimate(sd.debias(KINKED[name](unit), release), X, y * unit) for unit in (1.0, 1e-6, 1e6))
    for unit, other in zip((1e-6, 1e6), others, strict=True):
        assert np.max(np.abs(other.theta / unit - one.theta) / one.standard_errors) < 1e-6
        np.testing.assert_allclose(other.standard_errors / unit, one.standard_errors, rtol=1e-6)


@pytest.mark.parametrize("name", ["logistic", "squared_margin"])
def test_descent_learns_the_same_steps_in_another_order_and_other_units(name):
    """Where all curvatures are alike, which directions they have is no matter of rounding."""
    X, y = records(name)
    how = {"random_state": 0, "average": True}
    release = sd.Release(noiseless=("a", "b", "c"), fit_intercept=True)
    one = sd.sgd(sd.debias(LOSSES[name], release), X, y, **how)
    scaled = sd.sgd(sd.debias(LOSSES[name], release), X * SCALES, y, **how)
    np.testing.assert_allclose(scaled.theta * [*SCALES, 1.0], one.theta, rtol=1e-5, atol=1e-6)
    turned = sd.sgd(sd.debias(LOSSES[name], release), X[:, OTHER_ORDER], y, **how)
    np.testing.assert_allclose(turned.theta, one.theta[[*OTHER_ORDER, 3]], rtol=1e-5, atol=1e-6)
