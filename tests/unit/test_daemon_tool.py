"""HTCondor's tool for daemons, under its five names."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch


@pytest.mark.parametrize(
    ("called", "has", "lacks"),
    [
        ("condor_off", ["-peaceful", "-force-graceful", "-drain", "-daemon NAME"], ["-exec"]),
        ("condor_on", ["-all", "-constraint EXPR"], ["-fast", "-drain"]),
        ("condor_restart", ["-fast", "-drain", "-schedd"], ["-exec"]),
        ("condor_reconfig", ["-drain", "-startd"], ["-fast"]),
        ("condor_set_shutdown", ["-exec NAME", "-pool HOST:PORT"], ["-startd", "-drain"]),
    ],
)
def test_help_tells_the_options(tmp_path: Path, called: str, has: list[str], lacks: list[str]) -> None:
    err = io.StringIO()
    inv = Invocation(cwd=tmp_path, env={}, stdin=io.StringIO(), stdout=io.StringIO(), stderr=err)
    assert dispatch([called, "-help"], inv) == 0
    text = err.getvalue()
    assert text.startswith(f"Usage: {called} ")
    assert [word for word in has if word not in text] == []
    assert [word for word in lacks if word in text] == []
