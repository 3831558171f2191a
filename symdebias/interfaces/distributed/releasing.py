"""Release true records in the partitions of a Dask collection, each noised once where it lies, and read them again."""

import contextlib
import functools
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from symdebias import _files, _optional
from symdebias._arrays import FloatArray
from symdebias._domains import check_choice
from symdebias._parquet import ParquetColumns
from symdebias._randomness import generator, spawn
from symdebias.exceptions import FormatError
from symdebias.interfaces.distributed.partitions import Partitions, dask
from symdebias.mechanisms import sampling
from symdebias.privacy import Ledger
from symdebias.release import Noised, Release, Schema
from symdebias.release import load as load_folder
from symdebias.release.card import require_readable
from symdebias.release.charging import charge_of
from symdebias.release.collecting import names_collected
from symdebias.release.folder import CARD, RECORDS
from symdebias.release.groups import Outside, report_outside
from symdebias.release.matrices import bound_to
from symdebias.release.noising import noised_records
from symdebias.release.required import require_release, required_columns
from symdebias.release.stored import released_rows

# Folders of partitions, in the order of their names.
_PART = "part-{:06d}"


def privatize(
    release: Release | Schema,
    X: Any,
    y: Any = None,
    *,
    folder: str | os.PathLike[str],
    target_name: str | None = None,
    labels: Sequence[Any] | None = None,
    outside: str = "clip",
    random_state: int | np.random.Generator | None = None,
    ledger: Ledger | None = None,
) -> Noised:
    """Noise true records partition by partition, once, into a folder that every worker reaches.

    Parameters
    ----------
    release : Release or Schema
        With the names of its columns, or a data frame's are taken. Of a schema records are collected partition by
        partition, as `symdebias.Schema.collect` does (missing values filled, texts recoded, other columns left out),
        and released by ``Release.from_schema(schema)``; it names the target and its labels.
    X : data frame or array of Dask
        True records; for a schema a data frame, with the column of the target.
    y : series or array of Dask, optional
        True targets, in the same partitions; required if the release noises the target.
    folder : path
        As for `symdebias.release.Noised.save`: it appears whole or not at all. It has a folder in Parquet for each
        partition that has records, which `symdebias.load` reads as well.
    target_name, labels
        As for `symdebias.release.Noised.save`.
    outside : {"clip", "clip-all", "refuse"}
        As for `symdebias.Release.privatize`, for the records of all partitions together.
    random_state : int, numpy.random.Generator or None
        None draws on the operating system of each worker. With a seed, which carries no guarantee, partition k draws
        from the k-th generator that the seed's spawns.
    ledger : Ledger, optional
        Where the release is counted, once, before noise is drawn.

    Returns
    -------
    Noised
        What `load` says of the folder.

    Raises
    ------
    TypeError, ValueError
        The data do not fit; nothing was noised or counted.
    PrivacyError, OSError
        The ledger refuses the release, or cannot be written to; nothing was noised.
    FileExistsError
        Something is at that place.
    MissingDependencyError
        Dask or pyarrow is not installed.

    Warns
    -----
    ClippingWarning
        Records were clipped, counted over all partitions.

    Notes
    -----
    **Why to a folder.** A collection of Dask is computed anew whenever it is asked for. Noise that were part of it
    would be drawn anew each time, and each time the records were released again, at the price of another budget. So a
    partition is noised into a file that stays. A task that is run again, because its worker died, draws only where the
    file of its partition is not there yet, and what a worker had drawn before it died was never handed out.

    **What it costs.** Each record stands in one partition and goes through the mechanisms once, with noise of its own,
    so that all that is released of a record comes from one run of the release on it. The joint law of what is released
    is the product over records, in which a changed record changes one factor: its ratio is that of the release itself,
    however many partitions there are (McSherry 2009, Theorem 4, for disjoint parts; for local privacy it is the
    definition, Kasiviswanathan et al. 2011). So ``release.guarantee`` is that of all partitions
    together, and the ledger counts it once. A record that stands in two partitions is released twice.

    The records are read twice: to check and count them, and to noise them.

    References
    ----------
    McSherry 2009 (SIGMOD), Theorem 4; Kasiviswanathan, Lee, Nissim, Raskhodnikova & Smith 2011 (SIAM Journal on
    Computing 40).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import dask.array as da, symdebias as sd
    >>> release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))}, sd.RandomizedResponse(1.0))
    >>> ages = da.linspace(20, 80, 3_000, chunks=1_000)
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "released"
    >>> noised = sd.distributed.privatize(release, ages[:, None], da.sign(ages - 50), folder=place)
    >>> noised.X.shape, noised.y.numblocks, print(noised.guarantee)
    (2, 0)-differential privacy (local, replace-one)
    ((3000, 1), (3,), None)
    """
    schema: Schema | None = None
    if isinstance(release, Schema):
        schema = release
        release, X, target_name, labels = _of_schema(schema, X, y, target_name, labels)
    require_release(release)
    check_choice("outside", outside, ("clip", "clip-all", "refuse"))
    has_target = y is not None if schema is None else schema.target is not None
    if not has_target and not (release.target is None and release.coupling is None):
        raise ValueError(
            "the release noises the target, but y was not given. Pass y, or declare a release with target=None."
        )
    _optional.require("pyarrow", extra="parquet")
    source = sampling.source(random_state)
    partitions = Partitions(X=X, y=y)
    if release.columns is None and hasattr(X, "_meta_nonempty"):
        release = bound_to(release, X._meta_nonempty)
    required_columns(release)
    require_readable(release.groups, release.target)
    charge = charge_of(release, ledger, source, has_target=has_target, keep_index=False)
    _files.require_free(folder)
    said = partitions.first(functools.partial(_looked_at, release=release, schema=schema))
    full = [place for place, one in enumerate(said) if one is not None]
    if not full:
        raise ValueError("X has no records in any partition. Pass a collection with at least one.")
    found = Outside.together([said[place] for place in full])
    report_outside(found, outside)
    charge(found.records)
    place = Path(os.path.realpath(folder))
    aside = place.with_name(f".{place.name}-{secrets.token_hex(8)}")
    aside.mkdir()
    try:
        streams = [None] * len(full) if random_state is None else spawn(generator(random_state), len(full))
        write = functools.partial(
            _written, release=release, folder=aside, target_name=target_name, labels=labels, schema=schema,
        )  # fmt: skip
        partitions.only(full).each(write, list(enumerate(streams)))
        _files.move_folder(aside, place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _files.keep_name(place)
    return load(place)


def load(folder: str | os.PathLike[str]) -> Noised:
    """Read a folder that `privatize` wrote, as arrays of Dask whose partitions are read where they are asked for.

    Parameters
    ----------
    folder : path
        The folder, which every worker reaches by this name.

    Returns
    -------
    Noised
        ``X`` is an array of Dask of shape (n, p), columns in the order of the release, with codes in place of
        categories; ``y`` one of shape (n,), or None.

    Raises
    ------
    FormatError
        It is no such folder, or a part of it is damaged; also a ValueError.
    FileNotFoundError
        There is nothing at that place.
    MissingDependencyError
        Dask or pyarrow is not installed.

    Notes
    -----
    The files are read through once, by all workers, to hold them against their digests. A part that is missing at the
    end is not noticed: compare the number of records with that of the collector.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import dask.array as da, symdebias as sd
    >>> release = sd.Release({"age": sd.LaplaceMechanism(1.0, bounds=(0, 90))})
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "released"
    >>> _ = sd.distributed.privatize(release, da.full((50, 1), 40.0, chunks=20), folder=place)
    >>> noised = sd.distributed.load(place)
    >>> noised.X.chunks, noised.release == release
    (((20, 20, 10), (1,)), True)
    """
    array = _optional.require("dask.array", extra="dask")
    delayed = dask().delayed
    place = _files.path_of(folder)
    if not place.exists():
        raise FileNotFoundError(f"{place} is not there. Name the folder that privatize wrote.")
    paths = sorted(one for one in place.iterdir() if one.is_dir()) if place.is_dir() else []
    expected = [_PART.format(number) for number in range(len(paths))]
    if not paths or [one.name for one in paths] != expected:
        raise FormatError(
            f"{place} does not have the folders {_PART.format(0)}, {_PART.format(1)}, ... of a released collection. "
            "Ask for the whole folder that privatize wrote."
        )
    first = load_folder(paths[0], in_memory=False)
    card = (paths[0] / CARD).read_bytes()
    counts = dask().compute(*(delayed(_verified, pure=False)(str(path), card) for path in paths))
    target = None if first.y is None else first.target_name

    def blocks(width: tuple[int, ...], of_target: bool) -> Any:
        read = functools.partial(_read, card=card, target=target, of_target=of_target)
        parts = [
            array.from_delayed(delayed(read, pure=False)(str(path)), (count, *width), dtype=np.float64)
            for path, count in zip(paths, counts, strict=True)
        ]
        return array.concatenate(parts)

    X, y = blocks(first.X.shape[1:], False), None if target is None else blocks((), True)
    return replace(first, X=X, y=y)


class _Stop(Exception):
    """What ends a look at a partition before anything is drawn."""

    def __init__(self, found: Outside) -> None:
        super().__init__()
        self.found = found


def _stop(found: Outside) -> None:
    raise _Stop(found)


def _of_schema(schema: Schema, X: Any, y: Any, target_name: str | None, labels: Any) -> tuple[Release, Any, Any, Any]:
    """Return the release of a schema, the columns that it collects, and the name and the labels of its target."""
    if y is not None or labels is not None:
        raise TypeError(
            "y= and labels= stand in the schema, as [target] with a name and categories. Leave them out, and pass a "
            "data frame that has the column of the target."
        )
    names = names_collected(schema)
    if dask().is_dask_collection(X):
        if not hasattr(X, "_meta_nonempty") or getattr(X, "ndim", 0) != 2:
            raise TypeError(
                f"X is a {type(X).__name__} of Dask, and a schema collects data frames with the columns "
                f"{', '.join(names)}. Pass one, or pass Release.from_schema(schema), X and y."
            )
        missing = [name for name in names if name not in X.columns]
        if missing:
            raise ValueError(
                f"X has no column named {', '.join(missing)}. Name them as the schema does: {', '.join(names)}."
            )
        X = X[names]
    if target_name is None and schema.target is not None:
        target_name = schema.target.name
    return Release.from_schema(schema), X, target_name, schema.labels


def _looked_at(X: Any, y: Any, *, release: Release, schema: Schema | None) -> Outside | None:
    """Check the records of a partition, and return how many lie outside the bounds; None where there are none."""
    if not len(X):
        return None
    if schema is not None:
        X, y = schema.collect(X)
    try:
        noised_records(release, X, y, sampling.source(None), _stop)
    except _Stop as stopped:
        return stopped.found
    raise AssertionError("records were noised that were only to be looked at")


def _written(
    X: Any, y: Any, number: int, stream: np.random.Generator | None, *,
    release: Release, folder: Path, target_name: str | None, labels: Sequence[Any] | None, schema: Schema | None = None,
) -> None:  # fmt: skip
    """Noise the records of a partition into a folder of their own, where that is not there yet."""
    place = folder / _PART.format(number)
    if place.exists():
        return
    if schema is not None:
        X, y = schema.collect(X)
    noised = noised_records(release, X, y, sampling.source(stream), _ignored)
    # Another run of this task may have been faster, and then its noise is what is released.
    with contextlib.suppress(FileExistsError):
        noised.save(place, format="parquet", target_name=target_name, labels=labels)


def _ignored(found: Outside) -> None:
    """Say nothing of records outside the bounds, of which all partitions together were told."""


def _verified(path: str, card: bytes) -> int:
    """Return the number of records of a part that is whole and of the same release as the first."""
    if (Path(path) / CARD).read_bytes() != card:
        raise FormatError(f"{path} was released by another release than the first part. Take each release by itself.")
    return len(load_folder(path, in_memory=False).X)


def _read(path: str, *, card: bytes, target: str | None, of_target: bool) -> FloatArray:
    """Return the features or the targets of a part."""
    stored = ParquetColumns([Path(path) / RECORDS["parquet"]])
    X, y = released_rows(stored, Release.from_json(card.decode()), target)
    rows = y if of_target else X
    assert rows is not None
    return rows[:]
