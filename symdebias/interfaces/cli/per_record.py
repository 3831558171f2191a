"""Columns without noise that say something of each record: what --weights, --clusters and --noise-scale name."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np

from symdebias._arrays import FloatArray
from symdebias._domains import shown
from symdebias.exceptions import FormatError
from symdebias.noise import AdditiveNoise
from symdebias.release import Noised, Release
from symdebias.release.choosing import apart, without
from symdebias.release.columns import as_json
from symdebias.solvers import Fit
from symdebias.solvers.summary import UNPROTECTED, unprotected_besides

# Where a saved fit tells which columns it took.
_KEPT = "per_record"
# What each option is to a solver.
_ARGUMENTS = {"weights": "sample_weight", "clusters": "clusters"}
# From here on floating point skips whole numbers.
_WHOLE = 2.0**53
_MEANINGS = {"weights": "weights of records", "clusters": "which records belong together"}


def columns_without_noise(release: Release) -> tuple[list[str], list[str]]:
    """Return the columns of numbers that a release sends without noise, and those of categories."""
    indicators = release.categories.indicators
    placed = {name for names in indicators.values() for name in names}
    numbers = [name for name in release.noiseless if name not in placed]
    return numbers, [name for name, names in indicators.items() if set(names) <= set(release.noiseless)]


def not_protected(fit: Fit, columns: Sequence[str]) -> Fit:
    """Return a fit that says of columns beside its features that they were released as they are."""
    named = dict.fromkeys((*unprotected_besides(fit), *columns))
    return replace(fit, diagnostics={**fit.diagnostics, UNPROTECTED: tuple(named)})


def is_by_name(kept: Any, but: str = "") -> TypeGuard[dict[str, Any]]:
    """Return whether a saved fit has columns by names, and at least one; one entry may be something else."""
    return isinstance(kept, dict) and bool(kept) and all(isinstance(kept[name], str) for name in kept if name != but)


def damaged(entry: str) -> FormatError:
    """Return the error that a saved fit does not name its columns as fits do."""
    return FormatError(
        f'the entry "{entry}" of this fit does not name columns as symdebias fit writes it: the file was changed. Fit '
        "again, or ask for the file as it was saved."
    )


@dataclass(frozen=True)
class PerRecord:
    """The columns of weights, clusters and noise scales.

    Attributes
    ----------
    columns : dict
        The column of each of "weights" and "clusters" that was named.
    scales : dict
        The column with the standard deviations of the noise of each noised column.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    scales: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: argparse.Namespace, release: Release, scaled: Sequence[str] | None = None) -> "PerRecord":
        """Return what the words of a command name.

        Parameters
        ----------
        options : argparse.Namespace
            The words.
        release : Release
            That of the folder, with the names of all its columns.
        scaled : sequence of str, optional
            The features that may have noise scales, by default those of the release.

        Raises
        ------
        ValueError
            The words of --noise-scale are no columns, or columns with normal noise of a known scale are left out.
        """
        columns = {name: getattr(options, name) for name in _ARGUMENTS if getattr(options, name) is not None}
        words = getattr(options, "noise_scale", None)
        if words is None:
            return cls(columns)
        scaled = columns_with_known_scale(release) if scaled is None else scaled
        return cls(columns, _scales_of(words, release.columns or (), scaled))

    @classmethod
    def of_fit(
        cls, options: argparse.Namespace, fit: Fit, release: Release, scaled: Sequence[str] | None = None
    ) -> "PerRecord":
        """Return those of a saved fit, and what words name beside them; other arguments as for `of`.

        Raises
        ------
        ValueError
            They do not go together.
        """
        given, kept = cls.of(options, release, scaled), cls._kept_by(fit)
        for name, column in given.columns.items():
            if kept.columns.get(name, column) != column:
                raise ValueError(
                    f"--{name} {shown(column, 60)} is not {shown(kept.columns[name], 60)}, which this fit was made "
                    "with. Leave it out: the fit says it."
                )
        if kept.scales and given.scales and dict(kept.scales) != dict(given.scales):
            raise ValueError("--noise-scale is not that of this fit. Leave it out: the fit says it.")
        if fit.diagnostics.get("noise_scale") and not (kept.scales or given.scales):
            raise ValueError(
                "this fit was made with noise scales of the records' own, and does not say which columns have them. "
                "Name them by --noise-scale."
            )
        found = cls({**kept.columns, **given.columns}, kept.scales or given.scales)
        features = fit.corrected.release.columns or ()
        if taken := [column for column in found.named if column in features]:
            raise ValueError(
                f"{shown(taken[0], 60)} is a feature of this fit. Name another column, or fit without this one."
            )
        return found

    @classmethod
    def _kept_by(cls, fit: Fit) -> "PerRecord":
        """Return those that a saved fit names; raise FormatError where it says of them what no fit says."""
        if _KEPT not in fit.diagnostics:
            return cls()
        kept = fit.diagnostics[_KEPT]
        if not is_by_name(kept, but="noise_scale") or not set(kept) <= {*_ARGUMENTS, "noise_scale"}:
            raise damaged(_KEPT)
        scales = kept.get("noise_scale", {})
        if "noise_scale" in kept and not is_by_name(scales):
            raise damaged(_KEPT)
        return cls({name: column for name, column in kept.items() if name != "noise_scale"}, scales)

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that say something, each once."""
        return tuple(dict.fromkeys((*self.columns.values(), *self.scales.values())))

    @property
    def uses(self) -> list[tuple[str, str]]:
        """Each option with its column, or one of its columns."""
        scales = (("--noise-scale", column) for column in dict.fromkeys(self.scales.values()))
        return [*((f"--{name}", column) for name, column in self.columns.items()), *scales]

    @property
    def notes(self) -> list[str]:
        """What a reader of the fit is told of them."""
        told: dict[str, list[str]] = {}
        for name, column in self.columns.items():
            told.setdefault(column, []).append(_MEANINGS[name])
        for noised, column in self.scales.items():
            told.setdefault(column, []).append(f"the scale of the noise of {noised}")
        return [f"{column}: {', '.join(what)}; released as it is, and not protected" for column, what in told.items()]

    @property
    def as_json(self) -> dict[str, Any]:
        """What a fit keeps of them."""
        return {**self.columns, **({"noise_scale": dict(self.scales)} if self.scales else {})}

    def kept(self, fit: Fit) -> Fit:
        """Return a fit that says which columns these were."""
        if not self.named:
            return fit
        return not_protected(replace(fit, diagnostics={**fit.diagnostics, _KEPT: self.as_json}), self.named)

    def taken_out(self, noised: Noised, beside: str | None = None) -> tuple[Noised, dict[str, Any]]:
        """Return the records without these columns, and the arguments of a solver that are made of them.

        Parameters
        ----------
        noised : Noised
            The records.
        beside : str, optional
            The column of a known term, which is none of them.

        Raises
        ------
        ValueError
            A column is not there, has noise, does not say what is asked of it, or none is left to fit.
        """
        if not self.named:
            return noised, {}
        self._require_left(noised.release, None if noised.y is None else noised.target_name, beside)
        rest, own = apart(noised, self.named)
        given: dict[str, Any] = {_ARGUMENTS[name]: own[column] for name, column in self.columns.items()}
        if "weights" in self.columns:
            self._require("weights", own, "a weight is zero or more")
            if not own[self.columns["weights"]].any():
                raise ValueError(f"{self._said('weights')} is 0 in every record. At least one record must count.")
        if "clusters" in self.columns:
            self._require_clusters(own[self.columns["clusters"]])
        if self.scales:
            self._require("noise_scale", own, "a standard deviation is zero or more")
            given["noise_scale"] = self._scales(rest.release, own)
        return rest, given

    def left(self, release: Release, target: str | None = None, beside: str | None = None) -> Release:
        """Return a release without these columns, for records whose target has this name; see `taken_out`."""
        if not self.named:
            return release
        self._require_left(release, target, beside)
        return without(release, self.named)

    def _scales(self, release: Release, own: Mapping[str, FloatArray]) -> FloatArray:
        """Return scales of shape (n, p), 0 for columns without one, in the units in which columns were released."""
        units = dict(as_json(release.scale))
        nothing = np.zeros(len(next(iter(own.values()))))
        return np.column_stack(
            [
                own[self.scales[name]] / units.get(name, 1.0) if name in self.scales else nothing
                for name in release.columns or ()
            ]
        )

    def _require(self, option: str, own: Mapping[str, FloatArray], allowed: str) -> None:
        """Raise ValueError where a column has a negative number."""
        for column in dict.fromkeys(self.scales.values()) if option == "noise_scale" else [self.columns[option]]:
            if not own[column].min() >= 0:
                row = int(np.argmin(own[column]))
                raise ValueError(
                    f"{self._said(option, column)} is {own[column][row]:.6g} in row {row}, and {allowed}. Correct it, "
                    "or leave the record out."
                )

    def _require_clusters(self, labels: FloatArray) -> None:
        """Raise ValueError where labels of clusters say nothing, or are rounded."""
        if np.abs(labels).max() >= _WHOLE:
            raise ValueError(
                f"{self._said('clusters')} has numbers beyond 2^53, which are not told from those beside them. Number "
                "the clusters anew before the release."
            )
        if len(np.unique(labels)) < 2:
            raise ValueError(
                f"{self._said('clusters')} has a single value. Standard errors need at least two clusters."
            )

    def _said(self, option: str, column: str | None = None) -> str:
        return f"--{option.replace('_', '-')} {shown(self.columns[option] if column is None else column, 60)}"

    def require_in(self, release: Release, target: str | None, beside: str | None = None) -> None:
        """Raise ValueError where a release has no such columns without noise; see `left`."""
        numbers, categories = ([one for one in names if one != target] for names in columns_without_noise(release))
        for option, column in (*self.columns.items(), *(("noise_scale", one) for one in self.scales.values())):
            allowed = [*numbers, *categories] if option == "clusters" else numbers
            if column in allowed and column != beside:
                continue
            said = "no column of these records"
            if column == beside:
                said = "the offset or the exposure as well"
            elif column == target:
                said = "the target"
            elif column in categories:
                said = "one of categories, and no number"
            elif column in (release.columns or ()) or column in release.categories.indicators:
                said = "a column with noise, or a part of one, and what is known of a record has none"
            others = ", ".join(one for one in allowed if one != beside)
            raise ValueError(
                f"{self._said(option, column)} is {said}. "
                + (f"Name one of those without noise: {others}." if others else "No such column is without noise.")
            )

    def _require_left(self, release: Release, target: str | None, beside: str | None) -> None:
        self.require_in(release, target, beside)
        left = set(release.columns or ()) - set(release.categories.released(self.named)) - {beside}
        if not left and not release.fit_intercept:
            raise ValueError(f"no column is left to fit beside {', '.join(self.named)}. Fit records with another one.")


def _scales_of(words: Sequence[str], columns: Sequence[str], scaled: Sequence[str]) -> dict[str, str]:
    """Return which column has the scales of which noised one: all of the same one, or NOISED=SCALES of each.

    Raises
    ------
    ValueError
        A word is no column, or no such pair, or a column with normal noise of a known scale is not among them.
    """
    if not scaled:
        raise ValueError(
            "--noise-scale is for columns with normal noise of a known scale, as GaussianMechanism.from_scale has it, "
            "and no feature here has such. Leave it out."
        )
    if len(words) == 1 and (words[0] in columns or "=" not in words[0]):
        return dict.fromkeys(scaled, words[0])
    found: dict[str, str] = {}
    for word in words:
        # Names may have such a sign themselves.
        signs = [place for place, sign in enumerate(word) if sign == "="]
        pairs = [(word[:place], word[place + 1 :]) for place in signs]
        known = [pair for pair in pairs if pair[0] in scaled]
        if not known:
            raise ValueError(
                f"--noise-scale {shown(word, 60)} names no column with normal noise of a known scale. Write "
                f"COLUMN=SCALES, of {', '.join(scaled)}; or the one column that has the scales of all."
            )
        name, column = next((pair for pair in known if pair[1] in columns), known[0])
        if name in found:
            raise ValueError(f"--noise-scale names {name} twice. Give each column one scale.")
        found[name] = column
    if missing := [name for name in scaled if name not in found]:
        raise ValueError(
            f"--noise-scale says nothing of {', '.join(missing)}, which has noise as well. Name the column that has "
            "its scales, with 0 in records without noise."
        )
    return found


def columns_with_known_scale(release: Release) -> list[str]:
    """Return the columns with normal noise of a known scale, and no guarantee."""
    columns = release.columns
    if columns is None or release.coupling is not None:
        return []
    found: list[str] = []
    for (place, noise), (_, mechanism) in zip(release.noises(len(columns)), release.groups, strict=True):
        if isinstance(noise, AdditiveNoise) and noise.is_gaussian and mechanism.guarantee is None:
            found += columns[place]
    return found
