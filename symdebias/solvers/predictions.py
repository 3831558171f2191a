"""What a fit says of true records: scores, labels, chances and means, with the release's centre and scale applied.

What a score means is read off the loss, by `symdebias.losses.meaning`; here are the numbers.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from symdebias import _arrays
from symdebias._arrays import FloatArray, IntegerArray
from symdebias._rows import Rows, counted_from, in_memory
from symdebias._tables import number_of_rows
from symdebias.checks.records import middle_and_reach
from symdebias.checks.scaled import FEWEST
from symdebias.codegen import stable
from symdebias.codegen.numeric import numeric
from symdebias.losses import Loss
from symdebias.losses.meaning import Meaning, meaning_of
from symdebias.mechanisms.ranges import Ball, Labels
from symdebias.reading import some_of
from symdebias.release import Release
from symdebias.release.categories import as_declared
from symdebias.release.columns import standardised
from symdebias.release.groups import labels_of_target
from symdebias.release.matrices import bound_to, collected_matrix
from symdebias.solvers.offsets import as_offset

if TYPE_CHECKING:
    from symdebias.solvers.fit import Fit

# Records of a table, or scores, that are looked at at a time: a power of two, so that products are those of all.
_AT_ONCE = 2**15
# Of so many records it is seen whether they may be released ones, and this share is many.
_LOOKED_AT, _MANY = 4096, 0.05
# Scores of each label that what is predicted is compared at.
_PROBED = 5
# A score in the place of one that is infinite.
_FARTHEST = 1e100


@dataclass(frozen=True)
class Predictor:
    """A loss, a release and parameters, as a function of true records."""

    loss: Loss  # The declared loss, with the labels of a margin release where it names none.
    release: Release  # The release, whose columns true records have in their own units.
    theta: FloatArray  # Of shape (q,) or (K, q): the parameters.
    has_offset: bool = False  # Whether they were fitted with an offset, which scores then need.

    @classmethod
    def of(cls, fit: "Fit") -> "Predictor":
        """Return that of a fit.

        Raises
        ------
        ValueError
            The loss is free-form.
        """
        loss, release = fit.corrected.declared, fit.corrected.release
        if not loss.scores:
            raise ValueError(
                f"{loss.expression} is in features by name and has no score, so that nothing says what it predicts. "
                "Put fit.theta and the features into your own model, or declare the loss in a score."
            )
        if release.coupling is not None and release.coupling.values is not None and loss.target_values is None:
            loss = loss.with_target_values(release.coupling.values)
        return cls(loss, release, fit.theta, bool(fit.diagnostics.get("offset")))

    # ---- meaning -----------------------------------------------------------------------------------------

    @property
    def meaning(self) -> Meaning:
        """What the loss says of the target."""
        return meaning_of(self.loss)

    @property
    def predicts(self) -> str:
        """``"label"`` or ``"number"``.

        Raises
        ------
        ValueError
            The loss says neither.
        """
        # Labels are what a margin release has, whatever else its loss could be.
        coupling = self.release.coupling
        found = "label" if coupling is not None and coupling.values is not None else self.meaning.predicts
        if found is None:
            raise ValueError(
                f"{self.loss.expression} does not say what a score predicts: it has no target values, its slope in the "
                "score is not affine in the target, and it is no function of the residual. decision_function returns "
                "the scores."
            )
        return found

    @property
    def picks_largest(self) -> bool:
        """Whether there is a score for each label, and the one of least loss is that of the largest score."""
        probes = self._probes()
        return self._has_score_for_each and np.array_equal(self.codes(probes), probes.argmax(axis=1))

    @property
    def is_softmax(self) -> bool:
        """Whether there is a score for each label, and chances are the softmax of the scores.

        Raises
        ------
        ValueError
            There are no chances; see `probabilities`.
        """
        probes = self._probes()
        found = self.probabilities(probes)
        return self._has_score_for_each and np.allclose(found, special.softmax(probes, axis=1), rtol=1e-9)

    @property
    def _has_score_for_each(self) -> bool:
        return len(self.meaning.values) == len(self.loss.scores)

    def _probes(self) -> FloatArray:
        """Return points in several scores, each of which is the largest at some of them."""
        count = len(self.loss.scores)
        probes = np.linspace(-2.0, 2.0, _PROBED * count).reshape(count, -1).T
        return np.concatenate([np.roll(probes, shift, axis=1) for shift in range(count)])

    @property
    def labels_known(self) -> Labels | None:
        """The labels as their owner knows them, where a channel noises them."""
        return labels_of_target(self.release.target, "range") if self.release.coupling is None else None

    @property
    def classes(self) -> Any:
        """The labels in the order of the loss's target values: the user's own, or numbers, shape (k,).

        Raises
        ------
        ValueError
            The loss has no target values.
        """
        if not self.meaning.values:
            raise ValueError(
                f"{self.loss.expression} has no target values, and so no labels. Declare target_values on the loss."
            )
        numbers = np.array(self.meaning.values)
        known = self.labels_known
        return numbers if known is None else as_declared(numbers, known)

    # ---- numbers -----------------------------------------------------------------------------------------

    def scores(self, X: Any, offset: Any = None) -> FloatArray:
        """Return the scores of true records in their own units, shape (n,) or (n, K); see `Fit.decision_function`.

        Raises
        ------
        ValueError
            X or the offset does not fit, or the fit had an offset and none is given.
        """
        self._require_matching(X, offset)
        return self._with_offset(self._scores(X), offset)

    def rows_and_scores(self, X: Any, offset: Any) -> tuple[FloatArray, FloatArray]:
        """Return what `rows` and `scores` do."""
        self._require_matching(X, offset)
        rows = self.rows(X)
        return rows, self._with_offset(rows @ self.theta.T, offset)

    def _require_matching(self, X: Any, offset: Any) -> None:
        if offset is None and self.has_offset:
            raise ValueError(
                "this fit has an offset, and nothing is predicted without one. Pass offset=, with zeros for an "
                "exposure of 1."
            )
        if self.release.columns is None and _arrays.is_table(X):
            raise ValueError(
                "the columns of this fit have no names, so that those of a table cannot be matched. Pass an array in "
                "the order of the fit, or fit with noised.release or release.bind(names)."
            )
        _arrays.check_same_index(X, None, offset=offset)

    @staticmethod
    def _with_offset(scores: FloatArray, offset: Any) -> FloatArray:
        if offset is None:
            return scores
        known = as_offset(offset, len(scores))
        return np.asarray(scores + (known if scores.ndim == 1 else known[:, None]))

    def _scores(self, X: Any) -> FloatArray:
        """Return the scores, of many records that would have to be copied, or are read by blocks, some at a time."""
        is_table, is_read = _arrays.is_table(X), isinstance(X, Rows)
        is_copied = isinstance(X, np.ndarray) and X.ndim == 2 and not (X.dtype == float and X.flags.carray)
        if is_table or is_read or is_copied:
            count = number_of_rows(X) if is_table else len(X)
            if count > _AT_ONCE or is_read:
                return self.over_blocks(X, count, lambda rows, part: self._scores(part))
        scores: FloatArray = self.rows(X) @ self.theta.T
        return scores

    def over_blocks(self, X: Any, count: int, work: Callable[[slice, Any], FloatArray]) -> FloatArray:
        """Return what a function says of true records, shape (n, ...): of some at a time, by their slice.

        Errors name the row among all.
        """
        if isinstance(X, Rows):
            known = self.release.columns
            X.require_places(None if known is None else self.release.categories.collected(known))
        found = np.empty(0)
        # What is empty is refused as some of it.
        for start in range(0, max(count, 1), _AT_ONCE):
            rows = slice(start, min(start + _AT_ONCE, count))
            with counted_from(start):
                said = work(rows, some_of(X, rows))
            if start == 0:
                found = np.empty((count, *said.shape[1:]))
            found[rows] = said
        return found

    def rows(self, X: Any) -> FloatArray:
        """Return what stands beside the parameters of a score for true records in their own units, shape (n, q).

        Raises
        ------
        ValueError, TypeError
            X does not fit.
        """
        matrix = self._matrix(X)
        rows = self.release.design(matrix.shape[1]).rows(matrix)
        if rows.shape[1] != self.theta.shape[-1]:
            raise ValueError(
                f"X makes {rows.shape[1]} columns of the score, and the fit has {self.theta.shape[-1]} parameters. "
                "Pass the columns that it was fitted on."
            )
        return rows

    def _matrix(self, X: Any) -> FloatArray:
        """Return true columns as they were before they were noised, shape (n, p)."""
        matrix = collected_matrix(self.release, X)
        bound = self.release if not (self.release.center or self.release.scale) else bound_to(self.release, X)
        if bound.center or bound.scale:
            assert bound.columns is not None
            matrix = standardised(matrix, bound.columns, bound.center, bound.scale)
        return matrix

    def note_released(self, X: Any) -> None:
        """Warn where many records lie outside of their declared bounds: released ones, which are no true ones.

        Some thousand are looked at. Of true records those that lie there were clipped before the noise, so that a model
        of them is one of other records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            Records, which `scores` has taken.
        """
        if self.release.categories:
            # Columns are noised as indicators, which records do not have.
            return
        matrix = self._matrix(some_of(X, slice(0, _LOOKED_AT)))
        outside = np.zeros(len(matrix), dtype=bool)
        for place, mechanism in self.release.placed(matrix.shape[1]):
            rows, (middle, reach) = matrix[:, place], middle_and_reach(mechanism)
            # What lies at the bounds may be beyond them by rounding.
            if isinstance(mechanism.range, Ball):
                outside |= mechanism.range.clip((1 - 1e-9) * rows)[1]
            elif reach is not None:
                outside |= np.any(np.abs(rows - middle) > (1 + 1e-9) * reach, axis=1)
        if len(matrix) >= FEWEST and outside.mean() > _MANY:
            warnings.warn(
                "many of these records lie outside of the bounds that the release declares, as released ones do, and "
                "score judges predictions for true ones. Of released records symdebias.evaluation.evaluate estimates "
                "what true ones would give; a search of scikit-learn takes scoring=symdebias.CorrectedScorer(metric).",
                stacklevel=4,
            )

    def codes(self, scores: FloatArray) -> IntegerArray:
        """Return the places among the target values of the labels of least loss, shape (n,)."""
        if self.meaning.sign and scores.ndim == 1:
            return (self.meaning.sign * scores > 0).astype(np.int64)
        return np.asarray(np.argmin(self._losses(scores), axis=1), dtype=np.int64)

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the chances of the target values, shape (n, k).

        Raises
        ------
        ValueError
            The loss is no negative log likelihood.
        """
        if not self.meaning.values:
            raise ValueError(
                f"{self.loss.expression} has no target values, and so no probabilities of them. predict returns the "
                "prediction of the target."
            )
        if not self.meaning.is_likelihood:
            raise ValueError(
                f"{self.loss.expression} is no model of probabilities: exp(-loss), summed over the target values, "
                "changes with the score. Fit the logistic, probit or softmax loss, or use decision_function."
            )
        chances: FloatArray = special.softmax(-self._losses(scores), axis=1)
        return chances

    def numbers(self, scores: FloatArray) -> FloatArray:
        """Return the number that the score stands for, shape (n,)."""
        assert self.meaning.number is not None
        with np.errstate(over="ignore"):
            found = numeric(stable.rewrite(self.meaning.number), self.loss.scores)(scores)
        values: FloatArray = np.broadcast_to(found, scores.shape).astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError(
                f"the prediction for row {int(np.argmin(np.isfinite(values)))} is beyond the numbers of float64. Its "
                "score is too large: check the units of X."
            )
        return values

    def predicted_at(self, scores: FloatArray) -> FloatArray:
        """Return what is predicted at scores of any shape, which may be infinite: a number, or the chance of a label.

        That is the last of two labels.

        Raises
        ------
        ValueError
            There is neither; or there are more labels than two.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self.predicts == "number":
                assert self.meaning.number is not None
                found = numeric(stable.rewrite(self.meaning.number), self.loss.scores)(scores)
                values: FloatArray = np.broadcast_to(found, scores.shape).astype(np.float64)
                # A sum of what is infinite in both directions says nothing of the end.
                return np.where(np.isnan(values), scores, values)
            if len(self.meaning.values) != 2:
                raise ValueError(
                    f"{self.loss.expression} has one score for {len(self.meaning.values)} labels, whose chances do not "
                    'rise and fall with it. Ask for of="score".'
                )
            # Losses at infinity may be differences of what is infinite.
            finite = np.clip(scores.ravel(), -_FARTHEST, _FARTHEST)
            return self.probabilities(finite)[:, -1].reshape(scores.shape)

    def _losses(self, scores: FloatArray) -> FloatArray:
        """Return the loss at each target value, shape (n, k)."""
        arguments = (scores,) if scores.ndim == 1 else tuple(scores.T)
        with np.errstate(over="ignore"):
            found = [
                np.broadcast_to(numeric(stable.rewrite(one), self.loss.scores)(*arguments), (len(scores),))
                for one in self.meaning.losses
            ]
        losses: FloatArray = np.stack(found, axis=1)
        return losses

    # ---- the user's words --------------------------------------------------------------------------------

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return labels or numbers; see `Fit.predict`."""
        kind, scores = self.predicts, self.scores(X, offset)
        if kind != "label":
            return self.numbers(scores)
        classes = self.classes
        found = np.empty(len(scores), dtype=classes.dtype)
        for start in range(0, len(found), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            found[rows] = classes[self.codes(scores[rows])]
        return found

    def true_codes(self, y: Any, *, rows: int) -> IntegerArray:
        """Return the places of true labels, in the user's own words, among the target values.

        Raises
        ------
        TypeError, ValueError
            They are other labels.
        """
        known = self.labels_known
        if known is not None and known.is_text:
            numbers = _arrays.codes_array(y, known.values, "y")
            if len(numbers) != rows:
                raise ValueError(f"y has {len(numbers)} entries, but X has {rows} rows. Pass one per record.")
        else:
            values = self.meaning.values if self.loss.target_values is None else self.loss.target_values
            numbers = _arrays.label_array(y, values, rows=rows)
        if not np.isin(numbers, self.meaning.values).all():
            told = ", ".join(f"{label:g}" if isinstance(label, float) else str(label) for label in self.classes)
            raise ValueError(
                f"y has labels that the loss does not tell apart: it is one of {told}. Pass records of these alone."
            )
        return _arrays.places_among(self.meaning.values, numbers)

    def score(self, X: Any, y: Any, sample_weight: Any, offset: Any = None) -> float:
        """Return the accuracy or R2; see `Fit.score`."""
        kind, scores = self.predicts, self.scores(X, offset)
        rows = len(scores)
        self.note_released(X)
        y = in_memory(y)
        _arrays.check_same_index(X, y, sample_weight=sample_weight)
        weights = np.ones(rows) if sample_weight is None else _arrays.weights_array(sample_weight, rows=rows)
        if kind == "label":
            return float(np.average(self.codes(scores) == self.true_codes(y, rows=rows), weights=weights))
        target = _arrays.target_array(y, rows=rows)
        _arrays.require_squares(target, "y")
        total = float(weights @ (target - np.average(target, weights=weights)) ** 2)
        if not total > 0:
            raise ValueError("y is the same in all records, and R2 is a share of its variance. Pass other records.")
        with np.errstate(over="ignore"):
            left = float(weights @ (target - self.numbers(scores)) ** 2)
        if not math.isfinite(left):
            raise ValueError(
                "the squares of what is predicted are beyond what a number holds. X has values that are too large: "
                "leave these records out."
            )
        return 1.0 - left / total
