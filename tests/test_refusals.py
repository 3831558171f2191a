"""Every refusal proposes only what works, and none is untrue."""

import re
import threading

import numpy as np
import pytest
import sympy as sp
from instances import U, Y

import symdebias as sd
from symdebias.assessment import series_biases
from symdebias.exceptions import DerivationLimitError, NoExactCorrectionError, SymdebiasError

GAUSSIAN, LAPLACE = sd.GaussianMechanism.from_scale(0.3), sd.LaplaceMechanism.from_scale(0.1)
RELEASES = {
    "gaussian": sd.Release(features=GAUSSIAN),
    "laplace": sd.Release(features=LAPLACE),
    "laplace target": sd.Release(features=LAPLACE, target=sd.LaplaceMechanism.from_scale(0.5)),
    "gaussian target": sd.Release(features=LAPLACE, target=GAUSSIAN),
    "uniform": sd.Release(features=sd.UniformMechanism(0.3)),
}
LOSSES = {
    "logistic": sp.log(1 + sp.exp(-U)) + U * Y,
    "absolute residual": sp.Abs(U - Y),
    "neither residual nor affine": sp.exp(-U * Y) + sp.log(1 + U**2) * Y**2,
    "too fast": sp.exp(U**4) + U * Y,
    "kink in the score, square of the target": sp.Abs(U) * Y**2,
    "logarithm of the product": sp.log(1 + (U * Y) ** 2),
}
MECHANISMS = {
    "LaplaceMechanism": sd.LaplaceMechanism.from_scale(0.1),
    "DiscreteLaplaceMechanism": sd.DiscreteLaplaceMechanism.from_scale(0.1),
    "GaussianMechanism": sd.GaussianMechanism.from_scale(0.1),
}


def loss_of(name):
    return sd.Loss(LOSSES[name], score=U, target=Y)


def proposals(message, loss, release):
    """Yield a derivation for each thing that a refusal proposes."""
    for what, method in (("surrogate", {}), ("series", {"order": 2})):
        if re.search(rf'ass method="{what}"', message):
            yield what, lambda what=what, method=method: sd.debias(loss, release, method=what, **method)
    for where, name in re.findall(r"elease (the features|the target|features and target) with an? (\w+)", message):
        features = release.groups[0][1] if where == "the target" else MECHANISMS[name]
        target = release.target if where == "the features" else MECHANISMS[name]
        other = sd.Release(features=features, target=target)
        yield f"{where} with {name}", lambda other=other: sd.debias(loss, other, method="exact")


@pytest.mark.in_turn
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("loss", LOSSES)
def test_what_a_refusal_proposes_works(loss, release):
    declared, released = loss_of(loss), RELEASES[release]
    for method in ("exact", "auto"):
        try:
            sd.debias(declared, released, method=method)
        except NoExactCorrectionError as refusal:
            for _, attempt in proposals(str(refusal), declared, released):
                attempt()


def test_refusals_do_propose_something():
    with pytest.raises(NoExactCorrectionError, match=r'Pass method="surrogate".* with a LaplaceMechanism'):
        sd.debias(sd.losses.logistic(), RELEASES["gaussian"], method="exact")
    # A kink: differences undo noise on a grid, and nothing else does.
    with pytest.raises(NoExactCorrectionError, match="with a DiscreteLaplaceMechanism") as refusal:
        sd.debias(loss_of("absolute residual"), RELEASES["laplace"], method="exact")
    assert "a LaplaceMechanism" not in str(refusal.value)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "expression", [sp.exp(-sp.exp(U / 2)) - U * Y, sp.exp(-sp.exp(U)) + sp.exp(-sp.exp(-U)), sp.exp(3 * U - sp.exp(U))]
)
def test_bounded_losses_are_exact_under_laplace_noise(expression):
    corrected = sd.debias(sd.Loss(expression, score=U, target=Y), RELEASES["laplace"], method="exact")
    assert corrected.certify(theta_radius=0.5).loss_bias < 1e-8


@pytest.mark.newest
@pytest.mark.exhaustive
def test_inverse_hyperbolic_functions_go_all_the_way():
    corrected = sd.debias(sd.Loss(sp.asinh(U) ** 2 - U * Y, score=U, target=Y), RELEASES["laplace"])
    theta, X, y = np.array([0.7, -0.2]), np.array([[0.5, 1.0], [2.0, 0.1]]), np.array([1.0, 0.3])
    step = 1e-5 * np.eye(2)
    slopes = [(corrected.mean_loss(theta + h, X, y) - corrected.mean_loss(theta - h, X, y)) / 2e-5 for h in step]
    np.testing.assert_allclose(corrected.mean_gradient(theta, X, y), slopes, rtol=1e-7)


@pytest.mark.parametrize("expression", [sp.polygamma(1, U**2 + 1), sp.floor(U / 2) + U, sp.erfi(U)])
def test_functions_without_a_kernel_are_refused_with_the_list_of_those_that_have_one(expression):
    with pytest.raises(TypeError, match=r"a kernel cannot evaluate (polygamma|floor|erfi).* asinh, .*tanh"):
        sd.debias(sd.Loss(expression, score=U, target=Y), RELEASES["gaussian"])


@pytest.mark.parametrize("expression", [sp.besselj(0, U), sp.LambertW(sp.exp(U)), sp.zeta(2 + U**2)])
def test_functions_that_no_loss_has_are_refused_with_the_list_of_those_that_it_may_have(expression):
    with pytest.raises(sd.ExpressionError, match=r"of the type (besselj|LambertW|zeta), .* asinh, .*tanh"):
        sd.Loss(expression, score=U, target=Y)


@pytest.mark.parametrize(
    "expression",
    [1 / U, 1 / (U - Y), sp.log(U**2), sp.tan(U), sp.log(sp.Abs(U)), 1 / (U**2 - Y**2), U / sp.sinh(U) ** 2],
)
def test_losses_that_are_not_finite_at_a_real_score_are_refused(expression):
    with pytest.raises(ValueError, match="no finite value at u = "):
        sd.Loss(expression, score=U, target=Y)


@pytest.mark.parametrize("expression", [sp.sin(U) / U, (1 - sp.cos(U)) / U**2, 1 / (1 + U**2), sp.log(1 + sp.Abs(U))])
def test_removable_singularities_and_bounded_denominators_are_taken(expression):
    assert sd.Loss(expression, score=U, target=Y).expression == expression


@pytest.mark.parametrize(
    "expression",
    [
        U * sp.exp(sp.exp(sp.exp(sp.exp(sp.Integer(9))))),
        U**2 * sp.Integer(10) ** 400,
        sp.exp(sp.exp(sp.exp(sp.exp(U)))),
        sp.exp(-sp.exp(sp.exp(sp.exp(sp.exp(U))))),
    ],
)
def test_values_beyond_float64_are_refused(expression):
    with pytest.raises(ValueError, match="beyond the numbers of float64"):
        sd.Loss(expression, score=U, target=Y)


@pytest.mark.parametrize(
    "expression",
    [sp.Heaviside(-U * Y), (1 - sp.sign(U * Y)) / 2, sp.Piecewise((1, U * Y < 0), (0, True)), sp.Heaviside(U - Y)],
)
def test_losses_that_jump_are_refused_for_training(expression):
    loss = sd.Loss(expression, score=U, target=Y, target_values=(-1, 1))
    with pytest.raises(NoExactCorrectionError, match=r'jumps at u = .*evaluate\(\.\.\., metric="accuracy"\)'):
        sd.debias(loss, RELEASES["gaussian"])


def test_kinks_are_no_jumps():
    assert sd.losses.hinge().jump is None
    assert sd.losses.huber().jump is None


def test_high_powers_are_derived_by_recurrence():
    corrected = sd.debias(sd.Loss((U - Y) ** 200, score=U, target=Y), RELEASES["gaussian"])
    assert corrected.method == "exact"
    # The mean of (w + e)^n by Gauss-Hermite: 12 is above the power from which Hermite polynomials are used.
    twelfth = sd.debias(sd.Loss((U - Y) ** 12, score=U, target=Y), RELEASES["gaussian"], method="exact")
    t, weights = np.polynomial.hermite_e.hermegauss(20)
    theta, x, y = np.array([1.5]), 0.4, 0.9
    values = twelfth.loss(theta, (x + 0.3 * t)[:, None], np.full(20, y))
    assert weights @ values / weights.sum() == pytest.approx((1.5 * x - y) ** 12, rel=1e-9, abs=1e-9)


def test_powers_whose_correction_would_cancel_all_digits_are_refused():
    theta, x, z = sp.symbols("theta x z", real=True)
    by_feature = sd.Loss.of_features(theta * x**34 + z**2, features=[x, z], parameters=[theta], target=Y)
    with pytest.raises(NoExactCorrectionError, match="the power 34 of x is too high"):
        sd.debias(by_feature, sd.Release(sd.GaussianMechanism.from_scale(0.3)), method="exact")
    spherical = sd.Release(sd.SphericalLaplaceMechanism.from_scale(0.3))
    with pytest.raises(NoExactCorrectionError, match="the power 33 of u, under noise of a whole vector, is too high"):
        sd.debias(sd.Loss(U**33, score=U, target=Y), spherical, method="exact").certify(columns=3)


@pytest.mark.in_turn
@pytest.mark.parametrize("in_thread", [False, True])
def test_what_takes_too_long_is_given_up_in_every_thread(in_thread):
    loss = sd.Loss((1 + U + sp.exp(U) + sp.sin(U)) ** 4, score=U, target=Y)
    stopped = []

    def derive():
        with sd.derivation_limits(seconds=0.05):
            try:
                sd.debias(loss, RELEASES["gaussian"], method="exact")
            except DerivationLimitError as error:
                stopped.append((str(error), error.by_time))

    if in_thread:
        thread = threading.Thread(target=derive)
        thread.start()
        thread.join()
    else:
        derive()
    ((message, by_time),) = stopped
    assert by_time
    assert "more than the 0.05 seconds" in message


def test_expressions_that_are_too_long_are_given_up():
    loss = sd.Loss((1 + U + sp.exp(U)) ** 6, score=U, target=Y)
    with sd.derivation_limits(operations=20), pytest.raises(DerivationLimitError, match="more than the 20 operations"):
        sd.debias(loss, RELEASES["gaussian"], method="exact")


@pytest.mark.parametrize("limits", [{"seconds": 0.0}, {"operations": 0}, {"seconds": "1"}])
def test_limits_are_checked(limits):
    with pytest.raises((ValueError, TypeError)), sd.derivation_limits(**limits):
        pass


def test_messages_show_plain_numbers():
    with pytest.raises(ValueError, match=r"prior\[0\]=-0\.1 is no probability"):
        sd.optimal_unbiased_randomizer(labels=np.arange(3.0), prior=np.array([-0.1, 0.6, 0.5]), epsilon=1.0)
    with pytest.raises(ValueError, match=r"epsilon=-0\.1 is too small"):
        sd.RandomizedResponse(np.float64(-0.1))


@pytest.mark.in_turn
@pytest.mark.newest
def test_categories_alone_without_an_intercept_have_a_hessian():
    coin = sd.RandomizedResponse(2.0, categories=("p", "q", "r"))
    release = sd.Release(features={"a": coin, "b": coin}, target=sd.RandomizedResponse(2.0))
    rng = np.random.default_rng(0)
    noised = release.privatize(rng.integers(0, 3, (300, 2)).astype(float), rng.choice([-1.0, 1.0], 300), random_state=1)
    corrected = sd.debias(sd.losses.squared_margin(), release, method="exact")
    theta, step = rng.normal(size=6) * 0.3, 1e-5 * np.eye(6)
    slopes = [
        (
            corrected.mean_gradient(theta + h, noised.X, noised.y)
            - corrected.mean_gradient(theta - h, noised.X, noised.y)
        )
        / 2e-5
        for h in step
    ]
    np.testing.assert_allclose(corrected.mean_hessian(theta, noised.X, noised.y), slopes, atol=1e-8)
    assert np.isfinite(sd.m_estimate(corrected, noised.X, noised.y, l2=0.1, radius=3.0).theta).all()


def test_the_family_of_errors():
    assert issubclass(DerivationLimitError, SymdebiasError)


# ---- poles within reach of the noise -----------------------------------------------------------------------

X, MOST, HALF = sp.symbols("x most half", real=True)


def dose_response(curve):
    return sd.Loss.of_features((curve - Y) ** 2 / 2, features=[X], parameters=[MOST, HALF], target=Y)


@pytest.mark.parametrize("mechanism", [GAUSSIAN, LAPLACE, sd.UniformMechanism(0.3)], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("method", ["auto", "exact", "series"])
def test_a_pole_that_noise_reaches_leaves_no_mean(mechanism, method):
    """Emax: at x = -half the loss is infinite, and so is its mean over noise with a density there."""
    emax, release = dose_response(MOST * X / (HALF + X)), sd.Release({"x": mechanism})
    with pytest.raises(NoExactCorrectionError, match="has a pole in x whatever the parameters are") as caught:
        sd.debias(emax, release, method=method, **({"order": 1} if method == "series" else {}))
    assert "use a curve without a pole, such as exp" in str(caught.value)
    assert "LaplaceMechanism" not in str(caught.value).replace("DiscreteLaplaceMechanism", "")
    if method == "exact":
        # What it proposes has a mean: a sum over the grid of the noise.
        assert "DiscreteLaplaceMechanism" in str(caught.value)
        gridded = sd.Release({"x": sd.DiscreteLaplaceMechanism.from_scale(0.1, step=0.5)})
        assert sd.debias(emax, gridded).is_exact


@pytest.mark.in_turn
def test_curves_without_a_pole_are_exact():
    """The exponential curve that the refusal names; a fraction without a real pole; a removable one."""
    for curve, mechanism in (
        (MOST * (1 - sp.exp(-HALF * X)), GAUSSIAN),
        (MOST * X / (1 + HALF**2 + X**2), LAPLACE),
        (MOST * sp.sin(X) / X + HALF, LAPLACE),
    ):
        assert sd.debias(dose_response(curve), sd.Release({"x": mechanism})).is_exact


@pytest.mark.in_turn
def test_many_scores_are_refused_without_listing_what_they_would_take():
    """The terms, and the nodes of a quadrature for the message, of ten scores filled the memory of the machine."""
    softmax, columns = sd.losses.softmax(5), [f"x{place}" for place in range(36)]
    release = sd.Release(sd.LaplaceMechanism.from_scale(0.1)).bind(columns)
    with pytest.raises(
        sd.NoExactCorrectionError, match=r"of order 72 in 5 scores with 1\.021e\+07 terms; at most 120 terms"
    ):
        sd.debias(softmax, release, method="exact")
    assert series_biases(softmax) == ()
    assert len(series_biases(sd.losses.softmax(2))) == 3


def test_a_term_of_the_target_alone_that_has_no_correction_is_named():
    """The logarithm of a factorial in the likelihood of a count is one: no parameter is in it."""
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3), sd.GaussianMechanism.from_scale(0.2))
    with pytest.raises(sd.NoExactCorrectionError, match=r"(?i)leave out loggamma\(y \+ 1\), which depends on"):
        sd.debias(sd.Loss(sp.exp(U) - U * Y + sp.log(sp.factorial(Y)), score=U, target=Y), release)
    assert sd.debias(sd.Loss(sp.exp(U) - U * Y, score=U, target=Y), release).method == "exact"
