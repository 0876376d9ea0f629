"""Wires and starts the shared port."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
from collections.abc import Iterator
from functools import partial

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from slotwise.config import Config
from slotwise.daemon import broker_counts, reach, tasks
from slotwise.daemon.ad import statistics_window
from slotwise.daemon.runtime import DaemonContext
from slotwise.errors import ConfigError
from slotwise.shared_port.broker import Broker
from slotwise.shared_port.listening import Passage, open_places
from slotwise.shared_port.outward import Outward
from slotwise.wire.gen import shared_port_pb2_grpc

_log = logging.getLogger(__name__)

#: One address, or account, may have this many times the connections that it may have to one daemon: all share the port.
_DAEMONS = 8
#: The broker's counts are left to the collector this long after something was counted, in seconds.
_PUBLISH_S = 1.0


async def start(context: DaemonContext) -> SharedPortDaemon:
    """Listen on the port, and register with the broker if there is one.

    :raises ConfigError: when the configuration has no shared port.
    :raises HostError: when the port is taken.
    """
    shared = reach.shared_port(context.config)
    if shared is None:
        raise ConfigError(
            "this host has no shared port",
            hint="it needs USE_SHARED_PORT = true, AUTH_SSL_SERVER_CERTFILE, and SLOTWISE_LISTEN or CCB_ADDRESS",
        )
    passage = Passage(
        context.home,
        shared.default,
        _descriptors(context.config),
        *_bounds(context.config),
        exempt=frozenset({0, os.geteuid()}),
    )
    listening = open_places(reach.listen_places(context.config), shared.port) if shared.port else []
    outward = None
    if shared.broker:
        if len((context.config.get("CCB_ADDRESS") or "").replace(",", " ").split()) > 1:
            _log.warning("CCB_ADDRESS names several brokers, of which %s alone counts", shared.broker)
        secret = reach.host_secret(context.secrets.host_key())
        outward = Outward(shared.broker, secret, context.credential, passage)
    return SharedPortDaemon(context, passage, listening, outward)


def _descriptors(config: Config) -> int:
    """How many descriptors may be open: SHARED_PORT_MAX_FILE_DESCRIPTORS, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.get_int("SHARED_PORT_MAX_FILE_DESCRIPTORS")
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(soft, allowed)


def _bounds(config: Config) -> tuple[int, int]:
    """Most connections of one address, and of one account of this host."""
    of_address = config.get_int("SLOTWISE_MAX_CONNECTIONS_PER_ADDRESS") * _DAEMONS
    return of_address, config.get_int("SLOTWISE_MAX_CONNECTIONS_PER_USER") * _DAEMONS


class SharedPortDaemon:
    """The running daemon."""

    def __init__(
        self, context: DaemonContext, passage: Passage, listening: list[socket.socket], outward: Outward | None
    ) -> None:
        self._passage = passage
        self._listening = listening
        self._outward = outward
        self._clock = context.clock
        self._broker = Broker(passage, context.clock, statistics_window(context.config))
        self._home = context.home
        shared_port_pb2_grpc.add_BrokerServicer_to_server(self._broker, context.server)
        context.metrics.append(self._measure)
        for one in listening:
            _log.info("the port of this host's daemons is %s", one.getsockname()[:2])
        self._tasks = [tasks.keep("accepting connections", partial(passage.accept, one)) for one in listening]
        self._tasks.append(tasks.keep("writing the broker's counts", self._leave_counts))
        if outward is not None:
            outward.start()

    async def _leave_counts(self) -> None:
        """Write the broker's counts where the collector of this host finds them, when they change and as they age."""
        while True:
            broker_counts.leave(self._home, self._broker.statistics.attributes(self._clock.now()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._broker.statistics.window.quantum):
                    await self._broker.counted.wait()
            self._broker.counted.clear()
            await asyncio.sleep(_PUBLISH_S)

    async def reconfig(self, config: Config) -> list[str]:
        """Adopt bounds; addresses, port and broker change with a restart."""
        self._passage.most_of_network, self._passage.most_of_account = _bounds(config)
        return []

    async def stop(self, mode: str) -> None:
        """Take no more connections, and end those that there are."""
        await tasks.end(*self._tasks)
        with contextlib.suppress(OSError):
            broker_counts.withdraw(self._home)
        for one in self._listening:
            one.close()
        if self._outward is not None:
            await self._outward.close()
        await self._passage.close()

    def _measure(self) -> Iterator[Metric]:
        opened = GaugeMetricFamily("slotwise_shared_port_connections", "Connections to the shared port that are open.")
        opened.add_metric([], self._passage.open)
        passed = CounterMetricFamily("slotwise_shared_port_passed", "Connections that were passed on to a daemon.")
        passed.add_metric([], self._passage.passed)
        hosts = GaugeMetricFamily("slotwise_broker_hosts", "Hosts that are reached through this broker.")
        hosts.add_metric([], self._broker.registered)
        yield from (opened, passed, hosts)
