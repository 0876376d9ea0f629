"""`slotwise config set` against running daemons: who may set what, what is kept, when it counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.pool import Pool

KNOBS = """
UID_DOMAIN = example.org
ENABLE_RUNTIME_CONFIG = True
SETTABLE_ATTRS_CONFIG = FOO*, SCHEDD_INTERVAL, ENABLE_*
SETTABLE_ATTRS_WRITE = BAR
DENY_CONFIG = eve@example.org
"""


@pytest.fixture
def pool(make_pool: Callable[[str], Pool]) -> Pool:
    return make_pool(KNOBS)


def token_of(pool: Pool, user: str, scope: str) -> str:
    path = pool.root / f"{user}.token"
    pool.run("token", "create", "--identity", user, "--scope", scope, "--file", str(path))
    return str(path)


def test_a_daemon_keeps_what_its_lists_allow(pool: Pool) -> None:
    pool.config_file.write_text(KNOBS + f"ENABLE_PERSISTENT_CONFIG = True\nPERSISTENT_CONFIG_DIR = {pool.root}/told\n")
    told = pool.root / "told"
    told.mkdir()
    pool.up()
    bob, ann, eve = (
        token_of(pool, f"{who}@example.org", scope)
        for who, scope in (("bob", "WRITE"), ("ann", "CONFIG"), ("eve", "CONFIG"))
    )
    place = f"{pool.config_file}, line"

    def schedd(verb: str, word: str, token: str, *more: str) -> str:
        done = pool.run("config", verb, "-schedd", *more, word, check=False, SLOTWISE_TOKEN_FILE=token)
        return "" if done.returncode == 0 else done.stderr

    def value(name: str) -> str:
        return pool.run("config", "val", "-schedd", name, check=False).stdout.strip()

    assert schedd("set", "FOO = 1", ann) == ""
    assert schedd("set", "BAR = 2", bob, "-runtime") == ""
    assert f"FOO*` ({place} 4), and CONFIG is not allowed: the token of bob" in schedd("set", "FOO = 3", bob)
    assert f"DENY_CONFIG denies `eve@example.org` ({place} 6)" in schedd("set", "FOO = 3", eve)
    assert f"SETTABLE_ATTRS_CONFIG ({place} 4) does not have ALLOW_WRITE" in schedd("set", "ALLOW_WRITE = *", ann)
    assert "SCHEDD_INTERVAL" in schedd("set", "SCHEDD_INTERVAL = often", ann), "daemons would refuse it"
    # Without a token a local user has READ and WRITE; the pool's owner has all.
    assert value("FOO") == "", "it counts from the next reconfig on"
    pool.run("reconfig")
    assert (value("FOO"), value("BAR")) == ("1", "2")
    assert (told / ".config.SCHEDD.foo").read_text() == "FOO = 1\n"
    pool.run("config", "val", "FOO", check=False)
    pool.kill("schedd")
    pool.until("the schedd is back", lambda: pool.answers("schedd"))
    assert (value("FOO"), value("BAR")) == ("1", ""), "run-time settings end with the daemon"
    assert schedd("unset", "FOO", bob) != ""
    assert schedd("unset", "FOO", ann) == ""
    pool.run("reconfig")
    assert value("FOO") == ""
    log = pool.home.log / "SchedAuditLog"
    pool.until("the audit log has her", lambda: "eve@example.org" in log.read_text())
    audit = log.read_text()
    assert f"set FOO (persistent), SETTABLE_ATTRS_CONFIG has `FOO*` ({place} 4)" in audit
    assert "PERMISSION DENIED to eve@example.org" in audit or "refused Daemon/SetConfig of eve@example.org" in audit


def test_what_is_not_enabled_cannot_be_enabled_from_afar(pool: Pool) -> None:
    pool.up()
    # Without a token: the pool's owner.
    pool.run("config", "set", "-schedd", "-runtime", "ENABLE_PERSISTENT_CONFIG = True")
    pool.run("config", "set", "-schedd", "-runtime", "FOO = 1")
    pool.run("reconfig")
    refused = pool.run("config", "set", "-schedd", "FOO = 2", check=False)
    assert "ENABLE_PERSISTENT_CONFIG was false when this daemon started" in refused.stderr
    pool.kill("schedd")
    pool.until("the schedd is back", lambda: pool.answers("schedd"))
