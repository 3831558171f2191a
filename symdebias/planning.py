"""Before the data exist: standard errors to expect, records needed, the split of a budget, the choice of a mechanism.

A plan needs a loss, a release and a *population*: records that stand for those to be collected, drawn from a guess or
from the moments of a pilot study. The population is noised as the records will be, and the sandwich covariance of
M-estimation on it says how accurate a fit to n records will be.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

from symdebias._arrays import parameter_vector
from symdebias._domains import COUNT, DELTA, EPSILON, POSITIVE, shown
from symdebias._randomness import generator
from symdebias.corrected import CorrectedLoss
from symdebias.derivation.configurations import released_covariance
from symdebias.driver import debias
from symdebias.exceptions import ClippingWarning, InferenceError, NoExactCorrectionError, SymdebiasError
from symdebias.inference import sandwich
from symdebias.losses import Loss
from symdebias.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism, RandomizedResponse
from symdebias.release import Release
from symdebias.solvers.m_estimation import m_estimate
from symdebias.solvers.scores import debiased_moments, designed, share_of_noise, targets_of
from symdebias.transforms.surrogate import Scores

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Criterion = Literal["worst", "mean", "risk"]

# Noised copies of the population, so that together there are about so many records.
_RECORDS = 100_000
_NOISE_STREAM = 7_193
# Share of records that carry the corrected gradient below which a normal approximation is not trusted.
_LEAST_SHARE = 0.02
# Shares of the budget between which the best split of two is sought, and to what accuracy.
_LEAST_PART, _SHARE_ACCURACY = 0.01, 2e-3
# How far above what is wanted the error at the number found may lie.
_MISSED = 1.02
# What is kept back of a budget that is split, relative to it.
_ROUNDING = 1e-12
# Rounds of the search for a number of records on which a surrogate depends.
_ROUNDS = 12
_FAMILIES = ("binary", "count", "normal")
_MECHANISMS = ("gaussian", "laplace", "laplace per column")


@dataclass(frozen=True)
class Population:
    """Records that stand for those to be collected, in the units in which they are released.

    Attributes
    ----------
    X : array of shape (m, p), float64
        True features.
    y : array of shape (m,), float64
        True targets.
    """

    X: FloatArray
    y: FloatArray

    def __post_init__(self) -> None:
        X, y = np.array(self.X, dtype=np.float64), np.array(self.y, dtype=np.float64)
        if X.ndim != 2 or y.shape != X.shape[:1] or len(y) < 2:
            raise ValueError(
                f"X has the shape {X.shape} and y {y.shape}; give (m, p) and (m,) with at least two records."
            )
        if not (np.all(np.isfinite(X)) and np.all(np.isfinite(y))):
            raise ValueError("the population has NaN or infinity. Leave such records out.")
        for name, array in (("X", X), ("y", y)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def guess(
        cls,
        theta: ArrayLike,
        *,
        family: str = "binary",
        mean: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        intercept: bool = False,
        residual: float = 1.0,
        size: int = 20_000,
        random_state: int | np.random.Generator | None = 0,
    ) -> "Population":
        """Draw a population from a guess of the parameters and of the features' moments.

        Parameters
        ----------
        theta : array of shape (p,), or (p + 1,) with an intercept
            Guessed parameters, intercept last.
        family : {"binary", "count", "normal"}
            The target: -1 or +1 with P(y = 1) = 1/(1 + e^-u); Poisson with mean e^u; or u + residual N(0, 1).
        mean : array of shape (p,), optional
            Means of the features, zero by default.
        covariance : array of shape (p, p), or (p,) for variances, optional
            Then features are normal, drawn again where they leave [-1, 1]. Without it they are uniform on [-1, 1].
        intercept : bool
            Whether the last parameter is an intercept.
        residual : float
            Standard deviation of the errors of family ``"normal"``, positive.
        size : int
            How many records to draw.
        random_state : int, numpy.random.Generator or None
            0 by default, so that plans repeat.

        Raises
        ------
        ValueError, TypeError
            An argument does not fit, or the guessed features hardly ever lie in [-1, 1].

        Examples
        --------
        >>> Population.guess([1.0, -0.5]).X.shape
        (20000, 2)
        """
        guessed = parameter_vector(theta, np.shape(theta)[0] if np.ndim(theta) else 0)
        if family not in _FAMILIES:
            raise ValueError(f"family={shown(family, 60)} is not known. Choose {', '.join(map(repr, _FAMILIES))}.")
        if len(guessed) <= intercept:
            raise ValueError("theta has no parameter of a feature. Give one guess per feature, the intercept last.")
        residual, count = POSITIVE.check("residual", residual), COUNT.check("size", size)
        rng = generator(random_state)
        p = len(guessed) - bool(intercept)
        X = _features(p, mean, covariance, count, rng)
        u = X @ guessed[:p] + (guessed[p] if intercept else 0.0)
        if family == "binary":
            y = np.where(rng.random(count) < expit(u), 1.0, -1.0)
        elif family == "count":
            y = rng.poisson(np.exp(u)).astype(np.float64)
        else:
            y = u + residual * rng.normal(size=count)
        return cls(X, y)

    @classmethod
    def from_pilot(
        cls,
        corrected: CorrectedLoss,
        X: Any,
        y: Any,
        *,
        theta: ArrayLike,
        family: str = "binary",
        residual: float = 1.0,
        size: int = 20_000,
        random_state: int | np.random.Generator | None = 0,
    ) -> "Population":
        """Draw a population with the moments of a pilot study whose records were released with noise.

        Parameters
        ----------
        corrected : CorrectedLoss
            Of the pilot's release: it says what noise to take out of the moments.
        X, y
            The pilot's released records.
        theta : array of shape (p,), or (p + 1,) with an intercept
            The parameters that the pilot found, ``fit.theta``.
        family, residual, size, random_state
            As for `guess`.

        Raises
        ------
        NoExactCorrectionError
            The noise hides the variation of the features, or there are columns of categories.
        """
        mean, gram = debiased_moments(corrected.records(X, y))
        intercept = corrected.release.fit_intercept
        count = len(mean) - intercept
        centre = mean[:count]
        spread = gram[:count, :count] - np.multiply.outer(centre, centre)
        sizes, vectors = np.linalg.eigh(spread)
        if not sizes.max() > 0:
            raise NoExactCorrectionError(
                "the noise hides all variation of the pilot's features. Guess their moments, or use more records."
            )
        covariance = (vectors * np.maximum(sizes, 1e-6 * sizes.max())) @ vectors.T
        return cls.guess(
            theta, family=family, mean=centre, covariance=covariance, intercept=intercept, residual=residual,
            size=size, random_state=random_state,
        )  # fmt: skip


def _features(p: int, mean: Any, covariance: Any, count: int, rng: np.random.Generator) -> FloatArray:
    centre = np.zeros(p) if mean is None else np.asarray(mean, dtype=np.float64)
    if centre.shape != (p,) or not np.all(np.isfinite(centre)):
        raise ValueError(f"mean has the shape {centre.shape}; it must be ({p},), finite: one number per feature.")
    if covariance is None:
        if centre.any():
            raise ValueError("mean= without covariance= has no spread to go with. Give both, or neither.")
        return rng.uniform(-1, 1, (count, p))
    matrix = np.asarray(covariance, dtype=np.float64)
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    if matrix.shape != (p, p) or not np.allclose(matrix, matrix.T) or np.linalg.eigvalsh(matrix).min() < -1e-9:
        raise ValueError(f"covariance must be a symmetric matrix of shape ({p}, {p}) without negative variances.")
    kept: list[FloatArray] = []
    found = drawn = 0
    while found < count:
        rows = rng.multivariate_normal(centre, matrix, size=count, method="eigh")
        rows = rows[np.abs(rows).max(axis=1) <= 1]
        kept.append(rows)
        found, drawn = found + len(rows), drawn + count
        if found < 0.01 * drawn:
            raise ValueError(
                "the guessed features lie in [-1, 1] less than once in a hundred draws. Scale them to the bounds of "
                "the release, in which the population is written."
            )
    return np.concatenate(kept)[:count]


@dataclass(frozen=True)
class ExpectedFit:
    """What to expect of M-estimation on n released records.

    Attributes
    ----------
    release : Release
        How they are released.
    records : float
        n.
    theta : array of shape (q,), float64
        The parameters that the population has.
    covariance : array of shape (q, q), float64
        The expected covariance at n records.
    standard_errors : array of shape (q,), float64
        The roots of its diagonal.
    excess_risk : float
        (tr(H C) + b'H b)/2: by how much the risk exceeds that of the best parameters, on average.
    bias : array of shape (q,), float64
        The bias that the surrogate's own error makes on this population; 0 where the correction is exact.
    without_noise : array of shape (q,), float64
        Standard errors from n true records.
    score_variance : float
        The noise variance of the score.
    method : str
        The correction.
    notes : tuple of str
        What to know.
    """

    release: Release
    records: float
    theta: FloatArray
    covariance: FloatArray
    excess_risk: float
    bias: FloatArray
    without_noise: FloatArray
    score_variance: float
    method: str
    notes: tuple[str, ...] = ()
    standard_errors: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "standard_errors", np.sqrt(np.diag(self.covariance)))

    def criterion(self, by: Criterion) -> float:
        """Return the largest error of a parameter, their root mean square, or the root of the excess risk.

        An error is the root of squared standard error and squared bias.
        """
        squares = self.standard_errors**2 + self.bias**2
        if by == "worst":
            return math.sqrt(float(squares.max()))
        if by == "mean":
            return math.sqrt(float(np.mean(squares)))
        return math.sqrt(self.excess_risk)

    @property
    def worth(self) -> float:
        """How many true records one released record is worth, by the sum of the variances."""
        return float(np.sum(self.without_noise**2) / np.sum(self.standard_errors**2))


@dataclass(frozen=True)
class _Truth:
    """What the population says without noise."""

    theta: FloatArray
    hessian: FloatArray
    meat: FloatArray
    penalty: FloatArray


def expected_fit(
    loss: Loss,
    release: Release,
    population: Population,
    *,
    n: float,
    method: str = "auto",
    l2: float = 0.0,
    random_state: int = 0,
) -> ExpectedFit:
    """Return the standard errors to expect of `m_estimate` on n released records.

    Parameters
    ----------
    loss : Loss
        The loss, of one or several scores.
    release : Release
        How records will be released, without `center` and `scale`.
    population : Population
        Records that stand for those to come, in released units.
    n : float
        How many there will be, at least 1.
    method : {"auto", "exact", "surrogate", "best"}
        The correction, as for `debias`; ``"best"`` takes the one with the smaller excess risk.
    l2 : float
        Regularisation.
    random_state : int
        Of the noise on the population; nothing is released.

    Returns
    -------
    ExpectedFit
        The covariance H^-1 J H^-1 / n, H the Hessian of the population's risk at its minimum, J the covariance of the
        corrected gradient there, the noise included.

    Raises
    ------
    InferenceError
        The population does not tell the parameters apart.
    NoExactCorrectionError, InfiniteVarianceError
        The release cannot be corrected, or its correction has infinite variance at the population's parameters.
    ValueError, TypeError
        An argument does not fit.

    Notes
    -----
    First order in 1/sqrt(n): right where the noise leaves a root near the truth, which the number of records must be
    large enough for. The bias of a surrogate is not in it.

    Examples
    --------
    >>> import symdebias as sd
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(1.0), sd.RandomizedResponse(epsilon=2.0))
    >>> found = sd.expected_fit(sd.losses.exponential(), release, sd.Population.guess([2.0, -1.0]), n=20_000, l2=1.0)
    >>> bool(abs(20_000 * found.covariance.trace() - 2.59) < 0.1)  # theory: 2.59
    True
    """
    records = _sample_size(n)
    truth = _truth(loss, release, population, l2)
    return _expected(loss, release, population, truth, records, random_state, method=method)


def records_needed(
    loss: Loss,
    release: Release,
    population: Population,
    *,
    standard_error: float,
    method: str = "auto",
    l2: float = 0.0,
    criterion: Criterion = "worst",
    random_state: int = 0,
) -> ExpectedFit:
    """Return the number of records with which the standard errors are expected to be small enough.

    Parameters
    ----------
    loss, release, population, method, l2, random_state
        As for `expected_fit`.
    standard_error : float
        What is wanted, positive.
    criterion : {"worst", "mean", "risk"}
        Of what: of the largest error of a parameter (its standard error, with the bias of a surrogate), of their root
        mean square, or of the root of the excess risk.

    Returns
    -------
    ExpectedFit
        With the number of records as ``records``, rounded up.

    Raises
    ------
    InferenceError, NoExactCorrectionError, InfiniteVarianceError, ValueError, TypeError
        As for `expected_fit`.
    """
    wanted = POSITIVE.check("standard_error", standard_error)
    _check_criterion(criterion)
    truth = _truth(loss, release, population, l2)
    return _needed(loss, release, population, truth, wanted, criterion, random_state, method)


def _needed(
    loss: Loss,
    release: Release,
    population: Population,
    truth: _Truth,
    wanted: float,
    criterion: Criterion,
    random_state: int,
    method: str,
) -> ExpectedFit:
    n = 1e5
    for _ in range(_ROUNDS):
        found = _expected(loss, release, population, truth, n, random_state, method=method)
        needed = math.ceil(max(1.0, n * (found.criterion(criterion) / wanted) ** 2))
        # A surrogate is designed for n, and its variance varies with the design.
        settled = abs(needed - n) <= 1e-3 * n
        n = float(needed)
        if settled:
            break
    found = _expected(loss, release, population, truth, n, random_state, method=method)
    if found.criterion(criterion) > _MISSED * wanted:
        raise InferenceError(
            f"{n:.3g} records still leave an error of {found.criterion(criterion):.3g}, of which up to "
            f"{np.abs(found.bias).max():.3g} is the bias of the surrogate. Ask for less, or spend more budget."
        )
    return found


def _sample_size(n: float) -> float:
    records = POSITIVE.check("n", n)
    if records < 1:
        raise ValueError(f"n={shown(n)} is no number of records. Give at least 1.")
    return records


def _check_criterion(criterion: str) -> None:
    if criterion not in ("worst", "mean", "risk"):
        raise ValueError(f'criterion={shown(criterion, 60)} is not known. Choose "worst", "mean" or "risk".')


def _truth(loss: Loss, release: Release, population: Population, l2: float) -> _Truth:
    if not loss.scores:
        raise ValueError("plans are for losses of scores. Declare the loss in its score, Loss(..., score=u).")
    if release.center or release.scale:
        raise ValueError(
            "the release has a centre or a scale, and a population is written in released units. Plan with a release "
            "without them."
        )
    plain = debias(loss, release, method="none")
    try:
        fit = m_estimate(plain, population.X, population.y, l2=l2)
    except SymdebiasError as error:
        raise InferenceError(f"the population has no best parameters: {error}") from None
    theta = fit.theta.ravel()
    records = plain.records(population.X, population.y)
    found = records.derivatives_or_differences()[0](theta, True)
    penalty = records.correction.penalty(l2)
    mean = -penalty * theta
    return _Truth(theta, found.hessian + np.diag(penalty), found.meat - np.multiply.outer(mean, mean), penalty)


def _expected(
    loss: Loss,
    release: Release,
    population: Population,
    truth: _Truth,
    n: float,
    random_state: int,
    *,
    method: str = "auto",
    quick: bool = False,
) -> ExpectedFit:
    if method != "best":
        return _expected_of(debias(loss, release, method=method), population, truth, n, random_state, quick)
    found: list[ExpectedFit] = []
    refusals: list[SymdebiasError] = []
    for one in ("exact", "surrogate"):
        try:
            found.append(_expected_of(debias(loss, release, method=one), population, truth, n, random_state, quick))
        except SymdebiasError as error:
            refusals.append(error)
    if not found:
        raise refusals[0]
    return min(found, key=lambda fit: fit.excess_risk)


def _expected_of(
    corrected: CorrectedLoss, population: Population, truth: _Truth, n: float, random_state: int, quick: bool
) -> ExpectedFit:
    loss, release = corrected.declared, corrected.release
    columns = population.X.shape[1]
    covariance = corrected.at(columns).noise_covariance()
    theta = truth.theta
    one = released_covariance(release.design(columns), covariance)
    rows = theta.reshape(len(loss.scores), -1)
    variance = float(np.max(np.einsum("kj,jl,kl->k", rows, one, rows)))
    if not corrected.is_resolved:
        parts = corrected.surrogate_parts
        scores = population.X @ theta[:columns] + (theta[-1] if release.fit_intercept else 0.0)
        own = 0.0 if parts.target_noise is None else parts.target_noise.variance
        table = np.column_stack([population.X, np.ones(len(scores))]) if release.fit_intercept else population.X
        gram = table.T @ table / len(table)
        values = scores - population.y * parts.is_residual
        corrected = corrected.with_design(
            designed(
                parts, Scores.of(values), np.array([variance + own]), n, targets_of(corrected, population.y),
                share_of_noise=share_of_noise(gram + one, one), quick=quick,
            )
        )  # fmt: skip
    corrected.at(columns).require_within_limits(theta, finite_variance=True, at="at the population's parameters")
    copies = 1 if quick else max(1, round(_RECORDS / len(population.y)))
    meat, least = np.zeros((len(theta), len(theta))), 1.0
    # Not the stream that a population of the same seed is drawn from.
    rng = np.random.default_rng([random_state, _NOISE_STREAM])
    for _ in range(copies):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClippingWarning)
            noised = release.privatize(population.X, population.y, random_state=rng)
        records = corrected.records(noised.X, noised.y)
        gradients = records.gradients(theta, slice(None))
        centred = gradients - gradients.mean(axis=0)
        meat += centred.T @ centred / (copies * len(gradients))
        norms = np.linalg.norm(gradients, axis=1)
        size = float(np.mean(norms**2))
        least = min(least, float(norms.mean() ** 2 / size) if 0 < size < math.inf else 0.0)
    if least < _LEAST_SHARE:
        raise InferenceError(
            f"a share of {least:.1g} of the records carries the corrected gradient of {loss.expression} at the "
            f"population's parameters (noise variance {variance:.3g} of the score): no normal approximation holds. "
            "Plan with less noise, or with a shorter theta."
        )
    notes = []
    found = sandwich(truth.hessian, meat, n)
    bias: FloatArray = np.zeros(len(theta))
    if corrected.design is not None:
        plain = debias(loss, release, method="none")
        target = plain.records(population.X, population.y).target
        parts = corrected.surrogate_parts
        design = np.column_stack([population.X, np.ones(len(population.y))]) if release.fit_intercept else population.X
        if design.shape[1] != len(theta):
            raise NoExactCorrectionError(
                "the bias of a surrogate is planned for columns without one-hot categories. Plan with an exact loss, "
                "or measure a pilot study."
            )
        _, wrong = parts.errors(corrected.design, design @ theta, target)
        bias = np.asarray(-np.linalg.solve(truth.hessian, design.T @ wrong / len(wrong)))
        worst = float(np.max(np.abs(bias) / np.sqrt(np.diag(found))))
        if worst > 0.1:
            notes.append(f"the surrogate has a bias of up to {worst:.2g} standard errors")
    elif corrected.label_mixing is not None:
        bias = _bias_of_nearest(corrected, population, truth)
        notes += corrected.notes
    return ExpectedFit(
        release=release,
        records=n,
        theta=theta,
        covariance=found,
        excess_risk=float(np.trace(truth.hessian @ found) + bias @ truth.hessian @ bias) / 2,
        bias=bias,
        without_noise=np.sqrt(np.diag(sandwich(truth.hessian, truth.meat, n))),
        score_variance=variance,
        method=corrected.method,
        notes=tuple(notes),
    )


def _bias_of_nearest(corrected: CorrectedLoss, population: Population, truth: _Truth) -> FloatArray:
    """Return the bias of the parameters where the nearest loss in the range of a channel stands for the loss."""
    plain = debias(corrected.declared, corrected.release, method="none")
    mixing, values = corrected.label_mixing, corrected.declared.target_values
    assert mixing is not None
    assert values is not None
    target = plain.records(population.X, population.y).target
    away = (mixing - np.eye(len(values)))[np.searchsorted(values, target)]
    wrong = np.zeros(len(truth.theta))
    for place, value in enumerate(values):
        labels = np.full(len(target), value)
        records = plain.records(population.X, labels)
        wrong += away[:, place] @ records.gradients(truth.theta, slice(None)) / len(target)
    return np.asarray(-np.linalg.solve(truth.hessian, wrong))


# ---- how to spend a budget -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """A budget in parts.

    Attributes
    ----------
    budgets : tuple of float
        The parts.
    expected : ExpectedFit
        What to expect of them.
    equal : ExpectedFit or None
        What to expect of equal parts; None where they cannot be corrected.
    """

    budgets: tuple[float, ...]
    expected: ExpectedFit
    equal: ExpectedFit | None


def best_split(
    loss: Loss,
    build: Callable[[Sequence[float]], Release],
    population: Population,
    *,
    epsilon: float,
    n: float,
    parts: int = 2,
    l2: float = 0.0,
    criterion: Criterion = "worst",
    random_state: int = 0,
) -> Split:
    """Find the split of a budget with the smallest standard errors.

    Parameters
    ----------
    loss, population, n, l2, random_state
        As for `expected_fit`.
    build : callable
        Takes the parts of the budget, which sum to epsilon, and returns the release that spends them.
    epsilon : float
        The whole budget, in [1e-6, 700]; mechanisms on parts of one record compose by adding up.
    parts : int
        How many parts, at least 2.
    criterion : {"worst", "mean", "risk"}
        What is minimised: the largest error of a parameter, their root mean square, or the excess risk.

    Returns
    -------
    Split
        The best parts, with what to expect of them and of equal ones.

    Raises
    ------
    InferenceError, NoExactCorrectionError, InfiniteVarianceError, ValueError, TypeError
        As for `expected_fit`, where no split can be corrected.

    Notes
    -----
    All splits see the same noise before it is scaled, on one copy of the population, so that the curve is smooth: a
    search of one share by Brent's method, of several by that of Nelder and Mead.
    """
    whole, count = EPSILON.check("epsilon", epsilon), COUNT.check("parts", parts)
    if count < 2:
        raise ValueError(f"parts={shown(parts)} is no split. Give 2 or more.")
    _check_criterion(criterion)
    records = _sample_size(n)
    truth = _truth(loss, build(_parts(whole, (1 / count,) * count)), population, l2)
    refusals: list[SymdebiasError] = []

    def expected(shares: Sequence[float], *, quick: bool = False) -> ExpectedFit | None:
        try:
            release = build(_parts(whole, shares))
            return _expected(loss, release, population, truth, records, random_state, method="best", quick=quick)
        except SymdebiasError as error:
            refusals.append(error)
            return None

    def price(shares: Sequence[float]) -> float:
        found = expected(shares, quick=True)
        return math.inf if found is None else math.log(found.criterion(criterion))

    equal = (1 / count,) * count
    if count == 2:
        # A grid first: where a part of the range cannot be corrected, or the method changes, the curve has jumps.
        grid = np.array([0.02, 0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.98])
        prices = [price((1 - share, share)) for share in grid]
        place = int(np.argmin(prices))
        if not math.isfinite(prices[place]):
            raise refusals[0]
        lower = grid[place - 1] if place else _LEAST_PART
        upper = grid[place + 1] if place + 1 < len(grid) else 1 - _LEAST_PART
        found = minimize_scalar(
            lambda share: price((1 - share, share)), bounds=(lower, upper), method="bounded",
            options={"xatol": _SHARE_ACCURACY},
        )  # fmt: skip
        share = float(found.x) if found.fun <= prices[place] else float(grid[place])
        shares: tuple[float, ...] = (1 - share, share)
    else:

        def of(logits: FloatArray) -> tuple[float, ...]:
            weights = np.exp(np.append(logits, 0.0) - max(0.0, float(logits.max())))
            return tuple(np.maximum(weights / weights.sum(), 1e-4))

        start = np.zeros(count - 1)
        if not math.isfinite(price(of(start))):
            raise refusals[0]
        result = minimize(
            lambda logits: price(of(logits)), start, method="Nelder-Mead",
            options={"xatol": 0.02, "fatol": 1e-4, "maxfev": 30 * count,
                     "initial_simplex": np.vstack([start, start + 0.5 * np.eye(count - 1)])},
        )  # fmt: skip
        shares = of(result.x)
        shares = tuple(share / sum(shares) for share in shares)
    best = expected(shares)
    assert best is not None
    return Split(_parts(whole, shares), best, expected(equal))


def _parts(whole: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Return parts of a budget that do not exceed it when they are added up again and rounded up."""
    return tuple(whole * (1 - _ROUNDING) * float(share) for share in shares)


@dataclass(frozen=True)
class Option:
    """One way to collect.

    Attributes
    ----------
    mechanism : str
        ``"gaussian"``, ``"laplace"`` or ``"laplace per column"``.
    expected : ExpectedFit or None
        What to expect; None where it is refused.
    budgets : tuple of float
        Of the features (one number, or one per column), then of the target where it is noised.
    half : ExpectedFit or None
        The same mechanism with the budget halved between features and target, for as many records.
    refusal : str
        Why it is out of the question; empty where it is not.
    """

    mechanism: str
    expected: ExpectedFit | None
    budgets: tuple[float, ...] = ()
    half: ExpectedFit | None = None
    refusal: str = ""


@dataclass(frozen=True)
class Plan:
    """Ways to collect, the best first.

    Attributes
    ----------
    options : tuple of Option
        In the order of the criterion; refused ones last.
    criterion : str
        What they are ordered by.
    standard_error : float or None
        What was wanted; None where the number of records was given.
    epsilon : float
        The whole budget.
    """

    options: tuple[Option, ...]
    criterion: Criterion
    standard_error: float | None
    epsilon: float

    @property
    def best(self) -> Option:
        """The best option.

        Raises
        ------
        NoExactCorrectionError
            All are refused.
        """
        if self.options[0].expected is None:
            raise NoExactCorrectionError(
                "no mechanism can be corrected at this budget:\n"
                + "\n".join(f"  {option.mechanism}: {option.refusal}" for option in self.options)
            )
        return self.options[0]

    def __str__(self) -> str:
        goal = (
            f"expected at the given number of records (epsilon {self.epsilon:g} in all)"
            if self.standard_error is None
            else f"records needed for a standard error of {self.standard_error:g} (epsilon {self.epsilon:g} in all)"
        )
        head = (
            f"  {'mechanism':<20}{'records':>13}{'largest se':>12}{'features':>10}{'target':>9}"
            f"{'one is worth':>14}{'half-half':>11}  correction"
        )
        lines = [goal, "", head]
        for option in self.options:
            found = option.expected
            if found is None:
                lines.append(f"  {option.mechanism:<20}refused: {option.refusal.splitlines()[0]}")
                continue
            noised = found.release.target is not None
            target = option.budgets[-1] if noised else 0.0
            half = "-"
            if noised:
                half = "refused"
                if option.half is not None:
                    half = f"{(option.half.criterion(self.criterion) / found.criterion(self.criterion)) ** 2:.2f}x"
            lines.append(
                f"  {option.mechanism:<20}{found.records:>13,.0f}{found.standard_errors.max():>12.4g}"
                f"{self.epsilon - target:>10.3g}{target:>9.3g}{found.worth:>14.3g}{half:>11}  {found.method}"
            )
        lines += [
            "",
            "  one is worth: true records that one released record is worth",
            "  half-half: records that the budget halved between features and target needs, as a multiple",
        ]
        notes = dict.fromkeys(
            f"{option.mechanism}: {note}"
            for option in self.options
            if option.expected
            for note in option.expected.notes
        )
        return "\n".join([*lines, *(f"  note: {note}" for note in notes)])


def plan(
    loss: Loss,
    population: Population,
    *,
    epsilon: float,
    delta: float = 1e-5,
    n: float | None = None,
    standard_error: float | None = None,
    mechanisms: Sequence[str] = ("gaussian", "laplace"),
    target: str = "noised",
    target_bounds: tuple[float, float] | None = None,
    norm: float | None = None,
    fit_intercept: bool = False,
    l2: float = 0.0,
    criterion: Criterion = "worst",
    random_state: int = 0,
) -> Plan:
    """Compare mechanisms and splits of a budget for columns in [-1, 1].

    Parameters
    ----------
    loss : Loss
        The loss.
    population : Population
        Records that stand for those to come, each column in [-1, 1].
    epsilon : float
        The budget of a whole record, in [1e-6, 700].
    delta : float
        Of the Gaussian mechanism, in (0, 1).
    n, standard_error : float
        Give one: the number of records there will be, or the standard error that is wanted.
    mechanisms : sequence of str
        ``"gaussian"``: normal noise on the vector of features, in a ball; ``"laplace"``: the same Laplace noise on all
        columns; ``"laplace per column"``: a budget for each column, split as the criterion wants.
    target : {"noised", "public"}
        Whether the target is noised: a finite one by randomized response, a continuous one by Laplace noise.
    target_bounds : pair of float, optional
        Public bounds of a continuous target.
    norm : float, optional
        Public bound on the L2 norm of the features; sqrt(p) by default, which holds for all records in [-1, 1].
    fit_intercept : bool
        Whether the model has an intercept.
    l2 : float
        Regularisation.
    criterion : {"worst", "mean", "risk"}
        What counts: the largest error of a parameter, their root mean square, or the excess risk.
    random_state : int
        Of the noise on the population.

    Returns
    -------
    Plan
        The options, the best first; ``plan.best.expected.release`` is the release to use.

    Raises
    ------
    ValueError, TypeError
        An argument does not fit.

    Examples
    --------
    >>> import symdebias as sd
    >>> population = sd.Population.guess([1.0, -0.5])
    >>> found = sd.plan(sd.losses.exponential(), population, epsilon=4.0, n=100_000, l2=1.0, mechanisms=["gaussian"])
    >>> found.best.mechanism, found.best.expected.release.guarantee.epsilon <= 4.0
    ('gaussian', True)
    """
    whole, chance = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    if (n is None) == (standard_error is None):
        given = "both" if n is not None else "neither"
        raise ValueError(f"{given} of n and standard_error was given. Give one: the other one is the answer.")
    records = None if n is None else _sample_size(n)
    wanted = None if standard_error is None else POSITIVE.check("standard_error", standard_error)
    _check_criterion(criterion)
    if target not in ("noised", "public"):
        raise ValueError(f'target={shown(target, 60)} is not known. Choose "noised" or "public".')
    if isinstance(mechanisms, str) or not mechanisms or not set(mechanisms) <= set(_MECHANISMS):
        raise ValueError(
            f"mechanisms={shown(mechanisms, 80)} must be a list with some of {', '.join(map(repr, _MECHANISMS))}."
        )
    p = population.X.shape[1]
    if np.abs(population.X).max() > 1 + 1e-12:
        raise ValueError("the population has features outside [-1, 1]. Scale it to the public bounds of the columns.")
    radius = math.sqrt(p) if norm is None else min(POSITIVE.check("norm", norm), math.sqrt(p))
    make_target = _target_mechanism(loss, target_bounds) if target == "noised" else None
    names = tuple(f"x{j}" for j in range(p))
    options = []
    for mechanism in mechanisms:
        parts = (p if mechanism == "laplace per column" else 1) + (make_target is not None)

        def build(budgets: Sequence[float], mechanism: str = mechanism) -> Release:
            spent = list(budgets)
            noised = None if make_target is None else make_target(spent.pop())
            features: dict[Any, Mechanism]
            if mechanism == "gaussian":
                features = {names: GaussianMechanism(epsilon=spent[0], delta=chance, radius=radius)}
            elif mechanism == "laplace":
                features = {names: LaplaceMechanism(epsilon=spent[0], radius=min(float(p), radius * math.sqrt(p)))}
            else:
                features = {
                    name: LaplaceMechanism(epsilon=budget, bounds=(-1.0, 1.0))
                    for name, budget in zip(names, spent, strict=True)
                }
            return Release(features, noised, fit_intercept=fit_intercept)

        options.append(
            _option(loss, build, population, mechanism, parts, whole, records, wanted, l2, criterion, random_state)
        )

    def order(option: Option) -> tuple[bool, float]:
        found = option.expected
        if found is None:
            return True, math.inf
        return False, found.records if wanted is not None else found.criterion(criterion)

    return Plan(tuple(sorted(options, key=order)), criterion, wanted, whole)


def _option(
    loss: Loss,
    build: Callable[[Sequence[float]], Release],
    population: Population,
    mechanism: str,
    parts: int,
    whole: float,
    records: float | None,
    wanted: float | None,
    l2: float,
    criterion: Criterion,
    random_state: int,
) -> Option:
    options: dict[str, Any] = {"l2": l2, "random_state": random_state}
    n = records if records is not None else 1e5
    try:
        for _ in range(2):
            budgets: tuple[float, ...] = (whole,)
            if parts > 1:
                split = best_split(
                    loss, build, population, epsilon=whole, n=n, parts=parts, criterion=criterion, **options
                )
                budgets = split.budgets
            release = build(budgets)
            if wanted is None:
                expected = expected_fit(loss, release, population, n=n, method="best", **options)
                break
            expected = records_needed(
                loss, release, population, standard_error=wanted, method="best", criterion=criterion, **options
            )
            # A surrogate is designed for the number of records, and the best split goes with it.
            if parts == 1 or expected.method == "exact":
                break
            n = expected.records
    except SymdebiasError as error:
        return Option(mechanism, None, refusal=str(error))
    half = None
    if release.target is not None:
        features = parts - 1
        try:
            halved = build(_parts(whole, [*(0.5 / features for _ in range(features)), 0.5]))
            half = expected_fit(loss, halved, population, n=expected.records, method="best", **options)
        except SymdebiasError:
            half = None
    return Option(mechanism, expected, budgets, half)


def _target_mechanism(loss: Loss, bounds: tuple[float, float] | None) -> Callable[[float], Mechanism]:
    values = loss.target_values
    if values is not None:
        if tuple(values) == (-1.0, 1.0):
            return lambda epsilon: RandomizedResponse(epsilon=epsilon)
        return lambda epsilon: RandomizedResponse(epsilon=epsilon, categories=values)
    if bounds is None:
        raise ValueError(
            'the target is continuous and has no public bounds. Give target_bounds=(low, high), or target="public".'
        )
    return lambda epsilon: LaplaceMechanism(epsilon=epsilon, bounds=bounds)
