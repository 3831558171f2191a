"""What messages of the library say on the command line."""

import argparse
import json

import numpy as np
import pytest

import symdebias as sd
from symdebias._columns import Table
from symdebias.driver import METHODS
from symdebias.interfaces import cli
from symdebias.interfaces.cli import wording
from symdebias.interfaces.cli.wording import in_options

FIT = argparse.Namespace(
    l2=0.0, method="auto", order=None, loss="logistic", weights=None, clusters=None, noise_scale=None, offset=None
)
SAID = {
    "Raise l2, use more records.": "Raise --l2, use more records.",
    "On these records l2=0.1 gives a fit.": "On these records --l2=0.1 gives a fit.",
    'pass method="series", order=2 and read its bias off corrected.certificate':
        "pass --method series, --order=2 and read its bias off the page of symdebias report",
    "sample_weight is negative in row 3.": "--weights is negative in row 3.",
    "Leave noise_scale out.": "Leave --noise-scale out.",
    "Pass offset=, with zeros for an exposure of 1": "Pass --offset, with zeros for an exposure of 1",
    "Take logistic() for labels, least_squares() for numbers.": "Take logistic for labels, least-squares for numbers.",
    "the negative_binomial loss": "the negative-binomial loss",
    "sd.planning.records_needed says it for a population that you guess":
        "symdebias plan says it for a population that you guess",
    "In Python sd.checks.check_records has more": "In Python sd.checks.check_records has more",
    "Ask for the file that fit.save() wrote.": "Ask for the file that symdebias fit --save wrote.",
    "labels have 1. Give target_values= as they are coded, or a metric of numbers.":
        "labels have 1. Take a metric of numbers.",
    "labels have 1. Noise labels as the loss has them, or declare target_values on the loss.":
        "labels have 1. Take a loss of numbers, such as least-squares or poisson; of labels, release them as two "
        "categories.",
    "Evaluate squared_error, r2, poisson or a Loss with an exact correction; or take records of one noise, and pass "
    "release= with it.":
        "Evaluate squared_error, r2, poisson or, of a fit whose correction is exact, loss; or take records of one "
        "noise.",
    "a fit that undoes the noise of the card is wrong; fit each label against one of them":
        "a fit that undoes the noise of the card is wrong; in Python fit each label against one of them",
    "descent is lost. Use a smaller step, or bound theta with radius=. 'Raise l2.'":
        "descent is lost. Use a smaller step, or bound theta with radius=. 'Raise l2.'",
    # Words of users stay, and so does what represents an object.
    "Name one of those without noise: sample_weight, noise_scale, least_squares, l2, offset.":
        "Name one of those without noise: sample_weight, noise_scale, least_squares, l2, offset.",
    "level=2, method=series and l2=1 are indicators": "level=2, method=series and l2=1 are indicators",
    "column sample_weight is negative in row 3 of the fit's records, and 'Raise l2, or' isn't a column. Raise l2.":
        "column sample_weight is negative in row 3 of the fit's records, and 'Raise l2, or' isn't a column. Raise "
        "--l2.",
    "GaussianMechanism(epsilon=5.0, delta=1e-05, radius=1.0) has its scale from its budget. Leave noise_scale out, or":
        "GaussianMechanism(epsilon=5.0, delta=1e-05, radius=1.0) has its scale from its budget. Leave --noise-scale "
        "out, or",
    "level=90.0 is too large": "level=90.0 is too large",
    "l2=-1 is too small. It must be": "--l2=-1 is too small. It must be",
    "order=0 is too small. It must be": "--order=0 is too small. It must be",
    "method='exakt' is not known. Choose": "--method 'exakt' is not known. Choose",
    # What is no word of the command stays.
    "threshold=1 is too small, and f(l2=1) and x.sample_weight are no options":
        "threshold=1 is too small, and f(l2=1) and x.sample_weight are no options",
}  # fmt: skip


@pytest.mark.parametrize("text", SAID)
def test_messages_have_the_words_of_a_command(text):
    assert in_options(text, FIT) == SAID[text]


def test_methods_are_those_of_the_library():
    assert wording._METHODS == METHODS


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders of labels, of counts and of three parties, with fits to the first two."""
    place = tmp_path_factory.mktemp("wording")
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    noise = sd.GaussianMechanism.from_scale(0.2)
    targets = {
        "labels": (sd.RandomizedResponse(5.0), np.where(2 * x > rng.logistic(size=300), 1, -1)),
        "counts": (None, rng.poisson(np.exp(x))),
        "parties": (sd.RandomizedResponse(5.0, categories=(0, 1, 2)), rng.integers(0, 3, 300)),
    }
    for name, (target, y) in targets.items():
        release = sd.Release({"x": noise}, target, fit_intercept=True)
        release.privatize(Table({"x": x}), y, random_state=1).save(place / name)
    for name, loss in (("labels", "exponential"), ("counts", "poisson")):
        words = ["fit", str(place / name), "--loss", loss, "--save", str(place / f"{name}.npz"), "--json"]
        assert cli.main(words) == 0
    return place


REFUSED = {
    "evaluate counts.npz counts --metric squared_error": "Take --metric loss, that of the fit",
    "evaluate counts.npz counts --metric accuracy": "take a loss or a metric of numbers, or release labels as two",
    "evaluate labels.npz labels --metric f1 --radius -1": "--radius=-1.0 is too small",
    "evaluate labels.npz labels --metric log_loss --threshold 1": "--threshold=1.0 is a score",
    "fit counts --loss exponential": "take a loss or a metric of numbers, or release labels as two",
    "fit labels --loss poisson": "logistic for labels -1 and +1, least-squares for numbers",
    "fit parties --loss logistic": "the target has 3 labels, and --loss logistic is of two. Take --loss softmax.",
    "fit parties --loss softmax": "or pass --method series, --order=2 and read its bias off the page of",
    "plan --loss logistic --epsilon 4 --columns 3 --records 9 --spread 2": "--spread=2 is more than columns in [-1, 1]",
    "plan --loss logistic --epsilon -4 --columns 3 --records 9": "--epsilon=-4.0 is too small",
    "ledger none --population us": "symdebias privatize begins one, by --ledger and --total",
    "audit counts/records.csv": "records.csv: this is not a release card",
    "fit counts.npz --loss poisson": "Ask for the whole folder that symdebias privatize wrote.",
    "evaluate counts/card.json counts --metric r2": "Ask for the file that symdebias fit --save wrote.",
}


@pytest.mark.in_turn
@pytest.mark.parametrize("words", REFUSED)
def test_refusals_say_what_to_do_on_the_command_line(words, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert cli.main(words.split()) == cli.FAILED
    said = capsys.readouterr().err
    assert REFUSED[words] in said
    for python in ("fit.corrected", "sd.losses.l", "target_values", "release=", "noise_scale"):
        assert python not in said


def test_the_loss_that_was_fitted_is_a_metric(place, capsys):
    words = ["evaluate", str(place / "counts.npz"), str(place / "counts"), "--metric", "loss", "--json"]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    fit, noised = sd.Fit.load(place / "counts.npz"), sd.load(place / "counts")
    expected = sd.evaluation.evaluate(fit, noised.X, noised.y, metric=fit.corrected.declared)
    assert (found["value"], found["standard_error"]) == (expected.value, expected.standard_error)


@pytest.mark.in_turn
def test_a_series_has_an_order(place, capsys):
    words = ["fit", str(place / "labels"), "--loss", "logistic", "--method", "series", "--order", "1", "--json"]
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "series"


@pytest.mark.in_turn
def test_a_page_stands_without_a_fit_that_ignores_the_noise(place, capsys, tmp_path):
    """The uncorrected hinge loss has no derivative that a standard error could be told from."""
    kept, page = tmp_path / "fit.npz", tmp_path / "page.html"
    assert cli.main(["fit", str(place / "labels"), "--loss", "hinge", "--save", str(kept), "--json"]) == 0
    assert cli.main(["report", str(kept), str(place / "labels"), "--out", str(page)]) == 0
    assert "the page has no fit that ignores the noise beside this one" in capsys.readouterr().err
    assert "Coefficients" in page.read_text()


@pytest.mark.in_turn
def test_another_folder_than_that_of_an_outcome_is_told_by_its_columns(place, capsys, tmp_path):
    noise = sd.GaussianMechanism.from_scale(0.2)
    release = sd.Release({"x": noise, "w": noise}, fit_intercept=True)
    X = np.random.default_rng(0).normal(size=(200, 2))
    sd.release.Noised(Table(dict(zip("xw", X.T, strict=True))), None, release, False, False).save(tmp_path / "outcomes")
    kept = str(tmp_path / "fit.npz")
    fit = ["fit", str(tmp_path / "outcomes"), "--loss", "least-squares", "--target", "w", "--save", kept, "--json"]
    assert cli.main(fit) == 0
    assert cli.main(["evaluate", kept, str(place / "counts"), "--metric", "r2"]) == cli.FAILED
    assert "the target 'w' is no column of this folder, whose columns are x." in capsys.readouterr().err


@pytest.mark.in_turn
def test_a_table_has_the_names_that_users_gave(capsys, tmp_path):
    """Columns are called as arguments, losses and their numbers are; the table stays aligned."""
    names = ("noise_scale", "sample_weight", "least_squares", "radius=2")
    noise = sd.GaussianMechanism.from_scale(0.3)
    release = sd.Release({"noise_scale": noise}, noiseless=names[1:], fit_intercept=True)
    X = np.random.default_rng(0).normal(size=(200, 4))
    noised = sd.release.Noised(Table(dict(zip(names, X.T, strict=True))), X[:, 0], release, False, False)
    noised.save(tmp_path / "named", target_name="y")
    words = ["fit", str(tmp_path / "named"), "--loss", "least-squares", "--save", str(tmp_path / "fit.npz")]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    _, rest = sd.Fit.load(tmp_path / "fit.npz").summary().split("\n" + "-" * 20, 1)
    table = rest.split("\n" + "=" * 20)[0]
    assert table in text
    assert all(f"\n{name} " in table for name in names)
    assert "(symdebias report measures it)" in text
    assert cli.main([*words, "--weights", "w"]) == cli.FAILED
    told = capsys.readouterr().err
    assert "Name one of those without noise: sample_weight, least_squares, radius=2.\n" in told
