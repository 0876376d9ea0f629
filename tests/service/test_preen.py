"""`slotwise preen`: what it lists and removes, and what it leaves alone while a daemon does not answer."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd
from slotwise.cli.host.stale_files import LogFile, LogRules, judge_logs
from slotwise.daemon.membership import Trust
from slotwise.schedd.transfer import spooling
from slotwise.table import pack_ads
from slotwise.wire import address, security
from slotwise.wire.address import DaemonAddress
from slotwise.wire.gen import common_pb2, startd_pb2_grpc
from slotwise.wire.server import listen, make_server

from tests.support.access_point import RunningAccessPoint
from tests.support.command import Result, command

DAY = 86400


class _Startd(startd_pb2_grpc.StartdServicer):
    """Answers with one slot."""

    state = "Unclaimed"

    async def Query(self, request: common_pb2.AdQuery, context: Any) -> AsyncIterator[common_pb2.AdChunk]:
        yield common_pb2.AdChunk(data=pack_ads([ClassAd({"Name": "slot1@here", "State": self.state})]))
        yield common_pb2.AdChunk(done=True, total=1)


@pytest.fixture
async def schedd(tmp_path: Path) -> AsyncIterator[RunningAccessPoint]:
    running = await RunningAccessPoint(tmp_path / "pool").start()
    yield running
    await running.stop()


@pytest.fixture
async def startd(schedd: RunningAccessPoint) -> AsyncIterator[_Startd]:
    answering = _Startd()
    server = make_server(security.Authenticator(Trust(schedd.secrets), family=schedd.secrets.host_key().public))
    startd_pb2_grpc.add_StartdServicer_to_server(answering, server)
    tcp, path = listen(server, socket=address.socket_file(schedd.home, "startd"))
    await server.start()
    address.publish(schedd.home, DaemonAddress("startd", os.getpid(), tcp, path))
    yield answering
    await server.stop(None)


async def preen(schedd: RunningAccessPoint, *words: str, **knobs: str) -> Result:
    env = {f"_CONDOR_{name}": value for name, value in knobs.items()}
    return await command(schedd.home.root, "preen", *words, more_env=env)


@pytest.fixture(autouse=True)
def unswept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedd sweeps its spool by itself, too, at its start and every minute: here it leaves that to preen."""
    monkeypatch.setattr(spooling, "_sweep", lambda root, knows: None)


async def test_directories_of_jobs_that_left_the_queue_are_removed(schedd: RunningAccessPoint) -> None:
    cluster = await schedd.submit(1, JobStatus=5)
    jobs = schedd.home.spool / "jobs"
    own, gone, strange = jobs / str(cluster) / "0", jobs / str(cluster + 1) / "0.new", jobs / "notes" / "0"
    for path in (own, gone, strange):
        path.mkdir(parents=True)
        (path / "file").touch()
    kept = await preen(schedd, VALID_SPOOL_FILES="lost*, jo*")
    assert (kept.status, kept.out) == (0, ""), kept.err
    listed = await preen(schedd, "-verbose")
    assert f"{own} - OK\n" in listed.out and f"{gone} - BAD\n  {gone} - Not Removed\n" in listed.out
    assert str(strange) not in listed.out and gone.exists()
    (row,) = json.loads((await preen(schedd, "-json")).out)
    assert row == {"Path": str(gone), "Stale": True, "About": row["About"], "Removed": None}
    removed = await preen(schedd, "-remove")
    assert (removed.status, removed.out) == (0, f"  {gone} - Removed\n"), removed.err
    assert own.exists() and strange.exists() and not gone.exists()


async def test_nothing_of_a_daemon_that_does_not_answer_is_removed(schedd: RunningAccessPoint) -> None:
    gone, run = schedd.home.spool / "jobs" / "77" / "0", schedd.home.execute / "dir_1_1"
    gone.mkdir(parents=True)
    run.mkdir()
    address.address_file(schedd.home, "schedd").unlink()
    done = await preen(schedd, "-remove", "-verbose")
    assert done.status == 1 and gone.exists() and run.exists()
    assert str(gone) not in done.out and str(run) not in done.out
    assert "Assuming all job id's are still current." in done.err
    assert "Error getting startd state, not cleaning execute directory." in done.err


async def test_directories_of_runs_go_once_no_slot_is_claimed_and_no_starter_knows_them(
    schedd: RunningAccessPoint, startd: _Startd, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = schedd.home.execute
    known, left = execute / "dir_1_1", execute / "dir_1_2"
    for path in (known, left):
        (path / "scratch").mkdir(parents=True)
    control = schedd.home.root / "control"
    control.mkdir()
    (known / "htcondor").symlink_to(control)
    (left / "htcondor").symlink_to(control / "gone")
    (execute / ".images").mkdir()
    assert (await preen(schedd, "-remove")).out == ""  # younger than half an hour
    later = time.time() + 3600
    monkeypatch.setattr("slotwise.cli.host.preen.time.time", lambda: later)
    startd.state = "Claimed"
    assert (await preen(schedd, "-remove")).out == ""
    startd.state = "Owner"
    assert (await preen(schedd, "-remove")).out == f"  {left} - Removed\n"
    assert known.exists() and (execute / ".images").exists() and not left.exists()


async def test_the_list_is_mailed(schedd: RunningAccessPoint, tmp_path: Path) -> None:
    (schedd.home.log / "junk").touch()
    mailer, mail = tmp_path / "mailer", tmp_path / "mail"
    mailer.write_text(f"#!/bin/sh\ncat > {mail}\n")
    mailer.chmod(0o755)
    knobs = {"INVALID_LOG_FILES": "junk", "PREEN_ADMIN": "root@here"}
    failed = await preen(schedd, "-mail", SENDMAIL="/nonexistent", MAIL="/nonexistent", **knobs)
    assert failed.status == 2 and "no mail program" in failed.err and "junk - Not Removed" in failed.err
    sent = await preen(schedd, "-mail", "-remove", SENDMAIL=str(mailer), **knobs)
    assert (sent.status, sent.out) == (0, ""), sent.err
    text = mail.read_text()
    assert "To: root@here" in text and "1 old file found" in text and f"{schedd.home.log / 'junk'} - Removed" in text


def test_of_core_files_the_old_and_the_large_are_stale() -> None:
    def core(name: str, size: int, age_s: float) -> LogFile:
        return LogFile(Path("/log") / name, size, 1000 * DAY - age_s)

    files = [
        core("core.1", 10, 61 * DAY), core("core.2", 10, DAY), core("core.3", 150, 1), core("core.4", 250, 2),
        core("core.5", 101, 3), core("SCHEDD.core.log", 10**6, 90 * DAY), core("StartLog", 10**9, 90 * DAY),
    ]  # fmt: skip
    found = judge_logs(files, LogRules(core_size=100, core_age_s=60 * DAY), 1000 * DAY)
    assert [one.path.name for one in found if one.stale] == ["core.1", "core.5"]
