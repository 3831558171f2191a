"""X as a checked matrix: of released records, and of true ones with their categories as codes or indicator columns."""

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from symdebias import _arrays
from symdebias._arrays import FloatArray
from symdebias._rows import names_of
from symdebias.codegen.parallel import all_finite
from symdebias.mechanisms.ranges import Labels
from symdebias.release.categories import column_codes
from symdebias.release.columns import standardised
from symdebias.release.groups import labels_of

if TYPE_CHECKING:
    from symdebias.release.release import Release


def bound_to(release: "Release", X: Any) -> "Release":
    """Return a release with names for the columns of true X: those of a table, or x0, x1, ... for an array.

    Raises
    ------
    ValueError
        The names do not fit, or X is an array and the release names columns without saying where they stand.
    """
    if release.columns is not None:
        return release
    if _arrays.is_table(X):
        _refuse_numbers(release, _arrays.column_names(X))
        return named_by(release, X)
    _refuse_nameless_categories(release)
    if release.groups and release.noiseless:
        raise ValueError(
            f"X is an array without names, and the release leaves {', '.join(release.noiseless)} without noise: which "
            "columns those are would be a guess, and a wrong one would send the others out as they are. Pass a "
            "table, or name the columns first: release.bind(names), noiseless ones last."
        )
    # Its entries are looked at where it is taken.
    return _numbered(_Itself(release), _arrays.features_array(X, check_finite=False).shape[1])


def named_by(release: "Release", X: Any) -> "Release":
    """Return a release with the names of the columns of a table, or of rows that were read by names, if it has none.

    Noiseless columns go last, wherever they stand in the table.

    Raises
    ------
    ValueError
        The names do not fit.
    """
    names = names_of(X) if release.columns is None else None
    return release if names is None else release.bind(names)


class _Itself:
    """A release that is looked up as the object that it is: equal ones may write 0.0 and -0.0 on their cards."""

    def __init__(self, release: "Release") -> None:
        self.release = release

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.release is other.release

    def __hash__(self) -> int:
        return id(self.release)


@functools.lru_cache(maxsize=64)
def _numbered(itself: _Itself, count: int) -> "Release":
    """Return a release with names x0, x1, ... for so many columns, kept as blocks of records come one after another."""
    release = itself.release
    check_count(release, count)
    names = [f"x{index}" for index in range(count - len(release.noiseless))]
    return release.bind((*names, *release.noiseless))


def _refuse_numbers(release: "Release", names: Sequence[str]) -> None:
    """Refuse names that may be values: of a file without a line of names, the first record would be published."""
    open_names = [name for name in names if name not in release.noiseless]
    count = sum(map(_arrays.is_number_as_text, open_names))
    if count and list(names) != [str(place) for place in range(len(names))]:
        raise ValueError(
            f"the names of {count} columns of X are numbers, as those of the first record where a file has no line of "
            "names, and a release publishes its names. Name the columns, or declare their names first: "
            "release.bind(names)."
        )


def _refuse_nameless_categories(release: "Release") -> None:
    if release.categories:
        raise ValueError(
            "X is an array without names, and the release has categories for "
            f"{', '.join(release.categories.indicators)}. Pass a table, or name the columns first: "
            "release.bind(names); an array then holds the codes 0 to k - 1 in the columns of categories."
        )


def check_count(release: "Release", number_of_columns: int) -> None:
    """Raise ValueError where a release does not have so many columns."""
    known = release.number_of_columns
    least = len(release.noiseless) + len(release.groups)
    if (known is not None and number_of_columns != known) or number_of_columns < least:
        expected = str(known) if known is not None else f"at least {least}"
        advice = "Pass the columns of the release."
        if release.columns is None and known == 1 and release.groups:
            name = type(release.groups[0][1]).__name__
            advice = (
                f"This {name} noises one column: give each column its own, as in Release({{'a': ..., 'b': ...}}), or "
                "take a mechanism of vectors (radius=)."
            )
        raise ValueError(f"X has {number_of_columns} columns, but the release has {expected}. {advice}")


def released_matrix(release: "Release", X: Any, *, check_finite: bool) -> FloatArray:
    """Return released X, checked, with codes of outputs in columns that a channel noises."""
    columns = named_by(release, X).columns
    matrix = _coded(X, columns, labels_of(release.groups, "sent"), check_finite=check_finite)
    check_count(release, matrix.shape[1])
    return matrix


def released_array(release: "Release", X: Any, *, check_finite: bool) -> FloatArray:
    """Return released X, checked, as the array that stands for a table: what `released_matrix` takes once more.

    Of two numbers it has these themselves, and of other categories their codes.
    """
    matrix = released_matrix(release, X, check_finite=check_finite)
    pairs = {name: one for name, one in labels_of(release.groups, "sent").items() if one.is_number_pair}
    if pairs:
        columns = named_by(release, X).columns
        assert columns is not None
        for name, one in pairs.items():
            codes = matrix[:, columns.index(name)]
            codes[:] = np.array(one.values, dtype=np.float64)[codes.astype(np.intp)]
    return matrix


def collected_matrix(release: "Release", X: Any, *, check_finite: bool = True) -> FloatArray:
    """Return true X, checked, as the columns of the release, which are neither centred nor scaled here.

    Columns that a channel noises have codes of its inputs; declared categories are indicator columns of 0 and 1.
    ``check_finite=False`` leaves NaN and infinity in other columns to a caller that finds them in its own pass.
    """
    columns = named_by(release, X).columns
    categories, labels = release.categories, labels_of(release.groups, "range")
    if not categories:
        matrix = _coded(X, columns, labels, check_finite=check_finite)
    else:
        if columns is None:
            _refuse_nameless_categories(release)
        assert columns is not None
        matrix = categories.expanded(
            _coded(X, categories.collected(columns), labels | dict(categories.labels)), columns
        )
    check_count(release, matrix.shape[1])
    return matrix


def true_matrix(release: "Release", X: Any) -> FloatArray:
    """Return true X, centred and scaled already, as released columns; see `symdebias.Release.true_matrix`."""
    matrix = collected_matrix(release, X)
    if not release.categories:
        return matrix
    bound = bound_to(release, X)
    columns, only = bound.columns, release.categories.only
    assert columns is not None
    return standardised(matrix, columns, only(bound.center), only(bound.scale))


def _coded(
    X: Any, columns: Sequence[str] | None, labels: Mapping[str, Labels], *, check_finite: bool = True
) -> FloatArray:
    """Return X checked, with codes in columns of categories."""
    values = {name: one.values for name, one in labels.items()}
    matrix = _arrays.features_array(X, columns, check_finite=False, codes=values)
    if check_finite and not all_finite(matrix):
        # The same once more, which looks at each entry and names the one.
        _arrays.features_array(X, columns, codes=values)
    if labels and not _arrays.is_table(X):
        assert columns is not None
        matrix = matrix.copy()
        for name, one in labels.items():
            place = columns.index(name)
            matrix[:, place] = column_codes(matrix[:, place], one, name)
    return matrix
