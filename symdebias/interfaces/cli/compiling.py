"""The command that compiles kernels before there are records."""

import argparse
import multiprocessing
import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from symdebias import _loss_names
from symdebias._domains import COUNT
from symdebias.codegen.folder import cache_folder
from symdebias.driver import debias
from symdebias.exceptions import SymdebiasError
from symdebias.interfaces.ahead import Compiled, compile_kernels
from symdebias.interfaces.cli import show, tell
from symdebias.interfaces.cli.cards import release_of
from symdebias.interfaces.cli.fitting import loss_of
from symdebias.interfaces.cli.known_term import KnownTerm
from symdebias.interfaces.cli.per_record import PerRecord
from symdebias.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism, RandomizedResponse
from symdebias.release import Release

# Kernels of more columns take long, and are for one release: its card says which.
_MOST_COLUMNS = 100
# Scales are arguments of kernels: these stand for all.
_KINDS: dict[str, Mechanism] = {
    "gaussian": GaussianMechanism.from_scale(1.0),
    "laplace": LaplaceMechanism.from_scale(1.0),
}


# What is compiled where no loss is named.
_USUAL = ("logistic", "least-squares", "poisson")


@dataclass(frozen=True)
class _Task:
    """The kernels of one loss at one width."""

    loss: str  # Its name in the catalogue.
    columns: int | None  # The number of columns; None where the release says it.
    release: Release
    known: frozenset[str] = frozenset()  # Which of "offset", "weights" and "noise scales" records have besides.

    def __str__(self) -> str:
        return self.loss.replace("_", "-") + ("" if self.columns is None else f", {self.columns} columns")

    def run(self) -> Compiled:
        """Compile them."""
        try:
            corrected = debias(loss_of(self.loss, self.release), self.release)
            return compile_kernels(
                corrected, self.columns, weighted="weights" in self.known, offset="offset" in self.known,
                noise_scale="noise scales" in self.known,
            )  # fmt: skip
        except (SymdebiasError, ValueError) as error:
            raise type(error)(f"{self}: {error}") from None


def compile_ahead(options: argparse.Namespace) -> None:
    """Compile the kernels of default fits into the cache folder of this user, in several processes."""
    folder = cache_folder()
    if folder is None:
        raise ValueError(
            "there is no folder to keep kernels in. Set SYMDEBIAS_CACHE to a folder of your own, and not to off."
        )
    processes = COUNT.check("--processes", (os.cpu_count() or 1) if options.processes is None else options.processes)
    names = [name.replace("-", "_") for name in options.loss or _USUAL]
    known = KnownTerm.of(options)
    given = {"offset": known is not None}
    if options.card is None:
        named = [
            f"--{name}"
            for name in ("weights", "clusters", "noise-scale")
            if getattr(options, name.replace("-", "_")) is not None
        ]
        if known is not None or named:
            raise ValueError(
                f"{known or named[0]} is a column of a card, and none was given. Name the card, or leave it out."
            )
        releases = {name: _release_for(name, options.noise or "gaussian", options.intercept) for name in names}
        widths: Sequence[int | None] = _widths("2-10" if options.columns is None else options.columns)
    else:
        if options.loss is None:
            raise ValueError("--loss was not given. Name the losses that will be fitted to this release.")
        for name in ("columns", "noise", "intercept"):
            if getattr(options, name) not in (None, False):
                raise ValueError(
                    f"--{name} and a card were both given. Leave --{name} out: the card describes the whole release."
                )
        release = release_of(options.card)
        own = PerRecord.of(options, release)
        release = own.left(release, None, None if known is None else known.column)
        given |= {"weights": "weights" in own.columns, "noise scales": bool(own.scales)}
        releases = {name: release if known is None else known.left(release, loss_of(name, release)) for name in names}
        widths = [None]
    besides = frozenset(name for name, is_given in given.items() if is_given)
    tasks = [_Task(name, width, release, besides) for name, release in releases.items() for width in widths]
    began = time.perf_counter()
    done: list[Compiled] = []
    say = (lambda _: None) if options.json else tell
    say(f"compiling {len(tasks)} kinds of fits in {min(processes, len(tasks))} processes")
    for task, found in _each(tasks, min(processes, len(tasks))):
        done.append(found)
        say(f"{len(done)} of {len(tasks)}: {task}, {found.seconds:.1f} s")
    kernels, compiled = sum(one.kernels for one in done), sum(one.compiled for one in done)
    seconds = round(time.perf_counter() - began, 1)
    if options.json:
        show({"folder": str(folder), "kernels": kernels, "compiled": compiled, "seconds": seconds})
        return
    print(f"{kernels} kernels are ready in {folder}; {compiled} of them were compiled now, in {seconds:g} s")


def _release_for(loss: str, noise: str, intercept: bool) -> Release:
    """Return a release of noise of one kind on all columns, with labels by randomized response."""
    is_label = _loss_names.CATALOGUE[loss].target == "label"
    target = RandomizedResponse(epsilon=1.0) if is_label else None
    return Release(_KINDS[noise], target, fit_intercept=intercept)


def _each(tasks: Sequence[_Task], processes: int) -> Iterator[tuple[_Task, Compiled]]:
    """Run tasks, several at a time, and yield each with what it has done, as they end."""
    if processes == 1:
        yield from ((task, task.run()) for task in tasks)
        return
    # Started anew: a process forked beside the threads of a numerical library may never end.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(task.run): task for task in tasks}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _widths(text: str) -> list[int]:
    """Return the numbers of a text such as 5, 2-10 or 2,5,20."""
    found: list[int] = []
    for part in text.split(","):
        matched = re.fullmatch(r"\s*(\d{1,6})(?:\s*-\s*(\d{1,6}))?\s*", part)
        first, last = (0, 0) if matched is None else (int(matched[1]), int(matched[2] or matched[1]))
        if not 1 <= first <= last <= _MOST_COLUMNS:
            raise ValueError(
                f"--columns {text!r:.60} are no numbers of columns from 1 to {_MOST_COLUMNS}. Write 5, 2-10 or 2,5,20."
            )
        found += range(first, last + 1)
    return list(dict.fromkeys(found))
