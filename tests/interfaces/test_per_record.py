"""Weights, clusters and noise scales on the command line: columns without noise, which are no features."""

import argparse
import json
from dataclasses import replace

import numpy as np
import pytest

import symdebias as sd
from symdebias._columns import Table
from symdebias.interfaces import cli
from symdebias.interfaces.cli import compiling, fitting

# Fits on so few records run uncompiled.
FEW = 120
KNOWN = ("weight", "household", "error", "shift")
MEASURED = sd.Release(
    {"x": sd.GaussianMechanism.from_scale(1.0), "z": sd.GaussianMechanism.from_scale(1.0)}, noiseless=KNOWN,
    fit_intercept=True, scale={"x": 2.0, "error": 4.0}, center={"x": 1.0, "error": 0.5},
)  # fmt: skip
LEFT = sd.Release(
    {"x": sd.GaussianMechanism.from_scale(1.0), "z": sd.GaussianMechanism.from_scale(1.0)}, fit_intercept=True,
    scale={"x": 2.0}, center={"x": 1.0},
)  # fmt: skip


def measured(n=FEW):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=n), rng.normal(size=n)
    error = rng.uniform(0.1, 0.5, n)
    known = {
        "weight": rng.integers(1, 4, n).astype(float), "household": np.arange(n) // 3 + 0.0, "error": error,
        "shift": rng.normal(size=n),
    }  # fmt: skip
    columns = {"x": x + error * rng.normal(size=n), "z": z + error * rng.normal(size=n), **known}
    y = x - 0.5 * z + 1 + known["shift"] + 0.3 * rng.normal(size=n)
    return Table(columns), y


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of measured records, whose errors are the noise, in CSV and in Parquet; and the records."""
    place = tmp_path_factory.mktemp("measured")
    X, y = measured()
    released = {
        name: (X[name] - dict(MEASURED.center).get(name, 0.0)) / dict(MEASURED.scale).get(name, 1.0)
        for name in MEASURED.columns
    }
    noised = sd.release.Noised(Table(released), y, MEASURED, seeded=False, hardened=False)
    noised.save(place / "csv", target_name="y")
    noised.save(place / "parquet", target_name="y", format="parquet")
    return place, Table(released), X, y


def said(capsys, *words, code=0):
    assert cli.main([str(word) for word in words]) == code
    shown = capsys.readouterr()
    return shown.err if code else shown.out


ALL = ("--weights", "weight", "--clusters", "household", "--noise-scale", "error", "--offset", "shift")


def expected(released, X, y):
    """The same fit in Python: scales of x are in its own units, of which the release has the halves."""
    matrix = np.column_stack([released["x"], released["z"]])
    given = {
        "sample_weight": X["weight"], "clusters": X["household"], "offset": X["shift"],
        "noise_scale": np.column_stack([X["error"] / 2, X["error"]]),
    }  # fmt: skip
    return matrix, given, sd.m_estimate(sd.debias(sd.losses.least_squares(), LEFT), matrix, y, **given)


@pytest.mark.in_turn
def test_columns_are_taken_out_and_given_to_the_solver(folders, capsys):
    place, *records = folders
    words = ("fit", place / "csv", "--loss", "least-squares", *ALL)
    found = json.loads(said(capsys, *words, "--json"))
    _, _, fit = expected(*records)
    assert found["names"] == ["x", "z", "intercept"]
    assert found["per_record"] == {
        "weights": "weight", "clusters": "household", "noise_scale": {"x": "error", "z": "error"},
    }  # fmt: skip
    np.testing.assert_allclose(found["theta"], fit.theta, rtol=1e-8)
    np.testing.assert_allclose(found["standard_errors"], fit.standard_errors, rtol=1e-8)
    text = said(capsys, *words)
    assert "weight: weights of records; released as it is, and not protected\n" in text
    assert "error: the scale of the noise of x, the scale of the noise of z; released as it is" in text
    assert "cluster" in text


@pytest.mark.in_turn
def test_without_the_options_they_are_features(folders, capsys):
    place, *_ = folders
    found = json.loads(said(capsys, "fit", place / "csv", "--loss", "least-squares", "--l2", "10", "--json"))
    assert set(KNOWN) < set(found["names"])
    assert "per_record" not in found


@pytest.mark.in_turn
def test_a_saved_fit_says_which_columns_it_took(folders, capsys, tmp_path, monkeypatch):
    place, *records = folders
    kept = tmp_path / "fit.npz"
    said(capsys, "fit", place / "csv", "--loss", "least-squares", *ALL, "--save", kept)
    matrix, given, fit = expected(*records)
    value = sd.evaluation.evaluate(fit, matrix, records[2], metric="r2", **given)
    words = ("evaluate", kept, place / "csv", "--json", "--metric")
    for more in ((), ("--weights", "weight", "--noise-scale", "x=error", "z=error")):
        found = json.loads(said(capsys, *words, "r2", *more))
        assert found["value"] == pytest.approx(value.value, rel=1e-8)
        assert found["standard_error"] == pytest.approx(value.standard_error, rel=1e-8)
    every = {one["metric"]: one["value"] for one in json.loads(said(capsys, *words, "all"))["metrics"]}
    assert every["r2"] == pytest.approx(value.value, rel=1e-8)
    page = tmp_path / "page.html"
    said(capsys, "report", kept, place / "csv", "--out", page)
    text = page.read_text()
    assert "take records for independent" not in text
    assert "Not computed: it undoes a noise that is one for all records" in text
    assert "r2" in text
    monkeypatch.setattr(fitting, "_LARGE", 0)
    read = []
    one = sd.evaluation.evaluate
    monkeypatch.setattr(fitting, "evaluate_one", lambda fit, X, y, **how: read.append(X) or one(fit, X, y, **how))
    found = json.loads(said(capsys, "evaluate", kept, place / "parquet", "--metric", "r2", "--json"))
    assert isinstance(read[0], sd.blocks.Rows)
    assert found["value"] == pytest.approx(value.value, rel=1e-8)
    assert found["standard_error"] == pytest.approx(value.standard_error, rel=1e-8)


def test_evaluate_takes_what_a_fit_of_python_does_not_say(folders, capsys, tmp_path):
    place, *records = folders
    _, _, fit = expected(*records)
    fit.save(tmp_path / "fit.npz")
    words = ("evaluate", tmp_path / "fit.npz", place / "csv", "--metric", "r2", "--offset", "shift")
    assert "does not say which columns have them. Name them by --noise-scale" in said(capsys, *words, code=1)
    said(capsys, *words, *ALL[:6])
    assert "made on records of another release" in said(capsys, *words, "--noise-scale", "error", code=1)


@pytest.mark.in_turn
def test_what_a_fit_was_not_made_with_is_refused(folders, capsys, tmp_path):
    place, *_ = folders
    kept = tmp_path / "fit.npz"
    said(capsys, "fit", place / "csv", "--loss", "least-squares", *ALL[:6], "--save", kept)
    words = ("evaluate", kept, place / "csv", "--metric", "r2")
    for more, message in (
        (("--weights", "household"), "--weights 'household' is not 'weight', which this fit was made with"),
        (("--noise-scale", "weight"), "--noise-scale is not that of this fit"),
    ):
        assert message in said(capsys, *words, *more, code=1)
    said(capsys, "fit", place / "csv", "--loss", "least-squares", *ALL[:4], "--l2", "10", "--save", kept)
    assert "'error' is a feature of this fit" in said(capsys, *words, "--noise-scale", "error", code=1)


MISTAKES = {
    "mistyped": (
        "--weights wieght",
        "--weights 'wieght' is no column of these records. Name one of those without noise: weight, household, error, ",
    ),
    "noised": ("--clusters z", "--clusters 'z' is a column with noise"),
    "the target": ("--weights y", "--weights 'y' is the target"),
    "negative weights": ("--weights shift", "--weights 'shift' is -"),
    "negative scales": ("--noise-scale shift", "and a standard deviation is zero or more"),
    "a part of the scales": ("--noise-scale x=error", "--noise-scale says nothing of z, which has noise as well"),
    "scales of no noise": ("--noise-scale shift=error", "names no column with normal noise of a known scale"),
    "twice": ("--noise-scale x=error x=error z=error", "--noise-scale names x twice"),
    "scales mistyped": ("--noise-scale x=error z=eror", "--noise-scale 'eror' is no column of these records"),
    "two uses": ("--weights shift --offset shift", "--weights 'shift' is the offset or the exposure as well"),
    "no correction": ("--noise-scale error --method none", "--method none corrects no noise. Leave --noise-scale out"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_told_in_words(what, folders, capsys):
    words, message = MISTAKES[what]
    told = said(capsys, "fit", folders[0] / "csv", "--loss", "least-squares", *words.split(), code=1)
    assert message in told
    assert told.count("\n") == 1


def test_columns_that_say_nothing_are_refused(capsys, tmp_path):
    _, y = measured()
    alone = sd.Release(noiseless=("weight", "place", "person"))
    X = Table({"weight": np.zeros(FEW), "place": np.full(FEW, 7.0), "person": 2.0**53 + 2 * np.arange(FEW)})
    alone.privatize(X, y).save(tmp_path / "alone")
    words = ("fit", tmp_path / "alone", "--loss", "least-squares")
    for more, message in (
        (("--weights", "weight"), "--weights 'weight' is 0 in every record"),
        (("--clusters", "place"), "--clusters 'place' has a single value"),
        (("--clusters", "person"), "--clusters 'person' has numbers beyond 2^53, which are not told from those beside"),
        (
            ("--clusters", "place", "--weights", "weight", "--offset", "person"),
            "no column is left to fit beside weight, place",
        ),
        (("--noise-scale", "weight"), "no feature here has such. Leave it out"),
    ):
        assert message in said(capsys, *words, *more, code=1)


@pytest.mark.in_turn
def test_categories_are_clusters_and_no_weights(capsys, tmp_path):
    """A village stands for its records as numbers of villages do; the first has no indicator beside an intercept."""
    schema = {
        "epsilon": 60.0,
        "columns": {
            "x": {"bounds": [-5, 5]},
            "village": {"public": True, "categories": list("abcdefgh")},
        },
        "target": {"name": "y", "bounds": [-9, 9], "public": True},
    }  # fmt: skip
    X, y = measured()
    places = np.arange(FEW) % 8
    table = Table({"x": X["x"].clip(-5, 5), "village": np.array(list("abcdefgh"))[places]})
    noised = sd.Release.from_schema(schema).privatize(table, y, random_state=0)
    noised.save(tmp_path / "places", target_name="y")
    words = ("fit", tmp_path / "places", "--loss", "least-squares")
    found = json.loads(said(capsys, *words, "--clusters", "village", "--json"))
    mechanism = dict(noised.release.groups)["x",]
    release = sd.Release({"x": mechanism}, fit_intercept=True)
    matrix = np.asarray(noised.X["x"])[:, None]
    fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), matrix, noised.y, clusters=places)
    assert found["names"] == ["x", "intercept"]
    np.testing.assert_allclose(found["theta"], fit.theta, rtol=1e-8)
    np.testing.assert_allclose(found["standard_errors"], fit.standard_errors, rtol=1e-8)
    assert "--weights 'village' is one of categories, and no number" in said(
        capsys, *words, "--weights", "village", code=1
    )


@pytest.mark.in_turn
def test_outcomes_have_them_beside_their_features(capsys, tmp_path):
    release = sd.Release(
        {"x": sd.GaussianMechanism.from_scale(0.3), "w": sd.GaussianMechanism.from_scale(0.2)},
        noiseless=("weight", "error", "other"), fit_intercept=True,
    )  # fmt: skip
    X, y = measured()
    table = Table({"x": X["x"], "w": y, "weight": X["weight"], "error": X["error"], "other": X["shift"]})
    sd.release.Noised(table, None, release, seeded=False, hardened=False).save(tmp_path / "outcomes")
    kept = tmp_path / "fit.npz"
    words = ("fit", tmp_path / "outcomes", "--loss", "least-squares", "--target", "w", "--save", kept)
    more = ("--weights", "weight", "--noise-scale", "error")
    for features in ((), ("--features", "x")):
        found = json.loads(said(capsys, *words, *more, *features, "--json"))
        assert found["names"] == ["x", *(() if features else ("other",)), "intercept"]
        assert found["per_record"]["noise_scale"] == {"x": "error"}
        said(capsys, "evaluate", kept, tmp_path / "outcomes", "--metric", "r2")


@pytest.mark.in_turn
def test_records_are_not_held_against_the_scale_of_a_card_that_is_not_theirs(capsys, tmp_path):
    """A card of scale 1 for errors of 0.01 is doubted, and not where records have their own."""
    rng = np.random.default_rng(2)
    x = rng.normal(scale=0.5, size=5_000)
    release = sd.Release({"x": sd.GaussianMechanism.from_scale(1.0)}, noiseless=("error",))
    table = Table({"x": x, "error": np.full(5_000, 0.01)})
    sd.release.Noised(table, 2 * x, release, seeded=False, hardened=False).save(tmp_path / "fine")
    words = ("fit", tmp_path / "fine", "--loss", "least-squares", "--json")
    found = json.loads(said(capsys, *words, "--noise-scale", "error"))
    assert found["records_fit_card"]
    assert found["theta"][0] == pytest.approx(2.0, rel=1e-2)
    assert "the records do not fit their card: x (spread)" in said(capsys, *words, code=1)


def test_compile_takes_them_out_as_fits_do(folders, monkeypatch, capsys):
    asked = []

    def note(corrected, columns, **how):
        asked.append((corrected.release.columns, how))
        return compiling.Compiled(0, 0, 0.0)

    monkeypatch.setattr(compiling, "compile_kernels", note)
    words = ("compile", folders[0] / "csv", "--loss", "least-squares", "--processes", "1")
    said(capsys, *words, *ALL)
    said(capsys, *words, "--clusters", "household")
    assert asked == [
        (("x", "z"), {"offset": True, "weighted": True, "noise_scale": True}),
        (("x", "z", "weight", "error", "shift"), {"offset": False, "weighted": False, "noise_scale": False}),
    ]
    assert "is a column of a card, and none was given" in said(capsys, "compile", "--weights", "w", code=1)


def test_names_may_have_the_sign_between_them():
    options = argparse.Namespace(weights=None, clusters=None, noise_scale=["a=b=c=d"])
    release = sd.Release({"a=b": sd.GaussianMechanism.from_scale(1.0)}, noiseless=("c=d",))
    assert dict(fitting.PerRecord.of(options, release).scales) == {"a=b": "c=d"}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """A folder of two outcomes with a guarantee, and with columns without noise."""
    schema = {
        "epsilon": 60.0, "delta": 1e-6,
        "columns": {
            "x": {"bounds": [-5, 5]},
            "pay": {"bounds": [-9, 9], "outcome": True},
            **{name: {"public": True} for name in ("weight", "household", "shift", "shown")},
            "village": {"public": True, "categories": list("abc")},
        },
    }  # fmt: skip
    X, y = measured()
    table = Table({
        "x": X["x"].clip(-5, 5), "pay": y.clip(-9, 9), "weight": X["weight"], "household": X["household"],
        "shift": X["shift"], "shown": y, "village": np.array(list("abc"))[np.arange(FEW) % 3],
    })  # fmt: skip
    place = tmp_path_factory.mktemp("outcomes") / "two"
    noised = sd.Release.from_schema(schema).privatize(table, random_state=0)
    # As if it had no seed, of which a statement of privacy would speak.
    replace(noised, seeded=False).save(place)
    return place


@pytest.mark.in_turn
def test_a_statement_of_privacy_names_columns_beside_features(outcomes, capsys, tmp_path):
    kept, page = tmp_path / "fit.npz", tmp_path / "page.html"
    words = ("fit", outcomes, "--loss", "least-squares", "--target", "pay", "--features", "x", "shown", "--l2", "10")
    more = ("--weights", "weight", "--clusters", "household", "--offset", "shift", "--save", kept)
    assert json.loads(said(capsys, *words, "--json"))["unprotected"] == ["shown"]
    named = ["shift", "weight", "household", "shown"]
    assert json.loads(said(capsys, *words, *more, "--json"))["unprotected"] == named
    told = "ot protected, and released as they are: shift, weight, household, shown."
    for text in (said(capsys, *words, *more), sd.Fit.load(kept).summary()):
        assert told in " ".join(text.split())
    said(capsys, "report", kept, outcomes, "--out", page)
    assert told in page.read_text()


@pytest.mark.parametrize(
    ("features", "option", "column"),
    [
        ("x weight", "--weights", "weight"),
        ("x weight household", "--clusters", "household"),
        ("x village", "--clusters", "village"),
        ("x shift", "--offset", "shift"),
        ("x shift", "--exposure", "shift"),
    ],
)
def test_a_column_has_one_use(features, option, column, outcomes, capsys):
    words = ("fit", outcomes, "--loss", "least-squares", "--target", "pay", "--features", *features.split())
    told = f"{option} '{column}' is one of --features as well, and a column has one use"
    assert told in said(capsys, *words, option, column, code=1)


def test_a_column_of_noise_scales_is_no_feature(capsys, tmp_path):
    noise = sd.GaussianMechanism.from_scale(1.0)
    X, y = measured()
    release = sd.Release({"x": noise, "pay": noise}, noiseless=("error",), fit_intercept=True)
    table = Table({"x": X["x"], "pay": y, "error": X["error"]})
    sd.release.Noised(table, None, release, seeded=False, hardened=False).save(tmp_path / "one")
    words = ("fit", tmp_path / "one", "--loss", "least-squares", "--target", "pay", "--features", "x", "error")
    assert "--noise-scale 'error' is one of --features as well" in said(
        capsys, *words, "--noise-scale", "x=error", code=1
    )


@pytest.mark.parametrize("option", ["--weights", "--clusters", "--offset"])
@pytest.mark.parametrize("column", ["place", "x", "pay"])
def test_columns_without_noise_are_told_beside_chosen_features(option, column, outcomes, capsys):
    words = ("fit", outcomes, "--loss", "least-squares", "--target", "pay", "--features", "x", option, column)
    told = said(capsys, *words, code=1)
    assert f"{option} '{column}' is " in told
    assert "Name one of those without noise: weight, household, shift, shown" in told
    assert ("a column with noise" in told) == (column == "x")
    assert ("is the target" in told) == (column == "pay")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("per_record", "weight"),
        ("per_record", {}),
        ("per_record", {"weight": "weight"}),
        ("per_record", {"weights": 3}),
        ("per_record", {"weights": "weight", "noise_scale": "error"}),
        ("per_record", {"weights": "weight", "noise_scale": {"x": 1.0}}),
        ("known_term", {"ofset": "shift"}),
        ("known_term", {"offset": None}),
        ("outcome", {"target": "pay"}),
        ("outcome", {"target": "pay", "features": "x"}),
        ("outcome", {"target": "pay", "features": (1,)}),
    ],
)
def test_entries_that_no_fit_has_are_refused(entry, value, outcomes, capsys, tmp_path):
    """The file is read as data of strangers: without the entry a fit would be judged on other terms."""
    kept = tmp_path / "fit.npz"
    words = ("--target", "pay", "--features", "x", "--weights", "weight", "--offset", "shift", "--save", kept)
    said(capsys, "fit", outcomes, "--loss", "least-squares", *words)
    fit = sd.Fit.load(kept)
    replace(fit, diagnostics={**fit.diagnostics, entry: value}).save(kept)
    told = said(capsys, "evaluate", kept, outcomes, "--metric", "r2", code=1)
    assert f'the entry "{entry}" of this fit does not name columns as symdebias fit writes it' in told


@pytest.mark.in_turn
def test_what_is_not_protected_is_named_or_refused(outcomes, capsys, tmp_path):
    kept = tmp_path / "fit.npz"
    words = ("--target", "pay", "--features", "x", "--weights", "weight", "--save", kept)
    said(capsys, "fit", outcomes, "--loss", "least-squares", *words)
    fit = sd.Fit.load(kept)
    page = tmp_path / "page.html"
    for value, code in (((), 0), ("weight", 1), ((1,), 1)):
        replace(fit, diagnostics={**fit.diagnostics, "unprotected": value}).save(kept)
        told = said(capsys, "report", kept, outcomes, "--out", page, code=code)
        assert not code or "columns that are not protected is no names" in told
    assert "Not protected, and released as it is: weight." in page.read_text()


@pytest.mark.in_turn
def test_the_fitted_loss_is_a_metric_under_noise_scales_where_its_correction_is_exact(folders, capsys, tmp_path):
    kept = tmp_path / "fit.npz"
    for loss, code in (("least-squares", 0), ("huber", 1)):
        said(capsys, "fit", folders[0] / "csv", "--loss", loss, *ALL, "--save", kept)
        told = said(capsys, "evaluate", kept, folders[0] / "csv", "--metric", "loss", code=code)
        assert not code or "exact" in told
