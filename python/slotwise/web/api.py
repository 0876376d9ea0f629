"""The HTTP API: what it offers, as one table that is served, and described as OpenAPI.

Ads travel as JSON objects. Lists take ``constraint`` (a ClassAd expression), ``projection`` (attributes, separated by
commas) and ``limit``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from slotwise.client.startd import SCHEDULES
from slotwise.errors import NotFoundError, SlotwiseError
from slotwise.web import dag_requests as of_dags
from slotwise.web import job_files as of_files
from slotwise.web import job_requests as of_jobs
from slotwise.web import pool_requests as of_pool
from slotwise.web.access import Gate
from slotwise.web.asked import LIMIT, LIMIT_MOST, Asked, Releasing
from slotwise.web.bounds import ServiceBounds
from slotwise.web.exposition import Scraper
from slotwise.web.job_requests import PREFIX
from slotwise.web.openapi import Member, Operation, Parameter, described
from slotwise.web.pool_client import PoolClient
from slotwise.web.pool_requests import of_kind
from slotwise.web.problems import HEADERS, on_error
from slotwise.web.settings import Serves
from slotwise.web.trend import Trend
from slotwise.web.verified import Verified

_METRICS = "/metrics"


_CONSTRAINT = Parameter("constraint", "A ClassAd expression that is true for the ads that are wanted; may be repeated.")
_PROJECTION = Parameter("projection", "Attributes, separated by commas; without it all of them.")
_MOST = Parameter("limit", f"Ads at most: {LIMIT} unless given, up to {LIMIT_MOST}.", type="integer")
_SCHEDD = Parameter("schedd", "Name of the access point; without it this host's, or the first of the pool.")
_JOB = Parameter("job", "Id of a job (`12.0`) or of a cluster (`12`).", "path")
_NAME = Parameter("name", "Name of the file below the job's directory: `data/input.csv`.", "path")
_MACHINE = Parameter("machine", "Name of the machine, as the attribute Machine of its slots has it.", "path")
_MINE = Parameter("mine", "1: those of the caller alone.")
_AFTER = Parameter(
    "after", "Where the page before ended: from its header Link, which has the address of the next page."
)
_LIST = (_CONSTRAINT, _PROJECTION, _MOST)

#: The page's files: its own scripts, which have no other.
STATIC = Path(__file__).with_name("static")
STATIC_FILES = frozenset(file.name for file in STATIC.iterdir() if file.suffix in (".js", ".css", ".svg"))


async def _describe(asked: Asked) -> Response:
    return JSONResponse(openapi())


_COUNT = {"type": "integer"}
_IDS = {"type": "array", "items": {"type": "string"}}
_DESCRIPTION = {
    "description": Member(
        "Statements of the submit language; initialdir is a directory of the access point.",
        {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    ),
    "count": Member("Number of jobs; 1 unless given.", _COUNT),
    "text": Member("In place of both: a description with its queue statement, as text."),
}
_TO_JOBS = {
    "jobs": Member("Ids of jobs or clusters.", _IDS),
    "constraint": Member("In place of ids: a ClassAd expression."),
}
OPERATIONS = (
    Operation("GET", f"{PREFIX}/pool", "The pool at a glance, and who asks.", of_pool.pool, "Pool"),
    Operation("GET", f"{PREFIX}/slots", "Slots.", of_kind("startd"), "Ads", _LIST),
    Operation("GET", f"{PREFIX}/schedds", "Access points.", of_kind("schedd"), "Ads", _LIST),
    Operation("GET", f"{PREFIX}/submitters", "Submitters and numbers of their jobs.", of_kind("submitter"), "Ads",
              _LIST),
    Operation("GET", f"{PREFIX}/masters", "The hosts' masters.", of_kind("master"), "Ads", _LIST),
    Operation("GET", f"{PREFIX}/accounting",
              "Priorities and usage of groups and submitters; if not all, those that use most.", of_pool.accounting,
              "Ads", (_MOST,)),
    Operation("GET", f"{PREFIX}/groups", "Accounting groups with their quotas and what they use.", of_pool.groups,
              "Ads"),
    Operation("GET", f"{PREFIX}/users", "Records of the users of an access point.", of_jobs.users, "Ads",
              (_SCHEDD, *_LIST)),
    Operation("GET", f"{PREFIX}/negotiators", "Negotiators, with figures of their last cycles.",
              of_kind("negotiator"), "Ads", _LIST),
    Operation("GET", f"{PREFIX}/cycle", "The last negotiation cycle.", of_pool.cycle, "Cycle"),
    Operation("GET", f"{PREFIX}/demand",
              "What idle jobs ask for that the last cycle could not give them, by cores, memory, disk, GPUs.",
              of_pool.demand, "Demand"),
    Operation("GET", f"{PREFIX}/batches",
              "Batches with jobs by state, those with the most running first; of the caller's own, how many are done.",
              of_jobs.batches, "Batches", (_SCHEDD, _CONSTRAINT, _MINE, _MOST)),
    Operation("GET", f"{PREFIX}/jobs", "Jobs in the queue of an access point; in pages with order, after or mine.",
              of_jobs.jobs, "Ads",
              (_SCHEDD, *_LIST, _MINE, _AFTER,
               Parameter("order", "An attribute, or `id`; with `-` before it the largest first.")), has_pages=True),
    Operation("POST", f"{PREFIX}/jobs", "Submit jobs.", of_jobs.submit, "Submitted",
              (_SCHEDD, Parameter("spool", "1: their files are sent next, and they are held until all are there.")),
              _DESCRIPTION, 201),
    Operation("PUT", f"{PREFIX}/jobs/{{job}}/input/{{name}}",
              "Send an input file of a job that was submitted with spool, or of all jobs of a cluster.",
              of_files.put, "Sent",
              (_JOB, _NAME, _SCHEDD, Parameter("executable", "1: the file is a program.")), None, 201, takes_file=True),
    Operation("POST", f"{PREFIX}/jobs/{{job}}/input", "All input files have been sent: the jobs may run.",
              of_files.complete, "Acted", (_JOB, _SCHEDD)),
    Operation("GET", f"{PREFIX}/jobs/{{job}}/output/{{name}}", "A file that a spooled job has left.", of_files.get,
              "application/octet-stream", (_JOB, _NAME, _SCHEDD)),
    Operation("GET", f"{PREFIX}/jobs/{{job}}/output",
              "All that a spooled job, or each of a cluster, has left, as a zip archive. The jobs stay in the queue "
              "until they are removed.", of_files.archive, "application/zip", (_JOB, _SCHEDD)),
    Operation("POST", f"{PREFIX}/jobs/preview",
              "What a description would queue, the ad of the first of these jobs, and what slots say to it.",
              of_jobs.preview, "Preview", (_SCHEDD,), _DESCRIPTION),
    Operation("GET", f"{PREFIX}/totals", "Numbers of jobs by state: those that are selected, and all.",
              of_jobs.totals, "Totals", (_SCHEDD, _CONSTRAINT)),
    Operation("GET", f"{PREFIX}/trend", "Cores by state of slots and jobs by state, over the last day.",
              of_pool.trend, "Trend"),
    Operation("GET", f"{PREFIX}/machines",
              "Machines with their slots and cores by state, several in one cell where there are more than the limit.",
              of_pool.machines, "Machines",
              (_CONSTRAINT, _MOST, Parameter("group", "An attribute that groups machines."))),
    Operation("POST", f"{PREFIX}/machines/{{machine}}/drain", "Drain a machine.", of_pool.drain, "Drain", (_MACHINE,),
              {"schedule": Member("How jobs end.", {"type": "string", "enum": list(SCHEDULES)}),
               "reason": Member("Why.")}),
    Operation("DELETE", f"{PREFIX}/machines/{{machine}}/drain", "Take a machine that drains back into service.",
              of_pool.cancel_drain, "Cancelled",
              (_MACHINE, Parameter("request", "Only if this request drains it."))),
    Operation("GET", f"{PREFIX}/events", "Changes of jobs as server-sent events.", of_jobs.events,
              "text/event-stream", (_SCHEDD, _CONSTRAINT)),
    Operation("GET", f"{PREFIX}/jobs/{{job}}/analyze", "Why a job does not run.", of_jobs.analyze, "Analysis",
              (_JOB, _SCHEDD)),
    Operation("GET", f"{PREFIX}/jobs/{{job}}/runs", "The runs of a job that have ended, newest first.", of_jobs.runs,
              "Ads", (_JOB, _SCHEDD, _PROJECTION, _MOST)),
    Operation("GET", f"{PREFIX}/jobs/{{job}}/{{file}}", "The end of a running job's stdout or stderr.", of_jobs.tail,
              "text/plain", (_JOB, Parameter("file", "stdout or stderr.", "path"), _SCHEDD)),
    Operation("GET", f"{PREFIX}/jobs/{{job}}", "A job, or the jobs of a cluster, in the queue or its history.",
              of_jobs.job, "Ads", (_JOB, _SCHEDD, _PROJECTION, _MOST)),
    Operation("GET", f"{PREFIX}/dags/{{job}}",
              "A DAG: boxes of nodes in rows, with their states, and what is between them.", of_dags.graph, "Dag",
              (_JOB, _SCHEDD)),
    Operation("POST", f"{PREFIX}/jobs/act", "Do something to jobs.", of_jobs.act, "Acted", (_SCHEDD,),
              {"action": Member("What is done.", {"type": "string", "enum": list(of_jobs.ACTIONS)}, is_required=True),
               "reason": Member("Why, for HoldReason and the like."),
               "results": Member("Also what became of each that is named.", {"type": "boolean"}), **_TO_JOBS}),
    Operation("POST", f"{PREFIX}/jobs/edit", "Set attributes of jobs.", of_jobs.edit, "Acted", (_SCHEDD,),
              {"attributes": Member("Names, and values as ClassAd expressions.",
                                    {"type": "object", "additionalProperties": {"type": "string"}}, is_required=True),
               **_TO_JOBS}),
    Operation("GET", f"{PREFIX}/history", "Jobs that have left the queue, newest first, in pages.", of_jobs.history,
              "Ads", (_SCHEDD, *_LIST, _AFTER,
                      Parameter("since", "A job, a cluster or an expression at which to stop.")), has_pages=True),
    Operation("POST", f"{PREFIX}/session", "Keep the token of this request in a cookie.", of_pool.sign_in, "Who"),
    Operation("DELETE", f"{PREFIX}/session", "Forget that cookie.", of_pool.sign_out, "Who"),
    Operation("GET", f"{PREFIX}/openapi.json", "This description.", _describe, "Description"),
    Operation("GET", _METRICS, "Metrics of all daemons of this host, for Prometheus.", of_pool.metrics,
              "application/openmetrics-text"),
)  # fmt: skip


def openapi() -> dict[str, object]:
    """The API as OpenAPI 3.1."""
    return described(OPERATIONS)


def application(
    env: Mapping[str, str], gate: Gate, scraper: Scraper, trend: Trend, serves: Serves = "all"
) -> Starlette:
    """The application, whole, or with the metrics alone."""

    bounds, verified = ServiceBounds(), Verified()

    def served(one: Operation) -> Route:
        async def endpoint(request: Request) -> Response:
            access = gate.access(request)
            # Whose the token is is known before anything of a body is read.
            access = await verified.access(access, PoolClient(env, access.credential), reads=one.method == "GET")
            held = AsyncExitStack()
            try:
                held.enter_context(bounds.requests.one(access.caller))
                memory = held.enter_context(bounds.memory.of(access.caller))
                pool = PoolClient(env, access.credential, memory.take)
                response = await one.handle(
                    Asked(request, access, pool, scraper, gate.sessions, bounds, trend, memory, held)
                )
                response.headers.update(HEADERS)
            except BaseException:
                await held.aclose()
                raise
            return Releasing(response, held)

        return Route(one.path.replace("{name}", "{name:path}"), endpoint, methods=[one.method])

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers=HEADERS)

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC_FILES:
            raise NotFoundError(f"the page has no file {name!r}")
        return FileResponse(STATIC / name, headers=HEADERS)

    routes = [served(one) for one in OPERATIONS if serves == "all" or one.path == _METRICS]
    if serves == "all":
        routes += [Route("/", page), Route("/static/{name}", static)]
    served_here = Starlette(
        routes=routes,
        exception_handlers={SlotwiseError: on_error, HTTPException: on_error, Exception: on_error},
    )
    # It would send callers to wherever their Host names.
    served_here.router.redirect_slashes = False
    return served_here
