"""What the startd makes of the starter's events at the start of a stream."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from slotwise.home import PoolHome
from slotwise.startd.starter_link import StarterLink
from slotwise.wire.gen import starter_pb2

from tests.support.waiting import LIMIT_S

REPAIRED = starter_pb2.JobEvent(run_id="1.0#1", repaired=starter_pb2.JobRepaired())
GONE = starter_pb2.JobEvent(run_id="2.0#1", gone=starter_pb2.JobGone())
LIST = starter_pb2.JobEvent(jobs=starter_pb2.JobList())


async def test_what_comes_before_the_list_of_runs_is_in_the_list(tmp_path: Path) -> None:
    told: list[str] = []
    link = StarterLink(
        PoolHome(tmp_path),
        lambda _target: (),
        lambda events: told.extend(str(event.WhichOneof("what")) for event in events),
        lambda _listed: told.append("list"),
    )
    link.take([REPAIRED, GONE])
    assert told == []
    link.take([GONE, LIST, GONE])
    assert told == ["list", "gone"]
    link.take([REPAIRED])
    assert told == ["list", "gone", "repaired"]


async def test_a_starter_is_left_to_the_master_where_there_is_one(tmp_path: Path) -> None:
    home, spawned = PoolHome(tmp_path), asyncio.Event()
    home.create()
    hold = (
        "import sys; from pathlib import Path; from slotwise.home import PoolHome; from slotwise.daemon import lock\n"
        "held = lock.DaemonLock(PoolHome(Path(sys.argv[1])), 'master'); print('held', flush=True); sys.stdin.read()"
    )
    pipe = asyncio.subprocess.PIPE
    master = await asyncio.create_subprocess_exec(sys.executable, "-c", hold, str(tmp_path), stdin=pipe, stdout=pipe)
    assert master.stdout is not None and master.stdin is not None
    assert await master.stdout.readline() == b"held\n"
    link = StarterLink(home, lambda _: (), lambda _: None, lambda _: None, spawn=spawned.set, patience_s=0.05)
    waiting = asyncio.create_task(link.target())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(spawned.wait(), 0.5)
    master.stdin.close()
    await master.wait()
    await asyncio.wait_for(spawned.wait(), LIMIT_S)
    waiting.cancel()
