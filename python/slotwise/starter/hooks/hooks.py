"""Hooks of the starter: an administrator's programs that prepare a job, hear of its usage, and of its end.

``<KEYWORD>_HOOK_PREPARE_JOB_BEFORE_TRANSFER``, ``_PREPARE_JOB``, ``_UPDATE_JOB_INFO`` and ``_JOB_EXIT`` name them.
Which keyword holds for a job: STARTER_JOB_HOOK_KEYWORD, else the job's HookKeyword if it has hooks here, else
STARTER_DEFAULT_JOB_HOOK_KEYWORD. A hook runs as the job's user in its directory, with the job's ad on standard input;
what it writes to standard error goes into the starter's log.

Source: manual, "Job Hooks That Modify and Monitor Execution".
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.long_form import sorted_form
from slotwise.clock import Clock
from slotwise.daemon.program_trust import fault
from slotwise.execution import child_programs, environment
from slotwise.execution.environment import EnvironmentSettings
from slotwise.execution.exit_status import HOOK_PREPARE_JOB_FAILURE, STARTER_ERROR, End, How, held
from slotwise.execution.hook_output import TO_IDLE, HookOutput, parse_output
from slotwise.execution.hook_rules import BEFORE_TRANSFER, EXIT, PREPARE, UPDATE, HookRules
from slotwise.execution.keeper_spec import Identity, KeeperResult
from slotwise.starter.hooks.run_programs import ChildPrograms
from slotwise.starter.job import usage
from slotwise.starter.job.assignment import Assignment
from slotwise.starter.job.directories import places_of
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.job.run_job import RunJob

_log = logging.getLogger(__name__)

#: How long hooks may take, seconds.
_PREPARE_S, _UPDATE_S = 600.0, 30.0
#: How often the hook at the end of fetched work is run, if it is killed.
_TELL_END = 3


class HookSettings(Protocol):
    """What hooks need of the configuration."""

    @property
    def hooks(self) -> HookRules:
        """Which program holds for which job."""
        ...

    @property
    def environment(self) -> EnvironmentSettings:
        """The environment of jobs."""
        ...


class HookedRun(Protocol):
    """What hooks need of a run."""

    assignment: Assignment
    job: RunJob
    programs: ChildPrograms

    @property
    def pid(self) -> int:
        """The job's process; 0 when it does not execute."""
        ...

    def log_message(self, text: str) -> None:
        """Have a message of the starter in the job's event log."""
        ...


def prepare_verdict(hook: str, path: str, said: HookOutput) -> End | None:
    """What becomes of a job after a hook that prepares it; None when it goes on. A code that the hook prints wins
    over its exit status: 1 to 299 hold the job (19, the code as subcode), 300 and more send it back to idle."""
    if said.code == 0:
        return None
    if 0 < said.code < TO_IDLE:
        return held(said.told(hook, path), HOOK_PREPARE_JOB_FAILURE, said.code)
    return End(How.EVICTED, reason=said.told(hook, path), reason_code=STARTER_ERROR, reason_subcode=said.code)


def check(run: HookedRun, settings: HookSettings) -> None:
    """See that the job's hooks may be used.

    :raises LaunchRefusedError: when one may not: a job does not start without what its machine demands.
    """
    for knob, path in settings.hooks.all(_wanted(run)):
        wrong = _fault(path, run.job.identity)
        if wrong:
            reason = f"{knob} ({path}) {wrong}: it is not used, and jobs that need it do not start"
            _log.error("run %s: %s", run.assignment.run_id, reason)
            raise LaunchRefusedError(End(How.NOT_STARTED, reason=reason, reason_code=STARTER_ERROR))


def precedes_transfer(run: HookedRun, settings: HookSettings) -> bool:
    """Whether the job has a hook that runs before its files are moved."""
    return bool(settings.hooks.path(_wanted(run), BEFORE_TRANSFER))


def prepares(run: HookedRun, settings: HookSettings) -> bool:
    """Whether the job has a hook that runs when its files are there."""
    return bool(settings.hooks.path(_wanted(run), PREPARE))


async def before_transfer(run: HookedRun, settings: HookSettings) -> None:
    """As :func:`prepare`, before the input files come. URLs in TransferInput count as the hook leaves them; of its own
    files the access point sends those that the job has named.

    :raises LaunchRefusedError: when the hook says that the job must not start.
    """
    before = run.job.value("TransferInput")
    await _prepare(run, settings, BEFORE_TRANSFER)
    after = run.job.value("TransferInput")
    if _own_files(before) != _own_files(after):
        _log.warning(
            "run %s: %s has changed TransferInput: that counts for URLs only, the access point sends %s",
            run.assignment.run_id, BEFORE_TRANSFER, ", ".join(_own_files(before)) or "no file of it",
        )  # fmt: skip


async def prepare(run: HookedRun, settings: HookSettings) -> None:
    """Have the job prepared when its files are there; what the hook prints changes its ad.

    :raises LaunchRefusedError: when the hook says that the job must not start.
    """
    await _prepare(run, settings, PREPARE)


async def _prepare(run: HookedRun, settings: HookSettings, hook: str) -> None:
    path = settings.hooks.path(_wanted(run), hook)
    if not path:
        return
    try:
        said = await _call(run, settings, hook, path, settings.hooks.arguments(_wanted(run)), run.job.ad, _PREPARE_S)
    except OSError as error:
        reason = f"failed to execute {hook} ({path}): {error.strerror}"
        raise LaunchRefusedError(held(reason, HOOK_PREPARE_JOB_FAILURE)) from None
    end = prepare_verdict(hook, path, said)
    if end is not None:
        raise LaunchRefusedError(end)
    if said.message:
        _log.info("run %s: %s", run.assignment.run_id, said.told(hook, path))
        run.log_message(said.told(hook, path))
    run.job.ad.update(dict(said.attributes))


async def updated(run: HookedRun, settings: HookSettings, usage: Mapping[str, object]) -> None:
    """Tell the hook what the job uses; what it prints is not heard."""
    path = settings.hooks.path(_wanted(run), UPDATE)
    if path:
        with contextlib.suppress(OSError):
            await _call(run, settings, UPDATE, path, (), _merged(run, usage), _UPDATE_S)


async def ended(
    run: HookedRun,
    settings: HookSettings,
    clock: Clock,
    how: str,
    result: KeeperResult,
    attributes: Mapping[str, object],
) -> dict[str, ExprTree]:
    """Tell the hook that the job has ended (``exit``, ``remove``, ``hold`` or ``evict``), and with what; returns the
    attributes that it prints."""
    path = settings.hooks.path(_wanted(run), EXIT)
    if not path:
        return {}
    ad = _merged(run, {**attributes, **usage.exit_attributes(result)})
    ad.pop("TerminationPending", None)  # between starter and access point
    env = {}
    if result.how in ("exited", "signaled"):
        env[f"_CONDOR_MAINJOB_EXIT_{'CODE' if result.how == 'exited' else 'SIGNAL'}"] = str(result.code)
    limit_s = settings.hooks.exit_timeout_s(_wanted(run))
    try:
        for _ in range(_TELL_END if run.assignment.fetched_for else 1):  # nobody else hears of the end of fetched work
            began = clock.monotonic()
            said = await _call(run, settings, EXIT, path, (how,), ad, limit_s, env)
            if said.status >= 0 or clock.monotonic() - began >= limit_s:
                break
    except OSError as error:
        _log.error("run %s: %s (%s): %s", run.assignment.run_id, EXIT, path, error)
        return {}
    return dict(said.attributes)


def _wanted(run: HookedRun) -> object:
    return run.job.value("HookKeyword")


def _own_files(listed: object) -> list[str]:
    """The files of a TransferInput that are no URLs."""
    names = (name.strip() for name in listed.split(",")) if isinstance(listed, str) else ()
    return [name for name in names if name and "://" not in name]


def _merged(run: HookedRun, attributes: Mapping[str, object]) -> ClassAd:
    ad = ClassAd({})
    ad.update(run.job.ad)
    ad.update(dict(attributes))
    if run.job.started_at:
        ad["JobStartDate"] = int(run.job.started_at)
    return ad


async def _call(
    run: HookedRun,
    settings: HookSettings,
    hook: str,
    path: str,
    arguments: tuple[str, ...],
    ad: ClassAd,
    limit_s: float,
    also: Mapping[str, str] | None = None,
) -> HookOutput:
    """Run a hook.

    :raises OSError: when it cannot be started.
    """
    wrong = _fault(path, run.job.identity)
    if wrong:
        raise PermissionError(0, f"the program {wrong}")
    cwd = str(run.assignment.directory.scratch) if run.job.transfers or run.job.view is None else run.job.view.iwd
    env = environment.of_hook(
        run.assignment.slot, places_of(run.assignment.directory, cwd), settings.environment, home=run.job.identity.home
    )
    if run.pid:
        env["_CONDOR_JOB_PIDS"] = str(run.pid)
    given = (sorted_form(ad) or "\n").encode("utf-8", "surrogateescape")
    answer = await run.programs.call([path, *arguments], env={**env, **(also or {})}, limit_s=limit_s, given=given)
    who = f"{run.assignment.job_id}: {hook} ({Path(path).name}, run {run.assignment.run_id})"
    child_programs.log_errors(who, answer)
    if answer.status < 0:
        _log.error("%s died of signal %d (it may take %g s)", who, -answer.status, limit_s)
    return HookOutput(answer.status, parse_output(answer.output))


def _fault(program: str, identity: Identity) -> str:
    """Why a program must not be a hook of a job that runs as ``identity``; empty when it may."""
    return fault(program, identity.uid, {identity.gid, *identity.groups})
