"""Print SymPy expressions as lines of Python that Numba compiles.

SymPy is left here, once and for good: symbols are renamed before anything is printed (a symbol's name is
never code), node types outside a fixed list are refused, shared subexpressions are computed once, and what
does not depend on the record is moved in front of the loop over records.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy.printing.pycode import PythonCodePrinter

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
from symdebias.codegen.stable import in_logistic_density, with_maximum

# SymPy class -> name of the function in a kernel's module, from `elementary` or from `math`.
_FUNCTIONS: dict[type, str] = {
    sp.exp: "exp",
    expit: "expit",
    softplus: "softplus",
    logistic_density: "logistic_density",
    log_normal_cdf: "log_normal_cdf",
    inverse_mills: "inverse_mills",
    mills_excess: "mills_excess",
    erf_real: "erf_real",
    erf_imag: "erf_imag",
    heat_power: "heat_power",
    sp.sign: "sign",
    sp.Heaviside: "step",
    sp.Abs: "abs",
    sp.Max: "max",
    largest: "max",
    sp.Min: "min",
    sp.log: "log",
    sp.sin: "wave",
    sp.cos: "wave",
    sp.tan: "math.tan",
    sp.atan: "math.atan",
    sp.asin: "math.asin",
    sp.acos: "math.acos",
    sp.asinh: "math.asinh",
    sp.acosh: "math.acosh",
    sp.atanh: "math.atanh",
    sp.tanh: "math.tanh",
    sp.erf: "math.erf",
    sp.erfc: "math.erfc",
    sp.loggamma: "math.lgamma",
}
# What a declared loss may have: `stable` takes the largest argument out of the last two before they are printed.
_DECLARED = {*_FUNCTIONS, logsumexp, softmax_part} - {largest}
# Terms of a sum that stand side by side.
_MOST_TERMS = 256
# Multiples of one angle that are computed from its sine and cosine by recurrence, which loses a digit at most.
_MOST_MULTIPLES = 32
# How many of them sums take one by one before they go on in strides, for up to the square of that, and for more.
_STRIDE, _LONG_STRIDE = 4, 6
# From so many exponentials that do not vary with the record, each has a line of its own.
FEWEST_APART = 4
_STRUCTURE = (sp.Add, sp.Mul, sp.Pow, sp.Piecewise, sp.functions.elementary.piecewise.ExprCondPair)
# Written as exponentials before they are printed.
_REWRITTEN = (sp.sinh, sp.cosh)
_CONDITIONS = (sp.core.relational.Relational, sp.And, sp.Or, sp.Not, sp.logic.boolalg.BooleanAtom)


@dataclass(frozen=True)
class Statements:
    """Printed expressions."""

    setup: tuple[str, ...]  # Assignments that depend on the parameters and the noise only: once per pass or step.
    record: tuple[str, ...]  # Assignments that depend on the record: once per record.
    results: tuple[str, ...]  # One Python expression for each SymPy expression given, to evaluate after both.
    functions: frozenset[str]  # The names of the functions of `elementary` that the lines call.


def print_statements(
    expressions: Sequence[sp.Expr],
    *,
    fixed: Mapping[sp.Symbol, str],
    varying: Mapping[sp.Symbol, str],
    parts: Mapping[sp.Symbol, sp.Expr] | None = None,
) -> Statements:
    """Print expressions as assignments and results.

    `fixed` and `varying` give the Python expressions that stand for symbols which are the same for all records, or vary
    with the record; `parts` the further symbols of the expressions with what they stand for, of these symbols, computed
    once. Local names in the lines begin with ``h`` (setup) and ``r`` (record) and a digit.

    Raises
    ------
    TypeError
        An expression has a node that no kernel can evaluate, or a symbol without a stand-in.
    """
    parts = {} if parts is None else parts
    names = {**fixed, **varying, **{symbol: f"r{index}" for index, symbol in enumerate(parts)}}
    renamed = {symbol: sp.Symbol(f"v{index}", real=True) for index, symbol in enumerate(names)}
    printer = _Printer({renamed[symbol].name: text for symbol, text in names.items()})
    changing = {renamed[symbol] for symbol in (*varying, *parts)}
    prepared = []
    for expression in (*parts.values(), *expressions):
        _check_symbols(expression, set(names))
        # Renamed first: whatever rebuilds a maximum compares its arguments again.
        expression = in_logistic_density(with_maximum(expression.xreplace(renamed)))
        _check(expression)
        prepared.append(_prepare(expression, changing))
    prepared, waves = _share_waves(_share_exponentials(prepared, changing), changing)
    # A wave of an angle varies with the record as the angle does.
    hoisted = _Hoist(changing | {symbol for symbol, _ in waves})
    waves = [(symbol, hoisted.visit(value)) for symbol, value in waves]
    prepared = [hoisted.visit(expression) for expression in prepared]
    setup_assignments, setup_values = sp.cse(list(hoisted.values.values()), symbols=sp.numbered_symbols("c", real=True))
    # Parts first: the others are written in them.
    symbols = sp.numbered_symbols("e", real=True)
    part_assignments, part_values = sp.cse(prepared[: len(parts)], symbols=symbols)
    record_assignments, results = sp.cse(prepared[len(parts) :], symbols=symbols)
    part_assignments += zip((renamed[symbol] for symbol in parts), part_values, strict=True)

    setup: list[str] = []
    record: list[str] = []
    towers = [*(value for _, value in setup_assignments), *setup_values]
    plain = {node for value in towers for node in value.atoms(sp.exp) if not node.args[0].has(sp.exp)}
    apart = plain if len(plain) >= FEWEST_APART else set()

    def written(value: sp.Expr) -> str:
        """Return the text of a value, with the exponentials in it on lines of their own."""
        for node in sorted(value.atoms(sp.exp) & apart - {value}, key=sp.default_sort_key):
            symbol, name = sp.Symbol(f"x{len(setup)}", real=True), f"h{len(setup)}"
            setup.append(f"{name} = {printer.doprint(node)}")
            assigned.add(name)
            printer.names[symbol.name] = name
            value = value.xreplace({node: symbol})
        return printer.doprint(value)

    assigned: set[str] = set()
    for symbol, value in setup_assignments:
        text = written(value)
        printer.names[symbol.name] = f"h{len(setup)}"
        assigned.add(f"h{len(setup)}")
        setup.append(f"h{len(setup)} = {text}")
    for symbol, value in zip(hoisted.values, setup_values, strict=True):
        text = written(value)
        name = f"h{len(setup)}"
        if text in assigned:
            # A second name for a number takes as long to compile as the number.
            name = text
        else:
            setup.append(f"{name} = {text}")
            assigned.add(name)
        printer.names[symbol.name] = name
    for index, (symbol, value) in enumerate([*waves, *part_assignments, *record_assignments]):
        printer.names[symbol.name] = f"r{index}"
        record.append(f"r{index} = {printer.doprint(value)}")
    texts = tuple(printer.doprint(result) for result in results)
    return Statements(tuple(setup), tuple(record), texts, frozenset(printer.called))


def _check_symbols(expression: sp.Expr, known: set[sp.Symbol]) -> None:
    for symbol in sorted(expression.free_symbols - known, key=str):
        raise TypeError(
            f"the symbol {symbol} has no value in a kernel. Declare it on the loss, or put a number in its place."
        )


def _check(expression: sp.Expr) -> None:
    for node in sp.preorder_traversal(expression):
        if node.is_Symbol:
            continue
        if isinstance(node, (*_CONDITIONS, *_STRUCTURE, *_REWRITTEN)) or type(node) in _FUNCTIONS:
            continue
        if not ((node.is_Number or node.is_NumberSymbol) and node.is_finite):
            _refuse(node, expression)


def require_printable(expression: sp.Expr) -> None:
    """Raise where a declared loss has a function that no kernel can evaluate.

    Raises
    ------
    TypeError
        It has one; the message lists what may be used.
    """
    for node in sp.preorder_traversal(expression):
        known = type(node) in _DECLARED or isinstance(node, (*_STRUCTURE, *_REWRITTEN)) or node.is_Atom
        if isinstance(node, sp.Expr) and not known:
            _refuse(node, expression)


def _refuse(node: sp.Basic, expression: sp.Expr) -> None:
    allowed = ", ".join(sorted(cls.__name__ for cls in (*_FUNCTIONS, *_REWRITTEN) if cls is not largest))
    raise TypeError(
        f"a kernel cannot evaluate {type(node).__name__} (in {expression}). It takes real numbers, "
        f"+, -, *, /, powers, Piecewise and {allowed}. Write the loss with these."
    )


def _prepare(expression: sp.Expr, changing: set[sp.Symbol]) -> sp.Expr:
    """Split exponentials of sums so that their fixed part leaves the loop and the rest can be shared."""

    def split(argument: sp.Expr) -> sp.Expr:
        argument = sp.expand(argument)
        fixed, varying = argument.as_independent(*changing, as_Add=True)
        return sp.exp(fixed) * sp.exp(varying, evaluate=False) if fixed != 0 else sp.exp(varying)

    expression = expression.replace(
        lambda node: node.is_number and not node.is_Atom and node.is_Pow | node.is_Mul | node.is_Function,
        lambda node: node.evalf(17),
    )
    expression = expression.replace(sp.sinh, lambda x: (sp.exp(x) - sp.exp(-x)) / 2).replace(
        sp.cosh, lambda x: (sp.exp(x) + sp.exp(-x)) / 2
    )
    expression = expression.replace(_is_product_with_tower, _with_one_exponential)
    return expression.replace(
        lambda node: isinstance(node, sp.exp) and bool(node.free_symbols & changing),
        lambda node: split(node.args[0]),
    )


def _is_product_with_tower(node: sp.Basic) -> bool:
    return node.is_Mul and any(isinstance(one, sp.exp) and one.args[0].has(sp.exp) for one in node.args)


def _with_one_exponential(product: sp.Expr) -> sp.Expr:
    """Write e^z e^(-e^z) as e^(z - e^z): its factors are infinity and 0 where the product is 0."""
    terms = []
    for term in sp.Add.make_args(sp.expand_mul(product, deep=False)):
        exponentials, others = sp.sift(sp.Mul.make_args(term), lambda one: isinstance(one, sp.exp), binary=True)
        terms.append(sp.Mul(*others) * sp.exp(sp.Add(*(one.args[0] for one in exponentials))))
    return sp.Add(*terms)


def _share_exponentials(expressions: list[sp.Expr], changing: set[sp.Symbol]) -> list[sp.Expr]:
    """Write exponentials whose arguments are integer multiples of one another as powers of one."""
    exponentials = sorted(
        {node for expression in expressions for node in expression.atoms(sp.exp) if node.free_symbols & changing},
        key=lambda node: (abs(node.args[0].as_coeff_Mul()[0]), sp.default_sort_key(node)),
    )
    replacements: dict[sp.Expr, sp.Expr] = {}
    bases: list[sp.Expr] = []
    for node in exponentials:
        for base in bases:
            ratio = _ratio(node.args[0], base.args[0])
            if ratio.is_Integer and abs(ratio) <= 8:
                replacements[node] = sp.Pow(sp.Function("_shared")(base.args[0]), ratio)
                break
        else:
            bases.append(node)
            replacements[node] = sp.Function("_shared")(node.args[0])
    # A stand-in function keeps SymPy from merging e^u * e^u back into e^(2u).
    return [expression.xreplace(replacements) for expression in expressions]


def _ratio(one: sp.Expr, other: sp.Expr) -> sp.Expr:
    """Return a number that one sum is the multiple of another by, or NaN.

    As `sympy.cancel` has it, which takes thousands of times as long: arguments of exponentials and waves are expanded.
    """
    terms, others = one.as_coefficients_dict(), other.as_coefficients_dict()
    if terms.keys() != others.keys():
        return sp.nan
    ratios = {value / others[term] for term, value in terms.items()}
    return ratios.pop() if len(ratios) == 1 else sp.nan


def _share_waves(
    expressions: list[sp.Expr], changing: set[sp.Symbol]
) -> tuple[list[sp.Expr], list[tuple[sp.Symbol, sp.Expr]]]:
    """Write sines and cosines of integer multiples of one angle by recurrence: cos(n a) = 2 cos a cos((n-1) a) - ...

    Returns the expressions in symbols for the waves, and these symbols with what they stand for, in order. A wave costs
    two operations, as many as a step of Clenshaw's rule, and is there for every sum that it occurs in. Sums take the
    first few alone, and go on in strides: `_in_strides`.
    """
    waves = sorted(
        {
            node
            for expression in expressions
            for node in expression.atoms(sp.cos, sp.sin)
            if node.free_symbols & changing
        },
        key=lambda node: (abs(node.args[0].as_coeff_Mul()[0]), sp.default_sort_key(node)),
    )
    bases: list[sp.Expr] = []
    multiples: dict[sp.Expr, tuple[sp.Expr, int]] = {}
    for angle in dict.fromkeys(node.args[0] for node in waves):
        for base in bases:
            ratio = _ratio(angle, base)
            if ratio.is_Integer and 0 < ratio <= _MOST_MULTIPLES:
                multiples[angle] = (base, int(ratio))
                break
        else:
            bases.append(angle)
            multiples[angle] = (angle, 1)
    shared = _Waves()
    written = [_in_strides(expression, multiples, shared, changing) for expression in expressions]
    replacements = {
        node: shared.wave(type(node), *multiples[node.args[0]])
        for node in waves
        if any(expression.has(node) for expression in written)
    }
    return [expression.xreplace(replacements) for expression in written], shared.assignments


class _Waves:
    """Symbols for waves of multiples of angles, with what they stand for, in order."""

    def __init__(self) -> None:
        self.assignments: list[tuple[sp.Symbol, sp.Expr]] = []
        self._known: dict[tuple[Any, ...], sp.Symbol] = {}

    def _name(self, key: tuple[Any, ...], value: Callable[[], sp.Expr]) -> sp.Symbol:
        # What it is made of comes first, and only once.
        if key not in self._known:
            made = value()
            self._known[key] = sp.Symbol(f"wave{len(self.assignments)}", real=True)
            self.assignments.append((self._known[key], made))
        return self._known[key]

    def wave(self, kind: type, angle: sp.Expr, n: int) -> sp.Expr:
        """Return the sine or the cosine of n angles."""
        if n == 0:
            return sp.Integer(int(kind is sp.cos))
        if n == 1:
            return self._name((kind, angle, 1), lambda: kind(angle))

        def value() -> sp.Expr:
            last = self.wave(kind, angle, n - 1)
            return self._twice(angle, 1) * last - self.wave(kind, angle, n - 2)

        return self._name((kind, angle, n), value)

    def stride(self, angle: sp.Expr, length: int, count: int) -> sp.Expr:
        """Return the cosine of ``count`` strides of so many angles."""
        if count < 2:
            return self.wave(sp.cos, angle, length * count)

        def value() -> sp.Expr:
            last = self.stride(angle, length, count - 1)
            return self._twice(angle, length) * last - self.stride(angle, length, count - 2)

        return self._name((sp.cos, angle, length, count), value)

    def _twice(self, angle: sp.Expr, n: int) -> sp.Symbol:
        return self._name((angle, n), lambda: 2 * self.wave(sp.cos, angle, n))


def _in_strides(
    expression: sp.Expr, multiples: Mapping[sp.Expr, tuple[sp.Expr, int]], shared: _Waves, changing: set[sp.Symbol]
) -> sp.Expr:
    """Write sums of waves with fixed coefficients in the first waves and the cosines of strides.

    For a stride of m angles, n = j m + i with 0 < i <= m and a sign of + for sines,
    sin(n a) = 2 cos(j m a) sin(i a) + sin((j m - i) a), and so cos with -. What a wave costs besides its coefficient is
    then there for the first m, and for each stride.
    """
    sums: dict[tuple[type, sp.Expr], dict[int, sp.Expr]] = {}
    others = []
    for term in sp.Add.make_args(expression):
        fixed, varying = term.as_independent(*changing, as_Add=False)
        if isinstance(varying, (sp.cos, sp.sin)) and varying.args[0] in multiples:
            base, n = multiples[varying.args[0]]
            coefficients = sums.setdefault((type(varying), base), {})
            coefficients[n] = coefficients.get(n, sp.Integer(0)) + fixed
        else:
            others.append(term)
    for (kind, base), coefficients in sums.items():
        largest = max(coefficients)
        length = _STRIDE if largest <= _STRIDE**2 else _LONG_STRIDE
        strides: dict[int, list[sp.Expr]] = {}
        for n in range(largest, length, -1):
            coefficient = coefficients.pop(n, sp.Integer(0))
            if coefficient == 0:
                continue
            j = (n - 1) // length
            strides.setdefault(j, []).append(2 * coefficient * shared.wave(kind, base, n - j * length))
            left = 2 * j * length - n
            sign = 1 if kind is sp.sin else -1
            coefficients[left] = coefficients.get(left, sp.Integer(0)) + sign * coefficient
        for n, coefficient in sorted(coefficients.items()):
            others.append(coefficient * shared.wave(kind, base, n))
        for j, terms in sorted(strides.items()):
            others.append(shared.stride(base, length, j) * sp.Add(*terms))
    return sp.Add(*others)


class _Hoist:
    """Replace the largest parts that do not vary with the record by symbols."""

    def __init__(self, changing: set[sp.Symbol]) -> None:
        self.changing = changing
        self.symbols: dict[sp.Expr, sp.Symbol] = {}
        self.values: dict[sp.Symbol, sp.Expr] = {}

    def visit(self, node: sp.Basic) -> sp.Basic:
        if node.is_Atom:
            return node
        if not node.free_symbols & self.changing and isinstance(node, sp.Expr):
            # Conditions, and pairs of them with values, are no numbers that a name could stand for.
            return node if node.is_number else self._hold(node)
        if node.is_Add or node.is_Mul:
            fixed, varying = sp.sift(node.args, lambda part: not part.free_symbols & self.changing, binary=True)
            parts = [self.visit(part) for part in varying]
            together = node.func(*fixed)
            if fixed:
                simple = together.is_number or together.is_Symbol
                parts.append(together if simple else self._hold(together))
            return node.func(*parts)
        arguments = tuple(self.visit(argument) for argument in node.args)
        return node if arguments == node.args else node.func(*arguments)

    def _hold(self, value: sp.Expr) -> sp.Symbol:
        if value not in self.symbols:
            symbol = sp.Symbol(f"f{len(self.symbols)}", real=True)
            self.symbols[value] = symbol
            self.values[symbol] = value
        return self.symbols[value]


def _sum_of(terms: list[str]) -> str:
    """Return a sum in parentheses, a long one of sums: Python nests a + b + c, and refuses what nests too deep."""
    if len(terms) <= _MOST_TERMS:
        return "(" + " + ".join(terms) + ")"
    parts = [terms[start : start + _MOST_TERMS] for start in range(0, len(terms), _MOST_TERMS)]
    return _sum_of([_sum_of(part) for part in parts])


class _Printer(PythonCodePrinter):
    """SymPy's Python printer, cut down to the functions of kernels and to renamed symbols."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__({"fully_qualified_modules": False, "precision": 17})
        self.names = names
        self.called: set[str] = set()

    def doprint(self, expr: sp.Expr) -> str:
        return str(self._print(expr))

    def _print_Symbol(self, expr: sp.Symbol) -> str:
        return self.names[str(expr.name)]

    def _print_Rational(self, expr: sp.Rational) -> str:
        return self._print_number(expr)

    def _print_number(self, expr: sp.Expr) -> str:
        try:
            return repr(float(expr))
        except OverflowError:
            raise ValueError(
                "a constant of the corrected loss is beyond the numbers of float64 (1e308). Write the loss with "
                "smaller constants and lower powers."
            ) from None

    _print_Integer = _print_Float = _print_number
    _print_Half = _print_Zero = _print_One = _print_NegativeOne = _print_number
    _print_Pi = _print_Exp1 = _print_NumberSymbol = _print_number

    def _call(self, name: str, arguments: Iterable[Any]) -> str:
        self.called.add(name)
        return f"{name}({', '.join(self.doprint(argument) for argument in arguments)})"

    def _print_Function(self, expr: sp.Function) -> str:
        if expr.func.__name__ == "_shared":
            return self._call("exp", expr.args)
        if isinstance(expr, (sp.sin, sp.cos)):
            # cos x = sin(x + pi/2)
            return self._call("wave", (expr.args[0], sp.Integer(int(isinstance(expr, sp.cos)))))
        return self._call(_FUNCTIONS[type(expr)], expr.args[:1] if isinstance(expr, sp.Heaviside) else expr.args)

    _print_exp = _print_log = _print_sin = _print_cos = _print_tan = _print_atan = _print_Function
    _print_asin = _print_acos = _print_asinh = _print_acosh = _print_atanh = _print_Function
    _print_tanh = _print_erf = _print_erfc = _print_loggamma = _print_sign = _print_Function
    _print_Heaviside = _print_Abs = _print_Function

    def _print_Max(self, expr: sp.Expr) -> str:
        # Two at a time: Numba's max of two floats is a select, which vectorises.
        text = self.doprint(expr.args[0])
        for argument in expr.args[1:]:
            text = f"{_FUNCTIONS[type(expr)]}({text}, {self._print(argument)})"
        return text

    _print_Min = _print_largest = _print_Max

    def _print_Pow(self, expr: sp.Pow, **_: Any) -> str:
        base, exponent = expr.args
        if exponent.is_Integer:
            return self._integer_power(self._print(base), int(exponent))
        if exponent.is_Rational and exponent.q == 2:
            root = f"math.sqrt({self._print(base)})"
            return self._integer_power(root, int(exponent.p))
        return f"({self._print(base)})**({self._print(exponent)})"

    def _integer_power(self, base: str, exponent: int) -> str:
        if exponent < 0:
            return f"(1.0/{self._integer_power(base, -exponent)})"
        if exponent == 1:
            return base
        if exponent <= 4:
            return f"({'*'.join([base] * exponent)})"
        # An integer exponent is multiplied out by the compiler.
        return f"({base}**{exponent})"

    def _print_Mul(self, expr: sp.Mul) -> str:
        numerator, denominator = [], []
        for factor in expr.args:
            inverse = factor.is_Pow and factor.exp.is_Rational and factor.exp.is_negative
            if inverse:
                denominator.append(self._print(1 / factor))
            else:
                numerator.append(self._print(factor))
        sign = ""
        if expr.args[0] == -1:
            sign, numerator = "-", numerator[1:]
        text = "*".join(numerator) or "1.0"
        if denominator:
            text = f"{text}/({'*'.join(denominator)})"
        return f"({sign}{text})"

    def _print_Add(self, expr: sp.Add, order: None = None) -> str:
        return _sum_of([self._print(term) for term in expr.args])

    def _print_Piecewise(self, expr: sp.Piecewise) -> str:
        text = "math.nan"
        for value, condition in reversed(expr.args):
            if condition == sp.true:
                text = self._print(value)
            else:
                text = f"({self._print(value)} if {self._print(condition)} else {text})"
        return text

    def _print_Relational(self, expr: sp.Rel) -> str:
        return f"({self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)})"

    def _print_And(self, expr: sp.And) -> str:
        word = " and " if isinstance(expr, sp.And) else " or "
        return f"({word.join(sorted(map(self._print, expr.args)))})"

    _print_Or = _print_And

    def _print_Not(self, expr: sp.Not) -> str:
        return f"(not {self._print(expr.args[0])})"

    def emptyPrinter(self, expr: Any) -> str:
        raise TypeError(f"a kernel cannot evaluate {type(expr).__name__}: {expr}.")
