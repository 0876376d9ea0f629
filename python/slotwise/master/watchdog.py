"""Whether a daemon still answers: the master pings each one regularly, and kills one that is silent too long.

In HTCondor, children tell their parent that they are alive, a third of NOT_RESPONDING_TIMEOUT apart. Here the
parent asks, equally often: the answer comes from the loop that does the daemon's work, so it proves the same, and
daemons that a new master has adopted are watched at once. Rules: manual, "NOT_RESPONDING_TIMEOUT" and its neighbours.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.daemon import process
from slotwise.daemon.process import STACKS_SIGNAL

_log = logging.getLogger(__name__)
#: How long a hung daemon may take to write its stacks.
_STACKS_S = 1.0
#: How long a hung daemon may take to write its core file (HTCondor's time).
_CORE_S = 600.0
_SLICE_S = 0.25
#: The longest wait until a daemon that did not answer is asked again.
_AGAIN_S = 1.0


class HangTimeout(Struct, frozen=True):
    """How long a daemon may be silent (seconds), and whether a hung one leaves a core file."""

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
        """The time from one question to the next, and how long to wait for an answer."""
        return self.timeout_s / 3


async def until_silent(
    asks: Callable[[float], Awaitable[bool]], patience: Callable[[], HangTimeout], clock: Clock
) -> float:
    """Return the seconds of silence when ``asks`` has had no answer for too long.

    :param asks: asks once, for at most so many seconds; whether an answer came.
    :param patience: read before each question, so that a reconfig takes effect.
    """
    silent_s = 0.0
    while silent_s <= (limit := patience()).timeout_s:
        began = clock.monotonic()
        await asyncio.sleep(limit.interval_s if silent_s == 0 else min(_AGAIN_S, limit.interval_s))
        if await asks(limit.interval_s):
            silent_s = 0.0
        else:
            # Time in which this process itself stood still is not silence of the daemon.
            silent_s += min(clock.monotonic() - began, 2 * limit.interval_s + 1.0)
    return silent_s


async def end_hung(name: str, pid: int, silent_s: float, *, want_core: bool) -> None:
    """Kill a hung daemon; its stacks go to ``log/<name>.out`` first, and with ``want_core`` it leaves a core file."""
    _log.error("%s (%d) has not answered for %.0f s and is killed; it was %s", name, pid, silent_s, condition(pid))
    for number, limit_s in ((STACKS_SIGNAL, _STACKS_S), *(((signal.SIGABRT, _CORE_S),) if want_core else ())):
        if await _goes(pid, number, limit_s):
            return
    process.send(pid, signal.SIGKILL)


async def _goes(pid: int, number: signal.Signals, limit_s: float) -> bool:
    """Send a signal that asks for stacks or a core file; whether the process exited on it.

    A suspended process reacts to no signal but SIGKILL, and has nothing to report.
    """
    process.send(pid, number)
    waited_s = 0.0
    while waited_s < limit_s and state(pid) not in "Tt":
        if await asyncio.to_thread(process.wait_gone, pid, _SLICE_S):
            return True
        waited_s += _SLICE_S
    return False


def state(pid: int) -> str:
    """The kernel's letter for the state of a process; ``?`` if it cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "?"


def condition(pid: int) -> str:
    """The state of the process according to the kernel, for people."""
    words = {"R": "running", "S": "asleep", "D": "in uninterruptible sleep", "T": "stopped", "t": "traced", "Z": "dead"}
    try:
        waits_in = Path(f"/proc/{pid}/wchan").read_text().strip("0 \n")
    except OSError:
        waits_in = ""
    return words.get(state(pid), "unknown") + (f" in {waits_in}" if waits_in else "")
