"""What a server keeps of released quadratic losses: sums, whatever the number of records.

The published server minimises the released loss as it stands; the corrected one takes out what the noise adds to it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from symdebias._arrays import FloatArray, real_array
from symdebias._domains import COUNT, NON_NEGATIVE, Interval, check_flag
from symdebias.exceptions import DivergenceError, InferenceError
from symdebias.inference import FEWEST_DECIDE, Inference, freedom_of_records, sandwich
from symdebias.solvers.curvature import LEAST_CURVATURE
from symdebias.solvers.regions import BallMinimum, minimise_in_ball
from symdebias.solvers.uncertain_curvature import curving_by, note_on_curvature

# Rows that are multiplied at once; with products of components besides, which are many more columns, fewer.
_BLOCK, _PRODUCT_BLOCK = 1 << 16, 1 << 11
# Beyond, the products of components fill more memory than the records of a usual data set.
_LARGEST_WITH_PRODUCTS = 64
# Eigenvalues of the corrected matrix below this, where the released one has a diagonal of 1, are rounding.
_LEAST_EIGENVALUE = 1e-10
# A mean leverage below the first does not matter to standard errors; one above the second leaves no intervals.
_LITTLE_LEVERAGE, _MOST_LEVERAGE = 0.005, 0.5
# Below this share of the squares that it is a difference of, a variance is known to less than a hundredth.
_LEAST_SCATTER = 1e-14
# E e^4/(E e^2)^2 of a normal residual e.
_NORMAL_KURTOSIS = 3.0
_VARIANCE = Interval(0.0, 1e240, "left", "Give the variance of the noise on one component of q.")


@dataclass(frozen=True)
class QuadraticEstimate:
    """The corrected estimate from released vectors.

    It is no `Fit`: who holds sums of q and p alone knows neither the loss nor the release that made them, from which a
    fit has its names, certificate, guarantee and file. `input_perturbation` knows both, and puts theta and inference
    of an estimate into its `Fit`.

    Attributes
    ----------
    theta : array of shape (d,), float64
        (mean q q' - v I)^-1 mean p.
    inference : symdebias.inference.Inference or None
        Its accuracy, where products were kept.
    records : int
        The number n of records.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> sums = sd.quadratic.QuadraticStatistics(2)
    >>> q = np.random.default_rng(0).normal(size=(500, 2))
    >>> sums.add(q, q * (q @ [[1.0], [-0.5]]))
    >>> estimate = sums.corrected(0.0)
    >>> estimate.theta.round(6), estimate.records
    (array([ 1. , -0.5]), 500)
    """

    theta: FloatArray
    inference: Inference | None
    records: int

    @property
    def covariance(self) -> FloatArray:
        """The sandwich covariance, shape (d, d): the spread of the records and the noise are both in it.

        Raises
        ------
        InferenceError
            The products of components were not kept.
        """
        if self.inference is None:
            raise InferenceError(
                "standard errors need the products of the components of q, and only sums were kept. Use "
                "QuadraticStatistics(dimension, products=True)."
            )
        return self.inference.required_covariance()

    @property
    def standard_errors(self) -> FloatArray:
        """The standard errors, shape (d,)."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))


class QuadraticStatistics:
    """Sums over released vectors q and p, which contributions are added to one block after the other.

    Parameters
    ----------
    dimension : int
        The number d of parameters.
    products : bool
        Whether to keep, besides, the second moments of (q q', p): the standard errors of `corrected` need them. They
        are (d (d + 3)/2)^2 numbers, and d is at most 64.

    Attributes
    ----------
    n : int
        The number of records so far.
    gram : array of shape (d, d), float64
        The sum of q q'.
    linear : array of shape (d,), float64
        The sum of p.

    Raises
    ------
    TypeError, ValueError
        The dimension is out of range.

    Notes
    -----
    The released vectors are differentially private, and so is whatever is computed from them.

    Examples
    --------
    >>> statistics = QuadraticStatistics(2)
    >>> statistics.add([[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 2.0]])
    >>> statistics.n, statistics.solve(radius=10.0).w.tolist()
    (2, [1.0, 0.5])
    """

    def __init__(self, dimension: int, *, products: bool = False) -> None:
        self._dimension = COUNT.check("dimension", dimension)
        products = check_flag("products", products)
        if products and self._dimension > _LARGEST_WITH_PRODUCTS:
            raise ValueError(
                f"products of {self._dimension} components are too many to keep; the most is "
                f"{_LARGEST_WITH_PRODUCTS} components. Leave products out, or fit fewer parameters."
            )
        d = self._dimension
        self._pairs = np.triu_indices(d)
        self.n = 0
        self.gram: FloatArray = np.zeros((d, d))
        self.linear: FloatArray = np.zeros(d)
        length = len(self._pairs[0]) + d if products else 0
        self._moments: FloatArray = np.zeros((length, length))

    @property
    def dimension(self) -> int:
        """The number d of parameters."""
        return self._dimension

    @property
    def keeps_products(self) -> bool:
        """Whether second moments are kept."""
        return len(self._moments) > 0

    def add(self, q: ArrayLike, p: ArrayLike) -> None:
        """Add released vectors.

        Parameters
        ----------
        q, p : arrays of shape (m, d)
            One row for each record.

        Raises
        ------
        TypeError, ValueError
            They do not fit, or an entry is not finite or so large that its square is not; nothing was added then.
        """
        first, second = (real_array(values, name, check_finite=False) for values, name in ((q, "q"), (p, "p")))
        for name, array in (("q", first), ("p", second)):
            if array.ndim != 2 or array.shape[1] != self._dimension or len(array) != len(first):
                raise ValueError(
                    f"{name} has the shape {array.shape}. It must be (m, {self._dimension}), with as many rows in q as "
                    "in p: pass the released vectors of the same records."
                )
        gram, linear = np.zeros_like(self.gram), np.zeros_like(self.linear)
        moments = np.zeros_like(self._moments)
        block = _PRODUCT_BLOCK if self.keeps_products else _BLOCK
        ones = np.ones(min(block, len(first)))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(first), block):
                rows, sent = first[start : start + block], second[start : start + block]
                gram += rows.T @ rows
                linear += ones[: len(sent)] @ sent
                if self.keeps_products:
                    both = np.concatenate([rows[:, self._pairs[0]] * rows[:, self._pairs[1]], sent], axis=1)
                    moments += both.T @ both
            total = self.gram + gram, self.linear + linear, self._moments + moments
        # What is not finite in a row is not finite in the sums.
        if not all(np.isfinite(part).all() for part in total):
            self._refuse(first, second)
        self.gram, self.linear, self._moments = total
        self.n += len(first)

    def _refuse(self, q: FloatArray, p: FloatArray) -> None:
        for name, array in (("q", q), ("p", p)):
            bad = ~np.isfinite(array).all(axis=1)
            if bad.any():
                raise ValueError(
                    f"{name} has an entry in row {int(np.argmax(bad))} that is not finite. Released vectors are "
                    "finite: leave the record out."
                )
        raise ValueError("sums of q and p overflow. Entries must stay below 1e70: change units.")

    def merge(self, other: "QuadraticStatistics") -> None:
        """Add what other statistics have seen.

        Parameters
        ----------
        other : QuadraticStatistics
            Of other records, with the same dimension, and with products where these have them.

        Raises
        ------
        TypeError, ValueError
            It is something else; nothing was added then.
        """
        if not isinstance(other, QuadraticStatistics):
            raise TypeError(f"only QuadraticStatistics merge; got {type(other).__name__}. Use add for arrays.")
        if other is self:
            raise ValueError(
                "statistics do not merge into themselves: each record would count twice, and standard errors be too "
                "small. Merge those of other records."
            )
        if (other.dimension, other.keeps_products) != (self.dimension, self.keeps_products):
            raise ValueError(
                f"{other!r} does not merge into {self!r}. Both must have one dimension, and keep products or not: make "
                "them alike."
            )
        self.gram = self.gram + other.gram
        self.linear = self.linear + other.linear
        self._moments = self._moments + other._moments
        self.n += other.n

    def solve(self, *, radius: float, regularisation: float = 0.0) -> BallMinimum:
        """Minimise mean (w'q q'w/2 - p'w) + regularisation/(2 n) ||w||^2 over ||w|| <= radius, as released.

        Parameters
        ----------
        radius : float
            Bound on the L2 norm of w, in [1e-100, 1e100].
        regularisation : float
            Of the sum over all records, in [0, inf): Delta_in in the paper.

        Returns
        -------
        BallMinimum
            With `w`, the minimiser.

        Raises
        ------
        ValueError
            There are no records.

        Notes
        -----
        The noise of q adds its own variance to the mean of q q', as a ridge would: the minimum is shrunk towards 0,
        and no number of records changes that while the noise of one record stays the same. See `corrected`.
        """
        self._some_records()
        ridge = NON_NEGATIVE.check("regularisation", regularisation)
        matrix = (self.gram + ridge * np.eye(self._dimension)) / self.n
        return minimise_in_ball(matrix, self.linear / self.n, radius)

    def corrected(self, q_variance: float) -> QuadraticEstimate:
        """Return the minimum of the loss corrected for the noise of q: (mean q q' - v I)^-1 mean p.

        Parameters
        ----------
        q_variance : float
            v, the variance of the noise on one component of q: of an `InputPerturbation` its ``q_scale**2``.

        Returns
        -------
        QuadraticEstimate
            With its sandwich covariance where products were kept.

        Raises
        ------
        DivergenceError
            The corrected matrix is not positive definite, so that the corrected loss has no minimum; or its least
            curvature is less than 2.5 of its own standard errors, so that the minimum may be one of the noise.
        ValueError, TypeError
            There are no records, or the variance is out of range.

        Notes
        -----
        E[q q' - v I] over the noise is the true q q', and that of p the true p: the estimating equation
        (q q' - v I) w - p is unbiased for the gradient of the true loss, at every w. It is linear in z = (q q', p), so
        that its second moments at w come from those of z: the covariance is the one that `m_estimate` finds from many
        records.

        The least curvature is that relative to mean q q'. Without products its standard error is that of normal noise
        on q, the least that it may be; with them that of the records where it is more.

        Second moments of z are fourth ones of q, and tell how few records have how much of a direction. With
        a = (mean q q' - v I)^-1 e_j, the leverage h = q'(mean q q' - v I)^-1 q/n and means that weigh records with
        w = (a'q)^2: standard errors are divided by 1 less the mean of h, where that matters (the estimate HC3, without
        looking at records), and as many records as decide a variance under normal residuals, (sum w)^2/(3 sum w^2),
        give the degrees of freedom of Student's t. Where fewer than 2.5 decide there are no intervals. Where the
        curvature is uncertain intervals are Fieller's, as those of `m_estimate`.

        References
        ----------
        Fuller 1987, *Measurement Error Models*, Section 2.2 (known error variance); Stefanski 1989; Nakamura 1990;
        MacKinnon & White 1985 (HC3); Fieller 1954.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> q = rng.normal(size=(100_000, 2)) * [1.0, 0.5]
        >>> sent = q + 0.7 * rng.normal(size=q.shape)
        >>> statistics = QuadraticStatistics(2, products=True)
        >>> statistics.add(sent, q * (q @ [[1.0], [-2.0]]))
        >>> estimate = statistics.corrected(0.49)
        >>> bool(np.all(abs(estimate.theta - [1.0, -2.0]) < 4 * estimate.standard_errors))
        True
        """
        self._some_records()
        variance = _VARIANCE.check("q_variance", q_variance)
        mean = self.gram / self.n
        matrix = mean - variance * np.eye(self._dimension)
        # In units of the components, in which rounding is that of each.
        sizes = np.sqrt(np.maximum(np.diag(mean), np.finfo(float).tiny))
        least = float(np.linalg.eigvalsh(matrix / sizes / sizes[:, None])[0])
        if not least > _LEAST_EIGENVALUE:
            raise DivergenceError(
                f"the mean of q q' without the noise of q has the eigenvalue {least:.3g}, where that with the noise "
                "has a diagonal of 1. It must be positive definite or the corrected loss has no minimum: use more "
                "records, release with less noise, or take the biased minimum over a ball."
            )
        if variance > 0:
            self._require_curvature(matrix / sizes / sizes[:, None], mean / sizes / sizes[:, None], sizes)
        theta: FloatArray = np.asarray(np.linalg.solve(matrix, self.linear / self.n), dtype=np.float64)
        if not self.keeps_products:
            return QuadraticEstimate(theta, None, self.n)
        try:
            inference = self._inference(theta, matrix, variance)
        except InferenceError as error:
            inference = Inference(None, "sandwich", str(error))
        return QuadraticEstimate(theta, inference, self.n)

    def _require_curvature(self, matrix: FloatArray, mean: FloatArray, sizes: FloatArray) -> None:
        """Raise DivergenceError where the least curvature, relative to that with the noise, is hardly above its error.

        The matrices are in units of the components, whose sizes these are. A curvature of c relative to a'(mean q q')a
        = 1 leaves 1 - c to the noise, and (a'q)^2 has no less than the variance of normal noise on given records,
        2 (1 - c)^2 + 4 c (1 - c); products tell it.
        """
        least, vectors = eigh(matrix, mean, subset_by_index=(0, 0))
        curvature = float(least[0])
        squares = 2 * (1 - curvature) * (1 + curvature)
        if self.keeps_products:
            own = vectors[:, 0] / sizes
            weighed = self._form(np.multiply.outer(own, own))
            fourth = self._moments[: len(weighed), : len(weighed)] / self.n
            told = float(weighed @ fourth @ weighed) - 1
            squares = max(squares, told if np.isfinite(told) else 0.0)
        error = math.sqrt(max(squares, 0.0) / self.n)
        if curvature < LEAST_CURVATURE * error:
            raise DivergenceError(
                f"the least curvature of the corrected loss is {curvature / error:.2g} of its own standard errors, and "
                f"at least {LEAST_CURVATURE:g} are needed: its minimum may be one that the noise has made. Use more "
                "records, release with less noise, or take the biased minimum over a ball."
            )

    def _inference(self, theta: FloatArray, matrix: FloatArray, variance: float) -> Inference:
        """Return the accuracy of theta, the root of the mean equation, whose mean derivative is the matrix."""
        equation = self._equation(theta)
        meat = equation @ (self._moments / self.n) @ equation.T - variance**2 * np.multiply.outer(theta, theta)
        inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        # Equations of parameters cancel, and those of columns that are nearly constant once more in the inverse.
        scatter = np.einsum("ij,jk,ik->i", inverse, meat, inverse)
        terms = (np.abs(inverse) @ np.abs(equation) @ np.sqrt(np.diag(self._moments) / self.n)) ** 2
        if not np.all(scatter > _LEAST_SCATTER * terms):
            raise InferenceError(
                "what is left of the scatter of records is rounding: q q' theta and p cancel to their last digits. "
                "Nothing scatters about an exact fit; otherwise centre the columns that q is made of."
            )
        covariance = sandwich(matrix, (meat + meat.T) / 2, self.n)
        pulled, deciding = self._leverage(inverse)
        widened = np.where(pulled > _LITTLE_LEVERAGE, 1 / (1 - np.minimum(pulled, _MOST_LEVERAGE)), 1.0)
        covariance = covariance * np.multiply.outer(widened, widened)
        notes, refusal, freedom, curving = [], "", freedom_of_records(deciding), None
        fewest = float(deciding.min())
        if fewest < FEWEST_DECIDE or pulled.max() > _MOST_LEVERAGE:
            refusal = (
                f"a parameter is decided by {fewest:.2g} of {self.n:,} records alone, and intervals would not cover. "
                "Use more records, leave out or bound columns with few large values, or release with less noise."
            )
        elif np.isfinite(freedom).any():
            notes.append(
                f"as few as {fewest:.3g} records decide the variance of a parameter: intervals and tests are by "
                f"Student's t with {freedom.min():.3g} degrees of freedom or more"
            )
        if variance > 0 and not refusal:
            curving = self._curving(equation, inverse, covariance)
            if curving.any():
                notes.append(note_on_curvature(curving))
        return Inference(
            covariance,
            "sandwich",
            refusal,
            np.zeros(len(theta)),
            tuple(notes),
            freedom if not refusal and np.isfinite(freedom).any() else None,
            curving=curving if curving is not None and curving.any() else None,
        )

    def _equation(self, theta: FloatArray) -> FloatArray:
        """Return the matrix that takes (q q', p) of a record to its equation, without v theta, which all have."""
        d = self._dimension
        first, second = self._pairs
        place = np.arange(len(first))
        equation = np.zeros((d, len(self._moments)))
        equation[first, place] = theta[second]
        equation[second, place] = theta[first]
        equation[np.arange(d), len(first) + np.arange(d)] = -1.0
        return equation

    def _form(self, matrix: FloatArray) -> FloatArray:
        """Return the numbers that take the products of the components of q to q'A q; A need not be symmetric."""
        first, second = self._pairs
        both = matrix[first, second] + matrix[second, first]
        return np.asarray(np.where(first == second, both / 2, both))

    def _leverage(self, inverse: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean leverage of what tells each parameter, and how many records decide it, shape (d,) each."""
        fourth = self._moments[: len(self._pairs[0]), : len(self._pairs[0])] / self.n
        whole = fourth @ self._form(inverse) / self.n
        pulled, deciding = np.empty((2, self._dimension))
        for place, column in enumerate(inverse):
            # So long that the mean of (a'q)^2 is 1.
            own = column / np.sqrt(float(column @ self.gram @ column) / self.n)
            weighed = self._form(np.multiply.outer(own, own))
            squared = float(weighed @ fourth @ weighed)
            # A mean square is no less than the square of the mean.
            if not 1 - 1e-9 <= squared < np.inf:
                raise InferenceError(
                    "products of the components of q are too small or too large for float64. Change units, so that "
                    "components of q are near 1."
                )
            pulled[place] = weighed @ whole
            deciding[place] = self.n / (_NORMAL_KURTOSIS * squared)
        return pulled, deciding

    def _curving(self, equation: FloatArray, inverse: FloatArray, covariance: FloatArray) -> FloatArray:
        """Return what `symdebias.solvers.uncertain_curvature.variance_of_curvature` finds from records."""
        mean = np.concatenate([self.gram[self._pairs], self.linear]) / self.n
        spread = self._moments / self.n - np.multiply.outer(mean, mean)
        found = np.zeros((self._dimension, 2))
        for place, variance in enumerate(np.diag(covariance)):
            if not variance > 0:
                continue
            score = inverse[place]
            plain, changes = score @ equation, np.zeros(len(mean))
            changes[: len(self._pairs[0])] = self._form(np.multiply.outer(score, covariance[place] / np.sqrt(variance)))
            pairs = (plain, plain), (plain, changes), (changes, changes)
            found[place] = curving_by(*(float(one @ spread @ other) for one, other in pairs))
        return found

    def _some_records(self) -> None:
        if self.n == 0:
            raise ValueError("no records were added. At least one is needed: call add first.")

    def __repr__(self) -> str:
        products = ", products=True" if self.keeps_products else ""
        return f"<QuadraticStatistics({self._dimension}{products}) of {self.n:,} records>"


def released_vectors(sent: Any, dimension: int) -> tuple[FloatArray, FloatArray]:
    """Return q and p of rows (q, p) as an `InputPerturbation` sends them.

    Parameters
    ----------
    sent : array of shape (m, 2 d)
        Released rows.
    dimension : int
        d.

    Returns
    -------
    q, p : arrays of shape (m, d), float64
        In C order.

    Examples
    --------
    >>> import numpy as np
    >>> q, p = released_vectors(np.array([[1.0, 2.0, 3.0, 4.0]]), dimension=2)
    >>> q, p
    (array([[1., 2.]]), array([[3., 4.]]))
    """
    array = real_array(sent, "sent")
    count = COUNT.check("dimension", dimension)
    if array.ndim != 2 or array.shape[1] != 2 * count:
        raise ValueError(f"sent has the shape {array.shape}. It must be (m, {2 * count}): q before p.")
    return np.ascontiguousarray(array[:, :count]), np.ascontiguousarray(array[:, count:])
