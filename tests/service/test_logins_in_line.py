"""Local callers who log in stand in line while others do, and are not turned away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
import time
from pathlib import Path

from slotwise.wire import login, socket_path
from slotwise.wire.login import LoginServer, obtain, socket_of

from tests.support.waiting import until


async def test_who_finds_the_line_full_waits_for_a_place() -> None:
    with tempfile.TemporaryDirectory(prefix="sw-") as directory, contextlib.ExitStack() as stack:
        sock = str(Path(directory) / "schedd.sock")
        server = LoginServer(socket_of(sock), lambda uid: (f"token of {uid}", 2e9))
        server.start()
        try:
            listening = server._socket
            assert listening is not None
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening.fileno())  # the daemon does something else
            listening.listen(2)
            for _ in range(3):
                one = stack.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(socket_path.usable(socket_of(sock)))
            late = [asyncio.create_task(asyncio.to_thread(obtain, sock)) for _ in range(3)]
            await asyncio.sleep(0.2)
            assert not any(one.done() for one in late), "they wait"
            server._go_on(listening)
            assert set(await asyncio.gather(*late)) == {f"token of {os.geteuid()}"}
        finally:
            server.close()


async def test_a_crowd_is_answered_a_part_at_a_time() -> None:
    with tempfile.TemporaryDirectory(prefix="sw-") as directory, contextlib.ExitStack() as stack:
        sock = str(Path(directory) / "schedd.sock")
        answered = 0

        def token_for(uid: int) -> tuple[str, float]:
            nonlocal answered
            answered += 1
            return ("t", 2e9)

        server = LoginServer(socket_of(sock), token_for)
        server.start()
        try:
            for _ in range(300):
                one = stack.enter_context(socket.socket(socket.AF_UNIX))
                one.setblocking(False)
                one.connect(socket_path.usable(socket_of(sock)))
            server._accept()
            assert answered == login._AT_A_TIME, "other work goes on between"
            await until(lambda: answered >= login._A_SECOND)
        finally:
            server.close()


async def test_an_account_that_logs_in_without_end_is_asked_to_come_again_and_others_are_not() -> None:
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        sock = str(Path(directory) / "schedd.sock")
        answered = 0

        def token_for(uid: int) -> tuple[str, float]:
            nonlocal answered
            answered += 1
            return (f"token {answered}", 2e9)

        server = LoginServer(socket_of(sock), token_for)
        server.start()
        try:
            server._began = time.monotonic()
            server._counts[os.geteuid()] = login._A_SECOND
            assert not server._is_crowd(os.geteuid() + 1)
            # It waits for the next second, in which it is answered.
            assert await asyncio.to_thread(obtain, sock) == "token 1"
            server._counts[os.geteuid()] = login._A_SECOND
            with contextlib.ExitStack() as stack:
                one = stack.enter_context(socket.socket(socket.AF_UNIX))
                one.connect(socket_path.usable(socket_of(sock)))
                server._accept()
                assert (answered, one.recv(100)) == (1, login._COME_AGAIN)
        finally:
            server.close()
