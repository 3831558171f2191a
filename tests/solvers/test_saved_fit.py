"""A fit is the same in another process and from a file, and a file that is not one is refused."""

import copy
import gc
import io
import json
import multiprocessing
import os
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import children
import joblib
import numpy as np
import pytest
import sympy as sp
from instances import U, Y, gaussian_release, mixed_release, records

import symdebias as sd
from symdebias.codegen import cache
from symdebias.corrected import CorrectedLoss
from symdebias.derivation import Surrogate
from symdebias.inference import Inference

X = np.random.default_rng(0).uniform(-0.7, 0.7, (4_000, 2))
LABELS = np.where(np.random.default_rng(1).random(4_000) < 1 / (1 + np.exp(-X @ [3.0, -2.0])), 1.0, -1.0)
NOISED = gaussian_release(0.3, epsilon=3.0).privatize(X, LABELS, random_state=1)
LOSSES = {name: getattr(sd.losses, name)() for name in ("exponential", "squared_margin", "logistic")}


@pytest.fixture(scope="module", params=list(LOSSES))
def fit(request):
    corrected = sd.debias(LOSSES[request.param], NOISED.release)
    return sd.m_estimate(corrected, NOISED.X, NOISED.y, l2=0.5, radius=2.0)


@pytest.fixture(scope="module")
def logistic_fit():
    return sd.m_estimate(sd.debias(LOSSES["logistic"], NOISED.release), NOISED.X, NOISED.y, l2=0.5, radius=2.0)


def made(theta, corrected, **options):
    theta = np.asarray(theta, dtype=float)
    theta.setflags(write=False)
    options = {"diagnostics": {"records": 10, "steps": 1, "seconds": 0.1}, **options}
    return sd.Fit(
        theta=theta, corrected=corrected, solver="by hand", history=sd.solvers.History.empty(theta), **options
    )


def same(value, other):
    """Whether two values are equal to the last bit, with their types."""
    if isinstance(value, np.ndarray):
        return value.dtype == other.dtype and value.shape == other.shape and value.tobytes() == other.tobytes()
    if isinstance(value, dict):
        return list(value) == list(other) and all(same(value[key], other[key]) for key in value)
    if isinstance(value, (list, tuple)):
        return type(value) is type(other) and len(value) == len(other) and all(map(same, value, other))
    if hasattr(value, "__dataclass_fields__"):
        return type(value) is type(other) and all(
            same(getattr(value, name), getattr(other, name)) for name in value.__dataclass_fields__
        )
    if isinstance(value, float) and value != value:
        return type(value) is type(other) and other != other
    return type(value) is type(other) and value == other


def assert_same(fit, other):
    assert not other.theta.flags.writeable
    for name in ("theta", "solver", "history", "inference", "own_guarantee", "claim"):
        assert same(getattr(fit, name), getattr(other, name)), name
    assert same(dict(fit.diagnostics), dict(other.diagnostics))
    for name in ("declared", "release", "approach", "method", "design", "reason", "is_exact", "notes"):
        assert getattr(fit.corrected, name) == getattr(other.corrected, name), name
    assert fit.summary() == other.summary()


def mean_loss(corrected):
    return corrected.mean_loss([0.3, -0.2], NOISED.X, NOISED.y)


# ---- pickles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_fit_is_the_same_from_a_pickle(fit, protocol):
    content = pickle.dumps(fit, protocol)
    assert len(content) < 20_000
    assert b"symdebias_kernel" not in content
    other = pickle.loads(content)
    assert_same(fit, other)
    assert mean_loss(fit.corrected) == mean_loss(other.corrected)


def test_copies_are_the_same(fit):
    for other in (copy.copy(fit), copy.deepcopy(fit)):
        assert_same(fit, other)


def test_a_pickled_correction_ships_nothing_that_was_computed():
    corrected = sd.debias(LOSSES["exponential"], NOISED.release)
    fresh = pickle.dumps(corrected)
    mean_loss(corrected)
    _ = corrected.certificate, corrected.source, corrected.gradient_expressions
    assert pickle.dumps(corrected) == fresh


def test_nouns_are_equal_after_a_pickle_and_copies():
    release = mixed_release(target=sd.RandomizedResponse(epsilon=1.0))
    _ = release.guarantee, release.noises(6)
    unevaluated = sd.Loss(sp.Mul(2, U + Y**2 * U**2, evaluate=False), score=U, target=Y)
    for noun in (release, *LOSSES.values(), sd.losses.softmax(3), sd.losses.huber(), unevaluated):
        for protocol in range(2, 6):
            assert pickle.loads(pickle.dumps(noun, protocol)) == noun
        assert copy.copy(noun) == noun
        assert copy.deepcopy(noun) == noun
    again = pickle.loads(pickle.dumps(NOISED))
    assert again.release == NOISED.release
    assert again.seeded
    np.testing.assert_array_equal(again.X, NOISED.X)
    parts = pickle.loads(pickle.dumps(sd.bias(LOSSES["exponential"], NOISED.release)))
    assert parts.feature == sd.bias(LOSSES["exponential"], NOISED.release).feature


def test_mechanisms_ship_their_declaration_only():
    coin = sd.RandomizedResponse(epsilon=1.0)
    fresh = pickle.dumps(coin)
    _ = coin.noise
    assert pickle.dumps(coin) == fresh
    assert pickle.loads(fresh).noise == coin.noise


@pytest.mark.in_turn
def test_worker_pools_take_and_return_them(logistic_fit):
    """The pool of joblib starts processes afresh, as spawn does; `docs/keeping.md` has one, too."""
    corrected = logistic_fit.corrected
    wanted = mean_loss(corrected)
    parts = [(1.0,), (2.0,)]
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(scaled)(corrected, *part) for part in parts)
    assert found == [wanted, 2 * wanted]


FORKED = """
import multiprocessing, pickle, sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
import numpy as np

fit = pickle.loads(Path(sys.argv[1]).read_bytes())
X, y = (np.load(sys.argv[2])[name] for name in "Xy")

def mean_loss(corrected):
    return corrected.mean_loss([0.3, -0.2], X, y)

wanted = mean_loss(fit.corrected)
with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    found = list(pool.map(mean_loss, [fit.corrected, fit.corrected]))
    (other,) = pool.map(pickle.loads, [pickle.dumps(fit)])
print(found == [wanted, wanted], np.array_equal(other.theta, fit.theta) and str(other.summary()) == str(fit.summary()))
"""


@pytest.mark.in_turn
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_forked_pools_take_and_return_them(logistic_fit, tmp_path):
    """They have the kernels of the process that forks, which has no other threads: what those hold stays held."""
    (tmp_path / "fit.pkl").write_bytes(pickle.dumps(logistic_fit))
    np.savez(tmp_path / "records.npz", X=NOISED.X, y=NOISED.y)
    done = subprocess.run(
        [sys.executable, "-c", FORKED, tmp_path / "fit.pkl", tmp_path / "records.npz"],
        capture_output=True, text=True, check=True, timeout=children.LONGEST,
    )  # fmt: skip
    assert done.stdout == "True True\n"


def scaled(corrected, factor):
    return factor * corrected.mean_loss([0.3, -0.2], NOISED.X, NOISED.y)


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_forked_process_is_not_stopped_by_a_lock_that_it_got():
    cache._THREADS.lock.acquire()
    try:
        worker = multiprocessing.get_context("fork").Process(target=_take_lock)
        worker.start()
        worker.join(20)
        assert worker.exitcode == 0
    finally:
        cache._THREADS.lock.release()


def _take_lock():
    """In another thread than the one that survives the fork, which would own the lock."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(cache._THREADS.lock.acquire, timeout=5).result()


@pytest.mark.in_turn
@pytest.mark.compiled
def test_a_fit_is_the_same_in_another_process(logistic_fit, tmp_path):
    (tmp_path / "fit.pkl").write_bytes(pickle.dumps(logistic_fit))
    logistic_fit.save(tmp_path / "fit.npz")
    code = (
        "import pickle, sys, symdebias as sd\n"
        "for f in (pickle.load(open(sys.argv[1], 'rb')), sd.Fit.load(sys.argv[2])):\n"
        "    value = f.corrected.mean_loss(f.theta, [[0., 0.]], [1])\n"
        "    print(f.theta.tolist(), f.confidence_interval(.9).tolist(), value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "fit.pkl", tmp_path / "fit.npz"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    value = logistic_fit.corrected.mean_loss(logistic_fit.theta, [[0.0, 0.0]], [1])
    line = f"{logistic_fit.theta.tolist()} {logistic_fit.confidence_interval(0.9).tolist()} {value}"
    assert done.stdout.splitlines() == [line, line]


# ---- files -----------------------------------------------------------------------------------------------


def test_a_fit_is_the_same_from_a_file(fit, tmp_path):
    path = tmp_path / "fit"
    fit.save(path)
    other = sd.Fit.load(str(path))
    assert_same(fit, other)
    assert mean_loss(fit.corrected) == mean_loss(other.corrected)
    np.testing.assert_array_equal(other.confidence_interval(0.9), fit.confidence_interval(0.9))
    # Equal fits are equal files, nothing else is left in the folder, and NumPy reads the arrays.
    other.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again", "fit"]
    with np.load(path, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["theta"], fit.theta)


# What an earlier fit may have left, as far as anybody looks.
EARLIER = b"PK\x03\x04" + bytes(26) + b"fit.json"


def test_a_file_is_replaced_whole_or_not_at_all(logistic_fit, tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"
    path.write_bytes(EARLIER)

    def full(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="no space"):
            logistic_fit.save(path)
    assert path.read_bytes() == EARLIER
    assert [file.name for file in tmp_path.iterdir()] == ["fit.npz"]
    logistic_fit.save(path)
    assert_same(logistic_fit, sd.Fit.load(path))


@pytest.mark.in_turn
def test_ctrl_c_within_a_member_is_not_hidden(logistic_fit, tmp_path, monkeypatch):
    """An archive that is left within a member cannot be closed, and says so where nobody asked."""
    path = tmp_path / "fit"
    path.write_bytes(EARLIER)
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "_open_to_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            logistic_fit.save(path)
    gc.collect()
    assert (unraisable, list(tmp_path.iterdir()), path.read_bytes()) == ([], [path], EARLIER)


def interrupted(opened, *_, **__):
    opened._writing = True
    raise KeyboardInterrupt


def test_every_value_of_a_fit_comes_back(tmp_path):
    corrected = sd.debias(LOSSES["exponential"], NOISED.release)
    mechanism = sd.mechanisms.InputPerturbation(2, q_scale=4.0, p_scale=8.0, q_bound=1.0, p_bound=1.0, delta=1e-5)
    diagnostics = {
        "records": None, "steps": 3, "seconds": 1e-3, "nothing": None, "yes": True, "far": np.inf, "near": -np.inf,
        "unknown": np.nan, "zero": -0.0, "least": 5e-324, "text": "ünï\n", "tuple": (1, ("a", 2.5), []),
        "list": [1.5, None], "nested": {"a b/../c": {"array": np.arange(6).reshape(2, 3)}, "array": "theta"},
        "array": np.array([np.nan, np.inf, -0.0]), "empty": np.zeros((0, 2)), "truth": np.array([True, False]),
        "scalar": np.float64(0.1), "integer": np.int64(3), "single": np.float32(0.1), "bool": np.bool_(True),
        "mechanism": mechanism, "guarantee": sd.Guarantee(1.0, 1e-5, "central", "add-remove", ("a",), "some basis"),
        "fortran": np.asfortranarray(np.ones((2, 3))), "big": np.arange(3, dtype=">i4"), "number": 10**30,
    }  # fmt: skip
    freedom = np.array([2.5, np.inf])
    inference = Inference(
        np.eye(2) / 7, "sandwich", "a refusal", np.array([0.1, np.inf]), ("one", "two"), freedom, 2.0,
        skewness=np.array([[0.1, 0.0], [0.0, 0.0]]), bias_factors=np.arange(12.0).reshape(2, 2, 3),
    )  # fmt: skip
    history = sd.solvers.History(np.array([0, 4]), np.array([0, 512]), np.array([[0.0, 1.0], [0.5, 1 / 3]]))
    fit = replace(
        made([0.1, -1 / 3], corrected, diagnostics=diagnostics, inference=inference),
        history=history,
        own_guarantee=sd.Guarantee(1.0, 1e-5, "central", basis="noise"),
        claim=sd.Guarantee(0.5, 0.0),
    )
    fit.save(tmp_path / "fit")
    other = sd.Fit.load(tmp_path / "fit")
    # How long a fit with a guarantee of its own took is not for the reader.
    wanted = {**diagnostics, "big": diagnostics["big"].astype("i4"), "seconds": np.nan}
    assert same(wanted, dict(other.diagnostics))
    assert_same(replace(fit, diagnostics=wanted), other)
    assert other.own_guarantee.basis == "noise"


def test_degrees_of_freedom_are_one_number_or_one_for_each_parameter(tmp_path):
    """One number is how they were written before each parameter had its own."""
    fit = made([0.1, -1 / 3], sd.debias(LOSSES["exponential"], NOISED.release))
    for freedom in (7, 7.5, None, np.array([3.5, np.inf])):
        known = replace(fit, inference=Inference(np.eye(2), "cluster sandwich", "", np.zeros(2), (), freedom))
        known.save(tmp_path / "fit")
        found = sd.Fit.load(tmp_path / "fit")
        np.testing.assert_array_equal(found.inference.degrees_of_freedom, freedom)
        np.testing.assert_array_equal(found.confidence_interval(), known.confidence_interval())
    for freedom in (0, -1.0, np.array([1.0]), np.array([1.0, np.nan]), np.array([1.0, 0.0])):
        with pytest.raises(ValueError, match="degrees of freedom are neither one number nor 2 above 0"):
            replace(fit, inference=Inference(np.eye(2), "cluster sandwich", degrees_of_freedom=freedom)).save(
                tmp_path / "fit"
            )


@pytest.mark.parametrize("what", ["skewness", "levelling"])
def test_numbers_of_both_sides_are_two_for_each_parameter(what, tmp_path):
    fit = made([0.1, -1 / 3], sd.debias(LOSSES["exponential"], NOISED.release))
    for sides in (np.array([[0.1, 0.0]]), np.array([0.1, 0.2]), -np.eye(2), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match=r"is no array of \(2, 2\) numbers from 0 on"):
            replace(fit, inference=Inference(np.eye(2), "sandwich", **{what: sides})).save(tmp_path / "fit")


def test_what_is_known_of_longer_parameters_is_kept(tmp_path):
    fit = made([0.1, -1 / 3], sd.debias(LOSSES["exponential"], NOISED.release))
    known = replace(fit, inference=Inference(0.01 * np.eye(2), "sandwich", bias=np.zeros(2), outward=1.5))
    known.save(tmp_path / "fit")
    found = sd.Fit.load(tmp_path / "fit").confidence_interval()
    assert np.isinf(found).any()
    np.testing.assert_array_equal(found, known.confidence_interval())
    # An intercept that takes part in the second one.
    together = replace(fit, inference=replace(known.inference, intercepts=np.array([False, True])))
    together.save(tmp_path / "fit")
    np.testing.assert_array_equal(sd.Fit.load(tmp_path / "fit").confidence_interval(), [found[0], [-np.inf, np.inf]])
    with pytest.raises(ValueError, match="says of intercepts is no array"):
        replace(fit, inference=replace(known.inference, intercepts=np.ones(3, dtype=bool))).save(tmp_path / "fit")
    for outward in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="is no statistic from 0 on"):
            replace(fit, inference=Inference(np.eye(2), "sandwich", outward=outward)).save(tmp_path / "fit")


def test_factors_of_biases_are_kept_and_files_without_them_are_read(logistic_fit, content, tmp_path):
    """Before there were factors, biases of combinations were sums, and scores levelled off otherwise under a bias."""
    weights = np.array([1.0, -1.0])
    assert logistic_fit.inference.bias_factors.shape == (1, 2, 2)
    logistic_fit.save(tmp_path / "fit")
    again = sd.Fit.load(tmp_path / "fit").combinations(weights)
    np.testing.assert_array_equal(again.interval, logistic_fit.combinations(weights).interval)
    parts = parts_of(content)
    document = json.loads(parts["fit.json"])
    inside = document["fit"]["inference"]["fields"]
    parts.pop(f"{inside.pop('bias_factors')['array']}.npy")
    parts["fit.json"] = json.dumps(document).encode()
    (tmp_path / "earlier").write_bytes(packed(parts))
    earlier = sd.Fit.load(tmp_path / "earlier")
    assert earlier.inference.bias_factors is None
    np.testing.assert_array_equal(earlier.confidence_interval(), logistic_fit.confidence_interval())
    np.testing.assert_allclose(earlier.combinations(weights).bias_bound, logistic_fit.bias_bound.sum())
    inside["levelling"] = {"array": "levels"}
    changed = {**parts, "fit.json": json.dumps(document).encode(), "levels.npy": array(np.eye(2))}
    refused(tmp_path / "fit", packed(changed), r"is of an earlier version of symdebias, .* Fit again\.$")


def test_a_certificate_is_kept_as_what_a_file_says(tmp_path):
    """It is shown with a saved fit, and measured where it is asked for: a stranger may have written another one."""
    fit = sd.m_estimate(sd.debias(LOSSES["logistic"], NOISED.release), NOISED.X, NOISED.y, l2=0.5, radius=2.0)
    measured = fit.certificate
    fit.save(tmp_path / "fit")
    other = sd.Fit.load(tmp_path / "fit")
    assert other.known_certificate == replace(measured, from_file=True)
    assert str(measured).splitlines() == str(other.known_certificate).splitlines()[:-1]
    assert "as the file says (fit.certificate measures it)" in other.summary()
    other.save(tmp_path / "again")
    assert sd.Fit.load(tmp_path / "again").known_certificate == other.known_certificate
    parts = parts_of((tmp_path / "fit").read_bytes())
    document = json.loads(parts["fit.json"])
    inside = document["certificate"]["fields"]

    def changed(**entries):
        text = json.dumps({**document, "certificate": {"object": "Certificate", "fields": {**inside, **entries}}})
        return packed({**parts, "fit.json": text.encode()})

    (tmp_path / "other").write_bytes(changed(loss_bias=0.0, proved=True, from_file=False))
    lying = sd.Fit.load(tmp_path / "other")
    assert (lying.known_certificate.loss_bias, lying.known_certificate.from_file) == (0.0, True)
    assert lying.certificate == lying.known_certificate == measured
    for entries, message in (
        ({"exact": True}, "of another correction"),
        ({"method": "exact"}, "of another correction"),
        ({"theta_radius": 7.0}, r"is for \|\|theta\|\| up to 7, and not"),
        ({"loss_bias": -1.0}, "a negative bias"),
        ({"loss_bias": {"float": "nan"}}, "a negative bias"),
        ({"cut": "nothing"}, "a range of nothing"),
        ({"loss_bias": "1"}, "field loss_bias"),
        ({"more": 1}, "no field 'more'"),
        ({"conditions": {"tuple": ["\x1b[31m"]}}, r"U\+001B"),
        ({"loss_scale": 0.0}, "numbers that no certificate has"),
        ({"variance_limit": -1.0, "normal_variance": 0.0}, "numbers that no certificate has"),
        ({"reach": 0.0, "reach_limit": -1.0}, "numbers that no certificate has"),
        ({"conditions_hold": False, "conditions": {"tuple": ["x" * 100_000]}}, "characters to tell"),
    ):
        refused(tmp_path / "fit", changed(**entries), message)
    assert document["format"] == "symdebias-fit-2"
    refused(tmp_path / "fit", packed({**parts, "fit.json": json.dumps({**document, "format": "symdebias-fit-1"})}))
    for value in (None, {"tuple": []}, inside):
        parts["fit.json"] = json.dumps({**document, "certificate": value}).encode()
        refused(tmp_path / "fit", packed(parts), "its certificate is none|an object with the entries")


def test_parameters_too_long_to_certify_are_saved_without(tmp_path):
    fit = made([1e110, -1e90], sd.debias(LOSSES["exponential"], NOISED.release))
    assert fit.known_certificate is None
    fit.save(tmp_path / "fit")
    assert sd.Fit.load(tmp_path / "fit").theta.tolist() == [1e110, -1e90]
    with pytest.raises(ValueError, match="theta_radius=1e\\+110 is too large"):
        _ = fit.certificate


def test_factors_of_biases_fit_the_parameters(tmp_path):
    fit = made([0.1, -1 / 3], sd.debias(LOSSES["exponential"], NOISED.release))
    for factors in (np.ones((1, 3, 2)), np.ones((2, 2)), np.ones((0, 2, 2)), np.full((1, 2, 2), np.nan)):
        known = Inference(np.eye(2), "sandwich", bias=np.ones(2), bias_factors=factors)
        with pytest.raises(ValueError, match=r"no array of \(m, 2, r\) finite numbers"):
            replace(fit, inference=known).save(tmp_path / "fit")


def exotic():
    """Fits by hand of every form of loss and method."""
    x1, x2, t1, t2 = sp.symbols(r"x1 x\_2 theta_{1} t2", real=True)
    free = sd.Loss.of_features((t1 * x1**2 + t2 * x2 - Y) ** 2, features=[x1, x2], parameters=[t1, t2], target=Y)
    gaussian = sd.GaussianMechanism.from_scale(0.5)
    names = ("a", "b", "c")
    laplace = sd.Release(dict.fromkeys(names, sd.LaplaceMechanism.from_scale(0.2)))
    yield made([0.1, 0.2], sd.debias(free, sd.Release(gaussian)))
    yield made(np.ones((3, 3)) / 7, sd.debias(sd.losses.softmax(3), laplace))
    yield made([0.1, 0.2], sd.debias(LOSSES["logistic"], NOISED.release, method="series", order=2))
    yield made([0.1, 0.2], sd.debias(LOSSES["logistic"], NOISED.release, method="none"))
    yield made([0.1] * 9, sd.debias(LOSSES["exponential"], mixed_release(target=sd.RandomizedResponse(epsilon=1.0))))
    yield made([0.1] * 5, sd.debias(sd.losses.huber(), sd.Release(gaussian), method="surrogate"))
    margin = sd.Release(sd.GaussianMechanism(12.0, 1e-5, 2.0), target="margin", fit_intercept=True, target_scale=0.7)
    yield made([0.1, 0.2, 0.3], sd.debias(LOSSES["squared_margin"], margin.bind(["a", "b"])))
    cap = sd.Release(sd.SphericalCapMechanism(4.0, 1.0), target="margin").bind(["a", "b"])
    polynomials = sd.debias(LOSSES["logistic"], cap).resolve(radius=1.0, score_variance=1.0, n=1e5)
    assert polynomials.design.waves == 0
    yield made([0.1, 0.2], polynomials)
    channel = sd.RandomizedResponse(epsilon=1.0, categories=(0, 1, 2, 3))
    yield made([0.1] * 3, sd.debias(sd.losses.least_squares(), sd.Release(dict.fromkeys(names, gaussian), channel)))
    entire = sd.Loss(sp.cos(U) * sp.exp(-(U**2) / 9) + Y * U, score=U, target=Y, target_values=(-1, 1))
    yield made([0.1, 0.2], sd.debias(entire, NOISED.release, method="quadrature", nodes=16))


@pytest.mark.in_turn
def test_every_form_of_loss_and_method_is_saved(tmp_path):
    for fit in exotic():
        fit.save(tmp_path / "fit")
        other = sd.Fit.load(tmp_path / "fit")
        assert_same(fit, other)
        assert other.corrected.expression == fit.corrected.expression
        assert_same(fit, pickle.loads(pickle.dumps(fit)))


def test_fits_of_solvers_with_a_guarantee_are_saved(tmp_path):
    given = {"epsilon": 1.0, "delta": 1e-5, "radius": 1.0, "record_radius": 1.0, "random_state": 0}
    data, labels = records(500, 2)
    found = sd.input_perturbation(LOSSES["squared_margin"], data, labels, adjacency="replace-one", **given)
    found.save(tmp_path / "fit")
    again = sd.Fit.load(tmp_path / "fit")
    # How long it took tells the number of records, and no guarantee covers it.
    assert found.diagnostics["seconds"] > 0
    assert np.isnan(again.diagnostics["seconds"])
    assert "input_perturbation, 1 step\n" in again.summary()
    assert again.summary() == found.summary()
    took = {"seconds": found.diagnostics["seconds"]}
    assert_same(found, replace(again, diagnostics={**again.diagnostics, **took}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"diagnostics": {"records": 1, "made by": object()}}, "diagnostics.made by is a object"),
        ({"diagnostics": {"objects": np.array([None])}}, "array of object"),
        ({"diagnostics": {1: 2}}, "no text"),
        ({"theta": np.array([np.nan, 1.0])}, "finite"),
        ({"theta": np.array([1.0, 1.0, 1.0])}, "3 parameters"),
    ],
)
def test_what_the_format_has_no_words_for_is_refused_before_anything_is_written(change, message, tmp_path):
    fit = made([0.1, 0.2], sd.debias(LOSSES["exponential"], NOISED.release))
    with pytest.raises(ValueError, match=f"{message}.*Pickle it"):
        replace(fit, **change).save(tmp_path / "fit")
    assert not list(tmp_path.iterdir())


def test_a_loss_without_words_is_refused(tmp_path):
    loss = sd.Loss(U**14 + Y * U, score=U, target=Y)
    fit = made([0.1, 0.2], sd.debias(loss, sd.Release(), method="none"))
    with pytest.raises(ValueError, match=r"cannot be written as text.*Pickle it"):
        fit.save(tmp_path / "fit")


# ---- hostile files ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content(logistic_fit, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "fit.npz"
    logistic_fit.save(path)
    return path.read_bytes()


def refused(path, content, message="is not a fit"):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        sd.Fit.load(path)


def test_truncated_files_are_refused(content, tmp_path):
    for tenth in range(10):
        refused(tmp_path / "fit", content[: len(content) * tenth // 10])
    refused(tmp_path / "fit", content[:-1])


def test_flipped_bytes_are_refused_or_change_nothing(content, logistic_fit, tmp_path):
    """Bytes of names, times and attributes of the archive may change unnoticed; those of the fit may not."""
    path, unnoticed = tmp_path / "fit", 0
    for place in np.random.default_rng(0).integers(0, len(content), 60):
        changed = bytearray(content)
        changed[place] ^= 1 << (int(place) % 8)
        path.write_bytes(changed)
        try:
            found = sd.Fit.load(path)
        except ValueError:
            continue
        unnoticed += 1
        assert_same(logistic_fit, found)
    assert unnoticed < 20


def parts_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts, compression=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return stream.getvalue()


def array(value, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(value), version=(1, 0), **options)
    return stream.getvalue()


class _Trap:
    def __reduce__(self):
        return pytest.fail, ("a file was unpickled",)


def test_arrays_are_not_unpickled_and_fit_what_the_file_says(content, tmp_path):
    parts = parts_of(content)
    trap = array(np.array([_Trap()], dtype=object), allow_pickle=True)
    long = parts["theta.npy"].replace(b"(2,)", b"(2000000000000,)")
    for theta, message in (
        (trap, "no array of numbers"),
        (array([1.0, np.nan]), "finite"),
        (array([1.0, np.inf]), "finite"),
        (array([1.0, 1.0, 1.0]), "3 parameters"),
        (array([[1.0, 1.0]]), "shape of its loss"),
        (array([1, 1]), "shape of its loss|a ndarray"),
        (array(["a", "b"]), "no array of numbers"),
        (long, "is not a fit"),
        (parts["theta.npy"][:-8], "bytes"),
        (b"", "is not a fit"),
        (b"\x93NUMPY\x03\x00", "version"),
    ):
        refused(tmp_path / "fit", packed({**parts, "theta.npy": theta}), message)
    for name, value in (
        ("inference.covariance.npy", -np.eye(2)),
        ("inference.covariance.npy", np.full((2, 2), np.nan)),
        ("inference.covariance.npy", np.eye(3)),
        ("inference.bias.npy", [np.nan, 0.0]),
        ("history.steps.npy", np.arange(3)),
    ):
        refused(tmp_path / "fit", packed({**parts, name: array(value)}))


def test_archives_of_another_form_are_refused(content, tmp_path):
    parts = parts_of(content)
    path = tmp_path / "fit"
    refused(path, b"", "does not begin")
    refused(path, pickle.dumps(_Trap()), "does not begin")
    refused(path, b"#!" + content, "does not begin")
    refused(path, packed(parts, zipfile.ZIP_DEFLATED), "compressed")
    refused(path, packed({**parts, "more.npy": array([1.0])}), "nothing refers to")
    refused(path, packed({**parts, "run.py": b"1"}), "has the member")
    refused(path, packed({**parts, "../x.npy": array([1.0])}), "has the member")
    refused(path, packed({name: part for name, part in parts.items() if name != "theta.npy"}), "missing")
    refused(path, packed({name: part for name, part in parts.items() if name != "fit.json"}), r"no fit\.json")
    refused(path, packed({**parts, "fit.json": b" " * 31_000_000}), "characters")
    refused(path, packed({**parts, "fit.json": b"[" * 100_000}), "is not a fit")
    refused(path, packed({**parts, "fit.json": b'{"format": 1, "format": 2}'}), "twice")
    refused(path, packed({**parts, "fit.json": b"[]"}), "its format is None")
    np.savez(tmp_path / "other.npz", theta=np.ones(2))
    refused(path, (tmp_path / "other.npz").read_bytes(), r"no fit\.json")
    with pytest.raises(FileNotFoundError):
        sd.Fit.load(tmp_path / "missing")


def headed(text):
    header = text.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + np.ones(2).tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "(\n", "[[[\n", "__import__('os').abort()\n", "\xff\n", "(" * 9_000 + "\n", "",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n",
        "{'descr': '<f8', 'fortran_order': True, 'shape': (2,), }\n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-2,), }\n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2 2,), }\n",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (2,), }\n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999999999, 999999999999999999), }\n",
        "{'shape': (2,), 'descr': '<f8', 'fortran_order': False, }\n",
    ],
    ids=lambda text: ascii(text[:50]),
)  # fmt: skip
def test_headers_of_arrays_have_one_form_and_are_not_evaluated(text, content, tmp_path):
    refused(tmp_path / "fit", packed({**parts_of(content), "theta.npy": headed(text)}))


def within_one_another(count):
    """An archive of members each of which has all others in it: a small file that makes much."""
    data, entries = b"", []
    for index in range(count):
        name, crc, size = f"m{count - index}.npy".encode(), zlib.crc32(data), len(data)
        head = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 0, crc, size, size, len(name), 0) + name
        data = head + data
        entries.append((name, crc, size, len(data)))
    end = b""
    for name, crc, size, back in entries:
        numbers = (20, 20, 0, 0, 0, 0, crc, size, size, len(name), 0, 0, 0, 0, 0, len(data) - back)
        end += struct.pack("<4s6H3I5H2I", b"PK\x01\x02", *numbers) + name
    return data + end + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(end), len(data), 0)


def test_archives_that_make_much_of_little_are_refused(content, tmp_path):
    path = tmp_path / "fit"
    refused(path, within_one_another(500), "larger together than the file")
    more = {f"m{index}.npy": b"" for index in range(10_001)}
    refused(path, packed({**parts_of(content), **more}), "members, and may have 10,000")


def test_what_is_no_file_is_not_waited_for(tmp_path):
    with pytest.raises(sd.FormatError, match="is no file"):
        sd.Fit.load(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(sd.FormatError, match="is no file"):
            sd.Fit.load(tmp_path / "pipe")


DEEP = 0
for _ in range(40):
    DEEP = [DEEP]
CHANGES = [
    (("format",), "symdebias-fit-3", "its format is 'symdebias-fit-3'"),
    (("loss", "expression"), "__import__('os').abort()", "has the character"),
    (("loss", "expression"), "exp(exp(exp(exp(1e9))))", "finite real"),
    (("loss", "expression"), "log(u*y)", "is not a fit"),
    (("loss", "expression"), 3, "from text"),
    (("loss", "target"), "__import__('os').abort()", "a symbol called"),
    (("loss", "scores"), ["u", "u"], "share a name|does not depend"),
    (("loss", "features"), ["x"], "scores and features"),
    (("loss", "target_values"), [0.0, 1.0], "target values"),
    (("loss", "target_values"), [1e999], "number|distinct|finite"),
    (("loss", "name"), 3, "no text"),
    (("loss", "more"), 3, "exactly the entries"),
    (("release", "format"), "x", "not a release card"),
    (("release", "target", "epsilon"), -1.0, "not a release card"),
    (("release", "noiseless"), ["x7"], "parameters"),
    (("correction", "method"), "auto", "its method"),
    (("correction", "method"), "exact", "has no design"),
    (("correction", "order"), 2, "its order"),
    (("correction", "nodes"), 10**9, "its nodes"),
    (("correction", "reason"), None, "its method"),
    (("correction", "design", "fields", "radius"), -1.0, "range"),
    (("correction", "design", "fields", "radius"), "1", "field radius"),
    (("correction", "design", "fields", "bias"), {"float": "nan"}, "finite"),
    (("correction", "design", "fields", "bias"), {"float": "1.0"}, "is not a fit"),
    (("correction", "design", "fields", "surrogates"), {"tuple": []}, "one surrogate"),
    (("correction", "design", "fields", "surrogates", "tuple", 0, "fields", "sines"), {"tuple": [0.0]}, "waves"),
    (("correction", "design", "object"), "Popen", "object of the kind 'Popen'"),
    (("correction", "design", "fields", "more"), 1, "no field 'more'"),
    (("fit", "solver"), 3, "field solver"),
    (("fit", "solver"), "\x1b[31mred", r"U\+001B"),
    (("fit", "inference", "fields", "notes"), {"tuple": ["a\u202eb"]}, r"U\+202E"),
    (("loss", "name"), "a\u200bb", r"U\+200B"),
    (("release", "noiseless"), ["x\u202e"], r"U\+202E"),
    (("correction", "order"), 10**4_000, "its order"),
    (("fit", "corrected"), None, "no field 'corrected'"),
    (("fit", "theta"), [1.0, 2.0], "field theta"),
    (("fit", "theta"), {"array": "history.theta"}, "referred to twice|shape"),
    (("fit", "inference", "fields", "notes"), {"tuple": [1]}, "field notes"),
    (("fit", "inference", "fields", "kind"), None, "field kind"),
    (("fit", "own_guarantee"), {"object": "Guarantee", "fields": {"epsilon": -1.0, "delta": 0.0}}, "epsilon"),
    (("fit", "diagnostics", "map", "x"), {"exec": "1"}, "entries 'exec'"),
    (("fit", "diagnostics", "map", "x"), {"scalar": "object", "value": 1}, "entries"),
    (("fit", "diagnostics", "map", "x"), {"mechanism": {"kind": "x"}}, "is not a fit"),
    (("fit", "diagnostics", "map", "x"), DEEP, "nested"),
]


@pytest.mark.parametrize(("place", "value", "message"), CHANGES, ids=lambda part: str(part)[:60])
def test_descriptions_that_say_something_else_are_refused(place, value, message, content, tmp_path):
    parts = parts_of(content)
    document = json.loads(parts["fit.json"])
    *way, last = place
    inner = document
    for step in way:
        inner = inner[step]
    inner[last] = value
    refused(tmp_path / "fit", packed({**parts, "fit.json": json.dumps(document).encode()}), message)


def test_a_fit_of_sgd_with_a_rule_of_step_sizes_is_saved(tmp_path):
    X, y = records(80, 2)
    corrected = sd.debias(sd.losses.exponential(), gaussian_release(0.1, epsilon=3.0))
    rule = sd.step_sizes.inverse_time(20.0)
    fit = sd.sgd(corrected, X, y, step_size=rule, l2=0.1, random_state=0)
    fit.save(tmp_path / "fit.npz")
    back = sd.Fit.load(tmp_path / "fit.npz")
    assert back.diagnostics["step_size"] == fit.diagnostics["step_size"] == rule
    assert np.array_equal(back.theta, fit.theta)


def test_columns_called_as_words_of_python_are_saved(tmp_path):
    x, t, y = (sp.Symbol(name, real=True) for name in ("class", "lambda", "y"))
    loss = sd.Loss.of_features((t * x**2 - y) ** 2, features=x, parameters=t, target=y)
    release = sd.Release({"class": sd.LaplaceMechanism.from_scale(0.01)})
    X = np.linspace(-1, 1, 200)[:, None]
    fit = sd.m_estimate(sd.debias(loss, release), X, 2 * X[:, 0] ** 2)
    fit.save(tmp_path / "fit.npz")
    assert sd.Fit.load(tmp_path / "fit.npz").corrected.declared == loss


def test_a_fit_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"fit\.npz is not there\. Name the file that fit\.save\(\) wrote\."):
        sd.Fit.load(tmp_path / "fit.npz")


def test_surrogates_of_other_parts_of_a_loss_are_refused(tmp_path):
    """Parts that a loss was taken apart into otherwise have the same number of surrogates: their linear share moved."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 1))
    y = np.where(rng.random(800) < 1 / (1 + np.exp(-X[:, 0])), 1.0, -1.0)
    noised = sd.Release({"a": sd.GaussianMechanism.from_scale(0.5)}).privatize(X, y, random_state=0)
    fit = sd.m_estimate(sd.debias(sd.losses.logistic(), noised.release), noised.X, noised.y)
    design = fit.corrected.design
    fit.save(tmp_path / "own.fit")
    assert sd.Fit.load(tmp_path / "own.fit").corrected.design == design
    (found,) = design.surrogates
    other = replace(found, polynomial=(found.polynomial[0], 0.5, *found.polynomial[2:]))
    of_others = Surrogate(replace(design, surrogates=(other,)))
    forged = replace(fit, corrected=CorrectedLoss(fit.corrected.declared, fit.corrected.release, of_others))
    forged.save(tmp_path / "other.fit")
    with pytest.raises(sd.FormatError, match="do not stand for the parts of its loss"):
        sd.Fit.load(tmp_path / "other.fit")


@pytest.mark.parametrize("values", [(-1, 1), (0, 1)])
def test_surrogates_of_labels_that_were_taken_apart_otherwise_are_refused(values, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 1))
    y = np.where(rng.random(800) < 1 / (1 + np.exp(-X[:, 0])), *values[::-1]).astype(float)
    noised = sd.Release({"a": sd.GaussianMechanism.from_scale(0.5)}).privatize(X, y, random_state=0)
    loss = sd.losses.logistic().recoded(values)
    fit = sd.m_estimate(sd.debias(loss, noised.release), noised.X, noised.y)
    fit.save(tmp_path / "fit")
    parts = parts_of((tmp_path / "fit").read_bytes())
    document = json.loads(parts["fit.json"])
    for way, message in ((7, "way 7, which is none that is known"), (0, "way 0"), ("2", "way '2'"), (True, "way True")):
        document["correction"]["parts"] = way
        refused(tmp_path / "fit", packed({**parts, "fit.json": json.dumps(document).encode()}), message)
    # As the version before wrote it.
    del document["correction"]["parts"]
    earlier = packed({**parts, "fit.json": json.dumps(document).encode()})
    if sum(values) == 0:
        (tmp_path / "fit").write_bytes(earlier)
        assert sd.Fit.load(tmp_path / "fit").corrected.design == fit.corrected.design
    else:
        refused(tmp_path / "fit", earlier, r"is of an earlier version of symdebias, .* other functions\. Fit again\.$")
