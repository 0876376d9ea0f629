"""Actions on jobs in the queue: remove, hold, release, suspend, continue, vacate, edit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from slotwise.classad import ClassAd
from slotwise.clock import Clock
from slotwise.daemon.questions import Questions
from slotwise.errors import UsageError
from slotwise.model import job_events
from slotwise.model.job_id import JobId
from slotwise.model.ownership import same_user
from slotwise.model.reason_codes import Hold, Vacate
from slotwise.schedd.api.background_actions import BackgroundActions, status_to_be
from slotwise.schedd.api.requests import Action, ActionOutcome, ActionResult, JobAction, JobEdit
from slotwise.schedd.jobs import factories
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.codes import Status
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.dependents import Dependents
from slotwise.schedd.jobs.from_ad import log_of, priority_of, submitter_of
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.protected_attrs import AttributeLocks
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.round_attrs import with_rounded
from slotwise.schedd.jobs.selection import JobSelection, constraint_of, single_jobs
from slotwise.schedd.jobs.values import Changes, literal
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch
from slotwise.wire.token import Identity

_CHUNK = 500

_STARTED = frozenset((Status.RUNNING, Status.TRANSFERRING_OUTPUT))
#: The states in which an action applies to a job that is selected by cluster, owner or constraint.
_SUITABLE: dict[Action, frozenset[Status]] = {
    Action.REMOVE: frozenset(Status) - {Status.REMOVED},
    Action.TRANSFER_AND_REMOVE: frozenset(Status) - {Status.REMOVED},
    Action.REMOVE_FORCE: frozenset((Status.REMOVED,)),
    Action.HOLD: frozenset(Status) - {Status.REMOVED, Status.COMPLETED},
    Action.RELEASE: frozenset((Status.HELD,)),
    Action.SUSPEND: _STARTED,
    Action.CONTINUE: frozenset((Status.SUSPENDED,)),
    Action.VACATE: _STARTED | {Status.SUSPENDED},
    Action.VACATE_FAST: _STARTED | {Status.SUSPENDED},
}


def _suits(job: Job, action: Action, status: int | None = None) -> bool:
    """Whether the action applies to ``job`` as one of many; a job that waits for spooled files is not released.

    ``status``: in which it will be by then; None: as it is."""
    if action is Action.RELEASE and job.number("HoldReasonCode") == Hold.SPOOLING_INPUT:
        return False
    states = _SUITABLE.get(action)
    return states is None or (job.status if status is None else status) in states


#: The reasons of actions for which the user gave none, as HTCondor words them.
_REASONS: dict[Action, str] = {
    Action.REMOVE: "via condor_rm",
    Action.TRANSFER_AND_REMOVE: "via condor_rm -transfer",
    Action.REMOVE_FORCE: "via condor_rm -forcex",
    Action.HOLD: "via condor_hold",
    Action.RELEASE: "via condor_release",
}
#: The reason of a vacate, as HTCondor words it: without the user.
VACATED = "Job vacated by schedd"


class Runs(Protocol):
    """The runs of jobs, wherever they are."""

    def suspend(self, run_id: str, *, resume: bool) -> bool:
        """Have the job of a run suspended, or continued; false when that cannot be asked for."""


class Factories(Protocol):
    """The clusters that materialize their jobs late."""

    def shared(self, cluster: Cluster) -> ClassAd:
        """The attributes that all jobs of a factory's cluster share."""

    def change(self, cluster: Cluster, changes: Changes, batch: Batch) -> None:
        """Change these attributes of the jobs that are not materialized yet."""


class _Selected(NamedTuple):
    """Selected jobs with the ids by which they were named, and how many they are at most."""

    most: int
    jobs: Iterable[tuple[Job, str]]


class Actions:
    """Carries out what callers ask."""

    #: SYSTEM_MAX_RELEASES; negative: no limit.
    max_releases = -1

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        on_slots: Runs,
        clock: Clock,
        factories: Factories,
        questions: Questions,
        here: Runs,
    ) -> None:
        """``on_slots``, ``here``: the runs of the jobs on slots and of those on the access point."""
        self._on_slots = on_slots
        self._here = here
        self._dependents = Dependents(queue, ads)
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._late = factories
        self._questions = questions
        self.locks = AttributeLocks()
        self.background = BackgroundActions(
            queue,
            committer,
            clock,
            lambda job, asked, decision: self._act(job, asked.action, asked.reason, asked.subcode, decision),
            _suits,
        )

    # ---- acting

    async def act(self, caller: Identity, request: JobAction, superuser: bool) -> ActionOutcome:
        """Act on those selected jobs that are the caller's; a queue superuser's action applies to all."""
        action = request.action
        reason = f"{request.reason or _REASONS.get(action, '')} (by user {caller.user})"
        decision = Decision(self._clock.now())
        if whole := await self._factories(caller, superuser, request.jobs):
            await self._committer.require_room(len(whole))
        for cluster in whole:
            self._act_on_factory(cluster, action, reason, decision)
        if decision.factories or decision.closed:
            await self._committer.durable(self._committer.commit(decision))
        outcome = ActionOutcome()
        selected = await self._selected(request.jobs, outcome)
        one_by_one = any("." in name for name in request.jobs.ids)
        if self.background.takes(action, selected.most) and not one_by_one:
            chosen = self._chosen(caller, superuser, selected.jobs, action, outcome)
            pending = await self.background.begin(caller.name, action, reason, request.subcode, chosen)
            outcome.background = pending.id if pending is not None else 0
            return outcome
        await self._committer.require_room(selected.most)

        def act(job: Job, decision: Decision) -> ActionResult:
            if self._released_enough(job, action, superuser=superuser):
                return ActionResult.LIMIT_EXCEEDED
            self.background.settle(job, decision)
            return self._act(job, action, reason, request.subcode, decision)

        return await self._each(
            caller,
            superuser,
            selected.jobs,
            outcome,
            act,
            suits=lambda job: _suits(job, action, status_to_be(job)),
            on_factories=bool(decision.factories),
        )

    def _chosen(
        self, caller: Identity, superuser: bool, jobs: Iterable[tuple[Job, str]], action: Action, outcome: ActionOutcome
    ) -> Iterator[Job]:
        """Those of the jobs that the action applies to, counted as if it were done."""
        cluster, allowed, results = None, False, outcome.named
        for job, name in jobs:
            if job.cluster is not cluster:
                cluster = job.cluster
                allowed = superuser or same_user(cluster.user, caller.name)
            if not _suits(job, action, status_to_be(job)):
                result = ActionResult.BAD_STATUS
            else:
                result = ActionResult.SUCCESS if allowed else ActionResult.DENIED
                if allowed and self._released_enough(job, action, superuser=superuser):
                    result = ActionResult.LIMIT_EXCEEDED
                outcome.count(result)
                if result is ActionResult.SUCCESS:
                    yield job
            if name and results.get(name) is not ActionResult.SUCCESS:
                results[name] = result

    async def _factories(self, caller: Identity, superuser: bool, selection: JobSelection) -> list[Cluster]:
        """The clusters with factories that are selected as a whole: by id, or by what all their jobs share."""
        found = [cluster for cluster in self._queue.clusters.values() if cluster.factory is not None]
        found = [cluster for cluster in found if superuser or same_user(cluster.user, caller.name)]
        if selection.ids:
            ids = set(selection.ids)
            found = [cluster for cluster in found if str(cluster.number) in ids]
        if selection.owners:
            found = [cluster for cluster in found if not {cluster.owner, cluster.user}.isdisjoint(selection.owners)]
        if selection.constraint.strip():
            found = await self._questions.those(selection.constraint, found, self._late.shared)
        return found

    def _act_on_factory(self, cluster: Cluster, action: Action, reason: str, decision: Decision) -> None:
        if action in (Action.REMOVE, Action.TRANSFER_AND_REMOVE, Action.REMOVE_FORCE):
            factories.end(self._queue, cluster, decision)
        elif action == Action.HOLD:
            factories.pause(self._queue, cluster, reason, decision)
        elif action == Action.RELEASE:
            factories.resume(self._queue, cluster, reason, decision)

    def _released_enough(self, job: Job, action: Action, *, superuser: bool) -> bool:
        """Whether the job has been held so often that only a queue superuser may release it again."""
        if action is not Action.RELEASE or superuser or self.max_releases < 0:
            return False
        return job.status == Status.HELD and int(self._ads.number(job, "NumHolds")) > self.max_releases

    def _act(self, job: Job, action: Action, reason: str, subcode: int, decision: Decision) -> ActionResult:
        queue = self._queue
        if action in (Action.REMOVE, Action.TRANSFER_AND_REMOVE):
            if not queue.remove(job, reason, decision, with_outputs=action == Action.TRANSFER_AND_REMOVE):
                return ActionResult.ALREADY_DONE
            self._dependents.remove(decision)
            return ActionResult.SUCCESS
        if action == Action.REMOVE_FORCE:
            if not queue.remove_at_once(job, reason, decision):
                return ActionResult.BAD_STATUS
            self._dependents.remove(decision)
            return ActionResult.SUCCESS
        if action == Action.HOLD:
            if job.status == Status.HELD:
                done = queue.hold_instead(job, reason, subcode, decision)
                return ActionResult.SUCCESS if done else ActionResult.ALREADY_DONE
            done = queue.hold(job, reason, int(Hold.USER_REQUEST), subcode, decision)
            return ActionResult.SUCCESS if done else ActionResult.BAD_STATUS
        if action == Action.RELEASE:
            if job.status == Status.HELD and job.number("HoldReasonCode") == Hold.SPOOLING_INPUT:
                return ActionResult.BAD_STATUS  # it waits for spooled files
            return ActionResult.SUCCESS if queue.release(job, reason, decision) else ActionResult.BAD_STATUS
        if action in (Action.VACATE, Action.VACATE_FAST):
            fast = action == Action.VACATE_FAST
            done = queue.vacate(job, VACATED, int(Vacate.SCHEDD_VACATE), fast, decision)
            return ActionResult.SUCCESS if done else ActionResult.BAD_STATUS
        if action in (Action.SUSPEND, Action.CONTINUE):
            return self._suspend(job, resume=action == Action.CONTINUE)
        return ActionResult.SUCCESS  # CLEAR_DIRTY: no attribute is ever dirty here

    def _suspend(self, job: Job, *, resume: bool) -> ActionResult:
        wanted = Status.SUSPENDED if resume else Status.RUNNING
        runs = self._here if job.cluster.runs_here else self._on_slots
        done = job.status == wanted and runs.suspend(job.run, resume=resume)
        return ActionResult.SUCCESS if done else ActionResult.BAD_STATUS

    async def _each(
        self,
        caller: Identity,
        superuser: bool,
        selected: Iterable[tuple[Job, str]],
        outcome: ActionOutcome,
        act: Callable[[Job, Decision], ActionResult],
        *,
        suits: Callable[[Job], bool] = lambda job: True,
        on_factories: bool = False,
    ) -> ActionOutcome:
        """Apply ``act`` to each selected job, in slices that do not block the daemon; durable when it returns.

        :param suits: whether the action applies to a job that is not named by its own id.
        :param on_factories: the action applied to clusters as a whole, so that no job at all is not a failure.
        """
        waiting = []
        decision = Decision(self._clock.now())
        for count, (job, name) in enumerate(selected, 1):
            if "." not in name and not suits(job):
                if name:
                    outcome.named.setdefault(name, ActionResult.BAD_STATUS)
                continue
            allowed = superuser or same_user(job.cluster.user, caller.name)
            with self._committer.deciding(decision):
                result = act(job, decision) if allowed else ActionResult.DENIED
            outcome.count(result)
            if name and outcome.named.get(name) != ActionResult.SUCCESS:
                outcome.named[name] = result
            if count % _CHUNK == 0:
                waiting.append(self._committer.commit(decision))
                decision = Decision(self._clock.now())
                await asyncio.sleep(0)
        if decision.changed or decision.retired or decision.kills:
            waiting.append(self._committer.commit(decision))
        for done in waiting:
            await self._committer.durable(done)
        if on_factories and not outcome.totals.get(ActionResult.SUCCESS):
            outcome.totals = {ActionResult.SUCCESS: 1}
            outcome.named = dict.fromkeys(outcome.named, ActionResult.SUCCESS)
        return outcome

    async def _selected(self, selection: JobSelection, outcome: ActionOutcome) -> _Selected:
        """The selected jobs, each with the id by which it was named, or ""."""
        if selection.ids and not selection.constraint and not selection.owners:
            clusters = [self._queue.clusters.get(JobId.parse(name)[0]) for name in selection.ids if "." not in name]
            count = sum(len(cluster.jobs) for cluster in clusters if cluster is not None) + len(selection.ids)
            return _Selected(count, self._named(selection.ids, outcome))
        if not (selection.all or selection.ids or selection.owners or selection.constraint):
            raise UsageError("no jobs were named")
        keys = single_jobs(selection.ids)
        table = self._ads.table if keys is None else self._ads.table.excerpt(keys)
        constraint = constraint_of(selection.ids if keys is None else (), selection.owners, selection.constraint)
        if not constraint:
            jobs = list(self._queue.jobs())
            return _Selected(len(jobs), ((job, "") for job in jobs if not job.has_left))
        keys = await self._questions.keys(table, constraint)
        return _Selected(len(keys), ((job, "") for key in keys if (job := self._queue.by_key(key))))

    def _named(self, ids: Iterable[str], outcome: ActionOutcome) -> Iterable[tuple[Job, str]]:
        for name in ids:
            jobs = self._queue.named(*JobId.parse(name))
            if not jobs:
                outcome.count(ActionResult.NOT_FOUND)
                outcome.named[name] = ActionResult.NOT_FOUND
            for job in jobs:
                yield job, name

    # ---- editing

    async def edit(self, caller: Identity, request: JobEdit, superuser: bool) -> ActionOutcome:
        """Change attributes of the selected jobs.

        :raises UsageError: for an attribute that may not be edited, AdSyntaxError for text that is not an expression.
        """
        changes = self.locks.checked(request.changes, superuser=superuser)
        size = 2 * sum(len(name) + len(text) for name, text in request.changes.items())  # in the queue and in the log

        if not request.dry_run and request.prio_change is None:
            batch = Batch()
            if whole := await self._factories(caller, superuser, request.jobs):
                await self._committer.require_room(len(whole), size)
            for cluster in whole:
                self._late.change(cluster, changes, batch)
            if batch:
                await self._committer.durable(self._committer.commit(Decision(self._clock.now()), batch))

        def change(job: Job, decision: Decision) -> ActionResult:
            if not request.dry_run:
                own = dict(changes)
                if request.prio_change is not None:
                    own["JobPrio"] = int(self._ads.number(job, "JobPrio")) + request.prio_change
                self._change(job, own, decision)
                decision.note("%s: %s set by %s", job.key, ", ".join(own), caller.name)
            return ActionResult.SUCCESS

        outcome = ActionOutcome()
        selected = await self._selected(request.jobs, outcome)
        if not request.dry_run:
            await self._committer.require_room(selected.most, size)
        return await self._each(caller, superuser, selected.jobs, outcome, change)

    def _change(self, job: Job, changes: Changes, decision: Decision) -> None:
        for name, value in changes.items():
            if job.is_logged:
                former = self._ads.ad(job)
                old = str(former.lookup(name)) if name in former else None
                new = literal(value)
                decision.log(job, job_events.attribute_changed(self._queue.frame(job, decision.now), name, old, new))
        changes = with_rounded(changes, self._ads.rounding)
        decision.set(job, changes)
        self._ads.set(job.key, changes)
        dollars = any(isinstance(value, str) and "$$(" in value for value in changes.values())
        self._ads.forget_edit(job.cluster.number, dollars=dollars)
        job.cluster.varied |= {name.lower() for name in changes}
        waiting = self._queue.runnable.has(job)
        self._queue.runnable.discard(job)
        ad = self._ads.ad(job)
        job.priority, job.log = priority_of(ad), log_of(ad)
        self._queue.set_submitter(job, submitter_of(job.cluster.user, ad))
        job.autocluster = None
        if waiting:
            self._queue.runnable.add(job)
            decision.new_work = True
        if any(name.lower() == "jobcooldownexpiration" for name in changes):
            self._queue.set_cool_down(job, decision)
