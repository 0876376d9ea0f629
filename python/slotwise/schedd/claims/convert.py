"""Messages of negotiators and startds as our own values, and back."""

from __future__ import annotations

from slotwise.schedd.claims.match_results import MatchFate
from slotwise.schedd.lifecycle.claim_states import EndedByStartd
from slotwise.wire.gen import schedd_pb2, startd_pb2


def match_fate(fate: MatchFate) -> schedd_pb2.MatchFate:
    """What became of a match, for its negotiator."""
    if fate.over:
        return schedd_pb2.MatchFate(match_id=fate.match_id, what=schedd_pb2.MatchFate.OVER, count=fate.over)
    return schedd_pb2.MatchFate(match_id=fate.match_id, what=schedd_pb2.MatchFate.CLAIMED, slot_names=fate.claimed)


def ended_by_startd(ended: startd_pb2.ClaimEnded) -> EndedByStartd:
    """Why a startd ended a claim."""
    return EndedByStartd(ended.reason, ended.reason_code, ended.reason_subcode, ended.hold)
