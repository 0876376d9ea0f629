"""What ``node install`` writes down of itself, so that it can be undone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slotwise.cli.pool.node.installation import Installation, config_file, write_config
from slotwise.cli.pool.node.join_token import JoinToken
from slotwise.errors import DeniedError, HostError, UsageError
from slotwise.home import PoolHome


@pytest.fixture
def home(tmp_path: Path) -> PoolHome:
    made = PoolHome(tmp_path / "home")
    made.create()
    return made


def test_the_record_and_the_configuration_can_be_read_by_users_whatever_the_umask_is(home: PoolHome) -> None:
    former = os.umask(0o077)
    try:
        Installation(["ep"], "cm.example:9618").save(home)
        path = config_file(home, None)
        write_config(path, {"CONDOR_HOST": "cm.example"})
    finally:
        os.umask(former)
    assert Installation.of(home) == Installation(["ep"], "cm.example:9618")
    assert path.stat().st_mode & 0o777 == (home.root / "node.json").stat().st_mode & 0o777 == 0o644
    assert "CONDOR_HOST = cm.example\n" in path.read_text()
    assert config_file(home, None) == path, "one that was interrupted goes on"


def test_somebody_elses_configuration_is_not_replaced(home: PoolHome) -> None:
    (home.root / "condor_config").write_text("START = True\n")
    with pytest.raises(DeniedError, match="did not make"):
        config_file(home, None)
    with pytest.raises(UsageError, match="would not be read"):
        config_file(home, "/etc/other")


def test_what_was_moved_away_once_is_not_moved_again(home: PoolHome) -> None:
    made, trust = Installation(["ep"]), home.secrets / "pool.json"
    trust.write_text("former")
    made.set_aside(home, trust)
    trust.write_text("of the new pool")
    made.set_aside(home, trust)
    assert trust.read_text() == "of the new pool"
    assert Path(made.moved[str(trust)]).read_text() == "former"
    with pytest.raises(HostError, match="is in the way"):
        Installation(["ep"]).set_aside(home, trust)


def test_a_join_token_is_one_word_and_nothing_else_is_one() -> None:
    token = JoinToken("cm.example:9618", "SHA256:x", "1f", "2e")
    assert JoinToken.of_text(f"  {token.text()}\n") == token and token.shown == "1f.2e"
    for wrong in ("", "slotwise-join-", "slotwise-join-e30", token.text()[:-8], token.text().removeprefix("slotwise-")):
        with pytest.raises(UsageError, match="not a join token"):
            JoinToken.of_text(wrong)
