"""Is a fit lost? One test for all solvers, after every fit, whatever was given.

Far out a corrected risk is made by a few records, and its minimum there by the noise. Three signs of it: a handful of
records carries the gradient; undoing the noise inflates gradients more than the records can pay for, or deflates them
to nothing; the curvature is within its own sampling error of zero.
"""

import functools
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._rows import parts_of
from symdebias.correction import Correction
from symdebias.exceptions import ConvergenceWarning, DivergenceError, VarianceWarning
from symdebias.records import LOOKED_AT, Records, size_by
from symdebias.solvers.curvature import least_curvature, score_error, uncertain_curvature
from symdebias.solvers.held import frame_of
from symdebias.solvers.metric import inverse_root, units_of
from symdebias.solvers.scores import REACH, ReleasedRecords, Whole
from symdebias.solvers.surrogate_curvature import ERRORS_OF_SHARE, ExcessCurvature
from symdebias.transforms.surrogate import affordable_frequency

# The fewest of the tested records that may carry the gradient.
_FEWEST_CARRIERS = 30
# Gradients of less than this share of the mean square of the uncorrected ones are those of a plain far out; from the
# second figure on a fit is warned of; and so many records are needed for each parameter, over the inflation.
_LEAST_INFLATION, MUCH_INFLATION, _NEEDED = 1e-3, 100.0, 20.0
# The mean gradient is this much smaller than at the start, or within so many of its own standard errors of zero; so
# many are warned of wherever training began. In between they are noise of the steps, or cost little beside other work.
_STANDSTILL, _CERTAIN, _FAR = 0.5, 5.0, 10.0
# Directions in which gradients vary by less than this share of the most are taken for rounding; and how many records
# for each parameter tell how they vary.
_LEAST_SPREAD, _FOR_EACH = 1e-12, 20
# The root mean square of what the bias of a surrogate may do to scores, relative to their spread.
_MOST_BIAS = 0.9
# Slow waves cannot follow a loss of unit width over true scores of more than the first figure, root mean square: fits
# are then farther off than they say. The slower the fastest wave (per unit of the score), the less bias is let pass.
_WIDE, _SLOW_WAVES, _MOST_BIAS_OF_SLOW_WAVES = 3.0, (1.0, 1.5, 1.9), (0.0, 0.15, _MOST_BIAS)
# The share of the curvature in a direction that may be the surrogate's own, the least that is to be the loss's, up to
# how many standard errors of the least curvature that is looked at, and how many parameters are named.
_MOST_OF_ITS_OWN, _LEAST_OF_THE_LOSS, _MADE_BY_NOISE, _NAMED = 0.5, 1 / 3, 10.0, 4
# By how much what a part of m records says of a surrogate is to stay clear of a limit, for all records to be spared;
# and a share of 3/m lies beyond all that it has in at most one of twenty draws.
_CLEARLY, _MISSED = 1.5, 3.0
# Numbers of a matrix that are made at a time: of a larger one every page is fetched from the system.
_NUMBERS = 2**14
# Gradients as a x + B'J: a, B and J.
Factors = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class Health:
    """What tells a lost fit."""

    # (sum ||g||)^2/(m sum ||g||^2) over m records: the share of them that carries the gradient; None where nothing was
    # corrected.
    carrying_share: float | None
    # The mean square of the corrected gradients over that of the uncorrected ones; None where there are none.
    inflation: float | None
    curvature: float | None  # The least curvature in its own standard errors; None where it was not asked for.
    signs: tuple[str, ...]  # What says that the fit is lost.

    def as_diagnostics(self) -> dict[str, float | None]:
        """Return what a fit reports of it."""
        return {
            "carrying_share": self.carrying_share,
            "noise_inflation": self.inflation,
            "curvature": self.curvature,
        }

    def refusal(self, theta: FloatArray, remedy: str) -> DivergenceError:
        """Return the error of a fit that is lost."""
        return DivergenceError(f"training was lost: {self._told(theta)} {remedy}")

    def refuse(self, theta: FloatArray, remedy: str) -> None:
        """Raise DivergenceError where the fit is lost."""
        if self.signs:
            raise self.refusal(theta, remedy)

    def warn(self, theta: FloatArray, remedy: str) -> None:
        """Warn where the fit is lost so far: with more records it may come back."""
        if self.signs:
            warnings.warn(
                f"so far training is lost: {self._told(theta)} Go on with more records before theta is used. {remedy}",
                ConvergenceWarning,
                stacklevel=8,
            )

    def _told(self, theta: FloatArray) -> str:
        return (
            f"at ||theta|| = {np.linalg.norm(theta):.4g} {'; '.join(self.signs)}. The noise is too large for so many "
            "records at a theta of this length."
        )


def examined(
    records: Records,
    theta: FloatArray,
    penalty: FloatArray,
    metric: FloatArray,
    *,
    hessian: FloatArray | None = None,
    with_curvature: bool = True,
    known: ReleasedRecords | None = None,
) -> Health:
    """Return the signs of a lost fit at theta.

    Gradients and curvatures are taken relative to `metric`, the second moments of released records, so that nothing
    here depends on units. `hessian` is the mean corrected one of all records, where it is known; the curvature is not
    looked at where a bound holds theta; `known` gives the bias of a surrogate.
    """
    return Examination(records, metric, known).of(theta, penalty, hessian=hessian, with_curvature=with_curvature)


@dataclass
class _DesignRows:
    """Design rows of records, and the squares of their norms relative to a metric once these are asked for."""

    matrix: Any  # The columns that they are made of.
    rows: FloatArray
    squares: FloatArray | None = None


@dataclass
class Examination:
    """The test of one theta or of many on the same records: what does not depend on theta is computed once.

    Attributes
    ----------
    records : Records
        What was trained on.
    metric : array of shape (Q, Q), float64
        The second moments of released records.
    known : ReleasedRecords or None
        As for `examined`.
    by_derivatives : bool
        Whether the pass of `Records.derivatives` is at hand; see `Records.gradients`.
    whole : Whole or None
        All records where `known` is of a part of them: they are asked where the part does not tell.
    """

    records: Records
    metric: FloatArray
    known: ReleasedRecords | None = None
    by_derivatives: bool = False
    whole: Whole | None = None
    _has_derivatives: bool = field(init=False, repr=False)
    _last: tuple[FloatArray, Factors | None] | None = field(default=None, repr=False)
    _last_whole: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False)
    _relatives: tuple[FloatArray, FloatArray, FloatArray] | None = field(default=None, repr=False)
    _rows: dict[Any, _DesignRows] = field(default_factory=dict, repr=False)
    _begun: dict[tuple[bytes, bytes], float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._has_derivatives = self.by_derivatives

    @functools.cached_property
    def _root(self) -> FloatArray:
        return inverse_root(self.metric)

    @functools.cached_property
    def _own(self) -> FloatArray:
        return self.records.tested.relative_weights

    @functools.cached_property
    def _uncorrected(self) -> Records | None:
        plain = self.records.correction.uncorrected
        return None if plain is None else self.records.tested.under(plain)

    def _factors(self, theta: FloatArray) -> Factors | None:
        """Return the gradients of the tested records in factors, where there are such; the last are kept."""
        if self._last is None or not np.array_equal(self._last[0], theta):
            found = self.records.tested.factored_gradients(theta, by_derivatives=self._has_derivatives)
            self._last = theta.copy(), found
        return self._last[1]

    def _gradients(self, theta: FloatArray) -> FloatArray:
        """Return the gradients of the tested records, unweighted, which have no factors; the last are kept."""
        if self._last_whole is None or not np.array_equal(self._last_whole[0], theta):
            found = self.records.tested.gradients(theta, slice(None), by_derivatives=self._has_derivatives)
            self._last_whole = theta.copy(), found
        return self._last_whole[1]

    def weighted_gradients(self, theta: FloatArray, penalty: FloatArray, part: slice) -> FloatArray:
        """Return the weighted gradients of a part of the tested records, with their penalty, shape (Q, m).

        What belongs to a parameter stands side by side.
        """
        factors, slope = self._factors(theta), penalty * theta
        if factors is None:
            found = (self._gradients(theta)[part] + slope).T
        else:
            slopes, bends, jacobian = factors
            columns = self._design_rows(self.records.tested)[part].T
            found = np.multiply(columns, slopes[part], out=np.empty(columns.shape))
            found += np.vstack([jacobian, slope]).T @ np.vstack([bends[:, part], np.ones(columns.shape[1])])
        if len(self.records.weights):
            found *= self._own[part, 0]
        return found

    def _meat(self, theta: FloatArray, penalty: FloatArray) -> FloatArray:
        """Return the mean outer product of the weighted gradients of the tested records, with their penalty."""
        meat = np.zeros((len(theta), len(theta)))
        for part in self._parts(theta):
            gradients = self.weighted_gradients(theta, penalty, part)
            meat += gradients @ gradients.T
        return meat / len(self.records.tested)

    def along(self, theta: FloatArray, penalty: FloatArray, directions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the mean square of the same gradients along some directions, shape (Q, d)."""
        sums, squares = np.zeros((2, directions.shape[1]))
        for part in self._parts(theta):
            found = directions.T @ self.weighted_gradients(theta, penalty, part)
            sums += found.sum(axis=1)
            squares += np.einsum("ij,ij->i", found, found)
        return sums / len(self.records.tested), squares / len(self.records.tested)

    def _parts(self, theta: FloatArray) -> Iterable[slice]:
        """Return parts of the tested records whose gradients take little room; all where gradients are kept whole."""
        if self._factors(theta) is None:
            return [slice(None)]
        rows = self._design_rows(self.records.tested)
        return parts_of(len(rows), rows.shape[1], _NUMBERS)

    def _spread(self, theta: FloatArray, penalty: FloatArray) -> FloatArray:
        """Return the covariance of the same gradients, by some of them."""
        apart = max(1, len(self.records.tested) // max(LOOKED_AT, _FOR_EACH * len(theta)))
        gradients = self.weighted_gradients(theta, penalty, slice(None, None, apart))
        gradients -= gradients.mean(axis=1, keepdims=True)
        return np.asarray(gradients @ gradients.T / gradients.shape[1])

    def _relative(self, records: Records, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the squared norms of gradients of records relative to the metric, unweighted, and their weighted mean.

        Where gradients are a x + B'J, so are they relative to it, and the lengths of x R are the same for all theta: no
        matrix of n x Q numbers is made for each.
        """
        is_tested = records is self.records.tested
        found = self._factors(theta) if is_tested else records.factored_gradients(theta)
        with np.errstate(all="ignore"):
            shares = records.shares
            if found is None:
                gradients = self._gradients(theta) if is_tested else records.plain_gradients(theta)
                relative = gradients @ self._root
                return np.einsum("ij,ij->i", relative, relative), shares @ relative
            slopes, bends, jacobian = found
            rows, squares = self._design_rows(records), self._lengths(records)
            bent = jacobian @ self._root
            norms, mean = slopes**2 * squares, (shares * slopes) @ rows @ self._root
            if len(bends):
                crossed, squared = 2 * bent @ self._root.T, bent @ bent.T
                for part in parts_of(len(rows), len(bends), _NUMBERS):
                    along = crossed @ rows[part].T
                    along *= slopes[part]
                    along += squared @ bends[:, part]
                    along *= bends[:, part]
                    norms[part] += along.sum(axis=0)
                mean = mean + bends @ shares @ bent
            return norms, mean

    def _design_rows(self, records: Records) -> FloatArray:
        """Return the design rows of records."""
        return self._rows_of(records).rows

    def _lengths(self, records: Records) -> FloatArray:
        """Return the squares of the norms of the design rows of records relative to the metric."""
        found = self._rows_of(records)
        if found.squares is None:
            rows = found.rows
            found.squares = np.empty(len(rows))
            for part in parts_of(len(rows), rows.shape[1], _NUMBERS):
                relative = self._root.T @ rows[part].T
                np.add.reduce(np.square(relative, out=relative), axis=0, out=found.squares[part])
        return found.squares

    def _rows_of(self, records: Records) -> _DesignRows:
        """Return the design rows of records: mostly those of uncorrected gradients are the same."""
        matrix, columns = records.encoded[0], records.correction.program.columns
        asked = columns.linear, columns.parameters, columns.intercept
        if asked not in self._rows or self._rows[asked].matrix is not matrix:
            self._rows[asked] = _DesignRows(matrix, records.design_rows())
        return self._rows[asked]

    def _tested(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same of the tested records; the last are kept."""
        if self._relatives is None or not np.array_equal(self._relatives[0], theta):
            self._relatives = (theta.copy(), *self._relative(self.records.tested, theta))
        return self._relatives[1:]

    def _squares(self, norms: FloatArray) -> FloatArray:
        """Return squared norms of weighted gradients."""
        return self._own[:, 0] ** 2 * norms if len(self.records.weights) else norms

    def of(
        self,
        theta: FloatArray,
        penalty: FloatArray,
        *,
        hessian: FloatArray | None = None,
        with_curvature: bool = True,
    ) -> Health:
        """Return the signs of a lost fit at theta; see `examined`."""
        records, metric, known = self.records, self.metric, self.known
        correction = records.correction
        if not correction.method.corrects:
            return Health(None, None, None, ())
        signs: list[str] = []
        tested = len(records.tested)
        self._has_derivatives = self.by_derivatives or hessian is not None
        norms, _ = self._tested(theta)
        share, size = _carrying_share(self._squares(norms), theta)
        count = len(frame_of(records).reported(theta))
        # Without noise a few records may well be all that there is to fit.
        if records.is_noised and tested >= 10 * _FEWEST_CARRIERS and share * tested < _FEWEST_CARRIERS:
            signs.append(
                f"{share * tested:.2g} of {tested:,} records carry the whole corrected gradient, and at least "
                f"{_FEWEST_CARRIERS} must"
            )
        inflation = self._inflation(theta, size)
        if inflation is not None:
            if inflation < _LEAST_INFLATION:
                signs.append(f"corrected gradients have {inflation:.2g} times the mean square of uncorrected ones")
            elif inflation > MUCH_INFLATION and inflation > records.effective / (_NEEDED * count):
                signs.append(
                    f"undoing the noise makes the gradients' mean square {inflation:.3g} times that of the uncorrected "
                    "loss"
                )
        curvature = None
        if with_curvature:
            curvature, found = least_curvature(
                records, theta, penalty, metric, hessian, by_derivatives=self.by_derivatives
            )
            if curvature is not None:
                uncertainty = math.inf
                # An exact correction is held to the same curvature, however certain theta is.
                if not correction.is_exact:
                    meat = self._meat(theta, penalty)
                    error = score_error(found + np.diag(penalty), meat, float(records.present), metric)
                    length = size_by(metric, theta) if known is None else known.extent(theta)
                    uncertainty = error / length if length > 0 else math.inf
                signs += uncertain_curvature(correction, curvature, uncertainty)
                if known is not None and correction.surrogates is not None and not signs:
                    signs += self._large_bias(known, theta, found + np.diag(penalty))
                    signs += [] if signs else _own_curvature(records, known, theta, found, penalty, curvature)
        return Health(share, inflation, curvature, tuple(signs))

    def _large_bias(self, known: ReleasedRecords, theta: FloatArray, hessian: FloatArray) -> list[str]:
        """Return the sign of being lost of a surrogate that may move scores by much, if it does."""
        correction = self.records.correction
        if self.whole is not None:
            is_clear = not _large_bias(correction, known, theta, hessian, is_part=True)
            if is_clear and (known.zonal is not None or self.whole.is_within(theta, REACH * known.farthest(theta))):
                return []
            known = self.whole.known or known
        return _large_bias(correction, known, theta, hessian)

    def unarrived(self, start: FloatArray | None, theta: FloatArray, penalty: FloatArray) -> tuple[str | None, bool]:
        """Return what is to be said where training has not arrived at the minimum, and whether it is to be warned of.

        Parameters
        ----------
        start, theta : array of shape (Q,), float64
            Where training began and ended. Where it went on from earlier records the start is None: at the minimum it
            need not leave that.
        penalty : array of shape (Q,), float64
            l2 for each.

        Notes
        -----
        The gradient is as many standard errors from zero as theta is from the minimum, along the direction in which
        these are most. Of many records those that a fit is tested on tell, whose standard errors are the larger ones.
        """
        tested = self.records.tested
        _, mean = self._tested(theta)
        gradient = mean + (penalty * theta) @ self._root
        away = _errors_from_zero(gradient, self._root.T @ self._spread(theta, penalty) @ self._root, len(tested))
        said = None if start is None else self.standstill(start, theta, penalty)
        if said is not None or away <= _CERTAIN:
            return said, said is not None
        if start is None:
            remedy = "More records may bring it there, or a first block of some thousands, of which steps are learned"
        else:
            remedy = "Use more epochs, steps that fit (the default learns them), or m_estimate"
        return (
            f"training has not arrived: theta is about {away:.2g} standard errors of a fit to {len(tested):,} records "
            f"from the minimum. {remedy}."
        ), away > _FAR

    def standstill(self, start: FloatArray, theta: FloatArray, penalty: FloatArray) -> str | None:
        """Return what is to be said where the mean gradient is not much smaller than at the start, and is no noise.

        Parameters are those of `unarrived`.
        """
        tested, root = self.records.tested, self._root
        norms, mean = self._tested(theta)
        after = float(np.linalg.norm(mean + (penalty * theta) @ root))
        spread = float(self._squares(norms).sum()) - len(norms) * float(mean @ mean)
        noise = math.sqrt(max(spread, 0.0)) / len(norms)
        key = start.tobytes(), (penalty * start).tobytes()
        if key not in self._begun:
            if self._has_derivatives and tested.has_slopes:
                _, first = self._relative(tested, start)
            else:
                first = tested.mean_gradient(start) @ root
            self._begun[key] = float(np.linalg.norm(first + (penalty * start) @ root))
        before = self._begun[key]
        if not (after > _STANDSTILL * before and after > _CERTAIN * noise):
            return None
        times_before, times_noise = (after / size if size > 0 else math.inf for size in (before, noise))
        return (
            f"training has hardly left its start: the mean gradient is {times_before:.2g} times that at the start, "
            f"and {times_noise:.2g} times its own sampling error. Use a larger step_size (the default learns), or "
            "more epochs."
        )

    def _inflation(self, theta: FloatArray, size: float) -> float | None:
        """Return the ratio of the mean squares of the corrected and the uncorrected gradients on released records."""
        uncorrected = self._uncorrected
        if uncorrected is None:
            return None
        with np.errstate(all="ignore"):
            norms, _ = self._relative(uncorrected, theta)
            before = float(self._squares(norms).mean())
        if not (before > 0 and math.isfinite(size / before)):
            return None
        return size / before


def _errors_from_zero(mean: FloatArray, covariance: FloatArray, count: int) -> float:
    """Return how many standard errors the mean of vectors is from zero, beyond chance, where it is the farthest.

    It is the root of Hotelling's statistic of so many vectors of a covariance, less what it is by chance, the number of
    directions in which they vary.
    """
    sizes, directions = np.linalg.eigh(covariance)
    vary = sizes > _LEAST_SPREAD * sizes.max(initial=0.0)
    statistic = count * float(np.sum((mean @ directions[:, vary]) ** 2 / sizes[vary]))
    return math.sqrt(max(statistic - np.count_nonzero(vary), 0.0))


def _large_bias(
    correction: Correction, known: ReleasedRecords, theta: FloatArray, hessian: FloatArray, *, is_part: bool = False
) -> list[str]:
    """Return the sign of being lost of a surrogate that may move scores by much of their spread, if it does.

    Of a part of the records it is also there where it is not clear that all of them have none: within a factor of the
    limits, or where as many scores as the part may have missed, farther out than its own, would make it.
    """
    factor, missed = (_CLEARLY, _MISSED / known.records) if is_part else (1.0, 0.0)
    try:
        # The limits are of usual sizes.
        factor_of_bias = known.bias_factor(correction, theta, hessian, missed=missed, of_one_target=True)
    except np.linalg.LinAlgError:
        return ["the curvature of the mean corrected loss is lost to rounding"]
    squared = float(np.linalg.eigvalsh(factor_of_bias.T @ known.metric @ factor_of_bias)[-1])
    largest = math.sqrt(max(squared, 0.0))
    spread = known.spread(theta)
    variances = known.variances(theta)
    variance = float(variances.mean())
    unit = known.unit(theta)
    fastest = affordable_frequency(variances / unit**2, known.records) / unit
    most = _MOST_BIAS
    # Over a few units a quadratic and slow waves will do. Residuals are wider than their loss by design, and the bound
    # on the bias holds for them.
    if not known.parts.is_residual and factor * known.mean_square(theta) > _WIDE**2:
        most = float(np.interp(fastest, _SLOW_WAVES, _MOST_BIAS_OF_SLOW_WAVES))
    if factor * largest <= most * spread:
        return []
    return [
        f"the surrogate may move scores by {largest:.3g}, where they spread by {spread:.3g}: noise of the variance "
        f"{variance:.3g} in the score leaves waves of at most {fastest:.3g} per unit, which are not close "
        "enough to the loss"
    ]


def _own_curvature(
    records: Records, known: ReleasedRecords, theta: FloatArray, unpenalised: FloatArray, penalty: FloatArray,
    curvature: float,
) -> list[str]:  # fmt: skip
    """Return the sign of being lost of a minimum that the loss does not have: of a surrogate's waves, or of the noise.

    The least curvature, in its own standard errors, says whether the noise could have made it.
    """
    correction, hessian = records.correction, unpenalised + np.diag(penalty)
    if known.zonal is not None or known.parts.is_residual:
        # On a sphere scores are bounded, and a residual loss does not part records.
        return []
    try:
        excess = ExcessCurvature.of(known, correction, theta, frame_of(records))
        may_be_much = excess.most(hessian) > _MOST_OF_ITS_OWN
        if may_be_much:
            share, error, direction = excess.share(hessian)
            if share - ERRORS_OF_SHARE * error > _MOST_OF_ITS_OWN:
                return [
                    f"{min(share, 1.0):.0%} of the curvature in {_taking_part(correction, known, direction)} is the "
                    "surrogate's own, and the loss itself is level there, as where a category has one label alone"
                ]
        is_of_noise = curvature < _MADE_BY_NOISE
        if is_of_noise or may_be_much:
            share, error, direction = excess.of_the_loss(hessian, penalty)
            if share + ERRORS_OF_SHARE * error < (_LEAST_OF_THE_LOSS if is_of_noise else 1 - _MOST_OF_ITS_OWN):
                of_what = f"{min(1 - share, 1.0):.0%} of the curvature in {_taking_part(correction, known, direction)}"
                if is_of_noise:
                    return [
                        f"{of_what} is that of the noise, and the loss itself is level there, as where a category has "
                        "one label alone"
                    ]
                # A sampling error hides of a few records what they do to this fit.
                return [
                    f"{of_what} is the surrogate's own in few records far from the rest, where the loss itself is "
                    "level; bound or leave out columns with few large values"
                ]
    except np.linalg.LinAlgError:
        return ["the curvature of the mean corrected loss is lost to rounding"]
    return []


def _taking_part(correction: Correction, known: ReleasedRecords, direction: FloatArray) -> str:
    """Return the names of the parameters that a direction is mostly one of."""
    sizes = np.abs(direction) / units_of(known.metric)
    names = correction.design.parameters
    return ", ".join([names[place] for place in np.argsort(-sizes) if sizes[place] > sizes.max() / 3][:_NAMED])


def inflation_said(inflation: float | None) -> str | None:
    """Return what is to be said where a hundred times as many records would be needed as without the noise."""
    if inflation is None or inflation < MUCH_INFLATION:
        return None
    return (
        f"undoing the noise makes the gradients' mean square {inflation:.3g} times that of the uncorrected loss: "
        f"the fit knows about as much as from 1/{inflation:.3g} of its records. Release with less noise, noise "
        "fewer columns, or use a loss of lower degree or slower growth."
    )


def warn_of_inflation(inflation: float | None, *, stacklevel: int = 3) -> None:
    """Warn where a hundred times as many records would be needed as without the noise."""
    said = inflation_said(inflation)
    if said is not None:
        warnings.warn(said, VarianceWarning, stacklevel=stacklevel)


def _carrying_share(squares: FloatArray, theta: FloatArray) -> tuple[float, float]:
    """Return the share of records that carry the gradient, and the mean of the squared norms of their gradients.

    The share is 1 where all weigh the same, 1/m where one record is all of the gradient. For a corrected loss that
    grows like e^{u}, whose terms are lognormal, it is about e^{-s}.
    """
    with np.errstate(all="ignore"):
        # Rounding alone may leave a little less than 0.
        norms = np.sqrt(np.maximum(squares, 0.0))
        largest = norms.max()
        if largest > 0:
            relative = norms / largest
            share = float(relative.sum() ** 2 / (len(norms) * (relative @ relative)))
        else:
            # At theta = 0 a gradient may vanish; elsewhere all of them do where e^{-s/2} has underflowed.
            share = 0.0 if theta.any() else 1.0
        size = float(np.mean(squares))
    # Values that are not finite carry everything.
    return (share if math.isfinite(share) else 0.0), size
