"""One of the released columns as the target: a release with several outcomes, of which a fit takes one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symdebias import _arrays
from symdebias._arrays import real_array
from symdebias._columns import Table
from symdebias._domains import is_choice, shown
from symdebias._rows import Rows
from symdebias.release.columns import as_json, checked_names
from symdebias.release.remaking import remade

if TYPE_CHECKING:
    from symdebias.mechanisms.base import Mechanism
    from symdebias.release.noised import Noised
    from symdebias.release.release import Release


def with_target(release: "Release", name: str, features: Sequence[str] | None = None) -> "Release":
    """Return a release with one of its columns as the target, and others, or some of them, as features.

    Raises
    ------
    ValueError, TypeError
        There is no such column, or it has no noise of its own.
    """
    if release.coupling is not None:
        raise ValueError(
            f'target="{release.coupling.kind}" releases features and target in one vector, for that target alone. '
            "Release outcomes apart."
        )
    columns = release.columns
    if columns is None:
        raise ValueError("the release does not name its columns. Use noised.release, or release.bind(names).")
    if not is_choice(name, columns):
        raise ValueError(f"{shown(name, 60)} is no column of the release; these are {', '.join(columns)}. Name one.")
    one_hot = release.categories
    kept = set(columns) - {name}
    if features is not None:
        kept = set(one_hot.released(checked_names(features, "features")))
    unknown = sorted(kept - set(columns))
    if unknown or name in kept:
        raise ValueError(
            f"features names {', '.join(unknown) or name}, which is no other column of the release; these are "
            f"{', '.join(one for one in columns if one != name)}. Name some of them."
        )
    moved = [argument for argument in ("center", "scale") if name in dict(getattr(release, argument))]
    if moved:
        raise ValueError(
            f"{name} was released with {' and '.join(f'{one}=' for one in moved)}, which a target has not. Leave it "
            "out of them at the release, as a schema does with outcome = true."
        )
    target: Mechanism | None = None
    groups: dict[str | tuple[str, ...], Mechanism] = {}
    for own, mechanism in release.groups:
        names = own or ()
        if names == (name,):
            target = mechanism
            continue
        left = [one for one in names if one in kept]
        if name in names:
            raise ValueError(
                f"{', '.join(names)} are noised together, in one vector, and {name} would be taken out of it. Release "
                "outcomes by mechanisms of their own, as a schema does with outcome = true."
            )
        if left and len(left) < len(names):
            raise ValueError(
                f"{', '.join(names)} are noised together, in one vector, and features leaves columns out of it. Name "
                "all of them, or none."
            )
        if left:
            groups[names] = mechanism
    indicators = {column: set(names) for column, names in one_hot.indicators.items()}
    split = [column for column, names in indicators.items() if name in names or 0 < len(names & kept) < len(names)]
    if split:
        raise ValueError(
            f"{split[0]} was released as indicators of its categories, which stay together, as features. Name all of "
            f"them, or {split[0]}, or none."
        )
    categories = {column: own for column, own in one_hot.as_json().items() if indicators[column] <= kept}
    return _keeping(release, groups, target, categories, kept.__contains__)


def without(release: "Release", names: Sequence[str]) -> "Release":
    """Return a release without some of its columns.

    Parameters
    ----------
    release : Release
        With the names of its columns.
    names : sequence of str
        Columns as they were collected: of categories without noise all indicators are left out.

    Raises
    ------
    ValueError
        There is no such column, or it was noised in one vector with others that stay.
    """
    one_hot = release.categories
    indicators = one_hot.indicators
    left_out = {one for name in names for one in indicators.get(name, (name,))}
    unknown = sorted(left_out - set(release.columns or ()))
    if unknown:
        raise ValueError(f"{shown(unknown[0], 60)} is no column of the release. Name one of its columns.")
    groups: dict[str | tuple[str, ...], Mechanism] = {}
    for own, mechanism in release.groups:
        vector = own or ()
        if not left_out.isdisjoint(vector) and not left_out.issuperset(vector):
            raise ValueError(f"{', '.join(vector)} are noised together, in one vector. Leave all of them out, or none.")
        if not left_out.intersection(vector):
            groups[vector] = mechanism
    categories = {column: own for column, own in one_hot.as_json().items() if left_out.isdisjoint(indicators[column])}
    return _keeping(release, groups, release.target, categories, lambda one: one not in left_out)


def apart(noised: "Noised", names: Sequence[str]) -> "tuple[Noised, dict[str, np.ndarray[Any, Any]]]":
    """Return records without some of their columns, and what these have, by name, in units of their own.

    Parameters
    ----------
    noised : Noised
        Records with named columns, in memory or read by blocks.
    names : sequence of str
        As for `without`. Of a column of categories there are codes, those of their order.

    Raises
    ------
    ValueError
        As for `without`.
    """
    release, columns = noised.release, list(noised.release.columns or ())
    left, indicators = without(release, names), release.categories.indicators
    wanted = [one for name in names for one in indicators.get(name, (name,))]
    places = [columns.index(one) for one in wanted]
    if isinstance(noised.X, Rows):
        rest: Any = Rows.made_of(noised.X, lambda part: np.ascontiguousarray(np.delete(part, places, axis=1)))
        matrix = np.concatenate(noised.X.over_blocks(lambda part: part[:, places].copy()))
        found = dict(zip(wanted, matrix.T, strict=True))
    else:
        rest = Table({name: noised.X[name] for name in columns if name not in wanted})
        found = {one: real_array(noised.X[one], f"column {one}") for one in wanted}
    center, scale = dict(as_json(release.center)), dict(as_json(release.scale))
    own: dict[str, np.ndarray[Any, Any]] = {}
    for name in names:
        if name in indicators:
            # No indicator is 1 for the category that has none.
            own[name] = np.column_stack([found[one] for one in indicators[name]]) @ np.arange(
                1, 1 + len(indicators[name])
            )
        else:
            own[name] = found[name] * scale.get(name, 1.0) + center.get(name, 0.0)
    return replace(noised, X=rest, release=left), own


def _keeping(
    release: "Release",
    groups: "Mapping[str | tuple[str, ...], Mechanism]",
    target: "Mechanism | str | None",
    categories: Any,
    keeps: Callable[[str], bool],
) -> "Release":
    """Return a release of other groups, target and categories, with what else it says of the columns that it keeps."""
    center, scale = (
        {one: value for one, value in dict(as_json(own)).items() if keeps(one)}
        for own in (release.center, release.scale)
    )
    noiseless = tuple(one for one in release.noiseless if keeps(one))
    return remade(
        release, groups or None, target=target, noiseless=noiseless, center=center, scale=scale, categories=categories
    )


def chosen(noised: "Noised", name: str, features: Sequence[str] | None = None) -> tuple[Any, Any, "Release"]:
    """Return features, target and release of noised records, of which one column is to be the target."""
    release = with_target(noised.release, name, features)
    names = release.columns or ()
    if _arrays.is_table(noised.X):
        frame = noised.X
        if isinstance(frame, Table):
            return Table({one: frame[one] for one in names}), frame[name], release
        # Tables of polars and pyarrow select columns; those of pandas have them by a list of names.
        part = frame.select(list(names)) if hasattr(frame, "select") else frame[list(names)]
        return part, frame[name], release
    matrix = np.asarray(noised.X)
    places = {one: place for place, one in enumerate(noised.release.columns or ())}
    return np.ascontiguousarray(matrix[:, [places[one] for one in names]]), matrix[:, places[name]].copy(), release
