"""X.dagman.out: what the runner does, in HTCondor's format, since monitors read it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO


class DebugLog:
    """Lines behind those of former runs.

    :raises OSError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8", errors="surrogateescape", buffering=1)

    def write(self, *lines: str) -> None:
        """Write lines, each with the time before it; a disk that is full stops nothing but that."""
        now = time.strftime("%m/%d/%y %H:%M:%S")
        try:
            for text in lines:
                for line in text.splitlines() or [""]:
                    self._file.write(f"{now} {line}\n")
        except OSError:
            return

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
