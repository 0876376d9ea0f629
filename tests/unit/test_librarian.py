"""The librarian: which records are new whatever becomes of the files of a history, and what it forgets."""

from __future__ import annotations

import contextlib
import io
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch
from slotwise.clock import ManualClock
from slotwise.daemon.history_file import Located, Record, Rotation, append, whole_records
from slotwise.daemon.library import SCHEMA_VERSION, Wanted, find
from slotwise.errors import ConfigError, HostError
from slotwise.librarian import decide, rules
from slotwise.librarian.decide import Cycle, Found, Known, Removable, Totals
from slotwise.librarian.facts import Facts, facts_of
from slotwise.librarian.indexer import Indexer
from slotwise.librarian.rules import LibrarianRules
from slotwise.librarian.store import Library

from tests.support.configured import configured

NOW = 1_700_000_000


def record(cluster: int, proc: int = 0, owner: str = "ann", **more: object) -> Record:
    lines = {"ClusterId": cluster, "ProcId": proc, "Owner": f'"{owner}"', "CompletionDate": NOW + cluster, **more}
    text = "".join(f"{name} = {value}\n" for name, value in lines.items())
    banner = f'ClusterId = {cluster} ProcId = {proc} Owner = "{owner}" CompletionDate = {NOW + cluster} CurrentTime = 1'
    return Record(text, banner, chained=True)


class Archive:
    """A history with its librarian."""

    def __init__(self, root: Path, **knobs: float) -> None:
        self.root = root
        self.path, self.library = root / "history", root / "library.db"
        self.rules = replace(LibrarianRules(str(self.path), str(self.library)), **knobs)
        self.clock = ManualClock(NOW)
        self.indexer = self.restarted()

    def restarted(self) -> Indexer:
        if hasattr(self, "indexer"):
            self.indexer.close()
        self.indexer = Indexer(self.rules, self.clock, self.clock.monotonic)
        return self.indexer

    def write(self, *records: Record) -> None:
        append(str(self.path), records, Rotation(0), self.clock.now())

    def put_aside(self) -> Path:
        self.clock.advance(1)
        aside = self.root / time.strftime("history.%Y%m%dT%H%M%S", time.localtime(self.clock.now()))
        self.path.rename(aside)
        os.utime(aside, (self.clock.now(), self.clock.now()))
        return aside

    def update(self) -> Cycle:
        self.clock.advance(5)
        return self.indexer.update()

    def ask(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        with contextlib.closing(sqlite3.connect(self.library)) as connection:
            return connection.execute(sql, values).fetchall()

    def places(self) -> set[tuple[object, ...]]:
        """(cluster, proc, name of the file, offset) of all records; each once."""
        rows = self.ask(
            "SELECT ClusterId, ProcId, FileName, Offset FROM JobRecords"
            " JOIN Jobs USING (JobId) JOIN Files USING (FileId)"
        )
        assert len(rows) == len(set(rows)), "no record is there twice"
        return {(cluster, proc, Path(str(name)).name, offset) for cluster, proc, name, offset in rows}

    def actual(self) -> set[tuple[object, ...]]:
        """The same as the files have it."""
        found = set[tuple[object, ...]]()
        for path in self.root.glob("history*"):
            with path.open("rb") as stream:
                for one in whole_records(stream):
                    facts = facts_of(one)
                    assert facts is not None
                    found.add((facts.cluster, facts.proc, path.name, one.begin))
        return found


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    made = Archive(tmp_path)
    yield made
    made.indexer.close()


def test_records_are_found_at_their_places_before_and_after_a_rotation(archive: Archive) -> None:
    archive.write(record(1), record(1, 1), record(2, owner="bob"))
    assert archive.update().records == 3
    assert archive.places() == archive.actual()
    aside = archive.put_aside()
    archive.write(record(3))
    assert archive.update().records == 1
    assert archive.places() == archive.actual()
    rows = archive.ask("SELECT FileName, DateOfRotation, FullyRead, RecordsRead, AvgRecordSize > 0 FROM Files")
    assert rows == [(str(aside), int(archive.clock.now()) - 5, 1, 3, 1), (str(archive.path), None, 0, 1, 1)]
    assert archive.ask("SELECT UserName FROM Users ORDER BY 1") == [("ann",), ("bob",)]
    assert archive.ask("PRAGMA user_version") == [(SCHEMA_VERSION,)] and archive.ask("PRAGMA auto_vacuum") == [(2,)]
    assert archive.library.stat().st_mode & 0o777 == 0o600


def test_what_is_written_in_part_waits_until_it_is_whole(archive: Archive) -> None:
    archive.write(record(1), record(2))
    data = archive.path.read_bytes()
    for end in (10, len(data) // 2 - 1, len(data) // 2 + 3, len(data) - 1, len(data)):
        archive.path.write_bytes(data[:end])
        archive.update()
        assert archive.places() == archive.actual()
        archive.restarted()
    assert archive.ask("SELECT sum(RecordsRead), max(LastOffset) FROM Files") == [(2, len(data))]


def test_a_limit_spreads_records_over_updates_and_nothing_is_read_with_none(archive: Archive) -> None:
    archive.rules = replace(archive.rules, most_records=0)
    archive.restarted()
    archive.write(*(record(number) for number in range(1, 6)))
    cycle = archive.update()
    assert (cycle.records, cycle.hit_most) == (0, True)
    aside = archive.put_aside()
    archive.update()
    assert archive.ask("SELECT FileName, DateOfRotation > 0, FullyRead FROM Files") == [(str(aside), 1, 0)]
    archive.indexer.rules = replace(archive.rules, most_records=2)
    assert [archive.update().records for _ in range(4)] == [2, 2, 1, 0]
    assert archive.places() == archive.actual()
    assert archive.ask("SELECT FullyRead, RecordsRead FROM Files") == [(1, 5)]
    assert archive.ask("SELECT HitMaxIngestLimit, TotalRecordsRead FROM Status WHERE TotalRecordsRead > 0") == [
        (1, 2), (1, 2), (0, 1),
    ]  # fmt: skip


def test_files_that_go_keep_their_records_and_their_names_say_how_they_went(archive: Archive) -> None:
    archive.write(record(1))
    archive.update()
    aside = archive.put_aside()
    archive.write(record(2))
    archive.update()
    aside.unlink()
    archive.path.unlink()
    archive.update()
    rows = archive.ask("SELECT FileName, DateOfRotation > 0, DateOfDeletion FROM Files ORDER BY FileId")
    assert rows == [(str(aside), 1, NOW + 16), (f"{archive.path}.REMOVED", None, NOW + 16)]
    assert len(archive.places()) == 2


def test_a_file_that_was_cut_replaced_or_put_back_is_read_as_it_is_now(archive: Archive) -> None:
    archive.write(record(1), record(2), record(3))
    archive.update()
    archive.path.write_bytes(archive.path.read_bytes()[: archive.path.stat().st_size * 2 // 3 + 1])
    archive.update()
    assert archive.places() == archive.actual() and len(archive.actual()) == 2
    # Copied and emptied in place, as logrotate does with copytruncate.
    archive.path.write_bytes(b"")
    archive.update()
    archive.write(record(4), record(5), record(6), record(7))
    archive.update()
    assert {place for place in archive.places() if place[2] == "history"} == archive.actual()
    hidden = archive.root / "elsewhere"
    archive.path.rename(hidden)
    archive.update()
    assert archive.ask("SELECT count(*) FROM Files WHERE DateOfDeletion IS NULL") == [(0,)]
    hidden.rename(archive.path)
    assert archive.update().records == 0
    assert archive.ask("SELECT FileName FROM Files WHERE DateOfDeletion IS NULL") == [(str(archive.path),)]


def test_a_copy_takes_the_place_of_a_file_that_is_gone(archive: Archive) -> None:
    """Of a backup that was restored, and of a file that was copied and emptied."""
    archive.write(record(1), record(2))
    archive.update()
    data = archive.path.read_bytes()
    aside = archive.root / "history.20260102T030405"
    aside.write_bytes(data)
    archive.path.write_bytes(b"")
    archive.write(record(3))
    assert archive.update().records == 1
    assert archive.places() == archive.actual()
    restored = archive.root / "restored"
    restored.write_bytes(data)
    aside.unlink()
    archive.update()
    restored.rename(aside)
    assert archive.update().records == 0 and archive.places() == archive.actual()
    assert archive.ask("SELECT count(*) FROM Files WHERE DateOfDeletion IS NULL") == [(2,)]
    copy = archive.root / "history.20260103T030405"
    copy.write_bytes(data)
    assert archive.update().records == 2, "of a file that is there, it is another one"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["write", "write", "part", "aside", "remove", "restart", "update"]), max_size=30))
def test_whatever_happens_each_record_of_a_file_is_in_the_library_once(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        archive = Archive(Path(root), most_records=3)
        number, rest = 0, b""
        for step in [*steps, "update"]:
            if step in ("write", "aside") and rest:  # the schedd completes what it began
                with archive.path.open("ab") as stream:
                    stream.write(rest)
                rest = b""
            if step == "write":
                number += 1
                archive.write(record(number, number % 3))
            elif step == "part" and not rest:
                number += 1
                data = record(number).data(0)[0]
                cut = 1 + number * 37 % (len(data) - 1)
                with archive.path.open("ab") as stream:
                    stream.write(data[:cut])
                rest = data[cut:]
            elif step == "aside" and archive.path.exists():
                archive.put_aside()
            elif step == "remove" and (older := sorted(Path(root).glob("history.*"))):
                older[0].unlink()
            elif step == "restart":
                archive.restarted()
            elif step == "update":
                archive.update()
        while archive.update().records:
            pass
        there = {path.name for path in Path(root).glob("history*")}
        assert {place for place in archive.places() if place[2] in there} == archive.actual()
        archive.indexer.close()


def test_an_access_point_that_began_anew_has_jobs_of_others_under_the_same_ids(archive: Archive) -> None:
    archive.write(record(1, owner="ann"))
    archive.update()
    archive.put_aside().unlink()
    archive.write(record(1, owner="bob"))
    archive.update()
    rows = archive.ask(
        "SELECT UserName, Offset FROM JobRecords JOIN JobLists USING (JobListId) JOIN Users USING (UserId) ORDER BY 1"
    )
    assert rows == [("ann", 0), ("bob", 0)]


# ----------------------------------------------------------------------------------------------------- the limit


def test_a_full_library_forgets_the_files_that_went_first(archive: Archive) -> None:
    def batch(first: int, count: int) -> Path:
        archive.write(*(record(first + n, JobBatchName=f'"{"b" * 200}"') for n in range(count)))
        archive.update()
        return archive.put_aside()

    for first in (1000, 2000, 3000):
        batch(first, 300).unlink()
        archive.update()
    kept = batch(4000, 300)
    archive.write(record(1000), record(5000))  # a job of the first file has a record in this one, too
    archive.update()
    size = int(str(archive.ask("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0][0]))
    archive.indexer.rules = replace(archive.rules, size_most=size, high=0.9, low=0.6)
    assert archive.update().collected
    clusters = {int(str(place[0])) // 1000 for place in archive.places()}
    assert clusters == {1, 3, 4, 5}, "the two that went first, and no more"
    assert archive.ask("SELECT count(*) FROM Jobs WHERE ClusterId = 1000") == [(1,)]
    for table in ("Jobs", "JobLists"):
        assert archive.ask(f"SELECT count(*) FROM {table}") == [(602,)]
    assert archive.library.stat().st_size < size * 0.7, "the file is smaller"
    assert not archive.update().collected
    assert archive.ask("PRAGMA foreign_key_check") == [] and kept.exists()


def test_a_library_full_of_files_that_are_there_waits(archive: Archive, caplog: pytest.LogCaptureFixture) -> None:
    archive.rules = replace(archive.rules, size_most=1000, backoff_s=60)
    archive.restarted()
    archive.write(record(1))
    for _ in range(3):
        assert not archive.update().collected
    told = [line for line in caplog.messages if "LIBRARIAN_MAX_DATABASE_SIZE" in line]
    assert len(told) == 1 and "looking again in 60 s" in told[0]
    archive.clock.advance(60)
    archive.update()
    assert len([line for line in caplog.messages if "LIBRARIAN_MAX_DATABASE_SIZE" in line]) == 2
    archive.path.unlink()
    archive.update()
    archive.clock.advance(60)
    assert archive.update().collected and archive.places() == set()


def test_which_files_are_forgotten() -> None:
    files = [Removable(1, 300, 10), Removable(2, 100, 10), Removable(3, 200, 10)]
    assert decide.to_forget(files, 1000, 100, 1000) == []
    assert decide.to_forget(files, 1000, 100, 999) == [2]
    assert decide.to_forget(files, 1000, 100, 850) == [2, 3]
    assert decide.to_forget(files, 1000, 100, 0) == [2, 3, 1]
    assert decide.to_forget([], 1000, 0, 0) == []
    assert decide.is_over(98, 100, 0.97) and not decide.is_over(97, 100, 0.97)


# -------------------------------------------------------------------------------------------------- the database


def test_a_damaged_library_is_made_anew_and_one_that_was_removed_too(archive: Archive) -> None:
    archive.write(record(1))
    archive.update()
    archive.indexer.close()
    archive.library.write_bytes(archive.library.read_bytes()[:100] + b"damaged" * 5000)
    archive.restarted()
    with pytest.raises(sqlite3.DatabaseError):
        archive.update()
    archive.update()
    assert archive.places() == archive.actual() and (archive.root / "library.db.unreadable").exists()
    archive.library.unlink()
    archive.update()
    assert archive.places() == archive.actual()


def test_a_file_that_is_something_else_stays_as_it_is(archive: Archive) -> None:
    archive.write(record(1))
    archive.library.write_text("some notes\n" * 500)
    with pytest.raises(HostError, match="is not a database"):
        archive.update()
    assert archive.library.read_text() == "some notes\n" * 500
    archive.library.unlink()
    with contextlib.closing(sqlite3.connect(archive.library)) as connection:
        connection.execute("CREATE TABLE Accounts (Name)")
        connection.commit()
    before = archive.library.read_bytes()
    with pytest.raises(HostError, match="it has a table Accounts"):
        archive.update()
    assert archive.library.read_bytes() == before


def test_a_library_of_htcondors_is_continued(archive: Archive) -> None:
    """Versions 1 (names without directories) and 2 (nothing of DAGs), with the fingerprints that HTCondor computes."""
    archive.write(record(1), record(2))
    archive.update()
    archive.indexer.close()
    with contextlib.closing(sqlite3.connect(archive.library)) as connection:
        for column in ("DAGManJobId", "JobBatchId", "JobBatchName"):
            connection.execute(f"ALTER TABLE JobRecords DROP COLUMN {column}")
        connection.execute("UPDATE Files SET FileName='history'")
        connection.execute("PRAGMA user_version=1")
        connection.commit()
    archive.restarted()
    archive.write(record(3, DAGManJobId=7))
    assert archive.update().records == 1
    assert archive.places() == archive.actual()
    assert archive.ask("SELECT FileName FROM Files") == [(str(archive.path),)]
    assert archive.ask("SELECT DAGManJobId FROM JobRecords ORDER BY Offset") == [(None,), (None,), (7,)]


def test_a_library_that_is_newer_or_not_safe_is_refused(archive: Archive) -> None:
    archive.write(record(1))
    archive.update()
    archive.indexer.close()
    with contextlib.closing(sqlite3.connect(archive.library)) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    with pytest.raises(HostError, match="is the newest that is known here"):
        archive.restarted().update()
    archive.root.chmod(0o777)
    with pytest.raises(HostError, match="can be written by everybody"):
        archive.restarted().update()
    archive.root.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(archive.library, 12345, 12345)
        with pytest.raises(HostError, match="belongs to uid 12345"):
            archive.restarted().update()


def test_an_administrator_may_open_it_to_more(archive: Archive) -> None:
    archive.write(record(1))
    archive.update()
    archive.library.chmod(0o644)
    archive.restarted()
    archive.update()
    assert archive.library.stat().st_mode & 0o777 == 0o644


def test_figures_of_updates(archive: Archive) -> None:
    archive.indexer.rules = replace(archive.rules, retention_s=12)
    archive.write(record(1), record(2))
    archive.update()
    archive.write(record(3))
    for _ in range(4):
        archive.update()
    rows = archive.ask("SELECT TimeOfUpdate, FileIdLastRead, TotalRecordsRead FROM Status")
    assert [row[0] for row in rows] == [NOW + 15, NOW + 20, NOW + 25], "older ones than 12 s are gone"
    row = archive.ask("SELECT TotalCycles, TotalAdsIngested, AvgAdsIngestedPerCycle, TimeOfLastUpdate FROM StatusData")
    assert row == [(5, 3, pytest.approx(0.6), (NOW + 25) * 1000)]
    assert archive.ask("SELECT MeanArrivalHz > 0, LastRunLeftBacklog FROM StatusData") == [(1, 0)]


def test_totals_are_means() -> None:
    totals = Totals()
    for number in range(1, 5):
        cycle = Cycle(records=number, duration_ms=100, backlog=4 - number, hit_most=number == 1)
        totals = decide.with_cycle(totals, cycle, waiting=number, now_ms=1000 * number)
    assert (totals.cycles, totals.records, totals.mean_records, totals.mean_backlog) == (4, 10, 2.5, 1.5)
    assert totals.mean_ms == 100 and totals.mean_ingest_hz == 25 and totals.hit_rate == 0.25
    assert totals.mean_arrival_hz == pytest.approx((3 + 4) / 4), "not at first, nor after an update that left some"
    files = [(Known(1, "a", 1, "f", offset=100, mean_size=10, records=10), 150)]
    assert decide.backlog(files) == 5 and decide.backlog([]) == 0


def test_a_file_that_cannot_be_read_is_not_gone() -> None:
    known = [Known(1, "/h", 5, "f", offset=10)]
    assert decide.plan(known, [Found("/h", 5, 10, None)], NOW) == decide.Plan()
    assert decide.plan(known, [Found("/h", 6, 10, None)], NOW).gone[0].path == "/h.REMOVED"


# ------------------------------------------------------------------------------------------------------------- records


def located(banner: str, body: str = "") -> Located:
    return Located(0, 0, body.encode("utf-8", "surrogateescape"), banner.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("banner", "facts"),
    [
        ('*** Offset = 0 ClusterId = 12 ProcId = 3 Owner = "ann" CompletionDate = 5 CurrentTime = 6\n',
         Facts(12, 3, "ann", 5)),
        ('*** EPOCH ClusterId=12 ProcId=0 RunInstanceId=0 Owner="ann" CurrentTime=6\n', Facts(12, 0, "ann", 0)),
        ('*** clusterid = 1 procid = 0 Owner = "x ClusterId = 9 ProcId = 9" CompletionDate = -1\n',
         Facts(1, 0, "x ClusterId = 9 ProcId = 9", -1)),
        ("*** ClusterId = 1\n", None),
        ("*** ClusterId = 1.5 ProcId = 0\n", None),
        (f"*** ClusterId = {'9' * 40} ProcId = 0\n", None),
        ("***\n", None),
    ],
)  # fmt: skip
def test_what_a_banner_says(banner: str, facts: Facts | None) -> None:
    assert facts_of(located(banner)) == facts


def test_what_an_ad_says() -> None:
    banner = '*** ClusterId = 1 ProcId = 0 Owner = "a"\n'
    body = 'Arg = "DAGManJobId = 5"\nDAGManJobId = 3\nJobBatchId = "3.0"\njobbatchname = "a \\"b\\" \udcff"\n'
    found = facts_of(located(banner, body))
    assert found is not None and (found.dag, found.batch_id) == (3, "3.0")
    assert found.batch_name is not None and found.batch_name.startswith('a "b" ')
    found.batch_name.encode()
    strange = facts_of(located(banner, 'DAGManJobId = "x"\nJobBatchId = 4\nJobBatchName = (\n'))
    assert strange == Facts(1, 0, "a")


def test_a_record_that_is_of_no_job_is_counted_and_passed_over(archive: Archive) -> None:
    archive.write(record(1), Record("A = 1\n", "Nothing = 1"), record(2))
    cycle = archive.update()
    assert (cycle.records, cycle.lost) == (3, 1) and len(archive.places()) == 2
    assert archive.update().records == 0


# --------------------------------------------------------------------------------------------------- `history -local`


def told(archive: Archive, *words: str, **knobs: str) -> list[str]:
    named = {"HISTORY": archive.path, "LIBRARIAN_DATABASE": archive.library, "USING_LIBRARIAN": "true", **knobs}
    env = {"CONDOR_CONFIG": "/dev/null", "SLOTWISE_HOME": str(archive.root / "home"), "HOME": str(archive.root)}
    env |= {f"_CONDOR_{name}": str(value) for name, value in named.items()}
    out, err = io.StringIO(), io.StringIO()
    call = Invocation(archive.root, env, io.StringIO(), out, err)
    assert dispatch(["history", "-local", *words, "-af:j", "Owner"], call) == 0, err.getvalue()
    return out.getvalue().splitlines()


def test_history_finds_by_the_library_what_it_finds_without(archive: Archive) -> None:
    for cluster in range(1, 6):
        archive.write(*(record(cluster, proc, "ann" if cluster % 2 else "bob") for proc in range(3)))
        if cluster == 2:
            archive.put_aside()
        if cluster < 5:
            archive.update()  # the last records are not in it
    questions: tuple[list[str], ...] = (
        ["3.1"],
        ["1"],
        ["5"],
        ["ann"],
        ["BOB"],
        ["2.0", "5.2", "4"],
        ["ann", "3"],
        ["9"],
        ["9" * 30],
        [],
    )
    for words in questions:
        for how in ([], ["-forwards"], ["-limit", "2"], ["-constraint", "ProcId == 1"]):
            by_library = told(archive, *words, *how)
            assert by_library == told(archive, "-no-librarian", *words, *how), (words, how)
    assert told(archive, "3.1") == ["3.1 ann"]


def test_the_library_is_used_where_it_is_to_be(archive: Archive) -> None:
    archive.write(*(record(number) for number in range(1, 4)))
    archive.update()
    with contextlib.closing(sqlite3.connect(archive.library)) as connection:
        connection.execute("DELETE FROM JobRecords")  # so that what is read tells whether it was asked
        connection.commit()
    assert told(archive, "2.0") == []
    for words, knobs in ((["-no-librarian"], {}), (["-scanlimit", "9"], {}), ([], {"USING_LIBRARIAN": "false"})):
        assert told(archive, "2.0", *words, **knobs) == ["2.0 ann"]
    archive.indexer.close()
    archive.library.write_bytes(b"damaged" * 5000)
    assert told(archive, "2.0") == ["2.0 ann"]


def test_the_library_is_not_asked_about_a_file_that_it_does_not_know(archive: Archive) -> None:
    archive.write(record(1))
    archive.update()
    other = archive.root / "other"
    other.write_bytes(archive.path.read_bytes())
    with other.open("rb") as stream:
        assert find(archive.library, stream, Wanted(((1, 0),))) is None
    with archive.path.open("rb") as stream:
        found = find(archive.library, stream, Wanted(owners=("Ann",)))
    assert found == [0]


# --------------------------------------------------------------------------------------------------------------- knobs


def test_knobs() -> None:
    assert rules.read(configured("LIBRARIAN", HISTORY="", LIBRARIAN_DATABASE="")) == LibrarianRules()
    assert not LibrarianRules().is_on
    with pytest.raises(ConfigError, match="LIBRARIAN_MAX_DATABASE_SIZE"):
        rules.read(configured("LIBRARIAN", LIBRARIAN_MAX_DATABASE_SIZE="much"))


def test_an_open_library_is_closed_when_it_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "library.db").write_bytes(b"x" * 5000)
    with pytest.raises(sqlite3.DatabaseError):
        Library.open(tmp_path / "library.db", tmp_path / "history", busy_s=1, most_cached=10)


def test_a_file_that_cannot_be_read_holds_up_no_other(archive: Archive, caplog: pytest.LogCaptureFixture) -> None:
    archive.write(record(1))
    aside = archive.put_aside()
    aside.unlink()
    os.mkfifo(aside)
    archive.write(record(2))
    assert [archive.update().records for _ in range(2)] == [1, 0]
    assert [line for line in caplog.messages if "cannot read" in line] == [
        f"cannot read {aside}: {aside} is not a regular file"
    ]


def test_a_long_part_that_the_library_does_not_have_is_read_as_without(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write(record(1))
    archive.update()
    archive.write(record(2))
    assert told(archive, "2.0") == ["2.0 ann"]
    monkeypatch.setattr("slotwise.daemon.library._UNREAD_MOST", 10)
    assert told(archive, "2.0") == ["2.0 ann"]
    with archive.path.open("rb") as stream:
        assert find(archive.library, stream, Wanted(((2, 0),))) is None
