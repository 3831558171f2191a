"""A group of records with one label alone: the loss has no minimum there, whatever a correction makes of the others."""

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen.parallel import over_chunks
from symdebias.codegen.score.program import ScoreProgram
from symdebias.exceptions import DivergenceError
from symdebias.losses import Loss
from symdebias.records import Records
from symdebias.solvers.held import frame_of

# Scores at which it is seen whether a loss goes on falling.
_FAR, _FARTHEST = 40, 80
# The least share of records that have the most common value of a column for it to part them into two groups.
_COMMON = 0.5


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
    release, program = records.correction.release, records.correction.program
    loss = records.correction.loss
    if not isinstance(program, ScoreProgram) or len(program.scores) != 1 or program.codes:
        return
    if release.coupling is not None or release.target is not None or not records.is_noised:
        return
    noised = {place for group, _ in release.placed(records.columns) for place in range(records.columns)[group]}
    parameters, has_intercept = program.columns.linear, program.columns.intercept is not None
    true = sorted(set(range(min(records.columns, len(parameters)))) - noised)
    if not true:
        return
    some = records.tested.matrix[:]
    held = frame_of(records).place
    places, commons, others = [], [], []
    for place in true:
        values, counts = np.unique(some[:, place], return_counts=True)
        common = float(values[np.argmax(counts)])
        is_one_sided = common in (values[0], values[-1])
        apart = has_intercept or common == 0
        if counts.max() >= _COMMON * len(some) and is_one_sided and apart and parameters[place] != held:
            if not penalty[parameters[place]]:
                places.append(place)
                commons.append(common)
                others.append(next((float(value) for value in values if value != common), common))
    if not places:
        return
    found = records.remembered(
        "one label", lambda: np.array(records.summed_over_parts(lambda part: _counted(part, places, commons, others)))
    )
    names = records.correction.design.parameters
    for place, common, other, sums in zip(places, commons, others, np.moveaxis(found, -1, 0), strict=True):
        below, above, same, apart_sums, common_sums = sums[0], sums[1], sums[2], sums[3:6], sums[6:9]
        number = apart_sums[0]
        if not number or (below and above):
            continue
        groups = [(apart_sums, f"those with another {names[parameters[place]]} than {common:g}")]
        if same == number:
            groups = [
                (apart_sums, f"those with {names[parameters[place]]} {other:g}"),
                (common_sums, f"those with {names[parameters[place]]} {common:g}"),
            ]
        for (count, total, squares), which in groups:
            target = total / count if count else 0.0
            if count and squares * count == total * total and _has_no_minimum(loss, target):
                name = names[parameters[place]]
                raise DivergenceError(
                    f"of {records.present:,} records {which}, {count:,.0f}, all have the target {target:g}, and there "
                    f"the loss has no minimum: no {name} is the best. Leave the column out, join it with another, use "
                    "more records, or raise l2."
                )


def _counted(part: Records, places: list[int], commons: list[float], others: list[float]) -> tuple[FloatArray, ...]:
    """Return sums over the records with weight, an array of a number for each place.

    They are numbers of values below and above the common one and equal to the other one, and of both groups the number,
    and the sums of targets and of their squares.
    """

    def counted(rows: slice) -> FloatArray:
        columns, target = part.matrix[rows][:, places], np.asarray(part.target[rows])
        own = (part.weights[rows] > 0).astype(np.float64) if len(part.weights) else np.ones(len(target))
        powers = np.stack([own, own * target, own * target * target])
        below, above = columns < commons, columns > commons
        return np.vstack(
            [own @ below, own @ above, own @ (columns == others), powers @ (below | above), powers @ ~(below | above)]
        )

    return tuple(sum(over_chunks(len(part), counted), np.zeros((9, len(places)))))


def _has_no_minimum(loss: Loss, target: float) -> bool:
    """Whether a loss of one score falls, or stays, without end to a side at a target."""
    at_target = loss.expression.xreplace({loss.target: sp.Float(target) if target % 1 else sp.Integer(int(target))})
    for sign in (-1, 1):
        far, farther = (at_target.xreplace({loss.scores[0]: sp.Integer(sign * at)}).evalf() for at in (_FAR, _FARTHEST))
        if farther.is_real and far.is_real and farther <= far:
            return True
    return False
