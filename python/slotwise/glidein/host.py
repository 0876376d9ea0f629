"""What a glide-in asks of the host that it is on: its cgroups, its address, its processors."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path, PurePosixPath

_CGROUPS = Path("/sys/fs/cgroup")
#: Files with limits, by controller; the controller of version 2 is empty.
_FILES = {
    "": ("cpu.max", "memory.max"),
    "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "memory": ("memory.limit_in_bytes",),
}


def cgroup_texts(process: Path = Path("/proc/self/cgroup"), root: Path = _CGROUPS) -> dict[str, str]:
    """The files with limits of this process's cgroups and of those above them, by path.

    In a container the path may be one outside its namespace: then those at the root are its own.
    """
    found: dict[str, str] = {}
    try:
        lines = process.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            top = root / controller if controller else root
            below = [PurePosixPath(path.lstrip("/"))]
            for place in (*below, *below[0].parents):
                for name in _FILES.get(controller, ()):
                    file = top / place / name
                    with contextlib.suppress(OSError, UnicodeDecodeError):
                        found[str(file)] = file.read_text()
    return found


def affinity() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0))


def address_towards(host: str, port: int) -> str:
    """The address by which this host reaches ``host``, and so probably is reached from there.

    :raises OSError: the name is not known, or there is no way there.
    """
    family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(place)  # of datagrams: nothing is sent
        found = str(probe.getsockname()[0])
    return f"[{found}]" if ":" in found else found
