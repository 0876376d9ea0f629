"""``slotwise transfer-data``: fetch what jobs submitted with ``-spool`` left (manual page of condor_transfer_data)."""

from __future__ import annotations

import grpc

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.client.spool import Arrivals, arrive
from slotwise.errors import DeniedError, NotFoundError, UsageError
from slotwise.model.job_id import JobId
from slotwise.table import unpack_ads
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc, schedd_pb2, schedd_pb2_grpc
from slotwise.wire.status import to_error

OPTIONS = [
    Option("help", 1),
    Option("all", 2),
    Option("debug", 1),
    Option("constraint", 3, 1),
    Option("name", 1, 1),
    Option("pool", 1, 1),
    Option("address", 2, 1),
    Option("directory", 3, 1),
]
USAGE = """usage: slotwise transfer-data [options] CLUSTER | CLUSTER.PROC | USER | -constraint EXPR | -all
Fetches the results of jobs submitted with `submit -spool` to where they were submitted.
  -constraint EXPR, -all     those jobs of yours that have spooled files
  -directory DIR             put the files there instead; needed for the jobs of others
  -name NAME, -pool HOST:PORT, -address ADDRESS     at another access point"""


def main(args: list[str], inv: Invocation) -> int:
    """Fetch results."""
    parsed = parse(args, OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    chosen = schedd_pb2.JobSelection(all=parsed.has("all"))
    for word in parsed.words:
        if JobId.match(word):
            chosen.ids.append(word)
        elif word[:1].isdigit():
            raise UsageError(f"{word!r} is neither a job id nor a user")
        else:
            chosen.owners.append(word)
    chosen.constraint = " && ".join(f"({text})" for text in parsed.expressions("constraint"))
    if not (chosen.all or chosen.ids or chosen.owners or chosen.constraint):
        inv.err("You did not specify any jobs")
        inv.err(USAGE.partition("\n")[0])
        return 1
    target = parsed.value("directory")
    aimed = inv.aimed(parsed.value("pool"), parsed.value("name"))
    if not inv.called:
        return _fetch(aimed, chosen, target, parsed.value("address"))
    # HTCondor's tool says no more, and ends with 0 where there is nothing to fetch.
    inv.out("Fetching data files...")
    try:
        _fetch(aimed, chosen, target, parsed.value("address"))
    except NotFoundError as error:
        if error.message.startswith("there is no job"):
            return 0
        raise
    return 0


def _require_own(stub: schedd_pb2_grpc.ScheddStub, chosen: schedd_pb2.JobSelection, me: str) -> None:
    """See that the chosen jobs are the caller's own, as their ads say where their files go.

    Asked before anything is fetched: jobs leave the queue when all is.

    :raises DeniedError: when one is another's.
    """
    query = schedd_pb2.JobQuery(jobs=chosen)
    query.query.projection.extend(("Owner", "ClusterId", "ProcId"))
    for chunk in stub.Query(query):
        for ad in unpack_ads(chunk.data) if chunk.data else ():
            if (owner := ad.get("Owner")) != me.partition("@")[0]:
                job = f"{ad['ClusterId']}.{ad['ProcId']}"
                raise DeniedError(
                    f"job {job} belongs to {owner}, whose description says where its files go",
                    hint="name a directory for them with -directory",
                )


def _fetch(inv: Invocation, chosen: schedd_pb2.JobSelection, target: str | None, address: str | None) -> int:
    channel = (inv.at(address) if address else inv).channel("schedd")
    stub = schedd_pb2_grpc.ScheddStub(channel)
    directory = inv.path(target) if target is not None else None
    arrivals: dict[str, Arrivals] = {}
    try:
        if directory is None:
            ping = daemon_pb2_grpc.DaemonStub(channel).Ping(daemon_pb2.PingRequest())
            if not chosen.ids and not chosen.owners:
                chosen.owners.append(ping.identity.partition("@")[0])
                chosen.all = False
            _require_own(stub, chosen, ping.identity)
        for piece in stub.FetchSandboxes(chosen):
            arrive(piece, arrivals, directory)
    except grpc.RpcError as error:
        raise to_error(error, peer="the schedd") from None
    if inv.called:
        return 0
    if not arrivals:
        inv.err("No jobs with spooled files were found")
        return 1
    for job, arrived in arrivals.items():
        inv.out(f"Fetched {arrived.count} file{'s' if arrived.count != 1 else ''} of job {job} to {arrived.root}")
    return 0
