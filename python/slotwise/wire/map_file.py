"""The authentication map file (CERTIFICATE_MAPFILE): which user of the pool a subject of another authority is.

``@include PATH`` takes in a file, or the files of a directory in order, relative to the file that says so; an included
file includes no others, as in HTCondor. Who may write one of them decides who is who: only its owner may.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise._native import MapFile
from slotwise.errors import ConfigError

if TYPE_CHECKING:
    from slotwise.config import Config

KNOB = "CERTIFICATE_MAPFILE"
_INCLUDE = re.compile(rb"\s*@include(?:\s+(.*?))?\s*", re.IGNORECASE)


def read(config: Config) -> MapFile:
    """The map file of a configuration; an empty one where none is named.

    :raises ConfigError: for a file that cannot be used, or that others than its owner may write.
    """
    mapped = config.get(KNOB)
    lines = _lines(Path(mapped)) if mapped else []
    text = b"\n".join(line for line, _ in lines)
    users = MapFile(text, hash_keys=config.get_bool("CERTIFICATE_MAPFILE_ASSUME_HASH_KEYS"))
    if users.bad_lines:
        place = lines[users.bad_lines[0] - 1][1]
        raise ConfigError(f"{place}: the principal is no regular expression", key=KNOB)
    return users


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
    if stat.S_IMODE(path.stat().st_mode) & 0o022:
        raise ConfigError(f"{place}: others may write {path}", hint=f"chmod go-w {path}", key=KNOB)
    return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "#")))


def trusted(path: Path, knob: str) -> bytes:
    """The text of a file that nobody but its owner may write.

    :raises ConfigError: for another, and for one that cannot be read.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{knob} = {path} cannot be read: {error.strerror}", key=knob) from None
    if stat.S_IMODE(mode) & 0o022:
        raise ConfigError(
            f"others may write {path} (mode {stat.S_IMODE(mode):04o})", hint=f"chmod go-w {path}", key=knob
        )
    return text
