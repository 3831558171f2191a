"""What the distribution of scores is estimated from: the far records are found by the pass that takes the moments."""

import tracemalloc

import numpy as np
import pytest

import symdebias as sd
from symdebias._rows import spread
from symdebias.solvers import moments, score_sample
from symdebias.solvers.scores import known_scores

pytestmark = pytest.mark.newest

COUNT = 60_000
RELEASES = {
    "normal": sd.Release({("a", "b", "c"): sd.GaussianMechanism.from_scale(0.5)}, fit_intercept=True),
    "categories": sd.Release(
        {
            ("a", "b"): sd.GaussianMechanism.from_scale(0.5),
            "c": sd.RandomizedResponse(2.0, categories=("x", "y", "z")),
        },
        fit_intercept=True,
    ),
}
PLANTED = [17, 33_333, 59_999]


def drawn(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_t(5, size=(COUNT, 3)) @ np.diag([1.0, 40.0, 1e-3])
    if kind == "categories":
        X[:, 2] = rng.integers(0, 3, COUNT)
    return X, np.where(rng.random(COUNT) < 0.4, 1.0, -1.0), rng.uniform(0.5, 2.0, COUNT)


def not_drawn(count):
    """Return the places of three of so many records that are not in the sample."""
    places = spread(count, score_sample.sample_stride(count))
    return np.setdiff1d(np.arange(count), places)[[0, 100, 1000]]


def told(sample):
    """Return the rows of a sample in an order that does not depend on how they were found, and their chances."""
    order = np.lexsort(sample.rows.T)
    return sample.rows[order], sample.target[order], sample.chances[order]


@pytest.mark.parametrize("kind", RELEASES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("least", [1, 2**40], ids=["compiled", "numpy"])
def test_one_pass_finds_what_two_find(monkeypatch, kind, weighted, least):
    """Far records by the second moments of the sample: nearly those by the moments of all, the farthest for certain."""
    monkeypatch.setattr(moments, "_COMPILED_FROM", least)
    X, y, weights = drawn(kind)
    X[PLANTED, :2] *= 100
    corrected = sd.debias(sd.losses.logistic(), RELEASES[kind])
    records = corrected.records(X, y, sample_weight=weights if weighted else None)
    known = known_scores(corrected, records)
    found = known.sample_of()
    exact = score_sample.ScoreSample.of(corrected, records, known.moments, known.metric)
    for sample in (found, exact):
        assert abs(sample.chances.sum() - 1) < 1e-12
        for place in PLANTED:
            assert np.isclose(sample.rows[:, 0], X[place, 0], rtol=1e-12).sum() == 1
    both = {row.tobytes() for row in found.rows} & {row.tobytes() for row in exact.rows}
    assert len(both) > 0.99 * max(len(found.rows), len(exact.rows))
    assert abs(len(found.rows) / len(exact.rows) - 1) < 0.01
    plain = moments.moments_of_records(records, records.correction.noise_covariance())
    np.testing.assert_array_equal(known.moments.gram[0], plain.gram[0])
    np.testing.assert_array_equal(known.moments.mean[0], plain.mean[0])
    np.testing.assert_array_equal(known.moments.cross, plain.cross)


@pytest.mark.parametrize("least", [1, 2**40], ids=["compiled", "numpy"])
def test_a_column_that_the_sample_has_not_is_looked_for_again(monkeypatch, least):
    """One in three records is drawn, and the one column that three others alone have has a moment in no direction."""
    monkeypatch.setattr(moments, "_COMPILED_FROM", least)
    X, y, _ = drawn("normal")
    others = not_drawn(len(X))
    X[:, 2] = 0.0
    X[others, 2] = 3.0
    covariance = np.diag([0.25, 0.25, 0.0])
    release = sd.Release({("a", "b", "c"): sd.GaussianMechanism.from_covariance(covariance)})
    corrected = sd.debias(sd.losses.logistic(), release)
    records = corrected.records(X, y)
    assert not np.isin(others, records.every(score_sample.sample_stride(records.present))).any()
    known = known_scores(corrected, records)
    found = known.sample_of()
    assert sorted(found.rows[found.rows[:, 2] > 0, 0]) == sorted(X[others, 0])
    exact = score_sample.ScoreSample.of(corrected, records, known.moments, known.metric)
    for one, other in zip(told(found), told(exact), strict=True):
        np.testing.assert_array_equal(one, other)


def test_targets_that_the_sample_has_not_are_looked_for_again():
    """A residual is far out where its target is, and the mean square of all targets is that of three of them."""
    X, y, _ = drawn("normal")
    y = X[:, 0] + 0.1 * y
    y[not_drawn(len(X))] = 1e4
    corrected = sd.debias(sd.losses.huber(1.0), RELEASES["normal"])
    records = corrected.records(X, y)
    known = known_scores(corrected, records)
    found = known.sample_of()
    assert (found.target == 1e4).sum() == 3
    exact = score_sample.ScoreSample.of(corrected, records, known.moments, known.metric)
    for one, other in zip(told(found), told(exact), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("place", [0, 1], ids=["in the sample", "elsewhere"])
def test_what_is_not_finite_is_refused_by_its_place(bad, place):
    X, y, _ = drawn("normal")
    X = np.tile(X, (6, 1))
    X[place, 1] = bad
    corrected = sd.debias(sd.losses.logistic(), RELEASES["normal"])
    with pytest.raises(ValueError, match=rf"row {place}\b"):
        sd.m_estimate(corrected, X, np.tile(y, 6))


def test_products_of_rows_are_summed_by_blocks():
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(9_000, 7)), rng.normal(size=9_000)
    sample = score_sample.ScoreSample(rows, weights, weights, None)
    assert np.allclose(sample.products(weights), (rows.T * weights) @ rows, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_of_records_in_memory_is_taken_without_another_copy(weighted):
    X, y, weights = drawn("normal")
    X, y, weights = (np.tile(part, (8, 1)[: part.ndim]) for part in (X, y, weights))
    corrected = sd.debias(sd.losses.logistic(), RELEASES["normal"])
    records = corrected.records(X, y, sample_weight=weights if weighted else None)
    noise = records.correction.noise_covariance()
    released = records.correction.design.released_covariance(noise)
    tracemalloc.start()
    try:
        _, arrays = score_sample.moments_with_sample(corrected, records, noise, released)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    kept = sum(array.nbytes for array in arrays)
    # The drawn records, kept until the far ones are known, and a copy of these would come to 2.8 times as much.
    assert kept < peak < 2.5 * kept


def test_records_under_another_correction_have_the_samples_that_were_taken():
    X, y, weights = drawn("normal")
    corrected = sd.debias(sd.losses.logistic(), RELEASES["normal"])
    records = corrected.records(X, y, sample_weight=weights)
    tested, looked_at = records.tested, records.looked_at
    other = sd.debias(sd.losses.exponential(), RELEASES["normal"]).records(X, y).correction
    moved = records.under(other)
    assert moved.tested.matrix is tested.matrix
    assert moved.looked_at.target is looked_at.target
    assert moved.tested.correction is other
    theta = np.array([0.1, 1e-3, 0.2, 0.1])
    again = corrected.records(X, y, sample_weight=weights).under(other).tested
    assert moved.tested.mean_gradient(theta) == pytest.approx(again.mean_gradient(theta), rel=1e-15)
