"""A pool on one host with TLS, whose daemons share a port: which do, and what is said when the port is taken."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from slotwise.wire import address
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

from tests.support.certificates import Authority, full_name
from tests.support.pool import Pool
from tests.support.ports import free_port
from tests.support.waiting import LIMIT_S

CONFIG = """
UID_DOMAIN = example.org
SLOTWISE_LISTEN = 0.0.0.0
START = False
DAEMON_LIST = MASTER, COLLECTOR, SCHEDD
AUTH_SSL_SERVER_CERTFILE = {tls}/server.pem
AUTH_SSL_SERVER_KEYFILE = {tls}/server.key
AUTH_SSL_CLIENT_CAFILE = {tls}/ca.pem
COLLECTOR_HOST = localhost:0
SHARED_PORT_PORT = {port}
"""


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    made = Authority(tmp_path / "tls")
    made.issue("server")
    return made.directory


def test_a_collector_may_have_a_port_of_its_own_beside_the_shared_one(
    make_pool: Callable[[str], Pool], tls: Path, tmp_path: Path
) -> None:
    shared, own = free_port(), free_port()
    pool = make_pool(
        CONFIG.format(tls=tls, port=shared) + f"COLLECTOR_USES_SHARED_PORT = False\nCOLLECTOR_PORT = {own}\n"
    )
    pool.up()
    assert set(pool.pids()) >= {"master", "shared_port", "collector", "schedd"}
    found = {name: address.lookup(pool.home, name).target for name in ("collector", "schedd")}
    assert found == {"collector": f"{full_name()}:{own}", "schedd": f"{full_name()}:{shared}?sock=schedd"}
    token = tmp_path / "token"
    pool.run("token", "create", "--identity", "ann@example.org", "--scope", "READ", "--file", str(token))
    away = Pool(tmp_path / "away", f"AUTH_SSL_CLIENT_CAFILE = {tls}/ca.pem\n")
    pool.until("the schedd has advertised", lambda: pool.run("status", "-schedd", "-af", "Name").stdout)
    at = ("-pool", f"localhost:{own}")
    shown = away.run("status", "-schedd", "-af", "MyAddress", *at, SLOTWISE_TOKEN_FILE=str(token)).stdout
    assert shown == f"{full_name()}:{shared}?sock=schedd\n"
    # Whoever names no daemon at the shared port means the first that is behind it.
    authority = grpc.ssl_channel_credentials((tls / "ca.pem").read_bytes())
    with grpc.secure_channel(f"localhost:{shared}", authority) as opened:
        assert daemon_pb2_grpc.DaemonStub(opened).Ping(daemon_pb2.PingRequest(), timeout=LIMIT_S).daemon == "schedd"
    pool.down()


def test_a_port_that_is_taken_is_named_with_the_remedy(make_pool: Callable[[str], Pool], tls: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        pool = make_pool(CONFIG.format(tls=tls, port=port))
        done = pool.run("up", check=False)
    assert done.returncode == 1 and f"port {port}: Address already in use" in done.stderr, done
    assert "SHARED_PORT_PORT" in done.stderr and pool.pids() == {}
