"""Whether a daemon still answers: the master asks each one from time to time, and ends one that is silent too long.

In HTCondor children tell their parent that they are alive, a third of NOT_RESPONDING_TIMEOUT apart. Here the
parent asks, as often: the answer comes from the loop that does the daemon's work, so it proves the same, and daemons
that a new master has adopted are under watch at once. Rules: manual, "NOT_RESPONDING_TIMEOUT" and its neighbours.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.daemon import process
from slotwise.daemon.process import STACKS_SIGNAL

_log = logging.getLogger(__name__)
#: How long the stacks of a hung daemon may take to be written.
_STACKS_S = 1.0
#: How long the core file of a hung daemon may take to be written (HTCondor's time).
_CORE_S = 600.0
_SLICE_S = 0.25
#: How soon a daemon that did not answer is asked again, at most.
_AGAIN_S = 1.0


@dataclass(frozen=True)
class HangTimeout:
    """How long a daemon may be silent (seconds), and whether one that hangs is to leave a core file."""

    timeout_s: float = 3600.0
    want_core: bool = False

    @classmethod
    def of_config(cls, config: Config, daemon: str) -> HangTimeout:
        """<SUBSYS>_NOT_RESPONDING_TIMEOUT, else NOT_RESPONDING_TIMEOUT; at least a second."""
        usual = config.get_float("NOT_RESPONDING_TIMEOUT")
        own = config.find_float(f"{daemon.upper()}_NOT_RESPONDING_TIMEOUT")
        timeout_s = usual if own is None else own
        return cls(max(1.0, timeout_s), config.get_bool("NOT_RESPONDING_WANT_CORE"))

    @property
    def interval_s(self) -> float:
        """How long after one question the next one follows, and how long an answer is waited for."""
        return self.timeout_s / 3


async def until_silent(
    asks: Callable[[float], Awaitable[bool]], patience: Callable[[], HangTimeout], clock: Clock
) -> float:
    """Return when ``asks`` has had no answer for too long, with the seconds of silence.

    :param asks: asks once, for at most so many seconds; whether an answer came.
    :param patience: looked at before each question, so that a reconfiguration takes effect.
    """
    silent_s = 0.0
    while silent_s <= (limit := patience()).timeout_s:
        began = clock.monotonic()
        await asyncio.sleep(limit.interval_s if silent_s == 0 else min(_AGAIN_S, limit.interval_s))
        if await asks(limit.interval_s):
            silent_s = 0.0
        else:
            # Time in which this process itself stood still is not a silence of the other.
            silent_s += min(clock.monotonic() - began, 2 * limit.interval_s + 1.0)
    return silent_s


async def end_hung(name: str, pid: int, silent_s: float, *, want_core: bool) -> None:
    """End a daemon that hangs; its stacks go into ``log/<name>.out`` first, and with ``want_core`` it leaves a core."""
    _log.error("%s (%d) has not answered for %.0f s and is killed; it was %s", name, pid, silent_s, condition(pid))
    for number, limit_s in ((STACKS_SIGNAL, _STACKS_S), *(((signal.SIGABRT, _CORE_S),) if want_core else ())):
        if await _goes(pid, number, limit_s):
            return
    process.send(pid, signal.SIGKILL)


async def _goes(pid: int, number: signal.Signals, limit_s: float) -> bool:
    """Send a signal that asks for a last word; whether the process ended over it.

    A process that was stopped takes no signal but the last one, and has nothing to tell.
    """
    process.send(pid, number)
    waited_s = 0.0
    while waited_s < limit_s and state(pid) not in "Tt":
        if await asyncio.to_thread(process.wait_gone, pid, _SLICE_S):
            return True
        waited_s += _SLICE_S
    return False


def state(pid: int) -> str:
    """The kernel's letter for the state of a process; ``?`` when it cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "?"


def condition(pid: int) -> str:
    """What the process does as the kernel sees it, for people."""
    words = {"R": "running", "S": "asleep", "D": "in uninterruptible sleep", "T": "stopped", "t": "traced", "Z": "dead"}
    try:
        waits_in = Path(f"/proc/{pid}/wchan").read_text().strip("0 \n")
    except OSError:
        waits_in = ""
    return words.get(state(pid), "unknown") + (f" in {waits_in}" if waits_in else "")
