"""The statistics in the ads of the schedd and its submitters: jobs, shadows, transfers (STATISTICS_TO_PUBLISH)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from msgspec import Struct, field

from slotwise.classad import ExprTree
from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.daemon.ad import statistics_window
from slotwise.model.publication import Publication
from slotwise.model.windows import Rate, Tallies, Window, shown
from slotwise.schedd.claims.records import ClaimTable
from slotwise.schedd.jobs.job_statistics import BUCKETS, RUNTIMES, SIZES, JobCounters, JobStatistics
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes, Expr
from slotwise.schedd.transfer.disk_throttle import DiskThrottle
from slotwise.schedd.transfer.transfer_queue import TransferQueue

#: The horizons of published rates in seconds, with the suffixes of their names.
_HORIZONS = {60.0: "1m", 300.0: "5m"}
#: How long counts that take a look at every run are cached, in seconds.
_RUNNING_S = 60.0


class StatisticsSettings(Struct, frozen=True):
    """The window of Recent... attributes, and which statistics of jobs and of transfers are published."""

    window: Window = field(default_factory=Window)
    jobs: Publication = field(default_factory=Publication)
    transfers: Publication = field(default_factory=Publication)

    @classmethod
    def of(cls, config: Config) -> StatisticsSettings:
        """The settings that the STATISTICS_ knobs give."""
        return cls(
            statistics_window(config, "SCHEDULER", "SCHEDD"),
            Publication.configured(config, "SCHEDD", "SCHEDULER"),
            Publication.configured(config, "TRANSFER"),
        )


class Statistics:
    """Collects the statistics for the ads."""

    def __init__(
        self,
        queue: Queue,
        claim_table: ClaimTable,
        transfers: tuple[TransferQueue, TransferQueue],
        clock: Clock,
        settings: StatisticsSettings,
    ) -> None:
        """:param transfers: the queues of uploads and of downloads."""
        self.settings = settings
        self._queue = queue
        self._claim_table = claim_table
        self._uploads, self._downloads = transfers
        self._clock = clock
        now = clock.now()
        self._began = now
        self._others = Tallies(("JobsSubmitted", "ResourceRequestsSent", "ShadowsStarted"), settings.window)
        #: The counters of submitters that have had no run.
        self._none = JobCounters(settings.window, is_whole=False)
        self._peaks: dict[str, int] = {}
        self._running: tuple[float, Changes] = (0.0, {})
        self._uploaded, self._downloaded = Rate(list(_HORIZONS), now), Rate(list(_HORIZONS), now)
        queue.statistics = JobStatistics(settings.window)
        #: The number of runs whose output is being received.
        self.downloading: Callable[[], int] = lambda: 0
        #: What limits transfers by the load of the disk.
        self.disk_throttle: Callable[[], DiskThrottle | None] = lambda: None
        #: TRANSFER_QUEUE_USER_EXPR.
        self.queue_user: Callable[[], ExprTree | None] = lambda: None
        #: The number of resource requests sent to negotiators.
        self.requests_sent: Callable[[], int] = lambda: 0

    def follow(self, settings: StatisticsSettings) -> None:
        """Apply new settings. When the window changes, all counters start again."""
        if settings.window != self.settings.window:
            self._queue.statistics = JobStatistics(settings.window)
            self._others = Tallies(tuple(self._others.totals), settings.window)
        self.settings = settings

    def attributes(self) -> Changes:
        """The statistics for the schedd's ad."""
        now, settings = self._clock.now(), self.settings
        found: Changes = {}
        if settings.jobs.level:
            lifetime = max(0, int(now - self._began))
            found.update(BUCKETS)
            found["StatsLifetime"] = lifetime
            if settings.jobs.recent:
                found["RecentStatsLifetime"] = min(lifetime, int(settings.window.seconds))
                if settings.jobs.level > 1:
                    found["RecentWindowMax"] = int(settings.window.seconds)
            found.update(self._queue.statistics.all.attributes(now, settings.jobs))
            found.update(self._counts(now))
            found.update(self._of_running_jobs(now))
        if settings.transfers.level:
            found.update(self._transfers(now))
        return found

    def of_submitter(self, name: str) -> Changes:
        """The statistics for a submitter's ad."""
        counters = self._queue.statistics.submitters.get(name, self._none)
        return counters.attributes(self._clock.now(), self.settings.jobs)

    def _counts(self, now: float) -> Changes:
        """Counters that are kept elsewhere; their growth since the last call counts as of now."""
        started = self._queue.statistics.all.started
        values = {
            "JobsSubmitted": self._queue.admitted,
            "ResourceRequestsSent": self.requests_sent(),
            "ShadowsStarted": started,
        }
        totals = self._others.totals
        if grown := {name: max(0, value - totals[name]) for name, value in values.items() if value != totals[name]}:
            self._others.add(now, **grown)
        running = len(self._claim_table.runs)
        pending = sum(len(request.jobs) for request in self._claim_table.pending.values())
        found: Changes = dict(totals)
        if self.settings.jobs.recent:
            found.update({f"Recent{name}": value for name, value in self._others.recent(now).items()})
        found.update(
            ShadowsRunning=running,
            ShadowsRunningPeak=self._peak("ShadowsRunning", running),
            NumPendingClaims=pending,
        )
        return found

    def _of_running_jobs(self, now: float) -> Changes:
        """Counts over all runs and clusters, of which there may be very many: updated once a minute."""
        at, found = self._running
        if found and 0 <= now - at < _RUNNING_S:
            return found
        sizes, runtimes = [0] * (len(SIZES) + 1), [0] * (len(RUNTIMES) + 1)
        for run in self._claim_table.runs.values():
            sizes[bisect_right(SIZES, run.job.number("ImageSize") * 1024)] += 1
            runtimes[bisect_right(RUNTIMES, now - run.job.number("JobCurrentStartDate", now))] += 1
        found = {
            "JobsRunning": len(self._claim_table.runs),
            "JobsRunningSizes": shown(sizes),
            "JobsRunningRuntimes": shown(runtimes),
            "JobsUnmaterialized": sum(cluster.unmade for cluster in self._queue.clusters.values()),
        }
        self._running = (now, found)
        return found

    def _transfers(self, now: float) -> Changes:
        up, down = self._uploads, self._downloads
        values = {
            "NumUploading": up.active,
            "NumWaitingToUpload": up.waiting,
            "UploadWaitTime": int(up.oldest_wait()),
            # Small outputs have no turn in the queue.
            "NumDownloading": max(down.active, self.downloading()),
            "NumWaitingToDownload": down.waiting,
            "DownloadWaitTime": int(down.oldest_wait()),
        }
        found: Changes = {"TransferQueueMaxUploading": up.most, "TransferQueueMaxDownloading": down.most}
        for name, queue in (("Upload", up), ("Download", down)):
            found[f"FileTransferMBWaitingTo{name}"] = round(queue.waiting_bytes / 1048576, 3)
        for name, value in values.items():
            found[f"TransferQueue{name}"] = value
            found[f"TransferQueue{name}Peak"] = self._peak(f"TransferQueue{name}", value)
        if (queue_user := self.queue_user()) is not None:
            found["TransferQueueUserExpr"] = Expr(str(queue_user))
        if (throttle := self.disk_throttle()) is not None:
            found["FileTransferDiskThrottleLow"] = throttle.settings.low
            found["FileTransferDiskThrottleHigh"] = throttle.settings.high
            if throttle.most is not None:
                found["FileTransferDiskThrottleLimit"] = throttle.most
        jobs = self._queue.statistics
        for name, rate, total in (
            ("Upload", self._uploaded, jobs.received_bytes),
            ("Download", self._downloaded, jobs.sent_bytes),
        ):
            rate.add(max(0.0, total - rate.total))
            found[f"FileTransfer{name}Bytes"] = float(rate.total)
            for horizon, average in rate.averages(now).items():
                found[f"FileTransfer{name}BytesPerSecond_{_HORIZONS[horizon]}"] = round(average, 3)
        return found

    def _peak(self, name: str, value: int) -> int:
        most = self._peaks[name] = max(value, self._peaks.get(name, 0))
        return most
