"""The optimal unbiased randomizer: its value, its certificate, its exact promises, and what it refuses."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from label_programme import assert_promises, mesh, pairwise_optimum

import symdebias as sd
from symdebias import _optional
from symdebias.exceptions import MissingDependencyError, PrivacyError
from symdebias.labels import optimal
from symdebias.labels.columns import Duals, Task, lower_bound, price_line, price_outputs
from symdebias.mechanisms.realised import Unrealisable, realised, strict_ratio

pytestmark = pytest.mark.newest

LABELS = np.arange(1.0, 53.0)
UNIFORM = np.full(52, 1 / 52)


def skewed(count):
    prior = np.exp(-8 * np.arange(count) / count)
    prior[count // 5 : count // 4] = 0
    return prior / prior.sum()


@pytest.mark.parametrize(
    ("outputs", "loss"),
    [(52, 2607.716), (416, 2533.518), (1664, 2532.364), (None, 2532.27131)],
)
def test_published_setting(outputs, loss):
    chosen = None if outputs is None else mesh(LABELS, 1.0, outputs)
    best = sd.optimal_unbiased_randomizer(LABELS, UNIFORM, 1.0, outputs=chosen)
    assert best.noisy_label_loss == pytest.approx(loss, abs=6e-4 if outputs else 6e-6)
    assert_promises(best)


def test_published_comparisons():
    best = sd.optimal_unbiased_randomizer(LABELS, UNIFORM, 1.0).noisy_label_loss
    laplace = sd.LaplaceMechanism(1.0, bounds=(1, 52)).noise.variance
    assert laplace == pytest.approx(5202)
    # randomized response on the two end points, after unbiased rounding to them
    ends = sd.labels.debiased_randomized_response((1, 52), 1.0)
    low, high = ends.outputs
    rounded = sum(
        ((52 - y) * p + (y - 1) * (1 - p)) / 51 * (t - y) ** 2
        for y in LABELS
        for p, t in ((ends.matrix[0][0], low), (ends.matrix[0][1], high))
    )
    assert rounded / 52 == pytest.approx(2819.7, abs=0.05)
    assert best < rounded / 52 < laplace


@pytest.mark.in_turn
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("prior", [UNIFORM, skewed(52)], ids=["uniform", "skewed"])
def test_promises_hold_from_little_budget_to_much(epsilon, prior):
    best = sd.optimal_unbiased_randomizer(LABELS, prior, epsilon)
    assert_promises(best)
    others = [
        sd.LaplaceMechanism(epsilon, bounds=(1, 52)).noise.variance,
        sd.StaircaseMechanism(epsilon, bounds=(1, 52), gamma="squared").noise.variance,
        sd.DiscreteStaircaseMechanism(epsilon, bounds=(1, 52)).noise.variance,
        sd.labels.debiased_randomized_response(LABELS, epsilon, prior=prior).noisy_label_loss,
        sd.optimal_unbiased_randomizer(LABELS, prior, epsilon, outputs=mesh(LABELS, epsilon, 103)).noisy_label_loss,
    ]
    assert best.noisy_label_loss <= min(others)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 12.0, 20.0, 24.0, 36.0, 700.0])
@pytest.mark.parametrize("count", [2, 3, 20])
def test_extreme_budgets(epsilon, count):
    labels = np.arange(count) ** 1.5 - 2
    best = sd.optimal_unbiased_randomizer(labels, skewed(count) if count > 8 else np.full(count, 1 / count), epsilon)
    assert best.unbiased
    assert best.epsilon == epsilon
    assert best.lower_bound <= best.noisy_label_loss
    if epsilon <= 12:
        assert best.optimality_gap <= 2e-6 * best.noisy_label_loss
    else:
        # The grid of 2^-53, not the budget, is what limits here.
        assert best.noisy_label_loss < 1e-3


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_the_optimum_is_that_of_the_published_programme(loss, epsilon):
    labels, prior = np.array([0.0, 1.0, 2.5, 6.0, 6.5]), np.array([0.1, 0.4, 0.0, 0.3, 0.2])
    outputs = np.union1d(mesh(labels, epsilon, 17), labels)
    distance = (lambda t, y: (t - y) ** 2) if loss == "squared" else (lambda t, y: np.abs(t - y))
    best = sd.optimal_unbiased_randomizer(labels, prior, epsilon, loss=loss, outputs=outputs)
    wanted = pairwise_optimum(labels, prior, epsilon, outputs, distance)
    assert best.noisy_label_loss == pytest.approx(wanted, rel=1e-7)
    assert_promises(best)


def test_absolute_loss_needs_the_labels_and_the_ends_only():
    labels, prior = np.arange(6.0), np.full(6, 1 / 6)
    ends = mesh(labels, 1.0, 2)
    few = sd.optimal_unbiased_randomizer(labels, prior, 1.0, loss="absolute", outputs=np.union1d(ends, labels))
    fine = np.union1d(mesh(labels, 1.0, 201), labels)
    many = sd.optimal_unbiased_randomizer(labels, prior, 1.0, loss="absolute", outputs=fine)
    assert few.noisy_label_loss == pytest.approx(many.noisy_label_loss, rel=1e-8)


def test_finer_nested_meshes_are_never_worse():
    losses = [
        sd.optimal_unbiased_randomizer(LABELS, UNIFORM, 1.0, outputs=mesh(LABELS, 1.0, count)).noisy_label_loss
        for count in (26, 51, 101, 201, 401)
    ]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(losses))
    free = sd.optimal_unbiased_randomizer(LABELS, UNIFORM, 1.0).noisy_label_loss
    assert free <= losses[-1]


@pytest.mark.parametrize("count", [51, 101, 401])
def test_a_mesh_costs_at_most_a_quarter_of_its_squared_step(count):
    # Splitting an output between its neighbours on the mesh keeps the means and adds (t - a)(b - t).
    outputs = mesh(LABELS, 1.0, count)
    best = sd.optimal_unbiased_randomizer(LABELS, skewed(52), 1.0, outputs=outputs).noisy_label_loss
    free = sd.optimal_unbiased_randomizer(LABELS, skewed(52), 1.0).noisy_label_loss
    assert free <= best <= free + (outputs[1] - outputs[0]) ** 2 / 4


def test_more_budget_is_never_worse():
    labels = np.array([0.0, 1.0, 4.0, 9.0, 16.0, 25.0])
    losses = [
        sd.optimal_unbiased_randomizer(labels, np.full(6, 1 / 6), epsilon).noisy_label_loss
        for epsilon in (0.1, 0.3, 1.0, 1.1, 3.0, 6.0, 10.0)
    ]
    assert losses == sorted(losses, reverse=True)


@pytest.mark.in_turn
@settings(max_examples=15)
@given(
    count=st.integers(2, 12),
    epsilon=st.floats(0.1, 6.0),
    shift=st.floats(-1e3, 1e3),
    factor=st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**32 - 1),
)
def test_affine_maps_of_the_labels_map_the_optimum(count, epsilon, shift, factor, seed):
    rng = np.random.default_rng(seed)
    labels = np.cumsum(rng.uniform(0.1, 1.0, count))
    prior = rng.dirichlet(np.ones(count)) * (rng.random(count) < 0.8)
    prior = prior / prior.sum() if prior.any() else np.full(count, 1 / count)
    best = sd.optimal_unbiased_randomizer(labels, prior, epsilon)
    moved = sd.optimal_unbiased_randomizer(shift + factor * labels, prior, epsilon)
    assert moved.noisy_label_loss == pytest.approx(factor**2 * best.noisy_label_loss, rel=1e-6)
    assert_promises(best, gap=1e-7)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 20.0])
def test_feasible_outputs_are_feasible_and_the_range_of_the_labels_is_not(epsilon):
    labels = np.arange(5.0)
    outputs = sd.labels.feasible_outputs(labels, epsilon, mesh=9)
    assert sd.optimal_unbiased_randomizer(labels, np.full(5, 0.2), epsilon, outputs=outputs).unbiased
    with pytest.raises(ValueError, match="They must reach farther than the labels"):
        sd.optimal_unbiased_randomizer(labels, np.full(5, 0.2), epsilon, outputs=np.linspace(0, 4, 9))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_every_output_stands_high_on_one_run_of_labels(epsilon):
    best = sd.optimal_unbiased_randomizer(LABELS, skewed(52), epsilon)
    blocks = best.high_labels
    assert None not in blocks
    assert blocks[0][0] == 1
    assert blocks[-1][1] == 52


def test_many_labels_by_a_coarser_set_first():
    labels = np.sqrt(np.arange(1.0, 81.0))
    best = sd.optimal_unbiased_randomizer(labels, skewed(80), 1.5)
    assert_promises(best)


def test_multipliers_that_pay_too_much_still_give_a_bound():
    task = Task(np.linspace(-1, 1, 9), np.full(9, 1 / 9), math.exp(-1.0), lambda t, y: (t - y) ** 2)
    rng = np.random.default_rng(3)
    best = sd.optimal_unbiased_randomizer(task.labels, task.prior, 1.0).noisy_label_loss
    for _ in range(20):
        duals = Duals(rng.normal(size=9), rng.normal(size=9))
        assert lower_bound(task, duals, price_line) <= best
        # pricing the line finds what a fine mesh finds, and no less
        fine = price_outputs(np.linspace(-40, 40, 20_001))(task, duals)[1].min()
        assert price_line(task, duals)[1].min() <= fine + 1e-12


def test_without_the_conic_solver(monkeypatch):
    wanted = sd.optimal_unbiased_randomizer(LABELS, UNIFORM, 2.0, outputs=mesh(LABELS, 2.0, 60)).noisy_label_loss

    def missing(module, *, extra):
        raise MissingDependencyError(f"this needs {module}: symdebias[{extra}]")

    monkeypatch.setattr(_optional, "require", missing)
    with pytest.raises(MissingDependencyError, match=r"symdebias\[conic\]"):
        sd.optimal_unbiased_randomizer(LABELS, UNIFORM, 2.0)
    found = sd.optimal_unbiased_randomizer(LABELS, UNIFORM, 2.0, outputs=mesh(LABELS, 2.0, 60))
    assert found.noisy_label_loss == pytest.approx(wanted, rel=1e-8)
    assert_promises(found)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"labels": [3, 2, 1]}, ValueError, "not in ascending order"),
        ({"labels": "abc"}, TypeError, "not a sequence"),
        ({"loss": "cubic"}, ValueError, "Choose one of squared, absolute"),
        ({"loss": "absolute"}, ValueError, "needs outputs="),
        ({"outputs": [5, 1]}, ValueError, "not in ascending order"),
        ({"labels": np.arange(2000), "prior": np.full(2000, 1 / 2000)}, ValueError, "GiB of memory"),
    ],
)
def test_bad_input(change, error, message):
    arguments = {"labels": [1, 2, 3], "prior": [0.2, 0.3, 0.5], "epsilon": 1.0} | change
    with pytest.raises(error, match=message):
        sd.optimal_unbiased_randomizer(**arguments)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
def test_labels_of_any_numeric_type(dtype):
    labels = np.arange(4, dtype=dtype)
    labels.flags.writeable = False
    best = sd.optimal_unbiased_randomizer(labels, np.full(4, 0.25, dtype=np.float32), 1.0)
    assert best.labels == (0.0, 1.0, 2.0, 3.0)


def test_the_card_promises_what_the_design_does():
    best = sd.optimal_unbiased_randomizer(LABELS, skewed(52), 1.0)
    release = sd.Release(target=best)
    assert sd.Release.from_json(release.to_json()).target == best
    card = release.to_json().replace('"epsilon": 1.0', '"epsilon": 0.9')
    with pytest.raises(ValueError, match=r"not 0\.9-private"):
        sd.Release.from_json(card)


def test_a_matrix_beyond_its_budget_is_refused():
    matrix = ((0.75, 0.25), (0.25, 0.75))
    with pytest.raises(PrivacyError, match="not 1-private"):
        sd.LabelRandomizer((0, 1), (-0.5, 1.5), matrix, epsilon=1.0)
    with pytest.raises(ValueError, match="cannot be drawn as it stands"):
        sd.LabelRandomizer((0, 1), (-0.5, 1.5), ((0.7, 0.3), (0.3, 0.7)), epsilon=1.0)


def test_probabilities_between_the_steps_of_the_grid_are_brought_onto_it():
    labels, epsilon = np.array([0.0, 1.0, 5.0]), 0.7
    ratio = strict_ratio(epsilon, 3)
    outputs = ((ratio + 2) * labels - labels.sum()) / (ratio - 1)
    wanted = (1 + (ratio - 1) * np.eye(3)) / (ratio + 2)
    found = np.array(realised(wanted, epsilon, outputs=outputs.tolist(), means=labels.tolist()))
    assert np.abs(found - wanted).max() < 1e-14
    with pytest.raises(Unrealisable):
        realised(wanted, epsilon, outputs=outputs.tolist(), means=[0.0, 1.0, 6.0])


class TestPrivatizeLabels:
    def test_budgets_add_up_and_the_guarantee_says_who_saw_what(self):
        y = np.random.default_rng(0).integers(0, 5, 2000)
        noised = sd.labels.privatize_labels(y, range(5), 1.0)
        assert noised.prior_epsilon == pytest.approx(math.sqrt(5 / 2000))
        assert Fraction(noised.prior_epsilon) + Fraction(noised.randomizer.epsilon) <= 1
        assert noised.guarantee.epsilon == pytest.approx(1.0, abs=1e-12)
        assert (noised.guarantee.model, noised.guarantee.unprotected) == ("central", ("features",))
        public = sd.labels.privatize_labels(y, range(5), 1.0, prior=np.full(5, 0.2))
        assert (public.guarantee.model, public.guarantee.epsilon) == ("local", 1.0)
        assert set(noised.y) <= set(noised.randomizer.outputs)

    def test_a_seed_protects_nothing(self):
        y = np.arange(5).repeat(20)
        first, second = (sd.labels.privatize_labels(y, range(5), 1.0, random_state=3) for _ in range(2))
        assert (first.y == second.y).all()
        with pytest.raises(PrivacyError, match="noised from a seed"):
            _ = first.guarantee
        fresh = [sd.labels.privatize_labels(y, range(5), 1.0).y for _ in range(2)]
        assert (fresh[0] != fresh[1]).any()

    def test_other_designs_and_continuous_labels(self):
        y = np.random.default_rng(1).uniform(0, 4, 500)
        with pytest.raises(ValueError, match="row 0"):
            sd.labels.privatize_labels(y, range(5), 1.0)
        noised = sd.labels.privatize_labels(
            y, range(5), 1.0, rounding="unbiased", design=sd.labels.randomized_response_on_bins
        )
        assert not noised.randomizer.unbiased

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"y": [0, 7]}, ValueError, "row 1"),
            ({"epsilon": 0.0}, ValueError, "too small"),
            ({"prior_epsilon": 1.0}, ValueError, "leaves nothing"),
            ({"rounding": "nearest"}, ValueError, "not known"),
            ({"design": "optimal"}, TypeError, "Give a function"),
            ({"design": lambda labels, prior, epsilon: None}, PrivacyError, "no LabelRandomizer"),
            (
                {"design": lambda labels, prior, epsilon: sd.labels.debiased_randomized_response(labels, 2 * epsilon)},
                PrivacyError,
                "within the budget",
            ),
        ],
    )
    def test_bad_input(self, change, error, message):
        arguments = {"y": [0, 1, 1, 0], "labels": (0, 1), "epsilon": 1.0} | change
        with pytest.raises(error, match=message):
            sd.labels.privatize_labels(**arguments)


def test_columns_with_one_output_are_one(monkeypatch):
    """The search may end with columns whose outputs are the same to the last digit."""
    labels, prior = np.arange(1.0, 7.0), np.full(6, 1 / 6)
    whole = sd.optimal_unbiased_randomizer(labels, prior, 1.0)
    found = optimal._over_line

    def halved(task):
        design = found(task)
        return replace(design, outputs=np.repeat(design.outputs, 2), entries=np.repeat(design.entries / 2, 2, axis=1))

    monkeypatch.setattr(optimal, "_over_line", halved)
    again = sd.optimal_unbiased_randomizer(labels, prior, 1.0)
    assert again.outputs == whole.outputs
    np.testing.assert_allclose(again.matrix, whole.matrix, atol=1e-15)


def test_outputs_without_room_for_rounding_are_refused_with_what_to_do():
    """Those of debiased randomized response reach exactly as far as the budget allows."""
    epsilon, labels = 0.35, np.array([0.0, 1.0])
    ends = ((math.exp(epsilon) + 1) * labels - 1) / math.expm1(epsilon)
    with pytest.raises((PrivacyError, ValueError), match="feasible_outputs"):
        sd.optimal_unbiased_randomizer(labels, [0.5, 0.5], epsilon, outputs=np.union1d(labels, ends))
    reaching = np.union1d(labels, sd.labels.feasible_outputs(labels, epsilon))
    assert sd.optimal_unbiased_randomizer(labels, [0.5, 0.5], epsilon, outputs=reaching).unbiased
