"""Runs of jobs on the access point: starts them when they may start, follows their keepers, and takes over their ends.

Each step is durable before the next. A run is committed before its keeper is forked, and its end before its control
directory is removed. A starting schedd therefore finds the runs in the queue, and their fate in their control
directories: it follows keepers that are alive, takes over results, kills the process families of keepers that died, and
forks keepers for runs that were only committed. A keeper's lock prevents that a run is forked twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from slotwise import ids
from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form
from slotwise.clock import Clock
from slotwise.daemon.containment import contained
from slotwise.daemon.privileges import root_files
from slotwise.errors import HostError, SlotwiseError, UsageError
from slotwise.execution import control_dir, launcher
from slotwise.execution.cgroup.probe import CgroupHost, probe
from slotwise.execution.job_view import NULL_FILE, JobView, read_job
from slotwise.execution.keeper_link import KeeperLink
from slotwise.execution.keeper_spec import Identity, KeeperResult, KeeperSpec
from slotwise.ids import doing_for_run
from slotwise.model.reason_codes import Hold, Vacate
from slotwise.schedd.jobs.ads import JobAds, native
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.decision import Decision, Kill, RunEnd, RunOutcome
from slotwise.schedd.jobs.job import Job
from slotwise.schedd.jobs.queue import Queue
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.local import ending
from slotwise.schedd.local.identity import identity_of
from slotwise.schedd.local.launch import LocalLimits, RunPlace, Surroundings, compose
from slotwise.schedd.local.start_rules import StartRules
from slotwise.schedd.policy.at_exit import exit_verdict
from slotwise.schedd.policy.evict_transforms import kill_owed
from slotwise.schedd.storage.committer import Committer
from slotwise.schedd.storage.store import Batch, StoredLocalRun
from slotwise.table import Allowance

T = TypeVar("T")
_log = logging.getLogger(__name__)
_PREFIX = "dir_"
#: The root of control directories until the first job needs one.
_NOWHERE = Path("/nonexistent")
#: Evaluation steps for the conditions of one job, for a slice of all, and the fixed cost of each job.
_JOB_STEPS, _SLICE_STEPS, _JUDGING = 200_000, 500_000, 2_000
#: How often waiting jobs are reconsidered when nothing happens, in seconds: their conditions may depend on the time.
_LOOK_S = 60.0
#: How often usage is written into the ads of running jobs, in seconds.
_USAGE_S = 300.0
#: The time that a local universe job has to exit before it is killed, in seconds, unless it sets its own.
_VACATE_S = 30
#: The same for a scheduler universe job, which may have much to clean up: practically unlimited.
_SCHEDULER_VACATE_S = 86_400
#: The time that jobs have to exit when the schedd shuts down with its jobs, and to be gone once killed, in seconds.
_PARTING_S, _LAST_S = 30, 8.0


@dataclass(frozen=True)
class LocalSettings:
    """Knobs. ``control``: SLOTWISE_CONTROL_DIR. ``execute``: LOCAL_UNIV_EXECUTE."""

    execute: Path
    control: str = ""
    rules: StartRules = StartRules()  # noqa: RUF009 - never changed
    limits: LocalLimits = LocalLimits()  # noqa: RUF009 - frozen
    least_uid: int = 1
    base_cgroup: str = ""
    cgroup_version: str = "auto"
    cgroup_without_root: bool = False


@dataclass(eq=False)
class LocalRun:
    """One run of a job on the access point."""

    id: str
    job: Job
    born_at: float
    place: RunPlace
    #: When the keeper reported that the job is executing, or 0.
    executing_at: float = 0.0
    kill: Kill | None = None
    facts: JobView | None = None
    #: Its keeper; None until its control directory is complete: there is a keeper, or there will be one in a moment.
    keeper: KeeperLink | None = None
    #: The kill was sent to the keeper; one that has just been forked does not receive it.
    told: bool = False
    over: bool = False

    def row(self) -> StoredLocalRun:
        """Its row in the store; it has no claim."""
        root = self.place.control.parent
        stored_root = "" if root == _NOWHERE else str(root)
        number, proc = self.job.cluster.number, self.job.proc
        return StoredLocalRun(number, proc, self.id, self.born_at, self.executing_at, stored_root)

    @property
    def goes_on(self) -> bool:
        """Whether the job is meant to run."""
        return self.job.run == self.id and self.job.status in (Status.RUNNING, Status.SUSPENDED)


class LocalRuns:
    """All runs on this access point."""

    def __init__(
        self,
        queue: Queue,
        ads: JobAds,
        committer: Committer,
        clock: Clock,
        threads: Executor,
        settings: LocalSettings,
        own_ad: Callable[[], Changes],
        pool: dict[str, str],
    ) -> None:
        self._queue = queue
        self._ads = ads
        self._committer = committer
        self._clock = clock
        self._threads = threads
        self.settings = settings
        self._own_ad = own_ad
        self._pool = pool
        self.runs: dict[str, LocalRun] = {}
        self._by_name: dict[str, LocalRun] = {}
        #: Called with a run that has ended, before the commit, and with one whose end is durable.
        self.on_end: Callable[[Job, Decision], None] = lambda job, decision: None
        self.on_durable: Callable[[str, Job], None] = lambda run_id, job: None
        #: How many jobs of a user may run at a time (MaxJobsRunning of the user's record); None: any number.
        self.running_most: Callable[[str], int | None] = lambda user: None
        self._root: Path | None = None
        #: LOCAL_UNIV_EXECUTE, once verified; changes take effect with a restart.
        self._execute: Path | None = None
        self._launcher: launcher.Launcher | None = None
        self._cgroups: CgroupHost | None = None
        self._look = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        #: No more jobs start; and keepers are not followed any more.
        self._stopping = self._closing = False

    # ---- what others ask

    def look(self) -> None:
        """Reconsider waiting jobs: some may start now."""
        if self._queue.runnable.here:
            self._look.set()

    def counts(self) -> Changes:
        """The numbers of running and waiting jobs, as attributes of the schedd's ad."""
        found: Changes = {}
        for universe, word in ((Universe.LOCAL, "Local"), (Universe.SCHEDULER, "Scheduler")):
            waiting = [*self._queue.runnable.here, *self._queue.cooling]
            found[f"Total{word}JobsRunning"] = sum(run.job.cluster.universe == universe for run in self.runs.values())
            found[f"Total{word}JobsIdle"] = sum(job.cluster.universe == universe for job in waiting)
        return found

    def counts_of(self, submitter: str) -> Changes:
        """The numbers of a submitter's jobs, as attributes of its ad."""
        found: Changes = {}
        for universe, word in ((Universe.LOCAL, "Local"), (Universe.SCHEDULER, "Scheduler")):
            running = [run.job for run in self.runs.values() if run.job.submitter == submitter]
            waiting = [job for job in self._queue.runnable.here if job.submitter == submitter]
            found[f"{word}JobsRunning"] = sum(job.cluster.universe == universe for job in running)
            found[f"{word}JobsIdle"] = sum(job.cluster.universe == universe for job in waiting)
        return found

    def stop(self, kills: Iterable[Kill]) -> None:
        """Carry out those kills that are of runs here."""
        for kill in kills:
            run = self.runs.get(kill.run_id)
            if run is not None and not run.over:
                run.kill = kill
                self._say_kill(run)

    def suspend(self, run_id: str, *, resume: bool) -> bool:
        """Have a run's keeper suspend the job, or continue it; false when there is no keeper to ask."""
        run = self.runs.get(run_id)
        return run is not None and run.keeper is not None and run.keeper.command("continue" if resume else "suspend")

    # ---- life

    async def run(self, stored: list[StoredLocalRun]) -> None:
        """Take over what a former process left, then start jobs until cancelled.

        :param stored: runs of jobs that run here.
        """
        try:
            await self._recover(stored)
        except (OSError, HostError) as error:
            _log.error("could not recover jobs of the scheduler and local universes; starting none: %s", error)
            return
        told_at = self._clock.monotonic()
        self._look.set()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._look.wait()
            self._look.clear()
            with contained(_log, "starting jobs on the access point"):
                await self._start_waiting()
            if self._clock.monotonic() >= told_at + _USAGE_S:
                told_at = self._clock.monotonic()
                with contained(_log, "updating the usage of jobs on the access point"):
                    self._tell_usage()

    async def close(self, *, end: str) -> None:
        """Stop following keepers: their jobs keep running, unless they are to end with the schedd.

        :param end: "" to leave them running; "graceful" to ask them to exit, "fast" to kill them.
        """
        self._stopping = True
        if end:
            patience_s = _LAST_S if end == "fast" else _PARTING_S + _LAST_S
            for run in self.runs.values():
                reason = "The access point was shut down"
                run.kill = run.kill or Kill(run.id, end == "fast", reason, int(Vacate.SCHEDD_VACATE))
                if run.keeper is not None:
                    run.keeper.command("hard" if end == "fast" else f"soft {self._soft(run)[0]} {_PARTING_S}")
            deadline = self._clock.monotonic() + patience_s
            while self.runs and self._clock.monotonic() < deadline:
                await asyncio.sleep(0.02)
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for run in self.runs.values():
            if run.keeper is not None:
                run.keeper.close()
        if self._launcher is not None:
            await self._launcher.stop()
            self._launcher = None
        if self._root is not None:
            with root_files():
                control_dir.discard(self._root)

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _spawn(self, run: LocalRun, doing: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do ``work`` for a run in a task; when it fails, the run is over and its job has a cool-down."""

        async def contain() -> None:
            with contained(_log, doing_for_run(run.id, doing), partial(self._failed, run)):
                await work()

        self._begin(contain())

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def as_root() -> T:
            with root_files():
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._threads, as_root)

    async def _open(self) -> tuple[Path, launcher.Launcher]:
        """The root of control directories and the zygote, created when the first job needs them."""
        if self._root is None:
            settings = self.settings

            def make() -> Path:
                with contextlib.suppress(FileExistsError):
                    settings.execute.mkdir(parents=True)
                    settings.execute.chmod(0o755)  # jobs read their ads there, whatever the daemon's umask
                if not control_dir.is_private(settings.execute):
                    # Otherwise, files of others would be removed, or written through links, with the daemon's rights.
                    raise HostError(
                        f"{settings.execute} is not a directory of the schedd's that nobody else may write",
                        hint="give LOCAL_UNIV_EXECUTE one of its own",
                    )
                return control_dir.control_root(settings.execute, settings.control)

            self._root = await self._in_thread(make)
            self._execute = settings.execute
        assert self._root is not None
        if self._launcher is None:
            self._launcher = launcher.Launcher(self._root / "notices", self._notice)
            with root_files():
                await self._launcher.start()
        return self._root, self._launcher

    def configure(self, settings: LocalSettings) -> None:
        """Apply new knobs to jobs that start from now on; directories change with a restart."""
        self.settings = settings
        self._cgroups = None
        self.look()

    # ---- a former process's runs

    async def _recover(self, stored: list[StoredLocalRun]) -> None:
        if not stored and not await self._in_thread(self.settings.execute.is_dir):
            return  # no job has ever run here
        root, _ = await self._open()
        execute, now = self._execute or self.settings.execute, self._clock.now()
        for row in stored:
            job = self._queue.job(row.cluster, row.proc)
            if job is None or job.run != row.run_id:
                continue
            # SLOTWISE_CONTROL_DIR or the user's session may have been different then.
            place = self._place(Path(row.control_root) if row.control_root else root, row.run_id)
            run = LocalRun(row.run_id, job, row.born_at or now, place, row.executing_at)
            run.kill = kill_owed(job)
            self._add(run)
        names = set(self._by_name)
        await self._in_thread(lambda: _clear(root, execute, names))
        for run in list(self.runs.values()):
            self._spawn(run, "taking it up again", partial(self._take_up, run))

    async def _take_up(self, run: LocalRun) -> None:
        """Establish what became of a run, and continue from there."""
        path = run.place.control
        if not await self._in_thread(lambda: (path / "spec").exists()):
            await self._fork_late(run)
            return
        keeper = self._follow(run)
        pid = await self._in_thread(lambda: launcher.holder(path))
        if pid:
            self._adopt(run, keeper, pid)
        else:
            await keeper.find_out()

    async def _fork_late(self, run: LocalRun) -> None:
        """Handle a run without control directory: the schedd died right after the commit, or the host was restarted."""
        if run.executing_at:
            self._end(run, ending.lost(run.job, "The host of the access point was restarted"))
        elif run.goes_on:
            await self._launch(run)
        else:
            self._end(
                run, RunEnd(RunOutcome.NOT_STARTED, reason="it was taken back", reason_code=int(Vacate.SCHEDD_VACATE))
            )

    def _adopt(self, run: LocalRun, keeper: KeeperLink, pid: int) -> None:
        found = keeper.adopt()
        if found.pid:
            self._executing(run)
            self._suspended(run, resumed=not found.suspended)
        keeper.watch(pid)
        if run.kill is not None:
            self._say_kill(run)

    # ---- starting

    async def _start_waiting(self) -> None:
        """Start all jobs that may start, best first."""
        waiting = sorted(self._queue.runnable.here, key=lambda job: (job.priority, job.cluster.number, job.proc))
        schedd = ClassAd(native({**self._own_ad(), **self.counts()}))
        running = Counter(run.job.cluster.user for run in self.runs.values() if _is_scheduler(run.job))
        steps = 0
        for job in waiting:
            if steps > _SLICE_STEPS:
                steps = 0
                await asyncio.sleep(0)
            if self._stopping:
                return
            if not self._queue.has(job) or job.status != Status.IDLE or job.run or not self._has_room(job):
                continue
            with contained(_log, f"{job.key}: starting it on the access point"):
                user, ad, may_start = job.cluster.user, self._ads.ad(job), False
                with contextlib.suppress(ValueError), Allowance(_JOB_STEPS) as spent:
                    may_start = self.settings.rules.may_start(ad, job.cluster.universe, schedd, running[user])
                steps += spent.used + _JUDGING
                if spent.broken:
                    # Evaluated again and again, it would block the schedd.
                    reason = f"The conditions of the job's start take more than {_JOB_STEPS} steps to evaluate"
                    self._hold(job, reason, Hold.JOB_POLICY_UNDEFINED)
                elif may_start:
                    self._start(job)
                    running[user] += _is_scheduler(job) and bool(job.run)
                    schedd.update(native(self.counts()))

    def _has_room(self, job: Job) -> bool:
        """Whether MaxJobsRunning lets another job of its user run."""
        most = self.running_most(job.cluster.user)
        return most is None or self._queue.running_of(job.cluster.user, job.cluster.universe) < most

    def _start(self, job: Job) -> None:
        """Commit the start of a job; its keeper is forked once that is durable."""
        try:
            identity_of(job.cluster.user, job.account, self.settings.least_uid)
        except HostError as error:
            self._hold(job, f"{error.message}: {error.hint}", Hold.FAILED_TO_ACCESS_USER_ACCOUNT)
            return
        decision, batch = Decision(self._clock.now()), Batch()
        number = int(job.number("NumShadowStarts")) + 1
        run_id = f"{job.key}#{number}"
        run = LocalRun(run_id, job, decision.now, self._place(self._root, run_id))
        self._queue.begin_run(job, run.id, {}, decision)
        self._add(run)
        batch.put_run(run.row())
        self._committer.commit(decision, batch, on_committed=lambda error: self._begun(run, error))

    def _hold(self, job: Job, reason: str, code: Hold) -> None:
        decision = Decision(self._clock.now())
        self._queue.hold(job, reason, int(code), 0, decision)
        self._committer.commit(decision)

    def _begun(self, run: LocalRun, error: HostError | None) -> None:
        if error is None and not self._stopping:
            self._spawn(run, "starting it", partial(self._launch, run))

    def _place(self, root: Path | None, run_id: str) -> RunPlace:
        name = _PREFIX + run_id.replace("#", "_")
        # Before the first job, there is no root yet; _launch sets it.
        return RunPlace(name, (root or _NOWHERE) / name, self._execute or self.settings.execute)

    def _add(self, run: LocalRun) -> None:
        self.runs[run.id] = run
        self._by_name[run.place.name] = run

    async def _launch(self, run: LocalRun) -> None:
        """Create the run's directories and fork its keeper."""
        if not run.goes_on:
            self._end(
                run, RunEnd(RunOutcome.NOT_STARTED, reason="it was taken back", reason_code=int(Vacate.SCHEDD_VACATE))
            )
            return
        root, zygote = await self._open()
        run.place = self._place(root, run.id)
        job = run.job
        try:
            who = identity_of(job.cluster.user, job.account, self.settings.least_uid)
            run.facts = self._read(job)
        except HostError as error:
            self._end(run, ending.unfit(f"{error.message}: {error.hint}", Hold.FAILED_TO_ACCESS_USER_ACCOUNT))
            return
        except UsageError as error:
            self._end(run, ending.unfit(error.message, Hold.FAILED_TO_CREATE_PROCESS))
            return
        spec = compose(
            run.facts, job.cluster.universe, who, run.place, await self._surroundings(root), secret=ids.secret()
        )
        ad = long_form(self._ads.ad(job)) or "\n"
        await self._in_thread(partial(_lay_out, run.place, job.cluster.universe, who, ad, spec))
        keeper = self._follow(run)
        keeper.watch(await zygote.spawn(run.place.control))
        if run.kill is not None:
            self._say_kill(run)

    async def _surroundings(self, root: Path) -> Surroundings:
        if self._cgroups is None:
            settings = self.settings
            is_root = ending.is_root()
            self._cgroups = await self._in_thread(
                lambda: probe(
                    settings.base_cgroup,
                    is_root=is_root,
                    without_root=settings.cgroup_without_root,
                    version=settings.cgroup_version,
                )
            )
        assert self._cgroups is not None
        # The directory's name identifies this access point's SPOOL.
        return Surroundings(self.settings.limits, self._cgroups, root / "notices", f"{root.name}_", self._pool)

    # ---- while it runs

    def _follow(self, run: LocalRun) -> KeeperLink:
        """Listen to the keeper of a run whose control directory is complete."""
        listener = _Listener(self, run)
        run.keeper = KeeperLink(run.id, run.place.control, listener, rights=root_files, threads=self._threads)
        return run.keeper

    def _notice(self, name: str, what: str) -> None:
        """Handle a keeper's notice. Other processes can write into the FIFO, so only its files are believed."""
        run = self._by_name.get(name)
        if run is None or run.over or run.keeper is None:
            return
        with contained(_log, doing_for_run(run.id, f"processing {what!r} of its keeper"), partial(self._failed, run)):
            run.keeper.notice(what)

    def _started(self, run: LocalRun) -> None:
        self._executing(run)
        if run.kill is not None and not run.told:
            self._say_kill(run)

    def _executing(self, run: LocalRun) -> None:
        if run.executing_at or run.over:
            return
        decision, batch = Decision(self._clock.now()), Batch()
        run.executing_at = decision.now
        with self._committer.deciding(decision, batch):
            # Even if it was held or removed just now: its log gets that when the run is over.
            if self._queue.has(run.job):
                self._queue.executing(run.job, self._queue.address, "", {}, decision)
            if run.job.run == run.id:  # else it was removed by force
                batch.put_run(run.row())
            self._committer.commit(decision, batch)

    def _suspended(self, run: LocalRun, *, resumed: bool) -> None:
        decision = Decision(self._clock.now())
        if resumed:
            self._queue.continued(run.job, decision)
        else:
            processes = run.keeper.usage().processes if run.keeper is not None else 0
            self._queue.suspended(run.job, processes, decision)
        if decision.changed:
            self._committer.commit(decision)

    def _tell_usage(self) -> None:
        decision = Decision(self._clock.now())
        for run in self.runs.values():
            if run.executing_at and run.goes_on and run.keeper is not None:
                usage = ending.usage_attributes(run.keeper.usage(), self._ads.rounding)
                self._queue.usage(run.job, usage, decision)
        if decision.changed:
            self._committer.commit(decision)

    # ---- its end

    def _say_kill(self, run: LocalRun) -> None:
        """Send the kill to the keeper, once there is one."""
        kill = run.kill
        if kill is None or run.keeper is None:
            return
        if kill.fast:
            run.told = run.keeper.command("hard")
            return
        if not run.executing_at:
            return  # a process that has not executed the job's program yet would not get the signal
        number, seconds = self._soft(run)
        run.told = run.keeper.command(f"soft {number} {seconds}")

    def _soft(self, run: LocalRun) -> tuple[int, int]:
        """The signal that asks a run to exit, and the seconds until it is killed."""
        if run.facts is None and self._ads.has(run.job):
            with contained(_log, doing_for_run(run.id, "reading its signals")):
                run.facts = self._read(run.job)
        scheduler = run.job.cluster.universe == Universe.SCHEDULER
        return ending.soft_kill(run.facts, run.job.status, default_s=_SCHEDULER_VACATE_S if scheduler else _VACATE_S)

    def _read(self, job: Job) -> JobView:
        """The job's program, environment and signals, from its ad.

        :raises UsageError: when arguments, environment or a signal are not valid, or take too long to evaluate.
        """
        ad = self._ads.ad(job)
        try:
            with Allowance(_JOB_STEPS):
                return read_job(partial(self._ads.value_of, ad), job.cluster.user)
        except ValueError as error:
            raise UsageError(f"an attribute of the job cannot be evaluated: {error}") from None

    def _facts_at_end(self, job: Job) -> JobView:
        """The same for a job that has ended; an empty view when its ad has become unreadable meanwhile."""
        try:
            return self._read(job)
        except UsageError as error:
            _log.warning(
                "%s: classifying the end of its run without its ad, which is not valid: %s", job.key, error.message
            )
            return JobView(job.key, "", (), {}, "/", NULL_FILE, NULL_FILE, NULL_FILE, job.owner)

    def _keeper_ended(self, run: LocalRun, result: KeeperResult) -> None:
        """Take over the result."""
        if run.over or self._closing:
            return
        for limit in result.unenforced:
            _log.warning("run %s: the host refused a limit: %s", run.id, limit)
        if result.leftovers:
            _log.error("run %s: could not remove all processes and control groups of the job", run.id)
        if result.started_at:
            self._executing(run)
        self._ended(run, result)

    def _ended(self, run: LocalRun, result: KeeperResult) -> None:
        job, now = run.job, self._clock.now()
        if not self._ads.has(job):  # removed by force
            self._end(run, RunEnd(RunOutcome.LOST))
            return
        if run.facts is None:
            run.facts = self._facts_at_end(job)
        limits = self.settings.limits
        end = ending.judge_end(
            run.facts,
            job,
            result,
            run.kill,
            limits.memory_mib or -1,
            rounding=self._ads.rounding,
            born_at=run.born_at,
            now=now,
        )
        if end.how.by_itself:
            signaled = end.how == RunOutcome.SIGNALED
            verdict = exit_verdict(job, signaled, end.code, end.attributes, self._ads, now)
            end = replace(end, verdict=verdict)
        self._end(run, end)

    def _end(self, run: LocalRun, end: RunEnd) -> None:
        """End the run: commit what follows for its job, then remove its directories."""
        if run.over:
            return
        run.over = True
        if run.keeper is not None:
            run.keeper.close()
        decision = Decision(self._clock.now())
        with self._committer.deciding(decision):
            self._queue.end_run(run.job, end, decision)
            completed = run.job.status == Status.COMPLETED and self._ads.has(run.job)
            if completed and not self._ads.stays(run.job, decision.now):
                self._queue.leave(run.job, decision)
            self.on_end(run.job, decision)
            self._forget(run)
            self.on_durable(run.id, run.job)
            self._committer.commit(decision, on_committed=lambda error: self._clear_away(run, error))
        self.look()

    def _failed(self, run: LocalRun, error: BaseException) -> None:
        """Handle a fault of the schedd: kill the run's process family before its job may start again."""
        if run.over:
            return
        reason = f"The access point failed: {error.message if isinstance(error, SlotwiseError) else error}"
        if run.keeper is not None and not self._closing:
            run.keeper.command("hard")
            self._begin(self._end_failed(run, run.keeper, reason))
        else:
            self._abandon(run, reason)

    async def _end_failed(self, run: LocalRun, keeper: KeeperLink, reason: str) -> None:
        pause_s = 0.2
        while True:
            with contained(_log, doing_for_run(run.id, "ending it after a failure")):
                found, _ = await self._in_thread(lambda: launcher.sweep(run.place.control))
                if found != "alive":
                    break
                keeper.command("hard")
            await asyncio.sleep(pause_s)
            pause_s = min(_LOOK_S, pause_s * 2)
        self._abandon(run, reason)

    def _abandon(self, run: LocalRun, reason: str) -> None:
        run.over = True
        if run.keeper is not None:
            run.keeper.close()
        decision = Decision(self._clock.now())
        self._queue.abandon_run(run.job, run.id, reason, decision)
        self._forget(run)
        self._committer.commit(decision, on_committed=lambda error: self._clear_away(run, error))

    def _forget(self, run: LocalRun) -> None:
        self.runs.pop(run.id, None)
        if self._by_name.get(run.place.name) is run:
            del self._by_name[run.place.name]

    def _clear_away(self, run: LocalRun, error: HostError | None) -> None:
        if error is not None:
            return  # the next start cleans up

        async def remove() -> None:
            with contained(_log, doing_for_run(run.id, "removing its directories")):
                await self._in_thread(partial(_remove, run.place))

        self._begin(remove())


class _Listener:
    """Hears the keeper of one run."""

    def __init__(self, runs: LocalRuns, run: LocalRun) -> None:
        self._runs = runs
        self._run = run

    def job_started(self, pid: int) -> None:
        """The job executes."""
        self._runs._started(self._run)

    def job_suspended(self, *, resumed: bool) -> None:
        """The keeper has suspended or continued the job."""
        self._runs._suspended(self._run, resumed=resumed)

    def keeper_ended(self, result: KeeperResult) -> None:
        """All processes of the job are gone."""
        self._runs._keeper_ended(self._run, result)

    def give_up(self, error: BaseException) -> None:
        """The result could not be processed."""
        self._runs._failed(self._run, error)

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Let work go on by itself."""
        self._runs._begin(work)


def _is_scheduler(job: Job) -> bool:
    return job.cluster.universe == Universe.SCHEDULER


def _lay_out(place: RunPlace, universe: int, who: Identity, ad: str, spec: KeeperSpec) -> None:
    """Create a run's directories, and the keeper's spec last: a run with a spec can be recovered.

    :raises OSError: when the file system refuses.
    """
    _remove(place)
    owner = None if who.uid is None or who.gid is None else (who.uid, who.gid)
    scratch = place.scratch(universe)
    entries: list[launcher.Entry] = [(str(place.directory), 0o755, None, None)]
    if universe == Universe.LOCAL:
        entries.append((str(scratch), 0o700, owner, None))
        entries.append((str(scratch / ".machine.ad"), 0o400, owner, b""))
    # The job's environment is in its ad.
    entries.append((str(scratch / ".job.ad"), 0o400, owner, ad.encode("utf-8", "surrogateescape")))
    entries.append((str(place.control), 0o700, None, None))
    entries.append((str(place.control / "spec"), 0o600, None, spec.encode()))
    launcher.write_files(entries)


def _remove(place: RunPlace) -> None:
    """Remove both directories; the control directory last, as the run can be recovered with it."""
    for path in (place.directory, place.control):
        for problem in launcher.remove_tree(path) if path.exists() else ():
            _log.warning("could not remove %s", problem)


def _clear(root: Path, execute: Path, known: set[str]) -> None:
    """Kill and remove what does not belong to any run of the queue."""
    for path in sorted(root.glob(f"{_PREFIX}*")):
        if path.name not in known:
            with contained(_log, f"killing the stray run {path.name}"):
                _end_stray(path)
    for path in sorted(execute.glob(f"{_PREFIX}*")):
        if path.name not in known:
            launcher.remove_tree(path)


def _end_stray(path: Path) -> None:
    launcher.command(path, "hard")
    deadline = time.monotonic() + _LAST_S
    while launcher.holder(path) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    found, names = launcher.sweep(path)
    _log.info("killed the stray run %s: %s %s", path.name, found, " ".join(names))
    if found != "alive":
        launcher.remove_tree(path)
