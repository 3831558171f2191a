"""A column without noise as a known term of the score: what --offset and --exposure name."""

import argparse
from dataclasses import dataclass, replace

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import shown
from symdebias.interfaces.cli.per_record import columns_without_noise, damaged, is_by_name, not_protected
from symdebias.losses import Loss
from symdebias.losses.offsets import has_rate
from symdebias.release import Noised, Release
from symdebias.release.choosing import apart, without
from symdebias.solvers import Fit

# Where a saved fit tells which column it took.
_KEPT = "known_term"
_OPTIONS = ("offset", "exposure")


@dataclass(frozen=True)
class KnownTerm:
    """The column of an offset.

    Attributes
    ----------
    option : {"offset", "exposure"}
        Whether the column is the offset, or an exposure, whose logarithm is.
    column : str
        Its name.
    """

    option: str
    column: str

    @classmethod
    def of(cls, options: argparse.Namespace) -> "KnownTerm | None":
        """Return what the words of a command name."""
        given = ((option, getattr(options, option)) for option in _OPTIONS)
        return next((cls(option, column) for option, column in given if column is not None), None)

    @classmethod
    def of_fit(cls, options: argparse.Namespace, fit: Fit) -> "KnownTerm | None":
        """Return the known term of a saved fit, which words may name, and have to where the fit does not.

        Raises
        ------
        ValueError
            They do not go together.
        """
        given, kept = cls.of(options), fit.diagnostics.get(_KEPT)
        if _KEPT in fit.diagnostics and (not is_by_name(kept) or len(kept) != 1 or not set(kept) <= {*_OPTIONS}):
            raise damaged(_KEPT)
        if not fit.diagnostics.get("offset"):
            if given is not None:
                raise ValueError(f"{given} is for a fit with an offset, and this one has none. Leave it out.")
            return None
        if kept is None:
            if given is None:
                raise ValueError(
                    "this fit has an offset, and does not say which column it was. Name it by --offset, or by "
                    "--exposure where the offset is its logarithm."
                )
            return given
        ((option, column),) = kept.items()
        own = cls(option, column)
        if given not in (None, own):
            raise ValueError(f"{given} is not {own}, which this fit was made with. Leave it out: the fit says it.")
        return own

    def __str__(self) -> str:
        return f"--{self.option} {shown(self.column, 60)}"

    @property
    def use(self) -> tuple[str, str]:
        """The option, and the column."""
        return f"--{self.option}", self.column

    @property
    def note(self) -> str:
        """What a reader of the fit is told of it."""
        what = "an exposure" if self.option == "exposure" else "an offset"
        return f"{self.column}: {what}, which has no parameter; released as it is, and not protected"

    @property
    def as_json(self) -> dict[str, str]:
        """What a fit keeps of it."""
        return {self.option: self.column}

    def kept(self, fit: Fit) -> Fit:
        """Return a fit that says which column its offset was."""
        return not_protected(replace(fit, diagnostics={**fit.diagnostics, _KEPT: self.as_json}), [self.column])

    def taken_out(self, noised: Noised, loss: Loss) -> tuple[Noised, FloatArray]:
        """Return the records without the column, and the offset, shape (n,).

        Raises
        ------
        ValueError, TypeError
            There is no such column without noise, it is no offset, or none is left beside it.
        """
        self.left(noised.release, loss, target=None if noised.y is None else noised.target_name)
        rest, own = apart(noised, [self.column])
        return rest, self.offset_of(own[self.column])

    def offset_of(self, values: FloatArray) -> FloatArray:
        """Return the offset of values of the column in its own units.

        Raises
        ------
        ValueError
            It is an exposure, and one is not positive.
        """
        if self.option == "offset":
            return values
        if not np.all(values > 0):
            row = int(np.argmin(values > 0))
            raise ValueError(
                f"{self} is {values[row]:.6g} in row {row}, and an exposure is positive. Leave out records that "
                "were not observed."
            )
        return np.asarray(np.log(values))

    def left(self, release: Release, loss: Loss, *, target: str | None = None) -> Release:
        """Return a release without the column, which has to be there, for records whose target has this name.

        Raises
        ------
        ValueError
            There is no such column without noise, it is no offset, or none is left beside it.
        """
        if self.option == "exposure" and not has_rate(loss):
            raise ValueError(
                f"{self} multiplies the mean exp(score) of a count, and {loss.expression} predicts another mean. Use "
                "--loss poisson, or name a column with what is known of the score by --offset."
            )
        self.require_in(release, target=target)
        if len(release.columns or ()) < 2:
            raise ValueError(f"{self} is the only column, and leaves none to fit. Fit records with another one.")
        return without(release, [self.column])

    def require_in(self, release: Release, *, target: str | None = None) -> None:
        """Raise ValueError where a release has no such column of numbers without noise."""
        numbers = [one for one in columns_without_noise(release)[0] if one != target]
        if self.column not in numbers:
            said, indicators = "no column of these records", release.categories.indicators
            if self.column == target:
                said = "the target"
            elif self.column in indicators or self.column in [name for names in indicators.values() for name in names]:
                said = "one of categories, and no number"
            elif self.column in (release.columns or ()):
                said = "a column with noise, and what is known of a record has none"
            public = ", ".join(numbers)
            others = (
                f"Name one of those without noise: {public}." if public else "No column of numbers is without noise."
            )
            raise ValueError(f"{self} is {said}. {others}")
