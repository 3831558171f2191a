import functools
import importlib
import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from sampling_statistics import normal_faults

import symdebias as sd
from symdebias.exceptions import ClippingWarning, DivergenceError, PrivacyError
from symdebias.mechanisms import batches, sampling
from symdebias.privacy import calibrate_noise_multiplier, published_noise, subsampled_gaussian_guarantee
from symdebias.solvers.central.records import PublicBounds, row_norms

module = importlib.import_module("symdebias.solvers.central.dp_lssgd")

BUDGET = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one", "accountant": "rdp"}
x1, x2, t1, t2, target = sp.symbols("x1 x2 t1 t2 y", real=True)
FREE = sd.Loss.of_features((t1 * x1**2 + t2 * x2 - target) ** 2, features=[x1, x2], parameters=[t1, t2], target=target)


def records(kind, n=300):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, {"softmax": 2, "free-form": 2}.get(kind, 3)))
    y = rng.integers(0, 3, n).astype(float) if kind == "softmax" else np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return X, y


CASES = {
    "logistic": (sd.losses.logistic(), {"fit_intercept": True, "smoothing": 0.0}),
    "softmax": (sd.losses.softmax(3), {"fit_intercept": True, "smoothing": 2.0, "smoothing_mode": "2d"}),
    "free-form": (FREE, {"smoothing": 0.0}),
}


def grid(clip, length):
    """The step of the grid that gradients are rounded to, and the norm that they may have then; by hand."""
    step = 2.0 ** math.floor(math.log2(clip / (2**20 * math.sqrt(length))))
    return step, clip + step * math.sqrt(length) / 2


def twin(loss, X, y, seed, *, clip, multiplier, probability, batch, steps, sizes, l2, radius, smoothing, mode):
    """Algorithm 1 with every gradient formed: what the kernel must agree with."""
    plain = sd.debias(loss, sd.Release(fit_intercept=mode[0]), method="none")
    shape = (len(loss.scores), X.shape[1] + mode[0]) if len(loss.scores) > 1 else (X.shape[1] + mode[0],)
    theta = np.zeros(shape)
    source = sampling.source(seed)
    rows, ends = batches.poisson_samples(len(X), probability, steps, source)
    step_of_grid, reach = grid(clip, theta.size)
    draws = sampling.normal_noise(multiplier * reach, (steps, theta.size), source)
    iterates = []
    for step, drawn in enumerate(np.split(rows, ends[:-1])):
        total = draws[step].copy()
        if len(drawn):
            each = plain.gradient(theta, X[drawn], y[drawn]).reshape(len(drawn), -1)
            each *= np.minimum(1.0, clip / np.linalg.norm(each, axis=1))[:, None]
            total += step_of_grid * np.rint(each / step_of_grid).sum(axis=0)
        penalty = l2 * theta
        if mode[0]:
            penalty[..., -1] = 0.0
        direction = total.reshape(shape) / batch + penalty
        theta = theta - sizes[step] * sd.laplacian_smoothing(direction, smoothing, mode=mode[1])
        theta = theta * min(1.0, radius / np.linalg.norm(theta))
        iterates.append(theta)
    return iterates


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", ["logistic", "free-form", pytest.param("softmax", marks=pytest.mark.exhaustive)])
def test_the_kernel_takes_the_steps_of_the_algorithm(kind):
    loss, options = CASES[kind]
    X, y = records(kind)
    schedule = sd.step_sizes.inverse_square_root(0.7)
    fit = sd.dp_lssgd(
        loss, X, y, **BUDGET, **options, clip=0.8, batch_size=20, epochs=2, step_size=schedule, l2=0.3, radius=0.05,
        record=(1, 7), random_state=11,
    )  # fmt: skip
    steps = fit.diagnostics["steps"]
    assert steps == 30
    iterates = twin(
        loss, X, y, 11, clip=0.8, multiplier=fit.diagnostics["noise_multiplier"], probability=20 / 300, batch=20,
        steps=steps, sizes=schedule(1.0 + np.arange(steps)), l2=0.3, radius=0.05, smoothing=options["smoothing"],
        mode=(options.get("fit_intercept", False), options.get("smoothing_mode", "flat")),
    )  # fmt: skip
    np.testing.assert_allclose(fit.theta, iterates[-1], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(fit.history.steps, [0, 1, 7, 30])
    np.testing.assert_allclose(fit.history.theta[1:], [iterates[0], iterates[6], iterates[-1]], atol=1e-12)
    assert fit.diagnostics["projections"] > 0


logistic = functools.partial(sd.dp_lssgd, sd.losses.logistic(), **BUDGET, smoothing=0.0)


@pytest.mark.in_turn
@pytest.mark.parametrize(("average", "first"), [(True, 0), (0.5, 15)])
def test_averages_are_means_of_iterates(average, first):
    X, y = records("logistic")
    options = {"clip": 1.0, "batch_size": 20, "epochs": 2, "random_state": 5}
    every = logistic(X, y, **options, record=range(31)).history.theta
    fit = logistic(X, y, **options, average=average)
    np.testing.assert_allclose(fit.theta, every[1 + first :].mean(axis=0), atol=1e-13)


def test_a_run_that_is_stopped_keeps_the_guarantee_of_the_whole(monkeypatch):
    X, y = records("logistic")
    options = {"clip": 1.0, "batch_size": 20, "epochs": 2, "random_state": 5}
    whole = logistic(X, y, **options, record=[10, 20])
    take, calls = module.Descent.take, []

    def stopping(self, *arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return take(self, *arguments)

    monkeypatch.setattr(module.Descent, "take", stopping)
    with pytest.raises(sd.FitInterrupted) as stop:
        logistic(X, y, **options, record=[10, 20])
    fit = stop.value.fit
    assert fit.diagnostics["steps"] == 20
    np.testing.assert_array_equal(fit.theta, whole.history.theta[2])
    assert fit.own_guarantee == whole.own_guarantee
    assert fit.diagnostics["seeded"]


def test_long_runs_are_cut_without_leaving_a_step_out(monkeypatch):
    monkeypatch.setattr(module, "_DRAWS", 64)
    X, y = records("logistic")
    options = {"clip": 1.0, "batch_size": 20, "epochs": 2, "random_state": 0}
    calls = []
    original = module._Noise.drawn
    monkeypatch.setattr(
        module._Noise, "drawn", lambda self, shape, source: calls.append(shape) or original(self, shape, source)
    )
    fit = logistic(X, y, **options, record=(4, 28))
    assert fit.diagnostics["steps"] == sum(steps for steps, _ in calls) == 30
    assert max(steps for steps, _ in calls) <= 3
    assert list(fit.history.steps) == [0, 4, 28, 30]
    # What is kept does not change what is drawn.
    every = logistic(X, y, **options, record=range(31)).history.theta
    np.testing.assert_array_equal(fit.history.theta, every[[0, 4, 28, 30]])


def test_what_is_not_finite_contributes_nothing():
    # At theta = 700 the exponential loss overflows for the first record, and for no other.
    X, y = np.array([[-9.0], [0.1]]), np.array([1.0, 1.0])
    options = {"clip": 1.0, "batch_size": 2, "epochs": 1, "start": [700.0], "random_state": 0, "step_size": 1.0}
    run = functools.partial(sd.dp_lssgd, sd.losses.exponential(), **BUDGET, smoothing=0.0)
    found = run(X, y, **options).theta
    np.testing.assert_array_equal(found, run(np.array([[0.0], [0.1]]), y, **options).theta)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("clip", [1e-13, 1e-20, 1e-100])
def test_slopes_whose_squares_underflow_are_clipped_too(clip):
    """A huge row with a slope of 1e-163: its square is lost, and the product is not."""
    X, y = np.zeros((4, 3)), np.array([-1.0, 1.0, 1.0, 1.0])
    X[0, 0] = 1e150
    options = {"clip": clip, "start": [-374e-150, 0.0, 0.0], "step_size": 1.0, "random_state": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Noise, "drawn", lambda self, shape, source: np.zeros(shape))
        found, without = (
            logistic(rows, y, **options, sampling_probability=1.0, batch_size=1, epochs=1).theta for rows in (X, 0 * X)
        )
    assert np.linalg.norm(found - without) <= clip


@pytest.mark.parametrize("columns", [1, 10, 10**5])
def test_norms_of_rows_are_never_too_small(columns):
    rows = np.full((3, columns), [[1.5e-162], [1e-200], [0.1]])
    exact = [math.sqrt(columns) * value for value in (1.5e-162, 1e-200, 0.1)]
    norms = row_norms(rows, constant=False)
    assert np.all(norms >= exact)
    assert norms[2] <= exact[2] * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_record_moves_the_sum_by_no_more_than_the_clip(seed):
    """One step on all records without noise: an exchanged row, huge or tiny, moves it by up to 2 C/b, and nearly so."""
    rng = np.random.default_rng(seed)
    clip, moved = 0.37, []

    def one_step(loss, X, y, **options):
        return sd.dp_lssgd(
            loss, X, y, **BUDGET, smoothing=0.0, clip=clip, batch_size=5, epochs=1, step_size=1.0, **options
        ).theta  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Noise, "drawn", lambda self, shape, source: np.zeros(shape))
        for _ in range(40):
            start = rng.normal(size=4)
            X = rng.normal(size=(5, 3)) * 10.0 ** rng.uniform(-3, 6)
            y = rng.choice([-1.0, 1.0], 5)
            other, flipped = X.copy(), y.copy()
            # The constant that is added to rows cannot be turned round, labels can.
            other[2], flipped[2] = X[2] * 10.0 ** rng.uniform(-2, 2), -y[2]
            change = one_step(sd.losses.logistic(), X, y, fit_intercept=True, start=start)
            change = change - one_step(sd.losses.logistic(), other, flipped, fit_intercept=True, start=start)
            moved.append(np.linalg.norm(change) * 5)
    assert max(moved) <= 2 * grid(clip, 4)[1] * (1 + 1e-12)
    assert max(moved) > 1.8 * clip


@pytest.mark.parametrize(
    ("loss", "options", "wanted"),
    [
        (sd.losses.logistic(), (1.0, None, math.inf, False), 1.0),
        (sd.losses.logistic(), (1.0, None, math.inf, True), math.sqrt(2)),
        (sd.losses.softmax(6), (10.0, None, math.inf, True), math.sqrt(2 * 101)),
        # |u - y| <= 6 + 4, times the norm 2 of a row.
        (sd.losses.least_squares(), (2.0, (-1, 4), 3.0, False), 20.0),
    ],
)
def test_the_derived_clip_is_the_longest_gradient(loss, options, wanted):
    record_radius, bounds, radius, constant = options
    found = module._derived_clip(loss, PublicBounds.checked(record_radius, bounds, fit_intercept=constant), radius)
    assert wanted * (1 - 1e-15) <= found <= wanted * (1 + 1e-6)


def test_nothing_is_clipped_at_the_derived_clip():
    X, y = records("logistic")
    X /= 1.001 * np.linalg.norm(X, axis=1, keepdims=True)
    options = {"batch_size": 100, "epochs": 1, "random_state": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Noise, "drawn", lambda self, shape, source: np.zeros(shape))
        derived = logistic(X, y, record_radius=1.0, **options)
        # The same step of the grid, and room to spare.
        free = logistic(X, y, clip=1.1, **options)
    assert derived.diagnostics["clip"] == 1.0
    assert derived.diagnostics["clip_derived"]
    assert not free.diagnostics["clip_derived"]
    np.testing.assert_array_equal(derived.theta, free.theta)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_the_guarantee_is_the_accountant_s_for_what_was_done(accountant, adjacency):
    pytest.importorskip("dp_accounting")
    X, y = records("logistic", 400)
    fit = sd.dp_lssgd(
        sd.losses.logistic(), X, y, epsilon=0.7, delta=1e-4, adjacency=adjacency, smoothing=0.0, clip=1.0,
        batch_size=40, sampling_probability=0.1, epochs=3, accountant=accountant, random_state=0,
    )  # fmt: skip
    multiplier = fit.diagnostics["noise_multiplier"]
    assert fit.diagnostics["steps"] == 30
    assert multiplier == calibrate_noise_multiplier(0.7, 1e-4, 0.1, 30, adjacency=adjacency, accountant=accountant)
    spent = subsampled_gaussian_guarantee(multiplier, 0.1, 30, 1e-4, adjacency=adjacency, accountant=accountant)
    assert fit.own_guarantee == spent
    assert 0.69 < fit.own_guarantee.epsilon <= 0.7
    text = str(fit.own_guarantee)
    for word in ("central", adjacency, accountant, "Poisson", "0.1", "30 steps"):
        assert word in text
    assert (fit.diagnostics["records"] is None) == (adjacency == "add-remove")
    assert f"records      {'private' if adjacency == 'add-remove' else '400'}\n" in fit.summary()


@pytest.mark.parametrize(("published", "noise"), [(False, "plain"), (True, "plain"), (False, None), (True, None)])
def test_the_noise_of_a_step_has_the_stated_scale(published, noise):
    """A step on rows of zeros leaves the noise; 6,000 numbers at a level of 1e-7 see a scale wrong by 10%."""
    X, y = np.zeros((40, 3)), np.ones(40)
    budget = BUDGET | ({"accountant": "published", "epsilon": 100.0, "delta": 1e-2} if published else {})
    fit = sd.dp_lssgd(
        sd.losses.logistic(), X, y, **budget, smoothing=0.0, clip=0.5, batch_size=4, epochs=200, step_size=1.0,
        record=range(2001), noise=noise,
    )  # fmt: skip
    drawn = -np.diff(fit.history.theta, axis=0) * 4
    scale = fit.diagnostics["noise_multiplier"] * 0.5
    if published:
        assert scale == pytest.approx(4 * published_noise(100.0, 1e-2, 40, 4, 2000, bound=0.5).scale, rel=1e-14)
    assert normal_faults(drawn, scale) == []
    # Each sum with its noise is a whole number of steps of the grid, and theta a sum of these.
    places = fit.history.theta * 4 / grid(0.5, 3)[0]
    assert np.array_equal(places, np.rint(places)) == (noise is None)
    assert fit.diagnostics["hardened"] == (noise is None)
    assert ("low bits" in fit.guarantee.basis) == (noise == "plain")


@pytest.mark.in_turn
@pytest.mark.parametrize(("kind", "length"), [("logistic", 4), ("softmax", 9), ("free-form", 2)])
def test_no_rounded_gradient_is_longer_than_the_noise_is_calibrated_to(kind, length):
    """One record, one step from a point, without noise: what it contributes, in exact arithmetic."""
    loss, options = CASES[kind]
    rng = np.random.default_rng(2)
    widest = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._Noise, "drawn", lambda self, shape, source: np.zeros(shape))
        for _ in range(60):
            clip = 10.0 ** rng.uniform(-3, 3)
            X = rng.normal(size=(1, 3 if kind == "logistic" else 2)) * 10.0 ** rng.uniform(-3, 8)
            y = np.array([rng.integers(0, 3) if kind == "softmax" else rng.choice([-1.0, 1.0])], dtype=float)
            found = sd.dp_lssgd(
                loss, X, y, **BUDGET, clip=clip, batch_size=1, epochs=1, step_size=1.0, sampling_probability=1.0,
                fit_intercept=options.get("fit_intercept", False), random_state=0,
            )  # fmt: skip
            step, _ = grid(clip, length)
            places = [Fraction(float(value)) / Fraction(step) for value in found.theta.ravel()]
            assert all(place.denominator == 1 for place in places)
            square = sum(place * place for place in places) * Fraction(step) ** 2
            # C' by hand: the clipped gradient to rounding, and half a step for each coordinate.
            assert square <= (Fraction(clip) * (1 + Fraction(1, 2**40)) + Fraction(step * math.sqrt(length)) / 2) ** 2
            noise = module._Noise.calibrated(1.0, 1e-5, "replace-one", "rdp", 1, 1, 1, 1.0, clip, length)
            assert square <= Fraction(noise.reach) ** 2
            assert noise.scale >= noise.multiplier * noise.reach
            widest = max(widest, float(square) / clip**2)
    assert widest > 1


@pytest.mark.parametrize("length", [1, 100, 10**6])
def test_the_largest_noise_is_whole_numbers_of_float64(length):
    """Where sums with noise are rounded, a released one tells the last bit of the sum: 2^52.85 steps were one sigma."""
    pytest.importorskip("dp_accounting")
    noise = module._Noise.calibrated(1e-4, 1e-8, "replace-one", "pld", 1000, 1000, 1000, None, 1.0, length)
    assert noise.multiplier > 1e6
    # 9.42 is the longest that 63 bits come to.
    assert 9.5 * noise.scale / noise.step + 1000 * (1 / noise.step + 1) < 2**53
    assert math.frexp(noise.step)[0] == 0.5
    assert noise.reach >= 1 + noise.step * math.sqrt(length) / 2
    assert noise.reach < 1 + 2**-17


def test_sums_beyond_the_whole_numbers_of_float64_are_refused():
    with pytest.raises(ValueError, match=r"root of that of parameters must be below 2\^31"):
        module._Noise.calibrated(1.0, 1e-5, "replace-one", "rdp", 2**31, 2**30, 1, None, 1.0, 4)


@pytest.mark.exhaustive
def test_smoothing_leaves_the_share_beta_of_the_noise():
    """400 steps of 18 coordinates: a share wrong by 20% would be seen at a level of 1e-7."""
    X, y = np.zeros((40, 2)), np.zeros(40)
    options = {"clip": 1e-9, "batch_size": 4, "epochs": 40, "step_size": 1.0, "record": range(401), "random_state": 1}
    with pytest.MonkeyPatch.context() as patch:
        # The constant has a gradient of its own; without clipping to next to nothing it would be in the sum.
        patch.setattr(module._Noise, "drawn", lambda self, shape, source: source.generator.standard_normal(shape))
        fit = sd.dp_lssgd(sd.losses.softmax(6), X, y, **BUDGET, smoothing=3.0, fit_intercept=True, **options)
    noise = np.diff(fit.history.theta, axis=0) * 4
    left = np.mean(noise.reshape(400, -1) ** 2)
    beta = sd.solvers.smoothing_beta(18, 3.0)
    weights = (1 + 4 * 3.0 * np.sin(np.pi * np.arange(18) / 18) ** 2) ** -2.0
    spread = math.sqrt(2 * np.sum(weights**2) / 400) / 18
    assert abs(left - beta) < 5.4 * spread
    assert 5.4 * spread < 0.2 * beta


def test_records_outside_the_radius_are_shortened_with_a_warning():
    X, y = records("logistic")
    with pytest.warns(ClippingWarning, match="record_radius=1 "):
        fit = logistic(X, y, record_radius=1.0, batch_size=100, epochs=1, random_state=0)
    short = X * np.minimum(1, 1 / np.linalg.norm(X, axis=1))[:, None]
    wanted = logistic(short, y, clip=1.0, batch_size=100, epochs=1, random_state=0)
    np.testing.assert_allclose(fit.theta, wanted.theta, atol=1e-12)


def test_theta_that_runs_away_says_nothing_of_records():
    X, y = records("logistic")
    with pytest.raises(DivergenceError, match="diverged at step") as caught:
        logistic(X, y, clip=1.0, step_size=1e50, l2=1e60)
    assert "record" not in str(caught.value)


GOOD = {"clip": 1.0, "batch_size": 100, "epochs": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"smoothing": -1.0}, "smoothing=-1"),
        ({"smoothing": math.nan}, "smoothing"),
        ({"smoothing_mode": "3d"}, "smoothing_mode='3d'"),
        ({"clip": 0.0}, "clip"),
        ({"clip": math.inf}, "clip"),
        ({"clip": math.nan}, "clip"),
        ({"clip": None}, "record_radius=None"),
        ({"sampling_probability": 0.0}, "sampling_probability"),
        ({"sampling_probability": 1.5}, "sampling_probability"),
        ({"l2": -1.0}, "l2"),
        ({"start": [9.0, 0.0, 0.0], "radius": 1.0}, "start is longer"),
        ({"start": [0.0]}, "theta"),
        ({"accountant": "moments"}, "accountant='moments'"),
        ({"record": [10**6]}, "not a step"),
        ({"adjacency": "add-remove"}, "sampling_probability=0.01"),
        ({"accountant": "published", "adjacency": "add-remove", "sampling_probability": 0.1}, "exactly b different"),
        ({"accountant": "published", "sampling_probability": 0.1}, "exactly b different"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    X, y = records("logistic")
    with pytest.raises((ValueError, TypeError), match=message):
        sd.dp_lssgd(sd.losses.logistic(), X, y, **{**BUDGET, **GOOD, **change})


def test_a_slope_without_a_bound_asks_for_one():
    X, y = records("logistic")
    with pytest.raises(ValueError, match="clip="):
        sd.dp_lssgd(sd.losses.exponential(), X, y, **BUDGET, record_radius=10.0)
    with pytest.raises(ValueError, match="free-form"):
        sd.dp_lssgd(FREE, *records("free-form"), **BUDGET, record_radius=10.0)


def test_the_theorem_is_refused_where_its_conditions_fail():
    X, y = records("logistic")
    with pytest.raises(PrivacyError, match="does not hold") as caught:
        sd.dp_lssgd(sd.losses.logistic(), X, y, **{**BUDGET, "accountant": "published"}, **GOOD)
    assert "1.5: holds" in str(caught.value)
    assert ": fails" in str(caught.value)
