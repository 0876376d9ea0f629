"""Jobs that ask for more after they were stopped for having too little."""

from __future__ import annotations

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.model.reason_codes import Vacate
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.queue import TRANSFER_ON_REMOVE
from slotwise.schedd.policy.evict_transforms import kill_owed, transformed

BODY = (
    "REQUIREMENTS (VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode == 102\x1e"
    "EVALSET RequestMemory RetryRequestMemory[RetryRequestMemoryIndex?:0]\x1e"
    "EVALSET RetryRequestMemoryIndex MIN({size(RetryRequestMemory)-1, (RetryRequestMemoryIndex?:0)+1})"
)


def job(**more: object) -> ClassAd:
    return ClassAd(
        {
            "RequestMemory": 100,
            "TransformOnEvict": "RequestMemory",
            "TransformBody_RequestMemory": BODY,
            "RetryRequestMemory": ExprTree("{200, 400}"),
            **more,
        }
    )


def test_each_eviction_takes_the_next_size() -> None:
    first = transformed(job(), 34, 102, "", 0)
    assert first == {"RequestMemory": 200, "RetryRequestMemoryIndex": 1}
    second = transformed(job(**first), 34, 102, "", 0)
    assert second == {"RequestMemory": 400, "RetryRequestMemoryIndex": 1}


def test_other_evictions_are_not_its_business() -> None:
    assert transformed(job(), 34, 104, "", 0) is None
    assert transformed(job(), 13, 102, "", 0) is None
    assert transformed(ClassAd({"RequestMemory": 1}), 34, 102, "", 0) is None


def test_set_keeps_an_expression() -> None:
    body = "REQUIREMENTS true\x1eSET RequestMemory MemoryUsage * 2"
    changes = transformed(job(TransformBody_RequestMemory=body), 34, 102, "", 0)
    assert changes == {"RequestMemory": "MemoryUsage * 2"}


@pytest.mark.parametrize("asked", [True, False])
def test_the_kill_that_a_restarted_schedd_owes_still_wants_outputs(asked: bool) -> None:
    removed = Job(Cluster(1, "ann", "ann@here", "ann@here", 0, {}), 0, Status.REMOVED)
    removed.run = "1.0#1"
    removed.changes = {"RemoveReason": "why", **({TRANSFER_ON_REMOVE: True} if asked else {})}
    owed = kill_owed(removed)
    assert owed is not None
    assert (owed.reason, owed.code, owed.with_outputs) == ("why", Vacate.JOB_REMOVED, asked)
