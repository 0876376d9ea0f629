"""What ClassAd functions know about this machine: user maps and home directories, from the configuration.

The answers of ``userMap()`` and ``userHome()`` belong to the process, as the time zone does: :func:`take_over` sets
them from a configuration, at the start of every daemon and of the tools that evaluate, and at each reconfig.
Rules: manual, "<SUBSYS>_CLASSAD_USER_MAP_NAMES" and the two after it, and "The Authentication Map File" for the lines.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from slotwise.classad import define_user_map
from slotwise.classad.machine import enable_user_home, forget_user_maps
from slotwise.config.view import Config

_INCLUDE = re.compile(r'[ \t]*@include[ \t]+(?:"((?:[^"\\]|\\.)*)"|(\S+))')


def take_over(config: Config, subsystem: str) -> list[str]:
    """Make ``userMap()`` and ``userHome()`` of this process answer as ``config`` says for ``subsystem``.

    Maps that are no longer named are forgotten, and files are read again.

    :returns: the faults of maps, for people; a map that cannot be read has no entries.
    """
    doubts: list[str] = []
    enable_user_home(config.get_bool("CLASSAD_ENABLE_USER_HOME"))
    forget_user_maps()
    for name in config.get_list(f"{subsystem}_CLASSAD_USER_MAP_NAMES"):
        text = _text_of(config, name, doubts)
        if text is not None:
            prefixes = config.get_bool(f"CLASSAD_USER_MAP_PREFIX_{name}")
            define_user_map(name, text, prefixes=prefixes)
    return doubts


def _text_of(config: Config, name: str, doubts: list[str]) -> bytes | None:
    """The lines of a map: CLASSAD_USER_MAPFILE_<name>, else CLASSAD_USER_MAPDATA_<name>."""
    file = config.get(f"CLASSAD_USER_MAPFILE_{name}")
    if file:
        return _read(Path(file), doubts, name)
    data = config.get(f"CLASSAD_USER_MAPDATA_{name}")
    if data is None:
        doubts.append(f"user map {name} has neither CLASSAD_USER_MAPFILE_{name} nor CLASSAD_USER_MAPDATA_{name}")
        return None
    return _included(data.encode("utf-8", "surrogateescape"), Path(), doubts, name)


def _read(file: Path, doubts: list[str], name: str, *, deep: bool = True) -> bytes:
    try:
        # A named pipe would be waited for.
        with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode):
                doubts.append(f"user map {name}: {file} is not a file")
                return b""
            text = opened.read()
    except OSError as error:
        doubts.append(f"user map {name}: cannot read {file}: {error.strerror}")
        return b""
    if about.st_uid not in (0, *os.getresuid()):
        doubts.append(f"user map {name}: uid {about.st_uid} owns {file}, and decides what it says of all users")
    elif about.st_mode & stat.S_IWOTH:
        doubts.append(f"user map {name}: everybody may write to {file}, and decides what it says (chmod o-w)")
    return _included(text, file.parent, doubts, name) if deep else text


def _included(text: bytes, directory: Path, doubts: list[str], name: str) -> bytes:
    """The text with its ``@include`` lines replaced by the files they name, which cannot include others."""
    lines: list[bytes] = []
    for line in text.split(b"\n"):
        found = _INCLUDE.match(line.decode("utf-8", "surrogateescape"))
        if found is None:
            lines.append(line)
            continue
        place = directory / (found[1] or found[2] or "")
        files = sorted(file for file in place.iterdir() if file.is_file()) if place.is_dir() else [place]
        for file in files:
            inner = _read(file, doubts, name, deep=False)
            lines += [each for each in inner.split(b"\n") if not each.lstrip(b" \t").startswith(b"@include")]
    return b"\n".join(lines)
