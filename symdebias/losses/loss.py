"""A loss is an expression that the user declares; it knows nothing of noise, data or privacy.

Two forms exist: in the score u = theta'x and the target (generalised linear models, margin and residual
losses), and free-form in named features and parameters.
"""

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from numbers import Real
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from symdebias import _markup
from symdebias._arrays import FloatArray
from symdebias._domains import check_name, is_list, shown
from symdebias._limits import check, timed
from symdebias._loss_names import CATALOGUE, called_here, why_outside
from symdebias.losses.admission import require_admitted
from symdebias.losses.finiteness import jump, may_jump, overflows, singular_score
from symdebias.losses.rewriting import in_one_spelling
from symdebias.losses.tracing import traced

# Points at which a declared expression must be a finite real number. They avoid 0 and 1, where
# removable singularities hide, and keep to both signs, which a score always takes.
_PROBES = (-2.7, -0.9, 0.4, 1.3, 3.1)
_TARGET_PROBES = (0.6, 2.0)

# Losses of a label in two spellings that differ by more, relatively, are different ones.
_SAME = 1e-6

# What functions of other libraries call the target, which often comes first there.
_NAMES_OF_TARGETS = ("y", "y_true", "target", "targets", "label", "labels")


@dataclass(frozen=True, init=False)
class Loss:
    """A loss declared as a SymPy expression.

    Parameters
    ----------
    expression : sympy.Expr
        The loss of one record, a real expression in `score` and `target` and in nothing else.
    score : sympy.Symbol or iterable of sympy.Symbol
        The linear predictor u = theta'x; several of them for a loss such as softmax, each with its own parameters.
    target : sympy.Symbol
        The target y of the record.
    target_values : sequence of float, optional
        The values that the target takes, such as ``(-1, 1)``; at least two, distinct and finite. Leave it
        out for a continuous target.
    name : str, optional
        A name for messages and reports.

    Attributes
    ----------
    expression : sympy.Expr
        As declared, in real symbols and in one spelling: ``(u - y)**2.0`` as the square, ``log1p`` as the logarithm,
        ``z*sign(z)`` in pieces.
    scores : tuple of sympy.Symbol
        The scores; empty for a free-form loss.
    features, parameters : tuple of sympy.Symbol
        The features and parameters of a free-form loss; empty otherwise.
    target : sympy.Symbol
        The target.
    target_values : tuple of float or None
        The declared values of the target.

    Raises
    ------
    TypeError
        `expression` is not a SymPy expression (a string is never evaluated: it could run code), or a
        symbol is not a SymPy symbol.
    ValueError
        The expression has an undeclared symbol or an undefined function, is not real and finite,
        or does not depend on the score.

    Notes
    -----
    Symbols that were declared without ``real=True`` are replaced by real symbols of the same name.

    Examples
    --------
    >>> import sympy as sp
    >>> u, y = sp.symbols("u y", real=True)
    >>> Loss(sp.exp(-y * u), score=u, target=y, target_values=(-1, 1))
    Loss(exp(-u*y), score=u, target=y, target_values=(-1, 1))
    """

    expression: sp.Expr
    scores: tuple[sp.Symbol, ...]
    features: tuple[sp.Symbol, ...]
    parameters: tuple[sp.Symbol, ...]
    target: sp.Symbol
    target_values: tuple[float, ...] | None
    name: str | None

    def __init__(
        self,
        expression: sp.Expr,
        *,
        score: sp.Symbol | Iterable[sp.Symbol],
        target: sp.Symbol,
        target_values: Sequence[float] | None = None,
        name: str | None = None,
    ) -> None:
        scores = _several(score)
        if not scores:
            raise ValueError("score has no symbols. Declare at least one with sympy.symbols.")
        self._declare(
            expression, scores=scores, features=(), parameters=(), target=target,
            target_values=target_values, name=name,
        )  # fmt: skip

    @classmethod
    def of_features(
        cls,
        expression: sp.Expr,
        *,
        features: sp.Symbol | Iterable[sp.Symbol],
        parameters: sp.Symbol | Iterable[sp.Symbol],
        target: sp.Symbol,
        target_values: Sequence[float] | None = None,
        name: str | None = None,
    ) -> "Loss":
        """Declare a loss in named features and parameters.

        Parameters
        ----------
        expression : sympy.Expr
            The loss of one record, a real expression in `features`, `parameters` and `target`.
        features : sympy.Symbol or iterable of sympy.Symbol
            The features, in the order of the columns of X.
        parameters : sympy.Symbol or iterable of sympy.Symbol
            The parameters, in the order of theta. There is no implicit intercept: name one.
        target : sympy.Symbol
            The target; the expression need not depend on it.
        target_values : sequence of float, optional
            The values that the target takes.
        name : str, optional
            A name for messages and reports.

        Returns
        -------
        Loss
            A loss whose `scores` are empty.

        Raises
        ------
        TypeError, ValueError
            As for the constructor; every feature and every parameter must occur in the expression.

        Examples
        --------
        >>> x, t, y = sp.symbols("x t y", real=True)
        >>> Loss.of_features((t * x**2 - y) ** 2, features=[x], parameters=[t], target=y)
        Loss.of_features((t*x**2 - y)**2, features=(x,), parameters=(t,), target=y)
        """
        loss = object.__new__(cls)
        loss._declare(
            expression, scores=(), features=_several(features), parameters=_several(parameters), target=target,
            target_values=target_values, name=name,
        )  # fmt: skip
        return loss

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        target_values: Sequence[float] | None = None,
        name: str | None = None,
    ) -> "Loss":
        """Declare a loss of one score by a Python function of score and target.

        Parameters
        ----------
        function : callable
            ``function(score, target)``, written with arithmetic and NumPy's functions. It is called once, with symbols
            in place of arrays; the loss is the expression that comes out, with all that follows from it.
        target_values : sequence of float, optional
            The values that the target takes.
        name : str, optional
            A name for messages and reports; by default the function's.

        Raises
        ------
        TypeError
            The function branches on its arguments, calls the math module or compiled code, uses a function without
            a symbolic counterpart, or does not take a score and a target, in this order by their names.
        ValueError
            The expression is no loss; see the constructor.

        Examples
        --------
        >>> import numpy as np
        >>> Loss.from_function(lambda score, target: np.exp(-target * score), target_values=(-1, 1))
        Loss(exp(-u*y), score=u, target=y, target_values=(-1, 1))
        """
        _check_takes_score_and_target(function)
        score, target = sp.symbols("u y", real=True)
        called = getattr(function, "__name__", None)
        return cls(
            traced(function, (score, target)),
            score=score,
            target=target,
            target_values=target_values,
            name=name or (None if called == "<lambda>" else called),
        )

    def with_target_values(self, values: Sequence[float]) -> "Loss":
        """Return the loss of a continuous target as declared for one of finitely many values.

        Parameters
        ----------
        values : sequence of float
            The values, at least two, distinct and finite.

        Raises
        ------
        ValueError, TypeError
            They are no such values, or the loss is not real and finite at one of them; or it has other target values,
            for which `recoded` is the same loss in other numbers.

        Examples
        --------
        >>> u, y = sp.symbols("u y", real=True)
        >>> Loss((u - y) ** 2, score=u, target=y).with_target_values((0, 1, 2)).target_values
        (0.0, 1.0, 2.0)
        """
        declared = self._redeclared(self.expression, target_values=values)
        if self.target_values is not None and set(self.target_values) != set(declared.target_values or ()):
            # At y = 0 the loss of the margin y u, say, is the same for all scores.
            raise ValueError(
                f"{self.expression} is declared for the target values {shown(self.target_values, 60)}, and at "
                f"{shown(tuple(values), 60)} the same expression is another loss. The same loss in other numbers is "
                "loss.recoded(values); another loss is declared as symdebias.Loss(expression, ...)."
            )
        return declared

    def recoded(self, values: Sequence[float]) -> "Loss":
        """Return the same loss for labels that are written as other numbers, such as 0 and 1 in place of -1 and 1.

        Parameters
        ----------
        values : sequence of float
            As many as the loss has target values; in order they stand for these in order.

        Raises
        ------
        ValueError, TypeError
            The loss has no target values, or they are not of this number or not at the same relative distances: any
            two values are, 1, 2 and 3 for 0, 1 and 2.

        Examples
        --------
        >>> import sympy as sp
        >>> u, y = sp.symbols("u y", real=True)
        >>> Loss(sp.exp(-y * u), score=u, target=y, target_values=(-1, 1)).recoded((0, 1))
        Loss(exp(-u*(2*y - 1)), score=u, target=y, target_values=(0, 1))
        """
        wanted = _check_target_values(values)
        if self.target_values is None or wanted is None or len(wanted) != len(self.target_values):
            raise ValueError(
                f"{shown(values, 60)} cannot stand for the target values {shown(self.target_values, 60)} of the loss. "
                "Give as many numbers as the loss has target values."
            )
        old, new = ([sp.nsimplify(value, rational=True) for value in known] for known in (self.target_values, wanted))
        rate = (old[-1] - old[0]) / (new[-1] - new[0])
        if any(old[0] + rate * (value - new[0]) != other for value, other in zip(new, old, strict=True)):
            raise ValueError(
                f"{shown(values, 60)} are not at the distances of {shown(self.target_values, 60)}, the target values "
                "of the loss. Number the labels from 0 on, in steps of one."
            )
        moved = old[0] - rate * new[0] + rate * self.target
        return self._redeclared(self.expression.xreplace({self.target: moved}), target_values=wanted)

    def against(self, label: float, baseline: float, *, of: Sequence[float]) -> "Loss":
        """Return this loss of two labels for one label of several against another; records of the rest count nothing.

        Under a multinomial logit model the log loss of each label against a baseline finds the parameters of its score
        less those of the baseline's: it is the log likelihood of the records of both. A loss of one score has
        corrections, and surrogates, where `losses.softmax` has none, as under Gaussian noise; noised labels are
        corrected with it, so that no record is to be chosen by its noised label. What a fit predicts is which of both
        labels a record of one of them has.

        Parameters
        ----------
        label, baseline : float
            Two of the values: the one that is written as the larger target value of this loss, and the other one.
        of : sequence of float
            All target values, as the release has them: for labels of text 0, 1, ..., in the order of its categories.

        Raises
        ------
        ValueError, TypeError
            The loss has no two target values, the labels are not two of the values, or a value is a fraction that
            float64 does not have, such as 0.1.

        References
        ----------
        Begg & Gray 1984, Section 2; Agresti 2013, *Categorical Data Analysis*, Section 8.1.

        Examples
        --------
        >>> import symdebias as sd
        >>> sd.losses.logistic().against(2, 0, of=(0, 1, 2)).expression
        Piecewise((log(1 + exp(-u)), Eq(y, 2)), (log(exp(u) + 1), Eq(y, 0)), (0, True))
        """
        values = _check_target_values(of)
        if self.target_values is None or len(self.target_values) != 2:
            raise ValueError(
                f"{self.expression} is no loss of two labels. One label stands against another in a loss of two, such "
                "as symdebias.losses.logistic()."
            )
        # True is equal to 1, and SymPy has it as no number.
        are_numbers = all(isinstance(one, Real) and not isinstance(one, bool) for one in (label, baseline))
        if values is None or not are_numbers or label == baseline or not {label, baseline} <= set(values):
            raise ValueError(
                f"label={shown(label, 40)} and baseline={shown(baseline, 40)} are not two of the values "
                f"{shown(of, 60)}. Give two of them, as numbers."
            )
        lower, upper = (
            self.expression.xreplace({self.target: sp.nsimplify(value, rational=True)}) for value in self.target_values
        )
        places = [sp.Eq(self.target, sp.nsimplify(value, rational=True)) for value in (label, baseline)]
        against = self._redeclared(
            sp.Piecewise((upper, places[0]), (lower, places[1]), (sp.Integer(0), True)), target_values=values,
            name=f"{self.name or 'loss'} of {label:g} against {baseline:g}",
        )  # fmt: skip
        _check_labels(against.expression, (*self.scores, *self.features, *self.parameters), against.target, values)
        return against

    @property
    def jump(self) -> tuple[sp.Symbol, float] | None:
        """A score or a parameter with a number at which the loss jumps, as the 0-1 loss does; None where none is seen.

        Of several, and of parameters, it is looked for where the others, and features, take a few values.
        """
        looked_at = (*self.scores, *self.parameters)
        others = (*looked_at, *self.features)
        steps = range(1 if len(others) == 1 else len(_PROBES))
        for value in self.target_values or _TARGET_PROBES:
            branch = _at_label(self.expression, self.target, value)
            for step, symbol in itertools.product(steps if may_jump(branch) else (), looked_at):
                point = {one: float(number) for one, number in _probe(others, step).items() if one != symbol}
                place = jump(branch, symbol, (*point.items(), (self.target, value)))
                if place is not None:
                    return symbol, place
        return None

    def by_score(self, vectors: FloatArray) -> FloatArray:
        """Return parameters, scores after one another, with a row for each of several: (..., q) or (..., K, q).

        Parameters
        ----------
        vectors : array of shape (..., Q)
            The parameters of all scores.
        """
        count = len(self.scores)
        return vectors.reshape(*vectors.shape[:-1], count, -1) if count > 1 else vectors

    def _repr_latex_(self) -> str | None:
        return _markup.displayed(self.expression)

    def __repr__(self) -> str:
        values = ""
        if self.target_values is not None:
            values = ", target_values=(" + ", ".join(f"{value:g}" for value in self.target_values) + ")"
        if self.scores:
            score = str(self.scores[0]) if len(self.scores) == 1 else f"({', '.join(map(str, self.scores))})"
            return f"Loss({self.expression}, score={score}, target={self.target}{values})"
        return (
            f"Loss.of_features({self.expression}, features={self.features}, "
            f"parameters={self.parameters}, target={self.target}{values})"
        )

    def _redeclared(
        self, expression: sp.Expr, *, target_values: Sequence[float] | None, name: str | None = None
    ) -> "Loss":
        """Return a loss in the same symbols, of the same name where no other is given."""
        found: Loss = object.__new__(type(self))
        found._declare(
            expression, scores=self.scores, features=self.features, parameters=self.parameters, target=self.target,
            target_values=target_values, name=self.name if name is None else name,
        )  # fmt: skip
        return found

    def _declare(
        self,
        expression: sp.Expr,
        *,
        scores: tuple[sp.Symbol, ...],
        features: tuple[sp.Symbol, ...],
        parameters: tuple[sp.Symbol, ...],
        target: sp.Symbol,
        target_values: Sequence[float] | None,
        name: str | None,
    ) -> None:
        if not isinstance(expression, sp.Expr):
            raise TypeError(
                f"the loss must be a SymPy expression; got {type(expression).__name__[:60]}. Build it from "
                "sympy.symbols and sympy functions; text is never evaluated."
            )
        declared = (*scores, *features, *parameters, target)
        for symbol in declared:
            _check_symbol(symbol)
        if len({symbol.name for symbol in declared}) < len(declared):
            raise ValueError(
                f"two declared symbols share a name: {', '.join(symbol.name for symbol in declared)}. "
                "Give every score, feature, parameter and target a name of its own."
            )
        if name is not None:
            check_name("name", name, "a loss's")
        require_admitted(expression)
        real = {symbol: sp.Symbol(symbol.name, real=True) for symbol in declared}
        with timed():
            variables = tuple(real[symbol] for symbol in (*scores, *features, *parameters))
            written = _evaluated(expression.xreplace(real))
            expression = in_one_spelling(written, variables, None if target_values is not None else real[target])
            if expression is not written:
                expression = _evaluated(expression)
            values = _check_target_values(target_values)
            _check_symbols_of(expression, set(real.values()))
            for symbol in (*scores, *features, *parameters):
                if real[symbol] not in expression.free_symbols:
                    raise ValueError(
                        f"the loss does not depend on {symbol}: {expression}. "
                        "Leave the symbol out, or write the loss in terms of it."
                    )
            _check_real(expression, variables, real[target], values)
            if len(scores) == 1:
                _check_singularities(expression, real[scores[0]], real[target], values or _TARGET_PROBES)
            for field, value in (
                ("expression", expression),
                ("scores", tuple(real[symbol] for symbol in scores)),
                ("features", tuple(real[symbol] for symbol in features)),
                ("parameters", tuple(real[symbol] for symbol in parameters)),
                ("target", real[target]),
                ("target_values", values),
                ("name", name),
            ):
                object.__setattr__(self, field, value)


def without_target_alone(loss: Loss) -> tuple[Loss, sp.Expr]:
    """Return a loss without the terms that no parameter is in, and these terms; 0 where there are none."""
    alone, rest = loss.expression.as_independent(*loss.scores, *loss.parameters, *loss.features, as_Add=True)
    if not alone.free_symbols:
        return loss, sp.Integer(0)
    return loss._redeclared(rest, target_values=loss.target_values), alone


def _several(symbols: Any) -> tuple[sp.Symbol, ...]:
    """Return symbols as a tuple; one may stand by itself. A set has no order, and is no sequence of symbols."""
    is_one = isinstance(symbols, (sp.Basic, Set)) or not is_list(symbols)
    return (symbols,) if is_one else tuple(symbols)


def _check_symbol(symbol: object) -> None:
    if not isinstance(symbol, sp.Symbol):
        raise TypeError(
            f"scores, features, parameters and targets must be SymPy symbols; got {shown(symbol, 60)}. "
            'Declare them with sympy.symbols("u y", real=True).'
        )
    check_name("the loss", symbol.name, "a symbol's")
    if symbol.is_extended_nonnegative or symbol.is_extended_nonpositive or symbol.is_integer:
        raise ValueError(
            f"the symbol {symbol} was declared with a sign or as an integer, and SymPy may already have "
            "simplified with it. Noised values take every real value: declare it with real=True alone."
        )
    if symbol.is_extended_real is False:
        raise ValueError(f"the symbol {symbol} was declared as not real. Declare it with real=True.")


def _check_target_values(values: Sequence[float] | None) -> tuple[float, ...] | None:
    if values is None:
        return None
    remedy = "Give at least two distinct finite numbers, such as target_values=(-1, 1), or leave it out."
    if not is_list(values):
        raise TypeError(f"target_values must be a sequence of numbers; got {shown(values)}. {remedy}")
    checked: list[float] = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"target_values has {shown(value)}, which is not a finite number. {remedy}")
        checked.append(float(value))
    if len(checked) < 2 or len(set(checked)) < len(checked):
        raise ValueError(f"target_values={shown(tuple(values))} does not list two or more values. {remedy}")
    return tuple(sorted(checked))


def _evaluated(expression: Any) -> Any:
    """Return an expression as SymPy writes it by itself, so that copies of it are equal to it."""
    check()
    return expression.func(*map(_evaluated, expression.args)) if expression.args else expression


def _check_symbols_of(expression: sp.Expr, declared: set[sp.Symbol]) -> None:
    undeclared = sorted(symbol.name for symbol in expression.free_symbols - declared)
    names = {symbol.name for symbol in declared}
    if twice := [name for name in undeclared if name in names]:
        raise ValueError(
            f"the loss has undeclared symbols: {', '.join(undeclared)}. Another symbol of the name {twice[0]} was "
            "declared: symbols of one name differ where one is made with real=True and the other without. Make each "
            'symbol once, by u, y = sympy.symbols("u y", real=True).'
        )
    if undeclared:
        raise ValueError(
            f"the loss has undeclared symbols: {', '.join(undeclared)}. Put numbers in their place, or "
            "declare them as features or parameters with Loss.of_features."
        )
    undefined = sorted(str(call.func) for call in expression.atoms(AppliedUndef))
    if undefined:
        raise ValueError(
            f"the loss has undefined functions: {', '.join(undefined)}. Write it with SymPy's own functions."
        )


@functools.lru_cache(maxsize=256)
def _check_real(
    expression: sp.Expr,
    variables: tuple[sp.Symbol, ...],
    target: sp.Symbol,
    declared: tuple[float, ...] | None,
) -> None:
    target_values = declared or _TARGET_PROBES
    # A loss that asks of its target which label it is, as a softmax loss does, is one of few branches at each.
    branches = {value: _at_label(expression, target, value) for value in target_values}
    asks_alone = not any(target in branch.free_symbols for branch in branches.values())
    for step, value in itertools.product(range(len(_PROBES)), target_values):
        point = _probe(variables, step)
        point[target] = sp.Float(value)
        check()
        is_known = asks_alone and value != target_values[0]
        if not is_known and overflows(expression, {symbol: float(number) for symbol, number in point.items()}):
            where = ", ".join(f"{symbol} = {number:.3g}" for symbol, number in point.items())
            raise ValueError(
                f"the loss has a value or a constant beyond the numbers of float64 (1e308) at {where}. A loss must be "
                "finite at every real score: write it with smaller constants and fewer exponentials of exponentials."
            )
        if not _is_finite_real(branches[value].xreplace(point)):
            where = ", ".join(f"{symbol} = {number:.3g}" for symbol, number in point.items())
            remedy = "A loss must be real at every real score; for logarithms and roots of a score, use a form that is."
            for other in _TARGET_PROBES if declared is None else ():
                if _is_finite_real(branches[other].xreplace({**point, target: sp.Float(other)})):
                    remedy = (
                        f"It is one at {target} = {other:.3g}: a target without target_values may be any positive "
                        "number. Declare its values, or write the loss in a function of it that may be any, as "
                        "log(y/(1 - y)) of a share y."
                    )
            raise ValueError(f"the loss is not a finite real number at {where}: {expression}. {remedy}")


def _is_finite_real(expression: sp.Expr) -> bool:
    result = expression.evalf()
    return bool(result.is_number and result.is_real and result.is_finite)


def _at_label(expression: sp.Expr, target: sp.Symbol, value: float) -> sp.Expr:
    """Return an expression with the conditions decided that compare the target with a whole number."""
    decided = {
        condition: sp.true if value == int(condition.rhs) else sp.false
        for condition in expression.atoms(sp.Eq)
        if condition.lhs == target and condition.rhs.is_Integer and abs(condition.rhs) < 2**53
    }
    return expression.xreplace(decided) if decided else expression


def _probe(variables: tuple[sp.Symbol, ...], step: int) -> dict[sp.Symbol, sp.Expr]:
    """Return one of the points; each variable walks through the probes with its own offset, never in step."""
    return {
        symbol: sp.Float(_PROBES[(step * (1 + position) + position) % len(_PROBES)])
        for position, symbol in enumerate(variables)
    }


@functools.lru_cache(maxsize=256)
def _check_labels(
    expression: sp.Expr,
    variables: tuple[sp.Symbol, ...],
    target: sp.Symbol,
    target_values: tuple[float, ...],
) -> None:
    """Raise ValueError where the loss of a label depends on whether 0.1 is 1/10 or the number of float64 next to it.

    Derivations have it as the former, and what is computed for records as the latter.
    """
    for value in target_values:
        spellings = sp.Rational(value), sp.nsimplify(value, rational=True), sp.Float(value)
        if spellings[0] == spellings[1]:
            continue
        for step in range(len(_PROBES)):
            check()
            found = [expression.xreplace(_probe(variables, step) | {target: one}).evalf() for one in spellings]
            if max(found) - min(found) > _SAME * max(1, *map(abs, found)):
                raise ValueError(
                    f"the loss at {target} = {value!r} depends on the last digit of this number, which the conditions "
                    f"of {expression} compare the target with. Number labels from 0 on, in steps of one."
                )


@functools.lru_cache(maxsize=256)
def _check_singularities(
    expression: sp.Expr, score: sp.Symbol, target: sp.Symbol, target_values: tuple[float, ...]
) -> None:
    for value in target_values:
        check()
        place = singular_score(expression, score, {target: value})
        if place is not None:
            raise ValueError(
                f"the loss has no finite value at {score} = {place:.6g}, {target} = {value:g}: {expression}. A loss "
                "must be finite at every real score, and a noised score takes them all: bound denominators and "
                "arguments of logarithms away from 0, as in 1/(1 + u**2) and log(1 + u**2)."
            )


def require_loss(loss: Any) -> None:
    """Raise TypeError where something else than a loss was given."""
    if isinstance(loss, Loss):
        return
    remedy = "Take one of symdebias.losses, such as symdebias.losses.logistic(), or declare one."
    if isinstance(loss, str):
        remedy = _of_name(loss)
    elif callable(loss) and hasattr(loss, "__name__"):
        remedy = f"Call it: {loss.__name__}()."
    raise TypeError(f"loss must be a symdebias.Loss; got {type(loss).__name__}. {remedy}")


def _of_name(text: str) -> str:
    """Return what to give in the place of a text, which may be a name of the catalogue or a formula."""
    found = called_here(text)
    if found is None:
        of_ones_own = "Take one of symdebias.losses, or declare one: text is never evaluated."
        return why_outside(text) or f"{of_ones_own} There are {', '.join(CATALOGUE)}."
    needed = CATALOGUE[found].needs
    return f"Pass symdebias.losses.{found}({f'{needed}=...' if needed else ''})."


def _check_takes_score_and_target(function: Any) -> None:
    """Raise TypeError for a function of other arguments; one that cannot be asked is called as it is."""
    if not callable(function):
        return
    try:
        signature = inspect.signature(function)
    except ValueError:
        return
    try:
        taken = list(signature.bind("score", "target").arguments)
    except TypeError as error:
        raise TypeError(
            f"a loss function is called as function(score, target), and this one has the arguments {signature}: "
            f"{error}. Give values to the others, as lambda score, target: function(score, target, ...)."
        ) from None
    if taken[0] in _NAMES_OF_TARGETS and taken[-1] not in _NAMES_OF_TARGETS:
        raise TypeError(
            f"a loss function is called as function(score, target), and the first argument of this one is called "
            f"{taken[0]}. Exchange the two, or name it otherwise if it is the score."
        )
