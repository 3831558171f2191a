"""Generate the kernels of a corrected loss: loops over records as Python text, compiled by Numba.

A *program* is what a corrected loss says per record, as expressions of SymPy: in the score
(`ScoreProgram`) or in named features (`FeatureProgram`). `Kernels` puts it into loop templates for a given
number of columns. Noise variances, label gain, step sizes, penalty and radius are arguments, so that
changing them compiles nothing.

Names in the generated text: ``noise`` holds the noise variances, then the target's noise variance, then the
gain of the label estimate; ``sums`` holds the sums over records from which ``assemble`` makes the mean gradient.
"""

import functools
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numba
import numpy as np
import sympy as sp

from symdebias.codegen import elementary
from symdebias.codegen.cache import KernelSource, compile_kernel
from symdebias.codegen.printer import Statements, print_statements

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# Rows that a pass takes at a time: 256 rows of 50 columns fit a second-level cache.
_BLOCK = 256
# Up to here the loop over columns is written out and fused into the loop over records; beyond, the registers
# run out and separate loops are faster (measured at 20, 32, 40 and 50 columns).
_MOST_UNROLLED = 32

# Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_FASTMATH = ("contract", "reassoc")

_vector = numba.types.Array(numba.float64, 1, "C")
_matrix = numba.types.Array(numba.float64, 2, "C")
_given_vector = numba.types.Array(numba.float64, 1, "C", readonly=True)
_given_matrix = numba.types.Array(numba.float64, 2, "C", readonly=True)
_given_order = numba.types.Array(numba.int64, 1, "C", readonly=True)
_data = (_given_vector, _given_matrix, _given_vector)  # theta, X, y


class Program(Protocol):
    """What a loop template needs to know of a corrected loss."""

    @property
    def expression(self) -> sp.Expr:
        """The corrected loss of one record."""

    def number_of_parameters(self, columns: int) -> int:
        """Return the length of theta."""

    def number_of_variances(self, columns: int) -> int:
        """Return how many noise variances stand first in ``noise``."""

    def evaluate(self, what: str, columns: int) -> "RecordCode":
        """Return the code of one record for ``"loss"``, ``"gradient"`` or ``"hessian"``."""

    def accumulate(self, columns: int, *, weighted: bool) -> "Piece":
        """Return the body that adds the gradient sums of rows start to stop to ``sums``."""

    def assemble(self, columns: int) -> str:
        """Return the body that makes the mean gradient out of ``sums`` and ``total``."""

    def hessian(self, columns: int, *, weighted: bool) -> "Piece":
        """Return the body that makes the mean Hessian."""

    def guard(self, columns: int) -> str:
        """Return lines that compute ``variance``, the noise variance that has a limit, for ``theta``."""


@dataclass(frozen=True)
class Piece:
    """Lines of a function's body and the functions of `elementary` that they call."""

    text: str
    functions: frozenset[str]


@dataclass(frozen=True)
class RecordCode:
    """Lines before the loop, lines in the loop over ``i``, and the texts of what was asked for."""

    before: str
    inside: str
    results: tuple[str, ...]
    functions: frozenset[str]


@dataclass(frozen=True)
class ScoreProgram:
    """A corrected loss G(u, y; s, t, c) of one score.

    Attributes
    ----------
    expression : sympy.Expr
        G, whose theta-gradient is x G_u + 2 D theta G_s.
    score, target, score_variance, target_variance, gain : sympy.Symbol
        The score u, the target y, the noise variances s = theta'D theta and t of the two, and the gain c of
        the label estimate.
    intercept : bool
        Whether theta ends with an intercept, the coefficient of a constant that X does not hold.
    """

    expression: sp.Expr
    score: sp.Symbol
    target: sp.Symbol
    score_variance: sp.Symbol
    target_variance: sp.Symbol
    gain: sp.Symbol
    intercept: bool

    def number_of_parameters(self, columns: int) -> int:
        """Return the length of theta."""
        return columns + self.intercept

    number_of_variances = number_of_parameters

    @property
    def slope(self) -> sp.Expr:
        """G_u, the factor of x in the gradient."""
        return sp.diff(self.expression, self.score)

    @property
    def curvature(self) -> sp.Expr:
        """-2 G_s, the factor of -D theta in the gradient; G_uu where the correction is exact."""
        return -2 * sp.diff(self.expression, self.score_variance)

    @functools.cached_property
    def _expressions(self) -> dict[str, tuple[sp.Expr, ...]]:
        slope, curvature = self.slope, self.curvature
        return {
            "loss": (self.expression,),
            "gradient": (slope, curvature),
            "hessian": (
                sp.diff(slope, self.score),
                -sp.diff(curvature, self.score),
                -2 * sp.diff(curvature, self.score_variance),
                -curvature,
            ),
        }

    @functools.cache  # noqa: B019  (programs are few and live as long as their kernels)
    def _statements(self, what: str) -> Statements:
        return print_statements(
            self._expressions[what],
            fixed={
                self.score_variance: "score_variance",
                self.target_variance: "target_variance",
                self.gain: "gain",
            },
            varying={self.score: "score", self.target: "y[i]"},
        )

    def guard(self, columns: int) -> str:
        """Return lines that compute ``variance``, the score's noise variance at ``theta``."""
        return f"variance = 0.0\nfor j in range({columns}):\n    variance += noise[j]*theta[j]*theta[j]"

    def _before(self, statements: Statements, columns: int) -> str:
        parameters = self.number_of_parameters(columns)
        return "\n".join(
            (
                self.guard(columns),
                "score_variance = variance",
                f"target_variance = noise[{parameters}]",
                f"gain = noise[{parameters + 1}]",
                *statements.setup,
            )
        )

    def evaluate(self, what: str, columns: int) -> RecordCode:
        """Return the code of one record; its score is computed column by column."""
        statements = self._statements(what)
        start = f"theta[{columns}]" if self.intercept else "0.0"
        inside = "\n".join(
            (
                f"score = {start}",
                f"for j in range({columns}):",
                "    score += theta[j]*X[i, j]",
                *statements.record,
            )
        )
        results = statements.results
        if what == "gradient":
            slope, curvature = results
            inside += f"\nslope = {slope}\ncurvature = {curvature}"
            results = (
                *(f"slope*X[i, {j}] - curvature*noise[{j}]*theta[{j}]" for j in range(columns)),
                *(("slope",) if self.intercept else ()),
            )
        return RecordCode(self._before(statements, columns), inside, results, statements.functions)

    def accumulate(self, columns: int, *, weighted: bool) -> Piece:
        """Return the body that adds the gradient sums of rows start to stop to ``sums``."""
        statements = self._statements("gradient")
        slope, curvature = statements.results
        weight = "*weights[i]" if weighted else ""
        record = (*statements.record, f"slope = ({slope}){weight}", f"curvature += ({curvature}){weight}")
        parameters = self.number_of_parameters(columns)
        before = self._before(statements, columns)
        if columns <= _MOST_UNROLLED:
            body = self._unrolled(columns, before, record)
        else:
            body = self._looped(columns, before, record)
        return Piece(f"{body}\nsums[{parameters}] += curvature", statements.functions)

    def _unrolled(self, columns: int, before: str, record: Sequence[str]) -> str:
        names = range(columns)
        terms = [f"t{j}*X[i, {j}]" for j in names]
        if self.intercept:
            terms.append(f"theta[{columns}]")
        inside = [f"score = {' + '.join(terms)}", *record, *(f"g{j} += slope*X[i, {j}]" for j in names)]
        last = []
        if self.intercept:
            inside.append("total_slope += slope")
            last.append(f"sums[{columns}] += total_slope")
        return "\n".join(
            (
                before,
                *(f"t{j} = theta[{j}]" for j in names),
                *(f"g{j} = 0.0" for j in names),
                "total_slope = 0.0",
                "curvature = 0.0",
                "for i in range(start, stop):",
                *("    " + line for line in inside),
                *(f"sums[{j}] += g{j}" for j in names),
                *last,
            )
        )

    def _looped(self, columns: int, before: str, record: Sequence[str]) -> str:
        start = f"theta[{columns}]" if self.intercept else "0.0"
        last = [f"sums[{columns}] += total_slope"] if self.intercept else []
        return "\n".join(
            (
                before,
                f"scores = np.empty({_BLOCK})",
                f"local = np.zeros({columns})",
                "for i in range(start, stop):",
                f"    score = {start}",
                f"    for j in range({columns}):",
                "        score += theta[j]*X[i, j]",
                "    scores[i - start] = score",
                "total_slope = 0.0",
                "curvature = 0.0",
                "for i in range(start, stop):",
                "    score = scores[i - start]",
                *("    " + line for line in record),
                "    scores[i - start] = slope",
                "    total_slope += slope",
                "for i in range(start, stop):",
                "    slope = scores[i - start]",
                f"    for j in range({columns}):",
                "        local[j] += slope*X[i, j]",
                f"for j in range({columns}):",
                "    sums[j] += local[j]",
                *last,
            )
        )

    def assemble(self, columns: int) -> str:
        """Return the body that makes the mean gradient out of ``sums`` and ``total``."""
        parameters = self.number_of_parameters(columns)
        return (
            f"for j in range({parameters}):\n    gradient[j] = (sums[j] - sums[{parameters}]*noise[j]*theta[j])/total"
        )

    def hessian(self, columns: int, *, weighted: bool) -> Piece:
        """Return the body that makes the mean Hessian.

        With v = D theta it is the mean of G_uu x x' + 2 G_us (x v' + v x') + 4 G_ss v v' + 2 G_s D.
        """
        code = self.evaluate("hessian", columns)
        second, mixed, noise_second, noise_first = code.results
        parameters = self.number_of_parameters(columns)
        weight = "*weights[i]" if weighted else ""
        fill = [f"row[{columns}] = 1.0"] if self.intercept else []
        text = "\n".join(
            (
                code.before,
                f"row = np.empty({parameters})",
                f"cross = np.zeros({parameters})",
                *fill,
                "both = 0.0",
                "diagonal = 0.0",
                "for i in range(X.shape[0]):",
                *textwrap.indent(code.inside, "    ").splitlines(),
                f"    second = ({second}){weight}",
                f"    mixed = ({mixed}){weight}",
                f"    both += ({noise_second}){weight}",
                f"    diagonal += ({noise_first}){weight}",
                f"    for j in range({columns}):",
                "        row[j] = X[i, j]",
                f"    for j in range({parameters}):",
                "        cross[j] += mixed*row[j]",
                f"        for k in range({parameters}):",
                "            out[j, k] += second*row[j]*row[k]",
                f"for j in range({parameters}):",
                "    v = noise[j]*theta[j]",
                f"    for k in range({parameters}):",
                "        w = noise[k]*theta[k]",
                "        out[j, k] = (out[j, k] + cross[j]*w + v*cross[k] + both*v*w)/total",
                "    out[j, j] += diagonal*noise[j]/total",
            )
        )
        return Piece(text, code.functions)


@dataclass(frozen=True)
class FeatureProgram:
    """A corrected loss in named features and parameters.

    Attributes
    ----------
    expression : sympy.Expr
        The corrected loss of one record.
    features, parameters, variances : tuple of sympy.Symbol
        The features in the order of X, the parameters in the order of theta, and the noise variance of
        each feature.
    target, target_variance, gain : sympy.Symbol
        The target, its noise variance, and the gain of the label estimate.
    """

    expression: sp.Expr
    features: tuple[sp.Symbol, ...]
    parameters: tuple[sp.Symbol, ...]
    variances: tuple[sp.Symbol, ...]
    target: sp.Symbol
    target_variance: sp.Symbol
    gain: sp.Symbol

    def number_of_parameters(self, columns: int) -> int:
        """Return the length of theta."""
        return len(self.parameters)

    def number_of_variances(self, columns: int) -> int:
        """Return the number of features."""
        return len(self.features)

    @functools.cached_property
    def gradient(self) -> tuple[sp.Expr, ...]:
        """The derivative by each parameter."""
        return tuple(sp.diff(self.expression, parameter) for parameter in self.parameters)

    @functools.cached_property
    def _expressions(self) -> dict[str, tuple[sp.Expr, ...]]:
        second = [
            sp.diff(slope, parameter) for row, slope in enumerate(self.gradient) for parameter in self.parameters[row:]
        ]
        return {"loss": (self.expression,), "gradient": self.gradient, "hessian": tuple(second)}

    def evaluate(self, what: str, columns: int) -> RecordCode:
        """Return the code of one record."""
        count = len(self.features)
        statements = print_statements(
            self._expressions[what],
            fixed={
                **{symbol: f"theta[{j}]" for j, symbol in enumerate(self.parameters)},
                **{symbol: f"noise[{j}]" for j, symbol in enumerate(self.variances)},
                self.target_variance: f"noise[{count}]",
                self.gain: f"noise[{count + 1}]",
            },
            varying={
                **{symbol: f"X[i, {j}]" for j, symbol in enumerate(self.features)},
                self.target: "y[i]",
            },
        )
        return RecordCode(
            "\n".join(statements.setup),
            "\n".join(statements.record),
            statements.results,
            statements.functions,
        )

    def _summed(self, what: str, rows: str, *, weighted: bool) -> tuple[RecordCode, str]:
        code = self.evaluate(what, len(self.features))
        weight = "*weights[i]" if weighted else ""
        names = range(len(code.results))
        text = "\n".join(
            (
                code.before,
                *(f"g{j} = 0.0" for j in names),
                f"for i in range({rows}):",
                *textwrap.indent(code.inside, "    ").splitlines(),
                *(f"    g{j} += ({code.results[j]}){weight}" for j in names),
            )
        )
        return code, text

    def accumulate(self, columns: int, *, weighted: bool) -> Piece:
        """Return the body that adds the gradient sums of rows start to stop to ``sums``."""
        code, text = self._summed("gradient", "start, stop", weighted=weighted)
        last = (f"sums[{j}] += g{j}" for j in range(len(self.parameters)))
        return Piece("\n".join((text, *last)), code.functions)

    def assemble(self, columns: int) -> str:
        """Return the body that makes the mean gradient out of ``sums`` and ``total``."""
        return f"for j in range({len(self.parameters)}):\n    gradient[j] = sums[j]/total"

    def hessian(self, columns: int, *, weighted: bool) -> Piece:
        """Return the body that makes the mean Hessian."""
        code, text = self._summed("hessian", "X.shape[0]", weighted=weighted)
        count = len(self.parameters)
        pairs = [(j, k) for j in range(count) for k in range(j, count)]
        last = (f"out[{j}, {k}] = out[{k}, {j}] = g{index}/total" for index, (j, k) in enumerate(pairs))
        return Piece("\n".join((text, *last)), code.functions)

    def guard(self, columns: int) -> str:
        """Return lines that compute ``variance``: polynomials exist at every noise level."""
        return "variance = 0.0"


@dataclass(frozen=True)
class Kernels:
    """The compiled functions of a program for one number of columns; each is compiled when first used.

    Attributes
    ----------
    program : ScoreProgram or FeatureProgram
        The corrected loss.
    columns : int
        The number of columns of X.
    """

    program: Program
    columns: int

    @functools.cached_property
    def loss(self) -> Callable[..., Any]:
        """Compiled ``loss(theta, X, y, noise, out)``: out of shape (n,)."""
        return compile_kernel(self.source("loss"))

    @functools.cached_property
    def gradient(self) -> Callable[..., Any]:
        """Compiled ``gradient(theta, X, y, noise, out)``: out of shape (n, q)."""
        return compile_kernel(self.source("gradient"))

    def mean_loss(self, *, weighted: bool) -> Callable[..., Any]:
        """Return compiled ``mean_loss(theta, X, y, weights, total, noise)``."""
        return compile_kernel(self.source("mean_loss", weighted=weighted))

    def mean_gradient(self, *, weighted: bool) -> Callable[..., Any]:
        """Return compiled ``mean_gradient(theta, X, y, weights, total, noise, gradient)``."""
        return compile_kernel(self.source("mean_gradient", weighted=weighted))

    def mean_hessian(self, *, weighted: bool) -> Callable[..., Any]:
        """Return compiled ``mean_hessian(theta, X, y, weights, total, noise, out)``, out zeros of (q, q)."""
        return compile_kernel(self.source("mean_hessian", weighted=weighted))

    def sgd_pass(self, *, weighted: bool) -> Callable[..., Any]:
        """Return the compiled pass of stochastic gradient descent; see `_sgd_pass` for its arguments."""
        return compile_kernel(self.source("sgd_pass", weighted=weighted))

    @functools.cache  # noqa: B019  (kernels are few, and their sources are asked for at every call)
    def source(self, name: str, *, weighted: bool = False) -> KernelSource:
        """Return the generated source of a kernel by its name."""
        templates: dict[str, Callable[[], tuple[str, frozenset[str], Any]]] = {
            "loss": self._loss,
            "gradient": self._gradient,
            "mean_loss": lambda: self._mean_loss(weighted),
            "mean_gradient": lambda: self._mean_gradient(weighted),
            "mean_hessian": lambda: self._mean_hessian(weighted),
            "sgd_pass": lambda: self._sgd_pass(weighted),
        }
        if name not in templates:
            raise ValueError(f"there is no kernel {name!r}; there are {', '.join(templates)}.")
        body, functions, signature = templates[name]()
        text = f'"""Generated: {name} for {self.columns} columns."""\n{_prelude(functions)}\n\n{body}\n'
        return KernelSource(name, text, signature, _FASTMATH, self._probe(name))

    @property
    def _parameters(self) -> int:
        return self.program.number_of_parameters(self.columns)

    def _loss(self) -> tuple[str, frozenset[str], Any]:
        code = self.program.evaluate("loss", self.columns)
        text = f"""
def kernel(theta, X, y, noise, out):
{_indent(code.before, 4)}
    for i in range(X.shape[0]):
{_indent(code.inside, 8)}
        out[i] = {code.results[0]}
"""
        return text, code.functions, numba.void(*_data, _given_vector, _vector)

    def _gradient(self) -> tuple[str, frozenset[str], Any]:
        code = self.program.evaluate("gradient", self.columns)
        results = "\n".join(f"out[i, {j}] = {result}" for j, result in enumerate(code.results))
        text = f"""
def kernel(theta, X, y, noise, out):
{_indent(code.before, 4)}
    for i in range(X.shape[0]):
{_indent(code.inside, 8)}
{_indent(results, 8)}
"""
        return text, code.functions, numba.void(*_data, _given_vector, _matrix)

    def _mean_loss(self, weighted: bool) -> tuple[str, frozenset[str], Any]:
        code = self.program.evaluate("loss", self.columns)
        weight = "*weights[i]" if weighted else ""
        text = f"""
def kernel(theta, X, y, weights, total, noise):
{_indent(code.before, 4)}
    summed = 0.0
    for i in range(X.shape[0]):
{_indent(code.inside, 8)}
        summed += ({code.results[0]}){weight}
    return summed/total
"""
        signature = numba.float64(*_data, _given_vector, numba.float64, _given_vector)
        return text, code.functions, signature

    def _accumulate(self, weighted: bool) -> Piece:
        piece = self.program.accumulate(self.columns, weighted=weighted)
        text = f"""
@njit(fastmath={{"contract", "reassoc"}}, error_model="numpy")
def accumulate(theta, X, y, weights, noise, start, stop, sums):
{_indent(piece.text, 4)}
"""
        return Piece(text, piece.functions)

    def _mean_gradient(self, weighted: bool) -> tuple[str, frozenset[str], Any]:
        piece = self._accumulate(weighted)
        text = f"""{piece.text}

def kernel(theta, X, y, weights, total, noise, gradient):
    sums = np.zeros({self._parameters + 1})
    for start in range(0, X.shape[0], {_BLOCK}):
        accumulate(theta, X, y, weights, noise, start, min(start + {_BLOCK}, X.shape[0]), sums)
{_indent(self.program.assemble(self.columns), 4)}
"""
        signature = numba.void(*_data, _given_vector, numba.float64, _given_vector, _vector)
        return text, piece.functions, signature

    def _mean_hessian(self, weighted: bool) -> tuple[str, frozenset[str], Any]:
        piece = self.program.hessian(self.columns, weighted=weighted)
        text = f"""
def kernel(theta, X, y, weights, total, noise, out):
{_indent(piece.text, 4)}
"""
        signature = numba.void(*_data, _given_vector, numba.float64, _given_vector, _matrix)
        return text, piece.functions, signature

    def _sgd_pass(self, weighted: bool) -> tuple[str, frozenset[str], Any]:
        """Minibatch steps over the records from position ``begin`` on.

        Where ``order`` is not empty it permutes the runs of ``run_length`` consecutive rows; ``runs`` of them
        at a time are read and dealt out like cards, one row of each in turn. The rows left over by the last
        run come last, and ``shift`` turns all rows cyclically.

        theta is updated in place, as is the running ``average`` of ``averaged`` earlier iterates (negative: do
        not average). Returns the number of steps taken. If that is fewer than ``step_sizes`` has,
        ``report[0]`` says why: 1 a step that is not finite, or to a norm beyond ``growth`` (1 + ||theta||) or
        ``runaway``; 2 a noise variance at or above ``variance_limit``. ``report[1]`` counts the projections onto
        the ball.
        """
        piece = self._accumulate(weighted)
        q, p = self._parameters, self.columns
        add_weights = "for i in range(first, first + length):\n    total += {weights}[i]" if weighted else ""
        deal_weight = "\n                row_weights[place] = weights[row]" if weighted else ""
        skip = "if total == 0.0:\n    continue" if weighted else ""
        text = f"""{piece.text}

@njit(error_model="numpy")
def deal(group, order, runs, run_length, shift, X, y, weights, rows, targets, row_weights):
    count = min(runs, order.shape[0] - group*runs)
    # Tiles of eight runs: few enough streams to read ahead, and lines that are written while they are near.
    for tile in range(0, count, 8):
        for card in range(run_length):
            for run in range(tile, min(tile + 8, count)):
                row = order[group*runs + run]*run_length + shift + card
                row -= X.shape[0] if row >= X.shape[0] else 0
                place = card*count + run
                for j in range({p}):
                    rows[place, j] = X[row, j]
                targets[place] = y[row]{deal_weight}
    return count*run_length


def kernel(theta, X, y, weights, order, runs, run_length, shift, begin, noise, step_sizes, batch_size, penalty,
           radius, growth, runaway, variance_limit, average, averaged, report):
    records = X.shape[0]
    sums = np.empty({q + 1})
    gradient = np.empty({q})
    dealt = order.shape[0]*run_length
    hand = min(runs*run_length, dealt)
    rows, targets, row_weights = np.empty((hand, {p})), np.empty(hand), np.empty({"hand" if weighted else "0"})
    group, size = -1, 0
    for step in range(step_sizes.shape[0]):
        start = begin + step*batch_size
        stop = min(start + batch_size, records)
{_indent(self.program.guard(p), 8)}
        if not variance < variance_limit:
            report[0] = 2
            return step
        sums[:] = 0.0
        total = {"0.0" if weighted else "float(stop - start)"}
        position = start
        while position < stop:
            length = min(stop - position, {_BLOCK})
            if position < dealt:
                if position//hand != group:
                    group = position//hand
                    size = deal(group, order, runs, run_length, shift, X, y, weights, rows, targets, row_weights)
                first = position - group*hand
                length = min(length, size - first)
                accumulate(theta, rows, targets, row_weights, noise, first, first + length, sums)
{_indent(add_weights.format(weights="row_weights"), 16)}
            else:
                first = position + shift
                first -= records if first >= records else 0
                length = min(length, records - first)
                accumulate(theta, X, y, weights, noise, first, first + length, sums)
{_indent(add_weights.format(weights="weights"), 16)}
            position += length
{_indent(skip, 8)}
{_indent(self.program.assemble(p), 8)}
        before = 0.0
        norm = 0.0
        for j in range({q}):
            before += theta[j]*theta[j]
            gradient[j] = theta[j] - step_sizes[step]*(gradient[j] + penalty[j]*theta[j])
            norm += gradient[j]*gradient[j]
        norm = math.sqrt(norm)
        if not norm < min(growth*(1.0 + math.sqrt(before)), runaway):
            report[0] = 1
            return step
        if norm > radius:
            shrink = radius/norm
            for j in range({q}):
                gradient[j] *= shrink
            report[1] += 1
        theta[:] = gradient
        if averaged >= 0.0:
            averaged += 1.0
            for j in range({q}):
                average[j] += (theta[j] - average[j])/averaged
    return step_sizes.shape[0]
"""
        number, count = numba.float64, numba.int64
        signature = numba.int64(
            _vector, _given_matrix, _given_vector, _given_vector, _given_order, count, count, count, count,
            _given_vector, _given_vector, count, _given_vector, number, number, number, number, _vector, number,
            numba.types.Array(numba.int64, 1, "C"),
        )  # fmt: skip
        return text, piece.functions, signature

    def _probe(self, name: str) -> Callable[[Callable[..., Any]], Sequence[float]]:
        """Return a call on fixed inputs whose answer a kernel read from disk must repeat."""
        p, q, n = self.columns, self._parameters, 3
        X = np.sin(1.0 + np.arange(n * p, dtype=float)).reshape(n, p)
        y = np.array([-1.0, 1.0, 1.0])
        theta = 0.2 * np.cos(1.0 + np.arange(q))
        weights = np.array([1.0, 2.0, 0.5])
        noise = np.concatenate([np.full(self.program.number_of_variances(p), 0.05), [0.05, 1.5]])

        def probe(kernel: Callable[..., Any]) -> Sequence[float]:
            if name == "mean_loss":
                return [kernel(theta, X, y, weights, 3.5, noise)]
            shape = {"loss": (n,), "gradient": (n, q), "mean_hessian": (q, q)}.get(name, (q,))
            out = np.zeros(shape)
            if name == "sgd_pass":
                out += theta
                order, report = np.zeros(0, np.int64), np.zeros(2, np.int64)
                steps, penalty = np.full(2, 0.1), np.zeros(q)
                kernel(
                    out, X, y, weights, order, 0, 0, 0, 0, noise, steps, 2, penalty, 1.0, np.inf, np.inf, np.inf,
                    theta.copy(), 0.0, report,
                )  # fmt: skip
            elif name in ("loss", "gradient"):
                kernel(theta, X, y, noise, out)
            else:
                kernel(theta, X, y, weights, 3.5, noise, out)
            return [float(value) for value in out.ravel()]

        return probe


def _indent(text: str, by: int) -> str:
    return textwrap.indent(text, " " * by)


def _prelude(functions: frozenset[str]) -> str:
    """Return the imports and the elementary functions that a module needs, in order of their use."""
    needed = {name for name in functions if hasattr(elementary, name)} | {"exp"}
    if "step" in needed:
        needed.add("sign")
    order = [name for name, value in vars(elementary).items() if inspect.isfunction(value) and name in needed]
    parts = ["import math", "import numpy as np", "from numba import njit"]
    for name in order:
        body = inspect.getsource(getattr(elementary, name))
        parts.append(f'\n\n@njit(forceinline=True, error_model="numpy")\n{body.rstrip()}')
    return "\n".join(parts)
