"""Compile generated modules, and keep the machine code in the folder of their user.

Numba's own disk cache is pickled: whoever can write into it runs code in this process, and a truncated or
flipped file crashes it. So an entry is a folder of its own that is built aside and renamed into place whole;
it is opened only if its manifest is signed by this user (`symdebias.codegen.folder`), every file in it is
listed there with its SHA-256, the source is the one that was just generated, and the loaded kernel repeats a
known answer. Anything else is deleted, compiled again, and said in one warning.
"""

import contextlib
import functools
import hashlib
import json
import linecache
import math
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

from symdebias._forks import LockOfThreads
from symdebias._garbage import uncollected
from symdebias._progress import is_looked_at
from symdebias.codegen import direct
from symdebias.codegen.folder import (
    ASIDE,
    LARGEST_FILE,
    cache_folder,
    own_key,
    reason_to_distrust,
    signed,
    sweep,
    trusted,
    verified,
    warn_without_folder,
)

# A terminal is told of compilations after so many seconds, and anew where so many have passed since the last one.
_PATIENCE, _PAUSE = 2.0, 10.0
_MANIFEST = "manifest.json"
# Part of every key. It is raised when helpers are named otherwise or an entry holds other files, so that what an older
# version has kept is left alone and not taken for damage.
_LAYOUT = 5
# Answers agree to this much of the largest number in them.
_SAME = 1e-12
_THREADS = LockOfThreads(is_reentrant=True)


@dataclass(frozen=True)
class KernelSource:
    """One generated function, before it is compiled."""

    name: str  # What the function computes.
    text: str  # The module, in which the function is called ``kernel``.
    signature: Any  # The Numba signature that it is compiled for, and no other.
    fastmath: tuple[str, ...]  # The freedoms that the compiler has with floating-point arithmetic.
    # Takes the compiled function, calls it on fixed inputs and returns its answer as floats.
    probe: Callable[[Callable[..., Any]], Sequence[float]]
    # Whether its arithmetic is written directly (`direct`), or all of it by Numba, operation by operation.
    is_direct: bool = True

    @functools.cached_property
    def key(self) -> str:
        """Hash of all that decides an entry: its layout, source, signature, arithmetic, compilers and CPU."""
        how = (str(self.signature), *self.fastmath, direct.digest() if self.is_direct else "")
        parts = (str(_LAYOUT), self.name, self.text, *how, *_machine())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def compile_kernel(source: KernelSource) -> Callable[..., Any]:
    """Compile a kernel with exactly one signature, or load it from the cache folder; `plain_kernel` is its twin.

    Warns
    -----
    CacheWarning
        The cache folder cannot be used, or an entry in it was damaged. The kernel is compiled anyway.

    Notes
    -----
    The folder is ``$SYMDEBIAS_CACHE``, or ``symdebias`` in the user's cache folder;
    ``SYMDEBIAS_CACHE=off`` keeps nothing on disk.
    """
    with _THREADS.lock:
        return _compile(source.key, source)


def plain_kernel(source: KernelSource) -> Callable[..., Any]:
    """Return a kernel as plain Python, the twin that tests and readers hold the compiled one against.

    The compiled function's ``py_func`` is no such twin: what it calls can be called from compiled code only.

    Parameters
    ----------
    source : KernelSource
        What not to compile.
    """
    with _THREADS.lock:
        before, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, True
        try:
            return _execute(f"<plain symdebias kernel {_function_name(source)}>", source, keep=False)
        finally:
            numba.config.DISABLE_JIT = before


_compiled: dict[str, Callable[..., Any]] = {}


class _Waiting:
    """What somebody at a terminal is told who waits for a compilation: one line, after two seconds."""

    def __init__(self) -> None:
        self.built = 0  # How many kernels were compiled, and not loaded.
        # Seconds of the compilations that followed each other until now, when the last ended, and whether it was said.
        self.spent, self.ended, self.said = 0.0, -math.inf, False

    @contextlib.contextmanager
    def compiling(self, *, kept: bool) -> Iterator[None]:
        """Count a compilation, and say so where it takes long; `kept` is whether later processes load what it makes."""
        began = time.monotonic()
        if began - self.ended > _PAUSE:
            self.spent, self.said = 0.0, False
        timer = threading.Timer(max(_PATIENCE - self.spent, 0.0), self._say, (kept,))
        timer.daemon = True
        if not self.said and is_looked_at():
            timer.start()
        try:
            with uncollected():
                yield
        finally:
            timer.cancel()
            self.ended = time.monotonic()
            self.spent += self.ended - began
        self.built += 1

    def _say(self, kept: bool) -> None:
        self.said = True
        once = "once for this loss, its noise and this number of columns" if kept else "for this process alone"
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"symdebias: compiling, {once} ...\n")
            sys.stderr.flush()


_waiting = _Waiting()


def built() -> int:
    """Return how many kernels this process has compiled so far, and not loaded from the folder."""
    return _waiting.built


def _compile(key: str, source: KernelSource) -> Callable[..., Any]:
    if key not in _compiled:
        # Where nothing is compiled there is nothing to keep, and entries of other processes are not touched.
        folder = None if numba.config.DISABLE_JIT else cache_folder()
        kernel = None
        if folder is not None:
            try:
                kernel = _from_folder(folder, source)
            except OSError as error:
                warn_without_folder(f"the cache folder {folder} could not be used ({error.strerror or error})")
        if kernel is None:
            with _waiting.compiling(kept=False):
                kernel = _in_memory(source)
        _compiled[key] = kernel
    return _compiled[key]


@functools.cache
def _machine() -> tuple[str, ...]:
    from_llvm = llvmlite.binding
    return (
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        platform.python_version(),
        platform.machine(),
        from_llvm.get_host_cpu_name(),
        from_llvm.get_host_cpu_features().flatten(),
    )


def _from_folder(folder: Path, source: KernelSource) -> Callable[..., Any]:
    entry = folder / source.key
    key = own_key(folder)
    kernel: Callable[..., Any] | None = trusted(
        entry, lambda: _load(entry, source, key), ("a compiled kernel", "compiled again")
    )
    if kernel is not None:
        return kernel
    sweep(folder)
    with _waiting.compiling(kept=True):
        return _build(folder, entry, source, key)


def _load(entry: Path, source: KernelSource, key: bytes) -> Callable[..., Any] | None:
    """Return the kernel of an entry, or None where anything about the entry is not as it was built."""
    try:
        manifest = _verified_manifest(entry, source, key)
        if manifest is None:
            return None
        kernel, from_disk = _compiled_at(entry / "kernel.py", source)
    except Exception:
        # Whatever a damaged file makes the loader raise, the answer is the same: build it again.
        return None
    if not from_disk or not _agree(_answer(source, kernel), manifest["answer"]):
        return None
    return kernel


def _verified_manifest(entry: Path, source: KernelSource, key: bytes) -> dict[str, Any] | None:
    folders = [entry, entry / "__pycache__"]
    if any(reason_to_distrust(path) for path in folders):
        return None
    files = [path for folder in folders for path in folder.iterdir() if path not in folders]
    if any(reason_to_distrust(path) or path.stat().st_size > LARGEST_FILE for path in files):
        return None
    manifest = verified(json.loads((entry / _MANIFEST).read_bytes()), entry.name, key)
    if manifest is None:
        return None
    found = {str(path.relative_to(entry)): _digest(path) for path in files if path.name != _MANIFEST}
    whole = found == manifest["files"] and (entry / "kernel.py").read_text() == _module_text(source)
    return manifest if whole else None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _build(folder: Path, entry: Path, source: KernelSource, key: bytes) -> Callable[..., Any]:
    aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=folder))
    try:
        path = aside / "kernel.py"
        path.write_text(_module_text(source))
        (aside / "__pycache__").mkdir(mode=0o700)
        kernel, _ = _compiled_at(path, source)
        files = [path, *(aside / "__pycache__").iterdir()]
        manifest = {
            "files": {str(file.relative_to(aside)): _digest(file) for file in files},
            "answer": _answer(source, kernel),
        }
        (aside / _MANIFEST).write_text(json.dumps(signed(manifest, entry.name, key)))
        for file in (*files, aside / _MANIFEST):
            with file.open("rb+") as stream:
                os.fsync(stream.fileno())
        # Where another process was faster its entry stays: both are whole. So does this process's kernel.
        with contextlib.suppress(OSError):
            aside.rename(entry)
        return kernel
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _answer(source: KernelSource, kernel: Callable[..., Any]) -> list[str]:
    return [float(value).hex() for value in source.probe(kernel)]


def _agree(first: list[str], second: list[str]) -> bool:
    """Whether two answers are the same to rounding.

    A process that has just compiled a kernel may call its helpers from where they were first compiled, and one that
    reads it from disk those that were optimised within it: the last bit of a sum may differ.
    """
    mine, theirs = ([float.fromhex(value) for value in answer] for answer in (first, second))
    largest = max((abs(value) for value in theirs if math.isfinite(value)), default=0.0)
    return len(mine) == len(theirs) and all(
        math.isclose(a, b, rel_tol=_SAME, abs_tol=_SAME * largest) or (math.isnan(a) and math.isnan(b))
        for a, b in zip(mine, theirs, strict=True)
    )


def _module_text(source: KernelSource) -> str:
    # The hash belongs in the function's name: Numba has confused functions of equal names.
    return source.text.replace("def kernel(", f"def {_function_name(source)}(")


def _function_name(source: KernelSource) -> str:
    return f"{source.name}_{source.key}"


def _compiled_at(path: Path, source: KernelSource) -> tuple[Callable[..., Any], bool]:
    """Compile the module at a path with Numba's cache beside it; say whether the code came from there."""
    function = _execute(str(path), source)
    with _cache_in_tree():
        kernel = _njit(source, function, cache=True)
    return kernel, bool(kernel.stats.cache_hits)


def _in_memory(source: KernelSource) -> Callable[..., Any]:
    path = f"<symdebias kernel {_function_name(source)}>"
    text = _module_text(source)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    function = _execute(path, source)
    kernel: Callable[..., Any] = _njit(source, function, cache=False)
    return kernel


def _njit(source: KernelSource, function: Any, *, cache: bool) -> Any:
    # Nobody calls a kernel from C; the wrapper for it would take time to compile.
    return numba.njit(
        source.signature, cache=cache, fastmath=set(source.fastmath), nogil=True, error_model="numpy",
        no_cfunc_wrapper=True, **_counting(function.__code__),
    )(function)  # fmt: skip


# What asks for memory in the code of kernels.
_ASKING = frozenset(("array", "copy", "empty", "empty_like", "full", "ones", "zeros", "zeros_like"))


def _counting(code: types.CodeType) -> dict[str, bool]:
    """Return the option of counting references to arrays, which a function that makes none needs not."""
    return {"_nrt": bool(_ASKING & set(code.co_names))}


_helpers: dict[str, Dispatcher] = {}
_hashes: dict[Dispatcher, str] = {}


def _shared(
    helper: Dispatcher, names: dict[str, Any], fastmath: tuple[str, ...], identity: Callable[[Any], tuple[str, ...]]
) -> Dispatcher:
    """Return the one compiled function of this process for a helper: kernels of one loss have most of theirs in common.

    Each has a module of its own, named for all that it is made of. So what Numba keeps of it in the entry of a kernel
    finds that module in whatever process the entry is read, as the kernel's own text makes it.
    """
    code = helper.py_func.__code__
    options = {name: value for name, value in helper.targetoptions.items() if name != "nopython"}
    options |= _counting(code)
    used = {name: names[name] for name in code.co_names if name in names}
    # A helper without arithmetic of its own takes over its caller's.
    parts = [*fastmath, code.co_name, code.co_code.hex(), repr(code.co_consts), repr(code.co_varnames)]
    parts += [
        repr(code.co_names),
        *(f"{name} {sorted(value) if isinstance(value, set) else value}" for name, value in options.items()),
    ]
    for name, value in used.items():
        parts += [name, *identity(value)]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    if key not in _helpers:
        module = types.ModuleType(f"symdebias_helper_{key}")
        vars(module).update(used)
        module.__file__ = names["__file__"]
        sys.modules[module.__name__] = module
        own = types.FunctionType(code, vars(module), code.co_name)
        own.__module__ = module.__name__
        shared = _helpers[key] = numba.njit(**options)(own)
        _hashes[shared] = key
    return _helpers[key]


def _identity(value: Any, text: str) -> tuple[str, ...]:
    """Return what a global of a helper is, in the same words in every process and every environment.

    `text` is that of the module.
    """
    if isinstance(value, Dispatcher):
        return (_hashes[value],)
    if isinstance(value, types.ModuleType):
        # Its representation has the path that it was read from.
        return (value.__name__,)
    if (key := direct.key_of(value)) is not None:
        return (key,)
    if isinstance(value, _Intrinsic):
        # What one that is not written directly does, only the whole module says.
        return (text,)
    if isinstance(value, np.ndarray):
        return str(value.dtype), repr(value.tolist())
    if isinstance(value, (bool, int, float, str)):
        return type(value).__name__, repr(value)
    raise TypeError(f"a helper of a kernel uses {type(value).__name__} {value!r}, which has no lasting name.")


def _execute(path: str, source: KernelSource, *, keep: bool = True) -> Callable[..., Any]:
    # Numba finds the module of a cached function by name, so it must stand in sys.modules before it runs.
    name = f"symdebias_kernel_{source.key}"
    module = types.ModuleType(name)
    module.__file__ = path
    if keep:
        sys.modules[name] = module
    text = _module_text(source)
    identity = functools.partial(_identity, text=text)
    if numba.config.DISABLE_JIT or not source.is_direct:
        exec(compile(text, path, "exec"), module.__dict__)
    else:
        names, kernel = vars(module), _function_name(source)
        with uncollected():
            direct.execute(text, path, names, kernel, source.fastmath, identity)
    for helper, value in list(vars(module).items()):
        if isinstance(value, Dispatcher):
            vars(module)[helper] = _shared(value, vars(module), source.fastmath, identity)
    function: Callable[..., Any] = getattr(module, _function_name(source))
    return function


@contextlib.contextmanager
def _cache_in_tree() -> Iterator[None]:
    """Keep Numba's cache beside the source, where it is verified, whatever its own settings say."""
    names = [name for name in ("CACHE_DIR", "CACHE_LOCATOR_CLASSES") if hasattr(numba.config, name)]
    before = {name: getattr(numba.config, name) for name in names}
    try:
        for name in names:
            setattr(numba.config, name, "")
        yield
    finally:
        for name, value in before.items():
            setattr(numba.config, name, value)
