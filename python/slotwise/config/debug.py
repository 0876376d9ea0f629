"""The language of ``<SUBSYS>_DEBUG`` and ``ALL_DEBUG``: which messages a daemon logs, and what begins each line.

Words are separated by blanks, commas or ``|``. ``D_CAT`` selects the messages of a category, ``D_CAT:2`` its details,
too, ``-D_CAT`` or ``D_CAT:0`` deselects it; other words change the header of each line. D_ALWAYS, D_ERROR and D_STATUS
are always on (reference page "Configuration", daemon logging; guide "Reading the logs").
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct, field

#: Messages that every log has: important ones, warnings and errors.
ALWAYS = frozenset({"D_ALWAYS", "D_ERROR", "D_STATUS"})
#: Categories that some daemon writes, and what they select.
CATEGORIES: dict[str, str] = {
    "D_FULLDEBUG": "everything that has no category of its own, in detail",
    "D_COMMAND": "calls that the daemon answers: method, caller, address; :2 also how they ended",
    "D_SECURITY": "who was authenticated for each call and with which authorization levels",
    "D_MATCH": "matches and rejections of the negotiator; :2 also how it got there",
    "D_AUDIT": "who changed what, or was refused; also in a file of its own, see <SUBSYS>_AUDIT_LOG",
    "D_PROTOCOL": "messages between schedd and startd about claims",
}
#: Words that change the header of each line: process id, category, milliseconds, seconds since the epoch.
HEADERS = frozenset({"D_PID", "D_CAT", "D_SUB_SECOND", "D_TIMESTAMP"})
#: Aliases.
_SAME = {"D_CATEGORY": "D_CAT", "D_LEVEL": "D_CAT", "D_FAILURE": "D_ERROR"}
#: Categories of HTCondor that no daemon of ours writes.
_NOT_HERE = frozenset(
    {
        "D_ZKM",
        "D_JOB",
        "D_MACHINE",
        "D_CONFIG",
        "D_PRIV",
        "D_DAEMONCORE",
        "D_NETWORK",
        "D_KEYBOARD",
        "D_PROCFAMILY",
        "D_IDLE",
        "D_THREADS",
        "D_ACCOUNTANT",
        "D_SYSCALLS",
        "D_CRON",
        "D_HOSTNAME",
        "D_PERF_TRACE",
        "D_LOAD",
        "D_TEST",
        "D_STATS",
        "D_MATERIALIZE",
        "D_DYE",
        "D_FDS",
        "D_IDENT",
        "D_BACKTRACE",
        "D_NOHEADER",
    }
)
_WORD = re.compile(r"(?P<sign>[-+]?)(?P<name>[A-Z0-9_]+)(?::(?P<level>\d+))?", re.IGNORECASE)


class DebugFlags(Struct):
    """The selection of the words of some knobs together."""

    #: Verbosity by category: 1 or 2. Other categories are off, except for :data:`ALWAYS`.
    verbosity: dict[str, int] = field(default_factory=dict)
    headers: set[str] = field(default_factory=set)

    @classmethod
    def parse(cls, *texts: str | None) -> DebugFlags:
        """Read the values of knobs, the general one first; later words win."""
        flags = cls()
        for word in _words(*texts):
            found = _WORD.fullmatch(word)
            if found is not None:
                flags._take(found)
        return flags

    def _take(self, found: re.Match[str]) -> None:
        name = found["name"].upper()
        name = _SAME.get(name, name)
        level = int(found["level"]) if found["level"] else 0 if found["sign"] == "-" else 1
        if name in HEADERS or name == "D_ALL":
            headers = {"D_PID", "D_CAT"} if name == "D_ALL" else {name}
            self.headers = self.headers | headers if level else self.headers - headers
        if name in ("D_ALL", "D_ANY"):
            for category in CATEGORIES:
                self._set(category, level)
        elif name in ALWAYS and level > 1:
            self._set("D_FULLDEBUG", 1)
        elif name in CATEGORIES:
            self._set(name, level)

    def _set(self, category: str, level: int) -> None:
        if level:
            self.verbosity[category] = max(self.verbosity.get(category, 0), min(level, 2))
        else:
            self.verbosity.pop(category, None)

    @property
    def shown(self) -> str:
        """The categories that are on, as words."""
        on = [f"{name}:2" if level > 1 else name for name, level in self.verbosity.items()]
        return " ".join(["D_ALWAYS", "D_ERROR", "D_STATUS", *on])


def complaints(text: str | None) -> list[tuple[str, str]]:
    """The words of a knob that select nothing, each with the reason."""
    found = []
    for word in _words(text):
        match = _WORD.fullmatch(word)
        name = match["name"].upper() if match else word
        name = _SAME.get(name, name)
        if name in _NOT_HERE:
            found.append((word, "Slotwise logs nothing of this category, and has no such header"))
        elif match is None or not (name in ALWAYS or name in CATEGORIES or name in HEADERS or name in _ANY):
            found.append((word, "there is no such category"))
    return found


_ANY = ("D_ALL", "D_ANY")


def _words(*texts: str | None) -> Iterable[str]:
    return (word for text in texts for word in re.split(r"[\s,|]+", text or "") if word)
