"""The fused pass of loss, gradient, Hessian and outer products against the kernels that do one thing each."""

import numba
import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.exceptions import NoExactCorrectionError

pytestmark = pytest.mark.newest

RNG = np.random.default_rng(0)
N = 600
X = 0.3 * RNG.normal(size=(N, 3))
Y = np.where(RNG.random(N) < 0.5, -1.0, 1.0)
CATEGORY = np.column_stack([X[:, :2], np.where(X[:, 2] > 0, 1.0, -1.0)])
WEIGHTS = RNG.uniform(0.5, 2.0, N)
SCALES = RNG.uniform(0.1, 0.3, (N, 3))
THETA = np.array([0.4, -0.3, 0.2, 0.1])
KNOWN = sd.GaussianMechanism.from_scale(0.3)
LABEL = sd.RandomizedResponse(epsilon=1.0)


def normal(**options):
    return sd.Release({("a", "b", "c"): KNOWN}, LABEL, fit_intercept=True, **options)


def mixed():
    return sd.Release({("a", "b"): KNOWN, "c": sd.RandomizedResponse(epsilon=1.0)}, LABEL, fit_intercept=True)


def free_form():
    x1, x2, t1, t2, y = sp.symbols("x1 x2 t1 t2 y", real=True)
    loss = sd.Loss.of_features((t1 * x1**2 + t2 * x2 - y) ** 2, features=[x1, x2], parameters=[t1, t2], target=y)
    return sd.debias(loss, sd.Release({("x1", "x2"): KNOWN}))


SURROGATE = {"radius": 3.0, "score_variance": 0.3, "n": 1000}
CASES = {
    "normal noise": lambda: (sd.debias(sd.losses.exponential(), normal()), X, THETA, None),
    "scales of the records' own": lambda: (sd.debias(sd.losses.exponential(), normal()), X, THETA, SCALES),
    "surrogate": lambda: (sd.debias(sd.losses.logistic(), normal(), **SURROGATE), X, THETA, None),
    "categories": lambda: (sd.debias(sd.losses.exponential(), mixed()), CATEGORY, THETA, None),
    "categories, surrogate": lambda: (sd.debias(sd.losses.logistic(), mixed(), **SURROGATE), CATEGORY, THETA, None),
    "free-form": lambda: (free_form(), X[:, :2], THETA[:2], None),
}


@pytest.mark.parametrize(
    ("case", "weighted"),
    [
        *((case, case == "normal noise") for case in ("normal noise", "free-form")),
        # Each takes kernels of its own.
        *(
            pytest.param(case, weighted, marks=pytest.mark.exhaustive)
            for case, weighted in (
                ("normal noise", False),
                ("surrogate", False),
                ("scales of the records' own", False),
                ("scales of the records' own", True),
                ("categories", False),
                ("categories, surrogate", False),
            )
        ),
    ],
)
def test_one_pass_gives_what_four_give(case, weighted):
    corrected, data, theta, scales = CASES[case]()
    weights = WEIGHTS if weighted else np.ones(N)
    own = {} if scales is None else {"noise_scale": scales}
    derivatives = corrected.records(data, Y, sample_weight=WEIGHTS if weighted else None, **own).derivatives()
    found = derivatives(theta, True)
    gradients = corrected.gradient(theta, data, Y, **own) * weights[:, None]
    assert found.loss == pytest.approx(corrected.mean_loss(theta, data, Y, sample_weight=weights, **own), rel=1e-13)
    np.testing.assert_allclose(found.gradient, gradients.sum(axis=0) / weights.sum(), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(found.meat, gradients.T @ gradients / weights.sum(), rtol=1e-11, atol=1e-14)
    h = 1e-5
    moved = [derivatives(theta + h * e).gradient - derivatives(theta - h * e).gradient for e in np.eye(len(theta))]
    np.testing.assert_allclose(found.hessian, np.array(moved) / (2 * h), rtol=1e-7, atol=1e-8)
    assert derivatives(theta).meat.shape == (0, 0)


def test_results_do_not_depend_on_the_number_of_threads():
    rows = 100_000
    data, target = np.tile(X, (rows // N + 1, 1))[:rows], np.tile(Y, rows // N + 1)[:rows]
    corrected = sd.debias(sd.losses.exponential(), normal())
    theta = np.zeros(4) + 0.1
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = corrected.mean_hessian(theta, data, target)
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(one, corrected.mean_hessian(theta, data, target))


def test_a_hessian_of_too_many_terms_is_refused():
    release = sd.Release({("a", "b", "c"): sd.LaplaceMechanism.from_scale(0.1)})
    corrected = sd.debias(sd.losses.softmax(3), release)
    with pytest.raises(NoExactCorrectionError, match="too many terms"):
        corrected.mean_hessian(np.zeros((3, 3)), X, np.zeros(N))
