"""Wires and starts the master."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import slotwise
from slotwise.config import Config, load, require_sound, root_file
from slotwise.config.loading import named_file
from slotwise.daemon import pool_end, process, reach, service_manager, tasks
from slotwise.daemon.ad import daemon_ad, qualified
from slotwise.daemon.further_attributes import further_attributes, in_ad
from slotwise.daemon.membership import is_central
from slotwise.daemon.publish import TablePublisher, TableSource
from slotwise.daemon.registry import SUBSYSTEMS
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import SlotwiseError
from slotwise.mail.outbox import Outbox
from slotwise.master import daemon_environment
from slotwise.master.certificates import CertificateRenewal
from slotwise.master.forkserver import READY_FD, SPAWNER_FD, fork_spawner
from slotwise.master.forkserver_client import SpawnerClient
from slotwise.master.joining import Membership
from slotwise.master.limits import Limits
from slotwise.master.metrics import MasterMetrics
from slotwise.master.obituaries import Obituaries, ObituarySettings
from slotwise.master.policy import Backoff, daemons_of
from slotwise.master.relay import CollectorRelay, NegotiatorRelay, Relay
from slotwise.master.service import MasterServicer, Pool
from slotwise.master.shutdown_program import ShutdownProgram
from slotwise.master.supervisor import DaemonSupervisor
from slotwise.master.watchdog import HangTimeout
from slotwise.wire.gen import collector_pb2_grpc, daemon_pb2_grpc, negotiator_pb2_grpc
from slotwise.wire.security import WATCH_S

_log = logging.getLogger(__name__)

#: How long the spawner may take to exit after a goodbye.
_GOODBYE_S = 5.0
#: The socket to the spawner, made by :func:`prepare` before gRPC starts in this process; pid 0: not our child.
_spawner: tuple[socket.socket, int] | None = None


def prepare(env: Mapping[str, str], config_file: str | None) -> None:
    """Fork the spawner, or take over the one that forked this master; before anything uses gRPC."""
    global _spawner
    inherited = env.get(SPAWNER_FD)
    _spawner = (socket.socket(fileno=int(inherited)), 0) if inherited else fork_spawner(env, config_file)


class Master:
    """The running master."""

    def __init__(
        self,
        context: DaemonContext,
        pool: Pool,
        spawner: SpawnerClient,
        spawner_pid: int,
        shutdown_program: ShutdownProgram,
    ) -> None:
        self._context = context
        self._shutdown_program = shutdown_program
        self._pool = pool
        self._spawner = spawner
        self._spawner_pid = spawner_pid
        self._outbox = Outbox(context.env)
        self._obituary_settings = self._read_obituary_settings(context.config)
        self._further = further_attributes(context.config, "MASTER")
        obituaries = Obituaries(context.home, self._outbox, lambda: self._obituary_settings)
        for keeper in pool.keepers.values():
            keeper.on_death = obituaries.report
        self._mailing = tasks.keep("sending mail", self._outbox.run)
        context.metrics.append(MasterMetrics(pool.keepers))
        self._update_s = context.config.get_float("MASTER_UPDATE_INTERVAL")
        self._publisher = TablePublisher(context, lambda: self._update_s, self._describe)
        self._publisher.publish()
        self._bringing_up = asyncio.create_task(self._bring_up())
        self._watchdog = tasks.keep(
            "answering the watchdog of the service manager", partial(service_manager.keep_watchdog, context.env)
        )
        # Before the daemons answer: this master restarts one that does not, or that waits for its pool.
        service_manager.report(context.env, READY="1", STATUS="starting the daemons")
        self._membership: Membership | None = None
        if is_central(context.config):
            self._joining = tasks.keep("keeping the pool's token fresh", partial(_keep_word, context))
        else:
            self._membership = Membership(context, pool.keepers)
            self._joining = tasks.keep("keeping this host in its pool", self._membership.run)
        renewal = CertificateRenewal(context, self._show_renewed)
        self._renewing = tasks.keep("renewing the certificate of this host", renewal.run)

    async def _show_renewed(self) -> None:
        """Have the web service show the renewed certificate, which it reads when it starts; other daemons read it."""
        if "web" in self._pool.keepers:
            await self._pool.stop(["web"], "graceful")
            await self._pool.start(["web"])

    def _read_obituary_settings(self, config: Config) -> ObituarySettings:
        settings = ObituarySettings.of(config, self._context.address.name)
        self._outbox.settings = settings.mail
        return settings

    def _describe(self, source: TableSource) -> None:
        """Write the ad of this host's master as it is now."""
        name = qualified(self._context.config.get_text("MASTER_NAME"), self._context.address.name)
        ad = {**in_ad(self._further), **daemon_ad(self._context, "DaemonMaster", name=name)}
        ad |= {"MasterIpAddr": self._context.address.target, "RealUid": os.getuid()}
        ad |= self._start_times()
        source.table("DaemonMaster").upsert(name, ad)

    def _start_times(self) -> dict[str, int]:
        """<DAEMON>_StartTime of all that run, and <DAEMON>_Timestamp: when the program that they are was installed."""
        installed = int(Path(slotwise.__file__).stat().st_mtime)
        started = {keeper.name: keeper.started_at for keeper in self._pool.keepers.values() if keeper.pid}
        started["master"] = self._context.address.started_at
        times = {f"{name.upper()}_StartTime": int(at) for name, at in started.items()}
        return times | {f"{name.upper()}_Timestamp": installed for name in started}

    async def _bring_up(self) -> None:
        try:
            await self._pool.start([])
        except SlotwiseError as error:
            _log.error("the pool did not come up: %s", error)
            service_manager.report(self._context.env, STATUS=f"the pool did not come up: {error}")
            failed = [k.name for k in self._pool.keepers.values() if not k.answers.is_set() and k.last_exit]
            first_time = not any(keeper.adopted for keeper in self._pool.keepers.values())
            _tell_starter(self._context.env, {"failed": failed, "error": str(error)})
            if first_time and READY_FD in self._context.env:
                self._context.request_stop("fast")
            return
        _log.info("all daemons are running")
        self._publisher.publish()
        service_manager.report(self._context.env, STATUS=f"all daemons are running: {', '.join(self._pool.keepers)}")
        _tell_starter(self._context.env, {"ready": list(self._pool.keepers)})

    async def reconfig(self, config: Config) -> list[str]:
        """Adopt time limits, back-off and mail; a changed DAEMON_LIST needs a restart of the master."""
        for keeper in self._pool.keepers.values():
            keeper.limits, keeper.backoff = Limits.of_config(config), backoff_of(config)
            keeper.patience = HangTimeout.of_config(config, keeper.name)
        wrong = _set_environments(self._spawner, list(self._pool.keepers), config)
        self._obituary_settings = self._read_obituary_settings(config)
        self._further = further_attributes(config, "MASTER")
        self._update_s = config.get_float("MASTER_UPDATE_INTERVAL")
        self._publisher.publish()
        if self._membership is not None:
            self._membership.ask_now()
        wanted, unknown = _daemons_of(config)
        warnings = [*wrong, *(f"DAEMON_LIST names {name}, which is not a daemon" for name in unknown)]
        if set(wanted) != set(self._pool.keepers):
            warnings.append("a changed DAEMON_LIST takes effect after `slotwise down` and `slotwise up`")
        return warnings

    async def stop(self, mode: str) -> None:
        """Stop all daemons, then the spawner."""
        service_manager.report(self._context.env, STOPPING="1", STATUS=f"stopping the daemons ({mode})")
        await tasks.end(self._bringing_up, self._watchdog, self._mailing, self._renewing, self._joining)
        await self._publisher.stop()
        pool_end.announce(self._context.home)
        await self._pool.stop([], mode)
        self._spawner.close()
        if self._spawner_pid:
            await asyncio.to_thread(_await_spawner, self._spawner_pid)
        self._shutdown_program.run()


async def _keep_word(context: DaemonContext) -> None:
    """Keep the pool's token on this host fresh: its other daemons may have no key of the pool to make it with."""
    while True:
        await asyncio.sleep(WATCH_S)
        try:
            context.credential.renew()
        except SlotwiseError as error:
            _log.error("%s", error)


def _await_spawner(pid: int) -> None:
    """Wait for the spawner to exit after a goodbye; kill one that hangs."""
    process.send(pid, signal.SIGCONT)
    if not process.wait_gone(pid, _GOODBYE_S):
        _log.warning("the spawner did not exit, killing it")
        process.send(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def backoff_of(config: Config) -> Backoff:
    """The back-off that a configuration sets."""
    return Backoff(
        constant_s=config.get_float("MASTER_BACKOFF_CONSTANT"),
        factor=config.get_float("MASTER_BACKOFF_FACTOR"),
        ceiling_s=config.get_float("MASTER_BACKOFF_CEILING"),
        recover_s=config.get_float("MASTER_RECOVER_FACTOR"),
    )


def _daemons_of(config: Config) -> tuple[list[str], list[str]]:
    """The daemons of this host, and the words of DAEMON_LIST that name none."""
    return daemons_of(config.get_list("DAEMON_LIST"), shares_port=reach.shared_port(config) is not None)


def _tell_starter(env: Mapping[str, str], message: dict[str, object]) -> None:
    """Reply to `slotwise up`, which waits at the other end of a pipe."""
    descriptor = env.get(READY_FD)
    if descriptor:
        with contextlib.suppress(OSError):
            os.write(int(descriptor), json.dumps(message).encode() + b"\n")
        with contextlib.suppress(OSError):
            os.close(int(descriptor))


def _set_environments(spawner: SpawnerClient, names: Sequence[str], config: Config) -> list[str]:
    """Have daemons that start from now on find what the configuration gives them; what is wrong with that."""
    wrong: dict[str, None] = {}
    for name in names:
        spawner.environments[name], texts = daemon_environment.of_config(config, name)
        wrong |= dict.fromkeys(texts)
    return list(wrong)


async def start(context: DaemonContext) -> Master:
    """Start to bring the daemons up."""
    assert _spawner is not None, "prepare() runs first"
    channel, spawner_pid = _spawner
    named = named_file(context.env, context.config_file)
    if named is not None:
        root_file.record(context.home, named)
    pool_end.withdraw(context.home)
    names, unknown = _daemons_of(context.config)
    for name in unknown:
        _log.warning("ignoring unknown daemon %s in DAEMON_LIST", name)
    spawner = SpawnerClient(channel, context.env, context.config_file)
    for text in _set_environments(spawner, names, context.config):
        _log.warning("%s", text)
    keepers = {
        name: DaemonSupervisor(
            name,
            context.home,
            context.clock,
            spawner,
            context.credential.family,
            Limits.of_config(context.config),
            backoff_of(context.config),
            HangTimeout.of_config(context.config, name),
        )
        for name in names
    }
    pool = Pool(keepers)

    def require_startable(name: str) -> None:
        env, home = context.env, context.home
        require_sound(load(context.config_file, subsystem=SUBSYSTEMS[name], env=env, home=home))

    async def reload() -> list[str]:
        assert context.reload is not None, "the runtime sets it before calls are served"
        return await context.reload()

    shutdown_program = ShutdownProgram(lambda: context.config)
    servicer = MasterServicer(pool, context.home, require_startable, reload, shutdown_program)
    daemon_pb2_grpc.add_MasterServicer_to_server(servicer, context.server)
    relay = Relay(context)
    collector_pb2_grpc.add_CollectorServicer_to_server(CollectorRelay(relay), context.server)
    negotiator_pb2_grpc.add_NegotiatorServicer_to_server(NegotiatorRelay(relay), context.server)
    return Master(context, pool, spawner, spawner_pid, shutdown_program)
