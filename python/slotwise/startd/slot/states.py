"""The states of a slot with the data each carries, and the table of legal transitions.

The numbers are those of the state diagram in the manual ("Machine States and Transitions"); rows without a number have
none there. `slotwise.startd.slot.diagram` draws the table into the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.model.claim import Claim, Run
from slotwise.model.slot import Activity, BrokenCode, SlotKind, State
from slotwise.model.transition_table import Move, MoveTable

#: Seconds that a schedd has to call a startd that was started again, before claims without a job are given up. It finds
#: the startd within a few seconds, and what it loses is only a claim.
UNHEARD_S = 30.0


# ---------------------------------------------------------------------------------------------- activities with data


class Idle(Struct, frozen=True):
    """Nothing runs."""


class Busy(Struct, frozen=True):
    """A job runs."""

    run: Run


class Suspended(Struct, frozen=True):
    """A job is frozen; by a command it stays so whatever CONTINUE says."""

    run: Run
    by_command: bool = False


class Retiring(Struct, frozen=True):
    """A job may run on for its retirement time."""

    run: Run


class Cleaning(Struct, frozen=True):
    """The job has ended and its leftovers are removed. What arrives meanwhile is remembered in ``then_leave``."""

    run: Run
    then_leave: Cause | None = None


class Vacating(Struct, frozen=True):
    """The job was asked to end, and will be made to at ``hard_kill_at``."""

    hard_kill_at: float


class Killing(Struct, frozen=True):
    """The job is killed; at ``again_at`` everything left of it gets SIGKILL, for the ``tries``-th time."""

    again_at: float
    tries: int = 0


class Cause(Struct, frozen=True):
    """Why a claim ends: vacate code and text for the job; whether the job is held; whether the schedd is told."""

    code: int
    reason: str
    subcode: int = 0
    hold: bool = False
    tell_schedd: bool = True
    #: The PREEMPT expression began it; then WANT_VACATE decides about Vacating.
    by_preempt: bool = False
    fast: bool = False


class Hold(Struct, frozen=True):
    """WANT_HOLD is true: the job is to be held with this text and subcode."""

    reason: str
    subcode: int = 0


class Waiting(Struct, frozen=True):
    """A claim that waits for the present one to make room. ``by_rank``: the machine likes it better. ``run``: the
    fetched work that starts with the claim."""

    claim: Claim
    by_rank: bool
    run: Run | None = None


# --------------------------------------------------------------------------------------------------- states with data


class Owner(Struct, frozen=True):
    """Kept for the machine's owner."""

    state = State.OWNER
    activity = Activity.IDLE


class Unclaimed(Struct, frozen=True):
    """Willing."""

    benchmarking: bool = False
    state = State.UNCLAIMED

    @property
    def activity(self) -> Activity:
        """Idle, or Benchmarking."""
        return Activity.BENCHMARKING if self.benchmarking else Activity.IDLE


class Matched(Struct, frozen=True):
    """Promised to a schedd by the negotiator, until ``deadline``."""

    deadline: float
    state = State.MATCHED
    activity = Activity.IDLE


class SoftEnd(Struct, frozen=True):
    """The schedd ends the run but keeps the claim; from ``hard_kill_at`` on with force, then with SIGKILL, ``tries``
    times so far."""

    hard_kill_at: float
    cause: Cause
    hard: bool = False
    tries: int = 0


_DOING = {
    Idle: Activity.IDLE,
    Busy: Activity.BUSY,
    Suspended: Activity.SUSPENDED,
    Retiring: Activity.RETIRING,
    Cleaning: Activity.CLEANING,
}


class Claimed(Struct, frozen=True):
    """Held by a schedd, or by fetched work.

    ``irrevocable``: retirement has begun for a reason that cannot be taken back. ``preempt_fired``: PREEMPT was that
    reason; ``hold`` is what WANT_HOLD said at that moment. ``pending_cause``: the vacate cause to report when
    retirement ends.
    """

    claim: Claim
    doing: Idle | Busy | Suspended | Retiring | Cleaning = field(default_factory=Idle)
    waiting: Waiting | None = None
    irrevocable: bool = False
    preempt_fired: bool = False
    hold: Hold | None = None
    pending_cause: Cause | None = None
    ending: SoftEnd | None = None
    state = State.CLAIMED

    @property
    def activity(self) -> Activity:
        """The name of what it does."""
        return _DOING[type(self.doing)]

    @property
    def run(self) -> Run | None:
        """The job there is, if any."""
        return None if isinstance(self.doing, Idle) else self.doing.run

    @property
    def may_hold(self) -> bool:
        """Whether WANT_HOLD is still to be asked: PREEMPT has fired, and nothing holds the job so far."""
        return self.preempt_fired and self.hold is None


class Preempting(Struct, frozen=True):
    """Getting rid of a job, or of an idle claim."""

    claim: Claim
    run: Run | None
    doing: Vacating | Killing
    cause: Cause
    waiting: Waiting | None = None
    state = State.PREEMPTING

    @property
    def activity(self) -> Activity:
        """Vacating, or Killing."""
        return Activity.VACATING if isinstance(self.doing, Vacating) else Activity.KILLING

    @property
    def may_hold(self) -> bool:
        """As for :class:`Claimed`; a job that its schedd took back is not held any more."""
        return self.cause.by_preempt and self.cause.tell_schedd and not self.cause.hold


class Backfill(Struct, frozen=True):
    """Filler work. While it is killed, ``claim`` (of fetched work: with its ``run``) or a match may wait for its end,
    or the slot is ``leaving``."""

    activity: Activity = Activity.IDLE
    again_at: float = 0
    claim: Claim | None = None
    run: Run | None = None
    matched: bool = False
    leaving: bool = False
    state = State.BACKFILL


class Drained(Struct, frozen=True):
    """Empty by an administrator's wish; ``complete`` once all slots are."""

    complete: bool = False
    state = State.DRAINED

    @property
    def activity(self) -> Activity:
        """Retiring until all slots are drained, then Idle."""
        return Activity.IDLE if self.complete else Activity.RETIRING


class Deleted(Struct, frozen=True):
    """A dynamic slot that is about to vanish."""

    state = State.DELETE
    activity = Activity.NONE


SlotState = Owner | Unclaimed | Matched | Claimed | Preempting | Backfill | Drained | Deleted


# ---------------------------------------------------------------------------------------------------------- the slot


class Draining(Struct, frozen=True):
    """An order to empty the machine, as one slot sees it. ``schedule``: 0 graceful, 10 quick, 20 fast."""

    schedule: int
    request_id: str
    reason: str
    began_at: float


class Counters(Struct, frozen=True):
    """How often things happened on a slot since the startd began.

    A preemption is a better claim that was taken in for a slot in use; jobs that leave for other reasons are none.
    """

    job_starts: int = 0
    job_preemptions: int = 0
    rank_preemptions: int = 0
    priority_preemptions: int = 0

    def preempted(self, by_rank: bool) -> Counters:
        """One more preemption, by the machine's rank or by the submitters' priorities."""
        return replace(
            self,
            job_preemptions=self.job_preemptions + 1,
            rank_preemptions=self.rank_preemptions + by_rank,
            priority_preemptions=self.priority_preemptions + (not by_rank),
        )


class Slot(Struct, frozen=True):
    """A slot as its state machine sees it. ``totals`` has the seconds of all former stays by state and activity."""

    name: str
    kind: SlotKind
    state: SlotState
    entered_state: float
    entered_activity: float
    totals: Mapping[tuple[State, Activity], float] = field(default_factory=dict)
    draining: Draining | None = None
    shutdown: str | None = None
    #: Why the slot cannot be used, if so; and SlotBrokenCode.
    broken: str | None = None
    broken_code: int = 0
    #: A dynamic slot that stays when it is broken (CONTINUE_TO_ADVERTISE_BROKEN_DYNAMIC_SLOTS).
    lasting: bool = False
    counters: Counters = field(default_factory=Counters)

    @property
    def state_activity(self) -> tuple[State, Activity]:
        """State and activity by name."""
        return self.state.state, self.state.activity

    @property
    def vanishes(self) -> bool:
        """A dynamic slot that is deleted when nothing is to be done with it."""
        stays = self.broken is not None and (self.lasting or self.broken_code == BrokenCode.HUNG_CGROUP)
        return self.kind is SlotKind.DYNAMIC and not stays

    @property
    def claim(self) -> Claim | None:
        """The present claim, if any."""
        return self.state.claim if isinstance(self.state, Claimed | Preempting) else None

    @property
    def run(self) -> Run | None:
        """The job there is, if any."""
        return self.state.run if isinstance(self.state, Claimed | Preempting) else None

    def lease_ends(self, claim: Claim) -> float:
        """When the lease of its claim runs out. After a restart of the startd, a claim that runs nothing lasts for
        :data:`UNHEARD_S` at most unless its schedd calls."""
        if claim.unheard_since is None or self.run is not None:
            return claim.lease_ends()
        return min(claim.lease_ends(), max(claim.unheard_since, self.entered_activity) + UNHEARD_S)

    def time_in(self, now: float) -> dict[tuple[State, Activity], float]:
        """Seconds spent in each state and activity, the present stay included."""
        times = dict(self.totals)
        times[self.state_activity] = times.get(self.state_activity, 0.0) + max(0.0, now - self.entered_activity)
        return times


# ---------------------------------------------------------------------------------------------------------- the table


#: A state and an activity: what a slot does, by name.
StateActivity = tuple[State, Activity]
Transition = Move[StateActivity]


def _row(number: int | None, before: str, after: str, when: str) -> Transition:
    return Transition(_places(before), _places(after), when, number)


def _places(text: str) -> tuple[StateActivity, ...]:
    """``Claimed/Busy,Suspended`` as pairs."""
    state, _, activities = text.partition("/")
    return tuple((State(state), Activity(name)) for name in activities.split(","))


TRANSITIONS = MoveTable(
    "a slot",
    (
        _row(1, "Owner/Idle", "Unclaimed/Idle", "IS_OWNER is no longer true"),
        _row(2, "Unclaimed/Idle", "Owner/Idle", "IS_OWNER is true"),
        _row(3, "Unclaimed/Idle", "Unclaimed/Benchmarking", "RunBenchmarks is true"),
        _row(4, "Unclaimed/Benchmarking", "Unclaimed/Idle", "benchmarks are done"),
        _row(5, "Unclaimed/Idle,Benchmarking", "Claimed/Idle", "a schedd claims the slot; fetched work is accepted"),
        _row(6, "Unclaimed/Idle,Benchmarking", "Matched/Idle", "the negotiator tells of a match"),
        _row(7, "Unclaimed/Idle", "Backfill/Idle", "START_BACKFILL is true"),
        _row(8, "Matched/Idle", "Owner/Idle", "START is false, or MATCH_TIMEOUT passed"),
        _row(9, "Matched/Idle", "Claimed/Idle", "the matched schedd claims the slot"),
        _row(
            10,
            "Claimed/Idle",
            "Preempting/Vacating,Killing",
            "better claim, IS_OWNER, release, lease, work life, draining, no more work to fetch",
        ),
        _row(11, "Claimed/Idle", "Claimed/Busy", "the schedd activates the claim; fetched work starts"),
        _row(12, "Claimed/Busy,Suspended,Cleaning", "Claimed/Idle", "the job ended"),
        _row(13, "Claimed/Busy", "Claimed/Retiring", "PREEMPT, better claim, vacate or drain, gracefully"),
        _row(14, "Claimed/Busy", "Claimed/Suspended", "WANT_SUSPEND and SUSPEND; suspend command"),
        _row(15, "Claimed/Suspended", "Claimed/Busy", "CONTINUE is true; continue command"),
        _row(16, "Claimed/Suspended", "Claimed/Retiring", "PREEMPT is true; CONTINUE in retirement"),
        _row(17, "Claimed/Suspended", "Preempting/Vacating,Killing", "retirement is over, or the claim ends at once"),
        _row(
            18, "Claimed/Retiring", "Preempting/Vacating,Killing", "retirement is over, the job ended, or fast vacate"
        ),
        _row(19, "Claimed/Retiring", "Claimed/Busy", "the cause of retirement has gone"),
        _row(20, "Claimed/Retiring", "Claimed/Suspended", "WANT_SUSPEND and SUSPEND; suspend command"),
        _row(21, "Preempting/Vacating", "Preempting/Killing", "KILL is true, or vacate time is used up"),
        _row(22, "Preempting/Killing", "Owner/Idle", "job gone, nobody waits"),
        _row(23, "Preempting/Killing", "Claimed/Idle", "job gone, waiting claim accepted"),
        _row(24, "Preempting/Vacating", "Claimed/Idle", "job gone, waiting claim accepted"),
        _row(25, "Preempting/Vacating", "Owner/Idle", "job gone, nobody waits"),
        _row(26, "Backfill/Idle", "Backfill/Busy", "filler started"),
        _row(27, "Backfill/Busy", "Backfill/Idle", "filler ended"),
        _row(28, "Backfill/Busy", "Backfill/Killing", "EVICT_BACKFILL, match or claim"),
        _row(29, "Backfill/Killing", "Backfill/Idle", "filler gone, nothing pending"),
        _row(30, "Backfill/Idle", "Owner/Idle", "EVICT_BACKFILL is true"),
        _row(31, "Backfill/Idle,Killing", "Matched/Idle", "the negotiator tells of a match"),
        _row(32, "Backfill/Idle,Killing", "Claimed/Idle", "a schedd claims the slot; fetched work is accepted"),
        _row(33, "Drained/Retiring", "Drained/Idle", "all slots are drained"),
        _row(34, "Drained/Retiring", "Owner/Idle", "draining is cancelled"),
        _row(35, "Drained/Idle", "Owner/Idle", "draining is cancelled, or its end resumes"),
        _row(36, "Owner/Idle", "Drained/Retiring", "draining"),
        _row(37, "Unclaimed/Idle", "Drained/Retiring", "draining"),
        _row(None, "Claimed/Busy,Suspended,Retiring", "Claimed/Cleaning", "the job's last report"),
        _row(None, "Claimed/Busy,Cleaning", "Preempting/Vacating,Killing", "release, lease end, fast vacate or drain"),
        _row(None, "Owner/Idle", "Claimed/Idle", "fetched work is accepted"),
        _row(None, "Owner/Idle", "Delete/None", "dynamic slot with nothing to do"),
        _row(None, "Unclaimed/Idle,Benchmarking", "Delete/None", "dynamic slot with nothing to do"),
        _row(None, "Drained/Retiring,Idle", "Delete/None", "dynamic slot with nothing to do"),
    ),
)
