"""Certificates against dense scans: no bias that a scan finds exceeds what is certified."""

import math

import numpy as np
import pytest
import sympy as sp
from instances import U, Y
from scipy import signal, special

import symdebias as sd
from symdebias.assessment.certificate import Certificate
from symdebias.codegen.numeric import numeric

pytestmark = pytest.mark.newest

RADIUS = 4.7
KINDS = {
    "hinge": sp.Max(0, 1 - U),
    "Huber": sp.Piecewise(((U - 1) ** 2 / 2, sp.Abs(U - 1) <= 1), (sp.Abs(U - 1) - sp.Rational(1, 2), True)),
    "quantile": sp.Max(3 * (U + 1) / 4, -(U + 1) / 4),
    "logistic": sp.log(1 + sp.exp(-U)),
    "slow sine": sp.sin(U / 2),
    "fast sine": sp.sin(4 * sp.pi * U) / 2,
    "bump": sp.exp(-((U - sp.Rational(7, 3)) ** 2) * 5000),
    "bump on a slope": sp.Abs(U) + sp.exp(-((U + sp.Rational(31, 7)) ** 2) * 800),
    "probit": -sp.log((1 + sp.erf(U / sp.sqrt(2))) / 2),
    "squared hinge": sp.Max(0, 1 - U) ** 2 / 2,
    "ripple in a rational function": 1 / (1 + 100 * (U - 3) ** 2),
}


def loss_of(kind):
    return sd.Loss(KINDS[kind] + Y * U / 5, score=U, target=Y, target_values=(-1, 1))


def release_of(variance):
    return sd.Release(sd.GaussianMechanism.from_scale(math.sqrt(variance) / RADIUS))


def dense_scores(seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([np.linspace(-RADIUS, RADIUS, 20_001), rng.uniform(-RADIUS, RADIUS, 5_000)])


@pytest.mark.in_turn
@pytest.mark.parametrize("variance", [0.05, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_bias_of_a_surrogate_is_at_most_the_certified_one(kind, variance):
    corrected = sd.debias(
        loss_of(kind), release_of(variance), method="surrogate", radius=RADIUS, score_variance=variance, n=1e5
    )
    found = corrected.surrogate_parts.largest_errors(corrected.design, RADIUS, (-1.0, 1.0))
    assert found.proved
    scores = dense_scores()
    errors = [corrected.surrogate_parts.errors(corrected.design, scores, np.full(len(scores), y)) for y in (-1.0, 1.0)]
    for place, bound in ((0, found.value), (1, found.slope)):
        scanned = max(np.abs(error[place]).max() for error in errors)
        assert scanned <= bound * (1 + 1e-12)
        # The scan has a step of 5e-4: next to a jump of the slope it is only so near.
        assert bound <= 1.05 * scanned + 1e-9


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", KINDS)
def test_the_bias_without_correction_is_no_less_than_a_scan(kind):
    """By convolution on a grid of 30,000 points, at five noise levels; trapezoidal, so exact to 1e-5 next to kinks."""
    variance = 0.6
    certificate = sd.debias(loss_of(kind), release_of(variance), method="none").certify(theta_radius=RADIUS, columns=1)
    assert not certificate.proved
    assert "largest found" in str(certificate)
    assert "at most" not in str(certificate)
    step = RADIUS / 10_000
    half = 10_000 + math.ceil(10 * math.sqrt(variance) / step)
    points = np.arange(-half, half + 1) * step
    values = numeric(KINDS[kind], (U,))(points) if kind != "probit" else -special.log_ndtr(points)
    slopes = np.gradient(values, step)
    for share in (1.0, 0.6, 0.3, 0.05, 0.004):
        deviation = math.sqrt(share * variance)
        reach = math.ceil(9 * deviation / step)
        t = np.arange(-reach, reach + 1) * step / deviation
        weights = np.exp(-(t**2) / 2)
        weights /= weights.sum()
        inside = np.arange(half - 10_000, half + 10_001)
        bias, slope_bias = (
            np.abs(signal.fftconvolve(function, weights, "same") - function)[inside] for function in (values, slopes)
        )
        assert bias.max() <= certificate.loss_bias * (1 + 1e-5) + 1e-9, share
        # Differences of a kinked loss have the mean of both slopes at the kink, and no more elsewhere.
        assert slope_bias.max() <= certificate.gradient_bias * (1 + 1e-3) + 1e-4, share


def test_the_bias_of_a_fast_sine_is_found():
    """E sin(w (u + e)) = exp(-w^2 s/2) sin(w u), at a place that no even grid of 41 points holds."""
    loss = sd.Loss(sp.sin(4 * sp.pi * U) / 2 + Y * U, score=U, target=Y, target_values=(-1, 1))
    corrected = sd.debias(loss, sd.Release(sd.GaussianMechanism.from_scale(0.05)), method="none")
    certificate = corrected.certify(theta_radius=5.0, columns=1)
    assert certificate.loss_bias == pytest.approx((1 - math.exp(-((4 * math.pi) ** 2) * 0.0625 / 2)) / 2, rel=1e-9)


def test_the_largest_bias_need_not_be_under_the_most_noise():
    """At u = 0 the wave loses 1 - exp(-18 s) and the bowl gains s/4: the sum is largest in between."""
    loss = sd.Loss(sp.cos(6 * U) + U**2 / 4 + Y * U, score=U, target=Y, target_values=(-1, 1))
    corrected = sd.debias(loss, sd.Release(sd.GaussianMechanism.from_scale(1.0)), method="none")
    certificate = corrected.certify(theta_radius=0.5, columns=1)
    s = np.linspace(0, 0.25, 2_000_001)
    wanted = max(np.abs(s / 4 - np.cos(6 * u) * (1 - np.exp(-18 * s))).max() for u in (0.0, 0.5))
    assert certificate.loss_bias == pytest.approx(wanted, rel=1e-7)


@pytest.mark.in_turn
def test_a_hinge_is_certified_at_its_kink():
    corrected = sd.debias(
        sd.losses.hinge(), release_of(0.5), method="surrogate", radius=RADIUS, score_variance=0.5, n=1e5
    )
    certificate = corrected.certify(theta_radius=RADIUS, columns=1)
    assert certificate.proved
    assert "at most" in str(certificate)
    assert "largest found" not in str(certificate)
    scores = dense_scores()
    error, _ = corrected.surrogate_parts.errors(corrected.design, scores, np.ones(len(scores)))
    assert np.abs(error).max() <= certificate.loss_bias <= 1.002 * np.abs(error).max()
    # The slope has either sign at the kink: half of its jump at least.
    assert certificate.gradient_bias >= 0.5


def test_what_is_written_is_never_below_what_was_found():
    certificate = Certificate(
        "surrogate", False, 0.0610001, 0.51349, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, (1.0,), 9.0, 9.0, 0.0, proved=True
    )
    assert "the loss at most 6.11e-02, of the gradient at most 5.14e-01" in str(certificate)
    for bias, written in ((0.0, "0.00e+00"), (9.999e-5, "1.00e-04"), (2e-300, "2.00e-300"), (math.inf, "inf")):
        changed = Certificate("none", False, bias, bias, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, (1.0,), 9.0, 9.0, 0.0)
        assert f"largest found {written}" in str(changed)


@pytest.mark.in_turn
def test_a_wrong_surrogate_is_not_called_proved():
    """The kernels' waves are 1% off: quadrature finds more than the bound on the surrogate's error."""
    corrected = sd.debias(
        sd.losses.logistic(), release_of(0.5), method="surrogate", radius=RADIUS, score_variance=0.5, n=1e5
    )
    sound = corrected.certify(theta_radius=RADIUS, columns=1)
    program = corrected.at(1).program
    object.__setattr__(program, "expression", program.expression * sp.Float(1.01))
    corrected._certificates.clear()
    wrong = corrected.certify(theta_radius=RADIUS, columns=1)
    assert sound.proved
    assert not wrong.proved
    assert wrong.loss_bias > 10 * sound.loss_bias


def test_the_tail_of_the_probit_loss_is_certified():
    """At u = -9 under s = 81 the textbook slope is 0/0 within the noise; the bias of -log Phi is below s/2."""
    certificate = sd.debias(
        sd.losses.probit(), sd.Release(sd.GaussianMechanism.from_scale(1.0)), method="none"
    ).certify(theta_radius=9.0, columns=1)
    # The curvature of -log Phi is between 0 and 1.
    assert 30 < certificate.loss_bias < 81 / 2
    assert math.isfinite(certificate.gradient_bias)
