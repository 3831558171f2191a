"""Flags of the public interface are True or False; all else is refused in words, before anything is computed."""

import functools
import inspect
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sympy as sp

import symdebias as sd

RELEASE = sd.Release(sd.GaussianMechanism.from_scale(0.1))
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X @ [1.0, -0.5] + 0.1 * RNG.normal(size=60)
LOSS = sd.losses.least_squares()
U, V = sp.symbols("u v", real=True)
CENTRAL = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one"}


@functools.cache
def corrected():
    return sd.debias(LOSS, RELEASE)


@functools.cache
def fitted():
    return sd.m_estimate(corrected(), X, Y)


def estimator(**flags):
    return sd.DebiasedRegressor(release=RELEASE, **flags).fit(X, Y)


# name of the flag and the call -> what is called with the flag
CALLS = {
    "progress of m_estimate": lambda **flag: sd.m_estimate(corrected(), X, Y, **flag),
    "progress of sgd": lambda **flag: sd.sgd(corrected(), X, Y, epochs=1, **flag),
    "progress of sgd_replicates": lambda **flag: sd.sgd_replicates(corrected(), X, Y, settings=[{}], **flag),
    "progress of dp_lssgd": lambda **flag: sd.dp_lssgd(LOSS, X, Y, clip=1.0, **CENTRAL, **flag),
    "fit_intercept of dp_lssgd": lambda **flag: sd.dp_lssgd(LOSS, X, Y, clip=1.0, **CENTRAL, **flag),
    "fit_intercept of input_perturbation": lambda **flag: sd.input_perturbation(
        LOSS, X, Y, radius=1.0, record_radius=1.0, target_bounds=(-1, 1), **CENTRAL, **flag
    ),
    "fit_intercept of output_perturbation": lambda **flag: sd.output_perturbation(
        LOSS, X, Y, l2=1.0, record_radius=1.0, **CENTRAL, **flag
    ),
    "fit_intercept of objective_perturbation": lambda **flag: sd.objective_perturbation(
        LOSS, X, Y, record_radius=1.0, **CENTRAL, **flag
    ),
    "progress of simex": lambda **flag: sd.literature.simex(LOSS, RELEASE, X, Y, **flag),
    "original_units of compare_methods": lambda **flag: sd.literature.compare_methods(LOSS, RELEASE, X, Y, **flag),
    "progress of cross_validate": lambda **flag: sd.evaluation.cross_validate(
        {"one": lambda X, y: fitted()}, X, Y, metric="squared_error", release=RELEASE, **flag
    ),
    "progress of plan": lambda **flag: sd.plan(LOSS, None, epsilon=1.0, delta=1e-5, n=100, **flag),
    "fit_intercept of plan": lambda **flag: sd.plan(LOSS, None, epsilon=1.0, delta=1e-5, n=100, **flag),
    "progress of rehearse": lambda **flag: sd.planning.rehearse(LOSS, RELEASE, None, n=100, **flag),
    "is_drawn of Population": lambda **flag: sd.planning.Population(X, Y, **flag),
    "intercept of guess": lambda **flag: sd.planning.Population.guess([1.0], **flag),
    "progress of check_guarantee": lambda **flag: sd.checks.check_guarantee(sd.LaplaceMechanism(1.0, (0, 1)), **flag),
    "has_target of check_guarantee": lambda **flag: sd.checks.check_guarantee(sd.LaplaceMechanism(1.0, (0, 1)), **flag),
    **{
        f"{name} of compile_kernels": lambda **flag: sd.compile_kernels(corrected(), 2, **flag)
        for name in ("weighted", "offset", "noise_scale", "progress")
    },
    "in_memory of load": lambda **flag: sd.load("nowhere", **flag),
    "original_units of confidence_interval": lambda **flag: fitted().confidence_interval(**flag),
    "original_units of combinations": lambda **flag: fitted().combinations([[1.0, 1.0]], **flag),
    "original_units of summary": lambda **flag: fitted().summary(**flag),
    "original_units of summary_frame": lambda **flag: fitted().summary_frame(**flag),
    "original_units of plot": lambda **flag: fitted().plot(**flag),
    "original_units of report": lambda **flag: fitted().report("nowhere/page.html", **flag),
    "certify of report": lambda **flag: fitted().report("nowhere/page.html", **flag),
    "fit_intercept of Release": lambda **flag: sd.Release(**flag),
    "keep_index of Release.privatize": lambda **flag: RELEASE.privatize(X, Y, **flag),
    "products of QuadraticStatistics": lambda **flag: sd.quadratic.QuadraticStatistics(2, **flag),
    "padded of SphericalLaplaceMechanism": lambda **flag: sd.SphericalLaplaceMechanism(1.0, 1.0, **flag),
    "fit_intercept of DebiasedRegressor": estimator,
}
NO_FLAGS = {
    "a table": pd.DataFrame({"secret": [12345.0, 2.0]}),
    "an array": np.array([True, False]),
    "a list": [12345],
    "a word": "yes",
    "a number": 1,
}


@pytest.mark.parametrize("given", NO_FLAGS)
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_flag_is_refused_in_words(call, given):
    name = call.split(" of ")[0]
    with pytest.raises(TypeError, match=rf"^{name} must be True or False; got ") as caught:
        CALLS[call](**{name: NO_FLAGS[given]})
    assert "12345" not in str(caught.value)


def test_every_public_flag_is_in_the_table():
    """What the interface lists with a default of True or False, but for what is no argument of a call."""
    tabled = {tuple(call.split(" of ")) for call in CALLS}
    tabled |= {("padded", "SphericalLaplaceMechanism.from_scale"), ("progress", "Feasibility.rehearse")}
    # A share of steps as well.
    others = {("average", one) for one in ("sgd", "dp_lssgd", "sgd_replicates")}
    found = set()
    for room in (sd, sd.planning, sd.evaluation, sd.checks, sd.literature, sd.quadratic, sd.labels, sd.losses):
        for name in room.__all__:
            value = getattr(room, name)
            if inspect.isfunction(value):
                found |= {(flag, name) for flag in flags_of(value)}
            elif inspect.isclass(value) and not issubclass(value, Exception) and name not in ("Certificate",):
                methods = inspect.getmembers(value, lambda one: inspect.isfunction(one) or inspect.ismethod(one))
                for method, function in methods:
                    if not method.startswith("_"):
                        found |= {(flag, f"{name}.{method}") for flag in flags_of(function)}
                found |= {(flag, name) for flag in flags_of(value)}
    short = {(flag, one.rsplit(".", 1)[-1]) for flag, one in tabled}
    left = {(flag, one) for flag, one in found - tabled - others if (flag, one.rsplit(".", 1)[-1]) not in short}
    # Inner calls of classes that are public.
    assert left == {
        ("check_finite", "Release.columns_of"),
        ("check_finite", "Release.design_matrix"),
        ("check_finite", "Release.released_target"),
        ("per_record", "CorrectedLoss.at"),
    }


def flags_of(call):
    return [name for name, one in inspect.signature(call).parameters.items() if isinstance(one.default, bool)]


@pytest.mark.parametrize("flag", [np.True_, np.False_])
def test_flags_of_numpy_are_taken(flag):
    assert sd.Release(fit_intercept=flag).fit_intercept is bool(flag)
    own = sd.DebiasedRegressor(fit_intercept=flag).fit(X, Y)
    assert own.fit_.corrected.release.fit_intercept is bool(flag)
    assert sd.m_estimate(corrected(), X, Y, progress=np.False_).theta.shape == (2,)


def test_a_share_of_steps_that_is_none_shows_no_data():
    for given in (NO_FLAGS["a table"], NO_FLAGS["a list"]):
        with pytest.raises(ValueError, match=r"^average=\w+ is neither True, False nor a share") as caught:
            sd.sgd(corrected(), X, Y, epochs=1, average=given)
        assert "12345" not in str(caught.value)


# What is a word, a list of words or a number elsewhere.
NO_WORDS = {
    "solvers of compile_kernels": lambda given: sd.compile_kernels(corrected(), 2, solvers=given),
    "columns of certify": lambda given: corrected().certify(columns=given),
    "composition of Ledger": lambda given: sd.Ledger(
        "nowhere/spent.jsonl", "survey", total=sd.Guarantee(1.0, 0.0), composition=given
    ),
    "tail_rate of AdditiveNoise": lambda given: sd.noise.AdditiveNoise(
        1.0, sp.exp(-(sd.noise.FREQUENCY**2) / 2), tail_rate=given
    ),
}


@pytest.mark.parametrize("given", [np.array([]), np.array([1.0, 2.0]), pd.DataFrame({"secret": [12345.0]}), 0.5j])
@pytest.mark.parametrize("call", NO_WORDS)
def test_arrays_for_words_and_numbers_are_refused_in_words(call, given):
    with pytest.raises((TypeError, ValueError), match=rf"^{call.split(' of ')[0]}") as caught:
        NO_WORDS[call](given)
    assert "12345" not in str(caught.value)


NOT_LISTS = {
    "target_values must be a sequence": lambda given: sd.Loss((U - V) ** 2, score=U, target=V, target_values=given),
    "scores, features, parameters and targets must be SymPy symbols": lambda given: sd.Loss.of_features(
        (U - V) ** 2, features=[U], parameters=given, target=V
    ),
}


@pytest.mark.parametrize("given", [np.array(1.0), 1.0])
@pytest.mark.parametrize("message", NOT_LISTS)
def test_an_array_without_a_dimension_is_no_list(message, given):
    with pytest.raises(TypeError, match=message):
        NOT_LISTS[message](given)


@pytest.mark.parametrize("number", [Fraction, sp.Float, sp.Rational, np.float32])
def test_numbers_of_other_kinds_are_numbers(number):
    """They were taken and kept as they are, and what is not in NumPy ended there, or where it was printed."""
    found = sd.debias(
        sd.losses.logistic(), RELEASE, method="surrogate",
        radius=number(5.0), score_variance=number(0.5), n=number(1000.0),
    )  # fmt: skip
    wanted = sd.debias(sd.losses.logistic(), RELEASE, method="surrogate", radius=5.0, score_variance=0.5, n=1000.0)
    np.testing.assert_array_equal(found.loss([1.0, 1.0], X, np.sign(Y)), wanted.loss([1.0, 1.0], X, np.sign(Y)))
    assert str(fitted().combinations([[1.0, 1.0]], level=number(0.5))) == str(
        fitted().combinations([[1.0, 1.0]], level=0.5)
    )


def test_intervals_at_a_level_next_to_0_have_hardly_any_width():
    low, high = fitted().confidence_interval(1e-300).T
    np.testing.assert_allclose(high - low, 0.0, atol=0.05 * fitted().standard_errors.min())
