"""Losses of several scores that are sums of logarithms of sums of exponentials, and bounds on their derivatives."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias.codegen.functions import logsumexp, softplus
from symdebias.codegen.stable import rewrite
from symdebias.losses import Loss
from symdebias.losses.spellings import spellings
from symdebias.noise import exactly

# Choices of one vertex for each term that are tried one by one.
_MOST_CHOICES = 200_000


@dataclass(frozen=True)
class ExponentialForm:
    """sum_i c_i log sum_j exp(a_ij'u + b_ij) + a'u + b, with c_i > 0."""

    affine: FloatArray  # Of shape (K,): a.
    terms: tuple[tuple[float, FloatArray], ...]  # Of shape (m, K): c_i, and the rows a_ij.

    def slope(self) -> float:
        """Return the largest norm of the gradient: it is a + sum_i c_i (a mean of the rows a_ij)."""
        choices = math.prod(len(rows) for _, rows in self.terms)
        if choices > _MOST_CHOICES:
            # The largest norm of a sum is at most the sum of those of its parts, each about its middle.
            return _up(float(np.linalg.norm(self.affine)) + sum(c * _longest(rows) for c, rows in self.terms))
        sums = [
            self.affine + sum(c * row for (c, _), row in zip(self.terms, chosen, strict=True))
            for chosen in itertools.product(*(rows for _, rows in self.terms))
        ]
        return _up(_longest(np.array(sums)))

    def curvature(self) -> float:
        """Return the sum of c_i diameter_i^2/4, which the largest eigenvalue of the Hessian does not exceed."""
        return _up(sum(c * _longest(rows[:, None] - rows[None, :]) ** 2 / 4 for c, rows in self.terms))


def _longest(vectors: FloatArray) -> float:
    return float(np.sqrt((vectors**2).sum(axis=-1)).max())


def _up(value: float) -> float:
    """Return a number above what a few roundings of small integers may have lowered; 0 stays."""
    return value * (1 + 2.0**-48)


def exponential_forms(loss: Loss) -> list[ExponentialForm]:
    """Return the loss for each declared value of the target, or say why it is no such sum."""
    name = f"the {loss.name} loss" if loss.name else f"the loss {loss.expression}"
    refusal = (
        f"{name} of {len(loss.scores)} scores has no bounds that could be proved. For several scores they are proved "
        "for sums, with positive coefficients, of log(exp(...) + ... + exp(...)) with exponents affine in the scores, "
        "plus affine terms, for declared target_values. Write the loss as such a sum, or use one score."
    )
    if loss.target_values is None and loss.expression.has(loss.target):
        raise ValueError(refusal)
    found = []
    expression = exactly(loss.expression)
    numbers = [number for one in loss.target_values or (0.0,) for number in spellings(expression, loss.target, one)]
    for number in numbers:
        written = rewrite(expression.xreplace({loss.target: number}))
        nodes = sorted(written.atoms(logsumexp, softplus), key=sp.default_sort_key)
        stand_ins = [sp.Dummy() for _ in nodes]
        rest = written.xreplace(dict(zip(nodes, stand_ins, strict=True)))
        try:
            coefficients = [float(rest.coeff(stand_in, 1)) for stand_in in stand_ins]
            remainder = sp.expand(rest.xreplace(dict.fromkeys(stand_ins, sp.Integer(0))))
            if sp.expand(rest - remainder - sum(rest.coeff(s, 1) * s for s in stand_ins)) != 0:
                raise ValueError(refusal)
            terms = tuple(
                (c, np.array([_coefficients(argument, loss.scores) for argument in _arguments(node)]))
                for c, node in zip(coefficients, nodes, strict=True)
            )
            affine = np.array(_coefficients(remainder, loss.scores))
        except (TypeError, sp.PolynomialError):
            raise ValueError(refusal) from None
        if not all(c > 0 for c, _ in terms):
            raise ValueError(refusal)
        found.append(ExponentialForm(affine, terms))
    return found


def _arguments(node: sp.Expr) -> tuple[sp.Expr, ...]:
    return (sp.Integer(0), node.args[0]) if isinstance(node, softplus) else node.args


def _coefficients(expression: sp.Expr, scores: Sequence[sp.Symbol]) -> list[float]:
    polynomial = sp.Poly(expression, *scores)
    if polynomial.total_degree() > 1:
        raise sp.PolynomialError
    return [float(polynomial.coeff_monomial(score)) for score in scores]
