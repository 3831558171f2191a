"""Any convex loss of a label: the optimum of the published programme, its certificate, and losses that are one."""

import json
import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from label_programme import assert_promises, mesh, pairwise_optimum

import symdebias as sd

pytestmark = pytest.mark.newest

LABELS, PRIOR = np.array([0.0, 1.0, 2.5, 6.0, 6.5]), np.array([0.1, 0.4, 0.0, 0.3, 0.2])


def named(given):
    """A name that is the same in all processes."""
    return given.__name__ if callable(given) else str(given)


def fine(epsilon, count=41):
    return np.union1d(mesh(LABELS, epsilon, count), LABELS)


def best(loss, epsilon=1.0, prior=PRIOR, **options):
    return sd.optimal_unbiased_randomizer(LABELS, prior, epsilon, loss=loss, **options)


def huber(t, y):
    size = np.abs(t - y)
    return np.where(size <= 0.75, size**2 / 2, 0.75 * size - 0.75**2 / 2)


# What is given, and the same loss in NumPy for the programme as published.
LOSSES = {
    "huber": (sd.losses.huber(0.75), huber),
    "pinball": ("Max(residual/10, -9*residual/10)", lambda t, y: np.where(t > y, 0.1 * (t - y), 0.9 * (y - t))),
    "expectile": (sd.losses.expectile(0.9), lambda t, y: np.where(t > y, 0.1, 0.9) * (t - y) ** 2),
    "smooth quantile": (sd.losses.quantile(0.2), lambda t, y: 0.2 * (y - t) + np.logaddexp(0, 2 * (t - y)) / 2),
    "linex": (lambda r: np.exp(r / 8) - r / 8, lambda t, y: np.exp((t - y) / 8) - (t - y) / 8),
    "fourth power": ("residual**4 - 100", lambda t, y: (t - y) ** 4 - 100.0),
    "weighted": (lambda t, y: abs(t - y) / (1 + y), lambda t, y: np.abs(t - y) / (1 + y)),
    "relative squares": ("(outcome/(1 + label) - label/(1 + label))**2", lambda t, y: ((t - y) / (1 + y)) ** 2),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("name", LOSSES)
def test_the_optimum_is_that_of_the_published_programme(name, epsilon):
    given_loss, loss = LOSSES[name]
    outputs = fine(epsilon)
    found = best(given_loss, epsilon, outputs=outputs)
    wanted = pairwise_optimum(LABELS, PRIOR, epsilon, outputs, loss)
    size = abs(wanted) + 100 * (name == "fourth power")
    assert found.noisy_label_loss == pytest.approx(wanted, abs=1e-7 * size)
    assert found.lower_bound <= wanted + 1e-9 * size
    assert found.optimality_gap <= 1e-8 * size
    assert found.bias <= 1e-12 * (LABELS[-1] - LABELS[0])
    if wanted > 0:
        assert_promises(found)


@pytest.mark.parametrize("outputs", [None, fine(1.0)], ids=["all numbers", "a mesh"])
@pytest.mark.parametrize(
    "loss",
    [
        "(outcome - label)**2", "residual**2", "outcome**2 - 2*outcome*label + label**2", np.square,
        lambda t, y: (t - y) ** 2, sp.Symbol("residual") ** 2,
        sd.Loss.from_function(lambda u, y: (u - y) ** 2),
    ],
    ids=named,
)  # fmt: skip
def test_squares_given_as_expressions_are_the_squared_loss(loss, outputs):
    found = best(loss, outputs=outputs)
    assert found == best("squared", outputs=outputs)
    assert found.loss == "squared"


@pytest.mark.parametrize("loss", ["Abs(outcome - label)", np.abs, lambda t, y: abs(t - y), lambda r: np.absolute(r)])
def test_distances_given_as_expressions_are_the_absolute_loss(loss):
    assert best(loss, outputs=fine(1.0)) == best("absolute", outputs=fine(1.0))


@pytest.mark.parametrize("outputs", [None, fine(1.0)], ids=["all numbers", "a mesh"])
def test_quadratic_losses_are_the_squared_loss_under_another_prior(outputs):
    weights = 1 / (1 + LABELS)
    found = best("(outcome - label)**2/(1 + label) - 2*outcome + label**2", outputs=outputs)
    other = best("squared", prior=PRIOR * weights / (PRIOR @ weights), outputs=outputs)
    np.testing.assert_allclose(found.outputs, other.outputs, rtol=1e-6)
    np.testing.assert_allclose(found.matrix, other.matrix, rtol=1e-5)
    assert found.prior == pytest.approx(tuple(PRIOR))
    of_truth = PRIOR @ (LABELS**2 - 2 * LABELS)
    for name in ("noisy_label_loss", "lower_bound"):
        wanted = getattr(other, name) * (PRIOR @ weights) + of_truth
        assert getattr(found, name) == pytest.approx(wanted, rel=1e-11)


def test_half_the_squared_loss_has_the_randomizer_of_the_squared_loss():
    found, squared = best(sd.losses.least_squares()), best("squared")
    assert found.matrix == squared.matrix
    assert found.noisy_label_loss == pytest.approx(squared.noisy_label_loss / 2, rel=1e-14)
    assert 0 <= found.optimality_gap <= 1e-9 * found.noisy_label_loss


@pytest.mark.parametrize("level", [0.05, 0.5, 0.8])
def test_quantile_losses_are_half_the_absolute_loss(level):
    # (q - 1[r < 0]) r = |r|/2 + (q - 1/2) r, and the mean of r is 0.
    found = best(lambda r: np.maximum((1 - level) * r, -level * r), outputs=fine(1.0))
    absolute = best("absolute", outputs=fine(1.0))
    assert found.noisy_label_loss == pytest.approx(absolute.noisy_label_loss / 2, rel=1e-8)
    assert found.lower_bound == pytest.approx(absolute.lower_bound / 2, rel=1e-8)


@pytest.mark.in_turn
@settings(max_examples=12)
@given(
    epsilon=st.floats(0.1, 5.0),
    middle=st.floats(-1e3, 1e3),
    unit=st.sampled_from([1e-3, 1.0, 1e4]),
    threshold=st.floats(0.05, 5.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_huber_maps_with_the_labels(epsilon, middle, unit, threshold, seed):
    """l(c r) of labels times c is c^2 times the Huber loss of another threshold; the certificate maps too."""
    rng = np.random.default_rng(seed)
    labels = np.cumsum(rng.uniform(0.2, 1.0, 6))
    prior = rng.dirichlet(np.ones(6))
    outputs = np.union1d(sd.labels.feasible_outputs(labels, epsilon, mesh=33), labels)
    one = sd.optimal_unbiased_randomizer(labels, prior, epsilon, loss=sd.losses.huber(threshold), outputs=outputs)
    far, many = middle + unit * labels, middle + unit * outputs
    other = sd.optimal_unbiased_randomizer(far, prior, epsilon, loss=sd.losses.huber(unit * threshold), outputs=many)
    assert other.noisy_label_loss == pytest.approx(unit**2 * one.noisy_label_loss, rel=1e-6)
    assert_promises(other, gap=1e-7)


def test_constants_and_slopes_change_neither_randomizer_nor_gap():
    plain = best(sd.losses.huber(0.75), outputs=fine(1.0))
    wanted, (huber_of, _) = plain.noisy_label_loss, LOSSES["huber"]
    residual = sp.Symbol("residual", real=True)
    moved = huber_of.expression.subs(huber_of.scores[0], residual + huber_of.target) + 50 - 3 * residual
    found = best(moved, outputs=fine(1.0))
    assert found.noisy_label_loss == pytest.approx(wanted + 50, rel=1e-9)
    assert found.lower_bound == pytest.approx(plain.lower_bound + 50, rel=1e-9)
    assert found.lower_bound <= found.noisy_label_loss


@pytest.mark.parametrize("epsilon", [20.0, 40.0])
def test_beyond_the_resolution_of_the_search_jensen_bounds_the_loss(epsilon):
    found = best(
        "exp(residual/8)", epsilon, outputs=np.union1d(sd.labels.feasible_outputs(LABELS, epsilon, mesh=41), LABELS)
    )
    assert 1 - 1e-12 < found.lower_bound <= 1 <= found.noisy_label_loss < 1 + 1e-6


def test_the_loss_goes_onto_the_card_as_text():
    found = best(sd.losses.huber(0.75), outputs=fine(1.0))
    text = sd.Release(target=found).to_json()
    assert sd.Release.from_json(text).target == found
    card = json.loads(json.dumps(found.to_card()))
    assert card["loss"] == "Piecewise((1/2*residual**2, Abs(residual) <= 3/4), (-9/32 + 3/4*Abs(residual), True))"
    for loss, message in [
        ("__import__('os').system('ls')", "has the character"),
        ("system(residual)", "calls system"),
        ("residual.real", "has the node Attribute"),
        ("-residual**2", "is not convex"),
        ("log(outcome)", "is nan"),
        ("residual**2" + " " * 3000, "3,011 characters"),
        ("hubert", "is not known"),
    ]:
        with pytest.raises(ValueError, match=message):
            sd.LabelRandomizer.from_card(card | {"loss": loss})
    for loss in (None, 1.0, ["squared"]):
        with pytest.raises(TypeError, match="loss must be a text"):
            sd.LabelRandomizer.from_card(card | {"loss": loss})


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("cosh(100*residual)", "is inf"),
        ("exp(residual**2/2)", "more than a linear programme resolves"),
        ("2*outcome - label", "is affine in the outcome"),
        ("Max(0, Abs(residual) - 1000)", "is affine in the outcome, at all outcomes"),
        ("label*outcome**2 - 3*outcome**2", "is not convex in the outcome"),
        (sd.losses.cauchy(), "is not convex in the outcome"),
        ("sin(residual)", "is not convex"),
    ],
)
def test_losses_without_an_optimum_are_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        best(loss, outputs=fine(1.0))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (sd.losses.huber(), "needs outputs="),
        ("residual**4", "needs outputs="),
        ("(3 - label)*outcome**2", "is not convex in the outcome"),
        ("2*outcome - label", "is affine"),
    ],
)
def test_losses_without_an_optimum_over_all_numbers_are_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        best(loss)


def test_outputs_that_reach_no_farther_than_the_labels_are_refused():
    with pytest.raises(ValueError, match="They must reach farther than the labels"):
        best("log(cosh(residual))", outputs=np.linspace(0, 6.5, 14))
    with pytest.raises(ValueError, match="They must reach farther than the labels"):
        best("log(cosh(residual))", outputs=np.linspace(-0.1, 6.6, 14))


def test_a_design_for_a_loss_of_ones_own_is_what_labels_are_privatized_by():
    outputs = sd.labels.feasible_outputs(range(4), 1.0, mesh=61)

    def robust(labels, prior, epsilon):
        return sd.optimal_unbiased_randomizer(labels, prior, epsilon, loss=sd.losses.huber(), outputs=outputs)

    noised = sd.labels.privatize_labels(np.arange(400) % 4, range(4), 1.0, prior=np.full(4, 0.25), design=robust)
    assert noised.randomizer.unbiased
    assert math.isclose(noised.randomizer.epsilon, 1.0)
    assert set(noised.y) <= set(outputs)
