"""What a run needs of its surroundings."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.execution.keeper_spec import KeeperSpec
from slotwise.starter.links.leftovers import Leftovers
from slotwise.starter.links.startd_events import StartdBoard

if TYPE_CHECKING:
    from slotwise.starter.run.run import Run
    from slotwise.starter.scratch.disks import ScratchDisks
    from slotwise.starter.settings import StarterSettings
    from slotwise.starter.transfer.url_transfer import Plugins


class Host(Protocol):
    """What a run needs of its surroundings; see :class:`slotwise.starter.host.job_host.JobHost`."""

    clock: Clock
    board: StartdBoard
    left: Leftovers
    disks: ScratchDisks
    settings: StarterSettings
    plugins: Plugins
    #: Where the starter is reached.
    own_address: str

    def parse_job(self, run: Run, job_ad: ClassAd) -> None:
        """Read the final job ad: facts, identity, whether files move."""
        ...

    async def prepare_transfer(self, run: Run) -> None:
        """Do what comes before the input files."""
        ...

    async def prepare(self, run: Run) -> KeeperSpec:
        """Make all that the job needs and say how it is to be run."""
        ...

    def spawn(self, run: Run) -> asyncio.Future[int]:
        """Have a keeper forked."""
        ...

    def vacate_s(self, run: Run) -> int:
        """Seconds a job may take to leave when nobody says otherwise."""
        ...

    def note_refusal(self, limit: str) -> None:
        """The kernel has refused a limit of a job (``file: reason``)."""
        ...

    async def dispose(self, run: Run) -> list[str]:
        """Remove directory and volume; returns what could not be removed."""
        ...

    def clean_later(self, run: Run) -> None:
        """Remove directory and volume when something kept us from it."""
        ...

    def register(self, run: Run) -> None:
        """Know a run by its id and its directory."""
        ...

    def take_group(self, group: int) -> None:
        """A run from before a restart has this tracking group."""
        ...

    def forget(self, run: Run) -> None:
        """The run is gone."""
        ...
