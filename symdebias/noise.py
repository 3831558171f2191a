"""Noise as mathematics: additive with a characteristic function, alike in all directions, or a finite channel.

Corrections decide on properties of these, never on the class of a mechanism.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import Interval, is_number, shown
from symdebias.exceptions import NoExactCorrectionError

FREQUENCY = sp.Symbol("frequency", real=True)
VALUE = sp.Symbol("value", real=True)

_VARIANCE = Interval(1e-210, 1e250, "both", "Give the variance of one coordinate; without noise declare none.")
_WIDTH = Interval(1e-140, 1e140, "both", "Give a positive number; change units where needed.")
_PROBABILITY = Interval(0.0, 1.0, "both", "Give each row of the channel's matrix as a probability distribution.")
_VALUE = Interval(-1e100, 1e100, "both", "Give the values of a channel as finite numbers.")

# Of a characteristic function that may be 0, where a wave has no inverse.
NO_WAVES = (
    "is neither one over a polynomial or a finite sum of waves nor a formula of exponentials and the like that is seen "
    "to be positive, and where it is 0 waves are not undone"
)

# Functions that have no value beside the real line which continued theirs.
NOT_ANALYTIC = (sp.Abs, sp.sign, sp.Piecewise, sp.Max, sp.Min, sp.Heaviside)
# Where exponential moments are looked at, over the standard deviation.
_MOMENTS: tuple[float, ...] = tuple(np.geomspace(0.05, 100.0, 160).tolist())

_HUGE = 1e150

# Inputs and outputs of a channel whose matrix is written down: with a thousand of each it takes a second to invert.
MOST_VALUES = 1_000
# Directions of a channel's matrix with a smaller share of the largest singular value are rounding.
_RANK_TOLERANCE = 1e-11
# Inputs that a prior rules out still count, by so much of an even share: what undoes the channel holds for them too.
_LEAST_SHARE = 1e-6


def value_of(expression: sp.Expr, digits: int, values: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """Return an expression at exact numbers to so many digits, however much of it cancels.

    They are not put into it: SymPy looks for the roots of a number that is raised to a power such as that of 0.7, a
    fraction of sixteen digits, and finds no end.
    """
    return expression.evalf(digits, subs=values, maxn=4000)


def _real_part(number: complex) -> float:
    """Return a number that is real but for rounding, else NaN."""
    return number.real if abs(number.imag) <= 1e-6 * abs(number.real) else math.nan


def declared_state(instance: Any) -> dict[str, Any]:
    """Return the fields of a dataclass for a copy or a pickle, without what was computed from them and kept."""
    names = {field.name for field in fields(instance)}
    return {name: value for name, value in vars(instance).items() if name in names}


@dataclass(frozen=True)
class AdditiveNoise:
    """Noise that is symmetric about 0 and added to each coordinate, independently unless a covariance says otherwise.

    Parameters
    ----------
    variance : float
        Its variance per coordinate, positive; the largest where coordinates differ.
    characteristic_function : sympy.Expr
        phi(w) = E exp(i w e) of one coordinate as an expression in `FREQUENCY`, the symbol w. It is real, as the noise
        is symmetric about 0.
    density : sympy.Expr, optional
        Its density in `VALUE`; with a `step` the probability of that value. Corrections do without, and quadrature
        goes by the moments of the noise then: as well for smooth losses.
    step : float, optional
        The noise takes multiples of this only.
    tail_rate : float
        E exp(z abs(e)) is finite for z below this: 1/b for Laplace noise, infinite for normal noise.
    covariance : tuple of tuples of float, optional
        Normal noise on a vector of k coordinates: its covariance, k x k, positive semidefinite. The
        characteristic function is then that of a coordinate of the given variance.

    Raises
    ------
    TypeError
        The characteristic function is not a SymPy expression.
    ValueError
        It has other symbols, is not computed as a number, is not 1 at 0, is that of a mean or another variance, is
        beyond 1 or not real, or exponential moments end before ``tail_rate``.

    Examples
    --------
    >>> laplace = AdditiveNoise(2.0, 1 / (1 + FREQUENCY**2), tail_rate=1.0)
    >>> laplace.is_gaussian
    False
    >>> laplace.inverse_polynomial
    (1.0, 1.0)
    """

    variance: float
    characteristic_function: sp.Expr
    density: sp.Expr | None = None
    step: float | None = None
    tail_rate: float = math.inf
    covariance: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", _VARIANCE.check("variance", self.variance))
        phi = self.characteristic_function
        if not isinstance(phi, sp.Expr):
            raise TypeError(
                f"the characteristic function has the type {type(phi).__name__}. It must be a SymPy "
                "expression in symdebias.noise.FREQUENCY; text is never evaluated."
            )
        if not phi.free_symbols <= {FREQUENCY}:
            other = ", ".join(sorted(symbol.name for symbol in phi.free_symbols - {FREQUENCY}))
            raise ValueError(
                f"the characteristic function has the symbols {other}. It must be an expression in "
                "symdebias.noise.FREQUENCY alone."
            )
        if self.density is not None and (
            not isinstance(self.density, sp.Expr) or not self.density.free_symbols <= {VALUE}
        ):
            raise TypeError("the density must be a SymPy expression in symdebias.noise.VALUE alone.")
        if self.step is not None:
            object.__setattr__(self, "step", _WIDTH.check("step", self.step))
        if self.tail_rate is sp.oo:
            object.__setattr__(self, "tail_rate", math.inf)
        elif not (is_number(self.tail_rate) and self.tail_rate == math.inf):
            object.__setattr__(self, "tail_rate", _WIDTH.check("tail_rate", self.tail_rate))
        if self.covariance is not None and not self.is_gaussian:
            raise ValueError("only normal noise takes a covariance. Declare other columns each under its own noise.")
        self._require_unit_at_zero()
        self._require_curvature()
        self._require_possible()
        end = self._end_of_moments()
        if end is not None:
            raise ValueError(
                f"tail_rate={self.tail_rate!r}, and by the characteristic function {phi} exp(z abs(e)) has no finite "
                f"mean from about z = {end:.4g} on. State that rate: 1/b where the density falls like exp(-abs(e)/b)."
            )

    __getstate__ = declared_state

    def _value(self, frequency: sp.Expr, digits: int) -> sp.Expr:
        """Return the characteristic function at an exact frequency, to so many digits.

        Raises
        ------
        ValueError
            It is no finite number.
        """
        value = value_of(exactly(self.characteristic_function), digits, {FREQUENCY: frequency})
        parts = value.as_real_imag() if value.is_number else ()
        if not parts or not all(part.is_Float or part.is_Rational for part in parts):
            is_near = abs(frequency) * math.sqrt(self.variance) < 1e-6
            near = "near w = 0" if is_near else f"at w = {float(frequency):.4g}"
            raise ValueError(
                f"the characteristic function {self.formula} is no finite number that SymPy finds {near}. It must be "
                "one at all w: write it in functions whose values SymPy knows."
            )
        return value

    @property
    def _step(self) -> sp.Expr:
        """A frequency so near 0 that rare but far noise, whose next moments are large, is in its quadratic part too."""
        return sp.sqrt(sp.Rational(1, 10**240) / sp.Rational(self.variance))

    def _require_unit_at_zero(self) -> None:
        # Next to 0, where sin(a w)/(a w) is no number. Decimal constants may leave it a little from 1.
        start = complex(self._value(self._step / 10**20, 300))
        # One that is steep at 0 has no curvature there, of which more is said.
        if not abs(start - 1) < 1e-12 and self.characteristic_function.subs(FREQUENCY, 0) != 1:
            found = f"{start.real if start.imag == 0 else start:.4g}"
            found = "0" if abs(start) < 1e-30 else "infinite" if abs(start) > 1e30 else found
            raise ValueError(
                f"the characteristic function {self.formula} is {found} at w = 0. It must be 1 there, where it is the "
                "sum of all probabilities: correct it by a factor or in its form."
            )

    def _require_curvature(self) -> None:
        """Raise ValueError where the characteristic function is not 1 - variance w^2/2 near 0."""
        step = self._step
        start = self._value(step / 10**20, 300)
        above, below = (self._value(w, 300) for w in (step, -step))
        # (phi(0) - phi)/(variance w^2/2), where it is 1.
        one, other = (complex(2 * (start - value) * 10**240) for value in (above, below))
        if not abs(one - other.conjugate()) <= 1e-6 * abs(one):
            advice = ""
            if self.characteristic_function.has(sp.jn):
                advice = " SymPy takes jn(n, w) for positive w alone: write sympy.expand_func of it."
            raise ValueError(
                f"the characteristic function {self.formula} is not at -w the conjugate of what it is at w, as that of "
                f"any noise is. Write it in a form that holds for negative w as well.{advice}"
            )
        if abs(one.imag) > 1e-6 * max(1.0, abs(one.real)):
            mean = complex((above - start) / step).imag
            raise ValueError(
                f"the characteristic function {self.formula} is that of noise with the mean {mean:.4g}. It must be 0: "
                "subtract the mean where the noise is drawn."
            )
        if not abs(one.real - 1) < 1e-6:
            raise ValueError(self._of_another_variance(one.real))

    def _of_another_variance(self, ratio: float) -> str:
        """Return what is wrong where the curvature at 0 is so many times that of the variance."""
        nearer = self._value(self._step / 10**10, 300)
        again = float(sp.re(2 * (self._value(self._step / 10**30, 300) - nearer)) * 10**260)
        if not abs(again - ratio) <= 1e-3 * abs(ratio):
            return (
                f"the characteristic function {self.formula} has no finite curvature at w = 0: the noise has no finite "
                "variance, by which corrections go. Use noise that has one."
            )
        if ratio < 0:
            return (
                f"the characteristic function {self.formula} is more than 1 next to w = 0, and that of any noise is at "
                "most 1. Check its signs."
            )
        return (
            f"the characteristic function {self.formula} is that of noise with the variance "
            f"{ratio * self.variance:.6g} by its curvature at w = 0, and variance={self.variance!r} was given. It must "
            "be 1 - variance w^2/2 there: correct one of the two."
        )

    def _require_possible(self) -> None:
        """Raise ValueError where it is beyond 1 or not real, at frequencies of the size of one over the deviation."""
        deviation = math.sqrt(self.variance)
        frequencies = [share / deviation for share in (0.3, 1.0, 1.7, 4.0, 11.0)]
        values = [complex(self._value(sp.Rational(frequency), 20)) for frequency in frequencies]
        for frequency, value in zip(frequencies, values, strict=True):
            if not abs(value) < 1 + 1e-9:
                raise ValueError(
                    f"the characteristic function {self.formula} has the size {abs(value):.4g} at w = {frequency:.4g}, "
                    "and that of any noise is at most 1. Check its form."
                )
        if not all(abs(value.imag) < 1e-9 for value in values):
            raise ValueError(
                f"the characteristic function {self.formula} is not real: the noise is not symmetric about 0, and "
                "noise is undone by its even moments alone. Give it a random sign where it is drawn."
            )

    def _end_of_moments(self) -> float | None:
        """Return about where exponential moments end if that is before the stated rate, else None.

        E exp(z e) = phi(-iz) is 1 at 0 and grows with abs(z), as far as it is finite: beyond the first pole it does
        not. An expression that is no analytic function says nothing of it.
        """
        phi = self.characteristic_function
        if phi.has(*NOT_ANALYTIC) or self.is_gaussian:
            return None
        moment, exact = sp.lambdify(FREQUENCY, phi, modules=["scipy", "numpy"]), exactly(phi)

        def at(z: float) -> float:
            try:
                with np.errstate(all="ignore"):
                    return _real_part(complex(moment(np.complex128(complex(0.0, -z)))))
            except (NameError, TypeError):
                return math.nan  # SciPy has no such function, or has it for real numbers alone: SymPy is asked.

        def surely_at(z: float) -> float:
            # An expression may be a difference of nearly equal numbers.
            found = value_of(exact, 30, {FREQUENCY: -sp.I * sp.Rational(z)})
            return _real_part(complex(found)) if found.is_number and found.is_finite else math.nan

        deviation = math.sqrt(self.variance)
        last, reached = 1.0, 0.0
        for multiple in _MOMENTS:
            z = min(multiple / deviation, (1 - 1e-6) * self.tail_rate)
            there = at(z)
            if not there >= last and last < _HUGE:
                there, last = surely_at(z), surely_at(reached) if reached else 1.0
            if there >= last:
                if math.isinf(there) or z < multiple / deviation:
                    return None
                last, reached = there, z
                continue
            if last >= _HUGE:
                return None  # Near the end of the range of float64.
            for _ in range(60):
                middle = (reached + z) / 2
                if last <= (found := surely_at(middle)) < math.inf and surely_at(middle * (1 + 1e-9)) >= found:
                    reached, last = middle, found
                else:
                    z = middle
            return z
        return None

    @cached_property
    def formula(self) -> str:
        """The characteristic function in a message: of w, to four digits, as its constants may be long fractions."""
        phi = self.characteristic_function
        short = {one: sp.Float(one, 4) for one in phi.atoms(sp.Rational, sp.Float) if len(str(one)) > 4}
        return str(phi.xreplace({**short, FREQUENCY: sp.Symbol("w", real=True)}))

    @cached_property
    def is_gaussian(self) -> bool:
        """Whether the logarithm of the characteristic function is -variance w^2/2."""
        exponent = sp.expand(sp.expand_log(sp.log(self.characteristic_function), force=True))
        if not exponent.is_polynomial(FREQUENCY):
            return False
        powers = sp.Poly(exponent, FREQUENCY).as_dict()
        wanted = -self.variance / 2
        # Decimal constants in the expression carry the rounding of float64.
        return set(powers) == {(2,)} and bool(abs(powers[(2,)] - wanted) <= 1e-14 * abs(wanted))

    @cached_property
    def inverse_polynomial(self) -> tuple[float, ...] | None:
        """The coefficients c_k of 1/phi(w) = sum_k c_k w^(2k), or None where it is no polynomial.

        Then the inverse of the noise is the finite operator sum_k c_k (-d^2)^k.
        """
        inverse = 1 / self.characteristic_function
        if not inverse.is_polynomial(FREQUENCY):
            return None
        powers = sp.Poly(inverse, FREQUENCY).as_dict()
        if any(power % 2 for (power,) in powers):
            return None
        return tuple(float(powers.get((2 * k,), 0)) for k in range(max(powers)[0] // 2 + 1))

    @cached_property
    def inverse_differences(self) -> tuple[tuple[float, float], ...] | None:
        """Pairs (offset, weight) with 1/phi(w) = sum weight exp(i offset w), or None.

        Then the inverse of the noise is the finite difference f -> sum weight f(. + offset), which needs no
        smoothness of f.
        """
        inverse = sp.expand((1 / self.characteristic_function).rewrite(sp.exp))
        weights: dict[float, float] = {}
        for term in sp.Add.make_args(inverse):
            coefficient, rest = term.as_independent(FREQUENCY, as_Add=False)
            frequency = sp.log(rest).expand(force=True) / (sp.I * FREQUENCY) if rest != 1 else sp.Integer(0)
            frequency = sp.expand(frequency)
            if not (coefficient.is_real and frequency.is_number and frequency.is_real):
                return None
            offset = float(frequency)
            weights[offset] = weights.get(offset, 0.0) + float(coefficient)
        return tuple(sorted(weights.items()))

    @cached_property
    def undoes_waves(self) -> bool:
        """Whether each wave has an inverse, a multiple of it: the characteristic function is nowhere 0.

        One over a polynomial or over a finite sum of waves is nowhere 0. Of others it is so where SymPy's rules for
        sums, products and functions of positive numbers say that they are positive.
        """
        if self.inverse_polynomial is not None or self.inverse_differences is not None:
            return True
        # Even, as the noise is symmetric, and 1 at 0.
        phi = exactly(self.characteristic_function).xreplace({FREQUENCY: sp.Dummy(positive=True)})
        return phi.is_positive is True

    def inverse_factor(self, argument: sp.Expr) -> sp.Expr:
        """Return 1/E exp(z e), the factor by which the inverse of the noise multiplies exp(z x).

        Parameters
        ----------
        argument : sympy.Expr
            z, real or complex.
        """
        return (1 / self.characteristic_function).xreplace({FREQUENCY: -sp.I * argument})

    def inverse_taylor(self, order: int) -> tuple[float, ...]:
        """Return the coefficients of 1/E exp(z e) in powers of z up to an order: what polynomials need."""
        return _inverse_taylor(self.characteristic_function, order)

    def coordinate_variances(self, width: int) -> tuple[float, ...]:
        """Return the variance of each of so many coordinates."""
        if self.covariance is None:
            return (self.variance,) * width
        return tuple(row[index] for index, row in enumerate(self.covariance))


def noise_of_family(
    variance: float, characteristic_function: sp.Expr, density: sp.Expr, *, tail_rate: float = math.inf
) -> AdditiveNoise:
    """Return noise of a family whose formulas belong together at every scale: this one is not looked at.

    Looking takes most of the time that it takes to make noise, and a plan makes hundreds.
    """
    made = object.__new__(AdditiveNoise)
    vars(made).update(
        variance=_VARIANCE.check("variance", variance),
        characteristic_function=characteristic_function,
        density=density,
        step=None,
        tail_rate=tail_rate if tail_rate == math.inf else _WIDTH.check("tail_rate", tail_rate),
        covariance=None,
    )
    return made


@lru_cache(maxsize=256)
def _inverse_taylor(characteristic_function: sp.Expr, order: int) -> tuple[float, ...]:
    # Columns are often noised alike, and the series of a staircase takes a third of a second.
    z = sp.Dummy("z", real=True)
    series = sp.series(1 / exactly(characteristic_function).xreplace({FREQUENCY: z}), z, 0, order + 1).removeO()
    # The factor of z^k is i^-k times that of w^k, and odd ones vanish for symmetric noise.
    return tuple(float(sp.re(series.coeff(z, k) * (-sp.I) ** k)) for k in range(order + 1))


def symmetric_root(covariance: FloatArray) -> FloatArray:
    """Return R with R R' a covariance: units times the symmetric root of the correlations, the same in all units."""
    variances = np.diag(covariance)
    units = np.sqrt(np.where(variances > 0, variances, 1.0))
    sizes, vectors = np.linalg.eigh(covariance / np.multiply.outer(units, units))
    return np.asarray(units[:, None] * (vectors * np.sqrt(np.maximum(sizes, 0.0))) @ vectors.T)


def exactly(expression: sp.Expr) -> sp.Expr:
    """Return an expression with its decimal numbers as the fractions that they are."""
    return expression.xreplace({number: sp.Rational(number) for number in expression.atoms(sp.Float)})


class SphericalNoise(ABC):
    """Noise on the vector of a group of columns that is alike in all directions.

    A function of one score u = theta'x of the vector is then corrected in u and s = theta'D theta alone, whatever
    direction theta has, D = weight I. That is what corrections decide on: the inverse of the noise on powers of the
    score, as a finite operator, and on exponentials and waves, as far as the noise has them.

    Attributes
    ----------
    dimension : int
        The number of coordinates of the vector.

    Examples
    --------
    >>> import symdebias as sd
    >>> noise = sd.SphericalLaplaceMechanism(2.0, 1.0).noise_on(3)
    >>> isinstance(noise, SphericalNoise), noise.dimension, noise.variance
    (True, 3, 4.0)
    """

    dimension: int

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of one coordinate; coordinates are uncorrelated and not independent."""

    @property
    def weight(self) -> float:
        """The weight of a coordinate in s: its variance where noise is added."""
        return self.variance

    @property
    @abstractmethod
    def ambient(self) -> int:
        """The dimension that the noise is drawn in, of whose coordinates the first `dimension` are kept."""

    @property
    def tail_rate(self) -> float:
        """E exp(z e) of the noise e of the score is finite for z sqrt(s) below this."""
        return math.inf

    @abstractmethod
    def monomial(self, power: int) -> tuple[sp.Expr, ...]:
        """Return e_0, ..., e_j: the inverse of the noise takes u^j to sum_i e_i s^((j - i)/2) u^i."""

    @property
    def shape(self) -> float:
        """Nu where 1/phi of a score's noise is (1 + s w^2/(2 nu))^nu, infinite for others: what a wave is priced by."""
        return math.inf

    @property
    def radial_scale(self) -> float | None:
        """The scale b of a density proportional to exp(-||v||/b) in the ambient dimension, or None for others."""
        return None

    @property
    def operator(self) -> tuple[sp.Expr, ...] | None:
        """Return c_0, c_1, ... where the inverse is the finite operator sum_k c_k s^k d^(2k), or None."""
        return None

    def factor(self, square: sp.Expr) -> sp.Expr | None:
        """Return by what the inverse multiplies exp(z u), or None where it does more.

        Parameters
        ----------
        square : sympy.Expr
            s z^2, negative for waves.
        """
        return None

    @abstractmethod
    def radii(self, nodes: int) -> tuple[FloatArray, FloatArray]:
        """Return points and weights of the norm of the noise in its ambient dimension."""

    def coordinate_variances(self, width: int) -> tuple[float, ...]:
        """Return the variance of each of so many coordinates."""
        return (self.variance,) * width


@dataclass(frozen=True)
class CoordinateNoise:
    """Noise of a target that is one coordinate of a vector with `SphericalNoise`, of which features are the others.

    It has mean 0 and is uncorrelated with that of the features, and is not independent of it: what undoes the noise of
    the vector in a residual undoes this with it, and nothing else does.

    Attributes
    ----------
    variance : float
        Its variance.

    Examples
    --------
    >>> CoordinateNoise(0.25).variance
    0.25
    """

    variance: float

    @property
    def refusal(self) -> str:
        """Why it is not undone by itself, and what to do."""
        return (
            "the noise of this target is a coordinate of that of a vector of features and target, which is undone in "
            "residuals alone. Ask the release of the vector."
        )


@dataclass(frozen=True)
class ClippedNoise:
    """Additive noise whose sum with the value is clipped: it has no inverse here, and only a target may have it.

    Parameters
    ----------
    noise : AdditiveNoise
        The noise.
    low, high : float
        The interval that the sum is clipped to, low < high.

    Raises
    ------
    TypeError, ValueError
        It is no additive noise, or the ends are not finite numbers in order.

    Examples
    --------
    >>> ClippedNoise(AdditiveNoise(2.0, 1 / (1 + FREQUENCY**2), tail_rate=1.0), 0, 1).high
    1.0
    """

    noise: AdditiveNoise
    low: float
    high: float

    def __post_init__(self) -> None:
        if not isinstance(self.noise, AdditiveNoise):
            raise TypeError(f"the noise has the type {type(self.noise).__name__}. It must be AdditiveNoise: give that.")
        for name in ("low", "high"):
            object.__setattr__(self, name, _VALUE.check(name, getattr(self, name)))
        if not self.low < self.high:
            raise ValueError(
                f"low={self.low!r} and high={self.high!r} are not in order. The first must be below the second: "
                "exchange them, or give a wider interval."
            )

    @property
    def refusal(self) -> str:
        """Why nothing is corrected under this noise, and what to do."""
        return (
            f"the released target is clipped to [{self.low:g}, {self.high:g}] after its noise, so that its mean is not "
            "the true target: clipping destroyed unbiasedness, and there is no correction. Release it without "
            'clipping, which costs no privacy. method="none" trains on it as it is, with that bias.'
        )


@dataclass(frozen=True)
class ChannelNoise:
    """A value out of a finite set is replaced by a random one.

    A function h of the output is unbiased for g of the input where M h = g, M the row-stochastic matrix. It exists
    where g is in the range of M; of all solutions the one of least variance under a prior p is
    h = R^-1 M' (M R^-1 M')^+ g, R = diag(M'p). Elsewhere the nearest function in the range takes the place of g.

    Parameters
    ----------
    inputs, outputs : sequence of float
        The values that go in and come out, distinct and finite.
    matrix : sequence of sequences of float
        ``matrix[i][j]`` is the probability of output j given input i; rows sum to 1 within 1e-12.
    prior : sequence of float, optional
        How likely the inputs are, by a design of the channel: what inverses are best for. Zeros are allowed.

    Raises
    ------
    TypeError, ValueError
        The matrix has another shape, a row is no distribution, or values repeat.

    References
    ----------
    van Rooyen & Williamson 2018, Section 4; Badanidiyuru et al. 2023 (arXiv 2312.05659).

    Examples
    --------
    >>> coin = ChannelNoise((0, 1), (0, 1), ((0.75, 0.25), (0.25, 0.75)))
    >>> coin.rank, coin.weights.round(12).tolist()
    (2, [[1.5, -0.5], [-0.5, 1.5]])
    """

    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...]
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            values = _listed(getattr(self, name), name)
            if len(values) > MOST_VALUES:
                raise ValueError(
                    f"a channel has {len(values):,} {name}. It may have {MOST_VALUES:,}, as its matrix is written down "
                    "and inverted: merge values, or use RandomizedResponse, which needs no matrix."
                )
            checked = tuple(_VALUE.check(f"{name}[{index}]", value) for index, value in enumerate(values))
            if not checked or len(set(checked)) < len(checked):
                raise ValueError(f"the {name} of a channel must be distinct; got {values}. List each value once.")
            object.__setattr__(self, name, checked)
        rows = [_listed(row, f"matrix[{index}]") for index, row in enumerate(_listed(self.matrix, "matrix"))]
        if len(rows) != len(self.inputs) or any(len(row) != len(self.outputs) for row in rows):
            raise ValueError(
                f"the matrix has rows of the lengths {[len(row) for row in rows]}. A channel of "
                f"{len(self.inputs)} "
                f"inputs and {len(self.outputs)} outputs needs one row per input and one column per output."
            )
        matrix = tuple(_probabilities(row, f"matrix[{index}]") for index, row in enumerate(rows))
        for index, row in enumerate(matrix):
            if not abs(sum(row) - 1) <= 1e-12:
                raise ValueError(
                    f"row {index} of the matrix sums to {sum(row)!r}. It must sum to 1 within 1e-12: give "
                    "each row as a probability distribution."
                )
        object.__setattr__(self, "matrix", matrix)
        if self.prior is not None:
            object.__setattr__(self, "prior", tuple(checked_prior(self.prior, len(self.inputs)).tolist()))

    __getstate__ = declared_state

    @cached_property
    def keeps_means(self) -> bool:
        """Whether the outputs have the inputs as means: to 1e-12 of their range, or the rounding of the outputs."""
        allowed = max(1e-12 * (max(self.inputs) - min(self.inputs)), 2.0**-51 * max(map(abs, self.outputs)))
        means = (math.fsum(p * t for p, t in zip(row, self.outputs, strict=True)) for row in self.matrix)
        return all(abs(mean - value) <= allowed for mean, value in zip(means, self.inputs, strict=True))

    @property
    def weights(self) -> FloatArray:
        """What undoes the channel, shape (m, k): ``weights @ g`` is the unbiased estimate of g(input), by output.

        Its variance is the least under the prior, uniform where there is none. Where g has no unbiased estimate, its
        mean is the function in the range of the matrix that is nearest to g in mean square under the prior.
        """
        return self._inverse[0]

    @property
    def obstacles(self) -> FloatArray:
        """Vectors v with v'M = 0, shape (k - rank, k): g has an unbiased estimate where v'g = 0 for all of them."""
        return self._inverse[1]

    @property
    def rank(self) -> int:
        """The rank of the matrix; of k inputs, fewer than k cannot all be told apart."""
        return len(self.inputs) - len(self.obstacles)

    def exact_weights(self, of: str) -> FloatArray:
        """Return the weights of a channel that undo it for every function of the input.

        Parameters
        ----------
        of : str
            Whose channel it is, for the message.

        Raises
        ------
        NoExactCorrectionError
            The rank is below the number of inputs.
        """
        if len(self.obstacles):
            raise NoExactCorrectionError(
                f"the channel of {of} has the rank {self.rank} for {len(self.inputs)} categories: they cannot be told "
                "apart, and no function of the released one is unbiased. Use a channel of full rank, or merge "
                "categories."
            )
        return self.weights

    @cached_property
    def _inverse(self) -> tuple[FloatArray, FloatArray]:
        matrix = np.array(self.matrix)
        inputs, outputs = matrix.shape
        share = np.full(inputs, 1 / inputs)
        if self.prior is not None:
            share = np.maximum(np.array(self.prior), _LEAST_SHARE / inputs)
        left, sizes, _ = np.linalg.svd(matrix)
        rank = int(np.sum(sizes > _RANK_TOLERANCE * sizes[0]))
        obstacles = left[:, rank:].T
        if rank == inputs == outputs:
            weights = np.linalg.inv(matrix)
        else:
            # The equations within the range, whose rank is full by construction: no second decision on small numbers.
            basis = left[:, :rank]
            nearest = np.linalg.solve(basis.T @ (share[:, None] * basis), basis.T * share)
            chance = share @ matrix
            used = chance > 0
            root = np.sqrt(chance[used])
            weights = np.zeros((outputs, inputs))
            weights[used] = np.linalg.pinv(basis.T @ matrix[:, used] / root, rcond=0.0) / root[:, None] @ nearest
        weights.flags.writeable = obstacles.flags.writeable = False
        return weights, obstacles


class SymmetricChannel(ChannelNoise):
    """A channel that keeps a value with one probability, and sends each other one with the same.

    Its inverse is closed: with the probabilities q of keeping and r of each other value, M = r 11' + (q - r) I, and
    M^-1 = (I - r 11')/(q - r), as q + (k - 1) r = 1. Nothing of k^2 numbers is made before it is asked for.

    Parameters
    ----------
    values : sequence of float
        The k values that go in and come out, at least two, distinct and finite.
    keep : float
        q, in [0, 1] and not 1/k, at which the rank is 1.

    Raises
    ------
    TypeError, ValueError
        Values repeat, or the probability is out of range.

    References
    ----------
    Warner 1965; Kairouz, Oh & Viswanath 2014, Section 3.1.

    Examples
    --------
    >>> coin = SymmetricChannel((0, 1), keep=0.75)
    >>> coin.rank, coin.weights.round(12).tolist()
    (2, [[1.5, -0.5], [-0.5, 1.5]])
    """

    keep: float

    def __init__(self, values: Sequence[float], *, keep: float) -> None:
        listed = _listed(values, "values")
        checked = tuple(_VALUE.check(f"values[{index}]", value) for index, value in enumerate(listed))
        if len(checked) < 2 or len(set(checked)) < len(checked):
            raise ValueError("the values of a channel must be two or more and distinct. List each value once.")
        keep = _PROBABILITY.check("keep", keep)
        if keep == (1 - keep) / (len(checked) - 1):
            raise ValueError(
                f"keep={keep!r} sends every value with the same probability, which says nothing of the one that went "
                "in. Give another probability of keeping."
            )
        for name, value in (("inputs", checked), ("outputs", checked), ("prior", None), ("keep", keep)):
            object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("inputs", "outputs", "prior", "keep")}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SymmetricChannel):
            return NotImplemented
        return (self.inputs, self.keep) == (other.inputs, other.keep)

    def __hash__(self) -> int:
        return hash((self.inputs, self.keep))

    @property
    def _change(self) -> float:
        """The probability of each other value."""
        return (1 - self.keep) / (len(self.inputs) - 1)

    @cached_property
    def matrix(self) -> tuple[tuple[float, ...], ...]:
        """The row-stochastic matrix."""
        k = len(self.inputs)
        return tuple(tuple(self.keep if i == j else self._change for j in range(k)) for i in range(k))

    @property
    def keeps_means(self) -> bool:
        """Whether the outputs have the inputs as means: where nothing is changed."""
        return self.keep == 1

    @cached_property
    def _inverse(self) -> tuple[FloatArray, FloatArray]:
        k = len(self.inputs)
        gap = self.keep - self._change
        weights = np.full((k, k), -self._change / gap)
        np.fill_diagonal(weights, (1 - self._change) / gap)
        obstacles = np.zeros((0, k))
        weights.flags.writeable = obstacles.flags.writeable = False
        return weights, obstacles


def checked_prior(prior: Any, labels: int) -> FloatArray:
    """Return the probabilities of labels, checked, as an array.

    Parameters
    ----------
    prior : array of shape (k,)
        Probabilities; zeros are allowed.
    labels : int
        The number k of labels.

    Raises
    ------
    TypeError, ValueError
        It has another length, a negative or non-finite entry, or does not sum to 1 within 1e-9.
    """
    try:
        array = np.array(prior, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"prior has the type {type(prior).__name__}. It must be an array of numbers.") from None
    if array.shape != (labels,):
        raise ValueError(
            f"prior has the shape {array.shape}. It must give one probability per label, shape ({labels},)."
        )
    if not (np.isfinite(array).all() and (array >= 0).all()):
        place = int(np.argmin(np.isfinite(array) & (array >= 0)))
        raise ValueError(f"prior[{place}]={shown(array[place])} is no probability. Each must be in [0, 1].")
    if not abs(array.sum() - 1) <= 1e-9:
        raise ValueError(f"prior sums to {array.sum():.10g}. It must sum to 1: divide it by its sum.")
    return array


def _probabilities(row: tuple[Any, ...], name: str) -> tuple[float, ...]:
    """Return a row of probabilities as floats, each checked."""
    if set(map(type, row)) == {float} and 0 <= min(row) and max(row) <= 1 and not any(map(math.isnan, row)):
        return row
    return tuple(_PROBABILITY.check(f"{name}[{index}]", entry) for index, entry in enumerate(row))


def _listed(values: Any, name: str) -> tuple[Any, ...]:
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        of_table = " Pass those of a table in the declared order, by to_numpy()." if hasattr(values, "to_numpy") else ""
        raise TypeError(f"{name} has the type {type(values).__name__}. It must be a sequence of numbers.{of_table}")
    return tuple(values)
