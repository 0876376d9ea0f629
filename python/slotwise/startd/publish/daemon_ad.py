"""The startd's own ad (of the kind StartDaemon): totals over its slots, how long jobs took, what is broken."""

from __future__ import annotations

from slotwise import __version__
from slotwise.classad import ClassAd
from slotwise.classad.evaluate import write
from slotwise.daemon import duty_cycle
from slotwise.model.resources import Resources
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.slot_ad.attributes import Attributes, listed_devices


def advertised(point: ExecutionPoint, now: float, monotonic: float) -> ClassAd:
    """The ad, and how busy the startd is; ``monotonic``: now, by the clock that nobody sets."""
    duty = duty_cycle.statistics(monotonic, point.settings.daemon_statistics)
    ad = ClassAd()
    write(ad, {**daemon_attributes(point, now), **duty})
    return ad


def daemon_attributes(point: ExecutionPoint, now: float) -> Attributes:
    """The ad."""
    settings = point.settings
    attributes: Attributes = {
        **{name: value for name, value in point.ads.machine_attributes().items() if value is not None},
        **settings.own_attributes(),
        **point.ads.cron.of_machine(now),
        "MyType": "StartD",
        "SlotwiseVersion": __version__,
        "Name": settings.name,
        "MyCurrentTime": int(now),
        "TotalSlots": len(point.slots),
        "NumDynamicSlots": sum(1 for record in point.slots if record.parent is not None),
        **_amounts(settings.resources),
        **point.backfill_slots.daemon_attributes(),
        **point.ads.statistics.attributes(now, settings.statistics_listed),
        **point.ads.statistics.transfer_attributes(),
    }
    attributes.update(point.breakages.daemon_attributes())
    return attributes


def _amounts(machine: Resources) -> Attributes:
    """What the machine has to give out, and the names of its devices."""
    attributes: Attributes = {
        "TotalCpus": float(machine.cpus),
        "TotalMemory": machine.memory_mib,
        "TotalDisk": machine.disk_kib,
        "TotalVirtualMemory": machine.swap_kib,
        "MachineResources": " ".join(["Cpus", "Memory", "Disk", "Swap", *machine.tags]),
        **{f"Total{tag}": amount for tag, amount in machine.custom.items()},
    }
    for tag, names in (*machine.devices.items(), *machine.shared.items()):
        attributes[f"Total{tag}"] = len(names)
        attributes[f"Detected{tag}"] = listed_devices(tag, names)
    return attributes
