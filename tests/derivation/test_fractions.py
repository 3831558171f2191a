"""Fractions in noised features: a loss without poles that is close, and corrected exactly."""

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.exceptions import NoExactCorrectionError

DOSE, E0, TOP, HALF, Y, Z = sp.symbols("dose e0 top half y z", real=True)
EMAX = sd.Loss.of_features(
    (Y - E0 - TOP * DOSE / (HALF + DOSE)) ** 2 / 2, features=[DOSE], parameters=[E0, TOP, HALF], target=Y
)
NOISE = 0.3
RELEASE = sd.Release({"dose": sd.GaussianMechanism.from_scale(NOISE)})
RANGES = {"dose": (0.2, 8.0), HALF: (0.8, 5.0)}
THETA = np.array([1.0, 3.0, 2.0])


def near(n=20_000, loss=EMAX, release=RELEASE, ranges=RANGES):
    return sd.surrogate_of_fractions(loss, release, ranges=ranges, n=n)


def test_the_loss_is_close_to_the_declared_one():
    found = near()
    x = np.linspace(0.2, 8.0, 50)
    y = np.linspace(-1.0, 5.0, 50)
    declared = (y - 1 - 3 * x / (2 + x)) ** 2 / 2
    value = sp.lambdify((E0, TOP, HALF, DOSE, Y), found.loss.expression)(*THETA, x, y)
    np.testing.assert_allclose(found.bias(THETA, x[:, None], y), value - declared, atol=1e-13)
    assert np.abs(found.bias(THETA, x[:, None], y)).max() < 1e-3
    assert {one.expression for one in found.fractions} == {1 / (DOSE + HALF), (DOSE + HALF) ** -2}
    assert all((one.low, one.high) == pytest.approx((1.0, 13.0)) for one in found.fractions)
    assert str(found).endswith("all relative")


def test_its_correction_is_exact_by_quadrature():
    found = near()
    corrected = sd.debias(found.loss, RELEASE)
    assert corrected.is_exact
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    for x, y in ((0.4, 2.0), (3.0, 1.0)):
        for theta in (THETA, np.array([0.5, 2.0, 0.9])):
            mean = weights @ corrected.loss(theta, (x + NOISE * nodes)[:, None], np.full(80, y))
            true = sp.lambdify((E0, TOP, HALF, DOSE, Y), found.loss.expression)(*theta, x, y)
            assert mean == pytest.approx(true, rel=1e-8)


@pytest.mark.exhaustive
def test_a_fit_finds_the_curve_and_the_naive_one_does_not():
    """Four standard errors of 20,000 records; a fit that ignores the noise has half a maximum at 2.7 instead of 2."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.2, 8.0, 20_000)
    y = 1 + 3 * x / (2 + x) + 0.3 * rng.normal(size=20_000)
    noised = (x + NOISE * rng.normal(size=20_000))[:, None]
    options = {"start": [0.5, 2.0, 1.5], "bounds": ([-9, -9, 0.8], [9, 9, 5.0])}
    fit = sd.m_estimate(sd.debias(near().loss, RELEASE), noised, y, **options)
    assert np.all(np.abs(fit.theta - THETA) < 4 * fit.standard_errors)
    assert fit.standard_errors[2] < 0.15
    assert "fractions as sums of exponentials" in fit.summary()


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "expression",
    [
        (Y - TOP / (1 + HALF * DOSE)) ** 2,
        (Y - TOP * DOSE**2 / (HALF + DOSE)) ** 2,
        (Y - TOP * DOSE / (HALF + DOSE + Z)) ** 2,
        Y * TOP / (HALF + DOSE) ** 3,
        (Y - TOP / (DOSE - 20 - HALF)) ** 2,
    ],
    ids=str,
)
def test_other_fractions(expression):
    features = [DOSE, Z] if expression.has(Z) else [DOSE]
    loss = sd.Loss.of_features(expression, features=features, parameters=[TOP, HALF], target=Y)
    release = sd.Release({"dose": sd.GaussianMechanism.from_scale(0.1)}, noiseless=("z",) * (len(features) - 1))
    found = near(loss=loss, release=release, ranges={**RANGES, **({"z": (0.0, 1.0)} if len(features) > 1 else {})})
    X = np.column_stack([np.linspace(0.3, 7, 9), np.full(9, 0.5)])[:, : len(features)]
    y = np.ones(9)
    size = np.abs(sp.lambdify((TOP, HALF, *features, Y), expression)(2.0, 1.5, *X.T, y)).max()
    assert np.abs(found.bias([2.0, 1.5], X, y)).max() < 2e-3 * size


def test_correlated_noise_is_that_of_its_column():
    loss = sd.Loss.of_features((Y - TOP / (HALF + DOSE) - Z) ** 2, features=[DOSE, Z], parameters=[TOP, HALF], target=Y)
    pair = sd.GaussianMechanism.from_covariance([[0.09, 0.02], [0.02, 0.5]])
    found = near(loss=loss, release=sd.Release({("dose", "z"): pair}))
    plain = near(loss=loss, release=sd.Release({"dose": sd.GaussianMechanism.from_scale(0.3)}, noiseless=("z",)))
    assert [one.error for one in found.fractions] == pytest.approx([one.error for one in plain.fractions], rel=1e-6)
    assert sd.debias(found.loss, sd.Release({("dose", "z"): pair})).is_exact


@pytest.mark.in_turn
def test_laplace_noise_bounds_the_rates():
    """Exponentials that grow faster than half of its tails fall would have no variance."""
    release = sd.Release({"dose": sd.LaplaceMechanism.from_scale(0.1)})
    corrected = sd.debias(near(release=release).loss, release)
    assert corrected.is_exact
    assert np.isfinite(corrected.loss(THETA, [[1.0]], [1.0])).all()


def test_rates_beyond_the_tails_have_no_mean():
    fast = sd.Loss.of_features(Y * TOP * sp.exp(-12 * DOSE), features=[DOSE], parameters=[TOP], target=Y)
    with pytest.raises(NoExactCorrectionError, match="has no mean under noise"):
        sd.debias(fast, sd.Release({"dose": sd.LaplaceMechanism.from_scale(0.1)}), method="exact")
    wide = sd.Loss.of_features(Y * TOP * sp.exp(-7 * DOSE), features=[DOSE], parameters=[TOP], target=Y)
    corrected = sd.debias(wide, sd.Release({"dose": sd.LaplaceMechanism.from_scale(0.1)}), method="exact")
    assert corrected.loss([1.0], [[1.0]], [1.0])[0] == pytest.approx(np.exp(-7) * (1 - 0.49))


def test_too_much_noise_is_refused_with_numbers():
    with pytest.raises(NoExactCorrectionError, match=r"standard deviation 3, and .* comes as near as 1 to the pole"):
        near(release=sd.Release({"dose": sd.GaussianMechanism.from_scale(3.0)}))
    with pytest.raises(NoExactCorrectionError, match=r"surrogate_of_fractions\(loss, release, ranges=, n=\)"):
        sd.debias(EMAX, RELEASE)


LINE = sd.Loss.of_features((Y - TOP * DOSE) ** 2, features=[DOSE], parameters=[TOP], target=Y)
ROUND = sd.Loss.of_features((Y - TOP / (1 + DOSE**2)) ** 2, features=[DOSE], parameters=[TOP], target=Y)
DAMPED = sd.Loss.of_features(
    (Y - TOP * sp.exp(-DOSE) / (HALF + DOSE)) ** 2, features=[DOSE], parameters=[TOP, HALF], target=Y
)
REFUSED = {
    "a missing range": ({"ranges": {"dose": (0.2, 8.0)}}, "needs ranges for half"),
    "a pole within": ({"ranges": {"dose": (-3.0, 8.0), "half": (0.8, 5.0)}}, "has a pole at 0. Narrow the ranges"),
    "an unknown name": ({"ranges": {**RANGES, "q": (0, 1)}}, "neither a feature nor a parameter"),
    "one number": ({"ranges": {"dose": (0.2,), "half": (0.8, 5.0)}}, "no pair"),
    "the wrong way round": ({"ranges": {"dose": (8.0, 0.2), "half": (0.8, 5.0)}}, "no pair"),
    "NaN": ({"ranges": {"dose": (0.2, np.nan), "half": (0.8, 5.0)}}, "no pair"),
    "text": ({"ranges": {"dose": ("0.2", "8"), "half": (0.8, 5.0)}}, "no pair"),
    "words": ({"ranges": {"dose": ("low", "high"), "half": (0.8, 5.0)}}, "no pair"),
    "lengths that differ": ({"ranges": {"dose": (0.2, [8.0, 9.0]), "half": (0.8, 5.0)}}, "no pair"),
    "no mapping": ({"ranges": [(0.2, 8.0)]}, "must map names"),
    "no records": ({"n": 0}, "n"),
    "no fraction": ({"loss": LINE, "ranges": {"dose": (0.2, 8.0)}}, "has no fraction in a noised feature"),
    "no linear pole": ({"loss": ROUND, "ranges": {"dose": (0.2, 8.0)}}, "is no power of a term that is linear"),
    "not rational": ({"loss": DAMPED}, "is no rational function of dose"),
    "a loss of scores": ({"loss": sd.losses.logistic()}, "is a loss of scores"),
    "no loss": ({"loss": "emax"}, "must be a symdebias.Loss"),
    "true features": ({"release": sd.Release(noiseless=("dose",))}, "has no fraction in a noised feature"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    arguments, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError, NoExactCorrectionError), match=message):
        near(**arguments)
