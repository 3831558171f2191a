"""Elementary functions of the generated kernels: branch-free, so that loops over records vectorise.

The text of these functions is copied into each kernel's module, which makes the module whole: its hash
covers them, and nothing outside it can change under a cached kernel. As plain Python they are the
kernels' own twins. Numba's wheels come without a vector mathematics library, and a call of libm's
exponential per record costs more than all the rest of a training step.
"""

import math

import numpy as np


def exp(x: float) -> float:
    """Return e^x to 1 ulp or so: reduction to |r| <= log(2)/2, minimax polynomial of degree 11, scaling.

    The polynomial is off by less than 2^-57. Its even and odd powers are summed side by side: a processor waits for
    each step of a sum, and has enough to do for two. Down to the least normal number; what is below it is 0.
    """
    # Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10
    z = r * r
    p = 2.7630236624953973e-07
    p = p * z + 2.480149312921048e-05
    p = p * z + 0.001388888894360376
    p = p * z + 0.041666666666530246
    p = p * z + 0.5000000000000011
    q = 2.500006800356719e-08
    q = q * z + 2.7557586293259706e-06
    q = q * z + 0.00019841269506735095
    q = q * z + 0.00833333333349436
    q = q * z + 0.16666666666666413
    p = 1.0 + (r + z * (p + r * q))
    # Times 2^k through the exponent bits: k is up to 1024 where p is below 1, and down to -1022 where it is not.
    bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    value: float = np.int64(bits).view(np.float64)
    # Infinity beyond, and NaN for NaN.
    value = value if x <= 709.782712893384 else x * math.inf
    value = 0.0 if x < -708.3964185322641 else value
    return value


def wave(x: float, quarters: float) -> float:
    """Return sin(x + quarters pi/2): reduction to |r| <= pi/4, and minimax polynomials of degree 13 and 14.

    Sine and cosine of one angle share all but the last steps once both are inlined. The polynomials are off by less
    than 2^-57 of them.

    Far out, where no digit is left, it stays bounded; infinity gives NaN.
    """
    # Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
    shifted = x * 0.6366197723675814 + 6755399441055744.0
    k = shifted - 6755399441055744.0
    # pi/2 in three parts of 33 bits, so that k times the first is exact.
    r = ((x - k * 1.5707963267341256) - k * 6.077100506303966e-11) - k * 2.0222662487959506e-21
    r = -0.8 if -0.8 > r else r
    r = 0.8 if 0.8 < r else r
    z = r * r
    p = 1.589618801516117e-10
    p = p * z - 2.505074705708996e-08
    p = p * z + 2.7557313617021178e-06
    p = p * z - 0.00019841269829577396
    p = p * z + 0.008333333333322104
    p = p * z - 0.1666666666666663
    odd = r + r * z * p
    q = -1.1358507241828505e-11
    q = q * z + 2.087570028948222e-09
    q = q * z - 2.7557314175331556e-07
    q = q * z + 2.4801587288838338e-05
    q = q * z - 0.0013888888888873036
    q = q * z + 0.041666666666666595
    q = q * z - 0.5
    even = 1.0 + z * q
    # An odd number of quarters takes the cosine, two more turn the sign round: the lowest bits, and the highest.
    turned = np.float64(shifted).view(np.int64) + np.int64(quarters)
    bits = np.float64(even if turned & 1 == 1 else odd).view(np.int64) ^ ((turned & 2) << 62)
    value: float = np.int64(bits).view(np.float64)
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
