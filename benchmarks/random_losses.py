"""Hold random losses under random releases to what they claim: right, or refused with an error of the library.

A generator draws smooth, kinked, polynomial, exponential, trigonometric, rational and nested losses, and releases with
Gaussian, Laplace and discrete Laplace noise, categories, mixtures of them, and noise on the target. Corrections that
are called exact are held against the mean over the noise by rules of this file, which share no code with the library.
Under normal noise alone, exact corrections and the certificates of surrogates are held against a dense scan besides.

Compiling kernels takes most of the time. With ``--plain K`` the generated code runs as the Python that it is, but for
every K-th draw and for long sums, which are compiled; tests of the library hold one against the other.
"""

import argparse
import contextlib
import functools
import json
import math
import signal
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp

import symdebias as sd
from symdebias.codegen import cache

U, Y = sp.symbols("u y", real=True)
THETA = np.array([0.6, -0.4])
# Errors that a user is meant to see.
FAMILY = (sd.SymdebiasError, ValueError, TypeError)
# What a surrogate is designed for: the range of its score, and the number of records.
RADIUS, RECORDS = 2.0, 100_000
# The scan: shares of the largest parameter, scores, and a trapezoidal rule over the noise.
SHARES, SCORES = (0.3, 0.65, 1.0), np.linspace(-1.0, 1.0, 81)
# So wide that the tails of powers up to 60 are in it.
NODES = np.linspace(-14.0, 14.0, 361)
DENSITY = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()
# Steps of noise on a grid, and scores at which the inverse of Laplace noise is looked at by itself.
FARTHEST, POINTS = 90, np.linspace(-1.5, 1.5, 41)
# What is left to rounding, relative to the sizes that were summed.
ALLOWED_ERROR, ALLOWED_EXCESS = 1e-8, 1e-8
# Records that a kernel reads as plain Python before it is compiled, which takes as long.
PLAIN_RECORDS = 50_000
# Seconds of the processor for one draw, all that it is held against included.
LONGEST = 60.0


class TooLong(BaseException):
    """A draw took more than its share of time."""


@dataclass(frozen=True)
class Column:
    """A noised column: its mechanism, and a rule for its noise beside a true value."""

    name: str
    mechanism: Any
    value: float
    released: np.ndarray
    weights: np.ndarray


class PlainKernel:
    """A generated kernel as plain Python, until it is asked for so much that compiling it is faster.

    Attributes
    ----------
    compilations : int
        How often a kernel was compiled after all, in this process.
    """

    compilations = 0

    def __init__(self, source: cache.KernelSource, compiled: Any):
        self._source, self._compiled, self._read = source, compiled, 0
        self._plain = cache.plain_kernel(source)
        self._kernel: Any = None

    def __call__(self, theta: Any, X: Any, *arguments: Any) -> Any:
        """Call the kernel on a parameter, records, and what it takes after them."""
        self._read += len(X)
        if self._kernel is None and self._read <= PLAIN_RECORDS:
            try:
                with np.errstate(all="ignore"):
                    return self._plain(theta, X, *arguments)
            except (ArithmeticError, ValueError):
                # Where compiled code goes on with infinity or NaN, Python's functions raise.
                pass
        if self._kernel is None:
            PlainKernel.compilations += 1
            self._kernel = self._compiled(self._source.key, self._source)
        return self._kernel(theta, X, *arguments)


@contextlib.contextmanager
def plain_kernels() -> Iterator[None]:
    """Let kernels of losses run as plain Python; all others are compiled."""
    compiled = cache._compile
    cache._compile = lambda key, source: (
        PlainKernel(source, compiled) if source.name == "loss" else compiled(key, source)
    )  # type: ignore[assignment]
    try:
        yield
    finally:
        cache._compile = compiled


@dataclass(frozen=True)
class Result:
    """What became of one draw.

    Attributes
    ----------
    seed : int
        The draw.
    loss, release, method, error : str
        What was drawn, how it was corrected, and the class of the error, or "-".
    worst : float
        The error of an exact correction at a record, relative to the sizes that were summed.
    excess : float
        By how much a scan found more bias than the certificate allows, relative to the same; NaN without a scan.
    proved : bool
        Whether that certificate is one by interval arithmetic.
    seconds : float
        Of the processor, for deriving and compiling.
    plain : bool
        Whether the generated code ran as plain Python alone.
    """

    seed: int
    loss: str
    release: str
    method: str
    error: str
    worst: float
    excess: float
    proved: bool
    seconds: float
    plain: bool = False

    @property
    def is_wrong(self) -> bool:
        """Whether an error outside the family, or a claim that does not hold."""
        wrong = self.worst > ALLOWED_ERROR or self.excess > ALLOWED_EXCESS
        return self.error.startswith(("CRASH", "NO NUMBER")) or wrong


def random_loss(rng: np.random.Generator, depth: int = 2) -> sp.Expr:
    """Return a random expression in the score and the target."""
    a, b = (sp.Rational(int(rng.integers(1, 5)), int(rng.integers(2, 6))) for _ in range(2))
    inside = [U, U - Y, U * Y, a * U + b][rng.integers(4)]
    atoms = [
        lambda: inside ** int(rng.integers(1, 7)),
        lambda: sp.exp(a * inside),
        lambda: sp.sin(a * inside) * inside ** int(rng.integers(0, 2)),
        lambda: sp.cos(b * inside),
        lambda: sp.log(1 + sp.exp(inside)),
        lambda: sp.log(1 + inside**2),
        lambda: 1 / (1 + inside**2),
        lambda: sp.erf(inside / 4),
        lambda: -sp.log(sp.erfc(-inside) / 2),
        lambda: sp.tanh(inside),
        lambda: sp.asinh(inside),
        lambda: sp.atan(inside) ** 2,
        lambda: sp.Abs(inside - b),
        lambda: sp.Max(0, a - inside) ** int(rng.integers(1, 3)),
        lambda: sp.Piecewise((inside**2 / 2, sp.Abs(inside) <= a), (a * sp.Abs(inside) - a**2 / 2, True)),
        lambda: sp.exp(-(inside**2) / 8),
        lambda: sp.exp(-sp.exp(inside / 2)),
        lambda: 1 / inside,
        lambda: sp.log(inside**2),
        lambda: sp.Heaviside(inside),
        lambda: sp.gamma(1 + inside**2),
        lambda: sp.sqrt(1 + inside**2),
        lambda: inside ** int(rng.integers(20, 60)),
    ]
    expression = atoms[rng.integers(len(atoms))]()
    if depth and rng.random() < 0.5:
        other = random_loss(rng, depth - 1)
        kind = rng.integers(4)
        expression = (expression + a * other, expression * other, expression - other, sp.sin(expression) + other)[kind]
    return expression + (b * U**2 if not expression.has(U) else 0)


def random_column(rng: np.random.Generator, name: str) -> Column:
    """Return a column with random noise."""
    value = float(rng.integers(-2, 3)) / 2
    kind = rng.integers(4)
    if kind == 0:
        scale = float(rng.choice([0.2, 0.5]))
        t, weights = np.polynomial.hermite_e.hermegauss(40)
        return Column(name, sd.GaussianMechanism.from_scale(scale), value, value + scale * t, weights / weights.sum())
    if kind == 1:
        scale = float(rng.choice([0.1, 0.3]))
        mechanism = sd.LaplaceMechanism.from_scale(scale)
        # The mechanism says what it does: its characteristic function is 1/(1 + v w^2/2) at variance v.
        t, weights = np.polynomial.laguerre.laggauss(40)
        size = math.sqrt(mechanism.noise.variance / 2)
        released = np.concatenate([value - size * t, value + size * t])
        return Column(name, mechanism, value, released, np.concatenate([weights, weights]) / (2 * weights.sum()))
    if kind == 2:
        step = 0.5
        mechanism = sd.DiscreteLaplaceMechanism.from_scale(0.3, step=step)
        # Two-sided geometric weights q^|k| with the variance 2 q step^2/(1 - q)^2, solved for q.
        ratio = mechanism.noise.variance / step**2
        q = (1 + ratio - math.sqrt(1 + 2 * ratio)) / ratio
        # So far out that the tails of powers up to 60 are in it.
        k = np.arange(-FARTHEST, FARTHEST + 1)
        weights = q ** np.abs(k)
        return Column(name, mechanism, value, value + step * k, weights / weights.sum())
    mechanism = sd.RandomizedResponse(float(rng.choice([1.0, 2.0])))
    value = float(rng.choice([-1.0, 1.0]))
    keep = 1 / (1 + math.exp(-mechanism.epsilon))
    return Column(name, mechanism, value, np.array([value, -value]), np.array([keep, 1 - keep]))


def mean_error(corrected: sd.CorrectedLoss, columns: Sequence[Column], target: Column | float, loss: sp.Expr) -> float:
    """Return |E corrected - loss| over the sizes that were summed, at one record."""
    parts = [*columns, *([target] if isinstance(target, Column) else [])]
    *others, last = parts
    # All of the others beside one value of the last after another.
    grids = np.meshgrid(*(part.released for part in others), indexing="ij")
    released = np.stack([grid.ravel() for grid in grids], axis=1) if others else np.zeros((1, 0))
    chances = functools.reduce(np.multiply.outer, (part.weights for part in others), np.ones(())).ravel()
    blocks = zip(last.released, last.weights, strict=True) if others else [(last.released, last.weights)]
    total = sizes = 0.0
    for value, weight in blocks:
        weights = np.asarray(weight * chances)
        records = np.column_stack([np.broadcast_to(part, len(weights)) for part in (*released.T, value)])
        # Large values far out have tiny weights; sizes are reported.
        records, weights = records[weights > 1e-250], weights[weights > 1e-250]
        y = records[:, -1] if isinstance(target, Column) else np.full(len(records), target)
        terms = weights * corrected.loss(THETA[: len(columns)], records[:, : len(columns)], y)
        total, sizes = total + math.fsum(terms), sizes + float(np.abs(terms).sum())
    true_target = target.value if isinstance(target, Column) else target
    score = float(sum(theta * column.value for theta, column in zip(THETA, columns, strict=False)))
    wanted = _exactly(loss, score, true_target)
    return abs(total - wanted) / max(1.0, abs(wanted), sizes)


def inverse_error(corrected: sd.CorrectedLoss, column: Column, target: float, loss: sp.Expr) -> float:
    """Return the distance of a correction of one column with Laplace noise from its inverse, f - b^2 theta^2 f''.

    The inverse is exact where the mean exists. It is for losses that oscillate so fast far out that no rule takes their
    mean; the second derivative is a difference in many digits.
    """
    square = column.mechanism.noise.variance / 2 * THETA[0] ** 2
    found = corrected.loss(THETA[:1], POINTS[:, None] / THETA[0], np.full(len(POINTS), target))
    worst, step = 0.0, sp.Rational(1, 10**15)
    for score, value in zip(POINTS, found, strict=True):
        # The score as the kernel has it.
        at = sp.Rational(float(score / THETA[0] * THETA[0]))
        before, here, after = (loss.xreplace({U: at + k * step, Y: sp.Rational(target)}).evalf(60) for k in (-1, 0, 1))
        bend = float((before - 2 * here + after) / step**2)
        sizes = abs(float(here)) + square * abs(bend)
        worst = max(worst, abs(value - (float(here) - square * bend)) / max(1.0, sizes))
    return worst


def _exactly(loss: sp.Expr, score: float, target: float) -> float:
    return float(loss.xreplace({U: sp.Float(score, 30), Y: sp.Float(target, 30)}).evalf(20))


def certified_excess(
    corrected: sd.CorrectedLoss, columns: Sequence[Column], target: Column | float, loss: sp.Expr
) -> tuple[float, bool]:
    """Return by how much the bias that a scan finds exceeds the claim, and whether that is a proof.

    An exact correction claims none, a surrogate what its certificate says on the certified domain. The noise is drawn
    along the parameters, so that released scores are the true ones plus a normal number.
    """
    scales = np.array([math.sqrt(column.mechanism.noise.variance) for column in columns])
    record_radius, score_bound, claimed, proved = 1.0, 1.0, 0.0, False
    targets: Sequence[float] = loss_targets(corrected, target)
    if not corrected.is_exact:
        certificate = corrected.certificate
        record_radius, score_bound = certificate.record_radius, certificate.score_bound
        claimed, proved, targets = certificate.loss_bias, certificate.proved, certificate.targets
    direction = THETA[: len(columns)] / np.linalg.norm(THETA[: len(columns)])
    worst = -math.inf
    for share in SHARES:
        theta = share * direction
        deviation = float(np.linalg.norm(scales * theta))
        shift = scales**2 * theta / deviation
        for true_target in targets:
            seen, chances = _seen(target, true_target)
            truths = SCORES * min(share * record_radius, score_bound)
            X = truths[:, None, None] / share * direction + NODES[:, None] * shift
            shape = (len(truths), len(NODES), len(seen))
            records = np.broadcast_to(X[:, :, None, :], (*shape, len(columns))).reshape(-1, len(columns))
            values = corrected.loss(theta, records, np.broadcast_to(seen, shape).ravel()).reshape(shape)
            terms = values * DENSITY[:, None] * chances
            sizes = np.maximum(1.0, np.abs(terms).sum(axis=(1, 2)))
            wanted = np.array([_exactly(loss, score, true_target) for score in truths])
            bias = np.abs(terms.sum(axis=(1, 2)) - wanted)
            # No number stays none.
            worst = float(np.maximum(worst, np.max((bias - claimed) / sizes)))
    return worst, proved


def loss_targets(corrected: sd.CorrectedLoss, target: Column | float) -> Sequence[float]:
    """Return true targets to look at: all declared ones, or three numbers."""
    if corrected.declared.target_values is not None:
        return corrected.declared.target_values
    return (-1.0, 1.0) if isinstance(target, Column) and len(target.weights) == 2 else (-0.75, 0.0, 1.25)


def _seen(target: Column | float, value: float) -> tuple[np.ndarray, np.ndarray]:
    """Return what may be seen in place of a value of the target, with its probabilities."""
    if not isinstance(target, Column):
        return np.array([value]), np.array([1.0])
    if isinstance(target.mechanism, sd.RandomizedResponse):
        return np.array([value, -value]), target.weights
    return value + math.sqrt(target.mechanism.noise.variance) * NODES[::4], DENSITY[::4] / DENSITY[::4].sum()


def run(seed: int, *, compile_kernels: bool = True) -> Result:
    """Draw a loss and a release, and debias and check."""
    rng = np.random.default_rng(seed)
    expression = random_loss(rng)
    columns = [random_column(rng, f"x{index}") for index in range(int(rng.integers(1, 3)))]
    target: Column | float = float(rng.integers(-2, 3)) / 2 + 0.25
    binary = bool(rng.random() < 0.3)
    if binary:
        target = float(rng.choice([-1.0, 1.0]))
    if rng.random() < 0.35:
        target = random_column(rng, "y")
        binary = isinstance(target.mechanism, sd.RandomizedResponse)
    names = ", ".join(type(part.mechanism).__name__ for part in (*columns, target) if isinstance(part, Column))
    # Of the library: deriving and compiling, not the sums that it is held against.
    began, seconds = time.process_time(), 0.0
    method, error, worst, excess, proved = "-", "-", math.nan, math.nan, False
    try:
        loss = sd.Loss(expression, score=U, target=Y, target_values=(-1, 1) if binary else None)
        release = sd.Release(
            features={column.name: column.mechanism for column in columns},
            target=target.mechanism if isinstance(target, Column) else None,
        )
        corrected = sd.debias(loss, release)
        method = corrected.method
        if method == "exact" and compile_kernels:
            values = [part.value for part in columns]
            corrected.loss(THETA[: len(columns)], [values], [target.value if isinstance(target, Column) else target])
            seconds = time.process_time() - began
            worst = mean_error(corrected, columns, target, expression)
            alone = len(columns) == 1 and not isinstance(target, Column)
            if worst > ALLOWED_ERROR and alone and isinstance(columns[0].mechanism, sd.LaplaceMechanism):
                worst = inverse_error(corrected, columns[0], target, expression)
            if worst != worst:
                error = "NO NUMBER at the record"
        noised = [part for part in (*columns, target) if isinstance(part, Column)]
        normal = [isinstance(part.mechanism, sd.GaussianMechanism) for part in noised]
        normal[len(columns) :] = [one or binary for one in normal[len(columns) :]]
        if compile_kernels and all(normal) and method in ("exact", "surrogate"):
            if method == "surrogate":
                level = max(part.mechanism.noise.variance for part in columns)
                corrected = corrected.resolve(radius=RADIUS, score_variance=level, n=RECORDS)
            excess, proved = certified_excess(corrected, columns, target, expression)
            if excess != excess:
                error = "NO NUMBER in the scan"
    except TooLong:
        error = "TOO LONG"
    except FAMILY as refusal:
        error = type(refusal).__name__
    except Exception as crash:  # what the benchmark looks for
        error = f"CRASH {type(crash).__name__}: {crash}"[:120]
    seconds = seconds or time.process_time() - began
    return Result(seed, str(expression), names, method, error, worst, excess, proved, seconds)


def table(results: Sequence[Result]) -> str:
    """Return what was found, as text."""
    methods, errors = Counter(r.method for r in results), Counter(r.error for r in results if r.error != "-")
    worst = max((r for r in results if r.worst == r.worst), key=lambda r: r.worst, default=None)
    slowest = max(results, key=lambda r: r.seconds)
    lines = [f"{len(results)} random losses"]
    lines += [f"  {name:12s} {count:4d}" for name, count in methods.most_common() if name != "-"]
    lines += [f"  refused: {name} {count}" for name, count in errors.most_common()]
    if worst is not None:
        checked = sum(r.worst == r.worst for r in results)
        lines.append(f"  worst error of {checked} exact ones: {worst.worst:.1e}  {worst.loss}  under {worst.release}")
    scanned = [r for r in results if r.excess == r.excess]
    if scanned:
        proved = sum(r.proved for r in scanned)
        lines.append(f"  claims scanned: {len(scanned)}, of which {proved} are proofs; most found above one: ")
        lines[-1] += f"{max(0.0, *(r.excess for r in scanned)):.1e}"
    if any(r.plain for r in results):
        evaluated = [r for r in results if r.worst == r.worst or r.excess == r.excess]
        lines.append(f"  as plain Python: {sum(r.plain for r in evaluated)} of {len(evaluated)} evaluated ones")
    lines.append(f"  wrong: {sum(r.is_wrong for r in results)}")
    lines.append(f"  slowest: {slowest.seconds:.1f} s  {slowest.loss}  under {slowest.release}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--derive-only", action="store_true", help="leave kernels out: no errors of exact corrections")
    parser.add_argument("--plain", type=int, metavar="K", help="compile every K-th draw and long sums alone")
    parser.add_argument("--workers", type=int, default=1, help="processes beside one another")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the processor that one derivation may take")
    parser.add_argument("--keep", type=Path, help="a file for each result as it comes; what it has is not run again")
    options = parser.parse_args(arguments)
    known = _kept(options.keep)
    seeds = range(options.seed, options.seed + options.losses)
    limits = {"seconds": options.seconds, "compile_kernels": not options.derive_only, "plain": options.plain}
    one = functools.partial(_limited, **limits)
    missing = [seed for seed in seeds if seed not in known]
    for result in _each(one, missing, options.workers):
        known[result.seed] = result
        if options.keep is not None:
            with options.keep.open("a") as stream:
                stream.write(json.dumps(asdict(result)) + "\n")
    results = [known[seed] for seed in seeds]
    print(table(results))
    for result in results:
        slow = result.error == "TOO LONG" or result.seconds > 2 * options.seconds
        if result.is_wrong or slow:
            print(result)
    return results


def _kept(path: Path | None) -> dict[int, Result]:
    if path is None or not path.exists():
        return {}
    return {result.seed: result for result in (Result(**json.loads(line)) for line in path.read_text().splitlines())}


def _limited(seed: int, *, seconds: float, compile_kernels: bool, plain: int | None = None) -> Result:
    if plain is not None and seed % plain:
        before = PlainKernel.compilations
        with plain_kernels():
            result = _limited(seed, seconds=seconds, compile_kernels=compile_kernels)
        return replace(result, plain=PlainKernel.compilations == before)
    warnings.simplefilter("ignore", sd.VarianceWarning)
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, _stop)
        # Again and again: what is raised in a callback of Python's collector is lost.
        signal.setitimer(signal.ITIMER_PROF, LONGEST, 1.0)
    try:
        with sd.derivation_limits(seconds=seconds):
            return run(seed, compile_kernels=compile_kernels)
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_PROF, 0.0)


def _stop(*_: Any) -> None:
    raise TooLong


def _each(one: Any, seeds: Sequence[int], workers: int) -> Any:
    if workers == 1:
        yield from map(one, seeds)
        return
    # Compiled kernels stay in memory: processes are renewed before they fill it.
    for start in range(0, len(seeds), 200 * workers):
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for done in as_completed([pool.submit(one, seed) for seed in seeds[start : start + 200 * workers]]):
                yield done.result()


if __name__ == "__main__":
    main()
