"""How fast expressions grow: the exponentials of linear forms that bound them.

An expression is bounded by a power of its variables times a sum of exponentials exp(w.u + r.|u|). Noise of u with
exponential tails has a mean of it where it has one of each term: for u = Theta x and Laplace noise of the scales b_j in
x it is E exp(w.Theta e) = prod_j 1/(1 - (b_j w.Theta_j)^2), which exists where b_j |w.Theta_j| < 1 for all j. What
matters of a score is therefore its weight within each of the exponentials.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import sympy as sp

from symdebias import _limits
from symdebias.codegen.functions import (
    expit,
    inverse_mills,
    log_normal_cdf,
    logistic_density,
    logsumexp,
    mills_excess,
    softmax_part,
    softplus,
)
from symdebias.exceptions import NoExactCorrectionError

# Bounded functions, whose growth rate is 0; and those that grow no faster than a power of their arguments.
_BOUNDED = (
    expit, logistic_density, softmax_part, sp.tanh, sp.atan, sp.sin, sp.cos, sp.erf, sp.erfc, sp.sign, sp.Heaviside,
)  # fmt: skip
_POWERS = {softplus: 1, logsumexp: 1, inverse_mills: 1, mills_excess: 1, log_normal_cdf: 2, sp.Abs: 1}
# An interval of rates: of log|f|, or of f itself, along one half of the axis.
_Rates = tuple[sp.Expr, sp.Expr]
_UNKNOWN: _Rates = (-sp.oo, sp.oo)
# More exponentials than these are bounded by one of the sizes of the variables.
_MOST_TERMS = 64


@dataclass(frozen=True)
class GrowthTerm:
    """The exponential exp(w.u + r.|u|) of a bound."""

    weights: tuple[sp.Expr, ...]  # w, one for each variable.
    widths: tuple[sp.Expr, ...]  # r, at least 0: where no more is known of a variable than its size.

    @property
    def sizes(self) -> tuple[sp.Expr, ...]:
        """|w| + r, the rate along each variable."""
        return tuple(sp.Abs(w) + r for w, r in zip(self.weights, self.widths, strict=True))

    def times(self, other: "GrowthTerm") -> "GrowthTerm":
        """Return the product."""
        return GrowthTerm(
            tuple(a + b for a, b in zip(self.weights, other.weights, strict=True)),
            tuple(a + b for a, b in zip(self.widths, other.widths, strict=True)),
        )

    def power(self, exponent: sp.Expr) -> "GrowthTerm":
        """Return a power with a positive exponent."""
        return GrowthTerm(tuple(exponent * w for w in self.weights), tuple(exponent * r for r in self.widths))


@dataclass(frozen=True)
class SquareTerm:
    """The exponential exp(v'Bv + r.|v|) of a bound, for what may grow like the exponential of a square."""

    squares: sp.ImmutableMatrix  # B, symmetric.
    sizes: tuple[sp.Expr, ...]  # r, at least 0; infinite where no bound is found.

    def times(self, other: "SquareTerm") -> "SquareTerm":
        """Return the product."""
        return SquareTerm(
            self.squares + other.squares, tuple(a + b for a, b in zip(self.sizes, other.sizes, strict=True))
        )


_Terms = tuple[GrowthTerm, ...]


def growth_rate(expression: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    """Return c such that an expression grows no faster than a polynomial times exp(c sum |x|) over the variables.

    Parameters
    ----------
    expression : sympy.Expr
        An expression.
    variables : sequence of sympy.Symbol
        The noised variables.

    Returns
    -------
    sympy.Expr
        The rate, an upper bound; infinity for exp(x^2), and where no bound is found.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> growth_rate(sp.exp(-2 * u) * u**3 + sp.log(1 + sp.exp(u)), (u,))
    2
    """
    return rate_of(growth_terms(expression, variables))


def square_terms(expression: sp.Expr, variables: Sequence[sp.Symbol]) -> tuple[SquareTerm, ...]:
    """Return terms such that a polynomial times their sum bounds the size of an expression.

    Unlike `growth_terms` they tell squares in an exponent apart from what is not bounded at all.

    Parameters
    ----------
    expression : sympy.Expr
        An expression.
    variables : sequence of sympy.Symbol
        The noised variables, which may grow together in any direction.

    Examples
    --------
    >>> u, v = sp.symbols("u v", real=True)
    >>> [(term.squares.tolist(), term.sizes) for term in square_terms(v**3 * sp.exp(u**2 / 2 - v), (u, v))]
    [([[1/2, 0], [0, 0]], (0, 1))]
    """
    zero = sp.ImmutableMatrix.zeros(len(variables))
    if expression.is_Add or isinstance(expression, (sp.Max, sp.Min, sp.Piecewise)):
        parts = [value for value, _ in expression.args] if isinstance(expression, sp.Piecewise) else expression.args
        return tuple(dict.fromkeys(term for part in parts for term in square_terms(part, variables)))
    if expression.is_Mul:
        exponentials, rest = sp.sift(expression.args, lambda part: isinstance(part, sp.exp), binary=True)
        together = [sp.exp(sp.Add(*(part.args[0] for part in exponentials)))] if exponentials else []
        found: tuple[SquareTerm, ...] = (SquareTerm(zero, (sp.Integer(0),) * len(variables)),)
        for part in (*together, *rest):
            found = tuple(dict.fromkeys(a.times(b) for a in found for b in square_terms(part, variables)))
        return found
    if expression.is_Pow and not isinstance(expression, sp.exp) and expression.exp.is_positive:
        power = expression.exp
        terms = square_terms(expression.base, variables)
        return tuple(SquareTerm(power * one.squares, tuple(power * size for size in one.sizes)) for one in terms)
    if isinstance(expression, sp.exp):
        polynomial, rest = _limits.expand(expression.args[0]).as_independent(*variables, as_Add=True)[1], sp.Integer(0)
        if not polynomial.is_polynomial(*variables):
            parts = sp.Add.make_args(polynomial)
            kept, others = sp.sift(parts, lambda part: bool(part.is_polynomial(*variables)), binary=True)
            polynomial, rest = sp.Add(*kept), sp.Add(*others)
        squares = sp.ImmutableMatrix(sp.hessian(polynomial, variables) / 2).subs(dict.fromkeys(variables, 0))
        vector = sp.Matrix(variables)
        rest += sp.expand(polynomial - (vector.T * squares * vector)[0])
        return tuple(SquareTerm(squares, term.sizes) for term in growth_terms(sp.exp(rest), variables))
    return tuple(SquareTerm(zero, term.sizes) for term in growth_terms(expression, variables))


def rate_of(terms: Iterable[GrowthTerm]) -> sp.Expr:
    """Return the largest rate of terms along a variable."""
    return sp.Max(0, *(size for term in terms for size in term.sizes))


def growth_terms(expression: sp.Expr, variables: Sequence[sp.Symbol]) -> _Terms:
    """Return terms such that a polynomial times their sum bounds the size of an expression.

    Parameters
    ----------
    expression : sympy.Expr
        An expression.
    variables : sequence of sympy.Symbol
        The noised variables, which may grow together in any direction.

    Returns
    -------
    tuple of GrowthTerm
        One with infinite widths where no bound is found, as of exp(x^2).

    Examples
    --------
    >>> m, s = sp.symbols("m s", real=True)
    >>> [term.weights for term in growth_terms(s + m**2 * sp.exp(-2 * s), (m, s))]
    [(0, 0), (0, -2)]
    """
    flat, unbounded = _sized((0,) * len(variables)), _sized((sp.oo,) * len(variables))
    if not expression.has(*variables) or expression.is_Symbol:
        return flat
    if expression.is_Add or isinstance(expression, (sp.Max, sp.Min, sp.Piecewise)):
        parts = [value for value, _ in expression.args] if isinstance(expression, sp.Piecewise) else expression.args
        return _union(growth_terms(part, variables) for part in parts)
    if expression.is_Mul:
        # Exponentials together: exp(u y) exp(-u^2) is bounded, and its first factor is not.
        exponentials, rest = sp.sift(expression.args, lambda part: isinstance(part, sp.exp), binary=True)
        together = [sp.exp(sp.Add(*(part.args[0] for part in exponentials)))] if len(exponentials) > 1 else exponentials
        return _product((growth_terms(part, variables) for part in (*together, *rest)), flat)
    if expression.is_Pow and not expression.exp.has(*variables) and not isinstance(expression, sp.exp):
        if expression.exp.is_positive:
            return _power(growth_terms(expression.base, variables), expression.exp)
        if expression.base.is_polynomial(*variables):
            return flat
        return _terms_of_inverse(expression, variables)
    if isinstance(expression, (sp.cosh, sp.sinh)):
        exponent = _limits.expand(expression.args[0])
        return _union(_exponential_terms(sign * exponent, variables) for sign in (1, -1))
    if isinstance(expression, sp.exp) or expression.is_Pow:
        exponent = expression.args[0] if isinstance(expression, sp.exp) else expression.exp * sp.log(expression.base)
        return _exponential_terms(_limits.expand(exponent), variables)
    if isinstance(expression, _BOUNDED):
        return flat
    if isinstance(expression, sp.log):
        return _sized((_logarithm_rate(expression.args[0], variables),) * len(variables))
    if type(expression) in _POWERS:
        inside = _union((flat, *(growth_terms(part, variables) for part in expression.args)))
        return _power(inside, sp.Integer(_POWERS[type(expression)]))
    if isinstance(expression, sp.asinh) and growth_rate(expression.args[0], variables) != sp.oo:
        # At most the logarithm of its argument.
        return flat
    return unbounded


def _sized(widths: Sequence[sp.Expr | int]) -> _Terms:
    """Return one term that knows the sizes of the variables alone."""
    return (GrowthTerm((sp.Integer(0),) * len(widths), tuple(map(sp.sympify, widths))),)


def _union(several: Iterable[_Terms]) -> _Terms:
    """Return the terms of a sum."""
    found = tuple(dict.fromkeys(term for terms in several for term in terms))
    if len(found) <= _MOST_TERMS:
        return found
    return _sized([sp.Max(*sizes) for sizes in zip(*(term.sizes for term in found), strict=True)])


def _product(several: Iterable[_Terms], flat: _Terms) -> _Terms:
    """Return the terms of a product."""
    found = flat
    for terms in several:
        found = _union((one.times(other),) for one in found for other in terms)
    return found


def _power(terms: _Terms, exponent: sp.Expr) -> _Terms:
    """Return the terms of a power with a positive exponent: that of a sum is at most a multiple of theirs."""
    return tuple(term.power(exponent) for term in terms)


def _least(several: Iterable[_Terms]) -> _Terms:
    """Return the terms with the least rate that is known, of several that bound one expression."""
    best: _Terms | None = None
    for terms in several:
        if best is None or sp.Lt(rate_of(terms), rate_of(best)) == sp.true:
            best = terms
    assert best is not None
    return best


def _logarithm_rate(inside: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    """Return the rate of log(inside): 0 where `inside` neither grows nor falls faster than an exponential."""
    if isinstance(inside, sp.exp):
        return growth_rate(inside.args[0], variables)
    if inside.is_Pow and inside.exp.is_number:
        return sp.Abs(inside.exp) * _logarithm_rate(inside.base, variables)
    if isinstance(inside, _BOUNDED) and growth_rate(inside.args[0], variables) != 0:
        # It may vanish as fast as anything.
        return sp.oo
    if inside.is_Mul:
        # The sum of the logarithms of its factors.
        return sp.Max(0, *(_logarithm_rate(part, variables) for part in inside.args))
    are_positive = inside.is_Add and all(part.is_positive for part in inside.args)
    if growth_rate(inside, variables) != sp.oo:
        # A sum falls no faster than each of its terms. Where a distribution function vanishes its logarithm falls like
        # a square.
        return sp.Min(*(_logarithm_rate(part, variables) for part in inside.args)) if are_positive else sp.Integer(0)
    return sp.Max(0, *(_logarithm_rate(part, variables) for part in inside.args)) if are_positive else sp.oo


# ---- exponentials and inverses ---------------------------------------------------------------------------


def _exponential_terms(exponent: sp.Expr, variables: Sequence[sp.Symbol]) -> _Terms:
    """Return the terms of the exponential of an expanded exponent."""
    if not exponent.is_polynomial(*variables):
        return _terms_of_exponents(exponent, variables)
    polynomial = sp.Poly(exponent, *variables)
    if len(variables) == 1 and polynomial.degree() > 1:
        # The leading power decides: exp(-x^2 + 5 x) is bounded.
        leading = polynomial.LC()
        if polynomial.degree() % 2 or not leading.is_nonpositive:
            return _sized((sp.oo,))
        # exp(-t^2 x^2 + 5 x) is, too, but for t = 0.
        at_zero = [exponent.xreplace({symbol: sp.Integer(0)}) for symbol in _vanishing(leading)]
        return _union((_sized((0,)), *(_exponential_terms(_limits.expand(one), variables) for one in at_zero)))
    falls = polynomial.total_degree() == 2 and sp.hessian(exponent, variables).is_negative_semidefinite
    weights = [sp.Integer(0)] * len(variables)
    for powers, coefficient in polynomial.terms():
        degree = sum(powers)
        if degree == 1:
            weights[powers.index(1)] = sp.re(coefficient)
        elif degree > 1 and not (falls or (all(power % 2 == 0 for power in powers) and coefficient.is_nonpositive)):
            return _sized((sp.oo,) * len(variables))
    return (GrowthTerm(tuple(weights), (sp.Integer(0),) * len(variables)),)


def _vanishing(coefficient: sp.Expr) -> list[sp.Symbol]:
    """Return symbols of which one is 0 where a coefficient of one sign is."""
    if coefficient.is_nonzero:
        return []
    if coefficient.is_Add:
        # All terms are 0 there, and so is the first.
        return _vanishing(coefficient.args[0])
    if coefficient.is_Mul:
        return [symbol for factor in coefficient.args for symbol in _vanishing(factor)]
    base = coefficient.base if coefficient.is_Pow else coefficient
    return [base] if base.is_Symbol else []


def _terms_of_exponents(exponent: sp.Expr, variables: Sequence[sp.Symbol]) -> _Terms:
    """Return the terms of the exponential of what is no polynomial.

    One variable is followed along its axis. Several may grow together, along any line: there each summand is bounded
    by itself, those of one variable together.
    """
    present = [variable for variable in variables if exponent.has(variable)]
    if len(present) == 1:
        return _terms_of_sides(lambda side: _range_of(exponent, present[0], side)[1], present[0], variables)
    if exponent.is_Add:
        return _product(
            (_exponential_terms(part, variables) for part in _summands(exponent, variables)),
            _sized((0,) * len(variables)),
        )
    factor, function = exponent.as_independent(*variables, as_Add=False)
    if factor.is_positive:
        return _power(_terms_of_function(function, variables, 1), factor)
    if factor.is_negative:
        return _power(_terms_of_function(function, variables, -1), -factor)
    return _sized((sp.oo,) * len(variables))


def _summands(exponent: sp.Expr, variables: Sequence[sp.Symbol]) -> list[sp.Expr]:
    """Return the summands of an exponent, those of one variable together, and those of a form of several."""
    polynomial, rest = sp.sift(exponent.args, lambda part: bool(part.is_polynomial(*variables)), binary=True)
    groups: dict[object, list[sp.Expr]] = {}
    is_form = any(len(part.free_symbols & {*variables}) > 1 for part in polynomial)
    for part in polynomial:
        key = frozenset(part.free_symbols & {*variables})
        groups.setdefault("form" if is_form else key, []).append(part)
    for part in rest:
        key = frozenset(part.free_symbols & {*variables})
        groups.setdefault(key if len(key) == 1 else part, []).append(part)
    return [sp.Add(*parts) for parts in groups.values()]


def _terms_of_function(function: sp.Expr, variables: Sequence[sp.Symbol], sign: int) -> _Terms:
    """Return the terms of exp(function), or of exp(-function), for a function of several variables."""
    flat = _sized((0,) * len(variables))
    if isinstance(function, _BOUNDED):
        return flat
    if isinstance(function, sp.log):
        inside = function.args[0]
        return growth_terms(inside, variables) if sign == 1 else _terms_of_inverse(1 / inside, variables)
    if not isinstance(function, (softplus, logsumexp, sp.Max, sp.Min, sp.Abs)):
        return _sized((sp.oo,) * len(variables))
    parts = [_limits.expand(sign * part) for part in function.args]
    if isinstance(function, sp.Abs):
        parts = [parts[0], -parts[0]] if sign == 1 else [sp.Integer(0)]
    elif isinstance(function, softplus):
        # log(1 + e^x) is between max(0, x) and that and log 2.
        parts.append(sp.Integer(0))
    bounds = (_exponential_terms(part, variables) for part in parts)
    # The largest of several has the terms of all; the least of them is below each.
    is_largest = (sign == 1) != isinstance(function, sp.Min)
    return _union(bounds) if is_largest or isinstance(function, sp.Abs) else _least(bounds)


def _terms_of_inverse(power: sp.Expr, variables: Sequence[sp.Symbol]) -> _Terms:
    """Return the terms of a power whose exponent is not known to be positive.

    Of several variables, which may grow together, the inverse of a sum of numbers of one sign is at most that of each.
    """
    present = [variable for variable in variables if power.has(variable)]
    if len(present) == 1:
        return _terms_of_sides(lambda side: _size_of(power, present[0], side)[1], present[0], variables)
    if not power.is_Pow or power.exp.is_positive:
        return growth_terms(power, variables)
    base = power.base if power.exp.is_negative else sp.Integer(0)
    if base.is_Add and all(part.is_nonnegative for part in base.args):
        # Parts that may be 0 bound nothing.
        return _least(
            growth_terms(part**power.exp, variables) if part.is_positive else _sized((sp.oo,) * len(variables))
            for part in base.args
        )
    if base.is_Mul:
        return _product((growth_terms(part**power.exp, variables) for part in base.args), _sized((0,) * len(variables)))
    return _sized((sp.oo,) * len(variables))


def _terms_of_sides(rate: Callable[[int], sp.Expr], variable: sp.Symbol, variables: Sequence[sp.Symbol]) -> _Terms:
    """Return one term with the larger of the rates along both halves of the axis of a variable, at least 0."""
    rates = [rate(side) for side in (1, -1)]
    width = sp.Max(0, *rates) if all(found.is_extended_real for found in rates) else sp.oo
    return _sized([width if one == variable else 0 for one in variables])


def _size_of(expression: sp.Expr, x: sp.Symbol, side: int) -> _Rates:
    """Return (a, b) with |f| between the exponentials of a |x| and b |x|, up to powers of x, on a half of the axis."""
    if not expression.has(x):
        return sp.Integer(0), sp.Integer(0)
    if expression.is_polynomial(x):
        return sp.Integer(0), sp.Integer(0)
    if isinstance(expression, sp.exp):
        return _range_of(_limits.expand(expression.args[0]), x, side)
    if expression.is_Mul:
        sizes = [_size_of(part, x, side) for part in expression.args]
        return _sum(low for low, _ in sizes), _sum(-high for _, high in sizes) * -1
    if expression.is_Add:
        sizes = [_size_of(part, x, side) for part in expression.args]
        high = sp.Max(*(high for _, high in sizes))
        if all(part.is_nonnegative for part in expression.args):
            return sp.Max(*(low for low, _ in sizes)), high
        for place, (low, _) in enumerate(sizes):
            # What grows faster than all the rest together decides.
            if all(low > other for at, (_, other) in enumerate(sizes) if at != place):
                return low, high
        return -sp.oo, high
    if expression.is_Pow and expression.exp.is_number and expression.exp.is_real:
        low, high = _size_of(expression.base, x, side)
        found = (expression.exp * low, expression.exp * high)
        return found if expression.exp.is_positive else (found[1], found[0])
    return -sp.oo, growth_rate(expression, (x,))


def _range_of(expression: sp.Expr, x: sp.Symbol, side: int) -> _Rates:
    """Return (a, b) with f between a |x| and b |x|, up to what grows less, on one half of the axis."""
    if not expression.has(x):
        return sp.Integer(0), sp.Integer(0)
    if expression.is_polynomial(x):
        polynomial = sp.Poly(expression, x)
        leading = polynomial.LC() * side ** polynomial.degree()
        if polynomial.degree() == 1 or not (leading.is_positive or leading.is_negative):
            return (leading, leading) if polynomial.degree() == 1 else _UNKNOWN
        end = sp.oo if leading.is_positive else -sp.oo
        return end, end
    if expression.is_Add:
        # Powers together: the leading one decides.
        rest, polynomial = sp.sift(expression.args, lambda part: bool(part.is_polynomial(x)), binary=True)[::-1]
        ranges = [_range_of(part, x, side) for part in (*rest, *([sp.Add(*polynomial)] if polynomial else []))]
        return _sum(low for low, _ in ranges), -1 * _sum(-high for _, high in ranges)
    factor, function = expression.as_independent(x, as_Add=False)
    if factor != 1:
        low, high = _range_of(function, x, side)
        if factor.is_positive:
            return factor * low, factor * high
        return (factor * high, factor * low) if factor.is_negative else _UNKNOWN
    if isinstance(function, sp.log):
        return _size_of(function.args[0], x, side)
    if isinstance(function, softplus):
        low, high = _range_of(_limits.expand(function.args[0]), x, side)
        return sp.Max(0, low), sp.Max(0, high)
    if isinstance(function, _BOUNDED):
        return sp.Integer(0), sp.Integer(0)
    if isinstance(function, (sp.Max, sp.Min)):
        ranges = [_range_of(part, x, side) for part in function.args]
        choose = sp.Max if isinstance(function, sp.Max) else sp.Min
        return choose(*(low for low, _ in ranges)), choose(*(high for _, high in ranges))
    if isinstance(function, sp.Abs):
        low, high = _range_of(_limits.expand(function.args[0]), x, side)
        return sp.Max(0, low, -high), sp.Max(-low, high)
    if isinstance(function, sp.exp):
        low, high = _range_of(_limits.expand(function.args[0]), x, side)
        # An exponential of what rises outgrows every line, one of what falls or stays vanishes or stays.
        return sp.oo if low.is_positive else sp.Integer(0), sp.Integer(0) if high.is_nonpositive else sp.oo
    return sp.Integer(0) if function.is_nonnegative else -sp.oo, sp.oo


def _sum(rates: Iterable[sp.Expr]) -> sp.Expr:
    """Return the sum of lower rates, which is not known where infinities of both signs meet."""
    found = sp.Add(*rates)
    return -sp.oo if found is sp.nan else found


def require_moment(rate: sp.Expr, what: str) -> None:
    """Raise where a growth rate is infinite: no noise with exponential tails has such a mean."""
    if rate in (sp.oo, sp.nan):
        raise NoExactCorrectionError(
            f"no exponential was found that bounds the growth of {what}, so that its mean under noise with exponential "
            "tails need not exist."
        )
