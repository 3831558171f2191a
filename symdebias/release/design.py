"""How the columns of X enter a score: the design rows of records, true or estimated, and the variance of estimates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symdebias._arrays import FloatArray
from symdebias.mechanisms.base import ChannelMechanism, Mechanism
from symdebias.mechanisms.coordinates import Coordinates
from symdebias.noise import AdditiveNoise, ChannelNoise, SphericalNoise
from symdebias.release.categories import spelled
from symdebias.release.columns import PerColumn, in_order
from symdebias.release.groups import undoable
from symdebias.zonal import ZonalNoise

# A row so many times as long as the part of it that a column of categories has is not added to as a whole.
_SHORT = 4


@dataclass(frozen=True)
class Linear:
    """A column that enters a score with one parameter."""

    # Its places among the columns of X and the parameters.
    column: int
    parameter: int
    # Its noise; spherical and zonal noise is that of its whole group, see `ColumnDesign.spherical`.
    noise: AdditiveNoise | SphericalNoise | ZonalNoise | None
    group: int  # Which group of columns it belongs to; -1 without noise.

    @property
    def own_noise(self) -> AdditiveNoise | None:
        """Its noise where it is added to this column by itself, or as normal noise of a covariance."""
        return self.noise if isinstance(self.noise, AdditiveNoise) else None


@dataclass(frozen=True)
class SphericalGroup:
    """Linear columns that share noise of a vector: spherical noise, or a point of a sphere in place of the true one.

    The score of their vector has the noise of s = sum_j weight_j theta_j^2 + constant. A coordinate c x_j that is
    released as x_j has the weight of the noise over c^2, and a target y that is released with them as c y adds that to
    the constant, of the form of the residual.
    """

    noise: SphericalNoise | ZonalNoise  # The noise of the vector.
    columns: tuple[int, ...]  # The columns, by their places among the linear ones.
    weights: tuple[float, ...]  # The weight of each in s.
    constant: float = 0.0  # What the target adds; 0 where it is no coordinate of the vector.

    @property
    def factors(self) -> FloatArray:
        """What the coordinates of the noise are multiplied with, one for each column, and for the target if it has one.

        That is 1 over what they are divided by.
        """
        weights = (*self.weights, *((self.constant,) if self.constant > 0 else ()))
        return np.sqrt(np.array(weights) / self.noise.weight)

    def all_weights(self, count: int) -> FloatArray:
        """Return the weight of each of so many linear columns, 0 for those of others."""
        weights = np.zeros(count)
        weights[list(self.columns)] = self.weights
        return weights


@dataclass(frozen=True)
class Categorical:
    """A column of categories under a finite channel."""

    column: int  # Its place among the columns of X.
    noise: ChannelNoise  # The channel.
    parameters: tuple[int, ...]  # For each input category the place of its parameter, -1 for one without.
    # What that parameter is multiplied by: 1 in a one-hot column, the number of a category in a column of two.
    values: tuple[float, ...]

    @property
    def weights(self) -> FloatArray:
        """The weights that undo the channel, shape (outputs, inputs).

        Raises
        ------
        NoExactCorrectionError
            Its categories cannot be told apart.
        """
        return self.noise.exact_weights(f"column {self.column}")

    def rows(self, size: int) -> FloatArray:
        """Return the design rows that the categories make, shape (categories, size), zeros elsewhere."""
        rows = np.zeros((len(self.values), size))
        for code, (place, value) in enumerate(zip(self.parameters, self.values, strict=True)):
            if place >= 0:
                rows[code, place] = value
        return rows


@dataclass(frozen=True)
class ColumnDesign:
    """How the columns of X enter a score."""

    parameters: tuple[str, ...]  # Names of the q parameters of one score, one-hot expanded, the intercept last.
    linear: tuple[Linear, ...]  # The columns with one parameter each.
    categorical: tuple[Categorical, ...]  # The columns of categories.
    covariance: FloatArray  # Of shape (p, p): the covariance of the normal noise of X's columns.
    intercept: bool  # Whether the last parameter is an intercept.
    spherical: tuple[SphericalGroup, ...] = ()  # The groups of linear columns with noise of their vector.

    @classmethod
    def of(
        cls, columns: Sequence[str], groups: Sequence[tuple[slice, Mechanism]], *, intercept: bool
    ) -> "ColumnDesign":
        """Return the design of columns, of which some groups are noised.

        Parameters
        ----------
        columns : sequence of str
            Their names.
        groups : sequence of (slice, Mechanism)
            Places of columns with what noises them.
        intercept : bool
            Whether there is one: then the first of several categories has no parameter.
        """
        covariance = np.zeros((len(columns), len(columns)))
        group_of: dict[int, int] = {}
        noises = []
        for group, (place, mechanism) in enumerate(groups):
            group_of |= dict.fromkeys(range(place.start, place.stop), group)
            width = place.stop - place.start
            noise = undoable(mechanism.noise_on(width))
            noises.append(noise)
            if isinstance(noise, AdditiveNoise) and noise.is_gaussian:
                block = np.eye(width) * noise.variance if noise.covariance is None else np.array(noise.covariance)
                covariance[place, place] = block
        parameters: list[str] = []
        linear: list[Linear] = []
        categorical: list[Categorical] = []
        for column, name in enumerate(columns):
            group = group_of.get(column, -1)
            noised_by = None if group < 0 else groups[group][1]
            if not isinstance(noised_by, ChannelMechanism):
                added = None if noised_by is None else noises[group]
                assert not isinstance(added, ChannelNoise)
                linear.append(Linear(column, len(parameters), added, group))
                parameters.append(name)
                continue
            labels, start = noised_by.range, len(parameters)
            places: tuple[int, ...] = (start, start)
            if labels.is_number_pair:
                values = noised_by.noise.inputs
                parameters.append(name)
            else:
                # Without an intercept the categories together stand in for one.
                without = 1 if intercept or len(labels.values) == 2 else 0
                places = (-1,) * without + tuple(range(start, start + len(labels.values) - without))
                values = (0.0,) * without + (1.0,) * (len(labels.values) - without)
                parameters += [f"{name}={spelled(value)}" for value in labels.values[without:]]
            categorical.append(Categorical(column, noised_by.noise, places, values))
        if intercept:
            parameters.append("intercept")
        spherical = []
        for group, noise in enumerate(noises):
            if isinstance(noise, (SphericalNoise, ZonalNoise)):
                own = tuple(index for index, part in enumerate(linear) if part.group == group)
                weights = noise.weight / groups[group][1].divisors_on(len(own)) ** 2
                spherical.append(
                    SphericalGroup(noise, own, tuple(weights.tolist()), _constant(groups[group][1], noise))
                )
        return cls(tuple(parameters), tuple(linear), tuple(categorical), covariance, intercept, tuple(spherical))

    @property
    def linear_columns(self) -> list[int]:
        """The places of the linear columns among the columns of X."""
        return [part.column for part in self.linear]

    @property
    def linear_parameters(self) -> list[int]:
        """The places of their parameters."""
        return [part.parameter for part in self.linear]

    @property
    def has_columns_as_rows(self) -> bool:
        """Whether the columns of X are the parameters, so that its rows are design rows as they are."""
        return self.linear_columns == list(range(len(self.parameters)))

    @property
    def numbers_made(self) -> int:
        """How many numbers the design row of a record takes besides those of the record."""
        return 0 if self.has_columns_as_rows else len(self.parameters)

    @property
    def linear_covariance(self) -> FloatArray:
        """The covariance of the normal noise of the linear columns."""
        return self.covariance[np.ix_(self.linear_columns, self.linear_columns)]

    def rows(self, matrix: FloatArray) -> FloatArray:
        """Return the design rows of true records, shape (n, q).

        Parameters
        ----------
        matrix : array of shape (n, p), float64
            Records, with codes in columns of categories; returned as it is where its columns are the parameters.
        """
        return self._rows(matrix, [column.rows(len(self.parameters)) for column in self.categorical])

    def estimated_rows(self, matrix: FloatArray) -> FloatArray:
        """Return unbiased estimates of the true records' design rows, shape (n, q).

        Parameters
        ----------
        matrix : array of shape (n, p), float64
            Released records, with codes in columns of categories.

        Raises
        ------
        NoExactCorrectionError
            Categories of a column cannot be told apart.
        """
        return self._rows(matrix, [column.weights @ column.rows(len(self.parameters)) for column in self.categorical])

    def _rows(self, matrix: FloatArray, tables: Sequence[FloatArray]) -> FloatArray:
        """Return design rows, with those of each column of categories looked up in a table by its code."""
        if self.has_columns_as_rows:
            return matrix
        rows = np.zeros((len(matrix), len(self.parameters)))
        rows[:, _as_slice(self.linear_parameters)] = matrix[:, _as_slice(self.linear_columns)]
        for column, table in zip(self.categorical, tables, strict=True):
            # Of many columns each would add zeros to all others; a part of a row takes longer for itself.
            places = [place for place in column.parameters if place >= 0] or [0]
            begin, end = min(places), max(places) + 1
            own = slice(begin, end) if _SHORT * (end - begin) <= rows.shape[1] else slice(None)
            rows[:, own] += np.ascontiguousarray(table[:, own])[matrix[:, column.column].astype(int)]
        if self.intercept:
            rows[:, -1] = 1.0
        return rows

    def additive_covariance(self, covariance: FloatArray) -> FloatArray:
        """Return the covariance of the design rows of linear columns, shape (q, q), zeros elsewhere.

        Parameters
        ----------
        covariance : array of shape (p, p), float64
            Of the additive noise of X's columns.
        """
        placed = np.zeros((len(self.parameters), len(self.parameters)))
        at, places = self.linear_parameters, self.linear_columns
        placed[np.ix_(at, at)] = covariance[np.ix_(places, places)]
        return placed

    def released_covariance(self, covariance: FloatArray, *, as_released: bool = False) -> FloatArray:
        """Return the matrix N with theta'N theta the variance of a record's estimated score over the noise.

        For columns of categories it is the mean over the true category, each as likely.

        Parameters
        ----------
        covariance : array of shape (p, p), float64
            Of the additive noise of X's columns.
        as_released : bool
            Whether released categories enter the score as they are, with no estimate of the true one.
        """
        total = self.additive_covariance(covariance)
        for column in self.categorical:
            matrix, rows = np.array(column.noise.matrix), column.rows(len(total))
            estimates = rows if as_released and len(rows) == matrix.shape[1] else column.weights @ rows
            means = matrix @ estimates
            total += estimates.T @ (matrix.mean(axis=0)[:, None] * estimates) - means.T @ means / len(means)
        return total


def _as_slice(places: list[int]) -> list[int] | slice:
    """Return neighbours in order as a slice: by their numbers they would be copied on the way."""
    return slice(places[0], places[-1] + 1) if places and places == list(range(places[0], places[-1] + 1)) else places


def _constant(mechanism: Mechanism, noise: SphericalNoise | ZonalNoise) -> float:
    """Return what the target adds to s where it is a coordinate of the vector: it has the coefficient -1."""
    divisor = mechanism.target_divisor if isinstance(mechanism, Coordinates) else None
    return 0.0 if divisor is None else noise.weight / divisor**2


def original_units(
    theta: FloatArray, design: ColumnDesign, columns: Sequence[str], center: PerColumn, scale: PerColumn
) -> FloatArray:
    """Return coefficients for columns in their own units, centre and scale undone; those given are changed in place.

    Raises
    ------
    ValueError
        Columns were centred, and there is no intercept to take up the shift.
    """
    shifts = in_order(center, columns, absent=0.0)
    if shifts.any() and not design.intercept:
        raise ValueError(
            "the columns were centred, and without an intercept no coefficients of the original columns "
            "give the same scores. Declare fit_intercept=True."
        )
    scales = in_order(scale, columns, absent=1.0)
    for part in design.linear:
        theta[..., part.parameter] /= scales[part.column]
        if design.intercept:
            theta[..., -1] -= theta[..., part.parameter] * shifts[part.column]
    return theta
