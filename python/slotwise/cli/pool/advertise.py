"""``slotwise advertise COMMAND [FILE]``: send ads of any kind to the collector (manual page of condor_advertise)."""

from __future__ import annotations

import json
import re

import grpc
from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree, quote
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.cli.render.ads import read_stream
from slotwise.client.collector import advertise_requests, refusals
from slotwise.errors import SlotwiseError, UsageError
from slotwise.model.ad_kinds import COMMAND_WORDS, GENERIC
from slotwise.wire.gen import collector_pb2, collector_pb2_grpc
from slotwise.wire.status import to_error

#: Kinds of ads by the word in a command (UPDATE_STARTD_AD, INVALIDATE_MASTER_ADS); empty: as their MyType says.
_KINDS = {**COMMAND_WORDS, "AD_GENERIC": ""}
_OPTIONS = [
    *(Option(name, least) for name, least in (
        ("help", 1), ("tcp", 1), ("udp", 1), ("multiple", 1), ("with-ack", 1), ("debug", 1), ("version", 1),
        ("json", 1))),
    Option("pool", 1, 1),
]  # fmt: skip
USAGE = """usage: slotwise advertise [-pool HOST:PORT] [-multiple] [--json] COMMAND [FILE]
  COMMAND  UPDATE_STARTD_AD, UPDATE_SCHEDD_AD, UPDATE_MASTER_AD, UPDATE_AD_GENERIC, ...: the ads of FILE (or of standard
           input) go into the collector; they must have a Name, and stay for ClassAdLifetime or CLASSAD_LIFETIME seconds
           UPDATE_STARTD_AD_WITH_ACK: the same, of a machine that goes to sleep; its ad becomes offline, and is kept
           MERGE_STARTD_AD: its attributes go into the ad of this Name that is there
           INVALIDATE_STARTD_ADS, ...: those that match the Requirements (or have the Name) of the ad in FILE leave it
  -multiple      FILE has several ads, with blank lines between them; -tcp and -with-ack are always so
  --json         one object: how many ads were sent and why others were refused ("sent", "refused"), or how many left
                 the collector ("removed")"""


def main(args: list[str], inv: Invocation) -> int:
    """Send ads, or invalidate them: status 1 when the collector refuses one."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if inv.called and not args:
        inv.err("(stdin) is empty")
        return 1
    if not 1 <= len(parsed.words) <= 2:
        raise UsageError("name a command, and a file", hint="slotwise advertise UPDATE_AD_GENERIC my.ad")
    command = parsed.words[0].upper()
    found = re.fullmatch(r"(UPDATE|MERGE|INVALIDATE)_([A-Z_]+?)(_ADS?|(?<=GENERIC))(_WITH_ACK|_GENERIC)?", command)
    word = "AD_GENERIC" if command.endswith("GENERIC") else found.group(2) if found else ""
    if found is None or word not in _KINDS:
        raise UsageError(
            f"there is no command {parsed.words[0]!r}", hint=f"UPDATE_X_AD with X one of {', '.join(_KINDS)}"
        )
    ads = list(read_stream(parsed.words[1] if len(parsed.words) == 2 else "-", inv))
    if not ads or (len(ads) > 1 and not parsed.has("multiple")):
        raise UsageError(f"there are {len(ads)} ads", hint="give one, or -multiple")
    stub = inv.aimed(parsed.value("pool")).stub(collector_pb2_grpc.CollectorStub, "collector")
    try:
        if found.group(1) == "INVALIDATE":
            removed = _take_back(ads, _KINDS[word], stub)
            inv.out(json.dumps({"removed": removed}) if parsed.has("json") else f"{removed} ads left the collector.")
            return 0
        how = _How(merge=found.group(1) == "MERGE", goes_offline=found.group(4) == "_WITH_ACK" and word == "STARTD")
        refused = _send(ads, _KINDS[word], stub, how)
    except grpc.RpcError as error:
        raise to_error(error, peer="the collector") from None
    sent = len(ads) - len(refused)
    if parsed.has("json"):
        inv.out(json.dumps({"sent": sent, "refused": refused}))
    else:
        for why in refused:
            inv.err(f"ERROR: {why}")
        inv.out(f"Sent {sent} of {len(ads)} ad{'s' if len(ads) > 1 else ''} to the collector.")
    return 1 if refused else 0


class _How(Struct, frozen=True):
    """``merge``: add to the ad that is there; ``goes_offline``: the machine sleeps from now on."""

    merge: bool
    goes_offline: bool


def _send(ads: list[ClassAd], kind: str, stub: collector_pb2_grpc.CollectorStub, how: _How) -> list[str]:
    """Send ads; why the collector refuses those that it does."""
    requests = advertise_requests(ads, kind, merge=how.merge, goes_offline=how.goes_offline)
    return [why for reply in stub.Advertise(iter(requests)) for why in refusals(reply)]


def _take_back(ads: list[ClassAd], kind: str, stub: collector_pb2_grpc.CollectorStub) -> int:
    """Invalidate ads; how many left the collector."""
    removed = 0
    for ad in ads:
        target = ad.get("TargetType")
        request = collector_pb2.InvalidateRequest(kind=kind or (target if isinstance(target, str) else "") or GENERIC)
        if "Requirements" in ad:
            asked = ad["Requirements"]
            request.constraint = str(asked) if isinstance(asked, ExprTree) else quote(str(asked))
        elif isinstance(name := ad.eval("Name"), str):
            request.keys.append(name)
        else:
            raise SlotwiseError("the ad has neither Requirements nor a Name", hint="say which ads to remove")
        removed += stub.Invalidate(request, timeout=60).removed
    return removed
