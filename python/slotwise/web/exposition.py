"""The metrics of all daemons of a host as one page for Prometheus.

Each sample gets the label ``daemon``. Families of the same name from several daemons become one, as the format asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

import grpc
from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from slotwise.errors import DeniedError, PeerUnavailableError
from slotwise.home import PoolHome
from slotwise.wire import address, channel
from slotwise.wire.credential import Credential
from slotwise.wire.gen import common_pb2, daemon_pb2, daemon_pb2_grpc

_log = logging.getLogger(__name__)
#: How long a daemon may take to answer a scrape, in seconds; Prometheus waits ten.
_ANSWER_S = 5.0


class Scrape(Struct, frozen=True):
    """What a daemon answered; None: it did not."""

    daemon: str
    families: tuple[daemon_pb2.MetricFamily, ...] | None


class _Collected:
    """Families that are there already, as an exposition wants them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        """The families."""
        return self._families


def merged(scrapes: Iterable[Scrape]) -> list[Metric]:
    """One family for each name, with the samples of all daemons; ``slotwise_scrape_up`` tells who answered."""
    up = GaugeMetricFamily("slotwise_scrape_up", "Whether a daemon of this host told its metrics.", labels=["daemon"])
    found: dict[str, Metric] = {}
    for scrape in scrapes:
        up.add_metric([scrape.daemon], float(scrape.families is not None))
        for row in scrape.families or ():
            family = found.get(row.name)
            if family is None:
                family = found[row.name] = Metric(row.name, row.help, row.type)
            for sample in row.samples:
                family.add_sample(sample.name, {"daemon": scrape.daemon, **sample.labels}, sample.value)
    return [up, *found.values()]


def rendered(families: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """The page and its media type: OpenMetrics where the caller accepts that, else the older text format."""
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(families))
    return encode(registry), content_type


class Scraper:
    """Asks the daemons of this host."""

    def __init__(self, home: PoolHome, names: Iterable[str]) -> None:
        self._home = home
        self._names = tuple(names)
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def scrape(self, credential: Credential) -> list[Scrape]:
        """What each daemon that has been started answers to the holder of ``credential``.

        :raises DeniedError: when they do not answer this caller.
        """
        found: Mapping[str, str] = {name: target for name in self._names if (target := self._target(name))}
        for target in self._channels.keys() - set(found.values()):
            await self._channels.pop(target).close()
        return list(await asyncio.gather(*(self._ask(name, found[name], credential) for name in found)))

    def _target(self, name: str) -> str:
        try:
            return address.lookup(self._home, name).local
        except PeerUnavailableError:
            return ""

    async def _ask(self, name: str, target: str, credential: Credential) -> Scrape:
        opened = self._channels.get(target)
        if opened is None:
            opened = self._channels[target] = channel.open_async(target)
        stub = daemon_pb2_grpc.DaemonStub(opened)
        try:
            reply = await stub.Metrics(common_pb2.Empty(), metadata=credential.metadata(target), timeout=_ANSWER_S)
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
                raise DeniedError(f"the {name} does not tell its metrics: {error.details()}") from None
            _log.warning("the %s does not tell its metrics: %s", name, error.details())
            return Scrape(name, None)
        return Scrape(name, tuple(reply.families))

    async def close(self) -> None:
        """Close all channels."""
        while self._channels:
            await self._channels.popitem()[1].close()
