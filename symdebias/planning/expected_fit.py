"""What to expect of a fit to n released records, and how many records an accuracy takes.

A population is solved once without noise. Its noised copies then tell the covariance of the corrected gradient at its
parameters, and with it the sandwich covariance of M-estimation under any release.
"""

import functools
import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._blas import one_thread
from symdebias._domains import POSITIVE, Integer, Interval, check_choice, shown
from symdebias.codegen.numeric import numeric
from symdebias.corrected import CorrectedLoss
from symdebias.derivation.methods import Exact, Method, Surrogate
from symdebias.driver import corrected_by, debias
from symdebias.exceptions import ClippingWarning, InferenceError, NoExactCorrectionError, SymdebiasError
from symdebias.inference import sandwich
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.mechanisms import GaussianMechanism
from symdebias.planning.population import Population, require_codes, require_population
from symdebias.release import Release
from symdebias.release.columns import standardised
from symdebias.release.noising import clipped_records
from symdebias.release.required import require_release
from symdebias.solvers.curvature import LEAST_CURVATURE, curvature_of_records
from symdebias.solvers.m_estimation import m_estimate
from symdebias.solvers.metric import inverse_root
from symdebias.solvers.moments import released_moments
from symdebias.solvers.noise_estimates import gradient_slopes
from symdebias.solvers.surrogate_design import (
    designed,
    designed_polynomials,
    noise_shape,
    scene_on_sphere,
    share_of_noise,
    targets_of,
)
from symdebias.transforms.surrogate import Scores
from symdebias.zonal import ZonalNoise

Criterion = Literal["worst", "mean", "risk"]

# The corrections that a plan looks at; "auto" is the choice of `debias`.
_APPROACHES: dict[str, tuple[Method, ...]] = {
    "best": (Exact(), Surrogate()), "exact": (Exact(),), "surrogate": (Surrogate(),)
}  # fmt: skip

# Scores at which growth is looked at, and what counts as a power.
_FAR_OUT, _LARGEST_POWER = np.array([1.0, 3.0, 10.0, 30.0, 100.0, 300.0]), 12.0
# A surrogate is taken where the exact correction has so many times its excess risk: fits by a surrogate begin with a
# pilot, which does not settle on all records, and what is planned is right to a few per cent.
_WORSE_THAN_EXACT = 1.1
# Noised copies of the population, so that together there are about so many records.
_RECORDS = 100_000
# Plans that are compared see the same noise, so that a generator, which moves on, is no seed of theirs.
_SEED = Integer(0, 2**128)
_PEOPLE = Interval(0.0, 1e18, "right", "Give the number of people.")
# Not the stream that a population of the same seed is drawn from.
_NOISE_STREAM = 7_193
# Share of records that carry the corrected gradient below which a normal approximation is not trusted.
_LEAST_SHARE = 0.02
# Where fewer drawn records decide an expected variance, gradients have heavy tails that few copies see little of: up to
# so many times as many records are drawn. Fewer than the third leave its root known to worse than a twentieth.
_DECIDE, _MORE_DRAWN, FEW_DECIDE = 1_000, 10, 100
# A curvature that is expected to be so many standard errors is hardly ever found to be too few for a fit.
SAFE_CURVATURE = LEAST_CURVATURE + 2.5
# Rounds of the search for a number of records on which a surrogate depends, and how far above what is wanted the error
# may lie in the end.
_ROUNDS, _MISSED = 12, 1.02


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
        The expected covariance at n records, with what the error of an estimated noise adds to it.
    standard_errors : array of shape (q,), float64
        The roots of its diagonal.
    excess_risk : float
        (tr(H C) + b'H b)/2: by how much the risk exceeds that of the best parameters, on average.
    bias : array of shape (q,), float64
        The bias that the surrogate's own error makes on this population, and what clipping moves the parameters by; 0
        where the correction is exact and no record of the population lies outside the bounds.
    without_noise : array of shape (q,), float64
        Standard errors from n true records.
    of_estimate : array of shape (q, q), float64
        The part of the covariance that comes from the estimate of the noise, however many records there are; 0 where
        the noise is known.
    score_variance : float
        The noise variance of the score; NaN for a free-form loss, which has none.
    method : str
        The correction.
    curvature : float
        The least curvature of the mean corrected loss that is to be expected, in its own standard errors: fits of less
        than 2.5 are refused. NaN where it is not looked at: for a free-form loss, and in searches.
    deciding : float
        How many drawn records decide the expected variance of the parameter with the fewest. Where they are less than
        100 gradients have heavy tails: standard errors may be far too small, and fits are often refused.
    notes : tuple of str
        What to know.

    Examples
    --------
    >>> import symdebias as sd
    >>> population = sd.planning.Population.guess([1.0], size=500)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    >>> expected = sd.planning.expected_fit(sd.losses.squared_margin(), release, population, n=10_000)
    >>> expected.standard_errors.shape, bool(expected.worth < 1)
    ((1,), True)
    """

    release: Release
    records: float
    theta: FloatArray
    covariance: FloatArray
    excess_risk: float
    bias: FloatArray
    without_noise: FloatArray
    of_estimate: FloatArray
    score_variance: float
    method: str
    curvature: float = math.nan
    deciding: float = math.nan
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
class Study:
    """A population solved without noise: what all expectations of fits to its records rest on."""

    plain: CorrectedLoss  # The loss, uncorrected.
    population: Population  # The records.
    theta: FloatArray  # Of shape (q,): its parameters.
    # Of shape (q, q): the Hessian of its penalised risk there, and the covariance of the gradient.
    hessian: FloatArray
    meat: FloatArray
    random_state: int  # Of the noise on the population.
    l2: float
    start: FloatArray  # The parameters, one row for each score where there are several.
    # The last study of clipped records: releases that a plan compares have the same bounds.
    _clipped: "list[Study]" = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(
        cls, loss: Loss, release: Release, population: Population, l2: float, random_state: int, start: Any = None
    ) -> "Study":
        """Return the study of a population whose records enter the loss as the release says.

        `start` is where its parameters are sought from, as for `m_estimate`.

        Raises
        ------
        InferenceError
            The population has no best parameters.
        ValueError, TypeError
            The release has a centre, a scale or categories that are indicators; or the loss is no loss.
        """
        require_loss(loss)
        random_state = _SEED.check("random_state", random_state)
        if release.center or release.scale:
            raise ValueError(
                "the release has a centre or a scale, and a population is written in released units. Plan with a "
                "release without them."
            )
        if release.categories:
            raise ValueError(
                "the release has categories, and a population is written in released units, an indicator column for "
                "each category. Plan with a release of these columns without categories=, or give them to plan()."
            )
        plain = debias(loss, _of_true_records(release, population.X.shape[1]), method="none")
        try:
            return cls._solved(plain, population, l2, random_state, start)
        except SymdebiasError as error:
            advice = " Give start=, a guess of the parameters." if start is None and not loss.scores else ""
            raise InferenceError(f"the population has no best parameters: {error}{advice}") from None

    @classmethod
    def _solved(cls, plain: CorrectedLoss, population: Population, l2: float, random_state: int, start: Any) -> "Study":
        fit = m_estimate(plain, population.X, population.y, l2=l2, start=start)
        # Of any kind of number, and checked by now.
        l2 = float(l2)
        theta = fit.theta.ravel()
        records = plain.records(population.X, population.y)
        penalty = records.correction.penalty(l2)
        risk = records.completing(penalty).derivatives_or_differences(released_moments(records))[0](theta, True)
        mean = penalty * theta
        meat = risk.meat - np.multiply.outer(mean, mean)
        return cls(plain, population, theta, risk.hessian + np.diag(penalty), meat, random_state, l2, fit.theta)

    def expected(self, release: Release, n: float, method: str = "auto", *, quick: bool = False) -> ExpectedFit:
        """Return what to expect of n records under a release; `quick` takes one copy and the first surrogate.

        Of method "best" it is the correction with the least excess risk, exact where a surrogate gains little or its
        pilot often does not settle; that, "exact" and "surrogate" refuse without a proposal, since a plan compares
        releases itself.
        """
        X, y, outside = clipped_records(release, self.population.X, self.population.y)
        if not outside.count:
            return self._of_method(release, n, method, quick)
        clipped = self._of_clipped(X, y)
        fit = clipped._of_method(release, n, method, quick)
        # Fits are of clipped records, and what is asked for are the parameters of the records themselves.
        away = clipped.theta - self.theta
        bias = fit.bias + away
        note = (
            f"{outside.count / outside.records:.2g} of the population's records lie outside the bounds and are "
            f"clipped, which biases a fit by up to {np.max(np.abs(away) / fit.standard_errors):.2g} standard errors"
        )
        return replace(
            fit,
            theta=self.theta,
            bias=bias,
            excess_risk=float(np.trace(self.hessian @ fit.covariance) + bias @ self.hessian @ bias) / 2,
            without_noise=np.sqrt(np.diag(sandwich(self.hessian, self.meat, n))),
            notes=(note, *fit.notes),
        )

    def _of_clipped(self, X: FloatArray, y: FloatArray) -> "Study":
        """Return the study of the population's records as they are clipped."""
        last = self._clipped[0] if self._clipped else None
        if last is not None and np.array_equal(last.population.X, X) and np.array_equal(last.population.y, y):
            return last
        try:
            study = self._solved(self.plain, Population(X, y), self.l2, self.random_state, self.start)
        except SymdebiasError as error:
            raise InferenceError(
                f"the population has no best parameters once its records are clipped: {error}"
            ) from None
        self._clipped[:] = [study]
        return study

    def _of_method(self, release: Release, n: float, method: str, quick: bool) -> ExpectedFit:
        loss = self.plain.declared
        if method not in _APPROACHES:
            return self._expected(debias(loss, release, method=method), n, quick)
        fits: list[ExpectedFit] = []
        refusals: list[SymdebiasError] = []
        for approach in _APPROACHES[method]:
            try:
                fits.append(self._expected(corrected_by(loss, release, approach), n, quick))
            except SymdebiasError as error:
                refusals.append(error)
        if not fits:
            raise refusals[0]
        if fits[0].method == "exact" and _grows(loss):
            return fits[0]
        return min(fits, key=lambda fit: fit.excess_risk * (1.0 if fit.method == "exact" else _WORSE_THAN_EXACT))

    def needed(self, release: Release, standard_error: float, criterion: Criterion, method: str) -> ExpectedFit:
        """Return what to expect of as many records as an accuracy takes."""
        n, needed = 0.0, 1e5
        for _ in range(_ROUNDS + 1):
            # A surrogate is designed for n, and its variance varies with the design.
            settled, n = abs(needed - n) <= 1e-3 * n, needed
            fit = self.expected(release, n, method)
            if settled:
                break
            stays = self._staying(fit, criterion)
            if not stays < standard_error:
                raise InferenceError(
                    f"the noise is an estimate, whose error alone leaves an error of {stays:.3g}, however many records "
                    "there are. Ask for less, or measure more records twice."
                )
            # No more than there are people: what that leaves is said below.
            falls, wanted = fit.criterion(criterion) ** 2 - stays**2, standard_error**2 - stays**2
            ratio = min(falls / wanted, _PEOPLE.high**2) if wanted > 0 else _PEOPLE.high**2
            needed = float(math.ceil(min(max(1.0, n * ratio), _PEOPLE.high)))
        if fit.criterion(criterion) > _MISSED * standard_error:
            raise InferenceError(
                f"{n:.3g} records still leave an error of {fit.criterion(criterion):.3g}, of which up to "
                f"{np.abs(fit.bias).max():.3g} is a bias, of the surrogate or of records that are clipped. Ask for "
                "less, spend more budget, or declare wider bounds."
            )
        return fit

    def _staying(self, fit: ExpectedFit, criterion: Criterion) -> float:
        """Return what the error of an estimated noise leaves of a criterion, however many records there are."""
        squares = np.diag(fit.of_estimate)
        if criterion == "worst":
            return math.sqrt(float(squares[np.argmax(fit.standard_errors**2 + fit.bias**2)]))
        if criterion == "mean":
            return math.sqrt(float(np.mean(squares)))
        return math.sqrt(float(np.trace(self.hessian @ fit.of_estimate)) / 2)

    def _expected(self, corrected: CorrectedLoss, n: float, quick: bool) -> ExpectedFit:
        """Return what to expect of a correction, no record of the population outside the bounds."""
        theta = self.theta
        if not (corrected.is_resolved or corrected.declared.scores):
            raise NoExactCorrectionError(
                f"{corrected.declared.expression} has no exact correction under this release, and a surrogate is "
                "planned for losses of a score. Declare the loss in its score, Loss(..., score=u), or choose other "
                "noise."
            )
        if not corrected.is_resolved:
            corrected = self._resolved(corrected, n, quick)
        correction = corrected.at(self.population.X.shape[1])
        correction.limits.require(theta, finite_variance=True, at="at the population's parameters")
        meat, of_estimate, deciding, drawn, told = self._noised_meat(corrected, quick)
        covariance = sandwich(self.hessian, meat, n) + of_estimate
        bias = self._bias(corrected)
        notes: tuple[str, ...] = ()
        if corrected.design is not None:
            worst = float(np.max(np.abs(bias) / np.sqrt(np.diag(covariance))))
            notes = (f"the surrogate has a bias of up to {worst:.2g} standard errors",) if worst > 0.1 else ()
            if correction.zonal is None and _grows(corrected.declared):
                notes += (
                    "a fit may well be refused: the loss grows exponentially in the score, and the pilot of a "
                    "surrogate often does not settle then. An exact correction is safer where there is one; l2 helps, "
                    "and a rehearsal tries it out",
                )
        elif corrected.label_mixing is not None:
            notes = corrected.notes
        if deciding < FEW_DECIDE:
            notes += (
                f"as few as {deciding:.2g} of {drawn:,} drawn records decide an expected standard error: gradients "
                "have heavy tails, and it may be far too small; a rehearsal tries it out",
            )
        curvature = told * math.sqrt(n)
        if curvature < SAFE_CURVATURE:
            # It grows with the root of the records.
            enough = n * (SAFE_CURVATURE / curvature) ** 2
            notes += (
                f"a fit to so many records may well be refused: the least curvature of the mean corrected loss is "
                f"expected to be {curvature:.2g} of its own standard errors, and a fit needs {LEAST_CURVATURE:g}. "
                f"About {enough:,.2g} records would do, or less noise, or l2; a rehearsal tries it out",
            )
        return ExpectedFit(
            release=corrected.release,
            records=n,
            theta=theta,
            covariance=covariance,
            excess_risk=float(np.trace(self.hessian @ covariance) + bias @ self.hessian @ bias) / 2,
            bias=bias,
            without_noise=np.sqrt(np.diag(sandwich(self.hessian, self.meat, n))),
            of_estimate=of_estimate,
            score_variance=corrected.score_variance(theta) if corrected.declared.scores else math.nan,
            method=corrected.method,
            curvature=curvature,
            deciding=deciding,
            notes=notes,
        )

    def _rows(self, corrected: CorrectedLoss) -> tuple[FloatArray, FloatArray]:
        """Return the rows of the design, and the targets beside them: of y x and 1 for a margin release."""
        X, y = self.population.X, self.population.y
        correction = corrected.at(X.shape[1])
        if correction.collected is not None:
            matrix, target = correction.true_records(X, y)
            return correction.design.rows(matrix), target
        matrix = self.plain.release.true_matrix(X)
        return self.plain.release.design(X.shape[1]).rows(matrix), self.plain.records(X, y).arrays[1]

    def _resolved(self, corrected: CorrectedLoss, n: float, quick: bool) -> CorrectedLoss:
        """Return the surrogate that a fit to n records would design for the population's scores."""
        (rows, y), parts = self._rows(corrected), corrected.surrogate_parts
        own = 0.0 if parts.target_noise is None else parts.target_noise.variance
        variance = corrected.score_variance(self.theta) + own
        columns = self.population.X.shape[1]
        correction = corrected.at(columns)
        noise = correction.design.released_covariance(correction.noise_covariance())
        scores = Scores.of(rows @ self.theta - y * parts.is_residual)
        if correction.zonal is not None:
            gram = rows.T @ rows / len(rows)
            scene = scene_on_sphere(correction.zonal, noise, gram, scores, variance)
            return corrected.with_design(designed_polynomials(parts, scene, n, targets_of(corrected, y), quick=quick))
        design = designed(
            parts,
            scores,
            np.array([variance]),
            n,
            targets_of(corrected, y),
            share_of_noise=share_of_noise(rows.T @ rows / len(rows) + noise, noise),
            shape=noise_shape(parts, correction.design),
            quick=quick,
        )
        return corrected.with_design(design)

    def _noised_meat(self, corrected: CorrectedLoss, quick: bool) -> tuple[FloatArray, FloatArray, float, int, float]:
        """Return the covariance of the corrected gradient over the population and the noise, and what it rests on.

        After it comes the covariance that errors of estimates of noise make of theta, however many records there are;
        then the records that decide the variance of the parameter with the fewest, (sum psi^2)^2/sum psi^4 with psi
        what a record does to it, and the number of those drawn. The last is the curvature of `curvature_of_records`.

        Raises
        ------
        InferenceError
            A few records carry it, so that no normal approximation holds.
        """
        theta, X, y = self.theta, self.population.X, self.population.y
        copies, drawn, deciding = 1 if quick else max(1, round(_RECORDS / len(y))), 0, math.inf
        meat, least, curvature = np.zeros((len(theta), len(theta))), 1.0, math.nan
        most = 0 if quick else _MORE_DRAWN * copies * len(y)
        squares, fourths = np.zeros((2, len(theta)))
        inverse = np.linalg.inv(self.hessian)
        # By how much theta goes with estimates of noise, over all copies.
        moves: Any = 0.0
        rng = np.random.default_rng([self.random_state, _NOISE_STREAM])
        while (is_first := drawn < copies * len(y)) or (deciding < _DECIDE and drawn < most):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ClippingWarning)
                noised = corrected.release.privatize(X, y, random_state=rng, outside="clip-all")
            records = corrected.records(noised.X, noised.y)
            # Of waves of many categories the kernel of gradients sums each record by itself, a hundred times as long.
            by_derivatives = not records.correction.kernels.leaves_slopes
            gradients = records.gradients(theta, slice(None), by_derivatives=by_derivatives)
            centred = gradients - gradients.mean(axis=0)
            meat += centred.T @ centred
            estimates = list(gradient_slopes(records, theta))
            moves = moves + len(gradients) * np.array([one.slope @ inverse for one in estimates])
            drawn += len(gradients)
            moved = np.square(centred @ inverse)
            squares, fourths = squares + moved.sum(axis=0), fourths + np.square(moved).sum(axis=0)
            # A parameter that no record moves is known.
            ratios = squares**2 / np.where(fourths > 0, fourths, np.nan)
            deciding = float(np.min(ratios, initial=math.inf, where=fourths > 0))
            if is_first:
                # As after a fit, in the units of the score.
                norms = np.linalg.norm(gradients @ inverse_root(released_moments(records)), axis=1)
                size = float(np.mean(norms**2))
                least = min(least, float(norms.mean() ** 2 / size) if 0 < size < math.inf else 0.0)
                if drawn == len(gradients) and corrected.declared.scores and not quick:
                    curvature = curvature_of_records(
                        records, theta, released_moments(records), self.hessian, by_derivatives=by_derivatives
                    )
        if least < _LEAST_SHARE:
            has_score = bool(corrected.declared.scores)
            noise = f" (noise variance {corrected.score_variance(theta):.3g} of the score)" if has_score else ""
            raise InferenceError(
                f"a share of {least:.1g} of the records carries the corrected gradient of "
                f"{corrected.declared.expression} at the population's parameters{noise}: no normal approximation "
                "holds. Plan with less noise, or with a shorter theta."
            )
        of_estimate = np.zeros_like(meat)
        for one, move in zip(estimates, moves / drawn, strict=True):
            of_estimate += one.variance * np.multiply.outer(move, move)
        return meat / drawn, of_estimate, deciding, drawn, curvature

    def _bias(self, corrected: CorrectedLoss) -> FloatArray:
        """Return the bias of theta, -H^-1 times the mean error of the gradient over true records."""
        theta, mixing = self.theta, corrected.label_mixing
        if corrected.design is None and mixing is None:
            return np.zeros(len(theta))
        rows, target = self._rows(corrected)
        wrong = np.zeros(len(theta))
        if corrected.design is not None:
            parts = corrected.surrogate_parts
            wrong = rows.T @ parts.slope_errors(corrected.design.surrogates, rows @ theta, target) / len(rows)
        elif mixing is not None:
            # The nearest loss in the range of a channel is a mixture of those of all labels.
            values = corrected.declared.target_values
            assert values is not None
            away = (mixing - np.eye(len(values)))[np.searchsorted(values, target)]
            for place, value in enumerate(values):
                records = self.plain.records(self.population.X, np.full(len(target), value))
                wrong += away[:, place] @ records.gradients(theta, slice(None)) / len(target)
        return np.asarray(-np.linalg.solve(self.hessian, wrong))


@functools.lru_cache(maxsize=64)
def _grows(loss: Loss) -> bool:
    """Whether a loss of one score grows faster than any power of it."""
    if len(loss.scores) != 1:
        return False
    value = numeric(loss.expression, (*loss.scores, loss.target))
    targets = np.array(loss.target_values or (-1.0, 1.0))[:, None, None]
    sizes = np.abs(value(np.multiply.outer([-1.0, 1.0], _FAR_OUT), targets))
    # Beyond float64 the form may overflow, and not the loss.
    known = np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.nan)
    return bool(np.any(np.diff(np.log10(known), axis=-1) > _LARGEST_POWER * np.diff(np.log10(_FAR_OUT))))


@one_thread()
def expected_fit(
    loss: Loss,
    release: Release,
    population: Population,
    *,
    n: float,
    method: str = "auto",
    l2: float = 0.0,
    start: Any = None,
    random_state: int = 0,
) -> ExpectedFit:
    """Return the standard errors to expect of `m_estimate` on n released records.

    Parameters
    ----------
    loss : Loss
        The loss, of one or several scores, or free-form with an exact correction under the release.
    release : Release
        How records will be released.
    population : Population
        Records that stand for those to come, in released units; those that are given are in their own units where the
        release has `center` or `scale`, whose columns then have names; and as they are collected, with the places of
        categories, where it releases indicators of these. Parameters are those of released columns either way.
    n : float
        How many there will be, at least 1.
    method : {"auto", "exact", "surrogate", "best"}
        The correction, as for `debias`; ``"best"`` takes the surrogate where its excess risk is a tenth smaller than
        that of the exact correction and the loss does not grow exponentially in the score.
    l2 : float
        Regularisation.
    start : array of shape (q,) or (K, q), optional
        Where the population's parameters are sought from, as for `m_estimate`: a guess, which a free-form loss with
        several minima needs; zeros by default.
    random_state : int
        Of the noise on the population; nothing is released.

    Returns
    -------
    ExpectedFit
        The covariance H^-1 J H^-1 / n, H the Hessian of the population's risk at its minimum, J the covariance of the
        corrected gradient there, the noise included; where the noise of a column or of the target was estimated, with
        what the error of the estimate does to a fit, as `m_estimate` has it. Both are those of the clipped records
        where some of the population lie outside the bounds.

    Raises
    ------
    InferenceError
        The population does not tell the parameters apart.
    NoExactCorrectionError, InfiniteVarianceError
        The release cannot be corrected, or its correction has infinite variance at the population's parameters; or the
        loss is free-form, and nothing but a surrogate corrects it.
    ValueError, TypeError
        An argument does not fit.

    Notes
    -----
    First order in 1/sqrt(n): right where the noise leaves a root near the truth, which the number of records must be
    large enough for. The biases of a surrogate and of clipping are not in the covariance; `bias`, `excess_risk` and
    `criterion` have them.

    Examples
    --------
    >>> import symdebias as sd
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(1.0), sd.RandomizedResponse(epsilon=2.0))
    >>> population = sd.planning.Population.guess([2.0, -1.0])
    >>> fit = sd.planning.expected_fit(sd.losses.exponential(), release, population, n=20_000, l2=1.0)
    >>> bool(abs(20_000 * fit.covariance.trace() - 2.59) < 0.1)  # theory: 2.59
    True
    """
    _check_method(method)
    released, population = in_released_units(release, population)
    study = Study.of(loss, released, population, l2, random_state, start)
    return replace(study.expected(released, sample_size(n), method), release=release)


def in_released_units(release: Release, population: Population) -> tuple[Release, Population]:
    """Return the release of the released numbers themselves, and the population as these.

    Codes of categories that are released as indicators become these, and columns are centred and scaled, unless the
    population was drawn, in released units.

    Raises
    ------
    TypeError
        One of them is something else.
    ValueError
        The columns of the population are not those that the release takes, or hold other codes.
    """
    require_release(release)
    require_population(population)
    if not (release.center or release.scale or release.categories):
        return release, population
    names, width = release.columns, population.X.shape[1]
    if names is None:
        raise ValueError(
            f"the release centres or scales columns without names, and the population has {width}. Name the columns, "
            "release.bind(names), and give them in that order."
        )
    collected = release.categories.collected(names)
    if len(collected) != width:
        raise ValueError(
            f"the release takes the columns {', '.join(collected):.300}, and the population has {width}. Give them in "
            "that order, places from 0 on in columns of categories."
        )
    X = population.X
    if release.categories:
        require_codes(X, collected, release.categories)
        X = release.categories.expanded(X, names)
    if not population.is_drawn:
        X = standardised(X, names, release.center, release.scale)
    return without_units(release), Population(X, population.y)


def _of_true_records(release: Release, width: int) -> Release:
    """Return a release whose uncorrected loss takes true records of so many columns as they are.

    Released vectors of a spherical cap are divided by its gain, which true ones must not be: normal noise is in its
    place, and no correction will ask for it. Features and target in one vector are solved apart.
    """
    if release.coupling is not None:
        return Release(fit_intercept=release.fit_intercept)
    groups: dict[Any, Any] = dict(release.groups)
    on_sphere = [
        names
        for (names, _), (place, mechanism) in zip(release.groups, release.placed(width), strict=True)
        if isinstance(mechanism.noise_on(place.stop - place.start), ZonalNoise)
    ]
    if not on_sphere:
        return release
    groups |= dict.fromkeys(on_sphere, GaussianMechanism.from_scale(1.0))
    return Release(
        # Columns without names are one group.
        groups.get(None, groups),
        target=release.target,
        noiseless=release.noiseless,
        fit_intercept=release.fit_intercept,
    )


def without_units(release: Release) -> Release:
    """Return the release of the released columns themselves: without centre, scale and categories to expand."""
    groups: dict[Any, Any] = dict(release.groups)
    coupled = {"target": release.target} if release.coupling is None else release.coupling.arguments
    return Release(groups or None, noiseless=release.noiseless, fit_intercept=release.fit_intercept, **coupled)


def records_needed(
    loss: Loss,
    release: Release,
    population: Population,
    *,
    standard_error: float,
    method: str = "auto",
    l2: float = 0.0,
    criterion: Criterion = "worst",
    start: Any = None,
    random_state: int = 0,
) -> ExpectedFit:
    """Return the number of records with which the standard errors are expected to be small enough.

    Parameters
    ----------
    loss, release, population, method, l2, start, random_state
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

    Examples
    --------
    >>> import symdebias as sd
    >>> population = sd.planning.Population.guess([1.0], size=500)
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    >>> needed = records_needed(sd.losses.squared_margin(), release, population, standard_error=0.01)
    >>> needed.standard_errors.round(3), bool(needed.records > 5_000)
    (array([0.01]), True)
    """
    wanted = POSITIVE.check("standard_error", standard_error)
    check_criterion(criterion)
    _check_method(method)
    released, population = in_released_units(release, population)
    study = Study.of(loss, released, population, l2, random_state, start)
    return replace(study.needed(released, wanted, criterion, method), release=release)


def sample_size(n: float) -> float:
    """Return a checked number of records."""
    records = _PEOPLE.check("n", n)
    if records < 1:
        raise ValueError(f"n={shown(n)} is no number of records. Give at least 1.")
    return records


def _check_method(method: str) -> None:
    """Raise ValueError where a correction is none whose fits are expected: an uncorrected fit has another limit."""
    if not isinstance(method, str) or (method != "auto" and method not in _APPROACHES):
        raise ValueError(
            f"method={shown(method, 60)} is none whose fits are expected. "
            'Choose "auto", "exact", "surrogate" or "best".'
        )


def check_criterion(criterion: str) -> None:
    """Raise ValueError where a criterion is not known."""
    check_choice("criterion", criterion, ("worst", "mean", "risk"))
