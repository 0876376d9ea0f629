"""``slotwise tail JOB [FILE ...]``: the ends of a running job's files (manual page of condor_tail)."""

from __future__ import annotations

import time

from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.cli.common.terminal import as_it_is
from slotwise.cli.jobs.session import PLACE, Visit, job_named, tried_again
from slotwise.errors import BusyError, NotFoundError, SlotwiseError, UsageError
from slotwise.wire.gen import schedd_pb2

_OPTIONS = [
    Option("help", 1),
    Option("maxbytes", 1, 1),
    Option("follow", 1),
    Option("no-stdout", 4),
    Option("stderr", 2),
    Option("auto-retry", 1),
    *PLACE,
]
USAGE = """usage: slotwise tail [options] CLUSTER[.PROC[.NODE]] [FILE ...]
The end of a running job's standard output, or of files in its directory
  -maxbytes N           so many bytes of each (default 1024)
  -follow               go on as they grow, until the job ends
  -stderr, -no-stdout   standard error in place of standard output; neither
  -auto-retry           wait for the job to run
  -name SCHEDD, -pool HOST:PORT        another access point"""
_LOOK_S = 0.5


def main(args: list[str], inv: Invocation) -> int:
    """Show the ends of files: status 0, or 1 when one of them cannot be read."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if not parsed.words:
        if inv.called:
            inv.err("Job ID not specified.")
            htcondor_words.usage(inv)
            return 1
        raise UsageError("which job?", hint="slotwise tail 12.0")
    job = job_named(parsed.words[0])
    request = _peek_request(parsed)
    return tried_again(parsed, inv, lambda: _show(job, request, parsed, inv))


def _peek_request(parsed: Parsed) -> schedd_pb2.Peek:
    most = parsed.number("maxbytes")
    if most is not None and most <= 0:
        raise UsageError("-maxbytes needs a number above 0")
    request = schedd_pb2.Peek(max_bytes=1024 if most is None else min(most, 1024 * 1024))
    if parsed.has("stderr"):
        request.files.add(which=schedd_pb2.PeekFile.ERROR, offset=-1)
    elif not parsed.has("no-stdout") and len(parsed.words) == 1:
        request.files.add(which=schedd_pb2.PeekFile.OUTPUT, offset=-1)
    for name in parsed.words[1:]:
        request.files.add(which=schedd_pb2.PeekFile.NAMED, name=name, offset=-1)
    if not request.files:
        raise UsageError("-no-stdout needs a file to show")
    return request


def _show(job: str, request: schedd_pb2.Peek, parsed: Parsed, inv: Invocation) -> int:
    status, shown = 0, ""
    begun = False
    with Visit(job, parsed, inv) as visit:
        visit.say(schedd_pb2.JobVisit(peek=request))
        try:
            for answer in visit.heard():
                if answer.WhichOneof("what") == "end":
                    return _over(answer.end, begun, inv)
                grew = False
                for place, file in enumerate(answer.peeked.files):
                    if file.error:
                        if not begun:
                            inv.err(f"{_named(file)}: {file.error}")
                            status = 1
                        continue
                    if file.data:
                        grew = True
                        shown = _header(file, len(request.files), shown, inv)
                        as_it_is(inv.stdout).write(file.data.decode(errors="replace"))
                    request.files[place].offset = file.offset + len(file.data)
                inv.stdout.flush()
                if not parsed.has("follow"):
                    return status
                begun = True
                if not grew:
                    time.sleep(_LOOK_S)
                visit.say(schedd_pb2.JobVisit(peek=request))
        except (BusyError, NotFoundError):
            if not begun:
                raise
    return 0


def _over(end: schedd_pb2.VisitEnd, begun: bool, inv: Invocation) -> int:
    """The job ended, which is how following it ends."""
    if not begun:
        raise SlotwiseError(end.error or "the visit was refused")
    return 0


def _named(file: schedd_pb2.PeekFile) -> str:
    return {1: "standard output", 2: "standard error"}.get(file.which, file.name)


def _header(file: schedd_pb2.PeekFile, files: int, shown: str, inv: Invocation) -> str:
    """The heading of a file's lines, with several files."""
    name = _named(file)
    if files > 1 and name != shown:
        inv.out(f"==> {name} <==")
    return name
