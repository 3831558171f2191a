"""Bias against variance: truncated series of every order, a quadratic, and surrogates over a range of sample sizes.

All at one noise variance s of the score, normal, and for scores within one range. The bias of a series of order K
comes from the integral formula (`symdebias.transforms.series.truncation_bias`), that of a surrogate is its distance
from the loss; variances are means over the noise by the trapezoidal rule, and over label noise by enumeration.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import check_choice, is_integer, shown
from symdebias.assessment.score_bias import default_targets
from symdebias.codegen.numeric import numeric
from symdebias.derivation import SurrogateParts
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.noise import ChannelNoise
from symdebias.release import Release
from symdebias.transforms import surrogate, truncation_bias
from symdebias.transforms.series import truncated_series

# Scores within the range at which biases are looked at (of series and of variances fewer, which are smooth).
_BIASED_SCORES, _SCORES = 801, 81
# Sample sizes of the surrogates on the curve, times the declared one.
_DIALS = tuple(10.0**k for k in (-3, -2, -1, 0, 1, 2, 3))
# Steps of the rule over the noise, in units of the score, and how many standard deviations it reaches.
_STEP, _REACH = 0.15, 8.5


@dataclass(frozen=True)
class Choice:
    """One way to correct a loss, with what it costs.

    Attributes
    ----------
    method : {"series", "quadratic", "surrogate"}
        How; a series of order 0 corrects nothing.
    order : int or None
        The order of a series.
    records : float or None
        The sample size that a surrogate is designed for.
    loss_bias, slope_bias : float
        The largest bias of the loss and of its slope on the range.
    loss_sd, slope_sd : float
        The largest standard deviations of their estimates from one record, over mechanism and label noise.
    error : float
        The estimated mean squared error of the mean slope of n records: mean over the range of bias^2 + variance/n.

    Examples
    --------
    >>> import symdebias as sd
    >>> corrected = sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    >>> plain, first, *_ = corrected.tradeoff(radius=3.0, score_variance=1.0, n=10_000).choices
    >>> (plain.method, plain.order), (first.method, first.order), first.loss_bias < plain.loss_bias
    (('series', 0), ('series', 1), True)
    """

    method: str
    order: int | None
    records: float | None
    loss_bias: float
    slope_bias: float
    loss_sd: float
    slope_sd: float
    error: float


@dataclass(frozen=True)
class Tradeoff:
    """Bias against variance for one range, noise level and sample size.

    Attributes
    ----------
    choices : tuple of Choice
        Series by order, the quadratic, and surrogates by the sample size that they are designed for.
    radius, score_variance, records : float
        Where.

    Examples
    --------
    >>> import symdebias as sd
    >>> corrected = sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    >>> curve = corrected.tradeoff(radius=3.0, score_variance=1.0, n=10_000)
    >>> curve.best().method, curve.best("series", by="bias").order
    ('surrogate', 3)
    """

    choices: tuple[Choice, ...]
    radius: float
    score_variance: float
    records: float

    def best(self, method: str | None = None, *, by: str = "error") -> Choice:
        """Return the best choice.

        Parameters
        ----------
        method : {"series", "quadratic", "surrogate"}, optional
            Among these alone.
        by : {"error", "bias"}
            By the estimated mean squared error, or by the bias of the loss.

        Raises
        ------
        ValueError
            There is no such choice.
        """
        check_choice("by", by, ("error", "bias"))
        found = [choice for choice in self.choices if method is None or choice.method == method]
        if not found:
            there = ", ".join(sorted({choice.method for choice in self.choices}))
            raise ValueError(f"there is no choice with method={shown(method, 60)}. There are {there}.")
        return min(found, key=lambda choice: choice.error if by == "error" else choice.loss_bias)

    def __str__(self) -> str:
        lines = [
            f"|u| <= {self.radius:g}, score variance {self.score_variance:g}, n = {self.records:g}",
            f"{'':<22}{'bias of loss':>13}{'sd of loss':>12}{'bias of slope':>15}{'sd of slope':>13}{'error':>11}",
        ]
        best = self.best()
        for choice in self.choices:
            name = choice.method
            if choice.order is not None:
                name = f"series, order {choice.order}" if choice.order else "no correction"
            elif choice.records is not None:
                name = f"surrogate, n = {choice.records:.0e}"
            lines.append(
                f"{name:<22}{choice.loss_bias:>13.2e}{choice.loss_sd:>12.3g}{choice.slope_bias:>15.2e}"
                f"{choice.slope_sd:>13.3g}{choice.error:>11.2e}" + ("  <- best" if choice == best else "")
            )
        return "\n".join(lines)


def tradeoff(
    parts: SurrogateParts,
    declared: Loss,
    release: Release,
    *,
    radius: float,
    score_variance: float,
    records: float,
    orders: Sequence[int],
) -> Tradeoff:
    """Return the trade-off of a loss; see `symdebias.corrected.CorrectedLoss.tradeoff`."""
    numbers = parts.design(radius=radius, score_variance=score_variance, records=records)
    scene = _Scene(parts, declared, release, radius, numbers.score_variance, records)
    choices: list[Choice] = []
    for order in orders:
        if not is_integer(order) or order < 0:
            raise ValueError(f"orders has {shown(order, 60)}, which is no order of a series. Orders are 0, 1, 2, ...")
        try:
            choices.append(scene.series(int(order)))
        except NoExactCorrectionError:
            continue
    designed = functools.partial(parts.design, radius=radius, score_variance=score_variance)
    quadratic = designed(records=records, waves_of_each=0)
    choices.append(replace(scene.surrogate(quadratic), method="quadratic", records=None))
    choices += [scene.surrogate(designed(records=max(1.0, records * dial))) for dial in _DIALS]
    return Tradeoff(tuple(choices), radius, score_variance, records)


@dataclass(frozen=True)
class _Scene:
    """Where choices are compared."""

    parts: SurrogateParts
    declared: Loss
    release: Release
    radius: float
    variance: float
    records: float

    @property
    def unit(self) -> float:
        """The unit of scores in which surrogates are designed."""
        return self.parts.unit_within(self.radius)

    def surrogate(self, design: surrogate.Design) -> Choice:
        pairs = [
            (lambda u, one=one: one.inverse(u, self.variance), lambda u, one=one: one.inverse_slope(u, self.variance))
            for one in design.surrogates
        ]
        targets = self._targets()
        u = np.linspace(-self.radius, self.radius, _BIASED_SCORES)
        errors = [self.parts.errors(design, u + y * self.parts.is_residual, np.full(len(u), y)) for y in targets]
        biases = np.array([value for value, _ in errors]), np.array([slope for _, slope in errors])
        return self._choice("surrogate", None, design.records, biases, pairs)

    def series(self, order: int) -> Choice:
        variable, s = self.parts.variable, sp.Float(self.variance, 17)
        values, slopes, pairs = [], [], []
        u = self._scores()
        for part in self.parts.replaced:
            derivative = sp.diff(part.function, variable)
            forms = [
                numeric(truncated_series(form, {variable: s}, order=order), (variable,))
                for form in (part.function, derivative)
            ]
            pairs.append((forms[0], forms[1]))
            biases_of = functools.partial(
                truncation_bias, variable=variable, variance=self.variance, order=order, at=u, unit=self.unit
            )
            values.append(biases_of(part.function))
            slopes.append(biases_of(derivative))
        biases: tuple[list[Any], list[Any]] = ([], [])
        for y in self._targets():
            multipliers = [m[0] for m in self.parts.multipliers(np.array([y]))]
            biases[0].append(sum(m * value for m, value in zip(multipliers, values, strict=True)))
            biases[1].append(sum(m * slope for m, slope in zip(multipliers, slopes, strict=True)))
        return self._choice("series", order, None, (np.array(biases[0]), np.array(biases[1])), pairs)

    def _choice(
        self,
        method: str,
        order: int | None,
        records: float | None,
        biases: tuple[FloatArray, FloatArray],
        pairs: Sequence[tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]],
    ) -> Choice:
        variances = (
            self._variances([value for value, _ in pairs], exact=0),
            self._variances([s for _, s in pairs], exact=1),
        )
        error = float(np.mean(biases[1] ** 2) + np.mean(variances[1]) / self.records)
        return Choice(
            method, order, records,
            float(np.abs(biases[0]).max()), float(np.abs(biases[1]).max()),
            math.sqrt(float(variances[0].max())), math.sqrt(float(variances[1].max())), error,
        )  # fmt: skip

    def _variances(self, functions: Sequence[Callable[[FloatArray], FloatArray]], *, exact: int) -> FloatArray:
        """Return the variance of sum_m M_m g_m over the noise, for each target and score; polynomials included.

        `exact` is 0 for the loss and 1 for its slope.
        """
        u = self._scores()
        count = max(48, math.ceil(2 * _REACH * math.sqrt(self.variance) / (_STEP * self.unit)))
        t = np.linspace(-_REACH, _REACH, count + 1)
        weights = np.exp(-(t**2) / 2)
        weights /= weights.sum()
        points = u[:, None] + math.sqrt(self.variance) * t
        inverted = iter([function(points) for function in functions])
        columns = []
        for part in self.parts.parts:
            column = np.zeros(points.shape)
            if part.exact != 0:
                variable = self.parts.variable
                whole = truncated_series(
                    part.exact, {variable: sp.Float(self.variance, 17)}, order=sp.degree(part.exact, variable)
                )
                column = column + numeric(sp.diff(whole, variable, exact), (variable,))(points)
            if part.function != 0:
                column = column + next(inverted)
            columns.append(column)
        found = []
        for y in self._targets():
            first, second = np.zeros(len(u)), np.zeros(len(u))
            for chance, multipliers in self._released(y):
                total = sum(m * column for m, column in zip(multipliers, columns, strict=True))
                first += chance * (total @ weights)
                second += chance * (total**2 @ weights)
            found.append(np.maximum(second - first**2, 0.0))
        return np.array(found)

    def _scores(self) -> FloatArray:
        return np.linspace(-self.radius, self.radius, _SCORES)

    def _targets(self) -> tuple[float, ...]:
        if self.parts.is_residual:
            return (0.0,)
        return default_targets(self.declared.target_values, self.release.target_radius)

    def _released(self, y: float) -> list[tuple[float, list[float]]]:
        """Return what the released target may multiply the parts with, each with its probability."""
        noise, labelled = self.release.target_noise, self.parts.labelled
        if not isinstance(noise, ChannelNoise):
            known = {self.parts.target: y}
            known |= {
                symbol: 1.0
                for part in self.parts.parts
                for symbol in part.multiplier.free_symbols
                if symbol not in known
            }
            if self.parts.classes is not None:
                known |= {
                    symbol: float(y == value)
                    for symbol, value in zip(labelled.symbols, self.parts.classes, strict=True)
                }
            return [(1.0, [float(part.multiplier.xreplace(known)) for part in self.parts.parts])]
        cases = []
        row = noise.matrix[noise.inputs.index(y)]
        for code, (chance, outcome) in enumerate(zip(row, noise.outputs, strict=True)):
            known = {self.parts.target: outcome}
            if labelled.table is not None:
                known |= dict(zip(labelled.symbols, labelled.table[code], strict=True))
            known |= {
                symbol: labelled.gain
                for part in self.parts.parts
                for symbol in part.multiplier.free_symbols
                if symbol not in known
            }
            cases.append((chance, [float(part.multiplier.xreplace(known)) for part in self.parts.parts]))
        return cases
