"""Hooks of the starter: an administrator's programs that prepare a job, hear of its usage, and of its end.

``<KEYWORD>_HOOK_PREPARE_JOB_BEFORE_TRANSFER``, ``_PREPARE_JOB``, ``_UPDATE_JOB_INFO`` and ``_JOB_EXIT`` name them.
Which keyword holds for a job: STARTER_JOB_HOOK_KEYWORD, else the job's HookKeyword if it has hooks here, else
STARTER_DEFAULT_JOB_HOOK_KEYWORD. A hook runs as the job's user in its directory, with the job's ad on standard input.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import AdSyntaxError
from slotwise.starter import helpers
from slotwise.starter.ads import lookup, text
from slotwise.starter.failures import LaunchRefusedError
from slotwise.starter.hook_rules import HookRules
from slotwise.starter.verdict import HOOK_PREPARE_JOB_FAILURE, STARTER_ERROR, End, How, held

if TYPE_CHECKING:
    from slotwise.starter.run import Run

_log = logging.getLogger(__name__)

PREPARE = ("PREPARE_JOB_BEFORE_TRANSFER", "PREPARE_JOB")
#: How long hooks may take, seconds.
_PREPARE_S, _UPDATE_S = 600.0, 30.0
#: From this HookStatusCode on the job goes back to idle; below it is held.
_TO_IDLE = 300


@dataclass(frozen=True)
class Said:
    """What came of a hook: exit status (below 0: a signal), and the attributes that it printed."""

    status: int
    attributes: Mapping[str, ExprTree]

    def value(self, name: str) -> object:
        """A printed attribute's value."""
        return lookup(ClassAd(dict(self.attributes)))(name)


def parse_output(output: str) -> dict[str, ExprTree]:
    """The attributes of ``Name = expression`` lines; others are skipped."""
    found: dict[str, ExprTree] = {}
    for line in output.splitlines():
        name, equals, expression = line.partition("=")
        if equals and name.strip().isidentifier():
            with contextlib.suppress(AdSyntaxError):
                found[name.strip()] = ExprTree(expression.strip(), old=True)
    return found


def prepare_verdict(hook: str, path: str, said: Said) -> End | None:
    """What becomes of a job after a hook that prepares it; None when it goes on. A code that the hook prints wins
    over its exit status: 1 to 299 hold the job (19, the code as subcode), 300 and more send it back to idle."""
    status = said.status
    code = said.value("HookStatusCode")
    if status >= 0 and isinstance(code, int) and code >= 0:
        status = code
    if status == 0:
        return None
    message = said.value("HookStatusMessage")
    how = f"reported status {status:03d}" if status == code else f"exit status {status}"
    reason = (
        f"HOOK_{hook} ({Path(path).name}) failed ({how}): {message if isinstance(message, str) else '<no message>'}"
    )
    if 0 < status < _TO_IDLE:
        return held(reason, HOOK_PREPARE_JOB_FAILURE, status)
    return End(How.EVICTED, reason=reason, reason_code=STARTER_ERROR, reason_subcode=status)


async def prepare(run: Run, rules: HookRules) -> None:
    """Have the job prepared; what the hooks print changes its ad.

    :raises LaunchRefusedError: when a hook says that the job must not start.
    """
    wanted = lookup(run.job_ad)("HookKeyword")
    for hook in PREPARE:
        path = rules.path(wanted, hook)
        if not path:
            continue
        try:
            said = await _call(run, path, (), run.job_ad, _PREPARE_S)
        except OSError as error:
            reason = f"failed to execute HOOK_{hook} ({path}): {error.strerror}"
            raise LaunchRefusedError(held(reason, HOOK_PREPARE_JOB_FAILURE)) from None
        end = prepare_verdict(hook, path, said)
        if end is not None:
            raise LaunchRefusedError(end)
        run.job_ad.update(dict(said.attributes))


async def updated(run: Run, rules: HookRules, usage: Mapping[str, Any]) -> None:
    """Tell the hook what the job uses; what it prints is not heard."""
    path = rules.path(lookup(run.job_ad)("HookKeyword"), "UPDATE_JOB_INFO")
    if path:
        with contextlib.suppress(OSError):
            await _call(run, path, (), _merged(run, usage), _UPDATE_S)


async def ended(run: Run, rules: HookRules, how: str, usage: Mapping[str, Any]) -> dict[str, ExprTree]:
    """Tell the hook that the job has ended (``exit``, ``remove``, ``hold`` or ``evict``); the attributes it prints."""
    wanted = lookup(run.job_ad)("HookKeyword")
    path = rules.path(wanted, "JOB_EXIT")
    if not path:
        return {}
    try:
        said = await _call(run, path, (how,), _merged(run, usage), rules.exit_timeout_s(wanted))
    except OSError as error:
        _log.error("run %s: HOOK_JOB_EXIT (%s): %s", run.run_id, path, error)
        return {}
    return dict(said.attributes)


def _merged(run: Run, usage: Mapping[str, Any]) -> ClassAd:
    ad = ClassAd({})
    ad.update(run.job_ad)
    ad.update(dict(usage))
    return ad


async def _call(run: Run, path: str, arguments: tuple[str, ...], ad: ClassAd, limit_s: float) -> Said:
    given = text(ad).encode("utf-8", "surrogateescape")
    env = {"_CONDOR_SLOT": run.slot.name}
    status, said = await helpers.call_for(run, [path, *arguments], env=env, limit_s=limit_s, given=given)
    if status < 0:
        _log.error("run %s: the hook %s died of signal %d (it may take %g s)", run.run_id, path, -status, limit_s)
    return Said(status, parse_output(said))
