"""Where a run is, and what its state machine (`lifecycle`) knows of it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from slotwise.execution.exit_status import End, Kill


class Phase(StrEnum):
    """Where a run is. The startd advertises the values."""

    OFFERED = "offered"
    #: A hook runs before the input files are requested.
    PREPARING = "prepare_transfer"
    INPUT = "transfer_input"
    STARTING = "starting"
    RUNNING = "running"
    #: The job ended to be started again; its checkpoint is being sent.
    CHECKPOINT = "checkpoint"
    OUTPUT = "transfer_output"
    ENDED = "ended"
    GONE = "gone"


class RunState(Struct, frozen=True):
    """All that the life cycle depends on."""

    phase: Phase = Phase.OFFERED
    pid: int = 0
    #: The job has executed, in this start or one before a checkpoint.
    executed: bool = False
    suspended: bool = False
    #: Whether the job is to be suspended; one that has not started yet is suspended as soon as it has.
    pause: bool = False
    kill: Kill | None = None
    end: End | None = None
    #: Which outputs go back: ``all``, ``streams`` (standard output and error), ``unready`` (the same of a job that was
    #: never started), ``live`` (the rest of the streams that are sent while the job runs) or ``none``.
    outputs: str = "none"
    #: The job names files that are to go back when it fails (FailureFiles).
    tells_why: bool = False
    #: The slot has been reported as free to the startd.
    reported_gone: bool = False
    #: Nobody wants the result: the run ends and is cleaned up.
    unwanted: bool = False
