"""X.dagman.out: what the runner does, in HTCondor's format, since monitors read it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import IO


class DebugLog:
    """Lines behind those of former runs.

    :raises OSError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8", errors="surrogateescape")
        self._second, self._stamp = 0, ""

    def write(self, *lines: str) -> None:
        """Write lines, each with the time before it, for :meth:`flush`; a disk that is full stops nothing but that."""
        if (second := int(time.time())) != self._second:
            self._second, self._stamp = second, time.strftime("%m/%d/%y %H:%M:%S")
        try:
            for text in lines:
                for line in text.splitlines() or [""]:
                    self._file.write(f"{self._stamp} {line}\n")
        except OSError:
            return

    def flush(self) -> None:
        """Have what was written read by others: at the latest when nothing else is to be done."""
        with contextlib.suppress(OSError):
            self._file.flush()

    def close(self) -> None:
        """Write what is left."""
        with contextlib.suppress(OSError):
            self._file.close()

    def banner(self, job: str, version: str, platform: str) -> None:
        """The lines with which a run begins."""
        stars = "*" * 54
        self.write(
            stars,
            f"** condor_scheduniv_exec.{job} (CONDOR_DAGMAN) STARTING UP",
            f"** {version}",
            f"** {platform}",
            f"** PID = {os.getpid()}",
            stars,
        )


__all__ = ["DebugLog"]
