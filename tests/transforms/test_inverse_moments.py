"""Exponentials and waves under any noise whose moments have a closed form."""

import math
from dataclasses import dataclass
from typing import ClassVar

import mpmath
import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.codegen.numeric import numeric
from symdebias.mechanisms import Mechanism, ranges
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise, exactly
from symdebias.transforms.moments import ARGUMENT, inverse_moments

W, HALF = FREQUENCY, sp.Rational(7, 10)
NOISES = {
    "uniform": AdditiveNoise(0.49 / 3, sp.sin(HALF * W) / (HALF * W)),
    "triangular": AdditiveNoise(0.49 / 6, (sp.sin(HALF * W / 2) / (HALF * W / 2)) ** 2),
    "hyperbolic secant": AdditiveNoise(0.25, 1 / sp.cosh(W / 2), tail_rate=math.pi),
    "logistic": AdditiveNoise(math.pi**2 / 48, sp.pi * W / 4 / sp.sinh(sp.pi * W / 4), tail_rate=4.0),
    "hyperbolic tangent": AdditiveNoise(1 / 24, sp.tanh(W / 4) / (W / 4), tail_rate=2 * math.pi),
    "of a logarithm": AdditiveNoise(1.0, 1 / (1 + sp.log(sp.cosh(W))), tail_rate=1.1),
    "two normal laws": AdditiveNoise(0.2, (sp.exp(-(W**2) / 50) + 3 * sp.exp(-19 * W**2 / 150)) / 4),
    "staircase": sd.StaircaseMechanism(epsilon=3.0, bounds=(-1, 1)).noise,
    "discrete staircase": sd.DiscreteStaircaseMechanism(epsilon=2.0, bounds=(0, 3)).noise,
    "Laplace": sd.LaplaceMechanism.from_scale(0.4).noise,
}

U, Y = sp.symbols("u y", real=True)
LOSSES = (
    sd.losses.poisson(), sd.losses.gamma(), sd.Loss((Y * U * sp.exp(-U / 2) + U**2) / 3, score=U, target=Y)
)  # fmt: skip


def end_of_series(found):
    """Return from which argument on the formula is taken: 0 where there is no series."""
    if not found.expression.has(sp.Piecewise) or len(found.expression.args) == 1:
        return 0.0
    condition = found.expression.args[0].cond
    share = next(number for number in condition.args if number.is_Rational)
    (unit,) = condition.free_symbols - {ARGUMENT}
    return float(share) / found.numbers[found.constants.index(unit)]


def derivative(found, order):
    """Return a derivative of what kernels compute, derived as theirs: at once SymPy would factor it, for seconds."""
    expression = found.expression
    for _ in range(order):
        expression = expression.diff(ARGUMENT)
    return sp.lambdify((ARGUMENT, *found.constants), expression, "math", cse=True)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", NOISES)
def test_values_and_derivatives_are_those_of_one_over_the_moments(name):
    """On either side of where the series ends, and next to 0, where a quotient of sines is 0/0."""
    noise = NOISES[name]
    found = inverse_moments(noise)
    z, exact = sp.Dummy(), 1 / exactly(noise.characteristic_function)
    wanted = sp.lambdify(z, exact.xreplace({W: -sp.I * z}), "mpmath")
    end = min(noise.tail_rate, 3 / math.sqrt(noise.variance))
    within = end_of_series(found) or 0.1 * end
    with mpmath.workdps(60):
        for order in (0, 1, 2):
            ours = derivative(found, order)
            for at in (1e-9, 1e-3 * within, within * (1 - 1e-9), within * (1 + 1e-9), 0.5 * end, -0.9 * end):
                there = mpmath.mpf(at)
                # A circle around the place, of which 0 is no point.
                value = mpmath.diff(wanted, there, order, h=mpmath.mpf(10) ** -15) if order else wanted(there)
                size = 1.0 if order == 0 else noise.variance ** (order / 2)
                assert ours(at, *found.numbers) == pytest.approx(float(mpmath.re(value)), rel=1e-11, abs=2e-13 * size)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", ["uniform", "triangular", "two normal laws"])
def test_far_out_all_derivatives_are_right_or_no_numbers(name):
    """Those of z/sinh z were 0 where the square of its sine was beyond float64: gradients of 505 for 1.4."""
    found, exact = inverse_moments(NOISES[name]), 1 / exactly(NOISES[name].characteristic_function)
    z = sp.Dummy()
    wanted = sp.lambdify(z, exact.xreplace({W: -sp.I * z}), "mpmath")
    end = 1 / found.numbers[-1]
    with mpmath.workdps(60):
        assert mpmath.re(wanted(mpmath.mpf(end))) == pytest.approx(1e-20, rel=1e-9)
        for order in (0, 2, 5):
            value = float(mpmath.re(mpmath.diff(wanted, 0.99 * end, order, h=mpmath.mpf(10) ** -10)))
            assert derivative(found, order)(0.99 * end, *found.numbers) == pytest.approx(value, rel=1e-9)
    printed = numeric(found.expression, (ARGUMENT, *found.constants))
    assert np.isnan(printed(1.01 * end, *found.numbers))
    corrected = sd.debias(sd.losses.poisson(), sd.Release({"a": Known(NOISES[name])}))
    with pytest.raises(ValueError, match="is no number in row 0"):
        corrected.gradient([7.2 * end], [[1.0]], [0.0])


def test_columns_of_one_formula_share_what_is_printed():
    one, other = (sd.StaircaseMechanism(epsilon=2.0, bounds=(0, high)).noise for high in (1.3, 7.3))
    assert inverse_moments(one).expression == inverse_moments(other).expression
    assert inverse_moments(one).numbers != inverse_moments(other).numbers


@dataclass(frozen=True)
class Known(Mechanism):
    """Noise that is declared, and never drawn."""

    law: AdditiveNoise
    kind: ClassVar[str] = "known"

    def __post_init__(self):
        self._declare()

    @property
    def noise(self):
        return self.law

    @property
    def guarantee(self):
        return None

    @property
    def range(self):
        return ranges.Numbers(None)

    def _add_noise(self, values, source):
        raise NotImplementedError


def smooth(power):
    """Return noise on [-1, 1] with a density like (1 - x^2)^power: its formula is a spherical Bessel function."""
    bessel = sp.expand_func(sp.jn(power, W))
    return AdditiveNoise(1 / (2 * power + 3), sp.factorial2(2 * power + 1) * bessel / W**power)


@pytest.mark.in_turn
def test_a_formula_that_cancels_is_taken_from_farther_out_or_not_at_all():
    """Of k = 8 it lost three digits of the value, and all of the second derivative, where the series ended."""
    assert end_of_series(inverse_moments(smooth(4))) > 1.5 * end_of_series(inverse_moments(smooth(1)))
    steep = smooth(8)
    assert inverse_moments(steep) is None
    with pytest.raises(sd.NoExactCorrectionError, match="Only polynomials of the score"):
        sd.debias(sd.losses.poisson(), sd.Release({"a": Known(steep)}), method="exact")


@pytest.mark.parametrize("scale", [1e-14, 1e-6, 1e7, 1e14])
def test_units_do_not_matter(scale):
    width = sp.Rational(scale)
    found = inverse_moments(AdditiveNoise(scale**2 / 3, sp.sin(width * W) / (width * W)))
    ours = sp.lambdify((ARGUMENT, *found.constants), found.expression, "math")
    for at in (0.0, 0.1, 0.4, 0.45, 3.0):
        wanted = at / math.sinh(at) if at else 1.0
        assert ours(at / scale, *found.numbers) == pytest.approx(wanted, rel=1e-14)


def test_no_closed_form_is_none():
    """A formula with cases, or with functions that kernels do not compute, says nothing about imaginary frequencies."""
    cut = AdditiveNoise(1.0, sp.Piecewise((1 - W**2 / 2, sp.Abs(W) < sp.Rational(1, 10)), (sp.exp(-(W**2) / 2), True)))
    assert inverse_moments(cut) is None
    bessel = AdditiveNoise(0.5, sp.besselj(0, W))
    assert inverse_moments(bessel) is None


def unit(name):
    """Return nodes and weights of the noise of a column, exact for smooth functions."""
    if name == "uniform":
        nodes, weights = np.polynomial.legendre.leggauss(40)
        return 0.7 * nodes, weights / 2
    noise = NOISES[name]
    values = noise.step * np.arange(-120, 121)
    law = sp.lambdify(VALUE, noise.density, "numpy")
    return values, np.array([float(law(value)) for value in values])


@pytest.mark.parametrize("name", ["uniform", "discrete staircase"])
# Powers before an exponential take seconds to derive.
@pytest.mark.parametrize("loss", [*LOSSES[:2], pytest.param(LOSSES[2], marks=pytest.mark.in_turn)], ids=str)
def test_corrections_are_unbiased(loss, name):
    """Two columns of noise of different widths, at parameters of either sign and of 0, by quadrature."""
    mechanisms = {
        "uniform": (sd.UniformMechanism(0.7), sd.UniformMechanism(1.4)),
        "discrete staircase": (sd.DiscreteStaircaseMechanism(epsilon=2.0, bounds=(0, 3)),) * 2,
    }[name]
    corrected = sd.debias(loss, sd.Release(dict(zip("ab", mechanisms, strict=True))), method="exact")
    nodes, weights = unit(name)
    wide = 2 * nodes if name == "uniform" else nodes
    x, y = np.array([0.4, -0.3]), 1.5
    X = np.stack([grid.ravel() for grid in np.meshgrid(x[0] + nodes, x[1] + wide, indexing="ij")], axis=1)
    chances, targets = np.multiply.outer(weights, weights).ravel(), np.full(len(X), y)
    true = sd.debias(loss, sd.Release(None, noiseless=("a", "b")), method="none")
    for theta in ([0.0, 0.0], [1e-7, -0.4], [0.25, 0.02]):
        place = np.array(theta)
        value, slope = true.loss(place, x[None, :], [y])[0], true.gradient(place, x[None, :], [y])[0]
        assert chances @ corrected.loss(place, X, targets) == pytest.approx(value, abs=1e-11)
        np.testing.assert_allclose(chances @ corrected.gradient(place, X, targets), slope, atol=1e-10)


@pytest.mark.in_turn
def test_a_poisson_fit_under_staircase_noise():
    """The naive fit is five standard errors off in both parameters."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 2))
    y = rng.poisson(np.exp(X @ [0.8, -0.5])).astype(float)
    release = sd.Release({name: sd.StaircaseMechanism(epsilon=4.0, bounds=(-1, 1)) for name in "ab"})
    noised = release.privatize(X, y, random_state=1)
    fit = sd.m_estimate(sd.debias(sd.losses.poisson(), release), noised.X, noised.y)
    away = (fit.theta - [0.8, -0.5]) / fit.standard_errors
    assert np.all(np.abs(away) < 4)
    naive = sd.literature.naive(sd.losses.poisson(), release, noised.X, noised.y).theta
    assert np.all(np.abs(naive - [0.8, -0.5]) > 5 * fit.standard_errors)


@pytest.mark.in_turn
def test_waves_are_undone_where_the_characteristic_function_is_nowhere_0():
    assert {name for name, noise in NOISES.items() if noise.undoes_waves} == {
        "hyperbolic secant", "logistic", "hyperbolic tangent", "two normal laws", "Laplace",
    }  # fmt: skip
    # A sum of waves that may be 0, beside a positive function.
    assert not AdditiveNoise(2.0, sp.exp(-(W**2) / 2) * sp.cos(W)).undoes_waves
    assert sd.DiscreteLaplaceMechanism.from_scale(0.7, step=0.5).noise.undoes_waves
    for mechanism in (sd.UniformMechanism(0.5), sd.StaircaseMechanism(epsilon=2.0, bounds=(0, 1))):
        with pytest.raises(sd.NoExactCorrectionError, match="where it is 0 waves are not undone"):
            sd.debias(sd.losses.logistic(), sd.Release({"a": mechanism}))


def test_a_positive_formula_that_kernels_do_not_compute_is_refused_for_that():
    """It was refused for frequencies where it is 0, and has none."""
    noise = AdditiveNoise(1.0, 1 / (1 + sp.asinh(W) ** 2 / 2), tail_rate=0.8)
    assert noise.undoes_waves
    for release in (sd.Release({"a": Known(noise)}), sd.Release(None, Known(noise), noiseless=("a",))):
        with pytest.raises(sd.NoExactCorrectionError, match="is nowhere 0, but kernels compute it"):
            sd.debias(sd.losses.huber(), release, method="surrogate")


V = VALUE
DENSITIES = {
    "hyperbolic secant": sp.sech(sp.pi * V),
    "logistic": sp.sech(2 * V) ** 2,
    "hyperbolic tangent": -4 * sp.log(sp.tanh(sp.pi * sp.Abs(V))) / sp.pi,
    "two normal laws": 5 * sp.exp(-25 * V**2 / 2) / (4 * sp.sqrt(2 * sp.pi))
    + 3 * sp.exp(-75 * V**2 / 38) / (4 * sp.sqrt(2 * sp.pi * sp.Rational(19, 75))),
}


def far(name):
    """Return nodes at equal distances and their weights: for smooth densities that fall off sums are exact."""
    nodes = np.arange(-240, 241) / 20
    law = sp.lambdify(VALUE, DENSITIES[name], "numpy")
    if name == "hyperbolic tangent":
        # Infinite at 0: sums at equal distances of what takes both ends far out.
        places = np.arange(-100, 65) / 20
        sizes = np.exp(places - np.exp(-places))
        weights = law(sizes) * sizes * (1 + np.exp(-places)) / 20
        return np.concatenate([-sizes, sizes]), np.concatenate([weights, weights])
    with np.errstate(over="ignore"):
        return nodes, law(nodes) / 20


@pytest.mark.in_turn
@pytest.mark.parametrize("name", DENSITIES)
def test_surrogates_are_corrected_exactly(name):
    """Two columns, one of them at its own scale, by quadrature: the mean over the noise is the surrogate."""
    noise, (nodes, weights) = NOISES[name], far(name)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert weights @ nodes**2 == pytest.approx(noise.variance, rel=1e-12)
    twice = AdditiveNoise(
        4 * noise.variance, noise.characteristic_function.subs(W, 2 * W), tail_rate=noise.tail_rate / 2
    )
    settings = {"radius": 2.0, "score_variance": 0.3, "n": 1e4}
    release = sd.Release({"a": Known(noise), "b": Known(twice)})
    corrected = sd.debias(sd.losses.logistic(), release, method="surrogate", **settings)
    x, y = np.array([0.4, -0.3]), -1.0
    X = np.stack([grid.ravel() for grid in np.meshgrid(x[0] + nodes, x[1] + 2 * nodes, indexing="ij")], axis=1)
    chances, targets = np.multiply.outer(weights, weights).ravel(), np.full(len(X), y)
    design = corrected.design

    def surrogate(theta):
        score = np.array([x @ theta])
        wanted = np.logaddexp(0, -y * score)
        return (wanted + corrected.surrogate_parts.errors(design, score, np.array([y]))[0])[0]

    for theta in ([0.0, 0.0], [1e-7, -0.4], [0.6, 0.2]):
        place, step = np.array(theta), 1e-6
        assert chances @ corrected.loss(place, X, targets) == pytest.approx(surrogate(place), abs=1e-9)
        slopes = [(surrogate(place + move) - surrogate(place - move)) / (2 * step) for move in step * np.eye(2)]
        np.testing.assert_allclose(chances @ corrected.gradient(place, X, targets), slopes, atol=1e-8)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", DENSITIES)
def test_surrogates_of_residuals_under_noise_of_the_target(name):
    noise, (nodes, weights) = NOISES[name], far(name)
    settings = {"radius": 2.0, "score_variance": 0.0, "n": 1e4}
    release = sd.Release(None, Known(noise), noiseless=("a",))
    corrected = sd.debias(sd.losses.huber(), release, method="surrogate", **settings)
    x, y, theta = np.array([0.4]), 0.5, np.array([0.8])
    targets = y + nodes
    found = weights @ corrected.loss(theta, np.tile(x, (len(nodes), 1)), targets)
    errors = corrected.surrogate_parts.errors(corrected.design, x * theta, np.array([y]))[0]
    assert found == pytest.approx((0.32 - 0.5) ** 2 / 2 + errors[0], abs=1e-9)


@dataclass(frozen=True)
class TwoScales(Known):
    """Normal noise of .2, and of .8 for one number in five."""

    kind: ClassVar[str] = "two scales"

    def _add_noise(self, values, source):
        rng = np.random.default_rng(len(values))
        return values + rng.normal(size=values.shape) * np.where(rng.random(values.shape) < 0.2, 0.8, 0.2)


@pytest.mark.in_turn
def test_the_log_loss_under_noise_of_two_scales():
    """The naive fit is five standard errors off in both parameters."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (40_000, 2))
    y = np.where(rng.random(40_000) < 1 / (1 + np.exp(-X @ [1.5, -1.0])), 1.0, -1.0)
    density = (4 * sp.exp(-25 * V**2 / 2) + sp.exp(-25 * V**2 / 32) / 4) / sp.sqrt(2 * sp.pi)
    noise = AdditiveNoise(0.16, (4 * sp.exp(-(W**2) / 50) + sp.exp(-8 * W**2 / 25)) / 5, density)
    release = sd.Release(TwoScales(noise)).bind(("a", "b"))
    noised = release.privatize(X, y, random_state=1)
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), release), noised.X, noised.y)
    assert fit.corrected.method == "surrogate"
    assert np.all(np.abs(fit.theta - [1.5, -1.0]) < 4 * fit.standard_errors)
    naive = sd.literature.naive(sd.losses.logistic(), release, noised.X, noised.y).theta
    assert np.all(np.abs(naive - [1.5, -1.0]) > 5 * fit.standard_errors)
    found = sd.evaluation.evaluate([1.5, -1.0], noised.X, noised.y, metric="log_loss", release=release)
    wanted = np.mean(np.logaddexp(0, -y * (X @ [1.5, -1.0])))
    assert abs(found.value - wanted) < 4 * found.standard_error
