"""What this host can do for jobs, and what its startd hears of that."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from slotwise.classad.values import Value
from slotwise.execution.cgroup.probe import CgroupHost
from slotwise.starter.host.capabilities import Enforcement, cgroups_for
from slotwise.starter.job.ads import pack_one
from slotwise.starter.links.startd_outbox import StartdOutbox
from slotwise.starter.messages import HostFacts
from slotwise.starter.runtimes.drivers import drivers
from slotwise.starter.runtimes.installed import Runtimes
from slotwise.starter.scratch.lvm import PoolUse
from slotwise.starter.settings import StarterSettings
from slotwise.starter.transfer.plugins import Plugins, find_plugins

_log = logging.getLogger(__name__)


class Machine:
    """The host's settings, what it enforces of them, its runtimes and its plugins. Whatever changes of what it enforces
    is reported to the startd, which advertises it."""

    def __init__(
        self, settings: StarterSettings, enforcement: Enforcement, control: Path, startd: StartdOutbox
    ) -> None:
        self.settings = settings
        self.enforcement = enforcement
        #: Where the starter keeps what is no job's business.
        self.control = control
        self.plugins = Plugins({})
        self._startd = startd
        self.runtimes = self._runtimes(settings)

    async def look_for_plugins(self) -> None:
        """Find out which URLs can be moved here."""
        settings = self.settings
        found = await find_plugins(settings.plugins, self.control)
        self.plugins = Plugins(
            found, settings.transfer_stats_log, settings.plugin_lifetime_s, settings.disables_jobs_plugins
        )
        self.enforcement = replace(self.enforcement, url_methods=self.plugins.methods)

    def _runtimes(self, settings: StarterSettings) -> Runtimes:
        found = drivers(settings.runtimes, settings.execute, self.control)
        return Runtimes(found, settings.runtimes.choice)

    async def look_for_runtimes(self) -> None:
        """Find out in what jobs can run here besides the bare host. Until that is known, what worked before holds."""
        found = self._runtimes(self.settings)
        await found.probe()
        self.runtimes = found
        self.check_runtimes()

    def check_runtimes(self) -> None:
        """Report to the startd what has changed about the runtimes since the last time."""
        self._now_enforces(self.enforcement.with_runtimes(self.runtimes.attributes(), self.runtimes.gaps()))

    @property
    def cgroups(self) -> CgroupHost:
        """The control groups that this host lets us use."""
        return self.enforcement.cgroups

    def keep_cgroups(self) -> None:
        """Make the groups that hold those of jobs again: systemd removes empty ones, as of a unit with Type=oneshot."""
        missing = [base for base in self.cgroups.bases.values() if not base.is_dir()]
        if missing:
            _log.warning("the cgroup %s is gone, it is made again", missing[0])
            found = cgroups_for(self.settings, root=self.enforcement.root)
            if found.controllers != self.cgroups.controllers:
                _log.error("not all controllers are there again: %s", "; ".join(found.problems))
            self._now_enforces(replace(self.enforcement, cgroups=found))

    def apply_settings(self, settings: StarterSettings, enforcement: Enforcement) -> None:
        """New knobs, for jobs that start from now on."""
        self.settings = settings
        self.enforcement = replace(enforcement, java=self.enforcement.java)

    def note_refusal(self, limit: str) -> None:
        """The kernel has refused a job's limit: no more is promised of it than it does."""
        self._now_enforces(self.enforcement.with_refusal(limit))

    def note_pool(self, use: PoolUse | None) -> None:
        """How full the thin pool is now."""
        self._now_enforces(self.enforcement.with_pool(use))

    def note_java(self, java: Mapping[str, Value]) -> None:
        """What the host's virtual machine for java jobs says of itself; nothing where there is none."""
        self._now_enforces(replace(self.enforcement, java=java))

    def _now_enforces(self, enforcement: Enforcement) -> None:
        if enforcement != self.enforcement:
            self.enforcement = enforcement
            self.report_host_facts()

    def report_host_facts(self) -> None:
        """Report to the startd what this host enforces."""
        self._startd.report("", HostFacts(pack_one(self.enforcement.attributes())))
