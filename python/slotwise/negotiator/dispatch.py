"""Turns an outcome into one message per access point, and sends them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping

import grpc
from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree
from slotwise.matchmaking.rows import Match, Refusal
from slotwise.negotiator.gather import AccessPoint, Channels, Demand
from slotwise.negotiator.in_flight import Offered
from slotwise.table import AdTable, pack_ads
from slotwise.wire.credential import Credential
from slotwise.wire.gen import schedd_pb2
from slotwise.wire.match_pieces import cut

_log = logging.getLogger(__name__)
_EXPR_PREFIX = "NegotiatorMatchExpr"
#: What stands in place of the claim id of an offline slot, or of one that is not to be claimed.
NO_CLAIM = "null"


class Offers(Struct):
    """Messages by access point, and the matches that could not be offered."""

    batches: dict[str, schedd_pb2.MatchBatch] = field(default_factory=dict)
    #: Matches without a claim id: the slot's startd has not advertised one (yet).
    unclaimable: list[Match] = field(default_factory=list)
    made: list[Offered] = field(default_factory=list)


def build_offers(
    matches: Iterable[Match],
    refusals: Iterable[Refusal],
    demand: Demand,
    slots: AdTable,
    capabilities: AdTable,
    *,
    cycle: int,
    negotiator_name: str,
    match_exprs: Mapping[str, str] | None = None,
    ids: Iterator[int] | None = None,
) -> Offers:
    """One batch per access point: its matches in the order of making, and what became of its other requests."""
    offers = Offers()
    parts: dict[tuple[str, str], schedd_pb2.SubmitterMatches] = {}
    packs: dict[tuple[str, str, str], bytes] = {}

    def part(schedd: str, submitter: str) -> schedd_pb2.SubmitterMatches:
        found = parts.get((schedd, submitter))
        if found is None:
            batch = offers.batches.get(schedd)
            if batch is None:
                batch = schedd_pb2.MatchBatch(cycle=cycle, negotiator_name=negotiator_name)
                offers.batches[schedd] = batch
            found = parts[(schedd, submitter)] = batch.submitters.add(submitter=submitter)
        return found

    for row in matches:
        schedd, submitter, autocluster, first_job = demand.origins[row.request]
        claim_id = _claim_id(row, capabilities)
        if claim_id is None:
            offers.unclaimable.append(row)
            continue
        told = part(schedd, submitter).matches
        slot = row.slot
        if told and _continues(told[-1], autocluster, slot, row):
            told[-1].count += 1
            offers.made.append(Offered(row, told[-1].match_id))
            continue
        match_id = next(ids) if ids is not None and claim_id != NO_CLAIM else 0
        offers.made.append(Offered(row, match_id))
        extra = (row.limits or "", row.group)
        pack = packs.get((slot, *extra))
        if pack is None:
            pack = packs[(slot, *extra)] = _slot_pack(slots, slot, row, match_exprs or {})
        told.add(
            autocluster_id=autocluster,
            slot_name=slot,
            startd_address=_address(slots, slot),
            claim_id=claim_id,
            preempt_claim_ids=_evicted(row, capabilities),
            slot_ad=pack,
            count=1,
            first_job_id=row.job or first_job,
            match_id=match_id,
        )
    for refusal in refusals:
        schedd, submitter, autocluster, _ = demand.origins[refusal.request]
        part(schedd, submitter).rejections.add(autocluster_id=autocluster, reason=refusal.reason, count=refusal.count)
    return offers


def _continues(last: schedd_pb2.Match, autocluster: int, slot: str, row: Match) -> bool:
    """Whether a match is one more carving of the same partitionable slot for the same autocluster."""
    return bool(row.carve and last.slot_name == slot and last.autocluster_id == autocluster and not row.evicts)


def _claim_id(row: Match, capabilities: AdTable) -> str | None:
    if row.offline or not row.claimable:
        return NO_CLAIM
    if row.slot not in capabilities:
        return None
    found = capabilities.value(row.slot, "ClaimId")
    return found if isinstance(found, str) and found else None


def _evicted(row: Match, capabilities: AdTable) -> list[str]:
    ids = []
    for name in row.evicts:
        if name in capabilities:
            found = capabilities.value(name, "ClaimId")
            if isinstance(found, str):
                ids.append(found)
    return ids


def _address(slots: AdTable, slot: str) -> str:
    for name in ("StartdIpAddr", "MyAddress"):
        found = slots.value(slot, name)
        if isinstance(found, str) and found:
            return found
    return ""


def _slot_pack(slots: AdTable, slot: str, row: Match, match_exprs: Mapping[str, str]) -> bytes:
    ad = slots.get(slot)
    if ad is None:
        ad = ClassAd({"Name": slot})
    for name, text in match_exprs.items():
        full = name if name.startswith(_EXPR_PREFIX) else _EXPR_PREFIX + name
        ad[full] = ExprTree(text, old=True)
    if row.limits:
        ad["MatchedConcurrencyLimits"] = row.limits
    group = row.group
    if group and group != "<none>":
        ad["RemoteGroup"] = row.submitter.rpartition("@")[0].rpartition(".")[0] or group
        ad["RemoteNegotiatingGroup"] = group
    return pack_ads([ad])


async def send_offers(
    offers: Offers,
    points: Mapping[str, AccessPoint],
    channels: Channels,
    credential: Credential,
    timeout_s: float,
) -> list[str]:
    """Send all batches in parallel; returns the names of the access points that did not accept theirs."""
    names = [name for name in offers.batches if name in points]
    sent = await asyncio.gather(
        *(_send(points[name], offers.batches[name], channels, credential, timeout_s) for name in names)
    )
    return [name for name, done in zip(names, sent, strict=True) if not done]


async def _send(
    point: AccessPoint,
    batch: schedd_pb2.MatchBatch,
    channels: Channels,
    credential: Credential,
    timeout_s: float,
) -> bool:
    try:
        for piece in cut(batch):
            await channels.stub(point.target).OfferMatches(
                piece, metadata=credential.metadata(point.target), timeout=timeout_s
            )
    except grpc.aio.AioRpcError as error:
        _log.warning("could not send matches to schedd %s at %s: %s", point.name, point.target, error.details())
        return False
    return True
