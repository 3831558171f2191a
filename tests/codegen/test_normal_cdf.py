import mpmath
import numpy as np
import pytest
import sympy as sp
from instances import U, Y

import symdebias as sd
from symdebias.codegen import elementary
from symdebias.codegen.functions import log_normal_cdf
from symdebias.codegen.numeric import numeric
from symdebias.codegen.stable import plain, rewrite

POINTS = np.concatenate([np.linspace(-12, 12, 49), [-3.9999, -4.0001, -38.0, -1e2, -1e3, 38.0, 1e3]])


def oracle(x):
    with mpmath.workdps(60):
        x = mpmath.mpf(float(x))
        below = mpmath.erfc(-x / mpmath.sqrt(2)) / 2
        ratio = mpmath.npdf(x) / below
        return float(mpmath.log(below)), float(ratio), float(x + ratio)


@pytest.mark.parametrize("x", POINTS)
def test_against_mpmath(x):
    values = oracle(x)
    for name, value in zip(("log_normal_cdf", "inverse_mills", "mills_excess"), values, strict=True):
        assert getattr(elementary, name)(float(x)) == pytest.approx(value, rel=1e-13, abs=1e-300)
    at = np.array([x])
    log = numeric(log_normal_cdf(U), (U,))(at)
    slope = numeric(sp.diff(log_normal_cdf(U), U), (U,))(at)
    curvature = numeric(sp.diff(log_normal_cdf(U), U, 2), (U,))(at)
    np.testing.assert_allclose([log[0], slope[0]], values[:2], rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(curvature[0], -values[1] * values[2], rtol=1e-12, atol=1e-300)


def test_far_left_they_are_a_parabola_a_line_and_its_inverse():
    for x in (-1e5, -1e8):
        assert elementary.log_normal_cdf(x) == pytest.approx(-x * x / 2, rel=1e-8)
        assert elementary.inverse_mills(x) == pytest.approx(-x, rel=1e-9)
        assert elementary.mills_excess(x) == pytest.approx(-1 / x, rel=1e-9)


@pytest.mark.parametrize(
    "written",
    [
        sp.log(sp.erfc(-U / sp.sqrt(2)) / 2),
        sp.log(1 - sp.erfc(U / sp.sqrt(2)) / 2),
        sp.log((1 + sp.erf(U / sp.sqrt(2))) / 2),
        sp.log(sp.Rational(1, 2) + sp.erf(U * Y / sp.sqrt(2)) / 2),
        3 * sp.log(sp.erfc(U - Y)) + U,
    ],
)
def test_all_ways_to_write_it_are_recognised(written):
    found = rewrite(written)
    assert found.has(log_normal_cdf)
    assert not found.has(sp.erf, sp.erfc)
    at = {U: sp.Rational(3, 7), Y: sp.Rational(-5, 4)}
    assert abs(sp.N((found - written).xreplace(at), 30)) < 1e-25
    assert not plain(found).has(log_normal_cdf)


def test_the_probit_loss_and_its_kernel_are_finite_everywhere():
    corrected = sd.debias(sd.losses.probit(), sd.Release(noiseless=("a",)), method="none")
    scores = np.array([[-1e3], [-9.0], [0.0], [9.0], [1e3]])
    y = np.ones(5)
    loss = corrected.loss(np.ones(1), scores, y)
    gradient = corrected.gradient(np.ones(1), scores, y)
    assert np.isfinite(loss).all()
    np.testing.assert_allclose(loss, [-oracle(u)[0] for u in scores[:, 0]], rtol=1e-12, atol=1e-15)
    slopes = [-u * oracle(u)[1] for u in scores[:, 0]]
    np.testing.assert_allclose(gradient[:, 0], slopes, rtol=1e-12, atol=1e-15)
