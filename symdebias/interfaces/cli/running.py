"""The commands that plan, audit, check a ledger, and demonstrate."""

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

from symdebias import _files, _loss_names, losses
from symdebias._domains import COUNT, EPSILON, POSITIVE, Interval
from symdebias.checks import check_guarantee
from symdebias.interfaces import demo, plotting, spending
from symdebias.interfaces.cli import REFUTED, doubt_delta, show, tell, watched
from symdebias.interfaces.cli.cards import doubts_of_noise, has_target, release_of, require_fresh
from symdebias.planning import ExpectedFit, Plan, Population, Rehearsal, feasibility, rehearse
from symdebias.planning import plan as planned
from symdebias.privacy import Guarantee, Ledger
from symdebias.privacy.ledger import cut_short, populations
from symdebias.release.entries import entries_of

_SOME = Interval(0.0, math.inf, "neither", "Give a positive number, such as 10000 records or an error of 0.05.")
_RATE = Interval(0.0, 0.5, "neither", "Give a small probability, such as 1e-6.")
_DELTA = 1e-5
# A plan of so many takes minutes.
_MOST_COLUMNS = 300
# The populations of targets.
_FAMILIES = {"label": "binary", "count": "count", "number": "normal"}


def audit(options: argparse.Namespace) -> int:
    """Try to refute the guarantee of a card."""
    _RATE.check("--false-alarm", options.false_alarm)
    require_fresh(options.card)
    release = release_of(options.card)
    if doubts := doubts_of_noise(options.card):
        warnings.warn(doubts, stacklevel=2)
    tell(f"drawing {options.samples:,} records of each of two inputs, and more where they are told apart")
    check = check_guarantee(
        release, samples=options.samples, confidence=1 - options.false_alarm, has_target=has_target(options.card),
        progress=watched(options),
    )  # fmt: skip
    show(check.as_json()) if options.json else print(check.table())
    return 0 if check.holds else REFUTED


def plan(options: argparse.Namespace) -> None:
    """Compare ways to collect, or say what to expect of a schema."""
    if options.rehearse is not None:
        COUNT.check("--rehearse", options.rehearse)
    for name in ("records", "standard_error"):
        given = getattr(options, name)
        if given is not None:
            _SOME.check(f"--{name.replace('_', '-')}", given)
    if options.schema is not None:
        _plan_schema(options)
        return
    for name in ("loss", "epsilon"):
        if getattr(options, name) is None:
            raise ValueError(f"--{name} was not given. Give it, or a schema that has it by --schema.")
    if (options.columns is None) == (options.theta is None):
        raise ValueError("give --columns or --theta, and not both: guessed parameters say how many columns there are.")
    if options.columns is not None and options.columns < 1:
        raise ValueError(f"--columns {options.columns} is no number of columns. Give at least 1.")
    if (options.columns or 0) > _MOST_COLUMNS:
        raise ValueError(
            f"--columns {options.columns:,} is more than {_MOST_COLUMNS:,}, and a plan draws records with all of them. "
            "Plan for fewer."
        )
    name = options.loss.replace("-", "_")
    # A vector with the label is planned for labels, which a loss of numbers may have as well.
    of_labels = options.target == "margin" and name in _loss_names.MARGIN
    make, family = getattr(losses, name), _FAMILIES["label" if of_labels else _loss_names.CATALOGUE[name].target]
    if options.target_bounds is not None and len(options.target_bounds) != 2:
        raise ValueError("--target-bounds takes two numbers, as 0,10.")
    # Targets that are guessed lie around the middle of their bounds, as far as an intercept can say so.
    middle = sum(options.target_bounds) / 2 if family == "normal" and options.target_bounds else 0.0
    theta = options.theta or (0.5,) * options.columns + (middle,) * options.intercept
    covariance = None
    if options.spread is not None:
        if POSITIVE.check("--spread", options.spread) > 1:
            raise ValueError(
                f"--spread={options.spread:g} is more than columns in [-1, 1] have. Give the standard deviation of "
                "columns that are divided by half of the width of their bounds."
            )
        covariance = [options.spread**2] * (len(theta) - options.intercept)
    population = Population.guess(theta, family=family, covariance=covariance, intercept=options.intercept)
    if options.plot is not None:
        _files.require_place(options.plot, _files.PICTURE)
    if family != "binary" and options.target_bounds is None and not options.public_target:
        example = "0,10" if family == "count" or options.intercept else "-5,5"
        raise ValueError(
            f"the target of {options.loss} is a number, which is noised within public bounds. Give them, as "
            f"--target-bounds {example}, or release the target as it is by --public-target."
        )
    settings: dict[str, Any] = {
        "delta": _DELTA if options.delta is None else options.delta,
        "mechanisms": options.mechanisms and [name.replace("-", " ") for name in options.mechanisms],
        "target": options.target or ("public" if options.public_target else "noised"),
        "target_bounds": options.target_bounds,
        "fit_intercept": options.intercept,
        "l2": options.l2,
    }
    tell("comparing mechanisms and splits of the budget")
    answer = planned(
        make(),
        population,
        epsilon=options.epsilon,
        n=options.records,
        standard_error=options.standard_error,
        progress=watched(options),
        **settings,
    )
    best = answer.best.expected
    assert best is not None
    if options.delta is not None and best.release.guarantee is not None:
        doubt_delta(best.release.guarantee.delta, best.records)
    if not options.json:
        print(answer)
        print(f"\nbest: {answer.best.title}; release:\n  {best.release!r}", flush=True)
    told = _as_json(answer)
    if options.plot is not None:
        curves: dict[str, list[ExpectedFit]] = {}
        for budget in (factor * options.epsilon for factor in (0.5, 1.0, 2.0, 4.0)):
            if budget not in EPSILON:
                continue
            there = planned(make(), population, epsilon=budget, n=best.records, **settings)
            for option in there.options:
                if option.expected is not None:
                    curves.setdefault(option.title, []).append(option.expected)
        plotting.save(plotting.planned_errors(curves), options.plot)
        told["picture"] = str(options.plot)
        if not options.json:
            print(f"standard errors in {options.plot}", flush=True)
    tried: Rehearsal | None = None
    if options.rehearse is not None:
        tell(f"trying the best of them out {options.rehearse} times")
        tried = rehearse(
            make(), best.release, population, n=best.records, fits=options.rehearse, method=best.method,
            l2=options.l2, progress=watched(options),
        )  # fmt: skip
    _show_rehearsed(options, told, tried)


def _as_json(answer: Plan) -> dict[str, Any]:
    options = []
    for option in answer.options:
        fit = option.expected
        entry: dict[str, Any] = {"title": option.title, "refusal": option.refusal or None}
        if fit is not None:
            entry |= {
                "records": fit.records,
                "standard_errors": fit.standard_errors.tolist(),
                "budgets": list(option.budgets),
                "card": json.loads(fit.release.to_json()),
            }
        options.append(entry)
    return {"epsilon": answer.epsilon, "criterion": answer.criterion, "options": options}


def _plan_schema(options: argparse.Namespace) -> None:
    needless = [
        name for name in (
            "columns", "theta", "spread", "mechanisms", "intercept", "public_target", "target", "target_bounds", "plot",
        )
        if getattr(options, name) not in (None, False)
    ]  # fmt: skip
    if needless:
        raise ValueError(
            f"--{needless[0].replace('_', '-')} does not go with --schema, which says what is collected and how: one "
            "release is looked at, not several compared. Leave one of the two out. --epsilon, --delta, --loss and --l2 "
            "go with it, in place of the schema's own."
        )
    budget = {name: getattr(options, name) for name in ("epsilon", "delta") if getattr(options, name) is not None}
    found = feasibility(
        {**entries_of(options.schema), **budget}, n=options.records, standard_error=options.standard_error,
        loss=options.loss, l2=options.l2,
    )  # fmt: skip
    if found.release.guarantee is not None:
        doubt_delta(found.release.guarantee.delta, found.expected.records)
    if not options.json:
        print(found, flush=True)
    tried: Rehearsal | None = None
    if options.rehearse is not None:
        tell(f"trying it out {options.rehearse} times")
        tried = found.rehearse(fits=options.rehearse, progress=watched(options))
    _show_rehearsed(options, found.as_json(), tried)


def _show_rehearsed(options: argparse.Namespace, answer: dict[str, Any], tried: Rehearsal | None) -> None:
    """Print what was tried out, below an answer that is printed already; of JSON all at once."""
    if options.json:
        show(answer if tried is None else {**answer, "rehearsal": tried.as_json()})
    elif tried is not None:
        print(f"\n{tried}")


def ledger(options: argparse.Namespace) -> None:
    """Check a ledger, and print it."""
    found = populations(options.file) if options.population is None else (options.population,)
    digest, answer = "", []
    for population in found:
        ledger = Ledger(options.file, population)
        digest = ledger.verify(options.digest)
        if options.json:
            answer.append(_of_population(ledger))
        else:
            print(f"{ledger.summary()}\n")
    torn = cut_short(options.file)
    if options.json:
        show({"populations": answer, "digest": digest or None, "bytes_cut_short": torn})
    elif found:
        print(f"every line follows from the one before it; the last has the digest {digest}")
    else:
        print(f"no population, and {torn:,} bytes that are no whole line" if torn else "no population")


def _of_population(ledger: Ledger) -> dict[str, Any]:
    def numbers(guarantee: Guarantee | None) -> dict[str, float] | None:
        return None if guarantee is None else {"epsilon": guarantee.epsilon, "delta": guarantee.delta}

    return {
        "population": ledger.population,
        "total": numbers(ledger.total),
        "spent": numbers(ledger.spent),
        "releases": [
            {
                "time": entry.time.isoformat(),
                "records": entry.records,
                "card": entry.card,
                "unprotected": list(entry.unprotected),
                **(numbers(entry.guarantee) or {}),
            }
            for entry in ledger.entries
        ],
    }


def demonstrate(options: argparse.Namespace) -> None:
    """Train with and without correction, and draw the risks."""
    output = options.output or Path(f"symdebias-demo-{options.data}.png")
    _files.require_place(output, _files.PICTURE)
    began = time.perf_counter()
    problem = demo.PROBLEMS[options.data]()
    outcome = demo.run(problem, random_state=options.seed, progress=watched(options))
    if not options.json:
        print(f"{demo.table(outcome)}\n", flush=True)
    spendings = spending.compare(problem, random_state=options.seed)
    plotting.save(plotting.excess_risk(outcome, spendings), output)
    seconds = time.perf_counter() - began
    if options.json:
        show({**_of_demo(outcome, spendings), "picture": str(output), "seconds": seconds})
        return
    print(f"{spending.table(spendings)}\n")
    print(f"picture in {output}; {seconds:.0f} s in all")


def _of_demo(outcome: demo.Outcome, spendings: list[spending.Spending]) -> dict[str, Any]:
    problem = outcome.problem
    return {
        "data": problem.name,
        "records": len(problem.y),
        "epsilon": problem.epsilon,
        "least_risk": outcome.risk,
        "curves": [
            {"name": name, "excess_risk": float(outcome.excess[name][-1]), "theta": fit.theta.tolist()}
            for name, fit in outcome.fits.items()
        ],
        "spendings": [
            {
                "name": way.name,
                "how": way.detail,
                "excess_risk": float(way.excess.mean()),
                "standard_error": float(way.excess.std(ddof=1) / len(way.excess) ** 0.5),
                "limit": way.limit,
            }
            for way in spendings
        ],
    }
