"""What the master reports to systemd, heard on a real socket."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
from slotwise.daemon import service_manager
from slotwise.wire import socket_path

from tests.support.waiting import LIMIT_S


def listening(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    found.bind(socket_path.usable(path))
    found.settimeout(LIMIT_S)
    return found


def test_states_go_to_the_socket_one_a_line(tmp_path: Path) -> None:
    with listening(tmp_path / "notify") as manager:
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        service_manager.report(env, READY="1", STATUS="two\nlines")
        assert manager.recv(4096) == b"READY=1\nSTATUS=two lines"
    service_manager.report(env, STOPPING="1")  # nobody listens any more


def test_a_socket_in_the_abstract_namespace_is_found() -> None:
    name = f"slotwise-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(b"\0" + name.encode())
        manager.settimeout(LIMIT_S)
        service_manager.report({"NOTIFY_SOCKET": f"@{name}"}, READY="1")
        assert manager.recv(4096) == b"READY=1"


@pytest.mark.parametrize(
    ("env", "interval_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "4000000"}, 2.0),
        ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())}, 2.0),
        ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_hears_twice_in_its_time(env: dict[str, str], interval_s: float | None) -> None:
    assert service_manager.watchdog_interval_s(env) == interval_s


async def test_the_watchdog_hears_of_a_loop_that_turns(tmp_path: Path) -> None:
    with listening(tmp_path / "notify") as manager:
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}
        task = asyncio.create_task(service_manager.keep_watchdog(env))
        heard = [await asyncio.to_thread(manager.recv, 100) for _ in range(2)]
        task.cancel()
    assert heard == [b"WATCHDOG=1"] * 2


def test_a_socket_of_another_service_is_left_alone(tmp_path: Path) -> None:
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    assert service_manager.supervises(env)
    assert service_manager.supervises(env | {"SYSTEMD_EXEC_PID": str(os.getpid())})
    assert not service_manager.supervises(env | {"SYSTEMD_EXEC_PID": "1"})
    assert service_manager.supervises(env | {"SYSTEMD_EXEC_PID": "1"}, 1)
