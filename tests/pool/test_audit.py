"""The audit logs of a running pool: who changed what, allowed or refused and why."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pool import Pool
from tests.support.waiting import block_until

JOB = "executable = /bin/true\nenvironment = PASSWORD=hunter2\nqueue 2\n"
KNOBS = "UID_DOMAIN = example.org\nSTART = False\nDENY_WRITE = eve@example.org\n"


@pytest.fixture
def pool(make_pool: Callable[[str], Pool]) -> Pool:
    made = make_pool(KNOBS)
    (made.root / "job.sub").write_text(JOB)
    return made


def token_of(pool: Pool, user: str, scope: str) -> str:
    path = pool.root / f"{user}.token"
    pool.run("token", "create", "--identity", user, "--scope", scope, "--file", str(path))
    return str(path)


def lines(path: Path, *words: str) -> list[str]:
    """The lines of a log that have all the words, once there is one; without their times."""

    def found() -> list[str]:
        return [line for line in path.read_text().splitlines() if all(word in line for word in words)]

    return [line.split(" ", 2)[2] for line in block_until(found, f"{words} in {path.name}", told=path.read_text)]


def test_who_did_what_is_in_the_audit_log_of_the_daemon(pool: Pool) -> None:
    pool.up()
    bob, eve = token_of(pool, "bob@example.org", "WRITE"), token_of(pool, "eve@example.org", "WRITE")
    pool.run("submit", "job.sub", SLOTWISE_TOKEN_FILE=bob)
    pool.run("qedit", "1.0", "JobPrio", "7", SLOTWISE_TOKEN_FILE=bob)
    pool.run("qedit", "1.0", "Environment", '"PASSWORD=hunter2"', SLOTWISE_TOKEN_FILE=bob)
    pool.run("rm", "1.1", SLOTWISE_TOKEN_FILE=bob)
    pool.run("q", SLOTWISE_TOKEN_FILE=bob)
    pool.run("submit", "job.sub", check=False, SLOTWISE_TOKEN_FILE=eve)
    pool.run("qusers", "-disable", "bob", "-reason", "a b")
    pool.run("qusers", "-enable", "bob", check=False, SLOTWISE_TOKEN_FILE=bob)
    audit = pool.home.log / "SchedAuditLog"
    (submitted,) = lines(audit, "submitted 1.0-1.1")
    assert re.match(r"Schedd/Submit\w* of bob@example\.org by IDTOKENS(, token \w+)? from ", submitted)
    assert ": allowed, no ALLOW_WRITE is set" in submitted
    (edited,) = lines(audit, "Schedd/Edit of bob", "JobPrio = 7")
    assert edited.endswith("1 success")
    assert lines(audit, "Schedd/Edit of bob", "Environment = ...")
    assert lines(audit, "Schedd/Act of bob", "remove of 1.1", "1 success")
    (disabled,) = lines(audit, "Schedd/EditUsers", "disable users bob")
    assert disabled.endswith("(reason a b): 1")
    assert lines(audit, "PERMISSION DENIED to bob@example.org", "Schedd/EditUsers")
    (refused,) = lines(audit, "PERMISSION DENIED to eve@example.org", "Schedd/Submit")
    assert f"DENY_WRITE (eve@example.org) in {pool.config_file}, line 3" in refused
    assert "(authenticated by IDTOKENS" in refused
    # Who only looks is not there, nor what users keep to themselves.
    assert "Schedd/Query" not in audit.read_text()
    assert "hunter2" not in audit.read_text()
    pool.run("reconfig", "startd")
    assert lines(pool.home.log / "StartAuditLog", "Daemon/Reconfig of ", "allowed")
    pool.run("userprio", "-setfactor", "bob@example.org", "12")
    (priority,) = lines(pool.home.log / "NegotiatorAuditLog", "Negotiator/EditAccounting of ")
    assert "bob@example.org" in priority and "12" in priority


def test_failures_of_authentication_are_in_it_and_the_log_may_be_elsewhere(pool: Pool) -> None:
    elsewhere = pool.root / "audit"
    pool.config_file.write_text(f"{KNOBS}SCHEDD_AUDIT_LOG = {elsewhere}\nCOLLECTOR_AUDIT_LOG =\n")
    pool.up()
    wrong = pool.root / "wrong.token"
    wrong.write_text("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm5AaGVyZSJ9.c2lnbmF0dXJlIG9mIG5vIHBvb2wgYXQgYWxs")
    wrong.chmod(0o600)
    assert pool.run("q", check=False, SLOTWISE_TOKEN_FILE=str(wrong)).returncode
    assert lines(elsewhere, "PERMISSION DENIED to an unauthenticated user from", "Schedd/Query")
    assert not (pool.home.log / "SchedAuditLog").exists()
    assert not (pool.home.log / "CollectorAuditLog").exists()
