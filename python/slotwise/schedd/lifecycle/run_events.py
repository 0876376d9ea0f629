"""What can happen to a run: the events of its life cycle. Moments are on the monotonic clock."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from slotwise.schedd.jobs.decision import Kill, RunOutcome
from slotwise.schedd.lifecycle.claim_states import EndedByStartd
from slotwise.schedd.lifecycle.run_states import AtStarter


class EndOfClaim(Struct, frozen=True):
    """What the end of a run depends on of its claim: whether it is gone, and why if its startd said so."""

    gone: bool = False
    ended: EndedByStartd | None = None


class EndReport(Struct, frozen=True):
    """What a starter reports of the end of a run."""

    how: RunOutcome
    #: The exit code, or the signal.
    code: int = 0
    reason: str = ""
    reason_code: int = 0
    reason_subcode: int = 0
    #: When, epoch seconds; 0: not known.
    at: float = 0.0
    core_dumped: bool = False
    #: The usage of the run, packed.
    ad: bytes = b""


class ActivationDue(Struct, frozen=True):
    """The run is durable, or is asked for again. ``goes_on``: its job is still meant to run."""

    goes_on: bool


class Activated(Struct, frozen=True):
    """The startd has activated the claim for it."""


class ActivationRefused(Struct, frozen=True):
    """The startd does not start the run."""

    moment: float
    reason: str
    code: int = 0


class Hello(Struct, frozen=True):
    """Its starter speaks for it. ``resume``: it has been given the job before; ``asks``: it says when it wants the
    input files."""

    resume: bool
    asks: bool = False


class BeganAnew(Struct, frozen=True):
    """Its starter asks for the job of a run that did execute: what ran is lost with its host or its files."""

    claim: EndOfClaim


class JobSent(Struct, frozen=True):
    """The starter has been given the job. ``asks``: as in :class:`Hello`."""

    asks: bool = False


class Started(Struct, frozen=True):
    """The job executes since ``at``, epoch seconds. ``slot``: what the event log tells of the slot, as texts."""

    at: float
    slot: Mapping[str, str] = field(default_factory=dict)


class EndReported(Struct, frozen=True):
    """Its starter reports the end."""

    end: EndReport


class EndRecorded(Struct, frozen=True):
    """The end has been decided, and the run is no longer known."""


class StreamLost(Struct, frozen=True):
    """The stream of its starter broke. ``goes_on``: as in :class:`ActivationDue`."""

    moment: float
    lease_s: float
    claim_gone: bool
    goes_on: bool
    reason: str


class ClaimLost(Struct, frozen=True):
    """Its claim has gone. ``at_starter`` is what the comparison with its startd knows of the run."""

    moment: float
    at_starter: AtStarter
    claim: EndOfClaim


class StarterListed(Struct, frozen=True):
    """A starter has listed its runs."""

    at_starter: AtStarter
    claim: EndOfClaim


class SlotBusy(Struct, frozen=True):
    """The startd has listed the run on its slot."""


class SlotIdle(Struct, frozen=True):
    """The startd has listed the slot without the run: it never started, or its end is on the way."""

    moment: float
    at_starter: AtStarter
    claim: EndOfClaim


class SlotFreed(Struct, frozen=True):
    """The startd says that the run has left the slot."""

    moment: float


class PatienceOver(Struct, frozen=True):
    """Its silence has been borne for long enough."""

    moment: float
    claim: EndOfClaim


class KillRequested(Struct, frozen=True):
    """The job was held, removed or vacated, or the access point wants the run to end."""

    kill: Kill


class AccessPointFailed(Struct, frozen=True):
    """The access point failed at a message of the run. ``kill`` says so to its starter; ``ended``: it is over there."""

    moment: float
    kill: Kill
    ended: bool = False


RunEvent = (
    ActivationDue
    | Activated
    | ActivationRefused
    | Hello
    | BeganAnew
    | JobSent
    | Started
    | EndReported
    | EndRecorded
    | StreamLost
    | ClaimLost
    | StarterListed
    | SlotBusy
    | SlotIdle
    | SlotFreed
    | PatienceOver
    | KillRequested
    | AccessPointFailed
)
