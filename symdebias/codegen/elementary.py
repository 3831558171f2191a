"""Elementary functions of the generated kernels: branch-free, so that loops over records vectorise.

The text of these functions is copied into each kernel's module, which makes the module whole: its hash
covers them, and nothing outside it can change under a cached kernel. As plain Python they are the
kernels' own twins. Numba's wheels come without a vector mathematics library, and a call of libm's
exponential per record costs more than all the rest of a training step.
"""

import math

import numpy as np


def exp(x: float) -> float:
    """Return e^x to 1 ulp or so: reduction to |r| <= log(2)/2, Taylor polynomial of degree 13, scaling.

    Down to the least normal number; what is below it is 0.
    """
    # Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    # 2^(k-1) or 2^(k+1) through the exponent bits, and the last doubling or halving in arithmetic: k is up to 1024, and
    # down to -1022.
    if x > 0.0:
        bias, last = 1022, 2.0
    else:
        bias, last = 1024, 0.5
    bits = (np.float64(shifted).view(np.int64) + bias) << 52
    value: float = last * (p * np.int64(bits).view(np.float64))
    value = math.inf if x > 709.782712893384 else value
    value = 0.0 if x < -708.3964185322641 else value
    return value


def wave(x: float, quarters: float) -> float:
    """Return sin(x + quarters pi/2): reduction to |r| <= pi/4 and Taylor polynomials.

    Sine and cosine of one angle share all but the last steps once both are inlined.

    Far out, where no digit is left, it stays bounded; infinity gives NaN.
    """
    k = np.floor(x * 0.6366197723675814 + 0.5)
    # pi/2 in three parts of 33 bits, so that k times the first is exact.
    r = ((x - k * 1.5707963267341256) - k * 6.077100506303966e-11) - k * 2.0222662487959506e-21
    r = -0.8 if r < -0.8 else (0.8 if r > 0.8 else r)
    k = k + quarters
    quarter = k - 4.0 * np.floor(0.25 * k)
    z = r * r
    p = -1.0 / 1307674368000.0
    p = p * z + 1.0 / 6227020800.0
    p = p * z - 1.0 / 39916800.0
    p = p * z + 1.0 / 362880.0
    p = p * z - 1.0 / 5040.0
    p = p * z + 1.0 / 120.0
    p = p * z - 1.0 / 6.0
    odd = r + r * z * p
    q = 1.0 / 20922789888000.0
    q = q * z - 1.0 / 87178291200.0
    q = q * z + 1.0 / 479001600.0
    q = q * z - 1.0 / 3628800.0
    q = q * z + 1.0 / 40320.0
    q = q * z - 1.0 / 720.0
    q = q * z + 1.0 / 24.0
    q = q * z - 0.5
    even = 1.0 + z * q
    value: float = even if quarter == 1.0 or quarter == 3.0 else odd
    value = -value if quarter >= 2.0 else value
    value += 0.0 * x
    return value


def expit(x: float) -> float:
    """Return 1/(1 + e^-x) without overflow."""
    e = exp(-abs(x))
    large = 1.0 / (1.0 + e)
    return large if x >= 0.0 else e * large


def logistic_density(x: float) -> float:
    """Return expit(x) (1 - expit(x)) without overflow."""
    e = exp(-abs(x))
    total = 1.0 + e
    return e / (total * total)


def softplus(x: float) -> float:
    """Return log(1 + e^x) without overflow."""
    return (0.0 if 0.0 > x else x) + math.log1p(exp(-abs(x)))


def mills_excess(x: float) -> float:
    """Return x + phi(x)/Phi(x), phi and Phi the standard normal density and distribution function."""
    if x >= -4.0:
        return x + 0.7978845608028654 * math.exp(-0.5 * x * x) / math.erfc(-0.7071067811865476 * x)
    # Laplace's continued fraction t + 1/(t + 2/(t + 3/(t + ...))) of phi/Phi at -t, less its first term: from t = 4
    # on, fifty terms are enough for all digits.
    tail = 0.0
    for k in range(50, 0, -1):
        tail = k / (tail - x)
    return tail


def inverse_mills(x: float) -> float:
    """Return phi(x)/Phi(x) without 0/0 far left, where it is close to -x."""
    if x < -4.0:
        return mills_excess(x) - x
    return 0.7978845608028654 * math.exp(-0.5 * x * x) / math.erfc(-0.7071067811865476 * x)


def log_normal_cdf(x: float) -> float:
    """Return log Phi(x) without log 0 far left, where it is close to -x^2/2."""
    if x < -4.0:
        return -0.5 * x * x - math.log(2.5066282746310002 * inverse_mills(x))
    if x > 1.0:
        return math.log1p(-0.5 * math.erfc(0.7071067811865476 * x))
    return math.log(0.5 * math.erfc(-0.7071067811865476 * x))


def sign(x: float) -> float:
    """Return -1, 0 or +1, and NaN for NaN."""
    return 1.0 if x > 0.0 else (-1.0 if x < 0.0 else x)


def step(x: float) -> float:
    """Return the Heaviside step: 0, 1/2 or 1, and NaN for NaN."""
    return 0.5 * (1.0 + sign(x))


def erf_real(x: float, y: float) -> float:
    """Return the real part of erf(x + iy) by Abramowitz & Stegun 7.1.29."""
    two = 2.0 * x * y
    head = math.exp(-x * x) / (2.0 * math.pi)
    # (1 - cos 2xy)/x = 2 sin(xy)^2/x, with the limit 0 at x = 0
    near = math.sin(x * y)
    total = head * (2.0 * near * near / x if x != 0.0 else 0.0)
    series = 0.0
    # The factor e^{-n^2/4} cosh(ny) peaks at n = 2|y|; twelve terms past it are below rounding.
    for n in range(1, 14 + int(2.0 * abs(y))):
        up = math.exp(-0.25 * n * n - x * x + n * y)
        down = math.exp(-0.25 * n * n - x * x - n * y)
        plain = math.exp(-0.25 * n * n - x * x)
        f = 2.0 * x * plain - x * (up + down) * math.cos(two) + 0.5 * n * (up - down) * math.sin(two)
        series += f / (n * n + 4.0 * x * x)
    return math.erf(x) + total + 2.0 / math.pi * series


def erf_imag(x: float, y: float) -> float:
    """Return the imaginary part of erf(x + iy) by Abramowitz & Stegun 7.1.29."""
    two = 2.0 * x * y
    head = math.exp(-x * x) / (2.0 * math.pi)
    total = head * (math.sin(two) / x if x != 0.0 else 2.0 * y)
    series = 0.0
    for n in range(1, 14 + int(2.0 * abs(y))):
        up = math.exp(-0.25 * n * n - x * x + n * y)
        down = math.exp(-0.25 * n * n - x * x - n * y)
        g = x * (up + down) * math.sin(two) + 0.5 * n * (up - down) * math.cos(two)
        series += g / (n * n + 4.0 * x * x)
    return total + 2.0 / math.pi * series


def heat_power(n: float, w: float, v: float) -> float:
    """Return v^(n/2) He_n(w/sqrt(v)) by its recurrence, for a whole n of 1 or more."""
    before, value = 1.0, w
    for k in range(1, int(n)):
        before, value = value, w * value - k * v * before
    return value


def chosen(condition: bool, one: float, other: float) -> float:
    """Return the first of two numbers where a condition holds, else the second."""
    return one if condition else other
