"""The result of every solver: parameters, how they came about, and what they cost in privacy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symdebias.corrected import CorrectedLoss
from symdebias.privacy import Guarantee
from symdebias.transforms.certificate import Certificate

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class History:
    """Iterates that were asked for.

    Attributes
    ----------
    steps : array of shape (m,), int64
        Steps taken when each was recorded; 0 is the start.
    records : array of shape (m,), int64
        Records seen by then.
    theta : array of shape (m, q), float64
        The iterates, averaged where averaging had begun.
    """

    steps: np.ndarray[Any, np.dtype[np.int64]]
    records: np.ndarray[Any, np.dtype[np.int64]]
    theta: FloatArray


@dataclass(frozen=True)
class Fit:
    """What a solver found.

    Attributes
    ----------
    theta : array of shape (q,), or (K, q) for K scores, float64
        The parameters, read-only; intercept last.
    corrected : CorrectedLoss
        The loss that was minimised.
    solver : str
        The solver's name.
    history : History
        The iterates that were asked for.
    diagnostics : mapping
        ``records``, ``steps``, ``epochs``, ``seconds``, ``projections`` (steps that ended on the ball),
        ``on_ball`` (whether the last one did), ``carrying_share`` (the share of records that carry the gradient at
        theta: near 1 where all weigh the same, small where the noise rules; None for ``method="none"``),
        ``noise_inflation`` (the mean square of the corrected gradients over that of the uncorrected ones; a warning
        from 100 on) and ``score_variance`` (the noise variance s of the score at theta, None for a free-form loss).
        For a surrogate that was designed on the way besides ``pilot`` (theta, score_variance, signal_variance,
        gram_clipped) and ``stages``.
    """

    theta: FloatArray
    corrected: CorrectedLoss
    solver: str
    history: History
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the release: training on released records costs nothing more."""
        return self.corrected.release.guarantee

    @property
    def certificate(self) -> Certificate:
        """The certificate of the corrected loss on a ball that holds theta."""
        return self.corrected.certify(
            theta_radius=max(1.0, float(np.linalg.norm(self.theta))),
            columns=self.theta.shape[-1] - self.corrected.release.fit_intercept,
        )

    @property
    def coefficients(self) -> FloatArray:
        """The parameters in the units of the original columns, the release's centre and scale undone.

        Raises
        ------
        ValueError
            The columns were centred and there is no intercept to take up the shift, or the loss is free-form.
        """
        if not self.corrected.declared.scores:
            raise ValueError(
                "a free-form loss has no linear coefficients. Read theta, whose features are the released ones."
            )
        return self.corrected.release.original_units(self.theta)

    def summary(self) -> str:
        """Return the fit as a table to print.

        Returns
        -------
        str
            Parameters with their names, the method, the guarantee, and what to know of the run.
        """
        corrected = self.corrected
        if corrected.declared.scores and corrected.release.columns is None:
            count = self.theta.shape[-1] - corrected.release.fit_intercept
            names = [f"x{index}" for index in range(count)]
            names += ["intercept"] if corrected.release.fit_intercept else []
        else:
            names = list(corrected.parameter_names)
        if self.theta.ndim > 1:
            names = [f"{score}: {name}" for score in corrected.declared.scores for name in names]
        variance = self.diagnostics.get("score_variance")
        width = max(9, *(len(name) for name in names))
        kind = "exact" if corrected.is_exact else "biased" if corrected.method != "none" else "uncorrected"
        lines = [
            f"{self.solver}: {corrected.declared.name or corrected.declared.expression}",
            f"  correction   {corrected.method} ({kind})",
            *([] if corrected.design is None else [_range(corrected)]),
            f"  release      {self.guarantee if self.guarantee is not None else 'no guarantee'}",
            f"  records      {self.diagnostics['records']:,} in {self.diagnostics['steps']:,} steps, "
            f"{self.diagnostics['seconds']:.3g} s",
            *([] if variance is None else [f"  noise        variance {variance:.4g} of the score at theta"]),
            "",
            f"  {'parameter':<{width}}  {'theta':>12}",
        ]
        lines += [f"  {name:<{width}}  {value:>12.6g}" for name, value in zip(names, self.theta.ravel(), strict=True)]
        lines += ["", *(f"  note: {note}" for note in corrected.notes)] if corrected.notes else []
        if self.diagnostics.get("on_ball"):
            lines += ["", "  theta lies on the ball of radius=: the constraint, not the data, decided its length"]
        return "\n".join(lines)


def _range(corrected: CorrectedLoss) -> str:
    design = corrected.design
    assert design is not None
    what = "residual" if corrected.surrogate_parts.is_residual else "score"
    return f"  surrogate    for |{what}| <= {design.radius:.3g}: bias of the loss <= {design.bias:.2g}"
