"""Designs of label randomizers: which random label stands for which label, for a budget and a loss."""

from symdebias.labels.bins import randomized_response_on_bins
from symdebias.labels.optimal import optimal_unbiased_randomizer
from symdebias.labels.prior import prior_budget, private_prior
from symdebias.labels.privatize import PrivatizedLabels, privatize_labels
from symdebias.labels.response import debiased_randomized_response, feasible_outputs
from symdebias.labels.rounding import round_labels

__all__ = [
    "PrivatizedLabels",
    "debiased_randomized_response",
    "feasible_outputs",
    "optimal_unbiased_randomizer",
    "prior_budget",
    "private_prior",
    "privatize_labels",
    "randomized_response_on_bins",
    "round_labels",
]
