"""Puts what cron jobs say into the ads of the slots."""

from __future__ import annotations

from collections.abc import Mapping

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import truth, write
from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.cron import jobs
from slotwise.cron.jobs import CRON, CronJob, CronRules
from slotwise.cron.output import Output
from slotwise.cron.runner import CronRunner
from slotwise.startd.dispatcher import Dispatcher
from slotwise.startd.host.outbox import Measured


class Cron:
    """The jobs of a family that a startd runs. All calls come from the event loop's thread."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock, env: Mapping[str, str], family: str = CRON) -> None:
        self._dispatcher, self._clock, self._family = dispatcher, clock, family
        self._rules = CronRules()
        self._runner = CronRunner(env, self._said, self._allowed)

    def follow(self, knobs: Config, rules: CronRules | None = None) -> list[str]:
        """Run the jobs of this configuration, or those of ``rules``; which of them cannot be."""
        self._rules = rules if rules is not None else jobs.read(knobs, self._family)
        cron = self._dispatcher.point.ads.cron
        cron.totals = knobs.get_bool("ADVERTISE_CMR_UPTIME_SECONDS")
        cron.keep_only(self._rules.jobs, self._family)
        self._runner.follow(self._rules)
        return list(self._rules.faults)

    async def demand(self) -> None:
        """Run the jobs that run when they are asked for, until the last has ended."""
        await self._runner.demand()

    async def stop(self) -> None:
        """End all jobs."""
        await self._runner.stop()

    def _said(self, job: CronJob, output: Output) -> None:
        point, now = self._dispatcher.point, self._clock.now()
        send = point.ads.cron.put(job, output, self._rules.publish, now)
        for record in point.slots:
            changes = point.ads.show(record, now)
            if send and any(name in changes for name in output.attributes):
                point.outbox.changed[record.name] = None
            if job.metrics and (run := record.slot.run) is not None:
                usage = point.ads.cron.job_usage(record.slot_id, record.ad, now)
                if usage:
                    point.outbox.starter.append(Measured(run.run_id, usage))
        point.outbox.own_ad = point.outbox.own_ad or send
        if send or point.outbox.starter:
            self._dispatcher.flush()

    def _allowed(self, job: CronJob) -> bool:
        """Whether the job's condition is true of the machine."""
        condition = job.may_run()
        if condition is None:
            return True
        point = self._dispatcher.point
        resources = point.settings.resources
        ad = ClassAd()
        write(ad, {**point.ads.machine, **point.ads.starter_abilities, **point.settings.sample.machine})
        write(ad, {"TotalCpus": resources.cpus, "TotalMemory": resources.memory_mib, "TotalDisk": resources.disk_kib})
        write(ad, {f"Total{tag}": amount for tag, amount in resources.custom.items()})
        write(ad, {f"Total{tag}": len(names) for tag, names in resources.shared.items()})
        return truth(condition.value(ad, None, self._clock.now()))
