"""The authentication map file (CERTIFICATE_MAPFILE): which user of the pool a subject of another authority is.

``@include PATH`` takes in a file, or the files of a directory in order, relative to the file that says so; an included
file includes no others, as in HTCondor. Who may write one of them decides who is who: only its owner may.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from slotwise._native import MapFile
from slotwise.errors import ConfigError, UnauthenticatedError

if TYPE_CHECKING:
    from slotwise.config import Config

KNOB = "CERTIFICATE_MAPFILE"
_INCLUDE = re.compile(rb"\s*@include(?:\s+(.*?))?\s*", re.IGNORECASE)


#: What lists of users, job queues and logs can name.
_USER = re.compile(r"[^@/\s\x00-\x1f\x7f]+@[^@/\s\x00-\x1f\x7f]+")


class UserMap(Struct, frozen=True):
    """The lines of a map file. ``domain``: that of users whom a line names without one (UID_DOMAIN)."""

    lines: MapFile
    domain: str

    def user(self, method: str, principal: str) -> str:
        """Whom a principal that proved itself by ``method`` stands for, as ``user@domain``.

        :raises UnauthenticatedError: when no line maps it, or what a line makes of it is not a user.
        """
        found = self.lines.lookup(method, principal)
        if found is None:
            raise UnauthenticatedError(
                f"no line of {KNOB} maps the {method} principal {principal}",
                hint=f'add a line to the map file: {method} "{principal}" user@domain',
            )
        user = found if "@" in found else f"{found}@{self.domain}"
        if not _USER.fullmatch(user):
            raise UnauthenticatedError(
                f"{KNOB} maps the {method} principal {principal} to {found!r}, which is not user@domain"
            )
        return user


def read(config: Config) -> UserMap:
    """The map file of a configuration; an empty one where none is named.

    :raises ConfigError: for a file that cannot be used, a line that maps nobody, and a file that others than its owner
        may write.
    """
    mapped = config.get(KNOB)
    lines = _lines(Path(mapped)) if mapped else []
    text = b"\n".join(line for line, _ in lines)
    found = MapFile(text, hash_keys=config.get_bool("CERTIFICATE_MAPFILE_ASSUME_HASH_KEYS"))
    for number, reason in found.bad_lines:
        raise ConfigError(f"{lines[number - 1][1]}: {reason}", key=KNOB)
    domain = config.get("UID_DOMAIN") or config.get("FULL_HOSTNAME") or socket.gethostname()
    return UserMap(found, domain)


def _lines(path: Path, *, included: bool = False) -> list[tuple[bytes, str]]:
    """The lines of a file and of those that it includes, each with its place."""
    found: list[tuple[bytes, str]] = []
    for number, line in enumerate(trusted(path, KNOB).splitlines(), 1):
        place = f"{path}, line {number}"
        include = _INCLUDE.fullmatch(line)
        if include is None:
            found.append((line, place))
            continue
        name = (include[1] or b"").decode(errors="surrogateescape").strip('"')
        if not name or included:
            why = "names no file" if not name else "is not allowed in a file that is included itself"
            raise ConfigError(f"{place}: @include {why}", key=KNOB)
        for file in _files(path.parent / name, place):
            found += _lines(file, included=True)
    return found


def _files(path: Path, place: str) -> list[Path]:
    if not path.is_dir():
        return [path]
    about = path.stat()
    if stat.S_IMODE(about.st_mode) & 0o022 or about.st_uid not in (0, *os.getresuid()):
        hint = f"chown root {path} && chmod go-w {path}"
        raise ConfigError(f"{place}: others may write {path}", hint=hint, key=KNOB)
    return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "#")))


def trusted(path: Path, knob: str) -> bytes:
    """The text of a file of root's, or of the account of this process, that nobody else may write.

    :raises ConfigError: for another, and for one that cannot be read.
    """
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            text = file.read()
    except OSError as error:
        raise ConfigError(f"{knob} = {path} cannot be read: {error.strerror}", key=knob) from None
    mode = about.st_mode
    if about.st_uid not in (0, *os.getresuid()):
        raise ConfigError(
            f"{path} belongs to uid {about.st_uid}, who may say in it who anybody is",
            hint=f"chown root {path}",
            key=knob,
        )
    if stat.S_IMODE(mode) & 0o022:
        raise ConfigError(
            f"others may write {path} (mode {stat.S_IMODE(mode):04o})", hint=f"chmod go-w {path}", key=knob
        )
    return text
