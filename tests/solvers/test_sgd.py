import importlib
import math
import os
import re
import signal

import numpy as np
import pytest
import sympy as sp
from instances import U, Y, free_form_loss, gaussian_release, margin_loss, records

import symdebias as sd
from symdebias._randomness import generator
from symdebias.exceptions import (
    DivergenceError,
    InfiniteVarianceError,
    MissingDependencyError,
    NoExactCorrectionError,
    VarianceWarning,
)
from symdebias.solvers.deal import Deal
from symdebias.solvers.step_sizes import step_sizes

solver = importlib.import_module("symdebias.solvers.sgd")
training = importlib.import_module("symdebias.solvers.training")

CORRECTED = sd.debias(sd.losses.exponential(), gaussian_release(0.3, epsilon=2.0))


def twin(corrected, X, y, *, step_sizes, batch_size, rows, l2=0.0, radius=math.inf, weights=None, start=None):
    """Algorithm 1, record by record, from the per-record gradients."""
    theta = np.zeros(corrected.at(X.shape[1]).number_of_parameters) if start is None else np.array(start, dtype=float)
    path = [theta]
    penalised = np.ones(len(theta))
    shares = np.ones(len(X)) if weights is None else weights / weights.mean()
    if corrected.release.fit_intercept:
        penalised[-1] = 0.0
    for step, eta in enumerate(step_sizes):
        batch = rows[step * batch_size : (step + 1) * batch_size]
        gradients = corrected.gradient(theta, X[batch], y[batch])
        mean = (shares[batch, None] * gradients).mean(axis=0)
        theta = theta - eta * (mean + l2 * penalised * theta)
        theta = theta * min(1.0, radius / max(np.linalg.norm(theta), 1e-300))
        path.append(theta)
    return np.array(path)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("columns", "intercept", "weighted"),
    [
        (1, False, True),
        pytest.param(3, True, False, marks=pytest.mark.newest),
        pytest.param(33, True, True, marks=pytest.mark.newest),
        # Each takes a kernel of its own.
        pytest.param(1, False, False, marks=pytest.mark.exhaustive),
        pytest.param(3, True, True, marks=pytest.mark.exhaustive),
        pytest.param(33, False, False, marks=pytest.mark.exhaustive),
        pytest.param(33, False, True, marks=pytest.mark.exhaustive),
        pytest.param(33, True, False, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.filterwarnings("ignore:training has not arrived")
@pytest.mark.parametrize("batch_size", [1, 7, 300])
def test_the_kernel_takes_the_steps_of_algorithm_1(columns, intercept, weighted, batch_size):
    corrected = sd.debias(sd.losses.exponential(), gaussian_release(0.3, fit_intercept=intercept))
    n = 600 if batch_size > 1 else 40
    X, y = records(n, columns)
    weights = np.random.default_rng(1).uniform(0, 2, size=n) if weighted else None
    steps = -(-n // batch_size)
    sizes = 0.1 / np.sqrt(np.arange(1, steps + 1))
    fit = sd.sgd(
        corrected, X, y, step_size=sd.step_sizes.inverse_square_root(0.1), batch_size=batch_size, l2=0.5, radius=0.005,
        order="given", sample_weight=weights, record=range(steps + 1),
    )  # fmt: skip
    path = twin(
        corrected, X, y, step_sizes=sizes, batch_size=batch_size, rows=np.arange(n), l2=0.5, radius=0.005,
        weights=weights,
    )  # fmt: skip
    np.testing.assert_allclose(fit.history.theta, path, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(fit.history.records, np.minimum(np.arange(steps + 1) * batch_size, n))
    assert fit.diagnostics["projections"] > 0


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 700, 5003])
@pytest.mark.parametrize("columns", [1, 40])
def test_a_shuffled_epoch_takes_every_record_once(n, columns):
    deal = Deal.shuffled(n, columns, np.random.default_rng(0))
    rows = deal.rows(0, n, n)
    assert sorted(rows) == list(range(n))
    for first, end in [(0, 1), (n // 3, n), (n - 1, n), (n // 2, n // 2), (n // 5, n // 5 * 4)]:
        np.testing.assert_array_equal(deal.rows(first, end, n), rows[first:end])


@pytest.mark.parametrize(
    ("n", "weighted", "columns"),
    [
        (50, False, 2), (5003, False, 2), (40_000, False, 2), (50, True, 2), (5003, True, 2), (40_000, True, 2),
        # Turned by four, two and one columns, and by eight; and rows that are not turned.
        *(
            pytest.param(5003, weighted, columns, marks=[pytest.mark.newest, pytest.mark.in_turn])
            for weighted, columns in ((False, 7), (True, 8), (False, 9), (True, 20))
        ),
    ],
)  # fmt: skip
def test_the_kernel_deals_as_stated(n, weighted, columns):
    X, y = records(n, columns)
    corrected = CORRECTED if columns == 2 else sd.debias(sd.losses.exponential(), gaussian_release(0.02))
    weights = np.random.default_rng(1).uniform(0, 2, size=n) if weighted else None
    rng = generator(5)
    rows = np.concatenate([Deal.shuffled(n, columns, rng).rows(0, n, n) for _ in range(2)])
    fit = sd.sgd(corrected, X, y, step_size=0.05, batch_size=n // 10, epochs=2, sample_weight=weights, random_state=5)
    per_epoch = -(-n // (n // 10))
    theta = None
    for epoch in range(2):
        path = twin(
            corrected, X, y, step_sizes=np.full(per_epoch, 0.05), batch_size=n // 10,
            rows=rows[epoch * n : (epoch + 1) * n], weights=weights, start=theta,
        )  # fmt: skip
        theta = path[-1]
    np.testing.assert_allclose(fit.theta, theta, rtol=1e-8, atol=1e-12)


def test_batches_of_a_sorted_table_are_mixed():
    """Sorted by label, each batch of 128 must hold both labels in about their share.

    No more than five neighbours of a run of the table come into one batch: four of each of 32 runs, and one more where
    a batch begins within a round of cards.
    """
    n = 20_000
    labels = np.arange(n) < n // 2
    deal = Deal.shuffled(n, 2, np.random.default_rng(0))
    rows = deal.rows(0, n, n)
    runs = ((rows[: n // 4096 * 4096] - deal.shift) % n // deal.run_length).reshape(-1, 128)
    assert max(np.unique(one, return_counts=True)[1].max() for one in runs) <= 5
    shares = labels[rows][: n // 128 * 128].reshape(-1, 128).mean(axis=1)
    # Binomial sampling would have a standard deviation of .044; 32 runs give at most .088.
    assert abs(shares.mean() - 0.5) < 0.01
    assert shares.std() < 0.1


def test_results_repeat_with_a_seed_and_differ_without():
    X, y = records(2000, 2)
    fits = [sd.sgd(CORRECTED, X, y, step_size=0.1, random_state=seed).theta for seed in (3, 3, 4)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])
    stream = generator(3)
    np.testing.assert_array_equal(sd.sgd(CORRECTED, X, y, step_size=0.1, random_state=stream).theta, fits[0])
    assert not np.array_equal(sd.sgd(CORRECTED, X, y, step_size=0.1, random_state=stream).theta, fits[0])


def test_segments_do_not_change_the_result(monkeypatch):
    X, y = records(3000, 2)
    options = {"step_size": 0.1, "batch_size": 16, "epochs": 2, "random_state": 0, "average": 0.5}
    whole = sd.sgd(CORRECTED, X, y, **options)
    monkeypatch.setattr(training, "_SEGMENT", 50)
    cut = sd.sgd(CORRECTED, X, y, record=17, **options)
    np.testing.assert_array_equal(whole.theta, cut.theta)
    assert len(cut.history.steps) == 18


def stopped_at(monkeypatch, call, when="before"):
    """Press Ctrl-C before or after a part of the run has gone through the kernel, and before it is accounted for."""
    take, calls = solver.Descent.take, []

    def stopping(self, kernel, lower, upper, *arguments):
        calls.append(upper)
        if len(calls) == call and when == "before":
            raise KeyboardInterrupt

        def half(*given):
            done = kernel(*given)
            if len(calls) == call:
                raise KeyboardInterrupt
            return done

        return take(self, half, lower, upper, *arguments)

    monkeypatch.setattr(solver.Descent, "take", stopping)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("average", [False, 0.9])
def test_a_run_that_is_stopped_hands_over_the_last_whole_part(monkeypatch, tmp_path, when, average):
    X, y = records(3000, 2)
    options = {"step_size": 0.1, "batch_size": 16, "epochs": 2, "random_state": 0, "average": average}
    monkeypatch.setattr(training, "_SEGMENT", 800)
    whole = sd.sgd(CORRECTED, X, y, record=[0, 38, 50, 100, 150, 188], **options)
    with monkeypatch.context() as pressed:
        stopped_at(pressed, 4, when)
        with pytest.raises(KeyboardInterrupt) as stop:
            sd.sgd(CORRECTED, X, y, record=[50, 100, 150], **options)
    assert isinstance(stop.value, sd.FitInterrupted)
    fit = stop.value.fit
    cut = fit.diagnostics["steps"]
    assert cut == {False: 150, 0.9: 100}[average]
    assert "stopped by Ctrl-C after" in str(stop.value)
    np.testing.assert_array_equal(fit.theta, whole.history.theta[list(whole.history.steps).index(cut)])
    assert fit.history.steps[-1] == cut
    assert fit.diagnostics["interrupted"] is True
    assert "unfinished" in fit.summary()
    assert fit.guarantee == whole.guarantee
    fit.save(tmp_path / "fit.npz")
    np.testing.assert_array_equal(sd.Fit.load(tmp_path / "fit.npz").theta, fit.theta)


@pytest.fixture
def heeding_ctrl_c():
    """Shells start jobs in the background with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_stops_training(monkeypatch, heeding_ctrl_c):
    """The signal itself, at the twentieth of some thousand parts of the run."""
    take, parts = solver.Descent.take, []

    def signalled(self, *arguments):
        parts.append(1)
        if len(parts) == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return take(self, *arguments)

    X, y = records(3000, 2)
    monkeypatch.setattr(solver.Descent, "take", signalled)
    monkeypatch.setattr(training, "_SEGMENT", 500)
    with pytest.raises(sd.FitInterrupted) as stop:
        sd.sgd(CORRECTED, X, y, step_size=1e-3, batch_size=1, epochs=1000, random_state=0)
    fit = stop.value.fit
    # The signal is looked at between two steps of Python: at once, or a few parts later.
    assert 19 * 500 <= fit.diagnostics["steps"] < 3_000_000
    assert fit.diagnostics["steps"] % 500 == 0
    assert np.isfinite(fit.theta).all()


def test_ctrl_c_before_there_is_a_step_is_ctrl_c(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(solver, "released_moments", stop)
    with pytest.raises(KeyboardInterrupt) as raised:
        sd.sgd(CORRECTED, *records(300, 2))
    assert not isinstance(raised.value, sd.FitInterrupted)


def test_what_was_trained_is_handed_over_where_it_is_stopped_later(monkeypatch):
    """While the result is examined, all steps are done."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    X, y = records(3000, 2)
    whole = sd.sgd(CORRECTED, X, y, step_size=0.1, random_state=0)
    monkeypatch.setattr(solver, "Examination", stop)
    with pytest.raises(sd.FitInterrupted) as raised:
        sd.sgd(CORRECTED, X, y, step_size=0.1, random_state=0)
    np.testing.assert_array_equal(raised.value.fit.theta, whole.theta)


@pytest.mark.parametrize(("average", "first"), [(True, 0), (0.5, 30), (0.1, 54)])
def test_averages_are_means_of_iterates(average, first):
    X, y = records(600, 2)
    fit = sd.sgd(CORRECTED, X, y, step_size=0.1, batch_size=10, order="given", record=range(61))
    averaged = sd.sgd(CORRECTED, X, y, step_size=0.1, batch_size=10, order="given", average=average)
    np.testing.assert_allclose(averaged.theta, fit.history.theta[first + 1 :].mean(axis=0), rtol=1e-12)


def test_two_passes_of_half_the_steps_are_one_run_with_start():
    X, y = records(500, 2)
    once = sd.sgd(CORRECTED, X, y, step_size=0.1, batch_size=50, order="given", epochs=2)
    first = sd.sgd(CORRECTED, X, y, step_size=0.1, batch_size=50, order="given")
    second = sd.sgd(CORRECTED, X, y, step_size=0.1, batch_size=50, order="given", start=first.theta)
    np.testing.assert_allclose(once.theta, second.theta, rtol=1e-12)


def test_learned_steps_are_shorter_where_few_of_a_batch_have_weight():
    """A batch of 40 with 39 others of weight 0 has the noise of one record."""
    X, y = records(500, 2)
    weights = np.repeat([1.0, 0.0], [500, 39 * 500])
    X, y = np.vstack([X] * 40), np.tile(y, 40)
    few = sd.sgd(CORRECTED, X, y, sample_weight=weights, batch_size=40, random_state=0)
    alone = sd.sgd(CORRECTED, X[:500], y[:500], batch_size=1, random_state=0)
    steps, expected = (fit.diagnostics["step_size"] for fit in (few, alone))
    assert (steps.scale, steps.offset) == pytest.approx((expected.scale, expected.offset), rel=1e-9)


def test_fewer_records_than_a_batch_are_one_batch():
    X, y = records(5, 2)
    fit = sd.sgd(CORRECTED, X, y, step_size=0.1, batch_size=128)
    assert fit.diagnostics["steps"] == 1
    np.testing.assert_allclose(fit.theta, -0.1 * CORRECTED.mean_gradient([0.0, 0.0], X, y), rtol=1e-12)


def test_the_intercept_is_not_penalised():
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(features=None, fit_intercept=True))
    X, y = np.zeros((64, 1)), np.full(64, 3.0)
    fit = sd.sgd(corrected, X, y, step_size=0.5, batch_size=64, epochs=60, l2=10.0)
    assert fit.theta == pytest.approx([0.0, 3.0])


@pytest.mark.exhaustive
def test_free_form_losses_train():
    release = sd.Release(features=sd.GaussianMechanism.from_scale(0.3), target=sd.GaussianMechanism.from_scale(0.3))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200_000, 2))
    y = 0.8 * X[:, 0] ** 2 - 0.5 * X[:, 1]
    noised = release.privatize(X, y, random_state=1)
    corrected = sd.debias(free_form_loss(), release)
    fit = sd.sgd(corrected, noised.X, noised.y, step_size=sd.step_sizes.inverse_time(2.0, offset=20),
                 batch_size=500, epochs=3, average=0.5, random_state=0)  # fmt: skip
    # The standard error is below .01 here, and the uncorrected fit is .1 and more off.
    assert fit.theta == pytest.approx([0.8, -0.5], abs=0.05)
    plain = sd.debias(free_form_loss(), release, method="none")
    naive = sd.sgd(plain, noised.X, noised.y, step_size=sd.step_sizes.inverse_time(2.0, offset=20),
                   batch_size=500, epochs=3, average=0.5, random_state=0)  # fmt: skip
    assert np.abs(naive.theta - [0.8, -0.5]).max() > 0.1


@pytest.mark.in_turn
@pytest.mark.newest
@pytest.mark.parametrize("mode", ["flat", "rows", "2d"])
def test_smoothed_steps_go_along_the_smoothed_gradient(mode):
    # The classes and columns of the private trainer's tests, whose smoothing is compiled once for both.
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 3, 300).astype(float)
    plain = sd.debias(sd.losses.softmax(3), sd.Release(fit_intercept=True), method="none")
    fit = sd.sgd(
        plain, X, y, step_size=0.3, batch_size=50, epochs=2, l2=0.2, order="given", smoothing=2.5, smoothing_mode=mode
    )
    theta = np.zeros((3, 3))
    for start in [*range(0, 300, 50)] * 2:
        rows = slice(start, start + 50)
        penalty = 0.2 * theta
        penalty[:, -1] = 0.0
        gradient = plain.gradient(theta, X[rows], y[rows]).mean(axis=0) + penalty
        theta = theta - 0.3 * sd.laplacian_smoothing(gradient, 2.5, mode=mode)
    np.testing.assert_allclose(fit.theta, theta, atol=1e-13)


def test_a_nan_step_names_step_record_and_norm():
    X, y = records(500, 2)
    X[137] = [1e200, 0.0]
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(features=None))
    with pytest.raises(DivergenceError, match=r"diverged at step 3 .*record 137 has a gradient that is not finite"):
        sd.sgd(corrected, X, y, step_size=0.1, batch_size=50, order="given")
    with pytest.raises(DivergenceError, match="record 137"):
        sd.sgd(corrected, X, y, step_size=0.1, batch_size=50, random_state=0)


@pytest.mark.parametrize("loss", [sd.losses.exponential(), sd.losses.squared_margin()])
def test_steps_that_diverge_stop_with_a_remedy(loss):
    corrected = sd.debias(loss, gaussian_release(1.0))
    X, y = records(5000, 2)
    with pytest.raises(DivergenceError, match="smaller step_size, bound theta with radius="):
        sd.sgd(corrected, X, y, step_size=1e3, batch_size=10, random_state=0)


@pytest.mark.parametrize("seed", range(6))
def test_a_fit_that_followed_the_noise_is_refused(seed):
    """Steps too long for the noise: theta comes to rest where s is 90 and more, and looks like a result."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.7, 0.7, size=(200_000, 2))
    y = np.where(rng.random(200_000) < 1 / (1 + np.exp(-X @ [3.0, -2.0])), 1, -1)
    release = sd.Release(
        features=sd.GaussianMechanism(epsilon=4.0, delta=1e-5, radius=1.0), target=sd.RandomizedResponse(epsilon=2.0)
    )
    noised = release.privatize(X, y, random_state=1)
    corrected = sd.debias(sd.losses.exponential(), release)
    with pytest.raises(DivergenceError, match=r"training was lost: .* of 10,000 records carry|diverged at step"):
        sd.sgd(corrected, noised.X, noised.y, step_size=0.2, random_state=seed)
    fit = sd.sgd(corrected, noised.X, noised.y, step_size=2e-3, l2=1.0, average=0.5, random_state=seed)
    assert fit.diagnostics["carrying_share"] > 0.1


def test_a_radius_bounds_every_step_and_is_reported():
    X, y = records(5000, 2)
    fit = sd.sgd(CORRECTED, X, y, step_size=10.0, batch_size=10, radius=0.2, record=100, random_state=0)
    assert np.linalg.norm(fit.history.theta, axis=1).max() <= 0.2 * (1 + 1e-12)
    assert fit.diagnostics["on_ball"]
    assert "lies on the ball" in fit.summary()


@pytest.mark.exhaustive
def test_training_stops_where_the_correction_ends():
    corrected = sd.debias(margin_loss(-sp.exp(-(U**2) / 8) + 0 * Y + Y * U), gaussian_release(1.0))
    X, y = records(5000, 2)
    with pytest.raises(NoExactCorrectionError, match="exists below 4 only"):
        sd.sgd(corrected, X, np.ones(5000), step_size=1.0, batch_size=10, random_state=0)
    # Close to the end so few records are lost in the noise; four times as many are not.
    with pytest.raises(DivergenceError, match="times that of the uncorrected loss"):
        sd.sgd(corrected, X, y, step_size=1.0, batch_size=10, radius=1.9, random_state=0)
    with pytest.warns(VarianceWarning, match="times that of the uncorrected loss"):
        sd.sgd(corrected, *records(20_000, 2), step_size=1.0, batch_size=40, radius=1.9, random_state=0)


def test_training_stops_where_the_variance_ends():
    corrected = sd.debias(margin_loss(sp.exp(U**2 / 20) - 20 * Y * U), gaussian_release(1.0))
    X, _ = records(5000, 2)
    with pytest.raises(InfiniteVarianceError, match="from 10 on the corrected loss has infinite variance"):
        sd.sgd(corrected, X, np.where(X[:, 0] > 0, 1, -1), step_size=0.3, batch_size=10, random_state=0)


BAD_ARGUMENTS = [
    ({"step_size": "theory"}, "needs l2 > 0"), ({"step_size": lambda t: -t}, "positive finite"),
    ({"step_size": lambda t: 1.0}, "positive finite"), ({"smoothing": -1.0}, "smoothing"),
    ({"smoothing": math.nan}, "smoothing"), ({"smoothing_mode": "columns"}, "smoothing_mode"),
    ({"order": "random"}, "order"), ({"record": [999]}, "record"), ({"record": 0}, "record"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD_ARGUMENTS, ids=lambda value: str(value).split(" at ")[0][:40])
def test_bad_arguments_are_refused(change, message):
    X, y = records(50, 2)
    with pytest.raises((TypeError, ValueError), match=message):
        sd.sgd(CORRECTED, X, y, **change)


def test_theory_step_size():
    np.testing.assert_allclose(step_sizes("theory", first=2, count=3, l2=2.0), [1 / (2 * 4), 1 / (2 * 5), 1 / (2 * 6)])


def test_progress_bar_counts_records(capsys):
    X, y = records(1000, 2)
    sd.sgd(CORRECTED, X, y, progress=True)
    assert "1.00k/1.00k" in capsys.readouterr().err


def test_a_missing_progress_bar_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "symdebias\[progress\]"'):
        sd.sgd(CORRECTED, *records(50, 2), progress=True)


@pytest.mark.in_turn
def test_a_fit_tells_its_story():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"age": rng.uniform(20, 60, 20_000), "hours": rng.uniform(0, 80, 20_000)})
    y = np.where(rng.random(20_000) < 0.5, -1, 1)
    release = sd.Release(
        features=sd.GaussianMechanism(epsilon=4.0, delta=1e-5, radius=2.0),
        target=sd.RandomizedResponse(epsilon=2.0),
        fit_intercept=True, center={"age": 40.0, "hours": 40.0}, scale={"age": 20.0, "hours": 40.0},
    )  # fmt: skip
    noised = release.privatize(table, y, random_state=0)
    fit = sd.sgd(sd.debias(sd.losses.exponential(), noised.release), noised.X, noised.y, l2=1.0, random_state=0)
    summary = fit.summary()
    for word in (
        "exponential",
        "age",
        "hours",
        "intercept",
        "(5.97243, 1e-05)-differential privacy",
        "20,000",
        "exact",
    ):
        assert word in summary
    assert fit.certificate.exact
    assert fit.diagnostics["score_variance"] == fit.corrected.score_variance(fit.theta) > 0
    assert "of the score at theta" in summary
    assert fit.guarantee == noised.release.guarantee
    released = (table - [40.0, 40.0]) / [20.0, 40.0]
    scores = released.to_numpy() @ fit.theta[:2] + fit.theta[2]
    np.testing.assert_allclose(
        table.to_numpy() @ fit.coefficients[:2] + fit.coefficients[2], scores, rtol=1e-12, atol=1e-15
    )
    with pytest.raises(ValueError, match="read-only"):
        fit.theta[0] = 1.0
    with pytest.raises(AttributeError):
        fit.theta = None


def _of_epochs(X, y, epochs, **options):
    """The parameters and mean losses at the ends of epochs."""
    per_epoch = -(-len(y) // options["batch_size"])
    run = sd.sgd(CORRECTED, X, y, epochs=epochs, record=range(0, epochs * per_epoch + 1, per_epoch), **options)
    return run.history.theta[1:], [CORRECTED.mean_loss(theta, X, y) for theta in run.history.theta[1:]]


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("patience", [1, 2, 5])
def test_early_stopping_returns_the_best_epoch_and_stops_in_time(patience, average):
    X, y = records(400, 2)
    options = {"step_size": 0.3, "batch_size": 20, "random_state": 3, "average": average}
    thetas, losses = _of_epochs(X, y, 90, **options)
    # The rule, by hand: the first epoch after which so many have been no better.
    best = next(
        k for k in range(90 - patience)
        if losses[k] == min(losses[: k + 1]) and min(losses[k + 1 : k + 1 + patience]) >= losses[k]
    )  # fmt: skip
    fit = sd.sgd(CORRECTED, X, y, epochs=90, early_stopping=patience, **options)
    assert best + patience < 89  # it does stop here
    np.testing.assert_array_equal(fit.theta, thetas[best])
    assert fit.diagnostics["best_epoch"] == best + 1
    assert fit.diagnostics["epochs"] == best + 1 + patience
    assert fit.diagnostics["steps"] == 20 * (best + 1 + patience)
    np.testing.assert_allclose(fit.diagnostics["epoch_losses"], losses[: best + 1 + patience], rtol=1e-12, atol=1e-15)
    assert fit.history.steps[-1] == 20 * (best + 1)
    np.testing.assert_array_equal(fit.history.theta[-1], fit.theta)


def test_early_stopping_without_reason_to_stop_changes_nothing():
    X, y = records(400, 2)
    options = {"step_size": 1e-3, "batch_size": 400, "epochs": 5, "order": "given"}
    plain, patient = sd.sgd(CORRECTED, X, y, **options), sd.sgd(CORRECTED, X, y, early_stopping=1, **options)
    np.testing.assert_array_equal(plain.theta, patient.theta)
    assert patient.diagnostics["best_epoch"] == patient.diagnostics["epochs"] == 5
    assert "best_epoch" not in plain.diagnostics


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"early_stopping": 2}, ValueError, "has nothing to stop"),
        ({"early_stopping": 0, "epochs": 3}, ValueError, "early_stopping=0 is too small"),
        ({"early_stopping": True, "epochs": 3}, TypeError, "early_stopping must be an integer"),
        ({"early_stopping": 1, "epochs": 3, "average": 0.5}, ValueError, "is a share of all steps"),
    ],
)
def test_early_stopping_that_cannot_be_is_refused(options, error, message):
    X, y = records(10, 2)
    with pytest.raises(error, match=message):
        sd.sgd(CORRECTED, X, y, **options)


def test_one_record_has_no_sampling_error_to_compare_with():
    corrected = sd.debias(sd.losses.least_squares(), sd.Release())
    with pytest.warns(sd.ConvergenceWarning, match="inf times its own sampling error"):
        sd.sgd(corrected, [[1.0, 2.0]], [1.0])


def shifted(n=2_000, shift=0.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = X @ [1.0, -0.5] + shift + 0.5 * rng.normal(size=n)
    noised = sd.Release(sd.GaussianMechanism.from_scale(0.5), fit_intercept=True).privatize(X, y, random_state=rng)
    return sd.debias(sd.losses.least_squares(), noised.release), noised.X, noised.y


@pytest.mark.in_turn
@pytest.mark.parametrize(("shift", "options"), [(0.0, {"step_size": 0.1}), (100.0, {}), (1e4, {"epochs": 3})])
def test_descent_that_has_not_arrived_says_how_far_away_it_is(shift, options):
    corrected, X, y = shifted(shift=shift)
    with pytest.warns(sd.ConvergenceWarning, match="training has not arrived") as caught:
        fit = sd.sgd(corrected, X, y, random_state=0, **options)
    assert fit.notes == (str(caught[0].message),)
    assert "note: training has not arrived" in fit.summary()
    root = sd.m_estimate(corrected, X, y)
    apart = fit.theta - root.theta
    # Standard errors are those at theta, where residuals may be larger than at the root.
    away = float(re.search("about (.*?) standard errors", fit.notes[0])[1])
    assert 0.3 < away / np.sqrt(apart @ np.linalg.solve(root.covariance, apart)) < 1.3


@pytest.mark.in_turn
def test_descent_that_is_a_little_away_has_a_note_alone():
    corrected, X, y = shifted()
    fit = sd.sgd(corrected, X, y, step_size=0.04, epochs=3, random_state=0)
    assert "training has not arrived" in fit.notes[0]
    assert not sd.sgd(corrected, X, y, step_size=0.04, epochs=10, random_state=0).notes
    replicates = sd.sgd_replicates(corrected, X, y, [{"step_size": 0.04}], epochs=3, random_state=0)
    assert "training has not arrived" in replicates[0].notes[0]


@pytest.mark.in_turn
@pytest.mark.parametrize("batch_size", [1, 16])
def test_batches_of_weighted_records_are_unbiased(batch_size):
    """The mean of g over the weights of each batch would be a ratio: at one record of it no weight counts.

    Of records whose lines differ, the heavy ones decide. Ratios are 50 and 10 standard errors away.
    """
    rng = np.random.default_rng(0)
    X, heavy = rng.normal(size=(20_000, 2)), rng.random(20_000) < 0.1
    y = np.where(heavy, X @ [2.0, 1.0], X @ [0.3, -1.0]) + 0.3 * rng.normal(size=20_000)
    noised = sd.Release(sd.GaussianMechanism.from_scale(0.3)).privatize(X, y, random_state=rng)
    corrected, weights = sd.debias(sd.losses.least_squares(), noised.release), np.where(heavy, 20.0, 1.0)
    root = sd.m_estimate(corrected, noised.X, noised.y, sample_weight=weights)
    fit = sd.sgd(
        corrected, noised.X, noised.y, sample_weight=weights, batch_size=batch_size, epochs=10, average=0.5,
        random_state=0,
    )  # fmt: skip
    assert np.all(np.abs(fit.theta - root.theta) < 1.5 * root.standard_errors)


@pytest.mark.in_turn
def test_weights_are_those_of_the_gradient_that_tells_of_arriving():
    """Records that hardly count have a gradient of their own where descent arrives."""
    rng = np.random.default_rng(0)
    X, counts = rng.normal(size=(40_000, 2)), rng.random(40_000) < 0.2
    y = np.where(counts, X @ [2.0, -1.0], X @ [-1.0, 0.5]) + 0.3 * rng.normal(size=40_000)
    noised = sd.Release(sd.GaussianMechanism.from_scale(0.4)).privatize(X, y, random_state=rng)
    corrected, weights = sd.debias(sd.losses.least_squares(), noised.release), np.where(counts, 1.0, 1e-3)
    fit = sd.sgd(corrected, noised.X, noised.y, sample_weight=weights, epochs=20, random_state=0)
    root = sd.m_estimate(corrected, noised.X, noised.y, sample_weight=weights)
    assert np.all(np.abs(fit.theta - root.theta) < 0.3 * root.standard_errors)
    assert not fit.notes


def test_a_value_without_a_finite_square_is_named_before_a_surrogate_is_designed():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3_000, 2)), np.where(rng.random(3_000) < 0.5, 1.0, -1.0)
    X[5, 0] = 1e160
    corrected = sd.debias(sd.losses.logistic(), gaussian_release(0.4))
    for solve in (sd.sgd, sd.m_estimate):
        with pytest.raises(ValueError, match="X has a value in row 5 that is too large"):
            solve(corrected, X, y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e100, 1e120, 1e153])
@pytest.mark.parametrize("loss", [sd.losses.logistic, sd.losses.exponential, sd.losses.huber])
@pytest.mark.parametrize("solve", [sd.m_estimate, sd.sgd])
def test_a_column_whose_squares_are_too_large_is_named(solve, loss, value):
    """What follows takes squares of squares, which ended in an error of SciPy."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), np.where(rng.random(500) < 0.5, 1.0, -1.0)
    X[3, 1] = value
    with pytest.raises(ValueError, match="the numbers of x1 are too large: their mean square is"):
        solve(sd.debias(loss(), gaussian_release(0.3)), X, y)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epochs": 10**12}, ValueError, r"steps are more than a run may have, 1,000,000,000"),
        ({"record": math.nan}, TypeError, r"record=nan is neither a number of iterates nor a sequence of steps"),
        ({"record": {}}, TypeError, r"record=\{\} is neither"),
        ({"record": "all"}, TypeError, r"record='all' is neither"),
        ({"record": np.array(3.0)}, TypeError, r"record=3\.0 is neither"),
        ({"step_size": lambda steps: "fast"}, ValueError, r"the step sizes of steps 1 to 3 are not 3 positive finite"),
        ({"step_size": lambda steps: 0.1}, ValueError, r"the step sizes of steps 1 to 3 are not 3 positive finite"),
        ({"step_size": lambda steps: [[1.0], 2.0]}, ValueError, r"the step sizes of steps 1 to 3 are not 3 positive"),
        ({"checkpoint": "run\0.npz"}, ValueError, r"the path 'run.*' has a null character"),
    ],
)
def test_runs_that_are_too_long_and_records_that_are_none_are_refused(options, error, message):
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.1)))
    X = np.random.default_rng(0).normal(size=(300, 2))
    with pytest.raises(error, match=message):
        sd.sgd(corrected, X, X @ [1.0, -1.0], random_state=0, **options)


def test_more_iterates_than_steps_are_all_of_them():
    corrected = sd.debias(sd.losses.least_squares(), sd.Release(sd.GaussianMechanism.from_scale(0.1)))
    X = np.random.default_rng(0).normal(size=(300, 2))
    with pytest.warns(sd.ConvergenceWarning):
        fit = sd.sgd(corrected, X, X @ [1.0, -1.0], batch_size=100, record=10**12, random_state=0)
    assert fit.history.steps.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("count", "waves"), [(50_000, 5), (40_000, 4)])
def test_waves_of_a_panel_one_after_another_are_no_period_of_what_is_looked_at(count, waves):
    """Every fifth record of 50,000 is looked at: of five waves that follow on one another they are of the first."""
    rng = np.random.default_rng(count)
    last = (np.arange(count) % waves == waves - 1).astype(float)
    x = rng.normal(size=count)
    y = np.where(rng.random(count) < 1 / (1 + np.exp(-(0.8 * x + last - 0.5))), 1.0, -1.0)
    release = sd.Release({"x": sd.GaussianMechanism.from_scale(0.4)}, noiseless=("last",), fit_intercept=True)
    corrected = sd.debias(sd.losses.exponential(), release)
    X = np.column_stack([x + 0.4 * rng.normal(size=count), last])
    fit = sd.m_estimate(corrected, X, y)
    found = sd.sgd(corrected, X, y, random_state=0, epochs=3, average=0.5, covariance="plug-in")
    assert np.all(np.abs(found.theta - fit.theta) < 1.5 * fit.standard_errors)
    np.testing.assert_allclose(found.standard_errors, fit.standard_errors, rtol=0.05)
