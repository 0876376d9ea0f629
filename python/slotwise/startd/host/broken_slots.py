"""Slots that cannot be used any more, and amounts that dynamic slots take with them when they break.

A slot breaks when something of a job cannot be removed. A broken dynamic slot vanishes like any other, but what it was
made of does not come back (``BrokenSlot<R>`` of its partitionable slot). What a job left may become known only when its
slot has gone; then the amounts are taken as soon as they are free. Source: manual, machine ad attributes.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slotwise.classad.evaluate import attribute
from slotwise.errors import InvariantError
from slotwise.model.resources import Resources
from slotwise.model.slot import BrokenCode, SlotKind
from slotwise.startd.records.breakage import Breakage, Withheld
from slotwise.startd.slot import events as ev

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from slotwise.startd.host.execution_point import ExecutionPoint
    from slotwise.startd.records.slot_record import Holding


#: What is mended once the leavings could be removed; processes that cannot be killed are another matter.
_CLEANABLE = (BrokenCode.UNCLEAN, BrokenCode.UNCLEAN_VOLUME)


def mark(point: ExecutionPoint, h: Holding, reason: str, code: int, now: float, run_id: str = "") -> None:
    """Keep in mind why the slot breaks, for the ads; the first reason stays."""
    if h.breakage is None:
        h.breakage = Breakage(reason, code, now, run_id, _context(point, h, now))
        point.outbox.own_ad = True


def _context(point: ExecutionPoint, h: Holding, now: float) -> dict[str, Any]:
    job = h.job
    known: dict[str, Any] = {
        "JobId": job.job_id if job else None,
        "RemoteUser": h.terms.submitter or None,
        "RemoteScheddName": h.terms.schedd_name or None,
        "ClientMachine": h.terms.schedd_name.rpartition("@")[2] or None,
    }
    found = {}
    for name in point.settings.broken_context:
        value = known.get(name)
        if value is None and job is not None:
            value = attribute(job.ad, name, h.ad, now=now)
        if isinstance(value, bool | int | float | str):
            found[name] = value
    return found


def deleted(point: ExecutionPoint, parent: Holding, h: Holding, now: float) -> None:
    """A dynamic slot has gone: its amounts come back, unless it is broken."""
    if h.slot.broken and not h.returned:
        mark(point, h, h.slot.broken, h.slot.broken_code, now)
        assert h.breakage is not None
        parent.lost = parent.lost.plus(h.total)
        parent.losses.append(Withheld(h.name, h.total, h.breakage))
    elif not h.returned:
        parent.free = parent.free.plus(h.total)
    settle(parent)


def haunted(parent: Holding) -> set[int]:
    """Numbers of dynamic slots that broke because of processes which live on: the cgroups of these are named after the
    slots, so that a job in a slot of the same name would never be rid of them."""
    names = (loss.name.partition("@")[0] for loss in parent.losses if loss.breakage.code == BrokenCode.HUNG_PROCESS)
    return {int(number) for name in names if (number := name.rpartition("_")[2]).isdecimal()}


def settle(parent: Holding) -> None:
    """Take what is owed, as far as it is free by now."""
    for loss in list(parent.owed):
        if take(parent, loss):
            parent.owed.remove(loss)


def take(parent: Holding, loss: Withheld) -> bool:
    """Take a loss out of what the slot has left; false when that is not all there."""
    try:
        left = parent.free.minus(loss.amounts)
    except InvariantError:
        return False
    if not left.nowhere_negative():
        return False
    parent.free, parent.lost = left, parent.lost.plus(loss.amounts)
    parent.losses.append(loss)
    return True


def left_behind(point: ExecutionPoint, name: str, amounts: Resources, breakage: Breakage, now: float) -> None:
    """A run that is over has left something behind: no further job for its slot, or for what that was made of."""
    for h in list(point.holdings.values()):
        if h.last_run == breakage.run_id or (h.name == name and h.kind is not SlotKind.DYNAMIC):
            _break(point, h, breakage, now)
            return
    local, _, host = name.partition("@")
    parent = point.holdings.get(f"{local.rpartition('_')[0]}@{host}")
    if parent is None or parent.kind is not SlotKind.PARTITIONABLE:
        return
    if all(loss.breakage.run_id != breakage.run_id for loss in (*parent.losses, *parent.owed)):
        parent.owed.append(Withheld(name, amounts, replace(breakage, at=now)))
        settle(parent)
        point.outbox.own_ad = True
        point.outbox.changed[parent.name] = point.outbox.dirty[parent.name] = None


def _break(point: ExecutionPoint, h: Holding, breakage: Breakage, now: float) -> None:
    if h.slot.broken:
        return
    mark(point, h, breakage.reason, breakage.code, now, breakage.run_id)
    if h.slot.run is None:
        point.happen(h, ev.FoundBroken(breakage.reason, breakage.code), now)
    else:  # the present job may end
        h.slot = replace(h.slot, broken=breakage.reason, broken_code=breakage.code)
    point.outbox.changed[h.name] = point.outbox.dirty[h.name] = None


def mended(point: ExecutionPoint, run_id: str, now: float) -> None:
    """What a run had left behind has been removed after all: what it broke is whole again."""

    def clean(breakage: Breakage | None) -> bool:
        return breakage is not None and breakage.run_id == run_id and breakage.code in _CLEANABLE

    for h in list(point.holdings.values()):
        back = [loss for loss in h.losses if clean(loss.breakage)]
        owed = [loss for loss in h.owed if not clean(loss.breakage)]
        mine = h.slot.broken is not None and clean(h.breakage)
        if not back and not mine and len(owed) == len(h.owed):
            continue
        for loss in back:
            h.losses.remove(loss)
            h.lost, h.free = h.lost.minus(loss.amounts), h.free.plus(loss.amounts)
        h.owed = owed
        settle(h)
        if mine:
            h.slot, h.breakage = replace(h.slot, broken=None, broken_code=0), None
        point.outbox.changed[h.name] = point.outbox.dirty[h.name] = None
        point.outbox.own_ad = True
        _log.info("%s: the leftovers of run %s are gone", h.name, run_id)
        point.show(h, now)
        point.happen(h, ev.Evaluate(), now)


def forget_faults(point: ExecutionPoint) -> None:
    """An orderly stop: whoever starts the startd again has looked after what was broken."""
    for h in point.holdings.values():
        if h.losses or h.owed or h.slot.broken:
            h.slot = replace(h.slot, broken=None, broken_code=0)
            h.losses, h.owed, h.lost, h.breakage = [], [], Resources(), None
            point.outbox.dirty[h.name] = None


def daemon_attributes(point: ExecutionPoint) -> dict[str, Any]:
    """What the startd's own ad says of broken slots: ``BrokenReasons`` and ``BrokenContextAds``, by slot."""
    items: list[Withheld] = []
    for h in point.holdings.values():
        items += h.losses + h.owed
        if h.slot.broken:
            items.append(Withheld(h.name, h.total, h.breakage or Breakage(h.slot.broken, h.slot.broken_code)))
    attributes: dict[str, Any] = {}
    reasons: list[str] = []
    contexts: list[dict[str, Any]] = []
    for loss in items:
        tag = _tag(loss.name.partition("@")[0], attributes)
        attributes[f"{tag}BrokenReason"] = loss.breakage.reason
        attributes[f"{tag}BrokenContext"] = _context_ad(loss)
        reasons.append(loss.breakage.reason)
        contexts.append(attributes[f"{tag}BrokenContext"])
    if items:
        attributes["BrokenSlots"] = [loss.name for loss in items]
        attributes["BrokenReasons"] = reasons
        attributes["BrokenContextAds"] = contexts
    return attributes


def _tag(local: str, taken: dict[str, Any]) -> str:
    """A slot that broke more than once has more than one entry: slot1_1, slot1_1b, slot1_1c."""
    tag, number = local, 1
    while f"{tag}BrokenReason" in taken:
        number += 1
        tag = f"{local}{chr(ord('a') + number - 1)}" if number <= 26 else f"{local}_{number}"
    return tag


def _context_ad(loss: Withheld) -> dict[str, Any]:
    amounts, breakage = loss.amounts, loss.breakage
    return {
        "Id": loss.name.partition("@")[0],
        "Code": breakage.code,
        "Time": int(breakage.at),
        "Reason": breakage.reason,
        **breakage.context,
        "Cpus": amounts.cpus,
        "Memory": amounts.memory_mib,
        "Disk": amounts.disk_kib,
        **amounts.custom,
        **{f"Assigned{tag}": ",".join(names) for tag, names in amounts.devices.items() if names},
    }
