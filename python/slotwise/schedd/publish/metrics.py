"""What the schedd measures for Prometheus, from the statistics of its ad and its submitters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from slotwise.classad.values import whole
from slotwise.metrics import OTHER, FromAttribute, families_of
from slotwise.schedd.jobs.values import Changes

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
_OF_SUBMITTER = {"idle": "IdleJobs", "running": "RunningJobs", "held": "HeldJobs"}


class ScheddMetrics:
    """Reads the families. ``submitters``: their ads by key."""

    def __init__(self, own_ad: Callable[[], Changes], submitters: Callable[[], Mapping[str, Changes]]) -> None:
        self._own_ad = own_ad
        self._submitters = submitters

    def __call__(self) -> Iterator[Metric]:
        """All families."""
        yield from families_of(_ROWS, self._own_ad(), _DOCUMENTS)
        yield self._jobs_of_submitters()

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
