"""A description: how another program noised the columns of a table, as whoever received the table knows it.

It says in a dict or a TOML file what the documentation of the data says of their noise. Nothing in it is guessed: a
column without noise has to say so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias._columns import Table
from symdebias._domains import shown
from symdebias._names import by_other_names, meant
from symdebias.exceptions import PrivacyError
from symdebias.mechanisms import (
    DiscreteLaplaceMechanism,
    DiscreteStaircaseMechanism,
    FiniteChannel,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    RandomizedResponse,
    StaircaseMechanism,
    UniformMechanism,
)
from symdebias.release.collecting import columns_read
from symdebias.release.entries import columns_of, entries_of, intercept_of, require_known, target_of
from symdebias.release.noised import Noised
from symdebias.release.release import Release
from symdebias.release.schema import Column, declared_labels

_NAME = "noise description"
_KEYS = ("columns", "target", "intercept")
_NO_NOISE = "none"
_EXAMPLE_OF_TARGET = 'target = { name = "ill", noise = "randomized_response", keep = 0.9, categories = ["no", "yes"] }'
_EXAMPLE = 'age = { noise = "laplace", scale = 8.0 } or smokes = { noise = "none" }'


@dataclass(frozen=True)
class _Way:
    """One way to state a noise: what makes its mechanism, of entries that are needed and of others."""

    make: Callable[..., Mechanism]
    needed: tuple[str, ...]
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        others = f" (and {', '.join(self.others)})" if self.others else ""
        return f"{', '.join(self.needed)}{others}"

    def suits(self, given: set[str]) -> bool:
        """Whether these are its entries."""
        return set(self.needed) <= given <= {*self.needed, *self.others}


def _estimated(scale: float, degrees_of_freedom: float) -> GaussianMechanism:
    return GaussianMechanism.from_estimate(scale, degrees_of_freedom)


# The ways to state each noise, by the arguments of constructors; the first is the one that most programs document.
_OF_NUMBERS: Mapping[str, tuple[_Way, ...]] = {
    "gaussian": (
        _Way(GaussianMechanism.from_scale, ("scale",)),
        _Way(_estimated, ("scale", "degrees_of_freedom")),
        _Way(GaussianMechanism.from_reliability, ("ratio", "variance"), ("standard_error",)),
        _Way(GaussianMechanism, ("epsilon", "delta", "radius"), ("calibration",)),
    ),
    "laplace": (
        _Way(LaplaceMechanism.from_scale, ("scale",), ("bounds",)),
        _Way(LaplaceMechanism, ("epsilon", "bounds")),
    ),
    "discrete_laplace": (
        _Way(DiscreteLaplaceMechanism.from_scale, ("scale",), ("step", "bounds")),
        _Way(DiscreteLaplaceMechanism, ("epsilon", "bounds"), ("step",)),
    ),
    "staircase": (_Way(StaircaseMechanism, ("epsilon", "bounds"), ("gamma",)),),
    "discrete_staircase": (_Way(DiscreteStaircaseMechanism, ("epsilon", "bounds"), ("step", "r")),),
    "uniform": (_Way(UniformMechanism, ("half_width",), ("bounds",)),),
}
_OF_CATEGORIES: Mapping[str, tuple[_Way, ...]] = {
    "randomized_response": (
        _Way(RandomizedResponse.from_keep_probability, ("keep",)),
        _Way(RandomizedResponse, ("epsilon",)),
    ),
    "finite_channel": (_Way(FiniteChannel, ("matrix",)),),
}
# What else they are called.
_ELSEWHERE = by_other_names(
    {
        "gaussian": "normal gauss white",
        "laplace": "laplacian double_exponential biexponential",
        "discrete_laplace": "geometric two_sided_geometric double_geometric",
        "randomized_response": "rr krr k_rr grr randomised_response random_response warner",
        "finite_channel": "channel matrix misclassification pram confusion_matrix",
        _NO_NOISE: "no noiseless exact public false null",
    }
)
# Each takes the categories under this name.
_CATEGORIES = {"randomized_response": "categories", "finite_channel": "inputs"}


@dataclass(frozen=True, init=False)
class NoiseDescription:
    """How another program noised the columns of a table that one was given.

    Parameters
    ----------
    source : mapping or path
        The entries below, or the TOML file that has them.

    Attributes
    ----------
    columns : tuple of Column
        The features: each an entry of ``columns`` with ``noise``, a kind of noise or ``"none"``, and what states it;
        see the notes. Columns of categories have ``categories = [...]``, all text or all numbers.
    target : Column or None
        The entry ``target``: a ``name``, and the same. Two categories are read as -1 and +1, in that order.
    release : Release
        What these come to. ``intercept = false`` makes it one for models without an intercept.

    Raises
    ------
    ValueError, TypeError
        An entry is unknown, missing or out of its range; the message names it.
    FileNotFoundError
        There is no such file.

    Notes
    -----
    The entries of a noise are the arguments of its mechanism:

    - ``gaussian``: ``scale``, the standard deviation, with its ``degrees_of_freedom`` where it was estimated; or
      ``ratio`` and ``variance``, see `GaussianMechanism.from_reliability`; or ``epsilon``, ``delta`` and ``radius``.
    - ``laplace``, ``discrete_laplace``: ``scale``; or ``epsilon`` and ``bounds``. ``staircase``,
      ``discrete_staircase``: ``epsilon`` and ``bounds``. ``uniform``: ``half_width``.
    - ``randomized_response``: ``keep``, the probability that a value stays, or ``epsilon``. ``finite_channel``:
      ``matrix``, whose row i has the probabilities of what is sent for category i.

    Budgets state what the other program claims; that it drew its noise privately is not known here, and said by the
    `guarantee` of what is read.

    Examples
    --------
    >>> description = NoiseDescription({
    ...     "columns": {
    ...         "age": {"noise": "laplace", "epsilon": 5.0, "bounds": [20, 60]},
    ...         "smokes": {"noise": "randomized_response", "keep": 0.9, "categories": ["no", "yes"]},
    ...         "year": {"noise": "none"},
    ...     },
    ...     "target": {"name": "ill", "noise": "none", "categories": ["no", "yes"]},
    ... })
    >>> description.release.columns
    ('age', 'smokes', 'year')
    >>> noised = description.read({"age": [71.2, 18.9], "smokes": ["no", "yes"], "year": [9, 8], "ill": ["yes", "no"]})
    >>> noised.y.tolist(), noised.labels
    ([1.0, -1.0], ('no', 'yes'))
    """

    columns: tuple[Column, ...]
    target: Column | None
    release: Release

    def __init__(self, source: Any) -> None:
        entries = entries_of(source, _NAME, "columns and target")
        require_known(entries, _KEYS, f"the {_NAME}")
        declared = columns_of(entries, _EXAMPLE, _NAME)
        made = [_column(name, entry, f"columns.{name}", is_target=False) for name, entry in declared.items()]
        target, of_target = _target(target_of(entries, declared, _EXAMPLE_OF_TARGET))
        columns = tuple(column for column, _ in made)
        if all(column.public for column in columns) and (target is None or target.public):
            raise ValueError(
                'noise = "none" is said of every column, so that nothing is to be undone. Say which noise there is.'
            )
        features: dict[Any, Mechanism] = {column.name: mechanism for column, mechanism in made if mechanism is not None}
        public = [column for column in columns if column.public]
        categories = {column.name: column.labels.values for column in public if column.labels is not None}
        release = Release(
            features or None,
            of_target,
            noiseless=tuple(column.name for column in public),
            fit_intercept=intercept_of(entries),
            categories=categories or None,
        )
        for field, value in {"columns": columns, "target": target, "release": release}.items():
            object.__setattr__(self, field, value)

    def read(self, data: Any) -> Noised:
        """Return noised records with the release that they are described by.

        Parameters
        ----------
        data : path, or table
            As for `symdebias.Schema.collect`: a file of comma-separated values or of Parquet, or a table with these
            columns. Others are left out.

        Returns
        -------
        Noised
            ``hardened`` is false: how the noise was drawn is not known.

        Raises
        ------
        FileNotFoundError, ValueError, TypeError
            The data do not fit: a column or a value is missing, or a category is none of those that were described.
        """
        wanted = [*self.columns, *([] if self.target is None else [self.target])]
        table = columns_read(wanted, data, ())
        assert self.release.columns is not None
        categories, found = self.release.categories, dict[str, Any]()
        for name in categories.collected(self.release.columns):
            found |= categories.of_column(name, table[name])
        X = Table(found)
        if self.target is None:
            return Noised(X, None, self.release, seeded=False, hardened=False)
        y, labels = table[self.target.name], self.target.pair
        if labels is not None:
            y = np.where(y == labels[1], 1.0, -1.0)
        name = self.target.name
        return Noised(X, y, self.release, seeded=False, hardened=False, target_name=name, labels=labels)


def _target(declared: tuple[str, Any] | None) -> tuple[Column | None, Mechanism | None]:
    if declared is None:
        return None, None
    name, entry = declared
    return _column(name, {key: value for key, value in entry.items() if key != "name"}, "target", is_target=True)


def _column(name: str, entry: Any, where: str, *, is_target: bool) -> tuple[Column, Mechanism | None]:
    """Return a column and the mechanism of its noise; None where it has none."""
    if not isinstance(entry, Mapping):
        raise TypeError(f"{where}={shown(entry, 60)} is no table of entries. Write it as {_EXAMPLE}.")
    labels = None
    if "categories" in entry:
        labels = declared_labels(entry["categories"], f"{where}.categories")
    ways = _OF_NUMBERS if labels is None else _OF_CATEGORIES
    kind = _kind(entry, where, ways)
    column = Column(name, None, labels, public=kind == _NO_NOISE, is_released=True)
    stated = {key: value for key, value in entry.items() if key not in ("noise", "categories")}
    if kind == _NO_NOISE:
        if stated:
            raise ValueError(
                f'{where} has noise = "none" and {next(iter(stated))}. Leave this out, or say which noise it is.'
            )
        # Labels of a target that are more than two are numbers or texts to a mechanism alone.
        if is_target and labels is not None and column.pair is None:
            return column, FiniteChannel(tuple(map(tuple, np.eye(len(labels.values)).tolist())), labels.values)
        return column, None
    found = [way for way in ways[kind] if way.suits(set(stated))]
    if not found:
        raise ValueError(
            f"{where} states noise = {entry['noise']!r} by {', '.join(map(str, stated)) or 'nothing'}. It is stated by "
            f"{'; or by '.join(map(str, ways[kind]))}."
        )
    if labels is not None:
        is_coded = is_target and column.pair is not None
        stated[_CATEGORIES[kind]] = (-1.0, 1.0) if is_coded else labels.values
    try:
        return column, found[0].make(**stated)
    except (TypeError, ValueError, PrivacyError) as error:
        problem = f"{where}: {error}"
        raise type(error)(problem) from None


def _kind(entry: Mapping[str, Any], where: str, ways: Mapping[str, Any]) -> str:
    """Return the kind of noise that an entry says, as mechanisms are called."""
    known = ", ".join([*ways, _NO_NOISE])
    if "noise" not in entry:
        raise ValueError(f"{where} does not say its noise. Give noise, one of {known}; for one without it write none.")
    given = entry["noise"]
    kind = given.replace("-", "_") if isinstance(given, str) else None
    if kind in ways or kind == _NO_NOISE:
        return str(kind)
    if kind in _OF_CATEGORIES:
        raise ValueError(f"{where}.noise={given!r} is one of categories. List them: categories = [...].")
    if kind in _OF_NUMBERS:
        raise ValueError(f"{where}.noise={given!r} is one of numbers, and it has categories. Leave out one of the two.")
    every = (*_OF_NUMBERS, *_OF_CATEGORIES, _NO_NOISE)
    asked = meant(given, every, _ELSEWHERE) if isinstance(given, str) else None
    is_meant = f" Is {asked} meant?" if asked else ""
    if asked in _OF_CATEGORIES and asked not in ways:
        is_meant += " It is one of categories: list them, categories = [...]."
    raise ValueError(
        f"{where}.noise={shown(given, 60)} is not known.{is_meant} Choose one of {known}; other noise is "
        "described in Python, by a Release."
    )
