"""The page of a fit is whole in itself, escaped, and says what the fit says."""

import dataclasses
import math
import re
import time

import numpy as np
import pytest
from browser import Browser
from pages import HOSTILE, Reader

import symdebias as sd
from symdebias.exceptions import PrivacyError
from symdebias.inference import Inference

INSIDE = {
    "html", "head", "title", "style", "body", "main", "section", "footer", "h1", "h2", "p", "dl", "dt", "dd", "span",
    "i", "div", "table", "thead", "tbody", "tr", "th", "td", "figure", "math", "mrow", "mfrac", "msup", "mi", "mn",
    "mo", "mtext", "svg", "text",
}  # fmt: skip
EMPTY = {"meta", "rect", "line", "circle"}
COVARIANCE = np.array([[0.04, 0.01], [0.01, 0.09]])


class Page(Reader):
    """A whole page; elements without content are not closed."""

    def handle_starttag(self, tag, attributes):
        super().handle_starttag(tag, attributes)
        for name, value in attributes:
            assert not name.startswith("on")
            # Nothing is fetched: the one address-like thing is the policy, which forbids it.
            assert name not in {"src", "href", "action", "data", "poster", "srcset"}
            assert "url(" not in (value or "")
        if tag in EMPTY:
            self.open.pop()

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in EMPTY:
            self.open.pop()

    def handle_decl(self, decl):
        assert decl == "DOCTYPE html"


def made(names=("age", HOSTILE), *, solver="by hand", inference=True, loss=None, **options):
    release = sd.Release({names: sd.GaussianMechanism(4.0, 1e-5, radius=1.0)}, center=dict.fromkeys(names, 0.0))
    return sd.Fit.of(
        sd.debias(loss or sd.losses.least_squares(), release), np.array([1.5, -0.5]), solver=solver, records=1_000,
        steps=2, began=time.perf_counter(), inference=Inference(COVARIANCE, "sandwich") if inference else None,
        **options,
    )  # fmt: skip


def test_a_page_holds_all_that_it_shows_and_names_are_text(tmp_path):
    known = {"noise_inflation": 4.0, "carrying_share": 0.25}
    fit, naive = made(notes=(HOSTILE,), diagnostics=known), made(solver="naive", inference=False)
    place = tmp_path / "out.html"
    place.write_text("<!DOCTYPE html>")
    fit.report(place, naive, certify=False)
    text = place.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]
    page = Page(text)
    assert page.tags <= INSIDE | EMPTY
    assert {"math", "table", "i"} <= page.tags
    # Twice in the head, beside its bar, in the table, in the formula of the noise.
    assert page.text.count(HOSTILE) >= 4
    assert "http:" not in text
    assert "https:" not in text
    for words in (
        "by hand: least_squares", "corrected, 95% interval", "naive, no interval", "right at most 98.3% of the time",
        "not certified", "4 times as large", "about as much as 250 would", "25% of the records carry",
    ):  # fmt: skip
        assert words in page.text
    # Bars are where the numbers are: on one axis with a margin of 4% on both sides.
    low, high = -0.5 - 1.959964 * 0.3, 1.5 + 1.959964 * 0.2
    low, span = low - 0.04 * (high - low), 1.08 * (high - low)
    drawn = [float(left) for left in re.findall(r'class="dot" style="left:([0-9.]+)%', text)]
    np.testing.assert_allclose(drawn, 100 * (fit.theta - low) / span, atol=0.006)
    ends = re.findall(r'class="ends" style="left:([0-9.]+)%;width:([0-9.]+)%', text)
    intervals = fit.confidence_interval()
    np.testing.assert_allclose(np.array(ends, float)[:, 0], 100 * (intervals[:, 0] - low) / span, atol=0.006)
    np.testing.assert_allclose(np.array(ends, float)[:, 1], 100 * np.diff(intervals)[:, 0] / span, atol=0.011)


def test_an_interval_without_an_end_reaches_both_edges_and_says_so(tmp_path):
    fit = made()
    curving = np.array([[0.0, 0.0], [0.0, 0.5]])
    fit = dataclasses.replace(fit, inference=dataclasses.replace(fit.inference, curving=curving))
    assert np.isinf(fit.confidence_interval()[1]).all()
    fit.report(tmp_path / "out.html", certify=False)
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert re.findall(r'class="ends" style="left:([0-9.]+)%;width:([0-9.]+)%', text)[1] == ("0.00", "100.00")
    assert re.findall(r'class="open (\w+)"', text) == ["low", "high"]
    assert text.count("(interval without an end)") == 1
    assert "an interval without an end</span>" in text
    made().report(tmp_path / "out.html", certify=False)
    assert "without an end" not in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_metrics_and_calibration_of_a_clustered_fit_are_over_its_clusters(tmp_path):
    """Ten records alike in each cluster: standard errors are sqrt(10) times those of independent records."""
    rng = np.random.default_rng(0)
    once = rng.normal(size=(300, 2))
    X, y = np.repeat(once, 10, axis=0), np.repeat(once @ [1.0, -0.5] + rng.normal(size=300), 10)
    codes = np.repeat(np.arange(300), 10)
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(noiseless=("a", "b")))
    fit = sd.m_estimate(corrected, X, y, clusters=codes)

    def page(**given):
        fit.report(tmp_path / "out.html", X=X, y=y, certify=False, **given)
        text = (tmp_path / "out.html").read_text(encoding="utf-8")
        return Page(text).text, text

    def error(text):
        row = re.search(r"squared_error</th>.*?</tr>", text, flags=re.DOTALL).group(0)
        return float(re.findall(r">([0-9.e-]+)</td>", row)[1])

    words, whole = page(clusters=codes)
    assert "independent" not in words
    alone, plain = page()
    assert alone.count("warning: standard errors and intervals here take records for independent") == 2
    assert error(whole) / error(plain) == pytest.approx(math.sqrt(10), rel=0.05)
    # Records of weight 0 are not there.
    once_each = np.where(np.arange(3000) % 10 == 0, 1.0, 0.0)
    assert error(page(clusters=codes, sample_weight=once_each)[1]) == pytest.approx(error(whole), rel=0.05)


def test_a_certificate_is_measured_for_a_page(tmp_path):
    fit = made()
    fit.report(tmp_path / "out.html")
    assert fit.known_certificate is not None
    assert "variance finite" in Page((tmp_path / "out.html").read_text()).text


def test_calibration_stands_where_it_can_be_estimated(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 2))
    fit = made(names=("a", "b"))
    released = X + rng.normal(size=X.shape) * np.sqrt(fit.corrected.release.feature_variances(2))
    y = X @ fit.theta
    fit.report(tmp_path / "out.html", X=released, y=y, certify=False)
    page = Page((tmp_path / "out.html").read_text())
    assert "svg" in page.tags
    curve = sd.evaluation.calibration_curve(fit, released, y, link="identity")
    assert f"{curve.predicted[0]:.3g}" in page.text
    told = sd.evaluation.evaluate(fit, released, y, metric="r2")
    assert f"r2{told.value:.4g}{told.standard_error:.2g}0" in page.text
    assert "Records that the fit was made of flatter it." in page.text
    assert "logistic in the score" not in page.text
    median = made(names=("a", "b"), loss=sd.losses.exponential())
    median.report(tmp_path / "out.html", X=released, y=np.sign(y), certify=False)
    page = Page((tmp_path / "out.html").read_text())
    assert "Not computed: this loss predicts neither" in page.text
    assert "Not computed: brier, log_loss: the loss of this fit predicts no logistic probabilities" in page.text
    assert "What the bias of accuracy, precision, recall, f1, roc_auc may be takes labels to be logistic" in page.text
    with pytest.raises(ValueError, match="X and y belong together"):
        fit.report(tmp_path / "out.html", X=released)


def test_what_is_no_fit_of_the_same_parameters_is_refused(tmp_path):
    fit = made()
    for call in (lambda **given: fit.report(tmp_path / "out.html", certify=False, **given), fit.plot):
        with pytest.raises(TypeError, match=r"naive must be a fit; got list"):
            call(naive=[1.0, 2.0])
        with pytest.raises(ValueError, match="Fit both to the same columns"):
            call(naive=made(names=("age", "hours")))
    assert not list(tmp_path.iterdir())


def test_a_private_fit_has_no_true_records_on_its_page(tmp_path):
    own = sd.Guarantee(1.0, 0.0, "central", "replace-one")
    fit = made(own_guarantee=own)
    with pytest.raises(PrivacyError, match="would publish what it hides"):
        fit.report(tmp_path / "out.html", made())
    with pytest.raises(PrivacyError, match="would publish what it hides"):
        fit.report(tmp_path / "out.html", X=np.zeros((3, 2)), y=np.zeros(3))
    fit.report(tmp_path / "out.html")
    assert "trusted collector" in Page((tmp_path / "out.html").read_text()).text


def test_cells_have_the_names_of_their_columns_for_narrow_screens(tmp_path):
    made().report(tmp_path / "out.html", certify=False)
    text = (tmp_path / "out.html").read_text()
    (row,) = re.findall(r'<tr><th scope="row">age</th>(.*)</tr>', text)
    cells = re.findall(r'<td data-name="([^"]*)">([^<]*)</td>', row)
    head = re.findall(r'<th scope="col">([^<]*)</th>', text)
    assert [name for name, _ in cells] == head[1:]
    assert dict(cells)["theta"] == "1.5"


def test_symbols_of_vectors_are_explained(tmp_path):
    release = sd.Release(sd.SphericalCapMechanism(4.0, radius=1.0), "margin").bind(("age", "size"))
    fit = sd.Fit.of(
        sd.debias(sd.losses.squared_margin(), release), np.array([1.5, -0.5]), solver="by hand", records=1_000, steps=2,
        began=time.perf_counter(), inference=None,
    )  # fmt: skip
    fit.report(tmp_path / "out.html", certify=False)
    assert re.search(r"<dt>s1</dt>\s*<dd>the sum of theta squared over columns", (tmp_path / "out.html").read_text())


# ---- as a browser lays it out ----------------------------------------------------------------------------

LONG = "a_name_without_a_blank_that_is_much_longer_than_a_phone_is_wide_by_any_measure"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages with all that a page may hold: long names, many columns of the table, a long formula, a calibration."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 2))
    fit, naive = made(names=(LONG, HOSTILE), notes=(HOSTILE, LONG)), made(names=(LONG, HOSTILE), solver="naive")
    fit.report(folder / "names.html", naive)
    fit = made(names=("a", "b"))
    released = X + rng.normal(size=X.shape) * np.sqrt(fit.corrected.release.feature_variances(2))
    fit.report(folder / "calibration.html", X=released, y=X @ fit.theta, certify=False)
    release = sd.Release(sd.SphericalCapMechanism(4.0, radius=1.0), "margin", fit_intercept=True).bind(("age", "size"))
    resolved = sd.debias(sd.losses.logistic(), release).resolve(radius=5.0, score_variance=1.0, n=10_000)
    fit = sd.Fit.of(
        resolved, np.array([1.5, -0.5, 0.1]), solver="by hand", records=1_000, steps=2, began=time.perf_counter(),
        inference=Inference(np.diag([0.04, 0.04, 0.04]), "sandwich"),
    )  # fmt: skip
    fit.report(folder / "formula.html", fit, X=rng.normal(size=(1_000, 3)), certify=False)
    return sorted(folder.iterdir())


@pytest.mark.needs("chromium")
def test_pages_fit_screens_and_paper(pages, tmp_path):
    """A page that is wider than its window, of 1280 pixels, of a phone, or of A4 less its margins, is caught."""
    with Browser(tmp_path) as shown:
        for page in pages:
            for width, media in ((1280, "screen"), (390, "screen"), (320, "screen"), (717, "print")):
                shown.show(page, width, media=media)
                found = shown.overflow()
                assert found["wide"] > width - 20
                assert (found["reach"], found["beyond"]) == (found["wide"], []), (page.name, width, media)
                # The sheet is in force, and its part for narrow screens.
                columns = shown.evaluate("getComputedStyle(document.querySelector('dl')).gridTemplateColumns")
                assert len(columns.split()) == (1 if width < 640 else 2)
            assert shown.paper().startswith(b"%PDF")
            assert shown.evaluate("document.querySelectorAll('script, img, link, iframe').length") == 0
        # What a policy or a mistake in a script would have said; names that look like one have run nothing.
        assert shown.said == []
        # Each of these is seen where it is.
        head = '<meta name="viewport" content="width=device-width">'
        bad = f"{head}<p style='width:800px'>wide</p><script>console.log('here'); none()</script>"
        (tmp_path / "bad.html").write_text(bad)
        shown.show(tmp_path / "bad.html", 390)
        assert "P." in shown.overflow()["beyond"]
        assert len(shown.said) == 2


def test_bars_of_very_different_sizes_have_a_scale_each(tmp_path):
    fit = made(("age", "income"))
    covariance = np.diag([0.04, 1e-10])
    fit = dataclasses.replace(
        fit, theta=np.array([1.5, -0.0004]), inference=dataclasses.replace(fit.inference, covariance=covariance)
    )
    fit.report(tmp_path / "out.html", certify=False)
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    ends = fit.confidence_interval()
    drawn = np.array(re.findall(r'class="ends" style="left:([0-9.]+)%;width:([0-9.]+)%', text), float)
    scaled = ends / np.abs(ends).max(axis=1, keepdims=True)
    span = 1.08 * np.ptp(scaled)
    low = scaled.min() - 0.04 * np.ptp(scaled)
    np.testing.assert_allclose(drawn[:, 0], 100 * (scaled[:, 0] - low) / span, atol=0.006)
    np.testing.assert_allclose(drawn[:, 1], 100 * np.diff(scaled)[:, 0] / span, atol=0.011)
    assert "each line has a scale of its own" in text
    assert "<small>-0.0004</small>" in text
