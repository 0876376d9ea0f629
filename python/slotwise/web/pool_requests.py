"""Requests about the pool: its slots, machines and daemons, who uses it, what its negotiator did, and sessions."""

from __future__ import annotations

import asyncio
from typing import cast

from msgspec.structs import asdict
from starlette.responses import JSONResponse, Response

from slotwise import __version__
from slotwise.classad import ClassAd
from slotwise.client import AsyncCollector
from slotwise.client.startd import SCHEDULES, Drain, Schedule
from slotwise.errors import NotFoundError, UsageError
from slotwise.table.order import NAME
from slotwise.web.access import COOKIE, account_of
from slotwise.web.asked import Asked, Handler, ads_response, streamed
from slotwise.web.exposition import merged, rendered
from slotwise.web.machines import MACHINE_ATTRIBUTES, gathered, machines_of, whole_pool
from slotwise.web.sessions import LASTS_S

#: Characters of a reason.
_REASON_MOST = 1000


def of_kind(kind: str) -> Handler:
    """Answers with the collector's ads of a kind."""

    async def handle(asked: Asked) -> Response:
        constraint, projection = asked.constraint(), asked.words("projection")
        return await streamed(
            asked,
            asked.pool.collector(),
            lambda collector: collector.query_pieces(kind, constraint, projection, asked.limit()),
        )

    return handle


async def pool(asked: Asked) -> Response:
    """The pool in numbers, and who asks."""
    async with asked.pool.collector() as collector:
        (own, *_) = await collector.query("collector") or [ClassAd()]
        names = ("Name", "HostsTotal", "HostsClaimed", "HostsUnclaimed", "HostsOwner", "RunningJobs", "IdleJobs")
        found = {name: own.get(name) for name in names}
        who = await _who(asked, collector)
    return JSONResponse({"version": __version__, **who, **found})


async def _who(asked: Asked, collector: AsyncCollector) -> dict[str, object]:
    """Who has signed in, and what the pool lets them do."""
    if not asked.access.signed_in:
        return {"signed_in": False}
    caller = await collector.caller()
    return {"signed_in": True, "user": caller.identity, "may": list(caller.scopes)}


async def trend(asked: Asked) -> Response:
    """How the pool's cores and jobs were over the last day, from what the service has seen."""
    async with asked.pool.collector() as collector:  # what the service has seen itself is for who may see it now
        await collector.query("collector", limit=1)
    return JSONResponse(asked.trend.told())


async def machines(asked: Asked) -> Response:
    by = asked.text("group")
    if by and not NAME.fullmatch(by):
        raise UsageError(
            f"{by[:40]!r} is not the name of an attribute", hint="machines are grouped by one of their slots'"
        )
    attributes = (*MACHINE_ATTRIBUTES, by) if by and by not in MACHINE_ATTRIBUTES else MACHINE_ATTRIBUTES
    async with asked.pool.collector() as collector:
        counted = await collector.count_by("startd", attributes, asked.constraint())
    # A large pool is a second of work here, in which others are to be answered.
    found = await asyncio.to_thread(lambda: gathered(machines_of(counted, by), asked.limit()))
    return JSONResponse({"whole": asdict(whole_pool(found)), "cells": [asdict(cell) for cell in found]})


async def drain(asked: Asked) -> Response:
    body = await asked.body()
    schedule, reason = body.get("schedule", "graceful"), body.get("reason", "")
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise UsageError(f"there is no schedule {schedule!r}", hint=f"one of {', '.join(SCHEDULES)}")
    if not isinstance(reason, str) or len(reason) > _REASON_MOST:
        raise UsageError(f"the reason is not a string of at most {_REASON_MOST} characters")
    async with asked.pool.startd(asked.request.path_params["machine"]) as startd:
        request = await startd.drain(Drain(schedule=cast("Schedule", schedule), reason=reason))
    return JSONResponse({"request": request})


async def cancel_drain(asked: Asked) -> Response:
    async with asked.pool.startd(asked.request.path_params["machine"]) as startd:
        await startd.cancel_drain(asked.text("request"))
    return JSONResponse({"cancelled": True})


async def groups(asked: Asked) -> Response:
    async with asked.pool.negotiator() as negotiator:
        ads = await negotiator.accounting()
    return ads_response([ad for ad in ads if ad.get("IsAccountingGroup") is True])


async def accounting(asked: Asked) -> Response:
    async with asked.pool.negotiator() as negotiator:
        ads = await negotiator.accounting()
    if len(ads) > asked.limit():
        ads.sort(key=lambda ad: (ad.get("IsAccountingGroup") is not True, -_used(ad)))
    return ads_response(ads[: asked.limit()])


def _used(ad: ClassAd) -> float:
    value = ad.get("WeightedResourcesUsed")
    return float(value) if isinstance(value, int | float) else 0.0


async def cycle(asked: Asked) -> Response:
    async with asked.pool.negotiator() as negotiator:
        return JSONResponse(await negotiator.last_cycle())


async def demand(asked: Asked) -> Response:
    async with asked.pool.negotiator() as negotiator:
        cycle = await negotiator.last_cycle()
    demand = cycle.get("demand")
    if not isinstance(demand, dict):
        raise NotFoundError("the negotiator does not tell the demand", hint="it is of an earlier version")
    return JSONResponse({"cycle": cycle.get("cycle"), **demand})


async def sign_in(asked: Asked) -> Response:
    """Begin a session with the token that the request shows; its name goes into a cookie that scripts cannot read."""
    token = asked.request.headers.get("authorization", "").partition(" ")[2].strip()
    if not token:
        raise UsageError("signing in takes the token in the header Authorization")
    async with asked.pool.collector() as collector:  # it has to be good
        await collector.query("collector", limit=1)
        who = await _who(asked, collector)
    response = JSONResponse(who)
    secure = asked.request.url.scheme == "https"
    asked.sessions.end(asked.request.cookies.get(COOKIE, ""))
    name = asked.sessions.begin(token, asked.access.caller, account_of(asked.request))
    response.set_cookie(COOKIE, name, max_age=int(LASTS_S), httponly=True, secure=secure, samesite="strict", path="/")
    return response


async def sign_out(asked: Asked) -> Response:
    asked.sessions.end(asked.request.cookies.get(COOKIE, ""))
    response = JSONResponse({"signed_in": False})
    response.delete_cookie(COOKIE, path="/")
    return response


async def metrics(asked: Asked) -> Response:
    families = merged(await asked.scraper.scrape(asked.access.credential))
    page, media_type = rendered(families, asked.request.headers.get("accept", ""))
    return Response(page, media_type=media_type)
