"""What kernels of value, gradient and Hessian are held against: means over the noise, and differences."""

import numpy as np
import pytest

from symdebias.assessment.kernel_bias import encoded, released_records
from symdebias.declared import DeclaredLoss


def assert_kernels_agree(correction, record, code, theta, rng, *, nodes, within, scaled=False):
    """Hold the mean over the noise of a true record against the declared loss, and seven releases against differences.

    `within` has the errors allowed of the mean value, its gradient and Hessian, and of gradient and Hessian of the
    seven; `scaled` counts them in the largest loss of some releases, where that is above 1.
    """
    kernel = correction.kernels.mean_derivatives(weighted=True)

    def derivatives(theta, X, y, weights):
        return kernel(theta, X, y, weights, float(weights.sum()), correction.noise, meat=False)[:3]

    seen = released_records(correction.release, record, code, nodes=nodes)
    X, y = encoded(correction, seen.X, seen.y)
    truth = DeclaredLoss(correction.loss, correction.release)
    function, slopes = truth.functions()

    def declared(at):
        arguments = truth.arguments(at, record[None, :], np.array([truth.target(code)]))
        return float(np.ravel(function(*arguments))[0]), truth.gradient(
            [slope(*arguments) for slope in slopes], record[None, :]
        ).ravel()

    few = [derivatives(theta, X[[row]], y[[row]], np.ones(1))[0] for row in range(0, len(X), max(1, len(X) // 50))]
    largest = max(1.0, *np.abs(few)) if scaled else 1.0
    of_value, of_gradient, of_hessian, of_slopes, of_curvatures = largest * np.array(within)
    value, gradient, hessian = derivatives(theta, X, y, seen.weights)
    wanted, slope = declared(theta)
    assert value == pytest.approx(wanted, abs=of_value)
    np.testing.assert_allclose(gradient, slope, atol=of_gradient)
    steps = 1e-5 * np.eye(len(theta))
    curvature = [(declared(theta + step)[1] - declared(theta - step)[1]) / 2e-5 for step in steps]
    np.testing.assert_allclose(hessian, curvature, atol=of_hessian)
    rows = rng.choice(len(X), 7, replace=False)
    few = X[rows], y[rows], np.ones(7)
    _, gradient, hessian = derivatives(theta, *few)
    plus, minus = ([derivatives(theta + sign * step, *few) for step in steps] for sign in (1, -1))
    differences = [(a[0] - b[0]) / 2e-5 for a, b in zip(plus, minus, strict=True)]
    np.testing.assert_allclose(gradient, differences, atol=of_slopes)
    second = [(a[1] - b[1]) / 2e-5 for a, b in zip(plus, minus, strict=True)]
    np.testing.assert_allclose(hessian, second, atol=of_curvatures)
