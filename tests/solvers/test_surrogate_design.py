"""Designs of surrogates over distributions of true scores."""

import numpy as np
import pytest

import symdebias as sd
from symdebias.exceptions import DivergenceError
from symdebias.solvers.surrogate_design import _Judge, designed
from symdebias.transforms.surrogate import Scores


def exponential_over(radius):
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    corrected = sd.debias(sd.losses.exponential(), release, method="surrogate")
    scores, variances = Scores.within(radius), np.array([0.25])
    return designed(corrected.surrogate_parts, scores, variances, 1000.0, (-1.0, 1.0), share_of_noise=0.2, quick=True)


@pytest.mark.parametrize("radius", [400.0, 800.0])
def test_scores_over_which_squares_overflow_are_refused(radius):
    """Of exp(u) at 400 the square of the square is not finite, at 800 exp(u) itself."""
    with pytest.raises(DivergenceError, match=f"scores of up to {radius:g} the loss has slopes"):
        exponential_over(radius)


def test_a_steep_loss_has_a_design_while_its_squares_are_finite():
    assert exponential_over(100.0).score_variance == 0.25


def test_a_curvature_whose_square_overflows_tells_nothing():
    corrected = sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    judge = _Judge(corrected.surrogate_parts, Scores.within(1.0), (-1.0, 1.0))
    bends = [np.full(len(judge.chances), 1e200) for _ in corrected.surrogate_parts.replaced]
    assert judge.relative(1.0, bends) == np.inf
