"""What holds for every solver of the table: arrays, seeds, what a fit is, and what all of them refuse."""

import math
import pickle
import tracemalloc

import numpy as np
import pytest
from instances import SOLVERS

import symdebias as sd
from symdebias._domains import DELTA, EPSILON, NON_NEGATIVE, POSITIVE, RADIUS
from symdebias.exceptions import PrivacyError

pytestmark = pytest.mark.newest

PRIVATE = [name for name, (_, _, options) in SOLVERS.items() if "epsilon" in options]
RELEASED = [name for name in SOLVERS if name not in PRIVATE]
OPTIONAL = {("dp_lssgd", "record_radius"), ("output_perturbation", "delta"), ("input_perturbation", "record_radius")}
rng = np.random.default_rng(0)
X = rng.uniform(-0.7, 0.7, (200, 2))
Y = rng.choice([-1.0, 1.0], 200)
# Of solvers that add noise themselves, of those on released records, and of all of them.
BAD_BUDGETS = [
    *[({"epsilon": value}, "epsilon") for value in EPSILON.outside()],
    *[({"delta": value}, "delta") for value in DELTA.outside()],
    *[({"record_radius": value}, "record_radius") for value in RADIUS.outside() if value is not None],
    *[({"target_bounds": value}, "bounds|order") for value in ((1, -1), (0, 0), 1.0, (0, math.nan), (0, 1, 2), (0, 1))],
    *[({"adjacency": value}, "adjacency") for value in ("swap", "", None, 1)],
    *[({"fit_intercept": value}, "fit_intercept") for value in ("yes", 2)],
    ({"loss": sd.losses.logistic}, r"Call it: logistic\(\)"),
    ({"loss": sd.debias(sd.losses.logistic(), sd.Release(), method="none")}, "true records|loss"),
    ({"X": np.full((200, 2), 1e200)}, "norm above"),
]
BAD_WEIGHTS = [
    ({"loss": sd.losses.logistic()}, "what symdebias.debias returned"),
    *[({"l2": value}, "l2") for value in NON_NEGATIVE.outside()],
    *[({"start": value}, "theta|start|finite") for value in ([1.0], [math.nan, 0.0])],
    *[({"sample_weight": value}, "weight") for value in ([1.0], -np.ones(200), np.zeros(200))],
]
BAD = [
    *[({"radius": value}, "radius") for value in POSITIVE.outside() if value is not None],
    ({"X": np.full((200, 2), math.nan)}, "X"),
    ({"X": X[:0], "y": Y[:0]}, "X"),
    ({"X": X[:, 0]}, "X"),
    ({"X": [["a", "b"]] * 200}, "X"),
    ({"y": Y[:40]}, "y"),
    ({"y": np.full(200, math.inf)}, "y|labels|target"),
    ({"y": (Y + 1) / 2}, "labels|target"),
]


def called(name, **change):
    solver, loss, options = SOLVERS[name]
    given = {"loss": loss, "X": X, "y": Y, **options, **change}
    return solver(given.pop("loss"), given.pop("X"), given.pop("y"), **given)


def cases(names, changes):
    return [
        pytest.param(name, *case, id=f"{name}-{str(case[0]).split(' at ')[0][:40]}")
        for name in names
        for case in changes
        if not (name == "output_perturbation" and case[0].get("delta") == 0.0)  # Its guarantee may be pure.
    ]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [*cases(SOLVERS, BAD), *cases(PRIVATE, BAD_BUDGETS), *cases(RELEASED, BAD_WEIGHTS)],
)
def test_what_is_refused(name, change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        called(name, **change)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "m_estimate"])
@pytest.mark.parametrize("seed", [-1, "0", 1.5])
def test_seeds_that_are_refused(name, seed):
    with pytest.raises((TypeError, ValueError), match=r"random_state|seed"):
        called(name, random_state=seed)


@pytest.mark.compiled
@pytest.mark.parametrize("name", SOLVERS)
def test_any_kind_of_array_will_do(name):
    single = X.astype(np.float32)
    frozen = np.asfortranarray(single)
    frozen.flags.writeable = False
    wanted = called(name, X=single.astype(float)).theta
    for matrix, target in (
        (frozen, Y.astype(np.int8)),
        (single.tolist(), Y.tolist()),
        (np.repeat(single, 2, 0)[::2], Y),
    ):
        np.testing.assert_array_equal(called(name, X=matrix, y=target).theta, wanted)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_fit_is_read_only_and_the_same_from_a_pickle(name):
    fit = called(name)
    with pytest.raises(ValueError, match="read-only"):
        fit.theta[0] = 0.0
    again = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(again.theta, fit.theta)
    assert again.summary() == fit.summary()
    assert name in fit.solver
    assert {"records", "steps", "seconds"} <= set(fit.diagnostics)


@pytest.mark.parametrize("name", PRIVATE)
def test_a_seed_is_told_and_fresh_entropy_differs(name):
    first, second = called(name), called(name)
    np.testing.assert_array_equal(first.theta, second.theta)
    fresh, again = called(name, random_state=None), called(name, random_state=None)
    assert not np.array_equal(fresh.theta, again.theta)
    assert first.diagnostics["seeded"]
    assert not fresh.diagnostics["seeded"]
    # One rule for seeds: as for noised records there is no guarantee, and what there would be is told apart.
    with pytest.raises(PrivacyError, match="came from a seed, so that it carries no guarantee"):
        _ = first.guarantee
    assert fresh.guarantee == fresh.own_guarantee == first.own_guarantee
    assert fresh.guarantee.basis == first.own_guarantee.basis
    assert "none, for a seed" in first.summary()
    assert "seed" not in fresh.summary()


@pytest.mark.parametrize("name", PRIVATE)
def test_noise_is_hardened_unless_the_guarantee_says_otherwise(name):
    fresh = called(name, random_state=None)
    if name == "objective_perturbation":
        # No grid makes a computed minimiser that of real numbers.
        assert "low bits tell more" in fresh.guarantee.basis
        return
    assert fresh.diagnostics["hardened"]
    assert "low bits" not in fresh.guarantee.basis
    plain = called(name, random_state=None, noise="plain")
    assert not plain.diagnostics["hardened"]
    assert "low bits tell more" in plain.guarantee.basis
    seeded = called(name, noise="hardened")
    assert (seeded.diagnostics["seeded"], seeded.diagnostics["hardened"]) == (True, True)
    with pytest.raises(ValueError, match="noise='loud' is not known"):
        called(name, noise="loud")


@pytest.mark.parametrize("name", PRIVATE)
def test_budget_adjacency_and_bounds_have_no_defaults(name):
    solver, loss, options = SOLVERS[name]
    for missing in {"epsilon", "delta", "adjacency", "record_radius", "l2", "radius"} & set(options):
        if (name, missing) not in OPTIONAL:
            with pytest.raises(TypeError, match=missing):
                solver(loss, X, Y, **{key: value for key, value in options.items() if key != missing})


@pytest.mark.parametrize("solve", [sd.m_estimate, sd.sgd])
def test_labels_of_another_coding_are_refused_under_additive_noise(solve):
    """A logistic model of 0 and 1 that are taken for -1 and +1 comes out at a third of its size, without a sign."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 1)), rng.integers(0, 2, size=600)
    noised = sd.Release(target=sd.GaussianMechanism.from_scale(0.4)).privatize(X, y.astype(float), random_state=1)
    corrected = sd.debias(sd.losses.exponential() if solve is sd.sgd else sd.losses.logistic(), noised.release)
    with pytest.raises(ValueError, match=r"not the labels -1 and 1: .* and labels have 1"):
        solve(corrected, noised.X, noised.y)


@pytest.mark.parametrize("name", PRIVATE)
def test_the_columns_of_a_table_name_the_parameters_of_a_private_fit(name, tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["hours per week", "age"])
    fit, of_array = called(name, X=table, random_state=0), called(name, random_state=0)
    np.testing.assert_array_equal(fit.theta, of_array.theta)
    assert fit.names[:2] == ("hours per week", "age")
    assert of_array.names[:2] == ("x0", "x1")
    # So that other tables are matched by name.
    scores = fit.decision_function(X)
    np.testing.assert_array_equal(fit.decision_function(table[["age", "hours per week"]]), scores)
    assert fit.own_guarantee == of_array.own_guarantee
    fit.save(tmp_path / "fit.npz")
    assert sd.Fit.load(tmp_path / "fit.npz").names == fit.names


def _long_table(signal):
    """Return a million records of ten columns, 80 MB, with noise, and labels of which some were turned over."""
    draws = np.random.default_rng(3)
    columns = 0.5 * draws.normal(size=(1_000_000, 10))
    chances = 1 / (1 + np.exp(-signal * columns @ np.linspace(-1, 1, 10)))
    labels = np.where(draws.random(len(columns)) < chances, 1.0, -1.0)
    return columns + 0.3 * draws.normal(size=columns.shape), np.where(draws.random(len(labels)) < 0.1, -labels, labels)


def _peak(solve, *given, first=slice(None), **options):
    """Return how many bytes a call takes at the most, without those of a compilation: for the first records."""
    corrected, *records = given
    solve(corrected, *(part[first] for part in records), **{name: numbers[first] for name, numbers in options.items()})
    tracemalloc.start()
    try:
        solve(*given, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.in_turn
@pytest.mark.compiled
@pytest.mark.parametrize("signal", [0.0, 2.0])
def test_what_fits_take_beside_the_records(signal, monkeypatch):
    """A pilot without a signal looks at all records in the end; a copy of a third of them would take 27 MB."""
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: 1)
    columns, labels = _long_table(signal)
    both = sd.Release(sd.GaussianMechanism.from_scale(0.3), sd.RandomizedResponse(2.2), fit_intercept=True)
    for loss, megabytes, solve in (
        (sd.losses.exponential(), 4.0, sd.m_estimate),
        (sd.losses.logistic(), 8.0, sd.m_estimate),
        (sd.losses.exponential(), 4.0, sd.sgd),
    ):
        peak = _peak(solve, sd.debias(loss, both), columns, labels)
        assert peak < megabytes * 1e6, (loss.name, solve.__name__)


@pytest.mark.in_turn
@pytest.mark.compiled
@pytest.mark.parametrize("solve", [sd.m_estimate, sd.sgd])
def test_rows_that_are_made_of_the_records_are_not_all_there(solve, monkeypatch):
    """The array takes 80 MB, and so would its copy with codes, with an offset or with noise variances."""
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: 1)
    columns, labels = _long_table(1.0)
    normal = sd.GaussianMechanism.from_scale(0.3)
    names = tuple(f"x{place}" for place in range(10))
    coded, category = columns.copy(), sd.RandomizedResponse(2.0, categories=(0.0, 1.0, 2.0))
    coded[:, 9] = np.arange(len(coded)) % 3
    for X, release, options in (
        (coded, sd.Release({names[:9]: normal, names[9]: category}), {}),
        (columns, sd.Release(normal), {"offset": np.full(len(columns), 0.1)}),
        (columns, sd.Release(normal), {"noise_scale": np.full(len(columns), 0.3)}),
    ):
        corrected = sd.debias(sd.losses.exponential(), release)
        peak = _peak(solve, corrected, X, labels, first=slice(100_000), **options)
        assert peak < 25e6, (list(options), peak)


@pytest.mark.in_turn
def test_many_clusters_take_one_matrix_of_sums():
    """Sums of 100,000 clusters take 8 MB; three more matrices of their size would be there if none took its place."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 10))
    y, persons = X @ np.ones(10) + rng.normal(size=200_000), rng.permutation(200_000) // 2
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    assert _peak(sd.m_estimate, corrected, X, y, clusters=persons) < 24e6
