"""The disk of each run: a volume where the host can make one, else its files are measured; who has too much."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from slotwise.errors import SlotwiseError
from slotwise.execution.exit_status import SCRATCH_DIR_ERROR, End, How
from slotwise.execution.job_view import Lookup
from slotwise.execution.launcher import measure_tree
from slotwise.starter.job import directories
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.job.failures import scratch_failure
from slotwise.starter.job.usage import Disk
from slotwise.starter.scratch.lvm import POOL_FULL_PERCENT, PoolUse
from slotwise.starter.scratch.space import ScratchSpace
from slotwise.starter.scratch.volumes import Volumes, disk_verdict, pool_verdict
from slotwise.starter.settings import StarterSettings

_log = logging.getLogger(__name__)


def wants_encryption(job: Lookup) -> bool:
    """Whether a job asks for an encrypted scratch directory (encrypt_execute_directory)."""
    return job("EncryptExecuteDirectory") is True


class ScratchDisks:
    """Volumes and measured use of the runs of one starter."""

    def __init__(self, settings: StarterSettings, volumes: Volumes) -> None:
        self.settings = settings
        self.volumes = volumes
        #: The thin pool at the last look; None without one.
        self.pool: PoolUse | None = None

    def gives_volume(self, space: ScratchSpace) -> bool:
        """True when the run gets a file system of its own."""
        return bool(self.volumes.kind) and space.disk_kib > 0

    def encrypts(self, space: ScratchSpace) -> bool:
        """True when the run's files must be encrypted: for all jobs, or because this one asks for it."""
        return self.settings.encryption.always or space.wants_encryption

    def refusal(self, space: ScratchSpace) -> End | None:
        """What a run ends with whose files must be encrypted where that cannot be done."""
        if not self.encrypts(space):
            return None
        why = self.volumes.no_encryption
        if self.settings.encryption.forbidden:
            why = "DISABLE_EXECUTE_DIRECTORY_ENCRYPTION is true"
        elif self.volumes.encryption and self.gives_volume(space):
            return None
        reason = f"Can't create encrypted scratch dir: {why or 'the slot has no disk'}"
        return End(How.NOT_STARTED, reason=reason, reason_code=SCRATCH_DIR_ERROR)

    async def provide(self, space: ScratchSpace) -> End | None:
        """Make the run's volume; what the run ends with when that cannot be done."""
        loop = asyncio.get_running_loop()
        try:
            directories.make_mount_point(space.directory)
            make = partial(self.volumes.make, encrypted=self.encrypts(space))
            space.volume = await loop.run_in_executor(
                None, make, space.directory.name, space.directory.scratch, space.disk_kib
            )
        except OSError as error:
            return scratch_failure(error)
        except SlotwiseError as error:
            _log.error("run %s: could not create its scratch volume: %s", space.run_id, error)
            return End(How.NOT_STARTED, reason=str(error), reason_code=SCRATCH_DIR_ERROR)
        return None

    def take_up(self, space: ScratchSpace) -> None:
        """Find the volume of a run from before a restart."""
        directory = space.directory
        try:
            space.volume = self.volumes.take_up(directory.name, directory.scratch, space.disk_kib)
        except SlotwiseError as error:
            _log.error("run %s: lost its scratch volume: %s", space.run_id, error)

    def measure(self, space: ScratchSpace) -> asyncio.Future[Disk]:
        """What the scratch directory takes: of a volume what its file system says, else the sum of its files."""
        return asyncio.get_running_loop().run_in_executor(None, self._measured, space)

    def _measured(self, space: ScratchSpace) -> Disk:
        if self.volumes.pooled:
            self.pool = self.volumes.pool_use()
        if space.volume is not None:
            return space.volume.usage()
        return Disk(*measure_tree(space.directory.scratch))

    def checks(self, space: ScratchSpace) -> bool:
        """True when the job's disk use is limited."""
        return self.settings.enforce_disk and space.disk_kib > 0

    def over_limit(self, space: ScratchSpace) -> End | None:
        """What becomes of a job that takes more disk than its slot has; None while it does not."""
        return disk_verdict(space.used, space.volume, space.disk_kib) if self.checks(space) else None

    def failed_by_pool(self, space: ScratchSpace) -> End | None:
        """What becomes of a job that failed while the thin pool could take nothing more."""
        if space.volume is None or self.pool is None or self.pool.worst < POOL_FULL_PERCENT:
            return None
        return pool_verdict(self.pool)

    def dispose(self, space: ScratchSpace) -> list[str]:
        """Remove directory and volume of a run; returns what could not be removed. Blocks."""
        problems: list[str] = []
        if space.volume is not None or self.gives_volume(space):
            problems = self.volumes.remove(space.directory.name, space.directory.scratch)
            if problems and not self.settings.volumes.broken_by_leftovers:
                _log.error("run %s: could not remove its scratch volume: %s", space.run_id, "; ".join(problems))
                problems = []
        return problems + directories.remove(space.directory)

    def dispose_again(self, directory: RunDirectory) -> list[str]:
        """Remove what is left of a run's directory and volume; returns what could not be removed. Blocks."""
        return self.volumes.remove(directory.name, directory.scratch) + directories.remove(directory)
