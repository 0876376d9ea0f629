"""Whatever happens to jobs, in whatever order, the queue's rules hold."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from slotwise.schedd.jobs.codes import MOVES, Status
from slotwise.schedd.jobs.decision import Decision, PolicyAction, RunEnd, RunOutcome, Verdict
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.queue import Queue

ENDS = st.sampled_from(
    [
        RunEnd(RunOutcome.EXITED, verdict=Verdict(PolicyAction.COMPLETE)),
        RunEnd(RunOutcome.EXITED, code=1, verdict=Verdict(PolicyAction.REQUEUE)),
        RunEnd(RunOutcome.SIGNALED, code=9, verdict=Verdict(PolicyAction.HOLD, "why", 3)),
        RunEnd(RunOutcome.EVICTED, reason_code=1010),
        RunEnd(RunOutcome.HELD, reason="no file", reason_code=13, executed_s=1.0),
        RunEnd(RunOutcome.HELD, reason_code=1007),
        RunEnd(RunOutcome.NOT_STARTED, reason_code=1003),
        RunEnd(RunOutcome.LOST, reason="silence", reason_code=1008),
    ]
)


class QueueMachine(RuleBasedStateMachine):
    """Six jobs of one cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue()
        self.now = 1000.0
        self.runs = 0
        self.left: set[str] = set()
        self.killed: set[str] = set()
        cluster = Cluster(1, "u", "u@x", "u@x", 1000, {}, log="/log")
        self.jobs = [Job(cluster, proc, Status.IDLE) for proc in range(6)]
        for job in self.jobs:
            job.autocluster = 1
        self.queue.admit(cluster, self.jobs)

    def decide(self) -> Decision:
        self.now += 400  # longer than any cool-down
        self.queue.wake(self.now)
        return Decision(self.now)

    def account(self, decision: Decision) -> None:
        for job in decision.retired:
            assert job.key not in self.left, "left twice"
            self.left.add(job.key)
        self.killed |= {kill.run_id for kill in decision.kills}
        for job in decision.changed:
            if job not in decision.retired:
                assert job.changes is not None

    @rule(proc=st.integers(0, 5))
    def start(self, proc: int) -> None:
        decision = self.decide()
        for job in self.jobs:
            if job.autocluster is None and job in self.queue.runnable.unclustered:
                self.queue.runnable.clustered(job, 1)
        taken = self.queue.runnable.take("u@x", 1, 1)
        if taken:
            self.runs += 1
            assert taken[0].status == Status.IDLE and not taken[0].run
            self.queue.begin_run(taken[0], f"run{self.runs}", {"RemoteHost": "slot"}, decision)
        self.account(decision)

    @rule(proc=st.integers(0, 5), end=ENDS)
    def end(self, proc: int, end: RunEnd) -> None:
        job, decision = self.jobs[proc], self.decide()
        if job.run:
            self.queue.end_run(job, end, decision)
            if job.status == Status.COMPLETED and job.key not in self.left:
                self.queue.leave(job, decision)
        self.account(decision)

    @rule(proc=st.integers(0, 5), what=st.sampled_from(["hold", "release", "remove", "force", "suspend", "continue"]))
    def ask(self, proc: int, what: str) -> None:
        job, decision = self.jobs[proc], self.decide()
        if job.key in self.left:
            return
        before = job.status
        if what == "hold":
            assert self.queue.hold(job, "r", 1, 0, decision) == (before in (1, 2, 6, 7))
        elif what == "release":
            assert self.queue.release(job, "r", decision) == (before == 5)
        elif what == "remove":
            assert self.queue.remove(job, "r", decision) == (before != 3)
        elif what == "force":
            assert self.queue.remove_at_once(job, "by force", decision) == (before == 3)
        elif what == "suspend":
            self.queue.suspended(job, 1, decision)
        else:
            self.queue.continued(job, decision)
        assert job.status == before or job.status in MOVES[before]
        self.account(decision)

    @invariant()
    def rules_hold(self) -> None:
        self.queue.validate()
        for job in self.jobs:
            present = self.queue.job(1, job.proc) is job
            assert present == (job.key not in self.left)
            if not present:
                assert job.status in (Status.REMOVED, Status.COMPLETED)
            if job.status == Status.HELD:
                assert job.changes and "HoldReason" in job.changes


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestQueue = QueueMachine.TestCase
