"""Columns of categories in losses of waves: products over columns of factors that are looked up by what was observed.

The loss is linear in these products. So all derivatives by the parameters come from sums over records of numbers that
are kept apart by what was observed: in one column for the first ones, in two columns for the second ones. The factors
themselves enter once, at the end.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen.program import BLOCK, STRIDE
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.statistic import ZERO, Collected, Needs, Place, RecordSlopes, Share, Statistic

# Numbers of two columns apart: so many are eight megabytes, which each chunk of records has.
_MOST_PAIRS = 2**20
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
    """

    powers: tuple[sp.Symbol, ...]  # The coefficients of delta, delta^2, ... of the product of power series.
    # The parts of the product for each wave.
    real: tuple[sp.Symbol, ...]
    imaginary: tuple[sp.Symbol, ...]
    positions: tuple[tuple[int, ...], ...]  # For each column and input category the place of its parameter, or -1.
    outputs: tuple[int, ...]  # The number of output categories of each column.

    # ---- sizes -------------------------------------------------------------------------------------------

    @property
    def record_symbols(self) -> tuple[sp.Symbol, ...]:
        """The products: powers, then the real parts of waves, then the imaginary ones."""
        return (*self.powers, *self.real, *self.imaginary)

    @property
    def lanes(self) -> int:
        """How many numbers a product consists of."""
        return len(self.powers) + 2 * len(self.real)

    @property
    def first_pair(self) -> int:
        """The first of them that second derivatives by two columns need: a product of two series begins with 2."""
        return min(1, len(self.powers))

    @functools.cached_property
    def parameters(self) -> tuple[tuple[int, ...], ...]:
        """The places of the parameters of each column."""
        return tuple(tuple(dict.fromkeys(place for place in places if place >= 0)) for places in self.positions)

    @functools.cached_property
    def rows(self) -> list[int]:
        """Where the rows of each column begin, a row for each category that may be observed, and their number."""
        return _starts(self.outputs)

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
        """Where the pairs of each column with the later ones begin, row by row, in rows; and their number."""
        last = self.rows[-1]
        return _starts([m * (last - end) for m, end in zip(self.outputs, self.rows[1:], strict=True)])

    @property
    def is_short(self) -> bool:
        """Whether numbers of two columns apart are few enough to be kept."""
        return self.pair_starts[-1] * (self.lanes - self.first_pair) <= _MOST_PAIRS

    def needs(self, columns: ScoreColumns, number: int) -> Needs:
        """Return the places of frequency, values and weights, a sum for each number of a row, and the codes."""
        numbers = 1 + sum(len(inputs) * (1 + m) for inputs, m in zip(self.positions, self.outputs, strict=True))
        return Needs([("products", numbers)], self.rows[-1] * self.lanes, codes=len(self.outputs))

    # ---- loss and gradient -------------------------------------------------------------------------------

    def share(self, at: Place) -> Share:
        """Return the table of factors, their product for a record, and what sums times slopes add to the gradient."""
        d, waves, lanes = len(self.powers), len(self.real), self.lanes
        tables = [
            f"category_table = np.zeros(({self.rows[-1]}, {lanes}))",
            "category_factors(theta, noise, category_table)",
        ]
        multiply = [
            f"looked[{k}] += " + " + ".join([f"category_table[seen, {k}]", *terms])
            for k in range(d - 1, -1, -1)
            for terms in [[f"looked[{m}]*category_table[seen, {k - 1 - m}]" for m in range(k)]]
        ]
        return Share(
            varying={symbol: f"looked[{n}]" for n, symbol in enumerate(self.record_symbols)},
            functions=self._functions(at),
            before=[*tables, f"looked = np.empty({lanes})"],
            before_slopes=[*tables, f"looked, lanes = np.empty({lanes}), np.empty({lanes})"],
            lookups=[
                f"for n_lane in range({lanes}):",
                f"    looked[n_lane] = 1.0 if {d} <= n_lane < {d + waves} else 0.0",
                f"for b in range({len(self.outputs)}):",
                f"    seen = CATEGORIES[b, 4] + int({self._code(at)})",
                *("    " + line for line in multiply),
                f"    for k in range({d}, looked.shape[0] - {waves}):",
                f"        x, z = category_table[seen, k], category_table[seen, k + {waves}]",
                f"        one, other = looked[k], looked[k + {waves}]",
                "        looked[k] = one*x - other*z",
                f"        looked[k + {waves}] = one*z + other*x",
            ],
            assemble=[
                *tables,
                *self._slope_lines("category_slope", None),
                f"for n in range({len(self.slots)}):",
                f"    first, total_slope = {at.sums} + SLOTS[n, 0]*{lanes}, 0.0",
                f"    for k in range({lanes}):",
                "        total_slope += sums[first + k]*category_slope[n, k]",
                "    gradient[SLOTS[n, 1]] += total_slope",
            ],
        )

    def collect(self, at: Place, slopes: Sequence[str], factor: str, *, enumerated: bool) -> Collected:
        """Return the lines that add what multiplies the factors to the sums of what was observed."""
        return Collected(
            inside=[
                *self._lane_lines("lanes", slopes, factor),
                *self._each_column(
                    at,
                    [
                        f"first_sum = {at.sums} + seen*{self.lanes}",
                        f"summed = sums[first_sum:first_sum + {self.lanes}]",
                    ],
                    "summed[k] += lanes[k]",
                ),
            ]
        )

    def _code(self, at: Place) -> str:
        return f"X[i, {len(at.columns.linear)} + b]"

    def _each_column(self, at: Place, first: Sequence[str], add: str) -> list[str]:
        """Return lines that add something of each lane for each column of record i.

        The compiler does not know how many lanes there are: a few it would write out one by one, not vectorise.
        """
        return [
            f"for b in range({len(self.outputs)}):",
            f"    seen = CATEGORIES[b, 4] + int({self._code(at)})",
            *("    " + line for line in first),
            "    for k in range(lanes.shape[0]):",
            f"        {add}",
        ]

    def _lane_lines(self, name: str, slopes: Sequence[str], factor: str) -> list[str]:
        """Return lines that turn derivatives by products into what multiplies T'/T."""
        texts = [f"{name}[{n}] = " + ("0.0" if text in ZERO else f"({text}){factor}") for n, text in enumerate(slopes)]
        return [*texts, f"turn_lanes(looked, {name})"]

    def _slope_lines(self, slope: str, bend: str | None) -> list[str]:
        """Return lines that fill the table of T'/T, and that of T''/T where there is one."""
        size = f"({len(self.slots)}, {self.lanes})"
        if bend is None:
            return [
                f"{slope}, no_bend = np.zeros({size}), np.zeros((0, {self.lanes}))",
                f"category_slopes(theta, noise, category_table, {slope}, no_bend)",
            ]
        return [f"category_slopes(theta, noise, category_table, {slope}, {bend})"]

    def _functions(self, at: Place) -> str:
        """Return the functions ``category_factors``, ``category_slopes`` and ``turn_lanes`` as text.

        A row of ``CATEGORIES`` describes a column: its numbers of inputs, outputs and parameters, where its constants
        begin in ``noise``, its rows in the table of factors, its inputs in ``INPUTS``, its rows in that of slopes, and
        its pairs with later columns.
        ``INPUTS`` has the parameter of each input, and its number among those of the column; ``SLOTS`` the row and the
        parameter of each slope. Waves are multiples of one, by recurrence.
        """
        d, waves = len(self.powers), len(self.real)
        described, inputs = [], []
        first, start, slot = at.noise + 1, 0, 0
        for b, (places, m) in enumerate(zip(self.positions, self.outputs, strict=True)):
            own = self.parameters[b]
            described.append([len(places), m, len(own), first, self.rows[b], start, slot, self.pair_starts[b]])
            inputs += [[place, own.index(place) if place >= 0 else -1] for place in places]
            first, start, slot = first + len(places) * (1 + m), start + len(places), slot + len(own) * m
        head = f"""    for b in range({len(described)}):
        inputs, outputs, count, first = CATEGORIES[b, 0], CATEGORIES[b, 1], CATEGORIES[b, 2], CATEGORIES[b, 3]
        for a in range(inputs):
            place, own = INPUTS[CATEGORIES[b, 5] + a, 0], INPUTS[CATEGORIES[b, 5] + a, 1]
            scale = noise[first + a]
            value = theta[place]*scale if place >= 0 else 0.0
            cosine, sine = math.cos(noise[{at.noise}]*value), math.sin(noise[{at.noise}]*value)"""
        return f"""
CATEGORIES = np.array({described})
INPUTS = np.array({inputs})
SLOTS = np.array({[list(slot) for slot in self.slots]})


@helper()
def category_factors(theta, noise, table):
{head}
            for c in range(outputs):
                weight, row = noise[first + inputs + c*inputs + a], CATEGORIES[b, 4] + c
                power = weight
                for k in range({d}):
                    power *= value/(k + 1)
                    table[row, k] += power
                x, z = weight, 0.0*value
                for k in range({d}, {d + waves}):
                    x, z = x*cosine - z*sine, x*sine + z*cosine
                    table[row, k] += x
                    table[row, k + {waves}] += z
    for row in range(table.shape[0]):
        for k in range({d}, {d + waves}):
            if table[row, k]*table[row, k] + table[row, k + {waves}]*table[row, k + {waves}] < {_TINY**2!r}:
                table[row, k] = {_TINY!r}
                table[row, k + {waves}] = 0.0


@helper()
def divide(table, row, out, n):
    for k in range(1, {d}):
        for m in range(k):
            out[n, k] -= out[n, m]*table[row, k - 1 - m]
    for k in range({d}, {d + waves}):
        x, z = table[row, k], table[row, k + {waves}]
        size = x*x + z*z
        one, other = out[n, k], out[n, k + {waves}]
        # The imaginary part with its sign turned: products with it are the real part of a product.
        out[n, k] = (one*x + other*z)/size
        out[n, k + {waves}] = (one*z - other*x)/size


@helper()
def category_slopes(theta, noise, table, slope, bend):
{head}
            if own < 0:
                continue
            for c in range(outputs):
                weight, n = noise[first + inputs + c*inputs + a], CATEGORIES[b, 6] + c*count + own
                power = weight*scale
                for k in range({d}):
                    slope[n, k] += power
                    if bend.shape[0] > 0 and k + 1 < {d}:
                        bend[n, k + 1] += power*scale
                    power *= value/(k + 1)
                x, z = weight*scale, 0.0*value
                for k in range({d}, {d + waves}):
                    x, z = x*cosine - z*sine, x*sine + z*cosine
                    rate = (k - {d - 1})*noise[{at.noise}]
                    slope[n, k] -= rate*z
                    slope[n, k + {waves}] += rate*x
                    if bend.shape[0] > 0:
                        bend[n, k] -= rate*rate*scale*x
                        bend[n, k + {waves}] -= rate*rate*scale*z
    for n in range({len(self.slots)}):
        row = SLOTS[n, 0]
        divide(table, row, slope, n)
        if bend.shape[0] > 0:
            divide(table, row, bend, n)


@helper()
def turn_lanes(looked, lanes):
    for m in range({d}):
        for k in range(m + 1, {d}):
            lanes[m] += lanes[k]*looked[k - m - 1]
    for k in range({d}, {d + waves}):
        one, other, x, z = lanes[k], lanes[k + {waves}], looked[k], looked[k + {waves}]
        lanes[k] = one*x + other*z
        lanes[k + {waves}] = one*z - other*x
"""

    # ---- Hessian -----------------------------------------------------------------------------------------

    def record_sums(self, at: Place, fixed: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the sums over records for second derivatives, and of the tables beside them."""
        rows = len(at.columns.linear) + (at.columns.intercept is not None)
        return {
            "cells": (self.rows[-1], self.lanes),
            "pairs": (self.pair_starts[-1], self.lanes - self.first_pair),
            "beside": (self.rows[-1] * rows, self.lanes),
            "cells_of_symbols": (fixed, self.rows[-1], self.lanes),
            **dict.fromkeys(self.of_theta, (len(self.slots), self.lanes)),
        }

    @property
    def of_theta(self) -> tuple[str, ...]:
        """The tables that are no sums over records."""
        return "category_slope", "category_bend"

    def before_derivatives(self, at: Place) -> list[str]:
        """Return lines before the loop over records of the pass for second derivatives."""
        return [
            f"lanes, lanes_of_block = np.empty({self.lanes}), np.empty(({BLOCK}, {self.lanes}))",
            f"rows_of_block = np.empty(({BLOCK}, {len(self.outputs)}), np.int64)",
            *self._slope_lines("category_slope", "category_bend"),
        ]

    def record_derivatives(self, at: Place, slopes: RecordSlopes, factor: str, *, moved: str) -> list[str]:
        """Return lines that add a record's derivatives to the sums, and to its gradient where that is asked for."""
        lanes, columns = self.lanes, len(self.outputs)
        rows = len(at.columns.linear) + (at.columns.intercept is not None)
        lines = [
            *self._lane_lines("lanes", slopes.once, factor),
            "if meat.shape[0] + slopes.shape[0] > 0:",
            f"    for b in range({columns}):",
            f"        first_slot = CATEGORIES[b, 6] + int({self._code(at)})*CATEGORIES[b, 2]",
            "        for n in range(first_slot, first_slot + CATEGORIES[b, 2]):",
            "            part = 0.0",
            "            for k in range(lanes.shape[0]):",
            "                part += lanes[k]*category_slope[n, k]",
            "            moved[SLOTS[n, 1]] += part",
        ]
        added = [
            f"for k in range({lanes}):",
            "    lanes_of_block[i, k] = lanes[k]",
            f"for b in range({columns}):",
            f"    rows_of_block[i, b] = CATEGORIES[b, 4] + int({self._code(at)})",
        ]
        if rows and any(text not in ZERO for (text,) in slopes.with_scores):
            added += [
                *self._lane_lines("lanes", [text for (text,) in slopes.with_scores], factor),
                f"for b in range({columns}):",
                f"    for l in range({rows}):",
                f"        place, entry = rows_of_block[i, b]*{rows} + l, tile[l*{STRIDE} + i]",
                "        for k in range(beside.shape[1]):",
                "            beside[place, k] += entry*lanes[k]",
            ]
        for n, texts in enumerate(zip(*slopes.mixed, strict=True)):
            if all(text in ZERO for text in texts):
                continue
            added += [
                *self._lane_lines("lanes", texts, factor),
                *self._each_column(at, [], f"cells_of_symbols[{n}, seen, k] += lanes[k]"),
            ]
        return [*lines, "if slopes.shape[0] == 0:", *("    " + line for line in added)]

    def block_derivatives(self, at: Place) -> list[str]:
        """Return lines that add what is kept of a block to the sums of one column and of two.

        Column by column: what is added to stays near.
        """
        last, columns = self.rows[-1], len(self.outputs)
        return [
            f"for b in range({columns}):",
            "    for i in range(count):",
            "        seen = rows_of_block[i, b]",
            "        for k in range(cells.shape[1]):",
            "            cells[seen, k] += lanes_of_block[i, k]",
            f"for b in range({columns - 1}):",
            "    later = CATEGORIES[b + 1, 4]",
            "    for i in range(count):",
            "        code = rows_of_block[i, b] - CATEGORIES[b, 4]",
            f"        first_pair = CATEGORIES[b, 7] + code*({last} - later) - later",
            f"        for o in range(b + 1, {columns}):",
            "            place = first_pair + rows_of_block[i, o]",
            "            for k in range(pairs.shape[1]):",
            f"                pairs[place, k] += lanes_of_block[i, k + {self.first_pair}]",
        ]

    def finish(
        self, at: Place, places: Any, sums: Mapping[str, FloatArray], gradient: FloatArray, out: FloatArray
    ) -> None:
        """Add what the sums give to ``gradient``, ``out`` and ``cross``."""
        slopes, bends, cells = sums["category_slope"], sums["category_bend"], sums["cells"]
        row, place = np.array(self.slots).T
        np.add.at(gradient, place, np.einsum("nk,nk->n", cells[row], slopes))
        np.add.at(out, (place, place), np.einsum("nk,nk->n", cells[row], bends))
        # Of shape (rows, lanes, parameters): the slopes where they belong.
        spread = np.zeros((self.rows[-1], self.lanes, len(gradient)))
        spread[row, :, place] = slopes
        beside = sums["beside"].reshape(self.rows[-1], len(sums["beside"]) // self.rows[-1], self.lanes)
        mixed = np.zeros_like(out)
        mixed[places] += np.tensordot(beside, spread, ([0, 2], [0, 1]))
        for symbol, own in zip(sums["cross"], sums["cells_of_symbols"], strict=True):
            symbol += np.tensordot(own, spread, 2)
        for left, right, factor in self._products_of_slopes(sums["pairs"], spread):
            # Of shape (lanes, rows, later rows).
            mixed += np.matmul(np.matmul(left, factor), right).sum(axis=0)
        out += mixed + mixed.T

    def _products_of_slopes(
        self, pairs: FloatArray, spread: FloatArray
    ) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Yield stacks of matrices L, R and M: L M R, summed over the stack, are second derivatives by two columns."""
        d, waves, used = len(self.powers), len(self.real), self.lanes - self.first_pair
        for b, (begin, end) in enumerate(itertools.pairwise(self.rows[:-1])):
            own = pairs[self.pair_starts[b] : self.pair_starts[b + 1]]
            moments = np.moveaxis(own.reshape(end - begin, self.rows[-1] - end, used), 2, 0)
            left, right = spread[begin:end].transpose(1, 2, 0), spread[end:].transpose(1, 0, 2)
            # Power m of a product of two series: those of both add up to it.
            for m in range(2, d + 1):
                for one in range(1, m):
                    yield left[[one - 1]], right[[m - one - 1]], moments[[m - 2]]
            real, imaginary = (moments[used - 2 * waves + k * waves :][:waves] for k in range(2))
            # Slopes have the imaginary part with its sign turned.
            x, z = left[d : d + waves], -left[d + waves :]
            s, t = right[d : d + waves], -right[d + waves :]
            yield from ((x, s, real), (-z, t, real), (-x, t, imaginary), (-z, s, imaginary))


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:place]) for place in range(len(sizes) + 1)]
