"""The schedd's side of negotiation: autoclusters, resource requests, submitter ads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from slotwise.classad import ClassAd, ExprTree
from slotwise.clock import Clock
from slotwise.schedd.claims.matching.refusals import Refusals
from slotwise.schedd.claims.records import ClaimTable, reserved
from slotwise.schedd.claims.starts.next_job import NextJob
from slotwise.schedd.claims.starts.start_limits import StartLimits
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.autocluster import Autoclusters
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.runnable import Request
from slotwise.schedd.jobs.values import Changes
from slotwise.table import pack_ads

#: Request ads made before other work gets its turn.
_PIECE = 200


class AsksForSlots(Protocol):
    """The dedicated scheduler, as negotiation sees it."""

    #: The submitter that it negotiates as.
    name: str

    def idle_count(self) -> int:
        """How many slots it wants."""
        ...

    def requests(self) -> list[ClassAd]:
        """Its resource requests."""
        ...


class Requests:
    """What this schedd tells negotiators."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        claim_table: ClaimTable,
        limits: StartLimits,
        next_job: NextJob,
        autoclusters: Autoclusters,
        refusals: Refusals,
        clock: Clock,
        *,
        schedd_name: str,
        host: str,
        address: str,
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._claim_table = claim_table
        self._limits = limits
        self._next_job = next_job
        self._refusals = refusals
        self._clock = clock
        self.autoclusters = autoclusters
        self._name = schedd_name
        self._host = host
        #: Requests told so far.
        self.sent = 0
        self._address = address
        #: Jobs of a submitter that run here, as attributes of its ad.
        self.counts_here: Callable[[str], Changes] = lambda submitter: {}
        #: Asks for slots of its own for parallel jobs.
        self.dedicated: AsksForSlots | None = None

    # ---- autoclusters

    def learn(self, significant: Iterable[str]) -> None:
        """Take in the attributes that a negotiator finds significant."""
        if self.autoclusters.learn(significant):
            self._renew()

    def replace(self, autoclusters: Autoclusters) -> None:
        """Begin anew, after a reconfiguration."""
        self.autoclusters = autoclusters
        self._renew()

    def _renew(self) -> None:
        self._queue.runnable.forget_autoclusters()
        for cluster in self._queue.clusters.values():
            cluster.autocluster = None
        self._next_job.forget_fits(self._claim_table)
        self._refusals.forget_autoclusters()
        self._ads.autoclusters_renewed()

    def assign(self) -> None:
        """Give every runnable job its autocluster."""
        for _ in range(20):  # the set grows by what jobs refer to; that ends soon
            if not self._queue.runnable.unclustered:
                return  # asked for each run that ends, while the table of what once was in it may be large
            if not self._assign(list(self._queue.runnable.unclustered)):
                return

    def _assign(self, waiting: Sequence[Job]) -> bool:
        """True when the significant set grew and all must be done again."""
        names = self.autoclusters.significant
        lower = self.autoclusters.watched
        every_job = "procid" in lower
        alike: dict[int, bool] = {}
        alone: list[Job] = []
        for job in waiting:
            cluster = job.cluster
            shared = alike.get(cluster.number)
            if shared is None:
                shared = alike[cluster.number] = not every_job and lower.isdisjoint(cluster.varied)
            if not shared or (job.changes and any(name.lower() in lower for name in job.changes)):
                alone.append(job)
            elif cluster.autocluster is not None:
                self._clustered(job, cluster.autocluster)
            else:
                found = self._numbers([job], names)
                if found is None:
                    return True
                cluster.autocluster = found[0]
                self._clustered(job, found[0])
        if alone:
            numbers = self._numbers(alone, names)
            if numbers is None:
                return True
            for job, number in zip(alone, numbers, strict=True):
                self._clustered(job, number)
        return False

    def _clustered(self, job: Job, number: int) -> None:
        self._queue.runnable.clustered(job, number)
        self._ads.set(job.key, {"AutoClusterId": number, "AutoClusterAttrs": self.autoclusters.attrs_of(number)})

    def _numbers(self, jobs: Sequence[Job], names: Sequence[str]) -> list[int] | None:
        """Autoclusters of the jobs; None when they refer to attributes that were not significant before."""
        texts, mentioned = self._ads.signatures(jobs, names)
        if self.autoclusters.refer(mentioned):
            self._renew()
            return None
        return [self.autoclusters.id_of(text) for text in texts]

    # ---- requests

    def packs(self, submitters: Sequence[str], limit: int, constraint: str, now: float) -> Iterable[bytes]:
        """Request ads in order, at least one pack for each submitter that has runnable jobs."""
        self.assign()
        wanted = {name.lower() for name in submitters}
        for submitter in self._queue.runnable.submitters():
            if wanted and submitter.lower() not in wanted:
                continue
            requests = self._queue.runnable.requests(submitter, limit)
            for start in range(0, len(requests), _PIECE):
                ads = [
                    self._ad(request)
                    for request in requests[start : start + _PIECE]
                    if request.first.cluster.jobs.get(request.first.proc) is request.first  # it may have left meanwhile
                    and self._is_asked_for(request.first)
                ]
                if constraint:
                    ads = [ad for ad in ads if _holds(constraint, ad, now)]
                if ads:
                    self.sent += len(ads)
                    yield pack_ads(ads)
        if self.dedicated is not None and (not wanted or self.dedicated.name.lower() in wanted):
            ads = [ad for ad in self.dedicated.requests() if not constraint or _holds(constraint, ad, now)]
            if ads:
                self.sent += len(ads)
                yield pack_ads(ads)

    def _is_asked_for(self, job: Job) -> bool:
        """Whether slots are asked for a job; its ad tells what keeps it back (KeptBackReason)."""
        reason = self._limits.kept_back(job)
        if self._ads.text(job, "KeptBackReason") != (reason or ""):
            self._ads.set(job.key, {"KeptBackReason": reason})
        return reason is None

    def _ad(self, request: Request) -> ClassAd:
        ad = self._ads.ad(request.first)
        room = self._limits.room_of(request.first.cluster)
        ad.update(
            {
                "ResourceRequestCount": request.count if room is None else min(request.count, room),
                "AutoClusterId": request.autocluster,
                "Submitter": request.submitter,
                "FirstJobId": request.first.key,
                "JobPrio": -request.first.priority[2],
            }
        )
        self._limits.constrain(request.first, ad)
        self._refusals.constrain(ad, (request.autocluster, request.first.key), self._clock.monotonic())
        return ad

    # ---- submitters

    def submitter_ads(self) -> dict[str, Changes]:
        """One ad for each submitter that has jobs here, by ``Name#ScheddName``."""
        self.assign()  # what idle jobs weigh is known by autocluster
        rows: dict[str, Changes] = {}
        weights: dict[str, float] = {}
        running: Counter[str] = Counter()
        for run in self._claim_table.runs.values():
            weight = self._ads.value_of(run.claim.slot, "SlotWeight")
            amount = float(weight) if isinstance(weight, (int, float)) else 1.0
            running[run.job.submitter] += 1
            weights[run.job.submitter] = weights.get(run.job.submitter, 0.0) + amount
        for name in self._queue.submitted:
            rows[f"{name}#{self._name}"] = {
                **self._submitter_ad(name, self._queue.runnable.count(name), self._idle_weight(name)),
                "RunningJobs": running[name],
                "HeldJobs": self._queue.held.get(name, 0),
                "WeightedRunningJobs": weights.get(name, 0.0),
                "MatchedJobs": reserved(self._claim_table.pending.values(), name),
                **self.counts_here(name),
            }
        if self.dedicated is not None and (idle := self.dedicated.idle_count()):
            # What runs is its users': they are charged for it.
            name = self.dedicated.name
            rows[f"{name}#{self._name}"] = self._submitter_ad(name, idle, float(idle))
        return rows

    def _submitter_ad(self, name: str, idle: int, idle_weight: float) -> Changes:
        """What the ad of a submitter without running jobs has."""
        return {
            "MyType": "Submitter",
            "Name": name,
            "ScheddName": self._name,
            "Machine": self._host,
            "ScheddIpAddr": self._address,
            "MyAddress": self._address,
            "RunningJobs": 0,
            "IdleJobs": idle,
            "HeldJobs": 0,
            "WeightedRunningJobs": 0.0,
            "WeightedIdleJobs": idle_weight,
            "FlockedJobs": 0,
            "MatchedJobs": 0,
            "SubmitterTag": "",
        }

    def _idle_weight(self, submitter: str) -> float:
        """Idle jobs weighed by what they ask for: Cpus (the default slot weight) of each request."""
        total = 0.0
        for bucket, first in self._queue.runnable.ordered(submitter):
            cpus = self._ads.number(first, "RequestCpus", 1)
            total += len(bucket.members) * (cpus or 1)
        return total


def _holds(constraint: str, ad: ClassAd, now: float) -> bool:
    return ExprTree(constraint).eval(ad, now=int(now)) is True
