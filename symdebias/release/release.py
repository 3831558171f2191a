"""A release: which mechanism noises which columns, and what that guarantees."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias import _arrays, _markup
from symdebias._arrays import FloatArray
from symdebias._domains import Interval, check_choice, check_flag
from symdebias._rows import Rows
from symdebias.exceptions import NoExactCorrectionError
from symdebias.mechanisms import Mechanism, sampling
from symdebias.mechanisms.making import kind_of
from symdebias.noise import AdditiveNoise, ChannelNoise, ClippedNoise, CoordinateNoise
from symdebias.privacy import Guarantee, Ledger, compose
from symdebias.release import card
from symdebias.release.allocation import arguments_of, require_within
from symdebias.release.categories import spelled, target_numbers
from symdebias.release.columns import PerColumn, as_json, checked_names, checked_numbers, named_numbers
from symdebias.release.coupling import Coupling
from symdebias.release.design import ColumnDesign, original_units
from symdebias.release.groups import (
    Groups,
    Undoable,
    checked_groups,
    gain_of,
    labels_of,
    labels_of_target,
    squared_radius,
    undoable,
    undoable_target,
    without_gain,
)
from symdebias.release.matrices import bound_to, check_count, released_matrix, true_matrix
from symdebias.release.noised import Noised
from symdebias.release.noising import noised_records
from symdebias.release.one_hot import OneHot
from symdebias.release.remaking import remade
from symdebias.release.required import BaseRelease
from symdebias.release.schema import Schema
from symdebias.release.spelling import as_call
from symdebias.release.wording import noise_in_words

_CENTER = Interval(-1e100, 1e100, "both", "Give a public number per column.")
_SCALE = Interval(1e-100, 1e100, "both", "Give a public positive number per column.")


@dataclass(frozen=True, init=False)
class Release(BaseRelease):
    """Which mechanism noises which columns of a record.

    Parameters
    ----------
    features : Mechanism, mapping or None
        One mechanism for the vector of all feature columns; or a mapping from a column's name, or a tuple of
        names, to the mechanism of that group; or None if the features are released as they are. A mechanism of
        categories (`RandomizedResponse`, `FiniteChannel`) takes one named column.
    target : Mechanism or {"margin", "joint"}, optional
        The mechanism of the target: `RandomizedResponse` or `FiniteChannel` for a target of k values,
        one that adds noise for a continuous one. Without it the target is released as it is. ``"margin"`` and
        ``"joint"`` spend one budget on features and target in one vector; see the notes.
    noiseless : sequence of str
        Columns released as they are. A column that is neither noised nor listed here is an error.
    fit_intercept : bool
        Whether models on this release have an intercept: a constant that the solver adds, last in theta.
    center, scale : mapping from str to float, or sequence of float, optional
        Public centre and scale, by name of the column or one per column in the order of `columns`; never
        computed from the data. Columns are released as (x - center)/scale, which is what the bounds of the
        mechanisms refer to. Columns without an entry are neither shifted nor scaled.
    categories : mapping from str to sequence, optional
        Public categories of columns that are noised as numbers, all text or all numbers in a column: each is released
        as indicator columns, such as ``place=e``, beside the other columns of its mechanism. See the notes.
    target_scale : float, optional
        c, the public weight of the target in such a vector; 1 by default. A margin release has it with an intercept.
    target_values : pair of float, optional
        The two labels of a margin release, the larger one +1; (-1, 1) by default.
    target_bounds : pair of float, optional
        Public bounds of the target of a joint release, where they are required; values outside are clipped.

    Raises
    ------
    TypeError, ValueError
        A column is named twice, a mechanism does not fit its place, a number is not finite.

    Notes
    -----
    A column's place in `columns` is its place in the declaration, noiseless columns last. A release with
    one mechanism for all features gets its names at `privatize` or `bind`. Until then it takes the columns that it is
    given for all that were noised together, on whose number the noise of a spherical mechanism depends. With the names,
    as ``noised.release`` has them, a part of the columns is refused: one that was selected, say.

    A column with two categories that are numbers enters a score as that number. One with more categories, or with
    text, enters it one-hot: a parameter per category, except the first where there is an intercept or where
    there are two. In arrays it holds the codes 0 to k - 1 of the categories, in tables the categories themselves.

    A column of `categories` has such a parameter for each of its indicator columns, which are coordinates of the vector
    that one mechanism noises: `columns` has them in its place, and so have `Noised.X`, `center` and `scale`. A public
    weight w of an indicator is a scale of 1/w; a number for the column is that of all its indicators. A record's
    squared L2 norm, which `radius` bounds, is the sum over columns of ((x - center)/scale)^2, where x is 0 or 1 in
    indicators. True records hold the categories in a table, and the codes in an array of a release with names.

    ``target="margin"`` releases z = y x, y = -1 or +1, and with an intercept the column c y besides: all that a loss
    F with F(u, 1) = F(-u, -1) takes of a record. ``target="joint"`` releases (x, c y), for losses of the residual
    y - u. One mechanism with a `radius` R noises the vector: R bounds the features, and its noise is that of the radius
    R, sqrt(R^2 + c^2) or sqrt(R^2 + c^2 B^2), B the larger absolute bound of the target (R, R + c or R + c B where it
    bounds the L1 norm), at a replace-one sensitivity of twice that. `Noised.X` is the noised y x (or x), `Noised.y`
    the noised column over c, None without one. Such a release hides x and y from any other analysis: y x alone tells
    neither the share of a label nor the mean of x. Noiseless columns have no place in it.

    Examples
    --------
    >>> from symdebias.mechanisms import GaussianMechanism, RandomizedResponse
    >>> release = Release(
    ...     features={("age", "hours"): GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0)},
    ...     target=RandomizedResponse(epsilon=1.0),
    ...     noiseless=("year",),
    ... )
    >>> release.columns
    ('age', 'hours', 'year')
    >>> print(release.guarantee)
    (1.9791, 1e-05)-differential privacy (local, replace-one); not protected: year; by exact composition of 2 parts
    >>> Release(GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0), target="margin").guarantee.epsilon
    1.0
    """

    groups: Groups
    target: Mechanism | None
    noiseless: tuple[str, ...]
    fit_intercept: bool
    center: PerColumn
    scale: PerColumn
    coupling: Coupling | None
    categories: OneHot

    def __init__(
        self,
        features: Mechanism | Mapping[str | tuple[str, ...], Mechanism] | None = None,
        target: Mechanism | str | None = None,
        *,
        noiseless: Sequence[str] = (),
        fit_intercept: bool = False,
        center: Mapping[str, float] | Sequence[float] | None = None,
        scale: Mapping[str, float] | Sequence[float] | None = None,
        categories: Mapping[str, Sequence[str] | Sequence[float]] | None = None,
        target_scale: float | None = None,
        target_values: Sequence[float] | None = None,
        target_bounds: Sequence[float] | None = None,
    ) -> None:
        fit_intercept = check_flag("fit_intercept", fit_intercept)
        one_hot = OneHot.declared(categories, intercept=fit_intercept)
        groups = checked_groups(features, target, one_hot)
        noiseless = one_hot.released(checked_names(noiseless, "noiseless"))
        if target is not None and not isinstance(target, (Mechanism, str)):
            raise TypeError(
                f"target must be a mechanism or None; got {kind_of(target)}. Pass a RandomizedResponse, a "
                'GaussianMechanism, "margin", "joint", or None for a target that is released as it is.'
            )
        named = Counter(name for names, _ in groups for name in names or ())
        named.update(noiseless)
        twice = sorted(name for name, count in named.items() if count > 1)
        if twice:
            raise ValueError(f"{', '.join(twice)} is named more than once. Name each column once.")
        together = {"scale": target_scale, "values": target_values, "bounds": target_bounds}
        coupling = None
        if isinstance(target, str):
            coupling = Coupling.declared(target, groups, noiseless=noiseless, intercept=fit_intercept, **together)
        elif needless := [f"target_{name}" for name, value in together.items() if value is not None]:
            raise ValueError(f'{needless[0]} belongs to target="margin" or "joint". Leave it out.')
        for field, value in {
            "groups": groups,
            "target": target if isinstance(target, Mechanism) else None,
            "noiseless": noiseless,
            "fit_intercept": fit_intercept,
            "coupling": coupling,
            "categories": one_hot,
        }.items():
            object.__setattr__(self, field, value)
        if self.columns is not None:
            one_hot.check_together([*(names or () for names, _ in groups), noiseless])
            self._refuse_names_of_parameters()
        for field, given, domain in (("center", center, _CENTER), ("scale", scale, _SCALE)):
            numbers = one_hot.spread(checked_numbers(given, domain, field), field)
            if self.columns is not None:
                numbers = named_numbers(numbers, self.columns, field)
                self._refuse_moved_categories(field, dict(numbers))  # type: ignore[arg-type]
            object.__setattr__(self, field, numbers)

    def _refuse_names_of_parameters(self) -> None:
        """Raise ValueError for a column that is called as a parameter is which is not its own."""
        others = {
            f"{name}={spelled(value)}": f"a category of {name}"
            for name, labels in labels_of(self.groups, "range").items() if not labels.is_number_pair
            for value in labels.values
        }  # fmt: skip
        if self.fit_intercept:
            others["intercept"] = "the constant that fit_intercept=True adds"
        for name in self.columns or ():
            if name in others:
                raise ValueError(
                    f"the column {name} has the name of another parameter, that of {others[name]}. Rename the column."
                )

    def _refuse_moved_categories(self, field: str, numbers: Mapping[str, float]) -> None:
        still = 1.0 if field == "scale" else 0.0
        moved = sorted(name for name in labels_of(self.groups, "range") if numbers.get(name, still) != still)
        if moved:
            raise ValueError(
                f"{field} names {', '.join(moved)}, a column of categories, which are neither shifted nor scaled. "
                "Leave it out."
            )

    def __repr__(self) -> str:
        return as_call(self)

    def _repr_html_(self) -> str:
        table = _markup.table(["columns", "noise"], noise_in_words(self), caption="release")
        guarantee = self.guarantee
        return f"{table}\n{'<p>no guarantee</p>' if guarantee is None else guarantee._repr_html_()}"

    # ---- columns -----------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of X in their order, or None while they have no names."""
        if self.groups and self.groups[0][0] is None:
            return None
        noised = [name for names, _ in self.groups for name in names or ()]
        columns = (*noised, *self.noiseless)
        return columns or None

    @property
    def number_of_columns(self) -> int | None:
        """The number of columns of X, or None where one mechanism takes however many there are."""
        if self.columns is not None:
            return len(self.columns)
        width = self.groups[0][1].width if self.groups else None
        return None if width is None else width + len(self.noiseless)

    def bind(self, columns: Sequence[str]) -> "Release":
        """Return this release with names for the columns that one mechanism noises.

        Parameters
        ----------
        columns : sequence of str
            All columns of X; the noiseless ones among them keep their role and go last. A column of `categories` goes
            by its name, or by those of its indicators.

        Returns
        -------
        Release
            Itself, where it has names already and they agree.

        Raises
        ------
        ValueError
            The names do not fit the ones that the release has.
        """
        names = self.categories.released(checked_names(columns, "columns"))
        if len(set(names)) < len(names):
            raise ValueError(f"the columns {_arrays.shown_names(names)} repeat a name. Name each column once.")
        if self.columns is not None:
            if set(names) != set(self.columns):
                own, got = ", ".join(self.columns), _arrays.shown_names(names)
                raise ValueError(f"the release has the columns {own}; got {got}. Bind the same.")
            return self
        missing = [name for name in self.noiseless if name not in names]
        if missing:
            raise ValueError(f"the noiseless columns {', '.join(missing)} are not among {_arrays.shown_names(names)}.")
        noised = tuple(name for name in names if name not in self.noiseless)
        features: dict[str | tuple[str, ...], Mechanism] | None = None
        noiseless = names
        if self.groups:
            if not noised:
                raise ValueError("every column is noiseless, but the release has a mechanism for features.")
            features, noiseless = {noised: self.groups[0][1]}, self.noiseless
        self.categories.check_together([noised if self.groups else names, self.noiseless])
        return remade(self, features, noiseless=noiseless)

    def design_matrix(self, X: Any, *, check_finite: bool = True) -> FloatArray:
        """Return released X as a checked array of shape (n, p), float64, columns in the order of `columns`.

        Columns of a spherical cap are divided by its gain: all numbers are estimates of the true ones without bias.

        Parameters
        ----------
        X : array of shape (n, p) or table
            An array has its columns in that order; a table is matched by name.
        check_finite : bool
            False leaves NaN and infinity to a caller that finds them in its own pass.

        Returns
        -------
        array of shape (n, p), float64
            A column of categories has the codes of the outputs of its channel, whatever they are.

        Raises
        ------
        TypeError, ValueError
            X does not fit; see `symdebias._arrays.features_array`.
        """
        matrix = released_matrix(self, X, check_finite=check_finite)
        return matrix if self.coupling is not None else without_gain(matrix, self.placed(matrix.shape[1]))

    def true_matrix(self, X: Any) -> FloatArray:
        """Return true X as a checked array of shape (n, p), float64, with codes for categories.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True records, already centred and scaled. Columns of `categories` hold these (codes in an array), and come
            back as indicator columns, centred and scaled here.
        """
        return true_matrix(self, X)

    def true_target(self, y: Any, *, rows: int) -> FloatArray:
        """Return true targets as a checked array of shape (n,), float64: codes where a channel noises them.

        Parameters
        ----------
        y : array of shape (n,) or a column of a table
            True targets; those of a margin release come back as -1 and +1.
        rows : int
            The number n of records.
        """
        if self.coupling is not None:
            return self.coupling.checked_target(y, rows=rows)
        labels = labels_of_target(self.target, "range")
        target = target_numbers(y, labels, rows=rows)
        if labels is None:
            return target
        _arrays.check_labels(target, labels.numbers, "labels", remedy="declare categories={} on the mechanism")
        return labels.codes(target).astype(float)

    # ---- noise -------------------------------------------------------------------------------------------

    def design(self, number_of_columns: int) -> ColumnDesign:
        """Return how so many columns enter a score, and with which noise; see `in_columns` for one vector's noise.

        Parameters
        ----------
        number_of_columns : int
            The number p of columns of X.
        """
        groups = self.placed(number_of_columns) if self.coupling is None else ()
        columns = self.columns or tuple(f"x{index}" for index in range(number_of_columns))
        return ColumnDesign.of(columns, groups, intercept=self.fit_intercept)

    @property
    def target_noise(self) -> AdditiveNoise | ChannelNoise | CoordinateNoise | None:
        """The noise of the target, or None.

        Raises
        ------
        NoExactCorrectionError
            The target is clipped after its noise, or lies on a sphere; see `symdebias.release.groups.undoable`.
        """
        self._require_apart()
        return None if self.target is None else undoable_target(self.target)

    @property
    def clips_target(self) -> bool:
        """Whether the target is clipped after its noise, so that it is only trained on as it stands."""
        return self.target is not None and isinstance(self.target.noise, ClippedNoise)

    @property
    def target_radius(self) -> float | None:
        """The declared bound on the absolute value of a target with additive noise, if there is one."""
        if self.target is None or not isinstance(self.target.noise, (AdditiveNoise, CoordinateNoise)):
            return None
        return self.target.bound

    def feature_variances(self, number_of_columns: int) -> FloatArray:
        """Return the noise variance of each column, zero for noiseless ones and for categories.

        Parameters
        ----------
        number_of_columns : int
            The number p of columns of X.

        Returns
        -------
        array of shape (p,), float64
            In the order of `columns`.
        """
        variances = np.zeros(number_of_columns)
        for (place, noise), (_, mechanism) in zip(self.noises(number_of_columns), self.groups, strict=True):
            if not isinstance(noise, ChannelNoise):
                width = place.stop - place.start
                variances[place] = noise.coordinate_variances(width) / mechanism.divisors_on(width) ** 2
        return variances

    def noises(self, number_of_columns: int) -> tuple[tuple[slice, Undoable], ...]:
        """Return the places of each group of columns among X's columns, with their noise."""
        self._require_apart()
        return tuple(
            (place, undoable(mechanism.noise_on(place.stop - place.start)))
            for place, mechanism in self.placed(number_of_columns)
        )

    def _require_apart(self) -> None:
        if self.coupling is not None:
            raise NoExactCorrectionError(
                f'target="{self.coupling.kind}" releases one vector, and this asks for features and target apart, '
                f"which it does not have: {self.coupling.statement}. Release them apart, by a mechanism for each."
            )

    def in_columns(self, number_of_columns: int) -> "Release":
        """Return the release of columns, each with its noise, that a release of one vector comes to.

        Parameters
        ----------
        number_of_columns : int
            The number p of features.

        Returns
        -------
        Release
            Noise of known scales without a claim, which is what there is to be corrected. That of a margin release has
            no target, and the column of the intercept last; other releases are returned as they are.
        """
        if self.coupling is None:
            return self
        check_count(self, number_of_columns)
        columns = self.columns or tuple(f"x{index}" for index in range(number_of_columns))
        features, target, constant = self.coupling.apart(self.groups[0][1], columns)
        return Release(features, target, fit_intercept=self.fit_intercept and constant)

    def placed(self, number_of_columns: int) -> tuple[tuple[slice, Mechanism], ...]:
        """Return the places of each group of columns, with what noises them."""
        check_count(self, number_of_columns)
        placed, start = [], 0
        for names, mechanism in self.groups:
            width = number_of_columns - len(self.noiseless) if names is None else len(names)
            placed.append((slice(start, start + width), mechanism))
            start += width
        return tuple(placed)

    def record_radius(self, number_of_columns: int) -> float:
        """Return a bound on the L2 norm of a record within the declared bounds.

        A group without a radius counts as in the unit ball, a noiseless column as in [-1, 1].

        Parameters
        ----------
        number_of_columns : int
            The number of columns of X.
        """
        check_count(self, number_of_columns)
        return math.sqrt(squared_radius(self.groups, len(self.noiseless) if self.groups else number_of_columns))

    # ---- privacy -----------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee | None:
        """The composed local guarantee of a record, or None where a part is noised without a privacy claim.

        Columns and targets that are released as they are stand in its ``unprotected``.
        """
        return self.guarantee_of(has_target=True)

    def guarantee_of(self, *, has_target: bool) -> Guarantee | None:
        """Return the `guarantee` of records that have a target or not, which counts where it has no mechanism."""
        if self.coupling is not None:
            return self.coupling.released(self.groups[0][1]).guarantee
        mechanisms = [mechanism for _, mechanism in self.groups] + ([self.target] if self.target else [])
        parts = [mechanism.guarantee for mechanism in mechanisms]
        if not parts or any(part is None for part in parts):
            return None
        total = compose([part for part in parts if part is not None])
        features = self.noiseless if self.groups or self.noiseless else ("features",)
        shown = () if self.target or not has_target else ("target",)
        return replace(total, unprotected=(*features, *shown))

    def privatize(
        self,
        X: Any,
        y: Any = None,
        *,
        random_state: int | np.random.Generator | None = None,
        noise: str | None = None,
        outside: str = "clip",
        keep_index: bool = False,
        ledger: Ledger | None = None,
    ) -> "Noised":
        """Centre, scale and clip records to the declared bounds, and noise them.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True records. A table is matched by name and comes back as a table of `columns`.
        y : array of shape (n,), optional
            True targets; required if the release noises the target.
        random_state : int, numpy.random.Generator or None
            None draws on the operating system. A seed, for simulations, carries no guarantee: it tells the noise.
        noise : {"hardened", "plain"}, optional
            Hardened noise, the default without a seed, is private as it is realised in floating point. Plain noise, the
            default with one, is NumPy's: for simulations, and readable by its low bits.
        outside : {"clip", "clip-all", "refuse"}
            What to do with records outside the bounds: clip them, with one `ClippingWarning` to the collector, or
            raise. ``"clip"`` raises where 10 records or more all lie outside, as by a mistake in the units.
        keep_index : bool
            Whether released tables keep the row labels of the true ones, which the guarantee then names as
            unprotected. By default rows are numbered.
        ledger : Ledger, optional
            Where the release is counted, on the disk, before noise is drawn; it refuses what goes beyond its total, and
            seeds and plain noise.

        Returns
        -------
        Noised
            The noised records, with the release that knows their columns. A margin release makes the column of y anew.

        Raises
        ------
        TypeError, ValueError
            The data do not fit; nothing was noised.
        PrivacyError, OSError
            The ledger refuses the release, or cannot be written to; nothing was noised.

        Warns
        -----
        ClippingWarning
            Records were clipped. The count is a statistic of the data; it is not part of the result.

        Notes
        -----
        Hardened noise lies on a grid of 2^-20 of its scale or less, to which values are rounded before; see
        `symdebias.mechanisms.rounded`. Noise of a known scale that claims nothing, as that of ``from_scale``, is always
        plain.

        Records keep their order. Where that tells something of them, as that of a sorted table, `Noised.shuffled` gives
        them another one.
        """
        keep_index = check_flag("keep_index", keep_index)
        check_choice("outside", outside, ("clip", "clip-all", "refuse"))
        if isinstance(X, (Rows, Iterator)) or isinstance(y, Rows):
            raise TypeError(
                "these records come block by block, and privatize noises those of an array or a table. Pass blocks to "
                "symdebias.blocks.privatize(release, blocks, folder), each a pair such as (X[:100_000], y[:100_000]); "
                "it writes a folder that symdebias.load reads."
            )
        if y is None and not (self.target is None and self.coupling is None):
            raise ValueError(
                "the release noises the target, but y was not given. Pass y, or declare a release with target=None."
            )
        source = sampling.source(random_state, noise)
        return noised_records(bound_to(self, X), X, y, source, outside, keep_index=keep_index, ledger=ledger)

    def released_target(self, y: Any, *, rows: int, check_finite: bool = True) -> FloatArray:
        """Return released targets as a checked array of shape (n,), float64, with text as its codes.

        Parameters
        ----------
        y : array of shape (n,) or a column of a table
            Released targets.
        rows : int
            The number n of records.
        check_finite : bool
            False leaves NaN and infinity to a caller that finds them in its own pass.
        """
        return target_numbers(y, labels_of_target(self.target, "sent"), rows=rows, check_finite=check_finite)

    def columns_of(self, X: Any, y: Any, *, check_finite: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return released records of one vector as the columns that `in_columns` is of, and targets.

        Parameters
        ----------
        X : array of shape (n, p) or table
            ``noised.X``.
        y : array of shape (n,), or None
            ``noised.y``.
        check_finite : bool
            As for `design_matrix`.

        Returns
        -------
        matrix : array of shape (n, p) or (n, p + 1), float64
            With the column of the label last, for a margin release with an intercept.
        target : array of shape (n,), float64
            The targets; ones for a margin release.

        Raises
        ------
        TypeError, ValueError
            The data do not fit.
        """
        matrix = self.design_matrix(X, check_finite=check_finite)
        assert self.coupling is not None
        columns, target = self.coupling.columns(matrix, y)
        apart = self.in_columns(matrix.shape[1])
        return without_gain(columns, apart.placed(columns.shape[1])), target / gain_of(apart.target, 1)

    def original_units(self, theta: FloatArray) -> FloatArray:
        """Return coefficients for the columns in their own units, `center` and `scale` undone.

        Parameters
        ----------
        theta : array of shape (p,) or (p + 1,), float64
            Coefficients of the released columns, intercept last.

        Raises
        ------
        ValueError
            Columns were centred, and there is no intercept to take up the shift.
        """
        columns = self.columns
        if columns is None and (self.center or self.scale):
            raise ValueError(
                "the columns have a center or scale, but no names yet. Use noised.release, or release.bind(names)."
            )
        if columns is None:
            length = np.shape(theta)[-1] if np.ndim(theta) else 1
            return _arrays.parameter_array(theta, length, None if np.shape(theta)[:-1] != (1,) else 1).copy()
        design = self.design(len(columns))
        result = _arrays.parameter_array(theta, len(design.parameters), None).copy()
        return original_units(result, design, columns, self.center, self.scale)

    # ---- the card ----------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the card: what an analyst needs to debias, and nothing about the data."""
        groups: Groups = self.groups
        of_target: Any = self.target
        if self.coupling is not None:
            ((names, mechanism),) = groups
            groups, of_target = ((names, self.coupling.released(mechanism)),), self.coupling.as_json(mechanism.bound)
        return card.to_json(
            groups,
            of_target,
            noiseless=list(self.noiseless),
            fit_intercept=self.fit_intercept,
            center=as_json(self.center),
            scale=as_json(self.scale),
            **({"categories": self.categories.as_json()} if self.categories else {}),
        )

    @classmethod
    def from_schema(cls, schema: Any) -> "Release":
        """Make the release that public bounds, categories and one budget come to, by fixed rules.

        Parameters
        ----------
        schema : Schema, mapping or path
            What `Schema` takes, and what its errors are about. With ``design = "margin"`` or ``"joint"`` the whole
            budget goes to one vector; with ``"apart"`` each column has the same part of it. No data are looked at.
        """
        declared = Schema.of(schema)
        release = cls(**arguments_of(declared))
        require_within(release.guarantee, declared)
        return release

    @classmethod
    def from_json(cls, text: str) -> "Release":
        """Read a card.

        Parameters
        ----------
        text : str
            What `to_json` returned. It may come from a stranger: only known kinds and finite numbers are
            taken.

        Raises
        ------
        FormatError
            It is not a card of this version; also a ValueError.
        """
        release = card.from_json(text, cls)
        if release.coupling is not None:
            released = release.coupling.released(release.groups[0][1])
            card.check_stated(text, released, release.coupling.statement)
        return release
