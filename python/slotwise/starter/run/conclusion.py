"""What becomes of a run whose keeper has ended: limits that the starter itself enforces, and the hook at the end."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Protocol

from slotwise.daemon.containment import contained
from slotwise.execution.exit_status import JOB_REMOVED, End, How, Kill, classify, is_checkpoint
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.ids import doing_for_run
from slotwise.starter.enforcement.job_wrapper import unfit_wrapper_of, wrapper_failure
from slotwise.starter.hooks import hooks
from slotwise.starter.hooks.hooks import HookedRun
from slotwise.starter.job.choice import NONE
from slotwise.starter.job.failures import NO_JOB
from slotwise.starter.run import events
from slotwise.starter.run.measured import MeasuredRun, end_ad
from slotwise.starter.run.run_host import HostServices
from slotwise.starter.run.states import RunState
from slotwise.starter.runtimes.choice import APPTAINER
from slotwise.starter.runtimes.runtime import container_run

_log = logging.getLogger(__name__)
#: The runtimes whose program is started by the job wrapper; others are clients of a service.
_WRAPPED = (NONE, APPTAINER)


class EndingRun(HookedRun, MeasuredRun, Protocol):
    """What the end of a job needs of its run."""

    @property
    def host(self) -> HostServices:
        """What all runs share."""
        ...

    def on(self, event: events.Event) -> None:
        """Apply an event."""
        ...

    def give_up(self, error: BaseException) -> None:
        """The end of the job could not be processed: the run ends."""
        ...

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let work of the run go on by itself."""
        ...


def leaving(kill: Kill | None) -> str:
    """How a job leaves that ``kill`` ended, in the word for hooks: exit, remove, hold or evict."""
    if kill is None:
        return "exit"
    return "hold" if kill.hold else "remove" if kill.code == JOB_REMOVED else "evict"


def told_of_end(fetched_for: str, state: RunState, result: KeeperResult, end: End) -> str:
    """The word for hooks: ``exit`` of a job that ran to its end. One that nothing has ended and that did not run, as
    its program or its keeper failed, is held or goes elsewhere: whoever gave the work must not count it as done."""
    if finished(fetched_for, state, result, end):
        return "exit"
    if state.kill is None and not _ran(result):
        return "hold" if end.how is How.HELD else "evict"
    return leaving(state.kill)


def finished(fetched_for: str, state: RunState, result: KeeperResult | None, end: End) -> bool:
    """Whether fetched work ran to its own end, whatever that is."""
    return bool(fetched_for) and _ran(result) and (end.by_itself or state.kill is None)


def _ran(result: KeeperResult | None) -> bool:
    return result is not None and result.how in ("exited", "signaled")


def begin(run: EndingRun, result: KeeperResult) -> None:
    """Find out what the run ends with; in the background where a runtime, hooks or the disk have a say."""
    if run.job.choice.runtime == NONE:
        _find_end(run, result)
    else:
        run.begin(_leave_runtime(run, result))


async def _leave_runtime(run: EndingRun, result: KeeperResult) -> None:
    """The runtime knows how its container ended, and removes it."""
    run_id = run.assignment.run_id
    with contained(_log, doing_for_run(run_id, f"removing its container ({run.job.choice.runtime})")):
        result = await run.host.machine.runtimes.conclude(container_run(run.assignment, run.job), result)
        run.keeper.result = result
    with contained(_log, doing_for_run(run_id, "judging its end"), run.give_up):
        _find_end(run, result)


def _find_end(run: EndingRun, result: KeeperResult) -> None:
    hooked = bool(run.host.machine.settings.hooks.programs)
    if hooked or result.started_at or run.host.disks.checks(run.scratch):
        run.begin(_conclude(run, result))
    else:
        _judge(run, result, None)


async def _conclude(run: EndingRun, result: KeeperResult) -> None:
    """A job that failed beside a full disk is held for the disk."""
    disks, settings, now = run.host.disks, run.host.machine.settings, run.host.clock.now
    full = None
    try:
        run.scratch.used = await disks.measure(run.scratch)
        full = disks.over_limit(run.scratch) or disks.failed_by_pool(run.scratch)
        job = run.job.view
        if job is not None and not is_checkpoint(result, job):
            end = _overruled(run, result, full) or classify(result, run.state.kill, job, run.job.enforced.memory)
            how = told_of_end(run.assignment.fetched_for, run.state, run.keeper.result or result, end)
            attributes = end_ad(run, end, now())
            run.reported.by_hook = await hooks.ended(run, settings, run.host.clock, how, result, attributes)
    except Exception:  # the job has ended, and its end must be reported
        _log.exception("run %s: error while finishing the job", run.assignment.run_id)
    _judge(run, result, full)


def _overruled(run: EndingRun, result: KeeperResult, full: End | None) -> End | None:
    """What the run ends with whatever the keeper saw: a wrapper that failed, a disk (``full``) that was."""
    scratch, identity = run.assignment.directory.scratch, run.job.identity
    failed, wrapper = None, run.host.machine.settings.wrapper
    if wrapper:
        failed = wrapper_failure(scratch, identity)
        if run.state.kill is None and run.job.choice.runtime in _WRAPPED:
            failed = failed or unfit_wrapper_of(wrapper, result)
    return failed or (None if result.how == "exited" and result.code == 0 else full)


def _judge(run: EndingRun, result: KeeperResult, full: End | None) -> None:
    run_id = run.assignment.run_id
    with contained(_log, doing_for_run(run_id, "judging its end"), run.give_up):
        overruled = _overruled(run, result, full)
        if result.leftovers:
            _log.error("run %s: could not remove all processes and cgroups of the job", run_id)
        for limit in result.unenforced:
            _log.warning("run %s: the host refused a limit: %s", run_id, limit)
            run.host.machine.note_refusal(limit)
        run.on(events.KeeperEnded(result, run.job.enforced.memory, run.job.view or NO_JOB, overruled))
