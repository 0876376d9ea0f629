"""Which programs may be run with rights that others lack: none that those others can replace.

HTCondor refuses a hook that everybody may write, and one in a directory that everybody may write; here the account
of the job counts as well, and so do the directories above, by the program's name and wherever its links lead. What runs
as root must be root's alone.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath

_LINKS_MOST = 40


def fault(program: str, uid: int | None, groups: Collection[int | None] = ()) -> str:
    """Why a program must not be run as a hook; empty when it may.

    :param uid: the account that must not replace it, the job's; None: only everybody counts. A starter that is not root
        is itself that account, and could protect its hooks from nobody.
    :param groups: the groups of that account.
    """

    def may_write(about: os.stat_result) -> bool:
        if not uid:
            return False
        return about.st_uid == uid or bool(about.st_mode & stat.S_IWGRP and about.st_gid in groups)

    return _fault(program, may_write, "the account that the job runs as", "the account of the job")


def fault_for_root(program: str) -> str:
    """Why a program must not be run as root; empty when it may: when nobody but root can replace it."""

    def may_write(about: os.stat_result) -> bool:
        return about.st_uid != 0 or bool(about.st_mode & stat.S_IWGRP and about.st_gid != 0)

    return _fault(program, may_write, "others than root", "others than root")


def _fault(program: str, may_write: Callable[[os.stat_result], bool], who: str, who_there: str) -> str:
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
        if may_write(about):
            return f"may be written by {who}"
        for directory, holds_it in directories_of(program):
            status = directory.stat()
            everybody = status.st_mode & stat.S_IWOTH
            if everybody and (holds_it or not status.st_mode & stat.S_ISVTX):
                return f"is in a world-writable directory ({directory})"
            if may_write(status) and not everybody:
                return f"is in a directory that {who_there} may write ({directory})"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    return ""


def directories_of(program: str) -> Iterator[tuple[Path, bool]]:
    """The directories through which a name leads to its file, by each link on the way; whether what they hold of it is
    the program itself or a link, which nobody else may exchange."""
    seen: set[tuple[Path, bool]] = set()
    place, parts, links = Path("/"), list(PurePosixPath(program).parts[1:]), 0
    while parts:
        part = parts.pop(0)
        if part == "..":
            place = place.parent
            continue
        is_link = (place / part).is_symlink()
        found = (place, is_link or not parts)
        if found not in seen:
            seen.add(found)
            yield found
        if not is_link:
            place /= part
            continue
        links += 1
        if links > _LINKS_MOST:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = PurePosixPath(os.readlink(place / part))  # noqa: PTH115 - as it is written
        if target.is_absolute():
            place = Path("/")
        parts[:0] = target.parts[1:] if target.is_absolute() else target.parts
