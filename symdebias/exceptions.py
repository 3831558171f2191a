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
    """Root of the family: catch it to catch every error that is particular to this library."""


class NoExactCorrectionError(SymdebiasError):
    """The loss has no exact correction under this noise, or not at this noise level.

    Remedy: ask for a method with a stated bias, lower the noise, or use another mechanism; the message
    says which of them apply.
    """


class DerivationLimitError(NoExactCorrectionError):
    """A derivation was given up: its expressions grew too long, or it took too long.

    Remedy: a loss with fewer terms, lower powers or less nesting, or higher limits (`symdebias.derivation_limits`).

    Attributes
    ----------
    by_time : bool
        Whether the seconds ran out, which on another machine they might not. ``method="auto"`` then chooses no other
        method: what it chooses must not depend on the machine.
    """

    def __init__(self, message: str, *, by_time: bool = False) -> None:
        super().__init__(message)
        self.by_time = by_time


class InfiniteVarianceError(SymdebiasError):
    """The corrected loss exists, but its variance on the noised records is infinite.

    Remedy: lower the noise, or keep the parameters in a smaller ball.
    """


class ExpressionError(SymdebiasError, ValueError):
    """An expression has a part that no loss has, or is beyond a bound on its size, its depth or its numbers.

    Remedy: write the loss with the operations and within the bounds that the message names.
    """


class FormatError(SymdebiasError, ValueError):
    """A card or a file is not what this version writes: damaged, of another format, or made by a stranger.

    Remedy: the message says which entry is wrong; ask for the output of ``to_json()`` or the file of ``save()``.
    """


class DivergenceError(SymdebiasError):
    """A solver met a value that is not finite, or its parameters ran away.

    Remedy: a smaller step size, a regularisation, or a bound on the parameters (``radius=``).
    """


class FitInterrupted(KeyboardInterrupt):
    """Training was stopped by Ctrl-C; what it had reached is here.

    It is a KeyboardInterrupt, which no ``except Exception`` takes for an error of the program.

    Attributes
    ----------
    fit : symdebias.Fit
        The fit after the last whole part of the run: unfinished, without a covariance, and not looked at for noise.
    """

    def __init__(self, message: str, fit: typing.Any) -> None:
        super().__init__(message)
        self.fit = fit


class InferenceError(SymdebiasError):
    """A fit has no standard errors, or no intervals that would cover.

    Remedy: the message says what is in the way: a constraint that is active, a bias that is not known, too little
    information in the records, or a solver that was not asked for a covariance.
    """


class PrivacyError(SymdebiasError):
    """A privacy statement was asked for that does not hold, or a budget does not suffice.

    Remedy: draw the noise without a seed, declare a mechanism that has a guarantee, or release less.
    """


class MissingDependencyError(SymdebiasError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


class ClippingWarning(UserWarning):
    """Records lay outside the declared bounds and were clipped before the noise was added.

    It reaches the collector, who has the records, and nobody else: the count is a statistic of the data.
    """


class CacheWarning(UserWarning):
    """The folder of compiled kernels could not be used; the job goes on without it."""


class VarianceWarning(UserWarning):
    """The correction is unbiased, but undoing the noise inflates the variance of the gradients a hundredfold.

    Remedy: less noise, fewer noised columns, or a loss of lower degree or slower growth.
    """


class ConvergenceWarning(UserWarning):
    """Training has stopped far from a minimum: its gradient is about as large as at the start.

    Remedy: the default step size, a larger one, or more epochs.
    """
