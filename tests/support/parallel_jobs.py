"""Parallel jobs at an access point in this process: submitted, and waited for."""

from __future__ import annotations

from typing import Any

from slotwise.schedd.claims.records import ClaimTable

from tests.support.access_point import RunningAccessPoint


def submit(schedd: RunningAccessPoint, nodes: int, procs: int = 1, **attributes: Any) -> Any:
    wanted = {"JobUniverse": 11, "MinHosts": nodes, "MaxHosts": nodes, "UserLog": "job.log", **attributes}
    return schedd.submit(procs, **wanted)


def table(schedd: RunningAccessPoint) -> ClaimTable:
    return schedd.point.claiming.claim_table


async def gathered(schedd: RunningAccessPoint, claims: int) -> None:
    await schedd.until(lambda: len(table(schedd).idle()) == claims)


async def executes(schedd: RunningAccessPoint, nodes: int) -> None:
    await schedd.until(lambda: sum(run.executing_at > 0 for run in table(schedd).runs.values()) == nodes)


async def slots_wanted(schedd: RunningAccessPoint) -> None:
    await schedd.until(schedd.point.claiming.dedicated.idle_count)


async def finished(schedd: RunningAccessPoint) -> None:
    """All jobs have left, and the event log says so."""
    await schedd.until_gone()
    await schedd.point.committer._idle.wait()


def entries(schedd: RunningAccessPoint) -> list[tuple[int, int]]:
    """Number and node of each entry of the event log."""
    lines = (schedd.home.root / "job.log").read_text().splitlines()
    heads = [line for line in lines if line[:3].isdigit() and line[3:5] == " ("]
    return [(int(line[:3]), int(line[5:].partition(")")[0].split(".")[2])) for line in heads]
