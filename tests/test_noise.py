import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from symdebias.mechanisms.discrete_laplace import discrete_laplace_noise
from symdebias.mechanisms.gaussian import gaussian_noise
from symdebias.mechanisms.laplace import laplace_noise
from symdebias.mechanisms.staircase import staircase_noise
from symdebias.mechanisms.uniform import uniform_noise
from symdebias.noise import FREQUENCY as W
from symdebias.noise import AdditiveNoise, ChannelNoise

# variance, characteristic function, whether it is Gaussian
KINDS = {
    "normal": (1.0, sp.exp(-(W**2) / 2), True),
    "normal of a decimal scale": (0.3 * 0.3, sp.exp(-sp.Float(0.3 * 0.3) * W**2 / 2), True),
    "normal, written as a root": (2.0, sp.sqrt(sp.exp(-2 * W**2)), True),
    "product of two normals": (3.0, sp.exp(-(W**2)) * sp.exp(-(W**2) / 2), True),
    "Laplace": (2.0, 1 / (1 + W**2), False),
    "coin": (1.0, sp.cos(W), False),
    "uniform": (1 / 3, sp.sin(W) / W, False),
    "normal plus coin": (2.0, sp.cos(W) * sp.exp(-(W**2) / 2), False),
    "right variance, other exponent": (1.0, sp.exp(-(W**2) / 2 - W**4), False),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_expression_decides_whether_noise_is_gaussian(name):
    variance, phi, gaussian = KINDS[name]
    assert AdditiveNoise(variance, phi).is_gaussian is gaussian


@given(st.floats(1e-100, 1e120))
def test_normal_noise_is_gaussian_at_every_scale(scale):
    noise = gaussian_noise(scale)
    assert noise.is_gaussian
    assert noise.variance == scale * scale
    assert noise == gaussian_noise(scale)


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 0.03, 0.1, 0.7, 1.0, 37.0, 1e6, 1e9, 1e100])
def test_noise_of_every_scale_exists(scale):
    assert laplace_noise(scale).inverse_polynomial == pytest.approx((1.0, scale**2))
    assert uniform_noise(scale).variance == pytest.approx(scale**2 / 3)
    if 0.03 <= scale <= 2**32:
        weights = dict(discrete_laplace_noise(scale, 1.0).inverse_differences)
        q = math.exp(-1 / scale)
        assert weights[1.0] == pytest.approx(-q / math.expm1(-1 / scale) ** 2, rel=1e-12)
        assert discrete_laplace_noise(0.1 * scale, 0.1).variance == pytest.approx(-0.02 * weights[1.0], rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0, 60.0, 300.0, 700.0])
def test_staircases_of_every_budget_exist(epsilon):
    gamma = 1 / (1 + math.exp(epsilon / 2))
    assert staircase_noise(epsilon, 2.0, gamma).variance > 0
    assert staircase_noise(epsilon, 1e-3, 0.5).variance > 0


BAD_NOISE = [
    (1.0, "exp(-w**2/2)", TypeError, "text is never evaluated"),
    (1.0, 0.5, TypeError, "must be a SymPy expression"),
    (1.0, sp.exp(-(sp.Symbol("t") ** 2) / 2), ValueError, "has the symbols t"),
    (1.0, sp.exp(-(W**2)), ValueError, "not that of noise with mean 0 and the variance 1.0"),
    (1.0, sp.exp(-(W**2) / 2 + sp.I * W), ValueError, "mean 0"),
    (1.0, sp.exp(-sp.Abs(W)), ValueError, "not that of noise"),
    (1.0, sp.Integer(1), ValueError, "not that of noise"),
    (0.0, sp.Integer(1), ValueError, "variance=0.0 is too small"),
    (-1.0, sp.exp(W**2 / 2), ValueError, "variance=-1.0 is too small"),
    (math.nan, sp.exp(-(W**2) / 2), ValueError, "variance=nan"),
    (math.inf, sp.exp(-(W**2) / 2), ValueError, "variance=inf"),
    ("1", sp.exp(-(W**2) / 2), TypeError, "variance has the type str"),
]


@pytest.mark.parametrize(("variance", "phi", "error", "message"), BAD_NOISE)
def test_noise_that_is_refused(variance, phi, error, message):
    with pytest.raises(error, match=message):
        AdditiveNoise(variance, phi)


def test_channels_hold_plain_numbers():
    channel = ChannelNoise([0, 1], np.array([0.0, 1.0, 2.0]), np.array([[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]]))
    assert channel.outputs == (0.0, 1.0, 2.0)
    assert channel.matrix == ((0.5, 0.5, 0.0), (0.0, 0.25, 0.75))
    assert hash(channel) == hash(ChannelNoise((0, 1), (0, 1, 2), channel.matrix))


TWO = ((0.5, 0.5), (0.5, 0.5))
BAD_CHANNELS = [
    ((0, 1), (0, 1), ((0.5, 0.5),), ValueError, "one row per input"),
    ((0, 1), (0, 1), ((0.5, 0.5), (1.0,)), ValueError, "one column per output"),
    ((0, 1), (0, 1), ((0.5, 0.4), (0.5, 0.5)), ValueError, "row 0 of the matrix sums to 0.9"),
    ((0, 1), (0, 1), ((0.5, 0.5), (0.5, 0.5 + 2e-12)), ValueError, "row 1 of the matrix sums"),
    ((0, 1), (0, 1), ((1.5, -0.5), (0.5, 0.5)), ValueError, r"matrix\[0\]\[0\]=1.5 is too large"),
    ((0, 1), (0, 1), ((math.nan, 0.5), (0.5, 0.5)), ValueError, r"matrix\[0\]\[0\]=nan"),
    ((0, 1), (0, 1), (("a", 0.5), (0.5, 0.5)), TypeError, r"matrix\[0\]\[0\] has the type str"),
    ((0, 0), (0, 1), TWO, ValueError, "the inputs of a channel must be distinct"),
    ((0, 1), (1, 1), TWO, ValueError, "the outputs of a channel must be distinct"),
    ((0, math.inf), (0, 1), TWO, ValueError, r"inputs\[1\]=inf"),
    ((), (0, 1), (), ValueError, "the inputs of a channel"),
    ("01", (0, 1), TWO, TypeError, "inputs has the type str"),
    ((0, 1), (0, 1), 3, TypeError, "matrix has the type int"),
]


@pytest.mark.parametrize(("inputs", "outputs", "matrix", "error", "message"), BAD_CHANNELS)
def test_channels_that_are_refused(inputs, outputs, matrix, error, message):
    with pytest.raises(error, match=message):
        ChannelNoise(inputs, outputs, matrix)
