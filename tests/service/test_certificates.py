"""Callers that prove themselves by a certificate: real connections, to a port that requires one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.authorization.authorizer import Authorizer
from slotwise.client.request_streams import stated
from slotwise.config import Config
from slotwise.errors import ConfigError
from slotwise.wire import call as calls
from slotwise.wire import channel, map_file, tls
from slotwise.wire.connections import ConnectionBounds
from slotwise.wire.server import bind, make_server

from tests.support.certificates import Authority
from tests.support.configured import configured
from tests.support.serving import authenticator, token
from tests.support.waiting import LIMIT_S

SERVICE = "slotwise.v1.Schedd"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("authority"))
    for name in ("server", "alice", "carol"):
        made.issue(name)
    (made.directory / "map").write_text("SSL ^/CN=alice$ alice@example.org\nSSL ^/CN=operator$ op@example.org\n")
    return made


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(calls.delays, "most_s", 0.0)
    yield
    channel.use_tls(None)


def server_knobs(authority: Authority, **more: str) -> Config:
    at = authority.directory
    knobs = {
        "AUTH_SSL_SERVER_CERTFILE": str(at / "server.pem"),
        "AUTH_SSL_SERVER_KEYFILE": str(at / "server.key"),
        "AUTH_SSL_SERVER_CAFILE": str(at / "ca.pem"),
        "CERTIFICATE_MAPFILE": str(at / "map"),
    }
    return configured(**knobs | more)


def shows(authority: Authority, name: str | None, trusts: Authority | None = None) -> None:
    """Later connections show the certificate ``name``."""
    knobs = {"AUTH_SSL_CLIENT_CAFILE": str((trusts or authority).file)}
    if name is not None:
        for kind in ("cert", "key"):
            file = authority.directory / f"{name}.{'pem' if kind == 'cert' else 'key'}"
            knobs[f"AUTH_SSL_CLIENT_{kind.upper()}FILE"] = str(file)
    channel.use_tls(tls.client_credentials(configured(**knobs)))


class Echo(grpc.GenericRpcHandler):
    """Says who calls, from methods of every kind, and counts the messages that it has read."""

    def __init__(self) -> None:
        self.read = 0

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        def said(request: bytes) -> bytes:
            self.read += 1
            return f"{calls.caller.get()}:{request.decode()}".encode()

        async def one(request: bytes, _context: Any) -> bytes:
            return said(request)

        async def collected(requests: AsyncIterator[bytes], _context: Any) -> bytes:
            return b" ".join([said(each) async for each in requests])

        async def many(request: bytes, _context: Any) -> AsyncIterator[bytes]:
            for _ in range(2):
                yield said(request)

        async def by_hand(_requests: Any, context: Any) -> None:
            while (each := await context.read()) is not grpc.aio.EOF:
                await context.write(said(each))

        kinds: dict[str, Callable[[], grpc.RpcMethodHandler]] = {
            "Act": lambda: grpc.unary_unary_rpc_method_handler(one),
            "Spool": lambda: grpc.stream_unary_rpc_method_handler(collected),
            "FetchSandboxes": lambda: grpc.unary_stream_rpc_method_handler(many),
            "SubmitMany": lambda: grpc.stream_stream_rpc_method_handler(by_hand),
        }
        made = kinds.get(details.method.rpartition("/")[2])
        return made() if made else None


async def ask(
    knobs: Config, method: str = "Act", requests: tuple[bytes, ...] = (b"x",), metadata: Any = None
) -> tuple[grpc.StatusCode, list[bytes] | str, Echo]:
    """What becomes of a call by the certificate that is shown now."""
    checks, lists, echo = authenticator(), Authorizer("SCHEDD"), Echo()
    checks.users = map_file.read(knobs)
    lists.follow(await lists.read(knobs))
    server = make_server(checks, lists)
    server.add_generic_rpc_handlers([echo])
    port = bind(server, "127.0.0.1", 0, tls.certificate_credentials(knobs))
    await server.start()
    try:
        async with channel.open_async(f"localhost:{port}") as opened:
            ins, outs = method in ("Spool", "SubmitMany"), method in ("FetchSandboxes", "SubmitMany")
            make = getattr(opened, f"{'stream' if ins else 'unary'}_{'stream' if outs else 'unary'}")
            sent = iter(requests) if ins else requests[0]
            made = make(f"/{SERVICE}/{method}")(sent, metadata=metadata, timeout=LIMIT_S)
            try:
                found = [each async for each in made] if outs else [await (stated(made) if ins else made)]
            except grpc.aio.AioRpcError as error:
                return error.code(), str(error.details()), echo
            return grpc.StatusCode.OK, found, echo
    finally:
        await server.stop(grace=None)


@pytest.mark.parametrize(
    ("method", "requests", "answer"),
    [
        ("Act", (b"x",), [b"x"]),
        ("Spool", (b"x", b"y"), [b"x alice@example.org:y"]),
        ("FetchSandboxes", (b"x",), [b"x", b"x"]),
        ("SubmitMany", (b"x", b"y", b"z"), [b"x", b"y", b"z"]),
    ],
)
async def test_calls_of_every_kind_are_answered(
    authority: Authority, method: str, requests: tuple[bytes, ...], answer: list[bytes]
) -> None:
    shows(authority, "alice")
    code, found, _ = await ask(server_knobs(authority, ALLOW_WRITE="*@example.org"), method, requests)
    assert (code, found) == (grpc.StatusCode.OK, [b"alice@example.org:" + each for each in answer])


async def test_lists_decide_what_a_certificate_may_do(authority: Authority) -> None:
    shows(authority, "alice")
    for lists in ({}, {"ALLOW_WRITE": "op@example.org"}, {"ALLOW_WRITE": "*", "DENY_WRITE": "alice@*"}):
        code, why, echo = await ask(server_knobs(authority, **lists))
        assert code is grpc.StatusCode.PERMISSION_DENIED and "alice@example.org" in why, lists
        assert echo.read == 0


async def test_who_maps_to_nobody_is_refused_before_anything_is_read(authority: Authority) -> None:
    shows(authority, "carol")
    for method in ("Act", "Spool", "FetchSandboxes", "SubmitMany", "NoSuchMethod"):
        code, why, echo = await ask(server_knobs(authority, ALLOW_WRITE="*"), method)
        assert code is grpc.StatusCode.UNAUTHENTICATED and "maps the SSL principal /CN=carol" in why, (
            f"{method}: {code} {why}"
        )
        assert echo.read == 0
    shows(authority, "alice")
    code, _, _ = await ask(server_knobs(authority, ALLOW_WRITE="*", ALLOW_ADMINISTRATOR="*"), "NoSuchMethod")
    assert code is grpc.StatusCode.UNIMPLEMENTED


async def test_authorities_that_are_not_named_and_ends_that_are_past(authority: Authority, tmp_path: Path) -> None:
    from datetime import timedelta

    other = Authority(tmp_path / "other")
    other.issue("alice")
    authority.issue("late", ends=-timedelta(days=1))
    knobs = server_knobs(authority, ALLOW_WRITE="*")
    for whose, name in ((other, "alice"), (authority, "late"), (authority, None)):
        shows(whose, name, authority)
        code, _, echo = await ask(knobs)
        assert code is grpc.StatusCode.UNAVAILABLE and echo.read == 0, "the connection is not made"


async def test_a_token_beside_a_certificate_says_who_calls(authority: Authority) -> None:
    shows(authority, "alice")
    knobs = server_knobs(authority, ALLOW_WRITE="*")
    bob = (("authorization", f"Bearer {token('WRITE', identity='bob@test')}"),)
    assert (await ask(knobs, metadata=bob))[:2] == (grpc.StatusCode.OK, [b"bob@test:x"])
    reader = (("authorization", f"Bearer {token('READ', identity='bob@test')}"),)
    assert (await ask(knobs, metadata=reader))[0] is grpc.StatusCode.PERMISSION_DENIED, "the token limits"
    for wrong in ("nonsense", ""):
        code = (await ask(knobs, metadata=(("authorization", f"Bearer {wrong}"),)))[0]
        assert code is grpc.StatusCode.UNAUTHENTICATED, "a wrong token is not made good by the certificate"


async def test_the_directory_of_authorities_counts(authority: Authority, tmp_path: Path) -> None:
    knobs = {"AUTH_SSL_SERVER_CAFILE": "", "AUTH_SSL_SERVER_CADIR": str(tmp_path), "ALLOW_WRITE": "*"}
    (tmp_path / "ca.pem").write_bytes(authority.file.read_bytes())
    with pytest.raises(ConfigError, match="under a name that OpenSSL would look for"):
        await ask(server_knobs(authority, **knobs))
    (tmp_path / "0a1b2c3d.0").symlink_to("ca.pem")
    shows(authority, "alice")
    assert (await ask(server_knobs(authority, **knobs)))[0] is grpc.StatusCode.OK


def test_when_certificates_count(authority: Authority) -> None:
    assert tls.certificates_count(server_knobs(authority))
    for without in ("AUTH_SSL_SERVER_CERTFILE", "AUTH_SSL_SERVER_CAFILE", "CERTIFICATE_MAPFILE"):
        assert not tls.certificates_count(server_knobs(authority, **{without: ""})), without
    for methods, counts in (("FS, IDTOKENS", False), ("fs,ssl", True), ("SSL", True)):
        assert tls.certificates_count(server_knobs(authority, SEC_DEFAULT_AUTHENTICATION_METHODS=methods)) is counts
    some = {"SEC_DEFAULT_AUTHENTICATION_METHODS": "FS", "SEC_READ_AUTHENTICATION_METHODS": "FS SSL"}
    assert tls.certificates_count(server_knobs(authority, **some))


def test_a_key_that_others_may_use_or_that_asks_for_a_password_is_refused(authority: Authority, tmp_path: Path) -> None:
    for name in ("alice.pem", "alice.key"):
        (tmp_path / name).write_bytes((authority.directory / name).read_bytes())
    knobs = configured(
        AUTH_SSL_CLIENT_CERTFILE=str(tmp_path / "alice.pem"), AUTH_SSL_CLIENT_KEYFILE=str(tmp_path / "alice.key")
    )
    (tmp_path / "alice.key").chmod(0o644)
    with pytest.raises(ConfigError, match=r"others may use the private key .*alice.key \(mode 0644\)"):
        tls.client_credentials(knobs)
    (tmp_path / "alice.key").chmod(0o600)
    assert tls.client_credentials(knobs) is not None and tls.own_certificate(knobs) == str(tmp_path / "alice.pem")
    (tmp_path / "alice.key").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    with pytest.raises(ConfigError, match="is encrypted"):
        tls.client_credentials(knobs)
    with pytest.raises(ConfigError, match="AUTH_SSL_CLIENT_KEYFILE is missing"):
        tls.client_credentials(configured(AUTH_SSL_CLIENT_CERTFILE=str(tmp_path / "alice.pem")))


async def test_a_stream_ends_when_its_certificate_becomes_somebody_elses(authority: Authority) -> None:
    import asyncio

    from slotwise.errors import PeerUnavailableError

    checks = authenticator()
    checks.users = map_file.read(server_knobs(authority))
    proof = (authority.directory / "alice.pem").read_bytes()
    began = asyncio.Event()

    async def stream() -> None:
        async with checks.while_valid(proof):
            began.set()
            await asyncio.sleep(60)

    running = asyncio.create_task(stream())
    await began.wait()
    checks.forget()
    await asyncio.sleep(0)
    assert not running.done(), "the same user"
    (authority.directory / "other map").write_text("SSL ^/CN=alice$ mallory@example.org\n")
    checks.users = map_file.read(server_knobs(authority, CERTIFICATE_MAPFILE=str(authority.directory / "other map")))
    checks.forget()
    with pytest.raises(PeerUnavailableError, match="certificate of this stream has ended"):
        await running


def test_connections_to_either_port_are_bounded() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as main, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [one.getsockname()[1] for one in (main, other)]
        bounds = ConnectionBounds("", ports, of_user=0, of_address=3, exempt=frozenset())
        held = []
        for port in ports * 2:
            caller = socket.create_connection(("127.0.0.1", port))
            held += [caller, (main if port == ports[0] else other).accept()[0]]
        assert sum(bounds.look().values()) == 1
        for one in held:
            one.close()
