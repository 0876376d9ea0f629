"""What all runs of a host share."""

from __future__ import annotations

from typing import Protocol

from slotwise.clock import Clock
from slotwise.starter.links.leftovers import Leftovers
from slotwise.starter.links.startd_outbox import StartdOutbox
from slotwise.starter.runtimes.installed import Runtimes
from slotwise.starter.scratch.disks import ScratchDisks
from slotwise.starter.settings import StarterSettings
from slotwise.starter.transfer.common_inputs import CommonInputs
from slotwise.starter.transfer.plugins import Plugins


class MachineServices(Protocol):
    """What the host can do for jobs; see :class:`slotwise.starter.host.machine.Machine`."""

    settings: StarterSettings
    plugins: Plugins
    runtimes: Runtimes

    def note_refusal(self, limit: str) -> None:
        """The kernel has refused a limit of a job (``file: reason``)."""
        ...


class HostServices(Protocol):
    """What runs use of their host; see :class:`slotwise.starter.host.job_host.JobHost`."""

    clock: Clock
    startd: StartdOutbox
    leftovers: Leftovers
    disks: ScratchDisks
    #: The common input files that it keeps.
    common: CommonInputs
    #: Where the starter is reached.
    own_address: str

    @property
    def machine(self) -> MachineServices:
        """The host's settings, runtimes and plugins."""
        ...
