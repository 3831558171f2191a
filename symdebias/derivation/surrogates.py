"""Losses without an exact correction: their parts, and the correction of the surrogates that stand for these.

A loss that is linear in what is known of the target, F(u) = sum_m M_m f_m(u), has parts f_m with multipliers M_m: 1
and an estimate of a label, 1 and the target, or a looked-up weight for each class. A residual loss has one part, in
u - y. Each part is replaced by a surrogate (`symdebias.transforms.surrogate`), whose correction under any mix of
noises is a factor for each wave.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from scipy.optimize import brentq

from symdebias import _limits
from symdebias._arrays import FloatArray
from symdebias.bounds.enclosures import Largest, enclosed, largest
from symdebias.bounds.intervals import Range
from symdebias.codegen import stable
from symdebias.codegen.functions import LOW_POWER
from symdebias.codegen.numeric import numeric
from symdebias.derivation.configurations import sum_over_configurations
from symdebias.derivation.labels import Labelled, is_affine, label_by_label, label_noise_undone
from symdebias.derivation.problem import Build, ScoreProblem, finish
from symdebias.derivation.symbols import Derivation, NoiseSymbols, free_symbol
from symdebias.derivation.universal import Factor, column_factors, group_factor, normal_factor
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import AdditiveNoise, ChannelNoise, CoordinateNoise
from symdebias.release import Release
from symdebias.transforms import ExponentialSum, inverse_heat, polynomial, surrogate, waves
from symdebias.transforms.channel import rational
from symdebias.transforms.exponential import Mode
from symdebias.transforms.moments import ARGUMENT, inverse_moments, no_factor_of_waves
from symdebias.zonal import ZonalNoise

# How losses are taken apart, as a number: another one where surrogates of before would stand for other functions. Until
# the second, losses of two labels were taken apart about 0.
TAKEN_APART = 2

# Where parts are looked at to see whether they are even, odd, or vanish, in their units.
_PROBES = np.linspace(0.05, 7.9, 64)
# How many standard deviations of scores a range is taken to reach that says nothing of them.
_SPREADS = 5.0
# Residuals among which the width of a loss is looked for, and the width of the Huber loss whose unit is 1.
_RESIDUALS, _USUAL_WIDTH = np.logspace(15, -15, 241), 2.69


@dataclass(frozen=True)
class SurrogatePart:
    """A part of a loss."""

    multiplier: sp.Expr  # What it is multiplied with: of the target, the gain and looked-up weights.
    function: sp.Expr  # The function that a surrogate stands for; 0 where there is none.
    exact: sp.Expr  # A polynomial beside it, which needs no surrogate.
    numbers: surrogate.Part  # The function as numbers.


@dataclass(frozen=True)
class SurrogateParts:
    """A loss taken apart."""

    variable: sp.Symbol  # What the parts are functions of.
    argument: sp.Expr  # What stands for it: the score, or the residual u - y.
    labelled: Labelled  # The loss with its label noise undone.
    target_noise: AdditiveNoise | CoordinateNoise | None  # The noise of the target where it is part of the argument.
    parts: tuple[SurrogatePart, ...]
    target: sp.Symbol
    classes: tuple[float, ...] | None = None  # The values of the target whose weights are looked up.
    # Of a residual loss: the unit of the target in which it bends as the Huber loss with the threshold 1.345 does. None
    # for a loss whose shape is the same in all units.
    width: float | None = None

    @property
    def replaced(self) -> tuple[SurrogatePart, ...]:
        """The parts that have a surrogate."""
        return tuple(part for part in self.parts if part.function != 0)

    @property
    def is_residual(self) -> bool:
        """Whether they are functions of the residual."""
        return bool(self.variable != self.argument)

    def unit(self, mean_square: float) -> float:
        """Return the unit of scores in which surrogates are designed: 1, or that of the target for a residual loss.

        Waves are as fast as a loss needs that bends within a unit or so. A residual loss bends where its target is
        measured: within its own width, or, where it has none, within the size of the residuals.

        Parameters
        ----------
        mean_square : float
            That of true scores (residuals).
        """
        if not self.is_residual:
            return 1.0
        if self.width is not None:
            return self.width
        return math.sqrt(mean_square) if mean_square > 0 else 1.0

    def unit_within(self, radius: float) -> float:
        """Return the unit of scores of which a range alone is known.

        Parameters
        ----------
        radius : float
            Scores (residuals) are at most so large.
        """
        return self.unit((radius / _SPREADS) ** 2)

    def in_units(self, unit: float) -> "SurrogateParts":
        """Return the parts as functions of scores that are measured in a unit.

        Parameters
        ----------
        unit : float
            Positive.
        """
        if unit == 1:
            return self
        return replace(
            self, parts=tuple(replace(part, numbers=part.numbers.in_units(unit)) for part in self.parts), width=1.0
        )

    def multipliers(self, targets: FloatArray) -> list[FloatArray]:
        """Return what true targets multiply the parts that have a surrogate with."""
        found = []
        for part in self.replaced:
            known: dict[sp.Symbol, Any] = {self.target: targets}
            # Without label noise the gain is 1, the estimate of a label the label, and the weight of a class 0 or 1.
            known |= dict.fromkeys(part.multiplier.free_symbols - {self.target, *self.labelled.symbols}, 1.0)
            for place, symbol in enumerate(self.labelled.symbols):
                known[symbol] = targets if self.classes is None else 1.0 * (targets == self.classes[place])
            names = tuple(symbol for symbol in known if symbol in part.multiplier.free_symbols)
            value = numeric(part.multiplier, names)(*(known[name] for name in names)) if names else part.multiplier
            found.append(np.broadcast_to(np.asarray(value, dtype=float), targets.shape))
        return found

    def errors(
        self, design: surrogate.Design, scores: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the surrogate loss less the loss, and its slope less the slope, at true scores and targets."""
        at = scores - targets if self.is_residual else scores
        value, slope = np.zeros(len(at)), np.zeros(len(at))
        for part, found, multiplier in zip(self.replaced, design.surrogates, self.multipliers(targets), strict=True):
            value = value + multiplier * (found.value(at) - part.numbers.value(at))
            slope = slope + multiplier * (found.slope(at) - part.numbers.slope(at))
        return value, slope

    def slope_errors(
        self, surrogates: Sequence[surrogate.Surrogate], scores: FloatArray, targets: FloatArray
    ) -> FloatArray:
        """Return the slope of surrogates less that of the loss, at true scores and targets."""
        at = scores - targets if self.is_residual else scores
        slope = np.zeros(len(at))
        for part, found, multiplier in zip(self.replaced, surrogates, self.multipliers(targets), strict=True):
            slope = slope + multiplier * (found.slope(at) - part.numbers.slope(at))
        return slope

    def worst_errors(self, design: surrogate.Design, bound: float, targets: Sequence[float]) -> tuple[float, float]:
        """Return the largest errors of loss and slope for scores (residuals) within a bound; see `largest_errors`."""
        found = self.largest_errors(design, bound, targets)
        return found.value, found.slope

    def largest_errors(self, design: surrogate.Design, bound: float, targets: Sequence[float]) -> Largest:
        """Return bounds on the errors of loss and slope for scores (residuals) abs(u) <= bound.

        The errors are affine in a continuous target, so that its two bounds are enough. They are at most a part in a
        thousand above what is taken, with `proved`; or the largest errors that were found, where a part of the loss has
        no interval arithmetic or a jump.
        """
        if not self.replaced:
            # Polynomials stand as they are.
            return Largest(0.0, 0.0, proved=True)
        rows = np.array(self.multipliers(np.array(targets, dtype=float))).T
        found = [self._largest(design, bound, row) for row in self._unlike(rows)]
        return Largest(
            max(one.value for one in found),
            max(one.slope for one in found),
            all(one.proved for one in found),
        )

    def _unlike(self, rows: FloatArray) -> list[tuple[float, ...]]:
        """Return multipliers without those whose errors are the mirror image of others'."""
        odd = np.array([-1.0 if not part.numbers.even else 1.0 for part in self.replaced])
        alike = all(part.numbers.even != part.numbers.odd for part in self.replaced)
        # Between two others a row's errors are their mean, and no larger than the larger.
        first = rows[np.argmax(np.linalg.norm(rows - rows[0], axis=1))]
        last = rows[np.argmax(np.linalg.norm(rows - first, axis=1))]
        shares = (rows - first) @ (last - first) / max(float((last - first) @ (last - first)), 1e-300)
        if np.allclose(rows, first + np.multiply.outer(shares, last - first), rtol=1e-14, atol=0.0):
            rows = np.array([first, last])
        kept: dict[tuple[float, ...], None] = {}
        for row in rows:
            # An error and its negative are of the same size, and so are those at u and -u of even and odd parts.
            images = [row, -row, *((odd * row, -odd * row) if alike else ())]
            if not any(tuple(image.tolist()) in kept for image in images):
                kept[tuple(row.tolist())] = None
        return list(kept)

    def _largest(self, design: surrogate.Design, bound: float, multipliers: tuple[float, ...]) -> Largest:
        whole = surrogate.combined(design.surrogates, multipliers)

        def at(u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            value, slope = whole.value(u), whole.slope(u)
            size = whole.size(bound) * np.ones(len(u))
            for part, multiplier in zip(self.replaced, multipliers, strict=True):
                own = multiplier * part.numbers.value(u), multiplier * part.numbers.slope(u)
                value, slope, size = value - own[0], slope - own[1], size + np.abs(own[0]) + np.abs(own[1])
            return value, slope, surrogate.ROUNDING * size

        terms = [sp.Rational(m) * part.function for m, part in zip(multipliers, self.replaced, strict=True)]
        function = enclosed(sp.expand(sp.Add(*terms), deep=False), self.variable)
        if function is None or function.jumps(lambda u: at(u)[0], -bound, bound):
            return largest(at, None, -bound, bound)

        def ranges(cells: Range) -> tuple[Range, Range]:
            slopes, curvatures = whole.ranges(cells.low, cells.high)
            return (
                Range(*slopes) - function.slopes(cells),
                Range(*curvatures) - function.curvatures(cells),
            )

        return largest(at, ranges, -bound, bound)

    def design(
        self,
        *,
        radius: float,
        score_variance: float,
        records: float,
        zonal: ZonalNoise | None = None,
        waves_of_each: int | None = None,
    ) -> surrogate.Design:
        """Return surrogates for the parts that need one; see `symdebias.transforms.waves.design`.

        Parameters
        ----------
        radius, score_variance, records
            As there.
        zonal : ZonalNoise, optional
            The noise of the vector that the score is one of; see `symdebias.transforms.polynomial.design`.
        waves_of_each : int, optional
            The number of waves, as there.
        """
        extra = 0.0 if self.target_noise is None else self.target_noise.variance
        if zonal is not None:
            numbers = [part.numbers for part in self.replaced]
            return polynomial.design(
                numbers, zonal, radius=radius, score_variance=score_variance + extra, records=records
            )
        unit = self.unit_within(radius)
        return waves.design(
            [part.numbers for part in self.in_units(unit).replaced],
            radius=radius / unit,
            score_variance=(score_variance + extra) / unit**2,
            records=records,
            waves=waves_of_each,
        ).from_units(unit)


@functools.lru_cache(maxsize=256)
def parts_of(loss: Loss, release: Release, symbols: NoiseSymbols) -> SurrogateParts:
    """Take a loss of one score apart; the release says the noise of the target.

    Raises
    ------
    NoExactCorrectionError
        It has several scores or none, or is neither linear in the target nor a function of the residual.
    """
    if len(loss.scores) != 1:
        kind = "in several scores" if loss.scores else "in features by name"
        raise NoExactCorrectionError(f"surrogates are functions of one score, and the loss is {kind}.")
    score, target = loss.scores[0], loss.target
    expression = stable.rewrite(loss.expression)
    if loss.target_values is None and not is_affine(expression, target):
        residual = free_symbol("e", expression, real=True)
        written = _limits.expand(expression.xreplace({target: score - residual}))
        if score in written.free_symbols:
            # An expression with a kink does not expand; at a score of 0 it is the function of the residual.
            written = expression.xreplace({target: -residual, score: sp.Integer(0)})
            _require_residual(loss, written, residual)
        noise = release.target_noise
        assert not isinstance(noise, ChannelNoise)
        labelled = Labelled(expression, variance=noise.variance if isinstance(noise, AdditiveNoise) else 0.0)
        width = _width(written, residual)
        part = _part(written, residual, sp.Integer(1), 1.0, is_residual=True, width=width)
        return SurrogateParts(residual, score - target, labelled, noise, (part,), target, width=width)
    labelled = label_by_label(loss, label_noise_undone(loss, release, symbols, rewrite=True))
    pairs = _multiplied(loss, release, labelled, symbols)
    parts = tuple(_part(function, score, multiplier, inflation) for multiplier, function, inflation in pairs)
    kept = tuple(part for part in parts if part.function + part.exact != 0)
    if all(part.function == 0 for part in kept):
        raise NoExactCorrectionError(
            f"{loss.expression} is a polynomial of the score, which a surrogate leaves as it is."
        )
    classes = loss.target_values[1:] if loss.target_values is not None and labelled.by_class else None
    return SurrogateParts(score, score, labelled, None, kept, target, classes)


def _require_residual(loss: Loss, written: sp.Expr, residual: sp.Symbol) -> None:
    whole = numeric(loss.expression, (loss.scores[0], loss.target))
    alone = numeric(written, (residual,))
    u, y = np.meshgrid(np.linspace(-3.1, 3.3, 23), np.linspace(-2.7, 2.9, 19))
    if not np.allclose(whole(u, y), alone(u - y), rtol=1e-9, atol=1e-9):
        raise NoExactCorrectionError(
            f"{loss.expression} is neither affine in the target nor a function of the residual {loss.scores[0]} - "
            f"{loss.target}. Declare target_values if the target has few, or write a loss of one of these forms."
        )


def _multiplied(
    loss: Loss, release: Release, labelled: Labelled, symbols: NoiseSymbols
) -> list[tuple[sp.Expr, sp.Expr, float]]:
    """Return (multiplier, function, inflation) for a loss that is linear in what is known of the target."""
    expression = labelled.expression
    known = [symbol for symbol in (*labelled.symbols, loss.target) if symbol in expression.free_symbols]
    zero = expression.xreplace(dict.fromkeys(known, sp.Integer(0)))
    pairs: list[tuple[sp.Expr, sp.Expr]] = []
    if labelled.by_class and len(labelled.symbols) == len(known) and len(known) > 1:
        pairs.append((1 - sp.Add(*known), zero))
        for symbol in known:
            others = {other: sp.Integer(int(other == symbol)) for other in known}
            pairs.append((symbol, expression.xreplace(others)))
    elif len(known) > 1:
        # An estimate of the label, and one of a part of the loss without parameters.
        pairs.append((sp.Integer(1), zero))
        for symbol in known:
            others = {other: sp.Integer(int(other == symbol)) for other in known}
            pairs.append((symbol, _limits.expand(expression.xreplace(others) - zero)))
    elif known:
        (symbol,) = known
        slope = expression.xreplace({symbol: sp.Integer(1)}) - zero
        gain = symbols.gain if symbols.gain in expression.free_symbols else sp.Integer(1)
        at_one = {symbols.gain: sp.Integer(1)}
        zero, slope = zero.xreplace(at_one), slope.xreplace(at_one)
        values = (0, 1) if labelled.by_class and symbol in labelled.symbols else loss.target_values
        if values is not None and len(values) == 2:
            # About the middle of both, in halves of their distance: what there is to design does not depend on how
            # labels are coded.
            low, high = map(rational, values)
            middle, half = (low + high) / 2, (high - low) / 2
            pairs += [(sp.Integer(1), zero + middle * slope), (gain * (symbol - middle) / half, half * slope)]
        else:
            pairs += [(sp.Integer(1), zero), (symbol, slope)]
    else:
        pairs.append((sp.Integer(1), expression))
    return [
        (multiplier, function, _inflation(multiplier, release, labelled, symbols, loss))
        for multiplier, function in pairs
    ]


def _inflation(multiplier: sp.Expr, release: Release, labelled: Labelled, symbols: NoiseSymbols, loss: Loss) -> float:
    """Return the mean square of a multiplier over the noise of the target, over that of its mean; the worst target."""
    noise = release.target_noise
    if multiplier.is_number or not isinstance(noise, ChannelNoise):
        return 1.0
    values = np.empty(len(noise.outputs))
    for code, outcome in enumerate(noise.outputs):
        known: dict[sp.Symbol, float] = {loss.target: outcome, symbols.gain: labelled.gain}
        if labelled.table is not None:
            known |= dict(zip(labelled.symbols, labelled.table[code], strict=True))
        values[code] = float(multiplier.xreplace({symbol: sp.Float(value, 17) for symbol, value in known.items()}))
    matrix = np.array(noise.matrix)
    return float(np.max(matrix @ values**2) / np.max((matrix @ values) ** 2))


def _width(function: sp.Expr, residual: sp.Symbol) -> float | None:
    """Return the unit of a function of the residual, see `SurrogateParts.width`.

    Its slope is in proportion to the residual near 0, or near where the function is least if it bends more there; where
    it is half of what that makes it, or half as much more, the function bends.
    """
    slope = sp.diff(function, residual)
    # A kink at 0 is no curvature, and one elsewhere is not at 0.
    curvature_of = sp.diff(slope, residual).replace(sp.DiracDelta, lambda *_: sp.Integer(0))
    with np.errstate(all="ignore"):
        bends, of = numeric(curvature_of, (residual,)), numeric(slope, (residual,))
        # A loss that is least elsewhere bends there.
        centres = [0.0, *_least_at(of)]
        found_at = [float(np.ravel(bends(np.array([at])))[0]) for at in centres]
        curvature, centre = max(
            ((one, at) for one, at in zip(found_at, centres, strict=True) if math.isfinite(one)), default=(0.0, 0.0)
        )
        if not curvature > 0:
            return None

        def changed(logarithm: float | FloatArray) -> Any:
            at = np.atleast_1d(np.exp(logarithm))
            share = (of(centre + at) - of(centre - at)) / (2 * curvature * at)
            found = np.where(np.isfinite(share), np.abs(share - 1), np.inf) - 0.5
            return np.minimum(found, 1.0) if np.ndim(logarithm) else min(float(found[0]), 1.0)

        places = np.log(_RESIDUALS)
        apart = changed(places) > 0
        # From far out: near 0 differences of slopes are rounding.
        last = int(np.argmin(apart))
        if last == 0:
            return None
        found = brentq(changed, places[last], places[last - 1], xtol=1e-15, rtol=1e-15)
    return float(f"{math.exp(found) / _USUAL_WIDTH:.11g}")


def _least_at(slope: Callable[..., Any]) -> list[float]:
    """Return the place of least value of a function whose slope is given, if it has one that is not 0."""
    signed = np.concatenate([-_RESIDUALS, _RESIDUALS[::-1]])
    slopes = slope(signed)
    # Where it is 0 at one of them, its neighbours say so.
    signed, slopes = (one[np.isfinite(slopes) & (slopes != 0)] for one in (signed, slopes))
    rising = np.flatnonzero((slopes[:-1] < 0) & (slopes[1:] > 0))
    if len(rising) != 1 or signed[rising[0]] < 0 < signed[rising[0] + 1]:
        return []
    ends = signed[rising[0] : rising[0] + 2]
    return [float(brentq(lambda at: float(np.ravel(slope(np.array([at])))[0]), *ends, xtol=1e-300, rtol=1e-14))]


def _unit_seen(value: Callable[..., Any]) -> float:
    """Return a unit of the variable, a power of ten near 1, in which the probes see something of a function."""
    with np.errstate(all="ignore"):
        for exponent in sorted(range(-15, 16), key=abs):
            at = 10.0**exponent * _PROBES
            if np.any(value(at)) or np.any(value(-at)):
                return 10.0**exponent
    return 1.0


def _part(
    function: sp.Expr,
    variable: sp.Symbol,
    multiplier: sp.Expr,
    inflation: float,
    *,
    is_residual: bool = False,
    width: float | None = None,
) -> SurrogatePart:
    expanded = _limits.expand(function)
    if expanded.is_polynomial(variable):
        function, exact = sp.Integer(0), expanded
    else:
        terms = [term for term in sp.Add.make_args(expanded) if term.is_polynomial(variable)]
        high = [term for term in terms if sp.degree(term, variable) > 2]
        exact = sp.Add(*high)
        function = function - exact
    value = numeric(function, (variable,))
    slope = numeric(sp.diff(function, variable), (variable,))
    # A function may be flat over as much as the probes see.
    unit = (_unit_seen(value) if function != 0 else 1.0) if width is None else width
    with np.errstate(all="ignore"):
        right, left = value(unit * _PROBES), value(-unit * _PROBES)
    # Where a side overflows nothing is seen of its parity.
    seen = np.isfinite(right) & np.isfinite(left)
    right, left = right[seen], left[seen]
    sizes = np.abs(right) + np.abs(left)
    # A target may be in any unit, and the loss of its residuals as small.
    size = 1e-12 * ((np.median(sizes) if is_residual else 1.0) + sizes)
    numbers = surrogate.Part(
        value,
        slope,
        even=not bool(np.all(np.abs(right + left) <= size)),
        odd=not bool(np.all(np.abs(right - left) <= size)),
        inflation=inflation,
    )
    if function != 0 and not numbers.even and not numbers.odd:
        function = sp.Integer(0)
    return SurrogatePart(multiplier, function, exact, numbers)


def by_surrogate(problem: ScoreProblem, parts: SurrogateParts, *, waves: int) -> Derivation:
    """Return the correction of surrogates, with NaN in the places of their numbers in the kernels' vector of noise.

    Raises
    ------
    NoExactCorrectionError
        A column's noise cannot be undone for waves.
    """
    h = free_symbol("h", parts.labelled.expression)
    build = Build(parts.labelled.expression, exact=False)
    build.frequency = np.nan
    sums, coefficients = _sums(parts, waves)
    build.coefficients = (h, *coefficients)
    build.constants["coefficients"] = np.full(1 + len(coefficients), np.nan)
    orders = [power for one in sums for _, power, *_ in one]
    modes = (Mode(sp.Integer(0), False, max(orders)), *(Mode(h * k, True, 0) for k in range(1, waves + 1)))
    every = ExponentialSum(parts.variable, modes, tuple(term for one in sums for term in one), h)
    factors, normal = column_factors(problem, build, every), []
    if problem.gaussian:
        normal.append(problem.symbols.score_variance)
    factors += [group_factor(every, noise) for noise in problem.spherical]
    # A target that is a coordinate of the vector of a group has its part in the form of that.
    if isinstance(parts.target_noise, AdditiveNoise):
        if parts.target_noise.is_gaussian:
            normal.append(problem.symbols.target_variance)
        else:
            factors.append(_target_factor(every, parts.target_noise))
    total = sp.Add(
        *(
            part.multiplier * _undone(replace(every, terms=tuple(one)), factors, normal)
            for part, one in zip(parts.parts, sums, strict=True)
        )
    )
    build.expression = total.xreplace({parts.variable: parts.argument})
    if problem.enumerate_categories and problem.design.categorical:
        sum_over_configurations(problem, build, ())
    return finish(problem, build)


def _undone(terms: ExponentialSum, factors: Sequence[Factor], normal: Sequence[sp.Expr]) -> sp.Expr:
    """Return a sum with the factors of columns and of normal noise of some variances."""
    every = [*factors, *(normal_factor(terms, variance) for variance in normal)]
    flat = [term for term in terms.terms if terms.modes[term[2]].value == 0]
    if not normal or max((power for _, power, *_ in flat), default=0) <= LOW_POWER:
        return terms.times(every)
    # High powers come with their recurrence.
    polynomial = replace(terms, terms=tuple(flat)).times(factors)
    waves = replace(terms, terms=tuple(term for term in terms.terms if term not in flat)).times(every)
    return inverse_heat(polynomial, terms.variable, sp.Add(*normal)).expression + waves


def _target_factor(terms: ExponentialSum, noise: AdditiveNoise) -> Factor:
    """Return the factor of the target's noise in a residual, which is not normal."""
    is_finite = noise.inverse_polynomial is not None or noise.inverse_differences is not None
    moments = inverse_moments(noise) if noise.undoes_waves and not is_finite else None
    if moments is None and not is_finite:
        why = no_factor_of_waves(noise)
        raise NoExactCorrectionError(f"the characteristic function {noise.formula} of the target's noise {why}.")
    taylor = noise.inverse_taylor(terms.modes[0].order)

    def factor(index: int, k: int) -> sp.Expr:
        mode = terms.modes[index]
        if not mode.imaginary:
            return sp.Float(taylor[k], 17) if taylor[k] else sp.Integer(0)
        if moments is None:
            return sp.simplify(noise.inverse_factor(sp.I * mode.value).rewrite(sp.cos))
        numbers = dict(zip(moments.constants, map(sp.Float, moments.numbers), strict=True))
        return moments.expression.xreplace({**numbers, ARGUMENT: sp.I * mode.value})

    return factor


def _sums(
    parts: SurrogateParts, waves: int
) -> tuple[list[list[tuple[sp.Expr, int, int, int, sp.Expr]]], list[sp.Symbol]]:
    """Return the terms of each part as `ExponentialSum` has them, with their coefficients as symbols."""
    sums, symbols = [], []
    for m, part in enumerate(parts.parts):
        terms: list[tuple[sp.Expr, int, int, int, sp.Expr]] = []
        for (power,), value in sp.Poly(part.exact, parts.variable).terms() if part.exact != 0 else ():
            terms.append((value, power, 0, 1, sp.Integer(0)))
        for kind, k in _places(part, waves) if part.function != 0 else ():
            symbol = free_symbol(f"{kind}{m}_{k}", parts.labelled.expression, real=True)
            symbols.append(symbol)
            if kind == "c":
                terms.append((symbol, k, 0, 1, sp.Integer(0)))
            else:
                terms.append((symbol, 0, k, 1, sp.Integer(0) if kind == "a" else -sp.pi / 2))
        sums.append(terms)
    return sums, symbols


def _places(part: SurrogatePart, waves: int) -> list[tuple[str, int]]:
    """Return the coefficients that a part's surrogate has: of powers (c), of cosines (a) and of sines (b)."""
    powers = [("c", 0), *([("c", 1)] if part.numbers.odd else []), *([("c", 2)] if part.numbers.even else [])]
    kinds = ("a",) * part.numbers.even + ("b",) * part.numbers.odd
    return powers + [(kind, k) for kind in kinds for k in range(1, waves + 1)]


def numbers_of(parts: SurrogateParts, design: surrogate.Design) -> list[float]:
    """Return the coefficients of a design in the order in which corrections have them.

    Raises
    ------
    ValueError
        The design has polynomials in place of waves, which are for zonal noise.
    """
    if design.degree > 2:
        raise ValueError(
            "these surrogates are polynomials, which are for a spherical cap; under this noise they have waves. Let a "
            "solver design them."
        )
    return [
        _number(found, kind, k)
        for part, found in zip(parts.replaced, design.surrogates, strict=True)
        for kind, k in _places(part, design.waves)
    ]


def _number(found: surrogate.Surrogate, kind: str, k: int) -> float:
    if kind == "c":
        return found.polynomial[k]
    return (found.cosines if kind == "a" else found.sines)[k - 1]
