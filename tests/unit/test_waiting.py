"""How tests wait: what they get, and what a failure says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.waiting import block_until, until


def after(looks: int) -> Callable[[], object]:
    """A condition that holds from so many looks on."""
    answers: Iterator[object] = iter([*[None] * (looks - 1), "found"])
    return lambda: next(answers)


async def test_what_was_waited_for_is_returned() -> None:
    holds = after(3)

    async def asked() -> object:
        return holds()

    assert block_until(after(3)) == await until(after(3)) == await until(asked) == "found"


async def test_a_failure_says_what_was_waited_for_and_what_else_is_known() -> None:
    async def told() -> str:
        return "the log"

    with pytest.raises(AssertionError, match=r"^not within 0 s: the job runs\nthe log$"):
        await until(lambda: False, "the job runs", limit_s=0, told=told)
    with pytest.raises(AssertionError, match=r"^not within 0 s: the job runs\nthe log$"):
        block_until(lambda: False, "the job runs", limit_s=0, told=lambda: "the log")
    never: list[Any] = []
    with pytest.raises(AssertionError, match=r"block_until\(lambda: len\(never\) > 5, limit_s=0\)"):
        block_until(lambda: len(never) > 5, limit_s=0)
