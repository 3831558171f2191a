"""Tiles: the records of a part of a batch, copied to where they stay in the cache, in the order in which they come.

Few columns stand one after another in a tile, so that loops over records go along them; many stand as in the data. What
a pass will deal soon is asked for ahead, so that the processor fetches it while it computes.
"""

import textwrap

from symdebias.codegen.program import BLOCK, Program
from symdebias.codegen.score.program import ScoreProgram

# Up to here columns are written one after another for a single pass: for more, turning rows into columns costs more
# than loops over rows, eight at a time (measured at 2 to 50 columns). Passes that read a tile many times turn all that
# are written out.
_MOST_TURNED = 15
# How many rows ahead of each run the processor is asked for, at most, and how many numbers of all of its rows.
_ROWS_AHEAD, _NUMBERS_AHEAD = 8, 512

# In plain Python nothing is asked for ahead.
PREFETCH = '''
def prefetch(typing, array, place):
    """Ask the processor for the cache line of the number at a place of an array, counted in its memory."""

    def asked(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        called = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        line = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        # For reading, into all caches, of data.
        builder.call(called, [line, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, place), asked


prefetch = (lambda array, place: None) if config.DISABLE_JIT else intrinsic(prefetch)
'''
PREFETCH_IMPORTS = """
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
"""


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


def deal_lines(program: Program, *, weighted: bool, is_by_columns: bool) -> str:
    """Return lines that deal the next ``part`` records of the order into the tile, behind the ``filled`` ones.

    The next card is that of the run ``first_run + run``, of ``count`` runs that are dealt together; `BEGIN_DEALING`
    sets what they begin with. Numbers that a run has a few rows further on are asked for.
    """
    p, ahead = program.width, max(1, min(_ROWS_AHEAD, _NUMBERS_AHEAD // program.width))
    vectors = ("y", "weights") if weighted else ("y",)
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
    for n in range(width):
        row = order[np.uint64(first_run + run + n)]*run_length + card + shift
        for i in range(rounds):
            row -= records if row >= records else 0
{_indent(_copy(p, weighted, is_by_columns, "place + i*count + n"), 12)}
            row += 1
        coming = order[np.uint64(follower + n)]*run_length + later + shift
        coming -= records if coming >= records else 0
        # Lines that begin in the rows, and that in which a run begins.
        for line in range((coming*{p} + (0 if later == 0 else 7)) & -8, (coming + rounds)*{p}, 8):
            prefetch(X, line)
        if later == 0 or coming & 7 < rounds:
{_indent(chr(10).join(f"prefetch({vector}, coming)" for vector in vectors), 12)}
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
    copy = _copy(program.width, weighted, is_by_columns, "filled + n")
    return f"""for n in range(part):
    row = first + n
{_indent(copy, 4)}"""


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
