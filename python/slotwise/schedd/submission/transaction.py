"""Queues submissions: one transaction for all that came together, the events of submission, then the queue."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from slotwise.clock import Clock
from slotwise.errors import HostError, SlotwiseError
from slotwise.schedd.jobs.ads import FreshAds
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.from_ad import PROJECT
from slotwise.schedd.jobs.job_sets import JobSets
from slotwise.schedd.storage.batch import RecordKind
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch
from slotwise.schedd.submission.admission import Admission
from slotwise.schedd.submission.byte_limits import ByteLimits
from slotwise.schedd.submission.entry import QueueEntry
from slotwise.schedd.submission.new_cluster import NewJobs, SubmittedCluster
from slotwise.schedd.submission.new_rows import NewRows
from slotwise.schedd.submission.submissions import Checked, Submission, SubmitResult, submitted
from slotwise.schedd.submission.underway import UnderwaySubmissions
from slotwise.schedd.users.projects import ProjectRecords
from slotwise.schedd.users.records import UserRecords

_log = logging.getLogger(__name__)


class Underway(Struct):
    """Submissions that are being committed together. They are queued whether or not anyone waits for them."""

    submissions: list[Submission]
    #: Whether they have entries in event logs.
    logged: bool
    durable: asyncio.Future[None]
    #: The commits of each alone, after they were refused together.
    alone: list[Underway] = field(default_factory=list)


class SubmitTransactions:
    """Makes submissions durable, and lets them into the queue."""

    def __init__(
        self,
        committer: Committer,
        clock: Clock,
        *,
        admission: Admission,
        underway: UnderwaySubmissions,
        rows: NewRows,
        entry: QueueEntry,
        users: UserRecords,
        projects: ProjectRecords,
        job_sets: JobSets,
        recall: Callable[[str, bytes], SubmitResult | None],
        to_bytes: Callable[[SubmitResult], bytes],
    ) -> None:
        """
        :param recall: the result of the submission with a key of a user, or None; called in a thread.
        :param to_bytes: the form in which the store keeps a result.
        """
        self._committer = committer
        self._clock = clock
        self._admission = admission
        self._underway = underway
        self._rows = rows
        self._entry = entry
        self._users = users
        self._projects = projects
        self._recall = recall
        self._to_bytes = to_bytes
        self._job_sets = job_sets
        #: Bytes of submissions that have arrived and are not queued yet.
        self.intake = ByteLimits()
        #: Called with a new cluster that has a factory.
        self.on_factory: Callable[[NewJobs], None] = lambda new: None

    async def earlier(self, user: str, key: bytes) -> SubmitResult | None:
        """The answer that a submission got before; None when it was never queued."""
        await self._underway.settled(user, key)
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
        await self._admission.look_ahead(user, clusters)
        submission = self._admission.check(user, clusters, key=key, peer=peer)
        await self._arrival(self.begin([submission]))
        return submission.result

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

    def begin(self, submissions: Sequence[Submission]) -> Underway:
        """Commit checked submissions in one transaction; when that is refused, each in its own."""
        decision, batch = Decision(self._clock.now()), Batch()
        for submission in submissions:
            batch.know_record(RecordKind.USER, self._users.submits(submission.user).name)
            for new in submission.clusters:
                self._rows.cluster_rows(new, batch, decision)
                self._job_sets.store(new.cluster, batch)
                self._projects.enters(new.submitted.get(PROJECT), batch)
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
        entering += [(new, self._entry.prepare(new)) for submission in submissions for new in submission.clusters]
        return underway

    async def _arrival(self, underway: Underway) -> None:
        await underway.durable
        if underway.logged:
            # So that a client that submits and then follows the log finds the entry of the submission in it.
            await self._committer.logs_written()

    def _arrived(self, submissions: Sequence[Submission], entering: Sequence[tuple[NewJobs, FreshAds | None]]) -> None:
        """Let submissions into the queue that are durable; those that were refused stay out."""
        try:
            for submission in submissions if not entering else ():
                for new in submission.clusters:
                    self._job_sets.withdraw(new.cluster)
            for submission in submissions if entering else ():
                for line in submitted(submission):
                    _log.info(*line)
            for new, fresh in entering:
                self._job_sets.entered(new.cluster)
                self._entry.enter(new, fresh)
                if new.parts:
                    self.on_factory(new)
            if entering and any(one.brings_work for one in submissions):
                self._committer.tell_new_work()
        finally:
            for submission in submissions:
                self._underway.settle(submission)
