"""Requests about DAGs."""

from __future__ import annotations

from starlette.responses import Response

from slotwise.errors import UnauthenticatedError
from slotwise.web.access import SIGN_IN
from slotwise.web.asked import Asked
from slotwise.web.job_requests import constraint_of


async def graph(asked: Asked) -> Response:
    """A DAG of the caller's as boxes in rows. Its files are read by the access point, with its owner's rights."""
    job = asked.request.path_params["job"]
    constraint_of(job)
    if not asked.access.signed_in:
        raise UnauthenticatedError(f"the files of DAG {job} are its user's", hint=SIGN_IN)
    async with asked.pool.schedd(asked.schedd) as schedd:
        found = await schedd.show_dag(job)
    asked.memory.take(len(found))
    return Response(found, media_type="application/json")
