"""What <DAEMON>_ENVIRONMENT gives a daemon."""

from __future__ import annotations

from pathlib import Path

from slotwise.config import load
from slotwise.master.daemon_environment import of_config


def test_a_daemon_has_its_own_and_a_starter_the_startds(tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_text("STARTD_ENVIRONMENT = A=1;B=2\nSTARTER_ENVIRONMENT = \"B='two words' C=3\"\n")
    config = load(file, env={})
    assert of_config(config, "startd") == ({"A": "1", "B": "2"}, [])
    assert of_config(config, "starter") == ({"A": "1", "B": "two words", "C": "3"}, [])
    assert of_config(config, "schedd") == ({}, [])


def test_what_cannot_be_read_is_left_out_and_told(tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_text('SCHEDD_ENVIRONMENT = "A=1 B"\n')
    found, wrong = of_config(load(file, env={}), "schedd")
    assert found == {} and len(wrong) == 1 and wrong[0].startswith("SCHEDD_ENVIRONMENT is left out: ")
