"""What the startd keeps about a slot besides its state: amounts, capability, ads, the job, what waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import attribute
from slotwise.model.ownership import owner_attributes
from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind
from slotwise.startd.records.breakage import Breakage, Withheld
from slotwise.startd.records.fetch_attempts import Attempts
from slotwise.startd.slot.events import PolicyEval
from slotwise.startd.slot.states import Slot
from slotwise.table import pack_ads

#: The attributes of a job that decide about its claim and run, and that the slot ad repeats.
JOB_NAMES = (
    "ClusterId", "ProcId", "GlobalJobId", "Owner", "User", "AccountingGroup", "AcctGroup", "JobUniverse",
    "JobLeaseDuration", "JobMaxVacateTime", "KillSigTimeout", "MaxJobRetirementTime", "NiceUser", "ProjectName",
    "RemoteGroup", "RemoteNegotiatingGroup", "RemoteAutoregroup", "ConcurrencyLimits",
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A job's ad as it came, with its owner by the schedd's word, and what the startd needs of it."""

    pack: bytes
    ad: ClassAd
    values: dict[str, Any]

    @classmethod
    def of(cls, pack: bytes, ad: ClassAd, slot_ad: ClassAd | None, now: float, *, user: str = "") -> Job:
        """Read the ad once.

        ``user``: whose job it is (``user@domain``), whatever the ad says; empty for an ad that was read once before.
        """
        if user:
            ad.update(owner_attributes(user))
            pack = pack_ads([ad])
        values = {name: attribute(ad, name, slot_ad, now=now) for name in JOB_NAMES}
        return cls(pack, ad, {name: value for name, value in values.items() if value is not None})

    @property
    def universe(self) -> int:
        """JobUniverse; 5 where it does not say."""
        return int(self.values.get("JobUniverse", 5))

    @property
    def job_id(self) -> str:
        """``cluster.proc``."""
        return f"{self.values.get('ClusterId', 0)}.{self.values.get('ProcId', 0)}"


@dataclass(frozen=True)
class Terms:
    """Who claims and how to reach them; kept with the claim."""

    schedd_name: str = ""
    schedd_address: str = ""
    submitter: str = ""
    alive_interval_s: float = 300


@dataclass(frozen=True)
class Activation:
    """A job that the schedd starts under a claim."""

    serial: int
    run_id: str
    run_token: str
    shadow_address: str
    job: Job
    #: A hook fetched the job: it has no shadow.
    fetched: bool = False

    @property
    def fetch_id(self) -> str:
        """The fetch that the job came with."""
        return self.run_id.rpartition("#")[2]


@dataclass(frozen=True)
class Coming:
    """Fetched work that was accepted and is to start with its claim, once the slot is free for it."""

    activation: Activation
    claim_id: str
    #: The hook has been told so.
    accepted: bool = False


@dataclass
class Holding:
    """A slot and what belongs to it.

    ``total`` is what the slot was made of; ``free`` what a partitionable slot has left (equal to ``total`` for others).
    ``capability`` is the id that a schedd may claim the slot with now. ``serials`` has the requests whose answer is
    still open, by claim id.
    """

    slot: Slot
    slot_id: int
    type_number: int
    total: Resources
    free: Resources
    capability: str = ""
    #: Ids that a partitionable slot had before, and until when they may still be used.
    former: dict[str, float] = field(default_factory=dict)
    #: The present id was used; and when it was made.
    spent: bool = False
    renewed_at: float = 0.0
    parent: str | None = None
    dslot_id: int = 0
    #: A slot of a backfill type; what of it the primary slots are in use of, if so: names joined by commas.
    backfill: bool = False
    conflict: str = ""
    ad: ClassAd = field(default_factory=ClassAd)
    terms: Terms = field(default_factory=Terms)
    request: Job | None = None
    activation: Activation | None = None
    #: Fetched work that has yet to start; whether that of the run which has just gone came to its end.
    coming: Coming | None = None
    finished: bool = False
    #: When hooks were asked for work for this slot.
    attempts: Attempts = field(default_factory=Attempts)
    #: The run that ended last on this slot.
    last_run: str = ""
    queued: Activation | None = None
    queued_at: float = 0.0
    waiting: Job | None = None
    waiting_terms: Terms | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    condor_load: float = 0.0
    #: When the job's cpu time was told last, and how much it was (seconds).
    cpu_seen: tuple[float, float] | None = None
    serials: dict[str, int] = field(default_factory=dict)
    #: Who asked, by claim id, while the answer is open.
    askers: dict[str, str] = field(default_factory=dict)
    children: set[str] = field(default_factory=set)
    #: Amounts were given to the partitionable slot before the job was gone (pslot preemption).
    returned: bool = False
    #: Devices that are offline, by tag; they belong to the slot but not to its amounts.
    parked: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Values of STARTD_LATCH_EXPRS and when they changed last.
    latches: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: What dynamic slots that broke took with them, in all and one by one; and what they have yet to take.
    lost: Resources = field(default_factory=Resources)
    losses: list[Withheld] = field(default_factory=list)
    owed: list[Withheld] = field(default_factory=list)
    #: Why the slot itself is broken, if so.
    breakage: Breakage | None = None
    #: The attributes as :attr:`ad` has them; replaced, never changed, as others may hold it.
    shown: dict[str, Any] = field(default_factory=dict)
    #: The attributes as the collector was told them last.
    sent: dict[str, Any] = field(default_factory=dict)
    #: What the policy said last; for timers and the ad.
    facts: PolicyEval | None = None

    @property
    def name(self) -> str:
        """``slot1_2@host``."""
        return self.slot.name

    @property
    def kind(self) -> SlotKind:
        """Static, Partitionable or Dynamic."""
        return self.slot.kind

    @property
    def job(self) -> Job | None:
        """The job that runs, else the one the claim was made for."""
        return self.job_of(self.slot)

    def job_of(self, slot: Slot) -> Job | None:
        """The job of a state that this slot is in or may enter."""
        run, coming = slot.run, self.coming
        if run is not None and coming is not None and coming.activation.run_id == run.run_id:
            return coming.activation.job
        return self.activation.job if self.activation and run else self.request
