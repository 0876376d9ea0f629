"""Messages of negotiators and startds as our own values, and back."""

from __future__ import annotations

from collections.abc import Iterable

from slotwise.schedd.claims.ends.excess import Excess
from slotwise.schedd.claims.matching.match_results import MatchOutcome
from slotwise.schedd.claims.matching.matches import Match, Rejection
from slotwise.schedd.claims.startds import startd_messages as said
from slotwise.schedd.lifecycle.claim_states import EndedByStartd
from slotwise.wire.gen import schedd_pb2, startd_pb2

# ---- negotiators


def matches(groups: Iterable[schedd_pb2.SubmitterMatches]) -> list[Match]:
    """The matches of a cycle."""
    return [
        Match(
            group.submitter,
            one.autocluster_id,
            one.slot_name,
            one.startd_address,
            one.claim_id,
            one.count,
            one.match_id,
            one.slot_ad,
            tuple(one.preempt_claim_ids),
        )
        for group in groups
        for one in group.matches
    ]


def rejections(groups: Iterable[schedd_pb2.SubmitterMatches]) -> list[Rejection]:
    """For which autoclusters a cycle found nothing, and why."""
    return [Rejection(group.submitter, one.autocluster_id, one.reason) for group in groups for one in group.rejections]


def excess(told: Iterable[schedd_pb2.ExcessClaims]) -> list[Excess]:
    """Claims beyond their submitters' shares."""
    return [
        Excess(one.submitter, dict(zip(one.slot_names, one.weights, strict=False)), one.keep, one.until, one.reason)
        for one in told
    ]


def match_outcome(outcome: MatchOutcome) -> schedd_pb2.MatchOutcome:
    """What became of a match, for its negotiator."""
    if outcome.over:
        return schedd_pb2.MatchOutcome(match_id=outcome.match_id, what=schedd_pb2.MatchOutcome.OVER, count=outcome.over)
    return schedd_pb2.MatchOutcome(
        match_id=outcome.match_id, what=schedd_pb2.MatchOutcome.CLAIMED, slot_names=outcome.claimed
    )


# ---- startds


def startd_message(event: startd_pb2.ClaimEvent) -> said.StartdMessage | None:
    """What a startd said; None for a kind of message that this schedd does not know."""
    match event.WhichOneof("what"):
        case "granted":
            granted = event.granted
            slots = tuple(said.GrantedSlot(slot.claim_id, slot.slot_name, slot.slot_ad) for slot in granted.slots)
            return said.ClaimsGranted(
                event.serial, event.claim_id, slots, granted.leftover_claim_id, granted.leftover_slot_ad
            )
        case "refused":
            return said.ClaimRefused(event.serial, event.claim_id, event.refused.reason, event.refused.code)
        case "known":
            return said.ClaimsKnown(
                {one.claim_id: said.KnownClaim(one.run_id, one.activity, one.slot_ad) for one in event.known.claims},
                event.known.startd_name,
            )
        case "alive":
            return said.KeptAlive(tuple(event.alive.unknown))
        case "activated":
            return said.RunActivated(event.claim_id, event.activated.run_id, event.activated.starter_address)
        case "activation_refused":
            refused = event.activation_refused
            return said.ActivationRefused(event.claim_id, refused.run_id, refused.reason, refused.code)
        case "state":
            return said.SlotChanged(event.claim_id, event.state.state, event.state.activity, event.state.run_id)
        case "ended":
            ended = event.ended
            cause = EndedByStartd(ended.reason, ended.reason_code, ended.reason_subcode, ended.hold)
            return said.ClaimTaken(event.claim_id, cause)
    return None
