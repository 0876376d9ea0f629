"""The joining host's side: whom it trusts, what it asks for, and what it is given.

Before anything is told to the central manager, it is known by its certificate: signed by the authority whose
fingerprint a person has confirmed, or that a join token or an option names, and made for the name that was given.
"""

from __future__ import annotations

import hashlib
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from msgspec import Struct

from slotwise.cli.host.token_options import lifetime_s
from slotwise.cli.pool.node.join_token import JoinToken
from slotwise.errors import BusyError, DeniedError, NotFoundError, PeerUnavailableError, SlotwiseError, UsageError
from slotwise.model.pool_host import enrolment_code, host_name

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

    from slotwise.cli.common.invocation import Invocation
    from slotwise.home import PoolHome
    from slotwise.wire.gen import node_pb2, node_pb2_grpc

_PORT = 9618
_ASK_S, _CALL_S = 2.0, 15.0


class Place(Struct, frozen=True):
    """What the pool has granted.

    :param collector: ``host:port``.
    """

    collector: str
    grant: node_pb2.NodeGrant

    def settings(self) -> dict[str, str]:
        """The settings of a host that has this place."""
        host, _, port = self.collector.rpartition(":")
        found = {"CONDOR_HOST": host}
        if int(port) != _PORT:
            found["COLLECTOR_PORT"] = port
        if self.grant.uid_domain:
            found["UID_DOMAIN"] = self.grant.uid_domain
        return found

    def write(self, home: PoolHome) -> None:
        """Write what was granted to where the daemons look for it."""
        from slotwise.daemon.host_tls import HostTls
        from slotwise.wire.keys import PoolSecrets, PoolTrust
        from slotwise.wire.token import write_secret

        files, secrets = HostTls(home), PoolSecrets(home)
        if self.grant.certificate:
            files.write(files.authorities, self.grant.authorities)
            files.write(files.certificate, self.grant.certificate)
        secrets.write_trust(PoolTrust.of_text(self.grant.trust))
        write_secret(secrets.token_file, self.grant.token + "\n")


def join(options: Namespace, name: str, roles: list[str], inv: Invocation) -> Place:
    """Ask for a place in the pool, and wait for it.

    :raises DeniedError: when the central manager is another, or refuses this host.
    :raises NotFoundError: when nobody has decided in time.
    """
    from slotwise.daemon.host_tls import HostTls
    from slotwise.wire import authority, keys
    from slotwise.wire.keys import PoolSecrets

    patience_s = lifetime_s(options.wait)
    token = _join_token(options.token_file, inv)
    host, port = _address(options.join or (token.collector if token else ""))
    files = HostTls(inv.home)
    files.create()
    key = None if options.ca == "site" else authority.host_key(files.key)
    trusted = _trusted(options, token, host, port, inv)
    asking = _Asking(
        name=name,
        roles=roles,
        key=key,
        public_key=keys.public_text(PoolSecrets(inv.home).host_key().public),
        join_token=token.shown if token else "",
        inv=inv,
    )
    return Place(f"{host}:{port}", _ask(f"{host}:{port}", trusted, asking, patience_s))


def _join_token(file: str | None, inv: Invocation) -> JoinToken | None:
    if file is None:
        return None
    if file == "-":
        return JoinToken.of_text(inv.stdin.readline())
    from slotwise.wire.token import require_private

    path = inv.path(file)
    try:
        require_private(path)
        return JoinToken.of_text(path.read_text())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        host, port = port, str(_PORT)
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"{text!r} is not HOST or HOST:PORT")
    return host_name(host), int(port)


# -------------------------------------------------------------------------------------------------- whom to trust


def _trusted(options: Namespace, token: JoinToken | None, host: str, port: int, inv: Invocation) -> str:
    """The authority (PEM) that has to have signed the central manager's certificate."""
    from slotwise.wire import authority

    if options.ca == "site":
        path = inv.path(options.ca_file)
        try:
            return path.read_text()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    pins = [pin for pin in (options.fingerprint, token.fingerprint if token else None) if pin]
    if not pins and not inv.stdin.isatty():
        raise UsageError(
            "nobody is here to confirm the fingerprint of the pool's authority",
            hint="name it with --fingerprint (`slotwise node fingerprint` on the central manager), or use a join token",
        )
    shown = _shown_authority(host, port)
    for pin in pins:
        if not authority.same_fingerprint(shown, pin):
            raise DeniedError(
                f"{host}:{port} is not the central manager that is meant: the fingerprint of its authority is "
                f"{authority.fingerprint(shown)}",
                hint="somebody may be in between; nothing was told to it",
            )
    inv.out(f"The central manager at {host}:{port} shows a certificate of the authority")
    inv.out(f"  {authority.fingerprint(shown)}")
    if not pins:
        inv.out("On the central manager `slotwise node fingerprint` prints the same. Does it? [yes/no] ", end="")
        inv.stdout.flush()
        if inv.stdin.readline().strip().lower() not in ("yes", "y"):
            raise DeniedError("the fingerprint was not confirmed; nothing was told to the central manager")
    return shown


def _shown_authority(host: str, port: int) -> str:
    """The authority that the host at an address says to have; nothing is proved by it yet."""
    import grpc

    from slotwise.wire import authority, channel
    from slotwise.wire.gen import common_pb2, node_pb2_grpc
    from slotwise.wire.status import to_error

    try:
        certificate = authority.certificate_of_server(host, port)
    except OSError as error:
        raise PeerUnavailableError(
            f"no central manager answers at {host}:{port}: {error}", hint="is it up, and does a firewall let 9618 in?"
        ) from None
    # Whoever answers with this very certificate is asked; what it says is compared with the fingerprint.
    channel.use_tls(grpc.ssl_channel_credentials(certificate.encode()))
    try:
        with channel.open_blocking(f"{host}:{port}") as opened:
            about = node_pb2_grpc.NodesStub(opened).Authority(common_pb2.Empty(), timeout=_CALL_S)
    except grpc.RpcError as failure:
        told = to_error(failure, peer=f"the collector at {host}:{port}")
        if isinstance(told, PeerUnavailableError):
            raise PeerUnavailableError(
                f"the certificate at {host}:{port} is not one for {host}",
                hint="join by the name in FULL_HOSTNAME of the central manager",
            ) from None
        raise told from None
    if not about.issues:
        raise UsageError(
            "this pool has no authority of its own: its hosts have certificates of their site",
            hint="--ca site --certificate FILE --key FILE --ca-file FILE",
        )
    return authority.first_pem(about.authorities)


# --------------------------------------------------------------------------------------------------------- asking


class _Asking(Struct):
    """What this host asks for.

    :param key: the key of its certificate; None: the site has given it one.
    """

    name: str
    roles: list[str]
    key: ec.EllipticCurvePrivateKey | None
    public_key: str
    join_token: str
    inv: Invocation
    secret: str = ""

    def request(self) -> node_pb2.EnrollRequest:
        """A request, with a secret of its own."""
        from slotwise import __version__, ids
        from slotwise.wire import authority
        from slotwise.wire.gen import node_pb2

        self.secret = ids.secret(256)
        return node_pb2.EnrollRequest(
            name=self.name,
            roles=self.roles,
            csr=b"" if self.key is None else authority.request_for(self.key, self.name),
            public_key=self.public_key,
            secret_digest=hashlib.sha256(self.secret.encode()).hexdigest(),
            join_token=self.join_token,
            version=__version__,
        )

    def code(self, request_id: str) -> str:
        """The code of the request, worked out from this host's own keys."""
        from slotwise.wire import authority

        tls_key = "" if self.key is None else authority.key_id_of(self.key.public_key())
        digest = hashlib.sha256(self.secret.encode()).hexdigest()
        return enrolment_code(request_id, self.name, self.roles, self.public_key, tls_key, digest)


def _ask(target: str, trusted: str, asking: _Asking, patience_s: float) -> node_pb2.NodeGrant:
    """Ask for a place and wait for the answer; a collector that has forgotten the request is asked again."""
    import grpc

    from slotwise.wire import channel
    from slotwise.wire.gen import node_pb2_grpc
    from slotwise.wire.status import to_error

    channel.use_tls(grpc.ssl_channel_credentials(trusted.encode()))
    deadline = time.monotonic() + patience_s
    with channel.open_blocking(target) as opened:
        stub = node_pb2_grpc.NodesStub(opened)
        collect: node_pb2.CollectNodeRequest | None = None
        waiting = _Waiting(asking.inv)
        while time.monotonic() < deadline:
            try:
                if collect is None:
                    collect = _enrolled(stub, asking)
                grant = stub.Collect(collect, timeout=_CALL_S)
                if grant.granted:
                    waiting.end()
                    return _checked(grant, asking)
            except grpc.RpcError as failure:
                error = to_error(failure, peer=f"the collector at {target}")
                if isinstance(error, NotFoundError):
                    collect = None
                    continue
                busy = isinstance(error, BusyError)
                if not busy and (not isinstance(error, PeerUnavailableError) or collect is None):
                    waiting.end()
                    raise error from None
            waiting.show(deadline - time.monotonic())
            time.sleep(_ASK_S)
        waiting.end()
    raise NotFoundError("nobody has decided in time", hint="run the same command again: the host keeps its keys")


def _enrolled(stub: node_pb2_grpc.NodesStub, asking: _Asking) -> node_pb2.CollectNodeRequest:
    from slotwise.wire.gen import node_pb2

    reply = stub.Enroll(asking.request(), timeout=_CALL_S)
    code = asking.code(reply.request_id)
    if code != reply.code:
        raise DeniedError("the central manager shows another code for this host's request", hint="is somebody between?")
    if not asking.join_token:
        asking.inv.out(f"{asking.name} asks for a place as {', '.join(asking.roles)}. On the central manager:")
        asking.inv.out(f"  slotwise node approve {code}")
        asking.inv.stdout.flush()
    return node_pb2.CollectNodeRequest(request_id=reply.request_id, secret=asking.secret)


def _checked(grant: node_pb2.NodeGrant, asking: _Asking) -> node_pb2.NodeGrant:
    """What was granted, if this host can use it.

    :raises SlotwiseError: when it is not for this host's keys.
    """
    from slotwise.wire import authority

    if asking.key is not None and not authority.is_of(grant.certificate, authority.private_pem(asking.key).encode()):
        raise SlotwiseError("the certificate that was granted is not one for this host's key")
    return grant


class _Waiting:
    """Shows on a terminal that, and how long, the host waits."""

    def __init__(self, inv: Invocation) -> None:
        self._inv = inv
        self._shown = False

    def show(self, left_s: float) -> None:
        """Say how long is left."""
        if self._inv.is_terminal:
            self._inv.out(f"\rWaiting for the approval, {max(0.0, left_s) / 60:.0f} min left ...", end="")
            self._inv.stdout.flush()
            self._shown = True

    def end(self) -> None:
        """Leave the line."""
        if self._shown:
            self._inv.out()
