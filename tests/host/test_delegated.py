"""A starter that is not root, in a cgroup subtree that was given to it: version 1 and 2, as the host has them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slotwise.execution.cgroup.probe import V1_WANTED, CgroupHost
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.ads import number_of, texts_of
from tests.support.hiding import HIDER, hidden_pid, let_go
from tests.support.starter_bench import StarterBench, is_alive, job_python, processes_below, starter_bench
from tests.support.waiting import block_until

pytestmark = pytest.mark.host
EXITED, HELD = schedd_pb2.RunEnded.EXITED, schedd_pb2.RunEnded.HELD
EVICTED = schedd_pb2.RunEnded.EVICTED
NOBODY = 65534
MOUNT = Path("/sys/fs/cgroup")
WITHOUT_ROOT: dict[str, Any] = {"CREATE_CGROUP_WITHOUT_ROOT": "true"}
HOG = "b = bytearray()\nwhile True: b += bytes(8 << 20)"


def _give(group: Path) -> None:
    """Delegate a group: the directory and the files that hand it on."""
    group.mkdir()
    for path in (
        group,
        *(group / name for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads", "tasks")),
    ):
        if path.exists():
            os.chown(path, NOBODY, NOBODY)


def _remove(group: Path) -> None:
    """Remove a group whose last processes may still be dying."""

    def removed() -> bool:
        try:
            group.rmdir()
        except OSError:
            return False
        return True

    block_until(removed, f"{group} is removed", told=lambda: (group / "cgroup.procs").read_text())


@pytest.fixture
def delegated(root: None, cgroups: CgroupHost) -> Iterator[tuple[Path, ...]]:
    """A subtree of each hierarchy that belongs to an ordinary account."""
    name = f"delegated-{uuid.uuid4().hex[:8]}"
    host.need(host.cgroup("memory", cgroups.version))
    assert cgroups.has("memory"), cgroups.problems
    tops = [MOUNT] if cgroups.version == 2 else [MOUNT / c for c in V1_WANTED if c in cgroups.controllers]
    made: list[Path] = []
    try:
        for top in tops:
            _give(top / name)
            made.append(top / name)
        yield tuple(made)
    finally:
        for group in made:
            below = sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)
            for path in [*below, group]:
                _remove(path)


def groups_below(delegated: tuple[Path, ...]) -> list[str]:
    """Groups of jobs in the subtree."""
    return [str(path) for top in delegated for path in top.rglob("*dir*") if path.is_dir()] + [
        str(path) for top in delegated for path in top.rglob("*slot*") if path.is_dir()
    ]


def tasks_of(bench: StarterBench, delegated: tuple[Path, ...]) -> Path:
    """The directory of the only job's group in the hierarchy that counts processes."""
    top = next((path for path in delegated if path.parent.name == "pids"), delegated[0])
    (found,) = (path for path in top.rglob("pids.max") if "slot1_" in path.parent.name and ".scope" not in str(path))
    return found.parent


async def test_limits_hold_in_a_delegated_subtree(delegated: tuple[Path, ...], cgroups: CgroupHost) -> None:
    async with starter_bench(NOBODY, delegated, SLOTWISE_JOB_MAX_PROCESSES=50, **WITHOUT_ROOT) as bench:
        facts = await bench.facts()
        assert facts.eval("CgroupVersion") == cgroups.version and facts.eval("EnforcesMemory") is True
        assert facts.eval("ProcessTracking") == "cgroup" and facts.eval("HasUserSwitch") is False
        gaps = texts_of(facts, "EnforcementGaps")
        assert any("not root" in gap for gap in gaps)
        run = bench.submit(job_python(), "-S", "-c", HOG, slot={"Memory": 48})
        ended = await bench.ended(run)
        assert (ended.how, ended.reason_code, ended.reason_subcode) == (HELD, 34, 102), ended
        spin = "import os, time\nwhile time.process_time() < 0.3: pass\nprint(os.getuid())"
        run = bench.submit(job_python(), "-S", "-c", spin)
        assert (await bench.ended(run)).how == EXITED
        assert bench.output(run) == f"{NOBODY}\n"
        end = bench.shadow.runs[run].end_ad
        assert (
            number_of(end, "RemoteUserCpu") + number_of(end, "RemoteSysCpu") >= 0.25
            and end.eval("CgroupEnforced") is True
        )
        bomb = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.01)"
        run = bench.submit(job_python(), "-S", "-c", bomb)
        await bench.running(run)
        group = tasks_of(bench, delegated)
        assert (group / "pids.max").read_text() == "50\n"
        await bench.eventually(lambda: int((group / "pids.current").read_text()) >= 40, "the bomb goes off")
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        assert (await bench.ended(run)).how == EVICTED
        await bench.clean()
        assert groups_below(delegated) == []


async def test_families_are_stopped_and_ended_in_a_delegated_subtree(delegated: tuple[Path, ...]) -> None:
    async with starter_bench(NOBODY, delegated, **WITHOUT_ROOT) as bench:
        run = bench.submit(job_python(), "-S", "-c", HIDER)
        pid = await hidden_pid(bench)
        let_go(bench)
        assert (await bench.ended(run)).how == EXITED
        assert not is_alive(pid)
        run = bench.submit("/bin/sh", "-c", "while :; do :; done & while :; do :; done")
        await bench.running(run)
        startd = bench.startd
        assert startd is not None
        startd.command(run, suspend={"resume": False})
        await bench.eventually(lambda: startd.of(run, "suspended"), "it stands still")
        startd.command(run, suspend={"resume": True})
        await bench.eventually(lambda: len(startd.of(run, "suspended")) == 2, "it goes on")
        await bench.kill_9()
        await bench.start()
        await bench.eventually(lambda: bench.shadow.runs[run].accepted >= 2, "it is taken up again")
        assert bench.startd is not None
        bench.startd.command(run, kill={"fast": True})
        assert (await bench.ended(run)).how == EVICTED
        await bench.clean()
        assert processes_below(bench.execute) == [] and groups_below(delegated) == []
        assert not [path for top in delegated for path in top.rglob("*-daemons/*") if path.is_dir()]


async def test_without_the_knob_nothing_is_touched_and_the_gaps_are_told(delegated: tuple[Path, ...]) -> None:
    async with starter_bench(NOBODY, delegated) as bench:
        facts = await bench.facts()
        assert facts.eval("CgroupVersion") == 0 and facts.eval("ProcessTracking") == "descent"
        gaps = " ".join(texts_of(facts, "EnforcementGaps"))
        for words in ("CREATE_CGROUP_WITHOUT_ROOT", "memory is measured", "CPU shares", "number of processes"):
            assert words in gaps and words in bench.log()
        run = bench.submit(job_python(), "-S", "-c", HIDER)
        await hidden_pid(bench)
        let_go(bench)
        assert (await bench.ended(run)).how == EXITED
        await bench.clean()
        await bench.eventually(lambda: not processes_below(bench.execute), "nothing of the job lives")
