"""The methods of the literature on measurement error, for an honest comparison with a corrected fit.

No correction, regression calibration, SIMEX, the conditional score and the Monte-Carlo corrected score, each on the
records and the release that `symdebias.debias` takes. Regression calibration and SIMEX minimise the declared loss with
the noise of the labels undone exactly, and approximate what the noise of the features does. The two scores solve an
equation whose mean is zero at the true parameters. `compare_methods` runs them beside a corrected fit.
"""

import math
import textwrap
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import minimize_scalar, root
from scipy.special import expit, gammaln, wrightomega

from symdebias._arrays import check_same_index
from symdebias._domains import COUNT, NON_NEGATIVE, Interval, shown
from symdebias._randomness import generator, spawn
from symdebias.correction import Correction, columns_to_show
from symdebias.driver import debias
from symdebias.exceptions import (
    DivergenceError,
    InferenceError,
    NoExactCorrectionError,
    SymdebiasError,
    VarianceWarning,
)
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, ChannelNoise
from symdebias.release import Release
from symdebias.solvers.m_estimation import m_estimate
from symdebias.transforms import unbiased_weights

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Equation = Callable[[FloatArray], FloatArray]

# A root is taken where Newton's next step is shorter than this, in units of the parameters' columns.
_CLOSE = 1e-6
# Evaluations for each parameter, and for four more, before the search is given up.
_EVALUATIONS = 10
# From this condition number on a root is one of many.
_WORST_CONDITION = 1e10
# A root of a score this many times as long as the pilot is another one than the consistent one.
_FARTHEST = 3.0
# Where a declared loss is held against those that have a conditional score, and to which error.
_PROBES, _DIGITS = (-2.3, -0.7, 0.4, 1.1, 2.9), 30
# Terms of a sum over counts: so many standard deviations around the mode, and so many more.
_REACH, _MORE, _MOST_TERMS = 12.0, 25, 20_000
# The step of the grid of levels that means of counts are read off.
_GRID_STEP = 0.01
# Numbers held at a time.
_CHUNK = 4_000_000
# Where the pole of a rational extrapolant may lie: at -1/t for t within these.
_POLES = (-0.4, 0.98)
# The length of a refusal in a table; the whole of it is on the row.
_SHORT = 110
_LEVEL = Interval(0.0, 100.0, "right", "Give how much noise is added, in multiples of the noise that is there.")


@dataclass(frozen=True, eq=False)
class Baseline:
    """A fit by a method of the literature.

    Attributes
    ----------
    method : str
        Its name.
    description : str
        What it does.
    theta : array of shape (q,), or (K, q) for K scores, float64
        The parameters, read-only; intercept last.
    names : tuple of str
        Names of the parameters of one score.
    covariance : array of shape (Q, Q), float64, or None
        The estimated covariance of all parameters, scores after one another: a sandwich of the method's own equations.
        It says how theta scatters, not how far it is off by bias.
    notes : tuple of str
        What to know of the fit.
    """

    method: str
    description: str
    theta: FloatArray
    names: tuple[str, ...]
    covariance: FloatArray | None
    notes: tuple[str, ...] = ()

    @property
    def standard_errors(self) -> FloatArray | None:
        """The roots of the diagonal of `covariance`, in the shape of theta, or None."""
        if self.covariance is None:
            return None
        errors: FloatArray = np.sqrt(np.diag(self.covariance)).reshape(self.theta.shape)
        return errors

    def __str__(self) -> str:
        names = _entry_names(self.names, self.theta)
        width = max(9, *(len(name) for name in names))
        errors = self.standard_errors
        known = [""] * self.theta.size if errors is None else [f"{error:>12.4g}" for error in errors.ravel()]
        lines = [
            f"{self.method}: {self.description}",
            f"  {'parameter':<{width}}  {'theta':>12}" + ("" if errors is None else f"  {'std. error':>12}"),
        ]
        for name, value, error in zip(names, self.theta.ravel(), known, strict=True):
            lines.append(f"  {name:<{width}}  {value:>12.6g}  {error}".rstrip())
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


@dataclass(frozen=True, eq=False)
class ComparisonRow:
    """One method of a comparison.

    Attributes
    ----------
    method : str
        Its name.
    theta : array of shape (q,) or (K, q), float64, or None
        The parameters; None where the method refused.
    standard_errors : array of the shape of theta, or None
        Where the method has them.
    distance : float or None
        The Euclidean distance to the true parameters, where these were given.
    seconds : float
        Time, compilation included.
    refusal : str or None
        Why the method refused.
    notes : tuple of str
        What to know of the fit.
    """

    method: str
    theta: FloatArray | None
    standard_errors: FloatArray | None
    distance: float | None
    seconds: float
    refusal: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side; printed as a table.

    Attributes
    ----------
    rows : tuple of ComparisonRow
        One for each method, in the order asked for.
    names : tuple of str
        Names of the parameters of one score.
    records : int
        The number of records.
    true_theta : array of shape (q,) or (K, q), float64, or None
        The true parameters, where they were given.
    """

    rows: tuple[ComparisonRow, ...]
    names: tuple[str, ...]
    records: int
    true_theta: FloatArray | None = None

    def __getitem__(self, method: str) -> ComparisonRow:
        for row in self.rows:
            if row.method == method:
                return row
        raise KeyError(f"{method!r:.60} was not compared. The rows are {', '.join(row.method for row in self.rows)}.")

    def __str__(self) -> str:
        truth = self.true_theta
        found = truth if truth is not None else next((row.theta for row in self.rows if row.theta is not None), None)
        names = () if found is None else _entry_names(self.names, found)
        width = max(8, *(len(row.method) for row in self.rows))
        cell = max(17, 2 + max((len(name) for name in names), default=0))
        distance = "" if truth is None else f"{'distance':>11}"
        lines = [
            f"{self.records:,} records; theta (standard error)",
            f"{'':<{width}}" + "".join(f"{name:>{cell}}" for name in names) + distance + f"{'seconds':>10}",
        ]
        if truth is not None:
            lines.append((f"{'true':<{width}}" + "".join(f"{f'{v:.4g}':>{cell}}" for v in truth.ravel())).rstrip())
        notes = []
        for row in self.rows:
            if row.theta is None:
                lines.append(f"{row.method:<{width}}  refused: {textwrap.shorten(str(row.refusal), _SHORT)}")
                continue
            errors = [None] * row.theta.size if row.standard_errors is None else list(row.standard_errors.ravel())
            cells = [
                f"{value:.4g}" + ("" if error is None else f" ({error:.2g})")
                for value, error in zip(row.theta.ravel(), errors, strict=True)
            ]
            away = "" if row.distance is None else f"{row.distance:>11.3g}"
            lines.append(
                f"{row.method:<{width}}" + "".join(f"{text:>{cell}}" for text in cells) + away + f"{row.seconds:>10.2g}"
            )
            notes += [f"{row.method}: {note}" for note in row.notes]
        return "\n".join([*lines, *notes])


# ---- the methods -----------------------------------------------------------------------------------------


def naive(loss: Loss, release: Release, X: Any, y: Any, *, l2: float = 0.0) -> Baseline:
    """Minimise the declared loss on released records as if they were true ones.

    Parameters
    ----------
    loss : Loss
        The declared loss.
    release : Release
        How the records were noised; nothing of it is undone, the labels' noise neither.
    X : array of shape (n, p) or table
        The released records.
    y : array of shape (n,)
        The released targets.
    l2 : float
        Regularisation + l2/2 ||theta||^2, in [0, inf); the intercept is not penalised.

    Returns
    -------
    Baseline
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
    >>> fit = sd.naive(sd.losses.least_squares(), noised.release, noised.X, noised.y)
    >>> bool(abs(fit.theta[0] - 1.0) < 0.05)  # half of 2: noise and signal have the same variance
    True
    """
    l2 = NON_NEGATIVE.check("l2", l2)
    plain = debias(loss, release, method="none")
    if plain.at(columns_to_show(loss, release)).uncorrected is None:
        raise NoExactCorrectionError(
            "the release sends other values than the true ones, so that its records have no uncorrected fit. Use a "
            "method that undoes the channel."
        )
    records = plain.records(X, y)
    data, target = records.encoded
    problem = _Problem.of(records.correction, data, l2)
    theta, slope = problem.minimum(data, target)
    influence = _influence(problem.rows(theta, data, target), slope)
    return _baseline("naive", problem, theta, influence)


def regression_calibration(loss: Loss, release: Release, X: Any, y: Any, *, l2: float = 0.0) -> Baseline:
    """Replace each released record by the best linear prediction of the true one, and minimise the declared loss.

    The prediction is mu + S (S + D)^-1 (x~ - mu), with D the covariance of the noise and S the debiased covariance of
    the true records; the noise of the labels is undone exactly.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `naive`. Columns with additive noise of any kind, and columns without noise.

    Returns
    -------
    Baseline
        The parameters, with a sandwich covariance that takes in the estimation of mu and S.

    Raises
    ------
    NoExactCorrectionError
        A column of categories is noised; the noise of the target has no exact inverse; or the noise hides all variation
        of a column.
    DivergenceError
        No minimum was found, or it is not the only one.
    ValueError, TypeError
        An argument or the data do not fit.

    Notes
    -----
    Exact for least squares. For other losses it is an approximation that is good while theta'Cov(x | x~)theta is
    small; more records do not remove its bias.

    References
    ----------
    Carroll & Stefanski 1990; Carroll et al. 2006, *Measurement Error in Nonlinear Models*, Chapter 4.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> x = np.random.default_rng(0).normal(size=(20_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(1.0)).privatize(x, 2 * x[:, 0], random_state=1)
    >>> fit = sd.regression_calibration(sd.losses.least_squares(), noised.release, noised.X, noised.y)
    >>> bool(abs(fit.theta[0] - 2.0) < 0.1)
    True
    """
    l2 = NON_NEGATIVE.check("l2", l2)
    records = _Records.of(loss, release, X, y)
    theta, influence, problem = _calibrated_fit(records, l2, errors=True)
    return _baseline("regression_calibration", problem, theta, influence)


def simex(
    loss: Loss,
    release: Release,
    X: Any,
    y: Any,
    *,
    l2: float = 0.0,
    extrapolant: str = "quadratic",
    levels: Sequence[float] = (0.5, 1.0, 1.5, 2.0),
    repeats: int = 20,
    random_state: int | np.random.Generator | None = None,
) -> Baseline:
    """Add more noise to the released records, fit each time, and extrapolate to no noise.

    With normal noise of covariance lambda D added, the noise is (1 + lambda) D; the fits as a function of lambda are
    extrapolated to lambda = -1. The noise of the labels is undone exactly.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `regression_calibration`.
    extrapolant : {"quadratic", "linear", "rational-linear"}
        The function of lambda, for each parameter: a + b lambda + c lambda^2, a + b lambda, or
        a + b lambda/(1 + c lambda), which is exact for least squares with one column.
    levels : sequence of float
        The values of lambda > 0; 0 is always among them.
    repeats : int
        How often records are remeasured at each level, at least 1.
    random_state : int, numpy.random.Generator or None
        For the noise that is added.

    Returns
    -------
    Baseline
        The parameters, with a sandwich covariance of the extrapolated estimate.

    Raises
    ------
    NoExactCorrectionError
        A column of categories is noised, or the noise of the target has no exact inverse.
    DivergenceError
        A fit found no minimum, or the pole of a rational extrapolant lies at lambda = -1.
    ValueError, TypeError
        An argument or the data do not fit.

    Notes
    -----
    The bias that remains is that of the extrapolant: more records and more repeats do not remove it. It is small while
    the noise is small beside the spread of the columns. Noise that is not normal is taken by its covariance.

    References
    ----------
    Cook & Stefanski 1994; Carroll, Kuechenhoff, Lombard & Stefanski 1996 (the covariance).

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> x = np.random.default_rng(0).normal(size=(20_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.5)).privatize(x, 2 * x[:, 0], random_state=1)
    >>> fit = sd.simex(sd.losses.least_squares(), noised.release, noised.X, noised.y, repeats=5, random_state=2)
    >>> bool(abs(fit.theta[0] - 2.0) < 0.1)
    True
    """
    l2 = NON_NEGATIVE.check("l2", l2)
    needed = {"linear": 2, "quadratic": 3, "rational-linear": 3}
    if extrapolant not in needed:
        raise ValueError(f"extrapolant={extrapolant!r:.60} is not known. Choose one of {', '.join(needed)}.")
    at = _checked_levels(levels)
    if len(at) < needed[extrapolant]:
        raise ValueError(
            f"levels has {len(at) - 1} values, and a {extrapolant} extrapolant needs {needed[extrapolant] - 1}. Give "
            "more, such as levels=(0.5, 1.0, 1.5, 2.0)."
        )
    repeats = COUNT.check("repeats", repeats)
    rng = generator(random_state)
    records = _Records.of(loss, release, X, y)
    problem = _Problem.of(records.labelled, records.matrix, l2)
    thetas: list[FloatArray] = []
    influences: list[FloatArray] = []
    for level in at:
        draws = 1 if level == 0 else repeats
        start = thetas[0] if thetas else None
        theta, slope = np.zeros(problem.size), np.zeros((problem.size, problem.size))
        rows = np.zeros((len(records.matrix), problem.size))
        for _ in range(draws):
            remeasured = records.matrix if level == 0 else records.matrix + math.sqrt(level) * records.noise(rng)
            one, one_slope = problem.minimum(remeasured, records.target, start)
            theta, slope = theta + one / draws, slope + one_slope / draws
            rows += problem.rows(one, remeasured, records.target) / draws
        thetas.append(theta)
        influences.append(_influence(rows, slope))
    found, shares = _extrapolated(at, np.array(thetas), extrapolant)
    influence = np.einsum("ks,kns->ns", shares, np.array(influences))
    added = ", ".join(f"{level:g}" for level in at[1:])
    note = f"{extrapolant} extrapolant, lambda {added}, {repeats} remeasurements each"
    return _baseline("simex", problem, found, influence, (note,))


def conditional_score(loss: Loss, release: Release, X: Any, y: Any, *, l2: float = 0.0) -> Baseline:
    """Solve the equation of a record given a statistic that is sufficient for its true features.

    Under normal noise of known covariance D the law of y given d = x~ + y D theta does not depend on the true x, and

        mean (y - E[y | d]) d = 0.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `naive`: the log loss of two labels or the Poisson loss, columns with normal noise or none.

    Returns
    -------
    Baseline
        The parameters, with a sandwich covariance.

    Raises
    ------
    NoExactCorrectionError
        The loss, or the noise of a column or of the target, is another one.
    DivergenceError
        No root was found near that of regression calibration.
    ValueError, TypeError
        An argument or the data do not fit.

    Notes
    -----
    For two labels 0 and 1, E[y | d] = 1/(1 + exp(-(d'theta - s/2))), s = theta'D theta, and the equation is weighted by
    d - D theta/2. The noise of the labels is undone by the values of the equation at both labels, with the weights that
    undo the channel. For counts, y given d has probabilities proportional to exp(y d'theta - y^2 s/2)/y!. For least
    squares the method is the corrected score, which needs no residual variance: use `debias`.

    There may be other roots, and far from the truth the equation goes to zero by itself: the root is sought from
    regression calibration, and one more than three times as far from zero is refused.

    References
    ----------
    Stefanski & Carroll 1987, Section 2.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-x[:, 0])), 1, -1)
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(1.0)).privatize(x, y, random_state=1)
    >>> fit = sd.conditional_score(sd.losses.logistic(), noised.release, noised.X, noised.y)
    >>> bool(abs(fit.theta[0] - 1.0) < 0.2)
    True
    """
    l2 = NON_NEGATIVE.check("l2", l2)
    records = _Records.of(loss, release, X, y)
    records.require_normal("the conditional score")
    family = _family(loss)
    if family is None:
        raise NoExactCorrectionError(
            f"the conditional score is known here for the log loss of two labels and the Poisson loss; got "
            f"{loss.expression}. For a loss with a corrected score use debias."
        )
    if family == "logistic":
        rows = _logistic_score(records)
    else:
        if release.target is not None:
            raise NoExactCorrectionError(
                "the conditional score of counts needs them as they are, and the release noises its target. Use "
                "debias, which takes an unbiased release of counts as it stands."
            )
        if not (np.all(records.y >= 0) and np.all(records.y == np.floor(records.y))):
            raise NoExactCorrectionError(
                "the conditional score of the Poisson loss is that of counts, and y has values which are no "
                "non-negative integers. Use debias, which needs the mean of y alone."
            )
        rows = _poisson_score(records)
    return _score_fit("conditional_score", records, rows, l2)


def monte_carlo_score(
    loss: Loss,
    release: Release,
    X: Any,
    y: Any,
    *,
    l2: float = 0.0,
    draws: int = 10,
    poles: str = "refuse",
    random_state: int | np.random.Generator | None = None,
) -> Baseline:
    """Average the gradient of the loss over complex records x~ + i w, w drawn like the noise.

    For an entire loss the real part of the mean is the corrected gradient, by draws in place of a closed form.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `naive`: a loss of one score, columns with normal noise or none.
    draws : int
        Draws of w for each record, at least 1. They are the same ones at every theta.
    poles : {"refuse", "ignore"}
        What to do where the loss is not entire, as the log loss: refuse, or pass the singularities by. The mean over
        complex records then estimates something else than the corrected gradient, and the fit is biased at any number
        of records; this is for comparisons that show it.
    random_state : int, numpy.random.Generator or None
        For the draws.

    Returns
    -------
    Baseline
        The parameters, with a sandwich covariance that takes in the draws.

    Raises
    ------
    NoExactCorrectionError
        The loss is not entire or has several scores, or a column has another noise.
    DivergenceError
        No root was found near that of regression calibration.
    ValueError, TypeError
        An argument or the data do not fit.

    References
    ----------
    Novick & Stefanski 2002, Section 2; Stefanski 1989.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(20_000, 1))
    >>> y = rng.poisson(np.exp(0.5 * x[:, 0]))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.5)).privatize(x, y, random_state=1)
    >>> fit = sd.monte_carlo_score(sd.losses.poisson(), noised.release, noised.X, noised.y, random_state=2)
    >>> bool(abs(fit.theta[0] - 0.5) < 0.1)
    True
    """
    l2 = NON_NEGATIVE.check("l2", l2)
    draws = COUNT.check("draws", draws)
    if poles not in ("refuse", "ignore"):
        raise ValueError(f'poles={poles!r:.60} is not known. Choose "refuse" or "ignore".')
    seeds = [int(seed) for seed in generator(random_state).integers(2**63, size=draws)]
    records = _Records.of(loss, release, X, y)
    records.require_normal("the Monte-Carlo corrected score")
    if len(loss.scores) != 1:
        raise NoExactCorrectionError(
            "the Monte-Carlo corrected score is written here for a loss of one score. Declare the loss in its score, "
            "or use debias."
        )
    if poles == "refuse":
        # Where the loss is not entire this says why, with the place of the singularity.
        debias(loss, release, method="quadrature", nodes=2)
    notes = () if poles == "refuse" else ("the loss was not checked for singularities: the fit may be biased",)
    return _score_fit("monte_carlo_score", records, _complex_score(records, seeds), l2, notes)


# ---- records and equations -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Records:
    """Released records, the covariance of their noise, and the declared loss with the noise of labels undone."""

    loss: Loss
    release: Release
    labelled: Correction
    matrix: FloatArray
    y: FloatArray
    target: FloatArray
    covariance: FloatArray

    @classmethod
    def of(cls, loss: Loss, release: Release, X: Any, y: Any) -> "_Records":
        plain = debias(loss, release, method="none")
        matrix = release.design_matrix(X)
        columns = matrix.shape[1]
        if release.design(columns).categorical:
            raise NoExactCorrectionError(
                "the methods for measurement error take columns with additive noise, and the release noises a column "
                "of categories. Use debias, which undoes the channel."
            )
        names = release.columns or tuple(f"x{index}" for index in range(columns))
        clean = Release(None, release.target, noiseless=names, fit_intercept=release.fit_intercept)
        labelled = debias(loss, clean, method="none" if release.target is None else "exact")
        check_same_index(X, y)
        records = labelled.records(matrix, y)
        data, target = records.encoded
        covariance = plain.at(columns).noise_covariance()
        return cls(loss, release, records.correction, data, records.target, target, covariance)

    @property
    def columns(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def extended(self) -> FloatArray:
        """The records with a column of ones for the intercept."""
        if not self.release.fit_intercept:
            return self.matrix
        return np.hstack([self.matrix, np.ones((len(self.matrix), 1))])

    @property
    def extended_covariance(self) -> FloatArray:
        extra = int(self.release.fit_intercept)
        return np.pad(self.covariance, (0, extra))

    @property
    def noise_root(self) -> FloatArray:
        """R with D = R R', one row for each column of X."""
        sizes, vectors = np.linalg.eigh(self.covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(sizes, 0.0)))

    def noise(self, rng: np.random.Generator) -> FloatArray:
        """Return normal noise of the covariance for every record."""
        return np.asarray(rng.normal(size=self.matrix.shape) @ self.noise_root.T)

    def label_weights(self) -> FloatArray:
        """Return weights of shape (n, k) for the declared values of the target, which undo its noise."""
        values = self.loss.target_values
        assert values is not None
        noise = self.release.target_noise
        if isinstance(noise, ChannelNoise):
            weights = unbiased_weights(noise)[0][:, [noise.inputs.index(value) for value in values]]
            return np.asarray(weights[self.labelled.codes_of_targets(self.y)])
        if noise is None:
            return np.asarray(self.y[:, None] == np.array(values), dtype=np.float64)
        # Two values, on which every function is affine, and noise of mean 0.
        high = (self.y - values[0]) / (values[1] - values[0])
        return np.column_stack([1 - high, high])

    def require_normal(self, what: str) -> None:
        for place, noise in self.release.noises(self.columns):
            if isinstance(noise, AdditiveNoise) and not noise.is_gaussian:
                names = self.labelled.release.columns or ()
                raise NoExactCorrectionError(
                    f"{what} is for normal noise, and that of {', '.join(names[place])} is another. Use debias, which "
                    "undoes it, or regression_calibration or simex, which take its covariance."
                )


@dataclass(frozen=True, eq=False)
class _Problem:
    """The mean gradient of a loss on records that are changed from fit to fit, with its penalty."""

    correction: Correction
    penalty: FloatArray
    units: FloatArray

    @classmethod
    def of(cls, correction: Correction, data: FloatArray, l2: float) -> "_Problem":
        units = np.ones(correction.number_of_parameters)
        rms = np.sqrt(np.mean(data**2, axis=0))
        if correction.loss.scores:
            correction.shaped(units)[..., : len(rms)] = np.where(rms > 0, rms, 1.0)
        return cls(correction, correction.penalty(l2), units)

    @property
    def size(self) -> int:
        return len(self.penalty)

    def mean(self, data: FloatArray, target: FloatArray) -> Equation:
        """Return the mean gradient as a function of theta: one compiled pass."""
        kernel = self.correction.kernels.mean_gradient(weighted=False)
        nothing, total = np.zeros(0), float(len(data))
        data = np.ascontiguousarray(data)

        def equation(theta: FloatArray) -> FloatArray:
            out = np.zeros(self.size)
            kernel(theta, data, target, nothing, total, self.correction.noise, out)
            return out + self.penalty * theta

        return equation

    def rows(self, theta: FloatArray, data: FloatArray, target: FloatArray) -> FloatArray:
        """Return the gradients of the records, shape (n, q), without the penalty."""
        out = np.empty((len(data), self.size))
        kernel = self.correction.kernels.gradient
        kernel(theta, np.ascontiguousarray(data), target, self.correction.noise, out)
        return out

    def minimum(
        self, data: FloatArray, target: FloatArray, start: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the minimum and the Hessian there."""
        theta, slope = _root(self.mean(data, target), np.zeros(self.size) if start is None else start, self.units)
        scaled = slope / np.outer(self.units, self.units)
        if not np.linalg.eigvalsh((scaled + scaled.T) / 2).min() > 0:
            raise DivergenceError(
                f"the gradient vanishes at ||theta|| = {np.linalg.norm(theta):.4g}, which is no minimum. Raise l2, or "
                "use a convex loss."
            )
        return theta, slope


def _root(equation: Equation, start: FloatArray, units: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the root of an equation and its derivative there, or raise DivergenceError.

    `units` are the sizes of the columns: with theta counted in them, all parameters are of the same order.
    """

    def scaled(phi: FloatArray) -> FloatArray:
        return equation(phi / units) / units

    with np.errstate(all="ignore"):
        found = root(scaled, start * units, options={"maxfev": _EVALUATIONS * (4 + len(start))})
        phi, step, slope, condition = found.x, np.full(len(start), np.inf), np.eye(len(start)), math.inf
        if np.all(np.isfinite(phi)):
            slope = _derivative(scaled, phi)
            if np.all(np.isfinite(slope)):
                condition = float(np.linalg.cond(slope))
            if condition < _WORST_CONDITION:
                step = np.linalg.solve(slope, scaled(phi))
    length, norm = float(np.linalg.norm(step)), float(np.linalg.norm(start))
    if np.isfinite(condition) and not condition < _WORST_CONDITION:
        raise DivergenceError(
            f"the estimating equation does not decide theta: its derivative has the condition number {condition:.3g}. "
            "Raise l2, or leave out columns that others determine."
        )
    if not length <= _CLOSE * (1 + float(np.linalg.norm(phi))):
        raise DivergenceError(
            f"the estimating equation has no root that a search from ||theta|| = {norm:.4g} finds (it ended at "
            f"{np.linalg.norm(phi / units):.4g}). Use more records, raise l2, or release with less noise."
        )
    return np.asarray((phi - step) / units), np.asarray(slope * np.outer(units, units))


def _derivative(function: Equation, at: FloatArray) -> FloatArray:
    """Return the derivative by central differences, column by column."""
    columns = []
    for place in range(len(at)):
        step = np.zeros(len(at))
        step[place] = 1e-5 * max(1.0, abs(float(at[place])))
        columns.append((function(at + step) - function(at - step)) / (2 * step[place]))
    return np.array(columns).T


def _influence(rows: FloatArray, slope: FloatArray) -> FloatArray:
    """Return how much each record moves theta, times n: -A^-1 (g_i - mean g)."""
    return np.asarray(-np.linalg.solve(slope, (rows - rows.mean(axis=0)).T).T)


def _baseline(
    method: str,
    problem: _Problem,
    theta: FloatArray,
    influence: FloatArray,
    notes: tuple[str, ...] = (),
) -> Baseline:
    covariance = influence.T @ influence / len(influence) ** 2
    covariance.setflags(write=False)
    shaped = problem.correction.shaped(theta.copy())
    shaped.setflags(write=False)
    return Baseline(method, _DESCRIPTIONS[method], shaped, _names(problem.correction), covariance, notes)


def _names(correction: Correction) -> tuple[str, ...]:
    """Return the names of the parameters of one score, also where the release has none for its columns."""
    if not correction.loss.scores:
        return tuple(symbol.name for symbol in correction.loss.parameters)
    return correction.design.parameters


def _entry_names(names: tuple[str, ...], theta: FloatArray) -> list[str]:
    if theta.ndim == 1:
        return list(names)
    return [f"{score}: {name}" for score in range(len(theta)) for name in names]


# ---- regression calibration ------------------------------------------------------------------------------


def _calibrated_fit(records: _Records, l2: float, *, errors: bool) -> tuple[FloatArray, FloatArray, _Problem]:
    """Return the fit on calibrated records and, where asked for, how much each record moves it."""
    centred = records.matrix - records.matrix.mean(axis=0)
    spread = centred.T @ centred / len(centred)
    # S (S + D)^-1 = 1 - D (S + D)^-1, with S + D the covariance of released records.
    inverse = np.linalg.pinv(spread, rcond=1e-12, hermitian=True)
    shrink = records.covariance @ inverse
    reliabilities = 1 - np.real(np.linalg.eigvals(shrink))
    if not reliabilities.min() > 0:
        raise NoExactCorrectionError(
            "the noise hides all variation of the features: their debiased covariance is not positive definite. Use "
            "more records or less noise."
        )
    calibrated = records.matrix - centred @ shrink.T
    problem = _Problem.of(records.labelled, calibrated, l2)
    theta, slope = problem.minimum(calibrated, records.target)
    rows = problem.rows(theta, calibrated, records.target) if errors else np.zeros((0, problem.size))
    if errors:
        # A record moves mu by c_i/n and S + D by (c_i c_i' - S - D)/n; both move every calibrated record.
        whitened = centred @ inverse
        pulled = whitened @ records.covariance
        for place in np.flatnonzero(np.diag(records.covariance)):
            step = np.zeros(records.columns)
            step[place] = 1e-5 * math.sqrt(spread[place, place])
            change = problem.rows(theta, calibrated + step, records.target)
            change = (change - problem.rows(theta, calibrated - step, records.target)) / (2 * step[place])
            by_mean = change.mean(axis=0)
            by_spread = centred.T @ change / len(centred)
            rows = rows + pulled[:, [place]] * (by_mean + whitened @ by_spread)
        return theta, _influence(rows, slope), problem
    return theta, rows, problem


# ---- SIMEX -----------------------------------------------------------------------------------------------


def _checked_levels(levels: Sequence[float]) -> FloatArray:
    if isinstance(levels, (str, bytes)) or not hasattr(levels, "__iter__"):
        raise TypeError(f"levels must be a sequence of numbers; got {type(levels).__name__}. Pass a tuple.")
    values = [_LEVEL.check(f"levels[{index}]", value) for index, value in enumerate(levels)]
    if len(set(values)) < len(values):
        raise ValueError(f"levels={shown(tuple(values), 100)} repeats a value. Give each once.")
    return np.array([0.0, *sorted(values)])


def _extrapolated(at: FloatArray, thetas: FloatArray, extrapolant: str) -> tuple[FloatArray, FloatArray]:
    """Return the parameters at lambda = -1, and their derivatives by the fits, of shapes (q,) and (levels, q)."""
    if extrapolant != "rational-linear":
        degree = 1 if extrapolant == "linear" else 2
        shares = (-1.0) ** np.arange(degree + 1) @ np.linalg.pinv(np.vander(at, degree + 1, increasing=True))
        return shares @ thetas, np.repeat(shares[:, None], thetas.shape[1], axis=1)
    found = [_rational(at, column) for column in thetas.T]
    return np.array([value for value, _ in found]), np.array([shares for _, shares in found]).T


def _rational(at: FloatArray, values: FloatArray) -> tuple[float, FloatArray]:
    """Fit a + b lambda/(1 + t lambda) and return its value at lambda = -1, with its derivative by the values."""

    def design(t: float) -> FloatArray:
        return np.column_stack([np.ones(len(at)), at / (1 + t * at)])

    def misfit(t: float) -> float:
        basis = design(t)
        return float(np.sum((values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0]) ** 2))

    grid = np.linspace(*_POLES, 139)
    best = int(np.argmin([misfit(t) for t in grid]))
    if best == len(grid) - 1:
        raise DivergenceError(
            "the pole of a rational extrapolant lies at lambda = -1: a parameter does not extrapolate to no noise. Use "
            'extrapolant="quadratic", more repeats, or less noise.'
        )
    bounds = (grid[max(best - 1, 0)], grid[best + 1])
    t = float(minimize_scalar(misfit, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x)
    a, b = np.linalg.lstsq(design(t), values, rcond=None)[0]
    slopes = np.column_stack([design(t), -b * at**2 / (1 + t * at) ** 2])
    outside = np.array([1.0, -1 / (1 - t), -b / (1 - t) ** 2])
    return float(a - b / (1 - t)), np.asarray(outside @ np.linalg.pinv(slopes))


# ---- scores ----------------------------------------------------------------------------------------------


def _score_fit(method: str, records: _Records, rows: Equation, l2: float, notes: tuple[str, ...] = ()) -> Baseline:
    """Solve mean rows(theta) + l2 theta = 0 from regression calibration."""
    pilot, _, problem = _calibrated_fit(records, l2, errors=False)

    def equation(theta: FloatArray) -> FloatArray:
        return np.asarray(rows(theta).mean(axis=0) + problem.penalty * theta)

    theta, slope = _root(equation, pilot, problem.units)
    length = float(np.linalg.norm(theta * problem.units))
    near = _FARTHEST * max(1.0, float(np.linalg.norm(pilot * problem.units)))
    if not length <= near:
        raise DivergenceError(
            f"the root at ||theta|| = {np.linalg.norm(theta):.4g} lies far from that of regression calibration at "
            f"{np.linalg.norm(pilot):.4g}: it is not the consistent one. Use more records, or release with less noise."
        )
    with np.errstate(all="ignore"):
        influence = _influence(rows(theta), slope)
    return _baseline(method, problem, theta, influence, notes)


def _family(loss: Loss) -> str | None:
    """Return the canonical model whose likelihood the loss is: "logistic", "poisson" or None."""
    if len(loss.scores) != 1:
        return None
    (u,), y = loss.scores, loss.target
    slope = sp.diff(loss.expression, u)
    values = (0, 1, 7) if loss.target_values is None else loss.target_values

    def agrees(model: Callable[[sp.Expr, float, int], sp.Expr]) -> bool:
        gaps = (
            slope.xreplace({u: sp.Float(at, _DIGITS), y: sp.Float(value, _DIGITS)})
            - model(sp.Float(at, _DIGITS), value, place)
            for at in _PROBES
            for place, value in enumerate(values)
        )
        return all(abs(complex(gap.evalf(_DIGITS))) < 1e-20 for gap in gaps)

    if len(values) == 2 and agrees(lambda at, value, place: 1 / (1 + sp.exp(-at)) - place):
        return "logistic"
    if agrees(lambda at, value, place: sp.exp(at) - sp.Float(value, _DIGITS)):
        return "poisson"
    return None


def _logistic_score(records: _Records) -> Equation:
    X, covariance, weights = records.extended, records.extended_covariance, records.label_weights()

    def rows(theta: FloatArray) -> FloatArray:
        total = np.zeros(X.shape)
        pull = covariance @ theta
        for label in (0, 1):
            d = X + (label - 0.5) * pull
            total -= (weights[:, label] * (label - expit(d @ theta)))[:, None] * d
        return total

    return rows


def _poisson_score(records: _Records) -> Equation:
    X, covariance, y = records.extended, records.extended_covariance, records.y

    def rows(theta: FloatArray) -> FloatArray:
        pull = covariance @ theta
        d = X + y[:, None] * pull
        expected = _expected_count(d @ theta, float(theta @ pull))
        return np.asarray(-(y - expected)[:, None] * d)

    return rows


def _expected_count(level: FloatArray, variance: float) -> FloatArray:
    """Return the mean of j under probabilities proportional to exp(j level - j^2 variance/2)/j!.

    For many levels it is read off a cubic through a fine grid, to a relative error of about 1e-10: its derivative by
    the level is the variance of j. It is NaN where that takes too many counts, which is no place for a root.
    """
    if variance == 0:
        return np.asarray(np.exp(level))
    low, high = float(np.min(level)), float(np.max(level))
    if not _GRID_STEP * len(level) > high - low:
        return _count_moments(level, variance)[0]
    grid = np.linspace(low, high, math.ceil((high - low) / _GRID_STEP) + 2)
    mean, spread = _count_moments(grid, variance)
    if not (low < high and np.all(np.isfinite(mean))):
        return np.full(len(level), mean[0] if low == high else np.nan)
    return np.asarray(CubicHermiteSpline(grid, mean, spread)(level))


def _count_moments(level: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance by the sum over counts around the mode m, log m + m variance = level."""
    mode = np.real(wrightomega(math.log(variance) + level)) / variance
    half = _REACH * np.sqrt(1 / (1 / np.maximum(mode, 1e-300) + variance)) + _MORE
    largest = float(np.max(half))
    if not largest <= _MOST_TERMS / 2:
        return np.full(len(level), np.nan), np.full(len(level), np.nan)
    offsets = np.arange(-math.ceil(largest), math.ceil(largest) + 1)
    mean, spread = np.empty(len(level)), np.empty(len(level))
    block = max(1, _CHUNK // len(offsets))
    for first in range(0, len(level), block):
        part = slice(first, first + block)
        counts = np.round(mode[part])[:, None] + offsets
        inside = counts >= 0
        counts = np.where(inside, counts, 0.0)
        weights = counts * level[part, None] - counts**2 * (variance / 2) - gammaln(counts + 1)
        weights = np.where(inside, weights, -np.inf)
        weights = np.exp(weights - weights.max(axis=1, keepdims=True))
        weights /= np.sum(weights, axis=1, keepdims=True)
        mean[part] = np.sum(weights * counts, axis=1)
        spread[part] = np.sum(weights * (counts - mean[part, None]) ** 2, axis=1)
    return mean, spread


def _complex_score(records: _Records, seeds: list[int]) -> Equation:
    """Return the gradients of the records, averaged over the draws; the same draws at every theta."""
    (u,), y = records.loss.scores, records.loss.target
    slope = sp.diff(records.loss.expression, u)
    names = (sp.Dummy("u"), sp.Dummy("y"))
    function = sp.lambdify(names, slope.xreplace({u: names[0], y: names[1]}), modules=["scipy", "numpy"])
    noise = records.release.target_noise
    affine = sp.diff(slope, y, 2) == 0
    values = records.loss.target_values
    weights = None
    if values is not None and (isinstance(noise, ChannelNoise) or (noise is not None and len(values) == 2)):
        weights = records.label_weights()
    spread = 0.0
    if weights is None and isinstance(noise, AdditiveNoise) and not affine:
        if not noise.is_gaussian:
            raise NoExactCorrectionError(
                "the Monte-Carlo corrected score is for normal noise, and the target has another. Use debias."
            )
        spread = math.sqrt(noise.variance)
    X, factor = records.extended, records.noise_root

    def rows(theta: FloatArray) -> FloatArray:
        total = np.zeros(X.shape)
        for seed in seeds:
            rng = np.random.default_rng(seed)
            moved = X.astype(complex)
            moved[:, : records.columns] += 1j * (rng.normal(size=records.matrix.shape) @ factor.T)
            score = moved @ theta
            with np.errstate(all="ignore"):
                if weights is None:
                    target = records.y + 1j * spread * rng.normal(size=len(X)) if spread else records.y
                    slopes = function(score, target)
                else:
                    assert values is not None
                    slopes = sum(weights[:, place] * function(score, value) for place, value in enumerate(values))
            total += np.real(np.broadcast_to(slopes, len(X))[:, None] * moved)
        return total / len(seeds)

    return rows


# ---- the comparison --------------------------------------------------------------------------------------

_DESCRIPTIONS = {
    "naive": "the declared loss on released records as if they were true",
    "regression_calibration": "the declared loss on predictions of the true records (Carroll & Stefanski 1990)",
    "simex": "fits with more and more noise, extrapolated to none (Cook & Stefanski 1994)",
    "conditional_score": "the score given a sufficient statistic of the true record (Stefanski & Carroll 1987)",
    "monte_carlo_score": "the score averaged over complex noise (Novick & Stefanski 2002)",
}

METHODS = (*_DESCRIPTIONS, "corrected")


def compare_methods(
    loss: Loss,
    release: Release,
    X: Any,
    y: Any,
    *,
    methods: Sequence[str] = METHODS,
    l2: float = 0.0,
    true_theta: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Comparison:
    """Fit the same released records by several methods.

    Parameters
    ----------
    loss, release, X, y, l2
        As for `naive`.
    methods : sequence of str
        Which, in the order of the rows: ``"naive"``, ``"regression_calibration"``, ``"simex"``,
        ``"conditional_score"``, ``"monte_carlo_score"``, and ``"corrected"``, which is
        ``m_estimate(debias(loss, release), X, y)``.
    true_theta : array of shape (q,) or (K, q), optional
        The true parameters, in a simulation: each row then has its distance to them.
    random_state : int, numpy.random.Generator or None
        For the methods that draw; each has a generator of its own, so that the choice of `methods` does not change it.

    Returns
    -------
    Comparison
        A row for each method. One that refuses has the reason in its row: the loss or the noise is none of its kind, or
        it found no root.

    Raises
    ------
    ValueError, TypeError
        An argument or the data do not fit. That is no refusal: nothing was computed.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> x = np.random.default_rng(0).normal(size=(20_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(1.0)).privatize(x, 2 * x[:, 0], random_state=1)
    >>> found = sd.compare_methods(
    ...     sd.losses.least_squares(), noised.release, noised.X, noised.y,
    ...     methods=("naive", "regression_calibration"), true_theta=[2.0],
    ... )
    >>> found["naive"].distance > 0.9, found["regression_calibration"].distance < 0.1
    (True, True)
    """
    wanted = _checked_methods(methods)
    l2 = NON_NEGATIVE.check("l2", l2)
    plain = debias(loss, release, method="none")
    matrix = release.design_matrix(X)
    correction = plain.at(matrix.shape[1])
    truth = None
    if true_theta is not None:
        truth = correction.shaped(correction.flat(true_theta).copy())
        truth.setflags(write=False)
    generators = dict(zip(METHODS, spawn(generator(random_state), len(METHODS)), strict=True))
    calls: dict[str, Callable[[], Any]] = {
        "naive": lambda: naive(loss, release, X, y, l2=l2),
        "regression_calibration": lambda: regression_calibration(loss, release, X, y, l2=l2),
        "simex": lambda: simex(loss, release, X, y, l2=l2, random_state=generators["simex"]),
        "conditional_score": lambda: conditional_score(loss, release, X, y, l2=l2),
        "monte_carlo_score": lambda: monte_carlo_score(
            loss, release, X, y, l2=l2, random_state=generators["monte_carlo_score"]
        ),
        "corrected": lambda: m_estimate(debias(loss, release), X, y, l2=l2),
    }
    rows = tuple(_timed_row(method, calls[method], truth) for method in wanted)
    return Comparison(rows, _names(correction), len(matrix), truth)


def _checked_methods(methods: Sequence[str]) -> tuple[str, ...]:
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise TypeError(f"methods must be a sequence of names; got {methods!r:.60}. Pass a tuple such as ('naive',).")
    for method in methods:
        if method not in METHODS:
            raise ValueError(f"methods has {method!r:.60}, which is not known. Choose among {', '.join(METHODS)}.")
    if not methods or len(set(methods)) < len(methods):
        raise ValueError(f"methods={tuple(methods)!r:.100} is empty or repeats a name. Name each method once.")
    return tuple(methods)


def _timed_row(method: str, call: Callable[[], Any], truth: FloatArray | None) -> ComparisonRow:
    began = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", VarianceWarning)
            fit = call()
    except SymdebiasError as refusal:
        return ComparisonRow(method, None, None, None, time.perf_counter() - began, str(refusal))
    seconds = time.perf_counter() - began
    # What held a corrected fit at its end is not the data's choice: a reader of the table must see it.
    notes = list(fit.diagnostics["safeguards"] if method == "corrected" else fit.notes)
    notes += [str(warning.message) for warning in caught]
    try:
        errors = fit.standard_errors
    except InferenceError as reason:
        errors = None
        notes.append(str(reason))
    distance = None if truth is None else float(np.linalg.norm(fit.theta - truth))
    return ComparisonRow(method, fit.theta, errors, distance, seconds, None, tuple(notes))
