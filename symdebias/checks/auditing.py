"""Bound epsilon from below by what comes out: of a solver that runs many times on two neighbouring data sets.

A bound above the claim refutes it; one below says no more than that these two data sets and this many runs do not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import Integer, Interval
from symdebias._randomness import generator
from symdebias.checks.events import sampled_epsilon
from symdebias.checks.probes import separating
from symdebias.checks.result import GuaranteeCheck
from symdebias.exceptions import PrivacyError
from symdebias.privacy import Guarantee

CONFIDENCE = Interval(0.5, 1.0, "neither", "Give a probability close to 1, such as 0.999.")


def audit(
    fit: Callable[[Any, Any, np.random.Generator], Any],
    first: tuple[Any, Any],
    second: tuple[Any, Any],
    *,
    runs: int = 2000,
    confidence: float = 0.999,
    random_state: int | np.random.Generator | None = None,
) -> GuaranteeCheck:
    """Audit the guarantee of a solver: run it many times on two neighbouring data sets, and try to tell them apart.

    Parameters
    ----------
    fit : callable
        ``fit(X, y, random_state)``, which returns a `Fit` with a guarantee: a solver whose other arguments are fixed.
    first, second : pair
        Two data sets (X, y) that are neighbours under the guarantee's adjacency; whether they are is not checked. The
        bound is sharp where they differ as much as neighbours can, and where few other records hide it.
    runs : int
        On each data set, at least 200; half of them choose an event and the other half test it.
    confidence : float
        Of the bound, in (0.5, 1).
    random_state : int, numpy.random.Generator or None
        For all runs.

    Returns
    -------
    GuaranteeCheck
        With the claim of the fits, ``sampled_epsilon``, the lower bound, and ``holds``.

    Raises
    ------
    PrivacyError
        The fits have no guarantee, or not all the same.
    TypeError, ValueError
        An argument is outside its range.

    Notes
    -----
    The parameters are projected on the direction that separates the means of the two halves that choose, in units of
    their spread (Fisher's discriminant), or on a parameter that never varies and differs; events are intervals of that
    projection. The bound is
    log((p - delta)/q), p and q the Clopper-Pearson bounds of an event's probabilities.

    References
    ----------
    Jagielski, Ullman & Oprea 2020 (arXiv 2006.07709), Section 4; Tramer, Terzis, Steinke, Song, Jagielski & Carlini
    2022 (arXiv 2202.12219); Clopper & Pearson 1934.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> def fit(X, y, random_state):
    ...     return sd.dp_lssgd(
    ...         sd.losses.logistic(), X, y, epsilon=4.0, delta=1e-2, adjacency="replace-one", smoothing=0.0, clip=0.5,
    ...         batch_size=2, epochs=1, accountant="rdp", random_state=random_state,
    ...     )
    >>> X = np.ones((2, 1))
    >>> check = audit(fit, (X, [1.0, 1.0]), (X, [1.0, -1.0]), runs=300, random_state=0)
    >>> check.holds, check.sampled_epsilon > 0
    (True, True)
    """
    runs = Integer(200).check("runs", runs)
    share = CONFIDENCE.check("confidence", confidence)
    rng = generator(random_state)
    claims: set[Guarantee] = set()
    results: list[FloatArray] = []
    for X, y in (first, second):
        rows = []
        for _ in range(runs):
            fitted = fit(X, y, rng)
            # Audited fits may be seeded; what they promise is that of fresh entropy.
            claims.add(getattr(fitted, "own_guarantee", None) or fitted.guarantee)
            rows.append(np.ravel(fitted.theta))
        results.append(np.array(rows))
    if len(claims) > 1:
        raise PrivacyError(
            f"the fits claim different guarantees: {', '.join(sorted(map(str, claims)))}. Audit one budget at a time."
        )
    (claimed,) = claims
    if claimed is None:
        raise PrivacyError("the fits make no privacy claim, so that there is nothing to audit. Give them a budget.")
    axis = separating(results[0][: runs // 2], results[1][: runs // 2])
    bound = sampled_epsilon(results[0] @ axis, results[1] @ axis, claimed.delta, share)
    return GuaranteeCheck(claimed, None, None, bound, share, runs)
