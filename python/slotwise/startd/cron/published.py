"""What cron jobs have printed, as ads, and which slots each ad belongs to.

Lines ``name = expression`` make an ad; a line that begins with ``-`` ends it. Behind the dash may stand a name, so that
one job has several ads, and ``update:true`` or ``update:false``. An ad goes to the slots that its SlotMergeConstraint,
else SlotName or Name (a beginning of the slot's name), else SlotTypeId, else SlotId chooses; without these to all.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import AdSyntaxError
from slotwise.startd.cron.jobs import AutoPublish, CronJob
from slotwise.startd.evaluate import Expr, attribute, literal_or_expression, truth

_log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

#: Attributes that choose slots, and are not merged into their ads.
CHOOSING = frozenset({"name", "slotid", "slotmergeconstraint", "slotname", "slottypeid"})


@dataclass(frozen=True)
class Output:
    """An ad that a job printed. ``tag``: its name behind the dash; ``update``: what the job says of sending it."""

    attributes: dict[str, Any]
    tag: str = ""
    update: bool | None = None


class Reader:
    """Puts a job's lines together."""

    def __init__(self, job: CronJob) -> None:
        self._job = job
        self._lines: dict[str, Any] = {}

    def line(self, text: str) -> Output | None:
        """Take a line; the ad that it ends, if any."""
        text = text.strip()
        if text.startswith("-"):
            return self.end(text[1:])
        name, equals, value = text.partition("=")
        if not equals or text.startswith("#"):
            if text and not text.startswith("#"):
                _log.warning("cron job %s: %r is not an attribute", self._job.name, text)
            return None
        name = self._job.prefix + name.strip()
        if not _NAME.fullmatch(name):
            _log.warning("cron job %s: %r is not a valid attribute name", self._job.name, name)
            return None
        try:
            self._lines[name] = literal_or_expression(value)
        except (AdSyntaxError, ValueError) as error:
            _log.warning("cron job %s: %s: %s", self._job.name, name, error)
        return None

    def end(self, words: str = "") -> Output | None:
        """The ad so far; None when nothing was printed."""
        found, self._lines = self._lines, {}
        if not found:
            return None
        tag, update = "", None
        for number, word in enumerate(words.split()):
            key, colon, value = word.partition(":")
            if number == 0 and not colon:
                tag = word
            elif key.lower() == "update":
                update = value.lower() not in ("false", "f", "no", "n", "0")
        return Output(found, tag, update)


@dataclass(frozen=True)
class _Ad:
    job: CronJob
    attributes: dict[str, Any]
    ad: ClassAd
    updated_at: float


@dataclass
class Published:
    """All ads of all jobs."""

    _ads: dict[tuple[str, str], _Ad] = field(default_factory=dict)

    def put(self, job: CronJob, output: Output, rule: AutoPublish, now: float) -> bool:
        """Replace an ad of a job; whether its slots are to be told to the collector at once."""
        key = (job.name.lower(), output.tag)
        former = self._ads.get(key)
        self._ads[key] = _Ad(job, output.attributes, _ad_of(output.attributes), now)
        if output.update is not None:
            return output.update
        changed = former is None or former.attributes != output.attributes
        return rule is AutoPublish.ALWAYS or (rule is AutoPublish.IF_CHANGED and changed)

    def keep_only(self, jobs: Iterable[CronJob]) -> None:
        """Forget what jobs said that are no more; the others may go to other slots now."""
        known = {job.name.lower(): job for job in jobs}
        self._ads = {
            key: _Ad(known[key[0]], said.attributes, said.ad, said.updated_at)
            for key, said in self._ads.items()
            if key[0] in known
        }

    def __bool__(self) -> bool:
        return bool(self._ads)

    def attributes(self, slot_id: int, slot: ClassAd, now: float) -> dict[str, Any]:
        """What goes into a slot's ad; ``slot`` is that ad as it is."""
        merged: dict[str, Any] = {}
        for said in self._ads.values():
            if said.job.slots and slot_id not in said.job.slots:
                continue
            if _chosen(said, slot, now):
                merged.update(_merged(said))
        return merged

    def of_machine(self) -> dict[str, Any]:
        """What goes into the startd's own ad: what is not for certain slots."""
        merged: dict[str, Any] = {}
        for said in self._ads.values():
            if not said.job.slots and not any(name.lower() in CHOOSING for name in said.attributes):
                merged.update(_merged(said))
        return merged


def _ad_of(attributes: dict[str, Any]) -> ClassAd:
    return ClassAd({name: ExprTree(value) if isinstance(value, Expr) else value for name, value in attributes.items()})


def _merged(said: _Ad) -> dict[str, Any]:
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
