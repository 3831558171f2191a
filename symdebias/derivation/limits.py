"""Where a correction exists, and where it has finite variance."""

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray
from symdebias.codegen.score.directions import Directions
from symdebias.codegen.score.program import ScoreProgram
from symdebias.derivation.symbols import Derivation, NoiseSymbols
from symdebias.exceptions import InfiniteVarianceError, NoExactCorrectionError
from symdebias.losses import Loss

# Squares of smaller numbers, times variances, are numbers.
_FAR = 1e100


@dataclass(frozen=True, eq=False)
class Limits:
    """The limits of a correction, and what of theta is held against them."""

    loss: Loss  # The loss as declared, for messages.
    derivation: Derivation  # The correction.
    covariance: FloatArray  # Of shape (l, l) or (0, 0): of the normal noise of the linear columns that is undone.
    target_variance: float  # The variance of additive noise of the target that is undone.

    def at(self, covariance: FloatArray, constants: dict[str, FloatArray]) -> "Limits":
        """Return the same for another covariance of the noise, and blocks of what kernels are told of it."""
        derivation = replace(self.derivation, constants=self.derivation.constants | constants)
        found = replace(self, derivation=derivation, covariance=covariance)
        # What does not depend on the noise of columns is not found out again.
        for name in ("variance", "finite_variance", "conditions"):
            if name in vars(self):
                vars(found)[name] = vars(self)[name]
        return found

    @property
    def _is_of_scores(self) -> bool:
        return isinstance(self.derivation.program, ScoreProgram)

    @functools.cached_property
    def variance(self) -> float:
        """The correction exists for a normal noise variance of the score below this."""
        return self._of(self.derivation.conditions)

    @functools.cached_property
    def finite_variance(self) -> float:
        """It has finite variance for a normal noise variance of the score below this; 0 where it has it for none."""
        if self.derivation.no_variance:
            return 0.0
        return min(self.variance, self._of(self.derivation.variance_conditions))

    def _of(self, conditions: tuple[sp.Rel, ...]) -> float:
        program = self.derivation.program
        if not isinstance(program, ScoreProgram) or len(program.scores) > 1:
            return math.inf
        return noise_limit(conditions, self.derivation.symbols, self.target_variance)

    @property
    def reach(self) -> float:
        """The correction exists where abs(theta_j) times the tail scale of column j is below this for all j.

        Of several scores theta_j is the parameter of a sum of them, see `score_reach`. The tail scale is b for Laplace
        noise; where columns share spherical Laplace noise of the scale b, the norm of their parameters takes the place
        of abs(theta_j). Variances are finite below half of it.
        """
        return 1 / self.derivation.rate if self.derivation.rate > 0 else math.inf

    @functools.cached_property
    def is_unlimited(self) -> bool:
        """Whether the correction exists, with finite variance, wherever the variance of the score is a number."""
        return math.isinf(min(self.variance, self.finite_variance, self.reach)) and not self.conditions

    def for_kernels(self) -> FloatArray:
        """Return what kernels hold against what they compute of theta, so that the variance is finite."""
        if not self._is_of_scores:
            # A program of features has 0 where all is well, 1 without a variance and 2 without a correction.
            return np.array([0.0 if self.derivation.no_variance else 0.5, math.inf])
        return np.array([self.finite_variance, self.reach / 2])

    def require(self, theta: FloatArray, *, finite_variance: bool, at: str = "at this theta") -> None:
        """Raise where the correction does not exist at theta, or its variance where that must be finite besides.

        Raises
        ------
        NoExactCorrectionError, InfiniteVarianceError
            It does not.
        """
        broken = self.broken(theta, finite_variance=finite_variance)
        if broken is not None:
            error, said = broken
            remedy = "Keep theta in a smaller ball, or release with less noise."
            if finite_variance and self.derivation.no_variance:
                remedy = (
                    "Release the target with less noise or with normal noise, or take a loss that grows more slowly."
                )
            raise error(f"{at} {said}. {remedy}")

    def broken(self, theta: FloatArray, *, finite_variance: bool) -> tuple[type[Exception], str] | None:
        """Return the error of a limit that theta breaks, and what is said of it; None where it breaks none."""
        if finite_variance and self.derivation.no_variance:
            return InfiniteVarianceError, self.derivation.no_variance
        if not self._is_of_scores:
            return self._broken_condition(theta, finite_variance=finite_variance)
        if self.is_unlimited and float(np.abs(theta).max(initial=0.0)) < _FAR:
            return None
        for value, what, limit, finite in (
            (
                self.normal_score_variance(theta),
                "the variance of the normal noise of the score",
                self.variance,
                self.finite_variance,
            ),
            (
                self.score_reach(theta),
                "the largest parameter{of}, or norm of those that share noise, times the tail scale of the noise",
                self.reach,
                self.reach / 2,
            ),
        ):
            if value < (finite if finite_variance else limit):
                continue
            said = f"{what.format(of=self._direction_at(theta))} is {value:.4g}, and"
            if not value < limit:
                return (
                    NoExactCorrectionError,
                    f"{said} the correction of {self.loss.expression} exists below {limit:.4g} only",
                )
            return InfiniteVarianceError, f"{said} from {finite:.4g} on the corrected loss has infinite variance"
        return self._broken_condition(theta, finite_variance=finite_variance)

    @functools.cached_property
    def conditions(self) -> tuple[tuple[sp.Rel, type[Exception]], ...]:
        """What is no bound on one number, of free-form losses and the covariance of several scores, with its error."""
        derivation, program = self.derivation, self.derivation.program
        if isinstance(program, ScoreProgram) and (len(program.scores) == 1 or not self.covariance.size):
            return ()
        return tuple(
            (condition, error)
            for conditions, error in (
                (derivation.conditions, NoExactCorrectionError),
                (derivation.variance_conditions, InfiniteVarianceError),
            )
            for condition in conditions
            if derivation.symbols.reach not in condition.free_symbols
        )

    @property
    def worst_parameters(self) -> FloatArray:
        """Orthonormal rows for several scores: among their combinations are the worst parameters of each norm.

        Conditions on the covariance S of the noise of scores are that I + 2 S^(1/2) B S^(1/2) is positive definite,
        for one B or several. For S of a trace that is least so where S has rank one, along the noisiest direction.
        """
        columns = self.derivation.program.columns  # type: ignore[union-attr]
        noisiest = np.linalg.eigh(self.covariance)[1][:, -1]
        rows = np.zeros((len(columns.scores), len(columns.scores), columns.parameters))
        for k in range(len(columns.scores)):
            rows[k, k, list(columns.linear)] = noisiest
        return rows.reshape(len(columns.scores), -1)

    def holds(self, theta: FloatArray, *, finite_variance: bool) -> bool:
        """Whether the `conditions` hold at theta, those of existence alone or also those of a finite variance."""
        return self._broken_condition(theta, finite_variance=finite_variance) is None

    def _broken_condition(self, theta: FloatArray, *, finite_variance: bool) -> tuple[type[Exception], str] | None:
        if not self.conditions:
            return None
        known = self._known(theta)
        for condition, error in self.conditions:
            if condition.xreplace(known) == sp.true or not (finite_variance or error is NoExactCorrectionError):
                continue
            needed = str(condition)
            if self._is_of_scores:
                noise = (f"{name} = {value:.4g}" for name, value in known.items() if condition.has(name))
                needed = f"{condition}, and {', '.join(noise)}"
            if error is NoExactCorrectionError:
                return error, f"the correction of {self.loss.expression} does not exist: it needs {needed}"
            return error, f"the corrected loss has infinite variance: a finite one needs {needed}"
        return None

    def _known(self, theta: FloatArray) -> dict[sp.Symbol, sp.Float]:
        """Return the numbers that stand in `conditions`."""
        derivation, program = self.derivation, self.derivation.program
        if isinstance(program, ScoreProgram):
            rows = self._linear_parameters(theta)
            entries = (rows @ self.covariance @ rows.T)[np.triu_indices(len(rows))]
            known = dict(zip(derivation.symbols.variances, map(sp.Float, entries), strict=True))
        else:
            known = dict(zip(program.parameters, map(sp.Float, theta), strict=True))
            known |= dict(zip(program.constants, map(sp.Float, derivation.constants["constants"]), strict=True))
            known |= dict(zip(program.records, map(sp.Float, derivation.constants["largest"]), strict=True))
        known[derivation.symbols.target_variance] = sp.Float(self.target_variance)
        return known

    def normal_score_variance(self, theta: ArrayLike) -> float:
        """Return the variance of the normal noise in the score, s = theta'D theta; the largest of several.

        It is what `variance` bounds; noise of other columns does not count, and none does that is not corrected.

        Parameters
        ----------
        theta : array of shape (q,) or (K, q)
            The parameters, intercept last.
        """
        if not (self._is_of_scores and self.covariance.size):
            return 0.0
        rows = self._linear_parameters(theta)
        return float(np.max(np.einsum("kj,jl,kl->k", rows, self.covariance, rows)))

    def score_reach(self, theta: ArrayLike) -> float:
        """Return the largest abs(theta_j) times the tail scale of the noise of column j.

        For columns with spherical noise it is the norm of their parameters times the scale of their noise. Of several
        scores theta_j is w.Theta_j for each exponential exp(rate w.u) of the loss: see `Directions`.
        """
        return float(np.max(self._reaches(theta), initial=0.0))

    @property
    def longest_direction(self) -> float:
        """How far `score_reach` gets at most for parameters of norm 1, over the largest tail scale."""
        return self._directions.length

    @property
    def _directions(self) -> Directions:
        scores = len(self.derivation.program.columns.scores)  # type: ignore[union-attr]
        return self.derivation.directions or Directions.of_all(scores)

    def _reaches(self, theta: ArrayLike) -> FloatArray:
        """Return `score_reach` of each of the directions."""
        if not self._is_of_scores:
            return np.zeros(0)
        rows = self._linear_parameters(theta)
        terms, tails = self._directions.of(rows), self.derivation.constants["reach"]
        found = np.array([float(np.max(np.abs(forms).sum(axis=0) * tails, initial=0.0)) for forms in terms])
        for group in self.derivation.spherical:
            weights = group.all_weights(rows.shape[1])
            norms = [float(np.sqrt(forms**2 @ weights + group.constant).sum()) for forms in terms]
            found = np.maximum(found, np.array(norms) / group.noise.tail_rate)
        return found

    def _direction_at(self, theta: ArrayLike) -> str:
        """Return which sum of several scores reaches farthest, as the end of a phrase."""
        names = self.derivation.program.columns.scores  # type: ignore[union-attr]
        if len(names) == 1 or self.derivation.directions is None:
            return ""
        forms = self._directions.terms[int(np.argmax(self._reaches(theta)))]
        weights = [[sp.nsimplify(weight, rational=True) for weight in form] for form in forms]
        return " of " + " and ".join(str(sp.Add(*map(sp.Mul, form, names))) for form in weights)

    def _linear_parameters(self, theta: ArrayLike) -> FloatArray:
        columns = self.derivation.program.columns  # type: ignore[union-attr]
        rows = np.asarray(theta, dtype=float).reshape(len(columns.scores), -1)
        return rows[:, list(columns.linear)]


def noise_limit(conditions: tuple[sp.Rel, ...], symbols: NoiseSymbols, target_variance: float) -> float:
    """Return the least upper bound that conditions put on the noise variance of the score.

    It is infinite without conditions, and 0 where the target's noise alone breaks one.

    Raises
    ------
    NoExactCorrectionError
        A condition is not a bound on the noise of the score.
    """
    limit = math.inf
    for condition in conditions:
        if symbols.reach in condition.free_symbols:
            continue
        margin = sp.expand((condition.gts - condition.lts).xreplace({symbols.target_variance: target_variance}))
        slope = margin.coeff(symbols.score_variance, 1)
        constant = margin.coeff(symbols.score_variance, 0)
        is_bound = margin.free_symbols <= {symbols.score_variance} and margin.is_polynomial()
        if not is_bound or sp.expand(margin - slope * symbols.score_variance - constant) != 0:
            raise NoExactCorrectionError(
                f"the correction exists where {condition}, which is not a bound on the noise of the score. "
                "Declare target_values where the target has few, release the features or the target without noise, or "
                "use another loss."
            )
        if slope == 0:
            limit = limit if constant > 0 else 0.0
        elif slope < 0:
            limit = min(limit, max(0.0, float(-constant / slope)))
    return limit
