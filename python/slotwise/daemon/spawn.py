"""How a daemon starts other programs: never by a fork in which its own code, or gRPC's handlers, would run.

A process with gRPC has threads that hold locks; a forked child of it may wait for them for ever or die of a signal.
``subprocess`` and asyncio make children without a true fork (vfork) as long as they are given none of ``preexec_fn``,
``user``, ``group``, ``extra_groups``: so daemons never give these, and change users in the new program instead. What
must fork runs beside: the master's spawner, the starter's zygote. A test looks at the sources for this.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Sequence

_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


def as_account(uid: int, gid: int, groups: Sequence[int] = ()) -> list[str]:
    """Words before a command that make it run as another account, with these supplementary groups only.

    The process stays the same: its id and session are those of the command.
    """
    also = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    return ["setpriv", "--reuid", str(uid), "--regid", str(gid), *also, "--"]


#: Descriptors that a daemon takes if it may: a crowd of connections cannot take these between two looks of
#: :mod:`slotwise.wire.connections`.
_DESCRIPTORS = 65536
#: The soft limit that this process was started with, once it has taken more.
_given: int | None = None


def take_descriptors() -> None:
    """Let this process open as many files as the hard limit lets it, up to 65536."""
    global _given
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    _given = soft


def as_started() -> list[str]:
    """Words before a command that give it the soft limit of open files that this daemon was started with: jobs, and
    daemons that outlive this one, shall not have what it took for itself. Empty where nothing differs, or ``prlimit``
    is not there."""
    found = shutil.which("prlimit", path=_PATH)
    return [] if _given is None or found is None else [found, f"--nofile={_given}:", "--"]


def program(words: Sequence[str], path: str = _PATH) -> list[str]:
    """``words`` with the first one as the file that it means on ``path``.

    :raises FileNotFoundError: when there is no such program that may be run; ``setpriv`` would only tell by its status.
    """
    found = shutil.which(words[0], path=path)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), words[0])
    return [found, *words[1:]]
