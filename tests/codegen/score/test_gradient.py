"""How the pass that sums slopes is written: exponentials that all records share, and sums of many waves."""

import re

import numpy as np
import pytest
import sympy as sp
from instances import U, Y

from symdebias.codegen.cache import plain_kernel
from symdebias.codegen.kernels import Kernels
from symdebias.codegen.score.columns import ScoreColumns
from symdebias.codegen.score.constants import Constants, Tails
from symdebias.codegen.score.normal import NormalNoise
from symdebias.codegen.score.program import ScoreProgram

S, T, C = sp.symbols("s t c", positive=True)
# Registers that hold several numbers each: 32 in AVX-512 and on aarch64, of which a dozen have those of the records.
REGISTERS = 20


def program(waves):
    """Return a surrogate's correction under normal noise of variance s: e^{s k^2/8} undoes it on cos(k u/2)."""
    numbers = sp.symbols(f"a:{waves}", real=True)
    terms = [
        number * sp.exp(S * sp.Integer(k) ** 2 / 8) * sp.cos(sp.Integer(k) * U / 2)
        for k, number in enumerate(numbers, 1)
    ]
    return ScoreProgram(
        -U * Y / 2 + U**2 - S + sp.Add(*terms),
        Y,
        ScoreColumns((U,), (0, 1), 2, None),
        (NormalNoise((S,)), Tails(), Constants("target", (T, C)), Constants("coefficients", numbers)),
    )


def accumulated(kernels):
    text = kernels.source("mean_gradient").text
    return text[text.index("def accumulate") : text.index("def assemble")]


def loops_over_slopes(kernels):
    """The loops over records but for the first, of scores, and the last, of sums."""
    return accumulated(kernels).split("for n in range(stop - start)")[2:-1]


def test_no_loop_has_more_coefficients_than_there_are_registers():
    """In one loop there are 50; the compiler then fetches most of them anew for every eight records."""
    loops = loops_over_slopes(Kernels(program(12)))
    counts = [len(set(re.findall(r"\bh\d+|\bnoise\[\d+\]|\bnoise\d+\b", loop))) for loop in loops]
    assert len(loops) == 3
    assert 12 <= max(counts) <= REGISTERS


def test_few_waves_are_taken_in_one_loop():
    assert len(loops_over_slopes(Kernels(program(2)))) == 1


@pytest.mark.parametrize(("waves", "count"), [(12, 1), (2, 2)])
def test_many_exponentials_that_records_share_are_taken_in_a_loop(waves, count):
    assert len(re.findall(r"\bexp\(", accumulated(Kernels(program(waves))))) == count


@pytest.mark.parametrize("waves", [2, 5, 12, 20])
def test_gradients_of_many_waves(waves):
    """Against the derivatives that SymPy takes of the loss at each record, by itself."""
    made, rng = program(waves), np.random.default_rng(waves)
    kernels, n = Kernels(made), 9
    X, y, theta = rng.normal(size=(n, 2)), rng.choice([-1.0, 1.0], n), np.array([0.7, -0.4])
    variances, numbers = np.array([0.02, 0.01]), rng.normal(size=waves)
    noise = made.layout.vector({"covariance": variances, "coefficients": numbers})
    out = np.empty((n, 2))
    plain_kernel(kernels.source("mean_gradient"))(
        theta, X, y, np.empty(0), 1.0, noise, 1, *kernels._sums(), *kernels._tile(weighted=False), out,
        np.empty((0, 0)),
    )  # fmt: skip
    s = variances @ theta**2
    given = {**dict(zip(sp.symbols(f"a:{waves}", real=True), numbers, strict=True)), S: s, Y: Y}
    by_score, by_variance = (
        sp.lambdify((U, Y), sp.diff(made.expression, symbol).subs(given), "numpy") for symbol in (U, S)
    )
    scores = X @ theta
    wanted = by_score(scores, y)[:, None] * X + by_variance(scores, y)[:, None] * (2 * variances * theta)
    np.testing.assert_allclose(out, wanted, rtol=1e-11, atol=1e-11 * np.abs(wanted).max())
