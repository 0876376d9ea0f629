"""Schedd cron (SCHEDD_CRON_JOBLIST): an administrator's programs, and what they find out in the schedd's ads.

What a job prints last replaces what it printed before, whatever stands behind the dash that ends an ad. The jobs' ads
are merged in the order of their names, over what the schedd says itself, except for the attributes that tell which
schedd it is. HTCondor reads the list of jobs once; here a reconfig does, too, as for cron jobs of the startd.
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

#: What no program may say for a schedd: who it is and where it answers.
_ITS_OWN = frozenset({"mytype", "name", "machine", "myaddress", "scheddipaddr", "scheddname"})


class Cron:
    """The cron jobs of a schedd. All calls come from the event loop's thread.

    :param own_ad: what the schedd says of itself, for conditions of jobs (HTCondor does not look at these here).
    :param changed: told when a job says something else than before.
    """

    def __init__(
        self, own_ad: Callable[[], Changes], clock: Clock, env: Mapping[str, str], changed: Callable[[], None]
    ) -> None:
        self._own_ad, self._clock, self._changed = own_ad, clock, changed
        self._runner = CronRunner(env, self._said, self._allowed)
        self._found: dict[str, Changes] = {}
        self._updates: dict[str, Changes] = {}

    def follow(self, config: Config) -> list[str]:
        """Run the jobs of this configuration, and forget what others said; which of them cannot be."""
        rules = jobs.read(config, SCHEDD_CRON, config.get_text("SCHEDD_CRON_NAME"))
        kept = {job.name for job in rules.jobs}
        for name in [name for name in self._found if name not in kept]:
            del self._found[name], self._updates[name]
            self._changed()
        self._runner.follow(rules)
        return list(rules.faults)

    def attributes(self) -> Changes:
        """What all jobs have found out, and when."""
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
