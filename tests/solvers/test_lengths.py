"""Lengths of records that a pass of descent measures: a bound on scores, and when nothing is read for it."""

import numpy as np
import pytest

import symdebias as sd
from symdebias.codegen.program import BLOCK
from symdebias.solvers import checkpoint
from symdebias.solvers.lengths import Lengths
from symdebias.solvers.scores import Whole

# More than twice as many as are tested.
N = 20_500


def handmade(seed=0, *, scale=1.0, **release):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N, 2)) * scale
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-X @ (np.array([1.2, -0.8]) / scale))), 1.0, -1.0)
    declared = sd.Release(sd.GaussianMechanism.from_scale(0.3 * scale), **release)
    noised = declared.privatize(X, y, random_state=seed + 1)
    return sd.debias(sd.losses.logistic(), noised.release, radius=3.0, score_variance=0.3, n=N), noised.X, noised.y


def watched(monkeypatch):
    """Return a list of the parameters for which all records are read, and one of the bounds that were asked for."""
    read, bounds = [], []
    farthest, bound = Whole.farthest, Lengths.bound
    monkeypatch.setattr(Whole, "farthest", lambda self, theta: read.append(theta) or farthest(self, theta))
    monkeypatch.setattr(
        Lengths, "bound", lambda self, theta: bounds.append((self, bound(self, theta))) or bounds[-1][1]
    )
    return read, bounds


@pytest.mark.exhaustive
@pytest.mark.parametrize("order", ["given", "shuffled"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_no_score_is_beyond_the_bound(monkeypatch, order, fit_intercept):
    corrected, X, y = handmade(fit_intercept=fit_intercept)
    # The longest record is where the last batch ends, or where a block is not full.
    X[-1] = 1.1 * X[np.argmax(np.linalg.norm(X, axis=1))]
    read, bounds = watched(monkeypatch)
    fit = sd.sgd(corrected, X, y, order=order, random_state=0, batch_size=300)
    assert len(bounds) == 1
    assert not read
    lengths = bounds[0][0]
    whole = Whole(corrected, corrected.records(X, y))
    rng = np.random.default_rng(3)
    reached = []
    for theta in (fit.theta, *rng.normal(size=(20, len(fit.theta)))):
        farthest = Whole.farthest(whole, theta)
        assert farthest <= lengths.bound(theta)
        reached.append(farthest / lengths.bound(theta))
    assert max(reached) > 0.9
    np.testing.assert_allclose(lengths.longest.max(), (X**2 @ lengths.inverse).max(), rtol=1e-12)
    # Parameters and what is said of them are those of a look at all records.
    del read[:]
    monkeypatch.setattr(Lengths, "of", classmethod(lambda *given: None))
    again = sd.sgd(corrected, X, y, order=order, random_state=0, batch_size=300)
    assert len(read) == 1
    np.testing.assert_allclose(again.theta, fit.theta, rtol=1e-13)
    told = {"carrying_share", "noise_inflation", "curvature", "score_variance"}
    for name in told:
        assert again.diagnostics[name] == pytest.approx(fit.diagnostics[name], rel=1e-11)


@pytest.mark.in_turn
def test_records_are_read_where_the_bound_does_not_tell(monkeypatch):
    """Columns that are nearly the same, with parameters of opposite signs: scores are short and records are long."""
    corrected, X, y = handmade()
    X[:, 1] = X[:, 0] + 0.05 * X[:, 1]
    read, bounds = watched(monkeypatch)
    sd.sgd(corrected, X, y, random_state=0, l2=0.1)
    (lengths, _), *_ = bounds
    del read[:]
    whole = Whole(corrected, corrected.records(X, y), lengths=lengths)
    theta = np.array([40.0, -40.0])
    farthest = np.abs(X @ theta).max()
    assert lengths.bound(theta) > 5 * farthest
    assert whole.is_within(theta, 1.01 * farthest)
    assert not whole.is_within(theta, 0.99 * farthest)
    assert len(read) == 2


@pytest.mark.in_turn
def test_a_change_of_units_changes_no_bound(monkeypatch):
    found = []
    for scale in (1.0, 1e6):
        corrected, X, y = handmade(scale=scale)
        with monkeypatch.context() as within:
            _, bounds = watched(within)
            sd.sgd(corrected, X, y, random_state=0)
        found.append(bounds[0][1])
    assert found[1] == pytest.approx(found[0], rel=1e-6)


def test_columns_that_would_lose_their_squares_are_not_measured():
    corrected, X, y = handmade()
    records = corrected.records(X, y)
    assert Lengths.of(corrected, records, np.eye(2)) is not None
    for square in (0.0, 1e-250, 1e250, np.inf, np.nan):
        assert Lengths.of(corrected, records, np.diag([1.0, square])) is None


def test_only_an_epoch_that_was_read_to_its_end_gives_a_bound():
    lengths = Lengths((0, 1), None, np.ones(2), np.ones(2), np.full(BLOCK, 4.0))
    theta = np.array([3.0, 4.0])
    lengths.begin()
    lengths.has_read(60, 100)
    assert lengths.bound(theta) == np.inf
    # The next epoch begins anew; what came before does not make it whole.
    lengths.begin()
    lengths.has_read(40, 100)
    assert lengths.bound(theta) == np.inf
    lengths.has_read(60, 100)
    assert lengths.bound(theta) == pytest.approx(10.0)


@pytest.mark.in_turn
def test_a_run_that_was_taken_up_reads_what_another_process_has_read(monkeypatch, tmp_path):
    corrected, X, y = handmade()
    options = {"random_state": 0, "record": 4, "checkpoint": tmp_path / "run"}
    read, _ = watched(monkeypatch)
    fit = sd.sgd(corrected, X, y, **options)
    assert not read
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)
    taken = sd.solvers.descent.Descent.take

    def stopped(self, kernel, lower, upper, *arguments):
        if lower > self.total // 2:
            raise RuntimeError("the power is gone")
        return taken(self, kernel, lower, upper, *arguments)

    with monkeypatch.context() as within:
        within.setattr(sd.solvers.descent.Descent, "take", stopped)
        with pytest.raises(RuntimeError):
            sd.sgd(corrected, X, y, **options)
    resumed = sd.sgd(corrected, X, y, **options)
    np.testing.assert_array_equal(resumed.theta, fit.theta)
    assert len(read) == 1
