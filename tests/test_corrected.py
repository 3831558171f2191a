import math
import pickle

import numpy as np
import pytest
import sympy as sp
from instances import EXACT_MARGIN, U, Y, free_form_loss, gaussian_release, margin_loss, records
from quadrature import function

import symdebias as sd
from symdebias import correction
from symdebias.exceptions import DerivationLimitError, NoExactCorrectionError

SHAPES = [
    (1, {}), (2, {}), (5, {}), (20, {}), (3, {"fit_intercept": True}), (33, {"fit_intercept": True}),
    (4, {"noiseless": ("x3",)}), (4, {"noiseless": ("x2", "x3"), "fit_intercept": True}),
]  # fmt: skip
LOSSES = {
    "exponential": sd.losses.exponential(),
    "squared margin": sd.losses.squared_margin(),
    "least squares": sd.losses.least_squares(),
    "quartic": margin_loss(EXACT_MARGIN["quartic"][0]),
    "normal cdf": margin_loss(EXACT_MARGIN["normal cdf"][0]),
    "erf and sine": margin_loss(sp.erf(U * Y / 3) * sp.sin(U)),
}
USUAL = (
    "squared margin", "normal cdf", "erf and sine", "least squares", "quartic", "exponential", "least squares",
    "exponential",
)  # fmt: skip


def _marks(name, usual, columns):
    if name != usual or columns in (5, 20):
        return [pytest.mark.exhaustive]
    # On the oldest versions one loop that is unrolled, of a loss that calls erf, and one that is not.
    return [] if (name, columns) in (("normal cdf", 2), ("exponential", 33)) else [pytest.mark.newest]


def make(loss, columns, options, *, method="auto", order=None, scale=0.4):
    release = gaussian_release(scale, **options) if loss.target_values else sd.Release(
        features=sd.GaussianMechanism.from_scale(scale), target=sd.GaussianMechanism.from_scale(0.3), **options
    )  # fmt: skip
    release = release.bind([f"x{j}" for j in range(columns)])
    corrected = sd.debias(loss, release, method=method, order=order)
    X, y = records(7, columns, continuous=loss.target_values is None)
    theta = np.cos(1.0 + np.arange(columns + release.fit_intercept)) / np.sqrt(columns)
    return corrected, theta, X, y


def twin(corrected, expression, theta, X, y):
    """An expression of the corrected loss by NumPy, one value per record."""
    p = X.shape[1]
    derivation = corrected.at(p).derivation
    program, names = derivation.program, derivation.symbols
    u = X @ theta[:p] + (theta[p] if len(theta) > p else 0.0)
    symbols = (program.scores[0], program.target, names.score_variance, names.target_variance, names.gain)
    target = derivation.constants["target"]
    return function(expression, *symbols)(u, y, corrected.score_variance(theta), *target) + 0 * u


def twin_gradient(corrected, theta, X, y):
    """x slope - D theta curvature by NumPy."""
    rows = np.column_stack([X, np.ones(len(X))])[:, : len(theta)]
    slope, curvature = (twin(corrected, part, theta, X, y) for part in corrected.gradient_expressions)
    variances = np.append(corrected.release.feature_variances(X.shape[1]), 0.0)[: len(theta)]
    return rows * slope[:, None] - curvature[:, None] * variances * theta


def finite_difference(f, theta, step=1e-5):
    columns = []
    for j in range(len(theta)):
        move = np.zeros(len(theta))
        move[j] = step
        columns.append((f(theta + move) - f(theta - move)) / (2 * step))
    return np.stack(columns, axis=-1)


@pytest.mark.in_turn
@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "columns", "options"),
    [
        # Every shape once and every loss at least once: all pairs take minutes of compilation.
        pytest.param(name, *shape, marks=_marks(name, usual, shape[0]))
        for index, (shape, usual) in enumerate(zip(SHAPES, USUAL, strict=True))
        for name in LOSSES
        if name in (usual, "exponential", "least squares") or index in (0, len(SHAPES) - 1)
    ],
    ids=str,
)
def test_kernels_agree_with_their_numpy_twin_and_with_one_another(name, columns, options):
    corrected, theta, X, y = make(LOSSES[name], columns, options)
    values = corrected.loss(theta, X, y)
    expression = corrected.at(columns).program.expression
    np.testing.assert_allclose(values, twin(corrected, expression, theta, X, y), rtol=1e-11, atol=1e-12)
    gradient = corrected.gradient(theta, X, y)
    np.testing.assert_allclose(gradient, twin_gradient(corrected, theta, X, y), rtol=1e-10, atol=1e-12)
    numeric = finite_difference(lambda at: corrected.loss(at, X, y), theta)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)
    weights = np.arange(1.0, 8.0)
    if columns in (1, 33):  # one loop that is unrolled and one that is not: each sum without weights is a kernel more
        np.testing.assert_allclose(corrected.mean_loss(theta, X, y), values.mean(), rtol=1e-12)
        np.testing.assert_allclose(corrected.mean_gradient(theta, X, y), gradient.mean(axis=0), rtol=1e-10, atol=1e-12)
    weighted = corrected.mean_gradient(theta, X, y, sample_weight=weights)
    np.testing.assert_allclose(weighted, np.average(gradient, axis=0, weights=weights), rtol=1e-10, atol=1e-12)
    assert corrected.mean_loss(theta, X, y, sample_weight=weights) == pytest.approx(
        np.average(values, weights=weights), rel=1e-12
    )
    hessian = corrected.mean_hessian(theta, X, y, sample_weight=weights)
    numeric = finite_difference(lambda at: corrected.mean_gradient(at, X, y, sample_weight=weights), theta)
    np.testing.assert_allclose(hessian, numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_gradient_of_a_series_is_its_derivative(order):
    corrected, theta, X, y = make(sd.losses.logistic(), 3, {}, method="series", order=order)
    numeric = finite_difference(lambda at: corrected.loss(at, X, y), theta)
    np.testing.assert_allclose(corrected.gradient(theta, X, y), numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", EXACT_MARGIN)
def test_gradient_in_two_terms_symbolically(name):
    """d/d theta G(theta'x; theta'D theta) = x G_u - D theta G_uu for every exact correction."""
    corrected = sd.debias(margin_loss(EXACT_MARGIN[name][0]), gaussian_release())
    names = corrected.at(2).derivation.symbols
    u, s = corrected.at(2).program.scores[0], names.score_variance
    x1, x2, t1, t2, d1, d2 = sp.symbols("x1 x2 t1 t2 d1 d2", positive=True)
    at = {u: t1 * x1 + t2 * x2, s: d1 * t1**2 + d2 * t2**2}
    slope, curvature = corrected.gradient_expressions
    second = sp.diff(slope, u)
    difference = sp.diff(corrected.expression.subs(at), t1) - (x1 * slope.subs(at) - d1 * t1 * second.subs(at))
    values = {x1: 0.3, x2: 0.7, t1: 0.2, t2: 0.5, d1: 0.4, d2: 0.3, Y: -1, names.gain: 1.7}
    assert abs(float(difference.subs(values).evalf(30))) < 1e-12
    assert abs(float((curvature - second).subs({u: 0.4, s: 0.3, **values}).evalf(30))) < 1e-12


def test_free_form_kernels():
    release = sd.Release(features=sd.GaussianMechanism.from_scale(0.4), target=sd.GaussianMechanism.from_scale(0.3))
    corrected = sd.debias(free_form_loss(), release)
    X, y = records(7, 2, continuous=True)
    theta = np.array([0.7, -0.4])
    d, t = 0.16, 0.09
    x1, x2 = X.T
    # (t1 x1^2 + t2 x2 - y)^2 by hand, with He_2 and He_4 in the place of x1^2 and x1^4
    expected = (
        theta[0] ** 2 * (x1**4 - 6 * d * x1**2 + 3 * d**2) + theta[1] ** 2 * (x2**2 - d) + y**2 - t
        + 2 * theta[0] * theta[1] * (x1**2 - d) * x2 - 2 * theta[0] * (x1**2 - d) * y - 2 * theta[1] * x2 * y
    )  # fmt: skip
    np.testing.assert_allclose(corrected.loss(theta, X, y), expected, rtol=1e-11, atol=1e-13)
    numeric = finite_difference(lambda at: corrected.loss(at, X, y), theta)
    np.testing.assert_allclose(corrected.gradient(theta, X, y), numeric, rtol=1e-7, atol=1e-8)
    numeric = finite_difference(lambda at: corrected.mean_gradient(at, X, y), theta)
    np.testing.assert_allclose(corrected.mean_hessian(theta, X, y), numeric, rtol=1e-6, atol=1e-7)
    assert corrected.parameter_names == ("t1", "t2")
    assert "X[i, 1]" in corrected.source


@pytest.mark.in_turn
@pytest.mark.compiled
def test_free_form_with_label_noise_and_a_series():
    x, t = sp.symbols("x t", real=True)
    expression = sp.log(1 + sp.exp(-Y * t * x**2))
    loss = sd.Loss.of_features(expression, features=[x], parameters=[t], target=Y, target_values=(-1, 1))
    release = gaussian_release(0.3)
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match="no closed form was found"):
        sd.debias(loss, release)
    corrected = sd.debias(loss, release, method="series", order=2)
    assert not corrected.is_exact
    assert 1e-12 < corrected.certificate.loss_bias < 1e-3


def test_the_closed_form_of_the_exponential_loss():
    corrected = sd.debias(sd.losses.exponential(), sd.Release(features=sd.GaussianMechanism.from_scale(0.5)))
    X, y = records(5, 2)
    theta = np.array([0.8, -0.6])
    expected = np.exp(-y * (X @ theta) - 0.25 * theta @ theta / 2)
    np.testing.assert_allclose(corrected.loss(theta, X, y), expected, rtol=1e-12)


def test_symbols_are_explained_and_never_collide():
    s, t, c = sp.symbols("s t c", real=True)
    loss = sd.Loss(sp.exp(-s * t), score=s, target=t, target_values=(-1, 1))
    corrected = sd.debias(loss, gaussian_release())
    assert {symbol.name for symbol in corrected.expression.free_symbols} == {"s", "t", "s_", "c"}
    assert c not in loss.expression.free_symbols


def test_method_none_is_the_declared_loss():
    corrected = sd.debias(sd.losses.logistic(), gaussian_release(), method="none")
    X, y = records(6, 3)
    theta = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(corrected.loss(theta, X, y), np.log1p(np.exp(-y * (X @ theta))), rtol=1e-12)
    np.testing.assert_allclose(
        corrected.gradient(theta, X, y), -(y / (1 + np.exp(y * (X @ theta))))[:, None] * X, rtol=1e-12
    )


def test_a_loss_without_noise_on_the_features_needs_no_closed_form():
    corrected = sd.debias(sd.losses.logistic(), sd.Release(target=sd.RandomizedResponse(epsilon=1.0)))
    assert corrected.is_exact
    assert corrected.certificate.loss_bias < 1e-12


def test_latex_and_repr():
    corrected = sd.debias(sd.losses.squared_margin(), sd.Release(features=sd.GaussianMechanism.from_scale(0.5)))
    assert corrected.to_latex() == r"- \frac{s}{2} + \frac{u^{2}}{2} - u y + \frac{1}{2}"
    assert "squared" not in repr(corrected)
    assert "method='exact'" in repr(corrected)


def test_large_margins_do_not_overflow():
    corrected = sd.debias(sd.losses.logistic(), gaussian_release(), method="series", order=2)
    X = np.array([[1e4], [-1e4]])
    assert np.all(np.isfinite(corrected.loss([1.0], X, [1, -1])))
    assert np.all(np.isfinite(corrected.gradient([1.0], X, [1, -1])))


BAD_CALLS = [
    ({"y": [0, 1, 1]}, ValueError, r"labels must be -1 or \+1; got 0 and 1. Pass 2\*y - 1"),
    ({"y": [-1, 1, np.nan]}, ValueError, "y has NaN in row 2"),
    ({"X": [[0.1, np.nan]] * 3}, ValueError, "X has NaN in row 0, column 1"),
    ({"X": np.zeros((0, 2)), "y": []}, ValueError, "empty"),
    ({"theta": [1.0]}, ValueError, r"theta has the shape \(1,\); it must be \(2,\)"),
    ({"theta": [[1.0, 2.0]]}, ValueError, "theta has the shape"),
    ({"theta": [1.0, np.nan]}, ValueError, "theta has NaN"),
    ({"theta": [1.0, np.inf]}, ValueError, "theta has infinity"),
    ({"theta": "ab"}, TypeError, "real numbers"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_CALLS)
def test_bad_data_are_refused(change, error, message):
    corrected = sd.debias(sd.losses.exponential(), gaussian_release())
    arguments = {"theta": [0.1, 0.2], "X": [[0.1, 0.2]] * 3, "y": [-1, 1, 1], **change}
    for call in (corrected.loss, corrected.gradient, corrected.mean_loss, corrected.mean_gradient):
        with pytest.raises(error, match=message):
            call(**arguments)


BAD_DEBIAS = [
    ({"method": "series"}, ValueError, "needs order="),
    ({"order": 2}, ValueError, 'belongs to method="series"'),
    ({"method": "series", "order": 0}, ValueError, "order=0 is too small"),
    ({"method": "series", "order": 1.5}, TypeError, "order must be an integer"),
    ({"method": "series", "order": True}, TypeError, "order must be an integer"),
    (
        {"loss": sd.losses.least_squares(), "release": sd.Release(target=sd.RandomizedResponse(1.0, ("a", "b", "c")))},
        ValueError,
        r"categories a, b, c, but the loss has a continuous target. Take a loss of labels, such as .*softmax\(3\);",
    ),
    (
        {"loss": sd.losses.poisson(), "release": sd.Release(target=sd.RandomizedResponse(1.0, ("no", "yes")))},
        ValueError,
        r"such as symdebias.losses.logistic\(\).recoded\(\(0, 1\)\); or give",
    ),
    ({"loss": sd.Loss((U - Y) ** 2, score=U, target=Y, target_values=(0, 1))}, ValueError, "declare the same values"),
    (
        {"loss": free_form_loss(), "release": sd.Release(sd.GaussianMechanism.from_scale(1.0), fit_intercept=True)},
        ValueError,
        "names its own parameters",
    ),
    (
        {"loss": free_form_loss(), "release": sd.Release(sd.GaussianMechanism.from_scale(1.0)).bind(["x2", "x1"])},
        ValueError,
        "Use the same names in the same order",
    ),
    (
        {"loss": free_form_loss(), "release": sd.Release(sd.GaussianMechanism.from_scale(1.0)).bind(["a", "b", "c"])},
        ValueError,
        "Name the same columns",
    ),
    (
        {"loss": margin_loss(sp.Abs(U * Y)), "method": "series", "order": 1},
        sd.exceptions.NoExactCorrectionError,
        "kink",
    ),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_DEBIAS)
def test_what_does_not_fit_is_refused(change, error, message):
    arguments = {"loss": sd.losses.exponential(), "release": gaussian_release(), **change}
    with pytest.raises(error, match=message):
        sd.debias(**arguments)


def test_changing_budget_or_noise_compiles_nothing():
    X, y = records(5, 2)
    first = sd.debias(sd.losses.exponential(), gaussian_release(0.3, epsilon=1.0))
    second = sd.debias(sd.losses.exponential(), gaussian_release(0.9, epsilon=3.0))
    first.loss([0.1, 0.2], X, y)
    second.loss([0.1, 0.2], X.astype(np.float32), y.astype(int))
    assert first.at(2).kernels.loss is second.at(2).kernels.loss
    assert len(first.at(2).kernels.loss.signatures) == 1


def test_corrected_losses_can_be_sent_to_another_process():
    corrected = sd.debias(sd.losses.logistic(), gaussian_release(), method="series", order=2)
    X, y = records(5, 2)
    copy = pickle.loads(pickle.dumps(corrected))
    np.testing.assert_array_equal(copy.loss([0.1, 0.2], X, y), corrected.loss([0.1, 0.2], X, y))
    assert copy.release == corrected.release
    # A pool receives it with every task, and derives it once.
    assert pickle.loads(pickle.dumps(corrected)) is copy


@pytest.mark.in_turn
@pytest.mark.parametrize("features", [1, 2])
def test_a_correction_of_a_residual_keeps_its_digits_far_from_zero(features):
    noise = sd.LaplaceMechanism.from_scale(0.5)
    release = sd.Release({f"x{j}": noise for j in range(features)}, target=noise)
    corrected = sd.debias(sd.losses.cauchy(), release)
    assert corrected.method == "exact"
    theta, residuals = np.full(features, 1 / features), np.linspace(-3, 3, 13)
    near, far = (corrected.loss(theta, np.full((13, features), at), at - residuals) for at in (0.0, 2.0**14))
    # Multiplied out in score and target, the powers of the residual cancel all digits.
    np.testing.assert_allclose(far, near, rtol=1e-12)


@pytest.mark.parametrize("expression", [
    1 - sp.exp(-((U - Y) ** 2) / 8), (U - Y) ** 2 * sp.exp(-((U - Y) ** 2) / 8), sp.exp(-(U**2)) * sp.exp(U * Y),
], ids=["Welsch", "redescending", "product"])  # fmt: skip
@pytest.mark.in_turn
def test_bounded_losses_are_corrected_exactly_under_laplace_noise(expression):
    b, theta = 0.3, 1.5
    corrected = sd.debias(sd.Loss(expression, score=U, target=Y), sd.Release(sd.LaplaceMechanism.from_scale(b)))
    assert (corrected.method, corrected.conditions) == ("exact", ())
    noise, weights = np.polynomial.laguerre.laggauss(60)
    noise, weights = b * np.concatenate([-noise, noise]), np.concatenate([weights, weights]) / 2
    for x, y in ((-0.7, 0.4), (1.1, 1.5)):
        values = [corrected.loss([theta], np.array([[x + e]]), np.array([y])) for e in noise]
        assert weights @ values == pytest.approx(float(expression.subs({U: theta * x, Y: y})), abs=1e-9)


@pytest.mark.parametrize("kind", ["one score", "several", "categories", "features"])
def test_the_hessian_of_each_record_is_the_derivative_of_its_gradient(kind):
    X, y = records(5, 2, continuous=True)
    theta = np.array([0.3, -0.4])
    if kind == "one score":
        corrected = sd.debias(sd.losses.poisson(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    elif kind == "several":
        corrected, y = sd.debias(sd.losses.softmax(3), sd.Release()), np.array([0.0, 1, 2, 1, 0])
        theta = np.array([[0.3, -0.4], [0.1, 0.2], [0.0, 0.5]])
    elif kind == "categories":
        release = sd.Release({"a": sd.GaussianMechanism.from_scale(0.3), "b": sd.RandomizedResponse(1.0, (0, 1, 2))})
        corrected, X = sd.debias(sd.losses.poisson(), release), np.column_stack([X[:, 0], [0, 1, 2, 1, 0]])
        theta = np.array([0.3, -0.4, 0.2, 0.1])
    else:
        corrected = sd.debias(free_form_loss(), sd.Release(sd.GaussianMechanism.from_scale(0.4)))
    found = corrected.hessian(theta, X, y)
    assert found.shape == (5, theta.size, theta.size)
    flat = theta.ravel()
    numeric = finite_difference(
        lambda at: corrected.gradient(at.reshape(theta.shape), X, y).reshape(5, theta.size), flat
    )
    np.testing.assert_allclose(found, numeric, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.mean(axis=0), corrected.mean_hessian(theta, X, y), rtol=1e-10, atol=1e-12)


def test_labelled_parameters_are_matched_by_name():
    """By their places they were those of other columns, without a word."""
    pd = pytest.importorskip("pandas")
    release = sd.Release({"a": sd.LaplaceMechanism.from_scale(0.1), "b": sd.LaplaceMechanism.from_scale(0.2)})
    corrected = sd.debias(sd.losses.least_squares(), release)
    X, y = records(7, 2, continuous=True)
    theta = np.array([2.0, -1.0])
    other_order = pd.Series(theta[::-1], index=["b", "a"])
    np.testing.assert_array_equal(corrected.loss(other_order, X, y), corrected.loss(theta, X, y))
    assert corrected.score_variance(other_order) == corrected.score_variance(theta)
    judged = [
        sd.evaluation.evaluate(at, X, y, release=release, metric="squared_error").value for at in (other_order, theta)
    ]
    assert judged[0] == judged[1]
    bias = sd.bias(sd.losses.poisson(), sd.Release({name: sd.GaussianMechanism.from_scale(0.1) for name in "ab"}))
    np.testing.assert_array_equal(bias(other_order, X, y)[1], bias(theta, X, y)[1])
    for index in (["a", "c"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match=r"theta is labelled 'a', .*, and the parameters are a, b\."):
            corrected.loss(pd.Series(1.0, index=index), X, y)
    # Labels that count are no names.
    np.testing.assert_array_equal(corrected.loss(pd.Series(theta, index=[1, 0]), X, y), corrected.loss(theta, X, y))


@pytest.mark.parametrize(
    "theta", [None, [], [1.0], [1.0, 2.0, 3.0], "ab", [math.nan, 0.0], [[1.0], [2.0]], [[1.0], [2.0, 3.0]], [1j, 0.0]]
)
def test_the_score_variance_takes_checked_parameters(theta):
    """That of too few was the variance of parameters that are all the same, and of NaN it was 0."""
    release = sd.Release({"a": sd.LaplaceMechanism.from_scale(0.1), "b": sd.LaplaceMechanism.from_scale(0.2)})
    with pytest.raises((TypeError, ValueError), match="theta"):
        sd.debias(sd.losses.least_squares(), release).score_variance(theta)


def test_the_score_variance_asks_for_scales_of_records():
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    with pytest.raises(ValueError, match=r"it must be \(n,\) or \(n, 2\)"):
        corrected.score_variance([1.0, 2.0], noise_scale=0.5)


def test_what_is_no_number_is_refused_and_not_returned():
    release = sd.Release(sd.LaplaceMechanism.from_scale(0.1))
    corrected = sd.debias(sd.losses.least_squares(), release)
    X, y = records(7, 2, continuous=True)
    for of in (corrected.loss, corrected.mean_loss):
        with pytest.raises(ValueError, match=r"is no number.*parameters of up to 1e\+200"):
            of([1e200, 1e200], X, y)
    with pytest.raises(ValueError, match=r"reach 1e\+200, and scores are squared"):
        sd.evaluation.evaluate([1e200, 1e200], X, y, release=release, metric="squared_error")


def test_parts_that_take_too_long_are_looked_for_again_and_a_loss_without_any_is_refused_at_once(monkeypatch):
    corrected = sd.debias(sd.losses.squared_margin(), sd.Release(sd.GaussianMechanism.from_scale(0.1)))
    for _ in range(2):
        with pytest.raises(NoExactCorrectionError, match="polynomial"):
            _ = corrected.surrogate_parts
    logistic = sd.debias(sd.losses.logistic(), sd.Release(sd.GaussianMechanism.from_scale(0.1)))
    found, calls = correction.surrogate_parts, []

    def slow_at_first(*given):
        calls.append(given)
        if len(calls) == 1:
            raise DerivationLimitError("the derivation takes more than it is allowed.")
        return found(*given)

    monkeypatch.setattr(correction, "surrogate_parts", slow_at_first)
    with pytest.raises(DerivationLimitError):
        _ = logistic.surrogate_parts
    assert logistic.surrogate_parts is logistic.surrogate_parts
    assert len(calls) == 2
