"""The optimal unbiased randomizer: find it, prove how good it is, and bring it onto the grid that is drawn from."""

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from symdebias._arrays import FloatArray
from symdebias._domains import EPSILON, shown
from symdebias.exceptions import PrivacyError
from symdebias.labels.adaptive import adaptive_optimum, mesh_optimum
from symdebias.labels.columns import (
    Columns,
    Duals,
    Infeasible,
    Pricing,
    Task,
    best_masses,
    lower_bound,
    masses_of,
    price_line,
    price_outputs,
)
from symdebias.labels.conic import Conic, mesh_free_optimum
from symdebias.labels.restated import Restated, convex, middle_and_half, quadratic
from symdebias.mechanisms.label_loss import LabelLoss, label_loss
from symdebias.mechanisms.label_randomizer import LabelRandomizer, ascending
from symdebias.mechanisms.realised import LARGEST_RATIO, Unrealisable, realised, strict_ratio
from symdebias.noise import checked_prior

_GAP = 1e-9
_NOTHING = 1e-11
# Shares of the prior that are spread over all labels, where the solver does not settle without.
_UNIFORM = (0.0, 1e-8, 1e-6, 1e-4)
MOST_LABELS = 1000


def optimal_unbiased_randomizer(
    labels: Any, prior: Any, epsilon: float, *, loss: Any = "squared", outputs: Any = None
) -> LabelRandomizer:
    """Find the epsilon-private unbiased randomizer of the least noisy-label loss.

    Parameters
    ----------
    labels : sequence of k floats
        The labels, ascending, 2 to 1000; they need not be equispaced.
    prior : array of shape (k,)
        Their probabilities, public or private by themselves; zeros are allowed. Labels without probability are
        randomized as unbiasedly and privately as the others.
    epsilon : float
        Privacy budget, in [1e-6, 700]; pure local differential privacy, replace-one.
    loss : str, sympy.Expr, callable or Loss
        The loss of a noised label, convex in the outcome, that is minimised in the mean: ``"squared"`` or
        ``"absolute"``; an expression, as text or of SymPy, in ``residual`` (outcome - label), or in ``outcome`` and
        ``label``; a function of the residual, or of outcome and label, written with NumPy's functions; or a `Loss` of
        the residual, such as ``losses.huber()``, with the outcome as its score and the label as its target.
    outputs : sequence of floats, optional
        The outputs to choose from, ascending, such as `feasible_outputs`. By default all numbers, for losses that are
        quadratic in the outcome; it needs the extra ``conic``. Other losses need outputs.

    Returns
    -------
    LabelRandomizer
        The randomizer, of at most 2 k outputs, with the lower bound that certifies its `optimality_gap`: a bound for
        all numbers as outputs, or for the given ones. Its `loss` is the name, or the expression as text.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range, no randomizer of the outputs is unbiased, or the loss cannot be read, is not
        convex or not finite where it is looked at: at the outputs, the labels and some 2,000 points among them.
    PrivacyError
        The matrix cannot be brought onto multiples of 2^-53 within the budget.
    MissingDependencyError
        Without outputs: the conic solver is not installed.

    Notes
    -----
    Over all numbers the optimum is a second-order cone programme over intervals of labels, solved by Clarabel; over
    given outputs it is a linear programme, solved by SciPy's HiGHS over few of them at a time. Either way the
    multipliers give a lower bound that is checked here, whatever the solver's own tolerances. The matrix is then
    brought onto multiples of 2^-53 in integer arithmetic: epsilon holds exactly, and the outputs have the labels as
    means to 1e-12 of their range (or to the rounding of the outputs themselves, which counts for epsilon below 1e-3).
    To leave room for that, the search uses a ratio that is smaller than e^epsilon by some 1e-11 of it, and 1e8 at most:
    above an epsilon of 18 the matrix is that of a smaller budget, and the lower bound is the loss of the true labels.
    From an epsilon of 12 on the cone programme may not settle where labels have no probability: then it is solved for
    a prior of which a share of up to 1e-4 is spread over all labels, and `optimality_gap` has what that costs.

    A function affine in the outcome adds a constant to the mean loss of every unbiased randomizer. So the quantile loss
    of any level has the optimum of the absolute loss, and a quadratic w(label) (outcome - label)^2 that of the squared
    loss under a prior in proportion to p w. Other losses are solved as what is left of them above their tangents at the
    labels.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659), Algorithm 1, Proposition 7 and Theorem 6.

    Examples
    --------
    >>> import numpy as np
    >>> best = optimal_unbiased_randomizer(np.arange(1, 6), np.full(5, 0.2), 1.0)
    >>> round(best.noisy_label_loss, 4), best.unbiased, len(best.outputs) <= 10
    (15.8676, True, True)
    >>> outputs = np.union1d(np.arange(1, 6), np.linspace(-5, 11, 65))
    >>> robust = optimal_unbiased_randomizer(np.arange(1, 6), np.full(5, 0.2), 1.0, loss="log(cosh(residual))",
    ...                                      outputs=outputs)
    >>> round(robust.noisy_label_loss, 4), robust.loss
    (2.7347, 'log(cosh(residual))')
    """
    declared = ascending(labels, "labels")
    epsilon = EPSILON.check("epsilon", epsilon)
    probabilities = checked_prior(prior, len(declared))
    noised = label_loss(loss)
    if len(declared) > MOST_LABELS:
        entries = 2 * len(declared) ** 2
        raise ValueError(
            f"labels has {len(declared)} values. Up to {MOST_LABELS} are taken: the matrix would have {entries:,} "
            f"entries, {entries * 32 / 2**30:.2g} GiB of memory and a card of {entries * 22 / 2**30:.2g} GiB, and take "
            f"about {20 * (len(declared) / 1000) ** 2.5:.0f} s. Round the labels to fewer with round_labels, which is "
            "unbiased too."
        )
    values, shares = np.array(declared), probabilities / probabilities.sum()
    mesh = None if outputs is None else np.array(ascending(outputs, "outputs"))
    ratio = strict_ratio(epsilon, len(declared))
    try:
        restated = _restated(noised, values, shares, 1 / ratio, mesh)
        middle, half = middle_and_half(values)
        scaled = None if mesh is None else (mesh - middle) / half
        design = _over_line(restated.task) if scaled is None else _over_mesh(restated, scaled)
    except Infeasible:
        assert mesh is not None
        raise ValueError(
            f"no {epsilon:g}-private randomizer with outputs from {mesh[0]:g} to {mesh[-1]:g} is unbiased. They "
            "must reach farther than the labels: use feasible_outputs(labels, epsilon), or leave outputs out."
        ) from None
    # No randomizer has less than the true labels, by Jensen's inequality.
    bound = restated.least
    points = design.outputs * half + middle
    places = np.zeros(0, dtype=np.int64) if scaled is None else np.searchsorted(scaled, design.outputs)
    if mesh is not None:
        points = mesh[places]
    if ratio < LARGEST_RATIO:
        # For the whole budget, not for the ratio of the search.
        whole = replace(restated.task, low=math.exp(-epsilon))
        certified = lower_bound(whole, design.duals, design.price) * restated.unit
        bound = max(bound, restated.offset + certified - restated.rounding(places, design.entries))
    points, columns = _together(points, design.entries)
    try:
        matrix = realised(columns, epsilon, outputs=points.tolist(), means=declared)
    except Unrealisable as error:
        remedy = (
            "Use debiased_randomized_response, or fewer labels."
            if mesh is None
            else "The outputs may reach only just far enough, with no room for rounding: those of "
            "feasible_outputs(labels, epsilon) reach a little farther."
        )
        raise PrivacyError(
            f"the optimal randomizer of {len(declared)} labels at epsilon={epsilon:g} cannot be drawn exactly: {error} "
            f"{remedy}"
        ) from None
    return LabelRandomizer(
        declared, tuple(points.tolist()), matrix, epsilon, prior=tuple(shares.tolist()), loss=noised.text,
        lower_bound=bound,
    )  # fmt: skip


def _restated(loss: LabelLoss, labels: FloatArray, prior: FloatArray, low: float, mesh: FloatArray | None) -> Restated:
    """Return the task of a loss over given outputs, or over all numbers."""
    loss.require_convex(labels if mesh is None else mesh, labels)
    squared = quadratic(loss, labels, prior, low)
    if squared is not None:
        return squared
    if mesh is None:
        raise ValueError(
            f"loss={shown(loss.text, 60)} needs outputs=: only losses that are quadratic in the outcome are "
            "minimised over all numbers, and where a loss ends as a straight line, outputs farther and farther away "
            "cost no more. Give feasible_outputs(labels, epsilon, mesh=...) together with the labels; for the absolute "
            "loss the labels and the two ends are enough."
        )
    return convex(loss, labels, prior, low, mesh)


@dataclass(frozen=True)
class _Design:
    """A randomizer in the units of the task: outputs (m,), entries (k, m), and the duals that certify it."""

    outputs: FloatArray
    entries: FloatArray
    duals: Duals
    price: Pricing


def _over_line(task: Task) -> _Design:
    """Return the optimum over all numbers."""
    optimum = _settled(task)
    columns, masses = optimum.columns(len(task.labels))
    if len(masses) > 2 * len(task.labels):
        masses = best_masses(task, columns, masses).masses
    columns, masses = _on_line(task, columns, masses)
    return _Design(columns.outputs, task.weights(columns.chosen).T * masses, optimum.duals, price_line)


def _settled(task: Task) -> Conic:
    """Return the mesh-free optimum, where the solver does not settle that of a prior which is a little more uniform.

    The noise of labels without probability costs nothing: at large budgets it is so much dearer than that of others
    that these are lost in rounding.

    Raises
    ------
    ArithmeticError
        It settles none.
    """
    for share in _UNIFORM[:-1]:
        with contextlib.suppress(ArithmeticError):
            return mesh_free_optimum(_more_uniform(task, share), gap=_GAP)
    return mesh_free_optimum(_more_uniform(task, _UNIFORM[-1]), gap=_GAP)


def _more_uniform(task: Task, share: float) -> Task:
    """Return a task of whose prior a share is spread over all labels."""
    return replace(task, prior=(1 - share) * task.prior + share / len(task.prior))


def _over_mesh(restated: Restated, mesh: FloatArray) -> _Design:
    """Return the optimum over given outputs."""
    solve = mesh_optimum if restated.squared else adaptive_optimum
    columns, masses, duals = solve(restated.task, mesh, gap=_GAP)
    return _Design(*_on_mesh(restated.task, columns, masses), duals, price_outputs(mesh))


def _on_line(task: Task, columns: Columns, masses: FloatArray) -> tuple[Columns, FloatArray]:
    """Return columns in the order of their outputs, which may move, and masses that solve the equations.

    Masses and moments each solve k equations, and are brought onto them by the least relative change: the conic solver
    and the simplex method end far above rounding.
    """
    used = np.flatnonzero(masses > _NOTHING * masses.max())
    entries, mass = task.weights(columns.chosen[used]).T, masses[used]
    moments = mass * columns.outputs[used]
    sizes = mass * np.maximum(1.0, np.abs(columns.outputs[used]))
    for _ in range(3):
        mass = mass + masses[used] * _least(entries * masses[used], 1 - entries @ mass)
        moments = moments + sizes * _least(entries * sizes, task.labels - entries @ moments)
    if not (mass > 0).all():
        raise ArithmeticError("the masses of the optimal randomizer cannot be brought onto their equations.")
    order = np.argsort(moments / mass)
    return Columns(columns.chosen[used][order], (moments / mass)[order]), mass[order]


def _on_mesh(task: Task, columns: Columns, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the outputs in use, ascending, and the probabilities (k, m) of columns whose outputs stand."""
    used = np.flatnonzero(masses > 0)
    kept, start = columns.at(used), masses[used]
    matrix, right, scale = masses_of(task, kept)
    sizes = start / scale
    exact = sizes.copy()
    for _ in range(3):
        exact = np.maximum(exact + sizes * _least(matrix * sizes, right - matrix @ exact), 0.0)
    return _together(kept.outputs, task.weights(kept.chosen).T * (exact * scale))


def _together(outputs: FloatArray, entries: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the outputs that differ, ascending, and the probabilities of equal ones added up.

    Columns that are likely on different labels may have one output, to the last digit.
    """
    kept, place = np.unique(outputs, return_inverse=True)
    together = np.zeros((len(entries), len(kept)))
    np.add.at(together.T, place, entries.T)
    return kept, together


def _least(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Return the solution of least norm."""
    solution: FloatArray = scipy.linalg.lstsq(matrix, right, lapack_driver="gelsy")[0]
    return solution
