"""What `analyze` says of a held job, and of one whose request has no value."""

from __future__ import annotations

import io
import json
from pathlib import Path

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch

SLOT = """MyType = "Machine"
Name = "slot1@a"
Machine = "a"
Cpus = 4
Memory = 8000
Disk = 100000
State = "Unclaimed"
Requirements = true
"""
JOB = """MyType = "Job"
ClusterId = 7
ProcId = 0
Owner = "alice"
User = "alice@x"
JobUniverse = 5
RequestCpus = 1
Requirements = TARGET.Memory >= RequestMemory
"""


def analyzed(tmp_path: Path, job: str, *words: str) -> str:
    (tmp_path / "slots").write_text(SLOT)
    (tmp_path / "jobs").write_text(job)
    out = io.StringIO()
    inv = Invocation(tmp_path, {"SLOTWISE_HOME": str(tmp_path / "home")}, io.StringIO(), out, out)
    assert dispatch(["analyze", "7.0", "--slots", "slots", "--jobs", "jobs", *words], inv) == 0, out.getvalue()
    return out.getvalue()


def test_a_held_job_is_answered_with_its_code_and_what_to_do_and_nothing_else(tmp_path: Path) -> None:
    held = (
        'JobStatus = 5\nHoldReason = "Job has gone over memory limit"\nHoldReasonCode = 34\nHoldReasonSubCode = 102\n'
    )
    said = analyzed(tmp_path, JOB + "RequestMemory = 100\n" + held)
    assert "held: Job has gone over memory limit" in said
    assert "Hold code 34, subcode 102." in said and "qedit JOB RequestMemory" in said
    assert "CLAUSE" not in said and "share" not in said
    report = json.loads(analyzed(tmp_path, JOB + "RequestMemory = 100\n" + held, "--json"))
    assert report["held"]["code"] == 34 and report["held"]["subcode"] == 102 and report["held"]["action"]


def test_a_request_without_a_value_is_named_and_not_only_its_clause(tmp_path: Path) -> None:
    said = analyzed(tmp_path, JOB + "RequestMemory = lots\nJobStatus = 1\n")
    assert "What the job asks for has no value\n  request_memory = lots has no value: nothing defines lots" in said
    assert "has no value" not in analyzed(tmp_path, JOB + "RequestMemory = 100\nJobStatus = 1\n")
