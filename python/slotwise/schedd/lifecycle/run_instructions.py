"""The instructions that the life cycle of a run gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slotwise.schedd.jobs.decision import Kill, RunOutcome
from slotwise.schedd.lifecycle.run_events import EndReport


@dataclass(frozen=True, slots=True)
class Activate:
    """Ask the startd to run the job, unless the job has been taken back."""


@dataclass(frozen=True, slots=True)
class SendActivation:
    """Ask the startd to run the job; at most one run of this id comes of it."""


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Have the startd end the run."""

    kill: Kill


@dataclass(frozen=True, slots=True)
class SendAccepted:
    """Tell the starter that the run is accepted; ``with_job``: with the job's ad. ``asks``: it says when it wants the
    input files."""

    with_job: bool
    asks: bool = False


@dataclass(frozen=True, slots=True)
class BeginTransfer:
    """Files move: ``executing``: those that the job needs are there; ``asks``: the starter says when it wants them."""

    executing: bool
    asks: bool = False


@dataclass(frozen=True, slots=True)
class SendKill:
    """Have the starter end the run."""

    kill: Kill


@dataclass(frozen=True, slots=True)
class LogExecuting:
    """Record that the job executes (event 001). ``slot``: what the log tells of the slot, as texts."""

    slot: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LogDisconnected:
    """Record that the run is out of reach (event 022)."""

    reason: str


@dataclass(frozen=True, slots=True)
class LogReconnected:
    """Record that its starter is back (event 023)."""


@dataclass(frozen=True, slots=True)
class TakeEnd:
    """Put results in place and take the end over."""

    end: EndReport


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the run without a report of its starter: what becomes of the job follows from ``how``."""

    how: RunOutcome
    reason: str
    code: int
    subcode: int = 0


@dataclass(frozen=True, slots=True)
class Abandon:
    """End a run that the access point failed at: its job runs again."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReleaseClaim:
    """Give the claim back; the run may still report its end."""

    reason: str


#: Those that the shadow carries out.
ShadowInstruction = SendAccepted | BeginTransfer | SendKill | LogExecuting | TakeEnd
RunInstruction = (
    Activate
    | SendActivation
    | Deactivate
    | LogDisconnected
    | LogReconnected
    | GiveUp
    | Abandon
    | ReleaseClaim
    | ShadowInstruction
)
