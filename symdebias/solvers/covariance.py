"""The covariance of a root of the mean corrected score, from its records."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symdebias.corrected import Derivatives
from symdebias.exceptions import InferenceError
from symdebias.inference import Inference, sandwich
from symdebias.solvers.records import Records
from symdebias.solvers.scores import ReleasedRecords, rms_error

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

# From so few clusters on the normal approximation of cluster sandwiches is poor.
_FEW_CLUSTERS = 30


def at_root(
    records: Records,
    theta: FloatArray,
    found: Derivatives,
    penalty: FloatArray,
    *,
    safeguards: Sequence[str] = (),
    codes: Any = None,
    known: ReleasedRecords | None = None,
    kind: str = "sandwich",
    by_descent: bool = False,
) -> Inference:
    """Return the sandwich covariance at a root, the noise of the mechanism included.

    Parameters
    ----------
    records : Records
        What was trained on.
    theta : array of shape (Q,), float64
        The root.
    found : Derivatives
        The derivatives there, with the outer products of gradients.
    penalty : array of shape (Q,), float64
        l2 for each parameter.
    safeguards : sequence of str
        What held theta at the end; there are then no intervals.
    codes : array of shape (n,), int64, optional
        Clusters.
    known : ReleasedRecords, optional
        What released records say of true scores, for the bias of a surrogate.
    kind : str
        The name of the covariance.
    by_descent : bool
        Whether theta is an average of iterates, which may be away from the root.
    """
    corrected = records.corrected
    mean = -penalty * theta
    notes: list[str] = []
    if codes is not None:
        kind = f"cluster {kind}"
        count = int(codes.max()) + 1
        meat = records.meat(theta, mean, codes)
        if count < _FEW_CLUSTERS:
            notes.append(f"{count} clusters are few for intervals by the normal distribution")
    elif not penalty.any():
        meat = found.meat
    elif len(records.weights):
        # The mean of the gradients under squared weights is not what the penalty balances.
        meat = records.meat(theta, mean)
    else:
        meat = found.meat - np.multiply.outer(mean, mean)
    hessian = found.hessian + np.diag(penalty)
    try:
        covariance = sandwich(hessian, meat, records.total)
    except InferenceError as error:
        return Inference(None, kind, str(error))
    if penalty.any():
        notes.append("intervals are for the penalised optimum, not for the optimum without l2")
    refusal = ""
    if by_descent:
        step = np.linalg.solve(hessian, found.gradient - mean)
        away = float(np.max(np.abs(step) / np.sqrt(np.diag(covariance))))
        notes.append(f"theta is {away:.2g} standard errors from the root of the mean corrected score")
        if away > 1:
            refusal = (
                f"theta is {away:.3g} standard errors away from the root of the mean corrected score: descent has not "
                "arrived. Train longer or with larger steps, or use m_estimate."
            )
    if safeguards:
        refusal = (
            f"{'; '.join(safeguards)}: a constraint, not the data, decided theta, and intervals would not cover. Widen "
            "the constraint, use more records, or release with less noise."
        )
    bias: FloatArray | None = np.zeros(len(theta))
    if corrected.method == "none" and not _is_noiseless(records):
        bias = None
        refusal = refusal or (
            'method="none" leaves the bias of the noise in theta, and intervals would not cover. Use a correction, or '
            "read standard_errors, which are those of the biased estimate."
        )
    elif not corrected.is_exact and corrected.method != "none":
        bias = bias_bound(records, theta, hessian, known)
        if not np.all(np.isfinite(bias)):
            refusal = refusal or "the bias of the correction has no finite bound here. Use another method."
        notes.append("intervals are widened by the bound on the bias of the correction")
    return Inference(covariance, kind, refusal, bias, tuple(notes))


def _is_noiseless(records: Records) -> bool:
    release = records.corrected.release
    return release.target is None and not any(True for _ in release.noises(records.columns))


def bias_bound(records: Records, theta: FloatArray, hessian: FloatArray, known: ReleasedRecords | None) -> FloatArray:
    """Return a bound on the bias of each parameter that the bias b of the corrected gradient makes, H^-1 b.

    For a surrogate b = E[x e(u)] with e the error of its slope at the true score u, so that by the inequality of Cauchy
    and Schwarz parameter j is off by at most sqrt((H^-1 S H^-1)_jj E e(u)^2), S the mean of x x'. The mean is over the
    estimated distribution of true scores, those outside the range of the surrogate included. For other methods the
    bound is ||(H^-1)_j|| times the certified bias of the gradient.

    Parameters
    ----------
    records : Records
        What was trained on.
    theta : array of shape (Q,), float64
        The root.
    hessian : array of shape (Q, Q), float64
        H.
    known : ReleasedRecords, optional
        What released records say of true scores.
    """
    corrected = records.corrected
    inverse = np.linalg.inv(hessian)
    if corrected.design is not None and known is not None:
        error = rms_error(corrected.surrogate_parts, corrected.design.surrogates, known.scores(theta), known.targets())
        return np.asarray(error * np.sqrt(np.einsum("ij,jk,ik->i", inverse, known.positive_gram(), inverse)))
    certificate = corrected.certify(
        theta_radius=max(1.0, float(np.linalg.norm(theta))),
        columns=records.columns if corrected.declared.scores else None,
    )
    worst = certificate.gradient_bias
    if not math.isfinite(worst):
        return np.full(len(theta), math.inf)
    return np.asarray(worst * np.linalg.norm(inverse, axis=1))
