"""One table of speed: what, ours, a peer, the ratio, the limit that it is held to, with versions and machine.

    python benchmarks/run_all.py [--small] [--repeats 7] [--only WORD ...] [--write docs/benchmarks.md]

Each row times a pair in turns, on one thread, by processor time: the medians of both, and the median of their ratios,
which a machine that others use too hardly moves. Limits are on that ratio: 0.05 stands for 20 times as fast. Rows take
their work from the other scripts of this folder, which time the same and more by themselves. ``--write`` puts the table
into a page, between its marks.
"""

import argparse
import functools
import importlib.metadata
import importlib.util
import math
import os
import platform
import runpy
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numba
import numpy as np
from sklearn.linear_model import LogisticRegression, SGDClassifier
from threadpoolctl import threadpool_limits

import symdebias as sd
from symdebias.mechanisms import sampling

HERE = Path(__file__).parent
PACKAGES = ("numpy", "scipy", "sympy", "numba", "scikit-learn", "statsmodels", "pyarrow", "dask")
BEGIN, END = "<!-- table of run_all.py -->", "<!-- end of the table -->"


@dataclass(frozen=True)
class Row:
    """A pair that is timed in turns.

    Attributes
    ----------
    what, peer : str
        What is timed, and beside what.
    ours, theirs : callable
        Both.
    limit : float or None
        The most that ours may take, in units of the peer's time; None where there is none.
    """

    what: str
    peer: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    limit: float | None


@dataclass(frozen=True)
class Sizes:
    """How much is timed: records of a fit, numbers that are drawn, and so on."""

    records: int = 1_000_000
    draws: int = 2_000_000
    private: int = 8_000
    smoothed: int = 100_000
    outputs: int = 52
    stored: int = 2_000_000
    columns: tuple[int, ...] = (2, 10, 50)
    width: int = 10

    @classmethod
    def small(cls) -> "Sizes":
        """Return a toy size, whose figures mean nothing."""
        return cls(3_000, 20_000, 512, 1_000, 13, 20_000, (2,), 2)


@functools.cache
def script(name: str) -> Any:
    """Return what another script of this folder defines."""
    return runpy.run_path(str(HERE / f"{name}.py"), run_name=name)


def descent(sizes: Sizes) -> list[Row]:
    rows = []
    kernel = script("sgd_kernel")
    for columns in sizes.columns:
        rng = np.random.default_rng(columns)
        X = rng.normal(size=(sizes.records, columns))
        y = np.where(rng.random(sizes.records) < 0.5, -1.0, 1.0)
        release = sd.Release(sd.GaussianMechanism.from_scale(0.5), sd.RandomizedResponse(epsilon=1.0))
        corrected = sd.debias(sd.losses.exponential(), release)
        options = {"step_size": kernel["STEP"], "batch_size": kernel["BATCH"], "l2": kernel["L2"], "random_state": 0}

        def fit(order: str, corrected: Any = corrected, X: Any = X, y: Any = y, options: Any = options) -> object:
            return sd.sgd(corrected, X, y, order=order, **options)

        what = f"`sgd`, {sizes.records:,} records, {columns} columns"
        # Two columns of a million records stand in a third-level cache, where to read them is no measure.
        limits = {2: (None, None), 10: (2.5, 3.5)}.get(columns, (2.5, 2.5))
        rows += [
            Row(f"{what}, {how}", "read the data once", functools.partial(fit, order), X.sum, limit)
            for (how, order), limit in zip((("order given", "given"), ("shuffled", "shuffled")), limits, strict=True)
        ]
        if columns <= 10:
            loop = functools.partial(kernel["numpy_loop"], X, y, 0.25, release.target.gain)
            classifier = SGDClassifier(max_iter=1, tol=None, random_state=0)
            rows += [
                Row(f"{what}, order given", "loop in NumPy", functools.partial(fit, "given"), loop, 1 / 20),
                Row(f"{what}, shuffled", "scikit-learn SGDClassifier", functools.partial(fit, "shuffled"),
                    functools.partial(classifier.fit, X, y), 1 / 20),
                # After so long a loop data have left the caches: what no solver that reads them can be below.
                Row(f"read the data once, {sizes.records:,} records, {columns} columns", "loop in NumPy",
                    X.sum, loop, None),
            ]  # fmt: skip
            by_waves = sd.debias(sd.losses.logistic(), release, radius=3.0, score_variance=0.3, n=sizes.records)
            assert by_waves.design.waves == 12
            rows += [
                Row(f"{what}, order {order}, log loss of 12 waves", "exponential loss",
                    functools.partial(fit, order, by_waves), functools.partial(fit, order), 2.0)
                for order in ("given", "shuffled")
            ]  # fmt: skip
    return rows


def estimation(sizes: Sizes) -> list[Row]:
    columns = sizes.width
    _, table = script("m_estimation")["problems"](sizes.records, columns)
    rows = []
    passes: dict[str, Callable[[], object]] = {}
    for name, limit in (
        ("exponential, l2 1", 1.5), ("log loss, noised labels", 1.5), ("probit, noised labels", 1.5),
        ("log loss, surrogate", 2.5),
    ):  # fmt: skip
        corrected, X, y, _ = table[name]
        fit = sd.m_estimate(corrected, X, y, l2=1.0)
        records = fit.corrected.records(X, y)
        derivatives = records.derivatives()
        passes[name] = functools.partial(derivatives, fit.theta)
        rows.append(
            Row(f"gradient and Hessian, {name}", "`X.T @ X`", passes[name], functools.partial(product, X), limit)
        )
    for name, (corrected, X, y, l2) in table.items():
        solve = functools.partial(sd.m_estimate, corrected, X, y, l2=l2)
        if name in passes:
            rows.append(Row(f"`m_estimate`, {name}", "a pass of its gradient and Hessian", solve, passes[name], 6.0))
    plain = LogisticRegression(C=math.inf, fit_intercept=False)
    for name in ("log loss, noised labels", "log loss, surrogate"):
        corrected, X, y, _ = table[name]
        solve = functools.partial(sd.m_estimate, corrected, X, y)
        peer = "scikit-learn LogisticRegression, uncorrected"
        rows.append(Row(f"`m_estimate`, {name}", peer, solve, functools.partial(plain.fit, X, y), 1 / 3))
        if importlib.util.find_spec("statsmodels") is not None:
            logit = functools.partial(logit_of, X, y)
            rows.append(Row(f"`m_estimate`, {name}", "statsmodels Logit, uncorrected", solve, logit, 1 / 20))
    return rows


def logit_of(X: np.ndarray, y: np.ndarray) -> object:
    """Return the covariance of statsmodels' fit."""
    return importlib.import_module("statsmodels.api").Logit((y + 1) / 2, X).fit(disp=0).cov_params()


def product(X: np.ndarray) -> np.ndarray:
    return X.T @ X


def noise(sizes: Sizes) -> list[Row]:
    count = sizes.draws
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.3, 0.3, (count // 10, 10))
    release = sd.Release(sd.GaussianMechanism(5.0, 1e-5, 1.0))
    coins = sd.RandomizedResponse(1.0)
    labels = np.where(rng.random(count) < 0.5, -1.0, 1.0)
    hardened = functools.partial(release.privatize, X)
    plain = functools.partial(release.privatize, X, random_state=0)
    mechanism = release.groups[0][1]
    inside, source = mechanism.clip(X), sampling.source(None)
    sampler = functools.partial(mechanism.add_noise, inside, source)
    return [
        Row("`privatize`, normal noise, hardened", "its sampler alone", hardened, sampler, 1 / 0.8),
        Row("`privatize`, normal noise, seeded", "NumPy's normal draws", plain,
            functools.partial(rng.standard_normal, X.shape), None),
        Row("randomized response, hardened", "NumPy's uniform draws", functools.partial(coins.privatize, labels),
            functools.partial(rng.random, count), None),
    ]  # fmt: skip


def smoothing(sizes: Sizes) -> list[Row]:
    module = script("smoothing")
    v = np.random.default_rng(0).normal(size=sizes.smoothed)
    values = module["spectrum"](len(v), 3.0)
    name = f"Laplacian smoothing of {sizes.smoothed:,} numbers"
    # Single calls are short against the clock's tick.
    times = range(20)
    return [
        Row(name, "SciPy's Fourier transform", lambda: [sd.laplacian_smoothing(v, 3.0) for _ in times],
            lambda: [module["by_fourier"](v, values) for _ in times], None),
    ]  # fmt: skip


def private(sizes: Sizes) -> list[Row]:
    module = script("dp_lssgd")
    X, y = module["problem"](sizes.private, 784 if sizes.private > 1_000 else 16)
    ours = functools.partial(module["ours"], X, y, 0.0, 1)
    fit = ours()
    scale = fit.diagnostics["noise_multiplier"] * module["CLIP"]
    source = sampling.source(0)
    steps = fit.diagnostics["steps"]
    run = module["numpy_loop"](X, y, 0.0, scale, module["BATCH"] / len(X), source, steps)
    start = np.zeros((module["CLASSES"], X.shape[1] + 1))
    return [Row("an epoch of private training", "loop in NumPy", ours, lambda: run(steps, start), None)]


def labels(sizes: Sizes) -> list[Row]:
    module = script("label_randomizers")
    names, prior = np.arange(1.0, 53.0), np.full(52, 1 / 52)
    outputs = module["mesh"](names, 1.0, sizes.outputs)
    return [
        Row(f"optimal randomizer, 52 labels, {sizes.outputs} outputs", "the published linear programme",
            lambda: module["ours"](names, prior, 1.0, outputs, 1),
            lambda: module["pairwise"](names, prior, 1.0, outputs, 300.0), None),
    ]  # fmt: skip


def stored(sizes: Sizes, folder: Path) -> list[Row]:
    module = script("larger_than_memory")
    path = folder / "released.parquet"
    module["write"](path, sizes.stored, 10)
    peer = "a bare read of the file"
    return [
        Row(f"{name}, {sizes.stored:,} records in Parquet", peer, functools.partial(module["WORK"][name], path, 10),
            functools.partial(module["bare_read"], path, 10), None)
        for name in ("m_estimate, exponential", "sgd, exponential, one pass")
    ]  # fmt: skip


def partitions(sizes: Sizes) -> list[Row]:
    module = script("many_machines")
    X, y = module["drawn"](sizes.records, 10)
    parts = module["partitioned"](X, y, 20)
    corrected = module["corrected_for"]("exponential")
    return [
        Row("`distributed.m_estimate`, 20 partitions", "`m_estimate`",
            functools.partial(sd.distributed.m_estimate, corrected, *parts),
            functools.partial(sd.m_estimate, corrected, X, y), None),
    ]  # fmt: skip


GROUPS = {
    "descent": descent, "estimation": estimation, "noise": noise, "smoothing": smoothing, "private": private,
    "labels": labels, "stored": stored, "partitions": partitions,
}  # fmt: skip


def timed(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def medians(row: Row, repeats: int) -> tuple[float, float, float]:
    """Return the medians of both times in seconds, and that of their ratio."""
    row.ours(), row.theirs()  # compile, and warm the caches
    pairs = np.array([(timed(row.ours), timed(row.theirs)) for _ in range(repeats)])
    pairs = np.maximum(pairs, 1e-9)
    ours, theirs = np.median(pairs, axis=0)
    return float(ours), float(theirs), float(np.median(pairs[:, 0] / pairs[:, 1]))


def shown(seconds: float) -> str:
    return f"{1e3 * seconds:,.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def held(ratio: float, limit: float | None, *, is_small: bool) -> str:
    """Return a limit, and whether it is missed."""
    return "" if limit is None else f"{limit:.3g}" + ("" if ratio <= limit or is_small else ", missed")


def line(row: Row, repeats: int, *, is_small: bool) -> str:
    ours, theirs, ratio = medians(row, repeats)
    limit = held(ratio, row.limit, is_small=is_small)
    return f"| {row.what} | {shown(ours)} | {row.peer}: {shown(theirs)} | {ratio:.2g} | {limit} |"


def imports(*, is_small: bool) -> str:
    """Return the row of the import, which takes processes of its own."""
    module = script("start_up")
    if is_small:
        module["import_seconds"].__globals__["PROCESSES"] = 1
    with tempfile.TemporaryDirectory() as folder:
        bare, own = module["import_seconds"](folder).values()
    said = held(own / bare, 1.25, is_small=is_small)
    ratio = f"{own / bare:.3g}"
    return f"| `import symdebias` | {shown(own)} | SymPy, Numba, scipy.optimize: {shown(bare)} | {ratio} | {said} |"


def machine() -> str:
    """Return the name of the processor, and the versions of what took part."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [one.partition(":")[2].strip() for one in info.read_text().splitlines() if one.startswith("model name")]
        name = names[0] if names else name
    versions = ", ".join(
        f"{package} {importlib.metadata.version(package)}"
        for package in PACKAGES
        if importlib.util.find_spec(package.replace("scikit-learn", "sklearn")) is not None
    )
    return f"{name}, {os.cpu_count()} processors; Python {platform.python_version()}, {versions}"


def table(sizes: Sizes, repeats: int, only: list[str] | None) -> str:
    is_small = sizes == Sizes.small()
    lines = ["| what | ours | peer | ratio | limit |", "|---|---:|---:|---:|---|"]
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(1))
        stack.enter_context(dask.config.set(scheduler="synchronous"))
        stack.enter_context(warnings.catch_warnings())
        # One pass has not converged: that is what is asked for.
        warnings.simplefilter("ignore")
        threads = numba.get_num_threads()
        stack.callback(numba.set_num_threads, threads)
        numba.set_num_threads(1)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, rows in GROUPS.items():
            if only and name not in only:
                continue
            for row in rows(sizes, folder) if name == "stored" else rows(sizes):  # type: ignore[operator]
                lines.append(line(row, repeats, is_small=is_small))
                print(lines[-1], flush=True)
    if not only or "imports" in only:
        lines.append(imports(is_small=is_small))
        print(lines[-1], flush=True)
    return "\n".join([*lines, "", f"Medians of {repeats}. {machine()}."])


def around(page: Path) -> tuple[str, str]:
    """Return what stands before a page's table and after it; or end with what is wrong with the page."""
    try:
        before, mark, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SystemExit(
            f"{page} cannot be read: {reason}. Give the page that holds the table, such as docs/benchmarks.md."
        ) from None
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise SystemExit(f"{page} has no place for the table. Put two lines where it is to stand: {BEGIN} and {END}.")
    if not os.access(page, os.W_OK):
        raise SystemExit(f"{page} cannot be written to. Change its permissions, or give another page.")
    return before, after


def written(page: Path, text: str) -> None:
    """Put a table into a page, between its marks."""
    before, after = around(page)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a toy size, whose figures mean nothing")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=[*GROUPS, "imports"])
    parser.add_argument("--write", type=Path, metavar="PAGE")
    options = parser.parse_args()
    if options.write:
        # Before minutes of timing, not after.
        around(options.write)
    text = table(Sizes.small() if options.small else Sizes(), options.repeats, options.only)
    print(text.splitlines()[-1])
    if options.write:
        written(options.write, text)


if __name__ == "__main__":
    main()
