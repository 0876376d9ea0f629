"""Takes submissions into the queue: ids, the attributes that only the schedd gives, limits, one transaction for all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.errors import DeniedError, UsageError
from slotwise.schedd import events
from slotwise.schedd.ads import JobAds, native
from slotwise.schedd.codes import HOLD_NAMES, Hold, Status
from slotwise.schedd.decision import Decision
from slotwise.schedd.job import Cluster, Job, Priority
from slotwise.schedd.ledger import Ledger
from slotwise.schedd.queue import Queue
from slotwise.schedd.store import Batch, StoredCluster
from slotwise.schedd.values import Changes, Expr, encode
from slotwise.table import pack_ads, unpack_ads
from slotwise.wire.gen import schedd_pb2

_PRIORITIES = ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2")
_VANILLA = 5
_UNIVERSES = {1: "standard", 7: "scheduler", 9: "grid", 10: "java", 11: "parallel", 12: "local", 13: "vm"}
_COUNTERS: Changes = {
    "NumJobStarts": 0,
    "NumJobCompletions": 0,
    "NumShadowStarts": 0,
    "NumJobMatches": 0,
    "NumHolds": 0,
    "NumVacates": 0,
    "NumSystemHolds": 0,
    "CurrentHosts": 0,
    "MinHosts": 1,
    "MaxHosts": 1,
    "RemoteWallClockTime": 0.0,
    "RemoteUserCpu": 0.0,
    "RemoteSysCpu": 0.0,
    "CumulativeRemoteUserCpu": 0.0,
    "CumulativeRemoteSysCpu": 0.0,
    "CumulativeSuspensionTime": 0,
    "TotalSuspensions": 0,
    "CommittedTime": 0,
    "CommittedSuspensionTime": 0,
    "CompletionDate": 0,
    "ExitStatus": 0,
    "LastJobStatus": 0,
    "JobStatus": int(Status.IDLE),
}


@dataclass(frozen=True)
class AdmissionSettings:
    """Knobs of admission."""

    schedd_name: str
    host: str
    uid_domain: str
    version: str = ""
    platform: str = ""
    jobs_most: int = 1 << 31
    jobs_per_owner_most: int = 100_000
    jobs_per_submission_most: int = 20_000


@dataclass
class _Draft:
    """A cluster on its way in."""

    cluster: Cluster
    submitted: ClassAd
    jobs: list[Job]
    deltas: Sequence[ClassAd] | None
    pack: bytes
    delta_pack: bytes
    globals: list[str]


class Admission:
    """Takes submissions."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        ledger: Ledger,
        clock: Clock,
        settings: AdmissionSettings,
        next_cluster: int,
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._ledger = ledger
        self._clock = clock
        self.settings = settings
        self._next = next_cluster
        self._reserved: set[int] = set()

    async def reserve(self, count: int) -> int:
        """The first of ``count`` cluster ids that nobody else gets."""
        if not 1 <= count <= 10_000:
            raise UsageError(f"cannot reserve {count} cluster ids", hint="ask for 1 to 10000")
        first = self._next
        self._next += count
        self._reserved.update(range(first, first + count))
        batch = Batch()
        batch.raise_counter(self._next)
        await self._ledger.commit(Decision(self._clock.now()), batch, may_fail=True)
        return first

    async def submit(
        self, owner: str, clusters: Sequence[schedd_pb2.ClusterSubmission], *, superuser: bool = False
    ) -> schedd_pb2.SubmitReply:
        """Queue all of the clusters, or none.

        :raises UsageError: for a submission that makes no sense, DeniedError over a limit, HostError on a full disk.
        """
        now = self._clock.now()
        drafts = [self._draft(owner, cluster, now) for cluster in clusters]
        self._check_limits(owner, drafts, superuser)
        decision, batch = Decision(now), Batch()
        for draft in drafts:
            self._rows(draft, batch, decision)
        await self._ledger.commit(decision, batch, may_fail=True)
        reply = schedd_pb2.SubmitReply()
        for draft in drafts:
            self._enter(draft)
            reply.clusters.add(cluster_id=draft.cluster.number, first_proc=0, num_procs=len(draft.jobs))
        if self._ledger.on_new_work:
            self._ledger.on_new_work()
        return reply

    # ---- building

    def _draft(self, owner: str, sent: schedd_pb2.ClusterSubmission, now: float) -> _Draft:
        ads = unpack_ads(sent.cluster_ad)
        if len(ads) != 1:
            raise UsageError(f"a cluster needs one ad, {len(ads)} came")
        submitted = ads[0]
        count = sent.procs.count
        deltas = unpack_ads(sent.procs.deltas) if sent.procs.deltas else None
        if deltas is not None:
            if count and count != len(deltas):
                raise UsageError(f"{count} procs were announced, {len(deltas)} came")
            count = len(deltas)
        if count < 1:
            raise UsageError("a cluster needs at least one proc")
        universe = submitted.get("JobUniverse", _VANILLA)
        if universe != _VANILLA:
            name = _UNIVERSES.get(universe, str(universe)) if isinstance(universe, int) else str(universe)
            raise UsageError(f"this access point runs no jobs of universe {name}", hint="use universe = vanilla")
        number = self._number(sent.cluster_id)
        cluster = self._cluster(owner, number, submitted, deltas, int(now))
        cluster.next_proc = count
        jobs = [Job(cluster, proc, Status.IDLE) for proc in range(count)]
        head, tail = f"{self.settings.schedd_name}#{number}.", f"#{int(now)}"
        draft = _Draft(
            cluster,
            submitted,
            jobs,
            deltas,
            bytes(sent.cluster_ad),
            bytes(sent.procs.deltas),
            [f"{head}{proc}{tail}" for proc in range(count)],
        )
        self._status(draft)
        self._each_job(draft)
        return draft

    def _number(self, wanted: int) -> int:
        if wanted:
            if wanted not in self._reserved:
                raise UsageError(f"cluster id {wanted} was not reserved", hint="leave it out")
            self._reserved.discard(wanted)
            return wanted
        number = self._next
        self._next += 1
        return number

    def _cluster(
        self, owner: str, number: int, submitted: ClassAd, deltas: Sequence[ClassAd] | None, now: int
    ) -> Cluster:
        domain = self.settings.uid_domain
        user = f"{owner}@{domain}"
        common: Changes = {
            name: value for name, value in _COUNTERS.items() if name not in submitted or name == "LastJobStatus"
        }
        common.update(
            ClusterId=number,
            Owner=owner,
            User=user,
            OsUser=owner,
            QDate=now,
            EnteredCurrentStatus=now,
            MyType="Job",
            TargetType="Machine",
        )
        for name, value in (
            ("CondorVersion", self.settings.version),
            ("CondorPlatform", self.settings.platform),
        ):
            if value and name not in submitted:
                common[name] = value
        cluster = Cluster(number, owner, user, self.submitter(owner, submitted), now, common)
        cluster.varied = frozenset(name.lower() for delta in deltas or () for name in delta)
        describe(cluster, submitted)
        return cluster

    def submitter(self, owner: str, ad: Any) -> str:
        """The accounting name of the jobs: AccountingGroup, else the owner, at the domain."""
        group = ad.get("AccountingGroup")
        name = group if isinstance(group, str) and group else owner
        if ad.get("NiceUser") is True and not name.startswith("nice-user."):
            name = f"nice-user.{name}"
        return name if "@" in name else f"{name}@{self.settings.uid_domain}"

    def _status(self, draft: _Draft) -> None:
        """Jobs submitted on hold begin held, with code 15."""
        held = draft.submitted.get("JobStatus") == Status.HELD
        code = draft.submitted.get("HoldReasonCode", int(Hold.SUBMITTED_ON_HOLD))
        name = HOLD_NAMES.get(int(code), "SubmittedOnHold")
        changes: Changes = {
            "JobStatus": int(Status.HELD),
            "HoldReason": draft.submitted.get("HoldReason") or "submitted on hold at user's request",
            "HoldReasonCode": int(code),
            "HoldReasonSubCode": 0,
            "NumHolds": 1,
            "NumHoldsByReason": Expr(f"[ {name} = 1 ]"),
        }
        deltas: list[ClassAd | None] = [*(draft.deltas or ())] or [None] * len(draft.jobs)
        for job, delta in zip(draft.jobs, deltas, strict=True):
            own = delta.get("JobStatus") if delta is not None and "JobStatus" in delta else None
            if own == Status.HELD or (held and own is None):
                job.status = Status.HELD
                job.changes = changes  # one for all: it is replaced, never changed

    def _each_job(self, draft: _Draft) -> None:
        """What the light records of jobs know when procs differ in it."""
        varied = draft.cluster.varied
        priorities = not varied.isdisjoint(name.lower() for name in _PRIORITIES)
        logs = not varied.isdisjoint(("userlog", "iwd"))
        groups = not varied.isdisjoint(("accountinggroup", "niceuser"))
        if not (priorities or logs or groups):
            return
        for job, delta in zip(draft.jobs, draft.deltas or (), strict=True):
            own = draft.submitted.copy()
            own.update(delta)
            if priorities:
                job.priority = priority_of(own)
            if logs:
                job.log = log_of(own)
            if groups:
                job.submitter = self.submitter(draft.cluster.owner, own)

    # ---- limits

    def _check_limits(self, owner: str, drafts: list[_Draft], superuser: bool) -> None:
        wanted = sum(len(draft.jobs) for draft in drafts)
        limits = self.settings
        largest = max((len(draft.jobs) for draft in drafts), default=0)
        if largest > limits.jobs_per_submission_most:
            raise DeniedError(
                f"{largest} jobs in one cluster are more than MAX_JOBS_PER_SUBMISSION"
                f" ({limits.jobs_per_submission_most})"
            )
        counts = self._queue.counts()
        if sum(counts) + wanted > limits.jobs_most:
            raise DeniedError(f"the queue would hold more than MAX_JOBS_SUBMITTED ({limits.jobs_most}) jobs")
        if superuser:
            return
        own = self._queue.owned.get(owner, 0)
        if own + wanted > limits.jobs_per_owner_most:
            raise DeniedError(f"{owner} would have more than MAX_JOBS_PER_OWNER ({limits.jobs_per_owner_most}) jobs")

    # ---- durable, then in memory

    def _rows(self, draft: _Draft, batch: Batch, decision: Decision) -> None:
        cluster = draft.cluster
        batch.insert_cluster(
            StoredCluster(
                cluster.number, cluster.owner, cluster.qdate, cluster.next_proc, draft.pack, encode(cluster.common)
            )
        )
        number = cluster.number
        packs: list[bytes | None] = (
            [pack_ads([delta]) if len(delta) else None for delta in draft.deltas]
            if draft.deltas is not None
            else [None] * len(draft.jobs)
        )
        held = next((job.changes for job in draft.jobs if job.changes), None)
        held_text = encode(held) if held else None
        batch.insert_jobs(
            [
                (number, job.proc, job.status, pack, held_text if job.changes else None)
                for job, pack in zip(draft.jobs, packs, strict=True)
            ]
        )
        self._log_submission(draft, decision)

    def _log_submission(self, draft: _Draft, decision: Decision) -> None:
        host = self.settings.host
        notes = [draft.submitted.get(name) for name in ("SubmitEventNotes", "SubmitEventUserNotes")]
        log_notes, user_notes = (note if isinstance(note, str) else "" for note in notes)
        everyone = self._ledger.global_log is not None
        for job in draft.jobs:
            if not (job.log or everyone):
                continue
            frame = self._queue.frame(job, decision.now)
            decision.log(job, events.submitted(frame, host, log_notes, user_notes))
            if job.status == Status.HELD and job.changes:
                reason, code = str(job.changes["HoldReason"]), job.changes["HoldReasonCode"]
                decision.log(job, events.held(frame, reason, int(code or 0), 0))

    def _enter(self, draft: _Draft) -> None:
        cluster = draft.cluster
        self._ads.insert(
            cluster,
            draft.submitted,
            [job.proc for job in draft.jobs],
            draft.delta_pack or None,
            {"GlobalJobId": draft.globals, **_held_columns(draft.jobs)},
        )
        if any(not job.changes for job in draft.jobs):
            for job in draft.jobs:
                if job.changes:
                    self._ads.set(job.key, job.changes)
        self._queue.admit(cluster, draft.jobs)


def _held_columns(jobs: Sequence[Job]) -> dict[str, list[Any]]:
    """Attributes of jobs that begin held, as columns over all of the cluster's jobs."""
    held = next((job.changes for job in jobs if job.changes), None)
    if held is None:
        return {}
    if any(not job.changes for job in jobs):
        return {"JobStatus": [job.status for job in jobs]}
    return {name: [value] * len(jobs) for name, value in native(held).items()}


def describe(cluster: Cluster, submitted: Any) -> None:
    """Fill in what the cluster's record takes from its ad."""
    name = submitted.get("JobBatchName")
    cluster.batch_name = name if isinstance(name, str) else ""
    cluster.command = command_of(submitted)
    cluster.log = log_of(submitted)
    cluster.priority = priority_of(submitted)


def command_of(ad: Any) -> str:
    """Base name of the executable, and the arguments."""
    command, arguments = ad.get("Cmd"), ad.get("Arguments") or ad.get("Args")
    text = os.path.basename(command) if isinstance(command, str) else ""
    return f"{text} {arguments}".rstrip() if isinstance(arguments, str) else text


def log_of(ad: Any) -> str:
    """Absolute path of the event log, or ""."""
    log, iwd = ad.get("UserLog"), ad.get("Iwd")
    if not isinstance(log, str) or log in ("", "/dev/null"):
        return ""
    return os.path.join(iwd if isinstance(iwd, str) else "/", log)


def priority_of(ad: Any) -> Priority:
    """The five priorities of a job, negated so that the best sorts first."""
    found = []
    for name in _PRIORITIES:
        value = ad.get(name)
        found.append(-int(value) if isinstance(value, (int, float)) else 0)
    return (found[0], found[1], found[2], found[3], found[4])


__all__ = ["Admission", "AdmissionSettings", "command_of", "describe", "log_of", "priority_of"]
