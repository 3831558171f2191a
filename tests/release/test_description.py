"""Descriptions of noise that another program drew: what they come to, what is read by them, and what is refused."""

import re

import numpy as np
import pytest

import symdebias as sd

ENTRIES = {
    "columns": {
        "age": {"noise": "laplace", "scale": 8.0},
        "year": {"noise": "none"},
        "place": {"noise": "none", "categories": ["n", "e", "s"]},
        "smokes": {"noise": "randomized_response", "keep": 0.9, "categories": ["no", "yes"]},
    },
    "target": {"name": "ill", "noise": "randomized_response", "keep": 0.8, "categories": ["no", "yes"]},
}
RECORDS = {
    "age": [71.25, -3.5, 40.0],
    "year": [9, 8, 7],
    "place": ["s", "n", "e"],
    "smokes": ["no", "yes", "no"],
    "ill": ["yes", "no", "no"],
    "name": ["A", "B", "C"],
}
NUMBERS = [
    ({"noise": "gaussian", "scale": 1.5}, sd.GaussianMechanism.from_scale(1.5)),
    ({"noise": "gaussian", "scale": 1.5, "degrees_of_freedom": 40}, sd.GaussianMechanism.from_estimate(1.5, 40)),
    ({"noise": "gaussian", "ratio": 0.75, "variance": 4}, sd.GaussianMechanism.from_scale(1.0)),
    (
        {"noise": "gaussian", "ratio": 0.75, "variance": 4, "standard_error": 0.05},
        sd.GaussianMechanism.from_reliability(0.75, variance=4, standard_error=0.05),
    ),
    ({"noise": "gaussian", "epsilon": 1, "delta": 1e-5, "radius": 2}, sd.GaussianMechanism(1.0, 1e-5, radius=2.0)),
    ({"noise": "laplace", "scale": 8}, sd.LaplaceMechanism.from_scale(8.0)),
    ({"noise": "laplace", "scale": 8, "bounds": [0, 9]}, sd.LaplaceMechanism.from_scale(8.0, bounds=(0, 9))),
    ({"noise": "laplace", "epsilon": 5, "bounds": [20, 60]}, sd.LaplaceMechanism(5.0, bounds=(20, 60))),
    ({"noise": "discrete-laplace", "scale": 2}, sd.DiscreteLaplaceMechanism.from_scale(2.0)),
    (
        {"noise": "discrete_laplace", "epsilon": 1, "bounds": [0, 9], "step": 0.5},
        sd.DiscreteLaplaceMechanism(1.0, (0, 9), step=0.5),
    ),
    ({"noise": "staircase", "epsilon": 1, "bounds": [0, 1]}, sd.StaircaseMechanism(1.0, (0, 1))),
    ({"noise": "discrete-staircase", "epsilon": 1, "bounds": [0, 9]}, sd.DiscreteStaircaseMechanism(1.0, (0, 9))),
    ({"noise": "uniform", "half_width": 0.5}, sd.UniformMechanism(0.5)),
]


@pytest.mark.parametrize(("entry", "mechanism"), NUMBERS, ids=lambda one: "" if not isinstance(one, dict) else str(one))
def test_noise_of_numbers_is_that_of_its_mechanism(entry, mechanism):
    """In a column and in a target: scales are never turned into one another."""
    found = sd.NoiseDescription({"columns": {"a": entry}, "target": {"name": "b", **entry}, "intercept": False})
    assert found.release == sd.Release({"a": mechanism}, mechanism)


def test_noise_of_categories_is_that_of_its_mechanism():
    matrix = [[0.8, 0.2], [0.3, 0.7]]
    channel = {"noise": "finite-channel", "matrix": matrix, "categories": [0, 1]}
    columns = {
        "a": channel,
        "b": {"noise": "randomized-response", "epsilon": 1.5, "categories": ["n", "e", "s"]},
    }
    found = sd.NoiseDescription({"columns": columns, "target": {"name": "c", **channel}})
    three = sd.RandomizedResponse(1.5, ("n", "e", "s"))
    assert found.release == sd.Release(
        {"a": sd.FiniteChannel(matrix, (0, 1)), "b": three}, sd.FiniteChannel(matrix, (-1, 1)), fit_intercept=True
    )
    assert found.read({"a": [0, 1], "b": ["n", "s"], "c": [1, 0]}).y.tolist() == [1.0, -1.0]


def test_records_are_read_as_they_are_and_sent_on(tmp_path):
    noised = sd.NoiseDescription(ENTRIES).read(RECORDS)
    assert noised.release.columns == ("age", "smokes", "year", "place=e", "place=s")
    assert noised.X.columns == noised.release.columns
    assert noised.X["age"].tolist() == RECORDS["age"]
    assert noised.X["smokes"].tolist() == RECORDS["smokes"]
    assert noised.X["place=e"].tolist() == [0.0, 0.0, 1.0]
    assert noised.X["place=s"].tolist() == [1.0, 0.0, 0.0]
    assert (noised.y.tolist(), noised.labels, noised.target_name) == ([1.0, -1.0, -1.0], ("no", "yes"), "ill")
    assert not noised.seeded
    assert not noised.hardened
    noised.save(tmp_path / "received")
    again = sd.load(tmp_path / "received")
    assert again.release == noised.release
    np.testing.assert_array_equal(again.X["age"], noised.X["age"])
    assert (again.y.tolist(), again.labels) == (noised.y.tolist(), noised.labels)


def test_what_a_fit_says_is_that_of_the_release_by_hand(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=3_000)
    y = np.where(rng.random(3_000) < 1 / (1 + np.exp(-x)), "yes", "no")
    by_hand = sd.Release({"x": sd.LaplaceMechanism.from_scale(0.5)}, sd.RandomizedResponse(1.0), fit_intercept=True)
    noised = by_hand.privatize(x[:, None], np.where(y == "yes", 1.0, -1.0), random_state=1)
    lines = [
        f"{one!r},{'yes' if label > 0 else 'no'}" for one, label in zip(noised.X[:, 0].tolist(), noised.y, strict=True)
    ]
    (tmp_path / "survey.csv").write_text("\n".join(["x,says", *lines]) + "\n")
    (tmp_path / "noise.toml").write_text(
        '[columns]\nx = { noise = "laplace", scale = 0.5 }\n[target]\nname = "says"\n'
        'noise = "randomized_response"\nepsilon = 1.0\ncategories = ["no", "yes"]\n'
    )
    read = sd.NoiseDescription(tmp_path / "noise.toml").read(tmp_path / "survey.csv")
    fits = [sd.m_estimate(sd.debias(sd.losses.logistic(), one.release), one.X, one.y).theta for one in (noised, read)]
    np.testing.assert_array_equal(*fits)


@pytest.mark.parametrize(("labels", "sent"), [(["no", "yes"], [-1.0, 1.0, 1.0]), ([3, 5, 8], [3.0, 5.0, 8.0])])
def test_a_target_without_noise_has_its_labels(labels, sent):
    columns = {"age": {"noise": "laplace", "scale": 8.0}}
    found = sd.NoiseDescription({"columns": columns, "target": {"name": "t", "noise": "none", "categories": labels}})
    noised = found.read({"age": [1.0, 2.0, 3.0], "t": [labels[0], labels[1], labels[-1]]})
    assert noised.y.tolist() == sent
    assert found.release.released_target(noised.y, rows=3).shape == (3,)


def test_numbers_without_noise_may_be_a_target():
    columns = {"age": {"noise": "laplace", "scale": 8.0}}
    found = sd.NoiseDescription({"columns": columns, "target": {"name": "pay", "noise": "none"}})
    assert found.read({"age": [1.0, 2.0], "pay": [2.5, 3]}).y.tolist() == [2.5, 3.0]
    assert found.release.target is None
    assert sd.NoiseDescription({"columns": columns}).read({"age": [1.0]}).y is None


def without(entries, *path, **more):
    """Return a copy of nested entries without one, or with others in its place."""
    first, *rest = path
    inner = without(entries[first], *rest, **more) if rest else more.get("instead")
    return {
        key: inner if key == first else value for key, value in entries.items() if key != first or inner is not None
    }


REFUSED = [
    (without(ENTRIES, "columns"), "the noise description has no entry columns"),
    ({**ENTRIES, "epsilon": 1.0}, "the noise description has the unknown entry 'epsilon'"),
    ({**ENTRIES, "intercept": 1}, "intercept=1 must be true or false"),
    ({**ENTRIES, "columns": ["age"]}, "columns=['age'] names no columns"),
    ({**ENTRIES, "target": "ill"}, "target='ill' is no table of entries"),
    (without(ENTRIES, "target", "name"), "target.name=None names no column"),
    (without(ENTRIES, "target", "name", instead="age"), "target.name='age' is also one of the columns"),
    (without(ENTRIES, "columns", "age", instead=8.0), "columns.age=8.0 is no table of entries"),
    (without(ENTRIES, "columns", "age", "noise"), "columns.age does not say its noise. Give noise, one of gaussian"),
    (without(ENTRIES, "columns", "age", "noise", instead="laplas"), "columns.age.noise='laplas' is not known"),
    (without(ENTRIES, "columns", "age", "noise", instead=3), "columns.age.noise=3 is not known"),
    (without(ENTRIES, "columns", "age", "noise", instead="randomized_response"), "is one of categories. List them"),
    (without(ENTRIES, "columns", "smokes", "noise", instead="laplace"), "is one of numbers, and it has categories"),
    (without(ENTRIES, "columns", "age", "scale"), "columns.age states noise = 'laplace' by nothing. It is stated by "
     "scale (and bounds); or by epsilon, bounds"),
    (without(ENTRIES, "columns", "age", "scale", instead=-1.0), "columns.age: scale=-1"),
    (without(ENTRIES, "columns", "age", "scale", instead="8"), "columns.age: scale"),
    (without(ENTRIES, "columns", "smokes", "keep", instead=0.3), "columns.smokes: keep=0.3"),
    (without(ENTRIES, "columns", "smokes", "keep", instead=0.3), "that is a FiniteChannel (finite_channel in a noise"),
    *[
        (without(ENTRIES, "columns", "age", "noise", instead=given), f"is not known. Is {meant} meant? Choose one of")
        for given, meant in [("normal", "gaussian"), ("Laplacian", "laplace"), ("laplac", "laplace"), ("no", "none")]
    ],
    (without(ENTRIES, "columns", "age", "noise", instead="rr"),
     "Is randomized_response meant? It is one of categories: list them"),
    (without(ENTRIES, "columns", "smokes", "noise", instead="randomised response"),
     "Is randomized_response meant? Choose"),
    (without(ENTRIES, "columns", "smokes", "categories", instead=["no"]), "columns.smokes.categories has 1 category"),
    (without(ENTRIES, "columns", "year", instead={"noise": "none", "scale": 1}), 'noise = "none" and scale'),
    ({"columns": {"a": {"noise": "none"}}}, "is said of every column"),
    ("nowhere.toml", "the noise description nowhere.toml is not there. Name a TOML file with columns and target"),
    (7, "a noise description is a dict or the path of a TOML file; got int"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "message"), REFUSED, ids=[message[:50] for _, message in REFUSED])
def test_what_is_no_description_is_refused(source, message):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=re.escape(message)):
        sd.NoiseDescription(source)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("age", None, "age is missing in row 1. Each record needs a value, and none is filled where noise"),
        ("age", "secret", "age is no finite number in row 1, and is declared without categories. Correct the value"),
        ("smokes", "Yes", "smokes has a value in row 1 that was not declared. Its categories are no, yes: the value "
         "differs from one of them in its capitals; declare all of them."),
        ("ill", "", "ill is missing in row 1"),
        ("age", " NA", "age is no finite number in row 1, and is declared without categories. It is a word for a "
         "missing value, and none is filled where noise is to be undone: complete the table; or leave out the records"),
        ("year", "h7", "Correct the value (numbers are written as 1234.5, and dates are none), or "
         "declare categories. What tells records apart, as the clusters of a fit do, is numbered."),
        ("ill", "N/A", "Its categories are no, yes: the value is a word for a missing one; declare all of them."),
    ],
)  # fmt: skip
def test_records_that_do_not_fit_are_refused_without_their_values(column, value, message):
    values = list(RECORDS[column])
    values[1] = value
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        sd.NoiseDescription(ENTRIES).read({**RECORDS, column: values})
    assert "secret" not in str(caught.value)
    assert "fill" not in str(caught.value).replace("filled", "")


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"no column named year\. Name them as they are declared"):
        sd.NoiseDescription(ENTRIES).read({name: values for name, values in RECORDS.items() if name != "year"})
