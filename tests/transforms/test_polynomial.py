"""Polynomial surrogates: the correction by quadrature, the predicted variance by simulation, the choice of a design."""

import math

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.bounds.search import largest_found
from symdebias.codegen.numeric import numeric
from symdebias.mechanisms.cap_law import CapLaw
from symdebias.transforms import polynomial
from symdebias.transforms.polynomial import HIGHEST_DEGREE, PolynomialScene, design
from symdebias.transforms.surrogate import Part, Scores, Surrogate, combined
from symdebias.zonal import ZonalNoise

U = sp.Symbol("u", real=True)
LOSSES = {
    "logistic": sp.log(1 + sp.exp(-U)),
    "exponential": sp.exp(-U),
    "Poisson": sp.exp(U),
    "squared margin": (1 - U) ** 2 / 2,
    "hinge": sp.Max(0, 1 - U),
}


def part_of(name, **options):
    function = LOSSES[name]
    return Part(numeric(function, (U,)), numeric(sp.diff(function, U), (U,)), **options)


def scene(*, epsilon=5.0, width=10, size=0.8, radius=2.0, gamma=None, values=None):
    rng = np.random.default_rng(0)
    scores = Scores.of(size * np.clip(rng.normal(0.1, 0.6, 5000), -radius, radius)) if values is None else values
    return PolynomialScene(ZonalNoise(radius, CapLaw(epsilon, gamma), width), radius * size, scores, radius**2 / 2)


def squared_errors(found, part, scores):
    return float(scores.chances @ (found.slope(scores.values) - part.slope(scores.values)) ** 2)


def test_a_polynomial_loss_is_met_exactly_with_records_enough():
    found = scene().surrogates([part_of("squared margin")], 1e14, 4, 0.0)[0]
    np.testing.assert_allclose(found.polynomial, [0, -1.0, 0.5, 0, 0], atol=1e-5)
    few = scene().surrogates([part_of("squared margin")], 10, 4, 0.0)[0]
    assert abs(few.polynomial[2]) < 0.4


def sent_gradients(found, noise, theta, sent):
    """Gradients of the corrected polynomial, from the table of powers alone."""
    estimated = sent / noise.gain
    s, u = noise.variance * float(theta @ theta), estimated @ theta
    table = noise.table(len(found.polynomial) - 1)
    by_u, by_s = np.zeros(len(u)), np.zeros(len(u))
    for j, c in enumerate(found.polynomial):
        for i in range(j % 2, j + 1, 2):
            k = (j - i) // 2
            if i:
                by_u += c * table[j, i] * s**k * i * u ** (i - 1)
            if k:
                by_s += c * table[j, i] * k * s ** (k - 1) * u**i
    return estimated * by_u[:, None] + np.multiply.outer(by_s, 2 * noise.variance * theta)


@pytest.mark.parametrize("name", ["logistic", "exponential", "squared margin"])
def test_the_predicted_price_is_the_mean_squared_gradient(name):
    """For records alike in all directions across theta, on the sphere in D dimensions, where the formula is exact.

    Prediction for theta a tenth longer and shorter is in its mean, which moves it by 5% at most here.
    """
    epsilon, width, radius, size = 5.0, 6, 1.5, 0.7
    rng = np.random.default_rng(3)
    lifts = rng.standard_normal((150_000, width + 1))
    lifts *= radius / np.linalg.norm(lifts, axis=1)[:, None]
    X, theta = lifts[:, :width], size * np.eye(width)[0]
    mechanism = sd.SphericalCapMechanism(epsilon, radius)
    power = float(np.mean(np.sum(X**2, axis=1)))
    made = PolynomialScene(mechanism.noise_on(width), radius * size, Scores.of(X @ theta), power)
    found = made.surrogates([part_of(name)], 1e5, 6, 0.0)[0]
    sent = mechanism.privatize(X, random_state=4)
    drawn = np.sum(sent_gradients(found, made.noise, theta, sent) ** 2, axis=1).mean()
    assert drawn / power == pytest.approx(made.price(found), rel=0.06)


def test_the_predicted_curvature_is_the_mean_square_of_the_second_derivative():
    """On one direction: the corrected p'' at released scores is that of the polynomial p''."""
    mechanism, width, radius, size = sd.SphericalCapMechanism(5.0, 1.5), 6, 1.5, 0.7
    rng = np.random.default_rng(3)
    lifts = rng.standard_normal((150_000, width + 1))
    lifts *= radius / np.linalg.norm(lifts, axis=1)[:, None]
    X, theta = lifts[:, :width], size * np.eye(width)[0]
    made = PolynomialScene(mechanism.noise_on(width), radius * size, Scores.of(X @ theta), 1.0)
    found = made.surrogates([part_of("logistic")], 1e5, 6, 0.0)[0]
    bent = np.polynomial.polynomial.polyder(found.polynomial, 2)
    noise, u = made.noise, mechanism.privatize(X, random_state=4) @ theta / made.noise.gain
    s, table = noise.variance * size**2, noise.table(4)
    values = sum(
        c * table[j, i] * s ** ((j - i) / 2) * u**i for j, c in enumerate(bent) for i in range(j % 2, j + 1, 2)
    )
    assert np.mean(values**2) == pytest.approx(made.curvature_square(found), rel=0.03)


def test_more_records_buy_less_bias_and_label_noise_more_of_it():
    part, made = part_of("logistic"), scene()
    found = [made.surrogates([part], records, HIGHEST_DEGREE, 0.0)[0] for records in (1e3, 1e5, 1e7, 1e9)]
    errors = [squared_errors(one, part, made.scores) for one in found]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 900
    assert made.price(found[0]) < made.price(found[-1])
    labelled = part_of("logistic", inflation=9.0)
    noisy = made.surrogates([labelled], 1e5, HIGHEST_DEGREE, 0.0)[0]
    assert squared_errors(noisy, labelled, made.scores) > errors[1]


def test_shared_errors_are_kept_small():
    """The mean error of the slope over scores, and that of its product with the score."""
    part, made = part_of("logistic"), scene(values=Scores(np.array([-0.2, 0.1, 1.5]), np.array([0.3, 0.4, 0.3])))
    means = []
    for shared in (0.0, 100.0):
        found = made.surrogates([part], 300.0, 4, shared)[0]
        error = found.slope(made.scores.values) - part.slope(made.scores.values)
        means.append(
            abs(float(made.scores.chances @ error)) + abs(float(made.scores.chances @ (error * made.scores.values)))
        )
    assert means[1] < means[0] / 3


def test_hidden_powers_are_left_out():
    """Near gamma = 0 even degrees are hidden: only odd powers are used."""
    made = scene(gamma=1e-7)
    assert made.powers == [1, 3, 5, 7]
    found = made.surrogates([part_of("logistic")], 1e6, 8, 0.0)[0]
    assert [j for j, c in enumerate(found.polynomial) if c] == [1, 3, 5, 7]


def test_scores_beyond_the_reach_are_refused():
    noise = ZonalNoise(1.0, CapLaw(2.0), 3)
    with pytest.raises(ValueError, match="beyond radius"):
        PolynomialScene(noise, 0.5, Scores.within(0.6), 1.0)
    with pytest.raises(ValueError, match="must be positive"):
        PolynomialScene(noise, 0.0, Scores(np.zeros(1), np.ones(1)), 1.0)
    with pytest.raises(ValueError, match="score_variance=0"):
        design([part_of("logistic")], noise, radius=1.0, score_variance=0.0, records=1e5)
    overflowing = Part(np.exp, lambda u: np.full(u.shape, np.inf))
    with pytest.raises(ValueError, match="not finite"):
        scene().surrogates([overflowing], 1e5, 4, 0.0)


@pytest.mark.parametrize("name", LOSSES)
def test_a_design_for_a_range_states_its_errors(name):
    noise, part = ZonalNoise(1.5, CapLaw(4.0), 3), part_of(name)
    variance = noise.variance * 1.44
    found = design([part], noise, radius=1.2, score_variance=variance, records=1e6)
    assert (found.radius, found.score_variance, found.waves) == (1.2, variance, 0)
    assert found.degree in (2, 4, 6, 8)
    (one,) = found.surrogates
    bias, slope_bias = largest_found(one.errors(part), -1.2, 1.2)
    assert bias == pytest.approx(found.bias, rel=1e-3, abs=1e-12)
    assert slope_bias == pytest.approx(found.slope_bias, rel=1e-3, abs=1e-9)
    errors = one.value(np.linspace(-1.2, 1.2, 4001)) - part.value(np.linspace(-1.2, 1.2, 4001))
    # The kink of a hinge lies between points of the search.
    assert errors.max() == pytest.approx(-errors.min(), rel=0.03, abs=1e-9)
    # Scores are within reach, however wide a range is asked for.
    assert design([part], noise, radius=50.0, score_variance=variance, records=1e6).radius == pytest.approx(1.8)


def test_polynomials_have_the_ranges_of_their_derivatives_on_cells():
    rng = np.random.default_rng(2)
    one, other = (Surrogate(1.0, tuple(rng.standard_normal(9))) for _ in range(2))
    found = combined([one, other], (2.0, -0.5))
    np.testing.assert_allclose(found.polynomial, 2 * np.array(one.polynomial) - 0.5 * np.array(other.polynomial))
    low = rng.uniform(-2, 2, 300)
    high = low + 10.0 ** rng.uniform(-9, 0, 300)
    inside = low[:, None] + np.linspace(0, 1, 41) * (high - low)[:, None]
    for order, (least, most) in zip((1, 2), found.ranges(low, high), strict=True):
        values = found.power_sum(inside, order)
        assert np.all(least[:, None] <= values)
        assert np.all(values <= most[:, None])
        tight = high - low < 1e-4
        assert np.all((most - least)[tight] <= 1.1 * np.ptp(values[tight], axis=1) + 1e-8)


def test_normal_noise_is_undone_in_polynomials_of_any_degree():
    """By Gauss' rule: the mean over the noise of the inverse is the polynomial."""
    found = Surrogate(1.0, (0.3, -1.0, 2.0, 0.5, -0.25, 0.1))
    t, weights = np.polynomial.hermite_e.hermegauss(12)
    weights = weights / weights.sum()
    for u in (-1.3, 0.4):
        for value, inverse in ((found.value, found.inverse), (found.slope, found.inverse_slope)):
            mean = weights @ inverse(u + math.sqrt(0.7) * t, 0.7)
            assert mean == pytest.approx(float(value(np.array(u))), abs=1e-12)


def test_few_points_of_gauss_stand_for_many():
    """All powers up to 2 n - 1, against the points themselves; fewer points are returned as they are."""
    rng = np.random.default_rng(0)
    points, weights = rng.uniform(-1, 1, 5000), rng.uniform(0, 1, 5000)
    found, shares = polynomial._gauss(points, weights, 9)
    assert len(found) == len(shares) == 9
    for power in range(18):
        assert shares @ found**power == pytest.approx(weights @ points**power, rel=1e-11, abs=1e-10)
    assert abs(shares @ found**18 - weights @ points**18) > 1e-6
    assert polynomial._gauss(points[:3], weights[:3], 9)[0] is not None
    same, whole = polynomial._gauss(np.repeat([-0.5, 0.25], 50), np.ones(100), 9)
    np.testing.assert_allclose(sorted(same), [-0.5, 0.25], rtol=1e-12)
    assert whole.sum() == pytest.approx(100)


def test_a_scene_knows_slopes_and_curvatures_at_its_scores():
    made = scene()
    found = made.surrogates([part_of("logistic")], 1e5, 6, 5.0)[0]
    u = made.scores.values
    np.testing.assert_allclose(made.slopes(found), found.slope(u), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(made.curvatures(found), found.curvature(u), rtol=1e-10, atol=1e-12)
