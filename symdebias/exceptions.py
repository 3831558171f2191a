"""What can go wrong that only this library can say.

Wrong arguments raise `ValueError` or `TypeError`, as everywhere in Python. The classes here name the
failures of the method itself, each with its cause and its remedy.
"""

import typing

__all__ = [
    "CacheWarning",
    "ClippingWarning",
    "ConvergenceWarning",
    "DerivationLimitError",
    "DivergenceError",
    "ExpressionError",
    "FitInterrupted",
    "FormatError",
    "InferenceError",
    "InfiniteVarianceError",
    "MissingDependencyError",
    "NoExactCorrectionError",
    "PrivacyError",
    "SymdebiasError",
    "VarianceWarning",
]


class SymdebiasError(Exception):
    """Root of the family: catch it to catch every error that is particular to this library.

    Examples
    --------
    >>> import symdebias as sd
    >>> try:
    ...     sd.Release.from_json("{}")
    ... except sd.SymdebiasError as error:
    ...     print(type(error).__name__)
    FormatError
    """


class NoExactCorrectionError(SymdebiasError):
    """The loss has no exact correction under this noise, or not at this noise level.

    Remedy: ask for a method with a stated bias, lower the noise, or use another mechanism; the message
    says which of them apply.

    Examples
    --------
    >>> import symdebias as sd
    >>> sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(1.0)), method="exact")
    Traceback (most recent call last):
    symdebias.exceptions.NoExactCorrectionError: no closed form was found for log(exp(u) + 1): it is ...
    """


class DerivationLimitError(NoExactCorrectionError):
    """A derivation was given up: its expressions grew too long, or it took too long.

    Remedy: a loss with fewer terms, lower powers or less nesting, or higher limits (`symdebias.derivation_limits`).

    Attributes
    ----------
    by_time : bool
        Whether the seconds ran out, which on another machine they might not. ``method="auto"`` then chooses no other
        method: what it chooses must not depend on the machine.

    Examples
    --------
    >>> issubclass(DerivationLimitError, NoExactCorrectionError), DerivationLimitError("too long", by_time=True).by_time
    (True, True)
    """

    def __init__(self, message: str, *, by_time: bool = False) -> None:
        super().__init__(message)
        self.by_time = by_time


class InfiniteVarianceError(SymdebiasError):
    """The corrected loss exists, but its variance on the noised records is infinite.

    Remedy: lower the noise, or keep the parameters in a smaller ball.

    Examples
    --------
    >>> issubclass(InfiniteVarianceError, SymdebiasError), issubclass(InfiniteVarianceError, NoExactCorrectionError)
    (True, False)
    """


class ExpressionError(SymdebiasError, ValueError):
    """An expression has a part that no loss has, or is beyond a bound on its size, its depth or its numbers.

    Remedy: write the loss with the operations and within the bounds that the message names.

    Examples
    --------
    >>> import sympy as sp
    >>> import symdebias as sd
    >>> u, y = sp.symbols("u y", real=True)
    >>> sd.Loss(sp.Integral(u * y, u), score=u, target=y)
    Traceback (most recent call last):
    symdebias.exceptions.ExpressionError: the loss has a part of the type Integral, which no loss has. ...
    """


class FormatError(SymdebiasError, ValueError):
    """A card or a file is not what this version writes: damaged, of another format, or made by a stranger.

    Remedy: the message says which entry is wrong; ask for the output of ``to_json()`` or the file of ``save()``.

    Examples
    --------
    >>> import symdebias as sd
    >>> sd.Release.from_json("{}")
    Traceback (most recent call last):
    symdebias.exceptions.FormatError: this is not a release card of the format symdebias-release-1: its ...
    """


class DivergenceError(SymdebiasError):
    """A solver met a value that is not finite, or its parameters ran away.

    Remedy: a smaller step size, a regularisation, or a bound on the parameters (``radius=``).

    Examples
    --------
    >>> issubclass(DivergenceError, SymdebiasError), issubclass(DivergenceError, ValueError)
    (True, False)
    """


class FitInterrupted(KeyboardInterrupt):
    """Training was stopped by Ctrl-C; what it had reached is here.

    It is a KeyboardInterrupt, which no ``except Exception`` takes for an error of the program.

    Attributes
    ----------
    fit : symdebias.Fit
        The fit after the last whole part of the run: unfinished, without a covariance, and not looked at for noise.

    Examples
    --------
    >>> stop = FitInterrupted("stopped", "the fit so far")
    >>> stop.fit, isinstance(stop, Exception)
    ('the fit so far', False)
    """

    def __init__(self, message: str, fit: typing.Any) -> None:
        super().__init__(message)
        self.fit = fit


class InferenceError(SymdebiasError):
    """A fit has no standard errors, or no intervals that would cover.

    Remedy: the message says what is in the way: a constraint that is active, a bias that is not known, too little
    information in the records, or a solver that was not asked for a covariance.

    Examples
    --------
    >>> from symdebias.inference import batch_means
    >>> batch_means([[1.0]], [10])
    Traceback (most recent call last):
    symdebias.exceptions.InferenceError: 1 batches of steps do not estimate the covariance of the ...
    """


class PrivacyError(SymdebiasError):
    """A privacy statement was asked for that does not hold, or a budget does not suffice.

    Remedy: draw the noise without a seed, declare a mechanism that has a guarantee, or release less.

    Examples
    --------
    >>> import symdebias as sd
    >>> noised = sd.Release(sd.GaussianMechanism(1.0, 1e-5, radius=1.0)).privatize([[0.3, 0.4]], random_state=0)
    >>> noised.guarantee
    Traceback (most recent call last):
    symdebias.exceptions.PrivacyError: these records were noised from a seed, so that they carry no ...
    """


class MissingDependencyError(SymdebiasError, ImportError):
    """An optional package is not installed; the message has the command that installs it.

    Examples
    --------
    >>> issubclass(MissingDependencyError, ImportError)
    True
    """


class ClippingWarning(UserWarning):
    """Records lay outside the declared bounds and were clipped before the noise was added.

    It reaches the collector, who has the records, and nobody else: the count is a statistic of the data.

    Examples
    --------
    >>> import warnings
    >>> import symdebias as sd
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = sd.Release(sd.GaussianMechanism(1.0, 1e-5, radius=1.0)).privatize([[3.0, 4.0], [0.3, 0.4]])
    >>> caught[0].category.__name__
    'ClippingWarning'
    """


class CacheWarning(UserWarning):
    """The folder of compiled kernels could not be used; the job goes on without it.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", CacheWarning)  # where no folder of kernels is wanted
    """


class VarianceWarning(UserWarning):
    """The correction is unbiased, but its variance leaves little to be known.

    Undoing the noise inflates the variance of the gradients a hundredfold, or so much farther out that no score test
    tells much longer parameters from the estimate: intervals then have no end away from 0, and those of an intercept
    none at all.

    Remedy: less noise, fewer noised columns, or a loss of lower degree or slower growth.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", VarianceWarning)  # stop rather than return a fit of so little use
    """


class ConvergenceWarning(UserWarning):
    """Training has stopped far from a minimum: its gradient is about as large as at the start.

    Remedy: the default step size, a larger one, or more epochs.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConvergenceWarning)  # stop rather than return a fit that has not arrived
    """
