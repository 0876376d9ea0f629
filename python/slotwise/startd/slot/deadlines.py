"""Leases and deadlines after a jump of the wall clock.

Times in slots are wall-clock times, as ads and policies show them. What ends claims and kills jobs must not follow a
jump: a step of an hour would end every lease, or keep every job for an hour too long.
"""

from __future__ import annotations

from msgspec.structs import replace

from slotwise.model.claim import Claim, Run
from slotwise.startd.slot.states import (
    Backfill,
    Busy,
    Claimed,
    Cleaning,
    Matched,
    Preempting,
    Retiring,
    Slot,
    SlotState,
    Suspended,
    Vacating,
    Waiting,
)


def deferred(slot: Slot, by_s: float) -> Slot:
    """The slot with all that ends claims and jobs later by ``by_s``; its dates (entered, claimed, started) stay."""
    return replace(slot, state=_state(slot.state, by_s))


def _state(state: SlotState, by_s: float) -> SlotState:
    match state:
        case Matched(deadline):
            return Matched(deadline + by_s)
        case Backfill():
            return replace(state, again_at=state.again_at + by_s)
        case Preempting():
            doing = state.doing
            later = (
                replace(doing, hard_kill_at=doing.hard_kill_at + by_s)
                if isinstance(doing, Vacating)
                else replace(doing, again_at=doing.again_at + by_s)
            )
            run = None if state.run is None else _run(state.run, by_s)
            return replace(
                state, claim=_claim(state.claim, by_s), run=run, doing=later, waiting=_waiting(state.waiting, by_s)
            )
        case Claimed():
            at_work = state.doing
            if isinstance(at_work, Busy | Suspended | Retiring | Cleaning):
                at_work = replace(at_work, run=_run(at_work.run, by_s))
            ending = state.ending
            if ending is not None:
                ending = replace(ending, hard_kill_at=ending.hard_kill_at + by_s)
            return replace(
                state,
                claim=_claim(state.claim, by_s),
                doing=at_work,
                waiting=_waiting(state.waiting, by_s),
                ending=ending,
            )
    return state


def _claim(claim: Claim, by_s: float) -> Claim:
    ends_at = None if claim.ends_at is None else claim.ends_at + by_s
    unheard_since = None if claim.unheard_since is None else claim.unheard_since + by_s
    return replace(claim, last_alive=claim.last_alive + by_s, ends_at=ends_at, unheard_since=unheard_since)


def _run(run: Run, by_s: float) -> Run:
    return run if run.running_since is None else replace(run, running_since=run.running_since + by_s)


def _waiting(waiting: Waiting | None, by_s: float) -> Waiting | None:
    return None if waiting is None else replace(waiting, claim=_claim(waiting.claim, by_s))
