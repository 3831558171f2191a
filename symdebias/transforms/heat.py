"""The Weierstrass transform W_s f(u) = E f(u + N(0, s)) and its inverse, in closed form.

An expression is split into terms p(u) exp(a u + b u^2) h(u), p a polynomial and h either 1 or an error
function of a linear argument; each is transformed by these rules (theory of the heat flow):

    R1  W^-1 is linear
    R2  W^-1[u h] = (u - s d/du) W^-1[h]
    R3  W_s^-1[e^{au + bu^2} h](u) = (1+2bs)^{-1/2} exp((b u^2 + a u - a^2 s/2)/(1+2bs))
                                     (W_{s'}^-1 h)((u - a s)/(1+2bs)),   s' = s/(1+2bs)
    R4  W_s^-1[erf(alpha u + beta)] = erf((alpha u + beta)/sqrt(1 - 2 alpha^2 s))

Trigonometric and hyperbolic functions enter as exponentials with complex a. The forward transform is the
same calculus with -s in place of s.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import sympy as sp

from symdebias import _limits
from symdebias.codegen.functions import LOW_POWER, erf_imag, erf_real, heat_power
from symdebias.codegen.stable import exponents_of_sum, multiplied_out
from symdebias.exceptions import NoExactCorrectionError
from symdebias.transforms.chirps import chirps
from symdebias.transforms.kinds import Kind, Transformed, positive

# Expanding (1 + u + e^u)^200 would hang; a loss that anybody writes has far fewer terms. Means are taken of squares of
# corrected losses, too.
_MOST_TERMS, _MOST_TERMS_OF_MEANS = 600, 4_000
# Beyond LOW_POWER, Hermite polynomials are evaluated by their recurrence. Beside waves and error functions they are
# written out, and cancel too many digits above the first power: rounding leaves 1e-9 of the values nearby there. Above
# the second one they overflow float64.
HIGHEST_WRITTEN_OUT, _HIGHEST_POWER = 32, 280

_AS_EXPONENTIALS = {
    sp.sin: lambda x: (sp.exp(sp.I * x) - sp.exp(-sp.I * x)) / (2 * sp.I),
    sp.cos: lambda x: (sp.exp(sp.I * x) + sp.exp(-sp.I * x)) / 2,
    sp.sinh: lambda x: (sp.exp(x) - sp.exp(-x)) / 2,
    sp.cosh: lambda x: (sp.exp(x) + sp.exp(-x)) / 2,
    sp.erfc: lambda x: 1 - sp.erf(x),
}


def inverse_heat(expression: sp.Expr, variable: sp.Symbol, variance: sp.Expr) -> Transformed:
    """Return W_s^-1 of an expression in closed form, s the noise variance of the variable.

    The result g is unbiased: E g(u + N(0, s)) = f(u) for every u.

    Parameters
    ----------
    expression : sympy.Expr
        A sum of products of polynomials, exponentials of at most quadratic argument, sin, cos, sinh, cosh
        of linear argument and at most one error function of linear argument per term.
    variable : sympy.Symbol
        The noised variable u.
    variance : sympy.Expr
        The noise variance s, non-negative.

    Returns
    -------
    Transformed
        The closed form with its conditions: 1 + 2 b s > 0 per Gaussian factor exp(b u^2), c^2 > s per
        error function erf(u/(c sqrt 2)); for b > 0 a finite variance also needs 2 b s < 1.

    Raises
    ------
    NoExactCorrectionError
        No closed form was found; the message names the part without one.

    References
    ----------
    Stefanski 1989, Theorem 1 (corrected scores by inverse heat flow); Dufraiche et al. 2026, Section 4.

    Examples
    --------
    >>> u, s = sp.symbols("u s", positive=True)
    >>> inverse_heat(u**4, u, s).expression
    3*s**2 - 6*s*u**2 + u**4
    """
    return _flow(expression, variable, variance, _MOST_TERMS)


def heat(expression: sp.Expr, variable: sp.Symbol, variance: sp.Expr) -> Transformed:
    """Return W_s of an expression in closed form: the mean of f(u + N(0, s)).

    Parameters
    ----------
    expression, variable, variance
        As for `inverse_heat`.

    Returns
    -------
    Transformed
        The closed form with its conditions: 1 - 2 b s > 0 per Gaussian factor exp(b u^2).

    Raises
    ------
    NoExactCorrectionError
        No closed form was found.

    Examples
    --------
    >>> u, s = sp.symbols("u s", positive=True)
    >>> heat(sp.exp(u), u, s).expression
    exp(s/2 + u)
    """
    forward = _flow(expression, variable, -variance, _MOST_TERMS_OF_MEANS)
    return Transformed(forward.expression, forward.conditions)


def classified_terms(
    expression: sp.Expr, variable: sp.Symbol
) -> Iterator[tuple[sp.Expr, int, sp.Expr, sp.Expr, sp.Expr, bool]]:
    """Split an expression into terms coefficient u^n exp(i phase + a u + b u^2) erf(.).

    Yields
    ------
    tuple
        (coefficient, n, phase, a, b, whether there is an error function); a is complex for sines and cosines.

    Raises
    ------
    NoExactCorrectionError
        A term is of another form; the message names the part.
    """
    for term in _terms(expression, variable, _MOST_TERMS):
        coefficient, power, kind = _classify(term, variable)
        if sp.im(kind.quadratic) != 0:
            raise _oscillating(term, variable)
        yield coefficient, power, kind.phase, kind.linear, kind.quadratic, kind.erf is not None


def joint_inverse_heat(expression: sp.Expr, variables: Sequence[sp.Symbol], covariance: sp.Matrix) -> Transformed:
    """Return exp(-1/2 sum S_ij d_i d_j) of an expression, for normal noise with covariance S, in closed form.

    Terms are polynomials times exp(a'x + x'Bx), with (Gaussian-polynomial rule)

        W^-1[exp(a'x + x'Bx)] = det(M)^(-1/2) exp(a'x + x'Bx - (a + 2Bx)' M^-1 S (a + 2Bx)/2),  M = I + 2 S B
        W^-1[x_i h] = (x_i - sum_j S_ij d_j) W^-1[h]

    Parameters
    ----------
    expression : sympy.Expr
        The expression.
    variables : sequence of sympy.Symbol
        The noised variables x.
    covariance : sympy.Matrix
        S, symmetric.

    Returns
    -------
    Transformed
        The closed form; it exists where all eigenvalues of M are positive, that is where the elementary symmetric
        functions of them are, and has finite variance where those of I - 2 S B are too.

    Raises
    ------
    NoExactCorrectionError
        A term is of another form.

    Examples
    --------
    >>> x, y, c = sp.symbols("x y c", real=True)
    >>> joint_inverse_heat(x * y, (x, y), sp.Matrix([[1, c], [c, 1]])).expression
    -c + x*y
    """
    variables = tuple(variables)
    for function, exponentials in _AS_EXPONENTIALS.items():
        if function is not sp.erfc:
            expression = expression.replace(
                lambda node, function=function: isinstance(node, function) and node.has(*variables),
                lambda node, exponentials=exponentials: exponentials(*node.args),
            )
    if _limits.most_terms(expression) > _MOST_TERMS:
        raise NoExactCorrectionError(
            f"the expression multiplies out to more than {_MOST_TERMS} terms, and the derivation gives up there. "
            "Write the loss with fewer factors or lower powers."
        )
    groups: dict[sp.Expr, sp.Expr] = defaultdict(lambda: sp.Integer(0))
    for term in sp.Add.make_args(_limits.expand(expression)):
        polynomial, exponent = _split_exponential(term, variables)
        groups[exponent] += polynomial
    total = sp.Integer(0)
    conditions: list[sp.Rel] = []
    variance_conditions: list[sp.Rel] = []
    for exponent, polynomial in groups.items():
        flowed, needed, needed_for_variance = _joint_group(polynomial, exponent, variables, covariance)
        total += flowed
        conditions += needed
        variance_conditions += needed_for_variance
    real = sp.re(total) if total.has(sp.I) else total
    if real.has(sp.re, sp.im):
        real = sp.expand(total, complex=True).as_real_imag()[0]
    return Transformed(real, _distinct(conditions), _distinct(variance_conditions))


def _split_exponential(term: sp.Expr, variables: Sequence[sp.Symbol]) -> tuple[sp.Expr, sp.Expr]:
    """Split a term into a polynomial and the exponent of an exponential."""
    polynomial, exponent = sp.Integer(1), sp.Integer(0)
    for factor in sp.Mul.make_args(term):
        if isinstance(factor, sp.exp) and factor.has(*variables):
            exponent += factor.args[0]
        elif factor.is_polynomial(*variables):
            polynomial *= factor
        else:
            raise NoExactCorrectionError(f"no closed form was found for {factor}: {_obstacle(factor, variables[0])}")
    exponent = _limits.expand(exponent)
    if not exponent.is_polynomial(*variables) or sp.Poly(exponent, *variables).total_degree() > 2:
        raise NoExactCorrectionError(
            f"no closed form was found for {term}: {exponent} is not a polynomial of degree 2 or less in "
            f"{', '.join(map(str, variables))}."
        )
    return polynomial, exponent


def _joint_group(
    polynomial: sp.Expr, exponent: sp.Expr, variables: Sequence[sp.Symbol], covariance: sp.Matrix
) -> tuple[sp.Expr, list[sp.Rel], list[sp.Rel]]:
    count = len(variables)
    gradient = sp.Matrix([sp.diff(exponent, variable) for variable in variables])
    half = sp.hessian(exponent, variables) / 2 if exponent.has(*variables) else sp.zeros(count)
    conditions: list[sp.Rel] = []
    variance_conditions: list[sp.Rel] = []
    widths = sp.eye(count) + 2 * covariance * half
    flowed = exponent - (gradient.T * widths.inv() * covariance * gradient)[0, 0] / 2
    scale = sp.Integer(1)
    if half != sp.zeros(count):
        if half.has(sp.I):
            raise NoExactCorrectionError("no closed form was found: an exponential oscillates with a square.")
        scale = 1 / sp.sqrt(widths.det())
        conditions = _all_positive(widths)
        variance_conditions = _all_positive(sp.eye(count) - 2 * covariance * half)
    flowed = _limits.expand(flowed) if half == sp.zeros(count) else flowed
    slopes = [sp.diff(flowed, variable) for variable in variables]
    result = sp.Integer(0)
    if any(entry != 0 and not (-entry).is_nonnegative for entry in covariance.diagonal()):
        require_low_power(int(sp.Poly(polynomial, *variables).total_degree()), " and ".join(map(str, variables)))
    # Every power of a variable applies its operator once more: Horner would save little here.
    for powers, coefficient in sp.Poly(polynomial, *variables).terms():
        part = sp.Integer(1)
        for index, power in enumerate(powers):
            for _ in range(power):
                moved = variables[index] * part
                for other, variable in enumerate(variables):
                    if covariance[index, other] != 0:
                        moved -= covariance[index, other] * (_limits.diff(part, variable) + part * slopes[other])
                part = _limits.expand(moved)
        result += coefficient * part
    return result * sp.exp(flowed) * scale, conditions, variance_conditions


def _all_positive(matrix: sp.Matrix) -> list[sp.Rel]:
    """Return what makes all of the (real) eigenvalues positive: the signs of the characteristic polynomial."""
    unknown = sp.Dummy("eigenvalue")
    coefficients = matrix.charpoly(unknown).all_coeffs()
    relations = []
    for order, coefficient in enumerate(coefficients[1:], start=1):
        value = _limits.expand((-1) ** order * coefficient)
        if not value.is_positive:
            relations.append(sp.Gt(value, 0))
    return relations


def _flow(expression: sp.Expr, variable: sp.Symbol, time: sp.Expr, most_terms: int) -> Transformed:
    # Denominators without the variable are constants here; expanding them would spoil the terms.
    constants: dict[sp.Expr, sp.Symbol] = {
        node: sp.Dummy(real=True)
        for node in expression.atoms(sp.Pow)
        if not (node.has(variable) or node.is_number or node.exp.is_nonnegative)
    }
    values = {symbol: node for node, symbol in constants.items()}
    groups: dict[Kind, dict[int, sp.Expr]] = defaultdict(lambda: defaultdict(lambda: sp.Integer(0)))
    seen: dict[Kind, sp.Expr] = {}
    powers, rest = _high_powers(expression.xreplace(constants), variable, time)
    for term in _terms(rest, variable, most_terms):
        coefficient, power, kind = _classify(term, variable)
        groups[kind][power] += coefficient.xreplace(values)
        seen.setdefault(kind, term)
    result = sp.Add(
        *(
            coefficient.xreplace(values) * heat_power(power, base.xreplace(values), noise.xreplace(values))
            for coefficient, power, base, noise in powers
        )
    )
    conditions: list[sp.Rel] = []
    variance_conditions: list[sp.Rel] = []
    for kind, coefficients in groups.items():
        answers = (rule(kind.xreplace(values), coefficients, variable, time) for rule in _RULES)
        flowed = next((answer for answer in answers if answer is not None), None)
        if flowed is None:
            raise _oscillating(seen[kind], variable)
        result += flowed.expression
        conditions += flowed.conditions
        variance_conditions += flowed.variance_conditions
    return Transformed(result, _distinct(conditions), _distinct(variance_conditions))


def _high_powers(
    expression: sp.Expr, variable: sp.Symbol, time: sp.Expr
) -> tuple[list[tuple[sp.Expr, int, sp.Expr, sp.Expr]], sp.Expr]:
    """Take the terms c (a u + b)^n of a high n out of a sum; return (c, n, a u + b, a^2 s) for each, and what is left.

    Noise on such a power that was undone in another variable adds up: `heat_power` stays one.
    """
    found, rest = [], []
    for term in sp.Add.make_args(expression):
        coefficient, power = term.as_independent(variable, as_Add=False)
        base, exponent = power.as_base_exp()
        before = sp.Integer(0)
        if isinstance(power, heat_power):
            exponent, base, before = power.args
        if (
            (power.is_Pow or isinstance(power, heat_power))
            and exponent.is_Integer
            and exponent > LOW_POWER
            and base.is_polynomial(variable)
            and sp.degree(base, variable) == 1
            and sp.diff(base, variable).is_number
            and not before.has(variable)
        ):
            if exponent > _HIGHEST_POWER:
                raise NoExactCorrectionError(
                    f"the power {exponent} in {term} is too high: the coefficients of its correction are no numbers of "
                    f"float64 beyond the power {_HIGHEST_POWER}. Write the loss with lower powers."
                )
            found.append((coefficient, int(exponent), base, before + sp.diff(base, variable) ** 2 * time))
        else:
            rest.append(term)
    return found, multiplied_out(sp.Add(*rest))


def require_low_power(power: int, of: str) -> None:
    """Raise where the correction of a power is written out, and rounding would leave too little of it.

    Raises
    ------
    NoExactCorrectionError
        It is above 32.
    """
    if power > HIGHEST_WRITTEN_OUT:
        raise NoExactCorrectionError(
            f"the power {power} of {of} is too high: its correction is a sum of terms of either sign, which cancel so "
            f"many digits that float64 has too few left above the power {HIGHEST_WRITTEN_OUT}. Write the loss with "
            "lower powers."
        )


def _distinct(conditions: Iterable[sp.Rel]) -> tuple[sp.Rel, ...]:
    return tuple(dict.fromkeys(condition for condition in conditions if condition != sp.true))


def _terms(expression: sp.Expr, variable: sp.Symbol, most_terms: int) -> Iterator[sp.Expr]:
    for function, exponentials in _AS_EXPONENTIALS.items():
        expression = expression.replace(
            lambda node, function=function: isinstance(node, function) and node.has(variable),
            lambda node, exponentials=exponentials: exponentials(*node.args),
        )
    if _limits.most_terms(expression) > most_terms:
        raise NoExactCorrectionError(
            f"the expression multiplies out to more than {most_terms} terms in {variable}, and the "
            "derivation gives up there. Write the loss with fewer factors or lower powers."
        )
    yield from sp.Add.make_args(_limits.expand(expression))


def _classify(term: sp.Expr, variable: sp.Symbol) -> tuple[sp.Expr, int, Kind]:
    """Split a term into (coefficient, power of u, kind)."""
    coefficient = sp.Integer(1)
    power = 0
    exponent = sp.Integer(0)
    erf: tuple[sp.Expr, sp.Expr] | None = None
    for factor in sp.Mul.make_args(term):
        if not factor.has(variable):
            coefficient *= factor
        elif factor == variable:
            power += 1
        elif factor.is_Pow and factor.base == variable and factor.exp.is_Integer and factor.exp > 0:
            power += int(factor.exp)
        elif isinstance(factor, sp.exp):
            exponent += factor.args[0]
        elif factor.is_Pow and factor.base.is_positive and not factor.base.has(variable):
            exponent += factor.exp * sp.log(factor.base)
        elif isinstance(factor, sp.erf) and erf is None:
            beta, alpha = _polynomial(factor.args[0], variable, degree=1, within=factor)
            erf = (alpha, beta)
        else:
            raise NoExactCorrectionError(f"no closed form was found for {factor}: {_obstacle(factor, variable)}")
    constant, linear, quadratic = _polynomial(exponent, variable, degree=2, within=term)
    growth, phase = constant.as_real_imag()
    return coefficient * sp.exp(growth), power, Kind(phase, linear, quadratic, erf)


_KINKS = (sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside, sp.Piecewise)


def singularity(node: sp.Expr, variable: sp.Symbol) -> str | None:
    """Return what keeps one function in an expression from being entire, or None where nothing was found."""
    if isinstance(node, _KINKS):
        return f"a kink or a jump in {variable}" if node.has(variable) else None
    vanishing, points = sp.Integer(1), ""
    if isinstance(node, sp.log):
        vanishing, points = node.args[0], "branch points"
    elif isinstance(node, sp.tanh):
        vanishing, points = 1 + sp.exp(2 * node.args[0]), "poles"
    elif node.is_Pow and node.exp.is_Rational and not (node.exp.is_Integer and node.exp > 0):
        vanishing, points = node.base, "poles" if node.exp.is_Integer else "branch points"
    zeros = _complex_zeros(vanishing, variable)
    where = " and ".join(str(zero) for zero in zeros[:2])
    return f"{points} at {variable} = {where}" if zeros else None


def _oscillating(term: sp.Expr, variable: sp.Symbol) -> NoExactCorrectionError:
    return NoExactCorrectionError(f"no closed form was found for {term}: it oscillates with the square of {variable}.")


def _obstacle(factor: sp.Expr, variable: sp.Symbol) -> str:
    """Say why a factor has no closed form; a function that is not entire has no correction of any form."""
    if factor.has(*_KINKS):
        return f"it has a kink or a jump in {variable}, and only entire functions have an exact correction."
    found = singularity(factor, variable)
    if found is not None:
        return f"it is not entire ({found}), so that it has no exact correction."
    return (
        "it is neither a polynomial, an exponential of a quadratic, a sine, cosine or hyperbolic function of a "
        "linear argument, nor the only error function of a linear argument in its term."
    )


def _complex_zeros(expression: sp.Expr, variable: sp.Symbol) -> list[sp.Expr]:
    """Return some zeros of a polynomial, or of a sum of two exponentials of linear arguments."""
    if not expression.has(variable):
        return []
    if expression.is_polynomial(variable):
        return list(sp.roots(expression, variable))
    exponents = exponents_of_sum(_limits.expand(expression))
    if exponents is None:
        return []
    difference = exponents[1] - exponents[0]
    if not difference.is_polynomial(variable) or sp.degree(difference, variable) != 1:
        return []
    constant, slope = sp.Poly(difference, variable).all_coeffs()[::-1]
    return [(sign * sp.I * sp.pi - constant) / slope for sign in (1, -1)]


def _polynomial(expression: sp.Expr, variable: sp.Symbol, *, degree: int, within: sp.Expr) -> tuple[sp.Expr, ...]:
    """Return the coefficients of a polynomial of at most the given degree, constant first."""
    if expression.is_polynomial(variable):
        coefficients = sp.Poly(expression, variable).all_coeffs()[::-1]
        if len(coefficients) <= degree + 1:
            return tuple(coefficients) + (sp.Integer(0),) * (degree + 1 - len(coefficients))
    raise NoExactCorrectionError(
        f"no closed form was found for {within}: {expression} is not a polynomial of degree {degree} or "
        f"less in {variable}."
    )


def _gaussian(
    kind: Kind, coefficients: Mapping[int, sp.Expr], variable: sp.Symbol, time: sp.Expr
) -> Transformed | None:
    """Return R2, R3 and R4 of real exponentials of squares, times waves and error functions."""
    a, b = kind.linear, kind.quadratic
    if sp.im(b) != 0:
        return None
    conditions: list[sp.Rel] = []
    variance_conditions: list[sp.Rel] = []
    # Symbols declared positive stand for what the conditions make positive, so that SymPy may take roots.
    widths: dict[sp.Symbol, sp.Expr] = {}
    width = sp.Integer(1)
    if b != 0:
        width = sp.Dummy("q", positive=True)
        widths[width] = _limits.expand(1 + 2 * b * time)
        conditions.append(positive(widths[width]))
        if not (-b * time).is_nonnegative:
            variance_conditions.append(positive(_limits.expand(1 - 2 * b * time)))
    inner_time = time / width
    argument = (variable - a * time) / width
    inner = sp.Dummy("v", real=True)
    h = sp.Integer(1)
    if kind.erf is not None:
        alpha, beta = kind.erf
        erf_width = sp.Dummy("r", positive=True)
        total_width = _limits.expand((1 + 2 * b * time) - 2 * alpha**2 * time)
        widths[erf_width] = total_width / width
        conditions.append(positive(total_width))
        h = sp.erf((alpha * inner + beta) / sp.sqrt(erf_width))
    exponent = _limits.expand(sp.I * kind.phase * width + b * variable**2 + a * variable - a**2 * time / 2) / width
    real = sp.im(a) == 0 and kind.phase == 0
    highest = max(coefficients)
    if highest > LOW_POWER and real and kind.erf is None:
        powers = (c * heat_power(sp.Integer(n), argument, inner_time) for n, c in coefficients.items())
        result = sp.Add(*powers) * sp.exp(exponent) / sp.sqrt(width)
        return Transformed(_with_widths(result, widths), tuple(conditions), tuple(variance_conditions))
    if not (-time).is_nonnegative:
        require_low_power(highest, f"{variable} beside a wave or an error function")
    polynomial = sp.Integer(0)
    for power in range(highest, -1, -1):
        raised = inner * polynomial - inner_time * _limits.diff(polynomial, inner)
        polynomial = _limits.expand(raised + coefficients.get(power, sp.Integer(0)) * h)
    if real:
        result = polynomial.xreplace({inner: argument}) * sp.exp(exponent) / sp.sqrt(width)
    else:
        # The conjugate terms make the sum real, so that the real part of each is enough.
        growth, phase = exponent.as_real_imag()
        cosine, sine = _parts_at(polynomial, inner, argument)
        result = sp.exp(growth) * (cosine * sp.cos(phase) - sine * sp.sin(phase)) / sp.sqrt(width)
    return Transformed(_with_widths(result, widths), tuple(conditions), tuple(variance_conditions))


# Each takes the terms of one kind, or returns None; the first that takes them undoes their noise.
_RULES = (_gaussian, chirps)


def _with_widths(result: sp.Expr, widths: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    # The inner width refers to the outer one: substitute in reverse.
    for symbol in reversed(list(widths)):
        result = result.xreplace({symbol: widths[symbol]})
    return result


def _parts_at(polynomial: sp.Expr, inner: sp.Symbol, argument: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Return the real and imaginary parts of a polynomial with error functions at a complex argument."""
    values: dict[sp.Symbol, sp.Expr] = {}
    held = {}
    for node in polynomial.atoms(sp.erf, sp.exp):
        real, imaginary = sp.symbols("real imaginary", cls=sp.Dummy, real=True)
        held[node] = real + sp.I * imaginary
        x, y = _limits.expand(node.args[0].xreplace({inner: argument})).as_real_imag()
        if isinstance(node, sp.erf):
            values[real], values[imaginary] = erf_real(x, y), erf_imag(x, y)
        else:
            values[real], values[imaginary] = sp.exp(x) * sp.cos(y), sp.exp(x) * sp.sin(y)
    parts = _limits.expand(polynomial.xreplace(held).xreplace({inner: argument})).as_real_imag()
    return parts[0].xreplace(values), parts[1].xreplace(values)
