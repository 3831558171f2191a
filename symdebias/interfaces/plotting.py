"""Pictures, by Matplotlib; every function takes results and writes or returns a figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _optional
from symdebias.interfaces.demo import CURVES, Outcome
from symdebias.planning import ExpectedFit
from symdebias.tradeoff import Tradeoff

# Okabe & Ito's palette tells apart in print and for the colour-blind.
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_COLOURS = dict(zip(CURVES, ("#000000", "#D55E00", "#0072B2"), strict=True))
_MARKS = {
    "series": ("#D55E00", "o-", "truncated series"),
    "quadratic": ("#000000", "s", "quadratic surrogate"),
    "surrogate": ("#0072B2", ".-", "surrogates, by the sample size they are designed for"),
}
_STYLES = dict(zip(CURVES, ("--", "-", "-"), strict=True))


def excess_risk(outcomes: Sequence[Outcome]) -> Any:
    """Draw the excess risk of the three curves against the records seen, a panel per problem.

    Parameters
    ----------
    outcomes : sequence of Outcome
        What to draw.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, not shown.

    Raises
    ------
    MissingDependencyError
        Matplotlib is not installed.
    """
    figures = _optional.require("matplotlib.figure", extra="plot")
    figure = figures.Figure(figsize=(5.2 * len(outcomes), 3.9), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(outcomes)))
    for panel, outcome in zip(axes, outcomes, strict=True):
        for curve, fit in outcome.fits.items():
            # Step 0 has no place on a logarithmic axis.
            panel.plot(
                fit.history.records[1:] / 1e6,
                outcome.excess[curve][1:],
                _STYLES[curve],
                color=_COLOURS[curve],
                label=curve,
                linewidth=1.8,
            )
        panel.set_yscale("log")
        panel.set_xlabel("records seen (millions)")
        panel.set_ylabel("excess risk on true records")
        panel.set_title(outcome.problem.name, fontsize=10)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    # Above the panels, where no curve runs.
    columns = len(CURVES) if len(outcomes) > 1 else 1
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=columns, frameon=False)
    return figure


def bias_against_variance(curves: Sequence[Tradeoff]) -> Any:
    """Draw the bias of the loss against the standard deviation of its estimate, a panel per noise level.

    Parameters
    ----------
    curves : sequence of symdebias.Tradeoff
        What `symdebias.CorrectedLoss.tradeoff` returned, for one loss at several noise levels.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, not shown: series by order, the quadratic alone, and the line of surrogates.

    Raises
    ------
    MissingDependencyError
        Matplotlib is not installed.
    """
    figures = _optional.require("matplotlib.figure", extra="plot")
    ticker = _optional.require("matplotlib.ticker", extra="plot")
    figure = figures.Figure(figsize=(4.0 * len(curves), 3.9), layout="constrained")
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
        panel.set_xlabel("largest deviation of the loss of one record")
        panel.set_ylabel("largest bias of the loss")
        panel.set_title(f"s = {curve.score_variance:g}, |u| <= {curve.radius:g}", fontsize=10)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a figure as a PNG file.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : Path
        The file; an existing one is replaced.
    """
    figure.savefig(path, dpi=150, format="png")


def planned_errors(curves: Mapping[str, Sequence[ExpectedFit]]) -> Any:
    """Draw the largest expected standard error against the budget, a curve per mechanism.

    Parameters
    ----------
    curves : mapping from str to sequence of ExpectedFit
        For each mechanism what `symdebias.expected_fit` or a plan says at several budgets.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, not shown.

    Raises
    ------
    MissingDependencyError
        Matplotlib is not installed.
    """
    figures = _optional.require("matplotlib.figure", extra="plot")
    figure = figures.Figure(figsize=(5.6, 4.0), layout="constrained")
    panel = figure.subplots()
    for (name, fits), colour in zip(curves.items(), _PALETTE, strict=False):
        budgets = [_budget(fit) for fit in fits]
        panel.plot(budgets, [fit.standard_errors.max() for fit in fits], "o-", color=colour, label=name, markersize=4)
    truth = next(iter(curves.values()))
    panel.plot(
        [_budget(fit) for fit in truth], [fit.without_noise.max() for fit in truth], ":", color="#000000",
        label="true records",
    )  # fmt: skip
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(budgets, labels=[f"{budget:g}" for budget in np.round(budgets, 6)])
    panel.minorticks_off()
    panel.set_xlabel("epsilon of a record, best split")
    panel.set_ylabel("largest expected standard error")
    panel.set_title(f"{truth[0].records:,.0f} records", fontsize=10)
    panel.grid(alpha=0.25, which="both")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False)
    return figure


def _budget(fit: ExpectedFit) -> float:
    guarantee = fit.release.guarantee
    if guarantee is None:
        raise ValueError("a release without a guarantee has no budget to draw. Plan with mechanisms of a budget.")
    return guarantee.epsilon
