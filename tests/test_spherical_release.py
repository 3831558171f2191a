"""Losses corrected under spherical noise: kernels against means over the noise and differences, limits, fits."""

import numpy as np
import pytest

import symdebias as sd
from symdebias.assessment.kernel_bias import encoded, released_records
from symdebias.declared import DeclaredLoss

SPHERICAL = sd.SphericalLaplaceMechanism.from_scale(0.15)
PADDED = sd.SphericalLaplaceMechanism.from_scale(0.15, padded=True)
GAUSSIAN, COIN = sd.GaussianMechanism.from_scale(0.3), sd.RandomizedResponse(epsilon=1.0)
THREE = sd.RandomizedResponse(epsilon=2.0, categories=(0, 1, 2))

# Nodes of product rules over all columns at once.
NODES = {"two groups": 12, "beside normal and Laplace noise, and a category": 10}
RELEASES = {
    "three columns": sd.Release({("a", "b", "c"): SPHERICAL}, COIN),
    "two padded columns and an intercept": sd.Release({("a", "b"): PADDED}, COIN, fit_intercept=True),
    "two groups": sd.Release({("a", "b"): SPHERICAL, ("c", "d"): sd.SphericalLaplaceMechanism.from_scale(0.1)}, COIN),
    "beside normal and Laplace noise, and a category": sd.Release(
        {
            "n": GAUSSIAN,
            ("a", "b"): SPHERICAL,
            "l": sd.LaplaceMechanism.from_scale(0.1),
            "k": sd.RandomizedResponse(epsilon=2.0),
        },
        COIN,
    ),
    "several scores": sd.Release({("a", "b"): PADDED}, THREE),
}
LOSSES = {
    "three columns": sd.losses.logistic(),
    "two padded columns and an intercept": sd.losses.logistic(),
    "two groups": sd.losses.exponential(),
    "beside normal and Laplace noise, and a category": sd.losses.exponential(),
    "several scores": sd.losses.softmax(3),
}


@pytest.mark.parametrize("name", RELEASES)
def test_kernels_have_the_declared_loss_as_mean_and_agree_with_differences(name):
    loss, release = LOSSES[name], RELEASES[name]
    columns = release.number_of_columns
    corrected = sd.debias(loss, release, method="exact")
    correction = corrected.at(columns)
    kernel = correction.enumerated.kernels.mean_derivatives(weighted=True)
    size, noise = correction.number_of_parameters, correction.enumerated.noise

    def derivatives(theta, X, y, weights):
        gradient, hessian = np.zeros(size), np.zeros((size, size))
        value = kernel(theta, X, y, weights, float(weights.sum()), noise, gradient, hessian, np.zeros((0, 0)))
        return value, gradient, hessian

    rng = np.random.default_rng(1)
    theta = rng.uniform(-0.8, 0.8, size)
    record = rng.uniform(-0.7, 0.7, columns)
    if "category" in name:
        record[-1] = 1.0
    code = 1.0 if release.target is not None else -1.0
    seen = released_records(release, record, code, nodes=NODES.get(name, 24))
    X, y = encoded(correction.enumerated, seen.X, seen.y)
    truth = DeclaredLoss(correction.loss, release)
    function, slopes = truth.functions()

    def declared(at):
        arguments = truth.arguments(at, record[None, :], np.array([truth.target(code)]))
        return float(np.ravel(function(*arguments))[0]), truth.gradient(
            [slope(*arguments) for slope in slopes], record[None, :]
        ).ravel()

    value, gradient, hessian = derivatives(theta, X, y, seen.weights)
    wanted, slope = declared(theta)
    assert value == pytest.approx(wanted, abs=1e-9)
    np.testing.assert_allclose(gradient, slope, atol=1e-9)
    steps = 1e-5 * np.eye(size)
    curvature = [(declared(theta + step)[1] - declared(theta - step)[1]) / 2e-5 for step in steps]
    np.testing.assert_allclose(hessian, curvature, atol=1e-8)
    # A few released records by themselves.
    rows = rng.choice(len(X), 7, replace=False)
    few = X[rows], y[rows], np.ones(7)
    _, gradient, hessian = derivatives(theta, *few)
    plus, minus = ([derivatives(theta + sign * step, *few) for step in steps] for sign in (1, -1))
    differences = [(a[0] - b[0]) / 2e-5 for a, b in zip(plus, minus, strict=True)]
    np.testing.assert_allclose(gradient, differences, atol=1e-7)
    second = [(a[1] - b[1]) / 2e-5 for a, b in zip(plus, minus, strict=True)]
    np.testing.assert_allclose(hessian, second, atol=1e-7)
