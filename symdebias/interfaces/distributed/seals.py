"""What tells whether a partition holds the records that it held before: sums of its numbers, weighed by row.

Each pass computes partitions anew. What was drawn at random on the way is drawn anew as well, and sums of passes over
other records belong to no records at all.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias import _optional
from symdebias._arrays import FloatArray

# Rows that are weighed at a time, from 1 to 2 in no order: neighbours that change places are seen.
_ROWS = 2**12
_WEIGHTS = 1 + np.arange(_ROWS) * 1_597 % _ROWS / _ROWS
# What another order of a sum, or another processor, may make of the last bits of numbers.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Seal:
    """What the numbers and words of one part of a collection come to.

    Attributes
    ----------
    length : int
        The number of its rows.
    sums, sizes : array of shape (k,), float64
        The weighed sums of columns of numbers, and about the most that these could be, from their squares.
    words : int
        A checksum of columns of anything else.
    """

    length: int
    sums: FloatArray
    sizes: FloatArray
    words: int

    @classmethod
    def of(cls, values: Any) -> "Seal":
        """Return that of an array, a series or a data frame."""
        numbers, words = _numbers_and_words(values)
        with np.errstate(over="ignore"):
            sizes = np.sqrt(_over_columns(numbers, _squares) * len(values))
        return cls(len(values), _over_columns(numbers, _weighed), sizes, words)

    def is_of(self, values: Any) -> bool:
        """Whether values are those that it is of, but for rounding."""
        numbers, words = _numbers_and_words(values)
        sums = _over_columns(numbers, _weighed)
        if (len(values), words, len(sums)) != (self.length, self.words, len(self.sums)):
            return False
        with np.errstate(invalid="ignore"):
            is_same = np.abs(sums - self.sums) <= _ROUNDING * self.sizes
        # Numbers of a first pass that are not finite are refused there.
        return bool(np.all(is_same | ~np.isfinite(self.sums)))


def _numbers_and_words(values: Any) -> tuple[list[Any], int]:
    """Return arrays of numbers with a row for each of some values, and a checksum of what else there is."""
    if not hasattr(values, "iloc"):
        array = np.asarray(values)
        return ([_by_rows(array)], 0) if _is_numeric(array.dtype) else ([], _of_words(array))
    columns = [values] if values.ndim == 1 else [values.iloc[:, place] for place in range(values.shape[1])]
    if all(_is_numeric(column.dtype) for column in columns):
        return [_by_rows(values.to_numpy())], 0
    numbers, words = [], 0
    for column in columns:
        if _is_numeric(column.dtype):
            numbers.append(_by_rows(column.to_numpy()))
        else:
            hashed = _optional.require("pandas", extra="dask").util.hash_pandas_object(column, index=False)
            words = zlib.crc32(hashed.to_numpy().tobytes(), words)
    return numbers, words


def _by_rows(array: Any) -> Any:
    return array if array.ndim == 2 else array.reshape(-1, 1)


def _is_numeric(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def _of_words(array: Any) -> int:
    """Return a checksum of an array of texts or objects."""
    return zlib.crc32("\x1f".join(map(str, array.ravel().tolist())).encode(errors="surrogatepass"))


def _over_columns(numbers: Sequence[Any], work: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return the sums over rows of what a function says of the columns of some rows, for all arrays."""
    found = [np.zeros(array.shape[1]) for array in numbers]
    with np.errstate(over="ignore", invalid="ignore"):
        for array, sums in zip(numbers, found, strict=True):
            for start in range(0, len(array), _ROWS):
                sums += work(np.asarray(array[start : start + _ROWS], dtype=np.float64))
    return np.concatenate([np.zeros(0), *found])


def _weighed(rows: FloatArray) -> FloatArray:
    return np.asarray(_WEIGHTS[: len(rows)] @ rows)


def _squares(rows: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->j", rows, rows))
