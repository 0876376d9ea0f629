"""The job of a run as far as the starter knows it, and what is enforced on it."""

from __future__ import annotations

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.execution.exit_status import MemoryRule
from slotwise.execution.job_view import JobView
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.job.ads import lookup
from slotwise.starter.job.choice import Choice


class Enforced(Struct, frozen=True):
    """What the host enforces on the job."""

    memory: MemoryRule = field(default_factory=MemoryRule)
    #: The job has cgroups.
    cgrouped: bool = False
    #: Cores that it is bound to; none: it may use all.
    cores: tuple[int, ...] = ()


class RunJob(Struct):
    """The job of one run. Known once the shadow has accepted the run; hooks may change the ad before it starts."""

    #: Whose job it is, ``user@domain``: by the schedd's word alone, see `slotwise.model.ownership`.
    user: str = ""
    ad: ClassAd = field(default_factory=lambda: ClassAd({}))
    #: What the starter has read from the ad; None until it has one.
    view: JobView | None = None
    #: Whom it runs as.
    identity: Identity = field(default_factory=Identity)
    #: Its files move; else they are on a shared file system.
    transfers: bool = True
    enforced: Enforced = field(default_factory=Enforced)
    #: What it runs in, and the image that this starts, once it has been prepared.
    choice: Choice = field(default_factory=Choice)
    image: str = ""
    #: When the job began to execute, in this start; 0 before.
    started_at: float = 0.0

    def value(self, name: str) -> object:
        """An attribute of the ad; None when it is undefined or an error."""
        return lookup(self.ad)(name)
