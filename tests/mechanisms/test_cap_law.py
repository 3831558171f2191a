"""The numbers of the cap: golden values, quadrature from the density alone, the best gamma, extreme budgets."""

import math

import mpmath
import numpy as np
import pytest
from cap_quadrature import channel_mean, cosines

from symdebias.mechanisms.cap_law import CapLaw, best_rim, cosine_density, share_of_cap
from symdebias.zonal import legendre

GOLDEN = {
    (2.0, 3): (0.4621171573, 0.2135522670, 0.0078284189, -0.0803562015),
    (5.0, 11): (0.5264594408, 0.2771595428, 0.1142010760, 0.0267318795),
    (4.0, 6): (0.5812110231,),
}
EXTREMES = [(epsilon, dimension) for epsilon in (0.1, 1.0, 5.0, 12.0, 20.0) for dimension in (2, 3, 4, 11, 60, 200)]


@pytest.mark.parametrize(("epsilon", "dimension"), GOLDEN)
def test_golden_values(epsilon, dimension):
    wanted = GOLDEN[epsilon, dimension]
    found = CapLaw(epsilon).factors(dimension, len(wanted))
    np.testing.assert_allclose(found[1:], wanted, atol=5.1e-11)
    assert found[0] == 1.0


def test_the_golden_share_and_the_closed_form_in_three_dimensions():
    assert CapLaw(2.0).share(3) == pytest.approx(0.268941421370, abs=5e-13)
    for epsilon in (0.01, 1.0, 4.0, 15.0):
        assert best_rim(epsilon, 3) == pytest.approx(math.tanh(epsilon / 4), rel=1e-14)


@pytest.mark.parametrize(("epsilon", "dimension"), EXTREMES)
def test_the_numbers_at_high_precision(epsilon, dimension):
    """A, the probability inside, lambda_1 and lambda_2 against 40 digits of the formulas with integrals for A."""
    law = CapLaw(epsilon)
    with mpmath.workdps(40):
        rim, half = mpmath.mpf(law.rim(dimension)), mpmath.mpf(dimension - 1) / 2
        constant = mpmath.gamma(half + 0.5) / (mpmath.sqrt(mpmath.pi) * mpmath.gamma(half))
        share = constant * mpmath.quad(lambda a: mpmath.sin(a) ** (dimension - 2), [0, mpmath.acos(rim)])
        top = mpmath.exp(epsilon)
        norm = 1 + (top - 1) * share
        first = (top - 1) / norm * constant * (1 - rim**2) ** half / (dimension - 1)
        wanted = [float(value) for value in (share, top * share / norm, first, top / norm)]
        # The rim is where lambda_1 equals it.
        assert abs(first - rim) < 1e-13
    found = law.share(dimension), law.chance_inside(dimension), law.factors(dimension, 1)[1], law.trials(dimension)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(
        law.factors(dimension, 2)[2], law.factors(dimension, 1)[1] * law.rim(dimension), rtol=1e-13
    )


@pytest.mark.parametrize(
    ("epsilon", "gamma", "dimension"), [(2.0, None, 3), (5.0, None, 11), (1.0, 0.3, 2), (4.0, 0.7, 6)]
)
def test_the_factors_by_quadrature(epsilon, gamma, dimension):
    """E P_k(<w, v>) = lambda_k P_k(<w, a>), 1e-13."""
    law = CapLaw(epsilon, gamma)
    factors = law.factors(dimension, 8)
    for cosine in (1.0, 0.35, -0.8):
        for k in range(9):
            mean = channel_mean(
                lambda t, k=k: legendre(k, dimension, t)[k],
                epsilon=epsilon, rim=law.rim(dimension), dimension=dimension, cosine=cosine,
            )  # fmt: skip
            assert mean == pytest.approx(factors[k] * legendre(k, dimension, cosine)[k], abs=1e-13)


def test_the_best_rim_has_the_largest_factor():
    for epsilon, dimension in ((1.0, 2), (5.0, 11), (3.0, 100)):
        best = best_rim(epsilon, dimension)
        top = CapLaw(epsilon, best).factors(dimension, 1)[1]
        for other in (0.8 * best, 0.99 * best, 1.01 * best, min(1.15 * best, 0.999)):
            assert CapLaw(epsilon, other).factors(dimension, 1)[1] < top


def test_the_density_integrates_to_one_and_its_ratio_is_the_budget():
    for epsilon, dimension in ((1.0, 2), (5.0, 11), (20.0, 3), (30.0, 30)):
        law = CapLaw(epsilon)
        t, mass = cosines(dimension, [law.rim(dimension)])
        density = law.density(dimension, t)
        assert mass @ density == pytest.approx(1, abs=1e-11)
        assert mass[t > law.rim(dimension)] @ density[t > law.rim(dimension)] == pytest.approx(
            law.chance_inside(dimension), rel=1e-10
        )
        assert math.log(density.max() / density.min()) == pytest.approx(epsilon, rel=1e-14)


def test_the_share_and_the_density_of_the_cosine_agree():
    for dimension in (2, 3, 7):
        step = 1e-6
        slope = (share_of_cap(0.3 - step, dimension) - share_of_cap(0.3 + step, dimension)) / (2 * step)
        assert slope == pytest.approx(cosine_density(dimension, 0.3), rel=1e-7)


@pytest.mark.parametrize(("epsilon", "gamma"), [(0.0, None), (31.0, None), (math.nan, None), (1.0, 0.0), (1.0, 1.0)])
def test_what_is_refused(epsilon, gamma):
    with pytest.raises(ValueError, match="epsilon" if gamma is None else "gamma"):
        CapLaw(epsilon, gamma)
