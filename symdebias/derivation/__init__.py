"""Derive a corrected loss: from a declared loss and a release to an expression that kernels can be made of.

The label's channel comes first (`labels`), then the noise of the features: of the scores (`scores`) or of
features by name (`features`). The result says what stands in the kernels' vector of noise, what must hold, and what
the user should know.
"""

from symdebias.derivation.coupled import in_columns, is_margin_loss
from symdebias.derivation.features import hidden_score
from symdebias.derivation.labels import is_affine, on_labels
from symdebias.derivation.limits import Limits
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
from symdebias.derivation.surrogates import TAKEN_APART, SurrogateParts
from symdebias.derivation.symbols import Derivation, NoiseSymbols

__all__ = [
    "TAKEN_APART",
    "Derivation",
    "Exact",
    "Limits",
    "Method",
    "NoiseSymbols",
    "Problem",
    "Quadrature",
    "Series",
    "Surrogate",
    "SurrogateParts",
    "Uncorrected",
    "hidden_score",
    "in_columns",
    "is_affine",
    "is_margin_loss",
    "method_of",
    "on_labels",
    "surrogate_parts",
]
