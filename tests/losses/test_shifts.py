"""Losses that know differences of scores alone: they are fitted without a penalty, and with intercepts."""

import numpy as np
import pytest
import sympy as sp
from scipy import optimize, special

import symdebias as sd
from symdebias.losses.shifts import centred, completed, ignores_shifts

u0, u1, y = sp.symbols("u0 u1 y", real=True)


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (sd.losses.softmax(2), True),
        (sd.losses.softmax(4), True),
        (sd.losses.logistic(), False),
        (sd.Loss((u0 - u1 - y) ** 2, score=(u0, u1), target=y), True),
        (sd.Loss((u0 - y) ** 2 + (u1 - y) ** 2, score=(u0, u1), target=y), False),
        (sd.Loss(sp.log(1 + sp.exp(u0) + sp.exp(u1)), score=(u0, u1), target=y, target_values=(0, 1)), False),
    ],
    ids=str,
)
def test_which_losses_ignore_a_number_on_all_scores(loss, told):
    assert ignores_shifts(loss) is told


def test_a_completed_hessian_is_the_same_on_what_sums_to_zero():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    root -= np.tile(root.reshape(6, 3, 2).mean(axis=1), 3)
    hessian = root.T @ root
    found = completed(hessian, 3)
    apart = rng.normal(size=(3, 2))
    apart = (apart - apart.mean(axis=0)).ravel()
    np.testing.assert_allclose(found @ apart, hessian @ apart, atol=1e-12)
    assert np.linalg.eigvalsh(found).min() > 1e-3
    assert np.linalg.eigvalsh(hessian).min() < 1e-12
    assert centred(np.array([1.0, 2.0, 3.0, 5.0]), 2, np.array([0.0, 1.0, 0.0, 1.0])).tolist() == [-1.0, 2.0, 1.0, 5.0]


def three_classes(n=100, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 1))
    scores = np.column_stack([0 * X, 1.5 * X - 0.5, -X + 0.3])
    target = (special.softmax(scores, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return X, target.astype(float)


@pytest.mark.in_turn
@pytest.mark.parametrize("l2", [0.0, 0.05])
def test_softmax_with_intercepts_has_the_fit_and_the_errors_of_differences(l2):
    X, target = three_classes(200)
    corrected = sd.debias(sd.losses.softmax(3), sd.Release(noiseless=("a",), fit_intercept=True))
    fit = sd.m_estimate(corrected, X, target, l2=l2)
    np.testing.assert_allclose(fit.theta.sum(axis=0), 0, atol=1e-9)

    rows = np.column_stack([X, np.ones(len(X))])

    def risk(theta):
        scores = rows @ theta.reshape(3, 2).T
        own = scores[np.arange(len(rows)), target.astype(int)]
        return np.mean(special.logsumexp(scores, axis=1) - own) + l2 / 2 * np.sum(theta.reshape(3, 2)[:, 0] ** 2)

    best = optimize.minimize(risk, np.zeros(6), tol=1e-12).x.reshape(3, 2)
    np.testing.assert_allclose(fit.theta, best - best.mean(axis=0), atol=2e-4)
    assert np.all(np.isfinite(fit.confidence_interval()))
    assert fit.diagnostics["safeguards"] == ()
    # Scores against the first class, which have a likelihood of their own.
    against = np.kron([[-1, 1, 0], [-1, 0, 1]], np.eye(2))
    if l2 == 0:
        chances = special.softmax(rows @ fit.theta.T, axis=1)[:, 1:]
        information = sum(
            np.kron(np.diag(p) - np.outer(p, p), np.outer(row, row)) for p, row in zip(chances, rows, strict=True)
        )
        expected = np.sqrt(np.diag(np.linalg.inv(information)))
        np.testing.assert_allclose(np.sqrt(np.diag(against @ fit.covariance @ against.T)), expected, rtol=0.3)
    assert fit.wald_test(against).pvalue < 0.02


@pytest.mark.exhaustive
def test_softmax_of_noised_records_needs_no_penalty_and_a_start_is_centred():
    X, target = three_classes(4000)
    release = sd.Release(
        sd.LaplaceMechanism.from_scale(0.2), sd.RandomizedResponse(3.0, categories=(0, 1, 2)), fit_intercept=True
    )
    noised = release.privatize(X, target, random_state=1)
    corrected = sd.debias(sd.losses.softmax(3), noised.release)
    fit = sd.m_estimate(corrected, noised.X, noised.y)
    truth = np.array([[0.0, 0.0], [1.5, -0.5], [-1.0, 0.3]])
    away = (fit.theta - (truth - truth.mean(axis=0))) / fit.standard_errors
    # Six numbers, of which four are independent: 4 standard errors are exceeded in one draw of 4,000.
    assert np.abs(away).max() < 4
    moved = sd.m_estimate(corrected, noised.X, noised.y, start=truth + np.array([3.0, -2.0]))
    np.testing.assert_allclose(moved.theta, fit.theta, atol=1e-6)
    descent = sd.sgd(
        corrected, noised.X, noised.y, covariance="plug-in", average=0.5, epochs=20, batch_size=64, random_state=0
    )
    np.testing.assert_allclose(descent.standard_errors, fit.standard_errors, rtol=0.25)
