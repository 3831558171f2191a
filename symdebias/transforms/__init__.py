"""Symbolic operators on expressions: what noise does to them, and what undoes it."""

from symdebias.transforms.channel import affine_in_target
from symdebias.transforms.complex_quadrature import inverse_by_quadrature
from symdebias.transforms.exponential import ExponentialSum, exponential_sum
from symdebias.transforms.finite import (
    difference_operator,
    differential_operator,
    polynomial_inverse,
)
from symdebias.transforms.growth import growth_rate, growth_terms, rate_of, require_moment
from symdebias.transforms.heat import heat, inverse_heat, joint_inverse_heat, require_low_power
from symdebias.transforms.kinds import Transformed
from symdebias.transforms.series import exact_series, require_smooth, truncated_series, truncation_bias
from symdebias.transforms.spherical import (
    derivative_terms,
    inverse_spherical,
    operator_terms,
    second_derivative,
    spherical_factor,
)

__all__ = [
    "ExponentialSum",
    "Transformed",
    "affine_in_target",
    "derivative_terms",
    "difference_operator",
    "differential_operator",
    "exact_series",
    "exponential_sum",
    "growth_rate",
    "growth_terms",
    "heat",
    "inverse_by_quadrature",
    "inverse_heat",
    "inverse_spherical",
    "joint_inverse_heat",
    "operator_terms",
    "polynomial_inverse",
    "rate_of",
    "require_low_power",
    "require_moment",
    "require_smooth",
    "second_derivative",
    "spherical_factor",
    "truncated_series",
    "truncation_bias",
]
