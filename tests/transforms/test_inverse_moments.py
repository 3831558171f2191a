"""Exponentials under any noise whose moments have a closed form."""

import math
from dataclasses import dataclass
from typing import ClassVar

import mpmath
import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.mechanisms import Mechanism, ranges
from symdebias.noise import FREQUENCY, VALUE, AdditiveNoise, exactly
from symdebias.transforms.moments import ARGUMENT, inverse_moments

W, HALF = FREQUENCY, sp.Rational(7, 10)
NOISES = {
    "uniform": AdditiveNoise(0.49 / 3, sp.sin(HALF * W) / (HALF * W)),
    "triangular": AdditiveNoise(0.49 / 6, (sp.sin(HALF * W / 2) / (HALF * W / 2)) ** 2),
    "hyperbolic secant": AdditiveNoise(0.25, 1 / sp.cosh(W / 2), tail_rate=math.pi),
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
    """Return from which argument on the formula is taken."""
    condition = found.expression.args[0].cond
    share = next(number for number in condition.args if number.is_Rational)
    (unit,) = condition.free_symbols - {ARGUMENT}
    return float(share) / found.numbers[found.constants.index(unit)]


@pytest.mark.parametrize("name", NOISES)
def test_values_and_derivatives_are_those_of_one_over_the_moments(name):
    """On either side of where the series ends, and next to 0, where a quotient of sines is 0/0."""
    noise = NOISES[name]
    found = inverse_moments(noise)
    z, exact = sp.Dummy(), 1 / exactly(noise.characteristic_function)
    wanted = sp.lambdify(z, exact.xreplace({W: -sp.I * z}), "mpmath")
    end = min(noise.tail_rate, 3 / math.sqrt(noise.variance))
    within = end_of_series(found)
    with mpmath.workdps(60):
        for order in (0, 1, 2):
            ours = sp.lambdify((ARGUMENT, *found.constants), found.expression.diff(ARGUMENT, order), "math")
            for at in (1e-9, 1e-3 * within, within * (1 - 1e-9), within * (1 + 1e-9), 0.5 * end, -0.9 * end):
                there = mpmath.mpf(at)
                # A circle around the place, of which 0 is no point.
                value = mpmath.diff(wanted, there, order, h=mpmath.mpf(10) ** -15) if order else wanted(there)
                size = 1.0 if order == 0 else noise.variance ** (order / 2)
                assert ours(at, *found.numbers) == pytest.approx(float(mpmath.re(value)), rel=1e-11, abs=2e-13 * size)


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
@pytest.mark.parametrize("loss", LOSSES, ids=str)
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
