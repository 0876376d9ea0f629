"""The calls of `slotwise submit` to the access point: reserve ids, queue jobs, spool their files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from slotwise.errors import HostError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.cli.common.options import Parsed
    from slotwise.config import Config
    from slotwise.submit import Submission
    from slotwise.wire.gen import schedd_pb2

_TIMEOUT_S, _PING_S = 600.0, 5.0
#: How long a schedd that went away is waited for, in seconds.
_PATIENCE_S = 20.0

Reply = TypeVar("Reply")


class ScheddCalls(Protocol):
    """The calls of the schedd that a submission makes."""

    def ReserveClusters(
        self, request: schedd_pb2.ReserveClustersRequest, *, timeout: float
    ) -> schedd_pb2.ReserveClustersReply:
        """Cluster ids for who submits."""
        ...

    def SubmitOne(self, request: schedd_pb2.SubmitBundle, *, timeout: float) -> schedd_pb2.SubmitReply:
        """A submission in one message."""
        ...

    def Submit(self, request: Iterable[schedd_pb2.SubmitPart], *, timeout: float) -> schedd_pb2.SubmitReply:
        """A submission in parts."""
        ...

    def Spool(self, request: Iterable[schedd_pb2.SpoolPart], *, timeout: float) -> schedd_pb2.ActReply:
        """Files of jobs that were submitted."""
        ...


def _call(inv: Invocation, parsed: Parsed, ask: Callable[[ScheddCalls, bool], Reply]) -> Reply:
    """Call the schedd; the second argument of ``ask`` says whether this is a retry.

    A schedd of this machine that goes away comes back while its master lives, and is waited for that long.
    """
    from slotwise.cli.common.late import told_late
    from slotwise.client.retry import RetryPolicy
    from slotwise.daemon.lock import holder

    patience = RetryPolicy(_PATIENCE_S)
    patience.reached = inv.pool is None and inv.daemon_name is None and holder(inv.home, "master") is not None
    with told_late(inv.stderr, "schedd"):
        return patience.call(lambda again: ask(_stub(inv, parsed), again))


def _stub(inv: Invocation, parsed: Parsed) -> ScheddCalls:
    from slotwise.wire.gen import schedd_pb2_grpc

    address = parsed.value("address")
    found: ScheddCalls = (inv if address is None else inv.at(address)).stub(schedd_pb2_grpc.ScheddStub, "schedd")
    return found


def capabilities(inv: Invocation, parsed: Parsed, config: Config) -> int:
    """The schedd's capabilities for submissions, and the submit commands that the configuration adds."""
    from slotwise import _native

    name, version = _greeting(inv, parsed.value("address"))
    if inv.called:
        inv.out(f"Schedd {name}\n Has Late Materialization enabled")
        if config.get_bool("USE_JOBSETS"):
            inv.out(" Has Jobsets enabled")
    else:
        inv.out(f"Schedd {name} ({version}) has these capabilities:")
        for what, how in (
            ("Universes", "vanilla, java, container, docker, vm, parallel, scheduler, local"),
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


def _greeting(inv: Invocation, address: str | None) -> tuple[str, str]:
    """Name and version of the schedd.

    :raises PeerUnavailableError: when it does not answer.
    """
    import grpc

    from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
    from slotwise.wire.status import to_error

    channel = inv.open(address.strip("<>")) if address else inv.channel("schedd")
    try:
        reply = daemon_pb2_grpc.DaemonStub(channel).Ping(daemon_pb2.PingRequest(), timeout=_PING_S)
    except grpc.RpcError as failure:
        raise to_error(failure, peer="schedd") from None
    return reply.name, reply.version


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
    return _call(inv, parsed, lambda stub, again: stub.ReserveClusters(asked, timeout=_TIMEOUT_S)).first


def send(inv: Invocation, parsed: Parsed, submission: Submission, first: int, *, spool: bool) -> schedd_pb2.SubmitReply:
    """One message when the submission is small, else a stream; all of it or nothing is queued, and nothing twice."""
    from slotwise.client import convert

    how = convert.Sending(os.urandom(16), first, spool=spool, client="slotwise submit")
    bundle = convert.small_bundle(submission, how)

    def attempt(stub: ScheddCalls, again: bool) -> schedd_pb2.SubmitReply:
        if bundle is None:
            return stub.Submit(convert.parts(submission, how, again), timeout=_TIMEOUT_S)
        bundle.again = again
        return stub.SubmitOne(bundle, timeout=_TIMEOUT_S)

    return _call(inv, parsed, attempt)


def spool(inv: Invocation, parsed: Parsed, submission: Submission, reply: schedd_pb2.SubmitReply) -> None:
    """Send the files of the jobs that were queued; with the last of them the jobs are released."""
    from slotwise.client.spool import parts, spooled_jobs

    firsts = [(cluster.cluster_id, cluster.first_proc) for cluster in reply.clusters]
    _call(inv, parsed, lambda stub, again: stub.Spool(parts(spooled_jobs(submission, firsts)), timeout=_TIMEOUT_S))
