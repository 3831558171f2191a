"""The loss of a noised label in the place of the true one: by name, as an expression, a function or a declared loss.

Whatever it is given as, it becomes an expression in the residual, or in outcome and label, whose text goes onto cards
and is read again without running anything (`symdebias.losses.parsing`).
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray
from symdebias._domains import seen, shown
from symdebias.codegen.numeric import numeric
from symdebias.exceptions import ExpressionError
from symdebias.losses import catalogue, parsing, writing
from symdebias.losses.admission import require_admitted
from symdebias.losses.loss import Loss
from symdebias.losses.tracing import traced

# What the loss of a noised label t in the place of the label y is; convex in t.
LABEL_LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "squared": lambda outputs, labels: (outputs - labels) ** 2,
    "absolute": lambda outputs, labels: np.abs(outputs - labels),
}
OUTCOME, LABEL, RESIDUAL = sp.symbols("outcome label residual", real=True)
_SYMBOLS = {"outcome": OUTCOME, "label": LABEL, "residual": RESIDUAL}
_NAMED = {"squared": RESIDUAL**2, "absolute": sp.Abs(RESIDUAL)}
_WAYS = (
    f"Choose one of {', '.join(LABEL_LOSSES)}, or give a convex expression such as "
    '"Piecewise((residual**2, residual < 0), (3*residual**2, True))" in residual = outcome - label, or in outcome and '
    "label; a function of these; or a Loss of the residual such as losses.huber()."
)
# Values of a loss are right to this share of their size, and of the size of the loss on the labels.
_ROUNDING = 2.0**-40
_BETWEEN = 1001
# Polynomials up to this degree are multiplied out, to see whether they are quadratic or of the residual alone.
_HIGHEST_DEGREE = 12


@dataclass(frozen=True)
class LabelLoss:
    """The loss of an output in the place of a label.

    Attributes
    ----------
    text : str
        One of the names, or the expression as text that `label_loss` takes.
    expression : sympy.Expr
        The same in the symbols ``residual``, or ``outcome`` and ``label``.
    """

    text: str
    expression: sp.Expr

    def __call__(self, outputs: Any, labels: Any) -> FloatArray:
        """Return the losses of outputs in the places of labels, arrays of shapes that broadcast."""
        values: FloatArray
        if self.text in LABEL_LOSSES:
            values = LABEL_LOSSES[self.text](outputs, labels)
        elif RESIDUAL in self.expression.free_symbols:
            values = numeric(self.expression, (RESIDUAL,))(np.subtract(outputs, labels))
        else:
            values = numeric(self.expression, (OUTCOME, LABEL))(outputs, labels)
        return values

    def curvatures(self, labels: FloatArray) -> FloatArray | None:
        """Return w of shape (k,) where the loss is w_y (t - y)^2 and something affine in t, or None where it is not."""
        variable = RESIDUAL if RESIDUAL in self.expression.free_symbols else OUTCOME
        if not _is_low(self.expression, variable):
            return None
        polynomial = sp.Poly(self.expression, variable)
        if polynomial.degree() > 2:
            return None
        factor = polynomial.coeff_monomial(variable**2)
        return np.array(numeric(factor, (LABEL,))(labels), dtype=float)

    def require_convex(self, outputs: Any, labels: Any) -> None:
        """Raise where the loss is not finite, or not convex in the outcome, for one of the labels.

        It is looked at where it is used, at the outputs and the label, at 1,001 points from the first to the last of
        these, and at 1,001 points among the labels.

        Parameters
        ----------
        outputs : sequence of m floats
            Ascending.
        labels : sequence of k floats
            Ascending.

        Raises
        ------
        ValueError
            It is not; the message says for which label and outcome.
        """
        if self.text in LABEL_LOSSES:
            return
        used, known = np.asarray(outputs, dtype=float), np.asarray(labels, dtype=float)
        between = np.linspace(min(used[0], known[0]), max(used[-1], known[-1]), _BETWEEN)
        among = np.linspace(known[0], known[-1], _BETWEEN)
        for label in known:
            size = np.abs(self(known, label)).max()
            for points in (np.union1d(used, label), between, among):
                self._require_convex_at(points, label, size)

    def _require_convex_at(self, points: FloatArray, label: float, size: float) -> None:
        values = self(points, label)
        if not np.isfinite(values).all():
            place = int(np.argmin(np.isfinite(values)))
            raise ValueError(
                f"the loss {shown(self.text, 100)} of the outcome {points[place]:g} for the label {label:g} is "
                f"{values[place]:g}. Unbiased outcomes reach farther than the labels: take a loss that is finite there."
            )
        steps = np.diff(points)
        slopes = np.diff(values) / steps
        wrong = _ROUNDING * (np.abs(values) + size)
        unsure = (wrong[1:] + wrong[:-1]) / steps
        falls = slopes[1:] - slopes[:-1] < -(unsure[1:] + unsure[:-1])
        if falls.any():
            place = int(np.argmax(falls))
            raise ValueError(
                f"the loss {shown(self.text, 100)} is not convex in the outcome: for the label {label:g} its slope "
                f"falls from {slopes[place]:.4g} to {slopes[place + 1]:.4g} at the outcome {points[place + 1]:g}. Take "
                "a convex loss, such as huber for cauchy."
            )


def label_loss(loss: Any) -> LabelLoss:
    """Return the loss of an outcome in the place of a label.

    Parameters
    ----------
    loss : str, sympy.Expr, callable or Loss
        ``"squared"`` or ``"absolute"``; an expression, as text or of SymPy, in ``residual`` (outcome - label), or in
        ``outcome`` and ``label``; a function of the residual, or of outcome and label, written with NumPy's functions;
        or a loss of the difference between score and target: the score is the outcome, the target the label.

    Returns
    -------
    LabelLoss
        Equal for equal expressions, however they were given.

    Raises
    ------
    TypeError, ValueError
        It is none of these, has other symbols, or does not depend on the outcome.

    Examples
    --------
    >>> label_loss(lambda outcome, label: (outcome - label) ** 2).text
    'squared'
    >>> label_loss("Max(outcome - label, 3*(label - outcome))").text
    'Max(residual, -3*residual)'
    """
    if isinstance(loss, str):
        return _of_text(loss)
    if isinstance(loss, Loss):
        return _of_loss(loss)
    if isinstance(loss, sp.Expr):
        return _made(_renamed(loss))
    if callable(loss) and not isinstance(loss, type):
        return _made(_renamed(_called(loss)))
    raise TypeError(f"loss must be a text, an expression, a function or a Loss; got {type(loss).__name__}. {_WAYS}")


@functools.lru_cache(maxsize=128)
def _of_text(text: str) -> LabelLoss:
    if text in _NAMED:
        return LabelLoss(text, _NAMED[text])
    if text.isidentifier() and text not in _SYMBOLS:
        raise ValueError(f"loss={seen(text, 60)} is not known. {_WAYS}")
    return _made(parsing.read(text, _SYMBOLS))


def _of_loss(loss: Loss) -> LabelLoss:
    if len(loss.scores) != 1:
        raise ValueError(
            f"the loss {shown(loss.name or loss.expression, 60)} has {len(loss.scores)} scores. The loss of a noised "
            "label is one of a single score, which the outcome stands for, and of the target, the label."
        )
    made = _made(loss.expression.xreplace({loss.scores[0]: OUTCOME, loss.target: LABEL}))
    if RESIDUAL not in made.expression.free_symbols:
        raise ValueError(
            f"the loss {shown(loss.name or loss.expression, 60)} is not one of the residual, score - target: its score "
            "does not stand for a label. Give a loss such as losses.huber(), or an expression in outcome and label."
        )
    return made


def _called(function: Callable[..., Any]) -> sp.Expr:
    if getattr(catalogue, getattr(function, "__name__", ""), None) is function:
        name = function.__name__
        raise TypeError(f"loss is the function losses.{name}, which makes a loss. Call it: losses.{name}(...).")
    if isinstance(function, np.ufunc):
        count = function.nin
    else:
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:
            raise TypeError(f"loss={seen(repr(function), 60)} does not say what it takes. {_WAYS}") from None
        count = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
    symbols: dict[int, Sequence[sp.Symbol]] = {1: (RESIDUAL,), 2: (OUTCOME, LABEL)}
    if count not in symbols:
        raise TypeError(
            f"the loss is a function of {count} arguments. Give one of the residual, outcome - label, or of outcome "
            "and label."
        )
    return traced(function, symbols[count])


def _renamed(expression: sp.Expr) -> sp.Expr:
    """Return an expression with the symbols of this module, which are told by their names."""
    require_admitted(expression)
    names = {symbol.name for symbol in expression.free_symbols}
    if not names <= _SYMBOLS.keys():
        raise ValueError(
            f"the loss has the symbols {seen(', '.join(sorted(names)), 100)}. Name them residual (outcome - label), or "
            'outcome and label: sympy.symbols("outcome label", real=True).'
        )
    return expression.xreplace({symbol: _SYMBOLS[symbol.name] for symbol in expression.free_symbols})


def _made(expression: sp.Expr) -> LabelLoss:
    expression = _in_residual(expression)
    if not expression.free_symbols & {OUTCOME, RESIDUAL}:
        raise ValueError(
            f"the loss {seen(str(expression), 60)} does not depend on the outcome. Give one that grows with the "
            "distance between outcome and label, such as (outcome - label)**2."
        )
    for name, known in _NAMED.items():
        if expression == known:
            return LabelLoss(name, known)
    used = [symbol for symbol in _SYMBOLS.values() if symbol in expression.free_symbols]
    try:
        text = writing.write(expression, {symbol: symbol.name for symbol in used})
    except ValueError as error:
        raise ExpressionError(f"the loss cannot be put onto a card: {error}") from None
    return LabelLoss(text, expression)


def _in_residual(expression: sp.Expr) -> sp.Expr:
    """Return an expression in the residual alone where it is one, or else in outcome and label."""
    if expression.free_symbols <= {RESIDUAL}:
        return expression
    both = expression.subs(OUTCOME, RESIDUAL + LABEL) if OUTCOME in expression.free_symbols else expression
    if LABEL in both.free_symbols and _is_low(both, RESIDUAL, LABEL):
        both = sp.expand(both)
    if LABEL not in both.free_symbols:
        return both
    return expression.subs(RESIDUAL, OUTCOME - LABEL)


def _is_low(expression: sp.Expr, *symbols: sp.Symbol) -> bool:
    """Whether an expression is a polynomial that is multiplied out in no time."""
    return expression.is_polynomial(*symbols) and _degree(expression, symbols) <= _HIGHEST_DEGREE


def _degree(expression: sp.Expr, symbols: Sequence[sp.Symbol]) -> int:
    """Return what the degree of a polynomial is at most."""
    if expression in symbols:
        return 1
    if not expression.has(*symbols):
        return 0
    degrees = [_degree(part, symbols) for part in expression.args]
    if expression.is_Pow:
        return degrees[0] * int(expression.exp)
    return sum(degrees) if expression.is_Mul else max(degrees)
