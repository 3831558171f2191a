"""Losses of two labels that are functions of the margin."""

import numpy as np
import pytest
import sympy as sp

import symdebias as sd
from symdebias.derivation.scores import of_margin

U, Y, S = sp.symbols("u y s", real=True)
FEATURES = {
    "Laplace": {"features": {"a": sd.LaplaceMechanism.from_scale(0.3), "b": sd.LaplaceMechanism.from_scale(0.2)}},
    "normal": {"features": sd.GaussianMechanism.from_scale(0.4)},
    "none": {"noiseless": ("a", "b")},
}


def by_labels(upper, lower, pair):
    """Return the loss of a label as what `label_noise_undone` makes of it: affine in the label."""
    low, high = pair
    return ((Y - low) * upper + (high - Y) * lower) / (high - low)


@pytest.mark.in_turn
@pytest.mark.parametrize("pair", [(-1, 1), (0, 1), (1, 2)])
@pytest.mark.parametrize(
    "f",
    [
        sp.exp(-U - S / 2),
        sp.Max(0, 1 - U) ** 2,
        (1 - 2 * U + U**2 + U**3) * sp.exp(-U),
        -sp.log(sp.erfc(-U) / 2) - S * sp.diff(sp.log(sp.erfc(-U) / 2), U, 2) / 2,
    ],
    ids=str,
)
def test_a_loss_of_the_margin_is_written_once(f, pair):
    given = by_labels(f, f.xreplace({U: -U}), pair)
    found = of_margin(given, U, Y, tuple(map(float, pair)))
    assert found.count_ops() < given.count_ops()
    for label in pair:
        for u in (-2.0, -0.3, 0.7, 3.0):
            at = {U: u, S: 0.7, Y: label}
            assert float(found.evalf(30, subs=at)) == pytest.approx(float(given.evalf(30, subs=at)), rel=1e-13)


def test_what_is_no_loss_of_the_margin_stays_as_it_is():
    """Labels count differently, or a skewed noise has made the halves unlike."""
    for upper, lower in ((2 * sp.exp(-U), sp.exp(U)), (sp.exp(-U - S), sp.exp(U + S)), (sp.exp(-U), sp.exp(2 * U))):
        given = by_labels(upper, lower, (-1, 1))
        assert of_margin(given, U, Y, (-1.0, 1.0)) is given


def test_the_log_loss_is_short_by_labels():
    given = sp.log(1 + sp.exp(U)) - U * (1 + Y) / 2
    assert of_margin(given, U, Y, (-1.0, 1.0)) is given


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "noise"),
    [("exponential", "Laplace"), ("exponential", "normal"), ("exponential", "none"), ("probit", "Laplace"),
     ("probit", "none"), ("squared_hinge", "none")],
)  # fmt: skip
@pytest.mark.parametrize("pair", [(-1, 1), (0, 1)])
def test_corrections_are_those_of_noised_labels_whose_noise_does_nothing(name, noise, pair):
    """They have another form, with c of 1."""
    loss = getattr(sd.losses, name)()
    loss = loss if pair == (-1, 1) else loss.recoded(pair)
    coin = sd.RandomizedResponse(1.0, categories=pair)
    seen, noised = (
        sd.debias(loss, sd.Release(**FEATURES[noise], target=target), method="exact").expression
        for target in (None, coin)
    )
    assert seen.count_ops() < 0.7 * noised.count_ops()
    symbols = {symbol.name: symbol for symbol in noised.free_symbols}
    assert seen.free_symbols == noised.free_symbols - {symbols["c"]}
    names = sorted(noised.free_symbols, key=str)
    u, y = (sorted(size for size in (-1.7, 0.4, 2.2) for _ in pair), list(pair) * 3)
    known = {"u": np.array(u), "y": np.array(y, dtype=float), "c": 1.0}
    values = [known.get(symbol.name, 0.3 + 0.1 * place) for place, symbol in enumerate(names)]
    found, wanted = (sp.lambdify(names, one, ["scipy", "numpy"])(*values) for one in (seen, noised))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_kernels_of_a_margin_loss_have_its_derivatives():
    """The exponential loss under normal noise, by hand: e^(-y u - s/2) with s = .16 ||theta||^2."""
    corrected = sd.debias(sd.losses.exponential().recoded((0, 1)), sd.Release(**FEATURES["normal"]))
    rng = np.random.default_rng(0)
    X, theta, y = rng.normal(size=(50, 2)), np.array([0.9, -0.6]), rng.integers(2, size=50)
    sign = 2.0 * y - 1
    losses = np.exp(-sign * (X @ theta) - 0.08 * theta @ theta)
    np.testing.assert_allclose(corrected.loss(theta, X, y), losses, rtol=1e-12)
    moves = -sign[:, None] * X - 0.16 * theta
    np.testing.assert_allclose(corrected.gradient(theta, X, y), losses[:, None] * moves, rtol=1e-11, atol=1e-14)
    hessian = (moves * losses[:, None]).T @ moves / 50 - 0.16 * losses.mean() * np.eye(2)
    np.testing.assert_allclose(corrected.mean_hessian(theta, X, y), hessian, rtol=1e-11, atol=1e-14)


def test_labels_stand_once_beside_the_functions_of_the_score():
    """Multiplied out, each term of the derivatives stood there four times: 556 operations, and twice the time."""
    sizes = []
    for target in (None, sd.RandomizedResponse(2.0)):
        release = sd.Release({name: sd.LaplaceMechanism.from_scale(0.2) for name in "abc"}, target=target)
        sizes.append(sp.count_ops(sd.debias(sd.losses.probit(), release, method="exact").at(3).program.expression))
    assert sizes[0] < sizes[1] < 2.5 * sizes[0]
