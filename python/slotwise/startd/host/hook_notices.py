"""Which hooks hear of fetched work: queued with the decisions that they hear of, and run once those are durable."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from slotwise.classad.long_form import on_one_line
from slotwise.startd.host.hook_calls import EVICT_CLAIM, HookCall, two_ads, with_cause
from slotwise.startd.slot.states import Cause

if TYPE_CHECKING:
    from slotwise.startd.host.execution_point import ExecutionPoint
    from slotwise.startd.records.slot_record import Activation, Coming, Holding

_log = logging.getLogger(__name__)


def tell(
    point: ExecutionPoint, h: Holding, hook: str, given: bytes, call_id: str, arguments: tuple[str, ...] = ()
) -> None:
    """A hook of the slot is to hear something about the work that ``call_id`` has fetched."""
    keyword = point.settings.hook_keyword(h.slot_id, h.type_number)
    name = f"{call_id}.{hook.partition('_')[0].lower()}"
    point.outbox.hooks.append(HookCall(name, hook, h.name, keyword, given, arguments, h.parent or ""))


def evict(point: ExecutionPoint, h: Holding, coming: Coming, cause: Cause) -> None:
    """Work that was accepted and has not begun is given back."""
    job = coming.activation.job
    _log.info("%s: fetched work %s does not start: %s", h.name, job.job_id, on_one_line(cause.reason))
    tell_evicted(point, h, coming.activation, coming.claim_id, cause)


def tell_evicted(point: ExecutionPoint, h: Holding, activation: Activation, claim_id: str, cause: Cause) -> None:
    """A claim ends whose work has not come to its end.

    HTCondor has the hook and never calls it (25.14); the manual says when it would.
    """
    given = two_ads(with_cause(activation.job.ad, cause), h.ad, claim_id)
    tell(point, h, EVICT_CLAIM, given, activation.fetch_id)
