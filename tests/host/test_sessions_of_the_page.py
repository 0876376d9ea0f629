"""A session of the page is its account's alone, though browsers send its cookie to every server of the host."""

from __future__ import annotations

import json
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

pytestmark = [pytest.mark.host, host.needs(host.root)]

_CONFIG = """
DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, WEB
SLOTWISE_HTTP_PORT = 0
SLOTWISE_HTTP_READ_WITHOUT_TOKEN = none
"""
#: Signs in, and prints the cookie.
_SIGNS_IN = """
import sys, urllib.request
token = open(sys.argv[2]).readline().strip()
asked = urllib.request.Request(f"http://localhost:{sys.argv[1]}/api/v1/session", method="POST",
                               headers={"Authorization": f"Bearer {token}"})
with urllib.request.urlopen(asked, timeout=60) as reply:
    print(reply.headers["set-cookie"])
"""
#: What a session lets its holder do: status by what is tried.
_TRIES = """
import json, sys, urllib.error, urllib.request
port, cookie = sys.argv[1:]
told = {}
for method, path, body in (
    ("GET", "pool", None), ("GET", "jobs", None), ("POST", "jobs", b'{"description": {"executable": "/bin/true"}}'),
    ("POST", "jobs/act", b'{"action": "hold", "constraint": "true"}')):
    asked = urllib.request.Request(f"http://localhost:{port}/api/v1/{path}", body, method=method, headers={
        "Cookie": cookie, "X-Slotwise-Request": "1", "Content-Type": "application/json"})
    try:
        told[f"{method} {path}"] = urllib.request.urlopen(asked, timeout=60).status
    except urllib.error.HTTPError as error:
        told[f"{method} {path}"] = error.code
print(json.dumps(told))
"""


def _python(user: HostUser, pool: Pool, *words: str) -> str:
    drop = ["setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]
    done = subprocess.run(
        [*(opened() or []), *drop, sys.executable, *words],
        env=pool.env | {"HOME": str(user.home), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=user.home, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def place() -> Iterator[tuple[Pool, HostUser, HostUser, str]]:
    with (
        host_users("bob", "mallory") as (bob, mallory),
        tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as name,
    ):
        host.need(host.open_installation)
        Path(name).chmod(0o755)
        pool = Pool(Path(name) / "p", _CONFIG)
        pool.root.chmod(0o755)
        words = [*(opened() or []), sys.executable, "-m", "slotwise", "up"]
        log = pool.home.log / "WebLog"
        try:
            subprocess.run(words, env=pool.env, cwd="/", capture_output=True, check=True, timeout=2 * LIMIT_S)
            serving = "serving http://127.0.0.1:"
            pool.until("the page is served", lambda: log.exists() and serving in log.read_text())
            yield pool, bob, mallory, log.read_text().split(serving)[1].split("/")[0]
        finally:
            pool.destroy()


def test_another_account_that_has_the_cookie_has_nothing(place: tuple[Pool, HostUser, HostUser, str]) -> None:
    pool, bob, mallory, port = place
    _python(bob, pool, "-m", "slotwise", "token", "fetch", "-file", str(bob.home / "t"))
    said = _python(bob, pool, "-c", _SIGNS_IN, port, str(bob.home / "t"))
    cookie = said.split(";")[0].strip()
    assert {"HttpOnly", "SameSite=strict"} <= {word.strip() for word in said.split(";")}
    tried = json.loads(_python(mallory, pool, "-c", _TRIES, port, cookie))
    assert set(tried.values()) == {401}, tried
    # Whose it is goes on.
    own = json.loads(_python(bob, pool, "-c", _TRIES, port, cookie))
    assert own["GET pool"] == own["GET jobs"] == own["POST jobs/act"] == 200 and own["POST jobs"] != 401, own
