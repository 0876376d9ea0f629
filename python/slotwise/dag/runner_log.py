"""What X.dagman.out, of Slotwise's runner or HTCondor's, tells of a run beyond its nodes log.

PRE scripts that failed and submissions that were refused are in no event log. Neither is the rescue file from which a
run goes on.
"""

from __future__ import annotations

import mmap
import re
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_BEGINS = b"(CONDOR_DAGMAN) STARTING UP"
_LINE = re.compile(r"(\d\d/\d\d/\d\d \d\d:\d\d:\d\d) (.*)")
_PRE = re.compile(r"PRE Script of [Nn]ode (\S+) (?:(?:exited|failed) with status (\d+)|died on (?:signal )?(\d+))")
_REFUSED = re.compile(r"ERROR: submission of node (\S+) failed( for now)?: (.*)")
_BEGUN = re.compile(r"Running (PRE|POST) script of Node (\S+?)(?:\.\.\.)?$")
_RESCUE = re.compile(r"(?:Running rescue DAG|Found rescue DAG number) (\d+)")
#: The longest part of a log that is looked at, in bytes: of longer ones the end.
_MOST = 256 << 20


class Said(Struct, frozen=True):
    """A line that says something of a node. ``at``: seconds since the epoch.

    ``what``: "pre_ended" (not with 0), "refused" (for good), "refused_now", or "pre_begun" and "post_begun".
    """

    at: float
    what: str
    node: str
    value: int = 0
    text: str = ""


class RunnerLog(Struct, frozen=True):
    """What is said of one run. ``rescue``: the number of the rescue file that it goes on from; 0 for none."""

    rescue: int = 0
    said: tuple[Said, ...] = ()


def last_run(path: Path) -> str:
    """The part of the log since the last start of a runner; "" if there is none."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            begin = max(0, whole.rfind(_BEGINS))
            return whole[max(begin, len(whole) - _MOST) :].decode("utf-8", "surrogateescape")
    except (OSError, ValueError):  # an empty file cannot be mapped
        return ""


def read(text: str) -> RunnerLog:
    """What the lines of one run say."""
    rescue = _RESCUE.search(text)
    return RunnerLog(int(rescue[1]) if rescue else 0, tuple(_said(text)))


def _said(text: str) -> Iterator[Said]:
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        message = found[2]
        if (pre := _PRE.match(message)) and (value := int(pre[2] or 0) or -int(pre[3] or 0)):
            yield Said(_moment(found[1]), "pre_ended", pre[1], value)
        elif refused := _REFUSED.match(message):
            yield Said(_moment(found[1]), "refused_now" if refused[2] else "refused", refused[1], text=refused[3])
        elif begun := _BEGUN.match(message):
            yield Said(_moment(found[1]), f"{begun[1].lower()}_begun", begun[2])


def _moment(text: str) -> float:
    return time.mktime(time.strptime(text, "%m/%d/%y %H:%M:%S"))


__all__ = ["RunnerLog", "Said", "last_run", "read"]
