"""Who may do what: signed tokens, scopes, and the check in front of every call.

A pool has one signing key (``secrets/pool.key``, mode 0600). A token is a JWT signed with it (HS256) that names an
identity ``user@domain`` and scopes. Scopes follow the reference's authorization levels: ADMINISTRATOR includes all,
DAEMON includes WRITE and READ, WRITE includes READ. Without a valid token only ``Daemon.Ping`` is answered.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import jwt

from slotwise import ids
from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.home import PoolHome

_ALGORITHM = "HS256"
_INCLUDES = {
    "ADMINISTRATOR": {"ADMINISTRATOR", "DAEMON", "WRITE", "READ"},
    "DAEMON": {"DAEMON", "WRITE", "READ"},
    "WRITE": {"WRITE", "READ"},
    "READ": {"READ"},
}
SCOPES = tuple(_INCLUDES)

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
    "slotwise.v1.Startd/Query": "READ",
    "slotwise.v1.Starter": "DAEMON",
}


@dataclass(frozen=True)
class Identity:
    """An authenticated caller: ``name`` is ``user@domain``; ``scopes`` are expanded."""

    name: str
    scopes: frozenset[str]

    @property
    def user(self) -> str:
        """The part before the ``@``."""
        return self.name.partition("@")[0]

    def may(self, scope: str) -> bool:
        """Whether the caller has ``scope``."""
        return scope in self.scopes


def required_scope(method: str) -> str:
    """The scope that a call of ``/package.Service/Method`` needs; unknown services need ADMINISTRATOR."""
    full = method.lstrip("/")
    return METHOD_SCOPES.get(full) or METHOD_SCOPES.get(full.partition("/")[0]) or "ADMINISTRATOR"


def write_secret(path: Path, text: str) -> None:
    """Write a file only its owner can read (mode 0600 from its first moment), replacing one in a single step."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    partial.replace(path)


def pool_key(home: PoolHome, *, create: bool = False) -> str:
    """The pool's signing key.

    :raises DeniedError: when it is missing (and ``create`` is false) or may not be read.
    """
    path = home.secrets / "pool.key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        if not create:
            raise DeniedError(f"no pool key at {path}", hint="`slotwise up` makes one") from None
    except PermissionError:
        raise DeniedError(f"{path} may not be read by this user") from None
    write_secret(path, ids.secret(256) + "\n")
    return path.read_text().strip()


def mint(key: str, identity: str, scopes: Iterable[str], *, issued_at: int, lifetime_s: int | None = None) -> str:
    """A token for ``identity`` (``user@domain``) with ``scopes``; without a lifetime it does not expire."""
    wanted = sorted(set(scopes))
    unknown = [scope for scope in wanted if scope not in _INCLUDES]
    if unknown:
        raise DeniedError(f"unknown scope {unknown[0]}", hint=f"scopes are {', '.join(SCOPES)}")
    claims: dict[str, Any] = {"sub": identity, "scope": " ".join(wanted), "iat": issued_at}
    if lifetime_s is not None:
        claims["exp"] = issued_at + lifetime_s
    return jwt.encode(claims, key, algorithm=_ALGORITHM)


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
        try:
            claims = jwt.decode(
                token, self._key, algorithms=[_ALGORITHM], options={"verify_iat": False, "require": ["sub"]}
            )
        except jwt.PyJWTError as error:
            raise UnauthenticatedError(
                f"the token is not valid in this pool: {error}", hint="use the token file of this pool"
            ) from None
        scopes: set[str] = set()
        for scope in str(claims.get("scope", "")).split():
            scopes |= _INCLUDES.get(scope, set())
        found = Identity(str(claims["sub"]), frozenset(scopes))
        if "exp" not in claims:  # those that expire are checked each time
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
        try:
            identity = self._authenticator.from_metadata(details.invocation_metadata)
            needed = required_scope(details.method)
            if not identity.may(needed):
                raise DeniedError(f"{identity.name} may not call {details.method}: it needs {needed}")
        except DeniedError as error:
            return _refusal(error, await continuation(details))
        return await continuation(details)


def _refusal(error: DeniedError, handler: grpc.RpcMethodHandler | None) -> grpc.RpcMethodHandler:
    """A handler of the same call form that only answers with ``error``."""
    status = getattr(grpc.StatusCode, error.status)

    async def refuse(_request: Any, context: Any) -> None:
        await context.abort(status, str(error), (("slotwise-error", error.code),))

    async def refuse_stream(_request: Any, context: Any) -> Any:
        await context.abort(status, str(error), (("slotwise-error", error.code),))
        yield None

    request_streams = handler is not None and handler.request_streaming
    if handler is not None and handler.response_streaming:
        make = grpc.stream_stream_rpc_method_handler if request_streams else grpc.unary_stream_rpc_method_handler
        return make(refuse_stream)
    make = grpc.stream_unary_rpc_method_handler if request_streams else grpc.unary_unary_rpc_method_handler
    return make(refuse)


def find_token(home: PoolHome, env: Mapping[str, str]) -> str | None:
    """The token a client should show: ``SLOTWISE_TOKEN_FILE``, else the pool owner's, else none."""
    named = env.get("SLOTWISE_TOKEN_FILE")
    for path in [Path(named)] if named else [home.secrets / "token"]:
        try:
            return path.read_text().strip() or None
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            if named:
                raise DeniedError(f"the token file {path} cannot be read") from None
    return None
