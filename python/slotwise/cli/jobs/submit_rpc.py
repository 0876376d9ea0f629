"""What `slotwise submit` asks of the access point: ids, to queue jobs, to take their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotwise.errors import HostError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.cli.common.options import Parsed
    from slotwise.config import Config
    from slotwise.submit import Submission

#: Submissions up to this many jobs go in one message.
_ONE_MESSAGE = 5_000
_TIMEOUT_S = 600.0
#: How long a schedd that went away is waited for.
_PATIENCE_S = 20.0


def _call(inv: Invocation, parsed: Parsed, method: str, request: Callable[[bool], Any]) -> Any:
    """Ask the schedd; ``request`` is told whether it was sent before.

    A schedd of this machine that goes away comes back while its master lives, and is waited for that long.
    """
    from slotwise.client.retry import RetryPolicy
    from slotwise.daemon.lock import holder

    patience = RetryPolicy(_PATIENCE_S)
    patience.reached = inv.pool is None and inv.daemon_name is None and holder(inv.home, "master") is not None

    def attempt(again: bool) -> Any:
        return getattr(_stub(inv, parsed), method)(request(again), timeout=_TIMEOUT_S)

    return patience.call(attempt)


def _stub(inv: Invocation, parsed: Parsed) -> Any:
    from slotwise.wire.gen import schedd_pb2_grpc

    address = parsed.value("address")
    if address is not None:
        return schedd_pb2_grpc.ScheddStub(inv.open(address.strip("<>").partition("?")[0]))
    return inv.stub(schedd_pb2_grpc.ScheddStub, "schedd")


def capabilities(inv: Invocation, parsed: Parsed, config: Config) -> int:
    """What this access point can do with a submission, and the commands that the configuration adds."""
    from slotwise import _native
    from slotwise.cli.pool.ping import greeting

    name, version = greeting(inv, "schedd", parsed.value("address"))
    inv.out(f"Schedd {name} ({version}) has these capabilities:")
    for what, how in (
        ("Universes", "vanilla, scheduler, local"),
        ("Spooling of files", "submit -spool, transfer-data"),
        ("Late materialization", "max_materialize, max_idle"),
    ):
        inv.out(f"  {what:<22}{how}")
    if commands := sorted(_native.extended_commands(config.data), key=lambda command: command[0].lower()):
        inv.out(" Has Extended submit commands:")
        width = max(len(known) for known, _ in commands)
        for known, takes in commands:
            inv.out(f"\t{known:<{width}}  value is {takes or 'forbidden'}")
    if place := config.get_text("EXTENDED_SUBMIT_HELPFILE"):
        inv.out(f" Has Extended help:\n\t{_help(place)}")
    return 0


def _help(place: str) -> str:
    """A URL as it is, of a file its text."""
    if "://" in place:
        return place
    try:
        return Path(place).read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError as error:
        raise HostError(f"cannot read EXTENDED_SUBMIT_HELPFILE: {error}", path=place) from None


def reserve(inv: Invocation, parsed: Parsed, count: int) -> int:
    """Cluster ids that the description's file names can contain."""
    from slotwise.wire.gen import schedd_pb2

    asked = schedd_pb2.ReserveClustersRequest(count=count)
    reply = _call(inv, parsed, "ReserveClusters", lambda again: asked)
    return int(reply.first)


def send(inv: Invocation, parsed: Parsed, submission: Submission, first: int, *, spool: bool) -> Any:
    """One message when the submission is small, else a stream; all of it or nothing is queued, and nothing twice."""
    from slotwise.wire.gen import schedd_pb2 as pb
    from slotwise.wire.sizes import PIECE

    key = os.urandom(16)

    def packed(data: bytes) -> bytes:
        if not spool:
            return data
        from slotwise.cli.jobs.spool import without_log

        return without_log(data)

    def head(index: int) -> Any:
        cluster_id = first + index if first else 0
        return pb.ClusterSubmission(cluster_ad=packed(submission.clusters[index].pack()), cluster_id=cluster_id)

    if submission.count <= _ONE_MESSAGE:
        bundle = pb.SubmitBundle(client="slotwise submit", key=key)
        for index, cluster in enumerate(submission.clusters):
            part = head(index)
            part.procs.count = cluster.count
            part.procs.deltas = packed(cluster.deltas())
            bundle.clusters.append(part)
        if bundle.ByteSize() <= PIECE:

            def sent(again: bool) -> Any:
                bundle.again = again
                return bundle

            return _call(inv, parsed, "SubmitOne", sent)

    def parts(again: bool) -> Iterator[Any]:
        yield pb.SubmitPart(key=key, again=again)
        for index, cluster in enumerate(submission.clusters):
            yield pb.SubmitPart(open_cluster=head(index))
            for count, deltas in cluster.batches():
                yield pb.SubmitPart(more_procs=pb.ProcBatch(count=count, deltas=packed(deltas)))
        yield pb.SubmitPart(commit=True)

    return _call(inv, parsed, "Submit", parts)


def spool(inv: Invocation, parsed: Parsed, submission: Submission, reply: Any, owner: str) -> None:
    """Send the files of the jobs that were queued; with the last of them the jobs are released."""
    from slotwise.cli.jobs.spool import parts

    def jobs() -> Iterator[tuple[str, Any]]:
        for made, cluster in zip(submission.clusters, reply.clusters, strict=True):
            for proc in range(made.count):
                yield f"{cluster.cluster_id}.{cluster.first_proc + proc}", made.job(proc)

    _call(inv, parsed, "Spool", lambda again: parts(jobs(), owner))
