"""Derive the correction of a loss by one method: labels first, then scores or features."""

import functools
import math
from dataclasses import replace

import numpy as np
import sympy as sp

from symdebias import _budget
from symdebias.derivation.features import by_feature, hidden_score
from symdebias.derivation.labels import HiddenError, is_hidden, label_noise_undone, without_correction
from symdebias.derivation.problem import ScoreProblem
from symdebias.derivation.scores import by_quadrature, by_series, exactly, uncorrected
from symdebias.derivation.surrogates import SurrogateParts, by_surrogate, numbers_of, parts_of
from symdebias.derivation.symbols import Derivation, NoiseSymbols
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import ChannelNoise
from symdebias.release import Release
from symdebias.release.design import Design as ColumnDesign
from symdebias.transforms.surrogate import Design

HIDDEN = "the loss depends on the features through one linear score, and is corrected in it"


def derive(
    loss: Loss,
    release: Release,
    *,
    method: str,
    order: int | None,
    columns: int,
    nodes: int | None = None,
    per_record: bool = False,
    enumerate_categories: bool = False,
    waves: int = 12,
    design: Design | None = None,
) -> Derivation:
    """Derive the correction of a loss by one method.

    Parameters
    ----------
    loss : Loss
        The declared loss, which must fit the release.
    release : Release
        The noise.
    method : {"exact", "quadrature", "series", "surrogate", "none"}
        What to do.
    order : int or None
        The order of a series.
    columns : int
        The number of columns of X.
    per_record : bool
        Whether each record has noise scales of its own.
    nodes : int or None
        The number of nodes of a quadrature.
    enumerate_categories : bool
        Whether to sum over categories even where factors could be looked up: what the Hessian needs.
    waves : int
        How many waves surrogates have.
    design : symdebias.transforms.surrogate.Design or None
        The surrogates; without them their numbers are NaN.

    Raises
    ------
    NoExactCorrectionError
        The method does not apply; the message says why.
    DerivationLimitError
        It takes more seconds or longer expressions than it is allowed; see `symdebias.derivation_limits`.
    """
    with _budget.timed():
        _budget.check(loss.expression)
        if method == "surrogate":
            unnumbered = _of_surrogates(loss, release, waves, columns, per_record, enumerate_categories)
            return unnumbered if design is None else numbered(unnumbered, loss, release, design)
        return _derive(
            loss, release, method=method, order=order, columns=columns, nodes=nodes, per_record=per_record,
            enumerate_categories=enumerate_categories, waves=waves,
        )  # fmt: skip


@functools.lru_cache(maxsize=128)
def _of_surrogates(
    loss: Loss, release: Release, waves: int, columns: int, per_record: bool, enumerate_categories: bool
) -> Derivation:
    """Return the correction of surrogates without their numbers: it is the same for all of so many waves."""
    return _derive(
        loss, release, method="surrogate", order=None, columns=columns, nodes=None, per_record=per_record,
        enumerate_categories=enumerate_categories, waves=waves,
    )  # fmt: skip


def numbered(derivation: Derivation, loss: Loss, release: Release, design: Design) -> Derivation:
    """Return a correction of surrogates with the numbers of a design in the places where it has NaN."""
    if "coefficients" not in derivation.constants:
        return derivation
    constants = {
        name: np.where(np.isnan(values), design.frequency, values) for name, values in derivation.constants.items()
    }
    constants["coefficients"] = np.array([design.frequency, *numbers_of(surrogate_parts(loss, release), design)])
    return replace(derivation, constants=constants)


def _derive(
    loss: Loss,
    release: Release,
    *,
    method: str,
    order: int | None,
    columns: int,
    nodes: int | None,
    per_record: bool,
    enumerate_categories: bool,
    waves: int,
) -> Derivation:
    symbols = NoiseSymbols.beside(loss.expression, len(loss.scores))
    found = hidden_score(loss) if not loss.scores and method != "none" else None
    if not loss.scores and found is None:
        if method == "quadrature":
            raise NoExactCorrectionError(
                "quadrature in the complex plane is for losses of one score, and this one is in features by name. "
                "Write it in its score, or ask for the exact correction."
            )
        hidden = method == "surrogate" and _is_hidden(loss, release)
        if method == "surrogate" and not hidden:
            parts_of(loss, release, symbols)  # says that it has none
        if method == "none":
            labelled = without_correction(loss)
        else:
            labelled = label_noise_undone(loss, release, symbols, rewrite=method == "series", nearest=hidden)
        how = "exact" if hidden else method
        derivation = by_feature(loss, labelled, release, symbols, method=how, order=order, per_record=per_record)
        return replace(derivation, exact=derivation.exact and not hidden)
    if found is None:
        scored, columns_of = loss, release.design(columns)
        intercept = len(columns_of.parameters) - 1 if columns_of.intercept else None
        notes: tuple[str, ...] = ()
    else:
        scored = Loss(found.expression, score=found.score, target=loss.target, target_values=loss.target_values)
        symbols = NoiseSymbols.beside(scored.expression)
        columns_of, intercept, notes = _design_of_features(loss, release, found.places), found.intercept, (HIDDEN,)
    hidden = method == "surrogate" and _is_hidden(scored, release)
    parts = parts_of(scored, release, symbols) if method == "surrogate" and not hidden else None
    if parts is not None:
        labelled = parts.labelled
    elif method == "none":
        labelled = without_correction(scored)
    else:
        labelled = label_noise_undone(scored, release, symbols, rewrite=method == "series", nearest=hidden)
    problem = ScoreProblem(
        scored.scores, scored.target, labelled, columns_of, intercept, symbols, per_record, enumerate_categories
    )
    if parts is not None:
        derivation = by_surrogate(problem, parts, waves=waves)
    elif method == "quadrature":
        assert nodes is not None
        derivation = by_quadrature(problem, nodes)
    elif hidden:
        derivation = _of_nearest(problem)
    else:
        derivation = _of_scores(problem, method, order)
    return replace(derivation, notes=(*notes, *derivation.notes))


def _is_hidden(loss: Loss, release: Release) -> bool:
    noise = release.target_noise
    return isinstance(noise, ChannelNoise) and is_hidden(loss, noise)


def _of_nearest(problem: ScoreProblem) -> Derivation:
    """Return the exact correction of the nearest loss in the range of a channel, which is not one of the loss."""
    try:
        derivation = _of_scores(problem, "exact", None)
    except NoExactCorrectionError as error:
        raise HiddenError(
            f"the channel of the target hides the loss, and the nearest one in its range has no exact correction "
            f"either: {error} Release the features without noise, or with noise that is undone exactly for this loss."
        ) from None
    return replace(derivation, exact=False)


def surrogate_parts(loss: Loss, release: Release) -> SurrogateParts:
    """Return the parts of a loss that surrogates stand for, in its hidden score if it is free-form."""
    found = hidden_score(loss) if not loss.scores else None
    if found is not None:
        loss = Loss(found.expression, score=found.score, target=loss.target, target_values=loss.target_values)
    return parts_of(loss, release, NoiseSymbols.beside(loss.expression))


def _of_scores(problem: ScoreProblem, method: str, order: int | None) -> Derivation:
    if method == "none":
        return uncorrected(problem)
    if problem.per_record and len(problem.scores) > 1:
        raise ValueError(
            "noise scales of the records' own are corrected for losses of one score. Use one scale for all records, "
            "or fit the scores apart."
        )
    if method == "series":
        assert order is not None
        return by_series(problem, order)
    return exactly(problem)


def _design_of_features(loss: Loss, release: Release, places: tuple[int, ...]) -> ColumnDesign:
    """Return the design of a hidden score: each feature times the parameter that stands beside it."""
    design = release.design(len(loss.features))
    categorical = (
        replace(part, parameters=(places[part.column],) * len(part.noise.inputs), values=part.noise.inputs)
        for part in design.categorical
    )
    return replace(
        design,
        parameters=tuple(symbol.name for symbol in loss.parameters),
        linear=tuple(replace(part, parameter=places[part.column]) for part in design.linear),
        categorical=tuple(categorical),
        intercept=False,
    )


def noise_limit(conditions: tuple[sp.Rel, ...], symbols: NoiseSymbols, target_variance: float) -> float:
    """Return the least upper bound that conditions put on the noise variance of the score.

    Parameters
    ----------
    conditions : tuple of sympy relationals
        Conditions in the noise of the scores and the target.
    symbols : NoiseSymbols
        Their symbols.
    target_variance : float
        The noise variance of the target.

    Returns
    -------
    float
        Infinity without conditions; 0 where the target's noise alone breaks one.

    Raises
    ------
    NoExactCorrectionError
        A condition is not a bound on the noise of the score.
    """
    limit = math.inf
    for condition in conditions:
        if symbols.reach in condition.free_symbols:
            continue
        margin = sp.expand((condition.gts - condition.lts).xreplace({symbols.target_variance: target_variance}))
        slope = margin.coeff(symbols.score_variance, 1)
        constant = margin.coeff(symbols.score_variance, 0)
        if not margin.is_polynomial() or sp.expand(margin - slope * symbols.score_variance - constant) != 0:
            raise NoExactCorrectionError(
                f"the correction exists where {condition}, which is not a bound on the noise of the score. "
                "Release the features or the target without noise, or use another loss."
            )
        if slope == 0:
            limit = limit if constant > 0 else 0.0
        elif slope < 0:
            limit = min(limit, max(0.0, float(-constant / slope)))
    return limit
