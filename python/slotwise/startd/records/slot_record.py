"""What the startd knows of a slot besides its state: amounts, claim ids, ads, the job, what waits."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import Value, attribute
from slotwise.classad.values import whole
from slotwise.model.ownership import owner_attributes
from slotwise.model.resources import Resources
from slotwise.model.slot import SlotKind
from slotwise.startd.records.breakage import Breakage, WithheldAmounts
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


class Job(Struct, frozen=True):
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


class ScheddId(NamedTuple):
    """A schedd: the name that it gives itself, and who it has proved to be.

    Any access point may take the name of another; nobody else is the same schedd.
    """

    name: str = ""
    caller: str = ""


class Terms(Struct, frozen=True):
    """Who claims and how to reach them; kept with the claim."""

    schedd_name: str = ""
    schedd_address: str = ""
    submitter: str = ""
    alive_interval_s: float = 300
    #: Who the schedd has proved to be; empty in journals that do not have it.
    caller: str = ""
    #: The run that ended last under the claim: the starter may still have its end to report.
    ended_run: str = ""

    @property
    def schedd(self) -> ScheddId:
        """The schedd."""
        return ScheddId(self.schedd_name, self.caller)

    def are_of(self, speaker: Terms) -> bool:
        """Whether the schedd that speaks is the one that claims."""
        return self.schedd_name == speaker.schedd_name and self.caller in ("", speaker.caller)


class Activation(Struct, frozen=True):
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


class FetchedWork(Struct, frozen=True):
    """Fetched work that was accepted and is to start with its claim, once the slot is free for it."""

    activation: Activation
    claim_id: str
    #: Whether the hook has been notified.
    accepted: bool = False


class QueuedActivation(Struct, frozen=True):
    """An activation that waits for the end of the previous run, since when."""

    activation: Activation
    since: float


class WaitingClient(Struct, frozen=True):
    """Who waits for the end of the present claim, and the job."""

    job: Job
    terms: Terms


class OfferedIds(Struct):
    """The claim ids that a slot is offered with; whether the current one was used, and when it was made.

    ``previous``: those that a partitionable slot had before, and until when they are still valid.
    """

    current: str = ""
    previous: dict[str, float] = field(default_factory=dict)
    used: bool = False
    renewed_at: float = 0.0


class JobUsage(Struct):
    """The usage of the job as the starter reported it last, and the load that the job makes.

    ``cpu_seen``: when its CPU time was reported last, and how much that was (seconds).
    """

    attributes: dict[str, Value] = field(default_factory=dict)
    condor_load: float = 0.0
    cpu_seen: tuple[float, float] | None = None


class FetchState(Struct):
    """The fetched work of a slot that has yet to start, and when hooks were asked for some.

    ``finished``: the work of the run that has just ended completed.
    """

    work: FetchedWork | None = None
    finished: bool = False
    attempts: Attempts = field(default_factory=Attempts)


class SlotRecord(Struct):
    """A slot and what belongs to it (HTCondor: Resource).

    ``total`` is what the slot was made of; ``free`` what a partitionable slot has left (equal to ``total`` for others).
    """

    slot: Slot
    slot_id: int
    type_number: int
    total: Resources
    free: Resources
    ids: OfferedIds = field(default_factory=OfferedIds)
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
    withheld: WithheldAmounts = field(default_factory=WithheldAmounts)
    #: Why the slot itself is broken, if so.
    breakage: Breakage | None = None
    #: Who claims the slot, the job that it was claimed for, and the one that runs.
    terms: Terms = field(default_factory=Terms)
    request: Job | None = None
    activation: Activation | None = None
    queued: QueuedActivation | None = None
    waiting: WaitingClient | None = None
    #: Serials of the requests that have yet to be answered, and the schedds that made them, by claim id.
    serials: dict[str, int] = field(default_factory=dict)
    requesters: dict[str, ScheddId] = field(default_factory=dict)
    fetch: FetchState = field(default_factory=FetchState)
    #: The run that ended last on this slot.
    last_run: str = ""
    usage: JobUsage = field(default_factory=JobUsage)
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
        run, fetched = slot.run, self.fetch.work
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
