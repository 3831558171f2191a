"""Columns of a randomizer, the linear programme over given ones, and certified bounds from its dual.

A column (S, t) sends the output t with the mass c to the labels of the set S and with c/ratio to all others; every
randomizer whose entries keep the ratio is a sum of such columns. With the multipliers alpha of the row sums and beta of
the means, a column costs

    sum_y v_y r_y(t),   r_y(t) = p_y loss(t, y) - alpha_y - beta_y t,   v_y = 1 on S and 1/ratio off it,

beyond what the multipliers pay for. It is least for S = {y : r_y(t) < 0}, and where no column costs less than nothing,
sum_y (alpha_y + beta_y y) bounds the noisy-label loss from below.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from symdebias._arrays import BooleanArray, FloatArray

_TOLERANCES = (1e-10, 1e-9, 1e-7)
# Sums of k terms in float64, k up to a thousand, are right to this share of the sum of their sizes.
_ROUNDING = 2.0**-42
_MOST_REPAIRS = 200


@dataclass(frozen=True)
class Task:
    """A search for the best unbiased randomizer, in units in which the labels span [-1, 1]."""

    labels: FloatArray  # Of shape (k,): the labels, ascending.
    prior: FloatArray  # Of shape (k,): their probabilities.
    low: float  # 1/ratio, what stands off the set of a column for each unit on it.
    loss: Callable[[Any, Any], Any]  # The loss of an output in the place of a label, convex in the output.

    @property
    def slack(self) -> float:
        """The most that all masses can sum to: a column has a share of at least this inverse in the row sums."""
        return len(self.labels) / (1 + (len(self.labels) - 1) * self.low)

    def weights(self, chosen: BooleanArray) -> FloatArray:
        """Return the entries v of columns, shape (c, k), for their sets."""
        return np.where(chosen, 1.0, self.low)


@dataclass(frozen=True)
class Columns:
    """Columns to choose from."""

    chosen: BooleanArray  # Of shape (c, k): their sets of labels.
    outputs: FloatArray  # Of shape (c,): their outputs.

    def with_more(self, other: "Columns") -> "Columns":
        """Return these and others."""
        return Columns(np.vstack([self.chosen, other.chosen]), np.concatenate([self.outputs, other.outputs]))

    def at(self, places: Any) -> "Columns":
        """Return some of them."""
        return Columns(self.chosen[places], self.outputs[places])


@dataclass(frozen=True)
class Duals:
    """Multipliers of the row sums and of the means, each of shape (k,)."""

    alpha: FloatArray
    beta: FloatArray

    def towards(self, other: "Duals", share: float) -> "Duals":
        """Return the point that lies a share of the way to other multipliers."""
        return Duals(self.alpha + share * (other.alpha - self.alpha), self.beta + share * (other.beta - self.beta))


@dataclass(frozen=True)
class Optimum:
    """The best randomizer out of given columns."""

    masses: FloatArray  # Of shape (c,): the mass of each column; at most 2 k are positive.
    value: float  # The noisy-label loss.
    duals: Duals  # Multipliers that prove it the best of these columns.


class Infeasible(ValueError):
    """No randomizer has these outputs."""


def solved(cost: FloatArray, **constraints: Any) -> Any:
    """Return the solution of a linear programme in non-negative variables, to the tightest tolerance that is reached.

    Raises
    ------
    Infeasible
        Nothing satisfies the constraints.
    ArithmeticError
        It was solved to none of the tolerances.
    """
    for tolerance in _TOLERANCES:
        result = linprog(
            cost,
            **constraints,
            bounds=(0, None),
            method="highs-ds",
            options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
        )
        if result.status == 2:
            raise Infeasible("no randomizer of these outputs is unbiased")
        if result.status == 0:
            return result
    raise ArithmeticError(f"the linear programme of {len(cost)} variables ended with: {result.message}")


def masses_of(task: Task, columns: Columns) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the equations of unbiased rows: matrix (2 k, c), right side (2 k,), and the scale of each column."""
    entries = task.weights(columns.chosen).T
    scale = 1 / np.maximum(1.0, np.abs(columns.outputs))
    matrix = np.vstack([entries, entries * columns.outputs]) * scale
    return matrix, np.concatenate([np.ones(len(task.labels)), task.labels]), scale


def best_masses(task: Task, columns: Columns, near: FloatArray | None = None) -> Optimum:
    """Return the best randomizer out of given columns, a vertex of the linear programme.

    With `near`, masses of shape (c,) that make unbiased rows up to some error, the result has the same error, and
    exists.

    Raises
    ------
    Infeasible
        No masses of these columns make unbiased rows.
    """
    matrix, right, scale = masses_of(task, columns)
    if near is not None:
        right = matrix @ (near / scale)
    losses = task.prior * task.loss(columns.outputs[:, None], task.labels)
    cost = (task.weights(columns.chosen) * losses).sum(axis=1)
    unit = float(np.median(cost * scale)) or 1.0
    result = solved(cost * scale / unit, A_eq=matrix, b_eq=right)
    multipliers = np.asarray(result.eqlin.marginals) * unit
    count = len(task.labels)
    duals = Duals(multipliers[:count], multipliers[count:])
    return Optimum(np.asarray(result.x) * scale, float(result.fun) * unit, duals)


Pricing = Callable[[Task, Duals], tuple[FloatArray, FloatArray, BooleanArray]]


def price_outputs(outputs: FloatArray) -> Pricing:
    """Return the pricing of columns of given outputs: the output, the least cost and the set of each, as arrays."""

    def price(task: Task, duals: Duals) -> tuple[FloatArray, FloatArray, BooleanArray]:
        return (outputs, *_cheapest(task, duals, outputs))

    return price


def price_line(task: Task, duals: Duals) -> tuple[FloatArray, FloatArray, BooleanArray]:
    """Return the cheapest columns among all outputs on the line, of the squared loss.

    The sets {r_y(t) < 0} change at the zeros of quadratics only; between two of them the cost is one quadratic, whose
    least value is found in closed form.
    """
    first, second = task.prior, -2 * task.prior * task.labels - duals.beta
    third = task.prior * task.labels**2 - duals.alpha
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.sqrt(second**2 - 4 * first * third)
        half = -0.5 * (second + np.copysign(root, second))
        zeros = np.concatenate([half / first, third / half])
    # Farther out no column costs less than nothing: low (t - 1)^2 outgrows what multipliers pay.
    pay = float(np.abs(duals.beta).sum()) + 2 * task.low
    reach = (pay + math.sqrt(pay**2 + 4 * task.low * float(np.abs(duals.alpha).sum()))) / (2 * task.low) + 1
    zeros = np.unique(np.append(0.0, zeros[np.abs(zeros) <= reach]))
    ends = np.concatenate([[zeros[0] - 2], zeros, [zeros[-1] + 2]])
    middle = (ends[:-1] + ends[1:]) / 2
    weights = task.weights(first * middle[:, None] ** 2 + second * middle[:, None] + third < 0)
    outputs = -(weights @ second) / (2 * (weights @ first))
    ends[0], ends[-1] = -np.inf, np.inf
    outputs = np.clip(outputs, ends[:-1], ends[1:])
    return (outputs, *_cheapest(task, duals, outputs))


def _cheapest(task: Task, duals: Duals, outputs: FloatArray) -> tuple[FloatArray, BooleanArray]:
    costs = task.prior * task.loss(outputs[:, None], task.labels) - duals.alpha - duals.beta * outputs[:, None]
    chosen = costs < 0
    return (task.weights(chosen) * costs).sum(axis=1), chosen


def lower_bound(task: Task, duals: Duals, price: Pricing) -> float:
    """Return a lower bound of the noisy-label loss of every unbiased randomizer with the priced outputs.

    Multipliers of a numerical solution pay a little too much for some columns. They are lowered at labels that these
    columns share, until no column is left that costs less than nothing, beyond rounding; that rounding times the most
    that all masses can sum to is taken off.
    """
    alpha = duals.alpha.copy()
    sizes = float(np.abs(alpha).sum() + np.abs(duals.beta * task.labels).sum())
    rounding = _ROUNDING * sizes / len(alpha)
    least = 0.0
    for _ in range(_MOST_REPAIRS):
        _, costs, chosen = price(task, Duals(alpha, duals.beta))
        least = min(0.0, float(costs.min()))
        if least >= -rounding:
            break
        missing = np.maximum(-costs, 0.0)
        place = int(np.argmax(missing @ task.weights(chosen)))
        # Its whole deficit is charged to the label that the most of it has in common.
        alpha[place] -= float((missing * task.weights(chosen)[:, place]).max())
    total = float(alpha.sum() + duals.beta @ task.labels)
    return total + task.slack * least - _ROUNDING * sizes
