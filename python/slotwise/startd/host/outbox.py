"""What follows from the decisions of an execution point: messages, commands, ads to advertise, slots to save.

Deciding code fills an :class:`Outbox`; the edge empties it after each batch, journal first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from slotwise.classad.evaluate import Value
from slotwise.startd.host.hook_calls import HookCall
from slotwise.startd.host.transition_log import LoggedTransition
from slotwise.startd.records.slot_record import ScheddId
from slotwise.startd.slot.states import Cause


class Granted(Struct, frozen=True):
    """A request is granted these slots, with the claim id of each."""

    slots: tuple[tuple[str, str], ...]
    leftover_claim_id: str = ""
    leftover_slot: str = ""


class Refused(Struct, frozen=True):
    """A request is refused."""

    code: int
    reason: str


class ActivatedRun(Struct, frozen=True):
    """The job is on its way to the starter."""

    run_id: str


class RefusedRun(Struct, frozen=True):
    """The job is not started."""

    run_id: str
    code: int
    reason: str


class NowIn(Struct, frozen=True):
    """The state of a claim. Claimed/Idle with a run id: that run is over and the next may start."""

    state: str
    activity: str
    at: int
    run_id: str


class Ended(Struct, frozen=True):
    """The claim has ended."""

    cause: Cause


#: A message to a schedd about a claim.
ScheddMessage: TypeAlias = Granted | Refused | ActivatedRun | RefusedRun | NowIn | Ended


class ToSchedd(Struct, frozen=True):
    """A message to a schedd; ``serial`` of the request it answers, 0 if none."""

    schedd: ScheddId
    serial: int
    claim_id: str
    what: ScheddMessage


class Start(Struct, frozen=True):
    """Start the job that was activated on a slot."""

    slot_name: str
    run_id: str


class Kill(Struct, frozen=True):
    """End a run: softly within ``vacate_s``, or at once."""

    run_id: str
    fast: bool
    cause: Cause
    vacate_s: float = 0


class Freeze(Struct, frozen=True):
    """Suspend a run, or resume it."""

    run_id: str
    resume: bool


class Forget(Struct, frozen=True):
    """A run that belongs to no claim: end it and clean up, without a report."""

    run_id: str


class Noted(Struct, frozen=True):
    """What a run left behind is in the journal."""

    run_id: str


class Measured(Struct, frozen=True):
    """What cron jobs have measured of the devices of a run, for its job's ad."""

    run_id: str
    attributes: Mapping[str, Value]


class EndNoted(Struct, frozen=True):
    """How a run of fetched work ended is in the journal."""

    run_id: str


class RepairNoted(Struct, frozen=True):
    """The journal has it that the leftovers of a run are gone."""

    run_id: str


class ShadowMoved(Struct, frozen=True):
    """The schedd of these runs answers at another address."""

    run_ids: tuple[str, ...]
    address: str


ToStarter: TypeAlias = Start | Kill | Freeze | Forget | Noted | RepairNoted | Measured | EndNoted | ShadowMoved


class Outbox(Struct):
    """Gathered since it was emptied last."""

    schedds: list[ToSchedd] = field(default_factory=list)
    starter: list[ToStarter] = field(default_factory=list)
    #: Names of slots whose ads are to be advertised, and of those that were deleted.
    changed: dict[str, None] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    #: Names of slots that the journal is to save.
    dirty: dict[str, None] = field(default_factory=dict)
    #: True: run the benchmarks; False: give them up.
    benchmarks: bool | None = None
    #: What to do now that the machine is drained: exit, restart, reconfig.
    completion: str = ""
    #: The startd's own ad is to be advertised now.
    own_ad: bool = False
    #: Slots whose backfill client is to be started or stopped.
    fillers: list[tuple[str, str]] = field(default_factory=list)
    #: Calls of hooks about fetched work; and the ids of those whose outcome is in the other fields.
    hooks: list[HookCall] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    #: Lines for the log.
    transitions: list[LoggedTransition] = field(default_factory=list)

    def advertise(self, name: str) -> None:
        """Advertise the slot's ad."""
        self.changed[name] = None

    def save(self, name: str) -> None:
        """Save the slot in the journal."""
        self.dirty[name] = None

    def touch(self, name: str) -> None:
        """Save the slot, and advertise its ad."""
        self.changed[name] = self.dirty[name] = None
