"""What the schedd measures for Prometheus, from the statistics of its ad and its submitters."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily, Metric

from slotwise.classad.values import whole
from slotwise.clock import Clock
from slotwise.metrics import OTHER, FromAttribute, families_of
from slotwise.model.reason_codes import HOLD_NAMES, Hold
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.job import Cluster
from slotwise.schedd.jobs.values import Changes
from slotwise.table import AdTable

#: Submitters with labels of their own: those with the most jobs. The others are counted together.
_SUBMITTERS_MOST = 50
_DOCUMENTS = {
    "slotwise_jobs": "Jobs in the queue by state.",
    "slotwise_job_runs": "Runs of jobs by how they began and ended, since the schedd's start.",
    "slotwise_job_seconds": "Time of runs that have ended, by what came of it, since the schedd's start.",
    "slotwise_jobs_submitted": "Jobs that were queued since the schedd's start.",
    "slotwise_shadows": "Runs that this schedd follows.",
    "slotwise_transfers": "Sandboxes that are being moved, or wait for it.",
    "slotwise_transfer_queue_wait_seconds": "How long the oldest transfer has waited.",
    "slotwise_transfer_bytes": "Bytes of sandboxes of runs that have ended.",
}
_ROWS = (
    *(
        FromAttribute("slotwise_jobs", attribute, {"state": state})
        for state, attribute in (
            ("idle", "TotalIdleJobs"), ("running", "TotalRunningJobs"), ("held", "TotalHeldJobs"),
            ("removed", "TotalRemovedJobs"), ("local", "TotalLocalJobsRunning"),
            ("scheduler", "TotalSchedulerJobsRunning"), ("unmaterialized", "JobsUnmaterialized"),
        )
    ),
    *(
        FromAttribute("slotwise_job_runs", attribute, {"what": what}, counts=True)
        for what, attribute in (
            ("started", "JobsStarted"), ("ended", "JobsExited"), ("exited_normally", "JobsExitedNormally"),
            ("killed", "JobsKilled"), ("failed_to_start", "JobsExecFailed"), ("requeued", "JobsShouldRequeue"),
            ("held", "JobsShouldHold"), ("removed", "JobsShouldRemove"), ("checkpointed", "JobsCheckpointed"),
        )
    ),
    *(
        FromAttribute("slotwise_job_seconds", attribute, {"what": what}, counts=True)
        for what, attribute in (
            ("goodput", "JobsAccumRunningTime"), ("badput", "JobsAccumBadputTime"), ("churn", "JobsAccumChurnTime"),
            ("waiting", "JobsAccumTimeToStart"),
        )
    ),
    FromAttribute("slotwise_jobs_submitted", "JobsSubmitted", counts=True),
    FromAttribute("slotwise_shadows", "ShadowsRunning"),
    *(
        FromAttribute("slotwise_transfers", f"TransferQueueNum{name}", {"direction": direction, "state": state})
        for name, direction, state in (
            ("Uploading", "input", "active"), ("WaitingToUpload", "input", "waiting"),
            ("Downloading", "output", "active"), ("WaitingToDownload", "output", "waiting"),
        )
    ),
    FromAttribute("slotwise_transfer_queue_wait_seconds", "TransferQueueUploadWaitTime", {"direction": "input"}),
    FromAttribute("slotwise_transfer_bytes", "FileTransferUploadBytes", {"direction": "input"}, counts=True),
    FromAttribute("slotwise_transfer_bytes", "FileTransferDownloadBytes", {"direction": "output"}, counts=True),
)  # fmt: skip
#: Upper bounds of the buckets of waiting times: from a minute to a month.
_WAITS_S = (60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400, 30 * 86400)
_OF_SUBMITTER = {"idle": "IdleJobs", "running": "RunningJobs", "held": "HeldJobs"}


def waits(clusters: Iterable[Cluster], now: float) -> Metric:
    """How long the idle jobs of clusters have waited since they were submitted, as a histogram at present."""
    counts = [0] * (len(_WAITS_S) + 1)
    total = 0.0
    for cluster in clusters:
        idle = 0 if cluster.runs_here else cluster.counts[Status.IDLE]
        if idle:
            waited = max(0.0, now - cluster.qdate)
            counts[bisect_left(_WAITS_S, waited)] += idle
            total += idle * waited
    bounds = [*(str(float(bound)) for bound in _WAITS_S), "+Inf"]
    family = GaugeHistogramMetricFamily(
        "slotwise_idle_job_wait_seconds", "How long jobs that are idle now have waited since they were submitted."
    )
    family.add_metric([], list(zip(bounds, accumulate(counts), strict=True)), total)
    return family


class ScheddMetrics:
    """Reads the families.

    :param submitters: their ads by key.
    :param table: the ads of all jobs.
    :param events_behind: how many texts of events wait for logs that cannot be written.
    """

    def __init__(
        self,
        own_ad: Callable[[], Changes],
        submitters: Callable[[], Mapping[str, Changes]],
        clusters: Callable[[], Iterable[Cluster]],
        table: AdTable,
        clock: Clock,
        events_behind: Callable[[], int] = int,
    ) -> None:
        self._own_ad = own_ad
        self._submitters = submitters
        self._clusters = clusters
        self._table = table
        self._clock = clock
        self._events_behind = events_behind

    def __call__(self) -> Iterator[Metric]:
        """All families."""
        yield from families_of(_ROWS, self._own_ad(), _DOCUMENTS)
        yield self._jobs_of_submitters()
        clusters = list(self._clusters())
        yield waits(clusters, self._clock.now())
        yield self._held(any(cluster.counts[Status.HELD] for cluster in clusters))
        yield GaugeMetricFamily(
            "slotwise_event_log_backlog",
            "Texts of events that wait for job event logs which cannot be written.",
            self._events_behind(),
        )

    def _held(self, there_are: bool) -> Metric:
        family = GaugeMetricFamily("slotwise_held_jobs", "Jobs on hold by HoldReasonCode.", labels=["reason"])
        found = {HOLD_NAMES[Hold.USER_REQUEST]: 0}
        held = f"JobStatus == {int(Status.HELD)}"
        for code, count in self._table.count_by(["HoldReasonCode"], held) if there_are else ():
            label = HOLD_NAMES.get(whole(code), OTHER)
            found[label] = found.get(label, 0) + whole(count)
        for label, count in sorted(found.items()):
            family.add_metric([label], count)
        return family

    def _jobs_of_submitters(self) -> Metric:
        counts = {
            str(ad["Name"]): {state: whole(ad.get(attribute)) for state, attribute in _OF_SUBMITTER.items()}
            for ad in self._submitters().values()
        }
        largest = sorted(counts, key=lambda name: (-sum(counts[name].values()), name))
        help_ = f"Jobs by submitter and state; all but the {_SUBMITTERS_MOST} largest submitters are {OTHER}."
        family = GaugeMetricFamily("slotwise_submitter_jobs", help_, labels=["submitter", "state"])
        for name in largest[:_SUBMITTERS_MOST]:
            for state, count in counts[name].items():
                family.add_metric([name, state], count)
        if rest := largest[_SUBMITTERS_MOST:]:
            for state in _OF_SUBMITTER:
                family.add_metric([OTHER, state], sum(counts[name][state] for name in rest))
        return family
