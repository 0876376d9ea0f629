"""``slotwise evicted-files``: what evicted runs have left for the next (manual page of condor_evicted_files)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import grpc

from slotwise.classad import ClassAd
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.client.spool import Arrivals
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

USAGE = """usage: slotwise evicted-files [options] [dir | list | get] CLUSTER.PROC ...
  What the access point keeps of runs that were evicted (when_to_transfer_output = ON_EXIT_OR_EVICT) or wrote a
  checkpoint, for the next run of the job.
  dir                   where (default); list: which files; get: copy them to a directory with the job's id as its name
  -json                 where and which, for programs
  -name NAME, -pool HOST:PORT     at another access point"""
_OPTIONS = [Option("help", 1), Option("json", 1), Option("name", 1, 1), Option("pool", 1, 1)]
_COMMANDS = {"dir": "dir", "find": "dir", "ls": "list", "list": "list", "get": "get", "fetch": "get"}
_NOTHING = "No directory; job was never evicted."
_NO_SUCH_FILE = 2


def main(args: list[str], inv: Invocation) -> int:
    """Show or fetch files of evicted runs."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    command, ids = "dir", parsed.words
    if ids and not ids[0][:1].isdigit():
        word, *ids = ids
        if word.lower() not in _COMMANDS:
            raise UsageError(f"there is no {word!r}", hint="dir, list or get")
        command = _COMMANDS[word.lower()]
    if not ids:
        raise UsageError("which job?", hint="slotwise evicted-files list CLUSTER.PROC")
    if odd := next((word for word in ids if not re.fullmatch(r"\d+\.\d+", word)), None):
        raise UsageError(f"{odd!r} is not a job id, aborting.")
    aimed = inv.aimed(parsed.value("pool"), parsed.value("name"))
    if parsed.has("json"):
        inv.out(json.dumps([_row(aimed, job) for job in ids]))
        return 0
    statuses = [_show(command, aimed, job, alone=len(ids) == 1) for job in ids]
    return statuses[0] if len(ids) == 1 else 0 if inv.called else max(statuses)


def _pieces(inv: Invocation, job: str, *, names_only: bool) -> Iterator[schedd_pb2.SandboxPiece]:
    query = schedd_pb2.EvictedQuery(id=job, names_only=names_only)
    try:
        yield from inv.stub(schedd_pb2_grpc.ScheddStub, "schedd").FetchEvicted(query)
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None


def _listed(inv: Invocation, job: str) -> tuple[str, list[str]]:
    """Where the files of a job are, and their names."""
    first, *others = _pieces(inv, job, names_only=True)
    return first.directory, [os.fsdecode(piece.file.name) for piece in others if not piece.file.directory]


def _row(inv: Invocation, job: str) -> dict[str, object]:
    directory, names = _listed(inv, job)
    return {"JobId": job, "Directory": directory or None, "Files": names}


def _show(command: str, inv: Invocation, job: str, *, alone: bool) -> int:
    """Do it for one job; returns the status that this ends with if it is the only one."""
    before = "" if alone else f"{job} "
    try:
        directory, names = _listed(inv, job)
    except NotFoundError:
        if not inv.called:
            raise
        directory, names = "", []  # HTCondor's tool looks for the directory alone
    if not directory:
        inv.out(before + _NOTHING)
        return _NO_SUCH_FILE if inv.called else 1
    if command == "dir":
        inv.out(before + directory)
    elif command == "list":
        if not alone:
            inv.out(before.rstrip())
        for name in dict.fromkeys(name.partition("/")[0] for name in names):
            inv.out(f"\t{name}")
    else:
        return _get(inv, job, before)
    return 0


def _get(inv: Invocation, job: str, before: str) -> int:
    target = inv.path(job)
    if target.exists():
        inv.out(f"{before}Destination directory '{job}' exists, not modifying.")
        return 255 if inv.called else 1
    try:
        target.mkdir(mode=0o700)
        arrivals = Arrivals(ClassAd(), target)
        for piece in _pieces(inv, job, names_only=False):
            if piece.HasField("file"):
                arrivals.take(piece.file)
    except SlotwiseError as error:
        inv.out(f"{before}Copy failed: {error}.")
        return 1
    inv.out(f"{before}Copied to '{job}'.")
    return 0
