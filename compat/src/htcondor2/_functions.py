"""Functions of htcondor2 that belong to no class."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from classad2 import ClassAd
from slotwise import environment
from slotwise.client import Schedd as SlotwiseSchedd
from slotwise.config import home_of
from slotwise.dag import control, locate
from slotwise.errors import SlotwiseError
from slotwise.release import CONDOR_VERSION, condor_platform
from slotwise.wire.gen import common_pb2, daemon_pb2, daemon_pb2_grpc

from htcondor2 import _pool
from htcondor2._enums import AdType, DaemonCommand, LogLevel
from htcondor2._errors import HTCondorException
from htcondor2._security import SecurityContext

if TYPE_CHECKING:
    from slotwise.dag.locate import Place

_log = logging.getLogger("htcondor2")
_NAMES = {
    AdType.Master: "master", AdType.Startd: "startd", AdType.Slot: "startd", AdType.Schedd: "schedd",
    AdType.Negotiator: "negotiator", AdType.Collector: "collector",
}  # fmt: skip
_MODES = {
    DaemonCommand.DaemonOff: "GRACEFUL", DaemonCommand.DaemonOffFast: "FAST", DaemonCommand.DaemonsOff: "GRACEFUL",
    DaemonCommand.DaemonsOffFast: "FAST", DaemonCommand.DaemonsOffPeaceful: "PEACEFUL",
}  # fmt: skip
_ENDS = {
    DaemonCommand.OffFast: "FAST", DaemonCommand.OffGraceful: "GRACEFUL", DaemonCommand.OffPeaceful: "PEACEFUL",
    DaemonCommand.OffForce: "FAST",
}  # fmt: skip
#: HTCondor's number of the command that asks for a level.
_PINGS = {
    "DC_NOP": 60011, "ALLOW": 60011, "READ": 60020, "WRITE": 60021, "NEGOTIATOR": 60022, "ADMINISTRATOR": 60023,
    "OWNER": 60024, "CONFIG": 60025, "DAEMON": 60026, "ADVERTISE_STARTD": 60027, "ADVERTISE_SCHEDD": 60028,
    "ADVERTISE_MASTER": 60029,
}  # fmt: skip


def version() -> str:
    """``$CondorVersion: ... $`` of the release of HTCondor that is followed."""
    return CONDOR_VERSION


def platform() -> str:
    """``$CondorPlatform: ... $``."""
    return condor_platform()


def send_command(ad: ClassAd, dc: DaemonCommand, target: str | None = None) -> None:
    """Send a command to the daemon of an ad; ``target`` names a daemon of the same master.

    :raises ValueError: the ad does not say where the daemon answers, or what it is.
    :raises HTCondorException: the daemon refuses, or has no such command.
    """
    if ad.get("MyAddress") is None:
        raise ValueError("Address not available in location ClassAd.")
    kind = ad.get("MyType")
    if kind is None:
        raise ValueError("Daemon type not available in location ClassAd.")
    found = AdType.from_MyType(str(kind))
    if found is None:
        raise ValueError("Unknown daemon type.")
    address = _pool.address_of(ad, "daemon")
    command = DaemonCommand(dc)
    if command is DaemonCommand.Reconfig:
        with _pool.calling("the daemon"):
            daemon = _pool.stub(daemon_pb2_grpc.DaemonStub, address)
            reply = daemon.Reconfig(common_pb2.Empty(), timeout=60)
        for warning in reply.warnings:
            warnings.warn(warning, stacklevel=2)
        return
    if command in _ENDS:
        with _pool.calling("the daemon"):
            daemon = _pool.stub(daemon_pb2_grpc.DaemonStub, address)
            daemon.Shutdown(daemon_pb2.ShutdownRequest(mode=_ENDS[command]), timeout=60)
        return
    if found is not AdType.Master:
        raise HTCondorException(f"{command.name} is for masters, and the ad is of a {_NAMES.get(found, kind)}")
    names = daemon_pb2.DaemonNames(names=[target.lower()] if target else [])
    with _pool.calling("the master"):
        master = _pool.stub(daemon_pb2_grpc.MasterStub, address)
        if command in (DaemonCommand.Restart, DaemonCommand.RestartPeaceful):
            master.Restart(names)
        elif command in (DaemonCommand.DaemonOn, DaemonCommand.DaemonsOn):
            master.StartDaemons(names)
        elif command in _MODES:
            master.StopDaemons(daemon_pb2.StopRequest(names=names.names, mode=_MODES[command], at_once=True))
        else:
            raise HTCondorException(f"{command.name} is not a command of this master")


def ping(location: str | ClassAd, authz: str | None = None, security: SecurityContext | None = None) -> ClassAd:
    """Who the caller is to a daemon: an ad with RemoteName, MyRemoteUserName, AuthMethods and AuthorizationSucceeded,
    which says whether the daemon grants the level ``authz``, where one is named.

    :raises HTCondorException: the daemon does not answer, or there is no such level.
    """
    level = (authz or "DC_NOP").upper().removeprefix("DC_NOP_")
    if level not in _PINGS:
        raise HTCondorException(f"{authz} is not an authorization level; these are: {', '.join(sorted(_PINGS))}")
    address = location if isinstance(location, str) else location.get("MyAddress")
    if not isinstance(address, str):
        raise ValueError("Address not available in location argument.")
    with _pool.calling("the daemon"):
        token = None if security is None else security.preferred_token
        reply = _pool.stub(daemon_pb2_grpc.DaemonStub, address, token).Ping(daemon_pb2.PingRequest(), timeout=20)
    granted = level in ("DC_NOP", "ALLOW") or level in reply.scopes
    answer = ClassAd({"RemoteVersion": CONDOR_VERSION, "AuthCommand": _PINGS[level], "AuthorizationSucceeded": granted})
    # Every call authenticates here; HTCondor's does when the security of the daemon asks for it.
    answer["Authentication"] = "YES" if reply.identity else "NO"
    for theirs, value in (
        ("RemoteName", reply.daemon),
        ("User", reply.identity),
        ("MyRemoteUserName", reply.identity),
        ("AuthMethods", reply.method),
    ):
        if value:
            answer[theirs] = value
    return answer


def enable_debug(flags: str | None = None) -> None:
    """Show messages of this module on standard error."""
    if not _log.handlers:
        _log.addHandler(logging.StreamHandler(sys.stderr))
    _log.setLevel(logging.DEBUG)


def disable_debug() -> None:
    """Show no messages of this module."""
    for handler in list(_log.handlers):
        _log.removeHandler(handler)


def enable_log() -> None:
    """Leave messages to the program's own :mod:`logging`, under the name htcondor2."""
    _log.propagate = True


def log(level: LogLevel, message: str) -> None:
    """Write a message."""
    _log.log(logging.ERROR if LogLevel(level) in (LogLevel.Always, LogLevel.Error) else logging.DEBUG, "%s", message)


def send_alive(ad: ClassAd | None = None, pid: int | None = None, timeout: int | None = None) -> None:
    """Nothing: masters of this pool ask their daemons, and start none that use this module."""


def set_ready_state(state: str = "Ready") -> None:
    """Nothing: see :func:`send_alive`."""


class _Refused:
    """A daemon that this pool does not have. Its methods are there, so that programs can be imported and read.

    :raises HTCondorException: whenever one is made.
    """

    _remedy = ""

    def __init__(self, location: ClassAd | None = None) -> None:
        raise HTCondorException(self._remedy)

    def _refuse(self, *_: object, **__: object) -> Any:
        """Refused.

        :raises HTCondorException: always.
        """
        raise HTCondorException(self._remedy)


class Placementd(_Refused):
    """Refused: this pool has no placementd.

    :raises HTCondorException: always.
    """

    _remedy = "this pool has no placementd: submit to the access point itself, with a token of its own (slotwise token)"
    queryAuthorizations = queryTokens = queryUsers = userLogin = _Refused._refuse


class DAGMan:
    """The job that runs a DAG."""

    def __init__(self, dag_id: int) -> None:
        if not isinstance(dag_id, int):
            raise TypeError("dag_id must be an integer")
        self._dag_id = dag_id

    @property
    def dag_id(self) -> int:
        """The cluster of the DAG's job."""
        return self._dag_id

    def halt(self, reason: str | None = None, pause: bool | None = None) -> tuple[bool, str]:
        """Have the DAG begin nothing new: whether that was done, and what to say. ``pause`` is not followed."""
        if pause:
            return False, "DAGs are halted here, and not paused: leave pause out"
        return self._tell(lambda place, _: control.halt(place, reason or ""), "Halted")

    def resume(self) -> tuple[bool, str]:
        """Have a halted DAG go on: whether that was done, and what there is to say."""
        return self._tell(lambda place, env: control.resume(place, env, home_of(env).root), "Resumed")

    def _tell(self, act: Callable[[Place, Mapping[str, str]], None], done: str) -> tuple[bool, str]:
        env = environment()
        try:
            with SlotwiseSchedd(env=env) as schedd:
                found = schedd.query(f"ClusterId == {self._dag_id}", locate.ATTRIBUTES, limit=1)
            if not found:
                return False, f"No DAG found for ID {self._dag_id}."
            act(locate.of_job(found[0]), env)
        except SlotwiseError as error:
            return False, str(error)
        return True, f"{done} DAG {self._dag_id}"

    def throttle(self, **limits: int) -> str:
        """What to do instead."""
        return "throttles are set when a DAG is submitted (-maxjobs, -maxidle), or by DAGMAN_ knobs"
