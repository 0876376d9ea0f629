"""``slotwise fetchlog``: a log of another machine's daemons (manual page of condor_fetchlog)."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from slotwise.cli.common import htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.common.terminal import as_it_is
from slotwise.errors import UsageError
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc
from slotwise.wire.status import to_error

_DAEMONS = ("master", "schedd", "startd", "collector", "negotiator")
_OPTIONS = [
    Option("help", 1),
    Option("pool", 1, 1),
    Option("debug", 1),
    *(Option(name, len(name)) for name in (*_DAEMONS, "kbdd", "view_collector")),
]
USAGE = """usage: slotwise fetchlog [options] HOST NAME[.EXTENSION]
  Writes a log of HOST's daemons to standard output. Needs ADMINISTRATOR there. HOST `-`: this machine.
  NAME is MASTER, COLLECTOR, NEGOTIATOR, NEGOTIATOR_MATCH, SCHEDD, STARTD, STARTER ..., SCHEDD_AUDIT ..., HISTORY or
  STARTD_HISTORY (with the older parts). An extension names a file beside the log: STARTD.old.
  -master (default), -schedd, -startd, -collector, -negotiator     which daemon is asked; not which log
  -pool HOST:PORT       of another pool"""


def main(args: list[str], inv: Invocation) -> int:
    """Fetch a log."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if len(parsed.words) != 2:
        if not inv.called:
            raise UsageError("which machine and which log?", hint="slotwise fetchlog HOST SCHEDD")
        if len(parsed.words) > 2:
            inv.err(f"Extra argument: {parsed.words[2]}\n")
        htcondor_words.usage(inv)
        return 1
    host, name = parsed.words
    if odd := next((word for word in ("kbdd", "view_collector") if parsed.has(word)), None):
        raise UsageError(f"there is no {odd} here", hint=f"one of {', '.join(_DAEMONS)}")
    daemon = next((given.name for given in reversed(parsed.options) if given.name in _DAEMONS), "master")
    aimed = inv.aimed(parsed.value("pool"), None if host == "-" else host)
    out = as_it_is(inv.stdout)
    try:
        for data in pieces(aimed, daemon, name):
            if inv.is_terminal:
                inv.stdout.write(data.decode(errors="replace"))
            elif (buffer := getattr(out, "buffer", None)) is not None:
                buffer.write(data)
            else:
                out.write(data.decode(errors="surrogateescape"))
    except grpc.RpcError as error:
        found = to_error(error, peer=f"the {daemon} of {host}")
        if not inv.called:
            raise found from None
        inv.err(f"Couldn't fetch log: {found.message}.")
        return 1
    return 0


def pieces(inv: Invocation, daemon: str, name: str, timeout_s: float | None = None) -> Iterator[bytes]:
    """The bytes of a log, as they come; all of them within ``timeout_s`` (None: as long as it takes).

    :raises grpc.RpcError: the daemon refuses, or does not answer.
    """
    stub = inv.stub(daemon_pb2_grpc.DaemonStub, daemon)
    for piece in stub.FetchLog(daemon_pb2.FetchLogRequest(name=name), timeout=timeout_s):
        yield piece.data
