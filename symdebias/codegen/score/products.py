"""Columns of categories in losses of waves: products over columns of factors that are looked up by what was observed.

The loss is linear in these products. So all derivatives by the parameters come from sums over records of numbers that
are kept apart by what was observed: in one column for the first ones, in two columns for the second ones. The factors
themselves enter once, at the end.

Columns of few categories are taken together in *groups*: what was observed in all columns of a group is one of few
combinations, whose products are made once for all records. For a record its group is a column of these.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray, IntegerArray
from symdebias.codegen import lanes
from symdebias.codegen.program import BLOCK, PART, STRIDE
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.statistic import ZERO, Collected, Needs, Place, RecordSlopes, Share, Statistic

# The table of so many products stays near (measured at 8 to 32).
_MOST_TOGETHER = 16
# Numbers of two groups apart: so many are sixteen megabytes, which each chunk of records has.
_MOST_PAIRS = 2**21
# What stands for factors of 0: far below the rounding error of a factor, and its square and reciprocal are numbers.
_TINY = 1e-20


@dataclass(frozen=True)
class CategoryProducts(Statistic):
    """Products over columns of categories of the factors of powers of the score and of waves.

    Notes
    -----
    The factor of a column whose category was observed as c is, for the wave exp(i k h u), the complex number
    T(c, k) = sum_a weight(c, a) exp(i k h v_a), where v_a = theta_a value_a is what category a adds to the score. For
    powers of the score it is the power series sum_a weight(c, a) exp(v_a delta), cut off.

    With P the product over all columns, its derivative by a parameter of one column is P T'/T, and by parameters of
    two columns P (T'/T) (S'/S): a rounded product divided by one of its factors is the product of the others but for
    rounding, however small the factor. A factor of exactly 0 is replaced by 1e-20. So with Q = (dG/dRe P - i dG/dIm P)
    P the gradient is the sum over what was observed of Re(T'/T sum Q), and the Hessian that of Re(T'/T S'/S sum Q). For
    power series, Q is what multiplies each coefficient of T'/T.

    For a record exp(i k h u) is one factor more, u being its score without categories (`as_kept`): so derivatives by u
    are multiples of the products themselves, and what multiplies a product in the loss is the same for all records
    where it does not depend on the target.

    The numbers of a product are its *lanes*: powers, then real parts of waves, then imaginary ones (`lanes`). Products
    of a part of a block are looked up as rows and stand lane by lane while loops over records compute Q from them, in
    the same place; Q is summed as rows again.
    """

    powers: tuple[sp.Symbol, ...]  # The coefficients of delta, delta^2, ... of the product of power series.
    # The parts of the product for each wave.
    real: tuple[sp.Symbol, ...]
    imaginary: tuple[sp.Symbol, ...]
    positions: tuple[tuple[int, ...], ...]  # For each column and input category the place of its parameter, or -1.
    outputs: tuple[int, ...]  # The number of output categories of each column.
    frequency: sp.Symbol  # That of the first wave; those of the others are its multiples.
    most_together: int = _MOST_TOGETHER  # Combinations of a group, where it has several columns.

    # ---- sizes -------------------------------------------------------------------------------------------

    @property
    def record_symbols(self) -> tuple[sp.Symbol, ...]:
        """The products: powers, then the real parts of waves, then the imaginary ones."""
        return (*self.powers, *self.real, *self.imaginary)

    @property
    def lanes(self) -> int:
        """How many numbers the row of a product has."""
        return lanes.row_length(len(self.powers), len(self.real))

    @property
    def _wave(self) -> int:
        """The lane of the real part of the first wave; the imaginary parts stand behind all real ones."""
        return lanes.first_wave(len(self.powers))

    @property
    def _lanes_of_symbols(self) -> list[int]:
        """The lanes of `record_symbols`."""
        return [*range(len(self.powers)), *range(self._wave, self._wave + 2 * len(self.real))]

    @functools.cached_property
    def parameters(self) -> tuple[tuple[int, ...], ...]:
        """The places of the parameters of each column."""
        return tuple(tuple(dict.fromkeys(place for place in places if place >= 0)) for places in self.positions)

    @functools.cached_property
    def rows(self) -> list[int]:
        """Where the rows of each column begin, a row for each category that may be observed, and their number."""
        return _starts(self.outputs)

    @functools.cached_property
    def groups(self) -> list[range]:
        """The columns of each group: neighbours, fewer of them where numbers of two groups apart would be too many."""
        most = self.most_together
        while True:
            found: list[range] = []
            for b, count in enumerate(self.outputs):
                last = found[-1] if found else range(0)
                if last and count * math.prod(self.outputs[one] for one in last) <= most:
                    found[-1] = range(last.start, b + 1)
                else:
                    found.append(range(b, b + 1))
            if most <= 1 or self._are_few(self._combinations(found)):
                return found
            most //= 2

    def _combinations(self, groups: Sequence[range]) -> list[int]:
        """Return where the combinations of each group begin, and their number."""
        return _starts([math.prod(self.outputs[b] for b in group) for group in groups])

    def _are_few(self, together: Sequence[int]) -> bool:
        """Whether numbers of two groups apart are few enough to be kept, by where the combinations of each begin."""
        pairs = sum((end - begin) * (together[-1] - end) for begin, end in itertools.pairwise(together))
        return pairs * len(self.record_symbols) <= _MOST_PAIRS

    @functools.cached_property
    def together(self) -> list[int]:
        """Where the combinations of each group begin, and their number."""
        return self._combinations(self.groups)

    @functools.cached_property
    def seen(self) -> IntegerArray:
        """The rows of the columns of each combination, shape (combinations, columns of a group); -1 for none."""
        found = np.full((self.together[-1], max(map(len, self.groups))), -1)
        for first, group in zip(self.together, self.groups, strict=False):
            codes = itertools.product(*(range(self.rows[b], self.rows[b + 1]) for b in group))
            for place, rows in enumerate(codes, start=first):
                found[place, : len(rows)] = rows
        return found

    @functools.cached_property
    def slots(self) -> list[tuple[int, int]]:
        """The row and the parameter of each derivative of a factor."""
        return [
            (self.rows[b] + c, place)
            for b, places in enumerate(self.parameters)
            for c in range(self.outputs[b])
            for place in places
        ]

    @functools.cached_property
    def pair_starts(self) -> list[int]:
        """Where the pairs of each group with the later ones begin, combination by combination; and their number."""
        last = self.together[-1]
        return _starts([(end - begin) * (last - end) for begin, end in itertools.pairwise(self.together)])

    @property
    def is_short(self) -> bool:
        """Whether numbers of two groups apart are few enough to be kept."""
        return self._are_few(self.together)

    @property
    def _tables(self) -> int:
        """How many rows the tables have: exponentials of categories, factors of columns, products of groups."""
        return sum(map(len, self.positions)) + self.rows[-1] + self.together[-1]

    @property
    def _products(self) -> int:
        """The first row of the tables that is a product."""
        return self._tables - self.together[-1]

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the places of frequency, values and weights, of sums of rows, and the codes.

        Behind the sums of each combination stand the tables, which are of use once more when the sums are complete, and
        sums of each column.
        """
        numbers = 1 + sum(len(inputs) * (1 + m) for inputs, m in zip(self.positions, self.outputs, strict=True))
        sums = self.together[-1] + self._tables + self.rows[-1] + 1
        # Rows begin with lines of the cache.
        return Needs([("products", numbers)], sums * self.lanes + 7, codes=len(self.outputs), is_in_parts=True)

    def _sums(self, at: Place) -> int:
        """Return where the sums of combinations begin in ``sums``."""
        return -(-at.sums // 8) * 8

    def room(self, sets: int) -> int:
        """Return how many numbers of a part are kept: combinations, eight rows, and sets of lanes."""
        return len(self.groups) * PART + 8 * self.lanes + sets * self.lanes * PART

    def _set(self, number: int) -> int:
        """Return where a set of lanes begins in the room."""
        return self.room(number)

    # ---- expressions -------------------------------------------------------------------------------------

    def as_kept(self, expression: sp.Expr, score: sp.Symbol) -> sp.Expr:
        """Return the loss with the waves of the score in the products: linear in these, whatever the score."""
        own = {*self.real, *self.imaginary}
        terms = []
        for term in sp.Add.make_args(expression):
            found = sorted(own & term.free_symbols, key=str)
            terms.append(term.xreplace(dict.fromkeys(found, sp.Integer(0))) if found else term)
            terms += [symbol * sp.diff(term, symbol).xreplace({score: sp.Integer(0)}) for symbol in found]
        return sp.Add(*terms)

    def by_score(self) -> dict[sp.Symbol, sp.Expr]:
        """Return the derivatives of the products by the score whose waves they have."""
        found: dict[sp.Symbol, sp.Expr] = {}
        for k, (x, z) in enumerate(zip(self.real, self.imaginary, strict=True), start=1):
            found |= {x: -k * self.frequency * z, z: k * self.frequency * x}
        return found

    # ---- loss and gradient -------------------------------------------------------------------------------

    def share(self, at: Place) -> Share:
        """Return the tables, the products of a part and of a record, and what sums give to the gradient."""
        sums = self._sums(at)
        tables = sums + self.together[-1] * self.lanes
        return Share(
            varying={
                symbol: f"looked{lane}"
                for symbol, lane in zip(self.record_symbols, self._lanes_of_symbols, strict=True)
            },
            functions=self._functions(at),
            called=frozenset(("wave",)),
            before=[
                f"category_table = np.zeros({self._tables * self.lanes})",
                "category_tables(theta, noise, category_table, 0)",
            ],
            before_slopes=[f"category_tables(theta, noise, sums, {tables})"],
            of_part=["look_up_products(X, from_row, many, kept, room, category_table, 0)"],
            of_part_slopes=[f"look_up_products(X, from_row, many, kept, room, sums, {tables})"],
            lookups=self._lookups(at),
            assemble=[f"category_gradients(theta, noise, sums, {sums}, gradient)"],
        )

    def collect(self, at: Place, slopes: Sequence[str], factor: str, *, enumerated: bool) -> Collected:
        """Return the lines that keep what multiplies T'/T, and those that sum it by what was observed."""
        assert not enumerated
        return Collected(
            inside=self._kept_lanes(0, slopes, factor),
            of_part=[f"add_products(many, kept, room, sums, {self._sums(at)})"],
        )

    def _lane(self, set_of_lanes: int, lane: int) -> str:
        """Return where a lane of the n-th record of a part stands."""
        return f"kept[room + {self._set(set_of_lanes) + lane * PART} + n]"

    def _lookups(self, at: Place) -> list[str]:
        """Return lines that name the products of a record: of waves with that of its own score."""
        d, wave, waves = len(self.powers), self._wave, len(self.real)
        lines = [f"looked{k} = {self._lane(0, k)}" for k in range(d)]
        if waves:
            angle = f"noise[{at.noise}]*base0"
            lines += [f"cosine, sine = wave({angle}, 1.0), wave({angle}, 0.0)", "x, z = cosine, sine"]
        for k in range(wave, wave + waves):
            lines += ["x, z = x*cosine - z*sine, x*sine + z*cosine"] if k > wave else []
            lines.append(f"one, other = {self._lane(0, k)}, {self._lane(0, k + waves)}")
            lines.append(f"looked{k}, looked{k + waves} = one*x - other*z, one*z + other*x")
        return lines

    def _kept_lanes(self, set_of_lanes: int, slopes: Sequence[str], factor: str) -> list[str]:
        """Return lines that turn a record's derivatives by products into what multiplies T'/T, and keep that."""
        wave, waves = self._wave, len(self.real)
        lines = self._kept_powers(set_of_lanes, slopes, factor)
        for k in range(wave, wave + waves):
            own = (slopes[len(self.powers) + k - wave + at] for at in (0, waves))
            one, other = ("" if text in ZERO else f"({text}){factor}" for text in own)
            x, z = f"looked{k}", f"looked{k + waves}"
            lines += [f"one = {one}"] if one else []
            lines += [f"other = {other}"] if other else []
            real = [f"one*{x}"] * bool(one) + [f"other*{z}"] * bool(other)
            imaginary = ([f"one*{z}"] if one else ["0.0"]) + [f"other*{x}"] * bool(other)
            lines.append(f"lane{k} = {' + '.join(real) or '0.0'}")
            lines.append(f"lane{k + waves} = {' - '.join(imaginary)}")
            lines += [f"{self._lane(set_of_lanes, lane)} = lane{lane}" for lane in (k, k + waves)]
        return lines

    def _kept_powers(self, set_of_lanes: int, slopes: Sequence[str], factor: str) -> list[str]:
        """Return the lines of `_kept_lanes` for the powers."""
        d = len(self.powers)
        lines = [f"lane{n} = " + ("0.0" if slopes[n] in ZERO else f"({slopes[n]}){factor}") for n in range(d)]
        for m in range(d):
            terms = [f"lane{m}", *(f"lane{k}*looked{k - m - 1}" for k in range(m + 1, d))]
            lines.append(f"{self._lane(set_of_lanes, m)} = {' + '.join(terms)}")
        return lines

    def _kept_bends(self, at: Place, slopes: Sequence[str], factor: str) -> list[str]:
        """Return lines that keep the derivative by the score of what `_kept_lanes` has kept as the first set."""
        wave, waves = self._wave, len(self.real)
        lines = self._kept_powers(1, slopes, factor)
        for k in range(wave, wave + waves):
            rate = f"{float(k - wave + 1)}*noise[{at.noise}]"
            lines.append(f"{self._lane(1, k)} = -{rate}*lane{k + waves}")
            lines.append(f"{self._lane(1, k + waves)} = {rate}*lane{k}")
        return lines

    def _functions(self, at: Place) -> str:
        """Return the functions that make tables, look products up, sum, and make gradients of the sums, as text.

        A row of ``CATEGORIES`` describes a column: its numbers of inputs, outputs and parameters, where its constants
        begin in ``noise``, its rows in the table of factors, its inputs in ``INPUTS``, its rows in that of slopes, its
        group, and how far apart its categories are among the combinations of that.
        ``INPUTS`` has the parameter of each input, its number among those of the column, and the place of its value;
        ``SLOTS`` the row and the parameter of each slope; ``SEEN`` the rows of each combination; ``GROUPS`` the first
        combination of each group, and where its pairs with later ones begin.
        """
        d, wave, waves, lane_count = len(self.powers), self._wave, len(self.real), self.lanes
        groups, columns, inputs_count = len(self.groups), len(self.outputs), sum(map(len, self.positions))
        described, inputs = [], []
        first, start, slot = at.noise + 1, 0, 0
        group_of = {b: g for g, group in enumerate(self.groups) for b in group}
        for b, (places, m) in enumerate(zip(self.positions, self.outputs, strict=True)):
            own, group = self.parameters[b], self.groups[group_of[b]]
            apart = math.prod(self.outputs[b + 1 : group.stop])
            described.append([len(places), m, len(own), first, self.rows[b], start, slot, group_of[b], apart])
            inputs += [[place, own.index(place) if place >= 0 else -1, first + a] for a, place in enumerate(places)]
            first, start, slot = first + len(places) * (1 + m), start + len(places), slot + len(own) * m
        beside = (
            ""
            if groups == 1
            else f"""
            multiply_rows(kept, to, table, places[r], table, start + int(kept[place + {PART}])*{lane_count})
            for g in range(2, {groups}):
                multiply_rows(kept, to, kept, to, table, start + int(kept[place + g*{PART}])*{lane_count})
            places[r] = to"""
        )
        return f"""{lanes.text(d, waves, PART)}
CATEGORIES = np.array({described})
INPUTS = np.array({inputs})
SLOTS = np.array({[list(slot) for slot in self.slots]})
SEEN = np.array({self.seen.tolist()})
GROUPS = np.array({[list(pair) for pair in zip(self.together, self.pair_starts, strict=True)]})


@helper()
def category_tables(theta, noise, table, start):
    for a in range({inputs_count}):
        place, at = INPUTS[a, 0], start + a*{lane_count}
        value = theta[place]*noise[INPUTS[a, 2]] if place >= 0 else 0.0
        power = 1.0
        for k in range({d}):
            power *= value/(k + 1)
            table[at + k] = power
        cosine, sine = wave(noise[{at.noise}]*value, 1.0), wave(noise[{at.noise}]*value, 0.0)
        x, z = 1.0, 0.0*value
        for k in range({wave}, {wave + waves}):
            x, z = x*cosine - z*sine, x*sine + z*cosine
            table[at + k] = x
            table[at + k + {waves}] = z
    factors = start + {inputs_count * lane_count}
    for n in range(factors, factors + {self.rows[-1] * lane_count}):
        table[n] = 0.0
    for b in range({columns}):
        inputs, outputs, first = CATEGORIES[b, 0], CATEGORIES[b, 1], CATEGORIES[b, 3]
        for c in range(outputs):
            row = factors + (CATEGORIES[b, 4] + c)*{lane_count}
            for a in range(inputs):
                weight = noise[first + inputs + c*inputs + a]
                add_row(table, row, table, start + (CATEGORIES[b, 5] + a)*{lane_count}, weight)
            for k in range(row + {wave}, row + {wave + waves}):
                if table[k]*table[k] + table[k + {waves}]*table[k + {waves}] < {_TINY**2!r}:
                    table[k] = {_TINY!r}
                    table[k + {waves}] = 0.0
    for j in range({self.together[-1]}):
        row, own = factors + ({self.rows[-1]} + j)*{lane_count}, factors + SEEN[j, 0]*{lane_count}
        for k in range({lane_count}):
            table[row + k] = table[own + k]
        for n in range(1, {self.seen.shape[1]}):
            if SEEN[j, n] >= 0:
                multiply_rows(table, row, table, row, table, factors + SEEN[j, n]*{lane_count})


@helper()
def look_up_products(X, from_row, many, kept, room, tables, begin):
    for n in range(8*((many + 7)//8)):
        for g in range({groups}):
            kept[room + g*{PART} + n] = GROUPS[g, 0]
    for b in range({columns}):
        place, apart = room + CATEGORIES[b, 7]*{PART}, CATEGORIES[b, 8]
        for n in range(many):
            kept[place + n] += float(apart*int(X[from_row + n, b + {len(at.columns.linear)}]))
    table, start = tables, begin + {self._products * lane_count}
    places = np.empty(8, np.int64)
    for n in range(0, many, 8):
        for r in range(8):
            place, to = room + n + r, room + {groups * PART} + r*{lane_count}
            places[r] = start + int(kept[place])*{lane_count}{beside}
        rows_to_lanes(kept, room + {self._set(0)} + n, {"table" if groups == 1 else "kept"}, places)


@helper()
def add_products(many, kept, room, sums, start):
    for n in range(0, many, 8):
        lanes_to_rows(kept, room + {groups * PART}, kept, room + {self._set(0)} + n)
        for r in range(min(8, many - n)):
            for g in range({groups}):
                row = start + int(kept[room + g*{PART} + n + r])*{lane_count}
                add_row(sums, row, kept, room + {groups * PART} + r*{lane_count}, 1.0)


@helper()
def category_gradients(theta, noise, sums, start, gradient):
    exponentials = start + {self.together[-1] * lane_count}
    factors, summed = exponentials + {inputs_count * lane_count}, exponentials + {self._tables * lane_count}
    for n in range(summed, summed + {self.rows[-1] * lane_count}):
        sums[n] = 0.0
    for j in range({self.together[-1]}):
        for n in range({self.seen.shape[1]}):
            if SEEN[j, n] >= 0:
                add_row(sums, summed + SEEN[j, n]*{lane_count}, sums, start + j*{lane_count}, 1.0)
    # Divided by the factors of the rows.
    for row in range({self.rows[-1]}):
        own, factor = summed + row*{lane_count}, factors + row*{lane_count}
        for k in range({d - 1}, 0, -1):
            for m in range(k):
                sums[own + m] -= sums[own + k]*sums[factor + k - 1 - m]
        for k in range({wave}, {wave + waves}):
            x, z, one, other = sums[factor + k], sums[factor + k + {waves}], sums[own + k], sums[own + k + {waves}]
            size = x*x + z*z
            sums[own + k] = (one*x + other*z)/size
            sums[own + k + {waves}] = (other*x - one*z)/size
    weighted = summed + {self.rows[-1] * lane_count}
    for b in range({columns}):
        inputs, outputs, first = CATEGORIES[b, 0], CATEGORIES[b, 1], CATEGORIES[b, 3]
        for a in range(inputs):
            place, at = INPUTS[CATEGORIES[b, 5] + a, 0], exponentials + (CATEGORIES[b, 5] + a)*{lane_count}
            if place < 0:
                continue
            for k in range({lane_count}):
                sums[weighted + k] = 0.0
            for c in range(outputs):
                weight = noise[first + inputs + c*inputs + a]
                add_row(sums, weighted, sums, summed + (CATEGORIES[b, 4] + c)*{lane_count}, weight)
            slope = 0.0
            for k in range({d}):
                slope += sums[weighted + k]*(sums[at + k - 1] if k > 0 else 1.0)
            for k in range({wave}, {wave + waves}):
                x, z = sums[at + k], sums[at + k + {waves}]
                slope -= (k - {wave - 1})*noise[{at.noise}]*(z*sums[weighted + k] + x*sums[weighted + k + {waves}])
            gradient[place] += noise[first + a]*slope
"""

    # ---- Hessian -----------------------------------------------------------------------------------------

    def record_sums(self, at: Place, fixed: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the sums over records for second derivatives, and of the tables beside them."""
        rows, count = len(at.columns.linear) + (at.columns.intercept is not None), self.together[-1]
        return {
            "cells": (count, self.lanes),
            "pairs": (self.pair_starts[-1], self.lanes),
            "beside": (count * rows, self.lanes),
            "cells_of_symbols": (fixed, count, self.lanes),
            **dict.fromkeys(self.of_theta, (len(self.slots), self.lanes)),
        }

    @property
    def of_theta(self) -> tuple[str, ...]:
        """The tables that are no sums over records."""
        return "category_slope", "category_bend"

    def derivative_functions(self, at: Place) -> str:
        """Return the functions that sum second derivatives, and fill the tables of T'/T and T''/T, as text."""
        d, wave, waves, lane_count = len(self.powers), self._wave, len(self.real), self.lanes
        groups, columns, rows = len(self.groups), len(self.outputs), len(at.columns.linear)
        rows += at.columns.intercept is not None
        room, last = groups * PART, self.together[-1]
        exponentials = "(CATEGORIES[b, 5] + a)"
        return f"""

@helper()
def category_slopes(noise, table, slope, bend):
    for b in range({columns}):
        inputs, outputs, count, first = CATEGORIES[b, 0], CATEGORIES[b, 1], CATEGORIES[b, 2], CATEGORIES[b, 3]
        for a in range(inputs):
            own, at = INPUTS[CATEGORIES[b, 5] + a, 1], {exponentials}*{lane_count}
            if own < 0:
                continue
            scale = noise[first + a]
            for c in range(outputs):
                weight, n = scale*noise[first + inputs + c*inputs + a], CATEGORIES[b, 6] + c*count + own
                for k in range({d}):
                    power = weight*(table[at + k - 1] if k > 0 else 1.0)
                    slope[n, k] += power
                    if k + 1 < {d}:
                        bend[n, k + 1] += power*scale
                for k in range({wave}, {wave + waves}):
                    x, z = weight*table[at + k], weight*table[at + k + {waves}]
                    rate = (k - {wave - 1})*noise[{at.noise}]
                    slope[n, k] -= rate*z
                    slope[n, k + {waves}] += rate*x
                    bend[n, k] -= rate*rate*scale*x
                    bend[n, k + {waves}] -= rate*rate*scale*z
    for n in range({len(self.slots)}):
        factor = ({sum(map(len, self.positions))} + SLOTS[n, 0])*{lane_count}
        for k in range(1, {d}):
            for m in range(k):
                slope[n, k] -= slope[n, m]*table[factor + k - 1 - m]
                bend[n, k] -= bend[n, m]*table[factor + k - 1 - m]
        for k in range({wave}, {wave + waves}):
            x, z = table[factor + k], table[factor + k + {waves}]
            size = x*x + z*z
            # The imaginary part with its sign turned: products with it are the real part of a product.
            one, other = slope[n, k], slope[n, k + {waves}]
            slope[n, k] = (one*x + other*z)/size
            slope[n, k + {waves}] = (one*z - other*x)/size
            one, other = bend[n, k], bend[n, k + {waves}]
            bend[n, k] = (one*x + other*z)/size
            bend[n, k + {waves}] = (one*z - other*x)/size


@helper()
def product_gradients(X, from_row, many, kept, room, slope, own):
    for n in range(0, many, 8):
        lanes_to_rows(kept, room + {room}, kept, room + {self._set(0)} + n)
        for r in range(min(8, many - n)):
            i = from_row + n + r
            for b in range({columns}):
                slot = CATEGORIES[b, 6] + int(X[i, b + {len(at.columns.linear)}])*CATEGORIES[b, 2]
                for k in range(slot, slot + CATEGORIES[b, 2]):
                    own[SLOTS[k, 1]*{BLOCK} + i] += dot_rows(
                        kept, room + {room} + r*{lane_count}, slope, k*{lane_count}
                    )


@helper()
def add_cells(many, kept, room, lanes_at, cells, begin):
    for n in range(0, many, 8):
        lanes_to_rows(kept, room + {room}, kept, room + lanes_at + n)
        for r in range(min(8, many - n)):
            for g in range({groups}):
                place = begin + int(kept[room + g*{PART} + n + r])*{lane_count}
                add_row(cells, place, kept, room + {room} + r*{lane_count}, 1.0)


@helper()
def add_pairs(many, kept, room, cells, pairs):
    for n in range(0, many, 8):
        lanes_to_rows(kept, room + {room}, kept, room + {self._set(0)} + n)
        for r in range(min(8, many - n)):
            row = room + {room} + r*{lane_count}
            for g in range({groups}):
                code = int(kept[room + g*{PART} + n + r])
                add_row(cells, code*{lane_count}, kept, row, 1.0)
                later = GROUPS[g + 1, 0]
                pair = GROUPS[g, 1] + (code - GROUPS[g, 0])*({last} - later) - later
                for o in range(g + 1, {groups}):
                    place = pair + int(kept[room + o*{PART} + n + r])
                    add_row(pairs, place*{lane_count}, kept, row, 1.0)


@helper()
def add_beside(from_row, many, kept, room, tile, beside):
    for n in range(0, many, 8):
        lanes_to_rows(kept, room + {room}, kept, room + {self._set(1)} + n)
        for r in range(min(8, many - n)):
            for g in range({groups}):
                place = int(kept[room + g*{PART} + n + r])*{rows * lane_count}
                for l in range({rows}):
                    entry = tile[l*{STRIDE} + from_row + n + r]
                    add_row(beside, place + l*{lane_count}, kept, room + {room} + r*{lane_count}, entry)
"""

    def before_derivatives(self, at: Place) -> list[str]:
        """Return lines before the loop over records of the pass for second derivatives."""
        return ["category_slopes(noise, category_table, category_slope, category_bend)"]

    def record_derivatives(self, at: Place, slopes: RecordSlopes, factor: str, *, moved: str) -> list[str]:
        """Return lines that keep what a record's derivatives multiply T'/T with."""
        lines = self._kept_lanes(0, slopes.once, factor)
        if self._is_beside(at):
            lines += self._kept_bends(at, [text for (text,) in slopes.with_scores], factor)
        for n in self._mixed(slopes):
            lines += self._kept_lanes(2 + n, [texts[n] for texts in slopes.mixed], factor)
        return lines

    def part_derivatives(self, at: Place, slopes: RecordSlopes) -> list[str]:
        """Return lines that add what is kept of a part to the sums, and to gradients where these are asked for."""
        size = self.together[-1] * self.lanes
        added = ["add_pairs(many, kept, room, cells, pairs)"]
        if self._is_beside(at):
            added.append("add_beside(from_row, many, kept, room, tile, beside)")
        added += [
            f"add_cells(many, kept, room, {self._set(2 + n)}, cells_of_symbols, {n * size})"
            for n in self._mixed(slopes)
        ]
        return [
            "if is_asked_for:",
            "    product_gradients(X, from_row, many, kept, room, category_slope, own)",
            "if slopes.shape[0] == 0:",
            *("    " + line for line in added),
        ]

    def _is_beside(self, at: Place) -> bool:
        """Whether there are second derivatives by a parameter of the score itself and one of a product."""
        return bool(at.columns.linear) or at.columns.intercept is not None

    def _mixed(self, slopes: RecordSlopes) -> list[int]:
        """Return the symbols of statistics by which and by a product there are second derivatives."""
        each = enumerate(zip(*slopes.mixed, strict=True))
        return [n for n, texts in each if any(text not in ZERO for text in texts)]

    def finish(
        self, at: Place, places: Any, sums: Mapping[str, FloatArray], gradient: FloatArray, out: FloatArray
    ) -> None:
        """Add what the sums give to ``gradient``, ``out`` and ``cross``."""
        slopes, bends, together = sums["category_slope"], sums["category_bend"], sums["cells"]
        row, place = np.array(self.slots).T
        # Of shape (rows, lanes, parameters): the slopes where they belong, and 0 in a last row; then by combinations.
        spread = np.zeros((self.rows[-1] + 1, self.lanes, len(gradient)))
        spread[row, :, place] = slopes
        whole = functools.reduce(np.add, (spread[rows] for rows in self.seen.T))
        cells = np.zeros((self.rows[-1] + 1, self.lanes))
        for rows in self.seen.T:
            np.add.at(cells, rows, together)
        np.add.at(gradient, place, np.einsum("nk,nk->n", cells[row], slopes))
        np.add.at(out, (place, place), np.einsum("nk,nk->n", cells[row], bends))
        beside = sums["beside"].reshape(len(together), len(sums["beside"]) // len(together), self.lanes)
        mixed = np.zeros_like(out)
        mixed[places] += np.tensordot(beside, whole, ([0, 2], [0, 1]))
        for symbol, own in zip(sums["cross"], sums["cells_of_symbols"], strict=True):
            symbol += np.tensordot(own, whole, 2)
        for g, (begin, end) in enumerate(itertools.pairwise(self.together)):
            parameters = sorted(place for b in self.groups[g] for place in self.parameters[b])
            seen, size = self.seen[begin:end], end - begin
            near = spread[:, :, parameters]
            own, others = whole[begin:end, :, parameters], np.zeros((size, self.lanes, len(parameters)))
            pairs = sums["pairs"][self.pair_starts[g] : self.pair_starts[g + 1]]
            mixed[parameters] += self._by_two(own, whole[end:], pairs.reshape(size, len(whole) - end, self.lanes))
            for n in range(1, len(self.groups[g])):
                # A column of the group with those before it.
                others += near[seen[:, n - 1]]
                mixed[np.ix_(parameters, parameters)] += self._by_two(others, near[seen[:, n]], together[begin:end])
        out += mixed + mixed.T

    def _by_two(self, one: FloatArray, other: FloatArray, sums: FloatArray) -> FloatArray:
        """Return second derivatives by parameters of two columns.

        Parameters
        ----------
        one, other : array of shape (rows, lanes, parameters), float64
            The slopes of each.
        sums : array of shape (rows, other rows, lanes) or (rows, lanes), float64
            The sums for what was observed in both, or where each row comes with one other only.
        """
        waves, lane_by_lane = slice(self._wave, self._wave + len(self.real)), np.moveaxis(sums, -1, 0)
        beside = slice(waves.stop, waves.stop + len(self.real))

        def weighted(slopes: Any, moments: Any) -> Any:
            return slopes * moments[..., None, :] if sums.ndim == 2 else slopes @ np.ascontiguousarray(moments)

        # Slopes have the imaginary part with its sign turned.
        left, right = (slopes[:, waves] - 1j * slopes[:, beside] for slopes in (one, other))
        products = weighted(left.transpose(1, 2, 0), lane_by_lane[waves] + 1j * lane_by_lane[beside])
        found: FloatArray = (products @ right.transpose(1, 0, 2)).real.sum(axis=0)
        # Power m of a product of two series: those of both add up to it.
        for m in range(2, len(self.powers) + 1):
            for n in range(1, m):
                found += weighted(one[:, n - 1].T, lane_by_lane[m - 1]) @ other[:, m - n - 1]
        return found


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:place]) for place in range(len(sizes) + 1)]
