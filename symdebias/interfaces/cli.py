"""The command ``symdebias``."""

import argparse
import io
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from symdebias import losses
from symdebias.checks import check_guarantee
from symdebias.exceptions import SymdebiasError
from symdebias.interfaces import demo, plotting, spending
from symdebias.planning import ExpectedFit, Population, plan
from symdebias.privacy import Ledger
from symdebias.privacy.ledger import populations
from symdebias.release import Release

# The exit code of an audit that refutes a guarantee.
REFUTED = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after the command; those of the process by default.

    Returns
    -------
    int
        0 on success, 1 where the job failed, 3 where an audit refutes a guarantee; argparse exits with 2 on a mistyped
        command.
    """
    for stream in (sys.stdout, sys.stderr):
        # Names in other scripts, where the locale knows ASCII alone.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except (SymdebiasError, ValueError, OSError) as error:
        print(f"symdebias: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="symdebias", description="Fit models honestly to data that was released with noise."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    shown = commands.add_parser(
        "demo",
        help="train on noised records with and without correction, and draw the risks",
        description="Train three models: by SGD on true records, by SGD on noised records, and by IWP-SGD on "
        "the same noised records. Then spend the same budget on the same records in three ways: as published, split at "
        "best, and all on y x. Print the risks on the true records and draw them.",
    )
    shown.add_argument(
        "--data",
        choices=tuple(demo.PROBLEMS),
        default="synthetic",
        help="1,000,000 synthetic records of 2 columns or of 10, or UCI Adult from the folder SYMDEBIAS_DATA",
    )
    shown.add_argument(
        "--output", type=Path, default=None, help="the PNG file to write (default: symdebias-demo-DATA.png)"
    )
    shown.add_argument("--seed", type=int, default=0, help="seed of noise and order (default: 0)")
    shown.set_defaults(run=_demo)
    _add_plan(commands)
    _add_audit(commands)
    _add_ledger(commands)
    return parser


def _add_audit(commands: Any) -> None:
    audited = commands.add_parser(
        "audit",
        help="try to refute the guarantee of a release by what it sends",
        description="Draw records as a card says, and try to refute its guarantee: by its exact loss, by events of "
        "the log ratio, by the law of the noise, by records outside the bounds, by random numbers that come twice, by "
        "low bits. Print for each probe what was tested, found and would have been seen. Exits with 0 where the "
        "guarantee holds, with 3 where it is refuted, with 1 where nothing could be audited.",
    )
    audited.add_argument("card", type=Path, metavar="CARD", help="the file with the card, from Release.to_json()")
    audited.add_argument(
        "--samples", type=int, default=100_000, help="draws of each of two inputs in the first look (default: 100000)"
    )
    audited.add_argument(
        "--false-alarm", type=float, default=1e-6, help="the rate at which sound releases are refuted (default: 1e-6)"
    )
    audited.add_argument("--json", action="store_true", help="print the answer as JSON")
    audited.set_defaults(run=_audit)


def _audit(options: argparse.Namespace) -> int:
    release = Release.from_json(options.card.read_text(encoding="utf-8"))
    check = check_guarantee(release, samples=options.samples, confidence=1 - options.false_alarm)
    print(json.dumps(check.as_json(), indent=2) if options.json else check.table())
    return 0 if check.holds else REFUTED


def _add_ledger(commands: Any) -> None:
    shown = commands.add_parser(
        "ledger",
        help="check a budget ledger, and print what was released and what is left",
        description="Check a budget ledger from its first line on, and print for each population its totals, what is "
        "spent, and its releases. Exit with 1 where the file was changed or damaged.",
    )
    shown.add_argument("file", type=Path, help="the ledger")
    shown.add_argument("--population", help="only this one")
    shown.add_argument("--digest", help="a digest that was printed earlier: its line must still be in the file")
    shown.set_defaults(run=_ledger)


def _add_plan(commands: Any) -> None:
    planned = commands.add_parser(
        "plan",
        help="which mechanism, which split of the budget, how many records",
        description="Compare mechanisms and splits of a budget for columns in [-1, 1], before any record is collected: "
        "how many records a standard error needs, or what standard error a number of records gives.",
    )
    planned.add_argument("--loss", choices=tuple(_LOSSES), required=True, help="the model's loss")
    planned.add_argument("--columns", type=int, help="the number of columns, with guessed parameters of 0.5 each")
    planned.add_argument(
        "--theta", type=_numbers, help="guessed parameters, as 1,-0.5,0.25; in place of --columns, intercept last"
    )
    planned.add_argument("--spread", type=float, help="guessed standard deviation of the columns (default: uniform)")
    planned.add_argument("--epsilon", type=float, required=True, help="the budget of a whole record")
    planned.add_argument("--delta", type=float, default=1e-5, help="of the Gaussian mechanism (default: 1e-5)")
    goal = planned.add_mutually_exclusive_group(required=True)
    goal.add_argument("--standard-error", type=float, help="the largest standard error that is wanted")
    goal.add_argument("--records", type=float, help="the number of records there will be")
    planned.add_argument(
        "--mechanisms",
        nargs="+",
        choices=("gaussian", "laplace", "spherical-laplace", "spherical-cap", "laplace-per-column"),
        help="what to compare (default: gaussian and laplace, with --target the spherical ones as well; a budget per "
        "column takes minutes)",
    )
    planned.add_argument("--intercept", action="store_true", help="the model has an intercept")
    how = planned.add_mutually_exclusive_group()
    how.add_argument("--public-target", action="store_true", help="the target is released as it is")
    how.add_argument(
        "--target",
        choices=("margin", "joint", "any"),
        help="features and target in one vector with the whole budget: for margin losses, or for those of a residual; "
        "any compares these with a target that is noised by itself",
    )
    planned.add_argument("--target-bounds", type=_numbers, help="public bounds of a continuous target, as 0,10")
    planned.add_argument("--l2", type=float, default=0.0, help="regularisation (default: 0)")
    planned.add_argument("--plot", type=Path, help="a PNG file for standard errors against the budget")
    planned.set_defaults(run=_plan)


_LOSSES = {
    "logistic": (losses.logistic, "binary"),
    "exponential": (losses.exponential, "binary"),
    "squared-hinge": (losses.squared_hinge, "binary"),
    "poisson": (losses.poisson, "count"),
    "least-squares": (losses.least_squares, "normal"),
}


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers; write them as 1,-0.5,0.25") from None


def _plan(options: argparse.Namespace) -> None:
    if (options.columns is None) == (options.theta is None):
        raise ValueError("give --columns or --theta, and not both: guessed parameters say how many columns there are.")
    if options.columns is not None and options.columns < 1:
        raise ValueError(f"--columns {options.columns} is no number of columns. Give at least 1.")
    theta = options.theta or (0.5,) * options.columns + (0.0,) * options.intercept
    make, family = _LOSSES[options.loss]
    covariance = None
    if options.spread is not None:
        covariance = [options.spread**2] * (len(theta) - options.intercept)
    population = Population.guess(theta, family=family, covariance=covariance, intercept=options.intercept)
    if options.plot is not None and not options.plot.parent.is_dir():
        raise ValueError(f"the folder {options.plot.parent} of --plot does not exist. Make it, or name another file.")
    if options.target_bounds is not None and len(options.target_bounds) != 2:
        raise ValueError("--target-bounds takes two numbers, as 0,10.")
    settings: dict[str, Any] = {
        "delta": options.delta,
        "mechanisms": options.mechanisms and [name.replace("-", " ") for name in options.mechanisms],
        "target": options.target or ("public" if options.public_target else "noised"),
        "target_bounds": options.target_bounds,
        "fit_intercept": options.intercept,
        "l2": options.l2,
    }
    answer = plan(
        make(),
        population,
        epsilon=options.epsilon,
        n=options.records,
        standard_error=options.standard_error,
        **settings,
    )
    print(answer)
    best = answer.best.expected
    assert best is not None
    print(f"\nbest: {answer.best.title}; release:\n  {best.release!r}")
    if options.plot is not None:
        curves: dict[str, list[ExpectedFit]] = {}
        for factor in (0.5, 1.0, 2.0, 4.0):
            there = plan(make(), population, epsilon=factor * options.epsilon, n=best.records, **settings)
            for option in there.options:
                if option.expected is not None:
                    curves.setdefault(option.title, []).append(option.expected)
        plotting.save(plotting.planned_errors(curves), options.plot)
        print(f"standard errors in {options.plot}")


def _ledger(options: argparse.Namespace) -> None:
    found = populations(options.file) if options.population is None else (options.population,)
    digest = ""
    for population in found:
        ledger = Ledger(options.file, population)
        digest = ledger.verify(options.digest)
        print(f"{ledger.summary()}\n")
    print(f"every line follows from the one before it; the last has the digest {digest}" if found else "no population")


def _demo(options: argparse.Namespace) -> None:
    output = options.output or Path(f"symdebias-demo-{options.data}.png")
    if not output.parent.is_dir():
        raise ValueError(f"the folder {output.parent} of --output does not exist. Make it, or name another file.")
    began = time.perf_counter()
    problem = demo.PROBLEMS[options.data]()
    outcome = demo.run(problem, random_state=options.seed, progress=sys.stderr.isatty())
    print(f"{demo.table(outcome)}\n", flush=True)
    spendings = spending.compare(problem, random_state=options.seed)
    print(f"{spending.table(spendings)}\n")
    plotting.save(plotting.excess_risk(outcome, spendings), output)
    print(f"picture in {output}; {time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    sys.exit(main())
