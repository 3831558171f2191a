"""Private solvers take true records by blocks: noise, sensitivities and what is drawn are those in memory."""

import tracemalloc

import numpy as np
import pytest
from sources import in_order, on_disk

import symdebias as sd
from symdebias._rows import WINDOW, Rows
from symdebias.exceptions import ClippingWarning

pytestmark = pytest.mark.newest

COUNT = 70_000
CALLS = {
    "output_perturbation": {"epsilon": 1.0, "l2": 0.05},
    "normal output_perturbation": {"epsilon": 1.0, "delta": 1e-6, "l2": 0.05},
    "objective_perturbation": {"epsilon": 1.0, "delta": 1e-6},
    "input_perturbation": {"epsilon": 1.0, "delta": 0.01, "radius": 1.0, "target_bounds": (-1, 1)},
    "dp_lssgd": {"epsilon": 1.0, "delta": 1e-6, "epochs": 2, "batch_size": 500, "accountant": "rdp"},
}


KINDS = {
    "in order": lambda X, folder: in_order(X),
    "memory map": on_disk,
    "memory map that is written to": lambda X, folder: on_disk(X, folder, "r+"),
    "any row": lambda X, folder: Rows.of_array(X),
    "Fortran order": lambda X, folder: np.asfortranarray(X),
}


@pytest.fixture(scope="module")
def people():
    """Of which one in fifty is longer than the radius."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.65, 0.65, size=(COUNT, 2))
    X[::50] *= 3
    return X, np.where(rng.random(COUNT) < 1 / (1 + np.exp(-3 * X[:, 0])), 1.0, -1.0)


def trained(solver, X, y, **options):
    name = solver.split()[-1]
    loss = sd.losses.least_squares() if name == "input_perturbation" else sd.losses.logistic()
    given = {"adjacency": "replace-one", "record_radius": 1.0, "random_state": 3} | CALLS[solver] | options
    with pytest.warns(ClippingWarning, match="longer than record_radius=1"):
        return getattr(sd, name)(loss, X, y, **given)


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", CALLS)
def test_private_fits_by_blocks_are_those_in_memory(solver, kind, people, tmp_path):
    """To the last bit, where what is released is rounded to a grid or adds up what contributors sent."""
    X, y = people
    read = KINDS[kind](X, tmp_path), in_order(y) if kind == "in order" else y
    found, expected = (trained(solver, *pair, fit_intercept=True) for pair in (read, (X, y)))
    if solver == "objective_perturbation":
        # The minimiser is as it is computed.
        np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-11)
    else:
        np.testing.assert_array_equal(found.theta, expected.theta)
    ours, theirs = ({k: v for k, v in fit.diagnostics.items() if k != "seconds"} for fit in (found, expected))
    assert ours == theirs
    assert (found.own_guarantee, found.claim) == (expected.own_guarantee, expected.claim)


@pytest.mark.parametrize("solver", CALLS)
def test_bad_records_of_a_late_block_are_found_before_anything_is_drawn(solver):
    """Nothing of earlier blocks is noised, and a label that is none is refused wherever it stands."""
    rng = np.random.default_rng(0)
    untouched = rng.bit_generator.state
    X, y = np.zeros((WINDOW + 5_000, 2)), np.ones(WINDOW + 5_000)
    options = {"adjacency": "replace-one", "record_radius": 1.0, "random_state": rng} | CALLS[solver]
    name = solver.split()[-1]
    loss = sd.losses.least_squares() if name == "input_perturbation" else sd.losses.logistic()
    for column, value, message in ((X[:, 1], np.nan, "NaN in row 135000"), (X[:, 0], 1e200, "row 135000 of X|squared")):
        column[135_000] = value
        with pytest.raises(ValueError, match=message):
            getattr(sd, name)(loss, in_order(X), in_order(y), **options)
        column[135_000] = 0.0
    y[135_000] = np.nan
    with pytest.raises(ValueError, match="row 135000"):
        getattr(sd, name)(loss, in_order(X), in_order(y), **options)
    assert rng.bit_generator.state == untouched


def test_each_record_is_noised_once(people, monkeypatch):
    """What contributors send is drawn once for each, though records are looked at more than once."""
    X, y = people
    noised = []
    add_noise = sd.InputPerturbation.add_noise

    def counted(self, values, *others):
        found = add_noise(self, values, *others)
        noised.append(len(found))
        return found

    monkeypatch.setattr(sd.InputPerturbation, "add_noise", counted)
    trained("input_perturbation", in_order(X), in_order(y))
    assert sum(noised) == COUNT


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore::symdebias.exceptions.ClippingWarning")
@pytest.mark.parametrize("solver", ["output_perturbation", "dp_lssgd", "dp_lssgd of a stream"])
def test_memory_of_private_training_is_that_of_some_blocks(solver, tmp_path, monkeypatch):
    """Records take 32 MB, and clipped ones would once more."""
    # Each thread has blocks of its own.
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: 1)
    count = 400_000
    X = on_disk(np.random.default_rng(0).uniform(-0.3, 0.3, size=(count, 10)), tmp_path)
    y = np.sign(X[:, 0])
    solver, is_stream = solver.split()[0], "stream" in solver
    options = {"record_radius": 0.5, "adjacency": "replace-one", "random_state": 0} | CALLS[solver]
    if solver == "dp_lssgd":
        options |= {"epochs": 1, "batch_size": 2_000}
    loss = sd.losses.logistic()
    given = (in_order(X), in_order(y)) if is_stream else (X, y)
    # What a compilation takes is not counted.
    getattr(sd, solver)(loss, *given, **options)
    tracemalloc.start()
    try:
        getattr(sd, solver)(loss, *given, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (26e6 if solver == "dp_lssgd" else 10e6)
