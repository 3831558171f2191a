"""A fit as one page for readers: HTML with all that it shows in it, no script, nothing from elsewhere.

Whatever was named by others is text here: `symdebias._markup` escapes it.
"""

import math
import os
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from symdebias import _files, _markup
from symdebias.evaluation import CalibrationCurve, calibration_curve, evaluate_all
from symdebias.evaluation.links import link_of
from symdebias.exceptions import PrivacyError, SymdebiasError
from symdebias.interfaces.symbols import meanings
from symdebias.solvers import Fit, summary
from symdebias.solvers.coefficients import Coefficients

_STYLE = """
:root { color-scheme: light; --own: #0072b2; --other: #d55e00; --line: #c8c8c8; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 58rem;
  padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); break-after: avoid; }
p { margin: .5rem 0; max-width: 48rem; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .15rem 1rem; margin: .5rem 0; }
dt { grid-column: 1; color: #595959; }
dd { grid-column: 2; margin: 0; }
math { font-size: 1.1rem; }
math[display] { text-align: left; }
figure, .wide { margin: .5rem 0; padding: .4rem 0; overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
caption { text-align: left; color: #595959; padding-bottom: .25rem; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child { text-align: left; padding-left: 0; white-space: normal; min-width: 7rem;
  max-width: 16rem; overflow-wrap: break-word; }
thead th { border-bottom: 1px solid #595959; }
.warning, .note { border-left: 4px solid var(--line); padding-left: .75rem; }
.warning { border-color: var(--other); }
.key span { display: inline-block; margin-right: 1.5rem; }
.bars { display: grid; grid-template-columns: minmax(6rem, 14rem) minmax(0, 1fr); gap: .1rem 1rem; margin: .75rem 0; }
.name { align-self: center; line-height: 1.2; }
.bar { position: relative; height: 2rem; border-bottom: 1px solid #ececec; break-inside: avoid; }
.bar i, .key i { position: absolute; display: block; }
.key i { position: relative; display: inline-block; margin-right: .4rem; }
.zero { top: 0; bottom: 0; border-left: 1px solid #1a1a1a; }
.ends { border-top: 3px solid var(--own); }
.dot { width: 0; height: 0; border: 5px solid var(--own); border-radius: 5px; }
.bar .dot { top: .5rem; margin: -5px; }
.bar .ends { top: .5rem; margin-top: -1.5px; }
.other { border-color: var(--other); border-radius: 0; }
.bar .dot.other, .bar .ends.other { top: 1.4rem; }
.open { top: .5rem; line-height: 0; font-style: normal; color: var(--own); }
.open.other { top: 1.4rem; color: var(--other); }
.low { left: 0; }
.high { right: 0; }
.axis { grid-column: 2; display: flex; justify-content: space-between; color: #595959; font-size: .85rem; }
svg { width: 100%; max-width: 26rem; height: auto; font-size: 14px; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); color: #595959; font-size: .85rem; }
@media (max-width: 40rem) {
  .bars { grid-template-columns: minmax(0, 1fr); }
  .axis { grid-column: 1; }
  .name { margin-top: .4rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { grid-column: 1; }
  dt { margin-top: .5rem; }
  dd + dd { margin-top: .25rem; }
  .wide table, .wide tbody, .wide tr, .wide th:first-child { display: block; max-width: none; }
  .wide thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .wide tr { padding: .4rem 0; border-bottom: 1px solid #595959; }
  .wide td { display: flex; justify-content: space-between; gap: 1rem; padding: .1rem 0; white-space: normal; }
  .wide tbody th[data-name]::before { content: attr(data-name) " "; }
  .wide td::before { content: attr(data-name); color: #595959; }
  .wide tbody th, .wide td { border: 0; }
}
@media print {
  body { font-size: 10.5pt; max-width: none; padding: 0; }
  figure, .wide { overflow: visible; }
  table { font-size: 8pt; }
  th, td { padding: .15rem .3rem; }
  th:first-child { min-width: 0; }
  tr, figure { break-inside: avoid; }
}
"""


def report(
    fit: Fit,
    path: str | os.PathLike[str],
    naive: Fit | None = None,
    *,
    X: Any = None,
    y: Any = None,
    offset: Any = None,
    sample_weight: Any = None,
    clusters: Any = None,
    noise_scale: Any = None,
    level: float = 0.95,
    original_units: bool = False,
    certify: bool = True,
) -> None:
    """Write a fit as a page; see `symdebias.Fit.report`.

    Parameters
    ----------
    fit : Fit
        The fit.
    path, naive, X, y, offset, sample_weight, clusters, noise_scale, level, original_units, certify
        As for `symdebias.Fit.report`.
    """
    given = {"offset": offset, "sample_weight": sample_weight, "clusters": clusters, "noise_scale": noise_scale}
    page = as_page(
        fit, naive, X=X, y=y, given=given, level=level, original_units=original_units, certify=certify
    ).encode()

    def write(stream: BinaryIO) -> None:
        stream.write(page)

    _files.write_whole(path, write, _files.PAGE)


def as_page(
    fit: Fit, naive: Fit | None, *, X: Any, y: Any, given: dict[str, Any], level: float, original_units: bool,
    certify: bool,
) -> str:  # fmt: skip
    """Return the page as text; see `report`. `given` is what there is of the records besides X and y."""
    coupled = fit.corrected.release.coupling is not None
    if (X is None) != (y is None) and not (coupled and y is None):
        raise ValueError("X and y belong together: calibration needs both. Pass both, or neither.")
    if fit.own_guarantee is not None and not (X is None and naive is None):
        raise PrivacyError(
            f"{fit.solver} trains on true records, and its own noise hides them. Records or a naive fit on the page "
            "would publish what it hides: leave out X, y and naive."
        )
    own = Coefficients.of(fit, level, original_units=original_units)
    other = None if naive is None else own.beside(naive)
    if certify and fit.own_guarantee is None and not fit.description:
        _ = fit.certificate
    title = summary.title(fit)
    parts = [
        f"<h1>{_markup.escaped(title)}</h1>",
        _markup.facts(_head(fit, original_units=original_units)),
        *map(_remark, summary.remarks(fit, own)),
        *_section("Coefficients", _coefficients(own, other, fit, naive)),
        *_section("The formula", _formulas(fit)),
        *_section("What the privacy guarantee says", _privacy(fit)),
        *_section("Bias of the correction", _bias(fit)),
        *_section("What the noise costs", _costs(fit, own, other)),
    ]
    if X is not None:
        parts += _section("How good the predictions are", _metrics(fit, X, y, given, level))
        parts += _section("Calibration", _calibration(fit, X, y, given))
    return _PAGE.format(title=_markup.escaped(title), style=_STYLE, body="\n".join(parts))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
<footer>Made by symdebias from a fit. The page holds all that it shows.</footer>
</body>
</html>
"""


def _section(name: str, parts: list[str]) -> list[str]:
    return ["<section>", f"<h2>{_markup.escaped(name)}</h2>", *parts, "</section>"] if parts else []


def _remark(text: str) -> str:
    kind = "warning" if text.startswith(("warning", "safeguard", "no intervals")) else "note"
    return f'<p class="{kind}">{_markup.escaped(text)}</p>'


def _words(text: str) -> str:
    return f"<p>{_markup.escaped(text)}</p>"


def _head(fit: Fit, *, original_units: bool) -> summary.Facts:
    # What has a section of its own is left out.
    apart = {"loss", "privacy", "claimed", "bias"}
    return [fact for fact in summary.facts(fit, original_units=original_units) if fact[0] not in apart]


# ---- coefficients ----------------------------------------------------------------------------------------


def _coefficients(own: Coefficients, other: Coefficients | None, fit: Fit, naive: Fit | None) -> list[str]:
    head, rows = own.cells()
    names = [fit.solver if fit.corrected.method == "none" else "corrected", "" if naive is None else naive.solver]
    key = [f'<span><i class="dot"></i>{_markup.escaped(f"{names[0]}{_interval(own)}")}</span>']
    if own.ends is not None and np.isinf(own.ends[own.drawn]).any():
        key.append(f"<span>{_ARROWS[0]} {_ARROWS[1]} an interval without an end</span>")
    if other is not None:
        head = [*head, names[1]]
        rows = [[*row, f"{value:.6g}"] for row, value in zip(rows, other.values, strict=True)]
        key.append(f'<span><i class="dot other"></i>{_markup.escaped(f"{names[1]}{_interval(other)}")}</span>')
    bars = _bars(own, other)
    return [f'<p class="key">{"".join(key)}</p>', *bars, f'<div class="wide">{_markup.table(head, rows)}</div>']


def _interval(table: Coefficients) -> str:
    return ", no interval" if table.ends is None else f", {100 * table.level:g}% interval"


_ARROWS = ("\N{LEFTWARDS ARROW}", "\N{RIGHTWARDS ARROW}")


def _bars(own: Coefficients, other: Coefficients | None) -> list[str]:
    """Return a line for each coefficient that is drawn, with its interval on an axis that all share if they can."""
    shown = [("", own), *([] if other is None else [(" other", other)])]
    scales = own.scales(other)
    units = [1.0] * len(own.drawn) if scales is None else scales.tolist()
    reached = [0.0]
    for _, table in shown:
        reached += [float(table.values[index]) / units[index] for index in own.drawn]
        ends = table.ends
        reached += [] if ends is None else [float(end) / units[index] for index in own.drawn for end in ends[index]]
    finite = [value for value in reached if math.isfinite(value)]
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    low, span = low - 0.04 * span, 1.08 * span

    def place(value: float) -> float:
        return min(100.0, max(0.0, 100 * (value - low) / span))

    lines = ['<div class="bars">']
    for index in own.drawn:
        name = own.names[index]
        marks = [f'<i class="zero" style="left:{place(0):.2f}%"></i>']
        said = []
        for kind, table in shown:
            value = float(table.values[index])
            if table.ends is not None:
                start, end = (place(float(side) / units[index]) for side in table.ends[index])
                marks.append(f'<i class="ends{kind}" style="left:{start:.2f}%;width:{end - start:.2f}%"></i>')
                sides = zip(("low", "high"), _ARROWS, table.ends[index], strict=True)
                marks += [f'<i class="open {way}{kind}">{arrow}</i>' for way, arrow, side in sides if math.isinf(side)]
            marks.append(f'<i class="dot{kind}" style="left:{place(value / units[index]):.2f}%"></i>')
            open_ended = table.ends is not None and bool(np.isinf(table.ends[index]).any())
            said.append(f"{value:.4g}{' (interval without an end)' if open_ended else ''}")
        told = _markup.escaped(f"{name}: {' and '.join(said)}")
        beside = "" if scales is None else f"<br><small>{float(own.values[index]):.4g}</small>"
        lines.append(f'<div class="name">{_markup.escaped(name)}{beside}</div>')
        lines.append(f'<div class="bar" role="img" aria-label="{told}">{"".join(marks)}</div>')
    if scales is not None:
        return [*lines, '<div class="axis">each line has a scale of its own</div>', "</div>"]
    marks = [f"<span>{value:.3g}</span>" for value in (low, low + span / 2, low + span)]
    return [*lines, f'<div class="axis">{"".join(marks)}</div>', "</div>"]


# ---- words -----------------------------------------------------------------------------------------------


def _formulas(fit: Fit) -> list[str]:
    corrected = fit.corrected
    parts = [_words("The loss of a true record:"), f"<figure>{_markup.formula(corrected.declared.expression)}</figure>"]
    if fit.description or fit.own_guarantee is not None or corrected.method == "none" or not corrected.is_resolved:
        return parts
    mean = "is" if corrected.is_exact else "is near"
    parts.append(_words(f"Its correction, whose mean over the noise of a released record {mean} that loss:"))
    parts.append(f"<figure>{_markup.formula(corrected.expression)}</figure>")
    if corrected.conditions:
        parts.append(_words(f"It exists where {', '.join(map(str, corrected.conditions))}."))
    said = [(names, [meaning]) for names, meaning in meanings(corrected)]
    return [*parts, _markup.facts(said)] if said else parts


def _privacy(fit: Fit) -> list[str]:
    said = dict(summary.facts(fit))
    first, *rest = said["privacy"]
    claimed = [_words(f"Claimed: {line}") for line in said.get("claimed", [])]
    if first == "no guarantee":
        return [_words("The release claims none: noise of a known size was added, or none, and no budget was stated.")]
    return [*map(_words, rest), _words(f"Stated: {first}."), *claimed]


def _bias(fit: Fit) -> list[str]:
    return [_words(line) for line in dict(summary.facts(fit)).get("bias", [])]


def _costs(fit: Fit, own: Coefficients, other: Coefficients | None) -> list[str]:
    known, said = fit.diagnostics, []
    inflation, records = known.get("noise_inflation"), known.get("records")
    if inflation is not None:
        said.append(f"Undoing the noise makes the mean square of the gradients {inflation:.3g} times as large.")
        if inflation > 1 and records is not None:
            said.append(
                f"So the {records:,} released records tell about as much as {records / inflation:,.0f} would, were "
                "there nothing to undo."
            )
    share = known.get("carrying_share")
    if share is not None:
        said.append(f"{100 * share:.3g}% of the records carry the gradient (near 100% where all weigh the same).")
    if own.errors is not None and other is not None and other.errors is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = float(np.nanmedian(own.errors / other.errors))
        said.append(
            f"Standard errors are {ratio:.3g} times those of the naive fit (the median): what it costs to be right, "
            "since the naive fit is precise about a wrong value."
        )
    return [_words(line) for line in said]


# ---- predictions -----------------------------------------------------------------------------------------


# Metrics whose bound on the bias assumes something of labels.
_BY_SIGNS = ("accuracy", "precision", "recall", "f1", "roc_auc")


def _metrics(fit: Fit, X: Any, y: Any, given: dict[str, Any], level: float) -> list[str]:
    model = "any" if fit.corrected.release.coupling is not None else "logistic"
    try:
        found = evaluate_all(fit, X, y, label_model=model, **given)
    except (SymdebiasError, ValueError) as refusal:
        # What the estimates are refused for is for the reader of the page; wrong records were refused by the solver.
        return [_words(f"Not computed: {refusal}")]
    head = ["metric", "value", "(se)", "bias at most", f"{100 * level:g}% interval"]
    rows = []
    for name, one in found.estimates.items():
        ends = one.interval_or_none(level)
        interval = "none" if ends is None else f"{ends[0]:.4g} to {ends[1]:.4g}"
        bias = f"{one.bias:.2g}" if one.bias > 0 else "0"
        rows.append([name, f"{one.value:.4g}", f"{one.standard_error:.2g}", bias, interval])
    # One line for metrics that are refused for the same reason, which begins with the name of each.
    alike: dict[str, list[str]] = {}
    for name, reason in found.refused.items():
        alike.setdefault(reason.removeprefix(name), []).append(name)
    refused = [_words(f"Not computed: {', '.join(names)}: {found.refused[names[0]]}") for names in alike.values()]
    told = "On true records, from released ones, the noise taken out. Records that the fit was made of flatter it."
    signs = [name for name in _BY_SIGNS if name in found.estimates and found.estimates[name].bias > 0]
    if signs and model == "logistic":
        told += f" What the bias of {', '.join(signs)} may be takes labels to be logistic in the score."
    return [_words(told), *_alone(fit, given), f'<div class="wide">{_markup.table(head, rows)}</div>', *refused]


def _alone(fit: Fit, given: dict[str, Any]) -> list[str]:
    """Return what there is to say where records of clusters were given without them."""
    if fit.inference is None or not fit.inference.kind.startswith("cluster") or given["clusters"] is not None:
        return []
    return [
        _remark(
            "warning: standard errors and intervals here take records for independent, and the fit had clusters: they "
            "may be much too short. Pass clusters= to the report (--clusters on the command line)"
        )
    ]


# ---- calibration -----------------------------------------------------------------------------------------


def _calibration(fit: Fit, X: Any, y: Any, given: dict[str, Any]) -> list[str]:
    link = link_of(fit)
    if link is None:
        return [_words("Not computed: this loss predicts neither a probability, nor a mean, by a link that is known.")]
    if given["noise_scale"] is not None:
        return [_words("Not computed: it undoes a noise that is one for all records, and these have their own scales.")]
    known = {name: values for name, values in given.items() if name != "noise_scale"}
    try:
        curve = calibration_curve(fit, X, y, link=link, **known)
    except (SymdebiasError, ValueError) as refusal:
        # What the estimate is refused for is for the reader of the page; wrong records were refused by the solver.
        return [_words(f"Not computed: {refusal}")]
    head = ["score", "predicted", "(se)", "observed", "(se)", "difference", "(se)"]
    columns = (
        curve.scores, curve.predicted, curve.predicted_standard_errors, curve.observed,
        curve.observed_standard_errors, curve.observed - curve.predicted, curve.difference_standard_errors,
    )  # fmt: skip
    rows = [[f"{value:.3g}" for value in row] for row in zip(*columns, strict=True)]
    return [
        _words("What the model predicts against what happens, among true records of about the same score."),
        *_alone(fit, given),
        f"<figure>{_picture(curve)}</figure>",
        f'<div class="wide">{_markup.table(head, rows)}</div>',
    ]


@dataclass(frozen=True)
class _Square:
    """The square of a picture, and the range of numbers that it shows on both axes."""

    low: float
    high: float

    def at(self, value: float) -> float:
        return 70 + 310 * (value - self.low) / (self.high - self.low)

    def up(self, value: float) -> float:
        return 400 - self.at(value) + 5


def _picture(curve: CalibrationCurve) -> str:
    """Return the curve as a drawing: a dot for each window, with two standard errors of the difference."""
    # Of a window whose records do not tell its standard error there is the dot alone.
    reach = np.nan_to_num(2 * curve.difference_standard_errors)
    values = np.concatenate([curve.predicted, curve.observed - reach, curve.observed + reach])
    margin = 0.05 * (float(np.ptp(values)) or 1.0)
    square = _Square(float(values.min()) - margin, float(values.max()) + margin)
    ends = (square.low, square.high)
    lines = [
        '<svg viewBox="0 0 400 400" role="img" aria-label="observed against predicted">',
        '<rect x="70" y="25" width="310" height="310" fill="none" stroke="#595959"/>',
        f'<line x1="{square.at(ends[0]):.1f}" y1="{square.up(ends[0]):.1f}" x2="{square.at(ends[1]):.1f}" '
        f'y2="{square.up(ends[1]):.1f}" stroke="#595959" stroke-dasharray="5 4"/>',
    ]
    for predicted, observed, wide in zip(curve.predicted, curve.observed, reach, strict=True):
        x, top, bottom = square.at(predicted), square.up(observed + wide), square.up(observed - wide)
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" stroke="#0072b2" stroke-width="2"/>'
        )
        lines.append(f'<circle cx="{x:.1f}" cy="{square.up(observed):.1f}" r="4.5" fill="#0072b2"/>')
    for value, anchor in ((ends[0], "start"), (sum(ends) / 2, "middle"), (ends[1], "end")):
        lines.append(f'<text x="{square.at(value):.1f}" y="354" text-anchor="{anchor}">{value:.2g}</text>')
        lines.append(f'<text x="63" y="{square.up(value) + 5:.1f}" text-anchor="end">{value:.2g}</text>')
    lines.append('<text x="225" y="380" text-anchor="middle">predicted</text>')
    lines.append('<text x="16" y="180" text-anchor="middle" transform="rotate(-90 16 180)">observed</text>')
    return "".join([*lines, "</svg>"])
