"""Methods of the literature take records that are read by blocks: the same numbers, and only some blocks at once."""

import tracemalloc

import numpy as np
import pytest
from measured import LABELLED, LOGISTIC, MIXED, POISSON, noised
from sources import in_order, on_disk

import symdebias as sd
from symdebias._rows import Rows
from symdebias.solvers.literature import passes

pytestmark = pytest.mark.newest

COUNT = 9_000
SIMEX = {"levels": (1.0,), "extrapolant": "linear", "repeats": 2, "random_state": 1}
METHODS = {
    "naive": (LOGISTIC, LABELLED, {}),
    "regression_calibration": (LOGISTIC, LABELLED, {}),
    "conditional_score": (POISSON, MIXED, {}),
    "monte_carlo_score": (POISSON, MIXED, {"draws": 1, "random_state": 1}),
    "simex": (LOGISTIC, LABELLED, SIMEX),
}


KINDS = {
    "in order": lambda X, folder: in_order(X),
    "Fortran order": lambda X, folder: np.asfortranarray(X),
    "memory map of float32": lambda X, folder: on_disk(X.astype(np.float32), folder),
    "memory map that is written to": lambda X, folder: on_disk(X, folder, "r+"),
}


@pytest.mark.in_turn
@pytest.mark.parametrize("method", METHODS)
def test_methods_by_blocks_are_those_in_memory(method, tmp_path, monkeypatch):
    """Records are some windows, the last of them a short one, and more than a chunk of a kernel's."""
    loss, release, options = METHODS[method]
    # Layouts are read by blocks where records are many.
    monkeypatch.setattr("symdebias.reading.CHUNK", 1_000)
    monkeypatch.setattr(passes, "_MOST", 2**10)
    records = noised(loss.name, release, COUNT)
    fit = getattr(sd.literature, method)
    for kind, as_kind in KINDS.items():
        X = as_kind(records.X, tmp_path)
        whole = np.array(X[:], dtype=np.float64)
        y = in_order(records.y) if kind == "in order" else records.y
        found, expected = (fit(loss, records.release, *pair, **options) for pair in ((X, y), (whole, records.y)))
        assert found.diagnostics["records"] == COUNT
        np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-11, err_msg=kind)
        ours, theirs = found.inference, expected.inference
        np.testing.assert_allclose(ours.covariance, theirs.covariance, rtol=1e-10, err_msg=kind)
        assert (ours.refusal, ours.notes) == (theirs.refusal, theirs.notes)
        for name in ("curving", "degrees_of_freedom"):
            assert (getattr(ours, name) is None) == (getattr(theirs, name) is None)


@pytest.mark.in_turn
def test_methods_are_compared_where_the_records_are(tmp_path):
    records = noised("logistic", LABELLED, COUNT)
    records.save(tmp_path / "released", format="parquet")
    read = sd.load(tmp_path / "released", in_memory=False)
    assert isinstance(read.X, Rows)
    found, expected = (
        sd.literature.compare_methods(LOGISTIC, one.release, one.X, one.y, methods=("naive", "corrected"))
        for one in (read, records)
    )
    assert found.records == COUNT
    for name in ("naive", "corrected"):
        np.testing.assert_allclose(found[name].theta, expected[name].theta, rtol=1e-9)
        np.testing.assert_allclose(found[name].standard_errors, expected[name].standard_errors, rtol=1e-8)


@pytest.mark.parametrize(("count", "columns"), [(20_000, 3), (700, 600)])
def test_numbers_of_a_record_do_not_hang_on_what_it_is_read_with(count, columns):
    """Those of two records, and those of two draws, are not the same; nor is the mean of all far from 0."""
    whole = passes.normal_numbers(7, count, columns, slice(None))
    assert whole.shape == (count, columns)
    window = passes.window_of(columns)
    for rows in (slice(0, 1), slice(5, 17), slice(window - 1, window + 1), slice(window, 2 * window), slice(0, count)):
        np.testing.assert_array_equal(passes.normal_numbers(7, count, columns, rows), whole[rows])
    assert len(np.unique(whole)) == whole.size
    assert not np.any(whole == passes.normal_numbers(8, count, columns, slice(None)))
    assert abs(whole.mean()) < 5.5 / np.sqrt(whole.size)


@pytest.mark.in_turn
@pytest.mark.parametrize("method", ["naive", "regression_calibration", "conditional_score", "simex"])
def test_memory_of_methods_is_that_of_some_blocks(method, monkeypatch):
    """A copy of the records would take 8 MB, and so would what each of them does to theta."""
    # Each thread has blocks of its own.
    monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda: 1)
    count, options = 100_000, SIMEX | {"repeats": 1} if method == "simex" else {}
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, 10)).astype(np.float32)
    y = np.where(rng.random(count) < 1 / (1 + np.exp(-X[:, 0])), 1.0, -1.0)
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3))
    fit = getattr(sd.literature, method)
    loss = LOGISTIC
    # What a compilation takes is not counted.
    fit(loss, release, Rows.of_array(X[:40_000]), y[:40_000], **options)
    tracemalloc.start()
    try:
        fit(loss, release, X if method == "naive" else Rows.of_array(X), y, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Noise is drawn for as many records as a kernel is given at a time.
    assert peak < (9e6 if method == "simex" else 6e6)


def test_bad_records_are_named_by_their_row_of_all():
    X = np.zeros((COUNT, 1))
    X[5_000] = np.nan
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3))
    for method in METHODS:
        with pytest.raises(ValueError, match=r"X has NaN in row 5000"):
            getattr(sd.literature, method)(LOGISTIC, release, in_order(X), in_order(np.ones(COUNT)))


@pytest.mark.parametrize("read", [np.asarray, in_order])
@pytest.mark.parametrize("method", ["naive", "regression_calibration", "simex", "compare_methods"])
def test_numbers_too_large_for_squares_are_named_by_their_row(method, read):
    X = np.random.default_rng(0).normal(size=(400, 2))
    release, call = sd.Release(sd.GaussianMechanism.from_scale(0.3)), getattr(sd.literature, method)
    large = X.copy()
    large[300, 1] = 1e200
    with pytest.raises(ValueError, match="X has a value in row 300 that is too large"):
        call(sd.losses.least_squares(), release, read(large), read(X[:, 0]))
    with pytest.raises(ValueError, match="y has a value in row 300 that is too large"):
        call(sd.losses.least_squares(), release, read(X), read(large[:, 1]))
