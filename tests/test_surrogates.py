"""Losses without an exact correction: what surrogates promise, for every mechanism and mix."""

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, crossed_release, gaussian_release, mixed_release

import symdebias as sd
from symdebias import driver
from symdebias.assessment.kernel_bias import encoded, released_records
from symdebias.codegen.functions import heat_power
from symdebias.declared import DeclaredLoss
from symdebias.derivation import scores as derivation_of_scores
from symdebias.derivation.methods import Problem, Surrogate
from symdebias.exceptions import InfiniteVarianceError, NoExactCorrectionError
from symdebias.noise import FREQUENCY, AdditiveNoise
from symdebias.transforms import surrogate as waves_of

pytestmark = pytest.mark.newest

SETTINGS = {"radius": 3.0, "score_variance": 1.0, "n": 1e5}
COIN = sd.RandomizedResponse(epsilon=2.0)
NORMAL = sd.GaussianMechanism.from_scale(1.0)
# name -> (loss, release of unit scale, bound on the bias of the loss at s = 1, R = 3, n = 1e5)
BOUNDS = {
    "logistic": (sd.losses.logistic(), COIN, 2e-5),
    "probit": (sd.losses.probit(), COIN, 1e-3),
    "squared hinge": (sd.losses.squared_hinge(), COIN, 0.03),
    "hinge": (sd.losses.hinge(), COIN, 0.12),
    "Huber": (sd.losses.huber(), None, 0.0097),
    "Huber, noised target": (sd.losses.huber(), sd.GaussianMechanism.from_scale(0.5), 0.03),
    "quantile": (sd.losses.quantile(0.75), None, 7.8e-4),
    "absolute": (sd.Loss(sp.Abs(U - Y), score=U, target=Y), None, 0.13),
    "negative binomial": (sd.losses.negative_binomial(2.0), None, 1e-4),
    "quartic and logarithm": (
        sd.Loss((Y * U) ** 4 / 20 + sp.log(1 + sp.exp(-Y * U)), score=U, target=Y, target_values=(-1, 1)), COIN, 2e-5
    ),
    "labels 0 and 1": (
        sd.Loss(sp.log(1 + sp.exp(U)) - Y * U, score=U, target=Y, target_values=(0, 1)),
        sd.RandomizedResponse(epsilon=2.0, categories=(0, 1)), 2e-5,
    ),
    "three labels": (
        sd.Loss(sp.log(1 + sp.exp(U - Y)) + Y**2 * U, score=U, target=Y, target_values=(-1, 0, 1)),
        sd.RandomizedResponse(epsilon=2.0, categories=(-1, 0, 1)), 1e-4,
    ),
}  # fmt: skip


# Certificates of losses that others in the table are like.
IN_TURN = ("probit", "Huber", "quantile", "absolute", "three labels")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive) if name in IN_TURN else name for name in BOUNDS]
)
def test_bias_is_stated_and_verified_by_quadrature(name):
    loss, target, bound = BOUNDS[name]
    corrected = sd.debias(loss, sd.Release(NORMAL, target), **SETTINGS)
    assert corrected.method == "surrogate"
    assert not corrected.is_exact
    certificate = corrected.certify(theta_radius=3.0, columns=1)
    # Losses of the residual are measured in a unit of their own, and back.
    assert certificate.score_bound == pytest.approx(3.0, rel=1e-15)
    assert certificate.noise_variance == pytest.approx(1.0)
    assert 0 < certificate.loss_bias <= bound
    assert certificate.quadrature_error < 1e-9
    assert "biased, for ||theta|| <= 3" in str(certificate)


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", ["logistic", pytest.param("hinge", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "noise",
    [
        "Gaussian",
        pytest.param("anisotropic", marks=pytest.mark.exhaustive),
        pytest.param("correlated", marks=pytest.mark.exhaustive),
        pytest.param("Laplace", marks=pytest.mark.exhaustive),
        pytest.param("discrete Laplace", marks=pytest.mark.exhaustive),
        pytest.param("k-ary feature", marks=pytest.mark.exhaustive),
        pytest.param("mixed", marks=pytest.mark.exhaustive),
    ],
)
def test_bias_does_not_change_with_the_noise(noise, loss):
    """With the design held fixed, the mean of the corrected loss is the surrogate at every noise level and mix."""
    declared = {"logistic": sd.losses.logistic(), "hinge": sd.losses.hinge()}[loss]
    release = crossed_release(noise, declared)
    corrected = sd.debias(declared, release, method="surrogate", radius=2.0, score_variance=2.0, n=300)
    columns = len(declared.features) or release.number_of_columns or 3
    rng = np.random.default_rng(2)
    truth = DeclaredLoss(declared, release)
    coded = np.zeros(columns, dtype=bool)
    for place, kind in release.noises(columns):
        coded[place] = hasattr(kind, "matrix")
    correction = corrected.at(columns)
    base = rng.uniform(-0.6, 0.6, correction.number_of_parameters)
    # The noise of the score grows with the square of theta; the record shrinks, so that the score stays.
    for size in (0.5, 1.0):
        theta = size * base
        record = np.where(coded, 1.0, rng.uniform(-0.4, 0.4, columns) / size)
        code = 1.0
        seen = released_records(release, record, code, nodes=16)
        X, y = encoded(correction, seen.X, seen.y)
        values, gradients = np.empty(len(X)), np.empty((len(X), len(theta)))
        correction.kernels.loss(theta, X, y, correction.noise, values)
        correction.kernels.gradient(theta, X, y, correction.noise, gradients)
        target = np.array([truth.target(code)])
        rows = release.design(len(record)).rows(record[None, :])
        value, slope = corrected.surrogate_parts.errors(corrected.design, rows @ theta, target)
        function, slopes = truth.functions()
        wanted = function(*truth.arguments(theta, record[None, :], target)) + value
        assert seen.weights @ values == pytest.approx(wanted[0], abs=1e-8 * max(1, np.abs(values).max()))
        own = slopes[0](*truth.arguments(theta, record[None, :], target)) + slope
        scale = max(1.0, np.abs(gradients).max())
        np.testing.assert_allclose(seen.weights @ gradients, own * rows[0], atol=1e-8 * scale)


@pytest.mark.parametrize(
    "expression",
    [
        Y**2 * sp.log(1 + sp.exp(U)) - U * Y,
        # Ordered answers, each picked by a polynomial of the label that is 1 there and 0 at the others.
        sp.log(1 + sp.exp(U + 1)) * (Y - 1) * (Y - 2) / 2
        + sp.log(1 + sp.exp(1 - U)) * Y * (Y - 1) / 2
        + U**2 * Y * (2 - Y),
    ],
    ids=["a power of the label", "answers picked by polynomials"],
)
def test_a_loss_that_bends_in_labels_that_are_seen_is_that_of_each_label(expression):
    loss = sd.Loss(expression, score=U, target=Y, target_values=(0, 1, 2))
    corrected = sd.debias(loss, sd.Release({"a": NORMAL}), radius=3.0, score_variance=0.25, n=1e5)
    assert corrected.method == "surrogate"
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for label, score in [(0, -0.8), (1, 0.4), (2, 0.9), (2, -1.2)]:
        seen = corrected.loss([0.5], (score / 0.5 + nodes)[:, None], np.full(60, float(label)))
        wanted = float(expression.subs({U: score, Y: label}))
        assert seen @ weights / weights.sum() == pytest.approx(wanted, abs=1e-5)


def test_a_loss_that_bends_in_many_labels_has_no_surrogate():
    loss = sd.Loss(sp.log(1 + sp.exp(U)) * Y**2, score=U, target=Y, target_values=range(13))
    with pytest.raises(NoExactCorrectionError, match="13 labels are too many"):
        sd.debias(loss, sd.Release(NORMAL))


@pytest.mark.exhaustive
def test_records_with_noise_of_their_own():
    """Three records, each with its own scale: the mean of each is the surrogate of its true score."""
    release = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.5)}, COIN)
    corrected = sd.debias(sd.losses.hinge(), release, radius=2.0, score_variance=1.0, n=300)
    theta = np.array([0.8, -0.6])
    records = np.array([[0.3, 0.2], [-0.4, 0.5], [0.1, -0.9]])
    t, weights = np.polynomial.hermite_e.hermegauss(40)
    points = np.stack(np.meshgrid(t, t), axis=-1).reshape(-1, 2)
    shares = np.multiply.outer(weights, weights).ravel() / weights.sum() ** 2
    keep = COIN.noise.matrix[0][0]
    for record, scale in zip(records, (0.2, 0.7, 1.1), strict=True):
        total, slope = 0.0, np.zeros(2)
        for label, chance in ((1.0, keep), (-1.0, 1 - keep)):
            data = (record + scale * points, np.full(len(points), label))
            own = np.full(len(points), scale)
            total += chance * shares @ corrected.loss(theta, *data, noise_scale=own)
            slope += chance * shares @ corrected.gradient(theta, *data, noise_scale=own)
        score = np.array([record @ theta])
        value, bend = corrected.surrogate_parts.errors(corrected.design, score, np.ones(1))
        assert total == pytest.approx(np.maximum(0, 1 - score) + value, abs=1e-8)
        np.testing.assert_allclose(slope, (-1.0 * (score < 1) + bend) * record, atol=1e-8)


@pytest.mark.exhaustive
def test_gradient_is_the_derivative_of_the_loss_under_a_mix():
    release = mixed_release(target=sd.RandomizedResponse(epsilon=1.0))
    corrected = sd.debias(sd.losses.hinge(), release, **{**SETTINGS, "n": 1e3})
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.normal(size=(20, 3)), rng.choice([-1.0, 1.0], 20), rng.integers(0, 4, 20), rng.normal(size=20)]
    )
    y = rng.choice([-1.0, 1.0], 20)
    theta = rng.uniform(-0.4, 0.4, 9)
    gradient = corrected.mean_gradient(theta, X, y)
    hessian = corrected.mean_hessian(theta, X, y)
    h = 1e-5
    for j in range(9):
        step = h * np.eye(9)[j]
        moved = corrected.mean_loss(theta + step, X, y) - corrected.mean_loss(theta - step, X, y)
        assert moved / (2 * h) == pytest.approx(gradient[j], rel=1e-6, abs=1e-6)
        slopes = corrected.mean_gradient(theta + step, X, y) - corrected.mean_gradient(theta - step, X, y)
        np.testing.assert_allclose(slopes / (2 * h), hessian[j], rtol=1e-5, atol=1e-5 * np.abs(hessian).max())
    np.testing.assert_allclose(corrected.gradient(theta, X, y).mean(axis=0), gradient, rtol=1e-10)


@pytest.mark.exhaustive
def test_many_columns_of_categories():
    """Twelve binary columns, 4,096 combinations: each wave meets one factor per column."""
    names = [f"x{j}" for j in range(12)]
    release = sd.Release(dict.fromkeys(names, sd.RandomizedResponse(epsilon=3.0)))
    corrected = sd.debias(sd.losses.logistic(), release, radius=3.0, score_variance=0.5, n=1e4)
    theta = 0.3 * np.cos(np.arange(12))
    record = np.ones(12)
    keep = 1 / (1 + np.exp(-3.0))
    flips = (np.arange(4096)[:, None] >> np.arange(12)) & 1
    weights = np.prod(np.where(flips, 1 - keep, keep), axis=1)
    X, y = np.where(flips, -1.0, 1.0), np.ones(4096)
    score = np.array([record @ theta])
    value, slope = corrected.surrogate_parts.errors(corrected.design, score, np.ones(1))
    assert weights @ corrected.loss(theta, X, y) == pytest.approx(np.log1p(np.exp(-score)) + value, abs=1e-10)
    wanted = (-1 / (1 + np.exp(score)) + slope) * record
    np.testing.assert_allclose(weights @ corrected.gradient(theta, X, y), wanted, atol=1e-9)


def test_bias_at_true_records_is_the_distance_to_the_loss():
    corrected = sd.debias(sd.losses.hinge(), gaussian_release(), **SETTINGS)
    x, y = np.array([[0.3, 0.2], [-0.5, 0.1]]), np.array([1.0, -1.0])
    theta = np.array([1.5, -0.5])
    found = corrected.bias(theta, x, y)
    noiseless = sd.debias(sd.losses.hinge(), sd.Release(noiseless=("a", "b")), method="surrogate", **SETTINGS)
    hinge = np.maximum(0, 1 - y * (x @ theta))
    same = noiseless.surrogate_parts.design(radius=3.0, score_variance=1.0, records=1e5)
    assert np.abs(found).max() > 1e-3
    assert same.bias > 0
    np.testing.assert_allclose(noiseless.loss(theta, x, y) - hinge, noiseless.bias(theta, x, y), atol=1e-12)


# ---- the choice of a method --------------------------------------------------------------------------------


def test_automatic_choice_says_why():
    release = gaussian_release()
    assert sd.debias(sd.losses.exponential(), release).reason.startswith("exact: ")
    corrected = sd.debias(sd.losses.logistic(), release)
    assert corrected.method == "surrogate"
    assert "branch points at u = " in corrected.reason
    # Never a series without being asked, and exact where the mechanism allows it.
    laplace = sd.Release(sd.LaplaceMechanism.from_scale(0.1))
    assert sd.debias(sd.losses.logistic(), laplace).method == "exact"


class Silent(sd.LaplaceMechanism):
    """Noise that states no density."""

    law = AdditiveNoise(2.25, sp.exp(-(FREQUENCY**2) / 8) / (1 + FREQUENCY**2), tail_rate=1.0)

    @property
    def noise(self):
        return self.law


class Sharp(Silent):
    """Normal noise, written with a case that it never takes: it states no moments."""

    law = AdditiveNoise(1.0, sp.Piecewise((sp.exp(-(FREQUENCY**2) / 2), FREQUENCY > -(10**9)), (0, True)))


class Steep(Silent):
    """The sum of twelve Laplace numbers."""

    law = AdditiveNoise(24.0, (1 + FREQUENCY**2) ** -12, tail_rate=1.0)


@pytest.mark.in_turn
def test_noise_without_a_density_has_the_exact_correction_that_its_moments_price():
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(Silent.from_scale(1.0)))
    assert corrected.is_exact
    assert corrected.reason == "exact: the noise is undone in closed form"
    # Nor is it given up for a surrogate, for noise of a target that the loss is affine in least of all.
    counts = sd.Release(sd.GaussianMechanism.from_scale(0.2), target=Silent.from_scale(1.0))
    assert sd.debias(sd.losses.poisson(), counts).is_exact
    passed_over = sd.debias(sd.losses.logistic(), sd.Release({"a": Steep.from_scale(1.0)}))
    assert passed_over.method == "surrogate"
    assert "times that of the uncorrected ones at a score with noise of variance 4" in passed_over.reason


def test_noise_without_moments_either_has_the_exact_correction_whose_cost_is_not_known():
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(Sharp.from_scale(1.0)))
    assert corrected.is_exact
    assert "what it costs is not known, as noise of the release states neither a density nor" in corrected.reason


@pytest.mark.in_turn
def test_an_exact_correction_of_enormous_variance_is_passed_over():
    names = tuple(f"x{j}" for j in range(12))
    release = sd.Release({names: sd.LaplaceMechanism.from_scale(2.5)})
    corrected = sd.debias(sd.losses.logistic(), release)
    assert corrected.method == "surrogate"
    assert "times that of the uncorrected ones at a score with noise of variance 4" in corrected.reason
    # The same release with little noise in the score.
    assert sd.debias(sd.losses.logistic(), release, radius=1.0, score_variance=0.05, n=1e5).method == "exact"
    # A polynomial has no such variance.
    assert sd.debias(sd.losses.squared_margin(), release).method == "exact"


@pytest.mark.in_turn
@pytest.mark.parametrize("in_groups", [False, True])
def test_of_many_columns_few_tell_that_an_exact_correction_is_passed_over(in_groups, monkeypatch):
    """Derivatives of the order of 24 columns take longer than a derivation may."""
    orders = []

    def derived(problem, build, order):
        orders.append(len(problem.others))
        return product(problem, build, order)

    product = derivation_of_scores._product_group
    monkeypatch.setattr(derivation_of_scores, "_product_group", derived)
    names = tuple(f"x{j}" for j in range(24))
    mechanism = sd.LaplaceMechanism.from_scale(2.0)
    target = sd.RandomizedResponse(2.0)
    release = sd.Release({names: mechanism} if in_groups else dict.fromkeys(names, mechanism), target)
    corrected = sd.debias(sd.losses.logistic(), release)
    assert corrected.method == "surrogate"
    assert corrected.reason.endswith("at a score with noise of variance 4 from 12 columns alone")
    assert max(orders) == 12
    # Where little noise is in the score, all columns are corrected for exactly.
    few = sd.Release({names[:10]: mechanism}, target)
    assert sd.debias(sd.losses.logistic(), few).method == "surrogate"
    assert sd.debias(sd.losses.logistic(), few, radius=1.0, score_variance=0.05, n=1e5).method == "exact"


def test_normal_noise_has_its_share_of_the_score():
    """Columns of other noise, of which some would be too much with all of it, are not looked at by themselves."""
    laplace = {f"l{j}": sd.LaplaceMechanism.from_scale(1.0) for j in range(13)}
    normal = {tuple(f"n{j}" for j in range(60)): sd.GaussianMechanism.from_scale(0.1)}
    exact, inflation = driver._of_few_columns(sd.losses.logistic(), sd.Release(laplace), {})
    assert exact.release.number_of_columns == 12
    assert inflation > 100
    assert driver._of_few_columns(sd.losses.logistic(), sd.Release(laplace | normal), {}) == (None, 1.0)


def test_an_exact_correction_too_large_to_evaluate_is_passed_over():
    release = sd.Release(dict.fromkeys(("a", "b"), sd.LaplaceMechanism.from_scale(0.5)))
    with sd.derivation_limits(operations=200):
        corrected = sd.debias(sd.losses.cauchy(), release)
    assert corrected.method == "surrogate"
    assert "200 operations" in corrected.reason
    assert sd.debias(sd.losses.cauchy(), release).method == "exact"


def test_an_unresolved_surrogate_says_what_it_needs():
    corrected = sd.debias(sd.losses.logistic(), gaussian_release())
    X, y = np.zeros((3, 2)), np.ones(3)
    assert not corrected.is_resolved
    assert "unresolved" in repr(corrected)
    for call in (
        lambda: corrected.loss([0.1, 0.2], X, y),
        lambda: corrected.mean_gradient([0.1, 0.2], X, y),
        lambda: corrected.certificate,
        lambda: corrected.bias([0.1, 0.2], X, y),
        lambda: corrected.variance([0.1, 0.2], X, y),
    ):
        with pytest.raises(ValueError, match=r"not resolved: it needs a range of scores.*corrected\.resolve"):
            call()
    assert corrected.resolve(**SETTINGS).loss([0.1, 0.2], X, y).shape == (3,)
    assert {str(symbol) for symbol in corrected.resolve(**SETTINGS).expression.free_symbols} == {"c", "s", "u", "y"}
    with pytest.raises(ValueError, match="needs no radius"):
        sd.debias(sd.losses.exponential(), gaussian_release()).resolve(**SETTINGS)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"radius": 3.0}, ValueError, "score_variance, n is missing"),
        ({**SETTINGS, "radius": 0.0}, ValueError, "radius"),
        ({**SETTINGS, "radius": np.inf}, ValueError, "radius"),
        ({**SETTINGS, "score_variance": -1.0}, ValueError, "score_variance"),
        ({**SETTINGS, "score_variance": np.nan}, ValueError, "score_variance"),
        ({**SETTINGS, "n": 0.5}, ValueError, "no sample size"),
        ({**SETTINGS, "n": "many"}, TypeError, "n has the type str"),
        ({**SETTINGS, "method": "exact"}, ValueError, 'belongs to method="surrogate"'),
        ({"method": "surrogate", "nodes": 16}, ValueError, 'belongs to method="quadrature"'),
        ({"method": "quadrature", "nodes": 1}, ValueError, "2 to 128"),
        ({"method": "quadrature", "nodes": 2.5}, TypeError, "nodes"),
        ({"method": "quadrature"}, NoExactCorrectionError, "branch points"),
    ],
)
def test_bad_settings(options, error, message):
    with pytest.raises(error, match=message):
        sd.debias(sd.losses.logistic(), gaussian_release(), **options)


@pytest.mark.in_turn
def test_what_has_no_surrogate():
    normal = sd.Release(NORMAL)
    with pytest.raises(
        NoExactCorrectionError,
        match=r"(?s)surrogate  surrogates are functions of one score.*at order 3 for scores up to 2",
    ):
        sd.debias(sd.losses.softmax(3), sd.Release({("a", "b"): NORMAL}))
    with pytest.raises(NoExactCorrectionError, match="neither affine in the target nor a function of the residual"):
        sd.debias(sd.Loss(sp.log(1 + sp.exp(U * Y)), score=U, target=Y), normal)
    with pytest.raises(NoExactCorrectionError, match="is neither one over a polynomial or a finite sum of waves nor"):
        sd.debias(sd.losses.logistic(), sd.Release(sd.UniformMechanism(0.5)))
    with pytest.raises(NoExactCorrectionError, match="is neither one over a polynomial or a finite sum of waves nor"):
        sd.debias(sd.losses.huber(), sd.Release(NORMAL, sd.UniformMechanism(0.5)))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "mechanism", [sd.LaplaceMechanism.from_scale(0.3), sd.DiscreteLaplaceMechanism.from_scale(0.3, step=0.5)]
)
def test_a_residual_loss_with_other_noise_on_the_target(mechanism):
    corrected = sd.debias(sd.losses.huber(), sd.Release(NORMAL, mechanism), method="surrogate", **SETTINGS)
    theta = np.array([0.8])
    record, target = np.array([0.4]), 0.5
    seen = released_records(corrected.release, record, target, nodes=40)
    wanted = (
        np.array([0.5 * (0.32 - 0.5) ** 2])
        + corrected.surrogate_parts.errors(corrected.design, np.array([0.32]), np.array([target]))[0]
    )
    assert seen.weights @ corrected.loss(theta, seen.X, seen.y) == pytest.approx(wanted[0], abs=1e-7)


@pytest.mark.exhaustive
def test_a_hidden_score_has_a_surrogate():
    x1, x2, a, b, c = sp.symbols("x1 x2 a b c", real=True)
    loss = sd.Loss.of_features(
        sp.log(1 + sp.exp(-Y * (b * x1 + a * x2 + c))), features=[x1, x2], parameters=[a, b, c], target=Y,
        target_values=(-1, 1),
    )  # fmt: skip
    release = sd.Release({("x1", "x2"): NORMAL})
    corrected = sd.debias(loss, release, **SETTINGS)
    assert corrected.method == "surrogate"
    assert any("one linear score" in note for note in corrected.notes)
    plain = sd.debias(sd.losses.logistic(), sd.Release({("x1", "x2"): NORMAL}, fit_intercept=True), **SETTINGS)
    X, y = np.array([[0.2, 0.5], [-0.3, 0.1]]), np.array([1.0, -1.0])
    np.testing.assert_allclose(corrected.loss([0.4, 0.3, 0.1], X, y), plain.loss([0.3, 0.4, 0.1], X, y), rtol=1e-12)
    np.testing.assert_allclose(corrected.bias([0.4, 0.3, 0.1], X, y), plain.bias([0.3, 0.4, 0.1], X, y), rtol=1e-9)


# ---- the trade-off -----------------------------------------------------------------------------------------


@pytest.mark.in_turn
def test_tradeoff_shows_bias_and_variance_of_every_choice():
    corrected = sd.debias(sd.losses.logistic(), sd.Release(NORMAL))
    curve = corrected.tradeoff(radius=5.0, score_variance=4.0, n=1e5, orders=(0, 1, 2, 3))
    series = [choice for choice in curve.choices if choice.method == "series"]
    assert [round(choice.loss_bias, 3) for choice in series] == [0.375, 0.072, 0.026, 0.012]
    assert series[0].loss_sd == pytest.approx(1.94, abs=0.01)
    assert series[3].loss_sd == pytest.approx(1.99, abs=0.01)
    assert curve.best("series", by="bias").order == 3
    assert curve.best().method == "surrogate"
    assert curve.best().error < curve.best("series").error / 2
    # The declared sample size is the best dial for itself.
    assert curve.best().records == 1e5
    assert "no correction" in str(curve)
    assert "<- best" in str(curve)
    with pytest.raises(ValueError, match="There are quadratic, series, surrogate"):
        curve.best("magic")
    with pytest.raises(ValueError, match="Choose one of error, bias"):
        curve.best(by="price")
    with pytest.raises(ValueError, match="Give all three"):
        corrected.tradeoff(radius=1.0)
    with pytest.raises(ValueError, match="no order of a series"):
        corrected.tradeoff(radius=1.0, score_variance=1.0, n=10, orders=(-1,))


@pytest.mark.in_turn
def test_best_order_by_bias_and_by_error_differ_where_the_noise_is_large():
    corrected = sd.debias(sd.losses.logistic(), sd.Release(NORMAL))
    curve = corrected.tradeoff(radius=5.0, score_variance=16.0, n=100, orders=(0, 1, 2, 3, 4))
    assert curve.best("series", by="bias").order > curve.best("series", by="error").order


def test_tradeoff_counts_label_noise_and_leaves_out_series_of_kinks():
    noisy = sd.debias(sd.losses.hinge(), sd.Release(NORMAL, sd.RandomizedResponse(epsilon=0.5)), **SETTINGS)
    plain = sd.debias(sd.losses.hinge(), sd.Release(NORMAL), **SETTINGS)
    curves = [corrected.tradeoff() for corrected in (noisy, plain)]
    assert {choice.method for choice in curves[0].choices} == {"quadratic", "surrogate"}
    quadratics = [next(c for c in curve.choices if c.method == "quadratic") for curve in curves]
    assert quadratics[0].loss_sd > 1.5 * quadratics[1].loss_sd
    design = noisy.resolve(radius=3.0, score_variance=1.0, n=1e5).design
    assert curves[0].choices[4].loss_bias == pytest.approx(
        noisy.surrogate_parts.worst_errors(design, 3.0, (-1.0, 1.0))[0], rel=0.02
    )


@pytest.mark.in_turn
def test_deviation_on_the_curve_is_that_of_the_kernels():
    release = sd.Release(NORMAL, sd.RandomizedResponse(epsilon=1.0))
    corrected = sd.debias(sd.losses.logistic(), release, radius=2.0, score_variance=1.0, n=1e3)
    (choice,) = [c for c in corrected.tradeoff().choices if c.records == 1e3]
    found = corrected.variance([1.0], [[-2.0], [2.0]], [1.0, 1.0])
    assert np.sqrt(found.max()) == pytest.approx(choice.loss_sd, rel=1e-6)


# ---- quadrature and functions ------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_quadrature_agrees_with_the_closed_form():
    release = gaussian_release()
    X, y = np.array([[0.2, 0.5], [-0.3, 0.1]]), np.array([1.0, -1.0])
    exact = sd.debias(sd.losses.exponential(), release)
    found = sd.debias(sd.losses.exponential(), release, method="quadrature", nodes=24)
    assert not found.is_exact
    for theta in ([0.0, 0.0], [1.0, -2.0]):
        np.testing.assert_allclose(found.loss(theta, X, y), exact.loss(theta, X, y), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.gradient(theta, X, y), exact.gradient(theta, X, y), rtol=1e-8, atol=1e-9)
    assert found.certificate.loss_bias < 1e-9


@pytest.mark.exhaustive
def test_quadrature_of_a_loss_without_a_closed_form():
    """erf squared: entire of order two, so that its correction has a limit."""
    loss = sd.Loss(sp.erf(U / 2) ** 2 + (U - Y) ** 2 / 2, score=U, target=Y)
    with pytest.raises(NoExactCorrectionError):
        sd.debias(loss, sd.Release(NORMAL), method="exact")
    corrected = sd.debias(loss, sd.Release(NORMAL), method="quadrature")
    assert corrected.variance_limit == pytest.approx(1.0, abs=0.03)
    certificate = corrected.certify(theta_radius=0.6)
    assert certificate.loss_bias < 1e-9
    with pytest.raises(NoExactCorrectionError, match="exists below"):
        corrected.loss([1.5], np.zeros((1, 1)), np.zeros(1))


@pytest.mark.parametrize(
    ("loss", "release", "message"),
    [
        (sd.losses.softmax(3), sd.Release(NORMAL), "losses of one score"),
        (sd.Loss(sp.exp(U) * Y**4, score=U, target=Y), sd.Release(NORMAL, NORMAL), "function of the residual"),
    ],
)
def test_what_quadrature_refuses(loss, release, message):
    with pytest.raises(NoExactCorrectionError, match=message):
        sd.debias(loss, release, method="quadrature")


def test_infinite_variance_is_still_refused():
    corrected = sd.debias(sd.Loss(sp.exp(-(U**2)) + Y, score=U, target=Y), sd.Release(NORMAL))
    with pytest.raises((InfiniteVarianceError, NoExactCorrectionError)):
        corrected.variance([1.0], [[0.1]], [0.0])


def test_high_powers_beside_surrogates_come_with_their_recurrence():
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    for power, recurrences in ((4, 0), (40, 1)):
        problem = Problem(sd.Loss(U**power + sp.Abs(U), score=U, target=Y), release, 2)
        expression = Surrogate().derive(problem).program.expression
        assert len(expression.atoms(heat_power)) == recurrences


WIDTHS = {
    "Huber": (sd.losses.huber, 1.345, 1.0),
    "Cauchy": (sd.losses.cauchy, 2.69, 1.0),
    "quantile": (lambda width: sd.losses.quantile(0.3, width), 1.0, 1.4237978),
    "log cosh": (
        lambda width: sd.Loss(
            sp.nsimplify(width) * sp.log(sp.cosh((U - Y) / sp.nsimplify(width))), score=U, target=Y
        ), 1.0, 0.7118990,
    ),
}  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize("name", list(WIDTHS))
def test_the_unit_of_a_residual_loss_is_its_width(name):
    """Where the slope is half of what the curvature at 0 makes it, in that of the Huber loss of 1.345."""
    build, width, expected = WIDTHS[name]
    for scale in (1.0, 4096.0, 1 / 512):
        parts = sd.debias(build(width * scale), sd.Release(NORMAL), method="surrogate").surrogate_parts
        assert parts.unit(77.0) == pytest.approx(expected * scale, rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "unit"),
    [
        (sd.losses.expectile(0.7), 3.0), (sd.Loss(sp.Abs(U - Y), score=U, target=Y), 3.0),
        (sd.Loss(sp.Max(0, sp.Abs(U - Y) - 500), score=U, target=Y), 3.0), (sd.losses.logistic(), 1.0),
    ],
)  # fmt: skip
def test_a_loss_without_a_width_takes_the_size_of_residuals(loss, unit):
    parts = sd.debias(loss, sd.Release(NORMAL), method="surrogate").surrogate_parts
    assert parts.unit(9.0) == unit
    assert parts.replaced
    assert parts.in_units(1.0) is parts


def residual_parts(function):
    """Return the parts of a loss of the residual."""
    loss = sd.Loss(function(U - Y), score=U, target=Y)
    return sd.debias(loss, sd.Release(NORMAL), method="surrogate").surrogate_parts


@pytest.mark.parametrize("centre", [2, 10, 37])
def test_a_residual_loss_bends_where_it_is_least(centre):
    widths = [residual_parts(lambda r, at=at: sp.sqrt(1 + (r - at) ** 2)).width for at in (0, centre)]
    assert widths[1] == pytest.approx(widths[0], rel=1e-9)


def test_a_loss_that_is_flat_over_many_units_is_seen():
    """Looked at near 0 alone it is both even and odd, and nothing would be left to stand for it."""
    near, far = (residual_parts(lambda r, e=e: sp.Max(sp.Abs(r) - e, 0)).replaced[0].numbers for e in (1, 10**4))
    assert (near.even, near.odd) == (far.even, far.odd) == (True, False)


@pytest.mark.in_turn
@pytest.mark.parametrize("unit", [1e4, 1e-3])
def test_surrogates_by_hand_know_no_units(unit):
    release = sd.Release(NORMAL)
    of = {}
    for own in (1.0, unit):
        corrected = sd.debias(sd.losses.huber(0.7 * own), release)
        design = corrected.resolve(radius=4 * own, score_variance=0.5 * own**2, n=1e4).design
        curve = corrected.tradeoff(radius=4 * own, score_variance=0.5 * own**2, n=1e4)
        of[own] = np.array([
            design.bias / own**2, design.slope_bias / own, design.frequency * own, design.waves,
            *(choice.slope_bias / own for choice in curve.choices),
        ])  # fmt: skip
    np.testing.assert_allclose(of[unit], of[1.0], rtol=1e-6, atol=1e-9)


@pytest.mark.in_turn
def test_maxima_of_sums_with_decimal_factors_are_taken():
    """As conditions they make SymPy recur without end. The fit is that of the same loss with a condition of ours."""
    u, y = sp.symbols("u y", real=True)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 1))
    target = X[:, 0] + rng.normal(size=3_000)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3), fit_intercept=True)
    noised = release.privatize(X, random_state=1).X
    forms = [
        sp.Max(0.9 * (y - u), -0.1 * (y - u)),
        -sp.Min(-0.9 * (y - u), 0.1 * (y - u)),
        sp.Piecewise((0.9 * (y - u), y > u), (0.1 * (u - y), True)),
    ]
    fits = [sd.m_estimate(sd.debias(sd.Loss(one, score=u, target=y), release), noised, target) for one in forms]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.theta, fits[0].theta, rtol=1e-6)


def test_ranges_over_cells_that_are_far_too_long_say_nothing_and_do_not_warn():
    smooth = waves_of.Surrogate(1.0, (0.0, 1.0), (0.5, 0.1), (0.0, 0.2))
    for low, high in smooth.ranges(np.array([-1e60, -0.1]), np.array([1e60, 0.1])):
        assert (low[0], high[0]) == (-np.inf, np.inf)
        assert np.isfinite([low[1], high[1]]).all()
