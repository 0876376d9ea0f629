"""Makes decisions durable, and then carries them out: the only way from a decision to the outside.

The order matters. A decision has changed memory already; one transaction takes its job rows, runs and planned log
texts; only after the commit are logs written, starters acknowledged and claims activated.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from datetime import datetime
from functools import partial
from typing import Protocol

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import attribute
from slotwise.daemon import tasks
from slotwise.daemon.containment import contained
from slotwise.errors import HostError
from slotwise.model.job_ad_information import ad_information
from slotwise.observe.log import log_all
from slotwise.observe.outage import Outage
from slotwise.schedd.jobs.codes import Universe
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Job, finite
from slotwise.schedd.jobs.values import Changes, Evaluate, encode
from slotwise.schedd.storage.store import Batch, OnCommitted, Store
from slotwise.schedd.userlog import writer
from slotwise.schedd.userlog.backlog import Backlog
from slotwise.schedd.userlog.global_log import GlobalLog
from slotwise.schedd.userlog.planned_text import Log, PlannedText
from slotwise.schedd.userlog.writer import LogFailure, LogSizes, Write, jobs_told_of
from slotwise.table import Allowance

_log = logging.getLogger(__name__)
_FLUSH_S = 1.0
#: Callers who wait for a commit are told after so many seconds that the disk takes nothing.
_REFUSED_S = 1.0
#: How long they wait for a disk that says nothing.
_PATIENCE_S = 10.0
#: Bytes of a transaction for an act, and for each job in it: pages of its tables, and the entry for its log.
_ROOM = 1 << 18
_ROOM_OF_JOB = 1 << 13
#: Beyond that the journal of the queue is written into the queue and used anew.
_MOST_ROOM = 1 << 25
#: The end of the year 9999, a cap on CompletionDate, which users can edit.
_LAST_DATE = 253_402_300_799
#: The longest wait for a log, in seconds: its file system may hang.
_LOG_WAIT_S = 5.0
#: Steps that the attributes may take that an event 028 tells of: the event loop is blocked meanwhile.
_INFORMATION_STEPS = 200_000


def _evaluated(ad: ClassAd, now: float, name: str) -> object:
    return attribute(ad, name, now=now)


class AdKeeper(Protocol):
    """Where the ads of the jobs live."""

    def set(self, key: str, changes: Changes) -> None:
        """Change attributes of the job."""
        ...

    def remove(self, key: str) -> None:
        """Forget the job."""
        ...

    def forget_cluster(self, number: int) -> None:
        """No job of the cluster is left."""
        ...

    def has(self, job: Job) -> bool:
        """Whether the job has an ad."""
        ...

    def evaluator(self, job: Job, overlay: Changes, now: float) -> Evaluate:
        """An evaluator of the job's attributes, with ``overlay`` over them."""
        ...


#: Called with the log that could not be written and the jobs that wait for it.
OnLogFailure = Callable[[LogFailure, list[Job]], None]
#: Called with jobs whose event logs have all that was told of them.
OnLogged = Callable[[list[Job]], None]


class Committer:
    """Commits decisions and writes their entries into event logs."""

    def __init__(
        self,
        store: Store,
        ads: AdKeeper,
        threads: Executor,
        *,
        next_planned: int,
        fallback_account: str = "nobody",
        on_kills: Callable[[Decision], None] | None = None,
    ) -> None:
        self._store = store
        self._ads = ads
        self._threads = threads
        self._next_planned = next_planned
        self._fallback = fallback_account
        #: Called at each attempt that fails.
        self.on_log_failure: OnLogFailure = lambda failure, jobs: None
        self.on_logged: OnLogged = lambda jobs: None
        self.on_kills = on_kills
        #: Called when there are jobs to start that the negotiator does not know of.
        self.on_new_work: Callable[[], None] | None = None
        #: Called after every commit: ads may have changed.
        self.on_change: Callable[[], None] = lambda: None
        #: Called with every decision that is durable.
        self.on_jobs: Callable[[Decision], None] = lambda decision: None
        #: Called with the jobs that left the queue, after their commit.
        self.on_retired: Callable[[list[Job]], None] = lambda jobs: None
        #: Called with a decision by which jobs or clusters leave the queue, before the commit; adds to the batch.
        self.on_left: Callable[[Decision, Batch], None] = lambda decision, batch: None
        #: Called with a decision's notices before the commit, while the jobs that leave have their ads; what it returns
        #: is called once the decision is durable.
        self.on_notices: Callable[[Decision], Callable[[], None] | None] = lambda decision: None
        self.sizes = LogSizes()
        #: What waits for logs that cannot be written.
        self.backlog = Backlog()
        #: EVENT_LOG, which gets the events of all jobs; None when not configured.
        self.global_log: GlobalLog | None = None
        #: EVENT_LOG_JOB_AD_INFORMATION_ATTRS: attributes of which it tells with each event.
        self.global_attrs: tuple[str, ...] = ()
        self._all_entries: list[str] = []
        self._last = 0.0
        self._ready: list[PlannedText] = []
        #: What is being written.
        self._in_hand: list[PlannedText] = []
        #: Numbers of texts that are in their logs for good, or given up: their plans are to be deleted.
        self._written: list[int] = []
        #: Those of texts that a power cut would take out of their logs, by log.
        self._unflushed: dict[Log, list[int]] = {}
        self._flushed_at = 0.0
        self._flush_outage = Outage(_log)
        #: ENABLE_USERLOG_FSYNC: logs are flushed as they are written, and not only before plans are deleted.
        self.flushes_logs = False
        self._jobs_of: dict[int, list[Job]] = {}
        #: Futures by the number of the planned text that must be in its log first.
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._last_ready = 0
        self._handled = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: The number of decisions with log entries that are not durable yet.
        self._uncommitted = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self, left: list[PlannedText], job_of: Callable[[str], Job | None] = lambda key: None) -> None:
        """Start writing logs, first the texts ``left`` that a former process planned.

        :param job_of: the job in the queue with a key, or None.
        """
        for text in left:
            self._await(text, [job for key in jobs_told_of(text.text) if (job := job_of(key)) is not None])
        self._in_hand = left
        self._task = tasks.keep("writing event logs", self._write_logs)

    async def close(self) -> None:
        """Write the texts that are ready, record that, and stop."""
        if self._task is not None:
            with contextlib.suppress(TimeoutError, HostError):  # the next start writes what is still planned
                async with asyncio.timeout(5.0):
                    await self._store.commit(Batch())  # returns after all earlier commits
                    await self._idle.wait()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            with contextlib.suppress(HostError):  # the next start finds them in the logs
                await self._delete_plans()

    def commit(
        self,
        decision: Decision,
        batch: Batch | None = None,
        *,
        may_fail: bool = False,
        on_committed: OnCommitted | None = None,
    ) -> asyncio.Future[None]:
        """Make ``decision`` and ``batch`` durable; done when both are.

        Logs, kills and observers follow, and last ``on_committed``, even when the caller that awaits this is
        cancelled: a client that disconnects reverts nothing.
        """
        whole = Batch()
        mail = self._mail(decision) if decision.notices else None
        told = self._information(decision)
        self._rows(decision, whole)
        waiting = self._plan(decision, told, whole)
        planned = [text for text, _ in waiting]
        self._with_written(whole)
        if batch is not None:
            whole.put_before(batch)
        try:
            # Before the commit: nothing that can fail is left once it is under way.
            for text, jobs in waiting:
                self._await(text, jobs)
            done = self._store.commit(
                whole, may_fail=may_fail, on_committed=partial(self._committed, decision, planned, mail, on_committed)
            )
        except BaseException:
            self._settled(text.seq for text in planned)
            raise
        decision.committed = True
        if planned:
            self._uncommitted += 1
            self._idle.clear()
        return done

    async def require_room(self, jobs: int, each: int = 0) -> None:
        """See that an act on so many jobs can be made durable, before anything of it is decided: what a user asks for
        is done or refused, and not left for later.

        :param each: bytes that the act adds to each of the jobs.
        :raises HostError: the disk has no room, takes nothing, or does not answer within 10 s.
        """
        size = min(_MOST_ROOM, _ROOM + jobs * (_ROOM_OF_JOB + each))
        asked = asyncio.to_thread(self._store.reserve, size)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await asked
        except TimeoutError:
            raise self._silent("nothing was done") from None

    def _silent(self, what: str) -> HostError:
        text = f"the disk of the job queue has not answered for {_PATIENCE_S:g} s: {what}"
        return HostError(text, hint="see what is wrong with the disk of SPOOL", path=str(self._store.path))

    async def durable(self, done: asyncio.Future[None]) -> None:
        """Wait for a commit on behalf of a caller, who is told when it has to wait for the disk.

        :raises HostError: nothing can be written for now; the decision stands, and is durable once that is over.
        """
        waited_s = 0.0
        while not done.done():
            await asyncio.wait((done,), timeout=_REFUSED_S)
            waited_s += _REFUSED_S
            refusal = self._store.refusal
            if refusal is None and waited_s >= _PATIENCE_S and not done.done():
                raise self._silent("what was asked for takes effect when it does")
            if refusal is not None and not done.done():
                message = f"{refusal.message}; what was asked for takes effect when it can be"
                raise HostError(message, hint=refusal.hint, path=refusal.path)
        await done

    def deciding(self, decision: Decision, batch: Batch | None = None) -> Deciding:
        """A context that commits the decision even when its block raises.

        By then, the jobs in memory have changed, and the store must follow.
        """
        return Deciding(self, decision, batch)

    def tell_new_work(self) -> None:
        """Jobs may start that could not before, without a decision that says so."""
        if self.on_new_work is not None:
            self.on_new_work()

    async def logs_written(self) -> None:
        """Wait until the entries of all decisions that are durable by now are in their logs, or wait for logs that
        cannot be written."""
        if self._handled >= self._last_ready:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((self._last_ready, waiter))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOG_WAIT_S):
                await waiter

    def _mail(self, decision: Decision) -> Callable[[], None] | None:
        with contained(_log, "composing mails"):
            return self.on_notices(decision)
        return None

    def _rows(self, decision: Decision, batch: Batch) -> None:
        retired = set(decision.retired)
        for job, changes in decision.changed.items():
            if job not in retired:
                self._ads.set(job.key, changes)
                batch.update_job(job.cluster.number, job.proc, job.status, encode(job.changes or {}))
        for cluster in decision.factories:
            if (factory := cluster.factory) is not None:
                batch.set_factory(cluster.number, factory.limit, factory.max_idle, factory.paused)
        for cluster in decision.closed:
            batch.delete_factory(cluster.number)
        for job in decision.runs_over:
            if job.run:
                continue  # its next run has taken the row over, on the same claim
            if job.cluster.universe == Universe.PARALLEL:
                if not any(other.run for other in job.cluster.jobs.values()):
                    batch.delete_nodes(job.cluster.number)
            else:
                batch.delete_run(job.cluster.number, job.proc)
        if decision.retired or decision.closed:
            self.on_left(decision, batch)
        for job in decision.retired:
            changes = job.changes or {}
            completed = finite(changes.get("CompletionDate"), decision.now)
            batch.retire_job(
                job.cluster.number,
                job.proc,
                job.owner,
                job.status,
                int(max(0, min(_LAST_DATE, completed))),
                encode(changes),
            )
            self._ads.remove(job.key)
            if not job.cluster.jobs:
                self._ads.forget_cluster(job.cluster.number)

    def _information(self, decision: Decision) -> dict[int, tuple[str, str]]:
        """What follows an entry, by its place in the decision, in its job's own log, and in the access point's: event
        028, where attributes of the job were asked for. Before jobs that leave lose their ads."""
        of_all = self.global_attrs if self.global_log is not None else ()
        found: dict[int, tuple[str, str]] = {}
        year = datetime.fromtimestamp(decision.now).year
        for place, (job, entry) in enumerate(decision.entries):
            if not (job.cluster.told_attrs or of_all):
                continue
            if (ad := decision.new_ads.get(job)) is not None:
                value: Evaluate = partial(_evaluated, ad, decision.now)
            elif self._ads.has(job):
                value = self._ads.evaluator(job, job.changes or {}, decision.now)
            else:
                continue
            texts = []
            for names in (job.cluster.told_attrs, of_all):
                with Allowance(_INFORMATION_STEPS) as used:
                    values = [(name, value(name)) for name in names]
                if used.broken or used.exhausted:
                    _log.warning(
                        "%s: event 028 lacks attributes that take more than %d steps to evaluate",
                        job.key,
                        _INFORMATION_STEPS,
                    )
                chosen = {name: each for name, each in values if isinstance(each, bool | int | float | str)}
                texts.append(ad_information(entry, chosen, year) if names else "")
            found[place] = texts[0], texts[1]
        return found

    def _plan(
        self, decision: Decision, told: Mapping[int, tuple[str, str]], batch: Batch
    ) -> list[tuple[PlannedText, list[Job]]]:
        """One planned text for each log, the entries in order, and the jobs that they tell of."""
        logs: dict[tuple[str, str], list[str]] = {}
        jobs: dict[tuple[str, str], list[Job]] = {}
        of_all: list[str] = []
        for place, (job, entry) in enumerate(decision.entries):
            information = told.get(place, ("", ""))
            of_all += (entry, information[1])
            for path in job.logs_of(entry):
                log = (path, job.account)
                # The log of a DAG's nodes has the events alone.
                logs.setdefault(log, []).append(entry + information[0] if path == job.log else entry)
                jobs.setdefault(log, []).append(job)
        decision.global_text = "".join(of_all) if self.global_log is not None else ""
        planned = []
        for (path, owner), entries in logs.items():
            text = PlannedText(self._next_planned, path, owner, self.sizes.offset(path), "".join(entries))
            self._next_planned += 1
            batch.plan(text)
            planned.append((text, jobs[(path, owner)]))
        return planned

    def _await(self, text: PlannedText, jobs: list[Job]) -> None:
        """The jobs wait until the text is in its log."""
        self._jobs_of[text.seq] = jobs
        for job in jobs:
            job.unlogged += 1

    def _settled(self, seqs: Iterable[int]) -> list[Job]:
        """Nothing waits for these texts any more; returns the jobs for which nothing else is to be written either."""
        told = [job for seq in seqs for job in self._jobs_of.pop(seq, ())]
        for job in told:
            job.unlogged -= 1
        return [job for job in dict.fromkeys(told) if not job.unlogged]

    def _with_written(self, batch: Batch) -> Batch:
        if self._written:
            batch.written(self._written)
            self._written = []
        return batch

    def _committed(
        self,
        decision: Decision,
        planned: list[PlannedText],
        mail: Callable[[], None] | None,
        on_committed: OnCommitted | None,
        error: HostError | None,
    ) -> None:
        self._uncommitted -= bool(planned)
        if error is None:
            with contained(_log, "acting on a commit"):
                self._follow(decision, planned)
            if mail is not None:
                with contained(_log, "posting mails"):
                    mail()
        else:
            self._settled(text.seq for text in planned)
            self._wake.set()
        if on_committed is not None:
            on_committed(error)

    def _follow(self, decision: Decision, planned: list[PlannedText]) -> None:
        if planned:
            self._ready.extend(planned)
            self._last_ready = planned[-1].seq
            self._wake.set()
        if self.global_log is not None and decision.global_text:
            self._all_entries.append(decision.global_text)
            self._last = decision.now
            self._wake.set()
        if decision.retired:
            self.on_retired(decision.retired)
        if decision.notes:
            log_all(_log, decision.notes)
        if decision.kills and self.on_kills:
            self.on_kills(decision)
        for tell in (self.on_change, partial(self.on_jobs, decision)):
            with contained(_log, "notifying an observer of a commit"):
                tell()
        if decision.new_work:
            self.tell_new_work()

    async def _write_logs(self) -> None:
        if left := self._in_hand:
            self._in_hand = []  # what fails once more is settled by the next start
            await self._write(writer.settle, left)
            self._handled = max(self._handled, left[-1].seq)
            self._tell_waiting()
        while True:
            if self._all_entries:
                await self._write_all()
            if again := self.backlog.due(self._now()):
                # Not appended: what an attempt has written that failed later is found in the log.
                await self._write(writer.settle, again)
            if self._unflushed and self._now() - self._flushed_at >= _FLUSH_S:
                await self._flush()
            if not self._ready:
                if not self._uncommitted:
                    self._idle.set()
                self._wake.clear()
                try:
                    async with asyncio.timeout(self._rest_s()):
                        await self._wake.wait()
                except TimeoutError:
                    await self._delete_plans()
                continue
            texts = self._in_hand = self._ready
            self._ready = []
            if fresh := self.backlog.put_behind(texts, self._now()):
                await self._write(writer.append, fresh)
            self._handled, self._in_hand = texts[-1].seq, []
            self._tell_waiting()

    async def _delete_plans(self) -> None:
        """Delete the plans of texts that are in their logs."""
        await self._flush()
        if self._written:
            await self._store.commit(self._with_written(Batch()))

    async def _flush(self) -> None:
        """Have disks hold what was written into logs: only then the plans may be deleted."""
        unflushed, self._unflushed = self._unflushed, {}
        if unflushed and not self.flushes_logs:
            call = partial(writer.flush, list(unflushed), fallback=self._fallback)
            failed = await asyncio.get_running_loop().run_in_executor(self._threads, call)
            for log, reason in failed.items():
                self._unflushed[log] = unflushed.pop(log) + self._unflushed.get(log, [])
                text = "could not flush the event log %s, trying again: %s"
                self._flush_outage.failed(self._now(), text, log[0], reason)
            if not failed:
                self._flush_outage.over(self._now(), "event logs are flushed")
        self._written.extend(seq for seqs in unflushed.values() for seq in seqs)
        self._flushed_at = self._now()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _rest_s(self) -> float | None:
        """How long there is nothing to do unless something new is planned, seconds; None: for ever."""
        at = self.backlog.next_at()
        waits = [_FLUSH_S] if self._written or self._unflushed else []
        if at is not None:
            waits.append(max(0.0, at - self._now()))
        return min(waits, default=None)

    async def _write(self, write: Write, texts: list[PlannedText]) -> None:
        call = partial(write, texts, self.sizes, fallback=self._fallback, sync=self.flushes_logs)
        try:
            done, failures = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except Exception as error:
            _log.exception("error while writing event logs")
            done, failures = [], writer.all_failed(texts, error)
        self._account(texts, done, failures)

    def _tell_waiting(self) -> None:
        for seq, waiter in self._waiting:
            if seq <= self._handled and not waiter.done():
                waiter.set_result(None)
        self._waiting = [(seq, waiter) for seq, waiter in self._waiting if not waiter.done()]

    async def _write_all(self) -> None:
        texts, self._all_entries = self._all_entries, []
        if self.global_log is None:
            return
        call = partial(self.global_log.append, "".join(texts), self._last)
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except OSError as error:
            _log.warning("could not write EVENT_LOG: %s", error)

    def _account(self, texts: list[PlannedText], done: list[int], failures: list[LogFailure]) -> None:
        """Settle what was written; what was not stays planned, and is tried again."""
        for log in {(text.path, text.owner) for text in texts} - {(each.path, each.owner) for each in failures}:
            if self.backlog.written(log):
                _log.info("the event log %s is written again", log[0])
        log_of = {text.seq: (text.path, text.owner) for text in texts}
        for seq in done:
            self._unflushed.setdefault(log_of[seq], []).append(seq)
        self._told(done)
        for failure in failures:
            log, now, seqs = (failure.path, failure.owner), self._now(), set(failure.seqs)
            self.backlog.failed(log, [text for text in texts if text.seq in seqs], now)
            jobs = list(dict.fromkeys(job for seq in failure.seqs for job in self._jobs_of.get(seq, ())))
            with contained(_log, "acting on an event log that cannot be written"):
                self.on_log_failure(failure, jobs)
            in_queue = [job for job in jobs if not job.has_left]
            is_dropped = bool(in_queue) and not any(job.writes(failure.path) for job in jobs)
            given_up = self.backlog.give_up(log, now, is_awaited=bool(in_queue), is_dropped=is_dropped)
            if given_up:
                _log.error("gave up %d texts for the event log %s: %s", len(given_up), failure.path, failure.reason)
                self._written.extend(text.seq for text in given_up)
                self._told([text.seq for text in given_up])

    def _told(self, seqs: list[int]) -> None:
        """The texts are in their logs, or given up."""
        if logged := self._settled(seqs):
            with contained(_log, "acting on event logs that are written"):
                self.on_logged(logged)


class Deciding:
    """See :meth:`Committer.deciding`."""

    __slots__ = ("_batch", "_committer", "_decision")

    def __init__(self, committer: Committer, decision: Decision, batch: Batch | None) -> None:
        self._committer = committer
        self._decision = decision
        self._batch = batch

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not self._decision.committed:
            with contained(_log, "committing a decision after a failure"):
                self._committer.commit(self._decision, self._batch)
