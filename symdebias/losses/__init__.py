"""Declare a loss: as an expression of the score and the target, or of features and parameters."""

from symdebias.losses import catalogue
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
from symdebias.losses.loss import Loss

__all__ = [
    "Loss",
    "catalogue",
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
