"""The runner of a DAG: carries out what the DAG asks for, and tells it what happens. All decisions are the DAG's.

One thread. What goes on is in the nodes log, which the schedd and the runner write; it is read as soon as something is
written to it. Whatever is done for the first time after a crash is safe to do again: submissions have keys, and
what has no entry in the log has not happened.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from itertools import chain

from slotwise._native import DagData, DagRun
from slotwise.client import Schedd
from slotwise.dag.acts import Act, DagStatus, Do, Happened, NodeStatus
from slotwise.dag.asked import Asked
from slotwise.dag.cycle_times import CycleTimes
from slotwise.dag.debug_log import DebugLog
from slotwise.dag.followed_log import FollowedLog
from slotwise.dag.job_ad import JobAd
from slotwise.dag.jobstate_file import JobstateFile
from slotwise.dag.node_log import NodeLog, Told, ulog_name
from slotwise.dag.node_scripts import NodeScripts
from slotwise.dag.nodes import Nodes
from slotwise.dag.plan import Plan
from slotwise.dag.provisioner import Provisioner
from slotwise.dag.run_files import RunFiles
from slotwise.dag.run_settings import RunSettings
from slotwise.dag.running import Effects, Running
from slotwise.dag.submission import Submissions
from slotwise.dag.watch import Watch
from slotwise.errors import SlotwiseError
from slotwise.model.job_events import stamp

#: The exit status of a runner that wants to be started again.
RESTART = 3
#: Entries of the nodes log that are read before something else has its turn.
_ENTRIES = 1000


class Runner:
    """One run."""

    def __init__(
        self, plan: Plan, settings: RunSettings, dag: DagData, log: DebugLog, schedd: Schedd, watch: Watch
    ) -> None:
        self._plan, self._settings, self._log, self._schedd, self._watch = plan, settings, log, schedd, watch
        self._run = DagRun(dag, settings.rules)
        self._nodes = Nodes(self._run, plan.directory)
        jobstate = self._run.jobstate_log
        self._jobstate = JobstateFile(None if jobstate is None else plan.directory / jobstate, self._nodes, log)
        shared = Running(
            plan, settings, self._run, self._nodes, plan.nodes_log(settings.nodes_log), log, self._jobstate
        )
        self._path = shared.nodes_log
        self._entries = NodeLog(self._run.find)
        self._asked = Asked(shared, self._entries)
        self._scripts = NodeScripts(shared)
        self._submissions = Submissions(shared, schedd, again=plan.recovers)
        self._provisioner = Provisioner(shared, schedd)
        self._files = RunFiles(shared)
        self._times = CycleTimes()
        self._ad = JobAd(shared, schedd, self._times)
        self._acts: deque[Act] = deque()
        self._interval_at = time.monotonic() + settings.scan_s
        self._exit: int | None = None

    def run(self) -> int:
        """Run the DAG to its end; gives the exit status of its job.

        :raises HostError: the nodes log cannot be written or read.
        """
        if "@(" in str(self._path):
            self._log.write(
                f"Warning: default node log file {self._path} contains a '@(' character sequence -- unresolved macro "
                "substituion?"
            )
        followed = FollowedLog(self._path, self._entries, self._log, anew=not self._plan.recovers)
        try:
            self._watch.follow(self._path)
            self._watch.look_into(self._plan.directory)
            self._jobstate.begin(self._plan.cluster, recovers=self._plan.recovers)
            self._files.begin()
            if self._plan.recovers:
                self._recover(followed)
            else:
                self._acts.extend(self._run.begin())
            self._follow(Effects(), followed)
            while self._exit is None:
                with self._times.measured("Event"):
                    busy = self._step(followed)
                if not busy:
                    self._rest(followed)
        finally:
            followed.close()
            self._log.flush()
        return self._exit

    def _recover(self, followed: FollowedLog) -> None:
        """Take what a former runner did from the nodes log."""
        self._log.write("Running in RECOVERY mode... >>>>>>>>>>")
        self._jobstate.internal("RECOVERY_STARTED")
        self._ad.tell(time.monotonic(), recovers=True)
        acts = list(self._run.begin_recovery())
        for told in followed.read():
            self._note(told)
            acts += self._run.handle(*told.event)
        if self._plan.was_halted:
            self._asked.is_halted = True
            self._log.write("DAG is halted: it was when its former runner ended")
            acts += self._run.handle(*Happened("halt"))
        self._log.write("...done with RECOVERY mode <<<<<<<<<<")
        self._jobstate.internal("RECOVERY_FINISHED")
        acts += self._run.recovered()
        # Save points of nodes that had started were written then.
        self._acts.extend(act for act in acts if act[0] != Do.SAVE_POINT)

    # ------------------------------------------------------------------------------------------------------ the loop

    def _step(self, followed: FollowedLog) -> bool:
        """Do what there is to do now; whether there was something."""
        busy = self._take_signals(followed)
        followed.go_on(time.monotonic())
        begun = time.monotonic()
        if read := [self._taken(told) for told in followed.read(_ENTRIES)]:
            self._times.add("LogProcess", time.monotonic() - begun)
        if read and self._exit is None:
            self._acts.extend(chain.from_iterable(read))
            self._follow(Effects(), followed)
        now = time.monotonic()
        for part in (self._scripts, self._submissions, self._provisioner):
            if self._exit is not None:
                break
            begun = time.monotonic()
            effects = part.go_on(now)
            if part is self._submissions:
                self._times.add("Submit", time.monotonic() - begun)
            if effects:
                busy = True
                self._follow(effects, followed)
        if self._settings.limits_submits and now >= self._interval_at and self._exit is None:
            self._interval_at = now + self._settings.scan_s
            self._follow(Effects(events=[Happened("interval")]), followed)
        return busy or bool(read) or self._exit is not None

    def _rest(self, followed: FollowedLog) -> None:
        """Write what shows the DAG, and wait until something happens."""
        now = time.monotonic()
        self._files.follow(now)
        self._ad.follow(now)
        self._log.flush()
        parts = (self._scripts, self._submissions, self._provisioner, self._files, self._ad, followed)
        times = [at for part in parts if (at := part.next_at()) is not None]
        if self._settings.limits_submits:
            times.append(self._interval_at)
        self._watch.follow(self._asked.path)
        with self._times.measured("Sleep"):
            self._watch.wait(max(0.0, min([self._settings.scan_s, *(at - time.monotonic() for at in times)])))

    def _take_signals(self, followed: FollowedLog) -> bool:
        effects = Effects()
        while self._watch.signals:
            number = self._watch.signals.pop(0)
            if number == signal.SIGUSR1:
                self._log.write("Received SIGUSR1")
                effects.events.append(Happened("remove"))
            elif number in (signal.SIGTERM, signal.SIGINT):
                self._log.write("Received SIGTERM" if number == signal.SIGTERM else "Received SIGINT")
                self._pause()
                return True
        was_halted = self._asked.is_halted
        effects += self._asked.look()
        if not effects:
            return False
        if self._asked.is_halted and not was_halted:
            effects += self._submissions.withdraw()
        self._follow(effects, followed)
        if self._asked.is_halted != was_halted and self._exit is None:
            self._ad.tell(time.monotonic())  # a runner after this one takes it from there
        return True

    def _pause(self) -> None:
        """End so that the DAG goes on later: it is held, or its host goes down."""
        self._scripts.kill()
        self._files.write_status(NodeStatus.SUBMITTED, "held", at_end=False)
        self._jobstate.internal(f"DAGMAN_FINISHED {RESTART}")
        self._exit = RESTART

    # --------------------------------------------------------------------------------------------------- what happens

    def _taken(self, told: Told) -> list[Act]:
        """Take an entry of the nodes log; gives what the DAG asks for."""
        if self._exit is not None:
            return []
        event = told.event
        node = self._note(told)
        self._log.write(f"Event: {ulog_name(told.number)} for HTCondor Node {node} ({told.cluster}.{told.proc}.0)")
        acts = self._run.handle(*event)
        if event.name == "submit":
            self._submissions.queued(event.node)
        most = self._settings.most_holds
        if event.name == "held" and most and self._nodes[event.node].record.holds == most:
            self._log.write(
                f"Total hold count for node {node} has reached DAGMAN_MAX_JOB_HOLDS ({most}); all its jobs are removed"
            )
            self._remove(f"ClusterId == {told.cluster}", "DAGMAN_MAX_JOB_HOLDS was reached")
        return acts

    def _note(self, told: Told) -> str:
        """Keep what an entry says beside the node's state; gives the node's name."""
        node = self._nodes.note(told)
        self._jobstate.entry(told, node)
        return node.name

    def _follow(self, effects: Effects, followed: FollowedLog) -> None:
        """See to what a part of the runner asks for, and then the DAG."""
        while True:
            if effects.error:
                self._fail(effects.error)
                return
            if effects.entries:
                followed.append(effects.entries)
            for event in effects.events:
                if self._exit is None:
                    self._acts.extend(self._run.handle(*event))
            effects = self._perform()
            if not effects or self._exit is not None:
                return

    def _perform(self) -> Effects:
        """Do what the DAG asks for."""
        effects = Effects()
        while self._acts and self._exit is None and not effects.error:
            do, number, first, second = self._acts.popleft()
            if do in (Do.PRE, Do.POST, Do.HOLD):
                effects += self._scripts.begin(number, do)
            elif do == Do.SUBMIT:
                self._submissions.add(number)
            elif do == Do.NOOP:
                effects.entries.append(self._entries.noop(self._run.name(number), stamp(time.time())))
            elif do == Do.PRE_SKIP:
                effects.entries.append(self._entries.pre_skip(self._run.name(number), stamp(time.time())))
            elif do == Do.SAVE_POINT:
                self._files.write_save_point(number)
            elif do == Do.REMOVE_JOBS:
                cluster = self._nodes[number].record.cluster
                self._remove(f"ClusterId == {cluster}", "a job of its node has failed")
            elif do == Do.REMOVE_ALL:
                effects += self._remove_all()
            elif do == Do.RESCUE:
                self._files.write_rescue()
            elif do == Do.FINISH:
                self._finish(first, second)
        return effects

    def _remove(self, constraint: str, reason: str) -> None:
        try:
            self._schedd.act("remove", constraint, reason=reason)
        except SlotwiseError as error:
            self._log.write(f"ERROR: removing jobs failed: {error.message}")

    def _remove_all(self) -> Effects:
        self._scripts.kill()
        self._log.write("Removing submitted jobs...")
        self._remove(f"DAGManJobId =?= {self._plan.cluster}", f"DAG {self._plan.cluster} has ended")
        return self._submissions.withdraw()

    # ------------------------------------------------------------------------------------------------------- its end

    def _fail(self, why: str) -> None:
        """End a DAG that cannot go on."""
        self._log.write(f"ERROR: {why}")
        self._acts.clear()
        self._files.write_rescue()
        self._remove_all()
        self._finish(1, DagStatus.ERROR)

    def _finish(self, exit_status: int, status: int) -> None:
        self._exit = exit_status
        self._files.write_last(exit_status, status)
        self._ad.tell(time.monotonic(), exit_status=exit_status)
        self._jobstate.internal(f"DAGMAN_FINISHED {exit_status}")
        if status == DagStatus.CYCLE:
            self._log.write("ERROR: DAG finished but not all nodes are complete -- checking for a cycle...")
        self._log.write("All jobs Completed!" if exit_status == 0 else "Aborting DAG...")


__all__ = ["RESTART", "Runner"]
