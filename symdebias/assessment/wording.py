"""A correction in words and formulas, for prompts and notebooks."""

from symdebias import _markup
from symdebias.correction import Correction
from symdebias.derivation import Series
from symdebias.losses import Loss


def as_text(declared: Loss, shown: Correction, *, is_resolved: bool) -> str:
    """Return the correction of a loss in a line.

    Parameters
    ----------
    declared : Loss
        The loss as declared.
    shown : Correction
        Its correction.
    is_resolved : bool
        Whether it can be evaluated.
    """
    if not is_resolved:
        return f"<CorrectedLoss {declared.expression}, method='surrogate', unresolved>"
    design = shown.surrogates
    if design is not None:
        settings = f"radius={design.radius:.4g}, score_variance={shown.score_level:.4g}, n={design.records:.4g}"
        return f"<CorrectedLoss {declared.expression}, method='surrogate', {settings}>"
    order = f", order={shown.method.order}" if isinstance(shown.method, Series) else ""
    return f"<CorrectedLoss {shown.derivation.expression}, method={shown.method.name!r}{order}>"


def as_html(declared: Loss, shown: Correction, reason: str, *, is_resolved: bool) -> str:
    """Return the declared and the corrected formula with what is known of them.

    Parameters
    ----------
    declared, shown, is_resolved
        As for `as_text`.
    reason : str
        Why this method.
    """
    name = shown.method.name
    kind = "exact" if shown.is_exact else f"{name}, with a bias" if shown.method.corrects else "uncorrected"
    said = [("correction", [kind, *shown.derivation.notes])]
    said += [("reason", [reason])] if reason else []
    conditions = [str(condition) for condition in shown.derivation.conditions]
    said += [("conditions", conditions)] if conditions else []
    formulas = [_markup.formula(declared.expression)]
    formulas += [_markup.formula(shown.derivation.expression)] if is_resolved else ["<p>not designed yet</p>"]
    return "\n".join(["<div>", *formulas, _markup.facts(said), "</div>"])
