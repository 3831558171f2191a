"""Losses that are quadratic in their parameters, as the two vectors of a record that such a loss depends on.

    loss = (w'q)^2/2 - p'w + s

Input perturbation sends q and p with noise; its scales follow from bounds on them, which are derived here too.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdebias._arrays import FloatArray, features_array, label_array, target_array
from symdebias._domains import COUNT, RADIUS, check_choice, shown
from symdebias.bounds.boxes import Box, upper_bound
from symdebias.codegen.numeric import numeric
from symdebias.exceptions import NoExactCorrectionError
from symdebias.losses import Loss
from symdebias.losses.loss import require_loss
from symdebias.losses.spellings import spellings
from symdebias.noise import exactly

EXPANSIONS = ("exact", "taylor")
_KINKED = (sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside, sp.Piecewise, sp.DiracDelta, sp.floor, sp.ceiling)


@dataclass(frozen=True)
class QuadraticBounds:
    """Bounds of a quadratic loss over all records within public bounds, rounded up.

    Attributes
    ----------
    curvature : float
        lambda, a bound on ||q||^2: the largest eigenvalue of the Hessian of one record.
    lipschitz : float
        zeta, a bound on the gradient ||q q'w - p|| over ||w|| <= radius.
    q_bound, p_bound : float
        Bounds on ||q|| and ||p||.
    radius : float
        The bound on ||w|| that `lipschitz` refers to.

    Examples
    --------
    >>> import symdebias as sd
    >>> quadratic = sd.quadratic.as_quadratic(sd.losses.least_squares())
    >>> bounds = quadratic.bounds(record_radius=1.0, radius=1.0, target_bounds=(-1, 1))
    >>> bounds.curvature, bounds.q_bound, round(bounds.lipschitz, 6)
    (1.0, 1.0, 2.0)
    """

    curvature: float
    lipschitz: float
    q_bound: float
    p_bound: float
    radius: float


@dataclass(frozen=True)
class QuadraticLoss:
    """A loss (w'q)^2/2 - p'w + s of one record.

    Attributes
    ----------
    declared : Loss
        The loss as it was declared.
    loss : Loss
        The quadratic loss: the declared one, or its second-order expansion at w = 0.
    q, p : tuple of sympy.Expr
        The components, in the features and the target; of a loss of one score the factors c and b of q = c x and
        p = b x, in the target.
    constant : sympy.Expr
        s.
    expanded : bool
        Whether `loss` is an expansion.

    Notes
    -----
    The sign of q is free: only q q' counts.
    """

    declared: Loss
    loss: Loss
    q: tuple[sp.Expr, ...]
    p: tuple[sp.Expr, ...]
    constant: sp.Expr
    expanded: bool

    @property
    def scored(self) -> bool:
        """Whether the loss is one of a score, so that q and p are multiples of x."""
        return bool(self.loss.scores)

    @property
    def name(self) -> str:
        """What the loss is called, the expansion named."""
        return self.loss.name or str(self.loss.expression)

    def vectors(self, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return q and p of records.

        Parameters
        ----------
        X : array of shape (n, p) or table
            The records; of a score with its constant, where there is one.
        y : array of shape (n,)
            The targets, among the declared values where there are any.

        Returns
        -------
        q, p : arrays of shape (n, d), float64
            d is the number of parameters.

        Raises
        ------
        TypeError, ValueError
            They are no finite numbers, do not fit one another or the loss, or a target is none of the declared values.

        Examples
        --------
        >>> from symdebias.losses import least_squares
        >>> q, p = as_quadratic(least_squares()).vectors(np.array([[1.0, 2.0]]), np.array([3.0]))
        >>> q.tolist(), p.tolist()
        ([[1.0, 2.0]], [[3.0, 6.0]])
        """
        X = features_array(X)
        values = self.loss.target_values
        y = target_array(y, rows=len(X)) if values is None else label_array(y, values, rows=len(X))
        if self.scored:
            factors = [numeric(part[0], (self.loss.target,))(y) for part in (self.q, self.p)]
            return factors[0][:, None] * X, factors[1][:, None] * X
        symbols = (*self.loss.features, self.loss.target)
        if X.shape[1] != len(self.loss.features):
            names = ", ".join(map(str, self.loss.features))
            raise ValueError(
                f"X has {X.shape[1]} columns. It must have one for each feature of the loss: {names:.300}."
            )
        columns = (*X.T, y)
        q, p = (np.stack([numeric(part, symbols)(*columns) for part in side], axis=1) for side in (self.q, self.p))
        return q, p

    def bounds(
        self,
        *,
        radius: float,
        record_radius: float | None = None,
        feature_bounds: Sequence[tuple[float, float]] | None = None,
        target_bounds: tuple[float, float] | None = None,
    ) -> QuadraticBounds:
        """Bound q, p and the gradient over all records within public bounds.

        Parameters
        ----------
        radius : float
            Bound on the L2 norm of the parameters w, positive.
        record_radius : float, optional
            Bound on the L2 norm of the features, for a loss of a score with the constant counted in. A free-form loss
            is bounded over the cube that holds the ball.
        feature_bounds : sequence of pairs of float, optional
            In place of it, bounds of each feature of a free-form loss.
        target_bounds : pair of float, optional
            Bounds of the target; not for declared target values.

        Raises
        ------
        ValueError
            A bound that is needed is missing or given twice, or q or p is not bounded over these records.

        Notes
        -----
        The gradient is q q'w - p, and over ||w|| <= eta its norm is at most eta ||q||^2 + ||p||, which is attained
        where p is a multiple of q: lambda = sup ||q||^2, zeta = sup (eta ||q||^2 + ||p||). With w = 0 in the ball
        sup ||p|| <= zeta, so that 2 zeta does bound the change of p when a record is replaced; 2 sup ||p|| bounds it
        by the triangle inequality and is smaller, and is attained where x and -x are both possible.

        Bounds come from interval arithmetic; see `symdebias.bounds.boxes`.

        References
        ----------
        Fukuchi, Tran & Sakuma 2017 (arXiv 1710.07425), Section 4.

        Examples
        --------
        >>> from symdebias.losses import least_squares
        >>> found = as_quadratic(least_squares()).bounds(radius=1.0, record_radius=2.0, target_bounds=(-1, 3))
        >>> round(found.curvature, 9), round(found.p_bound, 9), round(found.lipschitz, 9)
        (4.0, 6.0, 10.0)
        """
        eta = RADIUS.check("radius", radius)
        symbols, box = self._domain(record_radius, feature_bounds, target_bounds)
        if self.scored:
            assert record_radius is not None
            length = sp.Rational(RADIUS.check("record_radius", record_radius))
            square, linear = length**2 * self.q[0] ** 2, length * sp.Abs(self.p[0])
        else:
            square = sp.Add(*(part**2 for part in self.q))
            linear = _norm(self.p)
        largest = [
            self._over(expression, symbols, box) for expression in (square, linear, sp.Rational(eta) * square + linear)
        ]
        for what, value in zip(("||q||", "||p||", "the gradient"), largest, strict=True):
            if not value < 1e100:
                raise ValueError(
                    f"{what} is not bounded over the declared records. The noise must cover what a record can change: "
                    "declare narrower bounds, or a loss without poles in them."
                )
        curvature, p_bound, lipschitz = largest
        root = math.sqrt(curvature)
        if sp.Rational(root) ** 2 < sp.Rational(curvature):
            root = math.nextafter(root, math.inf)
        return QuadraticBounds(curvature, lipschitz, root, p_bound, eta)

    def _domain(self, record_radius: Any, feature_bounds: Any, target_bounds: Any) -> tuple[tuple[sp.Symbol, ...], Box]:
        features: tuple[sp.Symbol, ...] = ()
        box: Box = ()
        if self.scored:
            if record_radius is None or feature_bounds is not None:
                raise ValueError(
                    "a loss of a score is bounded by the length of a record, and record_radius was not given or "
                    "feature_bounds was. Give record_radius, a public bound on the L2 norm of the features."
                )
        else:
            features = self.loss.features
            if (record_radius is None) == (feature_bounds is None):
                raise ValueError(
                    "record_radius and feature_bounds were both given or both left out. A free-form loss takes one of "
                    "them: give feature_bounds, a public interval for each feature."
                )
            if feature_bounds is None:
                length = RADIUS.check("record_radius", record_radius)
                box = ((-length, length),) * len(features)
            else:
                box = checked_box(feature_bounds, len(features))
        target = self.loss.target
        if self.loss.target_values is not None:
            if target_bounds is not None:
                ((low, high),) = checked_box([target_bounds], 1)
                # Bounds that hold the declared values say nothing new.
                if not all(low <= value <= high for value in self.loss.target_values):
                    raise ValueError(
                        f"target_bounds={(low, high)} leave out one of the declared target_values. These are the "
                        "bounds already: leave target_bounds out."
                    )
            return features, box
        if target not in sp.Tuple(*self.q, *self.p).free_symbols:
            return features, box
        if target_bounds is None:
            raise ValueError(
                "the gradient depends on the target, and target_bounds was not given. Give public bounds of the "
                "target, such as target_bounds=(-1, 1)."
            )
        return (*features, target), (*box, *checked_box([target_bounds], 1))

    def _over(self, expression: sp.Expr, symbols: Sequence[sp.Symbol], box: Box) -> float:
        target, values = self.loss.target, self.loss.target_values
        if values is None:
            return upper_bound(expression, symbols, box)
        numbers = [number for value in values for number in spellings(expression, target, value)]
        return max(upper_bound(expression.xreplace({target: number}), symbols, box) for number in numbers)


def checked_box(bounds: Any, count: int) -> Box:
    """Return so many public intervals as pairs of float, each with its lower end first.

    Raises
    ------
    TypeError, ValueError
        They are no such pairs.
    """
    remedy = f"Give {count} pair{'s' if count > 1 else ''} of finite numbers, the lower one first."
    try:
        box = tuple((float(low), float(high)) for low, high in bounds)
    except (TypeError, ValueError):
        raise TypeError(f"the bounds {shown(bounds, 60)} are no pairs of numbers. {remedy}") from None
    if len(box) != count:
        raise ValueError(f"{len(box)} bounds were given for {count} variables. {remedy}")
    for low, high in box:
        if not -1e100 <= low < high <= 1e100:
            raise ValueError(f"the bounds {(low, high)} are not two numbers in order, up to 1e100. {remedy}")
    return box


def as_quadratic(loss: Loss, *, expansion: str = "exact") -> QuadraticLoss:
    """Take a loss apart that is quadratic in its parameters.

    Parameters
    ----------
    loss : Loss
        A loss of one score, or free-form. Its Hessian in the parameters must have rank one and no negative eigenvalue.
    expansion : {"exact", "taylor"}
        ``"exact"`` refuses a loss that is not quadratic; ``"taylor"`` takes its second-order expansion at w = 0, which
        is another loss: its name says so.

    Returns
    -------
    QuadraticLoss
        With q and p.

    Raises
    ------
    TypeError, ValueError
        It is no loss, or the expansion is not known.
    NoExactCorrectionError
        The loss has no such form; the message says why.

    Notes
    -----
    For one score l(u, y) = a(y) u^2/2 - b(y) u + c(y), so that q = sqrt(a) x and p = b x. The log loss
    log(1 + exp(-y u)) expands to log 2 - y u/2 + u^2/8: q = x/2 and p = y x/2.

    References
    ----------
    Fukuchi, Tran & Sakuma 2017 (arXiv 1710.07425), Sections 3 and 6.

    Examples
    --------
    >>> from symdebias.losses import logistic, squared_margin
    >>> as_quadratic(squared_margin()).q, as_quadratic(squared_margin()).p
    ((1,), (y,))
    >>> expanded = as_quadratic(logistic(), expansion="taylor")
    >>> expanded.q, expanded.p, expanded.name
    ((1/2,), (y/2,), 'logistic, expanded to second order at 0')
    """
    require_loss(loss)
    check_choice("expansion", expansion, EXPANSIONS)
    return _as_quadratic(loss, expansion)


@functools.lru_cache(maxsize=64)
def _as_quadratic(loss: Loss, expansion: str) -> QuadraticLoss:
    if len(loss.scores) > 1:
        raise _refusal(loss, "it has several scores, and its Hessian has a rank above one", "Use a loss of one score.")
    variables = loss.scores or loss.parameters
    exact = exactly(loss.expression)
    expression = sp.expand(exact)
    expanded = not (expression.is_polynomial(*variables) and sp.Poly(expression, *variables).total_degree() <= 2)
    if expanded and expansion == "exact":
        raise _refusal(
            loss,
            f"it is no polynomial of degree two in {', '.join(map(str, variables))}",
            'Pass expansion="taylor" for its second-order expansion at 0, which is another loss.',
        )
    hessian, linear, constant = (_taylor if expanded else _coefficients)(loss, exact if expanded else expression)
    if not any(linear):
        raise _refusal(loss, "it has no linear part, so that its minimiser is 0", "Check its signs.")
    q = _rank_one_root(loss, hessian)
    if not expanded:
        return QuadraticLoss(loss, loss, q, linear, constant, False)
    name = f"{loss.name or loss.expression}, expanded to second order at 0"
    options: dict[str, Any] = {"target": loss.target, "target_values": loss.target_values, "name": name}
    whole = sp.Add(*(a * b for a, b in zip(q, variables, strict=True))) ** 2 / 2 + constant
    whole -= sp.Add(*(a * b for a, b in zip(linear, variables, strict=True)))
    if loss.scores:
        quadratic = Loss(whole, score=loss.scores[0], **options)
    else:
        quadratic = Loss.of_features(whole, features=loss.features, parameters=loss.parameters, **options)
    return QuadraticLoss(loss, quadratic, q, linear, constant, True)


def released_loss(dimension: int) -> Loss:
    """Return (w'q)^2/2 - p'w as a free-form loss of the released vectors q and p.

    Corrected for the noise of an `InputPerturbation` it is the loss of the true records but for the part without
    parameters. It has no target: pass zeros.

    Parameters
    ----------
    dimension : int
        The number d of parameters, at least 1.

    Returns
    -------
    Loss
        With the features q0, q1, ..., p0, p1, ... and the parameters w0, w1, ....

    Examples
    --------
    >>> released_loss(1).expression
    -p0*w0 + q0**2*w0**2/2
    """
    count = COUNT.check("dimension", dimension)
    q, p, w = (sp.symbols(f"{letter}0:{count}", real=True) for letter in "qpw")
    score = sp.Add(*(a * b for a, b in zip(q, w, strict=True)))
    expression = score**2 / 2 - sp.Add(*(a * b for a, b in zip(p, w, strict=True)))
    return Loss.of_features(
        expression,
        features=(*q, *p),
        parameters=w,
        target=sp.Symbol("y", real=True),
        name="quadratic loss of released vectors",
    )


def _coefficients(loss: Loss, expression: sp.Expr) -> tuple[sp.Matrix, tuple[sp.Expr, ...], sp.Expr]:
    """Return the Hessian, p and the constant of a polynomial of degree two."""
    variables = loss.scores or loss.parameters
    polynomial = sp.Poly(expression, *variables)
    hessian = sp.Matrix(
        len(variables),
        len(variables),
        lambda i, j: polynomial.coeff_monomial(variables[i] * variables[j]) * (2 if i == j else 1),
    )
    linear = tuple(sp.factor_terms(-polynomial.coeff_monomial(variable)) for variable in variables)
    return hessian, linear, polynomial.coeff_monomial(1)


def _taylor(loss: Loss, expression: sp.Expr) -> tuple[sp.Matrix, tuple[sp.Expr, ...], sp.Expr]:
    """Return the Hessian at 0, p and the constant of the second-order expansion at 0."""
    variables = loss.scores or loss.parameters
    kinks = [node for kind in _KINKED for node in expression.atoms(kind) if node.free_symbols & set(variables)]
    if kinks:
        raise _refusal(
            loss, f"{kinks[0]} is not smooth in the parameters, and has no second-order expansion", "Use a smooth loss."
        )
    origin = dict.fromkeys(variables, sp.Integer(0))
    values = loss.target_values

    def at_zero(node: sp.Expr) -> sp.Expr:
        found = sp.simplify(node.subs(origin))
        if found.has(sp.nan, sp.zoo, sp.oo, -sp.oo, sp.Derivative, sp.Subs) or found.is_real is False:
            raise _refusal(loss, "a derivative at 0 is not a finite real number", "Use a smooth loss.")
        return _on_values(found, loss.target, values)

    hessian = sp.hessian(expression, variables).applyfunc(at_zero)
    linear = tuple(at_zero(-sp.diff(expression, variable)) for variable in variables)
    return hessian, linear, at_zero(expression)


def _on_values(expression: sp.Expr, target: sp.Symbol, values: tuple[float, ...] | None) -> sp.Expr:
    """Return an expression in its simplest form on two target values: affine in the target."""
    if values is None or len(values) != 2 or target not in expression.free_symbols:
        return expression
    low, high = (sp.Rational(value) for value in values)
    first, second = (expression.subs(target, value) for value in (low, high))
    slope = sp.simplify((second - first) / (high - low))
    return sp.simplify(first - slope * low + slope * target)


def _rank_one_root(loss: Loss, hessian: sp.Matrix) -> tuple[sp.Expr, ...]:
    """Return q with q q' = hessian."""
    size = hessian.shape[0]
    hessian = hessian.applyfunc(lambda entry: _on_values(sp.expand(entry), loss.target, loss.target_values))
    curved = [place for place in range(size) if not _vanishes(hessian[place, place])]
    if not curved:
        reason = "it is linear in the parameters" if hessian.is_zero_matrix else "its Hessian has a negative eigenvalue"
        raise _refusal(loss, reason, "A minimum needs a positive curvature.")
    pivot = curved[0]
    row = [hessian[pivot, place] for place in range(size)]
    common = _common_factor(row)
    direction = [sp.cancel(sp.together(entry / common)) for entry in row]
    size_of = sp.cancel(sp.together(hessian[pivot, pivot] / direction[pivot] ** 2))
    for i in range(size):
        for j in range(i, size):
            if not _vanishes(hessian[i, j] - size_of * direction[i] * direction[j]):
                raise _refusal(
                    loss,
                    "its Hessian in the parameters has a rank above one",
                    "Each record must enter through one combination w'q of the parameters.",
                )
    root = _root(loss, size_of)
    return tuple(sp.simplify(root * part) for part in direction)


def _root(loss: Loss, square: sp.Expr) -> sp.Expr:
    """Return a root of an expression, smooth where it is a square times what is never negative."""
    if loss.target_values is not None and square.free_symbols <= {loss.target}:
        labels = [label for value in loss.target_values for label in spellings(square, loss.target, value)]
        numbers = [sp.nsimplify(square.subs(loss.target, label)) for label in labels]
        if any(number.is_negative for number in numbers):
            raise _refusal(loss, "its Hessian has a negative eigenvalue", "Use a convex loss.")
        if len(set(numbers)) == 1:
            return sp.sqrt(numbers[0])
    try:
        content, factors = sp.factor_list(square)
    except sp.PolynomialError:
        content, factors = sp.Integer(1), [(square, 1)]
    outside, inside = sp.Integer(1), content
    for factor, power in factors:
        outside *= factor ** (power // 2)
        inside *= factor ** (power % 2)
    on_values = loss.target_values is not None and inside.free_symbols <= {loss.target}
    if not on_values and not inside.is_nonnegative:
        reason = (
            "a negative eigenvalue" if inside.is_nonpositive else f"an eigenvalue whose sign, that of {inside}, is open"
        )
        raise _refusal(loss, f"its Hessian has {reason}", "Use a loss that is convex in the parameters.")
    return outside * sp.sqrt(inside)


def _common_factor(entries: Sequence[sp.Expr]) -> sp.Expr:
    try:
        found = sp.gcd_list([sp.factor(entry) for entry in entries])
    except sp.PolynomialError:
        return sp.Integer(1)
    return sp.Integer(1) if _vanishes(found) else found


def _vanishes(expression: sp.Expr) -> bool:
    return bool(sp.simplify(expression) == 0)


def _norm(parts: Sequence[sp.Expr]) -> sp.Expr:
    """Return the Euclidean norm; of one component without a root of a square, which intervals widen."""
    left = [part for part in parts if part != 0]
    if len(left) == 1:
        return sp.Abs(left[0])
    return sp.sqrt(sp.Add(*(part**2 for part in left)))


def _refusal(loss: Loss, reason: str, remedy: str) -> NoExactCorrectionError:
    return NoExactCorrectionError(f"{loss.name or loss.expression} is not (w'q)^2/2 - p'w + s: {reason}. {remedy}")
