"""Records that are read by blocks are judged as records in memory are, to rounding, part by part."""

import functools
import math
import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sources import in_order

import symdebias as sd
from symdebias._rows import Rows
from symdebias.evaluation import calibration_curve, evaluate, evaluate_all, roc_curve
from symdebias.evaluation.scores import ReleasedScores
from symdebias.evaluation.sums import Sums

COIN = sd.RandomizedResponse(epsilon=2.0)
NORMAL = sd.GaussianMechanism.from_scale(0.4)
RELEASES = {
    "labels": sd.Release(target=COIN),
    "normal": sd.Release(NORMAL, COIN, fit_intercept=True),
    "categories": sd.Release({"a": sd.RandomizedResponse(3.0), "b": NORMAL}, COIN),
    "a grid": sd.Release({"a": sd.DiscreteLaplaceMechanism(3.0, bounds=(-3, 3))}, COIN, noiseless=("b",)),
    "a cap": sd.Release(sd.SphericalCapMechanism(epsilon=6.0, radius=1.0), COIN, fit_intercept=True),
    "margins": sd.Release(sd.SphericalCapMechanism(epsilon=6.0, radius=1.0), target="margin"),
}
COUNT = 2_600


def small(monkeypatch):
    """Judge 400 records at a time, and tell quantiles from 650 or so."""
    for name, value in (("ROWS", 400), ("SAMPLED", 700)):
        for module in ("records", "parts"):
            monkeypatch.setattr(f"symdebias.evaluation.{module}.{name}", value)


@functools.cache
def noised(name):
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.7, 0.7, (COUNT, 2))
    y = np.where(rng.random(COUNT) < expit(4 * X[:, 0] - 2 * X[:, 1]), 1.0, -1.0)
    if name == "categories":
        X[:, 0] = np.where(X[:, 0] > 0, 1, -1)
    if name == "a grid":
        X[:, 0] = np.round(4 * X[:, 0])
    return RELEASES[name].privatize(X, y, random_state=6)


def theta_of(name):
    return {"normal": [2.0, -1.0, 0.1], "a cap": [2.0, -1.0, 0.1]}.get(name, [1.0, -0.5])


def same(found, expected, tolerance=1e-9):
    if found.metric == "roc_auc" and found.method == "exact":
        # Scores are sorted into cells, and what their order within these adds is bounded.
        assert abs(found.value - expected.value) <= found.bias < 0.05
        assert found.standard_error == pytest.approx(expected.standard_error, rel=3e-3)
        return
    assert found.value == pytest.approx(expected.value, rel=tolerance)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=tolerance)
    assert found.bias == pytest.approx(expected.bias, rel=tolerance, abs=1e-15)
    assert (found.records, found.method, found.clusters, found.bias_is_certified) == (
        expected.records, expected.method, expected.clusters, expected.bias_is_certified,
    )  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize("label_model", ["any", "logistic"])
@pytest.mark.parametrize("name", RELEASES)
def test_metrics_by_blocks_are_those_in_memory(name, label_model, monkeypatch):
    small(monkeypatch)
    records, theta = noised(name), theta_of(name)
    how = {"release": RELEASES[name], "label_model": label_model, "threshold": 0.0 if name == "margins" else 0.1}
    expected = evaluate_all(theta, records.X, records.y, **how)
    found = evaluate_all(theta, in_order(records.X), in_order(records.y), **how)
    assert list(found.estimates) == list(expected.estimates)
    assert found.refused == expected.refused
    for metric, one in expected.estimates.items():
        same(found.estimates[metric], one)


@pytest.mark.in_turn
@pytest.mark.parametrize("metric", ["accuracy", "f1", "roc_auc", "log_loss"])
def test_weights_and_clusters_by_blocks(metric, monkeypatch):
    small(monkeypatch)
    records, rng = noised("normal"), np.random.default_rng(1)
    weights = rng.exponential(size=COUNT)
    # A block whose records have no weight.
    weights[400:800] = 0.0
    how = {"metric": metric, "release": RELEASES["normal"], "sample_weight": weights}
    for clusters in (None, rng.integers(0, 300, COUNT).astype(str)):
        expected = evaluate(theta_of("normal"), records.X, records.y, **how, clusters=clusters)
        found = evaluate(theta_of("normal"), in_order(records.X), in_order(records.y), **how, clusters=clusters)
        same(found, expected)
    plain = evaluate(theta_of("normal"), records.X, records.y, **how)
    assert abs(plain.standard_error / found.standard_error - 1) > 1e-3


@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
@pytest.mark.parametrize("name", ["labels", "a cap"])
def test_records_of_one_label_by_blocks(name, metric, monkeypatch):
    small(monkeypatch)
    records = noised(name)
    one, both = np.full(COUNT, -1.0), np.r_[np.full(COUNT - 1, -1.0), 1.0]
    how = {"metric": metric, "release": RELEASES[name]}
    expected, found = (evaluate(theta_of(name), of(records.X), of(one), **how) for of in (np.asarray, in_order))
    assert found.without_both_labels == pytest.approx(expected.without_both_labels, rel=1e-9)
    assert expected.without_both_labels != 0
    assert evaluate(theta_of(name), in_order(records.X), in_order(both), **how).without_both_labels == 0


@pytest.mark.parametrize("metric", ["squared_error", "r2", "poisson"])
def test_metrics_of_numbers_by_blocks(metric, monkeypatch):
    small(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(COUNT, 2))
    release = sd.Release(NORMAL, sd.LaplaceMechanism.from_scale(0.5))
    records = release.privatize(X, X @ [0.6, -0.3] + rng.normal(size=COUNT), random_state=1)
    how = {"metric": metric, "release": release}
    expected = evaluate([0.6, -0.3], records.X, records.y, **how)
    same(evaluate([0.6, -0.3], in_order(records.X), in_order(records.y), **how), expected)
    # The mean of the targets is taken out of their squares before these are summed.
    far = records.y + 1e6
    if metric == "r2":
        one, other = (
            evaluate([0.6, -0.3], X, y, **how) for X, y in ((records.X, far), (in_order(records.X), in_order(far)))
        )
        same(other, one, 1e-7)


def test_a_fit_judges_blocks_of_its_own(monkeypatch):
    """What a channel hides of a loss is looked for label by label, and a residual loss is told by residuals."""
    small(monkeypatch)
    records = noised("labels")
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), RELEASES["labels"]), records.X, records.y)
    same(
        evaluate(fit, in_order(records.X), in_order(records.y), metric="log_loss"),
        evaluate(fit, records.X, records.y, metric="log_loss"),
    )
    rng = np.random.default_rng(3)
    release = sd.Release(NORMAL)
    y = records.X[:, 0] + 0.1 * rng.normal(size=COUNT)
    X = release.privatize(records.X, y, random_state=0).X
    how = {"metric": sd.losses.huber(0.5), "release": release}
    same(evaluate([1.0, 0.0], in_order(X), in_order(y), **how), evaluate([1.0, 0.0], X, y, **how))


@pytest.mark.parametrize("release", [sd.Release(), sd.Release(target=sd.RandomizedResponse(1.0, range(3)))], ids=str)
def test_several_classes_by_blocks(release, monkeypatch):
    small(monkeypatch)
    rng = np.random.default_rng(0)
    X, theta = rng.normal(size=(COUNT, 2)), rng.normal(size=(3, 2))
    y = rng.integers(0, 3, COUNT).astype(float)
    how = {"release": release, "sample_weight": rng.exponential(size=COUNT)}
    for metric in ("accuracy", "log_loss"):
        same(
            evaluate(theta, in_order(X), in_order(y), metric=metric, **how),
            evaluate(theta, X, y, metric=metric, **how),
        )
    y[2_500] = 3.0
    with pytest.raises(ValueError, match="labels must be"):
        evaluate(theta, in_order(X), in_order(y), metric="accuracy", **how)


@pytest.mark.in_turn
@pytest.mark.parametrize("name", ["labels", "normal", "a cap"])
def test_curves_by_blocks_are_those_in_memory(name, monkeypatch):
    small(monkeypatch)
    records, theta = noised(name), theta_of(name)
    for thresholds in (5, [0.5, 0.0]):
        how = {"release": RELEASES[name], "thresholds": thresholds, "label_model": "logistic"}
        expected = roc_curve(theta, records.X, records.y, **how)
        found = roc_curve(theta, in_order(records.X), in_order(records.y), **how)
        for field in ("thresholds", "true_positive_rates", "false_positive_errors", "true_positive_bias"):
            np.testing.assert_allclose(getattr(found, field), getattr(expected, field), rtol=1e-9, atol=1e-12)
        same(found.area, expected.area)


@pytest.mark.parametrize("name", ["labels", "normal", "categories"])
def test_calibration_by_blocks_is_that_in_memory(name, monkeypatch):
    small(monkeypatch)
    records, theta = noised(name), theta_of(name)
    how = {"release": RELEASES[name], "points": 3}
    expected = calibration_curve(theta, records.X, records.y, **how)
    found = calibration_curve(theta, in_order(records.X), in_order(records.y), **how)
    for field in ("scores", "predicted", "observed", "difference_standard_errors", "bias"):
        np.testing.assert_allclose(getattr(found, field), getattr(expected, field), rtol=1e-8, atol=1e-12)


def test_calibration_scores_records_as_often_however_many_are_judged_at_a_time(monkeypatch):
    """All of them anew for each piece took time by the square of their number."""
    told, tell, records = [], ReleasedScores.of, noised("normal")
    monkeypatch.setattr(
        ReleasedScores, "of", staticmethod(lambda part, theta: told.append(len(part)) or tell(part, theta))
    )  # fmt: skip
    counts = []
    for rows in (2**16, 100):
        monkeypatch.setattr("symdebias.evaluation.records.ROWS", rows)
        calibration_curve(theta_of("normal"), records.X, records.y, release=RELEASES["normal"], points=1)
        counts.append(sum(told))
        told.clear()
    assert counts[0] == counts[1] > 0


def test_cells_of_scores_say_what_they_may_be_off(monkeypatch):
    """300 cells: what the order of scores within them adds is within the stated bound, and hardly anything."""
    small(monkeypatch)
    records = noised("labels")
    how = {"metric": "roc_auc", "release": RELEASES["labels"]}
    expected = evaluate([1.0, -0.5], records.X, records.y, **how)
    assert (expected.bias, expected.bias_is_certified) == (0.0, True)
    monkeypatch.setattr("symdebias.evaluation.ranking._CELLS", 300)
    found = evaluate([1.0, -0.5], in_order(records.X), in_order(records.y), **how)
    assert 0 < abs(found.value - expected.value) < found.bias < 0.005
    assert abs(found.value - expected.value) < 3e-4
    assert not found.bias_is_certified


def test_memory_maps_and_files_are_judged_in_little_memory(tmp_path):
    """The records take 32 MB, and an array of one number for each 6.4 MB: neither is ever there."""
    count = 800_000
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float32, shape=(count, 10))
    y = np.lib.format.open_memmap(tmp_path / "y.npy", mode="w+", dtype=np.int8, shape=(count,))
    for start in range(0, count, 100_000):
        rng = np.random.default_rng(start)
        part = slice(start, start + 100_000)
        X[part] = rng.normal(size=(100_000, 10))
        y[part] = np.where(rng.random(100_000) < expit(X[part, 0]), 1, -1)
    theta = np.eye(10)[0]
    how = {"metric": "accuracy", "release": sd.Release(target=COIN)}
    evaluate(theta, X[:1_000], y[:1_000], **how)
    tracemalloc.start()
    try:
        found = evaluate(theta, X, y, **how)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30e6
    assert found.records == count
    same(found, evaluate(theta, np.array(X), np.array(y), **how))


@pytest.mark.in_turn
@pytest.mark.parametrize("of", [np.asarray, in_order], ids=["in memory", "by blocks"])
@pytest.mark.parametrize("name", RELEASES)
def test_metrics_and_curves_are_the_same_bits_on_any_number_of_threads(name, of, monkeypatch):
    small(monkeypatch)
    records, theta = noised(name), theta_of(name)
    X, y, release = of(records.X), None if records.y is None else of(records.y), RELEASES[name]
    told = []
    for threads in (1, 3):
        monkeypatch.setattr("symdebias.codegen.parallel.numba.get_num_threads", lambda threads=threads: threads)
        every = evaluate_all(theta, X, y, release=release)
        told.append([pickle.dumps(every)])
        if name not in ("margins", "a cap"):
            told[-1].append(pickle.dumps(calibration_curve(theta, X, y, release=release, points=2)))
        if name != "margins":
            told[-1].append(pickle.dumps(roc_curve(theta, X, y, release=release, thresholds=[0.1])))
    assert told[0] == told[1]


@pytest.mark.in_turn
def test_no_array_is_as_long_as_the_records_that_are_read_by_blocks():
    """One of eight bytes for each record would be 32 MB."""
    rng = np.random.default_rng(3)
    block = rng.normal(size=(65_536, 1))
    targets, release, count = block[:, 0] + rng.normal(size=len(block)), sd.Release(NORMAL), 4_000_000

    def blocks():
        for start in range(0, count, len(block)):
            some = slice(0, min(len(block), count - start))
            yield block[some], targets[some]

    X, y = sd.blocks.from_iterator(blocks)
    assert len(X) == count
    how = {"metric": "squared_error", "release": release}
    evaluate([1.0], X[:1_000], y[:1_000], **how)
    tracemalloc.start()
    try:
        found = evaluate([1.0], X, y, **how)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24e6
    assert found.records == count


@pytest.mark.in_turn
@pytest.mark.parametrize("metric", ["log_loss", "accuracy", "roc_auc", "f1"])
@pytest.mark.parametrize("read", [Rows.of_array, in_order], ids=["any row", "in order"])
def test_records_of_weight_0_by_blocks(metric, read, monkeypatch):
    """Far ones, and whole blocks of them: quantiles are told from the same records as in memory."""
    small(monkeypatch)
    records = noised("normal")
    rng = np.random.default_rng(8)
    weights = rng.exponential(size=COUNT) * (rng.random(COUNT) > 0.3)
    weights[:500] = 0.0
    X = np.where(weights[:, None] > 0, records.X, 1e6)
    how = {"metric": metric, "release": records.release, "sample_weight": weights}
    found, expected = (evaluate(theta_of("normal"), part, records.y, **how) for part in (read(X), X))
    same(found, expected)
    present = weights > 0
    how["sample_weight"] = weights[present]
    same(found, evaluate(theta_of("normal"), records.X[present], records.y[present], **how))


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "log_loss", "squared_error", "r2"])
@pytest.mark.parametrize("target", [None, COIN], ids=["true labels", "noised labels"])
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_named_by_their_row_of_all(metric, target, weighted, monkeypatch):
    """Records at hand are some of all, at equal distances or among those with weight."""
    small(monkeypatch)
    X, y = np.random.default_rng(0).uniform(-1, 1, (COUNT, 2)), np.tile([-1.0, 1.0], COUNT // 2)
    release = sd.Release(NORMAL, target)
    y[2_000] = np.nan if target is None and metric in ("squared_error", "r2", "log_loss") else 0.5
    weights = (np.arange(COUNT) % 3 > 0) * 1.0 if weighted else None
    for part in (X, in_order(X)):
        with pytest.raises(ValueError, match="row 2000"):
            evaluate([1.0, 1.0], part, y, metric=metric, release=release, sample_weight=weights)


def test_exact_areas_by_blocks_do_not_see_scores_without_weight(monkeypatch):
    """Cells of whole numbers have one score each, whatever stands between them without weight."""
    small(monkeypatch)
    rng = np.random.default_rng(0)
    X, weights = rng.integers(0, 5, (COUNT, 1)) * 1.0, (np.arange(COUNT) % 2) * 1.0
    y = np.where(X[:, 0] + rng.logistic(size=COUNT) > 2, 1.0, -1.0)
    X[weights == 0] = rng.uniform(0, 4, (COUNT // 2, 1))
    monkeypatch.setattr("symdebias.evaluation.ranking._CELLS", 64)
    how = {"metric": "roc_auc", "release": RELEASES["labels"], "sample_weight": weights}
    y = RELEASES["labels"].privatize(X, y, random_state=0).y
    found, expected = (evaluate([1.0], part, y, **how) for part in (in_order(X), X))
    assert (found.bias, expected.bias) == (0.0, 0.0)
    assert found.value == pytest.approx(expected.value, rel=1e-12)


def test_bad_records_are_named_by_their_row_of_all(monkeypatch):
    small(monkeypatch)
    records, how = noised("labels"), {"metric": "accuracy", "release": RELEASES["labels"]}
    X, y = records.X.copy(), records.y.copy()
    X[1_234, 1] = np.nan
    with pytest.raises(ValueError, match="NaN in row 1234, column 1"):
        evaluate([1.0, 0.0], in_order(X), in_order(y), **how)
    y[2_345] = 3.0
    with pytest.raises(ValueError, match=r"in row 2345"):
        evaluate([1.0, 0.0], in_order(records.X), in_order(y), **how)
    with pytest.raises(ValueError, match="y has 2599 entries, but X has 2600 rows"):
        evaluate([1.0, 0.0], in_order(records.X), in_order(y[1:]), **how)
    with pytest.raises(ValueError, match="one record has no standard error"):
        evaluate([1.0, 0.0], in_order(records.X[:1]), in_order(records.y[:1]), **how)
    X = records.X.copy()
    X[2_222] = 1e60
    with pytest.raises(sd.DivergenceError, match="squared_error of record 2222"):
        evaluate([1.0, 0.0], in_order(X), records.y, metric="squared_error", release=sd.Release())


def test_sums_of_parts_are_those_of_all():
    """Means far from 0, weights, and clusters that reach over parts; the variance is that of two passes."""
    rng = np.random.default_rng(0)
    values, weights, clusters = 1e8 + rng.normal(size=(500, 2)), rng.exponential(size=500), rng.integers(0, 40, 500)
    parts = [slice(start, start + 5) for start in range(0, 500, 5)]
    found = Sums.together(Sums.of(values[part], weights[part], clusters[part]) for part in parts)
    share = weights / weights.sum()
    centred = values - share @ values
    assert found.records == 500
    np.testing.assert_allclose(found.means, share @ values, rtol=1e-14)
    plain = Sums.together(Sums.of(values[part], weights[part]) for part in parts)
    of = np.array([1.0, -2.0])
    np.testing.assert_allclose(plain.error(of), math.sqrt(500 / 499 * np.sum((share * (centred @ of)) ** 2)), rtol=1e-6)
    sums = np.bincount(clusters, share * (centred @ of))
    moves = sums / (1 - np.bincount(clusters, share))
    np.testing.assert_allclose(found.error(of), math.sqrt(39 / 40 * np.sum(moves**2)), rtol=1e-4)
    np.testing.assert_array_equal(found.low, values.min(axis=0))


def test_what_cancels_to_rounding_is_decided_by_nobody():
    """Fourth powers of rounding errors beside squares that cancel were 0 degrees of freedom, or any number."""
    values = np.random.default_rng(4).random((30, 1)) @ [[1.0, 1.0]]
    found = Sums.of(values, np.ones(30))
    for rounding in (0.0, 1e-17):
        moved = replace(found, second=found.second + np.diag([rounding, 0.0]))
        assert moved.error_law(np.array([1.0, -1.0]), lambda: (0.0, 1e-60)).freedom is None


@pytest.mark.parametrize("value", [2.0, 40.0])
@pytest.mark.parametrize("target", [None, COIN])
@pytest.mark.parametrize("metric", ["accuracy", "log_loss", "roc_auc", sd.losses.squared_margin()])
def test_labels_without_weight_are_refused_wherever_they_lie(metric, target, value, monkeypatch):
    """Those of blocks without any weight passed, and far ones in memory."""
    small(monkeypatch)
    release = sd.Release(NORMAL, target, fit_intercept=True)
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(COUNT, 2)), rng.choice([-1.0, 1.0], COUNT)
    weights = np.where(np.arange(COUNT) < 800, rng.uniform(0.5, 1.5, COUNT), 0.0)
    evaluate([1.0, 0.0, 0.0], X, y, metric=metric, release=release, sample_weight=weights)
    y[2_100] = value
    for source in (X, y), (in_order(X), in_order(y)):
        with pytest.raises(ValueError, match=r"got 1 other value. The first other one is in row 2100;"):
            evaluate([1.0, 0.0, 0.0], *source, metric=metric, release=release, sample_weight=weights)


def test_labels_with_noise_are_told_by_records_with_weight():
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(COUNT, 2)), rng.choice([-1.0, 1.0], COUNT)
    release = sd.Release(NORMAL, sd.GaussianMechanism.from_scale(0.3), fit_intercept=True)
    noised = release.privatize(X, labels, random_state=1)
    y, weights = np.array(noised.y), np.arange(COUNT) % 3 > 0
    y[~weights] = 3.0
    found = evaluate([1.0, 0.0, 0.0], noised.X, y, metric="accuracy", release=release, sample_weight=1.0 * weights)
    alone = evaluate([1.0, 0.0, 0.0], noised.X[weights], y[weights], metric="accuracy", release=release)
    assert found.value == pytest.approx(alone.value, rel=1e-9)
