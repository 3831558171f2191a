"""Every way of noising crossed with every loss: certified by quadrature and enumeration, or refused with the reason."""

import numpy as np
import pytest
import sympy as sp
from instances import CROSSED_LOSSES, CROSSED_NOISES, U, Y, crossed_release

import symdebias as sd
from symdebias.assessment.kernel_bias import released_records
from symdebias.declared import DeclaredLoss
from symdebias.exceptions import NoExactCorrectionError

pytestmark = pytest.mark.newest

# log(1 + e^-u) is not entire: no correction where some of its noise is normal.
NOT_ENTIRE = {
    "Gaussian", "anisotropic", "correlated", "randomized response on the target", "k-ary feature", "mixed",
}  # fmt: skip


# Every way of noising and every loss; the mix with the losses that take it least time, and where it is refused.
USUAL = {
    ("mixed", "logistic"), ("mixed", "free form"), ("Gaussian", "poisson"), ("Gaussian", "exponential"),
    ("Laplace", "squared"), ("discrete Laplace", "squared"), ("anisotropic", "sin + exp"), ("correlated", "squared"),
    ("randomized response on the target", "squared"), ("k-ary feature", "quartic"),
}  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("noise", "loss"),
    [
        pytest.param(noise, loss, marks=[] if (noise, loss) in USUAL else [pytest.mark.exhaustive])
        for noise in CROSSED_NOISES
        for loss in CROSSED_LOSSES
    ],
)
def test_exact_or_refused_with_the_reason(noise, loss):
    declared = CROSSED_LOSSES[loss]
    release = crossed_release(noise, declared)
    if loss == "logistic" and noise in NOT_ENTIRE:
        with pytest.raises(NoExactCorrectionError, match=r"not entire \(branch points"):
            sd.debias(declared, release, method="exact")
        return
    corrected = sd.debias(declared, release, method="exact")
    assert corrected.is_exact
    certificate = corrected.certificate
    assert certificate.exists
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9
    # The coarser of two rules is off by this; the finer one by far less.
    assert certificate.quadrature_error < 1e-6


@pytest.mark.parametrize(
    ("noise", "loss"),
    [("Gaussian", name) for name in CROSSED_LOSSES if name != "logistic"]
    + [("mixed", "exponential"), ("mixed", "free form")],
)
@pytest.mark.exhaustive
def test_noise_scales_of_the_records_own(noise, loss):
    """E over the noise of three records, each with its own scales, against the declared loss of the true ones."""
    declared = CROSSED_LOSSES[loss]
    release = crossed_release(noise, declared)
    if noise == "mixed" and not declared.features:
        groups = {names: mechanism for names, mechanism in release.groups if names != ("age", "hours")}
        release = sd.Release(
            {("age", "hours"): sd.GaussianMechanism.from_scale(1.0), **groups},
            release.target, noiseless=("year",), fit_intercept=True,
        )  # fmt: skip
    corrected = sd.debias(declared, release)
    columns = len(declared.features) or release.number_of_columns or 3
    rng = np.random.default_rng(1)
    truth = DeclaredLoss(declared, release)
    function, slopes = truth.functions()
    theta = rng.uniform(-0.5, 0.5, corrected.at(columns).number_of_parameters)
    coded = np.zeros(columns, dtype=bool)
    normal = np.zeros(columns, dtype=bool)
    for place, kind in release.noises(columns):
        coded[place] = hasattr(kind, "matrix")
        normal[place] = not coded[place.start] and kind.is_gaussian
    for scales in (np.array([0.2]), np.array([0.7])):
        record = np.where(coded, 1.0, rng.uniform(-0.5, 0.5, columns))
        own = np.where(normal, scales[0] * np.arange(1, columns + 1) / columns, 0.0)
        seen = released_records(release, record, 1.0, nodes=16, scales=own)
        correction = corrected.at(columns, per_record=True)
        target = correction.targets_of_codes(seen.y)
        X, y = correction.encode(seen.X, target, np.tile(own, (len(seen.X), 1)))
        values, gradients = np.empty(len(X)), np.empty((len(X), len(theta)))
        correction.kernels.loss(theta, X, y, correction.noise, values)
        correction.kernels.gradient(theta, X, y, correction.noise, gradients)
        arguments = truth.arguments(theta, record[None, :], np.array([truth.target(1.0)]))
        scale = max(1.0, np.abs(values).max())
        assert abs(seen.weights @ values - function(*arguments)[0]) / scale < 1e-9
        wanted = truth.gradient([slope(*arguments) for slope in slopes], record[None, :])[0]
        np.testing.assert_allclose(seen.weights @ gradients, wanted, atol=1e-9 * max(1.0, np.abs(gradients).max()))


def test_meaningless_pairs_are_refused():
    letters = sd.RandomizedResponse(epsilon=1.0, categories=("a", "b"))
    with pytest.raises(ValueError, match="continuous target"):
        sd.debias(sd.losses.poisson(), sd.Release(sd.GaussianMechanism.from_scale(1.0), letters))
    with pytest.raises(ValueError, match="declare the same values"):
        sd.debias(sd.losses.exponential(), sd.Release(target=sd.RandomizedResponse(1.0, (0, 1))))
    with pytest.raises(NoExactCorrectionError, match="a finite sum of waves"):
        sd.debias(sd.losses.logistic(), sd.Release(sd.UniformMechanism(0.5)), method="exact")
    deaf = sd.Release({"a": sd.FiniteChannel([[0.5, 0.5], [0.5, 0.5]], (0, 1))})
    with pytest.raises(NoExactCorrectionError, match="has the rank 1 for 2 categories"):
        sd.debias(sd.losses.least_squares(), deaf)
    steep = sd.Loss(sp.exp(U**2) + Y, score=U, target=Y)
    laplace = sd.Release(sd.LaplaceMechanism.from_scale(0.1))
    with pytest.raises(NoExactCorrectionError, match="no exponential was found that bounds the growth"):
        sd.debias(steep, laplace, method="exact")


@pytest.mark.exhaustive
def test_more_categories_than_can_be_enumerated():
    """Twenty columns of two categories: the universal rule corrects them one by one, enumeration is refused."""
    names = [f"x{j}" for j in range(20)]
    release = sd.Release(dict.fromkeys(names, sd.RandomizedResponse(epsilon=1.0)))
    with pytest.raises(NoExactCorrectionError, match="1048576 combinations"):
        sd.debias(sd.losses.logistic(), release, method="exact")
    assert "1048576 combinations" in sd.debias(sd.losses.logistic(), release).reason
    corrected = sd.debias(sd.losses.exponential(), release)
    theta = 0.05 * np.cos(np.arange(20))
    X = np.where(np.random.default_rng(0).random((50, 20)) < 0.5, -1.0, 1.0)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    # By hand: prod_j (cosh t + g x sinh t), g the gain, since exp(-y t x) = cosh t - y x sinh t.
    gain = sd.RandomizedResponse(epsilon=1.0).gain
    expected = np.prod(np.cosh(theta) - gain * y[:, None] * X * np.sinh(theta), axis=1)
    np.testing.assert_allclose(corrected.loss(theta, X, y), expected, rtol=1e-12)
    with pytest.raises(NoExactCorrectionError, match="combinations to sum over"):
        corrected.mean_hessian(theta, X, y)
