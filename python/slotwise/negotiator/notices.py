"""Notifies startds that their slots are matched, before the schedds claim them (NEGOTIATOR_INFORM_STARTD)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import grpc

from slotwise.errors import SlotwiseError
from slotwise.negotiator.dispatch import NO_CLAIM
from slotwise.negotiator.gather import Channels
from slotwise.wire.credential import Credential
from slotwise.wire.gen import schedd_pb2, startd_pb2

_log = logging.getLogger(__name__)
#: Seconds that a startd may take; the schedd claims the slot even if the startd missed the notice.
_PATIENCE_S = 5.0


def notices_of(batches: Iterable[schedd_pb2.MatchBatch]) -> dict[str, list[str]]:
    """Claim ids of matched slots by the address of their startd; none of offline slots or without an address."""
    found: dict[str, list[str]] = {}
    for batch in batches:
        for part in batch.submitters:
            for match in part.matches:
                if match.startd_address and match.claim_id != NO_CLAIM:
                    ids = found.setdefault(match.startd_address, [])
                    if match.claim_id not in ids:
                        ids.append(match.claim_id)
    return found


async def send_notices(notices: dict[str, list[str]], channels: Channels, credential: Credential) -> list[str]:
    """Notify all startds in parallel; returns the addresses of those that missed it, which does no harm."""
    heard = await asyncio.gather(*(_send(target, ids, channels, credential) for target, ids in notices.items()))
    return [target for target, done in zip(notices, heard, strict=True) if not done]


async def _send(target: str, ids: list[str], channels: Channels, credential: Credential) -> bool:
    try:
        notice = startd_pb2.MatchNotice(claim_ids=ids)
        await channels.startd(target).NoticeMatch(notice, metadata=credential.metadata(target), timeout=_PATIENCE_S)
    except (grpc.aio.AioRpcError, SlotwiseError) as error:
        details = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
        _log.warning("could not notify the startd at %s of its matches: %s", target, details)
        return False
    return True
