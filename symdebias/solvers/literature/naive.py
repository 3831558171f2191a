"""No correction: the declared loss on released records as if they were true."""

import functools
import time
from typing import Any

from symdebias._blas import one_thread
from symdebias._domains import NON_NEGATIVE
from symdebias.correction import columns_to_show
from symdebias.driver import debias
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.literature.equations import Problem, influence_of, numbers_of


@one_thread()
def naive(loss: Loss, release: Release, X: Any, y: Any, *, l2: float = 0.0) -> Fit:
    """Minimise the declared loss on released records as if they were true ones.

    Parameters
    ----------
    loss : Loss
        The declared loss.
    release : Release
        How the records were noised; nothing of it is undone, the labels' noise neither.
    X : array of shape (n, p), Rows or table
        The released records; those that are read by blocks are as for `symdebias.m_estimate`.
    y : array of shape (n,) or Rows
        The released targets.
    l2 : float
        Regularisation + l2/2 ||theta||^2, in [0, inf); the intercept is not penalised.

    Returns
    -------
    Fit
        The parameters, with a sandwich covariance.

    Raises
    ------
    NoExactCorrectionError
        The released values are no records of the loss's kind: the channel of a feature, or of labels that the loss
        declares, has other outputs than inputs.
    DivergenceError
        No minimum was found, or it is not the only one.
    ValueError, TypeError
        An argument or the data do not fit.

    References
    ----------
    Carroll, Ruppert, Stefanski & Crainiceanu 2006, *Measurement Error in Nonlinear Models*, Chapter 3.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> x = np.random.default_rng(0).normal(size=(20_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(1.0)).privatize(x, 2 * x[:, 0], random_state=1)
    >>> fit = sd.literature.naive(sd.losses.least_squares(), noised.release, noised.X, noised.y)
    >>> bool(abs(fit.theta[0] - 1.0) < 0.05)  # half of 2: noise and signal have the same variance
    True
    """
    began, l2 = time.perf_counter(), NON_NEGATIVE.check("l2", l2)
    plain = debias(loss, release, method="none").named_by(X)
    if plain.at(columns_to_show(loss, release)).uncorrected is None:
        raise NoExactCorrectionError(
            "the release sends other values than the true ones, so that its records have no uncorrected fit. Use a "
            "method that undoes the channel."
        )
    problem = Problem.of(numbers_of(plain, X, y), l2)
    theta, slope = problem.minimum()
    mean = problem.records.mean_gradient(theta)
    return problem.fit(
        plain,
        theta,
        influence_of(functools.partial(problem.gradients, theta), slope, mean),
        solver="naive",
        description="the declared loss on released records as if they were true",
        began=began,
        steps=1,
        biased="the noise of the records" if problem.records.is_noised else "",
    )
