"""Laplacian smoothing: gradients made smooth along their coordinates, so that the noise in them shrinks.

It is post-processing of what was already made private, at a cost that is linear in the number of coordinates.
"""

import math
from typing import Any, Literal, get_args

import numpy as np

from symdebias._arrays import FloatArray, real_array
from symdebias._domains import COUNT, Interval, check_choice
from symdebias.codegen.smoothing import smoothing_kernel

Mode = Literal["flat", "rows", "2d"]

_MODES = get_args(Mode)

SIGMA = Interval(
    0.0,
    1e12,
    "both",
    "Give the strength of the smoothing, such as 3.0; 0 leaves the vector as it is.",
    when_high="A vector is next to its mean long before.",
)


def laplacian_smoothing(v: Any, sigma: float = 3.0, *, mode: Mode = "flat") -> FloatArray:
    """Return A_sigma^{-1} v, where A_sigma = I - sigma L and L is the periodic second difference.

    The solution x of x_i - sigma (x_{i-1} - 2 x_i + x_{i+1}) = v_i, indices modulo d. With d = 2 both neighbours are
    the other entry, and with d = 1 the entry itself, so that x = v.

    Parameters
    ----------
    v : array of shape (d,), (k, d) or any other
        Real numbers, not changed; float32, integers and any layout are taken.
    sigma : float
        The strength, in [0, 1e12]; 0 is the identity.
    mode : {"flat", "rows", "2d"}
        What is smoothed of an array with more than one dimension. ``"flat"`` takes its entries in C order as one
        vector, as the paper does with all weights. ``"rows"`` takes each row of a matrix by itself. ``"2d"`` takes each
        row and then each column: the inverse of the product (I - sigma L_rows)(I - sigma L_columns), in either order.
        That is *not* the inverse of I - sigma (L_rows + L_columns), which no pair of recursions gives.

    Returns
    -------
    array of the shape of v, float64
        A new array with the mean of v.

    Raises
    ------
    TypeError, ValueError
        v is not an array of finite real numbers, sigma is outside its range, or the mode is not known or does not fit.

    Notes
    -----
    A_sigma = (I - alpha S)(I - alpha S')/(1 - alpha)^2 with the cyclic shift S and
    alpha = 4 sigma/(1 + sqrt(4 sigma + 1))^2: one recursion forwards and one backwards, O(d). The error is at most some
    1e-14 of the largest entry up to sigma = 1e4, and grows like sqrt(sigma) beyond.

    References
    ----------
    Wang, Gu, Boedihardjo, Barekat & Osher 2019, Section 1 (arXiv 1906.12056).

    Examples
    --------
    >>> laplacian_smoothing([1.0, 0.0, 0.0, 0.0], sigma=2.0).round(4)
    array([0.3778, 0.2222, 0.1778, 0.2222])
    """
    sigma = SIGMA.check("sigma", sigma)
    check_choice("mode", mode, _MODES)
    array = real_array(v, "v", check_finite=False)
    if mode != "flat" and array.ndim != 2:
        raise ValueError(
            f'mode="{mode}" smooths a matrix; v has {array.ndim} dimensions. Pass a matrix, or use mode="flat".'
        )
    lines = array.reshape(1, -1) if mode == "flat" else array
    smooth, total = _smoothed(lines, sigma)
    if mode == "2d":
        columns, more = _smoothed(np.ascontiguousarray(smooth.T), sigma)
        smooth, total = np.ascontiguousarray(columns.T), total + more
    if not math.isfinite(total):
        # Not finite by an entry, which this names; or by a sum of large ones only.
        real_array(v, "v")
    return smooth.reshape(array.shape)


def smoothing_gamma(d: int, sigma: float) -> float:
    """Return gamma = trace(A_sigma^{-1})/d, the share of the noise's energy that is left in the norm of A_sigma^{-1}.

    gamma = (1/d) sum_i 1/(1 + 2 sigma - 2 sigma cos(2 pi i/d))
          = (1 + alpha^d)/((1 - alpha^d) sqrt(4 sigma + 1))

    For noise n with the covariance nu^2 I, E n' A_sigma^{-1} n = gamma d nu^2.

    Parameters
    ----------
    d : int
        The number of coordinates, at least 1.
    sigma : float
        The strength, in [0, 1e12].

    Returns
    -------
    float
        In [1/d, 1].

    Raises
    ------
    TypeError, ValueError
        An argument is outside its range.

    References
    ----------
    Wang, Gu, Boedihardjo, Barekat & Osher 2019 (arXiv 1906.12056).

    Examples
    --------
    >>> round(smoothing_gamma(1000, 3.0), 3)
    0.277
    """
    size, (_, _, decay, root) = COUNT.check("d", d), _coefficients(SIGMA.check("sigma", sigma))
    return 1.0 / (root * math.tanh(0.5 * size * decay))


def smoothing_beta(d: int, sigma: float) -> float:
    """Return beta = trace(A_sigma^{-2})/d, the share of the noise's variance that smoothing leaves.

    beta = (1/d) sum_i 1/(1 + 2 sigma - 2 sigma cos(2 pi i/d))^2
         = (2 sigma + 1)(1 + alpha^d)/((1 - alpha^d)(4 sigma + 1)^1.5) + 2 d alpha^d/((1 - alpha^d)^2 (4 sigma + 1))

    For noise n with the covariance nu^2 I, E ||A_sigma^{-1} n||^2 = beta d nu^2, which is also beta nu^2 for each
    coordinate.

    Parameters
    ----------
    d : int
        The number of coordinates, at least 1.
    sigma : float
        The strength, in [0, 1e12].

    Returns
    -------
    float
        In [1/d, 1].

    Raises
    ------
    TypeError, ValueError
        An argument is outside its range.

    References
    ----------
    Wang, Gu, Boedihardjo, Barekat & Osher 2019 (arXiv 1906.12056).

    Examples
    --------
    >>> round(smoothing_beta(1000, 3.0), 3)
    0.149
    """
    size, sigma = COUNT.check("d", d), SIGMA.check("sigma", sigma)
    _, _, decay, root = _coefficients(sigma)
    exponent = size * decay
    wrapped = 2.0 * size * math.exp(-exponent) / math.expm1(-exponent) ** 2 if exponent < math.inf else 0.0
    return (2.0 * sigma + 1.0) / (root**3 * math.tanh(0.5 * exponent)) + wrapped / root**2


def step_smoothing(sigma: float, mode: str, *, scores: int, length: int) -> FloatArray:
    """Return what a training kernel is told of the smoothing of its gradients; empty where it leaves them as they are.

    Sigma, in [0, 1e12], and the mode are as for `laplacian_smoothing`, of the parameters as a matrix with a row per
    score.

    Raises
    ------
    TypeError, ValueError
        sigma is outside its range, or the mode is not known.
    """
    sigma = SIGMA.check("smoothing", sigma)
    check_choice("smoothing_mode", mode, _MODES)
    if sigma == 0.0:
        return np.zeros(0)
    alpha, beta, decay, _ = _coefficients(sigma)
    return np.array([alpha, beta, decay, scores * length if mode == "flat" else length, float(mode == "2d")])


def _smoothed(lines: FloatArray, sigma: float) -> tuple[FloatArray, float]:
    """Return each row of a matrix smoothed, and a number that is not finite if an entry may not be."""
    if sigma == 0.0 or lines.shape[1] == 1:
        return lines.copy(), math.nan
    alpha, beta, decay, _ = _coefficients(sigma)
    out = np.empty_like(lines)
    return out, smoothing_kernel()(lines, alpha, beta, decay, out)


def _coefficients(sigma: float) -> tuple[float, float, float, float]:
    """Return alpha, 1 - alpha, -log(alpha) and sqrt(4 sigma + 1), each to rounding at every sigma."""
    root = math.sqrt(4.0 * sigma + 1.0)
    if sigma == 0.0:
        return 0.0, 1.0, math.inf, root
    # The quotient overflows below 1e-308 only; the logarithm of the least float is -744.4.
    decay = min(math.log1p((root + 1.0) / (2.0 * sigma)), 745.0)
    beta = 2.0 / (1.0 + root)
    if beta < 0.5:
        return 1.0 - beta, beta, decay, root
    alpha = 4.0 * sigma / (1.0 + root) ** 2
    return alpha, 1.0 - alpha, decay, root
