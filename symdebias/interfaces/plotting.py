"""Pictures, by Matplotlib; every function takes results and writes or returns a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _optional
from symdebias.interfaces.demo import CURVES, Outcome

# Okabe & Ito's palette tells apart in print and for the colour-blind.
_COLOURS = dict(zip(CURVES, ("#000000", "#D55E00", "#0072B2"), strict=True))
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
