"""Whose rights a request has: those of the token that it shows, or without one the right to read, where that is given.

The service itself may only read. Whoever wants more shows a token of the pool, in the header ``Authorization: Bearer``,
or signs in, which gives a cookie that stands for it. The token goes to the daemons with each call, and they decide what
it allows.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.web.sessions import Sessions
from slotwise.web.settings import Readers
from slotwise.wire.credential import Credential, TokenCredential

COOKIE = "slotwise_session"
#: What a request that changes something sends besides its cookie: no other site can make a browser send it.
CHANGES_HEADER = "x-slotwise-request"
_READING = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Access:
    """What daemons are shown for one request."""

    credential: Credential
    signed_in: bool


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
            return Access(_shown(token), True)
        if token := self.sessions.token(request.cookies.get(COOKIE, "")):
            if request.method not in _READING and CHANGES_HEADER not in request.headers:
                raise DeniedError(
                    "a change with a cookie alone may come from another site", hint=f"send the header {CHANGES_HEADER}"
                )
            return Access(_shown(token), True)
        if request.method not in _READING:
            raise UnauthenticatedError(
                "changes need a token", hint="send `Authorization: Bearer TOKEN`; `slotwise token create` makes one"
            )
        if self.readers == "all" or (self.readers == "loopback" and _is_local(request)):
            return Access(self._own, False)
        raise UnauthenticatedError(
            "reading needs a token here",
            hint="send `Authorization: Bearer TOKEN`; SLOTWISE_HTTP_READ_WITHOUT_TOKEN says who needs none",
        )


def _shown(token: str) -> TokenCredential:
    """:raises UnauthenticatedError: when it is no token, and could not be sent on."""
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise UnauthenticatedError("that is not a token", hint="`slotwise token create` makes one")
    return TokenCredential(token)


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
