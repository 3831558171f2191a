"""Columns of declared categories, released as indicator columns of numbers beside the others.

A record of category v in a column of the categories v_1, ..., v_k is the numbers 1[v = v_j], one for each category but
the first where there is an intercept or where k = 2. Centred and scaled by public numbers m_j and s_j they add

    sum_j ((1[v = v_j] - m_j)/s_j)^2

to the squared L2 norm of a record, and the sum of absolute values to its L1 norm. A mechanism bounds the norm of the
whole vector by its radius, by clipping, so that its replace-one sensitivity is what it is for other numbers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import shown
from symdebias.mechanisms.ranges import Labels
from symdebias.release.categories import spelled
from symdebias.release.columns import PerColumn, checked_names


@dataclass(frozen=True)
class OneHot:
    """The declared categories of columns, and the indicator columns that are released in their place.

    Attributes
    ----------
    labels : tuple of (str, Labels)
        The columns as collected, sorted by name, with their categories.
    intercept : bool
        Whether models have an intercept, which stands for the first category of each column.

    Examples
    --------
    >>> OneHot.declared({"place": ("n", "e", "s")}, intercept=True).indicators
    {'place': ('place=e', 'place=s')}
    """

    labels: tuple[tuple[str, Labels], ...]
    intercept: bool

    @classmethod
    def declared(cls, categories: Any, *, intercept: bool) -> "OneHot":
        """Return declared categories, checked.

        Parameters
        ----------
        categories : mapping from str to sequence, or None
            The categories by name of the column, all text or all numbers in each.
        intercept : bool
            Whether there is an intercept.

        Raises
        ------
        TypeError, ValueError
            It is no such mapping, a column has fewer than two categories or one twice, or two indicator columns would
            have one name.
        """
        if categories is None:
            categories = {}
        if not isinstance(categories, Mapping):
            raise TypeError(
                f"categories must map column names to their categories; got {type(categories).__name__}. Pass a dict, "
                'such as {"place": ("n", "e", "s", "w")}.'
            )
        names = checked_names(tuple(categories), "categories")
        made = cls(
            tuple(sorted((name, Labels.declared(categories[name], f"categories[{shown(name)}]")) for name in names)),
            bool(intercept),
        )
        # With the categories that have no column: names tell all of them apart.
        released = Counter(f"{name}={spelled(value)}" for name, labels in made.labels for value in labels.values)
        twice = sorted(name for name, count in released.items() if count > 1 or name in made.indicators)
        if twice:
            raise ValueError(
                f"the categories make two columns named {', '.join(twice)}. Rename a column or its categories."
            )
        return made

    def __bool__(self) -> bool:
        return bool(self.labels)

    @cached_property
    def indicators(self) -> dict[str, tuple[str, ...]]:
        """The names of the indicator columns of each declared column."""
        return {
            name: tuple(f"{name}={spelled(value)}" for value in labels.values[self._without(labels) :])
            for name, labels in self.labels
        }

    def _without(self, labels: Labels) -> int:
        """Return how many categories, the first ones, have no indicator column; as for `ColumnDesign.of`."""
        return 1 if self.intercept or len(labels.values) == 2 else 0

    @cached_property
    def _origin(self) -> dict[str, tuple[str, int]]:
        """The declared column and the code of the category of each indicator column."""
        return {
            indicator: (name, code)
            for name, labels in self.labels
            for code, indicator in enumerate(self.indicators[name], start=self._without(labels))
        }

    def released(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names of columns, with its indicator columns in the place of each declared one."""
        return tuple(released for name in names for released in self.indicators.get(name, (name,)))

    def collected(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names of columns as collected, each declared one in the place of its first indicator column."""
        return tuple(dict.fromkeys(self._origin.get(name, (name, 0))[0] for name in names))

    def check_together(self, groups: Sequence[Sequence[str]]) -> None:
        """Raise ValueError where a column does not have all its indicator columns in one group of released columns.

        Parameters
        ----------
        groups : sequence of sequences of str
            The columns that are noised together, and those without noise.
        """
        group_of = {name: place for place, group in enumerate(groups) for name in group}
        for column, indicators in self.indicators.items():
            places = {group_of.get(name) for name in indicators}
            if places == {None}:
                raise ValueError(
                    f"categories names {column}, which is no column of this release. Its columns are "
                    f"{', '.join(self.collected(tuple(group_of)))}."
                )
            if len(places) > 1:
                raise ValueError(
                    f"the categories of {column} are the columns {', '.join(indicators)}, which are released together. "
                    f"Name {column} once, in one group."
                )

    def expanded(self, matrix: FloatArray, columns: Sequence[str]) -> FloatArray:
        """Return true records with indicators in the place of codes.

        Parameters
        ----------
        matrix : array of shape (n, p), float64
            Columns as `collected` has them, codes in the declared ones.
        columns : sequence of str
            The released columns.

        Returns
        -------
        array of shape (n, len(columns)), float64
            Indicators are 0 and 1.
        """
        place = {name: index for index, name in enumerate(self.collected(columns))}
        expanded = np.empty((len(matrix), len(columns)))
        for index, name in enumerate(columns):
            column, code = self._origin.get(name, (name, None))
            values = matrix[:, place[column]]
            expanded[:, index] = values if code is None else values == code
        return expanded

    def of_column(self, name: str, values: Any) -> dict[str, Any]:
        """Return a column of true records by its name, a declared one as its indicator columns of 0 and 1."""
        labels = dict(self.labels).get(name)
        if labels is None:
            return {name: values}
        shown = labels.values[self._without(labels) :]
        return {one: (values == value).astype(float) for one, value in zip(self.indicators[name], shown, strict=True)}

    def spread(self, values: PerColumn, argument: str) -> PerColumn:
        """Return public numbers per released column: one for a declared column is that of each of its indicators.

        Raises
        ------
        ValueError
            A column and an indicator of it are both named.
        """
        if not self.labels or not values or not isinstance(values[0], tuple):
            return values
        given: dict[str, float] = dict(values)
        for column, indicators in self.indicators.items():
            if column not in given:
                continue
            both = [name for name in indicators if name in given]
            if both:
                raise ValueError(
                    f"{argument} names {column} and {', '.join(both)}, which it stands for. Name the column or its "
                    "indicator columns, not both."
                )
            given |= dict.fromkeys(indicators, given.pop(column))
        return tuple(sorted(given.items()))

    def only(self, values: PerColumn) -> PerColumn:
        """Return the numbers, by name, of indicator columns alone."""
        return tuple(pair for pair in values if isinstance(pair, tuple) and pair[0] in self._origin)

    def as_json(self) -> dict[str, tuple[Any, ...]]:
        """Return the declaration, as JSON has it and as `declared` takes it."""
        return {name: labels.values for name, labels in self.labels}
