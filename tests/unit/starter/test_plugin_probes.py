"""What transfer plugins answer when they are asked what they serve."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from slotwise.starter.transfer.plugins import Plugins, find_plugins


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "`-classad` ended with exit status 3"),
        ("echo it is broken >&2; exit 1", "`-classad` ended with exit status 1: it is broken"),
        ("kill -KILL $$", "`-classad` ended with signal 9"),
        ("echo 'PluginVersion = \"1\"'", "`-classad` prints no SupportedMethods"),
    ],
)
def test_a_plugin_that_serves_nothing_is_logged_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, script: str, why: str
) -> None:
    program, good = tmp_path / "broken", tmp_path / "good"
    program.write_text(f"#!/bin/sh\n{script}\n")
    good.write_text("#!/bin/sh\necho 'SupportedMethods = \"debug\"'\n")
    for each in (program, good):
        each.chmod(0o755)
    absent = tmp_path / "absent"
    with caplog.at_level(logging.WARNING):
        plugins = asyncio.run(find_plugins([str(absent), str(program), str(good)], tmp_path))
    assert Plugins(plugins).methods == "debug"
    assert [record.getMessage() for record in caplog.records] == [
        f"FILETRANSFER_PLUGINS: {program} serves no URLs: {why}"
    ]


def test_a_plugin_that_cannot_be_run_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    program = tmp_path / "plugin"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    with caplog.at_level(logging.WARNING):
        assert not asyncio.run(find_plugins([str(program)], tmp_path))
    assert [record.getMessage() for record in caplog.records] == [
        f"FILETRANSFER_PLUGINS: {program} serves no URLs: it cannot be run: No such file or directory"
    ]
