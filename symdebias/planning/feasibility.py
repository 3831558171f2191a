"""Whether a fit to the release of a schema can work, before any record is noised and any budget is spent."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from symdebias import _loss_names, losses
from symdebias._arrays import FloatArray
from symdebias._domains import POSITIVE, shown
from symdebias._randomness import generator
from symdebias.driver import debias
from symdebias.losses import Loss
from symdebias.mechanisms import ChannelMechanism
from symdebias.planning.expected_fit import (
    FEW_DECIDE,
    SAFE_CURVATURE,
    ExpectedFit,
    expected_fit,
    records_needed,
    without_units,
)
from symdebias.planning.population import Population
from symdebias.planning.rehearsal import Rehearsal, rehearse
from symdebias.release import Release, Schema
from symdebias.release.allocation import centre_and_scale, has_better_design
from symdebias.release.one_hot import OneHot
from symdebias.release.schema import suited_loss

# A parameter of 1 is told from 0 at the level 0.05 with power 0.8 where its standard error is at most 1/2.8.
_TOLD_APART = 1 / 2.8
# Guessed parameters of all columns, in released units: from the middle of a column to its end the score moves by this.
_GUESS = 1.0
_SIZE = 20_000
# How many of them each parameter has at least: of fewer a rare category may have records of one label alone, by which
# nothing is told, and time grows with the square of the parameters.
_EACH = 50


@dataclass(frozen=True)
class Feasibility:
    """What to expect of a fit to the release of a schema; made by `feasibility`.

    Attributes
    ----------
    expected : ExpectedFit
        Standard errors in the units of released columns, where numbers lie in [-1, 1]; those that may be a target
        (``outcome = true``) are released in their own units.
    names : tuple of str
        The names of the parameters, the intercept last.
    units : array of shape (q,), float64
        What one released unit of each column is in its own units: half of the range of a number, 1 of others and of
        what is released in its own units.
    release : Release
        The release of the schema.
    needed : float
        How many records would tell a parameter of 1 from 0, to first order, and are hardly ever too few for a fit.
    loss : Loss
        What is to be fitted.
    population : Population
        The guessed records, in released units.
    l2 : float
        Regularisation.

    Examples
    --------
    >>> import symdebias as sd
    >>> schema = {
    ...     "epsilon": 4.0, "loss": "least_squares", "columns": {"age": {"bounds": [18, 90]}},
    ...     "target": {"name": "income", "bounds": [0, 10]},
    ... }
    >>> found = sd.planning.feasibility(schema, n=50_000)
    >>> found.is_feasible, found.names
    (True, ('age', 'intercept'))
    """

    expected: ExpectedFit
    names: tuple[str, ...]
    units: FloatArray
    release: Release
    needed: float
    loss: Loss
    population: Population = field(repr=False)
    l2: float = 0.0

    @property
    def is_feasible(self) -> bool:
        """Whether each parameter of 1, intercept aside, is told from 0 at the level 0.05 with power 0.8.

        A fit is hardly ever refused besides: see `ExpectedFit.curvature`. Where gradients have heavy tails nobody knows
        (see `ExpectedFit.deciding`), and the answer is no.
        """
        return self.needed <= self.expected.records and not self._has_heavy_tails

    @property
    def _has_heavy_tails(self) -> bool:
        return self.expected.deciding < FEW_DECIDE

    def rehearse(self, *, fits: int = 20, random_state: int = 0, progress: bool = False) -> Rehearsal:
        """Release and fit as many guessed records, again and again; see `symdebias.planning.rehearse`."""
        return rehearse(
            self.loss, without_units(self.release), self.population, n=self.expected.records, fits=fits,
            method=self.expected.method, l2=self.l2, random_state=random_state, progress=progress,
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return what was found as JSON has it."""
        errors = self.expected.standard_errors
        return {
            "feasible": self.is_feasible,
            "records": self.expected.records,
            "records_needed": self.needed,
            "epsilon": None if self.release.guarantee is None else self.release.guarantee.epsilon,
            "parameters": [
                {"name": name, "standard_error": error, "standard_error_in_units": error / unit}
                for name, error, unit in zip(self.names, errors.tolist(), self.units.tolist(), strict=True)
            ],
        }

    def __str__(self) -> str:
        width = max(9, *map(len, self.names))
        lines = [
            f"expected at {self.expected.records:,.0f} records: {self.release.guarantee}",
            "",
            f"  {'parameter':<{width}}  {'std err':>10}  {'in its units':>12}",
        ]
        for name, error, unit in zip(self.names, self.expected.standard_errors, self.units, strict=True):
            lines.append(f"  {name:<{width}}  {error:>10.4g}  {error / unit:>12.4g}")
        lines += ["", *(f"  note: {note}" for note in self.expected.notes)]
        lines.append(
            "a guess: numbers uniform within their bounds; real records lie closer together, and their standard errors "
            "are larger, often several times"
        )
        what = "a coefficient that moves the score by 1 from the middle of a column to its end"
        if self.is_feasible:
            lines.append(f"feasible: {what} is told from 0 (level 0.05, power 0.8)")
        else:
            is_better = has_better_design(self.release, self.loss.name)
            designed = ", or a release designed for the loss (loss = ... in the schema)" if is_better else ""
            is_fitted = self.expected.curvature >= SAFE_CURVATURE
            why = f"{what} is not told from 0" if is_fitted else "a fit may well be refused, as the note says"
            records = f"some {self.needed:,.0f} records, "
            if self._has_heavy_tails:
                why = "gradients have heavy tails, as the note says, and a fit is often refused"
                # More records have larger values among them.
                records = "another loss, "
            lines.append(
                f"not feasible: {why}. What would help: {records}a larger epsilon, fewer columns or categories, a "
                f"penalty l2{designed}"
            )
        return "\n".join(lines)


def feasibility(
    schema: Any,
    *,
    n: float | None = None,
    standard_error: float | None = None,
    loss: str | Loss | None = None,
    l2: float = 0.0,
    random_state: int = 0,
) -> Feasibility:
    """Say what to expect of a fit to the release of a schema, before anything is spent.

    Parameters
    ----------
    schema : Schema, mapping or path
        As for `symdebias.Release.from_schema`.
    n, standard_error : float
        Give one: how many records there will be, or the largest standard error wanted, in released units.
    loss : str or Loss, optional
        The loss; by default that of the schema.
    l2 : float
        Regularisation.
    random_state : int
        Of the guessed population.

    Returns
    -------
    Feasibility
        Standard errors of each parameter, and whether they are small enough.

    Raises
    ------
    ValueError, TypeError
        An argument does not fit, or the schema has no target or a target of more than two categories, or more than 400
        numbers and categories.
    SymdebiasError
        The fit cannot work at all: as for `expected_fit`.

    Notes
    -----
    The population is a guess: numbers uniform within their bounds, shortened to a norm; categories equally frequent;
    parameters of 1. Real records lie closer together, which makes real standard errors of their coefficients larger.

    Examples
    --------
    >>> found = feasibility({
    ...     "epsilon": 4.0, "loss": "logistic",
    ...     "columns": {"age": {"bounds": [18, 90]}},
    ...     "target": {"name": "income", "categories": ["low", "high"]},
    ... }, n=50_000)
    >>> found.is_feasible, found.names
    (True, ('age', 'intercept'))
    """
    declared = Schema.of(schema)
    if (n is None) == (standard_error is None):
        given = "both" if n is not None else "neither"
        raise ValueError(f"{given} of n and standard_error was given. Give one: the other one is the answer.")
    chosen = _loss_of(declared, loss)
    release = Release.from_schema(declared)
    _require_few(declared)
    population, names = _population(declared, release, chosen, random_state)
    studied = without_units(release)
    if n is None:
        wanted = POSITIVE.check("standard_error", standard_error)
        expected = records_needed(
            chosen, studied, population, standard_error=wanted, method="best", l2=l2, random_state=random_state
        )
    else:
        expected = expected_fit(chosen, studied, population, n=n, method="best", l2=l2, random_state=random_state)
    parameters = debias(chosen, studied, method="none").parameter_names
    scale: dict[str, float] = dict(release.scale)  # type: ignore[arg-type]
    units = np.array([scale.get(name, 1.0) for name in parameters])
    # From the middle of a column to its end.
    reach = {name: half for name, (_, half) in _in_own_units(declared, release).items()}
    slopes = expected.standard_errors[: len(names)] * [reach.get(name, 1.0) for name in parameters[: len(names)]]
    told, curved = slopes.max() / _TOLD_APART, SAFE_CURVATURE / expected.curvature
    needed = expected.records * float(max(told, curved) ** 2)
    return Feasibility(expected, tuple(parameters), units, release, math.ceil(needed), chosen, population, l2)


def _loss_of(schema: Schema, loss: str | Loss | None) -> Loss:
    if isinstance(loss, Loss):
        return loss
    if loss is not None and not isinstance(loss, str):
        raise TypeError(f"loss must be a name or a symdebias.Loss; got {type(loss).__name__}. Pass one of the two.")
    name = schema.loss if loss is None else loss.replace("-", "_")
    if name not in _loss_names.BY_NAME:
        known = ", ".join(_loss_names.BY_NAME)
        if name is None:
            raise ValueError(
                "the schema names no loss, and how accurate a fit is depends on it. Pass loss= (--loss on the command "
                f"line), or write loss = ... in the schema: one of {known}."
            )
        raise ValueError(f"loss={name!r:.60} is none that a schema is planned for. Choose one of {known}.")
    outcomes = [column.name for column in schema.columns if column.outcome]
    if schema.target is None and outcomes:
        raise ValueError(
            f"the schema has the outcomes {', '.join(outcomes)} and no target of its own, and a plan is for one. Plan "
            "for a copy of the schema in which the outcome that is fitted stands as [target]; the others are features "
            "then, as in a fit."
        )
    if schema.target is None or (schema.target.labels is not None and schema.labels is None):
        raise ValueError(
            "the schema has no target with bounds or two categories, and every loss that is planned for has one. "
            "Declare it."
        )
    suited_loss(name, schema.target, schema.columns, schema.delta)
    made: Loss = getattr(losses, name)()
    if schema.labels is not None and made.target_values is None:
        return made.with_target_values((-1, 1))
    return made


def _require_few(schema: Schema) -> None:
    """Raise ValueError where guessed records are too few for the parameters of a schema."""
    sizes = {column.name: 1 if column.labels is None else len(column.labels.values) for column in schema.columns}
    most, name = _SIZE // _EACH, max(sizes, key=lambda one: sizes[one], default="")
    if (count := sum(sizes.values())) > most:
        raise ValueError(
            f"the columns of the schema have {count:,} numbers and categories, of which {shown(name)} has "
            f"{sizes[name]:,}, and a plan guesses {_SIZE:,} records, enough for {most}. Merge categories: list the "
            'frequent ones and say other="..." for the rest. Or plan with records that stand for yours, by '
            "symdebias.plan or planning.expected_fit in Python."
        )


def _in_own_units(schema: Schema, release: Release) -> dict[str, tuple[float, float]]:
    """Return middle and half the range of the columns of numbers that are released as they are collected."""
    scaled: dict[str, float] = dict(release.scale)  # type: ignore[arg-type]
    return {
        column.name: centre_and_scale(*column.bounds)
        for column in schema.columns
        if column.bounds is not None and column.name not in scaled
    }


def _population(schema: Schema, release: Release, loss: Loss, random_state: int) -> tuple[Population, tuple[str, ...]]:
    """Return guessed records in released units, and the names of the parameters without the intercept."""
    rng = generator(random_state)
    labels = {column.name: column.labels for column in schema.columns if column.labels is not None}
    one_hot = OneHot.declared({name: one.values for name, one in labels.items()}, intercept=schema.intercept)
    codes = {name: rng.integers(len(one.values), size=_SIZE) for name, one in labels.items()}
    raw = {
        column.name: rng.uniform(-1, 1, _SIZE) if column.labels is None else codes[column.name].astype(float)
        for column in schema.columns
    }
    expanded_names = one_hot.released(tuple(raw))
    center: dict[str, float] = dict(release.center)  # type: ignore[arg-type]
    expanded = one_hot.expanded(np.column_stack(list(raw.values())), expanded_names)
    for place, name in enumerate(expanded_names):
        if "=" in name and name not in raw:
            expanded[:, place] -= center.get(name, 0.0)
    by_name = {**raw, **dict(zip(expanded_names, expanded.T, strict=True))}
    assert release.columns is not None
    own = _in_own_units(schema, release)
    middles, halves = np.array([own.get(name, (0.0, 1.0)) for name in release.columns]).T
    X = middles + halves * np.column_stack([by_name[name] for name in release.columns])
    _shorten(without_units(release), X)
    # A column of categories that is released as it is has codes; its indicators count all the same.
    expanded[:, [name in release.columns for name in expanded_names]] = ((X - middles) / halves)[
        :, [release.columns.index(name) for name in expanded_names if name in release.columns]
    ]
    scores = _GUESS * expanded.sum(axis=1)
    if schema.labels is not None:
        y = np.where(rng.random(_SIZE) < expit(scores), 1.0, -1.0)
    elif loss.name in _loss_names.CATALOGUE and _loss_names.CATALOGUE[loss.name].target == "count":
        y = rng.poisson(np.exp(scores)).astype(np.float64)
    else:
        assert schema.target is not None
        low, high = schema.target.bounds or (-1.0, 1.0)
        middle, half = (low + high) / 2, (high - low) / 2
        y = middle + half * np.clip(0.3 * scores + 0.3 * rng.normal(size=_SIZE), -1, 1)
    return Population(X, y), expanded_names


def _shorten(release: Release, X: FloatArray) -> None:
    """Bring guessed records into the bounds on their length, where numbers are noised in one vector."""
    if release.coupling is None:
        parts = release.placed(X.shape[1])
    else:
        parts = tuple((slice(None), mechanism) for _, mechanism in release.groups)
    for place, mechanism in parts:
        if not isinstance(mechanism, ChannelMechanism):
            X[:, place] = mechanism.clip(X[:, place]).values.reshape(len(X), -1)
