"""``slotwise power``: wake a machine by a Wake-on-LAN packet (manual page of condor_power)."""

from __future__ import annotations

import grpc

from slotwise.classad import ClassAd, quote
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.render.ads import read_stream
from slotwise.errors import NotFoundError, SlotwiseError, UsageError
from slotwise.table import unpack_ads
from slotwise.wire import wake_on_lan
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.status import to_error

_OPTIONS = [
    *(Option(name, 1) for name in ("help", "debug", "i")),
    Option("m", 1, 1), Option("s", 1, 1), Option("p", 1, 1), Option("pool", 2, 1),
]  # fmt: skip
USAGE = """usage: slotwise power [-d] -m ADDRESS [-s MASK] [-p PORT]
       slotwise power [-d] -i [FILE]
       slotwise power [-d] [-pool HOST:PORT] MACHINE ...
       slotwise power report [-days N] [-plot FILE] [-json] [MACHINE ...]
       slotwise power what-if [-policy EXPR] [-level S3] [-file HISTORY]
  Send a Wake-on-LAN packet to a network card (-m 00:1a:2b:3c:4d:5e), to the machine of an ad on standard input or in a
  file (-i), or to machines of the pool, by the name of the machine or of one of its slots.
  -s MASK    subnet mask; without it the packet goes to 255.255.255.255
  -p PORT    UDP port (9)
  -d         say what is sent, and where"""


def main(args: list[str], inv: Invocation) -> int:
    """Send one packet for each machine, report, or replay the past."""
    if args and args[0] == "report":
        from slotwise.cli.pool import power_report

        return power_report.main(args[1:], inv)
    if args and args[0] == "what-if":
        from slotwise.cli.pool import power_what_if

        return power_what_if.main(args[1:], inv)
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    address = parsed.value("m")
    if address is not None:
        text = parsed.value("p") or str(wake_on_lan.PORT)
        if not text.isdigit():
            raise UsageError(f"{text!r} is not a port", hint="0 to 65535")
        packets = [wake_on_lan.packet(address, parsed.value("s") or "0.0.0.0", int(text))]
    elif parsed.has("i") or not parsed.words:
        ads = list(read_stream(parsed.words[0] if parsed.words else "-", inv))
        if not ads:
            raise UsageError("there is no ad", hint="give a machine's ad, as `slotwise status -long` prints it")
        packets = [wake_on_lan.for_ad(ads[0])]
    else:
        aimed = inv.aimed(parsed.value("pool"))
        packets = [wake_on_lan.for_ad(_slot_of(word, aimed)) for word in parsed.words]
    for packet in packets:
        if parsed.has("debug"):
            inv.err(f"to {packet.broadcast}:{packet.port}: {packet.payload.hex()}")
        try:
            wake_on_lan.send(packet)
        except OSError as error:
            raise SlotwiseError(
                f"cannot send to {packet.broadcast}:{packet.port}: {error.strerror}", hint="is there a way to it?"
            ) from None
        inv.err("Packet sent.")
    return 0


def _slot_of(name: str, inv: Invocation) -> ClassAd:
    """The ad of a slot, or of some slot of a machine."""
    query = common_pb2.AdQuery(kind="Machine", constraint=f"Name == {quote(name)} || Machine == {quote(name)}", limit=1)
    try:
        stub = inv.reading(collector_pb2_grpc.CollectorStub, "collector")
        found = [ad for chunk in stub.Query(query) if chunk.data for ad in unpack_ads(chunk.data)]
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None
    if not found:
        raise NotFoundError(
            f"the collector knows no machine {name!r}",
            hint="`slotwise status -power` lists those that sleep; COLLECTOR_PERSISTENT_AD_LOG keeps them",
        )
    return found[0]
