"""The state machine of a slot: ``step(slot, event, evaluate, now) -> (slot, actions)``. Pure.

``evaluate`` gives the owner's policy for the slot as it is at a given point of the step; a test gives a fixed one.
Events can be recorded with the policy that they met, and replayed (:mod:`slotwise.startd.slot.replay`).
"""

from __future__ import annotations

from msgspec import Struct

from slotwise.errors import InvariantError
from slotwise.model.slot import Activity, SlotKind
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.handlers import HANDLERS
from slotwise.startd.slot.policy_checks import advance
from slotwise.startd.slot.retirement import expires_at
from slotwise.startd.slot.states import (
    Backfill,
    Busy,
    Claimed,
    Idle,
    Matched,
    Preempting,
    Retiring,
    Slot,
    Suspended,
    Transition,
    Vacating,
)
from slotwise.startd.slot.transition_context import TransitionContext

#: A chain of moves ends here, to go on at the next poll: IS_OWNER may depend on State, and then never comes to rest.
_LONGEST_CHAIN = 8


class Step(Struct, frozen=True):
    """The outcome of one event.

    ``trace`` has the rows of the table that were taken, in order; ``policy`` the last evaluation of the step, if there
    was any.
    """

    slot: Slot
    actions: tuple[ev.Action, ...]
    trace: tuple[Transition, ...]
    policy: ev.PolicyEval | None = None


def step(slot: Slot, event: ev.SlotEvent, evaluate: ev.EvaluatePolicy, now: float) -> Step:
    """The slot after ``event`` at ``now``, and the actions that follow from it."""
    ctx = TransitionContext(slot, evaluate, now)
    HANDLERS[type(event)](ctx, event)
    for _ in range(_LONGEST_CHAIN):
        if not ctx.reevaluate:
            break
        ctx.reevaluate = False
        advance(ctx)
    return Step(ctx.slot, tuple(ctx.actions), tuple(ctx.trace), ctx.last_policy)


def next_timer(slot: Slot, policy: ev.PolicyEval, now: float) -> float | None:
    """When the slot must be looked at again even if nothing happens; None when no timer runs."""
    state = slot.state
    times: list[float] = []
    if isinstance(state, Matched):
        times.append(state.deadline)
    elif isinstance(state, Backfill) and state.activity is Activity.KILLING:
        times.append(state.again_at)
    elif isinstance(state, Preempting):
        doing = state.doing
        times.append(doing.hard_kill_at if isinstance(doing, Vacating) else doing.again_at)
    elif isinstance(state, Claimed):
        times.append(slot.lease_ends(state.claim))
        if state.ending:
            times.append(state.ending.hard_kill_at)
        if isinstance(state.doing, Retiring):
            over = expires_at(slot, policy, now)
            times += [] if over is None else [over]
        if isinstance(state.doing, Idle) and slot.draining and state.claim.activations == 0:
            times.append(state.claim.claimed_at + policy.drain_grace_s)
        if isinstance(state.doing, Idle) and policy.worklife_s is not None and state.claim.activations:
            times.append(state.claim.claimed_at + policy.worklife_s)
    return min(times) if times else None


def validate(slot: Slot) -> None:
    """Check what must hold for every slot.

    :raises InvariantError: when it does not.
    """
    state = slot.state
    if slot.kind is SlotKind.PARTITIONABLE and slot.run is not None:
        raise InvariantError(f"{slot.name}: a partitionable slot runs a job itself")
    if slot.entered_activity < slot.entered_state:
        raise InvariantError(f"{slot.name}: the activity is older than the state")
    run = slot.run
    frozen = isinstance(state, Claimed) and isinstance(state.doing, Suspended)
    working = isinstance(state, Claimed) and isinstance(state.doing, Busy | Retiring)
    if run is not None and ((frozen and run.running_since is not None) or (working and run.running_since is None)):
        raise InvariantError(f"{slot.name}: the job's clock and the activity {slot.state_activity[1]} disagree")
    if isinstance(state, Preempting) and state.run is None:
        raise InvariantError(f"{slot.name}: Preempting, but there is no job to get rid of")
