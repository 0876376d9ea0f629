"""Rescue files: what they say, and nodes marked in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

_CREATED = re.compile(r"^# Created (.*)$", re.MULTILINE)
_FAILED = re.compile(r"^# Nodes that failed: \d+\n#   (.*)<ENDLIST>", re.MULTILINE)
_DONE = re.compile(r"^\s*DONE\s+(\S+)\s*$", re.IGNORECASE)


class About(Struct, frozen=True):
    """What a rescue file says: when it was made, in its own words, and nodes by name."""

    created: str
    done: tuple[str, ...]
    failed: tuple[str, ...]


def about(text: str) -> About:
    """What a file says."""
    created, failed = _CREATED.search(text), _FAILED.search(text)
    names = tuple(name for name in failed[1].split(",") if name) if failed else ()
    return About(created[1] if created else "", tuple(_done(line) for line in text.splitlines() if _done(line)), names)


def _done(line: str) -> str:
    found = _DONE.match(line)
    return found[1] if found else ""


def skip(text: str, names: Sequence[str]) -> tuple[str, list[str]]:
    """The file with nodes marked as done, and those that were not."""
    known = set(about(text).done)
    fresh = [name for name in names if name not in known]
    end = "" if not text or text.endswith("\n") else "\n"
    return text + end + "".join(f"DONE {name}\n" for name in fresh), fresh


def retry(text: str, names: Sequence[str]) -> tuple[str, list[str]]:
    """The file without the marks of nodes, and those that had one."""
    known = set(about(text).done)
    gone = [name for name in names if name in known]
    kept = [line for line in text.splitlines(keepends=True) if _done(line) not in gone or not _done(line)]
    return "".join(kept), gone


__all__ = ["About", "about", "retry", "skip"]
