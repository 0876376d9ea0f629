"""Actions on very many jobs: they are answered once they are durable, and then go on behind other work.

From the answer on, none of the jobs starts. Each action keeps the list of its jobs, so that what is submitted or
changed later is not its own; a restart goes on where it was. Whoever acts on one of the jobs meanwhile finds done what
was asked before.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.errors import BusyError, HostError
from slotwise.schedd.api.requests import Action, ActionResult
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.job import Awaited, Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.storage.batch import StoredAction
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch

_log = logging.getLogger(__name__)
#: Jobs that are acted on before others have their turn.
SLICE = 200
#: Jobs that are looked at before others have their turn.
_LOOKED_AT = 5000
#: Slices that wait for the disk at most.
_UNDER_WAY = 8
#: Actions of one user that wait at most: each job has a list of those that await it.
_PER_USER_MOST = 10
#: What the action makes of a job, as far as other actions have to know.
LEADS_TO: dict[Action, Status] = {
    Action.REMOVE: Status.REMOVED,
    Action.TRANSFER_AND_REMOVE: Status.REMOVED,
    Action.REMOVE_FORCE: Status.REMOVED,
    Action.HOLD: Status.HELD,
    Action.RELEASE: Status.IDLE,
}


class PendingAction(Struct, eq=False):
    """An action that goes on. ``done``: how many of its jobs it has looked at."""

    id: int
    user: str
    action: Action
    reason: str
    subcode: int
    at: int
    total: int
    done: int = 0
    #: Those that are left, in order; a job that has left the queue stands as None.
    jobs: deque[Job | None] = field(default_factory=deque)
    #: What awaits a job that nothing else awaits: one value for all of them.
    alone: tuple[PendingAction, ...] = ()

    def __post_init__(self) -> None:
        self.alone = (self,)

    @property
    def leads_to(self) -> Status:
        """The state in which its jobs will be."""
        return LEADS_TO[self.action]

    def ad(self) -> ClassAd:
        """What people see of it."""
        return ClassAd(
            {
                "MyType": "BackgroundAction",
                "ActionId": self.id,
                "Action": str(self.action),
                "User": self.user,
                "Reason": self.reason,
                "StartedAt": self.at,
                "JobsTotal": self.total,
                "JobsDone": self.done,
            }
        )


def status_to_be(job: Job) -> int:
    """The state of a job once everything that was asked of it is done."""
    return job.awaits[-1].leads_to if job.awaits else job.status


class BackgroundActions:
    """Carries out actions on many jobs, one after the other."""

    #: SLOTWISE_BACKGROUND_ACTION_JOBS: actions on more jobs than that go on in the background; 0: none does.
    least = 10_000

    def __init__(
        self,
        queue: Queue,
        committer: Committer,
        clock: Clock,
        act: Callable[[Job, PendingAction, Decision], ActionResult],
        suits: Callable[[Job, Action], bool],
    ) -> None:
        """
        :param act: acts on one job.
        :param suits: whether an action applies to a job as it is.
        """
        self._queue = queue
        self._committer = committer
        self._clock = clock
        self._act = act
        self._suits = suits
        self._pending: deque[PendingAction] = deque()
        #: Actions that are being taken on, by user.
        self._begun: Counter[str] = Counter()
        self._next_id = 1
        self._wake = asyncio.Event()

    def takes(self, action: Action, count: int) -> bool:
        """Whether an action on so many jobs goes on in the background."""
        return action in LEADS_TO and 0 < self.least < count

    def ads(self) -> list[ClassAd]:
        """What goes on, the oldest first."""
        return [pending.ad() for pending in self._pending]

    async def begin(
        self, user: str, action: Action, reason: str, subcode: int, jobs: Iterable[Job]
    ) -> PendingAction | None:
        """Take the action on, which is durable when this returns; None when there is no such job.

        Jobs that run are first. None of the jobs starts from now on. What is durable goes on, also for a caller that
        has gone meanwhile.

        :raises BusyError: when many actions of the user go on already.
        """
        waiting = self._begun[user] + sum(pending.user == user for pending in self._pending)
        if waiting >= _PER_USER_MOST:
            raise BusyError(
                f"{waiting} actions of {user} on very many jobs go on already",
                hint="`slotwise q -actions` shows them; try again when one is done",
                retry_after_s=10.0,
            )
        pending = PendingAction(self._next_id, user, action, reason, subcode, int(self._clock.now()), 0)
        self._next_id += 1
        self._begun[user] += 1
        running: list[Job | None] = []

        def revert() -> None:
            decision = Decision(self._clock.now())
            for reserved in [*running, *pending.jobs]:
                if reserved is not None:
                    self._forget(reserved, pending, decision)
            self._took_on(user)

        def stored(error: HostError | None) -> None:
            if error is not None:
                revert()
                return
            self._took_on(user)
            self._pending.append(pending)
            self._wake.set()

        try:
            jobs = iter(jobs)
            while some := list(islice(jobs, _LOOKED_AT)):
                for job in some:
                    if job.proc in job.cluster.jobs:  # it may have left meanwhile
                        self._reserve(job, pending)
                        (running if job.run else pending.jobs).append(job)
                await asyncio.sleep(0)
            pending.jobs.extendleft(reversed(running))
            running.clear()
            pending.total = len(pending.jobs)
            if not pending.total:
                self._took_on(user)
                return None
            keys = ((job.cluster.number, job.proc) for job in list(pending.jobs) if job is not None)
            blob = await asyncio.get_running_loop().run_in_executor(None, packed, keys)
            batch = Batch()
            batch.put_action(
                StoredAction(pending.id, user, str(action), reason, subcode, pending.at, pending.total, 0, blob)
            )
            done = self._committer.commit(Decision(self._clock.now()), batch, may_fail=True, on_committed=stored)
        except BaseException:
            revert()
            raise
        await done
        return pending

    def _took_on(self, user: str) -> None:
        self._begun[user] -= 1
        if not self._begun[user]:
            del self._begun[user]

    def restore(self, stored: Iterable[StoredAction]) -> None:
        """Go on with what a former process left; before any job starts."""
        for row in stored:
            pending = PendingAction(
                row.id, row.user, Action(row.action), row.reason, row.subcode, row.at, row.total, row.done
            )
            for number, (cluster, proc) in enumerate(unpacked(row.jobs)):
                if number < row.done:
                    continue
                job = self._queue.job(cluster, proc)
                if job is not None:
                    self._reserve(job, pending)
                pending.jobs.append(job)
            self._next_id = max(self._next_id, row.id + 1)
            self._pending.append(pending)
            _log.info(
                "%s of %d jobs by %s goes on, %d are left", pending.action, row.total, row.user, row.total - row.done
            )
            self._wake.set()

    def settle(self, job: Job, decision: Decision) -> None:
        """Do at once what waits for the job."""
        while job.awaits:
            self._do(job, job.awaits[0], decision)

    async def run(self) -> None:
        """Carry out actions for as long as the daemon lives."""
        while True:
            self._wake.clear()
            while self._pending:
                await self._carry_out(self._pending[0])
                self._pending.popleft()
            await self._wake.wait()

    async def _carry_out(self, pending: PendingAction) -> None:
        under_way: deque[asyncio.Future[None]] = deque()
        while pending.jobs:
            decision, batch = Decision(self._clock.now()), Batch()
            with self._committer.deciding(decision, batch):
                for _ in range(min(SLICE, len(pending.jobs))):
                    job = pending.jobs.popleft()
                    pending.done += 1
                    if job is not None and pending in job.awaits:
                        with contained(_log, f"{job.key}: {pending.action} of many"):
                            self._do(job, pending, decision)
                batch.note_action(pending.id, pending.done)
                under_way.append(self._committer.commit(decision, batch))
            await asyncio.sleep(0)
            if len(under_way) >= _UNDER_WAY:
                await under_way.popleft()
        batch = Batch()
        batch.delete_action(pending.id)
        await self._committer.commit(Decision(self._clock.now()), batch)
        _log.info("%s of %d jobs by %s is done", pending.action, pending.total, pending.user)

    def _reserve(self, job: Job, pending: PendingAction) -> None:
        job.awaits = (*job.awaits, pending) if job.awaits else pending.alone
        self._queue.runnable.discard(job)

    def _do(self, job: Job, pending: Awaited, decision: Decision) -> None:
        """Act on a job, in the order in which its actions were asked for."""
        assert isinstance(pending, PendingAction)
        while job.awaits and job.awaits[0] is not pending:
            self._do(job, job.awaits[0], decision)
        job.awaits = job.awaits[1:]
        if self._queue.has(job) and self._suits(job, pending.action):
            self._act(job, pending, decision)
        self._return(job, decision)

    def _forget(self, job: Job, pending: PendingAction, decision: Decision) -> None:
        job.awaits = tuple(other for other in job.awaits if other is not pending)
        self._return(job, decision)

    def _return(self, job: Job, decision: Decision) -> None:
        """A job that nothing awaits may start again."""
        waits = job.status == Status.IDLE and not job.run and self._queue.has(job)
        if waits and not job.awaits and not self._queue.waits(job):
            self._queue.sort_in(job, decision)


def packed(keys: Iterable[tuple[int, int]]) -> bytes:
    """Ids of jobs in their order: ranges of cluster, first proc and number of procs, as compressed JSON."""
    ranges: list[int] = []
    for cluster, proc in keys:
        if ranges and ranges[-3] == cluster and ranges[-2] + ranges[-1] == proc:
            ranges[-1] += 1
        else:
            ranges += (cluster, proc, 1)
    return zlib.compress(json.dumps(ranges, separators=(",", ":")).encode(), 1)


def unpacked(blob: bytes) -> Iterator[tuple[int, int]]:
    """The ids again."""
    ranges = json.loads(zlib.decompress(blob))
    for cluster, first, count in zip(ranges[::3], ranges[1::3], ranges[2::3], strict=True):
        for proc in range(first, first + count):
            yield cluster, proc
