"""Keeps daemons running: a :class:`DaemonSupervisor` for each starts or adopts it, and restarts it.

::

              start                answers Ping              asked to stop
    stopped ────────▶ starting ───────────────▶ running ───────────────▶ stopping ──▶ stopped
                        ▲   │ ends                │ ends, or hangs and is killed
                        │   ▼                     ▼
                        └── backoff ◀─────────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import grpc

from slotwise.clock import Clock
from slotwise.daemon import lock, process, start_progress, tasks
from slotwise.errors import PeerUnavailableError, SlotwiseError
from slotwise.home import PoolHome
from slotwise.master.forkserver_client import ended
from slotwise.master.limits import HARDER, SILENCE_S, Limits
from slotwise.master.obituaries import Death
from slotwise.master.policy import Backoff, failures_after, restart_delay_s
from slotwise.master.shutdown import SIGNALS
from slotwise.master.watchdog import HangTimeout, end_hung, until_silent
from slotwise.observe.log import log_file, open_log
from slotwise.wire import address, channel
from slotwise.wire.credential import Metadata
from slotwise.wire.gen import common_pb2, daemon_pb2, daemon_pb2_grpc

_log = logging.getLogger(__name__)
#: How long a stop waits for a start that is under way.
_BIRTH_S = 20.0
#: How often a starting daemon's progress is looked at.
_LOOK_S = 1.0
#: A daemon that has not answered for so many times SLOTWISE_START_TIMEOUT is killed, and started again: a minute.
_TIMES_LATE = 2.0
#: Where in a log the reason of a daemon's end is looked for, bytes before its end.
_LAST_BYTES = 16384


class Starts(Protocol):
    """What starts a daemon's process."""

    async def start(self, name: str) -> int:
        """Start ``name``; returns its pid."""
        ...

    async def exit_of(self, pid: int) -> int | None:
        """The wait status of ``pid``, which this started and which has exited; None if it is not known."""
        ...


@dataclass
class DaemonSupervisor:
    """One daemon under the master's supervision."""

    name: str
    home: PoolHome
    clock: Clock
    starts: Starts
    metadata: Callable[[str], Metadata]
    limits: Limits = field(default_factory=Limits)
    backoff: Backoff = field(default_factory=Backoff)
    patience: HangTimeout = field(default_factory=HangTimeout)
    state: str = "stopped"
    pid: int = 0
    started_at: float = 0.0
    #: As ``started_at``, on the monotonic clock.
    _began: float = 0.0
    restarts: int = 0
    failures: int = 0
    last_exit: str = ""
    #: What it said in its log before that exit: the next start writes more there.
    last_words: str = ""
    #: How often it has exited by itself or could not be started.
    ends: int = 0
    adopted: bool = False
    #: Called when it exited although it was wanted, once it is known how.
    on_death: Callable[[Death], None] = field(default=lambda death: None, repr=False)
    #: Set while the daemon answers; cleared when it exits.
    answers: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    _task: asyncio.Task[None] | None = field(default=None, repr=False)
    _wanted: bool = False
    _hung: bool = False
    _birth: asyncio.Future[int] | None = field(default=None, repr=False)
    #: Set when a daemon is wanted again, which ends the wait for its exit.
    _recalled: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def unwanted(self) -> None:
        """The daemon is about to be stopped: do not restart it if it exits by itself."""
        self._wanted = False
        self._recalled.clear()

    @property
    def is_unwanted(self) -> bool:
        """Whether nobody has wanted it back since."""
        return not self._wanted

    def begin(self) -> None:
        """Start (or adopt) the daemon and keep it running; returns at once. A stopping daemon is started again."""
        self._wanted = True
        self._recalled.set()
        if self._task is None or self._task.done():
            self._task = tasks.keep(f"keeping {self.name} up", self._keep)

    async def until_answers(self) -> None:
        """Return when the daemon answers for the first time.

        Its time begins anew as long as it works on what it says that it loads (:mod:`slotwise.daemon.start_progress`).

        :raises SlotwiseError: it exits before, or its time is up.
        """
        assert self._task is not None
        waiting = asyncio.create_task(self.answers.wait())
        first_end = asyncio.create_task(self._next_end())
        try:
            work, since = self._work(), self.clock.monotonic()
            while not (waiting.done() or first_end.done()):
                left_s = since + self.limits.start_s - self.clock.monotonic()
                if left_s <= 0:
                    break
                await asyncio.wait(
                    [waiting, first_end], timeout=min(left_s, _LOOK_S), return_when=asyncio.FIRST_COMPLETED
                )
                if (now := self._work()) != work:
                    work, since = now, self.clock.monotonic()
            if self.answers.is_set():
                return
            if first_end.done():
                raise PeerUnavailableError(
                    f"{self.name} ended at its start: {self.last_exit or 'unknown how'}",
                    hint=self.last_words or "see its log",
                )
            doing = f" and does not go on with this: {work[0]}" if work[0] else ""
            raise PeerUnavailableError(
                f"{self.name} did not answer within {self.limits.start_s:g} s{doing}",
                hint="see its log; SLOTWISE_START_TIMEOUT gives a daemon more time",
            )
        finally:
            waiting.cancel()
            first_end.cancel()

    def _work(self) -> tuple[str, int]:
        return start_progress.work_of(self.home, self.name, self.pid)

    async def _next_end(self) -> None:
        before = self.ends
        while self.ends == before:
            await asyncio.sleep(0.02)

    async def _keep(self) -> None:
        while self._wanted:
            try:
                pid = await self._start_or_adopt()
            except SlotwiseError as error:
                _log.error("could not start %s: %s", self.name, error)
                self.last_exit, self.last_words = str(error), ""
                self.ends += 1
                self.failures += 1
                await self._back_off()
                continue
            age_s = process.age_s(pid) if self.adopted else 0.0
            self.pid, self.started_at, self.state = pid, self.clock.now() - age_s, "starting"
            self._began = self.clock.monotonic() - age_s
            work = (self._watch_start(pid), self._watch_birth(pid), self._watch_pulse(pid))
            watches = [asyncio.create_task(each) for each in work]
            try:
                await ended(pid)
            finally:
                for watch in watches:
                    watch.cancel()
            await self._note_end(pid)
            if self._wanted:
                await self._back_off()
        self.state = "stopped"

    async def _start_or_adopt(self) -> int:
        holder = lock.holder(self.home, self.name)
        if holder is not None:
            self.adopted = True
            _log.info("%s is already running, pid %d", self.name, holder)
            return holder
        self.adopted = False
        self._birth = asyncio.ensure_future(self.starts.start(self.name))
        try:
            pid = await self._birth
        finally:
            self._birth = None
        _log.info("started %s, pid %d", self.name, pid)
        return pid

    async def _watch_start(self, pid: int) -> None:
        """Set ``answers`` once the process answers a Ping."""
        while not await self._asks(pid):
            await asyncio.sleep(0.01)
        if self.state == "starting":
            self.state = "running"
        self.answers.set()

    async def _watch_birth(self, pid: int) -> None:
        """Kill the process if its start does not go on."""
        waited_s, work = 0.0, self._work()
        while waited_s <= _TIMES_LATE * self.limits.start_s:
            began = self.clock.monotonic()
            await asyncio.sleep(min(_LOOK_S, self.limits.start_s))
            if self.answers.is_set():
                return
            # Time in which this process itself stood still is not the daemon's.
            waited_s += min(self.clock.monotonic() - began, 2 * _LOOK_S)
            if (now := self._work()) != work:
                work, waited_s = now, 0.0
        self._hung = True
        await end_hung(self.name, pid, waited_s, want_core=self.patience.want_core)

    async def _asks(self, pid: int, timeout_s: float = 2.0) -> bool:
        """Whether process ``pid`` answers as this daemon."""
        try:
            found = address.lookup(self.home, self.name)
        except SlotwiseError:
            return False
        return found.pid == pid and await ping(found.local, timeout_s)

    async def _watch_pulse(self, pid: int) -> None:
        """Kill the process once it has been silent for too long."""
        silent_s = await until_silent(lambda limit_s: self._asks(pid, limit_s), lambda: self.patience, self.clock)
        self._hung = True
        await end_hung(self.name, pid, silent_s, want_core=self.patience.want_core)

    async def _note_end(self, pid: int) -> None:
        ran_s = self.clock.monotonic() - self._began
        self.answers.clear()
        self.pid = 0
        status = None if self.adopted else await self.starts.exit_of(pid)
        self.last_exit = "how is not known" if status is None else process.describe_exit(status)
        self.last_words = last_words(self.home, self.name)
        hung, self._hung = self._hung, False
        if hung:
            self.last_exit = f"killed because it no longer answered ({self.last_exit})"
        address.withdraw(self.home, self.name, pid)
        start_progress.end(self.home, self.name)
        if self._wanted:
            _log.error("%s (pid %d) exited unexpectedly after %.1f s: %s", self.name, pid, ran_s, self.last_exit)
            self.ends += 1
            self.failures = failures_after(self.failures, ran_s, self.backoff)
            if status is not None or hung:
                delay_s = restart_delay_s(self.failures - 1, self.backoff)
                code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
                self.on_death(Death(self.name, code, hung, max(1, self.failures), delay_s))
        else:
            _log.info("%s (pid %d) exited: %s", self.name, pid, self.last_exit)

    async def _back_off(self) -> None:
        delay_s = restart_delay_s(self.failures - 1, self.backoff)
        self.state = "backoff"
        if delay_s:
            _log.info("restarting %s in %.1f s", self.name, delay_s)
            await asyncio.sleep(delay_s)
        self.restarts += 1

    async def stop(self, mode: str) -> None:
        """Stop the daemon; the stop escalates when the daemon takes longer than its time.

        Returns when its process is gone, or when the daemon is wanted again (:meth:`begin`).
        """
        self.unwanted()
        task = self._task
        if task is None or task.done():
            self.state = "stopped"
            return
        if self._birth is not None:  # a process that is about to start must not be left alone
            await asyncio.wait([self._birth], timeout=_BIRTH_S)
            await asyncio.sleep(0)
        if self.state == "backoff" or not self.pid:
            task.cancel()
            await asyncio.wait([task])
            self.state = "stopped"
            return
        self.state = "stopping"
        step: str | None = mode
        while step is not None and not task.done():
            await self._ask_to_stop(step)
            if not await self._gone(task, self.limits.of(step)):
                if self._wanted:
                    return
                _log.warning("%s did not stop in time (%s)", self.name, step)
            step = HARDER.get(step)

    async def _gone(self, task: asyncio.Task[None], limit_s: float | None) -> bool:
        """Wait for the end of ``task``.

        False if that takes too long, the daemon no longer even answers, or it is wanted again.
        """
        pid = self.pid
        recalled = asyncio.create_task(self._recalled.wait())
        patience = HangTimeout(SILENCE_S)
        silence = asyncio.create_task(until_silent(lambda s: self._asks(pid, s), lambda: patience, self.clock))
        try:
            await asyncio.wait([task, silence, recalled], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if silence.done() and not task.done():
                process.send(pid, process.STACKS_SIGNAL)
                await asyncio.wait([task], timeout=0.5)
        finally:
            silence.cancel()
            recalled.cancel()
        return task.done()

    async def reconfig(self) -> list[str]:
        """Have the daemon read its configuration again; what it warns of.

        :raises grpc.RpcError: when it refuses, or does not answer.
        """
        target = address.lookup(self.home, self.name).local
        async with channel.open_async(target) as opened:
            stub = daemon_pb2_grpc.DaemonStub(opened)
            reply = await stub.Reconfig(common_pb2.Empty(), metadata=self.metadata(target), timeout=60)
        return list(reply.warnings)

    async def _ask_to_stop(self, mode: str) -> None:
        if mode == "peaceful":
            try:
                target = address.lookup(self.home, self.name).local
                async with channel.open_async(target) as opened:
                    await daemon_pb2_grpc.DaemonStub(opened).Shutdown(
                        daemon_pb2.ShutdownRequest(mode=daemon_pb2.ShutdownRequest.PEACEFUL),
                        metadata=self.metadata(target),
                        timeout=10,
                    )
                return
            except (grpc.RpcError, SlotwiseError) as error:
                _log.warning("could not ask %s to stop peacefully: %s", self.name, error)
        if self.pid:
            process.send(self.pid, SIGNALS[mode])
            process.send(self.pid, signal.SIGCONT)  # a suspended process cannot react


def last_words(home: PoolHome, name: str) -> str:
    """Why a daemon says at the end of its log that it cannot run; empty where it does not say."""
    path = log_file(home, name)
    said = ""
    with contextlib.suppress(OSError), open(open_log(path), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
        text = file.read().decode(errors="replace").rpartition("STARTING UP")[2]
        said = text.partition(f"{name} cannot run: ")[2].partition("\n")[0].strip()
    return said


async def ping(target: str, timeout_s: float = 2.0) -> bool:
    """Whether a daemon answers at ``target``."""
    async with channel.open_async(target) as opened:
        try:
            await daemon_pb2_grpc.DaemonStub(opened).Ping(daemon_pb2.PingRequest(), timeout=timeout_s)
        except grpc.RpcError:
            return False
    return True
