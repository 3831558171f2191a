"""Records that are read by blocks give the fits of records in memory, and only some blocks are there at once."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources import in_order, on_disk

import symdebias as sd
from symdebias._rows import (
    TOGETHER,
    WINDOW,
    Gathered,
    Rows,
    Runs,
    at_once,
    paired,
    read_together,
    rows_of,
    runs,
    spread,
)
from symdebias.codegen.parallel import CHUNK, chunk_of
from symdebias.solvers import covariance

COUNT = 40_000


def population(columns=3, count=COUNT):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.6, 0.6, (count, columns))
    y = np.where(rng.random(count) < 1 / (1 + np.exp(-X @ np.linspace(2, -1, columns))), 1.0, -1.0)
    return X, y


KINDS = {
    "float32": lambda X, folder: X.astype(np.float32),
    "Fortran order": lambda X, folder: np.asfortranarray(X),
    "strided": lambda X, folder: np.repeat(X, 2, axis=0)[::2],
    "read-only": lambda X, folder: np.frombuffer(X.astype(np.float32).tobytes(), np.float32).reshape(X.shape),
    "memory map": on_disk,
    "memory map of float32": lambda X, folder: on_disk(X.astype(np.float32), folder),
    "any row": lambda X, folder: Rows.of_array(X),
    "in order": lambda X, folder: in_order(X),
}
RELEASES = {
    "normal": sd.Release(sd.GaussianMechanism.from_scale(0.3), sd.RandomizedResponse(3.0), fit_intercept=True),
    "categories": sd.Release(
        {("a", "b"): sd.GaussianMechanism.from_scale(0.3), "c": sd.RandomizedResponse(3.0, categories=(0.0, 1.0, 2.0))},
        sd.RandomizedResponse(3.0),
        fit_intercept=True,
    ),
    "margin": sd.Release(sd.SphericalCapMechanism(5.0, 1.2), "margin", fit_intercept=True),
}


@pytest.fixture(scope="module")
def released():
    X, y = population()
    codes = np.column_stack([X[:, :2], np.digitize(X[:, 2], [-0.2, 0.2])])
    return {
        name: release.privatize(codes if name == "categories" else X, y, random_state=1)
        for name, release in RELEASES.items()
    }


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", KINDS)
def test_fits_are_those_of_records_in_memory(kind, released, tmp_path):
    noised = released["normal"]
    corrected = sd.debias(sd.losses.exponential(), noised.release)
    read = KINDS[kind](noised.X, tmp_path)
    whole = np.ascontiguousarray(read[:], dtype=np.float64)
    # Labels of a type of their own as well.
    y = in_order(noised.y) if kind == "in order" else noised.y.astype(np.int8)
    expected, found = (sd.m_estimate(corrected, X, labels) for X, labels in ((whole, noised.y), (read, y)))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-10)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-9)
    orders = ("given",) if kind == "in order" else ("given", "shuffled")
    for order in orders:
        how = {"order": order, "random_state": 3, "average": True, "epochs": 2}
        expected, found = (sd.sgd(corrected, X, labels, **how) for X, labels in ((whole, noised.y), (read, y)))
        np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    theta = found.theta
    for mean in ("mean_loss", "mean_gradient", "mean_hessian", "loss"):
        expected, found = (getattr(corrected, mean)(theta, X, noised.y) for X in (whole, read))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", ["categories", "margin"])
def test_releases_whose_columns_are_encoded(name, released):
    """Codes become rows of indicators, and a vector with its label columns of its own."""
    noised = released[name]
    corrected = sd.debias(
        sd.losses.exponential() if name == "categories" else sd.losses.squared_margin(), noised.release
    )
    expected = sd.m_estimate(corrected, noised.X, noised.y)
    y = None if noised.y is None else in_order(noised.y)
    for X in (in_order(noised.X), np.asfortranarray(noised.X)):
        found = sd.m_estimate(corrected, X, noised.y if y is None else y)
        np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
        np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-8)
    how = {"order": "given", "random_state": 0}
    found, expected = (sd.sgd(corrected, X, noised.y, **how) for X in (in_order(noised.X), noised.X))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)


@pytest.mark.in_turn
def test_weights_clusters_and_noise_of_the_records_own():
    X, y = population()
    rng = np.random.default_rng(2)
    scales, weights = rng.uniform(0.1, 0.3, COUNT), rng.uniform(0.5, 2.0, COUNT)
    clusters = np.arange(COUNT) // 500
    X = np.asarray(X + scales[:, None] * rng.normal(size=X.shape), dtype=np.float32)
    corrected = sd.debias(sd.losses.exponential(), sd.Release(sd.GaussianMechanism.from_scale(0.2)))
    how = {"sample_weight": weights, "noise_scale": scales, "clusters": clusters}
    expected, found = (sd.m_estimate(corrected, columns, y, **how) for columns in (X.astype(float), in_order(X)))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-8)


@pytest.mark.in_turn
def test_weights_of_which_every_second_is_zero(released):
    """Fits are tested on parts taken in strides of 4 and 20: of all records they would have no weight."""
    X, y = released["normal"].X, released["normal"].y
    corrected, weights = sd.debias(sd.losses.exponential(), RELEASES["normal"]), np.arange(COUNT) % 2.0
    how = {"sample_weight": weights, "order": "given", "epochs": 1}
    expected, found = (sd.sgd(corrected, of(X), of(y), **how) for of in (np.asarray, in_order))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    assert found.diagnostics["carrying_share"] == pytest.approx(expected.diagnostics["carrying_share"], rel=1e-9)


def test_a_surrogate_is_designed_and_fitted_by_blocks(released):
    noised = released["normal"]
    corrected = sd.debias(sd.losses.logistic(), noised.release)
    expected, found = (sd.m_estimate(corrected, X, noised.y) for X in (noised.X, in_order(noised.X)))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-8)


@pytest.mark.in_turn
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["m_estimate", "sgd"])
def test_memory_does_not_grow_with_the_records(dtype, order, solver):
    """A copy in float64 would take 64 MB, a thirty-second of the records 2; blocks take 3 for each thread."""
    X, y = population(columns=10, count=800_000)
    X = np.asarray(X, dtype=dtype, order=order)
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    how = {} if solver == "m_estimate" else {"random_state": 0}
    # What a compilation takes is not counted.
    getattr(sd, solver)(corrected, X, y, **how)
    tracemalloc.start()
    try:
        getattr(sd, solver)(corrected, X, y, **how)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (4e6 if solver == "sgd" else 10e6)


def test_bad_records_are_named_by_their_row_of_all(released):
    noised = released["normal"]
    corrected = sd.debias(sd.losses.exponential(), noised.release)
    X, y = noised.X.astype(np.float32), noised.y
    with pytest.raises(ValueError, match="y has 39999 entries, but X has 40000 rows"):
        sd.m_estimate(corrected, X, y[1:])
    with pytest.raises(ValueError, match=r"labels must be -1 or \+1"):
        sd.m_estimate(corrected, X, np.where(y > 0, 1, 0).astype(np.int8))
    X[7, 1] = np.nan
    for solver in (sd.m_estimate, sd.sgd):
        with pytest.raises(ValueError, match="NaN in row 7, column 1"):
            solver(corrected, X, y)
    many = Rows.of_array(np.zeros((WINDOW + 10, 3), dtype=np.float32))
    labels = np.ones(WINDOW + 10)
    labels[-1] = np.inf
    with pytest.raises(ValueError, match=rf"^y has infinity in row {WINDOW + 9}\."):
        sd.m_estimate(corrected, many, Rows.of_array(labels))
    with pytest.raises(ValueError, match="X has 2 columns"):
        sd.m_estimate(corrected, in_order(noised.X[:, :2]), y)


def test_what_is_read_in_order_is_shuffled_as_an_array_is(released):
    noised = released["normal"]
    corrected = sd.debias(sd.losses.exponential(), noised.release)
    found, expected = (sd.sgd(corrected, X, noised.y, random_state=1) for X in (in_order(noised.X), noised.X))
    np.testing.assert_array_equal(found.theta, expected.theta)


@pytest.mark.parametrize("read", [Rows.of_array, in_order])
@pytest.mark.parametrize(
    "call",
    [
        lambda corrected, X, y: sd.m_estimate(corrected, X, y),
        lambda corrected, X, y: sd.sgd(corrected, X, y, order="given"),
        lambda corrected, X, y: corrected.mean_loss([1.0, 0.0], X, y),
        lambda corrected, X, y: sd.literature.naive(sd.losses.least_squares(), corrected.release, X, y),
        lambda corrected, X, y: sd.output_perturbation(
            sd.losses.logistic(), X, y, epsilon=1.0, adjacency="replace-one", record_radius=1.0, l2=0.1
        ),
        lambda corrected, X, y: sd.dp_lssgd(
            sd.losses.logistic(), X, y, epsilon=1.0, delta=1e-5, adjacency="replace-one", record_radius=1.0
        ),
        lambda corrected, X, y: sd.evaluation.cross_validate(
            {"one": lambda X, y: [1.0, 0.0]}, X, y, release=corrected.release, metric="squared_error"
        ),
        lambda corrected, X, y: sd.evaluation.cross_validate(
            {"one": lambda X, y, offset: [1.0, 0.0]}, X, y, release=corrected.release, metric="squared_error",
            offset=np.zeros(len(X)),
        ),
        lambda corrected, X, y: sd.DebiasedRegressor().fit(X, y),
    ],
)  # fmt: skip
def test_rows_of_another_shape_are_refused_as_arrays_are(call, read):
    """And not for being read by blocks."""
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    X, y = np.full((50, 2), 0.1), np.ones(50)
    with pytest.raises(ValueError, match="X must have two dimensions"):
        call(corrected, read(y), read(y))
    with pytest.raises(ValueError, match="y must have one dimension"):
        call(corrected, read(X), read(X))
    with pytest.raises(ValueError, match=r"X is empty|needs 2 at least"):
        call(corrected, read(X[:0]), read(y[:0]))


@pytest.mark.parametrize("weights", [None, np.linspace(1, 2, 400)])
def test_targets_too_large_for_squares_are_refused_by_blocks_too(weights):
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = X[:, 0].copy()
    y[300] = 1e200
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    for both in ((X, y), (in_order(X), in_order(y))):
        with pytest.raises(ValueError, match="y has a value in row 300 that is too large"):
            sd.m_estimate(corrected, *both, sample_weight=weights)


def test_no_rows_have_no_predictions():
    X = np.random.default_rng(0).normal(size=(400, 2))
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    fit = sd.m_estimate(corrected, X, X[:, 0])
    for call in (fit.predict, fit.predict_interval, lambda rows: fit.score(rows, np.zeros(0))):
        with pytest.raises(ValueError, match="X is empty"):
            call(in_order(X[:0]))


def test_mean_squares_are_those_of_the_array():
    array = np.random.default_rng(0).normal(size=(WINDOW + 7, 3))
    for rows in (Rows.of_array(array), in_order(array)):
        np.testing.assert_allclose(rows.mean_squares(), (array**2).mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("source", [Rows.of_array, in_order])
def test_rows_are_taken_as_from_an_array(source):
    array = np.arange(3.0 * (2 * WINDOW + 5)).reshape(-1, 3)
    rows = source(array)
    assert (len(rows), rows.shape, rows.ndim) == (len(array), array.shape, 2)
    assert repr(rows) == f"Rows(shape={array.shape})"
    places = np.random.default_rng(0).integers(0, len(array), 500)
    slices = slice(3, 9), slice(None, None, 7), slice(5, None, 100_000), slice(4, 4), slice(9, 2)
    for part in (*slices, places, places[:0]):
        np.testing.assert_array_equal(rows[part], array[part])
    assert rows[10:20].flags.c_contiguous
    for wrong in (slice(None, None, -1), -1, 3, np.array([-1]), np.array([len(array)]), np.array([0.5]), (0, 1)):
        with pytest.raises(IndexError):
            rows[wrong]
    with pytest.raises(TypeError):
        iter(rows)


def test_pairs_are_made_once():
    made = []

    def make(rows):
        made.append(rows)
        return np.ones((len(range(100)[rows]), 2)), np.zeros(len(range(100)[rows]))

    left, right = paired(100, make, has_any_row=False)
    made.clear()
    for start in range(0, 100, 25):
        assert left[start : start + 25].shape == (25, 2)
        assert right[start : start + 25].shape == (25,)
    assert len(made) == 4


@pytest.mark.parametrize("order", ["C", "F"])
def test_some_rows_are_read_where_they_are(order):
    array = np.asarray(np.arange(303.0).reshape(101, 3), order=order)
    rows = Rows.of_array(array)
    for places in (*(slice(stride % 3, None, stride) for stride in (2, 7, 10, 101, 200)), runs(101, 3, 1)):
        some, whole = rows.only(places), array[places]
        assert (len(some), some.has_any_row) == (len(whole), True)
        for part in (slice(None), slice(0, 1), slice(1, None, 3), slice(2, 3), np.array([0]), np.arange(0)):
            assert np.array_equal(some[part], whole[part])


def test_no_rows_are_not_asked_for():
    """What makes rows may refuse none, as a release does."""

    def make(part):
        assert len(part) > 0
        return part

    for rows in (Rows.made_of(np.ones((90, 2)), make), Rows.made_of(in_order(np.ones((90, 2))), make)):
        assert rows[np.arange(0)].shape == rows[5:5].shape == (0, 2)


def test_some_records_decide_much_and_none_too_much(monkeypatch):
    """Then none of many records is left out one by one, none is read, and one look over them has told it."""
    left_out, looks = [], []

    def with_much(looked, sums, **how):
        found = ask(looked, sums, **how)
        left_out.append((float((sums[0] ** 2 / sums[2]).min()), len(found[0]), looked.stride))
        return found

    def over_blocks(looked, of):
        looks.append(looked)
        return look(looked, of)

    ask, look = covariance._LookedAt.with_much, covariance._LookedAt._over_blocks
    monkeypatch.setattr(covariance._LookedAt, "with_much", with_much)
    monkeypatch.setattr(covariance._LookedAt, "_over_blocks", over_blocks)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (210_000, 3))
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-X @ [3.0, -2.0, 0.4])), 1.0, -1.0)
    noised = sd.Release(sd.GaussianMechanism.from_scale(0.3)).privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.exponential(), noised.release)
    expected, found = (sd.m_estimate(corrected, part, noised.y) for part in (noised.X, Rows.of_array(noised.X)))
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-9)
    for deciding, places, stride in left_out:
        assert deciding < 1 / covariance._MUCH_LEVERAGE**2
        assert (places, stride) == (0, 2)
    assert len(looks) == len(left_out) == 2


@pytest.mark.parametrize(("count", "stride"), [(99, 4), (1_000_000, 16), (480_007, 16), (2_000_000, 10), (479_999, 16)])
def test_rows_that_are_spread_are_one_in_so_many(count, stride):
    places = np.arange(count)[spread(count, stride)]
    assert np.all(np.diff(places) > 0)
    assert abs(len(places) - count / stride) < 16
    # Many stand in runs of neighbours, and no part of the rows is without some.
    assert np.all(np.diff(places, prepend=0, append=count) <= 2 * 16 * stride)
    assert (np.median(np.diff(places)) == 1) == (count >= 30_000 * stride)


@pytest.mark.parametrize("period", [2, 5, 12, 25, 100])
@pytest.mark.parametrize(
    ("count", "stride"), [(50_000, 5), (120_000, 12), (250_000, 25), (1_000_000, 100), (2_000_000, 10)]
)
def test_rows_that_are_spread_are_in_step_with_no_period(count, stride, period):
    """A stride in step with the period leaves shares of 0; the limit is five standard errors of rows by chance."""
    places = np.arange(count)[spread(count, stride)]
    shares = period * np.bincount(places % period, minlength=period) / len(places)
    assert np.all(np.abs(shares - 1) < 5 * np.sqrt(period / len(places) * (16 if len(places) >= 30_000 else 1)))


def test_runs_part_the_rows():
    for count in (1, 15, 64, 1_003):
        assert np.array_equal(np.sort(np.concatenate([runs(count, 4, piece) for piece in range(4)])), np.arange(count))


def test_windows_are_short_where_any_row_is_at_hand():
    wide, narrow = np.zeros((10, 1000)), np.zeros(10)
    assert at_once(wide, narrow) == at_once(Rows.of_array(wide), narrow) == 65
    assert at_once(narrow) == 2**16
    assert at_once(in_order(wide), narrow) == at_once(narrow, in_order(wide)) == WINDOW
    assert at_once(np.zeros((1, 10**6))) == 1


def test_chunks_are_short_where_rows_are_made_for_them():
    wide = np.zeros((3, 100))
    assert chunk_of(wide) == chunk_of(in_order(wide)) == chunk_of(Rows.of_array(np.zeros(3))) == CHUNK
    assert chunk_of(Rows.of_array(wide)) == 512
    assert chunk_of(Rows.of_array(np.zeros((1, 10**6)))) == 256


@pytest.mark.compiled
@pytest.mark.parametrize("solver", [sd.m_estimate, sd.sgd])
def test_rows_may_be_read_in_any_layout(released, solver):
    """A single row is in both, and says nothing of more of them."""
    X, y = released["normal"].X, released["normal"].y
    columns, options = np.asfortranarray(X), {"order": "given"} if solver is sd.sgd else {}
    rows = Rows(columns.shape, lambda rows: np.array(columns[rows]))
    assert rows[:1].flags.c_contiguous
    assert not rows[:2].flags.c_contiguous
    corrected = sd.debias(sd.losses.exponential(), RELEASES["normal"])
    expected, found = (solver(corrected, records, y, **options).theta for records in (X, rows))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 160, 161, 1_000, 9_983])
@pytest.mark.parametrize("stride", [2, 3, 10])
def test_runs_are_the_places_that_are_written_out(count, stride):
    known, found = runs(count, stride), Runs(count, stride)
    assert len(found) == len(known)
    assert np.array_equal(found[:], known)
    assert np.array_equal(found[3:40], known[3:40])
    some = np.arange(0, len(known), 7)
    assert np.array_equal(found[some], known[some])


@pytest.mark.in_turn
@pytest.mark.compiled
@pytest.mark.parametrize("solver", [sd.m_estimate, sd.sgd])
@pytest.mark.parametrize("what", ["categories", "offset", "noise_scale", "sample_weight"])
def test_rows_that_are_made_block_by_block_are_those_made_at_once(released, solver, what, monkeypatch):
    name = "normal" if what in ("offset", "noise_scale") else "categories"
    noised, each = released[name], 0.2 + 0.1 * np.sin(np.arange(COUNT))
    options = {} if what == "categories" else {what: each}
    options |= {"random_state": 0} if solver is sd.sgd else {}
    corrected, fits = sd.debias(sd.losses.exponential(), noised.release), []
    for most in (10**9, 0):
        for module in ("symdebias.records", "symdebias.solvers.held"):
            monkeypatch.setattr(f"{module}.SMALL_TABLE", most)
        fits.append(solver(corrected, noised.X, noised.y, **options))
    assert np.allclose(fits[1].theta, fits[0].theta, rtol=1e-9)
    if solver is sd.m_estimate:
        assert np.allclose(fits[1].covariance, fits[0].covariance, rtol=1e-8)


@pytest.mark.parametrize("kind", ["complex128", "datetime64[s]", "U", "O", "longdouble", "bool", "far", "flat"])
def test_what_is_refused_of_records_is_refused_block_by_block(released, kind, monkeypatch):
    """The message is that of an array that is taken as a whole."""
    noised, said = released["categories"], []
    X, y = noised.X, noised.y
    if kind == "far":
        X = X.copy()
        X[30_000, 0] = 1e200
    elif kind == "flat":
        y = y[:, None]
    else:
        X = (X > 0) if kind == "bool" else X.astype(kind)
    for most in (10**9, 0):
        monkeypatch.setattr("symdebias.records.SMALL_TABLE", most)
        with pytest.raises((TypeError, ValueError)) as refused:
            sd.m_estimate(sd.debias(sd.losses.exponential(), noised.release), X, y)
        said.append((refused.type, str(refused.value)))
    assert said[0] == said[1]


@pytest.mark.parametrize("count", [1, 16, 17, 161, 1_000, 9_983])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "one number a row", "narrow"])
def test_runs_are_copied_from_an_array_of_any_layout(count, layout):
    whole = np.random.default_rng(count).normal(size=(2 * count, 3))
    array = {
        "C": whole[:count],
        "F": np.asfortranarray(whole[:count]),
        "strided": whole[::-2],
        "one number a row": whole[:count, 1],
        "narrow": whole[:count].astype(np.float32),
    }[layout]
    places = runs(count, 3)
    part = Rows.of_array(array).only(Runs(count, 3))
    last = len(places)
    for start, stop in ((0, last), (0, 16), (5, 9), (7, 150), (16, 64), (40, 40), (last - 1, last)):
        found = part[start:stop]
        assert found.dtype == np.float64
        assert found.flags.c_contiguous
        assert np.array_equal(found, array[places[start:stop]])
    some = np.arange(len(places))[::-5]
    for rows in (slice(None, None, 7), slice(3, None, 16), some):
        assert np.array_equal(part[rows], array[places[rows]])


@pytest.mark.in_turn
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_part_that_is_read_anew_is_the_one_that_is_copied(released, order, kind, weighted):
    X, y = (np.tile(part, (9, 1)[: part.ndim]) for part in (released["normal"].X, released["normal"].y))
    corrected = sd.debias(sd.losses.exponential(), RELEASES["normal"])
    source, theta = np.asarray(X, dtype=kind, order=order), np.array([1.0, 0.5, -0.5, 0.1])
    weights = np.arange(len(X)) % 5.0 if weighted else None
    records = corrected.records(source, y, sample_weight=weights, by_blocks=True)
    # Runs of neighbours, and single records.
    for stride in (3, 13):
        part, known = records.spaced(stride), records.thinned(stride)
        assert np.array_equal(part.matrix[:], known.matrix)
        assert np.array_equal(part.target[:], known.target)
        assert np.array_equal(part.weights, known.weights)
        assert np.allclose(part.mean_gradient(theta), known.mean_gradient(theta), rtol=1e-12)


def test_rows_of_an_array_are_picked_without_another_copy():
    narrow = np.asfortranarray(np.random.default_rng(0).normal(size=(200_000, 10)).astype(np.float32))
    places = np.arange(0, len(narrow), 2)
    rows = Rows.of_array(narrow)
    tracemalloc.start()
    try:
        found = rows[places]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(found, narrow[places].astype(np.float64))
    # The copy itself, and blocks on the way: another one would be as much again, or half of it.
    assert peak < 1.3 * found.nbytes


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda array: array[:, 0]])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_by_a_stride_are_those_of_an_index(layout, dtype):
    array = layout(np.arange(4_000_000, dtype=dtype).reshape(-1, 4))
    for rows in (slice(None, None, 100), slice(3, 900_000, 7), slice(5, 1_000), slice(None, None, 2_000_000)):
        assert np.array_equal(rows_of(array, rows), array[rows])
    tracemalloc.start()
    try:
        rows_of(array, slice(None, None, 100))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # At most the rows and their places: not an array of another layout whole.
    assert peak < array.nbytes / 10


def test_parts_that_are_read_where_they_are_tell_what_copied_ones_do(released):
    X, y = released["normal"].X, released["normal"].y
    corrected = sd.debias(sd.losses.exponential(), RELEASES["normal"])
    records = corrected.records(X, y, sample_weight=np.arange(1.0, len(X) + 1))
    theta = np.array([1.0, 0.5, -0.5, 0.1])
    copied, read = records.thinned(3), records.spaced(3)
    assert isinstance(read.matrix, Rows)
    assert np.array_equal(read.matrix[:], copied.matrix)
    assert np.array_equal(read.weights, copied.weights)
    assert np.array_equal(read.mean_gradient(theta), copied.mean_gradient(theta))
    assert np.array_equal(read.meat(theta, theta), copied.meat(theta, theta))
    # Where every second record has no weight, they are among the others.
    odd = corrected.records(X, y, sample_weight=np.arange(len(X)) % 2.0)
    some = odd.spaced(3)
    assert np.array_equal(some.matrix[:], X[1::2][spread(len(X) // 2, 3)])
    assert some.weights.min() == 1
    assert (records.present, odd.present) == (len(X), len(X) // 2)
    # A sample of all of them has none of the others, and as many as without these.
    assert len(odd.thinned(1)) == odd.present
    for name in ("tested", "looked_at"):
        alone = corrected.records(X[1::2], y[1::2])
        assert np.array_equal(getattr(odd, name).matrix, getattr(alone, name).matrix)


@pytest.mark.newest
@pytest.mark.parametrize(("loss", "solver", "most"), [("logistic", "m_estimate", 4), ("least_squares", "sgd", 2)])
def test_what_is_read_in_order_is_read_few_times(loss, solver, most):
    """Checks with strided samples, moments with far records, gradient and derivatives: as many readings.

    Whether a scaler was fitted to noise with a guarantee is told by the checks.
    """
    count = 210_000
    X, y = population(2, count)
    noised = sd.Release(sd.GaussianMechanism(60.0, 1e-5, radius=1.0)).privatize(X, y, random_state=0)
    corrected = sd.debias(getattr(sd.losses, loss)(), noised.release)
    begun, read = [], [0]

    def reading(rows):
        begun.append(rows.start == 0)
        read[0] += rows.stop - rows.start
        return noised.X[rows]

    source = Rows(noised.X.shape, reading)
    options = {"order": "given", "random_state": 0} if solver == "sgd" else {}
    expected = getattr(sd, solver)(corrected, noised.X, noised.y, **options)
    begun.clear()
    read[0] = 0
    found = getattr(sd, solver)(corrected, source, in_order(noised.y), **options)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
    # A row or two tell how columns are encoded.
    assert read[0] <= (most + 0.01) * count


def test_several_selections_are_read_by_one_reading():
    array = np.arange(2.0 * (2 * WINDOW + 5)).reshape(-1, 2)
    read = []

    def reading(rows):
        read.append(rows.start)
        return array[rows]

    wanted = [slice(None, None, 7), slice(3, 900, 13), np.array([2 * WINDOW + 1, 5, 5]), slice(4, 4)]
    found = read_together([Rows(array.shape, reading), array[:, 0]], wanted)
    assert read == list(range(0, len(array), TOGETHER))
    for (both, first), rows in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(both, array[rows])
        np.testing.assert_array_equal(first, array[rows, 0])
    read.clear()
    read_together([Rows(array.shape, reading)], [np.array([WINDOW + 1])])
    assert read == [WINDOW]


def test_rows_by_a_stride_are_side_by_side_whatever_makes_them():
    """Kernels are compiled for such rows alone: a fit with an offset beside categories ended in a TypeError."""
    target = np.arange(1_000.0)
    for made in (
        Rows.made_of(target, lambda some: some),
        *paired(1_000, lambda rows: (target[rows],) * 2, has_any_row=True),
    ):
        for part in (made[::7], made.only(slice(None, None, 7))[:], made.only(slice(None, None, 7))[1:90]):
            assert part.flags.c_contiguous
        np.testing.assert_array_equal(made[::7], target[::7])


@given(st.integers(1, 300), st.integers(1, 120), st.data())
def test_rows_are_gathered_from_blocks_of_any_length(count, step, data):
    """By a slice, or by numbers in any order, of which one may come twice."""
    numbers = st.lists(st.integers(0, count - 1), max_size=40).map(lambda rows: np.array(rows, dtype=np.int64))
    wanted = data.draw(st.lists(numbers | st.integers(1, 50).map(lambda stride: slice(None, None, stride)), max_size=3))
    matrix = np.random.default_rng(count).normal(size=(count, 2))
    some = Gathered(wanted, count)
    for start in range(0, count, step):
        block = matrix[start : start + step]
        places = [np.arange(count)[rows] for rows in wanted]
        asked = any(np.any((rows >= start) & (rows < start + step)) for rows in places)
        assert some.has_any_of(start, start + step) == asked
        some.take(start, (block, block[:, 0]))
    assert len(some.found) == len(wanted)
    for rows, (found, first) in zip(wanted, some.found, strict=True):
        np.testing.assert_array_equal(found, matrix[rows])
        np.testing.assert_array_equal(first, matrix[rows, 0])
