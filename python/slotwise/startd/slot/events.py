"""The events of a slot's state machine, the evaluated policy, and the actions that follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from slotwise.model.claim import Claim, Run
from slotwise.model.slot import Activity, BrokenCode, State, VacateCode
from slotwise.startd.slot.states import Cause, Draining, Hold, Slot

# --------------------------------------------------------------------------------------------------------------- policy


@dataclass(frozen=True, slots=True)
class PolicyEval:
    """What the owner's expressions say about a slot now. Times in seconds; ``worklife_s`` None: unlimited.

    ``start`` is None where START needs a job and there is none. ``longest_retirement_s``: over the machine's jobs that
    were not accepted while draining. ``waiting_start``: START for the claim that waits.
    """

    start: bool | None = True
    is_owner: bool = False
    suspend: bool = False
    continue_: bool = True
    preempt: bool = False
    kill: bool = False
    want_suspend: bool = False
    want_vacate: bool = True
    want_hold: Hold | None = None
    run_benchmarks: bool = False
    machine_retirement_s: float = 0
    #: The job's own MaxJobRetirementTime now, where it says one.
    job_retirement_s: float | None = None
    machine_vacate_s: float = 600
    worklife_s: float | None = 1200
    longest_retirement_s: float = 0
    start_in_force: bool = False
    waiting_start: bool | None = True
    all_drained: bool = False
    start_backfill: bool = False
    evict_backfill: bool = False
    killing_timeout_s: float = 30
    match_timeout_s: float = 120
    drain_grace_s: float = 20
    #: What primary slots use of a backfill slot's, when that ends its claim (then ``preempt`` is true, too).
    conflict: str = ""


#: Evaluates the policy for a slot as it is at this moment of the step.
EvaluatePolicy: TypeAlias = Callable[[Slot], PolicyEval]


# -------------------------------------------------------------------------------------------------------------- stimuli


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Time has passed: look at timers and policy."""


@dataclass(frozen=True, slots=True)
class MatchNoticed:
    """The negotiator matched this slot."""


@dataclass(frozen=True, slots=True)
class MatchFailed:
    """The matched schedd came, and could not have the slot."""


@dataclass(frozen=True, slots=True)
class ClaimRequested:
    """A schedd with the right capability wants the slot."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class WorkFetched:
    """A hook has fetched work that suits the slot: ``run`` is to start under ``claim``, or under the idle claim of
    fetched work that there is."""

    claim: Claim
    run: Run


@dataclass(frozen=True, slots=True)
class NoWorkFetched:
    """The hook has no work for the slot, or none that it takes: an idle claim of fetched work ends."""

    reason: str = "There is no more work to fetch"


@dataclass(frozen=True, slots=True)
class PreempterWithdrawn:
    """The schedd whose claim waits has gone."""


@dataclass(frozen=True, slots=True)
class Activated:
    """The schedd starts a job under its claim."""

    run: Run


@dataclass(frozen=True, slots=True)
class RunFinishing:
    """The job's last report is there; its leftovers are being removed."""


@dataclass(frozen=True, slots=True)
class RunGone:
    """Nothing is left of the job. ``broken``: something is, so the slot must not be used: why, and SlotBrokenCode.
    ``unfinished``: why fetched work did not come to its end; its claim ends then."""

    broken: str | None = None
    code: int = BrokenCode.UNCLEAN
    unfinished: str = ""


@dataclass(frozen=True, slots=True)
class Deactivated:
    """The schedd ends the job and keeps the claim."""

    fast: bool
    reason: str = "The access point ended the job"
    code: int = VacateCode.CLAIM_DEACTIVATED


@dataclass(frozen=True, slots=True)
class Released:
    """The schedd gives the claim back."""

    fast: bool = False
    reason: str = "The access point released the claim"
    code: int = VacateCode.RELEASE_COMMAND


@dataclass(frozen=True, slots=True)
class KeptAlive:
    """The schedd was heard of."""


@dataclass(frozen=True, slots=True)
class SuspendCommanded:
    """The schedd or an administrator freezes the job."""


@dataclass(frozen=True, slots=True)
class ContinueCommanded:
    """And lets it go on."""


@dataclass(frozen=True, slots=True)
class VacateCommanded:
    """An administrator wants the job to leave; with ``fast`` at once."""

    fast: bool = False


@dataclass(frozen=True, slots=True)
class DrainBegun:
    """An administrator wants the machine empty."""

    draining: Draining


@dataclass(frozen=True, slots=True)
class DrainEnded:
    """Draining is cancelled, or it is complete and the machine goes back to work."""


@dataclass(frozen=True, slots=True)
class ShutdownBegun:
    """The startd is to end: ``graceful``, ``fast`` or ``peaceful``."""

    mode: str


@dataclass(frozen=True, slots=True)
class BenchmarksDone:
    """The benchmarks have a result."""


@dataclass(frozen=True, slots=True)
class ShadowLost:
    """The starter has given up on the shadow: the lease ends now."""


@dataclass(frozen=True, slots=True)
class EvictedForPslot:
    """The claim makes room for another one of its partitionable slot (pslot preemption): killed at once."""


@dataclass(frozen=True, slots=True)
class BackfillStarted:
    """The backfill client runs."""


@dataclass(frozen=True, slots=True)
class BackfillEnded:
    """The backfill client has gone."""


@dataclass(frozen=True, slots=True)
class FoundBroken:
    """The slot must not be used any more; reason and SlotBrokenCode."""

    reason: str
    code: int = BrokenCode.UNCLEAN


@dataclass(frozen=True, slots=True)
class MarkedBroken:
    """The slot is broken, but its present job may end first; reason and SlotBrokenCode."""

    reason: str
    code: int = BrokenCode.UNCLEAN


@dataclass(frozen=True, slots=True)
class Repaired:
    """What broke the slot has been removed, or an administrator has looked after it."""


@dataclass(frozen=True, slots=True)
class ClockJumped:
    """The wall clock was set, or the host was asleep: leases and deadlines move by so many seconds."""

    by_s: float


@dataclass(frozen=True, slots=True)
class HibernateBegun:
    """The machine is about to go to sleep: jobs and filler work have to leave."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The startd could not process a message about the slot: its claim ends at once."""

    reason: str


SlotEvent = (
    Evaluate
    | MatchNoticed
    | MatchFailed
    | ClaimRequested
    | WorkFetched
    | NoWorkFetched
    | PreempterWithdrawn
    | Activated
    | RunFinishing
    | RunGone
    | Deactivated
    | Released
    | KeptAlive
    | SuspendCommanded
    | ContinueCommanded
    | VacateCommanded
    | DrainBegun
    | DrainEnded
    | ShutdownBegun
    | BenchmarksDone
    | ShadowLost
    | EvictedForPslot
    | BackfillStarted
    | BackfillEnded
    | FoundBroken
    | MarkedBroken
    | Repaired
    | ClockJumped
    | HibernateBegun
    | Abandoned
)


# -------------------------------------------------------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True)
class StartRun:
    """Have the starter run the job."""

    run: Run


@dataclass(frozen=True, slots=True)
class SoftKill:
    """Ask the job to end within ``vacate_s``."""

    run_id: str
    vacate_s: float
    cause: Cause


@dataclass(frozen=True, slots=True)
class HardKill:
    """Make the job end."""

    run_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class KillFamily:
    """SIGKILL for everything that is left of the run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class PauseRun:
    """Freeze the job's processes."""

    run_id: str


@dataclass(frozen=True, slots=True)
class ResumeRun:
    """Let them go on."""

    run_id: str


@dataclass(frozen=True, slots=True)
class ClaimGranted:
    """Tell the schedd that the slot is its own."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class ClaimQueued:
    """The request stays open until the present claim has gone."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """Tell the schedd why not."""

    claim_id: str
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class ActivationRefused:
    """Tell the schedd why the job cannot start."""

    run_id: str
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClaimChanged:
    """Tell the schedd what its claim does now."""

    claim_id: str
    state: State
    activity: Activity
    run_id: str


@dataclass(frozen=True, slots=True)
class ClaimEnded:
    """The claim has ended. ``cause.tell_schedd`` says whether the schedd hears of it."""

    claim_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class ReplaceClaimId:
    """The slot needs a fresh capability; the former one is void."""


@dataclass(frozen=True, slots=True)
class StartBenchmarks:
    """Run the benchmarks."""


@dataclass(frozen=True, slots=True)
class StopBenchmarks:
    """Give them up."""


@dataclass(frozen=True, slots=True)
class StartBackfill:
    """Run the backfill client for this slot."""


@dataclass(frozen=True, slots=True)
class StopBackfill:
    """This slot needs no backfill client any more; ``hard``: it was told before."""

    hard: bool


@dataclass(frozen=True, slots=True)
class DeleteSlot:
    """Give the dynamic slot's resources back and forget it."""


Action = (
    StartRun
    | SoftKill
    | HardKill
    | KillFamily
    | PauseRun
    | ResumeRun
    | ClaimGranted
    | ClaimQueued
    | ClaimRefused
    | ActivationRefused
    | ClaimChanged
    | ClaimEnded
    | ReplaceClaimId
    | StartBenchmarks
    | StopBenchmarks
    | StartBackfill
    | StopBackfill
    | DeleteSlot
)
