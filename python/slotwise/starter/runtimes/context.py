"""A job with all that holds for it on this host: what a keeper's spec is composed from."""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.execution.job_view import JobView, SlotView
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.enforcement.gpu_hiding import Device
from slotwise.starter.job.directories import RunDirectory


class JobContext(Struct, frozen=True):
    """A job, its slot and what this host gives it."""

    job: JobView
    slot: SlotView
    job_ad: ClassAd
    machine_ad: ClassAd
    directory: RunDirectory
    identity: Identity
    transfers: bool
    root: bool
    #: Devices of the host that the job must not open.
    hidden: tuple[Device, ...] = ()
    #: Cores that the job is bound to; none: it may use all.
    cores: tuple[int, ...] = ()
    #: The job's program is looked up in an image: a path that is not transferred is none of this host.
    in_image: bool = False
    #: Root may make namespaces for the job.
    namespaces: bool = True
