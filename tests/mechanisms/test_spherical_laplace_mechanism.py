"""The spherical Laplace mechanism: its scale and moments, planted defects of its draw, what it hides, golden values."""

import math
from fractions import Fraction

import numpy as np
import pytest
from sampling_statistics import normal_faults, spherical_normals
from scipy import special

import symdebias as sd
from symdebias.mechanisms import sampling
from symdebias.mechanisms.spherical_laplace import SphericalLaplaceNoise
from symdebias.noise import AdditiveNoise

ONE = sd.SphericalLaplaceMechanism.from_scale(1.0)


@pytest.mark.parametrize(("dimension", "frequency", "golden"), [(3, 1.7, 0.06608468091), (10, 0.3, 0.6225213654)])
def test_the_characteristic_function_has_the_golden_values(dimension, frequency, golden):
    noise = ONE.noise_on(dimension)
    s = noise.weight * frequency**2
    assert float(1 / noise.factor(-s)) == pytest.approx(golden, rel=1e-9)
    # And those of its law: a norm of the Gamma distribution times a coordinate of a uniform direction.
    t, weights = special.roots_gegenbauer(60, dimension / 2 - 1)
    r, shares = special.roots_genlaguerre(80, dimension - 1)
    mean = shares @ np.cos(frequency * np.multiply.outer(r, t)) @ weights / shares.sum() / weights.sum()
    assert mean == pytest.approx(golden, rel=1e-9)


@pytest.mark.parametrize(
    ("columns", "padded", "ambient"), [(2, False, 2), (2, True, 3), (3, False, 3), (3, True, 3), (10, True, 11)]
)
def test_variance_and_padding(columns, padded, ambient):
    """The variance per column is b^2 (D + 1): 6 or 8 at two columns and epsilon 2."""
    mechanism = sd.SphericalLaplaceMechanism(epsilon=2.0, radius=math.sqrt(2.0), padded=padded)
    noise = mechanism.noise_on(columns)
    assert noise.ambient == ambient
    assert noise.variance == pytest.approx(2.0 * (ambient + 1), rel=1e-12)
    r, shares = noise.radii(30)
    assert shares @ r**2 / ambient == pytest.approx(noise.variance, rel=1e-12)
    sent = mechanism.privatize(np.zeros((50_000, columns)), random_state=0)
    assert sent.shape == (50_000, columns)
    # With 50,000 draws the mean square is within 5 of its standard errors but for a chance below 1e-6.
    squares = sent[:, 0] ** 2
    assert abs(squares.mean() - noise.variance) < 5 * squares.std() / math.sqrt(len(squares))


def test_one_column_is_the_laplace_mechanism():
    mechanism, laplace = sd.SphericalLaplaceMechanism(0.7, radius=1.5), sd.LaplaceMechanism(0.7, radius=1.5)
    assert mechanism.noise_on(1) == laplace.noise
    assert isinstance(mechanism.noise, AdditiveNoise)
    X = np.linspace(-2, 2, 7)
    np.testing.assert_array_equal(mechanism.privatize(X, random_state=1), laplace.privatize(X, random_state=1))


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 7.0])
@pytest.mark.parametrize("radius", [0.1, 1.0, 3.7])
def test_the_scale_is_the_diameter_over_epsilon_rounded_up(epsilon, radius):
    scale = sd.SphericalLaplaceMechanism(epsilon, radius).scale
    assert Fraction(scale) * Fraction(epsilon) >= 2 * Fraction(radius)
    assert Fraction(math.nextafter(scale, 0)) * Fraction(epsilon) < 2 * Fraction(radius)


@pytest.mark.parametrize("padded", [False, True])
def test_the_guarantee_and_a_delta(padded):
    pure = sd.SphericalLaplaceMechanism(5.0, math.sqrt(10.0), padded=padded)
    assert (pure.guarantee.epsilon, pure.guarantee.delta, pure.guarantee.model) == (5.0, 0.0, "local")
    some = sd.SphericalLaplaceMechanism(5.0, math.sqrt(10.0), 1e-5, 10, padded=padded)
    assert (some.guarantee.epsilon, some.guarantee.delta) == (5.0, 1e-5)
    assert some.scale < pure.scale
    if not padded:
        assert some.scale == pytest.approx(1.17533916, rel=1e-6)
        assert some.scale >= 1.17533916487
    else:
        # That of the noise in 11 dimensions, of which one is dropped.
        assert some.scale == sd.privacy.spherical_laplace_scale(5.0, 1e-5, 2 * math.sqrt(10.0), 11)
    assert some.width == 10
    with pytest.raises(ValueError, match="noises 10 columns together"):
        sd.Release({("a", "b"): some})
    with pytest.raises(ValueError, match=r"delta=1e-05 needs the number of columns"):
        sd.SphericalLaplaceMechanism(5.0, 1.0, 1e-5)


def test_the_noise_of_a_release_is_that_of_its_columns():
    mechanism = sd.SphericalLaplaceMechanism(2.0, 1.0)
    release = sd.Release({("a", "b", "c"): mechanism, "d": sd.LaplaceMechanism(1.0, bounds=(0, 1)), "e": mechanism})
    noises = [noise for _, noise in release.noises(5)]
    assert noises[0] == SphericalLaplaceNoise(1.0, 3)
    assert noises[2] == sd.LaplaceMechanism.from_scale(1.0).noise
    np.testing.assert_allclose(release.feature_variances(5), [4, 4, 4, 2, 2])
    assert release.guarantee.epsilon == 5.0
    assert release.guarantee.delta == 0.0
    assert sd.Release.from_json(release.to_json()) == release


# ---- planted defects of the draw -------------------------------------------------------------------------

DEFECTS = {
    "scale x1.05": lambda v: 1.05 * v,
    "sensitivity halved": lambda v: v / 2,
    "one Laplace number per column": lambda v: np.random.default_rng(3).laplace(size=v.shape),
    "normal of the same variance": lambda v: np.random.default_rng(3).normal(scale=math.sqrt(5), size=v.shape),
    "shape one too small": lambda v: v * (1 - 1 / 5),
    "norm of the exponential distribution": lambda v: (
        v / np.linalg.norm(v, axis=1, keepdims=True) * np.random.default_rng(3).exponential(size=(len(v), 1))
    ),
    "directions in a cube": lambda v: (
        np.linalg.norm(v, axis=1, keepdims=True)
        * (lambda d: d / np.linalg.norm(d, axis=1, keepdims=True))(np.random.default_rng(3).uniform(-1, 1, v.shape))
    ),
    "one sign": np.abs,
    "each record's noise used twice": lambda v: np.repeat(v[::2], 2, axis=0),
    "first coordinate at half the noise": lambda v: v * [0.5, 1, 1, 1],
}


@pytest.mark.in_turn
@pytest.mark.parametrize("defect", [None, *DEFECTS])
def test_the_tests_of_the_draw_see_defects(defect):
    """Each of the tests has a false-alarm rate of `LEVEL`; with 40,000 vectors they see every one of these."""
    source = sampling.source(5)
    drawn = sampling.radial_noise_rows(1.0, 40_000, 4, source)
    found = normal_faults(spherical_normals((DEFECTS[defect] if defect else np.asarray)(drawn), ONE.noise_on(4)), 1.0)
    assert bool(found) == (defect is not None), found
