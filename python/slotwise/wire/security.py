"""The check in front of every call: a valid token with a level that the method needs.

Without one only ``Daemon.Ping`` is answered, and requests for a token. Tokens themselves are in
:mod:`slotwise.wire.token`, who signs them in :mod:`slotwise.wire.keys`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import NoReturn

import grpc
import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import Message

from slotwise.authorization.authorizer import Authorizer
from slotwise.authorization.parts import PARTS_OF_NEGOTIATOR
from slotwise.authorization.policy import LISTED_METHODS
from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import BusyError, DeniedError, PeerUnavailableError, UnauthenticatedError
from slotwise.wire import call, certificates, keys
from slotwise.wire.connections import CallBounds
from slotwise.wire.context import Context, Request
from slotwise.wire.credential import HOST_TOKEN, PROOF
from slotwise.wire.gate import guarded
from slotwise.wire.issuers import Issuers
from slotwise.wire.keys import ALGORITHM, RUN, STARTER, PoolTrust, SigningKey
from slotwise.wire.known_peers import KnownPeers
from slotwise.wire.map_file import UserMap
from slotwise.wire.status import abort
from slotwise.wire.token import DAEMON_LEVELS, LEVELS, Claims, Identity, with_implied, write_secret

__all__ = [
    "ADVERTISE_LEVELS",
    "DAEMON_LEVELS",
    "LEVELS",
    "METHOD_SCOPES",
    "OPEN_METHODS",
    "Authenticator",
    "Identity",
    "TokenInterceptor",
    "require_kind",
    "required_levels",
    "write_secret",
]

_log = logging.getLogger(__name__)
#: How often a daemon looks whether keys or revocations have changed, and ends streams of tokens that do not hold any
#: more, in seconds.
WATCH_S = 5.0
#: Tokens, and logins, remembered at most.
_REMEMBERED = 2000
_NO_TOKEN = "the call carries no token"
_HOW_TO_GET_ONE = "on the daemon's own host none is needed; elsewhere `slotwise token request` gets one"

#: Methods that need no token at all.
OPEN_METHODS = frozenset(
    f"/slotwise.v1.{name}"
    for name in (
        "Daemon/Ping", "Tokens/Request", "Tokens/Collect", "Nodes/Authority", "Nodes/Enroll", "Nodes/Collect"
    )
)  # fmt: skip

#: Those of them that take a place among those who wait for an administrator.
_ASKING = frozenset({"/slotwise.v1.Tokens/Request", "/slotwise.v1.Nodes/Enroll"})

#: What glide-ins may do, and nothing else.
_ADVERTISING = frozenset({"ADVERTISE_STARTD", "ADVERTISE_MASTER"})
_NEGOTIATORS_SIDE = ("NEGOTIATOR", *PARTS_OF_NEGOTIATOR)

#: The levels that each method needs, one of which suffices; a service name alone gives those of its other methods.
METHOD_SCOPES: dict[str, tuple[str, ...]] = {
    "slotwise.v1.Daemon": ("ADMINISTRATOR",),
    "slotwise.v1.Daemon/ConfigValues": ("READ",),
    "slotwise.v1.Daemon/Metrics": ("READ",),
    "slotwise.v1.Daemon/Statistics": ("READ",),
    # Of whatever level: SETTABLE_ATTRS_<LEVEL> says who may set what.
    "slotwise.v1.Daemon/SetConfig": ("CONFIG", "ADMINISTRATOR", *(level for level in LEVELS if level != "ALLOW")),
    "slotwise.v1.Master": ("ADMINISTRATOR",),
    "slotwise.v1.Master/Status": ("READ",),
    "slotwise.v1.Collector": ("DAEMON",),
    # Each kind of ad needs a level of its own: see ADVERTISE_LEVELS.
    "slotwise.v1.Collector/Advertise": ("ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "ADVERTISE_MASTER", *_NEGOTIATORS_SIDE),
    "slotwise.v1.Collector/Invalidate": (
        "ADVERTISE_STARTD",
        "ADVERTISE_SCHEDD",
        "ADVERTISE_MASTER",
        *_NEGOTIATORS_SIDE,
    ),
    # Members of the pool may look for each other: a schedd asks where the negotiator is.
    "slotwise.v1.Collector/Query": ("READ", "ADVERTISE_SCHEDD", "ADVERTISE_STARTD", "ADVERTISE_MASTER"),
    "slotwise.v1.Collector/Subscribe": ("NEGOTIATOR",),
    "slotwise.v1.Collector/Sleeps": ("READ",),
    "slotwise.v1.Negotiator": ("READ",),
    # A host's master asks for users of the host, who have READ by the lists of both.
    "slotwise.v1.Negotiator/Accounting": ("READ", "ADVERTISE_MASTER"),
    "slotwise.v1.Negotiator/Analyze": ("READ", "ADVERTISE_MASTER"),
    "slotwise.v1.Negotiator/LastCycle": ("READ", "ADVERTISE_MASTER"),
    "slotwise.v1.Negotiator/Reschedule": ("WRITE", "ADVERTISE_SCHEDD"),
    "slotwise.v1.Negotiator/EditAccounting": ("ADMINISTRATOR",),
    "slotwise.v1.Schedd": ("WRITE",),
    "slotwise.v1.Schedd/Query": ("READ",),
    "slotwise.v1.Schedd/History": ("READ",),
    "slotwise.v1.Schedd/Users": ("READ",),
    "slotwise.v1.Schedd/RunNow": ("WRITE",),
    "slotwise.v1.Schedd/ShowDag": ("WRITE",),
    "slotwise.v1.Schedd/StoreCredential": ("WRITE",),
    "slotwise.v1.Schedd/QueryCredentials": ("WRITE",),
    "slotwise.v1.Schedd/DeleteCredential": ("WRITE",),
    "slotwise.v1.Schedd/FetchCredential": ("WRITE",),
    "slotwise.v1.Schedd/CheckCredentials": ("WRITE",),
    "slotwise.v1.Schedd/EditUsers": ("ADMINISTRATOR",),
    "slotwise.v1.Schedd/ResourceRequests": ("NEGOTIATOR",),
    "slotwise.v1.Schedd/OfferMatches": ("NEGOTIATOR",),
    # With the run's own token, which only this schedd signs and accepts.
    "slotwise.v1.Schedd/Shadow": (RUN,),
    "slotwise.v1.Startd": ("ADMINISTRATOR",),
    # Whoever has a claim's id may use it; which access point that is does not matter.
    "slotwise.v1.Startd/Claims": ("ADVERTISE_SCHEDD",),
    "slotwise.v1.Startd/NoticeMatch": ("NEGOTIATOR",),
    "slotwise.v1.Startd/Drain": ("ADMINISTRATOR", "DRAIN"),
    "slotwise.v1.Startd/CancelDrain": ("ADMINISTRATOR", "DRAIN"),
    "slotwise.v1.Startd/Query": ("READ",),
    # Whoever may advertise a daemon may make it reachable.
    "slotwise.v1.Broker": ("ADVERTISE_STARTD", "ADVERTISE_SCHEDD", "ADVERTISE_MASTER"),
    "slotwise.v1.Tokens": ("ADMINISTRATOR",),
    "slotwise.v1.Tokens/Fetch": ("READ",),
    "slotwise.v1.Tokens/Sync": ("ADVERTISE_MASTER",),
    "slotwise.v1.Nodes": ("ADMINISTRATOR",),
    "slotwise.v1.Nodes/List": ("READ",),
    # A host of its own certificate and place.
    "slotwise.v1.Nodes/Renew": ("ADVERTISE_MASTER",),
    "slotwise.v1.Nodes/Leave": ("ADVERTISE_MASTER",),
    # With what only the startd of the same home can show.
    "slotwise.v1.Starter": (STARTER,),
}

#: The levels that ads of a kind need to be advertised or invalidated, one of which suffices; other kinds need DAEMON.
ADVERTISE_LEVELS: dict[str, tuple[str, ...]] = {
    # Negotiator and rooster note matches and calls of machines that sleep in their ads.
    "machine": ("ADVERTISE_STARTD", "WAKEUP"),
    "startdaemon": ("ADVERTISE_STARTD",),
    "scheduler": ("ADVERTISE_SCHEDD",),
    "submitter": ("ADVERTISE_SCHEDD",),
    "daemonmaster": ("ADVERTISE_MASTER",),
    "negotiator": ("NEGOTIATOR",),
    "accounting": ("NEGOTIATOR",),
    "defrag": ("DRAIN",),
}


def required_levels(method: str) -> tuple[str, ...]:
    """The levels of which a call of ``/package.Service/Method`` needs one; unknown services need ADMINISTRATOR."""
    full = method.lstrip("/")
    return METHOD_SCOPES.get(full) or METHOD_SCOPES.get(full.partition("/")[0]) or ("ADMINISTRATOR",)


def require_kind(caller: Identity, kind: str) -> None:
    """See that ``caller`` may advertise or invalidate ads of ``kind``.

    :raises DeniedError: when that kind needs another level.
    """
    needed = ADVERTISE_LEVELS.get(kind.lower(), ("DAEMON",))
    if not caller.may(*needed):
        raise DeniedError(f"{caller.name} may not advertise ads of kind {kind}: that needs {' or '.join(needed)}")


#: What a caller shows: a token, or the certificate (PEM) that its connection was made with.
Proof = str | bytes


class Authenticator:
    """Says who calls, by the token that a call carries; without one, by the certificate of its connection.

    Four kinds of tokens are known, by the key that signed them: those of the pool; proofs of a host (see
    :mod:`slotwise.wire.credential`), of which those of this daemon's own host speak for its family of daemons; those
    that this daemon hands to local accounts; and, at a schedd, those of its runs and its users.

    :param trust: what the pool's hosts trust, asked for from time to time.
    :param family: the public key of this daemon's own host.
    :param audiences: the addresses of this daemon, for which proofs are made.
    """

    def __init__(
        self,
        trust: Callable[[], PoolTrust],
        *,
        family: Ed25519PublicKey | None = None,
        audiences: Iterable[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._ask_trust = trust
        self._now = now
        self._family = {} if family is None else {keys.key_id(family): family}
        self.audiences = {audience.lower() for audience in audiences}
        #: Signs what only this daemon accepts.
        self.own = SigningKey.generate()
        self._own_keys: dict[str, tuple[Ed25519PublicKey, str]] = {self.own.kid: (self.own.public, "FS")}
        self._trust = trust()
        self._looked_at = time.monotonic()
        #: SEC_TOKEN_REVOCATION_EXPR of this daemon's own configuration.
        self.revocation_expr = ""
        #: SEC_TOKEN_MAX_AGE, in seconds; None: people's tokens hold as long as they say.
        self.max_age_s: float | None = None
        #: How many calls of one user may be under way (SLOTWISE_MAX_CALLS_PER_USER); 0: any number.
        self.calls_of_user = 0
        #: The connections on which valid tokens were shown.
        self.peers = KnownPeers()
        #: Issuers outside the pool whose tokens count, if any do.
        self.issuers: Issuers | None = None
        #: Whom certificates stand for; None: for nobody, and gRPC asks for none.
        self.users: UserMap | None = None
        self._known: dict[Proof, Identity] = {}
        self._host_tokens: dict[str, Claims] = {}
        self._open: dict[asyncio.Timeout, tuple[Proof, str]] = {}
        self._logins: dict[int, tuple[str, float]] = {}

    # ---- keys

    @property
    def trust(self) -> PoolTrust:
        """What is trusted now."""
        return self._trust

    def accept(self, key: SigningKey, method: str) -> None:
        """Believe tokens signed with ``key`` too, at this daemon alone; ``method``: how that is called."""
        self._own_keys[key.kid] = (key.public, method)

    def refresh(self) -> bool:
        """Ask what is trusted now; when that has changed, streams of those who are not trusted any more end.

        :return: whether it has changed.
        """
        self._looked_at = time.monotonic()
        try:
            fresh = self._ask_trust()
        except DeniedError as error:
            _log.error("%s", error)
            return False
        if fresh is self._trust:
            return False
        self._trust = fresh
        self.forget()
        return True

    def forget(self) -> None:
        """Look at every token anew, and end the streams of those that do not hold any more."""
        self._known.clear()
        self._host_tokens.clear()
        self._logins.clear()
        self.end_streams()

    def end_streams(self) -> None:
        """End the streams whose tokens or certificates do not hold any more, or are somebody else's by now."""
        for timeout, (proof, name) in list(self._open.items()):
            try:
                if self.identity(proof).name == name:
                    continue
            except DeniedError:
                pass
            timeout.reschedule(asyncio.get_running_loop().time())

    async def watch(self) -> None:
        """Look again for ever."""
        while True:
            await asyncio.sleep(WATCH_S)
            self.refresh()

    # ---- tokens

    def identity(self, proof: Proof) -> Identity:
        """Who a token or a certificate stands for.

        :raises UnauthenticatedError: when it is not valid, or no longer.
        """
        known = self._known.get(proof)
        if known is not None and (known.expires is None or self._now() < known.expires):
            return known
        self._known.pop(proof, None)
        if isinstance(proof, bytes):
            found = self._of_certificate(proof)
        else:
            self._host_tokens.pop(proof, None)
            try:
                found = self._verified(proof)
            except UnauthenticatedError:
                # A host that has joined just now, or a key that was added: others know of it before this daemon looks.
                if not self.refresh():
                    raise
                found = self._verified(proof)
        if len(self._known) > _REMEMBERED:
            self._known.clear()
            self._host_tokens.clear()
        self._known[proof] = found
        return found

    def _of_certificate(self, certificate: bytes) -> Identity:
        if self.users is None:
            raise UnauthenticatedError(_NO_TOKEN, hint=_HOW_TO_GET_ONE)
        return certificates.identity(certificate, self.users, self._now())

    def _verified(self, token: str) -> Identity:
        try:
            return self._of_token(token)
        except RecursionError:  # of the JSON parser: anybody may send what is nested deeply
            raise _invalid("it is nested too deeply") from None

    def _of_token(self, token: str) -> Identity:
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise _invalid(str(error)) from None
        if header.get("alg") == "HS256":
            raise UnauthenticatedError(
                "the token is of the old kind, signed with the key that every host of the pool had (HS256)",
                hint="ask for a new one: `slotwise token request`, or `slotwise token upgrade` on the central manager",
            )
        kid = str(header.get("kid", ""))
        if kid in self._own_keys:
            public, method = self._own_keys[kid]
            return self._of_claims(_claims(token, public), header, method)
        if kid in self._trust.keys:
            claims = self._pool_claims(token, kid)
            if "cnf" in claims:
                raise _invalid("it is bound to a host's key, and is worth nothing without a proof")
            return self._of_claims(claims, header, "IDTOKENS")
        if self.issuers is not None and self.issuers.knows(token):
            found = self.issuers.identity(token)
            if found.token_id and found.token_id in self._trust.revoked:
                raise UnauthenticatedError(f"the token {found.token_id} of {found.name} has been revoked")
            return found
        return self._of_proof(token, header)

    def _pool_claims(self, token: str, kid: str) -> Claims:
        claims = _claims(token, self._trust.keys[kid], audience=self._trust.pool)
        if claims.get("iss") != self._trust.pool:
            raise _invalid(f"its issuer is not {self._trust.pool}")
        return claims

    def _of_proof(self, token: str, header: Claims) -> Identity:
        """A host's proof: for this daemon, by the key that the pool's word in it names."""
        kid = str(header.get("kid", ""))
        if kid in self._family:
            claims = _claims(token, self._family[kid])
            if claims.get("typ") != PROOF:
                raise _invalid("it is not a proof")
            if HOST_TOKEN not in claims:
                self._require_addressed(claims)
                levels = with_implied(str(claims.get("scope", "")).split())
                return Identity(str(claims["sub"]), levels, "FAMILY", str(claims.get("jti", "")), claims.get("exp"))
        try:
            unverified = jwt.decode(token, options={"verify_signature": False})
            word = str(unverified[HOST_TOKEN])
            word_header = jwt.get_unverified_header(word)
        except (jwt.PyJWTError, KeyError):
            raise _invalid("no key of this pool signed it") from None
        word_kid = str(word_header.get("kid", ""))
        if word_kid not in self._trust.keys:
            raise _invalid("no key of this pool signed what its host shows")
        granted = self._pool_claims(word, word_kid)
        host = self._of_claims(granted, word_header, "IDTOKENS")
        try:
            bound_to = str(granted["cnf"]["jwk"]["x"])
        except (KeyError, TypeError):
            raise _invalid("what its host shows is bound to no key") from None
        public = keys.public_key(bound_to)
        if keys.revocation_of(bound_to) in self._trust.revoked:
            raise UnauthenticatedError(
                f"the host of {host.name} has been removed from the pool",
                hint="`slotwise node uninstall` and `slotwise node install` there ask for a new place",
            )
        claims = _claims(token, public)
        if claims.get("typ") != PROOF:
            raise _invalid("it is not a proof")
        self._require_addressed(claims)
        asked = with_implied(str(claims.get("scope", "")).split())
        ends = [float(end) for end in (claims.get("exp"), host.expires) if end is not None]
        self._host_tokens[token] = {**granted, "kid": word_kid}
        return Identity(host.name, host.levels & asked, "IDTOKENS", host.token_id, min(ends, default=None))

    def _require_addressed(self, claims: Claims) -> None:
        """A proof for another daemon is worth nothing here."""
        if str(claims.get("aud", "")).lower() not in self.audiences:
            raise UnauthenticatedError(
                f"the proof is for {claims.get('aud')!r}, which is not an address of this daemon",
                hint="address the daemon by the name in FULL_HOSTNAME or in its certificate",
            )

    def _of_claims(self, claims: Claims, header: Claims, method: str) -> Identity:
        token_id = str(claims.get("jti", ""))
        if token_id and token_id in self._trust.revoked:
            raise UnauthenticatedError(f"the token {token_id} of {claims['sub']} has been revoked")
        for text in (self._trust.revocation_expr, self.revocation_expr):
            if text and method == "IDTOKENS" and revoked_by(text, {**header, **claims}):
                raise UnauthenticatedError(f"the token of {claims['sub']} has been revoked: {text}")
        scopes = str(claims.get("scope", "")).split()
        levels = with_implied(scopes)
        if method in (RUN, STARTER):
            levels = frozenset({method}) & frozenset(scopes)
            if not levels and method == RUN:
                levels, method = with_implied(scopes), "IDTOKENS"
        ends = [float(claims["exp"])] if claims.get("exp") is not None else []
        # What hosts show is renewed by itself, and bound to a key.
        if method == "IDTOKENS" and "cnf" not in claims and self.max_age_s is not None and "iat" in claims:
            ends.append(float(claims["iat"]) + self.max_age_s)
            if ends[-1] <= self._now():
                raise UnauthenticatedError(
                    f"the token of {claims['sub']} is older than SEC_TOKEN_MAX_AGE ({self.max_age_s:.0f} s)",
                    hint="get a new one: `slotwise token fetch` or `slotwise token request`",
                )
        return Identity(str(claims["sub"]), levels, method, token_id, min(ends, default=None))

    def login(self, uid: int, name: str, levels: Iterable[str], lifetime_s: float) -> tuple[str, float]:
        """A token that only this daemon accepts, for a local account: the token, and when it ends."""
        now = self._now()
        known = self._logins.get(uid)
        if known is not None and now < known[1] - lifetime_s / 2:
            return known
        text = keys.mint(self.own, name, levels, issued_at=now, lifetime_s=lifetime_s)
        if len(self._logins) > _REMEMBERED:
            self._logins.clear()
        made = self._logins[uid] = (text, float(int(now + lifetime_s)))
        return made

    # ---- calls

    def token_of(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
        """The token that a call with this metadata carries.

        :raises UnauthenticatedError: without one.
        """
        if time.monotonic() > self._looked_at + WATCH_S:
            self.refresh()
        for name, value in metadata or ():
            if name == "authorization":
                text = value.decode() if isinstance(value, bytes) else value
                return text.removeprefix("Bearer ")
        raise UnauthenticatedError(_NO_TOKEN, hint=_HOW_TO_GET_ONE)

    def certificate_of(self, context: Context) -> bytes:
        """The certificate (PEM) that a call's connection was made with, which gRPC has verified.

        :raises UnauthenticatedError: without one.
        """
        shown = context.auth_context().get("x509_pem_cert") if self.users is not None else None
        if not shown:
            raise UnauthenticatedError(_NO_TOKEN, hint=_HOW_TO_GET_ONE)
        return bytes(shown[0])

    def host_token(self, proof: Proof) -> Claims | None:
        """The claims of the host token in a proof that has been verified; None of another one."""
        return self._host_tokens.get(proof) if isinstance(proof, str) else None

    def caller(self, context: Context) -> Identity:
        """Who makes the call that ``context`` belongs to (a servicer context behind :class:`TokenInterceptor`).

        :raises UnauthenticatedError: when the call, one that needs no proof, carries none that is valid.
        """
        known = call.identity.get()
        if known is not None:
            return known
        try:
            proof: Proof = self.token_of(context.invocation_metadata())
        except UnauthenticatedError:
            proof = self.certificate_of(context)
        return self.identity(proof)

    @contextlib.asynccontextmanager
    async def while_valid(self, proof: Proof) -> AsyncIterator[None]:
        """Ends what runs inside when the token or certificate ends, or is revoked.

        :raises PeerUnavailableError: then.
        """
        found = self.identity(proof)
        limit = asyncio.timeout(None if found.expires is None else max(0.0, found.expires - self._now()))
        try:
            async with limit:
                self._open[limit] = (proof, found.name)
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            what = "token" if isinstance(proof, str) else "certificate"
            raise PeerUnavailableError(f"the {what} of this stream has ended", hint="connect again") from None
        finally:
            self._open.pop(limit, None)


def revoked_by(text: str, claims: Claims) -> bool:
    """Whether a revocation expression is true of a token's header and claims; one that cannot be read revokes all."""
    ad = ClassAd({name: value for name, value in claims.items() if isinstance(value, str | int | float)})
    try:
        return ExprTree(text, old=True).eval(ad) is True
    except Exception:
        _log.exception("SEC_TOKEN_REVOCATION_EXPR cannot be evaluated, so that no token is accepted: %s", text)
        return True


def _claims(token: str, public: Ed25519PublicKey, audience: str | None = None) -> Claims:
    try:
        found: Claims = jwt.decode(
            token,
            public,
            algorithms=[ALGORITHM],
            audience=audience,
            options={"verify_iat": False, "verify_aud": audience is not None, "require": ["sub"]},
        )
    except jwt.PyJWTError as error:
        raise _invalid(str(error)) from None
    return found


def _invalid(why: str) -> UnauthenticatedError:
    return UnauthenticatedError(f"the token is not valid in this pool: {why}", hint="use a token of this pool")


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses every call whose token, or the lists of users and hosts, do not give a level that the method needs."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, peers: KnownPeers) -> None:
        self._authenticator = authenticator
        self._peers = peers
        self._authorizer = authorizer
        self._bounds = CallBounds(lambda: authenticator.calls_of_user)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """Let the call through, or answer it with the refusal."""
        if details.method in OPEN_METHODS:
            return self._open(await continuation(details), details.method)
        try:
            token = self._authenticator.token_of(details.invocation_metadata)
        except UnauthenticatedError as error:
            if self._authenticator.users is None:
                return _refusal(error, details.method)
            return self._by_certificate(await continuation(details), details.method)
        try:
            identity = self._identified(token, details.method)
        except DeniedError as error:
            return _refusal(error, details.method)
        return self._checked(await continuation(details), details.method, token, identity)

    def _open(self, handler: grpc.RpcMethodHandler | None, method: str) -> grpc.RpcMethodHandler | None:
        """The handler of a method that needs no token, made to note which connections have its answers, and who asks
        for something that others may ask for as well."""
        if handler is None or handler.unary_unary is None:
            return handler
        inner, peers = handler.unary_unary, self._peers

        async def plain(request: Request, context: Context) -> Message:
            peers.answered(str(context.peer() or ""))
            if method in _ASKING:
                call.shown.set(self._shown(context))
            return await inner(request, context)

        return grpc.unary_unary_rpc_method_handler(plain, handler.request_deserializer, handler.response_serializer)

    def _shown(self, context: Context) -> str:
        """Who shows a valid token in a call that needs none; empty without one."""
        try:
            return self._authenticator.identity(self._authenticator.token_of(context.invocation_metadata())).name
        except DeniedError:
            return ""

    def _identified(self, proof: Proof, method: str) -> Identity:
        """Who makes the present call, as far as the proof alone allows it.

        :raises DeniedError: when it does not.
        """
        identity = self._authenticator.identity(proof)
        call.caller.set(identity.name)
        call.identity.set(identity)
        call.host_token.set(self._authenticator.host_token(proof))
        needed = required_levels(method)
        # A login's levels are what it has where no list says more, a token's are a limit.
        if identity.method not in LISTED_METHODS and not identity.may(*needed):
            raise DeniedError(f"{identity.name} may not call {method}: it needs {' or '.join(needed)}")
        return identity

    def _checked(
        self, handler: grpc.RpcMethodHandler | None, method: str, proof: Proof, identity: Identity
    ) -> grpc.RpcMethodHandler:
        """The handler for a call of ``identity``, with all that a call has to pass."""
        needed = required_levels(method)
        handler = call.written(
            call.measured(call.traced(handler, method, identity.levels, " or ".join(needed)), method)
        )
        handler = self._limited(handler, proof)
        if call.host_token.get() is None and identity.method not in ("FAMILY", RUN, STARTER):
            handler = self._bounded(handler, identity)
        return guarded(handler, method, needed, identity, self._authorizer, self._peers)

    def _by_certificate(self, handler: grpc.RpcMethodHandler | None, method: str) -> grpc.RpcMethodHandler:
        """A handler for a call without a token, which asks for the certificate of the connection.

        gRPC tells of that only once the call is being answered. So the handler is one of streams whatever the method
        takes, as that of a refusal is: nothing is read before it is known who calls.
        """

        async def answer(requests: AsyncIterator[Message], context: Context) -> AsyncIterator[Message]:
            try:
                proof = self._authenticator.certificate_of(context)
                identity = self._identified(proof, method)
            except DeniedError as error:
                await _refuse(error, method, context)
                return
            checked = self._checked(handler, method, proof, identity)
            if checked is None:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            async for reply in call.as_stream(checked, requests, context):
                yield reply

        if handler is None:
            return grpc.stream_stream_rpc_method_handler(answer)
        return grpc.stream_stream_rpc_method_handler(answer, handler.request_deserializer, handler.response_serializer)

    def _bounded(self, handler: grpc.RpcMethodHandler | None, identity: Identity) -> grpc.RpcMethodHandler | None:
        """The handler, which refuses more calls of one user than may be under way.

        Who can do nothing but advertise is no user: any number of glide-ins have one token, and a stream or two each.
        These are bounded by connection, and the connections by address.
        """
        if handler is None or identity.may("ADMINISTRATOR"):
            return handler
        kind = call.kind_of(handler)
        inner, bounds, name = getattr(handler, kind), self._bounds, identity.name
        advertises = identity.levels <= _ADVERTISING

        def counted(context: Context) -> str:
            return f"{name} at {call.peer_of(context)}" if advertises else name

        async def enter(context: Context) -> str:
            who = counted(context)
            if not bounds.enter(who):
                most = self._authenticator.calls_of_user
                error = BusyError(f"{who} has {most} calls under way", hint="SLOTWISE_MAX_CALLS_PER_USER bounds them")
                call.refusals.note(name, call.peer_of(context), "refused a call of %s: %s", who, error.message)
                await abort(context, error)
            return who

        async def plain(request: Request, context: Context) -> Message:
            who = await enter(context)
            try:
                return await inner(request, context)
            finally:
                bounds.leave(who)

        make = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(plain, handler.request_deserializer, handler.response_serializer)

    def _limited(self, handler: grpc.RpcMethodHandler | None, proof: Proof) -> grpc.RpcMethodHandler | None:
        """The handler, whose streams end with the token or certificate."""
        if handler is None or not (handler.request_streaming or handler.response_streaming):
            return handler
        kind = call.kind_of(handler)
        inner = getattr(handler, kind)
        while_valid = self._authenticator.while_valid

        async def plain(request: Request, context: Context) -> Message:
            try:
                async with while_valid(proof):
                    return await inner(request, context)
            except DeniedError as error:
                await abort(context, error)
            except PeerUnavailableError as error:
                await abort(context, error)

        make = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(plain, handler.request_deserializer, handler.response_serializer)


def _refusal(error: DeniedError, method: str) -> grpc.RpcMethodHandler:
    """A handler that answers with ``error`` alone.

    It is one of streams whatever the method takes: of these only what is asked for is read, so a refused call costs
    no memory for its messages.
    """

    async def refuse(_requests: Request, context: Context) -> AsyncIterator[Message | None]:
        await _refuse(error, method, context)
        yield None

    return grpc.stream_stream_rpc_method_handler(refuse)


async def _refuse(error: DeniedError, method: str, context: Context) -> NoReturn:
    peer = call.peer_of(context)
    call.refused(peer, call.method_name(method), error.message, denied=True)
    if isinstance(error, UnauthenticatedError):
        await asyncio.sleep(call.delays.failed(peer))
    await abort(context, error)
