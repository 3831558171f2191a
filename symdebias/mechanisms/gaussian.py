"""The Gaussian mechanism: normal noise on vectors in a ball, or on a bounded number."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from symdebias._domains import DELTA, EPSILON, RADIUS, SCALE
from symdebias.mechanisms import sampling
from symdebias.mechanisms.base import Clipped, FloatArray, Mechanism
from symdebias.noise import AdditiveNoise, gaussian_noise
from symdebias.privacy import Guarantee, analytic_gaussian_scale, classical_gaussian_scale

_CALIBRATIONS = {"analytic": analytic_gaussian_scale, "classical": classical_gaussian_scale}


@dataclass(frozen=True)
class GaussianMechanism(Mechanism):
    """Normal noise N(0, sigma^2) on each coordinate of a vector whose L2 norm is bounded by `radius`.

    On a target it noises one number in [-radius, radius].

    Parameters
    ----------
    epsilon : float
        Privacy budget, in [1e-6, 700]; local model, replace-one.
    delta : float
        In (0, 1).
    radius : float
        Public bound on the L2 norm, positive; never computed from the data. Vectors outside are clipped to
        it before the noise. The L2 sensitivity is 2 radius.
    calibration : {"analytic", "classical"}
        ``"analytic"`` (Balle & Wang 2018) is exact; ``"classical"`` has a proof for epsilon up to 1 only.

    Attributes
    ----------
    scale : float
        The noise's standard deviation sigma.

    Raises
    ------
    ValueError, TypeError
        An argument is outside its range.

    Notes
    -----
    The sampler is not hardened against floating-point attacks; see `symdebias.mechanisms.sampling`.

    References
    ----------
    Balle & Wang 2018, Theorem 8; Dwork & Roth 2014, Theorem A.1.

    Examples
    --------
    >>> round(GaussianMechanism(epsilon=1.0, delta=1e-5, radius=0.5).scale, 6)
    3.730632
    """

    epsilon: float | None
    delta: float | None
    radius: float | None
    calibration: str | None = "analytic"
    scale: float = field(init=False)
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        epsilon, delta = EPSILON.check("epsilon", self.epsilon), DELTA.check("delta", self.delta)
        radius = RADIUS.check("radius", self.radius)
        if self.calibration not in _CALIBRATIONS:
            raise ValueError(
                f"calibration={self.calibration!r} is not known. Choose one of {', '.join(_CALIBRATIONS)}."
            )
        self._set(epsilon, delta, radius, self.calibration)
        object.__setattr__(self, "scale", _CALIBRATIONS[self.calibration](epsilon, delta, 2 * radius))

    def _set(
        self, epsilon: float | None, delta: float | None, radius: float | None, calibration: str | None
    ) -> None:
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "calibration", calibration)

    @classmethod
    def from_scale(cls, scale: float, *, radius: float | None = None) -> "GaussianMechanism":
        """Return normal noise of a known standard deviation, without a privacy claim (measurement error).

        Parameters
        ----------
        scale : float
            The standard deviation, positive.
        radius : float, optional
            Bound on the L2 norm; without it nothing is clipped.

        Examples
        --------
        >>> GaussianMechanism.from_scale(0.5).guarantee is None
        True
        """
        mechanism = object.__new__(cls)
        mechanism._set(None, None, None if radius is None else RADIUS.check("radius", radius), None)
        object.__setattr__(mechanism, "scale", SCALE.check("scale", scale))
        return mechanism

    @property
    def noise(self) -> AdditiveNoise:
        """Normal noise of variance sigma^2 per coordinate."""
        return gaussian_noise(self.scale)

    @property
    def guarantee(self) -> Guarantee | None:
        """(epsilon, delta) in the local model, or None for `from_scale`."""
        if self.epsilon is None or self.delta is None:
            return None
        return Guarantee(self.epsilon, self.delta)

    def clip(self, values: FloatArray) -> Clipped:
        """Return rows with L2 norm at most radius: those outside are scaled back to the ball.

        Parameters
        ----------
        values : array of shape (n,) or (n, k), float64
            Numbers or row vectors.
        """
        if self.radius is None:
            return Clipped(values, 0)
        rows = values[:, None] if values.ndim == 1 else values
        # Scaled by the largest entry first, so that squares neither overflow nor vanish.
        largest = np.abs(rows).max(axis=1, keepdims=True)
        unit = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
        lengths = np.linalg.norm(unit, axis=1, keepdims=True)
        outside = (largest * lengths > self.radius)[:, 0]
        if not outside.any():
            return Clipped(values, 0)
        clipped = rows.copy()
        part = unit[outside] * (self.radius / lengths[outside])
        # Rounding may leave a norm just above the radius: shrink by units in the last place until it is not.
        above = np.linalg.norm(part, axis=1) > self.radius
        while above.any():
            part[above] *= 1 - np.finfo(float).eps
            above = np.linalg.norm(part, axis=1) > self.radius
        clipped[outside] = part
        return Clipped(clipped.reshape(values.shape), int(outside.sum()))

    def add_noise(self, clipped: Clipped, source: sampling.Source) -> FloatArray:
        """Return the clipped values with independent noise on every coordinate."""
        return clipped.values + sampling.normal_noise(self.scale, clipped.values.shape, source)

    def to_card(self) -> dict[str, Any]:
        """Return what makes an equal mechanism."""
        if self.epsilon is None:
            return {"scale": self.scale, "radius": self.radius}
        return {
            "epsilon": self.epsilon, "delta": self.delta, "radius": self.radius, "calibration": self.calibration,
        }  # fmt: skip

    @classmethod
    def from_card(cls, card: dict[str, Any]) -> "GaussianMechanism":
        """Make the mechanism that `to_card` described; the scale is computed again from a budget."""
        if "scale" in card:
            return cls.from_scale(card["scale"], radius=card.get("radius"))
        return cls(**card)

    def __repr__(self) -> str:
        if self.epsilon is None:
            bound = "" if self.radius is None else f", radius={self.radius!r}"
            return f"GaussianMechanism.from_scale({self.scale!r}{bound})"
        calibration = "" if self.calibration == "analytic" else f", calibration={self.calibration!r}"
        return (
            f"GaussianMechanism(epsilon={self.epsilon!r}, delta={self.delta!r}, radius={self.radius!r}{calibration})"
        )
