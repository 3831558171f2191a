"""The ledger: what was released about whom, and what is left of a declared total.

A guarantee is lost by repetition: each release of the same records adds to what they cost. A ledger is a file that
says what was released, and refuses what would go beyond a total before anything is drawn.
"""

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from symdebias import _files
from symdebias._domains import COUNT, check_choice, shown
from symdebias.exceptions import PrivacyError
from symdebias.privacy import ledger_lines
from symdebias.privacy.composition import compose
from symdebias.privacy.guarantee import Guarantee
from symdebias.privacy.ledger_lines import Line, Lines, Parts

# Sums of decimal fractions are none in binary: three times 0.1 is more than 0.3 by its last bit. Totals are compared
# to twelve digits.
_SLACK = 1e-12


@dataclass(frozen=True)
class LedgerEntry:
    """Something that was released.

    Attributes
    ----------
    number : int
        The line of the file, from 0.
    time : datetime
        When it was counted, in UTC, by the clock of the machine.
    population : str
        About whom.
    parts : tuple of (tuple of str, Guarantee)
        Groups of columns, as collected, with what each cost; the target is called ``target``, and a column of that name
        counts as one with it. A part without names is about all columns.
    unprotected : tuple of str
        What was released as it is.
    records : int or None
        How many records it was, where that is known.
    card : str or None
        SHA-256 of the release's card, in hexadecimal digits; None where something else released them.
    hardened : bool or None
        Whether the noise is private as it is realised in floating point; None where nobody said so.
    note : str
        What whoever charged it has to say of it.
    digest : str
        SHA-256 of the line, and so of all lines before it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "spent.jsonl", "survey", total=Guarantee(1.5, 0.0))
    >>> entry = ledger.charge({"income": Guarantee(1.0, 0.0)}, records=200)
    >>> entry.population, entry.records, entry.guarantee.epsilon
    ('survey', 200, 1.0)
    """

    number: int
    time: datetime
    population: str
    parts: Parts
    unprotected: tuple[str, ...]
    records: int | None
    card: str | None
    hardened: bool | None
    note: str
    digest: str

    @property
    def guarantee(self) -> Guarantee:
        """What it cost by itself."""
        total = compose([spent for _, spent in self.parts])
        return replace(total, unprotected=self.unprotected)


@dataclass(frozen=True)
class _State:
    """What a ledger says of a population."""

    population: str  # About whom.
    total: Guarantee | None  # The declared total; None where the population has none.
    limits: Parts  # Totals of groups of columns.
    composition: str  # {"exact", "basic"}: How releases add up.
    entries: tuple[LedgerEntry, ...]  # What was released.

    @classmethod
    def of(cls, lines: Sequence[Line], population: str) -> "_State":
        total: Guarantee | None = None
        limits: Parts = ()
        composition = "exact"
        entries = []
        for line in lines:
            if line.entries.get("population") != population:
                continue
            if line.kind == "total":
                total, limits, composition = (line.entries[key] for key in ("total", "columns", "composition"))
            else:
                entries.append(_entry(line))
        return cls(population, total, limits, composition, tuple(entries))

    def spent(
        self, columns: Sequence[str] | None = None, also: Parts = (), composition: str | None = None
    ) -> Guarantee | None:
        """Return what was released about some columns, or about all, together with what is to be."""
        releases = [entry.parts for entry in self.entries] + ([also] if also else [])
        costs = []
        for parts in releases:
            about = [spent for names, spent in parts if columns is None or not names or set(names) & set(columns)]
            if about:
                costs.append(about)
        if not costs:
            return None
        # The parts of a release are fixed together, so that they compose exactly whatever the releases do.
        each = [_together(tuple(map(_numbers, about))) for about in costs]
        if (composition or self.composition) == "basic":
            return compose([replace(one, multiplier=None, basis="") for one in each])
        # Two valid compositions: of all parts at once, and of releases that were composed before.
        together, stepwise = compose([one for about in costs for one in about]), compose(each)
        return min(together, stepwise, key=lambda found: found.epsilon)

    def unprotected(self, columns: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return what was released as it is, of some columns or of all."""
        names = dict.fromkeys(name for entry in self.entries for name in entry.unprotected)
        return tuple(name for name in names if columns is None or name in columns)

    def require_noised(self, unprotected: Sequence[str]) -> None:
        """Raise PrivacyError where what is to be released as it is has a total, which is beyond any."""
        for columns, total in self.limits:
            if open_ones := [name for name in unprotected if name in columns]:
                raise PrivacyError(
                    f"the columns {', '.join(columns)} have a total of {_budget(total)}, and this release sends "
                    f"{', '.join(open_ones)} without noise, which no total allows. Nothing was released. Noise it, or "
                    "leave it out."
                )

    def require(self, also: Parts = ()) -> None:
        """Raise PrivacyError where what was released, and what is to be, goes beyond a total."""
        assert self.total is not None
        for columns, total in ((None, self.total), *self.limits):
            # Exact composition is never more than the sum, and takes longer.
            by_sum = self.spent(columns, also, "basic")
            if by_sum is None or keeps(by_sum, total):
                continue
            after = self.spent(columns, also)
            assert after is not None
            if keeps(after, total):
                continue
            before = self.spent(columns)
            whose = repr(self.population) if columns is None else f"the columns {', '.join(columns)}"
            said = f"{_budget(before)} is spent, and with this release it" if before else "this release"
            raise PrivacyError(
                f"the budget of {whose} does not suffice: {said} would be {_budget(after)}, of a total of "
                f"{_budget(total)}. Nothing was released. Release less, with more noise, or about other people."
            )


@functools.lru_cache(maxsize=4096)
def _together(parts: tuple[tuple[float, float, str, str, float | None], ...]) -> Guarantee:
    """Return what the parts of one release cost; guarantees that compare equal may have different multipliers."""
    return compose(
        [
            Guarantee(epsilon, delta, model, adjacency, multiplier=multiplier)
            for epsilon, delta, model, adjacency, multiplier in parts
        ]
    )


def _numbers(spent: Guarantee) -> tuple[float, float, str, str, float | None]:
    return spent.epsilon, spent.delta, spent.model, spent.adjacency, spent.multiplier


class Ledger:
    """A file that says what was released about whom, and refuses what goes beyond a declared total.

    Parameters
    ----------
    path : path
        The file, for any number of populations. It is made, readable by its owner alone, where there is none and a
        total is given.
    population : str
        About whom: a name for the people whose records are released. All releases under one name add up, whatever
        their columns: the total is what **one person** loses who is in all of them.
    total : Guarantee, optional
        The most that all releases together may cost: epsilon, delta, model and adjacency. Without it the one that the
        file has. A total never grows; a smaller one takes the place of the one before.
    columns : mapping from str or tuple of str to Guarantee, optional
        Totals for groups of columns besides, as they are collected; the target is called ``target``, and so is counted
        with a column of that name. Each counts what is released of any column in it, with the whole cost of columns
        that are noised together.
    composition : {"exact", "basic"}, optional
        How releases add up; "exact" by default, and later what the file has. See the notes.
    others : sequence of str, optional
        Names of other people whom the file may have totals for. To begin a population in a file that has some already,
        of the same model and adjacency, all of them have to be named: a known name that was mistyped would begin a
        second budget for the same people.

    Raises
    ------
    PrivacyError
        The file was changed or damaged, the total would grow, more than it is spent already, or the population is new
        beside some that were not named.
    TypeError, ValueError
        An argument is none of these.
    OSError
        The file cannot be read, or made.

    Notes
    -----
    Costs compose as `symdebias.privacy.compose` says, group of columns by group of columns over all releases: pure
    budgets add, normal noise composes exactly, deltas add. Totals are compared to twelve digits. This is proved where
    *how much* a later release costs does not depend on what earlier ones have shown; what is released may depend on it.
    Where budgets are chosen as one goes, sums are proved, and exact composition of normal noise alone, but not of both
    together: choose ``composition="basic"``, which adds up the costs of releases, each composed in itself.

    A release calls its target ``target``. A feature of that name is not told from it: a release of both counts what
    both cost together, and a total of ``target`` is one of both. Call such a column otherwise to count it by itself.

    A line is written, and on the disk, before noise is drawn. So a crash may count a release that never went out; it
    never forgets one that did. Processes and threads take turns by a lock on the file (`fcntl`, which Windows does not
    have).

    Each line holds the digest of the line before it, so that a change is noticed, and so is a line that is missing
    between others. Whoever can write to the file can remove its last lines, or write all of it anew: keep `digest`
    elsewhere and give it to `verify`. Times are those of the machine's clock, for readers; order is that of lines.

    References
    ----------
    Rogers, Roth, Ullman & Vadhan 2016 (arXiv 1605.08294), on filters: budgets that are chosen as one goes; Smith &
    Thakurta 2022 (arXiv 2210.17520), for normal noise; arXiv 2602.06756, on why that is no general rule.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "spent.jsonl"
    >>> ledger = Ledger(path, "survey 2026", total=Guarantee(1.5, 0.0))
    >>> _ = ledger.charge({"income": Guarantee(1.0, 0.0)}, records=200)
    >>> print(ledger.spent)
    (1, 0)-differential privacy (local, replace-one)
    >>> ledger.charge({"age": Guarantee(1.0, 0.0)}, records=200)
    Traceback (most recent call last):
    symdebias.exceptions.PrivacyError: the budget of 'survey 2026' does not suffice: epsilon 1 is spent, and with this release it would be epsilon 2, of a total of epsilon 1.5. Nothing was released. Release less, with more noise, or about other people.
    """  # noqa: E501

    def __init__(
        self,
        path: str | os.PathLike[str],
        population: str,
        *,
        total: Guarantee | None = None,
        columns: Mapping[str | tuple[str, ...], Guarantee] | None = None,
        composition: str | None = None,
        others: Sequence[str] = (),
    ) -> None:
        self._population = ledger_lines.checked_name(population, "population")
        named = _other_names(others)
        if total is not None and not isinstance(total, Guarantee):
            raise TypeError(
                f"total must be a Guarantee; got {type(total).__name__}. Pass symdebias.Guarantee(epsilon, delta)."
            )
        limits = () if columns is None else _groups(columns, "columns")
        if composition is not None:
            check_choice("composition", composition, ledger_lines.COMPOSITIONS)
        # The same file after a change of the working folder, and where that folder is gone.
        self._path = _files.path_of(path).absolute()
        self._seen = ""
        if self._path.exists():
            # Nothing is written where nothing is new: a ledger can be read by whoever may read the file.
            lines = self._read()
            known = self._state(lines)
            self._require_named(lines, total, named)
            if self._declared(known, total, limits, composition) == known:
                return
        elif total is None:
            raise FileNotFoundError(
                f"there is no ledger at {self._path}. Give total=symdebias.Guarantee(epsilon, delta) to begin one."
            )
        _files.require_place(self._path)
        with ledger_lines.written(self._path, create=total is not None) as (lines, add):
            known = self._state(lines)
            self._require_named(lines, total, named)
            declared = self._declared(known, total, limits, composition)
            if declared != known:
                declared.require()
                entries = {"total": declared.total, "columns": declared.limits, "composition": declared.composition}
                self._seen = add("total", {"population": population, **entries}).digest

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def population(self) -> str:
        """About whom."""
        return self._population

    @property
    def total(self) -> Guarantee:
        """The declared total."""
        found = self._now().total
        assert found is not None
        return found

    @property
    def columns(self) -> dict[tuple[str, ...], Guarantee]:
        """The totals of groups of columns."""
        return dict(self._now().limits)

    @property
    def composition(self) -> str:
        """How releases add up: "exact" or "basic"."""
        return self._now().composition

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """What was released about this population, in its order."""
        return self._now().entries

    @property
    def spent(self) -> Guarantee | None:
        """What all releases about this population cost a person who is in all of them; None where there is none."""
        state = self._now()
        found = state.spent()
        return None if found is None else replace(found, unprotected=state.unprotected())

    @property
    def digest(self) -> str:
        """The digest of the file's last line, of whatever population: keep it where nobody can change it."""
        return self._read().digest

    def spent_on(self, *columns: str) -> Guarantee | None:
        """Return what the releases of any of these columns cost, with what was noised together with them.

        Parameters
        ----------
        *columns : str
            Names, as collected.

        Returns
        -------
        Guarantee or None
            Those of the columns that were released as they are stand in its ``unprotected``. None where nothing was
            released of any.
        """
        state, names = self._now(), _names(columns)
        found, unprotected = state.spent(names), state.unprotected(names)
        if found is None and unprotected:
            assert state.total is not None
            found = Guarantee(0.0, 0.0, state.total.model, state.total.adjacency)
        return None if found is None else replace(found, unprotected=unprotected)

    def charge(
        self,
        spent: Guarantee | Mapping[str | tuple[str, ...], Guarantee],
        *,
        unprotected: Sequence[str] = (),
        records: int | None = None,
        card: str | None = None,
        hardened: bool | None = None,
        note: str = "",
    ) -> LedgerEntry:
        """Count a release, before it is made; `symdebias.Release.privatize` does so itself.

        Parameters
        ----------
        spent : Guarantee or mapping from str or tuple of str to Guarantee
            What it costs, by the columns that are noised together; or as a whole, which counts for every group of
            columns.
        unprotected : sequence of str
            What is released as it is.
        records : int, optional
            How many records, at least 1; public.
        card : str, optional
            The SHA-256 of the card.
        hardened : bool, optional
            Whether the noise is private as it is realised.
        note : str
            What is released, in a few words; public.

        Returns
        -------
        LedgerEntry
            The line, which is on the disk.

        Raises
        ------
        PrivacyError
            It would go beyond a total, has a column without noise that has one, or the file was changed or damaged.
            Nothing was counted: release nothing.
        OSError
            The line could not be written. Nothing was counted: release nothing.
        TypeError, ValueError
            An argument is none of these.
        """
        parts: Parts = (((), spent),) if isinstance(spent, Guarantee) else _groups(spent, "spent")
        if not parts:
            raise ValueError("spent has no entry. Pass a Guarantee, or one for each group of columns.")
        own = (name for _, one in parts for name in one.unprotected)
        open_columns = tuple(dict.fromkeys((*own, *_names(unprotected))))
        entries = {
            "population": self._population,
            "parts": parts,
            "unprotected": open_columns,
            "records": None if records is None else COUNT.check("records", records),
            "card": card,
            "hardened": hardened,
            "note": ledger_lines.checked_note(note),
        }
        seen = self._seen
        with ledger_lines.written(self._path) as (lines, add):
            self._require_seen(lines, seen)
            state = self._state(lines)
            if state.total is None:
                raise self._unknown()
            kind = state.total.model, state.total.adjacency
            for _, one in parts:
                if (one.model, one.adjacency) != kind:
                    raise PrivacyError(
                        f"the total of {self._population!r} is {' '.join(kind)}, and this release is {one.model} "
                        f"{one.adjacency}, which do not add up. Keep a ledger for each kind."
                    )
            state.require_noised(open_columns)
            state.require(parts)
            line = add("release", entries)
            self._seen = line.digest
        return _entry(line)

    def verify(self, digest: str | None = None) -> str:
        """Check the file from its first line on, and that a line seen earlier is still in it.

        Parameters
        ----------
        digest : str, optional
            What `digest` or this function returned at an earlier time.

        Returns
        -------
        str
            The digest of the last line.

        Raises
        ------
        PrivacyError
            The file was changed or damaged, or has no line of that digest.
        """
        lines = self._read()
        if digest is not None and all(line.digest != digest for line in lines.lines):
            raise PrivacyError(
                f"the ledger {self._path} has no line of the digest {digest!r:.70}: lines were removed or written "
                "anew. Put back a copy that has it."
            )
        return lines.digest

    def summary(self) -> str:
        """Return totals, what is spent, and a line for each release, as a table to print."""
        known = self._read()
        state = self._known(known)
        lines = [f"{self._population}: {len(state.entries)} releases in {self._path}"]
        for columns, total in ((None, state.total), *state.limits):
            assert total is not None
            whose = "all columns" if columns is None else ", ".join(columns)
            found = state.spent(columns)
            lines.append(f"  {whose}: {_budget(found) if found else 'nothing'} spent of {_budget(total)}")
        if unprotected := state.unprotected():
            lines.append(f"  released as they are: {', '.join(unprotected)}")
        for entry in state.entries:
            parts = "; ".join(f"{', '.join(names) or 'all columns'}: {_budget(one)}" for names, one in entry.parts)
            count = "" if entry.records is None else f"  {entry.records:,} records"
            note = f"  ({entry.note})" if entry.note else ""
            lines.append(f"  {entry.number:>5}  {entry.time:%Y-%m-%d %H:%M:%S}Z{count}  {parts}{note}")
        if known.torn:
            lines.append(
                f"  the file ends with {len(known.torn):,} bytes that are no whole line and do not count: what they "
                "were for did not go out if a crash left them, and did if this is a copy that was cut short"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Ledger({str(self._path)!r}, {self._population!r})"

    def _read(self) -> Lines:
        seen = self._seen
        lines = ledger_lines.read(self._path)
        self._require_seen(lines, seen)
        return lines

    def _now(self) -> _State:
        return self._known(self._read())

    def _known(self, lines: Lines) -> _State:
        state = self._state(lines)
        if state.total is None:
            raise self._unknown()
        return state

    def _state(self, lines: Lines) -> _State:
        return _State.of(lines.lines, self._population)

    def _require_seen(self, lines: Lines, seen: str) -> None:
        """Raise PrivacyError where a line is gone that was seen before these were read; remember the last one."""
        if seen and all(line.digest != seen for line in lines.lines):
            raise PrivacyError(
                f"the ledger {self._path} has lost lines that stood in it: it was replaced or cut. Nothing is released "
                "on such a ledger. Put back a copy that has them."
            )
        self._seen = lines.digest

    def _require_named(self, lines: Lines, total: Guarantee | None, named: tuple[str, ...]) -> None:
        """Raise PrivacyError where a population would begin beside others that were not named."""
        if total is None:
            return
        if missing := _unnamed(lines, self._population, total, named):
            raise PrivacyError(
                f"the ledger {self._path} has no total for the population {self._population!r}, but for "
                f"{shown(missing, 200)}. A known name that is mistyped would begin a second budget for the same "
                "people: correct it, or name those there are in others= where they are other people."
            )

    def _declared(self, known: _State, total: Guarantee | None, limits: Parts, composition: str | None) -> _State:
        """Return what holds after a declaration: no total is larger than before.

        Raises
        ------
        PrivacyError
            There is no total, one would grow, or is of another kind.
        """
        if known.total is None and total is None:
            raise self._unknown()
        if known.total is not None and composition not in (None, known.composition):
            raise PrivacyError(
                f"releases about {self._population!r} add up by {known.composition} composition, as was declared; got "
                f"composition={composition!r}. Leave it out."
            )
        declared = known.total if total is None else _bare(total)
        assert declared is not None
        _require_smaller(declared, known.total, "the population")
        groups = dict(known.limits)
        for names, limit in limits:
            if (limit.model, limit.adjacency) != (declared.model, declared.adjacency):
                raise PrivacyError(
                    f"the total of {', '.join(names)} is {limit.model} {limit.adjacency}, and that of the population "
                    f"{declared.model} {declared.adjacency}, which do not add up. Give both of one kind."
                )
            _require_smaller(limit, groups.get(names), f"the columns {', '.join(names)}")
            if names not in groups and (open_ones := known.unprotected(names)):
                raise PrivacyError(
                    f"{', '.join(open_ones)} was released without noise, so that no total holds for the columns "
                    f"{', '.join(names)}. Leave it out of them."
                )
            groups[names] = _bare(limit)
        ordered = tuple(sorted(groups.items(), key=lambda group: group[0]))
        return replace(known, total=declared, limits=ordered, composition=composition or known.composition)

    def _unknown(self) -> PrivacyError:
        return PrivacyError(
            f"the ledger {self._path} has no total for the population {self._population!r}. Declare one, as "
            "total=symdebias.Guarantee(epsilon, delta), or check the name."
        )


def populations(path: str | os.PathLike[str], *, like: Guarantee | None = None) -> tuple[str, ...]:
    """Return the populations that a ledger has a total for, in the order of their declaration.

    Parameters
    ----------
    path : path
        The file.
    like : Guarantee, optional
        Only those whose totals are of its model and adjacency.

    Raises
    ------
    PrivacyError
        The file was changed or damaged, or is no ledger.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "spent.jsonl"
    >>> _ = Ledger(path, "survey", total=Guarantee(1.5, 0.0))
    >>> populations(path)
    ('survey',)
    """
    return _populations(ledger_lines.read(_files.path_of(path)), like=like)


def cut_short(path: str | os.PathLike[str]) -> int:
    """Return how many bytes at the end of a ledger are no whole line and do not count: what a crash or a copy has left.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    PrivacyError
        The file was changed or damaged, or is no ledger.
    OSError
        The file cannot be read.
    """
    return len(ledger_lines.read(_files.path_of(path)).torn)


def unnamed(path: str | os.PathLike[str], population: str, total: Guarantee, others: Sequence[str]) -> list[str]:
    """Return the populations beside which one would begin in a file, but for those that were named as others.

    They are those whose totals are of the model and adjacency of its total; none where it has a total already.

    Raises
    ------
    PrivacyError
        The file was changed or damaged, or is no ledger.
    OSError
        It cannot be read.
    """
    return _unnamed(ledger_lines.read(_files.path_of(path)), population, total, others)


def _unnamed(lines: Lines, population: str, total: Guarantee, others: Sequence[str]) -> list[str]:
    if population in _populations(lines, like=None):
        return []
    return [name for name in _populations(lines, like=total) if name not in others]


def _populations(lines: Lines, *, like: Guarantee | None) -> tuple[str, ...]:
    totals = [(line.entries["population"], line.entries["total"]) for line in lines.lines if line.kind == "total"]
    kinds = {name: (total.model, total.adjacency) for name, total in totals}
    return tuple(name for name, kind in kinds.items() if like is None or kind == (like.model, like.adjacency))


def _entry(line: Line) -> LedgerEntry:
    return LedgerEntry(number=line.number, time=line.time, digest=line.digest, **line.entries)


def keeps(spent: Guarantee, total: Guarantee) -> bool:
    """Whether a budget is within a total, up to rounding."""
    return spent.epsilon <= total.epsilon * (1 + _SLACK) and spent.delta <= total.delta * (1 + _SLACK)


def _budget(spent: Guarantee) -> str:
    return f"epsilon {spent.epsilon:.6g}" + (f", delta {spent.delta:.6g}" if spent.delta else "")


def _bare(total: Guarantee) -> Guarantee:
    """Return what is compared, and what stands in the file."""
    return Guarantee(total.epsilon, total.delta, total.model, total.adjacency)


def _require_smaller(total: Guarantee, known: Guarantee | None, whose: str) -> None:
    if known is None:
        return
    if (total.model, total.adjacency) != (known.model, known.adjacency):
        raise PrivacyError(
            f"the total of {whose} was declared as {known.model} {known.adjacency}; got {total.model} "
            f"{total.adjacency}. Keep a ledger for each kind."
        )
    if not (total.epsilon <= known.epsilon and total.delta <= known.delta):
        raise PrivacyError(
            f"the total of {whose} was declared as {_budget(known)}, and {_budget(total)} would be more of epsilon or "
            "of delta. A total is a promise to those whose records these are: it may shrink, and never grows. Leave "
            "total out, or give a smaller one."
        )


def _groups(value: Any, argument: str) -> Parts:
    """Return guarantees by groups of names, each group sorted and named once."""
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{argument} must map columns to guarantees; got {type(value).__name__}. Pass a dict, such as "
            '{"income": symdebias.Guarantee(1.0, 0.0)}.'
        )
    found: dict[tuple[str, ...], Guarantee] = {}
    for key, one in value.items():
        names = tuple(sorted(set(_names((key,) if isinstance(key, str) else key))))
        if not names or names in found:
            raise ValueError(f"{argument} has the columns {shown(key, 60)} twice, or none. Name each group once.")
        if not isinstance(one, Guarantee):
            raise TypeError(
                f"{argument}[{shown(key, 60)}] must be a Guarantee; got {type(one).__name__}. Pass "
                "symdebias.Guarantee(epsilon, delta)."
            )
        found[names] = one
    return tuple(found.items())


def _other_names(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise TypeError(f"others are names of populations; got {shown(names, 60)}. Pass a tuple of text.")
    return tuple(ledger_lines.checked_name(name, "others") for name in names)


def _names(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise TypeError(f"names of columns are a tuple of text; got {shown(names, 60)}. Pass a tuple.")
    return tuple(ledger_lines.checked_name(name, "column") for name in names)
