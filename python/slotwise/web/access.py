"""Whose rights a request has: those of the token that it shows, or without one the right to read, where that is given.

The service itself may only read, and where it asks for an account of this machine it says for which: the daemons refuse
whom their lists refuse. Whoever wants more shows a token of the pool, in the header ``Authorization: Bearer``,
or signs in, which gives a cookie that stands for it. The token goes to the daemons with each call, and they decide what
it allows.
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Callable
from typing import cast

from msgspec import Struct
from starlette.requests import Request

from slotwise.errors import DeniedError, UnauthenticatedError
from slotwise.web.bounds import ANYBODY
from slotwise.web.sessions import Sessions
from slotwise.web.settings import Readers
from slotwise.wire import call
from slotwise.wire.credential import Credential, Metadata, TokenCredential
from slotwise.wire.gate import FOR_USER
from slotwise.wire.local_peer import account_at, account_over_loopback
from slotwise.wire.token import peek

COOKIE = "slotwise_session"
#: What a request that changes something sends besides its cookie: no other site can make a browser send it.
CHANGES_HEADER = "x-slotwise-request"
#: What is said to those who show no token.
SIGN_IN = "sign in, or send `Authorization: Bearer TOKEN`; `slotwise token fetch` gives you one"
_READING = frozenset({"GET", "HEAD"})


class Access(Struct, frozen=True):
    """What daemons are shown for one request."""

    credential: Credential
    signed_in: bool
    #: Tells callers apart, for what each of them may have at a time: a user, once a daemon has found the token good, or
    #: without one an ``<address>``; empty where nothing is known.
    caller: str = ""
    #: The token that the caller shows; empty without one.
    token: str = ""


class Gate:
    """Decides who is answered.

    :param own: the service's credential, which may read.
    :param name_of: the user that an account of this machine is, by its uid; None: it is nobody to this pool.
    """

    def __init__(
        self,
        own: Credential,
        readers: Readers,
        now: Callable[[], float] = time.monotonic,
        name_of: Callable[[int], str | None] = str,
    ) -> None:
        self._own = own
        self.readers = readers
        self._name_of = name_of
        self.sessions = Sessions(now)

    def access(self, request: Request) -> Access:
        """What the request's calls show.

        :raises UnauthenticatedError: when it needs a token and has none.
        :raises DeniedError: when it may come from another site.
        """
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if token and kind.lower() == "bearer":
            return _of(token)
        cookie = request.cookies.get(COOKIE, "")
        if cookie and (token := self.sessions.token(cookie, account_of(request))):
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
        if self.readers == "all":
            return Access(self._own, False, self._local_user(request) or _address_of(request))
        if self.readers == "loopback" and (user := self._local_user(request)):
            return Access(ForUser(self._own, user), False, user)
        raise UnauthenticatedError(
            "reading needs a token here",
            hint="send `Authorization: Bearer TOKEN`; SLOTWISE_HTTP_READ_WITHOUT_TOKEN says who needs none",
        )

    def _local_user(self, request: Request) -> str | None:
        """The user of this machine who asks without a token; None: it is not asked from here, or by nobody we know."""
        if not _is_local(request) or request.client is None:
            return None
        here = request.scope.get("server")
        uid = account_at((request.client.host, request.client.port), here) if here else None
        try:
            return None if uid is None else self._name_of(uid)
        except OSError:
            return None


class ForUser(Struct, frozen=True):
    """The service's credential when it asks for a user, who must be allowed to read as well."""

    own: Credential
    user: str

    def metadata(self, target: str) -> Metadata:
        """See :class:`Credential`."""
        # gRPC takes bytes for names that end with `-bin`.
        return cast("Metadata", (*self.own.metadata(target), (FOR_USER, self.user.encode())))


def _of(token: str) -> Access:
    """:raises UnauthenticatedError: when it is no token, and could not be sent on."""
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise UnauthenticatedError("that is not a token", hint="`slotwise token fetch` gives you one")
    return Access(TokenCredential(token), True, _whose(token), token)


def _whose(token: str) -> str:
    """Whose the token says it is, which nobody has verified yet; of one that does not say it, its digest."""
    try:
        found = peek(token)[1].get("sub")
    except UnauthenticatedError:
        found = None
    return found if isinstance(found, str) and found else hashlib.sha256(token.encode()).hexdigest()


def account_of(request: Request) -> int | None:
    """The account of this host that asks over the loopback interface; None: it is asked from elsewhere."""
    here = request.scope.get("server")
    if request.client is None or not here:
        return None
    return account_over_loopback((request.client.host, request.client.port), here)


def _address_of(request: Request) -> str:
    return f"<{call.network_of(request.client.host)}>" if request.client else ANYBODY


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
