"""Debias a loss under a release: the driver from declared loss to compiled, certified corrected loss."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from symdebias._arrays import label_array, parameter_vector, target_array, weights_array
from symdebias._domains import COUNT
from symdebias.codegen import stable
from symdebias.codegen.kernels import FeatureProgram, Kernels, ScoreProgram
from symdebias.derivation import Derivation, derive, noise_limit
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, FiniteChannel
from symdebias.release import Release
from symdebias.transforms.certificate import (
    Certificate,
    ScoreProblem,
    TargetNoise,
    default_targets,
    feature_biases,
    numeric,
    score_biases,
)

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

METHODS = ("auto", "exact", "series", "none")


def debias(loss: Loss, release: Release, *, method: str = "auto", order: int | None = None) -> "CorrectedLoss":
    """Derive the loss whose mean on released records is the declared loss on the true ones.

    Parameters
    ----------
    loss : Loss
        The declared loss.
    release : Release
        How the records were noised.
    method : {"auto", "exact", "series", "none"}
        ``"exact"`` inverts the noise in closed form; ``"series"`` cuts the inverse off at `order` and is
        biased unless the series ends before; ``"none"`` leaves the loss as it is, for true records or for
        comparison. ``"auto"`` is ``"exact"``: a method with a bias is never chosen silently.
    order : int, optional
        The order K >= 1 of ``"series"``, where it is required.

    Returns
    -------
    CorrectedLoss
        The corrected loss, its gradient and its certificate.

    Raises
    ------
    NoExactCorrectionError
        The loss has no exact correction under this noise; the message lists each method with its reason.
    ValueError
        The loss and the release do not fit: other target values, an intercept for a free-form loss.

    Notes
    -----
    In the score, with s = theta'D theta the noise variance of u, the corrected loss is
    G = W_s^-1 F and its gradient x~ W^-1[F_u] - D theta W^-1[F_uu].

    References
    ----------
    Dufraiche et al. 2026 (arXiv 2602.16436), Theorem 4.3 and eq. (16); Stefanski 1989; Nakamura 1990.

    Examples
    --------
    >>> import symdebias as sd
    >>> release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5))
    >>> sd.debias(sd.losses.squared_margin(), release).expression
    -s/2 + u**2/2 - u*y + 1/2
    """
    if not isinstance(loss, Loss):
        remedy = f" Call it: {loss.__name__}()." if callable(loss) and hasattr(loss, "__name__") else ""
        raise TypeError(f"loss must be a symdebias.Loss; got {type(loss).__name__}.{remedy}")
    if not isinstance(release, Release):
        raise TypeError(f"release must be a symdebias.Release; got {type(release).__name__}.")
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not known. Choose one of {', '.join(METHODS)}.")
    if method == "series" and order is None:
        raise ValueError('method="series" needs order=, the number of corrections K >= 1 (often 1 to 3).')
    if method != "series" and order is not None:
        raise ValueError(f'order={order!r} belongs to method="series"; method={method!r} takes none.')
    if order is not None:
        order = COUNT.check("order", order)
    _check_fit(loss, release)
    if method == "auto":
        try:
            return CorrectedLoss(loss, release, "exact", None, derive(loss, release, method="exact", order=None))
        except NoExactCorrectionError as error:
            raise NoExactCorrectionError(_no_method(loss, release, error)) from None
    return CorrectedLoss(loss, release, method, order, derive(loss, release, method=method, order=order))


def _no_method(loss: Loss, release: Release, refusal: NoExactCorrectionError) -> str:
    """List the methods with the reason of each; a series is suggested only where there is one."""
    try:
        derive(loss, release, method="series", order=1)
        series = "never chosen by itself: give order= to accept its bias"
        remedy = 'Pass method="series", order=2 and read the bias off corrected.certificate, or declare an entire loss.'
    except NoExactCorrectionError as error:
        series, remedy = str(error), "Declare a loss that is smooth, best an entire one."
    return (
        f"No method corrects {loss.expression} exactly under this release:\n"
        f"  exact   {refusal}\n  series  {series}\n{remedy}"
    )


def _check_fit(loss: Loss, release: Release) -> None:
    noise = release.target_noise
    if isinstance(noise, FiniteChannel):
        if loss.target_values is None:
            raise ValueError(
                f"the release noises a target with the values {_listed(noise.inputs)}, but the loss has a "
                "continuous target. Declare target_values on the loss, or release the target with a "
                "GaussianMechanism."
            )
        if tuple(sorted(noise.inputs)) != loss.target_values:
            raise ValueError(
                f"the loss has the target values {_listed(loss.target_values)} and the release "
                f"{_listed(noise.inputs)}. Declare the same values on both."
            )
    if isinstance(noise, AdditiveNoise) and loss.target_values is not None and len(loss.target_values) > 2:
        raise ValueError(
            "additive noise on a target with more than two declared values is not corrected. Leave "
            "target_values out, which treats the target as continuous."
        )
    if not loss.scores:
        if release.fit_intercept:
            raise ValueError(
                "a free-form loss names its own parameters, so fit_intercept=True has no place. Name an "
                "intercept among the parameters and set fit_intercept=False."
            )
        names = tuple(symbol.name for symbol in loss.features)
        if release.columns is not None and len(release.columns) != len(names):
            raise ValueError(
                f"the loss has the features {', '.join(names)} and the release the columns "
                f"{', '.join(release.columns)}. Name the same columns in both, in the same order."
            )
        # Arrays come without names of their own, and get these.
        by_position = tuple(f"x{index}" for index in range(len(names)))
        if release.columns not in (None, names, by_position):
            raise ValueError(
                f"the features of the loss ({', '.join(names)}) and the columns of the release "
                f"({', '.join(release.columns or ())}) differ. Use the same names in the same order."
            )


def _listed(values: tuple[float, ...]) -> str:
    return "{" + ", ".join(f"{value:g}" for value in values) + "}"


class CorrectedLoss:
    """A loss corrected for the noise of a release; made by `debias`.

    Attributes
    ----------
    declared : Loss
        The loss as declared.
    release : Release
        The noise that it is corrected for.
    method : str
        How it was corrected: ``"exact"``, ``"series"`` or ``"none"``.
    order : int or None
        The order of ``"series"``.
    is_exact : bool
        Whether the derivation proves the correction exact.
    """

    def __init__(
        self, declared: Loss, release: Release, method: str, order: int | None, derivation: Derivation
    ) -> None:
        self.declared = declared
        self.release = release
        self.method = method
        self.order = order
        self.is_exact = derivation.exact
        self._derivation = derivation
        noise = release.target_noise
        corrects = method != "none"
        self._target_variance = noise.variance if corrects and isinstance(noise, AdditiveNoise) else 0.0
        self._gain = _gain(noise) if corrects and isinstance(noise, FiniteChannel) else 1.0
        self.variance_limit = noise_limit(derivation.conditions, derivation.symbols, self._target_variance)
        self.finite_variance_limit = min(
            self.variance_limit,
            noise_limit(derivation.variance_conditions, derivation.symbols, self._target_variance),
        )

    def __repr__(self) -> str:
        order = "" if self.order is None else f", order={self.order}"
        return f"<CorrectedLoss {self.expression}, method={self.method!r}{order}>"

    # ---- the symbolic side -------------------------------------------------------------------------------

    @functools.cached_property
    def expression(self) -> sp.Expr:
        """The corrected loss: of the score u (its noise variance is s), the noised target, and the noise.

        ``s`` is theta'D theta, ``t`` the noise variance of the target and ``c`` the gain of the label estimate
        (coth(epsilon/2) for randomized response); for a free-form loss ``D_x`` is the noise variance of x.
        """
        return stable.plain(self._derivation.program.expression)

    @functools.cached_property
    def gradient_expressions(self) -> tuple[sp.Expr, ...]:
        """The gradient: (slope, curvature) of a score loss, or one derivative per parameter of a free-form one.

        The gradient of a score loss is x~ slope - D theta curvature.
        """
        program = self._derivation.program
        if isinstance(program, ScoreProgram):
            parts = (program.slope, program.curvature)
        else:
            assert isinstance(program, FeatureProgram)
            parts = program.gradient
        return tuple(stable.plain(part) for part in parts)

    @property
    def conditions(self) -> tuple[sp.Rel, ...]:
        """What must hold for the correction to exist, as relations of ``s`` and ``t``."""
        return self._derivation.conditions

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
        """Names of the entries of theta: the columns with the intercept last, or the free-form parameters.

        Raises
        ------
        ValueError
            The release has no column names yet; `Release.privatize` and `Release.bind` give them.
        """
        if not self.declared.scores:
            return tuple(symbol.name for symbol in self.declared.parameters)
        if self.release.columns is None:
            raise ValueError("the release does not name its columns yet. Use noised.release, or release.bind(names).")
        return (*self.release.columns, *(("intercept",) if self.release.fit_intercept else ()))

    @property
    def source(self) -> str:
        """The generated source of the training kernel, for two columns where the number is not known."""
        columns = 2 if self.release.columns is None else len(self.release.columns)
        if not self.declared.scores:
            columns = len(self.declared.features)
        return self.kernels(columns).source("sgd_pass").text

    # ---- the numeric side --------------------------------------------------------------------------------

    def kernels(self, columns: int) -> Kernels:
        """Return the compiled kernels for a number of columns of X.

        Parameters
        ----------
        columns : int
            The number of columns of X.
        """
        return _kernels(self, columns)

    def number_of_parameters(self, columns: int) -> int:
        """Return the length of theta for a number of columns of X."""
        return self._derivation.program.number_of_parameters(columns)

    def noise_vector(self, columns: int) -> FloatArray:
        """Return what kernels are told of the noise: variances, target variance, label gain.

        Parameters
        ----------
        columns : int
            The number of columns of X.

        Returns
        -------
        array of shape (number of variances + 2,), float64
            Zeros and gain 1 for ``method="none"``.
        """
        count = self._derivation.program.number_of_variances(columns)
        noise = np.zeros(count + 2)
        if self.method != "none":
            noise[:columns] = self.release.feature_variances(columns)
        noise[count], noise[count + 1] = self._target_variance, self._gain
        return noise

    def score_variance(self, theta: ArrayLike) -> float:
        """Return s = theta'D theta, the noise variance of the score at theta.

        Parameters
        ----------
        theta : array of shape (p,) or (p + 1,)
            The parameters, intercept last.
        """
        theta = np.asarray(theta, dtype=float)
        columns = len(theta) - self.release.fit_intercept
        variances = self.release.feature_variances(columns)
        return float(variances @ theta[:columns] ** 2)

    def checked_data(self, X: Any, y: Any, *, check_finite: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return records as checked float64 arrays, with labels checked against the declared values.

        Parameters
        ----------
        X : array of shape (n, p) or table
            The (noised) records.
        y : array of shape (n,)
            The (noised) targets.
        check_finite : bool
            False leaves NaN and infinity in X to a caller that finds them in its own pass.

        Returns
        -------
        X : array of shape (n, p), float64
            In the order of the release's columns.
        y : array of shape (n,), float64
            The targets.

        Raises
        ------
        ValueError, TypeError
            The data do not fit; the message names the row and column.
        """
        matrix = self.release.design_matrix(X, check_finite=check_finite)
        if not self.declared.scores and matrix.shape[1] != len(self.declared.features):
            raise ValueError(
                f"X has {matrix.shape[1]} columns, but the loss has the {len(self.declared.features)} features "
                f"{', '.join(symbol.name for symbol in self.declared.features)}. Pass one column per feature."
            )
        values = self.declared.target_values
        if values is not None and not isinstance(self.release.target_noise, AdditiveNoise):
            target = label_array(y, values, rows=len(matrix))
        else:
            target = target_array(y, rows=len(matrix))
        return matrix, target

    def _checked(self, theta: Any, X: Any, y: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        matrix, target = self.checked_data(X, y)
        columns = matrix.shape[1]
        vector = parameter_vector(theta, self.number_of_parameters(columns))
        noise = self.noise_vector(columns)
        if self.declared.scores:
            variance = float(noise[: len(vector)] @ vector**2)
            if not variance < self.variance_limit:
                raise NoExactCorrectionError(
                    f"at this theta the noise variance of the score is {variance:.4g}, and the correction of "
                    f"{self.declared.expression} exists below {self.variance_limit:.4g} only. Keep theta in a "
                    "smaller ball, or release with less noise."
                )
        return vector, matrix, target, noise

    def loss(self, theta: ArrayLike, X: Any, y: Any) -> FloatArray:
        """Return the corrected loss of each record.

        Parameters
        ----------
        theta : array of shape (q,)
            The parameters; with an intercept q = p + 1, intercept last.
        X : array of shape (n, p) or table
            The noised records.
        y : array of shape (n,)
            The noised targets.

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
        vector, matrix, target, noise = self._checked(theta, X, y)
        out = np.empty(len(matrix))
        self.kernels(matrix.shape[1]).loss(vector, matrix, target, noise, out)
        return out

    def gradient(self, theta: ArrayLike, X: Any, y: Any) -> FloatArray:
        """Return the corrected gradient of each record.

        Parameters
        ----------
        theta, X, y
            As for `loss`.

        Returns
        -------
        array of shape (n, q), float64
            The derivative of `loss` by theta.
        """
        vector, matrix, target, noise = self._checked(theta, X, y)
        out = np.empty((len(matrix), len(vector)))
        self.kernels(matrix.shape[1]).gradient(vector, matrix, target, noise, out)
        return out

    def _means(
        self, theta: Any, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Kernels, bool, tuple[Any, ...], FloatArray]:
        vector, matrix, target, noise = self._checked(theta, X, y)
        weighted = sample_weight is not None
        weights = weights_array(sample_weight, rows=len(matrix)) if weighted else np.zeros(0)
        total = float(weights.sum()) if weighted else float(len(matrix))
        return self.kernels(matrix.shape[1]), weighted, (vector, matrix, target, weights, total, noise), vector

    def mean_loss(self, theta: ArrayLike, X: Any, y: Any, *, sample_weight: Any = None) -> float:
        """Return the mean corrected loss, without an array of the records' losses.

        Parameters
        ----------
        theta, X, y
            As for `loss`.
        sample_weight : array of shape (n,), optional
            Non-negative weights with a positive sum.

        Returns
        -------
        float
            The (weighted) mean.
        """
        kernels, weighted, arguments, _ = self._means(theta, X, y, sample_weight)
        return float(kernels.mean_loss(weighted=weighted)(*arguments))

    def mean_gradient(self, theta: ArrayLike, X: Any, y: Any, *, sample_weight: Any = None) -> FloatArray:
        """Return the mean corrected gradient, without an n x q array.

        Parameters
        ----------
        theta, X, y, sample_weight
            As for `mean_loss`.

        Returns
        -------
        array of shape (q,), float64
            The (weighted) mean.
        """
        kernels, weighted, arguments, vector = self._means(theta, X, y, sample_weight)
        out = np.zeros(len(vector))
        kernels.mean_gradient(weighted=weighted)(*arguments, out)
        return out

    def mean_hessian(self, theta: ArrayLike, X: Any, y: Any, *, sample_weight: Any = None) -> FloatArray:
        """Return the mean Hessian of the corrected loss, in one pass.

        Parameters
        ----------
        theta, X, y, sample_weight
            As for `mean_loss`.

        Returns
        -------
        array of shape (q, q), float64
            The (weighted) mean of g_2 x~x~' - g_3 (x~v' + v x~') + g_4 vv' - g_2 D, v = D theta, for an exact
            correction.
        """
        kernels, weighted, arguments, vector = self._means(theta, X, y, sample_weight)
        out = np.zeros((len(vector), len(vector)))
        kernels.mean_hessian(weighted=weighted)(*arguments, out)
        return out

    # ---- the honest side ---------------------------------------------------------------------------------

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
        with the derivation.

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
        if not self.declared.scores:
            columns = len(self.declared.features)
        elif self.release.columns is not None:
            columns = len(self.release.columns)
        elif columns is None:
            columns = 1 + len(self.release.noiseless)
        variances = self.release.feature_variances(columns)
        record_radius = self.release.record_radius(columns)
        targets = self._target_noise()
        if self.declared.scores:
            return self._certify_score(theta_radius, variances, record_radius, targets)
        return self._certify_features(theta_radius, variances, record_radius, targets)

    def _target_noise(self) -> TargetNoise:
        noise = self.release.target_noise
        if isinstance(noise, FiniteChannel):
            inputs = tuple(float(value) for value in noise.inputs)
            outcomes = tuple(float(value) for value in noise.outputs)
            return TargetNoise(
                inputs, outcomes=(outcomes,) * len(inputs), probabilities=tuple(map(tuple, noise.matrix))
            )
        targets = default_targets(self.declared.target_values, self.release.target_radius)
        return TargetNoise(targets, noise.variance if noise is not None else 0.0)

    def _constants(self) -> dict[sp.Symbol, sp.Expr]:
        symbols = self._derivation.symbols
        return {
            symbols.target_variance: sp.Float(self._target_variance, 17),
            symbols.gain: sp.Float(self._gain, 17),
        }

    def _certify_score(
        self, theta_radius: float, variances: FloatArray, record_radius: float, targets: TargetNoise
    ) -> Certificate:
        program = self._derivation.program
        assert isinstance(program, ScoreProgram)
        if self.release.fit_intercept:
            record_radius = math.hypot(record_radius, 1.0)
        largest = float(variances.max(initial=0.0))
        variance = largest * theta_radius**2
        found = {"loss_bias": math.inf, "gradient_bias": math.inf, "loss_scale": 1.0, "gradient_scale": 1.0}
        found["quadrature_error"] = math.nan
        if variance < self.variance_limit:
            arguments = (program.score, program.target, program.score_variance)
            corrected, slope, curvature = (
                numeric(part.xreplace(self._constants()), arguments)
                for part in (program.expression, program.slope, program.curvature)
            )
            u, y = program.score, program.target
            problem = ScoreProblem(
                numeric(self.declared.expression, (u, y)),
                numeric(sp.diff(self.declared.expression, u), (u, y)),
                *(_with_variance_last(f) for f in (corrected, slope, curvature)),
            )
            found = score_biases(
                problem,
                score_bound=theta_radius * record_radius,
                variance=variance,
                record_radius=record_radius,
                noise_norm=largest * theta_radius,
                target_noise=targets,
            )
        return Certificate(
            method=self.method,
            exact=self.is_exact,
            theta_radius=theta_radius,
            record_radius=record_radius,
            score_bound=theta_radius * record_radius,
            noise_variance=variance,
            targets=targets.targets,
            variance_limit=self.variance_limit,
            finite_variance_limit=self.finite_variance_limit,
            **found,
        )

    def _certify_features(
        self, theta_radius: float, variances: FloatArray, record_radius: float, targets: TargetNoise
    ) -> Certificate:
        program = self._derivation.program
        assert isinstance(program, FeatureProgram)
        constants = self._constants() | dict(zip(program.variances, map(sp.Float, variances), strict=True))
        arguments = (*program.features, *program.parameters, program.target)
        declared = self.declared.expression
        found = feature_biases(
            numeric(declared, arguments),
            [numeric(sp.diff(declared, parameter), arguments) for parameter in program.parameters],
            numeric(program.expression.xreplace(constants), arguments),
            [numeric(part.xreplace(constants), arguments) for part in program.gradient],
            variances=variances,
            number_of_parameters=len(program.parameters),
            record_radius=record_radius,
            theta_radius=theta_radius,
            target_noise=targets,
        )
        return Certificate(
            method=self.method,
            exact=self.is_exact,
            theta_radius=theta_radius,
            record_radius=record_radius,
            score_bound=math.inf,
            noise_variance=float(variances.max(initial=0.0)),
            targets=targets.targets,
            variance_limit=math.inf,
            finite_variance_limit=math.inf,
            **found,
        )


def _with_variance_last(function: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
    return lambda scores, target, variance: function(scores, target, np.full((1, 1), variance))


def _gain(channel: FiniteChannel) -> float:
    """Return the gain of the unbiased label estimate: the input distance over the distance of the means."""
    (a, b), outputs = channel.inputs, np.asarray(channel.outputs, dtype=float)
    at_a, at_b = np.asarray(channel.matrix) @ outputs
    return float((b - a) / (at_b - at_a))


@functools.lru_cache(maxsize=256)
def _kernels(corrected: CorrectedLoss, columns: int) -> Kernels:
    return Kernels(corrected._derivation.program, columns)
