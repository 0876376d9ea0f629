"""The time of day of a pool's processes, which jumps while that of the host goes on (libfaketime)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.support.pool import Pool

_LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")


def library() -> str:
    """The library that shows processes another time; empty where the host has none."""
    found = (path for pattern in _LIBRARIES for path in sorted(Path("/").glob(pattern.lstrip("/"))))
    return next(map(str, found), "")


class SetTime:
    """The time of day of all processes of pools, those of the hosts of one pool, that are not up yet.

    Time that is measured, and not read from a clock, passes as it does.
    """

    def __init__(self, pools: Iterable[Pool], file: Path) -> None:
        self._file = file
        self.by(0)
        file.chmod(0o644)
        for pool in pools:
            pool.env |= {
                "LD_PRELOAD": library(),
                "FAKETIME_TIMESTAMP_FILE": str(file),
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_RESET": "1",
            }

    def by(self, seconds: int) -> None:
        """Their clocks differ from the host's by so many seconds, within a second."""
        partial = self._file.with_suffix(".new")
        partial.write_text(f"{seconds:+d}\n")
        partial.chmod(0o644)
        partial.replace(self._file)
