"""A run's keeper as the starter sees it: its words, its result, and its end even when it cannot tell."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from slotwise.daemon.containment import contained
from slotwise.execution import launcher
from slotwise.execution.exit_status import End, classify, is_checkpoint
from slotwise.execution.keeper_spec import KeeperResult, Usage, read_lines, read_result, read_state, read_usage
from slotwise.ids import doing_for_run
from slotwise.starter.hooks import hooks
from slotwise.starter.job.failures import NO_JOB, wrapper_failure
from slotwise.starter.run import events, faults, reporting
from slotwise.starter.run.states import Phase

if TYPE_CHECKING:
    from slotwise.starter.run.run import Run

_log = logging.getLogger(__name__)

#: Jobs shorter than this are not worth a walk through their scratch directory, seconds.
LONG_ENOUGH_S = 2.0
#: How long a keeper that has left its result may take to be gone, seconds.
_GONE_S = 5.0
#: File with what former starts of the job in this place have used.
_SPENT = "spent"


class KeeperLink:
    """Listens to the keeper of one run. All methods are for the event loop's thread."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._control = run.directory.control
        self.result: KeeperResult | None = None
        self._watch: int | None = None
        #: Checkpoints so far, and the CPU time of the starts that ended with them.
        self.checkpoints = 0
        self._spent = (0.0, 0.0)

    def notice(self, what: str) -> None:
        """The keeper said something."""
        word, _, rest = what.partition(" ")
        if word == "started":
            if self._run.state.phase is Phase.STARTING:  # a notice that comes late says when it was read, no more
                self._run.started_at = self._run.host.clock.now()
            self._run.on(events.Started(int(rest or 0)))
            self._run.live.follow()
        elif word == "ended":
            self.take_result()
        elif word in ("suspended", "continued"):
            self._run.on(events.Suspended(resumed=word == "continued"))

    def usage(self) -> Usage:
        """What the job has used so far, at its end what the keeper found last."""
        now = self.result.usage if self.result is not None else read_usage(self._control)
        return replace(now, user_s=now.user_s + self._spent[0], system_s=now.system_s + self._spent[1])

    # ---- its result

    def take_result(self) -> None:
        """Read the result, if there is one and it is news."""
        result = read_result(self._control)
        if result is None or self.result is not None:
            return
        self.result = result
        with contained(_log, doing_for_run(self._run.run_id, "taking its result"), partial(faults.give_up, self._run)):
            self.stop()
            if self._run.state.phase is Phase.STARTING:
                self._run.started_at = result.started_at  # nobody has told us of the start
            hooked = bool(self._run.host.settings.hooks.programs)
            if hooked or self._run.host.disks.checks(self._run) or result.ended_at - result.started_at > LONG_ENOUGH_S:
                self._run.begin(self._conclude(result))
            else:
                self._judge(result, None)

    async def _conclude(self, result: KeeperResult) -> None:
        """A job that failed beside a full disk is held for the disk."""
        run, disks = self._run, self._run.host.disks
        full = None
        try:
            run.disk = await disks.measure(run)
            full = disks.over_limit(run) or disks.failed_by_pool(run)
            if run.job is not None and not is_checkpoint(result, run.job):
                end = self._overruled(result, full) or classify(result, run.state.kill, run.job, run.memory)
                how = "exit" if run.finished(end) else run.leaving()
                rules, attributes = run.host.settings.hooks, reporting.end_ad(run, end)
                run.told_by_hook = await hooks.ended(run, rules, how, result, attributes)
        except Exception:  # the job has ended, and its end must be told
            _log.exception("run %s: error while finishing the job", run.run_id)
        self._judge(result, full)

    def _overruled(self, result: KeeperResult, full: End | None) -> End | None:
        """What the run ends with whatever the keeper saw: a wrapper that failed, a disk (``full``) that was."""
        run = self._run
        failed = wrapper_failure(run.directory.scratch, run.identity) if run.host.settings.wrapper else None
        return failed or (None if result.how == "exited" and result.code == 0 else full)

    def _judge(self, result: KeeperResult, full: End | None) -> None:
        with contained(_log, doing_for_run(self._run.run_id, "judging its end"), partial(faults.give_up, self._run)):
            self._judged(result, full)

    def _judged(self, result: KeeperResult, full: End | None) -> None:
        run = self._run
        overruled = self._overruled(result, full)
        if result.leftovers:
            _log.error("run %s: could not remove all processes and cgroups of the job", run.run_id)
        for limit in result.unenforced:
            _log.warning("run %s: the host refused a limit: %s", run.run_id, limit)
            run.host.note_refusal(limit)
        run.on(events.KeeperEnded(result, run.memory, run.job or NO_JOB, overruled))

    # ---- its end

    def watch(self, pid: int) -> None:
        """See to it that the keeper's end is noticed even if it cannot tell."""
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
            self._run.begin(self._find_out())

    async def _find_out(self) -> None:
        """The keeper is gone: its result, or (killed before it could leave one) the end of its family."""
        with contained(
            _log,
            doing_for_run(self._run.run_id, "looking for its result"),
            partial(faults.give_up, self._run),
        ):
            await self._look_for_result()

    async def _look_for_result(self) -> None:
        if read_result(self._control) is None:
            loop = asyncio.get_running_loop()
            found, names = await loop.run_in_executor(None, launcher.sweep, self._control)
            _log.warning(
                "run %s: the keeper died unexpectedly; process family %s %s", self._run.run_id, found, " ".join(names)
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

    def adopt(self) -> None:
        """Take up a run that a former starter left running."""
        run, state = self._run, read_state(self._control)
        pid = int(state.get("pid", 0))
        run.started_at = float(state.get("started_at", 0.0))
        suspended = state.get("suspended") == "1"
        phase = Phase.RUNNING if pid else Phase.STARTING
        run.state = replace(run.state, phase=phase, pid=pid, executed=pid > 0, suspended=suspended)
        with contextlib.suppress(OSError, ValueError, KeyError):
            spent = read_lines((self._control / _SPENT).read_text())
            self.checkpoints = int(spent["checkpoints"])
            self._spent = (float(spent["user_s"]), float(spent["system_s"]))
