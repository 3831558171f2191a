"""Symbolic operators on expressions: what noise does to them, and what undoes it."""

from symdebias.transforms.channel import affine_in_target
from symdebias.transforms.complex_quadrature import inverse_by_quadrature
from symdebias.transforms.exponential import ExponentialSum, exponential_sum
from symdebias.transforms.finite import (
    difference_operator,
    differential_operator,
    growth_rate,
    polynomial_inverse,
    require_moment,
)
from symdebias.transforms.heat import Transformed, heat, inverse_heat, joint_inverse_heat
from symdebias.transforms.series import exact_series, require_smooth, truncated_series, truncation_bias

__all__ = [
    "ExponentialSum",
    "Transformed",
    "affine_in_target",
    "difference_operator",
    "differential_operator",
    "exact_series",
    "exponential_sum",
    "growth_rate",
    "heat",
    "inverse_by_quadrature",
    "inverse_heat",
    "joint_inverse_heat",
    "polynomial_inverse",
    "require_moment",
    "require_smooth",
    "truncated_series",
    "truncation_bias",
]
