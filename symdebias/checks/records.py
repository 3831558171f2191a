"""Do released records fit their card? Tests of what the noise alone makes impossible or unlikely, whatever was true.

A card says how the columns were noised. Data that were changed afterwards (standardised, clipped, rounded, taken from
another column) have another noise, and a fit that undoes the declared one is wrong without a sign. Every test here
holds for arbitrary true values within the declared bounds: nothing is assumed of the population.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from symdebias._arrays import FloatArray
from symdebias._domains import Interval
from symdebias.checks.binomial import at_least, at_most
from symdebias.checks.scaled import FEWEST, log_p_of_scaling, scaled_how
from symdebias.codegen.numeric import numeric
from symdebias.mechanisms import ChannelMechanism, Mechanism
from symdebias.mechanisms.ranges import Grid
from symdebias.noise import (
    FREQUENCY,
    VALUE,
    AdditiveNoise,
    ChannelNoise,
    ClippedNoise,
    CoordinateNoise,
    SphericalNoise,
)
from symdebias.release import Release
from symdebias.release.groups import labels_of_target
from symdebias.release.matrices import named_by
from symdebias.release.required import require_release
from symdebias.zonal import ZonalNoise

_RATE = Interval(0.0, 0.5, "neither", "Give a small probability, such as 0.001.")
# The chance that a released number falls on one value, for noise that was written with four digits of its scale.
_RESOLUTION = 1e-4
# Numbers count as on a grid within this share of a step; steps from a hundredth to ten scales of the noise are tried.
_ON_GRID, _FINEST, _COARSEST = 1e-6, 0.01, 10.0
# Lengths of vectors are counted in so many cells.
_LENGTHS = 16


@dataclass(frozen=True)
class RecordProbe:
    """One question that was put to released records, and its answer.

    Attributes
    ----------
    name : str
        What was tested.
    column : str
        Of which column; ``"target"`` of the target.
    statistic : float
        What was found.
    p_value : float
        A bound on the probability of as much in records that fit their card, whatever the true values are.
    level : float
        The level of this probe: the rate of false alarms of the whole check over the number of its probes.
    sees : str
        A defect, and the probability with which it is seen in so many records.
    power : float
        That probability.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> release = sd.Release(sd.LaplaceMechanism(1.0, bounds=(0, 1)))
    >>> noised = release.privatize(np.full((2_000, 1), 0.5), random_state=0)
    >>> probe = sd.checks.check_records(noised.release, np.clip(noised.X, 0, 1)).flagged[0]
    >>> probe.fits, probe.p_value < probe.level
    (False, True)
    """

    name: str
    column: str
    statistic: float
    p_value: float
    level: float
    sees: str
    power: float

    @property
    def fits(self) -> bool:
        """Whether the records pass."""
        return self.p_value > self.level


@dataclass(frozen=True)
class RecordsCheck:
    """What `check_records` found.

    Attributes
    ----------
    probes : tuple of RecordProbe
        One row for each probe and column.
    records : int
        The number n of records.
    false_alarm_rate : float
        Records that fit their card are flagged with at most this probability.
    skipped : tuple of str
        Columns of which nothing but their form was tested, with the reason.

    Examples
    --------
    >>> import numpy as np
    >>> import symdebias as sd
    >>> release = sd.Release(sd.LaplaceMechanism(1.0, bounds=(0, 1)))
    >>> noised = release.privatize(np.full((2_000, 1), 0.5), random_state=0)
    >>> sd.checks.check_records(noised.release, noised.X).fits
    True
    >>> sd.checks.check_records(noised.release, np.clip(noised.X, 0, 1)).fits
    False
    """

    probes: tuple[RecordProbe, ...]
    records: int
    false_alarm_rate: float
    skipped: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether all probes pass."""
        return not self.flagged

    @property
    def flagged(self) -> tuple[RecordProbe, ...]:
        """The probes that do not pass."""
        return tuple(probe for probe in self.probes if not probe.fits)

    def __str__(self) -> str:
        lines = [
            f"{self.records:,} released records {'fit' if self.fits else 'DO NOT FIT'} their card, at false alarms of "
            f"at most {self.false_alarm_rate:g}",
            f"  {'probe':<14} {'column':<12} {'statistic':>11} {'p value':>9} {'level':>9}  sees",
        ]
        for probe in self.probes:
            mark = " " if probe.fits else "!"
            lines.append(
                f"{mark} {probe.name:<14} {probe.column:<12} {probe.statistic:>11.4g} {probe.p_value:>9.2g} "
                f"{probe.level:>9.2g}  {probe.sees} with {probe.power:.2f}"
            )
        return "\n".join([*lines, *(f"  not tested: {reason}" for reason in self.skipped)])


@dataclass(frozen=True)
class _Found:
    """A statistic with the logarithm of its p value, and the power of its test as a function of the level."""

    name: str
    column: str
    statistic: float
    log_p: float
    sees: str
    power: Any


def check_records(release: Release, X: Any, y: Any = None, *, false_alarm_rate: float = 1e-3) -> RecordsCheck:
    """Test whether released records fit their card.

    Parameters
    ----------
    release : Release
        Their release.
    X : array of shape (n, p) or table
        ``noised.X``, at least 20 records, in an order that does not depend on the noise.
    y : array of shape (n,), optional
        ``noised.y``.
    false_alarm_rate : float
        Over all probes, in (0, 1/2).

    Returns
    -------
    RecordsCheck
        With one row for each probe and column.

    Raises
    ------
    TypeError, ValueError
        The records do not have the form of the release: other columns, labels outside of the alphabet, vectors longer
        than any that are released. The message says which.

    Notes
    -----
    ``spread``
        With z = x + e, random pairs of records have the differences z - z' = d + (e - e'), and for every d

            E exp(-lambda (z - z')^2/2) = E cos(w d) phi(w)^2 <= E phi(w)^2,  w ~ N(0, lambda),

        so that m pairs with the sum T of (z - z')^2/2 have the p value min over lambda of
        exp(lambda T) (E phi(w)^2)^m (Chernoff). Noise that is too small, or a column that was scaled down, is seen.
    ``size``
        For a column with values in [c - B, c + B] the mean of (z - c)^2 is at most B^2 + sigma^2 in expectation, with a
        variance of at most (4 B^2 sigma^2 + E e^4 - sigma^4)/n: Cantelli's inequality. Noise that is too large, another
        unit or a missing centre is seen.
    ``range``
        Noise takes a number out of its declared range with a probability of at least p, wherever it is in it: the tail
        of the noise beyond half of the range for normal and for Laplace noise (Anderson's inequality), and for other
        noise of a guarantee (epsilon, delta) exp(-epsilon) (1 - 2 delta), as half of what is at an end goes beyond it.
        So many outside have a binomial tail. True records, and noised ones that were clipped, are seen.
    ``grid``
        Noise in whole steps leaves multiples of the step, and bounded noise stays within its reach, always.
    ``rounded``
        Continuous noise leaves no multiples of a tenth of its scale.
    ``clipped``
        Of n numbers, k are equal with a probability of at most C(n, k) q^(k - 1), q = 1e-4 the largest probability of
        one value, of numbers that were written with four digits of the scale of the noise.
    ``standardised``
        Sample moments are exactly 0 and 1, or the extremes 0 and 1, as scalers leave them and noise does not.
    ``length``
        A point of a sphere has a density within [a, b] times the uniform one, whatever the true vector is, so that the
        squared length of its first d coordinates lies in each sixteenth of the law Beta(d/2, 1/2) with a probability
        within [a/16, b/16]: binomial tails. Vectors that were shortened or brought to one length are seen.
    ``frequency``
        A channel sends an output with a probability between the least and the largest entry of its column, whatever
        goes in: binomial tails.

    References
    ----------
    Boucheron, Lugosi & Massart 2013, *Concentration Inequalities*, Sections 2.1 (Cantelli) and 2.2 (Chernoff);
    Maurer 2003 (sums of non-negative numbers), for noise on spheres.

    Examples
    --------
    >>> import numpy as np, symdebias as sd
    >>> release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(20, 60))})
    >>> noised = release.privatize(np.random.default_rng(0).uniform(20, 60, size=(2000, 1)), random_state=1)
    >>> sd.checks.check_records(release, noised.X).fits
    True
    >>> [probe.name for probe in sd.checks.check_records(release, np.clip(noised.X, 20, 60)).flagged]
    ['spread', 'range', 'clipped']
    """
    require_release(release)
    rate = _RATE.check("false_alarm_rate", false_alarm_rate)
    apart, matrix, target = _columns_of(release, X, y)
    n = len(matrix)
    if n < FEWEST:
        raise ValueError(f"X has {n} records, which tell nothing of their noise. Pass at least {FEWEST}.")
    names = apart.columns or tuple(f"x{index}" for index in range(matrix.shape[1]))
    found: list[_Found] = []
    skipped: list[str] = []
    for place, mechanism in apart.placed(matrix.shape[1]):
        width = place.stop - place.start
        noise = None if isinstance(mechanism, ChannelMechanism) else mechanism.noise_on(width)
        if isinstance(noise, ZonalNoise):
            found += _of_sphere(noise, matrix[:, place] * mechanism.divisors_on(width) * noise.gain, names[place])
            continue
        for index in range(width):
            name, column = names[place.start + index], matrix[:, place.start + index]
            found += _probed(mechanism, width, index, name, column, skipped)
    if target is not None and apart.target is not None:
        found += _probed(apart.target, 1, 0, "target", target, skipped)
    level = rate / max(1, len(found))
    probes = tuple(
        RecordProbe(
            one.name, one.column, one.statistic, math.exp(min(0.0, one.log_p)), level, one.sees,
            float(np.clip(one.power(level), 0.0, 1.0)),
        )
        for one in found
    )  # fmt: skip
    return RecordsCheck(probes, n, rate, tuple(skipped))


def _columns_of(release: Release, X: Any, y: Any) -> tuple[Release, FloatArray, FloatArray | None]:
    """Return the release of single columns that a release comes to, with its records, checked in their form."""
    release = named_by(release, X)
    if release.coupling is not None:
        matrix, target = release.columns_of(X, y)
        return release.in_columns(np.shape(X)[1]), matrix, None if release.coupling.kind == "margin" else target
    matrix = release.design_matrix(X)
    if y is None:
        return release, matrix, None
    target = release.released_target(y, rows=len(matrix))
    labels = labels_of_target(release.target, "sent")
    if labels is not None:
        known = np.isin(target, labels.numbers)
        if not known.all():
            raise ValueError(
                f"y has a label in row {int(np.argmin(known))} that the release does not send. It sends "
                f"{', '.join(map(str, labels.values[:8]))}: pass noised.y as privatize returned it."
            )
        target = labels.codes(target).astype(float)
    return release, matrix, target


def _probed(
    mechanism: Mechanism, width: int, index: int, name: str, column: FloatArray, skipped: list[str]
) -> Iterator[_Found]:
    noise: Any = mechanism.noise if isinstance(mechanism, ChannelMechanism) else mechanism.noise_on(width)
    n = len(column)
    if isinstance(noise, ChannelNoise):
        yield from _frequencies(np.array(noise.matrix), column.astype(np.int64), name)
        return
    if isinstance(noise, ClippedNoise):
        beyond = float(np.maximum(noise.low - column, column - noise.high).max())
        yield _certain(
            "grid", name, max(beyond, 0.0), beyond > 1e-9 * (noise.high - noise.low), "values beyond the ends"
        )
        return
    if isinstance(noise, CoordinateNoise):
        skipped.append(f"{name}, whose noise is that of a vector on a sphere")
        return
    divisor = float(mechanism.divisors_on(width)[index])
    variance = float(noise.coordinate_variances(width)[index]) / divisor**2
    if not variance > 0:
        skipped.append(f"{name}, which has no noise")
        return
    sigma = math.sqrt(variance)
    fourth = fourth_moment(noise, divisor, variance)
    yield _spread(noise, divisor, variance, fourth, name, column)
    middle, reach = middle_and_reach(mechanism)
    if reach is not None:
        yield _size(middle, reach, variance, fourth, name, column)
        chance = least_chance_outside(mechanism, noise, divisor, variance, reach)
        if chance > 0:
            yield _range(middle, reach, chance, name, column)
    half = getattr(mechanism, "half_width", None)
    if half is not None and reach is not None:
        beyond = float(np.abs(column - middle).max()) - reach - half
        yield _certain("grid", name, max(beyond, 0.0), beyond > 1e-9 * half, "values beyond the reach of the noise")
    if isinstance(mechanism.range, Grid):
        step = mechanism.range.step
        off = np.abs(column / step - np.rint(column / step))
        tolerance = 1e-9 * np.maximum(1.0, np.abs(column / step))
        yield _certain("grid", name, float(off.max()), bool((off > tolerance).any()), "a value between the steps")
        return
    likelier = peak(noise)
    yield rounded(sigma, name, column, likelier)
    yield _clipped(name, column, likelier)
    yield _standardised(sigma, name, column, n)


def _certain(name: str, column: str, statistic: float, is_off: bool, sees: str) -> _Found:
    return _Found(name, column, statistic, -math.inf if is_off else 0.0, sees, lambda level: 1.0)


# ---- the noise -------------------------------------------------------------------------------------------


@functools.cache
def _normal_nodes() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of a mean over the standard normal distribution."""
    nodes, weights = special.roots_hermitenorm(160)
    return nodes, weights / weights.sum()


@functools.lru_cache(maxsize=256)
def _laplace_transform(noise: AdditiveNoise, divisor: float, rate: float) -> float:
    """Return E exp(-rate (e - e')^2/2) for two independent draws: the mean of phi(w)^2 over w ~ N(0, rate)."""
    nodes, weights = _normal_nodes()
    frequencies = math.sqrt(rate) * nodes / divisor
    phi = np.broadcast_to(numeric(noise.characteristic_function, (FREQUENCY,))(frequencies), frequencies.shape)
    # Where a rounding of the quotient at 0 is no number, phi is 1.
    phi = np.where(np.isfinite(phi), phi, 1.0)
    return float(np.sum(weights * phi**2))


def _is_normal(noise: Any) -> bool:
    """Whether noise is normal, on numbers or, with or without a covariance, on vectors."""
    return isinstance(noise, AdditiveNoise) and noise.is_gaussian


def fourth_moment(noise: Any, divisor: float, variance: float) -> float:
    """Return E e^4 of a coordinate, rounded up by a twentieth."""
    if _is_normal(noise):
        return 3 * variance**2
    if isinstance(noise, SphericalNoise):
        # e = R u, u uniform on the sphere: E u_1^4 = 3/(N (N + 2)).
        radii, weights = noise.radii(80)
        size = noise.ambient
        return 1.05 * float(weights @ radii**4) / float(weights.sum()) * 3 / (size * (size + 2)) / divisor**4
    rate = 1e-3 / variance
    # E exp(-rate D^2/2) = 1 - rate variance + rate^2 (E e^4 + 3 variance^2)/4 - ..., D = e - e'.
    quotient = (_laplace_transform(noise, divisor, rate) - 1 + rate * variance) / rate**2
    return 1.05 * max(4 * quotient - 3 * variance**2, variance**2)


def middle_and_reach(mechanism: Mechanism) -> tuple[float, float | None]:
    """Return the centre and the half width of the declared range of true values; None where none is declared."""
    bounds, radius = getattr(mechanism, "bounds", None), getattr(mechanism, "radius", None)
    if bounds is not None:
        return (bounds[0] + bounds[1]) / 2, (bounds[1] - bounds[0]) / 2
    return 0.0, None if radius is None else float(radius)


def least_chance_outside(mechanism: Mechanism, noise: Any, divisor: float, variance: float, reach: float) -> float:
    """Return a lower bound on the chance that a released number lies outside of the range of true ones, any of them.

    Noise of a density that falls to both sides takes a value in the middle out of the range least often (Anderson's
    inequality): known for normal and for Laplace noise. For other noise, half of the values at an end of the range go
    beyond it, and by the guarantee (epsilon, delta) that end is passed from any value of the range with a chance of at
    least exp(-epsilon) (1/2 - delta), and so is the other. It is 0 where none of this is known, and on a grid.

    Parameters
    ----------
    mechanism : Mechanism
        What noised them.
    noise : AdditiveNoise or SphericalNoise
        Its noise.
    divisor, variance : float
        What the coordinate was divided by, and the variance of its noise then.
    reach : float
        Half the width of the range.
    """
    if isinstance(mechanism.range, Grid):
        return 0.0
    if isinstance(noise, AdditiveNoise):
        if noise.is_gaussian:
            return math.erfc(reach / math.sqrt(2 * variance))
        # 1/phi(w) = 1 + b^2 w^2 is that of Laplace noise alone.
        if len(noise.inverse_polynomial or ()) == 2:
            return math.exp(-reach / math.sqrt(variance / 2))
    guarantee = mechanism.guarantee
    if guarantee is None or divisor != 1:
        return 0.0
    return max(0.0, math.exp(-guarantee.epsilon) * (1 - 2 * guarantee.delta))


@functools.lru_cache(maxsize=256)
def peak(noise: AdditiveNoise | SphericalNoise) -> float:
    """Return the largest density of a coordinate over one by the scale of the noise, at least 1.

    That of known noise is at 0. Staircase noise of a large budget is nearly all in a first stair that is narrow beside
    its scale: true values on a grid stay there.
    """
    if not isinstance(noise, AdditiveNoise) or noise.is_gaussian or noise.density is None:
        return 1.0
    return max(1.0, math.sqrt(noise.variance) * float(noise.density.subs(VALUE, 0)))


# ---- the probes ------------------------------------------------------------------------------------------


def log_p_of_spread(noise: Any, divisor: float, variance: float, fourth: float, mean: float, pairs: int) -> float:
    """Return a bound on the log probability that the mean of (z - z')^2/2 over pairs is so small."""
    if mean >= variance:
        return 0.0
    if _is_normal(noise):
        # min over lambda of lambda T - (m/2) log(1 + 2 lambda variance).
        ratio = max(mean / variance, 1e-300)
        return float(pairs / 2 * (1 - ratio + math.log(ratio)))
    if isinstance(noise, SphericalNoise):
        # For numbers X >= 0: exp(-m (deviation of the mean)^2/(2 E X^2)), E X^2 = (E e^4 + 3 variance^2)/2.
        return float(-pairs * (variance - mean) ** 2 / (fourth + 3 * variance**2))
    rates = (np.geomspace(0.01, 8.0, 12) / variance).tolist()
    bounds = (pairs * (rate * mean + math.log(_laplace_transform(noise, divisor, rate))) for rate in rates)
    return float(min(0.0, *bounds))


def _spread(noise: Any, divisor: float, variance: float, fourth: float, name: str, column: FloatArray) -> _Found:
    order = np.random.default_rng(0).permutation(len(column))
    pairs = len(column) // 2
    mean = float(np.mean((column[order[:pairs]] - column[order[pairs : 2 * pairs]]) ** 2) / 2)
    log_p = log_p_of_spread(noise, divisor, variance, fourth, mean, pairs)

    def power(level: float) -> float:
        # Half of the variance, with a standard error of its own.
        seen = math.sqrt((fourth + 3 * variance**2) / 2 - variance**2) / 2 / math.sqrt(pairs)
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            far = log_p_of_spread(noise, divisor, variance, fourth, middle * variance, pairs) <= math.log(level)
            low, high = (middle, high) if far else (low, middle)
        return float(special.ndtr((low * variance - variance / 2) / seen))

    return _Found("spread", name, mean / variance, log_p, "half of the declared variance in all", power)


def _size(middle: float, reach: float, variance: float, fourth: float, name: str, column: FloatArray) -> _Found:
    n, limit = len(column), reach**2 + variance
    spread = (4 * reach**2 * variance + fourth - variance**2) / n
    mean = float(np.mean((column - middle) ** 2))
    beyond = max(mean - limit, 0.0)
    log_p = math.log(spread / (spread + beyond**2))

    def power(level: float) -> float:
        critical = limit + math.sqrt(spread * (1 / level - 1))
        # True values at the ends, and three times the scale of the noise.
        shown, error = reach**2 + 9 * variance, 9 * math.sqrt(spread)
        return float(special.ndtr((shown - critical) / error))

    return _Found("size", name, mean / limit, log_p, "values at the ends with thrice the noise", power)


def _range(middle: float, reach: float, chance: float, name: str, column: FloatArray) -> _Found:
    n, outside = len(column), int(np.count_nonzero(np.abs(column - middle) > reach))

    def power(level: float) -> float:
        return float(at_most(0, n, chance) <= level)

    log_p = _log(at_most(outside, n, chance))
    return _Found("range", name, outside / n, log_p, "records that are all within the range", power)


def _of_sphere(noise: ZonalNoise, vectors: FloatArray, names: tuple[str, ...]) -> Iterator[_Found]:
    """Yield the probes of vectors that are R times the first coordinates of points of a sphere."""
    size = noise.dimension
    cosines = np.concatenate([np.linspace(-1.0, 1.0, 201), noise.law.rule(size + 1)[0]])
    density = noise.law.density(size + 1, cosines)
    low, high = float(density.min()), float(density.max())
    squares = np.minimum(np.einsum("ij,ij->i", vectors, vectors) / noise.radius**2, 1.0)
    codes = np.minimum(special.betainc(size / 2, 0.5, squares) * _LENGTHS, _LENGTHS - 1).astype(np.int64)
    bounds = np.array([[low / _LENGTHS], [min(1.0, high / _LENGTHS)]]).repeat(_LENGTHS, axis=1)
    (found,) = _frequencies(bounds, codes, ", ".join(names))
    yield replace(found, name="length", sees="no vector among the longest sixteenth")
    if size < 3:
        # The density of one coordinate has no bound at the ends.
        return
    # Uniformly, one coordinate of D has a density of at most sqrt(D/(2 pi)) over R.
    likelier = max(1.0, high * math.sqrt((size + 1) / (2 * math.pi)))
    for name, column in zip(names, vectors.T, strict=True):
        yield rounded(noise.radius / math.sqrt(size + 1), name, column, likelier)
        yield _clipped(name, column, likelier)


def rounded(sigma: float, name: str, column: FloatArray, likelier: float) -> _Found:
    """Return whether all numbers stand on a decimal grid that is coarse beside the scale of their noise."""
    first, last = math.ceil(math.log10(_FINEST * sigma)), math.floor(math.log10(_COARSEST * sigma))
    coarsest = 0.0
    for exponent in range(first, last + 1):
        step = 10.0**exponent
        quotients = column / step
        if np.all(np.abs(quotients - np.rint(quotients)) <= _ON_GRID):
            coarsest = step
    # In each of at most four grids a number has a place with a probability below 1e-4, or as many times likelier.
    on_grid = math.log(max(1, last - first + 1)) + len(column) * math.log(min(1.0, 1e-4 * likelier))

    def power(level: float) -> float:
        return float(on_grid <= math.log(level))

    log_p = on_grid if coarsest else 0.0
    return _Found("rounded", name, coarsest / sigma, log_p, "rounding to a tenth of the scale", power)


def _clipped(name: str, column: FloatArray, likelier: float) -> _Found:
    n = len(column)
    count = int(max((column == column.max()).sum(), (column == column.min()).sum()))
    found = _log_p_of_ties(n, count, likelier)

    def power(level: float) -> float:
        needed = next((k for k in range(2, n) if _log_p_of_ties(n, k, likelier) <= math.log(level)), n)
        return float(at_least(needed, n, 0.05))

    return _Found("clipped", name, count, found, "a twentieth of the records at one end", power)


def _log(chance: float) -> float:
    return math.log(chance) if chance > 0 else -math.inf


def _log_p_of_ties(n: int, count: int, likelier: float = 1.0) -> float:
    if count < 2:
        return 0.0
    choices = special.gammaln(n + 1) - special.gammaln(count + 1) - special.gammaln(n - count + 1)
    return min(0.0, math.log(2) + float(choices) + (count - 1) * math.log(min(1.0, _RESOLUTION * likelier)))


def _standardised(sigma: float, name: str, column: FloatArray, n: int) -> _Found:
    how = scaled_how(column[:, None], 0, float(column.mean()), float(column.min()))
    log_p = log_p_of_scaling(how, sigma, n) if how else 0.0
    return _Found("standardised", name, float(bool(how)), log_p, "a scaler fitted to these records", lambda level: 1.0)


def _frequencies(matrix: FloatArray, codes: Any, name: str) -> Iterator[_Found]:
    n = len(codes)
    counts = np.bincount(codes, minlength=matrix.shape[1])
    least, most = matrix.min(axis=0), matrix.max(axis=0)
    tails = np.minimum(at_most(counts, n, least), at_least(counts, n, most))
    place = int(np.argmin(tails))
    # Two tails of each output.
    log_p = _log(tails[place]) + math.log(2 * len(counts))

    def power(level: float) -> float:
        # The output that is sent most rarely never comes.
        rare = int(np.argmax(least))
        return float(2 * len(counts) * at_most(0, n, least[rare]) <= level)

    yield _Found("frequency", name, counts[place] / n, log_p, "an output that never comes", power)
