"""Charts of the gallery: what is drawn is what was given."""

import numpy as np
import pytest

from symdebias.interfaces import panels


def line(values, **options):
    values = np.array(values, float)
    return panels.Line(np.arange(1.0, len(values) + 1), values, **options)


def test_lines_are_drawn_with_their_errors_and_named_once(tmp_path):
    few = line([4.0, 2.0, 1.0], error=np.full(3, 0.5))
    many = line(np.linspace(3, 1, 20), error=np.full(20, 0.25))
    first = panels.Panel("first", "records", "error", {"few": few, "planned": line([4, 2, 1], like="few")})
    second = panels.Panel("second", "records", "error", {"few": few, "many": many}, levels={"truth": 2.0})
    figure = panels.lines([first, second])
    above, below = figure.axes
    drawn, planned = above.containers
    np.testing.assert_array_equal(drawn.lines[0].get_data(), [few.x, few.y])
    (bars,) = drawn.lines[2]
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_array_equal(ends, [[3.5, 4.5], [1.5, 2.5], [0.5, 1.5]])
    assert planned.lines[0].get_color() == drawn.lines[0].get_color() == below.containers[0].lines[0].get_color()
    # Many points have a band.
    (band,) = [part for part in below.collections if part.get_alpha()]
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0.75, 3.25)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["few", "many", "truth"]
    panels.save(figure, tmp_path / "new", "picture")
    assert (tmp_path / "new" / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_logarithmic_axis_is_kept_to_what_is_drawn():
    """An error that reaches below zero does not stretch it."""
    panel = panels.Panel(
        "", "n", "error", {"one": line([0.4, 0.02], error=np.array([0.1, 0.02]))}, log="xy", ticks=(1, 2_000_000)
    )
    (axis,) = panels.lines([panel]).axes
    assert axis.get_ylim()[0] == 0.01
    (bars,) = axis.containers[0].lines[2]
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, np.outer([0.4, 0.02], [1, 1]) * np.exp(np.outer([0.25, 1.0], [-1, 1])))
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["1", "2M"]


def test_marks_of_nearly_the_same_height_are_not_cut():
    panel = panels.Panel("", "n", "error", {"one": line([1.95, 2.0, 2.0])}, log="y")
    (axis,) = panels.lines([panel]).axes
    assert axis.get_ylim() == (1.95 / 2, 2.4)


def test_points_by_themselves_have_no_line():
    (axis,) = panels.lines([panels.Panel("", "draw", "theta", {"a": line([1.0] * 20, joined=False)})]).axes
    assert axis.containers[0].lines[0].get_linestyle() == "None"


def test_maps_share_a_scale():
    """On a logarithmic one nothing stays white."""
    values = np.array([[0.5, 0.0], [0.25, 0.125]])
    one = panels.Map("one", np.arange(3.0), np.arange(3.0), values)
    other = panels.Map("other", np.arange(3.0), np.arange(3.0), values / 4)
    figure = panels.maps([one, other], x="output", y="label", scale="probability", log=True)
    images = [axis.collections[0] for axis in figure.axes[:2]]
    assert [image.get_clim() for image in images] == [(0.03125, 0.5)] * 2
    assert images[0].get_array().mask.tolist() == [[False, True], [False, False]]
    assert [axis.get_title() for axis in figure.axes[:2]] == ["one", "other"]
    plain = panels.maps([one], x="", y="", scale="", columns=1)
    assert plain.axes[0].collections[0].get_clim() == (0.0, 0.5)


@pytest.mark.parametrize("draw", [lambda: panels.lines([]), lambda: panels.maps([], x="", y="", scale="")])
def test_nothing_is_no_picture(draw):
    with pytest.raises(ValueError, match="panel"):
        draw()
