"""Kernels ahead of their first fit: compiled once, kept in the cache folder, loaded by every later process."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from symdebias._domains import COUNT, check_flag, is_choice, is_list, kind_or_value, shown
from symdebias._progress import progress_bar
from symdebias.codegen import cache
from symdebias.codegen.score.program import ScoreProgram
from symdebias.corrected import CorrectedLoss, require_corrected
from symdebias.correction import Correction, columns_to_show
from symdebias.exceptions import NoExactCorrectionError
from symdebias.solvers.held import lengthened
from symdebias.solvers.offsets import rule_for
from symdebias.transforms import surrogate
from symdebias.transforms.polynomial import HIGHEST_DEGREE
from symdebias.zonal import ZonalNoise

SOLVERS = ("m_estimate", "sgd")


@dataclass(frozen=True)
class Compiled:
    """What `compile_kernels` has done."""

    kernels: int  # How many kernels a first fit will find.
    compiled: int  # How many of them were compiled now; the others were there.
    seconds: float  # How long that took.


def compile_kernels(
    corrected: CorrectedLoss,
    columns: int | Sequence[int] | None = None,
    *,
    solvers: Sequence[str] = SOLVERS,
    weighted: bool = False,
    offset: bool = False,
    noise_scale: bool = False,
    progress: bool = False,
) -> Compiled:
    """Compile what the first fits of a corrected loss would, before there are records.

    A kernel is compiled for a loss, for the kinds of noise of each column, and for a number of columns. It stays in the
    cache folder of this user, and budgets, scales, step sizes, penalties and radii are its arguments. Fits may run in
    other processes meanwhile.

    Parameters
    ----------
    corrected : CorrectedLoss
        What `debias` returns for the loss and the release.
    columns : int or sequence of int, optional
        Numbers of columns of X, the intercept not counted; by default that of the release. A release with one mechanism
        for all features does not know it.
    solvers : sequence of str
        Which of "m_estimate" and "sgd" will be used, with their defaults.
    weighted : bool
        Whether records will have weights.
    offset : bool
        Whether records will have an offset: what fits with one take, and not what those without one do.
    noise_scale : bool
        Whether records will have noise scales of their own.
    progress : bool
        Show a progress bar (needs the extra ``progress``).

    Returns
    -------
    Compiled
        How many kernels there are, how many of them were compiled now, and the seconds that it took.

    Raises
    ------
    TypeError, ValueError
        An argument is not as described, the release does not know its number of columns and none is given, or the loss
        or the release has no place for an offset.

    Examples
    --------
    >>> import symdebias as sd
    >>> release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(epsilon=1.0))
    >>> done = sd.compile_kernels(sd.debias(sd.losses.exponential(), release), columns=2)
    >>> done.kernels, done.compiled <= done.kernels
    (3, True)
    """
    weighted = check_flag("weighted", weighted)
    offset = check_flag("offset", offset)
    noise_scale = check_flag("noise_scale", noise_scale)
    progress = check_flag("progress", progress)
    require_corrected(corrected)
    named = tuple(solvers) if is_list(solvers) else ()
    if not named or not all(is_choice(one, SOLVERS) for one in named):
        given = kind_or_value(solvers) if not is_list(solvers) else shown(named, 60)
        raise ValueError(f"solvers={given} is not known. Name some of {', '.join(SOLVERS)}, in a tuple.")
    widths = _widths(corrected, columns)
    began, before = time.perf_counter(), cache.built()
    # Whether an offset is a column more, and whether records have weights then.
    ways = [(False, weighted)]
    if offset:
        rule = rule_for(corrected)
        makes_weights = rule is not None and rule.power != 0
        ways = [(rule is None, weighted or makes_weights)]
        # A penalty has what makes weights a column more; see `rule_for`.
        if makes_weights:
            ways.append((True, weighted))
    kinds = [
        (kind, weighs)
        for width in widths
        for is_held, weighs in ways
        for kind in _of_all_sizes(corrected, width, noise_scale, is_held)
    ]
    has_pilot = not corrected.is_resolved
    needed = (one for (kind, held), weighs in kinds for one in _needed(kind, named, weighs, held, has_pilot=has_pilot))
    sources = {one.key: one for one in needed}
    with progress_bar(progress, len(sources), "kernel") as advance:
        for source in sources.values():
            cache.compile_kernel(source)
            advance(1)
    return Compiled(len(sources), cache.built() - before, time.perf_counter() - began)


def _widths(corrected: CorrectedLoss, columns: Any) -> list[int]:
    known = corrected.release.number_of_columns
    if not corrected.declared.scores:
        known = columns_to_show(corrected.declared, corrected.release)
    if columns is None:
        if known is None:
            raise ValueError(
                "this release has one mechanism for all features, and does not know their number. Give columns=, a "
                "number of columns of X or several."
            )
        return [known]
    widths = [COUNT.check("columns", one) for one in ([columns] if not isinstance(columns, Sequence) else columns)]
    if not widths:
        raise ValueError("columns is empty. Give a number of columns of X, or several.")
    wrong = next((one for one in widths if known is not None and one != known), None)
    if wrong is not None:
        raise ValueError(f"columns={wrong}, and the release has {known}. Leave columns out.")
    return widths


def _of_all_sizes(
    corrected: CorrectedLoss, width: int, per_record: bool, is_held: bool
) -> list[tuple[Correction, int | None]]:
    """Return the corrections that fits may come to: on a sphere, records decide the degree of a surrogate.

    Each comes with the place of the parameter that stands beside an offset, and is held; None where none is.
    """
    place = None
    if is_held:
        corrected, correction, place = lengthened(corrected, width, per_record=per_record)
        width += 1
    else:
        correction = corrected.at(width, per_record=per_record)
    groups = () if correction.is_exact else correction.derivation.spherical
    if corrected.is_resolved or not any(isinstance(group.noise, ZonalNoise) for group in groups):
        return [(correction, place)]
    parts = len(corrected.surrogate_parts.replaced)
    highest = surrogate.Surrogate(1.0, (0.0,) * (HIGHEST_DEGREE + 1))
    design = surrogate.Design(1.0, 1.0, 1.0, (highest,) * parts, math.nan, math.nan)
    return [(correction, place), (corrected.with_design(design).at(width), place)]


def _needed(
    correction: Correction, solvers: Sequence[str], weighted: bool, held: int | None, *, has_pilot: bool
) -> Iterator[cache.KernelSource]:
    """Yield the sources of the kernels that default fits compile, in the order in which they would."""
    source: Callable[..., cache.KernelSource] = correction.kernels.source
    gradient, loss = source("mean_gradient", weighted=weighted), source("mean_loss", weighted=weighted)
    climbs = not correction.is_exact
    has_slopes = False
    if "m_estimate" in solvers or climbs:
        second = _with_hessian(correction)
        if second is None or second.kernels.by_products:
            # Differences of gradients, or products of slopes.
            yield from (loss, gradient)
        else:
            yield second.kernels.source("mean_derivatives", weighted=weighted)
            has_slopes = second is correction and second.program.derivatives(weighted=weighted).rows is not None
    if not has_slopes:
        yield source("mean_gradient")
    if "sgd" in solvers:
        # What a pilot has gone by takes the place of gradients.
        if not (has_pilot and has_slopes):
            yield gradient
        # A learned step has a scaling, which is the default.
        yield source("sgd_pass", weighted=weighted, scaled=True, held=held)
    plain = correction.uncorrected
    if correction.method.corrects and plain is not None and not plain.is_plain:
        yield plain.kernels.source("mean_gradient")


def _with_hessian(correction: Correction) -> Correction | None:
    """Return the correction whose Hessian can be written out, this one or that by sums over categories, or None."""
    program = correction.program
    if program.has_point_masses:
        return None
    if not isinstance(program, ScoreProgram):
        return correction
    try:
        found = correction.enumerated if program.has_lookups and not program.has_hessian else correction
        return found if not isinstance(found.program, ScoreProgram) or found.program.has_hessian else None
    except NoExactCorrectionError:
        return None
