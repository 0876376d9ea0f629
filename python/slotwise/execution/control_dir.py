"""Where starter, schedd and their keepers keep their own small files: in memory, as they are many and short-lived.

They must outlive starter and keepers, not the host: after a reboot no run of it lives. Root uses ``/run`` or
``/dev/shm`` where that is memory, other users ``$XDG_RUNTIME_DIR``, and both EXECUTE where there is none.
SLOTWISE_CONTROL_DIR names another place.

What lies in a control directory is acted on with the daemon's rights: processes are killed and groups removed by what
its files say. So every directory on the way from the *base* (the place itself when it is private, else a directory of
ours in it) is ours and closed to other writers, and none is reached through a link.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from slotwise import record_lock
from slotwise.errors import HostError

#: Places that are in memory on usual hosts, best first. Only root's files go there.
_IN_MEMORY = (Path("/run"), Path("/dev/shm"))
#: File that names the EXECUTE directory whose control files these are.
_OWNER = "execute"
#: File that the daemon whose control files these are keeps locked.
_LOCK = "lock"
#: Longest path that is read from it, in bytes.
_PATH_MOST = 4096
#: Others may pass through (a job reads its ads there), only we may list or write.
_MODE = 0o711


def control_root(
    execute: Path,
    wanted: str = "",
    *,
    mounts: Path = Path("/proc/self/mounts"),
    env: Mapping[str, str] = os.environ,
) -> Path:
    """The directory of control files for runs under ``execute``; made if need be.

    :raises HostError: when no place is ours alone.
    """
    real = os.path.realpath(execute)
    name = f"slotwise-{os.geteuid()}-{_mark(real)}"
    places = [Path(wanted)] if wanted else [*_memory_places(mounts, env), execute / ".starter"]
    refusals = []
    for place in places:
        try:
            base = _base(place)
            root = _own_directory(base / name)
            _write_owner(root, real)
        except OSError as error:
            refusals.append(str(error))
            continue
        return root
    raise HostError(f"no place for control files: {'; '.join(refusals)}", hint="set SLOTWISE_CONTROL_DIR")


class Hold:
    """What keeps starters of other pools from removing a directory of control files, until its end or this process's.

    They may see no EXECUTE where there is one: in another mount name space (PrivateTmp= of systemd), or while its file
    system is not mounted. The lock is one of POSIX: keepers and jobs do not inherit it.
    """

    def __init__(self, root: Path) -> None:
        """
        :raises OSError: the file system refuses.
        """
        self._descriptor = _open_lock(root, os.O_RDWR | os.O_CREAT)
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)

    def end(self) -> None:
        """Let go; harmless when done twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _is_held(root: Path) -> bool:
    """Whether another process holds the directory."""
    try:
        descriptor = _open_lock(root, os.O_RDONLY)
    except OSError:
        return False
    try:
        return record_lock.holder(descriptor) is not None
    except OSError:
        return True  # who cannot be asked may hold it
    finally:
        os.close(descriptor)


def _open_lock(root: Path, flags: int) -> int:
    return os.open(root / _LOCK, os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, 0o600)


def _mark(real: str) -> str:
    return hashlib.sha256(os.fsencode(real)).hexdigest()[:16]


def has_record(run: Path, wanted: str = "") -> bool:
    """Whether a starter keeps a control directory for the directory of a run, so that the run is not over for it.

    Looks wherever a starter of any user may have it; ``wanted`` is SLOTWISE_CONTROL_DIR.
    """
    if (run / "htcondor").exists():  # leads to it
        return True
    places = [*_IN_MEMORY, *Path("/run/user").glob("*"), run.parent / ".starter", *([Path(wanted)] if wanted else [])]
    name = f"slotwise-*-{_mark(os.path.realpath(run.parent))}/{run.name}"
    return any(True for place in places for form in (name, f"slotwise-*/{name}") for _ in place.glob(form))


def orphaned(root: Path) -> list[Path]:
    """Control directories beside ``root`` that nobody holds and whose EXECUTE is gone: of pools that were deleted, or
    never went down.

    Only those that are ours alone, like ``root``: nobody else could have written what lies in them.
    """
    found = []
    for sibling in sorted(root.parent.glob(f"slotwise-{os.geteuid()}-*")):
        if sibling == root or not is_private(sibling):
            continue
        try:
            execute = _read_owner(sibling)
        except OSError:
            continue
        if execute and not os.path.lexists(execute) and not _is_held(sibling):
            found.append(sibling)
    return found


def is_private(path: Path) -> bool:
    """Whether ``path`` is a directory of ours, not a link, that no other user may write."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def discard(root: Path) -> None:
    """Remove the directory of control files if no run is in it."""
    if not list(root.glob("dir_*")):
        for name in ("lease", "notices", "left", "retries", _LOCK, _OWNER):
            (root / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            root.rmdir()


def _base(place: Path) -> Path:
    """The directory for control directories in ``place``: itself when it is ours alone, else one of ours in it."""
    place.mkdir(mode=_MODE, parents=True, exist_ok=True)
    return place if is_private(place) else _own_directory(place / f"slotwise-{os.geteuid()}")


def _own_directory(path: Path) -> Path:
    """Make ``path`` if it is missing, with the mode that control directories have.

    :raises OSError: when it is there and is not ours alone.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=_MODE)
    if not is_private(path):
        raise PermissionError(f"{path} is not a directory that only user {os.geteuid()} may write")
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, _MODE)
    finally:
        os.close(descriptor)
    return path


def _write_owner(root: Path, execute: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(root / _OWNER, flags, 0o600), "wb") as stream:
        stream.write(os.fsencode(execute))


def _read_owner(root: Path) -> str:
    """The EXECUTE directory that ``root`` belongs to; empty when that is not known."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(root / _OWNER, flags), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return ""
        return os.fsdecode(stream.read(_PATH_MOST))


def _memory_places(mounts: Path, env: Mapping[str, str]) -> Iterable[Path]:
    """Places in memory that are fit for this user's control directories, best first."""
    if os.geteuid() != 0:
        own = env.get("XDG_RUNTIME_DIR", "")
        return [Path(own)] if own.startswith("/") and is_private(Path(own)) else []
    try:
        mounted = {line.split()[1]: line.split()[2] for line in mounts.read_text().splitlines()}
    except (OSError, IndexError):
        return []
    return [path for path in _IN_MEMORY if mounted.get(str(path)) == "tmpfs" and os.access(path, os.W_OK)]
