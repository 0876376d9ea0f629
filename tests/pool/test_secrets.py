"""What others on the machine or the network could see of a pool: its logs, its sockets, its files."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import psutil
from slotwise.daemon.process import children
from slotwise.wire.keys import SigningKey, mint

from tests.support.pool import Pool

LOUD = """
NUM_CPUS = 4
ALL_DEBUG = D_ALL:2 D_FULLDEBUG
SLOTWISE_STARTD_STIMULI_MAX_KIB = 1000
SLOTWISE_SCHEDD_STIMULI_MAX_KIB = 1000
"""
SLEEP = "executable = /bin/sleep\narguments = {}\nlog = job.log\nrequest_memory = 16M\nqueue {}\n"
TOKEN = re.compile(rb"eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]{5,}")
#: Secrets of claims and runs are 128 random bits as hexadecimal digits.
CLAIM = re.compile(rb"#(?:\d+)#(?:\d+)#([0-9a-f]{32})")


def test_logs_at_their_loudest_hold_no_token_key_or_claim(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(LOUD)
    pool.up()
    (pool.root / "short.sub").write_text(SLEEP.format(0, 8))
    environment = "environment = PASSWORD=hunter2-of-the-job\n"
    (pool.root / "long.sub").write_text(environment + SLEEP.format(600, 2))
    pool.run("submit", "short.sub")
    pool.run("wait", "job.log")
    pool.run("submit", "long.sub")
    pool.until("jobs run", lambda: '"JobStatus": 2' in pool.run("q", "--json").stdout)
    pool.run("qedit", "2", "Environment", '"PASSWORD=hunter2-of-the-edit"')
    tokens = _run_tokens(pool)  # while the runs are there for certain
    pool.run("restart", "schedd", "startd")
    pool.run("q", check=False, SLOTWISE_TOKEN_FILE=str(_wrong_token(pool)))
    secrets = {_key(path) for path in pool.home.secrets.rglob("*.pem")}
    assert len(secrets) == 3
    secrets |= _claim_secrets(pool.home.spool) | _claim_secrets(pool.home.run)
    assert len(secrets) > 3, "no claim was found, so nothing was looked for"
    secrets |= tokens
    pool.run("rm", "--all", check=False)
    pool.down()
    texts = {path: path.read_bytes() for path in pool.home.log.rglob("*") if path.is_file()}
    assert sum(map(len, texts.values())) > 10_000
    assert {"SchedAuditLog", "MasterAuditLog", "StartAuditLog"} <= {path.name for path in texts}
    assert b"submitted 1.0-1.7" in texts[pool.home.log / "SchedAuditLog"]
    steps = texts[pool.home.log / "schedd-stimuli.jsonl"]
    assert b"RunBegun" in steps and not any(secret in steps for secret in secrets)
    for path, text in texts.items():
        if stat.S_IMODE(path.stat().st_mode) & 0o077 == 0:
            continue  # the stimuli are replayed, so they hold what the startd was told; they are its owner's alone
        assert not TOKEN.search(text), f"a token in {path}"
        for secret in secrets:
            assert secret not in text, f"a secret in {path}"
        if path.name != "startd_history":  # whole ads of jobs
            assert b"hunter2" not in text, f"a job's environment in {path}"


def _wrong_token(pool: Pool) -> Path:
    """A token of another pool."""
    other = mint(SigningKey.generate(), "ann@here", ["WRITE"], issued_at=1)
    path = pool.root / "wrong.token"
    path.write_text(other)
    path.chmod(0o600)
    return path


def _key(path: Path) -> bytes:
    """The private key in a file, as it would show in a text."""
    return path.read_bytes().splitlines()[1]


def _claim_secrets(directory: Path) -> set[bytes]:
    found: set[bytes] = set()
    for path in directory.rglob("*"):
        if path.is_file():
            found |= set(CLAIM.findall(path.read_bytes()))
    return found


def _run_tokens(pool: Pool) -> set[bytes]:
    """What starters show for the runs that go on."""
    with contextlib.closing(sqlite3.connect(pool.home.spool / "schedd.sqlite")) as queue:
        found = {token.encode() for (token,) in queue.execute("SELECT token FROM runs")}
    assert found
    return found


def test_a_pool_listens_on_the_loopback_only(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 2\n")
    pool.up()
    processes = set(pool.pids().values())
    for pid in list(processes):
        processes |= set(children(pid))
    seen = 0
    for pid in processes:
        try:
            connections = psutil.Process(pid).net_connections("inet")
        except psutil.NoSuchProcess:  # a program that a daemon ran
            continue
        for connection in connections:
            if connection.status == psutil.CONN_LISTEN:
                seen += 1
                assert connection.laddr.ip.removeprefix("::ffff:") == "127.0.0.1", connection
    assert seen >= 5


def test_what_holds_secrets_is_closed_to_others(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("NUM_CPUS = 2\n")
    pool.up()
    for directory in (pool.home.secrets, pool.home.spool):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for path in pool.home.run.iterdir():  # open to all, for connecting
        about = path.lstat()
        assert stat.S_ISSOCK(about.st_mode) or path.suffix == ".json" or stat.S_IMODE(about.st_mode) == 0o600, path
    shown = pool.root / "token"
    pool.run("token", "create", "--identity", "bob@dom", "--file", str(shown))
    shown.chmod(0o644)
    refused = pool.run("q", check=False, SLOTWISE_TOKEN_FILE=str(shown))
    assert refused.returncode == 1 and f"chmod 600 {shown}" in refused.stderr


def test_a_token_of_another_pool_one_that_has_ended_and_none_are_refused(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("DAEMON_LIST = MASTER, COLLECTOR, SCHEDD\n")
    pool.up()
    pool.run("token", "create", "--identity", "bob@dom", "--scope", "WRITE", "--lifetime", "1s", "--file", "bob")
    bob, nobody = pool.root / "bob", pool.root / "nobody"
    nobody.write_text("")

    def answer(path: Path) -> str:
        done = pool.run("q", check=False, SLOTWISE_TOKEN_FILE=str(path))
        return done.stderr if done.returncode else ""

    pool.until("the token has ended", lambda: "expired" in answer(bob))
    assert "not valid in this pool" in answer(_wrong_token(pool))
    assert "carries no token" in answer(nobody)
