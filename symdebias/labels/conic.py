"""The mesh-free optimum under squared loss: a second-order cone programme over intervals of labels.

In some optimal randomizer the set of every column is an interval [a, b] of labels (Badanidiyuru et al. 2023,
Theorem 6). With its mass c and its moment m = t c, the loss is a sum of m^2/c, one three-dimensional cone each, and
consecutive rows of the constraints differ by a network flow. Far from all intervals matter: those of a coarser set of
labels show where to look, and the pricing of `columns` proves that none was overlooked.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from symdebias import _optional
from symdebias._arrays import FloatArray, IntegerArray
from symdebias.labels.columns import Columns, Duals, Task, lower_bound, price_line

# Up to so many labels all intervals are tried at once.
_ALL = 64
_COARSENING = 4
_BAND = 3
_MOST_ROUNDS = 12
# An interior-point solution has some mass everywhere; less than this share of the largest is none.
_SHARE = 1e-6
_TOLERANCES = (1e-12, 1e-10, 1e-8)
_WORST = 1e-3


@dataclass(frozen=True)
class Conic:
    """The optimum of the cone programme."""

    # Of shape (c,): the ends of the intervals, as places of labels.
    first: IntegerArray
    last: IntegerArray
    # Of shape (c,): their masses and outputs; most masses are next to nothing, and their outputs mean nothing.
    masses: FloatArray
    outputs: FloatArray
    duals: Duals  # The multipliers.
    # The noisy-label loss and its certified lower bound.
    value: float
    bound: float

    def columns(self, count: int) -> tuple[Columns, FloatArray]:
        """Return the columns that have more than next to no mass, for so many labels, and their masses."""
        kept = self.masses > _SHARE * self.masses.max()
        places = np.arange(count)
        chosen = (places >= self.first[kept, None]) & (places <= self.last[kept, None])
        return Columns(chosen, self.outputs[kept]), self.masses[kept]


def mesh_free_optimum(task: Task, *, gap: float) -> Conic:
    """Return the optimum over all outputs on the line, under squared loss, to a relative gap between value and bound.

    Raises
    ------
    MissingDependencyError
        The conic solver is not installed.
    ArithmeticError
        It did not come to an end.
    """
    count = len(task.labels)
    if count <= _ALL:
        first, last = np.triu_indices(count)
        return _solve(task, first, last, gap)
    places = np.unique(np.append(np.arange(0, count, _COARSENING), count - 1))
    nearest = np.abs(np.arange(count)[:, None] - places).argmin(axis=1)
    prior = np.bincount(nearest, weights=task.prior, minlength=len(places)).astype(float)
    coarse = mesh_free_optimum(Task(task.labels[places], prior, task.low, task.loss), gap=1e-3)
    active = coarse.masses > 1e-6 * coarse.masses.max()
    near = _neighbours(places[coarse.first[active]], places[coarse.last[active]], count, _COARSENING + _BAND)
    for _ in range(_MOST_ROUNDS):
        optimum = _solve(task, *np.divmod(near, count), gap)
        more = np.union1d(near, _overlooked(task, optimum, count))
        if optimum.value - optimum.bound <= gap * optimum.value or len(more) == len(near):
            break
        near = more
    return optimum


def _neighbours(first: IntegerArray, last: IntegerArray, count: int, reach: int) -> IntegerArray:
    """Return intervals whose ends are near those of given ones, as first times count plus last."""
    steps = np.arange(-reach, reach + 1)
    a = (first[:, None, None] + steps[:, None]).repeat(len(steps), axis=2).ravel()
    b = (last[:, None, None] + steps[None, :]).repeat(len(steps), axis=1).ravel()
    inside = (a >= 0) & (b < count) & (a <= b)
    single = np.arange(count)
    edges = np.concatenate([single, single * count + count - 1, single * count + single])
    near: IntegerArray = np.unique(np.concatenate([a[inside] * count + b[inside], edges]))
    return near


def _overlooked(task: Task, optimum: Conic, count: int) -> IntegerArray:
    """Return the intervals, and those next to them, of columns that would pay for themselves."""
    _, costs, chosen = price_line(task, optimum.duals)
    paying = (costs < 0) & chosen.any(axis=1)
    first = chosen[paying].argmax(axis=1)
    last = count - 1 - chosen[paying][:, ::-1].argmax(axis=1)
    return _neighbours(first, last, count, _BAND)


def _solve(task: Task, first: IntegerArray, last: IntegerArray, gap: float) -> Conic:
    """Solve the programme over some intervals."""
    clarabel = _optional.require("clarabel", extra="conic")
    count, size = len(task.labels), len(first)

    def over(values: FloatArray) -> FloatArray:
        sums = np.concatenate([[0.0], np.cumsum(values)])
        weighted: FloatArray = task.low * sums[-1] + (1 - task.low) * (sums[last + 1] - sums[first])
        return weighted

    # Around the mean label of a column its loss is weight (t - mean)^2 + spread, without cancellation.
    weight = over(task.prior)
    mean = over(task.prior * task.labels) / weight
    spread = np.maximum(over(task.prior * task.labels**2) - weight * mean**2, 0.0)
    stretch = 1 / (1 - task.low)
    places = np.arange(size)
    inner = last < count - 1
    rows = np.concatenate([first, last[inner] + 1])
    values = np.concatenate([np.ones(size), -np.ones(int(inner.sum()))])
    flow = scipy.sparse.csr_matrix((values, (rows, np.concatenate([places, places[inner]]))), shape=(count, size))
    head = scipy.sparse.csr_matrix(np.where(first == 0, 1.0, task.low)[None, :])
    sums = scipy.sparse.vstack([head, flow[1:]]).tocsr()
    nothing = scipy.sparse.csr_matrix((count, size))
    # m = stretch size e + mean c, with e^2 <= s c: the variables are c, e, s, and size makes the cost of s about 1.
    unit = _size_of_loss(task)
    size_of_moment = np.sqrt(unit) / stretch
    means = sums @ scipy.sparse.diags(mean / stretch)
    equations = scipy.sparse.bmat([[sums, nothing, nothing], [means, size_of_moment * sums, nothing]])
    three = 3 * places
    cone = scipy.sparse.csr_matrix(
        (
            np.repeat([-1.0, -1.0, -1.0, 1.0, -2.0], size),
            (
                np.concatenate([three, three, three + 1, three + 1, three + 2]),
                np.concatenate([places, 2 * size + places, places, 2 * size + places, size + places]),
            ),
        ),
        shape=(3 * size, 3 * size),
    )
    right = np.zeros(2 * count)
    right[0] = 1.0
    right[count:] = np.concatenate([task.labels[:1], np.diff(task.labels) * stretch]) / stretch
    cost = np.concatenate([spread / unit, np.zeros(size), weight])
    problem = (
        scipy.sparse.csc_matrix((3 * size, 3 * size)),
        cost,
        scipy.sparse.vstack([equations, cone]).tocsc(),
        np.concatenate([right, np.zeros(3 * size)]),
        [clarabel.ZeroConeT(2 * count)] + [clarabel.SecondOrderConeT(3)] * size,
    )
    best: Conic | None = None
    for tolerance in _TOLERANCES:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_iter = 100
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        solution = clarabel.DefaultSolver(*problem, settings).solve()
        point = np.array(solution.x)
        if not (np.isfinite(point).all() and point[:size].max() > 0):
            continue
        masses = np.maximum(point[:size], 0.0)
        moments = stretch * size_of_moment * point[size : 2 * size]
        outputs = mean + np.divide(moments, masses, out=np.zeros(size), where=masses > _SHARE * masses.max())
        rows = -np.array(solution.z)[: 2 * count] * unit
        duals = Duals(_undifferenced(rows[:count], stretch), _undifferenced(rows[count:] / stretch, stretch))
        value, bound = float(solution.obj_val) * unit, lower_bound(task, duals, price_line)
        # Whatever the solver says of itself, the bound is what counts.
        if abs(value - bound) <= _WORST * value and (best is None or bound > best.bound):
            best = Conic(first, last, masses, outputs, duals, value, bound)
        # The tightest tolerance need not give the tightest bound: it may end where rounding stops it.
        if best is not None and abs(value - best.bound) <= gap * value:
            return best
    if best is None:
        raise ArithmeticError(
            f"the conic solver ended with {solution.status} on {count} labels. Give outputs=, a mesh, which is solved "
            "by linear programmes."
        )
    return best


def _undifferenced(multipliers: FloatArray, stretch: float) -> FloatArray:
    """Return multipliers of the rows from those of the first row and of the differences of consecutive ones."""
    steps = multipliers[1:] * stretch
    rows = np.append(-steps, 0.0)
    rows[1:] += steps
    rows[0] += multipliers[0]
    return rows


def _size_of_loss(task: Task) -> float:
    """Return a loss that is reached, which the objective is measured by.

    The better one of debiased randomized response over all labels, and over the two ends after unbiased rounding.
    """
    count = len(task.labels)
    gain = 1 / task.low - 1
    outputs = ((gain + count) * task.labels - task.labels.sum()) / gain
    each = task.loss(outputs, task.labels[:, None])
    kept = np.diagonal(each) * (1 - task.low)
    every = float(task.prior @ (task.low * each.sum(axis=1) + kept)) / (1 + (count - 1) * task.low)
    ends = ((1 + task.low) / (1 - task.low)) ** 2 - float(task.prior @ task.labels**2)
    return min(every, ends)
