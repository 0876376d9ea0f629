"""The startd's own ad (of the kind StartDaemon): totals over its slots, how long jobs took, what is broken."""

from __future__ import annotations

from slotwise import __version__
from slotwise.daemon import duty_cycle
from slotwise.startd.host.execution_point import ExecutionPoint
from slotwise.startd.slot_ad.attributes import Attributes

#: What the daemon's ad has in common with the slots' ads.
_MACHINE = (
    "Machine", "MyAddress", "StartdIpAddr", "CondorVersion", "CondorPlatform", "DaemonStartTime", "Arch", "OpSys",
    "OpSysAndVer", "DetectedCpus", "DetectedMemory", "DetectedDisk", "UidDomain", "FileSystemDomain", "Mips", "KFlops",
    "TotalLoadAvg", "TotalCondorLoadAvg", "Draining", "DrainReason", "DrainingRequestId", "LastDrainStartTime",
    "LastDrainStopTime", "TotalMachineDrainingBadput", "TotalMachineDrainingUnclaimedTime", "DrainingDeadline",
    "ExpectedMachineGracefulDrainingBadput", "ExpectedMachineGracefulDrainingCompletion",
    "ExpectedMachineQuickDrainingBadput", "ExpectedMachineQuickDrainingCompletion",
)  # fmt: skip


def advertised(point: ExecutionPoint, now: float, monotonic: float) -> Attributes:
    """The ad, and how busy the startd is; ``monotonic``: now, by the clock that nobody sets."""
    duty = duty_cycle.statistics(monotonic, point.settings.daemon_statistics)
    return {**daemon_attributes(point, now), **duty}


def daemon_attributes(point: ExecutionPoint, now: float) -> Attributes:
    """The ad."""
    shown = point.ads.machine_attributes()
    attributes: Attributes = {
        **{name: shown[name] for name in _MACHINE if shown.get(name) is not None},
        **{name: value for name, value in shown.items() if name.startswith("MonitorSelf")},
        **point.ads.starter_abilities,
        **point.ads.cron.of_machine(now),
        "MyType": "StartD",
        "SlotwiseVersion": __version__,
        "Name": point.settings.name,
        "MyCurrentTime": int(now),
        "TotalSlots": len(point.slots),
        "NumDynamicSlots": sum(1 for record in point.slots if record.parent is not None),
        "TotalCpus": point.settings.resources.cpus,
        "TotalMemory": point.settings.resources.memory_mib,
        "TotalDisk": point.settings.resources.disk_kib,
        **point.backfill_slots.daemon_attributes(),
        **point.ads.statistics.attributes(now, point.settings.statistics_listed),
        **point.ads.statistics.transfer_attributes(),
    }
    attributes.update(point.breakages.daemon_attributes())
    return attributes
