"""Collects what access points ask for: request ads and submitter ads, from all of them at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import grpc
from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import whole
from slotwise.errors import SlotwiseError
from slotwise.table import AdTable, unpack_ads
from slotwise.wire import channel
from slotwise.wire.credential import Credential
from slotwise.wire.gen import schedd_pb2, schedd_pb2_grpc, startd_pb2_grpc

_log = logging.getLogger(__name__)


class AccessPoint(Struct, frozen=True):
    """A schedd: its name and where it answers."""

    name: str
    target: str


class Demand(Struct):
    """The requests to a cycle. Keys of requests are ``<schedd>#<n>``, of submitters ``Name#ScheddName``."""

    requests: AdTable = field(default_factory=AdTable)
    submitters: AdTable = field(default_factory=AdTable)
    #: By key of a request: schedd, submitter as the schedd calls it, autocluster, first job.
    origins: dict[str, tuple[str, str, int, str]] = field(default_factory=dict)
    #: The number of jobs in all requests.
    jobs: int = 0
    #: What became of matches according to access points, and which access points report it.
    outcomes: list[schedd_pb2.MatchOutcome] = field(default_factory=list)
    reporting: set[str] = field(default_factory=set)
    #: Access points that did not answer.
    failed: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.origins)


class Channels:
    """Open channels to access points (and to startds that are notified of matches), kept between cycles."""

    def __init__(self) -> None:
        self._open: dict[str, grpc.aio.Channel] = {}

    def stub(self, target: str) -> schedd_pb2_grpc.ScheddStub:
        """A stub for the access point at ``target``."""
        return schedd_pb2_grpc.ScheddStub(self._channel(target))

    def startd(self, target: str) -> startd_pb2_grpc.StartdStub:
        """A stub for the startd at ``target``."""
        return startd_pb2_grpc.StartdStub(self._channel(target))

    def _channel(self, target: str) -> grpc.aio.Channel:
        found = self._open.get(target)
        if found is None:
            found = self._open[target] = channel.open_async(target)
        return found

    async def keep(self, targets: set[str]) -> None:
        """Close channels to others."""
        for target in [t for t in self._open if t not in targets]:
            await self._open.pop(target).close()


class Asking(Struct, frozen=True):
    """The question to each access point, and how long the answer may take."""

    significant_attributes: tuple[str, ...] = ()
    job_constraint: str = ""
    timeout_s: float = 30.0
    #: The user map GROUP_PREFIX puts submitters of a domain into a group.
    group_prefix: bool = False


class _Groups:
    """The names of submitters, with the groups that the user map GROUP_PREFIX assigns to their domains."""

    def __init__(self, mapped: bool) -> None:
        self._mapped = mapped
        self._known: dict[str, str] = {}

    def of(self, submitter: str) -> str:
        """The name under which a submitter is served."""
        domain = submitter.rpartition("@")[2]
        if not self._mapped or "@" not in submitter:
            return submitter
        if domain not in self._known:
            found = ExprTree('userMap("GROUP_PREFIX", Domain)').eval(ClassAd({"Domain": domain}))
            self._known[domain] = f"{found}." if isinstance(found, str) else ""
        return self._known[domain] + submitter


async def gather(points: Iterable[AccessPoint], channels: Channels, credential: Credential, asking: Asking) -> Demand:
    """Ask all access points in parallel; one that fails or is late is skipped, and named."""
    points = list(points)
    answers = await asyncio.gather(*(_ask(point, channels, credential, asking) for point in points))
    demand = Demand()
    groups = _Groups(asking.group_prefix)
    for point, answer in zip(points, answers, strict=True):
        if answer is None:
            demand.failed.append(point.name)
        else:
            for reply in answer:
                _add(demand, point, reply, groups)
    return demand


async def _ask(
    point: AccessPoint, channels: Channels, credential: Credential, asking: Asking
) -> list[schedd_pb2.RequestList] | None:
    query = schedd_pb2.ResourceRequestsQuery(
        significant_attributes=asking.significant_attributes,
        job_constraint=asking.job_constraint,
        with_submitters=True,
    )
    try:
        stub = channels.stub(point.target)
        replies = stub.ResourceRequests(query, metadata=credential.metadata(point.target), timeout=asking.timeout_s)
        return [reply async for reply in replies]
    except (grpc.RpcError, SlotwiseError) as error:
        details = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
        _log.warning("no resource requests from schedd %s: %s", point.name, details)
        return None


def _add(demand: Demand, point: AccessPoint, reply: schedd_pb2.RequestList, groups: _Groups) -> None:
    demand.outcomes.extend(reply.outcomes)
    if reply.reports_outcomes:
        demand.reporting.add(point.name)
    if reply.pack:
        for ad in unpack_ads(reply.pack):
            submitter = str(ad.get("Submitter", ""))
            cluster = whole(ad.get("AutoClusterId"), -1)
            count = ad.get("ResourceRequestCount", 1)
            demand.jobs += count if isinstance(count, int) else 1
            key = f"{point.name}#{len(demand.origins)}"
            ad["ScheddName"] = point.name
            ad["Submitter"] = groups.of(submitter)
            demand.requests.upsert(key, ad)
            demand.origins[key] = (point.name, submitter, cluster, str(ad.get("FirstJobId", "")))
    if reply.submitters:
        for ad in unpack_ads(reply.submitters):
            name = str(ad.get("Name", ""))
            if not name or any(c.isspace() for c in name):
                _log.warning("ignoring a submitter of schedd %s with an invalid name: %r", point.name, name)
                continue
            ad["ScheddName"] = point.name
            ad["Name"] = groups.of(name)
            demand.submitters.upsert(f"{name}#{point.name}", ad)
