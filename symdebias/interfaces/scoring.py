"""A scorer of scikit-learn for released records: metrics of true ones, the noise undone."""

from dataclasses import dataclass, field, replace
from typing import Any

from symdebias import _optional
from symdebias.evaluation import evaluate
from symdebias.evaluation.estimate import HIGHER_IS_BETTER, check_options
from symdebias.interfaces.debiased import Debiased
from symdebias.losses import Loss

__all__ = ["CorrectedScorer"]

_metadata: Any = _optional.require("sklearn.utils.metadata_routing", extra="sklearn")
_pipeline: Any = _optional.require("sklearn.pipeline", extra="sklearn")
_validation: Any = _optional.require("sklearn.utils.validation", extra="sklearn")


@dataclass(frozen=True)
class CorrectedScorer:
    """A scorer for released records, to be given as ``scoring`` to ``GridSearchCV`` and its kin.

    Its value estimates the metric on true records, the noise undone as `symdebias.evaluation.evaluate` does.

    Attributes
    ----------
    metric : str or Loss
        As for `symdebias.evaluation.evaluate`, such as "roc_auc", "f1", "brier" or "r2"; a loss is taken in the coding
        of the labels that were fitted. The value of a loss (log_loss, brier, squared_error, poisson or a Loss) has its
        sign changed: larger is better.
    threshold : float
        As for `symdebias.evaluation.evaluate`.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> from sklearn.model_selection import GridSearchCV
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 2))
    >>> release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5))
    >>> noised = release.privatize(X, X @ [2.0, -1.0], random_state=1)
    >>> scorer = sd.CorrectedScorer("squared_error")
    >>> search = GridSearchCV(sd.DebiasedRegressor(release=release), {"l2": [0.0, 1.0]}, scoring=scorer, cv=2)
    >>> search.fit(noised.X, noised.y).best_params_
    {'l2': 0.0}
    """

    metric: str | Loss
    threshold: float = 0.0
    _weighted: bool | str | None = field(default=None, repr=False, compare=False)
    _with_offset: bool | str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        # GridSearchCV makes NaN of what a scorer refuses.
        check_options(self.metric, None, "any", self.threshold)

    def set_score_request(
        self, *, sample_weight: bool | str | None = None, offset: bool | str | None = None
    ) -> "CorrectedScorer":
        """Return this scorer with a request for metadata, where scikit-learn routes it.

        Parameters
        ----------
        sample_weight : bool, str or None
            Whether weights are asked for, or under which name; None leaves them to be an error where they are passed.
        offset : bool, str or None
            The same for the known term of the score, which models that were fitted with one need.
        """
        return replace(self, _weighted=sample_weight, _with_offset=offset)

    def get_metadata_routing(self) -> Any:
        """Return what metadata this scorer asks for, as scikit-learn has it."""
        request = _metadata.MetadataRequest(owner=type(self).__name__)
        request.score.add_request(param="sample_weight", alias=self._weighted)
        request.score.add_request(param="offset", alias=self._with_offset)
        return request

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None, *, offset: Any = None
    ) -> float:
        """Return the estimate for a fitted estimator, or a pipeline that ends in one; larger is better."""
        while hasattr(estimator, "best_estimator_") or isinstance(estimator, _pipeline.Pipeline):
            if isinstance(estimator, _pipeline.Pipeline):
                estimator, X = estimator[-1], X if len(estimator) == 1 else estimator[:-1].transform(X)
            else:
                estimator = estimator.best_estimator_
        if not isinstance(estimator, Debiased):
            raise TypeError(
                "a CorrectedScorer scores a DebiasedClassifier or DebiasedRegressor, or a pipeline that ends in one; "
                f"got {type(estimator).__name__}. Fit one of these."
            )
        _validation.check_is_fitted(estimator, "fit_")
        found = evaluate(
            estimator,
            X,
            y,
            metric=self.metric,
            sample_weight=sample_weight,
            threshold=self.threshold,
            offset=offset,
        )
        return found.value if self.metric in HIGHER_IS_BETTER else -found.value
