"""``slotwise submit -interactive``: a job that only holds a slot, and a shell beside it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.cli.common.options import Parsed
    from slotwise.cli.jobs.submit_args import SubmitArgs

#: Names the shell's process in the job's directory.
_FILE = ".interactive"
#: The job waits three minutes for its visitor, then as long as the shell lives.
_PROGRAM = (
    "executable = /bin/sh",
    f"arguments = \"-c 'sleep 180; while kill -0 `cat {_FILE}` 2>/dev/null; do sleep 2; done'\"",
    "transfer_executable = false",
    "universe = vanilla",
    "+InteractiveJob = true",
)
_SHELL = f'echo $$ > {_FILE}; exec "$SHELL"'


def shape(asked: SubmitArgs) -> None:
    """Let the description be of one job that holds a slot; its program, if it has one, is left aside."""
    asked.append += _PROGRAM
    if not any(statement.startswith("batch_name") for statement in asked.append):
        asked.append.append("batch_name = interactive")
    asked.queue = "1"


def visit(job: str, parsed: Parsed, inv: Invocation) -> int:
    """Wait for the job to run, open the shell, and remove the job when it ends; returns the shell's status."""
    from slotwise.cli.common.options import parse
    from slotwise.cli.jobs.act import rm
    from slotwise.cli.jobs.ssh_to_job import OPTIONS, visit_job

    places = [word for name in ("name", "pool") if (value := parsed.value(name)) for word in (f"-{name}", value)]
    try:
        return visit_job(job, [_SHELL], parse(["-auto-retry", *places], OPTIONS), inv)
    finally:
        rm([job, *places], replace(inv, stdout=io.StringIO(), stderr=io.StringIO()))
