"""One user of a host cannot keep the others out by connections and streams without end."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import host
from tests.support.accounts import HostUser, host_users
from tests.support.open_installation import opened
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

#: Opens connections to the sockets for as long as it lives: each says as much as gRPC wants to hear, and stays.
_CROWD = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
hello = b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + b"\\0\\0\\0\\4\\0\\0\\0\\0\\0"
held = {}

def lives(one):
    try:
        return bool(one.recv(4096))
    except BlockingIOError:
        return True
    except OSError:
        return False

while True:
    for path in sys.argv[1:]:
        mine = held.setdefault(path, [])
        mine[:] = [one for one in mine if lives(one)]
        while len(mine) < 900:
            one = socket.socket(socket.AF_UNIX)
            try:
                one.settimeout(1)
                one.connect(path)
                one.send(hello)
                one.setblocking(False)
            except OSError:
                break
            mine.append(one)
    print(*(len(mine) for mine in held.values()), flush=True)
    time.sleep(0.05)
"""


_CONFIG = "DAEMON_LIST = MASTER, COLLECTOR, SCHEDD\nSLOTWISE_MAX_CONNECTIONS_PER_USER = 50\n"


def _drop(user: HostUser) -> list[str]:
    return [*(opened() or []), "setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]


@pytest.fixture
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
                    ["sh", "-c", 'ulimit -Sn 600; exec "$@"', "sh", sys.executable, "-m", "slotwise", "up"],
                    env=pool.env, cwd="/", capture_output=True, text=True, timeout=2 * LIMIT_S,
                )  # fmt: skip
                assert done.returncode == 0, done.stderr + pool.logs()
                yield pool, eve, ann
            finally:
                with contextlib.suppress(AssertionError):
                    pool.down()
                pool.destroy()


def test_a_crowd_of_one_users_connections_keeps_nobody_out(place: tuple[Pool, HostUser, HostUser]) -> None:
    pool, eve, ann = place
    sockets = [str(pool.home.run / f"{name}.sock") for name in ("schedd", "collector")]
    crowd = subprocess.Popen(
        [*_drop(eve), sys.executable, "-c", _CROWD, *sockets], stdout=subprocess.PIPE, text=True, cwd="/"
    )
    try:
        assert crowd.stdout is not None
        crowd.stdout.readline()

        def schedd_log() -> str:
            return (pool.home.log / "SchedLog").read_text()

        pool.until("connections are closed", lambda: f"connections of {eve.name}" in schedd_log())
        work = ann.home / "work"
        script = "executable = /bin/true\nqueue\n"
        ann.run(f"mkdir {work}; printf '{script}' > {work}/job.sub")
        env = pool.env | {"HOME": str(ann.home)}

        def as_ann(*words: str) -> subprocess.CompletedProcess[str]:
            command = [*_drop(ann), "sh", "-c", f'cd {work}; exec "$@"', "sh", sys.executable, "-m", "slotwise", *words]
            return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=LIMIT_S)

        for _ in range(3):
            told = as_ann("submit", "job.sub")
            assert told.returncode == 0, told.stderr
            told = as_ann("q", "-af", "ClusterId")
            assert told.returncode == 0, told.stderr
            assert as_ann("status").returncode == 0
        assert len(told.stdout.split()) == 3
        assert crowd.poll() is None
        held = [int(word) for word in crowd.stdout.readline().split()]
        assert held, "the crowd is gone"
    finally:
        crowd.kill()
        crowd.wait()
        assert crowd.stdout is not None
        crowd.stdout.close()
        subprocess.run(["pkill", "-KILL", "-u", str(eve.uid)], check=False)
