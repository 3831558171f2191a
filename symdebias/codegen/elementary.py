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


def log(x: float) -> float:
    """Return log x to 1 ulp or so: minus infinity at 0, and NaN below.

    x = 2^k m with m within sqrt(1/2) and sqrt(2), and log m = 2 artanh s, s = (m - 1)/(m + 1), whose polynomial of
    degree 15 is off by less than 2^-60.
    """
    # Below the least normal number the exponent is that of 2^54 x.
    is_tiny = x < 2.2250738585072014e-308
    scaled = x * 18014398509481984.0 if is_tiny else x
    bits = np.float64(scaled).view(np.int64)
    k = (bits - 4604544271217802189) >> 52
    m = np.int64(bits - (k << 52)).view(np.float64)
    # The low bits of 1.5 * 2^52 take a whole number: a processor may have no other way to convert eight of them.
    exponent = np.int64(k + 4843621399236968448).view(np.float64) - 6755399441055744.0
    exponent = exponent - 54.0 if is_tiny else exponent
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 0.06543383504974087
    p = p * z + 0.06634379834280306
    p = p * z + 0.07693120102906739
    p = p * z + 0.09090897815442377
    p = p * z + 0.11111111195900235
    p = p * z + 0.14285714285401616
    p = p * z + 0.2000000000000044
    p = p * z + 0.3333333333333333
    # log 2 in two parts, the first of which times k is exact.
    low = exponent * 1.90821492927058770002e-10
    value: float = exponent * 0.693147180369123816490 + (f - (s * (f - 2.0 * z * p) - low))
    value = value if x < math.inf else x
    value = value if x > 0.0 else (-math.inf if x == 0.0 else math.nan)
    return value


def small_artanh(s: float) -> float:
    """Return artanh s for s within 1/3 of 0, by a polynomial of degree 23 that is off by less than 2^-57 of it."""
    z = s * s
    p = 0.07815288900461426
    p = p * z + 0.03746071897775383
    p = p * z + 0.05422589197440007
    p = p * z + 0.05867139530651599
    p = p * z + 0.06667589315724629
    p = p * z + 0.07692271982430275
    p = p * z + 0.09090909948981357
    p = p * z + 0.11111111099118386
    p = p * z + 0.1428571428580005
    p = p * z + 0.19999999999999762
    p = p * z + 0.3333333333333333
    return s + s * z * p


def softplus(x: float) -> float:
    """Return log(1 + e^x) without overflow."""
    e = exp(-abs(x))
    # log(1 + e) = 2 artanh(e/(2 + e))
    return (0.0 if 0.0 > x else x) + 2.0 * small_artanh(e / (2.0 + e))


def tail_excess(a: float) -> float:
    """Return phi(a)/Phi(-a) - a for a of 0 or more: how much the hazard of the normal law exceeds a.

    (a + 7/2) times it is a polynomial of degree 28 in (a - 7/2)/(a + 7/2), off by less than 2^-54 of it.
    """
    r = 1.0 / (a + 3.5)
    t = 1.0 - 7.0 * r
    z = t * t
    # Even and odd powers side by side, as a processor waits for each step of a sum.
    p = -1.9538495211799977e-09
    p = p * z + 2.3944266127520888e-08
    p = p * z - 1.8613120235525145e-07
    p = p * z + 1.1755047996946574e-06
    p = p * z - 6.197126123401296e-06
    p = p * z + 2.7630471522745756e-05
    p = p * z - 0.00010732395395760794
    p = p * z + 0.0003763097573105103
    p = p * z - 0.0012316460331122595
    p = p * z + 0.0038678090485352494
    p = p * z - 0.011862644542464343
    p = p * z + 0.03558751629877654
    p = p * z - 0.10078958422812177
    p = p * z + 0.21069624634473663
    p = p * z + 1.759738854003898
    q = -3.905160660790582e-09
    q = q * z + 2.042403113866011e-08
    q = q * z + 1.2379334478757183e-08
    q = q * z - 4.486348474452881e-07
    q = q * z + 1.9287406482255034e-06
    q = q * z - 3.5469157063849565e-06
    q = q * z - 4.361765821293739e-06
    q = q * z + 5.5552323875025444e-05
    q = q * z - 0.00020438034467268464
    q = q * z + 0.000272168537111225
    q = q * z + 0.002029881707732817
    q = q * z - 0.02218009878294482
    q = q * z + 0.15371368344105169
    q = q * z - 1.0299783886096456
    return r * (p + t * q)


def inverse_mills(x: float) -> float:
    """Return phi(x)/Phi(x) without 0/0 far left, where it is close to -x."""
    ratio = abs(x) + tail_excess(abs(x))
    density = 0.3989422804014327 * exp(-0.5 * x * x)
    # Phi(x) = 1 - phi(x)/ratio
    right = density / (1.0 - density / ratio)
    return ratio if x < 0.0 else right


def mills_excess(x: float) -> float:
    """Return x + phi(x)/Phi(x), phi and Phi the standard normal density and distribution function."""
    left, right = tail_excess(abs(x)), x + inverse_mills(x)
    return left if x < 0.0 else right


def log_normal_cdf(x: float) -> float:
    """Return log Phi(x) without log 0 far left, where it is close to -x^2/2."""
    ratio = abs(x) + tail_excess(abs(x))
    density = 0.3989422804014327 * exp(-0.5 * x * x)
    left = -0.5 * x * x - log(2.5066282746310002 * ratio)
    # log(1 - Q) = -2 artanh(Q/(2 - Q)) of Q = phi(x)/ratio
    right = -2.0 * small_artanh(density / (2.0 * ratio - density))
    return left if x < 0.0 else right


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
