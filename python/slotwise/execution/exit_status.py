"""Classifies how a run ended: from what the keeper saw, what was asked, and the rules of the manual.

Codes are those of :mod:`slotwise.model.reason_codes`.
"""

from __future__ import annotations

import os
import shlex
import signal
from enum import StrEnum

from msgspec import Struct

from slotwise.execution.job_view import JobView
from slotwise.execution.keeper_spec import KeeperResult
from slotwise.model.reason_codes import OUT_OF_DISK_SUBCODE, OUT_OF_MEMORY_SUBCODE, Hold, Vacate, ends_in_hold

__all__ = [
    "CLAIM_DEACTIVATED",
    "CONTAINER_FAILED",
    "FAILED_TO_CREATE_PROCESS",
    "HOOK_PREPARE_JOB_FAILURE",
    "IMAGE_FAILED",
    "INVALID_DOCKER_IMAGE",
    "IWD_ERROR",
    "JOB_NOT_STARTED",
    "JOB_REMOVED",
    "MAX_OUTPUT_EXCEEDED",
    "MISSED_DEFERRED_TIME",
    "OUT_OF_DISK_SUBCODE",
    "OUT_OF_MEMORY_SUBCODE",
    "OUT_OF_RESOURCES",
    "SCRATCH_DIR_ERROR",
    "STARTER_ERROR",
    "TRANSFER_INPUT_ERROR",
    "TRANSFER_OUTPUT_ERROR",
    "UNABLE_TO_OPEN_INPUT",
    "UNABLE_TO_OPEN_OUTPUT",
    "End",
    "How",
    "Kill",
    "MemoryRule",
    "classify",
    "ends_in_hold",
    "held",
    "is_checkpoint",
    "killed",
]


class How(StrEnum):
    """How a run ended, in the words of the wire (``RunEnded.How``)."""

    EXITED = "EXITED"
    SIGNALED = "SIGNALED"
    EVICTED = "EVICTED"
    HELD = "HELD"
    NOT_STARTED = "NOT_STARTED"


# The codes that a starter reports.
FAILED_TO_CREATE_PROCESS = Hold.FAILED_TO_CREATE_PROCESS
UNABLE_TO_OPEN_OUTPUT = Hold.UNABLE_TO_OPEN_OUTPUT
UNABLE_TO_OPEN_INPUT = Hold.UNABLE_TO_OPEN_INPUT
TRANSFER_OUTPUT_ERROR = Hold.TRANSFER_OUTPUT_ERROR
TRANSFER_INPUT_ERROR = Hold.TRANSFER_INPUT_ERROR
NO_CREDENTIALS = Hold.CORRUPTED_CREDENTIAL
IWD_ERROR = Hold.IWD_ERROR
HOOK_PREPARE_JOB_FAILURE = Hold.HOOK_PREPARE_JOB_FAILURE
MISSED_DEFERRED_TIME = Hold.MISSED_DEFERRED_EXECUTION_TIME
MAX_OUTPUT_EXCEEDED = Hold.MAX_TRANSFER_OUTPUT
OUT_OF_RESOURCES = Hold.JOB_OUT_OF_RESOURCES
INVALID_DOCKER_IMAGE = Hold.INVALID_DOCKER_IMAGE
JOB_NOT_STARTED = Vacate.JOB_NOT_STARTED
STARTER_ERROR = Vacate.STARTER_ERROR
CLAIM_DEACTIVATED = Vacate.CLAIM_DEACTIVATED
JOB_REMOVED = Vacate.JOB_REMOVED
SCRATCH_DIR_ERROR = Vacate.SCRATCH_DIR_ERROR

#: Stages at which a runtime fails: no container could be made of the image, or the container could not be started.
IMAGE_FAILED = "image"
CONTAINER_FAILED = "container"


#: Stage of a job whose virtual machine cannot be had as the job describes it; the error number is the hold's subcode.
MACHINE_FAILED = "machine"


class Kill(Struct, frozen=True):
    """A request that the job end. ``hold`` puts it on hold with the code; else it goes back to idle."""

    fast: bool
    reason: str = ""
    code: int = 0
    subcode: int = 0
    vacate_s: int | None = None
    hold: bool = False
    want_outputs: bool = False

    def severity(self) -> tuple[bool, bool]:
        """Orders requests: a later one replaces an earlier one unless that is more severe."""
        return (self.fast, self.hold)


class End(Struct, frozen=True):
    """The end of a run, as it is reported to the shadow. ``code``: exit code or signal number."""

    how: How
    code: int = 0
    reason: str = ""
    reason_code: int = 0
    reason_subcode: int = 0
    core: bool = False
    #: The job used up its memory: usage is reported as the limit.
    at_memory_limit: bool = False

    @property
    def by_itself(self) -> bool:
        """True when the job ran to its own end."""
        return self.how in (How.EXITED, How.SIGNALED)


class MemoryRule(Struct, frozen=True):
    """How an OOM is judged: the limit (MiB; -1 none), and STARTER_ALWAYS_HOLD_ON_OOM."""

    limit_mib: int = -1
    always_hold: bool = True


def held(reason: str, code: int, subcode: int = 0) -> End:
    """An end that asks for a hold, or for a rerun if the codes say so."""
    how = How.HELD if ends_in_hold(code, subcode) else How.EVICTED
    return End(how, reason=reason, reason_code=code, reason_subcode=subcode)


def killed(kill: Kill) -> End:
    """The end of a job that ``kill`` ended."""
    if kill.hold:
        return held(kill.reason or "The machine's policy put the job on hold", kill.code, kill.subcode)
    return End(
        How.EVICTED,
        reason=kill.reason or "The job was evicted",
        reason_code=kill.code or CLAIM_DEACTIVATED,
        reason_subcode=kill.subcode,
    )


def classify(result: KeeperResult, kill: Kill | None, job: JobView, memory: MemoryRule) -> End:
    """How the run ended."""
    if result.how == "failed":
        return _failed_start(result, job) if kill is None else killed(kill)
    if result.how == "lost":
        reason = result.detail or "The process that looked after the job has died"
        return End(How.EVICTED, reason=reason, reason_code=STARTER_ERROR)
    if kill is None or not kill.hold:
        oom = _out_of_memory(result, memory)
        if oom:
            return oom
    if result.ended_by == "lease":
        return End(
            How.EVICTED,
            reason="The starter was away for longer than the job's lease",
            reason_code=CLAIM_DEACTIVATED,
        )
    if result.ended_by != "itself" and kill is not None:
        return killed(kill)
    if result.how == "exited":
        return End(How.EXITED, code=result.code)
    return End(How.SIGNALED, code=result.code, core=result.core)


def is_checkpoint(result: KeeperResult, job: JobView) -> bool:
    """Whether the job ended with its checkpoint exit code: its files are kept, and it starts again."""
    rules = job.checkpoint
    if rules is None or result.oom_kills or result.ended_by in ("hard", "lease", "memory"):
        return False
    wanted = "exited" if rules.signal is None else "signaled"
    return result.how == wanted and result.code == (rules.exit_code if rules.signal is None else rules.signal)


def _out_of_memory(result: KeeperResult, memory: MemoryRule) -> End | None:
    """Held or sent back when memory ran out, None when it did not."""
    died_of_it = result.how == "signaled" and result.code == signal.SIGKILL
    if not result.oom_kills or not (died_of_it or result.ended_by == "memory"):
        return None
    used_mib = result.usage.peak_kib // 1024
    if used_mib == 0 or memory.always_hold:
        used_mib = memory.limit_mib
    if not memory.always_hold and used_mib < 0.9 * memory.limit_mib:
        return End(How.EVICTED, reason="Worker node is out of memory")
    if memory.limit_mib < 0:
        text = "Job has encountered an out-of-memory event."
    else:
        text = (
            f"Job has gone over cgroup memory limit of {memory.limit_mib} megabytes. "
            f"Last measured usage: {used_mib} megabytes.  "
            "Consider resubmitting with a higher request_memory."
        )
    return End(
        How.HELD,
        reason=text,
        reason_code=OUT_OF_RESOURCES,
        reason_subcode=OUT_OF_MEMORY_SUBCODE,
        at_memory_limit=memory.always_hold,
    )


def _failed_start(result: KeeperResult, job: JobView) -> End:
    why = f"(errno={result.errno}: '{os.strerror(result.errno)}')"
    if result.stage == "exec":
        arguments = f" with arguments {shlex.join(job.arguments)}" if job.arguments else ""
        why = f"{result.detail} {why}" if result.detail else why
        return held(f"Failed to execute '{job.cmd}'{arguments}: {why}", FAILED_TO_CREATE_PROCESS, result.errno)
    if result.stage == "cwd":
        return held(
            f"Cannot access initial working directory {job.remote_iwd or job.iwd}: {os.strerror(result.errno)}",
            IWD_ERROR,
            result.errno,
        )
    if result.stage in ("stdin", "stdout", "stderr"):
        name = {"stdin": job.stdin, "stdout": job.stdout, "stderr": job.stderr}[result.stage]
        word = {"stdin": "input", "stdout": "output", "stderr": "error"}[result.stage]
        code = UNABLE_TO_OPEN_INPUT if result.stage == "stdin" else UNABLE_TO_OPEN_OUTPUT
        return held(
            f"Failed to open '{name}' as standard {word}: {os.strerror(result.errno)} (errno {result.errno})",
            code,
            result.errno,
        )
    if result.stage == IMAGE_FAILED:
        return held(result.detail, INVALID_DOCKER_IMAGE)
    if result.stage == CONTAINER_FAILED:
        return held(result.detail, FAILED_TO_CREATE_PROCESS)
    if result.stage == MACHINE_FAILED:
        return held(result.detail, FAILED_TO_CREATE_PROCESS, result.errno)
    detail = result.detail or why
    return End(
        How.NOT_STARTED,
        reason=f"The job could not be started here ({result.stage}): {detail}",
        reason_code=STARTER_ERROR,
        reason_subcode=result.errno,
    )
