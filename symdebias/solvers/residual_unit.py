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
from symdebias.solvers.residual_moments import quantiles

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
    """Refuse a minimum of a loss of the residual that few residuals make where far ones have theirs elsewhere.

    So it is where the loss bends down far out, as the Cauchy loss does.

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
    if found is not None and found.is_scarce and found.bends_down:
        raise DivergenceError(
            "training was lost: theta is a minimum that few records make, and others make theirs elsewhere."
        )


@dataclass(frozen=True)
class _Curved:
    """Where a loss of the residual is curved."""

    # (sum w |c|)^2/(m sum (w c)^2) of the curvatures c of the loss at residuals of weights w, m their effective number.
    share: float
    count: float  # That of the effective number of all records, for each parameter.
    size: float  # The middle size of a residual.
    bends_down: bool  # Whether the curvature is negative at most residuals that are longer.

    @classmethod
    def of(cls, records: Records, loss: Loss, theta: FloatArray | None) -> Self | None:
        """Return it at parameters, by default at those of least absolute residuals; None for a loss without."""
        if records.correction.release.coupling is not None or not is_residual_loss(loss):
            return None
        (score,) = loss.scores
        # Forms that do not overflow; a kink is curved at no residual.
        second = sp.diff(stable.rewrite(loss.expression), score, 2)
        second = second.replace(sp.DiracDelta, lambda *_: sp.Integer(0))
        residuals, weights = _residuals(records.tested, theta)
        with np.errstate(all="ignore"):
            curvatures = numeric(second, (score, loss.target))(np.zeros(len(residuals)), residuals)
        largest = float(np.abs(curvatures).max(initial=0.0))
        if second == 0 or not len(residuals) or not np.isfinite(largest):
            return None
        # Relative to the largest, so that no square is lost.
        parts, sizes = weights * np.abs(curvatures) / (largest or 1.0), np.abs(residuals)
        share = float(parts.sum() ** 2 / max(float(parts @ parts), 1e-300)) * float(weights @ weights)
        count = share * records.effective / records.correction.number_of_parameters
        (size,) = quantiles(sizes, weights, [0.5])
        longer = sizes >= size
        bends_down = float(weights[longer & (curvatures < 0)].sum()) > float(weights[longer].sum()) / 2
        return cls(share, count, size, bends_down)

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


def _residuals(records: Records, theta: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the residuals of records with weight at parameters, or about the least absolute ones, and their weights.

    These sum to 1.
    """
    rows = records.correction.design.estimated_rows(np.asarray(records.matrix[:]))
    target = np.asarray(records.target[:])
    weights = records.weights if len(records.weights) else np.ones(len(target))
    kept = weights > 0
    rows, target, weights = rows[kept], target[kept], weights[kept] / weights.sum()
    if theta is not None:
        return np.asarray(target - rows @ theta), weights
    residuals = target
    for _ in range(_ROUNDS):
        sizes = np.abs(residuals)
        (middle,) = quantiles(sizes, weights, [0.5])
        roots = np.sqrt(weights / (np.maximum(sizes, _SHORTEST * middle) + 1e-300))
        found = np.linalg.lstsq(rows * roots[:, None], target * roots, rcond=None)[0]
        residuals = target - rows @ found
    return np.asarray(residuals), weights
