"""A run's keeper as the daemon that had it forked sees it: its notices, its result, and its end even when it cannot
report that.

Starter and schedd follow their keepers with it. What a keeper found out lies in the run's control directory; a notice
only says when to look there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from slotwise.daemon import children
from slotwise.daemon.containment import contained
from slotwise.execution import launcher
from slotwise.execution.keeper_spec import KeeperResult, Usage, read_lines, read_result, read_state, read_usage
from slotwise.ids import doing_for_run

_log = logging.getLogger(__name__)

#: How long a keeper that has left its result may take to be gone, seconds.
_GONE_S = 5.0
#: The wait before a result that could not be read is read again, seconds.
_READ_AGAIN_S = 1.0
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


class AdoptedJob(Struct, frozen=True):
    """A job that a former daemon left running: its process (0: it does not execute yet), since when."""

    pid: int
    started_at: float
    suspended: bool


class KeeperLink:
    """Listens to the keeper of one run. All methods are for the event loop's thread.

    :param control: the run's control directory.
    :param rights: the rights on files with which the control directory is touched; by default the thread's own.
    :param threads: where blocking work is done; None: the event loop's own threads.
    """

    def __init__(
        self,
        run_id: str,
        control: Path,
        listener: KeeperListener,
        *,
        rights: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
        threads: Executor | None = None,
    ) -> None:
        self._run_id = run_id
        self._control = control
        self._listener = listener
        self._rights = rights
        self._threads = threads
        self.result: KeeperResult | None = None
        self._watch: int | None = None
        self._closed = False
        self._unread = False
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

    # ---- commands; each is False when no keeper listens

    def kill(self) -> bool:
        """Kill all processes of the job."""
        return self._command("hard")

    def ask_to_exit(self, signal: int, seconds: int) -> bool:
        """Send the job a signal, and kill it after ``seconds``."""
        return self._command(f"soft {signal} {seconds}")

    def suspend(self, *, resume: bool = False) -> bool:
        """Suspend the processes of the job, or continue them."""
        return self._command("continue" if resume else "suspend")

    def _command(self, text: str) -> bool:
        with self._rights():
            return launcher.command(self._control, text)

    # ---- what it uses

    def usage(self) -> Usage:
        """What the job has used so far, at its end what the keeper found last."""
        if self.result is not None:
            now = self.result.usage
        else:
            with self._rights():
                now = read_usage(self._control)
        return replace(now, user_s=now.user_s + self._spent[0], system_s=now.system_s + self._spent[1])

    # ---- its result

    def take_result(self) -> None:
        """Read the result, if there is one that has not been read yet."""
        if self.result is not None or self._closed:
            return
        try:
            with self._rights():
                result = read_result(self._control)
        except OSError as error:
            # It stays where it is: what keeps this daemon from reading it now may pass.
            if not self._unread:
                _log.warning("run %s: its result cannot be read yet: %s", self._run_id, error)
            self._unread = True
            asyncio.get_running_loop().call_later(_READ_AGAIN_S, self.take_result)
            return
        if result is None:
            return
        self.result = result
        with contained(_log, doing_for_run(self._run_id, "taking its result"), self._listener.give_up):
            self._unwatch()
            self._listener.keeper_ended(result)

    # ---- its end

    def watch(self, pid: int) -> None:
        """Watch the keeper's process: its end counts even if it cannot report that."""
        if self.result is None and not self._closed:
            self._watch = children.watch_exit(pid, self._gone)
            if self._watch is None:
                self._gone()

    def close(self) -> None:
        """Listen no more: the run is over, or the daemon leaves it to its keeper."""
        self._closed = True
        self._unwatch()

    def _unwatch(self) -> None:
        if self._watch is not None:
            children.unwatch(self._watch)
            self._watch = None

    def _gone(self) -> None:
        self._unwatch()
        if self.result is None and not self._closed:
            self._listener.begin(self.find_out())

    async def find_out(self) -> None:
        """Take the result of a keeper that is gone; one that was killed before it could leave one has its family
        killed, which yields a result."""
        with contained(_log, doing_for_run(self._run_id, "looking for its result"), self._listener.give_up):
            self.take_result()
            if self.result is not None or self._closed:
                return
            found, words = await asyncio.get_running_loop().run_in_executor(self._threads, self._sweep)
            if found == "alive":  # another keeper of the same run got the lock first
                self.watch(int(words[0]))
                return
            _log.warning("run %s: its keeper died; process family %s %s", self._run_id, found, " ".join(words))
            self.take_result()

    def _sweep(self) -> tuple[str, list[str]]:
        with self._rights():
            return launcher.sweep(self._control)

    # ---- more than one start, more than one daemon

    async def make_room(self) -> None:
        """Get ready for another keeper in the same place: the job goes on from its checkpoint."""
        used = self.usage()
        self._spent = (used.user_s, used.system_s)
        self.checkpoints += 1
        kept = f"checkpoints={self.checkpoints}\nuser_s={used.user_s}\nsystem_s={used.system_s}\n"
        with self._rights():
            (self._control / _SPENT).write_text(kept)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _GONE_S
        while self._is_held() and loop.time() < deadline:
            await asyncio.sleep(0.005)
        with self._rights():
            for name in ("state", "usage", "result"):
                (self._control / name).unlink(missing_ok=True)
        self.result = None

    def _is_held(self) -> bool:
        with self._rights():
            return launcher.holder(self._control) is not None

    def adopt(self) -> AdoptedJob:
        """Take up a job that a former daemon left running."""
        with self._rights():
            with contextlib.suppress(OSError, ValueError, KeyError):
                spent = read_lines((self._control / _SPENT).read_text())
                self.checkpoints = int(spent["checkpoints"])
                self._spent = (float(spent["user_s"]), float(spent["system_s"]))
            state = read_state(self._control)
        return AdoptedJob(int(state.get("pid", 0)), float(state.get("started_at", 0.0)), state.get("suspended") == "1")
