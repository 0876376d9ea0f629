"""Takes submissions into the queue: ids, limits, one transaction for all of a submission, events of submission."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

from slotwise.classad import ClassAd
from slotwise.classad.values import Value as AdValue
from slotwise.clock import Clock
from slotwise.daemon.accounts import refused_uid
from slotwise.errors import DeniedError, HostError, SlotwiseError, UsageError
from slotwise.model import job_events as events
from slotwise.model.ownership import LocalDomains, owner_of
from slotwise.schedd.jobs.ads import FreshAds, JobAds, fresh_ads, native
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision, LogLine
from slotwise.schedd.jobs.factory import asked_for
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.log_lines import jobs_of
from slotwise.schedd.jobs.protected_attrs import AttributeLocks
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes, encode, literal
from slotwise.schedd.storage.batch import Reservation
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch, StoredCluster, StoredFactory
from slotwise.schedd.submission import new_cluster
from slotwise.schedd.submission.byte_limits import ByteLimits
from slotwise.schedd.submission.new_cluster import NewJobs, NewJobSettings, SubmittedCluster
from slotwise.schedd.submission.reserved_ids import ReservedClusters, check_number
from slotwise.schedd.submission.rules import SubmitRules
from slotwise.schedd.user_files import proxies
from slotwise.schedd.users.records import UserRecords
from slotwise.schedd.users.superusers import SuperUsers
from slotwise.table import pack_ads
from slotwise.wire import audit

_log = logging.getLogger(__name__)
_CLUSTERS_IN_LINE = 50


@dataclass(frozen=True)
class AdmissionSettings:
    """The knobs that submissions are checked against."""

    schedd_name: str
    host: str
    domains: LocalDomains
    version: str = ""
    platform: str = ""
    jobs_most: int = (1 << 31) - 1
    jobs_per_owner_most: int = 100_000
    jobs_per_submission_most: int = 20_000
    #: The account of owners without one on this host.
    fallback_account: str = "nobody"
    #: Accounts with lower uids own no jobs.
    least_uid: int = 0
    superusers: SuperUsers = field(default_factory=SuperUsers)
    rules: SubmitRules = field(default_factory=SubmitRules)
    locks: AttributeLocks = field(default_factory=AttributeLocks)

    @property
    def new_jobs(self) -> NewJobSettings:
        """The settings that go into every job."""
        return NewJobSettings(self.schedd_name, self.domains, self.version, self.platform, self.locks)


class QueuedCluster(NamedTuple):
    """A cluster that was queued: its id, and the number of its jobs, whose procs start at 0."""

    cluster_id: int
    num_procs: int


class SubmitResult(NamedTuple):
    """The answer to a submission that was queued."""

    clusters: tuple[QueuedCluster, ...]
    warnings: tuple[str, ...] = ()


@dataclass
class Submission:
    """A submission that was checked and has its ids: queued as a whole or not at all."""

    #: ``user@domain``.
    user: str
    clusters: list[NewJobs]
    #: Identifies it should it be sent again; empty: it never is.
    key: bytes = b""
    #: The address it came from.
    peer: str = ""
    #: Who sent it: the user, or a queue superuser.
    sender: str = ""

    @property
    def count(self) -> int:
        """Jobs of all its clusters."""
        return sum(len(new.jobs) for new in self.clusters)

    @property
    def brings_work(self) -> bool:
        """Whether any of its jobs may start, now or once it is materialized."""
        return any(new.parts or any(job.status == Status.IDLE for job in new.jobs) for new in self.clusters)

    @cached_property
    def result(self) -> SubmitResult:
        """The answer to the caller."""
        return SubmitResult(
            tuple(QueuedCluster(new.cluster.number, new.cluster.next_proc) for new in self.clusters),
            tuple(dict.fromkeys(text for new in self.clusters for text in new.warnings)),
        )


#: The longest key of a submission, in bytes.
_KEY_MOST = 64
#: A submission after its check: itself, why it is refused, or the answer that it got before.
Checked = Submission | SlotwiseError | SubmitResult


@dataclass
class Underway:
    """Submissions that are being committed together. They are queued whether or not anyone waits for them."""

    submissions: list[Submission]
    #: Whether they have entries in event logs.
    logged: bool
    durable: asyncio.Future[None]
    #: The commits of each alone, after they were refused together.
    alone: list[Underway] = field(default_factory=list)


class SubmitTransactions:
    """Takes submissions into the queue."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        settings: AdmissionSettings,
        next_cluster: int,
        *,
        reserved: ReservedClusters,
        recall: Callable[[str, bytes], SubmitResult | None],
        to_bytes: Callable[[SubmitResult], bytes],
        own_ad: Callable[[], ClassAd] = ClassAd,
        users: UserRecords | None = None,
    ) -> None:
        """
        :param recall: the result of the submission with a key of a user, or None; called in a thread.
        :param to_bytes: the form in which the store keeps a result.
        :param own_ad: the schedd's ad, for submit requirements.
        """
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self.settings = settings
        self._next = next_cluster
        self._reserved = reserved
        self._recall = recall
        self._to_bytes = to_bytes
        self._own_ad = own_ad
        self.users = users or UserRecords()
        #: Bytes of submissions that have arrived and are not queued yet.
        self.intake = ByteLimits()
        #: Submissions with keys that are being committed.
        self._keys: dict[tuple[str, bytes], asyncio.Event] = {}
        #: Jobs that are being committed, by owner: limits count them.
        self._underway: dict[str, int] = {}
        #: Called with a new cluster that has a factory.
        self.on_factory: Callable[[NewJobs], None] = lambda new: None

    async def reserve(self, owner: str, count: int) -> int:
        """Reserve ``count`` cluster ids; returns the first.

        :raises UsageError: for a number that is never allowed, DeniedError when ``owner`` has too many unused ones.
        """
        now, first = int(self._clock.now()), self._next
        self._reserved.check(owner, count, first, now)
        self._next += count
        ids = Reservation(first, count, now, owner)
        self._reserved.keep([ids])
        batch = Batch()
        batch.raise_counter(self._next)
        batch.reserve(ids)
        await self._committer.commit(Decision(self._clock.now()), batch, may_fail=True)
        return first

    # ---- one submission, or many

    async def earlier(self, user: str, key: bytes) -> SubmitResult | None:
        """The answer that a submission got before; None when it was never queued."""
        if (underway := self._keys.get((user, key))) is not None:
            await underway.wait()
        return await asyncio.to_thread(self._recall, user, key)

    async def submit(
        self,
        user: str,
        clusters: Sequence[SubmittedCluster],
        *,
        key: bytes = b"",
        again: bool = False,
        peer: str = "",
    ) -> SubmitResult:
        """Queue all of the clusters, or none.

        :param again: it may have been sent before, with the same key; then it is not queued a second time.
        :raises UsageError: for a submission that is not valid, DeniedError over a limit, HostError on a full disk.
        """
        if again and (result := await self.earlier(user, key)) is not None:
            return result
        await self.read_proxies(user, clusters)
        submission = self.check(user, clusters, key=key, peer=peer)
        await self._arrival(self.begin([submission]))
        return submission.result

    async def read_proxies(self, user: str, clusters: Sequence[SubmittedCluster]) -> None:
        """Read the proxies of a submission, before it is checked.

        :raises UsageError: for a cluster that is not valid.
        """
        for cluster in clusters:
            if b"x509userproxy" in cluster.cluster_ad.lower():
                path = proxies.proxy_of(new_cluster.submitted_ad(cluster.cluster_ad))
                if path:
                    owner = self._user_of(user, [cluster])
                    account, fallback = self.settings.domains.account_of(owner), self.settings.fallback_account
                    cluster.proxy_attributes = await asyncio.to_thread(proxies.read, path, account, fallback)

    async def answers(self, checked: Sequence[Checked], underway: Underway) -> list[SubmitResult | SlotwiseError]:
        """The answer to each submission, in order, once those ``underway`` are durable or refused.

        Errors and earlier answers stay as they are.
        """
        refused: dict[int, SlotwiseError] = {}
        try:
            await self._arrival(underway)
        except HostError as error:
            refused = {id(one): error for one in underway.submissions}
            for alone in underway.alone:
                with contextlib.suppress(HostError):
                    await self._arrival(alone)
                    del refused[id(alone.submissions[0])]
        return [each if not isinstance(each, Submission) else refused.get(id(each)) or each.result for each in checked]

    def check(
        self,
        user: str,
        clusters: Sequence[SubmittedCluster],
        *,
        key: bytes = b"",
        peer: str = "",
    ) -> Submission:
        """Check a submission and give it its ids; :meth:`begin` queues it.

        :raises UsageError: for a submission that is not valid, DeniedError over a limit.
        """
        if not clusters:
            raise UsageError("the submission has no cluster")
        sender, user = user, self._user_of(user, clusters)
        account = self.settings.domains.account_of(user)
        if (uid := refused_uid(account, self.settings.least_uid)) is not None:
            raise DeniedError(
                f"jobs of {account} are refused: its uid {uid} is below SLOTWISE_MIN_UID ({self.settings.least_uid})",
                hint="submit as another user; where root is the only user, as in a container, SLOTWISE_MIN_UID = 0",
            )
        self.users.check(user)
        if len(key) > _KEY_MOST:
            raise UsageError(f"the submission's key has {len(key)} bytes", hint=f"at most {_KEY_MOST}")
        now = int(self._clock.now())
        ads = self._check_limits(user, clusters)
        built = [self._new_jobs(user, sender, cluster, ad, now) for cluster, ad in zip(clusters, ads, strict=True)]
        submission = Submission(user, built, key, peer, sender)
        if user != sender:
            audit.note("as jobs of %s", user)
        self._underway[user] = self._underway.get(user, 0) + submission.count
        if key:
            self._keys[sender, key] = asyncio.Event()
        return submission

    def _user_of(self, caller: str, clusters: Sequence[SubmittedCluster]) -> str:
        """The user of the jobs: the caller, or the user whom a queue superuser names as Owner.

        :raises DeniedError: when the caller may submit no jobs of that user.
        """
        had_jobs = self._queue.owned.__contains__
        users = set()
        for cluster in clusters:
            named = None
            if b"owner" in cluster.cluster_ad.lower():
                named = new_cluster.submitted_ad(cluster.cluster_ad).get("Owner")
            is_named = isinstance(named, str) and named
            users.add(self.settings.superusers.user_for(caller, str(named), had_jobs) if is_named else caller)
        if len(users) > 1:
            raise UsageError("the clusters of one submission have several owners", hint="submit them one after another")
        return users.pop()

    def _new_jobs(self, user: str, sender: str, sent: SubmittedCluster, submitted: ClassAd, now: int) -> NewJobs:
        wanted = sent.cluster_id
        number = partial(self._number, sender, wanted, now)
        new = new_cluster.build(user, sent, submitted, number, now, self.settings.new_jobs)
        self.keep_rules(new, now, late=False)
        return new

    def keep_rules(self, new: NewJobs, now: int, *, late: bool) -> None:
        """Apply the administrator's rules to new jobs; ``late``: to a factory's.

        :raises DeniedError: when they are refused.
        """
        rules = self.settings.rules
        if not rules:
            return
        keep = rules.materialized if late else rules.admit
        new.warnings, problems = keep(new, self._own_ad(), now, secrets.randbits(63))
        for problem in problems:
            _log.warning("cluster %d: a statement of a job transform has no effect: %s", new.cluster.number, problem)

    def _number(self, user: str, wanted: int, now: int) -> int:
        if wanted:
            self._reserved.take(user, wanted, now)
            return wanted
        number = self._next
        check_number(number)
        self._next += 1
        return number

    def has_jobs(self, user: str) -> bool:
        """Whether the user has jobs or factories in the queue, or ones that are being committed."""
        if self._queue.owned.get(user) or self._underway.get(user):
            return True
        return any(cluster.user == user for cluster in self._queue.clusters.values())

    # ---- limits

    def _check_limits(self, user: str, clusters: Sequence[SubmittedCluster]) -> list[ClassAd]:
        """Check the limits before any job is built; returns the clusters' ads.

        As in HTCondor, jobs that are materialized late count when they are materialized. A cluster without jobs counts
        as one: otherwise a user could have any number of clusters.
        """
        limits = self.settings
        if len(clusters) > limits.jobs_per_submission_most:
            raise _exceeded("MAX_JOBS_PER_SUBMISSION", limits.jobs_per_submission_most, f"{len(clusters)} clusters")
        ads = [new_cluster.submitted_ad(cluster.cluster_ad) for cluster in clusters]
        wanted = late = 0
        for cluster, ad in zip(clusters, ads, strict=True):
            count = cluster.announced()
            if asked_for(ad, count) is None:
                wanted += count
            else:
                late += 1
        if wanted > limits.jobs_per_submission_most:
            raise _exceeded("MAX_JOBS_PER_SUBMISSION", limits.jobs_per_submission_most, f"{wanted} jobs")
        wanted += late
        there = sum(self._queue.counts()) + sum(self._underway.values())
        if there + wanted > limits.jobs_most:
            raise _exceeded("MAX_JOBS_SUBMITTED", limits.jobs_most, f"{there} jobs and {wanted} more")
        own = self._queue.owned.get(user, 0) + self._underway.get(user, 0)
        if late:
            own += sum(1 for each in self._queue.clusters.values() if each.user == user and not each.jobs)
        if own + wanted > limits.jobs_per_owner_most:
            there_are = f"{own} of {owner_of(user)} and {wanted} more"
            raise _exceeded("MAX_JOBS_PER_OWNER", limits.jobs_per_owner_most, there_are)
        return ads

    # ---- durable, then in memory

    def begin(self, submissions: Sequence[Submission]) -> Underway:
        """Commit checked submissions in one transaction; when that is refused, each in its own."""
        decision, batch = Decision(self._clock.now()), Batch()
        for submission in submissions:
            self.users.submits(submission.user)
            batch.know_user(submission.user)
            for new in submission.clusters:
                self._cluster_rows(new, batch, decision)
            if submission.key:
                kept = self._to_bytes(submission.result)
                batch.remember(submission.sender, submission.key, int(decision.now), kept)
        entering: list[tuple[NewJobs, FreshAds | None]] = []

        def on_committed(error: HostError | None) -> None:
            if error is not None and len(underway.submissions) > 1:
                underway.alone = [self.begin([submission]) for submission in submissions]
            else:
                self._arrived(underway.submissions, entering if error is None else [])

        durable = self._committer.commit(decision, batch, may_fail=True, on_committed=on_committed)
        underway = Underway(list(submissions), bool(decision.entries), durable)
        # While the disk works.
        entering += [(new, self._fresh(new)) for submission in submissions for new in submission.clusters]
        return underway

    async def _arrival(self, underway: Underway) -> None:
        await underway.durable
        if underway.logged:
            # So that a client that submits and then follows the log finds the entry of the submission in it.
            await self._committer.logs_written()

    def _arrived(self, submissions: Sequence[Submission], entering: Sequence[tuple[NewJobs, FreshAds | None]]) -> None:
        """Let submissions into the queue that are durable; those that were refused stay out."""
        try:
            for submission in submissions if entering else ():
                for line in submitted(submission):
                    _log.info(*line)
            for new, fresh in entering:
                self._enter(new, fresh)
                if new.parts:
                    self.on_factory(new)
            if entering and any(one.brings_work for one in submissions):
                self._committer.tell_new_work()
        finally:
            for submission in submissions:
                self._settled(submission)

    def _settled(self, submission: Submission) -> None:
        if (underway := self._keys.pop((submission.sender, submission.key), None)) is not None:
            underway.set()
        left = self._underway.get(submission.user, 0) - submission.count
        if left > 0:
            self._underway[submission.user] = left
        else:
            self._underway.pop(submission.user, None)

    def _cluster_rows(self, new: NewJobs, batch: Batch, decision: Decision) -> None:
        cluster, factory = new.cluster, new.cluster.factory
        batch.insert_cluster(
            StoredCluster(
                cluster.number, cluster.owner, cluster.qdate, cluster.next_proc, new.pack, encode(cluster.common)
            )
        )
        if factory is not None:
            row = StoredFactory(cluster.number, factory.total, 0, factory.limit, factory.max_idle, factory.paused)
            batch.insert_factory(row, new.parts)
            whole = self._queue.whole(cluster)
            frame = self._queue.frame(whole, decision.now)
            decision.log(whole, events.cluster_submitted(frame, self.settings.host, *_notes(new.submitted)))
        self.job_rows(new, batch, decision)

    def job_rows(self, new: NewJobs, batch: Batch, decision: Decision) -> None:
        """Put the rows and log entries of new jobs into a batch and a decision."""
        if not new.jobs:
            return
        number = new.cluster.number
        packs: list[bytes | None] = (
            [pack_ads([delta]) if len(delta) else None for delta in new.deltas]
            if new.deltas is not None
            else [None] * len(new.jobs)
        )
        first = new.jobs[0].changes
        text = encode(first) if first else None  # nearly always one for all
        batch.insert_jobs(
            [
                (number, job.proc, job.status, pack, _changes_text(job.changes, first, text))
                for job, pack in zip(new.jobs, packs, strict=True)
            ]
        )
        self._log_submission(new, decision)

    def _log_submission(self, new: NewJobs, decision: Decision) -> None:
        everyone = self._committer.global_log is not None
        logged = [(nth, job) for nth, job in enumerate(new.jobs) if job.is_logged or everyone]
        if not logged:
            return
        host = self.settings.host
        shared = _notes(new.submitted)
        for nth, job in logged:
            delta = None if new.deltas is None else new.deltas[nth]
            differs = delta is not None and any(name in delta for name in _IN_NOTES)
            log_notes, user_notes = _notes(new.submitted, delta) if differs else shared
            frame = self._queue.frame(job, decision.now)
            # As in HTCondor, the log of a job that is submitted on hold does not mention the hold.
            decision.log(job, events.submitted(frame, host, log_notes, user_notes, "; ".join(new.warnings)))

    def enter(self, new: NewJobs) -> None:
        """Let new jobs into the queue that are durable."""
        self._enter(new, self._fresh(new))

    def _fresh(self, new: NewJobs) -> FreshAds | None:
        if not new.jobs:
            return None
        return fresh_ads(
            new.cluster,
            new.submitted,
            [job.proc for job in new.jobs],
            new.delta_pack or None,
            {"GlobalJobId": new.globals, **_columns(new.jobs)},
            dollars=b"$$(" in new.pack or b"$$(" in new.delta_pack,
        )

    def _enter(self, new: NewJobs, fresh: FreshAds | None) -> None:
        if fresh is not None:
            self._ads.insert(fresh)
        if len({id(job.changes) for job in new.jobs}) > 1:
            for job in new.jobs:
                if job.changes:
                    self._ads.set(job.key, job.changes)
        self._queue.admit(new.cluster, new.jobs)


def _exceeded(knob: str, limit: int, what: str) -> DeniedError:
    return DeniedError(f"Number of submitted jobs would exceed {knob} ({limit}): {what}")


def submitted(submission: Submission) -> Iterator[LogLine]:
    """The log lines about a submission that is durable: one for many clusters, however many jobs they have."""
    clusters = [jobs_of(new.cluster) for new in submission.clusters]
    user, peer = submission.clusters[0].cluster.user, submission.peer or "an unknown address"
    for first in range(0, len(clusters), _CLUSTERS_IN_LINE):
        names = ", ".join(clusters[first : first + _CLUSTERS_IN_LINE])
        yield ("%s: submitted by %s from %s", names, user, peer)


#: What the notes of a submit event are made of.
_IN_NOTES = ("SubmitEventNotes", "SubmitEventUserNotes", "DAGNodeName", "JobBatchName")


def _notes(shared: ClassAd, delta: ClassAd | None = None) -> tuple[str, str]:
    """The two notes of the submit event of a job: what its cluster's ad says unless its own, ``delta``, says otherwise."""
    values = [(shared if delta is None or name not in delta else delta).get(name) for name in _IN_NOTES]
    log_notes, user_notes, *told = (value if isinstance(value, str) else "" for value in values)
    fields = [f"{name} = {literal(value)}" for name, value in zip(_IN_NOTES[2:], told, strict=True) if value]
    if fields:  # they take the place of the notes, as in HTCondor; condor_dagman finds its node by the first
        log_notes = f"[ {'; '.join(fields)} ]"
    return log_notes, user_notes


def _changes_text(changes: Changes | None, known: Changes | None, text: str | None) -> str | None:
    if not changes:
        return None
    return text if changes is known else encode(changes)


def _columns(jobs: Sequence[Job]) -> dict[str, list[AdValue]]:
    """Attributes in which new jobs differ from their cluster's ad, as columns over all of them."""
    changes = jobs[0].changes
    if any(job.changes is not changes for job in jobs):
        return {"JobStatus": [job.status for job in jobs]}
    return {name: [value] * len(jobs) for name, value in native(changes or {}).items()}


__all__ = [
    "AdmissionSettings",
    "Checked",
    "QueuedCluster",
    "Submission",
    "SubmitResult",
    "SubmitTransactions",
    "Underway",
]
