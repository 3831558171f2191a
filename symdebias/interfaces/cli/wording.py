"""Messages of the library in the words of the command line: options for arguments, commands for functions."""

import argparse
import re

from symdebias import _loss_names

# Arguments in messages of the library, and the options that are the same.
_OPTIONS = {
    "clusters": "--clusters", "delta": "--delta", "epsilon": "--epsilon", "l2": "--l2", "label_model": "--label-model",
    "level": "--level", "loss": "--loss", "method": "--method", "metric": "--metric", "offset": "--offset",
    "order": "--order", "outside": "--outside", "radius": "--radius", "random_state": "--seed",
    "samples": "--samples", "target_bounds": "--target-bounds", "threshold": "--threshold",
}  # fmt: skip
# Those whose names are no words of English stand for themselves, too.
_ALONE = {"noise_scale": "--noise-scale", "sample_weight": "--weights", "target_bounds": "--target-bounds"}
# What only Python has, and what the command line says in its place.
_PHRASES = {
    r"Evaluate the loss that was fitted(, as metric=fit\.corrected\.declared)?": "Take --metric loss, that of the fit",
    r"or a Loss with an exact correction": "or, of a fit whose correction is exact, loss",
    r"Evaluate a Loss\b": "Take --metric loss",
    r"; or take records of one noise, and pass release= with it": "; or take records of one noise",
    r"; for other metrics take records of one noise and pass release= with it, or true ones with [\w.=()]+": "",
    r", where the metric takes one; or evaluate its predictions for true records, with [\w.(), =]+\)": "",
    r"Give target_values= as they are coded, or a metric of numbers": "Take a metric of numbers",
    r"Noise labels as the loss has them, or declare target_values on the loss":
        "Take a loss of numbers, such as least-squares or poisson; of labels, release them as two categories",
    r"recode the labels": "take a loss or a metric of numbers, or release labels as two categories",
    r"symdebias\.evaluation\.evaluate\(\.\.\., metric=\"accuracy\"\)": "symdebias evaluate --metric accuracy",
    r", or use decision_function": "",
    r", or use a DebiasedClassifier, which knows the labels of its records": "",
    r"read its bias off corrected\.certificate": "read its bias off the page of symdebias report",
    r"\bFit each label against": "In Python fit each label against",
    r"sd\.planning\.records_needed says": "symdebias plan says",
    r"expected_fit says": "symdebias plan says",
    r"\(fit\.certificate measures it\)": "(symdebias report measures it)",
    r"Pass loss= \(--loss on the command line\)": "Pass --loss",
    r"Give total=symdebias\.Guarantee\(epsilon, delta\) to begin one":
        "symdebias privatize begins one, by --ledger and --total",
    r"(?<!In Python )\bsd\.checks\.check_records": "In Python sd.checks.check_records",
    r"the file that fit\.save\(\) wrote": "the file that symdebias fit --save wrote",
    r"the whole folder that noised\.save\(\) wrote": "the whole folder that symdebias privatize wrote",
    r"Pass clusters= to the report": "Name them by --clusters",
}  # fmt: skip
_UNDERSCORED = sorted((name for name in _loss_names.CATALOGUE if "_" in name), key=len, reverse=True)


def in_options(text: str, options: argparse.Namespace) -> str:
    """Return a message with the options of a command in the place of the arguments that they are in Python.

    Examples
    --------
    >>> in_options("Raise l2, or pass method='series'.", argparse.Namespace(l2=0.0, method="auto"))
    'Raise --l2, or pass --method series.'
    """
    for phrase, said in _PHRASES.items():
        text = re.sub(phrase, said, text)
    for name, option in _OPTIONS.items():
        if not _has(options, option):
            continue
        # method="series" is --method series, and l2=-1 --l2=-1, which is how an option takes such a value.
        text = re.sub(rf"(?<![\w.(-]){name}=([\"'])([\w-]+)\1", rf"{option} \2", text)
        text = re.sub(rf"(?<![\w.(-]){name}=(?=[-\d])", f"{option}=", text)
        text = re.sub(rf"(?<![\w.(-]){name}=(?![\w\"'(\[-])", option, text)
    for name, option in _ALONE.items():
        if _has(options, option):
            text = re.sub(rf"(?<![\w.]){name}\b=?", option, text)
    if _has(options, "--l2"):
        text = re.sub(r"\b([Rr]aise|more|smaller|or) l2\b(?!=)", r"\1 --l2", text)
    for name in _UNDERSCORED:
        text = re.sub(rf"(?<![\w.]){name}\b", name.replace("_", "-"), text)
    return re.sub(rf"(?<![\w.])({'|'.join(name.replace('_', '-') for name in _loss_names.CATALOGUE)})\(\)", r"\1", text)


def _has(options: argparse.Namespace, option: str) -> bool:
    return hasattr(options, option.removeprefix("--").replace("-", "_"))
