"""Runs of jobs on the access point: starts them when they may, follows their keepers, takes their ends over.

Each step is durable before the next. A run is committed before its keeper is forked, and its end before its control
directory goes. So a schedd that starts finds in the queue which runs there are, and in their control directories what
became of them: a keeper that lives is followed again, a result is taken over, the family of a keeper that died is
ended, and what was committed but never forked is forked now. The keeper's lock sees to it that no run is forked twice.
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
from slotwise.execution.keeper_spec import Identity, KeeperResult, KeeperSpec, parse_result, read_state, read_usage
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
from slotwise.schedd.storage.store import Batch, StoredRun
from slotwise.table import Allowance

T = TypeVar("T")
_log = logging.getLogger(__name__)
_PREFIX = "dir_"
#: Where control directories are until the first job has one.
_NOWHERE = Path("/nonexistent")
#: Steps that the conditions of one job may take, and those between two looks at other work; each look costs something.
_JOB_STEPS, _SLICE_STEPS, _JUDGING = 200_000, 500_000, 2_000
#: How often waiting jobs are looked at when nothing happens: their conditions may read the time.
_LOOK_S = 60.0
#: How often usage is written into the ads of jobs that run.
_USAGE_S = 300.0
#: How long a job of the local universe may take to leave that says nothing of it.
_VACATE_S = 30
#: The same for one of the scheduler universe, which may have much to take down: as good as any time.
_SCHEDULER_VACATE_S = 86_400
#: How long those that are to go with the schedd may take to leave, and to be gone when they are killed.
_PARTING_S, _LAST_S = 30, 8.0


@dataclass(frozen=True)
class LocalSettings:
    """Knobs. ``control``: SLOTWISE_CONTROL_DIR. ``execute``: LOCAL_UNIV_EXECUTE. ``pool``: how commands find it."""

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
    #: When the keeper said that the job executes, or 0.
    executing_at: float = 0.0
    kill: Kill | None = None
    facts: JobView | None = None
    #: Watches the keeper's process.
    watch: int | None = None
    #: Its control directory is complete: there is a keeper to speak to, or one is about to be.
    laid_out: bool = False
    #: The keeper was told of the kill; one that has just been forked does not listen yet.
    told: bool = False
    over: bool = False

    def row(self) -> StoredRun:
        """What the store keeps of it; it has no claim."""
        root = self.place.control.parent
        facts = f"{self.born_at:.3f} {self.executing_at:.3f} {'' if root == _NOWHERE else root}"
        return StoredRun(self.job.cluster.number, self.job.proc, self.id, "", "", facts)

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
        #: Called of a run that has ended, before that is committed, and of one whose end is durable.
        self.on_end: Callable[[Job, Decision], None] = lambda job, decision: None
        self.on_durable: Callable[[str, Job], None] = lambda run_id, job: None
        #: How many jobs of a user may run at a time (MaxJobsRunning of the user's record); None: any number.
        self.running_most: Callable[[str], int | None] = lambda user: None
        self._root: Path | None = None
        #: LOCAL_UNIV_EXECUTE as it was found to be ours; a new one holds from the next start on.
        self._execute: Path | None = None
        self._launcher: launcher.Launcher | None = None
        self._cgroups: CgroupHost | None = None
        self._look = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        #: No more jobs start; and no more is heard of those that run.
        self._stopping = self._closing = False

    # ---- what others ask

    def look(self) -> None:
        """Jobs may be waiting that may start now."""
        if self._queue.runnable.here:
            self._look.set()

    def counts(self) -> Changes:
        """How many run and wait, as attributes of the schedd's ad."""
        found: Changes = {}
        for universe, word in ((Universe.LOCAL, "Local"), (Universe.SCHEDULER, "Scheduler")):
            waiting = [*self._queue.runnable.here, *self._queue.cooling]
            found[f"Total{word}JobsRunning"] = sum(run.job.cluster.universe == universe for run in self.runs.values())
            found[f"Total{word}JobsIdle"] = sum(job.cluster.universe == universe for job in waiting)
        return found

    def counts_of(self, submitter: str) -> Changes:
        """The same of one submitter, as attributes of its ad."""
        found: Changes = {}
        for universe, word in ((Universe.LOCAL, "Local"), (Universe.SCHEDULER, "Scheduler")):
            running = [run.job for run in self.runs.values() if run.job.submitter == submitter]
            waiting = [job for job in self._queue.runnable.here if job.submitter == submitter]
            found[f"{word}JobsRunning"] = sum(job.cluster.universe == universe for job in running)
            found[f"{word}JobsIdle"] = sum(job.cluster.universe == universe for job in waiting)
        return found

    def stop(self, kills: Iterable[Kill]) -> None:
        """Have runs end; those of others are not ours to end."""
        for kill in kills:
            run = self.runs.get(kill.run_id)
            if run is not None and not run.over:
                run.kill = kill
                self._say_kill(run)

    def suspend(self, run_id: str, *, resume: bool) -> bool:
        """Have a run's keeper suspend the job, or continue it; false when there is no keeper to ask."""
        run = self.runs.get(run_id)
        return run is not None and self._command(run, "continue" if resume else "suspend")

    # ---- life

    async def run(self, stored: list[StoredRun]) -> None:
        """Take up what a former process left, then start jobs for ever.

        :param stored: runs of jobs that run here.
        """
        try:
            await self._recover(stored)
        except (OSError, HostError) as error:
            _log.error("jobs of the scheduler and local universes cannot be looked after: %s", error)
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
                with contained(_log, "telling what jobs on the access point use"):
                    self._tell_usage()

    async def close(self, *, end: str) -> None:
        """Follow no more keepers: their jobs go on, unless they are to end with the schedd.

        :param end: "" to leave them; "graceful" to ask them to leave, "fast" to kill them.
        """
        self._stopping = True
        if end:
            patience_s = _LAST_S if end == "fast" else _PARTING_S + _LAST_S
            for run in self.runs.values():
                reason = "The access point was shut down"
                run.kill = run.kill or Kill(run.id, end == "fast", reason, int(Vacate.SCHEDD_VACATE))
                self._command(run, "hard" if end == "fast" else f"soft {self._soft(run)[0]} {_PARTING_S}")
            deadline = self._clock.monotonic() + patience_s
            while self.runs and self._clock.monotonic() < deadline:
                await asyncio.sleep(0.02)
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for run in self.runs.values():
            self._unwatch(run)
        if self._launcher is not None:
            await self._launcher.stop()
            self._launcher = None
        if self._root is not None:
            with root_files():
                control_dir.discard(self._root)

    def _begin(self, run: LocalRun, work: asyncio.Task[None]) -> None:
        self._tasks.add(work)
        work.add_done_callback(self._tasks.discard)

    def _spawn(self, run: LocalRun, doing: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Do something for a run beside all else; should it fail the run is over and its job waits for a while."""

        async def contain() -> None:
            with contained(_log, doing_for_run(run.id, doing), partial(self._failed, run)):
                await work()

        self._begin(run, asyncio.get_running_loop().create_task(contain()))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def as_root() -> T:
            with root_files():
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._threads, as_root)

    async def _open(self) -> tuple[Path, launcher.Launcher]:
        """The directory of control files and the zygote, made when the first job needs them."""
        if self._root is None:
            settings = self.settings

            def make() -> Path:
                with contextlib.suppress(FileExistsError):
                    settings.execute.mkdir(parents=True)
                    settings.execute.chmod(0o755)  # jobs find their ads there, whatever the daemon's mask is
                if not control_dir.is_private(settings.execute):
                    # What others put there would be removed, or written through, with the daemon's rights.
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
        """Take over new knobs, for jobs that start from now on; directories change with a restart."""
        self.settings = settings
        self._cgroups = None
        self.look()

    # ---- a former process's runs

    async def _recover(self, stored: list[StoredRun]) -> None:
        if not stored and not await self._in_thread(self.settings.execute.is_dir):
            return  # no job has ever run here
        root, _ = await self._open()
        execute, now = self._execute or self.settings.execute, self._clock.now()
        for row in stored:
            job = self._queue.job(row.cluster, row.proc)
            if job is None or job.run != row.run_id:
                continue
            words = row.facts.split(" ", 2) if row.facts else []
            born, executing, laid_out_in = words + ["0", "0", ""][len(words) :]
            # SLOTWISE_CONTROL_DIR or the user's session may have been others then.
            place = self._place(Path(laid_out_in) if laid_out_in else root, row.run_id)
            run = LocalRun(row.run_id, job, float(born) or now, place, float(executing))
            run.kill = kill_owed(job)
            self._add(run)
        names = set(self._by_name)
        await self._in_thread(lambda: _clear(root, execute, names))
        for run in list(self.runs.values()):
            self._spawn(run, "taking it up again", partial(self._take_up, run))

    async def _take_up(self, run: LocalRun) -> None:
        """Find out what became of a run, and go on from there."""
        path = run.place.control
        if not await self._in_thread(lambda: (path / "spec").exists()):
            await self._fork_late(run)
            return
        run.laid_out = True
        pid = await self._in_thread(lambda: launcher.holder(path))
        if pid:
            self._adopt(run, pid)
        else:
            await self._find_out(run)

    async def _fork_late(self, run: LocalRun) -> None:
        """A run was committed, and then the schedd died; or the host did, whose memory held the control directory."""
        if run.executing_at:
            self._end(run, ending.lost(run.job, "The host of the access point was restarted"))
        elif run.goes_on:
            await self._launch(run)
        else:
            self._end(
                run, RunEnd(RunOutcome.NOT_STARTED, reason="it was taken back", reason_code=int(Vacate.SCHEDD_VACATE))
            )

    def _adopt(self, run: LocalRun, pid: int) -> None:
        with root_files():
            state = read_state(run.place.control)
        if int(state.get("pid", 0)):
            self._executing(run)
            self._suspended(run, resumed=state.get("suspended") != "1")
        self._follow(run, pid)
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
                    # Looked at again and again, it would keep the schedd from its work.
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
        """Commit that the job starts; its keeper is forked once that is durable."""
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
        # Before the first job there is no root yet; _launch asks again.
        return RunPlace(name, (root or _NOWHERE) / name, self._execute or self.settings.execute)

    def _add(self, run: LocalRun) -> None:
        self.runs[run.id] = run
        self._by_name[run.place.name] = run

    async def _launch(self, run: LocalRun) -> None:
        """Lay the run's directories out and fork its keeper."""
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
        run.laid_out = True
        self._follow(run, await zygote.spawn(run.place.control))
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
        # The directory's name has the mark of this access point's SPOOL.
        return Surroundings(self.settings.limits, self._cgroups, root / "notices", f"{root.name}_", self._pool)

    # ---- while it runs

    def _notice(self, name: str, what: str) -> None:
        """A keeper said something. Whoever may write into the FIFO may say anything, so files are looked at."""
        run = self._by_name.get(name)
        if run is None or run.over:
            return
        with contained(_log, doing_for_run(run.id, f"processing {what!r} of its keeper"), partial(self._failed, run)):
            word = what.partition(" ")[0]
            if word == "started":
                self._executing(run)
                if run.kill is not None and not run.told:
                    self._say_kill(run)
            elif word == "ended":
                self._take_result(run)
            elif word in ("suspended", "continued"):
                self._suspended(run, resumed=word == "continued")

    def _executing(self, run: LocalRun) -> None:
        if run.executing_at or run.over:
            return
        decision, batch = Decision(self._clock.now()), Batch()
        run.executing_at = decision.now
        with self._committer.deciding(decision, batch):
            # Also when it was held or removed in this very moment: its log tells of that when the run is over.
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
            with root_files():
                processes = read_usage(run.place.control).processes
            self._queue.suspended(run.job, processes, decision)
        if decision.changed:
            self._committer.commit(decision)

    def _tell_usage(self) -> None:
        decision = Decision(self._clock.now())
        for run in self.runs.values():
            if run.executing_at and run.goes_on:
                with root_files():
                    usage = read_usage(run.place.control)
                self._queue.usage(run.job, ending.usage_attributes(usage, self._ads.rounding), decision)
        if decision.changed:
            self._committer.commit(decision)

    def _follow(self, run: LocalRun, pid: int) -> None:
        """Notice the keeper's end even if it cannot tell."""
        if run.over or self._closing:
            return
        run.watch = launcher.watch_exit(pid, partial(self._gone, run))
        if run.watch is None:
            self._gone(run)

    def _unwatch(self, run: LocalRun) -> None:
        if run.watch is not None:
            launcher.unwatch(run.watch)
            run.watch = None

    def _gone(self, run: LocalRun) -> None:
        self._unwatch(run)
        if not run.over and not self._closing:
            self._spawn(run, "looking for its result", partial(self._find_out, run))

    async def _find_out(self, run: LocalRun) -> None:
        """No keeper lives: there is a result, or its family is ended and there is one then."""
        self._take_result(run)
        if run.over:
            return
        found, names = await self._in_thread(lambda: launcher.sweep(run.place.control))
        if found == "alive":
            # Another one of the same run was faster, and this one gave up.
            pid = await self._in_thread(lambda: launcher.holder(run.place.control))
            self._follow(run, pid or 0)
            return
        _log.warning("run %s: its keeper died; process family %s %s", run.id, found, " ".join(names))
        self._take_result(run)

    # ---- its end

    def _say_kill(self, run: LocalRun) -> None:
        """Pass a wish on to the keeper, once there is one."""
        kill = run.kill
        if kill is None or not run.laid_out:
            return
        if kill.fast:
            run.told = self._command(run, "hard")
            return
        if not run.executing_at:
            return  # a process on its way to the job's program would not hear the signal
        number, seconds = self._soft(run)
        run.told = self._command(run, f"soft {number} {seconds}")

    def _soft(self, run: LocalRun) -> tuple[int, int]:
        """Signal and seconds with which a run is asked to end."""
        if run.facts is None and self._ads.has(run.job):
            with contained(_log, doing_for_run(run.id, "reading its signals")):
                run.facts = self._read(run.job)
        scheduler = run.job.cluster.universe == Universe.SCHEDULER
        return ending.soft_kill(run.facts, run.job.status, default_s=_SCHEDULER_VACATE_S if scheduler else _VACATE_S)

    def _read(self, job: Job) -> JobView:
        """What the job's ad says of its start and its signals.

        :raises UsageError: when arguments, environment or a signal are not understood, or take too long to evaluate.
        """
        ad = self._ads.ad(job)
        try:
            with Allowance(_JOB_STEPS):
                return read_job(partial(self._ads.value_of, ad), job.cluster.user)
        except ValueError as error:
            raise UsageError(f"an attribute of the job cannot be evaluated: {error}") from None

    def _facts_at_end(self, job: Job) -> JobView:
        """The same for a job that has ended, which stands whatever its ad has become meanwhile."""
        try:
            return self._read(job)
        except UsageError as error:
            _log.warning("%s: its end is judged without its ad, which is not understood: %s", job.key, error.message)
            return JobView(job.key, "", (), {}, "/", NULL_FILE, NULL_FILE, NULL_FILE, job.owner)

    def _command(self, run: LocalRun, words: str) -> bool:
        with root_files():
            return launcher.command(run.place.control, words)

    def _take_result(self, run: LocalRun) -> None:
        """Take the end over, if there is one and it is news."""
        if run.over or self._closing:
            return
        try:
            with root_files():
                text = (run.place.control / "result").read_text(errors="replace")
        except OSError:
            return
        result = parse_result(text)
        for limit in result.unenforced:
            _log.warning("run %s: the host refused a limit: %s", run.id, limit)
        if result.leftovers:
            _log.error("run %s: could not remove all processes and cgroups of the job", run.id)
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
        """The run is over: commit what that means for its job; then its directories go."""
        if run.over:
            return
        run.over = True
        self._unwatch(run)
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

    def _failed(self, run: LocalRun, error: Exception) -> None:
        """The schedd failed at something of this run. Its family is ended before its job may start again."""
        if run.over:
            return
        reason = f"The access point failed: {error.message if isinstance(error, SlotwiseError) else error}"
        if run.laid_out and not self._closing:
            self._command(run, "hard")
            self._begin(run, asyncio.get_running_loop().create_task(self._end_failed(run, reason)))
        else:
            self._abandon(run, reason)

    async def _end_failed(self, run: LocalRun, reason: str) -> None:
        pause_s = 0.2
        while True:
            with contained(_log, doing_for_run(run.id, "ending it after a failure")):
                found, _ = await self._in_thread(lambda: launcher.sweep(run.place.control))
                if found != "alive":
                    break
                self._command(run, "hard")
            await asyncio.sleep(pause_s)
            pause_s = min(_LOOK_S, pause_s * 2)
        self._abandon(run, reason)

    def _abandon(self, run: LocalRun, reason: str) -> None:
        run.over = True
        self._unwatch(run)
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
            return  # the next start finds what is left

        async def remove() -> None:
            with contained(_log, doing_for_run(run.id, "removing its directories")):
                await self._in_thread(partial(_remove, run.place))

        self._begin(run, asyncio.get_running_loop().create_task(remove()))


def _is_scheduler(job: Job) -> bool:
    return job.cluster.universe == Universe.SCHEDULER


def _lay_out(place: RunPlace, universe: int, who: Identity, ad: str, spec: KeeperSpec) -> None:
    """Make a run's directories, empty, and last the keeper's spec: a run with a spec can be taken up again.

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
    """Remove both directories; the control directory last, as with it the run can still be taken up."""
    for path in (place.directory, place.control):
        for problem in launcher.remove_tree(path) if path.exists() else ():
            _log.warning("could not remove %s", problem)


def _clear(root: Path, execute: Path, known: set[str]) -> None:
    """End and remove what belongs to no run of the queue."""
    for path in sorted(root.glob(f"{_PREFIX}*")):
        if path.name not in known:
            with contained(_log, f"ending {path.name}, which belongs to no job"):
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
    _log.info("ended %s, which belongs to no job: %s %s", path.name, found, " ".join(names))
    if found != "alive":
        launcher.remove_tree(path)
