"""What a release costs: guarantees, and the noise that a budget needs."""

from symdebias.privacy.accounting import calibrate_noise_multiplier, subsampled_gaussian_guarantee
from symdebias.privacy.calibration import (
    analytic_gaussian_delta,
    analytic_gaussian_epsilon,
    analytic_gaussian_scale,
    classical_gaussian_scale,
    input_perturbation_scales,
    keep_probability,
    largest_ratio,
)
from symdebias.privacy.composition import compose, composed_delta
from symdebias.privacy.guarantee import Guarantee
from symdebias.privacy.ledger import Ledger, LedgerEntry
from symdebias.privacy.objective import objective_noise_delta, objective_noise_epsilon, objective_noise_scale
from symdebias.privacy.published import PublishedNoise, published_noise
from symdebias.privacy.spherical import spherical_laplace_delta, spherical_laplace_scale

__all__ = [
    "Guarantee",
    "Ledger",
    "LedgerEntry",
    "PublishedNoise",
    "analytic_gaussian_delta",
    "analytic_gaussian_epsilon",
    "analytic_gaussian_scale",
    "calibrate_noise_multiplier",
    "classical_gaussian_scale",
    "compose",
    "composed_delta",
    "input_perturbation_scales",
    "keep_probability",
    "largest_ratio",
    "objective_noise_delta",
    "objective_noise_epsilon",
    "objective_noise_scale",
    "published_noise",
    "spherical_laplace_delta",
    "spherical_laplace_scale",
    "subsampled_gaussian_guarantee",
]
