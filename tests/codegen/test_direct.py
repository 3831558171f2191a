"""What is written directly does what the text says: kernels of every kind of statement, held against plain Python."""

import dataclasses
import itertools
import math

import numba
import numpy as np
import pytest

from symdebias.codegen import cache, draws
from symdebias.codegen.kernels import FASTMATH, IMPORTS

NUMBERS = numba.types.Array(numba.float64, 1, "C")
WHOLE = numba.types.Array(numba.int64, 1, "C")
ROWS = numba.types.Array(numba.float64, 2, "C")
COLUMNS = numba.types.Array(numba.float64, 2, "F", readonly=True)
HEAD = "def kernel(x, k, rows, turned, n, out):\n"

# Bodies of kernels, with the helpers that they call. All of each is one part, but for what stands under `IN_PARTS`.
WHOLE_BODIES = {
    "sums of whole and other numbers": """
    a = 2
    b = a*x[0] + 3*n - 1
    c = -b/(n + 1) + a*a*n
    out[0], out[1], out[2] = b, c, +n - -a
""",
    "quotients and remainders of either sign": """
    for i in range(k.shape[0]):
        out[i] = k[i]//3 + 100*(k[i] % 3) + 1e4*(k[i]//-3) + 1e6*(x[i] % 0.5)
""",
    "bits": """
    for i in range(k.shape[0]):
        bits = np.float64(x[i]).view(np.int64)
        out[i] = np.int64((bits & 255) | 4096 ^ (k[i] << 3) >> 1) + np.int64(bits + 1).view(np.float64)
""",
    "choices": """
    for i in range(x.shape[0]):
        out[i] = x[i] if x[i] > 0.0 else -x[i]*2.0
        if x[i] < -0.5:
            out[i] += 1
        elif not (x[i] >= 0.3 or k[i] == 2) and k[i] != 0:
            out[i] -= 1
        else:
            out[i] *= 2
""",
    "nothing is read that a condition keeps from being read": """
    for i in range(x.shape[0]):
        ahead = x[i + 1] if i + 1 < x.shape[0] else 0.0
        behind = i > 0 and x[i - 1] > 0.0
        out[i] = ahead + (1.0 if behind else 0.0)
""",
    "loops that end, go on, and count down": """
    total = 0.0
    for i in range(x.shape[0] - 1, -1, -1):
        if k[i] < 0:
            continue
        j = 0
        while True:
            total += x[j]*(i + 1)
            j += 1
            if j > i:
                break
            if k[j] == 0:
                continue
            total -= 0.5
        out[i] = total
    for i in range(1, 4, 2):
        out[i] += 1000
    for i in range(3, 0):
        out[i] = -1.0
""",
    "numbers without a sign": """
    begin, two = np.uint64(1), np.uint64(2)
    for i in range(begin, np.uint64(n), two):
        out[i] = x[i] + np.float64(i)
    out[np.uint64(n)] = float(int(x[0]*10.0))
""",
    "a name for numbers of one type after another": """
    at = np.uint64(n) + np.uint64(1)
    out[at] = x[at]
    at = n - 1
    out[at] = x[at]
    at = x[0]
    out[0] = at
""",
    "a name for numbers of two types where ways meet": """
    value = 0
    for i in range(n):
        if x[i] > 0.0:
            value = value + x[i]
        kept = 1
        if k[i] > 0:
            kept = 0.5
        out[i] = value + kept
    out[n] = value/2
""",
    "rows and columns": """
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[i, j] += 10*turned[i, j] + turned.shape[1]
    out[0], out[1] = rows[0, 1], rows[1, 0]
""",
    "several targets": """
    x[0] = x[1] = x[0]/2 + x[1]
    a = b = c = 3.0*x[0]
    a, b = b + 1.0, a + c
    x[2], x[3] = x[3], x[2]
    rows[0, 0] = rows[1, 1] = out[0] = a*b - c
""",
    "slices": """
    first, rest, lower = x[:2], x[2:], rows[1:]
    some = rest[1:1000]
    for i in range(some.shape[0]):
        out[i] = some[i] + first[i % 2] + lower[0, 1]
    out[5] = lower.shape[0] + some.shape[0]
    some, first = first, some
    out[6] = some[0] + first.shape[0]
""",
    "arrays that are made": """
    for i in range(n):
        work, counts = np.zeros((2, 3)), np.zeros(2, np.int64)
        other = np.empty(4)
        other[:] = x[i]
        work[i % 2, 1] += other[3]
        counts[1] += i
        out[i] = work[0, 1] + work[1, 1] + counts[1] + counts[0]
""",
    "the smaller and the larger": """
    out[0], out[1] = min(x[0], math.nan), max(math.nan, x[0])
    out[2], out[3] = min(n, 2), max(2, x[1])
    out[4] = abs(x[1]) + math.sqrt(abs(x[2])) + math.exp(x[0]) + math.inf
""",
    "what only a loop writes": """
    for i in range(0):
        last = x[i]
        out[0] = last
    for i in range(n):
        last = x[i]
    out[0] = last + i
""",
}
HELPERS = {
    "helpers": (
        """
TABLE = np.array([[0, 2], [1, 1]])

@helper(forceinline=True)
def half(x: float) -> float:
    \"\"\"Return a half.\"\"\"
    value: float = x/2
    return value

@helper(fastmath={"contract", "reassoc"})
def first_above(row, least):
    for i in range(row.shape[0]):
        if row[i] > least:
            return half(row[i])
    return -1.0

@helper()
def add(row, by):
    for i in range(row.shape[0]):
        row[i] += by*TABLE[i % 2, 1]
""",
        """
    add(rows[1], 2)
    add(x, 0.5)
    out[0], out[1], out[2] = first_above(x, 0.6), first_above(rows[1], 1e9), half(n)
    out[3] = TABLE[1, 0] + TABLE.shape[0]
""",
    ),
}
IN_PARTS = {
    "what Numba does in between": (
        "",
        """
    a = x[0]*2.0 + x[1]
    most = 1
    for i, value in enumerate(x):
        b = a*value + k[i]*most
        most = 2 if b > 0.0 else most + 1
        out[i] = b + most
    c = len(x) + most
    out[6] = a*c + x[2]*x[3]
""",
    ),
    "views that are read later": (
        "",
        """
    some = x[1:]
    other = some
    for i, value in enumerate(k):
        if value > 0:
            continue
        out[i] = some[0]*other[1] + x[i] + value
""",
    ),
    "a helper that is Numba's": (
        """
@helper()
def many(x):
    found = 0.0
    for value in x:
        found += value*value + 1.0
    return found
""",
        """
    y = x[0] + x[1]*2.0 + x[2]
    out[0] = many(x) + y
    out[1] = y*y + x[3]*x[4]
""",
    ),
    "what Numba may have made": (
        "",
        """
    work = np.zeros(len(x))
    for i in range(len(x)):
        work[i] = x[i]*2.0 + k[i]
    for i in range(work.shape[0]):
        out[i] = work[i] + work[work.shape[0] - 1]
""",
    ),
}
EVERY = {name: ("", body) for name, body in WHOLE_BODIES.items()} | HELPERS | IN_PARTS


def source(helpers, body, number=0, **more):
    signature = numba.void(NUMBERS, WHOLE, ROWS, COLUMNS, numba.int64, NUMBERS)
    text = f"{IMPORTS}\n{helpers}\n{HEAD}{body}    # {number}\n"
    return cache.KernelSource("direct", text, signature, FASTMATH, lambda kernel: [], **more)


def arguments():
    x = np.array([0.75, -0.25, 0.5, -0.875, 0.3, -1.5])
    rows = np.arange(6.0).reshape(3, 2)
    return x, np.array([2, -3, 0, 7, -1, 5]), rows, np.asfortranarray(rows[::-1]), 4, np.zeros(8)


@pytest.fixture
def nothing_compiled(monkeypatch):
    monkeypatch.setenv("SYMDEBIAS_CACHE", "off")
    for name in ("_compiled", "_helpers", "_hashes"):
        monkeypatch.setattr(cache, name, {})


def parts(kernel):
    return [name for name in kernel.py_func.__code__.co_names if name.startswith("part_")]


@pytest.mark.in_turn
@pytest.mark.parametrize("name", EVERY)
def test_what_is_written_does_what_the_text_says(name, nothing_compiled):
    own = source(*EVERY[name])
    kernel, plain = cache.compile_kernel(own), cache.plain_kernel(own)
    found, wanted = arguments(), arguments()
    for _ in range(2):
        kernel(*found)
        with np.errstate(all="ignore"):
            plain(*wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)
    assert np.any(found[-1] != 0.0)
    if name in IN_PARTS:
        assert parts(kernel)
    else:
        assert len(kernel.py_func.__code__.co_names) == 1
        assert len(parts(kernel)) == 1


@pytest.mark.in_turn
@pytest.mark.parametrize("name", EVERY)
def test_numba_makes_the_same_of_it(name, nothing_compiled):
    own, left = source(*EVERY[name]), source(*EVERY[name], number=1, is_direct=False)
    found, wanted = arguments(), arguments()
    cache.compile_kernel(own)(*found)
    kernel = cache.compile_kernel(left)
    kernel(*wanted)
    assert not parts(kernel)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)


def test_random_arithmetic_is_that_of_python(nothing_compiled):
    """Expressions of whole and other numbers, drawn at random: their types are Numba's, and so are their values."""
    rng = np.random.default_rng(20)
    names = ("x[0]", "x[1]", "k[0]", "k[3]", "n", "3", "0.5", "np.int64(x[5])")

    def drawn(depth):
        if depth == 0:
            return str(rng.choice(names))
        operator = rng.choice(["+", "-", "*", "+", "*"])
        return f"({drawn(depth - 1)} {operator} {drawn(depth - 1)})"

    lines = [f"    out[{i % 8}] += {drawn(1 + i % 4)}\n" for i in range(60)]
    own = source("", "".join(lines))
    found, wanted = arguments(), arguments()
    cache.compile_kernel(own)(*found)
    cache.plain_kernel(own)(*wanted)
    np.testing.assert_allclose(found[-1], wanted[-1], rtol=1e-12)


def test_a_part_that_is_of_no_type_says_so(nothing_compiled):
    """Nothing is guessed: a step whose sign is not written there, and numbers of a name that is an array as well."""
    for body in (
        "    step = n - 5\n    for i in range(4, 0, step):\n        out[i] = x[i]*2.0 + x[0]\n",
        "    a = x\n    if n > 2:\n        a = x[0]*2.0 + x[1]*x[2]\n    out[0] = a*2.0 + 1.0\n",
    ):
        with pytest.raises((numba.errors.TypingError, TypeError), match="not written directly"):
            cache.compile_kernel(source("", body))


def test_what_is_lent_by_a_part_is_never_what_numba_may_have_freed(nothing_compiled):
    """An array that Numba counts references of is handed on by Numba alone."""
    body = """
    work = np.zeros(len(x))
    for i, value in enumerate(x):
        work[i] = value
    other = work
    out[0], out[1], out[2] = other[0]*2.0, other[1]*3.0, other[2]*x[0]
    for value in other:
        out[3] += value
"""
    try:
        kernel = cache.compile_kernel(source("", body))
    except (numba.errors.TypingError, TypeError, numba.errors.LoweringError) as error:
        assert "not written directly" in str(error)  # noqa: PT017  (either is safe)
        return
    found = arguments()
    kernel(*found)
    assert math.isclose(found[-1][3], found[0].sum())


def test_parts_are_named_for_all_that_they_are_made_of(nothing_compiled):
    """Kernels that share a helper of Numba's call the same one, and never one with other constants or functions."""
    helper = """
@helper()
def many(x):
    found = 0.0
    for value in x:
        found += value*value + {} + half(value)*2.0 + half(found)
    return found
"""
    half = "\n@helper()\ndef half(x):\n    return x/{}\n"
    body = "    out[0] = many(x)*2.0 + x[0]*x[1] + x[2]\n"
    made = {}
    for number, divisor, which in itertools.product((1.0, 2.0), (2.0, 4.0), (0, 1)):
        kernel = cache.compile_kernel(source(half.format(divisor) + helper.format(number), body, which))
        found = arguments()
        kernel(*found)
        made.setdefault((number, divisor), set()).add(found[-1][0])
    assert [len(values) for values in made.values()] == [1, 1, 1, 1]
    assert len({next(iter(values)) for values in made.values()}) == 4
    assert len(cache._helpers) == 4


def test_kernels_of_noise_are_left_to_numba():
    assert not draws.source("normal").is_direct
    own = source("", "    pass\n")
    assert own.is_direct
    assert dataclasses.replace(own, is_direct=False).key != own.key


@pytest.mark.in_turn
@pytest.mark.parametrize("assigned", ["out[0] =", "out[0] +="])
@pytest.mark.parametrize("terms", [50, 51, 52, 101, 102, 140, 900])
def test_long_sums_are_written_in_parts(terms, assigned, nothing_compiled):
    summed = " + ".join(f"{n}.0*x[{n % 6}]" for n in range(terms))
    kernel = cache.compile_kernel(source("", f"    if n > 0:\n        {assigned} {summed}\n"))
    assert parts(kernel)
    found = arguments()
    begun = found[-1][0] if "+" in assigned else 0.0
    kernel(*found)
    np.testing.assert_allclose(
        found[-1][0], begun + sum(n * found[0][n % 6] for n in range(terms)), rtol=1e-12, atol=1e-12
    )


@pytest.mark.exhaustive
def test_what_is_deep_and_no_sum_is_left_to_numba(nothing_compiled):
    # A stack that ends sooner than the expression would not have it looked at.
    nested = f"{'(x[0] - ' * 170}1.0{')' * 170}"
    kernel = cache.compile_kernel(source("", f"    out[0] = {nested}\n"))
    assert not parts(kernel)
    found = arguments()
    kernel(*found)
    np.testing.assert_allclose(found[-1][0], 1.0, rtol=1e-12)
