"""Offsets of records in partitions: the fits and metrics of one machine, by another target and weight or a column."""

import functools

import numpy as np
import pytest

import symdebias as sd

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

# Fits on so few records run uncompiled.
FEW = 100
NOISE = sd.GaussianMechanism.from_scale(0.3)
COUNTS = sd.Release({"x": NOISE}, noiseless=("z",), fit_intercept=True)
LABELS = sd.Release({"x": NOISE}, sd.RandomizedResponse(4.0), noiseless=("z",), fit_intercept=True)
LOSSES = {"poisson": COUNTS, "tweedie": COUNTS, "least_squares": COUNTS, "exponential": LABELS}


@functools.cache
def records(loss, n=FEW):
    """Return a table of released columns, target, offset, weights and persons."""
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(n, 2)), rng.uniform(-1, 2, n)
    score = X @ [0.5, -0.3] + 0.2 + offset
    y = (
        rng.poisson(np.exp(score))
        if LOSSES.get(loss, LABELS) is COUNTS
        else np.where(score > rng.logistic(size=n), 1, -1)
    )
    table = pd.DataFrame({"x": X[:, 0] + 0.3 * rng.normal(size=n), "z": X[:, 1], "y": y.astype(float)})
    return table.assign(o=offset, w=rng.uniform(0.5, 2.0, n), c=rng.integers(0, 30, n))


def in_arrays(table):
    """Return arrays that are not cut alike."""
    cut = max(17, len(table) // 6)
    columns = (da.from_array(table[name].to_numpy(), chunks=cut + 3 * k) for k, name in enumerate("yowc"))
    return da.from_array(table[["x", "z"]].to_numpy(), chunks=(cut, 1)), *columns


def in_frames(table):
    """Return columns of a data frame, whose last partition is empty."""
    parts = dd.from_pandas(table, npartitions=4)
    parts = dd.concat([parts, parts[parts["w"] > 9]])
    return parts[["x", "z"]], *(parts[name] for name in "yowc")


def compared(found, expected):
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-10)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-10)
    assert found.diagnostics.keys() == expected.diagnostics.keys()
    for name in ("records", "steps", "stages", "start", "safeguards", "hessian", "offset", "l2"):
        assert found.diagnostics[name] == expected.diagnostics[name], name
    for name in ("carrying_share", "noise_inflation", "curvature", "score_variance"):
        value, wanted = (one.diagnostics[name] for one in (found, expected))
        assert value == (None if wanted is None else pytest.approx(wanted, rel=1e-8)), name
    assert found.corrected.release == expected.corrected.release


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_with_an_offset_is_that_of_one_machine(loss, weighted):
    table, corrected = records(loss), sd.debias(getattr(sd.losses, loss)(), LOSSES[loss])
    X, y, offset, weights, persons = (in_frames if weighted else in_arrays)(table)
    options = {"sample_weight": weights, "clusters": persons, "l2": 0.05} if weighted else {}
    here = {"sample_weight": table["w"], "clusters": table["c"], "l2": 0.05} if weighted else {}
    expected = sd.m_estimate(corrected, table[["x", "z"]], table["y"], offset=table["o"], **here)
    found = sd.distributed.m_estimate(corrected, X, y, offset=offset, **options)
    compared(found, expected)
    plain = sd.m_estimate(corrected, table[["x", "z"]], table["y"], **here)
    assert np.abs(plain.theta - found.theta).max() > 0.1


@pytest.mark.exhaustive
@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_a_surrogate_has_the_offset_of_one_machine(loss):
    """With scales of the records' own as well, and a bound on the other parameters."""
    table, release = records(loss, 30_000), LABELS if loss == "logistic" else COUNTS
    corrected = sd.debias(getattr(sd.losses, loss)(), release)
    X, y, offset, *_ = in_arrays(table)
    given = table[["x", "z"]].to_numpy(), table["y"].to_numpy()
    scales = np.column_stack([np.full(len(table), 0.3), np.zeros(len(table))])
    for options, here in (
        ({}, {}),
        ({"radius": 0.4}, {"radius": 0.4}),
        ({"noise_scale": da.from_array(scales, chunks=(5_000, 2))}, {"noise_scale": scales}),
    ):
        expected = sd.m_estimate(corrected, *given, offset=table["o"].to_numpy(), **here)
        found = sd.distributed.m_estimate(corrected, X, y, offset=offset, **options)
        np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-10)
        np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-10)
        assert found.diagnostics["safeguards"] == expected.diagnostics["safeguards"]


def test_a_penalty_stands_beside_the_loss_with_its_exposure():
    """Twice the exposure of all is an intercept moved by log 2, with the same penalty on the others."""
    table, corrected = records("poisson"), sd.debias(sd.losses.poisson(), COUNTS)
    X, y, offset, *_ = in_arrays(table)
    first, second = (sd.distributed.m_estimate(corrected, X, y, offset=o, l2=0.5) for o in (offset, offset + np.log(2)))
    np.testing.assert_allclose(second.theta, first.theta - [0, 0, np.log(2)], rtol=1e-8)


@pytest.mark.in_turn
@pytest.mark.parametrize("metric", ["poisson", "accuracy"])
def test_metrics_with_an_offset_are_those_of_one_machine(metric):
    loss = {"poisson": "poisson", "accuracy": "exponential"}[metric]
    table, corrected = records(loss), sd.debias(getattr(sd.losses, loss)(), LOSSES[loss])
    X, y, offset, weights, persons = in_frames(table)
    fit = sd.m_estimate(corrected, table[["x", "z"]], table["y"], offset=table["o"])
    expected = sd.evaluation.evaluate(
        fit, table[["x", "z"]], table["y"], metric=metric, offset=table["o"], sample_weight=table["w"],
        clusters=table["c"],
    )  # fmt: skip
    found = sd.distributed.evaluate(fit, X, y, metric=metric, offset=offset, sample_weight=weights, clusters=persons)
    for name, digits in (("value", 1e-10), ("standard_error", 1e-10), ("bias", 1e-6)):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=digits, abs=1e-14), name
    with pytest.raises(ValueError, match="this fit has an offset, and its scores are not told without one"):
        sd.distributed.evaluate(fit, X, y, metric=metric)


@pytest.mark.in_turn
def test_curves_and_the_overview_take_the_offset():
    table = records("exponential")
    X, y, offset, *_ = in_arrays(table)
    given, theta = (table[["x", "z"]].to_numpy(), table["y"].to_numpy()), [0.5, -0.3, 0.2]
    here = {"release": LABELS, "offset": table["o"].to_numpy()}
    there = {"release": LABELS, "offset": offset}
    expected = sd.evaluation.evaluate_all(theta, *given, **here, label_model="logistic")
    found = sd.distributed.evaluate_all(theta, X, y, **there, label_model="logistic")
    for name, one in expected.estimates.items():
        assert found.estimates[name].value == pytest.approx(one.value, rel=1e-9), name
    of_roc = [one.roc_curve(theta, *data, **given, thresholds=[0.5, 0.0]) for one, data, given in (
        (sd.evaluation, given, here), (sd.distributed, (X, y), there),
    )]  # fmt: skip
    np.testing.assert_allclose(of_roc[1].true_positive_rates, of_roc[0].true_positive_rates, rtol=1e-9)
    curves = [
        sd.evaluation.calibration_curve(theta, *given, release=COUNTS, offset=table["o"].to_numpy(), points=[0.3, 0.6]),
        sd.distributed.calibration_curve(theta, X, y, release=COUNTS, offset=offset, points=[0.3, 0.6]),
    ]
    np.testing.assert_allclose(curves[1].observed, curves[0].observed, rtol=1e-9)


@pytest.mark.in_turn
def test_candidates_are_fitted_and_judged_with_their_offsets():
    table, corrected = records("poisson"), sd.debias(sd.losses.poisson(), COUNTS)
    X, y, offset, weights, _ = in_arrays(table)
    seen = []

    def fitted(X, y, sample_weight, offset):
        seen.append((X.numblocks[0], len(offset), len(sample_weight), len(X)))
        return sd.distributed.m_estimate(corrected, X, y, sample_weight=sample_weight, offset=offset).theta

    candidates = {"fitted": fitted, "none": lambda X, y, **_: [0.0, 0.0, 0.0]}
    options = {"release": COUNTS, "metric": "poisson", "folds": 3, "random_state": 0}
    found = sd.distributed.cross_validate(candidates, X, y, sample_weight=weights, offset=offset, **options)
    assert found.best == "fitted"
    assert all(offsets == weights == rows < FEW for _, offsets, weights, rows in seen)
    expected = sd.evaluation.evaluate(
        [0.0] * 3, table[["x", "z"]], table["y"], metric="poisson", release=COUNTS, offset=table["o"],
        sample_weight=table["w"],
    )  # fmt: skip
    assert found.estimates["none"].value == pytest.approx(expected.value, rel=1e-10)


WRONG = {
    "an array of NumPy": (lambda o: np.asarray(o), TypeError, "offset is a ndarray, and here"),
    "a number": (lambda o: 1.0, TypeError, "offset is a float, and here"),
    "two dimensions": (lambda o: o[:, None], ValueError, "offset has 2 dimensions, and 1 are wanted"),
    "another length": (lambda o: o[:-1], ValueError, "offset has 99 rows, and others 100"),
    "NaN": (lambda o: da.where(o == o[25], np.nan, o), ValueError, "in partition 1, .*NaN in row 8"),
    "an exposure of 0": (lambda o: o - np.inf, ValueError, "in partition 0, .*offset has infinity in row 0"),
    "no score": (lambda o: o * 1e120, ValueError, "in partition 0, .*no score is so large"),
    "in other units": (lambda o: 2000 * o, ValueError, r"in partition \d, .*over exp.offset. is not finite.*np.log"),
    "text": (lambda o: o.astype(str), TypeError, "offset must hold real numbers"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_offset_is_refused(what):
    change, kind, message = WRONG[what]
    X, y, offset, *_ = in_arrays(records("poisson"))
    corrected = sd.debias(sd.losses.poisson(), COUNTS)
    with pytest.raises(kind, match=message), dask.config.set(scheduler="sync"):
        sd.distributed.m_estimate(corrected, X, y, offset=change(offset))
    if what != "in other units":
        options = {"metric": "poisson", "release": COUNTS, "offset": change(offset)}
        with pytest.raises(kind, match=message), dask.config.set(scheduler="sync"):
            sd.distributed.evaluate([0.0] * 3, X, y, **options)


def test_partitions_and_places_of_offsets_must_fit():
    table, corrected = records("poisson"), sd.debias(sd.losses.poisson(), COUNTS)
    X, y, offset, *_ = in_frames(table)
    with pytest.raises(ValueError, match="as many partitions: X 8, y 8, offset 2"):
        sd.distributed.m_estimate(corrected, X, y, offset=offset.repartition(npartitions=2))
    shorter = offset.map_partitions(lambda part: part.iloc[1:], meta=offset._meta)
    with pytest.raises(ValueError, match=r"in partition 0, .*offset"):
        sd.distributed.m_estimate(corrected, X, y, offset=shorter)
    vector = sd.Release(sd.SphericalCapMechanism(epsilon=8.0, radius=1.0), target="margin")
    with pytest.raises(ValueError, match="one vector, where it has no place"):
        sd.distributed.m_estimate(
            sd.debias(sd.losses.exponential(), vector), *(da.zeros((9, 2)[: k], chunks=3) for k in (2, 1)),
            offset=da.zeros(9, chunks=3),
        )  # fmt: skip


def test_a_partition_whose_offsets_leave_its_records_no_weight_is_named():
    table, corrected = records("poisson"), sd.debias(sd.losses.poisson(), COUNTS)
    X, y, offset, *_ = in_arrays(table.assign(y=0.0))
    small = da.where(da.arange(FEW, chunks=20) < 17, -700.0, offset + 60.0)
    with pytest.raises(ValueError, match=r"the offsets in partition 0, .*no weight"):
        sd.distributed.m_estimate(corrected, X, y, offset=small)


@pytest.mark.in_turn
@pytest.mark.parametrize("loss", ["poisson", "exponential"])
def test_descent_in_partitions_has_the_offset_in_each(loss):
    """The mean of two descents, weighted by records: of other targets and weights, or with a column that is held."""
    table, corrected = records(loss), sd.debias(getattr(sd.losses, loss)(), LOSSES[loss])
    given = table[["x", "z"]].to_numpy(), table["y"].to_numpy(), table["o"].to_numpy()
    X, y, offset = (da.from_array(one, chunks=(60, 2)[: one.ndim]) for one in given)
    options = {"step_size": 0.2, "batch_size": 10, "epochs": 8, "average": 0.5, "order": "given", "l2": 0.1}
    found = sd.distributed.sgd(corrected, X, y, offset=offset, **options)
    each = [sd.sgd(corrected, *(one[cut] for one in given[:2]), offset=given[2][cut], **options).theta
            for cut in (slice(0, 60), slice(60, 100))]  # fmt: skip
    np.testing.assert_allclose(found.theta, 0.6 * each[0] + 0.4 * each[1], rtol=1e-12)
    assert found.diagnostics["offset"]
    assert found.corrected.release == corrected.release
