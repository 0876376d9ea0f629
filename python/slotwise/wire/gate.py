"""What every authenticated call passes before a daemon's own code: the lists of users and hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NoReturn

import grpc
from google.protobuf.message import Message

from slotwise.authorization.authorizer import Authorizer
from slotwise.errors import DeniedError, PeerUnavailableError
from slotwise.wire import audit, call
from slotwise.wire.context import Context, Request
from slotwise.wire.known_peers import KnownPeers
from slotwise.wire.origin import broker_of, origin_of
from slotwise.wire.status import abort
from slotwise.wire.token import Identity

#: Metadata of a call: the user for whom a daemon of another host asks, who needs READ as well. It never gives anything.
FOR_USER = "slotwise-for-user-bin"


def _for_user(context: Context) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == FOR_USER:
            return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return ""


def guarded(
    handler: grpc.RpcMethodHandler | None,
    method: str,
    needed: Sequence[str],
    caller: Identity,
    authorizer: Authorizer,
    peers: KnownPeers,
) -> grpc.RpcMethodHandler | None:
    """The handler for a call of ``caller`` that needs one of the levels ``needed``: it refuses whom the lists refuse.
    Its replies are :func:`slotwise.wire.call.written`.

    Behind it :data:`slotwise.wire.call.identity` has the levels that the caller has by the lists, from where it calls.
    """
    if handler is None:
        return None
    kind = call.kind_of(handler)
    inner = getattr(handler, kind)

    name = call.method_name(method)
    # A stream of requests lasts; a stream of replies alone is the answer to one.
    stream = handler.request_streaming and handler.response_streaming

    async def admit(request: Request, context: Context) -> audit.Call | None:
        peers.proved(str(context.peer() or ""))
        grants = await authorizer.grants(caller, origin_of(context), broker_of(context))
        call.identity.set(grants.caller)
        call.decisions.set(grants.decisions)
        decision = grants.one_of(needed)
        error = None
        if not decision.allowed:
            error = DeniedError(f"{caller.name} may not call {name}, which needs {' or '.join(needed)}: {decision.by}")
        elif user := _for_user(context):
            asked_for = Identity(user, frozenset({"READ"}))
            theirs = (await authorizer.grants(asked_for, origin_of(context), broker_of(context))).one_of(["READ"])
            if not theirs.allowed:
                error = DeniedError(f"{user} may not call {name} by way of {caller.name}: {theirs.by}")
        if error is not None:
            call.refused(call.peer_of(context), name, error.message, denied=True)
            await abort(context, error)
        noted = audit.begin(name, call.peer_of(context), caller, decision, stream=stream)
        if noted is not None and stream:
            noted.write("opened")
        elif noted is not None and decision.level == "ADMINISTRATOR" and (told := audit.arguments(name, request)):
            audit.note(told)
        return noted

    async def ended(context: Context, error: DeniedError | PeerUnavailableError) -> NoReturn:
        """The lists have changed, and the stream ends."""
        call.refused(call.peer_of(context), name, error.message, denied=isinstance(error, DeniedError))
        await abort(context, error)

    def while_allowed(context: Context) -> contextlib.AbstractAsyncContextManager[None]:
        if not (handler.request_streaming or handler.response_streaming):
            return contextlib.nullcontext()
        return authorizer.while_allowed(caller, origin_of(context), needed, broker_of(context))

    async def plain(request: Request, context: Context) -> Message:
        noted = await admit(request, context)
        try:
            async with while_allowed(context):
                return await inner(request, context)
        except (DeniedError, PeerUnavailableError) as error:
            noted = None
            await ended(context, error)
        except grpc.aio.AbortError:  # refused, which has a line already
            noted = None
            raise
        finally:
            if noted is not None and not stream:
                noted.write()

    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return make(plain, handler.request_deserializer, handler.response_serializer)
