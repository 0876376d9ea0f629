"""``slotwise now``: start a job at once in the place of running ones."""

from __future__ import annotations

import re

import grpc

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.jobs.act import stub
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.wire.gen import schedd_pb2
from slotwise.wire.status import to_error

USAGE = """usage: slotwise now [options] JOB RUNNING [RUNNING ...]
  Vacates the running jobs at once, and starts JOB on what their slots have. All are of one user and in the vanilla
  universe; slots of several jobs become one, if they are dynamic slots of one partitionable slot.
  Jobs are named by CLUSTER.PROC; CLUSTER alone is its job 0.
  options: -name SCHEDD, -pool HOST:PORT, -address ADDRESS (another access point)"""
#: HTCondor's own words.
_HTCONDORS_USAGE = """Usage: {0} [-name <scheduler> [-pool <central-manager]] [-debug]
                  <job-to-run-now> <job-to-vacate> [<another-job-to-vacate>+]
   or: {0} -help"""
_OPTIONS = [
    Option("help", 1),
    Option("name", 1, 1),
    Option("pool", 1, 1),
    Option("address", 1, 1),
    Option("debug", 1),
]


def main(args: list[str], inv: Invocation) -> int:
    """Ask the schedd."""
    try:
        parsed = parse(args, _OPTIONS)
        jobs = [_job(word) for word in parsed.words]
    except UsageError as error:
        if not inv.called:
            raise
        inv.err(_HTCONDORS_USAGE.format(inv.called))
        return 1 if error else 0
    if parsed.has("help") or (inv.called and len(jobs) < 2):
        (inv.err if inv.called else inv.out)(_HTCONDORS_USAGE.format(inv.called) if inv.called else USAGE)
        return 1 if inv.called else 0
    if len(jobs) < 2:
        raise UsageError(
            "name the job to start and those to vacate for it", hint="slotwise now 17.3 4.2 starts 17.3 in place of 4.2"
        )
    try:
        inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
        target = stub(parsed, inv)
    except NotFoundError:
        if not inv.called:
            raise
        where = parsed.value("pool") or "local pool"
        inv.err(f"Unable to locate schedd '{parsed.value('name') or 'default'}' in {where}, aborting.")
        return 1
    try:
        target.RunNow(schedd_pb2.RunNowRequest(job=jobs[0], vacate=jobs[1:]), timeout=60)
    except grpc.RpcError as error:
        refused = to_error(error, peer="the schedd")
        if not inv.called or not isinstance(refused, SlotwiseError):
            raise refused from None
        inv.err(f"Unable to reassign slot: {refused.message}.")
        return 1
    if not inv.called:
        inv.out(f"Job {jobs[0]} starts as soon as {' and '.join(jobs[1:])} {'has' if len(jobs) == 2 else 'have'} ended")
    return 0


def _job(word: str) -> str:
    """The id that a word means.

    :raises UsageError: it is none.
    """
    found = re.fullmatch(r"(\d+)(?:\.(\d+))?", word)
    if found is None:
        raise UsageError(f"{word!r} is not a job id", hint="jobs are named by CLUSTER.PROC")
    return f"{found[1]}.{found[2] or 0}"
