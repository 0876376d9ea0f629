"""Which files administrators get from a daemon by the names of logs, and which nobody gets."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from slotwise.config import load
from slotwise.daemon import fetched_logs
from slotwise.errors import NotFoundError, UsageError
from slotwise.home import PoolHome


def _files(tmp_path: Path, name: str, **knobs: str) -> list[str]:
    home = PoolHome(tmp_path)
    text = {f"_CONDOR_{knob}": value for knob, value in knobs.items()} | {"CONDOR_CONFIG": os.devnull}
    found = fetched_logs.files(home, name, load(None, subsystem="MASTER", env=text, home=home))
    return [str(path.relative_to(tmp_path)) if path.is_relative_to(tmp_path) else str(path) for path in found]


def _read(path: Path) -> bytes:
    async def whole() -> bytes:
        return b"".join([data async for data in fetched_logs.pieces(path)])

    return asyncio.run(whole())


def test_names_are_those_of_daemons_and_histories(tmp_path: Path) -> None:
    assert _files(tmp_path, "SCHEDD") == ["log/SchedLog"]
    assert _files(tmp_path, "STARTER.slot1_2") == ["log/StarterLog.slot1_2"]
    assert _files(tmp_path, "SCHEDD_AUDIT") == ["log/SchedAuditLog"]
    assert _files(tmp_path, "STARTD", STARTD_LOG="/elsewhere/S") == ["/elsewhere/S"]
    (tmp_path / "h").write_text("new")
    (tmp_path / "h.20260101T000000").write_text("old")
    assert _files(tmp_path, "HISTORY", HISTORY=str(tmp_path / "h")) == ["h.20260101T000000", "h"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "SCHEDD/../../etc/passwd",
        "SCHEDD./../../etc/passwd",
        "SCHEDD..",
        "SCHEDD.old/../../x",
        "SCHEDD.old.old",
        "SCHEDD\0",
        "SCHEDD.\n",
        "schedd",
        "SCHEDD." + "x" * 4000,
    ],
)
def test_what_is_not_a_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        _files(tmp_path, name)


@pytest.mark.parametrize("name", ["JOB_QUEUE", "EVENT", "SEC_PASSWORD", "SCHEDD_SECRETS", "TOOL"])
def test_other_knobs_name_no_log(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFoundError):
        _files(tmp_path, name, TOOL_LOG="/etc/passwd", JOB_QUEUE_LOG="/etc/passwd", EVENT_LOG="/etc/passwd")


def test_links_pipes_and_directories_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    (tmp_path / "link").symlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", ".", "nothing"):
        with pytest.raises(NotFoundError):
            _read(tmp_path / name)


def test_a_large_log_comes_whole(tmp_path: Path) -> None:
    text = os.urandom(700_000)
    (tmp_path / "log").write_bytes(text)
    assert _read(tmp_path / "log") == text
