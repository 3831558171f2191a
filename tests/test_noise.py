import math
import pickle
import re

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from symdebias import StaircaseMechanism
from symdebias.exceptions import NoExactCorrectionError
from symdebias.noise import FREQUENCY as W
from symdebias.noise import MOST_VALUES, AdditiveNoise, ChannelNoise, SymmetricChannel

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
    rates = {"Laplace": 1.0, "right variance, other exponent": 0.4}
    assert AdditiveNoise(variance, phi, tail_rate=rates.get(name, math.inf)).is_gaussian is gaussian


@pytest.mark.parametrize("half", [0.3, 1e-6, 7e5])
def test_decimal_constants_may_leave_a_characteristic_function_a_little_from_1(half):
    assert AdditiveNoise(half**2 / 3, sp.sin(half * W) / (half * W)).tail_rate == math.inf


# The variance and the characteristic function of noise of width 1, and where its exponential moments end.
TAILS = {
    "Laplace": (2.0, 1 / (1 + W**2), 1.0),
    "two Laplaces": (4.0, (1 + W**2) ** -2, 1.0),
    "normal plus Laplace": (3.0, sp.exp(-(W**2) / 2) / (1 + W**2), 1.0),
    "rare and far": (0.99 + 0.01 * 18, sp.exp(-(W**2) / 2) * 0.99 + 0.01 / (1 + 9 * W**2), 1 / 3),
    "hyperbolic secant": (1.0, 1 / sp.cosh(W), math.pi / 2),
    "logistic, in exponentials": (1 / 3, 2 * W / (sp.exp(W) - sp.exp(-W)), math.pi),
    "a difference of two gamma laws of a decimal shape": (1.4, (1 + W**2) ** -0.7, 1.0),
    "uniform": (1 / 3, sp.sin(W) / W, math.inf),
    "normal plus coin": (2.0, sp.cos(W) * sp.exp(-(W**2) / 2), math.inf),
    "Student's t, of which it is not known": (
        5 / 3, sp.exp(-sp.sqrt(5) * sp.Abs(W)) * (1 + sp.sqrt(5) * sp.Abs(W) + 5 * W**2 / 3), math.inf
    ),
}  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize("unit", [1e-5, 1.0, 1e5])
@pytest.mark.parametrize("name", TAILS)
def test_exponential_moments_end_where_noise_says_or_it_is_refused(name, unit):
    variance, phi, rate = TAILS[name]
    there = {"variance": variance * unit**2, "characteristic_function": phi.subs(W, sp.Float(unit, 20) * W)}
    assert AdditiveNoise(**there, tail_rate=rate / unit).tail_rate == rate / unit
    if math.isfinite(rate):
        for wrong in (math.inf, 1.02 * rate / unit):
            with pytest.raises(ValueError, match=re.escape(f"from about z = {rate / unit:.4g} on")):
                AdditiveNoise(**there, tail_rate=wrong)


BAD_NOISE = [
    (1.0, "exp(-w**2/2)", TypeError, "text is never evaluated"),
    (1.0, 0.5, TypeError, "must be a SymPy expression"),
    (1.0, sp.exp(-(sp.Symbol("t") ** 2) / 2), ValueError, "has the symbols t"),
    (
        1.0,
        sp.exp(-(W**2)),
        ValueError,
        "noise with the variance 2 by its curvature at w = 0, and variance=1.0 was given",
    ),
    (1.0, sp.exp(-(W**2) / 2 + sp.I * W), ValueError, "that of noise with the mean 1. It must be 0"),
    (1.0, 2 * sp.exp(-(W**2) / 2), ValueError, "is 2 at w = 0. It must be 1 there"),
    (1.0, sp.factorial2(41) / 43 * sp.jn(20, W), ValueError, "is 0 at w = 0. It must be 1 there"),
    (1.0, 1 / W, ValueError, "is infinite at w = 0. It must be 1 there"),
    (1.0, sp.exp(W**2 / 2), ValueError, "is more than 1 next to w = 0"),
    (1.0, 2 - sp.cosh(W), ValueError, r"has the size 25.31 at w = 4, and that of any noise is at most 1"),
    (1.0, 1 - W**2 / 2, ValueError, "has the size 7 at w = 4, and that of any noise is at most 1"),
    (1.0, sp.exp(W), ValueError, "is not at -w the conjugate of what it is at w.* as well.$"),
    # SymPy's value has the wrong sign at negative numbers, as that of the root of w has.
    (1 / 13, sp.factorial2(11) * sp.jn(5, W) / W**5, ValueError, r"SymPy takes jn\(n, w\) for positive w alone"),
    (1.0, sp.Function("f")(W), ValueError, r"f\(w\) is no finite number that SymPy finds near w = 0"),
    (1.0, sp.nan, ValueError, "nan is no finite number"),
    # An exponential number less its mean.
    (1.0, sp.exp(-sp.I * W) / (1 - sp.I * W), ValueError, "the noise is not symmetric about 0"),
    (1.0, sp.exp(-sp.Abs(W)), ValueError, "has no finite curvature at w = 0: the noise has no finite variance"),
    (1.0, sp.Integer(1), ValueError, "noise with the variance 0 by its curvature at w = 0, and variance=1.0 was given"),
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


def test_functions_that_scipy_lacks_are_characteristic_functions_too():
    """The mean of a number that is uniform on a ball, as hypergeometric and as Bessel functions."""
    hyper = AdditiveNoise(1 / 3, sp.hyper([], [sp.Rational(3, 2)], -(W**2) / 4))
    assert hyper.inverse_taylor(2) == pytest.approx((1.0, 0.0, -1 / 6))
    assert AdditiveNoise(1 / 13, sp.expand_func(sp.factorial2(11) * sp.jn(5, W) / W**5)).tail_rate == math.inf


def test_a_real_characteristic_function_may_be_written_in_complex_numbers():
    assert AdditiveNoise(2.0, 1 / ((1 - sp.I * W) * (1 + sp.I * W)), tail_rate=1.0).inverse_polynomial == (1.0, 1.0)


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


# ---- what undoes a channel -------------------------------------------------------------------------------


@given(st.integers(2, 6), st.integers(0, 3), st.integers(0, 1000))
def test_unbiased_weights_undo_the_channel(inputs, extra, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(inputs + extra), size=inputs)
    matrix /= matrix.sum(axis=1, keepdims=True)
    prior = rng.dirichlet(np.ones(inputs))
    channel = ChannelNoise(range(inputs), range(inputs + extra), matrix, prior)
    weights = channel.exact_weights("the test")
    assert channel.rank == inputs
    np.testing.assert_allclose(np.array(channel.matrix) @ weights, np.eye(inputs), atol=1e-7)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-7)


def test_the_weights_have_the_least_variance():
    rng = np.random.default_rng(1)
    matrix = rng.dirichlet(np.ones(6), size=3)
    prior = np.array([0.2, 0.5, 0.3])
    channel = ChannelNoise(range(3), range(6), matrix, prior)
    weights = channel.weights
    g = np.array([1.0, -2.0, 0.5])
    best = weights @ g
    chance = prior @ np.array(channel.matrix)
    null = np.linalg.svd(np.array(channel.matrix))[2][3:]
    for direction in null:
        for size in (-0.1, 0.1):
            other = best + size * direction
            np.testing.assert_allclose(np.array(channel.matrix) @ other, g, atol=1e-12)
            assert chance @ other**2 > chance @ best**2


def test_k_ary_randomized_response_has_the_inverse_of_the_theory():
    """h_i = ((e^eps + k - 1) g_i - sum g)/(e^eps - 1)."""
    epsilon, k = 1.3, 5
    keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    matrix = np.full((k, k), (1 - keep) / (k - 1)) + (keep - (1 - keep) / (k - 1)) * np.eye(k)
    weights = ChannelNoise(range(k), range(k), matrix).weights
    g = np.random.default_rng(0).normal(size=k)
    expected = ((math.exp(epsilon) + k - 1) * g - g.sum()) / (math.exp(epsilon) - 1)
    np.testing.assert_allclose(weights @ g, expected, rtol=1e-12)


def test_a_channel_of_lower_rank_names_what_it_hides():
    channel = ChannelNoise((0, 1, 2), (0, 1), ((0.9, 0.1), (0.5, 0.5), (0.1, 0.9)))
    weights, obstacles = channel.weights, channel.obstacles
    assert channel.rank == 2
    assert obstacles.shape == (1, 3)
    np.testing.assert_allclose(obstacles @ [1.0, 1.0, 1.0], 0, atol=1e-12)
    np.testing.assert_allclose(obstacles @ [0.0, 1.0, 2.0], 0, atol=1e-12)
    matrix = np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]])
    np.testing.assert_allclose(matrix @ weights @ [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], atol=1e-12)
    with pytest.raises(NoExactCorrectionError, match=r"the channel of the grade has the rank 2 for 3 categories"):
        channel.exact_weights("the grade")


@pytest.mark.parametrize(("count", "keep"), [(2, 0.75), (2, 0.25), (3, 0.9), (7, 0.2), (40, 0.05)])
def test_a_symmetric_channel_is_the_channel_of_its_matrix(count, keep):
    values = tuple(np.arange(count) - 1.5)
    closed = SymmetricChannel(values, keep=keep)
    written = ChannelNoise(values, values, closed.matrix)
    assert closed.matrix[0][0] == keep
    assert (closed.inputs, closed.outputs, closed.rank) == (written.inputs, written.outputs, written.rank)
    np.testing.assert_allclose(closed.weights, written.weights, rtol=0, atol=1e-12 * np.abs(written.weights).max())
    undone = np.array(closed.matrix) @ closed.weights
    np.testing.assert_allclose(undone, np.eye(count), atol=1e-12 / abs(keep - 1 / count))
    assert closed.obstacles.shape == (0, count)
    assert closed.keeps_means == written.keeps_means
    assert closed == SymmetricChannel(values, keep=keep) != SymmetricChannel(values, keep=keep / 2)
    assert hash(closed) == hash(SymmetricChannel(values, keep=keep))
    copied = pickle.loads(pickle.dumps(closed))
    assert copied == closed
    assert "matrix" not in vars(copied)


@pytest.mark.parametrize(
    ("values", "keep", "message"),
    [
        ((0,), 0.5, "two or more"),
        ((0, 0), 0.9, "distinct"),
        ((0, 1), 0.5, "same probability"),
        ((0, 1), 1.1, "keep=1.1"),
    ],
)
def test_symmetric_channels_that_are_refused(values, keep, message):
    with pytest.raises(ValueError, match=message):
        SymmetricChannel(values, keep=keep)


def test_a_matrix_that_would_take_long_to_invert_is_refused_before_it_is_read():
    with pytest.raises(ValueError, match=r"1,001 inputs. It may have 1,000"):
        ChannelNoise(range(MOST_VALUES + 1), (0, 1), None)


def test_a_formula_in_a_message_has_short_constants():
    """Those of the staircase law are fractions of seventy digits: the message filled a screen with them."""
    formula = StaircaseMechanism(epsilon=4.0, bounds=(-1, 1)).noise.formula
    assert len(formula) < 120
    w = 0.7
    exact = StaircaseMechanism(epsilon=4.0, bounds=(-1, 1)).noise.characteristic_function
    found = sp.sympify(formula, locals={"w": w})
    assert float(found) == pytest.approx(float(exact.subs(W, w)), abs=1e-3)
    assert AdditiveNoise(2.0, 1 / (1 + W**2), tail_rate=1.0).formula == "1/(w**2 + 1)"


def test_a_law_that_is_steep_at_zero_has_no_finite_variance():
    for power in (1, sp.Rational(1, 100), sp.Rational(1, 10_000)):
        with pytest.raises(ValueError, match="no finite variance"):
            AdditiveNoise(1.0, sp.exp(-(sp.Abs(W) ** power)))


def test_the_infinity_of_sympy_is_a_tail_rate():
    assert AdditiveNoise(1.0, sp.exp(-(W**2) / 2), tail_rate=sp.oo).tail_rate == math.inf
