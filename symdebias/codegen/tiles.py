"""Tiles: the records of a part of a batch, copied to where they stay in the cache, in the order in which they come.

Few columns stand one after another in a tile, so that loops over records go along them; many stand as in the data. What
a pass will deal soon is asked for ahead, so that the processor fetches it while it computes.
"""

import textwrap

from symdebias.codegen import vectors
from symdebias.codegen.program import BLOCK, Program
from symdebias.codegen.score.program import ScoreProgram

# Up to here columns are written one after another for a single pass: for more, turning rows into columns costs more
# than loops over rows, eight at a time (measured at 2 to 50 columns). Passes that read a tile many times turn all that
# are written out.
_MOST_TURNED = 15
# How many rows ahead of each run the processor is asked for, at least and at most, and about how many numbers: some ten
# kilobytes of all runs are under way, less than a first-level cache has (measured at 2, 10 and 50 columns).
_FEWEST_AHEAD, _MOST_AHEAD, _NUMBERS_AHEAD = 4, 16, 200
# How many rows ahead where they are taken as they stand.
_ROWS_AHEAD_IN_ORDER = 256

def by_columns(program: Program, *, is_read_often: bool = False) -> bool:
    """Whether a tile has its columns one after another: loops over records then go along them."""
    # One column is in either order, and Numba takes its array for one in that of rows.
    if program.width == 1 or not (is_read_often or program.width <= _MOST_TURNED):
        return False
    return not isinstance(program, ScoreProgram) or program.columns.is_unrolled


def tile_shape(program: Program, *, is_by_columns: bool) -> tuple[int, int]:
    """Return the shape of the array that a tile is written to."""
    return (program.width, BLOCK) if is_by_columns else (BLOCK, program.width)


BEGIN_DEALING = """records = X.shape[0]
dealt = order.shape[0]*run_length
first_run, count, card, run = 0, 0, 0, 0
if begin < dealt:
    first_run = begin//(runs*run_length)*runs
    count = order.shape[0] - first_run
    count = runs if runs < count else count
    card = (begin - first_run*run_length)//count
    run = begin - first_run*run_length - card*count"""


def functions_text(program: Program) -> str:
    """Return the functions that lines which fill a tile call."""
    return vectors.text(program.width, BLOCK)


def deal_lines(program: Program, *, weighted: bool, is_by_columns: bool) -> str:
    """Return lines that deal the next ``part`` records of the order into the tile, behind the ``filled`` ones.

    The next card is that of the run ``first_run + run``, of ``count`` runs that are dealt together; `BEGIN_DEALING`
    sets what they begin with. Numbers that a run has a few rows further on are asked for.
    """
    p, ahead = program.width, max(_FEWEST_AHEAD, min(_MOST_AHEAD, _NUMBERS_AHEAD // program.width))
    asked = ("y", "weights") if weighted else ("y",)
    ask = f"""coming = order[np.uint64(follower + n)]*run_length + later + shift
coming -= records if coming >= records else 0
# Lines that begin in the rows, and that in which a run begins.
for line in range((coming*{p} + (0 if later == 0 else 7)) & -8, (coming + rounds)*{p}, 8):
    prefetch(X, line)
if later == 0 or coming & 7 < rounds:
{_indent(chr(10).join(f"prefetch({vector}, coming)" for vector in asked), 4)}"""
    single = f"""row = order[np.uint64(first_run + run + n)]*run_length + card + shift
for i in range(rounds):
    row -= records if row >= records else 0
{_indent(_copy(p, weighted, is_by_columns, "place + i*count + n"), 4)}
    row += 1"""
    taken = f"""for n in range(width):
{_indent(single, 4)}
{_indent(ask, 4)}"""
    if is_by_columns:
        numbers = range(8)
        begin = chr(10).join(f"r{k} = order[np.uint64(at + {k})]*run_length + card + shift" for k in numbers)
        within = chr(10).join(f"r{k} -= records if r{k} >= records else 0" for k in numbers)
        onwards = chr(10).join(f"r{k} += 1" for k in numbers)
        taken = f"""for eight in range(0, width, 8):
    at, end = first_run + run + eight, eight + 8 if eight + 8 < width else width
    if eight + 8 <= width:
{_indent(begin, 8)}
        for i in range(rounds):
{_indent(within, 12)}
            to = place + i*count + eight
{_indent(_turn(weighted, [f"r{k}" for k in numbers]), 12)}
{_indent(onwards, 12)}
    else:
        for n in range(eight, end):
{_indent(single, 12)}
    for n in range(eight, end):
{_indent(ask, 8)}"""
    return f"""last = filled + part
place = filled
while place < last:
    # Whole rounds of cards where there are some, else a part of one.
    width = count - run if count - run < last - place else last - place
    rounds = (last - place)//count if width == count else 1
    rounds = rounds if rounds < run_length - card else run_length - card
    # The same runs are read again {ahead} rows further on, or those that take their places are.
    later, follower = card + {ahead}, first_run + run
    if later >= run_length:
        later -= run_length
        follower = first_run + runs + run
        follower = follower if follower + width <= order.shape[0] else first_run + run
{_indent(taken, 4)}
    place += rounds*width
    run += width
    if run == count:
        run = 0
        card += rounds
        if card == run_length:
            card = 0
            first_run += runs
            count = order.shape[0] - first_run
            count = runs if runs < count else count"""


def rows_lines(program: Program, *, weighted: bool, is_by_columns: bool) -> str:
    """Return lines that copy ``part`` records from row ``first`` on into the tile, behind the ``filled`` ones."""
    p = program.width
    copy = _copy(p, weighted, is_by_columns, "filled + n")
    if not is_by_columns:
        return f"""for n in range(part):
    row = first + n
{_indent(copy, 4)}"""
    return f"""turned = part//8*8
for n in range(0, turned, 8):
    row = first + n
    to = filled + n
{_indent(_turn(weighted, [f"row + {k}" for k in range(8)]), 4)}
    for line in range({p}):
        prefetch(X, (row + {_ROWS_AHEAD_IN_ORDER})*{p} + 8*line)
for n in range(turned, part):
    row = first + n
{_indent(copy, 4)}"""


def _turn(weighted: bool, rows: list[str]) -> str:
    """Return lines that turn eight rows into columns, from the place ``to`` of the tile on."""
    eight = ", ".join(rows)
    weight = f"\nturn_numbers(tile_weights, to, weights, {eight})" if weighted else ""
    return f"turn_rows(tile, to, X, {eight})\nturn_numbers(tile_targets, to, y, {eight}){weight}"


def _copy(columns: int, weighted: bool, is_by_columns: bool, place: str) -> str:
    """Return lines that copy a row to a place of the tile."""
    entry = "tile[j, to]" if is_by_columns else "tile[to, j]"
    weight = "\ntile_weights[to] = weights[taken]" if weighted else ""
    # Without a sign an index need not be looked at: it might count from the end.
    return f"""to, taken = np.uint64({place}), np.uint64(row)
for j in range({columns}):
    {entry} = X[taken, j]
tile_targets[to] = y[taken]{weight}"""


def _indent(text: str, by: int) -> str:
    return textwrap.indent(text, " " * by)
