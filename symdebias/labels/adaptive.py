"""The optimum over a mesh of outputs, for any convex loss: linear programmes over few outputs at a time.

A linear programme over all outputs of a mesh is long, and its optimum uses few of them. So it is solved over some, its
multipliers price the whole mesh, what would pay for itself is added and what is not used is dropped, until the lower
bound that the prices certify meets the value.
"""

import numpy as np
import scipy.sparse

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.exceptions import MissingDependencyError
from symdebias.labels.columns import (
    Columns,
    Duals,
    Infeasible,
    Optimum,
    Task,
    best_masses,
    lower_bound,
    price_outputs,
    solved,
)
from symdebias.labels.conic import mesh_free_optimum

_MOST_ROUNDS = 300
_START = 26
# Multipliers of a linear programme over few columns jump about; prices are taken at a point near the best so far.
_SHARE = 0.3
_NOTHING = 1e-12
# Outputs per label below which all their shares are left to the linear programme, instead of columns one by one.
_FEW = 0.25


def mesh_optimum(task: Task, outputs: FloatArray, *, gap: float) -> tuple[Columns, FloatArray, Duals]:
    """Return the optimum over given outputs under the squared loss, from the mesh-free one where that helps.

    Every output of the mesh-free optimum is split between its two neighbours on the mesh, which keeps the means: these
    columns are next to optimal, and their multipliers too. Where a few outputs of the mesh stand for many labels,
    `adaptive_optimum` starts from them; and without the conic solver, or where the mesh does not reach as far, it finds
    the same from outputs all over the mesh.

    The outputs ascend, and `gap` is the relative gap between value and lower bound to reach. Returned are the columns
    that were tried, their masses, and multipliers whose lower bound certifies it.

    Raises
    ------
    Infeasible
        No randomizer of these outputs is unbiased.
    """
    try:
        ideal = mesh_free_optimum(task, gap=1e-6)
    except (MissingDependencyError, ArithmeticError):
        return adaptive_optimum(task, outputs, gap=gap)
    columns = _split(ideal.columns(len(task.labels))[0], outputs)
    near = np.unique(np.searchsorted(outputs, columns.outputs))
    if not len(near):
        return adaptive_optimum(task, outputs, gap=gap)
    if len(near) <= _FEW * len(task.labels):
        return adaptive_optimum(task, outputs, gap=gap, start=near)
    try:
        optimum = best_masses(task, columns)
    except Infeasible:
        return adaptive_optimum(task, outputs, gap=gap)
    price = price_outputs(outputs)
    best, bound = ideal.duals, lower_bound(task, ideal.duals, price)
    for _ in range(_MOST_ROUNDS):
        for duals in (best.towards(optimum.duals, _SHARE), optimum.duals):
            reached = lower_bound(task, duals, price)
            if reached > bound:
                best, bound = duals, reached
        if optimum.value - bound <= gap * optimum.value:
            return columns, optimum.masses, best
        more = _paying(task, outputs, best.towards(optimum.duals, _SHARE))
        more = more.with_more(_paying(task, outputs, optimum.duals))
        if not len(more.outputs):
            break
        used = columns.at(optimum.masses > _NOTHING) if len(columns.outputs) > 12 * len(task.labels) else columns
        columns = used.with_more(more)
        optimum = best_masses(task, columns)
    return adaptive_optimum(task, outputs, gap=gap)


def _split(columns: Columns, outputs: FloatArray) -> Columns:
    """Return columns at the two outputs next to those of given ones."""
    inside = (columns.outputs >= outputs[0]) & (columns.outputs <= outputs[-1])
    columns = columns.at(inside)
    left = np.clip(np.searchsorted(outputs, columns.outputs, side="right") - 1, 0, len(outputs) - 2)
    return Columns(columns.chosen, outputs[left]).with_more(Columns(columns.chosen, outputs[left + 1]))


def _paying(task: Task, outputs: FloatArray, duals: Duals) -> Columns:
    """Return the columns that cost less than nothing, one for each run of such outputs where the cost is least."""
    _, costs, chosen = price_outputs(outputs)(task, duals)
    least = _local_minima(costs) & (costs < -_NOTHING)
    return Columns(chosen[least], outputs[least])


def _local_minima(costs: FloatArray) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    padded = np.concatenate([[np.inf], costs, [np.inf]])
    minima: np.ndarray[tuple[int], np.dtype[np.bool_]] = (costs <= padded[:-2]) & (costs <= padded[2:])
    return minima


def adaptive_optimum(
    task: Task, outputs: FloatArray, *, gap: float, start: IntegerArray | None = None
) -> tuple[Columns, FloatArray, Duals]:
    """Return the optimum over given outputs, for any convex loss; parameters and results as of `mesh_optimum`.

    The search starts from the outputs at the places `start`, by default from some all over the mesh.
    """
    price = price_outputs(outputs)
    active = _spread(len(outputs), _START) if start is None else start
    before = np.inf
    for _ in range(_MOST_ROUNDS):
        try:
            optimum, masses, shares = _over_outputs(task, outputs[active])
        except Infeasible:
            if len(active) == len(outputs):
                raise
            active = _spread(len(outputs), 2 * len(active))
            continue
        bound = lower_bound(task, optimum.duals, price)
        _, costs, _ = price(task, optimum.duals)
        new = np.flatnonzero(_local_minima(costs) & (costs < -_NOTHING))
        if optimum.value - bound <= gap * optimum.value or np.isin(new, active).all():
            columns, masses = _levels(task, outputs[active], masses, shares)
            if len(np.unique(columns.outputs)) > 2 * len(task.labels):
                masses = best_masses(task, columns).masses
            return columns, masses, optimum.duals
        # Nothing is dropped while the value stands still, or the same outputs would come and go.
        improved = optimum.value < before * (1 - 1e-9)
        kept = active[masses > _NOTHING] if improved else active
        active = np.unique(np.concatenate([kept, new, [0, len(outputs) - 1]]))
        before = optimum.value
    raise ArithmeticError(
        f"the search over {len(outputs)} outputs did not come to an end in {_MOST_ROUNDS} rounds. Give fewer outputs."
    )


def _spread(size: int, count: int) -> IntegerArray:
    """Return about so many places, from the first of a mesh to the last."""
    places: IntegerArray = np.unique(np.linspace(0, size - 1, min(count, size)).round().astype(np.int64))
    return places


def _over_outputs(task: Task, outputs: FloatArray) -> tuple[Optimum, FloatArray, FloatArray]:
    """Solve M = low m + (1 - low) u with 0 <= u <= m over some outputs; return the optimum, m (c,) and u (k, c)."""
    count, size = len(task.labels), len(outputs)
    losses = task.prior[:, None] * task.loss(outputs, task.labels[:, None])
    cost = np.concatenate([task.low * losses.sum(axis=0), ((1 - task.low) * losses).ravel()])
    scale = 1 / max(1.0, float(np.abs(outputs).max()))
    rows = np.repeat(np.arange(count), size)
    base, share = np.tile(np.arange(size), count), size + np.arange(count * size)
    places = (np.concatenate([rows, rows]), np.concatenate([base, share]))
    factors = np.repeat([task.low, 1 - task.low], count * size)
    shape = (count, size + count * size)
    sums = scipy.sparse.csr_matrix((factors, places), shape=shape)
    means = scipy.sparse.csr_matrix((factors * np.tile(outputs, 2 * count) * scale, places), shape=shape)
    each = np.arange(count * size)
    below = scipy.sparse.csr_matrix(
        (np.repeat([1.0, -1.0], count * size), (np.tile(each, 2), np.concatenate([share, base]))),
        shape=(count * size, shape[1]),
    )
    unit = float(np.median(losses)) or 1.0
    result = solved(
        cost / unit,
        A_ub=below,
        b_ub=np.zeros(count * size),
        A_eq=scipy.sparse.vstack([sums, means]),
        b_eq=np.concatenate([np.ones(count), task.labels * scale]),
    )
    multipliers = np.asarray(result.eqlin.marginals) * unit
    duals = Duals(multipliers[:count], multipliers[count:] * scale)
    solution = np.maximum(np.asarray(result.x), 0.0)
    optimum = Optimum(solution[:size], float(result.fun) * unit, duals)
    return optimum, solution[:size], solution[size:].reshape(count, size)


def _levels(task: Task, outputs: FloatArray, masses: FloatArray, shares: FloatArray) -> tuple[Columns, FloatArray]:
    """Return the columns that the shares of each output are sums of, sets of labels above a level, and their masses."""
    chosen, places, parts = [], [], []
    for place in np.flatnonzero(masses > _NOTHING):
        share = np.minimum(shares[:, place] / masses[place], 1.0)
        levels = np.unique(np.round(share, 9))
        for below, level in zip(np.append(0.0, levels[:-1]), levels, strict=True):
            if level > below:
                chosen.append(share >= level - 1e-9)
                places.append(outputs[place])
                parts.append((level - below) * masses[place])
        if levels[-1] < 1:
            # What is left of the mass stands on all labels alike.
            chosen.append(np.ones(len(task.labels), dtype=bool))
            places.append(outputs[place])
            parts.append(task.low * (1 - levels[-1]) * masses[place])
    return Columns(np.array(chosen), np.array(places)), np.array(parts)
