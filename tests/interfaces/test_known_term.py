"""Offsets and exposures on the command line: columns without noise, whose parameter is 1."""

import json

import numpy as np
import pytest

import symdebias as sd
from symdebias._columns import Table
from symdebias.interfaces import cli
from symdebias.interfaces.cli import fitting

# Fits on so few records run uncompiled.
FEW = 100
COUNTS = sd.Release(
    {"x": sd.GaussianMechanism.from_scale(0.3)}, noiseless=("years", "known"), fit_intercept=True,
    center={"years": 5.0}, scale={"years": 5.0},
)  # fmt: skip
LABELS = sd.Release({"x": sd.GaussianMechanism.from_scale(0.3)}, sd.RandomizedResponse(4.0), noiseless=("known", "z"))


def records(n=FEW):
    rng = np.random.default_rng(0)
    x, years, known = rng.normal(size=n), rng.uniform(0.5, 9.5, n), rng.normal(size=n)
    events = rng.poisson(years * np.exp(0.5 * x + 0.4 * known - 1))
    ill = np.where(x - 0.5 + known > rng.logistic(size=n), 1.0, -1.0)
    return x, years, known, events, ill


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of counts, one of labels, and their records without the column of the offset."""
    place = tmp_path_factory.mktemp("known")
    x, years, known, events, ill = records()
    counts = COUNTS.privatize(Table({"x": x, "years": years, "known": known}), events, random_state=1)
    labels = LABELS.privatize(Table({"x": x, "known": known, "z": x**2}), ill, random_state=1)
    counts.save(place / "counts", target_name="events")
    labels.save(place / "labels", target_name="ill")
    return place, counts, labels


def said(capsys, *words, code=0):
    assert cli.main([str(word) for word in words]) == code
    shown = capsys.readouterr()
    return shown.err if code else shown.out


def test_an_exposure_is_taken_out_of_the_columns_in_its_own_units(folders, capsys):
    place, counts, _ = folders
    found = json.loads(said(capsys, "fit", place / "counts", "--loss", "poisson", "--exposure", "years", "--json"))
    release = sd.Release({"x": sd.GaussianMechanism.from_scale(0.3)}, noiseless=("known",), fit_intercept=True)
    X = np.column_stack([counts.X["x"], counts.X["known"]])
    expected = sd.m_estimate(sd.debias(sd.losses.poisson(), release), X, counts.y, offset=np.log(records()[1]))
    assert (found["names"], found["known_term"]) == (["x", "known", "intercept"], {"exposure": "years"})
    np.testing.assert_allclose(found["theta"], expected.theta, rtol=1e-7)
    np.testing.assert_allclose(found["standard_errors"], expected.standard_errors, rtol=1e-6)
    text = said(capsys, "fit", place / "counts", "--loss", "poisson", "--exposure", "years")
    assert text.startswith("years: an exposure, which has no parameter; released as it is, and not protected\n")


@pytest.mark.in_turn
def test_a_saved_fit_says_which_column_it_took(folders, capsys, tmp_path):
    """Of labels an offset is a column that is held: it is refused by no metric."""
    place, _, labels = folders
    kept = tmp_path / "fit.npz"
    said(capsys, "fit", place / "labels", "--loss", "exponential", "--offset", "known", "--save", kept)
    fit = sd.Fit.load(kept)
    assert (fit.names, fit.diagnostics["known_term"]) == (("x", "z"), {"offset": "known"})
    X = np.column_stack([labels.X["x"], labels.X["z"]])
    expected = sd.evaluation.evaluate(fit, X, labels.y, metric="accuracy", offset=labels.X["known"])
    for words in ([], ["--offset", "known"]):
        found = json.loads(said(capsys, "evaluate", kept, place / "labels", "--metric", "accuracy", "--json", *words))
        assert found["value"] == pytest.approx(expected.value, rel=1e-12)
    every = said(capsys, "evaluate", kept, place / "labels", "--metric", "all")
    assert "accuracy" in every
    page = tmp_path / "page.html"
    said(capsys, "report", kept, place / "labels", "--out", page)
    text = page.read_text()
    assert "has an offset, and" not in text
    assert "How good the predictions are" in text


def test_a_large_folder_is_read_by_blocks(folders, capsys, tmp_path, monkeypatch):
    place, counts, _ = folders
    counts.save(tmp_path / "parquet", format="parquet", target_name="events")
    kept = tmp_path / "fit.npz"
    said(capsys, "fit", place / "counts", "--loss", "poisson", "--exposure", "years", "--save", kept)
    words = ("evaluate", kept, tmp_path / "parquet", "--metric", "poisson", "--json")
    expected = json.loads(said(capsys, *words))
    monkeypatch.setattr(fitting, "_LARGE", 0)
    read = []
    one = sd.evaluation.evaluate
    monkeypatch.setattr(fitting, "evaluate_one", lambda fit, X, y, **how: read.append(X) or one(fit, X, y, **how))
    found = json.loads(said(capsys, *words))
    assert isinstance(read[0], sd.blocks.Rows)
    assert found["value"] == pytest.approx(expected["value"], rel=1e-10)
    assert found["standard_error"] == pytest.approx(expected["standard_error"], rel=1e-10)


MISTAKES = {
    "no column": ("--exposure year", "'year' is no column of these records. Name one of those without noise: years"),
    "a noised column": ("--offset x", "is a column with noise, and what is known of a record has none"),
    "the target": ("--exposure events", "--exposure 'events' is the target"),
    "not positive": ("--exposure known", "is -0.663535 in row 1, and an exposure is positive"),
    "another mean": ("--loss least-squares --exposure years", "predicts another mean. Use --loss poisson"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_told_in_words(what, folders, capsys):
    words, message = MISTAKES[what]
    loss = [] if "--loss" in words else ["--loss", "poisson"]
    told = said(capsys, "fit", folders[0] / "counts", *loss, *words.split(), code=1)
    assert message in told
    assert told.count("\n") == 1


def test_what_does_not_go_together_is_refused(folders, capsys, tmp_path):
    place, counts, _ = folders
    with pytest.raises(SystemExit):
        cli.main(["fit", "folder", "--loss", "poisson", "--offset", "a", "--exposure", "b"])
    assert "not allowed with" in capsys.readouterr().err
    plain, kept, older = (tmp_path / name for name in ("plain.npz", "kept.npz", "older.npz"))
    said(capsys, "fit", place / "counts", "--loss", "poisson", "--exposure", "years", "--save", kept)
    judged = (place / "counts", "--metric", "poisson")
    assert "is not --exposure 'years', which this fit was made with" in said(
        capsys, "evaluate", kept, *judged, "--offset", "years", code=1
    )
    said(capsys, "fit", place / "labels", "--loss", "exponential", "--save", plain)
    assert "for a fit with an offset, and this one has none" in said(
        capsys, "evaluate", plain, place / "labels", "--metric", "log_loss", "--offset", "known", code=1
    )
    release = sd.Release({"x": sd.GaussianMechanism.from_scale(0.3)}, noiseless=("known",), fit_intercept=True)
    X = np.column_stack([counts.X["x"], counts.X["known"]])
    made = sd.m_estimate(sd.debias(sd.losses.poisson(), release), X, counts.y, offset=np.log(records()[1]))
    made.save(older)
    assert "does not say which column it was. Name it by --offset" in said(capsys, "evaluate", older, *judged, code=1)
    found = json.loads(said(capsys, "evaluate", older, *judged, "--exposure", "years", "--json"))
    expected = json.loads(said(capsys, "evaluate", kept, *judged, "--json"))
    assert found["value"] == pytest.approx(expected["value"], rel=1e-5)
    assert "made on records of another release" in said(capsys, "evaluate", older, *judged, "--offset", "known", code=1)


def test_folders_without_a_column_for_it(capsys, tmp_path):
    x, years, *_, events, _ = records()
    alone = sd.Release(noiseless=("years",), fit_intercept=True)
    alone.privatize(Table({"years": years}), events).save(tmp_path / "alone")
    noised = sd.Release({"x": sd.GaussianMechanism.from_scale(0.3)})
    noised.privatize(Table({"x": x}), events, random_state=0).save(tmp_path / "noised")
    for folder, column, message in (
        ("alone", "years", "is the only column, and leaves none to fit"),
        ("noised", "years", "No column of numbers is without noise"),
    ):
        assert message in said(
            capsys, "fit", tmp_path / folder, "--loss", "poisson", "--exposure", column, code=1
        )  # fmt: skip


def test_categories_are_no_offset(capsys, tmp_path):
    schema = {
        "epsilon": 60.0,
        "columns": {
            "x": {"bounds": [-5, 5]},
            "years": {"public": True, "bounds": [0, 10]},
            "place": {"public": True, "categories": ["n", "e", "s"]},
        },
        "target": {"name": "events", "bounds": [0, 500], "public": True},
    }  # fmt: skip
    x, years, _, events, _ = records()
    table = Table({"x": x.clip(-5, 5), "years": years, "place": np.array(["n", "e", "s"] * 34)[:FEW]})
    sd.Release.from_schema(schema).privatize(table, events, random_state=0).save(tmp_path / "places")
    words = ("fit", tmp_path / "places", "--loss", "poisson", "--exposure")
    for name in ("place", "place=e"):
        assert "Name one of those without noise: years." in said(capsys, *words, name, code=1)
    found = json.loads(said(capsys, *words, "years", "--json"))
    assert found["names"] == ["x", "place=e", "place=s", "intercept"]
