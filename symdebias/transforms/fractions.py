"""Powers of 1/v as sums of exponentials, for positive v: entire functions, whose noise is undone exactly.

1/v^m = int_0^inf t^(m - 1) e^(-t v) dt/(m - 1)! (Laplace), and additive noise in v multiplies each exponential by a
number M(t): e^(s t^2/2) for normal noise of variance s. So

    g(v) = sum_k a_k e^(-t_k v)

has an exact correction wherever it is evaluated, and is close to v^-m for low <= v <= high. The whole integral would be
unbiased for v > 0, and of infinite variance: its correction grows like e^(v^2/(2 s)) for v < 0. Few rates t_k, none
much above 1/sqrt(s), keep the variance: coefficients have the least squares of relative errors, of value and slope,
plus the variance over the number of records as ridge. Corrected exponentials at t and u have the covariance
e^(-(t + u) v) (M(t + u)/(M(t) M(u)) - 1).
"""

import math
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.codegen.numeric import numeric
from symdebias.noise import FREQUENCY, AdditiveNoise

# Rates of a sum, the largest of them in units of 1/low and of 1/sqrt(s), and the least in units of 1/high.
_TERMS, _FASTEST, _FASTEST_OF_NOISE, _SLOWEST = 12, 14.0, 4.0, 0.3
# Points at which squares are summed, and those at which errors are looked at.
_POINTS, _LOOKED_AT = 400, 4_000
# Under tails like e^(-r |w|) corrected exponentials have a variance for rates below r/2.
_OF_TAILS = 0.45


@dataclass(frozen=True)
class FractionSum:
    """A sum of exponentials in place of v^-power.

    Attributes
    ----------
    rates, coefficients : array of shape (k,), float64
        t_k and a_k.
    error, slope_error : float
        The largest relative error of value and of slope for low <= v <= high.
    deviation : float
        The standard deviation of the corrected sum, relative to v^-power, root mean square over log v.
    """

    rates: FloatArray
    coefficients: FloatArray
    error: float
    slope_error: float
    deviation: float


def fraction_sum(power: int, low: float, high: float, *, noise: AdditiveNoise, records: float) -> FractionSum:
    """Return the sum of exponentials for v^-power on a range.

    Parameters
    ----------
    power : int
        m, at least 1.
    low, high : float
        The range of v, 0 < low < high.
    noise : AdditiveNoise
        The noise in v.
    records : float
        The number of records, at least 1: more of them buy less bias for more variance.

    Examples
    --------
    >>> from symdebias import GaussianMechanism
    >>> noise = GaussianMechanism.from_scale(0.5).noise_on(1)
    >>> found = fraction_sum(1, 1.0, 10.0, noise=noise, records=10_000)
    >>> found.error < 1e-3 < found.deviation < 0.5
    True
    """
    # In units of low.
    reach = high / low
    fastest = min(_FASTEST, _FASTEST_OF_NOISE * low / math.sqrt(noise.variance), _OF_TAILS * noise.tail_rate * low)
    slowest = min(_SLOWEST / reach, fastest / 2)
    rates = np.concatenate([[0.0], np.geomspace(slowest, fastest, _TERMS - 1)])
    values, slopes = _relative(rates, power, np.geomspace(1.0, reach, _POINTS))
    spread = (values.T @ values) / _POINTS * _relative_covariance(rates / low, noise)
    normal = (values.T @ values + slopes.T @ slopes) / _POINTS + spread / records
    right = (values + slopes).mean(axis=0)
    units = 1 / np.sqrt(np.diag(normal))
    found = units * np.linalg.lstsq(normal * np.multiply.outer(units, units), units * right, rcond=1e-13)[0]
    at, slope_at = _relative(rates, power, np.geomspace(1.0, reach, _LOOKED_AT))
    return FractionSum(
        rates / low,
        found / low**power,
        float(np.abs(at @ found - 1).max()),
        float(np.abs(slope_at @ found - 1).max()),
        math.sqrt(max(0.0, float(found @ spread @ found))),
    )


def _relative_covariance(rates: FloatArray, noise: AdditiveNoise) -> FloatArray:
    """Return M(t + u)/(M(t) M(u)) - 1 for all pairs of rates."""
    if noise.is_gaussian:
        return np.asarray(np.expm1(noise.variance * np.multiply.outer(rates, rates)))
    transform = numeric(noise.characteristic_function, (FREQUENCY,))

    def moment(t: FloatArray) -> FloatArray:
        # Many a characteristic function is 0/0 at 0, where it is 1.
        found = np.ones(t.shape)
        found[t > 0] = transform(1j * t[t > 0]).real
        return found

    own = moment(rates)
    return np.asarray(moment(np.add.outer(rates, rates)) / np.multiply.outer(own, own) - 1)


def _relative(rates: FloatArray, power: int, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each exponential over v^-m, and its slope over that of v^-m, both of shape (points, k)."""
    waves = np.exp(-np.multiply.outer(v, rates))
    return waves * v[:, None] ** power, waves * rates * (v[:, None] ** (power + 1) / power)
