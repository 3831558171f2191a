"""Check that losses are corrected without bias under a mechanism, by quadrature over its noise or enumeration.

The density and the draws are checked as well: a correction is only as good as what it is told of the noise.
"""

import math
from dataclasses import dataclass

import numpy as np

from symdebias._domains import Integer
from symdebias._randomness import generator
from symdebias.assessment.certificate import Certificate
from symdebias.checks.sampler import SamplerCheck, characteristic_values, check_sampler
from symdebias.driver import debias
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.mechanisms import Mechanism
from symdebias.mechanisms.making import kind_of
from symdebias.noise import AdditiveNoise, ChannelNoise, ClippedNoise, CoordinateNoise, SphericalNoise
from symdebias.release import Release
from symdebias.transforms import quadrature
from symdebias.zonal import ZonalNoise

_TOLERANCE = 1e-9


@dataclass(frozen=True)
class UnbiasednessCheck:
    """The answer of `check_unbiased`.

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
        variance: 0 and 1 where the density agrees with the characteristic function. NaN where there is no density of
        one number: for a finite channel, noise on a whole vector and normal noise with a covariance.
    characteristic : float
        The largest difference between the declared characteristic function and that of the density, at frequencies
        from 0 (its mass) to 4 over the standard deviation; NaN as above.
    sampler : SamplerCheck
        What the mechanism draws, against what it declares.

    Examples
    --------
    >>> import symdebias as sd
    >>> found = sd.checks.check_unbiased(
    ...     sd.GaussianMechanism.from_scale(0.5), sd.losses.squared_margin(), samples=10_000, random_state=0
    ... )
    >>> found.unbiased, found.certificate.exact
    (True, True)
    """

    mechanism: Mechanism
    release: Release
    certificate: Certificate
    mean: float
    variance: float
    characteristic: float
    sampler: SamplerCheck

    @property
    def unbiased(self) -> bool:
        """Whether all biases are below 1e-9 of what is estimated, and density and draws are those that are declared.

        A part of the loss that no parameter changes may be off, by the `loss_offset` that the certificate states.
        """
        found = self.certificate
        return (
            found.exists
            and found.loss_bias - found.loss_offset <= _TOLERANCE * found.loss_scale
            and found.gradient_bias / found.gradient_scale <= _TOLERANCE
            and self.density_holds
            and self.sampler.holds
        )

    @property
    def density_holds(self) -> bool:
        """Whether the density is that of the characteristic function, as far as it was looked at."""
        noise = self.mechanism.noise
        if not (isinstance(noise, AdditiveNoise) and noise.covariance is None):
            return True
        # Written so that NaN, which no density should give, fails.
        return (
            abs(self.mean) <= _TOLERANCE and abs(self.variance - 1) <= _TOLERANCE and self.characteristic <= _TOLERANCE
        )

    def __str__(self) -> str:
        verdict = "unbiased" if self.unbiased else "NOT unbiased"
        lines = [f"{verdict} under {self.mechanism!r}", str(self.certificate)]
        if not self.density_holds:
            lines.append(
                "the density is NOT that of the characteristic function: its mean is off by "
                f"{self.mean:.3g} standard deviations, its variance by {abs(self.variance - 1):.3g} of the declared "
                f"one, its characteristic function by {self.characteristic:.3g}"
            )
        return "\n".join([*lines, str(self.sampler)])


def check_unbiased(
    mechanism: Mechanism,
    loss: Loss,
    *,
    theta_radius: float = 1.0,
    samples: int = 200_000,
    random_state: int | np.random.Generator | None = None,
) -> UnbiasednessCheck:
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
    samples : int
        Values drawn of each input, at least 1,000. Deviations of what is drawn are seen from about
        12/sqrt(samples) standard deviations on; the report says it exactly.
    random_state : int, numpy.random.Generator or None
        For the draws.

    Returns
    -------
    UnbiasednessCheck
        With ``unbiased``, and the certificate: the correction is derived from the characteristic function or the
        matrix, and checked by deterministic quadrature over the noise, or by enumeration. The density is compared with
        the characteristic function by quadrature, and what the mechanism draws with both, at a rate of false alarms
        below 1e-6.

    Raises
    ------
    NoExactCorrectionError
        The loss has no exact correction under this noise, or the noise states no density.
    TypeError, ValueError
        The arguments are something else, or a number is out of range.

    Examples
    --------
    >>> import symdebias as sd
    >>> check_unbiased(sd.LaplaceMechanism(epsilon=2.0, bounds=(0, 1)), sd.losses.logistic()).unbiased
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(
            f"mechanism must be a symdebias Mechanism; got {kind_of(mechanism)}. Pass one, such as "
            "symdebias.LaplaceMechanism(epsilon=1.0, bounds=(0, 1))."
        )
    require_loss(loss)
    count = Integer(1000, 10**9).check("samples", samples)
    rng = generator(random_state)
    noise = mechanism.noise
    if isinstance(noise, (ClippedNoise, CoordinateNoise)):
        raise NoExactCorrectionError(noise.refusal)
    if isinstance(noise, ZonalNoise):
        raise NoExactCorrectionError(
            "a point of a sphere is no sum of a record and noise, whose density could be held against its moments. Ask "
            "debias(loss, release).certify() for the bias, and check_guarantee for the density."
        )
    release = _release(mechanism, noise, loss)
    corrected = debias(loss, release, method="exact")
    certificate = corrected.certify(theta_radius=theta_radius)
    mean, variance, characteristic = _of_density(noise)
    return UnbiasednessCheck(
        mechanism, release, certificate, mean, variance, characteristic,
        check_sampler(mechanism, samples=count, rng=rng),
    )  # fmt: skip


def _of_density(noise: AdditiveNoise | ChannelNoise | SphericalNoise) -> tuple[float, float, float]:
    """Return mean and variance of the density in declared units, and how far its characteristic function is off."""
    if not isinstance(noise, AdditiveNoise) or noise.covariance is not None:
        return math.nan, math.nan, math.nan
    points, weights = quadrature.of_density(noise)
    mean = float(weights @ points) / math.sqrt(noise.variance)
    variance = float(weights @ points**2) / noise.variance
    apart = [abs(float(weights.sum()) - 1)]
    for w, wanted, _ in characteristic_values(noise, noise.variance):
        apart += [abs(float(weights @ np.cos(w * points)) - wanted), abs(float(weights @ np.sin(w * points)))]
    return mean, variance, float(np.max(apart))


def _release(mechanism: Mechanism, noise: AdditiveNoise | ChannelNoise | SphericalNoise, loss: Loss) -> Release:
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
