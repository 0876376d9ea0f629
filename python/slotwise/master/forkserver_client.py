"""The master's side of the spawner: requests over its socket, and the exit of any process by its pidfd."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping

from slotwise.config import home_of
from slotwise.daemon import lock, process
from slotwise.daemon.spawn import as_started
from slotwise.errors import HostError
from slotwise.master.forkserver import LONGEST_REQUEST, READY_FD, SPAWNER_FD

_log = logging.getLogger(__name__)
#: A fork takes milliseconds; a spawner that takes this long hangs. A new spawner imports the daemons first, which
#: takes its time on a slow or busy host.
_FORK_S, _FIRST_FORK_S = 15.0, 120.0
#: How soon a lost spawner is replaced, at first and at most, when new ones die as well.
_FIRST_REPLACE_S = 0.2
_LONGEST_REPLACE_S = 300.0


class SpawnerClient:
    """Asks the spawner for daemons; makes a new spawner when the old one is gone."""

    def __init__(self, channel: socket.socket, env: Mapping[str, str], config_file: str | None) -> None:
        self._env = dict(env)
        self._config_file = config_file
        self._waiting: dict[str, asyncio.Future[int]] = {}
        #: Wait statuses by pid, of daemons whose exit nobody has asked about yet.
        self._exits: dict[int, int] = {}
        #: What each daemon finds in its environment besides the master's, by its name.
        self.environments: dict[str, dict[str, str]] = {}
        self._closed = False
        self._replace_in_s = _FIRST_REPLACE_S
        self._attach(channel)

    def _attach(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._has_spoken = False
        with contextlib.suppress(OSError):
            channel.send(json.dumps({"hello": True}).encode())
        asyncio.get_running_loop().add_reader(channel.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self._channel.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._detach()
            return
        self._has_spoken = True
        report = json.loads(data)
        if "exited" in report:
            self._exits[report["exited"]] = report["status"]
        else:
            waiting = self._waiting.pop(report["started"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(report["pid"])

    def _detach(self) -> None:
        if self._channel.fileno() < 0:
            return
        asyncio.get_running_loop().remove_reader(self._channel.fileno())
        self._channel.close()
        _log.warning("the spawner exited")
        if not self._closed:
            asyncio.get_running_loop().call_later(self._replace_in_s, self._replace_lost)
            self._replace_in_s = min(2 * self._replace_in_s, _LONGEST_REPLACE_S)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(HostError("the spawner died"))
        self._waiting.clear()

    async def start(self, name: str) -> int:
        """Fork daemon ``name``; returns its pid.

        :raises HostError: the spawner cannot do it.
        """
        if self._channel.fileno() < 0:
            self._replace()
        request = json.dumps({"start": name, "environment": self.environments.get(name, {})}).encode()
        if len(request) > LONGEST_REQUEST:
            raise HostError(
                f"the environment of the {name} is longer than 64 KB", hint=f"shorten {name.upper()}_ENVIRONMENT"
            )
        waiting = self._waiting[name] = asyncio.get_running_loop().create_future()
        try:
            self._channel.send(request)
        except OSError as error:
            self._waiting.pop(name, None)
            self._detach()
            raise HostError(f"the spawner does not take requests: {error}") from None
        try:
            async with asyncio.timeout(_FORK_S if self._has_spoken else _FIRST_FORK_S):
                return await waiting
        except TimeoutError:
            self._waiting.pop(name, None)
            self._discard()
            raise HostError("the spawner hangs") from None

    def _discard(self) -> None:
        """Give up a spawner that does not answer, so that the next start makes a new one."""
        self._detach()
        holder = lock.holder(home_of(self._env), "spawner")
        if holder is not None:
            process.send(holder, signal.SIGKILL)
            process.wait_gone(holder, 5)

    def _replace_lost(self) -> None:
        """Replace the spawner: without one, nothing would make a new master when this one dies."""
        if self._channel.fileno() < 0 and not self._closed:
            try:
                self._replace()
            except OSError as error:
                _log.error("could not start a new spawner: %s", error)

    def _replace(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {k: v for k, v in self._env.items() if k != READY_FD} | {SPAWNER_FD: str(theirs.fileno())}
        if self._config_file:
            env["SLOTWISE_CONFIG_FILE"] = self._config_file
        self._process = subprocess.Popen(
            [*as_started(), sys.executable, "-m", "slotwise.master.forkserver", "--room-for-the-title-of-a-daemon"],
            env=env,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._attach(ours)

    async def exit_of(self, pid: int) -> int | None:
        """The wait status of ``pid``; None if unknown. Its pidfd may be ready before the spawner reports."""
        for _ in range(30):
            if pid in self._exits:
                return self._exits.pop(pid)
            await asyncio.sleep(0.01)
        return None

    def close(self) -> None:
        """Say goodbye; the spawner exits, running daemons live on."""
        self._closed = True
        if self._channel.fileno() >= 0:
            with contextlib.suppress(OSError):
                self._channel.send(json.dumps({"bye": True}).encode())
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self._channel.close()


async def ended(pid: int) -> None:
    """Return when ``pid`` has exited, whoever its parent is."""
    try:
        descriptor = process.open_pidfd(pid)
    except OSError:  # a kernel without pidfds
        while process.alive(pid):
            await asyncio.sleep(0.1)
        return
    if descriptor is None:
        return
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        if not done.done():
            done.set_result(None)

    loop.add_reader(descriptor, readable)
    try:
        await done
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
