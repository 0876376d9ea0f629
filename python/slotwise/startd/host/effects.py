"""What the actions of a slot's state machine mean for the whole host: messages, commands, amounts, claim ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slotwise.model.slot import Activity, VacateCode
from slotwise.startd.host import broken_slots, hook_notices
from slotwise.startd.host.outbox import (
    ActivatedRun,
    Ended,
    Freeze,
    Granted,
    Kill,
    NowIn,
    Refused,
    RefusedRun,
    Start,
    ToSchedd,
)
from slotwise.startd.records.slot_record import Holding
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Cause, Claimed, Preempting

if TYPE_CHECKING:
    from slotwise.startd.host.execution_point import ExecutionPoint


def _start(point: ExecutionPoint, h: Holding, action: ev.StartRun, now: float) -> None:
    point.by_run[action.run.run_id] = h.name
    h.finished = False
    if h.coming is not None and h.coming.activation.run_id == action.run.run_id:
        h.activation, h.coming = h.coming.activation, None
    point.cron.job_begins(h.slot_id, h.ad, now)
    point.outbox.starter.append(Start(h.name, action.run.run_id))
    claim = h.slot.claim
    if claim is not None and not claim.fetched:
        point.tell(h, claim.claim_id, ActivatedRun(action.run.run_id))


def _soft(point: ExecutionPoint, h: Holding, action: ev.SoftKill, now: float) -> None:
    _book_drained(point, h, action.cause, now)
    point.outbox.starter.append(Kill(action.run_id, False, action.cause, action.vacate_s))


def _hard(point: ExecutionPoint, h: Holding, action: ev.HardKill, now: float) -> None:
    point.outbox.starter.append(Kill(action.run_id, True, action.cause))


def _book_drained(point: ExecutionPoint, h: Holding, cause: Cause, now: float) -> None:
    """A graceful drain costs what the jobs did that it really evicts."""
    run, order = h.slot.run, point.order
    if order is not None and order.schedule == 0 and run is not None and cause.code == VacateCode.DRAINING:
        point.book.badput_cpu_s += h.total.cpus * run.ran(now)


def _family(point: ExecutionPoint, h: Holding, action: ev.KillFamily, now: float) -> None:
    cause = Cause(VacateCode.VACATE_COMMAND, "everything that is left of the job is killed", fast=True)
    point.outbox.starter.append(Kill(action.run_id, True, cause))


def _pause(point: ExecutionPoint, h: Holding, action: ev.PauseRun, now: float) -> None:
    point.outbox.starter.append(Freeze(action.run_id, resume=False))


def _resume(point: ExecutionPoint, h: Holding, action: ev.ResumeRun, now: float) -> None:
    point.outbox.starter.append(Freeze(action.run_id, resume=True))


def _granted(point: ExecutionPoint, h: Holding, action: ev.ClaimGranted, now: float) -> None:
    if h.waiting is not None and h.waiting_terms is not None:
        h.request, h.terms, h.waiting, h.waiting_terms = h.waiting, h.waiting_terms, None, None
    point.show(h, now)
    h.askers.pop(action.claim.claim_id, None)
    if not action.claim.fetched:
        point.tell(h, action.claim.claim_id, Granted(((action.claim.claim_id, h.name),)))


def _queued(point: ExecutionPoint, h: Holding, action: ev.ClaimQueued, now: float) -> None:
    """The answer comes when the present claim has gone."""


def _refused(point: ExecutionPoint, h: Holding, action: ev.ClaimRefused, now: float) -> None:
    coming = h.coming
    if coming is not None and coming.claim_id == action.claim_id:
        if coming.accepted:
            h.coming = None
            hook_notices.evict(point, h, coming, Cause(action.code, action.reason))
    else:
        waiting = h.waiting_terms.schedd_name if h.waiting_terms else None
        asker = h.askers.pop(action.claim_id, "") or waiting
        point.tell(h, action.claim_id, Refused(action.code, action.reason), schedd=asker)
    waits = isinstance(h.slot.state, Claimed | Preempting) and h.slot.state.waiting is not None
    if not waits:
        h.waiting = h.waiting_terms = None


def _not_activated(point: ExecutionPoint, h: Holding, action: ev.ActivationRefused, now: float) -> None:
    claim = h.slot.claim
    claim_id = claim.claim_id if claim else ""
    point.tell(h, claim_id, RefusedRun(action.run_id, action.code, action.reason))


def _changed(point: ExecutionPoint, h: Holding, action: ev.ClaimChanged, now: float) -> None:
    if action.activity is Activity.IDLE:
        point.by_run.pop(action.run_id, None)
    if not h.terms.schedd_name:
        return
    what = NowIn(str(action.state), str(action.activity), int(now), action.run_id)
    point.outbox.schedds.append(ToSchedd(h.terms.schedd_name, 0, action.claim_id, what))


def _ended(point: ExecutionPoint, h: Holding, action: ev.ClaimEnded, now: float) -> None:
    point.by_claim.pop(action.claim_id, None)
    point.cron.claim_ends(h.slot_id, h.ad, now)
    if h.activation is not None:
        point.by_run.pop(h.activation.run_id, None)
    if h.queued is not None:
        refusal = RefusedRun(h.queued.run_id, 1034, "the claim has ended")
        point.outbox.schedds.append(ToSchedd(h.terms.schedd_name, h.queued.serial, action.claim_id, refusal))
    if h.activation is not None and h.activation.fetched:
        if not h.finished:
            hook_notices.tell_evicted(point, h, h.activation, action.claim_id, action.cause)
    elif h.terms.schedd_name and (action.cause.tell_schedd or action.claim_id in h.serials):
        point.tell(h, action.claim_id, Ended(action.cause))
    h.activation = h.queued = h.request = None
    h.serials.pop(action.claim_id, None)
    h.usage, h.condor_load, h.cpu_seen = {}, 0.0, None


def _new_id(point: ExecutionPoint, h: Holding, action: ev.ReplaceClaimId, now: float) -> None:
    point.fresh_capability(h)


def _benchmark(point: ExecutionPoint, h: Holding, action: ev.Action, now: float) -> None:
    point.outbox.benchmarks = isinstance(action, ev.StartBenchmarks)


def _filler(point: ExecutionPoint, h: Holding, action: ev.Action, now: float) -> None:
    point.outbox.fillers.append((h.name, "start" if isinstance(action, ev.StartBackfill) else "stop"))


def _delete(point: ExecutionPoint, h: Holding, action: ev.DeleteSlot, now: float) -> None:
    del point.holdings[h.name]
    point.by_claim.pop(h.capability, None)
    point.outbox.changed.pop(h.name, None)
    point.outbox.dirty[h.name] = None
    point.outbox.removed[h.name] = None
    parent = point.holdings.get(h.parent or "")
    if parent is None:
        return
    parent.children.discard(h.name)
    broken_slots.deleted(point, parent, h, now)
    point.park_offline(parent)
    point.outbox.changed[parent.name] = None
    point.outbox.dirty[parent.name] = None


#: How each action is carried out.
CARRY_OUT: dict[type, Callable[[ExecutionPoint, Holding, Any, float], None]] = {
    ev.StartRun: _start,
    ev.SoftKill: _soft,
    ev.HardKill: _hard,
    ev.KillFamily: _family,
    ev.PauseRun: _pause,
    ev.ResumeRun: _resume,
    ev.ClaimGranted: _granted,
    ev.ClaimQueued: _queued,
    ev.ClaimRefused: _refused,
    ev.ActivationRefused: _not_activated,
    ev.ClaimChanged: _changed,
    ev.ClaimEnded: _ended,
    ev.ReplaceClaimId: _new_id,
    ev.StartBenchmarks: _benchmark,
    ev.StopBenchmarks: _benchmark,
    ev.StartBackfill: _filler,
    ev.StopBackfill: _filler,
    ev.DeleteSlot: _delete,
}
