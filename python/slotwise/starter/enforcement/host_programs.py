"""Programs of the host that the starter runs: ``lvcreate``, ``mount``, ``cryptsetup`` and the like."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from slotwise.daemon import children
from slotwise.errors import HostError

#: How long a program may take, seconds.
_LIMIT_S = 120
_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
#: Where udev listens when it runs; without it LVM has to make device files itself.
_UDEV = Path("/run/udev/control")


def installed(name: str) -> bool:
    """Whether the host has this program."""
    return shutil.which(name, path=_PATH) is not None


def has_device_mapper() -> bool:
    """Whether the kernel has device mapper. Tools make its device file where there is none, so that this says nothing;
    opening it does, and loads the module where there is one."""
    try:
        os.close(os.open("/dev/mapper/control", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def run(*command: str, data: bytes | None = None) -> str:
    """Run a tool of the host; its output. ``data``: what it reads from its standard input.

    :raises HostError: when it is not there or fails, with what it said.
    """
    path = shutil.which(command[0], path=_PATH)
    if path is None:
        raise HostError(f"{command[0]} is not installed", errno=errno.ENOENT)
    # Tools must not take their words from the daemon's surroundings, nor complain of its open files.
    env = {"PATH": _PATH, "LC_ALL": "C", "LVM_SUPPRESS_FD_WARNINGS": "1"}
    if not _UDEV.exists():
        env["DM_DISABLE_UDEV"] = "1"
    try:
        ended = children.run_command_blocking([path, *command[1:]], limit_s=_LIMIT_S, given=data or b"", env=env)
    except OSError as error:
        raise HostError(f"{command[0]}: {error.strerror}", errno=error.errno or 0) from None
    if ended.timed_out:
        raise HostError(f"{' '.join(command)}: no answer in {_LIMIT_S} s", errno=errno.ETIMEDOUT)
    if ended.status != 0:
        said = ended.said.splitlines()
        raise HostError(f"{' '.join(command)}: {said[-1].strip() if said else f'exit {ended.status}'}")
    return ended.output.decode(errors="replace")
