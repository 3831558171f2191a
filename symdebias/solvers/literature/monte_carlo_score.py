"""The Monte-Carlo corrected score: the gradient averaged over complex records."""

import math
import time
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, NON_NEGATIVE, check_choice
from symdebias._randomness import generator
from symdebias.driver import debias
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.equations import Measured, RowsAt
from symdebias.solvers.literature.estimated import with_error_of_estimates
from symdebias.solvers.literature.passes import normal_numbers
from symdebias.solvers.literature.score import score_fit


@with_error_of_estimates
def monte_carlo_score(
    loss: Loss,
    release: Release,
    X: Any,
    y: Any,
    *,
    l2: float = 0.0,
    draws: int = 10,
    poles: str = "refuse",
    random_state: int | np.random.Generator | None = None,
) -> Fit:
    """Average the gradient of the loss over complex records x~ + i w, w drawn like the noise.

    For an entire loss the real part of the mean is the corrected gradient, by draws in place of a closed form.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `naive`: a loss of one score, columns with normal noise or none.
    draws : int
        Draws of w for each record, at least 1. They are the same ones at every theta.
    poles : {"refuse", "ignore"}
        What to do where the loss is not entire, as the log loss: refuse, or pass the singularities by. The mean over
        complex records then estimates something else than the corrected gradient, and the fit is biased at any number
        of records; this is for comparisons that show it.
    random_state : int, numpy.random.Generator or None
        For the draws.

    Returns
    -------
    Fit
        The parameters, with a sandwich covariance that takes in the draws.

    Raises
    ------
    NoExactCorrectionError
        The loss is not entire or has several scores, or a column has another noise.
    DivergenceError
        No root was found near that of regression calibration.
    ValueError, TypeError
        An argument or the data do not fit.

    References
    ----------
    Novick & Stefanski 2002, Section 2; Stefanski 1989.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = rng.poisson(np.exp(0.5 * x[:, 0]))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.5)).privatize(x, y, random_state=1)
    >>> fit = sd.literature.monte_carlo_score(sd.losses.poisson(), noised.release, noised.X, noised.y, random_state=2)
    >>> bool(abs(fit.theta[0] - 0.5) < 0.1)
    True
    """
    began, l2 = time.perf_counter(), NON_NEGATIVE.check("l2", l2)
    draws = COUNT.check("draws", draws)
    check_choice("poles", poles, ("refuse", "ignore"))
    seeds = [int(seed) for seed in generator(random_state).integers(2**63, size=draws)]
    measured = Measured.of(loss, release, X, y)
    measured.require_normal("the Monte-Carlo corrected score")
    if len(loss.scores) != 1:
        raise NoExactCorrectionError(
            "the Monte-Carlo corrected score is written here for a loss of one score. Declare the loss in its score, "
            "or use debias."
        )
    if poles == "refuse":
        # Where the loss is not entire this says why, with the place of the singularity.
        debias(loss, release, method="quadrature", nodes=2)
    ignored = ("the loss was not checked for singularities: the fit may be biased",)
    return score_fit(
        measured,
        _complex_score(measured, seeds),
        l2,
        solver="monte_carlo_score",
        description="the score averaged over complex noise (Novick & Stefanski 2002)",
        began=began,
        steps=1,
        biased="" if poles == "refuse" else "what singularities of the loss add to the mean over complex records",
        notes=() if poles == "refuse" else ignored,
    )


def _complex_score(records: Measured, seeds: list[int]) -> RowsAt:
    """Return the gradients of records, averaged over the draws; the same draws at every theta."""
    (u,), y = records.loss.scores, records.loss.target
    slope = sp.diff(records.loss.expression, u)
    names = (sp.Dummy("u"), sp.Dummy("y"))
    function = sp.lambdify(names, slope.xreplace({u: names[0], y: names[1]}), modules=["scipy", "numpy"])
    noise = records.release.target_noise
    affine = sp.diff(slope, y, 2) == 0
    values = records.loss.target_values
    is_weighted = values is not None and (isinstance(noise, ChannelNoise) or (noise is not None and len(values) == 2))
    spread = 0.0
    if not is_weighted and isinstance(noise, AdditiveNoise) and not affine:
        if not noise.is_gaussian:
            raise NoExactCorrectionError(
                "the Monte-Carlo corrected score is for normal noise, and the target has another. Use debias."
            )
        spread = math.sqrt(noise.variance)
    columns, factor = records.columns, records.noise_root

    def rows(theta: FloatArray, part: slice) -> FloatArray:
        X, y = records.extended(part), records.y[part]
        weights = records.label_weights(part) if is_weighted else None
        total = np.zeros(X.shape)
        for seed in seeds:
            drawn = normal_numbers(seed, len(records), columns + bool(spread), part)
            moved = X.astype(complex)
            moved[:, :columns] += 1j * (drawn[:, :columns] @ factor.T)
            score = moved @ theta
            with np.errstate(all="ignore"):
                if weights is None:
                    slopes = function(score, y + 1j * spread * drawn[:, columns] if spread else y)
                else:
                    assert values is not None
                    slopes = sum(weights[:, place] * function(score, value) for place, value in enumerate(values))
            total += np.real(np.broadcast_to(slopes, len(X))[:, None] * moved)
        return total / len(seeds)

    return rows
