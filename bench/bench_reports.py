"""Reports over many past jobs: what it costs to read them from the access point's database and from Parquet files.

The rows have what the schedd of a real pool writes about a job, some 1,500 bytes. Times are processor seconds, of all
threads, and wall clock seconds; ``--files N`` reads N Parquet files of ``--jobs`` jobs each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import polars as pl
from slotwise.analysis import history_database
from slotwise.analysis.periods import Periods
from slotwise.analysis.usage import usage
from slotwise.analysis.waits import waits
from slotwise.analysis.waste import waste
from slotwise.classad import ClassAd
from slotwise.cli.pool.report_sources import of_file
from slotwise.schedd.storage.store import Store
from slotwise.table import pack_ads

T = TypeVar("T")
_PROCS, _END = 100, 1_790_000_000
#: What the schedd knows of a job that has run once. ``{end}``: when it left the queue.
_TIMES = {
    "EnteredCurrentStatus": 0, "CompletionDate": 0, "JobFinishedHookDone": 0, "TransferOutFinished": -2,
    "TransferOutStarted": -3, "JobStartDate": -500, "JobCurrentStartDate": -400, "JobLastStartDate": -500,
    "JobCurrentStartExecutingDate": -399, "TransferInFinished": -450, "TransferInStarted": -460, "ShadowBday": -500,
}  # fmt: skip
_FIXED = {
    "JobStatus": 4, "LastJobStatus": 2, "NumJobStarts": 1, "NumShadowStarts": 1, "NumJobMatches": 1, "JobRunCount": 1,
    "RemoteWallClockTime": 500.0, "LastRemoteWallClockTime": 400.0, "CumulativeSlotTime": 500.0, "CommittedTime": 400,
    "CommittedSlotTime": 400.0, "CommittedSuspensionTime": 0, "CumulativeRemoteUserCpu": 390.5,
    "CumulativeRemoteSysCpu": 1.5, "RemoteUserCpu": 390.5, "RemoteSysCpu": 1.5, "ResidentSetSize": 120000,
    "ResidentSetSize_RAW": 119834, "ImageSize": 250000, "ImageSize_RAW": 249999, "DiskUsage": 2000, "ExitCode": 0,
    "MemoryUsage": {"$": "((ResidentSetSize + 1023) / 1024)"}, "DiskUsage_RAW": 1999, "ExitBySignal": False,
    "ExitStatus": 0, "TerminationPending": True, "LastRemoteHost": "slot1_7@node1234.example.org",
    "LastRemotePool": "cm.example.org", "StartdPrincipal": "execute-side@matchsession/10.0.0.7", "BytesSent": 1234.0,
    "GlobalJobId": "ap.example.org#12345.67#1790000000", "BytesRecvd": 99999.0, "MachineAttrCpus0": 1,
    "MachineAttrSlotWeight0": 1, "CpusUsage": 0.98, "CpusProvisioned": 1, "MemoryProvisioned": 2048,
    "DiskProvisioned": 100000, "NumVacates": 0, "BlockReads": 0, "BlockWrites": 0, "StatsLifetime": 400,
    "ToE": {"$": '[Who = "itself"; How = "OF_ITS_OWN_ACCORD"; HowCode = 0; ExitCode = 0; ExitBySignal = false]'},
}  # fmt: skip


def fill(path: Path, jobs: int, users: int) -> None:
    """Make the history: a job leaves the queue every second, clusters of 100 jobs belong to the users in turn."""
    store = Store(path, synchronous="OFF")
    store.open()
    store.close()
    pack = pack_ads([ClassAd({"Cmd": "/bin/sleep", "RequestCpus": 1, "RequestMemory": 2048, "RequestGPUs": 0})])
    fixed = json.dumps(_FIXED, separators=(",", ":"))[1:]
    times = " || ".join(f"'\"{name}\":' || (?1 + i + {after}) || ','" for name, after in _TIMES.items())
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF")
        with database:
            database.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)"
                " INSERT INTO clusters SELECT i, 'user' || (i % ?2), ?3 + i * 100, 100, ?4, json_object("
                "'ClusterId', i, 'Owner', 'user' || (i % ?2), 'User', 'user' || (i % ?2) || '@example.org',"
                " 'QDate', ?3 + i * 100) FROM n",
                (jobs // _PROCS, users, _END - jobs - 1000, pack),
            )
            database.execute(
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?2 - 1)"
                " INSERT INTO history (cluster, proc, owner, status, completed, changes)"
                f" SELECT 1 + i / 100, i % 100, 'user' || ((1 + i / 100) % ?3), 4, ?1 + i, '{{' || {times} || ?4"
                " FROM n",
                (_END - jobs, jobs, users, fixed),
            )


def measured(what: str, work: Callable[[], T]) -> T:
    """Do it, and print what it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    done = work()
    print(f"{time.process_time() - cpu:8.2f} s CPU {time.perf_counter() - wall:8.2f} s  {what}", flush=True)
    return done


def parquet(path: Path, jobs: int, users: int, first: int) -> None:
    """A file as ``slotwise history -parquet`` writes it, of jobs from number ``first`` on."""
    number = pl.int_range(first, first + jobs, eager=True, dtype=pl.Int64)
    own = {name: value for name, value in _FIXED.items() if not isinstance(value, dict)}
    frame = pl.DataFrame({"at": number}).select(
        pl.concat_str(pl.lit("user"), (pl.col("at") // _PROCS) % users, pl.lit("@example.org")).alias("User"),
        (pl.col("at") + _END - 1000).alias("QDate"),
        pl.lit(2048).alias("RequestMemory"),
        pl.lit(1).alias("RequestCpus"),
        *((pl.col("at") + _END + after).alias(name) for name, after in _TIMES.items()),
        *(pl.lit(value).alias(name) for name, value in own.items()),
    )
    frame.write_parquet(path)


def main() -> None:
    """Make the history, read it, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--files", type=int, default=1)
    options = parser.parse_args()
    jobs, users = options.jobs, options.users
    with tempfile.TemporaryDirectory() as root:
        database = Path(root) / "schedd.sqlite"
        measured(f"{jobs} jobs of {users} users are made", lambda: fill(database, jobs, users))
        size = database.stat().st_size / 1e9
        found = measured(f"read from the database ({size:.1f} GB)", lambda: history_database.read(database, 0, 2**40))
        check(found, jobs, users)
        reports(found, jobs)
        del found
        database.unlink()
        files = [Path(root) / f"{number}.parquet" for number in range(options.files)]
        for number, path in enumerate(files):
            parquet(path, jobs, users, number * jobs)
        size = sum(path.stat().st_size for path in files) / 1e9
        found = measured(f"{len(files)} Parquet files ({size:.2f} GB) read", lambda: of_files(files))
        check(found, jobs * len(files), users)
        reports(found, jobs * len(files))


def of_files(paths: list[Path]) -> pl.DataFrame:
    """As ``slotwise report -file`` reads them."""
    return pl.concat([of_file(path) for path in paths])


def check(found: pl.DataFrame, jobs: int, users: int) -> None:
    """Nothing is lost."""
    if found.height != jobs or found["user"].n_unique() != users or found["wall_s"].sum() != 500.0 * jobs:
        raise SystemExit(f"{found.height} of {jobs} jobs were read")


def reports(found: pl.DataFrame, jobs: int) -> None:
    """Three reports, by day."""
    days = range(_END - jobs - 86400, _END + jobs + 86400, 86400)
    when = Periods("day", tuple(float(edge) for edge in days))
    measured("  usage by user", lambda: usage(found, when, "user", {}))
    measured("  waits", lambda: waits(found, when, "user"))
    measured("  waste", lambda: waste(found, when))


if __name__ == "__main__":
    main()
