"""Residuals in a unit that is not the loss's: it is curved at hardly any of them, and more records do not help."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen import stable
from symdebias.codegen.numeric import numeric
from symdebias.exceptions import DivergenceError
from symdebias.losses import Loss
from symdebias.losses.meaning import is_residual_loss
from symdebias.records import Records

# Least absolute residuals are found by so many rounds of weighted least squares, where none counts for more than those
# of this share of the middle one.
_ROUNDS, _SHORTEST = 20, 0.1
# The unit is another where the loss is curved at less than this share of the residuals, and at fewer than so many for
# each parameter.
_SHARE, _EACH = 0.25, 20.0


def scarcely_curved(records: Records, loss: Loss) -> str:
    """Return that a loss of the residual is curved at hardly any of them, in sentences; empty where that is not so.

    Parameters
    ----------
    records : Records
        What was to be fitted, of which the tested records are looked at: about their least absolute residuals.
    loss : Loss
        The loss, as declared.
    """
    found = _Curved.of(records, loss, None)
    return "" if found is None or not found.is_scarce else found.told()


def refuse_stray_minimum(records: Records, loss: Loss, theta: FloatArray) -> None:
    """Refuse a minimum of a loss of the residual, not convex, that few residuals make: others have theirs elsewhere.

    Parameters
    ----------
    records, loss
        As for `scarcely_curved`.
    theta : array of shape (Q,), float64
        The minimum.

    Raises
    ------
    DivergenceError
        It is one.
    """
    found = _Curved.of(records, loss, theta)
    if found is not None and found.is_scarce and not found.is_convex:
        raise DivergenceError(
            "training was lost: theta is a minimum that few records make, and others make theirs elsewhere."
        )


@dataclass(frozen=True)
class _Curved:
    """Where a loss of the residual is curved."""

    share: float  # (sum |c|)^2/(m sum c^2) over m residuals, of the curvatures c of the loss at each.
    count: float  # The same of all records, for each parameter.
    size: float  # The middle size of a residual.
    is_convex: bool  # Whether no curvature is negative.

    @classmethod
    def of(cls, records: Records, loss: Loss, theta: FloatArray | None) -> Self | None:
        """Return it at parameters, by default at those of least absolute residuals; None for a loss without."""
        if records.correction.release.coupling is not None or not is_residual_loss(loss):
            return None
        (score,) = loss.scores
        # Forms that do not overflow; a kink is curved at no residual.
        second = sp.diff(stable.rewrite(loss.expression), score, 2)
        second = second.replace(sp.DiracDelta, lambda *_: sp.Integer(0))
        residuals = _residuals(records.tested, theta)
        with np.errstate(all="ignore"):
            curvatures = numeric(second, (score, loss.target))(np.zeros(len(residuals)), residuals)
        largest = float(np.abs(curvatures).max(initial=0.0))
        if second == 0 or not len(residuals) or not np.isfinite(largest):
            return None
        # Relative to the largest, so that no square is lost.
        parts = np.abs(curvatures) / (largest or 1.0)
        share = float(parts.sum() ** 2 / max(float(parts @ parts), 1e-300)) / len(residuals)
        count = share * records.present / records.correction.number_of_parameters
        return cls(share, count, float(np.median(np.abs(residuals))), bool(curvatures.min() >= 0))

    @property
    def is_scarce(self) -> bool:
        """Whether the unit of the residuals is not that of the loss."""
        return self.share < _SHARE and self.count < _EACH

    def told(self) -> str:
        """Return what is so, and what would do."""
        where = f"about {100 * self.share:.2g}%" if self.share > 0 else "none"
        return (
            f"Residuals are about {self.size:.2g} long, and the loss is curved at {where} of them: its unit is not "
            f"theirs. Give the target in units of about {self.size:.2g}, or a loss that is curved over more of them, "
            "such as one of a larger threshold, scale or width."
        )


def _residuals(records: Records, theta: FloatArray | None) -> FloatArray:
    """Return the residuals of records with weight at parameters, or about the least absolute ones."""
    rows = records.correction.design.estimated_rows(np.asarray(records.matrix[:]))
    target = np.asarray(records.target[:])
    if len(records.weights):
        kept = records.weights > 0
        rows, target = rows[kept], target[kept]
    if theta is not None:
        return np.asarray(target - rows @ theta)
    residuals = target
    for _ in range(_ROUNDS):
        sizes = np.abs(residuals)
        weights = 1 / np.sqrt(np.maximum(sizes, _SHORTEST * float(np.median(sizes))) + 1e-300)
        found = np.linalg.lstsq(rows * weights[:, None], target * weights, rcond=None)[0]
        residuals = target - rows @ found
    return np.asarray(residuals)
