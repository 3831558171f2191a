"""The conditional score: its equation has mean zero given every record."""

import importlib

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, margin_loss
from measured import CORRELATED, LABELLED, LINEAR, LOGISTIC, MIXED, POISSON, THETA, noised
from scipy.special import gammaln

import symdebias as sd
from symdebias.solvers.literature.equations import Measured

pytestmark = pytest.mark.newest

EVERY = slice(None)
module = importlib.import_module("symdebias.solvers.literature.conditional_score")


@pytest.mark.parametrize("release", [MIXED, LABELLED], ids=["true labels", "noised labels"])
def test_conditional_score_of_labels_has_mean_zero_given_every_record(release):
    """By quadrature over the noise of two dependent columns and enumeration of both labels: to 1e-10."""
    t, w = np.polynomial.hermite_e.hermegauss(40)
    nodes = np.array(np.meshgrid(t, t)).reshape(2, -1).T @ np.linalg.cholesky(np.array(CORRELATED.covariance)).T
    weights = np.outer(w, w).ravel() / w.sum() ** 2
    for x in ([0.3, -1.0, 0.5], [2.0, 1.0, -1.0]):
        chance = 1 / (1 + np.exp(-(np.array(x) @ THETA[:3] + THETA[3])))
        X = np.repeat(np.array(x)[None, :], 2 * len(nodes), axis=0)
        X[:, :2] += np.tile(nodes, (2, 1))
        y = np.repeat([-1.0, 1.0], len(nodes))
        keep = 1.0 if release.target is None else release.target.keep_probability
        chance = keep * chance + (1 - keep) * (1 - chance)
        chances = np.concatenate([(1 - chance) * weights, chance * weights])
        rows = module._logistic_score(Measured.of(LOGISTIC, release, X, y))
        assert np.abs(chances @ rows(THETA, EVERY)).max() < 1e-10
        assert np.abs(chances @ rows(1.2 * THETA, EVERY)).max() > 1e-3


def test_conditional_score_of_counts_has_mean_zero_given_every_record():
    t, w = np.polynomial.hermite_e.hermegauss(40)
    nodes = np.array(np.meshgrid(t, t)).reshape(2, -1).T @ np.linalg.cholesky(np.array(CORRELATED.covariance)).T
    weights = np.outer(w, w).ravel() / w.sum() ** 2
    x = np.array([0.5, -1.0, 0.5])
    rate = np.exp(x @ THETA[:3] + THETA[3])
    counts = np.arange(40)
    chances = np.exp(counts * np.log(rate) - rate - gammaln(counts + 1))
    X = np.repeat(x[None, :], len(nodes) * len(counts), axis=0)
    X[:, :2] += np.tile(nodes, (len(counts), 1))
    y = np.repeat(counts.astype(float), len(nodes))
    rows = module._poisson_score(Measured.of(POISSON, MIXED, X, y))
    assert np.abs(np.outer(chances, weights).ravel() @ rows(THETA, EVERY)).max() < 1e-9


def test_expected_counts_are_sums_over_all_counts():
    level = np.array([-30.0, -2.0, 0.0, 3.0, 40.0, 400.0])
    for variance in (1e-3, 0.5, 4.0):
        counts = np.arange(3_000.0)
        known = level * variance < 40 * variance + 1
        log = np.outer(level[known], counts) - counts**2 * variance / 2 - gammaln(counts + 1)
        weights = np.exp(log - log.max(axis=1, keepdims=True))
        direct = weights @ counts / weights.sum(axis=1)
        inside = direct < 2_000
        found = module._expected_count(level[known], variance, 6)
        np.testing.assert_allclose(found[inside], direct[inside], rtol=1e-9)
    many = np.linspace(-3.0, 6.0, 5_000)
    np.testing.assert_allclose(module._expected_count(many, 0.5, 5_000), module._count_moments(many, 0.5)[0], rtol=1e-9)
    np.testing.assert_allclose(module._expected_count(level[:4], 0.0, 4), np.exp(level[:4]))
    np.testing.assert_allclose(module._expected_count(level[:4], 1e-12, 4), np.exp(level[:4]), rtol=1e-6)
    assert np.isnan(module._expected_count(np.array([1e3]), 1e-6, 1)).all()


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("loss", "release"), [(LOGISTIC, MIXED), (LOGISTIC, LABELLED), (POISSON, MIXED)], ids=["labels", "noised", "counts"]
)
def test_conditional_score_finds_the_true_parameters(loss, release):
    """Within 5.5 of its standard errors, false alarms 2e-7 per case; these are a bias of 0.2 or less."""
    released = noised(loss.name, release, 100_000, seed=3)
    found = sd.literature.conditional_score(loss, released.release, released.X, released.y)
    off = np.abs(found.theta - THETA)
    assert 5.5 * found.standard_errors.max() < 0.2
    assert np.all(off < 5.5 * found.standard_errors)
    naive = sd.literature.naive(loss, released.release, released.X, released.y)
    assert np.abs((naive.theta - THETA) / naive.standard_errors).max() > 15


@pytest.mark.parametrize(
    ("loss", "family"),
    [
        (LOGISTIC, "logistic"),
        (sd.Loss(sp.log(1 + sp.exp(U)) - Y * U, score=U, target=Y, target_values=(0, 1)), "logistic"),
        (sd.Loss(-sp.log(1 / (1 + sp.exp(-Y * U))), score=U, target=Y, target_values=(-1, 1)), "logistic"),
        (POISSON, "poisson"),
        (sd.Loss(sp.exp(U) - Y * U + Y**2, score=U, target=Y), "poisson"),
        (sd.losses.probit(), None),
        (sd.losses.exponential(), None),
        (margin_loss(sp.log(1 + sp.exp(-2 * Y * U))), None),
        (LINEAR, None),
        (sd.losses.softmax(3), None),
    ],
)
def test_losses_with_a_conditional_score_are_known_by_their_form(loss, family):
    assert module._family(loss) == family
