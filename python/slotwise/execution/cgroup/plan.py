"""What one job gets: names of its groups, limits, weights. Pure. Manual, "cgroup based process tracking" and
CGROUP_MEMORY_LIMIT_POLICY."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from slotwise.execution.cgroup.probe import CPUSET, V1_DEVICES, V1_WANTED, CgroupHost
from slotwise.execution.keeper_spec import CgroupPlan, CgroupSetting

#: Values of CGROUP_MEMORY_LIMIT_POLICY.
MEMORY_POLICIES = ("none", "soft", "hard", "custom")
_MIB = 1024 * 1024
#: How names of slots go on after their prefix: ``slot1_2@host``.
_SLOT = r"\d+(_\d+)?@"


class CgroupRules(Struct, frozen=True):
    """Knobs, evaluated for one job on one slot.

    ``memory_policy``: CGROUP_MEMORY_LIMIT_POLICY: none, soft, hard or custom. ``hard_mib``: the limit of ``custom``,
    CGROUP_HARD_MEMORY_LIMIT_EXPR. ``low_mib``: CGROUP_LOW_MEMORY_LIMIT. ``disable_swap``: DISABLE_SWAP_FOR_JOB.
    ``max_processes``: 0 for no limit. ``deny``: devices (major, minor) that the job must not open. ``cores``: those
    that it is bound to, none for all.
    """

    memory_policy: str = "hard"
    hard_mib: int | None = None
    low_mib: int | None = None
    disable_swap: bool = True
    max_processes: int = 0
    deny: tuple[tuple[int, int], ...] = ()
    cores: tuple[int, ...] = ()
    use_peak: bool = False
    ignore_cache: bool = True


def memory_limit_mib(rules: CgroupRules, slot_memory_mib: int) -> int | None:
    """The hard limit in MiB that the job runs under; None for none."""
    if rules.memory_policy == "hard":
        return slot_memory_mib if slot_memory_mib > 0 else None
    if rules.memory_policy == "custom" and rules.hard_mib is not None and rules.hard_mib > 0:
        return rules.hard_mib
    return None


def group_name(execute: str, slot_name: str) -> str:
    """A name that is this slot's alone on this host."""
    return f"{execute}/{slot_name}".replace("/", "_").replace(" ", "_")


def plan(host: CgroupHost, rules: CgroupRules, *, name: str, cpus: float, memory_mib: int, user: bool) -> CgroupPlan:
    """The groups of a job on a slot with ``cpus`` and ``memory_mib``; ``user``: it runs as another user than we."""
    if host.version == 1:
        return _plan_v1(host, rules, name, cpus, memory_mib)
    if host.version == 2:
        return _plan_v2(host, rules, name, cpus, memory_mib, user)
    return CgroupPlan()


def _weight(cpus: float) -> int:
    return max(1, round(100 * cpus))


def _plan_v1(host: CgroupHost, rules: CgroupRules, name: str, cpus: float, memory_mib: int) -> CgroupPlan:
    groups = {controller: base / name for controller, base in host.bases.items() if controller in V1_WANTED}
    if rules.deny and V1_DEVICES in host.bases:
        groups[V1_DEVICES] = host.bases[V1_DEVICES] / name
    if rules.cores and CPUSET in host.bases:
        groups[CPUSET] = host.bases[CPUSET] / name
    settings: list[CgroupSetting] = []

    def put(controller: str, file: str, value: object, *, required: bool = False) -> None:
        if controller in groups:
            settings.append(CgroupSetting(str(groups[controller] / file), str(value), required))

    limit_mib = memory_limit_mib(rules, memory_mib)
    if limit_mib is not None:
        put("memory", "memory.limit_in_bytes", limit_mib * _MIB, required=True)
        if rules.disable_swap:
            put("memory", "memory.memsw.limit_in_bytes", limit_mib * _MIB)
    if rules.memory_policy == "soft" and memory_mib > 0:
        put("memory", "memory.soft_limit_in_bytes", memory_mib * _MIB)
    put("cpu", "cpu.shares", max(2, _weight(cpus)))
    if rules.max_processes > 0:
        put("pids", "pids.max", rules.max_processes)
    if CPUSET in groups:  # a group of version 1 without memory nodes takes no process
        put(CPUSET, "cpuset.mems", host.memory_nodes, required=True)
        put(CPUSET, "cpuset.cpus", listed(rules.cores), required=True)
    for major, minor in rules.deny:
        put(V1_DEVICES, "devices.deny", f"c {major}:{minor} rwm")
    directories = tuple(dict.fromkeys(str(path) for path in groups.values()))
    tracker = groups.get("freezer") or next(iter(groups.values()))
    return CgroupPlan(
        version=1,
        make=directories,
        settings=tuple(settings),
        join=directories,
        freezer=str(tracker),
        memory=str(groups["memory"]) if "memory" in groups else "",
        cpu=str(groups["cpuacct"]) if "cpuacct" in groups else "",
        use_peak=rules.use_peak,
        ignore_cache=rules.ignore_cache,
    )


def _plan_v2(host: CgroupHost, rules: CgroupRules, name: str, cpus: float, memory_mib: int, user: bool) -> CgroupPlan:
    outer = host.bases[""] / f"{name}.slice"
    inner = outer / f"{name}.scope"
    settings: list[CgroupSetting] = []

    def put(controller: str, file: str, value: object, *, required: bool = False) -> None:
        if host.has(controller):
            settings.append(CgroupSetting(str(outer / file), str(value), required))

    limit_mib = memory_limit_mib(rules, memory_mib)
    if limit_mib is not None:
        put("memory", "memory.max", limit_mib * _MIB, required=True)
        if rules.disable_swap:
            put("memory", "memory.swap.max", 0)
    if rules.low_mib is not None:
        put("memory", "memory.low", rules.low_mib * _MIB)
    put("memory", "memory.oom.group", 1)
    put("cpu", "cpu.weight", min(10_000, _weight(cpus)))
    if rules.max_processes > 0:
        put("pids", "pids.max", rules.max_processes)
    if rules.cores:
        put(CPUSET, "cpuset.cpus", listed(rules.cores), required=True)
    for controller in ("memory", "pids", "cpu", "io"):
        put(controller, "cgroup.subtree_control", f"+{controller}")
    return CgroupPlan(
        version=2,
        make=(str(outer), str(inner)),
        settings=tuple(settings),
        join=(str(inner),),
        freezer=str(outer),
        memory=str(outer) if host.has("memory") else "",
        cpu=str(outer),
        own=(str(inner),) if user else (),
        deny=rules.deny,
        use_peak=rules.use_peak,
        ignore_cache=rules.ignore_cache,
    )


def listed(cores: Iterable[int]) -> str:
    """Cores as the kernel's files take them."""
    return ",".join(map(str, cores))


def find_leftovers(host: CgroupHost, execute: Path, prefix: str = "slot") -> list[Path]:
    """Groups of jobs of this EXECUTE directory that are there now (after a crash, before any job).

    What follows the directory's name must be a slot's (``prefix``: STARTD_RESOURCE_PREFIX): the group of a slot below
    ``/scratch/b`` begins like those of ``/scratch``, and is another pool's.
    """
    ours = re.compile(re.escape(group_name(str(execute), prefix)) + _SLOT)
    found: list[Path] = []
    for base in dict.fromkeys(host.bases.values()):
        if base.is_dir():
            found += [path for path in base.iterdir() if path.is_dir() and ours.match(path.name)]
    return found
