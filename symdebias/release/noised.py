"""Noised records, with the release that they came by."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symdebias import _arrays
from symdebias.exceptions import PrivacyError
from symdebias.mechanisms import sampling
from symdebias.privacy import Guarantee
from symdebias.privacy.guarantee import PLAIN
from symdebias.release import choosing, folder

if TYPE_CHECKING:
    from symdebias.release.release import Release


@dataclass(frozen=True, eq=False)
class Noised:
    """Noised records.

    Attributes
    ----------
    X : array of shape (n, p), float64, or table
        The noised features, in the order of ``release.columns``; those times the label for a margin release.
    y : array of shape (n,), float64, column of a table, or None
        The noised targets, as a column where a column was given; see `Release` for margin and joint ones.
    release : Release
        The release, with the names of the columns.
    seeded : bool
        Whether the noise came from a seed. The seed itself is not kept.
    hardened : bool
        Whether the noise is private as it is realised in floating point; not where it claims nothing.
    index_kept : bool
        Whether the tables have the row labels of the true records.
    target_name : str
        What the column of the target is called in a file.
    labels : tuple, or None
        What the two values -1 and +1 of the target stand for, where that is known.

    Examples
    --------
    >>> import symdebias as sd
    >>> noised = sd.Release(sd.GaussianMechanism(1.0, 1e-5, radius=1.0)).privatize([[0.3, 0.4]])
    >>> noised.X.shape, noised.y is None, noised.guarantee.epsilon
    ((1, 2), True, 1.0)
    """

    X: Any
    y: Any
    release: "Release"
    seeded: bool
    hardened: bool
    index_kept: bool = False
    target_name: str = "target"
    labels: tuple[Any, Any] | None = None

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the release, or None where a part is noised without a privacy claim.

        Row labels that were kept stand in its ``unprotected``, and a target that was not released does not; where the
        noise is plain, its ``basis`` says so.

        Raises
        ------
        PrivacyError
            The noise came from a seed: whoever knows it can subtract the noise.
        """
        if self.seeded:
            raise PrivacyError(
                "these records were noised from a seed, so that they carry no guarantee. Call privatize "
                "without random_state for data that are to be private."
            )
        found = self.release.guarantee_of(has_target=self.y is not None)
        if found is None:
            return None
        if self.index_kept:
            found = replace(found, unprotected=(*found.unprotected, "row labels"))
        return found if self.hardened else found.with_basis(PLAIN)

    def shuffled(self, *, random_state: int | np.random.Generator | None = None) -> "Noised":
        """Return these records in another order, which nobody knows.

        `Release.privatize` keeps the order of the records that it is given. Where that tells something of them, as
        that of a table which is sorted by a column or by the target, noise does not hide it: a record's place does not
        change. The guarantee is that of records whose places do not depend on them.

        Parameters
        ----------
        random_state : int, numpy.random.Generator or None
            None draws on the operating system. A seed is for simulations: it tells the order.

        Returns
        -------
        Noised
            Whoever has the true records does not know either which one a released record belongs to.

        Raises
        ------
        ValueError
            Row labels were kept, which tell the order.
        TypeError
            The records are not in memory.

        Examples
        --------
        >>> import numpy as np
        >>> import symdebias as sd
        >>> answers = np.repeat([-1.0, 1.0], 500)
        >>> noised = sd.Release(target=sd.RandomizedResponse(1.0)).privatize(np.zeros((1000, 1)), answers)
        >>> apart, mixed = (np.diff(one.y.reshape(2, 500).mean(axis=1)).item() for one in (noised, noised.shuffled()))
        >>> apart > 0.5, abs(mixed) < 0.4
        (True, True)
        """
        if self.index_kept:
            raise ValueError("row labels were kept, and tell the order. Call privatize without keep_index=True.")
        if not (isinstance(self.X, np.ndarray) or _arrays.is_table(self.X)):
            raise TypeError(
                f"the records are a {type(self.X).__name__}, and only those in memory are put in another order. "
                "Shuffle the true records before they are released."
            )
        order = sampling.permutation(len(self.X), sampling.source(random_state))
        y = None if self.y is None else _arrays.reordered(self.y, order)
        return replace(self, X=_arrays.reordered(self.X, order), y=y)

    def with_target(self, name: str, features: Sequence[str] | None = None) -> "Noised":
        """Return these records with one of their columns as the target: of several outcomes, the one to be fitted.

        Parameters
        ----------
        name : str
            The column. It has noise of its own, as columns of a `Schema` with ``outcome = true`` have, or none.
        features : sequence of str, optional
            Which others are features; by default all, other outcomes among them.

        Returns
        -------
        Noised
            Its `guarantee` is that of what a fit to it says of a record: of these columns. That of all that was
            released, by which a person's budget counts, stays with the whole.

        Raises
        ------
        ValueError, TypeError
            There is no such column, it was noised in one vector with others, or centred or scaled.

        Examples
        --------
        >>> import pandas as pd
        >>> import symdebias as sd
        >>> release = sd.Release({
        ...     "age": sd.LaplaceMechanism(2.0, bounds=(-1, 1)),
        ...     "pay": sd.LaplaceMechanism(1.0, bounds=(0, 9)),
        ...     "sick": sd.RandomizedResponse(1.0, categories=("no", "yes")),
        ... })
        >>> noised = release.privatize(pd.DataFrame({"age": [0.1, 0.7], "pay": [3.0, 5.0], "sick": ["no", "yes"]}))
        >>> pay = noised.with_target("pay")
        >>> pay.release.columns, pay.release.target.epsilon, noised.guarantee.epsilon
        (('age', 'sick'), 1.0, 4.0)
        >>> noised.with_target("sick", features=["age"]).release.columns
        ('age',)
        """
        X, y, release = choosing.chosen(self, name, features)
        return replace(self, X=X, y=y, release=release, target_name=name, labels=None)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "csv",
        target_name: str | None = None,
        labels: Sequence[Any] | None = None,
    ) -> None:
        """Write the released records and the card of their release to a new folder; `symdebias.load` reads it.

        Parameters
        ----------
        path : path
            The folder. It is not there yet, or is empty: nothing is overwritten. It appears whole or not at all.
        format : {"csv", "parquet"}
            Of the file of records. Parquet needs pyarrow, and takes less room and time.
        target_name : str, optional
            What to call the column of the target; by default the name of y, or ``"target"``.
        labels : pair, optional
            What the values -1 and +1 of the target stand for, such as `Schema.labels`, for the reader.

        Raises
        ------
        ValueError, TypeError
            A name or the format does not fit; or the release has a mechanism of one's own that cards do not know.
        FileExistsError
            Something is at that place.
        OSError
            It could not be written; nothing of it is left.
        MissingDependencyError
            Parquet was asked for, and pyarrow is not installed.

        Notes
        -----
        The folder has ``card.json`` (`Release.to_json`), the records, and ``manifest.json``, which says how they belong
        together. Numbers are written with all digits: what is read is what was released. Row labels are left out.
        """
        folder.save(self, path, format=format, target_name=target_name, labels=labels)
