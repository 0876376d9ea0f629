"""The startd's own ad (StartDaemon): totals over its slots, how long jobs took, what is broken."""

from __future__ import annotations

from typing import Any

from slotwise.startd.host import backfill_slots, broken_slots
from slotwise.startd.host.execution_point import ExecutionPoint

#: What the daemon's ad has in common with the slots' ads.
_MACHINE = (
    "Machine", "MyAddress", "StartdIpAddr", "CondorVersion", "CondorPlatform", "DaemonStartTime", "Arch", "OpSys",
    "OpSysAndVer", "DetectedCpus", "DetectedMemory", "DetectedDisk", "UidDomain", "FileSystemDomain", "Mips", "KFlops",
    "TotalLoadAvg", "TotalCondorLoadAvg", "Draining", "DrainReason", "DrainingRequestId", "LastDrainStartTime",
    "LastDrainStopTime", "TotalMachineDrainingBadput", "TotalMachineDrainingUnclaimedTime", "DrainingDeadline",
    "ExpectedMachineGracefulDrainingBadput", "ExpectedMachineGracefulDrainingCompletion",
    "ExpectedMachineQuickDrainingBadput", "ExpectedMachineQuickDrainingCompletion",
)  # fmt: skip


def daemon_attributes(point: ExecutionPoint, now: float) -> dict[str, Any]:
    """The ad."""
    shown = {**point.machine, **point.settings.sample.machine, **point.abilities}
    slots = point.holdings.values()
    attributes: dict[str, Any] = {
        **{name: shown[name] for name in _MACHINE if shown.get(name) is not None},
        **{name: value for name, value in shown.items() if name.startswith("MonitorSelf")},
        **point.abilities,
        **point.cron.of_machine(now),
        "MyType": "StartDaemon",
        "Name": point.settings.name,
        "MyCurrentTime": int(now),
        "TotalSlots": len(point.holdings),
        "NumDynamicSlots": sum(1 for h in slots if h.parent is not None),
        "TotalCpus": point.settings.resources.cpus,
        "TotalMemory": point.settings.resources.memory_mib,
        "TotalDisk": point.settings.resources.disk_kib,
        **backfill_slots.daemon_attributes(point),
        **point.statistics.attributes(now),
        **point.statistics.transfer_attributes(),
    }
    attributes.update(broken_slots.daemon_attributes(point))
    return attributes
