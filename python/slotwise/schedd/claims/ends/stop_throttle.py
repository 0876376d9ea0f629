"""How fast running jobs are stopped: JOB_STOP_COUNT in every JOB_STOP_DELAY seconds. Pure.

The two knobs apply to jobs that execute and are removed, held or vacated, by a command or a policy expression (HTCondor
manual, "condor_schedd Configuration File Entries"). A job has its new state in the queue immediately; what waits is the
message to its starter.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.schedd.jobs.decision import Kill


class StopRate(Struct):
    """Runs that are to be stopped, in order. A delay of 0 means: none of them waits.

    As in HTCondor 25.14 the first JOB_STOP_COUNT wait for JOB_STOP_DELAY, too: seen there with 2 and 10 seconds, of six
    removed jobs two each stop after 10, 20 and 30.
    """

    count: int = 1
    delay_s: float = 0.0
    _waiting: dict[str, Kill] = field(default_factory=dict)
    #: Since when the next are waiting.
    _since: float = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, kill: Kill, now: float) -> None:
        """The run is to be stopped; it keeps its place if it waits already, and what is fast stays fast."""
        if not self._waiting:
            self._since = now
        former = self._waiting.get(kill.run_id)
        self._waiting[kill.run_id] = replace(kill, fast=kill.fast or former.fast) if former is not None else kill

    def discard(self, run_id: str) -> None:
        """The run does not wait any more."""
        self._waiting.pop(run_id, None)

    def due(self, now: float, lives: Callable[[str], bool]) -> list[Kill]:
        """What is to be stopped at ``now``, seconds; it does not wait any more.

        :param lives: whether a run is not over yet; those that are over take no place of others.
        """
        if now < self._since + self.delay_s:
            return []
        self._since = now
        found: list[Kill] = []
        for run_id in list(self._waiting):
            if self.delay_s > 0 and len(found) >= max(1, self.count):
                break
            kill = self._waiting.pop(run_id)
            if lives(run_id):
                found.append(kill)
        return found

    def wait_s(self, now: float) -> float | None:
        """How long until the next are due; None when none waits."""
        return max(0.0, self._since + self.delay_s - now) if self._waiting else None
