"""The pass that sums clipped gradients of records, for losses without noise in them."""

from symdebias.codegen.printer import Statements
from symdebias.codegen.program import BLOCK, Piece, clipped_share, norm
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.loop import RecordLoop

# Two rows of so many scores have their sums in registers (measured from 1 to 10 scores and 1 to 4 rows).
_SCORES_AT_ONCE = 5


def accumulate_clipped(loop: RecordLoop, statements: Statements) -> Piece:
    """Return the body that adds the clipped gradients of ``rows[start:stop]`` to ``sums``; for plain losses.

    The gradient of a record is the outer product of its slopes and its row, with the norm of the one times that of
    the other: nothing but its slopes is kept of it. Each entry of it is rounded to a whole number of grains before it
    is added (``fine`` of them are 1), so that ``sums`` are whole numbers, exact up to 2^53 in any order.
    """
    assert not loop.all_symbols
    assert loop.combinations is None
    columns = loop.columns
    m = len(columns.scores)
    lines = [
        *loop.before(statements),
        f"kept = np.empty(({m}, {BLOCK}))",
        "count = stop - start",
        *_score_rows(columns),
        "for place in range(count):",
        "    i = rows[start + place]",
        *(f"    base{k} = kept[{k}, place]" for k in range(m)),
        *("    " + line for line in (*loop.lookups(), *loop.each(statements, []))),
        *(f"    slope{k} = {text}" for k, text in enumerate(statements.results[:m])),
        *("    " + line for line in clipped_share(f"norms[i]*{norm([f'slope{k}' for k in range(m)])}")),
        *(f"    kept[{k}, place] = share*slope{k} if share > 0.0 else 0.0" for k in range(m)),
        *_add_rows(columns),
    ]
    return Piece("\n".join(lines), statements.functions)


def _score_rows(columns: ScoreColumns) -> list[str]:
    """Return lines that fill ``kept`` with the scores of ``rows[start:stop]``, two rows and some scores at a time.

    So many sums are in registers at once that a load of a parameter or a column serves several of them.
    """
    p, q, m = columns.sizes
    lines: list[str] = []
    for scores in _groups(m):
        lines += [
            "for place in range(0, count, 2):",
            # The last row of an odd number is taken twice.
            "    other = min(place + 1, count - 1)",
            "    left, right = X[rows[start + place]], X[rows[start + other]]",
        ]
        for k in scores:
            begin = "0.0" if columns.intercept is None else f"theta[{k * q + columns.intercept}]"
            lines.append(f"    a{k} = b{k} = {begin}")
        lines += [f"    for j in range({p}):"]
        for k in scores:
            lines += [
                f"        weight = {columns.theta(k, 'j')}",
                f"        a{k} += weight*left[j]",
                f"        b{k} += weight*right[j]",
            ]
        lines += [f"    kept[{k}, other], kept[{k}, place] = b{k}, a{k}" for k in scores]
    return lines


def _add_rows(columns: ScoreColumns) -> list[str]:
    """Return lines that add the rows to ``sums``, each times what is ``kept`` of it, taken as by `_score_rows`."""
    p, q, m = columns.sizes
    place = columns.place("j")
    lines: list[str] = []
    for scores in _groups(m):
        lines += [
            "for place in range(0, count - 1, 2):",
            "    left, right = X[rows[start + place]], X[rows[start + place + 1]]",
            *(f"    a{k}, b{k} = kept[{k}, place], kept[{k}, place + 1]" for k in scores),
            f"    for j in range({p}):",
            *(f"        sums[{k * q} + {place}] += np.rint(a{k}*left[j]) + np.rint(b{k}*right[j])" for k in scores),
            "if count % 2 == 1:",
            "    left = X[rows[stop - 1]]",
            *(f"    a{k} = kept[{k}, count - 1]" for k in scores),
            f"    for j in range({p}):",
            *(f"        sums[{k * q} + {place}] += np.rint(a{k}*left[j])" for k in scores),
        ]
    if columns.intercept is not None:
        lines.append("for place in range(count):")
        lines += [f"    sums[{k * q + columns.intercept}] += np.rint(kept[{k}, place])" for k in range(m)]
    return lines


def _groups(scores: int) -> list[range]:
    return [range(first, min(first + _SCORES_AT_ONCE, scores)) for first in range(0, scores, _SCORES_AT_ONCE)]
