"""Changes of jobs as server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from slotwise.errors import SlotwiseError

#: How often the queue is looked at, in seconds, and after how many looks without a change a comment keeps the
#: connection alive.
_LOOK_S, _QUIET_LOOKS = 1.0, 15
#: Jobs by id, with their JobStatus.
States = Mapping[str, int]


def event(kind: str, data: object) -> str:
    """One event."""
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def difference(before: States, after: States) -> list[tuple[str, int | None]]:
    """Jobs whose state has changed, with the new one; None: the job has left the queue."""
    changed: list[tuple[str, int | None]] = [(job, state) for job, state in after.items() if before.get(job) != state]
    return [*changed, *((job, None) for job in before if job not in after)]


async def changes(
    first: States, look: Callable[[], Awaitable[States]], gone: Callable[[], Awaitable[bool]], every_s: float = _LOOK_S
) -> AsyncIterator[str]:
    """The states at first, then each change, until the caller is ``gone``; a look that fails is reported."""
    yield event("jobs", [{"job": job, "status": state} for job, state in first.items()])
    known, quiet = first, 0
    while not await gone():
        await asyncio.sleep(every_s)
        try:
            found = await look()
        except SlotwiseError as error:
            yield event("problem", {"title": error.code, "detail": error.message})
            if error.status in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
                return
            continue
        changed = difference(known, found)
        known, quiet = found, quiet + 1
        if changed:
            quiet = 0
            yield event("jobs", [{"job": job, "status": state} for job, state in changed])
        elif quiet >= _QUIET_LOOKS:
            quiet = 0
            yield ": nothing has changed\n\n"
