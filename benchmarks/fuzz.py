"""Fuzz the readers of strangers' text: the parser of expressions and the reader of release cards.

Inputs are mutations of valid ones, texts of the grammar with a part replaced, and raw characters. Every tenth input is
traced, and one that reaches a new step from line to line of the readers joins those that are mutated. An input is a
finding where it raises anything but the reader's own error, takes longer than allowed, has code executed, files written
or processes started (an audit hook watches), or is read as something that it is not.
"""

import argparse
import copy
import json
import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import sympy as sp

import symdebias as sd
from symdebias.losses import parsing
from symdebias.mechanisms import FiniteChannel

NAMES = {"u": sp.Symbol("u", real=True), "y": sp.Symbol("y", real=True)}
# Seconds of the processor for one input, and how many pass before a hang is broken off.
ALLOWED, HANG = 1.0, 5.0
LONGEST_INPUT = 4_000
TRACED = 10
MOST_KEPT = 5_000
TRACED_FILES = (
    "losses/parsing.py",
    "release/card.py",
    "mechanisms/base.py",
    "release/coupling.py",
    "release/columns.py",
)
# Audited events that no reader has a reason for.
FORBIDDEN = (
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.putenv", "os.remove", "os.rename",
    "os.mkdir", "os.rmdir", "os.chmod", "os.link", "os.symlink", "os.kill", "subprocess.", "socket.", "ctypes.",
    "pickle.", "shutil.", "pty.", "marshal.loads", "code.__new__", "cpython.run_", "webbrowser.", "urllib.",
    "winreg.",
)  # fmt: skip
# Where Python takes modules from their files.
IMPORTING = "<frozen importlib._bootstrap_external>"

WORDS = [
    "u", "y", "exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asinh", "atan", "erf", "erfc",
    "loggamma", "Abs", "sign", "Heaviside", "Max", "Min", "Piecewise", "True", "False", "None", "pi", "EulerGamma",
    "E", "I", "oo", "nan", "0", "1", "2", "12", "13", "0.5", "1e12", "1e-12", "1e13", "1e400", "9" * 41, "170",
    "1/3", "**", "*", "/", "+", "-", "(", ")", ",", "<", "<=", "==", "!=", ">", " ", "__import__", "lambda",
    "eval", "os.system", ".", "u.func", "u.__class__", "[u]", "{u}", "u if u else y", "for", "await", "yield",
    ":=", "\\", "'", '"', "#", ";", "\n", "\t", "\x00", "\u202e", "\u200b", "\ud800", "\u0661", "\uff55", "@", "%",
    "//", "&", "|", "~", "^", "not ", "and ", "or ", "0x10", "1_0", "1j", "...",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e-320, 1e308, 10**400, -(10**400), "", " ", "a", "margin", "joint",
    "analytic", "classical", [], {}, [1], [0, 1], [1, 0], [[0.5, 0.5], [0.5, 0.5]], [[1, 0], [0, 1]],
    {"kind": "laplace"}, ["a", "a"], ["n", "e"], "\u202ea", "a\u200b", "\ud800", "\x00", [[[[[[]]]]]], [0.1] * 50,
    {"a": 1.0}, "gaussian", 3.0, 1e100, 7, 1e-7,
]  # fmt: skip


class _TooLong(BaseException):
    """An input was broken off."""


@dataclass(frozen=True)
class Reader:
    """What is fuzzed.

    Attributes
    ----------
    name : str
        For the table.
    seeds : tuple of str
        Valid inputs.
    fresh : callable
        Takes a generator and returns an input of the grammar.
    read : callable
        Takes a text, and raises AssertionError where what it read is not what was said.
    error : type
        The only error that it may raise.
    """

    name: str
    seeds: tuple[str, ...]
    fresh: Callable[[random.Random], str]
    read: Callable[[str], None]
    error: type[Exception]


@dataclass
class Report:
    """What a run found."""

    reader: str
    inputs: int = 0
    accepted: int = 0
    slowest: float = 0.0
    slowest_input: str = ""
    steps: int = 0
    kept: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[str, str]] = field(default_factory=list)

    def row(self) -> str:
        """Return the report as a line of a table."""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.kinds.items()))
        return (
            f"{self.reader:12s} {self.inputs:>9,} inputs ({kinds}): {self.accepted:,} read, the others refused; "
            f"{self.steps:,} steps seen, {self.kept:,} inputs kept; slowest {self.slowest:.3f} s; "
            f"{len(self.findings)} findings"
        )


# ---- the readers -----------------------------------------------------------------------------------------


def expression(rng: random.Random, depth: int = 4) -> str:
    """Return a text of the grammar."""
    kind = rng.randrange(12) if depth else rng.randrange(3)
    below = [expression(rng, depth - 1) for _ in range(2)] if kind > 2 else []
    if kind < 2:
        return rng.choice("uy")
    if kind == 2:
        return rng.choice(["1", "2", "1/3", "0.5", "pi", str(rng.randrange(1, 100)), f"{rng.random() * 10:.6g}"])
    if kind < 6:
        return f"({below[0]} {rng.choice('+-*/')} {below[1]})"
    if kind == 6:
        return f"({below[0]})**{rng.choice(['2', '3', '(1/2)', '(-1)', '4', '12', '13', '(y)'])}"
    if kind == 7:
        return (
            f"Piecewise(({below[0]}, {below[1]} {rng.choice(['<', '>=', '==', '!='])} {rng.choice('uy')}), (u, True))"
        )
    if kind == 8:
        return f"{rng.choice(WORDS[2:19])}({below[0]})"
    if kind == 9:
        return f"Max({below[0]}, {below[1]})"
    if kind == 10:
        # What SymPy looks for real and imaginary parts of.
        return f"{rng.choice(WORDS[2:19])}((sqrt({below[0]}) + log({below[1]}) + y**(1/3))**{rng.randrange(1, 13)})"
    name, levels = rng.choice(WORDS[2:19]), rng.randrange(2, 20)
    return f"{rng.choice(WORDS[2:19])}({f'{name}(' * levels}{below[0]}{')' * levels})"


def read_expression(text: str) -> None:
    """Read a text as an expression."""
    found = parsing.read(text, NAMES)
    assert isinstance(found, sp.Expr), "no expression"
    assert found.free_symbols <= set(NAMES.values()), "other symbols"


def releases() -> list[sd.Release]:
    """Return releases of every kind."""
    named: dict[Any, Any] = {
        ("age", "hours"): sd.GaussianMechanism(epsilon=1.0, delta=1e-5, radius=1.0),
        "income": sd.LaplaceMechanism(epsilon=0.5, bounds=(0.0, 1.0)),
        "region": sd.RandomizedResponse(epsilon=1.0, categories=("n", "e", "s")),
        "count": sd.DiscreteLaplaceMechanism(epsilon=1.0, bounds=(0, 10)),
    }
    binary = sd.RandomizedResponse(epsilon=1.0)
    return [
        sd.Release(features=named, target=binary, noiseless=("year",), fit_intercept=True, center={"age": 40.0}),
        sd.Release(features=sd.GaussianMechanism.from_scale(0.5), target=sd.LaplaceMechanism.from_scale(0.2)),
        sd.Release(features=sd.SphericalCapMechanism(epsilon=2.0, radius=1.0), target="margin", fit_intercept=True),
        sd.Release(features={"a": FiniteChannel([[0.8, 0.2], [0.4, 0.6]], inputs=(0, 1))}, target=binary),
        sd.Release(features=sd.SphericalLaplaceMechanism(epsilon=1.0, radius=1.0), target=binary),
        sd.Release(features={"a": sd.StaircaseMechanism(epsilon=1.0, bounds=(0, 1))}),
        sd.Release(features={("a", "b"): sd.LaplaceMechanism(epsilon=1.0, radius=1.0)}, scale=[1.0, 2.0]),
        sd.Release(features={("a", "b"): sd.GaussianMechanism.from_covariance([[1.0, 0.2], [0.2, 1.0]])}),
    ]


def card(rng: random.Random) -> str:
    """Return a valid card with one to three of its parts replaced."""
    document = json.loads(rng.choice(_CARDS))
    for _ in range(rng.randrange(1, 4)):
        node: Any = document
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(node[key], (dict, list)) and rng.random() < 0.7:
                node = node[key]
                continue
            change = rng.randrange(4)
            if change == 0 and isinstance(node, dict):
                node[rng.choice(["kind", "columns", "epsilon", "x", "format", "scale"])] = copy.deepcopy(
                    rng.choice(VALUES)
                )
            elif change == 1:
                del node[key]
            else:
                node[key] = copy.deepcopy(rng.choice(VALUES))
            break
    return json.dumps(document)


def read_card(text: str) -> None:
    """Read a text as a card."""
    release = sd.Release.from_json(text)
    assert sd.Release.from_json(release.to_json()) == release, "another release after writing and reading"


_CARDS = tuple(release.to_json() for release in releases())
_EXPRESSIONS = (
    "log(1 + exp(-u*y))", "(u - y)**2/2", "exp(-y*u)", "Max(0, 1 - y*u)**2",
    "Piecewise((u**2/2, Abs(u - y) < 1), (u, True))", "exp(u) - y*u + loggamma(y + 1)",
    "-log(erfc(-u*y/sqrt(2))/2)", "sqrt(1 + (u - y)**2) - 1", "0.5*sin(pi*u) + cos(u/3)*tanh(y)",
)  # fmt: skip
READERS = {
    "expressions": Reader("expressions", _EXPRESSIONS, expression, read_expression, sd.ExpressionError),
    "cards": Reader("cards", _CARDS, card, read_card, sd.FormatError),
}


# ---- inputs ----------------------------------------------------------------------------------------------


def mutated(rng: random.Random, text: str, other: str) -> str:
    """Return a text with up to eight changes: parts replaced, doubled, taken out, moved in from another text."""
    for _ in range(1 + int(rng.expovariate(0.7))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + int(rng.expovariate(0.2)))
        kind = rng.randrange(7)
        if kind == 0:
            text = text[:start] + rng.choice(WORDS) + text[start:]
        elif kind == 1:
            text = text[:start] + rng.choice(WORDS) + text[end:]
        elif kind == 2:
            text = text[:start] + text[end:]
        elif kind == 3:
            text = text[:start] + text[start:end] * rng.randrange(2, 30) + text[end:]
        elif kind == 4:
            cut = rng.randrange(len(other) + 1)
            text = text[:start] + other[cut : cut + rng.randrange(1, 60)] + text[end:]
        elif kind == 5:
            text = text[:start] + chr(rng.choice([rng.randrange(128), rng.randrange(0x110000)])) + text[start + 1 :]
        else:
            value = rng.choice([*VALUES[:8], 10**400, 1e308])
            text = text[:start] + json.dumps(value) + text[end:]
    return text[:LONGEST_INPUT]


def raw(rng: random.Random) -> str:
    """Return random characters: bytes, words of the languages, or one character many times."""
    kind = rng.randrange(3)
    if kind == 0:
        return rng.randbytes(rng.randrange(60)).decode(rng.choice(["latin-1", "utf-8"]), errors="surrogateescape")
    if kind == 1:
        return "".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 25)))
    return rng.choice(["(", "[", "-", "{", '{"a":', "u**", "exp(", "1", "u+", "Max(", ",", "\x00"]) * rng.randrange(
        1, 2_500
    )


def inputs(reader: Reader, rng: random.Random, pool: list[str]) -> Iterator[tuple[str, str]]:
    """Yield kinds of inputs and inputs without end; whoever consumes them lets the pool grow."""
    while True:
        kind = rng.random()
        if kind < 0.6:
            yield "mutated", mutated(rng, rng.choice(pool), rng.choice(pool))
        elif kind < 0.9:
            yield "of the grammar", reader.fresh(rng)
        else:
            yield "raw", raw(rng)


# ---- what is watched -------------------------------------------------------------------------------------


class Watch:
    """What happens while an input is read: audited events, and the steps from line to line."""

    def __init__(self) -> None:
        self.active = False
        self.events: list[str] = []
        self.steps: set[tuple[str, int, int]] = set()
        self.seen: set[tuple[str, int, int]] = set()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event.startswith(FORBIDDEN):
            # A module that is imported late is taken from its file by Python itself.
            if event != "marshal.loads" or sys._getframe(1).f_code.co_filename != IMPORTING:
                self.events.append(event)
        elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
            self.events.append(f"open {arguments[1]}")
        elif event == "exec" and arguments[0].co_filename.startswith("<") and "frozen" not in arguments[0].co_filename:
            # Its code has a file as well; text that was compiled has none.
            self.events.append(f"exec {arguments[0].co_filename}")

    @contextmanager
    def tracing(self, on: bool) -> Iterator[None]:
        """Collect the steps within the traced files, which is slow: every call asks."""
        if not on:
            yield
            return
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.endswith(TRACED_FILES):
            return None
        last = 0

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "line":
                self.steps.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line


_WATCHES: list[Watch] = []


def fuzz(reader: Reader, count: int, seed: int) -> Report:
    """Read so many inputs, and report.

    Parameters
    ----------
    reader : Reader
        What reads them.
    count : int
        How many.
    seed : int
        Decides all of them.
    """
    if not _WATCHES:
        # A hook cannot be taken away again.
        _WATCHES.append(Watch())
    watch = _WATCHES[0]
    watch.seen = set()
    rng, pool, report = random.Random(f"{reader.name} {seed}"), list(reader.seeds), Report(reader.name)
    stream = inputs(reader, rng, pool)
    has_timer = hasattr(signal, "setitimer")
    before = signal.signal(signal.SIGPROF, _break_off) if has_timer else None
    try:
        for index in range(count):
            kind, text = next(stream) if index >= len(reader.seeds) else ("valid", reader.seeds[index])
            report.inputs += 1
            report.kinds[kind] += 1
            _one(reader, text, watch, report, traced=index % TRACED == 0)
            new = watch.steps - watch.seen
            if new:
                watch.seen |= new
                if len(pool) < MOST_KEPT and len(text) <= LONGEST_INPUT:
                    pool.append(text)
                    report.kept += 1
    finally:
        if has_timer:
            signal.signal(signal.SIGPROF, before)
    report.steps = len(watch.seen)
    return report


def _break_off(*_: Any) -> None:
    raise _TooLong


def _one(reader: Reader, text: str, watch: Watch, report: Report, *, traced: bool) -> None:
    finding = ""
    watch.events.clear()
    watch.steps.clear()
    if hasattr(signal, "setitimer"):
        # Again and again: what is raised in a callback of Python's collector is lost.
        signal.setitimer(signal.ITIMER_PROF, HANG, HANG)
    began = time.process_time()
    try:
        # A warning tells the reader's caller of numbers that were computed with before they were checked.
        with warnings.catch_warnings(), watch.tracing(traced):
            warnings.simplefilter("error")
            watch.active = True
            reader.read(text)
        report.accepted += 1
    except reader.error:
        pass
    except (_TooLong, MemoryError, Exception) as crash:
        finding = f"{type(crash).__name__}: {crash}"[:200]
    finally:
        watch.active = False
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, 0.0)
    seconds = time.process_time() - began
    if seconds > report.slowest:
        report.slowest, report.slowest_input = seconds, text
    if seconds > ALLOWED and not traced:
        finding = finding or f"{seconds:.2f} s"
    if watch.events:
        finding = f"audited: {', '.join(watch.events[:5])}"
    if finding:
        report.findings.append((finding, text))


def main(arguments: Sequence[str] | None = None) -> list[Report]:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, help="for both readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", choices=[*READERS], action="append", help="one of them alone")
    options = parser.parse_args(arguments)
    names = options.reader or [*READERS]
    reports = []
    for name in names:
        began = time.process_time()
        report = fuzz(READERS[name], options.inputs // len(names), options.seed)
        reports.append(report)
        print(f"{report.row()}; {time.process_time() - began:.0f} s", flush=True)
        print(f"  slowest: {ascii(report.slowest_input)[:300]}")
        for finding, text in report.findings[:20]:
            print(f"  FINDING {finding}  {ascii(text)[:600]}")
    return reports


if __name__ == "__main__":
    main()
