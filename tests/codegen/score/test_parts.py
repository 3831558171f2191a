"""Derivatives of losses of several scores in parts: the same as SymPy's, and few."""

import itertools

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.codegen.numeric import numeric
from symdebias.codegen.score.parts import Parts
from symdebias.transforms import inverse_spherical

U = sp.symbols("u0 u1", real=True)
S = sp.symbols("s00 s01 s11", real=True)
SMOOTH = sp.exp(U[0] / 2) * sp.sin(U[1]) + U[0] ** 3 * U[1] ** 2 + U[0] * sp.cos(U[0] - U[1])


@pytest.mark.in_turn
def test_derivatives_are_those_of_the_expression():
    """Of the operator of three columns on a smooth function: all second derivatives by scores and forms."""
    noise = sd.SphericalLaplaceMechanism.from_scale(1.0).noise_on(3)
    corrected = inverse_spherical(SMOOTH, U, sp.Matrix([[S[0], S[1]], [S[1], S[2]]]), noise)
    parts = Parts(corrected, S)
    names, at = (*U, *S), np.random.default_rng(0).uniform(-0.8, 0.8, (5, 6))

    def value(of):
        return numeric(parts.expression(of).xreplace(parts.values), names)(*at)

    np.testing.assert_allclose(value(parts.loss), numeric(corrected, names)(*at), rtol=1e-12)
    for first, second in itertools.combinations_with_replacement(names, 2):
        found = value(parts.slope(parts.slope(parts.loss, first), second))
        wanted = numeric(sp.diff(corrected, first, second), names)(*at)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


def test_multiples_of_a_part_are_one():
    parts = Parts(S[0] * sp.sin(U[0]) - 3 * S[1] * sp.sin(U[0]) + S[0] ** 2 * sp.cos(U[0]) / 2, S)
    assert set(parts.values.values()) == {sp.sin(U[0]), sp.cos(U[0])}
    assert sp.expand(parts.expression(parts.slope(parts.loss, S[0])).xreplace(parts.values)) == sp.expand(
        sp.sin(U[0]) + S[0] * sp.cos(U[0])
    )
    assert parts.slope(parts.loss, S[2]) == {}


def test_what_is_no_polynomial_in_the_forms_has_no_parts():
    with pytest.raises(sp.PolynomialError):
        Parts(sp.exp(S[0]) * U[0], S)


def softmax_under_spherical_noise(classes, columns):
    names = tuple(f"x{place}" for place in range(columns))
    labels = sd.RandomizedResponse(epsilon=2.0, categories=tuple(range(classes)))
    release = sd.Release({names: sd.SphericalLaplaceMechanism.from_scale(0.1)}, labels)
    return sd.debias(sd.losses.softmax(classes), release, method="exact").at(columns).program


@pytest.mark.in_turn
def test_three_classes_have_a_hessian_and_four_are_too_many():
    assert softmax_under_spherical_noise(3, 3).has_hessian
    assert not softmax_under_spherical_noise(4, 3).has_hessian
