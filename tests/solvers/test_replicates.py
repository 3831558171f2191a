import importlib
import warnings

import numpy as np
import pytest
from instances import free_form_loss, gaussian_release, records

import symdebias as sd
from symdebias._randomness import generator
from symdebias.exceptions import ConvergenceWarning, DivergenceError, InfiniteVarianceError, VarianceWarning
from symdebias.solvers import archive, checkpoint
from symdebias.solvers.deal import Deal

solver = importlib.import_module("symdebias.solvers.replicates")
many_descents = importlib.import_module("symdebias.solvers.many_descents")

RELEASE = gaussian_release(0.1, epsilon=4.0)
CORRECTED = sd.debias(sd.losses.exponential(), RELEASE)


def learnable(n=4000, columns=2, seed=0, release=RELEASE):
    rng = np.random.default_rng(seed)
    X, _ = records(n, columns, seed=seed)
    y = np.where(X @ np.linspace(2, -1, columns) + rng.normal(size=n) > 0, 1.0, -1.0)
    noised = release.privatize(X, y, random_state=seed)
    return noised.X, noised.y


def assert_same(replicates, corrected, X, y, settings, **shared):
    """Each replicate is the fit of `sgd` with its settings, and reports what that reports."""
    for place, setting in enumerate(settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = sd.sgd(corrected, X, y, **setting, **shared)
        found = replicates[place]
        np.testing.assert_allclose(found.theta, alone.theta, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.history.theta, alone.history.theta, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(found.history.records, alone.history.records)
        assert found.diagnostics.keys() == alone.diagnostics.keys()
        for name in ("steps", "records", "projections", "on_ball", "epochs"):
            assert found.diagnostics[name] == alone.diagnostics[name]
        for name in ("carrying_share", "noise_inflation", "curvature", "score_variance"):
            wanted = alone.diagnostics[name]
            assert found.diagnostics[name] == (None if wanted is None else pytest.approx(wanted, rel=1e-5))


SETTINGS = [
    {"step_size": 0.2, "l2": 0.1},
    {"step_size": sd.step_sizes.inverse_square_root(1.0), "start": [0.3, -0.2]},
    {"step_size": "theory", "l2": 1.0, "radius": 0.4},
    {"step_size": lambda step: 1.0 / step**0.6},
]


def test_each_replicate_is_the_fit_of_sgd_with_its_settings():
    X, y = learnable()
    shared = {"average": 0.5, "record": 4, "epochs": 2, "random_state": 7, "batch_size": 32}
    replicates = sd.sgd_replicates(CORRECTED, X, y, SETTINGS, **shared)
    assert_same(replicates, CORRECTED, X, y, SETTINGS, **shared)
    assert replicates.thetas.shape == (4, 2)
    assert len(replicates) == len(list(replicates)) == 4
    assert not replicates.errors


def in_the_order_of(seed, X, y, late):
    """Return records as `sgd` takes them with a seed, the first so many last."""
    order = Deal.shuffled(len(X), X.shape[1], generator(seed)).rows(0, len(X), len(X))
    return X[np.roll(order, -late)], y[np.roll(order, -late)]


@pytest.mark.parametrize(("order", "epochs"), [("shuffled", 1), ("given", 1), ("given", 3)])
def test_replicates_that_begin_elsewhere_are_fits_to_records_in_that_order(order, epochs):
    """125 steps in an epoch. Shifts are no multiples of a batch, unsorted, and one comes twice."""
    X, y = learnable()
    shared = {"average": 0.5, "record": 4, "batch_size": 32, "epochs": epochs}
    settings = [{**one, "shift": shift} for one, shift in zip(SETTINGS, (0.5, 0.0, 0.99, 0.5), strict=True)]
    replicates = sd.sgd_replicates(CORRECTED, X, y, settings, order=order, random_state=7, **shared)
    for place, (plain, late) in enumerate(zip(SETTINGS, (62, 0, 123, 62), strict=True)):
        given = (X, y) if order == "given" else in_the_order_of(7, X, y, 0)
        given = [np.roll(one, -32 * late, axis=0) for one in given]
        alone = sd.sgd(CORRECTED, *given, **plain, order="given", **shared)
        np.testing.assert_allclose(replicates[place].theta, alone.theta, rtol=1e-12)
        np.testing.assert_allclose(replicates[place].history.theta, alone.history.theta, rtol=1e-12)
        np.testing.assert_array_equal(replicates[place].history.records, alone.history.records)
        assert replicates[place].diagnostics["steps"] == 125 * epochs
        assert replicates[place].diagnostics["projections"] == alone.diagnostics["projections"]
    assert np.abs(replicates.thetas[3] - replicates[1].theta).max() > 1e-3


@pytest.mark.in_turn
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("order", ["given", "shuffled"])
def test_a_circle_has_its_last_batch_within_it(in_python, order, epochs):
    """Of 100 records in batches of 13 the eighth has nine: a replicate that begins at the fifth takes it fourth.

    So in each epoch, the order of which is that of all replicates.
    """
    X, y = records(100, 2)
    settings = [{"step_size": 0.05}, {"step_size": 0.05, "shift": 0.5}, {"step_size": 0.05, "shift": 0.99}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (VarianceWarning, ConvergenceWarning))
        found = sd.sgd_replicates(
            CORRECTED, X, y, settings, order=order, batch_size=13, record=[4, 8, 8 * epochs], average=True,
            epochs=epochs, random_state=5,
        )  # fmt: skip
    rng, places = generator(5), np.arange(100)
    orders = [Deal.shuffled(100, 2, rng).rows(0, 100, 100) if order == "shuffled" else places for _ in range(epochs)]
    for place, late in enumerate((0, 4, 7)):
        theta, path = np.zeros(2), []
        for drawn in orders:
            for step in np.roll(np.arange(8), -late):
                batch = drawn[13 * step : 13 * step + 13]
                theta = theta - 0.05 * CORRECTED.gradient(theta, X[batch], y[batch]).mean(axis=0)
                path.append(theta)
        np.testing.assert_allclose(found.thetas[place], np.mean(path, axis=0), rtol=1e-12)
        seen = [0, *np.cumsum(np.roll([13] * 7 + [9], -late))[[3, 7]], 100 * epochs]
        assert found[place].history.records.tolist() == seen[: 3 + (epochs > 1)]


@pytest.mark.in_turn
@pytest.mark.parametrize("epochs", [1, 3])
def test_places_in_one_order_move_fits_as_much_as_orders_do(epochs):
    """Of 12 times 15 places and 180 orders: a ratio of standard deviations off by a third is seen with certainty."""
    X, y = learnable()
    shared = {"batch_size": 32, "epochs": epochs, "average": 0.5}
    places = [{"step_size": 0.2, "shift": k / 15} for k in range(15)]
    moved = [
        sd.sgd_replicates(CORRECTED, X, y, places, random_state=seed, **shared).thetas.var(axis=0, ddof=1)
        for seed in range(12)
    ]
    orders = np.array([
        sd.sgd_replicates(CORRECTED, X, y, places[:1], random_state=seed, **shared).thetas[0]
        for seed in range(100, 280)
    ])  # fmt: skip
    ratio = np.sqrt(np.mean(moved, axis=0) / orders.var(axis=0, ddof=1))
    assert np.all((ratio > 0.75) & (ratio < 1.3))


def test_replicates_that_fail_on_their_way_leave_those_that_begin_later_alone():
    X, y = learnable()
    settings = [{"step_size": 0.2, "shift": 0.2}, {"step_size": 1e6, "shift": 0.4}, {"step_size": 0.2, "shift": 0.6}]
    with pytest.warns(ConvergenceWarning, match="1 of 3 replicates have no fit"):
        found = sd.sgd_replicates(CORRECTED, X, y, settings, batch_size=32, random_state=7)
    assert list(found.errors) == [1]
    apart = sd.sgd_replicates(CORRECTED, X, y, settings[::2], batch_size=32, random_state=7)
    np.testing.assert_allclose(found.thetas[::2], apart.thetas, rtol=1e-13)


@pytest.mark.in_turn
@pytest.mark.filterwarnings("ignore:.*training has not arrived:symdebias.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("columns", [1, pytest.param(33, marks=pytest.mark.exhaustive)])
def test_records_of_one_column_and_of_many_have_a_tile_of_their_own(columns):
    """The order of a tile's entries is part of the type for which a kernel is compiled."""
    X, y = learnable(columns=columns)
    settings = [{"step_size": 0.2, "l2": 0.1}, {"step_size": 0.1}]
    replicates = sd.sgd_replicates(CORRECTED, X, y, settings, random_state=7, batch_size=32)
    assert_same(replicates, CORRECTED, X, y, settings, random_state=7, batch_size=32)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("columns", "shared"),
    [
        (2, {"sample_weight": np.arange(100) % 3.0}),
        (2, {"smoothing": 1.0, "epochs": 2}),
        (2, {"noise_scale": np.linspace(0.1, 0.5, 100)}),
        (2, {"batch_size": 7, "average": True, "order": "given"}),
        # More columns than are written out, and a batch that is more than a block.
        (40, {}),
        (1, {"batch_size": 1000}),
    ],
)
def test_replicates_share_what_sgd_is_told_once(in_python, columns, shared):
    corrected = sd.debias(sd.losses.exponential(), gaussian_release(0.3, epsilon=2.0, fit_intercept=True))
    X, y = records(100, columns)
    # Learned steps beside given ones: the one is scaled, and the other is not.
    settings = [{"step_size": 0.05}, {"step_size": 0.1, "l2": 0.5}, {"l2": 1.0}]
    shared = {"batch_size": 13, "random_state": 1, **shared}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (VarianceWarning, ConvergenceWarning))
        replicates = sd.sgd_replicates(corrected, X, y, settings, **shared)
    assert_same(replicates, corrected, X, y, settings, **shared)


def test_batches_go_on_over_hands_of_cards_and_the_rows_that_are_left_over(in_python):
    X, y = records(611, 1)
    settings = [{"step_size": 0.02}, {"step_size": 0.01}]
    shared = {"batch_size": 300, "random_state": 3, "epochs": 2, "record": 6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (VarianceWarning, ConvergenceWarning))
        replicates = sd.sgd_replicates(CORRECTED, X, y, settings, **shared)
    assert_same(replicates, CORRECTED, X, y, settings, **shared)


@pytest.mark.parametrize("kind", ["scores", "categories", "features"])
def test_losses_of_all_forms(in_python, kind):
    X, y = records(100, 2)
    if kind == "scores":
        release = sd.Release(features=None, target=sd.RandomizedResponse(1.0, categories=(0, 1, 2)), fit_intercept=True)
        corrected, y = sd.debias(sd.losses.softmax(3), release), np.arange(100) % 3
    elif kind == "categories":
        release = sd.Release(
            {"x": sd.GaussianMechanism.from_scale(0.3), "c": sd.RandomizedResponse(1.0, categories=(0, 1, 2))},
            sd.RandomizedResponse(2.0), fit_intercept=True,
        )  # fmt: skip
        corrected, X = sd.debias(sd.losses.exponential(), release), np.column_stack([X[:, 0], np.arange(100) % 3])
    else:
        corrected = sd.debias(free_form_loss(), sd.Release(sd.GaussianMechanism.from_scale(0.3)))
    settings = [{"step_size": 0.05}, {"step_size": 0.02, "l2": 0.5}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (VarianceWarning, ConvergenceWarning))
        replicates = sd.sgd_replicates(corrected, X, y, settings, batch_size=16, random_state=1)
    assert_same(replicates, corrected, X, y, settings, batch_size=16, random_state=1)


def test_replicates_that_fail_leave_the_others_alone():
    X, y = learnable()
    settings = [{"step_size": 1e6}, {"step_size": 0.2}, {"step_size": 30.0}, {"start": [60.0, 60.0], "step_size": 1e-9}]
    with pytest.warns(ConvergenceWarning, match=r"3 of 4 replicates have no fit, .* the first is 0: .* diverged at"):
        replicates = sd.sgd_replicates(CORRECTED, X, y, settings, random_state=7, batch_size=32)
    assert repr(replicates) == "Replicates(4 fits, 3 of them without a fit)"
    assert sorted(replicates.errors) == [0, 2, 3]
    assert np.isnan(replicates.thetas[[0, 2, 3]]).all()
    for place in replicates.errors:
        with pytest.raises(sd.SymdebiasError) as alone:
            sd.sgd(CORRECTED, X, y, **settings[place], random_state=7, batch_size=32)
        with pytest.raises(type(alone.value)) as raised:
            replicates[place]
        # Far out the last digits, which the two round apart, decide which record is to blame.
        said = [str(one.value).partition(": record")[0] for one in (raised, alone)]
        assert said[0] == said[1]
    assert np.isnan(replicates.mean_losses(X, y)).tolist() == [True, False, True, True]
    assert_same([replicates[1]], CORRECTED, X, y, settings[1:2], random_state=7, batch_size=32)
    with pytest.raises(DivergenceError, match="diverged at step"):
        sd.sgd_replicates(CORRECTED, X, y, settings[:1], random_state=7, batch_size=32)


def test_a_replicate_that_stops_leaves_the_others_alone_in_batches_of_several_parts(in_python):
    X, y = records(700, 2)
    settings = [{"step_size": 0.02}, {"step_size": 1e6}, {"step_size": 0.01, "l2": 0.5}]
    shared = {"batch_size": 300, "random_state": 3, "sample_weight": np.arange(700.0) % 3}
    with pytest.warns(ConvergenceWarning, match="1 of 3 replicates have no fit"):
        replicates = sd.sgd_replicates(CORRECTED, X, y, settings, **shared)
    assert sorted(replicates.errors) == [1]
    assert_same([replicates[0], replicates[2]], CORRECTED, X, y, settings[::2], **shared)


def test_a_limit_of_the_correction_stops_one_replicate(in_python):
    release = sd.Release(sd.LaplaceMechanism.from_scale(0.5), sd.RandomizedResponse(2.0))
    corrected = sd.debias(sd.losses.exponential(), release)
    X, y = learnable(100, release=release)
    settings = [{"step_size": 0.01, "radius": 0.5}, {"step_size": 0.01, "start": [1.9, 0.0]}]
    with pytest.warns(ConvergenceWarning, match="1 of 2 replicates have no fit"):
        replicates = sd.sgd_replicates(corrected, X, y, settings, order="given", batch_size=32)
    assert isinstance(replicates.errors[1], InfiniteVarianceError)


def test_many_replicates_are_examined_alike(monkeypatch):
    """From some number on a faster kernel examines them; by means of it the Hessian is exact."""
    X, y = learnable()
    settings = [{"step_size": 0.2, "l2": l2} for l2 in (0.0, 0.1)]
    monkeypatch.setattr(solver, "_MANY", 1)
    replicates = sd.sgd_replicates(CORRECTED, X, y, settings, random_state=7, batch_size=32)
    assert_same(replicates, CORRECTED, X, y, settings, random_state=7, batch_size=32)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch):
    X, y = learnable()
    settings = [{"step_size": size} for size in np.linspace(0.2, 0.4, 16)]
    threads = []
    monkeypatch.setattr(solver, "_MANY", 100)
    for count in (1, 2):
        monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda count=count: count)
        threads.append(sd.sgd_replicates(CORRECTED, X, y, settings, random_state=7, batch_size=32).thetas)
    np.testing.assert_array_equal(*threads)


def test_losses_on_other_records_are_those_of_the_corrected_loss():
    X, y = learnable()
    replicates = sd.sgd_replicates(CORRECTED, X, y, SETTINGS, random_state=7, batch_size=32)
    weights = np.arange(4000) % 5.0
    for options in ({}, {"sample_weight": weights}):
        found = replicates.mean_losses(X, y, **options)
        wanted = [CORRECTED.mean_loss(theta, X, y, **options) for theta in replicates.thetas]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_rows_that_are_read_by_blocks_are_read_once_for_all_replicates():
    X, y = learnable()
    asked = []

    def read(rows):
        asked.append(rows)
        return X[rows]

    source = sd.blocks.Rows(X.shape, read), sd.blocks.Rows(y.shape, lambda rows: y[rows])
    replicates = sd.sgd_replicates(CORRECTED, *source, SETTINGS, order="given", batch_size=32)
    alone = [sd.sgd(CORRECTED, X, y, **one, order="given", batch_size=32).theta for one in SETTINGS]
    np.testing.assert_allclose(replicates.thetas, alone, rtol=1e-12)
    few = len(asked)
    asked.clear()
    sd.sgd_replicates(CORRECTED, *source, 5 * SETTINGS, order="given", batch_size=32)
    # What is looked at of each theta is a part of the records that is kept.
    assert sum(rows.stop - rows.start == len(X) for rows in asked) <= few


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ([], ValueError, "settings has nothing"),
        ({"step_size": [0.1, 0.2]}, TypeError, "settings is a dict, and not a mapping for each replicate"),
        (0.1, TypeError, "settings is a float"),
        ([0.1], TypeError, "settings 0 is a float. Pass a mapping, with any of step_size, l2, radius, start"),
        ([{}, {"stepsize": 0.1}], ValueError, r"settings 1 has 'stepsize', .* Did you mean step_size\?"),
        ([{"batch_size": 64}], ValueError, "Pass what all replicates share as an argument"),
        ([{"l2": -1.0}], ValueError, "settings 0: l2=-1"),
        ([{"step_size": float("nan")}], ValueError, "settings 0: step_size=nan"),
        ([{"step_size": "theory"}], ValueError, r'settings 0: step_size="theory" .* needs l2 > 0'),
        ([{"step_size": "fast"}], ValueError, "settings 0: step_size='fast' is not known"),
        ([{"step_size": np.array([0.1, 0.2])}], TypeError, "settings 0: step_size has the type ndarray"),
        ([{"radius": 0.0}], ValueError, "settings 0: radius=0"),
        ([{}, {"start": [1.0, 2.0, 3.0]}], ValueError, "settings 1: .*3"),
        ([{"shift": 1.0}], ValueError, r"settings 0: shift=1.0 is too large. It must be a number in \[0, 1\)"),
        ([{"shift": -0.1}], ValueError, "settings 0: shift=-0.1"),
        ([{"shift": float("nan")}], ValueError, "settings 0: shift=nan"),
        ([{"shift": "late"}], TypeError, "settings 0: shift"),
        ([{"random_state": 1}], ValueError, "One call has one order: give shift, or call it once for each"),
    ],
)
def test_settings_that_are_none_are_refused(settings, error, message):
    X, y = records(60, 2)
    with pytest.raises(error, match=message):
        sd.sgd_replicates(CORRECTED, X, y, settings)


def test_bad_records_are_refused_as_by_sgd():
    X, y = learnable()
    X[17, 1] = np.nan
    with pytest.raises(ValueError, match="row 17") as alone:
        sd.sgd(CORRECTED, X, y, step_size=0.05)
    with pytest.raises(ValueError, match="row 17") as raised:
        sd.sgd_replicates(CORRECTED, X, y, SETTINGS)
    assert str(raised.value) == str(alone.value)
    with pytest.raises(TypeError, match=r"what symdebias\.debias returned"):
        sd.sgd_replicates(sd.losses.exponential(), X, y, SETTINGS)


def test_a_surrogate_is_resolved_first():
    corrected = sd.debias(sd.losses.logistic(), gaussian_release(0.3, epsilon=2.0))
    X, y = learnable(100)
    with pytest.raises(ValueError, match=r"not resolved, and each replicate would have one of its own.*fit\.corrected"):
        sd.sgd_replicates(corrected, X, y, [{}])


def test_replicates_are_told_by_their_number():
    X, y = learnable(100)
    replicates = sd.sgd_replicates(CORRECTED, X, y, [{"l2": 0.1}, {"l2": 0.2}], random_state=0)
    assert replicates[-1] is replicates[np.int64(1)] is list(replicates)[1]
    for index, error, message in (
        (2, IndexError, "there is no replicate 2: their numbers are 0 to 1"),
        (-3, IndexError, "no replicate -3"),
        (slice(0, 1), TypeError, "told by its number; got slice"),
        ("a", TypeError, "got str"),
    ):
        with pytest.raises(error, match=message):
            replicates[index]


@pytest.mark.compiled
@pytest.mark.parametrize(("write", "shifted"), [(1, 0), (4, 0), (9, 0), (4, 1), (14, 1), (17, 3), (31, 3)])
def test_a_run_that_is_killed_goes_on_to_the_same_bits(monkeypatch, tmp_path, write, shifted):
    """Among the replicates is one that stops before and one that stops after the file is written."""
    X, y = learnable()
    settings = [{"step_size": 1e6}, {"step_size": 0.2}, {"l2": 0.5}, {"step_size": lambda t: 0.1 * 1.05**t}]
    options = {"random_state": 7, "batch_size": 32, "epochs": 3, "average": True, "record": 5}
    if shifted:
        settings = [{**one, "shift": shift} for one, shift in zip(settings, (0.3, 0.0, 0.9, 0.5), strict=True)]
        options["epochs"] = shifted

    def run(**more):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return sd.sgd_replicates(CORRECTED, X, y, settings, **options, **more)

    whole, place, write_file = run(), tmp_path / "run.checkpoint", archive.write
    for name in ("_SEGMENT", "WINDOW"):
        monkeypatch.setattr(many_descents, name, 1_000)
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    written = []

    def killed(*arguments):
        write_file(*arguments)
        written.append(1)
        if len(written) == write:
            raise KeyboardInterrupt

    monkeypatch.setattr(archive, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=place)
    monkeypatch.setattr(archive, "write", write_file)
    assert place.exists()
    with pytest.raises(ValueError, match="its settings 0 was another"):
        sd.sgd_replicates(CORRECTED, X, y, [{}, {}, {}, {}], checkpoint=place, **options)
    again = run(checkpoint=place)
    assert not place.exists()
    np.testing.assert_array_equal(again.thetas, whole.thetas)
    assert {key: str(error) for key, error in again.errors.items()} == {
        key: str(error) for key, error in whole.errors.items()
    }
    np.testing.assert_array_equal(again[1].history.theta, whole[1].history.theta)


@pytest.mark.compiled
def test_averages_do_not_depend_on_a_replicate_that_has_stopped():
    X, y = learnable()
    options = {"random_state": 7, "batch_size": 32, "epochs": 3, "average": True}
    with pytest.warns(ConvergenceWarning, match="1 of 2 replicates"):
        both = sd.sgd_replicates(CORRECTED, X, y, [{"step_size": 1e6}, {"step_size": 0.2}], **options)
    assert_same([both[1]], CORRECTED, X, y, [{"step_size": 0.2}], **options)


@pytest.mark.in_turn
@pytest.mark.parametrize("far", [1e200, 1.2e154], ids=["a square", "their sum"])
def test_squares_that_overflow_are_named_where_steps_were_none_the_less_finite(far):
    """Of a count of 0 beside a mean of 0 no gradient is left, however far the record is."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (100, 2)), rng.poisson(1.0, 100).astype(float)
    X[:3, 1], y[:3] = -far, 0.0
    release = sd.Release(sd.GaussianMechanism.from_scale(0.1))
    corrected = sd.debias(sd.losses.poisson(), release)
    shared = {"order": "given", "batch_size": 50}
    setting = {"step_size": 0.01, "start": np.array([0.0, 0.1])}
    for train in (
        lambda: sd.sgd(corrected, X, y, **setting, **shared),
        lambda: solver.sgd_replicates(corrected, X, y, [setting], **shared),
    ):
        with pytest.raises((DivergenceError, ValueError), match=r"record 0 has a value in column 1|X .* in row 0"):
            train()
