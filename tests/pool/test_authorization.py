"""Lists of users and hosts in a running pool: one line and a reconfig ban a user, and say so."""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Callable

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

JOB = "executable = /bin/true\nlog = job.log\nqueue\n"


@pytest.fixture
def pool(make_pool: Callable[[str], Pool]) -> Pool:
    made = make_pool("UID_DOMAIN = example.org\nSTART = False\n")
    (made.root / "job.sub").write_text(JOB)
    return made


def token_of(pool: Pool, user: str, *scopes: str) -> str:
    path = pool.root / f"{user}.token"
    words = [word for scope in scopes for word in ("--scope", scope)]
    pool.run("token", "create", "--identity", user, *words, "--file", str(path))
    return str(path)


def test_one_line_and_a_reconfig_ban_a_user(pool: Pool) -> None:
    pool.up()
    bob, ann = token_of(pool, "bob@example.org", "WRITE"), token_of(pool, "ann@example.org", "WRITE")
    pool.run("submit", "job.sub", SLOTWISE_TOKEN_FILE=bob)
    config = pool.config_file.read_text()
    pool.config_file.write_text(config + "DENY_WRITE = bob@example.org\n")
    pool.run("reconfig")
    refused = pool.run("submit", "job.sub", check=False, SLOTWISE_TOKEN_FILE=bob)
    assert refused.returncode
    line = f"DENY_WRITE (bob@example.org) in {pool.config_file}, line 3"
    assert line in refused.stderr
    assert pool.run("rm", "1", check=False, SLOTWISE_TOKEN_FILE=bob).returncode
    pool.run("submit", "job.sub", SLOTWISE_TOKEN_FILE=ann)
    told = pool.run("ping", "-verbose", "schedd", "WRITE", "READ", check=False, SLOTWISE_TOKEN_FILE=bob)
    assert told.returncode == 1
    assert told.stdout.splitlines() == [
        "schedd: you are bob@example.org, authenticated by IDTOKENS",
        f"  works as          {pwd.getpwuid(os.geteuid()).pw_name} (uid {os.geteuid()}, gid {os.getegid()})",
        f"  WRITE             denied   DENY_WRITE denies `bob@example.org` ({pool.config_file}, line 3)",
        "  READ              allowed  no ALLOW_READ is set, and the token of bob@example.org grants it",
    ]
    assert pool.run("ping", "WRITE", check=False, SLOTWISE_TOKEN_FILE=bob).returncode == 1
    (row,) = json.loads(pool.run("ping", "WRITE", "-json", check=False, SLOTWISE_TOKEN_FILE=bob).stdout)
    assert (row["Knob"], row["Entry"], row["Origin"]) == (
        "DENY_WRITE", "bob@example.org", f"{pool.config_file}, line 3",
    )  # fmt: skip
    assert "2 jobs" in pool.run("q", "-allusers", SLOTWISE_TOKEN_FILE=bob).stdout
    pool.until("its log has it", lambda: line in (pool.home.log / "SchedLog").read_text())
    # What cannot be honoured is refused, and the lists stay as they were.
    pool.config_file.write_text(config + "DENY_WRITE = +students\n")
    rejected = pool.run("reconfig", check=False)
    assert "netgroup +students" in rejected.stdout + rejected.stderr
    assert pool.run("submit", "job.sub", check=False, SLOTWISE_TOKEN_FILE=bob).returncode
    pool.config_file.write_text(config)
    pool.run("reconfig")
    pool.run("submit", "job.sub", SLOTWISE_TOKEN_FILE=bob)


def test_a_pool_with_the_recommended_lists_of_htcondor_runs_jobs(pool: Pool) -> None:
    knobs = f"use security : recommended\nALLOW_ADMINISTRATOR = $(ALLOW_ADMINISTRATOR) {pool_owner()}@*\n"
    pool.config_file.write_text("UID_DOMAIN = example.org\n" + knobs)
    pool.up()
    pool.run("submit", "job.sub")
    pool.run("wait", "job.log", timeout=LIMIT_S)
    whole = pool.run("ping", "-verbose").stdout
    assert "master: you are " in whole and "  ADVERTISE_STARTD  " in whole
    assert "use SECURITY:recommended" in whole, "lists of templates have places, too"
    ann = token_of(pool, "ann@example.org", "ADMINISTRATOR")
    assert pool.run("off", "startd", check=False, SLOTWISE_TOKEN_FILE=ann).returncode


def pool_owner() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def test_a_token_of_a_trusted_issuer_submits_as_the_user_of_the_map(pool: Pool) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    jwk = {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "k", "alg": "ES256"}
    (pool.root / "issuers.json").write_text(json.dumps({"https://sci.example": {"keys": [jwk]}}))
    (pool.root / "map").write_text("SCITOKENS /^https:\\/\\/sci\\.example,(\\w+)$/ \\1@sci.example\n")
    pool.config_file.write_text(
        pool.config_file.read_text()
        + f"SLOTWISE_TRUSTED_ISSUERS = {pool.root}/issuers.json\nSLOTWISE_SCITOKENS_AUDIENCE = https://ap\n"
        + f"CERTIFICATE_MAPFILE = {pool.root}/map\nCERTIFICATE_MAPFILE_ASSUME_HASH_KEYS = true\n"
    )
    for name in ("issuers.json", "map"):
        (pool.root / name).chmod(0o644)
    pool.up()

    def token(name: str, **claims: object) -> str:
        said = {
            "iss": "https://sci.example",
            "aud": "https://ap",
            "sub": "bob",
            "exp": int(time.time()) + 600,
            **claims,
        }
        path = pool.root / name
        path.write_text(jwt.encode(said, key, algorithm="ES256", headers={"kid": "k"}))
        path.chmod(0o600)
        return str(path)

    writer = token("writer", scope="condor:/WRITE")
    pool.run("submit", "job.sub", SLOTWISE_TOKEN_FILE=writer)
    (job,) = pool.json("q", "-allusers")
    assert (job["User"], job["OsUser"]) == ("bob@sci.example", "nobody")
    told = pool.run("ping", "-verbose", "schedd", "WRITE", SLOTWISE_TOKEN_FILE=writer).stdout
    assert told.startswith("schedd: you are bob@sci.example, authenticated by SCITOKENS\n")
    assert pool.run("submit", "job.sub", check=False, SLOTWISE_TOKEN_FILE=token("none", scope="x")).returncode
    other = token("other", scope="condor:/WRITE", aud="https://elsewhere")
    assert "udience" in pool.run("submit", "job.sub", check=False, SLOTWISE_TOKEN_FILE=other).stderr
