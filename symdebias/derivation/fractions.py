"""Fractions in a noised feature, such as the Emax curve x/(c + x), as sums of exponentials on a declared range."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from symdebias._arrays import FloatArray, features_array, parameter_array, real_array, target_array
from symdebias._domains import POSITIVE, shown
from symdebias.bounds.intervals import Range, natural_range
from symdebias.codegen.numeric import numeric
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.mechanisms.gaussian import gaussian_noise
from symdebias.noise import AdditiveNoise
from symdebias.release import Release
from symdebias.release.required import require_release
from symdebias.transforms.fractions import fraction_sum

# Where a sum is farther off than this share of the slope of the fraction, nothing is gained by it.
_MOST_ERROR = 0.25


@dataclass(frozen=True)
class Fraction:
    """A power of 1/v that a sum of exponentials stands for.

    Attributes
    ----------
    expression : sympy.Expr
        v^-m.
    low, high : float
        The range of v.
    error, slope_error : float
        The largest relative errors of its value and of its slope on that range.
    deviation : float
        The relative standard deviation of its correction, root mean square over the range.
    """

    expression: sp.Expr
    low: float
    high: float
    error: float
    slope_error: float
    deviation: float


@dataclass(frozen=True)
class FractionSurrogate:
    """A loss without poles, and how far it is from the declared one; made by `surrogate_of_fractions`.

    Attributes
    ----------
    declared : Loss
        The loss with fractions.
    loss : Loss
        The loss with sums of exponentials in their place, which `debias` corrects exactly.
    fractions : tuple of Fraction
        What was replaced.

    Examples
    --------
    >>> import sympy as sp
    >>> import symdebias as sd
    >>> x, c, y = sp.symbols("x c y", real=True)
    >>> loss = sd.Loss.of_features((y - x / (c + x)) ** 2, features=[x], parameters=[c], target=y)
    >>> release = sd.Release({"x": sd.GaussianMechanism.from_scale(0.3)})
    >>> found = sd.surrogate_of_fractions(loss, release, ranges={"x": (0.0, 8.0), "c": (1.0, 5.0)}, n=10_000)
    >>> print(found)
    sums of exponentials in place of
      (c + x)**(-2) for 1 to 13: off by at most ..., its slope by ...; standard deviation 0.3...
      1/(c + x) for 1 to 13: off by at most ..., its slope by ...; standard deviation 0.1...
    all relative
    """

    declared: Loss
    loss: Loss
    fractions: tuple[Fraction, ...]

    def bias(self, theta: ArrayLike, X: Any, y: Any) -> FloatArray:
        """Return how far the loss is off at true records: the bias of the corrected loss.

        Parameters
        ----------
        theta : array of shape (q,)
            The parameters.
        X : array of shape (n, p)
            True features.
        y : array of shape (n,)
            Targets.

        Returns
        -------
        array of shape (n,), float64
            The loss less the declared one.

        Raises
        ------
        ValueError, TypeError
            The arguments do not fit.
        """
        matrix = features_array(X)
        arguments = *parameter_array(theta, len(self.declared.parameters)), *matrix.T, target_array(y, rows=len(matrix))
        symbols = *self.declared.parameters, *self.declared.features, self.declared.target
        if len(arguments) != len(symbols):
            raise ValueError(f"X has {matrix.shape[1]} columns, and the loss {len(self.declared.features)} features.")
        near, far = (numeric(one.expression, symbols)(*arguments) for one in (self.loss, self.declared))
        return np.asarray(np.broadcast_to(near - far, (len(matrix),)), dtype=np.float64)

    def __str__(self) -> str:
        lines = [
            f"  {one.expression} for {one.low:.4g} to {one.high:.4g}: off by at most {one.error:.2g}, its slope by "
            f"{one.slope_error:.2g}; standard deviation {one.deviation:.2g}"
            for one in self.fractions
        ]
        return "\n".join(["sums of exponentials in place of", *lines, "all relative"])


def surrogate_of_fractions(
    loss: Loss, release: Release, *, ranges: Mapping[Any, Sequence[float]], n: float
) -> FractionSurrogate:
    """Return a loss with sums of exponentials in place of fractions in noised features.

    A fraction such as x/(c + x) has a pole that noise of x reaches, so that it has no correction. Where true values of
    v = c + x are known to lie in a range of positive numbers, v^-m is close to a sum of exponentials
    sum_k a_k e^(-t_k v) there. That has an exact correction for every c, under every additive noise.

    Parameters
    ----------
    loss : Loss
        Free-form, and a rational function of the noised features whose denominators are products of powers of terms
        that are linear in one of them.
    release : Release
        How the features are noised; its columns are the features of the loss.
    ranges : mapping from str or sympy.Symbol to pair of float
        Public bounds on what stands in the denominators: the true values of features, and the parameters, within which
        the fit is to be kept by ``bounds=``.
    n : float
        The number of records that are to be fitted, positive: more of them buy less bias for more variance.

    Returns
    -------
    FractionSurrogate
        The loss for `debias`, with the largest relative errors of value and slope of each fraction.

    Raises
    ------
    NoExactCorrectionError
        The noise is so large beside the distance from the pole that no sum is close; or the loss is no such function.
    ValueError, TypeError
        The arguments do not fit, or a pole lies within the ranges.

    Notes
    -----
    With d the least v over the standard deviation of its noise, and largest v ten times the least, the relative errors
    of 1/v and 1/v^2 for 10,000 records are 3e-3 and 2e-2 at d = 1, 1e-4 and 1e-3 at d = 2, 3e-6 and 2e-5 at d = 4; the
    relative standard deviations of their corrections are 1.2 and 3.8, 0.3 and 0.8, 0.1 and 0.3. What the errors do to
    parameters is not in the standard errors of a fit, for which the sum is the loss.

    Examples
    --------
    >>> import numpy as np, sympy as sp
    >>> dose, top, half, y = sp.symbols("dose top half y", real=True)
    >>> emax = Loss.of_features(
    ...     (y - top * dose / (half + dose)) ** 2 / 2, features=[dose], parameters=[top, half], target=y
    ... )
    >>> from symdebias import GaussianMechanism, debias
    >>> release = Release({"dose": GaussianMechanism.from_scale(0.3)})
    >>> near = surrogate_of_fractions(emax, release, ranges={dose: (0.2, 8.0), half: (0.8, 5.0)}, n=20_000)
    >>> debias(near.loss, release).is_exact
    True
    >>> bool(np.abs(near.bias([3.0, 2.0], [[0.5], [4.0]], [1.0, 2.0])).max() < 1e-3)
    True
    """
    require_loss(loss)
    require_release(release)
    if loss.scores:
        raise ValueError(
            f"{loss.expression} is a loss of scores. Declare the loss in its features, by Loss.of_features."
        )
    records, box = POSITIVE.check("n", n), _checked(ranges, loss)
    noises = _noised(loss, release)
    expression, found = loss.expression, dict[sp.Expr, Fraction]()
    for feature, noise in noises.items():
        expression = _replaced(loss, expression, feature, noise, box, records, found)
    if not found:
        raise ValueError(f"{loss.expression} has no fraction in a noised feature. Pass it to debias as it is.")
    near = Loss.of_features(
        expression,
        features=loss.features,
        parameters=loss.parameters,
        target=loss.target,
        target_values=loss.target_values,
        name=f"{loss.name or loss.expression}, fractions as sums of exponentials",
    )
    return FractionSurrogate(loss, near, tuple(found.values()))


def _checked(ranges: Any, loss: Loss) -> dict[sp.Basic, Range]:
    """Return the ranges by symbol."""
    if not isinstance(ranges, Mapping):
        raise TypeError(f"ranges must map names to pairs of numbers; got {shown(ranges, 60)}.")
    symbols = {one.name: one for one in (*loss.features, *loss.parameters)}
    box: dict[sp.Basic, Range] = {}
    for key, pair in ranges.items():
        name = getattr(key, "name", key)
        if name not in symbols:
            raise ValueError(
                f"ranges names {shown(name, 60)}, which is neither a feature nor a parameter of the loss. These are "
                f"{', '.join(symbols)}."
            )
        try:
            ends = real_array(pair, "a range")
        except (TypeError, ValueError):
            ends = np.zeros(0)
        if not (ends.shape == (2,) and ends[0] <= ends[1]):
            raise ValueError(f"ranges[{name}]={shown(pair, 60)} is no pair (low, high) of finite numbers. Give one.")
        box[symbols[name]] = Range(ends[:1], ends[1:])
    return box


def _noised(loss: Loss, release: Release) -> dict[sp.Symbol, AdditiveNoise]:
    """Return the noises of the noised features that the loss is a fraction of."""
    columns = len(loss.features)
    variances = release.feature_variances(columns)
    _, below = sp.fraction(sp.together(loss.expression))
    found: dict[sp.Symbol, AdditiveNoise] = {}
    for place, noise in release.noises(columns):
        for feature, variance in zip(loss.features[place], variances[place], strict=True):
            if isinstance(noise, AdditiveNoise) and below.has(feature):
                own = noise.covariance is None
                found[feature] = noise if own else gaussian_noise(math.sqrt(float(variance)))
    return found


def _replaced(
    loss: Loss,
    expression: sp.Expr,
    feature: sp.Symbol,
    noise: AdditiveNoise,
    box: Mapping[sp.Basic, Range],
    records: float,
    found: dict[sp.Expr, Fraction],
) -> sp.Expr:
    """Return an expression with the fractions in one feature replaced; they are added to `found`."""
    whole = sp.together(expression)
    if not whole.is_rational_function(feature):
        raise NoExactCorrectionError(
            f"{loss.expression} is no rational function of {feature}, and its fractions have no sums of exponentials. "
            "Use a curve without a pole, or one of polynomials over products of linear terms."
        )
    total: list[sp.Expr] = []
    for term in sp.Add.make_args(sp.apart(whole, feature)):
        above, below = sp.fraction(sp.together(term))
        coefficient, factors = sp.Integer(1), []
        for factor in sp.Mul.make_args(sp.factor(below)):
            base, power = factor.as_base_exp()
            if base.has(feature):
                factors.append((base, int(power)))
            else:
                coefficient /= factor
        if not factors:
            total.append(term)
            continue
        (base, power), *others = factors
        linear = sp.Poly(base, feature)
        if others or linear.degree() != 1 or above.has(feature):
            raise NoExactCorrectionError(
                f"{below} is no power of a term that is linear in {feature}, and 1/({below}) has no sum of "
                "exponentials. Use a curve without a pole."
            )
        slope, constant = linear.all_coeffs()
        argument = feature + sp.cancel(constant / slope)
        sums = _sum_for(argument, power, feature, noise, box, records, found)
        total.append(above * coefficient / slope**power * sums)
    return sp.Add(*total)


def _sum_for(
    argument: sp.Expr,
    power: int,
    feature: sp.Symbol,
    noise: AdditiveNoise,
    box: Mapping[sp.Basic, Range],
    records: float,
    found: dict[sp.Expr, Fraction],
) -> sp.Expr:
    """Return the sum of exponentials for a power of 1/v."""
    unknown = sorted(str(symbol) for symbol in argument.free_symbols - box.keys())
    if unknown:
        raise ValueError(
            f"1/({argument}) needs ranges for {', '.join(unknown)}. Give public bounds, such as ranges={{"
            f'"{unknown[0]}": (low, high)}}.'
        )
    try:
        reach = natural_range(argument, box)
    except ValueError:
        reach = Range(np.array([-math.inf]), np.array([math.inf]))
    low, high = float(reach.low[0]), float(reach.high[0])
    if not (low > 0 or high < 0) or not math.isfinite(high - low):
        raise ValueError(
            f"{argument} is {low:.4g} to {high:.4g} within the ranges, and 1/({argument}) has a pole at 0. Narrow the "
            "ranges so that it keeps away from 0."
        )
    sign = 1 if low > 0 else -1
    near, far = sorted((abs(low), abs(high)))
    far = max(far, near * (1 + 1e-6))
    made = fraction_sum(power, near, far, noise=noise, records=records)
    if not made.slope_error <= _MOST_ERROR:
        deviation = math.sqrt(noise.variance)
        raise NoExactCorrectionError(
            f"the noise of {feature} has the standard deviation {deviation:.3g}, and {argument} comes as near as "
            f"{near:.3g} to the pole of 1/({argument}): the closest sum of exponentials is off by "
            f"{made.error:.2g} of it, and its slope by {made.slope_error:.2g}. Have values at least as far from the "
            "pole as the noise is large, narrow the ranges, or use a curve without a pole."
        )
    found[argument**-power] = Fraction(argument**-power, low, high, made.error, made.slope_error, made.deviation)
    terms = [
        sp.Float(float(coefficient)) * sp.exp(-sp.Float(float(sign * rate)) * argument)
        for rate, coefficient in zip(made.rates, made.coefficients, strict=True)
    ]
    return sign**power * sp.Add(*terms)
