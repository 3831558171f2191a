"""Linear combinations of parameters, and what is predicted at some records: values with their intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logsumexp, softmax

from symdebias._arrays import FloatArray, real_array
from symdebias._domains import is_number, shown
from symdebias._rows import Rows
from symdebias._tables import column_names, is_column, is_table
from symdebias.inference import Inference
from symdebias.solvers.coefficients import Coefficients, to_original_units
from symdebias.solvers.offsets import as_offset
from symdebias.solvers.predictions import Predictor

if TYPE_CHECKING:
    from symdebias.solvers.fit import Fit

# Combinations whose covariance is held at a time.
_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Combinations:
    """Linear combinations of parameters; made by `Fit.combinations`.

    Attributes
    ----------
    values : array of shape (k,), float64
        The combinations at the estimate.
    standard_errors : array of shape (k,), float64
        Without the bias.
    bias_bound : array of shape (k,), float64
        On the bias of each: what biases of the parameters within their bounds come to at most, or less where a bound
        holds for all combinations at once; 0 where the correction is exact.
    interval : array of shape (k, 2), float64
        Lower and upper ends, which may be infinite.
    pvalues : array of shape (k,), float64
        Of combinations of 0, two-sided: 1 less the level of the interval that just reaches 0.
    level : float
        That of the intervals.

    Examples
    --------
    >>> import symdebias as sd
    >>> X = np.random.default_rng(0).normal(size=(20_000, 2))
    >>> release = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.5)})
    >>> noised = release.privatize(X, X @ [2.0, 1.0], random_state=1)
    >>> fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), noised.X, noised.y)
    >>> found = fit.combinations([{"a": 1.0, "b": -1.0}, {"a": 1.0, "b": -2.0}])
    >>> np.abs(found.values).round(1).tolist(), bool(found.pvalues[0] < 1e-9 < found.pvalues[1])
    ([1.0, 0.0], True)
    """

    values: FloatArray
    standard_errors: FloatArray
    bias_bound: FloatArray
    interval: FloatArray
    pvalues: FloatArray
    level: float

    def __str__(self) -> str:
        tails = 50 * (1 - self.level)
        lines = [f"{'value':>12}{'std err':>12}{'p value':>10}{f'[{tails:g}':>14}{f'{100 - tails:g}]':>14}"]
        for value, error, chance, (low, high) in zip(
            self.values, self.standard_errors, self.pvalues, self.interval, strict=True
        ):
            lines.append(f"{value:>12.5g}{error:>12.4g}{chance:>10.3f}{low:>14.5g}{high:>14.5g}")
        return "\n".join(lines)


def combinations_of(fit: "Fit", weights: Any, level: float, *, original_units: bool) -> Combinations:
    """Return combinations of the parameters of a fit; see `Fit.combinations`."""
    known = Coefficients.of(fit, level, original_units=original_units)
    rows, inference = _rows(weights, known.names), fit.inference
    assert inference is not None
    values = rows @ known.values
    if original_units:
        # At once: errors of an intercept far from the records would be added to those that cancel them.
        rows = rows @ to_original_units(fit)
    # The covariance of all of them together is that of a pair each.
    parts = [slice(start, start + _AT_ONCE) for start in range(0, len(rows), _AT_ONCE)]
    found = [_told(inference.mapped(rows[part]), values[part], level) for part in parts]
    errors, bias, interval, chances = (np.concatenate(told) for told in zip(*found, strict=True))
    return Combinations(values, errors, bias, interval, chances, known.level)


def _told(mapped: Inference, values: FloatArray, level: float) -> tuple[FloatArray, ...]:
    return (
        mapped.standard_errors(), mapped.bias_of(len(values)), mapped.interval(values, level), mapped.pvalues(values)
    )  # fmt: skip


def predicted_interval(fit: "Fit", X: Any, level: float, of: str, offset: Any, inference: Inference) -> FloatArray:
    """Return the ends of intervals of scores or predictions at true records; see `Fit.predict_interval`."""
    predictor = Predictor.of(fit)
    if isinstance(X, Rows):
        known = None if offset is None else as_offset(offset, len(X))

        def of_some(rows: slice, part: FloatArray) -> FloatArray:
            return predicted_interval(fit, part, level, of, None if known is None else known[rows], inference)

        return predictor.over_blocks(X, len(X), of_some)
    rows, scores = predictor.rows_and_scores(X, offset)
    if scores.ndim == 1:
        # Of an offset, which is known, there is no longer one.
        own = scores if offset is None else rows @ predictor.theta
        ends = _ends(inference, rows, own, level) + (scores - own)[:, None]
        return ends if of == "score" else np.sort(predictor.predicted_at(ends), axis=1)
    if of == "score":
        blocks = [_in_score(rows, place, scores.shape[1]) for place in range(scores.shape[1])]
        return np.stack([_ends(inference, one, scores[:, k], level) for k, one in enumerate(blocks)], axis=1)
    return _chances_of_several(predictor, inference, rows, scores, level)


def _ends(inference: Inference, rows: FloatArray, values: FloatArray, level: float) -> FloatArray:
    """Return the ends of the intervals of combinations, shape (k, 2)."""
    parts = [slice(start, start + _AT_ONCE) for start in range(0, len(rows), _AT_ONCE)]
    return np.concatenate([inference.mapped(rows[part]).interval(values[part], level) for part in parts])


def _in_score(rows: FloatArray, place: int, count: int) -> FloatArray:
    """Return rows over the parameters of all scores that are those of one."""
    weights = np.zeros(count)
    weights[place] = 1.0
    return np.asarray(np.kron(weights, rows))


def _chances_of_several(
    predictor: Predictor, inference: Inference, rows: FloatArray, scores: FloatArray, level: float
) -> FloatArray:
    """Return intervals of the chances of classes, shape (n, K, 2), by the delta method for their logits.

    Raises
    ------
    ValueError
        The chances are no softmax of the scores.
    """
    count = scores.shape[1]
    if not predictor.is_softmax:
        raise ValueError(
            f"{predictor.loss.expression} predicts other chances than the softmax of its scores, and nothing says how "
            'far they are known. Ask for of="score".'
        )
    found = np.empty((len(rows), count, 2))
    for place in range(count):
        # The logit is the score less log sum exp of the others, which no chance next to 0 or 1 cancels in.
        others = np.where(np.arange(count) == place, -np.inf, scores)
        weights = (np.arange(count) == place) - softmax(others, axis=1)
        along = (weights[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        found[:, place] = expit(_ends(inference, along, scores[:, place] - logsumexp(others, axis=1), level))
    return found


def _rows(weights: Any, names: tuple[str, ...]) -> FloatArray:
    """Return the rows of a matrix over the parameters: weights by name, of one combination or several, or numbers.

    Columns of a table, and text that labels a column, are names.

    Raises
    ------
    TypeError, ValueError
        There is no parameter of a name, a weight is no finite number, or the shape is another one.
    """
    if is_column(weights) and all(isinstance(label, str) for label in getattr(weights, "index", (0,))):
        weights = dict(weights.items())
    if isinstance(weights, Mapping):
        weights = [weights]
    if is_table(weights):
        values = np.atleast_2d(real_array(weights, "weights"))
        weights = [dict(zip(column_names(weights), row, strict=True)) for row in values.tolist()]
    if isinstance(weights, (list, tuple)) and weights and all(isinstance(one, Mapping) for one in weights):
        rows = np.zeros((len(weights), len(names)))
        for row, one in zip(rows, weights, strict=True):
            for name, weight in one.items():
                if name not in names:
                    raise ValueError(
                        f"{shown(name, 60)} is no parameter of this fit; these are {', '.join(names):.400}. Give "
                        "weights for some of them."
                    )
                if not (is_number(weight) and np.isfinite(weight)):
                    raise ValueError(f"the weight of {name} is {shown(weight, 40)}. Give a finite number.")
                row[names.index(name)] = weight
        return rows
    rows = np.atleast_2d(real_array(weights, "weights"))
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise ValueError(
            f"weights has the shape {np.shape(weights)}; it must be ({len(names)},) or (k, {len(names)}), with a "
            "weight for each parameter, or a mapping from names to weights."
        )
    return rows
