"""A corrected loss: symbolic, compiled and certified."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from symdebias import certification, forward
from symdebias._arrays import check_same_index, label_array, parameter_array, per_record_scales, weights_array
from symdebias.bounds.enclosures import Enclosed, enclosed
from symdebias.bounds.tight import tight_derivative
from symdebias.codegen import stable
from symdebias.codegen.kernels import Kernels
from symdebias.codegen.numeric import numeric
from symdebias.codegen.parallel import summed
from symdebias.codegen.score.configurations import Configurations
from symdebias.codegen.score.constants import LabelTable
from symdebias.codegen.score.factors import ColumnProduct
from symdebias.codegen.score.normal import RecordNoise
from symdebias.codegen.score.program import ScoreProgram
from symdebias.derivation import Derivation, SurrogateParts, derive, hidden_score, noise_limit, surrogate_parts
from symdebias.derivation.configurations import released_covariance
from symdebias.exceptions import InfiniteVarianceError, NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, ChannelNoise, exactly
from symdebias.release import Release
from symdebias.tradeoff import Tradeoff, tradeoff
from symdebias.transforms.certificate import (
    Certificate,
    ScoreProblem,
    TargetNoise,
    default_targets,
    score_biases,
)
from symdebias.transforms.surrogate import Design

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Nodes of a rule for the mean of a surrogate, whose waves are slow against it.
_NODES_FOR_WAVES = 768


def columns_to_show(loss: Loss, release: Release) -> int:
    """Return the number of columns of X, or two noised ones where the release does not know it yet."""
    if not loss.scores:
        return len(loss.features)
    known = release.number_of_columns
    return len(release.noiseless) + 2 if known is None else known


@dataclass(frozen=True)
class Derivatives:
    """Mean loss and derivatives at one theta.

    Attributes
    ----------
    loss : float
        The mean loss.
    gradient : array of shape (Q,), float64
        The mean gradient.
    hessian : array of shape (Q, Q), float64
        The mean Hessian.
    meat : array of shape (Q, Q) or (0, 0), float64
        The sum of outer products of the weighted gradients, over the sum of the weights.
    """

    loss: float
    gradient: FloatArray
    hessian: FloatArray
    meat: FloatArray


class CorrectedLoss:
    """A loss corrected for the noise of a release; made by `debias`.

    Attributes
    ----------
    declared : Loss
        The loss as declared.
    release : Release
        The noise that it is corrected for.
    method : str
        How it was corrected: ``"exact"``, ``"surrogate"``, ``"quadrature"``, ``"series"`` or ``"none"``.
    order : int or None
        The order of ``"series"``.
    nodes : int or None
        The number of nodes of ``"quadrature"``.
    design : symdebias.transforms.surrogate.Design or None
        The surrogates, with the range, noise level and sample size that they were designed for.
    reason : str
        Why this method.
    is_exact : bool
        Whether the derivation proves the correction exact: of the gradient, and of the loss up to `loss_offset`.
    loss_offset : float
        By how much the mean of the corrected loss is off at most by a part of the loss of the target alone, which a
        channel hides and no parameter changes: it moves neither gradients nor differences between parameters.
    notes : tuple of str
        What to know of the correction: that a target needed none, that a linear score was recognised.
    """

    def __init__(
        self,
        declared: Loss,
        release: Release,
        method: str,
        *,
        order: int | None = None,
        nodes: int | None = None,
        design: Design | None = None,
        reason: str = "",
    ) -> None:
        self.declared = declared
        self.release = release
        self.method = method
        self.order = order
        self.nodes = nodes
        self.design = design
        self.reason = reason
        self._derivations: dict[tuple[int, bool, bool], Derivation] = {}
        self._kernels: dict[tuple[int, bool, bool], Kernels] = {}
        shown = self._shown
        self.is_exact = shown.exact
        self.loss_offset = 0.0 if shown.offsets is None else float(np.abs(shown.offsets).max())
        self.notes = shown.notes
        noise = release.target_noise if method != "none" else None
        self._target_variance = noise.variance if isinstance(noise, AdditiveNoise) else 0.0

    def __repr__(self) -> str:
        if self.method == "surrogate" and self.label_mixing is None:
            return f"<CorrectedLoss {self.declared.expression}, method='surrogate', {self._settings}>"
        order = "" if self.order is None else f", order={self.order}"
        return f"<CorrectedLoss {self.expression}, method={self.method!r}{order}>"

    @property
    def _settings(self) -> str:
        if self.design is None:
            return "unresolved"
        return f"radius={self.design.radius:.4g}, score_variance={self.score_level:.4g}, n={self.design.records:.4g}"

    # ---- copies ------------------------------------------------------------------------------------------

    def __copy__(self) -> "CorrectedLoss":
        return self  # nothing of it changes

    def __deepcopy__(self, memo: Any) -> "CorrectedLoss":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what determines it; expressions and kernels are made again where it is read."""
        return _rebuilt, (
            self.declared, self.release, self.method, self.order, self.nodes, self.design, self.reason,
        )  # fmt: skip

    # ---- surrogates --------------------------------------------------------------------------------------

    @property
    def is_resolved(self) -> bool:
        """Whether it can be evaluated: a surrogate needs a range, a noise level and a sample size."""
        return self.method != "surrogate" or self.design is not None or self.label_mixing is not None

    @property
    def label_mixing(self) -> FloatArray | None:
        """The labels whose losses the mean of the corrected loss is made of, by label, where a channel hides the loss.

        Entry [i, a] is the share of the loss at the a-th declared target value in the mean at the i-th.
        """
        return self._shown.mixing

    @functools.cached_property
    def surrogate_parts(self) -> SurrogateParts:
        """The parts of the loss that surrogates stand for.

        Raises
        ------
        NoExactCorrectionError
            The loss has none: it is no function of one score or residual.
        """
        return surrogate_parts(self.declared, self.release)

    @property
    def score_level(self) -> float:
        """The noise variance of the score that the surrogates were designed for; that of the target comes on top."""
        assert self.design is not None
        noise = self.surrogate_parts.target_noise
        return self.design.score_variance - (0.0 if noise is None else noise.variance)

    def resolve(self, *, radius: float, score_variance: float, n: float) -> "CorrectedLoss":
        """Return the surrogate designed for a range, a noise level and a sample size.

        Parameters
        ----------
        radius : float
            Bound on the score (the residual, for a residual loss), positive.
        score_variance : float
            The noise variance of the score, non-negative.
        n : float
            The number of records, at least 1.

        Raises
        ------
        ValueError
            The method is not ``"surrogate"``.

        Examples
        --------
        >>> import symdebias as sd
        >>> release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5))
        >>> unresolved = sd.debias(sd.losses.logistic(), release)
        >>> unresolved.is_resolved, unresolved.resolve(radius=3.0, score_variance=1.0, n=1e5).is_resolved
        (False, True)
        """
        if self.method != "surrogate":
            raise ValueError(f"method={self.method!r} needs no radius, score variance and n; use it as it is.")
        if self.label_mixing is not None:
            raise ValueError("the nearest loss in the range of a channel needs no radius, score variance and n.")
        found = self.surrogate_parts.design(radius=radius, score_variance=score_variance, records=n)
        return self.with_design(found)

    def with_design(self, design: Design) -> "CorrectedLoss":
        """Return the surrogate with the given numbers in place of its own."""
        return CorrectedLoss(self.declared, self.release, "surrogate", design=design, reason=self.reason)

    def require_resolved(self) -> None:
        """Raise ValueError where a surrogate has no design yet."""
        if not self.is_resolved:
            raise ValueError(
                "this surrogate is not resolved: it needs a range of scores, their noise variance and a sample size. "
                "Train with a solver, which finds them by a pilot estimate and returns fit.corrected, or call "
                "corrected.resolve(radius=, score_variance=, n=)."
            )

    def tradeoff(
        self,
        *,
        radius: float | None = None,
        score_variance: float | None = None,
        n: float | None = None,
        orders: Sequence[int] = (0, 1, 2, 3),
    ) -> Tradeoff:
        """Return bias against variance: of surrogates for a range of sample sizes, of a quadratic, and of series.

        Parameters
        ----------
        radius, score_variance, n : float, optional
            As for `resolve`; needed where the loss is not a resolved surrogate.
        orders : sequence of int
            The orders of the series to compare with; 0 corrects nothing. A loss with a kink has no series.

        Returns
        -------
        Tradeoff
            A row for each choice, with the best by bias or by mean squared error. The noise of the score is taken as
            normal.

        Raises
        ------
        NoExactCorrectionError
            The loss is no function of one score or residual.

        Examples
        --------
        >>> import symdebias as sd
        >>> release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5))
        >>> curve = sd.debias(sd.losses.logistic(), release).tradeoff(radius=5.0, score_variance=4.0, n=100_000)
        >>> curve.best("series", by="bias").order, curve.best(by="error").method
        (3, 'surrogate')
        """
        if self.design is not None:
            radius = self.design.radius if radius is None else radius
            score_variance = self.score_level if score_variance is None else score_variance
            n = self.design.records if n is None else n
        if radius is None or score_variance is None or n is None:
            raise ValueError("a trade-off is one for radius, score_variance and n. Give all three.")
        return tradeoff(
            self.surrogate_parts, self.declared, self.release,
            radius=radius, score_variance=score_variance, records=n, orders=orders,
        )  # fmt: skip

    # ---- the symbolic side -------------------------------------------------------------------------------

    def derivation(self, columns: int, *, per_record: bool = False, enumerate_categories: bool = False) -> Derivation:
        """Return the derivation for a number of columns of X.

        Parameters
        ----------
        columns : int
            The number of columns of X.
        per_record : bool
            Whether records have noise scales of their own.
        enumerate_categories : bool
            Whether to sum over categories where factors could be looked up, as the Hessian needs.
        """
        key = (columns, per_record, enumerate_categories)
        if key not in self._derivations:
            self._derivations[key] = derive(
                self.declared,
                self.release,
                method=self.method,
                order=self.order,
                nodes=self.nodes,
                waves=12 if self.design is None else self.design.waves,
                design=self.design,
                columns=columns,
                per_record=per_record,
                enumerate_categories=enumerate_categories,
            )
        return self._derivations[key]

    @property
    def _shown(self) -> Derivation:
        """The derivation to show: for two noised columns where the release does not know their number."""
        return self.derivation(columns_to_show(self.declared, self.release))

    @functools.cached_property
    def expression(self) -> sp.Expr:
        """The corrected loss: of the scores, the noised target, and the noise.

        ``s`` is theta'D theta, ``t`` the noise variance of the target and ``c`` the gain of the label estimate
        (coth(epsilon/2) for randomized response); ``e_k`` is the k-th elementary symmetric polynomial of
        (b_j theta_j)^2 of columns with Laplace noise, ``q`` a product of factors of columns, ``k`` a factor looked up
        by a category and ``n`` a weight looked up by a label. For a free-form loss ``D_x`` is the noise variance of x.
        """
        return self._with_numbers(stable.plain(self._shown.program.expression))

    def _with_numbers(self, expression: sp.Expr) -> sp.Expr:
        """Put the coefficients of resolved surrogates in the places of their symbols."""
        if self.design is None:
            return expression
        names = self._shown.program.coefficients  # type: ignore[union-attr]
        values = self._shown.constants["coefficients"]
        return expression.xreplace({name: sp.Float(value, 17) for name, value in zip(names, values, strict=True)})

    @functools.cached_property
    def gradient_expressions(self) -> tuple[sp.Expr, ...]:
        """The gradient: (slope, curvature) of a score loss, or one derivative per parameter of a free-form one.

        The gradient of a loss of one score under normal noise is x~ slope - D theta curvature. In general the
        derivatives by the scores come first, then those by the statistics of the noise in the loss.
        """
        program = self._shown.program
        if not isinstance(program, ScoreProgram):
            return tuple(stable.plain(part) for part in program.gradient)
        parts = (*program.slopes, *program.noise_slopes)
        if self._is_simple:
            parts = (program.slopes[0], -2 * sp.diff(program.expression, self._shown.symbols.score_variance))
        return tuple(self._with_numbers(stable.plain(part)) for part in parts)

    @property
    def _is_simple(self) -> bool:
        """Whether it is a loss of one score under normal noise alone."""
        program = self._shown.program
        return (
            isinstance(program, ScoreProgram)
            and bool(self.declared.scores)
            and len(program.scores) == 1
            and not program.has_lookups
            and not any(isinstance(one, (ColumnProduct, Configurations, LabelTable)) for one in program.statistics)
            # An uncorrected loss has no factors of other noise in it.
            and all(
                isinstance(noise, AdditiveNoise) and noise.is_gaussian
                for _, noise in self.release.noises(columns_to_show(self.declared, self.release))
            )
            and (
                self.release.clips_target
                or not isinstance(target := self.release.target_noise, AdditiveNoise)
                or target.is_gaussian
            )
        )

    @property
    def conditions(self) -> tuple[sp.Rel, ...]:
        """What must hold for the correction to exist, as relations of ``s``, ``t`` and ``r``.

        ``r`` is the largest abs(theta_j) b_j over columns with Laplace noise, or 1/(tail rate) for b_j.
        """
        return self._shown.conditions

    def to_latex(self) -> str:
        """Return the corrected loss as LaTeX.

        Returns
        -------
        str
            The formula, without dollar signs.
        """
        return str(sp.latex(self.expression))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the entries of theta: the columns, one-hot expanded, with the intercept last; or the free-form ones.

        Raises
        ------
        ValueError
            The release has no column names yet; `Release.privatize` and `Release.bind` give them.
        """
        if not self.declared.scores:
            return tuple(symbol.name for symbol in self.declared.parameters)
        if self.release.columns is None:
            raise ValueError("the release does not name its columns yet. Use noised.release, or release.bind(names).")
        return self.release.design(len(self.release.columns)).parameters

    @property
    def source(self) -> str:
        """The generated source of the training kernel, for two columns where the number is not known."""
        return self.kernels(columns_to_show(self.declared, self.release)).source("sgd_pass").text

    # ---- limits ------------------------------------------------------------------------------------------

    @functools.cached_property
    def variance_limit(self) -> float:
        """The correction exists for a normal noise variance of the score below this."""
        return self._variance_limit(self._shown.conditions)

    @functools.cached_property
    def finite_variance_limit(self) -> float:
        """It has finite variance for a normal noise variance of the score below this."""
        return min(self.variance_limit, self._variance_limit(self._shown.variance_conditions))

    def _variance_limit(self, conditions: tuple[sp.Rel, ...]) -> float:
        if not isinstance(self._shown.program, ScoreProgram) or len(self._shown.program.scores) > 1:
            return math.inf
        return noise_limit(conditions, self._shown.symbols, self._target_variance)

    @property
    def reach_limit(self) -> float:
        """The correction exists where abs(theta_j) times the tail scale of column j is below this for all j.

        The tail scale is b for Laplace noise. Variances are finite below half of it.
        """
        return 1 / self._shown.rate if self._shown.rate > 0 else math.inf

    def limits(self, *, finite_variance: bool) -> FloatArray:
        """Return the limits that kernels hold what they compute of theta against.

        Parameters
        ----------
        finite_variance : bool
            Whether the variance must be finite besides.
        """
        if not isinstance(self._shown.program, ScoreProgram):
            return np.array([0.5 if finite_variance else 1.5, math.inf])
        if finite_variance:
            return np.array([self.finite_variance_limit, self.reach_limit / 2])
        return np.array([self.variance_limit, self.reach_limit])

    def require_noise_within_limits(
        self, theta: FloatArray, columns: int, *, finite_variance: bool, at: str = "at this theta"
    ) -> None:
        """Raise where the correction, or its variance, does not exist at theta.

        Parameters
        ----------
        theta : array of shape (q,), float64
            The parameters, scores after one another.
        columns : int
            The number of columns of X.
        finite_variance : bool
            Whether the variance must be finite besides.
        at : str
            Where, for the message.

        Raises
        ------
        NoExactCorrectionError, InfiniteVarianceError
            It does not.
        """
        program = self.derivation(columns).program
        if not isinstance(program, ScoreProgram):
            self._require_conditions(theta, at, finite_variance=finite_variance)
            return
        variance, reach = self.normal_score_variance(theta), self.score_reach(theta)
        for value, what, limit, finite in (
            (
                variance,
                "the variance of the normal noise of the score",
                self.variance_limit,
                self.finite_variance_limit,
            ),
            (reach, "the largest parameter times the tail scale of its noise", self.reach_limit, self.reach_limit / 2),
        ):
            if not value < limit:
                raise NoExactCorrectionError(
                    f"{at} {what} is {value:.4g}, and the correction of {self.declared.expression} exists below "
                    f"{limit:.4g} only. Keep theta in a smaller ball, or release with less noise."
                )
            if finite_variance and not value < finite:
                raise InfiniteVarianceError(
                    f"{at} {what} is {value:.4g}, and from {finite:.4g} on the corrected loss has infinite variance. "
                    "Keep theta in a smaller ball, or release with less noise."
                )

    def _require_conditions(self, theta: FloatArray, at: str, *, finite_variance: bool) -> None:
        for condition, error in self.broken_conditions(theta):
            if error is NoExactCorrectionError:
                raise error(
                    f"{at} the correction of {self.declared.expression} does not exist: it needs {condition}. Keep "
                    "theta in a smaller ball, or release with less noise."
                )
            if finite_variance:
                raise error(
                    f"{at} the corrected loss has infinite variance: a finite one needs {condition}. Keep theta in a "
                    "smaller ball, or release with less noise."
                )

    def broken_conditions(self, theta: FloatArray) -> list[tuple[sp.Rel, type[Exception]]]:
        """Return the conditions of a free-form loss that theta breaks, with the error that each means."""
        derivation = self._shown
        program = derivation.program
        assert not isinstance(program, ScoreProgram)
        known = dict(zip(program.parameters, map(sp.Float, theta), strict=True))
        known |= dict(zip(program.constants, map(sp.Float, derivation.constants["constants"]), strict=True))
        known[derivation.symbols.target_variance] = sp.Float(self._target_variance)
        return [
            (condition, error)
            for conditions, error in (
                (derivation.conditions, NoExactCorrectionError),
                (derivation.variance_conditions, InfiniteVarianceError),
            )
            for condition in conditions
            if not condition.xreplace(known) == sp.true
        ]

    # ---- the numeric side --------------------------------------------------------------------------------

    def kernels(self, columns: int, *, per_record: bool = False, enumerate_categories: bool = False) -> Kernels:
        """Return the compiled kernels for a number of columns of X.

        Parameters
        ----------
        columns : int
            The number of columns of X.
        per_record, enumerate_categories : bool
            As for `derivation`.
        """
        key = (columns, per_record, enumerate_categories)
        if key not in self._kernels:
            program = self.derivation(columns, per_record=per_record, enumerate_categories=enumerate_categories).program
            self._kernels[key] = Kernels(program)
        return self._kernels[key]

    def number_of_parameters(self, columns: int) -> int:
        """Return the number of entries of theta for a number of columns of X, all scores together."""
        return self.derivation(columns).program.number_of_parameters

    def number_of_columns(self, X: Any) -> int:
        """Return the number of columns of X: the release's, or where it does not know it that of an array or table."""
        if not self.declared.scores or self.release.columns is not None:
            return columns_to_show(self.declared, self.release)
        return int(self.release.design_matrix(X, check_finite=False).shape[1])

    def shaped(self, vector: FloatArray) -> FloatArray:
        """Return parameters in the user's shape: (q,), or (K, q) for K scores."""
        count = len(self.declared.scores)
        return vector.reshape(count, -1) if count > 1 else vector

    def penalty(self, l2: float, columns: int) -> FloatArray:
        """Return l2 for each of the flat parameters, scores after one another, and 0 for intercepts."""
        weights = np.full(self.number_of_parameters(columns), l2)
        if self.release.fit_intercept:
            self.shaped(weights)[..., -1] = 0.0
        return weights

    def noise_vector(self, columns: int, *, per_record: bool = False, enumerate_categories: bool = False) -> FloatArray:
        """Return what kernels are told of the noise; `program.layout` says what stands where.

        Parameters
        ----------
        columns : int
            The number of columns of X.
        per_record, enumerate_categories : bool
            As for `derivation`.
        """
        derivation = self.derivation(columns, per_record=per_record, enumerate_categories=enumerate_categories)
        return derivation.program.layout.vector(derivation.constants)

    def score_variance(self, theta: ArrayLike, *, noise_scale: Any = None) -> float:
        """Return the noise variance of the score at theta, over the noise of all columns; the largest of several.

        Categories count with the variance of the estimate that undoes their channel (of the released category with
        ``method="none"``), its mean over the true category, each as likely.

        Parameters
        ----------
        theta : array of shape (q,) or (K, q)
            The parameters, intercept last.
        noise_scale : array of shape (n,) or (n, p), optional
            Standard deviations of the records' own noise; the variance is then the mean over these records.

        Raises
        ------
        ValueError
            The loss is free-form: it has no score.
        NoExactCorrectionError
            Categories cannot be told apart, and nothing estimates the score.

        Examples
        --------
        >>> import symdebias as sd
        >>> release = sd.Release(features=sd.LaplaceMechanism.from_scale(2.0), fit_intercept=True)
        >>> sd.debias(sd.losses.least_squares(), release).score_variance([0.5, 0.0, 3.0])
        2.0
        """
        if not self.declared.scores:
            raise ValueError(
                f"the loss {self.declared.expression} is free-form and has no score, whose noise could be told. "
                "Declare it in its score."
            )
        columns = self._columns_of(theta)
        rows = len(np.asarray(noise_scale)) if noise_scale is not None else 0
        noise = released_covariance(
            self.release.design(columns),
            self.noise_covariance(columns, noise_scale, rows),
            as_released=self.method == "none",
        )
        scores = np.asarray(theta, dtype=float).reshape(len(self.declared.scores), -1)
        # Rounding alone would make the variance of a channel without noise negative.
        return max(0.0, float(np.max(np.einsum("kj,jl,kl->k", scores, noise, scores))))

    def normal_score_variance(self, theta: ArrayLike) -> float:
        """Return the variance of the normal noise in the score at theta, s = theta'D theta; the largest of several.

        It is what `variance_limit` bounds; noise of other columns does not count, and with ``method="none"`` none does.

        Parameters
        ----------
        theta : array of shape (q,) or (K, q)
            The parameters, intercept last.
        """
        program, rows = self._linear_rows(theta)
        if program is None:
            return 0.0
        covariance = self._covariance(program)
        return float(np.max(np.einsum("kj,jl,kl->k", rows, covariance, rows))) if covariance.size else 0.0

    def score_reach(self, theta: ArrayLike) -> float:
        """Return the largest sum over scores of abs(theta_j) times the tail scale of the noise of column j."""
        program, rows = self._linear_rows(theta)
        if program is None:
            return 0.0
        scales = self.derivation(self._columns_of(theta)).constants["reach"]
        return float(np.max(np.abs(rows).sum(axis=0) * scales, initial=0.0))

    def _columns_of(self, theta: ArrayLike) -> int:
        if not self.declared.scores or self.release.columns is not None:
            return columns_to_show(self.declared, self.release)
        scores = 1 if np.ndim(theta) > 1 else len(self.declared.scores)
        return int(np.shape(theta)[-1] // scores - self.release.fit_intercept)

    def _linear_rows(self, theta: ArrayLike) -> tuple[ScoreProgram | None, FloatArray]:
        program = self.derivation(self._columns_of(theta)).program
        if not isinstance(program, ScoreProgram):
            return None, np.zeros((0, 0))
        rows = np.asarray(theta, dtype=float).reshape(len(program.scores), -1)
        return program, rows[:, list(program.columns.linear)]

    def _covariance(self, program: ScoreProgram) -> FloatArray:
        columns = program.width if self.release.columns is None else len(self.release.columns)
        if not self.declared.scores:
            columns = len(self.declared.features)
        design = self.release.design(columns)
        places = [part.column for part in design.linear]
        return design.covariance[np.ix_(places, places)] if self.method != "none" else np.zeros((0, 0))

    def checked_data(
        self, X: Any, y: Any, *, check_finite: bool = True, noise_scale: Any = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return records as kernels take them, with labels checked against the declared values.

        Parameters
        ----------
        X : array of shape (n, p) or table
            The (noised) records.
        y : array of shape (n,)
            The (noised) targets.
        check_finite : bool
            False leaves NaN and infinity in X to a caller that finds them in its own pass.
        noise_scale : array of shape (n,) or (n, p), optional
            Standard deviations of the records' own noise.

        Returns
        -------
        X : array of shape (n, width), float64
            X itself where it has no categories: columns in the release's order. Otherwise the linear columns, the
            codes of categories, and the records' own noise variances.
        y : array of shape (n,), float64
            The targets, or codes of them.

        Raises
        ------
        ValueError, TypeError
            The data do not fit; the message names the row and column.
        """
        check_same_index(X, y, noise_scale=noise_scale)
        matrix = self.release.design_matrix(X, check_finite=check_finite)
        if not self.declared.scores and matrix.shape[1] != len(self.declared.features):
            raise ValueError(
                f"X has {matrix.shape[1]} columns, but the loss has the {len(self.declared.features)} features "
                f"{', '.join(symbol.name for symbol in self.declared.features)}. Pass one column per feature."
            )
        target = self._checked_target(y, len(matrix))
        scales = None
        if noise_scale is not None:
            scales = per_record_scales(noise_scale, self._own_noise(matrix.shape[1]), rows=len(matrix))
        return self.kernel_data(matrix, target, scales=scales)

    def checked_rows(self, X: Any, y: Any, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Return some records as kernels take them; see `checked_data`.

        Parameters
        ----------
        X, y
            As for `checked_data`, finite.
        rows : slice
            Which rows.
        """
        check_same_index(X, y)
        matrix = self.release.design_matrix(X, check_finite=False)
        target = self._checked_target(y, len(matrix))
        return self.kernel_data(matrix[rows], target[rows])

    def codes_of_targets(self, target: FloatArray) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the codes of released targets that take finitely many values, in the order of looked-up numbers."""
        noise = self.release.target_noise if self.method != "none" else None
        values = noise.outputs if isinstance(noise, ChannelNoise) else self.declared.target_values
        assert values is not None
        known = np.array(values)
        order = np.argsort(known)
        codes: np.ndarray[Any, np.dtype[np.int64]] = order[np.searchsorted(known, target, sorter=order)]
        return codes

    def checked_target(self, y: Any, rows: int) -> FloatArray:
        """Return released targets as checked numbers.

        Parameters
        ----------
        y : array of shape (n,)
            The targets.
        rows : int
            n, the number of records.
        """
        return self._checked_target(y, rows)

    def noise_covariance(self, columns: int, noise_scale: Any = None, rows: int = 0) -> FloatArray:
        """Return the covariance of the additive noise of X's columns, its mean where records have scales of their own.

        Parameters
        ----------
        columns : int
            The number of columns of X.
        noise_scale : array of shape (n,) or (n, p), optional
            Standard deviations of the records' own noise.
        rows : int
            n, where `noise_scale` is given.
        """
        covariance = self.release.design(columns).covariance.copy()
        variances = self.release.feature_variances(columns)
        if noise_scale is not None:
            own = self._own_noise(columns)
            covariance[:] = 0.0
            variances = np.where(own, np.mean(per_record_scales(noise_scale, own, rows=rows) ** 2, axis=0), variances)
        np.fill_diagonal(covariance, variances)
        return covariance

    def _own_noise(self, columns: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which columns of X may have noise scales of the records' own."""
        if self.method == "none":
            raise ValueError('method="none" corrects no noise. Leave noise_scale out.')
        allowed = np.zeros(columns, dtype=bool)
        budgets = []
        for (place, noise), (_, mechanism) in zip(self.release.noises(columns), self.release.groups, strict=True):
            if isinstance(noise, AdditiveNoise) and noise.is_gaussian:
                allowed[place] = True
                if mechanism.guarantee is not None:
                    budgets.append(repr(mechanism))
        if budgets or not allowed.any():
            raise ValueError(
                "noise_scale gives each record's own scale of normal noise, for columns released by "
                "GaussianMechanism.from_scale"
                + (f"; {budgets[0]} has its scale from its budget." if budgets else "; the release has none.")
                + " Leave noise_scale out, or declare known noise."
            )
        return allowed

    def _checked_target(self, y: Any, rows: int) -> FloatArray:
        values = self.declared.target_values
        target = self.release.released_target(y, rows=rows)
        if self.release.clips_target:
            return target
        noise = self.release.target_noise
        if isinstance(noise, ChannelNoise):
            if self.method == "none":
                # A continuous target is a true label or a released one.
                known = values if values is not None else sorted({*noise.inputs, *noise.outputs})
                return label_array(target, known, rows=rows)
            return label_array(target, noise.outputs, rows=rows)
        if values is not None and noise is None:
            return label_array(target, values, rows=rows)
        return target

    def kernel_data(
        self, matrix: FloatArray, target: FloatArray, *, scales: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return checked records as kernels take them.

        Parameters
        ----------
        matrix : array of shape (n, p), float64
            Columns in the release's order, codes in columns of categories.
        target : array of shape (n,), float64
            Values of the target.
        scales : array of shape (n, p), float64, optional
            Standard deviations of the records' own noise.
        """
        columns = matrix.shape[1]
        derivation = self.derivation(columns, per_record=scales is not None)
        program = derivation.program
        if program.codes:
            target = self.codes_of_targets(target).astype(float)
        if not isinstance(program, ScoreProgram):
            return self._feature_data(matrix, scales), target
        design = self.release.design(columns)
        if derivation.dense:
            if not design.categorical:
                return matrix, target
            dense = certification.DeclaredLoss(self.declared, self.release).rows(matrix)
            kept = [place for place in range(dense.shape[1]) if place != program.columns.intercept]
            return np.ascontiguousarray(dense[:, kept]), target
        enumerated = bool(program.having(Configurations))
        if not (design.categorical or enumerated) and scales is None:
            return matrix, target
        parts = [matrix[:, [part.column for part in design.linear]]]
        if enumerated:
            joint = np.zeros(len(matrix))
            for column in design.categorical:
                joint = joint * len(column.noise.outputs) + matrix[:, column.column]
            parts.append(joint[:, None])
        else:
            parts.append(matrix[:, [column.column for column in design.categorical]])
        if scales is not None:
            noisy = [place for noise in program.having(RecordNoise) for place in noise.noisy]
            parts.append(scales[:, [design.linear[place].column for place in noisy]] ** 2)
        return np.ascontiguousarray(np.concatenate(parts, axis=1)), target

    def _feature_data(self, matrix: FloatArray, scales: FloatArray | None) -> FloatArray:
        if self.method == "none":
            return certification.DeclaredLoss(self.declared, self.release).features(matrix)
        if scales is None:
            return matrix
        noised = [
            column
            for place, noise in self.release.noises(matrix.shape[1])
            if isinstance(noise, AdditiveNoise) and noise.is_gaussian
            for column in range(place.start, place.stop)
        ]
        return np.ascontiguousarray(np.concatenate([matrix, scales[:, noised] ** 2], axis=1))

    def checked_records(
        self, X: Any, y: Any, *, sample_weight: Any = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return records as checked numbers, before kernels have them.

        Parameters
        ----------
        X, y
            As for `checked_data`.
        sample_weight : array of shape (n,), optional
            Non-negative weights with a positive sum.

        Returns
        -------
        X : array of shape (n, p), float64
            Columns in the release's order, codes in columns of categories.
        y : array of shape (n,), float64
            Values of the target.
        weights : array of shape (n,) or (0,), float64
            Empty where there are none.
        """
        check_same_index(X, y, sample_weight=sample_weight)
        matrix = self.release.design_matrix(X, check_finite=True)
        if not self.declared.scores and matrix.shape[1] != len(self.declared.features):
            raise ValueError(
                f"X has {matrix.shape[1]} columns, but the loss has the {len(self.declared.features)} features "
                f"{', '.join(symbol.name for symbol in self.declared.features)}. Pass one column per feature."
            )
        target = self.checked_target(y, len(matrix))
        return matrix, target, _weights(sample_weight, len(matrix))[0]

    def checked_scales(self, noise_scale: Any, columns: int, rows: int) -> FloatArray | None:
        """Return the records' own standard deviations of noise, shape (n, p), or None where there are none."""
        return None if noise_scale is None else per_record_scales(noise_scale, self._own_noise(columns), rows=rows)

    @property
    def true_targets(self) -> tuple[float, ...]:
        """The values of the true target on which certificates look."""
        return self._target_noise().targets

    def _checked(
        self, theta: Any, X: Any, y: Any, noise_scale: Any
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, int]:
        self.require_resolved()
        columns = self.number_of_columns(X)
        vector = self.flat_parameters(theta, columns)
        matrix, target = self.checked_data(X, y, noise_scale=noise_scale)
        if noise_scale is None:
            self.require_noise_within_limits(vector, columns, finite_variance=False)
        noise = self.noise_vector(columns, per_record=noise_scale is not None)
        return vector, matrix, target, noise, columns

    def flat_parameters(self, theta: Any, columns: int) -> FloatArray:
        """Return checked parameters as one vector, scores after one another.

        Parameters
        ----------
        theta : array of shape (q,) or (K, q)
            The parameters.
        columns : int
            The number of columns of X.
        """
        scores = max(1, len(self.declared.scores))
        return parameter_array(theta, self.number_of_parameters(columns) // scores, scores).ravel()

    def loss(self, theta: ArrayLike, X: Any, y: Any, *, noise_scale: Any = None) -> FloatArray:
        """Return the corrected loss of each record.

        Parameters
        ----------
        theta : array of shape (q,), or (K, q) for K scores
            The parameters; with an intercept q = p + 1, intercept last.
        X : array of shape (n, p) or table
            The noised records.
        y : array of shape (n,)
            The noised targets.
        noise_scale : array of shape (n,) or (n, p), optional
            The standard deviation of the normal noise of each record, or of each of its columns, in place of the
            scale of `GaussianMechanism.from_scale` (heteroscedastic measurement error).

        Returns
        -------
        array of shape (n,), float64
            Its mean over the noise is the declared loss of the true record.

        Raises
        ------
        NoExactCorrectionError
            The correction does not exist at this theta: the noise variance of the score is too large.
        ValueError, TypeError
            The data or theta do not fit.
        """
        vector, matrix, target, noise, columns = self._checked(theta, X, y, noise_scale)
        out = np.empty(len(matrix))
        self.kernels(columns, per_record=noise_scale is not None).loss(vector, matrix, target, noise, out)
        return out

    def gradient(self, theta: ArrayLike, X: Any, y: Any, *, noise_scale: Any = None) -> FloatArray:
        """Return the corrected gradient of each record.

        Parameters
        ----------
        theta, X, y, noise_scale
            As for `loss`.

        Returns
        -------
        array of shape (n, q), or (n, K, q), float64
            The derivative of `loss` by theta.
        """
        vector, matrix, target, noise, columns = self._checked(theta, X, y, noise_scale)
        out = np.empty((len(matrix), len(vector)))
        self.kernels(columns, per_record=noise_scale is not None).gradient(vector, matrix, target, noise, out)
        scores = len(self.declared.scores)
        return out.reshape(len(matrix), scores, -1) if scores > 1 else out

    def _means(
        self, theta: Any, X: Any, y: Any, sample_weight: Any, noise_scale: Any
    ) -> tuple[Kernels, bool, tuple[Any, ...], FloatArray]:
        check_same_index(X, y, sample_weight=sample_weight)
        vector, matrix, target, noise, columns = self._checked(theta, X, y, noise_scale)
        weights, total = _weights(sample_weight, len(matrix))
        kernels = self.kernels(columns, per_record=noise_scale is not None)
        return kernels, sample_weight is not None, (vector, matrix, target, weights, total, noise), vector

    def mean_loss(
        self, theta: ArrayLike, X: Any, y: Any, *, sample_weight: Any = None, noise_scale: Any = None
    ) -> float:
        """Return the mean corrected loss, without an array of the records' losses.

        Parameters
        ----------
        theta, X, y, noise_scale
            As for `loss`.
        sample_weight : array of shape (n,), optional
            Non-negative weights with a positive sum.

        Returns
        -------
        float
            The (weighted) mean.
        """
        kernels, weighted, arguments, _ = self._means(theta, X, y, sample_weight, noise_scale)
        return summed(kernels.mean_loss(weighted=weighted), arguments, ())[0]

    def mean_gradient(
        self, theta: ArrayLike, X: Any, y: Any, *, sample_weight: Any = None, noise_scale: Any = None
    ) -> FloatArray:
        """Return the mean corrected gradient, without an n x q array.

        Parameters
        ----------
        theta, X, y, sample_weight, noise_scale
            As for `mean_loss`.

        Returns
        -------
        array of shape (q,), or (K, q), float64
            The (weighted) mean.
        """
        kernels, weighted, arguments, vector = self._means(theta, X, y, sample_weight, noise_scale)
        _, (gradient,) = summed(kernels.mean_gradient(weighted=weighted), arguments, ((len(vector),),))
        return self.shaped(gradient)

    def mean_hessian(
        self, theta: ArrayLike, X: Any, y: Any, *, sample_weight: Any = None, noise_scale: Any = None
    ) -> FloatArray:
        """Return the mean Hessian of the corrected loss, in one pass.

        Parameters
        ----------
        theta, X, y, sample_weight, noise_scale
            As for `mean_loss`.

        Returns
        -------
        array of shape (Q, Q), float64
            Q the number of all parameters, scores after one another. For one score under normal noise it is the
            (weighted) mean of g_2 x~x~' - g_3 (x~v' + v x~') + g_4 vv' - g_2 D, v = D theta.

        Raises
        ------
        NoExactCorrectionError
            There are too many columns of categories to sum over their combinations.
        """
        check_same_index(X, y, sample_weight=sample_weight)
        vector, matrix, target, _, columns = self._checked(theta, X, y, noise_scale)
        weights, total = _weights(sample_weight, len(matrix))
        derivatives = self.derivatives(columns, matrix, target, weights, total, per_record=noise_scale is not None)
        return derivatives(vector).hessian

    def derivatives(
        self,
        columns: int,
        matrix: FloatArray,
        target: FloatArray,
        weights: FloatArray,
        total: float,
        *,
        per_record: bool,
    ) -> Callable[..., Derivatives]:
        """Return a function of theta that gives mean loss, gradient and Hessian in one pass over the data.

        With a second argument True it gives the mean outer product of the records' gradients as well.

        Parameters
        ----------
        columns : int
            The number of columns of X.
        matrix, target : array
            What `checked_data` returned.
        weights : array of shape (n,) or (0,), float64
            Weights of the records; empty where all weigh the same.
        total : float
            What sums are divided by.
        per_record : bool
            Whether records have noise scales of their own.

        Raises
        ------
        NoExactCorrectionError
            There are too many columns of categories to sum over their combinations, or too many second derivatives.
        """
        kernels = self.kernels(columns, per_record=per_record)
        enumerated = isinstance(kernels.program, ScoreProgram) and kernels.program.has_lookups
        if enumerated:
            # The looked-up factors have no second derivatives: sum over the categories instead.
            kernels = self.kernels(columns, per_record=per_record, enumerate_categories=True)
            matrix = self._with_joint_codes(matrix, kernels.program, columns)
        if isinstance(kernels.program, ScoreProgram) and not kernels.program.has_hessian:
            raise NoExactCorrectionError(
                f"the Hessian of {self.declared.expression} under this noise has too many terms to be written out. "
                "Difference mean_gradient, as m_estimate does."
            )
        noise = self.noise_vector(columns, per_record=per_record, enumerate_categories=enumerated)
        kernel = kernels.mean_derivatives(weighted=bool(len(weights)))

        def derivatives(theta: FloatArray, meat: bool = False) -> Derivatives:
            size = len(theta)
            square = (size, size) if meat else (0, 0)
            value, arrays = summed(
                kernel, (theta, matrix, target, weights, total, noise), ((size,), (size, size), square)
            )
            return Derivatives(value, *arrays)

        return derivatives

    def _with_joint_codes(self, data: FloatArray, program: Any, columns: int) -> FloatArray:
        """Return kernel data with one code for all categories in place of one each."""
        categorical = self.release.design(columns).categorical
        first = len(program.columns.linear)
        joint = np.zeros(len(data))
        for place, column in enumerate(categorical):
            joint = joint * len(column.noise.outputs) + data[:, first + place]
        return np.ascontiguousarray(
            np.concatenate([data[:, :first], joint[:, None], data[:, first + len(categorical) :]], axis=1)
        )

    @functools.cached_property
    def uncorrected(self) -> "CorrectedLoss | None":
        """The loss as it stands on the released records, or None where these are no records of its kind."""
        for _, noise in self.release.noises(columns_to_show(self.declared, self.release)):
            if isinstance(noise, ChannelNoise) and noise.inputs != noise.outputs:
                return None
        target = None if self.release.clips_target else self.release.target_noise
        labels = self.declared.target_values is not None
        if labels and isinstance(target, ChannelNoise) and set(target.inputs) != set(target.outputs):
            return None
        return _as_it_stands(self.declared, self.release)

    # ---- the honest side ---------------------------------------------------------------------------------

    def bias(self, theta: ArrayLike, x: Any, y: Any) -> FloatArray:
        """Return the bias of the corrected loss for true records: its mean over the noise less the declared loss.

        Parameters
        ----------
        theta : array of shape (q,) or (K, q)
            The parameters.
        x : array of shape (n, p) or table
            True records, already centred and scaled.
        y : array of shape (n,)
            True targets.

        Returns
        -------
        array of shape (n,), float64
            Zeros where the correction is exact. Otherwise by quadrature over the noise of every column.

        Raises
        ------
        NoExactCorrectionError
            There are too many noised columns for a product rule.
        """
        matrix = self.release.true_matrix(x)
        target = self.release.true_target(y, rows=len(matrix))
        flat = self.flat_parameters(theta, matrix.shape[1])
        if self.is_exact:
            self.require_noise_within_limits(flat, matrix.shape[1], finite_variance=False)
            return self._offsets_of(target)
        if self.method == "none":
            return np.asarray(np.sum(forward.bias(self.declared, self.release)(theta, x, y), axis=0))
        self.require_resolved()
        truth = certification.DeclaredLoss(self.declared, self.release)
        if self.design is not None:
            values = np.array([truth.target(code) for code in target])
            return self.surrogate_parts.errors(self.design, self._scores(truth, flat, matrix), values)[0]
        function, _ = truth.functions()
        biases = np.empty(len(matrix))
        for row, (record, code) in enumerate(zip(matrix, target, strict=True)):
            mean = self._noise_moment(flat, record, code, _mean_of_loss, of="loss")
            wanted = function(*truth.arguments(flat, record[None, :], np.array([truth.target(code)])))
            biases[row] = mean - float(np.asarray(wanted).reshape(-1)[0])
        return biases

    def _offsets_of(self, codes: FloatArray) -> FloatArray:
        """Return how far the mean of the exact corrected loss is from the loss, for codes of true targets."""
        offsets, values = self._shown.offsets, self.declared.target_values
        if offsets is None:
            return np.zeros(len(codes))
        noise = self.release.target_noise
        assert isinstance(noise, ChannelNoise)
        assert values is not None
        found: FloatArray = offsets[np.searchsorted(values, np.array(noise.inputs)[codes.astype(int)])]
        return found

    def _scores(self, truth: certification.DeclaredLoss, theta: FloatArray, X: FloatArray) -> FloatArray:
        """Return the scores of true records, for a hidden score too."""
        if self.declared.scores:
            return np.asarray(truth.rows(X) @ theta)
        found = hidden_score(self.declared)
        assert found is not None
        score: FloatArray = truth.features(X) @ theta[list(found.places)]
        return score if found.intercept is None else score + theta[found.intercept]

    def variance(self, theta: ArrayLike, x: Any, y: Any, *, of: str = "loss") -> FloatArray:
        """Return the variance over the noise of the corrected loss, or of its gradient, for true records.

        Parameters
        ----------
        theta, x, y
            As for `bias`.
        of : {"loss", "gradient"}
            The variance of the loss, or the trace of the covariance of the gradient.

        Returns
        -------
        array of shape (n,), float64
            In closed form for a loss of one score under normal noise where there is one, label noise included; by
            quadrature over the noise of every column otherwise.

        Raises
        ------
        InfiniteVarianceError
            The variance is infinite at this theta.
        NoExactCorrectionError
            There are too many noised columns for a product rule.

        References
        ----------
        Dufraiche et al. 2026 (arXiv 2602.16436), Appendix D.4.

        Examples
        --------
        >>> import symdebias as sd
        >>> corrected = sd.debias(sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(1.0)))
        >>> corrected.variance([1.0, 0.0], [[0.0, 0.0]], [1.0]).round(6).item()  # e^s - 1
        1.718282
        """
        if of not in ("loss", "gradient"):
            raise ValueError(f'of={of!r:.60} is not known. Choose "loss" or "gradient".')
        self.require_resolved()
        matrix = self.release.true_matrix(x)
        columns = matrix.shape[1]
        target = self.release.true_target(y, rows=len(matrix))
        flat = self.flat_parameters(theta, columns)
        self.require_noise_within_limits(flat, columns, finite_variance=True)
        if self.method != "none" and (closed := self.closed_variance) is not None:
            return self._closed_variances(closed, flat, matrix, target, of)
        return np.array(
            [
                self._noise_moment(flat, record, code, _total_variance, of=of)
                for record, code in zip(matrix, target, strict=True)
            ]
        )

    @functools.cached_property
    def closed_variance(self) -> forward.ClosedVariance | None:
        """The variance of loss and gradient in closed form, or None where there is none."""
        if not self._is_simple or self.method in ("surrogate", "quadrature"):
            return None
        try:
            return forward.closed_variance(self.declared, self.release, self._shown)
        except NoExactCorrectionError:
            return None

    def _closed_variances(
        self, closed: forward.ClosedVariance, theta: FloatArray, matrix: FloatArray, target: FloatArray, of: str
    ) -> FloatArray:
        truth = certification.DeclaredLoss(self.declared, self.release)
        rows = truth.rows(matrix)
        covariance = np.zeros((len(theta), len(theta)))
        count = matrix.shape[1]
        covariance[:count, :count] = self.release.design(count).covariance
        v = covariance @ theta
        values = np.array([truth.target(code) for code in target])
        symbols = self._shown.symbols
        target_variance, gain = self._shown.constants["target"]
        names: dict[sp.Symbol, Any] = {
            self.declared.scores[0]: rows @ theta,
            self.declared.target: values,
            symbols.score_variance: float(theta @ v),
            symbols.target_variance: target_variance,
            symbols.gain: gain,
            **dict(
                zip(
                    closed.norms,
                    (np.sum(rows**2, axis=1), rows @ v, float(v @ v), float(np.trace(covariance))),
                    strict=True,
                )
            ),
        }
        found = forward.evaluated(closed.loss if of == "loss" else closed.gradient, names)
        # Where it vanishes, rounding may leave a negative zero.
        return np.asarray(np.maximum(np.broadcast_to(found, (len(matrix),)), 0.0))

    def _noise_moment(
        self,
        theta: FloatArray,
        record: FloatArray,
        target: float,
        moment: Callable[[FloatArray, FloatArray], float],
        *,
        of: str,
    ) -> float:
        columns = len(record)
        values, weights = forward.released_values(
            self.release,
            self.kernels(columns),
            lambda X, y: self.kernel_data(X, self._values_of_codes(y)),
            self.noise_vector(columns),
            theta,
            record,
            target,
            of=of,
        )
        return float(moment(values, weights))

    def variance_bound(self, *, theta_radius: float = 1.0, columns: int | None = None) -> float:
        """Return a bound on the variance of the corrected gradient over the noise, for all records of the domain.

        Parameters
        ----------
        theta_radius : float
            Largest ||theta||, positive.
        columns : int, optional
            The number of columns, where the release does not know it.

        Returns
        -------
        float
            A bound on the trace of the covariance of the gradient: sup of the label part plus sigma^2 C^2, with
            C^2 = sup W_r ||W_r^-1 grad_theta grad_x loss||^2 over records within the declared bounds, parameters in the
            ball and 0 <= r <= sigma^2, on a grid.

        Raises
        ------
        NoExactCorrectionError
            There is no closed form, or the noise is not the same normal noise on all columns.
        InfiniteVarianceError
            The variance is infinite within the domain.

        Notes
        -----
        The printed bound takes the supremum of ||grad_theta grad_x loss||^2 over bounded records and uses it under W_r,
        which integrates over all of R^p: it fails already for the exponential loss.

        References
        ----------
        Dufraiche et al. 2026 (arXiv 2602.16436), Lemma D.2 and Theorem 5.3, corrected.

        Examples
        --------
        >>> import symdebias as sd
        >>> corrected = sd.debias(sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(1.0)))
        >>> worst = corrected.variance([-1.0], [[1.0]], [1.0], of="gradient").item()
        >>> round(worst, 1), corrected.variance_bound(columns=1) > worst
        (93.0, True)
        """
        closed = self.closed_variance
        if not self.declared.scores or self.release.number_of_columns is not None:
            columns = columns_to_show(self.declared, self.release)
        elif columns is None:
            columns = columns_to_show(self.declared, self.release)
        covariance = self.release.design(columns).covariance
        variance = float(covariance[0, 0])
        if closed is None or np.any(covariance - variance * np.eye(columns)) or self.release.fit_intercept:
            raise NoExactCorrectionError(
                "the bound is derived for exact corrections with a closed variance, under the same normal noise on all "
                "columns and without an intercept. Use variance() at the parameters in question."
            )
        if not variance * theta_radius**2 < self.finite_variance_limit:
            raise InfiniteVarianceError(
                f"within ||theta|| <= {theta_radius:g} the corrected gradient has infinite variance. Use a smaller "
                "ball."
            )
        return forward.gradient_variance_bound(
            self.declared,
            self._shown,
            closed,
            variance=variance,
            columns=columns,
            record_radius=self.release.record_radius(columns),
            theta_radius=theta_radius,
            targets=self._target_noise().targets,
        )

    @functools.cached_property
    def certificate(self) -> Certificate:
        """The certificate on the unit ball of parameters: ``certify(theta_radius=1.0)``."""
        return self.certify(theta_radius=1.0)

    def certify(self, *, theta_radius: float = 1.0, columns: int | None = None) -> Certificate:
        """Measure the bias of the corrected loss by quadrature over the noise.

        Parameters
        ----------
        theta_radius : float
            Largest ||theta|| of the domain, positive.
        columns : int, optional
            The number of columns; needed only where the release does not name its columns and the bound on
            the records depends on it.

        Returns
        -------
        Certificate
            The largest bias of loss and gradient for ||theta|| <= theta_radius, records within the declared
            bounds (the unit ball where there are none, [-1, 1] for noiseless columns and continuous targets
            without a declared radius), and all target values.

        Notes
        -----
        The declared loss and the corrected loss are evaluated as they stand; the quadrature shares no code
        with the derivation. A loss of one score under normal noise is certified over the whole range of scores;
        every other by quadrature and enumeration over the noise of each column, at points spread over the domain,
        with at most three columns of additive noise taking part at a point.

        Examples
        --------
        >>> import symdebias as sd
        >>> release = sd.Release(features=sd.GaussianMechanism.from_scale(1.0))
        >>> sd.debias(sd.losses.exponential(), release).certificate.loss_bias < 1e-12
        True
        """
        if isinstance(theta_radius, bool) or not isinstance(theta_radius, (int, float)):
            raise TypeError(f"theta_radius must be a number; got {type(theta_radius).__name__}.")
        if not (0 < theta_radius < math.inf):
            raise ValueError(f"theta_radius={theta_radius!r} must be positive and finite.")
        self.require_resolved()
        if not self.declared.scores or self.release.number_of_columns is not None:
            columns = columns_to_show(self.declared, self.release)
        elif columns is None:
            columns = 1 + len(self.release.noiseless)
        record_radius = self.release.record_radius(columns)
        if self._is_simple:
            return self._certify_score(theta_radius, columns, record_radius)
        return self._certify_columns(theta_radius, columns, record_radius)

    def _target_noise(self) -> TargetNoise:
        noise = self.release.target_noise
        if isinstance(noise, ChannelNoise):
            inputs = tuple(float(value) for value in noise.inputs)
            return TargetNoise(inputs, outcomes=tuple(map(float, noise.outputs)), probabilities=noise.matrix)
        targets = default_targets(self.declared.target_values, self.release.target_radius)
        return TargetNoise(targets, noise.variance if noise is not None else 0.0)

    def _certify_score(self, theta_radius: float, columns: int, record_radius: float) -> Certificate:
        if self.release.fit_intercept:
            record_radius = math.hypot(record_radius, 1.0)
        # The noise is there whether it is corrected or not.
        covariance = self.release.design(columns).covariance
        largest = float(np.linalg.eigvalsh(covariance).max(initial=0.0)) if covariance.any() else 0.0
        variance = largest * theta_radius**2
        targets = self._target_noise()
        bound = theta_radius * record_radius
        if self.design is not None:
            # Within the range and up to the noise that it is designed for; its bias does not depend on the noise.
            variance = min(variance, self.score_level)
            bound = min(bound, self.design.radius)
            if self.surrogate_parts.is_residual:
                bound, targets = self.design.radius, replace(targets, targets=(0.0,))
        found = {"loss_bias": math.inf, "gradient_bias": math.inf, "loss_scale": 1.0, "gradient_scale": 1.0}
        found["quadrature_error"], proved = math.nan, False
        if variance < self.variance_limit:
            problem = self._score_problem(columns)
            settings = {
                "score_bound": bound,
                "variance": variance,
                "record_radius": record_radius,
                "noise_norm": math.sqrt(largest * variance),
            }
            if self.method in ("none", "series") and not self.is_exact and targets.variance == 0:
                found = certification.searched_biases(problem, self._enclosed, target_noise=targets, **settings)
            else:
                most = {} if self.design is None else {"most_nodes": _NODES_FOR_WAVES}
                found = score_biases(problem, target_noise=targets, **settings, **most)  # type: ignore[arg-type]
            proved = self._with_bounds_of_surrogates(found, bound, record_radius)
        return self._certificate(theta_radius, record_radius, variance, 0.0, targets.targets, found, bound, proved)

    def _score_problem(self, columns: int) -> ScoreProblem:
        """Return the declared loss and the corrected one as numbers, for a release of normal noise."""
        derivation = self.derivation(columns)
        program, symbols = derivation.program, derivation.symbols
        assert isinstance(program, ScoreProgram)
        u, y, s = program.scores[0], program.target, symbols.score_variance
        target_variance, gain = (sp.Float(value, 17) for value in derivation.constants["target"])
        constants = {symbols.target_variance: target_variance, symbols.gain: gain}
        numbers = derivation.constants.get("coefficients", np.zeros(0))
        constants |= {name: sp.Float(value, 17) for name, value in zip(program.coefficients, numbers, strict=True)}
        # In forms that do not overflow: the logarithm of a tail is not that of 0.
        declared = tight_derivative(self.declared.expression, u, 0)
        corrected, slope = program.expression, program.slopes[0]
        if not self.is_exact and self.design is None:
            corrected = tight_derivative(corrected, u, 0)
            slope = sp.diff(corrected, u)
        curvature = -2 * sp.diff(corrected, s)
        return ScoreProblem(
            numeric(declared, (u, y)),
            numeric(sp.diff(declared, u), (u, y)),
            *(
                _with_variance_last(numeric(part.xreplace(constants), (u, y, s)))
                for part in (corrected, slope, curvature)
            ),
        )

    def _enclosed(self, target: float) -> Enclosed | None:
        """Return the declared loss at a target with the ranges of its derivatives, where they are known."""
        at_target = exactly(self.declared.expression).xreplace({self.declared.target: sp.Rational(target)})
        return enclosed(at_target, self.declared.scores[0])

    def _with_bounds_of_surrogates(self, found: dict[str, float], bound: float, record_radius: float) -> bool:
        """Raise the biases to the bounds on the errors of surrogates; say whether nothing exceeds these."""
        if self.design is None:
            return False
        parts = self.surrogate_parts
        bound = self.design.radius if parts.is_residual else bound
        worst = parts.largest_errors(self.design, bound, self.true_targets)
        proved = worst.proved
        for name, most, scale in (
            ("loss_bias", worst.value, found["loss_scale"]),
            ("gradient_bias", worst.slope * record_radius, found["gradient_scale"]),
        ):
            # More than rounding above the bound: the correction is not the surrogate's.
            slack = max(1e-9, 10 * found["quadrature_error"]) * scale
            proved = proved and found[name] <= most + slack
            found[name] = max(most, found[name] if found[name] > most + slack else 0.0)
        return proved

    def _certify_columns(self, theta_radius: float, columns: int, record_radius: float) -> Certificate:
        derivation = self.derivation(columns)
        program = derivation.program
        targets = certification.true_targets(self.declared, self.release)
        variance = float(self.release.feature_variances(columns).max(initial=0.0))
        reach = 0.0
        if isinstance(program, ScoreProgram):
            largest = np.linalg.eigvalsh(self.release.design(columns).covariance).max(initial=0.0)
            variance = float(largest) * theta_radius**2
            scores = math.sqrt(len(program.scores))
            reach = float(derivation.constants["reach"].max(initial=0.0)) * theta_radius * scores
        inside = theta_radius
        if self.design is not None:
            # Waves that are tuned for little noise vary too fast under much of it for any rule.
            inside = min(theta_radius, self.design.radius / math.hypot(record_radius, self.release.fit_intercept))
            noisiest = float(self.release.feature_variances(columns).max(initial=0.0))
            inside = min(inside, math.sqrt(self.score_level / noisiest)) if noisiest > 0 else inside
            variance = min(variance, noisiest * inside**2)
        found = {"loss_bias": math.inf, "gradient_bias": math.inf, "loss_scale": 1.0, "gradient_scale": 1.0}
        found["quadrature_error"] = math.nan
        holds = not isinstance(program, ScoreProgram) and self._conditions_over(theta_radius)
        if (
            (variance < self.variance_limit and reach < self.reach_limit)
            if isinstance(program, ScoreProgram)
            else holds
        ):
            found = certification.kernel_biases(
                self.declared,
                self.release,
                derivation,
                self.kernels(columns),
                lambda X, y: self.kernel_data(X, self._values_of_codes(y)),
                self.noise_vector(columns),
                columns=columns,
                record_radius=record_radius,
                theta_radius=inside,
            )
        bound = theta_radius * record_radius if isinstance(program, ScoreProgram) else math.inf
        if self.design is not None:
            bound = min(bound, self.design.radius)
        proved = math.isfinite(found["loss_bias"]) and self._with_bounds_of_surrogates(found, bound, record_radius)
        return self._certificate(theta_radius, record_radius, variance, reach, targets, found, bound, proved)

    def _conditions_over(self, theta_radius: float, *, finite_variance: bool = False) -> bool:
        """Whether the conditions of a free-form loss hold at parameters spread over the ball, its poles included."""
        size = len(self.declared.parameters)
        points = np.concatenate([np.eye(size), -np.eye(size), np.random.default_rng(0).normal(size=(200, size))])
        points *= theta_radius / np.linalg.norm(points, axis=1, keepdims=True)
        broken = {error for point in points for _, error in self.broken_conditions(point)}
        return NoExactCorrectionError not in broken and not (finite_variance and InfiniteVarianceError in broken)

    def _values_of_codes(self, y: FloatArray) -> FloatArray:
        noise = self.release.target_noise
        if not isinstance(noise, ChannelNoise):
            return y
        values: FloatArray = np.array(noise.outputs)[y.astype(int)]
        return values

    def _certificate(
        self,
        theta_radius: float,
        record_radius: float,
        variance: float,
        reach: float,
        targets: tuple[float, ...],
        found: dict[str, float],
        score_bound: float,
        proved: bool,
    ) -> Certificate:
        scored = isinstance(self._shown.program, ScoreProgram)
        return Certificate(
            method=self.method,
            exact=self.is_exact,
            loss_offset=self.loss_offset,
            theta_radius=theta_radius,
            record_radius=record_radius,
            score_bound=score_bound,
            proved=proved,
            noise_variance=variance,
            targets=targets,
            variance_limit=self.variance_limit,
            finite_variance_limit=self.finite_variance_limit,
            reach=reach,
            reach_limit=self.reach_limit,
            conditions=() if scored else tuple(map(str, self._shown.conditions)),
            conditions_hold=scored or self._conditions_over(theta_radius),
            variance_conditions_hold=scored or self._conditions_over(theta_radius, finite_variance=True),
            **found,
        )


@functools.lru_cache(maxsize=64)
def _as_it_stands(declared: Loss, release: Release) -> CorrectedLoss:
    """Return the uncorrected loss: the same for all corrections, and with the kernels that were compiled for it."""
    return CorrectedLoss(declared, release, "none")


@functools.lru_cache(maxsize=64)
def _rebuilt(
    declared: Loss,
    release: Release,
    method: str,
    order: int | None,
    nodes: int | None,
    design: Design | None,
    reason: str,
) -> CorrectedLoss:
    """Return a corrected loss from what determines it; one for all copies, which a pool receives with every task."""
    return CorrectedLoss(declared, release, method, order=order, nodes=nodes, design=design, reason=reason)


def _weights(sample_weight: Any, rows: int) -> tuple[FloatArray, float]:
    """Return weights with their sum, or none and the number of records."""
    if sample_weight is None:
        return np.zeros(0), float(rows)
    weights = weights_array(sample_weight, rows=rows)
    return weights, float(weights.sum())


def _mean_of_loss(values: FloatArray, weights: FloatArray) -> float:
    return float(weights @ values[:, 0])


def _total_variance(values: FloatArray, weights: FloatArray) -> float:
    return float(np.sum(weights @ (values - weights @ values) ** 2))


def _with_variance_last(function: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
    return lambda scores, target, variance: function(scores, target, np.full((1, 1), variance))
