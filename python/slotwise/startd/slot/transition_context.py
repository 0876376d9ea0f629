"""The context of one step of a slot's state machine: the slot and the actions so far, and common moves."""

from __future__ import annotations

from msgspec.structs import replace

from slotwise.model.claim import Claim, Run
from slotwise.model.slot import Activity, State
from slotwise.startd.slot.events import (
    Action,
    ClaimChanged,
    ClaimEnded,
    ClaimGranted,
    ClaimRefused,
    DeleteSlot,
    EvaluatePolicy,
    HardKill,
    PolicyEval,
    ReplaceClaimId,
    ResumeRun,
    SoftKill,
    StartRun,
)
from slotwise.startd.slot.retirement import vacate_time
from slotwise.startd.slot.states import (
    TRANSITIONS,
    Busy,
    Cause,
    Claimed,
    Cleaning,
    Deleted,
    Hold,
    Idle,
    Killing,
    Owner,
    Preempting,
    Retiring,
    Slot,
    SlotState,
    Suspended,
    Transition,
    Vacating,
)

#: Entering one of these looks at the policy at once, not at the next poll.
_LOOKS_AT_ONCE = frozenset({Activity.IDLE, Activity.RETIRING})


class TransitionContext:
    """Moves a slot along the table and collects the actions. Lives for one step."""

    def __init__(self, slot: Slot, evaluate: EvaluatePolicy, now: float) -> None:
        self.slot = slot
        self.now = now
        self.actions: list[Action] = []
        self.trace: list[Transition] = []
        self.reevaluate = False
        self._evaluate = evaluate
        self._evaluated: tuple[Slot, PolicyEval] | None = None

    @property
    def policy(self) -> PolicyEval:
        """What the policy says about the slot as it is at this point of the step."""
        if self._evaluated is None or self._evaluated[0] is not self.slot:
            self._evaluated = (self.slot, self._evaluate(self.slot))
        return self._evaluated[1]

    @property
    def last_policy(self) -> PolicyEval | None:
        """The last evaluation of the step; None when nothing asked for one."""
        return None if self._evaluated is None else self._evaluated[1]

    def do(self, *actions: Action) -> None:
        """Add what is to be done."""
        self.actions.extend(actions)

    def enter(self, state: SlotState) -> None:
        """Go to ``state``; checked against the table unless only the data changes."""
        slot = self.slot
        before, after = slot.state_activity, (state.state, state.activity)
        if before == after:
            self.slot = replace(slot, state=state)
            return
        self.trace.append(TRANSITIONS.row(before, after))
        totals = dict(slot.totals)
        totals[before] = totals.get(before, 0.0) + max(0.0, self.now - slot.entered_activity)
        entered_state = slot.entered_state if before[0] == after[0] else self.now
        self.slot = replace(slot, state=state, entered_state=entered_state, entered_activity=self.now, totals=totals)
        self.reevaluate = self.reevaluate or state.activity in _LOOKS_AT_ONCE

    # ------------------------------------------------------------------------------------------------ common moves

    def report(self, run: Run | None) -> None:
        """Tell the schedd what its claim does now."""
        claim = self.slot.claim
        if claim is not None:
            state, activity = self.slot.state_activity
            self.do(ClaimChanged(claim.claim_id, state, activity, run.run_id if run else ""))

    def retire(self, cause: Cause, *, irrevocable: bool, by_preempt: bool = False) -> None:
        """Begin retirement of the job, which ends when its cause goes away unless ``irrevocable``.

        Without a job the claim ends."""
        state = self.slot.state
        if not isinstance(state, Claimed):
            return
        if isinstance(state.doing, Idle):
            self.preempt(cause)
            return
        if isinstance(state.doing, Cleaning):
            if irrevocable:
                self.leave_after_cleaning(state, cause)
            return
        run, hold = state.doing.run, self.policy.want_hold if by_preempt else None
        if isinstance(state.doing, Suspended):
            self.do(ResumeRun(run.run_id))
            run = run.resumed(self.now)
        self.enter(
            replace(
                state,
                doing=Retiring(run),
                irrevocable=state.irrevocable or irrevocable,
                preempt_fired=state.preempt_fired or by_preempt,
                hold=state.hold or hold,
                pending_cause=cause if irrevocable or state.pending_cause is None else state.pending_cause,
            )
        )
        self.report(run)
        self.reevaluate = True

    def leave_after_cleaning(self, state: Claimed, cause: Cause) -> None:
        """A claim in Cleaning ends once the cleaning has."""
        if isinstance(state.doing, Cleaning):
            self.enter(replace(state, doing=Cleaning(state.doing.run, cause), irrevocable=True))

    def preempt(self, cause: Cause) -> None:
        """End the claim: ask the job to go, or make it, or leave at once when there is none."""
        state = self.slot.state
        if isinstance(state, Preempting):
            self._harden(state, cause)
            return
        if not isinstance(state, Claimed):
            return
        if isinstance(state.doing, Cleaning):
            self.leave_after_cleaning(state, cause)
            return
        policy, run = self.policy, state.run
        if state.preempt_fired and cause.tell_schedd:
            cause = replace(cause, by_preempt=True)
        soft = not cause.fast and (not cause.by_preempt or policy.want_vacate)
        vacate_s = vacate_time(self.slot, policy, self.now)
        if isinstance(state.doing, Suspended) and run is not None and soft:
            self.do(ResumeRun(run.run_id))  # a frozen job could not handle the signal
            run = run.resumed(self.now)
        if cause.by_preempt:
            cause = _with_hold(cause, state.hold or policy.want_hold)
        doing = Vacating(self.now + vacate_s) if soft else Killing(self.now + policy.killing_timeout_s)
        self.enter(Preempting(state.claim, run, doing, cause, state.waiting))
        if run is None:
            self.leave()
            return
        self.do(SoftKill(run.run_id, vacate_s, cause) if soft else HardKill(run.run_id, cause))
        self.report(run)

    def _harden(self, state: Preempting, cause: Cause) -> None:
        """A second reason to leave: it can only make things faster, and the schedd's own silences the report."""
        kept = state.cause if cause.tell_schedd else replace(state.cause, tell_schedd=False)
        self.enter(replace(state, cause=kept))
        if cause.fast:
            self.kill()

    def kill(self) -> None:
        """From Vacating to Killing."""
        state = self.slot.state
        if not isinstance(state, Preempting) or not isinstance(state.doing, Vacating):
            return
        cause = _with_hold(state.cause, self.policy.want_hold) if state.may_hold else state.cause
        self.enter(replace(state, doing=Killing(self.now + self.policy.killing_timeout_s), cause=cause))
        if state.run is not None:
            self.do(HardKill(state.run.run_id, cause))
        self.report(state.run)

    def leave(self) -> None:
        """The job has gone: to the waiting claim if it is still welcome, else to the owner."""
        state = self.slot.state
        if not isinstance(state, Preempting):
            return
        self.do(ClaimEnded(state.claim.claim_id, state.cause))
        waiting, welcome = state.waiting, self.waiting_is_welcome()
        if waiting is not None and welcome:
            claim = replace(waiting.claim, claimed_at=self.now, last_alive=self.now)
            self.take(claim, waiting.run)
            return
        if waiting is not None:
            self.do(ClaimRefused(waiting.claim.claim_id, 0, "the slot is no longer willing"))
        self.enter(Owner())
        self.do(ReplaceClaimId())

    def take(self, claim: Claim, run: Run | None) -> None:
        """Give the slot to ``claim``; fetched work starts with it."""
        claimed = Claimed(claim)
        self.enter(claimed)
        self.do(ClaimGranted(claim), ReplaceClaimId())
        if run is not None:
            self.begin(claimed, run)

    def begin(self, state: Claimed, run: Run) -> None:
        """Start a job under an idle claim."""
        started = replace(
            run,
            activated_at=self.now,
            machine_vacate_s=self.policy.machine_vacate_s,
            accepted_while_draining=self.slot.draining is not None,
        ).resumed(self.now)
        claim = replace(state.claim, activations=state.claim.activations + 1, last_alive=self.now, unheard_since=None)
        self.enter(replace(state, claim=claim, doing=Busy(started), ending=None))
        counters = self.slot.counters
        self.slot = replace(self.slot, counters=replace(counters, job_starts=counters.job_starts + 1))
        self.do(StartRun(started))

    def delete(self) -> None:
        """A dynamic slot vanishes."""
        self.enter(Deleted())
        self.do(DeleteSlot())

    def waiting_is_welcome(self) -> bool:
        """Whether the claim that waits would get the slot if the present one ended now."""
        slot = self.slot
        closed = slot.broken or slot.shutdown or slot.draining
        return not closed and self.policy.waiting_start is not False

    def is_in(self, state: State) -> bool:
        """Whether the slot is in ``state`` at this point."""
        return self.slot.state.state is state


def _with_hold(cause: Cause, hold: Hold | None) -> Cause:
    return cause if hold is None else replace(cause, hold=True, reason=hold.reason, subcode=hold.subcode)
