"""Generate the kernels of a corrected loss: loops over records as Python text, compiled by Numba.

A *program* (`program.Program`) is what a corrected loss says per record: in scores (`ScoreProgram`) or in named
features (`FeatureProgram`). `Kernels` puts it into loop templates. Noise, step sizes, penalty and radius are
arguments, so that changing them compiles nothing.

What a module takes to compile grows with its functions, with their wrappers for calls from Python and C, and with the
types that a function is called for. So a kernel's functions have no wrappers, each is called for one type, and what
needs memory takes it as a workspace (`WithWorkspace`).

Names in the generated text: ``X`` is the data matrix and ``noise`` the vector that `program.layout` describes; ``sums``
holds the sums over records from which ``assemble`` makes the mean gradient.
"""

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from symdebias._arrays import FloatArray
from symdebias.codegen import elementary, tiles
from symdebias.codegen.cache import KernelSource, compile_kernel
from symdebias.codegen.multinomial import MultinomialDerivatives
from symdebias.codegen.parallel import chunk_of, over_chunks
from symdebias.codegen.program import BLOCK, Piece, Program, indented
from symdebias.codegen.score.program import ScoreProgram
from symdebias.codegen.steps import function, is_within, put_lines, smoothing_text, step_lines, taken_lines
from symdebias.codegen.workspace import empty, zeros

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
FASTMATH = ("contract", "reassoc")

_vector = numba.types.Array(numba.float64, 1, "C")
_matrix = numba.types.Array(numba.float64, 2, "C")
_given_vector = numba.types.Array(numba.float64, 1, "C", readonly=True)
_given_matrix = numba.types.Array(numba.float64, 2, "C", readonly=True)
_given_order = numba.types.Array(numba.int64, 1, "C", readonly=True)
_data = (_given_vector, _given_matrix, _given_vector)  # theta, X, y


# How functions that a kernel calls are compiled: without wrappers for calls from Python or C.
IMPORTS = """import functools
import math
import numpy as np
from numba import njit

helper = functools.partial(njit, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)"""


@dataclass(frozen=True)
class WithWorkspace:
    """A compiled function with a workspace, which every call gets anew: so calls may run side by side.

    Numba's code for making an array takes longer to compile than most loops.
    """

    compiled: Any  # The compiled function, which takes the workspace after what describes the data.
    call: Callable[..., Any]  # What makes the workspace and calls it.

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        """Call the compiled function with a workspace of its own."""
        return self.call(*arguments, **more)


@dataclass(frozen=True)
class MeanDerivatives:
    """The mean loss of records with its derivatives: a compiled pass, and what is made of its sums."""

    compiled: Any  # The compiled pass.
    piece: Piece  # Its body, with the workspace that it takes.
    size: int  # The number of parameters.

    def __call__(
        self, theta: Any, X: Any, y: Any, weights: Any, total: float, noise: Any, *, meat: bool
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Return the mean loss, its gradient, its Hessian and the mean outer product of the gradients of records.

        The last, the sum of the weighted gradients' outer products over the total, has the shape (0, 0) unless
        ``meat``.
        """
        square = (self.size, self.size)
        shapes = {"gradient": (self.size,), "out": square, "meat": square if meat else (0, 0), **dict(self.piece.sums)}

        def passed(rows: slice) -> tuple[float, dict[str, FloatArray]]:
            filled = {name: np.zeros(shape) for name, shape in shapes.items()}
            own = weights[rows] if len(weights) else weights
            described = theta, X[rows], y[rows], own, total, noise
            return self.compiled(*described, *filled.values(), np.zeros((0, 0)), *self._workspace()), filled

        (value, filled), *others = over_chunks(len(X), passed, chunk_of(X))
        for more, other in others:
            value += more
            for name in filled:
                if name not in self.piece.of_theta:
                    filled[name] += other[name]
        gradient, hessian, outer = (filled.pop(name) for name in ("gradient", "out", "meat"))
        if self.piece.finish is not None:
            self.piece.finish(filled, gradient, hessian, outer, total)
        return float(value), gradient, hessian, outer

    @property
    def leaves_slopes(self) -> bool:
        """Whether `gradients` can be asked for."""
        return self.piece.rows is not None

    @property
    def leaves_factors(self) -> bool:
        """Whether `slopes` can be asked for."""
        return self.leaves_slopes and self.piece.is_factored

    def slopes(self, theta: Any, X: Any, y: Any, weights: Any, noise: Any) -> tuple[FloatArray, FloatArray]:
        """Return the weighted slopes of records for a pass that leaves them, and the Jacobian of the statistics.

        Of shape (m + k, n), in the m scores and then in the k symbols of the statistics, and (k, q).
        """
        sums = {name: np.zeros(shape) for name, shape in self.piece.sums}
        slopes, nothing = np.empty((self.piece.slopes, len(X))), np.zeros((0, 0))
        gradient, square = np.zeros(self.size), np.zeros((self.size, self.size))
        self.compiled(
            theta, X, y, weights, 1.0, noise, gradient, square, nothing, *sums.values(), slopes, *self._workspace()
        )
        return slopes, sums["jacobian"]

    def gradients(self, theta: Any, X: Any, y: Any, weights: Any, noise: Any) -> FloatArray:
        """Return the weighted gradients of records, shape (n, q), for a pass that leaves their slopes."""
        assert self.piece.rows is not None
        slopes, jacobian = self.slopes(theta, X, y, weights, noise)
        return self.piece.rows(slopes, X, jacobian)

    def _workspace(self) -> list[FloatArray]:
        return zeros(*(shape for _, shape in self.piece.workspace))


@dataclass(frozen=True)
class Kernels:
    """The compiled functions of a program; each is compiled when first used."""

    program: Program  # The corrected loss.

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        # That of an expression takes as long as a pass over some thousand records, and kernels are looked up by it.
        return hash(self.program)

    @functools.cached_property
    def loss(self) -> Callable[..., Any]:
        """Compiled ``loss(theta, X, y, noise, out)``: out of shape (n,)."""
        return compile_kernel(self.source("loss"))

    @functools.cached_property
    def gradient(self) -> WithWorkspace:
        """Compiled ``gradient(theta, X, y, noise, out)``: out of shape (n, q), by the kernel of `mean_gradient`."""
        compiled = compile_kernel(self.source("mean_gradient"))

        def gradient(theta: Any, X: Any, y: Any, noise: Any, out: Any) -> None:
            if self.leaves_slopes:
                assert isinstance(self.program, ScoreProgram)
                slopes, jacobian = self.gradient_slopes(theta, X, y, noise)
                self.program.columns.gradients(slopes, X, jacobian, out)
            else:
                work = *self._sums(), *self._tile(weighted=False)
                compiled(theta, X, y, np.empty(0), 1.0, noise, 1, *work, out, np.empty((0, 0)))

        return WithWorkspace(compiled, gradient)

    @functools.cached_property
    def leaves_slopes(self) -> bool:
        """Whether there are `gradient_slopes`."""
        return self.program.slopes_kept is not None

    def gradient_slopes(self, theta: Any, X: Any, y: Any, noise: Any) -> tuple[FloatArray, FloatArray]:
        """Return the slopes of records, by the kernel of `mean_gradient`, and the Jacobian of the statistics.

        Of shape (m + k, n), in the m scores and then in the k symbols of the statistics, and (k, q).
        """
        program = self.program
        assert isinstance(program, ScoreProgram)
        assert program.slopes_kept is not None
        compiled, count = compile_kernel(self.source("mean_gradient")), program.slopes_kept
        slopes = np.empty((count, len(X)))
        jacobian = np.empty((count - len(program.scores), program.number_of_parameters))
        work = *self._sums(), *self._tile(weighted=False)
        compiled(theta, X, y, np.empty(0), 1.0, noise, 0, *work, jacobian, slopes)
        return slopes, jacobian

    def mean_loss(self, *, weighted: bool) -> Callable[..., Any]:
        """Return compiled ``mean_loss(theta, X, y, weights, total, noise)``."""
        return compile_kernel(self.source("mean_loss", weighted=weighted))

    @functools.cache  # noqa: B019  (as for `source`)
    def mean_gradient(self, *, weighted: bool) -> WithWorkspace:
        """Return compiled ``mean_gradient(theta, X, y, weights, total, noise, gradient)``."""
        compiled = compile_kernel(self.source("mean_gradient", weighted=weighted))

        def mean_gradient(theta: Any, X: Any, y: Any, weights: Any, total: Any, noise: Any, gradient: Any) -> None:
            work = *self._sums(), *self._tile(weighted=weighted)
            compiled(theta, X, y, weights, total, noise, len(X), *work, gradient.reshape(1, -1), np.empty((0, 0)))

        return WithWorkspace(compiled, mean_gradient)

    def mean_gradients(self, thetas: FloatArray, X: Any, y: Any, weights: Any, total: float, noise: Any) -> FloatArray:
        """Return the mean gradients at the rows of ``thetas``, of few records: calls one after the other share work."""
        weighted = bool(len(weights))
        compiled, found = self.mean_gradient(weighted=weighted).compiled, np.empty(thetas.shape)
        work = *self._sums(), *self._tile(weighted=weighted)
        for place, theta in enumerate(thetas):
            out = found[place : place + 1]
            compiled(theta, X, y, weights, total, noise, len(X), *work, out, np.empty((0, 0)))
        return found

    @property
    def by_products(self) -> bool:
        """Whether second derivatives are products of slopes, which ``mean_gradient`` leaves."""
        return isinstance(self.program, ScoreProgram) and self.program.multinomial_factor is not None

    @functools.cache  # noqa: B019  (as for `source`)
    def mean_derivatives(self, *, weighted: bool) -> MeanDerivatives | MultinomialDerivatives:
        """Return compiled ``mean_derivatives(theta, X, y, weights, total, noise, meat=)``."""
        if isinstance(self.program, ScoreProgram) and self.program.multinomial_factor is not None:
            return MultinomialDerivatives(self, self.program.columns, self.program.multinomial_factor)
        compiled = compile_kernel(self.source("mean_derivatives", weighted=weighted))
        return MeanDerivatives(compiled, self._derivatives(weighted), self.program.number_of_parameters)

    @functools.cache  # noqa: B019  (as for `source`)
    def sgd_pass(
        self,
        *,
        weighted: bool,
        smoothed: bool = False,
        scaled: bool = False,
        held: int | None = None,
        measured: bool = False,
    ) -> WithWorkspace:
        """Return the compiled pass of stochastic gradient descent; see `_sgd_pass` for its arguments.

        One that is ``measured`` takes ``units`` and ``longest`` besides, as ``lengths=``.
        """
        compiled = compile_kernel(
            self.source("sgd_pass", weighted=weighted, smoothed=smoothed, scaled=scaled, held=held, measured=measured)
        )
        q = self.program.number_of_parameters - (held is not None) if smoothed or scaled else 0

        def sgd_pass(*arguments: Any, lengths: tuple[FloatArray, ...] = ()) -> int:
            # theta once more, as what is read only: one type for all calls of a function, and an array that a kernel
            # gives a second name would be counted at each step.
            sums, gradient, kept = self._sums()
            whole = self._whole(held)
            if whole:
                gradient = gradient[:-1]
            work = sums, gradient, kept, np.empty(q), *self._tile(weighted=weighted)
            taken: int = compiled(*arguments, *(whole[:1] or arguments[:1]), *work, *whole, *lengths)
            return taken

        return WithWorkspace(compiled, sgd_pass)

    @functools.cache  # noqa: B019  (as for `source`)
    def noisy_pass(self, *, smoothed: bool) -> WithWorkspace:
        """Return the compiled pass of noised steps on clipped gradients; see `_noisy_pass` for its arguments."""
        compiled = compile_kernel(self.source("noisy_pass", smoothed=smoothed))
        q = self.program.number_of_parameters

        def noisy_pass(*arguments: Any) -> int:
            taken: int = compiled(*arguments, np.empty(q), np.empty(q), np.empty(q if smoothed else 0))
            return taken

        return WithWorkspace(compiled, noisy_pass)

    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return workspaces for sums over records, for the gradient made of them, and for scores of a block."""
        sums, gradient, kept = self._numbers
        for_sums, for_gradient, for_kept = empty((sums,), (gradient,), (kept,))
        return for_sums, for_gradient, for_kept

    def _tile(self, *, weighted: bool) -> tuple[Any, ...]:
        return tiles.workspace(self.program, weighted=weighted, is_by_columns=self._is_by_columns)

    @functools.cached_property
    def _is_by_columns(self) -> bool:
        return tiles.by_columns(self.program)

    def _whole(self, held: int | None) -> tuple[FloatArray, ...]:
        """Return workspaces for all parameters, one of which is held at 1, and their gradient; none without it."""
        q = self.program.number_of_parameters
        return () if held is None else (np.ones(q), np.empty(q))

    @functools.cached_property
    def _numbers(self) -> tuple[int, int, int]:
        program = self.program
        return program.number_of_sums, program.number_of_parameters, program.number_kept

    @functools.cache  # noqa: B019  (kernels are few, and their sources are asked for at every call)
    def source(
        self,
        name: str,
        *,
        weighted: bool = False,
        smoothed: bool = False,
        scaled: bool = False,
        held: int | None = None,
        measured: bool = False,
    ) -> KernelSource:
        """Return the generated source of a kernel by its name."""
        templates: dict[str, Callable[[], tuple[str, frozenset[str], Any]]] = {
            "loss": self._loss,
            "mean_loss": lambda: self._mean_loss(weighted),
            "mean_gradient": lambda: self._mean_gradient(weighted),
            "mean_derivatives": lambda: self._mean_derivatives(weighted),
            "sgd_pass": lambda: self._sgd_pass(weighted, smoothed, scaled, held, measured),
            "noisy_pass": lambda: self._noisy_pass(smoothed),
        }
        if name not in templates:
            raise ValueError(f"there is no kernel {name!r}; there are {', '.join(templates)}.")
        body, functions, signature = templates[name]()
        text = f'"""Generated: {name} for {self.program.width} columns."""\n{prelude(functions)}\n\n{body}\n'
        # What noise is added to is Numba's alone, operation by operation, as the noise is.
        is_direct = name != "noisy_pass"
        return KernelSource(name, text, signature, FASTMATH, self._probe(name, held, measured), is_direct)

    def _loss(self) -> tuple[str, frozenset[str], Any]:
        code = self.program.loss()
        text = f"""{code.helpers}
def kernel(theta, X, y, noise, out):
{indented(code.loops("out[i] = value"), 4)}
"""
        return text, code.functions, numba.void(*_data, _given_vector, _vector)

    def _mean_loss(self, weighted: bool) -> tuple[str, frozenset[str], Any]:
        code = self.program.loss()
        weight = "*weights[i]" if weighted else ""
        text = f"""{code.helpers}
def kernel(theta, X, y, weights, total, noise):
    summed = 0.0
{indented(code.loops(f"summed += value{weight}"), 4)}
    return summed/total
"""
        signature = numba.float64(*_data, _given_vector, numba.float64, _given_vector)
        return text, code.functions, signature

    def _accumulate(self, weighted: bool) -> Piece:
        piece = self.program.accumulate(weighted=weighted, by_columns=tiles.by_columns(self.program))
        text = f"""{piece.helpers}
@helper(fastmath={{"contract", "reassoc"}})
def accumulate(theta, X, y, weights, noise, start, stop, kept, sums):
{indented(piece.text, 4)}
"""
        return Piece(text, piece.functions)

    def _mean_gradient(self, weighted: bool) -> tuple[str, frozenset[str], Any]:
        """Fill row k of ``out`` with the gradient of the k-th ``size`` records, summed and divided by ``total``.

        Where `Program.accumulate` keeps the slopes of which gradients are made, a ``size`` of 0 fills ``slopes`` with
        these instead, and row k of ``out`` with the gradient of the k-th statistic. The tile is that of `_sgd_pass`.
        """
        piece = self._accumulate(weighted)
        added = "accumulate(theta, X, y, weights, noise, start, stop, kept, sums)"
        if tiles.by_columns(self.program):
            added = f"""first, part, filled = start, stop - start, 0
{tiles.rows_lines(self.program, weighted=weighted, is_by_columns=True)}
first = 0*part
accumulate(theta, read_tile, read_targets, read_weights, noise, first, part, kept, sums)"""
        assembled, kept = self.program.assemble(), self.program.slopes_kept
        q, parameters = self.program.number_of_sums, self.program.number_of_parameters
        each = skip = units = ""
        span = "size" if kept is None else f"size if size > 0 else {BLOCK}"
        if kept is not None:
            each = f"""
            if size == 0:
                for k in range({kept}):
                    for n in range(stop - start):
                        slopes[k, start + n] = kept[k*{BLOCK} + n]"""
            skip = "\n        if size == 0:\n            continue"
            units = f"""
    if size == 0:
        for k in range({q - parameters}):
            for j in range({q}):
                sums[j] = 0.0
            sums[{parameters} + k] = 1.0
            assemble(theta, noise, sums, total, gradient)
            for j in range({parameters}):
                out[k, j] = gradient[j]"""
        text = f"""{tiles.functions_text(self.program)}{piece.text}
{function("assemble(theta, noise, sums, total, gradient)", assembled.text)}

def kernel(theta, X, y, weights, total, noise, size, sums, gradient, kept, {tiles.ARGUMENTS},
           out, slopes):
    span = {span}
    for group in range((X.shape[0] + span - 1)//span):
        for j in range({q}):
            sums[j] = 0.0
        end = (group + 1)*span if (group + 1)*span < X.shape[0] else X.shape[0]
        for start in range(group*span, end, {BLOCK}):
            stop = start + {BLOCK} if start + {BLOCK} < end else end
{indented(added, 12)}{each}{skip}
        assemble(theta, noise, sums, total, gradient)
        for j in range({parameters}):
            out[group, j] = gradient[j]{units}
"""
        signature = numba.void(
            *_data, _given_vector, numba.float64, _given_vector, numba.int64, _vector, _vector, _vector,
            *tiles.workspace_types(is_by_columns=tiles.by_columns(self.program)), _matrix, _matrix,
        )  # fmt: skip
        return text, piece.functions | assembled.functions, signature

    @functools.cache  # noqa: B019  (as for `source`)
    def _derivatives(self, weighted: bool) -> Piece:
        return self.program.derivatives(weighted=weighted)

    def _mean_derivatives(self, weighted: bool) -> tuple[str, frozenset[str], Any]:
        piece = self._derivatives(weighted)
        names = ["theta", "records", "targets", "all_weights", "total", "noise", "gradient", "out", "meat"]
        arrays = (*piece.sums, ("slopes", (0, 0)), *piece.workspace)
        text = f"""{piece.helpers}
def kernel({", ".join((*names, *(name for name, _ in arrays)))}):
{indented(piece.text, 4)}
"""
        work = (numba.types.Array(numba.float64, len(shape), "C") for _, shape in arrays)
        signature = numba.float64(*_data, _given_vector, numba.float64, _given_vector, _vector, _matrix, _matrix, *work)
        return text, piece.functions, signature

    def _sgd_pass(
        self, weighted: bool, smoothed: bool, scaled: bool, held: int | None, measured: bool
    ) -> tuple[str, frozenset[str], Any]:
        """Minibatch steps over the records from position ``begin`` on.

        Where ``order`` is not empty it permutes the runs of ``run_length`` consecutive rows; ``runs`` of them
        at a time are dealt out like cards, one row of each in turn. The rows left over by the last run come last, and
        ``shift`` turns all rows cyclically. ``tile`` holds the records of a part of a batch, where they do not stand in
        order or are turned into columns; ``read_tile`` is the same as the rows of records.

        The weighted gradients of a batch are summed and divided by the number of its records times ``weight``, the mean
        weight of all: over the weights of the batch they would be a ratio, whose mean is not that of the records.

        theta is updated in place, as is the running ``average`` of ``averaged`` earlier iterates (negative: do
        not average). Returns the number of steps taken. If that is fewer than ``step_sizes`` has,
        ``report[0]`` says why: 1 a step that is not finite, or to a norm beyond ``growth`` (1 + ||theta||) or
        ``runaway``; 2 what the program's `guard` computes is at or above one of the two ``limits``. ``report[1]``
        counts the projections onto the ball. ``smoothing`` is as `smoothing.STEP_FUNCTION` has it; without smoothing it
        is not read. Nor is the matrix ``scaling``, which a scaled step multiplies the gradient with.

        A parameter that is ``held`` at 1 is none of theta, and steps are those of the others: ``whole`` has all of
        them, ``slopes`` the gradient for all.

        ``longest[n]`` becomes the largest sum of ``units[j]*x[j]**2`` over the records that were the n-th of a block,
        where these are ``measured``.
        """
        turned = tiles.by_columns(self.program)
        piece = self._accumulate(weighted)
        assembled = self.program.assemble()
        q = self.program.number_of_parameters - (held is not None)
        how = {"weighted": weighted, "is_by_columns": turned}
        measure_tile, measure = (tiles.measure_lines(self.program, of) if measured else "" for of in ("read_tile", "X"))
        # A plain 0 has a type of its own, for which Numba would compile another function.
        in_tile = f"""first = 0*part
{measure_tile}
accumulate(point, read_tile, read_targets, read_weights, noise, first, first + part, kept, sums)"""
        # What stands in order is read where it stands, if it is not turned.
        as_they_stand = f"""{measure}
accumulate(point, X, y, weights, noise, first, first + part, kept, sums)"""
        dealt, rest, both = in_tile, as_they_stand, ""
        if turned:
            dealt, rest, both = "", tiles.rows_lines(self.program, **how), in_tile
        within, guard, more = "", f"{self.program.guard()}\nif not (variance < limits[0] and reach < limits[1]):", ""
        assemble = "assemble(point, noise, sums, total, gradient)"
        if held is not None:
            within, more = is_within(self.program), ", whole, slopes"
            guard = f"{put_lines('whole', 'theta', q, held)}\nif not is_within(point, noise, limits):"
            assemble = f"assemble(point, noise, sums, total, slopes)\n{taken_lines('gradient', 'slopes', q, held)}"
        more += ", units, longest" if measured else ""
        text = f"""{tiles.functions_text(self.program)}{smoothing_text(smoothed)}{piece.text}
{function("assemble(theta, noise, sums, total, gradient)", assembled.text)}{within}

def kernel(theta, X, y, weights, order, runs, run_length, shift, begin, noise, step_sizes, batch_size, weight, penalty,
           radius, growth, runaway, limits, smoothing, scaling, average, averaged, report, point, sums, gradient,
           kept, smoothed, {tiles.ARGUMENTS}{more}):
{indented(tiles.BEGIN_DEALING, 4)}
    filled = 0
    for step in range(step_sizes.shape[0]):
        start = begin + step*batch_size
        stop = min(start + batch_size, records)
{indented(guard, 8)}
            report[0] = 2
            return step
        for j in range({self.program.number_of_sums}):
            sums[j] = 0.0
        total = (stop - start)*weight
        position = start
        while position < stop:
            part = min(stop - position, {BLOCK})
            if position < dealt:
                part = min(part, dealt - position)
{indented(tiles.deal_lines(self.program, **how), 16)}
{indented(dealt, 16)}
            else:
                first = position + shift
                first -= records if first >= records else 0
                part = min(part, records - first)
{indented(rest, 16)}
{indented(both, 12)}
            position += part
{indented(assemble, 8)}
{indented(step_lines(q, smoothed, scaled), 8)}
    return step_sizes.shape[0]
"""
        number, count = numba.float64, numba.int64
        signature = numba.int64(
            _vector, _given_matrix, _given_vector, _given_vector, _given_order, count, count, count, count,
            _given_vector, _given_vector, count, number, _given_vector, number, number, number, _given_vector,
            _given_vector, _given_matrix, _vector, number, numba.types.Array(numba.int64, 1, "C"), _given_vector,
            _vector, _vector, _vector, _vector, *tiles.workspace_types(is_by_columns=tiles.by_columns(self.program)),
            *(() if held is None else (_vector, _vector)), *((_given_vector, _vector) if measured else ()),
        )  # fmt: skip
        return text, piece.functions | assembled.functions, signature

    def _noisy_pass(self, smoothed: bool) -> tuple[str, frozenset[str], Any]:
        """Take steps along sums of clipped gradients that are noised before anything else is done with them.

        Step t takes the records ``rows[ends[t - 1]:ends[t]]``: it sums their gradients, each clipped to the norm
        ``clip`` (``norms`` are the norms of the rows of X) and rounded to multiples of ``grain``, a power of two, adds
        ``draws[t]`` and divides by ``divisor``. Where draws are multiples of the grain as well, sums with noise are
        exact. What a record contributes is zero where its gradient is not finite. The rest is as for `_sgd_pass`,
        without its guard.
        """
        piece = self.program.accumulate_clipped()
        q = self.program.number_of_parameters
        text = f"""{smoothing_text(smoothed)}{piece.helpers}
@helper(fastmath={{"contract", "reassoc"}})
def accumulate(theta, X, y, norms, noise, rows, start, stop, clip, fine, sums):
{indented(piece.text, 4)}


def kernel(theta, X, y, norms, rows, ends, draws, noise, step_sizes, clip, grain, divisor, penalty, radius, growth,
           runaway, smoothing, average, averaged, report, sums, gradient, smoothed):
    begin = 0
    fine = 1.0/grain
    for step in range(step_sizes.shape[0]):
        for j in range({q}):
            sums[j] = 0.0
        end = ends[step]
        for start in range(begin, end, {BLOCK}):
            stop = start + {BLOCK} if start + {BLOCK} < end else end
            accumulate(theta, X, y, norms, noise, rows, start, stop, clip, fine, sums)
        begin = end
        for j in range({q}):
            gradient[j] = (sums[j]*grain + draws[step, j])/divisor
{indented(step_lines(q, smoothed), 8)}
    return step_sizes.shape[0]
"""
        number = numba.float64
        signature = numba.int64(
            _vector, _given_matrix, _given_vector, _given_vector, _given_order, _given_order, _given_matrix,
            _given_vector, _given_vector, number, number, number, _given_vector, number, number, number, _given_vector,
            _vector, number, numba.types.Array(numba.int64, 1, "C"), _vector, _vector, _vector,
        )  # fmt: skip
        return text, piece.functions, signature

    def _probe(self, name: str, held: int | None, measured: bool) -> Callable[[Callable[..., Any]], Sequence[float]]:
        """Return a call on fixed inputs whose answer a kernel read from disk must repeat."""
        p, q, n = self.program.width, self.program.number_of_parameters, 3
        X = np.sin(1.0 + np.arange(n * p, dtype=float)).reshape(n, p)
        y = np.array([0.0 if self.program.codes else -1.0, 1.0, 1.0])
        theta = 0.2 * np.cos(1.0 + np.arange(q))
        weights = np.array([1.0, 2.0, 0.5])
        noise = np.full(self.program.layout.length, 0.05)
        noise[self.program.layout.starts["target"] + 1] = 1.5
        limits = np.full(2, np.inf)
        smoothing = np.array([0.5, 0.5, math.log(2.0), q, 0.0])

        def probe(kernel: Callable[..., Any]) -> Sequence[float]:
            if name == "mean_loss":
                return [kernel(theta, X, y, weights, 3.5, noise)]
            if name == "mean_derivatives":
                piece = self._derivatives(False)
                shapes = ((q,), (q, q), (q, q), *(shape for _, shape in piece.sums))
                filled = [np.zeros(shape) for shape in shapes]
                own = zeros(*(shape for _, shape in piece.workspace))
                mean = kernel(theta, X, y, weights, 3.5, noise, *filled, np.zeros((0, 0)), *own)
                return [mean, *(float(value) for array in filled for value in array.ravel())]
            out = np.zeros((n,) if name == "loss" else (q,))
            work: tuple[Any, ...] = self._sums()
            if name == "sgd_pass":
                count, whole = q - (held is not None), self._whole(held)
                lengths = (np.ones(p), np.zeros(BLOCK)) if measured else ()
                out = theta[:count].copy()
                order, report = np.zeros(0, np.int64), np.zeros(2, np.int64)
                steps, penalty = np.full(2, 0.1), np.zeros(count)
                smoothing[3] = count
                kernel(
                    out, X, y, weights, order, 0, 0, 0, 0, noise, steps, 2, 1.5, penalty, 1.0, np.inf, np.inf, limits,
                    smoothing, 0.5 * np.eye(count), out.copy(), 0.0, report, *(whole[:1] or (out,)), work[0],
                    work[1][:count], work[2], np.empty(count), *self._tile(weighted=True), *whole,
                    *lengths,
                )  # fmt: skip
            elif name == "noisy_pass":
                out += theta
                norms, rows, ends = np.linalg.norm(X, axis=1), np.array([0, 2, 1]), np.array([2, 3])
                draws, report = np.full((2, q), 0.1), np.zeros(2, np.int64)
                kernel(
                    out, X, y, norms, rows, ends, draws, noise, np.full(2, 0.1), 0.5, 2.0**-20, 2.0, np.zeros(q), 1.0,
                    np.inf, np.inf, smoothing, theta.copy(), 0.0, report, np.empty(q), np.empty(q), np.empty(q),
                )  # fmt: skip
            elif name == "loss":
                kernel(theta, X, y, noise, out)
            else:
                work = *work, *self._tile(weighted=True)
                kernel(theta, X, y, weights, 3.5, noise, n, *work, out.reshape(1, q), np.empty((0, 0)))
            return [float(value) for value in out.ravel()]

        return probe


def prelude(functions: frozenset[str]) -> str:
    """Return the imports and the elementary functions that a module needs, in order of their use."""
    needed, found = {"exp"}, {name for name in functions if hasattr(elementary, name)}
    while found:
        needed |= found
        called = {name for one in found for name in getattr(elementary, one).__code__.co_names}
        found = {name for name in called if inspect.isfunction(getattr(elementary, name, None))} - needed
    order = [name for name, value in vars(elementary).items() if inspect.isfunction(value) and name in needed]
    parts = [IMPORTS]
    for name in order:
        body = inspect.getsource(getattr(elementary, name))
        parts.append(f"\n\n@helper(forceinline=True)\n{body.rstrip()}")
    return "\n".join(parts)
