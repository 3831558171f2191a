"""Metrics of records with noise scales of their own: exact where the loss is, as on records of each noise alone."""

import functools

import numpy as np
import pandas as pd
import pytest
import sympy as sp

import symdebias as sd
from symdebias.evaluation import evaluate

U, Y = sp.symbols("u y", real=True)
KNOWN = sd.Release({"a": sd.GaussianMechanism.from_scale(1.0)}, noiseless=("b",), fit_intercept=True)
RNG = np.random.default_rng(0)
COUNT = 600
X = RNG.normal(size=(COUNT, 2))
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0])).astype(float)
SCALES = np.where(np.arange(COUNT) % 3 == 0, 0.2, 0.7)
X[:, 0] += SCALES * RNG.normal(size=COUNT)
THETA = np.array([0.25, 0.1, -0.1])
QUARTIC = sd.Loss((U - Y) ** 4, score=U, target=Y)


def release_of(scale):
    return sd.Release({"a": sd.GaussianMechanism.from_scale(scale)}, noiseless=("b",), fit_intercept=True)


@pytest.mark.in_turn
@pytest.mark.parametrize("metric", ["squared_error", "poisson", QUARTIC], ids=["squares", "poisson", "quartic"])
@pytest.mark.parametrize("form", ["one per record", "one per column", "a table", "blocks"])
def test_the_mean_is_that_of_records_of_each_noise(metric, form):
    given = {
        "one per record": SCALES,
        "one per column": np.column_stack([SCALES, np.zeros(COUNT)]),
        "a table": pd.DataFrame({"b": np.zeros(COUNT), "a": SCALES}),
        "blocks": SCALES,
    }[form]
    records = sd.blocks.from_iterator(lambda: np.array_split(X, 4))[0] if form == "blocks" else X
    found = evaluate(THETA, records, COUNTS, metric=metric, release=KNOWN, noise_scale=given)
    apart = [
        evaluate(THETA, X[rows], COUNTS[rows], metric=metric, release=release_of(scale))
        for scale, rows in ((0.2, SCALES == 0.2), (0.7, SCALES == 0.7))
    ]
    shares = [one.records / COUNT for one in apart]
    assert found.value == pytest.approx(sum(share * one.value for share, one in zip(shares, apart, strict=True)))
    assert (found.method, found.bias) == ("exact", 0.0)
    # Within groups and between them.
    squares = sum(
        share * (one.records * one.standard_error**2 + (one.value - found.value) ** 2)
        for share, one in zip(shares, apart, strict=True)
    )
    assert found.standard_error == pytest.approx(np.sqrt(squares / COUNT), rel=0.01)


@pytest.mark.parametrize("metric", ["squared_error", "r2", "poisson"])
def test_scales_of_an_estimate_are_as_sure_as_it_is(metric):
    mechanism = sd.GaussianMechanism.from_estimate(0.5, 30)
    release = sd.Release({"a": mechanism}, noiseless=("b",), fit_intercept=True)
    judged = functools.partial(evaluate, THETA, X, COUNTS, metric=metric, release=release)
    alike = judged(noise_scale=np.column_stack([np.full(COUNT, mechanism.scale), np.zeros(COUNT)]))
    plain = judged()
    assert alike.value == pytest.approx(plain.value)
    assert alike.standard_error == pytest.approx(plain.standard_error)
    assert alike.degrees_of_freedom == pytest.approx(plain.degrees_of_freedom)
    known = judged(noise_scale=np.full(COUNT, mechanism.scale), release=KNOWN)
    assert known.standard_error < plain.standard_error


@pytest.mark.in_turn
def test_of_a_fit_with_an_offset_and_clusters():
    offset, clusters = np.log(RNG.uniform(1, 3, COUNT)), np.arange(COUNT) // 2
    corrected = sd.debias(sd.losses.poisson(), KNOWN)
    fit = sd.m_estimate(corrected, X, COUNTS, offset=offset, noise_scale=SCALES)
    found = evaluate(
        fit, X, COUNTS, metric="poisson", noise_scale=SCALES, offset=offset, clusters=clusters,
        sample_weight=np.ones(COUNT),
    )  # fmt: skip
    longer = sd.Release({"a": sd.GaussianMechanism.from_scale(1.0)}, noiseless=("b", "t"), fit_intercept=True)
    theta = np.insert(fit.theta, 2, 1.0)
    scales = np.column_stack([SCALES, np.zeros((COUNT, 2))])
    same = sd.debias(sd.losses.poisson(), longer).loss(theta, np.column_stack([X, offset]), COUNTS, noise_scale=scales)
    assert found.value == pytest.approx(same.mean())
    assert found.clusters == COUNT // 2


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"metric": "log_loss"}, sd.NoExactCorrectionError, "no exact correction under normal noise.*squared_error"),
        ({"metric": "accuracy"}, sd.NoExactCorrectionError, "accuracy undoes a noise of the score that is one for all"),
        ({"metric": "roc_auc"}, sd.NoExactCorrectionError, "roc_auc undoes a noise of the score that is one for all"),
        ({"noise_scale": SCALES[:-1]}, ValueError, "noise_scale has the shape"),
        ({"noise_scale": -SCALES}, ValueError, "noise_scale is negative in row 1"),
        ({"noise_scale": np.ones((COUNT, 2))}, ValueError, "has a scale for column b"),
        ({"noise_scale": "0.5"}, TypeError, "noise_scale must hold real numbers"),
        ({"release": sd.Release(fit_intercept=True)}, ValueError, "from_scale; the release has none"),
        (
            {"release": sd.Release(sd.SphericalCapMechanism(2.0, radius=9.0), target="margin", fit_intercept=True)},
            ValueError,
            "them and the target in one vector. Leave noise_scale out",
        ),
    ],
)  # fmt: skip
def test_what_has_no_such_metric_is_refused(change, error, message):
    labels = np.where(np.arange(COUNT) % 2, 1.0, -1.0)
    given = {"metric": "squared_error", "release": KNOWN, "noise_scale": SCALES} | change
    with pytest.raises(error, match=message):
        evaluate(THETA, X, labels, **given)


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (sp.exp(U**2 / 4) - Y, sd.InfiniteVarianceError, "from 2 on the corrected loss has infinite variance"),
        (1 - sp.exp(-((U - Y) ** 2) / 4), sd.NoExactCorrectionError, "exists below 2 only"),
    ],
)
def test_a_loss_that_the_noise_of_some_record_leaves_no_variance_is_refused(expression, error, message):
    loss = sd.Loss(expression, score=U, target=Y)
    release, x = sd.Release(sd.GaussianMechanism.from_scale(0.3)), X[:, :1] / 4
    scales = np.where(np.arange(COUNT) == 3, 1.0, 0.3)
    assert evaluate([1.0], x, x[:, 0], metric=loss, release=release, noise_scale=scales).method == "exact"
    with pytest.raises(error, match=rf"some of these records: the variance .* is 2\.25, and .*{message}"):
        evaluate([1.5], x, x[:, 0], metric=loss, release=release, noise_scale=scales)
