"""Derivatives of looked-up waves: means over all outcomes, factors of 0, what they take the place of.

`test_program.py` holds them against differences, beside all other statistics.
"""

import itertools

import numpy as np
import pytest

import symdebias as sd
from symdebias.codegen.score.products import CategoryProducts

pytestmark = pytest.mark.newest

COIN = sd.RandomizedResponse(epsilon=1.0)
LETTERS = sd.RandomizedResponse(epsilon=1.5, categories=("n", "e", "s"))
# An output from which nothing can be told: its factor is a cosine, which may be 0.
MAYBE = sd.FiniteChannel([[0.5, 0.2, 0.3], [0.2, 0.5, 0.3]], ("no", "yes"), ("no", "yes", "perhaps"))
KNOWN = sd.GaussianMechanism.from_scale(0.2)
SURROGATE = {"method": "surrogate", "radius": 3.0, "score_variance": 0.3, "n": 1000}


def outcomes(channels, true):
    """Return all combinations of released codes of columns, and their probabilities given the true codes."""
    rows = [np.array(channel.noise.matrix)[code] for channel, code in zip(channels, true, strict=True)]
    codes = np.array(list(itertools.product(*(range(len(row)) for row in rows))))
    return codes, np.prod([row[codes[:, b]] for b, row in enumerate(rows)], axis=0)


@pytest.mark.parametrize("true", [(0, 0), (2, 1)])
def test_the_mean_hessian_over_all_outcomes_is_that_of_the_surrogate(true):
    """Three letters, a channel to more outputs than inputs, and normal noise by quadrature: one true record."""
    release = sd.Release({"a": LETTERS, "b": MAYBE, "c": KNOWN}, fit_intercept=True, noiseless=())
    loss = sd.losses.logistic()
    release = sd.Release({"a": LETTERS, "b": MAYBE, "c": KNOWN}, sd.RandomizedResponse(epsilon=40.0), fit_intercept=True)
    corrected = sd.debias(loss, release, **SURROGATE)
    codes, chances = outcomes((LETTERS, MAYBE), true)
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    x = 0.4
    X = np.column_stack([np.repeat(codes, 8, axis=0), x + 0.2 * np.tile(nodes, len(codes))])
    shares = np.repeat(chances, 8) * np.tile(weights / weights.sum(), len(codes))
    theta = np.array([0.7, -0.5, 0.9, 0.6, -0.2])
    row = np.concatenate([np.eye(3)[true[0]][1:], [true[1], x, 1.0]])
    assert len(row) == len(theta)
    records = corrected.records(X, np.ones(len(X)), sample_weight=shares)
    assert records.correction.program.has_hessian
    assert records.correction.program.having(CategoryProducts)
    found = records.derivatives()(theta, True)
    ((surrogate,), u) = corrected.at(3).surrogates.surrogates, row @ theta
    angles = surrogate.frequency * np.arange(1, len(surrogate.cosines) + 1)
    amplitudes = np.array(surrogate.cosines)
    bend = 2 * surrogate.polynomial[2] - np.sum(amplitudes * angles**2 * np.cos(angles * u))
    slope = 2 * surrogate.polynomial[2] * u - np.sum(amplitudes * angles * np.sin(angles * u)) - 0.5
    np.testing.assert_allclose(found.gradient, slope * row, atol=1e-9)
    np.testing.assert_allclose(found.hessian, bend * np.outer(row, row), atol=1e-9)
    gradients = corrected.gradient(theta, X, np.ones(len(X)))
    np.testing.assert_allclose(found.meat, (shares[:, None] * gradients).T @ (shares[:, None] * gradients), atol=1e-12)
