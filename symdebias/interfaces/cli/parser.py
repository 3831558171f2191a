"""The words of the command line, by argparse; nothing that does work is imported here."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import symdebias
from symdebias import _losses

_WORK = "symdebias.interfaces.cli"
LOSSES = tuple(name.replace("_", "-") for name in _losses.BY_NAME_AND_LABELS)
PLANNED = tuple(name.replace("_", "-") for name in _losses.BY_NAME)
METRICS = (
    "log_loss", "brier", "accuracy", "precision", "recall", "f1", "roc_auc", "squared_error", "r2", "poisson",
)  # fmt: skip
_CODES = "exit codes: 0 done, 1 could not be done, 2 not a command, 3 an audit refutes a guarantee"


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command; leaves with 2 and a usage line where the words are none."""
    return command_line().parse_args(with_negative_values(words))


def with_negative_values(words: Sequence[str]) -> list[str]:
    """Return words such that what begins with a minus and is no option is a value: -1,2 or -y*u.

    Examples
    --------
    >>> with_negative_values(["plan", "--theta", "-1,2", "--intercept"])
    ['plan', '--theta=-1,2', '--intercept']
    """
    found: list[str] = []
    for word in words:
        if not re.match(r"-[^-]", word) or word == "-h":
            found.append(word)
        elif found and found[-1].startswith("--") and "=" not in found[-1]:
            found[-1] += f"={word}"
        else:
            # argparse takes for a value what begins with a blank; nothing that is read here minds it.
            found.append(f" {word}")
    return found


def command_line() -> argparse.ArgumentParser:
    """Return the parser of all words."""
    parser = argparse.ArgumentParser(
        prog="symdebias", description="Fit models honestly to data that was released with noise.", epilog=_CODES
    )
    parser.add_argument("--version", action="version", version=f"symdebias {symdebias.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_derive(commands)
    _add_plan(commands)
    _add_privatize(commands)
    _add_fit(commands)
    _add_evaluate(commands)
    _add_report(commands)
    _add_audit(commands)
    _add_ledger(commands)
    _add_demo(commands)
    _add_completion(commands)
    return parser


def commands_of(parser: argparse.ArgumentParser) -> list[tuple[argparse.ArgumentParser, str]]:
    """Return the parsers of the commands, each with its line in the list of commands."""
    (action,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return [(action.choices[listed.dest], listed.help or "") for listed in action._get_subactions()]


def _command(commands: Any, name: str, work: str, help: str, description: str) -> Any:
    made = commands.add_parser(name, help=help, description=description, epilog=_CODES)
    made.set_defaults(run=f"{_WORK}.{work}")
    return made


def _json(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def _add_derive(commands: Any) -> None:
    shown = _command(
        commands, "derive", "deriving:derive", "print the corrected loss of an expression",
        "Derive the loss that is unbiased on noised records. The expression is read by a list of what is allowed, and "
        "never run.",
    )  # fmt: skip
    shown.add_argument("loss", metavar="LOSS", help='an expression of u and y, as "log(1+exp(-y*u))", or a name')
    shown.add_argument(
        "--noise", default="none", metavar="KIND:SIZE",
        help="of the features: gaussian:0.5 (its standard deviation), laplace:0.5 (its scale), uniform:0.5 (its half "
        "width) or none (default)",
    )  # fmt: skip
    shown.add_argument(
        "--target-values", type=numbers, metavar="A,B",
        help="the values of y (default: -1,1 for an expression, those of the catalogue for a name)",
    )  # fmt: skip
    shown.add_argument("--continuous", action="store_true", help="y is any number")
    shown.add_argument(
        "--target-epsilon", type=float, metavar="EPSILON", help="y comes by randomized response of this budget"
    )
    shown.add_argument(
        "--method", default="auto", choices=("auto", "exact", "series", "surrogate", "none"), help="as for sd.debias"
    )
    shown.add_argument("--order", type=int, help="of a series")
    shown.add_argument("--latex", action="store_true", help="print the formula as LaTeX")
    _json(shown)


def _add_plan(commands: Any) -> None:
    planned = _command(
        commands, "plan", "running:plan", "which mechanism, which split of the budget, how many records",
        "Compare mechanisms and splits of a budget for columns in [-1, 1], before any record is collected: how many "
        "records a standard error needs, or what standard error a number of records gives. With --schema, say what to "
        "expect of a fit to its release.",
    )  # fmt: skip
    planned.add_argument("--schema", type=Path, help="the release of this schema alone, with a guessed population")
    planned.add_argument("--loss", choices=PLANNED, help="the model's loss (default: that of the schema)")
    planned.add_argument("--columns", type=int, help="the number of columns, with guessed parameters of 0.5 each")
    planned.add_argument(
        "--theta", type=numbers, help="guessed parameters, as 1,-0.5,0.25; in place of --columns, intercept last"
    )
    planned.add_argument("--spread", type=float, help="guessed standard deviation of the columns (default: uniform)")
    planned.add_argument("--epsilon", type=float, help="the budget of a whole record (default: that of the schema)")
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
    planned.add_argument("--target-bounds", type=numbers, help="public bounds of a continuous target, as 0,10")
    planned.add_argument("--l2", type=float, default=0.0, help="regularisation (default: 0)")
    planned.add_argument("--plot", type=Path, help="a PNG file for standard errors against the budget")
    _json(planned)


def _add_privatize(commands: Any) -> None:
    noised = _command(
        commands, "privatize", "collecting:privatize", "noise a table as a schema says, into a new folder",
        "Noise the records of a CSV file by the release that a schema declares, and write them with their card to a "
        "new folder. Nothing is written, and no budget is spent, where the table does not fit.",
    )  # fmt: skip
    noised.add_argument("table", type=Path, metavar="TABLE", help="the CSV file; its first line names the columns")
    noised.add_argument("--schema", type=Path, required=True, help="the TOML file with bounds, categories and budget")
    noised.add_argument("--out", type=Path, required=True, help="the folder, which is not there yet")
    noised.add_argument("--format", choices=("csv", "parquet"), default="csv", help="of the records (default: csv)")
    noised.add_argument(
        "--outside",
        choices=("clip", "clip-all", "refuse"),
        default="clip",
        help="what to do with records outside bounds",
    )
    noised.add_argument("--ledger", type=Path, help="the ledger that counts the release")
    noised.add_argument("--population", help="about whom, in the ledger")
    noised.add_argument(
        "--total", type=numbers, metavar="EPSILON[,DELTA]", help="the total of a population that is new"
    )
    noised.add_argument("--seed", type=int, help="for examples alone: noise from a seed carries no guarantee")
    _json(noised)


def _add_fit(commands: Any) -> None:
    fitted = _command(
        commands, "fit", "fitting:fit", "fit a model to a folder of released records",
        "Fit by M-estimation on the corrected loss, and print the parameters with standard errors, in the units of the "
        "columns.",
    )  # fmt: skip
    fitted.add_argument("folder", type=Path, metavar="FOLDER", help="what privatize wrote")
    fitted.add_argument("--loss", choices=LOSSES, required=True, help="the model's loss")
    fitted.add_argument("--target", metavar="NAME", help="the column of the target, to make sure that it is the one")
    fitted.add_argument("--l2", type=float, default=0.0, help="regularisation of released columns (default: 0)")
    fitted.add_argument("--radius", type=float, help="bound on the norm of the parameters")
    fitted.add_argument("--method", default="auto", help="of the correction, as for sd.debias (default: auto)")
    fitted.add_argument("--level", type=float, default=0.95, help="of the intervals (default: 0.95)")
    fitted.add_argument("--save", type=Path, metavar="FILE", help="keep the fit in this file (.npz)")
    _json(fitted)


def _add_evaluate(commands: Any) -> None:
    judged = _command(
        commands, "evaluate", "fitting:evaluate", "estimate how good a fit is on true records, from released ones",
        "Estimate a metric of a saved fit on true records. Take other records than those of the fit: these flatter it.",
    )  # fmt: skip
    judged.add_argument("fit", type=Path, metavar="FIT", help="the file that fit --save wrote")
    judged.add_argument("folder", type=Path, metavar="FOLDER", help="released records")
    judged.add_argument("--metric", choices=(*METRICS, "all"), required=True, help="what to estimate")
    judged.add_argument("--threshold", type=float, default=0.0, help="score above which a record is positive (0)")
    judged.add_argument("--label-model", choices=("any", "logistic"), default="any", help="of the bound on the bias")
    judged.add_argument("--radius", type=float, help="public bound on the absolute true score")
    judged.add_argument("--level", type=float, default=0.95, help="of the interval (default: 0.95)")
    _json(judged)


def _add_report(commands: Any) -> None:
    written = _command(
        commands, "report", "fitting:report", "write a page of a fit for readers, one HTML file",
        "Write one HTML file: formula, guarantee in plain words, certificate, coefficients beside those of a fit that "
        "ignores the noise, calibration, and what the noise costs.",
    )  # fmt: skip
    written.add_argument("fit", type=Path, metavar="FIT", help="the file that fit --save wrote")
    written.add_argument("folder", type=Path, metavar="FOLDER", help="the released records that it was made of")
    written.add_argument("--out", type=Path, required=True, help="the HTML file")
    written.add_argument("--level", type=float, default=0.95, help="of the intervals (default: 0.95)")
    _json(written)


def _add_audit(commands: Any) -> None:
    audited = _command(
        commands, "audit", "running:audit", "try to refute the guarantee of a release by what it sends",
        "Draw records as a card says, and try to refute its guarantee: by its exact loss, by events of the log ratio, "
        "by the law of the noise, by records outside the bounds, by random numbers that come twice, by low bits. Print "
        "for each probe what was tested, found and would have been seen. Exits with 0 where the guarantee holds, with "
        "3 where it is refuted, with 1 where nothing could be audited.",
    )  # fmt: skip
    audited.add_argument(
        "card", type=Path, metavar="CARD", help="the file with the card, from Release.to_json(), or a released folder"
    )
    audited.add_argument(
        "--samples", type=int, default=100_000, help="draws of each of two inputs in the first look (default: 100000)"
    )
    audited.add_argument(
        "--false-alarm", type=float, default=1e-6, help="the rate at which sound releases are refuted (default: 1e-6)"
    )
    _json(audited)


def _add_ledger(commands: Any) -> None:
    shown = _command(
        commands, "ledger", "running:ledger", "check a budget ledger, and print what was released and what is left",
        "Check a budget ledger from its first line on, and print for each population its totals, what is spent, and "
        "its releases. Exit with 1 where the file was changed or damaged.",
    )  # fmt: skip
    shown.add_argument("file", type=Path, help="the ledger")
    shown.add_argument("--population", help="only this one")
    shown.add_argument("--digest", help="a digest that was printed earlier: its line must still be in the file")
    _json(shown)


def _add_demo(commands: Any) -> None:
    shown = _command(
        commands, "demo", "running:demonstrate",
        "train on noised records with and without correction, and draw the risks",
        "Train three models: by SGD on true records, by SGD on noised records, and by IWP-SGD on the same noised "
        "records. Then spend the same budget on the same records in three ways: as published, split at best, and all "
        "on y x. Print the risks on the true records and draw them.",
    )  # fmt: skip
    shown.add_argument(
        "--data",
        choices=("synthetic", "synthetic-10", "adult"),
        default="synthetic",
        help="1,000,000 synthetic records of 2 columns or of 10, or UCI Adult from the folder SYMDEBIAS_DATA",
    )
    shown.add_argument(
        "--output", type=Path, default=None, help="the PNG file to write (default: symdebias-demo-DATA.png)"
    )
    shown.add_argument("--seed", type=int, default=0, help="seed of noise and order (default: 0)")
    _json(shown)


def _add_completion(commands: Any) -> None:
    shown = _command(
        commands, "completion", "completing:complete", "print what a shell needs to complete these words by Tab",
        "Print a script for a shell, which then completes commands, options, their choices and names of files: "
        "symdebias completion bash > ~/.local/share/bash-completion/completions/symdebias; for zsh, into a file "
        "_symdebias in a folder of $fpath. It needs the package shtab: pip install \"symdebias[completion]\".",
    )  # fmt: skip
    shown.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="which shell")


def numbers(text: str) -> tuple[float, ...]:
    """Return the numbers of a text such as 1,-0.5,0.25."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers; write them as 1,-0.5,0.25") from None
