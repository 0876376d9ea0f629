"""Carries out the actions of a slot's state machine: messages, commands, amounts, claim ids."""

from __future__ import annotations

from slotwise.model.slot import Activity, VacateCode
from slotwise.startd.host.breakages import Breakages
from slotwise.startd.host.claim_ids import ClaimIds
from slotwise.startd.host.drain_state import GRACEFUL, DrainState
from slotwise.startd.host.hook_notices import HookNotices
from slotwise.startd.host.host_state import HostState
from slotwise.startd.host.offline_devices import OfflineDevices
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
from slotwise.startd.host.slot_ads import SlotAds
from slotwise.startd.records.slot_record import JobUsage, SlotRecord
from slotwise.startd.slot import events as ev
from slotwise.startd.slot.states import Cause, Claimed, Preempting


class Effects:
    """What each action means for the host as a whole. No action leads to another event."""

    def __init__(
        self,
        host: HostState,
        claim_ids: ClaimIds,
        ads: SlotAds,
        drain: DrainState,
        breakages: Breakages,
        offline_devices: OfflineDevices,
        hooks: HookNotices,
    ) -> None:
        self._host, self._claim_ids, self._ads, self._drain = host, claim_ids, ads, drain
        self._breakages, self._offline_devices, self._hooks = breakages, offline_devices, hooks

    def carry_out(self, record: SlotRecord, action: ev.Action, now: float) -> None:
        """Carry out one action of a slot that is in its new state already."""
        outbox = self._host.outbox
        match action:
            case ev.StartRun():
                self._start(record, action, now)
            case ev.SoftKill():
                self._count_badput(record, action.cause, now)
                outbox.starter.append(Kill(action.run_id, False, action.cause, action.vacate_s))
            case ev.HardKill():
                outbox.starter.append(Kill(action.run_id, True, action.cause))
            case ev.KillFamily():
                reason = "everything that is left of the job is killed"
                cause = Cause(VacateCode.VACATE_COMMAND, reason, fast=True)
                outbox.starter.append(Kill(action.run_id, True, cause))
            case ev.PauseRun():
                outbox.starter.append(Freeze(action.run_id, resume=False))
            case ev.ResumeRun():
                outbox.starter.append(Freeze(action.run_id, resume=True))
            case ev.ClaimGranted():
                self._claim_granted(record, action, now)
            case ev.ClaimQueued():
                pass  # the answer follows when the present claim has ended
            case ev.ClaimRefused():
                self._claim_refused(record, action)
            case ev.ActivationRefused():
                claim = record.slot.claim
                refusal = RefusedRun(action.run_id, action.code, action.reason)
                self._host.notify_schedd(record, claim.claim_id if claim else "", refusal)
            case ev.ClaimChanged():
                self._claim_changed(record, action, now)
            case ev.ClaimEnded():
                self._claim_ended(record, action, now)
            case ev.ReplaceClaimId():
                self._claim_ids.renew(record)
            case ev.StartBenchmarks():
                outbox.benchmarks = True
            case ev.StopBenchmarks():
                outbox.benchmarks = False
            case ev.StartBackfill():
                outbox.fillers.append((record.name, "start"))
            case ev.StopBackfill():
                outbox.fillers.append((record.name, "stop"))
            case ev.DeleteSlot():
                self.delete(record, now)

    def _start(self, record: SlotRecord, action: ev.StartRun, now: float) -> None:
        self._host.slots.by_run[action.run.run_id] = record.name
        record.fetch.finished = False
        fetched = record.fetch.work
        if fetched is not None and fetched.activation.run_id == action.run.run_id:
            record.activation, record.fetch.work = fetched.activation, None
        self._ads.cron.job_begins(record.slot_id, record.ad, now)
        self._host.outbox.starter.append(Start(record.name, action.run.run_id))
        claim = record.slot.claim
        if claim is not None and not claim.fetched:
            self._host.notify_schedd(record, claim.claim_id, ActivatedRun(action.run.run_id))

    def _count_badput(self, record: SlotRecord, cause: Cause, now: float) -> None:
        """A graceful drain costs what the jobs have done that it really evicts."""
        run, order = record.slot.run, self._drain.order
        draining = order is not None and order.schedule == GRACEFUL and cause.code == VacateCode.DRAINING
        if draining and run is not None:
            self._drain.costs.badput_cpu_s += record.total.cpus * run.ran(now)

    def _claim_granted(self, record: SlotRecord, action: ev.ClaimGranted, now: float) -> None:
        if record.waiting is not None:
            record.request, record.terms, record.waiting = record.waiting.job, record.waiting.terms, None
        self._ads.show(record, now)
        claim_id = action.claim.claim_id
        record.requesters.pop(claim_id, None)
        if not action.claim.fetched:
            self._host.notify_schedd(record, claim_id, Granted(((claim_id, record.name),)))

    def _claim_refused(self, record: SlotRecord, action: ev.ClaimRefused) -> None:
        fetched = record.fetch.work
        if fetched is not None and fetched.claim_id == action.claim_id:
            if fetched.accepted:
                record.fetch.work = None
                self._hooks.not_started(record, fetched, Cause(action.code, action.reason))
        else:
            waiting = record.waiting.terms.schedd if record.waiting else None
            requester = record.requesters.pop(action.claim_id, None) or waiting
            self._host.notify_schedd(record, action.claim_id, Refused(action.code, action.reason), requester)
        state = record.slot.state
        if not isinstance(state, Claimed | Preempting) or state.waiting is None:
            record.waiting = None

    def _claim_changed(self, record: SlotRecord, action: ev.ClaimChanged, now: float) -> None:
        if action.activity is Activity.IDLE:
            self._host.slots.by_run.pop(action.run_id, None)
        schedd = record.terms.schedd
        if schedd.name:
            what = NowIn(str(action.state), str(action.activity), int(now), action.run_id)
            self._host.outbox.schedds.append(ToSchedd(schedd, 0, action.claim_id, what))

    def _claim_ended(self, record: SlotRecord, action: ev.ClaimEnded, now: float) -> None:
        host, schedd, activation = self._host, record.terms.schedd, record.activation
        self._claim_ids.by_id.pop(action.claim_id, None)
        self._ads.cron.claim_ends(record.slot_id, record.ad, now)
        if activation is not None:
            host.slots.by_run.pop(activation.run_id, None)
        if (queued := record.queued) is not None:
            refusal = RefusedRun(queued.activation.run_id, VacateCode.CLAIM_NOT_FOUND, "the claim has ended")
            host.outbox.schedds.append(ToSchedd(schedd, queued.activation.serial, action.claim_id, refusal))
        if activation is not None and activation.fetched:
            if not record.fetch.finished:
                self._hooks.evicted(record, activation, action.claim_id, action.cause)
        elif schedd.name and (action.cause.tell_schedd or action.claim_id in record.serials):
            host.notify_schedd(record, action.claim_id, Ended(action.cause))
        record.activation = record.queued = record.request = None
        record.serials.pop(action.claim_id, None)
        record.usage = JobUsage()

    def delete(self, record: SlotRecord, now: float) -> None:
        """Delete a dynamic slot; its partitionable slot gets its amounts back."""
        slots, outbox = self._host.slots, self._host.outbox
        slots.remove(record)
        self._claim_ids.by_id.pop(record.ids.current, None)
        outbox.changed.pop(record.name, None)
        outbox.save(record.name)
        outbox.removed[record.name] = None
        parent = slots.get(record.parent)
        if parent is not None:
            parent.children.discard(record.name)
            self._breakages.slot_deleted(parent, record, now)
            self._offline_devices.withdraw(parent)
            outbox.touch(parent.name)
