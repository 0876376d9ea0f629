"""What a daemon measures of itself, for Prometheus: counters and histograms of this process, and its state at a scrape.

Names carry units; labels have bounded values, whatever users and hosts write into ads: what is not among the known
values counts as ``other``. The Metrics call of every daemon hands the families out, and ``slotwise.web`` serves them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec import Struct, field
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

# When a counter began is no use to a graph, and in the older text format a gauge beside every counter.
disable_created_metrics()  # type: ignore[no-untyped-call]
#: Everything that is counted as it happens, in this process.
REGISTRY = CollectorRegistry(auto_describe=False)
ProcessCollector(namespace="slotwise", registry=REGISTRY)

#: Upper bounds of the buckets of short times, seconds: from a call within the host to one that hangs.
SHORT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
#: The label of values that are not known ones.
OTHER = "other"

RPC_DURATION = Histogram(
    "slotwise_rpc_duration_seconds",
    "Time to answer a call that is not a stream, by method.",
    ["method"],
    buckets=SHORT_S,
    registry=REGISTRY,
)
RPC_STREAMS = Counter(
    "slotwise_rpc_streams", "Calls with a stream that have been accepted, by method.", ["method"], registry=REGISTRY
)
RPC_ERRORS = Counter(
    "slotwise_rpc_errors", "Calls that ended with an error, refusals included, by status.", ["code"], registry=REGISTRY
)
LOOP_LAG = Histogram(
    "slotwise_event_loop_lag_seconds",
    "How much later than asked for the event loop came back to a timer, once a second.",
    buckets=SHORT_S,
    registry=REGISTRY,
)

BACKGROUND_FAILURES = Counter(
    "slotwise_background_failures",
    "Errors that ended a round of a daemon's background work, which went on, by work.",
    ["work"],
    registry=REGISTRY,
)

#: Reads families out of a daemon's state.
Source = Callable[[], Iterable[Metric]]


class FromAttribute(Struct, frozen=True):
    """A sample whose value is an attribute of an ad. ``counts``: a counter; otherwise a gauge."""

    family: str
    attribute: str
    labels: Mapping[str, str] = field(default_factory=dict)
    counts: bool = False


def families_of(
    rows: Iterable[FromAttribute], attributes: Mapping[str, object], documents: Mapping[str, str]
) -> Iterator[Metric]:
    """The families of ``rows`` with the values that ``attributes`` has; what is no number there is left out.

    :param documents: what each family says, by name.
    """
    found: dict[str, Metric] = {}
    for row in rows:
        value = attributes.get(row.attribute)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        metric = found.get(row.family)
        if metric is None:
            make = CounterMetricFamily if row.counts else GaugeMetricFamily
            metric = found[row.family] = make(row.family, documents[row.family], labels=list(row.labels))
        metric.add_metric(list(row.labels.values()), float(value))  # type: ignore[attr-defined]
    yield from found.values()


def known(value: object, values: Collection[str]) -> str:
    """``value`` as a label: itself when it is one of ``values``, else :data:`OTHER`."""
    return value if isinstance(value, str) and value in values else OTHER


def collect(sources: Iterable[Source]) -> Iterator[Metric]:
    """All families: what this process counts, and what ``sources`` read."""
    yield from REGISTRY.collect()
    for source in sources:
        yield from source()


async def measure_lag(every_s: float = 1.0) -> None:
    """Measure the lag of the event loop that this runs in, until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + every_s
        await asyncio.sleep(every_s)
        LOOP_LAG.observe(max(0.0, loop.time() - due))
