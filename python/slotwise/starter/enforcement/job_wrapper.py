"""The program that starts each job (USER_JOB_WRAPPER), and what it says when it cannot."""

from __future__ import annotations

from pathlib import Path

from slotwise.execution.exit_status import STARTER_ERROR, End, How
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.enforcement.privilege import read_small

#: Where a wrapper writes why it failed (_CONDOR_WRAPPER_ERROR_FILE).
WRAPPER_FAILURE = ".job_wrapper_failure"


def wrapper_failure(scratch: Path, identity: Identity) -> End | None:
    """What becomes of a job whose wrapper (USER_JOB_WRAPPER) says that it could not start it."""
    try:
        said = read_small(scratch / WRAPPER_FAILURE, identity, 1000).strip().replace("\n", "|")
    except OSError:
        return None
    return End(How.EVICTED, reason=f"The job wrapper failed to execute the job: {said}", reason_code=STARTER_ERROR)
