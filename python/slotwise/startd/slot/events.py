"""The events of a slot's state machine, the evaluated policy, and the actions that follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from slotwise.model.claim import Claim, Run
from slotwise.model.slot import Activity, BrokenCode, State, VacateCode
from slotwise.startd.slot.states import Cause, Draining, Hold, Slot

# --------------------------------------------------------------------------------------------------------------- policy


class PolicyEval(Struct, frozen=True):
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


class Evaluate(Struct, frozen=True):
    """Time has passed: look at timers and policy."""


class MatchNoticed(Struct, frozen=True):
    """The negotiator matched this slot."""


class MatchFailed(Struct, frozen=True):
    """The matched schedd came, and could not have the slot."""


class ClaimRequested(Struct, frozen=True):
    """A schedd with the right capability wants the slot."""

    claim: Claim


class WorkFetched(Struct, frozen=True):
    """A hook has fetched work that suits the slot: ``run`` is to start under ``claim``, or under the idle claim of
    fetched work that there is."""

    claim: Claim
    run: Run


class NoWorkFetched(Struct, frozen=True):
    """The hook has no work for the slot, or none that it takes: an idle claim of fetched work ends."""

    reason: str = "There is no more work to fetch"


class PreempterWithdrawn(Struct, frozen=True):
    """The schedd whose claim waits has gone."""


class Activated(Struct, frozen=True):
    """The schedd starts a job under its claim."""

    run: Run


class Checkpointing(Struct, frozen=True):
    """The job has ended with a checkpoint, and is to be started again once that is safe."""


class RunFinishing(Struct, frozen=True):
    """The job's last report is there; its leftovers are being removed."""


class RunGone(Struct, frozen=True):
    """Nothing is left of the job. ``broken``: something is, so the slot must not be used: why, and SlotBrokenCode.
    ``unfinished``: why fetched work did not come to its end; its claim ends then."""

    broken: str | None = None
    code: int = BrokenCode.UNCLEAN
    unfinished: str = ""


class Deactivated(Struct, frozen=True):
    """The schedd ends the job and keeps the claim."""

    fast: bool
    reason: str = "The access point ended the job"
    code: int = VacateCode.CLAIM_DEACTIVATED


class Released(Struct, frozen=True):
    """The schedd gives the claim back."""

    fast: bool = False
    reason: str = "The access point released the claim"
    code: int = VacateCode.RELEASE_COMMAND


class KeptAlive(Struct, frozen=True):
    """The schedd was heard of."""


class SuspendCommanded(Struct, frozen=True):
    """The schedd or an administrator freezes the job."""


class ContinueCommanded(Struct, frozen=True):
    """And lets it go on."""


class VacateCommanded(Struct, frozen=True):
    """An administrator wants the job to leave; with ``fast`` at once."""

    fast: bool = False


class DrainBegun(Struct, frozen=True):
    """An administrator wants the machine empty."""

    draining: Draining


class DrainEnded(Struct, frozen=True):
    """Draining is cancelled, or it is complete and the machine goes back to work."""


class ShutdownBegun(Struct, frozen=True):
    """The startd is to end: ``graceful``, ``fast`` or ``peaceful``."""

    mode: str


class BenchmarksDone(Struct, frozen=True):
    """The benchmarks have a result."""


class ShadowLost(Struct, frozen=True):
    """The starter has given up on the shadow: the lease ends now."""


class EvictedForPslot(Struct, frozen=True):
    """The claim makes room for another one of its partitionable slot (pslot preemption): killed at once."""


class BackfillStarted(Struct, frozen=True):
    """The backfill client runs."""


class BackfillEnded(Struct, frozen=True):
    """The backfill client has gone."""


class FoundBroken(Struct, frozen=True):
    """The slot must not be used any more; reason and SlotBrokenCode."""

    reason: str
    code: int = BrokenCode.UNCLEAN


class MarkedBroken(Struct, frozen=True):
    """The slot is broken, but its present job may end first; reason and SlotBrokenCode."""

    reason: str
    code: int = BrokenCode.UNCLEAN


class Repaired(Struct, frozen=True):
    """What broke the slot has been removed, or an administrator has looked after it."""


class ClockJumped(Struct, frozen=True):
    """The wall clock was set, or the host was asleep: leases and deadlines move by so many seconds."""

    by_s: float


class HibernateBegun(Struct, frozen=True):
    """The machine is about to go to sleep: jobs and filler work have to leave."""


class Abandoned(Struct, frozen=True):
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
    | Checkpointing
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


class StartRun(Struct, frozen=True):
    """Have the starter run the job."""

    run: Run


class SoftKill(Struct, frozen=True):
    """Ask the job to end within ``vacate_s``."""

    run_id: str
    vacate_s: float
    cause: Cause


class HardKill(Struct, frozen=True):
    """Make the job end."""

    run_id: str
    cause: Cause


class KillFamily(Struct, frozen=True):
    """SIGKILL for everything that is left of the run."""

    run_id: str


class PauseRun(Struct, frozen=True):
    """Freeze the job's processes."""

    run_id: str


class ResumeRun(Struct, frozen=True):
    """Let them go on."""

    run_id: str


class ClaimGranted(Struct, frozen=True):
    """Tell the schedd that the slot is its own."""

    claim: Claim


class ClaimQueued(Struct, frozen=True):
    """The request stays open until the present claim has gone."""

    claim: Claim


class ClaimRefused(Struct, frozen=True):
    """Tell the schedd why not."""

    claim_id: str
    code: int
    reason: str


class ActivationRefused(Struct, frozen=True):
    """Tell the schedd why the job cannot start."""

    run_id: str
    code: int
    reason: str


class ClaimChanged(Struct, frozen=True):
    """Tell the schedd what its claim does now."""

    claim_id: str
    state: State
    activity: Activity
    run_id: str


class ClaimEnded(Struct, frozen=True):
    """The claim has ended. ``cause.tell_schedd`` says whether the schedd hears of it."""

    claim_id: str
    cause: Cause


class ReplaceClaimId(Struct, frozen=True):
    """The slot needs a fresh capability; the former one is void."""


class StartBenchmarks(Struct, frozen=True):
    """Run the benchmarks."""


class StopBenchmarks(Struct, frozen=True):
    """Give them up."""


class StartBackfill(Struct, frozen=True):
    """Run the backfill client for this slot."""


class StopBackfill(Struct, frozen=True):
    """This slot needs no backfill client any more; ``hard``: it was told before."""

    hard: bool


class DeleteSlot(Struct, frozen=True):
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
