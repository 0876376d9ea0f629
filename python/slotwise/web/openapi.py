"""The description of the API (OpenAPI 3.1): operations with what they take and answer, in types for clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from slotwise import __version__
from slotwise.web.asked import Handler

Schema = Mapping[str, object]
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}


class Parameter(Struct, frozen=True):
    """A parameter of an operation, in its query or its path."""

    name: str
    about: str
    place: str = "query"
    type: str = "string"


class Member(Struct, frozen=True):
    """A member of the JSON object that an operation takes."""

    about: str
    #: None: a text.
    schema: Schema | None = None
    is_required: bool = False


class Operation(Struct, frozen=True):
    """One thing that the API does."""

    method: str
    path: str
    about: str
    handle: Handler
    #: What it answers: the name of one of :data:`SCHEMAS`, or a media type.
    answer: str
    parameters: tuple[Parameter, ...] = ()
    body: Mapping[str, Member] | None = None
    status: int = 200
    #: Whether its body is a file, as it is.
    takes_file: bool = False
    #: Whether its list comes in pages, with a link to the next one.
    has_pages: bool = False


def array(of: Schema) -> Schema:
    """A list of these."""
    return {"type": "array", "items": of}


def ref(name: str) -> Schema:
    """One of :data:`SCHEMAS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def _object(members: Mapping[str, Schema], *optional: str, about: str = "") -> Schema:
    made: dict[str, object] = {"type": "object", "properties": members}
    if required := [name for name in members if name not in optional]:
        made["required"] = required
    return {**made, "description": about} if about else made


def _map(of: Schema, about: str = "") -> Schema:
    return {"type": "object", "additionalProperties": of, "description": about}


_JOB_COUNTS = _object(dict.fromkeys(("jobs", "completed", "removed", "idle", "running", "held", "suspended"), _NUMBER))
_CELL = _object({"machine": _TEXT, "machines": _NUMBER, "slots": _NUMBER, "cores": _map(_NUMBER), "group": _TEXT})
_OPEN: Schema = {"type": "object", "additionalProperties": True}
SCHEMAS: Mapping[str, Schema] = {
    "Ad": {
        **_OPEN,
        "description": "A ClassAd: attributes by name. Expressions are strings of the form `/Expr(...)/`.",
    },
    "Ads": array(ref("Ad")),
    "Problem": _object(
        {"type": _TEXT, "title": _TEXT, "status": _NUMBER, "detail": _TEXT, "hint": _TEXT, "origin": _TEXT,
         "key": _TEXT},
        "hint", "origin", "key",
        about="RFC 9457: `title` is the stable code of the error, `detail` what is wrong, `hint` the remedy.",
    ),
    "Who": _object(
        {"signed_in": {"type": "boolean"}, "user": _TEXT, "may": array(_TEXT)},
        "user", "may",
        about="Who asks, and what the pool lets them do: READ, WRITE, ADMINISTRATOR ...",
    ),
    "Pool": _object(
        {"version": _TEXT, "signed_in": {"type": "boolean"}, "user": _TEXT, "may": array(_TEXT), "Name": _TEXT,
         **{name: {"type": ["integer", "null"]} for name in (
             "HostsTotal", "HostsClaimed", "HostsUnclaimed", "HostsOwner", "RunningJobs", "IdleJobs")}},
        "user", "may",
    ),
    "Submitted": _object({"cluster": _NUMBER, "count": _NUMBER, "warnings": array(_TEXT)}),
    "Preview": _object(
        {"count": _NUMBER, "warnings": array(_TEXT), "verdict": _TEXT, "requirements": _OPEN, "ad": ref("Ad")},
        "requirements",
        about="What would be queued, and of the first job what `analyze` says.",
    ),
    "Sent": _object({"job": _TEXT, "name": _TEXT, "bytes": _NUMBER}),
    "Acted": _object(
        {**dict.fromkeys(("success", "not_found", "permission_denied", "bad_status", "already_done"), _NUMBER),
         "jobs": _map(_TEXT, "The result of each job that was named.")},
        "success", "not_found", "permission_denied", "bad_status", "already_done", "jobs",
        about="Numbers of jobs by result, of results that there were.",
    ),
    "Totals": _object({"schedd": _TEXT, "selected": _JOB_COUNTS, "all": _JOB_COUNTS}),
    "Batches": _object(
        {"left_out": _NUMBER, "batches": array(_object(
            {"name": _TEXT, "user": _TEXT, "jobs": _NUMBER, "submitted": {"type": ["integer", "null"]},
             "done": {"type": ["integer", "null"]}, "counts": _map(_NUMBER, "Jobs by JobStatus.")}))},
    ),
    "Machines": _object({"whole": _CELL, "cells": array(_CELL)}),
    "Trend": _object(
        {"every_s": {"type": "number"},
         "samples": array(_object({"at": _NUMBER, "cores": _map(_NUMBER), "jobs": _map(_NUMBER)}))},
        about="`at` is in seconds since the epoch; the oldest sample comes first.",
    ),
    "Analysis": {**_OPEN, "description": "Why a job does not run, as `slotwise analyze --json` has it."},
    "Dag": {**_OPEN, "description": "A DAG, as `slotwise dag graph --json` has it."},
    "Cycle": {**_OPEN, "description": "A negotiation cycle, as `slotwise negotiator --json` has it."},
    "Demand": {**_OPEN, "description": "Unmet demand, as `slotwise demand --json` has it."},
    "Drain": _object({"request": {**_TEXT, "description": "Id of the request, to cancel it alone."}}),
    "Cancelled": _object({"cancelled": {"type": "boolean"}}),
    "Description": {**_OPEN, "description": "This description."},
}  # fmt: skip
_PROBLEM: Schema = {
    "description": "A problem.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def described(operations: Iterable[Operation]) -> dict[str, object]:
    """The API as OpenAPI 3.1."""
    paths: dict[str, dict[str, object]] = {}
    for one in operations:
        media = one.answer if "/" in one.answer else "application/json"
        schema = _TEXT if "/" in one.answer else ref(one.answer)
        answer: dict[str, object] = {"description": one.about, "content": {media: {"schema": schema}}}
        if one.has_pages:
            link = '`<ADDRESS>; rel="next"`: the address of the next page, where there is one.'
            answer["headers"] = {"Link": {"description": link, "schema": _TEXT}}
        operation: dict[str, object] = {
            "summary": one.about,
            "operationId": f"{one.method.lower()}{one.path.removeprefix('/api/v1')}".replace("/", "_").translate(
                _PLAIN
            ),
            "responses": {str(one.status): answer, "default": _PROBLEM},
        }
        if one.parameters:
            operation["parameters"] = [
                {
                    "name": each.name,
                    "in": each.place,
                    "required": each.place == "path",
                    "description": each.about,
                    "schema": {"type": each.type},
                }
                for each in one.parameters
            ]
        if one.takes_file:
            file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
            operation["requestBody"] = {"required": True, "content": file}
        if one.body is not None:
            taken: dict[str, object] = {
                "type": "object",
                "properties": {
                    name: {**(each.schema or _TEXT), "description": each.about} for name, each in one.body.items()
                },
            }
            if required := [name for name, each in one.body.items() if each.is_required]:
                taken["required"] = required
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": taken}}}
        paths.setdefault(one.path, {})[one.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Slotwise", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


_PLAIN = str.maketrans({"{": None, "}": None, ".": "_"})
