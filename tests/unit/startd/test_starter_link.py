"""What the startd makes of the starter's events at the start of a stream."""

from __future__ import annotations

from pathlib import Path

from slotwise.home import PoolHome
from slotwise.startd.starter_link import StarterLink
from slotwise.wire.gen import starter_pb2

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
