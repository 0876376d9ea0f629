"""The endless loops of daemons go on after an error (`slotwise.daemon.tasks`)."""

from __future__ import annotations

import ast
import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import slotwise
from prometheus_client import generate_latest
from slotwise.backoff import Backoff
from slotwise.daemon import tasks
from slotwise.metrics import REGISTRY

PACKAGE = Path(slotwise.__file__).parent
#: What begins the loops anew; programs and libraries of users, whose own errors end what they were asked for.
NOT_DAEMONS = ("daemon/tasks.py", "cli", "client", "compat", "dag", "demo", "glidein", "wire/gen")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "PAUSES", Backoff(first_s=0.001, factor=1.0, most_s=0.001))
    monkeypatch.setattr(tasks, "failures", tasks.Failures())


async def test_a_loop_goes_on_after_an_error(caplog: pytest.LogCaptureFixture) -> None:
    rounds, third = 0, asyncio.Event()

    async def loop() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            if rounds == 3:
                third.set()
                await asyncio.Event().wait()
            raise ValueError(f"round {rounds}")

    with caplog.at_level(logging.ERROR):
        task = tasks.keep("trying", loop)
        await third.wait()
        await tasks.end(task, None)
    assert task.cancelled()
    assert [record.getMessage() for record in caplog.records] == [
        "trying failed, and goes on in 0.001 s: ValueError: round 1",
        "trying failed, and goes on in 0.001 s: ValueError: round 2",
    ]
    assert all(record.exc_info for record in caplog.records)
    assert tasks.failures.attributes() == {
        "BackgroundFailures": 2,
        "LastBackgroundFailure": "trying: ValueError: round 2",
    }
    assert b'slotwise_background_failures_total{work="trying"} 2.0' in generate_latest(REGISTRY)


async def test_a_loop_that_returns_is_over() -> None:
    async def once() -> None:
        return

    await tasks.keep("doing it once", once)
    assert tasks.failures.attributes() == {}


def _daemon_modules() -> Iterator[tuple[str, ast.Module]]:
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(NOT_DAEMONS):
            yield name, ast.parse(path.read_text())


def _called(node: ast.expr) -> str:
    """The name of a function, or of the one that is called: of a method of the same object, or of anything else."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Name):
        return target.id
    if not isinstance(target, ast.Attribute):
        return ""
    return target.attr if isinstance(target.value, ast.Name) and target.value.id == "self" else f".{target.attr}"


def _is_endless(node: ast.AsyncFunctionDef) -> bool:
    loops = (each for each in node.body if isinstance(each, ast.While))
    return any(isinstance(each.test, ast.Constant) for each in loops)


def test_no_endless_loop_is_a_task_that_an_error_ends() -> None:
    found = set()
    for module, tree in _daemon_modules():
        nodes = list(ast.walk(tree))
        endless = {node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef) and _is_endless(node)}
        calls = [node for node in nodes if isinstance(node, ast.Call) and _called(node).lstrip(".") == "create_task"]
        started = {_called(node.args[0]) for node in calls if node.args}
        found |= {f"{module}: {name}" for name in started & (endless | {".run", ".watch"})}
    assert found == set()
