"""What a daemon that takes long to start is doing, in a file that its master and `slotwise up` read.

A daemon has SLOTWISE_START_TIMEOUT to answer. One that has much to load writes here what it does: as long as it works
on that, the master waits on, and the commands that wait for the daemon show it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from slotwise import whole_file
from slotwise.daemon import privileges, process
from slotwise.home import PoolHome

_SUFFIX = ".starting"
#: How often the text is written at most, seconds.
_EVERY_S = 0.5


class Note(Protocol):
    """Hears what is being done, and how much of it."""

    def __call__(self, text: str, *, done: int = 0, of: int = 0) -> None:
        """It is being done."""
        ...


class StartProgress(Struct):
    """Writes the progress of this process; a failure to write is no reason to fail at the start."""

    home: PoolHome
    name: str
    _written_at: float = float("-inf")

    def note(self, text: str, *, done: int = 0, of: int = 0) -> None:
        """Write what is being done, and how much of it; of steps that follow each other closely only some."""
        now = time.monotonic()
        if now - self._written_at < _EVERY_S and 0 < done < of:
            return
        self._written_at = now
        share = f", {done:,} of {of:,}" if of else ""
        path = _file(self.home, self.name)
        with contextlib.suppress(OSError), privileges.root_files():
            told = json.dumps({"pid": os.getpid(), "doing": f"{text}{share}"})
            # As the address, for whoever waits for the daemon.
            whole_file.write(path, told, mode=0o644, exact=True, lasts=False)


def end(home: PoolHome, name: str) -> None:
    """The daemon has started, or ended."""
    with contextlib.suppress(OSError):
        _file(home, name).unlink(missing_ok=True)


def doing(home: PoolHome, name: str) -> str:
    """What a daemon does that has yet to answer; empty when it does not say, or its process is gone."""
    try:
        said = json.loads(_file(home, name).read_text())
        return str(said["doing"]) if process.alive(int(said["pid"])) else ""
    except (OSError, ValueError, TypeError, KeyError):
        return ""


def all_doing(home: PoolHome) -> dict[str, str]:
    """The same of all daemons that say it."""
    names = sorted(path.stem for path in home.run.glob(f"*{_SUFFIX}"))
    return {name: text for name in names if (text := doing(home, name))}


def work_of(home: PoolHome, name: str, pid: int) -> tuple[str, int]:
    """What changes as long as a starting daemon works on what it says that it does; always the same when it says
    nothing."""
    text = doing(home, name)
    return (text, process.cpu_ticks(pid)) if text else ("", 0)


def _file(home: PoolHome, name: str) -> Path:
    return home.run / f"{name}{_SUFFIX}"
