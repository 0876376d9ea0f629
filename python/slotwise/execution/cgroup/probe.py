"""Finds out which control groups this host lets the starter use, by trying.

Version 2 when its hierarchy offers memory and pids, else version 1 with whatever controllers can be used, else
version 2 with what it has. As root below the root of the hierarchy (or below the starter's own group, when it was given
one, to which the groups above are told to hand controllers down, as HTCondor does); without root only in a delegated
subtree and with CREATE_CGROUP_WITHOUT_ROOT. A BASE_CGROUP that begins with a slash is below the root of the hierarchy
wherever the starter is: a unit of systemd that has jobs' groups below its own cannot be started again.
Nothing is assumed from names of distributions or paths.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

#: Controllers of version 1 that jobs join, when the host has them.
V1_WANTED = ("memory", "cpu", "cpuacct", "freezer", "pids")
#: Joined by jobs from which devices are to be hidden.
V1_DEVICES = "devices"
V2_WANTED = ("memory", "pids", "cpu", "io")
#: Joined by jobs that are bound to cores.
CPUSET = "cpuset"
#: How often a group is emptied: its processes may fork while they are moved.
_EVACUATIONS = 10


class CgroupHost(Struct, frozen=True):
    """What the host lets us do. ``bases``: directory below which jobs' groups are made, per controller (version 2:
    one entry, ``""``). ``problems``: what was wanted and cannot be had, in words."""

    version: int = 0
    bases: Mapping[str, Path] = field(default_factory=dict)
    controllers: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    #: Whether the kernel keeps account of what a group has swapped out.
    swap: bool = True
    #: Numbers of the host's memory nodes, as files of a cpuset of version 1 take them.
    memory_nodes: str = ""

    def has(self, controller: str) -> bool:
        """True when jobs can be put under this controller."""
        return controller in self.controllers


def probe(
    base: str,
    *,
    is_root: bool,
    without_root: bool = False,
    version: str = "auto",
    mounts: Path = Path("/proc/self/mounts"),
    own: Path = Path("/proc/self/cgroup"),
) -> CgroupHost:
    """What this host offers. ``base`` is BASE_CGROUP; ``version`` may ask for ``1``, ``2`` or ``none``."""
    if not base or version == "none":
        return CgroupHost(problems=("cgroups are switched off by configuration",))
    if not is_root and not without_root:
        return CgroupHost(problems=("the daemons are not root and CREATE_CGROUP_WITHOUT_ROOT is false",))
    v1, v2 = _mounted(mounts)
    mine = _own_groups(own)
    if v2 is not None and version in ("auto", "2"):
        found = _probe_v2(v2, base, mine.get("", "/"), is_root)
        if version == "2" or not v1 or {"memory", "pids"} <= found.controllers:
            return found
    if v1 and version in ("auto", "1"):
        return _probe_v1(v1, base, mine, is_root)
    return CgroupHost(problems=("no cgroup hierarchy with memory and pids is mounted",))


def _mounted(mounts: Path) -> tuple[dict[str, Path], Path | None]:
    """Mount points: by controller for version 1, and that of version 2."""
    v1: dict[str, Path] = {}
    v2: Path | None = None
    for line in mounts.read_text().splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        place = Path(words[1].encode().decode("unicode_escape"))
        if words[2] == "cgroup2" and v2 is None:
            v2 = place
        elif words[2] == "cgroup":
            for controller in words[3].split(","):
                if controller in (*V1_WANTED, V1_DEVICES, CPUSET):
                    v1.setdefault(controller, place)
    return v1, v2


def _own_groups(own: Path) -> dict[str, str]:
    """The starter's own groups: path by controller, ``""`` for version 2."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                found[controller] = path
    return found


def _probe_v1(v1: Mapping[str, Path], base: str, mine: Mapping[str, str], is_root: bool) -> CgroupHost:
    bases: dict[str, Path] = {}
    problems: list[str] = []
    for controller in V1_WANTED:
        mount = v1.get(controller)
        if mount is None:
            problems.append(f"cgroup v1 controller {controller} is not mounted")
            continue
        top = mount if is_root else mount / mine.get(controller, "/").strip("/")
        directory = _below(mount, base) or top / base
        error = _usable(directory)
        if error:
            problems.append(f"cgroup v1 controller {controller}: {error}")
        else:
            bases[controller] = directory
    base = base.strip("/")
    version = 1 if bases else 0
    controllers = frozenset(bases)
    if version and is_root and V1_DEVICES in v1 and not _usable(v1[V1_DEVICES] / base):
        bases[V1_DEVICES] = v1[V1_DEVICES] / base
    swap = "memory" not in bases or (bases["memory"] / "memory.memsw.limit_in_bytes").exists()
    nodes = _open_cpuset(v1[CPUSET], base) if version and is_root and CPUSET in v1 else ""
    if nodes:
        bases[CPUSET] = v1[CPUSET] / base
        controllers |= {CPUSET}
    return CgroupHost(version, bases, controllers, tuple(problems), swap, nodes)


def _below(mount: Path, base: str) -> Path | None:
    """The directory of a base that begins with a slash; None for one that is below the starter's own group."""
    return mount / base.strip("/") if base.startswith("/") else None


def _open_cpuset(mount: Path, base: str) -> str:
    """Let the group that jobs' cpusets are made in have all cores and memory nodes; a new one has none.

    :returns: the memory nodes, or nothing when cpusets cannot be used.
    """
    if _usable(mount / base):
        return ""
    try:
        for level in _levels(mount, mount / base):
            for name in ("cpuset.cpus", "cpuset.mems"):
                if not (level / name).read_text().strip():
                    _write(level / name, (level.parent / name).read_text().strip())
        return (mount / base / "cpuset.mems").read_text().strip()
    except OSError:
        return ""


def _usable(directory: Path) -> str:
    """Empty when groups can be made (and left) below ``directory``; else why not."""
    trial = directory / f".probe_{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        trial.mkdir(exist_ok=True)
        trial.rmdir()
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _probe_v2(mount: Path, base: str, own: str, is_root: bool) -> CgroupHost:
    if (given := _below(mount, base)) is not None:
        top, directory = mount, given
        leaf = directory.parent / f"{directory.name}-daemons"
    else:
        leaf_name = f"{base.split('/')[0]}-daemons"
        top = mount if is_root and own in ("", "/") else mount / own.strip("/")
        if top.name == leaf_name:
            top = top.parent  # a former start has moved the daemons into the leaf, and so this one was born there
        directory, leaf = top / base, top / leaf_name
    problems: list[str] = []
    if is_root and top != mount:
        # Not ours, so nothing is moved: a group with processes of its own keeps its controllers to itself.
        for above in (mount, *_levels(mount, top.parent)):
            problems += _enable(above, leaf=None)
    for level in (top, *_levels(top, directory)):
        try:
            level.mkdir(exist_ok=True)
        except OSError as error:
            return CgroupHost(problems=(f"cgroup v2: {error.filename}: {error.strerror}",))
        problems += _enable(level, leaf=leaf)
    refusal = _usable(directory)
    if refusal:
        return CgroupHost(problems=(f"cgroup v2: {refusal}",))
    controllers = frozenset(_words(directory / "cgroup.subtree_control")) & {*V2_WANTED, CPUSET}
    missing = [name for name in V2_WANTED if name not in controllers]
    if missing:
        problems.append(f"cgroup v2 controllers not available: {' '.join(missing)}")
    swap = "memory" not in controllers or (directory / "memory.swap.max").exists()
    return CgroupHost(2, {"": directory}, controllers, tuple(problems), swap)


def _levels(top: Path, directory: Path) -> list[Path]:
    """The directories from below ``top`` down to ``directory``."""
    parts = directory.relative_to(top).parts
    return [top.joinpath(*parts[: index + 1]) for index in range(len(parts))]


def _enable(level: Path, leaf: Path | None) -> list[str]:
    """Hand the controllers down from ``level``. Processes in a group that shall hand down move to ``leaf`` first, where
    there is one."""
    problems: list[str] = []
    wanted = set(_words(level / "cgroup.controllers")) - set(_words(level / "cgroup.subtree_control"))
    for controller in (*V2_WANTED, CPUSET):
        if controller not in wanted:
            continue
        try:
            _hand_down(level, controller, leaf)
        except OSError as error:
            problems.append(f"cgroup v2: {level} does not hand down {controller}: {error.strerror}")
    return problems


def _hand_down(level: Path, controller: str, leaf: Path | None) -> None:
    """:raises OSError: the kernel refuses."""
    for _ in range(_EVACUATIONS):
        try:
            _write(level / "cgroup.subtree_control", f"+{controller}")
            return
        except OSError:
            # The root of the hierarchy may have processes, and is not ours to empty.
            if leaf is None or not (level / "cgroup.type").exists():
                raise
        _evacuate(level, leaf)
    _write(level / "cgroup.subtree_control", f"+{controller}")


def _evacuate(level: Path, leaf: Path) -> None:
    """Move the processes of ``level`` into ``leaf``: only groups without processes hand controllers down."""
    leaf.mkdir(exist_ok=True)
    for pid in _words(level / "cgroup.procs"):
        with contextlib.suppress(ProcessLookupError):
            _write(leaf / "cgroup.procs", pid)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _write(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
