"""Pictures, by Matplotlib: every function but `save` takes results and returns a figure that is not shown yet.

Where Matplotlib is not installed they raise MissingDependencyError.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _files, _optional
from symdebias._arrays import FloatArray
from symdebias.assessment import Tradeoff
from symdebias.interfaces.demo import CURVES, Outcome
from symdebias.interfaces.spending import Spending
from symdebias.mechanisms import LabelRandomizer
from symdebias.planning import ExpectedFit
from symdebias.solvers import Fit, summary
from symdebias.solvers.coefficients import Coefficients

# How far below its mean a draw is shown.
_LOWEST = 30.0
# Okabe & Ito's palette tells apart in print and for the colour-blind.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_COLOURS = dict(zip(CURVES, ("#000000", "#D55E00", "#0072B2"), strict=True))
_MARKS = {
    "series": ("#D55E00", "o-", "truncated series"),
    "quadratic": ("#000000", "s", "quadratic surrogate"),
    "surrogate": ("#0072B2", ".-", "surrogates, by the sample size they are designed for"),
}
_STYLES = dict(zip(CURVES, ("--", "-", "-"), strict=True))
# More coefficients make no picture, and longer names leave no room for one.
_MOST_COEFFICIENTS, _LONGEST_NAME = 200, 32
# Six of one kind are told apart by colour and mark.
_KINDS = tuple(zip((*_PALETTE[:3], "#E69F00", "#56B4E9", "#CC79A7"), "osD^vP", strict=True))


@dataclass(frozen=True, eq=False)
class LabelCurve:
    """What the label noise of one mechanism costs, by budget.

    Attributes
    ----------
    epsilons : tuple of m floats
        The budgets, ascending.
    noisy, noisy_error : arrays of shape (m,), float64
        The mean loss of the noised labels, with its standard error.
    test, test_error : arrays of shape (m,), float64
        The mean test error of what was trained on them, with its standard error.
    unbiased : bool
        Whether the noised labels have the true ones as means.
    """

    epsilons: tuple[float, ...]
    noisy: FloatArray
    noisy_error: FloatArray
    test: FloatArray
    test_error: FloatArray
    unbiased: bool


@dataclass(frozen=True)
class ErrorCurve:
    """The error of a method by the number of records.

    Attributes
    ----------
    records : tuple of m ints
        The numbers of records, ascending.
    means, errors : arrays of shape (m,), float64
        The mean errors with their standard errors; NaN where there is none.
    """

    records: tuple[int, ...]
    means: FloatArray
    errors: FloatArray


def excess_risk(outcome: Outcome, spendings: Sequence[Spending]) -> Any:
    """Draw the excess risk of the three curves against the records seen, and below it that of other releases.

    Parameters
    ----------
    outcome : Outcome
        The three curves.
    spendings : sequence of Spending
        Ways to spend the same budget on the same records: a column of dots each, one per draw of the noise, with
        their mean and the sandwich limit.

    Returns
    -------
    matplotlib.figure.Figure
        Two panels with one axis of excess risk, one above the other: pages are narrow.
    """
    figure = _figure(5.6, 7.4)
    above, below = figure.subplots(2, 1, sharey=True)
    for curve, fit in outcome.fits.items():
        # Step 0 has no place on a logarithmic axis.
        above.plot(
            fit.history.records[1:] / 1e6,
            outcome.excess[curve][1:],
            _STYLES[curve],
            color=_COLOURS[curve],
            label=curve,
            linewidth=1.8,
        )
    above.set_yscale("log")
    _label(above, "records seen (millions)", "excess risk on true records", outcome.problem.name)
    for place, way in enumerate(spendings):
        count = len(way.excess)
        spread = np.linspace(-0.16, 0.16, count) if count > 1 else np.zeros(1)
        colour = _PALETTE[2] if place else _COLOURS[CURVES[2]]
        below.plot(place + spread, way.excess, "o", color=colour, markersize=4, alpha=0.55, markeredgewidth=0)
        below.hlines(way.excess.mean(), place - 0.28, place + 0.28, color=colour, linewidth=2.4)
        below.hlines(way.limit, place - 0.34, place + 0.34, color="#000000", linewidth=1.4, linestyles=":")
    # A draw that happens to be next to the optimum would leave the others no room: it is shown at the edge.
    least = [np.min(excess[1:]) for excess in outcome.excess.values()]
    bottom = min([*least, *(min(way.limit, float(way.excess.mean())) / _LOWEST for way in spendings)])
    for place, way in enumerate(spendings):
        if way.excess.min() < bottom:
            below.plot(
                place, bottom, "v", color=_PALETTE[2], markersize=5, alpha=0.55, markeredgewidth=0, clip_on=False
            )
    above.set_ylim(bottom=bottom)
    below.plot([], [], "o", color="#666666", markersize=4, label="one draw of the noise")
    below.plot([], [], "-", color="#666666", linewidth=2.4, label="mean")
    below.plot([], [], ":", color="#000000", linewidth=1.4, label="sandwich limit of M-estimation")
    below.set_xticks(range(len(spendings)), [_broken(way) for way in spendings], fontsize=9)
    below.set_xlim(-0.6, len(spendings) - 0.4)
    _label(below, "", "excess risk on true records", "the same records and budget, spent in other ways")
    for panel in (above, below):
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=1, frameon=False, fontsize=9)
    return figure


def bias_against_variance(curves: Sequence[Tradeoff]) -> Any:
    """Draw the bias of the loss against the standard deviation of its estimate, a panel per noise level.

    Parameters
    ----------
    curves : sequence of symdebias.assessment.Tradeoff
        What `symdebias.CorrectedLoss.tradeoff` returned, for one loss at several noise levels.

    Returns
    -------
    matplotlib.figure.Figure
        Series by order, the quadratic alone, and the line of surrogates.
    """
    ticker = _optional.require("matplotlib.ticker", extra="plot")
    figure = _figure(4.0 * len(curves), 3.9)
    axes = np.atleast_1d(figure.subplots(1, len(curves)))
    for panel, curve in zip(axes, curves, strict=True):
        chosen = {method: [c for c in curve.choices if c.method == method] for method in _MARKS}
        for method, (colour, style, label) in _MARKS.items():
            points = [(choice.loss_sd, choice.loss_bias) for choice in chosen[method]]
            if points:
                panel.plot(*zip(*points, strict=True), style, color=colour, label=label, markersize=6, linewidth=1.5)
        for choice in chosen["series"]:
            label = f"K = {choice.order}" if choice.order else "no correction"
            panel.annotate(
                label, (choice.loss_sd, choice.loss_bias), xytext=(6, 2), textcoords="offset points", fontsize=8
            )
        panel.set_yscale("log")
        panel.margins(x=0.25, y=0.1)
        spread = [choice.loss_sd for choice in curve.choices]
        if max(spread) > 4 * min(spread):
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            panel.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
            panel.xaxis.set_minor_locator(ticker.NullLocator())
        else:
            panel.xaxis.set_major_locator(ticker.MaxNLocator(5))
        _label(
            panel,
            "largest deviation of the loss of one record",
            "largest bias of the loss",
            f"s = {curve.score_variance:g}, |u| <= {curve.radius:g}",
        )
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return figure


def coefficients(fit: Fit, naive: Fit | None = None, *, level: float = 0.95, original_units: bool = False) -> Any:
    """Draw the coefficients of a fit with their intervals, a line each; see `symdebias.Fit.plot`.

    Parameters
    ----------
    fit : Fit
        The fit.
    naive : Fit, optional
        A fit to compare with.
    level : float
        Of the intervals, in (0, 1).
    original_units : bool
        Whether the release's centre and scale are undone.

    Returns
    -------
    matplotlib.figure.Figure
        One panel, without the intercept in original units. Where one is more than 20 times as large as another, each
        line has a scale of its own, from its largest number to minus that, and its value beside it. Where there are no
        intervals there are marks alone, and the legend says so; an arrow at the edge of the picture is where an
        interval has no end.
    """
    own = Coefficients.of(fit, level, original_units=original_units)
    shown = [("corrected" if fit.corrected.method != "none" else fit.solver, own, _PALETTE[0], "o")]
    beside = None
    if naive is not None:
        beside = own.beside(naive)
        shown.append((naive.solver, beside, _PALETTE[1], "s"))
    drawn = own.drawn
    count = len(drawn)
    scales = own.scales(beside)
    units = np.ones(count) if scales is None else scales
    if count > _MOST_COEFFICIENTS:
        raise ValueError(
            f"{count} coefficients make no picture that could be read; {_MOST_COEFFICIENTS} are the most. Draw a part "
            "of summary_frame()."
        )
    names = [_shortened(name) for name in own.names[:count]]
    figure = _figure(6.4, 1.5 + 0.34 * count)
    panel = figure.subplots()
    panel.axvline(0, color="#000000", linewidth=0.8)
    handles = []
    reached = np.concatenate([np.ravel(part) for _, table, *_ in shown for part in _drawn_numbers(table, units)])
    finite = np.append(reached[np.isfinite(reached)], 0.0)
    margin = 0.05 * (float(np.ptp(finite)) or 1.0)
    edges = (float(finite.min()) - margin, float(finite.max()) + margin)
    outside = np.array([edges[0] - margin, edges[1] + margin])
    if np.isinf(reached).any():
        panel.set_xlim(edges)
    for place, (label, table, colour, mark) in enumerate(shown):
        heights = np.arange(count) + (0.0 if len(shown) == 1 else 0.3 * (place - 0.5))
        values, *intervals = _drawn_numbers(table, units)
        if not intervals:
            handles += panel.plot(values, heights, mark, color=colour, markersize=5, label=f"{label}, no interval")
            continue
        ends = intervals[0]
        open_ended = np.isinf(ends)
        # Bars are lengths from the estimate to both ends; without an end they leave the picture, with an arrow.
        bars = np.abs(np.where(open_ended, outside, ends).T - values)
        told = " (arrows: without an end)" if open_ended.any() else ""
        handles.append(panel.errorbar(
            values, heights, xerr=bars, fmt=mark, color=colour, markersize=5, capsize=3, linewidth=1.5,
            label=f"{label}, {100 * level:g}% interval{told}",
        ))  # fmt: skip
        for edge, arrow, side in zip(edges, "<>", open_ended.T, strict=True):
            if side.any():
                panel.plot(np.full(side.sum(), edge), heights[side], arrow, color=colour, markersize=7, clip_on=False)
    # Names are text: a dollar sign begins no formula.
    panel.set_yticks(range(count), [name.replace("$", r"\$") for name in names])
    panel.set_ylim(count - 0.5, -0.5)
    unit = "coefficient, in original units" if original_units else "coefficient of the released column"
    if scales is not None:
        unit = f"{unit}; each line has a scale of its own"
        panel.set_xticks([0])
        numbers = panel.twinx()
        numbers.set_ylim(panel.get_ylim())
        numbers.set_yticks(range(count), [f"{value:.4g}" for value in own.values[drawn]])
        numbers.tick_params(length=0)
        numbers.spines[:].set_visible(False)
    _label(panel, unit, "", summary.title(fit)[:80].replace("$", r"\$"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _drawn_numbers(table: Coefficients, units: FloatArray) -> list[FloatArray]:
    """Return the coefficients that are drawn and the ends of their intervals, in units of each line."""
    ends = table.ends
    return [table.values[table.drawn] / units, *([] if ends is None else [ends[table.drawn] / units[:, None]])]


def save(figure: Any, path: Path) -> None:
    """Write a figure as a PNG file.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : Path
        The file; a picture that is there is replaced, whole, and nothing else is.
    """
    _files.write_whole(path, functools.partial(figure.savefig, dpi=150, format="png"), _files.PICTURE)


def planned_errors(curves: Mapping[str, Sequence[ExpectedFit]]) -> Any:
    """Draw the largest expected standard error against the budget, a curve per mechanism.

    Parameters
    ----------
    curves : mapping from str to sequence of ExpectedFit
        For each mechanism what `symdebias.planning.expected_fit` or a plan says at several budgets.
    """
    ticker = _optional.require("matplotlib.ticker", extra="plot")
    figure = _figure(5.6, 4.4)
    panel = figure.subplots()
    named: dict[str, float] = {}
    for place, (name, fits) in enumerate(curves.items()):
        (colour, mark), line = _KINDS[place % len(_KINDS)], "--" if place >= len(_KINDS) else "-"
        budgets = [_budget(fit) for fit in fits]
        # Parts of a budget are rounded down: what they add up to is a little less than was asked for.
        named |= {f"{budget:.3g}": budget for budget in budgets}
        panel.plot(
            budgets, [fit.standard_errors.max() for fit in fits], line, marker=mark, color=colour, label=name,
            markersize=4,
        )  # fmt: skip
    truth = max(curves.values(), key=len)
    panel.plot(
        [_budget(fit) for fit in truth], [fit.without_noise.max() for fit in truth], ":", color="#000000",
        label="true records",
    )  # fmt: skip
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(list(named.values()), labels=list(named))
    panel.minorticks_off()
    # Errors mostly lie within one power of ten, which has one number on the axis by itself.
    panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    _label(
        panel, "epsilon of a record, best split", "largest expected standard error", f"{truth[0].records:,.0f} records"
    )
    panel.grid(alpha=0.25, which="both")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def randomizer_matrix(randomizer: LabelRandomizer) -> Any:
    """Draw the matrix of a label randomizer: how much each label adds to the probability of each output.

    Outputs stand side by side in their order, whatever lies between them; a dashed line marks an interval much wider
    than the others. The colour of an entry is its ratio to the least one of its column, which is between 1 and
    e^epsilon; bars above show how often an output is sent.

    Parameters
    ----------
    randomizer : LabelRandomizer
        The randomizer.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659), Figures 2 and 3.
    """
    matrix, outputs, labels = (np.array(part) for part in (randomizer.matrix, randomizer.outputs, randomizer.labels))
    prior = np.full(len(labels), 1 / len(labels)) if randomizer.prior is None else np.array(randomizer.prior)
    figure = _figure(7.2, 5.6)
    bars, panel = figure.subplots(2, 1, sharex=True, height_ratios=(1, 3))
    places = np.arange(len(outputs))
    bars.bar(places, prior @ matrix, width=1.0, color=_PALETTE[0], linewidth=0)
    bars.set_ylabel("probability")
    bars.tick_params(axis="x", length=0)
    # The edges of cells lie half-way between labels.
    middles = (labels[1:] + labels[:-1]) / 2
    edges = np.concatenate([[2 * labels[0] - middles[0]], middles, [2 * labels[-1] - middles[-1]]])
    image = panel.pcolormesh(
        np.arange(len(outputs) + 1) - 0.5, edges, np.log(matrix / matrix.min(axis=0)), cmap="Blues", vmin=0.0,
        vmax=randomizer.epsilon,
    )  # fmt: skip
    shown = np.unique(np.linspace(0, len(outputs) - 1, min(len(outputs), 12)).round().astype(int))
    panel.set_xticks(shown, labels=[f"{outputs[place]:.3g}" for place in shown])
    gaps = np.diff(outputs)
    jumps = np.flatnonzero(gaps > np.maximum(10 * np.median(gaps), (outputs[-1] - outputs[0]) / 10))
    for place in jumps:
        # Neighbours in the picture that are none on the line.
        for part in (bars, panel):
            part.axvline(place + 0.5, color=_PALETTE[1], linestyle="--", linewidth=1.2)
    panel.set_xlabel("output, in order" + (" (dashed: nothing in a wide interval)" if len(jumps) else ""))
    panel.set_ylabel("label")
    steps = np.linspace(0.0, randomizer.epsilon, 3)
    scale = figure.colorbar(image, ax=panel, ticks=steps, pad=0.01)
    scale.ax.set_yticklabels([f"{math.exp(step):.3g}" for step in steps])
    scale.set_label("times the least of the column")
    bars.set_title(
        f"{len(labels)} labels, {len(outputs)} outputs, epsilon {randomizer.epsilon:.3g}, noisy-label loss "
        f"{randomizer.noisy_label_loss:.4g}",
        fontsize=10,
    )
    bars.spines[["top", "right"]].set_visible(False)
    return figure


def label_losses(
    curves: Mapping[str, LabelCurve], references: Mapping[str, float] | None = None, *, without_noise: float = 0.0
) -> Any:
    """Draw the loss of noised labels and the test error of training on them against the budget, a line per mechanism.

    Lines of unbiased mechanisms are drawn through, those of biased ones are dashed; bars are two standard errors to
    each side.

    Parameters
    ----------
    curves : mapping from str to LabelCurve
        By the name of the mechanism; six of each kind are told apart.
    references : mapping from str to float, optional
        Test errors that belong to no mechanism, by name, two at most.
    without_noise : float
        The test error of training on true labels: errors are drawn less this. What is not above it is off the picture.

    References
    ----------
    Badanidiyuru et al. 2023 (arXiv 2312.05659), Figures 4 and 5.
    """
    ticker = _optional.require("matplotlib.ticker", extra="plot")
    figure = _figure(9.6, 5.4)
    left, right = figure.subplots(1, 2)
    counts = {True: 0, False: 0}
    for name, curve in curves.items():
        colour, mark = _KINDS[counts[curve.unbiased] % len(_KINDS)]
        counts[curve.unbiased] += 1
        tests = (right, curve.test - without_noise, curve.test_error)
        for panel, values, errors in ((left, curve.noisy, curve.noisy_error), tests):
            panel.errorbar(
                curve.epsilons, values, 2 * errors, color=colour, marker=mark, markersize=5, capsize=2, linewidth=1.4,
                linestyle="-" if curve.unbiased else "--", markerfacecolor=colour if curve.unbiased else "white",
                label=f"{name}{'' if curve.unbiased else ' (biased)'}",
            )  # fmt: skip
    for (name, value), style in zip((references or {}).items(), (":", "-."), strict=False):
        right.axhline(value - without_noise, color="#000000", linestyle=style, linewidth=1.0, label=name)
    tested = f"test loss above the {without_noise:.4g} without noise" if without_noise else "mean test loss"
    for panel, what in ((left, "mean loss of the noised labels"), (right, tested)):
        panel.set_xscale("log")
        panel.set_yscale("log", nonpositive="clip")
        budgets = sorted({epsilon for curve in curves.values() for epsilon in curve.epsilons})
        panel.set_xticks(budgets, labels=[f"{budget:g}" for budget in budgets])
        panel.xaxis.set_minor_locator(ticker.NullLocator())
        _label(panel, "epsilon of a label", what)
    above = [value for curve in curves.values() for value in curve.test - without_noise if value > 0]
    if without_noise and above:
        # The lower ends of bars reach 0, which a logarithmic axis never does.
        right.set_ylim(bottom=min(above) / 2)
    handles, names = right.get_legend_handles_labels()
    # What belongs to no mechanism comes last.
    order = sorted(range(len(names)), key=lambda place: names[place] in (references or {}))
    figure.legend(
        [handles[place] for place in order], [names[place] for place in order],
        loc="outside lower center", ncols=3, frameon=False, fontsize=9,
    )  # fmt: skip
    return figure


def errors_by_records(panels: Mapping[str, tuple[str, Mapping[str, ErrorCurve]]], *, columns: int = 2) -> Any:
    """Draw errors against the number of records, a panel per problem and a line per method.

    Bars are two standard errors to each side.

    Parameters
    ----------
    panels : mapping from str to (str, mapping from str to ErrorCurve)
        By title: what is measured, and the curves by name of the method.
    columns : int
        How many panels stand side by side.
    """
    rows = -(-len(panels) // columns)
    figure = _figure(4.9 * min(columns, len(panels)), 3.4 * rows + 0.6)
    axes = np.atleast_1d(figure.subplots(rows, min(columns, len(panels)))).ravel()
    names = list(dict.fromkeys(name for _, curves in panels.values() for name in curves))
    styles = dict(zip(names, itertools.cycle(_KINDS), strict=False))
    handles: dict[str, Any] = {}
    for panel, (title, (measure, curves)) in zip(axes, panels.items(), strict=False):
        for name, curve in curves.items():
            colour, mark = styles[name]
            handles[name] = panel.errorbar(
                curve.records, curve.means, 2 * curve.errors, color=colour, marker=mark, markersize=4, capsize=2,
                linewidth=1.3, label=name,
            )  # fmt: skip
        panel.set_xscale("log", base=2)
        positive = np.concatenate([curve.means[np.isfinite(curve.means)] for curve in curves.values()])
        if len(positive) and positive.max() > 4 * positive.min() > 0:
            panel.set_yscale("log")
        _label(panel, "records", measure, title)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    figure.legend(
        [handles[name] for name in names], names, loc="outside lower center", ncols=3, frameon=False, fontsize=9
    )
    return figure


def _broken(way: Spending) -> str:
    """Return what stands below the column of a way, in short lines."""
    return f"{way.name}, {way.detail}".replace(", ", ",\n").replace(": ", ":\n")


def _shortened(name: str) -> str:
    """Return a name that is not too long, without its middle: names of one kind differ at their ends, as categories."""
    if len(name) <= _LONGEST_NAME:
        return name
    kept = _LONGEST_NAME - 3
    return f"{name[: kept // 2]}...{name[-(kept - kept // 2) :]}"


def _budget(fit: ExpectedFit) -> float:
    guarantee = fit.release.guarantee
    if guarantee is None:
        raise ValueError("a release without a guarantee has no budget to draw. Plan with mechanisms of a budget.")
    return guarantee.epsilon


def _figure(width: float, height: float) -> Any:
    figures = _optional.require("matplotlib.figure", extra="plot")
    return figures.Figure(figsize=(width, height), layout="constrained")


def _label(panel: Any, x: str, y: str, title: str = "") -> None:
    """Name the axes of a panel, and give it a grid and no frame."""
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    panel.set_title(title, fontsize=10)
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
