"""Rewrite expressions to forms that neither overflow nor cancel.

`rewrite` brings sums of two exponentials under a logarithm or in a denominator to `softplus` and `expit`, logarithms of
hyperbolic cosines to `softplus` as well, and those of the normal distribution function to `log_normal_cdf`. It runs
before differentiation, so that derivatives of every order are polynomials in `expit`, or in the inverse Mills ratio and
its excess.
"""

import functools

import sympy as sp

from symdebias import _limits
from symdebias.codegen.functions import (
    erf_imag,
    erf_real,
    expit,
    heat_power,
    inverse_mills,
    largest,
    log_normal_cdf,
    logistic_density,
    logsumexp,
    mills_excess,
    softmax_part,
    softplus,
)

_NORMAL = (log_normal_cdf, inverse_mills, mills_excess)


def rewrite(expression: sp.Expr) -> sp.Expr:
    """Rewrite log(a + b) and 1/(a + b), a and b positive exponentials, log cosh and log Phi so that none overflow.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> rewrite(sp.log(1 + sp.exp(u)))
    softplus(u)
    >>> rewrite(sp.exp(u) / (1 + sp.exp(u)))
    expit(u)
    >>> rewrite(sp.log(sp.erfc(-u / sp.sqrt(2)) / 2))
    log_normal_cdf(u)
    """
    _limits.check(expression)
    expression = expression.replace(_is_logarithm_of_normal, _to_log_normal_cdf)
    expression = expression.replace(_is_logarithm_of_many, _to_logsumexp)
    return _rewrite_inverse_sums(expression.replace(_is_logarithm_of_sum, _to_softplus))


def plain(expression: sp.Expr) -> sp.Expr:
    """Undo `rewrite`: return the textbook form in SymPy's own functions, for reading.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> plain(softplus(u))
    log(exp(u) + 1)
    """
    return (
        multiplied_out(expression)
        .replace(softplus, lambda x: sp.log(1 + sp.exp(x)))
        .replace(expit, lambda x: 1 / (1 + sp.exp(-x)))
        .replace(logistic_density, lambda x: sp.exp(-x) / (1 + sp.exp(-x)) ** 2)
        .replace(lambda node: isinstance(node, _NORMAL), lambda node: node.rewrite(sp.erfc))
        .replace(logsumexp, lambda *x: sp.log(sp.Add(*map(sp.exp, x))))
        .replace(softmax_part, lambda k, *x: sp.exp(x[int(k)]) / sp.Add(*map(sp.exp, x)))
        .replace(erf_real, lambda x, y: sp.re(sp.erf(x + sp.I * y)))
        .replace(erf_imag, lambda x, y: sp.im(sp.erf(x + sp.I * y)))
    )


def multiplied_out(expression: sp.Expr) -> sp.Expr:
    """Write the Hermite polynomials of `heat_power` as sums of powers.

    Examples
    --------
    >>> u, s = sp.symbols("u s", real=True)
    >>> sp.degree(multiplied_out(heat_power(10, u, s)), u)
    10
    """
    return expression.xreplace({node: node.written_out() for node in expression.atoms(heat_power)})


def with_maximum(expression: sp.Expr) -> sp.Expr:
    """Write logsumexp and softmax_part with the largest argument taken out, so that nothing overflows.

    Examples
    --------
    >>> u, v = sp.symbols("u v", real=True)
    >>> with_maximum(logsumexp(u, v))
    largest(u, v) + log(exp(u - largest(u, v)) + exp(v - largest(u, v)))
    """
    while nodes := expression.atoms(logsumexp, softmax_part):
        expression = expression.xreplace({node: _with_maximum(node) for node in nodes})
    return expression


@functools.lru_cache(maxsize=16)
def _scaled(arguments: tuple[sp.Expr, ...]) -> tuple[sp.Expr, sp.Expr]:
    """Return the largest argument, and the sum of exponentials of all without it."""
    most = largest(*arguments)
    return most, sp.Add(*(sp.exp(x - most) for x in arguments))


@functools.lru_cache(maxsize=256)
def _with_maximum(node: sp.Expr) -> sp.Expr:
    arguments = node.args if isinstance(node, logsumexp) else node.args[1:]
    most, total = _scaled(arguments)
    if isinstance(node, logsumexp):
        return most + sp.log(total)
    return sp.exp(arguments[int(node.args[0])] - most) / total


@functools.lru_cache(maxsize=1024)
def in_logistic_density(expression: sp.Expr) -> sp.Expr:
    """Write a polynomial in expit(z) as A(w) + B(w) (1 - 2 expit(z)), w = expit(z) (1 - expit(z)), in Horner form.

    High derivatives of softplus are such polynomials; powers of expit cancel digits, these do not.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> in_logistic_density(sp.expand(sp.diff(softplus(u), u, 4)))
    (1 - 6*logistic_density(u))*logistic_density(u)
    """
    arguments = {node.args[0] for node in expression.atoms(expit, logistic_density)}
    if len(arguments) != 1:
        return expression
    (z,) = arguments
    # The other terms as coefficients of a polynomial take minutes.
    terms, others = sp.sift(sp.Add.make_args(expression), lambda term: term.has(expit, logistic_density), binary=True)
    e, d = sp.Dummy("e"), sp.Dummy("d")
    written = sp.Add(*terms).xreplace({expit(z): e, logistic_density(z): e * (1 - e)})
    if not written.is_polynomial(e) or sp.degree(written, e) < 3:
        return expression
    # In d = 1 - 2 expit(z), whose square is 1 - 4 w.
    powers = sp.Poly(written, e).replace(e, d).compose(sp.Poly((1 - d) / 2, d)).all_coeffs()[::-1]
    parts = [
        _horner(sp.Poly(part[::-1] or [0], d).compose(sp.Poly(1 - 4 * d, d)), logistic_density(z))
        for part in (powers[0::2], powers[1::2])
    ]
    return sp.Add(parts[0], parts[1] * (1 - 2 * expit(z)), *others)


def _horner(polynomial: sp.Poly, at: sp.Expr) -> sp.Expr:
    total = sp.Integer(0)
    for coefficient in polynomial.all_coeffs():
        total = total * at + sp.expand(coefficient)
    return total


def _of_normal(total: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """Return (c, x) with total = c Phi(x) and c > 0 a number, or None where it is no such product.

    Phi comes as erfc(-x/sqrt(2))/2 and, as SymPy turns signs round, as 1 - erfc(x/sqrt(2))/2 and (1 + erf(.))/2.
    """
    if not total.has(sp.erf, sp.erfc):
        return None
    (*others, node) = sorted(total.atoms(sp.erf, sp.erfc), key=sp.default_sort_key)
    if others:
        return None
    held = sp.Dummy("e")
    written = total.xreplace({node: held if isinstance(node, sp.erf) else 1 - held})
    if not written.is_polynomial(held) or sp.degree(written, held) != 1:
        return None
    slope, constant = sp.Poly(written, held).all_coeffs()
    if not (constant.is_number and constant.is_positive and slope.is_number):
        return None
    for sign in (1, -1):
        if constant == sign * slope:
            return 2 * constant, sign * sp.sqrt(2) * node.args[0]
    return None


def _is_logarithm_of_normal(node: sp.Basic) -> bool:
    return isinstance(node, sp.log) and _of_normal(node.args[0]) is not None


def _to_log_normal_cdf(node: sp.Expr) -> sp.Expr:
    found = _of_normal(node.args[0])
    assert found is not None
    scale, argument = found
    return sp.log(scale) + log_normal_cdf(sp.expand(argument))


def _is_logarithm_of_many(node: sp.Basic) -> bool:
    if not (isinstance(node, sp.log) and node.args[0].is_Add and len(node.args[0].args) > 2):
        return False
    return node.args[0].has(sp.exp) and all(_logarithm(term) is not None for term in node.args[0].args)


def _to_logsumexp(node: sp.Expr) -> sp.Expr:
    exponents = [_logarithm(term) for term in node.args[0].args]
    return logsumexp(*exponents)


def _logarithm(term: sp.Expr) -> sp.Expr | None:
    """Return log(term) for a positive constant times an exponential, and None for anything else."""
    exponent = sp.Integer(0)
    for factor in sp.Mul.make_args(term):
        if isinstance(factor, sp.exp):
            exponent += factor.args[0]
        elif factor.is_number and factor.is_positive:
            exponent += sp.log(factor)
        else:
            return None
    return exponent


def exponents_of_sum(total: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """Return (a, b) with total = e^a + e^b, or None where it is not a sum of two positive exponentials.

    Examples
    --------
    >>> u = sp.Symbol("u", real=True)
    >>> exponents_of_sum(1 + sp.exp(2 * u))
    (0, 2*u)
    """
    if not (total.is_Add and len(total.args) == 2 and total.has(sp.exp)):
        return None
    first, second = (_logarithm(term) for term in total.args)
    if first is None or second is None:
        return None
    return first, second


def _exponents_of_cosh(node: sp.Basic) -> tuple[sp.Expr, sp.Expr] | None:
    """Return (a, b) with e^a + e^b a positive constant times a hyperbolic cosine, or None for anything else."""
    (*others, last) = sorted(sp.Mul.make_args(node), key=lambda factor: isinstance(factor, sp.cosh))
    if not (isinstance(last, sp.cosh) and all(factor.is_number and factor.is_positive for factor in others)):
        return None
    constant, argument = sp.log(sp.Mul(*others) / 2), last.args[0]
    return constant + argument, constant - argument


def _exponents_under_logarithm(node: sp.Basic) -> tuple[sp.Expr, sp.Expr] | None:
    if not isinstance(node, sp.log):
        return None
    return exponents_of_sum(node.args[0]) or _exponents_of_cosh(node.args[0])


def _is_logarithm_of_sum(node: sp.Basic) -> bool:
    return _exponents_under_logarithm(node) is not None


def _to_softplus(node: sp.Expr) -> sp.Expr:
    exponents = _exponents_under_logarithm(node)
    assert exponents is not None
    first, second = exponents
    if second.is_number:
        first, second = second, first
    return first + softplus(second - first)


def _is_inverse_sum(node: sp.Basic) -> bool:
    return node.is_Pow and node.exp.is_Integer and node.exp.is_negative and exponents_of_sum(node.base) is not None


def _rewrite_inverse_sums(node: sp.Basic) -> sp.Basic:
    # Products before their factors: what stands beside an inverse decides how it is written.
    if node.is_Atom:
        return node
    inverses, others = sp.sift(sp.Mul.make_args(node), _is_inverse_sum, binary=True)
    if not inverses:
        return node.func(*(_rewrite_inverse_sums(argument) for argument in node.args))
    result = sp.Mul(*(_rewrite_inverse_sums(factor) for factor in others))
    for inverse in inverses:
        exponents = exponents_of_sum(inverse.base)
        assert exponents is not None
        first, second = exponents
        for _ in range(-int(inverse.exp)):
            # 1/(e^a + e^b) = e^-a expit(a - b): take out the term that cancels most of what is there
            candidates = [
                _times_exponential(result, -taken) * expit(taken - left)
                for taken, left in ((first, second), (second, first))
            ]
            result = min(candidates, key=lambda candidate: (candidate.count(sp.exp), candidate.count_ops()))
    return result


def _times_exponential(product: sp.Expr, exponent: sp.Expr) -> sp.Expr:
    """Return product times e^exponent as one exponential: SymPy leaves e^(a - b) e^(b - a) as it stands."""
    exponentials, others = sp.sift(sp.Mul.make_args(product), lambda factor: isinstance(factor, sp.exp), binary=True)
    if not any(isinstance(one.args[0], sp.Add) for one in exponentials) and not isinstance(exponent, sp.Add):
        return product * sp.exp(exponent)
    return sp.Mul(*others) * sp.exp(sp.expand(sp.Add(exponent, *(one.args[0] for one in exponentials))))
