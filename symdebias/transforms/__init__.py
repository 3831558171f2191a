"""Symbolic operators on expressions: what noise does to them, and what undoes it."""

from symdebias.transforms.channel import affine_in_target
from symdebias.transforms.heat import Transformed, heat, inverse_heat
from symdebias.transforms.series import exact_series, truncated_series

__all__ = [
    "Transformed",
    "affine_in_target",
    "exact_series",
    "heat",
    "inverse_heat",
    "truncated_series",
]
