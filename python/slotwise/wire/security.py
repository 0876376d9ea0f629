"""The check in front of every call: a valid token with the scope that the method needs.

Without one only ``Daemon.Ping`` is answered. Tokens themselves are in :mod:`slotwise.wire.token`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc

from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.wire import call
from slotwise.wire.status import abort
from slotwise.wire.token import (
    SCOPES,
    Identity,
    find_token,
    mint,
    pool_key,
    verify,
    write_secret,
)

__all__ = [
    "METHOD_SCOPES",
    "OPEN_METHODS",
    "SCOPES",
    "Authenticator",
    "Identity",
    "TokenInterceptor",
    "find_token",
    "mint",
    "pool_key",
    "required_scope",
    "write_secret",
]

#: Methods that need no token at all.
OPEN_METHODS = frozenset({"/slotwise.v1.Daemon/Ping"})

#: The scope each method needs; a service name alone gives the default of its methods.
METHOD_SCOPES: dict[str, str] = {
    "slotwise.v1.Daemon": "ADMINISTRATOR",
    "slotwise.v1.Daemon/ConfigValues": "READ",
    "slotwise.v1.Master": "ADMINISTRATOR",
    "slotwise.v1.Master/Status": "READ",
    "slotwise.v1.Collector": "DAEMON",
    "slotwise.v1.Collector/Query": "READ",
    "slotwise.v1.Negotiator": "READ",
    "slotwise.v1.Negotiator/Reschedule": "WRITE",
    "slotwise.v1.Negotiator/EditAccounting": "ADMINISTRATOR",
    "slotwise.v1.Schedd": "WRITE",
    "slotwise.v1.Schedd/Query": "READ",
    "slotwise.v1.Schedd/History": "READ",
    "slotwise.v1.Schedd/ResourceRequests": "DAEMON",
    "slotwise.v1.Schedd/OfferMatches": "DAEMON",
    "slotwise.v1.Schedd/Shadow": "DAEMON",
    "slotwise.v1.Startd": "ADMINISTRATOR",
    "slotwise.v1.Startd/Claims": "DAEMON",
    "slotwise.v1.Startd/NoticeMatch": "DAEMON",
    "slotwise.v1.Startd/Query": "READ",
    "slotwise.v1.Starter": "DAEMON",
}


def required_scope(method: str) -> str:
    """The scope that a call of ``/package.Service/Method`` needs; unknown services need ADMINISTRATOR."""
    full = method.lstrip("/")
    return METHOD_SCOPES.get(full) or METHOD_SCOPES.get(full.partition("/")[0]) or "ADMINISTRATOR"


class Authenticator:
    """Checks tokens against the pool key, remembering those already checked."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._known: dict[str, Identity] = {}

    def identity(self, token: str) -> Identity:
        """Who ``token`` stands for.

        :raises UnauthenticatedError: when it is not valid, or no longer.
        """
        known = self._known.get(token)
        if known is not None:
            return known
        found, lasting = verify(self._key, token)
        if lasting:  # those that expire are checked each time
            if len(self._known) > 1000:
                self._known.clear()
            self._known[token] = found
        return found

    def from_metadata(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> Identity:
        """Who sent a call with this metadata.

        :raises UnauthenticatedError: without a token, or with one that is not valid.
        """
        for name, value in metadata or ():
            if name == "authorization":
                text = value.decode() if isinstance(value, bytes) else value
                return self.identity(text.removeprefix("Bearer "))
        raise UnauthenticatedError(
            "the call carries no token", hint="set SLOTWISE_TOKEN_FILE, or run as the owner of the pool"
        )

    def caller(self, context: Any) -> Identity:
        """Who makes the call that ``context`` belongs to (a servicer context behind :class:`TokenInterceptor`)."""
        return self.from_metadata(context.invocation_metadata())


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses every call whose token does not give the scope that the method needs."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """Let the call through, or answer it with the refusal."""
        if details.method in OPEN_METHODS:
            return await continuation(details)
        needed = required_scope(details.method)
        try:
            identity = self._authenticator.from_metadata(details.invocation_metadata)
            call.caller.set(identity.name)
            if not identity.may(needed):
                raise DeniedError(f"{identity.name} may not call {details.method}: it needs {needed}")
        except DeniedError as error:
            return _refusal(error, details.method)
        return call.traced(await continuation(details), details.method, identity.scopes, needed)


def _refusal(error: DeniedError, method: str) -> grpc.RpcMethodHandler:
    """A handler that answers with ``error`` alone.

    It is one of streams whatever the method takes: of these only what is asked for is read, so a refused call costs
    no memory for its messages.
    """

    async def refuse(_requests: Any, context: Any) -> Any:
        call.refused(call.peer_of(context), call.method_name(method), error.message, denied=True)
        await abort(context, error)
        yield None

    return grpc.stream_stream_rpc_method_handler(refuse)
