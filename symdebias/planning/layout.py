"""Columns as a plan sees them: numbers in [-1, 1], with the indicators of categories beside them in one vector.

Numbers are in [-1, 1] as they are released: centred and scaled by public numbers, where these are given.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._domains import POSITIVE, is_list, shown
from symdebias.mechanisms import Mechanism, RandomizedResponse
from symdebias.planning.population import Population, require_codes
from symdebias.release import Release
from symdebias.release.allocation import largest_square
from symdebias.release.columns import checked_names, standardised
from symdebias.release.one_hot import OneHot

# How far beyond 1 a number may lie that was centred and scaled and rounded.
_ROUNDED = 1e-12


@dataclass(frozen=True)
class Layout:
    """The columns that are collected, and the vector of numbers that they make."""

    columns: tuple[str, ...]  # The columns as collected.
    one_hot: OneHot  # Their categories, empty where all columns are numbers.
    # What the indicators of a column of categories are centred at: 1/2 for two categories and 1/(k - 1) for k, which
    # makes the ball smallest; nothing without an intercept, which takes up the shift.
    center: dict[str, float]
    # Public centres and scales of columns of numbers, by name.
    shift: dict[str, float]
    units: dict[str, float]
    population: Population  # The records as collected, with codes for categories and numbers centred and scaled.
    vectors: Population  # The same records as vectors of numbers, indicators centred.
    radius: float  # A bound on the L2 norm of the vectors.
    taxicab: float  # A bound on their L1 norm.

    @classmethod
    def of(
        cls,
        population: Population,
        columns: Sequence[str] | None,
        categories: Mapping[str, Sequence[Any]] | None,
        norm: float | None,
        fit_intercept: bool,
        shift: Any = None,
        units: Any = None,
    ) -> "Layout":
        """Return the layout of a population: numbers in [-1, 1], and codes from 0 on in the columns of categories.

        Names for columns are needed with categories, which are in the order of their codes; `norm` is a public bound on
        the L2 norm of the numbers, `shift` and `units` are their public centres and scales, as for `Release`.

        Raises
        ------
        ValueError, TypeError
            Names, codes or numbers do not fit.
        """
        width = population.X.shape[1]
        one_hot = OneHot.declared(categories, intercept=fit_intercept)
        if columns is None and one_hot:
            raise ValueError(
                f"categories name columns, and columns were not given. Give columns=, the names of the {width} columns "
                "of the population."
            )
        if columns is None:
            names = tuple(f"x{j}" for j in range(width))
        else:
            names = checked_names(tuple(columns) if is_list(columns) else columns, "columns")
        if len(names) != width:
            raise ValueError(f"{len(names)} columns were named, and the population has {width}. Name each one once.")
        labels = dict(one_hot.labels)
        unknown = [name for name in labels if name not in names]
        if unknown:
            raise ValueError(
                f"categories names {unknown[0]}, which is no column of the population: {', '.join(names)}. Name one."
            )
        require_codes(population.X, names, one_hot)
        numbers = [place for place, name in enumerate(names) if name not in labels]
        declared = Release(noiseless=names, center=shift, scale=units)
        shifts, scales = _of_numbers(declared.center, labels, "center"), _of_numbers(declared.scale, labels, "scale")
        if (shifts or scales) and not population.is_drawn:
            X = standardised(population.X, names, tuple(shifts.items()), tuple(scales.items()))
            population = Population(X, population.y)
        outside = [place for place in numbers if np.abs(population.X[:, place]).max() > 1 + _ROUNDED]
        if outside:
            found = np.abs(population.X[:, outside[0]]).max()
            raise ValueError(
                f"the population has features outside [-1, 1]: {shown(names[outside[0]])} reaches {found:.4g} in size"
                f"{' when it is centred and scaled' if shifts or scales else ''}. Give the middle and half the range "
                "of the public bounds of each column as center= and scale=, or scale the population to them."
            )
        longest = math.sqrt(len(numbers))
        own = longest if norm is None else min(POSITIVE.check("norm", norm), longest)
        sizes = [len(one.values) for one in labels.values()]
        middle = {name: 0.5 if len(one.values) == 2 else 1 / (len(one.values) - 1) for name, one in labels.items()}
        center = middle if fit_intercept else {}
        squares = [largest_square(size, intercept=fit_intercept) for size in sizes]
        square, taxicab = own**2 + sum(squares), min(float(len(numbers)), own * longest)
        taxicab += sum(_absolute(size, fit_intercept) for size in sizes)
        vectors = population
        if one_hot:
            released = one_hot.released(names)
            expanded = one_hot.expanded(population.X, released)
            for place, name in enumerate(released):
                expanded[:, place] -= center.get(one_hot.collected((name,))[0], 0.0)
            vectors = Population(expanded, population.y)
        # Rounded up, so that no record is shortened.
        radius = math.sqrt(square) * (1 + 2.0**-50) if one_hot else math.sqrt(square)
        taxicab *= 1 + 2.0**-50 * bool(one_hot)
        return cls(names, one_hot, center, shifts, scales, population, vectors, radius, taxicab)

    @property
    def vector_names(self) -> tuple[str, ...]:
        """The names of the numbers of the vector."""
        return self.one_hot.released(self.columns)

    @property
    def is_released(self) -> bool:
        """Whether the columns as collected are those that are released: numbers in [-1, 1]."""
        return not (self.one_hot or self.shift or self.units)

    def options(self, *, in_one_vector: bool = True) -> dict[str, Any]:
        """Return what a release of the columns as collected is told of them."""
        one_hot = in_one_vector and bool(self.one_hot)
        center = self.shift | (self.center if one_hot else {})
        given = {"categories": self.one_hot.as_json() if one_hot else {}, "center": center, "scale": self.units}
        return {name: values for name, values in given.items() if values}

    def by_column(self, budgets: Sequence[float], number: Any) -> dict[Any, Mechanism]:
        """Return a mechanism for each column: randomized response for categories, and one that a function makes.

        Parameters
        ----------
        budgets : sequence of float
            One for each column.
        number : callable
            Takes a budget, and returns the mechanism of a number in [-1, 1].
        """
        labels = dict(self.one_hot.labels)
        return {
            name: RandomizedResponse(budget, labels[name].values) if name in labels else number(budget)
            for name, budget in zip(self.columns, budgets, strict=True)
        }


def _of_numbers(values: Any, labels: Mapping[str, Any], argument: str) -> dict[str, float]:
    """Return the public numbers of columns, by name, which no column of categories has.

    Raises
    ------
    ValueError
        One has.
    """
    found: dict[str, float] = dict(values)
    moved = [name for name in found if name in labels]
    if moved:
        raise ValueError(
            f"{argument} names {shown(moved[0])}, a column of categories, whose indicators the plan centres itself. "
            "Leave it out."
        )
    return found


def _absolute(size: int, centred: bool) -> float:
    """Return the largest sum of the absolute values of the indicators."""
    if size == 2:
        return 0.5 if centred else 1.0
    return max(1.0, 2 * (size - 2) / (size - 1)) if centred else 1.0
