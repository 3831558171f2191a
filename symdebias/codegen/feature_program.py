"""A corrected loss in named features and parameters, as the loop templates of `kernels` take it."""

import functools
import textwrap
from dataclasses import dataclass

import sympy as sp

from symdebias.codegen.printer import Statements, print_statements
from symdebias.codegen.program import KINKED, Layout, Piece, RecordCode, clipped_share, label_lookups, norm


@dataclass(frozen=True)
class CategoryLookup:
    """What is looked up by the code that a column of categories holds."""

    column: int  # The column of X.
    symbols: tuple[sp.Symbol, ...]  # The looked-up numbers in the corrected loss.
    codes: int  # The number of codes.


@dataclass(frozen=True)
class FeatureProgram:
    """A corrected loss in named features and parameters."""

    expression: sp.Expr  # The corrected loss of one record.
    # The features in the order of X, the parameters in the order of theta.
    features: tuple[sp.Symbol, ...]
    parameters: tuple[sp.Symbol, ...]
    target: sp.Symbol
    # The noise variance of the target and the gain of the label estimate.
    target_constants: tuple[sp.Symbol, sp.Symbol]
    constants: tuple[sp.Symbol, ...] = ()  # What else describes the noise: the same for all records.
    # Noise variances that each record has of its own, in the order of the last columns of the data matrix.
    records: tuple[sp.Symbol, ...] = ()
    labels: tuple[sp.Symbol, ...] = ()  # What is looked up by the code of the target.
    label_codes: int = 0  # The number of codes of the target.
    lookups: tuple[CategoryLookup, ...] = ()  # What is looked up by columns of categories.
    # Positive where the correction exists, and where it has finite variance besides.
    margins: tuple[sp.Expr, ...] = ()
    variance_margins: tuple[sp.Expr, ...] = ()

    @property
    def number_of_parameters(self) -> int:
        """The length of theta."""
        return len(self.parameters)

    @property
    def number_of_sums(self) -> int:
        """One sum per parameter."""
        return len(self.parameters)

    @property
    def width(self) -> int:
        """The number of columns of the data matrix: features, and variances of records."""
        return len(self.features) + len(self.records)

    @property
    def codes(self) -> bool:
        """Whether targets are given as codes."""
        return bool(self.labels)

    @functools.cached_property
    def layout(self) -> Layout:
        """What stands where in ``noise``."""
        blocks = [
            ("constants", len(self.constants)),
            ("target", 2),
            # As large as those of any record, which limits are held against.
            ("largest", len(self.records)),
            ("labels", self.label_codes * len(self.labels)),
            *((f"category{j}", lookup.codes * len(lookup.symbols)) for j, lookup in enumerate(self.lookups)),
        ]
        return Layout(tuple(blocks))

    @functools.cached_property
    def gradient(self) -> tuple[sp.Expr, ...]:
        """The derivative by each parameter."""
        return tuple(sp.diff(self.expression, parameter) for parameter in self.parameters)

    @functools.cached_property
    def has_point_masses(self) -> bool:
        """Whether second derivatives in the parameters have point masses, as those of a squared maximum."""
        if not self.expression.has(*KINKED):
            return False
        # A place that moves with a parameter has a mass in the second derivative by this parameter.
        seconds = (sp.diff(slope, own) for slope, own in zip(self.gradient, self.parameters, strict=True))
        return any(second.has(sp.DiracDelta) for second in seconds)

    def _fixed(self) -> dict[sp.Symbol, str]:
        starts = self.layout.starts
        variance, gain = self.target_constants
        return {
            **{symbol: f"theta[{j}]" for j, symbol in enumerate(self.parameters)},
            **{symbol: f"noise[{starts['constants'] + j}]" for j, symbol in enumerate(self.constants)},
            variance: f"noise[{starts['target']}]",
            gain: f"noise[{starts['target'] + 1}]",
        }

    @functools.cache  # noqa: B019  (programs are few and live as long as their kernels)
    def _statements(self, what: str) -> Statements:
        if what == "loss":
            expressions: tuple[sp.Expr, ...] = (self.expression,)
        elif what == "gradient":
            expressions = self.gradient
        else:
            second = (
                sp.diff(slope, parameter)
                for row, slope in enumerate(self.gradient)
                for parameter in self.parameters[row:]
            )
            expressions = (self.expression, *self.gradient, *second)
        count = len(self.features)
        varying = {symbol: f"X[i, {j}]" for j, symbol in enumerate(self.features)}
        varying |= {symbol: f"X[i, {count + j}]" for j, symbol in enumerate(self.records)}
        varying[self.target] = "y[i]"
        varying |= {symbol: f"l{i}" for i, symbol in enumerate(self.labels)}
        for j, lookup in enumerate(self.lookups):
            varying |= {symbol: f"k{j}_{i}" for i, symbol in enumerate(lookup.symbols)}
        return print_statements(expressions, fixed=self._fixed(), varying=varying)

    def _lines(self, statements: Statements) -> list[str]:
        """Return the lines of one record: what is looked up, then the statements."""
        lines: list[str] = []
        if self.labels:
            lines += label_lookups(self.layout.starts["labels"], len(self.labels))
        for j, lookup in enumerate(self.lookups):
            start, size = self.layout.starts[f"category{j}"], len(lookup.symbols)
            lines.append(f"c{j} = int(X[i, {lookup.column}])")
            lines += [f"k{j}_{i} = noise[{start} + c{j}*{size} + {i}]" for i in range(size)]
        return [*lines, *statements.record]

    def loss(self) -> RecordCode:
        """Return the code of the loss of one record."""
        statements = self._statements("loss")
        inside = [*self._lines(statements), f"value += {statements.results[0]}"]
        return RecordCode("\n".join(statements.setup), "\n".join(inside), statements.functions)

    def _summed(self, what: str, rows: str, *, weighted: bool) -> tuple[Statements, str]:
        statements = self._statements(what)
        weight = "*weights[i]" if weighted else ""
        names = range(len(statements.results))
        lines = (
            *statements.setup,
            *(f"g{j} = 0.0" for j in names),
            f"for i in range({rows}):",
            *textwrap.indent("\n".join(self._lines(statements)), "    ").splitlines(),
            *(f"    g{j} += ({statements.results[j]}){weight}" for j in names),
        )
        return statements, "\n".join(lines)

    @property
    def number_kept(self) -> int:
        """How many numbers `accumulate` keeps of a block of records: none."""
        return 0

    def accumulate(self, *, weighted: bool, by_columns: bool = False) -> Piece:
        """Return the body that adds the gradient sums of rows start to stop to ``sums``."""
        statements, text = self._summed("gradient", "start, stop", weighted=weighted)
        last = (f"sums[{j}] += g{j}" for j in range(len(self.parameters)))
        return Piece("\n".join((text, *last)), statements.functions)

    @property
    def slopes_kept(self) -> int | None:
        """None: no slopes are kept of a block."""
        return None

    def accumulate_clipped(self) -> Piece:
        """Return the body that adds the clipped gradients of ``rows[start:stop]`` to ``sums``; for plain losses.

        Each entry is rounded to a whole number of grains first, of which ``fine`` are 1.
        """
        statements = self._statements("gradient")
        names = range(len(self.parameters))
        lines = [
            *statements.setup,
            *(f"g{j} = 0.0" for j in names),
            "for place in range(start, stop):",
            "    i = rows[place]",
            *("    " + line for line in self._lines(statements)),
            *(f"    part{j} = {statements.results[j]}" for j in names),
            *("    " + line for line in clipped_share(norm([f"part{j}" for j in names]))),
            *(f"    g{j} += np.rint(share*part{j}) if share > 0.0 else 0.0" for j in names),
            *(f"sums[{j}] += g{j}" for j in names),
        ]
        return Piece("\n".join(lines), statements.functions)

    def assemble(self) -> Piece:
        """Return the body that makes the mean gradient out of ``sums`` and ``total``."""
        return Piece(f"for j in range({len(self.parameters)}):\n    gradient[j] = sums[j]/total", frozenset())

    def derivatives(self, *, weighted: bool) -> Piece:
        """Return the body that makes the mean loss, gradient, Hessian and outer product of gradients in one pass."""
        statements, text = self._summed("derivatives", "X.shape[0]", weighted=weighted)
        count = len(self.parameters)
        pairs = [(j, k) for j in range(count) for k in range(j, count)]
        last = [f"gradient[{j}] = g{1 + j}/total" for j in range(count)]
        last += [f"out[{j}, {k}] = out[{k}, {j}] = g{1 + count + index}/total" for index, (j, k) in enumerate(pairs)]
        weight = "*weights[i]*weights[i]" if weighted else ""
        outer = [
            f"    meat[{j}, {k}] += ({statements.results[1 + j]})*({statements.results[1 + k]}){weight}"
            for j, k in pairs
        ]
        squares = [
            "if meat.shape[0] > 0:",
            "    for i in range(X.shape[0]):",
            *textwrap.indent("\n".join(self._lines(statements)), " " * 8).splitlines(),
            *("    " + line for line in outer),
            *(f"    meat[{j}, {k}] = meat[{k}, {j}] = meat[{j}, {k}]/total" for j, k in pairs),
        ]
        head = "X, y, weights = records, targets, all_weights"
        return Piece("\n".join((head, text, *last, *squares, "return g0/total")), statements.functions)

    def guard(self) -> str:
        """Return lines that compute ``variance``: 0 where all is well, 1 without a variance, 2 without a correction."""
        lines = ["variance = 0.0", "reach = 0.0"]
        margins = [*self.variance_margins, *self.margins]
        if margins:
            start = self.layout.starts["largest"]
            largest = {symbol: f"noise[{start + j}]" for j, symbol in enumerate(self.records)}
            statements = print_statements(margins, fixed=self._fixed() | largest, varying={})
            lines += [*statements.setup, *statements.record]
            for level, texts in (
                (1.0, statements.results[: len(self.variance_margins)]),
                (2.0, statements.results[len(self.variance_margins) :]),
            ):
                for text in texts:
                    lines += [f"if not {text} > 0.0:", f"    variance = {level}"]
        return "\n".join(lines)
