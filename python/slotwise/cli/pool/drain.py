"""``slotwise drain`` and ``slotwise vacate``: empty machines, and vacate slots."""

from __future__ import annotations

import json
import re

import grpc

from slotwise.classad import quote
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.errors import NotFoundError, PeerUnavailableError, UsageError
from slotwise.table import unpack_ads
from slotwise.wire import address
from slotwise.wire.gen import collector_pb2_grpc, common_pb2, startd_pb2, startd_pb2_grpc
from slotwise.wire.status import to_error

_SLOT_ALONE = re.compile(r"slot\d+(_\d+)?", re.IGNORECASE)
_SCHEDULES = {"graceful": 0, "quick": 10, "fast": 20}
_COMPLETIONS = ("resume", "exit", "restart", "reconfig")

_DRAIN_OPTIONS = [
    Option("help", 1),
    Option("graceful", 1),
    Option("quick", 1),
    Option("fast", 1),
    Option("reason", 4, 1),
    *(Option(f"{action}-on-completion", 3) for action in _COMPLETIONS),
    Option("check", 2, 1),
    Option("start", 2, 1),
    Option("deadline", 2, 1),
    Option("cancel", 2),
    Option("request-id", 3, 1),
    Option("verbose", 1),
    Option("json", 1),
    Option("pool", 1, 1),
    Option("debug", 3),
]
_VACATE_OPTIONS = [
    *(Option(name, 1) for name in ("help", "debug", "graceful", "fast", "all")),
    Option("pool", 1, 1),
]

_DRAIN_USAGE = """usage: slotwise drain [options] HOST
       slotwise drain -cancel [-request-id ID] HOST
  -graceful           jobs may finish within their retirement time (default)
  -quick              jobs get their vacate time only
  -fast               jobs are killed
  -reason TEXT        shown in the machine's ad; your name if you give none
  -resume-on-completion | -exit-on-completion | -restart-on-completion | -reconfig-on-completion
  -check EXPR         must be true for every slot, else nothing happens
  -start EXPR         jobs for which it is true may start while the others retire (with -graceful)
  -deadline TIME      epoch seconds; DrainingDeadline in the ads, for the machine's policy to look at
  -request-id ID      with -cancel: only if this request drains the machine
  -verbose            also print the request's id
  --json              print the answer for programs"""
_VACATE_USAGE = """usage: slotwise vacate [-fast] [HOST | SLOT@HOST ...]
  Makes jobs leave: those of a machine (without a name: of this one), or of single slots.
  -graceful   retirement and vacate times are honoured (default)
  -fast       jobs are killed"""


def main(args: list[str], inv: Invocation) -> int:
    """Drain a machine, or cancel that."""
    parsed = parse(args, _DRAIN_OPTIONS)
    inv = inv.aimed(parsed.value("pool"))
    if parsed.has("help"):
        inv.out(_DRAIN_USAGE)
        return 0
    if inv.called and not parsed.words:
        inv.err("ERROR: must specify one target machine")
        return 2
    if len(parsed.words) != 1:
        inv.err("name one host" if not parsed.words else "name one host only")
        inv.err(_DRAIN_USAGE.splitlines()[0])
        return 1
    host = parsed.words[0]
    stub = startd_of(host, inv)
    try:
        if parsed.has("cancel"):
            request_id = parsed.value("request-id") or ""
            stub.CancelDrain(startd_pb2.CancelDrainRequest(request_id=request_id))
            _answer(inv, parsed, f"Sent request to cancel draining on {host}", {"Host": host, "Cancelled": True})
            return 0
        reply = stub.Drain(_request(parsed, inv))
    except grpc.RpcError as failure:
        raise to_error(failure, peer=f"the startd of {host}") from None
    answer = {"Host": host, "RequestId": reply.request_id}
    _answer(inv, parsed, f"Sent request to drain the startd on {host}", answer)
    if parsed.has("verbose") and not parsed.has("json"):
        inv.out(f"The request's id is {reply.request_id}")
    return 0


def vacate(args: list[str], inv: Invocation) -> int:
    """Vacate slots."""
    parsed = parse(args, _VACATE_OPTIONS)
    inv = inv.aimed(parsed.value("pool"))
    if parsed.has("help"):
        inv.out(_VACATE_USAGE)
        return 0
    fast = parsed.has("fast")
    for word in parsed.words or [""]:
        target, slot = _found(word, inv, alone=True)
        name = word or "of this host"
        try:
            request = startd_pb2.VacateRequest(slots=[slot] if slot else [], fast=fast)
            _stub(target, inv).Vacate(request)
        except grpc.RpcError as failure:
            raise to_error(failure, peer=f"the startd of {name}") from None
        what = "Vacate-Claim" if slot or not inv.called else "Vacate-All-Claims"
        if inv.called and not word:
            name = ""
        where = f"startd {name}" if name else "local startd"
        inv.out(f'Sent "{what}{"-Fast" if fast else ""}" command to {where}')
    return 0


def _request(parsed: Parsed, inv: Invocation) -> startd_pb2.DrainRequest:
    schedules = [name for name in _SCHEDULES if parsed.has(name)]
    completions = [action for action in _COMPLETIONS if parsed.has(f"{action}-on-completion")]
    if len(schedules) > 1 or len(completions) > 1:
        raise UsageError("the options exclude each other: " + ", ".join(schedules + completions))
    schedule = _SCHEDULES[schedules[0]] if schedules else 0
    if parsed.value("start") and schedule:
        raise UsageError("-start goes with -graceful only")
    return startd_pb2.DrainRequest(
        schedule=schedule,
        reason=parsed.value("reason") or inv.account or "by command",
        on_completion=completions[0] if completions else "nothing",
        check=parsed.value("check") or "",
        start=parsed.value("start") or "",
        deadline=_epoch(parsed.value("deadline") or "0"),
    )


def _epoch(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"-deadline {text}: not a time in epoch seconds", hint="`date -d TOMORROW +%s` prints one")
    return int(text)


def _answer(inv: Invocation, parsed: Parsed, text: str, answer: dict[str, object]) -> None:
    inv.out(json.dumps(answer) if parsed.has("json") else text)


def startd_of(host: str, inv: Invocation) -> startd_pb2_grpc.StartdStub:
    """The startd of ``host``, or of a slot's host.

    :raises NotFoundError: when the pool has no such machine.
    """
    return _stub(_found(host, inv)[0], inv)


def _stub(target: str, inv: Invocation) -> startd_pb2_grpc.StartdStub:
    return startd_pb2_grpc.StartdStub(inv.open(target))


def _found(host: str, inv: Invocation, *, alone: bool = False) -> tuple[str, str]:
    """The address of a startd from its ads, and the slot that is named, if one is (else "").

    ``host``: a machine, a startd, a slot with its host, or nothing: the startd of this host. With ``alone``, ``slot1``
    is one of this host's.
    """
    if not host:
        return address.lookup(inv.home, "startd").target, ""
    machine = quote(host)
    constraint = f"Machine =?= {machine} || Name =?= {machine} || splitSlotName(Name)[1] =?= {machine}"
    query = common_pb2.AdQuery(kind="Machine", constraint=constraint, projection=["Name", "MyAddress"], limit=1)
    try:
        stub = inv.reading(collector_pb2_grpc.CollectorStub, "collector")
        for chunk in stub.Query(query, timeout=20):
            for ad in unpack_ads(chunk.data) if chunk.data else []:
                return str(ad["MyAddress"]), host if str(ad.get("Name")).lower() == host.lower() else ""
    except (grpc.RpcError, PeerUnavailableError) as failure:
        if isinstance(failure, grpc.RpcError) and failure.code() is not grpc.StatusCode.UNAVAILABLE:
            raise to_error(failure, peer="the collector") from None
    if host == "localhost":
        return address.lookup(inv.home, "startd").target, ""
    if alone and _SLOT_ALONE.fullmatch(host):
        return address.lookup(inv.home, "startd").target, host
    raise NotFoundError(f"the pool has no machine or slot {host!r}", hint="`slotwise status` lists them")
