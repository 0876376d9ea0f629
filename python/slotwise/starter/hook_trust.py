"""Which programs may be hooks: none that others than the administrator can replace, as a hook decides about every job.

HTCondor refuses a program that everybody may write, and one in a directory that everybody may write; here the account
of the job counts as well, and so do the directories above, where the program really lies.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from slotwise.starter.keeper_spec import Identity


def fault(program: str, identity: Identity) -> str:
    """Why a program must not be run as a hook; empty when it may.

    :param identity: whom the job runs as.
    """
    if not program.startswith("/"):
        return "is not an absolute path"
    try:
        about = Path(program).stat()
        if not stat.S_ISREG(about.st_mode):
            return "is not a file"
        if not about.st_mode & stat.S_IXUSR:
            return "is not executable"
        if about.st_mode & stat.S_IWOTH:
            return "is world-writable"
        if _may_write(about, identity):
            return "may be written by the account that the job runs as"
        for directory, holds_it in _directories(program):
            status = directory.stat()
            everybody = status.st_mode & stat.S_IWOTH
            if everybody and (holds_it or not status.st_mode & stat.S_ISVTX):
                return f"is in a world-writable directory ({directory})"
            if not everybody and _may_write(status, identity):
                return f"is in a directory that the account of the job may write ({directory})"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    return ""


def _may_write(about: os.stat_result, identity: Identity) -> bool:
    """Whether the job's account owns a file, or a group of it may write there. A starter that is not root is itself
    that account, and could protect its hooks from nobody."""
    if identity.uid is None or identity.uid == 0:
        return False
    groups = {identity.gid, *identity.groups}
    return about.st_uid == identity.uid or bool(about.st_mode & stat.S_IWGRP and about.st_gid in groups)


def _directories(program: str) -> Iterator[tuple[Path, bool]]:
    """The directories above a program, by its name and by the file that it means; whether they hold it themselves."""
    seen = set()
    for path in (Path(program), Path(program).resolve()):
        for directory in path.parents:
            if directory not in seen:
                seen.add(directory)
                yield directory, directory == path.parent
