"""A schedd that records the steps of its claims and runs: `slotwise schedd replay` ends in the same states."""

from __future__ import annotations

import stat
from pathlib import Path

from slotwise.schedd.lifecycle.replay import retold

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint, Script

KNOB = "SLOTWISE_SCHEDD_STIMULI_MAX_KIB"


async def test_what_a_schedd_recorded_before_and_after_its_death_ends_as_it_did(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(**{KNOB: "1000"})
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()

    async def two_execute() -> bool:
        return sum(run.executing_at > 0 for run in schedd.point.claiming.claim_table.runs.values()) == 2

    async def two_speak() -> bool:
        return sum(run.stream is not None for run in schedd.point.claiming.claim_table.runs.values()) == 2

    try:
        await schedd.submit(3)
        await schedd.negotiate(point.address)
        await schedd.until_gone()
        point.script = lambda ad: Script(until_killed=True)
        await schedd.submit(2)
        await schedd.negotiate(point.address)
        await schedd.until(two_execute)
        secrets = {claim.id.rpartition("#")[2] for claim in schedd.point.claiming.claim_table.claims.values()}
        secrets |= {run.token for run in schedd.point.claiming.claim_table.runs.values()}
        await schedd.kill()
        await schedd.start(**{KNOB: "1000"})
        await schedd.until(two_speak)
        await schedd.act("REMOVE", "true")
        await schedd.until_gone()
    finally:
        await point.stop()
        await schedd.stop()
    path = schedd.home.log / "schedd-stimuli.jsonl"
    text = path.read_text()
    steps = [retold(line) for line in text.splitlines()]
    assert all(step.same for step in steps)
    assert {"Granted", "RunBegun", "Hello", "Started", "ClaimListed", "KillRequested", "EndReported"} <= {
        step.stimulus for step in steps
    }
    over = {step.name for step in steps if step.kind == "run" and step.after == "Over"}
    assert over == {step.name for step in steps if step.kind == "run"} and len(over) == 5
    assert len(secrets) == 4 and not any(secret in text for secret in secrets)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_record_stays_bounded(tmp_path: Path) -> None:
    schedd = await RunningAccessPoint(tmp_path / "pool").start(**{KNOB: "8"})
    point = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await point.start()
    try:
        await schedd.submit(20)
        await schedd.negotiate(point.address)
        await schedd.until_gone()
    finally:
        await point.stop()
        await schedd.stop()
    path = schedd.home.log / "schedd-stimuli.jsonl"
    old = path.with_name(path.name + ".old")
    assert 0 < path.stat().st_size <= 8192 and 0 < old.stat().st_size <= 8192
    assert all(retold(line).same for line in (old.read_text() + path.read_text()).splitlines())
