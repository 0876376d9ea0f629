"""What the startd has assigned: a run, its slot, and what holds for it there."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.execution.job_view import SlotView
from slotwise.ids import job_of_run
from slotwise.starter.job.directories import RunDirectory


class Assignment(Struct, frozen=True):
    """A run as the startd has assigned it."""

    run_id: str
    slot: SlotView
    machine_ad: ClassAd
    directory: RunDirectory
    #: Proves to the shadow that the run was assigned by its startd.
    token: str = ""
    #: How long the run may be without a shadow, seconds; 0: for ever.
    lease_s: float = 0.0
    shadow_address: str = ""
    #: The user (``user@domain``) of a job that a hook has fetched, and its ad: there is no shadow. Else empty.
    fetched_for: str = ""
    fetched_ad: bytes = b""
    #: What the startd decided: SlotUser, MachineMaxVacateTime, and knobs of the slot.
    limits: Mapping[str, object] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """``cluster.proc`` of the job."""
        return job_of_run(self.run_id)
