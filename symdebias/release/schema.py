"""A schema: the columns of a table with their public bounds or categories, and one budget for a whole record.

It is written down before the data are seen, as a dict or a TOML file, and nothing in it is computed from them.
`symdebias.release.allocation` makes a release of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from symdebias import _loss_names
from symdebias._columns import Table
from symdebias._domains import DELTA, EPSILON, RADIUS, check_choice, is_number, shown
from symdebias.mechanisms.ranges import Labels, checked_bounds
from symdebias.release import collecting
from symdebias.release.entries import columns_of, entries_of, intercept_of, require_known, required, target_of

DESIGNS = ("apart", "margin", "joint")
_KEYS = ("epsilon", "delta", "loss", "design", "norm", "intercept", "missing", "columns", "target")
_COLUMN_KEYS = ("bounds", "categories", "public", "fill", "other", "outcome")
_TARGET_KEYS = ("name", "bounds", "categories", "public", "other")
_EXAMPLE_OF_TARGET = 'target = { name = "income", categories = ["low", "high"] }'
_EXAMPLE = 'age = { bounds = [18, 90] } or sex = { categories = ["f", "m"] }'


@dataclass(frozen=True)
class Column:
    """A column of a schema."""

    name: str
    bounds: tuple[float, float] | None  # Public bounds of a number.
    labels: Labels | None  # Public categories.
    public: bool = False  # Whether it is released as it is.
    fill: Any = None  # What a missing value counts as.
    other: Any = None  # The category that values count as which are not declared.
    outcome: bool = False  # Whether it is released by a mechanism of its own, so that a fit may take it as the target.
    is_released: bool = False  # Whether its values were released, by another program, and are not to be changed.

    @property
    def pair(self) -> tuple[Any, Any] | None:
        """The categories where there are two, which stand for -1 and +1 in a target; None otherwise."""
        if self.labels is None or len(self.labels.values) != 2:
            return None
        low, high = self.labels.values
        return low, high


@dataclass(frozen=True, init=False)
class Schema:
    """The columns of a table, each with public bounds or categories, and a budget for a whole record.

    Parameters
    ----------
    source : mapping or path
        The entries below, or the TOML file that has them.

    Attributes
    ----------
    columns : tuple of Column
        The features, in order: each an entry of ``columns`` with ``bounds = [low, high]`` or ``categories = [...]``,
        all text or all numbers. ``public = true`` releases a column as it is. ``fill`` is the public value that a
        missing one counts as, and ``other`` the category that undeclared ones count as. ``outcome = true`` releases a
        column by a mechanism of its own and in its own units, so that it can be a target; see `Noised.with_target`.
    target : Column or None
        The entry ``target``: a ``name``, and ``bounds`` or ``categories``. Two categories are released as -1 and +1, in
        that order.
    epsilon, delta : float
        The budget of a whole record, in (0, 700] and [0, 1). ``delta`` is 0 by default: pure differential privacy.
    loss : str or None
        The loss of the fit that is meant, by its name in `symdebias.losses`: the release is then designed for it.
    design : {"apart", "margin", "joint"}
        How the target is released; see `symdebias.Release.from_schema`. By default what suits the loss.
    norm : float or None
        A public bound on the L2 norm of the private numbers of a record where each lies in [-1, 1], which is at most
        the root of how many there are, the default. Vectors beyond are clipped; a smaller one needs less noise.
    intercept : bool
        Whether models have an intercept; true by default.
    missing : tuple of str
        Words that mean a missing value, such as ``["?"]``. Empty text, None and NaN always do.

    Raises
    ------
    ValueError, TypeError
        An entry is unknown, missing or out of its range; the message names it.
    FileNotFoundError
        There is no such file.

    Examples
    --------
    >>> schema = Schema({
    ...     "epsilon": 4.0,
    ...     "loss": "logistic",
    ...     "columns": {"age": {"bounds": [18, 90]}, "sex": {"categories": ["f", "m"]}},
    ...     "target": {"name": "income", "categories": ["low", "high"]},
    ... })
    >>> schema.design, [column.name for column in schema.columns]
    ('margin', ['age', 'sex'])
    """

    columns: tuple[Column, ...]
    target: Column | None
    epsilon: float
    delta: float
    loss: str | None
    design: str
    norm: float | None
    intercept: bool
    missing: tuple[str, ...]

    def __init__(self, source: Any) -> None:
        entries = entries_of(source)
        require_known(entries, _KEYS, "the schema")
        required(entries, "epsilon", "the budget of a whole record, such as epsilon = 4.0")
        epsilon = EPSILON.check("epsilon", entries["epsilon"])
        delta = entries.get("delta", 0.0)
        if not (is_number(delta) and delta == 0):
            delta = DELTA.check("delta", delta)
        declared = columns_of(entries, _EXAMPLE)
        columns = tuple(_column(name, entry, _COLUMN_KEYS, f"columns.{name}") for name, entry in declared.items())
        target = _target(target_of(entries, declared, _EXAMPLE_OF_TARGET))
        if all(column.public for column in columns) and (target is None or target.public):
            raise ValueError("every column is public, so that nothing is private. Leave public out of those that are.")
        intercept = intercept_of(entries)
        loss = _loss(entries.get("loss"))
        for field, value in {
            "columns": columns,
            "target": target,
            "epsilon": epsilon,
            "delta": float(delta),
            "loss": loss,
            "design": _design(entries.get("design"), suited_loss(loss, target, columns, delta), columns, target),
            "norm": None if entries.get("norm") is None else RADIUS.check("norm", entries["norm"]),
            "intercept": intercept,
            "missing": _words(entries.get("missing", [])),
        }.items():
            object.__setattr__(self, field, value)

    @classmethod
    def of(cls, schema: Any) -> "Schema":
        """Return a schema that may be given as a dict or a path."""
        return schema if isinstance(schema, cls) else cls(schema)

    @property
    def labels(self) -> tuple[Any, Any] | None:
        """The two categories of the target that are released as -1 and +1; None where it has others."""
        return None if self.target is None else self.target.pair

    def collect(self, data: Any) -> tuple[Table, Any]:
        """Return the columns and the target of true records, as `symdebias.Release.privatize` takes them.

        Missing values count as ``fill`` says, undeclared categories as ``other`` says, and the two categories of a
        target as -1 and +1. Other columns of the data are left out. Each record is recoded by itself, before the noise,
        so that this costs no privacy.

        Parameters
        ----------
        data : path, or table
            A file of comma-separated values in UTF-8 whose first line names the columns, compressed by gzip, bzip2, xz
            or zip or as it is; a file of Parquet, or a folder of such files (needs the extra ``parquet``); or a table
            with these columns.

        Returns
        -------
        X : Table
            The columns of the schema in order: numbers, and categories as declared.
        y : array of shape (n,), or None
            The target, where the schema has one.

        Raises
        ------
        FileNotFoundError, ValueError, TypeError
            The data do not fit the schema. Messages have the row, from 0 on, and the column, and never a value.

        Examples
        --------
        >>> schema = Schema({
        ...     "epsilon": 4.0,
        ...     "columns": {"age": {"bounds": [18, 90]}, "place": {"categories": ["n", "e", "s"], "fill": "n"}},
        ...     "target": {"name": "income", "categories": ["low", "high"]},
        ...     "missing": ["?"],
        ... })
        >>> X, y = schema.collect({"age": [39, 50], "place": ["?", "s"], "income": ["high", "low"]})
        >>> X["age"].tolist(), X["place"].tolist(), y.tolist()
        ([39.0, 50.0], ['n', 's'], [1.0, -1.0])
        """
        return collecting.collected(self, data)


def _column(name: Any, entry: Any, keys: tuple[str, ...], where: str) -> Column:
    if not isinstance(entry, Mapping):
        raise TypeError(f"{where}={shown(entry, 60)} is no table of entries. Write it as {_EXAMPLE}.")
    require_known(entry, keys, where)
    public = entry.get("public", False)
    if not isinstance(public, bool):
        raise TypeError(f"{where}.public={shown(public, 60)} must be true or false. Write one of them.")
    bounds, labels = entry.get("bounds"), entry.get("categories")
    if bounds is not None and labels is not None:
        raise ValueError(f"{where} has bounds and categories. Give bounds to a number, categories to anything else.")
    if bounds is None and labels is None and not public:
        raise ValueError(
            f"{where} has neither bounds nor categories. Give the public bounds of a number or the public categories, "
            f"such as {_EXAMPLE}; they are not computed from the data, which would be a release of its own."
        )
    bounds = None if bounds is None else checked_bounds(bounds, f"{where}.bounds")
    labels = None if labels is None else declared_labels(labels, f"{where}.categories")
    outcome = entry.get("outcome", False)
    if not isinstance(outcome, bool) or (outcome and public):
        raise ValueError(
            f"{where}.outcome={shown(outcome, 60)} must be true or false, and a public column needs none: it can be a "
            "target as it is. Correct it, or leave it out."
        )
    made = Column(name, bounds, labels, public, entry.get("fill"), entry.get("other"), outcome)
    if made.other is not None and labels is None:
        raise ValueError(f"{where}.other belongs to a column of categories. Leave it out.")
    for key in ("fill", "other"):
        value = getattr(made, key)
        if value is None:
            continue
        is_text_or_number = isinstance(value, str) or is_number(value)
        if labels is not None and not (is_text_or_number and value in labels.values):
            raise ValueError(
                f"{where}.{key}={shown(value, 60)} is none of its categories. Choose one of "
                f"{', '.join(map(str, labels.values[:8]))}."
            )
        if labels is None and not (is_number(value) and (bounds is None or bounds[0] <= value <= bounds[1])):
            within = "" if bounds is None else f" within {shown(bounds)}"
            raise ValueError(f"{where}.{key}={shown(value, 60)} is not allowed. Give a number{within}.")
    return made


def declared_labels(values: Any, where: str) -> Labels:
    """Return the categories of a column, of which there are two and more."""
    if isinstance(values, (list, tuple)) and len(values) < 2:
        raise ValueError(
            f"{where} has {len(values)} {'category' if len(values) == 1 else 'categories'}, and a column needs two or "
            "more. List all values that it may have, or leave the column out."
        )
    return Labels.declared(values, where)


def _target(declared: tuple[str, Any] | None) -> Column | None:
    if declared is None:
        return None
    column = _column(*declared, _TARGET_KEYS, "target")
    if column.public and column.pair is None and column.labels is not None and column.labels.is_text:
        raise ValueError(
            f"target.public is for numbers and two categories, and the target has {len(column.labels.values)} of text. "
            "Leave public out; or write them as numbers in the table, and declare these: categories = [0, 1, 2]."
        )
    return column


def _words(missing: Any) -> tuple[str, ...]:
    if (
        isinstance(missing, str)
        or not isinstance(missing, (list, tuple))
        or not all(isinstance(w, str) for w in missing)
    ):
        raise TypeError(f'missing={shown(missing, 60)} is no list of words. Write it as missing = ["?", "NA"].')
    return tuple(dict.fromkeys(word.strip() for word in missing))


def _loss(loss: Any) -> str | None:
    if loss is None:
        return None
    known = _loss_names.BY_NAME_AND_LABELS
    if not isinstance(loss, str) or loss.replace("-", "_") not in known:
        meant = _loss_names.called_here(loss) if isinstance(loss, str) else None
        raise ValueError(
            (_loss_names.why_outside(loss) if isinstance(loss, str) else "")
            or f"loss={shown(loss, 60)} is not in the catalogue"
            + (f", where it is called {meant}. " if meant in known else ". ")
            + f"Choose one of {', '.join(known)}; for a loss of your own declare a Release by hand."
        )
    return loss.replace("-", "_")


def suited_loss(loss: str | None, target: Column | None, columns: tuple[Column, ...], delta: float) -> str | None:
    """Return the loss, which is to be one of such a target that the noise of such columns is undone for."""
    if loss is None or target is None:
        return loss
    kind = _loss_names.CATALOGUE[loss].target
    if kind == "labels" and delta and any(column.bounds is not None and not column.public for column in columns):
        raise ValueError(
            f"loss={loss!r} is not corrected under normal noise, which delta={delta:g} asks for. Leave delta out."
        )
    if kind == "label" and target.labels is not None and len(target.labels.values) > 2:
        raise ValueError(
            f"loss={loss!r} is one of two labels, and the target {shown(target.name, 80)} has "
            f'{len(target.labels.values)} categories. Choose loss = "softmax", or declare two categories.'
        )
    if kind in ("label", "labels") and target.bounds is not None:
        raise ValueError(
            f"loss={loss!r} is one of labels, and the target {shown(target.name, 80)} has bounds. Give its categories, "
            f"or choose a loss of numbers, such as {', '.join(_loss_names.RESIDUAL)}."
        )
    if kind == "count" and target.labels is not None and len(target.labels.values) == 2:
        raise ValueError(
            f"loss={loss!r} is one of counts or amounts, and the two categories of the target "
            f"{shown(target.name, 80)} are released as -1 and +1. Give its bounds, or choose a loss of labels, such as "
            f"{', '.join(name for name in _loss_names.MARGIN if name not in _loss_names.RESIDUAL)}."
        )
    return loss


def _design(design: str | None, loss: str | None, columns: tuple[Column, ...], target: Column | None) -> str:
    """Return how the target is released: as asked for, or as suits the loss."""
    if design is not None:
        check_choice("design", design, DESIGNS)
    outcomes = [column.name for column in columns if column.outcome]
    if outcomes and design not in (None, "apart"):
        raise ValueError(
            f"design={design!r} puts all columns in one vector with one target, and {', '.join(outcomes)} may be the "
            'target, too (outcome = true). Use design = "apart", or leave it out.'
        )
    if outcomes:
        return "apart"
    public = [column.name for column in columns if column.public]
    two = target is not None and target.labels is not None and len(target.labels.values) == 2
    bounded = target is not None and target.bounds is not None
    private = target is not None and not target.public
    if design is None:
        if loss in _loss_names.MARGIN and two and private and not public:
            return "margin"
        if loss in _loss_names.RESIDUAL and bounded and private and not public:
            return "joint"
        return "apart"
    if design == "apart":
        return "apart"
    needs = "a target of two categories" if design == "margin" else "a target with bounds"
    if not (two if design == "margin" else bounded):
        raise ValueError(f'design="{design}" needs {needs}. Declare it, or choose design = "apart".')
    suits = _loss_names.MARGIN if design == "margin" else _loss_names.RESIDUAL
    if loss is not None and loss not in suits:
        raise ValueError(
            f'design="{design}" releases one vector, which loss={loss!r} cannot be fitted on. Choose a loss among '
            f'{", ".join(suits)}, or design = "apart".'
        )
    if public or not private:
        raise ValueError(
            f'design="{design}" noises features and target in one vector, and {", ".join(public) or "the target"} is '
            'public. Leave public out, or choose design = "apart".'
        )
    return design
