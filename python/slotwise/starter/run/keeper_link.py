"""A run's keeper as the starter sees it: its notices, its result, and its end even when it cannot report that."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from slotwise.daemon.containment import contained
from slotwise.execution import launcher
from slotwise.execution.keeper_spec import KeeperResult, Usage, read_lines, read_result, read_state, read_usage
from slotwise.ids import doing_for_run

_log = logging.getLogger(__name__)

#: How long a keeper that has left its result may take to be gone, seconds.
_GONE_S = 5.0
#: File with what former starts of the job in this place have used.
_SPENT = "spent"


class KeeperListener(Protocol):
    """What a keeper's notices are reported to: its run."""

    def job_started(self, pid: int) -> None:
        """The job executes."""
        ...

    def job_suspended(self, *, resumed: bool) -> None:
        """The keeper has suspended or continued the job."""
        ...

    def keeper_ended(self, result: KeeperResult) -> None:
        """All processes of the job are gone."""
        ...

    def give_up(self, error: BaseException) -> None:
        """The result of the keeper could not be processed: the run ends."""
        ...

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let work of the run go on by itself."""
        ...


@dataclass(frozen=True)
class AdoptedJob:
    """A job that a former starter left running: its process (0: it does not execute yet), since when."""

    pid: int
    started_at: float
    suspended: bool


class KeeperLink:
    """Listens to the keeper of one run. All methods are for the event loop's thread."""

    def __init__(self, run_id: str, control: Path, listener: KeeperListener) -> None:
        self._run_id = run_id
        self._control = control
        self._listener = listener
        self.result: KeeperResult | None = None
        self._watch: int | None = None
        #: Checkpoints so far, and the CPU time of the starts that ended with them.
        self.checkpoints = 0
        self._spent = (0.0, 0.0)

    def notice(self, what: str) -> None:
        """Process a notice of the keeper."""
        word, _, rest = what.partition(" ")
        if word == "started":
            self._listener.job_started(int(rest or 0))
        elif word == "ended":
            self.take_result()
        elif word in ("suspended", "continued"):
            self._listener.job_suspended(resumed=word == "continued")

    def usage(self) -> Usage:
        """What the job has used so far, at its end what the keeper found last."""
        now = self.result.usage if self.result is not None else read_usage(self._control)
        return replace(now, user_s=now.user_s + self._spent[0], system_s=now.system_s + self._spent[1])

    # ---- its result

    def take_result(self) -> None:
        """Read the result, if there is one that has not been read yet."""
        result = read_result(self._control)
        if result is None or self.result is not None:
            return
        self.result = result
        with contained(_log, doing_for_run(self._run_id, "taking its result"), self._listener.give_up):
            self.stop()
            self._listener.keeper_ended(result)

    # ---- its end

    def watch(self, pid: int) -> None:
        """Watch the keeper's process: its end counts even if it cannot report that."""
        if self.result is None:
            self._watch = launcher.watch_exit(pid, self._gone)
            if self._watch is None:
                self._gone()

    def stop(self) -> None:
        """End the watch."""
        if self._watch is not None:
            launcher.unwatch(self._watch)
            self._watch = None

    def _gone(self) -> None:
        self.stop()
        if self.result is None:
            self._listener.begin(self._find_out())

    async def _find_out(self) -> None:
        """The keeper is gone: its result, or (killed before it could leave one) the end of its family."""
        with contained(_log, doing_for_run(self._run_id, "looking for its result"), self._listener.give_up):
            await self._look_for_result()

    async def _look_for_result(self) -> None:
        if read_result(self._control) is None:
            loop = asyncio.get_running_loop()
            found, names = await loop.run_in_executor(None, launcher.sweep, self._control)
            _log.warning(
                "run %s: the keeper died unexpectedly; process family %s %s", self._run_id, found, " ".join(names)
            )
        self.take_result()

    # ---- more than one start, more than one starter

    async def make_room(self) -> None:
        """Get ready for another keeper in the same place: the job goes on from its checkpoint."""
        used = self.usage()
        self._spent = (used.user_s, used.system_s)
        self.checkpoints += 1
        kept = f"checkpoints={self.checkpoints}\nuser_s={used.user_s}\nsystem_s={used.system_s}\n"
        (self._control / _SPENT).write_text(kept)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _GONE_S
        while launcher.holder(self._control) is not None and loop.time() < deadline:
            await asyncio.sleep(0.005)
        for name in ("state", "usage", "result"):
            (self._control / name).unlink(missing_ok=True)
        self.result = None

    def adopt(self) -> AdoptedJob:
        """Take up a job that a former starter left running."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            spent = read_lines((self._control / _SPENT).read_text())
            self.checkpoints = int(spent["checkpoints"])
            self._spent = (float(spent["user_s"]), float(spent["system_s"]))
        state = read_state(self._control)
        return AdoptedJob(int(state.get("pid", 0)), float(state.get("started_at", 0.0)), state.get("suspended") == "1")
