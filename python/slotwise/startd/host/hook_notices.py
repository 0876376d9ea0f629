"""Which hooks are notified of fetched work: queued with the decisions, and run once those are durable."""

from __future__ import annotations

import logging

from slotwise.classad.long_form import on_one_line
from slotwise.startd.host.hook_calls import EVICT_CLAIM, HookCall, two_ads, with_cause
from slotwise.startd.host.host_state import HostState
from slotwise.startd.records.slot_record import Activation, FetchedWork, SlotRecord
from slotwise.startd.slot.states import Cause

_log = logging.getLogger(__name__)


class HookNotices:
    """Queues calls of hooks."""

    def __init__(self, host: HostState) -> None:
        self._host = host

    def notify(
        self, record: SlotRecord, hook: str, given: bytes, call_id: str, arguments: tuple[str, ...] = ()
    ) -> None:
        """Queue a call of a hook of the slot, about the work that ``call_id`` has fetched."""
        keyword = self._host.settings.hook_keyword(record.slot_id, record.type_number)
        name = f"{call_id}.{hook.partition('_')[0].lower()}"
        call = HookCall(name, hook, record.name, keyword, given, arguments, record.parent or "")
        self._host.outbox.hooks.append(call)

    def not_started(self, record: SlotRecord, work: FetchedWork, cause: Cause) -> None:
        """Work that was accepted is given back before it has begun."""
        job = work.activation.job
        _log.info("%s: fetched work %s does not start: %s", record.name, job.job_id, on_one_line(cause.reason))
        self.evicted(record, work.activation, work.claim_id, cause)

    def evicted(self, record: SlotRecord, activation: Activation, claim_id: str, cause: Cause) -> None:
        """A claim ends before its work has completed.

        HTCondor has the hook and never calls it (25.14); the manual says when it would.
        """
        given = two_ads(with_cause(activation.job.ad, cause), record.ad, claim_id)
        self.notify(record, EVICT_CLAIM, given, activation.fetch_id)
