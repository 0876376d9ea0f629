"""The decisions of the queue, as data. The committer makes them durable, and only then acts on them."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.model.job_events import Usage
from slotwise.model.reason_codes import Vacate, ends_in_hold
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.jobs.values import Changes

#: A line of a log: a format and its arguments.
LogLine: TypeAlias = tuple[str, *tuple[object, ...]]


class Kill(Struct, frozen=True):
    """End the run of a job: its claim is to be deactivated with this reason."""

    run_id: str
    fast: bool
    reason: str
    code: int
    #: The job was removed by force: its run does not wait for JOB_STOP_DELAY.
    forced: bool = False
    #: Its outputs come back although it does not end by itself.
    with_outputs: bool = False


class NoticeKind(StrEnum):
    """What a job's user may ask mail about."""

    STARTED = "started"
    EXITED = "exited"
    #: Of the local universe: the job exited, and runs again.
    REQUEUED = "requeued"
    HELD = "held"
    REMOVED = "removed"


class Notice(Struct, frozen=True):
    """Something of which a job's user gets mail, should the job ask for it."""

    job: Job
    kind: NoticeKind
    reason: str = ""
    hold_code: int = 0
    #: Bytes that the job sent and received in the run that is over, and whether it dumped core.
    sent: float = 0.0
    received: float = 0.0
    core: bool = False


class Decision(Struct):
    """Changes that become durable together, decided at ``now``."""

    now: float
    changed: dict[Job, Changes] = field(default_factory=dict)
    #: Jobs that leave the queue.
    retired: list[Job] = field(default_factory=list)
    #: Log entries in order.
    entries: list[tuple[Job, str]] = field(default_factory=list)
    #: The ads of jobs that are not in the queue yet, where their logs tell of attributes.
    new_ads: dict[Job, ClassAd] = field(default_factory=dict)
    #: What the access point's own log gets of the entries.
    global_text: str = ""
    kills: list[Kill] = field(default_factory=list)
    #: Jobs whose runs are over.
    runs_over: list[Job] = field(default_factory=list)
    #: Clusters whose factories were paused, resumed or ended.
    factories: list[Cluster] = field(default_factory=list)
    #: Clusters with factories that have left the queue.
    closed: list[Cluster] = field(default_factory=list)
    #: What the users of the jobs may get mail about, in order.
    notices: list[Notice] = field(default_factory=list)
    #: Lines for the schedd's own log, in order.
    notes: list[LogLine] = field(default_factory=list)
    #: Whether there are jobs to start that the negotiator does not know of.
    new_work: bool = False
    #: Already handed to the store: later changes belong in another decision.
    committed: bool = False

    def set(self, job: Job, changes: Changes) -> None:
        """Change attributes of ``job``; they show in ``job.changes`` at once."""
        known = self.changed.get(job)
        if known is None:
            self.changed[job] = dict(changes)
        else:
            known.update(changes)
        # A new dict each time: jobs that never differed may share one.
        job.changes = {**job.changes, **changes} if job.changes else dict(changes)

    def log(self, job: Job, entry: str) -> None:
        """Write ``entry`` into the job's event log, if it has one, and into the access point's."""
        self.entries.append((job, entry))

    def note(self, text: str, *args: object) -> None:
        """Write a line into the schedd's own log once the decision is durable; ``args`` must not change until then."""
        self.notes.append((text, *args))


#: Codes from here on are of evictions, those below of holds.
_VACATE_CODES = 1000


class RunOutcome(StrEnum):
    """How a run ended."""

    EXITED = "exited"
    SIGNALED = "signaled"
    EVICTED = "evicted"
    #: Put on hold by the execution point.
    HELD = "held"
    NOT_STARTED = "not_started"
    #: Neither the startd nor the starter has the run any more.
    LOST = "lost"
    #: The schedd could not process a message of the run.
    FAILED = "failed"
    #: The job cannot run on the slot that it was matched to.
    UNFIT = "unfit"

    @property
    def by_itself(self) -> bool:
        """Whether the job ended by itself, so that its exit policy decides."""
        return self in (RunOutcome.EXITED, RunOutcome.SIGNALED)


class RunEnd(Struct, frozen=True):
    """The end of a run, as the starter reported it or the schedd established it.

    ``code`` is the exit code or signal. ``attributes`` are merged into the job ad.
    """

    how: RunOutcome
    code: int = 0
    reason: str = ""
    reason_code: int = 0
    reason_subcode: int = 0
    #: The starter's error message; "" when the run did not end with an error of the starter.
    error: str = ""
    at: float = 0.0
    core: str = ""
    attributes: Changes = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    #: Seconds since the shadow started, and since the job began to execute.
    wall_s: float = 0.0
    executed_s: float = 0.0
    #: When the run was over, its results included, epoch seconds; 0: as it ended.
    over_at: float = 0.0
    #: Bytes of the run that its job's ad counts already: sent by the job, and received.
    counted: tuple[float, float] = (0.0, 0.0)
    #: Outcome of the exit policy; None unless the job ended by itself.
    verdict: Verdict | None = None
    #: SYSTEM_ON_VACATE_COOL_DOWN for this end, seconds; 0: none.
    cool_down_s: float = 0.0

    @property
    def is_vacate(self) -> bool:
        """Whether its codes send the job back to Idle; else they hold it."""
        return not ends_in_hold(self.reason_code, self.reason_subcode)

    @property
    def failed(self) -> bool:
        """Whether the job could not run there, so that it would most likely fail there again at once: also one that
        goes back to Idle by the subcode of a hold, or for a fault of the starter, before it executed."""
        if self.how == RunOutcome.EVICTED:
            of_the_host = self.reason_code == Vacate.STARTER_ERROR
            return (0 < self.reason_code < _VACATE_CODES or of_the_host) and not self.executed_s
        return self.how in (RunOutcome.NOT_STARTED, RunOutcome.FAILED)


class PolicyAction(StrEnum):
    """What a policy expression does to its job."""

    COMPLETE = "complete"
    REQUEUE = "requeue"
    HOLD = "hold"
    RELEASE = "release"
    REMOVE = "remove"
    VACATE = "vacate"


class Verdict(Struct, frozen=True):
    """What to do with a job, and the reason and codes of a hold or vacate."""

    act: PolicyAction
    reason: str = ""
    code: int = 0
    subcode: int = 0
