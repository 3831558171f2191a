"""A corrected loss of one or several scores, as the loop templates of `kernels` take it.

The corrected loss of a record is G(U, y; sigma), with U = Theta x the scores of the released record and sigma the
*statistics* (`statistic`): the noise covariance of the scores, coefficients of products over columns, factors looked up
by categories. Its gradient is x~ G_U + (d sigma/d Theta)' G_sigma, so that a pass over the data sums x~ G_U and
G_sigma, and the Jacobian of the statistics enters once, at the end.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import sympy as sp

from symdebias.codegen.multinomial import multinomial_factor
from symdebias.codegen.printed import kept_statements
from symdebias.codegen.printer import Statements, print_statements
from symdebias.codegen.program import KINKED, PART, Layout, Piece, RecordCode, spared
from symdebias.codegen.score import clipped, gradient, hessian
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.configurations import Configurations
from symdebias.codegen.score.constants import Constants, LabelTable
from symdebias.codegen.score.loop import RecordLoop
from symdebias.codegen.score.normal import RecordNoise, SphericalForm
from symdebias.codegen.score.parts import Parts
from symdebias.codegen.score.products import CategoryProducts
from symdebias.codegen.score.statistic import Statistic
from symdebias.codegen.score.tables import CategoryFactors

# Beyond so many second derivatives of one record's loss (several scores under Laplace noise have thousands) printing
# and compiling them takes minutes.
_MOST_SECOND_DERIVATIVES = 150
# So many derivatives of a loss of several scores take half a minute, twice as many one and a half.
_MOST_PARTS = 100

_Kind = TypeVar("_Kind", bound=Statistic)


@functools.lru_cache(maxsize=256)
def _terms_with(expression: sp.Expr) -> dict[sp.Symbol, list[sp.Expr]]:
    """Return the terms of a sum in which each symbol stands."""
    found: dict[sp.Symbol, list[sp.Expr]] = {}
    for term in expression.args:
        for symbol in term.free_symbols:
            found.setdefault(symbol, []).append(term)
    return found


def _derivative(expression: sp.Expr, by: sp.Symbol) -> sp.Expr:
    """Return a derivative; of a sum, such as one of many waves, by the terms in which the symbol stands.

    What does not depend on it stays apart: of all that it derives SymPy asks whether it is 0, which takes seconds of a
    polynomial among cases.
    """
    terms = _terms_with(expression).get(by, ()) if expression.is_Add else (expression,)
    parts = (term.as_independent(by, as_Add=False) for term in terms)
    return sp.Add(*(apart * sp.diff(rest, by) for apart, rest in parts))


@dataclass(frozen=True)
class ScoreProgram:
    """A corrected loss G of m scores."""

    expression: sp.Expr  # G.
    target: sp.Symbol
    columns: ScoreColumns  # The scores, and how they are made of columns and parameters.
    # What else stands in G, in the order in which the blocks of ``noise`` have it.
    statistics: tuple[Statistic, ...] = ()

    # ---- what there is -----------------------------------------------------------------------------------

    @property
    def scores(self) -> tuple[sp.Symbol, ...]:
        """The m scores."""
        return self.columns.scores

    @property
    def number_of_parameters(self) -> int:
        """The length of theta, scores after one another."""
        return self.columns.number_of_parameters

    def having(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        """Return the statistics of a class."""
        return tuple(statistic for statistic in self.statistics if isinstance(statistic, kind))

    @functools.cached_property
    def _loop(self) -> RecordLoop:
        return RecordLoop(self.columns, self.statistics)

    @property
    def layout(self) -> Layout:
        """What stands where in ``noise``."""
        return self._loop.layout

    @property
    def number_of_sums(self) -> int:
        """How many sums over records the mean gradient is assembled from."""
        return self._loop.number_of_sums

    @property
    def width(self) -> int:
        """The number of columns of the data matrix: linear columns, codes, variances of records."""
        return self._loop.width

    @functools.cached_property
    def codes(self) -> bool:
        """Whether targets are given as codes."""
        return bool(self.having(LabelTable)) or any(sums.label_codes for sums in self.having(Configurations))

    @property
    def has_lookups(self) -> bool:
        """Whether factors are looked up by the codes of categories."""
        return bool(self.having(CategoryFactors) or self.having(CategoryProducts))

    @property
    def has_hessian(self) -> bool:
        """Whether the Hessian can be generated.

        It can where what is looked up by categories are products over all of them, in noise that is the same for all
        records, and it is short enough.
        """
        products = self.having(CategoryProducts)
        if self.having(CategoryFactors) or not all(one.is_short for one in products):
            return False
        if products and any(isinstance(one, RecordNoise) for one in self.statistics):
            return False
        # The loss is linear in such products.
        linear = sum(len(one.record_symbols) for one in products)
        count = len(self.scores) + len(self._loop.all_symbols) - linear
        if count * (count + 1) // 2 > _MOST_SECOND_DERIVATIVES:
            return self.multinomial_factor is not None
        return self._derivatives_of_loss <= _MOST_PARTS

    @functools.cached_property
    def multinomial_factor(self) -> float | None:
        """What `symdebias.codegen.multinomial.multinomial_factor` says of a loss of many scores, None of few.

        Second derivatives of few are written out.
        """
        count = len(self.scores)
        if self._loop.all_symbols or count * (count + 1) // 2 <= _MOST_SECOND_DERIVATIVES or self.slopes_kept is None:
            return None
        return multinomial_factor(self.expression, self.scores)

    @property
    def _forms(self) -> tuple[sp.Symbol, ...]:
        """The forms of spherical noise of several scores, in which the loss is a polynomial."""
        if len(self.scores) == 1:
            return ()
        return tuple(symbol for form in self.having(SphericalForm) for symbol in form.variances)

    @property
    def _derivatives_of_loss(self) -> int:
        """How many derivatives of a loss of several scores its Hessian has as parts, 0 without spherical noise."""
        if not self._forms:
            return 0
        # Each form comes with two derivatives, and a second derivative by it with two more for each.
        order = 2 * sp.Poly(self.expression, *self._forms).total_degree() + 2
        return math.comb(len(self.scores) + order, order)

    @functools.cached_property
    def has_point_masses(self) -> bool:
        """Whether second derivatives in the scores have point masses, as those of a squared maximum."""
        if not self.expression.has(*KINKED):
            return False
        return any(sp.diff(self.expression, score, 2).has(sp.DiracDelta) for score in self.scores)

    @property
    def coefficients(self) -> tuple[sp.Symbol, ...]:
        """The symbols of constants of the loss itself: the coefficients of a surrogate."""
        return tuple(s for part in self.having(Constants) if part.name == "coefficients" for s in part.numbers)

    # ---- expressions -------------------------------------------------------------------------------------

    @functools.cached_property
    def slopes(self) -> tuple[sp.Expr, ...]:
        """G_U, the factors of x in the gradient."""
        return tuple(sp.diff(self.expression, score) for score in self.scores)

    @functools.cached_property
    def noise_slopes(self) -> tuple[sp.Expr, ...]:
        """G_sigma, the derivatives by the symbols of the statistics."""
        return tuple(sp.diff(self.expression, symbol) for symbol in self._loop.all_symbols)

    @functools.cache  # noqa: B019  (programs are few and live as long as their kernels)
    def _statements(self, what: str) -> Statements:
        """Return the printed loss, its gradient or all its derivatives; long ones are kept beside compiled kernels."""
        fixed, varying = self._loop.names(self.target)
        lists = (self.scores, self._loop.record_symbols, self._loop.symbols, self._loop.all_symbols, self._forms)
        texts = (what, *fixed.values(), "", *varying.values())
        decides = (self.expression, *(sp.Tuple(*symbols) for symbols in (fixed, varying, *lists)))
        return kept_statements(texts, decides, lambda: self._printed(what))

    def _printed(self, what: str) -> Statements:
        choices: dict[str, Callable[[], tuple[sp.Expr, ...]]] = {
            "loss": lambda: (self._kept,),
            "gradient": lambda: tuple(self._slope(self._kept, one) for one in (*self.scores, *self._loop.all_symbols)),
            "derivatives": self._derivatives,
        }
        fixed, varying = self._loop.names(self.target)
        if not self._forms:
            return print_statements(choices[what](), fixed=fixed, varying=varying)
        parts = Parts(self.expression, self._forms)
        return print_statements(self._in_parts(parts, what), fixed=fixed, varying=varying, parts=parts.values)

    def _in_parts(self, parts: Parts, what: str) -> tuple[sp.Expr, ...]:
        """Return the loss, its gradient or all derivatives in the symbols of parts."""
        if what == "loss":
            return (parts.expression(parts.loss),)
        by = (*self.scores, *self._loop.record_symbols, *self._loop.symbols)
        if what == "gradient":
            by = (*self.scores, *self._loop.all_symbols)
        first = [parts.slope(parts.loss, symbol) for symbol in by]
        if what == "gradient":
            return tuple(map(parts.expression, first))
        second = (parts.slope(slope, by[j]) for i, slope in enumerate(first) for j in range(i, len(by)))
        return tuple(map(parts.expression, (parts.loss, *second, *first)))

    def _derivatives(self) -> tuple[sp.Expr, ...]:
        """Return the loss, its second derivatives and its first ones.

        Those by a score and what depends on it the statistics know.
        """
        by = (*self.scores, *self._loop.record_symbols, *self._loop.symbols)
        first, moved = [self._slope(self._kept, symbol) for symbol in by], self._by_score
        known = [slope.free_symbols | set(self.scores if slope.free_symbols & moved.keys() else ()) for slope in first]
        second = (
            self._slope(slope, by[j])
            if by[j] in known[i] and not (by[i] in self.scores and by[j] in moved)
            else sp.Integer(0)
            for i, slope in enumerate(first)
            for j in range(i, len(by))
        )
        return (self._kept, *second, *first)

    @functools.cached_property
    def _kept(self) -> sp.Expr:
        """The loss in what kernels keep of a record."""
        return functools.reduce(lambda loss, one: one.as_kept(loss, self.scores[0]), self.statistics, self.expression)

    @functools.cached_property
    def _by_score(self) -> dict[sp.Symbol, sp.Expr]:
        """The derivatives by the score of what depends on it of that."""
        return {symbol: slope for one in self.statistics for symbol, slope in one.by_score().items()}

    def _slope(self, expression: sp.Expr, by: sp.Symbol) -> sp.Expr:
        """Return a derivative by a score or a symbol of the statistics."""
        slope = _derivative(expression, by)
        if by not in self.scores:
            return slope
        moved = sorted(expression.free_symbols & self._by_score.keys(), key=str)
        return sp.Add(slope, *(self._by_score[symbol] * _derivative(expression, symbol) for symbol in moved))

    # ---- code --------------------------------------------------------------------------------------------

    def guard(self) -> str:
        """Return lines that compute ``variance`` and ``reach`` for ``theta``.

        They are the largest noise variance of a score, and the largest of sum_k |theta_kj| over the tail rate of
        column j.
        """
        return spared(self._loop.guard())

    def loss(self) -> RecordCode:
        """Return the code of the loss of one record."""
        statements, loop = self._statements("loss"), self._loop
        share = "share*" if loop.combinations else ""
        base = self.columns.base(unrolled=False)
        inside = [*loop.lookups(), *loop.each(statements, [f"value += {share}({statements.results[0]})"])]
        of_part: list[str] = []
        if loop.is_in_parts:
            # Scores in a loop of their own: one that reads columns of records and has much to do is not vectorised.
            scores = {f"base{k}": f"kept[{loop.room() + k * PART} + n]" for k in range(len(self.scores))}
            each = ["i = from_row + n", *base, *(f"{place} = {name}" for name, place in scores.items())]
            of_part = [*loop.of_part(), "for n in range(many):", *("    " + line for line in each)]
            base = [f"{name} = {place}" for name, place in scores.items()]
        kept = loop.room() + len(self.scores) * PART if loop.is_in_parts else 0
        return RecordCode(
            "\n".join(loop.before(statements)), "\n".join([*base, *inside]), statements.functions | loop.called,
            loop.functions, "\n".join(of_part), kept,
        )  # fmt: skip

    @property
    def number_kept(self) -> int:
        """How many numbers `accumulate` keeps of a block of records."""
        return gradient.numbers_kept(self._loop, self._statements("gradient"))

    def accumulate(self, *, weighted: bool, by_columns: bool = False) -> Piece:
        """Return the body that adds the gradient sums of rows start to stop to ``sums``."""
        statements = self._statements("gradient")
        return gradient.accumulate(self._loop, statements, weighted=weighted, by_columns=by_columns)

    @functools.cached_property
    def slopes_kept(self) -> int | None:
        """How many slopes `accumulate` keeps of each record of a block, or None where they do not make its gradient."""
        return gradient.slopes_kept(self._loop)

    def accumulate_clipped(self) -> Piece:
        """Return the body that adds the clipped gradients of ``rows[start:stop]`` to ``sums``; for plain losses."""
        return clipped.accumulate_clipped(self._loop, self._statements("gradient"))

    def assemble(self) -> Piece:
        """Return the body that makes the mean gradient out of ``sums`` and ``total``."""
        return gradient.assemble(self._loop)

    def derivatives(self, *, weighted: bool) -> Piece:
        """Return the body that makes the mean loss, gradient, Hessian and outer product of gradients in one pass."""
        assert not self.having(CategoryFactors)
        return hessian.derivatives(self._loop, self._statements("derivatives"), weighted=weighted)
