"""What one account takes of ports, the page, places for requests and logins leaves the others theirs."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.wire import address

from tests.support import host
from tests.support.accounts import HostUser, host_users
from tests.support.certificates import Authority
from tests.support.open_installation import opened
from tests.support.pool import Pool
from tests.support.ports import free_port
from tests.support.waiting import LIMIT_S

pytestmark = [pytest.mark.host, host.needs(host.root)]

_CONFIG = """
DAEMON_LIST = MASTER, COLLECTOR, SCHEDD, WEB
SLOTWISE_HTTP_PORT = 0
SLOTWISE_HTTP_MAX_CONNECTIONS = 80
SLOTWISE_MAX_CONNECTIONS_PER_USER = 50
"""

#: Holds as many connections to a port as it can, from many addresses, and says how many there were before each round.
#: Half of them say the beginning of what the port wants to hear.
_CROWD = """
import resource, socket, sys, time

port, want, sources, hello = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held, made = [], 0

def lives(one):
    try:
        return bool(one.recv(4096))
    except BlockingIOError:
        return True
    except OSError:
        return False

while True:
    held = [one for one in held if lives(one)]
    before = len(held)
    while len(held) < want:
        made += 1
        try:
            one = socket.create_connection(
                ("127.0.0.1", port), 1, source_address=(f"127.0.{made % sources}.9", 0) if sources else None)
            if made % 2:
                one.send(hello)
            one.setblocking(False)
        except OSError:
            break
        held.append(one)
    print(before, flush=True)
    time.sleep(3)
"""
_HTTP2 = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0").hex()
_HALF = b"GET /api/v1/pool HTTP/1.1\r\nHost: localhost\r\n".hex()

#: Asks the collector for tokens, with the account's login and without, so often; prints the statuses.
_ASKS = """
import hashlib, sys
import grpc
from slotwise.wire import login
from slotwise.wire.gen import token_pb2, token_pb2_grpc

sock, count, who = sys.argv[1], int(sys.argv[2]), sys.argv[3]
word = login.obtain(sock)
with grpc.insecure_channel(f"unix:{sock}") as channel:
    stub = token_pb2_grpc.TokensStub(channel)
    for n in range(count):
        digest = hashlib.sha256(f"{who}{n}".encode()).hexdigest()
        asked = token_pb2.TokenRequest(identity=f"{who}@x", scopes=["READ"], secret_digest=digest)
        shown = [("authorization", f"Bearer {word}")] if n % 3 else []
        try:
            stub.Request(asked, metadata=shown, timeout=30)
            print("OK")
        except grpc.RpcError as error:
            print(error.code().name)
"""

#: Connects to login sockets without end, and reads nothing.
_FLOOD = """
import socket, sys
while True:
    for path in sys.argv[1:]:
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        try:
            one.connect(path)
        except OSError:
            pass
        one.close()
"""
_LOGS_IN = """
import sys
from slotwise.wire import login
print(sum(bool(login.obtain(sys.argv[1])) for _ in range(20) if not login._known.clear()))
"""

#: Whether the daemon at a port does not answer.
_PINGS = """
import sys
import grpc
from slotwise.wire.gen import daemon_pb2, daemon_pb2_grpc

with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}") as channel:
    told = daemon_pb2_grpc.DaemonStub(channel).Ping(daemon_pb2.PingRequest(), wait_for_ready=True, timeout=60)
    print(bool(told.identity))
"""


def _drop(user: HostUser) -> list[str]:
    return [*(opened() or []), "setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Pool, HostUser, HostUser]]:
    with host_users("eve", "ann") as (eve, ann):
        host.need(host.open_installation)
        with tempfile.TemporaryDirectory(prefix="slotwise-crowd-", dir="/var/tmp") as name:
            top = Path(name)
            top.chmod(0o755)
            pool = Pool(top / "pool", _CONFIG)
            try:
                # So few descriptors that the crowd would take all connections.
                done = subprocess.run(
                    ["sh", "-c", 'ulimit -n 4096; exec "$@"', "sh", sys.executable, "-m", "slotwise", "up"],
                    env=pool.env, cwd="/", capture_output=True, text=True, timeout=2 * LIMIT_S,
                )  # fmt: skip
                assert done.returncode == 0, done.stderr + pool.logs()
                yield pool, eve, ann
            finally:
                with contextlib.suppress(AssertionError):
                    pool.down()
                pool.destroy()


@contextlib.contextmanager
def working(user: HostUser, script: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process of a user that goes on with its script."""
    one = subprocess.Popen(
        [*_drop(user), sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True, cwd="/"
    )
    try:
        yield one
        assert one.poll() is None, "the crowd is gone"
    finally:
        one.kill()
        one.communicate()


def done_by(user: HostUser, script: str, *words: str) -> str:
    command = [*_drop(user), sys.executable, "-c", script, *words]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def held_by(crowd: subprocess.Popen[str]) -> int:
    assert crowd.stdout is not None
    return int(crowd.stdout.readline())


def test_one_account_has_its_part_of_a_port_from_all_loopback_addresses(
    place: tuple[Pool, HostUser, HostUser],
) -> None:
    pool, eve, ann = place
    port = address.lookup(pool.home, "collector").tcp.rpartition(":")[2]
    with working(eve, _CROWD, port, "4000", "16", _HTTP2) as crowd:
        held_by(crowd)
        closed = f"connections of {eve.name}, who has more than SLOTWISE_MAX_CONNECTIONS_PER_USER"
        log = pool.home.log / "CollectorLog"
        pool.until("connections are closed", lambda: closed in log.read_text())
        assert " of <127." not in log.read_text()
        # The relative: another account over the loopback interface, and all over sockets.
        for _ in range(5):
            assert done_by(ann, _PINGS, port).strip() == "False"
        assert pool.run("status", "-schedd").returncode == 0


#: Keeps so many connections to a port, and looks every 0.2 s which of them are left.
_FLOOD_OF_A_PORT = _CROWD.replace("time.sleep(3)", "time.sleep(0.2)")
#: Has a place at the shared port, and a daemon behind it, as often as it asks; prints how often.
_PASSES = """
import socket, sys
passed = 0
for _ in range(10):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60) as one:
        one.settimeout(60)
        one.sendall(b"CONNECT collector.sock.slotwise:1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        passed += one.recv(4096).startswith(b"HTTP/1.1 200")
print(passed)
"""


def test_a_flood_of_one_account_leaves_the_shared_port_to_others() -> None:
    port = str(free_port())
    with host_users("eve", "ann") as (eve, ann), tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name:
        host.need(host.open_installation)
        Path(name).chmod(0o755)
        authority = Authority(Path(name) / "tls")
        authority.issue("server")
        pool = Pool(
            Path(name) / "p",
            _CONFIG.replace(", SCHEDD, WEB", "")
            + f"SLOTWISE_LISTEN = 0.0.0.0\nSHARED_PORT_PORT = {port}\nCOLLECTOR_HOST = localhost:{port}\n"
            + f"AUTH_SSL_SERVER_CERTFILE = {authority.directory}/server.pem\n"
            + f"AUTH_SSL_SERVER_KEYFILE = {authority.directory}/server.key\n"
            + f"AUTH_SSL_CLIENT_CAFILE = {authority.directory}/ca.pem\n",
        )
        try:
            words = [*(opened() or []), sys.executable, "-m", "slotwise", "up"]
            subprocess.run(words, env=pool.env, cwd="/", capture_output=True, check=True, timeout=2 * LIMIT_S)
            with working(eve, _FLOOD_OF_A_PORT, port, "4000", "16", _HTTP2) as crowd:
                log = pool.home.log / "SharedPortLog"
                closed = f"closed a connection of uid {eve.uid}, more than SLOTWISE_MAX_CONNECTIONS_PER_USER"
                pool.until("connections are closed", lambda: log.exists() and closed in log.read_text())
                assert done_by(ann, _PASSES, port).strip() == "10"
                assert held_by(crowd) <= 50 * 8
        finally:
            pool.destroy()


def test_half_requests_of_one_account_leave_the_page_to_others(place: tuple[Pool, HostUser, HostUser]) -> None:
    pool, eve, ann = place
    log = pool.home.log / "WebLog"
    serving = re.compile(r"serving http://127\.0\.0\.1:(\d+)/")
    port = pool.until("the service serves", lambda: serving.findall(log.read_text()))[-1]
    asks = (
        "import sys, urllib.request\n"
        "for _ in range(10):\n"
        "    print(urllib.request.urlopen(f'http://localhost:{sys.argv[1]}/api/v1/pool', timeout=60).status)"
    )
    for sources in ("0", "16"):
        with working(eve, _CROWD, port, "400", sources, _HALF) as crowd:
            pool.until("it has its part and no more", lambda crowd=crowd: 5 <= held_by(crowd) <= 20)
            assert done_by(ann, asks, port).split() == ["200"] * 10


def test_requests_for_tokens_of_one_account_leave_others_their_places(place: tuple[Pool, HostUser, HostUser]) -> None:
    pool, eve, ann = place
    sock = str(pool.home.run / "collector.sock")
    told = done_by(eve, _ASKS, sock, "60", "eve").split()
    assert {"OK", "RESOURCE_EXHAUSTED"} == set(told)
    assert done_by(ann, _ASKS.replace("if n % 3", "if True"), sock, "10", "ann").split() == ["OK"] * 10


def test_a_flood_of_logins_fails_nobody_elses(place: tuple[Pool, HostUser, HostUser]) -> None:
    pool, eve, ann = place
    sock = pool.home.run / "schedd.sock"
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(working(eve, _FLOOD, str(sock.with_suffix(".login"))))
        assert done_by(ann, _LOGS_IN, str(sock)).strip() == "20"
