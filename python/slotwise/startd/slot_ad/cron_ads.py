"""Which slots the ads belong to that cron jobs have printed.

An ad goes to the slots that its SlotMergeConstraint, else SlotName or Name (a beginning of the slot's name), else
SlotTypeId, else SlotId chooses; without these to all.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.evaluate import Expr, Value, attribute, truth
from slotwise.cron.jobs import CRON, AutoPublish, CronJob
from slotwise.cron.metrics import Metric
from slotwise.cron.output import Output
from slotwise.startd.slot_ad.device_monitors import Monitor, of_device, of_job

_log = logging.getLogger(__name__)

#: Attributes that choose slots, and are not merged into their ads.
CHOOSING = frozenset({"name", "slotid", "slotmergeconstraint", "slotname", "slottypeid"})


class _Ad(Struct, frozen=True):
    job: CronJob
    attributes: dict[str, Value]
    ad: ClassAd
    updated_at: float
    #: What is known of the ad's device, if the job has metrics; the same for all samples of it.
    monitor: Monitor | None = None


class Published(Struct):
    """All ads of all jobs."""

    #: When the startd began, and ADVERTISE_CMR_UPTIME_SECONDS.
    started_at: float = 0.0
    totals: bool = False
    _ads: dict[tuple[tuple[str, str], str], _Ad] = field(default_factory=dict)

    def put(self, job: CronJob, output: Output, rule: AutoPublish, now: float) -> bool:
        """Replace an ad of a job; whether the ads of its slots are to be advertised now."""
        key = (job.key, output.tag)
        former = self._ads.get(key)
        attributes: dict[str, Value] = dict(output.attributes)
        ad, monitor = _ad_of(attributes), None
        if job.metrics:
            monitor = (former.monitor if former is not None else None) or Monitor()
            attributes = _measured(job, attributes, ad, monitor, now)
        self._ads[key] = _Ad(job, attributes, ad, now, monitor)
        if output.update is not None:
            return output.update
        changed = former is None or former.attributes != attributes
        return rule is AutoPublish.ALWAYS or (rule is AutoPublish.IF_CHANGED and changed)

    def keep_only(self, jobs: Iterable[CronJob], family: str = CRON) -> None:
        """Discard the ads of jobs of a family that have been removed; those of the others may go to other slots now."""
        known = {job.key: job for job in jobs}
        self._ads = {
            key: replace(said, job=known.get(key[0], said.job))
            for key, said in self._ads.items()
            if key[0] in known or said.job.family != family
        }

    def __bool__(self) -> bool:
        return bool(self._ads)

    def attributes(self, slot_id: int, slot: ClassAd, now: float) -> dict[str, Value]:
        """What goes into a slot's ad; ``slot`` is that ad as it is."""
        merged: dict[str, Value] = {}
        chosen = self._of_slot(slot_id, slot, now)
        for said in chosen:
            merged.update(_merged(said))
        monitors = [said.monitor for said in chosen if said.monitor is not None]
        return {**merged, **self._of_devices(monitors, now), **of_job(monitors)} if monitors else merged

    def _of_slot(self, slot_id: int, slot: ClassAd, now: float) -> list[_Ad]:
        """The ads that belong to a slot."""
        ads = (said for said in self._ads.values() if not said.job.slots or slot_id in said.job.slots)
        return [said for said in ads if _chosen(said, slot, now)]

    def _of_devices(self, monitors: Iterable[Monitor], now: float) -> dict[str, Value]:
        return of_device(monitors, now - self.started_at, totals=self.totals)

    def _monitors(self, slot_id: int, slot: ClassAd, now: float) -> list[Monitor]:
        if not any(said.monitor is not None for said in self._ads.values()):
            return []
        return [said.monitor for said in self._of_slot(slot_id, slot, now) if said.monitor is not None]

    def job_begins(self, slot_id: int, slot: ClassAd, now: float) -> None:
        """A job starts on a slot: what its devices do from now on is the job's."""
        for monitor in self._monitors(slot_id, slot, now):
            monitor.job_begins()

    def claim_ends(self, slot_id: int, slot: ClassAd, now: float) -> None:
        """Nobody's job is on the slot's devices any more."""
        for monitor in self._monitors(slot_id, slot, now):
            monitor.job_ends()

    def job_usage(self, slot_id: int, slot: ClassAd, now: float) -> dict[str, Value]:
        """What the job on a slot has used of its devices, for its ad."""
        return of_job(self._monitors(slot_id, slot, now))

    def of_machine(self, now: float) -> dict[str, Value]:
        """What goes into the startd's own ad: what is not for certain slots."""
        merged: dict[str, Value] = {}
        for said in self._ads.values():
            if not said.job.slots and not any(name.lower() in CHOOSING for name in said.attributes):
                merged.update(_merged(said))
                if said.monitor is not None:
                    merged.update(self._of_devices([said.monitor], now))
        return merged


def _measured(
    job: CronJob, attributes: dict[str, Value], ad: ClassAd, monitor: Monitor, now: float
) -> dict[str, Value]:
    """Give a sample to its monitor; returns the attributes that are not metrics."""
    metrics = {metric.attribute.lower(): metric for metric in job.metrics}
    sample: dict[Metric, float] = {}
    for name in attributes:
        metric = metrics.get(name.lower())
        if metric is None:
            continue
        value = attribute(ad, name, now=now)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            sample[metric] = float(value)
        else:
            _log.warning("cron job %s: ignoring %s, which is not a number", job.name, name)
    monitor.take(sample, now)
    return {name: value for name, value in attributes.items() if name.lower() not in metrics}


def _ad_of(attributes: dict[str, Value]) -> ClassAd:
    return ClassAd({name: ExprTree(value) if isinstance(value, Expr) else value for name, value in attributes.items()})


def _merged(said: _Ad) -> dict[str, Value]:
    found = {name: value for name, value in said.attributes.items() if name.lower() not in CHOOSING}
    return {**found, f"{said.job.prefix}LastUpdate": int(said.updated_at)}


def _chosen(said: _Ad, slot: ClassAd, now: float) -> bool:
    mine = said.ad

    def same(name: str) -> bool:
        return bool(attribute(mine, name, now=now) == attribute(slot, name, now=now))

    if "SlotMergeConstraint" in mine:
        return truth(attribute(mine, "SlotMergeConstraint", slot, now=now))
    for name in ("SlotName", "Name"):
        beginning = attribute(mine, name, now=now)
        if isinstance(beginning, str) and beginning:
            return str(attribute(slot, "Name", now=now)).startswith(beginning)
    for name in ("SlotTypeId", "SlotId"):
        if isinstance(attribute(mine, name, now=now), int):
            return same(name)
    return True
