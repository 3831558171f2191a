"""Derivatives in forms whose natural range is tight: what falls times what rises is written as one function."""

import sympy as sp

from symdebias.bounds.intervals import mills_product
from symdebias.codegen.functions import expit, inverse_mills, logistic_density, mills_excess
from symdebias.codegen.stable import rewrite


def tight_derivative(expression: sp.Expr, variable: sp.Symbol, order: int) -> sp.Expr:
    """Return a derivative, of order 0 the expression itself, in a form whose natural range is tight."""
    found = sp.diff(_stable(expression), variable, order).replace(_has_density, _with_density)
    return found.replace(_has_mills_product, _with_mills_product)


def _stable(expression: sp.Expr) -> sp.Expr:
    """Return an expression whose derivatives have tight ranges: log-sum-exps and log Phi as single functions."""
    written = expression.replace(sp.tanh, lambda x: 2 * sp.exp(2 * x) / (1 + sp.exp(2 * x)) - 1)
    written = written.replace(lambda node: isinstance(node, (sp.cosh, sp.sinh)), lambda node: node.rewrite(sp.exp))
    return rewrite(written)


def _has_density(node: sp.Basic) -> bool:
    return node.is_Mul and any(isinstance(part, expit) and {1 - part, part - 1} & {*node.args} for part in node.args)


def _with_density(node: sp.Expr) -> sp.Expr:
    """Write expit(x) (1 - expit(x)), in which the variable occurs twice, as one function.

    Where both 1 - expit(x) and expit(x) - 1 are factors, which SymPy leaves as they are, one of them stays.
    """
    part = next(part for part in node.args if isinstance(part, expit) and {1 - part, part - 1} & {*node.args})
    sign, taken = (1, 1 - part) if 1 - part in node.args else (-1, part - 1)
    others = [other for other in node.args if other not in (part, taken)]
    return sp.Mul(sign, logistic_density(part.args[0]), *others)


def _has_mills_product(node: sp.Basic) -> bool:
    return node.is_Mul and any(
        isinstance(part, mills_excess) and inverse_mills(part.args[0]) in node.args for part in node.args
    )


def _with_mills_product(node: sp.Expr) -> sp.Expr:
    """Write inverse_mills(x) mills_excess(x), of which one falls and the other rises, as one function."""
    found = (part.args[0] for part in node.args if isinstance(part, mills_excess))
    x = next(x for x in found if inverse_mills(x) in node.args)
    others = [part for part in node.args if part not in (inverse_mills(x), mills_excess(x))]
    return sp.Mul(mills_product(x), *others)
