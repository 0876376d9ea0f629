"""The master's gRPC service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import grpc

from slotwise.errors import NotFoundError, SlotwiseError
from slotwise.home import PoolHome
from slotwise.master.policy import END_JOBS, start_order
from slotwise.master.shutdown_program import ShutdownProgram
from slotwise.master.supervisor import DaemonSupervisor
from slotwise.wire import address
from slotwise.wire.context import Context
from slotwise.wire.gen import common_pb2, daemon_pb2, daemon_pb2_grpc
from slotwise.wire.status import answers_errors, to_error


class Pool:
    """All daemons of this host, started and stopped together or one by one."""

    def __init__(self, keepers: dict[str, DaemonSupervisor]) -> None:
        self.keepers = keepers

    def select(self, names: list[str]) -> list[DaemonSupervisor]:
        """The keepers of ``names`` in starting order; of all daemons when ``names`` is empty.

        :raises NotFoundError: this master does not keep one of them.
        """
        for name in names:
            if name not in self.keepers:
                known = ", ".join(self.keepers)
                raise NotFoundError(f"this master keeps no {name!r}", hint=f"it keeps {known}")
        return [self.keepers[name] for name in start_order(names or self.keepers)]

    async def start(self, names: list[str]) -> None:
        """Start the daemons in order; the collector answers before the others start, so that they find it.

        :raises SlotwiseError: one does not come up; the others are started all the same.
        """
        chosen = self.select(names)
        if chosen and chosen[0].name == "collector":
            chosen[0].begin()
            try:
                await chosen[0].until_answers()
            except SlotwiseError:
                if chosen[0].last_exit:
                    raise
                # It is slow, as when a busy host starts: the others wait for it themselves.
        for keeper in chosen:
            keeper.begin()
        results = await asyncio.gather(*(k.until_answers() for k in chosen), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def stop(self, names: list[str], mode: str) -> None:
        """Stop the daemons, last started first."""
        chosen = list(reversed(self.select(names)))
        for keeper in chosen:
            keeper.unwanted()
        for keeper in chosen:
            if keeper.is_unwanted:  # it may have been wanted back meanwhile
                await keeper.stop(mode)

    async def renew(self, names: list[str]) -> None:
        """Stop daemons and start them again, last started first and back; the jobs that they serve go on.

        :raises SlotwiseError: one does not come up.
        """
        chosen = list(reversed(self.select(names)))
        for keeper in chosen:
            keeper.unwanted()
        for keeper in chosen:
            if keeper.is_unwanted:
                await keeper.stop("kill" if keeper.name in END_JOBS else "graceful")
        await self.start(names)

    def status(self, home: PoolHome) -> daemon_pb2.MasterStatus:
        """The state of each daemon."""
        reply = daemon_pb2.MasterStatus()
        for keeper in self.keepers.values():
            at = ""
            if keeper.state == "running":
                at = address.lookup(home, keeper.name).local
            reply.daemons.append(
                daemon_pb2.DaemonStatus(
                    name=keeper.name,
                    pid=keeper.pid,
                    state=keeper.state,
                    started_at=int(keeper.started_at),
                    restarts=keeper.restarts,
                    address=at,
                    last_exit=keeper.last_exit,
                )
            )
        return reply


class MasterServicer(daemon_pb2_grpc.MasterServicer):
    """Adapts calls to the pool."""

    def __init__(
        self,
        pool: Pool,
        home: PoolHome,
        require_startable: Callable[[str], None],
        reload: Callable[[], Awaitable[list[str]]],
        shutdown_program: ShutdownProgram,
    ) -> None:
        """``require_startable`` raises :class:`ConfigError` if a daemon would refuse to start; ``reload`` has the
        master itself read its configuration again."""
        self._pool = pool
        self._home = home
        self._require_startable = require_startable
        self._reload = reload
        self._shutdown_program = shutdown_program
        self._stopping: set[asyncio.Task[None]] = set()

    @answers_errors
    async def Status(self, request: common_pb2.Empty, context: Context) -> daemon_pb2.MasterStatus:
        """State of every daemon."""
        return self._pool.status(self._home)

    @answers_errors
    async def Restart(self, request: daemon_pb2.DaemonNames, context: Context) -> common_pb2.Empty:
        """Stop and start daemons; returns when they answer again. One that could not start again is not stopped."""
        names = list(request.names)
        for keeper in self._pool.select(names):
            self._require_startable(keeper.name)
        await self._pool.stop(names, daemon_pb2.ShutdownRequest.Mode.Name(request.mode).lower())
        await self._pool.start(names)
        return common_pb2.Empty()

    @answers_errors
    async def ReconfigDaemons(self, request: daemon_pb2.DaemonNames, context: Context) -> daemon_pb2.ReconfigReply:
        """Have daemons read their configuration again; those that do not run are left alone."""
        names = [name for name in request.names if name != "master"]
        reply = daemon_pb2.ReconfigReply()
        if len(names) != len(request.names) or not names:
            reply.warnings.extend(await self._reload())
        for keeper in self._pool.select(names) if names or not request.names else []:
            if keeper.state != "running":
                if keeper.name in names:
                    raise NotFoundError(f"{keeper.name} does not run", hint=f"`slotwise on -daemon {keeper.name}`")
                continue
            try:
                told = await keeper.reconfig()
            except grpc.RpcError as error:
                raise to_error(error, peer=keeper.name) from None
            reply.warnings.extend(warning for warning in told if warning not in reply.warnings)
        return reply

    @answers_errors
    async def SetShutdownProgram(self, request: daemon_pb2.ShutdownProgram, context: Context) -> common_pb2.Empty:
        """Choose the program that runs when the master ends."""
        self._shutdown_program.choose(request.name)
        return common_pb2.Empty()

    @answers_errors
    async def Renew(self, request: daemon_pb2.DaemonNames, context: Context) -> common_pb2.Empty:
        """Replace daemons by new ones, which find the jobs of the former; returns when they answer."""
        names = list(request.names)
        for keeper in self._pool.select(names):
            self._require_startable(keeper.name)
        await self._pool.renew(names)
        return common_pb2.Empty()

    @answers_errors
    async def StopDaemons(self, request: daemon_pb2.StopRequest, context: Context) -> common_pb2.Empty:
        """Stop daemons; the master stays."""
        mode = daemon_pb2.ShutdownRequest.Mode.Name(request.mode).lower()
        names = list(request.names)
        self._pool.select(names)
        stopping = asyncio.get_running_loop().create_task(self._pool.stop(names, mode))
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopping.discard)
        if not request.at_once:
            await asyncio.shield(stopping)
        return common_pb2.Empty()

    @answers_errors
    async def StartDaemons(self, request: daemon_pb2.DaemonNames, context: Context) -> common_pb2.Empty:
        """Start daemons that were stopped."""
        await self._pool.start(list(request.names))
        return common_pb2.Empty()
