"""What both estimators of scikit-learn share: the release, the solver, the stream of records, and the fit."""

import functools
import inspect
import math
import types
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from symdebias import _arrays, _optional
from symdebias._arrays import FloatArray, weights_array
from symdebias._domains import COUNT, check_choice, check_flag, shown
from symdebias._rows import Rows, in_memory, require_as_many, require_vector
from symdebias.driver import debias
from symdebias.interfaces.coding import loss_by_name
from symdebias.losses import Loss
from symdebias.reading import is_long, of_memory_map
from symdebias.release import Release
from symdebias.solvers import Fit, m_estimate, sgd
from symdebias.solvers.predictions import Predictor
from symdebias.solvers.sgd import continued
from symdebias.solvers.training import Reached

_base: Any = _optional.require("sklearn.base", extra="sklearn")
_validation: Any = _optional.require("sklearn.utils.validation", extra="sklearn")

_NAMED = inspect.Parameter.KEYWORD_ONLY
_SOLVERS: Mapping[str, Any] = {"m_estimate": m_estimate, "sgd": sgd}

# The default l2 without a release: small beside the curvature of usual records. It is warned of where it is more than
# this share of a column's mean square, to which that curvature goes.
_L2_OF_TRUE_RECORDS, _MUCH = 1e-6, 1e-2

# Checks of scikit-learn that cannot hold, by solver.
_IN_BATCHES = "a record of weight 2 is in one batch, and the same record twice may be in two"
_FAILED_CHECKS: Mapping[str, Mapping[str, str]] = {
    "sgd": {
        "check_sample_weight_equivalence_on_dense_data": _IN_BATCHES,
        "check_sample_weights_invariance": _IN_BATCHES,  # its name before 1.6
    }
}


class OfStreams:
    """A method that estimators have with ``solver="sgd"`` alone; for others the AttributeError says why.

    Parameters
    ----------
    method : callable
        The method.
    """

    def __init__(self, method: Any) -> None:
        self._method = method
        functools.update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: type) -> Any:
        """Return the method of an estimator, or the function of its class."""
        if instance is None:
            return self._method
        if instance.solver != "sgd":
            raise AttributeError(
                f"solver={shown(instance.solver, 60)} has no {self._method.__name__}: the root of the mean corrected "
                "score needs all records at every step of Newton's method, and no sums over blocks stand for them. Use "
                'solver="sgd", or keep the blocks and call fit.'
            )
        return types.MethodType(self._method, instance)


# Options of `sgd` that a stream has no place for.
_NOT_OF_A_STREAM: Mapping[str, str] = {
    "covariance": "which is that of one run over all records",
    "early_stopping": "which goes over all records again",
    "checkpoint": "which keeps how far one run over all records has come",
}


class Debiased(_base.BaseEstimator):
    """What both estimators share: the release, the solver, and the fit."""

    loss: str | Loss
    release: Release | None
    method: str
    solver: str
    l2: float | None
    radius: float | None
    fit_intercept: bool | None
    solver_options: Mapping[str, Any] | None
    random_state: Any
    fit_: Fit
    _reached: Reached
    n_features_in_: int
    feature_names_in_: Any
    # Labels that are released as they are, in the order of the loss's target values; None where the release has labels.
    _observed: np.ndarray[Any, Any] | None

    # ---- what the user gave ------------------------------------------------------------------------------

    def _checked_release(self) -> Release:
        """Return the release of the records."""
        asked = None if self.fit_intercept is None else check_flag("fit_intercept", self.fit_intercept)
        if self.release is None:
            return Release(fit_intercept=asked is not False)
        if not isinstance(self.release, Release):
            raise TypeError(
                f"release must be a symdebias.Release or None; got {type(self.release).__name__}. Pass noised.release."
            )
        if asked is not None and asked != self.release.fit_intercept:
            raise ValueError(
                f"fit_intercept={asked}, and the release was declared with fit_intercept="
                f"{self.release.fit_intercept}. Leave it out: the release decides."
            )
        return self.release

    def _require_target(self, y: Any, release: Release) -> None:
        """Raise ValueError where there is no target, and the release has none in its vectors."""
        if y is None and release.coupling is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None. Pass noised.y.")

    def _validated(self, *data: Any, **options: Any) -> Any:
        """Return records without a release, checked by scikit-learn's own rules.

        What is read by blocks is checked by the solver, and by what predicts, block by block; here its columns are.
        """
        X, others = of_memory_map(data[0]) if is_long(data[0]) else data[0], data[1:]
        if isinstance(X, Rows):
            require_vector(others[0] if others else None)
            self._remember_rows(X, *others, reset=options["reset"])
            least = options.get("ensure_min_samples", 1)
            if len(X) < least:
                raise ValueError(
                    f"X has {len(X)} records, and {type(self).__name__} needs {least} at least. Pass more of them."
                )
            return (X, *others) if others else X
        data = X, *map(in_memory, others)
        options |= {"dtype": np.float64, "order": "C"}
        if hasattr(_validation, "validate_data"):
            return _validation.validate_data(self, *data, **options)
        return self._validate_data(*data, **options)

    def _remember_rows(self, X: Rows, y: Any = None, *, reset: bool) -> None:
        """Keep the number and the names of the columns of records without a release, or hold them against the first.

        Raises
        ------
        ValueError
            There are other columns, or not one target for each record.
        """
        require_as_many(X, y)
        self._remember_columns(X, reset=reset)
        if reset and X.names is not None:
            self.feature_names_in_ = np.array(X.names, dtype=object)
        known = getattr(self, "feature_names_in_", None)
        if known is not None and X.names is not None and list(known) != list(X.names):
            raise ValueError(
                f"X was read as the columns {', '.join(X.names):.200}, and {type(self).__name__} was fitted to "
                f"{', '.join(known):.200}, in this order. Name the columns in that order."
            )

    def _remember_columns(self, X: Any, *, reset: bool = True) -> None:
        """Keep the number and the names of the columns of released records, which the release checks by itself.

        Parameters
        ----------
        X : array of shape (n, p) or table
            Released records.
        reset : bool
            False holds them against those of earlier records.

        Raises
        ------
        ValueError
            There are other columns than before.
        """
        if not reset:
            count = len(_arrays.column_names(X)) if _arrays.is_table(X) else self._width(X)
            if count != self.n_features_in_:
                raise ValueError(
                    f"X has {count} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                    "input. Pass the columns of the first records."
                )
            return
        if not _arrays.is_table(X):
            self.n_features_in_ = self._width(X)
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        names = _arrays.column_names(X)
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)

    @staticmethod
    def _width(X: Any) -> int:
        """Return the number of columns of an array, which the solver checks: what is read by blocks stays there."""
        if isinstance(X, (Rows, np.ndarray)) and len(X.shape) == 2 and X.shape[1]:
            return int(X.shape[1])
        return int(_arrays.features_array(X[:1] if isinstance(X, Rows) else X).shape[1])

    def _loss_of(self, number_of_classes: int | None) -> Loss:
        """Return the declared loss, by name or as it is."""
        loss = self.loss
        if isinstance(loss, str):
            return loss_by_name(loss, number_of_classes)
        if not isinstance(loss, Loss):
            raise TypeError(f"loss must be the name of a loss or a symdebias.Loss; got {type(loss).__name__}.")
        if not loss.scores:
            raise ValueError(
                f"{loss.expression} is in features by name and has no score, so that it predicts nothing. Use "
                "symdebias.m_estimate, or declare the loss in a score."
            )
        return loss

    def _fitted(self, loss: Loss, release: Release, X: Any, y: Any, **per_record: Any) -> Any:
        """Fit; the arguments per record are those of the solver, None where there are none."""
        given = {name: values for name, values in per_record.items() if values is not None}
        options = self._checked_options() | given
        corrected = debias(loss, release, method=self.method)
        self._note_default_penalty(X)
        if self.solver == "sgd":
            if "clusters" in given:
                raise ValueError(
                    'clusters are for standard errors, which solver="sgd" takes from records one by one. Use '
                    'solver="m_estimate", or leave them out.'
                )
            self.fit_, self._reached = continued(corrected, X, y, None, **options)
        else:
            self.__dict__.pop("_reached", None)
            self.fit_ = _SOLVERS[self.solver](corrected, X, y, **options)
        return self

    def _note_default_penalty(self, X: Any) -> None:
        """Warn where the default l2 decides a coefficient, as that of a column of small numbers."""
        if self.release is not None or self.l2 is not None or "l2" in (self.solver_options or {}):
            return
        # No matrix of squares is made. What is too large to be squared is refused by the solver.
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(X, Rows):
                squares = X.mean_squares()
            else:
                squares = np.einsum("ij,ij->j", X, X, dtype=np.float64) / len(X)
        small = np.flatnonzero((squares > 0) & (squares * _MUCH < _L2_OF_TRUE_RECORDS))
        if small.size:
            names = getattr(self, "feature_names_in_", [f"number {place}" for place in range(len(squares))])
            told = ", ".join(str(names[place]) for place in small[:5].tolist()) + " and others" * (small.size > 5)
            warnings.warn(
                f"the default l2={_L2_OF_TRUE_RECORDS:g} is in the units of the columns, and shrinks coefficients of "
                f"such small numbers as those of {told}. Give l2=0, or these columns in a smaller unit.",
                stacklevel=4,
            )

    def _checked_options(self) -> dict[str, Any]:
        check_choice("solver", self.solver, _SOLVERS)
        given = {} if self.solver_options is None else self.solver_options
        if not isinstance(given, Mapping):
            raise TypeError(
                f"solver_options must be a mapping or None; got {type(given).__name__}. Pass what the solver takes by "
                'name, such as {"radius": 10.0}.'
            )
        l2 = self.l2
        if l2 is None:
            l2 = _L2_OF_TRUE_RECORDS if self.release is None else 0.0
        options = {"l2": l2, "radius": self.radius, **given}
        known = [
            name for name, one in inspect.signature(_SOLVERS[self.solver]).parameters.items() if one.kind is _NAMED
        ]
        unknown = [name for name in options if name not in known]
        if unknown:
            raise ValueError(
                f"solver_options has {shown(unknown[0], 60)}, which {self.solver} does not take. It takes "
                f"{', '.join(known)}."
            )
        if self.solver == "sgd":
            options.setdefault("random_state", self.random_state)
        return options

    def _continued(self, loss: Loss, release: Release, X: Any, y: Any, is_first: bool, **per_record: Any) -> Any:
        """Take one pass over further records, from where the earlier ones have led."""
        options = self._checked_options() | {name: one for name, one in per_record.items() if one is not None}
        for name, why in _NOT_OF_A_STREAM.items():
            if options.pop(name, None) is not None:
                raise ValueError(f"solver_options has {name}, {why}. Leave it out, or call fit with all records.")
        share = options.get("average", False)
        if share is not True and share is not False:
            raise ValueError(
                f"average={shown(share, 60)} is a share of all steps, whose number a stream does not know. Pass "
                "average=True or average=False."
            )
        if not is_first and self.fit_.diagnostics.get("offset") and "offset" not in options:
            raise ValueError(
                "earlier records had an offset, and further ones need theirs. Pass offset=, with zeros for an exposure "
                "of 1."
            )
        epochs = COUNT.check("epochs", options.pop("epochs", 1))
        if is_first and epochs > 1:
            # No refusal: scikit-learn's own checks ask one and the same model for fit and for partial_fit.
            warnings.warn(
                f"solver_options has epochs={epochs}, which are passes of fit, and partial_fit takes one over each "
                "block. Leave it out, or call fit with all records.",
                stacklevel=3,
            )
        if is_first:
            self._note_default_penalty(X)
        corrected = debias(loss, release, method=self.method) if is_first else self.fit_.corrected
        earlier = 0 if is_first else self.fit_.diagnostics["records"]
        fit, self._reached = continued(corrected, X, y, None if is_first else self._reached, is_stream=True, **options)
        told = {"records": earlier + fit.diagnostics["records"], "steps": self._reached.descent.all_steps}
        self.fit_ = replace(fit, diagnostics={**fit.diagnostics, **told})
        return self

    @property
    def _has_begun(self) -> bool:
        return hasattr(self, "_reached")

    @property
    def _failed_checks(self) -> dict[str, str]:
        """Checks of scikit-learn that cannot hold, with the reason."""
        return dict(_FAILED_CHECKS.get(self.solver, {}))

    # ---- what was found ----------------------------------------------------------------------------------

    @property
    def _predictor(self) -> Predictor:
        _validation.check_is_fitted(self, "fit_")
        return Predictor.of(self.fit_)

    @property
    def _coefficients(self) -> FloatArray:
        """Those of the scores that predictions are made of."""
        _validation.check_is_fitted(self, "fit_")
        return self.fit_.coefficients

    @property
    def coef_(self) -> FloatArray:
        """The coefficients in the units of true records, without the intercept: as scikit-learn shapes them."""
        coefficients = self._coefficients
        slopes = coefficients[..., : coefficients.shape[-1] - self.fit_.corrected.release.fit_intercept]
        return slopes[None, :] if _base.is_classifier(self) and slopes.ndim == 1 else slopes

    @property
    def intercept_(self) -> Any:
        """The intercept in the units of true records; 0 without one."""
        coefficients = self._coefficients
        found = coefficients[..., -1] if self.fit_.corrected.release.fit_intercept else 0 * coefficients[..., 0]
        return np.atleast_1d(found) if _base.is_classifier(self) else float(found)

    def _scores(self, X: Any, offset: Any = None) -> FloatArray:
        predictor = self._predictor
        return predictor.scores(self._validated(X, reset=False) if self.release is None else X, offset)

    def _scored(self, metric: str, X: Any, y: Any, sample_weight: Any, offset: Any) -> float:
        """Return a metric of scikit-learn of the predictions."""
        metrics = _optional.require("sklearn.metrics", extra="sklearn")
        # Records that are none are refused here.
        predicted = self.predict(X, offset=offset)
        if self.release is not None:
            self._predictor.note_released(X)
        if sample_weight is not None:
            sample_weight = weights_array(sample_weight, rows=len(predicted))
        y = in_memory(y)
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(getattr(metrics, metric)(y, predicted, sample_weight=sample_weight))
        # Of a single record scikit-learn warns.
        if len(predicted) > 1 and not math.isfinite(value):
            raise ValueError(
                f"the {metric} of these records is no number: squares of y, or of what is predicted, are beyond what a "
                "float holds. Correct them, or give y in a larger unit."
            )
        return value

    def released_target(self, y: Any) -> Any:
        """Return released targets as ``fit_`` takes them.

        Parameters
        ----------
        y : array of shape (n,)
            Released targets, as `fit` takes them.

        Returns
        -------
        array of shape (n,)
            The same.
        """
        return y
