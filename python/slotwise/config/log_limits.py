"""What MAX_<DAEMON>_LOG says: the size or age at which a log is put aside (manual, "MAX_<SUBSYS>_LOG")."""

from __future__ import annotations

import re

_LIMIT = re.compile(r"\s*+(\d++)\s*+([a-z]*+)\s*+", re.IGNORECASE)
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = {"s": 1, "h": 3600, "d": 86400, "w": 604800}
_MINUTE_S = 60
DEFAULT_BYTES = 10 * 1024 * 1024
HINT = "a size such as 10 Mb, or an age such as 1 Day"


def limit_of(text: str | None) -> tuple[int, int]:
    """(bytes, seconds), one of them 0; (0, 0) is no limit. None or an empty text is the default of 10 Mb.

    Units as HTCondor has them, by their first letters: bytes, Kb, Mb or MiB, Gb, Tb; seconds, minutes, hours, days,
    weeks. A lone ``m`` is minutes, a lone ``M`` is Mb.

    :raises ValueError: it is neither a size nor an age.
    """
    if not (text or "").strip():
        return DEFAULT_BYTES, 0
    found = _LIMIT.fullmatch(text or "")
    if found is None:
        raise ValueError(f"{text!r} is neither a size nor an age")
    number, unit = int(found[1]), found[2]
    word = unit.lower()
    if unit == "m" or (word.startswith("mi") and not word.startswith("mib")):
        return 0, number * _MINUTE_S
    if word[:1] == "m" and word[1:2] not in ("", "b", "i"):
        raise ValueError(f"{unit!r} is no unit of sizes or ages")
    if word[:1] in _SECONDS:
        return 0, number * _SECONDS[word[0]]
    if word[:1] in _BYTES:
        return number * _BYTES[word[:1]], 0
    raise ValueError(f"{unit!r} is no unit of sizes or ages")
