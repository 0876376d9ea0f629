"""Wires and starts the collector."""

from __future__ import annotations

import logging
from pathlib import Path

from slotwise.classad.values import whole
from slotwise.collector.ad_bounds import AdLimits
from slotwise.collector.ad_log import AdLog
from slotwise.collector.expiry import Expiry
from slotwise.collector.job_universes import JobUniverses
from slotwise.collector.metrics import CollectorMetrics
from slotwise.collector.node_record import NodeRecord
from slotwise.collector.nodes import NodeServicer, PoolView, Seen
from slotwise.collector.offline import OfflineAds, OfflineRules
from slotwise.collector.ownership import HOST_NAMED, host_in
from slotwise.collector.service import CollectorServicer
from slotwise.collector.sleeps import SleepRecord
from slotwise.collector.store import HEARD, SLOTS, AdStore
from slotwise.collector.tokens import TokenServicer
from slotwise.config import Config
from slotwise.daemon import broker_counts, privileges, tasks
from slotwise.daemon.ad import daemon_ad, statistics_window
from slotwise.daemon.further_attributes import further_attributes, in_ad
from slotwise.daemon.host_tls import HostTls
from slotwise.daemon.pause import pause
from slotwise.daemon.runtime import DaemonContext
from slotwise.observe.log import listed
from slotwise.wire.authority import Authority
from slotwise.wire.gen import collector_pb2_grpc, node_pb2_grpc, token_pb2_grpc
from slotwise.wire.keys import PoolSecrets

_log = logging.getLogger(__name__)
_KIND = "Collector"


class Collector:
    """The running collector: the service, and a loop that expires stale ads."""

    def __init__(self, context: DaemonContext) -> None:
        self._context = context
        now = context.clock.now()
        self.store = AdStore()
        self.sleeps = SleepRecord(context.home.spool / "sleeps.sqlite", _most_sleeps(context.config))
        self.offline = OfflineAds(self.store.table(SLOTS), AdLog(self._ad_log(), now), now, self.sleeps)
        self.store.offline = self.offline
        self.servicer = CollectorServicer(self.store, context.clock, self.refresh_own_ad, self.sleeps)
        context.metrics.append(CollectorMetrics(self.store, self.servicer))
        self.tokens = TokenServicer(
            context.secrets or PoolSecrets(context.home),
            context.clock,
            lambda: self._context.config.get("SEC_TOKEN_REVOCATION_EXPR") or "",
            lambda: self._context.config.get_list("SEC_TOKEN_REQUEST_LIMITS"),
        )
        self.tokens.tell_hosts()
        self.nodes = self._node_servicer()
        self.tokens.require_free = self.nodes.require_free
        self.tokens.hosts = self._masters
        self.servicer.require_free = self.nodes.require_free
        self.servicer.owners.admitted(self.nodes.execution_points())
        self.expiry = Expiry()
        self.store.updates.began = context.clock.now()
        self._take_config(context.config)
        self._own_ad_at = 0.0
        #: The most ads of a kind that there were.
        self._peaks: dict[str, int] = {}
        self._universes = JobUniverses()
        self._keeping_house = tasks.keep("expiring ads", self._keep_house)

    def _node_servicer(self) -> NodeServicer:
        context = self._context
        with privileges.root_files():
            authority = Authority.read(context.home)
            own = HostTls(context.home).present()
        view = PoolView(
            masters=self._masters,
            draining=self._draining,
            drop=self.drop_host,
            refresh=context.authenticator.refresh,
        )
        made = NodeServicer(
            NodeRecord(context.home.spool / "nodes.sqlite"),
            context.secrets or PoolSecrets(context.home),
            authority,
            context.address.name,
            context.clock,
            lambda: self._context.config,
            view,
        )
        if own is not None:
            made.admit_own_host(*own)
        return made

    def _masters(self) -> dict[str, Seen]:
        """What the masters of the pool advertise, by host."""
        table = self.store.find("DaemonMaster")
        if table is None:
            return {}
        rows = zip(*table.values(["Name", "MyAddress", "SlotwiseVersion"]), strict=True)
        return {host_in(str(name)): Seen(str(address), str(version)) for name, address, version in rows}

    def _draining(self) -> set[str]:
        """The hosts with a startd that drains, or a slot that is drained."""
        found: set[str] = set()
        for kind, constraint in (("StartDaemon", "Draining =?= true"), (SLOTS, 'State == "Drained"')):
            if (table := self.store.find(kind)) is not None:
                found.update(host_in(str(name)) for name in table.values(["Name"], constraint)[0])
        return found

    def drop_host(self, name: str) -> None:
        """Drop all ads that are named after a host."""
        self.servicer.owners.dropped(name)
        for kind in HOST_NAMED:
            kind = self.store.canonical(kind)
            tables = (self.store.find(kind), self.store.table(kind, private=True))
            every = [key for table in tables if table is not None for key in table.keys()]  # noqa: SIM118 - not a dict
            keys = {key for key in every if host_in(key) == name}
            if keys:
                self.servicer.owners.release(kind, self.store.invalidate(kind, sorted(keys), self._context.clock.now()))
                for private in (False, True):
                    self.servicer.ring(kind, private)

    def _take_config(self, config: Config) -> None:
        self.expiry.lifetime_s = config.get_float("CLASSAD_LIFETIME")
        self.expiry.spare_s = config.get_float("UPDATE_INTERVAL")
        own = config.get("COLLECTOR_NAME") if config.is_set("COLLECTOR_NAME") else None
        self.store.updates.follow(statistics_window(config))
        self.store.counts = config.get_bool("COLLECTOR_DAEMON_STATS")
        self.servicer.longest_query_s = config.get_float("COLLECTOR_QUERY_MAX_WORKTIME")
        self.servicer.ad_bounds.limits = AdLimits(
            config.get_int("SLOTWISE_MAX_ADS_PER_HOST"),
            config.get_int("SLOTWISE_MAX_ADS_PER_IDENTITY"),
            config.get_int("SLOTWISE_MAX_NEW_ADS_PER_MINUTE"),
            config.get_int("SLOTWISE_MAX_AD_MB_PER_IDENTITY") << 20,
        )
        self.offline.rules = offline_rules(config)
        self.sleeps.most = _most_sleeps(config)
        self._further = further_attributes(config, "COLLECTOR")
        self._name = own or f"My Pool - {self._context.address.name}"

    def _ad_log(self) -> Path:
        config = self._context.config
        named = config.get("COLLECTOR_PERSISTENT_AD_LOG") or config.get("OFFLINE_LOG")
        return Path(named) if named else self._context.home.spool / "offline_ads.log"

    async def reconfig(self, config: Config) -> list[str]:
        """Adopt lifetimes and the name; the file of offline ads changes with a restart only."""
        self._take_config(config)
        self._own_ad_at = 0.0
        self.tokens.forget_rules()
        self.tokens.tell_hosts()
        return []

    async def stop(self, mode: str) -> None:
        """End the loop."""
        await tasks.end(self._keeping_house)
        self.sleeps.close()

    async def _keep_house(self) -> None:
        while True:
            await pause(lambda: self.expiry.interval_s)
            self.refresh_own_ad()  # peaks of which nobody asks count as well
            if self.expiry.due(self._context.clock.now()):
                self.expire()

    def expire(self) -> None:
        """Expire the ads that were not renewed in time."""
        for kind in self.store.expire(self._context.clock.now(), self.expiry.lifetime_s, self._lost):
            for private in (False, True):
                self.servicer.ring(kind, private)

    def _lost(self, kind: str, keys: list[str]) -> None:
        log_expired(kind, keys)
        self.servicer.owners.release(kind, keys)

    def refresh_own_ad(self) -> None:
        """Update the collector's own ad, at most once a second, because each query asks for it."""
        now = self._context.clock.now()
        if now - self._own_ad_at < 1.0:
            return
        self._own_ad_at = now
        table = self.store.table(_KIND)
        ad = in_ad(self._further) | daemon_ad(self._context, _KIND, name=self._name) | self._totals()
        ad[HEARD] = int(now)
        table.upsert(self._name, ad, now)

    def _peak(self, name: str, count: int) -> int:
        """The most that there were, as far as the own ad has been made then."""
        self._peaks[name] = max(count, self._peaks.get(name, 0))
        return self._peaks[name]

    def _totals(self) -> dict[str, int | float | str]:
        slots = self.store.table("Machine")
        submitters = self.store.table("Submitter")
        states = {str(state): whole(count) for state, count in slots.count_by(["State"])}
        totals: dict[str, int | float | str] = {
            "CollectorIpAddr": self._context.address.target,
            "HostsTotal": len(slots),
            "MachineAds": len(slots),
            "MachineAdsPeak": self._peak("MachineAds", len(slots)),
            "HostsClaimed": states.get("Claimed", 0),
            "HostsUnclaimed": states.get("Unclaimed", 0),
            "HostsOwner": states.get("Owner", 0),
            "SubmitterAds": len(submitters),
            "SubmitterAdsPeak": self._peak("SubmitterAds", len(submitters)),
            "ActiveQueryWorkers": self.servicer.open_queries,
            "ActiveQueryWorkersPeak": self.servicer.open_queries_peak,
            "DroppedQueries": self.servicer.dropped_queries,
            "QueriesTotal": self.servicer.queries,
            **self.store.updates.attributes(self._context.clock.now()),
            **broker_counts.read(self._context.home),
        }
        for name in ("RunningJobs", "IdleJobs"):
            (values,) = submitters.values([name])
            totals[name] = sum(value for value in values if isinstance(value, int))
        return totals | self._universes.attributes(slots.count_by(["JobUniverse"]))


def _most_sleeps(config: Config) -> int:
    return config.get_int("SLOTWISE_MAX_SLEEP_RECORDS")


def offline_rules(config: Config) -> OfflineRules:
    """The settings for machines that are off."""
    return OfflineRules(
        offline_life_s=config.get_int("OFFLINE_EXPIRE_ADS_AFTER"),
        absent_requirements=config.get_expr("ABSENT_REQUIREMENTS"),
        absent_life_s=config.get_int("ABSENT_EXPIRE_ADS_AFTER"),
        expire_invalidated=config.get_bool("EXPIRE_INVALIDATED_ADS"),
    )


def log_expired(kind: str, keys: list[str]) -> None:
    """Log the ads that were not renewed."""
    _log.info("expired %d %s ads: %s", len(keys), kind, listed(keys))


async def start(context: DaemonContext) -> Collector:
    """Start serving."""
    collector = Collector(context)
    collector_pb2_grpc.add_CollectorServicer_to_server(collector.servicer, context.server)
    token_pb2_grpc.add_TokensServicer_to_server(collector.tokens, context.server)
    node_pb2_grpc.add_NodesServicer_to_server(collector.nodes, context.server)
    return collector
