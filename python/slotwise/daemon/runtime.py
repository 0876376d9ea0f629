"""Runs one daemon: configuration, log, lock, server, address file, signals, and an orderly end.

``slotwise daemon NAME`` calls :func:`main`. A daemon's own module only builds its parts in
``async def start(context) -> RunningDaemon``.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import functools
import importlib
import logging
import os
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import grpc
from msgspec.structs import replace

from slotwise import __version__, metrics
from slotwise.authorization import settable, settings
from slotwise.authorization.authorizer import Authorizer
from slotwise.authorization.policy import LEVELS
from slotwise.clock import Clock, SystemClock
from slotwise.config import Config, home_of, load, require_sound
from slotwise.config.remote import RemoteSettings
from slotwise.daemon import (
    classad_host,
    duty_cycle,
    fetched_logs,
    membership,
    owner,
    preflight,
    privileges,
    reach,
    spawn,
    start_progress,
    tasks,
)
from slotwise.daemon.lock import DaemonLock
from slotwise.daemon.pause import reconsider
from slotwise.daemon.process import STACKS_SIGNAL
from slotwise.daemon.registry import DAEMONS, SUBSYSTEMS
from slotwise.daemon.vitals import vitals
from slotwise.errors import ConfigError, DeniedError, SlotwiseError, UsageError
from slotwise.home import PoolHome
from slotwise.model.publication import Publication
from slotwise.observe.log import flush_logs, start_log
from slotwise.table import limit_evaluations
from slotwise.wire import address, audit, call, channel, contact, issuers, map_file, security, socket_path, tls
from slotwise.wire.address import DaemonAddress, configured_collector
from slotwise.wire.address_key import AddressKey
from slotwise.wire.connections import ConnectionBounds
from slotwise.wire.contact import CERTIFICATE
from slotwise.wire.context import Context
from slotwise.wire.credential import HostCredential, places
from slotwise.wire.gen import common_pb2, daemon_pb2, daemon_pb2_grpc
from slotwise.wire.keys import PoolSecrets
from slotwise.wire.login import LIFETIME_S, LoginServer, socket_of
from slotwise.wire.origin import broker_of, origin_of
from slotwise.wire.server import bind, bind_socket, connections_most, listen, make_server
from slotwise.wire.status import answers_errors

_log = logging.getLogger(__name__)


#: Modes of stopping, each harder than the one before.
_MODES = ("peaceful", "graceful", "fast")


#: Daemons whose children are programs of jobs, users and administrators, which expect the usual mask. What is secret
#: among their own files is made with a mode of its own. What other daemons make is theirs alone unless they
#: say otherwise.
_OPEN_FILES = ("startd", "starter")

#: A fast stop that takes longer hangs: the stacks of all threads go into ``<daemon>.out`` and the process ends.
_FAST_S = 30.0
#: The same for what is left once everything has been stopped.
_LEAVE_S = 5.0


class RunningDaemon(Protocol):
    """What a daemon's ``start`` returns."""

    async def reconfig(self, config: Config) -> list[str]:
        """Take over a new configuration; returns warnings."""
        ...

    async def stop(self, mode: str) -> None:
        """End in an orderly way. ``mode`` is ``graceful``, ``fast`` or ``peaceful``."""
        ...


#: Reads the configuration again and takes it over; gives warnings.
Reload = Callable[[], Awaitable[list[str]]]


@dataclass
class DaemonContext:
    """What a daemon gets to work with. Servicers are added to ``server`` before ``start`` returns."""

    name: str
    home: PoolHome
    config: Config
    clock: Clock
    server: grpc.aio.Server
    authenticator: security.Authenticator
    credential: HostCredential
    address: DaemonAddress
    env: Mapping[str, str]
    config_file: str | None = None
    #: The lists of users and hosts that calls are checked against.
    authorizer: Authorizer = field(default_factory=lambda: Authorizer(""), repr=False)
    #: The keys of the host and its pool.
    secrets: PoolSecrets = field(init=True, default=None, repr=False)  # type: ignore[assignment]
    #: When the configuration was taken over last, seconds since the epoch; 0: at the start.
    configured_at: int = 0
    #: Reads the configuration again and takes it over, as Reconfig does; returns warnings.
    reload: Reload | None = None
    #: What reads this daemon's state for its metrics.
    metrics: list[metrics.Source] = field(default_factory=list, repr=False)
    #: Set by anyone to end the daemon; the value is the mode.
    stop_requested: asyncio.Future[str] = field(
        repr=False, default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def request_stop(self, mode: str = "graceful") -> None:
        """Ask the daemon to end. A harder mode than the one under way takes its place."""
        if not self.stop_requested.done():
            self.stop_requested.set_result(mode)


class Knobs:
    """Reads a daemon's configuration, with what it was told from afar."""

    def __init__(self, name: str, env: Mapping[str, str], config_file: str | None, home: PoolHome) -> None:
        self._read = functools.partial(load, config_file, subsystem=SUBSYSTEMS[name], env=env, home=home)
        config = self._read()
        self._remote = RemoteSettings(config)
        #: The configuration to start with. Commands in it run once.
        self.first = self.load() if self._remote.files() else config

    def load(self, runtime: Mapping[str, str] | None = None) -> Config:
        """The configuration as it is written now; ``runtime``: run-time settings instead of those that hold.

        :raises ConfigError: when it is refused.
        """
        with privileges.root_files():
            return self._read(
                runtime=self._remote.runtime if runtime is None else runtime, remote_files=self._remote.files()
            )

    def change(self, name: str, value: str | None, *, runtime: bool) -> None:
        """Set a knob, or take that back: see :meth:`RemoteSettings.change`.

        :raises ConfigError: when the daemon would refuse a configuration with it.
        """
        with privileges.root_files():
            self._remote.change(name, value, runtime=runtime, try_it=lambda made: _require_usable(self.load(made)))


def _require_usable(config: Config) -> None:
    require_sound(config)
    settings.read(config, str(config.subsystem))


class DaemonServicer(daemon_pb2_grpc.DaemonServicer):
    """The service that every daemon offers: ping, reconfig, shutdown, knob values."""

    def __init__(self, context: DaemonContext, reload: Reload, knobs: Knobs) -> None:
        self._context = context
        self._reload = reload
        self._knobs = knobs

    @answers_errors
    async def Ping(self, request: daemon_pb2.PingRequest, context: Context) -> daemon_pb2.PingReply:
        """Who is there, and who the caller is here."""
        me = self._context.address
        reply = daemon_pb2.PingReply(
            daemon=self._context.name,
            name=me.name,
            version=__version__,
            started_at=me.started_at,
            certificate_port=me.certificate_port,
            certificate_sock=f"{me.sock}{CERTIFICATE}" if me.sock and me.certificate_port else "",
        )
        try:
            caller = self._context.authenticator.caller(context)
        except SlotwiseError:
            return reply
        grants = await self._context.authorizer.grants(caller, origin_of(context), broker_of(context))
        reply.identity = caller.name
        reply.method = caller.method
        reply.account = preflight.described(privileges.account())
        reply.scopes.extend(sorted(grants.caller.levels))
        for level in LEVELS:
            found = grants.decisions[level]
            reply.access.add(
                level=found.level,
                allowed=found.allowed,
                reason=found.reason,
                knob=found.knob,
                entry=found.entry,
                origin=found.origin,
            )
        return reply

    @answers_errors
    async def Reconfig(self, request: common_pb2.Empty, context: Context) -> daemon_pb2.ReconfigReply:
        """Read the configuration again."""
        return daemon_pb2.ReconfigReply(warnings=await self._reload())

    @answers_errors
    async def Shutdown(self, request: daemon_pb2.ShutdownRequest, context: Context) -> common_pb2.Empty:
        """End this daemon."""
        self._context.request_stop(daemon_pb2.ShutdownRequest.Mode.Name(request.mode).lower())
        return common_pb2.Empty()

    @answers_errors
    async def ConfigValues(
        self, request: daemon_pb2.ConfigValuesRequest, context: Context
    ) -> daemon_pb2.ConfigValuesReply:
        """Knobs as this daemon has them now; undefined ones are left out."""
        values = {name: self._context.config.get(name) for name in request.names}
        return daemon_pb2.ConfigValuesReply(values={k: v for k, v in values.items() if v is not None})

    @answers_errors
    async def SetConfig(self, request: daemon_pb2.SetConfigRequest, context: Context) -> common_pb2.Empty:
        """Set a knob of this daemon, or take that back, where SETTABLE_ATTRS allows it."""
        caller = self._context.authenticator.caller(context)
        decision = settable.read(self._context.config).decide(call.decisions.get(), request.name)
        if not decision.allowed:
            raise DeniedError(f"{caller.name} may not set {request.name[:200]} here: {decision.reason}")
        value = request.value if request.HasField("value") else None
        kind = "run-time" if request.runtime else "persistent"
        audit.note("%s %s (%s), %s", "set" if value is not None else "unset", request.name, kind, decision.reason)
        self._knobs.change(request.name, value, runtime=request.runtime)
        return common_pb2.Empty()

    @answers_errors
    async def FetchLog(
        self, request: daemon_pb2.FetchLogRequest, context: Context
    ) -> AsyncIterator[daemon_pb2.LogPiece]:
        """The bytes of a log of this host's daemons, or of the history files."""
        audit.note("log %s", request.name[:100])
        async for data in fetched_logs.fetch(self._context.home, request.name, self._context.config):
            yield daemon_pb2.LogPiece(data=data)

    @answers_errors
    async def Statistics(self, request: daemon_pb2.StatisticsRequest, context: Context) -> daemon_pb2.StatisticsReply:
        """What this daemon spends its time on."""
        publication = Publication.of(request.publish, "DC", "DAEMONCORE", default=duty_cycle.DEFAULT)
        now = self._context.clock.now()
        started = self._context.address.started_at
        moments = {"MyCurrentTime": now, "DaemonStartTime": started, "StatsLifetime": max(0.0, now - started)}
        measured = duty_cycle.statistics(time.monotonic(), publication) | vitals(int(now), started)
        return daemon_pb2.StatisticsReply(values={**measured, **moments})

    @answers_errors
    async def Metrics(self, request: common_pb2.Empty, context: Context) -> daemon_pb2.MetricsReply:
        """The families of this process's metrics."""
        reply = daemon_pb2.MetricsReply()
        for family in metrics.collect(self._context.metrics):
            row = reply.families.add(name=family.name, type=family.type, help=family.documentation)
            for sample in family.samples:
                row.samples.add(name=sample.name, labels=sample.labels, value=sample.value)
        return reply


def main(name: str, env: Mapping[str, str], config_file: str | None = None) -> int:
    """Run daemon ``name`` in this process until it is told to stop; returns the exit status."""
    if name not in DAEMONS:
        raise UsageError(f"there is no daemon {name!r}", hint=f"one of {', '.join(DAEMONS)}")
    os.umask(0o022 if name in _OPEN_FILES else 0o077)
    faulthandler.enable()  # a crash, or SIGABRT, leaves the stacks of all threads in <daemon>.out
    faulthandler.register(STACKS_SIGNAL)
    # What must happen before gRPC starts in this process (the master forks its spawner).
    prepare = getattr(importlib.import_module(DAEMONS[name]), "prepare", None)
    if prepare is not None:
        prepare(env, config_file)
    spawn.take_descriptors()  # what was forked before has its own
    try:
        with asyncio.Runner(loop_factory=duty_cycle.loop) as runner:
            try:
                return runner.run(_run(name, env, config_file))
            except BaseException:
                # What it had begun is cancelled now, and must not keep the process, nor its lock, from the next one.
                faulthandler.dump_traceback_later(_LEAVE_S, exit=True)
                raise
    finally:
        flush_logs()  # a daemon that was forked leaves without Python's own end


async def _run(name: str, env: Mapping[str, str], config_file: str | None) -> int:
    home = home_of(env).require_trusted()
    home.create()
    knobs = Knobs(name, env, config_file, home)
    config = knobs.first
    refusal: ConfigError | None = None
    why = ""
    try:
        home = home.with_spool(config.get("SPOOL"))
        account, why = privileges.choose(name, home, config, env)
        home.make_named_spool(*(os.geteuid(), os.getegid()) if account is None else (account.uid, account.gid))
        privileges.begin(name, home, account)
    except ConfigError as error:
        refusal = error
    selected = start_log(home, name, config)
    _log.info("** slotwise %s (%s) %s STARTING UP", name, SUBSYSTEMS[name], __version__)
    _log.info("** PID = %d RealUID = %d, configuration %s", os.getpid(), os.getuid(), _sources(config))
    _log.info("Daemon Log is logging: %s", selected.shown)
    if refusal is None:
        _log_account(why)
    classad_host.follow(config, SUBSYSTEMS[name])
    # The negotiator asks its tables about the whole pool; time limits of HTCondor's bound its cycles.
    limit_evaluations(own_questions=name != "negotiator")
    _set_core_limit(home, config)
    try:
        if refusal is not None:
            raise refusal
        for problem in require_sound(config):
            _log.warning("configuration: %s", problem)
        return await _serve(name, env, config_file, home, config, knobs)
    except SlotwiseError as error:
        for line in f"{name} cannot run: {error}".splitlines():
            _log.error("%s", line)
        raise
    except Exception:
        _log.exception("%s failed", name)
        raise


def _log_account(why: str) -> None:
    """Whose rights the daemon works with."""
    account = privileges.account()
    if account is not None:
        _log.info("** The daemons' account is %s (uid %d, gid %d)", account.name, account.uid, account.gid)
    elif why:
        _log.warning("%s; daemons work as root", why)
    elif os.geteuid() == 0:
        _log.info("** There is no account condor or slotwise, and no CONDOR_IDS: daemons work as root")


def _sources(config: Config) -> str:
    return ", ".join(config.sources) or "built-in defaults"


def _set_core_limit(home: PoolHome, config: Config) -> None:
    """CREATE_CORE_FILES, when set: whether a daemon that crashes leaves a core file, in the log directory."""
    if not config.is_set("CREATE_CORE_FILES"):
        return
    wanted = config.get_bool("CREATE_CORE_FILES")
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (most if wanted else 0, most))
    if wanted:
        os.chdir(home.log)


async def _serve(
    name: str, env: Mapping[str, str], config_file: str | None, home: PoolHome, config: Config, knobs: Knobs
) -> int:
    lock = DaemonLock(home, name)
    context = await _context(name, home, config, env, config_file)

    bounds = _connection_bounds(home, context.address, context.authenticator)
    _bound_peers(bounds, context)

    async def reload() -> list[str]:
        former = context.config
        try:
            fresh = knobs.load()
            doubts = [str(problem) for problem in require_sound(fresh)]
            lists = await context.authorizer.read(fresh)
            with privileges.root_files():
                trusted = issuers.read(fresh)
                users = map_file.read(fresh) if context.address.certificate_port else None
            context.config = fresh
            context.configured_at = int(context.clock.now())
            with privileges.root_files():
                _trust_daemons(fresh)
            _limit_tokens(context.authenticator, fresh)
            context.authenticator.forget()
            warnings = doubts + await daemon.reconfig(fresh)
            reconsider()
            warnings += context.authorizer.follow(lists)
            context.authenticator.issuers, context.authenticator.users = trusted, users
            context.authenticator.forget()
            if users is None and tls.certificates_count(fresh):
                warnings.append("certificates of callers count from the next start of the daemon")
            _bound_peers(bounds, context)
            start_log(home, name, fresh, again=True)
            _log.info("reconfigured from %s", _sources(fresh))
            return warnings + classad_host.follow(fresh, SUBSYSTEMS[name])
        except SlotwiseError as error:  # refused: nothing of it holds
            context.config = former
            for line in f"reconfig rejected, keeping the previous configuration: {error}".splitlines():
                _log.error("%s", line)
            raise

    context.reload = reload
    started = asyncio.Event()
    _take_signals(context, reload, started)
    daemon_pb2_grpc.add_DaemonServicer_to_server(DaemonServicer(context, reload, knobs), context.server)
    daemon: RunningDaemon = await importlib.import_module(DAEMONS[name]).start(context)
    await context.server.start()
    login = _login(context)
    with privileges.root_files():
        if login is not None:
            login.start()
        address.publish(home, context.address)
        start_progress.end(home, name)
    privileges.give_up_root(name)
    _log.info("command socket at <%s>", context.address.tcp)
    started.set()
    for number in (signal.SIGQUIT, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, context.request_stop, "fast")
    beside = [
        tasks.keep("writing what debug() says", classad_host.keep_writing),
        tasks.keep("looking for changed keys and revocations", context.authenticator.watch),
        tasks.keep("counting connections", bounds.watch),
        tasks.keep("measuring the lag of the event loop", metrics.measure_lag),
    ]
    try:
        await _stop(context, daemon)
        await context.server.stop(grace=0.1)
        # A thread that never returns must not keep the process: all that is durable is on disk by now.
        faulthandler.dump_traceback_later(_LEAVE_S, exit=True)
    finally:
        await tasks.end(*beside)
        classad_host.write_debug_lines()
        with privileges.root_files():
            if login is not None:
                login.close()
            address.withdraw(home, name, os.getpid())
        lock.release()
    _log.info("**** slotwise %s (%s) pid %d EXITING WITH STATUS 0", name, SUBSYSTEMS[name], os.getpid())
    return 0


async def _stop(context: DaemonContext, daemon: RunningDaemon) -> None:
    """Wait for a request to stop and follow it; a harder one that comes meanwhile interrupts the softer."""
    mode = await context.stop_requested
    while True:
        _log.info("shutting down (%s)", mode)
        limit_s = None
        if context.name != "master":  # it waits for others, each with a limit of its own
            if mode == "fast":
                _end_within(context)
            elif mode == "graceful":
                limit_s = context.config.get_float("SHUTDOWN_GRACEFUL_TIMEOUT")
        context.stop_requested = asyncio.get_running_loop().create_future()
        stopping = asyncio.create_task(daemon.stop(mode))
        ends_at = time.monotonic() + limit_s if limit_s is not None else None
        while not stopping.done():
            either: set[asyncio.Future[None] | asyncio.Future[str]] = {stopping, context.stop_requested}
            left_s = None if ends_at is None else max(0.0, ends_at - time.monotonic())
            done, _ = await asyncio.wait(either, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if not done and not context.stop_requested.done():
                _log.warning("the graceful stop has taken %g s: stopping fast", limit_s)
                ends_at = None
                context.request_stop("fast")
            if not context.stop_requested.done():
                continue
            asked = context.stop_requested.result()
            context.stop_requested = asyncio.get_running_loop().create_future()
            if _MODES.index(asked) > _MODES.index(mode) and not stopping.done():
                mode = asked
                if mode == "fast" and context.name != "master":
                    _end_within(context)  # what does not take the cancellation is left behind, too
                stopping.cancel()
                await asyncio.wait([stopping])
                break
        else:
            stopping.result()
            return


def _end_within(context: DaemonContext) -> None:
    """End the process once a fast stop has had its time; the stacks of all threads say what it waited for."""
    limit_s = min(_FAST_S, context.config.get_float("SHUTDOWN_FAST_TIMEOUT"))
    faulthandler.dump_traceback_later(limit_s, exit=True)


async def _context(
    name: str, home: PoolHome, config: Config, env: Mapping[str, str], config_file: str | None
) -> DaemonContext:
    clock = SystemClock()
    full_name = config.get("FULL_HOSTNAME") or socket.gethostname()
    secrets = PoolSecrets(home)
    with privileges.root_files():
        central = membership.prepare(secrets, config, full_name)
        host_key = secrets.host_key()
        if name == "collector" and privileges.account() is not None:
            secrets.hold_signing_keys()
    identity = f"condor@{full_name}"
    authenticator = security.Authenticator(membership.Trust(secrets), family=host_key.public, now=clock.now)
    _limit_tokens(authenticator, config)
    with privileges.root_files():
        authenticator.issuers = issuers.read(config)
    authorizer = Authorizer(SUBSYSTEMS[name])
    for doubt in authorizer.follow(await authorizer.read(config)):
        _log.warning("configuration: %s", doubt)
    server = make_server(authenticator, authorizer, peers=authenticator.peers)
    shared = reach.shared_port(config)
    if shared is not None and reach.has_own_port(name, config):
        shared = None
    hosts, port = _endpoint(name, config, shared)
    with privileges.root_files():
        key = _address_key(secrets, config)
        credentials = _credentials(hosts, config, key)
        tcp, sock = listen(
            server,
            host=hosts[0],
            port=port,
            socket=address.socket_file(home, name),
            tls=credentials,
        )
        port = int(tcp.rpartition(":")[2])
        for host in hosts[1:]:
            bind(server, host, port, _shown(config, key))
        count = tls.certificates_count(config)
        authenticator.users = map_file.read(config) if count else None
        certificate_port = port if count else 0
        required = config.get_bool("AUTH_SSL_REQUIRE_CLIENT_CERTIFICATE")
        if shared is not None:
            me_at = reach.contact_of(name, full_name, config, shared, reach.host_id(host_key))
            _listen_behind(server, home, name, _shown(config, key))
            if count:
                _listen_behind(server, home, f"{name}{CERTIFICATE}", tls.certificate_credentials(config))
            certificate_port = shared.port if count else 0
        else:
            me_at = reach.own_contact(full_name, config, port)
            if count and not required:
                certificate_port = 0
                for host in hosts:
                    wanted = certificate_port or _port(f"SLOTWISE_{name.upper()}_CERTIFICATE_PORT", config)
                    certificate_port = bind(server, host, wanted, tls.certificate_credentials(config))
    alone_here = shared is None and all(map(tls.is_loopback, hosts))
    if key is not None:
        me_at, alone_here = replace(me_at, key=key.text), False
        if shared is None and hosts[0] not in ("0.0.0.0", "[::]"):
            # No name has to be verified, and others may know none for this host.
            me_at = replace(me_at, host=hosts[0].strip("[]"), alias="")
    at = "" if alone_here else str(me_at)
    me = DaemonAddress(name, os.getpid(), tcp, sock, full_name, int(clock.now()), at, certificate_port)
    with privileges.root_files():
        is_default = shared is not None and shared.default == name
        authenticator.audiences |= tls.audiences(config, me, full_name, is_default=is_default)
    # Where daemons have an account the pool's private keys are the collector's and the master's alone.
    alone = privileges.account() is not None
    host_token = membership.HostToken(
        secrets, identity, signs=central and (name == "master" or not alone), publishes=alone and name == "master"
    )
    if name == "master":
        with privileges.root_files():
            host_token()  # the daemons that it starts find it in its file
    credential = HostCredential(
        identity,
        host_key,
        host_token,
        security.DAEMON_LEVELS[name],
        clock.now,
        membership.StandIn(secrets, config),
    )
    return DaemonContext(
        name, home, config, clock, server, authenticator, credential, me, env, config_file, authorizer, secrets
    )


def _listen_behind(
    server: grpc.aio.Server, home: PoolHome, name: str, credentials: grpc.ServerCredentials | None
) -> None:
    """Take the connections that the host's shared port passes on; nobody else can connect there."""
    path = reach.forward_socket(home, name)
    path.unlink(missing_ok=True)
    account = privileges.account()
    former = os.umask(0o177)
    try:
        bind_socket(server, path, credentials)
    finally:
        os.umask(former)
    if account is not None and os.geteuid() == 0:
        os.chown(path, account.uid, account.gid)


def _limit_tokens(authenticator: security.Authenticator, config: Config) -> None:
    """Which tokens of the pool the configuration does not accept."""
    authenticator.revocation_expr = config.get("SEC_TOKEN_REVOCATION_EXPR") or ""
    age = config.find_int("SEC_TOKEN_MAX_AGE")
    authenticator.max_age_s = age if age is not None and age > 0 else None


def _connection_bounds(home: PoolHome, me: DaemonAddress, authenticator: security.Authenticator) -> ConnectionBounds:
    account = privileges.account()
    exempt = frozenset({0, os.geteuid(), *(() if account is None else (account.uid,))})
    ports = {int(me.tcp.rpartition(":")[2])}
    behind = []
    if me.sock:
        behind = [socket_path.usable(reach.forward_socket(home, sock)) for sock in (me.sock, f"{me.sock}{CERTIFICATE}")]
    elif me.certificate_port:
        ports.add(me.certificate_port)
    own = socket_path.usable(me.socket)
    return ConnectionBounds(
        own,
        ports,
        of_user=0,
        of_address=0,
        exempt=exempt,
        behind=behind,
        peers=authenticator.peers,
        unproved_most=connections_most() // 2,
    )


def _bound_peers(bounds: ConnectionBounds, context: DaemonContext) -> None:
    """What one user, or one address, may hold of this daemon."""
    config = context.config
    bounds.of_user = config.get_int("SLOTWISE_MAX_CONNECTIONS_PER_USER")
    bounds.of_address = config.get_int("SLOTWISE_MAX_CONNECTIONS_PER_ADDRESS")
    context.authenticator.calls_of_user = config.get_int("SLOTWISE_MAX_CALLS_PER_USER")


def _login(context: DaemonContext) -> LoginServer | None:
    """What tells local accounts who they are to this daemon."""
    if not context.address.socket:
        return None

    def token_for(uid: int) -> tuple[str, float] | None:
        found = owner.local_identity(uid, context.config)
        if found is None:
            _log.info("refused a local login of uid %d: this pool is another user's", uid)
            return None
        return context.authenticator.login(uid, *found, LIFETIME_S)

    return LoginServer(socket_of(context.address.socket), token_for)


def _address_key(secrets: PoolSecrets, config: Config) -> AddressKey | None:
    """The key that this daemon's address names; None where it has a certificate, or is not to have one."""
    has_certificate = config.is_set("AUTH_SSL_SERVER_CERTFILE") and config.get("AUTH_SSL_SERVER_CERTFILE")
    if has_certificate or not config.get_bool("SLOTWISE_ADDRESS_KEY"):
        return None
    return AddressKey.of_file(secrets.address_key_file)


def _shown(config: Config, key: AddressKey | None) -> grpc.ServerCredentials | None:
    """What callers verify, of one address that the daemon listens on."""
    return tls.server_credentials(config) if key is None else key.credentials()


def _credentials(hosts: Sequence[str], config: Config, key: AddressKey | None) -> grpc.ServerCredentials | None:
    """What to show on TCP; also makes this process's own calls use TLS where it is configured.

    :raises ConfigError: when others could listen to tokens on their way.
    """
    credentials = _shown(config, key)
    _trust_daemons(config)
    tls.require_encryption(config, hosts, encrypted=credentials is not None)
    return credentials


def _trust_daemons(config: Config) -> None:
    """Make calls from now on trust the authorities that the configuration names."""
    channel.use_tls(tls.client_credentials(config), cleartext=config.get_bool("SLOTWISE_ALLOW_CLEARTEXT"))
    channel.use_network(reach.network_of(config))
    if (collector := configured_collector(config)) is not None:
        places.name(collector)


def _endpoint(name: str, config: Config, shared: reach.SharedPort | None) -> tuple[list[str], int]:
    """Where to listen: SLOTWISE_LISTEN (loopback unless set to something else) and SLOTWISE_<DAEMON>_PORT (0: any); a
    daemon behind a shared port: on the loopback alone.

    A collector that other machines may reach is at COLLECTOR_PORT, where they look for it, unless it is told otherwise.
    """
    if shared is not None:
        return ["127.0.0.1"], 0
    found = [each.host for each in reach.listen_places(config)]
    # gRPC takes callers of both families at the address for all of IPv6.
    hosts = [contact.bracketed(host) for host in found if host != "0.0.0.0" or "::" not in found]
    knob = f"SLOTWISE_{name.upper()}_PORT"
    if config.get(knob) is None and name == "collector" and not all(map(tls.is_loopback, hosts)):
        knob = "COLLECTOR_PORT"
    return hosts, _port(knob, config)


def _port(knob: str, config: Config) -> int:
    text = config.get(knob)
    if text is None:
        return 0
    text = text.strip()
    if not text.isdigit() or int(text) > 65535:
        raise ConfigError(f"{knob} = {text} is not a port", hint="a number from 0 to 65535", key=knob)
    return int(text)


def _take_signals(context: DaemonContext, reload: Reload, started: asyncio.Event) -> None:
    """SIGTERM: graceful; SIGQUIT, SIGINT: fast; SIGHUP: reconfig (HTCondor's signals).

    A daemon is at work before it has ``started`` (a starter cleans up after runs that ended): a graceful stop or a
    reconfig that comes then is followed afterwards. A fast stop ends the process then, as the kernel does it.
    """
    loop = asyncio.get_running_loop()
    under_way: set[asyncio.Task[None]] = set()

    def reconfigure() -> None:
        task = loop.create_task(_reload_when(started, reload))
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    loop.add_signal_handler(signal.SIGTERM, context.request_stop, "graceful")
    loop.add_signal_handler(signal.SIGHUP, reconfigure)


async def _reload_when(started: asyncio.Event, reload: Reload) -> None:
    await started.wait()
    with contextlib.suppress(SlotwiseError):  # it is in the log
        for warning in await reload():
            _log.warning("%s", warning)
