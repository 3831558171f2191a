"""What the steps of a central, iterative algorithm cost together: the Gaussian mechanism on Poisson-sampled records.

One step draws each record with the same probability, sums their contributions, clipped to a norm C, and adds normal
noise of the standard deviation noise multiplier times C. The accountants are those of the package dp-accounting.
"""

import functools
import math
from typing import Any

import numpy as np
from scipy import optimize

from symdebias import _optional
from symdebias._arrays import FloatArray
from symdebias._domains import COUNT, DELTA, EPSILON, Interval, check_choice
from symdebias.exceptions import PrivacyError
from symdebias.privacy.guarantee import ADJACENCIES, Guarantee
from symdebias.privacy.search import least_epsilon

ACCOUNTANTS = ("pld", "rdp")

# Below the least, one step on all records has an epsilon above 500; the largest leaves next to nothing of the data.
_LARGEST_EPSILON = 1e12
_MULTIPLIER = Interval(
    0.03, 1e8, "both", "Give the noise's standard deviation divided by the norm that contributions are clipped to."
)
_PROBABILITY = Interval(
    0.0,
    1.0,
    "right",
    "Give the probability with which a step draws a record: the expected batch size over the number of records.",
)
# The discretised distribution is convolved in float64. Against the exact curve of steps on all records, delta came
# out too small by at most 5e-17 per step: allow for several times that.
_ROUNDING, _ROUNDING_PER_STEP = 1e-13, 2e-16
_MOST_STEPS = 10**6
_PLD_DELTA = Interval(
    1e-10, 1.0, "left", 'Give a delta of at least 1e-10, or accountant="rdp", which takes any above 0.'
)
_ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 64), 80, 96, 128, 192, 256, 512, 1024)
# Of a multiplier and of an epsilon, relative.
_PRECISION, _EPSILON_PRECISION = 1e-6, 1e-9
# Where the losses of one step are this many times finer than their spread, epsilon is within some 1e-4.
_FINENESS = 12


def subsampled_gaussian_guarantee(
    noise_multiplier: float,
    sampling_probability: float,
    steps: int,
    delta: float,
    *,
    adjacency: str,
    accountant: str = "pld",
) -> Guarantee:
    """Return the guarantee of steps that each noise the sum of clipped contributions of Poisson-sampled records.

    Parameters
    ----------
    noise_multiplier : float
        The noise's standard deviation divided by the norm C that contributions are clipped to, in [0.03, 1e8]. It is
        the same number under both adjacencies: that two records differ by up to 2 C is accounted for.
    sampling_probability : float
        The probability with which each record is drawn in each step, independently of all else, in (0, 1]. Batches of
        a fixed size, or a pass in shuffled order, are not Poisson sampling and have other guarantees.
    steps : int
        How many steps there are, at least 1, and with ``"pld"`` at most 1,000,000; each may depend on the results of
        those before.
    delta : float
        In [1e-10, 1) with ``"pld"``, and at least 8e-16 per step; in (0, 1) with ``"rdp"``.
    adjacency : {"add-remove", "replace-one"}
        What may differ between neighbours: a record is there or not, or it is exchanged for another one, the number of
        records being public.
    accountant : {"pld", "rdp"}
        ``"pld"`` convolves the distribution of the privacy loss, rounded to the safe side on a grid; epsilon is within
        some 0.1% of the least that holds. ``"rdp"`` composes Rényi divergences, faster and looser.

    Returns
    -------
    Guarantee
        Of the model ``"central"``, with the epsilon that holds at delta.

    Raises
    ------
    MissingDependencyError
        The package dp-accounting is not installed.
    PrivacyError
        No finite epsilon was found at this delta.
    TypeError, ValueError
        An argument is outside its range, or a word is not known.

    Notes
    -----
    With q the probability, z the multiplier and C = 1, a step is dominated by a pair of distributions on the line:
    under add-remove by N(0, z^2) and (1 - q) N(0, z^2) + q N(1, z^2), in both orders; under replace-one by
    (1 - q) N(0, z^2) + q N(-1, z^2) and (1 - q) N(0, z^2) + q N(1, z^2). So the epsilon of replace-one is at
    least that of add-remove, and at q = 1 that of one Gaussian with the doubled sensitivity.

    That the second pair dominates: let g and g' be the contributions of the exchanged records. The divergence
    of order gamma >= 1 is the mean of the positive part of
    q M(g) - gamma q M(g') - (gamma - 1)(1 - q), M the likelihood ratios to the noise alone. By interpolation of the
    Gaussian exponents it grows with the distances of g to g' and to 0, and falls with that of g' to 0, so that
    it is largest at ||g|| = 1 and g' = -c g; there it grows with c, since the event is a half-line that g' leaves.
    Orders below 1 follow by exchanging g and g'.

    References
    ----------
    Mironov, Talwar & Zhang 2019 (arXiv 1908.10530), Section 3; Zhu, Dong & Wang 2022 (arXiv 2106.08567), Theorems 10
    and 11; Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022 (arXiv 2207.04380).

    Examples
    --------
    >>> print(subsampled_gaussian_guarantee(1.0, 0.01, 1000, 1e-5, adjacency="add-remove", accountant="rdp"))
    (2.10137, 1e-05)-differential privacy (central, add-remove)
    """
    multiplier = _MULTIPLIER.check("noise_multiplier", noise_multiplier)
    run = _checked_run(sampling_probability, steps, delta, adjacency, accountant)
    epsilon = _epsilon(multiplier, *run)
    if not epsilon < math.inf:
        raise PrivacyError(
            f"noise_multiplier={multiplier:g} has no finite epsilon at delta={delta:g} by this accountant. Give more "
            "noise or a larger delta."
        )
    return Guarantee(epsilon, delta, "central", adjacency)


def calibrate_noise_multiplier(
    epsilon: float,
    delta: float,
    sampling_probability: float,
    steps: int,
    *,
    adjacency: str,
    accountant: str = "pld",
) -> float:
    """Return a noise multiplier that keeps a budget over all steps, next to the least that does.

    Parameters
    ----------
    epsilon : float
        The privacy budget, in [1e-6, 700].
    delta, sampling_probability, steps, adjacency, accountant
        As for `subsampled_gaussian_guarantee`.

    Returns
    -------
    float
        The noise's standard deviation divided by the norm that contributions are clipped to, in [0.03, 1e8].
        `subsampled_gaussian_guarantee` of it has at most the epsilon asked for: that was checked. It is above the
        least such number by some 1e-6 of it.

    Raises
    ------
    MissingDependencyError
        The package dp-accounting is not installed.
    PrivacyError
        Not even the largest multiplier keeps the budget.
    TypeError, ValueError
        An argument is outside its range, or a word is not known.

    Notes
    -----
    Some ten evaluations of the guarantee: with ``"pld"`` some seconds, and more where epsilon is large.

    Examples
    --------
    >>> multiplier = calibrate_noise_multiplier(1.0, 1e-5, 0.01, 1000, adjacency="add-remove", accountant="rdp")
    >>> round(multiplier, 3)
    1.513
    """
    epsilon = EPSILON.check("epsilon", epsilon)
    run = _checked_run(sampling_probability, steps, delta, adjacency, accountant)

    def excess(position: float) -> float:
        found = _epsilon(math.exp(position), *run)
        # Zero and infinity have a side, and no more.
        return math.log(min(max(found / epsilon, 1e-20), 1e20))

    least, largest = (math.log(end) for end in (_MULTIPLIER.low, _MULTIPLIER.high))
    low = high = min(max(_guess(epsilon, *run[:3]), least), largest)
    while high < largest and excess(high) > 0:
        low, high = high, min(high + 1.0, largest)
    while low > least and excess(low) <= 0:
        low, high = max(low - 1.0, least), low
    position = low
    if low < high and excess(low) > 0 >= excess(high):
        position = optimize.brentq(excess, low, high, xtol=_PRECISION / 2)
    multiplier, step = min(max(math.exp(position), _MULTIPLIER.low), _MULTIPLIER.high), _PRECISION / 2
    while _epsilon(multiplier, *run) > epsilon:
        if multiplier == _MULTIPLIER.high:
            raise PrivacyError(
                f"no noise multiplier up to {_MULTIPLIER.high:g} keeps epsilon={epsilon:g} at delta={delta:g} over "
                f"{steps} steps. Give a larger budget, or fewer steps."
            )
        multiplier, step = min(multiplier * (1 + step), _MULTIPLIER.high), 2 * step
    return multiplier


def _checked_run(
    sampling_probability: float, steps: int, delta: float, adjacency: str, accountant: str
) -> tuple[float, int, float, str, str]:
    for name, value, known in (("adjacency", adjacency, ADJACENCIES), ("accountant", accountant, ACCOUNTANTS)):
        check_choice(name, value, known)
    delta = (_PLD_DELTA if accountant == "pld" else DELTA).check("delta", delta)
    probability, steps = _PROBABILITY.check("sampling_probability", sampling_probability), COUNT.check("steps", steps)
    if accountant == "pld" and not (steps <= _MOST_STEPS and delta >= 4 * _rounding(steps)):
        raise ValueError(
            f"steps={steps} at delta={delta:g} are too many for the convolution in float64. It takes up to "
            f"{_MOST_STEPS} steps, and a delta of at least {4 * _rounding(min(steps, _MOST_STEPS)):.2g} for them. Use "
            'accountant="rdp", or a larger delta.'
        )
    return probability, steps, delta, adjacency, accountant


def _rounding(steps: int) -> float:
    return _ROUNDING + _ROUNDING_PER_STEP * steps


def _guess(epsilon: float, probability: float, steps: int, delta: float) -> float:
    """Return the logarithm of a multiplier of about the right size, by the normal limit of many steps."""
    tail = math.sqrt(2 * math.log(1 / delta)) + 1e-3
    width = (math.sqrt(tail**2 + 2 * epsilon) - tail) + 1e-300
    rate = math.log(probability) + 0.5 * math.log(steps) - math.log(width)
    return rate if rate > 0 else -0.5 * math.log1p(math.exp(min(-rate, 300.0)))


# A search asks for the same numbers again at its end, and experiments repeat whole searches.
@functools.lru_cache(maxsize=4096)
def _epsilon(multiplier: float, probability: float, steps: int, delta: float, adjacency: str, accountant: str) -> float:
    by = _by_loss_distribution if accountant == "pld" else _by_renyi_divergence
    try:
        return by(multiplier, probability, steps, delta, adjacency)
    except OverflowError:
        # Losses beyond the largest float: next to no noise.
        return math.inf


def _by_loss_distribution(multiplier: float, probability: float, steps: int, delta: float, adjacency: str) -> float:
    """Return epsilon by the convolved distribution of the privacy loss."""
    accounting = _optional.require("dp_accounting", extra="accounting")
    loss_distributions = _optional.require("dp_accounting.pld", extra="accounting")
    relation = accounting.NeighboringRelation
    accountant = loss_distributions.PLDAccountant(
        relation.REPLACE_ONE if adjacency == "replace-one" else relation.ADD_OR_REMOVE_ONE,
        _grid(multiplier, probability, steps),
    )
    accountant.compose(_event(accounting, multiplier, probability), steps)
    bound = delta - _rounding(steps)
    return least_epsilon(
        lambda epsilon: accountant.get_delta(epsilon) <= bound, precision=_EPSILON_PRECISION, largest=_LARGEST_EPSILON
    )


def _by_renyi_divergence(multiplier: float, probability: float, steps: int, delta: float, adjacency: str) -> float:
    """Return epsilon by the best of many Rényi divergences."""
    divergences = _optional.require("dp_accounting.rdp", extra="accounting")
    composed = [steps * step_divergence(order, multiplier, probability, adjacency) for order in _ORDERS]
    return float(divergences.compute_epsilon(_ORDERS, composed, delta)[0])


def _event(accounting: Any, multiplier: float, probability: float) -> Any:
    gaussian = accounting.GaussianDpEvent(multiplier)
    # Steps on all records compose into one without rounding.
    return gaussian if probability == 1.0 else accounting.PoissonSampledDpEvent(probability, gaussian)


def _grid(multiplier: float, probability: float, steps: int) -> float:
    """Return the interval of the grid of losses: fine beside their spread in one step, and in all not too many.

    Nor so fine that the masses of its points, which are second differences of delta, are rounding errors.
    """
    if probability == 1.0:
        multiplier, steps = multiplier / math.sqrt(steps), 1
    spread = probability * math.sqrt(math.expm1(min(multiplier**-2, 50.0)))
    largest = float(_log_mixture(probability, np.array([0.5 * multiplier**-2 + 10 / multiplier]))[0])
    return max(min(spread / _FINENESS, max(2e-3, largest / 2e4)), 1e-8 + 1e-11 * steps)


def step_divergence(order: float, multiplier: float, probability: float, adjacency: str) -> float:
    """Return the Rényi divergence of one step, of an order above 1, between the pair of laws that dominates it.

    D = log(int p^order r^(1 - order))/(order - 1), with p = (1 - q) N(0, z^2) + q N(1, z^2) and r = N(0, z^2) under
    add-remove, where the other order of the two is never larger, r = (1 - q) N(0, z^2) + q N(-1, z^2) under
    replace-one; z is the multiplier, q the probability. It is taken by the trapezoidal rule, which converges
    geometrically here.

    References
    ----------
    Mironov, Talwar & Zhang 2019 (arXiv 1908.10530), Theorem 5.
    """
    if probability == 1.0:
        return (2.0 if adjacency == "replace-one" else 0.5) * order / (multiplier * multiplier)

    def parts(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log r without its constant, and log(p/r)."""
        up, down = (_log_mixture(probability, (sign * x - 0.5) / multiplier**2) for sign in (1.0, -1.0))
        density = -0.5 * (x / multiplier) ** 2
        return (density + down, up - down) if adjacency == "replace-one" else (density, up)

    # Coarsely first, to see where the integrand has its mass.
    x = np.arange(-14 * multiplier - 1, 2 * order + 14 * multiplier, multiplier / 2)
    base, ratio = parts(x)
    mass = x[(exponents := base + order * ratio) > exponents.max() - 60]
    spacing = min(multiplier / 8, multiplier**2 / 4)
    base, ratio = parts(np.arange(mass[0] - 2 * multiplier, mass[-1] + 2 * multiplier, spacing))
    base += math.log(spacing / (multiplier * math.sqrt(2 * math.pi)))
    if float(np.abs(order * ratio).max()) < 1:
        # Both densities have the mass 1: what is linear in p/r is left out before anything cancels.
        above = np.exp(base) * (np.expm1(order * ratio) - order * np.expm1(ratio))
        return math.log1p(float(above.sum())) / (order - 1)
    exponents = base + order * ratio
    peak = float(exponents.max())
    return max(peak + math.log(float(np.exp(exponents - peak).sum())), 0.0) / (order - 1)


def _log_mixture(probability: float, exponents: FloatArray) -> FloatArray:
    """Return log(1 - q + q e^a), without overflow and to rounding where a is small."""
    falling = -np.abs(exponents)
    shares = np.where(exponents > 0, 1 - probability, probability)
    mixed: FloatArray = np.maximum(exponents, 0.0) + np.log1p(shares * np.expm1(falling))
    return mixed
