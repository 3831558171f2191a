"""What the compiler makes of kernels: the loops over records take several records in one instruction."""

import dataclasses
import platform
import re

import numpy as np
import pytest
import sympy as sp
from instances import U, Y

import symdebias as sd
from symdebias.codegen import cache, waves
from symdebias.codegen.direct import widths
from symdebias.codegen.kernels import Kernels
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.constants import Constants, Tails
from symdebias.codegen.score.normal import NormalNoise
from symdebias.codegen.score.program import ScoreProgram

S, T, C = sp.symbols("s t c", positive=True)
PROGRAM = ScoreProgram(
    C * sp.exp(-U * Y - S / 2) + U**2 / 2,
    Y,
    ScoreColumns((U,), tuple(range(6)), 6, None),
    (NormalNoise((S,)), Tails(), Constants("target", (T, C))),
)
# Arithmetic on several numbers of double precision at once.
PACKED = {
    "x86_64": r"\bv?(?:fn?m(?:add|sub)\d{3}|mul|add|sub)pd\b",
    "aarch64": r"\b(?:fmla|fmls|fmul|fadd|fsub)\s+v\d+\.2d\b",
}
DIVIDED = {"x86_64": r"\bv?divpd\b", "aarch64": r"\bfdiv\s+v\d+\.2d\b"}
MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
NAMES = ("sgd_pass", "mean_derivatives")
# There are 62 to 99 and 91 to 139 on processors of x86, by fours: the polynomial of the exponential alone has 11
# multiplications. Where sums keep their order there are at least 23 fewer: those of copies, and of what is written in
# vectors along rows, are left.
MANY, POLYNOMIAL = 50, 11


@pytest.fixture
def nothing_compiled(monkeypatch):
    """No disk: machine code that was read from it has no text."""
    monkeypatch.setenv("SYMDEBIAS_CACHE", "off")
    for name in ("_compiled", "_helpers", "_hashes"):
        monkeypatch.setattr(cache, name, {})


def packed(kernel, words=PACKED):
    if MACHINE not in words:
        pytest.skip(f"no words for the vector instructions of {platform.machine()}")
    return len(re.findall(words[MACHINE], "\n".join(kernel.inspect_asm().values())))


def freedoms(kernel):
    text = "\n".join(kernel.inspect_llvm().values())
    return set(
        re.findall(r"\b(nnan|ninf|nsz|arcp|afn|fast|contract|reassoc)\b(?=[\w ]*(?:double|<\d+ x double>))", text)
    )


@pytest.mark.in_turn
def test_loops_over_records_are_vectorised_and_nan_keeps_its_meaning(nothing_compiled):
    kernels = Kernels(PROGRAM)
    compiled = {name: cache.compile_kernel(kernels.source(name)) for name in NAMES}
    # Sums may be reordered; nothing may be left out because NaN and infinity were taken not to occur.
    assert [freedoms(kernel) for kernel in compiled.values()] == [{"contract", "reassoc"}] * len(NAMES)
    counts = {name: packed(kernel) for name, kernel in compiled.items()}
    assert min(counts.values()) >= MANY, counts


@pytest.mark.newest
@pytest.mark.parametrize("over_records", [True, False])
def test_loops_over_waves_are_vectorised(over_records, nothing_compiled):
    """Four products of waves and the sums of the four: 16 and 16 on processors that multiply and add at once."""
    kernel = cache.compile_kernel(waves.source(over_records=over_records))
    assert packed(kernel) >= 24


@pytest.mark.in_turn
@pytest.mark.newest
def test_loops_over_records_with_categories_are_vectorised(nothing_compiled):
    """Rows of categories are written in vectors anyway: what counts is what there is more where sums are reordered.

    In loops by eights that is 164: the waves of twelve multiples, of products and of what is kept of them.
    """
    coin = sd.RandomizedResponse(epsilon=1.0)
    release = sd.Release({"a": coin, "b": sd.GaussianMechanism.from_scale(0.2)}, coin, fit_intercept=True)
    corrected = sd.debias(sd.losses.logistic(), release, method="surrogate", radius=3.0, score_variance=0.3, n=1000)
    source = corrected.at(2).kernels.source("mean_gradient")
    freedom = 'fastmath={"contract", "reassoc"}'
    in_order = dataclasses.replace(source, fastmath=(), text=source.text.replace(freedom, "fastmath=False"))
    free, ordered = (packed(cache.compile_kernel(one)) for one in (source, in_order))
    assert free - ordered >= 80, (free, ordered)


# Older compilers put sums of neighbouring columns, each in its order, into vectors.
@pytest.mark.in_turn
@pytest.mark.newest
def test_what_would_be_seen(nothing_compiled):
    """The same kernel is seen where sums must keep their order, and where the exponential is a library's."""
    source = Kernels(PROGRAM).source("mean_gradient")
    freedom = 'fastmath={"contract", "reassoc"}'
    assert freedom in source.text
    in_order = dataclasses.replace(source, fastmath=(), text=source.text.replace(freedom, "fastmath=False"))
    seen = packed(cache.compile_kernel(source))
    assert packed(cache.compile_kernel(in_order)) <= seen - POLYNOMIAL
    whole = re.search(r"    shifted = .*?return value\n", source.text, re.DOTALL)
    by_library = dataclasses.replace(
        source, text=source.text.replace(whole[0], "    return math.pow(2.718281828459045, x)\n", 1)
    )
    assert packed(cache.compile_kernel(by_library)) <= seen - POLYNOMIAL


def widest(kernel):
    """How many instructions compute with eight numbers of double precision at once."""
    return len(re.findall(PACKED["x86_64"] + r"[^\n]*%zmm", "\n".join(kernel.inspect_asm().values())))


# LLVM by itself has them on AMD's processors, and none on Intel's.
@pytest.mark.skipif(not widths.has_wide_vectors(), reason="no vectors of 512 bits here, or slow ones")
def test_vectors_are_as_wide_as_the_processor_has_them(nothing_compiled):
    kernels = Kernels(PROGRAM)
    counts = {name: widest(cache.compile_kernel(kernels.source(name))) for name in NAMES}
    assert min(counts.values()) >= POLYNOMIAL, counts


# What a processor calls for one number at a time.
LIBRARY = r"\b(?:exp|exp2|expm1|log|log2|log1p|pow|erfc?|tanh|sin|cos)\b"


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "loss",
    [
        sd.losses.logistic(),
        sd.losses.probit(),
        sd.losses.negative_binomial(2.0),
        sd.losses.cauchy(),
        sd.losses.quantile(0.5),
        sd.losses.exponential(),
    ],
    ids=lambda loss: loss.name,
)
def test_no_library_is_called_for_each_record(loss, nothing_compiled):
    values = loss.target_values or (1.0, 2.0)
    records = sd.debias(loss, sd.Release(target=None)).records(np.eye(2), np.array(values, dtype=float))
    kernel = cache.compile_kernel(records.correction.kernels.source("mean_derivatives"))
    called = re.findall(LIBRARY, "\n".join(kernel.inspect_asm().values()))
    assert called == []
    assert packed(kernel) >= MANY


@pytest.mark.in_turn
@pytest.mark.parametrize("name", ["mean_gradient", "mean_derivatives"])
def test_loops_over_records_of_each_combination_are_vectorised(name, nothing_compiled):
    channel = sd.RandomizedResponse(epsilon=2.0, categories=("l", "m", "h"))
    release = sd.Release({"a": channel}, sd.RandomizedResponse(epsilon=2.0), noiseless=("b", "c"))
    corrected = sd.debias(sd.losses.logistic(), release)
    records = corrected.records(np.array([[0.0, 0.5, -0.5], [1.0, 1.0, 0.0]]), np.array([-1.0, 1.0]))
    enumerated = records.under(records.correction.enumerated)
    # The slope of the loss divides by what the exponential is part of, and nothing else divides.
    assert packed(cache.compile_kernel(enumerated.correction.kernels.source(name)), DIVIDED) > 0
