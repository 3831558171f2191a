"""The pass of stochastic gradient descent for many parameters at once: a batch is read once, and serves all of them.

Each replicate takes the steps that `Kernels.sgd_pass` takes for it alone. What they share is the order of the records:
a batch is copied to a tile that stays in the first-level cache, column by column where loops over columns are written
out, so that scores and sums of one replicate are vectorised over records without a stride.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from symdebias._arrays import FloatArray
from symdebias.codegen import tiles
from symdebias.codegen.cache import KernelSource, compile_kernel
from symdebias.codegen.kernels import FASTMATH, Kernels, prelude
from symdebias.codegen.parallel import over_parts
from symdebias.codegen.program import BLOCK, Program, indented
from symdebias.codegen.steps import function, is_within, put_lines, smoothing_text, step_lines, taken_lines
from symdebias.codegen.workspace import empty

# The fewest replicates that a thread is started for: each thread reads the records by itself.
_FEWEST = 8
# How many numbers of a tile are read again and again, so that they stay in a first-level cache of 48 KB, and the fewest
# records, so that what is done once for them does not weigh.
_NUMBERS, _FEWEST_RECORDS = 4_096, 32
# What is done of a step that a replicate does not take: it stays where it is.
_STOP = """report[r, 0] = 1
report[r, 2] = step
continue"""


@dataclass(frozen=True)
class ReplicatesPass:
    """The compiled pass, called with the replicates' arrays; see `source` for its arguments.

    Attributes
    ----------
    compiled : callable
        The compiled function.
    program : ScoreProgram or FeatureProgram
        The corrected loss.
    weighted, turned : bool
        Whether records have weights; whether gradients are smoothed or scaled.
    held : int or None
        The place of a parameter that is held at 1, and is none of the replicates'.
    """

    compiled: Any
    program: Program
    weighted: bool
    turned: bool
    held: int | None = None

    def __call__(
        self,
        thetas: FloatArray,
        records: Sequence[Any],
        noise: FloatArray,
        step_sizes: FloatArray,
        batch_size: int,
        weight: float,
        bounds: Sequence[FloatArray],
        limits: FloatArray,
        smoothing: FloatArray,
        scalings: FloatArray,
        averages: FloatArray,
        averaged: FloatArray,
        reports: Any,
    ) -> None:
        """Take the steps of all replicates, on all cores; each of R replicates has a row of its arrays.

        Parameters
        ----------
        thetas, averages : array of shape (R, Q), float64
            Iterates, and the running averages of earlier ones; written to.
        records : sequence
            X, y, weights, order, runs, run_length, shift and begin, as `Kernels.sgd_pass` takes them.
        noise, limits, smoothing : array, float64
            As `Kernels.sgd_pass` takes them.
        step_sizes : array of shape (R, steps), float64
            The step sizes.
        batch_size : int
            Records per step.
        weight : float
            The mean weight of all records.
        bounds : sequence
            Penalties of shape (R, Q), and radius, growth and runaway of shape (R,).
        scalings : array of shape (R, Q, Q) or (R, 0, 0), float64
            What gradients are multiplied with.
        averaged : array of shape (R,), float64
            How many earlier iterates the averages are of (negative: do not average); written to.
        reports : array of shape (R, 3), int64
            Why a replicate has stopped (0: it has not), its projections, and its steps; one that has stopped is left
            where it is.
        """
        program = self.program
        q = program.number_of_parameters
        free, more = (q, ()) if self.held is None else (q - 1, (np.empty(q),))
        turned = tiles.by_columns(program, is_read_often=True)

        def passed(part: slice) -> None:
            described = thetas[part], *records, noise, step_sizes[part], batch_size, weight
            # One where a parameter is held.
            sums, own = program.number_of_sums, np.ones(q)
            # Twice what is written and read: as what is read only, it has one type for all calls of a function.
            self.compiled(
                *described, *(bound[part] for bound in bounds), limits, smoothing, scalings[part], averages[part],
                averaged[part], reports[part],
                np.empty((len(thetas[part]), sums)), own, own, np.empty(sums), np.empty(free),
                *empty((program.number_kept,)),
                np.empty(free if self.turned else 0),
                *tiles.workspace(program, weighted=self.weighted, is_by_columns=turned), *more,
            )  # fmt: skip

        over_parts(len(thetas), _FEWEST, passed)


@functools.cache
def replicates_pass(
    kernels: Kernels, *, weighted: bool, smoothed: bool = False, scaled: bool = False, held: int | None = None
) -> ReplicatesPass:
    """Return the compiled pass for many parameters at once."""
    compiled = compile_kernel(source(kernels, weighted=weighted, smoothed=smoothed, scaled=scaled, held=held))
    return ReplicatesPass(compiled, kernels.program, weighted, smoothed or scaled, held)


@functools.cache
def source(
    kernels: Kernels, *, weighted: bool, smoothed: bool = False, scaled: bool = False, held: int | None = None
) -> KernelSource:
    """Return the generated source of the pass: `Kernels.sgd_pass` with a loop over replicates inside that over steps.

    What that takes one of, this takes a row of for each replicate, and works on in ``own`` and ``own_sums``: a row of
    an array that is given a name is counted each time. ``report[r, 2]`` counts the steps of a replicate that has
    stopped. ``tile`` holds the records of a part of a batch, ``read_tile`` is the same as the rows of records. Where a
    parameter is ``held``, ``own`` has it besides, and ``slopes`` is the gradient for all.
    """
    program = kernels.program
    turned = tiles.by_columns(program, is_read_often=True)
    how = {"weighted": weighted, "is_by_columns": turned}
    piece = program.accumulate(weighted=weighted, by_columns=turned)
    assembled = program.assemble()
    q, p, sums = program.number_of_parameters - (held is not None), program.width, program.number_of_sums
    block = max(_FEWEST_RECORDS, min(BLOCK, _NUMBERS // p // 8 * 8))
    put, more, assemble = put_lines("own", "theta", q, held, row="r, "), "", "gradient)"
    if held is not None:
        more, assemble = ", slopes", f"slopes)\n{taken_lines('gradient', 'slopes', q, held)}"

    text = f"""{tiles.functions_text(program)}{smoothing_text(smoothed)}{piece.helpers}
@helper(fastmath={{"contract", "reassoc"}})
def accumulate(theta, X, y, weights, noise, start, stop, kept, sums):
{indented(piece.text, 4)}

{function("assemble(theta, noise, sums, total, gradient)", assembled.text)}
{is_within(program)}

def kernel(theta, X, y, weights, order, runs, run_length, shift, begin, noise, step_sizes, batch_size, weight, penalty,
           radii, growths, runaways, limits, smoothing, scaling, average, before_these, report, sums, own, point,
           own_sums, gradient, kept, smoothed, {tiles.ARGUMENTS}{more}):
{indented(tiles.BEGIN_DEALING, 4)}
    for step in range(step_sizes.shape[1]):
        start = begin + step*batch_size
        stop = min(start + batch_size, records)
        going = 0
        total = (stop - start)*weight
        position = start
        while position < stop:
            length = min(stop - position, {block})
            filled = 0
            while filled < length:
                at = position + filled
                part = length - filled
                if at < dealt:
                    part = min(part, dealt - at)
{indented(tiles.deal_lines(program, **how), 20)}
                else:
                    first = at + shift
                    first -= records if first >= records else 0
                    part = min(part, records - first)
{indented(tiles.rows_lines(program, **how), 20)}
                filled += part
            is_first = position == start
            position += length
            # Most batches are of one part: all of a step is then done in turn, and sums stay where they are.
            for r in range(theta.shape[0]):
                if report[r, 0] != 0:
                    continue
{indented(put, 16)}
                if is_first:
                    if not is_within(point, noise, limits):
                        report[r, 0] = 2
                        report[r, 2] = step
                        continue
                    going += 1
                    for j in range({sums}):
                        own_sums[j] = 0.0
                else:
                    for j in range({sums}):
                        own_sums[j] = sums[r, j]
                accumulate(point, read_tile, read_targets, read_weights, noise, 0, length, kept, own_sums)
                if position < stop:
                    for j in range({sums}):
                        sums[r, j] = own_sums[j]
                    continue
{indented(f"assemble(point, noise, own_sums, total, {assemble}", 16)}
                radius, growth, runaway, averaged = radii[r], growths[r], runaways[r], before_these[r]
{indented(step_lines(q, smoothed, scaled, row="r, ", stop=_STOP), 16)}
                before_these[r] = averaged
            if going == 0:
                return
"""
    name = "replicates_pass"
    functions = piece.functions | assembled.functions
    whole = f'"""Generated: {name} for {p} columns."""\n{prelude(functions)}\n\n{text}\n'
    return KernelSource(name, whole, _signature(turned, held), FASTMATH, _probe(program, smoothed or scaled, held))


def _signature(columnwise: bool, held: int | None) -> Any:
    number, count = numba.float64, numba.int64
    vector, given_vector = (numba.types.Array(number, 1, "C", readonly=given) for given in (False, True))
    matrix, given_matrix = (numba.types.Array(number, 2, "C", readonly=given) for given in (False, True))
    order = numba.types.Array(count, 1, "C", readonly=True)
    reports, scalings = numba.types.Array(count, 2, "C"), numba.types.Array(number, 3, "C", readonly=True)
    return numba.void(
        matrix, given_matrix, given_vector, given_vector, order, count, count, count, count, given_vector,
        given_matrix, count, number, given_matrix, given_vector, given_vector, given_vector, given_vector, given_vector,
        scalings, matrix, vector, reports, matrix, vector, given_vector, vector, vector, vector, vector,
        *tiles.workspace_types(is_by_columns=columnwise), *(() if held is None else (vector,)),
    )  # fmt: skip


def _probe(program: Program, turned: bool, held: int | None) -> Callable[[Callable[..., Any]], Sequence[float]]:
    """Return a call on fixed inputs whose answer a kernel read from disk must repeat."""
    p, q, n = program.width, program.number_of_parameters - (held is not None), 3
    X = np.sin(1.0 + np.arange(n * p, dtype=float)).reshape(n, p)
    y = np.array([0.0 if program.codes else -1.0, 1.0, 1.0])
    noise = np.full(program.layout.length, 0.05)
    noise[program.layout.starts["target"] + 1] = 1.5

    def probe(kernel: Callable[..., Any]) -> Sequence[float]:
        thetas = 0.2 * np.cos(1.0 + np.arange(2.0 * q)).reshape(2, q)
        own = np.ones(program.number_of_parameters)
        averages, reports, infinite = thetas.copy(), np.zeros((2, 3), np.int64), np.full(2, math.inf)
        by_columns = tiles.by_columns(program, is_read_often=True)
        kernel(
            thetas, X, y, np.array([1.0, 2.0, 0.5]), np.zeros(0, np.int64), 0, 0, 0, 0, noise, np.full((2, 2), 0.1), 2,
            1.5, np.zeros((2, q)), np.ones(2), infinite, infinite, infinite,
            np.array([0.5, 0.5, math.log(2.0), q, 0.0]),
            np.broadcast_to(0.5 * np.eye(q), (2, q, q)).copy(), averages, np.zeros(2), reports,
            np.empty((2, program.number_of_sums)), own, own, np.empty(program.number_of_sums), np.empty(q),
            np.empty(program.number_kept), np.empty(q if turned else 0),
            *tiles.workspace(program, weighted=True, is_by_columns=by_columns),
            *(() if held is None else (np.empty(q + 1),)),
        )  # fmt: skip
        return [float(value) for value in (*thetas.ravel(), *averages.ravel())]

    return probe
