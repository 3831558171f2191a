"""Tiles: the records of a part of a batch, copied to where they stay in the cache, in the order in which they come.

In a tile columns stand one after another where loops over records go along them, and else as in the data. What a pass
will deal soon is asked for ahead, so that the processor fetches it while it computes.
"""

from typing import Any, TypeGuard

import numba
import numpy as np

from symdebias.codegen import vectors
from symdebias.codegen.program import BLOCK, Program, indented
from symdebias.codegen.score.program import ScoreProgram
from symdebias.codegen.workspace import empty

# Up to here columns are written one after another for a single pass, and fewer where it could sum along rows (measured
# at 2 to 16 columns, with vectors of 256 and 512 bits): for more, turning rows into columns costs more than loops over
# rows. Passes that read a tile many times turn all that are written out.
_MOST_TURNED, _MOST_TURNED_OF_SCORES = 15, 8
# The lengths of records with more columns tell little of their scores.
_MOST_MEASURED = 15
# How many rows ahead of each run the processor is asked for, and numbers of these at most: none beyond the end of a run
# (measured at 2 to 200 columns, into a second-level cache).
_AHEAD, _NUMBERS_AHEAD = 8, 4_096
# How many rows ahead where they are taken as they stand.
_ROWS_AHEAD_IN_ORDER = 256


def by_columns(program: Program, *, is_read_often: bool = False) -> bool:
    """Whether a tile has its columns one after another: loops over records then go along them."""
    # One column is in either order, and Numba takes its array for one in that of rows.
    if program.width == 1:
        return False
    most = _MOST_TURNED_OF_SCORES if _has_scores_alone(program) else _MOST_TURNED
    is_written_out = not isinstance(program, ScoreProgram) or program.columns.is_unrolled
    return is_written_out and (is_read_often or program.width <= most)


def _has_scores_alone(program: Program) -> TypeGuard[ScoreProgram]:
    """Whether all columns are those of scores, and are summed along rows; others are read in loops over records."""
    if not isinstance(program, ScoreProgram):
        return False
    return program.columns.is_along_rows and program.width == len(program.columns.linear)


def measures_lengths(program: Program) -> bool:
    """Whether a pass of descent can measure records: their columns are those of one score, and not many."""
    return _has_scores_alone(program) and len(program.scores) == 1 and program.width <= _MOST_MEASURED


def measure_lines(program: Program, rows: str) -> str:
    """Return lines that measure the ``part`` records of an array from row ``first`` on: ``longest`` has the largest.

    Parameters
    ----------
    program : Program
        One whose pass `measures_lengths`.
    rows : str
        The name of the array.
    """
    if not by_columns(program):
        return f"measure_rows(longest, units, {rows}, first, part)"
    length = " + ".join(f"units[{j}]*{rows}[first + n, {j}]*{rows}[first + n, {j}]" for j in range(program.width))
    # NaN is longer than nothing.
    return f"""for n in range(part):
    length = {length}
    longest[n] = length if length > longest[n] else longest[n]"""


# What a kernel that fills tiles takes for them.
ARGUMENTS = "tile, tile_targets, tile_weights, read_tile, read_targets, read_weights, eight_rows"
BEGIN_DEALING = """records = X.shape[0]
dealt = order.shape[0]*run_length
first_run = count = card = run = 0
if begin < dealt:
    first_run = begin//(runs*run_length)*runs
    count = min(runs, order.shape[0] - first_run)
    card = (begin - first_run*run_length)//count
    run = begin - first_run*run_length - card*count"""


def workspace(program: Program, *, weighted: bool, is_by_columns: bool) -> tuple[Any, ...]:
    """Return what stands for `ARGUMENTS`: a tile with targets and weights, the same as what is read only, and rows."""
    shape = (program.width, BLOCK) if is_by_columns else (BLOCK, program.width)
    tile, targets, weights = empty(shape, (BLOCK,), (BLOCK if weighted else 0,))
    # Twice what is written and read: as what is read only, it has one type for all calls of a function.
    return tile, targets, weights, tile.T if is_by_columns else tile, targets, weights, np.empty(8, dtype=np.int64)


def workspace_types(*, is_by_columns: bool) -> tuple[Any, ...]:
    """Return the Numba types of what `workspace` returns."""
    number = numba.float64
    vector, given = (numba.types.Array(number, 1, "C", readonly=is_given) for is_given in (False, True))
    tile, turned = (numba.types.Array(number, 2, order, readonly=True) for order in "CF")
    written, rows = numba.types.Array(number, 2, "C"), numba.types.Array(numba.int64, 1, "C")
    return written, vector, vector, turned if is_by_columns else tile, given, given, rows


def functions_text(program: Program) -> str:
    """Return the functions that lines which fill a tile call."""
    return vectors.text(program.width, BLOCK)


def deal_lines(program: Program, *, weighted: bool, is_by_columns: bool) -> str:
    """Return lines that deal the next ``part`` records of the order into the tile, behind the ``filled`` ones.

    The next card is that of the run ``first_run + run``, of ``count`` runs that are dealt together; `BEGIN_DEALING`
    sets what they begin with. Numbers that a run has a few rows further on are asked for.
    """
    p, ahead = program.width, max(1, min(_AHEAD, _NUMBERS_AHEAD // program.width))
    asked = ("y", "weights") if weighted else ("y",)
    # As many lines for each run: those that begin in the rows, and that in which a run begins. Rounds are not longer
    # than a line of targets, wherever their array begins in one: that of the last is asked for.
    ask = f"""coming = order[np.uint64(follower + n)]*run_length + later + shift
coming -= records if coming >= records else 0
line = (coming*{p} + behind) & -8
for k in range((rounds*{p} + 14 - behind)//8):
    prefetch(X, line + 8*k)
{chr(10).join(f"prefetch({vector}, coming + rounds - 1)" for vector in asked)}
if later == 0:
{indented(chr(10).join(f"prefetch({vector}, coming)" for vector in asked), 4)}"""
    place = "place + i*count + n"
    copy = _copy_turned(p, weighted, place) if is_by_columns else _copied(place, "row", "1", weighted)
    single = f"""row = order[np.uint64(first_run + run + n)]*run_length + card + shift
for i in range(rounds):
    row -= records if row >= records else 0
{indented(copy, 4)}
    row += 1"""
    taken = f"""for n in range(width):
{indented(single, 4)}
{indented(ask, 4)}"""
    if is_by_columns:
        taken = f"""for eight in range(0, width, 8):
    at, end = first_run + run + eight, min(eight + 8, width)
    if eight + 8 <= width:
        for k in range(8):
            eight_rows[k] = order[np.uint64(at + k)]*run_length + card + shift
        for i in range(rounds):
            for k in range(8):
                eight_rows[k] -= records if eight_rows[k] >= records else 0
            to = place + i*count + eight
{indented(_turn(weighted), 12)}
            for k in range(8):
                eight_rows[k] += 1
    else:
        for n in range(eight, end):
{indented(single, 12)}
    for n in range(eight, end):
{indented(ask, 8)}"""
    return f"""last = filled + part
place = filled
while place < last:
    # Whole rounds of cards where there are some, else a part of one.
    width, rounds = min(count - run, last - place), 1
    if width == count:
        rounds = min((last - place)//count, run_length - card)
    # The same runs are read again {ahead} rows further on, or those that take their places are.
    later, follower = card + {ahead}, first_run + run
    if later >= run_length:
        later -= run_length
        if first_run + runs + run + width <= order.shape[0]:
            follower += runs
    behind = 0 if later == 0 else 7
{indented(taken, 4)}
    place += rounds*width
    run += width
    if run == count:
        run = 0
        card += rounds
        if card == run_length:
            card = 0
            first_run += runs
            count = min(runs, order.shape[0] - first_run)"""


def rows_lines(program: Program, *, weighted: bool, is_by_columns: bool) -> str:
    """Return lines that copy ``part`` records from row ``first`` on into the tile, behind the ``filled`` ones."""
    p = program.width
    if not is_by_columns:
        return _copied("filled", "first", "part", weighted)
    return f"""turned = part//8*8
for n in range(0, turned, 8):
    row = first + n
    to = filled + n
    for k in range(8):
        eight_rows[k] = row + k
{indented(_turn(weighted), 4)}
    for line in range({p}):
        prefetch(X, (row + {_ROWS_AHEAD_IN_ORDER})*{p} + 8*line)
for n in range(turned, part):
    row = first + n
{indented(_copy_turned(p, weighted, "filled + n"), 4)}"""


def _copied(to: str, row: str, count: str, weighted: bool) -> str:
    """Return lines that copy rows that follow on one another to the tile."""
    weight = f"\ncopy_numbers(tile_weights, {to}, weights, {row}, {count})" if weighted else ""
    return f"""copy_rows(tile, {to}, X, {row}, {count})
copy_numbers(tile_targets, {to}, y, {row}, {count}){weight}"""


def _turn(weighted: bool) -> str:
    """Return lines that turn eight rows into columns, from the place ``to`` of the tile on."""
    weight = "\nturn_numbers(tile_weights, to, weights, eight_rows)" if weighted else ""
    return f"turn_rows(tile, to, X, eight_rows)\nturn_numbers(tile_targets, to, y, eight_rows){weight}"


def _copy_turned(columns: int, weighted: bool, place: str) -> str:
    """Return lines that turn a row to a place of the tile."""
    weight = "\ntile_weights[to] = weights[taken]" if weighted else ""
    # Without a sign an index need not be looked at: it might count from the end.
    return f"""to, taken = np.uint64({place}), np.uint64(row)
for j in range({columns}):
    tile[j, to] = X[taken, j]
tile_targets[to] = y[taken]{weight}"""
