"""What a daemon's log says of the calls that it answers: who calls, from where, and what is refused.

The categories D_COMMAND and D_SECURITY tell of every call, at the cost of a line each. Commands that need the level
ADMINISTRATOR (reconfig, off, drain, changed priorities) are told in any case, and so are refusals, but of these only so
many of one caller in a while: who tries many tokens must not be able to fill the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ipaddress
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from urllib.parse import unquote

import grpc
from google.protobuf.message import Message

from slotwise.authorization.policy import Decision
from slotwise.backoff import Backoff
from slotwise.wire import audit
from slotwise.wire.context import Context, Request, StreamContext
from slotwise.wire.origin import origin_of
from slotwise.wire.token import Claims, Identity

#: Loggers of categories: see :mod:`slotwise.config.debug`.
_command = logging.getLogger("D_COMMAND")
_security = logging.getLogger("D_SECURITY")
_log = logging.getLogger(__name__)

#: Name of who makes the call that is being answered.
caller: ContextVar[str] = ContextVar("caller", default="an unauthenticated user")
#: The same with what the caller may do; None where nobody had to say who calls.
identity: ContextVar[Identity | None] = ContextVar("identity", default=None)
#: Who showed a valid token in a call that needs none; empty without one.
shown: ContextVar[str] = ContextVar("shown", default="")
#: What the lists of users and hosts say of that caller, level by level; empty where no list was asked.
decisions: ContextVar[Mapping[str, Decision]] = ContextVar("decisions", default=MappingProxyType({}))
#: The claims of the host token that came with the call's proof, with the ``kid`` that signed it; None without one.
host_token: ContextVar[Claims | None] = ContextVar("host_token", default=None)

#: Level of messages of a category that every log has: ``slotwise.observe.log.ALSO_ALWAYS``.
_ALSO_ALWAYS = logging.INFO + 5

#: How many refusals of one caller are told in a while, and how long that is, in seconds.
_TOLD, _WHILE_S = 10, 30.0
#: Callers that are told apart.
_CALLERS_MOST = 1000


def peer_of(context: Context) -> str:
    """The address that a call came from, as logs show it."""
    text = origin_of(context)
    kind, _, where = text.partition(":")
    if kind in ("ipv4", "ipv6"):
        return f"<{unquote(where)}>"
    return "a local socket" if kind == "unix" else "an unknown address"


def asked_by(context: Context, host: str) -> str:
    """Whom a request that needs no token counts to: the network of ``host``, where it comes from; on this host, which
    all accounts share, the user who showed a token with it."""
    return (shown.get() if is_local(context) else "") or network_of(host)


def is_local(context: Context) -> bool:
    """Whether a call comes from this host."""
    kind, _, where = origin_of(context).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return kind == "unix"
    try:
        return ipaddress.ip_address(unquote(where).rpartition(":")[0].strip("[]")).is_loopback
    except ValueError:
        return False


def method_name(method: str) -> str:
    """``Schedd/Act`` of ``/slotwise.v1.Schedd/Act``."""
    return method.rpartition("slotwise.v1.")[2].lstrip("/")


def host_of(peer: str) -> str:
    """The host of an address as :func:`peer_of` shows it."""
    return peer.strip("<>").rpartition(":")[0] or peer


def network_of(host: str) -> str:
    """Whom bounds and waits count as one: an IPv4 address, or the network of 64 bits of an IPv6 address, all of whose
    addresses one host may have; the loopback interface, all of whose addresses every account of this host has."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return "127.0.0.1"
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)


class RefusalLog:
    """Refusals by caller: the first ones of a while each with a line, the others counted."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._counts: dict[tuple[str, str], list[float]] = {}

    def note(self, who: str, peer: str, text: str, *args: object) -> None:
        """Log a refusal, or count it."""
        key = (who, network_of(host_of(peer)))
        if key not in self._counts and len(self._counts) >= _CALLERS_MOST:
            key = ("other callers", "other hosts")
        now = self._now()
        entry = self._counts.get(key)
        if entry is not None and now >= entry[0] + _WHILE_S:
            self._sum_up(key)
            entry = None
        if entry is None:
            entry = self._counts[key] = [now, 0]
            self._later(key)
        entry[1] += 1
        if entry[1] <= _TOLD:
            _log.info(text, *args)
            audit.refused(identity.get(), text, *args)

    def _later(self, key: tuple[str, str]) -> None:
        try:
            asyncio.get_running_loop().call_later(_WHILE_S, self._sum_up, key)
        except RuntimeError:
            return

    def _sum_up(self, key: tuple[str, str]) -> None:
        """The while is over: tell how many there were besides, and begin anew."""
        entry = self._counts.pop(key, None)
        if entry is not None and entry[1] > _TOLD:
            line = ("%d more calls of %s from %s were refused", entry[1] - _TOLD, *key)
            _log.info(*line)
            audit.refused(None, *line)


class RefusalDelays:
    """Makes those wait who show wrong tokens: the first few of an address are answered at once, the next ones later and
    later. Nobody whose token is good waits."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        #: Failures by host, and when the last one was.
        self._failures: dict[str, tuple[int, float]] = {}
        #: The longest wait, in seconds.
        self.most_s = _WAITS.most_s

    def failed(self, peer: str) -> float:
        """Count a failure of a caller at ``peer``; how long its answer has to wait, in seconds."""
        host = network_of(host_of(peer))
        count, last = self._failures.get(host, (0, 0.0))
        now = self._now()
        if now > last + _FORGOTTEN_S:
            count = 0
        if len(self._failures) >= _CALLERS_MOST and host not in self._failures:
            self._failures.clear()
        self._failures[host] = (count + 1, now)
        return min(self.most_s, _WAITS.delay_s(count - _FREE + 1)) if count >= _FREE else 0.0


#: Failures that cost nothing, and when failures are forgotten, in seconds.
_FREE, _FORGOTTEN_S = 10, 60.0
#: The waits after those.
_WAITS = Backoff(first_s=0.05, factor=2.0, most_s=2.0)

delays = RefusalDelays()
refusals = RefusalLog()


def refused(peer: str, method: str, reason: str, *, denied: bool) -> None:
    """Log that the present call from ``peer``, or a part of what it asks, is refused: with who made it and why."""
    who = caller.get()
    if denied:
        refusals.note(who, peer, "PERMISSION DENIED to %s from %s for %s: %s", who, peer, method, reason)
    else:
        refusals.note(who, peer, "refused %s of %s from %s: %s", method, who, peer, reason)


def kind_of(handler: grpc.RpcMethodHandler) -> str:
    """How a method's behaviour is called in its handler: ``unary_unary``, ``unary_stream``, ..."""
    return f"{'stream' if handler.request_streaming else 'unary'}_{'stream' if handler.response_streaming else 'unary'}"


def written(handler: grpc.RpcMethodHandler | None) -> grpc.RpcMethodHandler | None:
    """The handler, which writes its replies and yields none.

    What ends a call from outside (a token's end, new lists) raises where the call waits. A generator's replies are sent
    by gRPC, outside the generator: what is raised there would end the call without a status, and its caller would wait
    for ever.
    """
    if handler is None or not inspect.isasyncgenfunction(inner := getattr(handler, kind_of(handler))):
        return handler

    async def write(request: Request, context: StreamContext[Message, Message]) -> None:
        async with contextlib.aclosing(inner(request, context)) as replies:
            async for reply in replies:
                await context.write(reply)

    make = getattr(grpc, f"{kind_of(handler)}_rpc_method_handler")
    return make(write, handler.request_deserializer, handler.response_serializer)


async def as_stream(
    handler: grpc.RpcMethodHandler, requests: AsyncIterator[Message], context: Context
) -> AsyncIterator[Message]:
    """The replies of a handler of any kind to a stream of requests; one that takes a single message reads one."""
    inner = getattr(handler, kind_of(handler))
    request = requests if handler.request_streaming else await anext(aiter(requests), None)
    if request is None:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
    if inspect.isasyncgenfunction(inner):
        async for reply in inner(request, context):
            yield reply
        return
    reply = await inner(request, context)
    if not handler.response_streaming:
        yield reply


def traced(
    handler: grpc.RpcMethodHandler | None, method: str, scopes: Iterable[str], needed: str
) -> grpc.RpcMethodHandler | None:
    """The handler, made to log its calls as D_COMMAND and D_SECURITY want it; those of administrators in any case."""
    level = _ALSO_ALWAYS if "ADMINISTRATOR" in needed else logging.INFO
    wanted = _command.isEnabledFor(level) or _security.isEnabledFor(logging.INFO)
    if handler is None or not wanted:
        return handler
    kind = kind_of(handler)
    inner = getattr(handler, kind)
    name = method_name(method)

    def begin(context: Context) -> float:
        who, peer = caller.get(), peer_of(context)
        _security.info("authenticated %s from %s: levels %s", who, peer, " ".join(sorted(scopes)))
        _command.log(level, "received command %s from %s %s, access level %s", name, who, peer, needed)
        return time.monotonic()

    def end(context: Context, began: float) -> None:
        took_ms = (time.monotonic() - began) * 1000
        code = getattr(context, "code", None)
        status = _status(code() if callable(code) else None)
        _command.debug("return from %s of %s: %s in %.1f ms", name, caller.get(), status, took_ms)

    async def streaming(request: Request, context: Context) -> AsyncIterator[Message]:
        began = begin(context)
        try:
            async for reply in inner(request, context):
                yield reply
        finally:
            end(context, began)

    async def plain(request: Request, context: Context) -> Message:
        began = begin(context)
        try:
            return await inner(request, context)
        finally:
            end(context, began)

    behaviour = streaming if inspect.isasyncgenfunction(inner) else plain
    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return make(behaviour, handler.request_deserializer, handler.response_serializer)


def measured(handler: grpc.RpcMethodHandler | None, method: str) -> grpc.RpcMethodHandler | None:
    """The handler, made to count its calls, and to time those that are answered once."""
    from slotwise import metrics  # clients load this module, and count nothing
    from slotwise.run_times import answers_once, command, spent

    if handler is None:
        return None
    name = method_name(method)
    spent.calls += 1
    if handler.request_streaming or handler.response_streaming:
        metrics.RPC_STREAMS.labels(name).inc()
        if handler.request_streaming or not answers_once(name) or not inspect.isasyncgenfunction(handler.unary_stream):
            return handler
        pieces, took = handler.unary_stream, spent.of(command(name))

        async def streaming(request: Request, context: Context) -> AsyncIterator[Message]:
            """The pieces, and how long making them takes: not how long the caller takes to read them."""
            working, began = 0.0, time.monotonic()
            try:
                async for piece in pieces(request, context):
                    working += time.monotonic() - began
                    yield piece
                    began = time.monotonic()
                working += time.monotonic() - began
            finally:
                took.add(working)

        return grpc.unary_stream_rpc_method_handler(
            streaming, handler.request_deserializer, handler.response_serializer
        )
    inner, duration, of_calls = handler.unary_unary, metrics.RPC_DURATION.labels(name), spent.of(command(name))

    async def plain(request: Request, context: Context) -> Message:
        began = time.monotonic()
        try:
            return await inner(request, context)
        finally:
            gone = time.monotonic() - began
            duration.observe(gone)
            of_calls.add(gone)

    return grpc.unary_unary_rpc_method_handler(plain, handler.request_deserializer, handler.response_serializer)


def count_error(status: str) -> None:
    """Count a call that ends with an error."""
    from slotwise import metrics  # as above

    metrics.RPC_ERRORS.labels(status).inc()


def _status(code: object) -> str:
    return getattr(code, "name", None) or ("OK" if not code else str(code))
