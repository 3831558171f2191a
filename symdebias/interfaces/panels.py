"""Charts of panels one above the other, narrow enough for a telephone: lines with their errors, and maps of colours.

What the scripts below ``examples/`` draw with; `symdebias.interfaces.plotting` draws the results of single calls.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _optional
from symdebias._arrays import FloatArray
from symdebias.interfaces import plotting

# Okabe & Ito's palette tells apart in print and for the colour-blind; yellow is too light for lines.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKS = "osD^vPX"
# A page of 390 pixels shows this many inches at 70 pixels each, where letters of 10 points are still read.
_WIDTH, _HEIGHT = 5.6, 3.2
# Lines of more points have bands in place of bars and marks.
_FEW = 14


@dataclass(frozen=True, eq=False)
class Line:
    """Points that belong together.

    Attributes
    ----------
    x, y : arrays of shape (m,), float64
        The points; what is not finite is left out.
    error : array of shape (m,), float64, or None
        The error of y, as bars, or as a band where there are many points; on a logarithmic axis it is taken for that of
        log y, which is error / y.
    dashed : bool
        Whether the line is.
    joined : bool
        Whether there is a line; otherwise points stand by themselves, with bars.
    like : str, optional
        The name of another line whose colour this one takes; it then has no marks, and is left out of the legend.

    Examples
    --------
    >>> Line(np.array([1.0, 2.0]), np.array([0.3, 0.1])).dashed
    False
    """

    x: FloatArray
    y: FloatArray
    error: FloatArray | None = None
    dashed: bool = False
    joined: bool = True
    like: str | None = None


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of lines.

    Attributes
    ----------
    title, x, y : str
        Above it, below it, beside it.
    lines : mapping from str to Line
        By what the legend calls them; equal names of different panels look alike.
    log : {"", "x", "y", "xy"}
        The axes that are logarithmic.
    ticks : tuple of float
        The places that the horizontal axis names, for a few of them; by default Matplotlib's.
    levels : mapping from str to float
        Horizontal lines, dotted in black, by name.

    Examples
    --------
    >>> Panel("a title", "records", "error", {}).log
    ''
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, Line]
    log: str = ""
    ticks: tuple[float, ...] = ()
    levels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Map:
    """A map of colours: how large z is over x and y.

    Attributes
    ----------
    title : str
        Above it.
    x_edges, y_edges : arrays of shape (m + 1,) and (k + 1,), float64
        The edges of the cells.
    values : array of shape (k, m), float64
        What is coloured; NaN stays white.

    Examples
    --------
    >>> Map("a title", np.arange(3.0), np.arange(2.0), np.array([[0.1, 0.9]])).values.shape
    (1, 2)
    """

    title: str
    x_edges: FloatArray
    y_edges: FloatArray
    values: FloatArray


def lines(panels: Sequence[Panel], *, columns: int = 1) -> Any:
    """Draw panels of lines with one legend below them.

    Parameters
    ----------
    panels : sequence of Panel
        What to draw, one above the other.
    columns : int
        How many panels stand side by side.

    Returns
    -------
    matplotlib.figure.Figure
        A panel each; the legend names each line once.

    Raises
    ------
    ValueError
        There is no panel.
    MissingDependencyError
        Matplotlib is not installed.

    Examples
    --------
    >>> falling = Line(np.array([10.0, 100.0]), np.array([0.3, 0.1]), error=np.array([0.02, 0.01]))
    >>> figure = lines([Panel("error", "records", "error", {"one": falling}, log="xy")])
    >>> len(figure.axes)
    1
    """
    ticker = _optional.require("matplotlib.ticker", extra="plot")
    figure, axes = _grid(len(panels), columns, _HEIGHT)
    names = dict.fromkeys(name for panel in panels for name, line in panel.lines.items() if line.like is None)
    looks = dict(zip(names, zip(itertools.cycle(_COLOURS), itertools.cycle(_MARKS), strict=False), strict=False))
    handles: dict[str, Any] = {}
    for place, panel in zip(axes, panels, strict=True):
        for rank, (name, line) in enumerate(panel.lines.items()):
            handle = _drawn(place, name, line, looks[line.like or name], log="y" in panel.log, rank=rank)
            if line.like is None:
                handles[name] = handle
        for (name, level), style in zip(panel.levels.items(), itertools.cycle((":", "-.", (0, (1, 4)))), strict=False):
            handles[name] = place.axhline(level, color="#000000", linestyle=style, linewidth=1.3, label=name)
        if "x" in panel.log:
            place.set_xscale("log")
        if "y" in panel.log:
            place.set_yscale("log", nonpositive="clip")
            _show(place, panel)
        if panel.ticks:
            place.set_xticks(panel.ticks, labels=[_short(tick) for tick in panel.ticks])
            place.xaxis.set_minor_locator(ticker.NullLocator())
        place.set_xlabel(panel.x)
        place.set_ylabel(panel.y)
        place.set_title(panel.title, fontsize=11)
        place.grid(alpha=0.25)
        place.spines[["top", "right"]].set_visible(False)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=2 * columns, frameon=False, fontsize=10
    )
    return figure


def maps(shown: Sequence[Map], *, x: str, y: str, scale: str, columns: int = 2, log: bool = False) -> Any:
    """Draw maps with one scale of colours.

    Parameters
    ----------
    shown : sequence of Map
        What to draw.
    x, y, scale : str
        The names of the axes and of the scale.
    columns : int
        How many stand side by side.
    log : bool
        Whether the scale is logarithmic; values that are not positive stay white.

    Returns
    -------
    matplotlib.figure.Figure
        A panel each, and the scale.

    Raises
    ------
    ValueError
        There is no panel.
    MissingDependencyError
        Matplotlib is not installed.

    Examples
    --------
    >>> square = Map("even", np.arange(3.0), np.arange(3.0), np.full((2, 2), 0.25))
    >>> len(maps([square], x="output", y="label", scale="probability", columns=1).axes)
    2
    """
    colours = _optional.require("matplotlib.colors", extra="plot")
    figure, axes = _grid(len(shown), columns, 2.6)
    values = [np.where(one.values > 0, one.values, np.nan) if log else one.values for one in shown]
    low = min(float(np.nanmin(part)) for part in values)
    high = max(float(np.nanmax(part)) for part in values)
    norm = colours.LogNorm(low, high) if log else colours.Normalize(low, high)
    for index, (place, one, part) in enumerate(zip(axes, shown, values, strict=True)):
        image = place.pcolormesh(one.x_edges, one.y_edges, part, cmap="YlGnBu", norm=norm, rasterized=True)
        place.set_title(one.title, fontsize=10)
        if index + columns >= len(shown):
            place.set_xlabel(x)
        if index % columns == 0:
            place.set_ylabel(y)
    figure.colorbar(image, ax=list(axes), location="bottom", label=scale, aspect=40, pad=0.01)
    return figure


def save(figure: Any, folder: Path, name: str) -> None:
    """Write a figure into a folder, which is made where there is none; see `symdebias.interfaces.plotting.save`.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    folder : Path
        The folder.
    name : str
        The name of the file, less its ending.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plotting.save(figure, folder / f"{name}.png")


def _grid(count: int, columns: int, height: float) -> tuple[Any, Any]:
    if not count:
        raise ValueError("there is no panel to draw. Give one or more.")
    figures = _optional.require("matplotlib.figure", extra="plot")
    rows = -(-count // columns)
    figure = figures.Figure(figsize=(_WIDTH, height * rows + 0.7), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for place in axes[count:]:
        place.set_visible(False)
    return figure, axes[:count]


def _drawn(place: Any, name: str, line: Line, look: tuple[str, str], *, log: bool, rank: int) -> Any:
    """Draw a line and return what stands for it in the legend; a later one is thinner, for those below it to show."""
    (colour, mark), ends = look, None
    if line.error is not None:
        # On a logarithmic axis the error is that of the logarithm, to first order.
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.exp(line.error / line.y)
        ends = (line.y / factor, line.y * factor) if log else (line.y - line.error, line.y + line.error)
    if line.joined and len(line.x) > _FEW:
        style = "--" if line.dashed else "-"
        (handle,) = place.plot(line.x, line.y, style, color=colour, linewidth=max(3.4 - 0.5 * rank, 1.2), label=name)
        if ends is not None:
            place.fill_between(line.x, *ends, color=colour, alpha=0.2, linewidth=0)
        return handle
    bars = None if ends is None else np.abs(np.array(ends) - line.y)
    if not line.joined:
        return place.errorbar(
            line.x, line.y, bars, linestyle="", color=colour, marker=mark, markersize=3.5, linewidth=1.2, label=name
        )
    return place.errorbar(
        line.x, line.y, bars, linestyle="--" if line.dashed else "-", color=colour, marker="" if line.like else mark,
        markersize=5, capsize=2, linewidth=1.6, label=name, markerfacecolor="white" if line.dashed else colour,
    )  # fmt: skip


def _show(place: Any, panel: Panel) -> None:
    """Keep a logarithmic axis to what is drawn: the lower ends of errors may reach zero, which it never does."""
    values = np.concatenate([*(np.ravel(line.y) for line in panel.lines.values()), [*panel.levels.values()]])
    values = values[np.isfinite(values) & (values > 0)]
    if len(values):
        # Where all is nearly the same, the margin would be less than half of a mark.
        place.set_ylim(bottom=values.min() / 2, top=max(place.get_ylim()[1], 1.2 * values.max()))


def _short(number: float) -> str:
    """Return a number as people say it: 1e6 as 1M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"
