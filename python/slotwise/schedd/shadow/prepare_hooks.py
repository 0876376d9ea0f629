"""The shadow's hook: an administrator's program at the access point that sees, and may change, a job's ad as it starts.

``<KEYWORD>_HOOK_SHADOW_PREPARE_JOB`` names it. Which keyword holds for a job: SHADOW_JOB_HOOK_KEYWORD, else the job's
HookKeyword if it has a hook here, else SHADOW_DEFAULT_JOB_HOOK_KEYWORD. It runs as the job's owner in the job's
directory, with the job's ad on standard input and the environment of the schedd, before the starter is given the job.
What it prints changes the ad of this run alone. A HookStatusCode from 1 to 299 holds the job (48, the code as subcode),
a larger one sends it back to idle. Nodes of parallel jobs have none, and jobs that run at the access point.

Source: manual, "Job Hooks That Modify and Monitor Execution"; HTCondor 25.14.1 was asked for words and codes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from slotwise.classad import ExprTree
from slotwise.classad.long_form import sorted_form
from slotwise.config import Config
from slotwise.daemon.program_trust import fault
from slotwise.daemon.spawn import program
from slotwise.execution import child_programs
from slotwise.execution.environment import without_tokens
from slotwise.execution.hook_output import TO_IDLE, HookOutput, parse_output
from slotwise.execution.hook_rules import SHADOW_PREPARE, HookRules
from slotwise.execution.keeper_spec import Identity
from slotwise.model.reason_codes import Hold, Vacate
from slotwise.schedd.claims.records import Run
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import RunOutcome
from slotwise.schedd.lifecycle.run_instructions import GiveUp
from slotwise.schedd.shadow.run_tasks import RunTasks
from slotwise.schedd.transfer.transfers import Transfers
from slotwise.schedd.user_files.owner_rights import SCHEDD, account

_log = logging.getLogger(__name__)

#: How long the hook may take, seconds: as long as those of the starter that prepare a job.
_LIMIT_S = 600.0


def read_rules(config: Config) -> HookRules:
    """The knobs of the shadow's hook."""
    programs, arguments = {}, {}
    for name, keyword in config.members(f"<KEYWORD>_HOOK_{SHADOW_PREPARE}"):
        if path := config.get_str(name).strip():
            programs[f"{keyword.upper()}_HOOK_{SHADOW_PREPARE}"] = path
            arguments[keyword.upper()] = config.get_str(f"{keyword}_HOOK_{SHADOW_PREPARE}_ARGS")
    return HookRules(
        override=config.get_str("SHADOW_JOB_HOOK_KEYWORD"),
        default=config.get_str("SHADOW_DEFAULT_JOB_HOOK_KEYWORD"),
        programs=programs,
        prepare_arguments=arguments,
    )


def refused(reason: str) -> GiveUp:
    """The job goes back to idle, as after any exception of a shadow."""
    return GiveUp(RunOutcome.NOT_STARTED, reason, int(Vacate.SHADOW_EXCEPTION))


def verdict(path: str, said: HookOutput) -> GiveUp | None:
    """What becomes of a job after its hook; None when it is started."""
    if said.code == 0:
        return None
    reason = said.told(SHADOW_PREPARE, path)
    if said.code >= TO_IDLE:
        return refused(reason)
    return GiveUp(RunOutcome.HELD, reason, int(Hold.HOOK_SHADOW_PREPARE_JOB_FAILURE), said.code)


class PrepareHooks:
    """Runs the hook for runs whose starters have said hello."""

    def __init__(
        self, ads: JobAds, transfers: Transfers, tasks: RunTasks, give_up: Callable[[Run, GiveUp], None]
    ) -> None:
        """
        :param give_up: ends a run without a word of its starter.
        """
        self._ads = ads
        self._transfers = transfers
        self._tasks = tasks
        self._give_up = give_up
        self.rules = HookRules()
        #: What hooks have printed for runs that are not over.
        self._printed: dict[str, Mapping[str, ExprTree]] = {}

    def changes(self, run: Run) -> Mapping[str, ExprTree] | None:
        """What the run's hook has printed; nothing where it has none; None while it is to be waited for."""
        if run.id in self._printed:
            return self._printed[run.id]
        if run.node is None and self.rules.programs and self.rules.path(self._keyword(run), SHADOW_PREPARE):
            return None
        return {}

    def begin(self, run: Run, prepared: Callable[[], None]) -> None:
        """Run the hook, if it does not run already; ``prepared`` is called when the job may start."""
        self._tasks.begin(run, f"its {SHADOW_PREPARE} hook", partial(self._prepare, run, prepared))

    def over(self, run: Run) -> None:
        """The run is over."""
        self._printed.pop(run.id, None)

    def _keyword(self, run: Run) -> object:
        return self._ads.value(run.job, "HookKeyword")

    async def _prepare(self, run: Run, prepared: Callable[[], None]) -> None:
        if (end := await self._run(run)) is None:
            prepared()
            return
        _log.error("%s: %s (run %s)", run.job.key, end.reason, run.id)
        self._give_up(run, end)

    async def _run(self, run: Run) -> GiveUp | None:
        """Run the hook to its end; what ends the run instead of its start."""
        wanted, plan = self._keyword(run), self._transfers.of(run).plan
        path, knob = self.rules.path(wanted, SHADOW_PREPARE), f"{self.rules.keyword(wanted)}_HOOK_{SHADOW_PREPARE}"
        identity = Identity()
        if os.geteuid() == 0 and plan.owner is not SCHEDD:
            who = await self._transfers.in_thread(partial(account, plan.owner, plan.fallback_account))
            identity = Identity(who.uid, who.gid, tuple(who.groups), who.name, who.home)
        if wrong := fault(path, identity.uid, {identity.gid, *identity.groups}):
            return refused(f"{knob} ({path}) {wrong}: it is not used, and jobs that need it do not start")
        ad = self._ads.expanded(run.job, run.claim.slot)
        try:
            answer = await child_programs.call(
                [*child_programs.as_user(identity), *program([path, *self.rules.arguments(wanted)])],
                Path(f"/shadow/{run.id}"),
                cwd=plan.iwd,
                env=_environment(identity),
                limit_s=_LIMIT_S,
                given=sorted_form(ad).encode("utf-8", "surrogateescape"),
            )
        except OSError as error:
            return refused(f"failed to execute {SHADOW_PREPARE} ({path}): {error.strerror}")
        if why := child_programs.unstarted(answer):
            return refused(f"failed to execute {SHADOW_PREPARE} ({path}): {why}")
        child_programs.log_errors(f"{run.job.key}: {SHADOW_PREPARE} ({Path(path).name}, run {run.id})", answer)
        said = HookOutput(answer.status, parse_output(answer.output))
        if (end := verdict(path, said)) is None:
            _log.info("%s: %s (run %s)", run.job.key, said.told(SHADOW_PREPARE, path), run.id)
            self._printed[run.id] = said.attributes
        return end


def _environment(identity: Identity) -> dict[str, str]:
    """The schedd's own, with the owner's home."""
    return {**without_tokens(os.environ), **({"HOME": identity.home} if identity.home else {})}
