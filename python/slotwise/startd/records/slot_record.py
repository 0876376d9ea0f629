"""What the startd knows of a slot besides its state: amounts, claim ids, ads, the job, what waits."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Value, attribute
from slotwise.classad.values import whole
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
    """A job's ad as it was received, with the owner that the schedd names, and what the startd needs of it."""

    pack: bytes
    ad: ClassAd
    values: dict[str, Value]

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
        return whole(self.values.get("JobUniverse"), 5)

    @property
    def lease_s(self) -> float | None:
        """JobLeaseDuration (seconds), where it is a number."""
        value = self.values.get("JobLeaseDuration")
        return value if isinstance(value, int | float) else None

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
class FetchedWork:
    """Fetched work that was accepted and is to start with its claim, once the slot is free for it."""

    activation: Activation
    claim_id: str
    #: The hook has been told so.
    accepted: bool = False


@dataclass
class SlotRecord:
    """A slot and what belongs to it (HTCondor: Resource).

    ``total`` is what the slot was made of; ``free`` what a partitionable slot has left (equal to ``total`` for others).
    ``capability`` is the id that a schedd may claim the slot with now.
    """

    slot: Slot
    slot_id: int
    type_number: int
    total: Resources
    free: Resources
    capability: str = ""
    #: Ids that a partitionable slot had before, and until when they are still valid.
    previous_ids: dict[str, float] = field(default_factory=dict)
    #: Whether the present id was used; and when it was made.
    capability_used: bool = False
    renewed_at: float = 0.0
    parent: str | None = None
    dslot_id: int = 0
    children: set[str] = field(default_factory=set)
    #: Whether it is a slot of a backfill type; what of it primary slots use, if so: names joined by commas.
    backfill: bool = False
    conflict: str = ""
    #: Amounts were given to the partitionable slot before the job was gone (pslot preemption).
    returned: bool = False
    #: Devices that are offline, by tag; they belong to the slot but not to its amounts.
    offline_devices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: What broken dynamic slots withhold, in all and one by one; and what is to be withheld once it is free.
    withheld_total: Resources = field(default_factory=Resources)
    withheld: list[Withheld] = field(default_factory=list)
    pending_withheld: list[Withheld] = field(default_factory=list)
    #: Why the slot itself is broken, if so.
    breakage: Breakage | None = None
    #: Who claims the slot, the job that it was claimed for, and the one that runs.
    terms: Terms = field(default_factory=Terms)
    request: Job | None = None
    activation: Activation | None = None
    #: The activation that waits for the end of the previous run, and since when.
    queued: Activation | None = None
    queued_at: float = 0.0
    #: The job and the client of the claim that waits for the end of the present one.
    waiting: Job | None = None
    waiting_terms: Terms | None = None
    #: Serials of the requests that have yet to be answered, and the schedds that made them, by claim id.
    serials: dict[str, int] = field(default_factory=dict)
    requesters: dict[str, str] = field(default_factory=dict)
    #: Fetched work that has yet to start; whether that of the run which has just ended completed.
    fetched_work: FetchedWork | None = None
    finished: bool = False
    #: When hooks were asked for work for this slot.
    attempts: Attempts = field(default_factory=Attempts)
    #: The run that ended last on this slot.
    last_run: str = ""
    #: The usage of the job as the starter reported it last, and the load that the job makes.
    usage: dict[str, Value] = field(default_factory=dict)
    condor_load: float = 0.0
    #: When the job's CPU time was reported last, and how much it was (seconds).
    cpu_seen: tuple[float, float] | None = None
    ad: ClassAd = field(default_factory=ClassAd)
    #: The attributes as :attr:`ad` has them; replaced, never changed, as others may refer to it.
    shown: dict[str, Value] = field(default_factory=dict)
    #: Values of STARTD_LATCH_EXPRS and when they changed last.
    latches: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: The last evaluation of the owner's policy; for timers and the ad.
    policy: PolicyEval | None = None

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
        run, fetched = slot.run, self.fetched_work
        if run is not None and fetched is not None and fetched.activation.run_id == run.run_id:
            return fetched.activation.job
        return self.activation.job if self.activation and run else self.request

    def child(self, slot: Slot, amounts: Resources, number: int) -> SlotRecord:
        """A dynamic slot of this one; the caller takes its amounts out of what this slot has left."""
        return SlotRecord(
            slot,
            self.slot_id,
            self.type_number,
            amounts,
            amounts,
            parent=self.name,
            dslot_id=number,
            backfill=self.backfill,
            ad=self.ad.copy(),
            shown=self.shown,
        )

    def forget_usage(self) -> None:
        """The run has ended: the next one begins without usage."""
        self.usage, self.condor_load, self.cpu_seen = {}, 0.0, None
