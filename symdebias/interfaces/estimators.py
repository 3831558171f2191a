"""Estimators of scikit-learn: fit on released records, predict true ones.

`symdebias.DebiasedClassifier` and `symdebias.DebiasedRegressor` import scikit-learn when they are first asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdebias import _arrays, _optional, losses
from symdebias._arrays import FloatArray
from symdebias._domains import shown
from symdebias.driver import debias
from symdebias.evaluation import evaluate
from symdebias.losses import Loss
from symdebias.losses.meaning import meaning_of
from symdebias.mechanisms import ChannelMechanism
from symdebias.release import Release
from symdebias.release.matrices import bound_to
from symdebias.solvers import Fit, m_estimate, sgd
from symdebias.solvers.predictions import Predictor

__all__ = ["CorrectedScorer", "DebiasedClassifier", "DebiasedRegressor"]

_base: Any = _optional.require("sklearn.base", extra="sklearn")
_multiclass: Any = _optional.require("sklearn.utils.multiclass", extra="sklearn")
_validation: Any = _optional.require("sklearn.utils.validation", extra="sklearn")

_SOLVERS: Mapping[str, Any] = {"m_estimate": m_estimate, "sgd": sgd}


class _Debiased(_base.BaseEstimator):
    """What both estimators share: the release, the solver, and the fit."""

    loss: str | Loss
    release: Release | None
    method: str
    solver: str
    l2: float
    radius: float | None
    fit_intercept: bool | None
    solver_options: Mapping[str, Any] | None
    random_state: Any
    fit_: Fit
    n_features_in_: int
    feature_names_in_: Any
    # Labels that are released as they are, in the order of the loss's target values; None where the release has labels.
    _observed: np.ndarray[Any, Any] | None

    # ---- what the user gave ------------------------------------------------------------------------------

    def _release_of(self, X: Any) -> Release:
        """Return the release of the records, with names for its columns where X has some."""
        if self.release is None:
            return Release(fit_intercept=self.fit_intercept is not False)
        if not isinstance(self.release, Release):
            raise TypeError(
                f"release must be a symdebias.Release or None; got {type(self.release).__name__}. Pass noised.release."
            )
        if self.fit_intercept is not None and self.fit_intercept != self.release.fit_intercept:
            raise ValueError(
                f"fit_intercept={self.fit_intercept}, and the release was declared with fit_intercept="
                f"{self.release.fit_intercept}. Leave it out: the release decides."
            )
        return bound_to(self.release, X) if _arrays.is_table(X) else self.release

    def _validated(self, *data: Any, **options: Any) -> Any:
        """Return records without a release, checked by scikit-learn's own rules."""
        options |= {"dtype": np.float64, "order": "C"}
        if hasattr(_validation, "validate_data"):
            return _validation.validate_data(self, *data, **options)
        return self._validate_data(*data, **options)

    def _remember_columns(self, X: Any) -> None:
        """Keep the number and the names of the columns of released records, which the release checks by itself."""
        if not _arrays.is_table(X):
            self.n_features_in_ = int(_arrays.features_array(X).shape[1])
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        names = _arrays.column_names(X)
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)

    def _loss_of(self, number_of_classes: int | None) -> Loss:
        """Return the declared loss, by name or as it is."""
        loss = self.loss
        if isinstance(loss, str):
            if loss not in losses.__all__:
                raise ValueError(
                    f"loss={shown(loss, 60)} is not in the catalogue. Choose one of {', '.join(losses.__all__)}, or "
                    "pass a symdebias.Loss."
                )
            if loss != "softmax":
                made: Loss = getattr(losses, loss)()
                return made
            if number_of_classes is None:
                raise ValueError('loss="softmax" is a loss of labels. Use a DebiasedClassifier.')
            return losses.softmax(number_of_classes)
        if not isinstance(loss, Loss):
            raise TypeError(f"loss must be the name of a loss or a symdebias.Loss; got {type(loss).__name__}.")
        if not loss.scores:
            raise ValueError(
                f"{loss.expression} is in features by name and has no score, so that it predicts nothing. Use "
                "symdebias.m_estimate, or declare the loss in a score."
            )
        return loss

    def _fitted(self, loss: Loss, release: Release, X: Any, y: Any, sample_weight: Any) -> Any:
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver={shown(self.solver, 60)} is not known. Choose one of {', '.join(_SOLVERS)}.")
        options = dict(self.solver_options or {})
        if self.solver == "sgd":
            options.setdefault("random_state", self.random_state)
        if sample_weight is not None:
            sample_weight = _validation._check_sample_weight(sample_weight, X, dtype=np.float64)
        # A shift of all scores leaves the softmax loss as it is: a direction without curvature, for which a fit under
        # noise would be taken as lost. True records have no noise to be lost in.
        untouched = self.release is None and self.method == "auto" and len(loss.scores) > 1
        corrected = debias(loss, release, method="none" if untouched else self.method)
        self.fit_ = _SOLVERS[self.solver](
            corrected, X, y, l2=self.l2, radius=self.radius, sample_weight=sample_weight, **options
        )
        return self

    # ---- what was found ----------------------------------------------------------------------------------

    @property
    def _predictor(self) -> Predictor:
        _validation.check_is_fitted(self, "fit_")
        return Predictor.of(self.fit_)

    @property
    def coef_(self) -> FloatArray:
        """The coefficients in the units of true records, without the intercept: as scikit-learn shapes them."""
        _validation.check_is_fitted(self, "fit_")
        coefficients = self.fit_.coefficients
        slopes = coefficients[..., : coefficients.shape[-1] - self.fit_.corrected.release.fit_intercept]
        return slopes[None, :] if _base.is_classifier(self) and slopes.ndim == 1 else slopes

    @property
    def intercept_(self) -> Any:
        """The intercept in the units of true records; 0 without one."""
        _validation.check_is_fitted(self, "fit_")
        coefficients = self.fit_.coefficients
        found = coefficients[..., -1] if self.fit_.corrected.release.fit_intercept else 0 * coefficients[..., 0]
        return np.atleast_1d(found) if _base.is_classifier(self) else float(found)

    def _scores(self, X: Any) -> FloatArray:
        predictor = self._predictor
        return predictor.scores(self._validated(X, reset=False) if self.release is None else X)

    def _released_target(self, y: Any) -> Any:
        """Return released targets as the fitted loss takes them."""
        return y


class DebiasedClassifier(_base.ClassifierMixin, _Debiased):
    """A classifier of scikit-learn that is fitted on released records and predicts true ones.

    Parameters
    ----------
    loss : str or Loss
        The name of a loss in `symdebias.losses`, or a loss. ``"softmax"`` takes more than two classes.
    release : Release, optional
        How the records were noised; ``noised.release`` or the card. None says that they are as they are.
    method : str
        As for `symdebias.debias`.
    solver : {"m_estimate", "sgd"}
        The solver.
    l2 : float
        Regularisation + l2/2 ||theta||^2 of the mean loss, in the units of released columns, in [0, inf). The default
        is small beside the curvature of usual records: it gives a minimum to labels that a score separates and to
        columns that depend on each other, as there are without noise.
    radius : float, optional
        Bound on the L2 norm of theta, as for the solver.
    fit_intercept : bool, optional
        Whether there is an intercept. A release decides that by itself; without one there is one by default.
    solver_options : mapping, optional
        Further arguments of the solver.
    random_state : int, numpy.random.Generator or None
        For the order of records of ``"sgd"``.

    Attributes
    ----------
    fit_ : Fit
        What the solver returned, with intervals and certificate.
    classes_ : array of shape (k,)
        The labels in the user's own coding, those of the release where it noises them.
    coef_ : array of shape (1, q) or (K, q), float64
        Coefficients in the units of true records.
    intercept_ : array of shape (1,) or (K,), float64
        The intercept.
    n_features_in_ : int
        The number of columns of released X.
    feature_names_in_ : array of str
        Their names, for a table.

    Notes
    -----
    `fit` takes released records; `predict`, `predict_proba`, `decision_function` and `score` take true ones in their
    own units, whose columns may differ: a column of categories, where the release has their indicators. To judge a
    model on released records, as in a grid search, give `CorrectedScorer` as ``scoring``. A scaler that is fitted to
    noised columns learns the noise: declare ``center`` and ``scale`` on the release instead.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(20_000, 2))
    >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-X @ [6.0, -4.0])), "yes", "no")
    >>> release = sd.Release(
    ...     features=sd.GaussianMechanism.from_scale(0.2),
    ...     target=sd.RandomizedResponse(epsilon=3.0, categories=("no", "yes")),
    ... )
    >>> noised = release.privatize(X, y, random_state=1)
    >>> model = sd.DebiasedClassifier(loss="logistic", release=release).fit(noised.X, noised.y)
    >>> model.predict([[0.5, -0.5], [-0.5, 0.5]])
    array(['yes', 'no'], dtype='<U3')
    """

    def __init__(
        self,
        loss: str | Loss = "logistic",
        *,
        release: Release | None = None,
        method: str = "auto",
        solver: str = "m_estimate",
        l2: float = 1e-6,
        radius: float | None = None,
        fit_intercept: bool | None = None,
        solver_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.release = release
        self.method = method
        self.solver = solver
        self.l2 = l2
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.solver_options = solver_options
        self.random_state = random_state

    @property
    def _takes_several_classes(self) -> bool:
        return self.loss == "softmax" or (isinstance(self.loss, Loss) and len(self.loss.target_values or ()) > 2)

    def _more_tags(self) -> dict[str, Any]:
        """Return the tags that scikit-learn before 1.6 asks for."""
        return {"binary_only": not self._takes_several_classes}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._takes_several_classes
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "DebiasedClassifier":
        """Fit released records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            ``noised.X``.
        y : array of shape (n,), or None
            ``noised.y``; None for a margin release without an intercept.
        sample_weight : array of shape (n,), optional
            Non-negative weights.

        Returns
        -------
        DebiasedClassifier
            Itself.

        Raises
        ------
        ValueError, TypeError
            The loss, the labels and the release do not fit.
        SymdebiasError
            As for `debias` and the solver.
        """
        release = self._release_of(X)
        if release.coupling is not None and release.coupling.kind == "joint":
            raise ValueError('target="joint" releases a number as the target, and no label. Use a DebiasedRegressor.')
        self._observed = None
        if self.release is None:
            X, y = self._validated(X, y, multi_output=False)
        else:
            self._remember_columns(X)
        known = _labels_of(release)
        if sample_weight is not None:
            sample_weight = _validation._check_sample_weight(sample_weight, X, dtype=np.float64)
        if known is None and release.target is None:
            loss, y = self._coded(y, sample_weight)
        else:
            loss = self._loss_of(None if known is None else len(known))
            if known is not None and loss.target_values is None:
                loss = loss.with_target_values(known)
            elif known is not None and set(known) != set(loss.target_values or ()):
                loss = loss.recoded(known)
            if loss.target_values is None:
                raise ValueError(
                    f"{loss.expression} has no target values, and the release adds noise to the labels. Declare "
                    "target_values on the loss."
                )
        self._fitted(loss, release, X, y, sample_weight)
        if self._observed is None:
            found = self._predictor.classes
            self.classes_ = found.astype(str) if found.dtype == object else found
        else:
            self.classes_ = self._observed
        return self

    def _coded(self, y: Any, sample_weight: FloatArray | None) -> tuple[Loss, FloatArray]:
        """Return the loss, and labels that are released as they are in its coding."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None. Pass noised.y.")
        labels = _validation.column_or_1d(y, warn=True)
        _multiclass.check_classification_targets(labels)
        observed, codes = np.unique(labels, return_inverse=True)
        codes = codes.reshape(-1)
        weighing = codes if sample_weight is None else codes[sample_weight > 0]
        if len(np.unique(weighing)) < 2:
            raise ValueError("y has records of one class alone, and a classifier needs at least two classes.")
        loss = self._loss_of(len(observed))
        if loss.target_values is None:
            loss = loss.with_target_values((-1, 1) if len(observed) == 2 else range(len(observed)))
        assert loss.target_values is not None
        if len(observed) > 2 == len(loss.target_values):
            kind = _multiclass.type_of_target(labels)
            raise ValueError(
                f"Only binary classification is supported by this loss. The type of the target is {kind}, of "
                f'{len(observed)} classes: use loss="softmax".'
            )
        if len(observed) != len(loss.target_values):
            raise ValueError(
                f"y has {len(observed)} classes, and the loss {len(loss.target_values)} target values. Declare a loss "
                "of as many."
            )
        self._observed = observed
        return loss, np.array(loss.target_values)[codes]

    def _released_target(self, y: Any) -> Any:
        if self._observed is None:
            return y
        labels = _validation.column_or_1d(y)
        if not np.isin(labels, self._observed).all():
            raise ValueError("y has a label that was not among those of the fit. Fit on records of all classes.")
        assert self._predictor.loss.target_values is not None
        return np.array(self._predictor.loss.target_values)[np.searchsorted(self._observed, labels)]

    def decision_function(self, X: Any) -> FloatArray:
        """Return the scores of true records; see `Fit.decision_function`.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.

        Returns
        -------
        array of shape (n,), or (n, K) for K scores, float64
            Positive for ``classes_[1]``.
        """
        scores = self._scores(X)
        return -scores if self._predictor.meaning.sign < 0 else scores

    def predict(self, X: Any) -> Any:
        """Return the label of least loss of true records; see `Fit.predict`.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.

        Returns
        -------
        array of shape (n,)
            Entries of ``classes_``.
        """
        codes = self._predictor.codes(self._scores(X))
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the labels of true records; see `Fit.predict_proba`.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.

        Returns
        -------
        array of shape (n, k), float64
            In the order of ``classes_``.

        Raises
        ------
        ValueError
            The loss is no model of probabilities.
        """
        return self._predictor.probabilities(self._scores(X))


class DebiasedRegressor(_base.RegressorMixin, _Debiased):
    """A regressor of scikit-learn that is fitted on released records and predicts true ones.

    Parameters
    ----------
    loss : str or Loss
        The name of a loss of numbers in `symdebias.losses`, or such a loss.
    release, method, solver, l2, radius, fit_intercept, solver_options, random_state
        As for `DebiasedClassifier`.

    Attributes
    ----------
    fit_ : Fit
        What the solver returned, with intervals and certificate.
    coef_ : array of shape (q,), float64
        Coefficients in the units of true records.
    intercept_ : float
        The intercept.
    n_features_in_ : int
        The number of columns of released X.
    feature_names_in_ : array of str
        Their names, for a table.

    Notes
    -----
    See `DebiasedClassifier`. For counts `score` is the R2 of the mean exp(score).

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 2))
    >>> release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5))
    >>> noised = release.privatize(X, X @ [2.0, -1.0], random_state=1)
    >>> model = sd.DebiasedRegressor(release=release).fit(noised.X, noised.y)
    >>> model.score(X, X @ [2.0, -1.0]) > 0.99                                # on true records
    True
    """

    def __init__(
        self,
        loss: str | Loss = "least_squares",
        *,
        release: Release | None = None,
        method: str = "auto",
        solver: str = "m_estimate",
        l2: float = 1e-6,
        radius: float | None = None,
        fit_intercept: bool | None = None,
        solver_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.release = release
        self.method = method
        self.solver = solver
        self.l2 = l2
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.solver_options = solver_options
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "DebiasedRegressor":
        """Fit released records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            ``noised.X``.
        y : array of shape (n,)
            ``noised.y``.
        sample_weight : array of shape (n,), optional
            Non-negative weights.

        Returns
        -------
        DebiasedRegressor
            Itself.

        Raises
        ------
        ValueError, TypeError
            The loss is one of labels, or the release and the records do not fit.
        SymdebiasError
            As for `debias` and the solver.
        """
        loss = self._loss_of(None)
        if meaning_of(loss).predicts != "number":
            raise ValueError(f"{loss.expression} is no loss of a number. Use a DebiasedClassifier for labels.")
        release = self._release_of(X)
        if release.coupling is not None and release.coupling.kind == "margin":
            raise ValueError('target="margin" releases a label as the target. Use a DebiasedClassifier.')
        if self.release is None:
            X, y = self._validated(X, y, multi_output=False, y_numeric=True, ensure_min_samples=2)
        else:
            self._remember_columns(X)
        return self._fitted(loss, release, X, y, sample_weight)  # type: ignore[no-any-return]

    def predict(self, X: Any) -> FloatArray:
        """Return the mean, centre or quantile of true records; see `Fit.predict`.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.

        Returns
        -------
        array of shape (n,), float64
            The predictions.
        """
        return self._predictor.numbers(self._scores(X))


@dataclass(frozen=True)
class CorrectedScorer:
    """A scorer for released records, to be given as ``scoring`` to ``GridSearchCV`` and its kin.

    Its value estimates the metric on true records, the noise undone as `symdebias.evaluation.evaluate` does.

    Attributes
    ----------
    metric : str or Loss
        As for `symdebias.evaluation.evaluate`; a loss is taken in the coding of the labels that were fitted. The value
        of a loss has its sign changed: larger is better.

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

    def __call__(self, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the estimate for a fitted estimator, larger is better."""
        if not isinstance(estimator, _Debiased):
            raise TypeError(
                f"a CorrectedScorer scores a DebiasedClassifier or DebiasedRegressor; got {type(estimator).__name__}."
            )
        _validation.check_is_fitted(estimator, "fit_")
        metric, values = self.metric, estimator._predictor.meaning.values
        if isinstance(metric, Loss) and metric.target_values not in (None, values) and values:
            metric = metric.recoded(values)
        found = evaluate(estimator.fit_, X, estimator._released_target(y), metric=metric, sample_weight=sample_weight)
        return found.value if self.metric == "accuracy" else -found.value


def _labels_of(release: Release) -> tuple[float, ...] | None:
    """Return the numbers that stand for the labels of a release, sorted, or None where it names none."""
    if release.coupling is not None:
        return release.coupling.values
    return tuple(sorted(release.target.range.numbers)) if isinstance(release.target, ChannelMechanism) else None
