"""Hosts that join a pool: what the collector grants to whom, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from slotwise import ids
from slotwise.classad import ClassAd
from slotwise.clock import ManualClock
from slotwise.collector import waiting_room
from slotwise.collector.node_record import NodeRecord
from slotwise.collector.nodes import NodeServicer, PoolView, Seen
from slotwise.collector.ownership import NAMING, Owners, Sender, misnamed
from slotwise.collector.service import CollectorServicer
from slotwise.collector.store import AdStore
from slotwise.collector.tokens import TokenServicer
from slotwise.errors import SlotwiseError
from slotwise.home import PoolHome
from slotwise.model.pool_host import enrolment_code
from slotwise.table import pack_ads, pack_keys
from slotwise.wire import authority, keys
from slotwise.wire.authority import Authority
from slotwise.wire.channel import open_async
from slotwise.wire.credential import HostCredential
from slotwise.wire.gen import (
    collector_pb2,
    collector_pb2_grpc,
    common_pb2,
    node_pb2,
    node_pb2_grpc,
    token_pb2,
    token_pb2_grpc,
)
from slotwise.wire.keys import PoolSecrets, SigningKey
from slotwise.wire.security import Authenticator
from slotwise.wire.server import listen, make_server
from slotwise.wire.status import to_error
from slotwise.wire.token import Identity, peek

from tests.support.configured import configured
from tests.support.serving import authenticator, metadata, serving, token

ADMINISTRATOR = metadata("ADMINISTRATOR")


@dataclass
class Central:
    """The central manager's side, whose collector can be started anew on the same files."""

    home: PoolHome
    clock: ManualClock
    masters: dict[str, Seen] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home.create()
        self.secrets = PoolSecrets(self.home)
        self.secrets.create("test")
        Authority.make(self.home, "test", ["example"], self.clock.now())

    def servicer(self) -> NodeServicer:
        view = PoolView(lambda: self.masters, set, self.dropped.append, lambda: None)
        made = NodeServicer(
            NodeRecord(self.home.spool / "nodes.sqlite"),
            self.secrets,
            Authority.read(self.home),
            "cm.example",
            self.clock,
            lambda: configured("COLLECTOR", UID_DOMAIN="example", DAEMON_LIST="MASTER, COLLECTOR, NEGOTIATOR"),
            view,
        )
        made.admit_own_host("", 0.0)
        return made

    @contextlib.asynccontextmanager
    async def collector(self) -> AsyncIterator[node_pb2_grpc.NodesStub]:
        servicer = self.servicer()
        async with serving(lambda s: node_pb2_grpc.add_NodesServicer_to_server(servicer, s)) as opened:
            yield node_pb2_grpc.NodesStub(opened)


class Joining:
    """A host that wants to join."""

    def __init__(self, name: str, *roles: str) -> None:
        self.name = name
        self.roles = roles or ("ep",)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.host_key = SigningKey.generate()
        self.secret = ""

    def request(self, join_token: str = "", **more: Any) -> node_pb2.EnrollRequest:
        self.secret = ids.secret(256)
        fields: dict[str, Any] = {
            "name": self.name,
            "roles": self.roles,
            "csr": authority.request_for(self.key, "www.elsewhere.org"),
            "public_key": keys.public_text(self.host_key.public),
            "secret_digest": hashlib.sha256(self.secret.encode()).hexdigest(),
            "join_token": join_token,
        }
        return node_pb2.EnrollRequest(**(fields | more))

    async def join(self, stub: node_pb2_grpc.NodesStub, join_token: str = "") -> node_pb2.NodeGrant:
        reply = await stub.Enroll(self.request(join_token))
        return await stub.Collect(node_pb2.CollectNodeRequest(request_id=reply.request_id, secret=self.secret))


def asked_token(identity: str, secret: str = "") -> token_pb2.TokenRequest:
    """A request for a token with a key of its own."""
    return token_pb2.TokenRequest(
        identity=identity,
        scopes=["ADVERTISE_STARTD"],
        secret_digest=hashlib.sha256(secret.encode()).hexdigest(),
        public_key=keys.public_text(SigningKey.generate().public),
    )


@pytest.fixture
def central(tmp_path: Path) -> Iterator[Central]:
    yield Central(PoolHome(tmp_path / "cm"), ManualClock(1_900_000_000.0))


async def refused(call: Any) -> SlotwiseError:
    with pytest.raises(grpc.RpcError) as raised:
        await call
    return to_error(raised.value)


async def join_token(stub: node_pb2_grpc.NodesStub, **asked: Any) -> str:
    fields: dict[str, Any] = {"roles": ["ep"], "uses": 1, "lifetime_s": 3600} | asked
    made = await stub.CreateToken(node_pb2.JoinTokenRequest(**fields), metadata=ADMINISTRATOR)
    return f"{made.id}.{made.secret}"


async def test_an_approved_host_gets_a_certificate_for_its_name_alone_and_a_token_for_its_roles(
    central: Central,
) -> None:
    host = Joining("ep1.example", "ap", "ep")
    async with central.collector() as stub:
        reply = await stub.Enroll(host.request())
        tls_key = authority.key_id_of(host.key.public_key())
        digest = hashlib.sha256(host.secret.encode()).hexdigest()
        own = enrolment_code(
            reply.request_id, host.name, host.roles, keys.public_text(host.host_key.public), tls_key, digest
        )
        assert reply.code == own
        collect = node_pb2.CollectNodeRequest(request_id=reply.request_id, secret=host.secret)
        assert not (await stub.Collect(collect)).granted
        (waiting,) = (await stub.Requests(common_pb2.Empty(), metadata=ADMINISTRATOR)).requests
        assert (waiting.name, list(waiting.roles), waiting.code) == ("ep1.example", ["ap", "ep"], own)
        await stub.Approve(node_pb2.DecideNodeRequest(code=own.lower().replace("-", "")), metadata=ADMINISTRATOR)
        stolen = node_pb2.CollectNodeRequest(request_id=reply.request_id, secret="0" * 64)
        assert "no host waits" in str(await refused(stub.Collect(stolen)))
        grant = await stub.Collect(collect)
    certificate, signer = x509.load_pem_x509_certificates(grant.certificate.encode())
    certificate.verify_directly_issued_by(signer)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["ep1.example"]
    assert "elsewhere" not in certificate.subject.rfc4514_string()
    (trusted,) = x509.load_pem_x509_certificates(grant.authorities.encode())
    assert signer == trusted
    assert authority.is_of(grant.certificate, authority.private_pem(host.key).encode())
    claims = peek(grant.token)[1]
    assert claims["sub"] == "condor@ep1.example"
    assert claims["scope"] == "ADVERTISE_MASTER ADVERTISE_SCHEDD ADVERTISE_STARTD"
    assert claims["cnf"]["jwk"]["x"] == keys.public_text(host.host_key.public)


async def test_a_name_belongs_to_one_host_until_that_is_removed(central: Central) -> None:
    first, second = Joining("ep1.example"), Joining("EP1.example.")
    async with central.collector() as stub:
        assert (await first.join(stub, await join_token(stub))).granted
        for call in (stub.Enroll(second.request()), stub.Enroll(second.request(await join_token(stub)))):
            assert "is the name of another host" in str(await refused(call))
        own = Joining("cm.example")
        assert "is the name of another host" in str(await refused(stub.Enroll(own.request())))
        await stub.Remove(node_pb2.NodeName(name="ep1.example"), metadata=ADMINISTRATOR)
        assert central.dropped == ["ep1.example"]
        assert (await second.join(stub, await join_token(stub))).granted
        # The removed host's keys are worth nothing, under whatever name.
        first.name = "ep2.example"
        assert "has been removed" in str(await refused(stub.Enroll(first.request(await join_token(stub)))))


async def test_what_was_asked_before_a_host_was_removed_is_worth_nothing_after_it(central: Central) -> None:
    """A certificate holds for months, so that none is made once its host's key is revoked."""
    host = Joining("ep1.example")
    async with central.collector() as stub:
        first = await stub.Enroll(host.request())
        await stub.Approve(node_pb2.DecideNodeRequest(code=first.code), metadata=ADMINISTRATOR)
        collect = node_pb2.CollectNodeRequest(request_id=first.request_id, secret=host.secret)
        other = Joining("ep2.example")
        other.host_key = host.host_key
        waiting = await stub.Enroll(other.request())
        await stub.Remove(node_pb2.NodeName(name="ep1.example"), metadata=ADMINISTRATOR)
        assert "has been removed" in str(await refused(stub.Collect(collect)))
        decide = node_pb2.DecideNodeRequest(code=waiting.code)
        assert "has been removed" in str(await refused(stub.Approve(decide, metadata=ADMINISTRATOR)))


async def test_two_hosts_that_ask_for_one_name_do_not_both_get_it(central: Central) -> None:
    hosts = [Joining("ep1.example"), Joining("ep1.example")]
    async with central.collector() as stub:
        replies = [await stub.Enroll(host.request()) for host in hosts]
        await stub.Approve(node_pb2.DecideNodeRequest(code=replies[1].code), metadata=ADMINISTRATOR)
        why = await refused(stub.Approve(node_pb2.DecideNodeRequest(code=replies[0].code), metadata=ADMINISTRATOR))
        assert "no host waits" in str(why)
        collect = node_pb2.CollectNodeRequest(request_id=replies[0].request_id, secret=hosts[0].secret)
        assert "denied" in str(await refused(stub.Collect(collect)))


async def test_a_host_whose_answer_was_lost_gets_it_again_from_the_next_collector(central: Central) -> None:
    host = Joining("ep1.example")
    async with central.collector() as stub:
        reply = await stub.Enroll(host.request())
        await stub.Approve(node_pb2.DecideNodeRequest(code=reply.code), metadata=ADMINISTRATOR)
    async with central.collector() as stub:
        collect = node_pb2.CollectNodeRequest(request_id=reply.request_id, secret=host.secret)
        assert "no host waits" in str(await refused(stub.Collect(collect)))
        assert (await host.join(stub)).granted, "it holds the keys that were admitted"


async def test_a_join_token_has_its_uses_and_no_more_whatever_happens(central: Central) -> None:
    hosts = [Joining(f"ep{n}.example") for n in range(6)]
    async with central.collector() as stub:
        token = await join_token(stub, uses=2)
        done = await asyncio.gather(*(host.join(stub, token) for host in hosts), return_exceptions=True)
    admitted = [host for host, one in zip(hosts, done, strict=True) if not isinstance(one, BaseException)]
    assert len(admitted) == 2
    async with central.collector() as stub:  # killed, and started again
        late = Joining("ep9.example")
        assert "has been used" in str(await refused(stub.Enroll(late.request(token))))
        assert (await admitted[0].join(stub, token)).granted, "one that has used it may ask again"
        admitted[0].name = "ep8.example"
        assert "has used the join token as" in str(await refused(stub.Enroll(admitted[0].request(token))))


async def test_a_join_token_is_for_its_roles_its_network_and_its_time(central: Central) -> None:
    async with central.collector() as stub:
        token = await join_token(stub)
        why = await refused(stub.Enroll(Joining("ap.example", "ap").request(token)))
        assert "not for hosts of the role ap" in str(why)
        elsewhere = await join_token(stub, network="192.0.2.0/24")
        assert "for hosts of 192.0.2.0/24" in str(await refused(stub.Enroll(Joining("ep1.example").request(elsewhere))))
        forged = token.partition(".")[0] + "." + "0" * 64
        assert "not one of this pool" in str(await refused(stub.Enroll(Joining("ep1.example").request(forged))))
        central.masters["byhand.example"] = Seen("byhand.example:1", "0.1.0")
        why = await refused(stub.Enroll(Joining("byhand.example").request(token)))
        assert "is in the pool already" in str(why)
        revoked = await join_token(stub)
        request = node_pb2.RevokeJoinTokenRequest(id=revoked.partition(".")[0])
        await stub.RevokeToken(request, metadata=ADMINISTRATOR)
        assert "has been used" in str(await refused(stub.Enroll(Joining("ep1.example").request(revoked))))
        central.clock.advance(3601)
        assert "has expired" in str(await refused(stub.Enroll(Joining("ep1.example").request(token))))
        for wrong in ({"uses": 0}, {"lifetime_s": 0}, {"lifetime_s": 10**9}, {"roles": ["cm"]}, {"network": "x"}):
            assert (await refused(join_token(stub, **wrong))).code == "usage"


@pytest.mark.parametrize(
    "name",
    [
        "", "-a.example", "a..example", "a b.example", "*.example", "10.1.2.3", "::1", "localhost", "a\n.example",
        "ä.example", "a.example/b", "condor@a.example", "a_b.example", "a" * 64 + ".example", "1.2.3.4.5", "x" * 5000,
    ],
)  # fmt: skip
async def test_what_is_not_the_name_of_a_host_is_refused(central: Central, name: str) -> None:
    async with central.collector() as stub:
        assert (await refused(stub.Enroll(Joining(name).request()))).code == "usage"


async def test_a_name_of_another_domain_is_refused(central: Central) -> None:
    async with central.collector() as stub:
        for name in ("ep1.elsewhere.org", "ep1.notexample", "example.org"):
            assert "of another domain" in str(await refused(stub.Enroll(Joining(name).request())))


async def test_requests_that_are_none_are_refused(central: Central) -> None:
    host, other = Joining("ep1.example"), Joining("ep2.example")
    broken = bytearray(authority.request_for(host.key, "x"))
    broken[-3] ^= 1
    curve = authority.request_for(ec.generate_private_key(ec.SECP384R1()), "x")
    wrong: tuple[dict[str, Any], ...] = (
        {"csr": bytes(broken)},
        {"csr": b""},
        {"csr": b"\x30" * 9000},
        {"csr": curve},
        {"roles": []},
        {"roles": ["cm"]},
        {"secret_digest": "x"},
        {"version": "x" * 100},
    )
    for more in wrong:
        assert (await refused_by(central, host.request(**more))).code == "usage", more
    assert (await refused_by(central, other.request(public_key="x"))).code == "unauthenticated"


async def refused_by(central: Central, request: node_pb2.EnrollRequest) -> SlotwiseError:
    async with central.collector() as stub:
        return await refused(stub.Enroll(request))


async def test_a_flood_of_requests_keeps_no_host_out_that_goes_on_asking(central: Central) -> None:
    """One address had twenty places, and whoever had taken them kept them for an hour."""

    async def flood(stub: node_pb2_grpc.NodesStub) -> None:
        for n in range(2 * waiting_room.MOST_OF_ADDRESS):
            with contextlib.suppress(grpc.RpcError):
                await stub.Enroll(Joining(f"flood{n}.example").request())

    async with central.collector() as stub:
        await flood(stub)
        late = Joining("late.example")
        assert (await refused(stub.Enroll(late.request()))).code == "busy"
        assert (await Joining("token.example").join(stub, await join_token(stub))).granted, "who has a join token"
        central.clock.advance(waiting_room.SILENT_S)  # nobody asks for the answers to those
        reply = await stub.Enroll(late.request())
        collect = node_pb2.CollectNodeRequest(request_id=reply.request_id, secret=late.secret)
        for _ in range(5):
            central.clock.advance(waiting_room.SILENT_S - 1)
            assert not (await stub.Collect(collect)).granted
            await flood(stub)
        shown = (await stub.Requests(common_pb2.Empty(), metadata=ADMINISTRATOR)).requests
        assert len(shown) == waiting_room.MOST_OF_ADDRESS and "late.example" in {each.name for each in shown}
        await stub.Approve(node_pb2.DecideNodeRequest(code=reply.code), metadata=ADMINISTRATOR)
        assert (await stub.Collect(collect)).granted


async def test_requests_are_forgotten_and_a_host_that_asks_anew_takes_one_place(central: Central) -> None:
    async with central.collector() as stub:
        for n in range(5):
            await stub.Enroll(Joining(f"ep{n}.example").request())
        again = Joining("again.example")
        central.clock.advance(waiting_room.LASTS_S + 1)
        for _ in range(2 * waiting_room.MOST_OF_ADDRESS):
            await stub.Enroll(again.request())
        assert len((await stub.Requests(common_pb2.Empty(), metadata=ADMINISTRATOR)).requests) == 1


async def test_a_denied_host_hears_of_it(central: Central) -> None:
    host = Joining("ep1.example")
    async with central.collector() as stub:
        reply = await stub.Enroll(host.request())
        await stub.Deny(node_pb2.DecideNodeRequest(code=reply.code), metadata=ADMINISTRATOR)
        collect = node_pb2.CollectNodeRequest(request_id=reply.request_id, secret=host.secret)
        assert "an administrator has denied" in str(await refused(stub.Collect(collect)))


async def test_no_token_is_granted_for_the_name_of_an_admitted_host_with_another_key(central: Central) -> None:
    servicer = central.servicer()
    tokens = TokenServicer(central.secrets, central.clock, lambda: "")
    tokens.require_free = servicer.require_free
    async with serving(
        lambda s: node_pb2_grpc.add_NodesServicer_to_server(servicer, s),
        lambda s: token_pb2_grpc.add_TokensServicer_to_server(tokens, s),
    ) as opened:
        stub, asking = node_pb2_grpc.NodesStub(opened), token_pb2_grpc.TokensStub(opened)
        host = Joining("ep1.example")
        assert (await host.join(stub, await join_token(stub))).granted
        request = token_pb2.TokenRequest(
            identity="condor@EP1.example",
            scopes=["ADVERTISE_STARTD"],
            secret_digest="0" * 64,
            public_key=keys.public_text(SigningKey.generate().public),
        )
        assert "is the name of another host" in str(await refused(asking.Request(request)))
        request.public_key = ""
        assert "is the name of another host" in str(await refused(asking.Request(request)))
        request.public_key = keys.public_text(host.host_key.public)
        assert (await asking.Request(request)).request_id


async def test_what_was_asked_or_granted_before_a_host_was_admitted_gives_nobody_its_name(central: Central) -> None:
    """A request or a token of another key for the name, older than the host's place, was as good as the host's."""
    servicer = central.servicer()
    tokens = TokenServicer(central.secrets, central.clock, lambda: "")
    ads = CollectorServicer(AdStore(), central.clock, lambda: None)
    tokens.require_free = ads.require_free = servicer.require_free
    socket = central.home.run / "collector.sock"
    server = make_server(authenticator(str(socket)))
    node_pb2_grpc.add_NodesServicer_to_server(servicer, server)
    token_pb2_grpc.add_TokensServicer_to_server(tokens, server)
    collector_pb2_grpc.add_CollectorServicer_to_server(ads, server)
    listen(server, socket=socket)
    await server.start()
    async with open_async(f"unix:{socket}") as opened:
        stub, asking = node_pb2_grpc.NodesStub(opened), token_pb2_grpc.TokensStub(opened)
        advertising = collector_pb2_grpc.CollectorStub(opened)
        key = SigningKey.generate()
        name = "condor@ep1.example"
        word = token("ADVERTISE_STARTD", "ADVERTISE_MASTER", identity=name, bound_to=keys.public_text(key.public))
        shows = HostCredential(name, key, lambda: word, ["ADVERTISE_STARTD", "ADVERTISE_MASTER"], time.time)
        early = shows.metadata(f"unix:{socket}")
        pack = pack_ads([ClassAd({"Name": "slot1@ep1.example", "Machine": "ep1.example"})], ["slot1@ep1.example"])

        async def advertise() -> None:
            request = collector_pb2.AdvertiseRequest(kind="Machine", pack=pack)
            async for reply in advertising.Advertise(iter([request]), metadata=early):
                if reply.refused:
                    raise SlotwiseError(" ".join(reply.refused))

        await advertise()
        waits = await asking.Request(asked_token(name))
        host = Joining("ep1.example")
        assert (await host.join(stub, await join_token(stub))).granted
        # By hand, and by a rule that is made later and finds the request there.
        approve = token_pb2.ApproveTokenRequest(request_id=waits.request_id)
        assert "is the name of another host" in str(await refused(asking.Approve(approve, metadata=ADMINISTRATOR)))
        rule = token_pb2.AutoApproveRule(netblock="127.0.0.0/8", lifetime_s=600)
        assert not (await asking.AutoApprove(rule, metadata=ADMINISTRATOR)).requests
        # Nor is what was granted renewed, or of use.
        assert "is the name of another host" in str(await refused(asking.Sync(common_pb2.Empty(), metadata=early)))
        with pytest.raises((SlotwiseError, grpc.RpcError), match="is the name of another host"):
            await advertise()
        invalidate = collector_pb2.InvalidateRequest(kind="Machine", keys=["slot1@ep1.example"])
        assert "is the name of another host" in str(await refused(advertising.Invalidate(invalidate, metadata=early)))
    await server.stop(None)


async def test_the_names_of_admitted_execution_points_are_theirs_from_the_start_of_a_collector(
    central: Central,
) -> None:
    """A collector that had just been started took their names from whoever came first with a token alone."""
    async with central.collector() as stub:
        for name, role in (("ep1.example", "ep"), ("ap1.example", "ap"), ("ep2.example", "ep")):
            assert (await Joining(name, role).join(stub, await join_token(stub, roles=[role]))).granted
        await stub.Remove(node_pb2.NodeName(name="ep2.example"), metadata=ADMINISTRATOR)
    owners = Owners(lambda kind, key: False)
    owners.admitted(central.servicer().execution_points())
    glidein = Sender(Identity("ann@test", frozenset({"ADVERTISE_STARTD"})))

    def refused_name(name: str, kind: str = "Machine") -> str | None:
        return owners.refusal(glidein, kind, name, new=True)

    assert "proves to be that host" in str(refused_name("slot1@ep1.example"))
    assert "proves to be that host" in str(refused_name("slot1@mine@EP1.example"))
    assert "proves to be that host" in str(refused_name("ep1.example", "StartDaemon"))
    pack = pack_keys(pack_ads([ClassAd({"Name": "slot1@mine", "Machine": "ep1.example"})], ["slot1@mine"]), NAMING)
    assert "proves to be that host" in str(misnamed(glidein, "Machine", pack, owners.is_execution_point))
    for other in ("slot1@ep2.example", "slot1@glidein@somewhere"):
        assert refused_name(other) is None


async def test_a_rule_gives_no_account_of_its_network_the_name_of_a_host_that_is_there(central: Central) -> None:
    """Every account of a host in the network may ask: one got a token for the name of the host beside it."""
    tokens = TokenServicer(central.secrets, central.clock, lambda: "")
    tokens.hosts = lambda: {"ep1.example"}
    async with serving(lambda s: token_pb2_grpc.add_TokensServicer_to_server(tokens, s)) as opened:
        asking = token_pb2_grpc.TokensStub(opened)
        waiting = [await asking.Request(asked_token(name)) for name in ("condor@ep1.example", "condor@ep2.example")]
        rule = token_pb2.AutoApproveRule(netblock="127.0.0.0/8", lifetime_s=600)
        approved = (await asking.AutoApprove(rule, metadata=ADMINISTRATOR)).requests
        assert [each.request_id for each in approved] == [waiting[1].request_id]
        for name, granted in (("condor@EP1.example", False), ("condor@ep3.example", True)):
            reply = await asking.Request(asked_token(name, secret="s"))
            collect = token_pb2.CollectTokenRequest(request_id=reply.request_id, secret="s")
            assert bool((await asking.Collect(collect)).token) is granted


async def test_nobody_prepares_a_request_with_the_code_of_another(central: Central) -> None:
    """The code of a request for a token followed from what its sender had chosen, and could be searched for."""
    tokens = TokenServicer(central.secrets, central.clock, lambda: "")
    async with serving(lambda s: token_pb2_grpc.add_TokensServicer_to_server(tokens, s)) as opened:
        asking = token_pb2_grpc.TokensStub(opened)
        same = asked_token("ann@example")
        codes = {(await asking.Request(same)).code for _ in range(5)}
        assert len(codes) == 5


def test_a_removed_hosts_proof_is_refused_though_its_token_has_not_ended() -> None:
    from slotwise.errors import UnauthenticatedError
    from slotwise.wire.keys import PoolTrust

    from tests.support import serving as pool

    mark = keys.revocation_of(keys.public_text(pool.HOST.public))
    shown = dict(pool.credential(["ADVERTISE_STARTD"]).metadata("unix:/nowhere/test.sock"))
    proof = shown["authorization"].removeprefix("Bearer ")
    trusted = Authenticator(lambda: pool.TRUST, audiences=["unix:/nowhere/test.sock"])
    assert trusted.identity(proof).name == "condor@host.test"
    revoked = PoolTrust("test", pool.TRUST.keys, {mark: 1})
    with pytest.raises(UnauthenticatedError, match="has been removed from the pool"):
        Authenticator(lambda: revoked, audiences=["unix:/nowhere/test.sock"]).identity(proof)
