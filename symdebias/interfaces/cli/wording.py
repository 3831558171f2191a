"""Messages of the library in the words of the command line: options for arguments, commands for functions.

Whole phrases of the library are replaced, and nothing else: names of columns, categories and files that users gave may
be words like those of arguments. What stands in quotes, and what represents an object, is left as it is.
"""

import argparse
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from symdebias import _loss_names, _metric_names

# What only Python has, and what the command line says in its place.
_PHRASES = {
    r"Evaluate the loss that was fitted(?:, as metric=fit\.corrected\.declared)?":
        "Take --metric loss, that of the fit",
    r"or a Loss with an exact correction": "or, of a fit whose correction is exact, loss",
    r"Evaluate a Loss\b": "Take --metric loss",
    r"; or take records of one noise, and pass release= with it": "; or take records of one noise",
    r"; for other metrics take records of one noise and pass release= with it, or true ones with [\w.=()]+": "",
    r", where the metric takes one; or evaluate its predictions for true records, with [\w.(), =]+\)": "",
    r"Give target_values= as they are coded, or a metric of numbers": "Take a metric of numbers",
    r"Noise labels as the loss has them, or declare target_values on the loss":
        "Take a loss of numbers, such as least-squares or poisson; of labels, release them as two categories",
    r"\brecode the labels": "take a loss or a metric of numbers, or release labels as two categories",
    r"symdebias\.evaluation\.evaluate\(\.\.\., metric=\"accuracy\"\)": "symdebias evaluate --metric accuracy",
    r", or use decision_function": "",
    r", or use a DebiasedClassifier, which knows the labels of its records": "",
    r"read its bias off corrected\.certificate": "read its bias off the page of symdebias report",
    r"\bFit each label against": "In Python fit each label against",
    r"\bfit each label against": "in Python fit each label against",
    r"sd\.planning\.records_needed says": "symdebias plan says",
    r"\bexpected_fit says": "symdebias plan says",
    r"\(fit\.certificate measures it\)": "(symdebias report measures it)",
    r"Pass loss= \(--loss on the command line\)": "Pass --loss",
    r"Give total=symdebias\.Guarantee\(epsilon, delta\) to begin one":
        "symdebias privatize begins one, by --ledger and --total",
    r"Declare one, as total=symdebias\.Guarantee\(epsilon, delta\), or check the name":
        "Check the name: without --population all are printed",
    r"the file that fit\.save\(\) wrote": "the file that symdebias fit --save wrote",
    r"the whole folder that noised\.save\(\) wrote": "the whole folder that symdebias privatize wrote",
    r"\blogistic\(\) for labels": "logistic for labels",
    r"\bleast_squares\(\) for numbers": "least-squares for numbers",
    **{
        rf"\b(?:the|The) {name} loss\b": f"the {name.replace('_', '-')} loss"
        for name in _loss_names.CATALOGUE
        if "_" in name
    },
}  # fmt: skip
# The methods of symdebias.debias, which is not imported for words.
_METHODS = ("auto", "exact", "surrogate", "quadrature", "series", "none")
# What a message that begins with a number of an argument says of it.
_WRONG = (
    r"\S+ is (?:too small|too large|not a number|negative|not in order|no bound on|one of|a score that|more than|of no "
    r"use|not below)"
)


def _chosen(option: str, values: Iterable[str]) -> dict[str, str]:
    """Return how Python and the command line name the choices of an option."""
    name = option.removeprefix("--").replace("-", "_")
    return {rf"\b{name}=[\"']{value}[\"']": f"{option} {value}" for value in values}


def _numbers(*options: str, names: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """Return what to say where a message begins with the number of an option, which may be negative."""
    named = {one: one.removeprefix("--").replace("-", "_") for one in options} | dict(names or {})
    return {option: {rf"\A{name}=(?={_WRONG})": f"{option}="} for option, name in named.items()}


# Arguments in phrases of the library, by the options that are the same.
_ARGUMENTS: dict[str, dict[str, str]] = {
    **_numbers("--delta", "--epsilon", "--label-model", "--samples", "--threshold", names={"--seed": "random_state"}),
    "--l2": {
        **_numbers("--l2")["--l2"],
        r"\bRaise l2(?=[.,])": "Raise --l2",
        r"\braise l2(?=[.,])": "raise --l2",
        r"\bgive l2(?=[.,])": "give --l2",
        r"\bOn these records l2=(?=[\d.e+-]+ gives a fit)": "On these records --l2=",
        r"\bnot for the optimum without l2\b": "not for the optimum without --l2",
    },
    "--method": {
        r"\Amethod=(?='[^']*' is not known)": "--method ",
        **_chosen("--method", _METHODS),
    },
    "--metric": {
        r"Evaluate metric=\"brier\" or \"log_loss\"": "Take --metric brier or log_loss",
        **_chosen("--metric", _metric_names.METRICS),
    },
    "--nodes": {r"\Anodes=(?=\S+ (?:is|belongs to) )": "--nodes="},
    "--noise-scale": {
        r"\bLeave noise_scale out\b": "Leave --noise-scale out",
        r"\bPass noise_scale= to evaluate\b": "Pass --noise-scale to evaluate",
        r"\Anoise_scale(?= (?:has the shape \(|is negative in row|is above|has a scale for column|gives ))":
            "--noise-scale",
    },
    "--offset": {
        r"\bPass offset=, with zeros for an exposure of 1\b": "Pass --offset, with zeros for an exposure of 1",
        r"\Aoffset= is a (?=known term|part of the score)": "--offset is a ",
    },
    "--order": {
        r"(?<=\"series\", )order=(?=2 and read its bias)": "--order=",
        r"\bPass order=1(?= or method=)": "Pass --order=1",
        r"\bgive order= to accept its bias": "give --order to accept its bias",
        r"(?<=^method=\"series\" needs )order=(?=, the number)": "--order",
        r"\Aorder=(?=\S+ (?:is|belongs to) )": "--order=",
    },
    "--outside": _chosen("--outside", ("clip", "clip-all", "refuse")),
    "--radius": {
        **_numbers("--radius")["--radius"],
        r"\bbound theta with radius=(?=[.,])": "bound theta with --radius",
        r"\bon the ball of radius=": "on the ball of --radius",
        r"\bgive radius= where scores are bounded": "give --radius where scores are bounded",
    },
    "--target-bounds": {
        **_numbers("--target-bounds")["--target-bounds"],
        r"\Atarget_bounds=(?=\(.{0,60}\) (?:is|leave|repeats) )": "--target-bounds=",
        r"\Atarget_bounds(?= has )": "--target-bounds",
        r"\band target_bounds was not given\b": "and --target-bounds was not given",
        r"\bGive target_bounds=(?=[,(])": "Give --target-bounds ",
    },
    "--weights": {
        r"\Asample_weight is (?=negative in row|0 for every record of)": "--weights is ",
        r"\bevery sample_weight is zero": "every weight is zero",
        r"\Athe largest sample_weight is(?= [\d.])": "the largest of --weights is",
    },
}  # fmt: skip
# Quotes, where they are no apostrophes, and what represents an object or a formula, with what stands between.
_LEFT = (
    r"(?<![\w)\]])'(?:[^'\\]|\\.)*'(?!\w)", r'(?<!\w)"(?:[^"\\]|\\.)*"', r"<[A-Z][^<>]*>",
    r"\b\w[\w.]*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)",
)  # fmt: skip


def in_options(text: str, options: argparse.Namespace) -> str:
    """Return a message of the library with the options of a command in the place of arguments.

    Examples
    --------
    >>> in_options("Raise l2, or pass method='series'.", argparse.Namespace(l2=0.0, method="auto"))
    'Raise --l2, or pass --method series.'
    """
    pattern, said = _phrases_of(frozenset(option for option in _ARGUMENTS if _has(options, option)))
    return pattern.sub(lambda found: found[0] if found.lastgroup == "left" else said[found.lastgroup or ""], text)


@lru_cache
def _phrases_of(options: frozenset[str]) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return what finds phrases, and what is left as it is, from left to right; and what to say in place of each."""
    phrases = dict(_PHRASES)
    for option in sorted(options):
        phrases |= _ARGUMENTS[option]
    named = {f"phrase_{place}": phrase for place, phrase in enumerate(phrases)}
    parts = [*(f"(?P<{name}>{phrase})" for name, phrase in named.items()), f"(?P<left>{'|'.join(_LEFT)})"]
    return re.compile("|".join(parts)), {name: phrases[phrase] for name, phrase in named.items()}


def _has(options: argparse.Namespace, option: str) -> bool:
    return hasattr(options, option.removeprefix("--").replace("-", "_"))
