"""Declare a loss: as an expression of the score and the target, or of features and parameters."""

from symdebias.losses.catalogue import (
    exponential,
    hinge,
    huber,
    least_squares,
    logistic,
    negative_binomial,
    poisson,
    probit,
    quantile,
    softmax,
    squared_hinge,
    squared_margin,
)

# Public as symdebias.Loss.
from symdebias.losses.loss import Loss as Loss

__all__ = [
    "exponential",
    "hinge",
    "huber",
    "least_squares",
    "logistic",
    "negative_binomial",
    "poisson",
    "probit",
    "quantile",
    "softmax",
    "squared_hinge",
    "squared_margin",
]
