"""A release: which mechanism noises which columns, what it guarantees, and the card that an analyst gets."""

import json
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias import _arrays
from symdebias._arrays import FloatArray
from symdebias._domains import Interval, shown
from symdebias.exceptions import ClippingWarning, NoExactCorrectionError, PrivacyError
from symdebias.mechanisms import KINDS, Mechanism, sampling
from symdebias.noise import AdditiveNoise, ChannelNoise, ClippedNoise
from symdebias.privacy import Guarantee, compose

Groups = tuple[tuple[tuple[str, ...] | None, Mechanism], ...]
# Numbers by name, or in the order of the columns while these have no names.
PerColumn = tuple[tuple[str, float], ...] | tuple[float, ...]

_CARD_FORMAT = "symdebias-release-1"
_LONGEST_CARD = 10_000_000
_CENTER = Interval(-1e100, 1e100, "both", "Give a public number per column.")
_SCALE = Interval(1e-100, 1e100, "both", "Give a public positive number per column.")


@dataclass(frozen=True, init=False)
class Release:
    """Which mechanism noises which columns of a record.

    Parameters
    ----------
    features : Mechanism, mapping or None
        One mechanism for the vector of all feature columns; or a mapping from a column's name, or a tuple of
        names, to the mechanism of that group; or None if the features are released as they are. A mechanism of
        categories (`RandomizedResponse`, `FiniteChannel`) takes one named column.
    target : Mechanism, optional
        The mechanism of the target: `RandomizedResponse` or `FiniteChannel` for a target of k values,
        one that adds noise for a continuous one. Without it the target is released as it is.
    noiseless : sequence of str
        Columns released as they are. A column that is neither noised nor listed here is an error.
    fit_intercept : bool
        Whether models on this release have an intercept: a constant that the solver adds, last in theta.
    center, scale : mapping from str to float, or sequence of float, optional
        Public centre and scale, by name of the column or one per column in the order of `columns`; never
        computed from the data. Columns are released as (x - center)/scale, which is what the bounds of the
        mechanisms refer to. Columns without an entry are neither shifted nor scaled.

    Raises
    ------
    TypeError, ValueError
        A column is named twice, a mechanism does not fit its place, a number is not finite.

    Notes
    -----
    A column's place in `columns` is its place in the declaration, noiseless columns last. A release with
    one mechanism for all features gets its names at `privatize` or `bind`.

    A column with two categories that are numbers enters a score as that number. One with more categories, or with
    text, enters it one-hot: a parameter per category, except the first where there is an intercept or where
    there are two. In arrays it holds the codes 0 to k - 1 of the categories, in tables the categories themselves.

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
    (2, 1e-05)-differential privacy (local, replace-one); not protected: year
    """

    groups: Groups
    target: Mechanism | None
    noiseless: tuple[str, ...]
    fit_intercept: bool
    center: PerColumn
    scale: PerColumn

    def __init__(
        self,
        features: Mechanism | Mapping[str | tuple[str, ...], Mechanism] | None = None,
        target: Mechanism | None = None,
        *,
        noiseless: Sequence[str] = (),
        fit_intercept: bool = False,
        center: Mapping[str, float] | Sequence[float] | None = None,
        scale: Mapping[str, float] | Sequence[float] | None = None,
    ) -> None:
        groups = _checked_groups(features)
        for _, mechanism in groups:
            if isinstance(mechanism.noise, ClippedNoise):
                raise ValueError(
                    f"{mechanism!r} clips what comes out, and features cannot be corrected after that. Only a target "
                    "may be clipped after its noise: give features the mechanism without clipping."
                )
        noiseless = _names(noiseless, "noiseless")
        if target is not None and not isinstance(target, Mechanism):
            raise TypeError(
                f"target must be a mechanism or None; got {type(target).__name__}. Pass a "
                "RandomizedResponse, a "
                "GaussianMechanism, or None for a target that is released as it is."
            )
        if not isinstance(fit_intercept, (bool, np.bool_)):
            raise TypeError(f"fit_intercept must be True or False; got {shown(fit_intercept, 60)}. Pass one of them.")
        values = {
            "groups": groups,
            "target": target,
            "noiseless": noiseless,
            "fit_intercept": bool(fit_intercept),
            "center": _per_column(center, _CENTER, "center"),
            "scale": _per_column(scale, _SCALE, "scale"),
        }
        named = Counter(name for names, _ in groups for name in names or ())
        named.update(noiseless)
        twice = sorted(name for name, count in named.items() if count > 1)
        if twice:
            raise ValueError(f"{', '.join(twice)} is named more than once. Name each column once.")
        for field, value in values.items():
            object.__setattr__(self, field, value)
        if self.columns is not None:
            self._name_scales(self.columns)

    def __repr__(self) -> str:
        parts = []
        if self.groups:
            if self.groups[0][0] is None:
                parts.append(f"features={self.groups[0][1]!r}")
            else:
                inside = ", ".join(
                    f"{names[0]!r}: {mechanism!r}"
                    if names is not None and len(names) == 1
                    else f"{names!r}: {mechanism!r}"
                    for names, mechanism in self.groups
                )
                parts.append(f"features={{{inside}}}")
        if self.target is not None:
            parts.append(f"target={self.target!r}")
        if self.noiseless:
            parts.append(f"noiseless={self.noiseless!r}")
        if self.fit_intercept:
            parts.append("fit_intercept=True")
        for name, values in (("center", self.center), ("scale", self.scale)):
            if values:
                parts.append(f"{name}={_plain(values)!r}")
        return f"Release({', '.join(parts)})"

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
            All columns of X; the noiseless ones among them keep their role and go last.

        Returns
        -------
        Release
            Itself, where it has names already and they agree.

        Raises
        ------
        ValueError
            The names do not fit the ones that the release has.
        """
        names = _names(columns, "columns")
        if len(set(names)) < len(names):
            raise ValueError(f"the columns {', '.join(names)} repeat a name. Name each column once.")
        if self.columns is not None:
            if set(names) != set(self.columns):
                raise ValueError(
                    f"the release has the columns {', '.join(self.columns)}; got {', '.join(names)}. Bind the same."
                )
            return self
        missing = [name for name in self.noiseless if name not in names]
        if missing:
            raise ValueError(f"the noiseless columns {', '.join(missing)} are not among {', '.join(names)}.")
        noised = tuple(name for name in names if name not in self.noiseless)
        bound = object.__new__(Release)
        for field in ("target", "noiseless", "fit_intercept", "center", "scale"):
            object.__setattr__(bound, field, getattr(self, field))
        if self.groups:
            if not noised:
                raise ValueError("every column is noiseless, but the release has a mechanism for features.")
            _check_width(self.groups[0][1], len(noised))
            object.__setattr__(bound, "groups", ((noised, self.groups[0][1]),))
        else:
            object.__setattr__(bound, "groups", ())
            object.__setattr__(bound, "noiseless", names)
        assert bound.columns is not None
        bound._name_scales(bound.columns)
        return bound

    def _name_scales(self, columns: Sequence[str]) -> None:
        """Give names to centres and scales, in the constructor and in `bind` only."""
        for field in ("center", "scale"):
            values: PerColumn = getattr(self, field)
            if values and not isinstance(values[0], tuple):
                if len(values) != len(columns):
                    raise ValueError(
                        f"{field} has {len(values)} entries, but the release has {len(columns)} columns: "
                        f"{', '.join(columns)}. Give one number per column, or a mapping by name."
                    )
                object.__setattr__(self, field, tuple(sorted(zip(columns, values, strict=True))))
            unknown = sorted(set(dict(getattr(self, field))) - set(columns))
            categories = {names[0] for names, mechanism in self.groups if names and _has_categories(mechanism)}
            moved = sorted(
                name
                for name, value in dict(getattr(self, field)).items()
                if name in categories and value != (field == "scale")
            )
            if moved:
                raise ValueError(
                    f"{field} names {', '.join(moved)}, a column of categories, which are neither shifted nor scaled. "
                    "Leave it out."
                )
            if unknown:
                raise ValueError(
                    f"{field} names {', '.join(unknown)}, which is no column of this release. "
                    f"Its columns are {', '.join(columns)}."
                )

    def _bound_to(self, X: Any) -> "Release":
        if self.columns is not None:
            return self
        if _arrays.is_table(X):
            return self.bind(_arrays.column_names(X))
        if self.groups and self.noiseless:
            raise ValueError(
                f"X is an array without names, and the release leaves {', '.join(self.noiseless)} without noise: which "
                "columns those are would be a guess, and a wrong one would send the others out as they are. Pass a "
                "table, or name the columns first: release.bind(names), noiseless ones last."
            )
        count = _arrays.features_array(X).shape[1]
        self._check_count(count)
        names = [f"x{index}" for index in range(count - len(self.noiseless))]
        return self.bind((*names, *self.noiseless))

    def design_matrix(self, X: Any, *, check_finite: bool = True) -> FloatArray:
        """Return released X as a checked array of shape (n, p), float64, columns in the order of `columns`.

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
        return self._coded_matrix(X, "outputs", check_finite=check_finite)

    def true_matrix(self, X: Any) -> FloatArray:
        """Return true X as a checked array of shape (n, p), float64, with codes for categories.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True records, already centred and scaled.
        """
        return self._coded_matrix(X, "inputs")

    def true_target(self, y: Any, *, rows: int) -> FloatArray:
        """Return true targets as a checked array of shape (n,), float64: codes where a channel noises them.

        Parameters
        ----------
        y : array of shape (n,) or a column of a table
            True targets.
        rows : int
            The number n of records.
        """
        target = self._true_target(y, rows)
        if self.target is None or not _has_categories(self.target):
            return target
        known = _coded(_values_of(self.target, "inputs"))
        _arrays.check_labels(target, known.tolist(), "labels", declare="categories={} on the mechanism")
        order = np.argsort(known)
        codes: FloatArray = order[np.searchsorted(known, target, sorter=order)].astype(float)
        return codes

    def _coded_matrix(self, X: Any, side: str, *, check_finite: bool = True) -> FloatArray:
        """Return X checked, with the codes of the inputs or of the outputs in columns of categories."""
        if self.columns is None and _arrays.is_table(X):
            columns = self.bind(_arrays.column_names(X)).columns
        else:
            columns = self.columns
        categories = {
            names[0]: _values_of(mechanism, side)
            for names, mechanism in self.groups
            if _has_categories(mechanism) and names
        }
        matrix = _arrays.features_array(X, columns, check_finite=check_finite, codes=categories)
        self._check_count(matrix.shape[1])
        if categories and not _arrays.is_table(X):
            assert columns is not None
            matrix = matrix.copy()
            for name, values in categories.items():
                place = columns.index(name)
                matrix[:, place] = _codes_in_array(matrix[:, place], values, name)
        return matrix

    def _check_count(self, number_of_columns: int) -> None:
        known = self.number_of_columns
        least = len(self.noiseless) + len(self.groups)
        if (known is not None and number_of_columns != known) or number_of_columns < least:
            expected = str(known) if known is not None else f"at least {least}"
            raise ValueError(
                f"X has {number_of_columns} columns, but the release has {expected}. Pass the columns of the release."
            )

    # ---- noise -------------------------------------------------------------------------------------------

    def design(self, number_of_columns: int) -> "Design":
        """Return how so many columns enter a score, and with which noise.

        Parameters
        ----------
        number_of_columns : int
            The number p of columns of X.
        """
        self._check_count(number_of_columns)
        return _design(self, number_of_columns)

    @property
    def target_noise(self) -> AdditiveNoise | ChannelNoise | None:
        """The noise of the target, or None.

        Raises
        ------
        NoExactCorrectionError
            The target is clipped after its noise: whoever asks for the noise wants to undo or to integrate it.
        """
        noise = None if self.target is None else self.target.noise
        if isinstance(noise, ClippedNoise):
            raise NoExactCorrectionError(noise.refusal)
        return noise

    @property
    def clips_target(self) -> bool:
        """Whether the target is clipped after its noise, so that it is only trained on as it stands."""
        return self.target is not None and isinstance(self.target.noise, ClippedNoise)

    @property
    def target_radius(self) -> float | None:
        """The declared bound on the absolute value of a target with additive noise, if there is one."""
        if self.target is None or not isinstance(self.target.noise, AdditiveNoise):
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
        for place, noise in self.noises(number_of_columns):
            if isinstance(noise, AdditiveNoise):
                variances[place] = noise.coordinate_variances(place.stop - place.start)
        return variances

    def noises(self, number_of_columns: int) -> tuple[tuple[slice, AdditiveNoise | ChannelNoise], ...]:
        """Return the places of each group of columns among X's columns, with their noise."""
        self._check_count(number_of_columns)
        found, start = [], 0
        for names, mechanism in self.groups:
            width = number_of_columns - len(self.noiseless) if names is None else len(names)
            noise = mechanism.noise
            assert not isinstance(noise, ClippedNoise)
            found.append((slice(start, start + width), noise))
            start += width
        return tuple(found)

    def record_radius(self, number_of_columns: int) -> float:
        """Return a bound on the L2 norm of a record within the declared bounds.

        A group without a radius counts as in the unit ball, a noiseless column as in [-1, 1].

        Parameters
        ----------
        number_of_columns : int
            The number of columns of X.
        """
        self._check_count(number_of_columns)
        total = float(len(self.noiseless)) if self.groups else float(number_of_columns)
        for _, mechanism in self.groups:
            one_hot = _has_categories(mechanism) and not _is_number_pair(_values_of(mechanism, "inputs"))
            total += 1.0 if mechanism.bound is None or one_hot else mechanism.bound**2
        return math.sqrt(total)

    # ---- privacy -----------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee | None:
        """The composed local guarantee of a record, or None where a part is noised without a privacy claim.

        Columns and targets that are released as they are stand in its ``unprotected``.
        """
        mechanisms = [mechanism for _, mechanism in self.groups] + ([self.target] if self.target else [])
        parts = [mechanism.guarantee for mechanism in mechanisms]
        if not parts or any(part is None for part in parts):
            return None
        total = compose([part for part in parts if part is not None])
        features = self.noiseless if self.groups or self.noiseless else ("features",)
        return replace(total, unprotected=(*features, *(() if self.target else ("target",))))

    def privatize(
        self,
        X: Any,
        y: Any = None,
        *,
        random_state: int | np.random.Generator | None = None,
        outside: str = "clip",
    ) -> "Noised":
        """Centre, scale and clip records to the declared bounds, and noise them.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True records. A table is matched by name and comes back as a table.
        y : array of shape (n,), optional
            True targets; required if the release noises the target.
        random_state : int, numpy.random.Generator or None
            None draws on the operating system. A seed is for tests and simulations: whoever knows it can
            subtract the noise, so the result carries no guarantee.
        outside : {"clip", "refuse"}
            What to do with records outside the bounds: clip them, with one `ClippingWarning` to the
            collector, or raise.

        Returns
        -------
        Noised
            The noised records, with the release that knows their columns.

        Raises
        ------
        TypeError, ValueError
            The data do not fit; nothing was noised.

        Warns
        -----
        ClippingWarning
            Records were clipped. The count is a statistic of the data; it is not part of the result.

        Notes
        -----
        The noise is not hardened against floating-point attacks; see `symdebias.mechanisms.sampling`.
        """
        if outside not in ("clip", "refuse"):
            raise ValueError(f'outside={outside!r:.60} is not known. Choose "clip" or "refuse".')
        source = sampling.source(random_state)
        if y is None and self.target is not None:
            raise ValueError(
                "the release noises the target, but y was not given. Pass y, or declare a release with target=None."
            )
        release = self._bound_to(X)
        columns = release.columns
        assert columns is not None
        matrix = release._coded_matrix(X, "inputs")
        target = None
        if y is not None:
            target = release._true_target(y, len(matrix))
            _arrays.check_same_index(X, y)
        released = release._standardised(matrix)
        places = [place for place, _ in release.noises(len(columns))]
        clipped = [
            mechanism.clip(_input_values(mechanism, released[:, place]))
            for place, (_, mechanism) in zip(places, release.groups, strict=True)
        ]
        clipped_target = None if target is None or release.target is None else release.target.clip(target)
        parts = clipped if clipped_target is None else [*clipped, clipped_target]
        _report_outside([part.outside for part in parts], len(matrix), outside)
        for place, part, (_, mechanism) in zip(places, clipped, release.groups, strict=True):
            noised = mechanism.add_noise(part, source)
            released[:, place] = noised.reshape(len(noised), -1)
        sent: Any = target
        if clipped_target is not None and release.target is not None:
            sent = release.target.add_noise(clipped_target, source)
            if hasattr(y, "name") and _is_text(_values_of(release.target, "outputs")):
                sent = np.array(_values_of(release.target, "outputs"), dtype=object)[sent.astype(int)]
        return Noised(
            _arrays.table_like(X, columns, release._as_sent(released))
            if _arrays.is_table(X)
            else release._as_coded(released),
            None if sent is None else _arrays.column_like(y, sent),
            release,
            source.seeded,
        )

    def _true_target(self, y: Any, rows: int) -> FloatArray:
        """Return true targets, with text as the codes of the target's categories."""
        if self.target is not None and _has_categories(self.target):
            return text_codes(y, _values_of(self.target, "inputs"), rows)
        return _arrays.target_array(y, rows=rows)

    def released_target(self, y: Any, *, rows: int) -> FloatArray:
        """Return released targets as a checked array of shape (n,), float64, with text as its codes.

        Parameters
        ----------
        y : array of shape (n,) or a column of a table
            Released targets.
        rows : int
            The number n of records.
        """
        if self.target is not None and _has_categories(self.target):
            return text_codes(y, _values_of(self.target, "outputs"), rows)
        return _arrays.target_array(y, rows=rows)

    def _as_sent(self, released: FloatArray) -> list[Any]:
        """Return the columns of released records with categories as their owners know them."""
        sent: list[Any] = list(released.T)
        for (place, _), (_, mechanism) in zip(self.noises(released.shape[1]), self.groups, strict=True):
            if _has_categories(mechanism):
                known = _values_of(mechanism, "outputs")
                codes = np.searchsorted(_coded(known), sent[place.start], sorter=np.argsort(_coded(known)))
                places = np.argsort(_coded(known))[codes]
                sent[place.start] = np.array(known, dtype=object if _is_text(known) else float)[places]
        return sent

    def _as_coded(self, released: FloatArray) -> FloatArray:
        """Return released records with codes for categories that are no pair of numbers."""
        for (place, _), (_, mechanism) in zip(self.noises(released.shape[1]), self.groups, strict=True):
            known = _values_of(mechanism, "outputs") if _has_categories(mechanism) else ()
            if known and not _is_number_pair(known) and not _is_text(known):
                released[:, place.start] = _arrays.codes_array(released[:, place.start], known, "X")
        return released

    def _standardised(self, matrix: FloatArray) -> FloatArray:
        """Return a copy of records, centred and scaled."""
        released = matrix.copy()
        columns = self.columns or ()
        with np.errstate(over="ignore"):
            if self.center:
                released -= _numbers_of(self.center, columns, absent=0.0)
            if self.scale:
                released /= _numbers_of(self.scale, columns, absent=1.0)
        if (self.center or self.scale) and not np.isfinite(released).all():
            row, column = np.argwhere(~np.isfinite(released))[0]
            raise ValueError(
                f"X overflows when it is centred and scaled, in row {row}, column {column}. Entries must "
                "stay below 1e308: check the units of X, or its scale."
            )
        return released

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
        shifts = _numbers_of(self.center, columns, absent=0.0)
        if shifts.any() and not self.fit_intercept:
            raise ValueError(
                "the columns were centred, and without an intercept no coefficients of the original columns "
                "give the same scores. Declare fit_intercept=True."
            )
        scales = _numbers_of(self.scale, columns, absent=1.0)
        for part in design.linear:
            result[..., part.parameter] /= scales[part.column]
            if self.fit_intercept:
                result[..., -1] -= result[..., part.parameter] * shifts[part.column]
        return result

    # ---- the card ----------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the card: what an analyst needs to debias, and nothing about the data."""
        card = {
            "format": _CARD_FORMAT,
            "features": [
                {"columns": None if names is None else list(names), **_mechanism_card(mechanism)}
                for names, mechanism in self.groups
            ],
            "target": None if self.target is None else _mechanism_card(self.target),
            "noiseless": list(self.noiseless),
            "fit_intercept": self.fit_intercept,
            "center": _plain(self.center),
            "scale": _plain(self.scale),
        }
        return json.dumps(card, indent=2, allow_nan=False)

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
        ValueError
            It is not a card of this version.
        """
        if not isinstance(text, str):
            raise TypeError(f"a release card is text; got {type(text).__name__}.")
        if len(text) > _LONGEST_CARD:
            raise ValueError(f"a release card has at most {_LONGEST_CARD:,} characters; got {len(text):,}.")
        try:
            card = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
            return cls._from_card(card)
        except (KeyError, TypeError, AttributeError, RecursionError, ValueError, PrivacyError) as error:
            reason = f"{error}".rstrip(".")[:300]
            raise ValueError(
                f"this is not a release card of the format {_CARD_FORMAT}: {reason}. Ask for the output of to_json()."
            ) from None

    @classmethod
    def _from_card(cls, card: Any) -> "Release":
        keys = {"format", "features", "target", "noiseless", "fit_intercept", "center", "scale"}
        if not isinstance(card, dict):
            raise ValueError("it is not a JSON object")
        if card.get("format") != _CARD_FORMAT:
            raise ValueError(f"its format is {card.get('format')!r:.60}")
        if set(card) != keys:
            raise ValueError(f"it must have exactly the entries {', '.join(sorted(keys))}")
        if not all(isinstance(card[key], list) for key in ("features", "noiseless")):
            raise ValueError("its features and noiseless columns must be lists")
        groups: dict[tuple[str, ...] | None, Mechanism] = {}
        for part in card["features"]:
            columns = part.pop("columns")
            names = None if columns is None else _names(columns, "columns")
            if names in groups:
                raise ValueError("its groups of columns repeat")
            groups[names] = _mechanism_of(part)
        if None in groups and len(groups) > 1:
            raise ValueError("one of its groups of columns has no names")
        features: Any = groups.get(None, groups)
        return cls(
            features or None,
            None if card["target"] is None else _mechanism_of(card["target"]),
            noiseless=card["noiseless"],
            fit_intercept=card["fit_intercept"],
            center=card["center"],
            scale=card["scale"],
        )


@dataclass(frozen=True, eq=False)
class Noised:
    """Noised records.

    Attributes
    ----------
    X : array of shape (n, p), float64, or table
        The noised features, in the order of ``release.columns``.
    y : array of shape (n,), float64, column of a table, or None
        The noised targets, as a column where a column was given.
    release : Release
        The release, with the names of the columns.
    seeded : bool
        Whether the noise came from a seed. The seed itself is not kept.
    """

    X: Any
    y: Any
    release: Release
    seeded: bool

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the release, or None where a part is noised without a privacy claim.

        Raises
        ------
        PrivacyError
            The noise came from a seed: whoever knows it can subtract the noise.
        """
        if self.seeded:
            raise PrivacyError(
                "these records were noised from a seed, so that they carry no guarantee. Call privatize "
                "without random_state for data that are to be private."
            )
        return self.release.guarantee


@dataclass(frozen=True)
class Linear:
    """A column that enters a score with one parameter.

    Attributes
    ----------
    column, parameter : int
        Its places among the columns of X and the parameters.
    noise : AdditiveNoise or None
        Its noise.
    group : int
        Which group of columns it belongs to; -1 without noise.
    """

    column: int
    parameter: int
    noise: AdditiveNoise | None
    group: int


@dataclass(frozen=True)
class Categorical:
    """A column of categories under a finite channel.

    Attributes
    ----------
    column : int
        Its place among the columns of X.
    noise : ChannelNoise
        The channel.
    entries : tuple of tuples of (int, float)
        For each input category the (parameter, value) pairs of its row of the design: one-hot, or a number.
    """

    column: int
    noise: ChannelNoise
    entries: tuple[tuple[tuple[int, float], ...], ...]


@dataclass(frozen=True)
class Design:
    """How the columns of X enter a score.

    Attributes
    ----------
    parameters : tuple of str
        Names of the parameters of one score, one-hot expanded, the intercept last.
    linear : tuple of Linear
        The columns with one parameter each.
    categorical : tuple of Categorical
        The columns of categories.
    covariance : array of shape (p, p), float64
        The covariance of the normal noise of X's columns.
    intercept : bool
        Whether the last parameter is an intercept.
    """

    parameters: tuple[str, ...]
    linear: tuple[Linear, ...]
    categorical: tuple[Categorical, ...]
    covariance: FloatArray
    intercept: bool


def _design(release: Release, count: int) -> Design:
    names = release.columns or tuple(f"x{index}" for index in range(count))
    noise_of: dict[int, tuple[int, AdditiveNoise | ChannelNoise]] = {}
    covariance = np.zeros((count, count))
    for group, (place, noise) in enumerate(release.noises(count)):
        for column in range(place.start, place.stop):
            noise_of[column] = (group, noise)
        if isinstance(noise, AdditiveNoise) and noise.is_gaussian:
            width = place.stop - place.start
            block = np.eye(width) * noise.variance if noise.covariance is None else np.array(noise.covariance)
            covariance[place, place] = block
    mechanisms = [mechanism for _, mechanism in release.groups]
    parameters: list[str] = []
    linear: list[Linear] = []
    categorical: list[Categorical] = []
    for column, name in enumerate(names):
        group, found = noise_of.get(column, (-1, None))
        if not isinstance(found, ChannelNoise):
            linear.append(Linear(column, len(parameters), found, group))
            parameters.append(name)
            continue
        known = _values_of(mechanisms[group], "inputs")
        entries: tuple[tuple[tuple[int, float], ...], ...]
        if _is_number_pair(known):
            entries = tuple(((len(parameters), value),) for value in found.inputs)
            parameters.append(name)
        else:
            # Without an intercept the categories together stand in for one.
            first = 1 if release.fit_intercept or len(known) == 2 else 0
            start = len(parameters) - first
            entries = tuple(((start + place, 1.0),) if place >= first else () for place in range(len(known)))
            parameters += [f"{name}={spell_category(value)}" for value in known[first:]]
        categorical.append(Categorical(column, found, entries))
    if release.fit_intercept:
        parameters.append("intercept")
    return Design(tuple(parameters), tuple(linear), tuple(categorical), covariance, release.fit_intercept)


def spell_category(value: Any) -> str:
    """Return a category as it stands in the name of a parameter."""
    return value if isinstance(value, str) else f"{value:g}"


def _has_categories(mechanism: Mechanism) -> bool:
    return isinstance(mechanism.noise, ChannelNoise)


def _values_of(mechanism: Mechanism, side: str) -> tuple[Any, ...]:
    """Return the categories that go in or come out, as the user declared them."""
    declared = getattr(mechanism, "outputs", None) if side == "outputs" else None
    if declared is None:
        declared = getattr(mechanism, "categories", None)
    if declared is None:
        noise = mechanism.noise
        assert isinstance(noise, ChannelNoise)
        declared = noise.outputs if side == "outputs" else noise.inputs
    return tuple(declared)


def _is_text(values: Sequence[Any]) -> bool:
    return bool(values) and isinstance(values[0], str)


def _is_number_pair(values: Sequence[Any]) -> bool:
    return len(values) == 2 and not _is_text(values)


def _coded(values: Sequence[Any]) -> FloatArray:
    return np.arange(len(values), dtype=float) if _is_text(values) else np.array(values, dtype=float)


def _input_values(mechanism: Mechanism, codes: FloatArray) -> FloatArray:
    """Return what a mechanism takes: the numbers that stand for the categories, or the columns as they are."""
    if not _has_categories(mechanism):
        return codes
    values: FloatArray = _coded(_values_of(mechanism, "inputs"))[codes[:, 0].astype(int)]
    return values


def _codes_in_array(column: FloatArray, values: Sequence[Any], name: str) -> FloatArray:
    """Return codes of a column of an array: of the numbers of a pair, or the codes that it holds, checked."""
    if _is_number_pair(values):
        _arrays.check_labels(column, values, f"column {name} of X", declare="categories={} on the mechanism")
        codes: FloatArray = (column == values[1]).astype(float)
        return codes
    inside = (column == np.floor(column)) & (column >= 0) & (column < len(values))
    if not inside.all():
        raise ValueError(
            f"column {name} of X has an entry in row {int(np.argmin(inside))} that is no code of a category. An array "
            f"holds the codes 0 to {len(values) - 1}, the places of the declared categories; pass a table for the "
            "categories themselves."
        )
    return column


def text_codes(y: Any, values: Sequence[Any], rows: int) -> FloatArray:
    """Return a target of categories as numbers: text as its codes, numbers as they are."""
    if _is_text(values):
        kind = np.asarray(y).dtype.kind
        if kind in "OUST":
            codes = _arrays.codes_array(y, values, "y")
            return _arrays.target_array(codes, rows=rows)
    return _arrays.target_array(y, rows=rows)


def _checked_groups(features: Any) -> Groups:
    if features is None:
        return ()
    if isinstance(features, Mechanism):
        if features.width == 1 and _has_categories(features):
            raise TypeError(
                f"{type(features).__name__} noises one column of categories. Name it: features={{name: mechanism}}."
            )
        return ((None, features),)
    if not isinstance(features, Mapping) or not features:
        raise TypeError(
            "features must be a mechanism, a mapping from columns to mechanisms, or None; got "
            f"{type(features).__name__}{' without entries' if features == {} else ''}."
        )
    groups = []
    for key, mechanism in features.items():
        names = _names((key,) if isinstance(key, str) else key, "features")
        if not names:
            raise ValueError("features has a group without columns. Name at least one.")
        if not isinstance(mechanism, Mechanism):
            raise TypeError(
                f"features are noised by mechanisms; got {type(mechanism).__name__}. Pass a mechanism, such as "
                "GaussianMechanism or RandomizedResponse."
            )
        _check_width(mechanism, len(names))
        groups.append((names, mechanism))
    return tuple(groups)


def _check_width(mechanism: Mechanism, width: int) -> None:
    if mechanism.width is not None and mechanism.width != width:
        raise ValueError(
            f"{mechanism!r} noises {mechanism.width} column{'s' if mechanism.width > 1 else ''} together; got {width}. "
            "Name each group with as many columns as its mechanism takes."
        )


def _names(names: Any, argument: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise TypeError(
            f"{argument} must be a sequence of column names; got {shown(names, 100)}. Pass a tuple or list of text."
        )
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"{argument} has {shown(name, 100)}, which is not a column name. Names are non-empty text.")
    return tuple(names)


def _per_column(values: Any, domain: Interval, argument: str) -> PerColumn:
    if values is None:
        return ()
    if isinstance(values, Mapping):
        names = _names(tuple(values), argument)
        return tuple(sorted((name, domain.check(f"{argument}[{shown(name)}]", values[name])) for name in names))
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise TypeError(
            f"{argument} must map column names to numbers, or list one number per column; got "
            f"{type(values).__name__}. Pass a dict or a list."
        )
    return tuple(domain.check(f"{argument}[{index}]", value) for index, value in enumerate(values))


def _plain(values: PerColumn) -> dict[str, float] | list[Any]:
    """Return numbers per column as JSON has them."""
    return list(values) if values and not isinstance(values[0], tuple) else dict(values)  # type: ignore[arg-type]


def _numbers_of(values: PerColumn, columns: Sequence[str], *, absent: float) -> FloatArray:
    by_name = dict(values)  # type: ignore[arg-type]
    return np.array([by_name.get(name, absent) for name in columns])


def _report_outside(flags: list[np.ndarray[Any, np.dtype[np.bool_]]], records: int, outside: str) -> None:
    """Refuse records outside the bounds, or warn the collector of them."""
    rows = np.zeros(records, dtype=bool)
    for flag in flags:
        rows |= flag
    count = int(rows.sum())
    if count and outside == "refuse":
        raise ValueError(
            f"{count} of {records} records lie outside the declared bounds, the first in row "
            f"{int(np.argmax(rows))}. "
            'Declare wider public bounds, or pass outside="clip".'
        )
    if count:
        warnings.warn(
            f"{count} of {records} records lay outside the declared bounds and were clipped. This count is a "
            "statistic of the true data: do not pass it on.",
            ClippingWarning,
            stacklevel=3,
        )


def _mechanism_card(mechanism: Mechanism) -> dict[str, Any]:
    return {"kind": mechanism.kind, **mechanism.to_card()}


def _mechanism_of(card: dict[str, Any]) -> Mechanism:
    kind = card.pop("kind")
    if kind not in KINDS:
        raise ValueError(f"the kind of mechanism {kind!r:.50} is not one of {', '.join(KINDS)}")
    return KINDS[kind].from_card(card)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a finite number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("an entry stands twice")
    return entries
