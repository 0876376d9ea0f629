"""Which files administrators get from a daemon by the names of logs, and which nobody gets."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from slotwise.config import load
from slotwise.config.daemon_account import DaemonAccount
from slotwise.daemon import fetched_logs, privileges
from slotwise.errors import NotFoundError, UsageError
from slotwise.home import PoolHome

from tests.support import host
from tests.support.waiting import LIMIT_S


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
    (tmp_path / "hard").hardlink_to(secret)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "hard", "pipe", ".", "nothing"):
        with pytest.raises(NotFoundError):
            _read(tmp_path / name)


def test_a_large_log_comes_whole(tmp_path: Path) -> None:
    text = os.urandom(700_000)
    (tmp_path / "log").write_bytes(text)
    assert _read(tmp_path / "log") == text


def test_a_part_of_a_history_that_is_put_aside_meanwhile_is_left_out(tmp_path: Path) -> None:
    home, history = PoolHome(tmp_path), tmp_path / "h"
    text = {"_CONDOR_HISTORY": str(history), "CONDOR_CONFIG": os.devnull}
    config = load(None, subsystem="SCHEDD", env=text, home=home)
    for name in ("h.20260101T000000", "h.20260102T000000", "h"):
        (tmp_path / name).write_text(name + "\n")
    history.with_name("h.20260101T000000").touch()
    os.utime(tmp_path / "h.20260101T000000", (1, 1))

    async def fetched() -> list[bytes]:
        found = []
        async for data in fetched_logs.fetch(home, "HISTORY", config):
            found.append(data)
            (tmp_path / "h.20260102T000000").unlink(missing_ok=True)
        return found

    assert asyncio.run(fetched()) == [b"h.20260101T000000\n", b"h\n"]


def test_a_log_that_is_missing_is_told(tmp_path: Path) -> None:
    home = PoolHome(tmp_path)
    config = load(None, subsystem="SCHEDD", env={"CONDOR_CONFIG": os.devnull}, home=home)

    async def fetched() -> list[bytes]:
        return [data async for data in fetched_logs.fetch(home, "SCHEDD.old", config)]

    with pytest.raises(NotFoundError, match="No such file"):
        asyncio.run(fetched())


def test_a_call_that_ends_while_its_log_is_opened_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, opens, may_open, opened = tmp_path / "log", threading.Event(), threading.Event(), []
    log.write_text("x")
    real = fetched_logs._opened

    def slow(path: Path) -> tuple[int, int]:
        opens.set()
        may_open.wait(LIMIT_S)
        opened.append(real(path))
        return opened[-1]

    monkeypatch.setattr(fetched_logs, "_opened", slow)

    async def cancelled() -> None:
        reading = asyncio.ensure_future(anext(aiter(fetched_logs.pieces(log))))
        await asyncio.to_thread(opens.wait, LIMIT_S)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        may_open.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        for _ in range(10):
            await asyncio.sleep(0)  # what the loop has been told of goes on

    asyncio.run(cancelled())
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0][0])


@host.needs(host.root)
def test_what_the_daemons_account_cannot_read_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir(0o700)
    (secrets / "SchedLog").write_text("x")
    (tmp_path / "log").symlink_to(secrets)
    assert _read(tmp_path / "log/SchedLog") == b"x"
    monkeypatch.setattr(privileges, "_account", DaemonAccount("nobody", 65534, 65534, (65534,)))
    with pytest.raises(NotFoundError, match="Permission denied"):
        _read(tmp_path / "log/SchedLog")
