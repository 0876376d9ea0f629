"""Requests about jobs: in the queue, in its history, and those that are to be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from starlette.responses import JSONResponse, Response, StreamingResponse

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import whole
from slotwise.client import AsyncSchedd
from slotwise.client.descriptions import ReadOptions
from slotwise.errors import DeniedError, NotFoundError, SlotwiseError, UnauthenticatedError, UsageError
from slotwise.model import batches as by_batch
from slotwise.model.job_id import JobId
from slotwise.model.job_status import JobStatus
from slotwise.table import AdTable
from slotwise.transfer.lists import is_null
from slotwise.web.access import SIGN_IN
from slotwise.web.asked import LIMIT, Asked, ads_response, paged, streamed
from slotwise.web.job_events import changes
from slotwise.web.submission import submission

#: Jobs that one stream of events follows.
_FOLLOWED_MOST = 10_000
#: Runs of one answer at most, and what is told of each unless the request says otherwise.
_RUNS_MOST = 200
_RUN_ATTRIBUTES = (
    "ClusterId", "ProcId", "RunInstanceID", "EpochWriteDate", "JobStatus", "JobCurrentStartDate", "LastRemoteHost",
    "LastRemoteWallClockTime", "VacateReason", "HoldReason", "ExitCode", "ExitSignal", "NumShadowStarts",
)  # fmt: skip
#: Where the API is.
PREFIX = "/api/v1"
#: What may be done to jobs.
ACTIONS = ("hold", "release", "remove", "remove_force", "suspend", "continue", "vacate", "vacate_fast")
#: Characters of a reason, and jobs that are named in one request.
REASON_MOST = 1000
_NAMED_MOST = 1000
_READ = ReadOptions(elsewhere=True, name="description")
_READ_SPOOLED = ReadOptions(elsewhere=True, spool=True, name="description")
_HAS_OUTPUT = frozenset((JobStatus.RUNNING, JobStatus.TRANSFERRING_OUTPUT, JobStatus.SUSPENDED))
_STATES: dict[int, str] = {
    JobStatus.IDLE: "idle", JobStatus.REMOVED: "removed", JobStatus.COMPLETED: "completed", JobStatus.HELD: "on hold",
}  # fmt: skip


async def jobs(asked: Asked) -> Response:
    """The queue: with ``order`` a page of it in that order, else as its daemon has it."""
    constraint, projection, order = asked.constraint(), asked.words("projection"), asked.text("order")
    if not (order or asked.text("after") or asked.mine):
        return await streamed(
            asked,
            asked.pool.schedd(asked.schedd),
            lambda schedd: schedd.query_pieces(constraint, projection, asked.limit()),
        )
    by = order.removeprefix("-")
    async with asked.pool.schedd(asked.schedd) as schedd:
        page = await schedd.page_json(
            constraint,
            projection,
            limit=_page_limit(asked),
            order_by="" if by == "id" else by,
            descending=order.startswith("-"),
            after=asked.text("after"),
            mine=asked.mine,
        )
    return paged(asked, page)


def _page_limit(asked: Asked) -> int:
    """:raises UsageError: when a page is to have more ads than a request without a limit gets."""
    limit = asked.limit()
    if limit > LIMIT:
        raise UsageError(
            f"a page has at most {LIMIT} ads, not {limit}", hint="leave order and after out for a long list"
        )
    return limit


async def job(asked: Asked) -> Response:
    """A job, or those of a cluster."""
    name = asked.request.path_params["job"]
    constraint, projection = constraint_of(name), asked.words("projection")

    async def found(schedd: AsyncSchedd) -> AsyncIterator[bytes]:
        pieces = schedd.query_pieces("", projection, asked.limit(), ids=[name])
        first = await anext(pieces, b"[]")
        if _is_empty(first):
            pieces = schedd.history_pieces(constraint, projection, asked.limit(), "")
            first = await anext(pieces, b"[]")
        if _is_empty(first):
            raise NotFoundError(f"there is no job {name}, nor was there one of late")
        yield first
        async for piece in pieces:
            yield piece

    return await streamed(asked, asked.pool.schedd(asked.schedd), found)


def _is_empty(piece: bytes) -> bool:
    """Whether the first piece of a list is the whole of an empty one."""
    return piece.translate(None, b" \n") == b"[]"


async def history(asked: Asked) -> Response:
    """Newest first: a page, or with ``since`` or a higher limit all of them."""
    constraint, projection, since = asked.constraint(), asked.words("projection"), asked.text("since")
    if since or (asked.limit() > LIMIT and not asked.text("after")):
        return await streamed(
            asked,
            asked.pool.schedd(asked.schedd),
            lambda schedd: schedd.history_pieces(constraint, projection, asked.limit(), since),
        )
    async with asked.pool.schedd(asked.schedd) as schedd:
        page = await schedd.history_page_json(
            constraint, projection, limit=_page_limit(asked), after=asked.text("after")
        )
    return paged(asked, page)


async def runs(asked: Asked) -> Response:
    """Newest first."""
    constraint = constraint_of(asked.request.path_params["job"])
    projection = asked.words("projection") or list(_RUN_ATTRIBUTES)
    limit = min(asked.limit(), _RUNS_MOST)
    return await streamed(
        asked,
        asked.pool.schedd(asked.schedd),
        lambda schedd: schedd.history_pieces(constraint, projection, limit, "", ("EPOCH",)),
    )


async def act(asked: Asked) -> Response:
    body = await asked.body()
    action, reason = body.get("action"), body.get("reason", "")
    if action not in ACTIONS:
        raise UsageError(f"there is no action {action!r}", hint=f"one of {', '.join(ACTIONS)}")
    if not isinstance(reason, str):
        raise UsageError("the reason is not a string")
    if len(reason) > REASON_MOST:
        raise UsageError(f"the reason has more than {REASON_MOST} characters")
    async with asked.pool.schedd(asked.schedd) as schedd:
        result = await schedd.act(str(action), jobs_of(body), reason=reason)
    if body.get("results") is True:
        return JSONResponse({**result.totals, "jobs": result.jobs})
    if result.totals.keys() == {"permission_denied"}:
        raise DeniedError("none of these jobs is yours", hint="a queue superuser may act on the jobs of others")
    if result.totals.keys() == {"not_found"}:
        raise NotFoundError("none of these jobs is in the queue", hint="GET /api/v1/history has those that have left")
    return JSONResponse(result.totals)


async def edit(asked: Asked) -> Response:
    body = await asked.body()
    attributes = body.get("attributes")
    if not isinstance(attributes, dict) or not attributes:
        raise UsageError("no attributes are given", hint='send {"jobs": ["1.0"], "attributes": {"JobPrio": "5"}}')
    values = {str(name): ExprTree(str(text)) for name, text in attributes.items()}
    async with asked.pool.schedd(asked.schedd) as schedd:
        result = await schedd.edit(jobs_of(body), values)
    return JSONResponse(result.totals)


def jobs_of(body: Mapping[str, object]) -> str | list[str]:
    """The jobs that a request names: ids, or a constraint.

    :raises UsageError: when it names none, or both.
    """
    ids, constraint = body.get("jobs"), body.get("constraint")
    if isinstance(ids, list) and ids and constraint is None:
        if len(ids) > _NAMED_MOST:
            raise UsageError(f"{len(ids)} jobs are named, and {_NAMED_MOST} may be", hint="send a constraint")
        for each in ids:
            constraint_of(str(each))
        return [str(each) for each in ids]
    if isinstance(constraint, str) and constraint and ids is None:
        return constraint
    raise UsageError("either jobs or a constraint is wanted", hint='{"jobs": ["1.0", "2"]} or {"constraint": "..."}')


def constraint_of(job: str) -> str:
    """The expression that is true for a job, or for the jobs of a cluster.

    :raises UsageError: when it is not an id.
    """
    return JobId.parse(job).constraint


async def submit(asked: Asked) -> Response:
    """Queue jobs."""
    spool = asked.flag("spool")
    description, count = submission(await asked.body(), spool=spool)
    async with asked.pool.schedd(asked.schedd) as schedd:
        result = await schedd.submit(description, count, _READ_SPOOLED if spool else _READ)
    told = {"cluster": result.cluster, "count": result.count, "warnings": list(result.warnings)}
    return JSONResponse(told, 201, {"location": f"{PREFIX}/jobs/{result.cluster}"})


async def preview(asked: Asked) -> Response:
    """What a description would queue, and what the pool says to the first of these jobs."""
    description, count = submission(await asked.body())
    async with asked.pool.schedd(asked.schedd) as schedd:
        found = schedd.read(description, count, _READ)
    async with asked.pool.collector() as collector:
        user = (await collector.caller()).identity
    first = found.clusters[0].job(0)
    told = {"count": found.count, "warnings": list(found.warnings), "verdict": ""}
    first.update({"ClusterId": 1, "ProcId": 0, "JobStatus": 1, "User": user, "Owner": user.partition("@")[0]})
    try:
        async with asked.pool.negotiator() as negotiator:
            report = await negotiator.analyze(first)
    except SlotwiseError:  # a preview without a negotiator is one all the same
        pass
    else:
        told |= {"verdict": report.get("verdict", ""), "requirements": report.get("requirements")}
    text = json.loads(AdTable.of([first]).json_text(None, None))
    return JSONResponse({**told, "ad": text[0]})


async def _one_job(asked: Asked) -> ClassAd:
    """The ad of the job that is named, in the queue."""
    name = asked.request.path_params["job"]
    constraint_of(name)
    async with asked.pool.schedd(asked.schedd) as schedd:
        ads = await schedd.query(limit=1, ids=[name])
    if not ads:
        raise NotFoundError(f"there is no job {name} in the queue")
    return ads[0]


async def analyze(asked: Asked) -> Response:
    job = await _one_job(asked)
    async with asked.pool.negotiator() as negotiator:
        return JSONResponse(await negotiator.analyze(job))


async def tail(asked: Asked) -> Response:
    name, file = asked.request.path_params["job"], asked.request.path_params["file"]
    if file not in ("stdout", "stderr"):
        raise NotFoundError(f"a job has no file {file!r} here", hint="stdout or stderr")
    constraint_of(name)
    name = name if "." in name else f"{name}.0"
    out = "Out" if file == "stdout" else "Err"
    names = ("JobStatus", "Iwd", out, "StageInFinish")
    async with asked.pool.schedd(asked.schedd) as schedd:
        found = await schedd.query("", names, ids=[name], limit=1)
        ad = next(iter(found or await schedd.history(constraint_of(name), names, limit=1)), None)
        if ad is None:
            raise NotFoundError(f"there is no job {name}, nor was there one of late")
        if (status := whole(ad.get("JobStatus"))) not in _HAS_OUTPUT:
            raise NotFoundError(
                f"job {name} is {_STATES.get(status, 'elsewhere')}: there is no {file} to follow",
                hint=_where_written(name, ad, out, is_queued=bool(found)),
            )
        if not asked.access.signed_in:
            raise UnauthenticatedError(f"what job {name} writes is its user's", hint=SIGN_IN)
        if is_null(str(ad.get(out, ""))):
            raise NotFoundError(
                f"job {name} keeps nothing of its {file}: its description names no file for it", hint=_NAME_FILE[out]
            )
        data = await schedd.tail(name, file)
    return Response(data, media_type="text/plain; charset=utf-8")


_NAME_FILE = {"Out": "output = FILE in the description", "Err": "error = FILE in the description"}


def _where_written(name: str, ad: ClassAd, out: str, *, is_queued: bool) -> str:
    """Where the output (``Out``) or error (``Err``) of a job is that does not run."""
    file = str(ad.get(out, ""))
    if whole(ad.get("JobStatus")) == JobStatus.IDLE:
        return "it has not run yet"
    if is_null(file):
        return f"nothing of it is kept: {_NAME_FILE[out]}"
    if whole(ad.get("StageInFinish")) > 0:
        kept = f"GET jobs/{name}/output has the files that it has left"
        return kept if is_queued else "its files were kept until it was removed from the queue"
    return f"what it has written comes to {Path(str(ad.get('Iwd', '')), file)} at the access point"


async def totals(asked: Asked) -> Response:
    async with asked.pool.schedd(asked.schedd) as schedd:
        totals = await schedd.totals(asked.constraint())
    return JSONResponse({"schedd": totals.schedd, "selected": asdict(totals.query), "all": asdict(totals.everyone)})


async def events(asked: Asked) -> Response:
    """Changes of jobs, as server-sent events: each job when its state changes, and those that have left."""
    constraint = asked.constraint()

    async def look(schedd: AsyncSchedd) -> dict[str, int]:
        ads = await schedd.query(constraint, ("ClusterId", "ProcId", "JobStatus"), limit=_FOLLOWED_MOST)
        return {f"{ad.get('ClusterId')}.{ad.get('ProcId')}": whole(ad.get("JobStatus")) for ad in ads}

    asked.held.enter_context(asked.bounds.events.one(asked.access.caller))
    pool = replace(asked.pool, hold=None)  # nothing that a look finds is kept
    async with pool.schedd(asked.schedd) as schedd:
        first = await look(schedd)  # what is wrong with the request is said before the stream begins

    async def follow() -> AsyncIterator[str]:
        async with pool.schedd(asked.schedd) as schedd:
            async for text in changes(first, partial(look, schedd), asked.request.is_disconnected):
                yield text

    return StreamingResponse(follow(), media_type="text/event-stream")


async def batches(asked: Asked) -> Response:
    """Of everybody, or with ``mine`` of whoever has signed in; counted by the schedd.

    How many were submitted is told of the caller's own alone: it takes a number for each cluster, of which the queue of
    all users may have a million.
    """
    mine = asked.mine
    async with asked.pool.schedd(asked.schedd) as schedd:
        counted = by_batch.PROGRESS_ATTRIBUTES if mine else ("User", *by_batch.BATCH_ATTRIBUTES)
        rows = await schedd.count_by(counted, asked.constraint(), mine=mine)
    # The clusters of a large queue are counted in a thread, so that others are answered meanwhile.
    found = await asyncio.to_thread(by_batch.batches, rows)
    told = [
        {
            "name": batch.name,
            "user": batch.user,
            "jobs": batch.jobs,
            "submitted": batch.submitted,
            "done": batch.done,
            "counts": {str(status): count for status, count in sorted(batch.counts.items())},
        }
        for batch in found[: asked.limit()]
    ]
    return JSONResponse({"batches": told, "left_out": len(found) - len(told)})


async def users(asked: Asked) -> Response:
    async with asked.pool.schedd(asked.schedd) as schedd:
        return ads_response((await schedd.users(asked.constraint(), asked.words("projection")))[: asked.limit()])
