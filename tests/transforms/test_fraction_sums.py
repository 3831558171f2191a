"""Powers of 1/v as sums of exponentials: as close as they say, of the variance that they say."""

import numpy as np
import pytest

import symdebias as sd
from symdebias.transforms.fractions import fraction_sum

NORMAL = sd.GaussianMechanism.from_scale(0.5).noise_on(1)
LAPLACE = sd.LaplaceMechanism.from_scale(0.1).noise_on(1)


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize(("low", "high"), [(1.0, 2.0), (0.7, 20.0)])
def test_errors_are_those_on_the_range(power, low, high):
    found = fraction_sum(power, low, high, noise=NORMAL, records=1e4)
    v = np.linspace(low, high, 3_001)
    waves = np.exp(-np.outer(v, found.rates))
    error = np.abs(waves @ found.coefficients * v**power - 1).max()
    slope = np.abs((waves * found.rates) @ found.coefficients * v ** (power + 1) / power - 1).max()
    assert 0.9 * error <= found.error <= 1.1 * error + 1e-12
    assert 0.9 * slope <= found.slope_error <= 1.1 * slope + 1e-12
    assert found.error < 0.1


@pytest.mark.parametrize("noise", [NORMAL, LAPLACE])
def test_the_deviation_is_that_of_the_corrected_sum(noise):
    """By quadrature over the noise, at one value of v: the range is nearly a point."""
    found = fraction_sum(1, 2.0, 2.0 + 1e-6, noise=noise, records=1e4)
    if noise is NORMAL:
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        w, weights = 0.5 * nodes, weights / weights.sum()
        gains = np.exp(-(found.rates**2) * 0.25 / 2)
    else:
        w, step = np.linspace(-6, 6, 200_001, retstep=True)
        weights = np.exp(-np.abs(w) / 0.1) / 0.2 * step
        gains = 1 - (0.1 * found.rates) ** 2
    corrected = np.exp(-np.outer(2.0 + w, found.rates)) @ (gains * found.coefficients)
    mean = weights @ corrected
    assert mean == pytest.approx(np.exp(-2.0 * found.rates) @ found.coefficients, rel=1e-6)
    assert 2 * np.sqrt(weights @ (corrected - mean) ** 2) == pytest.approx(found.deviation, rel=1e-3)


def test_more_records_buy_less_bias_for_more_variance():
    few, many = (fraction_sum(1, 0.5, 5.0, noise=NORMAL, records=records) for records in (1e2, 1e6))
    assert many.slope_error < few.slope_error / 3
    assert many.deviation > few.deviation


def test_units_change_nothing():
    one = fraction_sum(2, 1.0, 10.0, noise=NORMAL, records=1e4)
    scaled = fraction_sum(2, 2.0, 20.0, noise=sd.GaussianMechanism.from_scale(1.0).noise_on(1), records=1e4)
    np.testing.assert_allclose(scaled.rates, one.rates / 2)
    assert (scaled.error, scaled.deviation) == pytest.approx((one.error, one.deviation), rel=1e-3)
