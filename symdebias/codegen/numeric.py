"""Expressions as NumPy functions, in forms that do not overflow: for checks and designs, which need no kernel."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy as sp
from scipy import special

from symdebias._arrays import FloatArray
from symdebias.codegen import elementary, stable


def _softmax_part(place: int, *arguments: FloatArray) -> FloatArray:
    part: FloatArray = np.exp(arguments[int(place)] - _log_of_sum(*arguments))
    return part


def _log_of_sum(*arguments: FloatArray) -> FloatArray:
    return functools.reduce(np.logaddexp, arguments)


def _inverse_mills(x: FloatArray) -> FloatArray:
    ratio: FloatArray = math.sqrt(2 / math.pi) / special.erfcx(-np.asarray(x, dtype=float) / math.sqrt(2))
    return ratio


def _mills_excess(x: FloatArray) -> FloatArray:
    x = np.asarray(x, dtype=float)
    # Far left the sum cancels: there Laplace's continued fraction 1/(t + 2/(t + 3/(t + ...))), t = -x.
    t = np.maximum(-x, 4.0)
    tail = np.zeros_like(t)
    for k in range(50, 0, -1):
        tail = k / (t + tail)
    return np.where(x < -4.0, tail, x + _inverse_mills(x))


# The overflow-safe functions of derivations, in SciPy's words and not in those of the kernels.
_STABLE = {
    "erf": special.erf,
    "expit": special.expit,
    "softplus": lambda x: np.logaddexp(0.0, x),
    "logistic_density": lambda x: special.expit(x) * special.expit(-x),
    "log_normal_cdf": special.log_ndtr,
    "inverse_mills": _inverse_mills,
    "mills_excess": _mills_excess,
    "logsumexp": _log_of_sum,
    "softmax_part": _softmax_part,
    "erf_real": lambda x, y: np.real(special.erf(x + 1j * y)),
    "mills_product": lambda x: _inverse_mills(x) * _mills_excess(x),
    "erf_imag": lambda x, y: np.imag(special.erf(x + 1j * y)),
    "heat_power": elementary.heat_power,
    "largest_of": lambda *values: functools.reduce(np.maximum, values),
    "least_of": lambda *values: functools.reduce(np.minimum, values),
}


def numeric(expression: sp.Expr, symbols: Sequence[sp.Symbol]) -> Callable[..., FloatArray]:
    """Return a NumPy function of an expression, with its symbols renamed."""
    return _numeric(expression, tuple(symbols))


@functools.lru_cache(maxsize=512)
def _numeric(expression: sp.Expr, symbols: tuple[sp.Symbol, ...]) -> Callable[..., FloatArray]:
    renamed = [sp.Dummy(f"v{index}", real=True) for index in range(len(symbols))]
    body = stable.rewrite(expression.xreplace(dict(zip(symbols, renamed, strict=True))))
    # As stacks of arrays, which SymPy prints for them, Max and Min take no numbers beside arrays. As conditions they
    # may make SymPy recur without end where factors are no exact numbers.
    body = body.replace(sp.Max, sp.Function("largest_of")).replace(sp.Min, sp.Function("least_of"))
    # The printer for SciPy alone would send real arrays through math.erf.
    function = sp.lambdify(renamed, body, modules=[_STABLE, "scipy", "numpy"], cse=True)

    def evaluate(*arguments: Any) -> FloatArray:
        with np.errstate(all="ignore"):
            value = np.asarray(function(*arguments))
        return np.broadcast_to(np.real(value), np.broadcast_shapes(*(np.shape(a) for a in arguments)))

    return evaluate
