"""The link by which a loss predicts."""

import functools

import numpy as np
import pytest

import symdebias as sd
from symdebias.evaluation.links import link_of

pytestmark = pytest.mark.newest

LINKS = {
    "least_squares": "identity",
    "logistic": "logistic",
    "poisson": "exponential",
    "probit": None,
    "squared_hinge": None,
}


@pytest.mark.parametrize("loss", LINKS)
def test_the_link_is_read_off_the_loss(loss):
    history = sd.solvers.History(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, 2)))
    corrected = sd.debias(getattr(sd.losses, loss)(), sd.Release())
    assert link_of(sd.Fit(np.array([1.0, -1.0]), corrected, "by hand", history)) == LINKS[loss]


@pytest.mark.in_turn
@pytest.mark.parametrize("solver", [sd.m_estimate, functools.partial(sd.sgd, random_state=0)])
def test_a_fit_with_noise_scales_of_its_records_is_not_judged_by_another_noise(solver):
    """The release says 1, and records have .1 to .6: the squared error would be less than 0."""
    rng = np.random.default_rng(0)
    x, scales = rng.normal(size=4_000), rng.uniform(0.1, 0.6, 4_000)
    X, y = (x + scales * rng.normal(size=4_000))[:, None], 2 * x + 0.5 * rng.normal(size=4_000)
    release = sd.Release(sd.GaussianMechanism.from_scale(1.0))
    corrected = sd.debias(sd.losses.least_squares(), release)
    fit = solver(corrected, X, y, noise_scale=scales)
    for judge in (functools.partial(sd.evaluation.evaluate, metric="squared_error"), sd.evaluation.evaluate_all):
        with pytest.raises(ValueError, match=r"noise scales of the records' own, and .* release=symdebias.Release\(\)"):
            judge(fit, X, y)
    true = sd.evaluation.evaluate(fit, x[:, None], y, metric="squared_error", release=sd.Release())
    assert abs(true.value - 0.25) < 0.05
