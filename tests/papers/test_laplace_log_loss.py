"""The log loss under Laplace noise: exact for p = 1..6, and the price in variance that the theory states."""

import math

import numpy as np
import pytest
from scipy import special

import symdebias as sd

pytestmark = pytest.mark.newest

NODES, WEIGHTS = np.polynomial.laguerre.laggauss(80)


def fine_mean(f, scale):
    """E f(e), e Laplace of the scale, by 160 pieces of Gauss-Legendre; f takes and returns arrays."""
    t, w = np.polynomial.legendre.leggauss(12)
    left = 0.25 * np.arange(160)
    points = (left[:, None] + 0.125 * (t + 1)).ravel()
    weights = np.tile(0.125 * w, 160) * np.exp(-points) / 2
    return np.tile(weights, 2) @ f(scale * np.concatenate([points, -points]))


def laplace_mean(f, scale):
    """E f(e), e Laplace of the scale, by two-sided Gauss-Laguerre; f takes and returns arrays."""
    points, weights = np.concatenate([-scale * NODES, scale * NODES]), np.tile(WEIGHTS, 2) / 2
    return np.tensordot(weights, f(points), axes=1)


def mixture(betas):
    """Weights A_j with: the sum of Laplace noises has the density sum_j A_j Laplace(beta_j) (partial fractions)."""
    squares = np.asarray(betas) ** 2
    return np.array([np.prod([b / (b - other) for other in squares if other != b]) for b in squares])


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "p", [p if p in (1, 3) else pytest.param(p, marks=pytest.mark.exhaustive) for p in range(1, 7)]
)
def test_the_correction_is_exact(p):
    """The loss, and for p up to 3 each entry of the gradient, in the mean over all columns, max beta <= 1, to 1e-9.

    The noise of the score is a mixture of p Laplace laws, so that a mean over p columns is one over one or two.
    """
    rng = np.random.default_rng(p)
    target = -1.0 if p % 2 else 1.0
    betas = np.linspace(0.35, 1.0, p)
    theta = rng.choice([-1.0, 1.0], p) * rng.uniform(0.4, 0.9, p)
    scales = betas / np.abs(theta)
    names = [f"x{j}" for j in range(p)]
    release = sd.Release({n: sd.LaplaceMechanism.from_scale(b) for n, b in zip(names, scales, strict=True)})
    corrected = sd.debias(sd.losses.logistic(), release)
    assert corrected.is_exact
    x = rng.uniform(-0.5, 0.5, p)
    z = target * (x @ theta)
    rows = np.tile(x, (4000, 1))

    def loss(points):
        # A shift of the score by e is put on the first column, where nothing but the score sees it.
        moved = rows[: len(points)].copy()
        moved[:, 0] += points / theta[0]
        return corrected.loss(theta, moved, np.full(len(points), target))

    share = mixture(betas)
    mean = sum(a * fine_mean(loss, beta) for a, beta in zip(share, betas, strict=True))
    assert mean == pytest.approx(np.log1p(np.exp(-z)), abs=1e-9)
    wanted = -target * x / (1 + np.exp(z))
    for j in range(p if p <= 3 else 0):
        others = np.delete(betas, j)
        rest = mixture(others) if p > 1 else np.ones(1)
        lengths = others if p > 1 else np.zeros(1)

        def entry(own, j=j, rest=rest, lengths=lengths):
            points = np.concatenate([-NODES, NODES])
            total = np.zeros(len(own))
            for a, beta in zip(rest, lengths, strict=True):
                moved = np.tile(x, (len(own), len(points), 1))
                moved[:, :, j] += own[:, None]
                # The noise of the other columns, on one that is not j; the entry of j sees the score alone.
                other = (j + 1) % p
                if beta > 0:
                    moved[:, :, other] += beta * points / theta[other]
                flat = moved.reshape(-1, p)
                gradient = corrected.gradient(theta, flat, np.full(len(flat), target))[:, j].reshape(len(own), -1)
                total += a * gradient @ (np.tile(WEIGHTS, 2) / 2)
            return total

        assert laplace_mean(entry, scales[j]) == pytest.approx(wanted[j], abs=1e-9)


def corrected_log_loss(u, p, beta):
    """(1 - beta^2 d^2)^p log(1 + e^-u): even derivatives from the second on are sums over the poles of its slope."""
    total = np.logaddexp(0, -u) - p * beta**2 / (4 * np.cosh(u / 2) ** 2)
    squares = (u[:, None] + 1j * np.pi * (2 * np.arange(150) + 1)) ** -2.0
    powers = squares.copy()
    for k in range(2, p + 1):
        powers *= squares
        derivative = -2 * math.factorial(2 * k - 1) * powers.sum(axis=1).real
        total += (-1) ** k * math.comb(p, k) * beta ** (2 * k) * derivative
    return total


def noise_of_the_score(p, beta):
    """Points and weights for the sum of p Laplace numbers, by its density (Kotz et al. 2001, Section 4.1)."""
    points = np.linspace(-40, 40, 4000)
    z = np.abs(points) / beta
    density = (z / 2) ** (p - 0.5) * special.kv(p - 0.5, z) / (math.sqrt(math.pi) * math.gamma(p) * beta)
    return points, density * (points[1] - points[0])


def deviation(values, weights):
    return math.sqrt(weights @ values**2 - (weights @ values) ** 2)


@pytest.mark.parametrize(("p", "expected"), [(2, 1.2093), (5, 1.2453), (10, 5.0504), (20, 6.2092e6)])
def test_the_variance_explodes_as_the_documentation_says(p, expected):
    """Sd of the corrected loss at a score of 0 and s = 2 sum beta^2 = 4, by quadrature.

    The documentation rounds them to 1.2, 1.25, 5 and 6,000,000.
    """
    beta = math.sqrt(2 / p)
    points, weights = noise_of_the_score(p, beta)
    assert weights @ points**2 == pytest.approx(4.0, rel=1e-6)
    values = corrected_log_loss(points, p, beta)
    if p <= 10:  # beyond, the sum of values of 1e9 and more has no such digits
        assert weights @ values == pytest.approx(math.log(2), abs=1e-6)
    assert deviation(values, weights) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("p", [3, *(pytest.param(p, marks=pytest.mark.exhaustive) for p in (2, 5, 10))])
def test_the_corrected_loss_is_the_one_of_that_variance(p):
    """A scale of the noise taken 1% too large moves the values by 1e-3 and more."""
    beta = math.sqrt(2 / p)
    release = sd.Release({f"x{j}": sd.LaplaceMechanism.from_scale(beta) for j in range(p)})
    corrected = sd.debias(sd.losses.logistic(), release, method="exact")
    points, _ = noise_of_the_score(p, beta)
    rows = np.zeros((len(points), p))
    rows[:, 0] = points
    found = corrected.loss(np.ones(p), rows, np.ones(len(points)))
    np.testing.assert_allclose(found, corrected_log_loss(points, p, beta), rtol=1e-6, atol=1e-6)
    off = np.abs(corrected_log_loss(points, p, 1.01 * beta) - found).max()
    assert off > 1e-3
