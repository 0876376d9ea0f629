"""A pool of an ordinary user is that user's: no other account of the host has its owner's rights, nor any."""

from __future__ import annotations

import json
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.accounts import HostUser, host_users
from tests.support.pool import Pool
from tests.support.users_pool import UsersPool

pytestmark = [pytest.mark.host, host.needs(host.root)]

#: What another account tries: every login socket, and the page. Needs nothing of ours.
_ATTACK = """
import json, os, pathlib, socket, sys, urllib.request

run, port, told = pathlib.Path(sys.argv[1]), sys.argv[2], {}
for name in sys.argv[3:]:
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(20)
        try:
            os.chdir(run)  # the path may be longer than those of sockets
            one.connect(f"{name}.login")
            told[name] = one.recv(65536).decode()
        except OSError as error:
            told[name] = type(error).__name__
for path in ("pool", "jobs", "slots"):
    try:
        told[path] = urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}", timeout=20).status
    except urllib.error.HTTPError as error:
        told[path] = error.code
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def attack() -> Iterator[tuple[UsersPool, HostUser, HostUser]]:
    host.need(host.open_installation)
    with host_users("bob", "mallory") as (bob, mallory), tempfile.TemporaryDirectory(prefix="sw-") as directory:
        Path(directory).chmod(0o755)
        root = Path(directory) / "pool"
        root.mkdir()
        pool = UsersPool(
            bob, root, "DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD WEB\nSLOTWISE_HTTP_PORT = 0\n"
        )
        try:
            pool.up()
            yield pool, bob, mallory
        finally:
            pool.run("down", "--fast", check=False)


def port_of(pool: Pool) -> str:
    log = pool.home.log / "WebLog"
    found = pool.until("the page is served", lambda: log.exists() and "serving http://127.0.0.1:" in log.read_text())
    assert found
    return log.read_text().split("serving http://127.0.0.1:")[1].split("/")[0]


def tried(pool: Pool, who: HostUser, *names: str) -> dict[str, object]:
    script = Path(pool.root) / "attack.py"
    script.write_text(_ATTACK)
    words = " ".join((str(pool.home.run), port_of(pool), *names))
    told: dict[str, object] = json.loads(who.run(f"/usr/bin/python3 {script} {words}").stdout)
    return told


DAEMONS = ("master", "collector", "negotiator", "schedd", "startd", "starter", "web")


def test_another_account_reaches_no_socket_and_does_not_see_the_page(
    attack: tuple[UsersPool, HostUser, HostUser],
) -> None:
    pool, _, mallory = attack
    told = tried(pool, mallory, *DAEMONS)
    assert {told[name] for name in DAEMONS} == {"PermissionError"}
    assert [told[path] for path in ("pool", "jobs", "slots")] == [401, 401, 401]


def test_the_owner_does(attack: tuple[UsersPool, HostUser, HostUser]) -> None:
    pool, bob, _ = attack
    told = tried(pool, bob, *DAEMONS)
    assert all("token" in str(told[name]) for name in DAEMONS)
    assert [told[path] for path in ("pool", "jobs", "slots")] == [200, 200, 200]
    assert pool.run("q").returncode == 0


def test_the_daemons_refuse_it_where_the_sockets_are_open(attack: tuple[UsersPool, HostUser, HostUser]) -> None:
    """As earlier versions left them, or a permissive umask: it was given a token, and its jobs ran as the owner."""
    pool, _, mallory = attack
    pool.home.run.chmod(0o755)
    for path in pool.home.run.iterdir():
        if stat.S_ISSOCK(path.stat().st_mode):
            path.chmod(0o666)
    told = tried(pool, mallory, *DAEMONS)
    assert {told[name] for name in DAEMONS} == {""}
    log = pool.home.log / "SchedLog"
    pool.until("the log says why", lambda: "this pool is another user's" in log.read_text())
