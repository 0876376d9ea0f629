"""Glide-ins: execution points of an ordinary user, with a token that only advertises, in a pool reached over TLS."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.daemon import process

from tests.support import host
from tests.support.accounts import HostUser, host_users
from tests.support.certificates import Authority
from tests.support.open_installation import opened
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S, PATIENCE, block_until

CONFIG = """
UID_DOMAIN = example.org
SLOTWISE_LISTEN = 127.0.0.1
COLLECTOR_HOST = localhost:0
SLOTWISE_COLLECTOR_PORT = 0
DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_CYCLE_DELAY = 0
"""
CERTIFICATE = """
AUTH_SSL_SERVER_CERTFILE = {tls}/server.pem
AUTH_SSL_SERVER_KEYFILE = {tls}/server.key
AUTH_SSL_CLIENT_CAFILE = {tls}/ca.pem
"""


class Running:
    """A glide-in that runs; ``words`` are those of ``slotwise glidein``."""

    def __init__(self, user: HostUser | None, place: Path, *words: str, **env: str) -> None:
        self.user = user
        self.work = place / "work"
        self.work.mkdir(exist_ok=True)
        self.output = place / "output"
        command = [sys.executable, "-m", "slotwise", "glidein", "--workdir", str(self.work), *words]
        if user is not None:
            os.chown(self.work, user.uid, user.gid)
            drop = ["setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups"]
            command = [*(opened() or []), *drop, *command]
        base = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(place), "PYTHONPATH": os.environ["PYTHONPATH"]}
        env["_CONDOR_SLOTWISE_START_TIMEOUT"] = f"{LIMIT_S:g}"
        with self.output.open("wb") as stream:
            self.process = subprocess.Popen(
                command, env=base | env, cwd=place, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def until(self, shown: str) -> None:
        def is_shown() -> bool:
            ended = self.process.poll() is not None
            found = shown in self.text()
            assert found or not ended, self.text()
            return found

        block_until(is_shown, f"it says {shown!r}", told=self.text)

    def status(self) -> int:
        return self.process.wait(2 * LIMIT_S)

    def guard(self) -> int:
        """The process that keeps the glide-in."""
        return next(pid for pid in below(self.process.pid) if "slotwise.glidein.guard" in process.title(pid))


def below(pid: int) -> list[int]:
    found, waiting = [], process.children(pid)
    while waiting:
        found.append(waiting.pop())
        waiting += process.children(found[-1])
    return found


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        authority = Authority(Path(directory) / "tls")
        authority.issue("server")
        made = Pool(Path(directory) / "p", CONFIG + CERTIFICATE.format(tls=authority.directory))
        try:
            made.up()
            yield made
        finally:
            made.destroy()


@pytest.fixture(scope="module")
def user() -> Iterator[HostUser | None]:
    """An ordinary user; None where the tests are one's own."""
    if os.geteuid() != 0:
        yield None
        return
    host.need(host.open_installation)
    with host_users("glide") as (made,):
        yield made


@pytest.fixture
def place(user: HostUser | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of the user's."""
    import slotwise

    monkeypatch.setenv("PYTHONPATH", str(Path(slotwise.__file__).parent.parent))
    with tempfile.TemporaryDirectory(prefix="gl-", dir="/var/tmp", ignore_cleanup_errors=True) as directory:
        if user is not None:
            os.chown(directory, user.uid, user.gid)
        yield Path(directory)


@pytest.fixture
def token(pool: Pool, place: Path, user: HostUser | None) -> Path:
    return given(pool, place, user)


def given(pool: Pool, place: Path, user: HostUser | None, *words: str) -> Path:
    path = place / "glidein.token"
    pool.run("token", "glidein", "--file", str(path), *words)
    if user is not None:
        os.chown(path, user.uid, user.gid)
    return path


def submit(pool: Pool, name: str, script: str, *more: str) -> str:
    """Queue a job; returns its cluster."""
    program = pool.root / f"{name}.sh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    lines = [f"executable = {program}", f"output = {name}.out", "should_transfer_files = yes", *more, "queue"]
    (pool.root / f"{name}.sub").write_text("\n".join(lines) + "\n")
    return pool.run("submit", f"{name}.sub").stdout.rpartition("cluster ")[2].strip(". \n")


def status_of(pool: Pool, cluster: str) -> str:
    return pool.run("q", cluster, "-af", "JobStatus").stdout.strip()


def test_a_job_runs_as_the_user_of_the_glide_in_which_ends_when_it_is_idle(
    pool: Pool, user: HostUser | None, place: Path, token: Path
) -> None:
    cluster = submit(pool, "whoami", "id -u; echo $PWD")
    glidein = Running(user, place, "--token", str(token), "--idle", "6", "--site", 'the "lab"', "--memory", "2G")
    pool.until("the job has run", lambda: not status_of(pool, cluster))
    uid, scratch = (pool.root / "whoami.out").read_text().split()
    assert int(uid) == (os.geteuid() if user is None else user.uid)
    assert scratch.startswith(str(glidein.work))
    assert glidein.status() == 0, glidein.text()
    assert "no claim for 6.0 s" in glidein.text() and "StarterLog: " in glidein.text()
    assert not list(glidein.work.iterdir()), "its home is removed"
    pool.until("its ads are gone", lambda: not pool.run("status", "-af", "Name").stdout)


def test_its_ads_say_what_it_is_and_jobs_that_outlast_it_do_not_start(
    pool: Pool, user: HostUser | None, place: Path, token: Path
) -> None:
    long = submit(pool, "long", "sleep 1", "allowed_execute_duration = 100000")
    unknown = submit(pool, "unknown", "sleep 1000")
    lifetime = int(40 * PATIENCE)
    glidein = Running(user, place, "--token", str(token), "--lifetime", str(lifetime), "--site", "lab", "--cpus", "2")
    pool.until("a job runs", lambda: status_of(pool, unknown) == "2")
    ad = pool.json("status", "-constraint", "PartitionableSlot")[0]
    assert (ad["Is_Glidein"], ad["GlideinSite"]) == (True, "lab")
    assert 0 < ad["GlideinEnd"] - time.time() <= lifetime
    assert glidein.status() == 0, glidein.text()
    assert "its end is near" in glidein.text()
    pool.until("the job waits again", lambda: status_of(pool, unknown) == "1")
    assert pool.run("q", long, "-af", "NumJobStarts", "JobStatus").stdout.split() == ["0", "1"]
    pool.run("rm", "-all")


@pytest.mark.parametrize("victim", ["command", "guard"])
def test_nothing_is_left_of_a_glide_in_that_is_killed(
    pool: Pool, user: HostUser | None, place: Path, token: Path, victim: str
) -> None:
    cluster = submit(pool, "victim", "sleep 1000")
    glidein = Running(user, place, "--token", str(token))
    pool.until("the job runs", lambda: status_of(pool, cluster) == "2")

    def with_job() -> list[int]:
        found = below(glidein.process.pid)
        return found if any("sleep 1000" in process.title(pid) for pid in found) else []

    its = pool.until("the job is among its processes", with_job)
    os.kill(glidein.process.pid if victim == "command" else glidein.guard(), signal.SIGKILL)
    pool.until("all processes have ended", lambda: not any(map(process.alive, its)))
    assert glidein.status() == (-signal.SIGKILL if victim == "command" else 4)
    pool.until("its directory is removed", lambda: not list(glidein.work.iterdir()))
    pool.until("its ads are gone", lambda: not pool.run("status", "-af", "Name").stdout)
    pool.run("rm", "-all")


def test_a_job_has_the_notice_of_the_batch_system_to_leave(
    pool: Pool, user: HostUser | None, place: Path, token: Path
) -> None:
    script = "trap 'echo saved; exit 0' TERM\necho begun\nsleep 1000 & wait"
    cluster = submit(pool, "saves", script, "when_to_transfer_output = ON_EXIT_OR_EVICT")
    glidein = Running(user, place, "--token", str(token), "--notice", f"{int(20 * PATIENCE)}s")
    pool.until("the job runs", lambda: status_of(pool, cluster) == "2")
    glidein.process.terminate()
    assert glidein.status() == 0, glidein.text()
    assert "SIGTERM: jobs have" in glidein.text()
    left = pool.run("q", cluster, "-af", "JobStatus").stdout.strip()
    assert left in ("", "1"), "it has ended by itself, or waits to run again"
    if not left:
        assert "saved" in (pool.root / "saves.out").read_text()
    pool.run("rm", "-all")


def test_whoever_drains_a_glide_in_shows_it_nothing_that_it_could_use(
    pool: Pool, user: HostUser | None, place: Path, token: Path
) -> None:
    """An administrator's token would make its user, and any job there, one too."""
    glidein = Running(user, place, "--token", str(token), "--quiet")
    glidein.until("advertises")
    slot = pool.run("status", "-af", "Name").stdout.split()[0]
    admin = pool.root / "admin.token"
    pool.run("token", "create", "--identity", "admin@example.org", "--scope", "ADMINISTRATOR", "--file", str(admin))
    refused = pool.run("drain", slot, check=False, SLOTWISE_TOKEN_FILE=str(admin))
    assert refused.returncode and "no token is sent to" in refused.stderr, refused.stdout
    # On the central manager a proof for that glide-in alone is shown.
    pool.run("drain", slot)
    pool.until("it drains", lambda: "Drained" in pool.run("status", "-af", "State").stdout)
    glidein.process.kill()
    glidein.status()


def test_no_authority_is_needed_where_addresses_name_keys(user: HostUser | None, place: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        pool = Pool(Path(directory) / "p", CONFIG + "SLOTWISE_ADDRESS_KEY = True\n")
        try:
            pool.up()
            path = given(pool, place, user)
            assert "CERTIFICATE" not in path.read_text() and "?key=" in path.read_text()
            cluster = submit(pool, "hello", "echo hello")
            glidein = Running(user, place, "--token", str(path), "--idle", "5", "--quiet")
            pool.until("the job has run", lambda: not status_of(pool, cluster))
            assert (pool.root / "hello.out").read_text() == "hello\n"
            assert glidein.status() == 0, glidein.text()
            # Another key in the address is another pool: nothing is sent there.
            text = path.read_text().replace("?key=A", "?key=B")
            path.write_text(text)
            refused = Running(user, place, "--token", str(path), "--join-timeout", "1")
            assert refused.status() == 3, refused.text()
            assert "has no place in the pool" in refused.text()
        finally:
            pool.destroy()


def test_a_revoked_token_and_one_of_another_kind_are_refused(
    pool: Pool, user: HostUser | None, place: Path, token: Path
) -> None:
    from slotwise.wire.token import peek

    pool.run("token", "revoke", peek(token.read_text().split()[0])[1]["jti"])
    asks = ("status", "-any", "-af", "Name")
    pool.until("that is known", lambda: pool.run(*asks, check=False, SLOTWISE_TOKEN_FILE=str(token)).returncode)
    refused = Running(user, place, "--token", str(token))
    assert refused.status() == 3, refused.text()
    assert "revoked" in refused.text()
    token.write_text("no token at all\n")
    assert Running(user, place, "--token", str(token)).status() == 2


def test_its_token_advertises_execution_points_and_does_nothing_else(pool: Pool, place: Path) -> None:
    path = given(pool, place, None)
    (pool.root / "job.sub").write_text("executable = /bin/true\nqueue\n")
    ads = {
        "UPDATE_SCHEDD_AD": 'MyType = "Scheduler"\nName = "evil"\nMachine = "evil"\n',
        "UPDATE_NEGOTIATOR_AD": 'MyType = "Negotiator"\nName = "evil"\n',
        "UPDATE_AD_GENERIC": 'MyType = "Generic"\nName = "evil"\n',
    }
    for command, ad in ads.items():
        (pool.root / "ad").write_text(ad)
        refused = pool.run("advertise", command, "ad", check=False, SLOTWISE_TOKEN_FILE=str(path))
        assert refused.returncode and "may not advertise ads of kind" in refused.stdout + refused.stderr, command
    for words in (
        ("submit", "job.sub"),
        ("q",),
        ("history",),
        ("rm", "1"),
        ("userprio",),
        ("reschedule",),
        ("negotiator", "last"),
        ("off", "-schedd"),
        ("token", "fetch"),
        ("token", "requests"),
    ):
        refused = pool.run(*words, check=False, SLOTWISE_TOKEN_FILE=str(path))
        assert refused.returncode and "may not " in refused.stdout + refused.stderr, (words, refused)
    (pool.root / "ad").write_text('MyType = "Machine"\nName = "slot1@its"\nMachine = "its"\n')
    pool.run("advertise", "UPDATE_STARTD_AD", "ad", SLOTWISE_TOKEN_FILE=str(path))
    # What others advertise is seen without what is secret in it.
    seen = pool.run("status", "-any", "-long", SLOTWISE_TOKEN_FILE=str(path)).stdout
    assert "slot1@its" in seen
    assert not re.search(r"^(ClaimId|Capability|ClaimIdList|ChildClaimIds) =", seen, re.MULTILINE)
