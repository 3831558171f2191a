"""Derive a corrected loss: from a declared loss and a release to an expression that kernels can be made of.

The label's channel comes first (`labels`), then the noise of the features: of the scores (`scores`) or of
features by name (`features`). The result says what stands in the kernels' vector of noise, what must hold, and what
the user should know. Bounds on the derivatives of a declared loss, which sensitivities rest on, are in `bounds`.
"""

from symdebias.derivation.bounds import curvature_range, slope_bound, slope_ranges
from symdebias.derivation.features import hidden_score
from symdebias.derivation.labels import is_affine, on_labels
from symdebias.derivation.methods import (
    Exact,
    Method,
    Problem,
    Quadrature,
    Series,
    Surrogate,
    Uncorrected,
    method_of,
    surrogate_parts,
)
from symdebias.derivation.quadratic import QuadraticBounds, QuadraticLoss, as_quadratic, released_loss
from symdebias.derivation.surrogates import SurrogateParts
from symdebias.derivation.symbols import Derivation, NoiseSymbols

__all__ = [
    "Derivation",
    "Exact",
    "Method",
    "NoiseSymbols",
    "Problem",
    "QuadraticBounds",
    "QuadraticLoss",
    "Quadrature",
    "Series",
    "Surrogate",
    "SurrogateParts",
    "Uncorrected",
    "as_quadratic",
    "curvature_range",
    "hidden_score",
    "is_affine",
    "method_of",
    "on_labels",
    "released_loss",
    "slope_bound",
    "slope_ranges",
    "surrogate_parts",
]
