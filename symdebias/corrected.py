"""A corrected loss: symbolic, compiled and certified."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from symdebias import _markup, assessment
from symdebias._arrays import FloatArray, length_of, real_array, shown_names
from symdebias._blas import one_thread
from symdebias._domains import COUNT, RADIUS
from symdebias._rows import names_of
from symdebias._table_rows import first_row
from symdebias.assessment import Certificate, Tradeoff, wording
from symdebias.correction import Correction, columns_to_show
from symdebias.derivation import Method, Surrogate, SurrogateParts
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise
from symdebias.records import Records
from symdebias.release import Release
from symdebias.release.required import required_columns
from symdebias.transforms.surrogate import Design


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
    approach : symdebias.derivation.Method
        The same with its settings: the order of ``"series"``, the nodes of ``"quadrature"``, the surrogates.
    design : symdebias.transforms.surrogate.Design or None
        The surrogates, with the range, noise level and sample size that they were designed for.
    reason : str
        Why this method.
    """

    def __init__(
        self, declared: Loss, release: Release, approach: Method, *, reason: str = "", like: Self | None = None
    ) -> None:
        self.declared, self.release, self.reason = declared, release, reason
        self.approach, self.method = approach, approach.name
        self.design = approach.design if isinstance(approach, Surrogate) else None
        # Those of the same loss by another method know what does not depend on the method.
        known = {} if like is None else like._corrections
        self._corrections: dict[tuple[int, bool], Correction] = {key: one.by(approach) for key, one in known.items()}
        self._certificates: dict[tuple[float, int], Certificate] = {}
        self._named: tuple[tuple[str, ...], CorrectedLoss] | None = None
        # What has no correction, or another kind of surrogates, is refused here.
        _ = self.shown.derivation

    @functools.cached_property
    def is_exact(self) -> bool:
        """Whether the derivation proves the correction exact: of the gradient, and of the loss up to `loss_offset`."""
        return self.shown.is_exact

    @functools.cached_property
    def loss_offset(self) -> float:
        """By how much the mean of the corrected loss is off at most by a part of the loss of the target alone.

        A channel hides that part, and no parameter changes it: it moves neither gradients nor differences between
        parameters.
        """
        return self.shown.loss_offset

    @functools.cached_property
    def notes(self) -> tuple[str, ...]:
        """What to know of the correction: that a target needed none, that a linear score was recognised."""
        return self.shown.derivation.notes

    def __repr__(self) -> str:
        return wording.as_text(self.declared, self.shown, is_resolved=self.is_resolved)

    def __copy__(self) -> "CorrectedLoss":
        return self  # nothing of it changes

    def __deepcopy__(self, memo: Any) -> "CorrectedLoss":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what determines it; expressions and kernels are made again where it is read."""
        return _rebuilt, (self.declared, self.release, self.approach, self.reason)

    def at(self, columns: int, *, per_record: bool = False) -> Correction:
        """Return the correction for a number of columns of X: its derivation, kernels, noise and limits.

        Parameters
        ----------
        columns : int
            The number of columns of X.
        per_record : bool
            Whether records have noise scales of their own.
        """
        key = (columns, per_record)
        if key not in self._corrections:
            made = Correction.of(self.declared, self.release, self.approach, columns, per_record=per_record)
            self._corrections[key] = made
        return self._corrections[key]

    @property
    def shown(self) -> Correction:
        """The correction to show: for two noised columns where the release does not know their number."""
        return self.at(columns_to_show(self.declared, self.release))

    def named_by(self, X: Any) -> "CorrectedLoss":
        """Return the same with names for the columns of X, where X has some and the release has none for them.

        A fit tells its coefficients by them, and matches further tables by them, whatever their order.

        Parameters
        ----------
        X : array of shape (n, p), table or Rows
            Released records; of rows those that were read by names have some.

        Raises
        ------
        ValueError
            The names are not those of the features of a free-form loss, or do not fit the release.
        """
        names = names_of(X) if self.release.columns is None else None
        if names is None:
            return self
        if not self.declared.scores:
            features = tuple(symbol.name for symbol in self.declared.features)
            if set(names) != set(features):
                raise ValueError(
                    f"the loss has the features {', '.join(features)} and the table the columns {shown_names(names)}. "
                    "Name them alike, or pass an array with the columns in the order of the features."
                )
            names = features
        if self._named is None or self._named[0] != names:
            # As what rows of a table are made of, they come one after another.
            named = CorrectedLoss(self.declared, self.release.bind(names), self.approach, reason=self.reason)
            self._named = names, named
        return self._named[1]

    def records(self, X: Any, y: Any, *, noise_scale: Any = None, **options: Any) -> Records:
        """Return checked records under this correction.

        Parameters
        ----------
        X, y, noise_scale, **options
            As for `symdebias.records.Records.of`.
        """
        named = self.named_by(X)
        correction = named.at(named.width_of(X), per_record=noise_scale is not None)
        return Records.of(correction, X, y, noise_scale=noise_scale, **options)

    def of(self, records: Records) -> Records:
        """Return records that were checked under another correction of the same loss and release under this one."""
        per_record = records.scales is not None and self.approach.corrects
        return records.under(self.at(records.correction.features, per_record=per_record))

    def width_of(self, X: Any) -> int:
        """Return the number of columns of released records, of which the first is looked at."""
        return self._known_width or int(self.release.design_matrix(first_row(X), check_finite=False).shape[1])

    def _width_of(self, theta: ArrayLike) -> int:
        shape = real_array(theta, "theta", check_finite=False).shape
        scores = 1 if len(shape) > 1 else len(self.declared.scores)
        length = (shape or (0,))[-1]
        # What has no parameter, or too few, is refused where these are checked.
        return self._known_width or max(1, int(length // scores - self.release.fit_intercept))

    @property
    def _known_width(self) -> int | None:
        is_known = not self.declared.scores or self.release.columns is not None
        return columns_to_show(self.declared, self.release) if is_known else None

    @property
    def is_resolved(self) -> bool:
        """Whether it can be evaluated: a surrogate needs a range, a noise level and a sample size."""
        return self.method != "surrogate" or self.design is not None or self.label_mixing is not None

    @property
    def label_mixing(self) -> FloatArray | None:
        """The labels whose losses the mean of the corrected loss is made of, by label, where a channel hides the loss.

        Entry [i, a] is the share of the loss at the a-th declared target value in the mean at the i-th.
        """
        return self.shown.derivation.mixing

    @property
    def surrogate_parts(self) -> SurrogateParts:
        """The parts of the loss that surrogates stand for.

        Raises
        ------
        NoExactCorrectionError
            The loss has none: it is no function of one score or residual.
        """
        return self.shown.surrogate_parts

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
            The method is not ``"surrogate"``, or the loss is the nearest one in the range of a channel.

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
        with one_thread():
            return self.with_design(self.shown.designed(radius=radius, score_variance=score_variance, records=n))

    def with_design(self, design: Design) -> "CorrectedLoss":
        """Return the surrogate with the given numbers in place of its own."""
        return CorrectedLoss(self.declared, self.release, Surrogate(design), reason=self.reason, like=self)

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
        ValueError
            A number that is needed was not given.

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
            score_variance = self.shown.score_level if score_variance is None else score_variance
            n = self.design.records if n is None else n
        if radius is None or score_variance is None or n is None:
            raise ValueError("a trade-off is one for radius, score_variance and n. Give all three.")
        return assessment.tradeoff(
            self.surrogate_parts, self.shown.loss, self.shown.release,
            radius=radius, score_variance=score_variance, records=n, orders=orders,
        )  # fmt: skip

    # ---- the symbolic side -------------------------------------------------------------------------------

    @functools.cached_property
    def expression(self) -> sp.Expr:
        """The corrected loss: of the scores, the noised target, and the noise.

        ``s`` is theta'D theta, ``t`` the noise variance of the target and ``c`` the gain of the label estimate
        (coth(epsilon/2) for randomized response); ``e_k`` is the k-th elementary symmetric polynomial of
        (b_j theta_j)^2 of columns with Laplace noise, ``q`` a product of factors of columns, ``k`` a factor looked up
        by a category and ``n`` a weight looked up by a label. For a free-form loss ``D_x`` is the noise variance of x.
        """
        return self.shown.derivation.expression

    @functools.cached_property
    def gradient_expressions(self) -> tuple[sp.Expr, ...]:
        """The gradient: (slope, curvature) of a score loss, or one derivative per parameter of a free-form one.

        The gradient of a loss of one score under normal noise is x~ slope - D theta curvature. In general the
        derivatives by the scores come first, then those by the statistics of the noise in the loss.
        """
        return self.shown.derivation.gradient_expressions(in_two_terms=self.shown.is_simple)

    @property
    def conditions(self) -> tuple[sp.Rel, ...]:
        """What must hold for the correction to exist, as relations of ``s``, ``t`` and ``r``.

        ``r`` is the largest abs(theta_j) b_j over columns with Laplace noise, or 1/(tail rate) for b_j. Of several
        scores theta_j is the parameter of their sum w.u in an exponential of the loss, whose largest weight is 1.
        """
        return self.shown.derivation.conditions

    @property
    def variance_limit(self) -> float:
        """The correction exists for a normal noise variance of the score below this."""
        return self.shown.limits.variance

    @property
    def finite_variance_limit(self) -> float:
        """It has finite variance for a normal noise variance of the score below this."""
        return self.shown.limits.finite_variance

    def to_latex(self) -> str:
        """Return the corrected loss as LaTeX, without dollar signs."""
        return _markup.latex(self.expression)

    def _repr_latex_(self) -> str | None:
        return _markup.displayed(self.expression) if self.is_resolved else None

    def _repr_html_(self) -> str:
        return wording.as_html(self.declared, self.shown, self.reason, is_resolved=self.is_resolved)

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
        return self.at(len(required_columns(self.release))).design.parameters

    @property
    def source(self) -> str:
        """The generated source of the training kernel, for two columns where the number is not known."""
        return self.shown.kernels.source("sgd_pass").text

    # ---- the numeric side --------------------------------------------------------------------------------

    def _evaluated(self, theta: Any, X: Any, y: Any, noise_scale: Any, **options: Any) -> tuple[FloatArray, Records]:
        """Return checked parameters as one vector, within the limits of the correction, and checked records."""
        self.require_resolved()
        records = self.records(X, y, noise_scale=noise_scale, **options)
        vector = records.correction.flat(theta)
        records.limits.require(vector, finite_variance=False)
        return vector, records

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
        noise_scale : array of shape (n,) or (n, p), or table of p columns, optional
            The standard deviation of the normal noise of each record, or of each of its columns, in place of the
            scale of `GaussianMechanism.from_scale` (heteroscedastic measurement error). A table is matched by name;
            columns of an array are in the order of the release.

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
        vector, records = self._evaluated(theta, X, y, noise_scale, by_blocks=True)
        return _numbers_of(records.losses(vector), vector, by_record=True)

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
        vector, records = self._evaluated(theta, X, y, noise_scale)
        return records.correction.shaped(_numbers_of(records.gradients(vector, slice(None)), vector, by_record=True))

    def hessian(self, theta: ArrayLike, X: Any, y: Any, *, noise_scale: Any = None) -> FloatArray:
        """Return the Hessian of the corrected loss of each record.

        Parameters
        ----------
        theta, X, y, noise_scale
            As for `loss`.

        Returns
        -------
        array of shape (n, Q, Q), float64
            The second derivatives of `loss` by theta, Q the number of all parameters, scores after one another.

        Raises
        ------
        NoExactCorrectionError
            As for `mean_hessian`.

        Notes
        -----
        It takes .2 ms for each record, where `mean_hessian` takes less than .1 microsecond, and has no array of all.

        Examples
        --------
        >>> import symdebias as sd
        >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
        >>> corrected = sd.debias(sd.losses.least_squares(), release)
        >>> corrected.hessian([0.0, 0.0], [[1.0, 2.0]], [3.0]).tolist()                # x x' less the noise
        [[[0.75, 2.0], [2.0, 3.75]]]
        """
        vector, records = self._evaluated(theta, X, y, noise_scale)
        return _numbers_of(records.hessians(vector), vector, by_record=True)

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
        vector, records = self._evaluated(theta, X, y, noise_scale, sample_weight=sample_weight, by_blocks=True)
        return float(_numbers_of(records.mean_loss(vector), vector))

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
        vector, records = self._evaluated(theta, X, y, noise_scale, sample_weight=sample_weight, by_blocks=True)
        return records.correction.shaped(_numbers_of(records.mean_gradient(vector), vector))

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
            There are too many columns of categories to sum over their combinations, or too many second derivatives, as
            of several scores under noise of several columns; or the slope has corners or jumps, as that of a squared
            maximum or of a hinge.
        """
        vector, records = self._evaluated(theta, X, y, noise_scale, sample_weight=sample_weight, by_blocks=True)
        return _numbers_of(records.derivatives()(vector).hessian, vector)

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
        correction, scores = self.at(self._width_of(theta)), len(self.declared.scores)
        rows = length_of(noise_scale)
        vector = correction.flat(np.reshape(theta, (scores, -1)) if scores > 1 and np.ndim(theta) == 1 else theta)
        return correction.score_variance(vector, correction.checked_scales(noise_scale, rows))

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
            There are too many noised columns, or scores, for a product rule; or the mean is infinite, or nearly so.
        """
        correction, flat, matrix, target = self._true(theta, x, y)
        if self.is_exact:
            correction.limits.require(flat, finite_variance=False)
            return correction.offsets_of(target)
        # Of two labels with added noise what is computed is affine in the label, and the declared loss is not.
        is_between = correction.loss.target_values is not None and isinstance(self.release.target_noise, AdditiveNoise)
        if not (self.approach.corrects or is_between):
            given = (x, y) if correction.collected is None else (matrix, target)
            return np.asarray(np.sum(assessment.bias(correction.loss, correction.release)(theta, *given), axis=0))
        return assessment.loss_biases(correction, flat, matrix, target)

    def _true(self, theta: Any, x: Any, y: Any) -> tuple[Correction, FloatArray, FloatArray, FloatArray]:
        """Return the correction at the width of true records, checked parameters, and these records, coded."""
        self.require_resolved()
        correction = self.at(self.release.true_matrix(x).shape[1])
        return correction, correction.flat(theta), *correction.true_records(x, y)

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
            The variance is infinite at this theta, or so nearly so that noise decides it that is farther out than
            quadrature goes.
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
        correction, flat, matrix, target = self._true(theta, x, y)
        correction.limits.require(flat, finite_variance=True)
        return assessment.variances(correction, flat, matrix, target, of=of)

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
            C^2 = sup W_r ||W_r^-1 grad_theta grad_x loss||^2 over records within the declared bounds, all targets,
            parameters in the ball and 0 <= r <= sigma^2. Both are proved by interval arithmetic, and at most 1% above
            the suprema.

        Raises
        ------
        NoExactCorrectionError
            There is no closed form, there is an intercept, the noise is not the same normal noise on all columns, or
            interval arithmetic does not settle.
        InfiniteVarianceError
            The variance is infinite within the domain.

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
        if columns is None or not self.declared.scores or self.release.number_of_columns is not None:
            columns = columns_to_show(self.declared, self.release)
        return assessment.variance_bound(self.at(columns), theta_radius=theta_radius)

    @property
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
            The number of columns, where the release does not name them; one noised column by default. The certificate
            says for how many it is where that matters: under other noise than normal one, above all where a vector is
            noised as one, and where each column has bounds of its own.

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
        every other by quadrature and enumeration over the noise of each column, at points spread over the domain.
        Biases of a truncated series, or of no correction, are searched for. There the normal and Laplace noise of all
        columns is integrated over by what it does to the one score; of other noise, and under several scores, at most
        three columns take part at a point, and `Certificate.columns_at_once` says so.

        Examples
        --------
        >>> import symdebias as sd
        >>> release = sd.Release(features=sd.GaussianMechanism.from_scale(1.0))
        >>> sd.debias(sd.losses.exponential(), release).certificate.loss_bias < 1e-12
        True
        """
        self.require_resolved()
        domain = self._domain(theta_radius, columns)
        known = self._certificates.get(domain)
        if known is None or known.from_file:
            self._certificates[domain] = assessment.certify(self.at(domain[1]), theta_radius=domain[0])
        return self._certificates[domain]

    def known_certificate(self, *, theta_radius: float = 1.0, columns: int | None = None) -> Certificate | None:
        """Return what `certify` has measured before, or what a file says that it has; None where there is neither."""
        return self._certificates.get(self._domain(theta_radius, columns))

    def keep_certificate(self, certificate: Certificate, *, theta_radius: float, columns: int) -> None:
        """Keep what a file says of this domain, until `certify` measures it."""
        self._certificates[self._domain(theta_radius, columns)] = replace(certificate, from_file=True)

    def _domain(self, theta_radius: float, columns: int | None) -> tuple[float, int]:
        theta_radius = RADIUS.check("theta_radius", theta_radius)
        if not self.declared.scores or self.release.number_of_columns is not None:
            return theta_radius, columns_to_show(self.declared, self.release)
        return theta_radius, 1 + len(self.release.noiseless) if columns is None else COUNT.check("columns", columns)


def _numbers_of(values: Any, theta: FloatArray, *, by_record: bool = False) -> FloatArray:
    """Return what was computed at theta, or raise ValueError where it is no number: of terms too large for float64."""
    found = np.asarray(values)
    if np.isnan(found).any():
        where = f" in row {int(np.argwhere(np.isnan(found))[0, 0])}" if by_record else ""
        raise ValueError(
            f"the corrected loss, or a derivative, is no number{where}: at parameters of up to "
            f"{np.abs(theta).max():.3g} it is a difference of numbers beyond those of float64 (1e308). Pass shorter "
            "parameters, or columns in smaller units."
        )
    return found


@functools.lru_cache(maxsize=64)
def _rebuilt(declared: Loss, release: Release, approach: Method, reason: str) -> CorrectedLoss:
    """Return a corrected loss from what determines it; one for all copies, which a pool receives with every task."""
    return CorrectedLoss(declared, release, approach, reason=reason)


def require_corrected(corrected: Any) -> None:
    """Raise TypeError where something else than a corrected loss was given."""
    if not isinstance(corrected, CorrectedLoss):
        kind = type(corrected).__name__
        raise TypeError(f"the first argument must be what symdebias.debias returned; got {kind}. Pass debias(...).")
