"""The instructions that the life cycle of a run gives."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from slotwise.schedd.jobs.decision import Kill, RunOutcome
from slotwise.schedd.lifecycle.run_events import EndReport


class Activate(Struct, frozen=True):
    """Ask the startd to run the job, unless the job has been taken back."""


class SendActivation(Struct, frozen=True):
    """Ask the startd to run the job; at most one run of this id comes of it."""


class Deactivate(Struct, frozen=True):
    """Have the startd end the run."""

    kill: Kill


class SendAccepted(Struct, frozen=True):
    """Tell the starter that the run is accepted; ``with_job``: with the job's ad. ``asks``: it says when it wants the
    input files."""

    with_job: bool
    asks: bool = False


class BeginTransfer(Struct, frozen=True):
    """Files move: ``executing``: those that the job needs are there; ``asks``: the starter says when it wants them."""

    executing: bool
    asks: bool = False


class SendKill(Struct, frozen=True):
    """Have the starter end the run."""

    kill: Kill


class LogExecuting(Struct, frozen=True):
    """Record that the job executes (event 001). ``slot``: what the log tells of the slot, as texts."""

    slot: Mapping[str, str]


class LogDisconnected(Struct, frozen=True):
    """Record that the run is out of reach (event 022)."""

    reason: str


class LogReconnected(Struct, frozen=True):
    """Record that its starter is back (event 023)."""


class TakeEnd(Struct, frozen=True):
    """Put results in place and take the end over."""

    end: EndReport


class GiveUp(Struct, frozen=True):
    """End the run without a report of its starter: what becomes of the job follows from ``how``."""

    how: RunOutcome
    reason: str
    code: int
    subcode: int = 0


class Abandon(Struct, frozen=True):
    """End a run that the access point failed at: its job runs again."""

    reason: str


class ReleaseClaim(Struct, frozen=True):
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
