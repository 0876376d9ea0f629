"""``slotwise q -better-analyze``: why the jobs that `q` would show do not run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import grpc

from slotwise.classad import ClassAd, quote
from slotwise.cli import queues
from slotwise.cli.invocation import Invocation
from slotwise.cli.options import Parsed
from slotwise.cli.render import ads as whole
from slotwise.errors import NotFoundError, UsageError
from slotwise.table import unpack_ads
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, schedd_pb2
from slotwise.wire.status import to_error

#: Options with which the analysis is made of files instead of the negotiator's snapshot.
_OF_FILES = ("slotads", "jobads", "userprios", "machine", "mconstraint")


def analyze(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation) -> int:
    """Analyze the named jobs; without names, the first idle job of each cluster.

    :raises UsageError: for the analyses that there are not.
    """
    from slotwise.cli.analyze import main

    for name in ("reverse-analyze", "unmatchable"):
        if parsed.has(name):
            raise UsageError(f"-{name} is not there yet", hint="-better-analyze -machine NAME shows one machine")
    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    names = list(query.jobs.ids)
    if not names:
        names = _idle_jobs(parsed, query, inv)
        if not names:
            inv.out("No idle jobs to analyze.")
    if not any(parsed.has(name) for name in _OF_FILES):
        return max((main([name], inv) for name in names), default=0)
    with tempfile.TemporaryDirectory(prefix="slotwise-") as directory:
        files = _files(parsed, query, inv, Path(directory))
        return max((main([name, *files], inv) for name in names), default=0)


def _files(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation, directory: Path) -> list[str]:
    """Slots and jobs as files: those named, or what the pool has now."""
    jobs = parsed.value("jobads")
    if jobs is None:
        asked = schedd_pb2.JobQuery()
        asked.CopyFrom(query)
        asked.query.form = common_pb2.AdQuery.PACK
        ads = [ad for queue in queues.of(parsed, inv) for ad in queue.ads(asked)]
        jobs = _kept(directory / "jobs", ads)
    clauses = [f"({text})" for text in parsed.expressions("mconstraint")]
    if (machine := parsed.value("machine")) is not None:
        clauses.append(f"(Machine == {quote(machine)} || Name == {quote(machine)})")
    constraint = " && ".join(clauses)
    named = parsed.value("slotads")
    if named is not None:
        slots = whole.chosen(whole.read_file(inv.path(named)), constraint, None)
    else:
        slots = _slots(constraint, inv)
    if not slots:
        raise NotFoundError("there are no such slots", hint="`slotwise status` shows the slots of the pool")
    words = ["--jobs", jobs, "--slots", _kept(directory / "slots", slots)]
    prios = parsed.value("userprios")
    return words if prios is None else [*words, "--accounting", prios]


def _kept(path: Path, ads: list[ClassAd]) -> str:
    path.write_text(whole.long_text(ads))
    return str(path)


def _slots(constraint: str, inv: Invocation) -> list[ClassAd]:
    stub = inv.stub(collector_pb2_grpc.CollectorStub, "collector")
    query = common_pb2.AdQuery(kind="Machine", constraint=constraint)
    try:
        chunks = list(stub.Query(query, metadata=inv.metadata()))
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None
    return [ad for chunk in chunks if chunk.data for ad in unpack_ads(chunk.data)]


def _idle_jobs(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation) -> list[str]:
    asked = schedd_pb2.JobQuery()
    asked.CopyFrom(query)
    asked.query.constraint = f"({query.query.constraint or 'true'}) && JobStatus == 1"
    asked.query.projection[:] = ["ClusterId", "ProcId"]
    asked.query.form = common_pb2.AdQuery.PACK
    first: dict[Any, str] = {}
    try:
        for queue in queues.of(parsed, inv):
            for ad in queue.ads(asked):
                first.setdefault(ad.get("ClusterId"), f"{ad.get('ClusterId')}.{ad.get('ProcId')}")
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None
    return list(first.values())
