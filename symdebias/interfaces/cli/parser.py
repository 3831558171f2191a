"""The words of the command line, by argparse; nothing that does work is imported here."""

import argparse
import difflib
import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import symdebias
from symdebias import _loss_names, _metric_names

LOSSES = tuple(name.replace("_", "-") for name in _loss_names.BY_NAME_AND_LABELS)
FITTED = tuple(name.replace("_", "-") for name in _loss_names.CATALOGUE)
PLANNED = tuple(name.replace("_", "-") for name in _loss_names.BY_NAME)
_CODES = "exit codes: 0 done, 1 could not be done, 2 not a command, 3 an audit refutes a guarantee, 130 Ctrl-C"


# What is meant as the name of a loss, known or not, and as no expression.
_NAMES = re.compile(r"[A-Za-z][A-Za-z0-9_ -]*")
# Names of the option for the file that is written.
_WRITTEN = ("--out", "--save", "--output")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command; leaves with 2 and a usage line where the words are none."""
    parser = command_line()
    _require_known(parser, words)
    return parser.parse_args(with_negative_values(words))


def _require_known(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Leave with 2 where the command or an option is none, and say which may be meant.

    argparse names what is missing before what is mistyped, and so would say of --los that there is no --loss.
    """
    if not words or words[0].startswith("-"):
        return
    commands = {command.prog.split()[-1]: command for command, _ in commands_of(parser)}
    if words[0] not in commands:
        meant = _meant(words[0], commands)
        parser.error(
            f"argument COMMAND: invalid choice: {words[0]!r:.60}{meant} (choose from {', '.join(map(repr, commands))})"
        )
    command = commands[words[0]]
    for word in itertools.takewhile(lambda word: word != "--", words[1:]):
        option = word.partition("=")[0]
        if option.startswith("--") and option not in command._option_string_actions:
            command.error(f"unrecognized arguments: {option:.60}{_meant_by_option(option, command)}")


def _meant_by_option(option: str, command: argparse.ArgumentParser) -> str:
    """Return what an unknown option may be: a place, the option that names what is written, or one that is alike."""
    name, known = option.removeprefix("--"), [one for one in command._option_string_actions if one.startswith("--")]
    places = {str(action.metavar or action.dest) for action in command._get_positional_actions()}
    if name.upper() in places:
        return f". {name.upper()} is given by itself, without --{name}"
    written = [one for one in _WRITTEN if one in known]
    if option in _WRITTEN and written:
        return f". Is {written[0]} meant?"
    return _meant(name, [one.removeprefix("--") for one in known]).replace("Is ", "Is --")


def _meant(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, list(known), 1)
    return f". Is {found[0]} meant?" if found else ""


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
        elif not found:
            # Before the command there are no values.
            found.append(word)
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
    for name, (work, words, help, description) in _COMMANDS.items():
        # A word that is cut short would mean another option, or none, once there are more of them.
        command = commands.add_parser(name, help=help, description=description, epilog=_CODES, allow_abbrev=False)
        command.set_defaults(run=f"symdebias.interfaces.cli.{work}")
        _add_options(command, name, words.split())
    return parser


def _add_options(parser: Any, command: str, words: Sequence[str]) -> None:
    """Add options in the order of their words; between brackets stand those that exclude each other."""
    place = parser
    for word in words:
        if word in ("(", "["):
            place = parser.add_mutually_exclusive_group(required=word == "(")
        elif word in (")", "]"):
            place = parser
        else:
            place.add_argument(word, **_OPTIONS.get(word, {}) | _OPTIONS.get(f"{command} {word}", {}))


def commands_of(parser: argparse.ArgumentParser) -> list[tuple[argparse.ArgumentParser, str]]:
    """Return the parsers of the commands, each with its line in the list of commands."""
    (action,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return [(action.choices[listed.dest], listed.help or "") for listed in action._get_subactions()]


def numbers(text: str) -> tuple[float, ...]:
    """Return the numbers of a text such as 1,-0.5,0.25."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers; write them as 1,-0.5,0.25") from None


def metric(text: str) -> str:
    """Return the name of a metric.

    Raises
    ------
    argparse.ArgumentTypeError
        It is what others call a metric, or a mistyped name.
    """
    said = "" if text in (*_metric_names.METRICS, "loss", "all") else _metric_names.called_here(text)
    if said:
        raise argparse.ArgumentTypeError(f"invalid choice: {text!r:.60}. {said}")
    return text


def is_name(text: str) -> bool:
    """Whether a text is meant as the name of a loss, and not as an expression of u and y.

    Examples
    --------
    >>> is_name("squared-hinge"), is_name("(y - u)^2"), is_name("u")
    (True, False, False)
    """
    return _NAMES.fullmatch(text.strip()) is not None and text.strip() not in ("u", "y")


class _NamesOrExpressions(tuple[str, ...]):
    """The names of losses, where an expression is taken as well."""

    def __contains__(self, text: object) -> bool:
        return super().__contains__(text) or not is_name(str(text))


def name_or_expression(text: str) -> str:
    """Return the name of a loss as `with_hyphens` does, or an expression as it is."""
    return with_hyphens(text) if is_name(text) else text


def with_hyphens(text: str) -> str:
    """Return the name of a loss as the command line has it, of one that is written as in Python.

    Raises
    ------
    argparse.ArgumentTypeError
        It is what others call a loss of the catalogue, or a mistyped name.
    """
    meant = _loss_names.called_here(text)
    if meant is not None and text.replace("-", "_") not in _loss_names.CATALOGUE:
        raise argparse.ArgumentTypeError(f"invalid choice: {text!r:.60} is called {meant.replace('_', '-')!r} here")
    return text.replace("_", "-")


# Each command: the function that does its work, its options in order, its line in the list of commands, and its
# description. One of the options between ( and ) must be given, and at most one of those between [ and ].
_COMMANDS = {
    "derive": (
        "deriving:derive",
        "loss --noise --target-values --continuous --target-epsilon --method --order --nodes --latex --json",
        "print the corrected loss of an expression",
        "Derive the loss that is unbiased on noised records. The expression is read by a list of what is allowed, and "
        "never run.",
    ),
    "plan": (
        "running:plan",
        "--schema --loss --columns --theta --spread --epsilon --delta ( --standard-error --records ) --mechanisms "
        "--intercept [ --public-target --target ] --target-bounds --l2 --rehearse --plot --json",
        "which mechanism, which split of the budget, how many records",
        "Compare mechanisms and splits of a budget for columns in [-1, 1], before any record is collected: how many "
        "records a standard error needs, or what standard error a number of records gives. With --schema, say what to "
        "expect of a fit to its release.",
    ),
    "privatize": (
        "collecting:privatize",
        "table --schema --out --format --outside --keep-order --ledger --population --total --others --seed --json",
        "noise a table as a schema says, into a new folder",
        "Noise the records of a table by the release that a schema declares, and write them with their card to a "
        "new folder, in an order that nobody knows. Nothing is written, and no budget is spent, where the table does "
        "not fit.",
    ),
    "receive": (
        "receiving:receive",
        "table --noise --out --format --json",
        "put a table that another program noised into a new folder, to fit",
        "Read a table whose records another program noised, as a description of their noise says, and write them with "
        "their card to a new folder, as privatize does: fit, evaluate and report take it. Nothing is noised.",
    ),
    "fit": (
        "fitting:fit",
        "folder --loss --arguments --target --features [ --offset --exposure ] --weights --clusters --noise-scale --l2 "
        "--radius --method --order --level --save --json",
        "fit a model to a folder of released records",
        "Fit by M-estimation on the corrected loss, and print the parameters with standard errors, in the units of the "
        "columns.",
    ),
    "evaluate": (
        "fitting:evaluate",
        "fit folder --metric [ --offset --exposure ] --weights --clusters --noise-scale --threshold --label-model "
        "--radius --level --json",
        "estimate how good a fit is on true records, from released ones",
        "Estimate a metric of a saved fit on true records. Take other records than those of the fit: these flatter it.",
    ),
    "predict": (
        "predicting:predict",
        "fit table --out --schema [ --offset --exposure ] --level --json",
        "write what a fit predicts for the true records of a table",
        "Write a file of comma-separated values with what a saved fit predicts for each record of a table, in its "
        "order: the label or the number, the chances of labels, and intervals of the chance or of the mean. The table "
        "has true records, in the units of the schema; predictions of released ones belong to nobody.",
    ),
    "report": (
        "fitting:report",
        "fit folder --out [ --offset --exposure ] --weights --clusters --noise-scale --level --json",
        "write a page of a fit for readers, one HTML file",
        "Write one HTML file: formula, guarantee in plain words, certificate, coefficients beside those of a fit that "
        "ignores the noise, calibration, and what the noise costs.",
    ),
    "audit": (
        "running:audit",
        "card --samples --false-alarm --json",
        "try to refute the guarantee of a release by what it sends",
        "Draw records as a card says, and try to refute its guarantee: by its exact loss, by events of the log ratio, "
        "by the law of the noise, by records outside the bounds, by random numbers that come twice, by low bits. Print "
        "for each probe what was tested, found and would have been seen. Exits with 0 where the guarantee holds, with "
        "3 where it is refuted, with 1 where nothing could be audited.",
    ),
    "ledger": (
        "running:ledger",
        "file --population --digest --json",
        "check a budget ledger, and print what was released and what is left",
        "Check a budget ledger from its first line on, and print for each population its totals, what is spent, and "
        "its releases. Exit with 1 where the file was changed or damaged.",
    ),
    "compile": (
        "compiling:compile_ahead",
        "card --loss --noise --columns --intercept [ --offset --exposure ] --weights --clusters --noise-scale "
        "--processes --json",
        "compile what first fits would, once after an installation",
        "Compile the kernels of default fits, and keep them in this user's cache folder, where every later process "
        "finds them: for a card, the release that it describes; else for noise of one kind on all columns, with labels "
        "by randomized response and other targets as they are. Fits may run meanwhile.",
    ),
    "demo": (
        "running:demonstrate",
        "--data --output --seed --json",
        "train on noised records with and without correction, and draw the risks",
        "Train three models: by SGD on true records, by SGD on noised records, and by IWP-SGD on the same noised "
        "records. Then spend the same budget on the same records in three ways: as published, split at best, and all "
        "on y x. Print the risks on the true records and draw them.",
    ),
    "completion": (
        "completing:complete",
        "shell",
        "print what a shell needs to complete these words by Tab",
        "Print a script for a shell, which then completes commands, options, their choices and names of files: "
        "symdebias completion bash > ~/.local/share/bash-completion/completions/symdebias; for zsh, into a file "
        '_symdebias in a folder of $fpath. It needs the package shtab: pip install "symdebias[completion]".',
    ),
}

# Each option once, as argparse takes it; after the word of a command, what this command adds or says otherwise.
_OPTIONS: dict[str, dict[str, Any]] = {
    "--arguments": {
        "type": numbers,
        "metavar": "NUMBERS",
        "help": "those of the loss, as 0.9,0.2: cauchy scale=2.385; expectile level; huber threshold=1.345; "
        "negative-binomial dispersion=1; quantile level=0.5, width=0.5; tweedie power=1.5",
    },
    "--clusters": {
        "metavar": "COLUMN",
        "help": "which records belong together, as those of a person or a household: a column without noise",
    },
    "--columns": {
        "type": int,
        "help": "the number of columns, with guessed parameters of 0.5 each, and an intercept in the middle of "
        "--target-bounds",
    },
    "compile --columns": {
        "type": str,
        "metavar": "NUMBERS",
        "help": "numbers of columns, as 5, 2-10 or 2,5,20 (default: 2-10)",
    },
    "--continuous": {"action": "store_true", "help": "y is any number"},
    "--data": {
        "choices": ("synthetic", "synthetic-10", "adult"),
        "default": "synthetic",
        "help": "1,000,000 synthetic records of 2 columns or of 10, or UCI Adult from the folder SYMDEBIAS_DATA",
    },
    "--delta": {"type": float, "help": "of the Gaussian mechanism (default: 1e-5, or that of the schema)"},
    "--digest": {"help": "a digest that was printed earlier: its line must still be in the file"},
    "--epsilon": {"type": float, "help": "the budget of a whole record (default: that of the schema)"},
    "--exposure": {
        "metavar": "COLUMN",
        "help": "how much each count was observed of, as years: a column without noise, whose logarithm is the offset",
    },
    "--false-alarm": {
        "type": float,
        "default": 1e-6,
        "help": "the rate at which sound releases are refuted (default: 1e-6)",
    },
    "--format": {"choices": ("csv", "parquet"), "default": "csv", "help": "of the records (default: csv)"},
    "--features": {
        "nargs": "+",
        "metavar": "NAME",
        "help": "the features of a --target that is one of several outcomes (default: all other columns)",
    },
    "--intercept": {"action": "store_true", "help": "the model has an intercept"},
    "--json": {"action": "store_true", "help": "print the answer as JSON"},
    "--keep-order": {
        "action": "store_true",
        "help": "leave records in the order of the table, which must tell nothing private, as with --seed",
    },
    "--l2": {"type": float, "default": 0.0},
    "plan --l2": {"help": "regularisation (default: 0)"},
    "fit --l2": {"help": "regularisation of released columns (default: 0)"},
    "--label-model": {"choices": ("any", "logistic"), "default": "any", "help": "of the bound on the bias"},
    "--latex": {"action": "store_true", "help": "print the formula as LaTeX"},
    "--ledger": {"type": Path, "help": "the ledger that counts the release"},
    "--level": {"type": float, "default": 0.95, "help": "of the intervals (default: 0.95)"},
    "evaluate --level": {"help": "of the interval (default: 0.95)"},
    "plan --loss": {"type": with_hyphens, "choices": PLANNED, "help": "the model's loss (default: that of the schema)"},
    "fit --loss": {
        "type": name_or_expression,
        "choices": _NamesOrExpressions(FITTED),
        "metavar": "LOSS",
        "required": True,
        "help": f"the model's loss: one of {', '.join(FITTED)}; or an expression of the score u and the target y, as "
        '"log(1+exp(-y*u))", where y is -1 and +1 for two labels',
    },
    "compile --loss": {
        "nargs": "+",
        "type": with_hyphens,
        "choices": PLANNED,
        "metavar": "LOSS",
        "help": "losses of the catalogue, needed with a card (default: logistic least-squares poisson)",
    },
    "--mechanisms": {
        "nargs": "+",
        "choices": ("gaussian", "laplace", "spherical-laplace", "spherical-cap", "laplace-per-column"),
        "help": "what to compare (default: gaussian and laplace, with --target the spherical ones as well; a budget "
        "per column takes minutes)",
    },
    "--method": {"default": "auto"},
    "derive --method": {
        "choices": ("auto", "exact", "series", "surrogate", "quadrature", "none"),
        "help": "as for sd.debias",
    },
    "fit --method": {"help": "of the correction, as for sd.debias (default: auto)"},
    "--metric": {
        "type": metric,
        "choices": (*_metric_names.METRICS, "loss", "all"),
        "required": True,
        "help": "what to estimate; loss: the mean of the loss that was fitted",
    },
    "--noise": {
        "default": "none",
        "metavar": "KIND:SIZE",
        "help": "of the features: gaussian:0.5 (its standard deviation), laplace:0.5 (its scale), uniform:0.5 (its "
        "half width) or none (default)",
    },
    "receive --noise": {
        "type": Path,
        "required": True,
        "default": None,
        "metavar": "FILE",
        "help": "the TOML file that says how each column was noised",
    },
    "compile --noise": {
        "choices": ("gaussian", "laplace"),
        "default": None,
        "metavar": "KIND",
        "help": "gaussian (default) or laplace",
    },
    "--noise-scale": {
        "nargs": "+",
        "metavar": "COLUMN",
        "help": "the standard deviation of the noise of each record, in the units of the noised column, in place of "
        "that of the card: a column without noise for all noised ones, or NOISED=COLUMN of each",
    },
    "--offset": {"metavar": "COLUMN", "help": "a known term of the score: a column without noise, with no parameter"},
    "compile --offset": {"metavar": "COLUMN", "help": "the column that fits will name as their offset"},
    "compile --exposure": {"metavar": "COLUMN", "help": "the column that fits will name as their exposure"},
    "evaluate --exposure": {"help": "that of the fit, where it does not say it"},
    "evaluate --offset": {"help": "that of the fit, where it does not say it"},
    "predict --exposure": {"help": "that of the fit, where it does not say it"},
    "predict --offset": {"help": "that of the fit, where it does not say it"},
    "report --exposure": {"help": "that of the fit, where it does not say it"},
    "report --offset": {"help": "that of the fit, where it does not say it"},
    **{
        f"{command} --{name}": {"help": f"{what} of each record, where the fit does not say its column"}
        for command in ("evaluate", "report")
        for name, what in (("weights", "the weight"), ("clusters", "the cluster"), ("noise-scale", "the noise scale"))
    },
    **{
        f"compile --{name}": {"help": f"the column that fits will name as their {name.replace('-', ' ')}"}
        for name in ("weights", "clusters")
    },
    "compile --noise-scale": {"help": "the columns that fits will name as their noise scales"},
    "--nodes": {"type": int, "help": "of a quadrature (default: 32)"},
    "--order": {"type": int, "help": "of a series"},
    "--others": {
        "nargs": "+",
        "metavar": "NAME",
        "default": [],
        "help": "other people whom the ledger has totals for; needed to begin a population beside them",
    },
    "--out": {"type": Path, "required": True},
    "privatize --out": {"help": "the folder, which is not there yet"},
    "receive --out": {"help": "the folder, which is not there yet"},
    "predict --out": {"help": "the file of predictions (.csv)"},
    "report --out": {"help": "the HTML file"},
    "--output": {"type": Path, "help": "the PNG file to write (default: symdebias-demo-DATA.png)"},
    "--outside": {
        "choices": ("clip", "clip-all", "refuse"),
        "default": "clip",
        "help": "what to do with records outside bounds",
    },
    "--plot": {"type": Path, "help": "a PNG file for standard errors against the budget"},
    "privatize --population": {"help": "about whom, in the ledger"},
    "ledger --population": {"help": "only this one"},
    "--processes": {"type": int, "help": "how many at a time (default: one for each processor)"},
    "--public-target": {"action": "store_true", "help": "the target is released as it is"},
    "--radius": {"type": float},
    "fit --radius": {"help": "bound on the norm of the parameters"},
    "evaluate --radius": {"help": "public bound on the absolute true score"},
    "--records": {"type": float, "help": "the number of records there will be"},
    "--rehearse": {
        "type": int,
        "metavar": "FITS",
        "help": "release and fit guessed records so many times: are fits refused, and do their intervals cover?",
    },
    "--samples": {
        "type": int,
        "default": 100_000,
        "help": "draws of each of two inputs in the first look (default: 100000)",
    },
    "--save": {"type": Path, "metavar": "FILE", "help": "keep the fit in this file (.npz)"},
    "--schema": {"type": Path},
    "plan --schema": {"help": "the release of this schema alone, with a guessed population"},
    "predict --schema": {
        "help": "the schema of the release: it fills missing values, and names labels where fits do not"
    },
    "privatize --schema": {"required": True, "help": "the TOML file with bounds, categories and budget"},
    "--seed": {"type": int},
    "privatize --seed": {"help": "for examples alone: noise from a seed carries no guarantee"},
    "demo --seed": {"default": 0, "help": "seed of noise and order (default: 0)"},
    "--spread": {"type": float, "help": "guessed standard deviation of the columns (default: uniform)"},
    "--standard-error": {"type": float, "help": "the largest standard error that is wanted"},
    "plan --target": {
        "choices": ("margin", "joint", "any"),
        "help": "features and target in one vector with the whole budget: for margin losses, or for those of a "
        "residual; any compares these with a target that is noised by itself",
    },
    "fit --target": {
        "metavar": "NAME",
        "help": "the target: one of several released outcomes, or that of the folder, to make sure that it is the one",
    },
    "--target-bounds": {"type": numbers, "help": "public bounds of a continuous target, as 0,10"},
    "--target-epsilon": {"type": float, "metavar": "EPSILON", "help": "y comes by randomized response of this budget"},
    "--target-values": {
        "type": numbers,
        "metavar": "A,B",
        "help": "the values of y (default: -1,1 for an expression, those of the catalogue for a name)",
    },
    "--theta": {"type": numbers, "help": "guessed parameters, as 1,-0.5,0.25; in place of --columns, intercept last"},
    "--threshold": {"type": float, "default": 0.0, "help": "score above which a record is positive (0)"},
    "--total": {"type": numbers, "metavar": "EPSILON[,DELTA]", "help": "the total of a population that is new"},
    "--weights": {"metavar": "COLUMN", "help": "the weight of each record: a column without noise"},
    "card": {
        "type": Path,
        "metavar": "CARD",
        "help": "the file with the card, from Release.to_json(), or a released folder",
    },
    "compile card": {"nargs": "?"},
    "file": {"type": Path, "metavar": "FILE", "help": "the ledger"},
    "fit": {"type": Path, "metavar": "FIT", "help": "the file that fit --save wrote"},
    "folder": {"type": Path, "metavar": "FOLDER"},
    "fit folder": {"help": "what privatize or receive wrote"},
    "evaluate folder": {"help": "released records"},
    "report folder": {"help": "the released records that it was made of"},
    "loss": {"metavar": "LOSS", "help": 'an expression of u and y, as "log(1+exp(-y*u))", or a name'},
    "shell": {"choices": ("bash", "zsh", "tcsh"), "help": "which shell"},
    "table": {"type": Path, "metavar": "TABLE", "help": "a file of CSV, whose first line names columns, or of Parquet"},
}
