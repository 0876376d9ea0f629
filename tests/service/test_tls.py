"""TLS between daemons, and the refusal to do without it where others can listen."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from slotwise.config import Config, load
from slotwise.errors import ConfigError, DeniedError, PeerUnavailableError
from slotwise.home import PoolHome
from slotwise.wire import authority, channel, tls
from slotwise.wire.address_key import AddressKey
from slotwise.wire.authority import Authority
from slotwise.wire.credential import require_safe
from slotwise.wire.gen import collector_pb2_grpc, common_pb2
from slotwise.wire.server import listen, make_server

from tests.support import host
from tests.support.configured import configured
from tests.support.serving import authenticator, metadata
from tests.support.waiting import LIMIT_S

pytestmark = host.needs(host.programs("openssl"))


def openssl(directory: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, `ca` and `other`; `server` and `client` are signed by the first, `stranger` by the second."""
    made = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    for name in ("ca", "other"):
        openssl(made, "req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", "/CN=CA")
    (made / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name, signer in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
        openssl(made, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(
            made, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{signer}.pem", "-CAkey", f"{signer}.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem",
        )  # fmt: skip
    return made


@pytest.fixture(autouse=True)
def _no_tls_afterwards() -> Iterator[None]:
    yield
    channel.use_tls(None)


def server_knobs(directory: Path, **more: str) -> Config:
    names = {"CERTFILE": "server.pem", "KEYFILE": "server.key", "CAFILE": "ca.pem"}
    return configured(**{f"AUTH_SSL_SERVER_{k}": str(directory / v) for k, v in names.items()}, **more)


async def call(knobs: Config, client: Config | None) -> grpc.StatusCode:
    """What becomes of a call to a server with ``knobs`` from a client with ``client`` (None: without TLS)."""
    server = make_server(authenticator())
    tcp, _ = listen(server, host="127.0.0.1", tls=tls.server_credentials(knobs))
    await server.start()
    channel.use_tls(None if client is None else tls.client_credentials(client))
    try:
        async with channel.open_async(f"localhost:{tcp.rpartition(':')[2]}") as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            try:
                async for _ in stub.Query(common_pb2.AdQuery(), metadata=metadata("READ"), timeout=LIMIT_S):
                    pass
            except grpc.aio.AioRpcError as error:
                return error.code()
    finally:
        await server.stop(grace=None)
    return grpc.StatusCode.OK


async def test_a_client_that_trusts_the_authority_gets_through(certificates: Path) -> None:
    client = configured(AUTH_SSL_CLIENT_CAFILE=str(certificates / "ca.pem"))
    # UNIMPLEMENTED is the server's answer: it has no collector, but token and certificate were good.
    assert await call(server_knobs(certificates), client) is grpc.StatusCode.UNIMPLEMENTED


async def test_one_that_trusts_another_authority_does_not(certificates: Path) -> None:
    client = configured(AUTH_SSL_CLIENT_CAFILE=str(certificates / "other.pem"))
    assert await call(server_knobs(certificates), client) is grpc.StatusCode.UNAVAILABLE


async def test_clear_text_is_not_understood(certificates: Path) -> None:
    assert await call(server_knobs(certificates), None) is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("client", grpc.StatusCode.UNIMPLEMENTED),
        ("stranger", grpc.StatusCode.UNAVAILABLE),
        (None, grpc.StatusCode.UNAVAILABLE),
    ],
)
async def test_client_certificates_can_be_required(
    certificates: Path, who: str | None, expected: grpc.StatusCode
) -> None:
    knobs = server_knobs(certificates, AUTH_SSL_REQUIRE_CLIENT_CERTIFICATE="True")
    shown = {"AUTH_SSL_CLIENT_CAFILE": str(certificates / "ca.pem")}
    if who is not None:
        shown["AUTH_SSL_CLIENT_CERTFILE"] = str(certificates / f"{who}.pem")
        shown["AUTH_SSL_CLIENT_KEYFILE"] = str(certificates / f"{who}.key")
    assert await call(knobs, configured(**shown)) is expected


def test_half_a_configuration_is_refused(certificates: Path) -> None:
    with pytest.raises(ConfigError, match="AUTH_SSL_SERVER_KEYFILE is missing"):
        tls.server_credentials(configured(AUTH_SSL_SERVER_CERTFILE=str(certificates / "server.pem")))
    with pytest.raises(ConfigError, match="cannot read"):
        tls.server_credentials(
            configured(AUTH_SSL_SERVER_CERTFILE="/nowhere.pem", AUTH_SSL_SERVER_KEYFILE="/nowhere.key")
        )
    with pytest.raises(ConfigError, match="needs AUTH_SSL_SERVER_CAFILE"):
        tls.server_credentials(
            configured(
                AUTH_SSL_SERVER_CERTFILE=str(certificates / "server.pem"),
                AUTH_SSL_SERVER_KEYFILE=str(certificates / "server.key"),
                AUTH_SSL_REQUIRE_CLIENT_CERTIFICATE="True",
            )
        )


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("[::1]", True), ("::1", True), ("0.0.0.0", False), ("10.1.2.3", False)],
)
def test_what_counts_as_loopback(host: str, loopback: bool) -> None:
    assert tls.is_loopback(host) is loopback


@pytest.mark.parametrize(("mode", "refused"), [(0o644, True), (0o660, True), (0o640, False), (0o600, False)])
def test_a_private_key_that_others_may_use_is_refused(mode: int, refused: bool, tmp_path: Path) -> None:
    key = tmp_path / "host.key"
    key.write_bytes(b"key")
    key.chmod(mode)
    (tmp_path / "config").write_text(f"AUTH_SSL_SERVER_KEYFILE = {key}\n")
    config = load(str(tmp_path / "config"), env={})
    match = rf"others may use the private key .*host.key \(mode {mode:04o}\)" if refused else "CERTFILE is missing"
    with pytest.raises(ConfigError, match=match):
        tls.server_credentials(config)


async def test_a_renewed_certificate_is_shown_without_a_restart_and_one_of_another_key_is_not(tmp_path: Path) -> None:
    home = PoolHome(tmp_path)
    home.create()
    now = time.time()
    Authority.make(home, "test", [], now)
    signs = Authority.read(home)
    assert signs is not None
    key, other = (authority.host_key(tmp_path / f"{name}.key") for name in ("server", "other"))

    def issue(of: ec.EllipticCurvePrivateKey) -> str:
        return signs.issue(authority.checked(authority.request_for(of, "localhost")), "localhost", now, 3600)

    file = tmp_path / "server.pem"
    file.write_text(issue(key))
    knobs = configured(AUTH_SSL_SERVER_CERTFILE=str(file), AUTH_SSL_SERVER_KEYFILE=str(tmp_path / "server.key"))
    server = make_server(authenticator())
    tcp, _ = listen(server, host="127.0.0.1", tls=tls.server_credentials(knobs))
    await server.start()
    port = int(tcp.rpartition(":")[2])

    async def shown() -> str:
        return await asyncio.to_thread(authority.certificate_of_server, "127.0.0.1", port)

    try:
        first, renewed = file.read_text(), issue(key)
        assert await shown() == authority.first_pem(first)
        for text, expected in ((renewed, renewed), (issue(other), renewed), ("nonsense", renewed), (first, first)):
            fresh = tmp_path / "fresh.pem"
            fresh.write_text(text)
            fresh.replace(file)
            assert await shown() == authority.first_pem(expected)
        file.unlink()
        assert await shown() == authority.first_pem(first)
    finally:
        await server.stop(grace=None)


async def test_a_key_in_an_address_is_verified_in_place_of_a_name(tmp_path: Path) -> None:
    key, other = (AddressKey.of_file(tmp_path / f"{name}.pem") for name in ("own", "other"))
    server = make_server(authenticator())
    collector_pb2_grpc.add_CollectorServicer_to_server(collector_pb2_grpc.CollectorServicer(), server)
    tcp, _ = listen(server, tls=key.credentials())
    await server.start()

    async def code(target: str) -> grpc.StatusCode:
        require_safe(target, proof=True)
        async with channel.open_async(target) as opened:
            stub = collector_pb2_grpc.CollectorStub(opened)
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                async for _ in stub.Query(common_pb2.AdQuery(), metadata=metadata("READ"), timeout=LIMIT_S):
                    pass
            return raised.value.code()

    try:
        # With a certificate of no authority of ours, and without any authority: the key alone counts.
        assert await code(f"{tcp}?key={key.text}") == grpc.StatusCode.UNIMPLEMENTED
        assert await code(f"{tcp}?key={other.text}") == grpc.StatusCode.UNAVAILABLE
        with pytest.raises(PeerUnavailableError, match="not a key"):
            channel.open_async(f"{tcp}?key=rubbish")
        with pytest.raises(DeniedError):
            require_safe(tcp)
    finally:
        await server.stop(0)
