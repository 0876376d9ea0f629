"""JobStatus: the states of a job in the queue."""

from __future__ import annotations

from enum import IntEnum


class JobStatus(IntEnum):
    """The states of a job in the queue (attribute JobStatus)."""

    IDLE = 1
    RUNNING = 2
    REMOVED = 3
    COMPLETED = 4
    HELD = 5
    TRANSFERRING_OUTPUT = 6
    SUSPENDED = 7
