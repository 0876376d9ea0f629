"""What this host can enforce, as attributes for the machine ad and as words for the log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.classad.values import Value
from slotwise.execution.cgroup.probe import CPUSET, V1_DEVICES, CgroupHost, probe
from slotwise.starter.scratch.lvm import POOL_FULL_PERCENT, PoolUse
from slotwise.starter.settings import StarterSettings

#: How the gap about an exhausted pool begins.
_POOL = "the thin pool"


class Enforcement(Struct, frozen=True):
    """What holds for jobs on this host. ``disk``: volume, measured or none; ``tracking``: cgroup, gid or descent."""

    root: bool
    cgroups: CgroupHost
    disk: str
    tracking: str
    private_mounts: bool
    pid_namespace: bool
    gaps: tuple[str, ...]
    #: Whether jobs can have namespaces of their own.
    namespaces: bool = True
    #: Methods of URLs that plugins here serve.
    url_methods: str = ""
    #: Whether a scratch volume can be encrypted.
    encrypts: bool = False
    #: What containers and virtual machines here can do, for the machine ad.
    runtimes: Mapping[str, Value] = field(default_factory=dict)
    #: What they do not enforce.
    runtime_gaps: tuple[str, ...] = ()
    #: What its virtual machine for java jobs says of itself; nothing where there is none.
    java: Mapping[str, Value] = field(default_factory=dict)

    def with_runtimes(self, attributes: Mapping[str, Value], gaps: tuple[str, ...]) -> Enforcement:
        """The same, with what runtimes can do, and what they do not enforce."""
        return replace(self, runtimes=attributes, runtime_gaps=gaps)

    def with_pool(self, use: PoolUse | None) -> Enforcement:
        """The same, with what there is to say of the thin pool now."""
        gaps = [gap for gap in self.gaps if not gap.startswith(_POOL)]
        if use is not None and use.worst >= POOL_FULL_PERCENT:
            gaps.append(f"{_POOL} {use.name} is full: no job can be given its disk")
        return self if tuple(gaps) == self.gaps else replace(self, gaps=tuple(gaps))

    def with_refusal(self, limit: str) -> Enforcement:
        """The same, after the kernel has refused a limit (``file: reason``) that it seemed to have."""
        path, _, why = limit.partition(": ")
        gap = f"the kernel refuses {PurePath(path).name}: {why}"
        return self if gap in self.gaps else replace(self, gaps=(*self.gaps, gap))

    def attributes(self) -> dict[str, Value]:
        """For the machine ad."""
        groups = self.cgroups
        found: dict[str, Value] = {
            "CgroupVersion": groups.version,
            "CgroupControllers": " ".join(sorted(groups.controllers)),
            "EnforcesMemory": groups.has("memory"),
            "EnforcesCpuShare": groups.has("cpu"),
            "EnforcesProcessCount": groups.has("pids"),
            "EnforcesDisk": self.disk,
            "ProcessTracking": self.tracking,
            "HasFreezer": groups.version == 2 or groups.has("freezer"),
            "HasPrivateTmp": self.private_mounts,
            "HasPidNamespaces": self.pid_namespace,
            "HasUserSwitch": self.root,
            "HasEncryptExecuteDirectory": self.encrypts,
            # HTCondor's number of the second way to share them.
            "HasCommonFilesTransfer": 2,
            "EnforcementGaps": [*self.gaps, *self.runtime_gaps],
            **self.java,
        }
        if self.url_methods:
            found["HasFileTransferPluginMethods"] = self.url_methods
        return {**found, **self.runtimes}


def hides_devices(cgroups: CgroupHost) -> bool:
    """True when a job's cgroup can keep it from devices."""
    return cgroups.version == 2 or V1_DEVICES in cgroups.bases


def cgroups_for(settings: StarterSettings, *, root: bool) -> CgroupHost:
    """The control groups that this host lets jobs have under these settings; those that hold the jobs' are made."""
    return probe(
        settings.base_cgroup,
        is_root=root,
        without_root=settings.cgroup_without_root,
        version=settings.cgroup_version,
    )


def assess(
    settings: StarterSettings,
    cgroups: CgroupHost,
    *,
    root: bool,
    volumes: str,
    gpus: bool = False,
    absent: tuple[str, ...] = (),
    encrypts: bool = False,
    namespaces: bool = True,
) -> Enforcement:
    """What holds for jobs under these settings. ``volumes``: lvm, loop, or empty when there are none. ``gpus``: the
    host has some. ``absent``: directories of MOUNT_UNDER_SCRATCH that the host does not have. ``encrypts``: volumes can
    be encrypted. ``namespaces``: root may make some; where it may not, as in most containers, jobs do without, as in
    HTCondor."""
    gaps = list(cgroups.problems)
    if not root:
        gaps.append("jobs run as the daemons' own user: the daemons are not root")
    if not (isolates := root and namespaces):
        why = "root lacks CAP_SYS_ADMIN" if root else "the daemons are not root"
        if settings.mounts:
            gaps.append(f"MOUNT_UNDER_SCRATCH has no effect: {why}")
        if settings.private_shm or settings.private_ipc:
            gaps.append(f"jobs share /dev/shm and System V memory with all others: {why}")
        if settings.pid_namespace:
            gaps.append(f"USE_PID_NAMESPACES has no effect: {why}")
    if isolates and absent:
        gaps.append(f"MOUNT_UNDER_SCRATCH: there is no directory {', '.join(absent)}")
    gaps += settings.misread + _memory_gaps(settings, cgroups)
    if not cgroups.has("cpu"):
        gaps.append("CPU shares are not enforced: no cpu cgroup")
    if settings.cgroup.max_processes > 0 and not cgroups.has("pids"):
        gaps.append("the number of processes is limited for the account, not for each job: no pids cgroup")
    if settings.cores.is_asked_for and not cgroups.has(CPUSET):
        gaps.append("jobs can leave the cores that they are bound to: no cpuset cgroup")
    if settings.hide_gpus and gpus and not (root and hides_devices(cgroups)):
        gaps.append("jobs can open GPUs of other slots: no devices cgroup")
    disk = "none"
    if settings.enforce_disk:
        disk = "volume" if volumes else "measured"
        if volumes == "loop" and settings.volumes.volume_group:
            gaps.append(f"the volume group {settings.volumes.volume_group} cannot be used: volumes are files")
        if not volumes:
            gaps.append("disk is measured, not limited: no volume can be made for a job")
    first, last = settings.tracking_gids
    by_group = root and 0 < first <= last
    if settings.gid_tracking and not cgroups.version and not by_group:
        why = "MIN_TRACKING_GID and MAX_TRACKING_GID name no groups" if root else "the daemons are not root"
        gaps.append(f"USE_GID_PROCESS_TRACKING has no effect: {why}")
    tracking = "cgroup" if cgroups.version else "gid" if by_group else "descent"
    return Enforcement(
        root=root,
        cgroups=cgroups,
        disk=disk,
        tracking=tracking,
        private_mounts=isolates and bool(settings.mounts),
        pid_namespace=isolates and settings.pid_namespace,
        namespaces=isolates,
        encrypts=encrypts and not settings.encryption.forbidden,
        gaps=tuple(gaps),
    )


def _memory_gaps(settings: StarterSettings, cgroups: CgroupHost) -> tuple[str, ...]:
    rules = settings.cgroup
    if rules.memory_policy != "none" and not cgroups.has("memory"):
        return ("memory is measured, not limited: no memory cgroup",)
    gaps = []
    if rules.memory_policy == "soft" and cgroups.version == 2:
        gaps.append("memory is not limited: CGROUP_MEMORY_LIMIT_POLICY soft means nothing under cgroup version 2")
    if rules.memory_policy in ("hard", "custom") and rules.disable_swap and not cgroups.swap:
        gaps.append("DISABLE_SWAP_FOR_JOB has no effect: this kernel keeps no account of swap")
    if settings.low_memory is not None and cgroups.version == 1:
        gaps.append("CGROUP_LOW_MEMORY_LIMIT has no effect: cgroup version 1 has no such limit")
    return tuple(gaps)
