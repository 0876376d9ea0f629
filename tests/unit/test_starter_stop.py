"""A stopping starter ends its jobs when the startd leaves too, even if it hears of that a moment later."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from slotwise.clock import SystemClock
from slotwise.starter import app
from slotwise.starter.run import events


class OneRun:
    """A host with one run, which ends as soon as it is unwanted."""

    def __init__(self) -> None:
        self.startd = SimpleNamespace(listening=True)
        self.runs: dict[str, Any] = {"1.0#1": self}
        self.events: list[Any] = []

    def on(self, event: Any) -> None:
        """Take an event."""
        self.events.append(event)
        self.runs.clear()

    async def close(self) -> None:
        """Nothing is open."""


async def stopped(host: OneRun, mode: str = "graceful") -> list[Any]:
    """The events that the run saw when the starter was stopped."""
    watch = asyncio.get_running_loop().create_task(asyncio.sleep(3600))
    context: Any = SimpleNamespace(clock=SystemClock())
    stand_in: Any = host
    await app.Starter(context, stand_in, [watch]).stop(mode)
    return host.events


async def test_the_end_of_the_startds_stream_may_be_seen_after_the_order_to_stop() -> None:
    host = OneRun()
    asyncio.get_running_loop().call_later(0.1, setattr, host.startd, "listening", False)
    assert await stopped(host) == [events.Unwanted(report_gone=False)]


async def test_jobs_go_on_while_a_startd_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_HANG_UP_S", 0.05)
    assert await stopped(OneRun()) == []


async def test_a_fast_stop_ends_them_at_once() -> None:
    assert await stopped(OneRun(), "fast") == [events.Unwanted(report_gone=False)]
