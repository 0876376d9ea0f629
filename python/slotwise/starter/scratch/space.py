"""The scratch space of one run."""

from __future__ import annotations

from msgspec import Struct, field

from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.usage import Disk
from slotwise.starter.scratch.volumes import Volume


class ScratchSpace(Struct):
    """The directory of a run, the volume below it, and what is used of them."""

    run_id: str
    directory: RunDirectory
    #: What the slot has.
    disk_kib: int
    #: The job asks for an encrypted scratch directory (encrypt_execute_directory).
    wants_encryption: bool = False
    #: The run's own file system; None: the directory is on a shared one.
    volume: Volume | None = None
    #: What was measured last.
    used: Disk = field(default_factory=Disk)
