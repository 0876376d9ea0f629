"""Schedd cron (SCHEDD_CRON_JOBLIST): an administrator's programs, whose output goes into the schedd's ads.

The latest ad of a job replaces its former one, whatever follows the dash that ends an ad. The jobs' ads are merged in
the order of the jobs' names, over the schedd's own attributes, except for those that identify the schedd. HTCondor
reads the list of jobs only at start; here a reconfig does so, too, as for cron jobs of the startd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import truth
from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.cron import jobs
from slotwise.cron.jobs import SCHEDD_CRON, CronJob
from slotwise.cron.output import Output
from slotwise.cron.runner import CronRunner
from slotwise.schedd.jobs.ads import native
from slotwise.schedd.jobs.values import Changes

#: Attributes that identify the schedd, which no job may set.
_ITS_OWN = frozenset({"mytype", "name", "machine", "myaddress", "scheddipaddr", "scheddname"})


class Cron:
    """The cron jobs of a schedd. All calls come from the event loop's thread.

    :param own_ad: the schedd's ad, in which conditions of jobs are evaluated (HTCondor ignores these here).
    :param changed: called when a job's output changes.
    """

    def __init__(
        self, own_ad: Callable[[], Changes], clock: Clock, env: Mapping[str, str], changed: Callable[[], None]
    ) -> None:
        self._own_ad, self._clock, self._changed = own_ad, clock, changed
        self._runner = CronRunner(env, self._said, self._allowed)
        self._found: dict[str, Changes] = {}
        self._updates: dict[str, Changes] = {}

    def follow(self, config: Config) -> list[str]:
        """Run the jobs of this configuration, and discard the output of others; returns the configuration's faults."""
        rules = jobs.read(config, SCHEDD_CRON, config.get_text("SCHEDD_CRON_NAME"))
        kept = {job.name for job in rules.jobs}
        for name in [name for name in self._found if name not in kept]:
            del self._found[name], self._updates[name]
            self._changed()
        self._runner.follow(rules)
        return list(rules.faults)

    def attributes(self) -> Changes:
        """The attributes from all jobs, with the times of their updates."""
        merged: Changes = {}
        for name in sorted(self._found):
            merged.update(self._found[name])
            merged.update(self._updates[name])
        return merged

    async def stop(self) -> None:
        """End all jobs."""
        await self._runner.stop()

    def _said(self, job: CronJob, output: Output) -> None:
        found = {name: value for name, value in output.attributes.items() if name.lower() not in _ITS_OWN}
        former = self._found.get(job.name)
        self._found[job.name] = found
        self._updates[job.name] = {f"{job.prefix}LastUpdate": int(self._clock.now())}
        if output.update or (output.update is None and found != former):
            self._changed()

    def _allowed(self, job: CronJob) -> bool:
        condition = job.may_run()
        if condition is None:
            return True
        return truth(condition.value(ClassAd(native(self._own_ad())), None, self._clock.now()))
