"""The law of a point on a sphere that is likelier in a cap around the true one: its numbers, stable at every budget.

The density is e^epsilon/Z where the cosine with the true point is gamma or more, and 1/Z elsewhere.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from symdebias._arrays import FloatArray
from symdebias._domains import OPEN_UNIT, Interval
from symdebias.zonal import legendre

CAP_EPSILON = Interval(
    1e-5,
    30.0,
    "both",
    "Give the privacy budget of one record, such as 2.0.",
    when_high="The cosine at the rim of a cap of a larger budget is next to 1 in float64. Give a smaller budget, or "
    "add noise: GaussianMechanism or LaplaceMechanism.",
)


@dataclass(frozen=True)
class CapLaw:
    """The law, in every dimension D of the space that the sphere lies in.

    Parameters
    ----------
    epsilon : float
        The log ratio of the densities inside and outside the cap, in [1e-5, 30].
    gamma : float, optional
        The cosine at the rim of the cap, in (0, 1). By default the one with the largest factor of linear functions,
        gamma = lambda_1, which depends on D.

    Examples
    --------
    >>> law = CapLaw(2.0)
    >>> round(law.rim(3), 10), round(law.share(3), 10)
    (0.4621171573, 0.2689414214)
    >>> law.factors(3, 4).round(10).tolist()
    [1.0, 0.4621171573, 0.213552267, 0.0078284189, -0.0803562015]
    """

    epsilon: float
    gamma: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", CAP_EPSILON.check("epsilon", self.epsilon))
        if self.gamma is not None:
            object.__setattr__(self, "gamma", OPEN_UNIT.check("gamma", self.gamma))

    def rim(self, dimension: int) -> float:
        """Return gamma in R^D."""
        return best_rim(self.epsilon, dimension) if self.gamma is None else self.gamma

    def share(self, dimension: int) -> float:
        """Return A, the share of the sphere in R^D that lies in the cap."""
        return share_of_cap(self.rim(dimension), dimension)

    def chance_inside(self, dimension: int) -> float:
        """Return e^epsilon A/Z, the probability of a point in the cap: the logistic function of epsilon + logit A."""
        share = self.share(dimension)
        return float(special.expit(self.epsilon + math.log(share) - math.log1p(-share)))

    def trials(self, dimension: int) -> float:
        """Return e^epsilon/Z: how many uniform points rejection draws for one that it keeps, in the mean."""
        share = self.share(dimension)
        return 1 / (share + (1 - share) * math.exp(-self.epsilon))

    def density(self, dimension: int, cosine: FloatArray) -> FloatArray:
        """Return the density at cosines with the true point, over the uniform density."""
        # 1/Z from e^-epsilon/(A + (1 - A) e^-epsilon), which does not overflow.
        outside = math.exp(-self.epsilon) * self.trials(dimension)
        return np.where(np.asarray(cosine) >= self.rim(dimension), self.trials(dimension), outside)

    def rule(self, dimension: int) -> tuple[FloatArray, FloatArray]:
        """Return points and weights of the cosine with the true point: Gauss' rule of its angle in and outside the cap.

        In the angle the uniform law has the density sin^(D - 2), with a peak of the width 1/sqrt(D).

        Parameters
        ----------
        dimension : int
            D.
        """
        return _rule(self, dimension)

    def shares(self, dimension: int, chances: FloatArray) -> FloatArray:
        """Return the shares of the sphere around the true point that the released one is in with these chances.

        Within the cap and beyond it all points are as likely as each other.

        Parameters
        ----------
        dimension : int
            D.
        chances : array, float64
            In [0, 1].
        """
        cap, inside = self.share(dimension), self.chance_inside(dimension)
        beyond = cap + (chances - inside) / (1 - inside) * (1 - cap)
        return np.where(chances <= inside, chances / inside * cap, beyond)

    def factors(self, dimension: int, degree: int) -> FloatArray:
        r"""Return lambda_0, ..., lambda_m: the mean of P_k at the released point over its value at the true one.

        .. math::

            \lambda_k = \frac{e^\varepsilon - 1}{Z}\, \frac{c_D (1 - \gamma^2)^{(D-1)/2}}{D - 1}\,
            P^{[D+2]}_{k-1}(\gamma), \qquad c_D = \frac{\Gamma(D/2)}{\sqrt\pi\, \Gamma((D-1)/2)}

        Parameters
        ----------
        dimension : int
            D, at least 2.
        degree : int
            m.
        """
        return _factors(self, dimension, degree)


@functools.lru_cache(maxsize=256)
def _rule(law: CapLaw, dimension: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of `CapLaw.rule`, which are not to be changed."""
    edge, nodes, inside = math.acos(law.rim(dimension)), 16 + 4 * math.isqrt(dimension), law.chance_inside(dimension)
    plain, weights = np.polynomial.legendre.leggauss(nodes)
    cosines, masses = [], []
    for low, high, chance in ((0.0, edge, inside), (edge, math.pi, 1 - inside)):
        angle = (low + high) / 2 + (high - low) / 2 * plain
        mass = weights * np.sin(angle) ** (dimension - 2)
        cosines.append(np.cos(angle))
        masses.append(chance * mass / mass.sum())
    return _fixed(np.concatenate(cosines)), _fixed(np.concatenate(masses))


@functools.lru_cache(maxsize=1024)
def _factors(law: CapLaw, dimension: int, degree: int) -> FloatArray:
    """Return the factors of `CapLaw.factors`, which are not to be changed."""
    rim = law.rim(dimension)
    found = np.ones(degree + 1)
    if degree:
        found[1:] = _slope(law.epsilon, rim, dimension) * legendre(degree - 1, dimension + 2, rim)
    return _fixed(found)


def _fixed(array: FloatArray) -> FloatArray:
    array.flags.writeable = False
    return array


def share_of_cap(rim: float, dimension: int) -> float:
    """Return the share of a sphere whose points have a cosine of at least so much with a given one.

    (1 - t)/2 of the cosine t has the law Beta((D - 1)/2, (D - 1)/2); its lower tail keeps all digits of small caps.

    Parameters
    ----------
    rim : float
        The cosine, in [-1, 1].
    dimension : int
        D, at least 2.
    """
    half = (dimension - 1) / 2
    return float(special.betainc(half, half, (1 - rim) / 2))


def cosine_density(dimension: int, cosine: float) -> float:
    """Return the density c_D (1 - t^2)^((D - 3)/2) of the cosine t of a uniform point with a fixed one."""
    half = dimension / 2
    log_constant = special.gammaln(half) - special.gammaln(half - 0.5) - 0.5 * math.log(math.pi)
    return math.exp(log_constant + (dimension - 3) / 2 * math.log((1 - cosine) * (1 + cosine)))


def _slope(epsilon: float, rim: float, dimension: int) -> float:
    """Return lambda_1: (e^epsilon - 1)/Z times the mean of t over the cap."""
    over = 1 / (share_of_cap(rim, dimension) + 1 / math.expm1(epsilon))
    # cosine_density is c_D (1 - t^2)^((D - 3)/2).
    return over * cosine_density(dimension, rim) * (1 - rim) * (1 + rim) / (dimension - 1)


@functools.lru_cache(maxsize=1024)
def best_rim(epsilon: float, dimension: int) -> float:
    """Return the gamma at which lambda_1 is largest, the one root of lambda_1 = gamma.

    With density f of the cosine, d lambda_1/d gamma = f (lambda_1 - gamma)/(A + 1/(e^epsilon - 1)): lambda_1 rises
    while it is above gamma, and falls from there on.

    Parameters
    ----------
    epsilon : float
        The budget, positive.
    dimension : int
        D, at least 2.
    """
    root = optimize.brentq(
        lambda rim: _slope(epsilon, rim, dimension) - rim, 1e-12, 1 - 1e-15, xtol=1e-16, rtol=4 * 2.0**-52
    )
    return float(root)
