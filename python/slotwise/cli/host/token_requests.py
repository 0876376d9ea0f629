"""Tokens that the collector issues: fetched, requested and approved, revoked."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from slotwise.cli.common.parser import Parser
from slotwise.cli.host.token_options import add_place, add_scopes, lifetime_s, put, require_identity, scopes
from slotwise.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from slotwise.cli.common.invocation import Invocation
    from slotwise.wire.gen import token_pb2, token_pb2_grpc

Reply = TypeVar("Reply")

#: How long a request waits for its approval, in seconds, and how often it asks.
_PATIENCE_S, _ASK_S = 3600, 2.0
_CALL_S = 20.0


def _call(
    inv: Invocation, method: Callable[[token_pb2_grpc.TokensStub], Callable[..., Reply]], request: Message
) -> Reply:
    """Ask the collector, which issues tokens."""
    import grpc

    from slotwise.wire.gen import token_pb2_grpc
    from slotwise.wire.status import to_error

    try:
        return method(inv.stub(token_pb2_grpc.TokensStub, "collector"))(request, timeout=_CALL_S)
    except grpc.RpcError as failure:
        raise to_error(failure, peer="the collector") from None


def _add_pool(parser: Parser) -> None:
    parser.add_argument("--pool", "-pool", metavar="HOST:PORT", help="the collector of another pool")


def fetch(args: list[str], inv: Invocation) -> int:
    """Get a token for oneself."""
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token fetch", "A token for yourself, with no more than you may do here.")
    add_scopes(parser)
    add_place(parser)
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    lifetime = 0 if options.lifetime is None else lifetime_s(options.lifetime)
    request = token_pb2.FetchTokenRequest(scopes=scopes(options), lifetime_s=lifetime)
    return put(_call(inv.aimed(options.pool), lambda stub: stub.Fetch, request).token, options, inv)


def request(args: list[str], inv: Invocation) -> int:
    """Ask for a token, and wait until an administrator approves."""
    import hashlib
    import socket

    from slotwise import ids
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token request", "Ask for a token that an administrator approves, and wait for it.")
    parser.add_argument("--identity", "-identity", metavar="USER@DOMAIN", help="who will use the token")
    add_scopes(parser)
    add_place(parser)
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    require_identity(options.identity)
    aimed, secret = inv.aimed(options.pool), ids.secret(256)
    asked = token_pb2.TokenRequest(
        identity=options.identity,
        scopes=scopes(options),
        lifetime_s=0 if options.lifetime is None else lifetime_s(options.lifetime),
        client_id=f"{socket.gethostname()}-{os.getpid()}",
        secret_digest=hashlib.sha256(secret.encode()).hexdigest(),
    )
    reply = _call(aimed, lambda stub: stub.Request, asked)
    inv.err(f"Token request {reply.request_id} waits for approval; its code is {reply.code}.")
    inv.err(f"An administrator approves it with `slotwise token approve {reply.request_id}`.")
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        collect = token_pb2.CollectTokenRequest(request_id=reply.request_id, secret=secret)
        made = _call(aimed, lambda stub: stub.Collect, collect).token
        if made:
            return put(made, options, inv)
        time.sleep(_ASK_S)
    raise NotFoundError("the request was not approved within an hour")


def requests(args: list[str], inv: Invocation) -> int:
    """List requests that wait."""

    parser = Parser(inv, "token requests", "Requests for tokens that wait for approval.")
    parser.add_argument("--json", "-json", action="store_true", help="JSON for programs")
    parser.add_argument("--reqid", "-reqid", metavar="REQUEST", help="this one alone")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    waiting = list(_waiting(inv.aimed(options.pool)))
    if options.reqid is not None:
        waiting = [_named(options.reqid, waiting)]
    elif inv.called and not waiting:
        inv.err("Remote daemon reports no requests pending.")
    if options.json:
        inv.out(json.dumps([_fields(each) for each in waiting], indent=2))
        return 0
    for each in waiting:
        _print(each, inv)
    return 0


def _waiting(inv: Invocation) -> Iterable[token_pb2.PendingToken]:
    """The requests that wait for approval."""
    from slotwise.wire.gen import common_pb2

    found: token_pb2.TokenRequests = _call(inv, lambda stub: stub.Requests, common_pb2.Empty())
    return found.requests


def _fields(each: token_pb2.PendingToken) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "RequestId": each.request_id,
        "Code": each.code,
        "RequestedIdentity": each.identity,
        "PeerLocation": each.peer,
        "ClientId": each.client_id,
        "LimitAuthorization": ",".join(each.scopes),
    }
    if each.lifetime_s:
        found["RequestedLifetime"] = each.lifetime_s
    return found


def _print(each: token_pb2.PendingToken, inv: Invocation) -> None:
    for name, value in _fields(each).items():
        inv.out(f"{name} = {json.dumps(value)}")
    inv.out()


def approve(args: list[str], inv: Invocation) -> int:
    """Approve requests."""
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token approve", "Approve requests for tokens: the named ones, else each that you say yes to.")
    parser.add_argument("words", nargs="*", metavar="REQUEST|CODE")
    parser.add_argument("--reqid", "-reqid", metavar="REQUEST", help="as a word")
    parser.add_argument("--json", "-json", action="store_true", help="the approved ones as a JSON array")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    aimed = inv.aimed(options.pool)
    waiting = list(_waiting(aimed))
    named = [*options.words, *([options.reqid] if options.reqid else [])]
    if not named and inv.called and not waiting:
        inv.err("Remote daemon has no request to approve.")
        return 1
    if not named and options.json:
        raise UsageError("which requests?", hint="--json asks nothing: name requests or codes")
    if not named:
        named = [each.request_id for each in waiting if _agreed(each, inv)]
    done = []
    for word in named:
        found = _named(word, waiting)
        approved = token_pb2.ApproveTokenRequest(request_id=found.request_id)
        _call(aimed, lambda stub: stub.Approve, approved)
        done.append(found)
        if not options.json:
            _say_approved(found, inv)
    if options.json:
        inv.out(json.dumps([_fields(each) for each in done]))
    return 0


def _named(word: str, waiting: Iterable[token_pb2.PendingToken]) -> token_pb2.PendingToken:
    """The request with this id or code.

    :raises NotFoundError: when no single one has it.
    """
    found = [each for each in waiting if word in (each.request_id, each.code)]
    if len(found) != 1:
        raise NotFoundError(f"there is no request {word}", hint="`slotwise token requests` shows what waits")
    return found[0]


def _say_approved(each: token_pb2.PendingToken, inv: Invocation) -> None:
    inv.out(f"Request {each.request_id} of {each.identity} (code {each.code}) approved.")


def _agreed(each: token_pb2.PendingToken, inv: Invocation) -> bool:
    _print(each, inv)
    inv.out("To approve, please type 'yes'")
    return inv.stdin.readline().strip() == "yes"


def auto_approve(args: list[str], inv: Invocation) -> int:
    """Approve requests of hosts from a network for a while."""
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token auto-approve", "Approve requests of daemons of a network for a while.")
    parser.add_argument("--netblock", "-netblock", metavar="NETWORK", help="as 192.0.2.0/24")
    parser.add_argument("--lifetime", "-lifetime", metavar="TIME", help="how long the rule holds, as 600 or 1h")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    if inv.called and options.netblock is None:
        inv.err(f"{inv.called}: -netblock argument is required.\nExample: {inv.called} -netblock 192.168.0.0/24")
        return 1
    if inv.called and options.lifetime is None:
        options.lifetime = "1h"  # as HTCondor's tool
    if options.netblock is None or options.lifetime is None:
        raise UsageError("auto-approve needs -netblock and -lifetime", hint="-netblock 192.0.2.0/24 -lifetime 1h")
    rule = token_pb2.AutoApproveRule(netblock=options.netblock, lifetime_s=lifetime_s(options.lifetime))
    covered = _call(inv.aimed(options.pool), lambda stub: stub.AutoApprove, rule).requests
    if inv.called:
        hours = f"{rule.lifetime_s / 3600:.2f}"
        inv.out(
            f"Successfully installed auto-approval rule for netblock {options.netblock} with lifetime of {hours} hours"
        )
        if not covered:
            inv.err("Remote daemon reports no un-approved requests pending.")
    else:
        inv.out(
            f"Requests of daemons from {options.netblock} are approved for {rule.lifetime_s} s, or until a reconfig."
        )
    for each in covered:
        _say_approved(each, inv)
    return 0


def revoke(args: list[str], inv: Invocation) -> int:
    """Revoke tokens."""
    from slotwise.wire import token
    from slotwise.wire.gen import token_pb2

    parser = Parser(inv, "token revoke", "Revoke tokens by their ids, on all hosts within a minute.")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--file", "-file", metavar="FILE", help="the token in this file")
    _add_pool(parser)
    options = parser.take(args)
    if options is None:
        return 0
    named = list(options.ids)
    if options.file:
        named += [str(token.peek(text)[1]["jti"]) for text in inv.path(options.file).read_text().split()]
    if not named:
        raise UsageError("name a token's id, or its file with -file", hint="`slotwise token list` shows ids")
    for token_id in named:
        revoked = token_pb2.RevokeTokenRequest(token_id=token_id)
        _call(inv.aimed(options.pool), lambda stub: stub.Revoke, revoked)
        inv.out(f"Token {token_id} is revoked.")
    return 0
