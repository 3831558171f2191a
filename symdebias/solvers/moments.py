"""Moments of records: unbiased ones of true records, the noise taken out, and plain ones of released records."""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray, column_ends
from symdebias._rows import Rows
from symdebias.codegen.parallel import CHUNK, chunk_of, over_chunks
from symdebias.codegen.rows import leverages_of_rows, moments_of_rows, plain_leverages
from symdebias.codegen.score.program import ScoreProgram
from symdebias.exceptions import NoExactCorrectionError
from symdebias.records import Records
from symdebias.release.design import ColumnDesign
from symdebias.zonal import ZonalNoise

# From so many numbers on passes over design rows are compiled: NumPy's take three times as long, but compile nothing.
_COMPILED_FROM = 2**20
# The least mean square of a column and the largest: powers of parameters overflow of smaller ones, and of larger ones
# squares of squares.
_LEAST_SQUARE, _LARGEST_SQUARE = 1e-150, 1e150


@dataclass(frozen=True)
class Moments:
    """Unbiased moments of true records: plain ones first, then one entry for each multiplier."""

    gram: list[FloatArray]  # Of shape (q, q): mean(M x x').
    mean: list[FloatArray]  # Of shape (q,): mean(M x).
    cross: FloatArray  # Of shape (q,): mean(x y).
    target_square: float  # mean(y^2) of the released target.
    records: float  # The sample size; with weights (sum w)^2/(sum w^2).


def pays_to_compile(rows: int, columns: int) -> bool:
    """Whether records are so many that passes over their design rows are compiled ones."""
    return rows * columns >= _COMPILED_FROM


def moments_of(
    design: ColumnDesign,
    matrix: FloatArray | Rows,
    target: FloatArray | Rows,
    weights: FloatArray,
    covariance: FloatArray,
    multipliers: Sequence[FloatArray | None] = (),
    bent: Sequence[bool] = (),
) -> Moments:
    """Return unbiased estimates of mean(M x x'), mean(M x) and mean(x y) over true records.

    The covariance is that of the additive noise; weights are empty where all records weigh the same. Multipliers M have
    the shape (n,), None stands for 1; `bent` says whether mean(M x x') is wanted: zeros stand for it where it is not.
    """
    return _debiased(design, covariance, _sums(design, matrix, target, weights, multipliers, bent))


def _sums(
    design: ColumnDesign,
    matrix: FloatArray | Rows,
    target: FloatArray | Rows,
    weights: FloatArray,
    multipliers: Sequence[FloatArray | None],
    bent: Sequence[bool],
    seeing: Callable[[slice, FloatArray, FloatArray, FloatArray], None] | None = None,
) -> tuple[Any, ...]:
    """Return sums over records: M x x', M x and M by multiplier, x y, y^2, the weights and their squares.

    `seeing` is called with some rows after others, their columns, estimated design rows and targets.
    """
    size = len(design.parameters)
    total = float(weights.sum()) if len(weights) else float(len(matrix))
    wanted = [(None, True), *zip(multipliers, bent, strict=True)]
    grams = [np.zeros((size, size)) for _ in wanted]
    means = [np.zeros(size) for _ in wanted]
    masses = [0.0 for _ in wanted]
    cross, square = np.zeros(size), 0.0
    step = chunk_of(matrix, design.numbers_made)
    for start in range(0, len(matrix), step):
        rows = slice(start, start + step)
        block, released = matrix[rows], target[rows]
        estimated = design.estimated_rows(block)
        if seeing is not None:
            seeing(rows, block, estimated, released)
        weight = weights[rows] if len(weights) else None
        weighted = released if weight is None else weight * released
        plain = (np.ones(len(estimated)) if weight is None else weight) @ estimated
        cross += weighted @ estimated
        # What is too large for a square is refused by whoever asks for it.
        with np.errstate(over="ignore", invalid="ignore"):
            square += float(weighted @ released)
        for place, (multiplier, curved) in enumerate(wanted):
            if multiplier is None and place > 0:
                continue
            share = _times(weight, None if multiplier is None else multiplier[rows])
            means[place] += plain if share is None or share is weight else share @ estimated
            masses[place] += float(len(estimated) if share is None else share.sum())
            if curved:
                grams[place] += _product(design, block, estimated, share)
    for place, (multiplier, _) in enumerate(wanted):
        if multiplier is None and place > 0:
            grams[place], means[place], masses[place] = grams[0], means[0], masses[0]
    squares = float(weights @ weights) if len(weights) else total
    return np.array(grams), np.array(means), np.array(masses), cross, square, total, squares


def _debiased(design: ColumnDesign, covariance: FloatArray, sums: tuple[Any, ...]) -> Moments:
    """Return the moments that sums over records make, the noise taken out."""
    grams, means, masses, cross, square, total, squares = sums
    noise = design.additive_covariance(covariance)
    found = [(gram - noise * mass) / total for gram, mass in zip(grams, masses, strict=True)]
    for group in design.spherical:
        if isinstance(group.noise, ZonalNoise):
            places = [design.linear_parameters[column] for column in group.columns]
            for gram in found:
                gram[np.ix_(places, places)] /= group.noise.square_gain
            if group.constant > 0:
                # The target is a coordinate of the vector.
                cross[places] /= group.noise.square_gain
    records = total**2 / squares
    return Moments(found, [mean / total for mean in means], cross / total, square / total, records)


# What is looked for in the leverages of some rows of records: called with the records, the rows, their columns and
# targets, and the leverages.
Look = Callable[[Records, slice, FloatArray, FloatArray, FloatArray], Any]


def moments_of_records(records: Records, covariance: FloatArray) -> Moments:
    """Return the unbiased moments of records, wherever they lie.

    Parameters
    ----------
    records : Records
        Released records.
    covariance : array of shape (p, p), float64
        Of the additive noise.
    """
    return _debiased(records.correction.design, covariance, _seen(records, records.summed_over_parts(sums_of)))


def moments_and_leverages(
    records: Records, covariance: FloatArray, root: FloatArray, look: Look
) -> tuple[Moments, list[list[Any]]]:
    """Return the same moments, and what a look at the leverages of records finds, by the same pass.

    Parameters
    ----------
    records, covariance
        As for `moments_of_records`.
    root : array of shape (q, q), float64
        What `leverages` takes.
    look : callable
        Says of the rows of a part of the records, with their leverages, what is returned of them; it can be pickled.

    Returns
    -------
    moments : Moments
        The moments.
    found : list of list
        What was found, by part of the records and by chunk of its rows.
    """
    sums, found = zip(*records.over_parts(functools.partial(_sums_and_look, root=root, look=look)), strict=True)
    whole = tuple(functools.reduce(operator.add, parts) for parts in zip(*sums, strict=True))
    return _debiased(records.correction.design, covariance, _seen(records, whole)), list(found)


def looked_at_leverages(records: Records, root: FloatArray, look: Look) -> list[list[Any]]:
    """Return what `moments_and_leverages` finds, without the moments.

    Parameters
    ----------
    records, root, look
        As there.
    """
    return records.over_parts(functools.partial(_looked, root=root, look=look))


def _looked(part: Records, *, root: FloatArray, look: Look) -> list[Any]:
    compiled = pays_to_compile(len(part), part.columns)

    design = part.correction.design

    def looked(rows: slice) -> Any:
        block, released = part.matrix[rows], part.target[rows]
        return look(part, rows, block, released, leverages(design, block, root, compiled=compiled))

    return over_chunks(len(part), looked, chunk_of(part.matrix, design.numbers_made))


@dataclass(frozen=True)
class _Corner:
    """The largest absolute entries of estimated design rows, and the largest weight: sums of such are theirs."""

    entries: FloatArray  # Of shape (q,).
    weight: float

    def __add__(self, other: "_Corner") -> "_Corner":
        return _Corner(np.maximum(self.entries, other.entries), max(self.weight, other.weight))


def _seen(records: Records, sums: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sums of `_sums` of those with a corner, which is kept."""
    *moments, corner = sums
    records.seen["corner"] = records.matrix, records.correction.release, corner
    return tuple(moments)


def sums_of(part: Records) -> tuple[Any, ...]:
    """Return the sums of `_sums` without multipliers, and the corner of the records."""
    return _sums_and_look(part)[0]


def _sums_and_look(
    part: Records, *, root: FloatArray | None = None, look: Look | None = None
) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the same, and what a look at leverages finds in each chunk."""
    if pays_to_compile(len(part), part.columns):
        return _compiled_sums(part, root, look)
    corners, found = [], []

    def seeing(rows: slice, block: FloatArray, estimated: FloatArray, released: FloatArray) -> None:
        corners.append(_largest(estimated))
        if look is not None and root is not None:
            found.append(look(part, rows, block, released, plain_leverages(estimated, root)))

    sums = _sums(part.correction.design, part.matrix, part.target, part.weights, (), (), seeing)
    return (*sums, _Corner(np.max(corners, axis=0), _largest_weight(part))), found


def _compiled_sums(part: Records, root: FloatArray | None, look: Look | None) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the sums of `_sums` by a compiled pass, and what a look at leverages finds in each chunk."""
    weights = part.weights

    def added(
        rows: slice, block: FloatArray, released: FloatArray, product: FloatArray, mean: FloatArray, cross: FloatArray,
        leverage: FloatArray,
    ) -> Any:  # fmt: skip
        own = weights[rows] if len(weights) else None
        _place_categories(part.correction.design, block, own, product)
        square = float((released if own is None else own * released) @ released)
        return product, mean, cross, square, None if look is None else look(part, rows, block, released, leverage)

    of_chunks, corner = _compiled(part, weights, added, root)
    products, means, crosses, squares, found = zip(*of_chunks, strict=True)
    total = part.total
    return (
        np.sum(products, axis=0)[None], np.sum(means, axis=0)[None], np.array([total]), np.sum(crosses, axis=0),
        sum(squares), total, float(weights @ weights) if len(weights) else total, corner,
    ), list(found)  # fmt: skip


def _compiled(
    part: Records, weights: FloatArray, work: Callable[..., Any], root: FloatArray | None = None
) -> tuple[list[Any], _Corner]:
    """Return what a function says of what `moments_of_rows` gives of each chunk, and the corner."""
    design, matrix, target = part.correction.design, part.matrix, part.target

    def passed(rows: slice) -> tuple[Any, FloatArray]:
        # Side by side: what is read in order need not be read again for the second.
        block, released = matrix[rows], target[rows]
        own = weights[rows] if len(weights) else weights
        *sums, largest, leverage = moments_of_rows(design.estimated_rows(block), released, own, root)
        return work(rows, block, released, *sums, leverage), largest

    chunks = over_chunks(len(matrix), passed, chunk_of(matrix, design.numbers_made))
    found, corners = zip(*chunks, strict=True)
    return list(found), _Corner(np.max(corners, axis=0), _largest_weight(part))


def debiased_moments(records: Records) -> tuple[FloatArray, FloatArray]:
    """Return unbiased estimates of mean(x) and mean(x x') over true records, intercept included.

    Parameters
    ----------
    records : Records
        Released records.

    Raises
    ------
    NoExactCorrectionError
        There are columns of categories, which have no normal moments.
    """
    design = records.correction.design
    if design.categorical:
        raise NoExactCorrectionError(
            "columns of categories are not drawn from their moments. Guess a population, and give it to Population."
        )
    covariance = records.correction.noise_covariance()
    moments = moments_of_records(records, covariance)
    return moments.mean[0], moments.gram[0]


def _times(left: FloatArray | None, right: FloatArray | None) -> FloatArray | None:
    if left is None or right is None:
        return right if left is None else left
    return np.asarray(left * right)


def _product(design: ColumnDesign, matrix: FloatArray, estimated: FloatArray, share: FloatArray | None) -> FloatArray:
    """Return the sum of share x x', an unbiased one within a column of categories as well."""
    # What is too large to be squared is refused by name where sums are looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        product: FloatArray = (estimated if share is None else estimated * share[:, None]).T @ estimated
    _place_categories(design, matrix, share, product)
    return product


def _place_categories(design: ColumnDesign, matrix: FloatArray, share: FloatArray | None, product: FloatArray) -> None:
    """Put unbiased sums of share x x' within columns of categories in their places."""
    for column in design.categorical:
        # Products of estimates from one draw of the noise are not unbiased; those of the entries are.
        places = sorted({place for place in column.parameters if place >= 0})
        own = column.rows(len(design.parameters))[:, places]
        outer = np.einsum("ai,aj->aij", own, own).reshape(len(own), -1)
        counts = np.bincount(matrix[:, column.column].astype(int), share, minlength=len(column.noise.outputs))
        block = counts @ column.weights @ outer
        product[np.ix_(places, places)] = block.reshape(len(places), -1)


def leverages(design: ColumnDesign, matrix: FloatArray, root: FloatArray, *, compiled: bool = False) -> FloatArray:
    """Return x'M^-1 x of released records, shape (n,), from the `inverse_root` of their mean second moments M.

    Parameters
    ----------
    design : ColumnDesign
        How columns enter a score.
    matrix : array of shape (n, p), float64
        Released records.
    root : array of shape (q, q), float64
        The root.
    compiled : bool
        Whether they are a part of so many that a compiled pass pays, where it is of many columns.
    """
    if compiled:
        return leverages_of_rows(design.estimated_rows(matrix), root)
    found = np.empty(len(matrix))
    for start in range(0, len(matrix), CHUNK):
        rows = slice(start, start + CHUNK)
        found[rows] = plain_leverages(design.estimated_rows(matrix[rows]), root)
    return found


def most_leverage(records: Records, root: FloatArray) -> float:
    """Return a bound on the weighted leverages of records: that of a corner of the box that holds them all.

    Parameters
    ----------
    records : Records
        The records.
    root : array of shape (q, q), float64
        As for `leverages`.
    """

    def passed() -> tuple[FloatArray, float]:
        of_matrix, release, corner = records.seen.get("corner", (None, None, None))
        if of_matrix is not records.matrix or release != records.correction.release:
            corner = functools.reduce(operator.add, records.over_parts(_corner))
        return corner.entries, corner.weight

    corner, weight = records.remembered("corner", passed)
    return float(weight) * float(corner @ np.abs(root @ root.T) @ corner)


def _corner(part: Records) -> _Corner:
    design, matrix = part.correction.design, part.matrix
    chunk = chunk_of(matrix, design.numbers_made)
    corners = over_chunks(len(matrix), lambda rows: _largest(design.estimated_rows(matrix[rows])), chunk)
    return _Corner(np.max(corners, axis=0), _largest_weight(part))


def _largest_weight(part: Records) -> float:
    return float(part.weights.max()) if len(part.weights) else 1.0


def _largest(rows: FloatArray) -> FloatArray:
    """Return the largest absolute entries of each column."""
    lows, highs = column_ends(rows)
    return np.asarray(np.maximum(np.abs(lows), np.abs(highs)))


def released_moments(records: Records) -> FloatArray:
    """Return the second moments of released design rows, scores after one another; ones for a free-form loss.

    Parameters
    ----------
    records : Records
        The records.
    """
    correction = records.correction
    if not correction.loss.scores:
        return np.eye(correction.number_of_parameters)
    one = records.remembered("released moments", lambda: records.summed_over_parts(_products)[0] / records.present)
    return np.asarray(np.kron(np.eye(len(correction.loss.scores)), one), dtype=np.float64)


def require_small_enough(records: Records, metric: FloatArray) -> None:
    """Raise ValueError where a column's numbers are so large that products of their squares are no numbers.

    Parameters
    ----------
    records : Records
        The records.
    metric : array of shape (Q, Q), float64
        The second moments of all or of some of them. What is not finite among them is told by who asks.
    """
    names = records.correction.design.parameters
    if not records.correction.loss.scores:
        return
    squares = np.diag(metric)[: len(names)]
    large = np.flatnonzero((squares > _LARGEST_SQUARE) & np.isfinite(squares))
    if len(large):
        raise ValueError(
            f"the numbers of {names[large[0]]} are too large: their mean square is {squares[large[0]]:.2g}, and "
            f"{_LARGEST_SQUARE:g} is the most. Give the column, and its noise, in a larger unit, or leave out the "
            "records in which it is so large."
        )


def require_large_enough(records: Records, metric: FloatArray) -> None:
    """Raise ValueError where a column's numbers are so small that products of their squares are no numbers.

    Parameters
    ----------
    records, metric
        As for `require_small_enough`.
    """
    names = records.correction.design.parameters
    if not records.correction.loss.scores:
        return
    squares = np.diag(metric)[: len(names)]
    small = np.flatnonzero((squares > 0) & (squares < _LEAST_SQUARE)).tolist()
    program = records.correction.program
    if not (small or squares.all()) and isinstance(program, ScoreProgram):
        # Squares may be 0 where numbers are none.
        some, linear = np.asarray(records.looked_at.matrix), program.columns.linear
        small = [place for column, place in enumerate(linear) if not squares[place] and some[:, column].any()]
    if small:
        raise ValueError(
            f"the numbers of {names[small[0]]} are too small: their mean square is {squares[small[0]]:.2g}, and at "
            f"least {_LEAST_SQUARE:g} is needed. Give the column, and its noise, in a smaller unit."
        )


def _products(part: Records) -> tuple[FloatArray]:
    """Return the sum of the products of estimated design rows, of the records with weight."""
    design, matrix = part.correction.design, part.matrix
    # Each of them counts as one.
    counted = np.zeros(0) if part.present == len(part) else (part.weights > 0).astype(np.float64)
    if pays_to_compile(len(part), part.columns):
        found, corner = _compiled(part, counted, lambda rows, block, released, product, *others: product)
        part.seen["corner"] = matrix, part.correction.release, corner
        return (np.sum(found, axis=0),)

    def products(rows: slice) -> FloatArray:
        estimated = design.estimated_rows(matrix[rows])
        # What overflows is told by who asks.
        with np.errstate(over="ignore", invalid="ignore"):
            left = estimated * counted[rows, None] if len(counted) else estimated
            return np.asarray(left.T @ estimated)

    chunk = chunk_of(matrix, design.numbers_made)
    return (sum(over_chunks(len(matrix), products, chunk), np.zeros(())),)
