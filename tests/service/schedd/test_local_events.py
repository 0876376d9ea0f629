"""Event logs of jobs on the access point are HTCondor's, entry by entry: recorded there, and compared with ours.

In the record ``<A>`` is an address, ``T`` a CPU time (HTCondor's are always 0 here), ``U`` the user.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ExprTree

from tests.service.schedd.test_local_universe import LOCAL, SCHEDULER, World, world

__all__ = ["world"]
RECORD = Path(__file__).parents[2] / "conformance" / "local-job-events.jsonl"
CASES = [json.loads(line) for line in RECORD.read_text().splitlines()]
POLICY = "JobStatus == 2 && time() - EnteredCurrentStatus > 3"
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "ok": ("exit 0", {}),
    "code": ("exit 3", {}),
    "onhold": ("exit 3", {"OnExitHold": True}),
    "phold": ("exec sleep 600", {"PeriodicHold": ExprTree(POLICY)}),
    "badexe": ("", {"Cmd": "/etc/passwd", "Arguments": ""}),
    "sig": ("kill -9 $$", {}),
    "hold": ("exec sleep 600", {}),
    "rm": ("exec sleep 600", {}),
    "requeue": ("exit 3", {"OnExitRemove": ExprTree("NumJobStarts > 1")}),
}
#: What a user does to the job once it runs.
ACTIONS = {"hold": "HOLD", "rm": "REMOVE"}


def entries(text: str, user: str) -> list[str]:
    """The entries of a log as the record has them; those about memory come when they like."""
    found = []
    for entry in text.split("...\n"):
        entry = re.sub(r"\(\d+\.\d+\.\d+\) \S+ \S+ ", "", entry)
        entry = re.sub(r"<[^>]*>", "<A>", entry)
        entry = re.sub(r"Sys .*?  -", "Sys T  -", re.sub(r"Usr .*?,", "Usr T,", entry))
        # HTCondor names its users with their domain only where it is another one.
        entry = re.sub(rf"by user {user}(@\S+?)?\)", "by user U)", entry)
        entry = re.sub(r"evaluated to true", "evaluated to TRUE", entry)
        if entry.strip() and not entry.startswith("006"):
            found.append(entry)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['universe']}-{case['case']}")
async def test_entries_are_those_of_htcondor(world: World, case: dict[str, Any]) -> None:
    wanted: list[str] = case["entries"]
    if (case["universe"], case["case"]) == ("local", "badexe"):
        wanted = [entry for entry in wanted if not entry.startswith("001")]  # ours has not begun to execute
    script, attributes = JOBS[case["case"]]
    await world.submit(script, SCHEDULER if case["universe"] == "scheduler" else LOCAL, **attributes)
    if case["case"] in (*ACTIONS, "phold"):

        async def executes() -> bool:
            return "\n001 (" in world.text("job.log")

        await world.schedd.until(executes)
    if case["case"] in ACTIONS:
        await world.schedd.act(ACTIONS[case["case"]], "true")

    async def logged() -> bool:
        if case["case"] == "phold":
            world.schedd.point.periodic.evaluate()
        return len(entries(world.text("job.log"), world.user)) >= len(wanted)

    await world.schedd.until(logged)
    assert entries(world.text("job.log"), world.user) == wanted
