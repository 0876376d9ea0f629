"""How tests wait: until something holds, or until a limit that no host that works comes near.

A limit bounds how long a failure takes, and is never what is tested: that something happens early or late is asserted
by an order of events, or on a clock that the test moves.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

#: How much longer than usual tests wait: a factor, for slow (emulated) hosts.
PATIENCE = float(os.environ.get("SLOTWISE_TEST_PATIENCE", "1"))
#: Seconds that anything may take: a condition, a command, a call, the end of a thread. What takes longer on a host that
#: has nothing else to do names a multiple of it.
LIMIT_S = 60 * PATIENCE


def _pause_s(waited_s: float, most_s: float) -> float:
    """Grows with the time waited so far: what comes at once is seen at once, what takes its time costs few looks."""
    return min(max(waited_s / 20, 0.005), most_s)


def block_until(
    true: Callable[..., Any],
    what: str = "",
    *,
    limit_s: float = LIMIT_S,
    told: Callable[[], object] | None = None,
) -> Any:
    """What ``true()`` gives once it gives something true; blocks the thread.

    :param what: what is waited for, for the message of a failure; the source of ``true`` where it is not given.
    :param told: what else the message says: logs, a state.
    """
    began = time.monotonic()
    while not (found := true()):
        if (waited_s := time.monotonic() - began) > limit_s:
            raise AssertionError(_message(true, what, limit_s, told and told()))
        time.sleep(_pause_s(waited_s, 0.1))
    return found


async def until(
    true: Callable[..., Any],
    what: str = "",
    *,
    limit_s: float = LIMIT_S,
    told: Callable[[], object] | None = None,
    changed: asyncio.Condition | None = None,
) -> Any:
    """As :func:`block_until`, while the event loop goes on; ``true`` and ``told`` may be asynchronous.

    :param changed: ``true`` is looked at whenever this is notified, too.
    """
    began = time.monotonic()
    while not (found := await _awaited(true())):
        if (waited_s := time.monotonic() - began) > limit_s:
            raise AssertionError(_message(true, what, limit_s, told and await _awaited(told())))
        pause_s = _pause_s(waited_s, 0.05)
        if changed is None:
            await asyncio.sleep(pause_s)
            continue
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s), changed:
                await changed.wait()
    return found


async def ended(work: Awaitable[Any], what: str, *, limit_s: float = LIMIT_S) -> None:
    """Wait for the end of something; a failure shows where all tasks of the event loop are."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait([task], timeout=limit_s)
    if not done:
        where = "\n".join(map(_place, asyncio.all_tasks()))
        task.cancel()
        raise AssertionError(f"not within {limit_s:g} s: the end of {what}\n{where}")
    await task


def _place(task: asyncio.Task[Any]) -> str:
    """Where a task waits, from the outside in."""
    lines = [task.get_name()]
    at: Any = task.get_coro()
    while at is not None:
        if (frame := _first(at, "cr_frame", "gi_frame", "ag_frame")) is not None:
            lines.append(f"    {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        at = _first(at, "cr_await", "gi_yieldfrom", "ag_await")
    return "\n".join(lines)


def _first(of: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(of, name, None)) is not None), None)


async def _awaited(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def _message(true: Callable[..., Any], what: str, limit_s: float, told: object) -> str:
    if not what:
        try:
            what = inspect.getsource(true).strip()
        except (OSError, TypeError):
            what = repr(true)
    return f"not within {limit_s:g} s: {what}" + (f"\n{told}" if told else "")
