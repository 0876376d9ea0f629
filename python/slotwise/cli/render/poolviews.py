"""The views of slots and daemons: which ads, which columns, which totals (manual page of condor_status)."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from slotwise.cli.render import colours
from slotwise.cli.render.layout import Item, Layout

#: On a terminal, names longer than this are shortened unless the table is wide.
_MOST = 34


class View(Struct, frozen=True):
    """A view: kind of ad, columns, which ads, and which totals stand below."""

    kind: str
    layout: Layout
    constraint: str = ""
    totals: str = ""

    def shown(self, *, wide: bool, width: int = 80, terminal: bool = True) -> Layout:
        """Its columns; when wide, and on no terminal, names are whole; the last heading is written out where there is
        room."""
        items = [replace(item, most=0) if wide or not terminal else item for item in self.layout.items]
        if wide or width >= 100:
            items = [
                replace(item, heading="ActivityTime", prefix=True) if item.heading == "ActvtyTime" else item
                for item in items
            ]
        return replace(self.layout, items=tuple(items))


def _text(name: str, heading: str = "", *, width: int = 0, most: int = 0, instead: str = "??") -> Item:
    return Item(name, heading or name, width=width, most=most, left=True, instead=instead)


def _count(name: str, heading: str = "", *, width: int = 0, printf: str = "%d", instead: str = "??") -> Item:
    return Item(name, heading or name, printf=printf, width=width, instead=instead)


def _as(name: str, heading: str, function: str, *, width: int = 0, left: bool = False, instead: str = "??") -> Item:
    return Item(name, heading, function, width=width, left=left, instead=instead)


_NAME = _text("Name", width=18, most=_MOST)
_WHOLE_NAME = _text("Name", width=18)
_MACHINE = _text("Machine")
_OPSYS, _ARCH = _text("OpSys", width=10), _text("Arch", width=6)
_STATE = replace(_text("State", width=9), colour=colours.slot_state)
_ACTIVITY = replace(_text("Activity", width=8), colour=colours.activity)
_LOAD = _as("CondorLoadAvg ?: LoadAvg", "LoadAv", "LOAD_AVG", width=6, instead="[?")
_MEM = _count("Memory", "Mem", width=5)
#: Without a blank before it, so that the usual tables are 80 columns wide.
_ACTIVITY_S = replace(_as("EnteredCurrentActivity", "ActvtyTime", "ACTIVITY_TIME", width=12, instead="-"), prefix=False)
_STATE_S = _as("EnteredCurrentState", "StateTime", "ELAPSED_TIME", width=12, instead="[?")
_UPTIME = _as("DaemonStartTime", "Uptime", "UPTIME", width=13)
_VERSION = _as("CondorVersion", "Version", "CONDOR_VERSION", left=True)
_PLATFORM = _as("OpSys", "Platform", "PLATFORM", left=True)
_CPUS = _count("DetectedCpus", "Cpus", width=4)
_HOST_MEMORY = _as("DetectedMemory", "Memory", "READABLE_MB", width=10)
_JOBS = tuple(_count(name, width=width) for name, width in (("RunningJobs", 11), ("IdleJobs", 10), ("HeldJobs", 10)))
_TOTAL_JOBS = tuple(_count(f"Total{name}", name, width=width) for name, width in (
    ("RunningJobs", 11), ("IdleJobs", 10), ("HeldJobs", 10)))  # fmt: skip


def _layout(*items: Item) -> Layout:
    return Layout(items)


_SLOTS = _layout(_NAME, _OPSYS, _ARCH, _STATE, _ACTIVITY, _LOAD, _MEM, _ACTIVITY_S)
_CLAIMED = _layout(_NAME, _OPSYS, _ARCH, _LOAD, _text("RemoteUser", width=20), _text("ClientMachine", width=16))
_IS_CLAIMED = 'State == "Claimed"'
_IS_FREE = 'State == "Unclaimed" && Cpus > 0 && Memory > 0'
#: What a slot's share of its machine's sleep has saved until now.
_SAVED_KWH = _count(
    "(time() - LastHeardFrom) / 3.6e6 * (IdleWatts - AsleepWatts) * (TotalSlotCpus ?: Cpus) / TotalCpus",
    "kWh", printf="%.2f", width=6, instead="-")  # fmt: skip
_GPU_NAMES = 'GPUs_DeviceName ?: join(",", evalInEachContext(DeviceName, AvailableGPUs)) ?: CUDADeviceName'
_HEALTH = _count("int(HealthFactor * 100)", "HEALTH", printf="%d%%", width=6, instead="?")
_FAILED = _as("HealthExprs", "FAILED_HEALTH_CHECKS", "UNIQUE", left=True, instead=" ")
_CYCLE = "LastNegotiationCycle"

#: Views by option.
VIEWS: dict[str, View] = {
    "slots": View("Machine", _SLOTS, totals="slots"),
    "avail": View("Machine", _SLOTS, _IS_FREE, "slots"),
    "run": View("Machine", _CLAIMED, _IS_CLAIMED, "run"),
    "claimed": View("Machine", _CLAIMED, _IS_CLAIMED, "run"),
    "cod": View("Machine", _layout(_NAME, _text("CODClaims", instead=" ")), "NumCODClaims > 0"),
    "java": View("Machine", _layout(_NAME, _text("JavaVendor", width=10), _text("JavaVersion", width=6), _STATE,
                                    _ACTIVITY, _LOAD, _MEM, _ACTIVITY_S), "HasJava =?= true", "slots"),
    "vm": View("Machine", _layout(_NAME, _text("VM_Type", "VmType", width=6),
                                  _text("VM_Networking_Types", "Network", width=9), _STATE, _ACTIVITY, _LOAD,
                                  _count("VM_Memory", "VMMem", width=5), _ACTIVITY_S), "HasVM =?= true", "slots"),
    "state": View("Machine", _layout(
        _NAME, _count("Cpus", "Cpu"), _MEM, _LOAD, _as("KeyboardIdle", "KbdIdle", "TIME", width=12, instead="[?"),
        _STATE, _STATE_S, replace(_ACTIVITY, heading="Activ"),
        replace(_ACTIVITY_S, printas="ELAPSED_TIME"),
    ), totals="state"),
    "server": View("Machine", _layout(
        _NAME, _OPSYS, _ARCH, _LOAD, _count("Memory", width=8), _count("Disk", width=9, instead="[?"),
        _count("Mips", width=7, instead="[?"), _count("KFlops", width=9, instead="[?")), totals="server"),
    "gpus": View("Machine", _layout(
        _WHOLE_NAME, _as("Activity", "ST", "ACTIVITY_CODE", width=2, left=True),
        _text("RemoteUser", "User", instead="_"), _count("GPUs", width=4),
        _as("GPUs_GlobalMemoryMb", "GPU-Memory", "READABLE_MB", width=10, instead="_"),
        _text(_GPU_NAMES, "GPU-Name", instead="*")),
        "(PartitionableSlot && AssignedGPUs isnt undefined) ?: (GPUs > 0)", "slots"),
    "lvm": View("Machine", _layout(
        _text("Name", "NAME", width=18), _text('LvmUseThinProvision =?= true ? "thin" : "thick"', "PROVISION", width=9),
        _as("Disk", "ALLOCATED", "READABLE_KB", width=10),
        _count("(DiskUsage ?: 0) * 100.0 / Disk", "USAGE", printf="%.2f%%", width=8)),
        "IsEnforcingDiskUsage && PartitionableSlot =!= true"),
    "broken": View("Machine", _layout(_WHOLE_NAME, _count("SlotBrokenCode", "Code", width=4, instead=" "),
                                      _text("SlotBrokenReason", "Reason")), "size(SlotBrokenReason) > 0", "slots"),
    "healthy": View("Machine", _layout(_text("Name", "SLOT_NAME", width=18), _HEALTH, _FAILED),
                           "size(HealthExprs) > 0"),
    "offline": View("Machine", _layout(
        _NAME, _as("OfflineUniverses", "Offline Universes", "STRINGS_FROM_LIST", left=True, instead=" ")),
        "size(OfflineUniverses) > 0 || Offline =?= true", "slots"),
    "power": View("Machine", _layout(
        _NAME, _text("HibernationState", "Level", width=5),
        _as("LastHeardFrom", "Asleep", "ELAPSED_TIME", width=12),
        _as("MachineLastMatchTime", "LastMatch", "DATE", width=11, instead="-"),
        _as("LastWakeupCall", "LastCall", "DATE", width=11, instead="-"),
        _count("WakeupFailures", "Failed", width=6, instead="0"), _SAVED_KWH,
        _text("HardwareAddress", "Card", width=17, instead="-")), "Offline =?= true", "slots"),
    "absent": View("Machine", _layout(_NAME, _OPSYS, _ARCH, _as("LastHeardFrom", "Went Absent", "DATE", width=11),
                                      _as("ClassAdLifetime", "Will Forget", "DUE_DATE", width=11)),
                   "Absent =?= true", "slots"),
    "startd": View("StartDaemon", _layout(
        _WHOLE_NAME, _PLATFORM, _VERSION, _CPUS, _HOST_MEMORY,
        _as("DetectedGPUs", "GPUs", "MEMBER_COUNT", width=5, instead=" "), _UPTIME), totals="startd"),
    "startd-gpus": View("StartDaemon", _layout(
        _WHOLE_NAME, _count("DetectedCpus", "Cores", width=5), _HOST_MEMORY,
        _as("DetectedGPUs", "GPUs", "MEMBER_COUNT", width=4),
        _as("evalInEachContext(GlobalMemoryMb, DetectedGPUs)", "GPU-Memory", "UNIQUE", left=True, instead=" "),
        _as("evalInEachContext(DeviceName, DetectedGPUs)", "GPU-Name", "UNIQUE", left=True, instead=" "),
        _as("OfflineGPUs", "Offline-GPUs", "UNIQUE", left=True, instead=" ")), "TotalGPUs > 0", "startd"),
    "startd-lvm": View("StartDaemon", _layout(
        _text("Name", "HOST", width=18), _text("LvmBackingStore", "DEVICE"),
        _text('LvmUseThinProvision =?= true ? "thin" : "thick"', "PROVISION", width=9),
        _as("LvmDetectedDisk ?: 0 - LvmNonCondorDiskUsage ?: 0", "DISK", "READABLE_BYTES", width=9),
        _text("LvmUseLoopback =?= true", "LOOPBACK")), "IsEnforcingDiskUsage"),
    "startd-broken": View("StartDaemon", _layout(
        _text("Name", "Machine", width=18),
        _as("BrokenReasons ?: BrokenSlots", "Resource and Reason", "STRINGS_FROM_LIST", left=True, instead=" ")),
        "size(BrokenReasons ?: BrokenSlots) > 0", "startd"),
    "startd-healthy": View("StartDaemon", _layout(_text("Name", "HOST_NAME", width=18), _HEALTH, _FAILED),
                           "size(HealthExprs) > 0"),
    "schedd": View("Scheduler", _layout(_text("Name"), _MACHINE, *_TOTAL_JOBS), totals="schedd"),
    "schedd-run": View("Scheduler", _layout(
        _text("Name"), *(_count(name, heading, width=len(heading), instead="_") for name, heading in (
            ("TotalJobAds", "TotalJobs"), ("ShadowsRunning", "Shadows"), ("TotalSchedulerJobsRunning", "ActiveDAGs"),
            ("TotalSchedulerJobsIdle", "IdleDAGs"), ("RecentJobsCompleted", "RcntDone"),
            ("RecentJobsStarted", "RcntStart")))),
        "((ShadowsRunning ?: TotalRunningJobs) + (TotalSchedulerJobsRunning ?: 0)) > 0"),
    "data": View("Scheduler", _layout(
        _text("Name"), _count("TransferQueueNumDownloading", "Download", width=8),
        _count("FileTransferDownloadBytesPerSecond_5m / 1024.0", "KB/sec(5m)", printf="%.2f", width=10),
        _count("TransferQueueNumWaitingToDownload", "Waiting", width=7),
        _count("FileTransferMBWaitingToDownload", "WaitingMB", printf="%.2f", width=9),
        _count("TransferQueueNumUploading", "Upload", width=8),
        _count("FileTransferUploadBytesPerSecond_5m / 1024.0", "KB/sec(5m)", printf="%.2f", width=10),
        _count("TransferQueueNumWaitingToUpload", "Waiting", width=7),
        _count("FileTransferMBWaitingToUpload", "WaitingMB", printf="%.2f", width=9)),
        "TransferQueueMaxUploading isnt undefined"),
    "submitters": View("Submitter", _layout(_text("Name"), _text("Machine ?: ScheddName", "Machine"), *_JOBS),
                       totals="submitters"),
    "master": View("DaemonMaster", _layout(_text("Name"), _VERSION, _CPUS, _HOST_MEMORY, _UPTIME)),
    "collector": View("Collector", _layout(
        _text("Name"), _MACHINE, *_JOBS[:2], _count("HostsTotal", "HostsTotal", width=10))),
    "negotiator": View("Negotiator", _layout(
        _text("Name"), _as(f"{_CYCLE}End0", "LastCycleEnd", "DATE", width=12),
        _count(f"{_CYCLE}Duration0", "(Sec)", width=5),
        *(_count(f"{_CYCLE}{name}0", heading, width=7) for name, heading in (
            ("CandidateSlots", "Slots"), ("ActiveSubmitterCount", "Submitrs"), ("NumSchedulers", "Schedds"),
            ("NumIdleJobs", "Jobs"), ("Matches", "Matches"), ("Rejections", "Rejections"))))),
    "defrag": View("Defrag", _layout(_text("Name"), *(_count(name, heading, width=8) for name, heading in (
        ("MachinesDraining", "Draining"), ("MachinesDrainingPeak", "Peak"), ("DrainedMachines", "TotalDrained"))))),
    "accounting": View("Accounting", _layout(
        _text("Name"), _count("Priority", printf="%.2f", width=8),
        _count("PriorityFactor", "PrioFactor", printf="%.2f"), _count("ResourcesUsed", "ResInUse"),
        _count("WeightedAccumulatedUsage", "WeightedUsage", printf="%.2f", width=13),
        _as("LastUsageTime > 0 ? LastUsageTime : undefined", "LastUsage", "ELAPSED_TIME", width=12))),
    "grid": View("Grid", _layout(_NAME, *(_count(name, heading) for name, heading in (
        ("NumJobs", "NumJobs"), ("SubmitsAllowed", "Allowed"), ("SubmitsWanted", "Wanted"),
        ("RunningJobs", "RunningJobs"), ("IdleJobs", "IdleJobs"))))),
    **{name: View(kind, _layout(_text("MyType", width=18, instead="?"), _text("TargetType", width=10, instead=" "),
                                _text("Name", instead="?")))
       for name, kind in (("any", "Any"), ("generic", "Generic"), ("storage", "Storage"), ("license", "License"),
                          ("ckptsrvr", "CkptServer"))},
}  # fmt: skip
