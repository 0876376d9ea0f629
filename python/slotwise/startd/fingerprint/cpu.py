"""Cores, and what kind they are."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from slotwise.startd.fingerprint import Attributes

_FEATURES = ("avx", "avx2", "avx512f", "avx512dq", "avx512_vnni", "sse4_1", "sse4_2", "ssse3")


def read(root: Path = Path("/"), *, count_hyperthreads: bool = True) -> Attributes:
    """DetectedCpus (hyperthreads counted or not), DetectedCores, CpuFamily and relatives."""
    text = _cpuinfo(root)
    processors = text.count("processor\t") or os.cpu_count() or 1
    cores = _physical_cores(text) or processors
    attributes: Attributes = {
        "DetectedCpus": processors if count_hyperthreads else cores,
        "DetectedHyperthreads": processors,
        "DetectedCores": cores,
    }
    for name, field in (("CpuFamily", "cpu family"), ("CpuModelNumber", "model")):
        value = _field(text, field)
        if value and value.isdigit():
            attributes[name] = int(value)
    model = _field(text, "model name")
    if model:
        attributes["CpuModel"] = model
    cache = re.match(r"\d+", _field(text, "cache size") or "")
    if cache:
        attributes["CpuCacheSize"] = int(cache[0])
    flags = set((_field(text, "flags") or "").split())
    attributes.update({f"has_{name}": True for name in _FEATURES if name in flags})
    return attributes


def limit(env: Mapping[str, str], root: Path = Path("/")) -> int | None:
    """DETECTED_CPUS_LIMIT: the least of what affinity, the cgroup and batch system variables allow; None without."""
    limits = []
    if hasattr(os, "sched_getaffinity") and root == Path("/"):
        limits.append(len(os.sched_getaffinity(0)))
    quota = _cgroup_cpus(root)
    if quota is not None:
        limits.append(quota)
    for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "SLURM_CPUS_ON_NODE"):
        value = env.get(name, "")
        if value.isdigit() and int(value) > 0:
            limits.append(int(value))
    return min(limits) if limits else None


def _cgroup_cpus(root: Path) -> int | None:
    """The quota of a container that the startd may run in, of either version of cgroups."""
    groups = root / "sys/fs/cgroup"
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((groups / name).read_text() for name in names).split()
            return max(1, int(quota) // int(period)) if quota.isdigit() else None
        except (OSError, ValueError, ZeroDivisionError):
            continue
    return None


def _cpuinfo(root: Path) -> str:
    try:
        return (root / "proc/cpuinfo").read_text()
    except OSError:
        return ""


def _field(text: str, name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}[ \t]*+:[ \t]*+(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else None


def _physical_cores(text: str) -> int:
    cores = set()
    for block in text.split("\n\n"):
        core = _field(block, "core id")
        if core is not None:
            cores.add((_field(block, "physical id"), core))
    return len(cores)
