import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import sympy as sp
from instances import EXACT_MARGIN, NO_CLOSED_FORM, U, Y, free_form_loss, gaussian_release, margin_loss
from scipy import special

import symdebias as sd
from symdebias.assessment import certificate as certificate_module
from symdebias.assessment import kernel_bias, score_bias
from symdebias.noise import FREQUENCY, AdditiveNoise

pytestmark = pytest.mark.newest

# Noise variances of the score: .05 and 1, and up to .99 of the limit where there is one, else up to 3.
CASES = [
    (name, variance)
    for name, (_, limit) in EXACT_MARGIN.items()
    for variance in [0.05, *((1.0, 3.0) if limit is None else (1.0, 0.5 * limit, 0.9 * limit, 0.99 * limit))]
    if limit is None or variance < limit
]


@pytest.mark.in_turn
@pytest.mark.parametrize(("name", "variance"), CASES)
@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_exact_corrections_are_certified(name, variance, epsilon):
    target = None if epsilon is None else sd.RandomizedResponse(epsilon=epsilon)
    release = sd.Release(features=sd.GaussianMechanism.from_scale(math.sqrt(variance)), target=target)
    certificate = sd.debias(margin_loss(EXACT_MARGIN[name][0]), release, method="exact").certificate
    assert certificate.exists
    assert certificate.finite_variance
    assert certificate.noise_variance == pytest.approx(variance)
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9
    assert certificate.quadrature_error < 1e-9


@pytest.mark.parametrize("name", [name for name, (_, limit) in EXACT_MARGIN.items() if limit is not None])
def test_past_the_limit_there_is_no_correction(name):
    expression, limit = EXACT_MARGIN[name]
    corrected = sd.debias(margin_loss(expression), gaussian_release(math.sqrt(1.01 * limit)))
    certificate = corrected.certificate
    assert not certificate.exists
    assert certificate.loss_bias == math.inf
    assert f"below {limit:g}" in str(certificate)
    theta = np.array([1.0, 0.0])
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match=f"exists below {limit:g} only"):
        corrected.loss(theta, np.zeros((1, 2)), [1.0])
    corrected.loss(0.9 * theta, np.zeros((1, 2)), [1.0])


@pytest.mark.parametrize("name", NO_CLOSED_FORM)
def test_what_has_no_closed_form_is_refused(name):
    loss = margin_loss(NO_CLOSED_FORM[name])
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match=r'no closed form was found.*method="surrogate"'):
        sd.debias(loss, gaussian_release(), method="exact")
    corrected = sd.debias(loss, gaussian_release())
    assert corrected.method == "surrogate"
    assert "no closed form was found" in corrected.reason


@pytest.mark.in_turn
def test_every_method_refuses_with_its_reason():
    loss = sd.losses.softmax(3)
    reasons = (
        "No method corrects .*\n  exact      no closed form.*\n  surrogate  surrogates are.*\n  series     never chosen"
    )
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match=reasons):
        sd.debias(loss, sd.Release(sd.GaussianMechanism.from_scale(0.5)))
    u, v = sp.symbols("u v", real=True)
    kink = sd.Loss(sp.Abs(u - Y) + v**2, score=(u, v), target=Y)
    with pytest.raises(sd.exceptions.NoExactCorrectionError, match=r"\n  series     there is no series: "):
        sd.debias(kink, sd.Release(sd.GaussianMechanism.from_scale(0.5)))


def test_conditions_on_two_noises_bound_their_sum():
    loss = sd.Loss(sp.exp(-((U - Y) ** 2) / 8), score=U, target=Y)
    release = sd.Release(sd.GaussianMechanism.from_scale(1.0), sd.GaussianMechanism.from_scale(0.5, radius=1.0))
    corrected = sd.debias(loss, release)
    s, t = sp.symbols("s t", positive=True)
    assert corrected.conditions == (s + t < 4,)
    assert corrected.variance_limit == pytest.approx(3.75)


def test_a_growing_gaussian_loses_its_variance_first():
    loss = margin_loss(sp.exp(U**2 / 20) + U * Y)
    certificate = sd.debias(loss, gaussian_release(math.sqrt(11.0))).certificate
    assert certificate.exists
    assert not certificate.finite_variance
    assert "variance finite only where the noise variance of the score is below 10" in str(certificate)
    assert certificate.loss_bias / certificate.loss_scale < 1e-9


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "loss",
    [
        sd.losses.least_squares(),
        sd.Loss(sp.exp(U) - Y * U, score=U, target=Y),
        pytest.param(sd.Loss((U - Y) ** 4 + sp.sin(U - Y), score=U, target=Y), marks=pytest.mark.exhaustive),
        sd.Loss(sp.exp(-((U - Y) ** 2) / 8), score=U, target=Y),
        sd.Loss(sp.exp(-U * Y / 2) + U**2 * Y**2, score=U, target=Y),
        sd.Loss(sp.cos(U) * Y**2 - Y * U, score=U, target=Y),
    ],
    ids=str,
)
def test_noise_on_features_and_on_a_continuous_target(loss):
    release = sd.Release(
        features=sd.GaussianMechanism.from_scale(0.6), target=sd.GaussianMechanism.from_scale(0.8, radius=1.0)
    )
    certificate = sd.debias(loss, release).certificate
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9


def test_a_noised_continuous_label_of_two_values():
    release = sd.Release(
        features=sd.GaussianMechanism.from_scale(0.5), target=sd.GaussianMechanism.from_scale(2.0, radius=1.0)
    )
    certificate = sd.debias(sd.losses.exponential(), release).certificate
    assert certificate.loss_bias / certificate.loss_scale < 1e-9


@pytest.mark.parametrize(
    "target",
    [None, pytest.param(sd.GaussianMechanism.from_scale(0.3, radius=1.0), marks=pytest.mark.exhaustive)],
)
def test_free_form_polynomials_are_certified(target):
    release = sd.Release(features=sd.GaussianMechanism.from_scale(0.5), target=target)
    corrected = sd.debias(free_form_loss(), release)
    assert corrected.is_exact
    certificate = corrected.certificate
    assert certificate.loss_bias / certificate.loss_scale < 1e-9
    assert certificate.gradient_bias / certificate.gradient_scale < 1e-9


def test_the_bias_of_a_series_is_stated():
    """Bias of the log loss at s = 1, |u| <= 1 falls with the order, and is never called exact."""
    release = sd.Release(features=sd.GaussianMechanism.from_scale(1.0))
    found = [sd.debias(sd.losses.logistic(), release, method="series", order=order).certificate for order in (1, 2, 3)]
    assert [certificate.exact for certificate in found] == [False] * 3
    assert 1e-2 > found[0].loss_bias > 3 * found[1].loss_bias > 9 * found[2].loss_bias > 1e-5


@pytest.mark.in_turn
def test_an_intercept_takes_scores_further_than_the_record_does():
    """At ||theta|| = 1 and x = (2, 1) the score is sqrt(6), where the surrogate is worse than up to sqrt(5)."""
    noise = [sd.LaplaceMechanism(epsilon=6.0, bounds=bounds) for bounds in ((-1, 2), (0, 1))]
    release = sd.Release({"a": noise[0], "b": noise[1]}, fit_intercept=True)
    corrected = sd.debias(sd.losses.logistic(), release, method="surrogate", radius=3.0, score_variance=0.3, n=10_000)
    certificate = corrected.certify(theta_radius=1.0)
    assert certificate.proved
    assert certificate.score_bound == pytest.approx(math.sqrt(6))
    x, y, along, step = np.array([[2.0, 1.0]]), np.array([1.0]), np.array([2.0, 1.0, 1.0]) / math.sqrt(6), 1e-4
    worst = 0.0
    for size in np.linspace(0.85, 1.0, 31):
        up, down = (corrected.bias(size * along + [0.0, 0.0, by], x, y)[0] for by in (step, -step))
        worst = max(worst, math.sqrt(6) * abs(up - down) / (2 * step))
    assert 0.99 * certificate.gradient_bias < worst <= certificate.gradient_bias
    assert "where" not in str(certificate)


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_a_certificate_says_where_the_range_of_a_surrogate_cuts_it(loss):
    """Beyond the range biases are those of another function."""
    target = sd.LaplaceMechanism.from_scale(0.3) if loss == "huber" else None
    for features in (sd.GaussianMechanism.from_scale(0.2), sd.LaplaceMechanism.from_scale(0.1)):
        release = sd.Release({"a": features}, target)
        corrected = sd.debias(
            getattr(sd.losses, loss)(), release, method="surrogate", radius=1.5, score_variance=0.1, n=10_000
        )
        within, beyond = (corrected.certify(theta_radius=radius) for radius in (1.0, 3.0))
        assert (within.cut, beyond.cut) == (("residual",) * 2 if loss == "huber" else ("", "score"))
        assert f"||theta|| <= 3 and ||x|| <= 1 where |{beyond.cut}| <= 1.5" in str(beyond)
        assert ("where" in str(within)) is (loss == "huber")


@pytest.mark.in_turn
@pytest.mark.parametrize("method", [{"method": "series", "order": 1}, {"method": "none"}], ids=["series", "none"])
def test_the_largest_bias_under_noise_of_columns_is_searched_for(method):
    """Along one column or two, by records of all scores, none is above; of 24 points drawn at random it was half."""
    noise = [sd.LaplaceMechanism.from_scale(scale) for scale in (0.5, 0.4)]
    release = sd.Release({"a": noise[0], "b": noise[1]}, fit_intercept=True)
    corrected = sd.debias(sd.losses.logistic(), release, **method)
    certificate = corrected.certify(theta_radius=1.5)
    assert not certificate.proved
    shares, step = np.linspace(-1, 1, 13), 1e-4
    x, y = np.outer(shares, [0.8, 0.6]) + np.outer(np.sqrt(1 - shares**2), [-0.6, 0.8]), np.ones(13)
    worst = np.zeros(2)
    for theta in (1.5 - step) * np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.64, 0.48, 0.6], [0.64, -0.48, 0.6]]):
        slopes = [corrected.bias(theta + e, x, y) - corrected.bias(theta - e, x, y) for e in step * np.eye(3)]
        found = np.abs(corrected.bias(theta, x, y)).max(), np.linalg.norm(slopes, axis=0).max() / (2 * step)
        worst = np.maximum(worst, found)
    claimed = np.array([certificate.loss_bias, certificate.gradient_bias])
    assert np.all(worst <= 1.02 * claimed)
    assert np.all(worst > 0.7 * claimed)


def test_the_bias_without_correction_is_stated():
    """E cosh(u + N(0, 1)) - cosh(u) = (e^{1/2} - 1) cosh(u), at |u| = 1."""
    release = sd.Release(features=sd.GaussianMechanism.from_scale(1.0))
    loss = margin_loss(sp.cosh(U) + Y * U)
    certificate = sd.debias(loss, release, method="none").certificate
    assert certificate.loss_bias == pytest.approx((math.exp(0.5) - 1) * math.cosh(1.0), rel=1e-10)


def test_a_series_that_ends_is_exact():
    corrected = sd.debias(sd.losses.squared_margin(), gaussian_release(), method="series", order=1)
    assert corrected.is_exact
    assert corrected.certificate.loss_bias < 1e-12


def test_a_wrong_correction_is_found_out():
    """The certificate must see a defect: here the noise is 1% larger than the correction believes."""
    corrected = sd.debias(sd.losses.exponential(), gaussian_release(1.0))
    program = corrected.at(1).program
    object.__setattr__(program, "expression", program.expression * sp.Float(1.001))
    assert corrected.certificate.loss_bias > 5e-4


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "1", True])
def test_theta_radius_is_checked(bad):
    corrected = sd.debias(sd.losses.exponential(), gaussian_release())
    with pytest.raises((TypeError, ValueError), match="theta_radius"):
        corrected.certify(theta_radius=bad)


def test_a_certificate_of_a_high_power_stops_at_what_rounding_leaves(monkeypatch):
    """Means of 1 come out of sums of 1e24: finer rules, up to 2^15 nodes, would change them by rounding alone."""
    nodes, means = [], score_bias._means
    monkeypatch.setattr(score_bias, "_means", lambda *args: (nodes.append(args[4]), means(*args))[1])
    loss = sd.Loss((4 * U / 5 + sp.Rational(1, 5)) ** 34, score=U, target=Y)
    certificate = sd.debias(loss, gaussian_release(1.8)).certificate
    assert max(nodes) < 2**11
    assert 0 < certificate.loss_bias < 1e-12 * certificate.loss_scale


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "mechanism",
    [sd.GaussianMechanism.from_scale(0.5), sd.DiscreteLaplaceMechanism.from_scale(0.3, step=0.5)],
)
def test_what_rounding_leaves_of_a_high_power_is_called_rounding(mechanism):
    loss = sd.Loss((U - Y) ** 16, score=U, target=Y, target_values=(-1, 1))
    certificate = sd.debias(loss, sd.Release(mechanism).bind(["x"])).certificate
    # Values that are summed have up to 1e8 times the size of their mean.
    assert 1e-9 < certificate.gradient_bias < 1e-12 * certificate.gradient_scale
    assert certificate.is_rounding
    assert "(which is rounding: of values up to" in str(certificate)
    off = replace(certificate, loss_bias=1e-8 * certificate.loss_scale)
    assert not off.is_rounding
    assert "which quadrature does not settle, of values up to" in str(off)
    assert "says nothing for or against the derivation here, and may of a smaller ball, by certify(theta_radius" in str(
        off
    )


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("loss", "release", "method"),
    [(sd.losses.poisson(), sd.Release(sd.LaplaceMechanism(epsilon=30.0, radius=300.0)), "none"),
     (sd.losses.exponential(), sd.Release(None, fit_intercept=True), "none"),
     (sd.losses.gamma(), sd.Release(sd.GaussianMechanism.from_scale(1e-3)), "auto")],
    ids=["of columns", "by a search", "of a score"],
)  # fmt: skip
def test_a_bias_beyond_what_floats_hold_is_infinite(loss, release, method):
    """Means of exp(u) at scores where it overflows: infinite and nothing else, and no warning."""
    found = sd.debias(loss, release, method=method).certify(theta_radius=1000.0)
    assert found.loss_bias == found.gradient_bias == np.inf


@pytest.mark.in_turn
def test_noise_variance_is_that_of_all_noise_and_limits_are_on_the_normal_part():
    laplace, normal = sd.LaplaceMechanism.from_scale(0.5), sd.GaussianMechanism.from_scale(0.3)
    certificate = sd.debias(sd.losses.exponential(), sd.Release(laplace)).certify(theta_radius=0.5)
    assert certificate.noise_variance == pytest.approx(2 * 0.5**2 * 0.5**2)
    assert certificate.normal_variance == 0
    assert certificate.exists
    # The variance of one column is .5, of the other .09.
    mixed = sd.debias(sd.losses.least_squares(), sd.Release({"a": laplace, "b": normal})).certify(theta_radius=2.0)
    assert mixed.noise_variance == pytest.approx(0.5 * 4)
    assert mixed.normal_variance == pytest.approx(0.09 * 4)
    assert "noise variance up to 2)" in str(mixed)


@pytest.mark.in_turn
def test_a_certificate_says_for_how_many_columns_it_is_where_that_matters():
    """A vector of two columns has more noise: what is found for one is less than there is.

    The certificate of a release without names is for one column by default, and said nothing of it.
    """
    release = sd.Release(sd.SphericalLaplaceMechanism(epsilon=4.0, radius=1.0))
    left = sd.debias(sd.losses.logistic(), release, method="none")
    one, two = left.certify(theta_radius=2.0), left.certify(theta_radius=2.0, columns=2)
    there = np.abs(left.bias([0.0, 2.0], [[0.0, 0.0]], [1.0])).item()
    assert one.loss_bias < 0.8 * there
    assert two.loss_bias > 0.999 * there
    assert (one.columns, two.columns) == (1, 2)
    assert ", for 1 column (columns= says how many there are)" in str(one)
    assert ", for 2 columns (" in str(two)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("features", "method", "columns"),
    [
        (sd.GaussianMechanism.from_scale(0.5), "none", None),
        ({"a": sd.LaplaceMechanism.from_scale(0.5)}, "none", None),
        (sd.LaplaceMechanism.from_scale(0.5), "none", 1),
        (None, "exact", None),
    ],
)
def test_it_says_nothing_of_columns_where_they_do_not_matter(features, method, columns):
    target = sd.RandomizedResponse(1.0) if features is None else None
    certificate = sd.debias(sd.losses.logistic(), sd.Release(features, target), method=method).certificate
    assert certificate.columns == columns
    assert ("columns=" in str(certificate)) == (columns is not None)


@pytest.mark.in_turn
def test_the_largest_bias_of_a_narrow_loss_beside_noise_on_a_grid_is_found():
    """Few scores have it: from 48 places on it was searched for in vain, and a bias of 1.1 found."""
    names = ("a", "b", "c")
    features = {"a": sd.DiscreteLaplaceMechanism(epsilon=2.0, bounds=(-1, 1))}
    features |= {name: sd.GaussianMechanism.from_scale(0.2) for name in names[1:]}
    left = sd.debias(sd.losses.quantile(0.9, 0.3), sd.Release(features), method="series", order=2)
    there = abs(left.bias([2.0, 0.0, -0.13], [[0.0, -0.64, 0.76]], [-0.166]).item())
    assert there > 1.7
    assert left.certify(theta_radius=2.005).loss_bias > 0.85 * there


def equal_laplace_noise(count, scale):
    """Return points and weights of a sum of equal Laplace noise, a difference of two gamma variables."""
    t, w = np.polynomial.legendre.leggauss(400)
    x = 30.0 * (t + 1)
    density = (x / 2) ** (count - 0.5) * special.kv(count - 0.5, x) / (math.sqrt(math.pi) * special.gamma(count))
    return scale * np.concatenate([-x, x]), 30.0 * np.concatenate([w * density, w * density])


@pytest.mark.in_turn
@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_series_under_many_laplace_columns_has_the_bias_of_all_of_them(order):
    """Terms that a series leaves out are largest where all columns take part, and 0 in as many as its order."""
    columns, radius = 6, 2.0
    release = sd.Release({tuple(f"x{j}" for j in range(columns)): sd.LaplaceMechanism.from_scale(0.9)})
    corrected = sd.debias(sd.losses.logistic(), release, method="series", order=order)
    points, weights = equal_laplace_noise(columns, 0.9 * radius / math.sqrt(columns))
    theta = np.full(columns, radius / math.sqrt(columns))
    largest = 0.0
    for u in np.linspace(-radius, radius, 9):
        X = np.outer(u + points, theta / radius**2)
        mean = float(weights @ corrected.loss(theta, X, np.ones(len(X))))
        largest = max(largest, abs(mean - math.log1p(math.exp(-u))))
    assert largest > 1e-3
    assert 0.98 * largest < corrected.certify(theta_radius=radius).loss_bias < 1.05 * largest


@pytest.mark.in_turn
def test_the_bias_of_a_kinked_residual_under_laplace_noise_is_about_the_largest():
    """At a residual of 0, where the mean of Huber's loss over Laplace noise is elementary."""
    scale, radius = 1.0, 1.5
    release = sd.Release({"a": sd.LaplaceMechanism.from_scale(scale)}, noiseless=("b",))
    certificate = sd.debias(sd.losses.huber(1.0), release, method="none").certify(theta_radius=radius)
    b = scale * radius
    wanted = b**2 * (1 - math.exp(-1 / b))
    assert certificate.loss_bias == pytest.approx(wanted, rel=0.01)
    assert certificate.columns_at_once is None


@pytest.mark.in_turn
@pytest.mark.parametrize("target", [sd.GaussianMechanism.from_scale(0.8), sd.LaplaceMechanism.from_scale(0.8)])
@pytest.mark.parametrize("features", [sd.GaussianMechanism.from_scale(0.6), sd.LaplaceMechanism.from_scale(0.6)])
def test_noise_of_a_target_in_a_residual_is_more_noise_of_the_score(features, target):
    """Against draws at the residual 0, where the loss has its kink."""
    loss = sd.Loss(sp.Abs(U - Y), score=U, target=Y)
    certificate = sd.debias(loss, sd.Release(features, target), method="none").certify(theta_radius=2.0, columns=1)
    rng = np.random.default_rng(0)
    noise = [
        getattr(rng, "normal" if isinstance(one, sd.GaussianMechanism) else "laplace")(size=400_000) * scale
        for one, scale in ((features, 1.2), (target, 0.8))
    ]
    sizes = np.abs(noise[0] - noise[1])
    assert certificate.quadrature_error < 1e-2
    assert certificate.loss_bias > sizes.mean() - 5 * sizes.std() / math.sqrt(len(sizes)) - 1e-3
    assert certificate.loss_bias < 1.03 * sizes.mean()


BUMP = U**2 * sp.exp(-8 * (U - Y) ** 2)


def rule(noise, scale, nodes):
    """Points of normal or Laplace noise with their probabilities, by a trapezoidal rule."""
    if noise == "normal":
        t = np.linspace(-8, 8, nodes)
        chances = np.exp(-(t**2) / 2)
    else:
        t = np.linspace(-40, 40, nodes)
        chances = np.exp(-np.abs(t))
    return scale * t, chances / chances.sum()


@pytest.mark.parametrize(
    ("expression", "theta_radius", "target_scale"),
    [(BUMP, 0.1, 0.0), (BUMP, 1.0, 0.0), (BUMP, 0.1, 0.2), (sp.atan(4 * (U - Y)) ** 2, 0.3, 0.0)],
)
def test_targets_between_those_tried_may_have_the_largest_bias(expression, theta_radius, target_scale, monkeypatch):
    """At the five targets that were tried alone it is up to 17% less. The scan misses the largest by some tenths."""
    if target_scale:
        # Over two noises a grid of scores and levels takes long.
        monkeypatch.setattr(score_bias, "_SCORES", 9)
        monkeypatch.setattr(score_bias, "_VARIANCES", 2)
    target = sd.GaussianMechanism.from_scale(target_scale) if target_scale else None
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5), target)
    corrected = sd.debias(sd.Loss(expression, score=U, target=Y), release, method="series", order=1)
    certificate = corrected.certify(theta_radius=theta_radius)
    points, chances = rule("normal", 0.5, 401 if target is None else 81)
    noise, shares = rule("normal", target_scale, 81) if target_scale else (np.zeros(1), np.ones(1))
    weights = np.multiply.outer(chances, shares).ravel()
    shifts, moves = (part.ravel() for part in np.meshgrid(points, noise, indexing="ij"))
    function, slope = (sp.lambdify((U, Y), part) for part in (expression, sp.diff(expression, U)))
    theta, loss, gradient = np.array([theta_radius]), 0.0, 0.0
    for x in np.linspace(-1, 1, 21):
        for y in np.linspace(-1, 1, 41):
            X, targets = (x + shifts)[:, None], y + moves
            mean = weights @ corrected.loss(theta, X, targets), weights @ corrected.gradient(theta, X, targets)[:, 0]
            loss = max(loss, abs(mean[0] - function(theta_radius * x, y)))
            gradient = max(gradient, abs(mean[1] - x * slope(theta_radius * x, y)))
    assert loss * (1 - 1e-9) <= certificate.loss_bias <= 1.05 * loss
    assert gradient * (1 - 1e-9) <= certificate.gradient_bias
    assert certificate.targets == (-1.0, -0.5, 0.0, 0.5, 1.0)


def test_the_search_is_not_lost_on_the_error_of_its_rule():
    """By few nodes alone it ended where the bias is 2.1e-7, among errors of these that are larger than 5e-7."""
    columns = {"a": sd.GaussianMechanism.from_scale(0.15), "b": sd.LaplaceMechanism.from_scale(0.8)}
    corrected = sd.debias(
        sd.Loss(sp.cos(4 * (U - Y) / 5), score=U, target=Y), sd.Release(columns), method="series", order=3
    )
    # A wave is multiplied by what it has at a residual of 0, and its mean over the noise by characteristic functions.
    largest = 0.0
    for angle in np.linspace(0, math.pi / 2, 181):
        theta = 2.0 * np.array([math.cos(angle), math.sin(angle)])
        mean = math.exp(-((0.8 * 0.15 * theta[0]) ** 2) / 2) / (1 + (0.8 * 0.8 * theta[1]) ** 2)
        largest = max(largest, abs(corrected.loss(theta, np.zeros((1, 2)), [0.0]).item() * mean - 1))
    assert 5e-7 < largest * 1.001 < 6e-7
    assert 0.99 * largest < corrected.certify(theta_radius=2.0).loss_bias < 1.2 * largest


def test_the_search_is_not_lost_on_a_hill_that_begins_higher_than_another():
    """Where all steps went to the best starts, the bias of the gradient was .349."""
    expression = sp.exp((U - Y) / 5) + sp.sin(sp.tanh(U * Y))
    release = sd.Release({"a": sd.LaplaceMechanism.from_scale(0.8)}, target=sd.GaussianMechanism.from_scale(0.5))
    corrected = sd.debias(sd.Loss(expression, score=U, target=Y), release, method="none")
    slope = sp.lambdify((U, Y), sp.diff(expression, U))
    points, chances = rule("laplace", 0.8, 8001)
    noise, shares = rule("normal", 0.5, 161)
    theta, x, y = -0.4835, -1.0, -1.0
    released = x + points[:, None]
    bias = chances @ (released * slope(theta * released, y + noise)) @ shares - x * slope(theta * x, y)
    assert abs(bias) > 0.375
    assert corrected.certificate.gradient_bias > 0.999 * abs(bias)


def test_noise_of_a_target_that_stands_alone_has_no_part_in_the_bias():
    features = sd.GaussianMechanism.from_scale(0.6)
    biases = [
        sd.debias(sd.losses.poisson(), sd.Release(features, target), method="none").certificate.loss_bias
        for target in (None, sd.GaussianMechanism.from_scale(0.8))
    ]
    assert biases[1] == pytest.approx(biases[0], rel=1e-9)


@pytest.mark.in_turn
def test_biases_are_looked_for_within_the_declared_bounds():
    """E (u + e)^2/2 - u^2/2 has no part of u; of u^3 it is 3 u Var e, and bounds of a column bound u."""
    loss = sd.Loss(U**3 / 3 + U**2 * 5 - Y * U, score=U, target=Y)
    release = sd.Release(
        {
            "a": sd.LaplaceMechanism(epsilon=4.0, bounds=(0.0, 0.5)),
            "b": sd.LaplaceMechanism(epsilon=9.0, bounds=(1.0, 3.0)),
        }
    )
    certificate = sd.debias(loss, release, method="none").certify(theta_radius=1.0)
    variances = [2 * (0.5 / 4) ** 2, 2 * (2.0 / 9) ** 2]
    angles = np.linspace(0, 2 * math.pi, 2001)
    theta = np.column_stack([np.cos(angles), np.sin(angles)])
    corners = [(a, b) for a in (0.0, 0.5) for b in (1.0, 3.0)]
    noise = theta**2 @ variances
    largest = max(np.abs((theta @ corner + 5) * noise).max() for corner in corners)
    assert certificate.loss_bias <= largest * (1 + 1e-6)
    assert certificate.loss_bias > 0.98 * largest


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("theta_radius", "said"),
    [
        (0.4, "settled to"),
        (0.4995, "which does not settle"),
        (1.0, "no mean over the noise on the whole domain"),
    ],
)
def test_what_does_not_settle_or_is_infinite_is_said(theta_radius, said):
    """E exp(u) is infinite from where a parameter times b is 1."""
    release = sd.Release({("a", "b"): sd.LaplaceMechanism.from_scale(2.0)})
    certificate = sd.debias(sd.losses.poisson(), release, method="none").certify(theta_radius=theta_radius)
    assert said in str(certificate)
    assert certificate.exists == (theta_radius < 0.5)


@pytest.mark.in_turn
def test_a_search_over_few_columns_at_once_is_said():
    mechanism = sd.UniformMechanism(0.5)
    few, many = (
        sd.debias(
            sd.losses.logistic(), sd.Release({f"x{j}": mechanism for j in range(count)}), method="none"
        ).certificate
        for count in (3, 5)
    )
    assert few.columns_at_once is None
    assert "columns at once" not in str(few)
    assert many.columns_at_once == 3
    assert "over 3 noised columns at once" in str(many)


@dataclass(frozen=True)
class WithoutDensity(sd.mechanisms.Mechanism):
    """Noise that states its characteristic function alone."""

    own: AdditiveNoise
    kind: ClassVar[str] = "without density"

    @property
    def noise(self):
        return self.own

    @property
    def guarantee(self):
        return None

    @property
    def range(self):
        return sd.mechanisms.ranges.Numbers(None)

    def _add_noise(self, values, source):
        raise AssertionError


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", ["least_squares", "poisson", "free form"])
def test_exact_corrections_under_noise_without_a_density_are_certified(loss):
    """By a rule of its moments: under the same correction of other noise, 4% narrower, a bias is found."""
    mixed = (9 * sp.exp(-(FREQUENCY**2) / 8) + sp.exp(-9 * FREQUENCY**2 / 8)) / 10
    release = sd.Release(WithoutDensity(AdditiveNoise(0.45, mixed)))
    corrected = sd.debias(free_form_loss() if loss == "free form" else getattr(sd.losses, loss)(), release)
    certificate = corrected.certificate
    assert certificate.exact
    assert certificate.exists
    assert max(certificate.loss_bias, certificate.gradient_bias, certificate.quadrature_error) < 1e-11
    narrower = mixed.xreplace({FREQUENCY: sp.Rational(96, 100) * FREQUENCY})
    other = sd.Release(WithoutDensity(AdditiveNoise(0.45 * 0.96**2, narrower)))
    with pytest.MonkeyPatch.context() as patch:
        whole = kernel_bias.released_records
        patch.setattr(kernel_bias, "released_records", lambda _, *given, **more: whole(other, *given, **more))
        assert corrected.certify(theta_radius=1.0 - 1e-9).loss_bias > 1e-3


@pytest.mark.in_turn
def test_a_loss_that_is_no_number_at_some_targets_says_what_to_declare():
    """Its bias was called infinite, and said to be of values that nearly cancel."""
    loss = sd.Loss((sp.log(Y) - U) ** 2, score=U, target=Y)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.5))
    certificate = sd.debias(loss, release).certificate
    assert certificate.loss_bias == math.inf
    assert "somewhere on the domain, with targets from -1 to 1. " in str(certificate)
    assert "as positive ones for log(y), declare them: target_values= of the loss" in str(certificate)
    declared = sd.debias(loss.with_target_values((1, 2, 4)), release).certificate
    assert declared.loss_bias < 1e-12
    assert "largest found" in str(declared)


@pytest.mark.parametrize(("scale", "columns"), [(10.0, 1), (50.0, 1), (10.0, 3)])
def test_exact_corrections_are_certified_under_wide_laplace_noise(scale, columns):
    """The loss bends within a small part of the scale of the noise: rules of 64 nodes found biases of 15 and 37."""
    release = sd.Release({f"x{j}": sd.LaplaceMechanism.from_scale(scale) for j in range(columns)})
    certificate = sd.debias(sd.losses.logistic(), release).certify(theta_radius=1.0)
    assert certificate.exact
    assert certificate.loss_bias < 1e-8
    assert certificate.gradient_bias < 1e-8 * max(1.0, scale)
    wrong = sd.debias(sd.losses.logistic(), release, method="none").certify(theta_radius=1.0)
    assert wrong.loss_bias > 0.1


NORMAL, LAPLACE = sd.GaussianMechanism.from_scale, sd.LaplaceMechanism.from_scale
V, X1, X2, T1, T2 = sp.symbols("v x1 x2 t1 t2", real=True)


def of_features(expression, *features):
    return sd.Loss.of_features(expression, features=features, parameters=[T1, T2], target=Y, target_values=(-1, 1))


@pytest.mark.parametrize(("method", "options"), [("none", {}), ("series", {"order": 1})], ids=["none", "series"])
@pytest.mark.parametrize(
    ("loss", "release", "limit"),
    [
        # E exp(k e^2/2) of variance s is a number where k s < 1.
        (sd.Loss(sp.exp(U**2 / 2) + V * Y, score=(U, V), target=Y, target_values=(-1, 1)), {"a": NORMAL(1.2)}, 1 / 1.2),
        # Of u = a e and v = b e the product is at most s/2.
        (sd.Loss(sp.exp(U * V / 2), score=(U, V), target=Y), {"a": NORMAL(1.0), "b": NORMAL(1.0)}, math.sqrt(2)),
        (of_features(sp.exp(T1**2 * X1**2 / 2) + T2 * Y * X1**3, X1), {"x1": NORMAL(1.2)}, 1 / 1.2),
        (of_features(sp.exp(-Y * T1 * X1) + T2 * X1**2, X1), {"x1": LAPLACE(1.0)}, 1.0),
        (of_features(sp.exp(X2**2 / 8 - T1 * X1) + T2, X1, X2), {"x1": LAPLACE(1.0), "x2": NORMAL(1.0)}, 1.0),
    ],
    ids=["two scores", "their product", "square of a feature", "Laplace feature", "both"],
)
def test_what_grows_too_fast_without_an_exact_correction_has_no_finite_variance(
    loss, release, limit, method, options, monkeypatch
):
    """It was finite by its certificate, for several scores and for features by name, however long the parameters."""
    # Biases take seconds, and are held elsewhere.
    monkeypatch.setattr(certificate_module, "kernel_biases", lambda *_, **__: score_bias.Biases())
    corrected = sd.debias(loss, sd.Release(release), method=method, **options)
    # Twice the square for the variance of a quadratic exponent, twice the rate of a linear one.
    ends = limit * (0.5 if "x1" in release and release["x1"] == LAPLACE(1.0) else math.sqrt(0.5))
    for radius, exists, finite in (
        (0.95 * ends, 1, 1),
        (1.05 * ends, 1, 0),
        (0.95 * limit, 1, 0),
        (1.05 * limit, 0, 0),
    ):
        certificate = corrected.certify(theta_radius=radius)
        assert (certificate.exists, certificate.finite_variance) == (exists, finite), radius
        assert ("variance finite\n" in f"{certificate}\n") == finite
        assert ("on the whole domain" in str(certificate)) != exists


def test_noise_of_the_target_adds_to_what_a_square_in_an_exponential_needs():
    """E exp((u - y)^2) of variance s + t is a number where 2 (s + t) < 1."""
    loss = sd.Loss(sp.exp((U - Y) ** 2 / 2) + V, score=(U, V), target=Y)
    corrected = sd.debias(loss, sd.Release({"a": NORMAL(0.5)}, target=NORMAL(0.5)), method="none")
    certificate = corrected.certify(theta_radius=1.5)
    assert certificate.finite_variance_limit == pytest.approx(0.25)
    assert certificate.variance_limit == pytest.approx(0.75)


@pytest.mark.parametrize("features", [NORMAL(0.5), LAPLACE(0.5)], ids=["normal", "Laplace"])
@pytest.mark.parametrize(
    ("expression", "target", "method", "exists", "finite"),
    [
        # E exp(k y/3) of Laplace noise of the scale b is a number where k b < 3.
        (U**2 * sp.exp(Y / 3), LAPLACE(1.4), "none", True, True),
        (U**2 * sp.exp(Y / 3), LAPLACE(1.6), "none", True, False),
        (U**2 * sp.exp(Y / 3), LAPLACE(3.1), "none", False, False),
        (U**2 * sp.exp(Y / 3), LAPLACE(1.4), "exact", True, True),
        (U**2 * sp.exp(Y / 3), LAPLACE(1.6), "exact", True, False),
        # E exp(k y^2/8) of normal noise of the variance t where k t < 4.
        (U**2 * sp.exp(Y**2 / 8), NORMAL(1.2), "none", True, True),
        (U**2 * sp.exp(Y**2 / 8), NORMAL(1.5), "none", True, False),
        (U**2 * sp.exp(Y**2 / 8), NORMAL(2.1), "none", False, False),
        # Its correction grows like exp(y^2/(8 + 2 t)).
        (U**2 * sp.exp(Y**2 / 8), NORMAL(1.5), "exact", True, True),
        (U**2 * sp.exp(Y**2 / 8), NORMAL(2.1), "exact", True, False),
    ],
)
def test_noise_of_the_target_alone_may_be_too_much(features, expression, target, method, exists, finite, monkeypatch):
    """Its part in the moments was left out: "variance finite" where it is not."""
    for name in ("kernel_biases", "score_biases", "searched_biases"):
        monkeypatch.setattr(certificate_module, name, lambda *_, **__: score_bias.Biases())
    corrected = sd.debias(
        sd.Loss(expression, score=U, target=Y), sd.Release({"a": features}, target=target), method=method
    )
    certificate = corrected.certify(theta_radius=0.5)
    assert (certificate.exists, certificate.finite_variance) == (exists, finite)
    assert ("variance finite\n" in f"{certificate}\n") == finite
    assert ("on the whole domain" in str(certificate)) != exists
    if finite:
        assert corrected.variance([0.5], [[0.3]], [0.2]).item() > 0
    else:
        with pytest.raises(sd.exceptions.InfiniteVarianceError):
            corrected.variance([0.5], [[0.3]], [0.2])


def test_nothing_grows_slowly_enough_for_a_product_with_a_target_of_another_tail():
    """E exp(u y/2) of Laplace u and normal y is infinite at any parameter."""
    release = sd.Release({"a": LAPLACE(1.0)}, target=NORMAL(1.0))
    certificate = sd.debias(sd.Loss(sp.exp(U * Y / 2), score=U, target=Y), release, method="none").certify(
        theta_radius=0.3
    )
    assert not certificate.exists
    assert "it is known to exist for no parameters but 0" in str(certificate)


@pytest.mark.parametrize("noise", [sd.LaplaceMechanism.from_scale(0.5), sd.GaussianMechanism.from_scale(0.7)])
def test_the_bias_of_an_uncorrected_loss_of_noised_labels_is_that_of_what_is_computed(noise):
    """Which is affine in the label; the log loss at noised labels has a bias that is .0095 larger, 24 deviations."""
    release = sd.Release({("a", "b"): sd.GaussianMechanism.from_scale(0.4)}, noise)
    left = sd.debias(sd.losses.logistic(), release, method="none")
    theta, record, draws = np.array([0.6, -0.4]), np.array([0.5, -0.25]), 300_000
    drawn = release.privatize(np.tile(record, (draws, 1)), np.ones(draws), random_state=0)
    found = left.loss(theta, drawn.X, drawn.y)
    bias = left.bias(theta, record[None], np.array([1.0])).item()
    assert abs(found.mean() - np.log1p(np.exp(-theta @ record)) - bias) < 5 * found.std() / math.sqrt(draws)
