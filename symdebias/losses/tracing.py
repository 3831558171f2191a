"""Turn a Python function written with NumPy into a SymPy expression, by calling it once with symbols in disguise."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy as sp
from numpy.lib.mixins import NDArrayOperatorsMixin

# Universal functions of NumPy that have a counterpart.
_FUNCTIONS: dict[Any, Callable[..., sp.Expr]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.power: operator.pow,
    np.float_power: operator.pow,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.square: lambda x: x**2,
    np.reciprocal: lambda x: 1 / x,
    np.exp: sp.exp,
    np.expm1: lambda x: sp.exp(x) - 1,
    np.exp2: lambda x: sp.Integer(2) ** x,
    np.log: sp.log,
    np.log1p: lambda x: sp.log(1 + x),
    np.logaddexp: lambda x, y: sp.log(sp.exp(x) + sp.exp(y)),
    np.sqrt: sp.sqrt,
    np.sin: sp.sin,
    np.cos: sp.cos,
    np.tan: sp.tan,
    np.sinh: sp.sinh,
    np.cosh: sp.cosh,
    np.tanh: sp.tanh,
    np.arctan: sp.atan,
    np.arcsinh: sp.asinh,
    np.absolute: sp.Abs,
    np.maximum: sp.Max,
    np.minimum: sp.Min,
    np.sign: sp.sign,
}


_COMPARISONS = (np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal)


class _Traced(NDArrayOperatorsMixin):
    """A symbol or expression that NumPy's functions and Python's operators take for an array."""

    def __init__(self, expression: sp.Expr) -> None:
        self.expression = expression

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> "_Traced":
        if function is np.bitwise_xor:
            raise TypeError("^ is the exclusive or of Python and no power. Write ** for a power.")
        if function in _COMPARISONS:
            # Of Python's max, min and if, which would ask for the truth of it.
            bool(self)
        if method != "__call__" or options or function not in _FUNCTIONS:
            known = ", ".join(sorted(known.__name__ for known in _FUNCTIONS))
            raise TypeError(
                f"numpy.{function.__name__} has no symbolic counterpart here. A loss function may use arithmetic and "
                f"{known}; or declare the loss as a SymPy expression."
            )
        return _Traced(_FUNCTIONS[function](*(_symbolic(value) for value in inputs)))

    def __bool__(self) -> bool:
        raise TypeError(
            "the function compares, or branches on, the values of its arguments, which a loss function must not do. "
            "Use numpy.maximum, numpy.minimum or numpy.absolute, or declare the loss with sympy.Piecewise."
        )

    def __float__(self) -> float:
        raise TypeError(
            "the function needs plain numbers: it calls the math module or compiled code. Use NumPy's functions, or "
            "declare the loss as a SymPy expression."
        )

    __index__ = __int__ = __float__


def traced(function: Callable[..., Any], symbols: Sequence[sp.Symbol]) -> sp.Expr:
    """Return the expression that a function of as many arguments computes, written with NumPy's functions.

    Raises
    ------
    TypeError
        It cannot be traced; the message says why.

    Examples
    --------
    >>> u, y = sp.symbols("u y", real=True)
    >>> traced(lambda score, target: np.exp(-target * score), (u, y))
    exp(-u*y)
    """
    if not callable(function):
        raise TypeError(f"a loss function must be callable; got {type(function).__name__}.")
    return _symbolic(function(*(_Traced(symbol) for symbol in symbols)))


def _symbolic(value: Any) -> sp.Expr:
    if isinstance(value, _Traced):
        return value.expression
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating, sp.Expr)):
        raise TypeError(
            f"the function combines scores with a value of type {type(value).__name__}. It must compute a number out "
            "of its arguments and numbers."
        )
    return value if isinstance(value, sp.Expr) else sp.nsimplify(value.item() if hasattr(value, "item") else value)
