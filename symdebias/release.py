"""A release: which mechanism noises which columns, what it guarantees, and the card that an analyst gets."""

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias import _arrays
from symdebias._domains import Interval
from symdebias.exceptions import ClippingWarning, PrivacyError
from symdebias.mechanisms import KINDS, GaussianMechanism, Mechanism, RandomizedResponse, sampling
from symdebias.mechanisms.base import Clipped
from symdebias.noise import AdditiveNoise, FiniteChannel
from symdebias.privacy import Guarantee, compose

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Groups = tuple[tuple[tuple[str, ...] | None, Mechanism], ...]

_CARD_FORMAT = "symdebias-release-1"
_LONGEST_CARD = 1_000_000
_MOST_COLUMNS = 10_000
_CENTER = Interval(-math.inf, math.inf, "neither", "Give a public number per column.")
_SCALE = Interval(0.0, math.inf, "neither", "Give a public positive number per column.")


@dataclass(frozen=True, init=False)
class Release:
    """Which mechanism noises which columns of a record.

    Parameters
    ----------
    features : Mechanism, mapping or None
        One mechanism for the vector of all feature columns; or a mapping from a column's name, or a tuple of
        names, to the mechanism of that group; or None if the features are released as they are.
    target : Mechanism, optional
        The mechanism of the target: `RandomizedResponse` for a target of two values, `GaussianMechanism` for a
        continuous one. Without it the target is released as it is.
    noiseless : sequence of str
        Columns released as they are. A column that is neither noised nor listed here is an error.
    fit_intercept : bool
        Whether models on this release have an intercept: a constant that the solver adds, last in theta.
    center, scale : mapping from str to float, optional
        Public centre and scale per column; columns are released as (x - center)/scale, which is what the bounds
        of the mechanisms refer to.

    Raises
    ------
    TypeError, ValueError
        A column is named twice, a mechanism does not fit its place, a number is not finite.

    Notes
    -----
    A column's place in `columns` is its place in the declaration, noiseless columns last. A release with
    one mechanism for all features gets its names at `privatize` or `bind`.

    Examples
    --------
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
    center: tuple[tuple[str, float], ...]
    scale: tuple[tuple[str, float], ...]

    def __init__(
        self,
        features: Mechanism | Mapping[str | tuple[str, ...], Mechanism] | None = None,
        target: Mechanism | None = None,
        *,
        noiseless: Sequence[str] = (),
        fit_intercept: bool = False,
        center: Mapping[str, float] | None = None,
        scale: Mapping[str, float] | None = None,
    ) -> None:
        groups = _checked_groups(features)
        noiseless = _names(noiseless, "noiseless")
        if target is not None and not isinstance(target, Mechanism):
            raise TypeError(f"target must be a mechanism or None; got {type(target).__name__}.")
        if not isinstance(fit_intercept, (bool, np.bool_)):
            raise TypeError(f"fit_intercept must be True or False; got {fit_intercept!r}.")
        values = {
            "groups": groups,
            "target": target,
            "noiseless": noiseless,
            "fit_intercept": bool(fit_intercept),
            "center": _numbers_by_name(center, _CENTER, "center"),
            "scale": _numbers_by_name(scale, _SCALE, "scale"),
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)
        named = [name for names, _ in groups if names is not None for name in names] + list(noiseless)
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} is named more than once. Name each column once.")
        if self.columns is not None:
            self._check_scaled_names(self.columns)

    def __repr__(self) -> str:
        parts = []
        if self.groups:
            if self.groups[0][0] is None:
                parts.append(f"features={self.groups[0][1]!r}")
            else:
                inside = ", ".join(
                    f"{names[0]!r}: {mechanism!r}" if names is not None and len(names) == 1 else f"{names!r}: {mechanism!r}"
                    for names, mechanism in self.groups
                )
                parts.append(f"features={{{inside}}}")
        if self.target is not None:
            parts.append(f"target={self.target!r}")
        if self.noiseless:
            parts.append(f"noiseless={self.noiseless!r}")
        if self.fit_intercept:
            parts.append("fit_intercept=True")
        parts += [f"{name}={dict(values)!r}" for name, values in (("center", self.center), ("scale", self.scale)) if values]
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
            object.__setattr__(bound, "groups", ((noised, self.groups[0][1]),))
        else:
            object.__setattr__(bound, "groups", ())
            object.__setattr__(bound, "noiseless", names)
        bound._check_scaled_names(names)
        return bound

    def _check_scaled_names(self, columns: Sequence[str]) -> None:
        unknown = sorted({name for name, _ in (*self.center, *self.scale)} - set(columns))
        if unknown:
            raise ValueError(
                f"center or scale names {', '.join(unknown)}, which is no column of this release. "
                f"Its columns are {', '.join(columns)}."
            )

    def _bound_to(self, X: Any) -> "Release":
        if self.columns is not None:
            return self
        if _arrays.is_table(X):
            return self.bind(_arrays.column_names(X))
        count = np.shape(X)[1] if np.ndim(X) == 2 else 1
        names = [f"x{index}" for index in range(count - len(self.noiseless))]
        return self.bind((*names, *self.noiseless))

    def design_matrix(self, X: Any) -> FloatArray:
        """Return X as a checked array of shape (n, p), float64, columns in the order of `columns`.

        Parameters
        ----------
        X : array of shape (n, p) or table
            An array has its columns in that order; a table is matched by name.

        Raises
        ------
        TypeError, ValueError
            X does not fit; see `symdebias._arrays.features_array`.
        """
        if self.columns is None and _arrays.is_table(X):
            return _arrays.features_array(X, self.bind(_arrays.column_names(X)).columns)
        matrix = _arrays.features_array(X, self.columns)
        self._check_count(matrix.shape[1])
        return matrix

    def _check_count(self, number_of_columns: int) -> None:
        columns = self.columns
        least = len(self.noiseless) + len(self.groups)
        if (columns is not None and number_of_columns != len(columns)) or number_of_columns < least:
            expected = str(len(columns)) if columns is not None else f"at least {least}"
            raise ValueError(f"X has {number_of_columns} columns, but the release has {expected}.")

    # ---- noise -------------------------------------------------------------------------------------------

    @property
    def feature_noises(self) -> tuple[AdditiveNoise, ...]:
        """The noise of each group of columns."""
        noises = []
        for _, mechanism in self.groups:
            noise = mechanism.noise
            assert isinstance(noise, AdditiveNoise)
            noises.append(noise)
        return tuple(noises)

    @property
    def target_noise(self) -> AdditiveNoise | FiniteChannel | None:
        """The noise of the target, or None."""
        return None if self.target is None else self.target.noise

    @property
    def target_radius(self) -> float | None:
        """The declared bound on |target|, if there is one."""
        return self.target.radius if isinstance(self.target, GaussianMechanism) else None

    def feature_variances(self, number_of_columns: int) -> FloatArray:
        """Return the noise variance of each column, zero for noiseless ones.

        Parameters
        ----------
        number_of_columns : int
            The number p of columns of X.

        Returns
        -------
        array of shape (p,), float64
            In the order of `columns`.
        """
        self._check_count(number_of_columns)
        variances = np.zeros(number_of_columns)
        position = 0
        for (names, _), noise in zip(self.groups, self.feature_noises, strict=True):
            width = number_of_columns - len(self.noiseless) if names is None else len(names)
            variances[position : position + width] = noise.variance
            position += width
        return variances

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
            radius = mechanism.radius if isinstance(mechanism, GaussianMechanism) else None
            total += 1.0 if radius is None else radius**2
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
        unprotected = (*(self.noiseless if self.groups else ("features",)), *(() if self.target else ("target",)))
        return replace(total, unprotected=unprotected)

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
            raise ValueError(f'outside={outside!r} is not known. Choose "clip" or "refuse".')
        if y is None and self.target is not None:
            raise ValueError("the release noises the target, but y was not given. Pass y.")
        release = self._bound_to(X)
        matrix = release.design_matrix(X)
        target = None
        if y is not None:
            _arrays.check_same_index(X, y)
            target = _arrays.target_array(y, rows=len(matrix))
        columns = release.columns or ()
        scaled = _standardised(matrix, columns, dict(release.center), dict(release.scale))
        slices, clipped = release._clip(scaled, columns)
        clipped_target = None if target is None or release.target is None else release.target.clip(target)
        moved = sum(part.moved for part in clipped) + (clipped_target.moved if clipped_target else 0)
        if moved and outside == "refuse":
            raise ValueError(
                "records lie outside the declared bounds. Declare wider public bounds, or pass outside='clip'."
            )
        source = sampling.source(random_state)
        noised = scaled.copy()
        for where, part, (_, mechanism) in zip(slices, clipped, release.groups, strict=True):
            noised[:, where] = mechanism.add_noise(part, source)
        noised_target = target
        if clipped_target is not None and release.target is not None:
            noised_target = release.target.add_noise(clipped_target, source)
        if moved:
            warnings.warn(
                f"{moved} values or vectors of {len(matrix)} records lay outside the declared bounds and were clipped. "
                "This count is a statistic of the true data: do not pass it on.",
                ClippingWarning,
                stacklevel=2,
            )
        result = _arrays.table_like(X, columns, noised) if _arrays.is_table(X) else noised
        return Noised(result, noised_target, release, source.seeded)

    def _clip(self, scaled: FloatArray, columns: Sequence[str]) -> tuple[list[slice], list[Clipped]]:
        slices, clipped, position = [], [], 0
        for names, mechanism in self.groups:
            where = slice(position, position + len(names or columns))
            slices.append(where)
            clipped.append(mechanism.clip(scaled[:, where]))
            position = where.stop
        return slices, clipped

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
        columns = self.columns or tuple(f"x{index}" for index in range(len(theta) - self.fit_intercept))
        center, scale = dict(self.center), dict(self.scale)
        result = np.array(theta, dtype=float)
        result[: len(columns)] /= [scale.get(name, 1.0) for name in columns]
        shift = float(result[: len(columns)] @ np.array([center.get(name, 0.0) for name in columns]))
        if any(center.values()):
            if not self.fit_intercept:
                raise ValueError(
                    "the columns were centred, and without an intercept no coefficients of the original columns "
                    "give the same scores. Declare fit_intercept=True."
                )
            result[-1] -= shift
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
            "center": dict(self.center),
            "scale": dict(self.scale),
        }
        return json.dumps(card, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Release":
        """Read a card.

        Parameters
        ----------
        text : str
            What `to_json` returned. It may come from a stranger: only known kinds and finite numbers are taken.

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
            card = json.loads(text, parse_constant=_refuse_constant)
            return cls._from_card(card)
        except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
            raise ValueError(
                f"this is not a release card of the format {_CARD_FORMAT}: {error}. Ask for the output of to_json()."
            ) from None

    @classmethod
    def _from_card(cls, card: Any) -> "Release":
        keys = {"format", "features", "target", "noiseless", "fit_intercept", "center", "scale"}
        if not isinstance(card, dict) or set(card) != keys or card["format"] != _CARD_FORMAT:
            raise ValueError(f"it must have exactly the entries {', '.join(sorted(keys))}")
        groups = []
        for part in card["features"]:
            names = part.pop("columns")
            groups.append((None if names is None else tuple(names), _mechanism_of(part)))
        features: Any = dict(groups)
        if len(features) != len(groups) or (None in features and len(groups) > 1):
            raise ValueError("its groups of columns repeat")
        if None in features:
            features = features[None]
        return cls(
            features or None,
            None if card["target"] is None else _mechanism_of(card["target"]),
            noiseless=card["noiseless"],
            fit_intercept=card["fit_intercept"],
            center=card["center"],
            scale=card["scale"],
        )


@dataclass(frozen=True)
class Noised:
    """Noised records.

    Attributes
    ----------
    X : array of shape (n, p), float64, or table
        The noised features, in the order of ``release.columns``.
    y : array of shape (n,), float64, or None
        The noised targets.
    release : Release
        The release, with the names of the columns.
    seeded : bool
        Whether the noise came from a seed.
    """

    X: Any
    y: FloatArray | None
    release: Release
    seeded: bool

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the release.

        Raises
        ------
        PrivacyError
            The noise came from a seed: whoever knows it can subtract the noise.
        """
        if self.seeded:
            raise PrivacyError(
                "these records were noised from a seed, so that they carry no guarantee. Call privatize without "
                "random_state for data that are to be private."
            )
        return self.release.guarantee


def _checked_groups(features: Any) -> Groups:
    if features is None:
        return ()
    if isinstance(features, Mechanism):
        return ((None, _additive(features)),)
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
        groups.append((names, _additive(mechanism)))
    return tuple(groups)


def _additive(mechanism: Any) -> Mechanism:
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"features are noised by mechanisms; got {type(mechanism).__name__}.")
    if not isinstance(mechanism.noise, AdditiveNoise):
        raise TypeError(
            f"{type(mechanism).__name__} noises a target; features take mechanisms that add noise, such as "
            "GaussianMechanism."
        )
    return mechanism


def _names(names: Any, argument: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) > _MOST_COLUMNS:
        raise TypeError(f"{argument} must be a sequence of column names; got {names!r:.100}.")
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"{argument} has {name!r:.100}, which is not a column name. Names are non-empty text.")
    return tuple(names)


def _numbers_by_name(values: Any, domain: Interval, argument: str) -> tuple[tuple[str, float], ...]:
    if values is None:
        return ()
    if not isinstance(values, Mapping):
        raise TypeError(f"{argument} must map column names to numbers; got {type(values).__name__}.")
    names = _names(tuple(values), argument)
    return tuple(sorted((name, domain.check(f"{argument}[{name!r}]", values[name])) for name in names))


def _standardised(
    matrix: FloatArray, columns: Sequence[str], center: dict[str, float], scale: dict[str, float]
) -> FloatArray:
    if not center and not scale:
        return matrix
    shifts = np.array([center.get(name, 0.0) for name in columns])
    scales = np.array([scale.get(name, 1.0) for name in columns])
    return (matrix - shifts) / scales


def _mechanism_card(mechanism: Mechanism) -> dict[str, Any]:
    return {"kind": mechanism.kind, **mechanism.to_card()}


def _mechanism_of(card: dict[str, Any]) -> Mechanism:
    kind = card.pop("kind")
    if kind not in KINDS:
        raise ValueError(f"the kind of mechanism {kind!r:.50} is not one of {', '.join(KINDS)}")
    return KINDS[kind].from_card(card)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a finite number")
