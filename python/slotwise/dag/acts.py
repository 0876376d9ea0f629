"""What a DAG that runs asks for, and what it is told: the rows that ``slotwise._native.DagRun`` takes and gives."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeAlias

#: What to do, the node, and two numbers: of FINISH the exit status and DAG_Status.
Act: TypeAlias = "tuple[str, int, int, int]"


class Do(StrEnum):
    """What is to be done."""

    PRE = "pre"
    POST = "post"
    HOLD = "hold"
    SUBMIT = "submit"
    #: Write the submission and the end of a node that does nothing into the nodes log.
    NOOP = "noop"
    #: Write into the nodes log that a node's PRE script has made it done.
    PRE_SKIP = "pre_skip"
    SAVE_POINT = "save_point"
    REMOVE_JOBS = "remove_jobs"
    REMOVE_ALL = "remove_all"
    RESCUE = "rescue"
    FINISH = "finish"


class Happened(NamedTuple):
    """An event. ``number``: the job's process in its cluster, or what the name says; ``value``: an exit status, or the
    negative number of a signal."""

    name: str
    node: int = 0
    number: int = 0
    value: int = 0


class NodeStatus(IntEnum):
    """NodeStatus in node status files."""

    NOT_READY = 0
    READY = 1
    PRERUN = 2
    SUBMITTED = 3
    POSTRUN = 4
    DONE = 5
    ERROR = 6
    FUTILE = 7


class DagStatus(IntEnum):
    """DAG_Status of the DAG's job."""

    OK = 0
    ERROR = 1
    NODE_FAILED = 2
    ABORTED = 3
    REMOVED = 4
    CYCLE = 5
    HALTED = 6


__all__ = ["Act", "DagStatus", "Do", "Happened", "NodeStatus"]
