"""The universal rule: losses that are sums of u^n exp(lambda u) are corrected factor by factor.

With u = sum_j theta_j x_j, exp(lambda u) is a product over columns, and each factor is inverted by the noise of its
own column: divided by E exp(lambda theta_j e) for additive noise, multiplied out over the categories for a finite
channel. Powers of u are derivatives by lambda, so that the factors enter as the first coefficients of their
Taylor series ("jets"). lambda is real or imaginary: exponentials, sines and cosines.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy as sp

from symdebias import _limits
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms.heat import classified_terms


@dataclass(frozen=True)
class Mode:
    """One exponential exp(rate u) or exp(i frequency u), with the largest power of u beside it."""

    value: sp.Expr  # The rate or the frequency; 0 for polynomials.
    imaginary: bool  # Whether it is a frequency.
    order: int  # The largest power of u.


@dataclass(frozen=True)
class ExponentialSum:
    """An expression as a sum of coefficient u^n exp(lambda u)."""

    variable: sp.Symbol  # u.
    modes: tuple[Mode, ...]  # The exponentials in it.
    # What is summed: for an imaginary mode the real part of coefficient u^n exp(i (sign frequency u + phase)).
    terms: tuple[tuple[sp.Expr, int, int, int, sp.Expr], ...]
    # Where frequencies are multiples 1, 2, ... of a symbol: that symbol. Such modes have no powers of u.
    frequency: sp.Symbol | None = None

    @property
    def waves(self) -> tuple[int, ...]:
        """The modes at multiples of `frequency`, by their places."""
        return tuple(
            index for index, mode in enumerate(self.modes) if self.frequency in sp.sympify(mode.value).free_symbols
        )

    def times(self, factors: Sequence[Callable[[int, int], sp.Expr]]) -> sp.Expr:
        """Return the sum with every exp(lambda u) multiplied by functions of lambda; a real expression.

        ``factor(mode, k)`` is the coefficient of delta^k in the factor at lambda + delta, for a real mode; for an
        imaginary one at i (frequency + delta), a complex expression.
        """
        total = sp.Integer(0)
        for coefficient, power, index, sign, phase in self.terms:
            mode = self.modes[index]
            jet = [sp.Integer(1)] + [sp.Integer(0)] * power
            for factor in factors:
                jet = _product(jet, [factor(index, k) for k in range(power + 1)])
            u = self.variable
            step = sp.I * u if mode.imaginary else u
            raised = sp.Add(*(jet[power - k] * step**k / math.factorial(k) for k in range(power + 1)))
            raised *= math.factorial(power)
            if not mode.imaginary:
                total += coefficient * sp.exp(mode.value * u) * _limits.expand(raised)
                continue
            raised = _limits.expand(raised * (-sp.I) ** power)
            if sign < 0:
                # The conjugate frequency has the conjugate factor.
                raised = sp.conjugate(raised)
            # Conjugate terms make the sum real, so that the real part of each is enough.
            real, imaginary = _limits.expand(raised * coefficient).as_real_imag()
            angle = sign * mode.value * u + phase
            total += real * sp.cos(angle) - imaginary * sp.sin(angle)
        return total


def exponential_sum(expression: sp.Expr, variable: sp.Symbol) -> ExponentialSum:
    """Return an expression as a sum of coefficient u^n exp(lambda u), lambda real or imaginary.

    Parameters
    ----------
    expression : sympy.Expr
        An expression in the variable; coefficients may have any other symbols.
    variable : sympy.Symbol
        u.

    Raises
    ------
    NoExactCorrectionError
        It is no such sum; the message names the part.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> [(mode.value, mode.imaginary, mode.order) for mode in exponential_sum(u**2 + sp.exp(-u), u).modes]
    [(0, False, 2), (-1, False, 0)]
    """
    orders: dict[tuple[sp.Expr, bool], int] = {}
    raw: list[tuple[sp.Expr, int, tuple[sp.Expr, bool], int, sp.Expr]] = []
    for coefficient, power, phase, linear, quadratic, has_erf in classified_terms(expression, variable):
        rate, frequency = sp.re(linear), sp.im(linear)
        if quadratic != 0 or has_erf or (rate != 0 and frequency != 0):
            raise NoExactCorrectionError(
                f"{expression} is no sum of powers of {variable} times exponentials, sines and cosines."
            )
        if (rate.free_symbols | frequency.free_symbols) != set():
            raise NoExactCorrectionError(f"the rate of an exponential in {expression} is no number.")
        imaginary = frequency != 0
        sign = -1 if imaginary and frequency.is_negative else 1
        key = (sign * frequency if imaginary else rate, imaginary)
        orders[key] = max(orders.get(key, 0), power)
        raw.append((coefficient, power, key, sign, phase))
    keys = list(orders)
    modes = tuple(Mode(value, imaginary, orders[value, imaginary]) for value, imaginary in keys)
    return ExponentialSum(
        variable,
        modes,
        tuple((coefficient, power, keys.index(key), sign, phase) for coefficient, power, key, sign, phase in raw),
    )


def _product(first: Sequence[sp.Expr], second: Sequence[sp.Expr]) -> list[sp.Expr]:
    """Return the product of two truncated power series of the same length."""
    return [
        sp.Add(*(first[i] * second[k - i] for i in range(k + 1) if first[i] != 0 and second[k - i] != 0))
        for k in range(len(first))
    ]
