"""Every method of every service asks for the scope that the table names, before anything else happens."""

from __future__ import annotations

import grpc
import pytest
from slotwise.wire import call
from slotwise.wire.gen import (
    collector_pb2,
    collector_pb2_grpc,
    daemon_pb2,
    daemon_pb2_grpc,
    negotiator_pb2,
    negotiator_pb2_grpc,
    node_pb2,
    node_pb2_grpc,
    schedd_pb2,
    schedd_pb2_grpc,
    startd_pb2,
    startd_pb2_grpc,
    starter_pb2,
    starter_pb2_grpc,
    token_pb2,
    token_pb2_grpc,
)
from slotwise.wire.security import DAEMON_LEVELS, LEVELS, OPEN_METHODS, required_levels
from slotwise.wire.token import Identity, with_implied

from tests.support.serving import authenticator, metadata, serving, token
from tests.support.waiting import LIMIT_S

FILES = (collector_pb2, daemon_pb2, negotiator_pb2, node_pb2, schedd_pb2, startd_pb2, starter_pb2, token_pb2)
METHODS = [
    (f"/{service.full_name}/{method.name}", method.client_streaming, method.server_streaming)
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
#: Servicers that implement nothing: an answer of UNIMPLEMENTED means that the call came through.
ADD = (
    lambda s: collector_pb2_grpc.add_CollectorServicer_to_server(collector_pb2_grpc.CollectorServicer(), s),
    lambda s: daemon_pb2_grpc.add_DaemonServicer_to_server(daemon_pb2_grpc.DaemonServicer(), s),
    lambda s: daemon_pb2_grpc.add_MasterServicer_to_server(daemon_pb2_grpc.MasterServicer(), s),
    lambda s: negotiator_pb2_grpc.add_NegotiatorServicer_to_server(negotiator_pb2_grpc.NegotiatorServicer(), s),
    lambda s: node_pb2_grpc.add_NodesServicer_to_server(node_pb2_grpc.NodesServicer(), s),
    lambda s: schedd_pb2_grpc.add_ScheddServicer_to_server(schedd_pb2_grpc.ScheddServicer(), s),
    lambda s: startd_pb2_grpc.add_StartdServicer_to_server(startd_pb2_grpc.StartdServicer(), s),
    lambda s: starter_pb2_grpc.add_StarterServicer_to_server(starter_pb2_grpc.StarterServicer(), s),
    lambda s: token_pb2_grpc.add_TokensServicer_to_server(token_pb2_grpc.TokensServicer(), s),
)


async def outcome(
    opened: grpc.aio.Channel, method: tuple[str, bool, bool], shown: tuple[tuple[str, str], ...]
) -> grpc.StatusCode:
    """The status of an empty call."""
    path, streams_in, streams_out = method
    kind = f"{'stream' if streams_in else 'unary'}_{'stream' if streams_out else 'unary'}"
    if streams_in:
        # Nothing is sent: a write that comes after the end of a call makes grpc.aio forget how the call ended.
        asked = getattr(opened, kind)(path)(metadata=shown, timeout=LIMIT_S)
        return await asked.code()
    asked = getattr(opened, kind)(path)(b"", metadata=shown, timeout=LIMIT_S)
    try:
        if streams_out:
            async for _ in asked:
                pass
        else:
            await asked
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_nobody_may_do_anything_but_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call.delays, "most_s", 0.0)
    async with serving(*ADD) as opened:
        for method in METHODS:
            for shown in ((), (("authorization", "Bearer nonsense"),)):
                code = await outcome(opened, method, shown)
                expected = "UNIMPLEMENTED" if method[0] in OPEN_METHODS else "UNAUTHENTICATED"
                assert code.name == expected, method[0]


@pytest.mark.parametrize("scope", LEVELS)
async def test_a_token_opens_what_its_scope_includes_and_no_more(scope: str) -> None:
    identity = authenticator().identity(token(scope))
    async with serving(*ADD) as opened:
        for method in METHODS:
            code = await outcome(opened, method, metadata(scope))
            allowed = method[0] in OPEN_METHODS or identity.may(*required_levels(method[0]))
            assert code.name == ("UNIMPLEMENTED" if allowed else "PERMISSION_DENIED"), method[0]


@pytest.mark.parametrize(
    ("method", "scope"),
    [
        ("Daemon/Shutdown", "ADMINISTRATOR"),
        ("Daemon/Reconfig", "ADMINISTRATOR"),
        ("Master/StopDaemons", "ADMINISTRATOR"),
        ("Negotiator/EditAccounting", "ADMINISTRATOR"),
        ("Startd/Vacate", "ADMINISTRATOR"),
        ("Startd/Drain", "ADMINISTRATOR or DRAIN"),
        ("Startd/Claims", "ADVERTISE_SCHEDD"),
        ("Collector/Subscribe", "NEGOTIATOR"),
        ("Schedd/ResourceRequests", "NEGOTIATOR"),
        ("Schedd/Submit", "WRITE"),
        ("Schedd/Act", "WRITE"),
        ("Schedd/EditUsers", "ADMINISTRATOR"),
        ("Schedd/Query", "READ"),
        ("Collector/Query", "READ or ADVERTISE_SCHEDD or ADVERTISE_STARTD or ADVERTISE_MASTER"),
    ],
)
def test_the_scopes_that_matter_most(method: str, scope: str) -> None:
    assert " or ".join(required_levels(f"/slotwise.v1.{method}")) == scope


#: What each daemon's own credentials open, besides Ping and SetConfig: that refuses what no SETTABLE_ATTRS list has.
OPEN_TO = {
    "master": {
        "Collector/Advertise",
        "Collector/Invalidate",
        "Collector/Query",
        "Negotiator/Accounting",
        "Negotiator/Analyze",
        "Negotiator/LastCycle",
        "Tokens/Sync",
        "Nodes/Leave",
        "Nodes/Renew",
    },
    "collector": set(),
    "schedd": {
        "Collector/Advertise",
        "Collector/Invalidate",
        "Collector/Query",
        "Negotiator/Reschedule",
        "Startd/Claims",
    },
    "startd": {"Collector/Advertise", "Collector/Invalidate", "Collector/Query"},
    "starter": set(),
}


@pytest.mark.parametrize("daemon", OPEN_TO)
def test_a_daemon_may_do_its_part_and_nothing_else(daemon: str) -> None:
    levels = with_implied(DAEMON_LEVELS[daemon])
    identity = Identity(f"condor@{daemon}.test", levels)
    opened = {path.rpartition("slotwise.v1.")[2] for path, *_ in METHODS if identity.may(*required_levels(path))}
    assert opened - {"Daemon/SetConfig"} == OPEN_TO[daemon]


def test_no_daemon_is_an_administrator() -> None:
    for levels in DAEMON_LEVELS.values():
        assert with_implied(levels).isdisjoint({"ADMINISTRATOR", "CONFIG", "WRITE", "DAEMON"})
