"""Check that losses are corrected without bias under a mechanism, by quadrature over its noise or enumeration."""

from dataclasses import dataclass

import numpy as np

from symdebias.driver import debias
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.mechanisms import Mechanism
from symdebias.noise import AdditiveNoise, ChannelNoise, ClippedNoise
from symdebias.release import Release
from symdebias.transforms import quadrature
from symdebias.transforms.certificate import Certificate

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class UnbiasednessCheck:
    """What `check_unbiased` found.

    Attributes
    ----------
    mechanism : Mechanism
        The mechanism.
    release : Release
        How it was used.
    certificate : Certificate
        The biases of loss and gradient on the domain.
    mean, variance : float
        Mean and variance of the noise by quadrature over its density, over the declared standard deviation and
        variance: 0 and 1 where the density agrees with the characteristic function. NaN for a finite channel.
    """

    mechanism: Mechanism
    release: Release
    certificate: Certificate
    mean: float
    variance: float

    @property
    def unbiased(self) -> bool:
        """Whether all biases are below 1e-9 of what is estimated, and the density has the declared moments.

        A part of the loss that no parameter changes may be off, by the `loss_offset` that the certificate states.
        """
        found = self.certificate
        # Written so that NaN, which no density should give, fails.
        moments = self.mean != self.mean or (abs(self.mean) <= 1e-9 and abs(self.variance - 1) <= 1e-9)
        return (
            found.exists
            and found.loss_bias - found.loss_offset <= _TOLERANCE * found.loss_scale
            and found.gradient_bias / found.gradient_scale <= _TOLERANCE
            and moments
        )

    def __str__(self) -> str:
        verdict = "unbiased" if self.unbiased else "NOT unbiased"
        return f"{verdict} under {self.mechanism!r}\n{self.certificate}"


def check_unbiased(mechanism: Mechanism, loss: Loss, *, theta_radius: float = 1.0) -> UnbiasednessCheck:
    """Check that a loss is corrected without bias under a mechanism.

    Parameters
    ----------
    mechanism : Mechanism
        Any mechanism, of one's own too. One that adds noise is put on the features; a finite channel on the target
        where its inputs are the loss's target values, or where the target is continuous and the outputs have the
        inputs as means; and otherwise on a feature.
    loss : Loss
        The loss.
    theta_radius : float
        The domain has ||theta|| up to this.

    Returns
    -------
    UnbiasednessCheck
        With ``unbiased``, and the certificate: the correction is derived from the characteristic function or the
        matrix, and checked by deterministic quadrature over the density, or by enumeration.

    Raises
    ------
    NoExactCorrectionError
        The loss has no exact correction under this noise, or the noise states no density.
    TypeError
        The arguments are something else.

    Examples
    --------
    >>> import symdebias as sd
    >>> check_unbiased(sd.LaplaceMechanism(epsilon=2.0, bounds=(0, 1)), sd.losses.logistic()).unbiased
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a symdebias Mechanism; got {type(mechanism).__name__}.")
    if not isinstance(loss, Loss):
        raise TypeError(f"loss must be a symdebias.Loss; got {type(loss).__name__}.")
    noise = mechanism.noise
    if isinstance(noise, ClippedNoise):
        raise NoExactCorrectionError(noise.refusal)
    release = _release(mechanism, noise, loss)
    mean = variance = float("nan")
    if isinstance(noise, AdditiveNoise) and noise.covariance is None:
        points, weights = quadrature.one_dimensional(noise, 64)
        mean = float(weights @ points) / float(np.sqrt(noise.variance))
        variance = float(weights @ points**2) / noise.variance
    corrected = debias(loss, release, method="exact")
    return UnbiasednessCheck(mechanism, release, corrected.certify(theta_radius=theta_radius), mean, variance)


def _release(mechanism: Mechanism, noise: AdditiveNoise | ChannelNoise, loss: Loss) -> Release:
    names = [symbol.name for symbol in loss.features]
    if isinstance(noise, ChannelNoise):
        declared = loss.target_values
        if noise.keeps_means if declared is None else tuple(sorted(noise.inputs)) == declared:
            return Release(target=mechanism, noiseless=names or ("x0", "x1"))
        first, *rest = names or ["x0", "x1"]
        return Release({first: mechanism}, noiseless=tuple(rest))
    if mechanism.width is None:
        return Release({tuple(names or ("x0", "x1")): mechanism})
    names = names or [f"x{index}" for index in range(mechanism.width + 1)]
    return Release({tuple(names[: mechanism.width]): mechanism}, noiseless=tuple(names[mechanism.width :]))
