"""Descent with an offset that is a column whose parameter is held at 1."""

import importlib
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import symdebias as sd
from symdebias._randomness import generator
from symdebias._rows import Rows
from symdebias.exceptions import ConvergenceWarning, DivergenceError, InfiniteVarianceError, VarianceWarning
from symdebias.solvers import archive, checkpoint
from symdebias.solvers.deal import Deal

training = importlib.import_module("symdebias.solvers.training")

NOISE, THETA = 0.4, np.array([0.5, -0.3, 0.2])
RELEASE = sd.Release(
    {"x": sd.GaussianMechanism.from_scale(NOISE)}, sd.RandomizedResponse(3.0), noiseless=("z",), fit_intercept=True
)
CORRECTED = sd.debias(sd.losses.exponential(), RELEASE)
FEW = 100


@pytest.fixture(autouse=True)
def uncompiled(request):
    """Few records are not worth a kernel, but for the tests that ask for it."""
    if not request.node.get_closest_marker("compiled"):
        request.getfixturevalue("in_python")


def labelled(n=FEW, seed=5, release=RELEASE):
    """Released columns and labels, and offsets of their scores."""
    rng = np.random.default_rng(seed)
    true, offset = rng.normal(size=(n, 2)), rng.normal(0.3, 0.7, n)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-(true @ THETA[:2] + THETA[2] + offset))), 1.0, -1.0)
    noised = release.privatize(true, y, random_state=seed)
    return noised.X, noised.y, offset


def gradients(theta, X, y, offset, scale=NOISE):
    """The slopes of the exponential loss at u + o without the noise of x and of labels, both inverses by hand."""
    rows, variances = np.column_stack([X, np.ones(len(y))]), np.broadcast_to(scale, len(y)) ** 2
    noise, found, gain = np.outer(variances, [theta[0], 0, 0]), 0.0, 1 / np.tanh(3.0 / 2)
    for label in (1, -1):
        share = (1 + gain * label * y) / 2
        value = share * np.exp(-label * (rows @ theta + offset) - variances * theta[0] ** 2 / 2)
        found = found - value[:, None] * (label * rows + noise)
    return found


def smoothed(vector, sigma):
    return sd.laplacian_smoothing(vector, sigma) if sigma else vector


def path_of(X, y, offset, *, sizes, batch, orders, l2=0.0, radius=np.inf, sigma=0.0, weights=None, scale=NOISE):
    """The iterates of Algorithm 1, step by step."""
    theta, path, sizes = np.zeros(3), [np.zeros(3)], iter(sizes)
    weights, scale = np.ones(len(y)) if weights is None else weights, np.broadcast_to(scale, len(y))
    for order in orders:
        for start in range(0, len(y), batch):
            rows = order[start : start + batch]
            own = gradients(theta, X[rows], y[rows], offset[rows], scale[rows])
            slope = (weights[rows, None] * own).mean(axis=0) / weights.mean() + l2 * theta * [1, 1, 0]
            theta = theta - next(sizes) * smoothed(slope, sigma)
            theta = theta * min(1.0, radius / max(np.linalg.norm(theta), 1e-300))
            path.append(theta)
    return np.array(path)


def quietly(call, *arguments, **options):
    """Return a fit to so few records that it may be warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, VarianceWarning))
        return call(*arguments, **options)


OPTIONS = {
    "plain": {},
    "penalised": {"l2": 0.5},
    "in a ball": {"radius": 0.15, "l2": 0.1},
    "smoothed": {"smoothing": 1.5, "l2": 0.1},
    "weighted": {"sample_weight": np.arange(FEW) % 3.0},
    "with scales": {"noise_scale": np.linspace(0.1, 0.6, FEW)},
    "as given": {"order": "given", "batch_size": 7},
    "one by one": {"order": "given", "batch_size": 1, "epochs": 1},
}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", OPTIONS)
def test_steps_with_an_offset_are_those_of_algorithm_1(name):
    X, y, offset = labelled()
    options = {"batch_size": 13, "epochs": 2, "random_state": 3, **OPTIONS[name]}
    batch, epochs = options["batch_size"], options["epochs"]
    count = epochs * -(-FEW // batch)
    rule, rng, places = sd.step_sizes.inverse_square_root(0.1), generator(3), np.arange(FEW)
    given = options.get("order") == "given"
    orders = [places if given else Deal.shuffled(FEW, 3, rng).rows(0, FEW, FEW) for _ in range(epochs)]
    path = path_of(
        X, y, offset, sizes=rule(np.arange(1.0, count + 1)), batch=batch, orders=orders, l2=options.get("l2", 0.0),
        radius=options.get("radius", np.inf), sigma=options.get("smoothing", 0.0),
        weights=options.get("sample_weight"), scale=options.get("noise_scale", NOISE),
    )  # fmt: skip
    fit = quietly(sd.sgd, CORRECTED, X, y, offset=offset, step_size=rule, record=range(count + 1), **options)
    np.testing.assert_allclose(fit.history.theta, path, rtol=1e-11, atol=1e-14)
    assert fit.names == ("x", "z", "intercept")
    assert fit.corrected.release == RELEASE
    assert fit.diagnostics["offset"]
    assert fit.diagnostics["score_variance"] == pytest.approx(
        np.mean(np.broadcast_to(options.get("noise_scale", NOISE), FEW) ** 2) * fit.theta[0] ** 2
    )
    if name == "in a ball":
        assert fit.diagnostics["projections"] > 0
        assert np.linalg.norm(path, axis=1).max() == pytest.approx(0.15)
    averaged = quietly(sd.sgd, CORRECTED, X, y, offset=offset, step_size=rule, average=0.5, **options)
    first = count - max(1, round(0.5 * count))
    np.testing.assert_allclose(averaged.theta, path[first + 1 :].mean(axis=0), rtol=1e-11)
    # The same in the pass of replicates, beside others.
    shared = {key: value for key, value in options.items() if key not in ("l2", "radius")}
    own = {key: value for key, value in options.items() if key in ("l2", "radius")}
    settings = [{"step_size": 0.01}, {"step_size": rule, **own}, {}]
    replicates = quietly(sd.sgd_replicates, CORRECTED, X, y, settings, offset=offset, **shared)
    np.testing.assert_allclose(replicates.thetas[1], fit.theta, rtol=1e-11)
    learned = quietly(sd.sgd, CORRECTED, X, y, offset=offset, **shared)
    np.testing.assert_allclose(replicates.thetas[2], learned.theta, rtol=1e-11)
    assert replicates[1].corrected.release == replicates.corrected.release == RELEASE


@pytest.mark.parametrize("options", [{}, {"radius": 0.3}, {"l2": 0.5, "average": 0.5}, {"smoothing": 1.0}])
def test_an_offset_of_zero_is_none(options):
    """Learned steps and the tests of a lost fit included."""
    X, y, _ = labelled()
    options = {"epochs": 3, "batch_size": 16, "random_state": 1, **options}
    plain = quietly(sd.sgd, CORRECTED, X, y, **options)
    held = quietly(sd.sgd, CORRECTED, X, y, offset=np.zeros(FEW), **options)
    # Step sizes are learned from differences of gradients.
    np.testing.assert_allclose(held.theta, plain.theta, rtol=1e-7, atol=1e-8)
    for name in ("carrying_share", "noise_inflation", "score_variance", "projections"):
        assert held.diagnostics[name] == pytest.approx(plain.diagnostics[name], rel=1e-7)
    for part in ("scale", "offset"):
        wanted = getattr(plain.diagnostics["step_size"], part)
        assert getattr(held.diagnostics["step_size"], part) == pytest.approx(wanted, rel=1e-7)


def test_a_constant_offset_is_another_start_of_the_intercept():
    X, y, _ = labelled()
    options = {"step_size": 0.1, "epochs": 2, "batch_size": 16, "order": "given", "l2": 0.3, "record": 4}
    moved = quietly(sd.sgd, CORRECTED, X, y, offset=np.full(FEW, 0.7), **options)
    plain = quietly(sd.sgd, CORRECTED, X, y, start=[0, 0, 0.7], **options)
    np.testing.assert_allclose(moved.history.theta, plain.history.theta - [0, 0, 0.7], atol=1e-13)
    begun = quietly(sd.sgd, CORRECTED, X, y, offset=np.full(FEW, 0.7), start=[0.1, 0, -0.7], **options)
    plain = quietly(sd.sgd, CORRECTED, X, y, start=[0.1, 0, 0], **options)
    np.testing.assert_allclose(begun.theta, plain.theta - [0, 0, 0.7], atol=1e-13)


def test_descent_arrives_where_newton_does():
    """Within a tenth of a standard error; without the offset a slope is half of one away."""
    root = sd.m_estimate(CORRECTED, X, Y, offset=OFFSET)
    options = {"step_size": 0.05, "average": 0.5, "epochs": 60, "batch_size": 16, "random_state": 0}
    fit = quietly(sd.sgd, CORRECTED, X, Y, offset=OFFSET, covariance="plug-in", **options)
    assert np.all(np.abs(fit.theta - root.theta) < 0.1 * root.standard_errors)
    np.testing.assert_allclose(fit.standard_errors, root.standard_errors, rtol=0.1)
    assert fit.confidence_interval().shape == (3, 2)
    blind = quietly(sd.sgd, CORRECTED, X, Y, **options)
    assert np.any(np.abs(blind.theta - root.theta) > 0.5 * root.standard_errors)


@pytest.mark.compiled
@pytest.mark.exhaustive
def test_intervals_of_averages_cover():
    """Of 150 draws 95% intervals cover 88 to 100%, else by chance in one of ten thousand; 10% too short ones show."""
    covered = []
    truth = sd.m_estimate(CORRECTED, *(given := labelled(400_000, seed=99))[:2], offset=given[2]).theta
    for seed in range(150):
        X, y, offset = labelled(1_500, seed=seed)
        fit = quietly(
            sd.sgd, CORRECTED, X, y, offset=offset, average=0.5, epochs=30, batch_size=16, random_state=0,
            covariance="plug-in",
        )  # fmt: skip
        low, high = fit.confidence_interval().T
        covered.append((low < truth) & (truth < high))
    assert np.all((np.mean(covered, axis=0) > 0.88) & (np.mean(covered, axis=0) <= 1.0))


@pytest.mark.in_turn
def test_a_surrogate_is_designed_for_scores_with_their_offsets():
    """The root of Newton's method is one of descent as well, which without offsets leaves it for the smaller scores."""
    release = sd.Release(sd.GaussianMechanism.from_scale(0.3), fit_intercept=True)
    X, y, offset = labelled(release=release)
    corrected = sd.debias(sd.losses.logistic(), release)
    options = {"l2": 0.05, "epochs": 25, "average": 0.5, "random_state": 0, "batch_size": 4}
    root = sd.m_estimate(corrected, X, y, offset=3 * offset - 0.6, l2=0.05)
    options["start"] = root.theta
    fit = quietly(sd.sgd, corrected, X, y, offset=3 * offset - 0.6, **options)
    assert fit.corrected.design.radius > 3
    assert fit.corrected.release == release
    assert len(fit.diagnostics["pilot"]["theta"]) == 3
    assert np.all(np.abs(fit.theta - root.theta) < 0.3 * root.standard_errors)
    # Resolved, it is trained as it is.
    assert root.inference.bias_factors.shape[:2] == (1, 3)
    np.testing.assert_allclose(np.linalg.norm(root.inference.bias_factors[0], axis=1), root.bias_bound)
    again = quietly(sd.sgd, fit.corrected, X, y, offset=3 * offset - 0.6, **options)
    assert again.corrected.design == fit.corrected.design
    assert np.all(np.abs(again.theta - root.theta) < 0.3 * root.standard_errors)
    blind = quietly(sd.sgd, corrected, X, y, **options)
    assert np.any(np.abs(blind.theta - root.theta) > 0.5 * root.standard_errors)
    with pytest.raises(ValueError, match="has an offset"):
        fit.predict(X)


def test_one_parameter_beside_an_offset_has_the_curvature_of_its_own():
    """Where the least curvature is looked at, that of what is held is not among them: it has no error."""
    release = sd.Release(sd.GaussianMechanism.from_scale(NOISE))
    corrected = sd.debias(sd.losses.exponential(), release)
    rng = np.random.default_rng(0)
    X, y, offset = rng.normal(size=(400, 1)), rng.choice([-1.0, 1.0], 400), rng.normal(size=400)
    held = sd.m_estimate(corrected, X, y, offset=0 * offset)
    assert held.diagnostics["curvature"] == pytest.approx(sd.m_estimate(corrected, X, y).diagnostics["curvature"])
    fits = [quietly(sd.sgd, corrected, X, y, random_state=0, **more) for more in ({}, {"offset": 0 * offset})]
    curvatures = [fit.diagnostics["curvature"] for fit in fits]
    assert curvatures[1] == pytest.approx(curvatures[0], rel=1e-6)
    assert np.isfinite(curvatures[1])


def test_early_stopping_looks_at_losses_with_the_offset():
    X, y, offset = labelled()
    fit = quietly(
        sd.sgd, CORRECTED, X, y, offset=offset, step_size=0.3, epochs=6, early_stopping=2, random_state=0, record=6
    )
    gain, rows = 1 / np.tanh(3.0 / 2), np.column_stack([X, np.ones(FEW)])
    best = fit.theta
    by_hand = sum(
        (1 + gain * label * y) / 2 * np.exp(-label * (rows @ best + offset) - NOISE**2 * best[0] ** 2 / 2)
        for label in (1, -1)
    ).mean()
    assert min(fit.diagnostics["epoch_losses"]) == pytest.approx(by_hand, rel=1e-12)


def test_records_of_all_kinds():
    X, y, offset = labelled()
    X, offset = X.astype("f4").astype(float), offset.astype("f4").astype(float)
    options = {"step_size": 0.1, "order": "given", "batch_size": 16}

    def theta(X, y, offset):
        return quietly(sd.sgd, CORRECTED, X, y, offset=offset, **options).theta

    plain = theta(X, y, offset)
    table = pd.DataFrame(X, columns=["x", "z"])
    source = sd.blocks.Rows(X.shape, lambda rows: X[rows]), sd.blocks.Rows(y.shape, lambda rows: y[rows])
    anywhere = Rows.of_array(X), Rows.of_array(y)
    frozen = offset.copy()
    frozen.flags.writeable = False
    for given in (
        (X.astype("f4"), y.astype(int), offset.astype("f4")),
        (np.asfortranarray(X), y.tolist(), offset.tolist()),
        (table, pd.Series(y), pd.Series(offset)),
        (*source, frozen),
        (*anywhere, frozen),
    ):
        np.testing.assert_array_equal(theta(*given), plain)
    shuffled = [
        quietly(sd.sgd, CORRECTED, *given, offset=offset, random_state=3, batch_size=16).theta
        for given in ((X, y), anywhere)
    ]
    np.testing.assert_array_equal(*shuffled)
    with pytest.raises(ValueError, match="offset"):
        theta(table, pd.Series(y), pd.Series(offset, index=np.arange(FEW)[::-1]))


X, Y, OFFSET = labelled()
JOINT = sd.Release(sd.LaplaceMechanism(epsilon=2.0, radius=1.0), target="joint", target_bounds=(-1, 1))
REFUSED = {
    "another length": (CORRECTED, X, Y, OFFSET[:5], r"shape \(5,\); it must be \(100,\)"),
    "a matrix": (CORRECTED, X, Y, OFFSET[:, None], r"shape \(100, 1\)"),
    "NaN": (CORRECTED, X, Y, np.where(np.arange(FEW) == 3, np.nan, OFFSET), "offset has NaN in row 3"),
    "infinite": (CORRECTED, X, Y, np.where(np.arange(FEW) == 3, np.inf, OFFSET), "offset has infinity in row 3"),
    "no score": (CORRECTED, X, Y, np.where(np.arange(FEW) == 3, 1e120, OFFSET), "offset is 1e.120 in row 3"),
    "text": (CORRECTED, X, Y, ["a"] * FEW, "offset must hold real numbers"),
    "NaN in X": (CORRECTED, np.where(X == X[17, 1], np.nan, X), Y, OFFSET, "row 17"),
    "other labels": (CORRECTED, X, Y + 5, OFFSET, "label"),
    "one vector": (sd.debias(sd.losses.least_squares(), JOINT), X, Y, OFFSET, "features and target in one vector"),
    "several scores": (
        sd.debias(sd.losses.softmax(3), sd.Release(target=sd.RandomizedResponse(2.0, categories=(0, 1, 2)))),
        X, np.arange(FEW) % 3, OFFSET, "known term of one score, .* has 3. Fit one class against another",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("solver", ["sgd", "sgd_replicates"])
def test_what_is_no_offset_is_refused(name, solver):
    corrected, X, y, offset, message = REFUSED[name]
    more = ([{}],) if solver == "sgd_replicates" else ()
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(sd, solver)(corrected, X, y, *more, offset=offset)


def test_training_that_diverges_says_where():
    offset = np.where(np.arange(FEW) == 40, -60.0, OFFSET)
    labels = np.where(np.arange(FEW) == 40, 1.0, Y)
    with pytest.raises(DivergenceError, match=r"diverged at step 3 .*record 40 has"):
        sd.sgd(CORRECTED, X, labels, offset=offset, step_size=1.0, order="given", batch_size=16)
    laplace = sd.debias(
        sd.losses.exponential(), sd.Release(sd.LaplaceMechanism.from_scale(0.5), sd.RandomizedResponse(2.0))
    )
    with pytest.raises(InfiniteVarianceError, match=r"at step \d+ \(\|\|theta\|\| = "):
        sd.sgd(laplace, X, Y, offset=OFFSET, start=[1.9, 0.0], step_size=0.1)
    with pytest.warns(ConvergenceWarning, match=r"1 of 2 replicates .*record 40 has"):
        replicates = sd.sgd_replicates(
            CORRECTED, X, labels, [{"step_size": 1.0}, {"step_size": 1e-29}], offset=offset, order="given",
            batch_size=16,
        )  # fmt: skip
    assert list(replicates.errors) == [0]


def test_losses_of_replicates_on_other_records_have_their_offset():
    options = {"batch_size": 16, "random_state": 0}
    replicates = quietly(sd.sgd_replicates, CORRECTED, X, Y, [{"step_size": 0.1}, {}], offset=OFFSET, **options)
    rows, gain = np.column_stack([X, np.ones(FEW)]), 1 / np.tanh(3.0 / 2)
    weights = np.arange(FEW) % 3.0
    for theta, found in zip(
        replicates.thetas, replicates.mean_losses(X, Y, offset=OFFSET, sample_weight=weights), strict=True
    ):
        each = sum(
            (1 + gain * label * Y) / 2 * np.exp(-label * (rows @ theta + OFFSET) - NOISE**2 * theta[0] ** 2 / 2)
            for label in (1, -1)
        )
        assert found == pytest.approx(np.average(each, weights=weights), rel=1e-12)
    with pytest.raises(ValueError, match=r"these replicates have an offset, .* Pass offset="):
        replicates.mean_losses(X, Y)
    with pytest.raises(ValueError, match=r"shape \(2,\); it must be \(100,\)"):
        replicates.mean_losses(X, Y, offset=[0.0, 1.0])


def test_a_run_that_is_killed_goes_on_with_its_offset(monkeypatch, tmp_path):
    place = tmp_path / "run.checkpoint"

    def run(offset=OFFSET, **more):
        return quietly(
            sd.sgd,
            CORRECTED,
            X,
            Y,
            offset=offset,
            step_size=0.1,
            epochs=3,
            average=True,
            batch_size=16,
            random_state=7,
            **more,
        )

    whole, write = run(), archive.write
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    monkeypatch.setattr(training, "_SEGMENT", 32)
    written = []

    def killed(*arguments):
        write(*arguments)
        written.append(1)
        if len(written) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(archive, "write", killed)
    with pytest.raises(sd.exceptions.FitInterrupted) as stopped:
        run(checkpoint=place)
    monkeypatch.setattr(archive, "write", write)
    assert stopped.value.fit.theta.shape == (3,)
    assert place.exists()
    with pytest.raises(ValueError, match="its records was another"):
        run(OFFSET + 1e-9, checkpoint=place)
    np.testing.assert_array_equal(run(checkpoint=place).theta, whole.theta)


def test_categories_stand_before_the_column_that_is_held():
    release = sd.Release(
        {"c": sd.RandomizedResponse(2.0, categories=(0, 1, 2)), "x": sd.GaussianMechanism.from_scale(0.3)},
        fit_intercept=True,
    )
    corrected = sd.debias(sd.losses.exponential(), release)
    rng = np.random.default_rng(2)
    columns = np.column_stack([rng.integers(0, 3, FEW), rng.normal(size=FEW)])
    options = {"order": "given", "batch_size": 16, "epochs": 2, "step_size": 0.05}
    moved = quietly(sd.sgd, corrected, columns, Y, offset=np.full(FEW, 0.4), **options)
    plain = quietly(sd.sgd, corrected, columns, Y, start=[0.0, 0.0, 0.0, 0.4], **options)
    np.testing.assert_allclose(moved.theta, plain.theta - [0, 0, 0, 0.4], atol=1e-12)


@pytest.mark.in_turn
@pytest.mark.compiled
def test_compiled_passes_hold_the_parameter():
    """Each takes a kernel of its own: that of one descent, and that of many beside one whose steps are learned."""
    sizes, orders = np.full(14, 0.05), [np.arange(FEW)] * 2
    path = path_of(X, Y, OFFSET, sizes=sizes, batch=16, orders=orders)
    options = {"order": "given", "batch_size": 16, "epochs": 2, "offset": OFFSET}
    fit = quietly(sd.sgd, CORRECTED, X, Y, step_size=0.05, **options)
    np.testing.assert_allclose(fit.theta, path[-1], rtol=1e-11)
    replicates = quietly(sd.sgd_replicates, CORRECTED, X, Y, [{"step_size": 0.05}, {}], **options)
    np.testing.assert_allclose(replicates.thetas[0], path[-1], rtol=1e-11)
    given = {"offset": OFFSET, "batch_size": 1, "average": True, "random_state": 0, "covariance": "batch means"}
    many = [np.tile(one, (60,) + (1,) * (one.ndim - 1)) for one in (X, Y, OFFSET)]
    online = sd.sgd(
        CORRECTED, *many[:2], step_size=sd.step_sizes.StepSize(0.1, power=0.6), **{**given, "offset": many[2]}
    )
    assert online.covariance.shape == (3, 3)
    assert np.all(online.standard_errors > 0)


def test_a_stream_with_offsets_is_one_pass():
    """Of labels, and of counts, where blocks of short exposures are not to weigh as much as those of long ones."""
    halves = slice(0, 48), slice(48, None)
    options = {"order": "given", "batch_size": 16, "step_size": 0.1}
    whole = quietly(sd.sgd, CORRECTED, X, Y, offset=OFFSET, **options)
    model = sd.DebiasedClassifier(loss="exponential", release=RELEASE, solver="sgd", l2=0.0, solver_options=options)
    for part in halves:
        quietly(model.partial_fit, X[part], Y[part], offset=OFFSET[part])
    np.testing.assert_allclose(model.fit_.theta, whole.theta, rtol=1e-12)
    with pytest.raises(ValueError, match="earlier records had an offset, and further ones need theirs"):
        model.partial_fit(X, Y)
    quietly(model.fit, X, Y, offset=OFFSET)
    np.testing.assert_array_equal(model.fit_.theta, whole.theta)
    assert model.predict(X, offset=OFFSET).shape == (FEW,)

    rng = np.random.default_rng(3)
    plain = sd.Release(fit_intercept=True)
    exposure = np.where(np.arange(FEW) < 48, 0.1, 5.0) * rng.uniform(0.5, 1, FEW)
    counts = rng.poisson(exposure * np.exp(0.3 * X[:, 0])).astype(float)
    model = sd.DebiasedRegressor(loss="poisson", release=plain, solver="sgd", l2=0.1, solver_options=options)
    theta = np.zeros(3)
    for part in halves:
        quietly(model.partial_fit, X[part], counts[part], offset=np.log(exposure[part]))
    rows = np.column_stack([X, np.ones(FEW)])
    for start in range(0, FEW, 16):
        part = slice(start, start + 16)
        slopes = (exposure[part] * np.exp(rows[part] @ theta) - counts[part])[:, None] * rows[part]
        theta = theta - 0.1 * (slopes.mean(axis=0) + 0.1 * theta * [1, 1, 0])
    np.testing.assert_allclose(model.fit_.theta, theta, rtol=1e-11)
    # A fit makes weights of exposures, with their mean 1: what comes after it goes on with steps of that size.
    model.set_params(solver_options={**options, "step_size": 0.005})
    quietly(model.fit, X[halves[0]], counts[halves[0]], offset=np.log(exposure[halves[0]]))
    theta, gain = model.fit_.theta.copy(), 1 / exposure[halves[0]].mean()
    quietly(model.partial_fit, X[halves[1]], counts[halves[1]], offset=np.log(exposure[halves[1]]))
    for start in range(48, FEW, 16):
        part = slice(start, start + 16)
        slopes = (exposure[part] * np.exp(rows[part] @ theta) - counts[part])[:, None] * rows[part]
        theta = theta - 0.005 * gain * (slopes.mean(axis=0) + 0.1 * theta * [1, 1, 0])
    np.testing.assert_allclose(model.fit_.theta, theta, rtol=1e-11)


def test_a_pilot_that_runs_away_with_an_offset_names_it():
    X, y, offset = labelled()
    corrected = sd.debias(sd.losses.logistic(), RELEASE)
    with pytest.raises(DivergenceError, match=r"runs away.*units of the offset"):
        sd.m_estimate(corrected, X, y, offset=1e5 * offset)


def test_few_records_decide_beside_an_offset_as_without_one():
    """The parameter that is held is moved by no record, and does not hide the one that four records decide."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.normal(size=2_000), np.zeros(2_000)], axis=1)
    X[:4, 1] = [1.0, -1.2, 0.8, 1.1]
    offset = 0.3 * rng.normal(size=2_000)
    y = np.where(rng.random(2_000) < 1 / (1 + np.exp(-(X @ [1.0, 0.5] + offset))), 1.0, -1.0)
    corrected = sd.debias(sd.losses.logistic(), sd.Release())
    for how in ({}, {"offset": offset}):
        fit = sd.m_estimate(corrected, X, y, l2=1e-3, **how)
        assert re.search(r"as few as 3\.\d* records decide", fit.summary())
        assert fit.inference.skewness.shape == (2, 2)
