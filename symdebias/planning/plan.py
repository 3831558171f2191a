"""A plan: mechanisms and splits of a budget for columns in [-1, 1], the best first."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdebias._domains import DELTA, EPSILON, POSITIVE, check_choice, check_flag, is_list, shown
from symdebias._progress import progress_bar
from symdebias.derivation import is_margin_loss
from symdebias.exceptions import NoExactCorrectionError, SymdebiasError
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.losses.meaning import is_residual_loss
from symdebias.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    RandomizedResponse,
    SphericalCapMechanism,
    SphericalLaplaceMechanism,
)
from symdebias.mechanisms.ranges import checked_bounds
from symdebias.planning.expected_fit import Criterion, ExpectedFit, Study, check_criterion, sample_size
from symdebias.planning.layout import Layout
from symdebias.planning.population import Population, require_population
from symdebias.planning.split import split_of
from symdebias.privacy.composition import split_budget
from symdebias.release import Release
from symdebias.release.coupling import KINDS

_MECHANISMS = ("gaussian", "laplace", "spherical laplace", "spherical cap", "laplace per column")
# Powers of two of the weights of the target that are tried, in the middle of the range of usual ones.
_WEIGHTS = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Option:
    """One way to collect.

    Attributes
    ----------
    mechanism : str
        ``"gaussian"``, ``"laplace"``, ``"spherical laplace"``, ``"spherical cap"`` or ``"laplace per column"``.
    expected : ExpectedFit or None
        What to expect; None where it is refused.
    budgets : tuple of float
        Of the features (one number, or one per column), then of the target where it is noised.
    half : ExpectedFit or None
        The same mechanism with the budget halved between features and target, for as many records.
    refusal : str
        Why it is out of the question; empty where it is not.
    target : {"noised", "public", "margin", "joint"}
        How the target is released.

    Examples
    --------
    >>> import symdebias as sd
    >>> population = sd.planning.Population.guess([1.0], size=500)
    >>> plan = sd.plan(sd.losses.squared_margin(), population, epsilon=4.0, n=100_000, mechanisms=["laplace"])
    >>> (option,) = plan.options
    >>> option.mechanism, option.title
    ('laplace', 'laplace')
    """

    mechanism: str
    expected: ExpectedFit | None
    budgets: tuple[float, ...] = ()
    half: ExpectedFit | None = None
    refusal: str = ""
    target: str = "noised"

    @property
    def title(self) -> str:
        """The mechanism, with the kind of release where features and target are one vector."""
        return f"{self.target}, {self.mechanism}" if self.target in KINDS else self.mechanism


@dataclass(frozen=True)
class Plan:
    """Ways to collect, the best first.

    Attributes
    ----------
    options : tuple of Option
        In the order of the criterion; refused ones last.
    criterion : str
        What they are ordered by.
    standard_error : float or None
        What was wanted; None where the number of records was given.
    epsilon : float
        The whole budget.

    Examples
    --------
    >>> import symdebias as sd
    >>> population = sd.planning.Population.guess([1.0], size=500)
    >>> plan = sd.plan(sd.losses.squared_margin(), population, epsilon=4.0, n=100_000, mechanisms=["laplace"])
    >>> plan.best.mechanism, len(plan.options)
    ('laplace', 1)
    """

    options: tuple[Option, ...]
    criterion: Criterion
    standard_error: float | None
    epsilon: float

    @property
    def best(self) -> Option:
        """The best option.

        Raises
        ------
        NoExactCorrectionError
            All are refused.
        """
        if self.options[0].expected is None:
            raise NoExactCorrectionError(
                "no mechanism can be corrected at this budget:\n"
                + "\n".join(f"  {option.title}: {option.refusal}" for option in self.options)
            )
        return self.options[0]

    def __str__(self) -> str:
        goal = (
            f"expected at the given number of records (epsilon {self.epsilon:g} in all)"
            if self.standard_error is None
            else f"records needed for a standard error of {self.standard_error:g} (epsilon {self.epsilon:g} in all)"
        )
        head = (
            f"  {'mechanism':<25}{'records':>13}{'largest se':>12}{'features':>10}{'target':>9}"
            f"{'one is worth':>14}{'half-half':>11}  correction"
        )
        lines = [goal, "", head]
        for option in self.options:
            fit = option.expected
            if fit is None:
                lines.append(f"  {option.title:<25}refused: {option.refusal.splitlines()[0]}")
                continue
            target, half = 0.0, "-"
            if fit.release.target is not None:
                target, half = option.budgets[-1], "refused"
            if option.half is not None:
                half = f"{(option.half.criterion(self.criterion) / fit.criterion(self.criterion)) ** 2:.2f}x"
            lines.append(
                f"  {option.title:<25}{fit.records:>13,.0f}{fit.standard_errors.max():>12.4g}"
                f"{self.epsilon - target:>10.3g}{target:>9.3g}{fit.worth:>14.3g}{half:>11}  {fit.method}"
            )
        lines += [
            "",
            "  one is worth: true records that one released record is worth",
            "  half-half: records that the budget halved between features and target needs, as a multiple",
        ]
        notes = dict.fromkeys(
            f"{option.title}: {note}" for option in self.options if option.expected for note in option.expected.notes
        )
        return "\n".join([*lines, *(f"  note: {note}" for note in notes)])


def plan(
    loss: Loss,
    population: Population,
    *,
    epsilon: float,
    delta: float = 1e-5,
    n: float | None = None,
    standard_error: float | None = None,
    mechanisms: Sequence[str] | None = None,
    target: str = "noised",
    target_bounds: tuple[float, float] | None = None,
    norm: float | None = None,
    columns: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[Any]] | None = None,
    center: Mapping[str, float] | Sequence[float] | None = None,
    scale: Mapping[str, float] | Sequence[float] | None = None,
    fit_intercept: bool = False,
    l2: float = 0.0,
    criterion: Criterion = "worst",
    start: Any = None,
    random_state: int = 0,
    progress: bool = False,
) -> Plan:
    """Compare mechanisms and splits of a budget for columns in [-1, 1], and for columns of categories.

    Parameters
    ----------
    loss : Loss
        The loss, of scores or free-form; the features of a free-form one are columns in their order, and what they are
        centred and scaled to.
    population : Population
        Records that stand for those to come, each column in [-1, 1] when it is centred and scaled, or codes from 0 on
        of its categories.
    epsilon : float
        The budget of a whole record, in [1e-6, 700].
    delta : float
        Of the Gaussian mechanism, in (0, 1).
    n, standard_error : float
        Give one: the number of records there will be, or the standard error that is wanted.
    mechanisms : sequence of str, optional
        ``"gaussian"``: normal noise on the vector of features, in a ball; ``"laplace"``: the same Laplace noise on all
        columns; ``"spherical laplace"``: pure noise on the vector, alike in all directions; ``"spherical cap"``: a
        point of a sphere for it, pure as well; ``"laplace per column"``: a budget for each column, split as the
        criterion wants, with randomized response for categories. The first two by default, and the first four with
        ``"margin"`` and ``"joint"``; with categories all that there are.
    target : {"noised", "public", "margin", "joint", "any"}
        Whether the target is noised: a finite one by randomized response, a continuous one by Laplace noise. With
        ``"margin"`` and ``"joint"`` features and target go into one vector with the whole budget, see `Release`; the
        weight of the target in it is chosen by the criterion, and the plan states it. ``"any"`` compares a noised
        target with whichever of the two the loss allows (``"joint"`` needs `target_bounds`).
    target_bounds : pair of float, optional
        Public bounds of a continuous target.
    norm : float, optional
        Public bound on the L2 norm of the features that are numbers, centred and scaled; the square root of their
        number by default, which holds for all records in [-1, 1].
    columns : sequence of str, optional
        Names for the columns of the population, ``x0``, ``x1``, ... by default; needed with categories.
    categories : mapping from str to sequence, optional
        The categories of columns, in the order of their codes. In one vector they are indicators, with an intercept
        centred at 1/2 (two categories) or 1/(k - 1): the intercept is then that of centred columns.
    center, scale : mapping from str to float, or sequence of float, optional
        Public centre and scale of columns of numbers, as for `Release`: the middle and half the range of their public
        bounds. A population that is given is then in its own units, and so are the records that the release of the plan
        takes.
        Parameters and standard errors are those of the released columns, (x - center)/scale; divided by the scale a
        standard error is that of the coefficient in the column's own units.
    fit_intercept : bool
        Whether the model has an intercept.
    l2 : float
        Regularisation.
    criterion : {"worst", "mean", "risk"}
        What counts: the largest error of a parameter, their root mean square, or the excess risk.
    start : array of shape (q,) or (K, q), optional
        Where the population's parameters are sought from, as for `planning.expected_fit`.
    random_state : int
        Of the noise on the population.
    progress : bool
        Show how many releases were tried (needs the extra ``progress``).

    Returns
    -------
    Plan
        The options, the best first; ``plan.best.expected.release`` is the release to use.

    Raises
    ------
    InferenceError
        The population has no best parameters.
    ValueError, TypeError
        An argument does not fit.

    Examples
    --------
    >>> import symdebias as sd
    >>> population = sd.planning.Population.guess([1.0, -0.5])
    >>> plan = sd.plan(sd.losses.exponential(), population, epsilon=4.0, n=100_000, l2=1.0, mechanisms=["gaussian"])
    >>> plan.best.mechanism, plan.best.expected.release.guarantee.epsilon <= 4.0
    ('gaussian', True)
    """
    fit_intercept = check_flag("fit_intercept", fit_intercept)
    progress = check_flag("progress", progress)
    require_loss(loss)
    require_population(population)
    whole, chance = EPSILON.check("epsilon", epsilon), DELTA.check("delta", delta)
    if (n is None) == (standard_error is None):
        given = "both" if n is not None else "neither"
        raise ValueError(f"{given} of n and standard_error was given. Give one: the other one is the answer.")
    records = None if n is None else sample_size(n)
    wanted = None if standard_error is None else POSITIVE.check("standard_error", standard_error)
    check_criterion(criterion)
    if target_bounds is not None:
        target_bounds = checked_bounds(target_bounds, "target_bounds")
    check_choice("target", target, ("noised", "public", "any", *KINDS))
    if mechanisms is not None and not is_list(mechanisms):
        raise ValueError(
            f"mechanisms={shown(mechanisms, 80)} must be a list with some of {', '.join(map(repr, _MECHANISMS))}."
        )
    if target == "any":
        found = [
            plan(
                loss, population, epsilon=epsilon, delta=delta, n=n, standard_error=standard_error,
                mechanisms=_allowed(mechanisms, kind), target=kind, target_bounds=target_bounds, norm=norm,
                columns=columns, categories=categories, center=center, scale=scale, fit_intercept=fit_intercept, l2=l2,
                criterion=criterion, start=start, random_state=random_state, progress=progress,
            )
            for kind in _kinds(loss, target_bounds)
        ]  # fmt: skip
        every = [option for one in found for option in one.options]
        return Plan(tuple(sorted(every, key=functools.partial(_rank, criterion, wanted))), criterion, wanted, whole)
    layout = Layout.of(population, columns, categories, norm, fit_intercept, center, scale)
    if mechanisms is None:
        mechanisms = _MECHANISMS[:4] if target in KINDS else _MECHANISMS if layout.one_hot else _MECHANISMS[:2]
    if not mechanisms or not set(map(str, mechanisms)) <= set(_MECHANISMS):
        raise ValueError(
            f"mechanisms={shown(mechanisms, 80)} must be a list with some of {', '.join(map(repr, _MECHANISMS))}."
        )
    if target in KINDS and "laplace per column" in mechanisms:
        raise ValueError(
            f'target="{target}" noises one vector by one mechanism, and "laplace per column" has one for each column. '
            'Leave it out: "laplace" has the same noise on all columns.'
        )
    radius, names = layout.radius, layout.vector_names
    make_target = _target_mechanism(loss, target_bounds) if target == "noised" else None

    # The weight c of the target: near the square root of the radius for labels, and R/B for a target within B.
    has_weight = target == "joint" or (target == "margin" and fit_intercept)
    middle = radius / max(map(abs, target_bounds or (1.0, 1.0))) if target == "joint" else math.sqrt(radius)
    weights = tuple(float(f"{middle * 2.0**power:.3g}") for power in _WEIGHTS) if has_weight else ()

    def build(mechanism: str, budgets: Sequence[float], weight: float | None = None) -> Release:
        tried(1)
        spent = list(budgets)
        noised = None if make_target is None else make_target(spent.pop())
        features: dict[Any, Mechanism]
        if mechanism == "gaussian":
            features = {names: GaussianMechanism(epsilon=spent[0], delta=chance, radius=radius)}
        elif mechanism == "spherical laplace":
            features = {names: SphericalLaplaceMechanism(epsilon=spent[0], radius=radius)}
        elif mechanism == "spherical cap":
            features = {names: _cap(spent[0], radius)}
        elif mechanism == "laplace":
            features = {names: LaplaceMechanism(epsilon=spent[0], radius=layout.taxicab)}
        else:
            features = layout.by_column(spent, lambda budget: LaplaceMechanism(epsilon=budget, bounds=(-1.0, 1.0)))
        if target not in KINDS:
            return Release(features, noised, fit_intercept=fit_intercept)
        return Release(
            features,
            target,
            fit_intercept=fit_intercept,
            target_scale=weight,
            target_values=loss.target_values if target == "margin" else None,
            target_bounds=target_bounds,
        )

    with progress_bar(progress, None, "release") as tried:
        # Mechanisms differ in their noise alone, and the population is solved without it.
        study = Study.of(loss, build("gaussian", [whole / 2, whole / 2]), layout.vectors, l2, random_state, start)
        options = []
        noised = make_target is not None
        for mechanism in mechanisms:
            parts, studied, by_column = 1, study, mechanism == "laplace per column"
            if by_column:
                parts = len(layout.columns)
                if layout.one_hot:
                    equal = build(mechanism, split_budget(whole, [1] * (parts + noised)))
                    studied = Study.of(loss, equal, layout.population, l2, random_state, start)
            collect = functools.partial(build, mechanism)
            option = _option(studied, mechanism, collect, parts, noised, whole, records, wanted, criterion, weights)
            if not layout.is_released:
                expected, half = (one and _as_collected(one, layout) for one in (option.expected, option.half))
                option = replace(option, expected=expected, half=half)
            options.append(replace(option, target=target))
    return Plan(tuple(sorted(options, key=functools.partial(_rank, criterion, wanted))), criterion, wanted, whole)


def _as_collected(expected: ExpectedFit, layout: Layout) -> ExpectedFit:
    """Return what to expect with the release of the columns as collected, which makes the indicators."""
    groups, coupled = dict(expected.release.groups), expected.release.coupling
    in_one_vector = len(groups) == 1 and next(iter(groups)) == layout.vector_names
    features: dict[Any, Mechanism] = {layout.columns: next(iter(groups.values()))} if in_one_vector else {**groups}
    target = {"target": expected.release.target} if coupled is None else coupled.arguments
    release = Release(
        features, fit_intercept=expected.release.fit_intercept, **target, **layout.options(in_one_vector=in_one_vector)
    )
    return replace(expected, release=release)


def _rank(criterion: Criterion, wanted: float | None, option: Option) -> tuple[bool, float]:
    """Return what options are sorted by: refused ones last, the others by records or by their errors."""
    fit = option.expected
    if fit is None:
        return True, math.inf
    return False, fit.records if wanted is not None else fit.criterion(criterion)


def _kinds(loss: Loss, target_bounds: tuple[float, float] | None) -> list[str]:
    """Return the ways to release the target that a loss allows."""
    kinds = ["noised"] if loss.target_values is not None or target_bounds is not None else []
    values = loss.target_values
    if values is not None and len(values) == 2 and is_margin_loss(loss, (values[0], values[1])):
        kinds.append("margin")
    if target_bounds is not None and is_residual_loss(loss):
        kinds.append("joint")
    return kinds or ["noised"]


def _allowed(mechanisms: Sequence[str] | None, kind: str) -> Sequence[str] | None:
    """Return the mechanisms of a list that noise one vector, where one is released."""
    if mechanisms is None or isinstance(mechanisms, str) or kind not in KINDS:
        return mechanisms
    return [name for name in mechanisms if name != "laplace per column"] or None


def _option(
    study: Study,
    mechanism: str,
    build: Callable[..., Release],
    columns: int,
    noises_target: bool,
    whole: float,
    records: float | None,
    wanted: float | None,
    criterion: Criterion,
    weights: Sequence[float],
) -> Option:
    """Return one way to collect: its best split or weight, for a number of records or for an accuracy."""
    n = records if records is not None else 1e5
    parts = columns + noises_target
    notes: tuple[str, ...] = ()
    try:
        if weights:
            weight = _best_weight(study, build, whole, n, criterion, weights)
            build, notes = functools.partial(build, weight=weight), (f"the weight of the target is {weight:.3g}",)
        for _ in range(2):
            split = split_of(study, build, whole, parts, n, criterion) if parts > 1 else None
            budgets = (whole,) if split is None else split.budgets
            if wanted is None:
                expected = study.expected(build(budgets), n, "best") if split is None else split.expected
                break
            expected = study.needed(build(budgets), wanted, criterion, "best")
            # A surrogate is designed for the number of records, and the best split goes with it.
            if split is None or expected.method == "exact":
                break
            n = expected.records
    except SymdebiasError as error:
        return Option(mechanism, None, refusal=str(error))
    if notes:
        expected = replace(expected, notes=(*expected.notes, *notes))
    half = None
    if noises_target:
        try:
            halved = build(split_budget(whole, [*([1] * columns), columns]))
            half = study.expected(halved, expected.records, "best")
        except SymdebiasError:
            half = None
    return Option(mechanism, expected, budgets, half)


def _cap(epsilon: float, radius: float) -> Mechanism:
    """Return a spherical cap; refused as an option is, and not as an argument, where it does not take the budget."""
    try:
        return SphericalCapMechanism(epsilon=epsilon, radius=radius)
    except ValueError as error:
        raise NoExactCorrectionError(str(error)) from None


def _best_weight(
    study: Study, build: Callable[..., Release], whole: float, n: float, criterion: Criterion, weights: Sequence[float]
) -> float:
    """Return the weight of the target with the smallest error; the optimum is flat, and a grid does."""
    prices: list[float] = []
    refusals: list[SymdebiasError] = []
    for weight in weights:
        try:
            fit = study.expected(build((whole,), weight=weight), n, "best", quick=True)
            prices.append(fit.criterion(criterion))
        except SymdebiasError as error:
            refusals.append(error)
            prices.append(math.inf)
    place = int(np.argmin(prices))
    if not math.isfinite(prices[place]):
        raise refusals[0]
    return float(weights[place])


def _target_mechanism(loss: Loss, bounds: tuple[float, float] | None) -> Callable[[float], Mechanism]:
    values = loss.target_values
    if values is not None:
        if tuple(values) == (-1.0, 1.0):
            return lambda epsilon: RandomizedResponse(epsilon=epsilon)
        return lambda epsilon: RandomizedResponse(epsilon=epsilon, categories=values)
    if bounds is None:
        raise ValueError(
            'the target is continuous and has no public bounds. Give target_bounds=(low, high), or target="public".'
        )
    return lambda epsilon: LaplaceMechanism(epsilon=epsilon, bounds=bounds)
