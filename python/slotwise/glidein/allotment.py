"""What another batch system allots to its job, by its variables and cgroups: cores, memory, GPUs, an end. Pure.

Sources: the manuals of Slurm (sbatch, "Output environment variables"), PBS, Grid Engine and LSF, and the kernel's
documentation of control groups. Of what several say the least counts: a limit that is not kept ends the job.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from msgspec import Struct

#: What the daemons of an execution point need themselves, in MiB, of memory that a cgroup or batch system limits.
DAEMONS_MIB = 256
#: Limits from here on mean that there is none, in bytes: cgroup version 1 writes a number close to 2**63.
_NO_LIMIT = 1 << 60
_MIB = 1 << 20


class Allotment(Struct, frozen=True):
    """What a job of another system may use; None: it says nothing.

    ``memory_mib`` is for jobs: what the daemons need is taken off. ``gpus`` is the number of devices, and
    ``ends_at`` is in epoch seconds. ``sources`` says where each came from.
    """

    cpus: int | None = None
    memory_mib: int | None = None
    gpus: int | None = None
    ends_at: int | None = None
    sources: Mapping[str, str] = ()  # type: ignore[assignment]


class CgroupLimits(Struct, frozen=True):
    """The limits of this process's cgroups: ``cpus`` of bandwidth and ``memory`` in bytes; None: none."""

    cpus: float | None = None
    memory: int | None = None


def cgroup_limits(texts: Mapping[str, str]) -> CgroupLimits:
    """The tightest of the limits in the files of a process's cgroups and those above them.

    :param texts: contents by path, of ``cpu.max`` and ``memory.max`` (version 2), ``cpu.cfs_quota_us``,
        ``cpu.cfs_period_us`` and ``memory.limit_in_bytes`` (version 1).
    """
    cpus: list[float] = []
    memory: list[int] = []
    for path, text in texts.items():
        directory, _, name = path.rpartition("/")
        words = text.split()
        if not words:
            continue
        if name == "cpu.max" and words[0].isdigit() and len(words) == 2 and words[1].isdigit():
            cpus.append(int(words[0]) / max(1, int(words[1])))
        elif name == "cpu.cfs_quota_us" and words[0].isdigit():
            period = texts.get(f"{directory}/cpu.cfs_period_us", "").strip()
            cpus.append(int(words[0]) / (int(period) if period.isdigit() and int(period) else 100_000))
        elif name in ("memory.max", "memory.limit_in_bytes") and words[0].isdigit() and int(words[0]) < _NO_LIMIT:
            memory.append(int(words[0]))
    return CgroupLimits(min(cpus, default=None), min(memory, default=None))


def of(env: Mapping[str, str], limits: CgroupLimits, affinity: int, now: float) -> Allotment:
    """The allotment that the environment, the cgroups and the affinity to processors describe.

    :param affinity: how many processors this process may run on.
    """
    found: dict[str, str] = {}

    def least(what: str, offers: list[tuple[str, float | None]]) -> float | None:
        known = [(value, source) for source, value in offers if value is not None and value > 0]
        if not known:
            return None
        value, source = min(known)
        found[what] = source
        return value

    cpus = least(
        "cpus",
        [
            ("SLURM_CPUS_ON_NODE", _number(env.get("SLURM_CPUS_ON_NODE"))),
            ("PBS_NCPUS", _number(env.get("PBS_NCPUS") or env.get("NCPUS"))),
            ("NSLOTS", _number(env.get("NSLOTS"))),
            ("LSB_DJOB_NUMPROC", _number(env.get("LSB_DJOB_NUMPROC"))),
            ("the cgroup's bandwidth", None if limits.cpus is None else float(max(1, math.floor(limits.cpus)))),
            ("the affinity to processors", float(affinity)),
        ],
    )
    per_cpu = _number(env.get("SLURM_MEM_PER_CPU"))
    memory = least(
        "memory",
        [
            ("SLURM_MEM_PER_NODE", _number(env.get("SLURM_MEM_PER_NODE"))),
            ("SLURM_MEM_PER_CPU", None if per_cpu is None or cpus is None else per_cpu * cpus),
            ("PBS_RESOURCE_MEM", _bytes_mib(env.get("PBS_RESOURCE_MEM"))),
            ("the cgroup's limit", None if limits.memory is None else float(limits.memory // _MIB)),
        ],
    )
    walltime = _number(env.get("PBS_WALLTIME"))
    end = least(
        "end",
        [
            ("SLURM_JOB_END_TIME", _number(env.get("SLURM_JOB_END_TIME"))),
            ("PBS_WALLTIME", None if walltime is None else now + walltime),
        ],
    )
    gpus, source = _gpus(env)
    if source:
        found["gpus"] = source
    return Allotment(
        cpus=None if cpus is None else max(1, int(cpus)),
        memory_mib=None if memory is None else max(1, int(memory) - DAEMONS_MIB),
        gpus=gpus,
        ends_at=None if end is None else int(end),
        sources=found,
    )


def _number(text: str | None) -> float | None:
    match = re.fullmatch(r"\s*(\d+)\s*", text or "")
    return float(match[1]) if match else None


def _bytes_mib(text: str | None) -> float | None:
    match = re.fullmatch(r"\s*(\d+)\s*", text or "")
    return float(int(match[1]) // _MIB) if match else None


def _gpus(env: Mapping[str, str]) -> tuple[int | None, str]:
    """How many devices are visible: CUDA takes those up to the first word that is none."""
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        words = [word.strip() for word in visible.split(",")]
        devices = 0
        for word in words:
            if not re.fullmatch(r"\d+|(GPU|MIG)-[0-9A-Za-z/-]+", word):
                break
            devices += 1
        return devices, "CUDA_VISIBLE_DEVICES"
    counted = _number(env.get("SLURM_GPUS_ON_NODE"))
    return (None, "") if counted is None else (int(counted), "SLURM_GPUS_ON_NODE")
