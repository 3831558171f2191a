"""The commands for analysts: fit a folder of released records, and judge a fit."""

import argparse
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from symdebias import _files, losses
from symdebias._domains import OPEN_UNIT
from symdebias._loss_names import CATALOGUE
from symdebias.driver import debias
from symdebias.evaluation import Estimate, evaluate_all
from symdebias.evaluation import evaluate as evaluate_one
from symdebias.exceptions import DivergenceError, InferenceError, SymdebiasError
from symdebias.interfaces.cli import show, tell, watched
from symdebias.interfaces.cli.doubts import doubts_of
from symdebias.interfaces.cli.expressions import loss_of_expression
from symdebias.interfaces.cli.known_term import KnownTerm
from symdebias.interfaces.cli.labels import labelled
from symdebias.interfaces.cli.outcome import Outcome
from symdebias.interfaces.cli.parser import is_name
from symdebias.interfaces.cli.per_record import PerRecord, columns_with_known_scale
from symdebias.interfaces.cli.wording import in_options
from symdebias.interfaces.coding import in_labels, labels_of, loss_by_name
from symdebias.losses import Loss
from symdebias.privacy.guarantee import PLAIN
from symdebias.release import Noised, Release, load
from symdebias.release.allocation import has_better_design
from symdebias.release.categories import spelled
from symdebias.release.folder import RECORDS
from symdebias.solvers import Fit, literature, m_estimate, summary
from symdebias.solvers.coefficients import Coefficients
from symdebias.solvers.saved_fit import SAVED_FIT

# Bytes of a file of Parquet from which on its records are judged block by block.
_LARGE = 2**28


def fit(options: argparse.Namespace) -> None:
    """Fit released records, and print the parameters in the units of the columns."""
    OPEN_UNIT.check("--level", options.level)
    if options.save is not None:
        _files.require_place(options.save, SAVED_FIT)
    noised = load(options.folder)
    outcome, known = Outcome.of(options, noised), KnownTerm.of(options)
    own = PerRecord.of(options, noised.release, _scaled(noised, outcome))
    if outcome is not None:
        release, noised = noised.release, _with_target(noised, outcome, known, own)
        outcome.require_apart(release, [*([] if known is None else [known.use]), *own.uses])
    loss = _loss(options, noised)
    noised, given = _taken_out(noised, known, own, loss)
    doubts = doubts_of(noised, own.scales)
    if doubts:
        warnings.warn(
            f"the records do not fit their card: {doubts}. They were changed after the noise, and a fit that undoes "
            "the noise of the card is wrong. Ask for them as they were released; in Python sd.checks.check_records "
            "has the figures.",
            stacklevel=2,
        )
    corrected = debias(loss, noised.release, method=options.method, order=options.order)
    tell(f"fitting {len(noised.X):,} records; the first fit of a kind compiles for some seconds")
    try:
        found = m_estimate(
            corrected, noised.X, noised.y, l2=options.l2, radius=options.radius, progress=watched(options), **given
        )
    except (DivergenceError, InferenceError) as error:
        designed = _designed(noised.release, options.loss.replace("-", "_")) if is_name(options.loss) else ""
        raise type(error)(f"{error}{designed}") from None
    if known is not None:
        found = known.kept(found)
    if outcome is not None:
        found = outcome.kept(found)
    found = labelled(_as_drawn(own.kept(found), noised), noised.labels)
    if options.save is not None:
        found.save(options.save)
        options.written = f"the fit is in {options.save}"
    worded = functools.partial(in_options, options=options)
    if options.json:
        term = {} if known is None else {"known_term": known.as_json}
        chosen = {} if outcome is None else {"outcome": outcome.as_json}
        columns = {"per_record": own.as_json} if own.named else {}
        show({**_as_json(found, options.level, worded), **chosen, **term, **columns, "records_fit_card": not doubts})
        return
    text = summary.as_text(found, options.level, original_units=_has_units(found), worded=worded)
    if noised.labels is not None:
        low, high = map(spelled, noised.labels)
        print(f"{noised.target_name}: -1 is {low}, +1 is {high}")
    if outcome is not None:
        print(f"the target is {outcome.target}, one of the released columns")
    if known is not None:
        print(known.note)
    for note in own.notes:
        print(note)
    print(text)


def evaluate(options: argparse.Namespace) -> None:
    """Estimate how good a saved fit is on true records."""
    OPEN_UNIT.check("--level", options.level)
    found, noised, given = _fit_and_records(options, in_memory=not _is_large(options.folder))
    given |= {"radius": options.radius, "threshold": options.threshold, "label_model": options.label_model}
    if options.metric == "all":
        every = evaluate_all(found, noised.X, noised.y, **given)
        every = replace(every, refused={name: in_options(reason, options) for name, reason in every.refused.items()})
        if not options.json:
            print(every.table(options.level))
            return
        estimates = [_of_estimate(one, options.level) for one in every.estimates.values()]
        show({"metrics": estimates, "refused": dict(every.refused)})
        return
    metric = found.corrected.declared if options.metric == "loss" else options.metric
    estimate = evaluate_one(found, noised.X, noised.y, metric=metric, **given)
    if options.json:
        show(_of_estimate(estimate, options.level))
        return
    print(estimate)
    low, high = estimate.confidence_interval(options.level)
    print(f"interval at {options.level:g}: {low:.6g} to {high:.6g}")


def _of_estimate(estimate: Estimate, level: float) -> dict[str, Any]:
    ends = estimate.interval_or_none(level)
    return {
        "metric": estimate.metric,
        "value": estimate.value,
        "standard_error": estimate.standard_error,
        "bias": estimate.bias,
        "interval": None if ends is None else list(ends),
        "level": level,
        "records": estimate.records,
    }


def report(options: argparse.Namespace) -> None:
    """Write the page of a saved fit and the records that it was made of, beside the fit that ignores the noise."""
    OPEN_UNIT.check("--level", options.level)
    _files.require_place(options.out, _files.PAGE)
    found, noised, given = _fit_and_records(options)
    fitted = found.diagnostics.get("records")
    if fitted is not None and fitted != len(noised.X):
        raise ValueError(
            f"the fit was made of {fitted:,} records, and {options.folder} has {len(noised.X):,}. Name the folder "
            "that it was made of: the page sets it beside a fit of the same records that ignores the noise."
        )
    tell("fitting once more without correction, and measuring the certificate")
    loss = found.corrected.declared
    known = {name: values for name, values in given.items() if name != "noise_scale"}
    ignoring: Fit | None = None
    try:
        if known:
            ignoring = m_estimate(debias(loss, noised.release, method="none"), noised.X, noised.y, **known)
        else:
            ignoring = literature.naive(loss, noised.release, noised.X, noised.y)
    except SymdebiasError as error:
        warnings.warn(f"the page has no fit that ignores the noise beside this one: {error}", stacklevel=2)
    found.report(
        options.out, ignoring, X=noised.X, y=noised.y, level=options.level, original_units=_has_units(found), **given
    )
    options.written = f"the page is {options.out}"
    if options.json:
        show({"page": str(options.out), "bytes": options.out.stat().st_size})
        return
    print(f"{options.out}: written")


def _is_large(folder: Path) -> bool:
    """Whether a folder has more records in Parquet than are to be in memory."""
    file = folder / RECORDS["parquet"]
    return file.is_file() and file.stat().st_size > _LARGE


def _fit_and_records(options: argparse.Namespace, *, in_memory: bool = True) -> tuple[Fit, Noised, dict[str, Any]]:
    """Return a saved fit, released records, and what is known of each of these, by the arguments that take it."""
    found = Fit.load(options.fit)
    outcome, known = Outcome.of_fit(found), KnownTerm.of_fit(options, found)
    # A column is taken out of records in memory.
    noised = load(options.folder, in_memory=in_memory or outcome is not None)
    own = PerRecord.of_fit(options, found, noised.release, _scaled(noised, outcome))
    if outcome is not None:
        noised = _with_target(noised, outcome, known, own)
    noised, given = _taken_out(noised, known, own, found.corrected.declared)
    if found.corrected.release != noised.release:
        raise ValueError(
            "the fit was made on records of another release than this folder has. Name a folder with the same card."
        )
    if known is not None:
        found = known.kept(found)
    return own.kept(found), noised, given


def _scaled(noised: Noised, outcome: Outcome | None) -> list[str]:
    """Return the features whose records may have noise scales of their own."""
    return columns_with_known_scale((noised if outcome is None else outcome.chosen(noised)).release)


def _with_target(noised: Noised, outcome: Outcome, known: KnownTerm | None, own: PerRecord) -> Noised:
    """Return records with an outcome as their target, and with columns of another use beside the features."""
    # Of all columns there are: those of no use are left out next.
    if known is not None:
        known.require_in(noised.release, target=outcome.target)
    own.require_in(noised.release, outcome.target, None if known is None else known.column)
    return outcome.chosen(noised, [*([] if known is None else [known.column]), *own.named])


def _taken_out(noised: Noised, known: KnownTerm | None, own: PerRecord, loss: Loss) -> tuple[Noised, dict[str, Any]]:
    """Return records with their features alone, and what else is known of each, by the arguments that take it."""
    term = {}
    if known is not None:
        noised, term["offset"] = known.taken_out(noised, loss)
    noised, given = own.taken_out(noised, None if known is None else known.column)
    return noised, {**given, **term}


def _has_units(found: Fit) -> bool:
    """Whether columns were released in other units than the user's."""
    release = found.corrected.release
    return found.theta.ndim == 1 and bool(release.center or release.scale)


def _loss(options: argparse.Namespace, noised: Noised) -> Loss:
    """Return the loss that is fitted: one of the catalogue, or an expression of the score u and the target y."""
    if is_name(options.loss):
        return loss_of(options.loss.replace("-", "_"), noised.release, options.arguments)
    if options.arguments is not None:
        raise ValueError("--arguments are those of a loss by name. Write the numbers into the expression.")
    # Labels without noise are known where a folder says what they stand for.
    values = labels_of(noised.release) or (None if noised.labels is None else (-1.0, 1.0))
    # Of two the expression has -1 and +1, whatever their codes are.
    is_pair = values is not None and len(values) == 2
    return in_labels(loss_of_expression(options.loss, (-1.0, 1.0) if is_pair else values), values)


def loss_of(name: str, release: Release, arguments: Sequence[float] | None = None) -> Loss:
    """Return a loss of the catalogue, with arguments of its own, in the coding of the labels that the release has."""
    known = labels_of(release)
    if known is not None and len(known) > 2 and CATALOGUE[name].target == "label" and name != "softmax":
        raise ValueError(
            f"the target has {len(known)} labels, and --loss {name.replace('_', '-')} is of two. Take --loss softmax."
        )
    if arguments is None and CATALOGUE[name].needs in ("", "classes"):
        return in_labels(loss_by_name(name, None if known is None else len(known)), known)
    return in_labels(_with_arguments(name, arguments or ()), known)


def _with_arguments(name: str, arguments: Sequence[float]) -> Loss:
    make, word = getattr(losses, name), f"--loss {name.replace('_', '-')}"
    taken = [one for one in inspect.signature(make).parameters.values() if one.name != "classes"]
    if not taken:
        raise ValueError(f"{word} takes no --arguments. Leave them out.")
    least = sum(one.default is one.empty for one in taken)
    if not least <= len(arguments) <= len(taken):
        raise ValueError(
            f"{word} takes {' and '.join(one.name for one in taken)}, and --arguments has {len(arguments)} numbers. "
            f"Give {'at most ' if least < len(taken) else ''}{len(taken)}, as --arguments 0.9."
        )
    try:
        made: Loss = make(*arguments)
    except (TypeError, ValueError) as error:
        # Names such as level are those of other options too.
        problem = f"--arguments of {word}: {error}"
    else:
        return made
    raise ValueError(problem)


def _as_drawn(found: Fit, noised: Noised) -> Fit:
    """Return a fit that says how the noise of its records was drawn, which a card does not."""
    if noised.seeded:
        return replace(found, diagnostics={**found.diagnostics, "seeded": True})
    if noised.hardened or noised.guarantee is None:
        return found
    return replace(found, notes=(*found.notes, f"the guarantee rests on {PLAIN}"))


def _designed(release: Release, loss: str) -> str:
    """Return what a schema could do for this loss that the solver, which knows no schema, cannot say."""
    if not has_better_design(release, loss):
        return ""
    return f' A schema with loss = "{loss}" makes a release that is designed for it.'


def _as_json(found: Fit, level: float, worded: Callable[[str], str] = str) -> dict[str, Any]:
    seeded = bool(found.diagnostics.get("seeded"))
    guarantee = None if seeded else summary.stated_guarantee(found)
    answer: dict[str, Any] = {
        "loss": str(found.corrected.declared.expression),
        "method": found.corrected.method,
        "records": found.diagnostics["records"],
        "seeded": seeded,
        "epsilon": None if guarantee is None else guarantee.epsilon,
        "delta": None if guarantee is None else guarantee.delta,
        "unprotected": None if guarantee is None else list(guarantee.unprotected),
        "names": list(found.names),
        "theta": found.theta.tolist(),
    }
    shape = found.theta.shape
    own, known = (Coefficients.of(found, level, original_units=original) for original in (False, True))
    answer["in_units"] = known.values.reshape(shape).tolist()
    for name, table in (("standard_errors", own), ("standard_errors_in_units", known)):
        if table.errors is not None:
            answer[name] = table.errors.reshape(shape).tolist()
    if known.bias is not None:
        answer["bias_bounds_in_units"] = known.bias.reshape(shape).tolist()
    if known.inference is not None and known.inference.refusal:
        answer["no_intervals"] = worded(known.inference.refusal)
    if known.ends is not None:
        answer |= {"level": level, "intervals_in_units": known.ends.reshape(*shape, 2).tolist()}
        if known.pvalues is not None:
            answer["p_values_in_units"] = known.pvalues.reshape(shape).tolist()
        assert known.inference is not None
        freedom = known.inference.freedom(len(known.values)).astype(object)
        if any(map(math.isfinite, freedom)):
            # By the normal distribution where it is null.
            freedom[[math.isinf(one) for one in freedom]] = None
            answer["degrees_of_freedom_in_units"] = freedom.reshape(shape).tolist()
    return answer
