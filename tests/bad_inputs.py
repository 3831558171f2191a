"""The table of bad input: what is refused, where, and what each message has to name.

    python tests/bad_inputs.py

prints the counts per kind and some of the messages, as they stand in docs/reliability.md. Records and labels of the
table hold planted values, `PRIVATE` and `SECRET`, which no message, warning or log may show.
"""

import functools
import io
import logging
import math
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import symdebias as sd
from symdebias.interfaces import datasets

PRIVATE, SECRET = 0.123456789, "plague"
# What a leak would look like, rounded to six digits or more, and at any power of ten.
SIGNS = ("123456", "123457", SECRET)
NAN, INF = math.nan, math.inf


@dataclass(frozen=True)
class BadInput:
    """One input that must be refused."""

    kind: str  # Of the input: a parameter, the shape of data, ...
    entry: str  # The public call.
    reason: str  # What is wrong with it.
    call: Callable[[], object]  # Makes the call.
    names: str  # What the message has to name: the argument, or a part of the data; one of several, divided by ``|``.

    @property
    def name(self) -> str:
        """One line that tells it from all others."""
        return f"{self.kind}: {self.entry}, {self.reason}"


@dataclass(frozen=True)
class Refusal:
    """What came of a call: the error, and everything that was said on the way."""

    error: BaseException | None
    said: tuple[str, ...]

    @property
    def leaks(self) -> list[str]:
        """What was said that shows a planted value."""
        return [text for text in self.said if any(sign in text for sign in SIGNS)]


def chain(error):
    """Yield an error and everything that hangs on it."""
    seen, pending = set(), [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        pending += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def refused(case):
    """Make the call of a case, and return what came of it."""
    stream, root, found = io.StringIO(), logging.getLogger(), None
    handler = logging.StreamHandler(stream)
    root.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                case.call()
            except Exception as error:
                found = error
    finally:
        root.removeHandler(handler)
    said = [stream.getvalue(), *(str(one.message) for one in caught)]
    for one in chain(found):
        said += [str(one), repr(one.args), repr(vars(one)), *getattr(one, "__notes__", ())]
    return Refusal(found, tuple(said))


# ---- parameters ------------------------------------------------------------------------------------------

NOT_NUMBERS = {
    "text": "1", "complex": 1j, "bool": True, "None": None, "list": [1.0], "an array": np.ones(2),
}  # fmt: skip
BUDGETS = {
    "zero": 0.0, "negative": -1.0, "NaN": NAN, "infinite": INF, "1e-320": 1e-320, "above 700": 701.0, **NOT_NUMBERS,
}  # fmt: skip
LENGTHS = {
    "zero": 0.0, "negative": -1.0, "NaN": NAN, "infinite": INF, "denormal": 1e-320, "1e308": 1e308,
    "text": "1", "bool": True,
}  # fmt: skip
CHANCES = {"negative": -1e-9, "one": 1.0, "NaN": NAN, "text": "1e-5", "bool": True}
BOUNDS = {
    "in the wrong order": (1.0, 0.0), "equal": (0.5, 0.5), "NaN": (NAN, 1.0), "infinite": (0.0, INF),
    "one number": 1.0, "three numbers": (0.0, 0.5, 1.0), "text": "ab", "text within": ("0", 1.0),
}  # fmt: skip
CATEGORIES = {
    "none": (), "one": ("a",), "twice the same": ("a", "a"), "text": "abc", "mixed": (1.0, "a"), "NaN": (NAN, 1.0),
    "empty text": ("", "a"), "infinite": (0.0, INF), "a number": 3,
}  # fmt: skip
BALL, BOX = {"radius": 1.0}, {"bounds": (0.0, 1.0)}
MECHANISMS = {
    "GaussianMechanism": (sd.GaussianMechanism, {"epsilon": 1.0, "delta": 1e-5, **BALL}),
    "LaplaceMechanism": (sd.LaplaceMechanism, {"epsilon": 1.0, **BOX}),
    "LaplaceMechanism in a ball": (sd.LaplaceMechanism, {"epsilon": 1.0, **BALL}),
    "SphericalLaplaceMechanism": (sd.SphericalLaplaceMechanism, {"epsilon": 1.0, **BALL}),
    "SphericalCapMechanism": (sd.SphericalCapMechanism, {"epsilon": 1.0, **BALL}),
    "StaircaseMechanism": (sd.StaircaseMechanism, {"epsilon": 1.0, **BOX}),
    "DiscreteLaplaceMechanism": (sd.DiscreteLaplaceMechanism, {"epsilon": 1.0, **BOX}),
    "DiscreteStaircaseMechanism": (sd.DiscreteStaircaseMechanism, {"epsilon": 1.0, **BOX}),
    "RandomizedResponse": (sd.RandomizedResponse, {"epsilon": 1.0}),
    "InputPerturbation.from_budget": (
        functools.partial(sd.InputPerturbation.from_budget, 2),
        {"epsilon": 1.0, "delta": 1e-2, "q_bound": 1.0, "p_bound": 1.0},
    ),
}
KNOWN = {
    "GaussianMechanism.from_scale": sd.GaussianMechanism.from_scale,
    "LaplaceMechanism.from_scale": sd.LaplaceMechanism.from_scale,
    "UniformMechanism": sd.UniformMechanism,
}


def changed(make, given, **change):
    return lambda: make(**{**given, **change})


def parameters():
    for entry, (make, given) in MECHANISMS.items():
        for argument, values in (("epsilon", BUDGETS), ("delta", CHANCES), ("radius", LENGTHS), ("bounds", BOUNDS)):
            if argument in given:
                for reason, value in values.items():
                    yield entry, f"{argument} {reason}", changed(make, given, **{argument: value}), argument
    for reason, value in CATEGORIES.items():
        call = functools.partial(sd.RandomizedResponse, 1.0, categories=value)
        yield "RandomizedResponse", f"categories: {reason}", call, "categories"
    for entry, make in KNOWN.items():
        for reason, value in LENGTHS.items():
            yield entry, f"scale {reason}", functools.partial(make, value), "scale|half_width"
    for reason, matrix in {
        "a row that does not sum to 1": [[0.5, 0.4], [0.5, 0.5]], "negative": [[1.5, -0.5], [0.5, 0.5]],
        "NaN": [[NAN, 1.0], [0.5, 0.5]], "one row": [[0.5, 0.5]], "text": [["a", "b"], ["a", "b"]],
        "ragged": [[1.0], [0.5, 0.5]],
    }.items():  # fmt: skip
        call = functools.partial(sd.FiniteChannel, matrix, inputs=(0, 1), outputs=(0, 1))
        yield "FiniteChannel", f"matrix {reason}", call, "matrix|row|probabilit|inputs|transition"


# ---- what solvers, plans and evaluations are told ----------------------------------------------------------

RELEASE = sd.Release(sd.GaussianMechanism(1.0, 1e-5, 1.0), sd.RandomizedResponse(1.0))
X = np.full((40, 2), PRIVATE) * np.linspace(-1, 1, 40)[:, None]
X[1] = PRIVATE
Y = np.tile([1.0, -1.0], 20)
CENTRAL = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one", "record_radius": 1.0}
LOGISTIC = sd.losses.logistic()
TRAINED = {
    "dp_lssgd": (sd.dp_lssgd, LOGISTIC, {**CENTRAL, "accountant": "rdp", "epochs": 1}),
    "output_perturbation": (sd.output_perturbation, LOGISTIC, {**CENTRAL, "l2": 0.1}),
    "objective_perturbation": (sd.objective_perturbation, LOGISTIC, CENTRAL),
    "input_perturbation": (
        sd.input_perturbation, sd.losses.least_squares(), {**CENTRAL, "radius": 1.0, "target_bounds": (-1.0, 1.0)},
    ),
}  # fmt: skip


# What is fitted is true, which is told apart from what noise with a guarantee has been in.
SENT = sd.GaussianMechanism.from_scale(0.01)


@functools.cache
def corrected():
    return sd.debias(sd.losses.squared_margin(), sd.Release(SENT, RELEASE.target))


FITTED = {"m_estimate": (sd.m_estimate, {}), "sgd": (sd.sgd, {"step_size": 0.1})}
PENALTIES = {"negative": -1.0, "NaN": NAN, "infinite": INF, "text": "1", "bool": True}


def trained(name, X=X, y=Y, **change):
    solver, loss, given = TRAINED[name]
    return lambda: solver(loss, X, y, **{**given, **change})


def fitted(name, X=X, y=Y, **change):
    solver, given = FITTED[name]
    return lambda: solver(corrected(), X, y, **{**given, **change})


def options():
    for entry in TRAINED:
        for argument, values in (("epsilon", BUDGETS), ("delta", CHANCES), ("record_radius", LENGTHS)):
            for reason, value in values.items():
                yield entry, f"{argument} {reason}", trained(entry, **{argument: value}), argument
        for reason, value in {"missing": None, "unknown": "swap", "a number": 1, "an array": np.zeros(2)}.items():
            yield entry, f"adjacency {reason}", trained(entry, adjacency=value), "adjacency"
        for reason, value in {"text": "0", "a float": 1.5, "negative": -1}.items():
            yield entry, f"random_state {reason}", trained(entry, random_state=value), "random_state"
        if entry != "objective_perturbation":
            yield entry, "noise unknown", trained(entry, noise="loud"), "noise"
    for argument, values in (("l2", PENALTIES), ("radius", LENGTHS)):
        for entry in FITTED:
            for reason, value in values.items():
                yield entry, f"{argument} {reason}", fitted(entry, **{argument: value}), argument
    for argument, values in (
        ("step_size", {"zero": 0.0, "negative": -1.0, "NaN": NAN, "text": "fast", "None": None}),
        ("batch_size", {"zero": 0, "a float": 2.5, "text": "1", "negative": -1}),
        ("epochs", {"zero": 0, "a float": 2.5, "negative": -1}),
        ("average", {"two": 2.0, "text": "all", "negative": -0.5}),
    ):
        for reason, value in values.items():
            yield "sgd", f"{argument} {reason}", fitted("sgd", **{argument: value}), argument
            yield "dp_lssgd", f"{argument} {reason}", trained("dp_lssgd", **{argument: value}), argument
    population = sd.planning.Population.guess([0.5, -0.5])
    given = {"epsilon": 1.0, "n": 1000}
    for argument, values in (("epsilon", BUDGETS), ("n", {"zero": 0, "negative": -1, "NaN": NAN, "text": "many"})):
        for reason, value in values.items():
            call = functools.partial(sd.plan, LOGISTIC, population, **{**given, argument: value})
            yield "plan", f"{argument} {reason}", call, argument
    asked = {"loss": LOGISTIC, "population": population}
    for entry, call in {
        "plan": lambda loss, population: sd.plan(loss, population, epsilon=1.0, n=1000),
        "planning.expected_fit": lambda loss, population: sd.planning.expected_fit(loss, RELEASE, population, n=1000),
        "planning.best_split": lambda loss, population: sd.planning.best_split(
            loss, lambda _: RELEASE, population, epsilon=1.0, n=1000
        ),
    }.items():
        for argument, values in (
            ("loss", {"a name": "logistic", "a function": sd.losses.logistic}),
            ("population", {"parameters": [0.5, -0.5], "None": None}),
        ):
            for reason, value in values.items():
                given = {**asked, argument: value}
                yield entry, f"{argument} {reason}", functools.partial(call, **given), f"{argument} must be"
    yield (
        "planning.expected_fit", "release a mechanism",
        lambda: sd.planning.expected_fit(LOGISTIC, RELEASE.groups[0][1], population, n=1000), "release must be",
    )  # fmt: skip
    for reason, matrix in {"text": np.full((3, 2), SECRET), "NaN": [[NAN], [1.0]], "None": None}.items():
        call = functools.partial(sd.planning.Population, matrix, [1.0, -1.0])
        yield "planning.Population", f"X {reason}", call, "X"
    for reason, options in {
        "mean text": {"mean": SECRET, "covariance": [1.0]}, "covariance text": {"covariance": [SECRET]},
        "theta of counts without end": {"theta": [60.0], "family": "count"},
    }.items():  # fmt: skip
        call = functools.partial(sd.planning.Population.guess, **{"theta": [0.5], **options})
        yield "planning.Population.guess", reason, call, reason.split()[0]
    for reason, value in {"unknown": "clever", "a number": 3, "None": None}.items():
        yield "debias", f"method {reason}", functools.partial(sd.debias, LOGISTIC, RELEASE, method=value), "method"
    for reason, value in {"no loss": "logistic", "a function": sd.losses.logistic}.items():
        yield "debias", reason, functools.partial(sd.debias, value, RELEASE), "loss"
    for reason, value in {"no release": sd.GaussianMechanism(1.0, 1e-5, 1.0), "None": None}.items():
        yield "debias", f"release: {reason}", functools.partial(sd.debias, LOGISTIC, value), "elease"
    for reason, value in {"text": "0", "a float": 1.5, "negative": -1, "bool": True}.items():
        yield (
            "Release.privatize", f"random_state {reason}",
            functools.partial(RELEASE.privatize, X, Y, random_state=value), "random_state",
        )  # fmt: skip
    yield "Release.privatize", "noise unknown", functools.partial(RELEASE.privatize, X, Y, noise="loud"), "noise"
    yield "Release.privatize", "outside unknown", functools.partial(RELEASE.privatize, X, Y, outside="drop"), "outside"
    yield "Release", "features no mechanism", functools.partial(sd.Release, 0.5), "features"
    yield "Release", "features empty", functools.partial(sd.Release, {}), "features"
    yield "Release", "a column twice", lambda: sd.Release({("a", "b"): RELEASE.groups[0][1]}, noiseless=("a",)), "a"
    yield "Release", "target unknown", functools.partial(sd.Release, RELEASE.groups[0][1], target="label"), "target"
    for argument, value in (("scale", 0.0), ("scale", NAN), ("center", INF), ("scale", "1")):
        call = functools.partial(sd.Release, {"a": RELEASE.groups[0][1]}, **{argument: {"a": value}})
        yield "Release", f"{argument} {value!r}", call, argument


# ---- records -----------------------------------------------------------------------------------------------


def with_entry(value, row=3, column=1):
    changed = X.astype(object) if isinstance(value, (str, complex)) or value is None else X.copy()
    changed[row, column] = value
    return changed


def with_label(value):
    changed = Y.astype(object) if isinstance(value, str) or value is None else Y.copy()
    changed[2] = value
    return changed


class Sparse:
    """What a sparse matrix looks like."""

    shape, nnz, ndim = (40, 2), 2, 2

    def toarray(self):
        return X


MATRICES = {
    "NaN": with_entry(NAN), "infinite": with_entry(INF), "minus infinity": with_entry(-INF),
    "an entry of text": with_entry(SECRET), "a complex entry": with_entry(PRIVATE + 1j),
    "a missing entry": with_entry(None),
    "text": np.full((40, 2), SECRET), "complex": X + 1j, "bool": X > 0, "one dimension": X[:, 0],
    "three dimensions": X[:, :, None], "no rows": X[:0], "no columns": X[:, :0], "one row too few": X[:39],
    "a column too many": np.column_stack([X, X[:, 0]]), "None": None, "one number": PRIVATE, "a name": SECRET,
    "a dictionary": {"a": PRIVATE}, "ragged rows": [[PRIVATE], [PRIVATE, PRIVATE]],
    "dates": np.full((40, 2), np.datetime64("2020")), "numbers as objects": X.astype(object),
    "a generator": (row for row in X),
    "two columns of one name": pd.DataFrame(X, columns=["x0", "x0"]),
    "a column whose name is no text": pd.DataFrame(X, columns=[0, 1]),
    "a table with a missing value": pd.DataFrame({"x0": X[:, 0], "x1": [None, *X[1:, 1]]}),
    "a table with text": pd.DataFrame({"x0": X[:, 0], "x1": [SECRET] * 40}),
}  # fmt: skip
TARGETS = {
    "NaN": with_label(NAN), "infinite": with_label(INF), "a label of text": with_label(SECRET), "complex": Y + 1j,
    "bool": Y > 0, "a missing label": with_label(None), "two columns": np.column_stack([Y, Y]), "one number": 1.0,
    "one label too few": Y[:39], "empty": Y[:0], "an undeclared number": with_label(PRIVATE),
    "0.9999999": with_label(1 - PRIVATE * 1e-6), "0 and 1 in place of -1 and 1": (Y + 1) / 2,
    "text": np.full(40, SECRET),
}  # fmt: skip
ENTRIES = {
    "Release.privatize": lambda X=X, y=Y: lambda: RELEASE.privatize(X, y),
    "m_estimate": functools.partial(fitted, "m_estimate"),
    "sgd": functools.partial(fitted, "sgd"),
    "dp_lssgd": functools.partial(trained, "dp_lssgd"),
    "output_perturbation": functools.partial(trained, "output_perturbation"),
    "objective_perturbation": functools.partial(trained, "objective_perturbation"),
    "input_perturbation": functools.partial(trained, "input_perturbation"),
    "evaluate": lambda X=X, y=Y: (
        lambda: sd.evaluation.evaluate([0.1, 0.2], X, y, metric=sd.losses.squared_margin(), release=RELEASE)
    ),
    "cross_validate": lambda X=X, y=Y: (
        lambda: sd.evaluation.cross_validate(
            {"zero": lambda *_: np.zeros(2)}, X, y, metric=sd.losses.squared_margin(), release=RELEASE, folds=2
        )
    ),
}
# What a call takes that others do not: the number of columns is free for it, or the target any number.
TAKEN = {
    *((entry, "a column too many") for entry in ENTRIES if entry != "evaluate"),
    *(
        ("input_perturbation", reason)
        for reason in ("an undeclared number", "0.9999999", "0 and 1 in place of -1 and 1")
    ),
}  # fmt: skip


def records():
    for entry, make in ENTRIES.items():
        for reason, matrix in MATRICES.items():
            if (entry, reason) not in TAKEN:
                yield entry, f"X: {reason}", make(X=matrix), "X|theta"
        for reason, target in TARGETS.items():
            if (entry, reason) not in TAKEN:
                yield entry, f"y: {reason}", make(y=target), "y|label|target|record"
    for entry in FITTED:
        for reason, weights in {
            "negative": -np.ones(40), "NaN": with_label(NAN), "all zero": np.zeros(40), "text": np.full(40, SECRET),
            "one too few": np.ones(39), "two columns": np.ones((40, 2)),
        }.items():  # fmt: skip
            yield entry, f"weights: {reason}", fitted(entry, sample_weight=weights), "sample_weight|weight"
    large = X.copy()
    large[3, 1] = 1e200
    for entry in (*FITTED, "evaluate"):
        yield entry, "X: no square", ENTRIES[entry](X=large), "row 3|record 3"
    numbers = sd.Release(SENT)
    beside = functools.partial(sd.debias, sd.losses.least_squares(), numbers)
    yield (
        "m_estimate",
        "y: no square",
        lambda: sd.m_estimate(beside(), X, large[:, 1]),
        "y has a value in",
    )
    strict = sd.Release(sd.LaplaceMechanism(1.0, radius=0.01), sd.RandomizedResponse(1.0))
    yield (
        "Release.privatize", "X: outside the ball with outside='refuse'",
        lambda: strict.privatize(X, Y, outside="refuse"), "outside",
    )  # fmt: skip
    other = pd.Series(Y, index=range(1, 41))
    table = pd.DataFrame(X, columns=["x0", "x1"])
    yield "Release.privatize", "y: another index than X", lambda: RELEASE.privatize(table, other), "row labels"
    named = sd.Release({"a": RELEASE.groups[0][1]}, noiseless=("b",))
    yield "Release.privatize", "X: other column names", lambda: named.privatize(table, Y), "columns"


# ---- labels and categories ---------------------------------------------------------------------------------

REGION = sd.Release(
    {
        "region": sd.RandomizedResponse(1.0, categories=("n", "e", "s")),
        "income": sd.LaplaceMechanism(1.0, bounds=(0, 1)),
    }
)


def labels():
    table = pd.DataFrame({"region": ["n", "e", "s"], "income": [PRIVATE, 0.5, 1.0]})
    for reason, values in {
        "undeclared": ["n", SECRET, "s"], "missing": ["n", None, "s"], "a number": ["n", PRIVATE, "s"],
    }.items():  # fmt: skip
        call = functools.partial(REGION.privatize, table.assign(region=values), np.zeros(3))
        yield "Release.privatize", f"category {reason}", call, "region"
    for reason, code in {"undeclared": 3.0, "negative": -1.0, "between": PRIVATE}.items():
        rows = np.array([[0.0, PRIVATE], [code, 0.5]])
        call = functools.partial(REGION.privatize, rows, np.zeros(2))
        yield "Release.privatize", f"code {reason}", call, "region|code|categor|label"
    for reason, y in {
        "undeclared": [1.0, PRIVATE, 3.0], "NaN": [1.0, NAN, 3.0], "text": [SECRET] * 3, "two columns": [[1.0, 2.0]],
        "empty": [], "None": None,
    }.items():  # fmt: skip
        call = functools.partial(sd.labels.privatize_labels, y, [1.0, 2.0, 3.0], 1.0, prior=[0.2, 0.3, 0.5])
        yield "privatize_labels", f"y {reason}", call, "label|y|values"
    for reason, known in {
        "one": [1.0], "twice the same": [1.0, 1.0, 2.0], "NaN": [1.0, NAN], "text": ["a", "b"], "none": [],
        "infinite": [0.0, INF],
    }.items():  # fmt: skip
        for entry, call in {
            "optimal_unbiased_randomizer": lambda known=known: sd.optimal_unbiased_randomizer(known, [0.5, 0.5], 1.0),
            "privatize_labels": lambda known=known: sd.labels.privatize_labels([1.0], known, 1.0, prior=[0.5, 0.5]),
        }.items():
            yield entry, f"labels {reason}", call, "labels"
    for reason, prior in {
        "negative": [-0.1, 0.6, 0.5], "not a sum of 1": [0.5, 0.5, 0.5], "NaN": [NAN, 0.5, 0.5],
        "too short": [0.5, 0.5], "text": ["a", "b", "c"], "None": None,
    }.items():  # fmt: skip
        call = functools.partial(sd.optimal_unbiased_randomizer, [1.0, 2.0, 3.0], prior, 1.0)
        yield "optimal_unbiased_randomizer", f"prior {reason}", call, "prior"
    for reason, epsilon in BUDGETS.items():
        call = functools.partial(sd.optimal_unbiased_randomizer, [1.0, 2.0], [0.5, 0.5], epsilon)
        yield "optimal_unbiased_randomizer", f"epsilon {reason}", call, "epsilon"
    both = functools.partial(sd.labels.privatize_labels, [1.0], [1.0, 2.0], 1.0, prior=[0.5, 0.5], prior_epsilon=0.1)
    yield "privatize_labels", "a public prior and a budget for one", both, "prior"


# ---- guarantees, cards, files ------------------------------------------------------------------------------


def _adult_line(place, value):
    fields = ["39", "P", "1", "B", "13", "Married-civ-spouse", "A", "H", "W", "Male", "0", "0", "40", "U", "<=50K"]
    return ", ".join([*fields[:place], value, *fields[place + 1 :]])


def _census_line(place, value):
    fields = ["0"] * 42
    fields[0], fields[4], fields[12], fields[40], fields[41] = "30", "Children", "Male", "94", "- 50000."
    return ", ".join([*fields[:place], value, *fields[place + 1 :]])


def _read(read, name, line):
    """Read a folder with one file of one line."""
    with tempfile.TemporaryDirectory() as folder:
        for file in {name, name.replace(".data", ".test")}:
            (Path(folder) / file).write_text(f"{line}\n")
        read(folder)


def elsewhere():
    from_json = sd.Release.from_json
    good = RELEASE.to_json()
    for reason, card in {
        "empty": "", "no JSON": "{", "a number": "3", "a list": "[]", "another format": '{"format": "x"}',
        "NaN": good.replace("1e-05", "NaN"), "another scale": good.replace('"radius": 1.0', '"radius": 2.0'),
        "an unknown kind": good.replace('"gaussian"', '"magic"'), "twice the size": good + good, "None": None,
    }.items():  # fmt: skip
        yield (
            "Release.from_json",
            f"card {reason}",
            functools.partial(from_json, card),
            "card|JSON|text|entries|release",
        )
    for reason, change in {
        "epsilon negative": {"epsilon": -1.0}, "epsilon NaN": {"epsilon": NAN}, "delta one": {"delta": 1.0},
        "model unknown": {"model": "global"}, "adjacency unknown": {"adjacency": "swap"},
        "local and add-remove": {"adjacency": "add-remove"}, "unprotected text": {"unprotected": "year"},
        "multiplier zero": {"multiplier": 0.0}, "basis a number": {"basis": 1},
    }.items():  # fmt: skip
        call = functools.partial(sd.Guarantee, **{"epsilon": 1.0, "delta": 1e-5, **change})
        yield "Guarantee", reason, call, "|".join([*change, "local"])
    for entry, read in {"datasets.adult": datasets.adult, "datasets.census": datasets.census}.items():
        yield entry, "a folder that is not there", functools.partial(read, "/nowhere"), "adult|census"
    for reason, line in {
        "with a field too few": ", ".join([SECRET] * 14), "with text in place of an age": _adult_line(0, SECRET),
        "with an unknown sex": _adult_line(9, SECRET), "with a negative age": _adult_line(0, f"-{PRIVATE}"),
    }.items():  # fmt: skip
        yield (
            "datasets.adult",
            f"a line {reason}",
            functools.partial(_read, datasets.adult, "adult.data", line),
            "adult",
        )
    for reason, line in {
        "with a field too few": ", ".join([SECRET] * 41), "with text in place of an age": _census_line(0, SECRET),
        "with text in place of weeks": _census_line(39, SECRET), "with an unknown income": _census_line(41, SECRET),
    }.items():  # fmt: skip
        call = functools.partial(_read, datasets.census, "census-income.test", line)
        yield "datasets.census", f"a line {reason}", call, "census"
    for reason, columns in {"zero": 0, "negative": -1, "text": "three", "a float": 2.5}.items():
        yield "datasets.synthetic", f"columns {reason}", functools.partial(datasets.synthetic, columns), "columns"


# ---- what a collector and an analyst call ----------------------------------------------------------------

SCHEMA = {
    "epsilon": 4.0,
    "columns": {"age": {"bounds": [18, 90]}, "place": {"categories": ["n", "s"]}},
    "target": {"name": "income", "categories": ["low", "high"]},
}
TABLE = {"age": [30.0 + PRIVATE, 40.0], "place": ["n", "s"], "income": ["low", "high"]}
SCHEMAS = {
    "a number": (3, "schema"),
    "None": (None, "schema"),
    "a path of nothing": ("nowhere.toml", "nowhere"),
    "empty": ({}, "epsilon"),
    "without columns": ({"epsilon": 1.0}, "columns"),
    "no columns": ({**SCHEMA, "columns": {}}, "columns"),
    "an unknown entry": ({**SCHEMA, "epslion": 1.0}, "epslion"),
    "epsilon zero": ({**SCHEMA, "epsilon": 0.0}, "epsilon"),
    "epsilon NaN": ({**SCHEMA, "epsilon": NAN}, "epsilon"),
    "epsilon text": ({**SCHEMA, "epsilon": "4"}, "epsilon"),
    "delta one": ({**SCHEMA, "delta": 1.0}, "delta"),
    "a loss that is none": ({**SCHEMA, "loss": "logit"}, "loss"),
    "a design that is none": ({**SCHEMA, "design": "whole"}, "design"),
    "norm negative": ({**SCHEMA, "norm": -1.0}, "norm"),
    "intercept a number": ({**SCHEMA, "intercept": 1}, "intercept"),
    "missing a word": ({**SCHEMA, "missing": "?"}, "missing"),
    "a column without bounds": ({**SCHEMA, "columns": {"age": {}}}, "age"),
    "bounds in the wrong order": ({**SCHEMA, "columns": {"age": {"bounds": [90, 18]}}}, "bounds"),
    "bounds with NaN": ({**SCHEMA, "columns": {"age": {"bounds": [18, NAN]}}}, "bounds"),
    "one category": ({**SCHEMA, "columns": {"age": {"categories": ["n"]}}}, "categor"),
    "bounds and categories": ({**SCHEMA, "columns": {"age": {"bounds": [0, 1], "categories": ["n", "s"]}}}, "age"),
    "a fill outside": ({**SCHEMA, "columns": {"age": {"bounds": [18, 90], "fill": 900}}}, "fill"),
    "the target a column": ({**SCHEMA, "target": {"name": "age", "bounds": [0, 1]}}, "target"),
    "the target without a name": ({**SCHEMA, "target": {"bounds": [0, 1]}}, "target"),
}
COLLECTED = {
    "a number": (3, "table|columns|path"),
    "a path of nothing": ("nowhere.csv", "nowhere"),
    "a column too few": ({"age": TABLE["age"], "income": TABLE["income"]}, "place"),
    "a missing number": ({**TABLE, "age": [None, PRIVATE]}, "age"),
    "NaN": ({**TABLE, "age": [NAN, PRIVATE]}, "age"),
    "an infinite number": ({**TABLE, "age": [INF, PRIVATE]}, "age"),
    "text for a number": ({**TABLE, "age": [SECRET, "1"]}, "age"),
    "an undeclared category": ({**TABLE, "place": [SECRET, "n"]}, "place"),
    "an undeclared label": ({**TABLE, "income": [SECRET, "low"]}, "income"),
    "columns of other lengths": ({**TABLE, "age": [PRIVATE]}, "one value per record"),
    "no records": ({name: [] for name in TABLE}, "record|rows|empty"),
}


@functools.cache
def small_fit():
    """A fit to few records with little noise, and its released records."""
    release = sd.Release(
        {"age": sd.LaplaceMechanism(30.0, bounds=(-1, 1)), "size": sd.LaplaceMechanism(30.0, bounds=(-1, 1))},
        sd.RandomizedResponse(8.0),
    )
    noised = release.privatize(pd.DataFrame(X, columns=["age", "size"]), Y, random_state=0)
    return sd.m_estimate(sd.debias(sd.losses.squared_margin(), release), noised.X, noised.y, l2=10.0), noised


def of_fit(call):
    return lambda: call(small_fit()[0])


def of_records(call):
    return lambda: call(*small_fit())


def in_a_folder(call):
    def made():
        with tempfile.TemporaryDirectory() as folder:
            call(Path(folder))

    return made


def _saved(**options):
    return in_a_folder(lambda folder: small_fit()[1].save(folder / "new", **options))


def _damaged(name, text):
    def read(folder):
        small_fit()[1].save(folder / "new")
        (folder / "new" / name).write_text(text)
        sd.load(folder / "new")

    return in_a_folder(read)


PREDICTED = {
    "a number": 3.0, "one dimension": X[:, 0], "a column too few": X[:, :1], "a column too many": X[:, [0, 1, 1]],
    "NaN": with_entry(NAN), "infinite": with_entry(INF), "text": np.full((3, 2), SECRET), "None": None,
    "other names": pd.DataFrame(X, columns=["age", "other"]),
}  # fmt: skip


def users():
    for reason, (schema, names) in SCHEMAS.items():
        yield "Schema", reason, functools.partial(sd.Schema, schema), names
        yield "Release.from_schema", reason, functools.partial(sd.Release.from_schema, schema), names
        yield "planning.feasibility", f"schema {reason}", functools.partial(
            sd.planning.feasibility, schema, n=100
        ), names  # fmt: skip
    for reason, change in {
        "neither n nor an error": {}, "both": {"n": 100, "standard_error": 0.1}, "n zero": {"n": 0},
        "n NaN": {"n": NAN}, "a negative error": {"standard_error": -1.0}, "l2 negative": {"n": 100, "l2": -1.0},
        "a loss that is none": {"n": 100, "loss": "logit"},
    }.items():  # fmt: skip
        call = functools.partial(sd.planning.feasibility, {**SCHEMA, "loss": "logistic"}, **change)
        yield "planning.feasibility", reason, call, "n=|standard_error|l2|loss|, n| n "
    for reason, (data, names) in COLLECTED.items():
        yield "Schema.collect", reason, lambda data=data: sd.Schema(SCHEMA).collect(data), names
    for reason, place in {"of nothing": "/nowhere", "a number": 3, "None": None}.items():
        yield "load", f"a folder {reason}", functools.partial(sd.load, place), "folder|nowhere|path"
    for name, text in (("card.json", "{}"), ("manifest.json", "{"), ("records.csv", f"age,size\n{PRIVATE},1\n")):
        yield "load", f"a damaged {name}", _damaged(name, text), "damaged|folder|changed|card"
    for reason, options in {
        "an unknown format": {"format": "xlsx"}, "labels of three": {"labels": ("a", "b", "c")},
        "a target named as a column": {"target_name": "age"}, "a target's name a number": {"target_name": 3},
    }.items():  # fmt: skip
        yield "Noised.save", reason, _saved(**options), "format|labels|target"
    yield "Noised.save", "a folder that is there", in_a_folder(
        lambda folder: [(folder / "file").write_text("x"), small_fit()[1].save(folder)]
    ), "not empty"  # fmt: skip
    yield "Noised.save", "a folder in nothing", of_records(lambda _, noised: noised.save("/nowhere/new")), "nowhere"
    for entry, call in {
        "Fit.predict": lambda fit, X: fit.predict(X),
        "Fit.decision_function": lambda fit, X: fit.decision_function(X),
        "Fit.score": lambda fit, X: fit.score(X, Y),
    }.items():
        for reason, matrix in PREDICTED.items():
            yield entry, reason, of_fit(lambda fit, call=call, matrix=matrix: call(fit, matrix)), "X|column"
    yield "Fit.predict_proba", "no probabilities", of_fit(lambda fit: fit.predict_proba(X)), "probabilit"
    for reason, labels in {
        "too few": Y[:3], "NaN": with_label(NAN), "text": np.full(40, SECRET), "undeclared": with_label(7.0 + PRIVATE),
    }.items():  # fmt: skip
        yield "Fit.score", f"y {reason}", of_fit(lambda fit, labels=labels: fit.score(X, labels)), "y|label"
    for reason, level in {"zero": 0.0, "one": 1.0, "percent": 95, "NaN": NAN, "text": "0.95"}.items():
        yield "Fit.summary", f"level {reason}", of_fit(lambda fit, level=level: fit.summary(level)), "level"
        yield "Fit.summary_frame", f"level {reason}", of_fit(lambda fit, level=level: fit.summary_frame(level)), "level"
        yield "Fit.report", f"level {reason}", of_fit(
            lambda fit, level=level: fit.report("/nowhere.html", level=level, certify=False)
        ), "level"  # fmt: skip
    for reason, options in {
        "X alone": {"X": X}, "naive a number": {"naive": 3.0}, "y alone": {"y": Y},
    }.items():  # fmt: skip
        yield "Fit.report", reason, of_fit(
            lambda fit, options=options: fit.report("/nowhere/a.html", certify=False, **options)
        ), "X|naive|y "  # fmt: skip
    yield "Fit.report", "no folder", of_fit(lambda fit: fit.report("/nowhere/a.html", certify=False)), "nowhere"
    check = sd.checks.check_records
    for reason, call in {
        "no release": lambda fit, noised: check(None, noised.X, noised.y),
        "too few records": lambda fit, noised: check(noised.release, noised.X.iloc[:5], noised.y[:5]),
        "a column too few": lambda fit, noised: check(noised.release, noised.X[["age"]], noised.y),
        "an undeclared label": lambda fit, noised: check(noised.release, noised.X, with_label(7.0 + PRIVATE)),
        "a rate of one": lambda fit, noised: check(noised.release, noised.X, noised.y, false_alarm_rate=1.0),
        "NaN": lambda fit, noised: check(noised.release, noised.X.assign(age=NAN), noised.y),
    }.items():
        yield "checks.check_records", reason, of_records(call), "release|records|column|label|rate|NaN"
    for reason, release in {
        "None": None, "without names": RELEASE,
        "a margin release": sd.Release(sd.SphericalCapMechanism(1.0, 1.0), "margin"),
    }.items():  # fmt: skip
        yield (
            "ReleaseScaler.fit",
            f"release {reason}",
            lambda release=release: sd.ReleaseScaler(release).fit(X),
            "release",
        )
    for reason, matrix in {
        "a column too few": X[:, :1],
        "NaN": with_entry(NAN),
        "text": np.full((3, 2), SECRET),
    }.items():
        yield "ReleaseScaler.transform", reason, of_records(
            lambda fit, noised, matrix=matrix: sd.ReleaseScaler(noised.release).transform(matrix)
        ), "X|column"  # fmt: skip
    for entry, make in {"DebiasedClassifier": sd.DebiasedClassifier, "DebiasedRegressor": sd.DebiasedRegressor}.items():
        for reason, options in {
            "loss unknown": {"loss": "logit"}, "loss a number": {"loss": 3}, "release text": {"release": "card"},
            "solver unknown": {"solver": "newton"}, "l2 negative": {"l2": -1.0}, "l2 NaN": {"l2": NAN},
            "radius zero": {"radius": 0.0}, "method unknown": {"method": "best"},
            "an unknown option": {"solver_options": {"steps": 3}},
        }.items():  # fmt: skip
            yield f"{entry}.fit", reason, lambda make=make, options=options: make(**options).fit(X, Y), (
                "loss|release|solver|l2|radius|method|steps"
            )  # fmt: skip
    yield "DebiasedClassifier.fit", "one class", lambda: sd.DebiasedClassifier().fit(X, np.ones(40)), "class"
    yield "DebiasedClassifier.predict", "before fit", lambda: sd.DebiasedClassifier().predict(X), "not fitted"
    yield "CorrectedScorer", "another estimator", lambda: sd.CorrectedScorer("log_loss")(object(), X, Y), "Corrected"


KINDS = {
    "parameters of mechanisms": parameters,
    "options of calls": options,
    "records": records,
    "labels and categories": labels,
    "cards, guarantees, data sets": elsewhere,
    "schemas, folders, fits, estimators": users,
}


@functools.cache
def cases():
    """Return all cases by name."""
    found = [BadInput(kind, *row) for kind, rows in KINDS.items() for row in rows()]
    table = {case.name: case for case in found}
    assert len(table) == len(found), [name for name, count in Counter(c.name for c in found).items() if count > 1]
    return table


SHOWN = (
    "parameters of mechanisms: GaussianMechanism, epsilon 1e-320",
    "options of calls: output_perturbation, adjacency unknown",
    "records: Release.privatize, X: an entry of text",
    "records: dp_lssgd, y: 0 and 1 in place of -1 and 1",
    "labels and categories: Release.privatize, category undeclared",
    "cards, guarantees, data sets: Release.from_json, card another scale",
)


def scoreboard():
    """Return the section of docs/reliability.md as lines."""
    table = cases()
    counts = Counter(case.kind for case in table.values())
    entries = {kind: len({case.entry for case in table.values() if case.kind == kind}) for kind in counts}
    lines = ["| kind | calls | inputs |", "|---|---|---|"]
    lines += [f"| {kind} | {entries[kind]} | {count} |" for kind, count in counts.items()]
    lines += [f"| all | {len({case.entry for case in table.values()})} | {len(table)} |", "", "```text"]
    for name in SHOWN:
        error = refused(table[name]).error
        lines += [name.partition(": ")[2], f"  {type(error).__name__}: {error}"]
    return [*lines, "```"]


if __name__ == "__main__":
    sys.stdout.write("\n".join([*scoreboard(), ""]))
