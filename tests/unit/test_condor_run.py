"""What the words of ``condor_run`` ask for, and the submit description that is made of them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.jobs.condor_run import Asked, description, read
from slotwise.cli.main import dispatch

NAMES = {name: f".condor_{name}.7" for name in ("run", "submit", "log", "out", "error")}


@pytest.mark.parametrize("words", [[], ["-h"], ["-help", "x"], ["-a"], ["-u"], ["x", "-a"], ["-getenv"]])
def test_without_a_command_there_is_the_usage(words: list[str]) -> None:
    assert read(words) is None


def test_options_stand_before_the_command_and_behind_it() -> None:
    asked = read(["-u", "local", "echo", "-a", "request_memory=1G", "a b", "-getenv", "-append", "x=y"])
    assert asked == Asked(["echo", "a b"], "local", ["request_memory=1G", "x=y"], True)
    for words in (["-uscheduler", "x"], ["-universe", "scheduler", "x"]):
        assert read(words) == Asked(["x"], "scheduler")


def test_the_environment_says_which_machines_will_do() -> None:
    asked = Asked(["x"], statements=["rank = Memory"])
    env = {"CONDOR_REQUIREMENTS": "(Memory > 1)", "CONDOR_ARCH": "X86_64", "CONDOR_OPSYS": "LINUX"}
    text = description(asked, NAMES, env)
    assert 'requirements = (Memory > 1) && Arch == "X86_64" && OpSys == "LINUX"\nrank = Memory\nqueue\n' in text
    assert "requirements" not in description(asked, NAMES, {"CONDOR_ARCH": ""})
    assert "getenv" not in text and "getenv = True\n" in description(Asked(["x"], getenv=True), NAMES, {})


def test_a_file_that_is_there_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: 7)
    (tmp_path / "theirs").write_text("as it was")
    (tmp_path / ".condor_submit.7").symlink_to("theirs")
    out, err = io.StringIO(), io.StringIO()
    assert dispatch(["condor_run", "true"], Invocation(tmp_path, {}, io.StringIO(), out, err)) == 1
    assert ".condor_submit.7" in err.getvalue() and (tmp_path / "theirs").read_text() == "as it was"
    assert {path.name for path in tmp_path.iterdir()} == {"theirs", ".condor_submit.7"}
