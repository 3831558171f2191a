"""Pictures of label noise: what is drawn is what was given."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import symdebias as sd
from symdebias.inference import Inference
from symdebias.interfaces import plotting


def test_the_picture_of_a_randomizer_shows_its_matrix(tmp_path):
    randomizer = sd.optimal_unbiased_randomizer((1, 2, 4, 8), (0.4, 0.3, 0.2, 0.1), 1.0)
    figure = plotting.randomizer_matrix(randomizer)
    bars, panel = figure.axes[:2]
    matrix = np.array(randomizer.matrix)
    (image,) = panel.collections
    shown = image.get_array().reshape(matrix.shape)
    np.testing.assert_allclose(shown, np.log(matrix / matrix.min(axis=0)))
    # Columns of the optimum are mostly two-valued, and none exceeds the scale of colours.
    assert shown.max() <= image.get_clim()[1] == 1.0
    heights = [bar.get_height() for bar in bars.patches]
    np.testing.assert_allclose(heights, np.array(randomizer.prior) @ matrix)
    assert sum(heights) == pytest.approx(1)
    assert [tick.get_text() for tick in panel.get_xticklabels()] == [f"{output:.3g}" for output in randomizer.outputs]
    # Unequal labels have cells of their own size.
    assert image.get_coordinates()[:, 0, 1].tolist() == [0.5, 1.5, 3.0, 6.0, 10.0]
    plotting.save(figure, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_many_outputs_have_few_names_and_jumps_are_marked():
    labels = range(1, 31)
    best = sd.optimal_unbiased_randomizer(labels, np.full(30, 1 / 30), 1.0)
    for randomizer in (best, sd.labels.debiased_randomized_response(labels, 1.0)):
        panel = plotting.randomizer_matrix(randomizer).axes[1]
        assert len(panel.get_xticks()) == 12
        marked = [line.get_xdata()[0] for line in panel.lines]
        assert ("dashed" in panel.get_xlabel()) == bool(marked)
        # Under an even prior the outputs leave out two intervals, as wide as most of the labels.
        gaps = np.diff(randomizer.outputs)
        assert marked == (np.sort(np.argsort(gaps)[-2:]) + 0.5).tolist() if randomizer is best else not marked


def curve(level, unbiased):
    steps = np.array([4.0, 2.0, 1.0])
    return plotting.LabelCurve((0.5, 1.0, 2.0), level * steps, 0.1 * steps, steps + level, 0.2 * steps, unbiased)


def test_the_picture_of_label_losses_has_a_line_per_mechanism(tmp_path):
    curves = {"best": curve(10.0, True), "other": curve(20.0, True), "pulled in": curve(1.0, False)}
    figure = plotting.label_losses(curves, {"true labels": 1.5})
    left, right = figure.axes
    for (name, given), drawn, tested in zip(curves.items(), left.containers, right.containers, strict=True):
        line, _, (bars,) = drawn.lines
        np.testing.assert_array_equal(line.get_data(), [given.epsilons, given.noisy])
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, np.column_stack([given.noisy - 2 * given.noisy_error] * 2) + np.outer(
            4 * given.noisy_error, [0, 1]
        ))  # fmt: skip
        np.testing.assert_array_equal(tested.lines[0].get_ydata(), given.test)
        assert line.get_linestyle() == ("-" if given.unbiased else "--")
        assert drawn.get_label() == (name if given.unbiased else "pulled in (biased)")
    assert len({drawn.lines[0].get_color() for drawn in left.containers[:2]}) == 2
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["best", "other", "pulled in (biased)", "true labels"]
    plotting.save(figure, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_label_losses_without_references():
    figure = plotting.label_losses({"only": curve(1.0, True)})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["only"]


def test_label_losses_above_those_without_noise():
    figure = plotting.label_losses({"only": curve(1.0, True)}, {"mean": 7.0}, without_noise=2.0)
    right = figure.axes[1]
    np.testing.assert_allclose(right.containers[0].lines[0].get_ydata(), [3.0, 1.0, 0.0])
    assert "above the 2 without noise" in right.get_ylabel()
    # What is not above it does not stretch the axis, and the reference is moved along.
    assert right.get_ylim()[0] == 0.5
    assert [line.get_ydata()[0] for line in right.lines if line.get_label() == "mean"] == [5.0]


def test_a_picture_that_cannot_be_written_leaves_the_old_one(tmp_path):
    class Torn:
        def savefig(self, stream, **_):
            stream.write(b"half of a pic")
            raise OSError(28, "No space left on device")

    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG the old one")
    with pytest.raises(OSError, match="No space left"):
        plotting.save(Torn(), path)
    assert path.read_bytes() == b"\x89PNG the old one"
    assert list(tmp_path.iterdir()) == [path]


def test_coefficients_are_drawn_with_their_intervals():
    """What is drawn is what the table has; a name with dollar signs is text."""
    names = ("$a_1$", "a column of a name that is longer than there is room for")
    fits = []
    for inference in (Inference(np.diag([0.04, 0.09]), "sandwich"), None):
        corrected = sd.debias(sd.losses.least_squares(), sd.Release({names: sd.GaussianMechanism.from_scale(0.5)}))
        fits.append(
            sd.Fit.of(corrected, np.array([1.5, -0.5]), solver="naive", records=1, steps=1, began=0.0,
                      inference=inference)
        )  # fmt: skip
    figure = fits[0].plot(fits[1], level=0.9)
    (panel,) = figure.axes
    (bars,) = panel.containers
    drawn = np.array([segment[:, 0] for segment in bars.lines[2][0].get_segments()])
    np.testing.assert_allclose(drawn, fits[0].confidence_interval(0.9))
    np.testing.assert_array_equal(panel.lines[-1].get_xdata(), fits[1].theta)
    figure.draw_without_rendering()
    assert [tick.get_text() for tick in panel.get_yticklabels()] == [r"\$a_1\$", names[1][:14] + "..." + names[1][-15:]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "corrected, 90% interval", "naive, no interval"
    ]  # fmt: skip
    # Nothing hangs over the edge.
    for tick in panel.get_yticklabels():
        assert tick.get_window_extent().x0 >= 0


def test_an_interval_without_an_end_leaves_the_picture_with_an_arrow():
    corrected = sd.debias(sd.losses.least_squares(), sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.5)}))
    inference = Inference(np.diag([0.04, 0.09]), "sandwich", curving=np.array([[0.0, 0.5], [0.0, 0.0]]))
    fit = sd.Fit.of(
        corrected, np.array([1.5, -0.5]), solver="m_estimate", records=1, steps=1, began=0.0, inference=inference
    )
    ends = fit.confidence_interval()
    assert np.isinf(ends[0]).all()
    figure = fit.plot()
    (panel,) = figure.axes
    (bars,) = panel.containers
    low, high = panel.get_xlim()
    first, second = (segment[:, 0] for segment in bars.lines[2][0].get_segments())
    assert first[0] < low < second[0] < second[1] < high < first[1]
    np.testing.assert_allclose(second, ends[1])
    arrows = {line.get_marker(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in panel.lines[-2:]}
    assert arrows == {"<": ([low], [0.0]), ">": ([high], [0.0])}
    figure.draw_without_rendering()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "corrected, 95% interval (arrows: without an end)"
    ]  # fmt: skip


def test_a_plan_of_many_mechanisms_has_a_line_for_each_and_the_budgets_that_were_asked_for():
    """Composed budgets are a little below; a mechanism may be missing at some of them."""

    def expected(epsilon, error):
        release = sd.Release(sd.LaplaceMechanism(epsilon * (1 - 5e-5), radius=1.0))
        return SimpleNamespace(
            release=release, standard_errors=np.array([error]), without_noise=np.array([0.01]), records=1e6
        )

    budgets = (2.0, 4.0, 8.0, 16.0)
    curves = {f"mechanism {k}": [expected(one, (k + 1) / one) for one in budgets] for k in range(8)}
    curves["one that is refused at small ones"] = [expected(16.0, 0.3)]
    figure = plotting.planned_errors(curves)
    (panel,) = figure.axes
    figure.draw_without_rendering()
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["2", "4", "8", "16"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*curves, "true records"]
    assert len({(line.get_color(), line.get_linestyle()) for line in panel.lines}) == len(curves) + 1
    # The line of true records is as long as the longest.
    assert len(panel.lines[-1].get_xdata()) == len(budgets)


def test_errors_of_a_plan_within_one_power_of_ten_have_numbers_on_their_axis():
    fits = [
        SimpleNamespace(
            release=sd.Release(sd.LaplaceMechanism(epsilon, radius=1.0)), standard_errors=np.array([error]),
            without_noise=np.array([0.02]), records=1e6,
        )
        for epsilon, error in ((2.0, 0.08), (4.0, 0.05), (8.0, 0.03))
    ]  # fmt: skip
    (panel,) = plotting.planned_errors({"laplace": fits}).axes
    low, high = panel.get_ylim()
    assert [f"{tick:g}" for tick in panel.get_yticks() if low <= tick <= high] == ["0.02", "0.05"]


def test_coefficients_of_very_different_sizes_have_a_line_with_a_scale_of_its_own():
    """On one axis a coefficient per euro, surely not 0, was a point at 0."""
    corrected = sd.debias(sd.losses.least_squares(), sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.5)}))
    fits = [
        sd.Fit.of(
            corrected, np.array([1.5, -0.0004]), solver=solver, records=1, steps=1, began=0.0, inference=inference
        )
        for solver, inference in (("m_estimate", Inference(np.diag([0.04, 1e-10]), "sandwich")), ("naive", None))
    ]
    figure = fits[0].plot(fits[1])
    panel, numbers = figure.axes
    (bars,) = panel.containers
    drawn = np.array([segment[:, 0] for segment in bars.lines[2][0].get_segments()])
    ends = fits[0].confidence_interval()
    np.testing.assert_allclose(drawn, ends / np.abs(ends).max(axis=1, keepdims=True))
    np.testing.assert_allclose(panel.lines[-1].get_xdata(), fits[1].theta / np.abs(ends).max(axis=1))
    figure.draw_without_rendering()
    assert [tick.get_text() for tick in numbers.get_yticklabels()] == ["1.5", "-0.0004"]
    assert "scale of its own" in panel.get_xlabel()
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["0"]
    assert len(dataclasses.replace(fits[0], theta=np.array([1.5, -0.1])).plot().axes) == 1
