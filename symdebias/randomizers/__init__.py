"""Designs of label randomizers: which random label stands for which label, for a budget and a loss."""

from symdebias.randomizers.bins import randomized_response_on_bins
from symdebias.randomizers.optimal import optimal_unbiased_randomizer
from symdebias.randomizers.prior import prior_budget, private_prior
from symdebias.randomizers.privatize import PrivatizedLabels, privatize_labels
from symdebias.randomizers.response import debiased_randomized_response, feasible_outputs
from symdebias.randomizers.rounding import round_labels

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
