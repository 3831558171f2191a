"""The pass that sums slopes of the loss over records, and the mean gradient that is assembled from the sums."""

import re
from collections.abc import Iterable, Sequence

from symdebias.codegen import along_rows
from symdebias.codegen.printer import FEWEST_APART, Statements
from symdebias.codegen.program import BLOCK, PART, Piece, spared
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.loop import RecordLoop
from symdebias.codegen.score.statistic import Collected

# Rows whose sums do not stand in registers are taken several at a time, as many as there are scores for, and loops over
# their columns are vectorised.
_ROWS_AT_A_TIME = 8
# Those of up to so many columns, read where they stand, are asked for ahead: of more a processor has enough to do with
# those under way. Where a part of the records has so many numbers at most, the next one is asked for: a third of it
# while scores are computed, which takes a third of the time, and the rest while sums are. Of a longer one the rows are
# that are so many ahead (measured at 16 to 1,000 columns).
_MOST_ASKED_FOR, _NUMBERS_AHEAD, _ROWS_AHEAD = 512, 2**16, 32
# So many numbers that are the same for all records, and waves, do not stand in the registers of one loop.
_MANY_COEFFICIENTS = 16
# The slopes in so many symbols of statistics are kept.
_MOST_KEPT = 32


def accumulate(loop: RecordLoop, statements: Statements, *, weighted: bool, by_columns: bool = False) -> Piece:
    """Return the body that adds the gradient sums of rows start to stop, a block at most, to ``sums``.

    Parameters
    ----------
    loop : RecordLoop
        What a record's code is made of.
    statements : Statements
        The slopes in the scores, then those in the symbols of the statistics.
    weighted : bool
        Whether records have weights.
    by_columns : bool
        Whether the columns of X stand one after another, and not its rows.
    """
    columns, enumerated = loop.columns, loop.combinations is not None
    _, q, m = columns.sizes
    factor = ("*share" if enumerated else "") + ("*weights[i]" if weighted else "")
    slopes, rest = statements.results[:m], list(statements.results[m:])
    inside = []
    for k, slope in enumerate(slopes):
        inside.append(f"part{k} = ({slope}){factor}")
        inside.append(f"slope{k} {'+' if enumerated else ''}= part{k}")
        if enumerated:
            inside.append(f"shifted{k} += part{k}")
    by_symbol: list[str] = []
    collected: list[Collected] = []
    for statistic, at in loop.placed:
        own = [rest.pop(0) for _ in statistic.record_symbols]
        by_symbol += [rest.pop(0) for _ in statistic.symbols]
        collected.append(statistic.collect(at, own, factor, enumerated=enumerated))
    for n, text in enumerate(by_symbol):
        if _is_kept(loop):
            inside += [f"turn{n} = ({text}){factor}", f"{_kept(loop, n)} = turn{n}", f"d{n} += turn{n}"]
        else:
            inside.append(f"d{n} += ({text}){factor}")
    inside += [line for part in collected for line in part.inside]
    constants: list[str] = []
    done = [line for part in collected for line in part.done]
    if enumerated:
        middle = _over_combinations(loop, statements, inside, done, _accumulated(loop))
    elif _wave_lines(loop, statements):
        middle = _over_records(loop, _in_turns(loop, statements, inside))
    elif loop.is_in_parts:
        each = [*loop.lookups(), *loop.each(statements, [*inside, *done])]
        constants, read, each = loop.apart(each, loop.room())
        middle = [
            "many = stop - start",
            *loop.of_part(slopes=True),
            *_EVERY,
            *("    " + line for line in read),
            *_over_records(loop, [each]),
            *(line for part in collected for line in part.of_part),
        ]
    else:
        middle = _over_records(loop, [[*loop.lookups(), *loop.each(statements, inside), *done]])
    totals = [f"d{n}" for n in range(len(by_symbol))] + [name for part in collected for name in part.totals]
    before = [
        *_exponentials_at_once(loop.before(statements, slopes=True), _place_of_exponentials(loop, statements)),
        *(f"{name} = 0.0" for name in (*totals, *(f"total{k}" for k in range(m)))),
        *(line for part in collected for line in part.before),
        *constants,
        *([f"room = {_place_of_room(loop, statements)}"] if loop.is_in_parts else []),
    ]
    after = [f"sums[{columns.number_of_parameters + n}] += d{n}" for n in range(len(by_symbol))]
    after += [line for part in collected for line in part.after]
    if columns.intercept is not None:
        after += [f"sums[{k * q + columns.intercept}] += total{k}" for k in range(m)]
    place = _place_of_sums(loop, statements)
    lines = _in_loops(loop, before, middle, after, place, by_columns=by_columns)
    functions = loop.functions
    if columns.is_along_rows and not by_columns:
        functions += along_rows.text(len(columns.linear), loop.width)
    return Piece(spared(lines), statements.functions | loop.called, functions)


def numbers_kept(loop: RecordLoop, statements: Statements) -> int:
    """Return how many numbers are kept of a block.

    They are scores and then slopes, the slopes in the symbols of statistics where these and the columns make all of a
    gradient, what is summed over combinations of categories and the weights of these, waves, what statistics keep of
    a part of the block, the sums of slopes times columns, and exponentials that are the same for all records, by
    eights.
    """
    _, found, _ = _parted(statements.setup)
    return _place_of_exponentials(loop, statements) + -(-len(found) // 8) * 8


def _place_of_exponentials(loop: RecordLoop, statements: Statements) -> int:
    p, _, m = loop.columns.sizes
    return -(-(_place_of_sums(loop, statements) + m * p) // 8) * 8


def _parted(lines: Sequence[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Return lines without exponentials, the arguments of those that have lines of their own by names, and the rest."""
    found: dict[str, str] = {}
    first, last = [], []
    waiting: set[str] = set()
    for line in lines:
        name, _, value = line.partition(" = ")
        exponential = re.fullmatch(r"exp\((.*)\)", value)
        if waiting & set(re.findall(r"\bh\d+\b", value)):
            last.append(line)
        elif exponential is not None:
            found[name] = exponential[1]
        else:
            first.append(line)
            continue
        waiting.add(name)
    return (first, found, last) if len(found) >= FEWEST_APART else (list(lines), {}, [])


def _exponentials_at_once(lines: list[str], start: int) -> list[str]:
    """Return lines that take exponentials which are the same for all records in one loop, which is vectorised.

    They are kept from a place on, up to the end. That the compiler does not know how many there are keeps it from
    writing them out one by one.
    """
    first, found, last = _parted(lines)
    if not found:
        return first
    return [
        *first,
        *(f"kept[{start + n}] = {value}" for n, value in enumerate(found.values())),
        f"for n in range({start + len(found)}, kept.shape[0]):",
        "    kept[n] = 0.0",
        f"for n in range({start}, kept.shape[0]):",
        "    kept[n] = exp(kept[n])",
        *(f"{name} = kept[{start + n}]" for n, name in enumerate(found)),
        *last,
    ]


def _wave_lines(loop: RecordLoop, statements: Statements) -> list[str]:
    """Return the lines that compute sines and cosines, where they have a loop of their own.

    Slopes with so many coefficients in one loop leave a processor no registers: it would fetch each coefficient eight
    times over for every eight records.
    """
    waves = [line for line in statements.record if re.match(r"r\d+ = wave\(", line)]
    used = set(re.findall(r"\b(?:h\d+|noise\[\d+\])", "\n".join([*statements.record, *statements.results])))
    is_plain = _is_kept(loop) and not loop.lookups() and len(loop.columns.scores) == 1
    return waves if is_plain and len(used) >= _MANY_COEFFICIENTS else []


def _in_turns(loop: RecordLoop, statements: Statements, inside: Sequence[str]) -> list[list[str]]:
    """Return lines of several loops: of waves, of the slopes in each symbol of a statistic, and of those in the score.

    Of the lines of a record each has those that it needs. The slopes in the score come last: they take its place.
    """
    first = _place_of_waves(loop)
    waves = {line.partition(" = ")[0]: line for line in _wave_lines(loop, statements)}
    places = {name: f"kept[{first + k * BLOCK} + n]" for k, name in enumerate(waves)}
    known = [f"{name} = {places[name]}" if name in waves else line for name, line in _named(statements.record)]
    slopes = [line for line in inside if line.startswith(("part", "slope"))]
    turns = [
        [line for line in inside if line not in slopes and re.search(rf"\bturn{n}\b", line)]
        for n in range(len(loop.symbols))
    ]
    score = [f"score{k} = base{k}" for k in range(len(loop.columns.scores))]
    return [
        [*score, *_needed(statements.record, waves.values()), *(f"{place} = {name}" for name, place in places.items())],
        *([*score, *_needed(known, lines), *lines] for lines in (*turns, slopes)),
    ]


def _named(lines: Iterable[str]) -> list[tuple[str, str]]:
    return [(line.partition(" = ")[0], line) for line in lines]


def _needed(lines: Sequence[str], by: Iterable[str]) -> list[str]:
    """Return those of a record's lines that some of them or further ones need, in order."""
    wanted = set(re.findall(r"\br\d+\b", "\n".join(by)))
    found: list[str] = []
    for name, line in reversed(_named(lines)):
        if name in wanted:
            found.insert(0, line)
            wanted |= set(re.findall(r"\br\d+\b", line))
    return found


def _place_of_waves(loop: RecordLoop) -> int:
    blocks = len(loop.columns.scores) + (len(loop.symbols) if _is_kept(loop) else 0)
    if loop.combinations is not None:
        blocks += len(_accumulated(loop)) + 1
    return blocks * BLOCK


def _accumulated(loop: RecordLoop) -> list[str]:
    """Return the names of what is summed over the combinations of categories of a record."""
    names = [f"slope{k}" for k in range(len(loop.columns.scores))]
    for statistic, at in loop.placed:
        slopes = ["0"] * len(statistic.record_symbols)
        names += statistic.collect(at, slopes, "", enumerated=True).accumulated
    return names


def _place_of_sums(loop: RecordLoop, statements: Statements) -> int:
    # Whole blocks stand before them: at another distance from one another, LLVM takes two numbers at a time.
    return _place_of_room(loop, statements) + loop.room()


def _place_of_room(loop: RecordLoop, statements: Statements) -> int:
    return _place_of_waves(loop) + len(_wave_lines(loop, statements)) * BLOCK


def slopes_kept(loop: RecordLoop) -> int | None:
    """Return how many slopes of each record of a block are kept, in scores and then in symbols of statistics.

    None where they are not all that makes its gradient.
    """
    return len(loop.columns.scores) + len(loop.symbols) if _is_kept(loop) else None


def _is_kept(loop: RecordLoop) -> bool:
    """Whether all that makes the gradient of a record is kept."""
    symbols = len(loop.symbols)
    is_all = loop.number_of_sums == loop.columns.number_of_parameters + symbols
    return is_all and loop.combinations is None and not loop.record_symbols and symbols <= _MOST_KEPT


def _kept(loop: RecordLoop, symbol: int) -> str:
    """Return where the slope of a record in a symbol is kept."""
    return f"kept[{(len(loop.columns.scores) + symbol) * BLOCK} + n]"


# Numba takes a signed index for one that may count from the end: loops would look up what they read, and ask if what
# they write lies as far behind an array as that is long.
_EVERY = ("for n in range(stop - start):", "    i = first_row + np.uint64(n)")


def _over_records(loop: RecordLoop, each: list[list[str]]) -> list[str]:
    """Return loops over records from their scores to their slopes, which take the place of the scores."""
    held = [f"kept[{k * BLOCK} + n]" for k in range(len(loop.columns.scores))]
    start = [*_EVERY, *(f"    base{k} = {place}" for k, place in enumerate(held))]
    lines = [line for one in each for line in (*start, *("    " + text for text in one))]
    return [*lines, *_handed_on(loop.columns)]


def _handed_on(columns: ScoreColumns) -> list[str]:
    """Return the last lines of a record: its slopes take the place of its scores."""
    scores = range(len(columns.scores))
    return [
        *(f"    kept[{k * BLOCK} + n] = slope{k}" for k in scores),
        *(f"    total{k} += slope{k}" for k in scores if columns.intercept is not None),
    ]


def _over_combinations(
    loop: RecordLoop, statements: Statements, inside: Sequence[str], done: Sequence[str], accumulated: Sequence[str]
) -> list[str]:
    """Return the same for records that are summed over combinations of categories.

    One combination after another, each with all records of a block: loops over records vectorise. Weights are looked
    up in a loop of their own, which does not.

    Parameters
    ----------
    loop, statements
        As for `accumulate`.
    inside, done : sequence of str
        Lines of a record for each combination, and after them.
    accumulated : sequence of str
        The names of what is summed over combinations.
    """
    assert loop.combinations is not None
    (configurations, at), scores = loop.combinations, range(len(loop.columns.scores))
    first = len(scores)
    places = {name: f"kept[{(first + k) * BLOCK} + n]" for k, name in enumerate(accumulated)}
    share = f"kept[{(first + len(places)) * BLOCK} + n]"
    lookups = [line for line in loop.lookups() if line not in configurations.lookups(at)]
    each = [
        *(f"shift{k}, shifted{k} = shift[a, {k}], 0.0" for k in scores),
        *configurations.level(at),
        *_EVERY,
        *("    " + line for line in configurations.lookups(at)),
        f"    {share} = {configurations.weight(at)}",
        *_EVERY,
        f"    share = {share}",
        *(f"    score{k} = kept[{k * BLOCK} + n] + shift{k}" for k in scores),
        *(f"    {name} = {place}" for name, place in places.items()),
        *("    " + line for line in (*lookups, *statements.record, *inside)),
        *(f"    {place} = {name}" for name, place in places.items()),
        *(f"sums[{at.sums} + a*{len(scores)} + {k}] += shifted{k}" for k in scores),
    ]
    return [
        *_EVERY,
        *(f"    {place} = 0.0" for place in places.values()),
        f"for a in range({configurations.count}):",
        *("    " + line for line in each),
        *_EVERY,
        *(f"    {name} = {place}" for name, place in places.items()),
        *("    " + line for line in (*lookups, *done)),
        *_handed_on(loop.columns),
    ]


def _in_loops(
    loop: RecordLoop,
    before: list[str],
    middle: list[str],
    after: list[str],
    place_of_sums: int,
    *,
    by_columns: bool,
) -> list[str]:
    """Return loops over records for scores, for slopes and for sums, with what passes between them in ``kept``.

    A loop that reads columns of records and has much to do is not vectorised: apart, the slopes are.
    """
    columns = loop.columns
    scores = range(len(columns.scores))
    p = len(columns.linear)
    held = [f"kept[{k * BLOCK} + n]" for k in scores]
    if by_columns or p <= 1:
        first, inside, last = _sums_unrolled(columns)
        base = [
            *_EVERY,
            *("    " + line for line in columns.base(unrolled=True)),
            *(f"    {place} = base{k}" for k, place in enumerate(held)),
        ]
        sums = [
            *_EVERY,
            *(f"    slope{k} = {place}" for k, place in enumerate(held)),
            *("    " + line for line in inside),
        ]
    elif columns.is_along_rows:
        first, base, sums, last = _along_rows(columns, place_of_sums)
    else:
        first, base, sums, last = _by_rows(columns, place_of_sums)
    each = [*first, "first_row = np.uint64(start)", *base, *middle, *sums, *last]
    if loop.is_in_parts:
        loops = ["begin, end = start, stop", f"for from_row in range(begin, end, {PART}):"]
        bounds = [f"    start, stop = from_row, min(from_row + {PART}, end)"]
        each = [*loops, *bounds, *("    " + line for line in each)]
    return [*before, *each, *after]


def _sums_unrolled(columns: ScoreColumns) -> tuple[list[str], list[str], list[str]]:
    """Return lines before, in and after a loop that sums slopes times columns, in numbers of their own."""
    p, q, m = columns.sizes
    both = [(k, j) for k in range(m) for j in range(p)]
    return (
        [*columns.unrolled_parameters(), *(f"g{k}_{j} = 0.0" for k, j in both)],
        [f"g{k}_{j} += slope{k}*X[i, {j}]" for k, j in both],
        [f"sums[{k * q + columns.linear[j]}] += g{k}_{j}" for k, j in both],
    )


def _along_rows(columns: ScoreColumns, place_of_sums: int) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return what `_by_rows` does, several columns of a row at a time. Parameters stand where their sums do later."""
    p, q, m = columns.sizes
    places = [place_of_sums + k * p for k in range(m)]
    first = [f"for j in range({p}):", *(f"    kept[{at} + j] = {columns.theta(k, 'j')}" for k, at in enumerate(places))]
    last = [f"for j in range({p}):"]
    last += [f"    sums[{k * q} + {columns.place('j')}] += kept[{at} + j]" for k, at in enumerate(places)]
    base, sums = [], []
    for k, at in enumerate(places):
        begin = "0.0" if columns.intercept is None else f"theta[{k * q + columns.intercept}]"
        base.append(f"score_rows(kept, {k * BLOCK}, {at}, X, start, stop - start, {begin})")
        sums.append(f"sum_rows(kept, {k * BLOCK}, {at}, X, start, stop - start)")
    return first, base, sums, last


def _by_rows(columns: ScoreColumns, place_of_sums: int) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return lines before loops over rows, those of scores, those of sums of slopes times columns, and lines after.

    Several rows at a time share the parameters and the sums that they read, and sums of theirs do not wait for one
    another.
    """
    p, q, m = columns.sizes
    scores, at_a_time = range(m), max(1, _ROWS_AT_A_TIME // m)
    sums = [f"kept[{place_of_sums + k * p} + j]" for k in scores]
    first = [f"for j in range({p}):", *(f"    {place} = 0.0" for place in sums)]
    last = [f"for j in range({p}):"]
    last += [f"    sums[{k * q} + {columns.place('j')}] += {place}" for k, place in enumerate(sums)]
    base: list[str] = []
    added: list[str] = []
    if p <= _MOST_ASKED_FOR:
        # A tile is no longer than a block, and in the cache.
        whole = at_a_time * p
        first += [
            f"is_tile = X.shape[0] <= {BLOCK}",
            f"asked, ahead = {whole}, {_ROWS_AHEAD}",
            f"if (stop - start)*{p} <= {_NUMBERS_AHEAD}:",
            f"    asked, ahead = {whole // 24 * 8}, stop - start",
        ]
    loops = [(range(at_a_time), [f"for part in range((stop - start)//{at_a_time}):", f"    n = part*{at_a_time}"])]
    if at_a_time > 1:
        loops.append((range(1), [f"for n in range((stop - start)//{at_a_time}*{at_a_time}, stop - start):"]))
    for rows, head in loops:
        head = [*head, "    i = first_row + np.uint64(n)"]
        each = [(k, r, f"{k}_{r}", f"X[i + np.uint64({r}), j]" if r else "X[i, j]") for k in scores for r in rows]
        ask, more = (
            [
                "    if not is_tile:",
                f"        for line in range({begin}, {end}, 8):",
                f"            prefetch(X, (start + n + ahead)*{p} + line)",
            ]
            if p <= _MOST_ASKED_FOR and len(rows) > 1
            else []
            for begin, end in ((0, "asked"), ("asked", at_a_time * p))
        )
        start = ["0.0" if columns.intercept is None else f"theta[{k * q + columns.intercept}]" for k in scores]
        base += [
            *head,
            *ask,
            *(f"    base{name} = {start[k]}" for k, _, name, _ in each),
            f"    for j in range({p}):",
            *(f"        base{name} += {columns.theta(k, 'j')}*{entry}" for k, _, name, entry in each),
            *(f"    kept[{k * BLOCK} + n + {r}] = base{name}" for k, r, name, _ in each),
        ]
        added += [
            *head,
            *more,
            *(f"    slope{name} = kept[{k * BLOCK} + n + {r}]" for k, r, name, _ in each),
            f"    for j in range({p}):",
        ]
        for k, place in enumerate(sums):
            terms = " + ".join(f"slope{name}*{entry}" for own, _, name, entry in each if own == k)
            added.append(f"        {place} += {terms}")
    return first, base, added, last


def assemble(loop: RecordLoop) -> Piece:
    """Return the body that makes the mean gradient out of ``sums`` and ``total``."""
    size = loop.columns.number_of_parameters
    lines = [f"for j in range({size}):", "    gradient[j] = sums[j]", *loop.assemble()]
    lines += [f"for j in range({size}):", "    gradient[j] /= total"]
    return Piece(spared(lines), loop.called, loop.functions)
