"""One pass for the mean loss, its gradient, its Hessian, and the outer product of the gradients of records.

With J the Jacobian of the statistics the Hessian is the mean of G_UU x x' + x G_Us J + (x G_Us J)' + J' G_ss J plus G_s
times the second derivatives of the statistics; summed over combinations of categories, whose rows are x plus an offset.
What multiplies x is kept for a block of records, whose columns then stand in a tile: moments of columns against columns
vectorise.
"""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symdebias._arrays import BooleanArray, FloatArray
from symdebias.codegen import vectors
from symdebias.codegen.printer import Statements
from symdebias.codegen.program import BLOCK, PART, STRIDE, Piece, spared
from symdebias.codegen.score.columns import places_text
from symdebias.codegen.score.loop import RecordLoop
from symdebias.codegen.score.statistic import ZERO, RecordSlopes, Statistic

# The moments of the columns of a tile, with each kept weight twice or once: two columns times a weight, or two weights,
# times four columns share their loads.
MOMENTS = f"""

@helper(fastmath={{"contract", "reassoc"}})
def add_moments(tile, kept, count, square, line, scaled):
    rows = line.shape[1]
    squares = square.shape[0]//(rows*rows)
    pairs = (rows + 1)//2
    # Of an odd number the last one is taken twice, and added once.
    for pair in range(squares*pairs + (line.shape[0] + 1)//2):
        if pair < squares*pairs:
            n, j = pair//pairs, pair % pairs*2
            k = j + 1 if j + 1 < rows else j
            upper, lower, weight = scaled[:count], scaled[{BLOCK}:{BLOCK} + count], kept[n*{BLOCK}:n*{BLOCK} + count]
            left, right = tile[j*{STRIDE}:j*{STRIDE} + count], tile[k*{STRIDE}:k*{STRIDE} + count]
            for i in range(count):
                upper[i] = weight[i]*left[i]
                lower[i] = weight[i]*right[i]
            # What stands below the diagonal is not looked at.
            above, below, l = square[(n*rows + j)*rows:], square[(n*rows + k)*rows:], j
        else:
            j = (pair - squares*pairs)*2
            k = j + 1 if j + 1 < line.shape[0] else j
            upper, lower = kept[(squares + j)*{BLOCK}:], kept[(squares + k)*{BLOCK}:]
            above, below, l = line[j], line[k], 0
        while l + 4 <= rows:
            a = b = c = d = e = f = g = h = 0.0
            place = l*{STRIDE}
            first, second = tile[place:place + count], tile[place + {STRIDE}:place + {STRIDE} + count]
            third, fourth = tile[place + 2*{STRIDE}:place + 2*{STRIDE} + count], tile[place + 3*{STRIDE}:]
            for i in range(count):
                a += upper[i]*first[i]
                b += upper[i]*second[i]
                c += upper[i]*third[i]
                d += upper[i]*fourth[i]
                e += lower[i]*first[i]
                f += lower[i]*second[i]
                g += lower[i]*third[i]
                h += lower[i]*fourth[i]
            above[l] += a
            above[l + 1] += b
            above[l + 2] += c
            above[l + 3] += d
            if k > j:
                below[l] += e
                below[l + 1] += f
                below[l + 2] += g
                below[l + 3] += h
            l += 4
        while l < rows:
            a = e = 0.0
            first = tile[l*{STRIDE}:l*{STRIDE} + count]
            for i in range(count):
                a += upper[i]*first[i]
                e += lower[i]*first[i]
            above[l] += a
            if k > j:
                below[l] += e
            l += 1

"""


def derivatives(loop: RecordLoop, statements: Statements, *, weighted: bool) -> Piece:
    """Return the body that fills ``gradient``, ``out`` (the Hessian) and ``meat``, and returns the mean loss.

    Factors of single columns that are looked up have no Hessian: such programs are derived again with combinations of
    categories. The statements
    are the loss, its second derivatives by scores and symbols of the statistics, the upper triangle row by row, and its
    first ones.
    """
    return _Pass(loop, statements, weighted=weighted).piece()


class _Pass:
    """The pass, as the lines of its steps."""

    def __init__(self, loop: RecordLoop, statements: Statements, *, weighted: bool) -> None:
        self.loop, self.columns, self.combinations = loop, loop.columns, loop.combinations
        self.statements = statements
        self.factor = ("*weights[i]" if weighted else "") + ("*share" if self.combinations else "")
        self.assign = "+=" if self.combinations else "="
        p, _, m = self.columns.sizes
        intercept = self.columns.intercept
        # The places of the parameters of a tile's rows: columns, and a constant where there is an intercept.
        self.places = (*self.columns.linear, *(() if intercept is None else (intercept,)))
        self.rows = p + (intercept is not None)
        # How many symbols vary with the record, and how many are the same for all: the first derivatives are by the
        # scores, then by the former and the latter.
        self.varying, self.fixed = len(loop.record_symbols), len(loop.symbols)
        self.start = m + self.varying
        self.moving = bool(self.varying or self.combinations)
        # Combinations of categories are taken one after another, each with all records of a block, where nothing else
        # that varies with the record adds to gradients and Hessian by itself.
        self.in_turn = self.combinations is not None and not self.varying
        # Statistics whose sums over records are finished apart leave whole gradients, the others slopes.
        self.sums_of_records = {
            name: shape for one, at in loop.placed for name, shape in one.record_sums(at, self.fixed).items()
        }
        self.leaves = not self.moving or self.in_turn or loop.is_in_parts
        # What multiplies x twice; and once: slopes, then the mixed derivatives of symbols and scores.
        self.pairs = list(itertools.combinations_with_replacement(range(m), 2))
        self.twice = [self.second(*pair) for pair in self.pairs]
        mixed = [self.second(k, self.start + n) for n in range(self.fixed) for k in range(m)]
        self.once = [*(self.first(k) for k in range(m)), *mixed]
        self.kept = len(self.twice) + len(self.once) + self.fixed
        # The second derivatives by two symbols of the statistics, without those that are zero: most of many.
        pairs = itertools.combinations_with_replacement(range(self.fixed), 2)
        self.bends = [(n, o) for n, o in pairs if self.second(self.start + n, self.start + o) not in ZERO]

    def first(self, index: int) -> str:
        """Return a first derivative."""
        count = self.start + self.fixed
        return self.statements.results[1 + count * (count + 1) // 2 + index]

    def second(self, row: int, column: int) -> str:
        """Return a second derivative, of the upper triangle."""
        return self.statements.results[1 + row * (self.start + self.fixed) - row * (row + 1) // 2 + column]

    # ---- the pass ----------------------------------------------------------------------------------------

    def piece(self) -> Piece:
        """Return the body, its functions and its workspace."""
        columns, fixed = self.columns, self.fixed
        p = len(columns.linear)
        lines = [
            *self.loop.before(self.statements),
            *(columns.unrolled_parameters() if columns.is_unrolled else []),
            *([] if columns.intercept is None else [f"for i in range({BLOCK}):", f"    tile[{p * STRIDE} + i] = 1.0"]),
            "value = 0.0",
            # Sums in registers: adding to memory would keep the loop over records from vectorising.
            *(f"first{n} = 0.0" for n in range(fixed)),
            *(f"both{n}_{other} = 0.0" for n, other in self.bends),
            *(self.loop.jacobian("whole") if self.moving else []),
            *(line for one, at in self.loop.placed for line in one.before_derivatives(at)),
            f"for start in range(0, records.shape[0], {BLOCK}):",
            f"    stop = min(start + {BLOCK}, records.shape[0])",
            "    X, y = records[start:stop], targets[start:stop]",
            "    weights, count = all_weights[start:stop], stop - start",
            *("    " + line for line in vectors.fill_lines(STRIDE, p)),
            # Scores from the tile, in a loop of their own: one that reads columns of records and has much to do is not
            # vectorised.
            *("    " + line for line in self._scored()),
            *("    " + line for line in self._over_block()),
            *(self._left_gradients() if self.moving else self._left()),
            "    add_moments(tile, kept, count, square, line, scaled)",
            "    if meat.shape[0] == 0:",
            "        continue",
            *("    " + text for text in (self._moved_products() if self.moving else self._products())),
            *(f"first[{n}] = first{n}" for n in range(fixed)),
            *(f"both[{n}, {other}] = both{n}_{other}" for n, other in self.bends),
            *(self._moved_hessian() if self.combinations else []),
            *self.loop.jacobian("jacobian"),
            *self.loop.second_derivatives(),
            "return value/total",
        ]
        return Piece(
            spared(lines),
            self.statements.functions | self.loop.called,
            self._functions,
            tuple(self._workspace().items()),
            tuple(self._sums().items()),
            self._finish,
            columns.number_of_parameters if self.moving else len(self._leaving),
            (_transposed if self.moving else self.columns.gradients) if self.leaves else None,
            not self.moving,
            frozenset(("jacobian", *(name for one, _ in self.loop.placed for name in one.of_theta))),
        )

    def _sums(self) -> dict[str, tuple[int, ...]]:
        fixed, rows, size = self.fixed, self.rows, self.columns.number_of_parameters
        shapes: dict[str, tuple[int, ...]] = {
            "square": (len(self.twice) * rows * rows,),
            "line": (len(self.once), rows),
            "cross": (fixed, size),
            "jacobian": (fixed, size),
            "both": (fixed, fixed),
            "first": (fixed,),
        }
        shapes |= self.sums_of_records
        if self.moving:
            return shapes
        lines = len(self.columns.scores) * fixed
        return shapes | {"outer": shapes["square"], "outer_line": (lines, rows), "outer_both": (fixed, fixed)}

    def _workspace(self) -> dict[str, tuple[int, ...]]:
        twice, rows, size = len(self.twice), self.rows, self.columns.number_of_parameters
        # Tiles are in one row each, so that the compiler sees at once that they do not overlap with the records.
        shapes: dict[str, tuple[int, ...]] = {
            "tile": (rows * STRIDE,),
            "kept": (self.kept * BLOCK + (self._room + self.kept * PART if self.loop.is_in_parts else 0),),
            "scaled": (2 * BLOCK,),
            "bases": (len(self.columns.scores) * BLOCK,),
        }
        if self.combinations is not None:
            count = self.combinations[0].count
            shapes |= {"held": (self.kept, count), "shifted": (twice, count, rows)}
            # Of one combination: the weights of records, and what multiplies x twice, and the slopes.
            shapes |= {"shares": (BLOCK,), "parts": ((twice + len(self.columns.scores)) * BLOCK,)}
        if self.varying:
            shapes |= dict.fromkeys(("row", "shift_row"), (self.columns.parameters,))
            shapes |= {"bent": (self.varying, size), "pull": (size,)}
        if self.moving:
            return shapes | {"moved": (size,), "own": (size * BLOCK,), "whole": (self.fixed, size)}
        return shapes | {"products": ((twice + len(self.columns.scores) * self.fixed) * BLOCK,)}

    def _scored(self) -> list[str]:
        """Return lines that compute the scores of a block."""
        columns = self.columns
        p, q, m = columns.sizes
        lines = []
        for k in range(m):
            constant = "0.0" if columns.intercept is None else f"theta[{k * q + columns.intercept}]"
            if columns.is_unrolled:
                terms = [f"t{k}_{j}*tile[{j * STRIDE} + i]" for j in range(p)]
                terms += [constant] if columns.intercept is not None or not terms else []
                lines += ["for i in range(count):", f"    bases[{k * BLOCK} + i] = {' + '.join(terms)}"]
                continue
            lines += [
                "for i in range(count):",
                f"    bases[{k * BLOCK} + i] = {constant}",
                f"for j in range({p}):",
                f"    part = {columns.theta(k, 'j')}",
                "    for i in range(count):",
                f"        bases[{k * BLOCK} + i] += part*tile[j*{STRIDE} + i]",
            ]
        return lines

    @property
    def _room(self) -> int:
        """How many numbers statistics keep of a part: first derivatives, those by the score too, and by symbols too."""
        return self.loop.room(2 + self.fixed)

    @property
    def _functions(self) -> str:
        own = "".join(one.derivative_functions(at) for one, at in self.loop.placed)
        return self.loop.functions + own + vectors.fill_text(STRIDE, len(self.columns.linear)) + MOMENTS

    def _over_block(self) -> list[str]:
        """Return the loops over the records of a block: what is summed of them, and what is kept."""
        if self.loop.is_in_parts:
            return self._over_parts()
        return self._over_combinations() if self.in_turn else self._over_records()

    def _over_parts(self) -> list[str]:
        """Return the loops where statistics work on a part of the block at a time, and add to gradients themselves."""
        inside = [f"value += ({self.statements.results[0]}){self.factor}"]
        inside += [f"kept{n} = ({text}){self.factor}" for n, text in enumerate((*self.twice, *self.once))]
        inside += [*self._of_symbols(lambda n: f"kept{n}"), *self._of_records()]
        # In the loop at places of the part's own: else the compiler would ask of each two whether they are one.
        apart, scores = self.kept * BLOCK + self._room, range(len(self.columns.scores))
        each = [
            *(f"base{k} = kept[{apart + k * PART} + n]" for k in scores),
            *self.loop.lookups(),
            *self.loop.each(self.statements, inside),
            *(f"kept[{apart + n * PART} + n] = kept{n}" for n in range(self.kept)),
        ]
        constants, read, each = self.loop.apart(each, self._room)
        read += [f"kept[{apart + k * PART} + n] = bases[{k * BLOCK} + i]" for k in scores]
        return [
            *constants,
            *self._asked_for(),
            f"for from_row in range(0, count, {PART}):",
            f"    many, room = min({PART}, count - from_row), {self.kept * BLOCK}",
            *("    " + line for line in self.loop.of_part()),
            "    for n in range(many):",
            "        i = from_row + n",
            *("        " + line for line in read),
            "    for n in range(many):",
            *("        " + line for line in each),
            f"    for k in range({self.kept}):",
            "        for n in range(many):",
            f"            kept[k*{BLOCK} + from_row + n] = kept[{apart} + k*{PART} + n]",
            *("    " + line for one, at in self.loop.placed for line in one.part_derivatives(at, self._slopes_of(one))),
        ]

    def _asked_for(self) -> list[str]:
        """Return lines that make room for gradients of records where these are asked for."""
        return [
            "is_asked_for = meat.shape[0] + slopes.shape[0] > 0",
            "if is_asked_for:",
            f"    for i in range({self.columns.number_of_parameters * BLOCK}):",
            "        own[i] = 0.0",
        ]

    def _over_records(self) -> list[str]:
        """Return the loop over the records of a block: what is summed of them, and what is kept."""
        columns, factor, size = self.columns, self.factor, self.columns.number_of_parameters
        inside = [f"value += ({self.statements.results[0]}){factor}"]
        for n, text in enumerate((*self.twice, *self.once)):
            part = f"({text}){factor}"
            if self.combinations is not None:
                inside.append(f"part = {part}")
                part = "part"
            inside.append(f"kept{n} {self.assign} {part}")
            inside += self._shifted(n)
        inside += [*self._of_symbols(lambda n: f"kept{n}"), *self._of_records()]
        lines = [
            *(f"base{k} = bases[{k * BLOCK} + i]" for k in range(len(columns.scores))),
            *self.loop.lookups(),
            *(f"kept{n} = 0.0" for n in range(self.kept) if self.combinations),
            *([f"for j in range({size}):", "    moved[j] = 0.0"] if self.moving else []),
            *self.loop.each(self.statements, inside),
            *(f"kept[{n * BLOCK} + i] = kept{n}" for n in range(self.kept)),
            *([f"for j in range({size}):", f"    own[j*{BLOCK} + i] = moved[j]"] if self.moving else []),
        ]
        return ["for i in range(count):", *("    " + line for line in lines)]

    def _of_symbols(self, kept: Callable[[int], str]) -> list[str]:
        """Return the lines of a record that sum and keep its derivatives by the symbols of statistics."""
        start, factor = self.start, self.factor
        lines = [f"both{n}_{o} += ({self.second(start + n, start + o)}){factor}" for n, o in self.bends]
        for n in range(self.fixed):
            lines += [f"part = ({self.first(start + n)}){factor}", f"first{n} += part"]
            lines.append(f"{kept(self.kept - self.fixed + n)} {self.assign} part")
        return lines

    def _over_combinations(self) -> list[str]:
        """Return the same for records that are summed over combinations of categories, one combination after another.

        Loops over records then vectorise. What the offsets of a combination multiply is summed by itself.
        """
        assert self.combinations is not None
        (configurations, at), columns = self.combinations, self.columns
        _, q, m = columns.sizes
        scores, twice = range(m), len(self.twice)
        inside = [f"value += ({self.statements.results[0]}){self.factor}"]
        for n, text in enumerate((*self.twice, *self.once)):
            inside += [f"part = ({text}){self.factor}", f"kept[{n * BLOCK} + i] += part", f"held{n} += part"]
            inside += [f"parts[{n * BLOCK} + i] = part"] if n < twice + m else []
        inside += self._of_symbols(lambda n: f"kept[{n * BLOCK} + i]")
        lookups = [line for line in self.loop.lookups() if line not in configurations.lookups(at)]
        each = [
            *(f"shift{k} = shift[a, {k}]" for k in scores),
            *configurations.level(at),
            "for i in range(count):",
            *("    " + line for line in configurations.lookups(at)),
            f"    shares[i] = {configurations.weight(at)}",
            *(f"held{n} = 0.0" for n in range(twice + len(self.once))),
            "for i in range(count):",
            "    share = shares[i]",
            *(f"    score{k} = bases[{k * BLOCK} + i] + shift{k}" for k in scores),
            *("    " + line for line in (*lookups, *self.statements.record, *inside)),
            *(f"held[{n}, a] += held{n}" for n in range(twice + len(self.once))),
            f"for n in range({twice}):",
            f"    for j in range({self.rows}):",
            "        part = 0.0",
            "        for i in range(count):",
            f"            part += parts[n*{BLOCK} + i]*tile[j*{STRIDE} + i]",
            "        shifted[n, a, j] += part",
            "if is_asked_for:",
            f"    for k in range({m}):",
            f"        for j in range({q}):",
            f"            part = {configurations.offset(at, 'j')}",
            # Most combinations move few parameters.
            "            if part != 0.0:",
            "                for i in range(count):",
            f"                    own[(k*{q} + j)*{BLOCK} + i] += parts[({twice} + k)*{BLOCK} + i]*part",
        ]
        return [
            f"for i in range({self.kept * BLOCK}):",
            "    kept[i] = 0.0",
            *self._asked_for(),
            f"for a in range({configurations.count}):",
            *("    " + line for line in each),
        ]

    @property
    def _leaving(self) -> list[int]:
        """The places of what makes a record's gradient among what is kept: slopes in scores, then in symbols."""
        first, last = len(self.twice), self.kept - self.fixed
        return [*range(first, first + len(self.columns.scores)), *range(last, self.kept)]

    def _left(self) -> list[str]:
        """Return lines that leave the slopes of a block, where they are asked for, and nothing else."""
        return [
            "    if slopes.shape[0] > 0:",
            "        for i in range(count):",
            *(f"            slopes[{n}, start + i] = kept[{k * BLOCK} + i]" for n, k in enumerate(self._leaving)),
            "        continue",
        ]

    def _left_gradients(self) -> list[str]:
        """Return lines that leave the gradients of a block, where they are asked for, and nothing else."""
        if not self.leaves:
            return []
        return [
            "    if slopes.shape[0] > 0:",
            *("        " + line for line in self._moved_rows()),
            f"        for j in range({self.columns.number_of_parameters}):",
            "            for i in range(count):",
            f"                slopes[j, start + i] = own[j*{BLOCK} + i]",
            "        continue",
        ]

    def _shifted(self, n: int) -> list[str]:
        """Return lines that keep what multiplies x apart by combination, whose offset it multiplies too."""
        if self.combinations is None:
            return []
        configurations, at = self.combinations
        p, q, m = self.columns.sizes
        twice = len(self.twice)
        lines = [f"held[{n}, a] += part"]
        if twice <= n < twice + m:
            lines.append(f"for j in range({q}):")
            lines.append(f"    moved[{(n - twice) * q} + j] += part*{configurations.offset(at, 'j')}")
        if n < twice:
            lines += [f"for j in range({p}):", f"    shifted[{n}, a, j] += part*X[i, j]"]
            lines += [] if self.columns.intercept is None else [f"shifted[{n}, a, {p}] += part"]
        return lines

    def _of_records(self) -> list[str]:
        """Return the lines of statistics that vary with the record."""
        lines: list[str] = []
        moved = "" if self.combinations is None else f" + {self.combinations[0].offset(self.combinations[1], 'j')}"
        for statistic, at in self.loop.placed:
            if statistic.record_symbols:
                lines += statistic.record_derivatives(at, self._slopes_of(statistic), self.factor, moved=moved)
        return lines

    def _slopes_of(self, statistic: Statistic) -> RecordSlopes:
        """Return the derivatives by the record symbols of a statistic."""
        scores, start = range(len(self.columns.scores)), self.start
        places = {symbol: len(scores) + place for place, symbol in enumerate(self.loop.record_symbols)}
        own = [places[symbol] for symbol in statistic.record_symbols]
        return RecordSlopes(
            [self.first(one) for one in own],
            [[self.second(k, one) for k in scores] for one in own],
            [[self.second(one, start + n) for n in range(self.fixed)] for one in own],
            [[self.second(min(one, other), max(one, other)) for other in own] for one in own],
        )

    # ---- outer products of gradients ---------------------------------------------------------------------

    def _moved_products(self) -> list[str]:
        """Return lines that add the outer products of the gradients of a block."""
        size = self.columns.number_of_parameters
        return [
            *self._moved_rows(),
            f"for j in range({size}):",
            f"    for l in range(j, {size}):",
            "        part = 0.0",
            "        for i in range(count):",
            f"            part += own[j*{BLOCK} + i]*own[l*{BLOCK} + i]",
            "        meat[j, l] += part",
            "        if l > j:",
            "            meat[l, j] += part",
        ]

    def _moved_rows(self) -> list[str]:
        """Return lines that complete the gradients of a block."""
        q, m, size = self.columns.parameters, len(self.columns.scores), self.columns.number_of_parameters
        first, once = len(self.twice), len(self.once)
        lines = []
        for k in range(m if self.rows else 0):
            lines += [
                f"for j in range({self.rows}):",
                f"    l = {k * q} + {places_text(self.places, 'j')}",
                "    for i in range(count):",
                f"        own[l*{BLOCK} + i] += kept[{(first + k) * BLOCK} + i]*tile[j*{STRIDE} + i]",
            ]
        if self.fixed:
            lines += [
                f"for n in range({self.fixed}):",
                f"    for j in range({size}):",
                "        part = whole[n, j]",
                "        for i in range(count):",
                f"            own[j*{BLOCK} + i] += kept[({first + once} + n)*{BLOCK} + i]*part",
            ]
        return lines

    def _products(self) -> list[str]:
        """Return lines that add moments of products of what is kept: of them `_finish` makes the outer products."""
        fixed, first, once = self.fixed, len(self.twice), len(self.once)
        factors = [(first + a, first + b) for a, b in self.pairs]
        factors += [(first + k, first + once + n) for k in range(len(self.columns.scores)) for n in range(fixed)]
        lines = [
            "for i in range(count):",
            *(
                f"    products[{place * BLOCK} + i] = kept[{left * BLOCK} + i]*kept[{right * BLOCK} + i]"
                for place, (left, right) in enumerate(factors)
            ),
            "add_moments(tile, products, count, outer, outer_line, scaled)",
        ]
        if not fixed:
            return lines
        if fixed == 1:
            own = f"kept[{(first + once) * BLOCK} + i]"
            summed = ["part = 0.0", "for i in range(count):", f"    part += {own}*{own}", "outer_both[0, 0] += part"]
            return [*lines, *summed]
        return [
            *lines,
            f"for n in range({fixed}):",
            f"    for o in range(n, {fixed}):",
            "        part = 0.0",
            "        for i in range(count):",
            f"            part += kept[({first + once} + n)*{BLOCK} + i]*kept[({first + once} + o)*{BLOCK} + i]",
            "        outer_both[n, o] += part",
        ]

    # ---- the Hessian -------------------------------------------------------------------------------------

    def _moved_hessian(self) -> list[str]:
        """Return lines that add what the offsets of combinations give to the gradient and the Hessian."""
        assert self.combinations is not None
        (configurations, at), q, m = self.combinations, self.columns.parameters, len(self.columns.scores)
        row, lines = places_text(self.places, "j"), []
        for n, (a, b) in enumerate(self.pairs):
            lines += [
                f"for a in range({configurations.count}):",
                f"    for l in range({q}):",
                f"        other = {configurations.offset(at, 'l')}",
                f"        for j in range({self.rows}):",
                f"            out[{a * q} + {row}, {b * q} + l] += shifted[{n}, a, j]*other",
                f"            out[{a * q} + l, {b * q} + {row}] += shifted[{n}, a, j]*other",
                f"        for j in range({q}):",
                f"            out[{a * q} + j, {b * q} + l] += held[{n}, a]*other*{configurations.offset(at, 'j')}",
            ]
        first, offset = len(self.pairs), configurations.offset(at, "j")
        for k in range(m):
            lines += [
                f"for a in range({configurations.count}):",
                f"    for j in range({q}):",
                f"        gradient[{k * q} + j] += held[{first + k}, a]*{offset}",
            ]
            if self.fixed:
                lines += [
                    f"for n in range({self.fixed}):",
                    f"    for a in range({configurations.count}):",
                    f"        for j in range({q}):",
                    f"            cross[n, {k * q} + j] += held[{first + m + k} + n*{m}, a]*{offset}",
                ]
        for a, b in itertools.combinations(range(m), 2):
            lines += [
                f"for j in range({q}):",
                f"    for l in range({q}):",
                f"        out[{b * q} + l, {a * q} + j] = out[{a * q} + j, {b * q} + l]",
            ]
        return lines

    def _finish(
        self, sums: Mapping[str, FloatArray], gradient: FloatArray, out: FloatArray, meat: FloatArray, total: float
    ) -> None:
        """Put the moments in their places, add what the statistics give, and divide by the total."""
        m, fixed = len(self.columns.scores), self.fixed
        places = [self._rows_of(k) for k in range(m)]
        jacobian, first = sums["jacobian"], sums["first"]
        # What overflows is seen by the solvers.
        with np.errstate(all="ignore"):
            for n in range(len(self.once)):
                into = gradient if n < m else sums["cross"][n // m - 1]
                into[places[n % m]] += sums["line"][n]
            for one, at in self.loop.placed:
                one.finish(at, places[0], sums, gradient, out)
            gradient += first @ jacobian
            gradient /= total
            self._add_squares(sums["square"].reshape(len(self.twice), self.rows, self.rows), places, out)
            mixed = sums["cross"].T @ jacobian
            if fixed:
                out += mixed + mixed.T + jacobian.T @ whole(sums["both"]) @ jacobian
            out /= total
            if len(meat) and not self.moving:
                self._add_squares(sums["outer"].reshape(len(self.twice), self.rows, self.rows), places, meat)
                for k, rows in enumerate(places if fixed else ()):
                    mixed = sums["outer_line"][k * fixed : (k + 1) * fixed].T @ jacobian
                    meat[rows] += mixed
                    meat[:, rows] += mixed.T
                if fixed:
                    meat += jacobian.T @ whole(sums["outer_both"]) @ jacobian
            meat /= total

    def _rows_of(self, score: int) -> Any:
        """Return the places of a tile's rows among all parameters: a slice where they are neighbours."""
        start = score * self.columns.parameters
        if self.places == tuple(range(self.rows)):
            return slice(start, start + self.rows)
        return start + np.array(self.places, dtype=int)

    def _add_squares(self, moments: FloatArray, places: Sequence[Any], into: FloatArray) -> None:
        """Add moments of columns against columns, the upper triangles, for all pairs of scores."""
        for moment, (a, b) in zip(moments, self.pairs, strict=True):
            both = whole(moment)
            for one, other in {(a, b), (b, a)}:
                rows, columns = places[one], places[other]
                into[(rows, columns) if isinstance(rows, slice) else np.ix_(rows, columns)] += both


def _transposed(slopes: FloatArray, matrix: FloatArray, jacobian: FloatArray) -> FloatArray:
    """Return the gradients of records, shape (n, Q), as they were left."""
    return np.ascontiguousarray(slopes.T)


def whole(upper: FloatArray) -> FloatArray:
    """Return a symmetric matrix by its upper triangle."""
    return np.where(_below(len(upper)), upper.T, upper) + 0.0


@functools.cache
def _below(size: int) -> BooleanArray:
    """Return which entries of a square matrix stand below its diagonal; to ask takes longer than to choose by it."""
    below = np.tri(size, k=-1, dtype=np.bool_)
    below.setflags(write=False)
    return below
