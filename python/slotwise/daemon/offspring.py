"""How a daemon starts other programs: never by a fork in which its own code, or gRPC's handlers, would run.

A process with gRPC has threads that hold locks; a forked child of it may wait for them for ever or die of a signal.
``subprocess`` and asyncio make children without a true fork (vfork) as long as they are given none of ``preexec_fn``,
``user``, ``group``, ``extra_groups``: so daemons never give these, and change users in the new program instead. What
must fork runs beside: the master's spawner, the starter's zygote. A test looks at the sources for this.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence

_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


def as_account(uid: int, gid: int, groups: Sequence[int] = ()) -> list[str]:
    """Words before a command that make it run as another account, with these supplementary groups only.

    The process stays the same: its id and session are those of the command.
    """
    also = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    return ["setpriv", "--reuid", str(uid), "--regid", str(gid), *also, "--"]


def program(words: Sequence[str], path: str = _PATH) -> list[str]:
    """``words`` with the first one as the file that it means on ``path``.

    :raises FileNotFoundError: when there is no such program that may be run; ``setpriv`` would only tell by its status.
    """
    found = shutil.which(words[0], path=path)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), words[0])
    return [found, *words[1:]]
