"""All metrics of a model that its target has, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias._rows import places_over
from symdebias.evaluation.estimate import WITH_THRESHOLD, Estimate, check_options, estimated_on
from symdebias.evaluation.links import link_of
from symdebias.evaluation.models import Model, as_fitted
from symdebias.evaluation.parts import checked_records
from symdebias.evaluation.records import OF_CLASSES, Records, is_softmax, scores_of
from symdebias.exceptions import SymdebiasError
from symdebias.noise import ChannelNoise
from symdebias.release import Release
from symdebias.solvers.fit import Fit
from symdebias.solvers.predictions import Predictor

OF_LABELS = ("accuracy", "precision", "recall", "f1", "roc_auc", "brier", "log_loss")
OF_NUMBERS = ("squared_error", "r2")
# Metrics of probabilities, which are logistic ones.
_OF_PROBABILITIES = ("brier", "log_loss")
# More than two values are mostly found among so many records.
_LOOKED_AT = 1_000


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a model on true records; made by `evaluate_all`.

    Attributes
    ----------
    estimates : mapping from str to Estimate
        By the name of the metric.
    refused : mapping from str to str
        Metrics that cannot be told, each with its reason.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> X = np.random.default_rng(0).normal(size=(2_000, 1))
    >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.5)).privatize(X, X[:, 0], random_state=1)
    >>> found = sd.evaluation.evaluate_all([1.0], noised.X, noised.y, release=noised.release)
    >>> sorted(found.estimates), dict(found.refused)
    (['r2', 'squared_error'], {})
    """

    estimates: Mapping[str, Estimate]
    refused: Mapping[str, str]

    def __str__(self) -> str:
        return self.table()

    def table(self, level: float = 0.95) -> str:
        """Return the metrics as lines of text, with intervals.

        Parameters
        ----------
        level : float
            That of the intervals, in (0, 1).
        """
        lines = [f"{'metric':<14}{'value':>10}{'(se)':>10}{'bias up to':>14}{f'{100 * level:g}% interval':>22}  method"]
        for name, one in self.estimates.items():
            ends = one.interval_or_none(level)
            interval = f"{'none':>22}" if ends is None else f"{ends[0]:>11.4f}{ends[1]:>11.4f}"
            bias = f"{one.bias:.2g}{'' if one.bias_is_certified else ' est.'}" if one.bias > 0 else "0"
            lines.append(f"{name:<14}{one.value:>10.4f}{one.standard_error:>10.4f}{bias:>14}{interval}  {one.method}")
        return "\n".join([*lines, *(f"{name:<14}refused: {reason}" for name, reason in self.refused.items())])


def evaluate_all(
    theta_or_fit: Model,
    X: Any,
    y: Any,
    *,
    release: Release | None = None,
    sample_weight: Any = None,
    clusters: Any = None,
    target_values: Sequence[float] | None = None,
    radius: float | None = None,
    label_model: str = "any",
    threshold: float = 0.0,
    offset: Any = None,
    noise_scale: Any = None,
) -> Evaluation:
    """Estimate all metrics of a model that its target has, on true records from released ones.

    Parameters
    ----------
    theta_or_fit, X, y, release, sample_weight, clusters, target_values, radius, label_model, threshold, offset, \
    noise_scale
        As for `evaluate`. The target is one of two labels where the Fit or the release says so, or `target_values`
        does; otherwise it is a number. Metrics that do not take `label_model` or `threshold` are told without.

    Returns
    -------
    Evaluation
        Of several classes, with a score each, accuracy and log loss. Of two labels accuracy, precision, recall, F1, the
        area under the ROC curve, Brier score and log loss, the last two where the model's probabilities are logistic
        ones; of numbers the squared error and R2, or the Poisson loss for a fit whose mean is exp(u). What cannot be
        told under this noise is named with the reason.

    Raises
    ------
    SymdebiasError
        None of them can be told.
    TypeError, ValueError
        An argument or the data do not fit.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5_000, 1))
    >>> y = np.where(rng.random(5_000) < 1 / (1 + np.exp(-2 * X[:, 0])), 1, -1)
    >>> release = sd.Release(target=sd.RandomizedResponse(epsilon=2.0))
    >>> noised = release.privatize(X, y, random_state=1)
    >>> found = sd.evaluation.evaluate_all([2.0], noised.X, noised.y, release=release)
    >>> list(found.estimates)
    ['accuracy', 'precision', 'recall', 'f1', 'roc_auc', 'brier', 'log_loss']
    """
    model, y = as_fitted(theta_or_fit, X, y)
    records = checked_records(
        model, X, y, release,
        sample_weight=sample_weight, clusters=clusters, target_values=target_values, offset=offset,
        noise_scale=noise_scale,
    )  # fmt: skip
    return overview_of(records, model, radius=radius, label_model=label_model, threshold=threshold)


def overview_of(
    records: Records, theta_or_fit: Fit | ArrayLike, *, radius: float | None, label_model: str, threshold: float
) -> Evaluation:
    """Return all metrics on checked records; arguments as for `evaluate_all`."""
    names, refused = _metrics_of(theta_or_fit, records)
    estimates: dict[str, Estimate] = {}
    error: SymdebiasError | None = None
    for name in names:
        options: dict[str, Any] = {
            "label_model": "any" if records.of_margins and name == "accuracy" else label_model,
            "threshold": threshold if name in WITH_THRESHOLD else 0.0,
        }
        check_options(name, radius, **options)
        try:
            estimates[name] = estimated_on(records, theta_or_fit, name, radius=radius, **options)
        except SymdebiasError as found:
            error, refused[name] = found, f"{found}"
    if error is not None and not estimates:
        raise error
    return Evaluation(estimates, refused)


def _metrics_of(model: Any, records: Records) -> tuple[list[str], dict[str, str]]:
    """Return the metrics that a target has, and those that a model has no predictions for, with the reason."""
    if scores_of(model) > 1:
        unlike = [name for name in OF_CLASSES if isinstance(model, Fit) and not is_softmax(model, name)]
        reason = "the loss of this fit predicts otherwise than by the softmax of its scores"
        if len(unlike) == len(OF_CLASSES):
            raise ValueError(f"{reason}, and no metric by name fits it. Evaluate the loss that was fitted.")
        return [name for name in OF_CLASSES if name not in unlike], dict.fromkeys(unlike, reason)
    has_labels, link = _has_labels(model, records), None
    if isinstance(model, Fit):
        link = link_of(model)
    if has_labels:
        if not isinstance(model, Fit) or link == "logistic":
            return list(OF_LABELS), {}
        reason = "the loss of this fit predicts no logistic probabilities"
        return [name for name in OF_LABELS if name not in _OF_PROBABILITIES], dict.fromkeys(_OF_PROBABILITIES, reason)
    if not isinstance(model, Fit) or link == "identity":
        return list(OF_NUMBERS), {}
    if link == "exponential":
        return ["poisson"], {}
    raise ValueError(
        "the loss of this fit predicts neither labels nor the mean of a number by a link that is known, and no metric "
        "by name fits it. Evaluate a Loss."
    )


def _has_labels(model: Any, records: Records) -> bool:
    """Return whether the target is one of two labels."""
    if records.of_margins or (records.declared is not None and len(records.declared) == 2):
        return True
    if isinstance(model, Fit) and model.corrected.declared.scores:
        return Predictor.of(model).predicts == "label"
    noise = records.release.target_noise
    if noise is None and not isinstance(model, Fit):
        found = np.unique(records.target[places_over(records.weights, _LOOKED_AT)])
        if len(found) == 2 and len(found := np.unique(np.concatenate(list(records.over_parts(_values))))) == 2:
            raise ValueError(
                f"all targets are {found[0]:g} or {found[1]:g}, and parameters alone do not say whether these are "
                f"labels or numbers. Pass target_values=({found[0]:g}, {found[1]:g}) for the metrics of labels, a Fit, "
                'or ask for one metric of numbers: evaluate(..., metric="squared_error").'
            )
    return isinstance(noise, ChannelNoise) and len(noise.inputs) == 2


def _values(part: Records) -> Any:
    """Return different values of the target of records with weight, three of them at most."""
    return np.unique(part.target[part.weights > 0])[:3]
