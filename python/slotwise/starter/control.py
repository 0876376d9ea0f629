"""Where the starter and its keepers keep their own small files: in memory, since they are many and short-lived.

They must outlive starter and keepers, not the host: after a reboot no run of it lives. So they go to a directory of
this EXECUTE's own in ``/run`` or ``/dev/shm`` where that is memory, else below EXECUTE. SLOTWISE_CONTROL_DIR names
another place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from slotwise.errors import HostError

#: Places that are in memory on usual hosts, best first. Only root may fill the first.
_IN_MEMORY = (Path("/run"), Path("/dev/shm"))
#: File that names the EXECUTE directory whose control files these are.
_OWNER = "execute"
#: Others may pass through (a job reads its ads there), nobody but us may list or write.
_MODE = 0o711


def control_root(execute: Path, wanted: str = "", *, mounts: Path = Path("/proc/self/mounts")) -> Path:
    """The directory of control files for runs under ``execute``; made if need be.

    :raises HostError: when no place is ours alone.
    """
    real = os.path.realpath(execute)
    name = f"slotwise-{os.geteuid()}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
    places = [Path(wanted)] if wanted else [*_memory_places(mounts), execute / ".starter"]
    refusals = []
    for place in places:
        root = place / name
        try:
            root.mkdir(mode=_MODE, parents=True, exist_ok=True)
            root.chmod(_MODE)
        except OSError as error:
            refusals.append(str(error))
            continue
        status = root.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            (root / _OWNER).write_text(real)
            return root
        refusals.append(f"{root} is not ours")
    raise HostError(f"no place for control files: {'; '.join(refusals)}", hint="set SLOTWISE_CONTROL_DIR")


def orphaned(root: Path) -> list[Path]:
    """Control directories beside ``root`` whose EXECUTE is no more: of pools that were deleted, or never went down."""
    found = []
    for sibling in sorted(root.parent.glob(f"slotwise-{os.geteuid()}-*")):
        try:
            execute = (sibling / _OWNER).read_text()
        except OSError:
            continue
        if sibling != root and execute and not os.path.lexists(execute):
            found.append(sibling)
    return found


def discard(root: Path) -> None:
    """Remove the directory of control files if no run is in it."""
    if not list(root.glob("dir_*")):
        for name in ("lease", "notices", "left", "mending", _OWNER):
            (root / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            root.rmdir()


def _memory_places(mounts: Path) -> Iterable[Path]:
    """Those of the usual places that are a tmpfs which we may write."""
    try:
        mounted = {line.split()[1]: line.split()[2] for line in mounts.read_text().splitlines()}
    except (OSError, IndexError):
        return []
    return [path for path in _IN_MEMORY if mounted.get(str(path)) == "tmpfs" and os.access(path, os.W_OK)]
