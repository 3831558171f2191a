"""Is a fit lost? One test for all solvers, after every fit, whatever was given.

Far out a corrected risk is made by a few records: its minimum there is made by the noise. Four signs of it: a handful
of records carries the gradient; undoing the noise inflates gradients more than the records can pay for, or deflates them
to nothing; the curvature is within its own sampling error of zero; theta is farther from the pilot than both know.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from symdebias.exceptions import DivergenceError, VarianceWarning
from symdebias.solvers.records import Records
from symdebias.solvers.scores import inverse_root

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# The fewest of the tested records that may carry the gradient.
_FEWEST_CARRIERS = 30
# Gradients of less than this share of the mean square of the uncorrected ones are those of a plain far out; from the
# second figure on a fit is warned of; and so many records are needed for each parameter, over the inflation.
_LEAST_INFLATION, _MUCH_INFLATION, _NEEDED = 1e-3, 100.0, 20.0
# Groups of records whose curvatures are compared, and how many standard errors above zero the least curvature is.
_GROUPS, _LEAST_CURVATURE = 16, 3.0


@dataclass(frozen=True)
class Health:
    """What tells a lost fit.

    Attributes
    ----------
    carrying_share : float or None
        (sum ||g||)^2/(m sum ||g||^2) over m records: the share of them that carries the gradient; None where nothing
        was corrected.
    inflation : float or None
        The mean square of the corrected gradients over that of the uncorrected ones; None where there are none.
    curvature : float or None
        The least curvature in its own standard errors; None where it was not asked for.
    signs : tuple of str
        What says that the fit is lost.
    """

    carrying_share: float | None
    inflation: float | None
    curvature: float | None
    signs: tuple[str, ...]

    def refuse(self, theta: FloatArray, remedy: str) -> None:
        """Raise DivergenceError where the fit is lost."""
        if self.signs:
            raise DivergenceError(
                f"training was lost: at ||theta|| = {np.linalg.norm(theta):.4g} {'; '.join(self.signs)}. The noise is "
                f"too large for so many records at a theta of this length. {remedy}"
            )


def examined(
    records: Records,
    X: Any,
    y: Any,
    theta: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    *,
    with_curvature: bool,
) -> Health:
    """Return the signs of a lost fit at theta.

    Parameters
    ----------
    records : Records
        What was trained on.
    X, y
        The same as they were given, for the uncorrected loss.
    theta : array of shape (Q,), float64
        The parameters.
    penalty : array of shape (Q,), float64
        l2 for each.
    metric : array of shape (Q, Q), float64
        The second moments of released records: gradients and curvatures are taken relative to it, so that nothing here
        depends on units.
    with_curvature : bool
        Whether the curvature is looked at, for one more pass over at most 200,000 records.
    """
    corrected = records.corrected
    if corrected.method == "none":
        return Health(None, None, None, ())
    signs: list[str] = []
    root = inverse_root(metric)
    rows = slice(None, None, records.stride)
    tested = len(range(0, len(records.matrix), records.stride))
    share, size = _carrying_share(records.gradients(theta, rows) @ root, theta)
    count = len(theta)
    if tested >= 10 * _FEWEST_CARRIERS and share * tested < _FEWEST_CARRIERS:
        signs.append(
            f"{share * tested:.2g} of {tested:,} records carry the whole corrected gradient, and at least "
            f"{_FEWEST_CARRIERS} must"
        )
    inflation = _inflation(records, X, y, theta, root, size)
    if inflation is not None:
        if inflation < _LEAST_INFLATION:
            signs.append(f"corrected gradients have {inflation:.2g} times the mean square of uncorrected ones")
        elif inflation > _MUCH_INFLATION and inflation > records.total / (_NEEDED * count):
            signs.append(
                f"undoing the noise makes the gradients' mean square {inflation:.3g} times that of the uncorrected loss"
            )
    curvature = None
    if with_curvature:
        curvature = _least_curvature(records, theta, penalty, metric)
        if curvature is not None and curvature < _LEAST_CURVATURE:
            signs.append(
                f"the least curvature of the mean corrected loss is {curvature:.2g} of its own standard errors, and at "
                f"least {_LEAST_CURVATURE:g} are needed"
            )
    return Health(share, inflation, curvature, tuple(signs))


def warn_of_inflation(inflation: float | None) -> None:
    """Warn where a hundred times as many records would be needed as without the noise."""
    if inflation is not None and inflation >= _MUCH_INFLATION:
        warnings.warn(
            f"undoing the noise makes the gradients' mean square {inflation:.3g} times that of the uncorrected loss: "
            f"the fit knows about as much as from 1/{inflation:.3g} of its records. Release with less noise, noise "
            "fewer columns, or use a loss of lower degree or slower growth.",
            VarianceWarning,
            stacklevel=3,
        )


def _carrying_share(gradients: FloatArray, theta: FloatArray) -> tuple[float, float]:
    """Return the share of records that carry the gradient, and the mean square of their gradients.

    The share is 1 where all weigh the same, 1/m where one record is all of the gradient. For a corrected loss that
    grows like e^{u}, whose terms are lognormal, it is about e^{-s}.
    """
    with np.errstate(all="ignore"):
        norms = np.linalg.norm(gradients, axis=1)
        largest = norms.max()
        if largest > 0:
            relative = norms / largest
            share = float(relative.sum() ** 2 / (len(norms) * (relative @ relative)))
        else:
            # At theta = 0 a gradient may vanish; elsewhere all of them do where e^{-s/2} has underflowed.
            share = 0.0 if theta.any() else 1.0
        size = float(np.mean(norms**2))
    # Values that are not finite carry everything.
    return (share if math.isfinite(share) else 0.0), size


def _inflation(records: Records, X: Any, y: Any, theta: FloatArray, root: FloatArray, size: float) -> float | None:
    """Return the ratio of the mean squares of the corrected and the uncorrected gradients on released records."""
    plain = records.corrected.uncorrected
    if plain is None:
        return None
    matrix, target = plain.checked_rows(X, y, slice(None, None, records.stride))
    uncorrected = Records(plain, records.columns, matrix, target, np.zeros(0), False)
    with np.errstate(all="ignore"):
        gradients = uncorrected.gradients(theta, slice(None)) @ root
        before = float(np.mean(np.sum(gradients**2, axis=1)))
    if not (before > 0 and math.isfinite(size / before)):
        return None
    return size / before


def _least_curvature(records: Records, theta: FloatArray, penalty: FloatArray, metric: FloatArray) -> float | None:
    """Return the least curvature relative to a metric in its own standard errors, from groups of records."""
    most = 200_000
    stride = max(1, len(records.matrix) // most)
    if len(records.matrix) // stride < 20 * _GROUPS:
        return None
    found = []
    for group in range(_GROUPS):
        part = records.thinned(stride * _GROUPS, group * stride)
        if not part.total > 0:
            return None
        derivatives, kind = part.derivatives_or_differences()
        if kind != "exact":
            return None
        found.append(derivatives(theta).hessian)
    hessians = np.array(found)
    mean = hessians.mean(axis=0) + np.diag(penalty)
    diagonal = np.diag(metric)
    sizes, vectors = eigh(mean, metric + np.diag(penalty) + 1e-12 * np.diag(np.where(diagonal > 0, diagonal, 1.0)))
    direction = vectors[:, 0]
    own = np.einsum("i,gij,j->g", direction, hessians, direction)
    error = float(own.std(ddof=1)) / math.sqrt(_GROUPS)
    error *= math.sqrt(len(range(0, len(records.matrix), stride)) / len(records.matrix))
    if not error > 0:
        return math.inf if sizes[0] > 0 else -math.inf
    return float(sizes[0]) / error
