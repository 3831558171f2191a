"""The result of every solver: parameters, how they came about, and what they cost in privacy."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from symdebias import _optional
from symdebias._arrays import FloatArray, IntegerArray
from symdebias._blas import one_thread
from symdebias._domains import RADIUS, check_choice, check_flag
from symdebias.assessment import Certificate
from symdebias.corrected import CorrectedLoss
from symdebias.exceptions import InferenceError, PrivacyError
from symdebias.inference import Inference, WaldTest
from symdebias.privacy import Guarantee
from symdebias.solvers import saved_fit, summary
from symdebias.solvers.coefficients import Coefficients
from symdebias.solvers.combinations import Combinations, combinations_of, predicted_interval
from symdebias.solvers.predictions import Predictor

# What scikit-learn and statsmodels call what a fit has by another name.
_CALLED = {
    **dict.fromkeys(("coef_", "coef", "params"), "theta, or coefficients in the units of the table"),
    **dict.fromkeys(("intercept_", "intercept"), "theta[-1], which is that of a release with fit_intercept=True"),
    **dict.fromkeys(("bse", "std_err"), "standard_errors"),
    **dict.fromkeys(("pvalues", "tvalues"), "summary_frame()"),
    **dict.fromkeys(("conf_int", "interval"), "confidence_interval()"),
    **dict.fromkeys(("rsquared", "r2"), 'symdebias.evaluation.evaluate(fit, X, y, metric="r2")'),
    **dict.fromkeys(("nobs", "n_obs"), 'diagnostics["records"]'),
    "cov_params": "covariance",
}


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

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> X, y = np.array([[1.0], [2.0], [3.0], [4.0]] * 8), np.array([1.0, 2.0, 3.0, 4.0] * 8)
    >>> plain = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.1)), method="none")
    >>> history = sd.sgd(plain, X, y, step_size=0.1, batch_size=8, epochs=2, record=4, random_state=0).history
    >>> history.steps, history.theta.shape
    (array([0, 2, 4, 6, 8]), (5, 1))
    """

    steps: IntegerArray
    records: IntegerArray
    theta: FloatArray

    @classmethod
    def empty(cls, theta: FloatArray) -> "History":
        """Return that of a solver without steps, for parameters of the shape of theta."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, *theta.shape)))


@dataclass(frozen=True, repr=False)
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
        from 100 on) and ``score_variance`` (the noise variance of the score at theta, over the noise of all columns;
        None for a free-form loss).
        With early stopping besides ``epoch_losses`` (the mean corrected loss at the end of each epoch) and
        ``best_epoch``, the number of the one whose parameters these are, from 1.
        ``curvature`` is the least curvature of the mean corrected loss at theta in its own standard errors (None where
        a ball holds theta), and `sgd` adds ``step_size``, the one given or learned.
        For a surrogate that was designed on the way besides ``pilot`` and ``stages``. The pilot has ``theta``,
        ``score_variance`` (the noise variance of the score there), ``signal_variance`` (the mean square of the true
        score), ``uncertainty`` (the root mean square error of the score), ``records`` (on which it rests) and
        ``rungs`` (of its ladder).
        A fit with an offset has ``offset``; ``seeded`` says whether the noise came from a seed, where that is known: of
        the solver's own noise, and of folders that ``symdebias fit`` reads.
        `m_estimate` has ``stages`` always and ``pilot`` for every loss of one score under noise, None for others. It
        adds ``safeguards`` (what held theta at the end), ``start``, ``hessian`` (``"exact"`` or ``"central
        differences"``), ``last_step`` (its length relative to that of theta, both by released scores) and ``outside``
        (the estimated share of true scores beyond the range that a surrogate is stated for; None without one).
    inference : symdebias.inference.Inference or None
        The accuracy of theta, where the solver was asked for it.
    own_guarantee : Guarantee or None
        What the noise guarantees that the solver itself added to true records, drawn with fresh entropy; `guarantee`
        is that of this fit.
    claim : Guarantee or None
        What the solver's source claims beyond that and is not proved: it is shown, and is no guarantee.
    description : str
        What the solver does, where that is not to minimise `corrected`; `corrected` is then the uncorrected loss.
    notes : tuple of str
        What the solver has to say of this fit.
    """

    theta: FloatArray
    corrected: CorrectedLoss
    solver: str
    history: History
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    inference: Inference | None = None
    own_guarantee: Guarantee | None = None
    claim: Guarantee | None = None
    description: str = ""
    notes: tuple[str, ...] = ()

    if not TYPE_CHECKING:  # for which every name would exist

        def __getattr__(self, name: str) -> Any:
            """Say what a name of scikit-learn or statsmodels is called here."""
            own = _CALLED.get(name)
            told = f". Use {own}" if own else ""
            # The last full stop is Python's, which may go on with a name of its own.
            raise AttributeError(f"a Fit has no attribute {name!r}{told}", name=name, obj=self)

    @classmethod
    def of(
        cls,
        corrected: CorrectedLoss,
        theta: FloatArray,
        *,
        solver: str,
        records: int | None,
        steps: int,
        began: float,
        history: History | None = None,
        diagnostics: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> "Fit":
        """Return what a solver hands back: parameters in the user's shape, read-only, with what every fit reports.

        Parameters
        ----------
        corrected : CorrectedLoss
            The loss that was minimised.
        theta : array of shape (Q,), float64
            The parameters, scores after one another.
        solver : str
            The solver's name.
        records : int or None
            The number of records; None where it is private.
        steps : int
            How many steps were taken.
        began : float
            When it began, by `time.perf_counter`.
        history : History, optional
            Iterates; by default none.
        diagnostics : mapping, optional
            What the solver adds to ``records``, ``steps`` and ``seconds``.
        **more
            Other fields.
        """
        shaped = corrected.declared.by_score(theta)
        shaped.setflags(write=False)
        known = {"records": records, "steps": steps, "seconds": time.perf_counter() - began, **(diagnostics or {})}
        return cls(shaped, corrected, solver, history or History.empty(shaped), known, **more)

    @property
    def method(self) -> str:
        """The name of the method, which is that of the solver."""
        return self.solver

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters of one score; x0, x1, ... where the release has none for its columns."""
        release = self.corrected.release
        if not self.corrected.declared.scores or release.columns is not None:
            return self.corrected.parameter_names
        count = self.theta.shape[-1] - release.fit_intercept
        return (*(f"x{index}" for index in range(count)), *(["intercept"] if release.fit_intercept else []))

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the solver's own noise, or of the release, on whose records training costs nothing more.

        Raises
        ------
        PrivacyError
            The noise came from a seed: whoever knows it can subtract the noise. What it promises with fresh entropy is
            `own_guarantee`, or that of the release.
        """
        seeded = self.diagnostics.get("seeded")
        if self.own_guarantee is None:
            if seeded:
                raise PrivacyError(
                    "the records of this fit were noised from a seed, so that they carry no guarantee. Release without "
                    "a seed what is to be private; fit.corrected.release.guarantee is what such a release promises."
                )
            return self.corrected.release.guarantee
        if seeded:
            raise PrivacyError(
                "the noise of this fit came from a seed, so that it carries no guarantee. Call the solver without "
                "random_state for a fit that is to be private; own_guarantee is what it then promises."
            )
        return self.own_guarantee

    @property
    def certificate(self) -> Certificate:
        """The certificate of the corrected loss on a ball that holds theta; measured once, when it is asked for.

        It is for the noise that the release declares, also where records have noise scales of their own. Of a fit that
        was loaded it is measured here, whatever the file says.
        """
        return self.corrected.certify(**self.certified_domain)

    @property
    def known_certificate(self) -> Certificate | None:
        """The certificate where it was asked for before, also before the fit was saved, or None."""
        domain = self.certified_domain
        # Of longer parameters there is none.
        return self.corrected.known_certificate(**domain) if domain["theta_radius"] in RADIUS else None

    @property
    def certified_domain(self) -> dict[str, Any]:
        """What `certificate` is for, by the arguments of `CorrectedLoss.certify`."""
        return {
            "theta_radius": max(1.0, float(np.linalg.norm(self.theta))),
            "columns": self.theta.shape[-1] - self.corrected.release.fit_intercept,
        }

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

    # ---- predictions -------------------------------------------------------------------------------------

    def decision_function(self, X: Any, *, offset: Any = None) -> FloatArray:
        """Return the scores theta'x of true records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            True features in their own units, as `Release.privatize` takes them: the release's centre and scale are
            applied here, categories are codes in arrays and the categories themselves in tables. Released rows have
            noise, and predictions for them are those for other people; `symdebias.evaluation` judges a model on them.
        offset : array of shape (n,), optional
            A known term of the score. A fit with an offset needs one; see `m_estimate`.

        Returns
        -------
        array of shape (n,), or (n, K) for K scores, float64
            With the intercept. Records are not clipped to the bounds of the release.

        Raises
        ------
        ValueError, TypeError
            The loss is free-form, or X does not have the release's columns.

        Examples
        --------
        >>> import numpy as np, symdebias as sd
        >>> release = sd.Release({"age": sd.GaussianMechanism.from_scale(0.5)}, center={"age": 40}, scale={"age": 10})
        >>> X = np.random.default_rng(0).uniform(20, 60, size=(5_000, 1))
        >>> noised = release.privatize(X, 2 * (X[:, 0] - 40), random_state=1)
        >>> fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), noised.release), noised.X, noised.y)
        >>> bool(np.isclose(fit.decision_function([[50.0]])[0], fit.theta[0]))
        True
        """
        return Predictor.of(self).scores(X, offset)

    def predict(self, X: Any, *, offset: Any = None) -> Any:
        """Return what the loss predicts for true records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            As for `decision_function`.
        offset : array of shape (n,), optional
            As for `decision_function`.

        Returns
        -------
        array of shape (n,)
            For a loss of labels the label of least loss, which is the sign of the score for margin losses and the most
            probable class where there are probabilities: in the user's own words where a channel of the release names
            them, and otherwise the loss's target values. For a loss of a number the mean E[y | x], read off the slope
            of the loss: the score for least squares, exp(score) for counts. For another loss of the residual (Huber,
            quantile) the score, which is the centre or quantile that it estimates.

        Raises
        ------
        ValueError, TypeError
            The loss does not say what a score predicts, or X does not fit.
        """
        return Predictor.of(self).predict(X, offset)

    def predict_proba(self, X: Any, *, offset: Any = None) -> FloatArray:
        """Return the probabilities of the labels for true records, exp(-loss) at each of them.

        Parameters
        ----------
        X : array of shape (n, p) or table
            As for `decision_function`.
        offset : array of shape (n,), optional
            As for `decision_function`.

        Returns
        -------
        array of shape (n, k), float64
            A column for each target value of the loss, in order. Under a penalty or a surrogate these are the
            probabilities of the fitted model, not calibrated ones; see `symdebias.evaluation.calibration_curve`.

        Raises
        ------
        ValueError, TypeError
            The loss is no negative log likelihood of labels, as the logistic, probit and softmax losses are; or X does
            not fit.
        """
        predictor = Predictor.of(self)
        return predictor.probabilities(predictor.scores(X, offset))

    def predict_interval(
        self, X: Any, *, level: float = 0.95, of: str = "prediction", offset: Any = None
    ) -> FloatArray:
        """Return confidence intervals of what is predicted for true records: how far the noise and the records tell it.

        They are for the chance or the mean at these features, not for the outcome of one person, which scatters about
        it.

        Parameters
        ----------
        X : array of shape (n, p) or table
            As for `decision_function`.
        level : float
            Of each interval, in (0, 1).
        of : {"prediction", "score"}
            The chance of the second of two labels (the last column of `predict_proba`, which has labels of text in the
            order of the release, and not in that of the alphabet as estimators of scikit-learn do), or the number that
            `predict` returns; or the score of `decision_function`.
        offset : array of shape (n,), optional
            As for `decision_function`.

        Returns
        -------
        array of shape (n, 2), or (n, K, 2) for K scores, float64
            Lower and upper ends. A chance or a number rises or falls with its score, and its interval has the ends of
            that of the score, which is a linear combination of the parameters: see `combinations`. Chances of classes
            with a score each are by the delta method for their logits.

        Raises
        ------
        InferenceError
            As for `confidence_interval`.
        ValueError, TypeError
            The loss predicts neither chances nor numbers, as hinge losses do; or X does not fit.

        Examples
        --------
        >>> import numpy as np, symdebias as sd
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(20_000, 1))
        >>> y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-2 * X[:, 0])), 1, -1)
        >>> noised = sd.Release(sd.GaussianMechanism.from_scale(0.5)).privatize(X, y, random_state=1)
        >>> fit = sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y)
        >>> ((low, high),) = fit.predict_interval([[1.0]])
        >>> bool(low < 1 / (1 + np.exp(-2)) < high)
        True
        """
        check_choice("of", of, ("prediction", "score"))
        with one_thread():
            return predicted_interval(self, X, level, of, offset, self._inference())

    def score(self, X: Any, y: Any, *, sample_weight: Any = None, offset: Any = None) -> float:
        """Return how well true records are predicted: the accuracy of labels, R2 of numbers.

        Parameters
        ----------
        X : array of shape (n, p) or table
            As for `decision_function`.
        y : array of shape (n,) or column of a table
            True targets, as `predict` returns them.
        sample_weight : array of shape (n,), optional
            Non-negative weights.
        offset : array of shape (n,), optional
            As for `decision_function`.

        Returns
        -------
        float
            The share of right labels, or 1 less the mean squared error over the variance of y. For released records
            see `symdebias.evaluation.evaluate`.

        Raises
        ------
        ValueError, TypeError
            The loss predicts nothing, the records do not fit, or y has no variance.
        """
        return Predictor.of(self).score(X, y, sample_weight, offset)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file that others may read without trusting you.

        Parameters
        ----------
        path : str or path
            The file; an ``.npz`` of JSON and arrays, whatever its name. It is written aside and moved into place
            whole. A saved fit that is there is replaced, and nothing else is.

        Raises
        ------
        FileExistsError
            There is a file that is no saved fit.
        ValueError
            The loss or a diagnostic has no words in the format; `pickle` takes it.
        """
        saved_fit.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Fit":
        """Read what `save` wrote. The file may come from a stranger: nothing in it is run or unpickled.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Fit
            With the numbers of the saved fit to the last bit; the correction is derived and its kernels are made again.
            A certificate that was measured before is shown as what the file says; `certificate` measures it here.

        Raises
        ------
        ValueError
            It is not such a file, or is damaged; the message says where.
        """
        fit: Fit = saved_fit.load(cls, path)
        return fit

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickle or a copy; arrays arrive writable."""
        self.__dict__.update(state)
        self.theta.setflags(write=False)

    def _inference(self) -> Inference:
        if self.inference is None:
            if "partitions" in self.diagnostics:
                raise InferenceError(
                    "an average of fits to partitions has no covariance. Use symdebias.distributed.m_estimate."
                )
            if self.own_guarantee is None:
                remedy = 'Use m_estimate, or sgd with average=True and covariance="plug-in".'
            elif self.solver == "input_perturbation":
                remedy = 'Use server="corrected", which has one.'
            else:
                remedy = "Noise the records instead, by a symdebias.Release, and use m_estimate on what it releases."
            raise InferenceError(f"this fit by {self.solver} has no covariance. {remedy}")
        return self.inference

    @property
    def covariance(self) -> FloatArray:
        """The covariance of all parameters, scores after one another, shape (Q, Q).

        The noise of the mechanism is in it: it comes from the released records themselves.

        Raises
        ------
        InferenceError
            There is none; the message says why.
        """
        return self._inference().required_covariance()

    @property
    def standard_errors(self) -> FloatArray:
        """The standard errors of the parameters, in the shape of theta: without the bias, which is in `bias_bound`.

        Raises
        ------
        InferenceError
            There are none; the message says why.
        """
        return self._inference().standard_errors().reshape(self.theta.shape)

    @property
    def bias_bound(self) -> FloatArray:
        """A bound on the bias of each parameter from the correction's own bias, in the shape of theta; 0 where exact.

        Of an average of iterates that is more than a tenth of a standard error away from the root it has that distance.

        Raises
        ------
        InferenceError
            There is none.
        """
        inference = self._inference()
        if inference.bias is None:
            raise InferenceError(inference.refusal or "this covariance has no bound on the bias.")
        return inference.bias.reshape(self.theta.shape)

    def confidence_interval(self, level: float = 0.95, *, original_units: bool = False) -> FloatArray:
        """Return intervals for the parameters: by the normal distribution, or by Student's t.

        The latter is where few records, clusters or batches decide a variance: ``inference.degrees_of_freedom``
        are its degrees of freedom, for each parameter its own. Where few records decide, intervals reach farther on the
        side of a long tail: see ``inference.skewness``. Where the curvature along a parameter is uncertain, or
        its score levels off, intervals reach as far as score tests do: see ``inference.curving`` and
        ``inference.levelling``. Where none tells longer parameters from the estimate they have no end away from 0, and
        none at all where 0 is within them or an intercept takes part: see ``inference.outward``.

        Parameters
        ----------
        level : float
            In (0, 1).
        original_units : bool
            Whether they are those of `coefficients`, of columns in their own units.

        Returns
        -------
        array of shape (q, 2), or (K, q, 2) for K scores, float64
            Lower and upper ends, which may be infinite. Where the correction has bias they reach c standard errors with
            P(abs(N(b/se, 1)) <= c) = level, b the bound on the bias: they cover whatever the bias is within it.

        Raises
        ------
        InferenceError
            Intervals would not cover: a safeguard was active, the noise was not corrected, or there is no covariance.
        TypeError, ValueError
            The level is not within (0, 1), or there are no original units; see `coefficients`.

        References
        ----------
        Armstrong & Kolesar 2018 (Econometrica 86), for the intervals under bias.
        """
        original_units = check_flag("original_units", original_units)
        self._inference()
        found = Coefficients.of(self, level, original_units=original_units)
        assert found.inference is not None
        return found.inference.interval(found.values, level).reshape(*self.theta.shape, 2)

    def wald_test(self, restrictions: ArrayLike | str | Sequence[str], values: ArrayLike = 0.0) -> WaldTest:
        """Test R theta = r; the p value holds whatever the bias of the correction is within `bias_bound`.

        Parameters
        ----------
        restrictions : array of shape (Q,) or (k, Q), str or sequence of str
            R, over all parameters, scores after one another; or the names of k parameters as the summary has them,
            whose values are tested together. The name of a column of categories stands for all of its indicators.
        values : float or array of shape (k,)
            r.

        Returns
        -------
        WaldTest
            With the noncentrality that the bias may make. One restriction is rejected at level 1 - c where
            `confidence_interval(c)` of that combination would leave r out.

        Raises
        ------
        InferenceError
            As for `confidence_interval`; or there are more restrictions than few clusters or batches can test.
        ValueError
            The shapes do not fit, or the rows of R are linearly dependent; or there is no parameter of a name.
        """
        rows = Coefficients.of(self, 0.95, original_units=False).rows_of(restrictions)
        return self._inference().test(self.theta.ravel(), restrictions if rows is None else rows, values)

    def combinations(
        self,
        weights: ArrayLike | Mapping[str, float] | Sequence[Mapping[str, float]],
        *,
        level: float = 0.95,
        original_units: bool = False,
    ) -> Combinations:
        """Return linear combinations of the parameters, such as a difference, with errors, intervals and p values.

        Parameters
        ----------
        weights : mapping, sequence of mappings, table, or array of shape (Q,) or (k, Q)
            Of one combination or several: weights by the names that the summary has, 0 for others; or numbers for all
            parameters, scores after one another. A table has names for its columns.
        level : float
            Of the intervals, in (0, 1).
        original_units : bool
            Whether parameters are those of columns in their own units; see `coefficients`.

        Returns
        -------
        Combinations
            Intervals allow for all that those of parameters do: a bias within its bound, few records or clusters, and
            curvatures and scores that level off, by the worst of the parameters that take part.

        Raises
        ------
        InferenceError
            As for `confidence_interval`.
        TypeError, ValueError
            There is no parameter of a name, or the shape is another one; or there are no original units.

        Examples
        --------
        >>> import numpy as np, symdebias as sd
        >>> X = np.random.default_rng(0).normal(size=(20_000, 2))
        >>> release = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.5)})
        >>> noised = release.privatize(X, X @ [2.0, 1.0], random_state=1)
        >>> fit = sd.m_estimate(sd.debias(sd.losses.least_squares(), release), noised.X, noised.y)
        >>> ((low, high),) = fit.combinations({"a": 1.0, "b": -1.0}).interval
        >>> bool(low < 1 < high)
        True
        """
        original_units = check_flag("original_units", original_units)
        self._inference()
        return combinations_of(self, weights, level, original_units=original_units)

    # ---- reading -----------------------------------------------------------------------------------------

    def summary(self, level: float = 0.95, *, original_units: bool = False) -> str:
        """Return the fit as a table to print.

        Parameters
        ----------
        level : float
            Of the intervals, in (0, 1).
        original_units : bool
            Whether coefficients are those of the columns in the units that the release was declared in, its centre and
            scale undone.

        Returns
        -------
        str
            A head: the loss, its correction, the solver, the number of records, the noise of each column, the guarantee
            in plain words, and the bias by the certificate where `certificate` was asked for before. Then parameters
            with their names, standard errors, z values (t values where few records, clusters or batches decide), p
            values and intervals where there are some, and bounds on the bias where it is not 0: p values and intervals
            count it, standard errors and z values do not. Then warnings, safeguards, and what to know of the run.

        Raises
        ------
        ValueError
            There are no original units; see `coefficients`.
        """
        original_units = check_flag("original_units", original_units)
        return summary.as_text(self, level, original_units=original_units)

    def summary_frame(self, level: float = 0.95, *, original_units: bool = False) -> Any:
        """Return the table of the summary as a pandas.DataFrame.

        Parameters
        ----------
        level, original_units
            As for `summary`. The covariance in original units is exact, since they are a linear function of theta.

        Returns
        -------
        pandas.DataFrame
            A row for each parameter, by name, and the columns ``coefficient``, ``standard_error``, ``bias_bound``
            (where there is bias), ``degrees_of_freedom`` (where those of parameters differ), ``z`` or ``t``,
            ``p_value``, ``lower`` and ``upper``. A fit without intervals has the first two, or the first;
            `confidence_interval` says why.

        Raises
        ------
        ValueError
            There are no original units; see `coefficients`.
        MissingDependencyError
            pandas is not installed.
        """
        original_units = check_flag("original_units", original_units)
        return Coefficients.of(self, level, original_units=original_units).frame()

    def plot(self, naive: "Fit | None" = None, *, level: float = 0.95, original_units: bool = False) -> Any:
        """Draw the coefficients with their intervals, beside those of the naive fit where it is given.

        Parameters
        ----------
        naive : Fit, optional
            What `symdebias.literature.naive` found on the same records, to see what the noise would have done.
        level, original_units
            As for `summary`.

        Returns
        -------
        matplotlib.figure.Figure
            Not shown yet; notebooks show it, and its ``savefig`` writes it.

        Raises
        ------
        TypeError, ValueError
            `naive` is no fit of the same parameters, there are more than 200, or there are no original units.
        MissingDependencyError
            Matplotlib is not installed.
        """
        original_units = check_flag("original_units", original_units)
        return _optional.provided("plot")(self, naive, level=level, original_units=original_units)

    def report(
        self,
        path: str | os.PathLike[str],
        naive: "Fit | None" = None,
        *,
        X: Any = None,
        y: Any = None,
        offset: Any = None,
        sample_weight: Any = None,
        clusters: Any = None,
        noise_scale: Any = None,
        level: float = 0.95,
        original_units: bool = False,
        certify: bool = True,
    ) -> None:
        """Write a page for readers: one HTML file, with all that it shows in it and no script.

        Parameters
        ----------
        path : str or path
            The file. It is written aside and moved into place whole. A page that is there is replaced, and nothing
            else is.
        naive : Fit, optional
            What `symdebias.literature.naive` found on the same records, to stand beside the corrected coefficients.
        X, y : array or table, and array, optional
            Released records: calibration is estimated from them, where the model predicts and the noise allows.
        offset : array of shape (n,), optional
            The known term of the score of each of these records, for a fit with an offset.
        sample_weight, clusters : array of shape (n,), optional
            Weights of these records, and which of them belong together, as the fit had them: metrics and calibration
            have them too. A page of a fit with clusters that were not given again says so.
        noise_scale : array of shape (n,) or (n, p), optional
            The scales of the noise of these records, for a fit that had some. Metrics that do not take them, and
            calibration, are left out.
        level, original_units
            As for `summary`.
        certify : bool
            Whether `certificate` is measured, which takes from a second to a minute; one that was measured before is
            shown anyway.

        Raises
        ------
        TypeError, ValueError
            `naive` is no fit of the same parameters; X or y was given alone; there are no original units.
        PrivacyError
            The solver trained on true records, and records or a naive fit were given: the page would publish what the
            noise of the solver hides.
        OSError
            The file cannot be written.
        """
        original_units = check_flag("original_units", original_units)
        certify = check_flag("certify", certify)
        _optional.provided("report")(
            self, path, naive, X=X, y=y, offset=offset, sample_weight=sample_weight, clusters=clusters,
            noise_scale=noise_scale, level=level, original_units=original_units, certify=certify,
        )  # fmt: skip

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        count = self.diagnostics.get("records")
        of = "" if count is None else f", {count:,} records"
        return f"Fit({summary.title(self)}{of}, theta={np.array2string(self.theta, precision=6, threshold=20)})"

    def _repr_html_(self) -> str:
        """Return the summary for notebooks."""
        return summary.as_html(self, 0.95)
