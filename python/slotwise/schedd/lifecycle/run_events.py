"""What can happen to a run: the events of its life cycle. Moments are on the monotonic clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotwise.schedd.jobs.decision import Kill, RunOutcome
from slotwise.schedd.lifecycle.claim_states import EndedByStartd
from slotwise.schedd.lifecycle.run_states import AtStarter


@dataclass(frozen=True, slots=True)
class EndOfClaim:
    """What the end of a run depends on of its claim: whether it is gone, and why if its startd said so."""

    gone: bool = False
    ended: EndedByStartd | None = None


@dataclass(frozen=True, slots=True)
class EndReport:
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


@dataclass(frozen=True, slots=True)
class ActivationDue:
    """The run is durable, or is asked for again. ``goes_on``: its job is still meant to run."""

    goes_on: bool


@dataclass(frozen=True, slots=True)
class Activated:
    """The startd has activated the claim for it."""


@dataclass(frozen=True, slots=True)
class ActivationRefused:
    """The startd does not start the run."""

    moment: float
    reason: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class Hello:
    """Its starter speaks for it. ``resume``: it has been given the job before; ``asks``: it says when it wants the
    input files."""

    resume: bool
    asks: bool = False


@dataclass(frozen=True, slots=True)
class BeganAnew:
    """Its starter asks for the job of a run that did execute: what ran is lost with its host or its files."""

    claim: EndOfClaim


@dataclass(frozen=True, slots=True)
class JobSent:
    """The starter has been given the job. ``asks``: as in :class:`Hello`."""

    asks: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """The job executes since ``at``, epoch seconds. ``slot``: what the event log tells of the slot, as texts."""

    at: float
    slot: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndReported:
    """Its starter reports the end."""

    end: EndReport


@dataclass(frozen=True, slots=True)
class EndRecorded:
    """The end has been decided, and the run is no longer known."""


@dataclass(frozen=True, slots=True)
class StreamLost:
    """The stream of its starter broke. ``goes_on``: as in :class:`ActivationDue`."""

    moment: float
    lease_s: float
    claim_gone: bool
    goes_on: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ClaimLost:
    """Its claim has gone. ``at_starter`` is what the comparison with its startd knows of the run."""

    moment: float
    at_starter: AtStarter
    claim: EndOfClaim


@dataclass(frozen=True, slots=True)
class StarterListed:
    """A starter has listed its runs."""

    at_starter: AtStarter
    claim: EndOfClaim


@dataclass(frozen=True, slots=True)
class SlotBusy:
    """The startd has listed the run on its slot."""


@dataclass(frozen=True, slots=True)
class SlotIdle:
    """The startd has listed the slot without the run: it never started, or its end is on the way."""

    moment: float
    at_starter: AtStarter
    claim: EndOfClaim


@dataclass(frozen=True, slots=True)
class SlotFreed:
    """The startd says that the run has left the slot."""

    moment: float


@dataclass(frozen=True, slots=True)
class PatienceOver:
    """Its silence has been borne for long enough."""

    moment: float
    claim: EndOfClaim


@dataclass(frozen=True, slots=True)
class KillRequested:
    """The job was held, removed or vacated, or the access point wants the run to end."""

    kill: Kill


@dataclass(frozen=True, slots=True)
class AccessPointFailed:
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
