"""Tiles: the records of a part of a batch, copied to where they stay in the cache, in the order in which they come.

Few columns stand one after another in a tile, so that loops over records go along them; many stand as in the data. What
a pass will deal soon is asked for ahead, so that the processor fetches it while it computes.
"""

from typing import Any

import numba
import numpy as np

from symdebias.codegen import vectors
from symdebias.codegen.program import BLOCK, Program, indented
from symdebias.codegen.score.program import ScoreProgram
from symdebias.codegen.workspace import empty

# Up to here columns are written one after another for a single pass: for more, turning rows into columns costs more
# than loops over rows, eight at a time (measured at 2 to 50 columns). Passes that read a tile many times turn all that
# are written out.
_MOST_TURNED = 15
# How many rows ahead of each run the processor is asked for, and numbers of these at most: none beyond the end of a run
# (measured at 2 to 200 columns, into a second-level cache).
_AHEAD, _NUMBERS_AHEAD = 8, 4_096
# How many rows ahead where they are taken as they stand.
_ROWS_AHEAD_IN_ORDER = 256


def by_columns(program: Program, *, is_read_often: bool = False) -> bool:
    """Whether a tile has its columns one after another: loops over records then go along them."""
    # One column is in either order, and Numba takes its array for one in that of rows.
    if program.width == 1 or not (is_read_often or program.width <= _MOST_TURNED):
        return False
    return not isinstance(program, ScoreProgram) or program.columns.is_unrolled


def measures_lengths(program: Program) -> bool:
    """Whether a pass of descent can measure records: their tile is turned, and its columns are those of one score."""
    return (
        isinstance(program, ScoreProgram)
        and by_columns(program)
        and len(program.scores) == 1
        and program.width == len(program.columns.linear)
    )


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


def lengths_text(program: ScoreProgram) -> str:
    """Return a function that keeps the largest squared lengths of the records of a turned tile, place by place.

    A place for each, and no maximum over all of them: so the loop goes along the tile. NaN is longer than nothing.
    """
    columns = range(len(program.columns.linear))
    square = " + ".join(f"tile[i, {j}]*tile[i, {j}]*unit{j}" for j in columns)
    units = "\n".join(f"    unit{j} = units[{j}]" for j in columns)
    return f"""
@helper(fastmath={{"contract", "reassoc"}})
def measure(tile, part, units, longest):
{units}
    for n in range(part):
        i = np.uint64(n)
        square = {square}
        longest[i] = square if square > longest[i] else longest[i]

"""


def deal_lines(program: Program, *, weighted: bool, is_by_columns: bool) -> str:
    """Return lines that deal the next ``part`` records of the order into the tile, behind the ``filled`` ones.

    The next card is that of the run ``first_run + run``, of ``count`` runs that are dealt together; `BEGIN_DEALING`
    sets what they begin with. Numbers that a run has a few rows further on are asked for.
    """
    p, ahead = program.width, max(1, min(_AHEAD, _NUMBERS_AHEAD // program.width))
    asked = ("y", "weights") if weighted else ("y",)
    ask = f"""coming = order[np.uint64(follower + n)]*run_length + later + shift
coming -= records if coming >= records else 0
# Lines that begin in the rows, and that in which a run begins.
for line in range((coming*{p} + behind) & -8, (coming + rounds)*{p}, 8):
    prefetch(X, line)
if later == 0 or coming & 7 < rounds:
{indented(chr(10).join(f"prefetch({vector}, coming)" for vector in asked), 4)}"""
    single = f"""row = order[np.uint64(first_run + run + n)]*run_length + card + shift
for i in range(rounds):
    row -= records if row >= records else 0
{indented(_copy(p, weighted, is_by_columns, "place + i*count + n"), 4)}
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
    copy = _copy(p, weighted, is_by_columns, "filled + n")
    if not is_by_columns:
        return f"""for n in range(part):
    row = first + n
{indented(copy, 4)}"""
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
{indented(copy, 4)}"""


def _turn(weighted: bool) -> str:
    """Return lines that turn eight rows into columns, from the place ``to`` of the tile on."""
    weight = "\nturn_numbers(tile_weights, to, weights, eight_rows)" if weighted else ""
    return f"turn_rows(tile, to, X, eight_rows)\nturn_numbers(tile_targets, to, y, eight_rows){weight}"


def _copy(columns: int, weighted: bool, is_by_columns: bool, place: str) -> str:
    """Return lines that copy a row to a place of the tile."""
    entry = "tile[j, to]" if is_by_columns else "tile[to, j]"
    weight = "\ntile_weights[to] = weights[taken]" if weighted else ""
    # Without a sign an index need not be looked at: it might count from the end.
    return f"""to, taken = np.uint64({place}), np.uint64(row)
for j in range({columns}):
    {entry} = X[taken, j]
tile_targets[to] = y[taken]{weight}"""
