"""What a solver knows of the accuracy of its parameters."""

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import null_space
from scipy.special import ndtr

from symdebias._arrays import BooleanArray, FloatArray, real_array
from symdebias._domains import OPEN_UNIT
from symdebias._fieller import fieller_variance
from symdebias.exceptions import InferenceError
from symdebias.inference.covariances import of_combinations
from symdebias.inference.critical import critical_value, critical_values, two_sided_pvalues, without_skewness
from symdebias.inference.score_tests import deviation, ends_by_score_tests, statistic_of_score_test
from symdebias.inference.wald import WaldTest, wald_test

# What cancels in a bias is known but for so much of what cancels.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Inference:
    """What a solver knows of the accuracy of its parameters.

    Attributes
    ----------
    covariance : array of shape (q, q), float64, or None
        Of all parameters, scores after one another; None where there is none. It has no bias in it.
    kind : str
        How it was found.
    refusal : str
        Why there are no intervals; empty where there are.
    bias : array of shape (q,), float64
        A bound on the bias of each parameter that the correction's own bias makes; 0 where it is exact.
    notes : tuple of str
        What to know of it.
    degrees_of_freedom : array of shape (q,), float64, or float, or None
        Of the variance of each parameter, or one number for all, where it rests on few values: intervals and tests then
        allow for its own error. Infinite where a variance is as good as known, None where all are. Tests, and
        combinations of parameters, have the least of those that take part.
    joint_degrees_of_freedom : float or None
        A bound on those for tests of several restrictions.
    curving : array of shape (q, 2), float64, or None
        a and b of each parameter, where its curvature is uncertain: t standard errors away from it the variance of a
        score test is 1 + a t + b t^2 of that at the estimate. Intervals then reach at least as far as Fieller's, whose
        ends may be infinite, and p values agree with them.
    levelling : array of shape (q, 2), float64, or None
        c below and above each parameter, where its score levels off: without bias c t^2 is added to that variance, and
        with it as much in proportion beyond the bias. Intervals of 95% then end where the score test does, the bias
        added, which may be nowhere.
    skewness : array of shape (q, 2), float64, or None
        That of each parameter downwards and upwards, non-negative, where few records decide its variance: intervals
        reach farther to that side, see `skewed_reaches`, and p values agree with them.
    bias_factors : array of shape (m, q, r), float64, or None
        Of each of m bounds on the bias of all combinations a factor F: the bias of a'theta is at most ||F'a||, for
        every a. Biases of parameters mostly cancel in a prediction, and so does F'a; their bounds add up. None where
        nothing but the bound of each parameter is known.
    outward : float or None
        The largest statistic of a score test of s theta, s > 1, where none tells one of them from theta; else None. At
        levels that need a larger one all s times a theta within its interval are as good as that: intervals have no end
        away from 0, and none at all where 0 is within them, and tests reject what they reject of every s.
    intercepts : array of shape (q,), bool, or None
        Where `outward` is of slopes alone, whether an intercept takes part in each parameter, or what a free-form loss
        has without features. An intercept goes to where it is best for the longer slopes, to a side and as far as
        nothing says: at such levels these have no ends, and tests reject what they reject whatever they are.

    Examples
    --------
    >>> import numpy as np
    >>> known = Inference(np.diag([0.01, 0.04]), "sandwich")
    >>> known.standard_errors()
    array([0.1, 0.2])
    >>> known.interval(np.array([1.0, 2.0]), 0.95).round(2)
    array([[0.8 , 1.2 ],
           [1.61, 2.39]])
    """

    covariance: FloatArray | None
    kind: str
    refusal: str = ""
    bias: FloatArray | None = None
    notes: tuple[str, ...] = ()
    degrees_of_freedom: FloatArray | float | None = None
    joint_degrees_of_freedom: float | None = None
    curving: FloatArray | None = None
    levelling: FloatArray | None = None
    skewness: FloatArray | None = None
    bias_factors: FloatArray | None = None
    outward: float | None = None
    intercepts: BooleanArray | None = None

    def required_covariance(self) -> FloatArray:
        """Return the covariance.

        Raises
        ------
        InferenceError
            There is none.
        """
        if self.covariance is None:
            raise InferenceError(self.refusal)
        return self.covariance

    def standard_errors(self) -> FloatArray:
        """Return the roots of the covariance's diagonal, without the bias."""
        found: FloatArray = np.sqrt(np.diag(self.required_covariance()))
        return found

    def interval(self, theta: FloatArray, level: float) -> FloatArray:
        """Return intervals of shape (q, 2) that reach further where there is bias.

        Raises
        ------
        InferenceError
            There are none; the message says why.
        """
        level = OPEN_UNIT.check("level", level)
        errors = self.standard_errors()
        if self.refusal:
            raise InferenceError(self.refusal)
        bias, freedom, known = self.bias_of(len(theta)), self.freedom(len(theta)), errors > 0
        ratio = np.divide(bias, errors, where=known, out=np.zeros(len(theta)))
        reach = np.where(known, critical_values(level, ratio, freedom) * errors, bias)
        ends = np.stack([theta - reach, theta + reach], axis=1)
        for side, sign in enumerate((-1, 1)):
            changes = self._changes(len(theta), sign)
            (places,) = np.nonzero(known & (changes[1] + changes[2] + changes[3] > 0))
            told = (one[places] for one in (ratio, freedom, *changes))
            ends[places, side] = theta[places] + sign * errors[places] * ends_by_score_tests(level, *told)
        if self.outward is not None and critical_value(level) > self.outward:
            for side, sign in enumerate((-1, 1)):
                is_open = (sign * ends[:, side] > 0) | self._with_intercept(len(theta))
                ends[known & is_open, side] = sign * math.inf
        return ends

    def pvalues(self, theta: FloatArray) -> FloatArray:
        """Return two-sided p values of parameters of 0, shape (q,): 1 less the level of the interval that reaches it.

        Raises
        ------
        InferenceError
            There are none; the message says why.
        """
        errors = self.standard_errors()
        if self.refusal:
            raise InferenceError(self.refusal)
        bias, freedom, known = self.bias_of(len(theta)), self.freedom(len(theta)), errors > 0
        found = (np.abs(theta) <= bias).astype(np.float64)
        away, ratio = -theta[known] / errors[known], bias[known] / errors[known]
        below, above = (np.array(self._changes(len(theta), sign))[:, known] for sign in (-1, 1))
        slope, bend, levels, skewness = np.where(away > 0, above, below)
        size = np.abs(away)
        statistic = statistic_of_score_test(size, slope, bend, levels, ratio)
        found[known] = two_sided_pvalues(statistic, ratio / deviation(size, slope, bend), freedom[known], skewness)
        if self.outward is not None:
            unknown = known & self._with_intercept(len(theta))
            found[unknown] = np.maximum(found[unknown], self._chance_outward)
        return found

    def test(self, theta: FloatArray, restrictions: ArrayLike, values: ArrayLike) -> WaldTest:
        """Return the Wald test of R theta = r, the bias within its bounds; see `wald_test`.

        Where no test tells longer parameters from theta, the p value is the largest of all r/s, s >= 1, or that of the
        score test; where intercepts take part, of what the restrictions say without them.

        Raises
        ------
        InferenceError
            There is none; the message says why.
        """
        found = self._test(theta, restrictions, values)
        if self.outward is None:
            return found
        rows = np.atleast_2d(real_array(restrictions, "restrictions"))
        wanted = np.broadcast_to(np.asarray(values, dtype=np.float64), (len(rows),))
        unknown = self._with_intercept(len(theta))
        if np.any(rows[:, unknown]):
            without = null_space(rows[:, unknown].T).T
            left = np.where(unknown, 0.0, without @ rows)
            chance = self.test(theta, left, without @ wanted).pvalue if len(left) else 1.0
            return replace(found, pvalue=max(min(chance, self._chance_outward), found.pvalue))
        # The nearest of them, in the metric of the test.
        across = np.linalg.solve(of_combinations(rows, self.required_covariance()), wanted)
        share = np.clip(across @ (rows @ theta) / (across @ wanted), 0.0, 1.0) if wanted.any() else 1.0
        chance = min(self._test(theta, restrictions, share * wanted).pvalue, self._chance_outward)
        return replace(found, pvalue=max(chance, found.pvalue))

    @property
    def _chance_outward(self) -> float:
        """The p value of the score test of `outward`."""
        assert self.outward is not None
        return 2 * float(ndtr(-self.outward))

    def _with_intercept(self, size: int) -> BooleanArray:
        """Return in which of so many parameters an intercept takes part that nothing is known of, shape (size,)."""
        return np.zeros(size, dtype=bool) if self.intercepts is None else self.intercepts

    def _test(self, theta: FloatArray, restrictions: ArrayLike, values: ArrayLike) -> WaldTest:
        """Return the test of one hypothesis alone."""
        covariance = self.required_covariance()
        if self.refusal:
            raise InferenceError(self.refusal)
        rows = np.atleast_2d(real_array(restrictions, "restrictions"))
        taking = np.ones(len(theta), dtype=bool)
        if rows.ndim == 2 and rows.shape[1] == len(theta):
            taking = np.any(rows != 0, axis=0)
            if len(rows) == 1 and np.count_nonzero(taking) > 1 and np.all(np.isfinite(rows)):
                # As a parameter of its own, as its interval is made.
                return self.mapped(rows)._test(rows @ theta, np.eye(1), values)
        freedom = float(np.min(self.freedom(len(theta)), initial=math.inf, where=taking))
        if self.joint_degrees_of_freedom is not None and len(rows) > 1:
            freedom = min(freedom, self.joint_degrees_of_freedom)
        known = float(freedom) if math.isfinite(freedom) else None
        bias, factors = self.bias_of(len(theta)), self.bias_factors
        tested = functools.partial(wald_test, theta, restrictions=restrictions, values=values, degrees_of_freedom=known)
        test = tested(covariance, bias=bias, bias_factors=factors)
        larger, of_curvature = self._variances_there(theta, rows, values, test)
        larger = self._with_skewness(larger, of_curvature, theta, rows, values)
        if larger > 1:
            # A score that levels off is no larger variance: the bias stays what it is beside its errors.
            kept = math.sqrt(larger / of_curvature)
            factors = None if factors is None else kept * factors
            test = tested(larger * covariance, bias=kept * bias, bias_factors=factors)
        return test

    def _variances_there(
        self, theta: FloatArray, rows: FloatArray, values: ArrayLike, test: WaldTest
    ) -> tuple[float, float]:
        """Return the variance of a score test where restrictions hold over that at the estimate, and the curvature's.

        Of a single parameter it is Fieller's, as intervals have it. Of combinations it is that of the parameter whose
        curvature is the least certain, without its slope.
        """
        places = np.flatnonzero(np.any(rows != 0, axis=0))
        if len(places) == 1 and self.standard_errors()[places[0]] > 0:
            place = int(places[0])
            wanted = float(np.ravel(np.asarray(values))[0]) / float(rows[0, place])
            away = float((wanted - theta[place]) / self.standard_errors()[place])
            slope, bend, levels, _ = self._changing(place, 1 if away > 0 else -1)
        else:
            away, slope = math.sqrt(test.statistic), 0.0
            changing = [self._changing(int(place), sign) for place in places for sign in (-1, 1)]
            bend, levels = (max((one[index] for one in changing), default=0.0) for index in (1, 2))
        of_curvature = float(fieller_variance(abs(away), slope, bend))
        ratio = math.sqrt(test.noncentrality)
        size = float(statistic_of_score_test(abs(away), slope, bend, levels, ratio))
        return (away / size) ** 2 if size > 0 else of_curvature, of_curvature

    def _with_skewness(
        self, larger: float, of_curvature: float, theta: FloatArray, rows: FloatArray, values: ArrayLike
    ) -> float:
        """Return by how much more the variance counts as larger, as an error on the side of a long tail is smaller.

        It is as much more as it would be for the parameter that this makes most of where the hypothesis is nearest: of
        a single parameter the p value is then that of `pvalues`.
        """
        if self.skewness is None:
            return larger
        covariance = self.required_covariance()
        off = rows @ theta - np.asarray(values, dtype=np.float64)
        away = -covariance @ rows.T @ np.linalg.solve(rows @ covariance @ rows.T, off)
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        most = 1.0
        for place in np.flatnonzero((errors > 0) & np.any(rows != 0, axis=0)):
            skewness = float(self.skewness[place, int(away[place] > 0)])
            size = abs(float(away[place])) / (float(errors[place]) * math.sqrt(larger))
            bias = float(self.bias_of(len(theta))[place]) / (float(errors[place]) * math.sqrt(of_curvature))
            if skewness > 0 and size > bias:
                left = bias + float(without_skewness(np.array([size - bias]), np.array([skewness]))[0])
                # Without any error left the p value is 1.
                most = max(most, size / max(left, 1e-9 * size))
        return larger * most**2

    def mapped(self, matrix: FloatArray) -> "Inference":
        """Return that of A theta: the covariance A V A', and bounds on the bias that hold whatever its signs are.

        Those are sums of the bounds of parameters, or what `bias_factors` say where that is less.

        Parameters
        ----------
        matrix : array of shape (r, q), float64
            A.
        """
        covariance = None if self.covariance is None else of_combinations(matrix, self.covariance)
        bias = self.bias
        if bias is not None:
            # A bound may be infinite, and is none of a parameter that does not take part.
            known = np.where(matrix != 0, bias, 0.0)
            bias = np.sum(np.abs(matrix) * known, axis=1)
        factors = self.bias_factors
        if factors is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                factors = matrix @ factors
                together = np.linalg.norm(factors, axis=2).min(axis=0)
            if bias is not None:
                # What cancels is known but for its rounding.
                bias = np.fmin(bias, together + _ROUNDING * bias)
        freedom = self.degrees_of_freedom
        if isinstance(freedom, np.ndarray):
            freedom = np.min(np.where(matrix != 0, freedom, math.inf), axis=1)
        curving = self.curving
        if curving is not None:
            takes_part = matrix != 0
            # One parameter by itself may change its sign; combinations are as uncertain as the worst that takes part.
            slopes = np.where(takes_part.sum(axis=1) == 1, np.sign(matrix) @ curving[:, 0], 0.0)
            bends = np.max(np.where(takes_part, curving[:, 1], 0.0), axis=1, initial=0.0)
            curving = np.stack([slopes, bends], axis=1)
        return replace(
            self, covariance=covariance, bias=bias, bias_factors=factors, degrees_of_freedom=freedom, curving=curving,
            levelling=_worst_sides(self.levelling, matrix), skewness=_worst_sides(self.skewness, matrix),
            intercepts=None if self.intercepts is None else np.any(matrix[:, self.intercepts] != 0, axis=1),
        )  # fmt: skip

    @property
    def has_bias(self) -> bool:
        """Whether a parameter may have bias."""
        return self.bias is not None and bool(np.any(self.bias > 0))

    def freedom(self, size: int) -> FloatArray:
        """Return the degrees of freedom of so many parameters, shape (size,): infinite for the normal distribution."""
        known = math.inf if self.degrees_of_freedom is None else self.degrees_of_freedom
        return np.array(np.broadcast_to(known, (size,)), dtype=np.float64)

    def _changes(self, size: int, sign: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return a and b of the variance 1 + a t + b t^2 of a score test t errors to one side, c, and the skewness.

        By c t^2 more it is as if the score did not level off. Each is of so many parameters, shape (size,).
        """
        curving = np.zeros((size, 2)) if self.curving is None else self.curving
        levels = np.zeros(size) if self.levelling is None else self.levelling[:, int(sign > 0)]
        skewness = np.zeros(size) if self.skewness is None else self.skewness[:, int(sign > 0)]
        return sign * curving[:, 0], curving[:, 1], levels, skewness

    def _changing(self, place: int, sign: int) -> tuple[float, float, float, float]:
        """Return the same of one parameter."""
        slope, bend, levels, skewness = (float(one[place]) for one in self._changes(place + 1, sign))
        return slope, bend, levels, skewness

    def bias_of(self, size: int) -> FloatArray:
        """Return the bounds on the bias of so many parameters, shape (size,)."""
        return np.zeros(size) if self.bias is None else self.bias


def _worst_sides(sides: FloatArray | None, matrix: FloatArray) -> FloatArray | None:
    """Return numbers below and above combinations of parameters, shape (r, 2), from those of each.

    One parameter by itself may change its sign; to both sides combinations have the largest of those that take part.
    """
    if sides is None:
        return None
    takes_part = matrix != 0
    worst = np.max(np.where(takes_part, sides.max(axis=1), 0.0), axis=1, initial=0.0)
    found = np.stack([worst, worst], axis=1)
    for place in np.flatnonzero(takes_part.sum(axis=1) == 1):
        (only,) = np.flatnonzero(takes_part[place])
        found[place] = sides[only, :: int(np.sign(matrix[place, only]))]
    return found
