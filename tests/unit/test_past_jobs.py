"""Jobs read from event logs and from files of past ads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import parse
from slotwise.cli.jobs.eventlog_ads import job_ads
from slotwise.cli.jobs.history import OPTIONS
from slotwise.cli.jobs.history_files import Source, read_sources
from slotwise.daemon.history_file import parts_of, read_ads
from slotwise.errors import NotFoundError, UsageError
from slotwise.wire.gen import schedd_pb2

LOG = """000 (007.000.000) 2026-01-02 03:04:05 Job submitted from host: <127.0.0.1:1>
...
000 (007.001.000) 2026-01-02 03:04:05 Job submitted from host: <127.0.0.1:1>
...
001 (007.000.000) 2026-01-02 03:04:06 Job executing on host: <127.0.0.1:2>
\tSlotName: slot1_1@h
...
001 (007.001.000) 2026-01-02 03:04:06 Job executing on host: <127.0.0.1:2>
...
006 (007.000.000) 2026-01-02 03:04:07 Image size of job updated: 5000
\t3  -  MemoryUsage of job (MB)
\t2500  -  ResidentSetSize of job (KB)
...
005 (007.000.000) 2026-01-02 03:04:16 Job terminated.
\t(1) Normal termination (return value 3)
...
012 (007.001.000) 2026-01-02 03:04:09 Job was held.
\tno such file
\tCode 13 Subcode 2
...
"""


def test_a_log_tells_of_its_jobs(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(LOG)
    (held,) = job_ads(path, left=False, owner="ann")
    assert (held["ProcId"], held["JobStatus"], held["HoldReason"]) == (1, 5, "no such file")
    assert (held["HoldReasonCode"], held["HoldReasonSubCode"], held["Owner"]) == (13, 2, "ann")
    (ended,) = job_ads(path, left=True)
    assert (ended["JobStatus"], ended["ExitCode"], ended["RemoteHost"]) == (4, 3, "slot1_1@h")
    assert (ended["RemoteWallClockTime"], ended["MemoryUsage"], ended["ImageSize"]) == (10, 3, 5000)


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        job_ads(tmp_path / "nowhere", left=True)


def record(cluster: int, kind: str = "") -> str:
    return f"ClusterId = {cluster}\nProcId = 0\nCompletionDate = {cluster * 1000}\n*** {kind}Offset = 0\n"


def found(source: Source, tmp_path: Path, **query: object) -> list[Any]:
    asked = schedd_pb2.HistoryQuery(**query)  # type: ignore[arg-type]
    inv = Invocation.of_process()
    return [ad["ClusterId"] for ad in read_sources(source, asked, inv)]


def test_files_are_read_backwards_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "history"
    (tmp_path / "history.20260101T000000").write_text(record(1) + record(2))
    (tmp_path / "history.20260201T000000").write_text(record(3))
    (tmp_path / "history.lock").write_text("not ads\n")
    path.write_text(record(4) + record(5))
    source = Source(tuple(parts_of(path)))
    assert found(source, tmp_path) == [5, 4, 3, 2, 1]
    assert found(source, tmp_path, forwards=True) == [1, 2, 3, 4, 5]
    assert found(source, tmp_path, scan_limit=2) == [5, 4]
    assert found(source, tmp_path, since="3.0") == [5, 4]
    assert found(source, tmp_path, since="ClusterId < 3") == [5, 4, 3]
    assert found(source, tmp_path, completed_since=3000) == [5, 4]
    limited = schedd_pb2.HistoryQuery()
    limited.query.limit, limited.query.constraint = 1, "ClusterId < 5"
    assert [ad["ClusterId"] for ad in read_sources(source, limited, Invocation.of_process())] == [4]


def test_kinds_of_ads_are_told_by_their_banners(tmp_path: Path) -> None:
    path = tmp_path / "epochs"
    path.write_text(record(1, "EPOCH ") + record(2, "INPUT ") + record(3, "EPOCH "))
    assert found(Source((path,), types=frozenset({"EPOCH"})), tmp_path) == [3, 1]
    assert found(Source((path,), types=frozenset({"INPUT"})), tmp_path) == [2]
    assert found(Source((path,)), tmp_path) == [3, 2, 1]


def test_the_access_point_is_asked_where_its_history_of_runs_may_not_be_read(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "epochs").write_text(record(1, "EPOCH "))
    env = {
        "CONDOR_CONFIG": "/dev/null",
        "SLOTWISE_HOME": "/nowhere",
        "_CONDOR_JOB_EPOCH_HISTORY": str(spool / "epochs"),
    }
    inv = replace(Invocation.of_process(), env=env)
    assert Source.of(parse(["-epochs"], OPTIONS), inv) is not None
    spool.chmod(0)
    if (child := os.fork()) == 0:  # pragma: no cover
        status = 1
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            status = 0 if Source.of(parse(["-epochs"], OPTIONS), inv) is None else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_file_that_is_not_read_to_its_end_is_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "job.runs.7.0.ads"
    path.write_text(record(1, "EPOCH ") + record(2, "EPOCH "))
    ads = read_sources(Source((path,), deletes=True), schedd_pb2.HistoryQuery(), Invocation.of_process())
    assert next(ads)["ClusterId"] == 2
    path.write_text(record(3, "EPOCH "))  # the access point goes on
    ads.close()  # type: ignore[attr-defined]
    (left,) = set(tmp_path.iterdir()) - {path}
    parsed = parse(["-epochs:d", "-directory", "-search", str(tmp_path)], OPTIONS)
    source = Source.of(parsed, Invocation.of_process())
    assert source is not None and source.deletes
    assert source.files == (left, path), "older ads first"
    assert [ad["ClusterId"] for ad in read_sources(source, schedd_pb2.HistoryQuery(), Invocation.of_process())] == [
        3,
        2,
        1,
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["-since", "3"], ["-completedsince", "0"], ["-limit", "1"], ["-scanlimit", "1"]])
def test_files_are_not_deleted_by_what_does_not_read_all_of_them(tmp_path: Path, words: list[str]) -> None:
    parsed = parse(["-epochs:d", "-directory", "-search", str(tmp_path), *words], OPTIONS)
    with pytest.raises(UsageError, match=words[0]):
        Source.of(parsed, Invocation.of_process())


@pytest.mark.parametrize("block", [1, 7, 40, 64, 1000, 1 << 20])
@pytest.mark.parametrize("end", ["", "ClusterId = 99\n", "ClusterId = 98\n\nClusterId = 99", "*** EPOCH", "\n"])
def test_backwards_finds_the_same_ads_whatever_is_read_at_a_time(tmp_path: Path, block: int, end: str) -> None:
    path = tmp_path / "epochs"
    kinds = ["EPOCH ", "INPUT ", "", "EPOCH ", "SPAWN "]
    texts = [f'Note = "{"x" * 9 * number}"\n{record(number, kind)}' for number, kind in enumerate(kinds)]
    for text in ("".join(texts) + end, end):
        path.write_text(text)
        for chosen in (frozenset[str](), frozenset({"EPOCH"}), frozenset({"INPUT", "SPAWN"})):
            forwards = [str(ad) for ad in read_ads(path, chosen, forwards=True)]
            backwards = [str(ad) for ad in read_ads(path, chosen, forwards=False, block=block)]
            assert backwards == forwards[::-1]
