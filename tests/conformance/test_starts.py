"""Which jobs start on which slots, and which claims they reuse, as on HTCondor 25.14.1 (starts.json).

HTCondor's execution point never evaluates the job's Requirements, and evaluates the machine's three times: of the
partitionable slot, of the dynamic slot that it has carved, and of that one again with the job that is to run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ExprTree
from slotwise.startd.host.outbox import Granted, Refused
from slotwise.startd.records.slot_record import Job

from tests.support.startd_point import Point, job, point

CASES: dict[str, list[Any]] = json.loads(Path(__file__).with_name("starts.json").read_text())
#: What the schedd changes in a job that it starts.
STARTED: dict[str, Any] = {
    "JobStatus": 2, "NumShadowStarts": 1, "NumJobMatches": 1, "JobRunCount": 1, "CurrentHosts": 1,
    "RemoteHost": "slot1_1@host", "LastMatchTime": 1_000_000, "MachineAttrCpus0": 1, "EnteredCurrentStatus": 1_000_000,
}  # fmt: skip


def of_16_cores(**knobs: str) -> Point:
    whole = {"NUM_SLOTS_TYPE_1": "1", "SLOT_TYPE_1": "100%", "SLOT_TYPE_1_PARTITIONABLE": "true"}
    return point(None, **{"NUM_CPUS": "16", "MEMORY": "64000", **whole, **knobs})


def waiting(**attributes: Any) -> Job:
    return job(JobStatus=1, CurrentHosts=0, EnteredCurrentStatus=999_000, **attributes)


def what_becomes(p: Point, **attributes: Any) -> str:
    answer = p.request(wanted=waiting(**attributes))
    if isinstance(answer, Refused):
        return "refused at the claim"
    assert isinstance(answer, Granted)
    refused = p.activate(answer.slots[0][0], wanted=job(**{**attributes, **STARTED}))
    return "refused at activation" if refused is not None else "runs"


@pytest.mark.parametrize(("start", "theirs"), CASES["start"])
def test_start_is_asked_of_the_free_slot_the_carved_one_and_the_claimed_one(start: str, theirs: str) -> None:
    ours = what_becomes(of_16_cores(START=start), ByType=True)
    assert (ours == "runs") == (theirs == "runs")
    if "State " not in start:  # HTCondor's slots are in Owner for a moment, ours in Claimed
        assert ours == theirs


@pytest.mark.parametrize("requirements", CASES["requirements"])
def test_the_execution_point_does_not_ask_what_the_job_requires(requirements: str) -> None:
    assert what_becomes(of_16_cores(), Requirements=ExprTree(requirements)) == "runs"


@pytest.mark.parametrize(("requirements", "claims"), CASES["reuse"])
def test_a_job_follows_another_on_a_claim_when_it_matches_the_claimed_slot(requirements: str, claims: int) -> None:
    p = of_16_cores()
    p.claim(wanted=waiting())
    following = waiting(Requirements=ExprTree(requirements))
    assert following.ad.symmetric_match(p.ad("slot1_1")) == (claims == 1)


@pytest.mark.parametrize("case", CASES["consumption"], ids=lambda case: json.dumps(case["knobs"]))
def test_a_consumption_policy_gives_the_slots_that_it_says_and_jobs_run_on_them(case: dict[str, Any]) -> None:
    p = point(NUM_CPUS="8", MEMORY="16000", CONSUMPTION_POLICY="true", **case["knobs"])
    slots = []
    for number in range(6):
        granted = p.request(wanted=waiting(ProcId=number))
        if isinstance(granted, Refused):
            break
        ((claim_id, name),) = granted.slots
        assert p.activate(claim_id, f"1.{number}#1", job(ProcId=number, **STARTED)) is None
        made = p.it.slots[name].total
        slots.append([made.cpus, made.memory_mib])
    assert slots == case["slots"]
