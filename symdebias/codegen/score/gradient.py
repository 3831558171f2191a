"""The pass that sums slopes of the loss over records, and the mean gradient that is assembled from the sums."""

from symdebias.codegen.printer import Statements
from symdebias.codegen.program import BLOCK, Piece
from symdebias.codegen.score.loop import RecordLoop
from symdebias.codegen.score.statistic import Collected


def accumulate(loop: RecordLoop, statements: Statements, *, weighted: bool) -> Piece:
    """Return the body that adds the gradient sums of rows start to stop to ``sums``.

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
    lines = (_unrolled if columns.is_unrolled else _looped)(loop, before, each, after)
    return Piece("\n".join(lines), statements.functions | loop.called, loop.functions)


def _unrolled(loop: RecordLoop, before: list[str], each: list[str], after: list[str]) -> list[str]:
    """Return one loop over records, with loops over columns written out."""
    columns = loop.columns
    p, q, m = columns.sizes
    both = [(k, j) for k in range(m) for j in range(p)]
    inside = [
        *columns.base(unrolled=True),
        *loop.lookups(),
        *each,
        *(f"g{k}_{j} += slope{k}*X[i, {j}]" for k, j in both),
        *(f"total{k} += slope{k}" for k in range(m) if columns.intercept is not None),
    ]
    return [
        *before,
        *columns.unrolled_parameters(),
        *(f"g{k}_{j} = 0.0" for k, j in both),
        "for i in range(start, stop):",
        *("    " + line for line in inside),
        *(f"sums[{k * q + columns.linear[j]}] += g{k}_{j}" for k, j in both),
        *after,
    ]


def _looped(loop: RecordLoop, before: list[str], each: list[str], after: list[str]) -> list[str]:
    """Return loops over records for scores, slopes and sums, with what passes between them in ``kept``."""
    columns = loop.columns
    p, q, m = columns.sizes
    lines = [*before, f"kept = np.empty(({m}, {BLOCK}))", f"local = np.zeros(({m}, {p}))"]
    lines.append("for i in range(start, stop):")
    lines += ["    " + line for line in columns.base(unrolled=False)]
    lines += [f"    kept[{k}, i - start] = base{k}" for k in range(m)]
    lines.append("for i in range(start, stop):")
    lines += [f"    base{k} = kept[{k}, i - start]" for k in range(m)]
    lines += ["    " + line for line in (*loop.lookups(), *each)]
    lines += [f"    kept[{k}, i - start] = slope{k}" for k in range(m)]
    lines += [f"    total{k} += slope{k}" for k in range(m)]
    lines.append("for i in range(start, stop):")
    for k in range(m):
        lines += [
            f"    slope{k} = kept[{k}, i - start]",
            f"    for j in range({p}):",
            f"        local[{k}, j] += slope{k}*X[i, j]",
        ]
    for k in range(m):
        lines += [f"for j in range({p}):", f"    sums[{k * q} + {columns.place('j')}] += local[{k}, j]"]
    return [*lines, *after]


def assemble(loop: RecordLoop) -> Piece:
    """Return the body that makes the mean gradient out of ``sums`` and ``total``."""
    size = loop.columns.number_of_parameters
    lines = [f"for j in range({size}):", "    gradient[j] = sums[j]", *loop.assemble()]
    lines += [f"for j in range({size}):", "    gradient[j] /= total"]
    return Piece("\n".join(lines), loop.called, loop.functions)
