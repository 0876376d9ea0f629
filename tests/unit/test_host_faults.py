"""What is the fault of a daemon's host: shortages are waited out, and told once a minute."""

from __future__ import annotations

import errno
import logging
import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from slotwise.classad import ClassAd
from slotwise.daemon import host_faults
from slotwise.daemon.host_faults import SHORTAGES, each_waited_out, waited_out
from slotwise.schedd.history.epochs import RunHistory, RunHistorySettings, RunRecord
from slotwise.table import pack_ads

from tests.support.waiting import until


def counted(name: str) -> float:
    return sum(
        sample.value
        for family in SHORTAGES.collect()
        for sample in family.samples
        if sample.labels.get("error") == name
    )


@contextmanager
def few_descriptors() -> Iterator[list[float]]:
    """Takes all descriptors; they are given back at the third wait. Yields the waits."""
    former = resource.getrlimit(resource.RLIMIT_NOFILE)
    waits: list[float] = []
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(int(path.name) for path in Path("/proc/self/fd").iterdir()) + 1, former[1])
    )
    held = []
    with pytest.raises(OSError, match="Too many open files"):
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            resource.setrlimit(resource.RLIMIT_NOFILE, former)

    patch = pytest.MonkeyPatch()
    patch.setattr(host_faults, "pause_thread", sleep)
    try:
        yield waits
    finally:
        patch.undo()
        resource.setrlimit(resource.RLIMIT_NOFILE, former)
        for descriptor in held:
            os.close(descriptor)


def test_what_has_no_descriptor_is_done_when_there_is_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "it"
    path.write_text("here")
    before = counted("EMFILE")
    with few_descriptors() as waits, caplog.at_level(logging.WARNING):
        assert waited_out(path.read_text) == "here"
    assert waits == sorted(waits) and len(set(waits)) == 3
    assert counted("EMFILE") == before + 3
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2 and "LimitNOFILE" in told[0] and "again, after" in told[1]


def test_what_was_given_is_not_given_again() -> None:
    failing = iter([True, False])

    def make() -> Iterator[int]:
        yield from (1, 2)
        if next(failing):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        yield 3

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_faults, "pause_thread", lambda seconds: None)
        assert list(each_waited_out(make)) == [1, 2, 3]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ENOSPC, errno.EAGAIN])
def test_other_errors_are_not_waited_for(number: int) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=os.strerror(number)):
        waited_out(fail)


async def test_records_of_runs_wait_for_descriptors(tmp_path: Path) -> None:
    history = RunHistory(ThreadPoolExecutor(1))
    history.settings = RunHistorySettings(str(tmp_path / "epochs"), str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    history.add(run_record(0))
    await until(lambda: (tmp_path / "runs" / "job.runs.1.0.ads").exists(), "a thread and the modules are there")
    with few_descriptors() as waits:
        for proc in (1, 2, 3):
            history.add(run_record(proc))
        await until(lambda: len(waits) == 3, "it waits for descriptors")
    await history.close()
    text = (tmp_path / "epochs").read_text()
    assert [text.count(f"ProcId={proc} ") for proc in range(4)] == [1, 1, 1, 1]
    assert [path.read_text().count("EpochWriteDate") for path in (tmp_path / "runs").iterdir()] == [1, 1, 1, 1]


async def test_records_do_not_keep_a_daemon_that_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    history = RunHistory(ThreadPoolExecutor(1))
    tries: list[int] = []

    def short(records: list[RunRecord]) -> None:
        def step() -> int:
            tries.append(1)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        history.attempt(step)

    history._write = short
    history.add(run_record(1))
    await until(lambda: len(tries) >= 2, "it is tried again")
    await history.close()
    assert "could not write the history of runs" in caplog.text


def run_record(proc: int) -> RunRecord:
    return RunRecord(1, proc, 0, "ann", 1_700_000_000, pack_ads([ClassAd({"ClusterId": 1, "ProcId": proc})]))
