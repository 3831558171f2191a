"""What a correction is worth: its certificate, the bias of the noise, variances, inflation, bias against variance."""

from symdebias.assessment.certificate import Certificate, certify
from symdebias.assessment.inflation import gradient_inflation, reference_variance, series_biases
from symdebias.assessment.loss_bias import loss_biases
from symdebias.assessment.noise_bias import NoiseBias, bias
from symdebias.assessment.tradeoff import Choice, Tradeoff, tradeoff
from symdebias.assessment.variance import variance_bound, variances

__all__ = [
    "Certificate",
    "Choice",
    "NoiseBias",
    "Tradeoff",
    "bias",
    "certify",
    "gradient_inflation",
    "loss_biases",
    "reference_variance",
    "series_biases",
    "tradeoff",
    "variance_bound",
    "variances",
]
