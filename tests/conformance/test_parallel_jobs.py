"""Event logs of parallel jobs as HTCondor 25.14 wrote them: our entries have the same texts, and tell the same stories.

The jobs had three nodes (two of one proc each in ``two-procs``), and the slots that the entries name.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from slotwise.model import job_events
from slotwise.model.job_events import END, Frame, Usage

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script
from tests.support.parallel_jobs import entries, executes, finished, slots_wanted, submit

RECORDED = Path(__file__).parent / "parallel"
LOGS = sorted(path.stem for path in RECORDED.glob("*.log"))
#: What the nodes of each job did: the exit status by number of the node, and for how long they ran here.
NODES = {
    "node-1-fails": {0: (0, 0.6), 1: (7, 0.2), 2: (2, 60.0)},
    "node-0-ends": {0: (3, 0.2), 1: (1, 60.0), 2: (2, 60.0)},
    "wait-for-all": {0: (3, 0.2), 1: (1, 0.4), 2: (2, 0.6)},
    "two-procs": {0: (0, 0.2), 1: (1, 0.4)},
    "held": {0: (0, 60.0), 1: (0, 60.0), 2: (0, 60.0)},
}


def recorded(name: str) -> list[str]:
    return [entry + END for entry in (RECORDED / f"{name}.log").read_text().split(END) if entry]


def frame_of(entry: str) -> Frame:
    cluster, proc, node, when = re.match(r"\d+ \((\d+)\.(\d+)\.(\d+)\) (\S+ \S+)", entry).groups()  # type: ignore[union-attr]
    return Frame(int(cluster), int(proc), when, int(node))


def story(heads: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The entries in order; nodes start in any order."""
    begins = sorted(head for head in heads if head[0] == 14)
    return [begins.pop(0) if head[0] == 14 else head for head in heads]


@pytest.mark.parametrize("name", LOGS)
def test_entries_of_nodes_have_the_texts_of_htcondor(name: str) -> None:
    told = 0
    for entry in recorded(name):
        frame, lines = frame_of(entry), entry.splitlines()
        if entry.startswith("001"):
            assert job_events.executing_together(frame) == entry
        elif entry.startswith("014"):
            host = lines[0].partition("<")[2].rstrip(">")
            properties = dict(line.strip().split(" = ") for line in lines[2:-1])
            assert job_events.node_executing(frame, host, lines[1].split()[1], properties) == entry
        elif entry.startswith("015"):
            code = int(lines[1].rpartition(" ")[2].rstrip(")"))
            sent, received, total_sent, total_received = (float(line.split()[0]) for line in lines[6:10])
            usage = Usage(sent=sent, received=received, total_sent=total_sent, total_received=total_received)
            assert job_events.node_terminated(frame, normal=True, code=code, usage=usage) == entry
        else:
            continue
        told += 1
    assert told >= 4


@pytest.mark.parametrize("name", LOGS)
async def test_the_log_tells_what_htcondors_tells(tmp_path: Path, name: str) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start()
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    nodes = NODES[name]

    def script(ad: dict[str, int]) -> Script:
        code, seconds = nodes[ad["Node"]]
        return Script(exit_code=code, run_s=seconds)

    point.script = script
    await point.start()
    try:
        policy = {"ParallelShutdownPolicy": "WAIT_FOR_ALL"} if name in ("wait-for-all", "two-procs") else {}
        procs = 2 if name == "two-procs" else 1
        await submit(schedd, len(nodes) // procs, procs, **policy)
        await slots_wanted(schedd)
        await schedd.negotiate(point.address)
        if name == "held":
            await executes(schedd, len(nodes))
            await schedd.act("HOLD", "true")
            await schedd.until(lambda: not schedd.point.claiming.claim_table.gangs)
            await schedd.act("REMOVE", "true")
        await finished(schedd)
        theirs = [(int(entry[:3]), frame_of(entry).node) for entry in recorded(name)]
        assert story(entries(schedd)) == story(theirs)
    finally:
        await point.stop()
        await schedd.stop()
