"""The compiled functions of a program."""

import numpy as np
import pytest

import symdebias as sd


@pytest.mark.exhaustive
def test_results_do_not_depend_on_where_arrays_lie_in_memory():
    """Compiled loops that may write into what they read sum in another order.

    Where indices were signed, loops asked for room behind an array as long as that is, and 3 to 20 of 100 calls
    differed in the last digits: all of 200 would agree by chance with a probability of at most 0.2%.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2_000, 2))
    y = np.where(rng.random(2_000) < 1 / (1 + np.exp(-X @ [1.0, 0.5])), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(epsilon=2.0))
    noised = release.privatize(X, y, random_state=0)
    corrected = sd.debias(sd.losses.logistic(), release)
    weighed, found, elsewhere = rng.uniform(0.5, 2, 2_000), set(), []
    for _ in range(200):
        weights = weighed.copy()
        fit = sd.sgd(corrected, noised.X, noised.y, sample_weight=weights, random_state=0)
        found.add(fit.theta.tobytes())
        elsewhere.append(np.empty(rng.integers(1, 4_000)))
    assert len(found) == 1
