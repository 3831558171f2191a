"""The methods of correction: each derives the correction of a loss under a release, or says why it cannot.

The label's noise is undone first, then that of the features: of the scores, or of features by name. A new method is a
class here.
"""

import abc
import functools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from symdebias import _limits
from symdebias.derivation import features
from symdebias.derivation.features import by_feature, hidden_score
from symdebias.derivation.labels import HiddenError, Labelled, is_hidden, label_noise_undone, without_correction
from symdebias.derivation.problem import ScoreProblem
from symdebias.derivation.scores import by_quadrature, by_series, exactly, uncorrected
from symdebias.derivation.surrogates import SurrogateParts, by_surrogate, numbers_of, parts_of
from symdebias.derivation.symbols import Derivation, NoiseSymbols
from symdebias.derivation.zonal import by_polynomials, polynomial_numbers, zonal_noise
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import ChannelNoise
from symdebias.release import Release
from symdebias.release.design import ColumnDesign
from symdebias.transforms.surrogate import Design
from symdebias.zonal import ZonalNoise

HIDDEN_SCORE = "the loss depends on the features through one linear score, and is corrected in it"
# Waves and degree of a surrogate that has no numbers yet.
_SIZE = (12, 2)


@dataclass(frozen=True)
class Problem:
    """A declared loss under a release, for a number of columns of X."""

    loss: Loss  # The declared loss, which fits the release.
    release: Release  # The noise.
    columns: int  # The number of columns of X.
    per_record: bool = False  # Whether each record has noise scales of its own.
    # Whether to sum over categories even where factors could be looked up: what the Hessian needs.
    enumerate_categories: bool = False

    @functools.cached_property
    def symbols(self) -> NoiseSymbols:
        """The symbols of the noise."""
        return NoiseSymbols.beside(self.loss.expression, len(self.loss.scores))

    def in_scores(self) -> "ScoreForm | None":
        """Return the problem as one of linear scores, or None for a free-form loss without a hidden one."""
        if self.loss.scores:
            design = self.release.design(self.columns)
            intercept = len(design.parameters) - 1 if design.intercept else None
            return ScoreForm(self, self.loss, design, intercept, self.symbols, ())
        hidden = hidden_score(self.loss)
        if hidden is None:
            return None
        scored = Loss(
            hidden.expression, score=hidden.score, target=self.loss.target, target_values=self.loss.target_values
        )
        design = _design_of_features(self.loss, self.release, hidden.places)
        symbols = NoiseSymbols.beside(scored.expression)
        return ScoreForm(self, scored, design, hidden.intercept, symbols, (HIDDEN_SCORE,))


@dataclass(frozen=True)
class ScoreForm:
    """A problem written in its linear scores."""

    problem: Problem  # The problem as declared.
    loss: Loss  # Its loss, of scores.
    design: ColumnDesign  # How columns enter the scores.
    intercept: int | None  # The place of the intercept among the parameters.
    symbols: NoiseSymbols  # The symbols of the noise.
    notes: tuple[str, ...]  # What the user should know of the form.

    def undoing_labels(self, *, rewrite: bool = False, nearest: bool = False) -> ScoreProblem:
        """Return what is left to do when the noise of the labels is undone."""
        release = self.problem.release
        return self.with_labels(label_noise_undone(self.loss, release, self.symbols, rewrite=rewrite, nearest=nearest))

    def noted(self, derivation: Derivation) -> Derivation:
        """Return a derivation with the notes on the form before its own."""
        return replace(derivation, notes=(*self.notes, *derivation.notes))

    def with_labels(self, labelled: Labelled) -> ScoreProblem:
        """Return what is left to do for a loss whose label noise is seen to."""
        return ScoreProblem(
            self.loss.scores,
            self.loss.target,
            labelled,
            self.design,
            self.intercept,
            self.symbols,
            self.problem.per_record,
            self.problem.enumerate_categories,
        )


class Method(abc.ABC):
    """A way to correct a loss."""

    name: ClassVar[str]
    # Whether the noise is undone at all.
    corrects: ClassVar[bool] = True

    def derive(self, problem: Problem) -> Derivation:
        """Return the correction of a problem.

        Raises
        ------
        NoExactCorrectionError
            The method does not apply; the message says why.
        DerivationLimitError
            It takes more seconds or longer expressions than it is allowed; see `symdebias.derivation_limits`.
        """
        with _limits.timed():
            _limits.check(problem.loss.expression)
            return self._derive(problem)

    def refusal(self, problem: Problem) -> str | None:
        """Return why the method does not apply, or None where it does."""
        try:
            self.derive(problem)
        except NoExactCorrectionError as error:
            return str(error)
        return None

    @abc.abstractmethod
    def _derive(self, problem: Problem) -> Derivation:
        """Return the correction of a problem, within the limits of a derivation."""


@dataclass(frozen=True)
class Exact(Method):
    """The noise is undone in closed form."""

    name: ClassVar[str] = "exact"

    def _derive(self, problem: Problem) -> Derivation:
        form = problem.in_scores()
        if form is None:
            return _by_feature(problem, features.exactly)
        return form.noted(exactly(form.undoing_labels()))


@dataclass(frozen=True)
class Series(Method):
    """The inverse is cut off at an order in the noise variances."""

    order: int  # The order, at least 1.
    name: ClassVar[str] = "series"

    def _derive(self, problem: Problem) -> Derivation:
        form = problem.in_scores()
        if form is None:
            return _by_feature(problem, functools.partial(features.by_series, order=self.order), rewrite=True)
        return form.noted(by_series(form.undoing_labels(rewrite=True), self.order))


@dataclass(frozen=True)
class Quadrature(Method):
    """The normal noise of an entire loss is undone by quadrature in the complex plane."""

    nodes: int  # The number of nodes, 2 to 128.
    name: ClassVar[str] = "quadrature"

    def _derive(self, problem: Problem) -> Derivation:
        form = problem.in_scores()
        if form is None:
            raise NoExactCorrectionError(
                "quadrature in the complex plane is for losses of one score, and this one is in features by name. "
                "Write it in its score, or ask for the exact correction."
            )
        return form.noted(by_quadrature(form.undoing_labels(), self.nodes))


@dataclass(frozen=True)
class Surrogate(Method):
    """The loss is replaced by a quadratic and waves, or by the nearest loss that a channel lets through."""

    design: Design | None = None  # The surrogates; without them the correction has NaN in the places of their numbers.
    name: ClassVar[str] = "surrogate"

    def _derive(self, problem: Problem) -> Derivation:
        design = self.design
        derivation = _of_size(*(_SIZE if design is None else (design.waves, design.degree)), problem)
        if design is None or "coefficients" not in derivation.constants:
            return derivation
        parts = surrogate_parts(problem.loss, problem.release)
        for group in derivation.spherical:
            if isinstance(group.noise, ZonalNoise):
                numbers = polynomial_numbers(parts, design, group.noise)
                return replace(derivation, constants=derivation.constants | {"coefficients": np.array(numbers)})
        constants = {
            name: np.where(np.isnan(values), design.frequency, values) for name, values in derivation.constants.items()
        }
        constants["coefficients"] = np.array([design.frequency, *numbers_of(parts, design)])
        return replace(derivation, constants=constants)


@dataclass(frozen=True)
class Uncorrected(Method):
    """The loss is left as it stands, for true records or for comparison."""

    name: ClassVar[str] = "none"
    corrects: ClassVar[bool] = False

    def _derive(self, problem: Problem) -> Derivation:
        loss = problem.loss
        labelled = without_correction(loss)
        # A hidden score matters to noise alone.
        form = problem.in_scores() if loss.scores else None
        if form is None:
            return by_feature(loss, labelled, problem.release, problem.symbols, None)
        return form.noted(uncorrected(form.with_labels(labelled)))


def method_of(name: str, *, order: int | None = None, nodes: int | None = None, design: Design | None = None) -> Method:
    """Return a method by its name, with the order of a series, the nodes of a quadrature or a design of surrogates."""
    if name == "series":
        assert order is not None
        return Series(order)
    if name == "quadrature":
        assert nodes is not None
        return Quadrature(nodes)
    if name == "surrogate":
        return Surrogate(design)
    return Exact() if name == "exact" else Uncorrected()


@functools.lru_cache(maxsize=128)
def _of_size(waves: int, degree: int, problem: Problem) -> Derivation:
    """Return the correction of surrogates without their numbers: the same for all of so many waves, or of a degree."""
    form = problem.in_scores()
    loss, release = problem.loss if form is None else form.loss, problem.release
    noise = release.target_noise
    hidden = isinstance(noise, ChannelNoise) and is_hidden(loss, noise)
    if form is None:
        if not hidden:
            parts_of(loss, release, problem.symbols)  # says that it has none
        return replace(_by_feature(problem, features.exactly, nearest=True), exact=False)
    if not hidden:
        parts = parts_of(loss, release, form.symbols)
        scores = form.with_labels(parts.labelled)
        if zonal_noise(scores) is not None:
            return form.noted(by_polynomials(scores, parts, degree=degree))
        return form.noted(by_surrogate(scores, parts, waves=waves))
    nearest = form.undoing_labels(nearest=True)
    try:
        derivation = exactly(nearest)
    except NoExactCorrectionError as error:
        raise HiddenError(
            f"the channel of the target hides the loss, and the nearest one in its range has no exact correction "
            f"either: {error} Release the features without noise, or with noise that is undone exactly for this loss."
        ) from None
    return form.noted(replace(derivation, exact=False))


def surrogate_parts(loss: Loss, release: Release) -> SurrogateParts:
    """Return the parts of a loss that surrogates stand for, in its hidden score if it is free-form.

    Raises
    ------
    NoExactCorrectionError
        The loss has none: it is no function of one score or residual.
    """
    hidden = hidden_score(loss) if not loss.scores else None
    if hidden is not None:
        loss = Loss(hidden.expression, score=hidden.score, target=loss.target, target_values=loss.target_values)
    return parts_of(loss, release, NoiseSymbols.beside(loss.expression))


def _by_feature(problem: Problem, undo: features.Undo, *, rewrite: bool = False, nearest: bool = False) -> Derivation:
    labelled = label_noise_undone(problem.loss, problem.release, problem.symbols, rewrite=rewrite, nearest=nearest)
    return by_feature(problem.loss, labelled, problem.release, problem.symbols, undo, per_record=problem.per_record)


def _design_of_features(loss: Loss, release: Release, places: tuple[int, ...]) -> ColumnDesign:
    """Return the design of a hidden score: each feature times the parameter that stands beside it."""
    design = release.design(len(loss.features))
    categorical = (
        replace(part, parameters=(places[part.column],) * len(part.noise.inputs), values=part.noise.inputs)
        for part in design.categorical
    )
    return replace(
        design,
        parameters=tuple(symbol.name for symbol in loss.parameters),
        linear=tuple(replace(part, parameter=places[part.column]) for part in design.linear),
        categorical=tuple(categorical),
        intercept=False,
    )
