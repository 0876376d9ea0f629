"""Tokens of a pool that runs: replacing those of the old kind, fetching, and revoking."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jwt
from slotwise.home import PoolHome
from slotwise.wire.token import write_secret

from tests.support.pool import Pool

OLD_KEY = "a key that every host of the pool has"


def test_a_pool_of_the_old_kind_is_refused_until_it_is_upgraded(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("DAEMON_LIST = MASTER, COLLECTOR, SCHEDD\n")
    PoolHome(pool.home.root).create()
    write_secret(pool.home.secrets / "pool.key", OLD_KEY)
    shown = pool.root / "bob.token"
    old = jwt.encode({"sub": "bob@dom", "scope": "READ", "iat": 1}, OLD_KEY, algorithm="HS256")
    write_secret(shown, old)
    refused = pool.run("up", check=False)
    assert refused.returncode == 1 and "slotwise token upgrade" in refused.stderr
    pool.run("token", "upgrade", str(shown))
    assert not (pool.home.secrets / "pool.key").exists()
    pool.up()
    (row,) = json.loads(pool.run("ping", "schedd", "--json", SLOTWISE_TOKEN_FILE=str(shown)).stdout)
    assert (row["Identity"], row["Scopes"]) == ("bob@dom", ["READ"])
    write_secret(shown, old)
    refused = pool.run("q", check=False, SLOTWISE_TOKEN_FILE=str(shown))
    assert refused.returncode == 1 and "slotwise token upgrade" in refused.stderr


def test_a_fetched_token_counts_at_all_daemons_until_it_is_revoked(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("DAEMON_LIST = MASTER, COLLECTOR, SCHEDD\n")
    pool.up()
    pool.run("token", "fetch", "-authz", "READ", "-lifetime", "1h", "-file", "mine")
    mine: dict[str, Any] = {"SLOTWISE_TOKEN_FILE": str(pool.root / "mine")}
    for name in ("collector", "schedd"):
        (row,) = json.loads(pool.run("ping", name, "--json", **mine).stdout)
        assert row["Scopes"] == ["READ"]
    more = pool.run("token", "fetch", "-authz", "ADMINISTRATOR", check=False, **mine)
    assert more.returncode == 1 and "may not do ADMINISTRATOR" in more.stderr
    pool.run("token", "revoke", "-file", "mine")

    def revoked() -> bool:
        done = [pool.run(*words, check=False, **mine) for words in (["q"], ["status"])]
        return all(each.returncode == 1 and "has been revoked" in each.stderr for each in done)

    pool.until("all daemons refuse it", revoked)


def test_programs_take_tokens_as_json(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool("DAEMON_LIST = MASTER, COLLECTOR\n")
    pool.up()
    for words in (["fetch"], ["create", "-identity", "bob@dom"]):
        told = json.loads(pool.run("token", *words, "-authz", "READ", "--json").stdout)
        shown = pool.root / words[0]
        write_secret(shown, told["token"] + "\n")
        (row,) = json.loads(pool.run("ping", "collector", "--json", SLOTWISE_TOKEN_FILE=str(shown)).stdout)
        assert row["Scopes"] == ["READ"]
    told = json.loads(pool.run("token", "fetch", "-file", "mine", "--json").stdout)
    assert told == {"file": str(pool.root / "mine")} and (pool.root / "mine").read_text().count(".") == 2
    assert json.loads(pool.run("token", "requests", "--json").stdout) == []
    asked = pool.run("token", "approve", "--json", check=False)
    assert asked.returncode == 2 and "name requests or codes" in asked.stderr
