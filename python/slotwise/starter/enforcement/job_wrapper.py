"""The program that starts each job (USER_JOB_WRAPPER), and what it says when it cannot."""

from __future__ import annotations

import os
from pathlib import Path

from slotwise.execution.exit_status import STARTER_ERROR, End, How
from slotwise.execution.keeper_spec import Identity, KeeperResult
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


def unfit_wrapper(wrapper: str, why: str = "") -> End:
    """What becomes of a job whose wrapper cannot be run: the fault is the machine's, and the job starts elsewhere.

    HTCondor starts it elsewhere where there is no such program, and holds it where its interpreter is missing.
    """
    reason = f"The job wrapper {wrapper} cannot be run{why and f': {why}'}"
    return End(How.NOT_STARTED, reason=reason, reason_code=STARTER_ERROR)


def unfit_wrapper_of(wrapper: str, result: KeeperResult) -> End | None:
    """The same for a run whose keeper could not execute the wrapper; None if that is not how it ended."""
    if result.how != "failed" or result.stage != "exec":
        return None
    return unfit_wrapper(wrapper, result.detail or os.strerror(result.errno))
