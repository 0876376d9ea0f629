"""Who may call what: every method of every service against every kind of caller, as two tables.

A method that is not in the table fails the test: whoever adds one says here who may call it.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.authorization.authorizer import Authorizer
from slotwise.config import load
from slotwise.errors import UnauthenticatedError
from slotwise.wire import call, channel, gen
from slotwise.wire.server import listen, make_server
from slotwise.wire.token import DAEMON_LEVELS, Identity, with_implied

from tests.support.waiting import LIMIT_S

#: The levels that a call needs, one of which suffices; nothing: not even to be known.
METHODS: dict[str, str] = {
    "Broker/Register": "ADVERTISE_STARTD ADVERTISE_SCHEDD ADVERTISE_MASTER",
    "Collector/Advertise": "ADVERTISE_STARTD ADVERTISE_SCHEDD ADVERTISE_MASTER NEGOTIATOR DRAIN WAKEUP",
    "Collector/Invalidate": "ADVERTISE_STARTD ADVERTISE_SCHEDD ADVERTISE_MASTER NEGOTIATOR DRAIN WAKEUP",
    "Collector/Query": "READ ADVERTISE_SCHEDD ADVERTISE_STARTD ADVERTISE_MASTER",
    "Collector/Sleeps": "READ",
    "Collector/Subscribe": "NEGOTIATOR",
    "Daemon/ConfigValues": "READ",
    "Daemon/FetchLog": "ADMINISTRATOR",
    "Daemon/Metrics": "READ",
    "Daemon/Ping": "",
    "Daemon/Reconfig": "ADMINISTRATOR",
    # SETTABLE_ATTRS_<LEVEL> decides: see test_settable.py.
    "Daemon/SetConfig": "CONFIG ADMINISTRATOR READ WRITE DAEMON NEGOTIATOR"
    " ADVERTISE_MASTER ADVERTISE_STARTD ADVERTISE_SCHEDD",
    "Daemon/Shutdown": "ADMINISTRATOR",
    "Daemon/Statistics": "READ",
    "Master/ReconfigDaemons": "ADMINISTRATOR",
    "Master/Renew": "ADMINISTRATOR",
    "Master/Restart": "ADMINISTRATOR",
    "Master/SetShutdownProgram": "ADMINISTRATOR",
    "Master/StartDaemons": "ADMINISTRATOR",
    "Master/Status": "READ",
    "Master/StopDaemons": "ADMINISTRATOR",
    "Negotiator/Accounting": "READ ADVERTISE_MASTER",
    "Negotiator/Analyze": "READ ADVERTISE_MASTER",
    "Negotiator/EditAccounting": "ADMINISTRATOR",
    "Negotiator/LastCycle": "READ ADVERTISE_MASTER",
    "Negotiator/Reschedule": "WRITE ADVERTISE_SCHEDD",
    "Negotiator/Snapshot": "READ",
    "Nodes/Approve": "ADMINISTRATOR",
    "Nodes/Authority": "",
    "Nodes/Collect": "",
    "Nodes/CreateToken": "ADMINISTRATOR",
    "Nodes/Deny": "ADMINISTRATOR",
    "Nodes/Enroll": "",
    "Nodes/Leave": "ADVERTISE_MASTER",
    "Nodes/List": "READ",
    "Nodes/Remove": "ADMINISTRATOR",
    "Nodes/Renew": "ADVERTISE_MASTER",
    "Nodes/Requests": "ADMINISTRATOR",
    "Nodes/RevokeToken": "ADMINISTRATOR",
    "Schedd/Act": "WRITE",
    "Schedd/CheckCredentials": "WRITE",
    "Schedd/DeleteCredential": "WRITE",
    "Schedd/FetchCredential": "WRITE",
    "Schedd/QueryCredentials": "WRITE",
    "Schedd/StoreCredential": "WRITE",
    "Schedd/Edit": "WRITE",
    "Schedd/RunNow": "WRITE",
    "Schedd/ShowDag": "WRITE",
    "Schedd/EditUsers": "ADMINISTRATOR",
    "Schedd/FetchEvicted": "WRITE",
    "Schedd/FetchSandboxes": "WRITE",
    "Schedd/History": "READ",
    "Schedd/OfferMatches": "NEGOTIATOR",
    "Schedd/Query": "READ",
    "Schedd/ReserveClusters": "WRITE",
    "Schedd/ResourceRequests": "NEGOTIATOR",
    "Schedd/Shadow": "RUN",
    "Schedd/Spool": "WRITE",
    "Schedd/Submit": "WRITE",
    "Schedd/SubmitMany": "WRITE",
    "Schedd/SubmitOne": "WRITE",
    "Schedd/Users": "READ",
    "Schedd/Visit": "WRITE",
    "Startd/CancelDrain": "ADMINISTRATOR DRAIN",
    "Startd/Claims": "ADVERTISE_SCHEDD",
    "Startd/Drain": "ADMINISTRATOR DRAIN",
    "Startd/NoticeMatch": "NEGOTIATOR",
    "Startd/Query": "READ",
    "Startd/UpdateMachineAd": "ADMINISTRATOR",
    "Startd/Vacate": "ADMINISTRATOR",
    "Starter/Jobs": "STARTER",
    "Tokens/Approve": "ADMINISTRATOR",
    "Tokens/AutoApprove": "ADMINISTRATOR",
    "Tokens/Collect": "",
    "Tokens/Fetch": "READ",
    "Tokens/Request": "",
    "Tokens/Requests": "ADMINISTRATOR",
    "Tokens/Revoke": "ADMINISTRATOR",
    "Tokens/Sync": "ADVERTISE_MASTER",
}

LISTS = """
DENY_WRITE = banned@example.org
DENY_READ = banned@example.org
DENY_ADMINISTRATOR = dismissed@example.org
ALLOW_ADMINISTRATOR = *@example.org, condor@*
ALLOW_CONFIG = operator@example.org
"""


def with_token(name: str, *levels: str) -> Identity:
    return Identity(name, with_implied(levels))


def local(name: str, *levels: str) -> Identity:
    return Identity(name, with_implied(levels), method="FS")


#: Kinds of callers, and the levels that they have under LISTS; None: they are not known.
CALLERS: dict[str, tuple[Identity | None, str | None]] = {
    "without a token": (None, None),
    "reader": (with_token("ann@example.org", "READ"), "READ"),
    "writer": (with_token("ann@example.org", "WRITE"), "WRITE READ"),
    "administrator": (with_token("ann@example.org", "ADMINISTRATOR"), "ADMINISTRATOR WRITE READ"),
    "administrator of elsewhere": (with_token("ann@other.edu", "ADMINISTRATOR"), "WRITE READ"),
    "administrator who was dismissed": (with_token("dismissed@example.org", "ADMINISTRATOR"), "WRITE READ"),
    "banned writer": (with_token("banned@example.org", "WRITE"), ""),
    "banned administrator": (with_token("banned@example.org", "ADMINISTRATOR"), "ADMINISTRATOR"),
    "namesake of the banned": (with_token("banned@other.edu", "WRITE"), "WRITE READ"),
    "configurer": (with_token("operator@example.org", "CONFIG"), "CONFIG READ"),
    "configurer whom no list names": (with_token("ann@example.org", "CONFIG"), "READ"),
    "local user": (local("ann@example.org", "WRITE"), "ADMINISTRATOR WRITE READ"),
    "local user of another domain": (local("ann@here", "WRITE"), "WRITE READ"),
    "banned local user": (local("banned@example.org", "WRITE"), "ADMINISTRATOR"),
    "master": (with_token("condor@vm", *DAEMON_LEVELS["master"]), "ADVERTISE_MASTER"),
    "collector": (with_token("condor@vm", *DAEMON_LEVELS["collector"]), ""),
    "negotiator": (with_token("condor@vm", *DAEMON_LEVELS["negotiator"]), "NEGOTIATOR DRAIN WAKEUP READ"),
    "defrag": (with_token("condor@vm", *DAEMON_LEVELS["defrag"]), "DRAIN READ"),
    "rooster": (with_token("condor@vm", *DAEMON_LEVELS["rooster"]), "WAKEUP READ"),
    "librarian": (with_token("condor@vm", *DAEMON_LEVELS["librarian"]), ""),
    "shared port": (
        with_token("condor@vm", *DAEMON_LEVELS["shared_port"]),
        "ADVERTISE_MASTER ADVERTISE_STARTD ADVERTISE_SCHEDD",
    ),
    "web": (with_token("condor@vm", *DAEMON_LEVELS["web"]), "READ"),
    "schedd": (with_token("condor@vm", *DAEMON_LEVELS["schedd"]), "ADVERTISE_SCHEDD"),
    "startd": (with_token("condor@vm", *DAEMON_LEVELS["startd"]), "ADVERTISE_STARTD"),
    "starter": (with_token("condor@vm", *DAEMON_LEVELS["starter"]), ""),
    "run": (Identity("run@vm", frozenset({"RUN"}), method="RUN"), "RUN"),
    "startd at its starter": (Identity("condor@startd", frozenset({"STARTER"}), method="STARTER"), "STARTER"),
    "daemon of the same home": (
        Identity("condor@vm", with_implied(["ADMINISTRATOR", "DAEMON"]), method="FAMILY"),
        "ADMINISTRATOR DAEMON WRITE READ ADVERTISE_MASTER ADVERTISE_STARTD ADVERTISE_SCHEDD",
    ),
    "holder of DAEMON": (
        with_token("condor@vm", "DAEMON"),
        "DAEMON WRITE READ ADVERTISE_MASTER ADVERTISE_STARTD ADVERTISE_SCHEDD",
    ),
}


def methods() -> Iterator[tuple[str, bool, bool]]:
    """All methods of all services: name, whether requests and whether replies are streams."""
    for found in pkgutil.iter_modules(gen.__path__):
        if found.name.endswith("_pb2"):
            file = importlib.import_module(f"{gen.__name__}.{found.name}").DESCRIPTOR
            for service in file.services_by_name.values():
                for method in service.methods:
                    yield f"{service.name}/{method.name}", method.client_streaming, method.server_streaming


def test_every_method_is_in_the_table() -> None:
    assert {name for name, *_ in methods()} == METHODS.keys(), "say in METHODS who may call it"


class Known:
    """Tells the callers of the table apart by what they show."""

    calls_of_user = 0
    users = None

    def token_of(self, metadata: Any) -> str:
        shown = dict(metadata or ()).get("authorization", "")
        if not shown:
            raise UnauthenticatedError("nothing is shown")
        return str(shown).removeprefix("Bearer ")

    def identity(self, token: str) -> Identity:
        found, _ = CALLERS[token]
        assert found is not None
        return found

    def host_token(self, token: str) -> None:
        """Nobody shows a proof of a host."""

    @contextlib.asynccontextmanager
    async def while_valid(self, token: str) -> AsyncIterator[None]:
        yield


class Unimplemented(grpc.GenericRpcHandler):
    """Services that implement nothing: whoever comes through is told so."""

    def __init__(self) -> None:
        self._kinds = {f"/slotwise.v1.{name}": (ins, outs) for name, ins, outs in methods()}

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        ins, outs = self._kinds[details.method]

        async def answer(_request: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "came through")

        kind = f"{'stream' if ins else 'unary'}_{'stream' if outs else 'unary'}"
        return getattr(grpc, f"{kind}_rpc_method_handler")(answer)


async def outcome(opened: grpc.aio.Channel, name: str, kind: tuple[bool, bool], shown: Any) -> str:
    ins, outs = kind
    make = getattr(opened, f"{'stream' if ins else 'unary'}_{'stream' if outs else 'unary'}")
    made = make(f"/slotwise.v1.{name}")(*(() if ins else (b"",)), metadata=shown, timeout=LIMIT_S)
    return str((await made.code()).name)


@pytest.mark.parametrize("kind", CALLERS)
async def test_who_may_call_what(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call.delays, "most_s", 0.0)  # how long the refused have to wait is seen elsewhere
    config = tmp_path / "condor_config"
    config.write_text(LISTS)
    authorizer = Authorizer("SCHEDD")
    authorizer.follow(await authorizer.read(load(str(config), subsystem="SCHEDD", env={})))
    known: Any = Known()
    server = make_server(known, authorizer)
    server.add_generic_rpc_handlers((Unimplemented(),))
    identity, levels = CALLERS[kind]
    shown = () if identity is None else (("authorization", f"Bearer {kind}"),)
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        _, socket = listen(server, socket=Path(directory) / "test.sock")
        await server.start()
        try:
            async with channel.open_async(f"unix:{socket}") as opened:
                for name, *streams in methods():
                    needed = set(METHODS[name].split())
                    code = await outcome(opened, name, (streams[0], streams[1]), shown)
                    if not needed or (levels is not None and needed & set(levels.split())):
                        assert code == "UNIMPLEMENTED", name
                    else:
                        assert code == ("UNAUTHENTICATED" if levels is None else "PERMISSION_DENIED"), name
        finally:
            await server.stop(grace=None)
