"""The connection to the host's starter: starts it or adopts a live one, keeps one stream of commands and events.

The starter is a process of its own (a session of its own, too), so that jobs and their results outlive the startd.
After a break the startd asks what runs, and puts both sides in agreement.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from slotwise.daemon.spawn import as_started
from slotwise.errors import PeerUnavailableError
from slotwise.home import PoolHome
from slotwise.wire import address
from slotwise.wire.channel import open_async
from slotwise.wire.gen import starter_pb2, starter_pb2_grpc
from slotwise.wire.sizes import PIECE

_log = logging.getLogger(__name__)

Spawn = Callable[[], None]

#: How many commands may share a frame.
_MOST_IN_FRAME = 200


class StarterLink:
    """One stream to the starter, opened again whenever it breaks.

    :param on_events: gets each batch of events, in order.
    :param on_connected: called with the runs that the starter has, at the start of every stream.
    """

    def __init__(
        self,
        home: PoolHome,
        metadata: Callable[[str], Any],
        on_events: Callable[[list[starter_pb2.JobEvent]], None],
        on_connected: Callable[[starter_pb2.JobList], None],
        *,
        env: Mapping[str, str] | None = None,
        spawn: Spawn | None = None,
        alive: Callable[[int], bool] | None = None,
        patience_s: float = 2.0,
        retry_s: float = 0.2,
    ) -> None:
        self._home = home
        self._metadata = metadata
        self._on_events = on_events
        self._on_connected = on_connected
        self._spawn = spawn or (lambda: spawn_starter(home, os.environ if env is None else env))
        self._alive = alive or (lambda pid: is_alive(pid, "starter"))
        self._patience_s = patience_s
        self._retry_s = retry_s
        self._commands: deque[starter_pb2.JobCommand] = deque()
        self._waiting = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.connected = False
        self.address = ""

    def start(self) -> None:
        """Begin to connect."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def send(self, command: starter_pb2.JobCommand) -> None:
        """Queue a command; it waits for the stream when there is none."""
        self._commands.append(command)
        self._waiting.set()

    def unsent_starts(self) -> set[str]:
        """Runs that the starter has not been told of yet: it cannot list them."""
        return {command.run_id for command in self._commands if command.WhichOneof("what") == "start"}

    async def stop(self) -> None:
        """Close the stream. A starter that this startd started is told to end, too."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        for child in _CHILDREN:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if child.poll() is None:
                    os.kill(child.pid, signal.SIGTERM)

    async def _run(self) -> None:
        delay = self._retry_s
        while True:
            try:
                await self._serve(await self._target())
                delay = self._retry_s
            except asyncio.CancelledError:
                raise
            except (grpc.RpcError, PeerUnavailableError, OSError) as error:
                _log.info("no connection to the starter: %s", _text(error))
            except Exception:
                _log.exception("error in the connection to the starter")
            self.connected = False
            await asyncio.sleep(delay)
            delay = min(5.0, delay * 1.5)

    async def _target(self) -> str:
        """Where a live starter answers, started if there is none."""
        clock = asyncio.get_running_loop().time
        began, spawned = clock(), False
        while (found := self._live()) is None:
            waited = clock() - began
            if not spawned and waited >= self._patience_s:  # a master may be about to start it
                self._spawn()
                spawned = True
            if waited > self._patience_s + 20:
                raise PeerUnavailableError("the starter does not come up", hint="see its log")
            await asyncio.sleep(0.02)
        return found.target

    def _live(self) -> address.DaemonAddress | None:
        try:
            found = address.lookup(self._home, "starter")
        except PeerUnavailableError:
            return None
        return found if self._alive(found.pid) else None

    async def _serve(self, target: str) -> None:
        async with open_async(target) as channel:
            call = starter_pb2_grpc.StarterStub(channel).Jobs(metadata=self._metadata(target))
            await call.write(starter_pb2.JobCommand(list=starter_pb2.ListJobs()))
            listed, behind = await self._first_list(call)
            self.connected, self.address = True, target
            self._on_connected(listed)
            self._on_events(behind)
            writer = asyncio.get_running_loop().create_task(self._write(call))
            try:
                while (event := await call.read()) is not grpc.aio.EOF:
                    self._on_events(_unbundled(event))
            finally:
                writer.cancel()
                with contextlib.suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
                    await writer
                call.cancel()

    async def _first_list(self, call: Any) -> tuple[starter_pb2.JobList, list[starter_pb2.JobEvent]]:
        """The starter's list of runs, and the events behind it; what came before it is of no account."""
        while (frame := await call.read()) is not grpc.aio.EOF:
            events = _unbundled(frame)
            for place, event in enumerate(events):
                if event.WhichOneof("what") == "jobs":
                    return event.jobs, events[place + 1 :]
        raise PeerUnavailableError("the starter closed the stream")

    async def _write(self, call: Any) -> None:
        while True:
            while not self._commands:
                self._waiting.clear()
                await self._waiting.wait()
            command = self._commands.popleft()
            size = _weight(command)
            while self._commands and len(command.more) < _MOST_IN_FRAME and size < PIECE:
                following = self._commands.popleft()
                size += _weight(following)
                command.more.append(following)
            await call.write(command)


def _weight(command: starter_pb2.JobCommand) -> int:
    """About how many bytes a command holds."""
    return len(command.start.job_ad) + len(command.start.slot_ad) + len(command.start.limits) + 512


def _unbundled(frame: starter_pb2.JobEvent) -> list[starter_pb2.JobEvent]:
    """The events of a frame, in order."""
    own = [frame] if frame.WhichOneof("what") else []
    return [*own, *frame.more]


def spawn_starter(home: PoolHome, env: Mapping[str, str]) -> None:
    """Start the host's starter in a session of its own; it outlives this process."""
    env = {**env, "SLOTWISE_HOME": str(home.root)}
    log = (home.log / "starter.out").open("ab")
    with log:
        process = subprocess.Popen(
            [*as_started(), sys.executable, "-m", "slotwise", "daemon", "starter"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    _CHILDREN.append(process)


_CHILDREN: list[subprocess.Popen[bytes]] = []


def is_alive(pid: int, daemon: str) -> bool:
    """Whether ``pid`` is a live process; one of our own that has ended is reaped."""
    for child in _CHILDREN:
        child.poll()
    _CHILDREN[:] = [child for child in _CHILDREN if child.returncode is None]
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            state = stream.read().rpartition(b")")[2].split()[0]
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            words = stream.read().split(b"\0")
    except (OSError, IndexError):
        return False
    return state != b"Z" and (daemon.encode() in words or b"slotwise" in b" ".join(words))


def _text(error: BaseException) -> str:
    details = getattr(error, "details", None)
    return str(details()) if callable(details) else str(error)
