"""Whose rights a request has: those of the token that it shows, or without one the right to read, where that is given.

The service itself may only read. Whoever wants more shows a token of the pool, in the header ``Authorization: Bearer``,
or signs in, which gives a cookie that stands for it. The token goes to the daemons with each call, and they decide what
it allows.
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.web.sessions import Sessions
from slotwise.web.settings import Readers
from slotwise.wire.credential import Credential, TokenCredential
from slotwise.wire.token import peek

COOKIE = "slotwise_session"
#: What a request that changes something sends besides its cookie: no other site can make a browser send it.
CHANGES_HEADER = "x-slotwise-request"
#: What is said to those who show no token.
SIGN_IN = "sign in, or send `Authorization: Bearer TOKEN`; `slotwise token fetch` gives you one"
_READING = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Access:
    """What daemons are shown for one request."""

    credential: Credential
    signed_in: bool
    #: Tells callers apart, for what each of them may have at a time, once a daemon has found the token good; empty
    #: without one.
    caller: str = ""


class Gate:
    """Decides who is answered. ``own``: the service's credential, which may read."""

    def __init__(self, own: Credential, readers: Readers, now: Callable[[], float] = time.monotonic) -> None:
        self._own = own
        self.readers = readers
        self.sessions = Sessions(now)

    def access(self, request: Request) -> Access:
        """What the request's calls show.

        :raises UnauthenticatedError: when it needs a token and has none.
        :raises DeniedError: when it may come from another site.
        """
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if token and kind.lower() == "bearer":
            return _of(token)
        if token := self.sessions.token(request.cookies.get(COOKIE, "")):
            if request.method not in _READING and CHANGES_HEADER not in request.headers:
                raise DeniedError(
                    "a change with a cookie alone may come from another site", hint=f"send the header {CHANGES_HEADER}"
                )
            return _of(token)
        if request.method not in _READING:
            raise UnauthenticatedError(
                "changes need a token",
                hint=SIGN_IN,
            )
        if self.readers == "all" or (self.readers == "loopback" and _is_local(request)):
            return Access(self._own, False)
        raise UnauthenticatedError(
            "reading needs a token here",
            hint="send `Authorization: Bearer TOKEN`; SLOTWISE_HTTP_READ_WITHOUT_TOKEN says who needs none",
        )


def _of(token: str) -> Access:
    """:raises UnauthenticatedError: when it is no token, and could not be sent on."""
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise UnauthenticatedError("that is not a token", hint="`slotwise token fetch` gives you one")
    return Access(TokenCredential(token), True, _whose(token))


def _whose(token: str) -> str:
    """Whose the token says it is, which nobody has verified yet; of one that does not say it, its digest."""
    try:
        found = peek(token)[1].get("sub")
    except UnauthenticatedError:
        found = None
    return found if isinstance(found, str) and found else hashlib.sha256(token.encode()).hexdigest()


def _is_local(request: Request) -> bool:
    """Whether the caller is on this machine, and asks for it by one of its own names: a name of another site that
    resolves to the loopback address must not let that site's pages read."""
    if request.client is None:
        return False
    name = request.url.hostname or ""
    try:
        named_here = name == "localhost" or ipaddress.ip_address(name).is_loopback
        return named_here and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
