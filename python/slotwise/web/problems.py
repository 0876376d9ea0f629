"""Errors as ``application/problem+json`` (RFC 9457): the message, the remedy, and the error's stable code."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from slotwise.errors import BusyError, SlotwiseError

_log = logging.getLogger(__name__)
#: HTTP statuses by the gRPC status that an error travels as.
_STATUSES = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 409,
    "ABORTED": 409,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
    "UNIMPLEMENTED": 501,
}
MEDIA_TYPE = "application/problem+json"
#: What pages of this service may load, and from where: from nowhere else. Every response has them.
HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def problem(error: SlotwiseError) -> JSONResponse:
    """The response that tells of an error."""
    status = _STATUSES.get(error.status, 500)
    body: dict[str, object] = {"type": "about:blank", "title": error.code, "status": status, "detail": error.message}
    if error.hint:
        body["hint"] = error.hint
    body.update({name: value for name in error.fields if (value := getattr(error, name, None)) not in (None, "")})
    headers = dict(HEADERS)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, BusyError):
        headers["retry-after"] = str(max(1, round(error.retry_after_s)))
    return JSONResponse(body, status, headers, MEDIA_TYPE)


async def on_error(request: Request, error: Exception) -> JSONResponse:
    """The response to a request that raised ``error``."""
    if isinstance(error, SlotwiseError):
        return problem(error)
    if isinstance(error, HTTPException):
        return _not_served(request, error)
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(SlotwiseError("the request failed in the service", hint="its log, WebLog, says why"))


def _not_served(request: Request, error: HTTPException) -> JSONResponse:
    """The response to a path that there is not, or with a method that it does not take."""
    path, hint = request.url.path[:200], "GET /api/v1/openapi.json describes what there is"
    if error.status_code == 405:
        title, detail = "method_not_allowed", f"{request.method} is not for {path}"
    else:
        title, detail = "not_found", f"there is nothing at {path}"
    body = {"type": "about:blank", "title": title, "status": error.status_code, "detail": detail, "hint": hint}
    return JSONResponse(body, error.status_code, {**HEADERS, **(error.headers or {})}, MEDIA_TYPE)
