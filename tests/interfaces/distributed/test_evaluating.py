"""Metrics over partitions: those of all records in one place."""

import functools

import numpy as np
import pytest

import symdebias as sd

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

COUNT = 6_000
THETA = [1.0, -1.0, 0.3]
LABELLED = sd.Release(
    {("age", "hours"): sd.GaussianMechanism.from_scale(0.4)}, sd.RandomizedResponse(3.0), fit_intercept=True
)
MEASURED = sd.Release(
    {("age", "hours"): sd.GaussianMechanism.from_scale(0.4)}, sd.GaussianMechanism.from_scale(0.3), fit_intercept=True
)
# Three labels by a channel of rank two: the loss is the nearest in its range.
HIDDEN = sd.Release(
    None,
    sd.FiniteChannel([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]], inputs=(0, 1, 2), outputs=(0, 1)),
    noiseless=("age", "hours"),
    fit_intercept=True,
)


@functools.cache
def released(release):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (COUNT, 2))
    u = X @ THETA[:2] + THETA[2]
    if release is MEASURED:
        y = u + rng.normal(size=COUNT)
    elif release is HIDDEN:
        y = rng.integers(0, 3, COUNT)
    else:
        y = np.where(rng.random(COUNT) < 1 / (1 + np.exp(-u)), 1.0, -1.0)
    noised = release.privatize(pd.DataFrame(X, columns=["age", "hours"]), y, random_state=1)
    return noised.X, pd.Series(noised.y), pd.Series(rng.random(COUNT))


def in_partitions(release):
    X, y, weights = released(release)
    parts = dd.from_pandas(X.assign(y=y, w=weights), npartitions=5)
    parts = dd.concat([parts, parts[parts["w"] > 1]])
    return parts[["age", "hours"]], parts["y"], parts["w"]


def compared(found, expected):
    for name in ("value", "standard_error"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-10, abs=1e-14), name
    assert found.bias == pytest.approx(expected.bias, rel=1e-6, abs=1e-14)
    freedom, wanted = (one.degrees_of_freedom or np.inf for one in (found, expected))
    assert freedom == pytest.approx(wanted, rel=1e-8)
    assert found.skewness == pytest.approx(expected.skewness, rel=1e-8, abs=1e-14)
    for name in ("records", "method", "metric", "bias_is_certified", "clusters"):
        assert getattr(found, name) == getattr(expected, name), name


def squared_classes():
    u, y = sd.losses.least_squares().scores[0], sd.losses.least_squares().target
    return sd.Loss((u - y) ** 2, score=u, target=y, target_values=(0, 1, 2))


CASES = {
    "log loss, weights": (LABELLED, "log_loss", {}, True),
    "exact": (LABELLED, sd.losses.exponential(), {}, False),
    "exact, weights": (MEASURED, "squared_error", {}, True),
    "of residuals": (MEASURED, sd.losses.huber(1.0), {}, False),
    "a promised radius": (LABELLED, "log_loss", {"radius": 3.0}, False),
}


def test_weights_may_choose_among_partitions():
    X, y, _ = released(LABELLED)
    weights = pd.Series(np.where(np.arange(COUNT) < COUNT // 5, 0.0, 1.0))
    parts = dd.from_pandas(X.assign(y=y, w=weights), npartitions=5)
    how = {"metric": "accuracy", "release": LABELLED}
    found = sd.distributed.evaluate(THETA, parts[["age", "hours"]], parts["y"], sample_weight=parts["w"], **how)
    have = weights.to_numpy() > 0
    compared(found, sd.evaluation.evaluate(THETA, X[have], y[have], **how))
    with pytest.raises(ValueError, match="every sample_weight is zero"):
        sd.distributed.evaluate(THETA, parts[["age", "hours"]], parts["y"], sample_weight=0 * parts["w"], **how)


@pytest.mark.in_turn
@pytest.mark.parametrize("case", CASES)
def test_a_metric_is_that_of_one_machine(case):
    release, metric, options, weighted = CASES[case]
    X, y, weights = released(release)
    parts = in_partitions(release)
    options = {"metric": metric, "release": release, **options}
    expected = sd.evaluation.evaluate(THETA, X, y, sample_weight=weights if weighted else None, **options)
    found = sd.distributed.evaluate(THETA, *parts[:2], sample_weight=parts[2] if weighted else None, **options)
    compared(found, expected)


def test_a_loss_of_labels_beside_a_column_of_two_numbers():
    """Some of the records are looked at with other labels, and their columns are checked once more."""
    release = sd.Release(
        {"age": sd.GaussianMechanism.from_scale(0.3), "hours": sd.RandomizedResponse(2.0)}, sd.RandomizedResponse(3.0)
    )
    rng = np.random.default_rng(1)
    X, y = np.column_stack([rng.normal(size=2_000), rng.choice([-1, 1], 2_000)]), rng.choice([-1, 1], 2_000)
    options = {"metric": "log_loss", "release": release}
    parts = (da.from_array(X, chunks=(500, 2)), da.from_array(y, chunks=500))
    compared(sd.distributed.evaluate(THETA[:2], *parts, **options), sd.evaluation.evaluate(THETA[:2], X, y, **options))


def test_a_loss_that_a_channel_hides():
    X, y, _ = released(HIDDEN)
    options = {"metric": squared_classes(), "release": HIDDEN}
    expected = sd.evaluation.evaluate(THETA, X, y, **options)
    assert expected.bias > 0
    compared(sd.distributed.evaluate(THETA, *in_partitions(HIDDEN)[:2], **options), expected)


@pytest.mark.in_turn
def test_a_fit_says_what_is_not_given():
    X, y, _ = released(LABELLED)
    fit = sd.m_estimate(sd.debias(sd.losses.exponential(), LABELLED), X, y)
    parts = in_partitions(LABELLED)[:2]
    compared(
        sd.distributed.evaluate(fit, *parts, metric="accuracy"), sd.evaluation.evaluate(fit, X, y, metric="accuracy")
    )
    with pytest.raises(ValueError, match="Pass release="):
        sd.distributed.evaluate(THETA, *parts, metric="log_loss")


def test_constant_candidates_are_compared_as_on_one_machine():
    """Whatever the folds: their parameters are the same in all of them."""
    X, y, weights = released(LABELLED)
    candidates = {
        str(scale): lambda X, y, scale=scale, **_: np.array(THETA) * scale for scale in (0.5, 1.0, 2.0)
    }  # fmt: skip
    options = {"release": LABELLED, "metric": "log_loss", "folds": 3, "random_state": 0}
    expected = sd.evaluation.cross_validate(candidates, X, y, sample_weight=weights, **options)
    parts = in_partitions(LABELLED)
    found = sd.distributed.cross_validate(candidates, *parts[:2], sample_weight=parts[2], **options)
    assert (found.best, found.one_standard_error, list(found.estimates)) == (
        expected.best, expected.one_standard_error, list(expected.estimates),
    )  # fmt: skip
    for name in candidates:
        compared(found.estimates[name], expected.estimates[name])
        compared(found.differences[name], expected.differences[name])


def test_candidates_that_judge_all_partitions_alike_have_no_interval_of_their_difference():
    X = np.resize([-1.0, 1.0, 1.0], 60)[:, None]
    y = np.where(np.arange(60) % 7, 1.0, -1.0) * X[:, 0]
    candidates = {"one": lambda X, y: np.array([1.0, 0.0]), "other": lambda X, y: np.array([1.0, 0.5])}
    options = {"release": sd.Release(fit_intercept=True), "metric": "accuracy", "target_values": (-1, 1), "folds": 3}
    parts = [da.from_array(one, chunks=(20, 1)[: one.ndim]) for one in (X, y)]
    found = sd.distributed.cross_validate(candidates, *parts, random_state=0, **options)
    assert found.differences["one"].confidence_interval() == (0.0, 0.0)
    assert found.differences["other"].interval_or_none() is None


def test_candidates_are_not_told_by_partitions_of_one_label():
    X, y = np.random.default_rng(8).normal(size=(60, 1)), -np.ones(60)
    candidates = {"one": lambda X, y: [0.3, -3.0], "other": lambda X, y: [0.6, 0.5]}
    options = {"release": sd.Release(fit_intercept=True), "metric": "log_loss", "target_values": (-1, 1), "folds": 3}
    expected = sd.evaluation.cross_validate(candidates, X, y, random_state=0, **options)
    parts = [da.from_array(one, chunks=(20, 1)[: one.ndim]) for one in (X, y)]
    found = sd.distributed.cross_validate(candidates, *parts, random_state=0, **options)
    for name in candidates:
        for one, other in ((found.estimates, expected.estimates), (found.differences, expected.differences)):
            assert one[name].without_both_labels == pytest.approx(other[name].without_both_labels, abs=1e-15)
            assert one[name].with_other_labels == pytest.approx(other[name].with_other_labels, rel=1e-9, abs=1e-15)
    assert found.estimates["one"].interval_or_none() is None


@pytest.mark.in_turn
@pytest.mark.parametrize("estimated", [False, True])
def test_comparisons_have_the_errors_of_few_records_and_of_estimated_noise(estimated):
    """Few records decide under heavy tails; accuracy under noise in the score moves with the noise as well."""
    rng = np.random.default_rng(0)
    noise = sd.GaussianMechanism.from_estimate(0.4, 30.0) if estimated else sd.GaussianMechanism.from_scale(0.4)
    release, x = sd.Release(noise), rng.standard_t(3, size=(400, 2))
    y = x.sum(axis=1) + rng.standard_t(2, size=400)
    candidates = {"right": lambda X, y: [1.0, 1.0], "half": lambda X, y: [0.5, 0.5]}
    for metric, target in (("squared_error", y), ("accuracy", np.where(y > 0, 1.0, -1.0))):
        given = x + 0.4 * rng.normal(size=x.shape), target
        options = {"release": release, "metric": metric, "folds": 2, "random_state": 0}
        expected = sd.evaluation.cross_validate(candidates, *given, **options)
        parts = (da.from_array(one, chunks=(150, 2)[: one.ndim]) for one in given)
        found = sd.distributed.cross_validate(candidates, *parts, **options)
        assert (expected.estimates["right"].degrees_of_freedom is None) == (metric == "accuracy" and not estimated)
        for name in candidates:
            compared(found.estimates[name], expected.estimates[name])
            compared(found.differences[name], expected.differences[name])


def test_partitions_are_held_out_as_they_are():
    """A candidate sees the records of all other partitions, and is judged on those that it has not seen."""
    X, y, _ = released(MEASURED)
    parts = [da.from_array(one.to_numpy(), chunks=(2_000, 2)[: one.ndim]) for one in (X, y)]
    seen = []

    def fit(X, y):
        seen.append((X.compute(), y.compute()))
        return np.array([len(seen), 0.0, 0.0])

    options = {"release": MEASURED, "metric": "squared_error"}
    table = sd.distributed.cross_validate({"one": fit}, *parts, folds=3, random_state=0, **options)
    cuts = [slice(2_000 * k, 2_000 * (k + 1)) for k in range(3)]
    by_fold = []
    for number, (own, targets) in enumerate(seen, 1):
        (held_out,) = [cut for cut in cuts if not np.isin(X.to_numpy()[cut][0], own).any()]
        np.testing.assert_array_equal(own, np.delete(X.to_numpy(), held_out, axis=0))
        np.testing.assert_array_equal(targets, np.delete(y.to_numpy(), held_out))
        theta = [number, 0.0, 0.0]
        by_fold.append(sd.evaluation.evaluate(theta, X[held_out], y[held_out], **options).value)
    np.testing.assert_allclose(table.fold_values["one"], by_fold, rtol=1e-12)
    assert table.estimates["one"].value == pytest.approx(np.mean(by_fold), rel=1e-12)


def test_candidates_that_are_refused_have_their_reason():
    def refused(X, y):
        raise sd.DivergenceError("it was lost")

    parts = in_partitions(MEASURED)[:2]
    options = {"release": MEASURED, "metric": "squared_error", "folds": 2, "random_state": 0}
    table = sd.distributed.cross_validate({"bad": refused, "good": lambda X, y: THETA}, *parts, **options)
    assert (table.best, dict(table.refused)) == ("good", {"bad": "it was lost"})
    far = lambda X, y: [1e60, 0.0, 0.0]  # noqa: E731
    with pytest.raises(sd.SymdebiasError, match=r"every candidate was refused:\n  bad: it was lost\n  far: "):
        sd.distributed.cross_validate({"bad": refused, "far": far}, *parts, **options)


WRONG = {
    "unknown": ({"metric": "acuracy"}, "is not known"),
    "radius": ({"radius": -1.0}, "radius"),
    "theta": ({"theta_or_fit": [1.0]}, "theta"),
    "labels": ({"metric": "log_loss", "target_values": (0, 1)}, "labels"),
    "one record": ({"X": da.ones((1, 2)), "y": da.ones(1)}, "one record has no standard error"),
    "no records": ({"X": da.ones((0, 2)), "y": da.ones(0)}, "no records in any partition"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused(what):
    change, message = WRONG[what]
    X, y, _ = released(LABELLED)
    parts = da.from_array(X.to_numpy()[:50], chunks=(25, 2)), da.from_array(y.to_numpy()[:50], chunks=25)
    given = {"theta_or_fit": THETA, "X": parts[0], "y": parts[1], "metric": "log_loss", "release": LABELLED} | change
    with pytest.raises((ValueError, TypeError), match=message):
        sd.distributed.evaluate(**given)


@pytest.mark.in_turn
@pytest.mark.parametrize("release", [LABELLED, MEASURED])
def test_all_metrics_are_those_of_one_machine(release):
    """With clusters that reach over partitions, and labels of these that are text."""
    X, y, weights = released(release)
    clusters = pd.Series(np.random.default_rng(3).integers(0, 500, COUNT).astype(str))
    parts = dd.from_pandas(X.assign(y=y, w=weights, c=clusters), npartitions=4)
    options = {"release": release, "label_model": "logistic"}
    expected = sd.evaluation.evaluate_all(THETA, X, y, sample_weight=weights, clusters=clusters, **options)
    found = sd.distributed.evaluate_all(
        THETA, parts[["age", "hours"]], parts["y"], sample_weight=parts["w"], clusters=parts["c"], **options
    )
    assert list(found.estimates) == list(expected.estimates)
    for name, one in expected.estimates.items():
        compared(found.estimates[name], one)
    with pytest.raises(ValueError, match="clusters has a single label"):
        sd.distributed.evaluate(
            THETA, parts[["age", "hours"]], parts["y"], metric="squared_error", clusters=parts["w"] > 2, **options
        )


@pytest.mark.in_turn
def test_curves_are_those_of_one_machine(monkeypatch):
    """Of many records some tell quantiles: the same ones, at equal distances over partitions of other sizes."""
    for module in ("records", "parts"):
        monkeypatch.setattr(f"symdebias.evaluation.{module}.SAMPLED", 1_000)
    monkeypatch.setattr("symdebias.interfaces.distributed.evaluating.SAMPLED", 1_000)
    X, y, _ = released(LABELLED)
    parts = [da.from_array(one.to_numpy(), chunks=((999, 2_001, 1, 2_999), *one.shape[1:])) for one in (X, y)]
    options = {"release": LABELLED, "thresholds": 4, "label_model": "logistic"}
    expected, found = (
        sd.evaluation.roc_curve(THETA, X, y, **options),
        sd.distributed.roc_curve(THETA, *parts, **options),
    )
    for name in ("thresholds", "true_positive_rates", "false_positive_errors", "false_positive_bias"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-14)
    compared(found.area, expected.area)
    how = {"release": LABELLED, "points": 3}
    one, other = (
        sd.evaluation.calibration_curve(THETA, X, y, **how),
        sd.distributed.calibration_curve(THETA, *parts, **how),
    )
    np.testing.assert_allclose(other.observed, one.observed, rtol=1e-9)
    np.testing.assert_allclose(other.difference_standard_errors, one.difference_standard_errors, rtol=1e-8)


def test_ways_to_call_cross_validation_wrong():
    parts = in_partitions(MEASURED)[:2]
    options = {"release": MEASURED, "metric": "squared_error"}
    with pytest.raises(TypeError, match="candidates must map names"):
        sd.distributed.cross_validate({}, *parts, **options)
    with pytest.raises(ValueError, match="folds=6 is more than the 5 partitions"):
        sd.distributed.cross_validate({"one": lambda X, y: THETA}, *parts, folds=6, **options)
    with pytest.raises(ValueError, match="metric='r2' is no mean over records"):
        sd.distributed.cross_validate({"one": lambda X, y: THETA}, *parts, **options | {"metric": "r2"})
    with pytest.raises(ValueError, match="folds"):
        sd.distributed.cross_validate({"one": lambda X, y: THETA}, *parts, folds=1, **options)


@pytest.mark.parametrize("metric", ["log_loss", "accuracy", "roc_auc"])
def test_records_of_weight_0(metric, monkeypatch):
    """Far ones, and whole partitions of them: quantiles are told from the same records as in memory."""
    for module in ("evaluation.records", "interfaces.distributed.evaluating"):
        monkeypatch.setattr(f"symdebias.{module}.SAMPLED", 1_000)
    X, y, weights = (np.array(one, dtype=float) for one in released(LABELLED))
    weights[: COUNT // 3 + 7], weights[::5] = 0.0, 0.0
    X[weights == 0] = 1e6
    how = {"metric": metric, "release": LABELLED}
    found = sd.distributed.evaluate(
        THETA,
        da.from_array(X, chunks=(700, 2)),
        da.from_array(y, chunks=700),
        sample_weight=da.from_array(weights, chunks=700),
        **how,
    )
    compared(found, sd.evaluation.evaluate(THETA, X, y, sample_weight=weights, **how))
    assert found.records == np.count_nonzero(weights)
