"""A fit in words: what was fitted to what, what it guarantees, what holds it, and the table of its coefficients."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from symdebias import _markup
from symdebias.assessment.score_bias import TargetNoise
from symdebias.corrected import CorrectedLoss
from symdebias.exceptions import FormatError
from symdebias.losses.catalogue import smoothing_width
from symdebias.privacy.guarantee import Guarantee
from symdebias.release.groups import labels_of_target
from symdebias.release.wording import noise_in_words
from symdebias.solvers.coefficients import Coefficients
from symdebias.solvers.health import MUCH_INFLATION

if TYPE_CHECKING:
    from symdebias.solvers.fit import Fit

# The width of what stands beside a word of the head, that of such a word, and the least width of the whole.
_BESIDE, _WORD, _LEAST = 104, 13, 78
# The least widths of the columns after the names.
_WIDTHS = {"theta": 12, "coefficient": 12, "std err": 10, "bias <=": 10, "df": 6, "z": 9, "t": 9}
_DEVIATION_OF_LOGISTIC = math.pi / math.sqrt(3.0)

# Where a fit names columns that say something of each record, are no features, and were released as they are.
UNPROTECTED = "unprotected"

# Labels of text that are listed with their codes.
_MOST_LABELS = 12

Facts = list[tuple[str, list[str]]]


def title(fit: "Fit") -> str:
    """Return the solver with the name of the loss."""
    return f"{fit.solver}: {fit.corrected.declared.name or fit.corrected.declared.expression}"


def facts(fit: "Fit", *, original_units: bool = False) -> Facts:
    """Return what the head of a summary says, a name and lines each.

    Parameters
    ----------
    fit : Fit
        The fit.
    original_units : bool
        Whether coefficients beside it are in the units of the original columns.
    """
    corrected, known = fit.corrected, fit.diagnostics
    said: Facts = [("loss", [str(corrected.declared.expression)])]
    if fit.description:
        said.append(("method", [fit.description]))
    elif fit.own_guarantee is None:
        kind = "exact" if corrected.is_exact else "biased" if corrected.method != "none" else "uncorrected"
        said.append(("correction", [kind if kind == corrected.method else f"{corrected.method} ({kind})"]))
    said += [] if corrected.design is None else [("surrogate", [_range(corrected)])]
    steps = f"{known['steps']:,} step{'s' * (known['steps'] != 1)}"
    if fit.own_guarantee is None:
        # No guarantee covers how long the training on true records took.
        steps += f", {known['seconds']:.3g} s"
    said.append(("solver", [f"{fit.solver}, {steps}"]))
    if "records" in known:
        said.append(("records", ["private" if known["records"] is None else f"{known['records']:,}"]))
    known_labels = labels_of_target(corrected.release.target, "range")
    if known_labels is not None and known_labels.is_text:
        # Which way a positive coefficient points.
        listed = ", ".join(f"{label} is {code}" for code, label in enumerate(known_labels.values[:_MOST_LABELS]))
        said.append(("labels", [listed + (", ..." if len(known_labels.values) > _MOST_LABELS else "")]))
    if fit.own_guarantee is None:
        said.append(("noise", _noise(fit)))
    said += _privacy(fit)
    said += _bias(fit)
    said += [] if fit.inference is None else [("covariance", [fit.inference.kind])]
    release = corrected.release
    if original_units:
        said.append(("units", ["those of the original columns"]))
    elif release.center or release.scale:
        said.append(("units", ["those of the released columns, (x - center)/scale; original_units=True undoes that"]))
    return said


def remarks(fit: "Fit", coefficients: Coefficients) -> list[str]:
    """Return what to know of a fit beside its table: warnings, safeguards, and why there are no intervals."""
    corrected, known = fit.corrected, fit.diagnostics
    said = []
    if coefficients.bias is not None and coefficients.pvalues is not None:
        letter = coefficients.letter
        said.append(f"{letter} leaves the bias out; P>|{letter}| and intervals hold whatever it is within its bound")
    said += [f"note: {note}" for note in (*fit.notes, *(() if fit.description else corrected.notes))]
    width = smoothing_width(corrected.declared)
    if width is not None:
        said.append(
            f"note: the loss is smoothed over a width of {width:.3g}: it is that of the quantile of the target plus a "
            f"logistic error of standard deviation {width * _DEVIATION_OF_LOGISTIC:.3g}"
        )
    inflation = known.get("noise_inflation")
    if inflation is not None and inflation >= MUCH_INFLATION:
        said.append(f"warning: so much noise leaves about as much as 1/{inflation:.3g} of the records would tell")
    if known.get("seeded"):
        said.append("warning: the noise was drawn from a seed: whoever knows it can subtract the noise")
    if known.get("on_ball"):
        said.append("warning: theta lies on the ball of radius=: the constraint, not the data, decided its length")
    said += [f"safeguard: {safeguard}" for safeguard in known.get("safeguards") or ()]
    if fit.inference is not None:
        said += [f"note: {note}" for note in fit.inference.notes]
        said += [f"no intervals: {fit.inference.refusal}"] if fit.inference.refusal else []
    return said


def as_text(fit: "Fit", level: float, *, original_units: bool, worded: Callable[[str], str] = str) -> str:
    """Return the summary to print; see `Fit.summary`.

    Parameters
    ----------
    fit, level, original_units
        As for `Fit.summary`.
    worded : callable
        Says in other words what the library says of the bias and below the table; names and numbers stay.
    """
    coefficients = Coefficients.of(fit, level, original_units=original_units)
    head, rows = coefficients.cells()
    widths = [max(len(row[0]) for row in (*rows, head))]
    for place, name in enumerate(head[1:], start=1):
        least = _WIDTHS.get(name, 7 if name.startswith("P>") else 11)
        widths.append(max(least, *(len(row[place]) for row in rows)))
    cells = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        for row in (head, *rows)
    ]
    lines = ["  ".join(row).rstrip() for row in cells]
    width = max(_LEAST, *map(len, lines))
    text = [title(fit), "=" * width]
    for name, said in facts(fit, original_units=original_units):
        for place, line in enumerate(map(worded, said) if name == "bias" else said):
            first = (name if place == 0 else "").ljust(_WORD)
            text += textwrap.wrap(
                line, _BESIDE, initial_indent=first, subsequent_indent=" " * (_WORD + 2), break_on_hyphens=False
            )
    text += ["=" * width, lines[0], "-" * width, *lines[1:], "=" * width]
    return "\n".join([*text, *map(worded, remarks(fit, coefficients))])


def as_html(fit: "Fit", level: float) -> str:
    """Return the summary for notebooks."""
    coefficients = Coefficients.of(fit, level, original_units=False)
    parts = [
        f"<p><strong>{_markup.escaped(title(fit))}</strong></p>",
        _markup.facts(facts(fit)),
        _markup.table(*coefficients.cells()),
        *(f"<p>{_markup.escaped(remark)}</p>" for remark in remarks(fit, coefficients)),
    ]
    return "<div>\n" + "\n".join(parts) + "\n</div>"


def _noise(fit: "Fit") -> list[str]:
    release, known = fit.corrected.release, fit.diagnostics
    columns = None
    if fit.corrected.declared.scores:
        columns = release.number_of_columns or fit.theta.shape[-1] - release.fit_intercept
    has_scales = bool(known.get("noise_scale")) and fit.own_guarantee is None
    said = [f"{names}: {noise}" for names, noise in noise_in_words(release, columns, has_scales=has_scales)]
    if known.get("score_variance") is not None:
        said.append(f"variance {known['score_variance']:.4g} of the score at theta")
    if known.get("noise_inflation") is not None:
        said.append(f"undoing it makes the gradients' mean square {known['noise_inflation']:.3g} times as large")
    return said


def stated_guarantee(fit: "Fit") -> Guarantee | None:
    """Return the guarantee that a summary states: what is not protected has the columns besides features, too."""
    stated = fit.own_guarantee or fit.corrected.release.guarantee
    besides = unprotected_besides(fit)
    if stated is None or not besides:
        return stated
    return replace(stated, unprotected=tuple(dict.fromkeys((*besides, *stated.unprotected))))


def unprotected_besides(fit: "Fit") -> tuple[str, ...]:
    """Return the columns besides features that a fit names as released as they are."""
    besides = fit.diagnostics.get(UNPROTECTED, ())
    if not isinstance(besides, tuple) or not all(isinstance(name, str) for name in besides):
        raise FormatError("what this fit says of columns that are not protected is no names. Fit again.")
    return besides


def _privacy(fit: "Fit") -> Facts:
    stated = stated_guarantee(fit)
    if stated is None:
        said = ["no guarantee"]
    elif fit.diagnostics.get("seeded"):
        said = [f"none, for a seed; without: {stated}"]
    else:
        said = [str(stated), *stated.in_words()]
    found = [("privacy", said)]
    if fit.claim is not None:
        found.append(("claimed", [f"{fit.claim} (by the source; not proved)"]))
    return found


def _bias(fit: "Fit") -> Facts:
    corrected = fit.corrected
    if fit.own_guarantee is not None or fit.description:
        return []
    if corrected.method == "none" and not corrected.is_exact:
        return [("bias", ["not corrected: the noise of the records is left in theta"])]
    certificate = fit.known_certificate
    if certificate is not None:
        said = [line.strip() for line in str(certificate).splitlines()]
        if fit.diagnostics.get("noise_scale"):
            said.append("that is for the noise which the release declares, and these records have scales of their own")
        return [("bias", said)]
    claim = "none, by derivation" if corrected.is_exact else "that of the method"
    return [("bias", [f"{claim}; not certified (fit.certificate measures it)"])]


def _range(corrected: CorrectedLoss) -> str:
    design = corrected.design
    assert design is not None
    what = "residual" if corrected.surrogate_parts.is_residual else "score"
    targets: Sequence[float] = TargetNoise.of(corrected.shown.loss, corrected.shown.release).targets
    worst, _ = corrected.surrogate_parts.worst_errors(design, design.radius, tuple(targets))
    return f"for |{what}| <= {design.radius:.3g}: bias of the loss at most {worst:.2g}"
