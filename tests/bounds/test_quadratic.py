"""Quadratic losses taken apart, and their bounds: never below a value that is taken, and attained."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import symdebias as sd
from symdebias.bounds.boxes import upper_bound
from symdebias.bounds.quadratic import checked_box
from symdebias.exceptions import NoExactCorrectionError

U, Y = sp.symbols("u y", real=True)
X1, X2, T1, T2 = sp.symbols("x1 x2 t1 t2", real=True)


def free(expression, **options):
    return sd.Loss.of_features(expression, features=[X1, X2], parameters=[T1, T2], target=Y, **options)


# Loss, expansion, q and p (of a score: their factors).
FORMS = {
    "least squares": (sd.losses.least_squares(), "exact", [1], [Y]),
    "squared margin": (sd.losses.squared_margin(), "exact", [1], [Y]),
    "log loss": (sd.losses.logistic(), "taylor", [sp.Rational(1, 2)], [Y / 2]),
    "Poisson": (sd.losses.poisson(), "taylor", [1], [Y - 1]),
    "exponential": (sd.losses.exponential(), "taylor", [1], [Y]),
    "probit": (sd.losses.probit(), "taylor", [sp.sqrt(2 / sp.pi)], [sp.sqrt(2 / sp.pi) * Y]),
    "weighted by the target": (sd.Loss((1 + Y**2) * (U - Y) ** 2, score=U, target=Y), "exact",
                               [sp.sqrt(2) * sp.sqrt(1 + Y**2)], [2 * Y * (1 + Y**2)]),
    "free form": (free((T1 * X1**2 + T2 * X2 - Y) ** 2), "exact",
                  [sp.sqrt(2) * X1**2, sp.sqrt(2) * X2], [2 * X1**2 * Y, 2 * X2 * Y]),
    "decimals": (free(0.5 * (T1 * X1 + T2 * X2 - Y) ** 2), "exact", [X1, X2], [X1 * Y, X2 * Y]),
    "exponentials of features": (free((T1 * sp.exp(X1) + T2 * X2 - Y) ** 2 * sp.exp(X2) / 2), "exact",
                                 [sp.exp(X1 + X2 / 2), X2 * sp.exp(X2 / 2)],
                                 [Y * sp.exp(X1 + X2), X2 * Y * sp.exp(X2)]),
    "one parameter linear": (free((T1 * X1 - Y) ** 2 / 2 - T2 * X2 + T2 * Y * X2), "exact",
                             [X1, 0], [X1 * Y, X2 - Y * X2]),
    "free form, expanded": (free(sp.cosh(T1 * X1 + T2 * X2) - Y * T1), "taylor", [X1, X2], [Y, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_q_and_p(name):
    loss, expansion, q, p = FORMS[name]
    found = sd.quadratic.as_quadratic(loss, expansion=expansion)
    for side, wanted in ((found.q, q), (found.p, p)):
        assert [sp.simplify(a - b) for a, b in zip(side, wanted, strict=True)] == [0] * len(wanted)
    assert found.expanded == (expansion == "taylor")
    assert ("expanded to second order" in found.name) == found.expanded


@pytest.mark.parametrize("name", FORMS)
def test_the_form_is_the_loss_to_second_order(name):
    """(w'q)^2/2 - p'w + s has the value, gradient and Hessian of the loss at 0, on the values of the target."""
    loss, expansion, _, _ = FORMS[name]
    found = sd.quadratic.as_quadratic(loss, expansion=expansion)
    variables = loss.scores or loss.parameters
    form = sum(a * b for a, b in zip(found.q, variables, strict=True)) ** 2 / 2 + found.constant
    form -= sum(a * b for a, b in zip(found.p, variables, strict=True))
    origin = dict.fromkeys(variables, 0)
    for value in loss.target_values or (-1.5, 0.7):
        off = (loss.expression - form).subs(loss.target, sp.nsimplify(value))
        derivatives = [off, *(sp.diff(off, v) for v in variables)]
        derivatives += [sp.diff(off, a, b) for a, b in itertools.combinations_with_replacement(variables, 2)]
        for derivative in derivatives if found.expanded else [off]:
            point = {X1: 0.3, X2: -1.1, T1: 0.8, T2: -0.6, U: 1.7}
            at = derivative.subs(origin) if found.expanded else derivative
            assert abs(float(at.subs(point).evalf(30))) < 1e-13


@pytest.mark.parametrize("name", FORMS)
def test_vectors_of_records(name):
    loss, expansion, q, p = FORMS[name]
    found = sd.quadratic.as_quadratic(loss, expansion=expansion)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 2))
    y = rng.choice(loss.target_values, size=5) if loss.target_values else rng.normal(size=5)
    for vectors, parts in zip(found.vectors(X, y), (q, p), strict=True):
        for row, x, target in zip(vectors, X, y, strict=True):
            point = {X1: x[0], X2: x[1], Y: target}
            numbers = [float(sp.sympify(part).subs(point)) for part in parts]
            np.testing.assert_allclose(row, numbers if loss.features else numbers[0] * x, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        ([[1.0, math.nan]], [1.0], ValueError, "X has NaN in row 0, column 1"),
        ([["a", "b"]], [1.0], TypeError, "X must hold real numbers"),
        ([1.0, 2.0], [1.0, 1.0], ValueError, "X must have two dimensions"),
        ([[1.0, 2.0]], [1.0, -1.0], ValueError, "y has 2 entries, but X has 1 rows"),
        ([[1.0, 2.0], [3.0, 4.0]], [0.0, 1.0], ValueError, r"labels must be -1 or \+1; got 0 and 1\. Pass 2\*y - 1"),
        ([[1.0, 2.0]], [math.nan], ValueError, "y has NaN in row 0"),
        ([[1.0, 2.0]], ["yes"], TypeError, "y must hold real numbers"),
    ],
)
def test_records_that_are_no_records_of_the_loss(X, y, error, message):
    """Labels in another coding would be other vectors, and a contributor would not know."""
    for expansion, loss in (("exact", sd.losses.squared_margin()), ("taylor", sd.losses.logistic())):
        with pytest.raises(error, match=message):
            sd.quadratic.as_quadratic(loss, expansion=expansion).vectors(X, y)


def test_free_forms_need_a_column_for_each_feature():
    with pytest.raises(ValueError, match=r"X has 3 columns\. It must have one for each feature of the loss: x1, x2"):
        sd.quadratic.as_quadratic(free((T1 * X1 + T2 * X2 - Y) ** 2)).vectors(np.ones((4, 3)), np.ones(4))


REFUSED = [
    (sd.losses.logistic(), "exact", r'no polynomial of degree two in u\. Pass expansion="taylor"'),
    (sd.losses.huber(), "taylor", "not smooth"),
    (sd.losses.squared_hinge(), "taylor", "not smooth"),
    (sd.losses.softmax(3), "taylor", "several scores"),
    (sd.losses.negative_binomial(), "taylor", "whose sign, that of"),
    (sd.Loss(-((U - Y) ** 2), score=U, target=Y), "exact", "negative eigenvalue"),
    (sd.Loss(Y * U**2 - U, score=U, target=Y, target_values=(-1, 1)), "exact", "negative eigenvalue"),
    (sd.Loss(Y * U**2 - U, score=U, target=Y), "exact", "whose sign"),
    (sd.Loss(U * Y, score=U, target=Y), "exact", "linear in the parameters"),
    (sd.Loss(U**2 + Y, score=U, target=Y), "exact", "no linear part"),
    (free(T1**2 + T2**2 + T1 * X1 - X2 - Y * T1), "exact", "rank above one"),
    (free((T1 * X1 - Y) ** 2 + (T2 * X2 - Y) ** 2), "exact", "rank above one"),
    (free(T1 * T2 * X1 * X2 - Y * T1), "exact", "negative eigenvalue"),
    (free(X1 * (T1 * X1 + T2 * X2 - Y) ** 2), "exact", "whose sign, that of 2"),
    (free(sp.log(T1**2) * X1 + T2 * X2), "taylor", "not a finite"),
]


@pytest.mark.parametrize(("loss", "expansion", "message"), REFUSED, ids=str)
def test_losses_that_have_no_such_form(loss, expansion, message):
    with pytest.raises(NoExactCorrectionError, match=message):
        sd.quadratic.as_quadratic(loss, expansion=expansion)


def test_arguments_that_are_refused():
    with pytest.raises(TypeError, match=r"Call it: least_squares\(\)"):
        sd.quadratic.as_quadratic(sd.losses.least_squares)
    with pytest.raises(TypeError, match=r"must be a symdebias\.Loss"):
        sd.quadratic.as_quadratic("u**2")
    for word in ("none", None, 2):
        with pytest.raises(ValueError, match="expansion="):
            sd.quadratic.as_quadratic(sd.losses.least_squares(), expansion=word)
    for dimension in (0, -1, 1.0, True, None):
        with pytest.raises((TypeError, ValueError), match="dimension"):
            sd.quadratic.released_loss(dimension)


# ---- bounds ----------------------------------------------------------------------------------------------


def assert_just_above(found, wanted):
    """Bounds are rounded outwards: never below, and above by rounding errors."""
    assert np.all(np.array(found) >= wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_bounds_by_hand():
    found = sd.quadratic.as_quadratic(sd.losses.least_squares()).bounds(
        radius=0.5, record_radius=2.0, target_bounds=(-1, 3)
    )
    # ||x|| <= 2, |y| <= 3: lambda 4, P 6, zeta = 0.5 4 + 6.
    assert_just_above((found.curvature, found.q_bound, found.p_bound, found.lipschitz), (4.0, 2.0, 6.0, 8.0))
    margin = sd.quadratic.as_quadratic(sd.losses.squared_margin()).bounds(radius=3.0, record_radius=1.0)
    assert_just_above((margin.curvature, margin.p_bound, margin.lipschitz), (1.0, 1.0, 4.0))
    log = sd.quadratic.as_quadratic(sd.losses.logistic(), expansion="taylor").bounds(radius=1.0, record_radius=1.0)
    assert_just_above((log.curvature, log.q_bound, log.p_bound, log.lipschitz), (0.25, 0.5, 0.5, 0.75))
    poisson = sd.quadratic.as_quadratic(sd.losses.poisson(), expansion="taylor")
    found = poisson.bounds(radius=1.0, record_radius=1.0, target_bounds=(0, 8))
    assert_just_above((found.p_bound, found.lipschitz), (7.0, 8.0))


BOXES = {
    "free form": [(-1.0, 1.0), (-2.0, 0.5)],
    "exponentials of features": [(-1.0, 0.5), (-1.0, 1.0)],
    "one parameter linear": [(-1.0, 2.0), (0.5, 1.5)],
    "decimals": [(-1.0, 1.0), (-3.0, -2.0)],
}


@pytest.mark.parametrize("name", BOXES)
def test_bounds_of_free_forms_hold_and_are_near_the_maximum(name):
    """On a grid with all corners: no record exceeds them, and the largest one comes within 1e-4."""
    eta, ends = 1.5, (-1.0, 2.0)
    quadratic = sd.quadratic.as_quadratic(FORMS[name][0])
    found = quadratic.bounds(radius=eta, feature_bounds=BOXES[name], target_bounds=ends)
    axes = [np.linspace(low, high, 41) for low, high in (*BOXES[name], ends)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    q, p = quadratic.vectors(points[:, :2], points[:, 2])
    square, linear = np.sum(q**2, axis=1), np.linalg.norm(p, axis=1)
    for values, bound in ((square, found.curvature), (linear, found.p_bound), (eta * square + linear, found.lipschitz)):
        assert values.max() <= bound * (1 + 1e-13)
        assert values.max() >= bound * (1 - 1e-4)
    # The gradient over the ball, at w = +-eta q/||q|| and at random w.
    rng = np.random.default_rng(0)
    w = rng.normal(size=q.shape)
    for direction in (w, q, -q):
        unit = eta * direction / np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-300)
        gradient = q * np.sum(q * unit, axis=1, keepdims=True) - p
        assert np.linalg.norm(gradient, axis=1).max() <= found.lipschitz * (1 + 1e-13)


@pytest.mark.parametrize("name", ["least squares", "log loss", "weighted by the target", "Poisson"])
def test_neighbours_of_scores_change_by_the_bounds(name):
    """Records and their opposites on the sphere: q by 2 sqrt(lambda), p by 2 P < 2 zeta, and gradients reach zeta."""
    loss, expansion, _, _ = FORMS[name]
    quadratic, eta, length = sd.quadratic.as_quadratic(loss, expansion=expansion), 0.8, 1.7
    ends = None if loss.target_values else (-2.0, 1.5)
    found = quadratic.bounds(radius=eta, record_radius=length, target_bounds=ends)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 3))
    X *= length / np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.choice(loss.target_values, 500) if ends is None else np.r_[ends, rng.uniform(*ends, size=498)]
    q, p = quadratic.vectors(X, y)
    opposite_q, opposite_p = quadratic.vectors(-X, y)
    changes = np.linalg.norm(q - opposite_q, axis=1).max(), np.linalg.norm(p - opposite_p, axis=1).max()
    assert changes[0] == pytest.approx(2 * found.q_bound, rel=1e-6)
    assert changes[1] == pytest.approx(2 * found.p_bound, rel=1e-6)
    assert changes[0] <= 2 * found.q_bound * (1 + 1e-14)
    assert changes[1] <= 2 * found.p_bound * (1 + 1e-14) < 2 * found.lipschitz
    w = -eta * np.sign(np.sum(q * p, axis=1, keepdims=True)) * q / np.linalg.norm(q, axis=1, keepdims=True)
    steep = np.linalg.norm(q * np.sum(q * w, axis=1, keepdims=True) - p, axis=1).max()
    assert found.lipschitz * (1 - 1e-6) <= steep <= found.lipschitz * (1 + 1e-14)
    for i, j in itertools.product(range(0, 500, 25), repeat=2):
        assert np.linalg.norm(q[i] - q[j]) <= 2 * found.q_bound * (1 + 1e-14)
        assert np.linalg.norm(p[i] - p[j]) <= 2 * found.p_bound * (1 + 1e-14)


@pytest.mark.in_turn
@settings(max_examples=20)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_bounds_are_rounded_up(length, eta):
    found = sd.quadratic.as_quadratic(sd.losses.logistic(), expansion="taylor").bounds(radius=eta, record_radius=length)
    square = Fraction(length) ** 2 / 4
    assert square <= Fraction(found.curvature) <= square * (1 + Fraction(1, 2**50))
    assert square <= Fraction(found.q_bound) ** 2 <= square * (1 + Fraction(1, 2**48))
    assert Fraction(found.lipschitz) >= Fraction(eta) * square + Fraction(length) / 2


LEAST_SQUARES = sd.quadratic.as_quadratic(sd.losses.least_squares())
FREE = sd.quadratic.as_quadratic(FORMS["free form"][0])
BAD_BOUNDS = [
    (LEAST_SQUARES, {"record_radius": None}, "record_radius was not given"),
    (LEAST_SQUARES, {"feature_bounds": [(-1, 1)]}, "feature_bounds was"),
    (LEAST_SQUARES, {"target_bounds": None}, "target_bounds was not given"),
    (LEAST_SQUARES, {"target_bounds": (1, -1)}, "not two numbers in order"),
    (LEAST_SQUARES, {"target_bounds": (0, math.nan)}, "not two numbers in order"),
    (LEAST_SQUARES, {"target_bounds": (0, math.inf)}, "not two numbers in order"),
    (LEAST_SQUARES, {"target_bounds": 1.0}, "no pairs"),
    *[(LEAST_SQUARES, {"radius": value}, "radius") for value in (0.0, -1.0, math.nan, math.inf, "1", None, True)],
    *[(LEAST_SQUARES, {"record_radius": value}, "record_radius") for value in (0.0, -1.0, math.nan, math.inf, "1")],
    (sd.quadratic.as_quadratic(sd.losses.squared_margin()), {"target_bounds": (0, 1)}, "declared target_values"),
    (FREE, {"feature_bounds": [(-1, 1), (-1, 1)]}, "both given or both left out"),
    (FREE, {"record_radius": None}, "both given or both left out"),
    (FREE, {"record_radius": None, "feature_bounds": [(-1, 1)]}, "1 bounds were given for 2"),
    (FREE, {"record_radius": None, "feature_bounds": [(-1, 1), (1, 1)]}, "in order"),
    (FREE, {"record_radius": None, "feature_bounds": "no"}, "no pairs"),
    (sd.quadratic.as_quadratic(free((T1 * X1 + T2 / X2 - Y) ** 2)), {}, "not bounded over the declared records"),
]  # fmt: skip


def test_bounds_that_hold_the_declared_values_say_nothing_new():
    quadratic = sd.quadratic.as_quadratic(sd.losses.squared_margin())
    known = quadratic.bounds(radius=1.0, record_radius=1.0)
    assert quadratic.bounds(radius=1.0, record_radius=1.0, target_bounds=(-1, 1)) == known


@pytest.mark.parametrize(("quadratic", "change", "message"), BAD_BOUNDS, ids=str)
def test_bounds_that_are_refused(quadratic, change, message):
    options = {"radius": 1.0, "record_radius": 1.0, "target_bounds": (-1, 1), **change}
    with pytest.raises((TypeError, ValueError), match=message):
        quadratic.bounds(**options)


def test_boxes():
    assert checked_box([(0, 1), (-2, 3.5)], 2) == ((0.0, 1.0), (-2.0, 3.5))


# ---- intervals -------------------------------------------------------------------------------------------

EXPRESSIONS = [
    X1**2 - 2 * X1 * X2 + X2**3,
    sp.exp(X1) * sp.sin(X2) + sp.Abs(X1 - X2),
    sp.sqrt(1 + X1**2) * sp.cos(X1 * X2),
    sp.log(2 + X1**2 + X2**2) - X2 / (3 + X1),
    (X1**2 + X2**2) ** sp.Rational(3, 2) + sp.pi * X1,
    sp.sqrt(X1**2 * X2**2 + X2**4),
    (4 + X1) ** sp.Rational(1, 3) * sp.E - X2,
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_upper_bounds_are_above_a_fine_grid_and_near_it(expression):
    box = ((-1.0, 2.0), (-0.5, 1.5))
    bound = upper_bound(expression, [X1, X2], box)
    axes = np.meshgrid(*(np.linspace(*ends, 601) for ends in box))
    largest = float(np.max(sp.lambdify([X1, X2], expression, "numpy")(*axes)))
    assert bound >= largest * (1 - 1e-14)
    assert bound <= largest + 2e-3 * abs(largest)


def test_upper_bounds_round_outward():
    tenth = sp.Rational(1, 10)
    assert Fraction(upper_bound(tenth, [], ())) >= Fraction(1, 10)
    assert Fraction(upper_bound(-tenth, [], ())) >= Fraction(-1, 10)
    assert 0.1 <= upper_bound(sp.Float(0.1) * X1, [X1], ((0.0, 1.0),)) <= 0.1 * (1 + 1e-15)
    assert upper_bound(1 / X1, [X1], ((-1.0, 1.0),)) == math.inf
    assert upper_bound(-sp.log(X1), [X1], ((0.0, 1.0),)) == math.inf
    assert upper_bound(1 / sp.sqrt(X1), [X1], ((0.0, 1.0),)) == math.inf
    with pytest.raises(ValueError, match="no interval arithmetic"):
        upper_bound(sp.gamma(X1), [X1], ((1.0, 2.0),))
