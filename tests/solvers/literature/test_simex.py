"""SIMEX: the known bias of its extrapolants, and standard errors."""

import importlib

import numpy as np
import pytest
from measured import LINEAR, one_column

import symdebias as sd
from symdebias._randomness import generator
from symdebias.exceptions import DivergenceError
from symdebias.solvers.literature.passes import normal_numbers

pytestmark = pytest.mark.newest

module = importlib.import_module("symdebias.solvers.literature.simex")


@pytest.mark.parametrize("extrapolant", ["linear", "quadratic", "rational-linear"])
def test_simex_has_the_bias_of_its_extrapolant(extrapolant):
    """With signal and noise of variances 1 and 0.4 the slope at lambda is 2/(1 + 0.4 (1 + lambda)).

    Of the extrapolation from lambda = 0, 1, 2 by a line and a parabola the bias is known (Cook & Stefanski 1994,
    Section 3); the rational one has none. Five and a half standard errors, false alarms 4e-8 per case, are a bias of
    0.1 or less; those of the line and the parabola are 0.41 and 0.13.
    """
    released = one_column(100_000, 1.0, 0.4)
    found = sd.literature.simex(
        LINEAR, released.release, released.X, released.y,
        extrapolant=extrapolant, levels=(1.0, 2.0), repeats=3, random_state=5,
    )  # fmt: skip
    slopes = 2 / (1 + 0.4 * (1 + np.arange(3.0)))
    expected = {
        "linear": np.polyval(np.polyfit([0, 1, 2], slopes, 1), -1),
        "quadratic": 3 * slopes[0] - 3 * slopes[1] + slopes[2],
        "rational-linear": 2.0,
    }[extrapolant]
    assert 5.5 * found.standard_errors[0] < 0.1
    assert abs(found.theta[0] - expected) < 5.5 * found.standard_errors[0]
    if extrapolant != "rational-linear":
        assert abs(found.theta[0] - 2.0) > 10 * found.standard_errors[0]


def simex_slopes(X, y, noises):
    """The slope of one column that `simex` finds with one remeasurement at lambda 1 and 2; records on the last axis."""
    fits = []
    for level, noise in enumerate(noises):
        moved = X + np.sqrt(level) * noise
        fits.append((moved * y).sum(axis=-1) / (moved**2).sum(axis=-1))
    return 3 * fits[0] - 3 * fits[1] + fits[2]


def test_standard_errors_of_simex_are_those_of_replicates():
    """6% off is seen: 40 fits know the mean standard error to .9%, 10,000 replicates the deviation to .8%.

    Replicates are of the closed form, which is held to the fits themselves first. 5% are 4 standard deviations
    (false alarms 6e-5).
    """
    n, noise, errors = 400, np.sqrt(0.4), []
    for seed in range(40):
        released = one_column(n, 1.0, 0.4, seed=2 * seed)
        fit = sd.literature.simex(
            LINEAR, released.release, released.X, released.y, repeats=1, levels=(1, 2), random_state=seed
        )
        draws = generator(seed).integers(2**63, size=2)
        added = [0.0, *(noise * normal_numbers(int(draw), n, 1, slice(None))[:, 0] for draw in draws)]
        assert fit.theta[0] == pytest.approx(simex_slopes(released.X[:, 0], released.y, added), rel=1e-5)
        errors.append(fit.standard_errors[0])
    rng, thetas = np.random.default_rng(1), []
    for _ in range(40):
        x, *normal = rng.normal(size=(5, 250, n))
        added = (0.0, noise * normal[2], noise * normal[3])
        thetas.append(simex_slopes(x + noise * normal[0], 2 * x + 0.5 * normal[1], added))
    assert np.mean(errors) == pytest.approx(np.std(thetas), rel=0.05)


def test_extrapolation_of_functions_of_its_form_is_exact():
    at = np.array([0.0, 0.5, 1.0, 2.0])
    curves = np.column_stack([1 + at / (1 + 0.6 * at), 2 - 3 * at / (1 + 0.1 * at)])
    found, shares = module._extrapolated(at, curves, "rational-linear")
    np.testing.assert_allclose(found, [1 - 1 / 0.4, 2 + 3 / 0.9], rtol=1e-6)
    moved = curves.copy()
    moved[1] += 1e-4
    there = module._extrapolated(at, moved, "rational-linear")[0]
    np.testing.assert_allclose((there - found) / 1e-4, shares[1], rtol=0.02)
    np.testing.assert_allclose(module._extrapolated(at, curves**0 + at[:, None] ** 2, "quadratic")[0], 2.0)


def test_a_pole_at_no_noise_is_refused():
    with pytest.raises(DivergenceError, match="pole"):
        module._rational(np.array([0.0, 0.5, 1.0, 2.0]), np.array([100.0, 5.0, 2.0, 1.0]))
