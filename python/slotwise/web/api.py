"""The HTTP API: what it offers, as one table that is served, and described as OpenAPI.

Ads travel as JSON objects. Lists take ``constraint`` (a ClassAd expression), ``projection`` (attributes, separated by
commas) and ``limit``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from slotwise import __version__
from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.values import whole
from slotwise.client import AsyncSchedd
from slotwise.client.descriptions import ReadOptions
from slotwise.client.startd import SCHEDULES, Drain, Schedule
from slotwise.errors import NotFoundError, SlotwiseError, UnauthenticatedError, UsageError
from slotwise.model.batches import BATCH_ATTRIBUTES, PROGRESS_ATTRIBUTES, batches
from slotwise.table import AdTable
from slotwise.web.access import COOKIE, Access, Gate
from slotwise.web.exposition import Scraper, merged, rendered
from slotwise.web.job_events import StreamBounds, changes
from slotwise.web.machines import MACHINE_ATTRIBUTES, gathered, machines, whole_pool
from slotwise.web.pool_client import PoolClient
from slotwise.web.problems import HEADERS, on_error
from slotwise.web.sessions import LASTS_S, Sessions
from slotwise.web.settings import Serves
from slotwise.web.submission import statements

_PREFIX = "/api/v1"
_METRICS = "/metrics"
#: Ads of one answer, unless the request says otherwise, and at most.
_LIMIT, _LIMIT_MOST = 1000, 100_000
#: Jobs that one stream of events follows.
_FOLLOWED_MOST = 10_000
#: Bytes of a request's body.
_BODY_MOST = 4 * 1024 * 1024
#: Characters of a reason.
_REASON_MOST = 1000
#: Runs of one answer at most, and what is told of each unless the request says otherwise.
_RUNS_MOST = 200
_RUN_ATTRIBUTES = (
    "ClusterId", "ProcId", "RunInstanceID", "EpochWriteDate", "JobStatus", "JobCurrentStartDate", "LastRemoteHost",
    "LastRemoteWallClockTime", "VacateReason", "HoldReason", "ExitCode", "ExitSignal", "NumShadowStarts",
)  # fmt: skip
#: What may be done to jobs.
_ACTIONS = ("hold", "release", "remove", "remove_force", "suspend", "continue", "vacate", "vacate_fast")


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation, in its query or its path."""

    name: str
    about: str
    place: str = "query"
    type: str = "string"


_CONSTRAINT = Parameter("constraint", "A ClassAd expression that is true for the ads that are wanted.")
_PROJECTION = Parameter("projection", "Attributes, separated by commas; without it all of them.")
_MOST = Parameter("limit", f"Ads at most: {_LIMIT} unless given, up to {_LIMIT_MOST}.", type="integer")
_SCHEDD = Parameter("schedd", "Name of the access point; without it this host's, or the first of the pool.")
_JOB = Parameter("job", "Id of a job (`12.0`) or of a cluster (`12`).", "path")
_MACHINE = Parameter("machine", "Name of the machine, as the attribute Machine of its slots has it.", "path")
_LIST = (_CONSTRAINT, _PROJECTION, _MOST)

#: The page's files.
STATIC = Path(__file__).with_name("static")
_STATIC_FILES = ("page.js", "page.css", "icon.svg")

Handler = Callable[["Asked"], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    """One thing that the API does."""

    method: str
    path: str
    about: str
    handle: Handler
    parameters: tuple[Parameter, ...] = ()
    #: The members of the JSON object that it takes, with what each is.
    body: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Asked:
    """A request with what it may do."""

    request: Request
    access: Access
    pool: PoolClient
    scraper: Scraper
    sessions: Sessions
    streams: StreamBounds

    def words(self, name: str) -> list[str]:
        """A parameter that is a list."""
        return [word.strip() for word in self.request.query_params.get(name, "").split(",") if word.strip()]

    def text(self, name: str) -> str:
        """A parameter, empty without it."""
        return self.request.query_params.get(name, "")

    def limit(self) -> int:
        """The number of ads that are wanted.

        :raises UsageError: when it is not a number in range.
        """
        said = self.text("limit")
        if not said:
            return _LIMIT
        if not said.isascii() or not said.isdigit() or not 0 < int(said[:9]) <= _LIMIT_MOST:
            raise UsageError(f"limit={said[:20]} is not a number from 1 to {_LIMIT_MOST}")
        return int(said)

    @property
    def schedd(self) -> str | None:
        """The access point that is meant; None: this host's."""
        return self.text("schedd") or None

    async def body(self) -> dict[str, object]:
        """The JSON object of the request.

        :raises UsageError: when there is none.
        """
        size, pieces = 0, []
        async for piece in self.request.stream():
            size += len(piece)
            if size > _BODY_MOST:
                raise UsageError(f"the request is larger than {_BODY_MOST} bytes")
            pieces.append(piece)
        try:
            found = json.loads(b"".join(pieces))
            json.dumps(found, ensure_ascii=False).encode()  # half a pair of surrogates is no text that can be sent on
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the request is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise UsageError("the request is not a JSON object")
        return found


def ads_response(ads: Sequence[ClassAd]) -> Response:
    """A list of ads."""
    return Response(AdTable.of(ads).json_text(None, None), media_type="application/json")


def json_response(text: bytes) -> Response:
    """A list of ads that a daemon has written."""
    return Response(text if text.strip() else b"[]", media_type="application/json")


def _of_kind(kind: str) -> Handler:
    async def handle(asked: Asked) -> Response:
        async with asked.pool.collector() as collector:
            return json_response(
                await collector.query_json(
                    kind, asked.text("constraint"), asked.words("projection"), limit=asked.limit()
                )
            )

    return handle


async def _pool(asked: Asked) -> Response:
    async with asked.pool.collector() as collector:
        (own, *_) = await collector.query("collector") or [ClassAd()]
        names = ("Name", "HostsTotal", "HostsClaimed", "HostsUnclaimed", "HostsOwner", "RunningJobs", "IdleJobs")
        found = {name: own.get(name) for name in names}
    return JSONResponse({"version": __version__, "signed_in": asked.access.signed_in, **found})


async def _jobs(asked: Asked) -> Response:
    async with asked.pool.schedd(asked.schedd) as schedd:
        return json_response(
            await schedd.query_json(asked.text("constraint"), asked.words("projection"), limit=asked.limit())
        )


async def _job(asked: Asked) -> Response:
    constraint = _constraint_of(asked.request.path_params["job"])
    async with asked.pool.schedd(asked.schedd) as schedd:
        ids = [asked.request.path_params["job"]]
        ads = await schedd.query("", asked.words("projection"), limit=asked.limit(), ids=ids)
        if not ads:
            ads = await schedd.history(constraint, asked.words("projection"), limit=asked.limit())
    if not ads:
        raise NotFoundError(f"there is no job {asked.request.path_params['job']}, nor was there one of late")
    return ads_response(ads)


async def _history(asked: Asked) -> Response:
    async with asked.pool.schedd(asked.schedd) as schedd:
        return json_response(
            await schedd.history_json(
                asked.text("constraint"), asked.words("projection"), limit=asked.limit(), since=asked.text("since")
            )
        )


async def _runs(asked: Asked) -> Response:
    """Newest first."""
    constraint = _constraint_of(asked.request.path_params["job"])
    projection = asked.words("projection") or list(_RUN_ATTRIBUTES)
    limit = min(asked.limit(), _RUNS_MOST)
    async with asked.pool.schedd(asked.schedd) as schedd:
        return ads_response(await schedd.runs(constraint, projection, limit=limit))


async def _act(asked: Asked) -> Response:
    body = await asked.body()
    action, reason = body.get("action"), body.get("reason", "")
    if action not in _ACTIONS:
        raise UsageError(f"there is no action {action!r}", hint=f"one of {', '.join(_ACTIONS)}")
    if not isinstance(reason, str):
        raise UsageError("the reason is not a string")
    async with asked.pool.schedd(asked.schedd) as schedd:
        result = await schedd.act(str(action), _jobs_of(body), reason=reason)
    return JSONResponse(result.totals)


async def _edit(asked: Asked) -> Response:
    body = await asked.body()
    attributes = body.get("attributes")
    if not isinstance(attributes, dict) or not attributes:
        raise UsageError("no attributes are given", hint='send {"jobs": ["1.0"], "attributes": {"JobPrio": "5"}}')
    values = {str(name): ExprTree(str(text)) for name, text in attributes.items()}
    async with asked.pool.schedd(asked.schedd) as schedd:
        result = await schedd.edit(_jobs_of(body), values)
    return JSONResponse(result.totals)


def _jobs_of(body: Mapping[str, object]) -> str | list[str]:
    """The jobs that a request names: ids, or a constraint.

    :raises UsageError: when it names none, or both.
    """
    ids, constraint = body.get("jobs"), body.get("constraint")
    if isinstance(ids, list) and ids and constraint is None:
        for each in ids:
            _constraint_of(str(each))
        return [str(each) for each in ids]
    if isinstance(constraint, str) and constraint and ids is None:
        return constraint
    raise UsageError("either jobs or a constraint is wanted", hint='{"jobs": ["1.0", "2"]} or {"constraint": "..."}')


def _constraint_of(job: str) -> str:
    """The expression that is true for a job, or for the jobs of a cluster.

    :raises UsageError: when it is not an id.
    """
    cluster, dot, proc = job.partition(".")
    if not (cluster.isascii() and cluster.isdigit() and len(cluster) < 12):
        raise UsageError(f"{job[:40]!r} is not the id of a job", hint="`12.0`, or `12` for a cluster")
    if not dot:
        return f"ClusterId == {int(cluster)}"
    if not (proc.isascii() and proc.isdigit() and len(proc) < 12):
        raise UsageError(f"{job[:40]!r} is not the id of a job", hint="`12.0`, or `12` for a cluster")
    return f"ClusterId == {int(cluster)} && ProcId == {int(proc)}"


async def _submit(asked: Asked) -> Response:
    description, count = statements(await asked.body())
    async with asked.pool.schedd(asked.schedd) as schedd:
        result = await schedd.submit(description, count, ReadOptions(elsewhere=True))
    told = {"cluster": result.cluster, "count": result.count, "warnings": list(result.warnings)}
    return JSONResponse(told, 201, {"location": f"{_PREFIX}/jobs/{result.cluster}"})


async def _one_job(asked: Asked) -> ClassAd:
    """The ad of the job that is named, in the queue."""
    name = asked.request.path_params["job"]
    _constraint_of(name)
    async with asked.pool.schedd(asked.schedd) as schedd:
        ads = await schedd.query(limit=1, ids=[name])
    if not ads:
        raise NotFoundError(f"there is no job {name} in the queue")
    return ads[0]


async def _analyze(asked: Asked) -> Response:
    job = await _one_job(asked)
    async with asked.pool.negotiator() as negotiator:
        return JSONResponse(await negotiator.analyze(job))


async def _tail(asked: Asked) -> Response:
    name, file = asked.request.path_params["job"], asked.request.path_params["file"]
    if file not in ("stdout", "stderr"):
        raise NotFoundError(f"a job has no file {file!r} here", hint="stdout or stderr")
    _constraint_of(name)
    async with asked.pool.schedd(asked.schedd) as schedd:
        data = await schedd.tail(name if "." in name else f"{name}.0", file)
    return Response(data, media_type="text/plain; charset=utf-8")


async def _totals(asked: Asked) -> Response:
    async with asked.pool.schedd(asked.schedd) as schedd:
        totals = await schedd.totals(asked.text("constraint"))
    return JSONResponse({"schedd": totals.schedd, "selected": asdict(totals.query), "all": asdict(totals.everyone)})


async def _machines(asked: Asked) -> Response:
    async with asked.pool.collector() as collector:
        counted = await collector.count_by("startd", MACHINE_ATTRIBUTES, asked.text("constraint"))
    # A large pool is a second of work here, in which others are to be answered.
    found = await asyncio.to_thread(lambda: gathered(machines(counted), asked.limit()))
    return JSONResponse({"whole": asdict(whole_pool(found)), "cells": [asdict(cell) for cell in found]})


async def _drain(asked: Asked) -> Response:
    body = await asked.body()
    schedule, reason = body.get("schedule", "graceful"), body.get("reason", "")
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise UsageError(f"there is no schedule {schedule!r}", hint=f"one of {', '.join(SCHEDULES)}")
    if not isinstance(reason, str) or len(reason) > _REASON_MOST:
        raise UsageError(f"the reason is not a string of at most {_REASON_MOST} characters")
    async with asked.pool.startd(asked.request.path_params["machine"]) as startd:
        request = await startd.drain(Drain(schedule=cast("Schedule", schedule), reason=reason))
    return JSONResponse({"request": request})


async def _cancel_drain(asked: Asked) -> Response:
    async with asked.pool.startd(asked.request.path_params["machine"]) as startd:
        await startd.cancel_drain(asked.text("request"))
    return JSONResponse({"cancelled": True})


async def _users(asked: Asked) -> Response:
    async with asked.pool.schedd(asked.schedd) as schedd:
        return ads_response((await schedd.users(asked.text("constraint"), asked.words("projection")))[: asked.limit()])


async def _groups(asked: Asked) -> Response:
    async with asked.pool.negotiator() as negotiator:
        ads = await negotiator.accounting()
    return ads_response([ad for ad in ads if ad.get("IsAccountingGroup") is True])


async def _events(asked: Asked) -> Response:
    """Changes of jobs, as server-sent events: each job when its state changes, and those that have left."""
    constraint = asked.text("constraint")

    async def look(schedd: AsyncSchedd) -> dict[str, int]:
        ads = await schedd.query(constraint, ("ClusterId", "ProcId", "JobStatus"), limit=_FOLLOWED_MOST)
        return {f"{ad.get('ClusterId')}.{ad.get('ProcId')}": whole(ad.get("JobStatus")) for ad in ads}

    async with asked.pool.schedd(asked.schedd) as schedd:
        first = await look(schedd)  # what is wrong with the request is said before the stream begins

    async def follow() -> AsyncIterator[str]:
        with asked.streams.one(signed_in=asked.access.signed_in):
            async with asked.pool.schedd(asked.schedd) as schedd:
                async for text in changes(first, partial(look, schedd), asked.request.is_disconnected):
                    yield text

    asked.streams.require_room(signed_in=asked.access.signed_in)
    return StreamingResponse(follow(), media_type="text/event-stream")


async def _accounting(asked: Asked) -> Response:
    async with asked.pool.negotiator() as negotiator:
        ads = await negotiator.accounting()
    if len(ads) > asked.limit():
        ads = sorted(ads, key=lambda ad: (ad.get("IsAccountingGroup") is not True, -_used(ad)))[: asked.limit()]
    return ads_response(ads)


def _used(ad: ClassAd) -> float:
    value = ad.get("WeightedResourcesUsed")
    return float(value) if isinstance(value, int | float) else 0.0


async def _cycle(asked: Asked) -> Response:
    async with asked.pool.negotiator() as negotiator:
        return JSONResponse(await negotiator.last_cycle())


async def _demand(asked: Asked) -> Response:
    async with asked.pool.negotiator() as negotiator:
        cycle = await negotiator.last_cycle()
    demand = cycle.get("demand")
    if not isinstance(demand, dict):
        raise NotFoundError("the negotiator does not tell the demand", hint="it is of an earlier version")
    return JSONResponse({"cycle": cycle.get("cycle"), **demand})


async def _batches(asked: Asked) -> Response:
    """Of everybody, or with ``mine`` of whoever has signed in; counted by the schedd.

    How many were submitted is told of the caller's own alone: it takes a number for each cluster, of which the queue of
    all users may have a million.
    """
    mine = asked.text("mine").lower() in ("1", "true", "yes")
    if mine and not asked.access.signed_in:
        raise UnauthenticatedError("only who shows a token has jobs here", hint="leave mine out for everybody's")
    async with asked.pool.schedd(asked.schedd) as schedd:
        counted = PROGRESS_ATTRIBUTES if mine else ("User", *BATCH_ATTRIBUTES)
        rows = await schedd.count_by(counted, asked.text("constraint"), mine=mine)
    # The clusters of a large queue are counted in a thread, so that others are answered meanwhile.
    found = await asyncio.to_thread(batches, rows)
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


async def _sign_in(asked: Asked) -> Response:
    """Begin a session with the token that the request shows; its name goes into a cookie that scripts cannot read."""
    token = asked.request.headers.get("authorization", "").partition(" ")[2].strip()
    if not token:
        raise UsageError("signing in takes the token in the header Authorization")
    async with asked.pool.collector() as collector:  # it has to be good
        await collector.query("collector", limit=1)
    response = JSONResponse({"signed_in": True})
    secure = asked.request.url.scheme == "https"
    name = asked.sessions.begin(token)
    response.set_cookie(COOKIE, name, max_age=int(LASTS_S), httponly=True, secure=secure, samesite="strict", path="/")
    return response


async def _sign_out(asked: Asked) -> Response:
    asked.sessions.end(asked.request.cookies.get(COOKIE, ""))
    response = JSONResponse({"signed_in": False})
    response.delete_cookie(COOKIE, path="/")
    return response


async def _metrics(asked: Asked) -> Response:
    families = merged(await asked.scraper.scrape(asked.access.credential))
    page, media_type = rendered(families, asked.request.headers.get("accept", ""))
    return Response(page, media_type=media_type)


async def _describe(asked: Asked) -> Response:
    return JSONResponse(openapi())


_TO_JOBS = {"jobs": "Ids of jobs or clusters.", "constraint": "In place of ids: a ClassAd expression."}
OPERATIONS = (
    Operation("GET", f"{_PREFIX}/pool", "The pool at a glance.", _pool),
    Operation("GET", f"{_PREFIX}/slots", "Slots.", _of_kind("startd"), _LIST),
    Operation("GET", f"{_PREFIX}/schedds", "Access points.", _of_kind("schedd"), _LIST),
    Operation("GET", f"{_PREFIX}/submitters", "Submitters and numbers of their jobs.", _of_kind("submitter"), _LIST),
    Operation("GET", f"{_PREFIX}/masters", "The hosts' masters.", _of_kind("master"), _LIST),
    Operation("GET", f"{_PREFIX}/accounting",
              "Priorities and usage of groups and submitters; if not all, those that use most.", _accounting, (_MOST,)),
    Operation("GET", f"{_PREFIX}/groups", "Accounting groups with their quotas and what they use.", _groups),
    Operation("GET", f"{_PREFIX}/users", "Records of the users of an access point.", _users, (_SCHEDD, *_LIST)),
    Operation("GET", f"{_PREFIX}/negotiators", "Negotiators, with figures of their last cycles.",
              _of_kind("negotiator"), _LIST),
    Operation("GET", f"{_PREFIX}/cycle", "The last negotiation cycle.", _cycle),
    Operation("GET", f"{_PREFIX}/demand",
              "What idle jobs ask for that the last cycle could not give them, by cores, memory, disk, GPUs.", _demand),
    Operation("GET", f"{_PREFIX}/batches",
              "Batches with jobs by state, those with the most running first; of the caller's own, how many are done.",
              _batches, (_SCHEDD, _CONSTRAINT, Parameter("mine", "1: those of the caller alone."), _MOST)),
    Operation("GET", f"{_PREFIX}/jobs", "Jobs in the queue of an access point, in the order of their ids.", _jobs,
              (_SCHEDD, *_LIST)),
    Operation("POST", f"{_PREFIX}/jobs", "Submit jobs.", _submit, (_SCHEDD,),
              {"description": "Statements of the submit language; initialdir is a directory of the access point.",
               "count": "Number of jobs; 1 unless given."}),
    Operation("GET", f"{_PREFIX}/totals", "Numbers of jobs by state: those that are selected, and all.", _totals,
              (_SCHEDD, _CONSTRAINT)),
    Operation("GET", f"{_PREFIX}/machines",
              "Machines with their slots and cores by state, several in one cell where there are more than the limit.",
              _machines, (_CONSTRAINT, _MOST)),
    Operation("POST", f"{_PREFIX}/machines/{{machine}}/drain", "Drain a machine.", _drain, (_MACHINE,),
              {"schedule": f"How jobs end: {', '.join(SCHEDULES)}.", "reason": "Why."}),
    Operation("DELETE", f"{_PREFIX}/machines/{{machine}}/drain", "Take a machine that drains back into service.",
              _cancel_drain, (_MACHINE, Parameter("request", "Only if this request drains it."))),
    Operation("GET", f"{_PREFIX}/events", "Changes of jobs as server-sent events.", _events, (_SCHEDD, _CONSTRAINT)),
    Operation("GET", f"{_PREFIX}/jobs/{{job}}/analyze", "Why a job does not run.", _analyze, (_JOB, _SCHEDD)),
    Operation("GET", f"{_PREFIX}/jobs/{{job}}/runs", "The runs of a job that have ended, newest first.", _runs,
              (_JOB, _SCHEDD, _PROJECTION, _MOST)),
    Operation("GET", f"{_PREFIX}/jobs/{{job}}/{{file}}", "The end of a running job's stdout or stderr.", _tail,
              (_JOB, Parameter("file", "stdout or stderr.", "path"), _SCHEDD)),
    Operation("GET", f"{_PREFIX}/jobs/{{job}}", "A job, or the jobs of a cluster, in the queue or its history.", _job,
              (_JOB, _SCHEDD, _PROJECTION, _MOST)),
    Operation("POST", f"{_PREFIX}/jobs/act", f"Do something to jobs: {', '.join(_ACTIONS)}.", _act, (_SCHEDD,),
              {"action": "What is done.", "reason": "Why, for HoldReason and the like.", **_TO_JOBS}),
    Operation("POST", f"{_PREFIX}/jobs/edit", "Set attributes of jobs.", _edit, (_SCHEDD,),
              {"attributes": "Names, and values as ClassAd expressions.", **_TO_JOBS}),
    Operation("GET", f"{_PREFIX}/history", "Jobs that have left the queue, newest first.", _history,
              (_SCHEDD, *_LIST, Parameter("since", "A job, a cluster or an expression at which to stop."))),
    Operation("POST", f"{_PREFIX}/session", "Keep the token of this request in a cookie.", _sign_in),
    Operation("DELETE", f"{_PREFIX}/session", "Forget that cookie.", _sign_out),
    Operation("GET", f"{_PREFIX}/openapi.json", "This description.", _describe),
    Operation("GET", _METRICS, "Metrics of all daemons of this host, for Prometheus.", _metrics),
)  # fmt: skip


def openapi() -> dict[str, object]:
    """The API as OpenAPI 3.1."""
    paths: dict[str, dict[str, object]] = {}
    answer = {"200": {"description": "Done."}, "default": {"description": "A problem (application/problem+json)."}}
    for one in OPERATIONS:
        described: dict[str, object] = {"summary": one.about, "responses": answer}
        if one.parameters:
            described["parameters"] = [
                {
                    "name": each.name,
                    "in": each.place,
                    "required": each.place == "path",
                    "description": each.about,
                    "schema": {"type": each.type},
                }
                for each in one.parameters
            ]
        if one.body is not None:
            members = {name: {"description": about} for name, about in one.body.items()}
            schema = {"type": "object", "properties": members}
            described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths.setdefault(one.path, {})[one.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Slotwise", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def application(env: Mapping[str, str], gate: Gate, scraper: Scraper, serves: Serves = "all") -> Starlette:
    """The application, whole, or with the metrics alone."""

    streams = StreamBounds()

    def served(one: Operation) -> Route:
        async def endpoint(request: Request) -> Response:
            access = gate.access(request)
            response = await one.handle(
                Asked(request, access, PoolClient(env, access.credential), scraper, gate.sessions, streams)
            )
            response.headers.update(HEADERS)
            return response

        return Route(one.path, endpoint, methods=[one.method])

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers=HEADERS)

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC_FILES:
            raise NotFoundError(f"the page has no file {name!r}")
        return FileResponse(STATIC / name, headers=HEADERS)

    routes = [served(one) for one in OPERATIONS if serves == "all" or one.path == _METRICS]
    if serves == "all":
        routes += [Route("/", page), Route("/static/{name}", static)]
    return Starlette(
        routes=routes,
        exception_handlers={SlotwiseError: on_error, HTTPException: on_error, Exception: on_error},
    )
