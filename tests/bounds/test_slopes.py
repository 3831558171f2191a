"""Bounds of derivatives against dense grids with a local optimiser, and against known values."""

import math

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import symdebias as sd
from symdebias.bounds.intervals import Range, mills_product, natural_range
from symdebias.bounds.slopes import curvature_range, slope_bound, slope_ranges
from symdebias.bounds.tight import tight_derivative
from symdebias.codegen.functions import inverse_mills as inverse_mills_ratio
from symdebias.codegen.functions import log_normal_cdf, mills_excess
from symdebias.codegen.stable import plain

pytestmark = pytest.mark.newest

U, Y = sp.symbols("u y", real=True)
BOUNDS = (-1.0, 2.0)

# Slope and curvature as functions of score and target, by hand.
expit = lambda u: 1 / (1 + np.exp(-u))  # noqa: E731


def inverse_mills(z):
    return (
        np.exp(-0.5 * z * z)
        / np.sqrt(2 * np.pi)
        / np.array([float(mpmath.ncdf(v)) for v in np.ravel(z)]).reshape(np.shape(z))
    )


def probit_curvature(u, y):
    m = inverse_mills(y * u)
    return m * (m + y * u)


BY_HAND = {
    "logistic": (sd.losses.logistic(), lambda u, y: -y * expit(-y * u), lambda u, y: expit(u) * expit(-u)),
    "exponential": (sd.losses.exponential(), lambda u, y: -y * np.exp(-y * u), lambda u, y: np.exp(-y * u)),
    "squared_margin": (sd.losses.squared_margin(), lambda u, y: y * (y * u - 1), lambda u, y: 1 + 0 * u),
    "squared_hinge": (
        sd.losses.squared_hinge(), lambda u, y: -y * np.maximum(0, 1 - y * u), lambda u, y: 1.0 * (y * u < 1)
    ),
    "hinge": (sd.losses.hinge(), lambda u, y: -y * (y * u < 1), None),
    "probit": (sd.losses.probit(), lambda u, y: -y * inverse_mills(y * u), probit_curvature),
    "least_squares": (sd.losses.least_squares(), lambda u, y: u - y, lambda u, y: 1 + 0 * u),
    "poisson": (sd.losses.poisson(), lambda u, y: np.exp(u) - y, lambda u, y: np.exp(u)),
    "huber": (sd.losses.huber(1.5), lambda u, y: np.clip(u - y, -1.5, 1.5), lambda u, y: 1.0 * (abs(u - y) < 1.5)),
    "quantile": (
        sd.losses.quantile(0.9, 0.25),
        lambda u, y: expit((u - y) / 0.25) - 0.9,
        lambda u, y: expit((u - y) / 0.25) * expit((y - u) / 0.25) / 0.25,
    ),
    "negative_binomial": (
        sd.losses.negative_binomial(2.0),
        lambda u, y: (y + 2) * np.exp(u) / (2 + np.exp(u)) - y,
        lambda u, y: (y + 2) * 2 * np.exp(u) / (2 + np.exp(u)) ** 2,
    ),
    "log cosh": (
        sd.Loss(sp.log(sp.cosh(U - Y)), score=U, target=Y),
        lambda u, y: np.tanh(u - y),
        lambda u, y: 1 / np.cosh(u - y) ** 2,
    ),
    "not convex": (
        sd.Loss(sp.tanh(U - Y) ** 2, score=U, target=Y),
        lambda u, y: 2 * np.tanh(u - y) / np.cosh(u - y) ** 2,
        lambda u, y: (2 - 4 * np.sinh(u - y) ** 2) / np.cosh(u - y) ** 4,
    ),
    "score and target": (
        sd.Loss(sp.exp(-U * Y / 4) + U**4 / 8, score=U, target=Y),
        lambda u, y: -y / 4 * np.exp(-u * y / 4) + u**3 / 2,
        lambda u, y: y**2 / 16 * np.exp(-u * y / 4) + 3 * u**2 / 2,
    ),
}  # fmt: skip


def supremum(function, loss, radius):
    """Return the largest value on a grid, refined by a local optimiser over scores at the target's best."""
    targets = np.array(loss.target_values) if loss.target_values else np.linspace(*BOUNDS, 31)
    scores = np.linspace(-radius, radius, 2001)
    values = np.array([function(scores, y) for y in targets])
    row, place = np.unravel_index(np.argmax(values), values.shape)
    near = max(place - 1, 0), min(place + 1, len(scores) - 1)
    found = optimize.minimize_scalar(
        lambda u: -float(function(np.array(u), targets[row])),
        bounds=(scores[near[0]], scores[near[1]]), method="bounded", options={"xatol": 1e-12},
    )  # fmt: skip
    return max(values.max(), -found.fun)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "radius"),
    [
        *((name, 4.0) for name in BY_HAND),
        ("hinge", 0.7),
        *(pytest.param(name, 0.7, marks=pytest.mark.exhaustive) for name in BY_HAND if name != "hinge"),
    ],
)
def test_bounds_are_tight(name, radius):
    loss, slope, curvature = BY_HAND[name]
    bounds = None if loss.target_values else BOUNDS
    least = supremum(lambda u, y: abs(slope(u, y)), loss, radius)
    assert least * (1 - 1e-12) <= slope_bound(loss, score_radius=radius, target_bounds=bounds) <= least * (1 + 1e-6)
    low, high = curvature_range(loss, score_radius=radius, target_bounds=bounds)
    if curvature is None:
        # The hinge has a kink within the larger radius only.
        assert (low, high) == ((0.0, math.inf) if radius > 1 else (0.0, 0.0))
        return
    most, fewest = supremum(curvature, loss, radius), -supremum(lambda u, y: -curvature(u, y), loss, radius)
    assert most * (1 - 1e-12) <= high <= most * (1 + 1e-6)
    assert fewest - 1e-6 * abs(fewest) - 1e-12 <= low <= fewest + 1e-12 * abs(fewest)


@pytest.mark.in_turn
@given(
    name=st.sampled_from(["logistic", "probit", "huber", "poisson", "quantile"]),
    radius=st.floats(1e-3, 50.0),
    share=st.floats(-1, 1),
    y_share=st.floats(0, 1),
)
@settings(max_examples=20)
def test_no_point_is_above_the_bounds(name, radius, share, y_share):
    loss, slope, curvature = BY_HAND[name]
    bounds = None if loss.target_values else BOUNDS
    y = 1.0 if loss.target_values else BOUNDS[0] + y_share * (BOUNDS[1] - BOUNDS[0])
    u = np.array(np.clip(share, -0.9, 1.0) * radius if name == "probit" else share * radius)
    rounding = 1 + 1e-9
    bound = slope_bound(loss, score_radius=radius, target_bounds=bounds)
    low, high = curvature_range(loss, score_radius=radius, target_bounds=bounds)
    if name == "probit" and u < -30:
        return  # the plain formula underflows
    assert abs(slope(u, y)) <= bound * rounding
    assert low / rounding - 1e-9 <= curvature(u, y) <= high * rounding + 1e-9


@pytest.mark.parametrize(
    ("loss", "slope", "curvature"),
    [
        (sd.losses.logistic(), 1.0, (0.0, 0.25)),
        (sd.losses.hinge(), 1.0, (0.0, math.inf)),
        (sd.losses.huber(1.5), 1.5, (0.0, 1.0)),
        (sd.losses.quantile(0.9, 0.5), 0.9, (0.0, 0.5)),
        (sd.losses.softmax(2), math.sqrt(2), (0.0, 0.5)),
        (sd.losses.softmax(5), math.sqrt(2), (0.0, 0.5)),
        # An algebraic tail, by its inverse.
        (sd.Loss(sp.sqrt(1 + (U - Y) ** 2), score=U, target=Y), 1.0, (0.0, 1.0)),
        (sd.Loss(sp.Abs(U - Y), score=U, target=Y), 1.0, (0.0, math.inf)),
        (sd.Loss(-sp.Abs(U - Y), score=U, target=Y), 1.0, (-math.inf, 0.0)),
        (sd.Loss(2 * sp.log(1 + sp.exp(-3 * U * Y)), score=U, target=Y, target_values=(-1, 1)), 6.0, (0.0, 4.5)),
    ],
    ids=str,
)
def test_known_values_on_the_whole_line(loss, slope, curvature):
    found = slope_bound(loss)
    assert slope <= found <= slope * (1 + 1e-12)
    assert curvature_range(loss) == pytest.approx(curvature, rel=1e-12, abs=0)


@pytest.mark.parametrize("loss", [sd.losses.squared_hinge(), sd.losses.squared_margin(), sd.losses.probit()], ids=str)
def test_a_curvature_may_be_bounded_where_the_slope_is_not(loss):
    assert curvature_range(loss)[1] == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(ValueError, match="no Lipschitz constant on the whole line"):
        slope_bound(loss)


@pytest.mark.parametrize(
    ("expression", "least", "most"),
    [
        # Cut along the score as well, no number of boxes was enough.
        (5 * U**2 * Y**2 / 4 + U**2 / 10 + U * Y, 0.2, 10.2),
        (U**4 / 12 + Y * U, 0.0, 1.69),
        (U**2 / 2 + sp.exp(Y) + U * Y**2, 1.0, 1.0),
    ],
)
def test_curvatures_of_one_of_score_and_target_alone(expression, least, most):
    loss = sd.Loss(expression, score=U, target=Y)
    found = curvature_range(loss, score_radius=1.3, target_bounds=(-2.0, 1.0))
    assert found == pytest.approx((least, most), rel=1e-6, abs=1e-9)
    assert found[0] <= least
    assert found[1] >= most


def test_the_bound_of_softmax_is_reached():
    """At u = (t, -t, -t), class 1, the gradient tends to e_0 - e_1; at (0, 0, -t) the largest eigenvalue to 1/2."""
    p = np.exp([40.0, 0.0, 0.0]) / np.exp([40.0, 0.0, 0.0]).sum()
    assert np.linalg.norm(p - [0, 1, 0]) == pytest.approx(slope_bound(sd.losses.softmax(3)), rel=1e-12)
    p = np.array([0.5, 0.5, 0.0])
    largest = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p)).max()
    assert largest == pytest.approx(curvature_range(sd.losses.softmax(3))[1], rel=1e-12)


@given(points=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5))
def test_the_normal_tail_and_its_derivatives_contain_the_truth(points):
    """Against mpmath with 80 digits; tails of the normal distribution below 1e-300 count as 0."""
    x = np.array(points)
    box = {U: Range(x, x)}
    logarithms, ratios, excesses, products = (
        natural_range(function(U), box)
        for function in (log_normal_cdf, inverse_mills_ratio, mills_excess, mills_product)
    )
    with mpmath.workdps(80):
        for place, point in enumerate(x):
            t = mpmath.mpf(float(point))
            tail = mpmath.erfc(-t / mpmath.sqrt(2)) / 2
            ratio = mpmath.npdf(t) / tail
            # Far left as many digits cancel as t^2 has, and far right 1 - tail is 1 but for its last digits.
            excess = t + ratio
            logarithm = mpmath.log(tail) if t < 0 else mpmath.log1p(-mpmath.erfc(t / mpmath.sqrt(2)) / 2)
            truths = (logarithm, ratio, excess, ratio * excess)
            for found, truth in zip((logarithms, ratios, excesses, products), truths, strict=True):
                assert found.low[place] <= truth <= found.high[place]
                assert found.high[place] - found.low[place] <= 1e-6 * max(1.0, abs(truth))


@pytest.mark.parametrize("function", [log_normal_cdf, inverse_mills_ratio, mills_excess, mills_product], ids=str)
def test_ranges_over_infinite_boxes_hold_all_values(function):
    whole = natural_range(function(U), {U: Range(np.array([-math.inf]), np.array([math.inf]))})
    for low, high in ((-math.inf, -30.0), (30.0, math.inf), (-math.inf, math.inf)):
        found = natural_range(function(U), {U: Range(np.array([low]), np.array([high]))})
        assert whole.low[0] <= found.low[0] <= found.high[0] <= whole.high[0]
        for end in (low, high):
            if math.isfinite(end):
                value = float(sp.N(function(sp.Float(end, 60)), 50))
                assert found.low[0] <= value <= found.high[0]


@given(
    ends=st.tuples(*[st.floats(-3, 3) for _ in range(2)]),
    share=st.floats(0, 1),
    expression=st.sampled_from([
        U**3 - 2 * U**2, 1 / (2 + U**4), sp.exp(-U) * sp.log(4 + U), sp.sqrt(U**2 + 1) ** 3, sp.erf(U) - sp.erfc(U),
        U**-3, 2**U, sp.tanh(U) / (U - 5), (U - 1) * (U + 1) * U,
    ]),
)  # fmt: skip
@settings(max_examples=200)
def test_ranges_contain_values(ends, share, expression):
    low, high = sorted(ends)
    point = min(max(low + share * (high - low), low), high)
    found = natural_range(expression, {U: Range(np.array(low), np.array(high))})
    if expression == U**-3 and point == 0:
        return
    value = sp.N(expression.subs(U, sp.Rational(point)), 40)
    assert sp.Float(float(found.low)) <= value <= (sp.oo if np.isinf(found.high) else sp.Float(float(found.high)))


BAD = [
    (sd.losses.exponential(), {}, ValueError, "exponential loss has no Lipschitz constant on the whole line"),
    (sd.losses.least_squares(), {"score_radius": 1.0}, ValueError, "target_bounds"),
    (sd.losses.logistic(), {"score_radius": math.nan}, ValueError, "score_radius=nan is not a number"),
    (sd.losses.logistic(), {"score_radius": 0.0}, ValueError, "score_radius=0.0 is too small"),
    (sd.losses.huber(), {"target_bounds": (1.0, -1.0)}, ValueError, "not in order"),
    (sd.losses.huber(), {"target_bounds": (0.0, math.nan)}, ValueError, "not in order"),
    (sd.losses.logistic, {}, TypeError, "got function"),
    (sd.Loss(sp.tan(sp.tanh(U * Y)), score=U, target=Y, target_values=(1, 2)), {}, ValueError, "interval arithmetic"),
    (
        sd.Loss(sp.Piecewise((0, U < Y), (1 + U**2, True)), score=U, target=Y, target_values=(0, 1)),
        {"score_radius": 3.0}, ValueError, "jumps",
    ),
    (sd.Loss(sp.exp(U) * Y**2, score=U, target=Y), {"score_radius": 1.0}, ValueError, "no bounds"),
    (sd.Loss(sp.Abs(U * Y), score=U, target=Y), {"score_radius": 1.0, "target_bounds": (1, 2)}, ValueError, "branches"),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "options", "error", "message"), BAD, ids=[message for *_, message in BAD])
def test_what_is_refused(loss, options, error, message):
    with pytest.raises(error, match=message):
        slope_bound(loss, **options)


def test_losses_of_several_scores_that_are_no_log_sum_exps_are_refused():
    u, v = sp.symbols("u v", real=True)
    for expression in (u**2 + v**2 + Y, -sp.log(sp.exp(u) + sp.exp(v)) + Y, sp.exp(u) + v * Y, u * v + Y):
        with pytest.raises(ValueError, match="several scores"):
            curvature_range(sd.Loss(expression, score=(u, v), target=Y, target_values=(0, 1)))


def test_a_sum_of_log_sum_exps_is_bounded_by_its_vertices():
    u, v = sp.symbols("u v", real=True)
    loss = sd.Loss(
        sp.log(1 + sp.exp(u)) + 2 * sp.log(sp.exp(2 * v) + sp.exp(-v)) - Y * u, score=(u, v), target=Y,
        target_values=(0, 1),
    )  # fmt: skip
    # The gradient is (p - y, 2 (3 q - 1)); the Hessian diag(p (1 - p), 18 q (1 - q)).
    assert slope_bound(loss) == pytest.approx(math.hypot(1, 4), rel=1e-12)
    low, high = curvature_range(loss)
    assert low == 0
    assert 4.5 <= high <= 0.25 + 4.5 + 1e-12


def test_both_differences_of_a_logistic_function_beside_it_are_kept():
    # p (p - 1) has the slope p^2 (1 - p) + (p - 1) p (1 - p), whose last term is no p (1 - p). With log(1 + e^-u) the
    # loss is convex, and steepest at u = -1: -1/(1 + e^-1) - e (e - 1)/(e + 1)^3 = -0.8219163263.
    p = 1 / (1 + sp.exp(-U))
    loss = sd.Loss(sp.log(1 + sp.exp(-U)) + p * (p - 1), score=U, target=Y, target_values=(-1, 1))
    steepest = 1 / (1 + math.exp(-1)) + math.e * (math.e - 1) / (math.e + 1) ** 3
    assert slope_bound(loss, score_radius=1.0) == pytest.approx(steepest, rel=1e-6)
    assert slope_bound(loss, score_radius=1.0) >= steepest
    assert curvature_range(loss, score_radius=1.0)[0] > 0.2
    assert slope_ranges(loss, score_radius=1.0)[0][1] == pytest.approx(steepest - 1, rel=1e-6)


def test_the_range_of_slopes_holds_for_targets_between_the_bounds():
    # The slope e^u - y: of one record with y = 0 and another with y = 2 none has the slopes of y = 1 on both sides.
    ((low, high),) = slope_ranges(sd.losses.poisson(), score_radius=1.0, target_bounds=(0, 2))
    assert (low, high) == pytest.approx((math.exp(-1) - 2, math.e), rel=1e-6)
    assert low <= math.exp(-1) - 2
    assert high >= math.e


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("factors", [(0, 1), (0, 2), (0, 1, 2), (0, 0, 2), (0, 1, 1, 2), (0, 2, 2)])
def test_derivatives_of_products_with_logistic_functions(factors, order):
    p = 1 / (1 + sp.exp(-U))
    product = sp.Mul(*((p, 1 - p, p - 1)[place] for place in factors)) + sp.log(1 + sp.exp(U)) * (p - 1)
    found, known = plain(tight_derivative(product, U, order)), sp.diff(product, U, order)
    for at in (sp.Rational(-3, 2), sp.Rational(1, 3), sp.Integer(2)):
        assert abs(sp.N(found.subs(U, at) - known.subs(U, at), 30)) < 1e-25


@pytest.mark.parametrize("values", [(0.1, 0.2, 0.3), (0.1 + 0.2, 0.7, 1.1), (0, 1, 2)], ids=str)
def test_conditions_on_labels_hold_for_the_fractions_that_they_are_written_as(values):
    """1/10 is no number of float64: without it the slope of the first label would count as that of the others."""
    first = sp.Eq(Y, sp.nsimplify(values[0], rational=True))
    own = sd.Loss(
        sp.Piecewise((3 * sp.log(1 + sp.exp(U)), first), (sp.log(1 + sp.exp(U)), True)),
        score=U, target=Y, target_values=values,
    )  # fmt: skip
    assert slope_bound(own) == pytest.approx(3.0)
    assert curvature_range(own) == pytest.approx((0.0, 0.75), abs=1e-12)
    assert slope_bound(sd.losses.softmax(3).recoded((0.1, 0.2, 0.3))) == slope_bound(sd.losses.softmax(3))
