"""The connection to the host's starter: starts it or adopts a live one, keeps one stream of commands and reports.

The starter is a process of its own (a session of its own, too), so that jobs and their results outlive the startd.
After a break the startd asks what runs, and puts both sides in agreement.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from slotwise.daemon import lock
from slotwise.daemon.spawn import as_started
from slotwise.errors import PeerUnavailableError
from slotwise.home import PoolHome
from slotwise.wire import address
from slotwise.wire.gen import starter_pb2, starter_pb2_grpc
from slotwise.wire.stream import BundledStream

Spawn = Callable[[], None]


#: How much longer than without a master the starter is waited for, seconds.
_MASTER_S = 20.0


class StarterLink(BundledStream[starter_pb2.JobCommand, starter_pb2.JobEvent]):
    """One stream to the starter. It asks for the list of runs first; commands wait for it.

    :param on_reports: gets each batch of reports, in order.
    :param on_connected: called with the runs that the starter has, at the start of every stream.
    """

    def __init__(
        self,
        home: PoolHome,
        metadata: Callable[[str], Any],
        on_reports: Callable[[list[starter_pb2.JobEvent]], None],
        on_connected: Callable[[starter_pb2.JobList], None],
        *,
        env: Mapping[str, str] | None = None,
        spawn: Spawn | None = None,
        alive: Callable[[int], bool] | None = None,
        patience_s: float = 2.0,
    ) -> None:
        super().__init__("the starter", weigh=_weight, keep_unsent=True)
        self._home = home
        self._metadata = metadata
        self._on_reports = on_reports
        self._on_connected = on_connected
        self._spawn = spawn or (lambda: spawn_starter(home, os.environ if env is None else env))
        self._alive = alive or (lambda pid: is_alive(pid, "starter"))
        self._patience_s = patience_s
        #: Where the starter answers that was connected last, and the one that is being called.
        self.address = self._calling = ""

    def unsent_starts(self) -> set[str]:
        """Runs that the starter has not been told of yet: it cannot list them."""
        return {command.run_id for command in self.unsent() if command.WhichOneof("what") == "start"}

    async def stop(self) -> None:
        """Close the stream. A starter that this startd started is told to end, too."""
        await self.close()
        for child in _CHILDREN:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if child.poll() is None:
                    os.kill(child.pid, signal.SIGTERM)

    # ---- the stream

    async def target(self) -> str:
        """Where a live starter answers, started if there is none."""
        clock = asyncio.get_running_loop().time
        began, spawned = clock(), False
        while (found := self._live()) is None:
            waited = clock() - began
            # Where there is a master it starts the starter, which takes its time on a busy host.
            patience_s = self._patience_s + (0.0 if lock.holder(self._home, "master") is None else _MASTER_S)
            if not spawned and waited >= patience_s:
                self._spawn()
                spawned = True
            if waited > patience_s + 20:
                raise PeerUnavailableError("the starter does not come up", hint="see its log")
            await asyncio.sleep(0.02)
        self._calling = found.target  # what shadows are told; this host's own port or broker is not needed here
        return found.local

    def _live(self) -> address.DaemonAddress | None:
        try:
            found = address.lookup(self._home, "starter")
        except PeerUnavailableError:
            return None
        return found if self._alive(found.pid) else None

    def call(self, opened: grpc.aio.Channel, target: str) -> Any:
        """Jobs."""
        return starter_pb2_grpc.StarterStub(opened).Jobs(metadata=self._metadata(target))

    def greeting(self) -> list[starter_pb2.JobCommand]:
        """Which runs are there?"""
        return [starter_pb2.JobCommand(list=starter_pb2.ListJobs())]

    def take(self, messages: list[starter_pb2.JobEvent]) -> None:
        """Hand reports on. What comes before the list of runs is in the list."""
        if not self.connected:
            places = [place for place, report in enumerate(messages) if report.WhichOneof("what") == "jobs"]
            if not places:
                return
            listed, messages = messages[places[0]].jobs, messages[places[0] + 1 :]
            self.address = self._calling
            self._on_connected(listed)
            self.established()
        self._on_reports(messages)


def _weight(command: starter_pb2.JobCommand) -> int:
    """About how many bytes a command holds."""
    return len(command.start.job_ad) + len(command.start.slot_ad) + len(command.start.limits) + 512


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
