"""The librarian of a real access point: real jobs, rotated files, and a kill whenever it comes."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

from slotwise.daemon.history_file import parts_of, whole_records
from slotwise.librarian.facts import facts_of

from tests.support.pool import Pool

KNOBS = (
    "use feature : librarian\nDAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, LIBRARIAN\nNUM_CPUS = 4\n"
    "LIBRARIAN_UPDATE_INTERVAL = 1\nMAX_HISTORY_ROTATIONS = 50\n"
)


def places(pool: Pool) -> list[tuple[str, int, str, int]]:
    """(owner, cluster, name of the file, offset) of the records in the library."""
    path = pool.home.spool / "library.db"
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
        rows = connection.execute(
            "SELECT UserName, l.ClusterId, FileName, Offset FROM JobRecords r JOIN JobLists l USING (JobListId)"
            " JOIN Users USING (UserId) JOIN Files USING (FileId) WHERE DateOfDeletion IS NULL"
        ).fetchall()
    return sorted((owner, cluster, Path(name).name, offset) for owner, cluster, name, offset in rows)


def actual(pool: Pool) -> list[tuple[str, int, str, int]]:
    """The same as the history has it; nothing while it is rotated."""
    found = []
    for path in parts_of(pool.home.spool / "history"):
        try:
            stream = path.open("rb")
        except FileNotFoundError:
            return []
        with stream:
            for record in whole_records(stream):
                facts = facts_of(record)
                assert facts is not None
                found.append((facts.owner, facts.cluster, path.name, record.begin))
    return sorted(found)


def gone(pool: Pool, count: int, more: str = "") -> int:
    """Submit jobs and wait until they have left the queue; their cluster."""
    path = pool.root / "it.sub"
    path.write_text(f"executable = /bin/true\n{more}queue {count}\n")
    cluster = int(pool.run("submit", "-terse", str(path)).stdout.partition(".")[0])
    pool.until("they have run", lambda: not pool.json("q"))
    pool.until("they are in HISTORY", lambda: [one[1] for one in actual(pool)].count(cluster) == count)
    return cluster


def test_records_of_jobs_are_in_the_library_through_rotations_and_kills(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(KNOBS + "MAX_HISTORY_LOG = 30000\n")
    pool.up()
    first = gone(pool, 6, "batch_name = sweep\n")
    pool.until("they are in the library", lambda: places(pool) == actual(pool))
    for _ in range(3):
        gone(pool, 5)
        pool.until("it lives", lambda: pool.pid("librarian"))
        pool.kill("librarian")
        gone(pool, 1)
    pool.until("all are in it, each once", lambda: places(pool) == actual(pool))
    assert len(places(pool)) == 24 and len(parts_of(pool.home.spool / "history")) > 2
    with contextlib.closing(sqlite3.connect(pool.home.spool / "library.db")) as connection:
        names = connection.execute(
            "SELECT DISTINCT JobBatchName FROM JobRecords JOIN Jobs USING (JobId) WHERE ClusterId = ?", (first,)
        ).fetchall()
        assert names == [("sweep",)]
        rotated = connection.execute(
            "SELECT min(FullyRead), min(DateOfRotation) > 0 FROM Files WHERE FileName LIKE '%.2%'"
        )
        assert rotated.fetchone() == (1, 1)
    assert stat.S_IMODE((pool.home.spool / "library.db").stat().st_mode) == 0o600
    for words in ([f"{first}.3"], [str(first)], [str(first), "-constraint", "ProcId > 2", "-limit", "2"], []):
        by_library = pool.run("history", "-local", *words, "-af:j", "Owner").stdout
        assert by_library == pool.run("history", "-local", "-no-librarian", *words, "-af:j", "Owner").stdout
    assert pool.run("history", "-local", f"{first}.3", "-af", "ProcId").stdout == "3\n"
    log = (pool.home.log / "LibrarianLog").read_text()
    assert "took in" in log and "Traceback" not in log
    pool.run("off", "-daemon", "librarian")
    pool.until("it is off", lambda: pool.pid("librarian") is None)
    pool.run("on", "-daemon", "librarian")
    pool.until("it is on", lambda: pool.pid("librarian"))


def test_a_file_that_somebody_moved_and_what_reconfig_changes(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(KNOBS + "LIBRARIAN_MAX_UPDATES_PER_CYCLE = 0\n")
    pool.up()
    gone(pool, 2)
    history = pool.home.spool / "history"
    log = pool.home.log / "LibrarianLog"
    pool.until("it is known", lambda: f"reading {history}" in log.read_text())
    aside = history.with_name("history.20260102T030405")
    history.rename(aside)
    pool.until("it is known under its new name", lambda: str(aside) in log.read_text())
    gone(pool, 1)
    assert places(pool) == []
    elsewhere = pool.root / "elsewhere.db"
    text = pool.config_file.read_text()
    pool.config_file.write_text(f"{text}LIBRARIAN_MAX_UPDATES_PER_CYCLE = 100\nLIBRARIAN_DATABASE = {elsewhere}\n")
    pool.run("reconfig")
    pool.until("the other library is made", elsewhere.exists)
    pool.config_file.write_text(f"{text}LIBRARIAN_MAX_UPDATES_PER_CYCLE = 100\n")
    pool.run("reconfig")
    pool.until("all are in it", lambda: places(pool) == actual(pool))
    aside.unlink()
    pool.until("it is marked as gone", lambda: f"{aside} is gone" in log.read_text())


def test_a_library_that_is_not_safe_is_not_written(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(KNOBS)
    shared = pool.root / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    pool.config_file.write_text(f"{pool.config_file.read_text()}LIBRARIAN_DATABASE = {shared}/library.db\n")
    pool.up()
    log = pool.home.log / "LibrarianLog"
    pool.until("it says why", lambda: f"{shared} can be written by everybody" in log.read_text())
    shared.chmod(0o700)
    pool.until("it goes on", lambda: "is kept up to date again" in log.read_text())
    assert log.read_text().count("can be written by everybody") == 1
