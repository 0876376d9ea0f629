"""The service that issues the pool's tokens: requests that administrators approve, revocation, renewal.

Requests that wait for approval are kept in memory, as in HTCondor's collector: a request that nobody approves within
an hour is forgotten, and so are all when the collector restarts. Source: manual, condor_token_request and its kin.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import re
from collections.abc import Callable, Collection, Sequence
from urllib.parse import unquote

from msgspec import Struct, field

from slotwise import ids
from slotwise.clock import Clock
from slotwise.collector import waiting_room
from slotwise.daemon.membership import HOST_TOKEN_S
from slotwise.errors import DeniedError, NotFoundError, UsageError
from slotwise.wire import call, keys, tls
from slotwise.wire.context import Context
from slotwise.wire.gen import common_pb2, token_pb2, token_pb2_grpc
from slotwise.wire.keys import PoolSecrets
from slotwise.wire.origin import origin_of
from slotwise.wire.status import answers_errors
from slotwise.wire.token import IMPLIED, LEVELS

_log = logging.getLogger(__name__)
#: The levels that a rule of auto-approval covers.
AUTO_LEVELS = frozenset({"ADVERTISE_MASTER", "ADVERTISE_STARTD", "ADVERTISE_SCHEDD"})
_IDENTITY = re.compile(r"[A-Za-z0-9._+\-/]{1,128}@[A-Za-z0-9._\-]{1,255}")
_TEXT = re.compile(r"[\x20-\x7e]{0,200}")


class Pending(Struct):
    """A request that waits for approval, or whose token waits to be collected."""

    request: token_pb2.TokenRequest
    request_id: str
    code: str
    peer: str
    asked_at: float
    token: str = ""
    #: When its token was asked for last; 0: not yet.
    polled_at: float = 0.0
    #: Whom it counts to (``call.asked_by``); empty: its address.
    asked_by: str = ""

    @property
    def network(self) -> str:
        """Where it came from, as bounds count it."""
        return self.asked_by or call.network_of(self.peer)

    @property
    def heard_at(self) -> float:
        """When the one who made it was heard of last."""
        return max(self.asked_at, self.polled_at)

    @property
    def is_decided(self) -> bool:
        """Whether it is approved."""
        return bool(self.token)

    def message(self) -> token_pb2.PendingToken:
        """The request as administrators see it."""
        asked = self.request
        return token_pb2.PendingToken(
            request_id=self.request_id,
            code=self.code,
            identity=asked.identity,
            scopes=list(asked.scopes),
            lifetime_s=asked.lifetime_s,
            client_id=asked.client_id,
            peer=self.peer,
            asked_at=int(self.asked_at),
            bound=bool(asked.public_key),
        )


class Rule(Struct, frozen=True):
    """Requests of daemons from ``network`` are approved until ``until`` (epoch seconds)."""

    network: ipaddress.IPv4Network | ipaddress.IPv6Network
    until: float

    def covers(self, asked: token_pb2.TokenRequest, peer: str, now: float) -> bool:
        """Whether it approves a request: one of a daemon, for no more than advertising."""
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        return (
            now < self.until
            and address in self.network
            and asked.identity.startswith("condor@")
            and bool(asked.public_key)
            and bool(asked.scopes)
            and AUTO_LEVELS.issuperset(asked.scopes)
        )


class Requests(Struct):
    """The requests that wait. No I/O: times, ids and the signer are arguments."""

    pending: dict[str, Pending] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)

    def expire(self, now: float) -> None:
        """Forget the requests that have waited too long."""
        for request_id in [name for name, each in self.pending.items() if each.asked_at + waiting_room.LASTS_S < now]:
            del self.pending[request_id]
        self.rules = [rule for rule in self.rules if now < rule.until]

    def add(self, asked: token_pb2.TokenRequest, request_id: str, peer: str, now: float, asked_by: str = "") -> Pending:
        """Add a request.

        :raises BusyError: too many wait, none of which makes room.
        :raises UsageError: it could not be approved.
        """
        self.expire(now)
        _check(asked)
        made = Pending(asked, request_id, code_of(request_id, asked), peer, now, asked_by=asked_by)
        if (displaced := waiting_room.making_room(self.pending, made.network, now)) is not None:
            del self.pending[displaced]
        self.pending[request_id] = made
        return made

    def find(self, request_id: str, now: float) -> Pending:
        """A request by its id.

        :raises NotFoundError: when there is none.
        """
        self.expire(now)
        found = self.pending.get(request_id)
        if found is None:
            raise NotFoundError(f"there is no request {request_id}", hint="it is forgotten after an hour")
        return found


def code_of(request_id: str, asked: token_pb2.TokenRequest) -> str:
    """A code that tells a request from all others, for people to compare: 8 letters and digits.

    It covers an id that the collector chooses once it has the rest, so that nobody can look for a request with the code
    of another.
    """
    parts = (request_id, asked.secret_digest, asked.public_key, asked.identity, ",".join(asked.scopes))
    digest = hashlib.sha256("\n".join(parts).encode()).digest()
    letters = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
    text = "".join(letters[byte % 32] for byte in digest[:8])
    return f"{text[:4]}-{text[4:]}"


def limit(asked: token_pb2.TokenRequest, limits: Sequence[str]) -> None:
    """Remove the levels that SEC_TOKEN_REQUEST_LIMITS lacks from a request; one that names no level gets all of those.

    :raises DeniedError: none is left.
    """
    if not limits:
        return
    left = [level for level in asked.scopes if level in limits] if asked.scopes else list(limits)
    if not left:
        raise DeniedError(
            f"all levels of the request ({' '.join(asked.scopes)}) were eliminated by SEC_TOKEN_REQUEST_LIMITS "
            f"({' '.join(limits)})",
            hint="an administrator makes such a token with `slotwise token create`",
        )
    del asked.scopes[:]
    asked.scopes.extend(left)


def _check(asked: token_pb2.TokenRequest) -> None:
    if not _IDENTITY.fullmatch(asked.identity):
        raise UsageError("the request names no identity user@domain")
    unknown = [scope for scope in asked.scopes if scope not in IMPLIED]
    if unknown:
        raise UsageError(f"there is no level {unknown[0]!r}", hint=f"one of {', '.join(LEVELS)}")
    if not _TEXT.fullmatch(asked.client_id):
        raise UsageError("the client's id is not a short text of plain characters")
    if not re.fullmatch("[0-9a-f]{64}", asked.secret_digest):
        raise UsageError("the request has no digest of a secret")
    if asked.lifetime_s < 0:
        raise UsageError("a lifetime is not negative")
    if asked.public_key:
        keys.public_key(asked.public_key)


class TokenServicer(token_pb2_grpc.TokensServicer):
    """Adapts calls to requests and keys."""

    def __init__(
        self,
        secrets: PoolSecrets,
        clock: Clock,
        revocation_expr: Callable[[], str],
        request_limits: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._secrets = secrets
        self._clock = clock
        self._revocation_expr = revocation_expr
        self._request_limits = request_limits
        self._requests = Requests()
        #: Raises DeniedError where a request names a host that another key belongs to; set by the collector.
        self.require_free: Callable[[str, str], None] = lambda identity, public_key: None
        #: The hosts whose daemons are in the pool, by name in lower case; set by the collector.
        self.hosts: Callable[[], Collection[str]] = tuple

    def forget_rules(self) -> None:
        """End all rules of auto-approval, as a reconfig does."""
        self._requests.rules.clear()

    def tell_hosts(self) -> None:
        """Write what all hosts trust, after a change of the configuration."""
        self._secrets.revoke_by(self._revocation_expr())

    @answers_errors
    async def Fetch(self, request: token_pb2.FetchTokenRequest, context: Context) -> token_pb2.TokenReply:
        """A token for the caller."""
        require_private(context)
        caller = call.identity.get()
        if caller is None or caller.method in ("FAMILY", "RUN") or call.host_token.get() is not None:
            raise DeniedError("only users fetch tokens for themselves")
        scopes = list(request.scopes) or sorted(caller.levels)
        more = [scope for scope in scopes if scope not in caller.levels]
        if more:
            raise DeniedError(f"{caller.name} may not do {more[0]}, and gets no token for it")
        now = self._clock.now()
        lifetime = _at_most(request.lifetime_s or None, caller.expires if caller.method != "FS" else None, now)
        made = self._secrets.mint(caller.name, scopes, now=now, lifetime_s=lifetime)
        _log.info("issued a token to %s: %s", caller.name, " ".join(scopes))
        return token_pb2.TokenReply(token=made)

    @answers_errors
    async def Request(self, request: token_pb2.TokenRequest, context: Context) -> token_pb2.TokenRequestReply:
        """Add a request for a token."""
        require_private(context)
        now, peer = self._clock.now(), peer_host(context)
        request_id = self._fresh_id()
        limit(request, self._request_limits())
        self.require_free(request.identity, request.public_key)
        made = self._requests.add(request, request_id, peer, now, call.asked_by(context, peer))
        _log.info("request %s (%s) for a token of %s from %s", request_id, made.code, request.identity, peer)
        self._approve_covered(self._requests.rules, [made], now)
        return token_pb2.TokenRequestReply(request_id=request_id, code=made.code)

    def _fresh_id(self) -> str:
        """The id of a request, which no other has that waits."""
        while (made := str(1_000_000 + int(ids.secret(64), 16) % 9_000_000)) in self._requests.pending:
            pass
        return made

    def _approve_covered(self, rules: Sequence[Rule], waiting: Sequence[Pending], now: float) -> list[Pending]:
        """Approve the requests that a rule covers. Every account in its network may ask, so that none gets the name of
        a host that is in the pool already: that waits for an administrator."""
        covered = [each for each in waiting if any(rule.covers(each.request, each.peer, now) for rule in rules)]
        there = self.hosts() if covered else ()
        approved = []
        for each in covered:
            host = each.request.identity.partition("@")[2].lower()
            try:
                if host in there:
                    raise DeniedError(f"a host that is called {host} is in the pool already")
                self._approve(each, "a rule of auto-approval")
            except DeniedError as error:
                _log.warning("no rule approves request %s from %s: %s", each.request_id, each.peer, error)
            else:
                approved.append(each)
        return approved

    def _approve(self, pending: Pending, by: str) -> None:
        """Make the token of a request.

        :raises DeniedError: its name has become another host's since it was asked for.
        """
        asked = pending.request
        self.require_free(asked.identity, asked.public_key)
        lifetime = float(asked.lifetime_s) or None
        if asked.public_key:
            lifetime = min(lifetime or HOST_TOKEN_S, HOST_TOKEN_S)
        scopes = list(asked.scopes) or ["READ", "WRITE"]
        now = self._clock.now()
        pending.token = self._secrets.mint(
            asked.identity, scopes, now=now, lifetime_s=lifetime, bound_to=asked.public_key
        )
        _log.info("request %s for %s approved by %s", pending.request_id, asked.identity, by)

    @answers_errors
    async def Collect(self, request: token_pb2.CollectTokenRequest, context: Context) -> token_pb2.TokenReply:
        """The token of an approved request, for the one who made it."""
        require_private(context)
        found = self._requests.find(request.request_id, self._clock.now())
        digest = hashlib.sha256(request.secret.encode()).hexdigest()
        if not hmac.compare_digest(digest, found.request.secret_digest):
            raise NotFoundError(f"there is no request {request.request_id}", hint="it is forgotten after an hour")
        if not found.token:
            found.polled_at = self._clock.now()
            return token_pb2.TokenReply()
        del self._requests.pending[request.request_id]
        return token_pb2.TokenReply(token=found.token, trust=self._secrets.trust().text())

    @answers_errors
    async def Requests(self, request: common_pb2.Empty, context: Context) -> token_pb2.TokenRequests:
        """The requests that wait for approval."""
        self._requests.expire(self._clock.now())
        undecided = (each for each in self._requests.pending.values() if not each.token)
        waiting = [each.message() for each in waiting_room.as_listed(undecided)]
        return token_pb2.TokenRequests(requests=waiting)

    @answers_errors
    async def Approve(self, request: token_pb2.ApproveTokenRequest, context: Context) -> token_pb2.TokenRequests:
        """Approve a request."""
        found = self._requests.find(request.request_id, self._clock.now())
        if not found.token:
            self._approve(found, call.caller.get())
        return token_pb2.TokenRequests(requests=[found.message()])

    @answers_errors
    async def AutoApprove(self, request: token_pb2.AutoApproveRule, context: Context) -> token_pb2.TokenRequests:
        """Approve requests of daemons from a network for a while, including those that wait already."""
        try:
            network = ipaddress.ip_network(request.netblock, strict=False)
        except ValueError as error:
            raise UsageError(f"{request.netblock!r} is not a network: {error}") from None
        if request.lifetime_s <= 0:
            raise UsageError("a rule needs a lifetime")
        now = self._clock.now()
        rule = Rule(network, now + request.lifetime_s)
        self._requests.rules.append(rule)
        _log.info("%s: requests from %s are approved for %d s", call.caller.get(), network, request.lifetime_s)
        waiting = [each for each in self._requests.pending.values() if not each.token]
        approved = self._approve_covered([rule], waiting, now)
        return token_pb2.TokenRequests(requests=[each.message() for each in approved])

    @answers_errors
    async def Revoke(self, request: token_pb2.RevokeTokenRequest, context: Context) -> common_pb2.Empty:
        """Revoke a token by its id."""
        if not re.fullmatch(r"[A-Za-z0-9._\-]{1,128}", request.token_id):
            raise UsageError(f"{request.token_id!r} is not a token's id", hint="`slotwise token list` shows ids")
        self._secrets.revoke(request.token_id, self._clock.now())
        _log.info("%s revoked the token %s", call.caller.get(), request.token_id)
        return common_pb2.Empty()

    @answers_errors
    async def Sync(self, request: common_pb2.Empty, context: Context) -> token_pb2.SyncReply:
        """What a host has to trust, and its token if that is due for renewal."""
        caller = call.identity.get()
        reply = token_pb2.SyncReply(trust=self._secrets.trust().text())
        granted = call.host_token.get()
        if caller is None or granted is None:
            return reply
        now = self._clock.now()
        issued, ends = float(granted.get("iat", now)), float(granted.get("exp", now))
        # Once another key signs, the former can be removed as soon as all hosts have asked again.
        if now > issued + (ends - issued) / 3 or granted.get("kid") != self._secrets.signer(now).kid:
            scopes = str(granted.get("scope", "")).split()
            bound_to = str(granted["cnf"]["jwk"]["x"])
            self.require_free(caller.name, bound_to)
            reply.token = self._secrets.mint(caller.name, scopes, now=now, lifetime_s=ends - issued, bound_to=bound_to)
            _log.info("renewed the token of %s", caller.name)
        return reply


def _at_most(asked: float | None, ends: float | None, now: float) -> float | None:
    """A lifetime that does not outlast the caller's own credentials."""
    limits = [limit for limit in (asked, None if ends is None else ends - now) if limit is not None]
    return min(limits, default=None)


def require_private(context: Context) -> None:
    """Check that nobody can read a token on its way to the caller.

    :raises DeniedError: the connection is neither encrypted nor a UNIX socket.
    """
    if not tls.carries_secrets(context):
        raise DeniedError("tokens are handed out over TLS and UNIX sockets only", hint="see the guide on several hosts")


def peer_host(context: Context) -> str:
    """The caller's address, without its port; ``127.0.0.1`` on a UNIX socket."""
    peer = origin_of(context)
    if peer.startswith("unix:"):
        return "127.0.0.1"
    return unquote(peer.partition(":")[2]).rpartition(":")[0].strip("[]")
