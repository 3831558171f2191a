"""Columns of categories without noise as they were collected: one column in the place of its indicators.

Without noise an indicator says nothing that the category does not, and whoever expands columns in a way of their own,
as formulas do, takes the categories themselves.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from symdebias._arrays import real_array
from symdebias.release.categories import spelled
from symdebias.release.columns import as_json
from symdebias.release.remaking import remade

if TYPE_CHECKING:
    from symdebias.mechanisms.base import Mechanism
    from symdebias.release.release import Release

# How far from 0 and 1 an indicator may be that was centred and scaled, and brought back.
_ROUNDED = 1e-6


def public_categories(release: "Release") -> dict[str, tuple[str, ...]]:
    """Return the names of the indicators of each column of declared categories that has no noise."""
    plain = set(release.noiseless)
    return {column: names for column, names in release.categories.indicators.items() if plain.issuperset(names)}


def gathered_release(release: "Release") -> "Release":
    """Return a release with each column of categories without noise in the place of its indicators.

    Examples
    --------
    >>> import symdebias as sd
    >>> noise = sd.LaplaceMechanism.from_scale(1.0)
    >>> release = sd.Release({"age": noise}, noiseless=("place",), categories={"place": ("n", "e", "s")})
    >>> release.columns, gathered_release(release).columns
    (('age', 'place=n', 'place=e', 'place=s'), ('age', 'place'))
    """
    public = public_categories(release)
    if not public:
        return release
    column_of = {name: column for column, names in public.items() for name in names}
    groups: dict[str | tuple[str, ...], Mechanism] = {names or (): mechanism for names, mechanism in release.groups}
    return remade(
        release,
        groups or None,
        noiseless=tuple(dict.fromkeys(column_of.get(name, name) for name in release.noiseless)),
        categories={name: own for name, own in release.categories.as_json().items() if name not in public},
        center={name: own for name, own in dict(as_json(release.center)).items() if name not in column_of},
        scale={name: own for name, own in dict(as_json(release.scale)).items() if name not in column_of},
    )


def gathered_columns(release: "Release", columns: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return columns of categories without noise, as texts, from the columns of records.

    Parameters
    ----------
    release : Release
        With the indicators.
    columns : mapping from str to array of shape (n,)
        Those of released records, which have indicators, or of records that have the categories themselves.

    Returns
    -------
    dict from str to array of shape (n,)
        The column of each declared name that is there, or whose indicators are. What is no category is None.

    Raises
    ------
    ValueError, TypeError
        Indicators are not those of a category.

    Examples
    --------
    >>> import symdebias as sd
    >>> noise = sd.LaplaceMechanism.from_scale(1.0)
    >>> release = sd.Release({"age": noise}, noiseless=("place",), fit_intercept=True, categories={"place": (1, 2, 3)})
    >>> gathered_columns(release, {"place=2": [0.0, 1.0], "place=3": [0.0, 0.0]})["place"].tolist()
    ['1', '2']
    """
    labels = dict(release.categories.labels)
    center, scale = dict(as_json(release.center)), dict(as_json(release.scale))
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, indicators in public_categories(release).items():
        texts = {value: spelled(value) for value in labels[name].values}
        if name in columns:
            found[name] = np.array([texts.get(value) for value in np.asarray(columns[name]).tolist()], dtype=object)
        elif all(one in columns for one in indicators):
            own = [real_array(columns[one], f"column {one}") for one in indicators]
            moved = [
                values * scale.get(one, 1.0) + center.get(one, 0.0) for one, values in zip(indicators, own, strict=True)
            ]
            found[name] = np.array(list(texts.values()), dtype=object)[_codes(np.column_stack(moved), len(texts), name)]
    return found


def _codes(indicators: np.ndarray[Any, Any], count: int, name: str) -> np.ndarray[Any, Any]:
    """Return the code of each record's category, shape (n,), of indicators, shape (n, count) or without the first."""
    if indicators.shape[1] < count:
        indicators = np.column_stack([1 - indicators.sum(axis=1), indicators])
    codes: np.ndarray[Any, Any] = indicators.argmax(axis=1)
    wrong = np.flatnonzero(np.abs(indicators - np.eye(count)[codes]).max(axis=1, initial=0.0) > _ROUNDED)
    if len(wrong):
        raise ValueError(
            f"the indicators of {name} are those of no category in row {wrong[0]}: of all of them one is 1, and the "
            "others 0. Pass released records."
        )
    return codes
