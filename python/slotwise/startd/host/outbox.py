"""What the execution point wants said and done: to schedds, to the starter, to the collector, to the journal.

Deciding code fills an :class:`Outbox`; the edge empties it after each batch, journal first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slotwise.startd.host.hook_calls import HookCall
from slotwise.startd.host.transition_log import Entry
from slotwise.startd.slot.states import Cause


@dataclass(frozen=True, slots=True)
class Granted:
    """The slots that a request got, with the claim id of each."""

    slots: tuple[tuple[str, str], ...]
    leftover_claim_id: str = ""
    leftover_slot: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a request got none."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class ActivatedRun:
    """The job is on its way to the starter."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RefusedRun:
    """The job was not started."""

    run_id: str
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class NowIn:
    """What a claim does now. Claimed/Idle with a run id: that run is over and the next may start."""

    state: str
    activity: str
    at: int
    run_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The claim is no more."""

    cause: Cause


@dataclass(frozen=True, slots=True)
class ToSchedd:
    """A message to a schedd; ``serial`` of the request it answers, 0 if none."""

    schedd: str
    serial: int
    claim_id: str
    what: Granted | Refused | ActivatedRun | RefusedRun | NowIn | Ended


@dataclass(frozen=True, slots=True)
class Start:
    """Start the job that was activated on a slot."""

    slot_name: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End a run: softly within ``vacate_s``, or at once."""

    run_id: str
    fast: bool
    cause: Cause
    vacate_s: float = 0


@dataclass(frozen=True, slots=True)
class Freeze:
    """Suspend a run, or let it go on."""

    run_id: str
    resume: bool


@dataclass(frozen=True, slots=True)
class Forget:
    """A run that belongs to no claim: end it, clean up, tell nobody."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Noted:
    """What a run left behind is in the journal."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What cron jobs have measured of the devices of a run, for its job's ad."""

    run_id: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EndNoted:
    """How a run of fetched work ended is in the journal."""

    run_id: str


@dataclass(frozen=True, slots=True)
class RepairNoted:
    """The journal has it that the leftovers of a run are gone."""

    run_id: str


ToStarter = Start | Kill | Freeze | Forget | Noted | RepairNoted | Measured | EndNoted


@dataclass
class Outbox:
    """Gathered since it was emptied last. ``changed`` and ``dirty`` are names of slots, for the ads and the journal."""

    schedds: list[ToSchedd] = field(default_factory=list)
    starter: list[ToStarter] = field(default_factory=list)
    changed: dict[str, None] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)
    dirty: dict[str, None] = field(default_factory=dict)
    #: True: run the benchmarks; False: give them up.
    benchmarks: bool | None = None
    #: What to do now that the machine is drained: exit, restart, reconfig.
    completion: str = ""
    #: The startd's own ad is to be sent at once.
    own_ad: bool = False
    #: Slots that want the backfill client to run, or need it no more.
    fillers: list[tuple[str, str]] = field(default_factory=list)
    #: Hooks that are to hear of fetched work; and fetches whose outcome is in the other fields.
    hooks: list[HookCall] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    #: Lines for the log.
    diary: list[Entry] = field(default_factory=list)
