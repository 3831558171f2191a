"""Curvatures of multinomial distributions by products of matrices, against those that are written out."""

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.codegen.functions import logsumexp
from symdebias.codegen.multinomial import MultinomialDerivatives, multinomial_factor

U, V, W, Y = sp.symbols("u v w y", real=True)


@pytest.mark.parametrize(("expression", "factor"), [
    (logsumexp(U, V, W) - Y * U, 1.0),
    (3 * logsumexp(W, U, V) + V - sp.Piecewise((U, Y > 0), (W, True)), 3.0),
    (-logsumexp(U, V, W) / 2, -0.5),
    (Y * logsumexp(U, V, W), None),
    (logsumexp(U, V) - W, None),
    (logsumexp(U, V, 2 * W), None),
    (logsumexp(U, V, W + 1), None),
    (logsumexp(U, V, W) ** 2, None),
    (logsumexp(U, V, W) * U, None),
    (logsumexp(U, V, W) + logsumexp(U, V), None),
    (logsumexp(U, V, W) + U * V, None),
    (U + V + W, None),
])  # fmt: skip
def test_the_curvature_is_seen_where_it_is_there(expression, factor):
    assert multinomial_factor(expression, (U, V, W)) == factor


def records_of(labels, *, intercept=True, weighted=False, n=700):
    rng = np.random.default_rng(labels)
    release = sd.Release(
        target=sd.RandomizedResponse(3.0, categories=tuple(range(labels))), fit_intercept=intercept
    )  # fmt: skip
    corrected = sd.debias(sd.losses.softmax(labels), release)
    weights = rng.uniform(0, 2, n) if weighted else None
    return corrected.records(rng.normal(size=(n, 3)), rng.integers(0, labels, n).astype(float), sample_weight=weights)


@pytest.mark.in_turn
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_derivatives_are_those_that_are_written_out(intercept, weighted):
    records = records_of(3, intercept=intercept, weighted=weighted)
    kernels, columns = records.correction.kernels, records.correction.program.columns
    written = kernels.mean_derivatives(weighted=weighted)
    assert not isinstance(written, MultinomialDerivatives)
    by_products = MultinomialDerivatives(
        kernels, columns, multinomial_factor(kernels.program.expression, kernels.program.scores)
    )
    theta = np.random.default_rng(0).normal(size=columns.number_of_parameters)
    arguments = theta, *records.encoded, records.weights, records.total, records.correction.noise
    for meat in (False, True):
        for one, other in zip(by_products(*arguments, meat=meat), written(*arguments, meat=meat), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    hessian = by_products(*arguments, meat=False)[2]
    np.testing.assert_array_equal(hessian, hessian.T)
    for name in ("slopes", "gradients"):
        own, others = (getattr(of, name)(*arguments[:4], arguments[5]) for of in (by_products, written))
        np.testing.assert_allclose(
            np.concatenate([np.ravel(part) for part in own]),
            np.concatenate([np.ravel(part) for part in others]),
            rtol=1e-12,
            atol=1e-14,
        )


@pytest.mark.in_turn
@pytest.mark.parametrize("weighted", [False, True])
def test_many_labels_have_exact_second_derivatives(weighted):
    records = records_of(18, weighted=weighted)
    theta = np.random.default_rng(0).normal(size=18 * 4) / 3
    derivatives, how = records.derivatives_or_differences(np.eye(72))
    assert how == "exact"
    found = derivatives(theta, True)
    np.testing.assert_allclose(found.hessian, records.differenced(theta, np.eye(72), 1e-5), atol=1e-8)
    gradients = records.gradients(theta, slice(None)) * (records.weights[:, None] if weighted else 1.0)
    np.testing.assert_allclose(found.gradient, gradients.sum(axis=0) / records.total, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.meat, gradients.T @ gradients / records.total, rtol=1e-12, atol=1e-15)


@pytest.mark.in_turn
def test_fits_to_many_labels_stand_on_them():
    rng = np.random.default_rng(1)
    X, theta = rng.normal(size=(6_000, 2)), rng.normal(size=(18, 2)) / 2
    labels = np.argmax(X @ theta.T + rng.gumbel(size=(6_000, 18)), axis=1).astype(float)
    mechanism = sd.RandomizedResponse(6.0, categories=tuple(range(18)))
    noised = sd.Release(target=mechanism).privatize(X, labels, random_state=0)
    fit = sd.m_estimate(sd.debias(sd.losses.softmax(18), noised.release), noised.X, noised.y)
    assert fit.diagnostics["hessian"] == "exact"
    errors = (fit.theta - (theta - theta.mean(axis=0))) / fit.standard_errors
    # Of 36 standard normal numbers, 34 of them free, the root mean square is beyond 1.5 less than once in ten thousand.
    assert np.sqrt(np.mean(errors**2)) < 1.5
