"""What stands for a model that is judged: a Fit, an estimator of scikit-learn that holds one, or parameters."""

from typing import Any, Protocol

from numpy.typing import ArrayLike

from symdebias._arrays import check_same_index
from symdebias.losses import Loss
from symdebias.solvers.fit import Fit
from symdebias.solvers.predictions import Predictor


class HoldsFit(Protocol):
    """A fitted estimator, as `symdebias.DebiasedClassifier` and `symdebias.DebiasedRegressor` are."""

    @property
    def fit_(self) -> Any:
        """The Fit."""

    def released_target(self, y: Any) -> Any:
        """Return released targets as the Fit takes them."""


Model = Fit | HoldsFit | ArrayLike


def as_fit(model: Any) -> Any:
    """Return the Fit that an estimator holds; a Fit, or parameters, as they are.

    Raises
    ------
    TypeError
        It is an estimator that holds no Fit, or nothing.
    """
    if model is None:
        raise TypeError(
            "the model is None: what should have fitted one has returned nothing. Return a Fit, a fitted estimator or "
            "parameters."
        )
    found = None if isinstance(model, Fit) else getattr(model, "fit_", None)
    if isinstance(found, Fit):
        return found
    if not isinstance(model, (type, Fit)) and hasattr(model, "fit") and hasattr(model, "predict"):
        name = type(model).__name__
        if is_estimator(model):
            raise TypeError(f"this {name} is not fitted yet. Call fit with released records first.")
        raise TypeError(
            f"a {name} holds no Fit, and nothing says how its records were noised. Pass a fitted DebiasedClassifier "
            "or DebiasedRegressor: the last step of a pipeline, with X as the steps before it leave it, or the "
            "best_estimator_ of a search. For another model pass its coefficients, the intercept last, with release=."
        )
    return model


def is_estimator(model: Any) -> bool:
    """Whether it is an estimator of this library, fitted or not."""
    return not isinstance(model, type) and hasattr(model, "released_target") and hasattr(model, "get_params")


def fitting(candidate: Any) -> Any:
    """Return what fits a candidate: the method of a copy of an estimator, and others as they are."""
    return type(candidate)(**candidate.get_params(deep=False)).fit if is_estimator(candidate) else candidate


def as_fitted(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Return the Fit that an estimator holds, and released targets as it takes them; a Fit, and y, as they are."""
    found = as_fit(model)
    if found is model:
        return model, y
    # Coded labels have no row labels any more.
    check_same_index(X, y)
    return found, model.released_target(y)


def in_labels_of(fit: Any, metric: Any) -> Any:
    """Return a metric of labels in the labels that a fit has; a metric by name, or of numbers, as it is."""
    if not isinstance(metric, Loss) or metric.target_values is None:
        return metric
    values = Predictor.of(fit).meaning.values
    return metric if not values or metric.target_values == values else metric.recoded(values)
