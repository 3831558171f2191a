"""Records whose labels are apart: a group with one label alone, or all on two sides of a score.

The loss has no minimum there, whatever a correction makes of the others.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from symdebias._arrays import FloatArray
from symdebias._rows import Rows
from symdebias.codegen.parallel import over_chunks
from symdebias.codegen.score.program import ScoreProgram
from symdebias.exceptions import DivergenceError
from symdebias.losses import Loss
from symdebias.losses.far_out import changes_far_out
from symdebias.records import Records
from symdebias.release import Release
from symdebias.solvers.held import frame_of

# The least share of records that have the most common value of a column for it to part them into two groups.
_COMMON = 0.5
# Numbers of the records that are looked at for a score which separates labels, and what its mean margin is above.
_MOST_SEPARATED, _SEPARATED = 1_000_000, 1e-7


def refuse_one_label(records: Records, penalty: FloatArray) -> None:
    """Refuse records of which those that a column without noise sets apart have one target alone.

    Where the loss at this target falls without end, no parameter of the column is the best: without noise training runs
    away. A correction may have a minimum there all the same, of a surrogate's own or by the noise of other columns,
    with small standard errors.

    Parameters
    ----------
    records : Records
        With noised columns beside those without noise, and targets as they are; others are not looked at.
    penalty : array of shape (Q,), float64
        l2 for each parameter. One that has some has a minimum.

    Raises
    ------
    DivergenceError
        All records that have another value in a column than most, to one side of it, have the same target, or all
        others do and these have one value; and the loss has no minimum there.

    References
    ----------
    Albert & Anderson 1984 (Biometrika 71): quasi-complete separation, along one column.
    """
    columns = _columns_that_part(records, penalty)
    if not columns:
        return
    found = records.remembered(
        "one label", lambda: np.array(records.summed_over_parts(lambda part: _counted(part, columns)))
    )
    loss = records.correction.loss
    for column, sums in zip(columns, np.moveaxis(found, -1, 0), strict=True):
        for (count, total, squares), which in _groups(column, sums):
            target = total / count if count else 0.0
            if count and squares * count == total * total and _has_no_minimum(loss, target):
                raise DivergenceError(
                    f"of {records.present:,} records {which}, {count:,.0f}, all have the target {target:g}, and there "
                    f"the loss has no minimum: no {column.name} is the best. Leave the column out, join it with "
                    "another, use more records, or raise l2."
                )


def separated_by_a_score(records: Records, loss: Loss, release: Release) -> str:
    """Return that a score separates the two labels, which no finite parameters fit best; nothing of many records.

    It is so where the sum of the margins y theta'x, none of which is negative, has a maximum above 0 among parameters
    within [-1, 1].

    Parameters
    ----------
    records : Records
        Records without noise.
    loss : Loss
        The loss, as declared.
    release : Release
        How the records were released.

    References
    ----------
    Konis 2007 (doctoral thesis, University of Oxford).
    """
    labels = loss.target_values
    if labels is None or len(labels) != 2 or len(loss.scores) != 1 or release.target is not None:
        return ""
    if not isinstance(records.matrix, (np.ndarray, Rows)) or len(records) * records.columns > _MOST_SEPARATED:
        return ""
    matrix, target = np.asarray(records.matrix[:]), np.asarray(records.target[:])
    present = records.weights > 0 if len(records.weights) else np.ones(len(matrix), dtype=bool)
    design = np.column_stack([matrix, np.ones(len(matrix))]) if release.fit_intercept else matrix
    margins = np.where(target == max(labels), 1.0, -1.0)[present, None] * design[present]
    margins /= np.maximum(np.abs(margins).max(axis=0), 1e-300)
    found = optimize.linprog(
        -margins.mean(axis=0), A_ub=-margins, b_ub=np.zeros(len(margins)), bounds=(-1, 1), method="highs"
    )
    if found.status != 0 or not -found.fun > _SEPARATED:
        return ""
    return (
        "A score separates the two labels of these records: the longer the parameters, the better, and no finite ones "
        "are the best. Look for a column that tells the label, or raise l2."
    )


@dataclass(frozen=True)
class _Column:
    """A column without noise whose most common value parts the records into two groups."""

    place: int
    name: str  # Of its parameter.
    common: float  # The value of most records.
    other: float  # Another one.


def _columns_that_part(records: Records, penalty: FloatArray) -> list[_Column]:
    """Return the columns to look at: free of noise and of a penalty, with a most common value at one of their ends."""
    release, program = records.correction.release, records.correction.program
    if not isinstance(program, ScoreProgram) or len(program.scores) != 1 or program.codes:
        return []
    if release.coupling is not None or release.target is not None or not records.is_noised:
        return []
    noised = {place for group, _ in release.placed(records.columns) for place in range(records.columns)[group]}
    parameters, has_intercept = program.columns.linear, program.columns.intercept is not None
    true = sorted(set(range(min(records.columns, len(parameters)))) - noised)
    if not true:
        return []
    some = records.tested.matrix[:]
    names, held = records.correction.design.parameters, frame_of(records).place
    found = []
    for place in true:
        parameter = parameters[place]
        if parameter == held or penalty[parameter]:
            continue
        values, counts = np.unique(some[:, place], return_counts=True)
        common = float(values[np.argmax(counts)])
        is_one_sided = common in (values[0], values[-1])
        # Without an intercept a parameter moves the scores of all records but those that have 0.
        apart = has_intercept or common == 0
        if counts.max() >= _COMMON * len(some) and is_one_sided and apart:
            other = next((float(value) for value in values if value != common), common)
            found.append(_Column(place, names[parameter], common, other))
    return found


def _groups(column: _Column, sums: FloatArray) -> list[tuple[FloatArray, str]]:
    """Return the groups that a column parts the records into, as `_counted` counts them, each with its name.

    There are none where other values lie to both sides of the common one. Those with the common value are a group that
    a parameter moves by itself only where the others have one value as well.
    """
    below, above, same, others, commons = sums[0], sums[1], sums[2], sums[3:6], sums[6:9]
    number = others[0]
    if not number or (below and above):
        return []
    if same != number:
        return [(others, f"those with another {column.name} than {column.common:g}")]
    return [
        (others, f"those with {column.name} {column.other:g}"),
        (commons, f"those with {column.name} {column.common:g}"),
    ]


def _counted(part: Records, columns: list[_Column]) -> tuple[FloatArray, ...]:
    """Return sums over the records with weight, an array of a number for each column.

    They are numbers of values below and above the common one and equal to the other one, and of both groups the number,
    and the sums of targets and of their squares.
    """
    places = [column.place for column in columns]
    commons, others = [column.common for column in columns], [column.other for column in columns]

    def counted(rows: slice) -> FloatArray:
        matrix, target = part.matrix[rows][:, places], np.asarray(part.target[rows])
        own = (part.weights[rows] > 0).astype(np.float64) if len(part.weights) else np.ones(len(target))
        powers = np.stack([own, own * target, own * target * target])
        below, above = matrix < commons, matrix > commons
        return np.vstack(
            [own @ below, own @ above, own @ (matrix == others), powers @ (below | above), powers @ ~(below | above)]
        )

    return tuple(sum(over_chunks(len(part), counted), np.zeros((9, len(places)))))


def _has_no_minimum(loss: Loss, target: float) -> bool:
    """Whether a loss of one score falls, or stays, without end to a side at a target."""
    return any(change <= 0 for change in changes_far_out(loss, target))
