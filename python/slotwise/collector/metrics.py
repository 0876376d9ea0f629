"""What the collector measures for Prometheus: slots and what they have by state, ads by kind, queries and updates."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from slotwise.classad.values import whole
from slotwise.collector.service import CollectorServicer
from slotwise.collector.store import SLOTS, AdStore
from slotwise.metrics import known
from slotwise.model.slot import Activity, SlotKind, State

#: Kinds of ads with labels of their own; whoever may advertise may make more.
_KINDS = (
    "Machine", "StartDaemon", "Scheduler", "Submitter", "Negotiator", "DaemonMaster", "Collector", "Accounting",
    "Defrag", "Rooster",
)  # fmt: skip

#: What slots have, by attribute: the family, what it says, its unit in that of the attribute, and the amount that one
#: slot counts for at most, as whoever may advertise may write any number.
_AMOUNTS = {
    "Cpus": ("slotwise_slot_cores", "Cores", 1, 100_000),
    "Memory": ("slotwise_slot_memory_bytes", "Memory", 1024 * 1024, 1 << 30),
    "Disk": ("slotwise_slot_disk_bytes", "Scratch space", 1024, 1 << 44),
    "GPUs": ("slotwise_slot_gpus", "GPUs", 1, 10_000),
}
_SLOT_KINDS, _STATES, _ACTIVITIES = frozenset(SlotKind), frozenset(State), frozenset(Activity)


class CollectorMetrics:
    """Reads the families of one collector."""

    def __init__(self, store: AdStore, servicer: CollectorServicer) -> None:
        self._store = store
        self._servicer = servicer

    def __call__(self) -> Iterator[Metric]:
        """All families."""
        yield self._slots()
        yield from self._amounts()
        ads = GaugeMetricFamily("slotwise_ads", "Ads that the collector has, by kind.", labels=["kind"])
        for kind in _KINDS:
            ads.add_metric([kind], len(self._store.table(kind)))
        yield ads
        updates = self._store.updates.total()
        yield CounterMetricFamily("slotwise_ad_updates", "Ads that were advertised.", value=updates)
        yield CounterMetricFamily("slotwise_queries", "Queries of ads.", value=self._servicer.queries)
        yield CounterMetricFamily(
            "slotwise_dropped_queries", "Queries that were given up.", value=self._servicer.dropped_queries
        )

    def _slots(self) -> Metric:
        family = GaugeMetricFamily(
            "slotwise_slots", "Slots of the pool by kind, state and activity.", labels=["kind", "state", "activity"]
        )
        found = sorted(
            ((known(kind, _SLOT_KINDS), known(state, _STATES), known(activity, _ACTIVITIES)), whole(count))
            for kind, state, activity, count in self._store.table(SLOTS).count_by(["SlotType", "State", "Activity"])
        )
        for labels, rows in groupby(found, key=lambda row: row[0]):
            family.add_metric(list(labels), sum(count for _, count in rows))
        return family

    def _amounts(self) -> Iterator[Metric]:
        for attribute, (name, what, unit, most) in _AMOUNTS.items():
            family = GaugeMetricFamily(
                name,
                f"{what} of the pool by the state of slots; what is left of partitionable slots is unclaimed.",
                labels=["state"],
            )
            found: dict[str, int] = {}
            for state, amount, count in self._store.table(SLOTS).count_by(["State", attribute]):
                label = known(state, _STATES)
                found[label] = found.get(label, 0) + unit * min(most, max(0, whole(amount))) * whole(count)
            for state, total in sorted(found.items()):
                family.add_metric([state], total)
            yield family
