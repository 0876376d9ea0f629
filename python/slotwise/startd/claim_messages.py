"""The startd's messages to schedds, of the values that the execution point decides with."""

from __future__ import annotations

from collections.abc import Callable

from slotwise.startd.host.outbox import ActivatedRun, Ended, Granted, NowIn, Refused, RefusedRun, ToSchedd
from slotwise.wire.gen import startd_pb2


def claim_event(message: ToSchedd, slot_pack: Callable[[str], bytes], starter_address: str) -> startd_pb2.ClaimEvent:
    """A message as it is sent.

    :param slot_pack: the packed ad of a slot, by name.
    :param starter_address: where the shadow of an activated run reaches the starter.
    """
    event = startd_pb2.ClaimEvent(serial=message.serial, claim_id=message.claim_id)
    match message.what:
        case Granted(slots, leftover, leftover_slot):
            for claim_id, name in slots:
                event.granted.slots.append(
                    startd_pb2.GrantedSlot(claim_id=claim_id, slot_name=name, slot_ad=slot_pack(name))
                )
            if leftover:
                event.granted.leftover_claim_id = leftover
                event.granted.leftover_slot_ad = slot_pack(leftover_slot)
        case Refused(code, reason):
            event.refused.code, event.refused.reason = code, reason
        case ActivatedRun(run_id):
            event.activated.run_id = run_id
            event.activated.starter_address = starter_address
        case RefusedRun(run_id, code, reason):
            event.activation_refused.run_id = run_id
            event.activation_refused.code, event.activation_refused.reason = code, reason
        case NowIn(state, activity, at, run_id):
            event.state.state, event.state.activity = state, activity
            event.state.at, event.state.run_id = at, run_id
        case Ended(cause):
            event.ended.reason, event.ended.reason_code = cause.reason, cause.code
            event.ended.reason_subcode, event.ended.hold = cause.subcode, cause.hold
    return event
