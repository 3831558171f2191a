"""Runs that are killed and gone on with: one by a signal, others by an error at a chosen place."""

import importlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from instances import gaussian_release, records

import symdebias as sd
from symdebias._randomness import generator
from symdebias.exceptions import (
    DerivationLimitError,
    DivergenceError,
    FormatError,
    MissingDependencyError,
    NoExactCorrectionError,
)
from symdebias.solvers import archive, checkpoint
from symdebias.solvers.health import Examination

solver = importlib.import_module("symdebias.solvers.sgd")
training = importlib.import_module("symdebias.solvers.training")

# A kernel that is plain Python for some calls and compiled for others differs in the last bit.
pytestmark = pytest.mark.compiled

RELEASE = gaussian_release(0.1, epsilon=4.0)
CORRECTED = sd.debias(sd.losses.exponential(), RELEASE)


@pytest.fixture(autouse=True)
def always_written(monkeypatch):
    """The file is written whenever it may be, and not every ten seconds."""
    monkeypatch.setattr(checkpoint, "_SECONDS", 0.0)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "run.checkpoint"


def learnable(n=3000):
    rng = np.random.default_rng(0)
    X, _ = records(n, 2)
    y = np.where(X @ [2.0, -1.0] + rng.normal(size=n) > 0, 1.0, -1.0)
    noised = RELEASE.privatize(X, y, random_state=0)
    return noised.X, noised.y


class Killed(BaseException):
    """What stops a run where a test wants it to."""


def killed_at(monkeypatch, write):
    """Let a run stop at its n-th writing of the file, once that is written."""
    written = []

    def stopping(*arguments):
        archive_write(*arguments)
        written.append(1)
        if len(written) == write:
            raise Killed

    archive_write = archive.write
    monkeypatch.setattr(archive, "write", stopping)
    return lambda: monkeypatch.setattr(archive, "write", archive_write)


OPTIONS = {
    "shuffled": {"order": "shuffled", "average": 0.5, "random_state": 3, "epochs": 3},
    "given": {"order": "given", "average": True, "record": [5, 40, 100], "epochs": 2},
    "early stopping": {"early_stopping": 1, "epochs": 6, "random_state": 3},
    "batch means": {
        "average": True, "covariance": "batch means", "batch_size": 2,
        "step_size": sd.step_sizes.StepSize(1.0, power=0.6),
        "random_state": np.random.Generator(np.random.MT19937(4)),
    },
}  # fmt: skip


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("write", [1, 3, 6])
def test_sgd_goes_on_to_the_same_parameters_bit_for_bit(kind, write, place, monkeypatch):
    X, y = learnable()
    options = {"step_size": 0.2, "batch_size": 32, **OPTIONS[kind]}
    state = options["random_state"].bit_generator.state if kind == "batch means" else None
    whole = sd.sgd(CORRECTED, X, y, **options)
    monkeypatch.setattr(training, "_SEGMENT", 700)

    def again():
        if state is not None:
            options["random_state"].bit_generator.state = state
        return sd.sgd(CORRECTED, X, y, checkpoint=place, **options)

    restore = killed_at(monkeypatch, write)
    with pytest.raises(Killed):
        again()
    restore()
    assert place.exists()
    resumed = again()
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    np.testing.assert_array_equal(resumed.history.theta, whole.history.theta)
    np.testing.assert_array_equal(resumed.history.steps, whole.history.steps)
    for name, value in whole.diagnostics.items():
        assert resumed.diagnostics[name] == value or name == "seconds"
    if kind == "batch means":
        np.testing.assert_array_equal(resumed.covariance, whole.covariance)
    assert not place.exists()


def test_an_estimator_that_descends_goes_on_to_the_same_parameters(place, monkeypatch):
    pytest.importorskip("sklearn")
    X, y = learnable()
    options = {"step_size": 0.2, "batch_size": 32, "epochs": 3}
    model = sd.DebiasedClassifier(
        "exponential",
        release=RELEASE,
        solver="sgd",
        l2=0.0,
        random_state=3,
        solver_options={**options, "checkpoint": place},
    )
    restore = killed_at(monkeypatch, 2)
    with pytest.raises(Killed):
        model.fit(X, y)
    restore()
    assert place.exists()
    whole = sd.sgd(CORRECTED, X, y, random_state=3, **options)
    np.testing.assert_array_equal(model.fit(X, y).fit_.theta, whole.theta)
    assert not place.exists()


def test_without_a_seed_the_order_is_that_of_the_process_that_was_killed(place, monkeypatch):
    X, y = learnable()
    options = {"step_size": 0.2, "batch_size": 32, "epochs": 3}
    whole = sd.sgd(CORRECTED, X, y, random_state=11, **options)
    entropy = iter((11, 22))
    monkeypatch.setattr(solver, "generator", lambda _: generator(next(entropy)))
    restore = killed_at(monkeypatch, 2)
    with pytest.raises(Killed):
        sd.sgd(CORRECTED, X, y, checkpoint=place, **options)
    restore()
    np.testing.assert_array_equal(sd.sgd(CORRECTED, X, y, checkpoint=place, **options).theta, whole.theta)


def counted(X):
    """Rows that are read from their beginning to their end, and what was read of them."""
    passes = []

    def read(rows):
        passes.append(rows)
        return X[rows]

    return sd.blocks.Rows(X.shape, read), passes


@pytest.mark.parametrize("write", [1, 4, 8])
def test_m_estimation_goes_on_to_the_same_estimate_bit_for_bit(write, place, monkeypatch):
    X, y = learnable()
    options = {"l2": 0.01, "checkpoint": place}
    source, passes = counted(X)
    whole = sd.m_estimate(CORRECTED, source, y, l2=0.01)
    first = len(passes)
    restore = killed_at(monkeypatch, write)
    with pytest.raises(Killed):
        sd.m_estimate(CORRECTED, source, y, **options)
    restore()
    passes.clear()
    resumed = sd.m_estimate(CORRECTED, source, y, **options)
    assert len(passes) < first
    np.testing.assert_array_equal(resumed.theta, whole.theta)
    np.testing.assert_array_equal(resumed.covariance, whole.covariance)
    assert not place.exists()


@pytest.mark.in_turn
def test_a_surrogate_that_is_designed_on_the_way_is_the_same(place, monkeypatch):
    corrected = sd.debias(sd.losses.logistic(), RELEASE)
    X, y = learnable()
    for solve, writes in ((sd.m_estimate, (2, 5)), (sd.sgd, (1, 2))):
        options = {"random_state": 1, "epochs": 2} if solve is sd.sgd else {}
        whole = solve(corrected, X, y, **options)
        for write in writes:
            restore = killed_at(monkeypatch, write)
            with pytest.raises(Killed):
                solve(corrected, X, y, checkpoint=place, **options)
            restore()
            np.testing.assert_array_equal(solve(corrected, X, y, checkpoint=place, **options).theta, whole.theta)


SCRIPT = """
import sys
import numpy as np
import symdebias as sd
from symdebias.solvers import checkpoint
checkpoint._SECONDS = 0.0
data = np.load(sys.argv[1])
corrected = sd.debias(sd.losses.exponential(), sd.Release.from_json(str(data["card"])))
options = {"step_size": 0.2, "batch_size": 32, "epochs": 300, "random_state": 0}
sd.sgd(corrected, data["X"], data["y"], checkpoint=sys.argv[2], **options)
"""


@pytest.mark.in_turn
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_a_process_that_is_killed_is_gone_on_with(place, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_SECONDS", 10.0)
    X, y = learnable()
    corrected = sd.debias(sd.losses.exponential(), RELEASE.bind(["a", "b"]))
    np.savez(tmp_path / "data.npz", X=X, y=y, card=corrected.release.to_json())
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, tmp_path / "data.npz", place], stderr=subprocess.PIPE, env=dict(os.environ)
    )
    while not place.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    # Whatever was being written, the file is whole.
    assert zipfile.ZipFile(place).testzip() is None
    options = {"step_size": 0.2, "batch_size": 32, "epochs": 300, "random_state": 0}
    resumed = sd.sgd(corrected, X, y, checkpoint=place, **options)
    np.testing.assert_array_equal(resumed.theta, sd.sgd(corrected, X, y, **options).theta)
    assert not place.exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"l2": 0.2}, "its l2 was 0.1, and here it is 0.2"),
        ({"epochs": 4}, "its epochs was 3, and here it is 4"),
        ({"step_size": sd.step_sizes.inverse_time(1.0)}, r"its step_size was 0\.2, and here it is 'StepSize"),
        ({"random_state": 4}, "its random_state was another"),
        ({"random_state": None}, "its random_state was another"),
        ({"start": [0.1, 0.1]}, "its start was another"),
        ({"sample_weight": np.ones(3000)}, "its sample_weight was another"),
        ({"record": 3}, "its record was another"),
        ({"X": 0}, "its records was another"),
        ({"fewer": 1}, "its number of records was 3000, and here it is 2999"),
        ({"loss": sd.losses.squared_margin()}, "its loss was"),
        ({"release": gaussian_release(0.2, epsilon=4.0)}, "its release was another"),
        ({"solver": sd.m_estimate}, "its solver was 'sgd', and here it is 'm_estimate'"),
    ],
)
def test_another_run_is_refused(changed, message, place, monkeypatch):
    changed = dict(changed)
    X, y = learnable()
    options = {"step_size": 0.2, "batch_size": 32, "l2": 0.1, "epochs": 3, "random_state": 3, "checkpoint": place}
    restore = killed_at(monkeypatch, 1)
    with pytest.raises(Killed):
        sd.sgd(CORRECTED, X, y, **options)
    restore()
    before = place.read_bytes()
    corrected, solve = CORRECTED, changed.pop("solver", sd.sgd)
    if changed.pop("X", None) is not None:
        X[1234, 1] += 1e-9
    if changed.pop("fewer", None):
        X, y = X[:-1], y[:-1]
    if changed.keys() & {"loss", "release"}:
        corrected = sd.debias(changed.pop("loss", sd.losses.exponential()), changed.pop("release", RELEASE))
    options = {"checkpoint": place} if solve is sd.m_estimate else options | changed
    with pytest.raises(ValueError, match=f"run.checkpoint is the checkpoint of another run: {message}"):
        solve(corrected, X, y, **options)
    assert place.read_bytes() == before


NORMAL = sd.Release(sd.GaussianMechanism.from_scale(0.3))


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("of", "by", "message"),
    [
        (("series", {"order": 1}), ("series", {"order": 3}), "'series, order 1', and here it is 'series, order 3'"),
        (("quadrature", {"nodes": 8}), ("quadrature", {"nodes": 12}), "'quadrature, nodes 8', and here it is"),
        (("series", {"order": 2}), ("exact", {}), "'series, order 2', and here it is 'exact'"),
    ],
)
@pytest.mark.parametrize("solve", [sd.sgd, sd.m_estimate])
def test_a_run_under_another_correction_is_refused(solve, of, by, message, place, monkeypatch):
    X, y = learnable()
    options = {"epochs": 4, "random_state": 3, "l2": 0.1} if solve is sd.sgd else {"l2": 0.1}
    options["checkpoint"] = place
    begun, other = (sd.debias(sd.losses.exponential(), NORMAL, method=name, **given) for name, given in (of, by))
    restore = killed_at(monkeypatch, 1)
    with pytest.raises(Killed):
        solve(begun, X, y, **options)
    restore()
    before = place.read_bytes()
    with pytest.raises(ValueError, match=f"the checkpoint of another run: its method was {message}"):
        solve(other, X, y, **options)
    assert place.read_bytes() == before
    # The same correction, made anew, goes on with it.
    solve(sd.debias(sd.losses.exponential(), NORMAL, method=of[0], **of[1]), X, y, **options)
    assert not place.exists()


def test_methods_without_settings_are_told_by_their_name():
    for method in ("exact", "surrogate", "none"):
        corrected = sd.debias(sd.losses.exponential(), NORMAL, method=method)
        assert checkpoint.described(corrected, corrected.records(*learnable(100)), {})["method"] == method


def damaged(content):
    return content[: len(content) // 2]


def of_another_format(_):
    return b"theta = 1\n"


def of_another_version(content):
    return content.replace(b"checkpoint-1", b"checkpoint-9")


@pytest.mark.parametrize("damage", [damaged, of_another_format, of_another_version])
def test_files_of_another_form_are_refused_and_kept(damage, place, monkeypatch):
    X, y = learnable(300)
    restore = killed_at(monkeypatch, 1)
    with pytest.raises(Killed):
        sd.sgd(CORRECTED, X, y, step_size=0.2, checkpoint=place)
    restore()
    place.write_bytes(damage(place.read_bytes()))
    with pytest.raises(FormatError, match=r"run\.checkpoint is not a checkpoint of the format .* remove this one"):
        sd.sgd(CORRECTED, X, y, step_size=0.2, checkpoint=place)
    assert place.exists()


def test_a_state_that_is_none_of_the_run_is_refused(place):
    kept = checkpoint.Checkpoint(place)
    kept.begin({"a": 1})
    kept.keep(0, lambda: {"descent": {"theta": np.zeros(3)}}, at_once=True)
    again = checkpoint.Checkpoint(place)
    again.begin({"a": 1})
    with pytest.raises(FormatError, match="has no state of this descent"):
        again.resumed(0, lambda state: state["order"])


def test_the_place_is_looked_at_before_anything_is_computed(tmp_path):
    X, y = learnable(100)
    for solve in (sd.sgd, sd.m_estimate):
        with pytest.raises(FileNotFoundError, match="is not there"):
            solve(CORRECTED, X, y, checkpoint=tmp_path / "nowhere" / "run")
        with pytest.raises(IsADirectoryError):
            solve(CORRECTED, X, y, checkpoint=tmp_path)
        for nothing in (True, 5, b"run"):
            with pytest.raises(TypeError, match=r"checkpoint has the type .*Give the path of a file"):
                solve(CORRECTED, X, y, checkpoint=nothing)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are those of POSIX")
def test_a_folder_that_nothing_can_be_written_to_is_refused_at_once(tmp_path, monkeypatch):
    X, y = learnable(100)
    monkeypatch.setattr("os.access", lambda place, _: place != tmp_path)
    for solve in (sd.sgd, sd.m_estimate):
        with pytest.raises(PermissionError, match="nothing can be written to the folder"):
            solve(CORRECTED, X, y, checkpoint=tmp_path / "run")


def test_two_runs_do_not_write_over_each_others_file(place):
    """The one that comes later is stopped, and what the other has kept stays."""
    one, other, same = (checkpoint.Checkpoint(place) for _ in range(3))
    for file, run in ((one, {"a": 1}), (other, {"a": 2}), (same, {"a": 1})):
        file.begin(run)
    one.keep(0, lambda: {"theta": np.zeros(3)}, at_once=True)
    before = place.read_bytes()
    with pytest.raises(ValueError, match="of another run: its a was 1, and here it is 2"):
        other.keep(0, lambda: {"theta": np.ones(3)}, at_once=True)
    other.remove()
    assert place.read_bytes() == before
    # The same run by another process writes the same.
    same.keep(0, lambda: {"theta": np.zeros(3)}, at_once=True)
    one.remove()
    assert place.exists()
    same.remove()
    assert not place.exists()


def test_a_refusal_is_a_result_and_an_interruption_is_none(place, monkeypatch):
    X, y = learnable()
    with pytest.raises(DivergenceError):
        sd.sgd(CORRECTED, X, y, step_size=1e6, checkpoint=place)
    assert not place.exists()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(solver, "Examination", interrupted)
    with pytest.raises(sd.FitInterrupted):
        sd.sgd(CORRECTED, X, y, step_size=0.2, checkpoint=place)
    assert place.exists()


@pytest.mark.in_turn
@pytest.mark.parametrize("solve", [sd.sgd, sd.m_estimate, sd.sgd_replicates])
def test_a_package_that_is_missing_leaves_the_file(solve, place, monkeypatch):
    X, y = learnable()
    descent = {"batch_size": 32, "epochs": 2, "random_state": 3}
    own = {sd.sgd: {"step_size": 0.2, **descent}, sd.sgd_replicates: descent, sd.m_estimate: {}}
    options = {"checkpoint": place, **own[solve]}
    first = ([{"step_size": 0.2}],) if solve is sd.sgd_replicates else ()
    restore = killed_at(monkeypatch, 1)
    with pytest.raises(Killed):
        solve(CORRECTED, X, y, *first, **options)
    restore()
    before = place.read_bytes()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "tqdm", None)
        with pytest.raises(MissingDependencyError):
            solve(CORRECTED, X, y, *first, progress=True, **options)
        assert place.read_bytes() == before
        # Nor is that of another run removed.
        other = sd.sgd if solve is sd.m_estimate else sd.m_estimate
        with pytest.raises((ValueError, MissingDependencyError)):
            other(CORRECTED, X, y, progress=True, checkpoint=place)
        assert place.read_bytes() == before
    solve(CORRECTED, X, y, *first, **options)
    assert not place.exists()


@pytest.mark.parametrize(
    ("error", "begins", "stays"),
    [
        (DivergenceError, True, False),
        (DivergenceError, False, True),
        (NoExactCorrectionError, False, True),
        (MissingDependencyError, True, True),
        (DerivationLimitError, True, True),
        (FormatError, True, True),
        (OSError, True, True),
    ],
)
def test_only_a_result_of_the_run_itself_removes_its_file(error, begins, stays, place):
    file = checkpoint.Checkpoint(place)
    file.begin({"a": 1})
    file.keep(0, lambda: {"theta": np.zeros(3)}, at_once=True)

    def run():
        with checkpoint.kept(place) as journal:
            if begins:
                journal.begin({"a": 1})
            raise error("refused")

    with pytest.raises(error, match="refused"):
        run()
    assert place.exists() == stays


def test_a_run_that_is_refused_by_the_file_of_another_leaves_it(place):
    file = checkpoint.Checkpoint(place)
    file.begin({"a": 1})
    file.keep(0, lambda: {"theta": np.zeros(3)}, at_once=True)
    with pytest.raises(ValueError, match="of another run"), checkpoint.kept(place) as journal:
        journal.begin({"a": 2})
    assert place.exists()


def test_what_a_standstill_is_compared_with_may_come_from_a_pass_before(place):
    X, y = learnable()
    records, start = CORRECTED.records(X, y, sample_weight=np.where(y > 0, 1.0, 0.01)), np.zeros(2)
    said = []
    for journal in (None, checkpoint.Checkpoint(place)):
        examined = replace(records, journal=journal)
        examined.mean_gradient(start)
        said.append(Examination(examined, np.eye(2)).standstill(start, np.full(2, 1e-3), np.zeros(2)))
    assert "the mean gradient is" in said[0]
    assert said[1] == said[0]
