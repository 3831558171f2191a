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


@pytest.mark.in_turn
@pytest.mark.parametrize("true", [(0, 0), (2, 1)])
def test_the_mean_hessian_over_all_outcomes_is_that_of_the_surrogate(true):
    """Three letters, a channel to more outputs than inputs, and normal noise by quadrature: one true record."""
    release = sd.Release({"a": LETTERS, "b": MAYBE, "c": KNOWN}, fit_intercept=True)
    corrected = sd.debias(sd.losses.logistic(), release, **SURROGATE)
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


def surrogate_of(release, **options):
    return sd.debias(sd.losses.logistic(), release, **{**SURROGATE, **options})


def derivatives_by_differences(records, theta):
    steps = 1e-5 * np.eye(len(theta))
    moved = [records.mean_gradient(theta + step) - records.mean_gradient(theta - step) for step in steps]
    slopes = [records.mean_loss(theta + step) - records.mean_loss(theta - step) for step in steps]
    return np.array(slopes) / 2e-5, np.array(moved) / 2e-5


@pytest.mark.exhaustive
def test_factors_of_zero_are_divided_by():
    """Where k h theta_b = pi, the factor of "perhaps" is (1 + exp(i pi))/2: nothing but rounding."""
    corrected = surrogate_of(sd.Release({"a": MAYBE, "b": MAYBE, "c": LETTERS}, COIN))
    (surrogate,) = corrected.at(3).surrogates.surrogates
    theta = np.array([np.pi / surrogate.frequency, np.pi / (2 * surrogate.frequency), 0.4, -0.3, 0.2])
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([0, 1, 2, 2], (60, 2)), rng.integers(0, 3, 60)]).astype(float)
    assert np.sum((X[:, :2] == 2).all(axis=1)) > 5
    records = corrected.records(X, rng.choice([-1.0, 1.0], 60))
    found = records.derivatives()(theta, True)
    gradient, hessian = derivatives_by_differences(records, theta)
    np.testing.assert_allclose(found.gradient, gradient, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.hessian, hessian, rtol=1e-6, atol=1e-6)
    near = records.derivatives()(theta * (1 + 1e-9))
    np.testing.assert_allclose(near.hessian, found.hessian, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(near.gradient, found.gradient, rtol=1e-6, atol=1e-6)


@pytest.mark.exhaustive
def test_an_output_that_never_comes_has_factors_of_zero():
    never = sd.FiniteChannel([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0]], ("no", "yes"), ("no", "yes", "never"))
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (40, 2)).astype(float), rng.choice([-1.0, 1.0], 40)
    plain = sd.FiniteChannel([[0.8, 0.2], [0.3, 0.7]], ("no", "yes"), ("no", "yes"))
    theta = np.array([0.7, -0.4, 0.3, -0.2])
    one, other = (
        surrogate_of(sd.Release({"a": channel, "b": LETTERS}, COIN)).records(X, y).derivatives()(theta, True)
        for channel in (never, plain)
    )
    for name in ("loss", "gradient", "hessian", "meat"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-11, atol=1e-13)
        assert np.all(np.isfinite(getattr(one, name)))


@pytest.mark.exhaustive
def test_noise_of_each_record_is_summed_over_combinations():
    """The product of both kinds has no second derivatives of its own."""
    release = sd.Release({"a": COIN, "b": KNOWN}, COIN)
    corrected = surrogate_of(release)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([-1.0, 1.0], 50), rng.normal(size=50)])
    y, theta = rng.choice([-1.0, 1.0], 50), np.array([0.6, -0.4])
    of_their_own = corrected.records(X, y, noise_scale=np.column_stack([np.zeros(50), np.full(50, 0.2)]))
    assert not of_their_own.correction.program.has_hessian
    found, how = of_their_own.derivatives_or_differences(np.eye(2))
    assert how == "exact"
    wanted = corrected.records(X, y).derivatives()(theta, True)
    for name in ("loss", "gradient", "hessian", "meat"):
        np.testing.assert_allclose(getattr(found(theta, True), name), getattr(wanted, name), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("outputs", "is_short"), [((2,) * 20, True), ((10,) * 20, True), ((2,) * 140, True), ((1000, 1000), False)]
)
def test_numbers_of_two_columns_are_as_many_as_memory_has(outputs, is_short):
    positions = tuple((-1, *range(column * 9, column * 9 + 9)) for column in range(len(outputs)))
    names = tuple(sd.losses.logistic().expression.free_symbols) * 6
    products = CategoryProducts(names[:2], names[:12], names[:12], positions, outputs, names[0])
    assert products.is_short == is_short
