"""``slotwise update-machine-ad``: add attributes to the ads of a machine's slots until its startd restarts."""

from __future__ import annotations

import grpc

from slotwise.classad import parse_ads
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, UnknownOptionError, parse
from slotwise.cli.pool.drain import startd_of
from slotwise.errors import HostError, UsageError
from slotwise.table import pack_ads
from slotwise.wire.gen import common_pb2
from slotwise.wire.status import to_error

USAGE = """usage: slotwise update-machine-ad [-name HOST] FILE
  Adds the attributes of the ad in FILE (- is standard input) to the ads of the machine's slots, until its startd
  restarts. Without -name: this machine's."""


def main(args: list[str], inv: Invocation) -> int:
    """Add attributes to slot ads."""
    try:
        parsed = parse(args, [Option("help", 1), Option("name", 1, 1), Option("pool", 1, 1)])
    except UnknownOptionError as error:
        if not inv.called:
            raise
        parsed = Parsed(words=[error.word])  # to HTCondor's tool it is the name of a file
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if inv.called and not parsed.words:
        parsed.words.append("-")
    if len(parsed.words) != 1:
        raise UsageError("name one file", hint=USAGE.splitlines()[0])
    name = parsed.words[0]
    try:
        text = inv.stdin.read() if name == "-" else inv.path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if inv.called and isinstance(error, OSError):
            inv.err(f"Failed to open '{name}', aborting ({error.errno}: {error.strerror})")
            return 1
        raise HostError(f"the file cannot be read: {error}", path=name) from None
    ads = list(parse_ads(text))
    if inv.called and not ads:
        inv.err(f"Failed to parse '{'stdin' if name == '-' else name}', aborting.\nFile was empty.")
        return 1
    if len(ads) != 1 or not ads[0]:
        raise UsageError(f"{name} has {len(ads)} ads, not one with attributes", hint="write one `Name = value` a line")
    aimed = inv.aimed(parsed.value("pool"))
    host = parsed.value("name") or "localhost"
    try:
        startd_of(host, aimed).UpdateMachineAd(common_pb2.AdBatch(pack=pack_ads(ads)))
    except grpc.RpcError as failure:
        raise to_error(failure, peer=f"the startd of {host}") from None
    inv.out(f"Added {', '.join(ads[0])} to the ads of {host}")
    return 0
