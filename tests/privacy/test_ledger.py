import errno
import json
import os
import pickle
import signal
import tempfile
import threading
import time
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import children
import pytest

import symdebias as sd
from symdebias import _files
from symdebias.privacy import compose, composed_delta, ledger, ledger_lines

PURE = sd.Guarantee(0.5, 0.0)
NORMAL = sd.GaussianMechanism(1.0, 1e-5, 1.0).guarantee
POSIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
ROOT = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root becomes another user")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spent.jsonl"


@pytest.fixture
def book(path):
    """A ledger with room for three pure releases."""
    return sd.Ledger(path, "people", total=sd.Guarantee(1.5, 0.0))


def number_of_releases(path):
    return sum(line.kind == "release" for line in ledger_lines.read(path).lines)


# ---- what adds up ----------------------------------------------------------------------------------------


def test_what_goes_beyond_the_total_is_refused_and_leaves_nothing(book, path):
    for name in ("a", "b", "c"):
        book.charge({name: PURE}, records=7)
    before = path.read_bytes()
    with pytest.raises(sd.PrivacyError, match=r"epsilon 1\.5 is spent.*would be epsilon 2, of a total of epsilon 1\.5"):
        book.charge({"d": PURE})
    assert path.read_bytes() == before
    assert (book.spent.epsilon, book.spent.delta) == (1.5, 0.0)
    assert [entry.parts[0][0] for entry in book.entries] == [("a",), ("b",), ("c",)]
    assert {entry.records for entry in book.entries} == {7}


def test_pure_budgets_add_up_exactly(path):
    """Against sums of fractions; totals are compared to twelve digits, as no sum of decimals is one in binary."""
    book = sd.Ledger(path, "people", total=sd.Guarantee(0.3, 0.0))
    for _ in range(3):
        book.charge(sd.Guarantee(0.1, 0.0))
    assert abs(Fraction(book.spent.epsilon) - 3 * Fraction(0.1)) <= Fraction(2) ** -53
    with pytest.raises(sd.PrivacyError, match="does not suffice"):
        book.charge(sd.Guarantee(1e-9, 0.0))


def test_normal_noise_composes_exactly_over_releases(path):
    """The epsilon of five releases is the one at which the curve of one normal noise has the sum of the deltas."""
    total = compose([NORMAL] * 5)
    book = sd.Ledger(path, "people", total=total)
    for _ in range(5):
        book.charge({"x": NORMAL})
    spent = book.spent
    assert spent.epsilon < 0.6 * 5
    assert composed_delta(spent.epsilon, [NORMAL.multiplier] * 5) <= 5e-5
    assert composed_delta(spent.epsilon * (1 - 1e-6), [NORMAL.multiplier] * 5) > 5e-5
    with pytest.raises(sd.PrivacyError, match="does not suffice"):
        book.charge({"x": NORMAL})


def test_equal_budgets_of_different_noise_are_told_apart(path):
    """Guarantees compare equal whatever their multipliers; what they cost together is another thing."""
    louder = sd.Guarantee(1.0, 1e-5, multiplier=2 * NORMAL.multiplier)
    book = sd.Ledger(path, "people", total=sd.Guarantee(10.0, 1e-3))
    book.charge({"x": NORMAL, "y": NORMAL})
    first = book.spent.epsilon
    other = sd.Ledger(path, "others", others=("people",), total=sd.Guarantee(10.0, 1e-3))
    other.charge({"x": louder, "y": louder})
    assert first == compose([NORMAL, NORMAL]).epsilon
    assert other.spent.epsilon == compose([louder, louder]).epsilon < 0.6 * first


def test_a_multiple_of_a_release_is_room_for_as_many(path):
    parts = {"x": NORMAL, "target": PURE}
    one = compose(list(parts.values()))
    book = sd.Ledger(path, "people", total=compose([one] * 6))
    for _ in range(6):
        book.charge(parts)
    assert book.spent.epsilon < 6 * one.epsilon
    with pytest.raises(sd.PrivacyError, match="does not suffice"):
        book.charge(parts)


def test_basic_composition_adds_up_releases(path):
    """Each release is composed in itself: its parts are fixed together."""
    parts = {"x": NORMAL, "z": NORMAL}
    one = compose([NORMAL, NORMAL])
    book = sd.Ledger(path, "people", total=sd.Guarantee(2.9, 1e-4), composition="basic")
    for _ in range(2):
        book.charge(parts)
    assert book.spent.epsilon == pytest.approx(2 * one.epsilon, rel=1e-15)
    with pytest.raises(sd.PrivacyError, match="does not suffice"):
        book.charge(parts)
    assert sd.Ledger(path, "people").composition == "basic"
    with pytest.raises(sd.PrivacyError, match="add up by basic composition"):
        sd.Ledger(path, "people", composition="exact")


def test_groups_of_columns_have_totals_of_their_own(path):
    limits = {"income": sd.Guarantee(0.5, 0.0), ("age", "sex"): sd.Guarantee(1.0, 0.0)}
    book = sd.Ledger(path, "people", total=sd.Guarantee(10.0, 0.0), columns=limits)
    assert book.columns == {("age", "sex"): sd.Guarantee(1.0, 0.0), ("income",): sd.Guarantee(0.5, 0.0)}
    book.charge({("age", "hours"): PURE, "income": PURE})
    assert (book.spent_on("hours").epsilon, book.spent_on("sex"), book.spent_on("sex", "age").epsilon) == (
        0.5,
        None,
        0.5,
    )
    with pytest.raises(sd.PrivacyError, match="columns income does not suffice"):
        book.charge({("income", "rent"): PURE})
    book.charge({"sex": PURE})
    with pytest.raises(sd.PrivacyError, match="columns age, sex does not suffice"):
        book.charge({("age", "rent"): PURE})
    # A cost without columns is about all of them.
    with pytest.raises(sd.PrivacyError, match="columns age, sex does not suffice"):
        book.charge(sd.Guarantee(0.1, 0.0))
    book.charge({"rent": PURE})
    assert book.spent.epsilon == 2.0


def test_populations_of_one_file_do_not_add_up(path):
    first, second = (sd.Ledger(path, name, total=PURE, others=("one", "two")) for name in ("one", "two"))
    first.charge(PURE)
    second.charge(PURE)
    assert ledger.populations(path) == ("one", "two")
    assert [len(book.entries) for book in (first, second)] == [1, 1]


def test_a_mistyped_population_begins_no_second_budget(path, book):
    book.charge(sd.Guarantee(1.4, 0.0))
    before = path.read_bytes()
    for named in ((), ("others",)):
        with pytest.raises(sd.PrivacyError, match=r"for the population 'poeple', but for \['people'\].*others="):
            sd.Ledger(path, "poeple", total=sd.Guarantee(1.5, 0.0), others=named)
    assert path.read_bytes() == before
    # Whoever names those there are means other people; the names stand in a script that runs again.
    for _ in range(2):
        sd.Ledger(path, "patients", total=PURE, others=("people",))
    with pytest.raises(sd.PrivacyError, match="patients"):
        sd.Ledger(path, "pateints", total=PURE, others=("people",))
    # What a known population would have refused is no slip of its name.
    sd.Ledger(path, "people, in trust", total=sd.Guarantee(1.0, 0.0, "central"))
    assert ledger.populations(path) == ("people", "patients", "people, in trust")
    assert ledger.populations(path, like=PURE) == ("people", "patients")


def test_a_column_with_a_total_is_not_released_without_noise(path):
    """No total allows that, whatever it is: what is sent as it is costs more than any budget."""
    book = sd.Ledger(
        path, "people", total=sd.Guarantee(9.0, 0.0), columns={("age", "hours"): sd.Guarantee(8.0, 0.0), "pay": PURE}
    )
    book.charge({"hours": PURE}, unprotected=("year",))
    before = path.read_bytes()
    for spent, more in (({"pay": PURE}, ("year", "hours")), (sd.Guarantee(0.1, 0.0, unprotected=("age",)), ())):
        with pytest.raises(
            sd.PrivacyError, match=r"age, hours have a total of epsilon 8, .* sends (hours|age) without"
        ):
            book.charge(spent, unprotected=more)
    assert path.read_bytes() == before
    with pytest.raises(sd.PrivacyError, match="year was released without noise"):
        sd.Ledger(path, "people", columns={("year", "rent"): PURE})
    assert path.read_bytes() == before
    # Where a file has such a line, what comes later is counted as before.
    assert sd.Ledger(path, "people", columns={"pay": sd.Guarantee(0.25, 0.0)}).charge({"pay": sd.Guarantee(0.1, 0.0)})


def test_what_is_spent_on_a_column_says_where_it_was_sent_as_it_is(book):
    assert book.spent_on("year") is None
    book.charge({"hours": PURE}, unprotected=("year",))
    book.charge({"age": PURE}, unprotected=("hours",))
    assert book.spent_on("age") == PURE
    assert book.spent_on("hours", "age") == sd.Guarantee(1.0, 0.0, unprotected=("hours",))
    assert book.spent_on("year") == sd.Guarantee(0.0, 0.0, unprotected=("year",))


def test_what_is_unprotected_is_remembered(book):
    book.charge(sd.Guarantee(0.5, 0.0, unprotected=("year",)), unprotected=("year", "row labels"), note="by hand")
    assert book.spent.unprotected == book.entries[0].guarantee.unprotected == ("year", "row labels")
    assert "released as they are: year, row labels" in book.summary()
    assert "by hand" in book.summary()


# ---- totals ----------------------------------------------------------------------------------------------


def test_a_total_shrinks_and_never_grows(path, book):
    book.charge(PURE)
    with pytest.raises(sd.PrivacyError, match="may shrink, and never grows"):
        sd.Ledger(path, "people", total=sd.Guarantee(1.6, 0.0))
    with pytest.raises(sd.PrivacyError, match="may shrink, and never grows"):
        sd.Ledger(path, "people", total=sd.Guarantee(1.0, 1e-9))
    sd.Ledger(path, "people", total=sd.Guarantee(1.0, 0.0))
    assert book.total == sd.Guarantee(1.0, 0.0)
    book.charge(PURE)
    with pytest.raises(sd.PrivacyError, match="does not suffice"):
        book.charge(PURE)
    with pytest.raises(sd.PrivacyError, match=r"epsilon 1 is spent.*total of epsilon 0\.9"):
        sd.Ledger(path, "people", total=sd.Guarantee(0.9, 0.0))
    assert book.total == sd.Guarantee(1.0, 0.0)


def test_the_same_total_writes_nothing(path, book):
    before = path.read_bytes()
    for total in (None, sd.Guarantee(1.5, 0.0, basis="of the charter")):
        assert sd.Ledger(path, "people", total=total).total == sd.Guarantee(1.5, 0.0)
    assert path.read_bytes() == before


@pytest.mark.parametrize("other", [sd.Guarantee(1.0, 0.0, "central"), sd.Guarantee(1.0, 0.0, "central", "add-remove")])
def test_kinds_of_guarantees_do_not_mix(path, book, other):
    for refused in (
        lambda: book.charge(other),
        lambda: sd.Ledger(path, "people", total=other),
        lambda: sd.Ledger(path, "people", columns={"x": other}),
    ):
        with pytest.raises(sd.PrivacyError, match="central"):
            refused()
    central = sd.Ledger(path, "trusted", total=other)
    central.charge(other, note="a central fit")
    assert central.spent.model == "central"


# ---- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"population": ""}, ValueError, "is no name"),
        ({"population": "a\nb"}, ValueError, "is no name"),
        ({"population": "a\u202eb"}, ValueError, "is no name"),
        ({"population": 3}, TypeError, "population must be text"),
        ({"total": 1.0}, TypeError, "total must be a Guarantee"),
        ({"columns": [PURE]}, TypeError, "columns must map columns to guarantees"),
        ({"columns": {"x": 1.0}}, TypeError, "must be a Guarantee"),
        ({"columns": {(): PURE}}, ValueError, "twice, or none"),
        ({"columns": {("a", "b"): PURE, ("b", "a"): PURE}}, ValueError, "twice, or none"),
        ({"columns": {3: PURE}}, TypeError, "tuple of text"),
        ({"composition": "best"}, ValueError, "composition='best' is not known"),
        ({"others": "people"}, TypeError, "Pass a tuple of text"),
        ({"others": ("",)}, ValueError, "is no name"),
    ],
)
def test_a_ledger_refuses_bad_arguments(path, arguments, error, message):
    with pytest.raises(error, match=message):
        sd.Ledger(path, **{"population": "people", "total": PURE, **arguments})
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"spent": 1.0}, TypeError, "must map columns"),
        ({"spent": {}}, ValueError, "has no entry"),
        ({"records": 0}, ValueError, "records=0 is too small"),
        ({"records": True}, TypeError, "records must be an integer"),
        ({"note": "a\x1b[2Jb"}, ValueError, "cannot be kept"),
        ({"note": 3}, TypeError, "note must be text"),
        ({"card": "abc"}, ValueError, "64 digits"),
        ({"hardened": 1}, ValueError, "true or false"),
        ({"unprotected": "year"}, TypeError, "tuple of text"),
    ],
)
def test_a_charge_refuses_bad_arguments(book, path, arguments, error, message):
    before = path.read_bytes()
    with pytest.raises(error, match=message):
        book.charge(**{"spent": PURE, **arguments})
    assert path.read_bytes() == before


def test_a_ledger_begins_with_a_total(path):
    with pytest.raises(FileNotFoundError, match="Give total="):
        sd.Ledger(path, "people")
    assert not path.exists()
    sd.Ledger(path, "people", total=PURE)
    with pytest.raises(sd.PrivacyError, match="no total for the population 'others'"):
        sd.Ledger(path, "others")


def test_what_is_no_ledger_is_left_alone(path):
    for text in (b"a,b\n1,2\n", b"{}", b'{"format": "symdebias-release-1"}', b"\xff\xfe", b"[" * 100_000, b"\nage\n"):
        path.write_bytes(text)
        for total in (None, PURE):
            with pytest.raises(sd.PrivacyError, match="is another file, and no ledger"):
                sd.Ledger(path, "people", total=total)
        assert path.read_bytes() == text


@POSIX
def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError, match=r"no regular file|directory"):
            sd.Ledger(tmp_path / name, "people", total=PURE)


# ---- crashes ---------------------------------------------------------------------------------------------


def test_a_line_that_was_cut_short_is_no_release(book, path):
    """Whatever a crash has left of it: it was not confirmed, so that nothing was drawn."""
    whole = path.read_bytes()
    book.charge(PURE)
    line = path.read_bytes()[len(whole) :]
    for length in range(0, len(line) - 1, 7):
        path.write_bytes(whole + line[:length])
        again = sd.Ledger(path, "people")
        assert again.entries == ()
        for _ in range(3):
            again.charge(PURE)
        assert again.spent.epsilon == 1.5
        assert path.read_bytes().startswith(whole + line[:length])
    # It was whole but for its end: it counts.
    path.write_bytes(whole + line[:-1])
    again = sd.Ledger(path, "people")
    assert len(again.entries) == 1
    again.charge(PURE)
    assert len(sd.Ledger(path, "people").entries) == 2


def test_a_summary_says_that_a_file_is_cut_short(book, path):
    """A copy without the end of its last line said that nothing was spent, and that every line was right."""
    book.charge(PURE)
    assert "no whole line" not in book.summary()
    path.write_bytes(path.read_bytes()[:-20])
    told = sd.Ledger(path, "people").summary()
    assert "nothing spent" in told
    assert " bytes that are no whole line and do not count" in told


def test_a_crash_while_a_cut_line_is_set_right(book, path):
    """Two crashes, one after another, at any place of either."""
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"format": "sym')
    book.charge(PURE)
    more = path.read_bytes()[len(whole) :]
    end = more.index(b"\n", more.index(b"\n") + 1)
    for length in [*range(15, end, 31), end - 1, end, end + 1, end + 40]:
        path.write_bytes(whole + more[:length])
        again = sd.Ledger(path, "people")
        assert again.entries == ()
        again.charge(PURE)
        assert len(sd.Ledger(path, "people").entries) == 1


def test_a_file_that_was_cut_short_in_its_first_line_begins_anew(book, path):
    whole = path.read_bytes()
    for left in (b"", whole[:10], whole[:100], b"\0" * 64):
        path.write_bytes(left)
        assert sd.Ledger(path, "people", total=PURE).entries == ()


@POSIX
def test_kills_forget_no_release(tmp_path):
    """Killed at random moments: what went out was counted, and the file is whole."""
    path, out = tmp_path / "spent.jsonl", tmp_path / "out"
    book = sd.Ledger(path, "people", total=sd.Guarantee(1e6, 0.0))

    def release():
        while True:
            book.charge(PURE)
            descriptor = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, b".")
            os.close(descriptor)

    children.kill_while(release, 20, longest=0.05)
    released = out.stat().st_size if out.exists() else 0
    counted = len(sd.Ledger(path, "people").entries)
    assert 0 < released <= counted <= released + 20


@POSIX
def test_two_of_five_win_the_last_of_a_budget(tmp_path, monkeypatch):
    """Three times five processes and room for two releases; each takes its time between reading and writing."""
    content = _files.content
    monkeypatch.setattr(_files, "content", lambda descriptor: (content(descriptor), time.sleep(0.02))[0])
    for turn in range(3):
        path = tmp_path / f"spent-{turn}.jsonl"
        book = sd.Ledger(path, "people", total=sd.Guarantee(1.0, 0.0))
        gate, key = os.pipe()

        def release(book=book, gate=gate, key=key):
            os.close(key)
            os.read(gate, 1)
            try:
                book.charge(PURE)
            except sd.PrivacyError:
                os._exit(3)

        racing = [children.start(release) for _ in range(5)]
        # All read the end of the pipe at once.
        os.close(key)
        os.close(gate)
        assert sorted(children.status(child) for child in racing) == [0, 0, 3, 3, 3]
        assert number_of_releases(path) == 2


def test_one_thread_of_many_wins_the_last_of_a_budget(book, path):
    refused = []

    def release():
        for _ in range(5):
            try:
                book.charge({"x": PURE})
            except sd.PrivacyError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=release) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert number_of_releases(path) == 3
    assert len(refused) == 37
    assert all("does not suffice" in text for text in refused)


@POSIX
def test_two_processes_begin_one_ledger(path):
    def begin():
        sd.Ledger(path, "people", total=PURE)

    assert [children.status(child) for child in [children.start(begin) for _ in range(6)]] == [0] * 6
    assert len(ledger_lines.read(path).lines) == 1


@POSIX
def test_a_lock_ends_with_the_process_that_held_it(path, book):
    ready, told = os.pipe()

    def hold():
        with _files.locked(path, writing=True):
            os.write(told, b".")
            time.sleep(60)

    child = children.start(hold)
    os.close(told)
    assert os.read(ready, 1) == b"."
    os.kill(child, signal.SIGKILL)
    children.status(child)
    book.charge(PURE)
    os.close(ready)


# ---- disks and users -------------------------------------------------------------------------------------


class FullDisk:
    """Room for so many bytes, then none."""

    def __init__(self, room):
        self.room, self._write = room, os.write

    def __call__(self, descriptor, data):
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(descriptor, bytes(data[: self.room]))
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 50, 300])
def test_a_full_disk_counts_nothing(book, path, monkeypatch, room):
    before = path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", FullDisk(room))
        with pytest.raises(OSError, match="No space left"):
            book.charge(PURE)
    assert path.read_bytes() == before
    book.charge(PURE)
    assert number_of_releases(path) == 1


@pytest.mark.parametrize("room", [0, 1, 50, 300])
def test_a_full_disk_that_takes_nothing_back(book, path, monkeypatch, room):
    """What is left of the line is recognised."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", FullDisk(room))
        patched.setattr(os, "ftruncate", FullDisk(0))
        with pytest.raises(OSError, match="No space left"):
            book.charge(PURE)
    assert sd.Ledger(path, "people").entries == ()
    for _ in range(3):
        book.charge(PURE)
    assert number_of_releases(path) == 3


def test_a_line_that_the_disk_does_not_confirm_is_not_counted(book, path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            book.charge(PURE)
    assert path.read_bytes() == before


def test_writes_in_small_pieces(book, path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:3])))
    book.charge(PURE)
    assert number_of_releases(path) == 1


def test_the_file_is_its_owners(book, path):
    assert path.stat().st_mode & 0o777 == 0o600


@ROOT
@POSIX
def test_another_user_reads_and_does_not_write():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "spent.jsonl"
        book = sd.Ledger(path, "people", total=sd.Guarantee(1.5, 0.0))
        book.charge(PURE)
        refuse_to_write_for_another_user(path, Path(folder) / "new.jsonl")
        assert number_of_releases(path) == 1


def refuse_to_write_for_another_user(path, new):
    def unreadable():
        with pytest.raises(PermissionError):
            sd.Ledger(path, "people")

    def readable():
        theirs = sd.Ledger(path, "people", total=sd.Guarantee(1.5, 0.0))
        assert len(theirs.entries) == 1
        with pytest.raises(PermissionError):
            theirs.charge(PURE)
        with pytest.raises(PermissionError):
            sd.Ledger(path, "people", total=sd.Guarantee(1.0, 0.0))
        with pytest.raises(PermissionError):
            sd.Ledger(new, "people", total=PURE)
        assert not new.exists()

    assert children.status(children.start(children.as_nobody(unreadable))) == 0
    path.chmod(0o644)
    assert children.status(children.start(children.as_nobody(readable))) == 0


def test_a_system_without_such_locks_is_refused(path, monkeypatch):
    monkeypatch.setattr(_files.sys, "platform", "win32")
    with pytest.raises(OSError, match="locks of POSIX"):
        sd.Ledger(path, "people", total=PURE)
    assert not path.exists()


@POSIX
def test_a_folder_that_is_gone(book, path, tmp_path):
    """The name was made absolute while there was a folder to count from."""

    def work():
        gone = tmp_path / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()
        book.charge(PURE)
        with pytest.raises(FileNotFoundError):
            sd.Ledger("relative.jsonl", "people", total=PURE)

    assert children.status(children.start(work)) == 0
    assert number_of_releases(path) == 1


def test_a_clock_that_goes_backwards(book, monkeypatch):
    times = iter([datetime(2030, 1, 1, tzinfo=UTC), datetime(1980, 1, 1, tzinfo=UTC)])

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return next(times)

    monkeypatch.setattr(ledger_lines, "datetime", Clock)
    book.charge({"first": PURE})
    book.charge({"second": PURE})
    entries = book.entries
    assert [entry.parts[0][0] for entry in entries] == [("first",), ("second",)]
    assert entries[1].time < entries[0].time
    assert book.spent.epsilon == 1.0


# ---- changed files ---------------------------------------------------------------------------------------


def test_every_change_of_a_byte_is_noticed(path):
    """All but the end of the last line, where a change looks like a crash; see `verify` for that."""
    book = sd.Ledger(path, "people", total=sd.Guarantee(1.5, 0.0))
    book.charge({"x": PURE}, note="a", records=3)
    book.charge({"y": PURE})
    text = path.read_bytes()
    for place in range(0, len(text) - 3, 5):
        changed = bytearray(text)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(sd.PrivacyError, match=r"changed or damaged|lost lines"):
            book.charge(PURE)
        assert path.read_bytes() == bytes(changed)


@pytest.mark.parametrize("place", [0, 12, 20, 150])
def test_a_changed_ledger_of_one_line_stays_one(place, path):
    sd.Ledger(path, "people", total=PURE)
    text = bytearray(path.read_bytes())
    text[place] ^= 1
    path.write_bytes(bytes(text) + b"x\n")
    with pytest.raises(sd.PrivacyError, match="was changed or damaged"):
        ledger.populations(path)


def test_lines_that_are_missing_doubled_or_exchanged_are_noticed(path, book):
    for name in ("a", "b", "c"):
        book.charge({name: PURE})
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in ([0, 2, 3], [1, 2, 3], [0, 1, 1, 2, 3], [0, 2, 1, 3], [0, 1, 3]):
        path.write_bytes(b"".join(lines[place] for place in kept))
        with pytest.raises(sd.PrivacyError, match="does not follow"):
            sd.Ledger(path, "people")


def test_lines_that_were_cut_off_are_noticed_by_who_has_seen_them(path, book):
    book.charge(PURE)
    kept, digest = path.read_bytes(), book.digest
    book.charge(PURE)
    seen = book.digest
    assert book.verify(digest) == seen
    path.write_bytes(kept)
    with pytest.raises(sd.PrivacyError, match="has lost lines"):
        book.charge(PURE)
    other = sd.Ledger(path, "people")
    assert other.verify(digest) == digest
    with pytest.raises(sd.PrivacyError, match="no line of the digest"):
        other.verify(seen)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        book.charge(PURE)


def test_a_line_that_is_well_chained_is_still_checked(path, book):
    """Whoever writes the file anew can chain what they like, but not claim what no guarantee is."""
    lines = ledger_lines.read(path)
    good = {
        "population": "people", "parts": ((("x",), PURE),), "unprotected": (), "records": 1, "card": None,
        "hardened": None, "note": "",
    }  # fmt: skip
    text = path.read_bytes()
    added = lines.added("release", good).decode()
    for old, new in [
        ('"epsilon": 0.5', '"epsilon": -0.5'), ('"epsilon": 0.5', '"epsilon": NaN'),
        ('"epsilon": 0.5', '"epsilon": "0"'),
        ('"records": 1', '"records": true'), ('"records": 1', '"records": 1e3'), ('"note": ""', '"note": "\\u202e"'),
        ('"note": ""', '"note": "", "note": ""'), ('[["x"]', '["x"'), ('"local"', '"lokal"'),
        ('"multiplier": null', '"multiplier": 0.0'), ("+00:00", ""), ('"number": 1', '"number": 1.0'),
        ('"epsilon": 0.5', '"epsilon": 0.50'), ('"records": 1', '"records": ' + "1" * 5000),
    ]:  # fmt: skip
        assert old in added
        body = added.replace(old, new).rpartition(', "digest"')[0].encode()
        digest = ledger_lines.hashlib.sha256(body).hexdigest()
        path.write_bytes(text + body + f', "digest": "{digest}"}}\n'.encode())
        with pytest.raises(sd.PrivacyError, match="line 2 of the ledger"):
            sd.Ledger(path, "people")


def test_lines_are_json(path, book):
    book.charge({("b", "a"): PURE}, card="0" * 64)
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["total"]["epsilon"] == 1.5
    assert second["parts"] == [[["a", "b"], {**first["total"], "epsilon": 0.5}]]
    assert second["previous"] == first["digest"]
    assert datetime.fromisoformat(second["time"]).utcoffset().total_seconds() == 0


def test_a_ledger_goes_to_other_processes(book):
    again = pickle.loads(pickle.dumps(book))
    again.charge(PURE)
    assert len(book.entries) == 1
    assert repr(again) == repr(book)
