"""Statistics of jobs and runs in the ads of the schedd and its submitters (Jobs..., RecentJobs...).

Pure. Which end counts as what, and how its time divides, is as in HTCondor: a run that completes its job or goes back
to the queue is goodput, one that is removed, held or failed is badput, and time without execution is churn.
"""

from __future__ import annotations

from slotwise.model.publication import Publication
from slotwise.model.windows import Histogram, Tallies, Window, shown
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import PolicyAction, RunEnd, RunOutcome
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.values import Value

#: Counters of a submitter's ad and the schedd's.
_BASIC = (
    "JobsStarted", "JobsExited", "JobsCompleted", "JobsAccumTimeToStart", "JobsAccumBadputTime",
    "JobsAccumExceptionalBadputTime", "JobsAccumRunningTime", "JobsAccumExecuteTime", "JobsAccumPreExecuteTime",
    "JobsAccumPostExecuteTime", "JobsExitedNormally", "JobsKilled", "JobsExitException", "JobsExecFailed",
)  # fmt: skip
#: Counters of the schedd's ad only.
_MORE = (
    "JobsAccumChurnTime", "JobsAccumExecuteAltTime", "JobsWierdTimestamps", "JobsCheckpointed", "JobsShadowNoMemory",
    "JobsShouldRequeue", "JobsNotStarted", "JobsShouldHold", "JobsShouldRemove", "JobsCoredumped",
    "JobsMissedDeferralTime", "JobsExitedAndClaimClosing", "JobsDebugLogError", "JobsCoolDown",
)  # fmt: skip
#: Submitters whose counters are kept; beyond that, all of them start again at 0.
_SUBMITTERS_MOST = 20_000
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
#: Levels of JobsRuntimesHistogramBuckets, seconds, and of JobsSizesHistogramBuckets, bytes.
RUNTIMES = (
    30, _MINUTE, 3 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY,
    4 * _DAY, 8 * _DAY, 16 * _DAY,
)  # fmt: skip
SIZES = tuple(0x10000 * 4**power for power in range(12))
BUCKETS = {
    "JobsRuntimesHistogramBuckets": (
        "30Sec, 1Min, 3Min, 10Min, 30Min, 1Hr, 3Hr, 6Hr, 12Hr, 1Day, 2Day, 4Day, 8Day, 16Day"
    ),
    "JobsSizesHistogramBuckets": "64Kb, 256Kb, 1Mb, 4Mb, 16Mb, 64Mb, 256Mb, 1Gb, 4Gb, 16Gb, 64Gb, 256Gb",
}
_HISTOGRAMS = {
    "JobsCompletedSizes": SIZES,
    "JobsBadputSizes": SIZES,
    "JobsCompletedRuntimes": RUNTIMES,
    "JobsBadputRuntimes": RUNTIMES,
}


class JobCounters:
    """The counters of one ad. ``is_whole``: of the schedd's ad."""

    def __init__(self, window: Window, *, is_whole: bool) -> None:
        self._tallies = Tallies((*_BASIC, *(_MORE if is_whole else ())), window)
        self._histograms = {name: Histogram(levels, window) for name, levels in _HISTOGRAMS.items()}
        self._shown: tuple[int, Publication, dict[str, Value]] | None = None

    @property
    def started(self) -> int:
        """Runs that have begun."""
        return self._tallies.totals["JobsStarted"]

    def add(self, now: float, amounts: dict[str, int], values: dict[str, float]) -> None:
        """Add amounts to counters (those that this ad does not have are ignored) and values to histograms."""
        known = self._tallies.totals
        self._tallies.add(now, **{name: amount for name, amount in amounts.items() if amount and name in known})
        for name, value in values.items():
            self._histograms[name].add(now, value)
        self._shown = None

    def attributes(self, now: float, publication: Publication) -> dict[str, Value]:
        """The attributes to publish. The same object as long as nothing changes."""
        quantum = self._tallies.ring.number(now)
        if self._shown is not None and self._shown[:2] == (quantum, publication):
            return self._shown[2]
        totals: dict[str, Value] = {
            **self._tallies.totals,
            **{name: shown(one.counts) for name, one in self._histograms.items()},
        }
        recent: dict[str, Value] = {}
        if publication.recent:
            recent.update(self._tallies.recent(now))
            recent.update({name: shown(one.recent(now)) for name, one in self._histograms.items()})
        found = publication.select(totals, recent)
        self._shown = (quantum, publication, found)
        return found


class JobStatistics:
    """The counters of the access point and of each submitter that has had runs."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.all = JobCounters(window, is_whole=True)
        self.submitters: dict[str, JobCounters] = {}
        #: Bytes of results that runs have sent, and of input that they got; counted when they end.
        self.sent_bytes = self.received_bytes = 0.0

    def started(self, job: Job, now: float) -> None:
        """Count the start of a run."""
        waited = int(max(0.0, now - job.cluster.qdate))
        self._add(job, now, {"JobsStarted": 1, "JobsAccumTimeToStart": waited}, {})

    def ended(self, job: Job, end: RunEnd, now: float) -> dict[str, int]:
        """Count the end of a run, after which the job is in ``job.status``; returns what was added to counters."""
        self.sent_bytes += end.usage.sent
        self.received_bytes += end.usage.received
        amounts, kind = _outcome(job, end, now)
        amounts["JobsExited"] = 1
        ran = int(now) - int(job.number("JobCurrentStartDate", now))
        values: dict[str, float] = {}
        if not kind:
            amounts["JobsAccumChurnTime"] = ran
        else:
            _divide(job, kind, ran, int(now), amounts)
            name = "Completed" if kind == "good" else "Badput"
            values = {f"Jobs{name}Sizes": job.number("ImageSize") * 1024, f"Jobs{name}Runtimes": ran}
            if kind == "good":
                amounts["JobsAccumRunningTime"] = ran
            else:
                amounts["JobsAccumBadputTime"] = ran
                amounts["JobsAccumExceptionalBadputTime"] = ran if "JobsExitException" in amounts else 0
        self._add(job, now, amounts, values)
        return amounts

    def _add(self, job: Job, now: float, amounts: dict[str, int], values: dict[str, float]) -> None:
        own = self.submitters.get(job.submitter)
        if own is None:
            if len(self.submitters) >= _SUBMITTERS_MOST:
                self.submitters.clear()
            own = self.submitters[job.submitter] = JobCounters(self._window, is_whole=False)
        for counters in (self.all, own):
            counters.add(now, amounts, values)


def _outcome(job: Job, end: RunEnd, now: float) -> tuple[dict[str, int], str]:
    """The counters of an end, and whether the run was "good" put, "bad" put or neither."""
    amounts: dict[str, int] = {}
    if job.cool_until > now:
        amounts["JobsCoolDown"] = 1
    if end.how == RunOutcome.FAILED:
        return {**amounts, "JobsExitException": 1}, "bad"
    if job.status == Status.COMPLETED:
        if end.core:
            return {**amounts, "JobsCoredumped": 1}, "bad"
        return {**amounts, "JobsExitedNormally": 1, "JobsCompleted": 1}, "good"
    if job.status == Status.REMOVED:
        by_policy = end.verdict is not None and end.verdict.act == PolicyAction.REMOVE
        return {**amounts, "JobsKilled": 1, "JobsShouldRemove": int(by_policy)}, "bad"
    if job.status == Status.HELD:
        return {**amounts, "JobsShouldHold": 1}, "bad"
    if end.how == RunOutcome.NOT_STARTED:
        return {**amounts, "JobsNotStarted": 1}, ""
    return {**amounts, "JobsShouldRequeue": 1}, "good"


def _divide(job: Job, kind: str, ran: int, now: int, amounts: dict[str, int]) -> None:
    """The time of the run before, during and after execution, in seconds."""
    began = int(job.number("JobCurrentStartDate", now))
    executing = int(job.number("JobCurrentStartExecutingDate"))
    sending = int(job.number("JobCurrentStartTransferOutputDate"))
    before = after = executed = 0
    if executing >= began > 0:
        before, executed = executing - began, now - executing
    elif kind == "bad":
        amounts["JobsAccumChurnTime"] = ran
    if sending >= began:
        after, executed = max(0, now - sending), sending - max(began, executing)
    amounts["JobsWierdTimestamps"] = int(executed < 0)
    amounts["JobsAccumPreExecuteTime"] = before
    amounts["JobsAccumPostExecuteTime"] = after
    amounts["JobsAccumExecuteTime"] = max(0, executed)
    amounts["JobsAccumExecuteAltTime"] = max(0, ran - before - after)
