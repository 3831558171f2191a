"""Noised records, with the release that they came by."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from symdebias.exceptions import PrivacyError
from symdebias.privacy import Guarantee
from symdebias.privacy.guarantee import PLAIN

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
    """

    X: Any
    y: Any
    release: "Release"
    seeded: bool
    hardened: bool
    index_kept: bool = False

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the release, or None where a part is noised without a privacy claim.

        Row labels that were kept stand in its ``unprotected``; where the noise is plain, its ``basis`` says so.

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
        found = self.release.guarantee
        if found is None:
            return None
        if self.index_kept:
            found = replace(found, unprotected=(*found.unprotected, "row labels"))
        return found if self.hardened else found.with_basis(PLAIN)
