"""What becomes of runs that cannot be prepared."""

from __future__ import annotations

import errno
import os

from slotwise.daemon.host_faults import is_of_the_host
from slotwise.errors import SlotwiseError
from slotwise.execution.exit_status import (
    IWD_ERROR,
    OUT_OF_DISK_SUBCODE,
    OUT_OF_RESOURCES,
    STARTER_ERROR,
    End,
    How,
    held,
)
from slotwise.execution.job_view import JobView

#: Stands for the job while its ad is not known.
NO_JOB = JobView(job_id="0.0", cmd="", arguments=(), environment={}, iwd="/", stdin="", stdout="", stderr="", owner="")


class LaunchRefusedError(SlotwiseError):
    """The job cannot be started; ``end`` is what the run ends with."""

    code = "launch_refused"

    def __init__(self, end: End) -> None:
        super().__init__(end.reason)
        self.end = end


def scratch_failure(error: OSError, *, at_start: bool = False) -> End:
    """What becomes of a run whose scratch directory the file system refuses: on hold, with the reason; back to the
    queue where the host is at fault.

    :param at_start: there is nothing of the job in it yet, so that no error can be the job's.
    """
    number = error.errno or errno.EIO
    where = (
        error.filename2 or error.filename or "the scratch directory"
    )  # of a link, what was made, not what it leads to
    reason = f"Cannot write to {where}: {os.strerror(number)} (errno {number})"
    if at_start or is_of_the_host(number):
        return End(How.EVICTED, reason=reason, reason_code=STARTER_ERROR, reason_subcode=number)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return held(reason, OUT_OF_RESOURCES, OUT_OF_DISK_SUBCODE)
    return held(reason, IWD_ERROR, number)


def failure(error: OSError | SlotwiseError) -> End:
    """What becomes of a run that could not be prepared."""
    if isinstance(error, OSError):
        return scratch_failure(error)
    if isinstance(error, LaunchRefusedError):
        return error.end
    return End(How.NOT_STARTED, reason=str(error), reason_code=STARTER_ERROR)
