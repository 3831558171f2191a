"""The parameters of a fit as a table of numbers: in released or in original units."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from symdebias import _optional
from symdebias._arrays import FloatArray
from symdebias._domains import OPEN_UNIT, shown
from symdebias.inference import Inference
from symdebias.release.groups import labels_of_target
from symdebias.solvers.predictions import Predictor

if TYPE_CHECKING:
    from symdebias.solvers.fit import Fit

# How many times as long as another a coefficient may be on the same axis.
_ONE_AXIS = 20.0


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Parameters with what is known of their accuracy, one entry for each, scores after one another."""

    names: tuple[str, ...]
    values: FloatArray  # Of shape (Q,): the parameters.
    level: float  # The level of the intervals.
    in_original_units: bool  # Whether the release's centre and scale were undone.
    inference: Inference | None  # What is known of their accuracy.

    @classmethod
    def of(cls, fit: "Fit", level: float, *, original_units: bool) -> "Coefficients":
        """Return those of a fit.

        Raises
        ------
        ValueError
            There are no original units; see `Fit.coefficients`.
        """
        level = OPEN_UNIT.check("level", level)
        names = fit.names
        if fit.theta.ndim > 1:
            names = tuple(f"{score}: {name}" for score in _names_of_scores(fit) for name in names)
        values, inference = fit.theta.ravel(), fit.inference
        if original_units:
            values = fit.coefficients.ravel()
            if inference is not None:
                inference = inference.mapped(to_original_units(fit))
        return cls(names, values, level, original_units, inference)

    def rows_of(self, names: Any) -> FloatArray | None:
        """Return a row of the identity for each parameter of these names, or None where they are no text.

        Raises
        ------
        ValueError
            There is none of a name.
        """
        listed = [names] if isinstance(names, str) else names
        if not (isinstance(listed, (list, tuple)) and listed and all(isinstance(one, str) for one in listed)):
            return None
        places: list[int] = []
        for name in listed:
            found = [place for place, own in enumerate(self.names) if own == name] or [
                place for place, own in enumerate(self.names) if own.startswith(f"{name}=")
            ]
            if not found:
                raise ValueError(
                    f"{shown(name, 60)} is no parameter of this fit; these are {', '.join(self.names):.400}. Name some "
                    "of them, or pass the matrix R of restrictions."
                )
            places += found
        return np.eye(len(self.names))[places]

    def beside(self, other: "Fit") -> "Coefficients":
        """Return those of another fit of the same parameters, in the same units and at the same level.

        Raises
        ------
        TypeError, ValueError
            It is no fit, or has other parameters.
        """
        # Duck-typed, since fits are made of these.
        if not hasattr(other, "theta") or not hasattr(other, "names"):
            raise TypeError(
                f"naive must be a fit; got {type(other).__name__}. Pass what symdebias.literature.naive returned."
            )
        found = Coefficients.of(other, self.level, original_units=self.in_original_units)
        if found.names != self.names:
            raise ValueError(
                f"naive has the parameters {', '.join(found.names):.200}, and the fit {', '.join(self.names):.200}. "
                "Fit both to the same columns."
            )
        return found

    @property
    def drawn(self) -> range:
        """The places of those that a picture shows.

        In original units an intercept is the score where all columns are 0, far from most records and from the scale of
        the others: on one axis it would leave them a point.
        """
        far = self.in_original_units and self.names[-1] == "intercept"
        return range(max(1, len(self.names) - far))

    def scales(self, other: "Coefficients | None" = None) -> FloatArray | None:
        """Return what each of those that are drawn is to be divided by, or None where all fit on one axis.

        That is its largest number in the picture, where that of one is more than 20 times that of another, as a
        coefficient per year is of one per cent of income: on one axis the smaller would be a point at 0.
        """
        reached = np.zeros(len(self.drawn))
        for table in (self, other):
            if table is not None:
                numbers = np.abs(np.column_stack([table.values, *([] if table.ends is None else [table.ends])]))
                numbers = numbers[self.drawn]
                reached = np.maximum(reached, np.where(np.isfinite(numbers), numbers, 0.0).max(axis=1))
        present = reached[reached > 0]
        if not len(present) or present.max() <= _ONE_AXIS * present.min():
            return None
        return np.where(reached > 0, reached, 1.0)

    @property
    def errors(self) -> FloatArray | None:
        """The standard errors, or None where there is no covariance."""
        if self.inference is None or self.inference.covariance is None:
            return None
        return self.inference.standard_errors()

    @property
    def bias(self) -> FloatArray | None:
        """The bounds on the bias, or None where there is none."""
        return self.inference.bias if self.inference is not None and self.inference.has_bias else None

    @property
    def letter(self) -> str:
        """``"z"``, or ``"t"`` where the covariance rests on few values."""
        return "z" if self.inference is None or self.inference.degrees_of_freedom is None else "t"

    @property
    def degrees_of_freedom(self) -> FloatArray | None:
        """Those of Student's t, infinite for the normal distribution, or None where they are the same for all."""
        if self.inference is None:
            return None
        found = self.inference.freedom(len(self.values))
        return None if np.all(found == found[0]) else found

    @property
    def statistics(self) -> FloatArray | None:
        """The parameters over their standard errors."""
        errors = self.errors
        if errors is None:
            return None
        found = [
            value / error if error > 0 else math.copysign(math.inf, value)
            for value, error in zip(self.values, errors, strict=True)
        ]
        return np.array(found)

    @property
    def pvalues(self) -> FloatArray | None:
        """The p values of parameters of 0, or None where there are no intervals."""
        return self.inference.pvalues(self.values) if self._has_intervals and self.inference is not None else None

    @property
    def ends(self) -> FloatArray | None:
        """The ends of the intervals, shape (Q, 2), or None where there are none."""
        if not self._has_intervals or self.inference is None:
            return None
        return self.inference.interval(self.values, self.level)

    @property
    def _has_intervals(self) -> bool:
        return self.errors is not None and self.inference is not None and not self.inference.refusal

    def columns(self) -> dict[str, FloatArray]:
        """Return the columns that there are, by name."""
        found: dict[str, FloatArray | None] = {"coefficient": self.values, "standard_error": self.errors}
        found["bias_bound"] = self.bias if self.errors is not None else None
        if self._has_intervals:
            found["degrees_of_freedom"] = self.degrees_of_freedom
            found[self.letter], found["p_value"] = self.statistics, self.pvalues
            ends = self.ends
            assert ends is not None
            found["lower"], found["upper"] = ends[:, 0], ends[:, 1]
        return {name: column for name, column in found.items() if column is not None}

    def frame(self) -> Any:
        """Return them as a table of pandas, indexed by name.

        Raises
        ------
        MissingDependencyError
            pandas is not installed.
        """
        pandas = _optional.require("pandas", extra="tables")
        return pandas.DataFrame(self.columns(), index=pandas.Index(self.names, name="parameter"))

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows of the table as text, a cell each; names first."""
        head, columns = [""], [list(self.names)]
        for name, numbers in self.columns().items():
            head.append(self._head(name))
            written = _WRITTEN.get(name, _statistic)
            errors = np.full(len(numbers), np.nan) if self.errors is None else self.errors
            columns.append([written(float(one), float(error)) for one, error in zip(numbers, errors, strict=True)])
        return head, [list(row) for row in zip(*columns, strict=True)]

    def _head(self, name: str) -> str:
        tail = (1 - self.level) / 2
        value = "coefficient" if self.in_original_units else "theta"
        return {
            "coefficient": value,
            "standard_error": "std err",
            "bias_bound": "bias <=",
            "degrees_of_freedom": "df",
            "p_value": f"P>|{self.letter}|",
            "lower": f"[{tail:.4g}",
            "upper": f"{1 - tail:.4g}]",
        }.get(name, self.letter)


def _within_errors(number: float, error: float, *, digits: int) -> str:
    """Return a number in some digits, or in as many as tell its standard error in two: ends of intervals differ."""
    if 0 < error < abs(number) < math.inf:
        digits = min(_ALL_DIGITS, max(digits, math.ceil(math.log10(abs(number) / error)) + 2))
    return f"{number:.{digits}g}"


def _statistic(number: float, error: float) -> str:
    return f"{number:.3f}" if abs(number) < _LARGE_STATISTIC else f"{number:.4g}"


# What tells all numbers apart, and from where on a statistic has no decimals.
_ALL_DIGITS = 17
_LARGE_STATISTIC = 1e5
# How numbers of a table are written, by the name of their column, beside a standard error of the same row.
_WRITTEN: dict[str, Callable[[float, float], str]] = {
    "coefficient": functools.partial(_within_errors, digits=6),
    "standard_error": lambda number, error: f"{number:.4g}",
    "bias_bound": lambda number, error: f"{number:.4g}",
    "degrees_of_freedom": lambda number, error: f"{number:.3g}",
    "p_value": lambda number, error: f"{number:.3f}",
    "lower": functools.partial(_within_errors, digits=5),
    "upper": functools.partial(_within_errors, digits=5),
}


def _names_of_scores(fit: "Fit") -> tuple[str, ...]:
    """Return the labels that scores stand for, where these are texts and a score each, and their symbols otherwise."""
    scores, coupling = fit.corrected.declared.scores, fit.corrected.release.coupling
    labels = None if coupling is not None else labels_of_target(fit.corrected.release.target, "range")
    if labels is not None and labels.is_text and len(labels.values) == len(scores):
        # A score stands for the label that is predicted where it is the largest.
        if Predictor.of(fit).picks_largest:
            return tuple(map(str, labels.values))
    return tuple(map(str, scores))


def to_original_units(fit: "Fit") -> FloatArray:
    """Return the matrix A that takes all parameters to those of columns in their own units, shape (Q, Q).

    Coefficients are theta_j/scale_j, and the intercept takes up the shifts: b - sum_j center_j theta_j/scale_j. That is
    linear, so that A V A' is their covariance exactly.

    Raises
    ------
    ValueError
        As for `Fit.coefficients`.
    """
    width = fit.theta.shape[-1]
    one = np.stack([fit.corrected.release.original_units(row) for row in np.eye(width)], axis=1)
    scores = 1 if fit.theta.ndim == 1 else len(fit.theta)
    return np.asarray(np.kron(np.eye(scores), one), dtype=float)
