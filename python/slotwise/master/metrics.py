"""What the master measures for Prometheus: which daemons of its host run, and how often it has started them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from slotwise.master.supervisor import DaemonSupervisor


class MasterMetrics:
    """Reads the families. ``daemons``: by name."""

    def __init__(self, daemons: Mapping[str, DaemonSupervisor]) -> None:
        self._daemons = daemons

    def __call__(self) -> Iterator[Metric]:
        """All families."""
        up = GaugeMetricFamily("slotwise_daemon_up", "Whether a daemon of this host runs.", labels=["of"])
        restarts = CounterMetricFamily(
            "slotwise_daemon_restarts", "How often a daemon was started again by itself.", labels=["of"]
        )
        for name, one in self._daemons.items():
            up.add_metric([name], float(one.state == "running"))
            restarts.add_metric([name], one.restarts)
        yield from (up, restarts)
