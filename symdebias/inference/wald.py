"""Wald tests of several restrictions, whatever the bias is within its bounds."""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import chdtrc, fdtrc

from symdebias._arrays import FloatArray, real_array
from symdebias.exceptions import InferenceError
from symdebias.inference.covariances import NO_SPREAD

# Bounds on biases whose signs are tried one by one; with more of them the largest is bounded from above.
_MOST_SIGNS = 12


@dataclass(frozen=True)
class WaldTest:
    """A Wald test of R theta = r.

    Attributes
    ----------
    statistic : float
        (R theta - r)' (R V R')^-1 (R theta - r).
    degrees_of_freedom : int
        The rank of R.
    pvalue : float
        The largest probability of so large a statistic under the hypothesis, whatever the bias is within its bounds:
        from the chi-squared distribution of that noncentrality, or from Hotelling's where the covariance rests on few
        values.
    of_covariance : float or None
        The degrees of freedom of the estimate of the covariance, where they are few.
    noncentrality : float
        The largest (R b)' (R V R')^-1 (R b) of biases b within their bounds, those of all combinations included, or a
        bound on it; 0 without bias.

    Examples
    --------
    >>> import numpy as np
    >>> test = wald_test(np.array([1.0, 2.0]), np.diag([0.01, 0.04]), [[1.0, 0.0]], [0.8])
    >>> round(test.statistic, 4), test.degrees_of_freedom, round(test.pvalue, 4)
    (4.0, 1, 0.0455)
    """

    statistic: float
    degrees_of_freedom: int
    pvalue: float
    of_covariance: float | None = None
    noncentrality: float = 0.0

    def __str__(self) -> str:
        bias = f", bias up to a noncentrality of {self.noncentrality:.3g}" if self.noncentrality > 0 else ""
        if self.of_covariance is not None:
            name = f"T2({self.degrees_of_freedom}, {self.of_covariance:.4g})"
        else:
            name = f"chi2({self.degrees_of_freedom})"
        return f"{name} = {self.statistic:.4g}, p = {self.pvalue:.3g}{bias}"


def wald_test(
    theta: FloatArray,
    covariance: FloatArray,
    restrictions: ArrayLike,
    values: ArrayLike = 0.0,
    *,
    bias: FloatArray | None = None,
    bias_factors: FloatArray | None = None,
    degrees_of_freedom: float | None = None,
) -> WaldTest:
    """Test R theta = r.

    Parameters
    ----------
    theta : array of shape (q,), float64
        The estimate.
    covariance : array of shape (q, q), float64
        Its covariance.
    restrictions : array of shape (q,) or (k, q)
        R, of full row rank.
    values : float or array of shape (k,)
        r.
    bias : array of shape (q,), float64, optional
        Bounds on the absolute bias of each entry of theta, non-negative; none by default.
    bias_factors : array of shape (m, q, r), float64, optional
        As for `Inference`: bounds on the bias of all combinations, beside those of each entry.
    degrees_of_freedom : float, optional
        Of the estimate of the covariance, at least k; the test is then Hotelling's.

    Raises
    ------
    ValueError
        The shapes do not fit, or the rows of R are linearly dependent.
    InferenceError
        More restrictions than the covariance has degrees of freedom, or a combination of them has no variance.

    Notes
    -----
    With a bias b the statistic has the noncentrality (R b)'(R V R')^-1 (R b), which is convex in b and largest where
    every entry is at a bound. All signs are tried for up to 12 entries; beyond them it is bounded from above. With b
    such that abs(a'b) <= ||F'a|| for all a it is at most the largest eigenvalue of (R V R')^-1 R F F'R', and the least
    of all bounds is taken. With one restriction the test rejects at level 1 - c where the interval of level c leaves r
    out. Where the covariance has few degrees of freedom the root of the noncentrality is taken off that of the
    statistic.

    Examples
    --------
    >>> print(wald_test(np.array([2.0, 0.0]), np.eye(2), [1.0, 0.0]))
    chi2(1) = 4, p = 0.0455
    >>> print(wald_test(np.array([2.0, 0.0]), np.eye(2), [1.0, 0.0], bias=np.array([0.5, 0.5])))
    chi2(1) = 4, p = 0.073, bias up to a noncentrality of 0.25
    """
    rows = np.atleast_2d(real_array(restrictions, "restrictions"))
    if rows.ndim != 2 or rows.shape[1] != len(theta):
        raise ValueError(
            f"restrictions has the shape {np.shape(restrictions)}; it must be ({len(theta)},) or (k, {len(theta)}): "
            "one row for each restriction."
        )
    # What they are in the unit of their largest entry, whose squares are finite and not 0.
    units = np.abs(rows).max(axis=1)
    units[units == 0] = 1.0
    rows = rows / units[:, None]
    if np.linalg.matrix_rank(rows) < len(rows):
        raise ValueError("the rows of restrictions are linearly dependent. Leave out those that follow from others.")
    wanted = real_array(np.atleast_1d(np.asarray(values)), "values")
    if wanted.shape not in ((1,), (len(rows),)):
        raise ValueError(
            f"values has the shape {np.shape(values)}; it must be a number, or ({len(rows)},): one for each "
            "restriction."
        )
    rows, wanted = _apart(rows, np.broadcast_to(wanted, (len(rows),)) / units)
    count = len(rows)
    if degrees_of_freedom is not None and degrees_of_freedom < count:
        raise InferenceError(
            f"{count} restrictions cannot be tested together by a covariance of {degrees_of_freedom:.3g} degrees of "
            "freedom. Test fewer at a time, or have more clusters or batches."
        )
    distance = rows @ theta - wanted
    spread = rows @ covariance @ rows.T
    sizes = np.abs(rows) @ np.sqrt(np.diag(covariance))
    sizes[sizes == 0] = 1.0
    if np.linalg.eigvalsh(spread / np.multiply.outer(sizes, sizes))[0] <= NO_SPREAD:
        raise InferenceError(
            "a combination of the restrictions has no variance, and cannot be tested: a parameter is held, or all "
            "classes of softmax take part, whose parameters sum to 0. Leave it out."
        )
    with np.errstate(all="ignore"):
        statistic = float(distance @ np.linalg.solve(spread, distance))
    if not math.isfinite(statistic):
        raise ValueError(
            "values lie so many standard errors from the estimate that the statistic is above every float. Correct "
            "them, or the unit that they are in."
        )
    most = 0.0
    if bias is not None and np.any(bias > 0):
        if not np.all(np.isfinite(bias)):
            raise InferenceError("the bias of the estimate has no finite bound, and no test keeps its level.")
        # Columns whitened by the covariance: the noncentrality is the square of a sum of them with signs.
        root = np.linalg.cholesky(spread)
        most = _longest_sum(np.linalg.solve(root, rows * bias)) ** 2
        if bias_factors is not None:
            longest = np.linalg.norm(np.linalg.solve(root, rows @ bias_factors), 2, axis=(1, 2))
            most = min(most, float(longest.min()) ** 2)
    if degrees_of_freedom is None:
        return WaldTest(statistic, count, _chi2_tail(statistic, count, most), noncentrality=most)
    left = degrees_of_freedom - count + 1
    beyond = max(math.sqrt(statistic) - math.sqrt(most), 0.0) ** 2
    chance = float(fdtrc(count, left, beyond * left / (degrees_of_freedom * count)))
    return WaldTest(statistic, count, chance, degrees_of_freedom, most)


def _apart(rows: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same restrictions, of which each has an entry that no other one has.

    Restrictions that have a parameter of large variance in common would hide one of small variance, by which they
    differ, below its rounding.
    """
    both = np.column_stack((rows, values))
    for row in range(len(both)):
        place, column = divmod(int(np.argmax(np.abs(both[row:, :-1]))), both.shape[1] - 1)
        both[[row, row + place]] = both[[row + place, row]]
        both[row] /= both[row, column]
        others = np.arange(len(both)) != row
        both[others] -= np.multiply.outer(both[others, column], both[row])
    return both[:, :-1], both[:, -1]


def _chi2_tail(statistic: float, degrees_of_freedom: int, noncentrality: float) -> float:
    """Return the probability beyond a statistic of the noncentral chi-squared distribution."""
    if noncentrality == 0:
        return float(chdtrc(degrees_of_freedom, statistic))
    # scipy.special has only the distribution function, and 1 less it has no small tails. SciPy imports the package
    # when it is first named, which takes as long as SymPy does.
    return float(scipy.stats.ncx2.sf(statistic, degrees_of_freedom, noncentrality))


def _longest_sum(columns: FloatArray) -> float:
    """Return the largest norm of the sum of columns with signs of one's choice, or an upper bound on it for many."""
    columns = columns[:, np.any(columns != 0, axis=0)]
    count = columns.shape[1]
    if len(columns) == 1 or count <= 1:
        return float(np.abs(columns).sum(axis=1).max()) if len(columns) == 1 else float(np.linalg.norm(columns))
    if count <= _MOST_SIGNS:
        # The sign of all together does not matter.
        signs = np.ones((2 ** (count - 1), count))
        signs[:, 1:] -= 2 * (np.arange(len(signs))[:, None] >> np.arange(count - 1) & 1)
        return float(np.linalg.norm(signs @ columns.T, axis=1).max())
    products = columns.T @ columns
    return math.sqrt(min(float(np.abs(products).sum()), count * float(np.linalg.eigvalsh(products).max())))
