"""The link by which a loss predicts."""

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
