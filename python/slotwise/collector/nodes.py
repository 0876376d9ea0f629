"""The service by which hosts join the pool with its certificates, keep them fresh, and leave.

Whoever asks proves to have the keys: that of the certificate by the signature of the request, that for tokens by each
use of the token. So an answer is worth nothing to anybody else, and a host that asks again with the same keys gets it
again. See decision 20.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import re
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from slotwise import __version__, ids
from slotwise.clock import Clock
from slotwise.collector import waiting_room
from slotwise.collector.enrolment import Asked, Enrolments, Waiting, asked
from slotwise.collector.node_record import NodeRecord, NodeRow, name_taken
from slotwise.collector.tokens import peer_host, require_private
from slotwise.config import Config
from slotwise.daemon.membership import HOST_TOKEN_S
from slotwise.errors import DeniedError, NotFoundError, UsageError
from slotwise.model.pool_host import JOINING, ROLES, daemons_of_roles, host_name, roles_of
from slotwise.wire import audit, authority, call, keys
from slotwise.wire.authority import Authority
from slotwise.wire.context import Context
from slotwise.wire.gen import common_pb2, node_pb2, node_pb2_grpc
from slotwise.wire.keys import PoolSecrets
from slotwise.wire.status import answers_errors
from slotwise.wire.token import levels_of

_log = logging.getLogger(__name__)
#: The longest life of a join token, in seconds, and the most uses.
TOKEN_MOST_S, TOKEN_MOST_USES = 30 * 86400, 10_000


class Seen(Struct, frozen=True):
    """What a host's master advertises."""

    address: str
    version: str


class PoolView(Struct, frozen=True):
    """What the service sees and changes of the collector's ads."""

    #: Hosts whose master advertises, by name in lower case.
    masters: Callable[[], Mapping[str, Seen]]
    #: Hosts with a slot that drains or is drained.
    draining: Callable[[], Collection[str]]
    #: Drop all ads of a host.
    drop: Callable[[str], None]
    #: Look at once who is not trusted any more.
    refresh: Callable[[], object]


class NodeServicer(node_pb2_grpc.NodesServicer):
    """Adapts calls to the record of hosts, the authority and the keys of the pool.

    :param own: this host's name.
    :param signs: the pool's own authority; None: hosts have certificates of their site.
    """

    def __init__(
        self,
        record: NodeRecord,
        secrets: PoolSecrets,
        signs: Authority | None,
        own: str,
        clock: Clock,
        config: Callable[[], Config],
        view: PoolView,
    ) -> None:
        self._record = record
        self._secrets = secrets
        self._authority = signs
        self._own = own.lower()
        self._clock = clock
        self._config = config
        self._view = view
        self._enrolments = Enrolments()

    def admit_own_host(self, tls_key: str, certificate_ends_at: float) -> None:
        """Record the central manager itself; nobody else can have its name then."""
        running = {name.lower() for name in self._config().get_list("DAEMON_LIST")}
        roles = tuple(role for role, daemons in ROLES.items() if running.issuperset(daemons))
        public_key = keys.public_text(self._secrets.host_key().public)
        found = self._record.node(self._own)
        if found is not None and (found.public_key, found.roles, found.tls_key) == (public_key, roles, tls_key):
            return
        now = self._clock.now()
        if found is not None and not found.removed_at:
            self._record.remove(self._own, now)
        what = Asked(self._own, roles, public_key, tls_key, "", __version__)
        self._record.admit(what, address="127.0.0.1", by="installation", now=now)
        if certificate_ends_at:
            self._record.certified(self._own, tls_key, certificate_ends_at)

    def execution_points(self) -> list[str]:
        """The hosts that were admitted as execution points, and are not removed, by name."""
        return [row.name for row in self._record.nodes() if "ep" in row.roles and not row.removed_at]

    def require_free(self, identity: str, public_key: str) -> None:
        """See that nobody has, asks for or proves the name of an admitted host with another key: a token for the name
        may be older than the admission.

        :raises DeniedError: when it does.
        """
        user, _, host = identity.partition("@")
        if user == "condor" and self._record.held_by_other(host.lower(), public_key):
            raise name_taken(host.lower())

    # ---- asking

    @answers_errors
    async def Authority(self, request: common_pb2.Empty, context: Context) -> node_pb2.AuthorityReply:
        """Whose certificates are trusted."""
        return node_pb2.AuthorityReply(
            pool=self._secrets.trust().pool,
            name=self._own,
            authorities=self._bundle(),
            issues=self._authority is not None,
            version=__version__,
        )

    def _bundle(self) -> str:
        return "" if self._authority is None else self._authority.bundle(self._clock.now())

    @answers_errors
    async def Enroll(self, request: node_pb2.EnrollRequest, context: Context) -> node_pb2.EnrollReply:
        """Take a host's request; a join token admits it at once."""
        require_private(context)
        now, peer = self._clock.now(), peer_host(context)
        what = self._checked(request)
        made = Waiting(what, ids.secret(), peer, call.asked_by(context, peer), now, request.csr)
        known = self._record.node(what.name)
        again = known is not None and not known.removed_at and known.public_key == what.public_key
        if again and known is not None and known.tls_key == what.tls_key and known.roles == what.roles:
            made.granted = True  # it holds these keys already: its answer was lost
        elif request.join_token:
            self._use_token(request.join_token, what, peer, now)
            made.granted = True
        elif self._record.held_by_other(what.name, what.public_key):
            raise name_taken(what.name)
        self._enrolments.add(made)
        how = "by a join token" if request.join_token else "which waits for approval"
        about = (what.name, peer, "+".join(what.roles), made.code, how)
        _log.info("%s from %s asks for a place in the pool as %s, code %s, %s", *about)
        return node_pb2.EnrollReply(request_id=made.request_id, code=made.code)

    def _checked(self, request: node_pb2.EnrollRequest) -> Asked:
        if self._authority is None and request.csr:
            raise UsageError(
                "this pool has no authority of its own, and issues no certificates",
                hint="join with `--ca site --certificate FILE --key FILE --ca-file FILE`, as the site gives them",
            )
        if self._authority is not None and not request.csr:
            raise UsageError("this pool's hosts have certificates of its own authority", hint="join without --ca site")
        tls_key = authority.checked(request.csr).key_id if request.csr else ""
        keys.revocation_of(request.public_key)  # refuses what is no key
        what = asked(
            request.name, list(request.roles), request.public_key, tls_key, request.secret_digest, request.version
        )
        self._require_trusted(what)
        if self._authority is not None and not self._authority.permits(what.name, self._clock.now()):
            raise DeniedError(
                f"the pool's authority signs no certificate for {what.name}, which is of another domain",
                hint="`slotwise node authority --add --domain NAME` on the central manager makes one that does",
            )
        return what

    def _require_trusted(self, what: Asked) -> None:
        """See that the key of a host is not one of those that are revoked.

        :raises DeniedError: when it is.
        """
        if keys.revocation_of(what.public_key) in self._secrets.trust().revoked:
            raise DeniedError(
                f"the host {what.name} has been removed from the pool",
                hint="`slotwise node uninstall` there, and it may ask with a new key",
            )

    def _use_token(self, text: str, what: Asked, peer: str, now: float) -> None:
        token_id, _, secret = text.partition(".")
        if what.name in self._view.masters() and self._record.node(what.name) is None:
            raise DeniedError(
                f"a host that is called {what.name} is in the pool already",
                hint="an administrator approves this one: install it without a join token",
            )
        digest = hashlib.sha256(secret.encode()).hexdigest()
        self._record.use_token(token_id, digest, what, address=peer, now=now)
        _log.info("join token %s admits %s from %s", token_id, what.name, peer)

    @answers_errors
    async def Collect(self, request: node_pb2.CollectNodeRequest, context: Context) -> node_pb2.NodeGrant:
        """What a host was granted, for the one who asked."""
        require_private(context)
        now = self._clock.now()
        self._enrolments.expire(now)
        found = self._enrolments.waiting.get(request.request_id)
        digest = hashlib.sha256(request.secret.encode()).hexdigest()
        if found is None or not hmac.compare_digest(digest, found.what.secret_digest):
            raise NotFoundError("no host waits with this request", hint="it is forgotten after an hour")
        if found.denied:
            del self._enrolments.waiting[request.request_id]
            raise DeniedError("an administrator has denied the request")
        if not found.granted:
            found.polled_at = now
            return node_pb2.NodeGrant()
        grant = self._grant(found, now)
        del self._enrolments.waiting[request.request_id]
        return grant

    def _grant(self, found: Waiting, now: float) -> node_pb2.NodeGrant:
        what = found.what
        self._require_trusted(what)
        if self._record.held_by_other(what.name, what.public_key):
            raise name_taken(what.name)
        certificate = self._certificate(what.name, found.csr, now) if found.csr else ""
        token = self._secrets.mint(
            f"condor@{what.name}",
            levels_of(daemons_of_roles(what.roles)),
            now=now,
            lifetime_s=HOST_TOKEN_S,
            bound_to=what.public_key,
        )
        _log.info("%s has its place in the pool as %s", what.name, "+".join(what.roles))
        return node_pb2.NodeGrant(
            granted=True,
            certificate=certificate,
            authorities=self._bundle(),
            token=token,
            trust=self._secrets.trust().text(),
            uid_domain=self._config().get("UID_DOMAIN") or "",
        )

    def _certificate(self, name: str, csr: bytes, now: float) -> str:
        assert self._authority is not None
        request = authority.checked(csr)
        lifetime_s = self._config().get_float("SLOTWISE_HOST_CERTIFICATE_LIFETIME")
        made = self._authority.issue(request, name, now, lifetime_s)
        self._record.certified(name, request.key_id, authority.ends_at(made))
        return made

    # ---- deciding

    @answers_errors
    async def Requests(self, request: common_pb2.Empty, context: Context) -> node_pb2.NodeRequests:
        """The hosts that wait for a decision."""
        waiting = waiting_room.as_listed(self._enrolments.undecided(self._clock.now()))
        return node_pb2.NodeRequests(requests=[_request(each) for each in waiting])

    @answers_errors
    async def Approve(self, request: node_pb2.DecideNodeRequest, context: Context) -> node_pb2.NodeRequest:
        """Admit a host."""
        now = self._clock.now()
        found = self._enrolments.find(request.code, now)
        self._require_trusted(found.what)
        self._record.admit(found.what, address=found.peer, by=call.caller.get(), now=now)
        found.granted = True
        for other in self._enrolments.undecided(now):
            if other.what.name == found.what.name:
                other.denied = True
        _log.info("%s from %s admitted by %s", found.what.name, found.peer, call.caller.get())
        audit.note("%s from %s as %s", found.what.name, found.peer, "+".join(found.what.roles))
        return _request(found)

    @answers_errors
    async def Deny(self, request: node_pb2.DecideNodeRequest, context: Context) -> node_pb2.NodeRequest:
        """Refuse a host."""
        found = self._enrolments.find(request.code, self._clock.now())
        found.denied = True
        _log.info("%s from %s denied by %s", found.what.name, found.peer, call.caller.get())
        audit.note("%s from %s", found.what.name, found.peer)
        return _request(found)

    @answers_errors
    async def CreateToken(self, request: node_pb2.JoinTokenRequest, context: Context) -> node_pb2.JoinTokenReply:
        """Make a join token."""
        require_private(context)
        roles = roles_of(request.roles, JOINING)
        if not 1 <= request.uses <= TOKEN_MOST_USES:
            raise UsageError(f"a join token has 1 to {TOKEN_MOST_USES} uses, not {request.uses}")
        if not 1 <= request.lifetime_s <= TOKEN_MOST_S:
            raise UsageError(f"a join token holds for {TOKEN_MOST_S} s at most", hint="a shorter --lifetime")
        try:
            network = str(ipaddress.ip_network(request.network, strict=False)) if request.network else ""
        except ValueError as error:
            raise UsageError(f"{request.network[:100]!r} is not a network: {error}") from None
        token_id, secret = ids.secret(64), ids.secret(256)
        expires_at = int(self._clock.now()) + request.lifetime_s
        digest = hashlib.sha256(secret.encode()).hexdigest()
        self._record.add_token(token_id, digest, roles, request.uses, expires_at, network, call.caller.get())
        about = (token_id, request.uses, "+".join(roles))
        _log.info("%s made the join token %s for %d hosts as %s", call.caller.get(), *about)
        audit.note("join token %s for %d hosts as %s", *about)
        return node_pb2.JoinTokenReply(id=token_id, secret=secret, expires_at=expires_at)

    @answers_errors
    async def RevokeToken(self, request: node_pb2.RevokeJoinTokenRequest, context: Context) -> common_pb2.Empty:
        """End a join token."""
        if not re.fullmatch("[0-9a-f]{1,64}", request.id):
            raise UsageError("this is not the id of a join token")
        self._record.revoke_token(request.id)
        audit.note("join token %s", request.id)
        return common_pb2.Empty()

    # ---- hosts of the pool

    @answers_errors
    async def List(self, request: common_pb2.Empty, context: Context) -> node_pb2.NodeList:
        """All hosts that the pool has admitted."""
        masters, draining = self._view.masters(), self._view.draining()
        return node_pb2.NodeList(nodes=[_node(row, masters.get(row.name), draining) for row in self._record.nodes()])

    @answers_errors
    async def Remove(self, request: node_pb2.NodeName, context: Context) -> node_pb2.Node:
        """Revoke a host's identity."""
        name = host_name(request.name)
        if name == self._own:
            raise UsageError(f"{name} is the central manager itself", hint="`slotwise node uninstall` ends the pool")
        removed = self._remove(name)
        audit.note("%s", name)
        return _node(removed, None, ())

    @answers_errors
    async def Leave(self, request: common_pb2.Empty, context: Context) -> common_pb2.Empty:
        """Revoke the identity of the caller's own host."""
        if self._caller().name != self._own:
            self._remove(self._caller().name)
        return common_pb2.Empty()

    def _remove(self, name: str) -> NodeRow:
        now = self._clock.now()
        found = self._record.remove(name, now)
        self._secrets.revoke_host(name, found.public_key, now)
        self._view.refresh()
        self._view.drop(name)
        _log.info("%s was removed from the pool by %s", name, call.caller.get())
        return found

    def _caller(self) -> NodeRow:
        """The host that calls, with the key that it was admitted with.

        :raises DeniedError: when it is not such a host.
        """
        caller, granted = call.identity.get(), call.host_token.get()
        if caller is not None and granted is not None and caller.user == "condor":
            found = self._record.node(caller.domain.lower())
            if found is not None and not found.removed_at and found.public_key == granted["cnf"]["jwk"]["x"]:
                return found
        raise DeniedError("this is no host that the pool has admitted", hint="`slotwise node install` asks for a place")

    @answers_errors
    async def Renew(self, request: node_pb2.RenewRequest, context: Context) -> node_pb2.RenewReply:
        """A further certificate for the host that calls."""
        caller = self._caller()
        reply = node_pb2.RenewReply(authorities=self._bundle())
        if request.csr and self._authority is not None:
            reply.certificate = self._certificate(caller.name, request.csr, self._clock.now())
            _log.info("renewed the certificate of %s", caller.name)
        return reply


def _request(each: Waiting) -> node_pb2.NodeRequest:
    return node_pb2.NodeRequest(
        request_id=each.request_id,
        code=each.code,
        name=each.what.name,
        roles=list(each.what.roles),
        peer=each.peer,
        asked_at=int(each.asked_at),
        version=each.what.version,
        certificate=bool(each.csr),
    )


def _node(row: NodeRow, seen: Seen | None, draining: Collection[str]) -> node_pb2.Node:
    state = "absent" if seen is None else "draining" if row.name in draining else "up"
    return node_pb2.Node(
        name=row.name,
        roles=list(row.roles),
        address=seen.address if seen is not None else row.address,
        version=seen.version if seen is not None else row.version,
        joined_at=row.joined_at,
        by=row.by,
        certificate_ends_at=row.certificate_ends_at,
        state="removed" if row.removed_at else state,
        removed_at=row.removed_at,
    )
