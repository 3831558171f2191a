"""What Numba has to compile for a kernel: the number of functions decides how long a first fit waits."""

import threading

import numba
import numpy as np
import pytest
import sympy as sp
from instances import U, Y
from numba.core import event

from symdebias.codegen import cache
from symdebias.codegen.kernels import Kernels
from symdebias.codegen.program import spared
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.constants import Constants, Tails
from symdebias.codegen.score.normal import NormalNoise
from symdebias.codegen.score.program import ScoreProgram

S, T, C = sp.symbols("s t c", positive=True)
# Under normal noise, with a wave as surrogates have them.
WAVES = ScoreProgram(
    U * Y + sp.cos(U) + sp.sin(U) - S,
    Y,
    ScoreColumns((U,), (0, 1), 2, None),
    (NormalNoise((S,)), Tails(), Constants("target", (T, C))),
)


@pytest.fixture
def nothing_compiled(monkeypatch):
    monkeypatch.setenv("SYMDEBIAS_CACHE", "off")
    for name in ("_compiled", "_helpers", "_hashes"):
        monkeypatch.setattr(cache, name, {})


def compiled_functions(make):
    """Return the names of the generated functions that are compiled; Numba's own depend on what came before."""
    with event.install_recorder("numba:compile") as recorder:
        make()
    functions = [seen.data["dispatcher"].py_func for _, seen in recorder.buffer if seen.is_start]
    return sorted(function.__name__ for function in functions if function.__module__.startswith("symdebias_"))


def names(functions):
    return [name.rsplit("_", 1)[0] if len(name) > 32 else name for name in functions]


@pytest.mark.in_turn
def test_each_function_is_compiled_once_for_all_kernels_of_a_loss(nothing_compiled):
    kernels = Kernels(WAVES)
    found = compiled_functions(lambda: kernels.sgd_pass(weighted=False))
    assert names(found) == ["sgd_pass"]
    # A pass and a mean have all but their loops in common; gradients of records are means of one.
    assert names(compiled_functions(lambda: kernels.mean_gradient(weighted=False))) == ["mean_gradient"]
    assert compiled_functions(lambda: kernels.gradient) == []
    assert names(compiled_functions(lambda: kernels.mean_loss(weighted=False))) == ["mean_loss"]
    found = compiled_functions(lambda: kernels.mean_derivatives(weighted=False))
    assert names(found) == ["mean_derivatives"]


def test_kernels_make_no_arrays(nothing_compiled):
    kernels = Kernels(WAVES)
    sources = [kernels.source(name) for name in ("loss", "mean_loss", "mean_gradient", "mean_derivatives", "sgd_pass")]
    for source in (*sources, kernels.source("sgd_pass", held=1)):
        lines = source.text.splitlines()
        text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
        assert not any(word in text for word in ("np.empty(", "np.zeros(", "np.array(", "[:]"))


def test_lines_are_spared_what_would_only_take_time_to_compile():
    lines = ["x = a[0 + j] + b[10 + j, 0 + k] + 0 + j", "for j in range(2):", "    y = noise[1]*noise[12]*noise[j]"]
    assert spared(lines).splitlines() == ["x = a[j] + b[10 + j, k] + 0 + j", *lines[1:]]
    assert spared([*lines, "z = noise[12]"]).splitlines() == [
        "noise12 = noise[12]",
        "x = a[j] + b[10 + j, k] + 0 + j",
        lines[1],
        "    y = noise[1]*noise12*noise[j]",
        "z = noise12",
    ]


def test_references_are_counted_where_arrays_are_made_and_nowhere_else(nothing_compiled):
    """A kernel that makes no array has helpers that do: each is told for itself, and would not compile otherwise."""
    text = """
from numba import njit
import numpy as np

@njit
def made(n):
    work = np.empty(n)
    for i in range(n):
        work[i] = i
    return work[n - 1]

@njit
def plain(out):
    out[0] += 1.0

def kernel(out):
    out[0] = made(3)
    plain(out)
"""
    vector = numba.types.Array(numba.float64, 1, "C")
    source = cache.KernelSource("counted", text, numba.void(vector), (), lambda kernel: [])
    out = np.zeros(1)
    kernel = cache.compile_kernel(source)
    kernel(out)
    assert out.tolist() == [3.0]
    options = {one.py_func.__name__: one.targetoptions["_nrt"] for one in (*cache._helpers.values(), kernel)}
    assert sorted(options.values()) == [False, False, True]
    assert options["made"]


def test_workspaces_are_each_calls_own():
    rng = np.random.default_rng(0)
    kernels = Kernels(WAVES)
    kernel, noise = kernels.mean_gradient(weighted=False), np.full(WAVES.layout.length, 0.1)
    data = [(rng.normal(size=2), rng.normal(size=(20_000, 2)), rng.normal(size=20_000)) for _ in range(2)]

    def mean(theta, X, y):
        out = np.zeros(2)
        kernel(theta, X, y, np.empty(0), 1.0, noise, out)
        return out.tolist()

    wanted, found = [mean(*records) for records in data], [set(), set()]

    def repeat(which):
        found[which] = {tuple(mean(*data[which])) for _ in range(50)}

    threads = [threading.Thread(target=repeat, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{tuple(value)} for value in wanted]


def test_the_plain_kernel_is_the_compiled_ones_twin():
    kernels = Kernels(WAVES)
    source = kernels.source("mean_gradient")
    plain = cache.plain_kernel(source)
    np.testing.assert_allclose(
        source.probe(plain), source.probe(kernels.mean_gradient(weighted=False).compiled), rtol=1e-13
    )
