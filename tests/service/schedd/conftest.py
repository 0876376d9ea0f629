from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.access_point import RunningAccessPoint
from tests.support.execution_point import ExecutionPoint


@pytest.fixture
async def schedd(tmp_path: Path) -> AsyncIterator[RunningAccessPoint]:
    running = await RunningAccessPoint(tmp_path / "pool").start()
    yield running
    await running.stop()


@pytest.fixture
async def point(schedd: RunningAccessPoint, tmp_path: Path) -> AsyncIterator[ExecutionPoint]:
    pretended = ExecutionPoint(tmp_path / "ep.sock", schedd.daemon_token)
    await pretended.start()
    yield pretended
    await pretended.stop()
