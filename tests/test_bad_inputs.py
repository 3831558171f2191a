"""Every bad input of the table is refused in words that name it, and no message shows a value of the records."""

import pickle
import re
import struct
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bad_inputs import (
    CENTRAL,
    LOGISTIC,
    PRIVATE,
    RELEASE,
    SECRET,
    SIGNS,
    TRAINED,
    X,
    Y,
    cases,
    chain,
    refused,
    scoreboard,
)

import symdebias as sd
from symdebias.exceptions import SymdebiasError

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


@pytest.mark.parametrize("name", cases())
def test_bad_input_is_refused_in_words_and_without_values(name):
    case = cases()[name]
    found = refused(case)
    assert isinstance(found.error, (ValueError, TypeError, SymdebiasError, FileNotFoundError, FileExistsError)), (
        found.error
    )
    message = str(found.error)
    assert re.search(case.names, message), message
    # What is wrong, and then what is allowed or what to do.
    assert ". " in message or "must be" in message, message
    assert "Traceback" not in message
    assert found.leaks == []


def test_the_table_is_long_enough_and_the_page_counts_it():
    assert len(cases()) >= 300
    assert "\n".join(scoreboard()) in PAGE.read_text(), "python tests/bad_inputs.py"


def test_leaks_would_be_seen():
    """A message, an argument, a cause and a warning with a planted value each."""

    def leaking(where):
        def call():
            text = f"income is {PRIVATE}"
            if where == "message":
                raise ValueError(text)
            if where == "warning":
                warnings.warn(text, stacklevel=1)
            try:
                raise KeyError(SECRET)
            except KeyError as error:
                if where == "context":
                    raise ValueError("refused") from None
                raise ValueError("refused") from (error if where == "cause" else None)

        return type("Leaking", (), {"call": staticmethod(call)})

    for where in ("message", "warning", "context", "cause"):
        assert refused(leaking(where)).leaks, where


# ---- what is not refused, and still says something ---------------------------------------------------------


def private_records(scale):
    """Records with the planted value in every entry, times a power of ten."""
    return np.full((60, 2), PRIVATE * scale), np.tile([1.0, -1.0], 30)


SAID = {
    "clipped by privatize": lambda: RELEASE.privatize(*private_records(1e3)),
    "refused by privatize": lambda: RELEASE.privatize(*private_records(1e3), outside="refuse"),
    "shortened by a solver": lambda: sd.dp_lssgd(
        LOGISTIC, *private_records(1e3), **CENTRAL, accountant="rdp", epochs=1, smoothing=0.0
    ),
    "too long for any radius": lambda: sd.dp_lssgd(
        LOGISTIC, *private_records(1e200), **CENTRAL, accountant="rdp", epochs=1, smoothing=0.0
    ),
    "diverged": lambda: sd.dp_lssgd(
        LOGISTIC, *private_records(1.0), **CENTRAL, accountant="rdp", epochs=2, batch_size=10, step_size=1e50, l2=1e60
    ),
    "targets moved to bounds": lambda: sd.output_perturbation(
        sd.losses.huber(0.5), private_records(1.0)[0], np.full(60, 1e3 * PRIVATE), **CENTRAL, l2=0.1,
        target_bounds=(-1.0, 1.0),
    ),
    "no minimiser": lambda: sd.output_perturbation(
        sd.losses.huber(0.5), private_records(1.0)[0], np.full(60, PRIVATE), **CENTRAL, l2=1e-300,
        target_bounds=(-1.0, 1.0),
    ),
    "off the grid": lambda: sd.DiscreteLaplaceMechanism(1.0, bounds=(0, 4)).privatize([1.0, PRIVATE, 2.0]),
    "far off the grid": lambda: sd.DiscreteLaplaceMechanism.from_scale(1.0).privatize([1.0, PRIVATE * 1e80]),
    "a vector where a number is due": lambda: sd.LaplaceMechanism(1.0, bounds=(0, 1)).privatize(
        private_records(1.0)[0]
    ),
    "a label between": lambda: sd.RandomizedResponse(1.0).privatize([1.0, PRIVATE]),
    "no exact place among labels": lambda: sd.labels.round_labels([1.0, 1e9 * PRIVATE], [1.0, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("what", SAID)
def test_what_a_call_says_shows_no_value(what):
    said = refused(type("Case", (), {"call": staticmethod(SAID[what])}))
    assert any(said.said) or what == "no minimiser"
    assert said.leaks == []


def holds(thing, value):
    """Whether a pickle has the bytes of a float64, or the text."""
    stored = pickle.dumps(thing)
    return (
        struct.pack("<d", value) in stored
        or struct.pack(">d", value) in stored
        or any(sign.encode() in stored for sign in SIGNS)
    )


def test_no_attribute_of_what_is_handed_back_holds_a_record():
    noised = RELEASE.privatize(X, Y)
    assert not holds(noised, PRIVATE)
    assert holds(X, PRIVATE)
    table = pd.DataFrame({"income": np.full(3, PRIVATE), "region": ["n", "e", "n"]}, index=[SECRET, "b", "c"])
    release = sd.Release(
        {"income": sd.LaplaceMechanism(1.0, bounds=(0, 1)), "region": sd.RandomizedResponse(1.0, categories=("n", "e"))}
    )
    assert not holds(release.privatize(table, None), PRIVATE)
    assert holds(release.privatize(table, None, keep_index=True), PRIVATE)


@pytest.mark.parametrize("name", TRAINED)
def test_no_attribute_of_a_fit_holds_a_record(name):
    solver, loss, given = TRAINED[name]
    rows, labels = np.vstack([X] * 3), np.concatenate([Y] * 3)
    fit = solver(loss, rows, labels, **given)
    assert not holds(fit, PRIVATE)
    assert chain(None) is not None
