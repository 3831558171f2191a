"""The pass that sums slopes of the loss over records, and the mean gradient that is assembled from the sums."""

from symdebias.codegen.printer import Statements
from symdebias.codegen.program import BLOCK, Piece
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.loop import RecordLoop
from symdebias.codegen.score.statistic import Collected


def accumulate(loop: RecordLoop, statements: Statements, *, weighted: bool) -> Piece:
    """Return the body that adds the gradient sums of rows start to stop, a block at most, to ``sums``.

    Parameters
    ----------
    loop : RecordLoop
        What a record's code is made of.
    statements : Statements
        The slopes in the scores, then those in the symbols of the statistics.
    weighted : bool
        Whether records have weights.
    """
    columns, enumerated = loop.columns, loop.combinations is not None
    _, q, m = columns.sizes
    factor = ("*share" if enumerated else "") + ("*weights[i]" if weighted else "")
    slopes, rest = statements.results[:m], list(statements.results[m:])
    inside = []
    for k, slope in enumerate(slopes):
        inside.append(f"part{k} = ({slope}){factor}")
        inside.append(f"slope{k} {'+' if enumerated else ''}= part{k}")
        if loop.combinations is not None:
            inside.append(f"sums[{loop.combinations[1].sums} + a*{m} + {k}] += part{k}")
    by_symbol: list[str] = []
    collected: list[Collected] = []
    for statistic, at in loop.placed:
        own = [rest.pop(0) for _ in statistic.record_symbols]
        by_symbol += [rest.pop(0) for _ in statistic.symbols]
        collected.append(statistic.collect(at, own, factor, enumerated=enumerated))
    inside += [f"d{n} += ({text}){factor}" for n, text in enumerate(by_symbol)]
    inside += [line for part in collected for line in part.inside]
    reset = [*(f"slope{k} = 0.0" for k in range(m)), *(line for part in collected for line in part.reset)]
    each = [
        *(reset if enumerated else []),
        *loop.each(statements, inside),
        *(line for part in collected for line in part.done),
    ]
    totals = [f"d{n}" for n in range(len(by_symbol))] + [name for part in collected for name in part.totals]
    before = [
        *loop.before(statements, slopes=True),
        *(f"{name} = 0.0" for name in (*totals, *(f"total{k}" for k in range(m)))),
        *(line for part in collected for line in part.before),
    ]
    after = [f"sums[{columns.number_of_parameters + n}] += d{n}" for n in range(len(by_symbol))]
    after += [line for part in collected for line in part.after]
    if columns.intercept is not None:
        after += [f"sums[{k * q + columns.intercept}] += total{k}" for k in range(m)]
    return Piece("\n".join(_in_loops(loop, before, each, after)), statements.functions | loop.called, loop.functions)


def _in_loops(loop: RecordLoop, before: list[str], each: list[str], after: list[str]) -> list[str]:
    """Return loops over records for scores, for slopes and for sums, with what passes between them in ``kept``.

    A loop that reads columns of records and has much to do is not vectorised: apart, the slopes are.
    """
    columns = loop.columns
    scores = range(len(columns.scores))
    summed = _sums_unrolled if columns.is_unrolled else _sums_by_loops
    held = [f"kept[{k * BLOCK} + n]" for k in scores]
    # Numba takes a signed index for one that may count from the end: loops would look up what they read, and ask if
    # what they write lies as far behind an array as that is long.
    every = ["for n in range(stop - start):", "    i = first_row + np.uint64(n)"]
    first, inside, last = summed(columns)
    return [
        *before,
        *first,
        "first_row = np.uint64(start)",
        *every,
        *("    " + line for line in columns.base(unrolled=columns.is_unrolled)),
        *(f"    {place} = base{k}" for k, place in enumerate(held)),
        *every,
        *(f"    base{k} = {place}" for k, place in enumerate(held)),
        *("    " + line for line in (*loop.lookups(), *each)),
        *(f"    {place} = slope{k}" for k, place in enumerate(held)),
        *(f"    total{k} += slope{k}" for k in scores if columns.intercept is not None),
        *every,
        *(f"    slope{k} = {place}" for k, place in enumerate(held)),
        *("    " + line for line in inside),
        *last,
        *after,
    ]


def _sums_unrolled(columns: ScoreColumns) -> tuple[list[str], list[str], list[str]]:
    """Return lines before, in and after a loop that sums slopes times columns, in numbers of their own."""
    p, q, m = columns.sizes
    both = [(k, j) for k in range(m) for j in range(p)]
    return (
        [*columns.unrolled_parameters(), *(f"g{k}_{j} = 0.0" for k, j in both)],
        [f"g{k}_{j} += slope{k}*X[i, {j}]" for k, j in both],
        [f"sums[{k * q + columns.linear[j]}] += g{k}_{j}" for k, j in both],
    )


def _sums_by_loops(columns: ScoreColumns) -> tuple[list[str], list[str], list[str]]:
    """Return the same with loops over columns."""
    p, q, m = columns.sizes
    inside: list[str] = []
    last: list[str] = []
    for k in range(m):
        inside += [f"for j in range({p}):", f"    local[{k}, j] += slope{k}*X[i, j]"]
        last += [f"for j in range({p}):", f"    sums[{k * q} + {columns.place('j')}] += local[{k}, j]"]
    return [f"local = np.zeros(({m}, {p}))"], inside, last


def assemble(loop: RecordLoop) -> Piece:
    """Return the body that makes the mean gradient out of ``sums`` and ``total``."""
    size = loop.columns.number_of_parameters
    lines = [f"for j in range({size}):", "    gradient[j] = sums[j]", *loop.assemble()]
    lines += [f"for j in range({size}):", "    gradient[j] /= total"]
    return Piece("\n".join(lines), loop.called, loop.functions)
