"""``slotwise q -better-analyze``: why the jobs that `q` would show do not run."""

from __future__ import annotations

from typing import Any

import grpc

from slotwise.cli import queues
from slotwise.cli.invocation import Invocation
from slotwise.cli.options import Parsed
from slotwise.wire.gen import common_pb2, schedd_pb2
from slotwise.wire.status import to_error


def analyze(parsed: Parsed, query: schedd_pb2.JobQuery, inv: Invocation) -> int:
    """Analyze the named jobs; without names, the first idle job of each cluster."""
    from slotwise.cli.analyze import main

    inv = inv.aimed(parsed.value("pool"), parsed.value("name"))
    more = _passed_on(parsed)
    names = list(query.jobs.ids)
    if not names:
        names = _idle_jobs(parsed, query, inv)
        if not names:
            inv.out("No idle jobs to analyze.")
    return max((main([name, *more], inv) for name in names), default=0)


def _passed_on(parsed: Parsed) -> list[str]:
    """Options that are the analysis's own."""
    words: list[str] = []
    for name, own in (("slotads", "--slots"), ("jobads", "--jobs"), ("userprios", "--accounting")):
        if (value := parsed.value(name)) is not None:
            words += [own, value]
    for name in ("machine", "mconstraint"):
        if (value := parsed.value(name)) is not None:
            words += [f"--{name}", value]
    return words + [f"--{name}" for name in ("verbose", "reverse-analyze") if parsed.has(name)]


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
