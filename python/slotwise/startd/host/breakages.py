"""Why slots are broken, for their ads and the startd's own; and where the amounts of a deleted slot go."""

from __future__ import annotations

from slotwise.classad.evaluate import Value, attribute
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.withheld_amounts import withhold_pending
from slotwise.startd.records.breakage import Breakage, Withheld
from slotwise.startd.records.slot_record import SlotRecord


class Breakages:
    """Records breakages; the state of the slots is not touched."""

    def __init__(self, host: HostState) -> None:
        self._host = host

    def mark(self, record: SlotRecord, reason: str, code: int, now: float, run_id: str = "") -> None:
        """Record why the slot breaks; the first reason stays."""
        if record.breakage is None:
            record.breakage = Breakage(reason, code, now, run_id, self._context(record, now))
            self._host.outbox.own_ad = True

    def _context(self, record: SlotRecord, now: float) -> dict[str, Value]:
        job = record.job
        known: dict[str, Value] = {
            "JobId": job.job_id if job else None,
            "RemoteUser": record.terms.submitter or None,
            "RemoteScheddName": record.terms.schedd_name or None,
            "ClientMachine": record.terms.schedd_name.rpartition("@")[2] or None,
        }
        found: dict[str, Value] = {}
        for name in self._host.settings.broken_context:
            value = known.get(name)
            if value is None and job is not None:
                value = attribute(job.ad, name, record.ad, now=now)
            if isinstance(value, bool | int | float | str):
                found[name] = value
        return found

    def slot_deleted(self, parent: SlotRecord, child: SlotRecord, now: float) -> None:
        """Give the amounts of a deleted dynamic slot back to its partitionable one, unless it was broken."""
        broken = child.slot.broken
        if broken and not child.returned:
            self.mark(child, broken, child.slot.broken_code, now)
            breakage = child.breakage or Breakage(broken, child.slot.broken_code, now)
            parent.withheld.total = parent.withheld.total.plus(child.total)
            parent.withheld.entries.append(Withheld(child.name, child.total, breakage))
        elif not child.returned:
            parent.free = parent.free.plus(child.total)
        withhold_pending(parent)

    def daemon_attributes(self) -> dict[str, Value]:
        """``BrokenSlots``, ``BrokenReasons`` and ``BrokenContextAds`` of the startd's own ad, by slot."""
        entries: list[Withheld] = []
        for record in self._host.slots:
            entries += record.withheld.entries + record.withheld.pending
            if record.slot.broken:
                breakage = record.breakage or Breakage(record.slot.broken, record.slot.broken_code)
                entries.append(Withheld(record.name, record.total, breakage))
        attributes: dict[str, Value] = {}
        contexts: list[Value] = []
        for entry in entries:
            tag = _tag(entry.name.partition("@")[0], attributes)
            context = _context_ad(entry)
            attributes[f"{tag}BrokenReason"] = entry.breakage.reason
            attributes[f"{tag}BrokenContext"] = context
            contexts.append(context)
        if entries:
            attributes["BrokenSlots"] = [entry.name for entry in entries]
            attributes["BrokenReasons"] = [entry.breakage.reason for entry in entries]
            attributes["BrokenContextAds"] = contexts
        return attributes


def _tag(local: str, taken: dict[str, Value]) -> str:
    """A slot that broke more than once has more than one entry: slot1_1, slot1_1b, slot1_1c."""
    tag, number = local, 1
    while f"{tag}BrokenReason" in taken:
        number += 1
        tag = f"{local}{chr(ord('a') + number - 1)}" if number <= 26 else f"{local}_{number}"
    return tag


def _context_ad(entry: Withheld) -> dict[str, Value]:
    amounts, breakage = entry.amounts, entry.breakage
    return {
        "Id": entry.name.partition("@")[0],
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
