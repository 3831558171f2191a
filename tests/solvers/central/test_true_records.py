"""What solvers on true records have in common: the arguments and the records that all of them refuse."""

import functools
import math

import numpy as np
import pytest

import symdebias as sd
from symdebias._domains import DELTA, EPSILON, POSITIVE, RADIUS

LOGISTIC, LINEAR = sd.losses.logistic(), sd.losses.least_squares()
COMMON = {"epsilon": 1.0, "adjacency": "replace-one", "record_radius": 1.0, "random_state": 0}
# Each with what it must be given besides a loss and records.
SOLVERS = {
    "dp_lssgd": (sd.dp_lssgd, {**COMMON, "delta": 1e-5, "epochs": 1, "accountant": "rdp"}),
    "objective_perturbation": (sd.objective_perturbation, {**COMMON, "delta": 1e-5}),
    "output_perturbation": (sd.output_perturbation, {**COMMON, "delta": 1e-5, "l2": 0.1}),
    "input_perturbation": (
        functools.partial(sd.input_perturbation, expansion="taylor"), {**COMMON, "delta": 0.01, "radius": 1.0},
    ),
}  # fmt: skip
OPTIONAL = {("dp_lssgd", "record_radius"), ("output_perturbation", "delta"), ("input_perturbation", "record_radius")}
rng = np.random.default_rng(0)
X = rng.uniform(-0.7, 0.7, (200, 2))
Y = rng.choice([-1.0, 1.0], 200)
BAD = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"delta": value}, "delta") for value in DELTA.outside()],
    *[({"radius": value}, "radius") for value in POSITIVE.outside() if value is not None],
    *[({"record_radius": value}, "record_radius") for value in RADIUS.outside() if value is not None],
    *[({"target_bounds": value}, "bounds|order") for value in ((1, -1), (0, 0), 1.0, (0, math.nan), (0, 1, 2), (0, 1))],
    *[({"adjacency": value}, "adjacency") for value in ("swap", "", None, 1)],
    *[({"random_state": value}, "random_state|seed") for value in (-1, "0", 1.5)],
    *[({"fit_intercept": value}, "fit_intercept") for value in ("yes", 2)],
    ({"loss": sd.losses.logistic}, r"Call it: logistic\(\)"),
    ({"loss": sd.debias(LOGISTIC, sd.Release(), method="none")}, "true records|loss"),
    ({"X": np.full((200, 2), math.nan)}, "X"),
    ({"X": X[:0], "y": Y[:0]}, "X"),
    ({"X": X[:, 0]}, "X"),
    ({"X": [["a", "b"]] * 200}, "X"),
    ({"X": np.full((200, 2), 1e200)}, "norm above"),
    ({"y": Y[:40]}, "y"),
    ({"y": np.full(200, math.inf)}, "y|labels|target"),
    ({"y": (Y + 1) / 2}, "labels|target"),
]


def called(name, **change):
    solver, options = SOLVERS[name]
    given = {"loss": LOGISTIC, "X": X, "y": Y, **options, **change}
    return solver(given.pop("loss"), given.pop("X"), given.pop("y"), **given)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(("change", "message"), BAD, ids=lambda value: str(value).split(" at ")[0][:40])
def test_what_is_refused(name, change, message):
    if name == "output_perturbation" and change.get("delta") == 0.0:
        pytest.skip("its guarantee may be pure")
    with pytest.raises((TypeError, ValueError), match=message):
        called(name, **change)


@pytest.mark.parametrize("name", SOLVERS)
def test_budget_adjacency_and_bounds_have_no_defaults(name):
    solver, options = SOLVERS[name]
    for missing in {"epsilon", "delta", "adjacency", "record_radius", "l2", "radius"} & set(options):
        if (name, missing) not in OPTIONAL:
            with pytest.raises(TypeError, match=missing):
                solver(LOGISTIC, X, Y, **{key: value for key, value in options.items() if key != missing})
