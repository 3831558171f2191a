"""Estimators of scikit-learn: fit on released records, predict true ones.

`symdebias.DebiasedClassifier` and `symdebias.DebiasedRegressor` import scikit-learn when they are first asked for.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from symdebias import _optional
from symdebias._arrays import FloatArray, check_same_index, weights_array
from symdebias._rows import in_memory
from symdebias.codegen import stable
from symdebias.codegen.numeric import numeric
from symdebias.interfaces.coding import check_codes, decoded, in_labels, labels_of, names_of, places_in
from symdebias.interfaces.debiased import Debiased, OfStreams
from symdebias.losses import Loss
from symdebias.losses.meaning import meaning_of
from symdebias.release import Release

__all__ = ["DebiasedClassifier", "DebiasedRegressor"]

_base: Any = _optional.require("sklearn.base", extra="sklearn")
_multiclass: Any = _optional.require("sklearn.utils.multiclass", extra="sklearn")
_validation: Any = _optional.require("sklearn.utils.validation", extra="sklearn")


# Scores at which the label of least loss is compared with the one that is nearest to the predicted number.
_SCORES = np.linspace(-8.0, 8.0, 321)


def _check_classifies(loss: Loss) -> None:
    """Raise ValueError for a loss of some of its labels, or of numbers by a link: its least one is not the likelier.

    The Poisson loss of labels 0 and 1 is the least for 1 where the mean exp(u) is above 1, and not above one half.
    """
    meaning = meaning_of(loss)
    if len(meaning.values) < len(loss.target_values or ()):
        raise ValueError(
            f"{loss.expression} tells {' and '.join(format(value, 'g') for value in meaning.values)} apart, and no "
            "other labels, which a classifier would never predict. Fit it by symdebias.m_estimate, for each label "
            'against one; or use loss="softmax".'
        )
    if meaning.predicts != "number" or meaning.number == loss.scores[0]:
        return
    values = np.array(meaning.values)

    def at_scores(expression: Any) -> FloatArray:
        return np.broadcast_to(numeric(stable.rewrite(expression), loss.scores)(_SCORES), _SCORES.shape)

    least = np.argmin([at_scores(one) for one in meaning.losses], axis=0)
    nearest = np.argmin(np.abs(at_scores(meaning.number) - values[:, None]), axis=0)
    if not np.array_equal(least, nearest):
        raise ValueError(
            f"{loss.expression} is a loss of a number with the mean {meaning.number}, and its label of least loss is "
            'not the likelier one. Take a loss of labels, such as loss="logistic"; or a DebiasedRegressor on a release '
            "whose labels are the numbers 0 and 1, which predicts that mean."
        )


class DebiasedClassifier(_base.ClassifierMixin, Debiased):
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
    l2 : float, optional
        Regularisation + l2/2 ||theta||^2 of the mean loss, in the units of released columns, in [0, inf). By default
        there is none where a release is given, so that a fit does not depend on units; without one it is 1e-6, which
        gives a minimum to labels that a score separates and to columns that depend on each other. Columns of numbers so
        small that it decides their coefficients (root mean squares below .01) are warned of.
    radius : float, optional
        Bound on the L2 norm of theta, as for the solver.
    fit_intercept : bool, optional
        Whether there is an intercept. A release decides that by itself; without one there is one by default.
    solver_options : mapping, optional
        Further keyword arguments of the solver; ``l2``, ``radius`` or ``random_state`` among them go before those here.
        `partial_fit` refuses ``covariance``, ``early_stopping``, ``checkpoint`` and a share as ``average``; ``epochs``
        are those of `fit`, and it takes one over each block.
    random_state : int, numpy.random.Generator or None
        For the order of records of ``"sgd"``.
    encoded_labels : sequence, optional
        What 0, 1, ... in y stand for, where another tool has put these places for the labels; predictions are such
        places, too. Ensembles of scikit-learn need ``encoded_labels=np.unique(y)`` of the released y that they are
        given. By default y has the labels of the release.

    Attributes
    ----------
    fit_ : Fit
        What the solver returned, with intervals and certificate.
    classes_ : array of shape (k,)
        The labels in the user's own coding, those of the release where it noises them; sorted, as tools of
        scikit-learn take them to be. With ``encoded_labels`` their places 0, 1, ....
    coef_ : array of shape (1, q) or (K, q), float64
        Coefficients in the units of true records, of `decision_function`. Where a release declares labels of text in
        another order, ``fit_`` has those of its own order, of the opposite sign for two labels.
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

    VotingClassifier, StackingClassifier, BaggingClassifier and ``cross_val_predict(method="predict_proba")`` number the
    labels that they are given, sorted, before an estimator has them. Where the release declares text in another order,
    as ("low", "high"), whole numbers in an array are refused without ``encoded_labels``: they may be places in either.

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
        l2: float | None = None,
        radius: float | None = None,
        fit_intercept: bool | None = None,
        solver_options: Mapping[str, Any] | None = None,
        random_state: Any = None,
        encoded_labels: Any = None,
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
        self.encoded_labels = encoded_labels

    @property
    def _takes_several_classes(self) -> bool:
        return self.loss == "softmax" or (isinstance(self.loss, Loss) and len(self.loss.target_values or ()) > 2)

    def _more_tags(self) -> dict[str, Any]:
        """Return the tags that scikit-learn before 1.6 asks for."""
        return {"binary_only": not self._takes_several_classes, "_xfail_checks": self._failed_checks}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._takes_several_classes
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        noise_scale: Any = None,
        clusters: Any = None,
        offset: Any = None,
    ) -> "DebiasedClassifier":
        """Fit released records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            ``noised.X``.
        y : array of shape (n,), or None
            ``noised.y``; None for a margin release without an intercept.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        noise_scale : array of shape (n,) or (n, p), optional
            Standard deviations of the records' own noise; see `CorrectedLoss.loss`.
        clusters : array of shape (n,), optional
            Which records belong together, for the standard errors of ``"m_estimate"``.
        offset : array of shape (n,), optional
            A known term of the score, such as the logarithm of an exposure; see `m_estimate`. Predictions then need
            one, too. It is a term of the score of ``fit_``, for the last label that the release declares: where text is
            declared in another order than that of `classes_`, `decision_function` has it with the opposite sign, as it
            has the coefficients.

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
        loss, release, X, y, sample_weight = self._taken(X, y, sample_weight)
        self._fitted(
            loss, release, X, y, sample_weight=sample_weight, noise_scale=noise_scale, clusters=clusters, offset=offset
        )
        return self._with_classes()

    @OfStreams
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        noise_scale: Any = None,
        offset: Any = None,
    ) -> "DebiasedClassifier":
        """Take one pass over further released records, from where the earlier ones have led; for ``solver="sgd"``.

        Parameters
        ----------
        X : array of shape (n, p) or table
            Further rows of ``noised.X``.
        y : array of shape (n,), or None
            Those of ``noised.y``.
        classes : array of shape (k,), optional
            All labels that may come, at the first call, where the release does not name them.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        noise_scale : array of shape (n,) or (n, p), optional
            As for `fit`.
        offset : array of shape (n,), optional
            As for `fit`, of these records. Where earlier ones had one, it is needed.

        Returns
        -------
        DebiasedClassifier
            Itself. Its ``fit_`` has the number of all records; its history is that of the last call.

        Raises
        ------
        ValueError, TypeError
            As for `fit`; or the columns or labels are not those of the first call.
        SymdebiasError
            As for `sgd`; the model is then as it was before.

        Warns
        -----
        ConvergenceWarning
            The fit is lost so far, or has not arrived: by these records it is standard errors from the minimum.
        UserWarning
            ``solver_options`` has more than one of ``epochs``, and this is the first call: there is one over each
            block.

        Notes
        -----
        Iterate, number of steps, learned step sizes and the average of ``solver_options={"average": True}`` go on. The
        first records decide what is learned once: step sizes, and the surrogate of a loss that has no exact correction,
        for which they must be some thousands.
        """
        is_first = not self._has_begun
        loss, release, X, y, sample_weight = self._taken(X, y, sample_weight, classes, is_first=is_first)
        self._continued(
            loss, release, X, y, is_first, sample_weight=sample_weight, noise_scale=noise_scale, offset=offset
        )
        return self._with_classes()

    def _with_classes(self) -> "DebiasedClassifier":
        found = self._predictor.classes if self._observed is None else self._observed
        found = found.astype(str) if found.dtype == object and self._observed is None else found
        if self.encoded_labels is not None:
            found = places_in(names_of(self.encoded_labels, self.fit_.corrected.release), found)
        # A release may declare text in any order, which is that of the loss.
        self._places = np.argsort(found, kind="stable")
        self.classes_ = found[self._places]
        return self

    @property
    def _coefficients(self) -> FloatArray:
        return self._in_order(super()._coefficients.T).T

    def _in_order(self, found: FloatArray) -> FloatArray:
        """Return what there is of one score, or of each in the last axis, as the order of `classes_` has it."""
        places = self._places
        if found.ndim == 1:
            # Two labels are the two ends of one score.
            return -found if np.array_equal(places, [1, 0]) else found
        return found[..., places] if found.shape[-1] == len(places) else found

    def _taken(
        self, X: Any, y: Any, sample_weight: Any, classes: Any = None, *, is_first: bool | None = None
    ) -> tuple[Loss, Release, Any, Any, Any]:
        """Return the loss, the release and checked records; `is_first` is None where all records come at once."""
        reset = is_first is not False
        release = self._checked_release()
        if release.coupling is not None and release.coupling.kind == "joint":
            raise ValueError('target="joint" releases a number as the target, and no label. Use a DebiasedRegressor.')
        self._require_target(y, release)
        if self.release is None:
            X, y = self._validated(X, y, multi_output=False, reset=reset)
        else:
            self._remember_columns(X, reset=reset)
        if self.encoded_labels is None:
            check_codes(y, release)
        else:
            check_same_index(X, y)
            y = decoded(y, self.encoded_labels)
            classes = None if classes is None else decoded(classes, self.encoded_labels)
        known = labels_of(release)
        if known is None and release.target is None:
            if is_first is not None:
                classes = self._classes_of_a_stream(classes, is_first)
            # Coded labels have no row labels any more.
            check_same_index(X, y, sample_weight=sample_weight)
            rows = X.shape[0] if hasattr(X, "shape") else len(X)
            weights = None if sample_weight is None else weights_array(sample_weight, rows=rows)
            loss, y = self._coded(y, weights, classes)
        else:
            self._observed = None
            if classes is not None:
                raise ValueError("classes were given, and the release names its labels. Leave classes out.")
            loss = self._loss_of(None if known is None else len(known))
            if known is not None and len(known) > 2 == len(loss.target_values or ()):
                raise ValueError(
                    f"{loss.expression} is a loss of two labels, and the release names {len(known)}. Use "
                    'loss="softmax".'
                )
            loss = in_labels(loss, known)
            if loss.target_values is None:
                raise ValueError(
                    f"{loss.expression} has no target values, and the release adds noise to the labels. Declare "
                    "target_values on the loss."
                )
        _check_classifies(loss)
        return loss, release, X, y, sample_weight

    def _classes_of_a_stream(self, classes: Any, is_first: bool) -> Any:
        if is_first and classes is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit: later records may have labels that the "
                "first ones do not."
            )
        if is_first:
            return np.unique(_validation.column_or_1d(classes))
        assert self._observed is not None
        if classes is not None and not np.array_equal(np.unique(classes), self._observed):
            raise ValueError(
                "classes are others than at the first call to partial_fit. Leave them out, or begin with a clone."
            )
        return self._observed

    def _coded(self, y: Any, sample_weight: FloatArray | None, classes: Any) -> tuple[Loss, FloatArray]:
        """Return the loss, and labels that are released as they are in its coding."""
        labels = _validation.column_or_1d(in_memory(y), warn=True)
        if labels.dtype.kind == "f":
            # What follows casts them to whole numbers, of which NumPy warns before they are refused.
            _validation.assert_all_finite(labels, input_name="y")
        _multiclass.check_classification_targets(labels)
        observed, codes = np.unique(labels, return_inverse=True)
        codes = codes.reshape(-1)
        if classes is not None:
            if not np.isin(observed, classes).all():
                raise ValueError("y has a label that is not among classes. Name all labels at the first call.")
            codes = np.searchsorted(classes, observed)[codes]
            observed = classes
        weighing = codes if sample_weight is None else codes[sample_weight > 0]
        if (len(observed) if classes is not None else len(np.unique(weighing))) < 2:
            raise ValueError(
                "y has records of one class alone, and a classifier needs at least two classes. Pass records of both."
            )
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

    def released_target(self, y: Any) -> Any:
        """Return released labels as ``fit_`` takes them: where the release does not name them, they were coded.

        Parameters
        ----------
        y : array of shape (n,)
            Released labels, as `fit` takes them.

        Returns
        -------
        array of shape (n,)
            The target values of the loss in place of ``classes_``; or y itself, where the release names the labels.

        Raises
        ------
        ValueError
            There are others than those of the fit.
        """
        y = y if self.encoded_labels is None else decoded(y, self.encoded_labels)
        if self._observed is None:
            return y
        labels = _validation.column_or_1d(in_memory(y))
        if not np.isin(labels, self._observed).all():
            raise ValueError("y has a label that was not among those of the fit. Fit on records of all classes.")
        assert self._predictor.loss.target_values is not None
        return np.array(self._predictor.loss.target_values)[np.searchsorted(self._observed, labels)]

    def decision_function(self, X: Any, *, offset: Any = None) -> FloatArray:
        """Return the scores of true records; see `Fit.decision_function`.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.
        offset : array of shape (n,), optional
            A known term of the score. A model that was fitted with an offset needs one.

        Returns
        -------
        array of shape (n,), or (n, K) for K scores, float64
            Positive for ``classes_[1]``.
        """
        scores = self._in_order(self._scores(X, offset))
        return -scores if self._predictor.meaning.sign < 0 else scores

    def predict(self, X: Any, *, offset: Any = None) -> Any:
        """Return the label of least loss of true records; see `Fit.predict`.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.
        offset : array of shape (n,), optional
            A known term of the score. A model that was fitted with an offset needs one.

        Returns
        -------
        array of shape (n,)
            Entries of ``classes_``.
        """
        codes = self._predictor.codes(self._scores(X, offset))
        return self.classes_[np.argsort(self._places)[codes]]

    def predict_proba(self, X: Any, *, offset: Any = None) -> FloatArray:
        """Return the probabilities of the labels of true records; see `Fit.predict_proba`.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.
        offset : array of shape (n,), optional
            A known term of the score. A model that was fitted with an offset needs one.

        Returns
        -------
        array of shape (n, k), float64
            In the order of ``classes_``.

        Raises
        ------
        ValueError
            The loss is no model of probabilities.
        """
        return self._predictor.probabilities(self._scores(X, offset))[:, self._places]

    def predict_log_proba(self, X: Any, *, offset: Any = None) -> FloatArray:
        """Return the logarithms of the probabilities of the labels of true records; see `predict_proba`.

        Parameters
        ----------
        X, offset
            As for `predict_proba`.

        Returns
        -------
        array of shape (n, k), float64
            In the order of ``classes_``; minus infinity for a probability below float64.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, offset=offset))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the accuracy on true records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.
        y : array of shape (n,)
            True labels.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        offset : array of shape (n,), optional
            As for `predict`.

        Returns
        -------
        float
            The accuracy.

        Raises
        ------
        ValueError
            y has a label that is not among ``classes_``: in another coding every prediction would look wrong.
        """
        _validation.check_is_fitted(self, "fit_")
        classes = self.classes_
        y = in_memory(y)
        known = np.isin(_validation.column_or_1d(y), classes)
        if not known.all():
            told = ", ".join(map(str, classes[:8].tolist()))
            raise ValueError(
                f"y has a label that is not among those of the fit, {told}. The first such one is in row "
                f"{int(np.argmin(known))}; recode y."
            )
        return self._scored("accuracy_score", X, y, sample_weight, offset)


class DebiasedRegressor(_base.RegressorMixin, Debiased):
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
        l2: float | None = None,
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

    def _more_tags(self) -> dict[str, Any]:
        """Return the tags that scikit-learn before 1.6 asks for."""
        return {"_xfail_checks": self._failed_checks}

    def __sklearn_tags__(self) -> Any:
        # scikit-learn 1.6 and 1.7 take a class that has `_more_tags` and not this for one of before, and warn.
        return super().__sklearn_tags__()

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        noise_scale: Any = None,
        clusters: Any = None,
        offset: Any = None,
    ) -> "DebiasedRegressor":
        """Fit released records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            ``noised.X``.
        y : array of shape (n,)
            ``noised.y``.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        noise_scale : array of shape (n,) or (n, p), optional
            Standard deviations of the records' own noise; see `CorrectedLoss.loss`.
        clusters : array of shape (n,), optional
            Which records belong together, for the standard errors of ``"m_estimate"``.
        offset : array of shape (n,), optional
            A known term of the score, such as the logarithm of an exposure; see `m_estimate`. Predictions then need
            one, too.

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
        loss, release, X, y, sample_weight = self._taken(X, y, sample_weight)
        return self._fitted(  # type: ignore[no-any-return]
            loss, release, X, y, sample_weight=sample_weight, noise_scale=noise_scale, clusters=clusters, offset=offset
        )

    @OfStreams
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, noise_scale: Any = None, offset: Any = None
    ) -> "DebiasedRegressor":
        """Take one pass over further released records, from where the earlier ones have led; for ``solver="sgd"``.

        Parameters
        ----------
        X, y, sample_weight, noise_scale, offset
            As for `DebiasedClassifier.partial_fit`, which says what goes on.

        Returns
        -------
        DebiasedRegressor
            Itself.

        Raises
        ------
        ValueError, TypeError, SymdebiasError
            As for `DebiasedClassifier.partial_fit`.
        """
        is_first = not self._has_begun
        loss, release, X, y, sample_weight = self._taken(X, y, sample_weight, is_first=is_first)
        return self._continued(  # type: ignore[no-any-return]
            loss, release, X, y, is_first, sample_weight=sample_weight, noise_scale=noise_scale, offset=offset
        )

    def _taken(
        self, X: Any, y: Any, sample_weight: Any, *, is_first: bool | None = None
    ) -> tuple[Loss, Release, Any, Any, Any]:
        """Return the loss, the release and checked records; `is_first` is None where all records come at once."""
        loss = self._loss_of(None)
        if meaning_of(loss).predicts != "number":
            if len(loss.scores) > 1 and loss.target_values is None:
                raise ValueError(
                    f"{loss.expression} has {len(loss.scores)} scores, and a regressor predicts by one. Fit it by "
                    "symdebias.m_estimate, whose decision_function returns all scores."
                )
            raise ValueError(f"{loss.expression} is no loss of a number. Use a DebiasedClassifier for labels.")
        release = self._checked_release()
        if release.coupling is not None and release.coupling.kind == "margin":
            raise ValueError('target="margin" releases a label as the target. Use a DebiasedClassifier.')
        self._require_target(y, release)
        reset = is_first is not False
        if self.release is None:
            least = 2 if is_first is None else 1
            X, y = self._validated(X, y, multi_output=False, y_numeric=True, ensure_min_samples=least, reset=reset)
        else:
            self._remember_columns(X, reset=reset)
        return loss, release, X, y, sample_weight

    def predict(self, X: Any, *, offset: Any = None) -> FloatArray:
        """Return the mean, centre or quantile of true records; see `Fit.predict`.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.
        offset : array of shape (n,), optional
            A known term of the score. A model that was fitted with an offset needs one.

        Returns
        -------
        array of shape (n,), float64
            The predictions.
        """
        return self._predictor.numbers(self._scores(X, offset))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the R2 on true records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units.
        y : array of shape (n,)
            True targets.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        offset : array of shape (n,), optional
            As for `predict`.

        Returns
        -------
        float
            The R2.
        """
        return self._scored("r2_score", X, y, sample_weight, offset)
